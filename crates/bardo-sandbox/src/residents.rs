//! Background actors on a rehearsal: the market's traders and the order service with its fillers, on the pools and
//! reactors of a live network.
//!
//! The pools are found through the network's factories, and the market starts at their prices. Each actor gets, of every
//! token, as much as the pool with the largest balance holds; nobody mints, since a live token has no open mint. Price
//! feeds are not updated: their owners are elsewhere.
//!
//! Not here: relayers. They settle between two chains, through contracts that no public network has.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, TxKind, U256, U512, aliases::U24};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use serde::{Deserialize, Serialize};

use super::actors::{ActorRole, ActorTransaction, Actors, send};
use super::background_actors::BackgroundActors;
use super::contracts::MULTICALL3;
use super::error::SandboxError;
use super::genesis::{DeployedToken, Deployment, GenesisPool};
use super::market::pool_sqrt_price;
use super::math::{PricedToken, shift, sqrt_price_x96};
use super::plan::{ChainSetup, ETHEREUM, PoolSetup, SandboxToken, Venue};
use super::target::{AssetPrices, DOLLAR, PriceE8, PricedAsset};
use bardo_abi::erc20::Erc20;
use bardo_abi::multicall3::Multicall3;
use bardo_abi::uniswap_v2::{UniswapV2Factory, UniswapV2Pair};
use bardo_abi::uniswap_v3::{UniswapV3Factory, UniswapV3Pool};
use golem_chain::devnet::Chain;
use golem_chain::fork::holdings::Holding;
use golem_chain::network::{KnownContract, Network};

/// Smallest pool in which the market trades, in dollars.
const LEAST_POOL_DOLLARS: u64 = 50_000;
/// Largest distance of a pool's price from that of the deepest pools, in parts per million. A pool that is further away
/// is abandoned; arbitrage would begin with a jump of its price.
const LARGEST_DISTANCE: i32 = 50_000;
/// Native balance of an actor, in wei.
const ACTOR_BALANCE: u128 = 10_000_000_000_000_000_000_000;
/// Gas limit of an allowance.
const APPROVE_GAS: u64 = 150_000;

/// Actors that hold tokens on a rehearsal.
const HOLDERS: [ActorRole; 6] = [
    ActorRole::Arbitrageur,
    ActorRole::FirstTrader,
    ActorRole::SecondTrader,
    ActorRole::FirstFiller,
    ActorRole::SecondFiller,
    ActorRole::ThirdFiller,
];
/// Actors that trade through the routers.
const TRADERS: [ActorRole; 3] = [ActorRole::Arbitrageur, ActorRole::FirstTrader, ActorRole::SecondTrader];
/// Reactors that the order service settles through, with their keys in a deployment.
const REACTORS: [(&str, KnownContract); 3] = [
    ("v2DutchReactor", KnownContract::V2DutchReactor),
    ("v3DutchReactor", KnownContract::V3DutchReactor),
    ("priorityReactor", KnownContract::PriorityReactor),
];

/// Properties of a rehearsal's market that a kept rehearsal stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptMarket {
    /// Seed of the market.
    pub seed: u64,
    /// Begin of the market, in seconds since the Unix epoch.
    pub began: u64,
    /// Anchor prices by ticker, in dollars with eight decimals.
    anchors: BTreeMap<String, u64>,
}

/// Gives the chain of a rehearsal its actors, and mines the block in which they approve the routers. `network` is the
/// rehearsal's network; the address book gets the order service's cosigner and the code hashes of the reactors.
///
/// # Errors
/// [`SandboxError::NoMarket`] if the network has no pools to trade in, or the error of an actor's transaction.
pub fn settle(
    chain: &mut Chain,
    network: &mut Network,
    seed: u64,
) -> Result<(BackgroundActors, KeptMarket), SandboxError> {
    let actors = Actors::new()?;
    let mut found = FoundMarket::of(chain, network)?;
    found.fund(chain, &actors)?;
    let started = AssetPrices::of_assets(|asset| found.price(asset));
    let anchors = started.anchors_of_start(seed);
    let began = chain.next_context().timestamp;
    let deployment = found.deployment(chain, network, &actors)?;
    approve(chain, &deployment, &actors)?;
    let anchored =
        PricedAsset::ALL.map(|asset| (asset.ticker().to_owned(), u64::try_from(anchors.of(asset)).unwrap_or(u64::MAX)));
    let kept = KeptMarket { seed, began, anchors: anchored.into() };
    Ok((residents(&kept, deployment, actors, network), kept))
}

