//! Opening of an origin: connection, choice of the block, cache file, and the thread that serves reads.

use std::{fmt, path::Path, str::FromStr, sync::Arc};

use alloy::{
    eips::{BlockId, BlockNumberOrTag},
    primitives::B256,
    providers::ProviderBuilder,
    rpc::{
        client::RpcClient,
        json_rpc::{RequestPacket, ResponsePacket},
        types::Header,
    },
    transports::{TransportError, TransportFut},
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::{
    CacheError, Origin, OriginError, Request, Shared,
    cache::{self, Loaded},
};
use crate::{
    evm::ChainRules,
    fork::{
        Fork, ForkError, MAX_TEXT, NextBlock, PinnedOrigin, RemoteLimits, RemoteState,
        pinned::{PinnedData, PinnedState},
    },
    network::{ChainPlan, Network},
    provider::{ConnectError, ProviderError, read_only::ReadOnlyChain},
};
use bardo_base::{clock::Clock, text::SafeText};

/// The block at which a fork starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkBlock {
    /// The latest block; without an endpoint, the most recently used cached one.
    Latest,
    /// The latest block that the chain considers final.
    Finalized,
    /// The block with this number.
    Number(u64),
    /// The block with this hash.
    Hash(B256),
}

/// Error for a text that names no block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a block: write a number, a hash, `latest` or `finalized`")]
pub struct NotABlock(SafeText);

impl FromStr for ForkBlock {
    type Err = NotABlock;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NotABlock(SafeText::clean(text, 80));
        match text {
            "latest" => Ok(Self::Latest),
            "finalized" => Ok(Self::Finalized),
            hash if hash.starts_with("0x") => hash.parse().map(Self::Hash).map_err(|_| wrong()),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().map(Self::Number).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ForkBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Finalized => f.write_str("finalized"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Hash(hash) => write!(f, "{hash}"),
        }
    }
}

impl ForkBlock {
    fn id(self) -> BlockId {
        match self {
            Self::Latest => BlockId::latest(),
            Self::Finalized => BlockId::Number(BlockNumberOrTag::Finalized),
            Self::Number(number) => BlockId::number(number),
            Self::Hash(hash) => BlockId::hash(hash),
        }
    }
}

impl Origin {
    /// Opens a block of the chain in `plan`, with its cache in `folder`. Without a responding endpoint, a cached block
    /// is opened, and only cached values can be read.
    ///
    /// # Errors
    /// An [`OriginError`] that names the chain, and the endpoint or the file at fault.
    pub async fn open(
        plan: ChainPlan,
        block: ForkBlock,
        folder: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OriginError> {
        let (opened, origin) = oneshot::channel();
        let folder = folder.to_owned();
        let thread = std::thread::Builder::new().name("fork-origin".to_owned());
        thread
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let Ok(runtime) = runtime else { return };
                runtime.block_on(async move {
                    let (requests, inbox) = mpsc::unbounded_channel();
                    match prepare(&plan, block, &folder, clock).await {
                        Ok((network, shared)) => {
                            let origin = Self {
                                network: network.clone(),
                                shared: Arc::clone(&shared),
                                requests,
                                failure: Mutex::default(),
                            };
                            // If nobody waits any more, the origin is dropped, and the loop ends at once.
                            drop(opened.send(Ok(Arc::new(origin))));
                            serve(shared, network, inbox).await;
                        }
                        Err(error) => drop(opened.send(Err(error))),
                    }
                });
            })
            .map_err(|_| OriginError::Stopped)?;
        origin.await.map_err(|_| OriginError::Stopped)?
    }
}

/// Serves requests, several at a time, until the last handle is gone.
async fn serve(shared: Arc<Shared>, network: Network, mut inbox: mpsc::UnboundedReceiver<Request>) {
    while let Some(Request { wanted, done }) = inbox.recv().await {
        let (shared, network) = (Arc::clone(&shared), network.clone());
        tokio::spawn(async move { done(shared.fetch(wanted, &network).await) });
    }
}

async fn prepare(
    plan: &ChainPlan,
    block: ForkBlock,
    folder: &Path,
    clock: Arc<dyn Clock>,
) -> Result<(Network, Arc<Shared>), OriginError> {
    match ReadOnlyChain::connect(plan, clock).await {
        Ok(chain) => online(&chain, block, folder).await,
        Err(error @ ConnectError::Silent { .. }) => offline(plan, block, folder, error),
        Err(error) => Err(error.into()),
    }
}

