//! Adjustments that past trades may make to the next one: a swap's slippage, its preference for an auction, and an
//! auction's duration. Amounts, tokens, recipients and limits never change, and the adjusted action passes through the
//! pipeline like any other.
//!
//! Measured figures decide, never remembered text.

use serde_json::{Map, Value, json};

use super::episode::{Episode, EpisodeOutcome};
use bardo_base::error::ErrorCode;
use bardo_base::text::SafeText;

/// Maximum number of past trades considered.
pub(super) const MAX_CONSIDERED: usize = 20;

/// Minimum number of past trades for an adjustment.
pub(super) const ENOUGH: usize = 3;

/// Lowest slippage that experience can suggest, in basis points.
const TIGHTEST: i64 = 10;

/// Margin above twice the worst observed slippage, in basis points.
const ROOM: i64 = 10;

/// Duration of an auction that names none, in seconds.
const USUAL_TIME: u64 = 120;

/// Upper limit for an auction's adjusted duration, in seconds.
const LONGEST_TIME: u64 = 3_600;

/// Number of expired auctions among the last [`OF_THE_LAST`] that triggers an adjustment.
const LAPSED: usize = 2;
const OF_THE_LAST: usize = 3;

/// Default slippage of a swap, in basis points.
const USUAL: i64 = 50;

/// Parameters after adjustment by memory.
#[derive(Debug, Clone, PartialEq)]
pub struct TunedParameters {
    /// Parameters after the adjustment.
    pub params: Map<String, Value>,
    /// Number of similar past trades.
    pub similar: u32,
    /// Changes with their reasons, one sentence each.
    pub changes: Vec<SafeText>,
}

/// Conclusion from several past trades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TradeLesson {
    /// A slippage of `to` suffices: the worst of `of` trades was `worst`. All in basis points except `of`.
    Tighter { to: i64, of: usize, worst: i64 },
    /// Several recent trades failed because of too little slippage.
    Wider { failed: usize, of: usize },
}

fn lead(last: &[Episode]) -> Option<TradeLesson> {
    let short = |one: &&Episode| {
        one.code.as_deref() == Some(ErrorCode::ExecutionTxReverted.as_str())
            || one.code.as_deref() == Some(ErrorCode::PermitMismatch.as_str())
    };
    let recent = last.get(..5.min(last.len())).unwrap_or_default();
    let failed = recent.iter().filter(short).count();
    if failed >= 2 {
        return Some(TradeLesson::Wider { failed, of: recent.len() });
    }
    let slipped: Vec<i64> =
        last.iter().filter(|one| one.outcome == EpisodeOutcome::Done).filter_map(|one| one.slipped_bps).collect();
    if failed > 0 || slipped.len() < ENOUGH {
        return None;
    }
    let worst = slipped.iter().copied().max().unwrap_or(0).max(0);
    Some(TradeLesson::Tighter {
        to: worst.saturating_mul(2).saturating_add(ROOM).max(TIGHTEST),
        of: slipped.len(),
        worst,
    })
}

/// Returns the conclusion as a sentence; `None` without one.
pub(super) fn advice(last: &[Episode]) -> Option<String> {
    Some(match lead(last)? {
        TradeLesson::Tighter { to, of, worst } => {
            format!("{to} bps of slippage is enough; the worst of {of} was {worst} bps under its quote")
        }
        TradeLesson::Wider { failed, of } => {
            format!("{failed} of the last {of} failed for too little slippage: allow more")
        }
    })
}

/// Counts the expired auctions among the last ones; `None` if too few to draw a conclusion.
fn lapsed(last: &[Episode]) -> Option<usize> {
    let expired = |one: &&Episode| {
        one.outcome == EpisodeOutcome::Lapsed && one.code.as_deref() == Some(ErrorCode::UniswapxOrderExpired.as_str())
    };
    let lapsed = last.iter().take(OF_THE_LAST).filter(expired).count();
    (lapsed >= LAPSED).then_some(lapsed)
}

/// Adjusts the tunable parameters of a swap or an auction by past trades. `last` contains similar ones, newest first.
/// `most_slippage` is the maximum that phase and policy allow, in basis points; `None` without an account.
pub fn soften(
    kind: &str,
    mut params: Map<String, Value>,
    last: &[Episode],
    most_slippage: Option<u32>,
) -> TunedParameters {
    let similar = u32::try_from(last.len()).unwrap_or(u32::MAX);
    let mut changes = Vec::new();
    match kind {
        "swap" if last.len() >= ENOUGH => {
            changes.extend(slippage(&mut params, last, most_slippage));
            changes.extend(route(&mut params, last));
        }
        "auction" => changes.extend(timing(&mut params, last)),
        _ => {}
    }
    let changes = changes.iter().map(|change| SafeText::clean(change, 200)).collect();
    TunedParameters { params, similar, changes }
}

/// Sets the slippage that past swaps needed.
fn slippage(params: &mut Map<String, Value>, last: &[Episode], most: Option<u32>) -> Option<String> {
    // Default of a trade that names none; phase and policy may lower it.
    let usual = most.map_or(USUAL, |most| USUAL.min(i64::from(most)));
    let asked = params.get("slippage_bps").and_then(Value::as_i64).unwrap_or(usual);
    let (to, why) = match lead(last)? {
        TradeLesson::Tighter { to, of, worst } if to < asked => {
            (to, format!("the worst of {of} similar was {worst} bps under its quote"))
        }
        TradeLesson::Tighter { .. } => return None,
        // The result is at most twice the request and within the limits of phase and policy: memory must not turn a
        // valid request into a refused one.
        TradeLesson::Wider { failed, of } => {
            let wider = asked.saturating_add(asked.max(4) / 4).min(asked.saturating_mul(2));
            let most = most.map_or(i64::MAX, i64::from);
            let to = wider.min(most);
            if to <= asked {
                return None;
            }
            let held = if to < wider { "; phase and policy allow no more" } else { "" };
            (to, format!("{failed} of the last {of} similar failed for too little{held}"))
        }
    };
    params.insert("slippage_bps".to_owned(), json!(to));
    Some(format!("slippage {asked} bps to {to} bps: {why}"))
}

/// Chooses pools if recent auctions expired. A swap that names no preference prefers an auction.
fn route(params: &mut Map<String, Value>, last: &[Episode]) -> Option<String> {
    let lapsed = lapsed(last)?;
    if !params.get("prefer_uniswapx").is_none_or(|prefers| prefers == &json!(true)) {
        return None;
    }
    params.insert("prefer_uniswapx".to_owned(), json!(false));
    Some(format!("through pools, not by auction: {lapsed} of the last {OF_THE_LAST} similar lapsed"))
}

/// Doubles the duration if recent auctions expired.
fn timing(params: &mut Map<String, Value>, last: &[Episode]) -> Option<String> {
    let lapsed = lapsed(last)?;
    let asked = match params.get("decay_end_time") {
        None => USUAL_TIME,
        // An invalid duration stays unchanged, so that the tool rejects it.
        Some(asked) => asked.as_u64()?,
    };
    let to = asked.saturating_mul(2).min(LONGEST_TIME);
    if to <= asked {
        return None;
    }
    params.insert("decay_end_time".to_owned(), json!(to));
    Some(format!("{asked} s to {to} s for the auction: {lapsed} of the last {OF_THE_LAST} similar lapsed"))
}
