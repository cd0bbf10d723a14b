//! Sending of signed transactions until they are settled: nonces, fees, storage, submission, confirmation and
//! replacement. No key enters this module: it receives signed transactions, and describes the ones to sign.
//!
//! The order is always the same: allocate a nonce ([`allocate`]) → have the transaction signed → store it ([`keep`]) →
//! send it ([`TxSender::send`]) → wait ([`TxSender::wait`]). After a crash, [`TxSender::pending`] lists the unsettled
//! transactions and [`TxSender::resend`] sends the same bytes again. Sending the same bytes twice is one transaction.
//!
//! | file | contents |
//! |---|---|
//! | `lane` | nonces per chain and account |
//! | `fees` | fee estimates within caps, and replacement fees |
//! | `state` | transaction states and the transition table |
//! | `record` | signed bytes and their state on disk |
//! | `fault` | classes of send failures and their treatment |
//! | `send`, `relay` | submission to the endpoints, or to a private relay alone |
//! | `replace` | replacement of a waiting transaction on the operator's decision |
//! | `watch`, `nonce_use` | receipts, confirmations, and nonces used by other transactions |

mod fault;
mod fees;
mod lane;
mod nonce_use;
mod record;
mod relay;
mod replace;
mod send;
mod state;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256, Bytes, U64, U256};
use alloy::providers::Provider as _;
use parking_lot::Mutex;

use crate::network::NetworkKind;
use crate::provider::{ChainClient, ProviderError};
use crate::signed::SignedTransaction;
use bardo_base::clock::Clock;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_store::{Migrations, Store, StoreError};

pub use fault::{FaultTreatment, SendFault};
pub use fees::{FeeError, FeeQuote, FeeRules, TxFees, estimate as estimate_fees};
pub use lane::{
    ChainNonces, LaneError, NonceLane, NonceReservation, ReservedNonce, ahead, allocate, lane, next_nonce, reconcile,
    release_nonce, reserved,
};
pub use record::{
    RecordError, SendPermit, SendRoute, TxRecord, acknowledge_late_inclusion, included_with, keep, kin,
    late_inclusions, load, open, sendable, signed_for, store_replacement,
};
pub use relay::{PrivateRelay, RelayStatus};
pub use replace::{SignedCall, store_repetition, store_rival, waiting_of};
pub use send::SendOutcome;
pub use state::{SendEvent, SendState, TABLE};
pub use watch::{MinedTx, TxStatus, WaitRules};

/// Migrations of the sender's database tables.
pub const MIGRATIONS: Migrations = Migrations {
    room: "sender",
    steps: &[lane::TABLES, record::TABLES, lane::SESSIONS, record::LATE, record::MISSING],
};

/// Settings of a chain's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderRules {
    /// Fee estimation settings.
    pub fees: FeeRules,
    /// Number of confirmations, including the transaction's own block, after which its outcome is final.
    pub confirmations: u64,
    /// Interval between two polls of the chain.
    pub poll: Duration,
    /// Interval for resending a transaction that an endpoint has accepted and no block contains.
    pub resend_after: Duration,
    /// Initial interval for resending a transaction that no endpoint has acknowledged. Doubles each time, up to
    /// [`Self::resend_after`].
    pub resend_unclear: Duration,
    /// Time after which a transaction that is in no block should be replaced with higher fees.
    pub outbid_after: Duration,
}

impl SenderRules {
    /// Settings for a network: a devnet's blocks are final, a public chain's latest blocks may be replaced.
    pub fn for_network(kind: NetworkKind, block_millis: u64) -> Self {
        let block = Duration::from_millis(block_millis);
        Self {
            fees: FeeRules::default(),
            confirmations: match kind {
                NetworkKind::Devnet => 1,
                NetworkKind::Test | NetworkKind::Real => 2,
            },
            poll: (block / 8).clamp(Duration::from_millis(25), Duration::from_secs(2)),
            resend_after: (block * 5).max(Duration::from_secs(5)),
            resend_unclear: Duration::from_millis(250),
            // The fee cap of twice the base fee lasts for the next six blocks even if all of them are full.
            outbid_after: (block * 8).max(Duration::from_secs(12)),
        }
    }
}

/// Sender of one chain. Clones share their state.
#[derive(Clone)]
pub struct TxSender(Arc<Inner>);