/// The actors of a kept rehearsal, which have been settled on its chain before.
///
/// # Errors
/// [`SandboxError::NoMarket`] if the pools are gone.
pub fn resume(chain: &mut Chain, network: &mut Network, kept: &KeptMarket) -> Result<BackgroundActors, SandboxError> {
    let actors = Actors::new()?;
    let deployment = FoundMarket::of(chain, network)?.deployment(chain, network, &actors)?;
    Ok(residents(kept, deployment, actors, network))
}

fn residents(kept: &KeptMarket, deployment: Deployment, actors: Actors, network: &mut Network) -> BackgroundActors {
    network.book.set("orderCosigner", deployment.cosigner);
    for (key, hash) in &deployment.code_hashes {
        network.book.set_code_hash(key, *hash);
    }
    let anchors = AssetPrices::of_assets(|asset| kept.anchors.get(asset.ticker()).copied().map(PriceE8::from));
    let tokens: Vec<Address> = deployment.tokens.values().copied().collect();
    let residents = BackgroundActors::new(kept.seed, kept.began, Arc::new(deployment), actors).around(anchors);
    residents.order_service().set_stocked(&tokens);
    residents
}

/// A pool of the network, with what it holds.
#[derive(Debug, Clone, Copy)]
struct FoundPool {
    pool: GenesisPool,
    balance0: U256,
    balance1: U256,
    sqrt_price: U256,
}

/// Tokens and pools of the network in which a market is possible.
struct FoundMarket {
    chain_name: String,
    pools: Vec<FoundPool>,
    prices: BTreeMap<SandboxToken, PriceE8>,
}

impl FoundMarket {
    fn of(chain: &Chain, network: &Network) -> Result<Self, SandboxError> {
        let none = || SandboxError::NoMarket { network: network.name.clone() };
        let pools = pools(chain, network).ok_or_else(none)?;
        let mut found = Self { chain_name: network.name.clone(), pools, prices: BTreeMap::new() };
        found.derive_prices();
        found.keep_sound_pools();
        if found.pools.is_empty() || !found.prices.contains_key(&SandboxToken::Weth) {
            return Err(none());
        }
        Ok(found)
    }

    /// Prices of tokens, from USDC at a dollar on: each comes from the pool with the most of an already priced token
    /// in it.
    fn derive_prices(&mut self) {
        self.prices.insert(SandboxToken::Usdc, DOLLAR);
        loop {
            let next = self.pools.iter().filter_map(|found| {
                let (token0, token1) = (found.pool.token0.token, found.pool.token1.token);
                match (self.prices.get(&token0), self.prices.get(&token1)) {
                    (Some(price), None) => {
                        let depth = dollars(found.balance0, quoted(token0, *price));
                        Some((depth, token1, price_of_token1(found.sqrt_price, quoted(token0, *price), token1)?))
                    }
                    (None, Some(price)) => {
                        let depth = dollars(found.balance1, quoted(token1, *price));
                        Some((depth, token0, price_of_token0(found.sqrt_price, quoted(token1, *price), token0)?))
                    }
                    (Some(_), Some(_)) | (None, None) => None,
                }
            });
            let Some((_, token, price)) = next.max_by_key(|(depth, ..)| *depth) else { return };
            self.prices.insert(token, price);
        }
    }

    fn keep_sound_pools(&mut self) {
        let prices = &self.prices;
        self.pools.retain_mut(|found| {
            let of = |token: SandboxToken| prices.get(&token).map(|price| quoted(token, *price));
            let (Some(token0), Some(token1)) = (of(found.pool.token0.token), of(found.pool.token1.token)) else {
                return false;
            };
            found.pool.dollars = dollars(found.balance0, token0).saturating_add(dollars(found.balance1, token1));
            let expected = sqrt_price_x96(token0, token1);
            let is_near = found.sqrt_price > shift(expected, -LARGEST_DISTANCE)
                && found.sqrt_price < shift(expected, LARGEST_DISTANCE);
            is_near && found.pool.dollars >= LEAST_POOL_DOLLARS
        });
    }

