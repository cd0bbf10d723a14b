//! Preview, commit, cancel, query, remember, stop; and the tools of each archetype.

use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{SolCall as _, SolValue as _};
use bardo::abi::erc7540::{LagoonFactory, LagoonInit};
use bardo::base::contracts::KnownContract;
use bardo::base::error::ErrorCode;
use bardo::base::model::{Phase, StopLevel};
use bardo::base::text::SafeText;
use bardo::engine::{CallStatus, Catalog, ToolResponse};
use bardo::fabric::EventKind;
use bardo::golem::agent_api::{ACTION_KINDS, AGENT_TOOLS, AgentSession, AgentTool};
use bardo::golem::memory::{Episode, EpisodeOutcome, Topic};
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::SandboxToken;
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};

use bardo_testkit::golem_harness::{GolemHarness, drain, permit, swap};

fn code(response: &ToolResponse) -> ErrorCode {
    response.error.as_ref().unwrap_or_else(|| panic!("{response:#?}")).code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_is_committed_once_and_remembered() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "golem-instance");
    let mut events = harness.events();
    let before = harness.sent().await;
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.1")).await;
    assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
    let data = previewed.data.as_ref().unwrap();
    assert_eq!(data["delegation"], json!(["golem-instance", "trade-executor"]));
    assert!(data["reads"]["uniswap_get_quote"]["amount_out"].is_string(), "{data:#}");
    assert_eq!((harness.sent().await, golem.open_offers()), (before, 1));
    // Another hash is another action; the offer stays open.
    let mut wrong = permit(&previewed);
    wrong["simulation_hash"] = json!(format!("0x{}", "11".repeat(32)));
    let refused = golem.call("commit_action", wrong).await;
    assert_eq!((code(&refused), refused.status), (ErrorCode::PermitMismatch, CallStatus::Blocked));
    assert_eq!((harness.sent().await, golem.open_offers()), (before, 1));
    let done = golem.call("commit_action", permit(&previewed)).await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    assert_eq!(done.call_id, previewed.call_id, "one call from preview to receipt");
    // The allowance for Permit2, and the swap.
    assert_eq!(harness.sent().await, before + 2);
    let again = golem.call("commit_action", permit(&previewed)).await;
    assert_eq!((code(&again), again.status), (ErrorCode::PermitConsumed, CallStatus::Blocked));
    assert_eq!(harness.sent().await, before + 2);
    // One call in the events: one start, one end.
    let told = drain(&mut events);
    let of = |wanted: fn(&EventKind) -> bool| {
        told.iter().filter(|event| event.call_id == Some(done.call_id) && wanted(&event.kind)).count()
    };
    assert_eq!(of(|kind| matches!(kind, EventKind::ToolStart(_))), 1);
    assert_eq!(of(|kind| matches!(kind, EventKind::ToolEnd(_))), 1);
    assert_eq!(of(|kind| matches!(kind, EventKind::PermitConsumed(_))), 1);
    // And one episode in the memory.
    let topic = Topic::of("swap", &swap("WETH", "USDC", "0.1")["params"]);
    let last = golem.memory().alike(&topic, 10).unwrap();
    assert_eq!((last.len(), last[0].outcome), (1, EpisodeOutcome::Done));
    assert!(last[0].cents > 30_000 && last[0].slipped_bps.is_some(), "{:?}", last[0]);
    let found = golem.call("query_grimoire", json!({"query": "WETH USDC"})).await;
    assert_eq!(found.data.unwrap()["hits"].as_array().unwrap().len(), 1);
}

