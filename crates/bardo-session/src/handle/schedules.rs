//! Schedules of swaps of the session's account, as screens show them. They are read elsewhere.

use serde::{Deserialize, Serialize};

use bardo_base::text::SafeText;

/// Schedules of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulesState {
    /// Active schedules and the newest ended ones, the newest first.
    pub rows: Vec<ScheduleRow>,
    /// Number of stored schedules that cannot be read; they do not run.
    pub unreadable: usize,
    /// Reason why the schedules could not be read; `None` if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SafeText>,
}

/// Schedule of swaps. Amounts are decimal strings of whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRow {
    /// Id of the schedule.
    pub id: SafeText,
    /// Golem, or the operator, whose schedule it is.
    pub golem_id: SafeText,
    /// True if this session swaps its slices: it is the operator's, or that of the session's Golem.
    pub runs_here: bool,
    /// Name of the chain.
    pub chain: SafeText,
    /// State, such as `active` or `cancelled`.
    pub state: SafeText,
    /// True while slices are left and it has not ended.
    pub is_active: bool,
    /// True while a slice is being swapped, or waits for a decision.
    pub is_running: bool,
    /// Symbol of the token that is paid.
    pub token_in: SafeText,
    /// Symbol of the token that is received.
    pub token_out: SafeText,
    /// Amount that all slices pay together.
    pub total: String,
    /// Amount that the next slice pays.
    pub next_amount: String,
    /// Number of slices.
    pub slices: u32,
    /// Number of slices that are done, or were signed and whose end is not known.
    pub done: u32,
    /// Amount paid so far, by the receipts.
    pub paid: String,
    /// Amount received so far, by the receipts.
    pub received: String,
    /// Seconds from one slice to the next.
    pub interval_seconds: u64,
    /// Least price after slippage, in received tokens for one paid; `None` without a bound.
    pub least_price: Option<String>,
    /// Time of its creation, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of the next slice, in milliseconds since the Unix epoch; `None` if none follows.
    pub next_at: Option<u64>,
    /// Time of its end, whatever is left, in milliseconds since the Unix epoch.
    pub ends_at: u64,
    /// Failed attempts in a row.
    pub failures: u32,
    /// Failed attempts in a row after which it ends.
    pub most_failures: u32,
    /// Newest attempts, the newest first.
    pub attempts: Vec<ScheduleAttempt>,
}

/// Attempt at a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleAttempt {
    /// Number of the slice, from 1.
    pub slice: u32,
    /// Time of its end, in milliseconds since the Unix epoch.
    pub at: u64,
    /// End of the attempt, such as `done` or `below bound`.
    pub outcome: SafeText,
    /// True if the slice is swapped by its receipt.
    pub is_done: bool,
    /// Amount paid; `None` where nothing was paid or the amount is not known.
    pub paid: Option<String>,
    /// Amount received; `None` where nothing was received or the amount is not known.
    pub received: Option<String>,
    /// Error or explanation of the call.
    pub message: SafeText,
}
