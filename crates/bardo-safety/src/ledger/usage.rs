//! Usage of the limits, read in one go.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;
use super::caps::{CapPeriod, TokenKey};
use super::liquidation::liquidating;
use super::micros::MicroUsd;
use bardo_base::format::wait;
use bardo_base::id::GolemId;
use golem_chain::token::TokenId;

/// Usage of the limits at the ledger's time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerUsage {
    /// Time of the reading, in milliseconds since the Unix epoch: normally the latest time that any caller reported to
    /// the ledger.
    pub now: u64,
    /// Spending in the last hour, day and month, each with all open reservations.
    pub windows: [SpendWindow; 3],
    /// Spending of the last day, with all open reservations, for each requested token.
    pub tokens: BTreeMap<TokenKey, MicroUsd>,
    /// Value of each requested token that left the account within a day, at the prices of that time.
    pub moved: BTreeMap<TokenKey, MicroUsd>,
    /// Value that open orders have spent, by the token that they are to bring. Not in the ledger: the caller adds it.
    pub coming: BTreeMap<TokenKey, MicroUsd>,
    /// Number of trades reserved in the last hour, including exits.
    pub trades_hour: u32,
    /// Time at which the oldest of these trades is an hour old, in milliseconds since the Unix epoch.
    pub trade_frees_at: Option<u64>,
    /// Number of the account's revocations, cancellations and refunds reserved in the last hour, on any chain.
    pub revocations_hour: u32,
    /// Time at which the oldest of these revocations is an hour old, in milliseconds since the Unix epoch.
    pub revocation_frees_at: Option<u64>,
    /// Gas cost of the account's revocations, cancellations and refunds of the last day; the reserved maximum where one
    /// is not settled.
    pub revocations_day: MicroUsd,
    /// Value that the exits of Golems sold or reserved in the last day, in full and at the prices of that time.
    pub exits_day: MicroUsd,
    /// Number of calls in the last minute by the caller given to [`Self::called_by`]; zero before that call.
    pub calls_minute: u32,
    /// Time of the last trade's reservation, in milliseconds since the Unix epoch.
    pub last_trade: Option<u64>,
    /// State of the failure breaker.
    pub breaker: FailureBreaker,
    /// High-water mark of the account on the chain; zero if there is none.
    pub high_water: MicroUsd,
    /// Tokens that the account is to sell completely on this chain, by recorded plans.
    pub liquidating: BTreeSet<TokenId>,
}

/// Spending within one sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendWindow {
    /// Settled spending in the window plus all open reservations.
    pub spent: MicroUsd,
    /// Time at which the oldest settled amount leaves the window, in milliseconds since the Unix epoch.
    pub frees_at: Option<u64>,
}

/// State of the failure breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureBreaker {
    /// Trading is allowed.
    Closed {
        /// Number of consecutive failures so far.
        failures: u32,
    },
    /// New trades are blocked until the cool-off is over.
    Open {
        /// End of the cool-off, in milliseconds since the Unix epoch.
        until: u64,
        /// Number of consecutive failures.
        failures: u32,
    },
    /// The cool-off is over and one trial is allowed.
    HalfOpen,
    /// The trial is in progress, and other trades are blocked.
    Trial,
}

impl Default for FailureBreaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl LedgerUsage {
    /// Returns the spending and reservations in a window; zero for [`CapPeriod::Once`].
    pub fn spent(&self, span: CapPeriod) -> MicroUsd {
        self.window(span).spent
    }

    /// Returns one window; empty for [`CapPeriod::Once`].
    pub fn window(&self, span: CapPeriod) -> SpendWindow {
        let [hour, day, month] = self.windows;
        match span {
            CapPeriod::Once => SpendWindow::default(),
            CapPeriod::Hour => hour,
            CapPeriod::Day => day,
            CapPeriod::Month => month,
        }
    }

    /// Adds the number of calls by `caller` in the last minute. Each caller has a window of its own.
    ///
    /// # Errors
    /// [`LedgerError`] if the database fails.
    pub fn called_by(self, connection: &Connection, caller: &GolemId) -> Result<Self, LedgerError> {
        let calls_minute = calls(connection, self.now.max(call_clock(connection)?), caller)?;
        Ok(Self { calls_minute, ..self })
    }

    /// Returns the time until a window has more room, as text that follows "now".
    pub(super) fn frees(&self, span: CapPeriod) -> String {
        match self.window(span).frees_at {
            Some(at) => {
                format!("; the window starts to free up in {}", wait(at.saturating_sub(self.now).div_ceil(1_000)))
            }
            None => String::new(),
        }
    }
}

/// Returns the sum of all open reservations.
///
/// # Errors
/// [`LedgerError`] if the database fails or the sum is invalid.
pub fn held(connection: &Connection) -> Result<MicroUsd, LedgerError> {
    let held: i64 = connection
        .prepare_cached("SELECT coalesce(sum(micros), 0) FROM ledger_reservation WHERE state IN ('open', 'unclear')")?
        .query_row([], |row| row.get(0))?;
    Ok(MicroUsd::from_sql(held)?)
}

