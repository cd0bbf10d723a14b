//! Deployment of the contracts: all constructors with their arguments, in order of dependency.
//!
//! Not here: pools and funding (see `liquidity`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, U256, aliases::I24, aliases::U24, keccak256};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::ActorRole;
use super::block_builder::BlockBuilder;
use super::contracts::{self, BundledContract};
use super::error::SandboxError;
use super::genesis::{DeployedToken, Deployment, GenesisPool, V4GenesisPool};
use super::plan::{CHAINS, ChainSetup, PoolHook, PoolSetup, SandboxToken, Venue};
use super::target::PricedAsset;
use bardo_abi::erc7683::OriginSettler;
use bardo_abi::erc8004::{IdentityRegistry, ReputationRegistry, ValidationRegistry};
use bardo_abi::uniswap_v3::UniswapV3Factory;

/// Time after an intent's fill deadline before a refund is possible, in seconds, so that a fill in the last block is
/// still reported.
pub const REFUND_DELAY_SECONDS: u32 = 30;

/// Constructor argument for contracts that are not on the devnet (the bridge); an address without code.
const ABSENT: Address = Address::ZERO;

/// Sends all deployments and returns the future addresses.
pub(super) fn deploy(builder: &mut BlockBuilder<'_>, plan: &'static ChainSetup) -> Result<Deployment, SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);

    let weth = builder.create(BundledContract::Weth9, &[])?;
    builder.create2(BundledContract::Permit2, &[], contracts::PERMIT2_SALT)?;
    builder.create2(BundledContract::EntryPoint, &[], contracts::ENTRY_POINT_SALT)?;

    let UniswapAddresses {
        v2_factory,
        v2_router,
        v3_factory,
        position_manager,
        quoter,
        tick_lens,
        swap_router,
        universal_router,
    } = uniswap(builder, weth)?;

    let reactor = (contracts::PERMIT2, treasury).abi_encode_params();
    let dutch_v2 = builder.create(BundledContract::V2DutchOrderReactor, &reactor)?;
    let dutch_v3 = builder.create(BundledContract::V3DutchOrderReactor, &reactor)?;
    let priority = builder.create(BundledContract::PriorityOrderReactor, &reactor)?;
    let order_quoter = builder.create(BundledContract::OrderQuoter, &[])?;

    let (manager, delegator, enforcers) = delegation(builder)?;

    // Feeds come before tokens, so that both chains have them at the same addresses.
    let (feed_keeper, feeds) = price_feeds(builder)?;
    let tokens = tokens(builder, plan, weth)?;

    // Deployed after the tokens, so that earlier addresses do not change.
    let cage = builder.create(BundledContract::PolicyCage, &(manager,).abi_encode_params())?;

    let (origin_settler, destination_settler) = settlers(builder, plan)?;
    let AgentRegistries { identity, reputation, validation } = agent_registries(builder)?;
    let v4 = uniswap_v4(builder, weth)?;

    let mut contracts = BTreeMap::from([
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
        ("universalRouterV2_1_0", universal_router),
        ("v2DutchReactor", dutch_v2),
        ("v3DutchReactor", dutch_v3),
        ("priorityReactor", priority),
        ("orderQuoter", order_quoter),
        ("entryPoint", contracts::ENTRY_POINT),
        ("delegationManager", manager),
        ("eip7702StatelessDeleGator", delegator),
        ("policyCage", cage),
        ("feedKeeper", feed_keeper),
        ("originSettler", origin_settler),
        ("destinationSettler", destination_settler),
        ("identityRegistry", identity),
        ("reputationRegistry", reputation),
        ("validationRegistry", validation),
    ]);
    contracts.extend(v4);
    let mut deployment = Deployment {
        plan: *plan,
        contracts,
        enforcers,
        tokens,
        feeds,
        pools: Vec::new(),
        v4_pools: Vec::new(),
        weth,
        swap_router,
        v2_router,
        feed_keeper,
        cosigner: builder.actors.cosigner().address(),
        code_hashes: BTreeMap::new(),
    };
    for pool in plan.pools {
        let located = locate(&deployment, pool, v2_factory, v3_factory)?;
        deployment.pools.push(located);
    }
    for setup in plan.v4_pools {
        let located = V4GenesisPool::locate(setup, &deployment.tokens, &deployment.contracts);
        deployment.v4_pools.push(located.ok_or(SandboxError::NoSuchPool { chain: plan.name })?);
    }
    Ok(deployment)
}

/// Addresses of Uniswap's contracts.
struct UniswapAddresses {
    v2_factory: Address,
    v2_router: Address,
    v3_factory: Address,
    position_manager: Address,
    quoter: Address,
    tick_lens: Address,
    swap_router: Address,
    universal_router: Address,
}

