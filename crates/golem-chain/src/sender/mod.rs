//! From signed bytes to a settled transaction: nonces, fees, storing, sending, waiting, replacing. No key comes near
//! this room: it is given what was signed, and says what would have to be signed.
//!
//! The order is always the same: take a nonce ([`allocate`]) → have it signed → store the bytes ([`keep`]) → send
//! ([`Sender::send`]) → wait ([`Sender::wait`]). What a crash interrupts is in [`Sender::pending`], and
//! [`Sender::resend`] sends the same bytes; sending the same bytes twice is one transaction.
//!
//! | file | holds |
//! |---|---|
//! | `lane` | nonces per chain and account |
//! | `fees` | estimates within caps, and what outbids |
//! | `state` | the states of a transaction and the table of what can happen |
//! | `record` | signed bytes and their state on disk |
//! | `fault` | what a refusal means: one class, one treatment |
//! | `send`, `relay` | to the endpoints, or to a private relay alone |
//! | `watch`, `spent` | receipts, confirmations, and nonces that others have used |

mod fault;
mod fees;
mod lane;
mod record;
mod relay;
mod send;
mod spent;
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
use crate::signed::Signed;
use bardo_base::clock::Clock;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_store::{Migrations, Store, StoreError};

pub use fault::{SendFault, Treatment};
pub use fees::{FeeError, FeeQuote, FeeRules, Fees};
pub use lane::{
    ChainNonces, Lane, LaneError, NonceTicket, ReservedNonce, ahead, allocate, give_back, lane, reconcile, reserved,
};
pub use record::{Kept, Record, RecordError, Route, keep, keep_replacement, late, load, open, sendable, took_note};
pub use relay::{Relay, RelayStatus};
pub use send::SendOutcome;
pub use state::{TABLE, TxEvent, TxState};
pub use watch::{Mined, Standing, WaitRules};

/// The tables of this room.
pub const MIGRATIONS: Migrations = Migrations {
    room: "sender",
    steps: &[lane::TABLES, record::TABLES, lane::SESSIONS, record::LATE, record::MISSING],
};

/// How a chain is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderRules {
    /// How fees are estimated.
    pub fees: FeeRules,
    /// How many blocks, its own included, a transaction must have on it before its end is final.
    pub confirmations: u64,
    /// Between two looks at the chain.
    pub poll: Duration,
    /// Before bytes that an endpoint has, and no block, are sent again.
    pub resend_after: Duration,
    /// Before bytes are sent again of which no endpoint has said that it has them. Doubles each time, up to
    /// [`Self::resend_after`].
    pub resend_unclear: Duration,
    /// Before a transaction that no block has taken should be outbid.
    pub outbid_after: Duration,
}

impl SenderRules {
    /// What suits a network: a devnet's blocks stay, a public chain's last ones may not.
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
            // Twice the base fee was offered, which six full blocks in a row cannot outgrow.
            outbid_after: (block * 8).max(Duration::from_secs(12)),
        }
    }
}

/// One chain's sender. A clone is the same sender.
#[derive(Clone)]
pub struct Sender(Arc<Inner>);

struct Inner {
    client: ChainClient,
    store: Store,
    clock: Arc<dyn Clock>,
    relay: Option<Relay>,
    rules: SenderRules,
    /// Transactions in a block whose receipt an endpoint does not have, with when that was first seen on the steady clock.
    contradicted: Mutex<BTreeMap<B256, u64>>,
}

/// Why the sender cannot do what it was asked to. Nothing of it says that a transaction has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SenderError {
    /// The chain did not answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The ledger refused.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No nonce.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// No fee.
    #[error(transparent)]
    Fees(#[from] FeeError),
    /// Another chain's transaction.
    #[error("transaction {hash} is for chain {found}, and this sender sends to chain {own}")]
    OtherChain {
        /// The transaction.
        hash: B256,
        /// Its chain.
        found: u64,
        /// The sender's.
        own: u64,
    },
    /// It is to go to a private relay alone, and none is configured.
    #[error(
        "transaction {0} is to go through a private relay and none is configured for this chain: name one, it is not shown to everybody instead"
    )]
    NoRelay(B256),
    /// One endpoint has the receipt of a transaction, another has none.
    #[error(
        "{with} has a receipt of transaction {hash} and {without} answers that there is none, so its end is not known: the transaction is asked about again; remove the endpoint that is wrong"
    )]
    ReceiptDisputed {
        /// The transaction.
        hash: B256,
        /// The endpoint that has the receipt.
        with: SafeText,
        /// The one that has not.
        without: SafeText,
    },
    /// The endpoint contradicts itself.
    #[error("the endpoint's answer about transaction {hash} makes no sense: {what}")]
    Nonsense {
        /// The transaction.
        hash: B256,
        /// How.
        what: &'static str,
    },
}

