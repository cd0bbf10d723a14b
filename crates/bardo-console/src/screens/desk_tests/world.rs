//! Test data for the screens: chains, orders, holdings, allowances and tools.

use std::cell::Cell;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};

use super::super::ScreenContext;
use super::super::form::tests::tool;
use super::safe;
use crate::state::feed::Feed;
use crate::state::model::*;
use crate::widgets::samples::{self, START, START_MILLIS};
use bardo_base::fabric::{
    ApprovalOutcome, ApprovalRequested, ApprovalResolved, DecayUnit, Event, EventKind, PermitIssued, RedactedParams,
    SimulatedChange, ToolEnd, ToolStart,
};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::{CapabilityTier, Category, Phase};
use bardo_base::units::TokenAmount;
use bardo_session::handle::{
    AllowanceState, AllowancesState, AuditEntry, ChainHoldings, GrantState, HoldingRow, PolicyState, SessionInfo,
    SessionSnapshot, SilentToken, ToolInfo,
};
use bardo_session::questions::{Question, RequestSubject};

pub(super) struct TestHarness {
    pub page: Page,
    pub feed: Feed,
    /// Feed at the moment when the view was frozen.
    pub frozen: Option<Feed>,
    pub snapshot: SessionSnapshot,
    pub ready: SessionInfo,
    pub questions: Vec<Question>,
    /// Manual action whose offer is held.
    pub offer: Option<Question>,
    /// Newest audit log entries.
    pub entries: Vec<AuditEntry>,
    pub now: u64,
    /// Milliseconds of the machine's clock that passed for reading before a key.
    pub calm: Cell<u64>,
    pub watch_only: bool,
}

impl TestHarness {
    pub fn known(&self) -> ScreenContext<'_> {
        ScreenContext {
            now_millis: self.now,
            live_millis: self.now,
            machine_millis: self.now + self.calm.get(),
            motion: true,
            money: self.page.network.as_ref().map(|network| match self.snapshot.paper {
                true => MoneyKind::Paper,
                false => network.money,
            }),
            page: &self.page,
            feed: self.frozen.as_ref().unwrap_or(&self.feed),
            live_feed: &self.feed,
            questions: &self.questions,
            offer: self.offer.as_ref(),
            snapshot: Some(&self.snapshot),
            ready: Some(&self.ready),
            watch_only: self.watch_only,
            away: None,
        }
    }
}

/// Texts at the places that an outsider controls.
#[derive(Clone, Copy)]
struct SampleWords<'a> {
    token: &'a str,
    chain: &'a str,
    label: &'a str,
    no_price: &'a str,
    tool: &'a str,
}

/// Test data with `word` at every place that an outsider controls.
pub(super) fn in_words(word: &str) -> TestHarness {
    world_of(SampleWords { token: word, chain: word, label: word, no_price: word, tool: word })
}

