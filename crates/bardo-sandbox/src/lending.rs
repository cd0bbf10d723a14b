//! The lending market: Aave V3 deployed by its own constructors and its configurator, priced by the devnet's feeds, and
//! supplied by the treasury, which also borrows, so that all rates are above zero.
//!
//! Not here: the list of reserves (see `plan`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use alloy::primitives::aliases::I192;
use alloy::primitives::{Address, B256, Bytes, U256, uint};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::{ActorRole, ActorTransaction};
use super::block_builder::BlockBuilder;
use super::contracts::{self, BundledContract};
use super::error::SandboxError;
use super::genesis::Deployment;
use super::math::{PricedToken, amount_for};
use super::plan::{LENDING, RateCurve, ReserveSetup, SandboxToken};
use super::target::AssetPrices;
use bardo_abi::aave::{AaveAclManager, AaveAddressesProvider, AavePool, AavePoolConfigurator, AaveReserveInput};
use bardo_abi::erc20::{Erc20, OpenMint, Weth9};
use bardo_abi::feed::FeedKeeper;

/// One dollar in the market's base currency, which is that of the feeds.
const BASE_UNIT: U256 = uint!(100_000_000_U256);

/// A ray, of a percent of which rates are multiples.
const PERCENT_RAY: U256 = uint!(10_000_000_000_000_000_000_000_000_U256);

/// Variable rate mode of the pool.
const VARIABLE: U256 = uint!(2_U256);

/// Deploys the market, supplies to it and borrows from it. Returns the contracts by their keys in the address book.
pub(super) fn open_market(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    prices: &AssetPrices,
) -> Result<BTreeMap<&'static str, Address>, SandboxError> {
    let reserves: Vec<(&ReserveSetup, Address)> =
        LENDING.iter().filter_map(|reserve| Some((reserve, *deployment.tokens.get(&reserve.token)?))).collect();
    let treasury = builder.actors.address(ActorRole::Treasury);
    let provider = builder.create2(
        BundledContract::PoolAddressesProvider,
        &("Bardo devnet".to_owned(), treasury).abi_encode_params(),
        B256::ZERO,
    )?;
    let call =
        |builder: &mut BlockBuilder<'_>, to, input, gas, step| builder.call(ActorRole::Treasury, to, input, gas, step);
    let admin = AaveAddressesProvider::setACLAdminCall { admin: treasury }.abi_encode();
    call(builder, provider, admin, 100_000, "naming the lending market's administrator")?;
    let acl = builder.create2(BundledContract::AclManager, &(provider,).abi_encode_params(), B256::ZERO)?;
    let manager = AaveAddressesProvider::setACLManagerCall { manager: acl }.abi_encode();
    call(builder, provider, manager, 100_000, "setting the lending market's roles")?;
    let pool_admin = AaveAclManager::addPoolAdminCall { admin: treasury }.abi_encode();
    call(builder, acl, pool_admin, 100_000, "appointing the lending market's administrator")?;

    let pool = pool(builder, provider)?;
    let configurator = provider.create(2);
    let sources = reserves.iter().map(|(reserve, _)| {
        let feed = deployment.feeds.get(&reserve.token.plan().asset).copied();
        feed.ok_or(SandboxError::NoSuchToken { chain: deployment.plan.name, token: reserve.token.plan().key })
    });
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let assets: Vec<Address> = reserves.iter().map(|(_, asset)| *asset).collect();
    let oracle = (provider, assets, sources, Address::ZERO, Address::ZERO, BASE_UNIT).abi_encode_params();
    let oracle = builder.create2(BundledContract::AaveOracle, &oracle, B256::ZERO)?;
    let set = AaveAddressesProvider::setPriceOracleCall { oracle }.abi_encode();
    call(builder, provider, set, 100_000, "setting the lending market's prices")?;
    let views =
        builder.create2(BundledContract::AaveProtocolDataProvider, &(provider,).abi_encode_params(), B256::ZERO)?;
    let set = AaveAddressesProvider::setPoolDataProviderCall { provider: views }.abi_encode();
    call(builder, provider, set, 100_000, "setting the lending market's views")?;
    add_reserves(builder, &reserves, (provider, pool, configurator))?;
    builder.seal()?;

    push_prices(builder, deployment, prices)?;
    for (reserve, asset) in &reserves {
        supply(builder, reserve, *asset, pool, prices)?;
    }
    builder.seal()?;
    for (reserve, asset) in &reserves {
        let amount = amount_for(reserve.borrowed, priced(reserve.token, prices));
        let borrow = AavePool::borrowCall {
            asset: *asset,
            amount,
            interestRateMode: VARIABLE,
            referralCode: 0,
            onBehalfOf: treasury,
        };
        call(builder, pool, borrow.abi_encode(), 700_000, "borrowing from the lending market")?;
    }
    builder.seal()?;
    Ok(BTreeMap::from([
        ("aavePool", pool),
        ("aaveAddressesProvider", provider),
        ("aavePoolConfigurator", configurator),
        ("aaveOracle", oracle),
        ("aaveProtocolDataProvider", views),
    ]))
}

