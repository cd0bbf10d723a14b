//! Pool discovery on a chain: finds the pools between some tokens and reads their state at one block, in three rounds
//! of batched calls. Snapshots are cached for the newest block.
//!
//! V2 and V3 pools are found by their CREATE2 addresses, without asking the factory: a call to a missing pool finds no
//! code. V4 pools are found by the keys with the usual fees and without a hook (see `keyed`).

mod keyed;
mod ticks;

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::{DynProvider, Provider};
use parking_lot::Mutex;

use self::keyed::V4Contracts;
use self::ticks::TickRequest;
use super::address::{V2_PAIR_INIT_CODE_HASH, V3_POOL_INIT_CODE_HASH, sort_tokens, v2_pair, v3_pool};
use super::pool::{Pool, PoolError};
use super::routing::{NamedPath, PoolSet, RebuildError, Route, RouteError, RouteRequest, best_route, rebuild};
use super::v2::V2Pool;
use super::v3::{V3Pool, V3State};
use bardo_abi::uniswap_v2::UniswapV2Pair;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_abi::uniswap_v4::PoolKey;
use golem_chain::multicall::CallBatch;
use golem_chain::network::{KnownContract, Network};
use golem_chain::provider::ProviderError;

pub use self::keyed::{HookedPool, KeyedPools, keys_of};

/// V3 fee tiers in hundredths of a basis point, each with the tick spacing that the factory assigns. V4 allows any; these
/// are usual there too.
pub const FEE_TIERS: [(u32, i32); 4] = [(100, 1), (500, 10), (3000, 60), (10_000, 200)];

/// Listed tokens that routes may pass through, besides the wrapped native token.
pub(super) const BASE_SYMBOLS: [&str; 4] = ["USDC", "USDT", "DAI", "WBTC"];

/// Maximum price impact, in thousandths, at which the ticks near the price are sufficient. A better route cannot leave
/// these ticks: at constant liquidity that would take twice the amount.
const NEAR_IMPACT: u64 = 100;

/// Maximum number of cached snapshots of the newest block.
const KEPT: usize = 16;

/// Range of ticks that is read of each V3 and V4 pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TickReach {
    /// Ticks near the price.
    Near,
    /// All initialized ticks.
    Whole,
}

/// Pools of some tokens at one block.
#[derive(Debug, Clone)]
pub struct PoolSnapshot {
    /// Number of the block.
    pub block_number: u64,
    /// Hash of the block, by which the state was read.
    pub block_hash: B256,
    /// Timestamp of the block, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// Base fee of the block in wei; `None` before EIP-1559.
    pub base_fee: Option<u64>,
    /// Pools with valid state.
    pub pools: PoolSet,
    /// Errors of pools that were left out because of an invalid state.
    pub refused: Vec<PoolError>,
}

