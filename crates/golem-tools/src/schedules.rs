//! Schedules: a total that is swapped in slices, one after the other. A schedule moves nothing by itself and approves
//! nothing: a session runs each slice as a call of `uniswap_execute_swap`, with its own preview, checks and approval. Its row
//! survives the session, so the next one goes on.

use std::fmt;

use alloy::primitives::{Address, U256};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_store::{Store, StoreError};

/// Tool that runs the slices.
pub const SLICE_TOOL: &str = "uniswap_execute_swap";
/// Parameter of that tool for the bound of the price, which its refusal names.
pub const LEAST_PRICE: &str = "least_price";

/// Table of the schedules.
pub(crate) const SCHEDULES: &str = "CREATE TABLE engine_schedule (
        id TEXT PRIMARY KEY,
        golem_id TEXT NOT NULL,
        network TEXT NOT NULL,
        account BLOB NOT NULL CHECK (length(account) = 20),
        state TEXT NOT NULL,
        next_at INTEGER NOT NULL,
        terms TEXT NOT NULL,
        progress TEXT NOT NULL
    ) STRICT;
    CREATE INDEX engine_schedule_due ON engine_schedule (network, state, next_at)";

/// Maximum number of active schedules of one agent on one network.
pub const MOST_ACTIVE: i64 = 16;
/// Number of slices of a schedule.
pub const SLICES: std::ops::RangeInclusive<u32> = 2..=1_000;
/// Seconds between two slices: from ten to a month of 31 days.
pub const INTERVAL: std::ops::RangeInclusive<u64> = 10..=31 * 86_400;
/// Maximum time that a schedule lasts, in seconds.
pub const LONGEST: u64 = 366 * 86_400;
/// Failed attempts in a row after which a schedule ends.
pub const MOST_FAILURES: u32 = 5;
/// Number of newest attempts that are kept with a schedule.
const KEPT_ATTEMPTS: usize = 10;
/// Number of newest ended schedules that are kept of each owner on each network.
pub const KEPT_ENDED: usize = 200;
/// Maximum length of an attempt's message, in characters.
const LONGEST_MESSAGE: usize = 300;

/// Token of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledToken {
    /// Name for the swap: the contract's address, or the native token's symbol.
    pub name: String,
    /// Symbol for people.
    pub symbol: SafeText,
    /// Number of decimals of the token.
    pub decimals: u8,
}

/// Terms of a schedule, which never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleTerms {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Name of the chain.
    pub chain: String,
    /// Token that is paid.
    pub token_in: ScheduledToken,
    /// Token that is received.
    pub token_out: ScheduledToken,
    /// Amount that is paid by all slices together, in raw units.
    pub total: U256,
    /// Number of slices.
    pub slices: u32,
    /// Time between two slices, in milliseconds.
    pub interval: u64,
    /// Slippage of each slice, in basis points; `None` for the usual one.
    pub slippage_bps: Option<u32>,
    /// Least amount of the received token per whole unit of the paid one, in raw units; `None` without a bound.
    pub least_per_unit: Option<U256>,
    /// Time of its creation, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of its end, whatever is left, in milliseconds since the Unix epoch.
    pub ends_at: u64,
}

/// State of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleState {
    /// Slices are left.
    Active,
    /// All slices are done.
    Done,
    /// Cancelled by its owner or by the operator.
    Cancelled,
    /// The operator rejected a slice.
    Rejected,
    /// Too many slices in a row failed.
    Failed,
    /// Its time was over before all slices were done.
    Expired,
}

/// End of an attempt at a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceOutcome {
    /// The slice is swapped.
    Done,
    /// It was signed and its end is not known; it is not repeated.
    Unclear,
    /// The price was below the bound; nothing was signed.
    BelowBound,
    /// It was refused, lapsed or failed; it is tried again at the next time.
    Failed,
    /// The operator rejected it.
    Rejected,
}

