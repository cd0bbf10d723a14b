//! The operator's exits, which a hostile agent tries to block: with worthless orders of the same pair, and with a halt
//! while the operator's holdings are sold.

use std::path::Path;
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::error::ErrorCode;
use bardo::base::id::GolemId;
use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::engine::{CallStatus, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::fabric::EventKind;
use bardo::golem::agent_api::{AgentConfig, AgentSession};
use bardo::golem::memory::{Documents, Memory};
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::safety::stop::StopFile;
use bardo::session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::{sleep, timeout};

use bardo_testkit::golem_harness::{GolemHarness, permit, swap};

fn code(answer: &ToolResponse) -> Option<ErrorCode> {
    answer.error.as_ref().map(|error| error.code())
}

/// Call that places an order for almost an hour at a price that nobody pays.
fn order(amount: &str) -> ToolCall {
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum",
                        "decay_end_time": 3_000, "slippage_bps": 0});
    ToolCall::new("uniswap_submit_uniswapx_order", ToolInput::Json(params))
}

fn sale(amount: &str) -> ToolCall {
    ToolCall::new("uniswap_execute_swap", ToolInput::Json(swap("WETH", "USDC", amount)["params"].clone()))
}

async fn place(executor: &Executor, amount: &str) -> String {
    let placed = executor.call(order(amount)).await;
    assert_eq!(placed.status, CallStatus::Partial, "{placed:#?}");
    placed.data.unwrap()["order_hash"].as_str().unwrap().to_owned()
}

async fn is_open(executor: &Executor, hash: &str) -> bool {
    let params = json!({"order_hash": hash});
    let response = executor.call(ToolCall::new("uniswap_get_uniswapx_order_status", ToolInput::Json(params))).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    response.data.unwrap()["status"] == "open"
}

