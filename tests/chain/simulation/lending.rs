//! Mathematics of the lending market compared with Aave's own contracts, for random actions, prices and times.

use alloy::primitives::aliases::I192;
use alloy::primitives::{Address, U256};
use bardo::aave::math::{RAY, ray_mul};
use bardo::aave::position::{AccountSums, ReservePosition, price_moves};
use bardo::aave::reserve::ReserveState;
use bardo::abi::aave::{AaveAddressesProvider, AaveBalance, AaveOracle, AavePool, AaveProtocolDataProvider};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::feed::FeedKeeper;
use bardo::sandbox::actors::{ActorRole, Actors};
use bardo::sandbox::genesis::Deployment;
use bardo::sandbox::plan::{ETHEREUM, SandboxToken};
use bardo::sandbox::snapshot::{GENESIS_TIME, furnished};
use bardo::sandbox::target::PricedAsset;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::world::{ALICE, BOB, CAROL, TestHarness};

const ROUNDS: u32 = 1_500;
const DOLLAR: u64 = 100_000_000;
/// Tokens of the market with a round price in dollars and decimals.
const TOKENS: [(SandboxToken, PricedAsset, u64, u8); 4] = [
    (SandboxToken::Weth, PricedAsset::Eth, 3_400, 18),
    (SandboxToken::Usdc, PricedAsset::Usdc, 1, 6),
    (SandboxToken::Dai, PricedAsset::Dai, 1, 18),
    (SandboxToken::Wbtc, PricedAsset::Btc, 68_000, 8),
];

struct Market {
    world: TestHarness,
    deployment: Deployment,
    keeper: Address,
}

impl Market {
    fn new() -> Self {
        let made = furnished(&ETHEREUM).unwrap();
        let mut world = TestHarness::new();
        world.state = made.chain.state().clone();
        world.block.timestamp = GENESIS_TIME + 100_000;
        let actors = Actors::new().unwrap();
        let mut market = Self { world, deployment: made.deployment, keeper: actors.address(ActorRole::Keeper) };
        let rich = actors.address(ActorRole::Arbitrageur);
        for to in [ALICE, BOB, CAROL] {
            for (token, _, price, decimals) in TOKENS {
                let value = dollars(1_000_000, price, decimals);
                let at = market.token(token);
                match token {
                    SandboxToken::Weth => drop(market.world.act(rich, at, Erc20::transferCall { to, value })),
                    _ => market.world.send(rich, at, OpenMint::mintCall { to, value }),
                }
                let approve = Erc20::approveCall { spender: market.pool(), value: U256::MAX };
                market.world.send(to, at, approve);
            }
        }
        market
    }

    fn token(&self, token: SandboxToken) -> Address {
        self.deployment.tokens[&token]
    }

    fn pool(&self) -> Address {
        self.deployment.contracts["aavePool"]
    }

    fn push(&mut self, asset: PricedAsset, price: U256) {
        let call = FeedKeeper::pushCall {
            feeds: vec![self.deployment.feeds[&asset]],
            answers: vec![I192::try_from(price.to::<u128>()).unwrap()],
        };
        self.world.send(self.keeper, self.deployment.feed_keeper, call);
    }

    fn positions(&self, user: Address) -> Vec<ReservePosition> {
        let (pool, time) = (self.pool(), self.world.block.timestamp);
        let oracle = self.deployment.contracts["aaveOracle"];
        let bits = self.world.ask(user, pool, AavePool::getUserConfigurationCall { user });
        let listed = self.world.ask(user, pool, AavePool::getReservesListCall {});
        assert_eq!(listed.len(), TOKENS.len());
        let of = |asset: Address| {
            let data = self.world.ask(user, pool, AavePool::getReserveDataCall { asset });
            let price = self.world.ask(user, oracle, AaveOracle::getAssetPriceCall { asset });
            let reserve = ReserveState::of(asset, &data, price);
            let [supplied, debt] = [reserve.a_token, reserve.debt_token]
                .map(|token| self.world.ask(user, token, AaveBalance::balanceOfCall { user }));
            let [scaled, owed] = [reserve.a_token, reserve.debt_token]
                .map(|token| self.world.ask(user, token, AaveBalance::scaledBalanceOfCall { user }));
            // Growth over time, and the balances that follow from it.
            let income = self.world.ask(user, pool, AavePool::getReserveNormalizedIncomeCall { asset });
            let growth = self.world.ask(user, pool, AavePool::getReserveNormalizedVariableDebtCall { asset });
            assert_eq!((reserve.income(time).unwrap(), reserve.debt_growth(time).unwrap()), (income, growth));
            assert_eq!((ray_mul(scaled, income).unwrap(), ray_mul(owed, growth).unwrap()), (supplied, debt));
            ReservePosition { reserve, supplied, debt, is_collateral: bits.bit(usize::from(data.id) * 2 + 1) }
        };
        listed.into_iter().map(of).collect()
    }

