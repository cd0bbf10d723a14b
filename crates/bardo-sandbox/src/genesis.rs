//! Genesis of a devnet chain: deploys the real contracts in signed transactions, creates and fills the pools, and funds
//! all actors. The result is bundled as a file (see `snapshot`), so this code runs only where that file is created and
//! checked.
//!
//! Not here: the list of contracts (see `plan`), and the market afterwards (see `market`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U256, aliases::I24, aliases::U24, keccak256};
use alloy::sol_types::SolValue;

use super::actors::{ActorRole, Actors};
use super::agents::{self, register_agents};
use super::async_vaults::open_async_vaults;
use super::block_builder::BlockBuilder;
use super::contracts::{self, BundledContract};
use super::deploy::deploy;
use super::error::SandboxError;
use super::hostile_hooks::settle_hostile_hooks;
use super::keys::DevnetAccount;
use super::lending::open_market;
use super::liquidity::{fill_pools, fund, make_pools};
use super::math::PricedToken;
use super::plan::{ChainSetup, PoolCurrency, SandboxToken, V4PoolSetup, Venue, tick_spacing};
use super::protocol_fees::open_fee_jar;
use super::safes::{check_safes, send_safes};
use super::spoke_pool::open_spoke_pool;
use super::target::{AssetPrices, PricedAsset};
use super::v4_pools::{fill_v4_pools, fund_v4, make_v4_pools};
use super::vaults::open_vault;
use bardo_abi::uniswap_v4::PoolKey;
use golem_chain::devnet::{Chain, ChainConfig};
use golem_chain::evm::ChainRules;

/// Gas limit of a devnet block.
pub const BLOCK_GAS: u64 = 60_000_000;

/// Initial balance of each actor, in whole ether.
const INHABITANT_ETHER: u64 = 10_000_000;

/// Initial balance of the development accounts other than the first, in whole ether.
const DEVELOPMENT_ETHER: u64 = 1_000;

/// Initial balance of each owner, client and validator of agents, in whole ether.
const AGENT_ETHER: u64 = 100;

/// Progress of a chain's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStage {
    /// Reads the chain from the genesis snapshot.
    Snapshot,
    /// Reads the chain from its storage folder.
    Kept,
    /// Deploys the contracts.
    Contracts,
    /// Creates the pools.
    Pools,
    /// Funds the actors.
    Funds,
    /// Adds liquidity to the pools.
    Liquidity,
    /// Simulates the market history.
    Past {
        /// Number of completed blocks.
        done: u64,
        /// Total number of blocks.
        of: u64,
    },
    /// The chain is running.
    Ready,
}

/// A token deployed on a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeployedToken {
    /// The token in the plan.
    pub token: SandboxToken,
    /// Address of the token contract.
    pub address: Address,
}

/// A pool on a chain, with its tokens in the order of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenesisPool {
    /// Address of the pool contract.
    pub address: Address,
    /// V2, or V3 with its fee.
    pub venue: Venue,
    /// Token with the lower address.
    pub token0: DeployedToken,
    /// Token with the higher address.
    pub token1: DeployedToken,
    /// Initial liquidity, in dollars.
    pub dollars: u64,
}

/// A V4 pool on a chain. The pool manager holds it under its id, without a contract of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V4GenesisPool {
    /// Currencies, fee, tick spacing and hook.
    pub key: PoolKey,
    /// Hash of the key.
    pub id: B256,
    /// Currency with the lower address; the native token is the lowest.
    pub currency0: PoolCurrency,
    /// Currency with the higher address.
    pub currency1: PoolCurrency,
    /// Initial liquidity, in dollars.
    pub dollars: u64,
}

impl V4GenesisPool {
    /// Locates a planned pool among the deployed tokens and hooks; `None` if one of them is missing.
    pub(super) fn locate(
        setup: &V4PoolSetup,
        tokens: &BTreeMap<SandboxToken, Address>,
        contracts: &BTreeMap<&'static str, Address>,
    ) -> Option<Self> {
        let at = |currency| match currency {
            PoolCurrency::Native => Some((Address::ZERO, currency)),
            PoolCurrency::Token(token) => Some((*tokens.get(&token)?, currency)),
        };
        let (a, b) = (at(setup.a)?, at(setup.b)?);
        let ((currency0, first), (currency1, second)) = if a.0 < b.0 { (a, b) } else { (b, a) };
        let hooks = match setup.hook {
            None => Address::ZERO,
            Some(hook) => *contracts.get(hook.key())?,
        };
        let key = PoolKey {
            currency0,
            currency1,
            fee: U24::saturating_from(setup.fee),
            tickSpacing: I24::try_from(tick_spacing(setup.fee)).ok()?,
            hooks,
        };
        let id = keccak256(key.abi_encode());
        Some(Self { key, id, currency0: first, currency1: second, dollars: setup.dollars })
    }
}

/// Addresses of everything that genesis deployed.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Plan of the chain.
    pub plan: ChainSetup,
    /// Contracts by their keys in the address book.
    pub contracts: BTreeMap<&'static str, Address>,
    /// Caveat enforcers by contract name.
    pub enforcers: BTreeMap<&'static str, Address>,
    /// Token contracts by token.
    pub tokens: BTreeMap<SandboxToken, Address>,
    /// Price feed contracts by asset.
    pub feeds: BTreeMap<PricedAsset, Address>,
    /// Pools, in the plan's order.
    pub pools: Vec<GenesisPool>,
    /// V4 pools, in the plan's order; none on a network without V4.
    pub v4_pools: Vec<V4GenesisPool>,
    /// Address of the wrapped ether contract.
    pub weth: Address,
    /// Address of SwapRouter02.
    pub swap_router: Address,
    /// Address of the V2 router.
    pub v2_router: Address,
    /// Address of the contract that updates the feeds.
    pub feed_keeper: Address,
    /// Cosigner of UniswapX orders.
    pub cosigner: Address,
    /// Code hashes of the contracts that settle signed orders, by their keys in the address book.
    pub code_hashes: BTreeMap<&'static str, B256>,
}

