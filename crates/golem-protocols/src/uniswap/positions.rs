//! Liquidity positions as their contracts hold them: the identity of a position, and its state at one block with the
//! amounts that it is worth and owed. Of V3, through the `NonfungiblePositionManager`, and of V4, through `PositionManager`
//! and `StateView`.
//!
//! | file | contents |
//! |---|---|
//! | here | identity, state, and reads of known positions |
//! | `account` | all positions of an account, in one round trip where nothing is new |
//! | `change` | change of a position, whatever its version |
//! | `exit_value` | value of a position at the price of the feeds |
//! | `keyed` | states and fees of V4 positions, and whether a hook lets their liquidity out |
//! | `pool_state` | state of the pool that a deposit goes to |
//! | `received` | V4 positions that an account was given, by their events |

mod account;
mod change;
mod exit_value;
mod keyed;
mod pool_state;
mod received;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use alloy::eips::BlockId;
use alloy::primitives::aliases::I24;
use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::providers::DynProvider;

use super::address::{V3_POOL_INIT_CODE_HASH, v3_pool};
use super::pool_id::PoolId;
use super::v3::math::MathError;
use super::v3::position::{FeeGrowth, TickRange, fee_growth_inside, owed_after_update};
use super::v4::key_hash;
use bardo_abi::uniswap_v3::{NonfungiblePositionManager, UniswapV3Pool};
use bardo_abi::uniswap_v4::PoolKey;
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::network::{KnownContract, Network};
use golem_chain::provider::ProviderError;
use golem_chain::token::TokenId;

pub use account::{
    AccountPositions, AskedPositions, MOST_COUNTED, MissingPositions, PositionAnswer, PositionKeys, PositionQuestion,
    UnreadablePositions, UnreadableSource,
};
pub use change::{ChangeKind, PositionChange};
pub use exit_value::{PricedToken, fair_sqrt_price};
pub use keyed::{KeyedContracts, fees_owed};
pub use pool_state::PoolState;

use keyed::KeyedCalls;

/// Identity of a position on its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PositionId {
    /// Token of the V3 `NonfungiblePositionManager` in the address book.
    V3(U256),
    /// Token of the V4 `PositionManager` in the address book.
    V4(U256),
}

impl PositionId {
    /// Number of the token that stands for the position.
    pub fn token(self) -> U256 {
        match self {
            Self::V3(token) | Self::V4(token) => token,
        }
    }

    /// Name of the protocol's version.
    pub fn version(self) -> &'static str {
        match self {
            Self::V3(_) => "V3",
            Self::V4(_) => "V4",
        }
    }
}

impl fmt::Display for PositionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V3(token) => token.fmt(f),
            Self::V4(token) => write!(f, "v4:{token}"),
        }
    }
}

/// Text that is not the identity of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use the number of the position's token in decimal digits: \"42\" or \"v3:42\" for V3, \"v4:42\" for V4")]
pub struct NoPositionId;

impl FromStr for PositionId {
    type Err = NoPositionId;

    fn from_str(text: &str) -> Result<Self, NoPositionId> {
        let text = text.trim().to_ascii_lowercase();
        let (digits, version): (&str, fn(U256) -> Self) = match text.strip_prefix("v4:") {
            Some(digits) => (digits, Self::V4),
            None => (text.strip_prefix("v3:").unwrap_or(&text), Self::V3),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = U256::from_str_radix(digits, 10).ok().filter(|_| is_number);
        number.map(version).ok_or(NoPositionId)
    }
}

/// Pool of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionPool {
    /// Contract of a V3 pool.
    Contract(Address),
    /// Key of a V4 pool.
    Keyed(PoolKey),
}

impl PositionPool {
    /// Identity of the pool.
    pub fn id(&self) -> PoolId {
        match self {
            Self::Contract(pool) => PoolId::Contract(*pool),
            Self::Keyed(key) => PoolId::Keyed(key_hash(key)),
        }
    }

    /// Hook of a V4 pool; `None` without one.
    pub fn hook(&self) -> Option<Address> {
        match self {
            Self::Contract(_) => None,
            Self::Keyed(key) => Some(key.hooks).filter(|hook| !hook.is_zero()),
        }
    }
}

/// Part of a position that never changes: its pool and its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionKey {
    /// Identity of the position.
    pub id: PositionId,
    /// Token with the lower address; the zero address is the native token.
    pub token0: Address,
    /// Token with the higher address.
    pub token1: Address,
    /// Fee of the pool in hundredths of a basis point; 0x800000 of a V4 pool whose hook sets it.
    pub fee: u32,
    /// Range of the position.
    pub range: TickRange,
    /// Pool of the position.
    pub pool: PositionPool,
}

