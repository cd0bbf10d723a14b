//! Furnishes a devnet chain: runs the real constructors as signed transactions, makes and fills the pools,
//! and gives everybody what they start with. What ends up where is the result of that, not a snapshot.
//!
//! Not here: what is deployed (see `plan`), and the market that follows (see `market`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, TxKind, U256, aliases::I24, aliases::U24, aliases::U160, keccak256};
use alloy::sol_types::{SolCall, SolValue};

use super::cast::{Cast, Order, Role, send};
use super::contracts::{self, Contract};
use super::error::SandboxError;
use super::keys::Party;
use super::math::{Quoted, amount_for, sqrt_price_x96};
use super::plan::{ChainPlan, OBSERVATIONS, PoolPlan, STAIRS, Token, Venue, ranges_of};
use super::target::{Asset, Prices};
use crate::abi::erc20::{Erc20, OpenMint, Weth9};
use crate::abi::multicall3::Multicall3;
use crate::abi::uniswap_v2::{UniswapV2Factory, UniswapV2Pair};
use crate::abi::uniswap_v3::{NonfungiblePositionManager, UniswapV3Factory, UniswapV3Pool};
use crate::chain::devnet::{Chain, ChainConfig};
use crate::chain::evm::{ChainRules, TRANSACTION_GAS_CAP};

/// Gas of a devnet block.
pub const BLOCK_GAS: u64 = 60_000_000;

/// An address without code, given to constructors for what is not on the devnet (Uniswap V4, the bridge).
const ABSENT: Address = Address::ZERO;

/// Ether of every inhabitant, in whole ether.
const INHABITANT_ETHER: u64 = 10_000_000;

/// Ether of the development accounts but the first, in whole ether.
const DEVELOPMENT_ETHER: u64 = 1_000;

/// What the arbitrageur and the traders own of every token, in dollars.
const ARBITRAGEUR_DOLLARS: u64 = 2_000_000_000;
const TRADER_DOLLARS: u64 = 50_000_000;

/// How far a chain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
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
}

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
    let mut works = Works { chain, cast, steps: BTreeMap::new() };
    let quoted = |token: Token| Quoted { price: prices.of(token.plan().asset), decimals: token.plan().decimals };

    report(Stage::Contracts);
    let deployment = deploy(&mut works, plan)?;
    works.seal()?;
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

/// A chain under construction: orders go in, blocks come out, nothing may fail.
struct Works<'a> {
    chain: &'a mut Chain,
    cast: &'a Cast,
    steps: BTreeMap<B256, &'static str>,
}

impl Works<'_> {
    fn send(&mut self, order: Order) -> Result<(), SandboxError> {
        let step = order.step;
        let hash = send(self.chain, self.cast, order)?;
        self.steps.insert(hash, step);
        Ok(())
    }

    fn call(
        &mut self,
        role: Role,
        to: Address,
        input: Vec<u8>,
        gas: u64,
        step: &'static str,
    ) -> Result<(), SandboxError> {
        self.send(Order::call(role, to, input, gas, step))
    }

    /// Sends a creation by the treasury; returns where the contract will be.
    fn create(&mut self, contract: Contract, arguments: &[u8]) -> Result<Address, SandboxError> {
        self.create_code(contract.creation(arguments)?, contract.name())
    }

    fn create_code(&mut self, input: Bytes, step: &'static str) -> Result<Address, SandboxError> {
        let treasury = self.cast.address(Role::Treasury);
        let address = treasury.create(self.chain.pending_nonce(treasury));
        let gas = deployment_gas(input.len());
        self.send(Order { role: Role::Treasury, to: TxKind::Create, value: U256::ZERO, input, gas, step })?;
        Ok(address)
    }

    /// Creates a contract at its canonical address, through the deployment proxy.
    fn create2(&mut self, contract: Contract, salt: B256) -> Result<(), SandboxError> {
        let code = contract.code()?;
        let gas = deployment_gas(code.len());
        let input = [salt.as_slice(), code.as_ref()].concat();
        self.call(Role::Treasury, contracts::DEPLOYMENT_PROXY, input, gas, contract.name())
    }

    /// Makes blocks, one second apart, until all that was sent is in one; fails if any of it failed.
    fn seal(&mut self) -> Result<(), SandboxError> {
        while self.chain.has_ready() {
            let block = self.chain.mine();
            for (transaction, receipt) in block.transactions.iter().zip(&block.receipts) {
                let step = self.steps.remove(&transaction.hash).unwrap_or("a transaction");
                if let Some(failure) = &receipt.failure {
                    return Err(SandboxError::Failed { step, failure: failure.clone() });
                }
            }
        }
        match self.steps.first_key_value() {
            None => Ok(()),
            Some((first, _)) => Err(SandboxError::Stuck { waiting: self.steps.len(), first: *first }),
        }
    }
}