/// Error in reading pools or finding a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// Missing entry in the network's address book.
    #[error("the address book of {network} has no {missing}; without it pools cannot be read there")]
    NotHere {
        /// Name of the network.
        network: String,
        /// Name of the missing contract.
        missing: &'static str,
    },
    /// Block that the endpoint does not know.
    #[error("block {block} is unknown; use a recent one")]
    NoBlock {
        /// Block that was requested.
        block: String,
    },
    /// Error of the chain's endpoint.
    #[error(transparent)]
    Chain(#[from] ProviderError),
    /// Readable pools without a route.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// Pool reader for one chain.
#[derive(Debug)]
pub struct PoolReader {
    provider: DynProvider,
    multicall: Address,
    v2_factory: Option<Address>,
    v3_factory: Option<Address>,
    v4: Option<V4Contracts>,
    bases: Vec<Address>,
    kept: Mutex<Vec<CachedPools>>,
}

#[derive(Debug, Clone)]
struct CachedPools {
    tokens: Vec<Address>,
    reach: TickReach,
    snapshot: Arc<PoolSnapshot>,
}

/// Header fields of the pinned block.
#[derive(Debug, Clone, Copy)]
struct PinnedHeader {
    number: u64,
    hash: B256,
    timestamp: u64,
    base_fee: Option<u64>,
}

impl PoolReader {
    /// Creates a reader for a network with Multicall3 and at least one of the two factories in its address book.
    ///
    /// # Errors
    /// [`DiscoveryError::NotHere`] with the missing contract.
    pub fn new(provider: DynProvider, network: &Network) -> Result<Self, DiscoveryError> {
        let book = &network.book;
        let missing = |missing| DiscoveryError::NotHere { network: network.name.clone(), missing };
        let multicall = book.contract(KnownContract::Multicall3).ok_or_else(|| missing("Multicall3"))?;
        let (v2_factory, v3_factory) =
            (book.contract(KnownContract::V2Factory), book.contract(KnownContract::V3Factory));
        if v2_factory.is_none() && v3_factory.is_none() {
            return Err(missing("Uniswap V2 or V3 factory"));
        }
        let listed = book.tokens().iter().filter(|token| BASE_SYMBOLS.contains(&token.symbol.as_str()));
        let bases = book.contract(KnownContract::WrappedNative).into_iter().chain(listed.map(|token| token.address));
        Ok(Self {
            provider,
            multicall,
            v2_factory,
            v3_factory,
            v4: V4Contracts::of(book),
            bases: bases.collect(),
            kept: Mutex::default(),
        })
    }

    /// Returns the pools between any two of `tokens` and the network's base tokens, at `block`. Repeated requests for
    /// the same block return the cached snapshot.
    ///
    /// # Errors
    /// Returns a [`DiscoveryError`] if the chain does not answer or does not know the block.
    pub async fn pools(
        &self,
        tokens: &[Address],
        block: BlockId,
        reach: TickReach,
    ) -> Result<Arc<PoolSnapshot>, DiscoveryError> {
        let tokens: Vec<Address> =
            tokens.iter().chain(&self.bases).copied().collect::<BTreeSet<_>>().into_iter().collect();
        let pin = self.pin(block).await?;
        let found =
            |kept: &CachedPools| kept.snapshot.block_hash == pin.hash && kept.tokens == tokens && kept.reach == reach;
        if let Some(kept) = self.kept.lock().iter().find(|kept| found(kept)) {
            return Ok(Arc::clone(&kept.snapshot));
        }
        let snapshot = Arc::new(self.read(&tokens, pin, reach).await?);
        let mut kept = self.kept.lock();
        kept.retain(|kept| kept.snapshot.block_hash == pin.hash);
        kept.truncate(KEPT - 1);
        kept.push(CachedPools { tokens, reach, snapshot: Arc::clone(&snapshot) });
        Ok(snapshot)
    }

    /// Finds the best route at `block`: first over the ticks near the price, then over all ticks if the former do not
    /// suffice.
    ///
    /// # Errors
    /// [`DiscoveryError::Route`] if there is none, otherwise the errors of [`PoolReader::pools`].
    pub async fn route(
        &self,
        request: &RouteRequest,
        block: BlockId,
    ) -> Result<(Route, Arc<PoolSnapshot>), DiscoveryError> {
        let tokens = [request.token_in, request.token_out];
        let near = self.pools(&tokens, block, TickReach::Near).await?;
        let bound = super::ratio::Ratio::of(U256::from(NEAR_IMPACT), U256::from(1000));
        match best_route(&near.pools, request) {
            Ok(route) if bound.is_some_and(|bound| route.price_impact <= bound) => return Ok((route, near)),
            Ok(_) | Err(RouteError::InsufficientLiquidity { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let whole = self.pools(&tokens, BlockId::from(near.block_hash), TickReach::Whole).await?;
        Ok((best_route(&whole.pools, request)?, whole))
    }

    /// Computes the route along the paths `named` at `block`. Their pools are between the request's tokens and the
    /// tokens `between`. The computation uses the ticks near the price, and all ticks if those do not suffice.
    ///
    /// # Errors
    /// The outer error is one of [`PoolReader::pools`]; the inner one says why the paths give no route.
    pub async fn along(
        &self,
        request: &RouteRequest,
        named: &[NamedPath],
        between: &[Address],
        block: BlockId,
    ) -> Result<Result<(Route, Arc<PoolSnapshot>), RebuildError>, DiscoveryError> {
        let ends = [request.token_in, request.token_out];
        // A service that names the native token by the zero address lists the wrapped token as an intermediate one.
        let tokens: Vec<Address> = between.iter().copied().filter(|token| !ends.contains(token)).chain(ends).collect();
        let near = self.pools(&tokens, block, TickReach::Near).await?;
        let bound = super::ratio::Ratio::of(U256::from(NEAR_IMPACT), U256::from(1000));
        match rebuild(&near.pools, request, named) {
            Ok(route) if bound.is_some_and(|bound| route.price_impact <= bound) => return Ok(Ok((route, near))),
            Ok(_) | Err(RebuildError::CannotFill) => {}
            Err(wrong) => return Ok(Err(wrong)),
        }
        let whole = self.pools(&tokens, BlockId::from(near.block_hash), TickReach::Whole).await?;
        Ok(rebuild(&whole.pools, request, named).map(|route| (route, whole)))
    }

    async fn pin(&self, block: BlockId) -> Result<PinnedHeader, DiscoveryError> {
        let found = self.provider.get_block(block).await.map_err(ProviderError::from)?;
        let found = found.ok_or_else(|| DiscoveryError::NoBlock { block: format!("{block:?}") })?;
        let header = &found.header;
        Ok(PinnedHeader {
            number: header.number,
            hash: header.hash,
            timestamp: header.timestamp,
            base_fee: header.base_fee_per_gas,
        })
    }

    async fn read(
        &self,
        tokens: &[Address],
        pin: PinnedHeader,
        reach: TickReach,
    ) -> Result<PoolSnapshot, DiscoveryError> {
        let block = BlockId::from(pin.hash);
        let pairs = tokens.iter().enumerate().flat_map(|(at, a)| tokens.iter().skip(at + 1).map(move |b| (*a, *b)));
        let keys: Vec<PoolKey> = pairs.flat_map(|(a, b)| self.usual_keys(a, b)).collect();
        let (contracts, keyed) =
            futures::try_join!(self.read_contracts(tokens, block, reach), self.read_keyed(&keys, block, reach))?;
        let (mut pools, mut refused) = contracts;
        pools.extend(keyed.pools.into_iter().map(Pool::from));
        refused.extend(keyed.refused);
        Ok(PoolSnapshot {
            block_number: pin.number,
            block_hash: pin.hash,
            timestamp: pin.timestamp,
            base_fee: pin.base_fee,
            pools: PoolSet::new(pools),
            refused,
        })
    }

    /// Reads the pools that have a contract; returns those with valid state, and the errors of the others.
    async fn read_contracts(
        &self,
        tokens: &[Address],
        block: BlockId,
        reach: TickReach,
    ) -> Result<(Vec<Pool>, Vec<PoolError>), DiscoveryError> {
        let (pairs, mut pools) = self.read_prices(tokens, block).await?;
        let requests = pools.iter().filter_map(|pool| {
            Some(TickRequest {
                id: pool.id,
                contract: pool.id.contract()?,
                tick: pool.tick,
                spacing: pool.tick_spacing,
            })
        });
        let known = self.read_ticks(&requests.collect::<Vec<_>>(), block, reach).await?;
        for (pool, known) in pools.iter_mut().zip(known) {
            (pool.ticks, pool.known_ticks) = (known.ticks, known.range);
        }
        let (mut whole, mut refused) = (Vec::with_capacity(pairs.len() + pools.len()), Vec::new());
        whole.extend(pairs.into_iter().map(Pool::from));
        for state in pools {
            match V3Pool::new(state) {
                Ok(pool) => whole.push(pool.into()),
                Err(error) => refused.push(error),
            }
        }
        Ok((whole, refused))
    }

    /// Reads the reserves of existing pairs and the prices of existing pools; the pools' ticks are read later.
    async fn read_prices(
        &self,
        tokens: &[Address],
        block: BlockId,
    ) -> Result<(Vec<V2Pool>, Vec<V3State>), DiscoveryError> {
        let mut calls = CallBatch::default();
        let (mut pairs, mut pools) = (Vec::new(), Vec::new());
        for (at, a) in tokens.iter().enumerate() {
            for b in tokens.iter().skip(at + 1) {
                let (token0, token1) = sort_tokens(*a, *b);
                if let Some(factory) = self.v2_factory {
                    let address = v2_pair(factory, token0, token1, V2_PAIR_INIT_CODE_HASH);
                    pairs.push((address, token0, token1, calls.push(address, &UniswapV2Pair::getReservesCall {})));
                }
                let Some(factory) = self.v3_factory else { continue };
                for (fee, spacing) in FEE_TIERS {
                    let address = v3_pool(factory, token0, token1, fee, V3_POOL_INIT_CODE_HASH);
                    let slot0 = calls.push(address, &UniswapV3Pool::slot0Call {});
                    let liquidity = calls.push(address, &UniswapV3Pool::liquidityCall {});
                    pools.push((address, token0, token1, fee, spacing, slot0, liquidity));
                }
            }
        }
        let answers = calls.send(&self.provider, self.multicall, block).await?;
        let pairs = pairs.into_iter().filter_map(|(address, token0, token1, reserves)| {
            let reserves = reserves.take(&answers)?;
            let (reserve0, reserve1) = (reserves.reserve0.to::<u128>(), reserves.reserve1.to::<u128>());
            (reserve0 > 0 && reserve1 > 0).then_some(V2Pool { address, token0, token1, reserve0, reserve1 })
        });
        let pools = pools.into_iter().filter_map(|(address, token0, token1, fee, tick_spacing, slot0, liquidity)| {
            let (slot0, liquidity) = (slot0.take(&answers)?, liquidity.take(&answers)?);
            let sqrt_price_x96 = U256::from(slot0.sqrtPriceX96);
            // A pool that was created but not initialized has no price.
            let priced = !sqrt_price_x96.is_zero();
            let tick = slot0.tick.as_i32();
            let (ticks, known_ticks) = (Vec::new(), tick..=tick);
            let state = V3State {
                id: address.into(),
                token0,
                token1,
                fee,
                tick_spacing,
                sqrt_price_x96,
                liquidity,
                tick,
                ticks,
                known_ticks,
            };
            priced.then_some(state)
        });
        Ok((pairs.collect(), pools.collect()))
    }
}