impl PositionKey {
    /// Token0 and token1, the native token as such.
    pub fn tokens(&self) -> [TokenId; 2] {
        [self.token0, self.token1].map(token_of)
    }
}

/// Token of a pool: the zero address is the native one.
pub fn token_of(address: Address) -> TokenId {
    if address.is_zero() { TokenId::Native } else { TokenId::Erc20(address) }
}

/// Prospect of a withdrawal, as far as code of others takes part in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Nobody's code takes part, or a simulated withdrawal paid all that it should.
    Open,
    /// A hook or a subscriber takes part, and no withdrawal was simulated.
    Untried,
    /// A simulated withdrawal reverts, or pays less than the pool owes.
    Locked,
}

/// State of a position at one block. Amounts are in raw units of token0 and token1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionState {
    /// Its pool and range.
    pub key: PositionKey,
    /// Account that the position belongs to.
    pub owner: Address,
    /// Liquidity of the position.
    pub liquidity: u128,
    /// Liquidity of the whole pool at the current price.
    pub pool_liquidity: u128,
    /// Square root of the pool's price in raw token1 per raw token0, times 2^96.
    pub sqrt_price_x96: U256,
    /// Current tick of the pool.
    pub tick: i32,
    /// Amounts that a `collect` would pay now: fees, and in V3 what was withdrawn and not collected.
    pub owed: [u128; 2],
    /// Prospect of a withdrawal.
    pub exit: Exit,
}

impl PositionState {
    /// Returns true if there is nothing in the position, and nothing to collect.
    pub fn is_empty(&self) -> bool {
        self.liquidity == 0 && self.owed == [0, 0]
    }

    /// Returns true if the position's liquidity is in use, and earns fees.
    pub fn is_in_range(&self) -> bool {
        self.key.range.contains(self.tick)
    }

    /// Amounts that a withdrawal of `liquidity` pays at the current price, without fees.
    ///
    /// # Errors
    /// [`MathError`] if an amount exceeds 256 bits.
    pub fn withdrawn(&self, liquidity: u128) -> Result<[U256; 2], MathError> {
        self.key.range.amounts(self.sqrt_price_x96, liquidity, false)
    }

    /// Amounts of the whole position at the lower and at the upper price of its range, without fees.
    ///
    /// # Errors
    /// [`MathError`] if an amount exceeds 256 bits.
    pub fn at_bounds(&self) -> Result<[[U256; 2]; 2], MathError> {
        let [low, high] = self.key.range.sqrt_prices()?;
        let at = |price| self.key.range.amounts(price, self.liquidity, false);
        Ok([at(low)?, at(high)?])
    }
}

/// Contracts that positions are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionContracts {
    /// The `NonfungiblePositionManager` of V3.
    pub manager: Address,
    /// Factory of the pools.
    pub factory: Address,
    /// Multicall3, which batches the reads.
    pub multicall: Address,
    /// Contracts of V4; `None` where the address book lacks one of them.
    pub v4: Option<KeyedContracts>,
}

/// Answer to a question for one position, as far as the chain answered.
type Asked<C> = CallIndex<C>;

impl PositionContracts {
    /// Contracts of a network; the missing one as error.
    ///
    /// # Errors
    /// The contract that the address book does not have.
    pub fn of(network: &Network) -> Result<Self, KnownContract> {
        let contract = |known| network.book.contract(known).ok_or(known);
        Ok(Self {
            manager: contract(KnownContract::V3PositionManager)?,
            factory: contract(KnownContract::V3Factory)?,
            multicall: contract(KnownContract::Multicall3)?,
            v4: KeyedContracts::of(&network.book),
        })
    }

    /// Manager of a position's version; `None` without V4.
    pub fn manager_of(&self, id: PositionId) -> Option<Address> {
        match id {
            PositionId::V3(_) => Some(self.manager),
            PositionId::V4(_) => self.v4.map(|v4| v4.manager),
        }
    }

    /// Contract that holds the tokens of a pool; `None` for a V4 pool without V4.
    pub fn holder(&self, pool: &PositionPool) -> Option<Address> {
        match pool {
            PositionPool::Contract(pool) => Some(*pool),
            PositionPool::Keyed(_) => self.v4.map(|v4| v4.pools),
        }
    }

