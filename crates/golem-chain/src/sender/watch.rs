//! Tracking of sent transactions: receipts, confirmations, and the use of a nonce by another transaction.
//!
//! All transactions signed for one nonce are checked together, since at most one of them can be included. A replacement
//! counts for the transaction that it replaces. A transaction whose nonce was released belongs to another plan. If a
//! block includes it after all, the transactions signed with that nonce since then can never be included.

use std::pin::pin;
use std::time::Duration;

use alloy::primitives::{Address, B256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionReceipt;
use futures::future::join_all;
use tokio::time::Instant;

use super::fault::FaultTreatment;
use super::lane;
use super::nonce_use::NonceUse;
use super::record::{
    RecordError, SendRoute, TxEntry, TxRecord, advance, are_kin, entry, family, mark_late_inclusion, missing, place,
    sendable, settle,
};
use super::relay::RelayStatus;
use super::send::SendOutcome;
use super::state::{SendEvent, SendState};
use super::{SenderError, TxSender};
use crate::provider::{ClientBackend, ProviderError};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::text::SafeText;

/// Time for which an endpoint may lack the receipt of an included transaction, in milliseconds: nodes index receipts
/// shortly after the block.
const RECEIPT_GRACE: u64 = 5_000;
/// Time after which such a contradiction is dropped, in milliseconds.
const CONTRADICTION_EXPIRY: u64 = 3_600_000;

/// Returns true if two receipts of one transaction agree on position, outcome and cost.
fn receipts_agree(one: &TransactionReceipt, other: &TransactionReceipt) -> bool {
    let key = |receipt: &TransactionReceipt| {
        (receipt.block_hash, receipt.from, receipt.status(), receipt.gas_used, receipt.effective_gas_price)
    };
    key(one) == key(other)
}

/// Returns true if an endpoint has the receipt's block on its chain, with the transaction in it.
async fn has_in_block(provider: &DynProvider, hash: B256, receipt: &TransactionReceipt) -> bool {
    let (Some(number), Some(block)) = (receipt.block_number, receipt.block_hash) else { return false };
    let found = provider.get_block_by_number(number.into()).await.ok().flatten();
    found.is_some_and(|found| found.header.hash == block && found.transactions.hashes().any(|one| one == hash))
}

/// Timeout and resend permission of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitRules {
    /// Timeout after which the current state is returned.
    pub patience: Duration,
    /// True to send transactions again that are in no block. False during a halt.
    pub resend: bool,
}

/// Current state of a transaction and its nonce.
#[derive(Debug, Clone)]
pub struct TxStatus {
    /// Record of the requested transaction.
    pub record: TxRecord,
    /// The included transaction: the requested one or its replacement.
    pub mined: Option<MinedTx>,
    /// True if the outcome is final.
    pub settled: bool,
    /// Transaction of another plan that is included with the same nonce, if one of the two is a cancellation: the
    /// operator's decision, and no failure.
    pub displaced_by: Option<B256>,
    /// Status at the private relay; `None` if it was not queried.
    pub relay: Option<RelayStatus>,
    /// Result of the last resend during a wait.
    pub resent: Option<SendOutcome>,
}

/// Receipts of the transactions signed for one nonce.
enum NonceReceipts {
    /// One transaction is in a block of the chain.
    InBlock(Box<MinedTx>),
    /// One has a receipt from a block that is no longer part of the chain.
    Leaving,
    /// None has a receipt.
    None,
}

/// A transaction in a block.
#[derive(Debug, Clone)]
pub struct MinedTx {
    /// The transaction hash.
    pub hash: B256,
    /// Its receipt with logs.
    pub receipt: TransactionReceipt,
    /// Number of confirmations, including its own block.
    pub confirmations: u64,
}