struct Inner {
    client: ChainClient,
    store: Store,
    clock: Arc<dyn Clock>,
    relay: Option<PrivateRelay>,
    rules: SenderRules,
    /// Transactions that an endpoint has in a block without their receipt, with the time of the first observation on
    /// the steady clock.
    contradicted: Mutex<BTreeMap<B256, u64>>,
}

/// Error of a sender operation. None of them means that a transaction has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SenderError {
    /// Failure of a chain request.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Error of the transaction records.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Error of the nonce allocation.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// Error of the fee estimation.
    #[error(transparent)]
    Fees(#[from] FeeError),
    /// The transaction is for another chain.
    #[error("transaction {hash} is for chain {found}, but this sender sends to chain {own}")]
    OtherChain {
        /// Hash of the transaction.
        hash: B256,
        /// Chain id of the transaction.
        found: u64,
        /// Chain id of the sender.
        own: u64,
    },
    /// The transaction needs a private relay, and none is configured.
    #[error(
        "transaction {0} must go through a private relay, but none is configured for this chain: set one; it is not \
         sent publicly instead"
    )]
    NoRelay(B256),
    /// One endpoint has the receipt of a transaction, another one has none.
    #[error(
        "{with} has a receipt of transaction {hash}, but {without} has none, so its outcome is unknown: it is polled \
         again; remove the wrong endpoint"
    )]
    ReceiptDisputed {
        /// Hash of the transaction.
        hash: B256,
        /// Label of the endpoint that has the receipt.
        with: SafeText,
        /// Label of the endpoint without the receipt.
        without: SafeText,
    },
    /// The endpoint's receipt of a transaction is invalid: it contradicts the transaction or lacks its block.
    #[error("the endpoint's response about transaction {hash} is invalid: {what}")]
    InvalidAnswer {
        /// Hash of the transaction.
        hash: B256,
        /// Description of the contradiction.
        what: &'static str,
    },
}

impl From<StoreError> for SenderError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

/// Unsigned replacement of a waiting transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxReplacement {
    /// Hash of the transaction that it replaces.
    pub replaces: B256,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that signs and sends it.
    pub from: Address,
    /// Nonce, the same as that of the replaced transaction.
    pub nonce: u64,
    /// Fees, higher than those of the replaced transaction.
    pub fees: TxFees,
    /// Target address; `None` creates a contract.
    pub to: Option<Address>,
    /// Value to transfer, in wei.
    pub value: U256,
    /// Calldata of the transaction.
    pub data: Bytes,
    /// Gas limit of the transaction.
    pub gas_limit: u64,
}

impl TxSender {
    /// Creates a sender for the chain of `client`. `store` must have been opened with [`MIGRATIONS`]. Private
    /// transactions go to `relay`.
    pub fn new(
        client: ChainClient,
        store: Store,
        clock: Arc<dyn Clock>,
        relay: Option<PrivateRelay>,
        rules: SenderRules,
    ) -> Self {
        Self(Arc::new(Inner { client, store, clock, relay, rules, contradicted: Mutex::default() }))
    }

    /// EIP-155 id of the sender's chain.
    pub fn chain_id(&self) -> u64 {
        self.0.client.chain_id()
    }

    /// Returns true if a private relay is configured.
    pub fn has_relay(&self) -> bool {
        self.0.relay.is_some()
    }

    /// Settings of the sender.
    pub fn rules(&self) -> SenderRules {
        self.0.rules
    }

    /// Reads the account's nonces from the chain; call it right before [`allocate`]. A dropped transaction that a block
    /// contains after all is detected here, so that its nonce does not count as used from outside.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if the chain does not answer, [`SenderError::Record`] if the ledger fails.
    pub async fn nonces(&self, account: Address) -> Result<ChainNonces, SenderError> {
        let provider = self.0.client.provider();
        // In this order, since a transaction that is included in between raises both counts.
        let latest = provider.get_transaction_count(account).latest().await.map_err(ProviderError::from)?;
        let pending = provider.get_transaction_count(account).pending().await.map_err(ProviderError::from)?;
        self.nonces_from(account, latest, pending).await
    }

