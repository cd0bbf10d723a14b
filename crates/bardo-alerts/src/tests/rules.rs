//! Conditions over a session's news.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use tempfile::TempDir;

use super::settings;
use crate::alert::Alert;
use crate::rules::AlertRules;
use bardo_base::fabric::{
    ApprovalOutcome, ApprovalResolved, BreakerState, ChainHealth, ChainOpened, ChainState, Event, EventKind, FabricGap,
    HaltChanged, LimitUsage, PhaseChanged, PolicyState, SessionOpened, SpendState,
};
use bardo_base::id::{GolemId, PermitId};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};
use bardo_session::handle::{AllowancesState, ChainHoldings, HoldingRow, SessionNews, SessionSnapshot, StopState};
use bardo_session::market::{
    ChainIdentity, ChainSnapshot, FeedPrice, MarketUpdate, MoneyKind, NetworkIdentity, TokenRow,
};
use bardo_session::questions::{Question, QuestionKey, RequestSubject};

fn text(words: &str) -> SafeText {
    SafeText::clean(words, 200)
}

fn rules(alerts: &str) -> AlertRules {
    let home = TempDir::new().unwrap();
    let mut rules = AlertRules::new(&settings(home.path(), alerts));
    let chain = ChainIdentity { name: text("ethereum"), id: 1, interval_millis: None };
    let network =
        NetworkIdentity { name: text("mainnet"), money: MoneyKind::Real, chains: vec![chain], wallet: Address::ZERO };
    assert!(rules.note(&SessionNews::Market(MarketUpdate::Started(network)), 0).is_empty());
    let chain = ChainOpened { chain_id: 1, name: text("ethereum"), native_symbol: text("ETH") };
    let opened = SessionOpened { network: text("mainnet"), account: None, chains: vec![chain] };
    assert!(rules.note(&event(EventKind::SessionOpened(opened)), 0).is_empty());
    rules
}

fn event(kind: EventKind) -> SessionNews {
    let event = Event { seq: 1, at: 0, golem_id: GolemId::operator(), call_id: None, kind };
    SessionNews::Events(vec![Arc::new(event)])
}

fn words(alerts: &[Alert]) -> Vec<&str> {
    alerts.iter().map(|alert| alert.brief.as_str()).collect()
}

fn question(number: u64) -> Question {
    Question {
        key: QuestionKey::Own(number),
        number,
        golem_id: GolemId::operator(),
        call_id: None,
        place: 1,
        of: 1,
        title: text("Lower the stop"),
        value: Some(Usd::whole(1_250)),
        money: MoneyKind::Real,
        asked_at: 0,
        ends_at: Some(900_000),
        passes_by_itself: false,
        reasons: Vec::new(),
        changed: Vec::new(),
        revision: 0,
        second: None,
        to_read: Vec::new(),
        confirm: None,
        needs_password: false,
        answers: Vec::new(),
        about: RequestSubject::LeavePaper,
    }
}

#[test]
fn a_decision_is_reported_once_after_its_time_and_not_if_it_was_answered() {
    let mut rules = rules("decision_seconds = 30");
    let open = |numbers: &[u64]| SessionNews::Questions(Arc::new(numbers.iter().map(|one| question(*one)).collect()));
    assert!(rules.note(&open(&[1, 2]), 1_000).is_empty());
    assert!(rules.tick(30_999).is_empty());
    // The second is answered in time, and the first is issued again.
    assert!(rules.note(&open(&[1]), 30_999).is_empty());
    let alerts = rules.tick(31_000);
    assert_eq!(words(&alerts), ["A decision waits for your answer."]);
    assert_eq!(alerts[0].lapses_at, Some(900_000));
    assert_eq!(alerts[0].place.as_str(), "mainnet (REAL MONEY)");
    let details: Vec<&str> = alerts[0].details.iter().map(SafeText::as_str).collect();
    assert_eq!(details, ["Lower the stop", "Leaves the wallet: $1250.00"]);
    assert!(rules.tick(50_000_000).is_empty(), "also when repeats are allowed again");
}

#[test]
fn a_decision_with_little_time_is_reported_before_its_end() {
    let mut rules = rules("decision_seconds = 30");
    let short = Question { ends_at: Some(20_000), ..question(1) };
    let passing = Question { passes_by_itself: true, ..question(2) };
    let open = SessionNews::Questions(Arc::new(vec![short, passing]));
    assert_eq!(rules.note(&open, 0)[0].lapses_at, Some(900_000), "the one that goes ahead by itself, at once");
    assert!(rules.tick(9_999).is_empty());
    assert_eq!(rules.tick(10_000)[0].lapses_at, Some(20_000));
}