/// Deploys Uniswap V2 and V3 with their routers.
fn uniswap(builder: &mut BlockBuilder<'_>, weth: Address) -> Result<UniswapAddresses, SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let v2_factory = builder.create(BundledContract::UniswapV2Factory, &(treasury,).abi_encode_params())?;
    let v2_router = builder.create(BundledContract::UniswapV2Router02, &(v2_factory, weth).abi_encode_params())?;
    let v3_factory = builder.create(BundledContract::UniswapV3Factory, &[])?;
    let tier = UniswapV3Factory::enableFeeAmountCall { fee: U24::from(100), tickSpacing: I24::ONE };
    builder.call(ActorRole::Treasury, v3_factory, tier.abi_encode(), 100_000, "enabling the 0.01 % tier")?;

    let library = builder.create(BundledContract::NFTDescriptor, &[])?;
    let label = B256::right_padding_from(b"ETH");
    let linked = BundledContract::NonfungibleTokenPositionDescriptor;
    let code = contracts::link(linked, &BTreeMap::from([(BundledContract::NFTDescriptor, library)]))?;
    let code = [code.as_ref(), &(weth, label).abi_encode_params()].concat();
    let descriptor = builder.create_code(code.into(), linked.name())?;
    let position_manager = builder
        .create(BundledContract::NonfungiblePositionManager, &(v3_factory, weth, descriptor).abi_encode_params())?;
    let quoter = builder.create(BundledContract::QuoterV2, &(v3_factory, weth).abi_encode_params())?;
    let tick_lens = builder.create(BundledContract::TickLens, &[])?;
    let swap_router = builder
        .create(BundledContract::SwapRouter02, &(v2_factory, v3_factory, position_manager, weth).abi_encode_params())?;
    let v4 = v4_addresses(builder, weth)?;
    let universal_router = builder.create(
        BundledContract::UniversalRouter,
        &(
            contracts::PERMIT2,
            weth,
            v2_factory,
            v3_factory,
            contracts::V2_PAIR_INIT_HASH,
            contracts::V3_POOL_INIT_HASH,
            v4.pool_manager,
            position_manager,
            v4.position_manager,
            ABSENT,
        )
            .abi_encode_params(),
    )?;
    Ok(UniswapAddresses {
        v2_factory,
        v2_router,
        v3_factory,
        position_manager,
        quoter,
        tick_lens,
        swap_router,
        universal_router,
    })
}

/// Future addresses of the V4 contracts that the Universal Router must know; by CREATE2, so that they do not depend on
/// the order of deployments.
struct V4Addresses {
    pool_manager: Address,
    descriptor: Address,
    position_manager: Address,
}

/// Gas that a V4 position's subscriber may use when the position's owner unsubscribes; that of mainnet.
const UNSUBSCRIBE_GAS: u64 = 300_000;

/// Constructor arguments of the pool manager, of the descriptor and of the position manager.
fn v4_arguments(builder: &BlockBuilder<'_>, weth: Address, addresses: &V4Addresses) -> [Vec<u8>; 3] {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let V4Addresses { pool_manager, descriptor, .. } = *addresses;
    [
        (treasury,).abi_encode_params(),
        (pool_manager, weth, B256::right_padding_from(b"ETH")).abi_encode_params(),
        (pool_manager, contracts::PERMIT2, U256::from(UNSUBSCRIBE_GAS), descriptor, weth).abi_encode_params(),
    ]
}

fn v4_addresses(builder: &BlockBuilder<'_>, weth: Address) -> Result<V4Addresses, SandboxError> {
    let at = |contract: BundledContract, arguments: &[u8]| {
        Ok::<_, SandboxError>(contracts::DEPLOYMENT_PROXY.create2_from_code(B256::ZERO, contract.creation(arguments)?))
    };
    let mut addresses =
        V4Addresses { pool_manager: Address::ZERO, descriptor: Address::ZERO, position_manager: Address::ZERO };
    // Each address depends on those before it.
    let [arguments, _, _] = v4_arguments(builder, weth, &addresses);
    addresses.pool_manager = at(BundledContract::PoolManager, &arguments)?;
    let [_, arguments, _] = v4_arguments(builder, weth, &addresses);
    addresses.descriptor = at(BundledContract::PositionDescriptor, &arguments)?;
    let [_, _, arguments] = v4_arguments(builder, weth, &addresses);
    addresses.position_manager = at(BundledContract::PositionManager, &arguments)?;
    Ok(addresses)
}