    /// Like [`Self::nonces`], for transactions that must go out although endpoints contradict each other. Uses the
    /// majority's count, or without a majority the lowest one. Nonces used by this ledger are known from the ledger.
    /// The chain refuses a nonce that is too low, while one that is too high would leave a signed transaction waiting.
    ///
    /// # Errors
    /// As [`Self::nonces`].
    pub async fn nonces_despite_disputes(&self, account: Address) -> Result<ChainNonces, SenderError> {
        let client = &self.0.client;
        if !client.has_several_endpoints() {
            return self.nonces(account).await;
        }
        const COUNT: &str = "eth_getTransactionCount";
        let (told, latest, pending) = futures::join!(
            self.nonces(account),
            client.ask_each::<U64>(COUNT, (account, "latest")),
            client.ask_each::<U64>(COUNT, (account, "pending"))
        );
        let sorted = |told: Vec<Result<U64, ProviderError>>| {
            let mut counts: Vec<u64> = told.into_iter().flatten().map(|count| count.to()).collect();
            counts.sort_unstable();
            counts
        };
        let (counts, waiting) = (sorted(latest), sorted(pending));
        let votes = |count: &u64| counts.iter().filter(|other| *other == count).count();
        let majority = counts.iter().find(|count| votes(count).saturating_mul(2) > counts.len());
        match (majority.or(counts.first()), told) {
            (Some(latest), Ok(_) | Err(SenderError::Provider(ProviderError::Disagreement { .. }))) => {
                // A single endpoint that claims waiting transactions would block an exit.
                let pending = waiting.first().copied().unwrap_or_default();
                self.nonces_from(account, *latest, pending).await
            }
            (_, told) => told,
        }
    }

    async fn nonces_from(&self, account: Address, latest: u64, pending: u64) -> Result<ChainNonces, SenderError> {
        for one in self.dropped()?.into_iter().filter(|one| one.account == account && one.nonce < latest) {
            self.poll(one.hash).await?;
        }
        // An endpoint without pending state, or one that is behind, may return less.
        Ok(ChainNonces { latest, pending: pending.max(latest) })
    }

    /// Polls all dropped transactions whose nonce is unused, since an endpoint that refused one may have passed it on.
    /// Those that a block contains are then listed by [`late`].
    ///
    /// # Errors
    /// As [`Self::poll`].
    pub async fn poll_dropped(&self) -> Result<(), SenderError> {
        for one in self.dropped()? {
            self.poll(one.hash).await?;
        }
        Ok(())
    }

    fn dropped(&self) -> Result<Vec<record::TxEntry>, SenderError> {
        let chain_id = self.chain_id();
        Ok(self.0.store.read(|connection| record::dropped(connection, chain_id))?)
    }

    /// Estimates the fees of the next block.
    ///
    /// # Errors
    /// [`SenderError::Fees`] if the chain does not answer or its fee history is not usable.
    pub async fn fee_quote(&self) -> Result<FeeQuote, SenderError> {
        Ok(fees::estimate(&self.0.client, self.0.rules.fees).await?)
    }

    /// Allocates a nonce in a database transaction of its own; the pipeline calls [`allocate`] inside its own instead.
    ///
    /// # Errors
    /// [`SenderError::Lane`] if no nonce is available, [`SenderError::Provider`] if the chain does not answer.
    pub async fn reserve_nonce(&self, account: Address) -> Result<NonceReservation, SenderError> {
        let seen = self.nonces(account).await?;
        let (chain_id, now) = (self.chain_id(), self.0.clock.now_millis());
        Ok(self.0.store.write(move |tx| allocate(tx, chain_id, account, seen, now)).await?)
    }

    /// Releases a nonce with which nothing was signed.
    ///
    /// # Errors
    /// [`SenderError::Lane`] if the ticket no longer holds its nonce.
    pub async fn release_nonce(&self, ticket: NonceReservation) -> Result<(), SenderError> {
        Ok(self.0.store.write(move |tx| release_nonce(tx, &ticket)).await?)
    }

    /// Synchronises the lane with the chain after the account was used outside of Bardo.
    ///
    /// # Errors
    /// [`SenderError::Lane`] as for [`reconcile`](self::reconcile), [`SenderError::Provider`] if the chain does not
    /// answer.
    pub async fn reconcile(&self, account: Address) -> Result<(), SenderError> {
        let seen = self.nonces(account).await?;
        let chain_id = self.chain_id();
        Ok(self.0.store.write(move |tx| reconcile(tx, chain_id, account, seen)).await?)
    }