    fn sums(&self, user: Address) -> AccountSums {
        let found = self.world.ask(user, self.pool(), AavePool::getUserAccountDataCall { user });
        AccountSums {
            collateral: found.totalCollateralBase,
            debt: found.totalDebtBase,
            available: found.availableBorrowsBase,
            threshold: found.currentLiquidationThreshold,
            ltv: found.ltv,
            health: found.healthFactor,
        }
    }
}

fn dollars(amount: u64, price: u64, decimals: u8) -> U256 {
    U256::from(amount) * U256::from(10).pow(U256::from(decimals)) / U256::from(price)
}

#[test]
fn sums_rates_and_health_of_random_accounts_are_those_of_the_contracts() {
    let mut market = Market::new();
    let mut random = ChaCha8Rng::seed_from_u64(27);
    let (mut indebted, mut moved, mut repaid) = (0, [0; 3], 0);
    for round in 0..ROUNDS {
        market.world.block.number += 1;
        market.world.block.timestamp += random.random_range(1..200_000_u64);
        let (token, asset, price, decimals) = TOKENS[random.random_range(0..TOKENS.len())];
        if random.random_bool(0.3) {
            let swing = if price == 1 { 9_900..10_100 } else { 7_500..12_500 };
            market.push(asset, U256::from(price * DOLLAR / 10_000 * random.random_range(swing)));
        }
        let user = [ALICE, BOB, CAROL][random.random_range(0..3)];
        let action = random.random_range(0..10);
        // The first account does everything with every token; the others owe dollars against ether and bitcoin.
        let (token, _, price, decimals) = match (user == ALICE, action) {
            (true, _) => (token, asset, price, decimals),
            (false, 4..9) => TOKENS[random.random_range(1..3)],
            (false, _) => TOKENS[random.random_range(0..2) * 3],
        };
        let (at, pool) = (market.token(token), market.pool());
        let amount =
            dollars(random.random_range(1..60_000), price, decimals) + U256::from(random.random_range(0..999_u64));
        let world = &mut market.world;
        // A refusal of the pool, such as for a lack of collateral, changes nothing.
        let variable = U256::from(2);
        let _refused = match action {
            0..4 => {
                let supply = AavePool::supplyCall { asset: at, amount, onBehalfOf: user, referralCode: 0 };
                world.try_send(user, pool, supply)
            }
            4..7 => world.try_send(
                user,
                pool,
                AavePool::borrowCall {
                    asset: at,
                    amount,
                    interestRateMode: variable,
                    referralCode: 0,
                    onBehalfOf: user,
                },
            ),
            7..9 => {
                let repay = AavePool::repayCall { asset: at, amount, interestRateMode: variable, onBehalfOf: user };
                world.try_send(user, pool, repay)
            }
            _ => world.try_send(user, pool, AavePool::withdrawCall { asset: at, amount, to: user }),
        };
        let (positions, sums) = (market.positions(user), market.sums(user));
        assert_eq!(AccountSums::of(&positions).unwrap(), sums, "round {round}");
        indebted += u32::from(sums.health_hundredths().is_some());

        if round % 5 != 0 {
            continue;
        }
        // At the price of a move the health factor is one, and beyond it the debt is liquidable, but for the mean threshold,
        // which the pool rounds down to a basis point of some 7,700.
        let moves = price_moves(&positions).unwrap();
        for (one, fall) in positions.iter().zip(moves) {
            // A feed's answer has 192 bits, and so far no price moves.
            let Some(fall) = fall.filter(|fall| (1..1_000_000).contains(&fall.basis_points)) else { continue };
            let (_, asset, ..) = TOKENS.into_iter().find(|row| market.token(row.0) == one.reserve.asset).unwrap();
            let (before, one_wad) = (market.world.state.clone(), U256::from(10).pow(U256::from(18)));
            market.push(asset, fall.price);
            let health = market.sums(user).health;
            assert!(health.abs_diff(one_wad) < one_wad / U256::from(5_000), "round {round}: {health}");
            // A tenth further, on the side where the debt can be liquidated.
            let further = if fall.rises { 1_100 } else { 900 };
            market.push(asset, fall.price * U256::from(further) / U256::from(1_000));
            assert!(market.sums(user).health < health, "round {round}");
            if one.debt.is_zero() {
                assert!(market.sums(user).health < one_wad, "round {round}");
            }
            market.world.state = before;
            let sides = if !one.debt.is_zero() && !one.supplied.is_zero() { 2 } else { usize::from(fall.rises) };
            moved[sides] += 1;
        }
        // The debt with a day's interest repays all of it and takes no more than the debt.
        for one in positions.iter().filter(|one| !one.debt.is_zero()) {
            let before = market.world.state.clone();
            let time = one.reserve.updated;
            let growth = one.reserve.debt_growth(time + 86_400).unwrap();
            let most = one.debt * growth / one.reserve.debt_growth(time).unwrap() + U256::from(2);
            let asset = one.reserve.asset;
            let repay = AavePool::repayCall { asset, amount: most, interestRateMode: variable, onBehalfOf: user };
            if market.world.ask(user, asset, Erc20::balanceOfCall { owner: user }) >= most {
                assert_eq!(market.world.act(user, market.pool(), repay), one.debt, "round {round}");
                let left = market.world.ask(user, one.reserve.debt_token, AaveBalance::balanceOfCall { user });
                assert_eq!(left, U256::ZERO);
                repaid += 1;
            }
            market.world.state = before;
        }
    }
    println!("{ROUNDS} rounds: {indebted} with debt, {moved:?} falls, rises and of both sides, {repaid} repayments");
    let enough = moved[0] > 100 && moved[1] > 100 && moved[2] > 20;
    assert!(indebted > 1_000 && enough && repaid > 300, "{indebted} {moved:?} {repaid}");
}

