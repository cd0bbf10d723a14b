//! Shared parts of the order tools: hash parameters, refreshing an order, and the transaction that cancels or refunds
//! one.

use alloy::primitives::{Address, B256, Bytes, U256};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{CallContext, ToolEnvironment};
use crate::mev::TradeVisibility;
use crate::shared::{PlanReceipt, invalid};
use bardo_base::error::ToolError;
use bardo_base::format::short_hash;
use bardo_base::model::Check;
use bardo_safety::orders::OrderRecord;
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};

/// Checks for a signed order.
pub(super) const CHECKS: &[Check] = &[
    Check::Halt,
    Check::PhaseGate,
    Check::TokenAllowlist,
    Check::SpendingLimit,
    Check::RateLimit,
    Check::BalanceBreaker,
    Check::SlippageGuard,
    Check::PolicyCage,
    Check::Simulation,
];

/// Parses a hash parameter.
///
/// # Errors
/// `VALIDATION_FAILED`, with the name of the parameter.
pub(super) fn hash(text: &str, parameter: &str) -> Result<B256, ToolError> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64);
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| invalid(parameter, &"expected 0x and 64 hexadecimal digits, as in the order's result"))
}

/// Draws an unordered Permit2 nonce: 256 random bits.
pub(super) fn random_nonce(world: &ToolEnvironment) -> U256 {
    U256::from_be_bytes(world.rng.word())
}

/// Returns the latest card of an order as JSON; without a card, only its status.
pub(super) fn card(record: &OrderRecord) -> Value {
    let card = record.card.as_deref().and_then(|card| serde_json::from_str::<Value>(card).ok());
    card.unwrap_or_else(|| json!({"status": record.status}))
}

/// Returns the status that a tool reports for the order it signed.
pub(super) fn status(state: &CommitState, record: Option<&OrderRecord>) -> String {
    match (state, record) {
        (CommitState::Placed, Some(record)) => record.status.to_string(),
        (CommitState::Simulated, _) => "simulated".to_owned(),
        // The signature may be on disk or with the service, so the order can still be filled.
        (CommitState::Unclear, _) | (CommitState::Placed, None) => "unclear".to_owned(),
        (CommitState::Done | CommitState::Reverted | CommitState::Stopped { .. }, _) => "error".to_owned(),
    }
}

/// Returns the visibility of an order, placed or not.
pub(super) fn sight(state: &CommitState) -> TradeVisibility {
    match state {
        CommitState::Placed | CommitState::Unclear => TradeVisibility::Order,
        CommitState::Simulated | CommitState::Done | CommitState::Reverted | CommitState::Stopped { .. } => {
            TradeVisibility::Unplaced
        }
    }
}

/// Describes the outcome of a swap whose output is `amount`, made by a transaction or by an order.
pub(super) fn swapped(state: &CommitState, transaction: Option<B256>, order: Option<B256>, amount: &str) -> String {
    // The result has the whole hashes.
    match (state, transaction.map(short_hash), order.map(short_hash)) {
        (CommitState::Done, Some(hash), _) => format!("Received {amount}, tx {hash}"),
        (CommitState::Simulated, _, _) => format!("Would receive {amount}; nothing was signed"),
        (CommitState::Reverted, Some(hash), _) => format!("The swap reverted and only gas was spent, tx {hash}"),
        (CommitState::Unclear, Some(hash), _) => format!("Sent and not settled yet: {amount} expected, tx {hash}"),
        (CommitState::Unclear | CommitState::Placed, None, Some(hash)) => {
            format!("Order {hash} may have been signed: do not swap again, check its status")
        }
        (CommitState::Unclear | CommitState::Placed, _, _) => {
            "The signed transaction is not settled yet: do not swap again before it is".to_owned()
        }
        (CommitState::Done | CommitState::Reverted, None, _) | (CommitState::Stopped { .. }, _, _) => {
            "The swap was not made".to_owned()
        }
    }
}