impl TxSender {
    /// Polls the chain once and records changes.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if the chain does not answer; nothing has changed then.
    pub async fn poll(&self, hash: B256) -> Result<TxStatus, SenderError> {
        let TxEntry { chain_id, account, nonce, .. } = self.0.store.read(|connection| entry(connection, hash))?;
        if chain_id != self.chain_id() {
            return Err(SenderError::OtherChain { hash, found: chain_id, own: self.chain_id() });
        }
        let all = self.0.store.read(|connection| family(connection, chain_id, account, nonce))?;
        let (taken, missing) = match self.find(&all, account).await? {
            NonceReceipts::InBlock(mined) => {
                self.note_missing(&all, None).await?;
                let settled = mined.confirmations >= self.0.rules.confirmations;
                failpoint::reach(Failpoint::Seen);
                self.record_mined(&mined, chain_id, account, nonce, settled).await?;
                let record = self.record(hash)?;
                if are_kin(&all, hash, mined.hash) {
                    let mined = Some(*mined);
                    return Ok(TxStatus { record, mined, settled, displaced_by: None, relay: None, resent: None });
                }
                // Another plan's transaction is included, so the nonce of this one is used.
                let cancels = record.only_uses_nonce() || self.record(mined.hash)?.only_uses_nonce();
                let (settled, displaced_by) = (record.settled_at.is_some(), cancels.then_some(mined.hash));
                return Ok(TxStatus { record, mined: None, settled, displaced_by, relay: None, resent: None });
            }
            // It may be in another block that used the nonce; the next poll shows.
            NonceReceipts::Leaving => (false, None),
            NonceReceipts::None => match self.nonce_use_block(account, nonce).await? {
                None => (false, None),
                // The nonce was read after the receipts, so one of our transactions may have been included in between.
                Some(by) => match self.find(&all, account).await? {
                    NonceReceipts::InBlock(_) | NonceReceipts::Leaving => return Box::pin(self.poll(hash)).await,
                    NonceReceipts::None => match self.spent_by_another(&all, account, nonce, by).await? {
                        NonceUse::ByOther => (true, None),
                        NonceUse::Unknown => (false, None),
                        NonceUse::StatesPruned(spent) => {
                            let (since, long_ago) = self.missing(&all, spent, by).await?;
                            (long_ago && self.is_still_unknown(&all, account, nonce, by).await?, since)
                        }
                    },
                },
            },
        };
        self.note_missing(&all, missing).await?;
        self.record_absent(chain_id, account, nonce, taken).await?;
        let record = self.record(hash)?;
        let settled = record.settled_at.is_some();
        let relay = match (&self.0.relay, record.route) {
            (Some(relay), SendRoute::Private) if !settled => relay.status(hash).await?,
            _ => None,
        };
        Ok(TxStatus { record, mined: None, settled, displaced_by: None, relay, resent: None })
    }

    /// Polls until the outcome is final or the timeout ends. Failed chain requests are repeated until then.
    ///
    /// # Errors
    /// [`SenderError`] if the ledger fails, or if the chain's last answer before the timeout was an error.
    pub async fn wait(&self, hash: B256, rules: WaitRules) -> Result<TxStatus, SenderError> {
        self.wait_while(hash, rules.patience, || rules.resend).await
    }

    /// Like [`Self::wait`], with a resend permission that is evaluated before each resend, since a halt may begin
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn wait_while(
        &self,
        hash: B256,
        patience: Duration,
        may_send: impl Fn() -> bool + Send + Sync,
    ) -> Result<TxStatus, SenderError> {
        let mut head = match self.0.client.backing() {
            ClientBackend::Devnet(devnet) => Some(devnet.head()),
            ClientBackend::Endpoints(_) => None,
        };
        let deadline = Instant::now() + patience;
        let (mut last_sent, mut pause_unclear) = (Instant::now(), self.0.rules.resend_unclear);
        let mut resent = None;
        loop {
            if let Some(head) = &mut head {
                head.mark_unchanged();
            }
            let polled = match self.poll(hash).await {
                Err(error @ (SenderError::Provider(_) | SenderError::ReceiptDisputed { .. })) => Err(error),
                other => Ok(other?),
            };
            let now = Instant::now();
            if let Ok(status) = &polled {
                let needs_higher_fee =
                    resent.as_ref().is_some_and(|sent: &SendOutcome| sent.treatment == FaultTreatment::Outbid);
                if status.settled || now >= deadline || needs_higher_fee {
                    return Ok(TxStatus { resent, ..status.clone() });
                }
                let sendable = match (&status.mined, status.record.state) {
                    (Some(_), _) => None,
                    (None, SendState::Dropped | SendState::Replaced) => {
                        self.0.store.read(|connection| sendable(connection, hash))?.map(|record| record.state)
                    }
                    (None, state) => Some(state).filter(|state| state.may_be_sent()),
                };
                // A transaction that an endpoint accepted is resent later. If none has acknowledged it, even the first
                // send may have been lost.
                let pause = match sendable {
                    Some(SendState::Stored | SendState::Unclear) => pause_unclear.min(self.0.rules.resend_after),
                    Some(
                        SendState::Sent
                        | SendState::Included
                        | SendState::Reverted
                        | SendState::Replaced
                        | SendState::Dropped,
                    )
                    | None => self.0.rules.resend_after,
                };
                if sendable.is_some() && now >= last_sent + pause && may_send() {
                    resent = Some(self.resend(hash).await?);
                    last_sent = Instant::now();
                    pause_unclear = pause_unclear.saturating_mul(2);
                }
            }
            if now >= deadline {
                return Err(polled.err().unwrap_or(RecordError::Unknown(hash).into()));
            }
            let pause = self.0.rules.poll.min(deadline.saturating_duration_since(now));
            match &mut head {
                // The devnet signals new blocks; the pause is for a chain whose clock is stopped.
                Some(head) => {
                    let _either = futures::future::select(self.0.clock.pause(pause), pin!(head.changed())).await;
                }
                None => self.0.clock.pause(pause).await,
            }
        }
    }

