//! Open bridge orders: money that has left the wallet and is not lost.
//!
//! It counts as held on the chain that it left, so that the stop-loss does not treat a bridge as a loss. It counts only
//! while it is certainly not in the wallet as well. The order must have been locked by the block whose balances are
//! judged. It must not have been repaid or refunded since, and its fill deadline must not have passed.
//!
//! Unknown amounts count as nothing, as if this module did not exist: then exits pass and other actions wait. An order
//! that was locked after the judged block is still in the wallet's balance, and counts there. An order that was not
//! seen locked counts nowhere: it may have been locked a moment ago.

use rusqlite::Connection;

use crate::check_inputs::{CheckInputs, Portfolio};
use crate::ledger::{self, BridgedValue, MicroUsd, ReservationId};
use crate::orders::record::{self, OrderRecord};
use crate::signing_payload::SigningPayload;
use crate::typed::TypedMessage;
use bardo_base::fabric::IntentUpdate;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_store::StoreError;
use golem_chain::token::TokenId;

/// Value of one open bridge order, relative to the balances that are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenBridgeValue {
    /// Locked after the judged block: the balances still include it.
    InWallet(MicroUsd),
    /// Locked and not yet delivered: no balance includes it.
    OnItsWay(MicroUsd),
}

impl OpenBridgeValue {
    fn worth(self) -> MicroUsd {
        match self {
            Self::InWallet(worth) | Self::OnItsWay(worth) => worth,
        }
    }
}

/// Returns the values of open bridge orders from the chain of `payload`, as far as known.
pub(super) fn of(
    connection: &Connection,
    payload: &SigningPayload,
    inputs: &CheckInputs,
) -> Vec<(ReservationId, OpenBridgeValue)> {
    let (chain_id, account) = (payload.proposal().chain_id, payload.account());
    let live = record::live(connection).unwrap_or_else(|error| {
        tracing::warn!(%error, "the amounts in transit over bridges are unknown");
        Vec::new()
    });
    let own = live.into_iter().filter(|one| one.chain_id == chain_id && one.account == account);
    own.filter_map(|one| Some((ReservationId::stored(one.reservation.0), carried(&one, inputs)?))).collect()
}

/// Returns the total value that no balance includes; zero on overflow.
pub(super) fn worth(carried: &[(ReservationId, OpenBridgeValue)]) -> MicroUsd {
    let bridges = carried.iter().filter_map(|(_, carried)| match carried {
        OpenBridgeValue::OnItsWay(worth) => Some(*worth),
        OpenBridgeValue::InWallet(_) => None,
    });
    ledger::sum(bridges).unwrap_or_default()
}

/// Returns the value of each open order, wherever it is. The high-water marks follow these values.
pub(super) fn weighed(carried: &[(ReservationId, OpenBridgeValue)]) -> Vec<(ReservationId, MicroUsd)> {
    carried.iter().map(|(reservation, carried)| (*reservation, carried.worth())).collect()
}

/// Returns the value that the bridge order or deposit of `payload` moves to another chain, of the account's total value; `None` if it
/// moves none, or if the value is not known.
pub(super) fn leaving(payload: &SigningPayload, inputs: &CheckInputs, whole: MicroUsd) -> Option<BridgedValue> {
    let proposal = payload.proposal();
    let to = proposal.bridged()?.chain_id;
    let given = proposal.outflows.first()?;
    let amount = TokenAmount::new(given.amount, given.token.decimals).ok()?;
    let worth = priced(inputs.portfolio.as_ref().ok()?, given.token.id, amount)?;
    Some(BridgedValue { worth, whole, to })
}

/// Returns true if a reservation is of a deposit with a bridge's pool, made by the account's own transaction. Once that is done,
/// nothing but the chains tells where its money is, so the mark moves with it then, and does not wait for its arrival: a mark that
/// is too high until then, or after a refund, errs on the safe side. A bridge order's own end says whether its value arrived.
pub(super) fn is_deposit(connection: &Connection, reservation: i64) -> Result<bool, StoreError> {
    let leaves = "SELECT 1 FROM ledger_bridged WHERE reservation = ?1";
    if !connection.prepare_cached(leaves)?.exists([reservation])? {
        return Ok(false);
    }
    Ok(!connection.prepare_cached("SELECT 1 FROM safety_order WHERE reservation = ?1")?.exists([reservation])?)
}

fn carried(order: &OrderRecord, inputs: &CheckInputs) -> Option<OpenBridgeValue> {
    let intent = match &order.message {
        TypedMessage::CrossChainOrder { intent, .. } => intent,
        TypedMessage::UniswapxOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => return None,
    };
    let judged = inputs.simulation.as_ref()?.pinned.number;
    let card: IntentUpdate = serde_json::from_str(order.card.as_deref()?).ok()?;
    let amount = TokenAmount::new(intent.data.inputAmount, order.figures.token_in.decimals).ok()?;
    let worth = priced(inputs.portfolio.as_ref().ok()?, TokenId::Erc20(intent.data.inputToken), amount)?;
    // A refunded order is in the wallet. An order that was repaid without a seen delivery may be gone for good.
    if card.refunded.is_some() || card.repaid.is_some() && card.delivered.is_none() {
        return None;
    }
    // Balances of an earlier block still include it.
    if card.locked?.block? > judged {
        return Some(OpenBridgeValue::InWallet(worth));
    }
    // After the deadline anyone can trigger the refund, before it is seen here.
    let in_time = inputs.block_time <= u64::from(intent.fill_deadline);
    in_time.then_some(OpenBridgeValue::OnItsWay(worth))
}

fn priced(portfolio: &Portfolio, token: TokenId, amount: TokenAmount) -> Option<MicroUsd> {
    let TokenId::Erc20(contract) = token else { return None };
    let price = portfolio.lowest.get(&contract)?;
    let worth = Usd::value_of(amount, *price, Rounding::Down).ok()?;
    MicroUsd::of(worth, Rounding::Down).ok()
}

#[cfg(test)]
mod tests;