impl From<StoreError> for SenderError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

/// What has to be signed to take the place of a transaction that waits: everything but the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The transaction whose place it takes.
    pub replaces: B256,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// The sender.
    pub from: Address,
    /// The same nonce.
    pub nonce: u64,
    /// Higher fees.
    pub fees: Fees,
    /// The target.
    pub to: Option<Address>,
    /// Wei sent along.
    pub value: U256,
    /// Calldata.
    pub data: Bytes,
    /// Gas limit.
    pub gas_limit: u64,
}

impl Sender {
    /// A sender to the chain of `client`, whose ledger is in `store`, opened with [`MIGRATIONS`]. Transactions that are
    /// to stay private go to `relay`.
    pub fn new(
        client: ChainClient,
        store: Store,
        clock: Arc<dyn Clock>,
        relay: Option<Relay>,
        rules: SenderRules,
    ) -> Self {
        Self(Arc::new(Inner { client, store, clock, relay, rules, contradicted: Mutex::default() }))
    }

    /// The chain it sends to.
    pub fn chain_id(&self) -> u64 {
        self.0.client.chain_id()
    }

    /// Whether it can send without everybody seeing it.
    pub fn has_relay(&self) -> bool {
        self.0.relay.is_some()
    }

    /// Its rules.
    pub fn rules(&self) -> SenderRules {
        self.0.rules
    }

    /// What the chain says of an account's nonces now; ask right before [`allocate`]. What was given up and has spent one
    /// of them all the same is found here, and not taken for somebody else's.
    ///
    /// # Errors
    /// [`SenderError::Provider`], [`SenderError::Record`].
    pub async fn nonces(&self, account: Address) -> Result<ChainNonces, SenderError> {
        let provider = self.0.client.provider();
        // In this order: what is included in between raises both.
        let latest = provider.get_transaction_count(account).latest().await.map_err(ProviderError::from)?;
        let pending = provider.get_transaction_count(account).pending().await.map_err(ProviderError::from)?;
        self.nonces_from(account, latest, pending).await
    }

