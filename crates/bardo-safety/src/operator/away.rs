//! What is on its way over a bridge: it has left the wallet and is not lost.
//!
//! It counts among what is held on the chain it left, so that the stop-loss does not take a bridge for a loss. It counts
//! only as long as it is certain that it is not in the wallet as well: it was locked by the block whose balances are
//! judged, nobody has paid it on or given it back since, and the time in which nobody can take it back is not over.
//! Whatever is not known counts for nothing, which is how it would be without this: then exits pass, and all else waits.
//! What was locked later than the judged block is in the wallet there, and counted there. Of what nobody has seen locked
//! neither is certain: it may have been, a moment ago.

use rusqlite::Connection;

use crate::facts::{Facts, Portfolio};
use crate::framed::Framed;
use crate::ledger::{self, Leaving, Micros, ReservationId};
use crate::orders::record::{self, Record};
use crate::typed::TypedMessage;
use bardo_base::fabric::IntentUpdate;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::TokenId;

/// What one live bridge order carries, as far as the balances that are judged tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// Locked later than the judged block: it is among the balances still.
    InWallet(Micros),
    /// Locked, and not yet seen to arrive: no balance has it.
    OnItsWay(Micros),
}

impl Carried {
    fn worth(self) -> Micros {
        match self {
            Self::InWallet(worth) | Self::OnItsWay(worth) => worth,
        }
    }
}

/// What live bridge orders carry from the chain of `framed`, as far as it is known.
pub(super) fn of(connection: &Connection, framed: &Framed, facts: &Facts) -> Vec<(ReservationId, Carried)> {
    let (chain_id, account) = (framed.proposal().chain_id, framed.account());
    let live = record::live(connection).unwrap_or_else(|error| {
        tracing::warn!(%error, "what is on its way over bridges cannot be told");
        Vec::new()
    });
    let own = live.into_iter().filter(|one| one.chain_id == chain_id && one.account == account);
    own.filter_map(|one| Some((ReservationId::stored(one.reservation.0), carried(&one, facts)?))).collect()
}

/// All that is on its way, together. More than can be counted counts for nothing.
pub(super) fn worth(carried: &[(ReservationId, Carried)]) -> Micros {
    let away = carried.iter().filter_map(|(_, carried)| match carried {
        Carried::OnItsWay(worth) => Some(*worth),
        Carried::InWallet(_) => None,
    });
    ledger::sum(away).unwrap_or_default()
}

/// What each order carries of all that there is, wherever it is: the marks follow by it.
pub(super) fn weighed(carried: &[(ReservationId, Carried)]) -> Vec<(ReservationId, Micros)> {
    carried.iter().map(|(reservation, carried)| (*reservation, carried.worth())).collect()
}

/// What the order of `framed` is to carry to another chain, of all that there is; nothing where it carries nothing, or it
/// cannot be told.
pub(super) fn leaving(framed: &Framed, facts: &Facts, whole: Micros) -> Option<Leaving> {
    let proposal = framed.proposal();
    let to = proposal.order.as_ref()?.arrival.as_ref()?.chain_id;
    let given = proposal.outflows.first()?;
    let amount = TokenAmount::new(given.amount, given.token.decimals).ok()?;
    let worth = priced(facts.portfolio.as_ref().ok()?, given.token.id, amount)?;
    Some(Leaving { worth, whole, to })
}

fn carried(order: &Record, facts: &Facts) -> Option<Carried> {
    let intent = match &order.message {
        TypedMessage::CrossChainOrder { intent, .. } => intent,
        TypedMessage::UniswapxOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => return None,
    };
    let judged = facts.simulation.as_ref()?.pinned.number;
    let card: IntentUpdate = serde_json::from_str(order.card.as_deref()?).ok()?;
    let amount = TokenAmount::new(intent.data.inputAmount, order.figures.token_in.decimals).ok()?;
    let worth = priced(facts.portfolio.as_ref().ok()?, TokenId::Erc20(intent.data.inputToken), amount)?;
    // Given back it is in the wallet; paid on without having been seen to arrive it may be gone for good.
    if card.refunded.is_some() || card.repaid.is_some() && card.delivered.is_none() {
        return None;
    }
    // Balances of an earlier block have it still.
    if card.locked?.block? > judged {
        return Some(Carried::InWallet(worth));
    }
    // From then on anybody can make the settler give it back, before that is seen here.
    let in_time = facts.block_time <= u64::from(intent.fill_deadline);
    in_time.then_some(Carried::OnItsWay(worth))
}

fn priced(portfolio: &Portfolio, token: TokenId, amount: TokenAmount) -> Option<Micros> {
    let TokenId::Erc20(contract) = token else { return None };
    let price = portfolio.lowest.get(&contract)?;
    let worth = Usd::value_of(amount, *price, Rounding::Down).ok()?;
    Micros::of(worth, Rounding::Down).ok()
}

#[cfg(test)]
mod tests;