fn world_of(words: SampleWords<'_>) -> TestHarness {
    let word = words.token;
    let mut page = Page::default();
    page.apply(MarketUpdate::Started(NetworkIdentity {
        name: safe("devnet"),
        money: MoneyKind::Play,
        chains: vec![
            ChainIdentity { name: safe("ethereum"), id: 31_337, interval_millis: Some(2000) },
            ChainIdentity { name: safe("base"), id: 31_338, interval_millis: Some(1000) },
        ],
        wallet: Address::repeat_byte(0xf3),
    }));
    let block = |number| BlockRow {
        number,
        timestamp: START - 2 * (1290 - number),
        base_fee_wei: 1_200_000_000,
        gas_used: 400_000,
        gas_limit: 30_000_000,
        transactions: 3,
    };
    for chain in 0..2 {
        page.apply(MarketUpdate::Chain(Box::new(ChainSnapshot {
            chain,
            blocks: (1270..=1290).map(block).collect(),
            tokens: vec![
                TokenRow {
                    symbol: safe(word),
                    address: Address::repeat_byte(1),
                    price: FeedPrice::Live("3412.55".parse().unwrap()),
                },
                TokenRow {
                    symbol: safe("DAI"),
                    address: Address::repeat_byte(2),
                    price: FeedPrice::None(safe(words.no_price)),
                },
            ],
            pools: vec![PoolRow {
                base: safe(word),
                quote: safe("USDC"),
                version: PoolVersion::V3,
                fee_pips: 500,
                address: Address::repeat_byte(9),
                price: Some("3412.5521".parse().unwrap()),
                feed_price: Some("3411.2".parse().unwrap()),
                holds: Some("12450000".parse().unwrap()),
            }],
            balances: Vec::new(),
            positions: vec![],
            lending: None,
            activity: Vec::new(),
        })));
    }
    let mut feed = Feed::default();
    let mut open = samples::order(DecayUnit::Seconds);
    open.token_in.symbol = safe(word);
    feed.orders.insert(START_MILLIS, open);
    let mut past = samples::order(DecayUnit::Seconds);
    past.order_hash = B256::repeat_byte(0x77);
    past.status = bardo_base::fabric::OrderStatus::Expired;
    feed.orders.insert(START_MILLIS + 5, past);
    let mut intent = samples::intent();
    intent.destination_chain = safe(words.chain);
    feed.intents.insert(START_MILLIS + 9, intent);
    for at in 0..60 {
        feed.equity.push_back((START_MILLIS - 600_000 + at * 10_000, format!("253{at:02}.25").parse().unwrap()));
    }
    let allowance = |symbol: &str, seed, unlimited| AllowanceState {
        chain: safe("ethereum"),
        chain_id: 31_337,
        symbol: safe(symbol),
        token: Address::repeat_byte(seed),
        spender: Address::repeat_byte(0xa3),
        label: (seed == 1).then(|| safe(words.label)),
        through_permit2: seed == 1,
        raw: U256::from(250_000_000u64),
        amount: TokenAmount::new(U256::from(250_000_000u64), 6).ok(),
        unlimited,
        expires_at: (seed == 1).then_some(START + 300),
        promised: None,
    };
    let snapshot = SessionSnapshot {
        golem_id: GolemId::operator(),
        at: START_MILLIS,
        account: Some(Address::repeat_byte(0xf3)),
        paper: false,
        phase: Phase::Cautious,
        policy: PolicyState { name: safe("demo"), version: 3, hash: B256::ZERO },
        limits: None,
        fault: None,
        stop: None,
        keys_revoked: false,
        custody: None,
        holdings: vec![ChainHoldings {
            chain: safe("ethereum"),
            chain_id: 31_337,
            block: 1290,
            rows: vec![
                HoldingRow {
                    symbol: safe(word),
                    amount: TokenAmount::new(U256::from(4_250_000_000_000_000_000u64), 18).unwrap(),
                    value: Some("14503.34".parse().unwrap()),
                },
                HoldingRow {
                    symbol: safe("USDC"),
                    amount: TokenAmount::new(U256::from(6_120_000_000u64), 6).unwrap(),
                    value: None,
                },
            ],
            positions: vec![],
            lending: None,
        }],
        equity: Some("25310.42".parse().unwrap()),
        all_priced: false,
        allowances: AllowancesState {
            rows: vec![allowance("WETH", 1, false), allowance("USDC", 2, true)],
            silent: vec![SilentToken {
                chain: safe("ethereum"),
                chain_id: 31_337,
                symbol: safe("DAI"),
                token: Address::repeat_byte(3),
            }],
        },
        grants: grants(words),
        running: 0,
        pnl: None,
        transactions: Some(Arc::new(super::under_way::sample(words.chain, words.tool))),
        schedules: None,
        deposits: None,
        watched: Vec::new(),
        names: Vec::new(),
    };
    let with = |name: &str, capability, category| ToolInfo { category, ..tool(name, capability) };
    let order_tool = |name: &str, field: &str| {
        let mut info = with(name, CapabilityTier::Write, Category::Trading);
        info.input_schema = json!({"properties": {field: {"type": "string"}, "chain": {"type": "string"}}, "required": [field, "chain"]});
        info
    };
    let mut quote = with("uniswap_get_quote", CapabilityTier::Read, Category::Trading);
    quote.description = safe(words.tool);
    let ready = SessionInfo {
        golem_id: GolemId::operator(),
        name: safe("Ada"),
        role: safe("trade-executor"),
        tools: vec![
            with("get_balances", CapabilityTier::Read, Category::Data),
            quote,
            with("uniswap_execute_swap", CapabilityTier::Write, Category::Trading),
            order_tool("uniswapx_cancel_order", "order_hash"),
            order_tool("intent_refund", "intent_id"),
        ],
        scenarios: Vec::new(),
        journal: None,
        commands: Vec::new(),
        brain: None,
        not_attached: None,
        own_devnet: true,
        served: false,
    };
    decided(words).iter().for_each(|event| feed.take(event));
    let looser = Question {
        number: 2,
        place: 2,
        of: 2,
        title: safe(words.label),
        ends_at: None,
        value: None,
        about: RequestSubject::LeavePaper,
        ..samples::question()
    };
    let questions = vec![Question { of: 2, title: safe(words.chain), ..samples::question() }, looser];
    let (entries, now) = (trail(words), START_MILLIS + 7_000);
    TestHarness {
        page,
        feed,
        frozen: None,
        snapshot,
        ready,
        questions,
        offer: None,
        entries,
        now,
        calm: Cell::new(0),
        watch_only: false,
    }
}

pub(super) fn world() -> TestHarness {
    world_of(SampleWords {
        token: "WETH",
        chain: "base",
        label: "Universal Router",
        no_price: "no feed on this chain",
        tool: "What a trade would bring, without making it.",
    })
}

