//! Samples of every card in every state, built from events as the engine emits them. Used by tests, the gallery and
//! benchmarks. The figures are invented; the structures are those of real responses.

mod asked;
pub mod custody;
pub mod pools;
pub mod positions;
mod settled;
mod under_way;

use alloy_primitives::{Address, B256};
use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::Moment;
use super::allowance::AllowanceModel;
use super::bridge::BridgeModel;
use super::call::CallModel;
use super::card::CallCard;
use super::chart::{ChartMark, ChartModel, TimeRange};
use super::gauge::{FullMeaning, Gauge};
use super::lending::LendingModel;
use super::order::OrderModel;
use super::plain::PlainModel;
use super::position_change::PositionChangeModel;
use super::quote::QuoteModel;
use super::status::CardStatus;
use super::swap::SwapModel;
pub use asked::{decisions, outcome, question};
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::*;
use bardo_base::id::PermitId;
use bardo_base::model::{CardKind, Check, RuleName};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Usd};
pub use settled::{bridges, intent, order, orders, position_changes, vault_changes};

/// Start of the samples in seconds since the Unix epoch: 2023-11-14 22:13:20 UTC.
pub const START: u64 = 1_700_000_000;
/// Start of the samples in milliseconds since the Unix epoch.
pub const START_MILLIS: u64 = START * 1000;

/// Moment for which the samples are drawn, seven seconds after the start.
pub const NOW: Moment = Moment { millis: START_MILLIS + 7_000, motion: true };

/// Steps of a swap, in order.
pub const SWAP_STEPS: [&str; 6] = [
    "Simulating via Revm",
    "Approving token",
    "Building calldata",
    "Signing transaction",
    "Broadcasting",
    "Confirming receipt",
];

fn text(raw: &str) -> SafeText {
    SafeText::clean(raw, 400)
}

/// Sample token whose symbol stands for outside text; tests replace it by hostile text.
pub fn asset(symbol: &str, seed: u8, decimals: u8) -> CardToken {
    CardToken { symbol: text(symbol), address: Address::repeat_byte(seed), decimals }
}

fn end(success: bool, millis: u64, widget: CardKind, data: Value, hints: Value) -> EventKind {
    let card = success.then_some(ResultCard { widget, data, hints: Some(hints) });
    EventKind::ToolEnd(ToolEnd { success, state: None, duration_ms: millis, result_summary: Value::Null, card })
}

fn failed(code: ErrorCode, message: &str) -> [EventKind; 2] {
    [
        EventKind::ToolError(ToolFailed {
            error_code: code,
            error_message: text(message),
            checks: Some(blocked(code)),
        }),
        EventKind::ToolEnd(ToolEnd {
            success: false,
            state: None,
            duration_ms: 180,
            result_summary: Value::Null,
            card: None,
        }),
    ]
}

/// Failed checks of a call that ended with this error.
fn blocked(code: ErrorCode) -> Vec<SafetyCheck> {
    if code != ErrorCode::SafetySpendingLimitExceeded {
        return Vec::new();
    }
    let violation = Violation::new(RuleName::MaxSingleTradeUsd, "$2,500.00", "$6,785.11 is above $2,500.00", "less");
    let finding = Finding::Broken { violations: vec![violation] };
    vec![SafetyCheck { check: Check::SpendingLimit, outcome: CheckOutcome::Blocked, finding }]
}

fn step(name: &'static str, index: u32) -> EventKind {
    EventKind::ToolUpdate(ToolUpdate { step: text(name), index, of: 6 })
}

fn check(check: Check, outcome: CheckOutcome, detail: &str) -> EventKind {
    EventKind::SafetyCheck(SafetyCheck { check, outcome, finding: Finding::of_earlier_versions(check, &text(detail)) })
}

fn tx(leg: u32, of: u32, state: TxState, block: Option<u64>) -> EventKind {
    EventKind::TxUpdate(TxUpdate {
        chain_id: 31_337,
        hash: B256::repeat_byte(0x8c),
        leg,
        of,
        state,
        block,
        gas_cost_wei: None,
        purpose: None,
    })
}

