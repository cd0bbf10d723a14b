//! What past trades may change about the next one: the slippage it asks for, and whether it prefers an auction. Never
//! an amount, a token, a recipient or a limit; and whatever comes of it meets the pipeline like any other wish.
//!
//! Decided by figures that were measured, never by words that were remembered.

use serde_json::{Map, Value, json};

use super::episode::{Episode, Outcome};
use crate::base::error::ErrorCode;
use crate::base::text::SafeText;

/// Past trades looked at.
pub(super) const LOOKED_AT: usize = 20;

/// Fewer than these teach nothing.
pub(super) const ENOUGH: usize = 3;

/// The tightest slippage that experience leads to, in basis points.
const TIGHTEST: i64 = 10;

/// Room over the worst that was seen, in basis points.
const ROOM: i64 = 10;

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
        Lead::Wider { failed, of } => format!("{failed} of the last {of} failed for want of slippage: ask for more"),
    })
}

/// Changes what is soft about a swap's parameters by what past ones taught. `last` are those alike, the newest first.
pub fn soften(kind: &str, mut params: Map<String, Value>, last: &[Episode]) -> Softened {
    let similar = u32::try_from(last.len()).unwrap_or(u32::MAX);
    let mut changes = Vec::new();
    if kind != "swap" || last.len() < ENOUGH {
        return Softened { params, similar, changes };
    }
    let asked = params.get("slippage_bps").and_then(Value::as_i64).unwrap_or(USUAL);
    let moved = match lead(last) {
        Some(Lead::Tighter { to, of, worst }) if to < asked => {
            Some((to, format!("the worst of {of} alike was {worst} bps under its quote")))
        }
        // At most twice what was asked for: the limit of policy and phase stands over it.
        Some(Lead::Wider { failed, of }) => Some((
            asked.saturating_add(asked.max(4) / 4).min(asked.saturating_mul(2)),
            format!("{failed} of the last {of} alike failed for want of it"),
        )),
        Some(Lead::Tighter { .. }) | None => None,
    };
    if let Some((to, why)) = moved {
        params.insert("slippage_bps".to_owned(), json!(to));
        changes.push(SafeText::clean(&format!("slippage {asked} bps to {to} bps: {why}"), 200));
    }
    let lapsed = last.iter().take(3).filter(|one| one.outcome == Outcome::Lapsed).count();
    if lapsed >= 2 && params.get("prefer_uniswapx").and_then(Value::as_bool) == Some(true) {
        params.insert("prefer_uniswapx".to_owned(), json!(false));
        changes
            .push(SafeText::clean(&format!("through pools, not by auction: {lapsed} of the last 3 alike lapsed"), 200));
    }
    Softened { params, similar, changes }
}
