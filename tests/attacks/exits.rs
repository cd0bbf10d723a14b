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

/// An order for almost an hour that asks for more than anyone pays.
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
    let told = executor.call(ToolCall::new("uniswap_get_uniswapx_order_status", ToolInput::Json(params))).await;
    assert_eq!(told.status, CallStatus::Success, "{told:#?}");
    told.data.unwrap()["status"] == "open"
}

const CALM: &str = "preset = \"demo\"\ncooldown_seconds = 0\nrequire_human_approval_above_usd = \"100000\"\n\
                    max_single_trade_usd = \"100000\"\nmax_daily_spend_usd = \"100000\"\n[spending_limits]\n\
                    hot_lane = \"100000\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_dust_order_does_not_block_the_operators_exit() {
    let harness = GolemHarness::with_policy(CALM).await.with_orders();
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
    let harness = GolemHarness::with_policy(CALM).await.with_orders();
    let operator = harness.executor("operator", "trade-executor");
    let own = place(&operator, "0.01").await;
    for amount in ["0.01", "max"] {
        assert_eq!(code(&operator.call(sale(amount)).await), Some(ErrorCode::OrderStillOpen), "{amount}");
        assert!(is_open(&operator, &own).await, "nobody cancels it but the operator");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_signs_no_order_under_a_stop() {
    let harness = GolemHarness::with_policy(CALM).await.with_orders();
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
        assert_eq!(sold.status, CallStatus::Success, "an exit at once passes: {sold:#?}");
    }
    place(&operator, "0.01").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_the_operators_flatten_an_emergency_halt_stops_only_its_own_golem() {
    let harness = GolemHarness::with_policy(CALM).await;
    let (mallory, ada) = (harness.golem("mallory", "trade-executor"), harness.golem("ada", "trade-executor"));
    harness.stop.raise(StopLevel::Flatten, "enough", "operator", 1).unwrap();
    // The console holds everything while the operator chooses; that does not hide a flatten that was set before.
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
    let told = json!({"level": "flatten", "stopped": "this Golem", "offers_taken_back": 1});
    assert_eq!(halted.data, Some(told), "{halted:#?}");
    assert!(halted.explanation.as_deref().unwrap().contains("operator's flatten stays in force"), "{halted:#?}");
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Flatten));
    assert_eq!(code(&ada.call("commit_action", permit(&offered)).await), Some(ErrorCode::PermitExpired));
    let refused = ada.call("preview_action", swap("WETH", "USDC", "0.01")).await;
    assert_eq!((code(&refused), refused.status), (Some(ErrorCode::Halted), CallStatus::Blocked));
    // The agent can still revoke, everyone else can exit, and the operator's decision ends the halt.
    let revoke = json!({"kind": "revoke", "params": {"token": "USDC", "chain": "ethereum"}});
    assert_ne!(code(&ada.call("preview_action", revoke).await), Some(ErrorCode::Halted));
    let bob = harness.golem("bob", "trade-executor");
    assert_eq!(bob.call("preview_action", swap("WETH", "USDC", "0.01")).await.status, CallStatus::Simulated);
    let sold = harness.executor("operator", "trade-executor").call(sale("0.01")).await;
    assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
    bardo_testkit::proof::lift(harness.stop.path().parent().unwrap());
    assert_eq!(ada.call("preview_action", swap("WETH", "USDC", "0.01")).await.status, CallStatus::Simulated);

    // Without a flatten of the operator it stops everything.
    harness.stop.raise(StopLevel::Flatten, "so it says", "some program", 3).unwrap();
    let halted = ada.call("emergency_halt", json!({"reason": "the feed looks wrong"})).await;
    assert_eq!(halted.data.as_ref().unwrap()["stopped"], "everything", "{halted:#?}");
    assert_eq!(harness.stop.read().level(), Some(StopLevel::Halt));
}

/// A hostile Golem that retries again and again, under every stop.
struct Hostile {
    places_orders: bool,
    halts: bool,
}