/// Places an auction of a few seconds through preview and commit; returns its hash.
async fn auctioned(golem: &AgentSession, params: &Value) -> B256 {
    let previewed = golem.call("preview_action", params.clone()).await;
    let placed = golem.call("commit_action", permit(&previewed)).await;
    assert_eq!(placed.status, CallStatus::Partial, "{placed:#?}");
    placed.data.unwrap()["order_hash"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_auction_is_remembered_and_later_ones_get_more_time() {
    let harness = GolemHarness::new().await.with_orders();
    let golem = harness.golem("ada", "golem-instance");
    let chain = &harness.sandbox().chains()[0];
    chain.background_actors.order_service().set_fillers_rest(true);
    let orders = harness.acting.pipeline.orders().unwrap().clone();
    let params = json!({"kind": "auction", "params": {
        "token_in": "WETH", "token_out": "USDC", "amount": "0.05", "chain": "ethereum",
        "decay_end_time": 30,
    }});
    let topic = Topic::of("auction", &params["params"]);
    let last = || golem.memory().alike(&topic, 10).unwrap();
    for number in 1..=2 {
        let hash = auctioned(&golem, &params).await;
        assert_eq!((last().len(), last()[0].outcome), (number, EpisodeOutcome::Open));
        let nudge = || async { drop(chain.devnet.mine().await.unwrap()) };
        let record = orders.wait(hash, Duration::from_secs(120), nudge).await.unwrap();
        assert_eq!((record.status.as_str(), record.is_live()), ("expired", false), "{record:#?}");
        // The memory query has found the order's end.
        let found = golem.call("query_grimoire", json!({"query": "expired"})).await;
        assert_eq!(found.data.unwrap()["hits"].as_array().unwrap().len(), number);
        assert_eq!(
            (last()[0].outcome, last()[0].code.as_deref()),
            (EpisodeOutcome::Lapsed, Some("UNISWAPX_ORDER_EXPIRED"))
        );
        assert!(last()[0].lesson.as_str().contains("nobody filled it in time"), "{:?}", last()[0]);
    }
    let previewed = golem.call("preview_action", params.clone()).await;
    let changes = &previewed.data.as_ref().unwrap()["memory"]["changes"];
    assert_eq!(changes, &json!(["30 s to 60 s for the auction: 2 of the last 3 similar lapsed"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn experience_tightens_the_next_swap_and_says_so() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "golem-instance");
    for _ in 0..3 {
        let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.02")).await;
        assert_eq!(golem.call("commit_action", permit(&previewed)).await.status, CallStatus::Success);
    }
    let mut events = harness.events();
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.02")).await;
    let data = previewed.data.as_ref().unwrap();
    assert_eq!(data["memory"]["similar"], 3);
    let change = data["memory"]["changes"][0].as_str().unwrap();
    assert!(change.starts_with("slippage 50 bps to 1") && change.contains("the worst of 3 similar"), "{change}");
    let told = drain(&mut events);
    let told = told.iter().any(|event| matches!(&event.kind, EventKind::MemoryHits(hits) if hits.similar == 3));
    assert!(told);
    // An archetype without the memory category learns nothing.
    let other = harness.golem("bob", "trade-executor");
    for _ in 0..4 {
        let previewed = other.call("preview_action", swap("WETH", "USDC", "0.02")).await;
        assert_eq!(previewed.data.as_ref().unwrap()["memory"], json!({"similar": 0, "changes": []}));
        assert_eq!(other.call("commit_action", permit(&previewed)).await.status, CallStatus::Success);
    }
}

/// Swaps that failed for lack of slippage ask for more, but never for so much that the next one is refused for it.
#[tokio::test(flavor = "multi_thread")]
async fn experience_requests_no_more_slippage_than_phase_and_policy_allow() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "golem-instance");
    let mut params = swap("WETH", "USDC", "0.02");
    let topic = Topic::of("swap", &params["params"]);
    for at in 0..3 {
        let failed = Episode {
            at,
            call_id: String::new(),
            topic: topic.clone(),
            cents: 6_800,
            phase: Phase::Thriving,
            outcome: EpisodeOutcome::Failed,
            code: Some("EXECUTION_TX_REVERTED".to_owned()),
            allowed_bps: Some(28),
            slipped_bps: None,
            expected: SafeText::clean("", 1),
            actual: SafeText::clean("", 1),
            difference: SafeText::clean("", 1),
            lesson: SafeText::clean("", 1),
        };
        golem.memory().record(failed).await.unwrap();
    }
    params["params"]["slippage_bps"] = json!(28);
    // Cautious permits 30 bps, and 28 plus a quarter would be 35.
    for (phase, to) in [(Phase::Thriving, 35), (Phase::Cautious, 30)] {
        harness.phase.send_replace(phase);
        let previewed = golem.call("preview_action", params.clone()).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{phase}: {previewed:#?}");
        let change = previewed.data.as_ref().unwrap()["memory"]["changes"][0].as_str().unwrap().to_owned();
        assert!(change.starts_with(&format!("slippage 28 bps to {to} bps: ")), "{change}");
        assert_eq!(change.ends_with("phase and policy allow no more"), phase == Phase::Cautious, "{change}");
    }
}

/// The same pair is one topic in any spelling.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_pair_is_independent_of_its_spelling() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "golem-instance");
    let address = harness.address(SandboxToken::Weth).to_string();
    for (from, to, chain) in [("weth", "USDC", "31337"), (&*address, "usdc", "Ethereum"), ("WETH", "USDC", "ethereum")]
    {
        let mut action = swap(from, to, "0.01");
        action["params"]["chain"] = json!(chain);
        let previewed = golem.call("preview_action", action).await;
        let done = golem.call("commit_action", permit(&previewed)).await;
        assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    }
    // Memories from before the unified spelling are found under it.
    let topic = Topic::of("swap", &swap("WETH", "USDC", "1")["params"]);
    assert_eq!(golem.memory().alike(&topic, 10).unwrap().len(), 3);
    let mut action = swap(&address.to_lowercase(), "Usdc", "0.01");
    action["params"]["chain"] = json!("31337");
    let previewed = golem.call("preview_action", action).await;
    assert_eq!(previewed.data.as_ref().unwrap()["memory"]["similar"], 3, "{previewed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_or_dropped_offers_are_never_signed() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "trade-executor");
    let before = harness.sent().await;
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.1")).await;
    let gone = golem.call("cancel_action", json!({"permit_id": permit(&previewed)["permit_id"]})).await;
    assert_eq!(gone.status, CallStatus::Success);
    assert_eq!(code(&golem.call("commit_action", permit(&previewed)).await), ErrorCode::PermitExpired);
    // Dropped with its session, as when a brain is killed: no offer stays open.
    let mut events = harness.events();
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.1")).await;
    drop(golem);
    let ended = async {
        loop {
            let told = drain(&mut events);
            let over = |event: &&std::sync::Arc<bardo::fabric::Event>| {
                event.call_id == Some(previewed.call_id) && matches!(event.kind, EventKind::ToolEnd(_))
            };
            if told.iter().any(|event| over(&event)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), ended).await.unwrap();
    assert_eq!(harness.sent().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_halt_blocks_everything_and_withdraws_offers() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "trade-executor");
    let before = harness.sent().await;
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.1")).await;
    let halted = golem.call("emergency_halt", json!({"reason": "the price feed looks wrong"})).await;
    assert_eq!(halted.data.as_ref().unwrap()["offers_taken_back"], 1);
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Halt));
    assert_eq!(code(&golem.call("commit_action", permit(&previewed)).await), ErrorCode::PermitExpired);
    let refused = golem.call("preview_action", swap("WETH", "USDC", "0.1")).await;
    assert_eq!((code(&refused), refused.status), (ErrorCode::Halted, CallStatus::Blocked));
    assert_eq!(harness.sent().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_golem_has_only_the_tools_of_its_role() {
    let harness = GolemHarness::new().await;
    let trader = harness.golem("ada", "trade-executor");
    let researcher = harness.golem("bob", "pool-researcher");
    assert!(trader.catalog().get("uniswap_execute_swap").is_some());
    assert!(researcher.catalog().get("uniswap_execute_swap").is_none());
    assert_eq!(trader.call("preview_action", swap("WETH", "USDC", "0.1")).await.status, CallStatus::Simulated);
    let refused = researcher.call("preview_action", swap("WETH", "USDC", "0.1")).await;
    assert_eq!(code(&refused), ErrorCode::ToolUnknown);
    let message = refused.error.as_ref().unwrap().message().to_owned();
    assert!(message.contains("which the role `pool-researcher` does not have"), "{message}");
    let pools = json!({"query": "chain", "params": {"chain": "ethereum"}});
    assert_eq!(researcher.call("query_state", pools).await.status, CallStatus::Success);
    // Only the eight tools answer, under no name of a concrete tool.
    for def in ALL_TOOL_DEFS {
        assert_eq!(code(&trader.call(def.meta.name, json!({})).await), ErrorCode::ToolUnknown, "{}", def.meta.name);
    }
    // And no write answers a query.
    let asked = json!({"query": "uniswap_execute_swap", "params": {}});
    assert_eq!(code(&trader.call("query_state", asked).await), ErrorCode::ValidationFailed);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_phases_block_entries_and_pass_exits() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "trade-executor");
    for phase in [Phase::Defensive, Phase::Survival, Phase::Terminal] {
        harness.phase.send_replace(phase);
        let refused = golem.call("preview_action", swap("USDC", "UNI", "50")).await;
        assert_eq!((code(&refused), refused.status), (ErrorCode::SafetyPhaseBlocked, CallStatus::Blocked), "{phase}");
    }
    for phase in [Phase::Thriving, Phase::Cautious] {
        harness.phase.send_replace(phase);
        let mut small = swap("USDC", "UNI", "50");
        small["params"]["slippage_bps"] = json!(30);
        let passes = golem.call("preview_action", small).await;
        assert_eq!(passes.status, CallStatus::Simulated, "{phase}: {passes:#?}");
    }
    for phase in [Phase::Defensive, Phase::Survival] {
        harness.phase.send_replace(phase);
        let exit = golem.call("preview_action", swap("WETH", "USDC", "0.1")).await;
        assert_eq!(exit.status, CallStatus::Simulated, "{phase}: {exit:#?}");
    }
}

/// A state is saved and loaded by its kinds, at once and without a permit, also by a Golem that has stopped itself; another
/// Golem does not see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_golem_keeps_notes_of_its_own() {
    let harness = GolemHarness::new().await;
    let (ada, bob) = (harness.golem("ada", "golem-instance"), harness.golem("bob", "golem-instance"));
    let save = |number: u64| json!({"kind": "save-state", "params": {"state": {"n": number}}});
    let load = json!({"query": "agent-state"});
    let saved = ada.call("preview_action", save(1)).await;
    assert_eq!(
        (saved.status, &saved.data.as_ref().unwrap()["version"]),
        (CallStatus::Success, &json!(1)),
        "{saved:#?}"
    );
    assert_eq!(ada.open_offers(), 0);
    let decision = json!({"kind": "record-decision", "params": {"decision_summary": "wait for a lower price"}});
    let recorded = ada.call("preview_action", decision).await;
    assert_eq!(recorded.status, CallStatus::Success, "{recorded:#?}");
    assert_eq!(ada.call("query_state", load.clone()).await.data.unwrap()["state"], json!({"n": 1}));
    assert_eq!(bob.call("query_state", load.clone()).await.data.unwrap()["version"], 0);
    // Notes are no trades to learn from.
    let found = ada.call("query_grimoire", json!({"query": "save-state"})).await;
    assert_eq!(found.data.unwrap()["hits"].as_array().unwrap().len(), 0);
    let halted = ada.call("emergency_halt", json!({"reason": "a test"})).await;
    assert_eq!(halted.status, CallStatus::Success, "{halted:#?}");
    let saved = ada.call("preview_action", save(2)).await;
    assert_eq!(
        (saved.status, &saved.data.as_ref().unwrap()["version"]),
        (CallStatus::Success, &json!(2)),
        "{saved:#?}"
    );
}

#[test]
fn unavailable_action_kinds_name_the_missing_tool() {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    assert!(ACTION_KINDS.len() > 40);
    for kind in ACTION_KINDS {
        let lacks = kind.lacks(&catalog);
        let exist = kind.reads.iter().chain([&kind.acts]).filter(|tool| catalog.get(tool).is_some()).count();
        assert_eq!(exist + lacks.len(), kind.reads.len() + 1, "{}", kind.name);
    }
    for works in ["swap", "approve", "revoke", "transfer"] {
        let kind = ACTION_KINDS.iter().find(|kind| kind.name == works).unwrap();
        assert!(kind.lacks(&catalog).is_empty(), "{works}");
    }
}

#[test]
fn the_eight_agent_tools_have_closed_schemas() {
    assert_eq!(AGENT_TOOLS.len(), 8);
    for tool in AGENT_TOOLS {
        let schema = tool.schema();
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&json!("object"), &json!(false)),
            "{}",
            tool.name
        );
    }
    let Value::Array(listed) = AgentTool::openai() else { panic!("no list") };
    assert_eq!(listed.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_cannot_name_writing_tools() {
    let harness = GolemHarness::new().await;
    let golem = harness.golem("ada", "trade-executor");
    let before = harness.sent().await;
    // Complete and within every limit: as a query it must still have no effect.
    let approve = json!({"token": "USDC", "spender": "0x000000000022D473030F116dDEE9F6B43aC78BA3", "amount": "5",
        "chain": "ethereum"});
    let swap = json!({"token_in": "USDC", "token_out": "WETH", "amount": "5", "chain": "ethereum",
        "prefer_uniswapx": false});
    for (tool, params) in [("token_approve", approve), ("uniswap_execute_swap", swap)] {
        let refused = golem.call("query_state", json!({"query": tool, "params": params})).await;
        assert_eq!((refused.status, code(&refused)), (CallStatus::Error, ErrorCode::ValidationFailed), "{refused:#?}");
        assert!(refused.error.unwrap().message().contains("there is no query"));
    }
    assert_eq!(harness.sent().await, before, "nothing was signed");
}

/// A vault of the account's own keeps running under a halt, so the halt comes with the preview of its pause, which the operator
/// decides about.
#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_halt_proposes_to_pause_a_managed_vault() {
    // Its address is the same on every devnet.
    let first = GolemHarness::new().await;
    let (factory, create) = own_vault(&first);
    let request = TransactionRequest::default()
        .from(DevnetAccount::development_accounts().unwrap().swap_remove(9).address())
        .to(factory)
        .input(create.clone().into());
    let made = first.world.chains()[0].client.provider().call(request).await.unwrap();
    let vault = Address::abi_decode(&made).unwrap();
    // The account's rules on chain take the functions that may be called from the policy: here `pause()`, by its selector.
    let policy = format!(
        "preset = \"demo\"\nallowed_vaults = [\"devnet-ethereum:{vault}\"]\n\
         allowed_contracts = [\"devnet-ethereum:{vault}:0x8456cb59\"]\n"
    );
    let harness = GolemHarness::with_policy(&policy).await.counting_calls();
    harness.outside(TxKind::Call(factory), create).await;
    let golem = harness.golem("ada", "vault-manager");
    let halted = golem.call("emergency_halt", json!({"reason": "a valuation looks wrong"})).await;
    let data = halted.data.as_ref().unwrap();
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Halt));
    let pauses = data["vault_pauses"].as_array().unwrap();
    assert_eq!(pauses.len(), 1, "{data:#}");
    assert_eq!(pauses[0]["vault"]["vault_address"], json!(vault.to_string()));
    assert!(pauses[0]["preview"]["error"].is_null(), "{data:#}");
    assert_eq!(pauses[0]["preview"]["data"]["kind"], "vault-pause", "{data:#}");
    assert_eq!((golem.open_offers(), data["vaults_not_read"].as_array().unwrap().len()), (1, 0));
}

/// Address of the factory, and the call by which anybody makes a vault that belongs to the harness's account.
fn own_vault(harness: &GolemHarness) -> (Address, Bytes) {
    let chain = &harness.world.chains()[0];
    let me = harness.world.account.unwrap();
    let init = LagoonInit {
        underlying: harness.address(SandboxToken::Usdc),
        name: "V".to_owned(),
        symbol: "V".to_owned(),
        safe: me,
        whitelistManager: me,
        valuationManager: me,
        admin: me,
        feeReceiver: me,
        managementRate: 0,
        performanceRate: 0,
        enableWhitelist: false,
        rateUpdateCooldown: U256::ZERO,
    };
    let create = LagoonFactory::createVaultProxyCall {
        logic: Address::ZERO,
        initialOwner: me,
        initialDelay: U256::from(86_400),
        init,
        salt: B256::ZERO,
    };
    let factory = chain.network().book.contract(KnownContract::AsyncVaultFactory).unwrap();
    (factory, create.abi_encode().into())
}
