//! Late outcomes of writes that were still open when they were recorded: auctions and bridges, whose end the chain
//! determines later. The lookup runs whenever memory is queried, so it also works after a restart.

use alloy::primitives::U256;
use rusqlite::{Connection, Transaction, params};

use super::episode::{Episode, EpisodeOutcome};
use super::search::index;
use super::{EntryKind, Topic, learn, signed};
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{IntentStatus, IntentUpdate, OrderStatus, OrderUpdate};
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::orders::record;
use bardo_safety::orders::{OrderRecord, OrderStage, OrderState};
use bardo_store::StoreError;

/// Outcome of a formerly open episode.
pub(super) struct EpisodeEnd {
    id: i64,
    topic: Topic,
    outcome: EpisodeOutcome,
    code: Option<ErrorCode>,
    /// Shortfall against the quote in basis points, for auctions only.
    slipped_bps: Option<i64>,
    actual: String,
    difference: String,
    lesson: &'static str,
}

/// Returns the known outcomes of this Golem's open episodes.
pub(super) fn known(connection: &Connection, golem_id: &str) -> Result<Vec<EpisodeEnd>, StoreError> {
    let mut asked = connection.prepare_cached(
        "SELECT id, call_id, kind, chain, token_in, token_out FROM golem_episode WHERE golem_id = ?1 AND outcome = 'open'",
    )?;
    let rows = asked.query_map([golem_id], |row| {
        let topic = Topic { kind: row.get(2)?, chain: row.get(3)?, token_in: row.get(4)?, token_out: row.get(5)? };
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, topic))
    })?;
    let mut ends = Vec::new();
    for row in rows {
        let (id, call_id, topic) = row?;
        let Ok(call_id) = call_id.parse::<CallId>() else { continue };
        let record = record::find_by_call(connection, call_id)?;
        ends.extend(
            record.filter(|record| record.stage == OrderStage::Ended).and_then(|record| end(id, topic, &record)),
        );
    }
    Ok(ends)
}

fn end(id: i64, topic: Topic, record: &OrderRecord) -> Option<EpisodeEnd> {
    let (outcome, code) = match record.status {
        OrderState::Auction(OrderStatus::Filled) | OrderState::Bridge(IntentStatus::Filled) => {
            (EpisodeOutcome::Done, None)
        }
        OrderState::Auction(OrderStatus::Expired) => (EpisodeOutcome::Lapsed, Some(ErrorCode::UniswapxOrderExpired)),
        OrderState::Auction(OrderStatus::Cancelled) => (EpisodeOutcome::Lapsed, Some(ErrorCode::ToolCancelled)),
        // No filler took or delivered it, and the tokens are back in their place.
        OrderState::Bridge(IntentStatus::Expired | IntentStatus::Refunded) => (EpisodeOutcome::Lapsed, None),
        OrderState::Auction(OrderStatus::Error) | OrderState::Unplaced => (EpisodeOutcome::Failed, None),
        // Orders in these states have not ended.
        OrderState::Auction(OrderStatus::Pending | OrderStatus::Open | OrderStatus::InsufficientFunds)
        | OrderState::Bridge(IntentStatus::Pending | IntentStatus::Filling) => return None,
    };
    let (quoted, wanted) = (record.figures.quoted_out, &record.figures.token_out);
    let amount_in = (outcome == EpisodeOutcome::Done).then(|| received(record)).flatten();
    let amount = amount_in.as_ref().and_then(|amount_in| TokenAmount::parse(amount_in, wanted.decimals).ok());
    let below = amount.and_then(|amount_in| below(quoted, amount_in.raw()));
    let difference = match (outcome, below) {
        (EpisodeOutcome::Done, Some(below)) if below > 0 => format!("{below} bps less than quoted"),
        (EpisodeOutcome::Done, Some(below)) => format!("{} bps more than quoted", below.unsigned_abs()),
        (EpisodeOutcome::Lapsed, _) => "nothing was traded".to_owned(),
        _ => "not measured".to_owned(),
    };
    let lesson = match (outcome, code) {
        (EpisodeOutcome::Done, _) => "it went as planned",
        (EpisodeOutcome::Lapsed, Some(ErrorCode::UniswapxOrderExpired)) => {
            "nobody filled it in time; no tokens were spent, at most gas for an allowance. Allow more time or use another route"
        }
        (EpisodeOutcome::Lapsed, _) => "no tokens were spent, at most gas; ask earlier or try another way",
        _ => "find the reason before trying again",
    };
    let what = amount_in.map(|amount_in| format!(": {amount_in} {}", wanted.symbol)).unwrap_or_default();
    let actual = format!("it is {}{what}", record.status);
    // The slippage of a swap is the pools' price movement; a fill's shortfall is the fillers' margin and does not count
    // as such.
    let slipped_bps = below.filter(|_| topic.kind == "auction");
    Some(EpisodeEnd { id, topic, outcome, code, slipped_bps, actual, difference, lesson })
}

