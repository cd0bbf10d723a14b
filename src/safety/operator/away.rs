//! What is on its way over a bridge: it has left the wallet and is not lost.
//!
//! It counts among what is held on the chain it left, so that the stop-loss does not take a bridge for a loss. It counts
//! only as long as it is certain that it is not in the wallet as well: it was locked by the block whose balances are
//! judged, and the time in which nobody can take it back is not over. Whatever is not known counts for nothing, which is
//! how it would be without this: then exits pass, and all else waits.

use rusqlite::Connection;

use crate::base::units::{Rounding, TokenAmount, Usd};
use crate::chain::token::TokenId;
use crate::fabric::IntentUpdate;
use crate::safety::facts::{Facts, Portfolio};
use crate::safety::framed::Framed;
use crate::safety::ledger::{self, Leaving, Micros, ReservationId};
use crate::safety::orders::record::{self, Record};
use crate::safety::typed::TypedMessage;

/// What is on its way from the chain of `framed`, by the order that carries it.
pub(super) fn of(connection: &Connection, framed: &Framed, facts: &Facts) -> Vec<(ReservationId, Micros)> {
    let (chain_id, account) = (framed.proposal().chain_id, framed.account());
    let live = record::live(connection).unwrap_or_else(|error| {
        tracing::warn!(%error, "what is on its way over bridges cannot be told");
        Vec::new()
    });
    let own = live.into_iter().filter(|one| one.chain_id == chain_id && one.account == account);
    own.filter_map(|one| Some((ReservationId::stored(one.reservation.0), carried(&one, facts)?))).collect()
}

/// All of it together. More than can be counted counts for nothing.
pub(super) fn worth(away: &[(ReservationId, Micros)]) -> Micros {
    ledger::sum(away.iter().map(|(_, worth)| *worth)).unwrap_or_default()
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

fn carried(order: &Record, facts: &Facts) -> Option<Micros> {
    let intent = match &order.message {
        TypedMessage::CrossChainOrder { intent, .. } => intent,
        TypedMessage::UniswapxOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => return None,
    };
    let judged = facts.simulation.as_ref()?.pinned.number;
    let card: IntentUpdate = serde_json::from_str(order.card.as_deref()?).ok()?;
    // Balances of an earlier block have it still.
    if card.locked?.block? > judged {
        return None;
    }
    // From then on anybody can make the settler give it back, before that is seen here.
    if facts.block_time > u64::from(intent.fill_deadline) {
        return None;
    }
    let amount = TokenAmount::new(intent.data.inputAmount, order.figures.token_in.decimals).ok()?;
    priced(facts.portfolio.as_ref().ok()?, TokenId::Erc20(intent.data.inputToken), amount)
}

fn priced(portfolio: &Portfolio, token: TokenId, amount: TokenAmount) -> Option<Micros> {
    let TokenId::Erc20(contract) = token else { return None };
    let price = portfolio.lowest.get(&contract)?;
    let worth = Usd::value_of(amount, *price, Rounding::Down).ok()?;
    Micros::of(worth, Rounding::Down).ok()
}

#[cfg(test)]
mod tests;