/// Three standing approvals: one hardly used, one nearly used up, and one of which only the rest is known.
fn grants(words: SampleWords<'_>) -> Vec<GrantState> {
    let grant = |number, left: &str, granted: Option<&str>| GrantState {
        number,
        golem_id: "ada".parse().unwrap(),
        tool: safe("uniswap_execute_swap"),
        chain_id: 31_337,
        tokens: vec![safe(words.token), safe("USDC")],
        recipients: vec![Address::repeat_byte(0xf3)],
        granted: granted.map(|most| most.parse().unwrap()),
        left: left.parse().unwrap(),
        lasts_millis: 1_750_000,
    };
    vec![grant(4, "1500", Some("2000")), grant(6, "12.5", Some("900")), grant(7, "75", None)]
}

/// Call id that is the same in every run.
fn call_id(number: u64) -> CallId {
    format!("01HF7YAT0{number:017}").parse().unwrap()
}

/// Calls with every kind of decision, and one whose offer waits.
fn decided(words: SampleWords<'_>) -> Vec<Arc<Event>> {
    let permit_id: PermitId = "7c1e0000000000000000000000000001".parse().unwrap();
    let begun = |amount: &str| {
        let params = json!({ "token_in": words.token, "token_out": "USDC", "amount": amount, "chain": "ethereum" });
        EventKind::ToolStart(ToolStart {
            tool_name: "uniswap_execute_swap".into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: B256::ZERO,
            tick: None,
            facts: None,
        })
    };
    let asked = || {
        let (title, lapses_at) = (safe(words.label), START_MILLIS + 60_000);
        let passes_by_itself = false;
        EventKind::ApprovalRequested(ApprovalRequested {
            permit_id,
            title,
            reasons: vec![],
            lapses_at,
            passes_by_itself,
            renewal: None,
        })
    };
    let resolved = |outcome, reason: Option<&str>| {
        let reason = reason.map(safe);
        EventKind::ApprovalResolved(ApprovalResolved { permit_id, outcome, reason, amount: None })
    };
    let ended = || {
        EventKind::ToolEnd(ToolEnd {
            success: false,
            state: None,
            duration_ms: 9,
            result_summary: Value::Null,
            card: None,
        })
    };
    let outcomes = [
        (ApprovalOutcome::Approved, None),
        (ApprovalOutcome::Refused, Some(words.label)),
        (ApprovalOutcome::Lapsed, None),
        (ApprovalOutcome::RefusedAndHalted, Some("too much at once")),
    ];
    let mut told: Vec<(u64, EventKind)> = Vec::new();
    for (call, (outcome, reason)) in (1..).zip(outcomes) {
        told.extend([begun("0.6"), asked(), resolved(outcome, reason), ended()].map(|kind| (call, kind)));
    }
    let offered = PermitIssued {
        permit_id,
        simulation_hash: B256::repeat_byte(3),
        expected_outcome: safe(&format!("Swap 0.25 {} for >= 848.28 USDC", words.token)),
        expires_at: START_MILLIS + 48_000,
        notify: false,
        changes: vec![SimulatedChange {
            symbol: safe(words.token),
            address: None,
            change: safe(&format!("+{}", words.token)),
            before: safe("4.5"),
            after: safe(words.token),
            gas: false,
        }],
        least_out: None,
        leaves_usd: None,
        is_order: false,
    };
    told.extend([(9, begun("0.25")), (9, EventKind::PermitIssued(offered))]);
    let event = |(seq, (call, kind)): (u64, (u64, EventKind))| {
        let (at, call_id) = (START_MILLIS + seq, Some(call_id(call)));
        Arc::new(Event { seq, at, golem_id: "ada".parse().unwrap(), call_id, kind })
    };
    (1..).zip(told).map(event).collect()
}

/// Thirty audit log entries; the first does not have number 1. They contain the outsider's texts unchanged.
fn trail(words: SampleWords<'_>) -> Vec<AuditEntry> {
    let bodies = [
        (
            "permit:issued",
            json!({ "expected_outcome": format!("Swap 0.36 {} for >= 153.57 UNI", words.token), "needs": "approval" }),
        ),
        ("approval:requested", json!({ "asked": words.label })),
        ("approval:resolved", json!({ "outcome": "refused", "reason": words.label })),
        ("action:refused", json!({ "wanted": "swap", "why": "the symbol is a lookalike" })),
        ("action:settled", json!({ "state": "done", "spent": "848.499006" })),
        ("halt:raised", json!({ "level": "pause", "by": words.chain, "reason": "a look" })),
    ];
    let entry = |(seq, (kind, body)): (u64, &(&str, Value))| AuditEntry {
        seq,
        at: START_MILLIS - 30_000 + seq * 10,
        kind: safe(kind),
        call_id: (seq % 2 == 0).then(|| safe(&call_id(1).to_string())),
        golem_id: safe("ada"),
        body: body.clone(),
        hash: B256::repeat_byte(u8::try_from(seq % 200).unwrap()),
    };
    (734..=763).zip(bodies.iter().cycle()).map(entry).collect()
}
