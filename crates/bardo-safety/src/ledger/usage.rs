//! What has been used of the limits, read in one go.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension, params};

use super::LedgerError;
use super::caps::{Span, TokenKey};
use super::liquidation::liquidating;
use super::micros::Micros;
use bardo_base::id::GolemId;
use golem_chain::token::TokenId;

/// What has been used, by the ledger's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// The ledger's time, in milliseconds since the Unix epoch: the latest any caller has told it.
    pub now: u64,
    /// In the last hour, day and month, with all that is reserved and not settled.
    pub windows: [Window; 3],
    /// The same for the last day of each token that was asked for.
    pub tokens: BTreeMap<TokenKey, Micros>,
    /// What of each has really gone out of the account within a day, at the prices of then.
    pub moved: BTreeMap<TokenKey, Micros>,
    /// What was given for what live orders are still to bring, by what they bring. Not in the ledger: whoever asks adds it.
    pub coming: BTreeMap<TokenKey, Micros>,
    /// Trades begun in the last hour, exits among them.
    pub trades_hour: u32,
    /// When the oldest of them is an hour old.
    pub trade_frees_at: Option<u64>,
    /// Revocations, cancellations and refunds of the account begun in the last hour, on any chain.
    pub revocations_hour: u32,
    /// When the oldest of them is an hour old.
    pub revocation_frees_at: Option<u64>,
    /// What the account's revocations, cancellations and refunds of the last day cost, at most where it is not known yet.
    pub revocations_day: Micros,
    /// What Golems have sold by exits in the last day, or are about to, in full and at the prices of then.
    pub exits_day: Micros,
    /// Calls recorded in the last minute of the caller that [`Self::called_by`] names; zero before.
    pub calls_minute: u32,
    /// When the last trade began.
    pub last_trade: Option<u64>,
    /// Whether failures have stopped new trades.
    pub breaker: Breaker,
    /// The most the account was worth.
    pub high_water: Micros,
    /// What the account is to sell whole on this chain, by a recorded plan.
    pub liquidating: BTreeSet<TokenId>,
}

/// One window's spending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// What is spent or reserved.
    pub spent: Micros,
    /// When the oldest settled part leaves the window.
    pub frees_at: Option<u64>,
}

/// What a row of failures has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// Trading goes on.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// No new trades until the cool-off is over.
    Open {
        /// When it is, in milliseconds since the Unix epoch.
        until: u64,
        /// Failures that opened it.
        failures: u32,
    },
    /// One trial may be made.
    HalfOpen,
    /// It is being made.
    Trial,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Usage {
    /// What is spent or reserved in a window; nothing for [`Span::Once`].
    pub fn spent(&self, span: Span) -> Micros {
        self.window(span).spent
    }

    /// One window's spending; nothing for [`Span::Once`].
    pub fn window(&self, span: Span) -> Window {
        let [hour, day, month] = self.windows;
        match span {
            Span::Once => Window::default(),
            Span::Hour => hour,
            Span::Day => day,
            Span::Month => month,
        }
    }

    /// With the calls of the last minute of `caller`, whose window is apart from everybody else's.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn called_by(self, connection: &Connection, caller: &GolemId) -> Result<Self, LedgerError> {
        let calls_minute = calls(connection, self.now.max(call_clock(connection)?), caller)?;
        Ok(Self { calls_minute, ..self })
    }

    /// When a window has more room, in words that follow "now".
    pub(super) fn frees(&self, span: Span) -> String {
        match self.window(span).frees_at {
            Some(at) => format!("; the window begins to free in {} s", at.saturating_sub(self.now).div_ceil(1_000)),
            None => String::new(),
        }
    }
}

/// What is reserved and not settled.
///
/// # Errors
/// [`LedgerError`].
pub fn held(connection: &Connection) -> Result<Micros, LedgerError> {
    let held: i64 = connection
        .prepare_cached("SELECT coalesce(sum(micros), 0) FROM ledger_reservation WHERE state IN ('open', 'unclear')")?
        .query_row([], |row| row.get(0))?;
    Ok(Micros::from_sql(held)?)
}

/// Reads what has been used, as of `now` or of the ledger's own clock, whichever is later.
///
/// # Errors
/// [`LedgerError`]: then nothing is known, and nothing may be spent.
pub fn usage<'a>(
    connection: &Connection,
    now: u64,
    chain_id: u64,
    account: Address,
    tokens: impl IntoIterator<Item = &'a TokenKey>,
    cool_off: u64,
) -> Result<Usage, LedgerError> {
    as_of(connection, now.max(clock(connection)?), chain_id, account, tokens, cool_off)
}