/// Attempt at a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceAttempt {
    /// Number of the slice, from 1.
    pub slice: u32,
    /// Time of its end, in milliseconds since the Unix epoch.
    pub at: u64,
    /// End of the attempt.
    pub outcome: SliceOutcome,
    /// Amount paid, in raw units; `None` where nothing was paid or the amount is not known.
    pub paid: Option<U256>,
    /// Amount received, in raw units; `None` where nothing was received or the amount is not known.
    pub received: Option<U256>,
    /// Id of the call.
    pub call_id: Option<String>,
    /// Hash of the transaction.
    pub tx_hash: Option<String>,
    /// Error or explanation of the call.
    pub message: SafeText,
}

/// Progress of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleProgress {
    /// Number of slices that are done, or may be.
    pub done: u32,
    /// Number of attempts, which numbers their idempotency keys.
    pub attempts: u32,
    /// True while an attempt runs, or after a session died in it.
    pub is_running: bool,
    /// Session of the store that makes the present attempt, or made the last one.
    #[serde(default)]
    pub session: Option<String>,
    /// Sum of the known amounts paid, in raw units.
    pub paid: U256,
    /// Sum of the known amounts received, in raw units.
    pub received: U256,
    /// Failed attempts in a row.
    pub failures: u32,
    /// Newest attempts, the oldest first.
    pub newest: Vec<SliceAttempt>,
}

/// Id of a stored schedule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnreadableSchedule(String);

/// Schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Id: that of the call that made it.
    pub id: String,
    /// Golem that it belongs to, or the operator.
    pub golem_id: GolemId,
    /// Network of the session that made it.
    pub network: String,
    /// Account that pays and receives.
    pub account: Address,
    /// Active while slices are left, else the reason of its end.
    pub state: ScheduleState,
    /// Time of the next attempt, in milliseconds since the Unix epoch.
    pub next_at: u64,
    /// Amounts, times and bounds that it was made with.
    pub terms: ScheduleTerms,
    /// Slices that were tried so far.
    pub progress: ScheduleProgress,
}

impl ScheduleState {
    const ALL: [Self; 6] = [Self::Active, Self::Done, Self::Cancelled, Self::Rejected, Self::Failed, Self::Expired];

    /// Returns the word for the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for ScheduleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl SliceOutcome {
    /// Returns the word for the outcome.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unclear => "unclear",
            Self::BelowBound => "below_bound",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
        }
    }
}

impl SliceAttempt {
    /// Attempt that ended at `at` without a signature.
    pub fn unsigned(slice: u32, at: u64, outcome: SliceOutcome, message: &str) -> Self {
        let message = SafeText::clean(message, LONGEST_MESSAGE);
        Self { slice, at, outcome, paid: None, received: None, call_id: None, tx_hash: None, message }
    }
}

impl ScheduleTerms {
    /// Amount of the slice of this number, counted from 1, in raw units. The last one takes what a division leaves.
    pub fn slice(&self, number: u32) -> U256 {
        let slices = U256::from(self.slices.max(1));
        let each = self.total / slices;
        if number >= self.slices { each.saturating_add(self.total % slices) } else { each }
    }

    /// The first planned time after `now`, in milliseconds since the Unix epoch. Times that passed while no session ran are
    /// not made up for, so that no slices follow each other at once.
    fn next_after(&self, planned: u64, now: u64) -> u64 {
        let interval = self.interval.max(1);
        let missed = now.saturating_sub(planned) / interval;
        planned.saturating_add(interval.saturating_mul(missed.saturating_add(1)))
    }
}

impl Schedule {
    /// Number of the next slice, counted from 1.
    pub fn next_slice(&self) -> u32 {
        self.progress.done.saturating_add(1)
    }

    /// Idempotency key of the present attempt.
    pub fn key(&self) -> String {
        format!("schedule:{}:{}", self.id, self.progress.attempts)
    }

