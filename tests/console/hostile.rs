//! Source in which all external text is hostile.
//!
//! No [`SafeText`] can contain raw text: all its constructors clean. So a session's messages are serialised to JSON, as
//! journals and handles do. Raw text is inserted wherever any text is possible, and the usual parser reads the result.
//! Values that are not `SafeText` (parameters, results, figures of orders, audit entries) reach the console unchanged.

use bardo::base::fabric::{AskReason, Finding, SafetyCheck};
use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use bardo::base::id::{CallId, GolemId, PermitId};
use bardo::base::model::{CardKind, Check, Phase, StopLevel};
use bardo::base::text::{SafeText, corpus};
use bardo::base::units::TokenAmount;
use bardo::console::state::model::{
    ActivityKind, ActivityRow, BalanceRow, BlockRow, ChainSnapshot, FeedPrice, MarketUpdate, PoolRow, PoolVersion,
    TokenRow,
};
use bardo::console::widgets::samples;
use bardo::engine::{CallStatus, ToolResponse};
use bardo::fabric::*;
use bardo::session::handle::{
    AllowanceState, AllowancesState, AuditEntry, ChainHoldings, DepositRow, DepositStage, DepositsState, GrantState,
    HoldingRow, PolicyState, QueryResult, ScheduleAttempt, ScheduleRow, SchedulesState, SessionCommand, SessionInfo,
    SessionNews, SessionQuery, SessionSnapshot, StopState,
};
use bardo::session::questions::{PolicyChange, PolicyRequest, Question, RequestSubject};
use serde_json::{Value, json};

/// Number of turns for which the same requests stay open: long enough to open a decision and draw it in all its forms,
/// short enough for a test to see one end.
const TURNS_OF_A_QUESTION: u64 = 200;

/// Any text is possible where a probe is accepted.
const PROBE: &str = "\u{1b}[31mprobe\u{7}";

fn text(words: &str) -> SafeText {
    SafeText::clean(words, 200)
}