/// Returns the received amount from the order's card, in whole tokens.
fn received(record: &OrderRecord) -> Option<String> {
    let card = record.card.as_deref()?;
    match record.status {
        OrderState::Auction(_) => serde_json::from_str::<OrderUpdate>(card).ok()?.fill.map(|fill| fill.amount_out),
        OrderState::Bridge(_) | OrderState::Unplaced => serde_json::from_str::<IntentUpdate>(card).ok()?.amount_out,
    }
}

/// Returns the shortfall of `received` against `quoted` in basis points; negative if more received in. `None` if
/// `quoted` is zero or the result overflows.
fn below(quoted: U256, amount_in: U256) -> Option<i64> {
    let bps = |more: U256, less: U256| {
        let part = more.saturating_sub(less).checked_mul(U256::from(10_000))?.checked_div(quoted)?;
        i64::try_from(part).ok()
    };
    if amount_in <= quoted { bps(quoted, amount_in) } else { bps(amount_in, quoted).map(|above| -above) }
}

/// Stores the outcomes, and updates what the episodes of each topic have in common.
pub(super) fn note(
    transaction: &Transaction<'_>,
    golem_id: &str,
    now: u64,
    ends: &[EpisodeEnd],
) -> Result<(), StoreError> {
    for end in ends {
        let clean = |text: &str| SafeText::clean(text, 300);
        let (actual, difference, lesson) = (clean(&end.actual), clean(&end.difference), clean(end.lesson));
        let changed = transaction
            .prepare_cached(
                "UPDATE golem_episode SET outcome = ?2, code = ?3, slipped_bps = ?4, actual = ?5, difference = ?6,
                     lesson = ?7, at = ?8
                 WHERE id = ?1 AND outcome = 'open'",
            )?
            .execute(params![
                end.id,
                end.outcome.as_str(),
                end.code.map(ErrorCode::as_str),
                end.slipped_bps,
                actual.as_str(),
                difference.as_str(),
                lesson.as_str(),
                signed(now),
            ])?;
        if changed == 0 {
            continue;
        }
        // The new text replaces the index entry of the open episode.
        if let Some(words) = Episode::of_id(transaction, end.id, &end.topic)?.map(|episode| episode.describe()) {
            index(transaction, golem_id, EntryKind::Episode, end.id, &words)?;
        }
        learn(transaction, golem_id, &end.topic, now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_received_amount_is_compared_with_the_quote_in_basis_points() {
        let of = |quoted: u64, amount_in: u64| below(U256::from(quoted), U256::from(amount_in));
        assert_eq!(of(1_000_000, 999_700), Some(3));
        assert_eq!(of(1_000_000, 1_001_000), Some(-10));
        assert_eq!(of(1_000_000, 1_000_000), Some(0));
        assert_eq!(of(0, 5), None, "against nothing there is no part");
    }
}
