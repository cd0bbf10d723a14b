//! What past trades may change about the next one: the slippage a swap asks for, whether it prefers an auction, and how
//! long an auction is given. Never an amount, a token, a recipient or a limit; and whatever comes of it meets the
//! pipeline like any other wish.
//!
//! Decided by figures that were measured, never by words that were remembered.

use serde_json::{Map, Value, json};

use super::episode::{Episode, Outcome};
use bardo_base::error::ErrorCode;
use bardo_base::text::SafeText;

/// Past trades looked at.
pub(super) const LOOKED_AT: usize = 20;

/// Fewer than these teach nothing.
pub(super) const ENOUGH: usize = 3;

/// The tightest slippage that experience leads to, in basis points.
const TIGHTEST: i64 = 10;

/// Room over the worst that was seen, in basis points.
const ROOM: i64 = 10;

/// An auction is given so many seconds where nobody says.
const USUAL_TIME: u64 = 120;

/// Experience gives an auction no more than an hour.
const LONGEST_TIME: u64 = 3_600;

/// So many of the last few must have lapsed before anything follows from it.
const LAPSED: usize = 2;
const OF_THE_LAST: usize = 3;

/// Slippage of a swap that names none, in basis points.
const USUAL: i64 = 50;

/// Parameters after memory has spoken.
#[derive(Debug, Clone, PartialEq)]
pub struct Softened {
    /// The parameters.
    pub params: Map<String, Value>,
    /// How many past trades were alike.
    pub similar: u32,
    /// What was changed and why, a line each.
    pub changes: Vec<SafeText>,
}

/// What several past trades lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// This much slippage is enough: the worst of so many was that.
    Tighter { to: i64, of: usize, worst: i64 },
    /// Several failed for want of slippage.
    Wider { failed: usize, of: usize },
}

fn lead(last: &[Episode]) -> Option<Lead> {
    let short = |one: &&Episode| {
        one.code.as_deref() == Some(ErrorCode::ExecutionTxReverted.as_str())
            || one.code.as_deref() == Some(ErrorCode::PermitMismatch.as_str())
    };
    let recent = last.get(..5.min(last.len())).unwrap_or_default();
    let failed = recent.iter().filter(short).count();
    if failed >= 2 {
        return Some(Lead::Wider { failed, of: recent.len() });
    }
    let slipped: Vec<i64> =
        last.iter().filter(|one| one.outcome == Outcome::Done).filter_map(|one| one.slipped_bps).collect();
    if failed > 0 || slipped.len() < ENOUGH {
        return None;
    }
    let worst = slipped.iter().copied().max().unwrap_or(0).max(0);
    Some(Lead::Tighter { to: worst.saturating_mul(2).saturating_add(ROOM).max(TIGHTEST), of: slipped.len(), worst })
}

/// The same as a sentence to remember; `None` where nothing follows.
pub(super) fn advice(last: &[Episode]) -> Option<String> {
    Some(match lead(last)? {
        Lead::Tighter { to, of, worst } => {
            format!("{to} bps of slippage is enough; the worst of {of} was {worst} bps under its quote")
        }
        Lead::Wider { failed, of } => format!("{failed} of the last {of} failed for too little slippage: allow more"),
    })
}

/// How many of the last auctions alike nobody took in their time, where that is enough to follow from.
fn lapsed(last: &[Episode]) -> Option<usize> {
    let expired = |one: &&Episode| {
        one.outcome == Outcome::Lapsed && one.code.as_deref() == Some(ErrorCode::UniswapxOrderExpired.as_str())
    };
    let lapsed = last.iter().take(OF_THE_LAST).filter(expired).count();
    (lapsed >= LAPSED).then_some(lapsed)
}

/// Changes what is soft about a swap's or an auction's parameters by what past ones taught. `last` are those alike, the
/// newest first; `most_slippage` is the most that phase and policy take, in basis points, where somebody acts.
pub fn soften(kind: &str, mut params: Map<String, Value>, last: &[Episode], most_slippage: Option<u32>) -> Softened {
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
    Softened { params, similar, changes }
}

/// As much slippage as past swaps needed.
fn slippage(params: &mut Map<String, Value>, last: &[Episode], most: Option<u32>) -> Option<String> {
    // The default of a trade that names none, which phase and policy lower.
    let usual = most.map_or(USUAL, |most| USUAL.min(i64::from(most)));
    let asked = params.get("slippage_bps").and_then(Value::as_i64).unwrap_or(usual);
    let (to, why) = match lead(last)? {
        Lead::Tighter { to, of, worst } if to < asked => {
            (to, format!("the worst of {of} similar was {worst} bps under its quote"))
        }
        Lead::Tighter { .. } => return None,
        // At most twice what was asked for, and never over what phase and policy take: a wish that would have passed is
        // not made one that is refused.
        Lead::Wider { failed, of } => {
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

/// Through pools where nobody took the auctions. An auction is what a swap prefers that says nothing of it.
fn route(params: &mut Map<String, Value>, last: &[Episode]) -> Option<String> {
    let lapsed = lapsed(last)?;
    if !params.get("prefer_uniswapx").is_none_or(|prefers| prefers == &json!(true)) {
        return None;
    }
    params.insert("prefer_uniswapx".to_owned(), json!(false));
    Some(format!("through pools, not by auction: {lapsed} of the last {OF_THE_LAST} similar lapsed"))
}

/// Twice the time where nobody took the auctions in theirs.
fn timing(params: &mut Map<String, Value>, last: &[Episode]) -> Option<String> {
    let lapsed = lapsed(last)?;
    let asked = match params.get("decay_end_time") {
        None => USUAL_TIME,
        // What is no number of seconds is refused as it stands.
        Some(asked) => asked.as_u64()?,
    };
    let to = asked.saturating_mul(2).min(LONGEST_TIME);
    if to <= asked {
        return None;
    }
    params.insert("decay_end_time".to_owned(), json!(to));
    Some(format!("{asked} s to {to} s for the auction: {lapsed} of the last {OF_THE_LAST} similar lapsed"))
}
