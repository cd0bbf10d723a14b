//! Rows of proposals in the ledger. A row is written with the first signature, in one transaction. Its reservation is
//! settled in the transaction that records its end.

use std::collections::BTreeMap;
use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use rusqlite::{Connection, Row, Transaction, params};

use super::stored::StoredProposal;
use crate::custody::SafeRefusal;
use crate::custody::safe::{SafeSignatures, SafeTx};
use crate::policy_engine::{ActionEnd, PolicyEngine, Reservation, ReserveError};
use crate::signing_payload::SigningPayload;
use bardo_base::id::{CallId, GolemId};
use bardo_base::units::Usd;
use bardo_store::StoreError;

/// Table of proposals.
pub(crate) const TABLE: &str = "
    CREATE TABLE safe_proposal (
        id BLOB PRIMARY KEY,
        chain_id INTEGER NOT NULL,
        safe TEXT NOT NULL,
        nonce TEXT NOT NULL,
        threshold TEXT NOT NULL,
        proposal TEXT NOT NULL,
        signatures TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'executing', 'rejected', 'executed', 'partly', 'superseded',
            'withdrawn')),
        shown INTEGER NOT NULL CHECK (shown IN (0, 1)),
        reservation INTEGER NOT NULL,
        spent_usd TEXT NOT NULL,
        from_block INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        golem_id TEXT NOT NULL,
        tx BLOB,
        created_at INTEGER NOT NULL,
        ended_at INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX safe_proposal_waiting ON safe_proposal (chain_id, safe) WHERE state IN ('waiting', 'executing');
";

/// State of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SafeProposalState {
    /// Signatures are collected, or there are enough and nobody has executed it.
    Waiting,
    /// A transaction of this ledger executes it.
    Executing,
    /// The operator has rejected it. Its signatures may be with other owners, so it can still be executed, until the Safe has
    /// used its number.
    Rejected,
    /// The Safe has executed all of it.
    Executed,
    /// The Safe has executed some of its transactions, and others in place of the rest.
    Partly,
    /// The Safe has executed others in place of its transactions.
    Superseded,
    /// The operator has rejected it before its signature had left the ledger.
    Withdrawn,
}

impl SafeProposalState {
    /// All states, for parsing.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Executing,
        Self::Rejected,
        Self::Executed,
        Self::Partly,
        Self::Superseded,
        Self::Withdrawn,
    ];

    /// Returns the name that the database contains.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Executing => "executing",
            Self::Rejected => "rejected",
            Self::Executed => "executed",
            Self::Partly => "partly",
            Self::Superseded => "superseded",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Returns true if the Safe could still execute it, so that its spending is reserved.
    pub const fn is_live(self) -> bool {
        match self {
            Self::Waiting | Self::Executing | Self::Rejected => true,
            Self::Executed | Self::Partly | Self::Superseded | Self::Withdrawn => false,
        }
    }
}

impl fmt::Display for SafeProposalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Proposal with its stored state.
#[derive(Debug, Clone, PartialEq)]
pub struct SafeProposalRecord {
    /// Hash of its first transaction.
    pub id: B256,
    /// Number of its first transaction.
    pub nonce: U256,
    /// Number of owners that had to agree when it was proposed.
    pub threshold: U256,
    /// The proposal itself.
    pub proposal: StoredProposal,
    /// Signatures by owner, as they were verified when they were added.
    pub signatures: BTreeMap<Address, Vec<Bytes>>,
    /// State of the proposal.
    pub state: SafeProposalState,
    /// True if a signature may be outside this ledger.
    pub shown: bool,
    /// Reservation in the ledger.
    pub reservation: Reservation,
    /// Dollars that are reserved.
    pub spent: Usd,
    /// Block after which the Safe can have executed it.
    pub from_block: u64,
    /// Tool call that it belongs to.
    pub call_id: CallId,
    /// Golem that proposed it, or the operator.
    pub golem_id: GolemId,
    /// Transaction that executed it.
    pub tx: Option<B256>,
    /// Time of the first signature, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of its end; `None` before it.
    pub ended_at: Option<u64>,
}