/// Returns a text field of a card; empty if it is absent.
pub(super) fn field(card: &Value, name: &str) -> String {
    card.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Polls the services and the chain for the state of an order. If that fails, returns the stored record with the error
/// text.
///
/// # Errors
/// The error for an unknown order or an unreadable ledger.
pub(super) async fn poll(world: &ToolEnvironment, hash: B256) -> Result<(OrderRecord, Option<String>), ToolError> {
    let orders = world.orders()?;
    match orders.poll(hash).await {
        Ok(record) => Ok((record, None)),
        Err(error @ bardo_safety::orders::OrderError::Unknown(_)) => Err(error.into()),
        Err(error) => Ok((orders.record(hash)?, Some(error.to_string()))),
    }
}

/// Refreshes an order that is to be cancelled or refunded. Only its signer may do that.
///
/// # Errors
/// `VALIDATION_FAILED` for a malformed hash or an order of another account, and the errors of [`order_report`].
pub(super) async fn own(context: &CallContext, text: &str, parameter: &str) -> Result<OrderRecord, ToolError> {
    let hash = hash(text, parameter)?;
    context.step("Reading chain state");
    let (record, _) = poll(&context.world, hash).await?;
    let account = context.world.account(None)?;
    if account != record.account {
        return Err(invalid(
            parameter,
            &format_args!("it was signed by {}, but this wallet is {account}", record.account),
        ));
    }
    Ok(record)
}

/// Builds the proposal of the single transaction that cancels or refunds an order. It spends nothing and grants no
/// allowance.
pub(super) fn cancellation_proposal(
    context: &CallContext,
    record: &OrderRecord,
    intent: ProposalIntent,
    (to, data, gas_limit): (Address, Bytes, u64),
    expected: &str,
) -> Proposal {
    let leg = PlanLeg { purpose: LegPurpose::Main, to, value: U256::ZERO, data, gas_limit, slots: Vec::new() };
    Proposal { legs: vec![leg], ..context.proposal(record.chain_id, record.account, intent, expected) }
}

/// Transaction that cancelled or refunded an order.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CancelReceipt {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Gas used, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

impl CancelReceipt {
    /// Returns the transaction, whether it is done, and a sentence on its outcome; `done` describes success.
    pub(super) fn of(
        context: &CallContext,
        committed: &CommitOutcome,
        done: &str,
    ) -> Result<(Self, bool, String), ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let said = sent.explain(done);
        let taken = Self {
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok((taken, committed.state == CommitState::Done, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped() -> CommitState {
        CommitState::Stopped { code: bardo_base::error::ErrorCode::Halted, why: "a stop".to_owned() }
    }

    #[test]
    fn an_action_that_may_have_been_signed_is_never_reported_as_not_done() {
        for (state, told) in [
            (CommitState::Simulated, "simulated"),
            (CommitState::Unclear, "unclear"),
            (CommitState::Placed, "unclear"),
            (CommitState::Done, "error"),
            (CommitState::Reverted, "error"),
            (stopped(), "error"),
        ] {
            assert_eq!(status(&state, None), told, "{state:?}");
        }
        let order = B256::repeat_byte(0x0d);
        for (transaction, order) in [(None, Some(order)), (Some(B256::repeat_byte(1)), None), (None, None)] {
            let said = swapped(&CommitState::Unclear, transaction, order, "1 WETH");
            assert!(!said.contains("not made"), "{said}");
        }
        let said = swapped(&CommitState::Unclear, None, Some(order), "1 WETH");
        assert!(said.contains(&short_hash(order)) && said.contains("do not swap again"), "{said}");
        assert_eq!(swapped(&stopped(), None, Some(order), "1 WETH"), "The swap was not made");
    }

    #[test]
    fn hashes_are_read_whole() {
        let good = format!("0x{}", "ab".repeat(32));
        assert_eq!(hash(&good, "order_hash").unwrap(), B256::repeat_byte(0xab));
        for bad in ["", "0x12", &good[2..], &format!("{good}00"), &good.replace("ab", "zz")] {
            assert!(hash(bad, "order_hash").is_err(), "{bad}");
        }
    }
}