/// Parameters of the sample swap.
pub fn swap_params() -> Value {
    json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"})
}

/// Data and hints of a quote; with two parts if `split`.
pub fn quote_answer(split: bool, impact: f64) -> (Value, Value) {
    let hop = |from: &str, to: &str, fee: u32, version: &str, leg: u32, share: u32| json!({"pool": Address::repeat_byte(9), "token_in": from, "token_out": to, "fee_tier": fee, "version": version, "leg": leg, "share_bps": share});
    let route = if split {
        json!([
            hop("WETH", "UNI", 3000, "V4", 1, 5500),
            hop("WETH", "USDC", 100, "V3", 2, 4500),
            hop("USDC", "UNI", 3000, "V2", 2, 4500),
        ])
    } else {
        json!([hop("WETH", "USDC", 500, "V3", 1, 10_000)])
    };
    let (out, symbol) = if split { ("1074.707276108501076874", "UNI") } else { ("852.546103", "USDC") };
    let data = json!({
        "quote_id": "01", "token_in": "WETH", "token_out": symbol, "amount_in": if split { "2.5" } else { "0.25" },
        "amount_out": out, "price_impact_pct": impact, "gas_estimate_usd": 1.32728, "route": route,
        "route_type": "CLASSIC", "deadline": START + 300, "permit_data": null,
    });
    let hints = json!({
        "amount_in_usd": "853.14", "amount_out_usd": "852.546103", "minimum_out": "848.283372",
        "price_out_per_in": "3410.184412", "price_in_per_out": "0.00029324", "price_impact_with_fee_pct": "0.0702",
        "gas_units": 196_000, "slippage_bps": 50, "block_number": 1285, "source": "Bardo's own router over on-chain pools",
        "uniswapx": {"offered": false, "preferred": true, "why": "no order service is connected"}, "warnings": [],
    });
    (data, hints)
}

/// Quotes, one per state.
pub fn quotes() -> Vec<(&'static str, QuoteModel)> {
    let asked = || QuoteModel::asked(START_MILLIS, "uniswap_get_quote", swap_params());
    let with = |events: &[(u64, EventKind)]| {
        let mut model = asked();
        events.iter().for_each(|(after, kind)| model.fold(START_MILLIS + after, kind));
        model
    };
    let answered = |split, impact| {
        let (data, hints) = quote_answer(split, impact);
        end(true, 120, CardKind::Quote, data, hints)
    };
    let mut stale = with(&[(120, answered(false, 0.0016))]);
    stale.answered_at = Some(START_MILLIS - 24_000);
    let mut expired = stale.clone();
    if let Some(quote) = &mut expired.quote {
        quote.deadline = START;
    }
    let mut warned = with(&[(120, answered(false, 2.4))]);
    if let Some(quote) = &mut warned.quote {
        quote.warnings.push(text("the pool holds little: a smaller amount would lose less"));
    }
    let refusal = |code, message| {
        let [error, end] = failed(code, message);
        with(&[(5, error), (6, end)])
    };
    // An order uses no pool, and its filler pays the gas.
    let mut offered = quote_answer(false, 0.21);
    offered.0["route_type"] = json!("DUTCH_V2");
    offered.0["route"] = json!([]);
    offered.0["gas_estimate_usd"] = json!(0.31);
    offered.1["gas_units"] = json!(0);
    offered.1["uniswapx"] = json!({
        "offered": true, "preferred": true,
        "why": "fillers compete for it outside the public mempool, and the filler pays the gas",
    });
    offered.1["mev"] = json!([{ "about": "size", "words": "it takes 1.40 % of the balance of a pool on its route; \
                                                           intel_assess_mev_risk shows how to split it" }]);
    let offered = end(true, 120, CardKind::Quote, offered.0, offered.1);
    let mut exact_output = quote_answer(false, 0.0016);
    if let Some(hints) = exact_output.1.as_object_mut() {
        hints.remove("minimum_out");
    }
    exact_output.0["amount_in"] = json!("0.250041");
    exact_output.0["amount_out"] = json!("852.7");
    exact_output.1["maximum_in"] = json!("0.251291205");
    let exact_output = end(true, 120, CardKind::Quote, exact_output.0, exact_output.1);
    vec![
        ("empty", QuoteModel::default()),
        ("loading", asked()),
        (
            "running",
            with(&[(10, EventKind::ToolUpdate(ToolUpdate { step: text("Computing route"), index: 2, of: 3 }))]),
        ),
        ("done", with(&[(120, answered(false, 0.0016))])),
        ("split", with(&[(120, answered(true, 0.84))])),
        ("offered", with(&[(120, offered)])),
        ("exact_output", with(&[(120, exact_output)])),
        ("high", warned),
        ("stale", stale),
        ("expired", expired),
        ("blocked", refusal(ErrorCode::SafetyRateLimited, "60 of 60 calls in a minute")),
        ("failed", refusal(ErrorCode::RoutingNoRoute, "no chain of pools joins WETH and USDC here")),
    ]
}