    /// Returns the number of V3 positions of an account, and the identities of those from index `from` up to `from` +
    /// `most`, in one round trip.
    ///
    /// # Errors
    /// The provider's error.
    pub async fn owned(
        &self,
        provider: &DynProvider,
        owner: Address,
        (from, most): (u64, u64),
        block: BlockId,
    ) -> Result<Option<(u64, Vec<PositionId>)>, ProviderError> {
        let mut calls = CallBatch::default();
        let count = calls.push(self.manager, &NonfungiblePositionManager::balanceOfCall { owner });
        // The number is not known yet: indices past the end are answered with an error.
        let tokens: Vec<_> = (from..from.saturating_add(most))
            .map(|index| NonfungiblePositionManager::tokenOfOwnerByIndexCall { owner, index: U256::from(index) })
            .map(|call| calls.push(self.manager, &call))
            .collect();
        let answers = calls.send(provider, self.multicall, block).await?;
        let Some(count) = count.take(&answers).and_then(|count| u64::try_from(count).ok()) else { return Ok(None) };
        let listed = usize::try_from(count.saturating_sub(from)).unwrap_or(usize::MAX);
        // A position that is in the count and cannot be read is a fault of the endpoint.
        let ids: Option<Vec<_>> =
            tokens.iter().take(listed).map(|token| token.take(&answers).map(PositionId::V3)).collect();
        Ok(ids.map(|ids| (count, ids)))
    }

    /// Returns the pools and ranges of positions, in their order and in one round trip; `None` for one that does not
    /// exist.
    ///
    /// # Errors
    /// The provider's error.
    pub async fn keys(
        &self,
        provider: &DynProvider,
        ids: &[PositionId],
        block: BlockId,
    ) -> Result<Vec<Option<PositionKey>>, ProviderError> {
        let mut calls = CallBatch::default();
        let asked: Vec<_> = ids.iter().map(|id| KeyCall::push(&mut calls, self, *id)).collect();
        let answers = calls.send(provider, self.multicall, block).await?;
        Ok(ids.iter().zip(asked).map(|(id, asked)| asked?.take(self, *id, &answers)).collect())
    }

    /// Returns the state of positions, in their order and in one round trip; `None` for one that does not exist at
    /// `block`, or does not have this key. Name the block by its hash. Where a hook takes part in a withdrawal, none has been
    /// tried yet: see [`PositionContracts::try_exits`].
    ///
    /// # Errors
    /// The provider's error.
    pub async fn states(
        &self,
        provider: &DynProvider,
        keys: &[PositionKey],
        block: BlockId,
    ) -> Result<Vec<Option<PositionState>>, ProviderError> {
        let mut calls = CallBatch::default();
        let asked = StateCalls::push(&mut calls, self, keys);
        let answers = calls.send(provider, self.multicall, block).await?;
        Ok(asked.take(self, &answers))
    }

    /// Key of a position from the manager's answer; `None` if no position can have it.
    fn key(&self, id: PositionId, of: &NonfungiblePositionManager::positionsReturn) -> Option<PositionKey> {
        let fee: u32 = of.fee.to();
        Some(PositionKey {
            id,
            token0: of.token0,
            token1: of.token1,
            fee,
            range: TickRange::new(of.tickLower.as_i32(), of.tickUpper.as_i32()).ok()?,
            pool: PositionPool::Contract(v3_pool(self.factory, of.token0, of.token1, fee, V3_POOL_INIT_CODE_HASH)),
        })
    }
}

/// Question for the pool and the range of a position.
#[derive(Debug)]
enum KeyCall {
    V3(Asked<NonfungiblePositionManager::positionsCall>),
    V4(keyed::KeyCall),
}

impl KeyCall {
    /// `None` for a V4 position where there is no V4.
    fn push(calls: &mut CallBatch, contracts: &PositionContracts, id: PositionId) -> Option<Self> {
        Some(match id {
            PositionId::V3(_) => Self::V3(calls.push(contracts.manager, &positions_call(id))),
            PositionId::V4(token) => Self::V4(keyed::KeyCall::push(calls, &contracts.v4?, token)),
        })
    }

    fn take(&self, contracts: &PositionContracts, id: PositionId, answers: &BatchResults) -> Option<PositionKey> {
        match self {
            Self::V3(asked) => contracts.key(id, &asked.take(answers)?),
            Self::V4(asked) => asked.take(answers).map(|(key, _)| key),
        }
    }
}

fn positions_call(id: PositionId) -> NonfungiblePositionManager::positionsCall {
    NonfungiblePositionManager::positionsCall { tokenId: id.token() }
}