/// Policy whose limits block none of the trades here.
const HIGH_LIMITS: &str = "preset = \"demo\"\ncooldown_seconds = 0\nrequire_human_approval_above_usd = \"100000\"\n\
                    max_single_trade_usd = \"100000\"\nmax_daily_spend_usd = \"100000\"\n[spending_limits]\n\
                    hot_lane = \"100000\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_dust_order_does_not_block_the_operators_exit() {
    let harness = GolemHarness::with_policy(HIGH_LIMITS).await.with_orders();
    let (mallory, operator) =
        (harness.executor("mallory", "trade-executor"), harness.executor("operator", "trade-executor"));
    let dust = place(&mallory, "0.00001").await;
    // The balance covers both: the sale succeeds, and the order stays open.
    let part = operator.call(sale("0.01")).await;
    assert_eq!(part.status, CallStatus::Success, "{part:#?}");
    assert!(is_open(&mallory, &dust).await);
    // The agent that placed the order still cannot sell beside it.
    assert_eq!(code(&mallory.call(sale("0.01")).await), Some(ErrorCode::OrderStillOpen));
    let all = operator.call(sale("max")).await;
    assert_eq!(all.status, CallStatus::Success, "{all:#?}");
    assert_eq!(all.decision_hints.unwrap()["cancelled_orders"], json!([dust]));
    assert!(!is_open(&mallory, &dust).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_own_open_order_blocks_their_sale() {
    let harness = GolemHarness::with_policy(HIGH_LIMITS).await.with_orders();
    let operator = harness.executor("operator", "trade-executor");
    let own = place(&operator, "0.01").await;
    for amount in ["0.01", "max"] {
        assert_eq!(code(&operator.call(sale(amount)).await), Some(ErrorCode::OrderStillOpen), "{amount}");
        assert!(is_open(&operator, &own).await, "only the operator cancels it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_signs_no_order_under_a_stop() {
    let harness = GolemHarness::with_policy(HIGH_LIMITS).await.with_orders();
    let (mallory, operator) =
        (harness.executor("mallory", "trade-executor"), harness.executor("operator", "trade-executor"));
    for level in [StopLevel::ExitOnly, StopLevel::Flatten] {
        harness.stop.raise(level, "a test", "operator", 1).unwrap();
        let refused = mallory.call(order("0.00001")).await;
        assert_eq!(
            (code(&refused), refused.status),
            (Some(ErrorCode::Halted), CallStatus::Blocked),
            "{level}: {refused:#?}"
        );
        let sold = mallory.call(sale("0.01")).await;
        assert_eq!(sold.status, CallStatus::Success, "an immediate exit passes: {sold:#?}");
    }
    place(&operator, "0.01").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_the_operators_flatten_an_emergency_halt_stops_only_its_own_golem() {
    let harness = GolemHarness::with_policy(HIGH_LIMITS).await;
    let (mallory, ada) = (harness.golem("mallory", "trade-executor"), harness.golem("ada", "trade-executor"));
    harness.stop.raise(StopLevel::Flatten, "enough", "operator", 1).unwrap();
    // The console pauses everything while the operator chooses a level. That must not hide the flatten set before.
    let hold = harness.stop.hold("held", "operator", 2).unwrap().unwrap();
    let previewed = ada.call("preview_action", swap("WETH", "USDC", "0.01")).await;
    assert_eq!(code(&previewed), Some(ErrorCode::Halted), "{previewed:#?}");
    let halted = mallory.call("emergency_halt", json!({"reason": "the feed looks wrong"})).await;
    assert_eq!(halted.data.as_ref().unwrap()["stopped"], "this Golem", "{halted:#?}");
    harness.stop.release(&hold).unwrap();
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Flatten));

    let offered = ada.call("preview_action", swap("WETH", "USDC", "0.01")).await;
    assert_eq!(offered.status, CallStatus::Simulated, "{offered:#?}");
    let halted = ada.call("emergency_halt", json!({"reason": "the feed looks wrong"})).await;
    let expected = json!({"level": "flatten", "stopped": "this Golem", "offers_taken_back": 1});
    assert_eq!(halted.data, Some(expected), "{halted:#?}");
    assert!(halted.explanation.as_deref().unwrap().contains("operator's flatten stays in force"), "{halted:#?}");
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Flatten));
    assert_eq!(code(&ada.call("commit_action", permit(&offered)).await), Some(ErrorCode::PermitExpired));
    let refused = ada.call("preview_action", swap("WETH", "USDC", "0.01")).await;
    assert_eq!((code(&refused), refused.status), (Some(ErrorCode::Halted), CallStatus::Blocked));
    // The agent can still revoke, others can exit, and the operator's decision ends the halt.
    let revoke = json!({"kind": "revoke", "params": {"token": "USDC", "chain": "ethereum"}});
    assert_ne!(code(&ada.call("preview_action", revoke).await), Some(ErrorCode::Halted));
    let bob = harness.golem("bob", "trade-executor");
    assert_eq!(bob.call("preview_action", swap("WETH", "USDC", "0.01")).await.status, CallStatus::Simulated);
    let sold = harness.executor("operator", "trade-executor").call(sale("0.01")).await;
    assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
    bardo_testkit::proof::lift(harness.stop.path().parent().unwrap());
    assert_eq!(ada.call("preview_action", swap("WETH", "USDC", "0.01")).await.status, CallStatus::Simulated);

    // Without a flatten by the operator, an emergency halt stops everything.
    harness.stop.raise(StopLevel::Flatten, "so it says", "some program", 3).unwrap();
    let halted = ada.call("emergency_halt", json!({"reason": "the feed looks wrong"})).await;
    assert_eq!(halted.data.as_ref().unwrap()["stopped"], "everything", "{halted:#?}");
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Halt));
}

/// A hostile Golem that places orders or halts again and again, under every stop.
struct HostileGolem {
    places_orders: bool,
    halts: bool,
}