    /// Parameters of the call that swaps the next slice.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for terms that no tool has written.
    pub fn call(&self) -> Result<Value, ToolError> {
        let amount = TokenAmount::new(self.terms.slice(self.next_slice()), self.terms.token_in.decimals);
        let amount = amount.map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?;
        let mut call = json!({
            "token_in": self.terms.token_in.name,
            "token_out": self.terms.token_out.name,
            "amount": amount.to_string(),
            "chain": self.terms.chain_id.to_string(),
            "prefer_uniswapx": false,
        });
        let least = self.terms.least_per_unit.map(|raw| TokenAmount::new(raw, self.terms.token_out.decimals));
        let least = least.transpose().map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?;
        if let Value::Object(fields) = &mut call {
            fields.extend(self.terms.slippage_bps.map(|points| ("slippage_bps".to_owned(), Value::from(points))));
            // The swap itself is bound to it, however often it is previewed and whatever amount the operator makes of it.
            fields.extend(least.map(|price| (LEAST_PRICE.to_owned(), Value::from(price.to_string()))));
        }
        Ok(call)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Result<Self, UnreadableSchedule>> {
        let (id, golem_id, network): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (account, state, next_at): (Vec<u8>, String, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let (terms, progress): (String, String) = (row.get(6)?, row.get(7)?);
        let parsed = || -> Option<Self> {
            Some(Self {
                id: id.clone(),
                golem_id: GolemId::stored(&golem_id).ok()?,
                network,
                account: Address::try_from(account.as_slice()).ok()?,
                state: ScheduleState::ALL.into_iter().find(|one| one.as_str() == state)?,
                next_at: u64::try_from(next_at).ok()?,
                terms: serde_json::from_str(&terms).ok()?,
                progress: serde_json::from_str(&progress).ok()?,
            })
        };
        let schedule = parsed();
        Ok(schedule.ok_or(UnreadableSchedule(id)))
    }

    /// Takes in the end of the present attempt.
    fn note(&mut self, attempt: SliceAttempt, now: u64) {
        let progress = &mut self.progress;
        progress.is_running = false;
        progress.paid = progress.paid.saturating_add(attempt.paid.unwrap_or_default());
        progress.received = progress.received.saturating_add(attempt.received.unwrap_or_default());
        match attempt.outcome {
            SliceOutcome::Done | SliceOutcome::Unclear => {
                progress.done = progress.done.saturating_add(1);
                progress.failures = 0;
            }
            SliceOutcome::BelowBound => progress.failures = 0,
            SliceOutcome::Failed => progress.failures = progress.failures.saturating_add(1),
            SliceOutcome::Rejected => {}
        }
        let is_rejected = attempt.outcome == SliceOutcome::Rejected;
        if progress.newest.len() >= KEPT_ATTEMPTS {
            progress.newest.remove(0);
        }
        progress.newest.push(attempt);
        // A schedule that was cancelled meanwhile stays so.
        if self.state == ScheduleState::Active {
            self.state = match () {
                () if self.progress.done >= self.terms.slices => ScheduleState::Done,
                () if is_rejected => ScheduleState::Rejected,
                () if self.progress.failures >= MOST_FAILURES => ScheduleState::Failed,
                () if now >= self.terms.ends_at => ScheduleState::Expired,
                () => ScheduleState::Active,
            };
        }
    }

    fn write(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        transaction.execute(
            "INSERT OR REPLACE INTO engine_schedule (id, golem_id, network, account, state, next_at, terms, progress)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                self.id,
                self.golem_id.as_str(),
                self.network,
                self.account.as_slice(),
                self.state.as_str(),
                i64::try_from(self.next_at).unwrap_or(i64::MAX),
                text(&self.terms),
                text(&self.progress)
            ],
        )?;
        Ok(())
    }
}

/// JSON of plain data, which cannot fail; an empty text would be unreadable, and so nothing would run.
fn text(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default()
}

const COLUMNS: &str = "SELECT id, golem_id, network, account, state, next_at, terms, progress FROM engine_schedule";

/// Stores a new schedule. Returns false, and stores nothing, if its owner has [`MOST_ACTIVE`] active ones on its network.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub async fn insert(store: &Store, schedule: Schedule) -> Result<bool, StoreError> {
    store
        .write(move |transaction| {
            let active: i64 = transaction.query_row(
                "SELECT COUNT(*) FROM engine_schedule WHERE golem_id = ?1 AND network = ?2 AND state = 'active'",
                params![schedule.golem_id.as_str(), schedule.network],
                |row| row.get(0),
            )?;
            if active >= MOST_ACTIVE {
                return Ok(false);
            }
            schedule.write(transaction)?;
            forget_ended(transaction, &schedule)?;
            Ok(true)
        })
        .await
}

