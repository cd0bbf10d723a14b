//! Liquidation of whole positions of any value: sold in parts that each fit the policy, as far as the day's limit
//! permits, with a report about the rest. Whole sessions on the devnet, in simulated time.

use std::path::Path;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::engine::CallStatus;
use bardo::fabric::{EventKind, OrderStatus};
use bardo::runtime::data::DataFolder;
use bardo::safety::stop::StopFile;
use bardo::session::handle::SessionCommand;
use bardo::session::questions::{OperatorAnswer, PlannedAmount, Question, RequestSubject};
use serde_json::json;

use crate::on_death::{SessionLog, WatchedSession, databases};

/// Scenario that buys UNI for three times the limit per trade, then its prices fall by 22 %.
const BUYS_AND_DIES: &str = r#"
name = "short-life"
about = "It buys thrice and dies."

[[beat]]
at = 2
do = "act"
params = { kind = "swap", params = { token_in = "USDC", token_out = "UNI", amount = "60", chain = "ethereum", prefer_uniswapx = false } }
expect = ["success"]

[[beat]]
at = 8
do = "act"
params = { kind = "swap", params = { token_in = "USDC", token_out = "UNI", amount = "60", chain = "ethereum", prefer_uniswapx = false } }
expect = ["success"]

[[beat]]
at = 14
do = "act"
params = { kind = "swap", params = { token_in = "USDC", token_out = "UNI", amount = "60", chain = "ethereum", prefer_uniswapx = false } }
expect = ["success"]

[[cue]]
at = 30
do = { market = { bps = -2200, blocks = 8 } }

[[cue]]
at = 90
do = { phase = { is = "Terminal" } }
"#;

/// Scenario that does nothing, and dies when prices fall by 22 %. Its moments are stepped, so that the fall waits for
/// the test's actions.
const RESTS_AND_DIES: &str = r#"
name = "short-life"
about = "It does nothing and dies."

[[beat]]
at = 0
now = "Resting."

[[cue]]
at = 600
do = { market = { bps = -2200, blocks = 8 } }

[[cue]]
at = 700
do = { phase = { is = "Terminal" } }
"#;

/// Scenario that does nothing.
const RESTS: &str = r#"
name = "short-life"
about = "It does nothing."

[[beat]]
at = 1
now = "Resting."
"#;

/// Scenario that halts everything by itself.
const STOPS: &str = r#"
name = "short-life"
about = "It stops everything."

[[beat]]
at = 5
do = "emergency_halt"
params = { reason = "the feed looks wrong" }
expect = ["success"]
"#;

/// Counted amounts of the operator's own trades, in millionths of a dollar, in order.
fn sales(home: &Path) -> Vec<i64> {
    let all = databases(home).into_iter().filter_map(|connection| {
        let mut query = connection
            .prepare(
                "SELECT micros FROM ledger_reservation WHERE golem_id = 'operator' AND trade = 1 AND state = 'done'",
            )
            .ok()?;
        Some(query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect::<Vec<i64>>())
    });
    all.flatten().collect()
}

/// Total amount spent by all actors, in millionths of a dollar.
fn spent(home: &Path) -> i64 {
    let total = "SELECT coalesce(sum(settled_micros), 0) FROM ledger_reservation";
    databases(home)
        .iter()
        .filter_map(|connection| connection.query_row(total, [], |row| row.get::<_, i64>(0)).ok())
        .sum()
}

/// Kinds of the audit log's entries, in order.
fn audit_kinds(home: &Path) -> Vec<String> {
    let all = databases(home).into_iter().filter_map(|connection| {
        let mut query = connection.prepare("SELECT kind FROM audit_entry ORDER BY seq").ok()?;
        Some(query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect::<Vec<String>>())
    });
    all.flatten().collect()
}

/// Stop file of this home.
fn stop_file(home: &Path) -> StopFile {
    let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    StopFile::in_folder(DataFolder::of(&config).root())
}

/// Stop file of the scenario that runs in this home, which has its own data directory.
fn scenario_stop_file(home: &Path) -> StopFile {
    let folder = stop_file(home).path().parent().unwrap().join("shows");
    let shows: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let folders: Vec<_> = shows.iter().filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1, "{shows:?}");
    StopFile::in_folder(folders[0])
}

