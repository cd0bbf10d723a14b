//! Tests of the identity tools on the embedded devnet. Expected figures are computed by hand from the devnet's past,
//! `bardo_sandbox::agents::history`.

use alloy::providers::Provider as _;
use golem_protocols::erc8004::RegistryCall;

use super::*;
use bardo_abi::erc8004::{IdentityRegistry, ReputationRegistry};

/// Ids of the devnet's agents, in the order of their registration.
const HARBOR: u64 = 1;
const COPPERLINE: u64 = 4;
const FATHOM: u64 = 7;
const SUNRISE: u64 = 9;
const SIREN: u64 = 10;
const LOOKALIKE: u64 = 11;
const NAMELESS: u64 = 12;

fn agent(number: u64) -> Value {
    json!({"agent_id": format!("31337:{number}")})
}

fn near(value: &Value, wanted: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - wanted).abs() < 1e-3, "{value} is not {wanted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reputation_is_that_of_the_registrys_feedback() {
    let harness = harness(None);
    // Five clients of 58, 71, 83, 90 and 96, each rising: (58 + 71 + 83 + 90 + 96) / 5 = 79.6, which is 3.98 stars.
    let harbor = harness.data("identity_get_reputation_summary", agent(HARBOR)).await;
    assert_eq!(harbor["total_feedback"], 5);
    near(&harbor["average_score"], 3.98);
    // The last two weeks have 83, 90 and 96; before, 58 and 71.
    assert_eq!(harbor["recent_trend"], "improving");
    assert_eq!(harbor["tag_breakdown"]["liquidity"], 5);
    assert_eq!(harbor["tag_breakdown"]["reliable"], 4);
    let book = &harness.ethereum().network().book;
    let registry = book.contract(KnownContract::ReputationRegistry).unwrap();
    let clients = harness.ask(registry, ReputationRegistry::getClientsCall { agentId: U256::from(HARBOR) }).await;
    let call = ReputationRegistry::getSummaryCall {
        agentId: U256::from(HARBOR),
        clientAddresses: clients,
        tag1: String::new(),
        tag2: String::new(),
    };
    let summary = harness.ask(registry, call).await;
    assert_eq!((summary.count, summary.summaryValue), (5, 79), "the contract cuts the same mean");

    // Revoked feedback of 15 does not count: (93 + 90 + 74 + 52 + 38) / 5 = 69.4.
    let copperline = harness.data("identity_get_reputation_summary", agent(COPPERLINE)).await;
    assert_eq!((&copperline["total_feedback"], &copperline["recent_trend"]), (&json!(5), &json!("declining")));
    near(&copperline["average_score"], 3.47);

    // Five invented clients that rated no other agent weigh a quarter each, one real client counts whole: the evidence
    // is 5/4 · 1 + 0.05 positive and 0.95 negative, before the age of at most 121 hours (a factor above 0.96).
    let sunrise = harness.data("identity_get_reputation_summary", agent(SUNRISE)).await;
    let of = |place: usize| sunrise["beta_distribution"][place].as_f64().unwrap();
    assert!((2.24..=2.30).contains(&of(0)) && (1.90..=1.95).contains(&of(1)), "{sunrise}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_are_found_by_words_protocol_and_reputation() {
    let harness = harness(None);
    let names = async |params: Value| -> Vec<String> {
        let found = harness.data("identity_discover_agents", params).await;
        let agents = found["agents"].as_array().unwrap();
        agents.iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect()
    };
    // Of the agents that speak of swaps, only the first has the word in a tool or a skill.
    assert_eq!(names(json!({"query": "quote_swap", "chain": "ethereum"})).await, ["31337:0"]);
    assert_eq!(names(json!({"query": "LIQUIDITY", "chain": "ethereum"})).await[0], "31337:1", "by name first");
    let mcp = names(json!({"protocol": "mcp", "chain": "ethereum"})).await;
    assert_eq!(mcp.len(), 4, "{mcp:?}");
    // Average ratings of 90 and more: meridian (94, 92.5, 97, 95, 91, 98, 96), lantern (88, 93, 91) and old mill (91, 89).
    let mut best = names(json!({"min_reputation": 450, "chain": "ethereum"})).await;
    best.sort();
    assert_eq!(best, ["31337:0", "31337:3", "31337:8"]);
    // Meridian has by far the most evidence.
    assert_eq!(names(json!({"sort_by": "reputation", "chain": "ethereum"})).await[0], "31337:0");
    let page = harness.data("identity_discover_agents", json!({"limit": 12, "offset": 3})).await;
    // 13 on ethereum, 7 on base.
    assert_eq!((&page["total"], &page["has_more"]), (&json!(20), &json!(true)));
    assert_eq!(page["agents"].as_array().unwrap().len(), 12);
    let card = harness.data("identity_discover_agents", json!({"query": "meridian"})).await;
    let card = &card["agents"][0]["agent_card"];
    assert_eq!((&card["skills"], &card["resolved"]), (&json!(["swap-routing", "quotes"]), &json!(false)));
    for bad in [json!({"limit": 0}), json!({"limit": 101}), json!({"min_reputation": 501}), json!({"protocol": "http"})]
    {
        let (status, code) = harness.code("identity_discover_agents", bad.clone()).await;
        assert_eq!((status, code), (CallStatus::Error, ErrorCode::ValidationFailed), "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_is_that_of_the_contract_and_hostile_text_is_cleaned() {
    let harness = harness(None);
    let registry = harness.ethereum().network().book.contract(KnownContract::IdentityRegistry).unwrap();
    for number in [HARBOR, FATHOM] {
        let profile = harness.data("identity_get_agent_profile", agent(number)).await;
        let owner = harness.ask(registry, IdentityRegistry::ownerOfCall { tokenId: U256::from(number) }).await;
        let wallet = harness.ask(registry, IdentityRegistry::getAgentWalletCall { agentId: U256::from(number) }).await;
        assert_eq!(profile["owner"], owner.to_string());
        let wanted = if wallet.is_zero() { Value::Null } else { json!(wallet.to_string()) };
        assert_eq!(profile["wallet"], wanted);
    }
    let siren =
        harness.data("identity_get_agent_profile", json!({"agent_id": "31337:10", "include_feedback": true})).await;
    let text = siren.to_string();
    let hostile = |character: char| character.is_control() || ['\u{202e}', '\u{200b}'].contains(&character);
    assert!(!text.contains(hostile) && !text.contains("\\u001b"), "{text}");
    assert_eq!(siren["feedback_history"][0]["raw_value"], "10");
    let flags = harness.data("identity_evaluate_agent_trust", agent(SIREN)).await;
    assert!(flags["flags"].as_array().unwrap().contains(&json!("hostile_text")), "{flags}");
    for (number, status) in [(LOOKALIKE, "elsewhere"), (NAMELESS, "absent"), (HARBOR, "read")] {
        assert_eq!(harness.data("identity_get_agent_profile", agent(number)).await["file_status"], status);
    }
    for (bad, said) in [("31337:13", "no agent 13 is registered"), ("meridian", "name an agent by chain id")] {
        let error = harness.call("identity_get_agent_profile", json!({"agent_id": bad})).await.error.unwrap();
        assert_eq!(error.code(), ErrorCode::ValidationFailed);
        assert!(error.message().contains(said), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trust_and_tier_follow_their_parts() {
    let harness = harness(None);
    // Harbor: file 30, named 20, wallet 15, endpoint 15, active 10, registered in 2023, 10. Validated with 88.
    let trust = harness.data("identity_evaluate_agent_trust", agent(HARBOR)).await;
    let part = |name: &str| trust["breakdown"][name].as_u64().unwrap();
    assert_eq!((part("identity_score"), part("validation_score")), (100, 88));
    assert_eq!(trust["trust_score"], (20 * 100 + 50 * part("reputation_score") + 30 * 88) / 100);
    let validation = harness.data("identity_get_validation_status", agent(HARBOR)).await;
    assert_eq!((&validation["validated"], &validation["method"]), (&json!(true), &json!("stake-secured")));
    near(&validation["validation_score"], 88.0);
    // Sunrise has asked, and nobody has answered.
    let asked = harness.data("identity_get_validation_status", agent(SUNRISE)).await;
    assert_eq!((&asked["validated"], &asked["history"][0]["response"]), (&json!(false), &Value::Null));
    // Fathom was sold, and its buyer has set no wallet: 30 + 20 + 15 + 10 + 10.
    let fathom = harness.data("identity_evaluate_agent_trust", agent(FATHOM)).await;
    assert_eq!(fathom["breakdown"]["identity_score"], 85);
    assert_eq!(fathom["flags"], json!(["no_wallet", "no_validation"]));
    // Evidence after 23, 15, 9, 5 and 2 days at a half-life of 90: 0.58 · 0.8377 + 0.71 · 0.8909 + 0.83 · 0.9330 +
    // 0.90 · 0.9622 + 0.96 · 0.9847 = 3.704, which is 37 points; 20 for the validation, and 100 for the age.
    let tier = harness.data("identity_get_tier", agent(HARBOR)).await;
    assert_eq!(
        (&tier["points"], &tier["tier"], &tier["next_tier_threshold"]),
        (&json!(157), &json!("silver"), &json!(300))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_named_and_never_shown() {
    let mut world = ToolEnvironment::clone(&harness(Some(0)).world);
    world.credentials.push(crate::identity::Credential {
        name: "quotes".to_owned(),
        scopes: vec!["quotes".to_owned()],
        expires_at: Some(1_800_000_000),
    });
    let data = harness_in(world).data("identity_get_credentials", json!({})).await;
    assert_eq!(data["agent_id"], Value::Null, "the demo account owns no agent");
    // By `date -u -d @1800000000`.
    let key = json!({"name": "quotes", "scopes": ["quotes"], "expires_at": "2027-01-15 08:00:00Z"});
    assert_eq!(data["api_keys"], json!([key]));
}

/// Registers an agent directly, without the code under test.
async fn register(harness: &ToolHarness, sandbox: &Sandbox, account: usize) {
    let registry = harness.ethereum().network().book.contract(KnownContract::IdentityRegistry).unwrap();
    let provider = harness.ethereum().client.provider();
    let party = &bardo_sandbox::keys::DevnetAccount::development_accounts().unwrap()[account];
    let nonce = provider.get_transaction_count(sandbox.accounts()[account]).await.unwrap();
    let transaction = alloy::consensus::TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 3_000_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: registry.into(),
        value: U256::ZERO,
        access_list: Default::default(),
        input: RegistryCall::Register { uri: String::new(), metadata: Vec::new() }.calldata(),
    };
    let raw = alloy::eips::eip2718::Encodable2718::encoded_2718(&party.sign(transaction).unwrap());
    let receipt = provider.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap();
    assert!(receipt.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reorganisation_takes_a_registration_back_from_memory_and_from_the_database() {
    let sandbox = sandbox();
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("agents.db");
    let on = |sandbox: &Sandbox| {
        let harness = harness_on(sandbox, None);
        drop(ToolEnvironment::clone(&harness.world).keeping_agents(&database));
        harness
    };
    let kept = on(&sandbox);
    let provider = kept.ethereum().client.provider().clone();
    let ask = async |method: &'static str, params: Value| {
        let _: Value = provider.raw_request(method.into(), params).await.unwrap();
    };
    let total = async |harness: &ToolHarness| {
        let found = harness.data("identity_discover_agents", json!({"chain": "ethereum"})).await;
        found["total"].as_u64().unwrap()
    };
    assert_eq!(total(&kept).await, 13);
    register(&kept, &sandbox, 5).await;
    assert_eq!(total(&kept).await, 14);
    ask("anvil_reorg", json!([1, []])).await;
    assert_eq!(total(&kept).await, 13, "the block of the registration is gone");
    register(&kept, &sandbox, 5).await;
    // Deep enough to be final, and stored.
    ask("anvil_mine", json!(["0x50"])).await;
    assert_eq!(total(&kept).await, 14);
    // Another process, which reads the database.
    assert_eq!(total(&on(&sandbox)).await, 14);
    ask("anvil_reorg", json!([0x52, []])).await;
    assert_eq!(total(&kept).await, 13, "the index went back behind the registration");
    assert_eq!(total(&on(&sandbox)).await, 13);
    // A database of another chain with the same id is none of this one.
    let other = super::sandbox();
    register(&on(&other), &other, 6).await;
    assert_eq!(total(&on(&other)).await, 14);
    assert_eq!(total(&on(&sandbox)).await, 13);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registries_without_code_are_not_read() {
    let sandbox = sandbox();
    let harness = harness_on(&sandbox, None);
    let registry = harness.ethereum().network().book.contract(KnownContract::ReputationRegistry).unwrap();
    let provider = harness.ethereum().client.provider();
    let _: Value = provider.raw_request("anvil_setCode".into(), json!([registry, "0x"])).await.unwrap();
    let _: Value = provider.raw_request("anvil_mine".into(), json!(["0x1"])).await.unwrap();
    let error = harness.call("identity_get_tier", agent(0)).await.error.unwrap();
    assert_eq!(error.code(), ErrorCode::ChainUnsupported);
    assert!(error.message().contains("there is no contract at"), "{error}");
}