async fn online(chain: &ReadOnlyChain, block: ForkBlock, folder: &Path) -> Result<(Network, Arc<Shared>), OriginError> {
    let network = chain.network().clone();
    let rules = ChainRules { chain_id: network.chain_id, spec: network.hardfork };
    let witnesses = Some(chain.stack().clone());
    let remote = RemoteState::witnessed_by(chain.provider(), witnesses, rules, RemoteLimits::default());
    let pinned = remote.pin(block.id(), NextBlock::default()).await;
    let pinned = pinned.map_err(|error| pin_error(error, &network, block))?;
    let header = header_of(pinned).ok_or(OriginError::Stopped)?;
    remote.drop_unused_blocks();
    if header.inner.hash_slow() != header.hash {
        return Err(OriginError::WrongHeader { chain: network.name.clone(), hash: header.hash });
    }
    if let ForkBlock::Hash(_) = block {
        still_there(&remote, &header, &network).await?;
    }
    let path = cache::path_of(folder, network.chain_id, header.hash);
    let (data, file) = match cache::load(&path, header.hash) {
        Ok(Some(Loaded { data, file, .. })) => (data, file),
        Ok(None) => (PinnedData::default(), Some(cache::create(&path, &header).map_err(cache_error)?)),
        // Everything in it can be read again.
        Err(error @ CacheError::Damaged { .. }) => {
            tracing::warn!(%error, "the fork's cache is replaced");
            (PinnedData::default(), Some(cache::create(&path, &header).map_err(cache_error)?))
        }
        Err(error) => return Err(cache_error(error)),
    };
    let state = Arc::new(PinnedState::new(remote, header));
    let known = with_parents(data, &state);
    let (known, cache) = (Mutex::new(known), Mutex::new(file));
    Ok((network, Arc::new(Shared { state, known, cache, path, is_offline: false })))
}

/// Checks that the number of a block named by its hash still means that block.
async fn still_there(remote: &Arc<RemoteState>, header: &Header, network: &Network) -> Result<(), OriginError> {
    let number = BlockId::number(header.number);
    let pinned = remote.pin(number, NextBlock::default()).await;
    let there = pinned.map_err(|error| pin_error(error, network, ForkBlock::Number(header.number)))?;
    remote.drop_unused_blocks();
    if there.pinned().hash == header.hash {
        return Ok(());
    }
    let chain = network.name.clone();
    Err(OriginError::Reorganised { chain, number: header.number, hash: header.hash })
}

fn offline(
    plan: &ChainPlan,
    block: ForkBlock,
    folder: &Path,
    reason: ConnectError,
) -> Result<(Network, Arc<Shared>), OriginError> {
    let nothing = |reason| OriginError::NothingCached { chain: plan.name.clone(), reason: Box::new(reason) };
    let Some(network) = plan.network.clone() else { return Err(nothing(reason)) };
    let cached = cache::cached_blocks(folder).map_err(cache_error)?;
    let fits = |cached: &&cache::CachedBlock| {
        cached.chain_id == network.chain_id
            && match block {
                ForkBlock::Latest | ForkBlock::Finalized => true,
                ForkBlock::Number(number) => cached.number == number,
                ForkBlock::Hash(hash) => cached.hash == hash,
            }
    };
    let Some(found) = cached.iter().find(fits) else { return Err(nothing(reason)) };
    let loaded = cache::load(&found.path, found.hash).map_err(cache_error)?;
    let Some(Loaded { header, data, file }) = loaded else { return Err(nothing(reason)) };
    let rules = ChainRules { chain_id: network.chain_id, spec: network.hardfork };
    let client = RpcClient::new(NoEndpoint, false);
    let provider =
        alloy::providers::Provider::erased(ProviderBuilder::new().disable_recommended_fillers().connect_client(client));
    let remote = RemoteState::new(provider, rules, RemoteLimits::default());
    let state = Arc::new(PinnedState::new(remote, header));
    let known = with_parents(data, &state);
    let shared =
        Shared { state, known: Mutex::new(known), cache: Mutex::new(file), path: found.path.clone(), is_offline: true };
    Ok((network, Arc::new(shared)))
}

/// The cached values, with the block hashes that the header itself contains.
fn with_parents(mut data: PinnedData, state: &PinnedState) -> PinnedData {
    data.extend(state.data.lock().clone());
    data
}

fn header_of(fork: Fork) -> Option<Header> {
    match fork.state {
        PinnedOrigin::Remote(state) => Some(state.header.clone()),
        PinnedOrigin::Devnet(_) => None,
    }
}

fn pin_error(error: ForkError, network: &Network, asked: ForkBlock) -> OriginError {
    let chain = network.name.clone();
    match error {
        ForkError::UnknownBlock { .. } => OriginError::NoBlock { chain, asked: asked.to_string() },
        other => {
            let reason = SafeText::clean(&other.to_string(), MAX_TEXT);
            let number = if let ForkBlock::Number(number) = asked { number } else { 0 };
            OriginError::Unread { chain, number, reason }
        }
    }
}

fn cache_error(error: CacheError) -> OriginError {
    OriginError::Cache(Arc::new(error))
}

/// Transport without an endpoint.
#[derive(Debug, Clone, Copy)]
struct NoEndpoint;

impl tower::Service<RequestPacket> for NoEndpoint {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), TransportError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: RequestPacket) -> Self::Future {
        let error = ProviderError::Local { detail: SafeText::clean("no endpoint responded at the start", 80) };
        Box::pin(std::future::ready(Err(error.into())))
    }
}