/// Enough for any constructor of the bundle: 200 gas a byte of code stored, 16 a byte sent, and its work.
fn deployment_gas(length: usize) -> u64 {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    length.saturating_mul(260).saturating_add(700_000).min(TRANSACTION_GAS_CAP)
}

fn deploy(works: &mut Works<'_>, plan: &'static ChainPlan) -> Result<Deployment, SandboxError> {
    let treasury = works.cast.address(Role::Treasury);
    let keeper = works.cast.address(Role::Keeper);

    let weth = works.create(Contract::Weth9, &[])?;
    works.create2(Contract::Permit2, contracts::PERMIT2_SALT)?;
    works.create2(Contract::EntryPoint, contracts::ENTRY_POINT_SALT)?;

    let v2_factory = works.create(Contract::UniswapV2Factory, &(treasury,).abi_encode_params())?;
    let v2_router = works.create(Contract::UniswapV2Router02, &(v2_factory, weth).abi_encode_params())?;
    let v3_factory = works.create(Contract::UniswapV3Factory, &[])?;
    let tier = UniswapV3Factory::enableFeeAmountCall { fee: U24::from(100), tickSpacing: I24::ONE };
    works.call(Role::Treasury, v3_factory, tier.abi_encode(), 100_000, "enabling the 0.01 % tier")?;

    let library = works.create(Contract::NFTDescriptor, &[])?;
    let label = B256::right_padding_from(b"ETH");
    let code = [contracts::link_descriptor(library)?.as_ref(), &(weth, label).abi_encode_params()].concat();
    let descriptor = works.create_code(code.into(), Contract::NonfungibleTokenPositionDescriptor.name())?;
    let position_manager =
        works.create(Contract::NonfungiblePositionManager, &(v3_factory, weth, descriptor).abi_encode_params())?;
    let quoter = works.create(Contract::QuoterV2, &(v3_factory, weth).abi_encode_params())?;
    let tick_lens = works.create(Contract::TickLens, &[])?;
    let swap_router =
        works.create(Contract::SwapRouter02, &(v2_factory, v3_factory, position_manager, weth).abi_encode_params())?;
    let universal_router = works.create(
        Contract::UniversalRouter,
        &(
            contracts::PERMIT2,
            weth,
            v2_factory,
            v3_factory,
            contracts::V2_PAIR_INIT_HASH,
            contracts::V3_POOL_INIT_HASH,
            ABSENT,
            position_manager,
            ABSENT,
            ABSENT,
        )
            .abi_encode_params(),
    )?;

    let reactor = (contracts::PERMIT2, treasury).abi_encode_params();
    let dutch_v2 = works.create(Contract::V2DutchOrderReactor, &reactor)?;
    let dutch_v3 = works.create(Contract::V3DutchOrderReactor, &reactor)?;
    let priority = works.create(Contract::PriorityOrderReactor, &reactor)?;
    let order_quoter = works.create(Contract::OrderQuoter, &[])?;

    let manager = works.create(Contract::DelegationManager, &(treasury,).abi_encode_params())?;
    let delegator =
        works.create(Contract::Eip7702StatelessDeleGator, &(manager, contracts::ENTRY_POINT).abi_encode_params())?;
    let mut enforcers = BTreeMap::new();
    for &contract in ENFORCERS {
        let equality = enforcers.get(Contract::ArgsEqualityCheckEnforcer.name()).copied().unwrap_or_default();
        let arguments = match contract {
            Contract::NativeTokenPaymentEnforcer => (manager, equality).abi_encode_params(),
            Contract::LogicalOrWrapperEnforcer => (manager,).abi_encode_params(),
            _ => Vec::new(),
        };
        enforcers.insert(contract.name(), works.create(contract, &arguments)?);
    }

    // Feeds before tokens, so that both chains have them at the same addresses.
    let feed_keeper = works.create(Contract::FeedKeeper, &(keeper,).abi_encode_params())?;
    let mut feeds = BTreeMap::new();
    for asset in Asset::FED {
        let description = format!("{} / USD", asset.ticker());
        let arguments = (description, U256::from(8), feed_keeper).abi_encode_params();
        feeds.insert(asset, works.create(Contract::PriceFeed, &arguments)?);
    }

    let mut tokens = BTreeMap::from([(Token::Weth, weth)]);
    for &token in plan.tokens {
        let made = token.plan();
        let decimals = U256::from(made.decimals);
        let arguments = match made.contract {
            Contract::Weth9 => continue,
            Contract::MockERC20 => (made.name.to_owned(), made.symbol.to_owned(), decimals).abi_encode_params(),
            _ => (Bytes::from(made.name), Bytes::from(made.symbol), decimals).abi_encode_params(),
        };
        tokens.insert(token, works.create(made.contract, &arguments)?);
    }

    let contracts = BTreeMap::from([
        ("wrappedNative", weth),
        ("permit2", contracts::PERMIT2),
        ("multicall3", contracts::MULTICALL3),
        ("v2Factory", v2_factory),
        ("v2Router", v2_router),
        ("v3Factory", v3_factory),
        ("v3PositionManager", position_manager),
        ("quoterV2", quoter),
        ("tickLens", tick_lens),
        ("swapRouter02", swap_router),
        ("universalRouter", universal_router),
        ("v2DutchReactor", dutch_v2),
        ("v3DutchReactor", dutch_v3),
        ("priorityReactor", priority),
        ("orderQuoter", order_quoter),
        ("entryPoint", contracts::ENTRY_POINT),
        ("delegationManager", manager),
        ("eip7702StatelessDeleGator", delegator),
        ("feedKeeper", feed_keeper),
    ]);
    let mut deployment = Deployment {
        plan,
        contracts,
        enforcers,
        tokens,
        feeds,
        pools: Vec::new(),
        weth,
        swap_router,
        v2_router,
        feed_keeper,
    };
    for pool in plan.pools {
        let located = locate(&deployment, pool, v2_factory, v3_factory)?;
        deployment.pools.push(located);
    }
    Ok(deployment)
}