    /// Repeats the search after one poll interval; true if the states are still unavailable. Two polls may be an hour
    /// apart and both meet a temporary error, so releasing funds needs another confirmation.
    async fn is_still_unknown(
        &self,
        ours: &[TxEntry],
        account: Address,
        nonce: u64,
        by: u64,
    ) -> Result<bool, SenderError> {
        self.0.clock.pause(self.0.rules.poll).await;
        Ok(matches!(self.spent_by_another(ours, account, nonce, by).await?, NonceUse::StatesPruned(_)))
    }

    /// Finds the transaction among `all` that is in a block of the chain.
    async fn find(&self, all: &[TxEntry], account: Address) -> Result<NonceReceipts, SenderError> {
        let provider = self.0.client.provider();
        let mut leaving = false;
        for TxEntry { hash, .. } in all.iter().copied() {
            let Some(receipt) = self.receipt(hash).await? else { continue };
            let invalid = |what| SenderError::InvalidAnswer { hash, what };
            if receipt.transaction_hash != hash || receipt.from != account {
                return Err(invalid("the receipt is another transaction's"));
            }
            let (Some(number), Some(block)) = (receipt.block_number, receipt.block_hash) else {
                return Err(invalid("the receipt has no block"));
            };
            let confirmations = if self.0.rules.confirmations <= 1 {
                1
            } else {
                let at = provider.get_block_by_number(number.into()).await.map_err(ProviderError::from)?;
                if at.is_none_or(|at| at.header.hash != block) {
                    // The block has just left the chain, and the receipt with it.
                    leaving = true;
                    continue;
                }
                let head = provider.get_block_number().await.map_err(ProviderError::from)?;
                head.saturating_sub(number).saturating_add(1)
            };
            return Ok(NonceReceipts::InBlock(Box::new(MinedTx { hash, receipt, confirmations })));
        }
        Ok(if leaving { NonceReceipts::Leaving } else { NonceReceipts::None })
    }

    /// Receipt of a transaction, by all endpoints, or by a majority if they contradict each other.
    async fn receipt(&self, hash: B256) -> Result<Option<TransactionReceipt>, SenderError> {
        let client = &self.0.client;
        for provider in [client.provider(), client.agreed()] {
            match provider.get_transaction_receipt(hash).await.map_err(ProviderError::from) {
                Err(ProviderError::Disagreement { .. }) => {}
                result => return Ok(result?),
            }
        }
        self.receipt_without_majority(hash).await
    }

    /// Receipt of a transaction that some endpoints have and others lack, without a majority. An endpoint that has the
    /// transaction in the receipt's block but no receipt for [`RECEIPT_GRACE`] contradicts itself and is ignored.
    async fn receipt_without_majority(&self, hash: B256) -> Result<Option<TransactionReceipt>, SenderError> {
        const METHOD: &str = "eth_getTransactionReceipt";
        let alone = self.0.client.each_alone();
        let requests = alone.iter().map(|(_, client)| client.provider().get_transaction_receipt(hash));
        let answers = join_all(requests.collect::<Vec<_>>()).await;
        let mut with: Option<(&SafeText, TransactionReceipt)> = None;
        let mut without = Vec::new();
        for ((label, client), answer) in alone.iter().zip(answers) {
            match (answer.map_err(ProviderError::from)?, &with) {
                (None, _) => without.push((label, client)),
                (Some(receipt), None) => with = Some((label, receipt)),
                (Some(receipt), Some((first, known))) if !receipts_agree(known, &receipt) => {
                    let (first, second) = (SafeText::clone(first), label.clone());
                    return Err(
                        ProviderError::Disagreement { method: SafeText::clean(METHOD, 40), first, second }.into()
                    );
                }
                (Some(_), Some(_)) => {}
            }
        }
        let Some((by, receipt)) = with else { return Ok(None) };
        let disputed =
            |without: &SafeText| SenderError::ReceiptDisputed { hash, with: by.clone(), without: without.clone() };
        for (label, client) in &without {
            if !has_in_block(client.provider(), hash, &receipt).await {
                return Err(disputed(label));
            }
        }
        match without.first() {
            Some((label, _)) if !self.contradiction_has_lasted(hash) => Err(disputed(label)),
            Some(_) | None => Ok(Some(receipt)),
        }
    }