    fn price(&self, asset: PricedAsset) -> Option<PriceE8> {
        self.prices.iter().find(|(token, _)| token.plan().asset == asset).map(|(_, price)| *price)
    }

    /// Gives every actor as much of each token as the richest pool has. Tokens for which this is impossible leave the
    /// market.
    fn fund(&mut self, chain: &mut Chain, actors: &Actors) -> Result<(), SandboxError> {
        let mut richest: BTreeMap<SandboxToken, (DeployedToken, Address, U256)> = BTreeMap::new();
        for found in &self.pools {
            let sides = [(found.pool.token0, found.balance0), (found.pool.token1, found.balance1)];
            for (token, balance) in sides {
                let best = richest.entry(token.token).or_insert((token, found.pool.address, balance));
                if balance > best.2 {
                    *best = (token, found.pool.address, balance);
                }
            }
        }
        let mut missing = Vec::new();
        for (token, pool, _) in richest.values() {
            for role in HOLDERS {
                let actor = actors.address(role);
                let call = |owner| Bytes::from(Erc20::balanceOfCall { owner }.abi_encode());
                let holding = Holding { contract: token.address, of_owner: call(*pool), of_stand_in: call(actor) };
                let copied = chain.copy_holdings(*pool, actor, &[holding]);
                let left = copied.map_err(|reason| SandboxError::Unfunded { token: token.token.plan().key, reason })?;
                if !left.is_empty() {
                    missing.push(token.token);
                }
            }
        }
        for role in ActorRole::FUNDED {
            chain.open_account(actors.address(role), U256::from(ACTOR_BALANCE));
        }
        let lacks = |token: SandboxToken| missing.contains(&token);
        self.pools.retain(|found| !lacks(found.pool.token0.token) && !lacks(found.pool.token1.token));
        self.prices.retain(|token, _| !lacks(*token));
        if self.pools.is_empty() || !self.prices.contains_key(&SandboxToken::Weth) {
            return Err(SandboxError::NoMarket { network: self.chain_name.clone() });
        }
        Ok(())
    }

    fn deployment(&self, chain: &Chain, network: &Network, actors: &Actors) -> Result<Deployment, SandboxError> {
        let none = || SandboxError::NoMarket { network: network.name.clone() };
        let book = &network.book;
        let contracts: BTreeMap<&'static str, Address> =
            REACTORS.into_iter().filter_map(|(key, contract)| Some((key, book.contract(contract)?))).collect();
        let code_hashes = contracts.iter().map(|(key, at)| (*key, chain.state().code_hash(*at))).collect();
        let sides = self.pools.iter().flat_map(|found| [found.pool.token0, found.pool.token1]);
        Ok(Deployment {
            plan: ChainSetup {
                name: "rehearsal",
                chain_id: network.chain_id,
                block_millis: network.block_millis,
                base_fee: chain.next_base_fee(),
                tokens: &[],
                pools: &[],
                v4_pools: &[],
                demo_tokens: &[],
                demo_ether: U256::ZERO,
            },
            contracts,
            enforcers: BTreeMap::new(),
            tokens: sides.map(|side| (side.token, side.address)).collect(),
            feeds: BTreeMap::new(),
            pools: self.pools.iter().map(|found| found.pool).collect(),
            v4_pools: Vec::new(),
            weth: book.contract(KnownContract::WrappedNative).ok_or_else(none)?,
            swap_router: book.contract(KnownContract::SwapRouter02).ok_or_else(none)?,
            v2_router: book.contract(KnownContract::V2Router).unwrap_or_default(),
            feed_keeper: Address::ZERO,
            cosigner: actors.cosigner().address(),
            code_hashes,
        })
    }
}