/// The enforcers, those that others need first.
const ENFORCERS: &[Contract] = &[
    Contract::ArgsEqualityCheckEnforcer,
    Contract::AllowedCalldataEnforcer,
    Contract::AllowedMethodsEnforcer,
    Contract::AllowedTargetsEnforcer,
    Contract::ApprovalRevocationEnforcer,
    Contract::BlockNumberEnforcer,
    Contract::DeployedEnforcer,
    Contract::ERC1155BalanceChangeEnforcer,
    Contract::ERC20BalanceChangeEnforcer,
    Contract::ERC20PeriodTransferEnforcer,
    Contract::ERC20StreamingEnforcer,
    Contract::ERC20TransferAmountEnforcer,
    Contract::ERC721BalanceChangeEnforcer,
    Contract::ERC721TransferEnforcer,
    Contract::ExactCalldataBatchEnforcer,
    Contract::ExactCalldataEnforcer,
    Contract::ExactExecutionBatchEnforcer,
    Contract::ExactExecutionEnforcer,
    Contract::IdEnforcer,
    Contract::LimitedCallsEnforcer,
    Contract::LogicalOrWrapperEnforcer,
    Contract::MultiTokenPeriodEnforcer,
    Contract::NativeBalanceChangeEnforcer,
    Contract::NativeTokenPaymentEnforcer,
    Contract::NativeTokenPeriodTransferEnforcer,
    Contract::NativeTokenStreamingEnforcer,
    Contract::NativeTokenTransferAmountEnforcer,
    Contract::NonceEnforcer,
    Contract::OwnershipTransferEnforcer,
    Contract::RedeemerEnforcer,
    Contract::SpecificActionERC20TransferBatchEnforcer,
    Contract::TimestampEnforcer,
    Contract::ValueLteEnforcer,
];

/// Where a planned pool will be, by the factories' CREATE2 rules.
fn locate(
    deployment: &Deployment,
    plan: &PoolPlan,
    v2_factory: Address,
    v3_factory: Address,
) -> Result<Pool, SandboxError> {
    let at = |token| deployment.token(token).map(|address| TokenAt { token, address });
    let (a, b) = (at(plan.a)?, at(plan.b)?);
    let (token0, token1) = if a.address < b.address { (a, b) } else { (b, a) };
    let address = match plan.venue {
        Venue::V2 => {
            let salt = keccak256((token0.address, token1.address).abi_encode_packed());
            v2_factory.create2(salt, contracts::V2_PAIR_INIT_HASH)
        }
        Venue::V3(fee) => {
            let salt = keccak256((token0.address, token1.address, U256::from(fee)).abi_encode());
            v3_factory.create2(salt, contracts::V3_POOL_INIT_HASH)
        }
    };
    Ok(Pool { address, venue: plan.venue, token0, token1, dollars: plan.dollars })
}