impl Actor for Hostile {
    fn live(self: Box<Self>, mut seat: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let folder = tempfile::tempdir().unwrap();
            let golem = AgentSession::new(AgentConfig {
                all: seat.executor.catalog().clone(),
                executor: seat.executor.clone(),
                roles: seat.roles.clone(),
                role: seat.role.to_string(),
                memory: Memory::new(seat.store.clone(), seat.golem_id.clone()),
                documents: Documents::new(folder.path().join("golem"), folder.path(), "devnet", &seat.golem_id),
                goal: None,
                stop: seat.stop_file.clone(),
                halts_as: seat.halts_as.clone(),
                phase: seat.phase.subscribe(),
                clock: seat.clock.clone(),
                fabric: seat.fabric.clone(),
                golem_id: seat.golem_id.clone(),
            })
            .unwrap();
            let attack = async {
                loop {
                    if self.places_orders {
                        seat.executor.call(order("0.00001")).await;
                    }
                    if self.halts && seat.stop_file.read().level() == Some(StopLevel::Flatten) {
                        golem.call("emergency_halt", json!({"reason": "the feed looks wrong"})).await;
                    }
                    sleep(Duration::from_millis(300)).await;
                }
            };
            tokio::select! {
                () = attack => {}
                _left = seat.leaving.wait_for(|leaving| *leaving) => {}
            }
        })
    }
}

/// Collects the session's Golem messages until one contains one of `ends`.
async fn until(news: &mut tokio::sync::mpsc::Receiver<SessionNews>, said: &mut Vec<String>, what: &str, ends: &[&str]) {
    let follow = async {
        while !said.iter().any(|one| ends.iter().any(|end| one.contains(end))) {
            let Some(SessionNews::Events(events)) = news.recv().await else { continue };
            for event in events {
                match &event.kind {
                    EventKind::GolemThought(thought) => said.push(thought.text.to_string()),
                    EventKind::OrderUpdate(update) => said.push(format!("order {:?}", update.status)),
                    _ => {}
                }
            }
        }
    };
    let over = timeout(Duration::from_secs(240), follow).await;
    assert!(over.is_ok(), "it never came: {what}: {said:#?}");
}

/// Flattens a session with this actor; returns the messages about WETH, and the stop then in force.
async fn flattened(home: &Path, hostile: Hostile) -> (Vec<String>, Option<StopLevel>) {
    std::fs::write(home.join("policy-devnet.toml"), CALM).unwrap();
    let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    let waits = hostile.places_orders;
    let opened = Session::open_with(config, SessionOptions::default(), Box::new(hostile));
    let SessionHandle { commands, mut news } = opened;
    let mut said = Vec::new();
    if waits {
        until(&mut news, &mut said, "an order is open", &["order Open"]).await;
    }
    let send = |command| commands.send(AddressedCommand { golem_id: GolemId::operator(), command });
    let reason = SafeText::clean("enough", 20);
    send(SessionCommand::Raise { level: StopLevel::Flatten, reason }).await.unwrap();
    let ends = ["Sold all WETH on ethereum", "WETH on ethereum was not sold", "WETH on ethereum:"];
    until(&mut news, &mut said, "what became of WETH", &ends).await;
    let level = StopFile::in_folder(&home.join("data")).read().level();
    send(SessionCommand::Leave(LeaveMode::Now)).await.unwrap();
    while !matches!(news.recv().await, Some(SessionNews::Left(_)) | None) {}
    (said, level)
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_dust_orders_of_an_agent_do_not_stop_a_liquidation() {
    let home = tempfile::tempdir().unwrap();
    let (said, level) = flattened(home.path(), Hostile { places_orders: true, halts: false }).await;
    assert!(said.iter().any(|one| one.starts_with("Sold all WETH on ethereum")), "{said:#?}");
    assert_eq!(level, Some(StopLevel::Flatten));
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_halts_of_an_agent_do_not_stop_a_liquidation() {
    let home = tempfile::tempdir().unwrap();
    let (said, level) = flattened(home.path(), Hostile { places_orders: false, halts: true }).await;
    assert!(said.iter().any(|one| one.starts_with("Sold all WETH on ethereum")), "{said:#?}");
    assert!(said.iter().any(|one| one.contains("I stopped myself")), "the operator reads that it did: {said:#?}");
    assert_eq!(level, Some(StopLevel::Flatten));
}
