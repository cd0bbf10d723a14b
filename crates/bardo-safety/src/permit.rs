//! Permit between a preview and its commit. It can be used once, for a short time, for exactly the previewed action.
//!
//! An unused permit is kept in this process's memory only, so that none survives a restart. A used permit is stored in
//! the database, so that none can be used twice.

use alloy::primitives::{Address, B256, U256};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use tokio::time::Instant;

use super::proposal::{AllowanceBound, Inflow, Outflow};
use super::safe_proposals;
use super::signing_payload::{FeeBound, SigningPayload};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::text::SafeText;
use bardo_store::{Migrations, StoreError};

/// Tables of the pipeline: used permits, transactions signed under them, earlier recipients and spenders, and orders
/// that others settle.
pub const MIGRATIONS: Migrations = Migrations {
    room: "safety",
    steps: &[
        "
    CREATE TABLE safety_permit (
        permit_id TEXT PRIMARY KEY,
        simulation_hash BLOB NOT NULL,
        call_id TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        reservation INTEGER NOT NULL,
        gas_usd TEXT NOT NULL,
        spent_usd TEXT NOT NULL,
        consumed_at INTEGER NOT NULL,
        ended TEXT CHECK (ended IN ('done', 'reverted', 'not_sent', 'withdrawn'))
    ) STRICT;
    CREATE INDEX safety_permit_open ON safety_permit (chain_id) WHERE ended IS NULL;

    CREATE TABLE safety_leg (
        permit_id TEXT NOT NULL REFERENCES safety_permit (permit_id),
        leg INTEGER NOT NULL,
        of INTEGER NOT NULL,
        hash BLOB NOT NULL UNIQUE,
        PRIMARY KEY (permit_id, leg)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE safety_recipient (
        chain_id INTEGER NOT NULL,
        address TEXT NOT NULL,
        first_at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, address)
    ) STRICT, WITHOUT ROWID;
",
        "
    CREATE TABLE safety_order (
        hash BLOB PRIMARY KEY,
        permit_id TEXT NOT NULL UNIQUE,
        call_id TEXT NOT NULL,
        golem_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        permit2 TEXT NOT NULL,
        token_in TEXT NOT NULL,
        token_out TEXT NOT NULL,
        destination INTEGER,
        encoded BLOB NOT NULL,
        signature BLOB,
        stage TEXT NOT NULL
            CHECK (stage IN ('reserved', 'signed', 'submitting', 'submitted', 'refused', 'ended')),
        status TEXT NOT NULL,
        facts TEXT NOT NULL,
        card TEXT,
        reservation INTEGER NOT NULL,
        spent_usd TEXT NOT NULL,
        gas_usd TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX safety_order_live ON safety_order (chain_id, account) WHERE stage <> 'ended';
",
        // Owner of the work: the acting Golem, and the session id of the store that used the permit.
        "
    ALTER TABLE safety_permit ADD COLUMN golem_id TEXT;
    ALTER TABLE safety_permit ADD COLUMN session TEXT;
    CREATE INDEX safety_permit_call ON safety_permit (call_id);
    ALTER TABLE safety_leg ADD COLUMN main INTEGER NOT NULL DEFAULT 1;
",
        // Time since which an order waits for submission, and whether anybody may have seen it. For older rows this is
        // unknown, so they count as seen.
        "
    ALTER TABLE safety_order ADD COLUMN signed_at INTEGER;
    ALTER TABLE safety_order ADD COLUMN shown INTEGER NOT NULL DEFAULT 1;
",
        // Tokens on which an account has set an allowance.
        "
    CREATE TABLE safety_allowed (
        chain_id INTEGER NOT NULL,
        account TEXT NOT NULL,
        token TEXT NOT NULL,
        PRIMARY KEY (chain_id, account, token)
    ) STRICT, WITHOUT ROWID;
",
        // Whether a transaction only revokes, and may be sent again under any stop. Older rows wait for the end of a
        // stop, as before.
        "
    ALTER TABLE safety_leg ADD COLUMN takes_back INTEGER NOT NULL DEFAULT 0;
",
        "
    CREATE TABLE safety_spender (
        chain_id INTEGER NOT NULL,
        address TEXT NOT NULL,
        first_at INTEGER NOT NULL,
        PRIMARY KEY (chain_id, address)
    ) STRICT, WITHOUT ROWID;
",
        // Parties to an account's actions, with a tag by the account's key (see `parties`). Rows of safety_recipient,
        // safety_spender and safety_allowed have no tag, so they no longer make a party known.
        "
    CREATE TABLE safety_party (
        role TEXT NOT NULL CHECK (role IN ('receiver', 'spender', 'token')),
        chain_id INTEGER NOT NULL,
        address TEXT NOT NULL,
        account TEXT NOT NULL,
        call_id TEXT NOT NULL,
        first_at INTEGER NOT NULL,
        tag BLOB NOT NULL,
        PRIMARY KEY (role, chain_id, address, account)
    ) STRICT, WITHOUT ROWID;
",
        // Session keys. A row counts only with a tag of the session key itself; a revocation removes tag and signature,
        // so that nothing in the ledger brings the key back.
        "
    CREATE TABLE safety_session_key (
        id TEXT PRIMARY KEY,
        label TEXT NOT NULL,
        address BLOB NOT NULL,
        owner BLOB NOT NULL,
        chain_id INTEGER NOT NULL,
        manager BLOB NOT NULL,
        delegation BLOB NOT NULL,
        signature BLOB,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        max_calls INTEGER,
        uses INTEGER NOT NULL,
        last_used INTEGER,
        state TEXT NOT NULL CHECK (state IN ('drafted', 'granted', 'revoked')),
        revoked_at INTEGER,
        revoked_by TEXT,
        reason TEXT,
        tag BLOB,
        CHECK ((state = 'granted') = (signature IS NOT NULL)),
        CHECK ((state = 'revoked') = (tag IS NULL)),
        CHECK ((state = 'revoked') = (revoked_at IS NOT NULL))
    ) STRICT, WITHOUT ROWID;
",
        safe_proposals::record::TABLE,
    ],
};

/// Permission to execute a previewed action: once, until it expires, within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPermit {
    /// Unique id of the permit.
    pub permit_id: PermitId,
    /// Hash that binds the signing payload, the policy's hash and the bounds, see [`SigningPayload::binding_hash`].
    pub simulation_hash: B256,
    /// Expected outcome, in one sentence.
    pub expected_outcome: SafeText,
    /// Maximum outflows, minimum inflows, allowances and gas.
    pub bounds: PermitBounds,
    /// Time of issue, in milliseconds since the Unix epoch.
    pub issued_at: u64,
    /// Expiry by the wall clock, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// Expiry by the monotonic clock, which cannot be set.
    pub expires: Instant,
}

