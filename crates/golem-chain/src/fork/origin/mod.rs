//! The block of a live network that a local chain continues from: its state, read on demand and kept in a cache file.
//!
//! The endpoints are read through [`ReadOnlyChain`], so nothing can be sent to them. Values are read by the block's
//! hash in batches (see [`pinned`](super::pinned)); with several endpoints, each value is compared on all of them
//! before it counts (see [`verify`](super::verify)) and before it enters the cache.
//!
//! The requests run on a thread of their own, because the local chain executes synchronously and must be able to wait.
//! A failed request is an error of the execution that needs the value: a missing value never reads as zero.

mod cache;
mod open;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use alloy::{
    consensus::Header as ConsensusHeader,
    primitives::{Address, B256, U256},
};
use parking_lot::Mutex;
use revm::state::AccountInfo;

use super::{
    ForkError, MAX_TEXT,
    pinned::{MissingValues, PinnedData, PinnedState},
};
use crate::{
    evm::{ChainRules, DatabaseError},
    network::Network,
    provider::ConnectError,
};
use bardo_base::text::SafeText;
use cache::CacheFile;

pub use cache::{CacheError, CachedBlock, cached_blocks};
pub use open::{ForkBlock, NotABlock};

/// Longest wait for a request to the origin. Above the limits of the requests themselves, with their retries.
const PATIENCE: Duration = Duration::from_secs(20);

/// Maximum number of rounds in which an execution discovers the values that it reads.
const ROUNDS: usize = 24;

/// A block of a live network, as the start of a local chain. Contains the cache, so share it.
pub struct Origin {
    network: Network,
    shared: Arc<Shared>,
    requests: tokio::sync::mpsc::UnboundedSender<Request>,
    /// Failure of a read whose caller could not receive an error, until it is taken.
    failure: Mutex<Option<OriginError>>,
}

/// Data that the origin's thread shares with its readers.
struct Shared {
    state: Arc<PinnedState>,
    /// Values that are confirmed or come from the cache. Only these are read.
    known: Mutex<PinnedData>,
    /// `None` if another process writes the cache, or it is full.
    cache: Mutex<Option<CacheFile>>,
    path: PathBuf,
    is_offline: bool,
}

/// Values to fetch, and the receiver of the outcome.
struct Request {
    wanted: MissingValues,
    done: Box<dyn FnOnce(Result<(), OriginError>) + Send>,
}

/// Error for a block of a live network that cannot be opened or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OriginError {
    /// The endpoints cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A value could not be read.
    #[error(
        "cannot read {chain} at block {number}: {reason}. The rehearsal needs this value from the live network; check \
         its endpoint and try again"
    )]
    Unread {
        /// Name of the chain.
        chain: String,
        /// Number of the block.
        number: u64,
        /// Cause of the failure.
        reason: SafeText,
    },
    /// A value is not in the cache, and no endpoint responds.
    #[error(
        "no endpoint of {chain} responds, and the cache of block {number} lacks a value that is needed: what was read \
         before works offline, the rest needs the endpoint"
    )]
    Offline {
        /// Name of the chain.
        chain: String,
        /// Number of the block.
        number: u64,
    },
    /// No endpoint responds, and no cached block can replace it.
    #[error("the requested block of {chain} is not in the cache, and {reason}")]
    NothingCached {
        /// Name of the chain.
        chain: String,
        /// Failure of the endpoints.
        reason: Box<ConnectError>,
    },
    /// The pinned block is no longer part of the chain.
    #[error(
        "block {number} ({hash}) is no longer part of {chain}: a reorganisation replaced it. Start a new fork at a \
         block that is final"
    )]
    Reorganised {
        /// Name of the chain.
        chain: String,
        /// Number of the block.
        number: u64,
        /// Hash of the block.
        hash: B256,
    },
    /// The endpoint does not have the block.
    #[error("{chain} has no block {asked}, or its endpoint does not return it")]
    NoBlock {
        /// Name of the chain.
        chain: String,
        /// The requested block.
        asked: String,
    },
    /// The header does not belong to the hash.
    #[error("the endpoint of {chain} returned a header that does not hash to {hash}: do not use this endpoint")]
    WrongHeader {
        /// Name of the chain.
        chain: String,
        /// Hash that the endpoint states.
        hash: B256,
    },
    /// The cache file cannot be used.
    #[error("{0}")]
    Cache(Arc<CacheError>),
    /// The origin's thread could not be started, or has ended.
    #[error("the reader of the live network stopped: restart Bardo")]
    Stopped,
}

