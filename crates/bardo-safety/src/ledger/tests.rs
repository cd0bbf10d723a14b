//! The ledger in a real file, compared with a model that searches its whole history each time.

mod bridged;
mod clocks;

use bardo_base::model::RuleName;
use std::path::PathBuf;

use alloy::primitives::address;
use proptest::prelude::*;
use rusqlite::{Connection, TransactionBehavior};
use serde_json::json;

use super::*;
use bardo_base::units::BasisPoints;
use bardo_store::{Store, StoreConfig};
use golem_chain::token::TokenId;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const WETH: TokenKey = (31_337, TokenId::Erc20(address!("00000000000000000000000000000000000000aa")));

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
    connection: Connection,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        drop(Store::open(StoreConfig::at(&path), &[MIGRATIONS]).unwrap());
        let connection = Self::connect(&path);
        Self { _folder: folder, path, connection }
    }

    fn connect(path: &PathBuf) -> Connection {
        let connection = Connection::open(path).unwrap();
        // Power cuts are covered by the tests of the store; here the file has to survive only a restart.
        connection.pragma_update(None, "synchronous", "off").unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        connection
    }

    fn restart(&mut self) {
        self.connection = Self::connect(&self.path);
    }

    fn write<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let value = work(&transaction)?;
        transaction.commit().unwrap();
        Ok(value)
    }

    fn reserve(
        &mut self,
        now: u64,
        caps: &LedgerCaps,
        request: &ReservationRequest,
    ) -> Result<ReservationId, LedgerError> {
        self.write(|transaction| reserve(transaction, now, caps, &party(), request))
    }

    fn settle(&mut self, now: u64, id: ReservationId, outcome: ReservationOutcome) -> Result<(), LedgerError> {
        self.write(|transaction| settle(transaction, now, id, outcome, 3))
    }
}

fn party() -> Originator {
    Originator {
        call_id: CallId::new(1),
        golem_id: GolemId::operator(),
        chain_id: 31_337,
        account: address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
    }
}

fn dollars(whole: u64) -> MicroUsd {
    MicroUsd::new(whole * 1_000_000).unwrap()
}

fn cap(rule: RuleName, span: CapPeriod, whole: u64) -> SpendCap {
    SpendCap { rule, span, limit: dollars(whole), scaled: None }
}

fn caps() -> LedgerCaps {
    LedgerCaps {
        spend: vec![
            cap(RuleName::MaxSingleTradeUsd, CapPeriod::Once, 100),
            cap(RuleName::MaxHourlySpendUsd, CapPeriod::Hour, 250),
            cap(RuleName::MaxDailySpendUsd, CapPeriod::Day, 600),
            cap(RuleName::MaxMonthlySpendUsd, CapPeriod::Month, 2_000),
        ],
        tokens: [(WETH, TokenCaps { once: Some(dollars(80)), day: Some(dollars(300)) })].into(),
        revocations_per_hour: 100,
        revocations_per_day: None,
        trades_per_hour: 5,
        calls_per_minute: 4,
        cooldown: 60_000,
        failures: 3,
        cool_off: 10 * 60_000,
        stop_loss: BasisPoints::new(1_000).unwrap(),
    }
}

fn request(whole: u64) -> ReservationRequest {
    ReservationRequest {
        spend: dollars(whole),
        gas: MicroUsd::ZERO,
        tokens: [].into(),
        trade: true,
        only_revokes: false,
        by_operator: false,
        exit: false,
        sold: [].into(),
        asked: false,
        traded: dollars(whole),
        exempt: false,
        equity: dollars(1_000),
    }
}