/// Deploys Uniswap V4, the market's contract for it and the hooks; returns their addresses by key. They come last and
/// by CREATE2, so that no other address depends on them.
fn uniswap_v4(builder: &mut BlockBuilder<'_>, weth: Address) -> Result<BTreeMap<&'static str, Address>, SandboxError> {
    let addresses = v4_addresses(builder, weth)?;
    let [manager, descriptor, positions] = v4_arguments(builder, weth, &addresses);
    let mut made = BTreeMap::from([
        ("v4PoolManager", builder.create2(BundledContract::PoolManager, &manager, B256::ZERO)?),
        ("v4PositionDescriptor", builder.create2(BundledContract::PositionDescriptor, &descriptor, B256::ZERO)?),
        ("v4PositionManager", builder.create2(BundledContract::PositionManager, &positions, B256::ZERO)?),
    ]);
    let of_manager = (addresses.pool_manager,).abi_encode_params();
    for (key, contract) in [
        ("v4StateView", BundledContract::StateView),
        ("v4Quoter", BundledContract::V4Quoter),
        ("poolTrader", BundledContract::PoolTrader),
    ] {
        made.insert(key, builder.create2(contract, &of_manager, B256::ZERO)?);
    }
    for hook in PoolHook::ALL {
        let salt = hook_salt(hook.contract(), hook.flags(), &of_manager)?;
        made.insert(hook.key(), builder.create2(hook.contract(), &of_manager, salt)?);
    }
    Ok(made)
}

/// Lowest salt that gives a hook an address with exactly its flags in the lowest 14 bits.
pub(super) fn hook_salt(hook: BundledContract, flags: u16, arguments: &[u8]) -> Result<B256, SandboxError> {
    let code = keccak256(hook.creation(arguments)?);
    let fits = |salt: &B256| {
        let [.., high, low] = contracts::DEPLOYMENT_PROXY.create2(salt, code).into_array();
        u16::from_be_bytes([high, low]) & 0x3fff == flags
    };
    // One in 16,384 addresses fits.
    let salt = (0..4_000_000_u64).map(|number| B256::from(U256::from(number))).find(fits);
    salt.ok_or(SandboxError::NoHookAddress { hook: hook.name() })
}

/// Deploys the contracts of delegated accounts: the delegation manager, the account's code, and the caveat enforcers
/// by name.
fn delegation(
    builder: &mut BlockBuilder<'_>,
) -> Result<(Address, Address, BTreeMap<&'static str, Address>), SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let manager = builder.create(BundledContract::DelegationManager, &(treasury,).abi_encode_params())?;
    let delegator = builder
        .create(BundledContract::Eip7702StatelessDeleGator, &(manager, contracts::ENTRY_POINT).abi_encode_params())?;
    let mut enforcers = BTreeMap::new();
    for &contract in ENFORCERS {
        let equality = enforcers.get(BundledContract::ArgsEqualityCheckEnforcer.name()).copied().unwrap_or_default();
        let arguments = match contract {
            BundledContract::NativeTokenPaymentEnforcer => (manager, equality).abi_encode_params(),
            BundledContract::LogicalOrWrapperEnforcer => (manager,).abi_encode_params(),
            _ => Vec::new(),
        };
        enforcers.insert(contract.name(), builder.create(contract, &arguments)?);
    }
    Ok((manager, delegator, enforcers))
}

/// Deploys the contract that updates prices, and a feed for each asset that has one.
fn price_feeds(builder: &mut BlockBuilder<'_>) -> Result<(Address, BTreeMap<PricedAsset, Address>), SandboxError> {
    let keeper = builder.actors.address(ActorRole::Keeper);
    let feed_keeper = builder.create(BundledContract::FeedKeeper, &(keeper,).abi_encode_params())?;
    let mut feeds = BTreeMap::new();
    for asset in PricedAsset::FED {
        let description = format!("{} / USD", asset.ticker());
        let arguments = (description, U256::from(8), feed_keeper).abi_encode_params();
        feeds.insert(asset, builder.create(BundledContract::PriceFeed, &arguments)?);
    }
    Ok((feed_keeper, feeds))
}

/// Deploys the tokens of a chain.
fn tokens(
    builder: &mut BlockBuilder<'_>,
    plan: &ChainSetup,
    weth: Address,
) -> Result<BTreeMap<SandboxToken, Address>, SandboxError> {
    let mut tokens = BTreeMap::from([(SandboxToken::Weth, weth)]);
    for &token in plan.tokens {
        let made = token.plan();
        let decimals = U256::from(made.decimals);
        let arguments = match made.contract {
            BundledContract::Weth9 => continue,
            BundledContract::MockERC20 => (made.name.to_owned(), made.symbol.to_owned(), decimals).abi_encode_params(),
            _ => (Bytes::from(made.name), Bytes::from(made.symbol), decimals).abi_encode_params(),
        };
        tokens.insert(token, builder.create(made.contract, &arguments)?);
    }
    Ok(tokens)
}

/// Deploys the settlers of cross-chain intents at the same addresses on both chains, so that each knows the other's.
fn settlers(builder: &mut BlockBuilder<'_>, plan: &ChainSetup) -> Result<(Address, Address), SandboxError> {
    let (owner, attester) = (builder.actors.address(ActorRole::Treasury), builder.actors.address(ActorRole::Messenger));
    let arguments = (contracts::PERMIT2, owner, attester, REFUND_DELAY_SECONDS).abi_encode_params();
    let origin = builder.create2(BundledContract::OriginSettler, &arguments, B256::ZERO)?;
    let destination = builder.create2(BundledContract::DestinationSettler, &[], B256::ZERO)?;
    for other in CHAINS.into_iter().filter(|other| other.chain_id != plan.chain_id) {
        let call =
            OriginSettler::setDestinationCall { chainId: U256::from(other.chain_id), settler: destination.into_word() };
        builder.call(ActorRole::Treasury, origin, call.abi_encode(), 100_000, "naming the destination of intents")?;
    }
    Ok((origin, destination))
}

/// Addresses of the ERC-8004 registries.
struct AgentRegistries {
    identity: Address,
    reputation: Address,
    validation: Address,
}

/// Deploys the ERC-8004 registries behind proxies, as on the public networks, at the same addresses on both chains. The
/// treasury owns them.
fn agent_registries(builder: &mut BlockBuilder<'_>) -> Result<AgentRegistries, SandboxError> {
    let mut proxy = |contract, initialization: Vec<u8>| {
        let implementation = builder.create2(contract, &[], B256::ZERO)?;
        let arguments = (implementation, Bytes::new()).abi_encode_params();
        let proxy = builder.create2(BundledContract::ERC1967Proxy, &arguments, B256::ZERO)?;
        // A separate transaction, because its sender becomes the owner; in the constructor that would be the
        // deployment proxy.
        builder.call(ActorRole::Treasury, proxy, initialization, 500_000, "initialising an agent registry")?;
        Ok::<_, SandboxError>(proxy)
    };
    let identity = proxy(BundledContract::IdentityRegistry, IdentityRegistry::initializeCall {}.abi_encode())?;
    let reputation = ReputationRegistry::initializeCall { identityRegistry_: identity };
    let reputation = proxy(BundledContract::ReputationRegistry, reputation.abi_encode())?;
    let validation = ValidationRegistry::initializeCall { identityRegistry_: identity };
    let validation = proxy(BundledContract::ValidationRegistry, validation.abi_encode())?;
    Ok(AgentRegistries { identity, reputation, validation })
}

/// All enforcers; those that others depend on come first.
const ENFORCERS: &[BundledContract] = &[
    BundledContract::ArgsEqualityCheckEnforcer,
    BundledContract::AllowedCalldataEnforcer,
    BundledContract::AllowedMethodsEnforcer,
    BundledContract::AllowedTargetsEnforcer,
    BundledContract::ApprovalRevocationEnforcer,
    BundledContract::BlockNumberEnforcer,
    BundledContract::DeployedEnforcer,
    BundledContract::ERC1155BalanceChangeEnforcer,
    BundledContract::ERC20BalanceChangeEnforcer,
    BundledContract::ERC20PeriodTransferEnforcer,
    BundledContract::ERC20StreamingEnforcer,
    BundledContract::ERC20TransferAmountEnforcer,
    BundledContract::ERC721BalanceChangeEnforcer,
    BundledContract::ERC721TransferEnforcer,
    BundledContract::ExactCalldataBatchEnforcer,
    BundledContract::ExactCalldataEnforcer,
    BundledContract::ExactExecutionBatchEnforcer,
    BundledContract::ExactExecutionEnforcer,
    BundledContract::IdEnforcer,
    BundledContract::LimitedCallsEnforcer,
    BundledContract::LogicalOrWrapperEnforcer,
    BundledContract::MultiTokenPeriodEnforcer,
    BundledContract::NativeBalanceChangeEnforcer,
    BundledContract::NativeTokenPaymentEnforcer,
    BundledContract::NativeTokenPeriodTransferEnforcer,
    BundledContract::NativeTokenStreamingEnforcer,
    BundledContract::NativeTokenTransferAmountEnforcer,
    BundledContract::NonceEnforcer,
    BundledContract::OwnershipTransferEnforcer,
    BundledContract::RedeemerEnforcer,
    BundledContract::SpecificActionERC20TransferBatchEnforcer,
    BundledContract::TimestampEnforcer,
    BundledContract::ValueLteEnforcer,
];

/// Address of a planned pool by the factories' CREATE2 rules.
fn locate(
    deployment: &Deployment,
    plan: &PoolSetup,
    v2_factory: Address,
    v3_factory: Address,
) -> Result<GenesisPool, SandboxError> {
    let at = |token| deployment.token(token).map(|address| DeployedToken { token, address });
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
    Ok(GenesisPool { address, venue: plan.venue, token0, token1, dollars: plan.dollars })
}