/// Key under which a pool keeps what the manager owns of a range: `keccak256(manager ‖ lower ‖ upper)`, packed. All
/// tokens of one range share it.
fn shared_key(manager: Address, range: TickRange) -> B256 {
    let bytes = |tick: i32| {
        let [_, high, middle, low] = tick.to_be_bytes();
        [high, middle, low]
    };
    keccak256([manager.as_slice(), &bytes(range.lower()), &bytes(range.upper())].concat())
}

/// Questions for the states of positions, as a part of a batch.
#[derive(Debug)]
struct StateCalls {
    ids: Vec<PositionId>,
    v3: ContractCalls,
    v4: Option<KeyedCalls>,
}

impl StateCalls {
    fn push(calls: &mut CallBatch, contracts: &PositionContracts, keys: &[PositionKey]) -> Self {
        let v4 = contracts.v4.map(|v4| KeyedCalls::push(calls, v4, keys));
        Self { ids: keys.iter().map(|key| key.id).collect(), v3: ContractCalls::push(calls, contracts, keys), v4 }
    }

    /// States in the order of the keys; `None` for a position that does not exist or has another key.
    fn take(&self, contracts: &PositionContracts, answers: &BatchResults) -> Vec<Option<PositionState>> {
        let mut v3 = self.v3.take(contracts, answers).into_iter();
        let mut v4 = self.v4.as_ref().map(|v4| v4.take(answers)).unwrap_or_default().into_iter();
        let states = self.ids.iter().map(|id| match id {
            PositionId::V3(_) => v3.next().flatten(),
            PositionId::V4(_) => v4.next().flatten(),
        });
        states.collect()
    }
}

/// Questions for the states of V3 positions.
#[derive(Debug)]
struct ContractCalls {
    pools: BTreeMap<Address, PoolCalls>,
    ticks: BTreeMap<(Address, i32), Asked<UniswapV3Pool::ticksCall>>,
    positions: Vec<(PositionKey, Address, OwnCalls)>,
}

/// Questions for one position.
#[derive(Debug)]
struct OwnCalls {
    position: Asked<NonfungiblePositionManager::positionsCall>,
    owner: Asked<NonfungiblePositionManager::ownerOfCall>,
    shared: Asked<UniswapV3Pool::positionsCall>,
}

impl ContractCalls {
    fn push(calls: &mut CallBatch, contracts: &PositionContracts, keys: &[PositionKey]) -> Self {
        let keys: Vec<(&PositionKey, Address)> = keys
            .iter()
            .filter_map(|key| match key.pool {
                PositionPool::Contract(pool) => Some((key, pool)),
                PositionPool::Keyed(_) => None,
            })
            .collect();
        let pools: BTreeSet<Address> = keys.iter().map(|(_, pool)| *pool).collect();
        let pools = pools.into_iter().map(|pool| (pool, PoolCalls::push(calls, pool))).collect();
        let ticks: BTreeSet<(Address, i32)> =
            keys.iter().flat_map(|(key, pool)| [(*pool, key.range.lower()), (*pool, key.range.upper())]).collect();
        let ticks = ticks
            .into_iter()
            .filter_map(|(pool, tick)| {
                let call = UniswapV3Pool::ticksCall { tick: I24::try_from(tick).ok()? };
                Some(((pool, tick), calls.push(pool, &call)))
            })
            .collect();
        let manager = contracts.manager;
        let own = |(key, pool): &(&PositionKey, Address)| {
            let owner = NonfungiblePositionManager::ownerOfCall { tokenId: key.id.token() };
            let shared = UniswapV3Pool::positionsCall { key: shared_key(manager, key.range) };
            let own = OwnCalls {
                position: calls.push(manager, &positions_call(key.id)),
                owner: calls.push(manager, &owner),
                shared: calls.push(*pool, &shared),
            };
            (**key, *pool, own)
        };
        Self { pools, ticks, positions: keys.iter().map(own).collect() }
    }