fn ten_checks(blocked: bool) -> Vec<EventKind> {
    let passed = |which, detail| check(which, CheckOutcome::Passed, detail);
    let limits = if blocked {
        check(
            Check::SpendingLimit,
            CheckOutcome::Blocked,
            "$6,785.11 is above $2,500.00 in one action; at most $2,500.00 would pass",
        )
    } else {
        passed(Check::SpendingLimit, "$853.14 now, $1,966.02 of $5,000.00 in 24 hours after it")
    };
    vec![
        passed(Check::Halt, "no stop is in force"),
        passed(Check::PhaseGate, "Thriving allows decrease-position"),
        passed(Check::TokenAllowlist, "everything it touches is on its list"),
        limits,
        passed(Check::RateLimit, "3 of 120 trades in 60 minutes"),
        passed(Check::BalanceBreaker, "exits and revocations pass"),
        check(Check::SlippageGuard, CheckOutcome::Warned, "50 bps; the mempool is public and no filler quoted"),
        passed(Check::PolicyCage, "the account has set no rules in a policy contract"),
    ]
}

/// Swaps, one per state.
pub fn swaps() -> Vec<(&'static str, SwapModel)> {
    let asked = || SwapModel::asked(START_MILLIS, "uniswap_execute_swap", swap_params(), &SWAP_STEPS);
    let with = |events: &[(u64, EventKind)]| {
        let mut model = asked();
        events.iter().for_each(|(after, kind)| model.fold(START_MILLIS + after, kind));
        model
    };
    let timed = |blocked| -> Vec<(u64, EventKind)> {
        let mut events = vec![(2, step("Building calldata", 3))];
        events.extend(ten_checks(blocked).into_iter().map(|event| (14, event)));
        events
    };
    let simulated = || {
        let mut events = timed(false);
        let detail = "block 1285, 128412 gas, 2 balances move as declared and nothing else";
        events.push((15, check(Check::Simulation, CheckOutcome::Passed, detail)));
        let changes = vec![text("slippage 100 bps to 50 bps: the worst of 5 alike was 20 bps under its quote")];
        events.push((15, EventKind::MemoryHits(MemoryHits { similar: 5, changes })));
        events.push((
            16,
            EventKind::PermitIssued(PermitIssued {
                permit_id: PermitId::random(),
                simulation_hash: B256::repeat_byte(0x51),
                expected_outcome: text("Swap 0.25 WETH for >= 848.283372 USDC"),
                expires_at: START_MILLIS + 48_000,
                notify: false,
                changes: Vec::new(),
                least_out: None,
                leaves_usd: None,
                is_order: false,
            }),
        ));
        events
    };
    let sent = || {
        let mut events = simulated();
        let used = PermitUsed { permit_id: PermitId::random(), simulation_hash: B256::repeat_byte(0x51) };
        events.push((20, EventKind::PermitConsumed(used)));
        events.push((23, tx(1, 1, TxState::Signed, None)));
        events.push((41, tx(1, 1, TxState::Sent, None)));
        events
    };
    let answer = |state: &str, mismatch: bool| {
        let hints = json!({
            "state": state, "quoted_out": "852.546103", "minimum_out": "848.283372",
            "moves": [{"token": "WETH", "before": "4.25", "after": "4"}, {"token": "USDC", "before": "6120", "after": "6972.37561"}],
            "mismatches": if mismatch { json!(["USDC came in 3.10 short of what was declared"]) } else { json!([]) },
            "transactions": [{"gas_cost_wei": "138582612000000"}],
            "uniswapx": {"preferred": true, "used": false, "why": "below $1000 what a filler earns for its gas outweighs the protection"},
            "mev": [
                { "about": "slippage", "words": "the minimum output is in the calldata" },
                match state {
                    "simulated" => json!({ "about": "visibility", "words": "nothing was sent" }),
                    _ => json!({ "about": "visibility", "words": "sent through the public mempool" }),
                },
                { "about": "deadline", "words": "it cannot be settled later" },
            ],
        });
        let data = json!({
            "tx_hash": B256::repeat_byte(0x8c), "block_number": 1285, "gas_used": 138_306, "amount_in": "0.25",
            "amount_out": "852.37561", "effective_price": 3409.5, "price_impact_pct": 0.0016, "slippage_actual_bps": 2,
            "explorer_url": "bardo://tx/0x8c",
        });
        (data, hints)
    };
    let done = |agrees: bool| {
        let mut events = sent();
        events.push((6_100, tx(1, 1, TxState::Confirmed, Some(1285))));
        let actual = if agrees { "as declared" } else { "USDC came in 3.10 short of what was declared" };
        events.push((
            6_150,
            EventKind::ToolVerified(ToolVerified {
                expected_outcome: text("Swap 0.25 WETH for >= 848.283372 USDC"),
                actual_outcome: text(actual),
                ground_truth_source: "receipt and balances".into(),
                matched: agrees,
                unfilled: false,
            }),
        ));
        let (data, hints) = answer("done", !agrees);
        events.push((6_200, end(true, 6_200, CardKind::Swap, data, hints)));
        events
    };
    let ended = |mut events: Vec<(u64, EventKind)>, code, message: &str| {
        events.extend(failed(code, message).map(|event| (200, event)));
        with(&events)
    };
    let asked_operator = || {
        let mut events = simulated();
        events.push((
            17,
            EventKind::ApprovalRequested(ApprovalRequested {
                permit_id: PermitId::random(),
                title: text("Swap 0.25 WETH for USDC"),
                reasons: vec![AskReason::said("above your $500 limit")],
                lapses_at: START_MILLIS + 48_000,
                passes_by_itself: false,
                renewal: None,
            }),
        ));
        events
    };
    let answered = |outcome, reason: Option<&str>| {
        let mut events = asked_operator();
        let reason = reason.map(text);
        events.push((
            6_000,
            EventKind::ApprovalResolved(ApprovalResolved {
                permit_id: PermitId::random(),
                outcome,
                reason,
                amount: None,
            }),
        ));
        events
    };
    let (data, hints) = answer("simulated", false);
    let mut rehearsed = simulated();
    rehearsed.push((30, end(true, 30, CardKind::Swap, data, hints)));
    let (data, mut hints) = answer("simulated", false);
    hints["paper"] = json!(true);
    let mut on_paper = simulated();
    on_paper.push((30, end(true, 30, CardKind::Swap, data, hints)));
    let (data, hints) = answer("unclear", false);
    let mut unclear = sent();
    unclear.push((5_000, tx(1, 1, TxState::Unclear, None)));
    unclear.push((6_000, end(true, 6_000, CardKind::Swap, data, hints)));
    let mut reverted = sent();
    reverted.push((6_100, tx(1, 1, TxState::Reverted, Some(1285))));
    vec![
        ("empty", SwapModel::default()),
        ("loading", asked()),
        ("running", with(&sent())),
        ("waiting", with(&asked_operator())),
        ("done", with(&done(true))),
        ("disagrees", with(&done(false))),
        ("simulated", with(&rehearsed)),
        ("on paper", with(&on_paper)),
        ("unclear", with(&unclear)),
        (
            "blocked",
            ended(
                timed(true),
                ErrorCode::SafetySpendingLimitExceeded,
                "max_single_trade_usd: $6,785.11 is above $2,500.00",
            ),
        ),
        (
            "refused",
            ended(
                answered(ApprovalOutcome::Refused, Some("wait for gas")),
                ErrorCode::ApprovalRefused,
                "the operator rejected it: wait for gas",
            ),
        ),
        (
            "lapsed",
            ended(
                answered(ApprovalOutcome::Lapsed, None),
                ErrorCode::ApprovalLapsed,
                "nobody answered in time; nothing was signed",
            ),
        ),
        ("expired", ended(simulated(), ErrorCode::PermitExpired, "the simulated offer's time was over")),
        (
            "failed",
            ended(
                reverted,
                ErrorCode::ExecutionTxReverted,
                "the transaction is in a block and reverted: Too little received",
            ),
        ),
    ]
}