impl SafeProposalRecord {
    /// Returns the Safe's transactions, computed from the proposal.
    pub fn transactions(&self) -> Vec<SafeTx> {
        let (chain_id, safe) = (self.proposal.chain_id, self.proposal.account);
        let calls = self.proposal.calls().enumerate();
        calls
            .map(|(index, (to, value, data))| {
                let nonce = self.nonce.saturating_add(U256::from(index));
                SafeTx { chain_id, safe, to, value, data: data.clone(), nonce }
            })
            .collect()
    }

    /// Returns the hashes of the Safe's transactions.
    pub fn hashes(&self) -> Vec<B256> {
        self.transactions().iter().map(SafeTx::hash).collect()
    }

    /// Says what was signed and what is missing, in one sentence.
    pub fn explanation(&self) -> String {
        let (signed, id) = (self.signatures.len(), self.id);
        format!(
            "Proposed to the other owners of the Safe, with {signed} of {} signatures; nothing was sent. `bardo safe export \
             {id}` writes the file for them",
            self.threshold
        )
    }

    /// Returns the signatures of these owners, verified again. A row that was changed loses what does not verify.
    pub fn verified(&self, owners: &[Address]) -> SafeSignatures {
        let (hashes, mut verified) = (self.hashes(), SafeSignatures::default());
        for (owner, signatures) in &self.signatures {
            if owners.contains(owner) {
                // A wrong one counts as missing.
                let _added: Result<Address, &str> = verified.add(&hashes, &[*owner], signatures);
            }
        }
        verified
    }
}

/// Returns a proposal; `None` if there is none with this id.
///
/// # Errors
/// The database's failure.
pub fn find(connection: &Connection, id: B256) -> Result<Option<SafeProposalRecord>, StoreError> {
    Ok(select(connection, "id = ?1", params![id.as_slice()])?.into_iter().next())
}

/// Returns every proposal in this ledger, the oldest first.
///
/// # Errors
/// The database's failure.
pub fn every(connection: &Connection) -> Result<Vec<SafeProposalRecord>, StoreError> {
    select(connection, "1", params![])
}

/// Returns the proposal that waits or is being executed for a Safe.
fn waiting_of(connection: &Connection, chain_id: u64, safe: Address) -> Result<Option<SafeProposalRecord>, StoreError> {
    let of = params![number(chain_id)?, safe.to_string()];
    Ok(select(connection, "chain_id = ?1 AND safe = ?2 AND state IN ('waiting', 'executing')", of)?.into_iter().next())
}

/// Reason for which an action of a Safe reserves nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeOverError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] ReserveError),
    #[error(transparent)]
    Safe(#[from] SafeRefusal),
}

/// Returns the proposal that a payload signs again or executes; `None` for a new one, and for any other action.
///
/// # Errors
/// [`TakeOverError::Safe`] if another proposal of the Safe waits, or if this one cannot be signed or executed now.
pub(crate) fn continued(
    connection: &Connection,
    payload: &SigningPayload,
) -> Result<Option<SafeProposalRecord>, TakeOverError> {
    let (Some(plan), Some(first)) = (payload.safe(), SafeTx::of_leg(payload, 0)) else { return Ok(None) };
    let id = first.hash();
    if let Some(other) = waiting_of(connection, first.chain_id, first.safe)?.filter(|other| other.id != id) {
        return Err(SafeRefusal::Waiting(other.id).into());
    }
    let known = find(connection, id)?;
    let may = match known.as_ref().map(|known| known.state) {
        None => !plan.executes,
        Some(SafeProposalState::Waiting) => true,
        // What was rejected may be proposed again.
        Some(SafeProposalState::Rejected | SafeProposalState::Withdrawn) => !plan.executes,
        Some(
            SafeProposalState::Executing
            | SafeProposalState::Executed
            | SafeProposalState::Partly
            | SafeProposalState::Superseded,
        ) => false,
    };
    match may {
        true => Ok(known),
        false => {
            let state = known.map_or_else(|| "not in this ledger".to_owned(), |known| known.state.to_string());
            Err(SafeRefusal::State { id, state }.into())
        }
    }
}