impl Origin {
    /// Network of the live chain.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Chain id and hardfork of the live chain.
    pub fn rules(&self) -> ChainRules {
        ChainRules { chain_id: self.network.chain_id, spec: self.network.hardfork }
    }

    /// Number of the block.
    pub fn number(&self) -> u64 {
        self.shared.state.header.number
    }

    /// Hash of the block.
    pub fn hash(&self) -> B256 {
        self.shared.state.header.hash
    }

    /// Header of the block, whose hash is verified.
    pub fn header(&self) -> &ConsensusHeader {
        &self.shared.state.header.inner
    }

    /// Returns true if no endpoint responded at the start, so that only cached values can be read.
    pub fn is_offline(&self) -> bool {
        self.shared.is_offline
    }

    /// Number of sequential round trips to the endpoints so far.
    pub fn round_trips(&self) -> u64 {
        self.shared.state.remote.round_trips()
    }

    /// Takes the failure of the last read whose caller could not receive an error.
    pub fn take_failure(&self) -> Option<OriginError> {
        self.failure.lock().take()
    }

    /// Fetches missing values; blocks the thread meanwhile.
    pub(crate) fn fetch_blocking(&self, wanted: MissingValues) -> Result<(), OriginError> {
        let (sender, outcome) = mpsc::sync_channel(1);
        // A caller that stopped waiting needs no outcome.
        self.request(wanted, Box::new(move |result| drop(sender.send(result))))?;
        outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(self.unread("no response in time")))
    }

    /// Fetches missing values.
    pub(crate) async fn fetch(&self, wanted: MissingValues) -> Result<(), OriginError> {
        let (sender, outcome) = tokio::sync::oneshot::channel();
        self.request(wanted, Box::new(move |result| drop(sender.send(result))))?;
        match tokio::time::timeout(PATIENCE, outcome).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(OriginError::Stopped),
            Err(_) => Err(self.unread("no response in time")),
        }
    }

    fn request(
        &self,
        wanted: MissingValues,
        done: Box<dyn FnOnce(Result<(), OriginError>) + Send>,
    ) -> Result<(), OriginError> {
        self.requests.send(Request { wanted, done }).map_err(|_| OriginError::Stopped)
    }

    fn unread(&self, reason: &str) -> OriginError {
        OriginError::Unread {
            chain: self.network.name.clone(),
            number: self.number(),
            reason: SafeText::clean(reason, MAX_TEXT),
        }
    }
}

impl Shared {
    /// Fetches values that are not cached, compares them on all endpoints, and stores them.
    async fn fetch(&self, mut wanted: MissingValues, network: &Network) -> Result<(), OriginError> {
        self.known.lock().retain_missing(&mut wanted);
        if wanted.is_empty() {
            return Ok(());
        }
        if self.is_offline {
            return Err(OriginError::Offline { chain: network.name.clone(), number: self.state.header.number });
        }
        self.state.fetch_checked(&wanted).await.map_err(|error| read_error(error, network, &self.state))?;
        let fetched = self.state.values_of(&wanted);
        self.known.lock().extend(fetched.clone());
        let mut cache = self.cache.lock();
        if let Some(file) = cache.as_mut()
            && let Err(error) = file.append(&fetched)
        {
            // The values are correct; they will have to be read again in the next run.
            tracing::warn!(path = %self.path.display(), %error, "the fork's cache is no longer written");
            *cache = None;
        }
        Ok(())
    }
}

fn read_error(error: ForkError, network: &Network, state: &PinnedState) -> OriginError {
    let (chain, number) = (network.name.clone(), state.header.number);
    match error {
        ForkError::Reorganised { number, hash } => OriginError::Reorganised { chain, number, hash },
        other => OriginError::Unread { chain, number, reason: SafeText::clean(&other.to_string(), MAX_TEXT) },
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin")
            .field("chain", &self.network.name)
            .field("number", &self.number())
            .field("hash", &self.hash())
            .finish_non_exhaustive()
    }
}