fn policy(home: &Path, lines: &str) {
    std::fs::write(home.join("policy-devnet.toml"), format!("preset = \"demo\"\n{lines}")).unwrap();
}

/// Lets the operator place an order at a price that nobody pays within half an hour.
async fn place_order(watched: &mut WatchedSession) {
    let params = json!({
        "token_in": "WETH", "token_out": "USDC", "amount": "0.02", "chain": "ethereum",
        "decay_end_time": 3_000,
    });
    let tool = "uniswap_submit_uniswapx_order".to_owned();
    watched
        .send(SessionCommand::Call { ticket: 1, tool, params, dry_run: false, idempotency_key: None, unasked: false })
        .await;
    watched.until("the order is placed", |log| !log.replies.is_empty()).await;
    assert_eq!(watched.log.replies[0].status, CallStatus::Partial, "{:?}", watched.log.replies);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_golems_holdings_are_sold_in_parts_whatever_the_daily_limit() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "max_single_trade_usd = \"70\"\nmax_daily_spend_usd = \"500\"\n");
    let mut watched = WatchedSession::open(home.path(), "sell", BUYS_AND_DIES);
    watched.until("it holds UNI", |log| log.holds("UNI") == Some(true)).await;
    watched.until("it dies", |log| log.died()).await;
    watched.until("UNI is sold", |log| log.has_thought("Sold all UNI on ethereum.")).await;
    // Four and a half WETH far exceed the limits of a trade and of the day; a sale counts with its possible loss.
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum. It took ")).await;
    assert!(watched.log.questions.is_empty(), "each part is below the approval limit");
    watched.end().await;
    let sales = sales(home.path());
    assert!(sales.len() >= 5, "{sales:?}");
    assert!(sales.iter().all(|one| *one <= 1_000_000_000), "no part is above the approval limit: {sales:?}");
    let spent = spent(home.path());
    assert!((1..=500_000_000).contains(&spent), "possible losses and gas are within the daily limit: {spent}");
    let audit_kinds = audit_kinds(home.path());
    let at = |kind: &str| {
        audit_kinds.iter().position(|one| one == kind).unwrap_or_else(|| panic!("no {kind}: {audit_kinds:?}"))
    };
    assert!(at("golem:died") < at("liquidation:planned") && at("liquidation:planned") < at("liquidation:ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_on_death_cancels_all_open_orders_of_the_account() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "max_single_trade_usd = \"70\"\nmax_daily_spend_usd = \"500\"\n");
    let mut watched = WatchedSession::open_by_steps(home.path(), "sell", RESTS_AND_DIES);
    watched.until("it holds WETH", |log| log.holds("WETH") == Some(true)).await;
    // An order of the operator, not of the dying Golem.
    place_order(&mut watched).await;
    for _moment in ["the fall", "its death"] {
        watched.send(SessionCommand::Step).await;
    }
    watched.until("it dies", |log| log.died()).await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum.")).await;
    let cancelled =
        watched.log.events.iter().any(
            |event| matches!(&event.kind, EventKind::OrderUpdate(update) if update.status == OrderStatus::Cancelled),
        );
    assert!(cancelled, "the order would block the sale of its pair");
    watched.end().await;
}

