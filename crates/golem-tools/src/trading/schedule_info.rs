//! A schedule of swaps as the tools report it.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::Serialize;

use crate::schedules::{Schedule, ScheduleState, ScheduledToken, SliceAttempt};
use bardo_base::format::utc;
use bardo_base::units::TokenAmount;

/// Schedule of swaps.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ScheduleInfo {
    /// Id of the schedule.
    pub(super) schedule_id: String,
    /// State: `active`, `done`, `cancelled`, `rejected` (the operator rejected a slice), `failed` (too many slices in a row
    /// failed) or `expired` (its time was over).
    pub(super) state: &'static str,
    /// Golem that it belongs to, or the operator.
    pub(super) owner: String,
    /// Name of the chain.
    pub(super) chain: String,
    /// Symbol of the token that is paid.
    pub(super) token_in: String,
    /// Symbol of the token that is received.
    pub(super) token_out: String,
    /// Amount that all slices pay together, in whole tokens.
    pub(super) total: String,
    /// Amount that a slice pays, in whole tokens; the last one takes what a division leaves.
    pub(super) amount_per_slice: String,
    /// Number of slices.
    pub(super) slices: u32,
    /// Number of slices that are done, or were signed and whose end is not known.
    pub(super) slices_done: u32,
    /// Amount paid so far, by the receipts, in whole tokens.
    pub(super) paid: String,
    /// Amount received so far, by the receipts, in whole tokens.
    pub(super) received: String,
    /// Seconds from one slice to the next.
    pub(super) interval_seconds: u64,
    /// Slippage tolerance of each slice, in basis points; absent for that of a single swap.
    pub(super) slippage_bps: Option<u32>,
    /// Least price after slippage, in whole received tokens for one paid; absent without a bound.
    pub(super) least_price: Option<String>,
    /// Time of the next slice in UTC; absent if none follows.
    pub(super) next_at: Option<String>,
    /// Time of its end in UTC, whatever is left.
    pub(super) ends_at: String,
    /// True while a slice is being swapped or decided.
    pub(super) is_running: bool,
    /// Newest attempts, the oldest first.
    pub(super) attempts: Vec<AttemptInfo>,
}

/// Attempt at a slice.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AttemptInfo {
    /// Number of the slice, from 1.
    slice: u32,
    /// Time of its end in UTC.
    at: String,
    /// End of the attempt: `done`, `unclear` (signed, and its end is not known), `below_bound` (the price was below the least
    /// price), `failed` or `rejected`.
    outcome: &'static str,
    /// Amount paid, in whole tokens; absent if nothing was paid or the amount is not known.
    paid: Option<String>,
    /// Amount received, in whole tokens; absent if nothing was received or the amount is not known.
    received: Option<String>,
    /// Id of the call.
    call_id: Option<String>,
    /// Hash of the transaction.
    tx_hash: Option<String>,
    /// Error or explanation of the call.
    message: String,
}

impl ScheduleInfo {
    pub(super) fn of(schedule: &Schedule) -> Self {
        let (terms, progress) = (&schedule.terms, &schedule.progress);
        let (paid, received) = (&terms.token_in, &terms.token_out);
        Self {
            schedule_id: schedule.id.clone(),
            state: schedule.state.as_str(),
            owner: schedule.golem_id.to_string(),
            chain: terms.chain.clone(),
            token_in: paid.symbol.to_string(),
            token_out: received.symbol.to_string(),
            total: whole(terms.total, paid),
            amount_per_slice: whole(terms.slice(1), paid),
            slices: terms.slices,
            slices_done: progress.done,
            paid: whole(progress.paid, paid),
            received: whole(progress.received, received),
            interval_seconds: terms.interval / 1_000,
            slippage_bps: terms.slippage_bps,
            least_price: terms.least_per_unit.map(|price| whole(price, received)),
            next_at: (schedule.state == ScheduleState::Active).then(|| utc(schedule.next_at)),
            ends_at: utc(terms.ends_at),
            is_running: progress.is_running,
            attempts: progress.newest.iter().map(|attempt| AttemptInfo::of(attempt, paid, received)).collect(),
        }
    }
}

impl AttemptInfo {
    fn of(attempt: &SliceAttempt, paid: &ScheduledToken, received: &ScheduledToken) -> Self {
        Self {
            slice: attempt.slice,
            at: utc(attempt.at),
            outcome: attempt.outcome.as_str(),
            paid: attempt.paid.map(|raw| whole(raw, paid)),
            received: attempt.received.map(|raw| whole(raw, received)),
            call_id: attempt.call_id.clone(),
            tx_hash: attempt.tx_hash.clone(),
            message: attempt.message.to_string(),
        }
    }
}

/// An amount in whole tokens; raw units where a row states decimals that no token has.
fn whole(raw: U256, token: &ScheduledToken) -> String {
    TokenAmount::new(raw, token.decimals).map_or_else(|_| format!("{raw} raw units"), |amount| amount.to_string())
}