/// Pools of the network in which both tokens are known; `None` if the network lacks a contract that is needed to find
/// or use them.
fn pools(chain: &Chain, network: &Network) -> Option<Vec<FoundPool>> {
    let book = &network.book;
    let (weth, _router) = (book.contract(KnownContract::WrappedNative)?, book.contract(KnownContract::SwapRouter02)?);
    let token = |token: SandboxToken| {
        let plan = token.plan();
        let known =
            book.tokens().iter().find(|known| known.symbol == plan.symbol && known.decimals == plan.decimals)?;
        let is_other_ether = token == SandboxToken::Weth && known.address != weth;
        (!token.is_bad() && !is_other_ether).then_some(DeployedToken { token, address: known.address })
    };
    let v2 = book.contract(KnownContract::V2Factory).filter(|_| book.contract(KnownContract::V2Router).is_some());
    let v3 = book.contract(KnownContract::V3Factory);
    let wanted: Vec<(&PoolSetup, DeployedToken, DeployedToken, Address)> = ETHEREUM
        .pools
        .iter()
        .filter_map(|setup| {
            let (a, b) = (token(setup.a)?, token(setup.b)?);
            let (token0, token1) = if a.address < b.address { (a, b) } else { (b, a) };
            let factory = match setup.venue {
                Venue::V2 => v2?,
                Venue::V3(_) => v3?,
            };
            Some((setup, token0, token1, factory))
        })
        .collect();
    let asked = wanted.iter().map(|(setup, token0, token1, factory)| {
        let call = match setup.venue {
            Venue::V2 => UniswapV2Factory::getPairCall { tokenA: token0.address, tokenB: token1.address }.abi_encode(),
            Venue::V3(fee) => UniswapV3Factory::getPoolCall {
                tokenA: token0.address,
                tokenB: token1.address,
                fee: U24::saturating_from(fee),
            }
            .abi_encode(),
        };
        (*factory, call)
    });
    let there: Vec<GenesisPool> = many(chain, asked)?
        .into_iter()
        .zip(&wanted)
        .filter_map(|(answer, (setup, token0, token1, _))| {
            let address = UniswapV2Factory::getPairCall::abi_decode_returns(&answer?).ok()?;
            let pool = GenesisPool { address, venue: setup.venue, token0: *token0, token1: *token1, dollars: 0 };
            (!address.is_zero()).then_some(pool)
        })
        .collect();
    let asked = there.iter().flat_map(|pool| {
        let price = match pool.venue {
            Venue::V2 => UniswapV2Pair::getReservesCall {}.abi_encode(),
            Venue::V3(_) => UniswapV3Pool::slot0Call {}.abi_encode(),
        };
        let balance = Erc20::balanceOfCall { owner: pool.address }.abi_encode();
        // The price is read from storage later; this call fetches it along with the others.
        [(pool.token0.address, balance.clone()), (pool.token1.address, balance), (pool.address, price)]
    });
    let answers = many(chain, asked)?;
    let found = there.into_iter().zip(answers.chunks_exact(3)).filter_map(|(pool, answers)| {
        let [Some(balance0), Some(balance1), Some(_)] = answers else { return None };
        let amount = |answer: &Bytes| Erc20::balanceOfCall::abi_decode_returns(answer).ok();
        let sqrt_price = pool_sqrt_price(chain.state(), &pool);
        let (balance0, balance1) = (amount(balance0)?, amount(balance1)?);
        (!sqrt_price.is_zero()).then_some(FoundPool { pool, balance0, balance1, sqrt_price })
    });
    Some(found.collect())
}

/// Results of calls on the chain's latest state, in one execution; `None` for a call that fails, and for all if the
/// chain cannot be read.
fn many(chain: &Chain, calls: impl Iterator<Item = (Address, Vec<u8>)>) -> Option<Vec<Option<Bytes>>> {
    let calls = calls.map(|(target, call)| Multicall3::Call3 { target, allowFailure: true, callData: call.into() });
    let request = TransactionRequest {
        to: Some(TxKind::Call(MULTICALL3)),
        input: Bytes::from(Multicall3::aggregate3Call { calls: calls.collect() }.abi_encode()).into(),
        ..Default::default()
    };
    let outcome = chain.call(&request, BlockId::latest(), None, None).ok()?;
    let results = Multicall3::aggregate3Call::abi_decode_returns(&outcome.output).ok()?;
    Some(results.into_iter().map(|result| result.success.then_some(result.returnData)).collect())
}