/// Shares of vaults are withdrawn before anything is sold, and none stays.
#[tokio::test(flavor = "multi_thread")]
async fn flatten_withdraws_from_vaults_before_it_sells() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = WatchedSession::open(home.path(), "keep", RESTS);
    watched.until("it holds WETH", |log| log.holds("WETH") == Some(true)).await;
    let (tool, params) = ("vault_deposit".to_owned(), json!({"amount": "150", "chain": "ethereum"}));
    watched
        .send(SessionCommand::Call { ticket: 1, tool, params, dry_run: false, idempotency_key: None, unasked: false })
        .await;
    watched.until("it is deposited", |log| !log.replies.is_empty()).await;
    let deposited = &watched.log.replies[0];
    assert_eq!(deposited.status, CallStatus::Success, "{deposited:#?}");
    let in_vault = |log: &SessionLog| {
        let held = log.snapshot.iter().flat_map(|snapshot| &snapshot.holdings).flat_map(|chain| &chain.positions);
        held.filter(|row| row.name.as_str() == "Vault").map(|row| row.value.map(|usd| usd.to_string())).next()
    };
    watched.until("its shares are shown", |log| in_vault(log).is_some()).await;
    let worth: f64 = in_vault(&watched.log).unwrap().unwrap().parse().unwrap();
    assert!((worth - 150.0).abs() < 3.0, "{worth}");
    let reason = SafeText::clean("enough", 20);
    watched.send(SessionCommand::Raise { level: StopLevel::Flatten, reason }).await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum.")).await;
    let begun = watched.log.events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolStart(start) => Some(start.tool_name.to_string()),
        _ => None,
    });
    let begun: Vec<String> = begun.collect();
    let place = |tool: &str| begun.iter().position(|one| one == tool).unwrap_or_else(|| panic!("{tool}: {begun:?}"));
    assert!(place("vault_withdraw") < place("uniswap_execute_swap"), "{begun:?}");
    assert!(!watched.log.has_thought("shares of the vault"), "nothing stays");
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flatten_cancels_orders_and_sells_in_parts() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "max_single_trade_usd = \"100\"\nmax_daily_spend_usd = \"450\"\n");
    let mut watched = WatchedSession::open(home.path(), "keep", RESTS);
    watched.until("it holds WETH", |log| log.holds("WETH") == Some(true)).await;
    place_order(&mut watched).await;
    let reason = SafeText::clean("enough", 20);
    watched.send(SessionCommand::Raise { level: StopLevel::Flatten, reason }).await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum. It took ")).await;
    let cancelled =
        watched.log.events.iter().any(
            |event| matches!(&event.kind, EventKind::OrderUpdate(update) if update.status == OrderStatus::Cancelled),
        );
    assert!(cancelled, "the open order is cancelled first: while it can fill, nothing of its pair is signed");
    let sold: Vec<_> = watched
        .log
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolStart(start) if start.tool_name == "uniswap_execute_swap" => Some(start.params.value()),
            _ => None,
        })
        .map(|params| (params["token_in"].clone(), params["token_out"].clone()))
        .collect();
    assert!(!sold.is_empty() && sold.iter().all(|pair| *pair == (json!("WETH"), json!("USDC"))), "{sold:?}");
    watched.end().await;
    let sales = sales(home.path());
    // The first is the order's own.
    assert!(sales.len() >= 3 && sales.iter().all(|one| *one <= 1_000_000_000), "{sales:?}");
}

