//! Identity tools on the devnet's registries, from a registration to a transfer. Expected figures are computed by hand
//! from the formulas in the operator's guide, and facts are read from the contracts.

use std::time::Duration;

use alloy::consensus::TxEip1559;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc8004::{IdentityRegistry, ReputationRegistry};
use bardo::base::error::ErrorCode;
use bardo::chain::network::KnownContract;
use bardo::engine::{ApprovalMode, CallStatus, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::erc8004::RegistryCall;
use bardo::fabric::EventKind;
use bardo::runtime::questions::answering::answer;
use bardo::safety::approval::{Confirmation, OperatorAnswer};
use bardo::sandbox::agents;
use serde_json::{Value, json};

use bardo_testkit::golem_harness::{GolemHarness, permit};

/// Clients that have rated other agents in the devnet's past, so that their ratings count whole.
const CLIENTS: [&str; 6] = ["ada", "bo", "cleo", "dov", "eve", "finn"];
/// The devnet has agents 0 to 12.
const NEW: &str = "31337:13";

/// Tools that publish something under the account's name.
const PUBLISHING: [&str; 4] =
    ["identity_register_agent", "identity_update_metadata", "identity_submit_feedback", "identity_verify_agent"];

/// The harness with an executor of all tools.
struct Registered {
    harness: GolemHarness,
    executor: Executor,
}

impl Registered {
    fn new(harness: GolemHarness) -> Self {
        let executor = harness.operators_executor();
        Self { harness, executor }
    }

    /// Calls a tool; what publishes something is approved at once.
    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        let approve = PUBLISHING.contains(&tool).then_some(ApprovalMode::Always);
        self.executor.call(ToolCall { approve, ..ToolCall::new(tool, ToolInput::Json(params)) }).await
    }

    async fn data(&self, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, CallStatus::Success, "{tool}: {response:#?}");
        response.data.unwrap()
    }

    async fn register(&self) {
        let params = json!({
            "name": "Careful Golem", "description": "Swaps in small steps.",
            "registration": {"a2a_endpoint": "https://golem.example/card.json", "a2a_skills": ["small-steps"]},
        });
        let registered = self.data("identity_register_agent", params).await;
        assert_eq!(registered["agent_id"], NEW, "{registered}");
    }

    fn contract(&self, contract: KnownContract) -> Address {
        self.harness.world.chains()[0].network().book.contract(contract).unwrap()
    }

    async fn ask<C: SolCall>(&self, contract: KnownContract, call: C) -> C::Return {
        let request = TransactionRequest::default().with_to(self.contract(contract)).with_input(call.abi_encode());
        let answer = self.harness.world.chains()[0].client.provider().call(request).await.unwrap();
        C::abi_decode_returns(&answer).unwrap()
    }

    async fn owner(&self) -> Address {
        self.ask(KnownContract::IdentityRegistry, IdentityRegistry::ownerOfCall { tokenId: U256::from(13) }).await
    }

    /// Sends a registry call from an account of the devnet's past.
    async fn from(&self, key: &str, contract: KnownContract, call: RegistryCall) {
        self.send(key, contract, call.calldata()).await;
    }

    /// Sends calldata from an account of the devnet's past.
    async fn send(&self, key: &str, contract: KnownContract, input: Bytes) {
        let party = agents::account(key).unwrap();
        let provider = self.harness.world.chains()[0].client.provider();
        // Wallets of agents hold nothing.
        let funded = json!([party.address(), "0xde0b6b3a7640000"]);
        let _: Value = provider.raw_request("anvil_setBalance".into(), funded).await.unwrap();
        let transaction = TxEip1559 {
            chain_id: 31_337,
            nonce: provider.get_transaction_count(party.address()).await.unwrap(),
            gas_limit: 1_000_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to: self.contract(contract).into(),
            value: U256::ZERO,
            access_list: Default::default(),
            input,
        };
        let raw = alloy::eips::eip2718::Encodable2718::encoded_2718(&party.sign(transaction).unwrap());
        let receipt = provider.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap();
        assert!(receipt.status());
    }

    async fn rate(&self, client: &str) {
        let call = RegistryCall::GiveFeedback {
            agent: U256::from(13),
            value: 100,
            decimals: 0,
            tags: ["reliable".to_owned(), String::new()],
            endpoint: String::new(),
            uri: String::new(),
            hash: B256::ZERO,
        };
        self.from(client, KnownContract::ReputationRegistry, call).await;
    }
}