/// Deploys the pool and its configurator behind the proxies that `provider` creates; returns the pool's proxy. That of
/// the configurator is the second contract that the provider creates.
fn pool(builder: &mut BlockBuilder<'_>, provider: Address) -> Result<Address, SandboxError> {
    let mut libraries = BTreeMap::new();
    for library in [
        BundledContract::BorrowLogic,
        BundledContract::BridgeLogic,
        BundledContract::ConfiguratorLogic,
        BundledContract::EModeLogic,
        BundledContract::FlashLoanLogic,
        BundledContract::LiquidationLogic,
        BundledContract::PoolLogic,
        BundledContract::SupplyLogic,
    ] {
        let code = contracts::link(library, &libraries)?;
        libraries.insert(library, builder.create2_code(code, B256::ZERO, library.name())?);
    }
    let code = contracts::link(BundledContract::Pool, &libraries)?;
    let code = [code.as_ref(), &(provider,).abi_encode_params()].concat();
    let implementation = builder.create2_code(code.into(), B256::ZERO, BundledContract::Pool.name())?;
    let set = AaveAddressesProvider::setPoolImplCall { implementation }.abi_encode();
    builder.call(ActorRole::Treasury, provider, set, 1_500_000, "creating the lending pool")?;
    let code = contracts::link(BundledContract::PoolConfigurator, &libraries)?;
    let implementation = builder.create2_code(code, B256::ZERO, BundledContract::PoolConfigurator.name())?;
    let set = AaveAddressesProvider::setPoolConfiguratorImplCall { implementation }.abi_encode();
    builder.call(ActorRole::Treasury, provider, set, 1_500_000, "creating the lending pool's configurator")?;
    Ok(provider.create(1))
}