fn rules(result: Result<ReservationId, LedgerError>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(LedgerError::Exceeded(violations)) => violations.into_iter().map(|one| one.rule.to_string()).collect(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_day_is_any_24_hours() {
    let (mut file, caps) = (File::new(), caps());
    let midnight = 20_000 * DAY;
    // 600 dollars in the last hours of one day, in steps that the hourly limit allows.
    let mut at = midnight - 3 * HOUR;
    for _ in 0..6 {
        let id = file.reserve(at, &caps, &request(100)).unwrap();
        file.settle(at, id, ReservationOutcome::Done { spent: dollars(100) }).unwrap();
        at += 30 * 60_000;
    }
    let first = midnight - 3 * HOUR;
    let Err(LedgerError::Exceeded(violations)) = file.reserve(midnight + 1, &caps, &request(1)) else {
        panic!("it passed")
    };
    let figures = violations[0].figures.as_ref().unwrap();
    // The first hundred were spent three hours before midnight, so they leave the window in 21 hours.
    assert_eq!((figures.left.as_deref(), figures.frees_in_seconds), (Some("0"), Some(21 * 3_600)));
    assert_eq!(violations[0].rule, "max_daily_spend_usd");
    assert_eq!(rules(file.reserve(first + DAY - 1, &caps, &request(1))), ["max_daily_spend_usd"]);
    assert_eq!(rules(file.reserve(first + DAY, &caps, &request(100))), [""; 0]);
}

#[test]
fn every_violation_states_what_would_pass() {
    let (mut file, caps) = (File::new(), caps());
    for minute in 0..5 {
        file.reserve(HOUR + minute * 61_000, &caps, &request(30)).unwrap();
    }
    let mut request = request(170);
    request.tokens.insert(WETH, dollars(170));
    request.equity = dollars(900);
    let Err(LedgerError::Exceeded(violations)) = file.reserve(HOUR + 4 * 61_000 + 5_000, &caps, &request) else {
        panic!("it passed")
    };
    let told: Vec<_> = violations
        .iter()
        .map(|one| format!("{}: {} | {} | {}", one.rule, one.limit, one.value, one.would_pass))
        .collect();
    assert_eq!(
        told,
        [
            "max_single_trade_usd: $100.00 in one action | $170.00 | at most $100.00",
            "max_hourly_spend_usd: $250.00 in any 60 minutes | $170.00 on top of $150.00 already spent or reserved \
             | at most $100.00 now",
            "token_caps.31337:0x00000000000000000000000000000000000000AA: $80.00 in one action | $170.00 on top of \
             $0.00 | at most $80.00 of this token now",
            "max_trades_per_hour: 5 in any 60 minutes | 5 were made | the next one in 55 min 51 s, or an exit now",
            "cooldown_seconds: 1 min between trades | 5 s after the last one | the same in 55 s, or an exit now",
            "stop_loss_pct: 10 % below the highest, $1,000.00: stops at $900.00 | $900.00 | exits, until the \
             portfolio has recovered or the operator sets a new mark",
        ]
    );
    // What would pass leaves room for the action's own gas: 100 − 0.4 at once, and 250 − 150 − 0.4 in the hour.
    request.gas = MicroUsd::new(400_000).unwrap();
    request.tokens.clear();
    let Err(LedgerError::Exceeded(violations)) = file.reserve(HOUR + 4 * 61_000 + 5_000, &caps, &request) else {
        panic!("it passed")
    };
    let passes: Vec<_> = violations.iter().take(2).map(|one| one.would_pass.as_str()).collect();
    assert_eq!(
        passes,
        ["at most $99.60 besides gas of at most $0.40", "at most $99.60 now besides gas of at most $0.40",]
    );
    let left: Vec<_> = violations.iter().take(2).map(|one| one.figures.as_ref().unwrap().left.clone()).collect();
    assert_eq!(left, [Some("99.6".to_owned()), Some("99.6".to_owned())]);
    request.gas = MicroUsd::ZERO;
    request.tokens.insert(WETH, dollars(170));
    let Err(LedgerError::Exceeded(violations)) = file.reserve(HOUR + 4 * 61_000 + 5_000, &caps, &request) else {
        panic!("it passed")
    };
    // The same violations as figures: 150 of 250 dollars and five of five trades are used; the first trade was 249 s
    // before.
    let figures: Vec<_> = violations.iter().map(|one| serde_json::to_value(one).unwrap()["figures"].clone()).collect();
    assert_eq!(
        figures,
        [
            json!({"unit": "usd", "limit": "100", "value": "170", "left": "100"}),
            json!({"unit": "usd", "limit": "250", "value": "320", "left": "100"}),
            json!({"unit": "usd", "limit": "80", "value": "170", "left": "80"}),
            json!({"unit": "count", "limit": "5", "value": "6", "left": "0", "frees_in_seconds": 3_351}),
            json!({"unit": "seconds", "limit": "60", "value": "5", "frees_in_seconds": 55}),
            json!({"unit": "usd", "limit": "900", "value": "900"}),
        ]
    );
}

#[test]
fn a_clock_going_back_frees_nothing_and_neither_does_a_restart() {
    let (mut file, caps) = (File::new(), caps());
    let now = 100 * DAY;
    for minute in 0..2 {
        let id = file.reserve(now + minute * 61_000, &caps, &request(100)).unwrap();
        file.settle(now + minute * 61_000, id, ReservationOutcome::Done { spent: dollars(100) }).unwrap();
    }
    file.restart();
    for back in [now - 40 * DAY, 0, now - HOUR] {
        assert_eq!(rules(file.reserve(back, &caps, &request(60))), ["max_hourly_spend_usd", "cooldown_seconds"]);
    }
    assert_eq!(rules(file.reserve(now + 61_000 + HOUR, &caps, &request(60))), [""; 0]);
}

#[test]
fn an_unclear_action_stays_reserved() {
    let (mut file, mut caps) = (File::new(), caps());
    caps.trades_per_hour = 100;
    let id = file.reserve(DAY, &caps, &request(100)).unwrap();
    file.settle(DAY, id, ReservationOutcome::Unclear).unwrap();
    let later = 200 * DAY;
    let usage_of = |file: &File, now| {
        let party = party();
        usage(&file.connection, now, party.chain_id, party.account, [], caps.cool_off).unwrap()
    };
    assert_eq!(usage_of(&file, later).spent(CapPeriod::Hour), dollars(100));
    // The transaction was included after all: it counts from now on.
    file.settle(later, id, ReservationOutcome::Done { spent: dollars(90) }).unwrap();
    assert_eq!(usage_of(&file, later + HOUR - 1).spent(CapPeriod::Hour), dollars(90));
    assert_eq!(usage_of(&file, later + HOUR).spent(CapPeriod::Hour), MicroUsd::ZERO);
    let again = file.settle(later, id, ReservationOutcome::NotSent).unwrap_err();
    assert_eq!(again, LedgerError::Settled { id: id.get(), state: "done".into() });
    assert_eq!(
        file.settle(later, ReservationId::stored(99), ReservationOutcome::NotSent),
        Err(LedgerError::Unknown(99))
    );
}

#[test]
fn an_unsent_action_is_released_and_a_reverted_one_costs_its_gas() {
    let (mut file, caps) = (File::new(), caps());
    let mut at = DAY;
    let mut request = request(70);
    request.tokens.insert(WETH, dollars(70));
    for outcome in
        [ReservationOutcome::NotSent, ReservationOutcome::Withdrawn, ReservationOutcome::Reverted { gas: dollars(2) }]
    {
        let id = file.reserve(at, &caps, &request).unwrap();
        file.settle(at, id, outcome).unwrap();
        at += 61_000;
    }
    let party = party();
    let used = usage(&file.connection, at, party.chain_id, party.account, [&WETH], caps.cool_off).unwrap();
    assert_eq!((used.spent(CapPeriod::Day), used.tokens[&WETH]), (dollars(2), MicroUsd::ZERO));
    // Two failed and one was withdrawn. An action that was never sent does not count as a trade.
    assert_eq!((used.breaker, used.trades_hour), (FailureBreaker::Closed { failures: 2 }, 1));
    // The breaker's count is also the one that a Golem's phase uses.
    assert_eq!(failures(&file.connection).unwrap(), 2);
}

#[test]
fn the_breaker_opens_tries_once_and_closes_again() {
    let (mut file, mut caps) = (File::new(), caps());
    caps.cooldown = 0;
    caps.trades_per_hour = 100;
    let fail = |file: &mut File, at| {
        let id = file.reserve(at, &caps, &request(1)).unwrap();
        file.settle(at, id, ReservationOutcome::Reverted { gas: MicroUsd::ZERO }).unwrap();
    };
    (0..3).for_each(|_| fail(&mut file, DAY));
    file.restart();
    assert_eq!(rules(file.reserve(DAY + caps.cool_off - 1, &caps, &request(1))), ["max_consecutive_failures"]);
    // Exits are still allowed, and their outcomes do not affect the breaker.
    let exit = ReservationRequest { exempt: true, equity: dollars(10), ..request(1) };
    for outcome in [ReservationOutcome::NotSent, ReservationOutcome::Done { spent: MicroUsd::ZERO }] {
        let id = file.reserve(DAY + 1, &caps, &exit).unwrap();
        file.settle(DAY + 1, id, outcome).unwrap();
    }
    assert_eq!(rules(file.reserve(DAY + caps.cool_off - 1, &caps, &request(1))), ["max_consecutive_failures"]);

    // During the trial no second one is allowed. It fails: another cool-off starts.
    let mut at = DAY + caps.cool_off;
    let trial = file.reserve(at, &caps, &request(1)).unwrap();
    assert_eq!(rules(file.reserve(at, &caps, &request(1))), ["max_consecutive_failures"]);
    file.settle(at, trial, ReservationOutcome::NotSent).unwrap();
    assert_eq!(rules(file.reserve(at + caps.cool_off - 1, &caps, &request(1))), ["max_consecutive_failures"]);

    // A withdrawn trial permits another; a successful one closes the breaker.
    at += caps.cool_off;
    let trial = file.reserve(at, &caps, &request(1)).unwrap();
    file.settle(at, trial, ReservationOutcome::Withdrawn).unwrap();
    let trial = file.reserve(at, &caps, &request(1)).unwrap();
    file.settle(at, trial, ReservationOutcome::Done { spent: MicroUsd::ZERO }).unwrap();
    assert_eq!(rules(file.reserve(at, &caps, &request(1))), [""; 0]);

    (0..3).for_each(|_| fail(&mut file, at));
    file.write(reset_breaker).unwrap();
    assert_eq!(rules(file.reserve(at, &caps, &request(1))), [""; 0]);
}

#[test]
fn the_stop_loss_stops_all_but_exits() {
    let (mut file, mut caps) = (File::new(), caps());
    caps.cooldown = 0;
    let worth = |whole, exempt| ReservationRequest { equity: dollars(whole), exempt, ..request(1) };
    file.reserve(DAY, &caps, &worth(2_000, false)).unwrap();
    assert_eq!(rules(file.reserve(DAY, &caps, &worth(1_801, false))), [""; 0]);
    assert_eq!(rules(file.reserve(DAY, &caps, &worth(1_800, false))), ["stop_loss_pct"]);
    assert_eq!(rules(file.reserve(DAY, &caps, &worth(0, true))), [""; 0]);
    file.restart();
    assert_eq!(rules(file.reserve(DAY, &caps, &worth(1_800, false))), ["stop_loss_pct"]);
    file.write(|transaction| set_high_water(transaction, DAY, &party(), dollars(1_800))).unwrap();
    assert_eq!(rules(file.reserve(DAY, &caps, &worth(1_800, false))), [""; 0]);
}

/// Returns the high-water mark after readings of (seconds after the first, value in dollars).
fn mark_after(readings: &[(u64, u64)]) -> MicroUsd {
    let mut file = File::new();
    for (second, worth) in readings {
        let (at, worth) = (DAY + second * 1_000, dollars(*worth));
        file.write(|transaction| observe(transaction, at, &party(), worth)).unwrap();
    }
    let party = party();
    usage(&file.connection, DAY, party.chain_id, party.account, [], 0).unwrap().high_water
}

#[test]
fn a_mark_rises_to_the_least_that_stood_over_a_dwell() {
    // A rise of twenty percent takes a minute, and counts up to its lowest reading.
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_200)]), dollars(1_000));
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_200), (60, 1_200)]), dollars(1_000));
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_200), (61, 1_200)]), dollars(1_200));
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_200), (30, 1_100), (61, 1_250)]), dollars(1_100));
    // A return to the mark in between restarts the period.
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_200), (30, 1_000), (61, 1_200)]), dollars(1_000));
    // A temporary rise has no effect.
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_200), (2, 1_000), (90, 1_000)]), dollars(1_000));
}