/// Releases the reservation of the proposal that a payload continues, so that it is not counted twice. Returns its id; `None`
/// for a new proposal, and for any other action. The caller reserves in the same transaction and then calls [`taken_over`].
///
/// # Errors
/// As [`continued`].
pub(crate) fn take_over(
    transaction: &Transaction<'_>,
    rules: &dyn PolicyEngine,
    payload: &SigningPayload,
    now: u64,
) -> Result<Option<B256>, TakeOverError> {
    let Some(known) = continued(transaction, payload)? else { return Ok(None) };
    if known.state.is_live() {
        rules.settle(transaction, now, known.reservation, ActionEnd::Withdrawn)?;
    }
    Ok(Some(known.id))
}

/// Records the reservation that replaces the one that [`take_over`] released.
pub(crate) fn taken_over(
    transaction: &Transaction<'_>,
    id: B256,
    reservation: Reservation,
    executes: bool,
) -> Result<(), StoreError> {
    let state = if executes { SafeProposalState::Executing } else { SafeProposalState::Waiting };
    transaction.execute(
        "UPDATE safe_proposal SET reservation = ?2, state = ?3, ended_at = NULL WHERE id = ?1",
        params![id.as_slice(), reservation.0, state.as_str()],
    )?;
    Ok(())
}

/// Records what the end of an action means for the proposal whose reservation it had: it is executed, or it waits again, with
/// its spending reserved again.
pub(crate) fn after_action(
    transaction: &Transaction<'_>,
    rules: &dyn PolicyEngine,
    (reservation, end): (Reservation, ActionEnd),
    now: u64,
) -> Result<(), ReserveError> {
    let of = params![reservation.0];
    let found = select(transaction, "reservation = ?1 AND state IN ('waiting', 'executing')", of)?;
    let Some(record) = found.into_iter().next() else { return Ok(()) };
    match end {
        ActionEnd::Done { .. } if record.state == SafeProposalState::Executing => {
            end_as(transaction, record.id, (SafeProposalState::Executed, None), now)?;
        }
        ActionEnd::Unclear => {}
        ActionEnd::Done { .. }
        | ActionEnd::Partly { .. }
        | ActionEnd::MaybeSigned { .. }
        | ActionEnd::Reverted { .. }
        | ActionEnd::NotSent
        | ActionEnd::Withdrawn => {
            let again = rules.reserve_again(transaction, now, reservation)?;
            taken_over(transaction, record.id, again, false)?;
        }
    }
    Ok(())
}

/// Records the end of a proposal, once. Returns false if it had ended.
pub(crate) fn end_as(
    transaction: &Transaction<'_>,
    id: B256,
    (state, tx): (SafeProposalState, Option<B256>),
    now: u64,
) -> Result<bool, StoreError> {
    let rows = transaction.execute(
        "UPDATE safe_proposal SET state = ?2, tx = coalesce(?3, tx), ended_at = ?4
         WHERE id = ?1 AND state IN ('waiting', 'executing', 'rejected')",
        params![id.as_slice(), state.as_str(), tx.as_ref().map(B256::as_slice), number(now)?],
    )?;
    Ok(rows == 1)
}

/// Records that the operator has rejected a proposal that waits. Returns false if it does not wait.
pub(crate) fn reject(transaction: &Transaction<'_>, id: B256) -> Result<bool, StoreError> {
    let rows = transaction
        .execute("UPDATE safe_proposal SET state = 'rejected' WHERE id = ?1 AND state = 'waiting'", [id.as_slice()])?;
    Ok(rows == 1)
}

/// Records that signatures of a proposal leave the ledger.
pub(crate) fn note_shown(transaction: &Transaction<'_>, id: B256) -> Result<(), StoreError> {
    transaction.execute("UPDATE safe_proposal SET shown = 1 WHERE id = ?1", [id.as_slice()])?;
    Ok(())
}