#[test]
fn a_stop_whose_event_was_lost_is_reported_from_a_snapshot() {
    let mut rules = rules("");
    let SessionNews::Snapshot(mut read) = snapshot("1", 1, CLOSED) else { panic!("a snapshot") };
    let stop = StopState { level: StopLevel::Halt, by: text("x"), reason: text("y"), at: 0, own_hold: false };
    Arc::make_mut(&mut read).stop = Some(stop);
    let news = SessionNews::Snapshot(read);
    assert!(rules.note(&news, 0).is_empty(), "its event follows");
    assert!(rules.note(&event(EventKind::FabricGap(FabricGap { missed: 1, first: 1 })), 1).is_empty());
    assert_eq!(words(&rules.note(&news, 2)), ["A stop was raised: halt."]);
    assert!(rules.note(&news, 3).is_empty());
}

#[test]
fn a_lapse_is_reported_and_an_answer_is_not() {
    let mut rules = rules("");
    let resolved = |outcome| {
        let permit_id = PermitId::random();
        event(EventKind::ApprovalResolved(ApprovalResolved { permit_id, outcome, reason: None, amount: None }))
    };
    assert!(rules.note(&resolved(ApprovalOutcome::Approved), 0).is_empty());
    assert!(rules.note(&resolved(ApprovalOutcome::Withdrawn), 0).is_empty());
    let alerts = rules.note(&resolved(ApprovalOutcome::Lapsed), 0);
    assert_eq!(words(&alerts), ["A decision lapsed without an answer; nothing was signed."]);
}

#[test]
fn stops_phases_and_endpoints_are_reported_by_rule_and_not_repeated() {
    let mut rules = rules("repeat_minutes = 10");
    let halt = |level| HaltChanged { level, by: text("the operator"), reason: text("why 42"), hold: false };
    let raised = event(EventKind::HaltRaised(halt(Some(StopLevel::Halt))));
    let alerts = rules.note(&raised, 0);
    assert_eq!(words(&alerts), ["A stop was raised: halt."]);
    assert_eq!(alerts[0].details[1].as_str(), "why 42");
    assert_eq!(words(&rules.note(&event(EventKind::HaltLowered(halt(None))), 1)), ["The stop was lifted."]);
    assert_eq!(words(&rules.note(&raised, 2)), ["A stop was raised: halt."], "the last message is the present state");
    assert!(rules.note(&raised, 3).is_empty(), "it is known");
    // The hold of a dialog, and its release.
    let mut held = halt(Some(StopLevel::Revoke));
    held.hold = true;
    assert!(rules.note(&event(EventKind::HaltRaised(held)), 4).is_empty());
    assert!(rules.note(&event(EventKind::HaltLowered(halt(Some(StopLevel::Halt)))), 5).is_empty());

    let changed = PhaseChanged { from: Phase::Thriving, to: Phase::Cautious, why: text("a fall") };
    assert_eq!(rules.note(&event(EventKind::PhaseChanged(changed)), 0).len(), 1);

    let health = |state| event(EventKind::ChainHealth(ChainHealth { chain_id: 1, state, why: text("timed out") }));
    assert!(rules.note(&health(ChainState::Healthy), 0).is_empty(), "nothing was wrong");
    assert!(rules.note(&health(ChainState::Degraded), 0).is_empty());
    let alerts = rules.note(&health(ChainState::Down), 0);
    assert_eq!(words(&alerts), ["No endpoint of the chain answers."]);
    assert_eq!(alerts[0].place.as_str(), "mainnet (REAL MONEY), ethereum");
    assert_eq!(words(&rules.note(&health(ChainState::Healthy), 1)), ["The endpoints of the chain answer again."]);
    // Down again within ten minutes: reported after them, if it still is.
    assert!(rules.note(&health(ChainState::Down), 2).is_empty());
    assert!(rules.tick(599_999).is_empty());
    let later = rules.tick(600_000);
    assert_eq!((words(&later), later[0].repeated), (vec!["No endpoint of the chain answers."], 1));
    assert!(rules.tick(700_000).is_empty());
    // By way of a worse state, which is not reported itself.
    assert!(rules.note(&health(ChainState::Degraded), 700_000).is_empty());
    assert_eq!(words(&rules.note(&health(ChainState::Healthy), 700_001)), ["The endpoints of the chain answer again."]);
    assert!(rules.note(&health(ChainState::Down), 700_002).is_empty());
    assert!(rules.note(&health(ChainState::Healthy), 700_003).is_empty());
    assert!(rules.tick(9_000_000).is_empty(), "it answers");
    // A clock that was set back silences nothing.
    assert_eq!(rules.note(&health(ChainState::Disputed), 600_000).len(), 1);
    assert_eq!(rules.note(&health(ChainState::Down), 600_000 - 1).len(), 1);
}

#[test]
fn a_rule_that_is_not_listed_reports_nothing() {
    let mut rules = rules("rules = [\"phase\"]");
    let halt = HaltChanged { level: Some(StopLevel::Halt), by: text("x"), reason: text("y"), hold: false };
    assert!(rules.note(&event(EventKind::HaltRaised(halt)), 0).is_empty());
    let changed = PhaseChanged { from: Phase::Thriving, to: Phase::Cautious, why: text("a fall") };
    assert_eq!(rules.note(&event(EventKind::PhaseChanged(changed)), 0).len(), 1);
}