/// Allowances, one per state.
pub fn allowances() -> Vec<(&'static str, AllowanceModel)> {
    let spender = "0xA3AF642Cb02a15E2aD2eDf63eD80279d059562bb";
    let params = || json!({"token": "WETH", "chain": "ethereum"});
    let with = |tool: &str, data: Value, hints: Value| {
        let mut model = AllowanceModel::asked(START_MILLIS, tool, params());
        model.fold(START_MILLIS + 40, &end(true, 40, CardKind::Allowance, data, hints));
        model
    };
    let checked = |allowance: &str, sufficient: bool, expires: u64, expired: bool| {
        let data = json!({"token": "WETH", "spender": spender, "allowance": allowance, "sufficient": sufficient, "needs_approval": !sufficient});
        let hints = json!({"spender_label": "universalRouter", "permit2": {"amount": allowance, "expires_at": expires, "expired": expired}});
        with("uniswap_check_allowance", data, hints)
    };
    let approved = |allowance: &str, expires: Value| {
        let data = json!({"token": "USDC", "spender": spender, "allowance": allowance, "expires_at": expires, "tx_hash": null, "gas_used": 0});
        with("token_approve", data, json!({}))
    };
    let mut refused = AllowanceModel::asked(START_MILLIS, "token_approve", params());
    for event in failed(ErrorCode::ApprovalRefused, "the operator refused") {
        refused.fold(START_MILLIS + 9, &event);
    }
    let revoked = json!({"token": "USDC", "spenders": [spender], "tx_hash": null, "gas_used": 0});
    vec![
        ("empty", AllowanceModel::default()),
        ("loading", AllowanceModel::asked(START_MILLIS, "uniswap_check_allowance", params())),
        ("needed", checked("0", false, 0, false)),
        ("approved", checked("4500000000000000000", true, START + 3_462, false)),
        ("expired", checked("4500000000000000000", false, START - 60, true)),
        ("granted", approved("250", json!(START + 300))),
        ("unlimited", approved("unlimited", Value::Null)),
        ("revoked", with("token_revoke", revoked, json!({}))),
        ("refused", refused),
    ]
}