/// Stores a new proposal, or adds the signatures of a known one. Both must have been verified.
pub(crate) fn store(transaction: &Transaction<'_>, record: &SafeProposalRecord) -> Result<(), StoreError> {
    let unwritten = |error: serde_json::Error| StoreError::Query(error.to_string());
    let mut signatures = find(transaction, record.id)?.map(|known| known.signatures).unwrap_or_default();
    signatures.extend(record.signatures.clone());
    transaction.execute(
        "INSERT INTO safe_proposal (id, chain_id, safe, nonce, threshold, proposal, signatures, state, shown, reservation,
             spent_usd, from_block, call_id, golem_id, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT (id) DO UPDATE SET signatures = excluded.signatures, shown = max(shown, excluded.shown),
             spent_usd = excluded.spent_usd",
        params![
            record.id.as_slice(),
            number(record.proposal.chain_id)?,
            record.proposal.account.to_string(),
            record.nonce.to_string(),
            record.threshold.to_string(),
            serde_json::to_string(&record.proposal).map_err(unwritten)?,
            serde_json::to_string(&signatures).map_err(unwritten)?,
            record.state.as_str(),
            record.shown,
            record.reservation.0,
            record.spent.to_string(),
            number(record.from_block)?,
            record.call_id.to_string(),
            record.golem_id.as_str(),
            number(record.created_at)?,
        ],
    )?;
    Ok(())
}

fn select(
    connection: &Connection,
    condition: &str,
    of: &[&dyn rusqlite::ToSql],
) -> Result<Vec<SafeProposalRecord>, StoreError> {
    let mut asked = connection.prepare(&format!(
        "SELECT id, nonce, threshold, proposal, signatures, state, shown, reservation, spent_usd, from_block, call_id,
                golem_id, tx, created_at, ended_at
         FROM safe_proposal WHERE {condition} ORDER BY created_at, id"
    ))?;
    let mut rows = asked.query(of)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(row)?);
    }
    Ok(found)
}

fn record(row: &Row<'_>) -> Result<SafeProposalRecord, StoreError> {
    let garbled = |what: &str| StoreError::Corrupt(format!("a proposal of a Safe has no readable {what}"));
    let text = |at: usize| row.get::<_, String>(at);
    let hash = |bytes: Vec<u8>| B256::try_from(bytes.as_slice()).map_err(|_| garbled("hash"));
    let time = |at: i64| u64::try_from(at).map_err(|_| garbled("time"));
    let state = text(5)?;
    let proposal: StoredProposal = serde_json::from_str(&text(3)?).map_err(|_| garbled("content"))?;
    let record = SafeProposalRecord {
        id: hash(row.get(0)?)?,
        nonce: text(1)?.parse().map_err(|_| garbled("number"))?,
        threshold: text(2)?.parse().map_err(|_| garbled("number"))?,
        proposal,
        signatures: serde_json::from_str(&text(4)?).map_err(|_| garbled("signatures"))?,
        state: SafeProposalState::ALL.into_iter().find(|one| one.as_str() == state).ok_or_else(|| garbled("state"))?,
        shown: row.get(6)?,
        reservation: Reservation(row.get(7)?),
        spent: text(8)?.parse().map_err(|_| garbled("value"))?,
        from_block: time(row.get(9)?)?,
        call_id: text(10)?.parse().map_err(|_| garbled("call"))?,
        golem_id: GolemId::stored(&text(11)?).map_err(|_| garbled("Golem"))?,
        tx: row.get::<_, Option<Vec<u8>>>(12)?.map(hash).transpose()?,
        created_at: time(row.get(13)?)?,
        ended_at: row.get::<_, Option<i64>>(14)?.map(time).transpose()?,
    };
    // The id is the hash of what the row says: a row that was changed is none.
    match record.hashes().first() == Some(&record.id) {
        true => Ok(record),
        false => Err(garbled("first transaction")),
    }
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Query(format!("{value} is too large for the database")))
}