/// A sale that fails leaves the decision open, and `flatten` again tries again: a stop that looks complete and is not
/// would leave the money where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_flatten_that_is_not_complete_stays_open_and_can_be_repeated() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "allowed_tools = [\"get_balances\"]\n");
    let mut watched = WatchedSession::open(home.path(), "keep", RESTS);
    watched.until("it holds WETH", |log| log.holds("WETH") == Some(true)).await;
    let flatten = || SessionCommand::Raise { level: StopLevel::Flatten, reason: SafeText::clean("enough", 20) };
    let open = |one: &&Question| one.about.sells_holdings();
    watched.send(flatten()).await;
    watched.until("it is asked about", |log| log.questions.iter().any(|one| open(&one))).await;
    let question = watched.log.questions.iter().find(open).unwrap().clone();
    assert!(question.title.as_str().starts_with("Flatten is not complete: "), "{question:?}");
    assert!(watched.log.has_thought("was not sold"));
    let key = question.key;
    let answer = OperatorAnswer::Refuse { reason: SafeText::clean("later", 20) };
    watched.send(SessionCommand::Answer { key, answer, confirmation: Default::default(), password: None }).await;
    watched.until("nothing waits", |log| !log.questions.iter().any(|one| open(&one))).await;
    watched.send(flatten()).await;
    watched.until("it is asked about again", |log| log.questions.iter().any(|one| open(&one) && one.key != key)).await;
    watched.end().await;
    assert!(sales(home.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_the_trade_rate_nor_the_call_rate_ends_a_liquidation() {
    let home = tempfile::tempdir().unwrap();
    // No trade is permitted, and two calls per minute: each further sale waits for the window.
    policy(home.path(), "max_trades_per_hour = 0\nmax_tool_calls_per_minute = 2\n");
    let mut watched = WatchedSession::open(home.path(), "keep", RESTS);
    watched.until("it holds WETH", |log| log.holds("WETH") == Some(true)).await;
    watched.send(SessionCommand::Raise { level: StopLevel::Flatten, reason: SafeText::clean("enough", 20) }).await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum. It took ")).await;
    assert!(watched.log.questions.is_empty(), "the operator's own exits need no approval");
    watched.end().await;
    assert!(sales(home.path()).len() >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flatten_by_another_process_needs_approval() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "max_single_trade_usd = \"100\"\nmax_daily_spend_usd = \"450\"\n");
    let mut watched = WatchedSession::open(home.path(), "keep", RESTS);
    watched.until("it holds WETH", |log| log.holds("WETH") == Some(true)).await;
    stop_file(home.path()).raise(StopLevel::Flatten, "so it says", "some program", 1).unwrap();
    watched.until("the sale is requested", |log| log.questions.iter().any(|one| one.about.sells_holdings())).await;
    let asked = watched.log.questions.iter().find(|one| one.about.sells_holdings()).unwrap().clone();
    let key = asked.key;
    // The decision names what is sold and what stays, with amounts and dollars.
    let RequestSubject::SellHoldings { plan: Some(plan) } = &asked.about else { panic!("{asked:?}") };
    let symbols = |all: &[PlannedAmount]| all.iter().map(|one| one.symbol.to_string()).collect::<Vec<_>>();
    assert!(symbols(&plan.sells).contains(&"WETH".to_owned()), "{plan:?}");
    let stays = symbols(&plan.stays);
    assert!(["ETH", "USDC"].iter().all(|symbol| stays.contains(&(*symbol).to_owned())), "{plan:?}");
    assert!(plan.sells.iter().all(|one| !one.amount.raw().is_zero() && one.value.is_some()), "{plan:?}");
    assert_eq!((asked.value, plan.unread.len()), (plan.value(), 0));
    assert!(!watched.log.has_thought("WETH on ethereum"), "nothing is sold before the answer");
    watched
        .send(SessionCommand::Answer {
            key,
            answer: OperatorAnswer::Once,
            confirmation: Default::default(),
            password: None,
        })
        .await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum. It took ")).await;
    watched.end().await;
    assert!(sales(home.path()).len() >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_golems_emergency_halt_holdings_are_sold_only_after_an_approval() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "max_single_trade_usd = \"100\"\nmax_daily_spend_usd = \"450\"\n");
    let mut watched = WatchedSession::open(home.path(), "keep", STOPS);
    watched.until("the sale is requested", |log| log.questions.iter().any(|one| one.about.sells_holdings())).await;
    let question = watched.log.questions.iter().find(|one| one.about.sells_holdings()).unwrap().clone();
    assert!(question.title.as_str().contains("ada on devnet stopped everything"), "{question:?}");
    assert_eq!(
        scenario_stop_file(home.path()).read().level(),
        Some(StopLevel::Halt),
        "the halt stays until the answer"
    );
    assert!(sales(home.path()).is_empty(), "nothing is sold before the answer");
    // Another process holds the lock and does not continue: the approval cannot be carried out, and is not lost.
    let lock = std::fs::File::open(scenario_stop_file(home.path()).path().with_extension("lock")).unwrap();
    lock.lock().unwrap();
    watched
        .send(SessionCommand::Answer {
            key: question.key,
            answer: OperatorAnswer::Once,
            confirmation: Default::default(),
            password: None,
        })
        .await;
    let is_new_request = |one: &Question| one.about.sells_holdings() && one.key != question.key;
    watched.until("the sale is requested again", |log| log.questions.iter().any(is_new_request)).await;
    assert_eq!(scenario_stop_file(home.path()).read().level(), Some(StopLevel::Halt));
    drop(lock);
    let key = watched.log.questions.iter().find(|one| is_new_request(one)).unwrap().key;
    watched
        .send(SessionCommand::Answer {
            key,
            answer: OperatorAnswer::Once,
            confirmation: Default::default(),
            password: None,
        })
        .await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum. It took ")).await;
    assert_eq!(scenario_stop_file(home.path()).read().level(), Some(StopLevel::Flatten), "only exits pass");
    watched.end().await;
    assert!(sales(home.path()).len() >= 3);
}