fn make_pools(
    works: &mut Works<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(Token) -> Quoted,
) -> Result<(), SandboxError> {
    let named = |name: &'static str| deployment.contracts.get(name).copied().unwrap_or_default();
    for pool in &deployment.pools {
        match pool.venue {
            Venue::V2 => {
                let create =
                    UniswapV2Factory::createPairCall { tokenA: pool.token0.address, tokenB: pool.token1.address };
                works.call(Role::Treasury, named("v2Factory"), create.abi_encode(), 3_500_000, "creating a V2 pair")?;
            }
            Venue::V3(fee) => {
                let price = sqrt_price_x96(quoted(pool.token0.token), quoted(pool.token1.token));
                let create = NonfungiblePositionManager::createAndInitializePoolIfNecessaryCall {
                    token0: pool.token0.address,
                    token1: pool.token1.address,
                    fee: U24::saturating_from(fee),
                    sqrtPriceX96: U160::saturating_from(price),
                };
                let manager = named("v3PositionManager");
                works.call(Role::Treasury, manager, create.abi_encode(), 6_000_000, "creating a V3 pool")?;
                let grow =
                    UniswapV3Pool::increaseObservationCardinalityNextCall { observationCardinalityNext: OBSERVATIONS };
                let gas = 100_000 + u64::from(OBSERVATIONS) * 23_000;
                works.call(Role::Treasury, pool.address, grow.abi_encode(), gas, "growing a pool's memory")?;
            }
        }
    }
    Ok(())
}

/// Mints and wraps what everybody starts with, and lets the traders' routers take it.
fn fund(
    works: &mut Works<'_>,
    deployment: &Deployment,
    demo: Address,
    quoted: &impl Fn(Token) -> Quoted,
) -> Result<(), SandboxError> {
    let cast = works.cast;
    let at = |role| cast.address(role);
    let mut gifts: Vec<(Token, Address, U256)> = Vec::new();
    for &token in deployment.tokens.keys() {
        if !token.is_bad() {
            gifts.push((token, at(Role::Arbitrageur), amount_for(ARBITRAGEUR_DOLLARS, quoted(token))));
            for trader in [Role::FirstTrader, Role::SecondTrader] {
                gifts.push((token, at(trader), amount_for(TRADER_DOLLARS, quoted(token))));
            }
            let pooled: u64 = deployment.plan.pools.iter().map(|pool| pool.dollars).sum();
            gifts.push((token, at(Role::Treasury), amount_for(pooled, quoted(token))));
        }
    }
    gifts.extend(deployment.plan.demo_tokens.iter().map(|(token, amount)| (*token, demo, *amount)));
    for pool in &deployment.pools {
        if pool.venue == Venue::V2 {
            for side in [pool.token0, pool.token1] {
                gifts.push((side.token, pool.address, amount_for(pool.dollars / 2, quoted(side.token))));
            }
        }
    }

    let wrapped: U256 = gifts.iter().filter(|gift| gift.0 == Token::Weth).map(|gift| gift.2).sum();
    works.send(Order {
        value: wrapped,
        ..Order::call(Role::Treasury, deployment.weth, Weth9::depositCall {}.abi_encode(), 100_000, "wrapping ether")
    })?;
    let mut mints = Vec::new();
    for (token, to, value) in gifts {
        if token == Token::Weth {
            if to != at(Role::Treasury) {
                let transfer = Erc20::transferCall { to, value }.abi_encode();
                works.call(Role::Treasury, deployment.weth, transfer, 100_000, "handing out wrapped ether")?;
            }
        } else {
            mints.push(Multicall3::Call3 {
                target: deployment.token(token)?,
                allowFailure: false,
                callData: OpenMint::mintCall { to, value }.abi_encode().into(),
            });
        }
    }
    let gas = 200_000 + 90_000 * u64::try_from(mints.len()).unwrap_or(u64::MAX);
    let mint = Multicall3::aggregate3Call { calls: mints }.abi_encode();
    works.call(Role::Treasury, contracts::MULTICALL3, mint, gas, "minting tokens")?;

    let manager = deployment.contracts.get("v3PositionManager").copied().unwrap_or_default();
    for (&token, &address) in &deployment.tokens {
        if token.is_bad() {
            continue;
        }
        for (role, spender) in [
            (Role::Treasury, manager),
            (Role::Arbitrageur, deployment.swap_router),
            (Role::FirstTrader, deployment.swap_router),
            (Role::FirstTrader, deployment.v2_router),
            (Role::SecondTrader, deployment.swap_router),
            (Role::SecondTrader, deployment.v2_router),
        ] {
            let approve = Erc20::approveCall { spender, value: U256::MAX }.abi_encode();
            works.call(role, address, approve, 80_000, "approving a router")?;
        }
    }
    Ok(())
}