/// Maximum outflows and minimum inflows of an action. Exact amounts may vary within them, so a moving price does not
/// invalidate a permit.
#[derive(Debug, Clone, PartialEq)]
pub struct PermitBounds {
    /// Maximum outflows of the account, without gas.
    pub outflows: Vec<Outflow>,
    /// Minimum inflows by recipient.
    pub inflows: Vec<Inflow>,
    /// Allowances that may remain afterwards.
    pub allowances: Vec<AllowanceBound>,
    /// Maximum fees, in wei per unit of gas.
    pub fees: FeeBound,
    /// Worst total gas cost, in wei.
    pub worst_gas: U256,
}

/// Reason why a permit is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PermitFault {
    /// The permit has expired, or was issued before this process started.
    #[error("the permit has expired, or was issued by an earlier run: preview the action again")]
    Expired,
    /// The payload or the rules differ from those that the permit was issued for.
    #[error("the action to sign differs from the permitted one")]
    Mismatch,
    /// The permit was used before.
    #[error("the permit was already used")]
    Consumed,
}

impl PermitBounds {
    /// Returns the bounds that a payload declares.
    pub fn of(payload: &SigningPayload) -> Self {
        let proposal = payload.proposal();
        Self {
            outflows: proposal.outflows.clone(),
            inflows: proposal.inflows.clone(),
            allowances: proposal.allowances.clone(),
            fees: payload.fees(),
            worst_gas: payload.worst_gas(),
        }
    }
}