/// Lets the traders approve the routers for every token, in one block.
fn approve(chain: &mut Chain, deployment: &Deployment, actors: &Actors) -> Result<(), SandboxError> {
    let routers = [deployment.swap_router, deployment.v2_router];
    for role in TRADERS {
        for token in deployment.tokens.values() {
            for spender in routers.into_iter().filter(|router| !router.is_zero()) {
                let call = Erc20::approveCall { spender, value: U256::MAX }.abi_encode();
                send(chain, actors, ActorTransaction::call(role, *token, call, APPROVE_GAS, APPROVING))?;
            }
        }
    }
    let block = chain.mine();
    match block.receipts.iter().find_map(|receipt| receipt.failure.clone()) {
        Some(failure) => Err(SandboxError::Failed { step: APPROVING, failure }),
        None => Ok(()),
    }
}

/// Purpose of the actors' first transactions.
const APPROVING: &str = "a trader's allowance for a router";

fn quoted(token: SandboxToken, price: PriceE8) -> PricedToken {
    PricedToken { price, decimals: token.plan().decimals }
}

/// Whole dollars that an amount is worth, rounded down.
fn dollars(amount: U256, token: PricedToken) -> u64 {
    let unit = U512::from(10).pow(U512::from(token.decimals)) * U512::from(DOLLAR);
    u64::try_from(U512::from(amount) * U512::from(token.price) / unit).unwrap_or(u64::MAX)
}

/// Price of a pool's token 0 from that of token 1; `None` if it is zero or out of range.
fn price_of_token0(sqrt_price: U256, token1: PricedToken, token0: SandboxToken) -> Option<PriceE8> {
    let squared = U512::from(sqrt_price) * U512::from(sqrt_price);
    let units = (unit(token0.plan().decimals), unit(token1.decimals));
    let price = ((squared.checked_mul(U512::from(token1.price))?.checked_mul(units.0)?) >> 192_usize) / units.1;
    u128::try_from(price).ok().filter(|price| *price > 0)
}

/// Price of a pool's token 1 from that of token 0; `None` if it is zero or out of range.
fn price_of_token1(sqrt_price: U256, token0: PricedToken, token1: SandboxToken) -> Option<PriceE8> {
    let squared = U512::from(sqrt_price) * U512::from(sqrt_price);
    let units = (unit(token0.decimals), unit(token1.plan().decimals));
    let value = (U512::from(token0.price) * units.1) << 192_usize;
    u128::try_from(value.checked_div(squared.checked_mul(units.0)?)?).ok().filter(|price| *price > 0)
}

fn unit(decimals: u8) -> U512 {
    U512::from(10).pow(U512::from(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::aliases::U160;

    /// Both ways of deriving a price invert the square-root price within a millionth.
    #[test]
    fn a_price_is_recovered_from_its_square_root() {
        let usdc = quoted(SandboxToken::Usdc, DOLLAR);
        for price in [DOLLAR / 100, 17 * DOLLAR, 3_412 * DOLLAR + 77, 68_123 * DOLLAR] {
            for token in [SandboxToken::Weth, SandboxToken::Wbtc, SandboxToken::Dai] {
                let other = quoted(token, price);
                let first = price_of_token0(sqrt_price_x96(other, usdc), usdc, token).unwrap();
                let second = price_of_token1(sqrt_price_x96(usdc, other), usdc, token).unwrap();
                for back in [first, second] {
                    assert!(back.abs_diff(price) <= price / 1_000_000 + 1, "{token:?} {price} {back}");
                }
            }
        }
        assert_eq!(price_of_token0(U256::ZERO, usdc, SandboxToken::Weth), None);
        assert_eq!(price_of_token1(U256::ZERO, usdc, SandboxToken::Weth), None);
        let largest = U256::from(U160::MAX);
        assert_eq!(price_of_token1(largest, usdc, SandboxToken::Usdt), None);
    }
}
