//! Furnishes a devnet chain: runs the real constructors as signed transactions, makes and fills the pools,
//! and gives everybody what they start with. What ends up where is the result of that; the program carries it as a file
//! (see `snapshot`), so that this runs where that file is made and checked.
//!
//! Not here: what is deployed (see `plan`), and the market that follows (see `market`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U256};

use super::cast::{Cast, Role};
use super::contracts::{self, Contract};
use super::deploy::deploy;
use super::error::SandboxError;
use super::keys::Party;
use super::liquidity::{fill_pools, fund, make_pools};
use super::math::Quoted;
use super::plan::{ChainPlan, Token, Venue};
use super::target::{Asset, Prices};
use super::works::Works;
use golem_chain::devnet::{Chain, ChainConfig};
use golem_chain::evm::ChainRules;

/// Gas of a devnet block.
pub const BLOCK_GAS: u64 = 60_000_000;

/// Ether of every inhabitant, in whole ether.
const INHABITANT_ETHER: u64 = 10_000_000;

/// Ether of the development accounts but the first, in whole ether.
const DEVELOPMENT_ETHER: u64 = 1_000;

/// How far a chain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The chain is being read from the genesis snapshot.
    Snapshot,
    /// The chain is being read from where it is kept.
    Kept,
    /// Contracts are being deployed.
    Contracts,
    /// Pools are being created.
    Pools,
    /// Everybody is being funded.
    Funds,
    /// Pools are being filled.
    Liquidity,
    /// The market of the past hours is being lived through.
    Past {
        /// Blocks made.
        done: u64,
        /// Blocks in all.
        of: u64,
    },
    /// It runs.
    Ready,
}

/// A token of a furnished chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenAt {
    /// Which.
    pub token: Token,
    /// Where.
    pub address: Address,
}

/// A pool of a furnished chain, its tokens in the order the pool has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Where.
    pub address: Address,
    /// V2, or V3 with its fee.
    pub venue: Venue,
    /// The token with the lower address.
    pub token0: TokenAt,
    /// The other.
    pub token1: TokenAt,
    /// What it was filled with, in dollars.
    pub dollars: u64,
}

/// What stands where on a furnished chain.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The plan it followed.
    pub plan: &'static ChainPlan,
    /// Contracts by the names the address book uses.
    pub contracts: BTreeMap<&'static str, Address>,
    /// Caveat enforcers by contract name.
    pub enforcers: BTreeMap<&'static str, Address>,
    /// Tokens.
    pub tokens: BTreeMap<Token, Address>,
    /// Price feeds.
    pub feeds: BTreeMap<Asset, Address>,
    /// Pools, in the plan's order.
    pub pools: Vec<Pool>,
    /// Wrapped ether.
    pub weth: Address,
    /// SwapRouter02.
    pub swap_router: Address,
    /// The V2 router.
    pub v2_router: Address,
    /// Who writes the feeds.
    pub feed_keeper: Address,
    /// Who cosigns UniswapX orders.
    pub cosigner: Address,
    /// What the code of the contracts that settle signed orders hashes to, by the same names.
    pub code_hashes: BTreeMap<&'static str, B256>,
}

/// The contracts that settle what was only signed.
const SETTLING: [&str; 5] =
    ["v2DutchReactor", "v3DutchReactor", "priorityReactor", "originSettler", "destinationSettler"];

impl Deployment {
    /// A token's address.
    pub fn token(&self, token: Token) -> Result<Address, SandboxError> {
        self.tokens
            .get(&token)
            .copied()
            .ok_or(SandboxError::NoSuchToken { chain: self.plan.name, token: token.plan().key })
    }
}

/// An empty chain for `plan` with the ether and the preset code that precede every transaction.
pub fn empty_chain(
    plan: &ChainPlan,
    cast: &Cast,
    accounts: &[Party],
    genesis_time: u64,
) -> Result<Chain, SandboxError> {
    let ether = |whole: u64| U256::from(whole) * U256::from(10).pow(U256::from(18));
    let development = accounts.iter().enumerate().map(|(index, account)| {
        (account.address(), if index == 0 { plan.demo_ether } else { ether(DEVELOPMENT_ETHER) })
    });
    let inhabitants = Role::ALL.iter().map(|role| (cast.address(*role), ether(INHABITANT_ETHER)));
    Ok(Chain::new(ChainConfig {
        rules: ChainRules::osaka(plan.chain_id),
        genesis_time,
        base_fee: plan.base_fee,
        least_base_fee: plan.base_fee,
        gas_limit: BLOCK_GAS,
        balances: development.chain(inhabitants).collect(),
        codes: vec![
            (contracts::DEPLOYMENT_PROXY, Bytes::from_static(contracts::DEPLOYMENT_PROXY_CODE)),
            (contracts::MULTICALL3, Contract::Multicall3.code()?),
        ],
        ..ChainConfig::default()
    })?)
}

/// Deploys and funds everything in `plan`; `prices` are those of this moment.
pub fn furnish(
    chain: &mut Chain,
    plan: &'static ChainPlan,
    cast: &Cast,
    demo: Address,
    prices: &Prices,
    report: &dyn Fn(Stage),
) -> Result<Deployment, SandboxError> {
    let mut works = Works::new(chain, cast);
    let quoted = |token: Token| Quoted { price: prices.of(token.plan().asset), decimals: token.plan().decimals };

    report(Stage::Contracts);
    let mut deployment = deploy(&mut works, plan)?;
    works.seal()?;
    for name in SETTLING {
        if let Some(address) = deployment.contracts.get(name) {
            deployment.code_hashes.insert(name, works.chain.state().code_hash(*address));
        }
    }
    report(Stage::Pools);
    make_pools(&mut works, &deployment, &quoted)?;
    works.seal()?;
    report(Stage::Funds);
    fund(&mut works, &deployment, demo, &quoted)?;
    works.seal()?;
    report(Stage::Liquidity);
    fill_pools(&mut works, &deployment, &quoted)?;
    works.seal()?;

    let everything = deployment.contracts.iter().chain(&deployment.enforcers).map(|(name, at)| (*name, *at));
    let pools = deployment.pools.iter().map(|pool| ("a pool", pool.address));
    for (name, address) in everything.chain(pools) {
        if works.chain.state().code(address).is_empty() {
            return Err(SandboxError::Missing { name, address });
        }
    }
    Ok(deployment)
}