/// Reads the usage as of `now` or of the ledger's own clock, whichever is later. `tokens` are the tokens to include,
/// and `cool_off` is the breaker's, in milliseconds.
///
/// # Errors
/// [`LedgerError`] if the usage could not be read; then nothing may be spent.
pub fn usage<'a>(
    connection: &Connection,
    now: u64,
    chain_id: u64,
    account: Address,
    tokens: impl IntoIterator<Item = &'a TokenKey>,
    cool_off: u64,
) -> Result<LedgerUsage, LedgerError> {
    as_of(connection, now.max(clock(connection)?), chain_id, account, tokens, cool_off)
}

/// Reads the usage as of `now`, regardless of the ledger's clock.
pub(super) fn as_of<'a>(
    connection: &Connection,
    now: u64,
    chain_id: u64,
    account: Address,
    tokens: impl IntoIterator<Item = &'a TokenKey>,
    cool_off: u64,
) -> Result<LedgerUsage, LedgerError> {
    let held = held(connection)?;
    let mut windows = [SpendWindow::default(); 3];
    for (window, span) in windows.iter_mut().zip(CapPeriod::WINDOWS) {
        let edge = sql(now.saturating_sub(span.millis()))?;
        let spent = settled(connection, edge)?;
        let oldest: Option<i64> = connection
            .prepare_cached("SELECT at FROM ledger_spent WHERE at > ?1 ORDER BY at LIMIT 1")?
            .query_row([edge], |row| row.get(0))
            .optional()?;
        *window = SpendWindow {
            spent: spent.plus(held)?,
            frees_at: oldest.map(time).transpose()?.map(|at| at.saturating_add(span.millis())),
        };
    }
    let (mut by_token, mut moved) = (BTreeMap::new(), BTreeMap::new());
    for key in tokens {
        by_token.insert(*key, token_usage(connection, now, *key)?);
        moved.insert(*key, token_moved(connection, now, account, *key)?);
    }
    let edge = sql(now.saturating_sub(CapPeriod::Hour.millis()))?;
    let (trades, oldest): (i64, Option<i64>) = connection
        .prepare_cached(
            "SELECT count(*), min(reserved_at) FROM ledger_reservation
         WHERE trade = 1 AND state NOT IN ('not_sent', 'withdrawn') AND reserved_at > ?1",
        )?
        .query_row([edge], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (revocations, oldest_revocation): (i64, Option<i64>) = connection
        .prepare_cached(
            "SELECT count(*), min(reserved_at) FROM ledger_reservation
         WHERE trade = 0 AND state NOT IN ('not_sent', 'withdrawn') AND account = ?1 AND reserved_at > ?2",
        )?
        .query_row(params![account.to_string(), edge], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let day = sql(now.saturating_sub(CapPeriod::Day.millis()))?;
    let revocations_day: i64 = connection
        .prepare_cached(
            "SELECT coalesce(sum(coalesce(settled_micros, micros)), 0) FROM ledger_reservation
         WHERE trade = 0 AND state NOT IN ('not_sent', 'withdrawn') AND account = ?1 AND reserved_at > ?2",
        )?
        .query_row(params![account.to_string(), day], |row| row.get(0))?;
    let exits_day: i64 = connection
        .prepare_cached(
            "SELECT coalesce(sum(moved.micros), 0)
             FROM ledger_reservation AS reserved JOIN ledger_moved AS moved ON moved.reservation = reserved.id
             WHERE reserved.trade = 1 AND reserved.state NOT IN ('not_sent', 'withdrawn') AND reserved.reserved_at > ?1
               AND reserved.state <> 'reverted' AND reserved.exempt = 1 AND reserved.golem_id <> ?2",
        )?
        .query_row(params![day, GolemId::operator().as_str()], |row| row.get(0))?;
    let last: Option<i64> = connection
        .prepare_cached(
            "SELECT max(reserved_at) FROM ledger_reservation
         WHERE trade = 1 AND state NOT IN ('not_sent', 'withdrawn')",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(LedgerUsage {
        now,
        windows,
        tokens: by_token,
        moved,
        coming: BTreeMap::new(),
        trades_hour: count(trades),
        trade_frees_at: oldest.map(time).transpose()?.map(|at| at.saturating_add(CapPeriod::Hour.millis())),
        revocations_hour: count(revocations),
        revocation_frees_at: oldest_revocation
            .map(time)
            .transpose()?
            .map(|at| at.saturating_add(CapPeriod::Hour.millis())),
        revocations_day: MicroUsd::from_sql(revocations_day)?,
        exits_day: MicroUsd::from_sql(exits_day)?,
        calls_minute: 0,
        last_trade: last.map(time).transpose()?,
        breaker: super::breaker::state(connection, now, cool_off)?,
        high_water: high_water(connection, chain_id, account)?,
        liquidating: liquidating(connection, chain_id, account)?,
    })
}

/// Returns the most that an account was worth on a chain, in millionths of a dollar; zero where nothing was seen of it.
///
/// # Errors
/// [`LedgerError`] where the ledger cannot be read.
pub fn high_water(connection: &Connection, chain_id: u64, account: Address) -> Result<MicroUsd, LedgerError> {
    let mark: Option<i64> = connection
        .prepare_cached("SELECT micros FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| row.get(0))
        .optional()?;
    Ok(mark.map(MicroUsd::from_sql).transpose()?.unwrap_or_default())
}

/// Returns the mark of [`high_water`] as it is shown: zero until a reading of the account's holdings is in it. A mark of
/// arrivals alone says nothing of what the account held before them.
///
/// # Errors
/// [`LedgerError`] where the ledger cannot be read.
pub fn observed_high_water(connection: &Connection, chain_id: u64, account: Address) -> Result<MicroUsd, LedgerError> {
    let observed = super::is_observed(connection, chain_id, account)?;
    if observed { high_water(connection, chain_id, account) } else { Ok(MicroUsd::ZERO) }
}

/// Returns the amount settled after `edge`: the latest running total minus the one at the edge.
fn settled(connection: &Connection, edge: i64) -> Result<MicroUsd, LedgerError> {
    let total: i64 = connection
        .prepare_cached(
            "SELECT coalesce((SELECT total FROM ledger_spent ORDER BY seq DESC LIMIT 1), 0)
                  - coalesce((SELECT total FROM ledger_spent WHERE at <= ?1 ORDER BY at DESC, seq DESC LIMIT 1), 0)",
        )?
        .query_row([edge], |row| row.get(0))?;
    Ok(MicroUsd::from_sql(total)?)
}

fn token_usage(connection: &Connection, now: u64, key: TokenKey) -> Result<MicroUsd, LedgerError> {
    let (chain_id, token) = (sql(key.0)?, token_text(key.1));
    let edge = sql(now.saturating_sub(CapPeriod::Day.millis()))?;
    let total: i64 = connection
        .prepare_cached(
            "SELECT coalesce((SELECT total FROM ledger_token_spent
                              WHERE chain_id = ?1 AND token = ?2 ORDER BY at DESC, seq DESC LIMIT 1), 0)
                  - coalesce((SELECT total FROM ledger_token_spent
                              WHERE chain_id = ?1 AND token = ?2 AND at <= ?3 ORDER BY at DESC, seq DESC LIMIT 1), 0)
                  + coalesce((SELECT sum(micros) FROM ledger_reservation_token
                              WHERE chain_id = ?1 AND token = ?2 AND held = 1), 0)",
        )?
        .query_row(params![chain_id, token, edge], |row| row.get(0))?;
    Ok(MicroUsd::from_sql(total)?)
}