/// The same as of `now` itself, whatever the ledger's clock shows.
pub(super) fn as_of<'a>(
    connection: &Connection,
    now: u64,
    chain_id: u64,
    account: Address,
    tokens: impl IntoIterator<Item = &'a TokenKey>,
    cool_off: u64,
) -> Result<Usage, LedgerError> {
    let held = held(connection)?;
    let mut windows = [Window::default(); 3];
    for (window, span) in windows.iter_mut().zip(Span::WINDOWS) {
        let edge = sql(now.saturating_sub(span.millis()))?;
        let spent = settled(connection, edge)?;
        let oldest: Option<i64> = connection
            .prepare_cached("SELECT at FROM ledger_spent WHERE at > ?1 ORDER BY at LIMIT 1")?
            .query_row([edge], |row| row.get(0))
            .optional()?;
        *window = Window {
            spent: spent.plus(held)?,
            frees_at: oldest.map(time).transpose()?.map(|at| at.saturating_add(span.millis())),
        };
    }
    let (mut by_token, mut moved) = (BTreeMap::new(), BTreeMap::new());
    for key in tokens {
        by_token.insert(*key, token_usage(connection, now, *key)?);
        moved.insert(*key, token_moved(connection, now, account, *key)?);
    }
    let edge = sql(now.saturating_sub(Span::Hour.millis()))?;
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
    let day = sql(now.saturating_sub(Span::Day.millis()))?;
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
    Ok(Usage {
        now,
        windows,
        tokens: by_token,
        moved,
        coming: BTreeMap::new(),
        trades_hour: count(trades),
        trade_frees_at: oldest.map(time).transpose()?.map(|at| at.saturating_add(Span::Hour.millis())),
        revocations_hour: count(revocations),
        revocation_frees_at: oldest_revocation.map(time).transpose()?.map(|at| at.saturating_add(Span::Hour.millis())),
        revocations_day: Micros::from_sql(revocations_day)?,
        exits_day: Micros::from_sql(exits_day)?,
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
pub fn high_water(connection: &Connection, chain_id: u64, account: Address) -> Result<Micros, LedgerError> {
    let mark: Option<i64> = connection
        .prepare_cached("SELECT micros FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| row.get(0))
        .optional()?;
    Ok(mark.map(Micros::from_sql).transpose()?.unwrap_or_default())
}

/// What is settled after `edge`: the running total now, less what it was at the edge.
fn settled(connection: &Connection, edge: i64) -> Result<Micros, LedgerError> {
    let total: i64 = connection
        .prepare_cached(
            "SELECT coalesce((SELECT total FROM ledger_spent ORDER BY seq DESC LIMIT 1), 0)
                  - coalesce((SELECT total FROM ledger_spent WHERE at <= ?1 ORDER BY at DESC, seq DESC LIMIT 1), 0)",
        )?
        .query_row([edge], |row| row.get(0))?;
    Ok(Micros::from_sql(total)?)
}

fn token_usage(connection: &Connection, now: u64, key: TokenKey) -> Result<Micros, LedgerError> {
    let (chain_id, token) = (sql(key.0)?, token_text(key.1));
    let edge = sql(now.saturating_sub(Span::Day.millis()))?;
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
    Ok(Micros::from_sql(total)?)
}

fn token_moved(connection: &Connection, now: u64, account: Address, key: TokenKey) -> Result<Micros, LedgerError> {
    let edge = sql(now.saturating_sub(Span::Day.millis()))?;
    let total: i64 = connection
        .prepare_cached(
            "SELECT coalesce(sum(moved.micros), 0)
             FROM ledger_moved AS moved JOIN ledger_reservation AS reserved ON reserved.id = moved.reservation
             WHERE moved.chain_id = ?1 AND moved.token = ?2 AND moved.at > ?3 AND reserved.account = ?4",
        )?
        .query_row(params![sql(key.0)?, token_text(key.1), edge, account.to_string()], |row| row.get(0))?;
    Ok(Micros::from_sql(total)?)
}

/// Calls of `caller` recorded in the last minute.
pub(super) fn calls(connection: &Connection, now: u64, caller: &GolemId) -> Result<u32, LedgerError> {
    let edge = sql(now.saturating_sub(super::CALL_WINDOW))?;
    let calls: i64 = connection
        .prepare_cached("SELECT count(*) FROM ledger_call WHERE golem_id = ?1 AND at > ?2")?
        .query_row(params![caller.as_str(), edge], |row| row.get(0))?;
    Ok(count(calls))
}

/// The latest time the ledger was told.
pub fn clock(connection: &Connection) -> Result<u64, LedgerError> {
    let stored: Option<i64> = connection
        .prepare_cached("SELECT now FROM ledger_clock WHERE one = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    stored.map_or(Ok(0), time)
}

/// The latest time the ledger was told by a call that was counted.
pub(super) fn call_clock(connection: &Connection) -> Result<u64, LedgerError> {
    let stored: Option<i64> = connection
        .prepare_cached("SELECT now FROM ledger_call_clock WHERE one = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    stored.map_or(Ok(0), time)
}

/// A time, id or number for SQLite.
pub(super) fn sql(value: u64) -> Result<i64, LedgerError> {
    i64::try_from(value).map_err(|_| LedgerError::OutOfRange { value })
}

/// A time out of SQLite.
pub(super) fn time(stored: i64) -> Result<u64, LedgerError> {
    u64::try_from(stored).map_err(|_| LedgerError::Damaged("a time before 1970"))
}

pub(super) fn token_text(token: TokenId) -> String {
    match token {
        TokenId::Native => "native".to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    }
}

/// More than can be counted is as bad as the most.
fn count(rows: i64) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}