    /// States in the order of the keys; `None` for a position that does not exist or has another key.
    fn take(&self, contracts: &PositionContracts, answers: &BatchResults) -> Vec<Option<PositionState>> {
        let pools: BTreeMap<Address, PoolNow> =
            self.pools.iter().filter_map(|(pool, calls)| Some((*pool, calls.take(answers)?))).collect();
        let outside = |pool: Address, tick: i32| {
            let tick = self.ticks.get(&(pool, tick))?.take(answers)?;
            Some([tick.feeGrowthOutside0X128, tick.feeGrowthOutside1X128])
        };
        let states = self.positions.iter().map(|(key, at, own)| {
            let position = own.position.take(answers)?;
            if contracts.key(key.id, &position)? != *key {
                return None;
            }
            let pool = pools.get(at)?;
            let outside = [outside(*at, key.range.lower())?, outside(*at, key.range.upper())?];
            let shared = own.shared.take(answers)?;
            Some(PositionState {
                key: *key,
                owner: own.owner.take(answers)?,
                liquidity: position.liquidity,
                pool_liquidity: pool.liquidity,
                sqrt_price_x96: pool.sqrt_price_x96,
                tick: pool.tick,
                owed: collectable(key.range, (pool.tick, pool.growth), outside, &position, &shared),
                exit: Exit::Open,
            })
        });
        states.collect()
    }
}

/// State of a pool.
#[derive(Debug, Clone, Copy)]
struct PoolNow {
    sqrt_price_x96: U256,
    tick: i32,
    liquidity: u128,
    growth: FeeGrowth,
}

/// Questions for the state of a pool.
#[derive(Debug)]
struct PoolCalls {
    slot0: Asked<UniswapV3Pool::slot0Call>,
    liquidity: Asked<UniswapV3Pool::liquidityCall>,
    growth0: Asked<UniswapV3Pool::feeGrowthGlobal0X128Call>,
    growth1: Asked<UniswapV3Pool::feeGrowthGlobal1X128Call>,
}

impl PoolCalls {
    fn push(calls: &mut CallBatch, pool: Address) -> Self {
        Self {
            slot0: calls.push(pool, &UniswapV3Pool::slot0Call {}),
            liquidity: calls.push(pool, &UniswapV3Pool::liquidityCall {}),
            growth0: calls.push(pool, &UniswapV3Pool::feeGrowthGlobal0X128Call {}),
            growth1: calls.push(pool, &UniswapV3Pool::feeGrowthGlobal1X128Call {}),
        }
    }

    fn take(&self, answers: &BatchResults) -> Option<PoolNow> {
        let slot0 = self.slot0.take(answers)?;
        Some(PoolNow {
            sqrt_price_x96: slot0.sqrtPriceX96.to(),
            tick: slot0.tick.as_i32(),
            liquidity: self.liquidity.take(answers)?,
            growth: [self.growth0.take(answers)?, self.growth1.take(answers)?],
        })
    }
}

/// Amounts that `collect` pays for a token, from the answers of the manager (`position`) and of the pool (`shared`, under the
/// manager's range; current tick and fee growth; growth outside the lower and the upper tick): what the manager owes it, but no more than the pool owes the manager for the
/// range. Both are brought up to date first, if the token has liquidity.
pub fn collectable(
    range: TickRange,
    (tick, growth): (i32, FeeGrowth),
    outside: [FeeGrowth; 2],
    position: &NonfungiblePositionManager::positionsReturn,
    shared: &UniswapV3Pool::positionsReturn,
) -> [u128; 2] {
    let owed = [position.tokensOwed0, position.tokensOwed1];
    let of_pool = [shared.tokensOwed0, shared.tokensOwed1];
    let (owed, of_pool) = if position.liquidity == 0 {
        (owed, of_pool)
    } else {
        let inside = fee_growth_inside(range, tick, growth, outside);
        let last = [position.feeGrowthInside0LastX128, position.feeGrowthInside1LastX128];
        let last_of_pool = [shared.feeGrowthInside0LastX128, shared.feeGrowthInside1LastX128];
        (
            owed_after_update(inside, last, position.liquidity, owed),
            owed_after_update(inside, last_of_pool, shared.liquidity, of_pool),
        )
    };
    let ([owed0, owed1], [most0, most1]) = (owed, of_pool);
    [owed0.min(most0), owed1.min(most1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_number_in_decimal_digits() {
        let id = |number: u64| Ok(PositionId::V3(U256::from(number)));
        assert_eq!("42".parse(), id(42));
        assert_eq!(" v3:7 ".parse(), id(7));
        assert_eq!("v4:7".parse(), Ok(PositionId::V4(U256::from(7))));
        for id in [PositionId::V3(U256::from(7)), PositionId::V4(U256::from(7))] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "v3:", "v4:", "v4:v3:1", "0x10", "-1", "1_0", "v5:1", "4 2", &"9".repeat(80)] {
            assert_eq!(text.parse::<PositionId>(), Err(NoPositionId), "{text}");
        }
    }
}