impl ActionPermit {
    /// Issues a permit for `payload` under the rules with the hash `policy`. Times are in milliseconds since the Unix
    /// epoch.
    pub fn issue(payload: &SigningPayload, policy: B256, now_millis: u64, ttl_millis: u64) -> Self {
        let bounds = PermitBounds::of(payload);
        Self {
            permit_id: PermitId::random(),
            simulation_hash: payload.binding_hash(policy, &bounds),
            expected_outcome: payload.proposal().expected_outcome.clone(),
            bounds,
            issued_at: now_millis,
            expires_at: now_millis.saturating_add(ttl_millis),
            expires: Instant::now() + std::time::Duration::from_millis(ttl_millis),
        }
    }

    /// Returns true if the permit has expired by either clock. It also counts as expired if the wall clock is before
    /// the time of issue, because its age is then unknown.
    pub fn expired(&self, now_millis: u64, now: Instant) -> bool {
        now_millis >= self.expires_at || now >= self.expires || now_millis < self.issued_at
    }

    /// Checks that the permit is valid for signing `payload` now, under the rules with the hash `policy`.
    ///
    /// # Errors
    /// [`PermitFault`] if the permit has expired, or if payload or rules have changed.
    pub fn verify(
        &self,
        payload: &SigningPayload,
        policy: B256,
        now_millis: u64,
        now: Instant,
    ) -> Result<(), PermitFault> {
        if self.expired(now_millis, now) {
            return Err(PermitFault::Expired);
        }
        let declared = PermitBounds::of(payload);
        let bound = payload.binding_hash(policy, &self.bounds);
        if self.bounds != declared
            || bound != self.simulation_hash
            || self.expected_outcome != payload.proposal().expected_outcome
        {
            return Err(PermitFault::Mismatch);
        }
        Ok(())
    }
}

/// Data that is recorded when a permit is used.
#[derive(Debug, Clone)]
pub(super) struct PermitUseRecord {
    pub permit_id: PermitId,
    pub simulation_hash: B256,
    pub call_id: CallId,
    pub golem_id: GolemId,
    pub chain_id: u64,
    pub account: Address,
    pub gas_usd: String,
    pub spent_usd: String,
}

/// Returns true if the permit was used, in this run or an earlier one.
pub(super) fn is_consumed(connection: &Connection, permit_id: PermitId) -> Result<bool, StoreError> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT 1 FROM safety_permit WHERE permit_id = ?1")?
        .query_row([permit_id.to_string()], |row| row.get(0))
        .optional()?;
    Ok(found.is_some())
}

/// Marks a permit as used. Returns `false` if it was used before.
pub(super) fn consume(
    transaction: &Transaction<'_>,
    used: &PermitUseRecord,
    reservation: i64,
    now: u64,
) -> Result<bool, StoreError> {
    let rows = transaction
        .prepare_cached(
            "INSERT INTO safety_permit
             (permit_id, simulation_hash, call_id, chain_id, account, reservation, gas_usd, spent_usd, consumed_at,
              golem_id, session)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, (SELECT id FROM temp.store_session)) ON CONFLICT (permit_id) DO NOTHING",
        )?
        .execute(params![
            used.permit_id.to_string(),
            used.simulation_hash.as_slice(),
            used.call_id.to_string(),
            number(used.chain_id)?,
            used.account.to_string(),
            reservation,
            used.gas_usd,
            used.spent_usd,
            number(now)?,
            used.golem_id.as_str(),
        ])?;
    Ok(rows == 1)
}

/// Position of a transaction in its permit's plan, and data for recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotedLeg {
    pub leg: usize,
    pub of: usize,
    /// True for the plan's main transaction.
    pub main: bool,
    /// True if it only revokes, cancels or refunds.
    pub only_revokes: bool,
}