/// Actions in a lending market, one per state.
pub fn lendings() -> Vec<(&'static str, LendingModel)> {
    let asked = |tool: &str, token: &str, amount: &str| {
        LendingModel::asked(START_MILLIS, tool, json!({"token": token, "amount": amount, "chain": "ethereum"}))
    };
    let liquidation = |symbol: &str, bps, price: &str, rises| LiquidationMove {
        symbol: text(symbol),
        fall: BasisPoints::new(bps).unwrap_or(BasisPoints::ZERO),
        price: price.parse().unwrap_or(Usd::ZERO),
        rises,
    };
    let simulated = |before, after, falls| {
        let finding = Finding::SimulatedDebt { block: 812, gas: 301_000, before, after, falls };
        EventKind::SafetyCheck(SafetyCheck { check: Check::Simulation, outcome: CheckOutcome::Passed, finding })
    };
    let verified = |matched| {
        EventKind::ToolVerified(ToolVerified {
            expected_outcome: text("Borrow 900 USDC from Aave"),
            actual_outcome: text("Borrow 900 USDC from Aave"),
            ground_truth_source: "transaction_receipt + balance_diff".into(),
            matched,
            unfilled: false,
        })
    };
    let folded = |mut model: LendingModel, events: Vec<EventKind>| {
        for (at, event) in (1..).zip(events) {
            model.fold(START_MILLIS + at * 10, &event);
        }
        model
    };
    let result = |token: &str, amount: &str, before: &str, after: &str, liquidated_if: Value| {
        let data = json!({"tx_hash": B256::repeat_byte(0x8c).to_string(), "block_number": 812, "token": token,
            "amount": amount, "health_factor_before": before, "health_factor_after": after,
            "liquidated_if": liquidated_if, "gas_used": 301_000, "explorer_url": null});
        end(true, 2_100, CardKind::Lending, data, json!({"state": "done"}))
    };
    let none = "none (no debt)";
    let fall = json!([{"token": "WETH", "price_usd": "2168.67469879", "fall_pct": "36.21"}]);
    let both = vec![liquidation("WETH", 3_621, "2168.67", false), liquidation("USDC", 5_677, "1.57", true)];
    let supplied = result("WETH", "0.5", none, none, json!([]));
    let borrowed = result("USDC", "900", none, "1.56", fall.clone());
    let repaid = result("USDC", "75.120551", "1.47", "1.65", fall.clone());
    let withdrawn = result("WETH", "0.05", "1.95", "1.76", fall);
    let steps = || vec![simulated(None, Some(156), both.clone()), tx(1, 1, TxState::Confirmed, Some(812))];
    let disagrees = [steps(), vec![verified(false), borrowed.clone()]].concat();
    let done = [steps(), vec![verified(true), borrowed]].concat();
    let sent = vec![simulated(None, Some(156), both.clone()), tx(1, 1, TxState::Sent, None)];
    vec![
        ("empty", LendingModel::default()),
        ("loading", asked("lending_borrow", "USDC", "900")),
        ("simulated", folded(asked("lending_borrow", "USDC", "900"), vec![simulated(None, Some(156), both.clone())])),
        ("on its way", folded(asked("lending_borrow", "USDC", "900"), sent)),
        ("borrowed", folded(asked("lending_borrow", "USDC", "900"), done)),
        ("disagrees", folded(asked("lending_borrow", "USDC", "900"), disagrees)),
        ("supplied", folded(asked("lending_supply", "WETH", "0.5"), vec![verified(true), supplied])),
        ("repaid", folded(asked("lending_repay", "USDC", "max"), vec![verified(true), repaid])),
        ("withdrawn", folded(asked("lending_withdraw", "WETH", "0.05"), vec![verified(true), withdrawn])),
    ]
}