/// Adds and configures the reserves.
fn add_reserves(
    builder: &mut BlockBuilder<'_>,
    reserves: &[(&ReserveSetup, Address)],
    (provider, pool, configurator): (Address, Address, Address),
) -> Result<(), SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let of_pool = (pool,).abi_encode_params();
    let receipt = builder.create2(BundledContract::AToken, &of_pool, B256::ZERO)?;
    let stable_debt = builder.create2(BundledContract::StableDebtToken, &of_pool, B256::ZERO)?;
    let variable_debt = builder.create2(BundledContract::VariableDebtToken, &of_pool, B256::ZERO)?;
    let mut strategies: BTreeMap<RateCurve, Address> = BTreeMap::new();
    for (reserve, _) in reserves {
        if let Entry::Vacant(strategy) = strategies.entry(reserve.rates) {
            let arguments = rate_arguments(provider, reserve.rates);
            let contract = BundledContract::DefaultReserveInterestRateStrategy;
            strategy.insert(builder.create2(contract, &arguments, B256::ZERO)?);
        }
    }
    for (reserve, asset) in reserves {
        let token = reserve.token.plan();
        let symbol = token.symbol;
        let input = AaveReserveInput {
            aTokenImpl: receipt,
            stableDebtTokenImpl: stable_debt,
            variableDebtTokenImpl: variable_debt,
            underlyingAssetDecimals: token.decimals,
            interestRateStrategyAddress: strategies.get(&reserve.rates).copied().unwrap_or_default(),
            underlyingAsset: *asset,
            treasury,
            incentivesController: Address::ZERO,
            aTokenName: format!("Aave {symbol}"),
            aTokenSymbol: format!("a{symbol}"),
            variableDebtTokenName: format!("Aave variable debt {symbol}"),
            variableDebtTokenSymbol: format!("variableDebt{symbol}"),
            stableDebtTokenName: format!("Aave stable debt {symbol}"),
            stableDebtTokenSymbol: format!("stableDebt{symbol}"),
            params: Bytes::new(),
        };
        let share = |points: u32| U256::from(points);
        let calls: [(Vec<u8>, u64); 5] = [
            (AavePoolConfigurator::initReservesCall { input: vec![input] }.abi_encode(), 6_000_000),
            (
                AavePoolConfigurator::configureReserveAsCollateralCall {
                    asset: *asset,
                    ltv: share(reserve.ltv),
                    liquidationThreshold: share(reserve.threshold),
                    liquidationBonus: share(10_000 + reserve.bonus),
                }
                .abi_encode(),
                200_000,
            ),
            (AavePoolConfigurator::setReserveBorrowingCall { asset: *asset, enabled: true }.abi_encode(), 150_000),
            (
                AavePoolConfigurator::setReserveFactorCall { asset: *asset, newReserveFactor: share(1_000) }
                    .abi_encode(),
                400_000,
            ),
            (
                AavePoolConfigurator::setLiquidationProtocolFeeCall { asset: *asset, newFee: share(1_000) }
                    .abi_encode(),
                150_000,
            ),
        ];
        for (input, gas) in calls {
            builder.call(ActorRole::Treasury, configurator, input, gas, "configuring a lending reserve")?;
        }
    }
    Ok(())
}

/// Constructor arguments of a rate strategy. Stable rates are not offered; theirs only fill the constructor.
fn rate_arguments(provider: Address, rates: RateCurve) -> Vec<u8> {
    let ray = |percent: u32| PERCENT_RAY * U256::from(percent);
    let [optimal, base, slope, steep] = rates.percents();
    (provider, ray(optimal), ray(base), ray(slope), ray(steep), ray(slope), ray(steep), ray(1), ray(8), ray(20))
        .abi_encode_params()
}

/// Writes the first prices to the feeds, because the market refuses to lend without any.
fn push_prices(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    prices: &AssetPrices,
) -> Result<(), SandboxError> {
    let answer = |asset| I192::try_from(prices.of(asset)).unwrap_or(I192::MAX);
    let call = FeedKeeper::pushCall {
        feeds: deployment.feeds.values().copied().collect(),
        answers: deployment.feeds.keys().map(|asset| answer(*asset)).collect(),
    };
    builder.call(ActorRole::Keeper, deployment.feed_keeper, call.abi_encode(), 1_500_000, "writing the first prices")
}

/// Supplies a reserve from the treasury.
fn supply(
    builder: &mut BlockBuilder<'_>,
    reserve: &ReserveSetup,
    asset: Address,
    pool: Address,
    prices: &AssetPrices,
) -> Result<(), SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let value = amount_for(reserve.supplied, priced(reserve.token, prices));
    let step = "supplying the lending market";
    if reserve.token == SandboxToken::Weth {
        let wrap = Weth9::depositCall {}.abi_encode();
        builder.send(ActorTransaction {
            value,
            ..ActorTransaction::call(ActorRole::Treasury, asset, wrap, 100_000, step)
        })?;
    } else {
        let mint = OpenMint::mintCall { to: treasury, value }.abi_encode();
        builder.call(ActorRole::Treasury, asset, mint, 120_000, step)?;
    }
    let approve = Erc20::approveCall { spender: pool, value }.abi_encode();
    builder.call(ActorRole::Treasury, asset, approve, 80_000, step)?;
    let supply = AavePool::supplyCall { asset, amount: value, onBehalfOf: treasury, referralCode: 0 }.abi_encode();
    builder.call(ActorRole::Treasury, pool, supply, 600_000, step)
}

fn priced(token: SandboxToken, prices: &AssetPrices) -> PricedToken {
    let plan = token.plan();
    PricedToken { price: prices.of(plan.asset), decimals: plan.decimals }
}