/// Records a transaction that was signed under a permit.
pub(super) fn note_leg(
    transaction: &Transaction<'_>,
    permit_id: PermitId,
    noted: NotedLeg,
    hash: B256,
) -> Result<(), StoreError> {
    let NotedLeg { leg, of, main, only_revokes } = noted;
    transaction.execute(
        // The same bytes can be signed again if no endpoint took them under an earlier permit and the nonce was
        // released.
        "INSERT INTO safety_leg (permit_id, leg, of, hash, main, takes_back) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (hash) DO UPDATE SET permit_id = excluded.permit_id, leg = excluded.leg, of = excluded.of,
             main = excluded.main, takes_back = excluded.takes_back",
        params![permit_id.to_string(), number(leg as u64)?, number(of as u64)?, hash.as_slice(), main, only_revokes],
    )?;
    Ok(())
}

/// Records the replacement of a transaction that was signed under a permit, with the same nonce.
pub(super) fn replace_leg(
    transaction: &Transaction<'_>,
    permit_id: PermitId,
    leg: usize,
    hash: B256,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE safety_leg SET hash = ?3 WHERE permit_id = ?1 AND leg = ?2")?
        .execute(params![permit_id.to_string(), number(leg as u64)?, hash.as_slice()])?;
    Ok(())
}

/// Makes `new` the transaction of the plan that `old` belongs to. Returns the plan's permit; `None` if there is none.
pub(super) fn replace_hash(
    transaction: &Transaction<'_>,
    old: B256,
    new: B256,
) -> Result<Option<PermitId>, StoreError> {
    let plan: Option<String> = transaction
        .prepare_cached("UPDATE safety_leg SET hash = ?2 WHERE hash = ?1 RETURNING permit_id")?
        .query_row([old.as_slice(), new.as_slice()], |row| row.get(0))
        .optional()?;
    let garbled = |_| StoreError::Corrupt("a used permit has no readable id".to_owned());
    plan.map(|plan| plan.parse().map_err(garbled)).transpose()
}

/// Returns true if a transaction was stored as one that only revokes. The calldata decides; see
/// [`crate::revocation::is_revoking_call`].
pub(super) fn is_noted_as_revoking(connection: &Connection, hash: B256) -> Result<bool, StoreError> {
    let noted: Option<bool> = connection
        .prepare_cached("SELECT takes_back FROM safety_leg WHERE hash = ?1")?
        .query_row([hash.as_slice()], |row| row.get(0))
        .optional()?;
    Ok(noted.unwrap_or(false))
}

/// Returns true if the permit's action has a recorded end.
pub(super) fn has_ended(connection: &Connection, permit_id: PermitId) -> Result<bool, StoreError> {
    let found: Option<bool> = connection
        .prepare_cached("SELECT ended IS NOT NULL FROM safety_permit WHERE permit_id = ?1")?
        .query_row([permit_id.to_string()], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(false))
}

/// Returns the permit of a transaction and its reservation, if the permit has a recorded end; `None` otherwise.
pub(super) fn ended_with(connection: &Connection, hash: B256) -> Result<Option<(PermitId, i64)>, StoreError> {
    let found: Option<(String, i64)> = connection
        .prepare_cached(
            "SELECT permit_id, reservation FROM safety_leg JOIN safety_permit USING (permit_id)
             WHERE hash = ?1 AND ended IS NOT NULL",
        )?
        .query_row([hash.as_slice()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let garbled = |_| StoreError::Corrupt("a used permit has no readable id".to_owned());
    found.map(|(permit_id, reservation)| Ok((permit_id.parse().map_err(garbled)?, reservation))).transpose()
}

/// Clears the recorded end of a permit: a transaction of it was included after all.
pub(super) fn reopen(transaction: &Transaction<'_>, permit_id: PermitId, reservation: i64) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE safety_permit SET ended = NULL, reservation = ?2 WHERE permit_id = ?1")?
        .execute(params![permit_id.to_string(), reservation])?;
    Ok(())
}

/// Records how the permit's action ended.
pub(super) fn note_end(transaction: &Transaction<'_>, permit_id: PermitId, ended: &str) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE safety_permit SET ended = ?2 WHERE permit_id = ?1")?
        .execute(params![permit_id.to_string(), ended])?;
    Ok(())
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Query(format!("{value} is too large for the database")))
}