impl Actor for HostileGolem {
    fn live(self: Box<Self>, mut context: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let folder = tempfile::tempdir().unwrap();
            let golem = AgentSession::new(AgentConfig {
                all: context.executor.catalog().clone(),
                executor: context.executor.clone(),
                roles: context.roles.clone(),
                role: context.role.to_string(),
                memory: Memory::new(context.store.clone(), context.golem_id.clone()),
                documents: Documents::new(folder.path().join("golem"), folder.path(), "devnet", &context.golem_id),
                goal: None,
                stop: context.stop_file.clone(),
                halts_as: context.halts_as.clone(),
                phase: context.phase.subscribe(),
                clock: context.clock.clone(),
                fabric: context.fabric.clone(),
                golem_id: context.golem_id.clone(),
            })
            .unwrap();
            let attack = async {
                loop {
                    if self.places_orders {
                        context.executor.call(order("0.00001")).await;
                    }
                    if self.halts && context.stop_file.read().level() == Some(StopLevel::Flatten) {
                        golem.call("emergency_halt", json!({"reason": "the feed looks wrong"})).await;
                    }
                    sleep(Duration::from_millis(300)).await;
                }
            };
            tokio::select! {
                () = attack => {}
                _left = context.leaving.wait_for(|leaving| *leaving) => {}
            }
        })
    }
}

/// Adds the Golem's thoughts and order states to `messages` until one contains one of `ends`.
async fn until(
    news: &mut tokio::sync::mpsc::Receiver<SessionNews>,
    messages: &mut Vec<String>,
    what: &str,
    ends: &[&str],
) {
    let follow = async {
        while !messages.iter().any(|one| ends.iter().any(|end| one.contains(end))) {
            let Some(SessionNews::Events(events)) = news.recv().await else { continue };
            for event in events {
                match &event.kind {
                    EventKind::GolemThought(thought) => messages.push(thought.text.to_string()),
                    EventKind::OrderUpdate(update) => messages.push(format!("order {:?}", update.status)),
                    _ => {}
                }
            }
        }
    };
    let over = timeout(Duration::from_secs(240), follow).await;
    assert!(over.is_ok(), "did not happen in time: {what}: {messages:#?}");
}

/// Raises the stop to flatten in a session with this actor, and waits until WETH is sold or not. Returns the messages,
/// and the stop then in force.
async fn flatten_session(home: &Path, hostile: HostileGolem) -> (Vec<String>, Option<StopLevel>) {
    std::fs::write(home.join("policy-devnet.toml"), HIGH_LIMITS).unwrap();
    let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    let waits_for_order = hostile.places_orders;
    let opened = Session::open_with(config, SessionOptions::default(), Box::new(hostile));
    let SessionHandle { commands, mut news } = opened;
    let mut messages = Vec::new();
    if waits_for_order {
        until(&mut news, &mut messages, "an order is open", &["order Open"]).await;
    }
    let send = |command| commands.send(AddressedCommand { golem_id: GolemId::operator(), command });
    let reason = SafeText::clean("enough", 20);
    send(SessionCommand::Raise { level: StopLevel::Flatten, reason }).await.unwrap();
    let ends = ["Sold all WETH on ethereum", "WETH on ethereum was not sold", "WETH on ethereum:"];
    until(&mut news, &mut messages, "WETH is sold or reported as unsold", &ends).await;
    let level = StopFile::in_folder(&home.join("data")).read().level();
    send(SessionCommand::Leave(LeaveMode::Now)).await.unwrap();
    while !matches!(news.recv().await, Some(SessionNews::Left(_)) | None) {}
    (messages, level)
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_dust_orders_of_an_agent_do_not_stop_a_liquidation() {
    let home = tempfile::tempdir().unwrap();
    let (messages, level) = flatten_session(home.path(), HostileGolem { places_orders: true, halts: false }).await;
    assert!(messages.iter().any(|one| one.starts_with("Sold all WETH on ethereum")), "{messages:#?}");
    assert_eq!(level, Some(StopLevel::Flatten));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_halts_of_an_agent_do_not_stop_a_liquidation() {
    let home = tempfile::tempdir().unwrap();
    let (messages, level) = flatten_session(home.path(), HostileGolem { places_orders: false, halts: true }).await;
    assert!(messages.iter().any(|one| one.starts_with("Sold all WETH on ethereum")), "{messages:#?}");
    assert!(
        messages.iter().any(|one| one.contains("I stopped myself")),
        "the operator is informed of it: {messages:#?}"
    );
    assert_eq!(level, Some(StopLevel::Flatten));
}