/// Calls without a widget, one per state.
pub fn plains() -> Vec<(&'static str, PlainModel)> {
    let asked = || PlainModel::asked(START_MILLIS, "get_balances", json!({"chain": "ethereum"}));
    let mut done = asked();
    let summary = json!({"total_usd": "24979.76", "chains": [1, 2]});
    done.fold(
        START_MILLIS + 80,
        &EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 80,
            result_summary: summary,
            card: None,
        }),
    );
    let mut broken = asked();
    for event in failed(ErrorCode::ChainUnreachable, "no endpoint of base answers") {
        broken.fold(START_MILLIS + 9, &event);
    }
    vec![("empty", PlainModel::default()), ("loading", asked()), ("done", done), ("failed", broken)]
}

/// All sample cards, with widget and state.
pub fn cards() -> Vec<(&'static str, &'static str, CallCard)> {
    let mut all = Vec::new();
    all.extend(quotes().into_iter().map(|(state, model)| ("quote", state, CallCard::Quote(Box::new(model)))));
    all.extend(swaps().into_iter().map(|(state, model)| ("swap", state, CallCard::Swap(Box::new(model)))));
    all.extend(orders().into_iter().map(|(state, model)| ("order", state, CallCard::Order(Box::new(model)))));
    all.extend(bridges().into_iter().map(|(state, model)| ("bridge", state, CallCard::Bridge(Box::new(model)))));
    all.extend(
        allowances().into_iter().map(|(state, model)| ("allowance", state, CallCard::Allowance(Box::new(model)))),
    );
    all.extend(lendings().into_iter().map(|(state, model)| ("lending", state, CallCard::Lending(Box::new(model)))));
    all.extend(
        under_way::lendings().into_iter().map(|(state, model)| ("lending", state, CallCard::Lending(Box::new(model)))),
    );
    all.extend(
        position_changes().into_iter().map(|(state, model)| ("position", state, CallCard::Position(Box::new(model)))),
    );
    all.extend(
        under_way::position_changes()
            .into_iter()
            .map(|(state, model)| ("position", state, CallCard::Position(Box::new(model)))),
    );
    let vaults = vault_changes().into_iter().chain(under_way::vault_changes());
    all.extend(vaults.map(|(state, model)| ("vault", state, CallCard::Position(Box::new(model)))));
    all.extend(plains().into_iter().map(|(state, model)| ("plain", state, CallCard::Plain(Box::new(model)))));
    all.extend(
        under_way::orders().into_iter().map(|(state, model)| ("order", state, CallCard::Order(Box::new(model)))),
    );
    all.extend(
        under_way::bridges().into_iter().map(|(state, model)| ("bridge", state, CallCard::Bridge(Box::new(model)))),
    );
    let allowances = under_way::allowances().into_iter();
    all.extend(allowances.map(|(state, model)| ("allowance", state, CallCard::Allowance(Box::new(model)))));
    all.extend(
        under_way::plains().into_iter().map(|(state, model)| ("plain", state, CallCard::Plain(Box::new(model)))),
    );
    all
}