#[test]
fn a_jump_has_to_stand_for_an_hour_and_be_read_thrice() {
    assert_eq!(mark_after(&[(0, 1_000), (1, 13_500_000), (61, 13_500_000), (3_600, 13_500_000)]), dollars(1_000));
    assert_eq!(mark_after(&[(0, 1_000), (1, 13_500_000), (7_200, 13_500_000)]), dollars(1_000));
    assert_eq!(mark_after(&[(0, 1_000), (1, 2_000), (61, 2_000), (3_601, 2_000)]), dollars(2_000));
    // A false reading in between does not raise the mark beyond the other readings.
    assert_eq!(mark_after(&[(0, 1_000), (1, 1_100), (30, 13_500_000), (61, 1_100)]), dollars(1_100));
    // An account that was empty has no mark that a jump is measured from.
    assert_eq!(mark_after(&[(0, 0), (1, 2_000)]), dollars(2_000));
}

#[test]
fn a_mark_that_was_forgotten_does_not_rise_by_what_was_read_before() {
    let mut file = File::new();
    let mut read = |second: u64, worth: u64| {
        let at = DAY + second * 1_000;
        file.write(|transaction| observe(transaction, at, &party(), dollars(worth))).unwrap();
    };
    read(0, 1_000);
    read(1, 1_200);
    file.write(|transaction| forget_high_water(transaction, party().account)).unwrap();
    let left: i64 = file.connection.query_row("SELECT count(*) FROM ledger_mark_rise", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn revocations_pass_every_limit_and_are_recorded() {
    let (mut file, caps) = (File::new(), caps());
    for _ in 0..2 {
        file.reserve(DAY, &LedgerCaps { cooldown: 0, ..caps.clone() }, &request(100)).unwrap();
    }
    let back = ReservationRequest { only_revokes: true, trade: false, exempt: true, ..request(101) };
    file.reserve(DAY, &caps, &back).unwrap();
    let party = party();
    let used = usage(&file.connection, DAY, party.chain_id, party.account, [], caps.cool_off).unwrap();
    assert_eq!((used.spent(CapPeriod::Day), used.trades_hour), (dollars(301), 2));
}

#[test]
fn a_recipient_is_named_once_something_has_arrived() {
    let (mut file, caps) = (File::new(), caps());
    let friend = address!("00000000000000000000000000000000000000bb");
    let id = file.reserve(DAY, &caps, &request(1)).unwrap();
    file.write(|transaction| note_recipients(transaction, id, 31_337, &[friend])).unwrap();
    assert!(recipients(&file.connection).unwrap().is_empty());
    file.settle(DAY, id, ReservationOutcome::Done { spent: MicroUsd::ZERO }).unwrap();
    assert_eq!(recipients(&file.connection).unwrap(), [friend]);
    // A row that cannot be read is skipped and does not hide the other rows.
    let garbage = "INSERT INTO ledger_recipient (chain_id, recipient, reservation) VALUES (31337, 'nobody', ?1)";
    file.connection.execute(garbage, [id.get()]).unwrap();
    assert_eq!(recipients(&file.connection).unwrap(), [friend]);
}

#[test]
fn calls_are_counted_over_any_minute() {
    let mut file = File::new();
    let take_by = |file: &mut File, caller: &GolemId, at| {
        file.write(|transaction| take_call(transaction, at, caller, 4)).unwrap()
    };
    let take = |file: &mut File, at| take_by(file, &GolemId::operator(), at);
    for at in [59_000, 59_500, 60_500, 61_000] {
        assert_eq!(take(&mut file, at), None);
    }
    file.restart();
    // The oldest call is a minute old at 119,000. A clock that goes back frees nothing.
    for (at, wait) in [(61_000, 58_000), (118_999, 1), (5, 1)] {
        assert_eq!(take(&mut file, at), Some(wait), "{at}");
    }
    assert_eq!(take(&mut file, 119_000), None);

    // Callers have separate windows: a full one does not block another.
    let agent: GolemId = "mallory".parse().unwrap();
    for _ in 0..4 {
        assert_eq!(take_by(&mut file, &agent, 119_000), None);
    }
    assert_eq!(take_by(&mut file, &agent, 119_000), Some(60_000));
    assert_eq!(take(&mut file, 119_500), None, "the operator's second");
    let party = party();
    let used = usage(&file.connection, 119_500, party.chain_id, party.account, [], 0).unwrap();
    let calls = |caller: &GolemId| used.clone().called_by(&file.connection, caller).unwrap().calls_minute;
    // The calls of 60,500 and 61,000, and the last two.
    assert_eq!((calls(&GolemId::operator()), calls(&agent), calls(&"ada".parse().unwrap())), (4, 4, 0));
}

#[test]
fn exits_pass_the_rate_of_trades_and_count_to_it() {
    let (mut file, caps) = (File::new(), LedgerCaps { trades_per_hour: 2, cooldown: 0, ..caps() });
    let exit = ReservationRequest { exit: true, asked: true, exempt: true, ..request(1) };
    for _ in 0..3 {
        file.reserve(DAY, &caps, &exit).unwrap();
    }
    assert_eq!(rules(file.reserve(DAY, &caps, &request(1))), ["max_trades_per_hour"]);
}

#[derive(Debug, Clone)]
enum Step {
    Reserve { whole: u64, weth: u64, trade: bool, exempt: bool },
    Settle { which: usize, outcome: usize, share: u64 },
    Clock { millis: i64 },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let minutes = |most: i64| -most / 4..most;
    prop_oneof![
        5 => (0_u64..130, 0_u64..100, any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(whole, weth, trade, exempt)| Step::Reserve { whole, weth, trade, exempt }),
        4 => (any::<prop::sample::Index>(), 0_usize..5, 0_u64..=100)
            .prop_map(|(which, outcome, share)| Step::Settle { which: which.index(1_000), outcome, share }),
        3 => minutes(90).prop_map(|minutes| Step::Clock { millis: minutes * 60_000 }),
        1 => minutes(60 * 24 * 3).prop_map(|minutes| Step::Clock { millis: minutes * 60_000 + 1 }),
        1 => Just(Step::Restart),
    ]
}

/// One reservation in the model.
#[derive(Debug, Clone)]
struct Entry {
    id: ReservationId,
    reserved_at: u64,
    spend: u64,
    weth: u64,
    trade: bool,
    /// Traded value, in whole dollars.
    traded: u64,
    /// Settlement: time, spending in millionths of a dollar, WETH's part, and whether it left the account.
    settled: Option<(u64, u64, u64, bool)>,
}

#[derive(Debug, Default)]
struct Model {
    now: u64,
    entries: Vec<Entry>,
    failures: u32,
    opened_at: Option<u64>,
    trial: Option<ReservationId>,
    /// Largest trade among the failures, in whole dollars.
    largest: u64,
}

impl Model {
    /// Returns true if `caps` allow the request, given the whole history.
    fn allows(&self, caps: &LedgerCaps, request: &ReservationRequest) -> bool {
        let weth = request.tokens.get(&WETH).map_or(0, |weth| weth.get());
        let used = |window: u64, part: fn(&Entry) -> (u64, u64)| -> u64 {
            let counted = |entry: &&Entry| entry.settled.is_none_or(|(at, ..)| at + window > self.now);
            let amount = |entry: &Entry| if entry.settled.is_some() { part(entry).1 } else { part(entry).0 };
            self.entries.iter().filter(counted).map(amount).sum()
        };
        let spend = |entry: &Entry| (entry.spend, entry.settled.map_or(0, |(_, spent, _, _)| spent));
        let in_weth = |entry: &Entry| (entry.weth, entry.settled.map_or(0, |(_, _, weth, _)| weth));
        let windows = caps.spend.iter().all(|cap| {
            let before = if cap.span == CapPeriod::Once { 0 } else { used(cap.span.millis(), spend) };
            before + request.spend.get() <= cap.limit.get()
        });
        let token = caps.tokens[&WETH];
        let token = !request.tokens.contains_key(&WETH)
            || weth <= token.once.unwrap().get() && used(DAY, in_weth) + weth <= token.day.unwrap().get();
        let trades = || self.entries.iter().filter(|entry| entry.trade && entry.settled.is_none_or(|(.., left)| left));
        let rate = !request.trade
            || (trades().filter(|entry| entry.reserved_at + HOUR > self.now).count() as u32) < caps.trades_per_hour;
        let cooled = trades().all(|entry| entry.reserved_at + caps.cooldown <= self.now);
        let breaker = self.opened_at.is_none_or(|at| self.trial.is_none() && at + caps.cool_off <= self.now);
        windows && token && rate && (request.exempt || (breaker && (!request.trade || cooled)))
    }

    /// Checks that no period exceeds a limit, for any time of spending within each reservation's lifetime.
    fn within(&self, caps: &LedgerCaps) -> Result<(), String> {
        let ends: Vec<u64> = self
            .entries
            .iter()
            .flat_map(|one| [Some(one.reserved_at), one.settled.map(|settled| settled.0)])
            .flatten()
            .collect();
        for cap in caps.spend.iter().filter(|cap| cap.span != CapPeriod::Once) {
            for by_settling in [false, true] {
                for end in &ends {
                    let inside = |entry: &&Entry| {
                        let at = entry.settled.filter(|_| by_settling).map_or(entry.reserved_at, |settled| settled.0);
                        at <= *end && at + cap.span.millis() > *end
                    };
                    let spent = |entry: &Entry| entry.settled.map_or(entry.spend, |(_, spent, _, _)| spent);
                    let sum: u64 = self.entries.iter().filter(inside).map(spent).sum();
                    if sum > cap.limit.get() {
                        return Err(format!("{} holds {sum} up to {end}", cap.rule));
                    }
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_history_exceeds_a_cap_and_none_is_refused_without_reason(steps in prop::collection::vec(step(), 1..90)) {
        let mut caps = caps();
        caps.trades_per_hour = 4;
        let mut file = File::new();
        let mut model = Model::default();
        let mut wall = 400 * DAY;
        for step in steps {
            match step {
                Step::Clock { millis } => wall = wall.saturating_add_signed(millis),
                Step::Restart => file.restart(),
                Step::Reserve { whole, weth, trade, exempt } => {
                    let traded = dollars(if trade { whole } else { 0 });
                    let mut request = ReservationRequest { trade, exempt, traded, ..request(whole) };
                    let weth = weth.min(whole);
                    if weth > 0 {
                        request.tokens.insert(WETH, dollars(weth));
                    }
                    // A refused request leaves no trace, not even its time.
                    let before = model.now;
                    model.now = wall.max(before);
                    let at = model.now;
                    let expected = model.allows(&caps, &request);
                    match file.reserve(wall, &caps, &request) {
                        Ok(id) => {
                            prop_assert!(expected, "it passed: {request:?}");
                            if model.opened_at.is_some() && !exempt {
                                model.trial = Some(id);
                            }
                            model.entries.push(Entry {
                                id, reserved_at: at, spend: request.spend.get(), weth: dollars(weth).get(), trade,
                                traded: if trade { whole } else { 0 }, settled: None,
                            });
                        }
                        Err(LedgerError::Exceeded(why)) => {
                            prop_assert!(!expected, "refused for {why:?}");
                            model.now = before;
                        }
                        Err(other) => return Err(TestCaseError::fail(other.to_string())),
                    }
                }
                Step::Settle { which, outcome, share } => {
                    let open: Vec<usize> =
                        (0..model.entries.len()).filter(|at| model.entries[*at].settled.is_none()).collect();
                    let Some(at) = open.get(which % open.len().max(1)) else { continue };
                    let entry = model.entries[*at].clone();
                    let part = entry.spend / 100 * share;
                    let micros = MicroUsd::new(part).unwrap();
                    let (outcome, end, success) = match outcome {
                        0 | 1 => (ReservationOutcome::Done { spent: micros }, Some((part, entry.weth, true)), Some(true)),
                        2 => (ReservationOutcome::Reverted { gas: micros }, Some((part, 0, true)), Some(false)),
                        3 => (ReservationOutcome::NotSent, Some((0, 0, false)), Some(false)),
                        _ => (ReservationOutcome::Unclear, None, None),
                    };
                    file.settle(wall, entry.id, outcome).unwrap();
                    // Every write advances the ledger's clock.
                    model.now = model.now.max(wall);
                    let Some((spent, weth, left)) = end else { continue };
                    model.entries[*at].settled = Some((model.now, spent, weth, left));
                    let own_trial = model.trial == Some(entry.id);
                    match (model.opened_at.is_some(), success) {
                        (true, _) if !own_trial => {}
                        // A success counts if it is worth a tenth of the largest failed trade, or one dollar if no
                        // trade failed.
                        (_, Some(true)) if entry.traded * 10 >= if model.largest > 0 { model.largest } else { 10 } => {
                            (model.failures, model.opened_at, model.trial, model.largest) = (0, None, None, 0);
                        }
                        (_, Some(true)) => model.trial = None,
                        (was_open, _) => {
                            model.largest = model.largest.max(entry.traded);
                            model.failures += 1;
                            model.trial = None;
                            if was_open || model.failures >= 3 {
                                model.opened_at = Some(model.now);
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(model.within(&caps), Ok(()));
        }
    }
}

#[test]
fn the_gas_of_what_failed_counts_against_the_coins_own_cap() {
    const COIN: TokenKey = (31_337, TokenId::Native);
    let mut file = File::new();
    let caps = LedgerCaps {
        tokens: [(COIN, TokenCaps { once: None, day: Some(dollars(10)) })].into(),
        cooldown: 0,
        failures: 100,
        ..caps()
    };
    let request = ReservationRequest { tokens: [(COIN, dollars(6))].into(), ..request(6) };
    let first = file.reserve(DAY, &caps, &request).unwrap();
    file.settle(DAY + 1, first, ReservationOutcome::Reverted { gas: dollars(5) }).unwrap();
    // Five of ten dollars are used: another six exceed the limit until a day later.
    assert_eq!(rules(file.reserve(DAY + 2, &caps, &request)).len(), 1);
    assert_eq!(rules(file.reserve(2 * DAY + 2, &caps, &request)), Vec::<String>::new());
}