/// The origin as one state reads it: directly, or speculatively with missing values recorded and guessed.
#[derive(Debug, Clone)]
pub(crate) struct OriginView {
    origin: Arc<Origin>,
    speculation: Option<Speculation>,
}

/// Missing values of a speculative execution.
#[derive(Debug, Clone)]
struct Speculation {
    missed: Arc<Mutex<MissingValues>>,
    guess: U256,
}

impl OriginView {
    pub(crate) fn new(origin: Arc<Origin>) -> Self {
        Self { origin, speculation: None }
    }

    pub(crate) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// The same origin; missing values are recorded, and read as `guess`.
    pub(crate) fn speculating(&self, guess: U256) -> Self {
        Self { origin: Arc::clone(&self.origin), speculation: Some(Speculation { missed: Arc::default(), guess }) }
    }

    /// Takes the values that were missing, with those that are usually read along with them.
    pub(crate) fn take_missed(&self) -> MissingValues {
        let Some(speculation) = &self.speculation else { return MissingValues::default() };
        std::mem::take(&mut *speculation.missed.lock())
    }

    /// An account of the origin; `None` if it does not exist there.
    pub(crate) fn account(&self, address: Address) -> Result<Option<AccountInfo>, OriginError> {
        let cached = |data: &PinnedData| data.accounts.get(&address).cloned();
        let guess = |guess: U256| AccountInfo::from_balance(guess);
        let info = self.read(cached, guess, |wanted| wanted.add_account(address))?;
        Ok((!info.is_empty()).then_some(info))
    }

    /// A storage slot of the origin.
    pub(crate) fn slot(&self, address: Address, slot: U256) -> Result<U256, OriginError> {
        let key = (address, slot);
        let cached = |data: &PinnedData| data.slots.get(&key).copied();
        self.read(cached, |guess| guess, |wanted| wanted.add_slot(address, slot))
    }

    /// Hash of an earlier block of the origin.
    pub(crate) fn block_hash(&self, number: u64) -> Result<B256, OriginError> {
        let cached = |data: &PinnedData| data.hashes.get(&number).copied();
        let want = |wanted: &mut MissingValues| {
            wanted.hashes.insert(number);
        };
        self.read(cached, |_| B256::ZERO, want)
    }

    /// Value for a caller that cannot receive an error. The failure is recorded (see [`Origin::take_failure`]), and the
    /// value must not be used.
    pub(crate) fn or_recorded<T: Default>(&self, result: Result<T, OriginError>) -> T {
        result.unwrap_or_else(|error| {
            self.record(error);
            T::default()
        })
    }

    /// Records a failure that the caller cannot receive.
    pub(crate) fn record(&self, error: OriginError) {
        *self.origin.failure.lock() = Some(error);
    }

    fn read<T>(
        &self,
        cached: impl Fn(&PinnedData) -> Option<T>,
        guess: impl FnOnce(U256) -> T,
        want: impl FnOnce(&mut MissingValues),
    ) -> Result<T, OriginError> {
        let known = &self.origin.shared.known;
        if let Some(value) = cached(&known.lock()) {
            return Ok(value);
        }
        if let Some(speculation) = &self.speculation {
            want(&mut speculation.missed.lock());
            return Ok(guess(speculation.guess));
        }
        let mut wanted = MissingValues::default();
        want(&mut wanted);
        self.origin.fetch_blocking(wanted)?;
        let value = cached(&known.lock());
        value.ok_or_else(|| self.origin.unread("the endpoint returned another value than requested"))
    }
}

impl From<OriginError> for DatabaseError {
    fn from(error: OriginError) -> Self {
        Self::new(error)
    }
}

/// Number of rounds of speculation, and the guess for missing words in each run of a round.
pub(crate) const fn rounds() -> (usize, [U256; 2]) {
    (ROUNDS, [U256::ZERO, super::pinned::OPTIMISTIC])
}