/// Approves the next question as an operator who reads and types what it asks for; gives what the decision forecasts.
fn approving(harness: &GolemHarness) -> tokio::task::JoinHandle<String> {
    let queue = harness.acting.pipeline.approval_queue().clone();
    tokio::spawn(async move {
        let mut changes = queue.watch();
        let preview = loop {
            if let Some(asked) = queue.pending().into_iter().next() {
                break asked.preview.clone();
            }
            changes.changed().await.unwrap();
        };
        let expected = preview.permit.expected_outcome.to_string();
        let confirm = bardo::safety::approval::requirement(&preview);
        let typed = confirm.confirm.map(|typed| typed.expected);
        let read = confirm.to_read.into_iter().map(|warning| warning.text).collect();
        answer(&queue, preview.permit.permit_id, OperatorAnswer::Once, Confirmation { read, typed }, None).unwrap();
        expected
    })
}

fn new_agent() -> Value {
    json!({"agent_id": NEW})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_registered_found_rated_and_validated() {
    let world = Registered::new(GolemHarness::with_policy("preset = \"demo\"\n").await);
    let me = world.harness.world.account.unwrap();
    world.register().await;
    assert_eq!(world.owner().await, me);
    let found = world.data("identity_discover_agents", json!({"query": "small-steps"})).await;
    assert_eq!((&found["total"], &found["agents"][0]["agent_id"]), (&json!(1), &json!(NEW)));

    // File 30, named 20, wallet 15, endpoint 15, active 10: 90. Reputation without ratings 21: (2 · 90 + 5 · 21) / 7.
    let trust = world.data("identity_evaluate_agent_trust", new_agent()).await;
    assert_eq!((&trust["trust_score"], &trust["breakdown"]["identity_score"]), (&json!(40), &json!(90)));
    assert_eq!(trust["flags"], json!(["no_ratings", "no_validation"]));
    let tier = world.data("identity_get_tier", new_agent()).await;
    assert_eq!((&tier["tier"], &tier["points"]), (&json!("bronze"), &json!(0)));

    for client in CLIENTS {
        world.rate(client).await;
    }
    // Six whole ratings of 100: α = 7, β = 1. 7/8 − √(7 / (64 · 9)) = 0.875 − 0.1102 = 0.7648.
    let reputation = world.data("identity_get_reputation_summary", new_agent()).await;
    assert_eq!((&reputation["total_feedback"], &reputation["average_score"]), (&json!(6), &json!(5.0)));
    assert_eq!(reputation["score"], 76);
    assert!((reputation["beta_distribution"][0].as_f64().unwrap() - 7.0).abs() < 0.01);
    // Ten points for each rating.
    assert_eq!(world.data("identity_get_tier", new_agent()).await["points"], 60);

    for (validator, uri, response) in
        [("prover", "https://proofs.example/1", 90), ("enclave", "https://proofs.example/2", 85)]
    {
        let address = agents::account(validator).unwrap().address();
        let proof = json!({"validator": address.to_string(), "uri": uri});
        let params = json!({"agent_id": NEW, "method": "zkml", "proof": proof});
        let asked = world.data("identity_verify_agent", params).await;
        assert_eq!(asked["validation_score"], Value::Null, "its validator has yet to answer");
        let request: B256 = asked["request_hash"].as_str().unwrap().parse().unwrap();
        let (uri, hash, tag) = (String::new(), B256::ZERO, "zkml".to_owned());
        let call = RegistryCall::RespondValidation { request, response, uri, hash, tag };
        world.from(validator, KnownContract::ValidationRegistry, call).await;
    }
    // (90 + 85) / 2 = 87; (20 · 90 + 50 · 76 + 30 · 87) / 100 = 82.1; 60 + 2 · 20 points, where silver begins.
    let trust = world.data("identity_evaluate_agent_trust", new_agent()).await;
    assert_eq!((&trust["trust_score"], &trust["recommendation"]), (&json!(82), &json!("high_value")));
    assert_eq!(trust["flags"], json!([]));
    let tier = world.data("identity_get_tier", new_agent()).await;
    assert_eq!((&tier["tier"], &tier["points"]), (&json!("silver"), &json!(100)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_published_without_the_operators_approval() {
    let world = Registered::new(GolemHarness::with_policy("preset = \"demo\"\n").await);
    world.register().await;
    let validator = agents::account("prover").unwrap().address();
    let proof = json!({"validator": validator.to_string(), "uri": "https://proofs.example/1"});
    let asked = [
        json!({"name": "Another", "description": "Not asked for.", "registration": {"a2a_endpoint": "https://another.example/card.json"}}),
        json!({"agent_id": NEW, "updates": {"a2a_endpoint": "https://elsewhere.example/card.json"}}),
        json!({"agent_id": "31337:0", "score": 100, "review": "Never used."}),
        json!({"agent_id": NEW, "method": "zkml", "proof": proof}),
    ];
    for (tool, params) in PUBLISHING.into_iter().zip(asked) {
        let call = ToolCall::new(tool, ToolInput::Json(params));
        let refused = world.executor.call(ToolCall { approve: Some(ApprovalMode::Never), ..call }).await;
        let error = refused.error.unwrap();
        assert_eq!(error.code(), ErrorCode::ApprovalRequired, "{tool}: {error}");
        let details = Value::Object(error.details().clone()).to_string();
        assert!(details.contains("\"publishes\""), "{tool}: {details}");
    }
    let found = world.data("identity_discover_agents", json!({"limit": 50, "chain": "ethereum"})).await;
    assert_eq!(found["total"], 14, "the devnet's thirteen and the one that was approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_is_written_on_the_networks_scale_and_never_by_the_agents_own_accounts() {
    let world = Registered::new(GolemHarness::with_policy("preset = \"demo\"\n").await);
    let me = world.harness.world.account.unwrap();
    world.register().await;
    let params = json!({"agent_id": NEW, "score": 500});
    let refused = world.call("identity_submit_feedback", params).await.error.unwrap();
    assert_eq!(refused.code(), ErrorCode::ValidationFailed);
    assert!(refused.message().contains("may not rate it"), "{refused}");

    let params = json!({"agent_id": "31337:0", "score": 425, "tag1": "fast", "review": "Quoted as filled."});
    let given = world.data("identity_submit_feedback", params).await;
    assert_eq!(given["feedback_id"], format!("31337:0:{me}:1"));
    let call = ReputationRegistry::readFeedbackCall { agentId: U256::ZERO, clientAddress: me, feedbackIndex: 1 };
    let read = world.ask(KnownContract::ReputationRegistry, call).await;
    // 4.25 of 5 stars are 85.00 of 100.
    assert_eq!((read.value, read.valueDecimals, read.tag1.as_str()), (8_500, 2, "fast"));
    let profile =
        world.data("identity_get_agent_profile", json!({"agent_id": "31337:0", "include_feedback": true})).await;
    let newest = &profile["feedback_history"][0];
    assert_eq!((&newest["value"], &newest["counted"]), (&json!(425), &json!(true)));
    assert_eq!(newest["review"], "Quoted as filled.");
    for score in [-1, 501] {
        let refused = world.call("identity_submit_feedback", json!({"agent_id": "31337:0", "score": score})).await;
        let error = refused.error.unwrap();
        assert!(error.message().contains("expected 0 to 500"), "{error}");
    }
    // Whatever ours does, the contract lets a wallet rate its agent; it does not count.
    world
        .from(
            "meridian wallet",
            KnownContract::ReputationRegistry,
            RegistryCall::GiveFeedback {
                agent: U256::ZERO,
                value: 100,
                decimals: 0,
                tags: [String::new(), String::new()],
                endpoint: String::new(),
                uri: String::new(),
                hash: B256::ZERO,
            },
        )
        .await;
    let profile =
        world.data("identity_get_agent_profile", json!({"agent_id": "31337:0", "include_feedback": true})).await;
    assert_eq!(profile["feedback_history"][0]["counted"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_operator_cannot_rate_the_agent_and_a_former_one_does_not_count() {
    let world = Registered::new(GolemHarness::with_policy("preset = \"demo\"\n").await);
    let me = world.harness.world.account.unwrap();
    let owner = world.ask(KnownContract::IdentityRegistry, IdentityRegistry::ownerOfCall { tokenId: U256::ZERO }).await;
    let key = "meridian";
    assert_eq!(agents::account(key).unwrap().address(), owner);
    let approve = async |approved: bool| {
        let call = IdentityRegistry::setApprovalForAllCall { operator: me, approved };
        world.send(key, KnownContract::IdentityRegistry, call.abi_encode().into()).await;
    };
    let rating = || json!({"agent_id": "31337:0", "score": 500});
    approve(true).await;
    let refused = world.call("identity_submit_feedback", rating()).await.error.unwrap();
    assert_eq!(refused.code(), ErrorCode::ValidationFailed);
    assert!(refused.message().contains("may not rate it"), "{refused}");
    // Once it is an operator no more, the contract takes the rating, and the reputation ignores it.
    approve(false).await;
    world.data("identity_submit_feedback", rating()).await;
    let params = json!({"agent_id": "31337:0", "include_feedback": true});
    let profile = world.data("identity_get_agent_profile", params).await;
    let newest = &profile["feedback_history"][0];
    assert_eq!((&newest["client_address"], &newest["counted"]), (&json!(me.to_string()), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_changes_only_in_the_named_fields_and_only_for_the_owner() {
    let world = Registered::new(GolemHarness::with_policy("preset = \"demo\"\n").await);
    world.register().await;
    let params = json!({"agent_id": NEW, "updates": {"active": false, "tool_endpoint": "https://golem.example/mcp"}});
    let changed = world.data("identity_update_metadata", params).await;
    assert_eq!(changed["fields_updated"], json!(["tool_endpoint", "active"]));
    assert_eq!(changed["confirmed"], true);
    let profile = world.data("identity_get_agent_profile", new_agent()).await;
    assert_eq!((&profile["name"], &profile["active"]), (&json!("Careful Golem"), &json!(false)));
    let registration = &profile["registration"];
    assert_eq!(registration["tool_endpoint"], "https://golem.example/mcp");
    assert_eq!(registration["a2a_skills"], json!(["small-steps"]));
    for (params, said) in [
        (json!({"agent_id": "31337:0", "updates": {"active": false}}), "does not operate it"),
        (json!({"agent_id": NEW, "updates": {}}), "at least one field"),
        (json!({"agent_id": NEW, "updates": {"active": false}}), "nothing would change"),
        (json!({"agent_id": NEW, "updates": {"name": ""}}), "it is empty"),
        (json!({"agent_id": NEW, "updates": {"name": "\u{202e}evil"}}), "direction"),
        (json!({"agent_id": NEW, "updates": {"a2a_endpoint": "http://golem.example"}}), "https://"),
        (json!({"agent_id": NEW, "updates": {"active": true}, "chain_id": 31338}), "is not on"),
    ] {
        let refused = world.call("identity_update_metadata", params.clone()).await.error.unwrap();
        assert_eq!(refused.code(), ErrorCode::ValidationFailed, "{params}");
        assert!(refused.message().contains(said), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_transferred_only_by_the_operators_decision() {
    let world = Registered::new(GolemHarness::asking("preset = \"demo\"\n").await);
    world.register().await;
    let me = world.harness.world.account.unwrap();
    let buyer = agents::account("fathom buyer").unwrap().address();
    let params = json!({"agent_id": NEW, "new_owner": buyer.to_string()});
    let call = ToolCall::new("identity_transfer_ownership", ToolInput::Json(params.clone()));
    let refused = world.executor.call(ToolCall { approve: Some(ApprovalMode::Never), ..call }).await;
    assert_eq!(refused.error.unwrap().code(), ErrorCode::ApprovalRequired);
    assert_eq!(world.owner().await, me);
    let status = world.data("wallet_get_status", json!({})).await;
    let link = json!({"agent_id": NEW, "chain_id": 31_337, "role": "owner"});
    assert_eq!(status["identity_status"], link);

    let mut events = world.harness.fabric.subscribe(10_000);
    let answering = approving(&world.harness);
    let call = world.data("identity_transfer_ownership", params);
    let moved = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap();
    let expected = answering.await.unwrap();
    assert!(expected.contains(&format!("{NEW} \"Careful Golem\" to {buyer}")), "{expected}");
    assert_eq!((&moved["confirmed"], world.owner().await), (&json!(true), buyer));
    let mut seen = Vec::new();
    while events.try_receive(&mut seen, 1_000) {}
    let verified = seen.iter().filter_map(|event| match &event.kind {
        EventKind::ToolVerified(verified) => Some(verified.matched),
        _ => None,
    });
    assert_eq!(verified.collect::<Vec<_>>(), [true]);

    let profile = world.data("identity_get_agent_profile", new_agent()).await;
    assert_eq!((&profile["owner"], &profile["wallet"]), (&json!(buyer.to_string()), &Value::Null));
    let trust = world.data("identity_evaluate_agent_trust", new_agent()).await;
    assert_eq!(trust["flags"], json!(["no_wallet", "recently_transferred", "no_ratings", "no_validation"]));
    assert_eq!((&trust["recommendation"], &trust["confidence"]), (&json!("low_value"), &json!(0.0)));
    let status = world.data("wallet_get_status", json!({})).await;
    assert_eq!(status["identity_status"], Value::Null, "it is the buyer's now");
    let params = json!({"agent_id": NEW, "updates": {"active": false}});
    let refused = world.call("identity_update_metadata", params).await.error.unwrap();
    assert!(refused.message().contains("does not operate it"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_golem_asks_about_agents_through_its_api() {
    let harness = GolemHarness::with_policy("preset = \"demo\"\n").await;
    let golem = harness.golem("ada", "identity-verifier");
    let asked = golem.call("query_state", json!({"query": "reputation", "params": {"agent_id": "31337:1"}})).await;
    assert_eq!(asked.status, CallStatus::Success, "{asked:#?}");
    // (58 + 71 + 83 + 90 + 96) / 5 = 79.6 of 100.
    assert!(asked.data.unwrap().to_string().contains("3.98"));
}

/// Every identity tool that has a kind of action, previewed and committed by a Golem, each by the operator's decision. What
/// came of it is read from the contracts.
#[tokio::test(flavor = "multi_thread")]
async fn a_golem_registers_updates_rates_and_hands_over_through_its_api() {
    let world = Registered::new(GolemHarness::asking("preset = \"demo\"\n").await);
    let me = world.harness.world.account.unwrap();
    let golem = world.harness.golem("ada", "agent-keeper");
    let act = async |kind: &str, params: Value| {
        let action = json!({"kind": kind, "why": "a test", "params": params});
        let previewed = golem.call("preview_action", action).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{kind}: {previewed:#?}");
        let answering = approving(&world.harness);
        let committed = golem.call("commit_action", permit(&previewed)).await;
        assert_eq!(committed.status, CallStatus::Success, "{kind}: {committed:#?}");
        answering.await.unwrap();
        committed.data.unwrap()
    };

    let registration = json!({"a2a_endpoint": "https://golem.example/card.json", "a2a_skills": ["small-steps"]});
    let params = json!({"name": "Careful Golem", "description": "Swaps in small steps.", "registration": registration});
    let registered = act("register-agent", params).await;
    assert_eq!((&registered["agent_id"], world.owner().await), (&json!(NEW), me));

    let params = json!({"agent_id": NEW, "updates": {"description": "Swaps in smaller steps.", "active": false}});
    let updated = act("update-agent", params).await;
    assert_eq!(updated["fields_updated"], json!(["description", "active"]));
    let uri =
        world.ask(KnownContract::IdentityRegistry, IdentityRegistry::tokenURICall { tokenId: U256::from(13) }).await;
    let encoded = uri.strip_prefix("data:application/json;base64,").unwrap();
    let file = alloy::hex::decode(as_hex(encoded)).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!((&file["name"], &file["active"]), (&json!("Careful Golem"), &json!(false)));
    assert_eq!(file["description"], "Swaps in smaller steps.");

    let params = json!({"agent_id": "31337:0", "score": 425, "tag1": "fast", "review": "Quoted as filled."});
    let rated = act("rate-agent", params).await;
    assert_eq!(rated["feedback_id"], format!("31337:0:{me}:1"));
    let call = ReputationRegistry::readFeedbackCall { agentId: U256::ZERO, clientAddress: me, feedbackIndex: 1 };
    let read = world.ask(KnownContract::ReputationRegistry, call).await;
    assert_eq!((read.value, read.valueDecimals, read.tag1.as_str()), (8_500, 2, "fast"));

    let buyer = agents::account("fathom buyer").unwrap().address();
    act("hand-over-agent", json!({"agent_id": NEW, "new_owner": buyer.to_string()})).await;
    assert_eq!(world.owner().await, buyer);
    // It is somebody else's now: what its file says and whom it belongs to, no Golem of ours may change.
    for (kind, params) in [
        ("update-agent", json!({"agent_id": NEW, "updates": {"active": true}})),
        ("hand-over-agent", json!({"agent_id": NEW, "new_owner": me.to_string()})),
    ] {
        let refused = golem.call("preview_action", json!({"kind": kind, "why": "a test", "params": params})).await;
        assert!(refused.error.is_some(), "{kind}: {refused:#?}");
    }
}

/// Base64 as hexadecimal digits, by hand: four characters are three bytes.
fn as_hex(base64: &str) -> String {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = base64.trim_end_matches('=').chars().map(|digit| digits.find(digit).unwrap());
    let bits: String = values.map(|value| format!("{value:06b}")).collect();
    let bytes = bits.as_bytes().chunks_exact(8).map(|byte| std::str::from_utf8(byte).unwrap());
    bytes.map(|byte| format!("{:02x}", u8::from_str_radix(byte, 2).unwrap())).collect()
}