fn fill_pools(
    works: &mut Works<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(Token) -> Quoted,
) -> Result<(), SandboxError> {
    let treasury = works.cast.address(Role::Treasury);
    let manager = deployment.contracts.get("v3PositionManager").copied().unwrap_or_default();
    for pool in &deployment.pools {
        match pool.venue {
            Venue::V2 => {
                // The tokens are already there; the pair takes what it finds.
                let mint = UniswapV2Pair::mintCall { to: treasury }.abi_encode();
                works.call(Role::Treasury, pool.address, mint, 300_000, "filling a V2 pair")?;
            }
            Venue::V3(fee) => {
                let tick = v3_tick(works.chain, pool.address);
                let positions: Vec<Bytes> = positions(pool, fee, tick, treasury, quoted)
                    .into_iter()
                    .map(|params| NonfungiblePositionManager::mintCall { params }.abi_encode().into())
                    .collect();
                let gas = 200_000 + 550_000 * u64::try_from(positions.len()).unwrap_or(u64::MAX);
                let fill = NonfungiblePositionManager::multicallCall { data: positions }.abi_encode();
                works.call(Role::Treasury, manager, fill, gas.min(TRANSACTION_GAS_CAP), "filling a V3 pool")?;
            }
        }
    }
    Ok(())
}

/// The tick a pool stands at, from the word that also holds its price.
fn v3_tick(chain: &Chain, pool: Address) -> i32 {
    let slot0 = chain.state().storage_at(pool, U256::ZERO);
    let tick: U256 = (slot0 >> 160_usize) & U256::from(0xff_ffff);
    let unsigned = tick.saturating_to::<i32>();
    if unsigned >= 1 << 23 { unsigned - (1 << 24) } else { unsigned }
}

/// Positions over everything a pool is filled with: half of it around the price, a tenth over the whole range,
/// the rest in one-sided stairs above and below.
fn positions(
    pool: &Pool,
    fee: u32,
    tick: i32,
    owner: Address,
    quoted: &impl Fn(Token) -> Quoted,
) -> Vec<NonfungiblePositionManager::MintParams> {
    let spacing = match fee {
        100 => 1,
        500 => 10,
        3_000 => 60,
        _ => 200,
    };
    let (widths, step) = ranges_of(fee);
    let dollars = pool.dollars;
    let floor = |tick: i32| tick.div_euclid(spacing) * spacing;
    let params = |lower: i32, upper: i32, dollars0: u64, dollars1: u64| NonfungiblePositionManager::MintParams {
        token0: pool.token0.address,
        token1: pool.token1.address,
        fee: U24::saturating_from(fee),
        tickLower: I24::try_from(lower).unwrap_or_default(),
        tickUpper: I24::try_from(upper).unwrap_or_default(),
        amount0Desired: amount_for(dollars0, quoted(pool.token0.token)),
        amount1Desired: amount_for(dollars1, quoted(pool.token1.token)),
        amount0Min: U256::ZERO,
        amount1Min: U256::ZERO,
        recipient: owner,
        deadline: U256::MAX,
    };

    let everywhere = floor(887_272);
    let whole = dollars / 20;
    let mut made = vec![params(-everywhere, everywhere, whole, whole)];
    let around = dollars / 2 / u64::try_from(widths.len()).unwrap_or(1).max(1) / 2;
    for width in widths {
        made.push(params(floor(tick - width), floor(tick + width) + spacing, around, around));
    }
    let stair = dollars * 2 / 5 / u64::from(STAIRS.unsigned_abs() * 2).max(1);
    let (above, below) = (floor(tick) + spacing, floor(tick));
    for index in 0..STAIRS {
        let lower = floor(above + index * step);
        made.push(params(lower, floor(lower + step), stair, 0));
        let upper = floor(below - index * step);
        made.push(params(floor(upper - step), upper, 0, stair));
    }
    made
}
