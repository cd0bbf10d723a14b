//! Replacement of a waiting transaction on the operator's decision: with higher fees, or by a transaction that only
//! uses its nonce.
//!
//! A row of the ledger is not believed. Sender, chain, nonce and hash are computed from the signed bytes, and must be
//! what the row says. The replacement's content is derived from those bytes.

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256, Bytes, U256};
use rusqlite::{Connection, Transaction};

use super::record::{
    RecordError, SendPermit, TxRecord, ensure_raised, entry, family, insert_rival, load, same, store_replacement,
};
use super::{SendOutcome, SenderError, TxFees, TxSender, cancellation_gas};
use crate::signed::SignedTransaction;
use bardo_base::id::CallId;

/// Call of a waiting transaction, as its signed bytes contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCall {
    /// Contract or account that is called.
    pub to: Address,
    /// Value to transfer, in wei.
    pub value: U256,
    /// Calldata of the transaction, with its signatures.
    pub data: Bytes,
    /// Gas limit of the transaction.
    pub gas_limit: u64,
}

impl TxRecord {
    /// Call of the transaction, from its signed bytes.
    ///
    /// # Errors
    /// [`RecordError::NotReplaceable`] if the bytes are not of the one form that Bardo signs.
    pub fn call(&self) -> Result<SignedCall, RecordError> {
        let transaction = self.signed.transaction();
        let refuse = |why| RecordError::NotReplaceable { hash: self.hash(), why };
        let plain = transaction.as_eip1559().ok_or_else(|| refuse("it is not an EIP-1559 transaction"))?;
        if !plain.tx().access_list.is_empty() {
            return Err(refuse("it has an access list"));
        }
        let to = transaction.to().ok_or_else(|| refuse("it creates a contract"))?;
        let (value, data) = (transaction.value(), transaction.input().clone());
        Ok(SignedCall { to, value, data, gas_limit: transaction.gas_limit() })
    }

    /// Call that only uses the transaction's nonce: a transfer of 0 wei to its own sender.
    pub fn cancellation(&self) -> SignedCall {
        let gas_limit = cancellation_gas(self.signed.chain_id());
        SignedCall { to: self.signed.from(), value: U256::ZERO, data: Bytes::new(), gas_limit }
    }

    /// Returns true if the transaction only uses its nonce.
    pub fn only_uses_nonce(&self) -> bool {
        self.call().is_ok_and(|call| call.to == self.signed.from() && call.value.is_zero() && call.data.is_empty())
    }
}

/// Loads a waiting transaction of `account` and compares its row with its signed bytes.
///
/// # Errors
/// [`RecordError::Mismatch`] if the row contradicts the bytes or is another account's, [`RecordError::Ended`] if the
/// transaction no longer waits or a later one with its nonce does.
pub fn waiting_of(
    connection: &Connection,
    hash: B256,
    chain_id: u64,
    account: Address,
) -> Result<TxRecord, RecordError> {
    let record = load(connection, hash)?.ok_or(RecordError::Unknown(hash))?;
    let row = entry(connection, hash)?;
    same("the hash", record.hash(), hash)?;
    same("the chain", record.signed.chain_id(), chain_id)?;
    same("the sender", record.signed.from(), account)?;
    same("the nonce", record.signed.nonce(), row.nonce)?;
    same("the row's chain", row.chain_id, chain_id)?;
    same("the row's account", row.account, account)?;
    let ended = RecordError::Ended { hash, state: record.state };
    if record.settled_at.is_some() || !record.state.may_be_sent() {
        return Err(ended);
    }
    let all = family(connection, chain_id, account, row.nonce)?;
    let newest = all.iter().rfind(|one| !one.settled && (one.state.may_be_sent() || one.state.is_mined()));
    if newest.is_some_and(|newest| newest.hash != hash) {
        return Err(ended);
    }
    Ok(record)
}

/// Stores a signed transaction that takes the nonce of the waiting `old` for a plan of its own. The old one counts as
/// replaced once the new one has been sent. If either is included, the other's plan never happens.
///
/// # Errors
/// As [`waiting_of`], and [`RecordError::TooCheap`] if nodes would refuse it.
pub fn store_rival(
    transaction: &Transaction<'_>,
    old: B256,
    signed: &SignedTransaction,
    call_id: CallId,
    now: u64,
) -> Result<SendPermit, RecordError> {
    let old = waiting_of(transaction, old, signed.chain_id(), signed.from())?;
    same("the nonce", signed.nonce(), old.signed.nonce())?;
    ensure_raised(&old, signed)?;
    insert_rival(transaction, signed, old.route, call_id, now)
}

/// Stores a signed repetition of the waiting `old` with higher fees, for the same plan.
///
/// # Errors
/// As [`waiting_of`], [`RecordError::Mismatch`] for another call, and [`RecordError::TooCheap`] if nodes would refuse
/// it.
pub fn store_repetition(
    transaction: &Transaction<'_>,
    old: B256,
    signed: &SignedTransaction,
    now: u64,
) -> Result<SendPermit, RecordError> {
    let old = waiting_of(transaction, old, signed.chain_id(), signed.from())?;
    let call = old.call()?;
    let new = TxRecord { signed: signed.clone(), ..old.clone() }.call()?;
    same("the target", new.to, call.to)?;
    same("the value", new.value, call.value)?;
    same("the calldata", new.data, call.data)?;
    same("the gas limit", new.gas_limit, call.gas_limit)?;
    store_replacement(transaction, old.hash(), signed, now)
}

impl TxSender {
    /// Loads a waiting transaction of `account` on this chain and compares its row with its signed bytes.
    ///
    /// # Errors
    /// [`SenderError::Record`], as for [`waiting_of`].
    pub fn waiting_of(&self, hash: B256, account: Address) -> Result<TxRecord, SenderError> {
        let chain_id = self.chain_id();
        Ok(self.0.store.read(|connection| waiting_of(connection, hash, chain_id, account))?)
    }

    /// Fees for a replacement of a transaction with the fees `old`, within `cap`: enough for nodes to accept it and for
    /// the next blocks.
    ///
    /// # Errors
    /// [`SenderError::Fees`] if `cap` is too low, or the fees of the chain cannot be read.
    pub async fn replacement_fees(&self, old: TxFees, cap: TxFees) -> Result<TxFees, SenderError> {
        Ok(self.fee_quote().await?.outbidding(old, cap)?)
    }

    /// Sends a waiting transaction's signed bytes to every endpoint of the chain again, or to the relay if it is
    /// private. Returns the answers that count: the best of all endpoints.
    ///
    /// # Errors
    /// As [`Self::waiting_of`] and [`Self::resend`].
    pub async fn rebroadcast(&self, hash: B256, account: Address) -> Result<SendOutcome, SenderError> {
        let record = self.waiting_of(hash, account)?;
        if record.route == super::SendRoute::Public {
            let raw = [Bytes::clone(record.signed.raw())];
            // The answers are recorded by the send below; an endpoint that refuses does not matter here.
            let _answers = self.0.client.ask_each::<B256>("eth_sendRawTransaction", raw).await;
        }
        self.resend(hash).await
    }
}