/// JSON pointers of every text in a value.
fn texts(value: &Value, here: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(here.to_owned()),
        Value::Array(all) => all.iter().enumerate().for_each(|(at, one)| texts(one, &format!("{here}/{at}"), found)),
        Value::Object(fields) => {
            for (name, one) in fields {
                texts(one, &format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// JSON pointers of a message's free texts: its parser accepts a probe there.
fn places(news: &SessionNews) -> Vec<String> {
    let mut value = serde_json::to_value(news).unwrap();
    let mut found = Vec::new();
    texts(&value, "", &mut found);
    found.retain(|place| {
        let slot = value.pointer_mut(place).unwrap();
        let kept = std::mem::replace(slot, Value::from(PROBE));
        let taken = serde_json::from_value::<SessionNews>(value.clone()).is_ok();
        *value.pointer_mut(place).unwrap() = kept;
        taken
    });
    found
}

/// Inserts raw text into the message's places: into all of them, or every third, so that parsed texts (figures, tool
/// names) are sometimes valid and their cards are drawn.
fn poisoned(news: &SessionNews, places: &[String], raw: &str, turn: u64) -> SessionNews {
    let mut value = serde_json::to_value(news).unwrap();
    for (at, place) in (0..).zip(places) {
        if turn.is_multiple_of(4) || at % 3 == turn % 3 {
            *value.pointer_mut(place).unwrap() = Value::from(raw);
        }
    }
    serde_json::from_value(value).unwrap()
}

/// Messages of turn number `turn`: always of the same structure, so that raw text goes to the same places.
fn told(turn: u64) -> [SessionNews; 4] {
    [market(turn), SessionNews::Events(events(turn)), questions(turn), SessionNews::Snapshot(Arc::new(snapshot()))]
}

/// Hostile source of messages.
pub struct TestHarness {
    places: [Vec<String>; 4],
    raws: Vec<String>,
}

impl TestHarness {
    pub fn new() -> Self {
        let places = told(1).map(|news| places(&news));
        // With few places the following tests would prove nothing.
        assert!(places.iter().map(Vec::len).sum::<usize>() > 150, "{places:?}");
        Self { places, raws: corpus::all().collect() }
    }

    /// Hostile text of this turn.
    fn raw(&self, turn: u64) -> &str {
        &self.raws[usize::try_from(turn).unwrap() % self.raws.len()]
    }

    /// Messages of this turn.
    pub fn tell(&self, turn: u64) -> Vec<SessionNews> {
        let told = told(turn).into_iter().zip(&self.places);
        told.map(|(news, places)| poisoned(&news, places, self.raw(turn), turn)).collect()
    }

    /// Description of the session: name, archetype and scenarios are hostile, too.
    pub fn ready(&self) -> SessionNews {
        let ready = SessionNews::Ready(Box::new(SessionInfo {
            golem_id: "ada".parse().unwrap(),
            name: text("Ada"),
            role: text("trader"),
            tools: Vec::new(),
            scenarios: vec![text("one"), text("two")],
            journal: None,
            commands: Vec::new(),
            brain: None,
            not_attached: None,
            own_devnet: true,
            served: false,
        }));
        poisoned(&ready, &places(&ready), self.raw(5), 0)
    }

    /// Answer to a query of the console, if it makes one.
    pub fn answer(&self, command: &SessionCommand, turn: u64) -> Option<SessionNews> {
        let news = match command {
            SessionCommand::Look { ticket, query: SessionQuery::VerifyAudit } => {
                let faults = vec![text("entry 12 does not follow entry 11"), text("entry 40 is missing")];
                let found = QueryResult::Verified { good: false, entries: 40, head: B256::ZERO, faults };
                SessionNews::Found { ticket: *ticket, found: Box::new(found) }
            }
            SessionCommand::Look { ticket, .. } => {
                let found = QueryResult::Audit { entries: trail() };
                SessionNews::Found { ticket: *ticket, found: Box::new(found) }
            }
            SessionCommand::Call { ticket, .. } | SessionCommand::Offer { ticket, .. } => {
                let (data, hints) = samples::quote_answer(true, 0.3);
                let response = ToolResponse {
                    call_id: CallId::new(1),
                    status: CallStatus::Success,
                    data: Some(data),
                    error: None,
                    decision_hints: Some(hints),
                    explanation: Some("fine".to_owned()),
                };
                SessionNews::Reply { ticket: *ticket, response: Box::new(response) }
            }
            _ => return None,
        };
        Some(poisoned(&news, &places(&news), self.raw(turn), turn))
    }
}

fn market(turn: u64) -> SessionNews {
    let token = |seed: u8| TokenRow {
        symbol: text("WETH"),
        address: Address::repeat_byte(seed),
        price: if seed.is_multiple_of(2) {
            FeedPrice::None(text("no feed"))
        } else {
            FeedPrice::Live("3412.55".parse().unwrap())
        },
    };
    let pool = PoolRow {
        base: text("WETH"),
        quote: text("USDC"),
        version: PoolVersion::V3,
        fee_pips: 500,
        address: Address::repeat_byte(9),
        price: "3412.55".parse().ok(),
        feed_price: None,
        holds: "1000".parse().ok(),
    };
    let block = BlockRow {
        number: turn,
        timestamp: turn,
        base_fee_wei: 1_000_000_000,
        gas_used: turn % 10,
        gas_limit: 10,
        transactions: 0,
    };
    let activity = ActivityRow {
        at: turn,
        block: turn,
        chain: 0,
        kind: ActivityKind::Swap,
        failed: false,
        text: text("a swap"),
        transaction: B256::ZERO,
    };
    let amount = TokenAmount::new(U256::from(turn), 0).unwrap();
    SessionNews::Market(MarketUpdate::Chain(Box::new(ChainSnapshot {
        chain: 0,
        blocks: vec![block],
        tokens: (1..=8).map(token).collect(),
        pools: vec![pool],
        balances: vec![BalanceRow { symbol: text("WETH"), amount, value: None }],
        positions: vec![],
        lending: None,
        activity: vec![activity],
    })))
}

fn permit() -> PermitId {
    "7c1e0000000000000000000000000001".parse().unwrap()
}

fn begun() -> EventKind {
    EventKind::ToolStart(ToolStart {
        tool_name: "uniswap_execute_swap".into(),
        params: RedactedParams::new(&samples::swap_params(), &[]),
        params_hash: B256::ZERO,
        tick: None,
        facts: None,
    })
}

fn events(turn: u64) -> Vec<Arc<Event>> {
    let (data, hints) = samples::quote_answer(true, 0.3);
    let tx = |state| {
        let hash = B256::repeat_byte(7);
        EventKind::TxUpdate(TxUpdate {
            chain_id: 31_337,
            hash,
            leg: 1,
            of: 1,
            state,
            block: Some(turn),
            gas_cost_wei: None,
            purpose: None,
        })
    };
    let end = |success, card| {
        EventKind::ToolEnd(ToolEnd {
            success,
            state: None,
            duration_ms: 9,
            result_summary: json!({ "got": "1" }),
            card,
        })
    };
    let checked =
        SafetyCheck { check: Check::SpendingLimit, outcome: CheckOutcome::Warned, finding: Finding::said("near it") };
    let offered = PermitIssued {
        permit_id: permit(),
        simulation_hash: B256::ZERO,
        expected_outcome: text("Swap 0.25 WETH for >= 848.28 USDC"),
        expires_at: 4_000_000_000_000,
        notify: false,
        changes: vec![SimulatedChange {
            symbol: text("USDC"),
            address: None,
            change: text("+848.28"),
            before: text("5000"),
            after: text("5848.28"),
            gas: false,
        }],
        least_out: None,
        leaves_usd: None,
        is_order: false,
    };
    let (title, reasons) = (text("Swap"), vec![AskReason::said("big")]);
    let asked =
        ApprovalRequested { permit_id: permit(), title, reasons, lapses_at: 1, passes_by_itself: false, renewal: None };
    let refused = ApprovalResolved {
        permit_id: permit(),
        outcome: ApprovalOutcome::Refused,
        reason: Some(text("wait for gas")),
        amount: None,
    };
    let failed = ToolFailed {
        error_code: bardo::base::error::ErrorCode::RoutingNoRoute,
        error_message: text("there is no pool for it"),
        checks: None,
    };
    let verified = ToolVerified {
        expected_outcome: text("852.54 USDC"),
        actual_outcome: text("1 USDC"),
        ground_truth_source: "receipt".into(),
        matched: false,
        unfilled: false,
    };
    let stop = HaltChanged { level: Some(StopLevel::Pause), by: text("operator"), reason: text("a look"), hold: false };
    let change =
        PolicyChange { field: text("max_single_trade_usd"), from: text("2500"), to: text("2000"), tighter: true };
    let words = GolemState { now: text("Selling."), next: text("Rest."), step: None, delegation: vec![text("trader")] };
    let card = |widget, data, hints| Some(ResultCard { widget, data, hints: Some(hints) });
    let kinds: Vec<(Option<u64>, EventKind)> = vec![
        (Some(1), begun()),
        (
            Some(1),
            EventKind::ToolUpdate(ToolUpdate { step: SafeText::clean("Building calldata", 80), index: 3, of: 6 }),
        ),
        (Some(1), EventKind::SafetyCheck(checked)),
        (Some(1), EventKind::MemoryHits(MemoryHits { similar: 3, changes: vec![text("slippage 50 to 30")] })),
        (Some(1), EventKind::PermitIssued(offered.clone())),
        (Some(1), EventKind::ApprovalRequested(asked)),
        (Some(1), EventKind::ApprovalResolved(refused)),
        (Some(1), tx(TxState::Confirmed)),
        (Some(1), EventKind::ToolVerified(verified)),
        (
            Some(1),
            end(true, card(CardKind::Swap, json!({ "amount_in": "1", "amount_out": "9", "note": "x" }), json!({}))),
        ),
        (Some(2), begun()),
        (Some(2), EventKind::ToolError(failed)),
        (Some(2), end(false, None)),
        (Some(3), begun()),
        (Some(3), end(true, card(CardKind::Quote, data, hints))),
        (Some(4), EventKind::OrderUpdate(Box::new(samples::order(DecayUnit::Seconds)))),
        (Some(5), EventKind::IntentUpdate(Box::new(samples::intent()))),
        (Some(6), begun()),
        (Some(6), EventKind::PermitIssued(offered)),
        (None, EventKind::GolemNow(words)),
        (
            None,
            EventKind::GolemThought(GolemThought { thought: turn, text: text("I think."), more: false, report: false }),
        ),
        (
            None,
            EventKind::AlertChannel(AlertChannelChanged {
                channel: text("webhook"),
                works: false,
                why: text("the server answered 500"),
                lost: turn,
            }),
        ),
        (None, EventKind::FabricFault(FabricFault { message: text("the disk is full"), first_lost: turn })),
        (
            None,
            EventKind::PolicyChanged(PolicyChanged {
                hash: B256::ZERO,
                version: 2,
                changes: vec![change],
                binding: Vec::new(),
            }),
        ),
        (None, EventKind::HaltRaised(stop)),
        (
            None,
            EventKind::PhaseChanged(PhaseChanged { from: Phase::Thriving, to: Phase::Cautious, why: text("a fall") }),
        ),
        (None, EventKind::ChainHealth(ChainHealth { chain_id: 1, state: ChainState::Down, why: text("timed out") })),
        (None, EventKind::DirectiveChanged(DirectiveChanged { delta: 1, summary: text("slower"), undone: false })),
        (None, EventKind::Caption(Caption { show: text("tour"), text: text("Look."), at_seconds: 0 })),
    ];
    let count = kinds.len() as u64;
    let event = |(place, (call, kind)): (u64, (Option<u64>, EventKind))| {
        let call_id = call.map(|call| format!("01HF7YAT0{:017}", turn % 50 * 10 + call).parse::<CallId>().unwrap());
        Arc::new(Event { seq: turn * count + place, at: turn, golem_id: "ada".parse().unwrap(), call_id, kind })
    };
    (0..).zip(kinds).map(event).collect()
}

/// The same requests stay open for a while, and their texts change all the time.
fn questions(turn: u64) -> SessionNews {
    let number = turn / TURNS_OF_A_QUESTION * 2 + 1;
    let swap = Question { number, of: 2, ..samples::question() };
    let change =
        PolicyChange { field: text("max_daily_spend_usd"), from: text("5000"), to: text("8000"), tighter: false };
    let policy = PolicyRequest {
        file: text("policy.toml"),
        changes: vec![change],
        binding: Vec::new(),
        names: Vec::new(),
        texts: None,
    };
    let looser =
        Question { number: number + 1, place: 2, of: 2, about: RequestSubject::Policy(policy), ..samples::question() };
    SessionNews::Questions(Arc::new(vec![swap, looser]))
}

fn snapshot() -> SessionSnapshot {
    let amount = || TokenAmount::new(U256::from(9_000), 3).unwrap();
    let allowance = AllowanceState {
        chain: text("ethereum"),
        chain_id: 31_337,
        symbol: text("USDC"),
        token: Address::repeat_byte(1),
        spender: Address::repeat_byte(2),
        label: Some(text("Permit2")),
        through_permit2: true,
        raw: U256::from(9),
        amount: Some(amount()),
        unlimited: false,
        expires_at: None,
        promised: None,
    };
    let grant = GrantState {
        number: 4,
        golem_id: "ada".parse::<GolemId>().unwrap(),
        tool: text("uniswap_execute_swap"),
        chain_id: 31_337,
        tokens: vec![text("WETH"), text("USDC")],
        recipients: vec![Address::repeat_byte(7)],
        granted: "500".parse().ok(),
        left: "380".parse().unwrap(),
        lasts_millis: 1_800_000,
    };
    SessionSnapshot {
        golem_id: "ada".parse().unwrap(),
        at: 1,
        account: Some(Address::repeat_byte(7)),
        paper: false,
        phase: Phase::Cautious,
        policy: PolicyState { name: text("demo"), version: 3, hash: B256::ZERO },
        limits: None,
        fault: Some(text("the policy's file is broken")),
        stop: Some(StopState {
            level: StopLevel::Pause,
            by: text("operator"),
            reason: text("a look"),
            at: 1,
            own_hold: false,
        }),
        keys_revoked: false,
        custody: None,
        holdings: vec![ChainHoldings {
            chain: text("ethereum"),
            chain_id: 31_337,
            block: 9,
            rows: vec![HoldingRow { symbol: text("WETH"), amount: amount(), value: "1234.5".parse().ok() }],
            positions: vec![],
            lending: None,
        }],
        equity: "25310.42".parse().ok(),
        all_priced: true,
        allowances: AllowancesState { rows: vec![allowance], silent: Vec::new() },
        grants: vec![grant],
        running: 1,
        pnl: None,
        transactions: None,
        watched: Vec::new(),
        names: Vec::new(),
        schedules: Some(Arc::new(schedules())),
        deposits: Some(Arc::new(deposits())),
    }
}

fn deposits() -> DepositsState {
    let place = |chain_id: u64| TxPlace { chain_id, hash: B256::repeat_byte(9), block: Some(7) };
    let row = DepositRow {
        id: text("3"),
        source_chain: text("ethereum"),
        destination_chain: text("base"),
        stage: DepositStage::Unclear,
        amount_in: "12.5".to_owned(),
        token_in: text("USDC"),
        amount_asked: "12.5".to_owned(),
        amount_received: Some("12.5".to_owned()),
        token_out: text("USDC"),
        fill_deadline: 600,
        deposited_at: 1,
        deposited: place(31_337),
        slow_fill_asked: Some(place(31_338)),
        filled: Some(place(31_338)),
        relayer: Some(text("0x00000000000000000000000000000000000000C1")),
        refunded: Some(place(31_337)),
        remark: text("the destination does not answer"),
    };
    DepositsState { rows: vec![row], fault: Some(text("a chain does not answer")) }
}

fn schedules() -> SchedulesState {
    let attempt = ScheduleAttempt {
        slice: 2,
        at: 900,
        outcome: text("failed"),
        is_done: false,
        paid: Some("12.5".to_owned()),
        received: None,
        message: text("no route"),
    };
    let row = ScheduleRow {
        id: text("sch_1"),
        golem_id: text("ada"),
        runs_here: true,
        chain: text("ethereum"),
        state: text("active"),
        is_active: true,
        is_running: false,
        token_in: text("USDC"),
        token_out: text("WETH"),
        total: "12.5".to_owned(),
        next_amount: "12.5".to_owned(),
        slices: 5,
        done: 1,
        paid: "12.5".to_owned(),
        received: "12.5".to_owned(),
        interval_seconds: 60,
        least_price: Some("12.5".to_owned()),
        created_at: 1,
        next_at: Some(60_000),
        ends_at: 600_000,
        failures: 1,
        most_failures: 5,
        attempts: vec![attempt],
    };
    SchedulesState { rows: vec![row], unreadable: 1, fault: Some(text("database is locked")) }
}

fn trail() -> Vec<AuditEntry> {
    let bodies = [
        ("permit:issued", json!({ "expected_outcome": "Swap", "needs": "approval" })),
        ("approval:requested", json!({ "asked": "Swap" })),
        ("approval:resolved", json!({ "outcome": "refused", "reason": "wait" })),
        ("action:refused", json!({ "wanted": "swap", "why": "no" })),
        ("halt:raised", json!({ "level": "pause", "by": "operator", "reason": "a look" })),
        ("later:kind", json!({ "some": { "deep": ["words", "more"] } })),
    ];
    let entry = |(seq, (kind, body)): (u64, &(&str, Value))| AuditEntry {
        seq,
        at: seq,
        kind: text(kind),
        call_id: Some(text("01HF7YAT000000000000000001")),
        golem_id: text("ada"),
        body: body.clone(),
        hash: B256::ZERO,
    };
    (1..).zip(bodies.iter()).map(entry).collect()
}
