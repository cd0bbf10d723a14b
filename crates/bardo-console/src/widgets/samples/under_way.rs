//! Samples of states before a card has its own content: blocked, rejected, lapsed, or still running.

use super::*;

/// Card of a requested call in each of the `wanted` states.
fn states<M: Clone>(
    asked: &M,
    fold: impl Fn(&mut M, u64, &EventKind),
    wanted: &[&'static str],
) -> Vec<(&'static str, M)> {
    let waits = |passes_by_itself| {
        EventKind::ApprovalRequested(ApprovalRequested {
            permit_id: PermitId::random(),
            title: text("do it"),
            reasons: vec![AskReason::said("above your $500 limit")],
            lapses_at: START_MILLIS + 48_000,
            passes_by_itself,
            renewal: None,
        })
    };
    let resolved = |outcome, reason: Option<&str>| {
        let reason = reason.map(text);
        EventKind::ApprovalResolved(ApprovalResolved { permit_id: PermitId::random(), outcome, reason, amount: None })
    };
    let ended =
        |code, message: &str, first: Vec<EventKind>| first.into_iter().chain(failed(code, message)).collect::<Vec<_>>();
    let step = EventKind::ToolUpdate(ToolUpdate { step: text("Simulating via Revm"), index: 2, of: 6 });
    let events = |state: &str| match state {
        "running" => vec![step.clone()],
        "sent" => vec![step.clone(), tx(1, 1, TxState::Signed, None), tx(1, 1, TxState::Sent, None)],
        "waiting" => vec![waits(false)],
        "goes ahead" => vec![waits(true)],
        "blocked" => {
            ended(ErrorCode::SafetySpendingLimitExceeded, "max_single_trade_usd: $6,785.11 is above $2,500.00", vec![])
        }
        "refused" => ended(
            ErrorCode::ApprovalRefused,
            "the operator refused",
            vec![waits(false), resolved(ApprovalOutcome::Refused, Some("wait for gas"))],
        ),
        "lapsed" => ended(
            ErrorCode::ApprovalLapsed,
            "nobody answered in time; nothing was signed",
            vec![waits(false), resolved(ApprovalOutcome::Lapsed, None)],
        ),
        "failed" => ended(ErrorCode::ChainUnreachable, "no endpoint of base answers", vec![]),
        _ => Vec::new(),
    };
    let state = |name: &&'static str| {
        let mut model = asked.clone();
        for (at, event) in (1..).zip(events(name)) {
            fold(&mut model, START_MILLIS + at * 10, &event);
        }
        (*name, model)
    };
    wanted.iter().map(state).collect()
}

/// Requested allowances that are not set yet, or never will be.
pub fn allowances() -> Vec<(&'static str, AllowanceModel)> {
    let params = json!({"token": "WETH", "chain": "ethereum", "amount": "250"});
    let asked = AllowanceModel::asked(START_MILLIS, "token_approve", params);
    let wanted = ["running", "sent", "waiting", "goes ahead", "blocked", "lapsed", "failed"];
    states(&asked, AllowanceModel::fold, &wanted)
}

/// Requested actions in a lending market that are not done yet, or never will be.
pub fn lendings() -> Vec<(&'static str, LendingModel)> {
    let params = json!({"token": "WETH", "chain": "ethereum", "amount": "0.5"});
    let mut asked = LendingModel::asked(START_MILLIS, "lending_supply", params);
    // The event that begins a call says that its tool signs.
    asked.call.signs = true;
    states(
        &asked,
        LendingModel::fold,
        &["running", "sent", "waiting", "goes ahead", "blocked", "refused", "lapsed", "failed"],
    )
}

/// Requested auctions that were not submitted.
pub fn orders() -> Vec<(&'static str, OrderModel)> {
    let asked = OrderModel::asked(CallModel::asked(START_MILLIS, "uniswap_submit_uniswapx_order", swap_params()));
    states(&asked, OrderModel::fold, &["waiting", "goes ahead", "refused", "lapsed"])
}

/// Requested bridge orders that were not signed.
pub fn bridges() -> Vec<(&'static str, BridgeModel)> {
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "500", "source_chain": "ethereum",
        "destination_chain": "base"});
    let asked = BridgeModel::asked(CallModel::asked(START_MILLIS, "uniswap_submit_cross_chain_intent", params));
    states(&asked, BridgeModel::fold, &["waiting", "goes ahead", "blocked", "refused", "lapsed"])
}

/// A transfer and an order cancellation, which sign but have no card of their own.
pub fn plains() -> Vec<(&'static str, PlainModel)> {
    let params = json!({"token": "USDC", "amount": "120", "recipient": Address::repeat_byte(0xab).to_string(), "chain_id": "ethereum"});
    let transfer = PlainModel::asked(START_MILLIS, "wallet_transfer_token", params);
    let wanted = ["running", "sent", "waiting", "goes ahead", "blocked", "refused", "lapsed"];
    let order = json!({"order_hash": B256::repeat_byte(0x4b).to_string(), "chain": "ethereum"});
    let cancel = PlainModel::asked(START_MILLIS, "uniswapx_cancel_order", order);
    let refund = json!({"intent_id": B256::repeat_byte(0xb2).to_string()});
    let refund = PlainModel::asked(START_MILLIS, "intent_refund", refund);
    let mut all = states(&transfer, PlainModel::fold, &wanted);
    let one = |name, model: &PlainModel| {
        states(model, PlainModel::fold, &["running"]).into_iter().map(move |(_, model)| (name, model))
    };
    all.extend(one("cancelling", &cancel));
    all.extend(one("refunding", &refund));
    let mut refunded = refund;
    refunded.fold(
        START_MILLIS + 3_000,
        &EventKind::ToolEnd(ToolEnd {
            success: true,
            state: Some(EndState::Done),
            duration_ms: 2_900,
            result_summary: json!({"amount": "100", "token": "USDC", "chain": "ethereum", "status": "refunded",
            "intent_id": B256::repeat_byte(0xb2).to_string(), "tx_hash": B256::repeat_byte(0x7a).to_string()}),
            card: None,
        }),
    );
    all.push(("refunded", refunded));
    all
}

/// Requested actions on vaults that are not done yet, or never will be.
pub fn vault_changes() -> Vec<(&'static str, PositionChangeModel)> {
    let params = json!({"vault_address": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "chain": "ethereum"});
    let of = |tool: &str, wanted: &[&'static str]| {
        let mut asked = PositionChangeModel::asked(START_MILLIS, tool, params.clone());
        asked.call.signs = true;
        states(&asked, PositionChangeModel::fold, wanted)
    };
    let wanted = ["running", "sent", "waiting", "goes ahead", "blocked", "refused", "lapsed", "failed"];
    let mut all = of("vault_settle", &wanted);
    all.extend(of("vault_claim", &["running", "sent", "failed"]));
    all.extend(of("vault_pause", &["waiting", "refused"]));
    all
}

/// Requested actions on positions that are not done yet, or never will be.
pub fn position_changes() -> Vec<(&'static str, PositionChangeModel)> {
    let params = json!({"position_id": "v4:7", "chain": "ethereum"});
    let mut asked = PositionChangeModel::asked(START_MILLIS, "close_position", params);
    // The event that begins a call says that its tool signs.
    asked.call.signs = true;
    states(
        &asked,
        PositionChangeModel::fold,
        &["running", "sent", "waiting", "goes ahead", "blocked", "refused", "lapsed", "failed"],
    )
}