/// Deletes the oldest ended schedules of the new one's owner and network. One whose attempt is open stays.
fn forget_ended(transaction: &Transaction<'_>, new: &Schedule) -> Result<(), StoreError> {
    let mut statement = transaction.prepare_cached(&format!(
        "{COLUMNS} WHERE golem_id = ?1 AND network = ?2 AND state <> 'active' ORDER BY id DESC LIMIT -1 OFFSET ?3"
    ))?;
    let kept = i64::try_from(KEPT_ENDED).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![new.golem_id.as_str(), new.network, kept], Schedule::read)?;
    for row in rows.collect::<Result<Vec<_>, _>>()? {
        // One that cannot be read may be open as well.
        let Ok(ended) = row else { continue };
        if !ended.progress.is_running {
            transaction.execute("DELETE FROM engine_schedule WHERE id = ?1", params![ended.id])?;
        }
    }
    Ok(())
}

/// Schedules of a network, the newest first: those of one owner, or all. Those that cannot be read are returned by their ids.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn list(store: &Store, network: &str, owner: Option<&GolemId>) -> Result<(Vec<Schedule>, Vec<String>), StoreError> {
    store.read(|connection| {
        let mut statement = connection.prepare_cached(&format!(
            "{COLUMNS} WHERE network = ?1 AND (?2 IS NULL OR golem_id = ?2) ORDER BY id DESC"
        ))?;
        let rows = statement.query_map(params![network, owner.map(GolemId::as_str)], Schedule::read)?;
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for row in rows {
            match row? {
                Ok(schedule) => found.push(schedule),
                Err(UnreadableSchedule(id)) => unreadable.push(id),
            }
        }
        Ok((found, unreadable))
    })
}

/// Schedules of an account on a network, the newest first: the active ones, and the newest `ended` of the others. With them
/// the number of rows that cannot be read.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn of_account(
    store: &Store,
    network: &str,
    account: Address,
    ended: u32,
) -> Result<(Vec<Schedule>, usize), StoreError> {
    store.read(|connection| {
        let mut statement = connection.prepare_cached(&format!(
            "{COLUMNS} WHERE network = ?1 AND account = ?2 AND (state = 'active' OR id IN (
                SELECT id FROM engine_schedule WHERE network = ?1 AND account = ?2 AND state <> 'active'
                ORDER BY id DESC LIMIT ?3)) ORDER BY id DESC"
        ))?;
        let rows = statement.query_map(params![network, account.as_slice(), ended], Schedule::read)?;
        let (mut found, mut unreadable) = (Vec::new(), 0);
        for row in rows {
            match row? {
                Ok(schedule) => found.push(schedule),
                Err(_) => unreadable += 1,
            }
        }
        Ok((found, unreadable))
    })
}

/// The schedule with this id; `None` if there is none, or it cannot be read.
fn get(connection: &Connection, id: &str) -> Result<Option<Schedule>, StoreError> {
    let found = connection.query_row(&format!("{COLUMNS} WHERE id = ?1"), params![id], Schedule::read).optional()?;
    Ok(found.and_then(Result::ok))
}

/// Takes the next slice that is due of these owners' schedules, so that no other session takes it, and returns the schedule
/// with the attempt that it now makes. Active schedules whose time is over end. `None` if nothing is due.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub async fn claim(
    store: &Store,
    network: &str,
    account: Address,
    owners: Vec<GolemId>,
    now: u64,
) -> Result<Option<Schedule>, StoreError> {
    let (network, session) = (network.to_owned(), store.session().to_owned());
    store
        .write(move |transaction| {
            let due: Vec<Schedule> = {
                let mut statement = transaction.prepare_cached(&format!(
                    "{COLUMNS} WHERE network = ?1 AND state = 'active' AND next_at <= ?2 AND account = ?3 ORDER BY next_at"
                ))?;
                let now = i64::try_from(now).unwrap_or(i64::MAX);
                let rows = statement.query_map(params![network, now, account.as_slice()], Schedule::read)?;
                // What cannot be read does not run.
                rows.filter_map(|row| row.ok().and_then(Result::ok)).collect()
            };
            let mut due = due.into_iter().filter(|one| owners.contains(&one.golem_id) && !one.progress.is_running);
            for mut schedule in due.by_ref() {
                if now >= schedule.terms.ends_at {
                    schedule.state = ScheduleState::Expired;
                    schedule.write(transaction)?;
                    continue;
                }
                schedule.progress.is_running = true;
                schedule.progress.session = Some(session);
                schedule.progress.attempts = schedule.progress.attempts.saturating_add(1);
                schedule.next_at = schedule.terms.next_after(schedule.next_at, now);
                schedule.write(transaction)?;
                return Ok(Some(schedule));
            }
            Ok(None)
        })
        .await
}