/// Gauges from empty to over the limit.
pub fn gauges() -> Vec<Gauge> {
    let gauge =
        |label: &str, level, words: &str, full| Gauge { label: label.to_owned(), level, words: words.to_owned(), full };
    vec![
        gauge("today", Some((1_966, 5_000)), "$1,966/$5,000", FullMeaning::Bad),
        gauge("one", Some((2_100, 2_500)), "$2,100/$2,500", FullMeaning::Bad),
        gauge("calls", Some((60, 60)), "60/60 a min", FullMeaning::Bad),
        gauge("equity", None, "", FullMeaning::Bad),
        gauge("gas", Some((9, 10)), "9 days", FullMeaning::Good),
        gauge("life", Some((1, 10)), "12 min left", FullMeaning::Good),
    ]
}

/// Curve of a quarter of an hour with marked swaps.
pub fn chart() -> ChartModel {
    // Deterministic variation, so that snapshots stay the same.
    let wobble = |at: u64| i64::try_from((at * 7_919 + at * at * 31) % 97).unwrap_or(0) - 48;
    let points = (0..180)
        .map(|at| (START_MILLIS - 893_000 + at * 5_000, Decimal::new(341_800 + wobble(at / 9) * 12 + wobble(at), 2)))
        .collect();
    let mark = |before: u64| ChartMark { at: START_MILLIS - before * 1000, character: 's' };
    ChartModel {
        points,
        marks: vec![mark(640), mark(300), mark(31)],
        legend: "s = your swaps".to_owned(),
        unit: "",
        places: 2,
        range: TimeRange::Quarter,
        least_span_bps: 0,
    }
}

/// Chart without points.
pub fn empty_chart() -> ChartModel {
    ChartModel::default()
}

/// Returns true if the money of a card can be moving, so that the card must show where it is.
pub fn in_flight(card: &CallCard) -> bool {
    let status = card.status(NOW);
    status.in_flight() || status == CardStatus::Loading
}