/// Contracts that settle signed orders, for which code hashes are recorded.
const SETTLING: [&str; 5] =
    ["v2DutchReactor", "v3DutchReactor", "priorityReactor", "originSettler", "destinationSettler"];

impl Deployment {
    /// Address of a token.
    ///
    /// # Errors
    /// [`SandboxError::NoSuchToken`] if the chain does not have it.
    pub fn token(&self, token: SandboxToken) -> Result<Address, SandboxError> {
        self.tokens
            .get(&token)
            .copied()
            .ok_or(SandboxError::NoSuchToken { chain: self.plan.name, token: token.plan().key })
    }
}

/// Creates a chain for `plan` with initial balances and genesis code, before any transaction.
///
/// # Errors
/// A [`SandboxError`] if genesis code is invalid.
pub fn empty_chain(
    plan: &ChainSetup,
    actors: &Actors,
    accounts: &[DevnetAccount],
    genesis_time: u64,
) -> Result<Chain, SandboxError> {
    let ether = |whole: u64| U256::from(whole) * U256::from(10).pow(U256::from(18));
    let development = accounts.iter().enumerate().map(|(index, account)| {
        (account.address(), if index == 0 { plan.demo_ether } else { ether(DEVELOPMENT_ETHER) })
    });
    let inhabitants = ActorRole::FUNDED.iter().map(|role| (actors.address(*role), ether(INHABITANT_ETHER)));
    let around_agents = agents::funded()?.into_iter().map(|address| (address, ether(AGENT_ETHER)));
    Ok(Chain::new(ChainConfig {
        rules: ChainRules::osaka(plan.chain_id),
        genesis_time,
        base_fee: plan.base_fee,
        least_base_fee: plan.base_fee,
        gas_limit: BLOCK_GAS,
        balances: development.chain(inhabitants).chain(around_agents).collect(),
        codes: vec![
            (contracts::DEPLOYMENT_PROXY, Bytes::from_static(contracts::DEPLOYMENT_PROXY_CODE)),
            (contracts::SAFE_SINGLETON_FACTORY, Bytes::from_static(contracts::DEPLOYMENT_PROXY_CODE)),
            (contracts::MULTICALL3, BundledContract::Multicall3.code()?),
        ],
        ..ChainConfig::default()
    })?)
}

/// Deploys and funds everything in `plan`, at the given `prices`.
///
/// # Errors
/// A [`SandboxError`] that names the failed step.
pub fn furnish(
    chain: &mut Chain,
    plan: &'static ChainSetup,
    actors: &Actors,
    demo: Address,
    prices: &AssetPrices,
    report: &dyn Fn(StartStage),
) -> Result<Deployment, SandboxError> {
    let mut builder = BlockBuilder::new(chain, actors);
    let quoted =
        |token: SandboxToken| PricedToken { price: prices.of(token.plan().asset), decimals: token.plan().decimals };

    report(StartStage::Contracts);
    let mut deployment = deploy(&mut builder, plan)?;
    builder.seal()?;
    for name in SETTLING {
        if let Some(address) = deployment.contracts.get(name) {
            deployment.code_hashes.insert(name, builder.chain.state().code_hash(*address));
        }
    }
    report(StartStage::Pools);
    make_pools(&mut builder, &deployment, &quoted)?;
    make_v4_pools(&mut builder, &deployment, &quoted)?;
    builder.seal()?;
    report(StartStage::Funds);
    fund(&mut builder, &deployment, demo, &quoted)?;
    fund_v4(&mut builder, &deployment)?;
    builder.seal()?;
    report(StartStage::Liquidity);
    fill_pools(&mut builder, &deployment, &quoted)?;
    fill_v4_pools(&mut builder, &deployment, &quoted)?;
    builder.seal()?;
    register_agents(&mut builder, &deployment)?;
    let market = open_market(&mut builder, &deployment, prices)?;
    deployment.contracts.extend(market);
    let vault = open_vault(&mut builder, &deployment)?;
    deployment.contracts.insert("vault", vault);
    let vaults = open_async_vaults(&mut builder, &deployment)?;
    deployment.contracts.extend(vaults);
    let hooks = settle_hostile_hooks(&mut builder, &deployment, &quoted)?;
    deployment.contracts.extend(hooks);
    let fees = open_fee_jar(&mut builder, &deployment)?;
    deployment.contracts.extend(fees);
    send_safes(&mut builder, &deployment)?;
    let pool = open_spoke_pool(&mut builder, &deployment)?;
    deployment.contracts.insert("acrossSpokePool", pool);
    check_safes(&builder)?;

    let everything = deployment.contracts.iter().chain(&deployment.enforcers).map(|(name, at)| (*name, *at));
    let pools = deployment.pools.iter().map(|pool| ("a pool", pool.address));
    for (name, address) in everything.chain(pools) {
        if builder.chain.state().code(address).is_empty() {
            return Err(SandboxError::Missing { name, address });
        }
    }
    Ok(deployment)
}