/// Schedules of these owners with an attempt that this session must see to its end: its own, and those in which an earlier
/// session died, which it takes over. An attempt of another session that is alive belongs to that session.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub async fn adopt(
    store: &Store,
    network: &str,
    account: Address,
    owners: &[GolemId],
) -> Result<Vec<Schedule>, StoreError> {
    let own = store.session();
    let (all, _) = list(store, network, None)?;
    let belongs = |one: &Schedule| one.account == account && owners.contains(&one.golem_id);
    let mut adopted = Vec::new();
    for mut schedule in all.into_iter().filter(|one| one.progress.is_running && belongs(one)) {
        let maker = schedule.progress.session.clone();
        if maker.as_deref() == Some(own) {
            adopted.push(schedule);
        } else if maker.as_deref().is_none_or(|maker| !store.is_session_alive(maker))
            && take_over(store, &schedule, maker).await?
        {
            schedule.progress.session = Some(own.to_owned());
            adopted.push(schedule);
        }
    }
    Ok(adopted)
}

/// Makes an attempt that a dead session left this session's. Returns false if another one was faster, or it has ended.
async fn take_over(store: &Store, left: &Schedule, maker: Option<String>) -> Result<bool, StoreError> {
    let (id, number, session) = (left.id.clone(), left.progress.attempts, store.session().to_owned());
    store
        .write(move |transaction| {
            let Some(mut schedule) = get(transaction, &id)? else { return Ok(false) };
            let progress = &mut schedule.progress;
            if !progress.is_running || progress.attempts != number || progress.session != maker {
                return Ok(false);
            }
            progress.session = Some(session);
            schedule.write(transaction)?;
            Ok(true)
        })
        .await
}

/// True if slices of the schedule may be signed at `now`: it was not cancelled and has not ended.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn is_active(store: &Store, id: &str, now: u64) -> Result<bool, StoreError> {
    let found = store.read(|connection| get(connection, id))?;
    Ok(found.is_some_and(|one| one.state == ScheduleState::Active && now < one.terms.ends_at))
}

/// Notes the end of an attempt. Does nothing if its end was noted before.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub async fn finish(store: &Store, attempted: &Schedule, attempt: SliceAttempt, now: u64) -> Result<(), StoreError> {
    let (id, number) = (attempted.id.clone(), attempted.progress.attempts);
    store
        .write(move |transaction| {
            let Some(mut schedule) = get(transaction, &id)? else { return Ok(()) };
            if schedule.progress.is_running && schedule.progress.attempts == number {
                schedule.note(attempt, now);
                schedule.write(transaction)?;
            }
            Ok(())
        })
        .await
}

/// Cancels a schedule: an owner its own, the operator any. Returns it as it is then; `None` if there is none of that id that
/// the caller may cancel. A slice that is being swapped ends as it does.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub async fn cancel(store: &Store, id: &str, by: GolemId) -> Result<Option<Schedule>, StoreError> {
    let id = id.to_owned();
    store
        .write(move |transaction| {
            let may = |one: &Schedule| by == GolemId::operator() || one.golem_id == by;
            let Some(mut schedule) = get(transaction, &id)?.filter(may) else { return Ok(None) };
            if schedule.state == ScheduleState::Active {
                schedule.state = ScheduleState::Cancelled;
                schedule.write(transaction)?;
            }
            Ok(Some(schedule))
        })
        .await
}

#[cfg(test)]
mod tests;