fn snapshot(gas: &str, dollars: u32, breaker: BreakerState) -> SessionNews {
    let spend = SpendState { used: Usd::whole(0), limit: None };
    let row = HoldingRow {
        symbol: text("ETH"),
        amount: TokenAmount::parse(gas, 18).unwrap(),
        value: Some(Usd::whole(dollars)),
    };
    SessionNews::Snapshot(Arc::new(SessionSnapshot {
        golem_id: GolemId::operator(),
        at: 0,
        account: Some(Address::repeat_byte(9)),
        paper: false,
        phase: Phase::Thriving,
        policy: PolicyState { name: text("demo"), version: 1, hash: B256::ZERO },
        limits: Some(LimitUsage {
            day: spend,
            month: spend,
            one: None,
            reserved: Usd::whole(0),
            asks_above: None,
            hot_lane: None,
            calls: (0, 1),
            trades: (0, 1),
            breaker,
            failures_limit: 3,
            stop_loss_bps: 0,
            stop_losses: Vec::new(),
        }),
        pnl: None,
        transactions: None,
        schedules: None,
        deposits: None,
        watched: Vec::new(),
        names: Vec::new(),
        fault: None,
        stop: None,
        keys_revoked: false,
        custody: None,
        holdings: vec![ChainHoldings {
            chain: text("ethereum"),
            chain_id: 1,
            block: 1,
            rows: vec![row],
            positions: vec![],
            lending: None,
        }],
        equity: Some(Usd::whole(dollars)),
        all_priced: true,
        allowances: AllowancesState::default(),
        grants: Vec::new(),
        running: 0,
    }))
}

const CLOSED: BreakerState = BreakerState::Closed { failures: 0 };

#[test]
fn low_gas_and_an_open_breaker_are_reported_when_they_begin() {
    let mut rules = rules("gas_below = \"0.02\"\nrepeat_minutes = 0");
    assert!(rules.note(&snapshot("0.02", 1, CLOSED), 0).is_empty(), "not below");
    let low = rules.note(&snapshot("0.0199", 1, CLOSED), 1);
    assert_eq!(words(&low), ["The native token for gas runs low."]);
    assert_eq!(low[0].details[0].as_str(), "Left: 0.0199 ETH");
    assert!(rules.note(&snapshot("0.01", 1, CLOSED), 2).is_empty(), "it is known");
    assert!(rules.note(&snapshot("1", 1, CLOSED), 3).is_empty());
    assert_eq!(rules.note(&snapshot("0.01", 1, CLOSED), 4).len(), 1, "low again");
    let open = BreakerState::Open { until: 9, failures: 3 };
    assert_eq!(words(&rules.note(&snapshot("0.01", 1, open), 5)), ["The failure breaker is open: only exits pass."]);
    assert!(rules.note(&snapshot("0.01", 1, open), 6).is_empty());
}

#[test]
fn a_move_of_the_balance_counts_within_its_time_only() {
    let mut rules = rules("balance_percent = 10\nwithin_minutes = 60\nrepeat_minutes = 0");
    let minute = 60_000;
    for (at, dollars, alerts) in [
        (0, 1_000, 0),
        // 9.9 % in the first hour.
        (30 * minute, 901, 0),
        // The first value is older than an hour now: 870 is 3.5 % below 901.
        (80 * minute, 870, 0),
        (85 * minute, 811, 0),
        // 10 % below 901.
        (86 * minute, 810, 1),
        // Counts from 810.
        (87 * minute, 890, 0),
        (88 * minute, 891, 1),
    ] {
        let found = rules.note(&snapshot("1", dollars, CLOSED), at);
        assert_eq!(found.len(), alerts, "{dollars} at {at}: {:?}", words(&found));
    }
}

#[test]
fn a_move_of_a_price_is_reported_for_its_token() {
    let mut rules = rules("price_percent = 5\nwithin_minutes = 15");
    let priced = |eth: u32, usdc: u32| {
        let token = |symbol: &str, byte: u8, price| TokenRow {
            symbol: text(symbol),
            address: Address::repeat_byte(byte),
            price: FeedPrice::Live(Usd::from_scaled(U256::from(price), 2).unwrap()),
        };
        let tokens = vec![token("WETH", 1, eth), token("USDC", 2, usdc)];
        SessionNews::Market(MarketUpdate::Chain(Box::new(ChainSnapshot {
            chain: 0,
            blocks: Vec::new(),
            tokens,
            pools: Vec::new(),
            balances: Vec::new(),
            positions: Vec::new(),
            lending: None,
            activity: Vec::new(),
        })))
    };
    assert!(rules.note(&priced(300_000, 100), 0).is_empty());
    assert!(rules.note(&priced(314_999, 100), 1_000).is_empty());
    let alerts = rules.note(&priced(315_000, 100), 2_000);
    assert_eq!(words(&alerts), ["The price of WETH rose by more than 5 % within 15 minutes."]);
    assert_eq!(alerts[0].details[0].as_str(), "From $3000.00 to $3150.00");
    assert_eq!(alerts[0].place.as_str(), "mainnet (REAL MONEY), ethereum");
}