    /// [`Self::nonces`] for what must go out although endpoints contradict each other: what a majority says, or without
    /// one the lowest. The nonces that this ledger has used are known from the ledger; a nonce that is too low is refused
    /// by the chain, while one that is too high would leave a signed transaction waiting.
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
                // One endpoint alone that claims waiting transactions would hold up an exit.
                let pending = waiting.first().copied().unwrap_or_default();
                self.nonces_from(account, *latest, pending).await
            }
            (_, told) => told,
        }
    }

    async fn nonces_from(&self, account: Address, latest: u64, pending: u64) -> Result<ChainNonces, SenderError> {
        for one in self.given_up()?.into_iter().filter(|one| one.account == account && one.nonce < latest) {
            self.look(one.hash).await?;
        }
        // An endpoint that knows no pending state, or one that is behind.
        Ok(ChainNonces { latest, pending: pending.max(latest) })
    }

    /// Looks once at everything that was given up and whose nonce is unused: an endpoint that refused it may have passed
    /// it on. What a block has is in [`late`] then.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub async fn look_at_given_up(&self) -> Result<(), SenderError> {
        for one in self.given_up()? {
            self.look(one.hash).await?;
        }
        Ok(())
    }

    fn given_up(&self) -> Result<Vec<record::Entry>, SenderError> {
        let chain_id = self.chain_id();
        Ok(self.0.store.read(|connection| record::given_up(connection, chain_id))?)
    }

    /// What the next block asks for gas.
    ///
    /// # Errors
    /// [`SenderError::Provider`], [`SenderError::Fees`].
    pub async fn fee_quote(&self) -> Result<FeeQuote, SenderError> {
        Ok(fees::estimate(&self.0.client, self.0.rules.fees).await?)
    }

    /// Takes a nonce in a transaction of its own; the pipeline calls [`allocate`] inside its own instead.
    ///
    /// # Errors
    /// [`SenderError::Lane`], [`SenderError::Provider`].
    pub async fn take_nonce(&self, account: Address) -> Result<NonceTicket, SenderError> {
        let seen = self.nonces(account).await?;
        let (chain_id, now) = (self.chain_id(), self.0.clock.now_millis());
        Ok(self.0.store.write(move |tx| allocate(tx, chain_id, account, seen, now)).await?)
    }

    /// Gives back a nonce that nothing was signed with.
    ///
    /// # Errors
    /// [`SenderError::Lane`].
    pub async fn give_back(&self, ticket: NonceTicket) -> Result<(), SenderError> {
        Ok(self.0.store.write(move |tx| give_back(tx, &ticket)).await?)
    }

    /// Goes on from where the chain is, after an account was used outside of Bardo.
    ///
    /// # Errors
    /// [`SenderError::Lane`], [`SenderError::Provider`].
    pub async fn reconcile(&self, account: Address) -> Result<(), SenderError> {
        let seen = self.nonces(account).await?;
        let chain_id = self.chain_id();
        Ok(self.0.store.write(move |tx| reconcile(tx, chain_id, account, seen)).await?)
    }

    /// Stores signed bytes under their nonce. When this answers they are on disk and may be sent.
    ///
    /// # Errors
    /// [`SenderError::Record`]: nothing was stored, and nothing of it may be sent.
    pub async fn keep(
        &self,
        ticket: NonceTicket,
        signed: Signed,
        route: Route,
        call_id: Option<CallId>,
    ) -> Result<Kept, SenderError> {
        let now = self.0.clock.now_millis();
        Ok(self.0.store.write(move |tx| keep(tx, &ticket, &signed, route, call_id, now)).await?)
    }

    /// Stores what was signed to take the place of a waiting transaction.
    ///
    /// # Errors
    /// [`SenderError::Record`].
    pub async fn keep_replacement(&self, old: B256, signed: Signed) -> Result<Kept, SenderError> {
        let now = self.0.clock.now_millis();
        Ok(self.0.store.write(move |tx| keep_replacement(tx, old, &signed, now)).await?)
    }

    /// Every transaction on this chain whose end is not final, by account and nonce.
    ///
    /// # Errors
    /// [`SenderError::Record`].
    pub fn pending(&self) -> Result<Vec<Record>, SenderError> {
        let chain_id = self.chain_id();
        Ok(self.0.store.read(|connection| open(connection, chain_id))?)
    }

    /// One transaction as the ledger has it.
    ///
    /// # Errors
    /// [`RecordError::Unknown`].
    pub fn record(&self, hash: B256) -> Result<Record, SenderError> {
        let found = self.0.store.read(|connection| load(connection, hash))?;
        Ok(found.ok_or(RecordError::Unknown(hash))?)
    }

    /// What to sign so that a waiting transaction gets into a block: the same, with fees that outbid it and what the
    /// next blocks ask, within `cap`. Where it was refused while what it was to replace is out, that one is outbid:
    /// [`Replacement::replaces`] says which.
    ///
    /// # Errors
    /// [`RecordError::Ended`] if it no longer waits, [`FeeError::AboveCap`].
    pub async fn outbid(&self, hash: B256, cap: Fees) -> Result<Replacement, SenderError> {
        let record = self.waiting(hash)?;
        let fees = self.fee_quote().await?.outbidding(record.fees(), cap)?;
        let transaction = record.signed.transaction();
        Ok(Replacement {
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

    /// What to sign so that a waiting transaction does nothing: its nonce spent on a transfer of nothing to oneself.
    ///
    /// # Errors
    /// As [`Self::outbid`].
    pub async fn cancel(&self, hash: B256, cap: Fees) -> Result<Replacement, SenderError> {
        let instead = self.outbid(hash, cap).await?;
        Ok(Replacement {
            to: Some(instead.from),
            value: U256::ZERO,
            data: Bytes::new(),
            gas_limit: TRANSFER_GAS,
            ..instead
        })
    }

    fn waiting(&self, hash: B256) -> Result<Record, SenderError> {
        match self.0.store.read(|connection| record::sendable(connection, hash))? {
            Some(record) => Ok(record),
            None => Err(RecordError::Ended { hash, state: self.record(hash)?.state }.into()),
        }
    }
}

/// Gas of a plain transfer ([EIP-2718's yellow paper figure](https://ethereum.github.io/yellowpaper/paper.pdf), G_transaction).
const TRANSFER_GAS: u64 = 21_000;

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("chain_id", &self.chain_id())
            .field("rules", &self.0.rules)
            .finish_non_exhaustive()
    }
}