fn token_moved(connection: &Connection, now: u64, account: Address, key: TokenKey) -> Result<MicroUsd, LedgerError> {
    let edge = sql(now.saturating_sub(CapPeriod::Day.millis()))?;
    let total: i64 = connection
        .prepare_cached(
            "SELECT coalesce(sum(moved.micros), 0)
             FROM ledger_moved AS moved JOIN ledger_reservation AS reserved ON reserved.id = moved.reservation
             WHERE moved.chain_id = ?1 AND moved.token = ?2 AND moved.at > ?3 AND reserved.account = ?4",
        )?
        .query_row(params![sql(key.0)?, token_text(key.1), edge, account.to_string()], |row| row.get(0))?;
    Ok(MicroUsd::from_sql(total)?)
}

/// Returns the number of calls by `caller` in the last minute.
pub(super) fn calls(connection: &Connection, now: u64, caller: &GolemId) -> Result<u32, LedgerError> {
    let edge = sql(now.saturating_sub(super::CALL_WINDOW))?;
    let calls: i64 = connection
        .prepare_cached("SELECT count(*) FROM ledger_call WHERE golem_id = ?1 AND at > ?2")?
        .query_row(params![caller.as_str(), edge], |row| row.get(0))?;
    Ok(count(calls))
}

/// Returns the ledger's clock: the latest time that any caller reported, in milliseconds since the Unix epoch.
///
/// # Errors
/// [`LedgerError`] if the database fails or the stored time is invalid.
pub fn clock(connection: &Connection) -> Result<u64, LedgerError> {
    let stored: Option<i64> = connection
        .prepare_cached("SELECT now FROM ledger_clock WHERE one = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    stored.map_or(Ok(0), time)
}

/// Returns the clock of the calls: the latest time that a call reported.
pub(super) fn call_clock(connection: &Connection) -> Result<u64, LedgerError> {
    let stored: Option<i64> = connection
        .prepare_cached("SELECT now FROM ledger_call_clock WHERE one = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    stored.map_or(Ok(0), time)
}

/// Converts a time, id or number for SQLite.
pub(super) fn sql(value: u64) -> Result<i64, LedgerError> {
    i64::try_from(value).map_err(|_| LedgerError::OutOfRange { value })
}

/// Converts a time from SQLite.
pub(super) fn time(stored: i64) -> Result<u64, LedgerError> {
    u64::try_from(stored).map_err(|_| LedgerError::Damaged("a time before 1970"))
}

pub(super) fn token_text(token: TokenId) -> String {
    match token {
        TokenId::Native => "native".to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    }
}

/// Converts a row count, saturating at the maximum.
fn count(rows: i64) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}