    /// Returns true if endpoints have contradicted themselves about this transaction's receipt for [`RECEIPT_GRACE`].
    fn contradiction_has_lasted(&self, hash: B256) -> bool {
        let now = self.0.clock.steady_millis();
        let mut since = self.0.contradicted.lock();
        let passed = now.saturating_sub(*since.entry(hash).or_insert(now));
        since.retain(|_, first| now.saturating_sub(*first) < CONTRADICTION_EXPIRY);
        passed >= RECEIPT_GRACE
    }

    /// Returns the latest block with enough confirmations if the account's nonce is above `nonce` there; else `None`.
    async fn nonce_use_block(&self, account: Address, nonce: u64) -> Result<Option<u64>, SenderError> {
        let provider = self.0.client.provider();
        let latest = provider.get_transaction_count(account).latest().await.map_err(ProviderError::from)?;
        if latest <= nonce {
            return Ok(None);
        }
        let above = self.0.rules.confirmations.saturating_sub(1);
        let head = provider.get_block_number().await.map_err(ProviderError::from)?;
        let Some(confirmed) = head.checked_sub(above) else { return Ok(None) };
        let count = provider.get_transaction_count(account).number(confirmed).await.map_err(ProviderError::from)?;
        Ok((count > nonce).then_some(confirmed))
    }

    async fn record_mined(
        &self,
        mined: &MinedTx,
        chain_id: u64,
        account: Address,
        nonce: u64,
        settled: bool,
    ) -> Result<(), SenderError> {
        let (hash, succeeded) = (mined.hash, mined.receipt.status());
        let block = mined.receipt.block_number.zip(mined.receipt.block_hash);
        let now = self.0.clock.now_millis();
        let event = if succeeded { SendEvent::Mined } else { SendEvent::Failed };
        let work = move |tx: &rusqlite::Transaction<'_>| {
            let all = family(tx, chain_id, account, nonce)?;
            for other in &all {
                let other_hash = other.hash;
                if other_hash == hash {
                    // A transaction that was refused while another one with its nonce was waiting has kept the nonce
                    // and its reservation.
                    if other.state == SendState::Dropped && other.settled {
                        mark_late_inclusion(tx, hash)?;
                    }
                    advance(tx, hash, event, None)?;
                    place(tx, hash, block)?;
                    continue;
                }
                if other.state.is_mined() {
                    advance(tx, other_hash, SendEvent::Unmined, None)?;
                    place(tx, other_hash, None)?;
                }
                if !are_kin(&all, other_hash, hash) {
                    if settled && !other.settled {
                        let note = format!("transaction {hash} of another plan, with the same nonce, is in a block");
                        advance(tx, other_hash, SendEvent::NonceTaken, Some(&note))?;
                    }
                } else if other.state.is_mined() || other.state.may_be_sent() {
                    advance(tx, other_hash, SendEvent::Outbid, None)?;
                }
            }
            lane::spent(tx, chain_id, account, nonce, now)?;
            if settled {
                settle(tx, chain_id, account, nonce, now)?;
            }
            Ok::<_, RecordError>(())
        };
        Ok(self.0.store.write(work).await?)
    }

    /// Records since when these transactions are missing, in chain time, if that has changed.
    async fn note_missing(&self, all: &[TxEntry], since: Option<u64>) -> Result<(), SenderError> {
        let changed: Vec<_> = all.iter().filter(|one| !one.settled && one.missing_since != since).copied().collect();
        if changed.is_empty() {
            return Ok(());
        }
        let work =
            move |tx: &rusqlite::Transaction<'_>| changed.iter().try_for_each(|one| missing(tx, one.hash, since));
        Ok(self.0.store.write(work).await?)
    }

    /// Records that none of the transactions signed for a nonce is in a block. `taken` means that another transaction
    /// has used the nonce, and that this is final.
    async fn record_absent(&self, chain_id: u64, account: Address, nonce: u64, taken: bool) -> Result<(), SenderError> {
        // Settled transactions stay settled: an endpoint that is behind has older information.
        let changes = move |one: &TxEntry| !one.settled && (taken || one.state.is_mined());
        let all = self.0.store.read(|connection| family(connection, chain_id, account, nonce))?;
        if !all.iter().any(changes) {
            return Ok(());
        }
        let now = self.0.clock.now_millis();
        let work = move |tx: &rusqlite::Transaction<'_>| {
            for one in family(tx, chain_id, account, nonce)?.into_iter().filter(changes) {
                if one.state.is_mined() {
                    advance(tx, one.hash, SendEvent::Unmined, Some("its block is no longer in the chain"))?;
                    place(tx, one.hash, None)?;
                }
                if taken {
                    advance(tx, one.hash, SendEvent::NonceTaken, Some("another transaction has used its nonce"))?;
                }
            }
            if taken {
                settle(tx, chain_id, account, nonce, now)?;
            }
            Ok::<_, RecordError>(())
        };
        Ok(self.0.store.write(work).await?)
    }
}