#[test]
fn configurations_are_read_as_the_contracts_read_them() {
    let market = Market::new();
    let views = market.deployment.contracts["aaveProtocolDataProvider"];
    let provider = market.deployment.contracts["aaveAddressesProvider"];
    assert_eq!(market.world.ask(ALICE, provider, AaveAddressesProvider::getPoolCall {}), market.pool());
    for one in market.positions(ALICE) {
        let (asset, config) = (one.reserve.asset, one.reserve.config);
        let found = market.world.ask(ALICE, views, AaveProtocolDataProvider::getReserveConfigurationDataCall { asset });
        let shares = [config.ltv, config.threshold, config.bonus, config.factor, u32::from(config.decimals)];
        let expected =
            [found.ltv, found.liquidationThreshold, found.liquidationBonus, found.reserveFactor, found.decimals];
        assert_eq!(shares.map(U256::from), expected);
        assert_eq!(
            (config.active, config.frozen, config.borrowing),
            (found.isActive, found.isFrozen, found.borrowingEnabled)
        );
        let caps = market.world.ask(ALICE, views, AaveProtocolDataProvider::getReserveCapsCall { asset });
        assert_eq!([config.borrow_cap, config.supply_cap].map(U256::from), [caps.borrowCap, caps.supplyCap]);
        assert!(!config.paused && config.debt_ceiling == 0);
        // The treasury has lent and borrowed since genesis.
        assert!(one.reserve.debt_index > RAY || one.reserve.debt_rate > U256::ZERO);
    }
}