    /// Stores a signed transaction under its nonce. On success it is on disk and may be sent.
    ///
    /// # Errors
    /// [`SenderError::Record`]: nothing was stored, and the transaction must not be sent.
    pub async fn keep(
        &self,
        ticket: NonceReservation,
        signed: SignedTransaction,
        route: SendRoute,
        call_id: Option<CallId>,
    ) -> Result<SendPermit, SenderError> {
        let now = self.0.clock.now_millis();
        Ok(self.0.store.write(move |tx| keep(tx, &ticket, &signed, route, call_id, now)).await?)
    }

    /// Stores a signed replacement of a waiting transaction.
    ///
    /// # Errors
    /// [`SenderError::Record`], as for [`store_replacement`].
    pub async fn store_replacement(&self, old: B256, signed: SignedTransaction) -> Result<SendPermit, SenderError> {
        let now = self.0.clock.now_millis();
        Ok(self.0.store.write(move |tx| store_replacement(tx, old, &signed, now)).await?)
    }

    /// All transactions on this chain whose outcome is not final, by account and nonce.
    ///
    /// # Errors
    /// [`SenderError::Record`] if the records cannot be read.
    pub fn pending(&self) -> Result<Vec<TxRecord>, SenderError> {
        let chain_id = self.chain_id();
        Ok(self.0.store.read(|connection| open(connection, chain_id))?)
    }

    /// The stored record of a transaction.
    ///
    /// # Errors
    /// [`RecordError::Unknown`] if the ledger does not have it.
    pub fn record(&self, hash: B256) -> Result<TxRecord, SenderError> {
        let found = self.0.store.read(|connection| load(connection, hash))?;
        Ok(found.ok_or(RecordError::Unknown(hash))?)
    }

    /// Prepares a replacement of a waiting transaction: the same action, with fees within `cap` that exceed the old
    /// ones and suffice for the next blocks. If the transaction was refused while the one it should replace is waiting,
    /// that one is replaced, as [`TxReplacement::replaces`] shows.
    ///
    /// # Errors
    /// [`RecordError::Ended`] if it no longer waits, [`FeeError::AboveCap`] if `cap` is too low.
    pub async fn outbid(&self, hash: B256, cap: TxFees) -> Result<TxReplacement, SenderError> {
        let record = self.waiting(hash)?;
        let fees = self.fee_quote().await?.outbidding(record.fees(), cap)?;
        let transaction = record.signed.transaction();
        Ok(TxReplacement {
            replaces: record.hash(),
            chain_id: record.signed.chain_id(),
            from: record.signed.from(),
            nonce: record.signed.nonce(),
            fees,
            to: transaction.to(),
            value: transaction.value(),
            data: transaction.input().clone(),
            gas_limit: transaction.gas_limit(),
        })
    }

    fn waiting(&self, hash: B256) -> Result<TxRecord, SenderError> {
        match self.0.store.read(|connection| record::sendable(connection, hash))? {
            Some(record) => Ok(record),
            None => Err(RecordError::Ended { hash, state: self.record(hash)?.state }.into()),
        }
    }
}

/// Gas of a plain transfer, G_transaction in the [Yellow Paper](https://ethereum.github.io/yellowpaper/paper.pdf).
const TRANSFER_GAS: u64 = 21_000;

/// Gas limit of a transfer of nothing to oneself on Arbitrum One, Nova and Sepolia, whose gas includes the cost of the
/// data on Ethereum ([gas and fees](https://docs.arbitrum.io/how-arbitrum-works/gas-fees)). Unused gas is not paid.
const NITRO_TRANSFER_GAS: u64 = 1_000_000;

/// Gas limit of a transaction that only uses its nonce.
const fn cancellation_gas(chain_id: u64) -> u64 {
    match chain_id {
        42_161 | 42_170 | 421_614 => NITRO_TRANSFER_GAS,
        _ => TRANSFER_GAS,
    }
}

impl fmt::Debug for TxSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxSender")
            .field("chain_id", &self.chain_id())
            .field("rules", &self.0.rules)
            .finish_non_exhaustive()
    }
}
