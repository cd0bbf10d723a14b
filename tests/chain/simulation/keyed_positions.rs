//! V4 positions, compared with Uniswap's own contracts for random ranges, prices, swaps and changes: what each of our calls
//! pays and takes, to the unit, in a pool of the native token and in one of two tokens.

use alloy::primitives::aliases::{I24, U24, U48, U160};
use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::sol_types::SolValue;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswap_v4::{PoolKey, PoolManager, PoolTrader, PositionManager, StateView};
use bardo::sandbox::contracts::BundledContract;
use bardo::uniswap::positions::fees_owed;
use bardo::uniswap::v3::position::TickRange;
use bardo::uniswap::v4::manager::{KeyedChange, KeyedDeposit, KeyedPlan};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::world::{ALICE, TestHarness, ether};

const FEE: u32 = 3_000;
const SPACING: i32 = 60;
/// Rounds in each of the two pools.
const ROUNDS: u32 = 700;

struct Pool {
    world: TestHarness,
    manager: Address,
    view: Address,
    trader: Address,
    key: PoolKey,
    id: B256,
}

impl Pool {
    /// Pool at a price of one between the native token and a token, or between two tokens, with liquidity around it.
    fn new(is_native: bool) -> Self {
        let mut world = TestHarness::new();
        world.state.set_balance(ALICE, U256::ONE << 120);
        let bundled = |contract: BundledContract, arguments: Vec<u8>| contract.creation(&arguments).unwrap();
        let nowhere = Address::repeat_byte(0xde);
        let weth = world.deploy(bundled(BundledContract::Weth9, vec![]));
        let permit2 = world.deploy(bundled(BundledContract::Permit2, vec![]));
        let pools = world.deploy(bundled(BundledContract::PoolManager, (ALICE,).abi_encode_params()));
        let arguments = (pools, permit2, U256::from(300_000), nowhere, weth).abi_encode_params();
        let manager = world.deploy(bundled(BundledContract::PositionManager, arguments));
        let [view, trader] = [BundledContract::StateView, BundledContract::PoolTrader]
            .map(|contract| world.deploy(bundled(contract, (pools,).abi_encode_params())));
        let mut tokens = ["ONE", "TWO"].map(|symbol| {
            let arguments = (symbol.to_string(), symbol.to_string(), U256::from(18)).abi_encode_params();
            world.deploy(bundled(BundledContract::MockERC20, arguments))
        });
        tokens.sort_unstable();
        for token in tokens {
            world.send(ALICE, token, OpenMint::mintCall { to: ALICE, value: ether(10_000_000) });
            for spender in [permit2, trader] {
                world.send(ALICE, token, Erc20::approveCall { spender, value: U256::MAX });
            }
            let call = Permit2::approveCall { token, spender: manager, amount: U160::MAX, expiration: U48::MAX };
            world.send(ALICE, permit2, call);
        }
        let key = PoolKey {
            currency0: if is_native { Address::ZERO } else { tokens[0] },
            currency1: tokens[1],
            fee: U24::from(FEE),
            tickSpacing: I24::try_from(SPACING).unwrap(),
            hooks: Address::ZERO,
        };
        world.send(ALICE, pools, PoolManager::initializeCall { key, sqrtPriceX96: U160::from(1) << 96 });
        let mut pool = Self { world, manager, view, trader, key, id: keccak256(key.abi_encode()) };
        for width in [60, 600, 6_000] {
            let deposit = KeyedDeposit { liquidity: 100_000 * 10_u128.pow(18), most: [u128::MAX >> 40; 2] };
            pool.change(KeyedChange::Mint { key, range: TickRange::new(-width, width).unwrap(), deposit });
        }
        pool
    }

    fn price(&self) -> (U256, i32) {
        let slot0 = self.world.ask(ALICE, self.view, StateView::getSlot0Call { poolId: self.id });
        (slot0.sqrtPriceX96.to(), slot0.tick.as_i32())
    }

    fn held(&self) -> [U256; 2] {
        [self.key.currency0, self.key.currency1].map(|currency| match currency.is_zero() {
            true => self.world.state.balance(ALICE),
            false => self.world.ask(ALICE, currency, Erc20::balanceOfCall { owner: ALICE }),
        })
    }

    /// Carries out a change by our calldata, with the value that it says; returns what ALICE gained and lost.
    fn change(&mut self, change: KeyedChange) -> ([U256; 2], [U256; 2]) {
        let currencies = [self.key.currency0, self.key.currency1];
        let plan = KeyedPlan { currencies, change, deadline: U256::MAX };
        let (data, before) = (plan.calldata(ALICE), self.held());
        assert_eq!(KeyedPlan::decode(&data, ALICE), Ok(plan));
        let done = self.world.pay(ALICE, self.manager, data, plan.value());
        assert!(done.is_ok(), "{plan:?}: {done:?}");
        let after = self.held();
        let of = |from: [U256; 2], to: [U256; 2]| [0, 1].map(|at| to[at].saturating_sub(from[at]));
        (of(before, after), of(after, before))
    }

    fn swap(&mut self, down: bool, amount: u128) {
        let limit = |tick: i32| bardo::uniswap::v3::tick_math::sqrt_price_at_tick(tick).unwrap();
        let trade = PoolTrader::Trade {
            key: self.key,
            zeroForOne: down,
            amountIn: amount,
            sqrtPriceLimitX96: limit(if down { -3_000 } else { 3_000 }).to(),
            leastOut: 0,
        };
        let value = if down && self.key.currency0.is_zero() { U256::from(amount) } else { U256::ZERO };
        let call = PoolTrader::tradeCall { trades: vec![trade] };
        let data = alloy::sol_types::SolCall::abi_encode(&call);
        self.world.pay(ALICE, self.trader, data.into(), value).unwrap();
    }

    /// Liquidity of a position, and the fees that it is owed by our formula.
    fn owed(&self, token_id: U256, range: TickRange) -> (u128, [U256; 2]) {
        let tick = |tick| I24::try_from(tick).unwrap();
        let (lower, upper) = (tick(range.lower()), tick(range.upper()));
        let call = StateView::getPositionInfoCall {
            poolId: self.id,
            owner: self.manager,
            tickLower: lower,
            tickUpper: upper,
            salt: token_id.into(),
        };
        let held = self.world.ask(ALICE, self.view, call);
        let call = StateView::getFeeGrowthInsideCall { poolId: self.id, tickLower: lower, tickUpper: upper };
        let inside = self.world.ask(ALICE, self.view, call);
        let liquidity =
            self.world.ask(ALICE, self.manager, PositionManager::getPositionLiquidityCall { tokenId: token_id });
        assert_eq!(held.liquidity, liquidity);
        let owed = fees_owed(
            [inside.feeGrowthInside0X128, inside.feeGrowthInside1X128],
            [held.feeGrowthInside0LastX128, held.feeGrowthInside1LastX128],
            liquidity,
        );
        (liquidity, owed.unwrap().map(U256::from))
    }
}

/// Compares a gain and a loss with what should come out and what should go in, of each currency net.
fn assert_net(round: u32, (gained, lost): ([U256; 2], [U256; 2]), out: [U256; 2], into: [U256; 2]) {
    for at in [0, 1] {
        let expected = (out[at].saturating_sub(into[at]), into[at].saturating_sub(out[at]));
        assert_eq!((gained[at], lost[at]), expected, "round {round}, currency {at}");
    }
}

fn run(is_native: bool, seed: u64) {
    let mut pool = Pool::new(is_native);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut own: Vec<(U256, TickRange)> = Vec::new();
    let (mut compared, mut earned, mut outside, mut closed, mut compounded) = (0_u32, 0_u32, 0_u32, 0_u32, 0_u32);
    let nothing = [U256::ZERO; 2];
    for round in 0..ROUNDS {
        let (a, b) = (random.random_range(-20..20) * SPACING, random.random_range(-20..20) * SPACING);
        if let Ok(range) = TickRange::new(a.min(b), a.max(b)) {
            let liquidity = random.random_range(1..1_u128 << 75);
            let taken = range.amounts(pool.price().0, liquidity, true).unwrap();
            let next = pool.world.ask(ALICE, pool.manager, PositionManager::nextTokenIdCall {});
            let most = taken.map(|taken| taken.to::<u128>() + random.random_range(0..1_000));
            // One unit less than it takes is refused by the contract.
            if let Some(at) = (0..2).find(|at| !taken[*at].is_zero()) {
                let mut less = taken.map(|taken| taken.to::<u128>());
                less[at] -= 1;
                let deposit = KeyedDeposit { liquidity, most: less };
                let currencies = [pool.key.currency0, pool.key.currency1];
                let change = KeyedChange::Mint { key: pool.key, range, deposit };
                let plan = KeyedPlan { currencies, change, deadline: U256::MAX };
                let refused = pool.world.pay(ALICE, pool.manager, plan.calldata(ALICE), plan.value());
                assert!(refused.is_err(), "round {round}: {taken:?}");
            }
            let deposit = KeyedDeposit { liquidity, most };
            let moved = pool.change(KeyedChange::Mint { key: pool.key, range, deposit });
            assert_net(round, moved, nothing, taken);
            own.push((next, range));
        }
        // Back to the middle more often than away from it, and never past the limits of the swaps.
        let down = match pool.price().1 {
            1_500.. => true,
            ..-1_500 => false,
            tick => random.random_bool(if tick > 0 { 0.7 } else { 0.3 }),
        };
        pool.swap(down, random.random_range(1..1_u128 << 73));

        if own.is_empty() {
            continue;
        }
        let place = random.random_range(0..own.len());
        let (token_id, range) = own[place];
        let ((price, tick), (liquidity, owed)) = (pool.price(), pool.owed(token_id, range));
        if liquidity == 0 {
            let moved = pool.change(KeyedChange::Close { token_id, least: [0, 0] });
            assert_net(round, moved, nothing, nothing);
            own.swap_remove(place);
            continue;
        }
        earned += u32::from(owed != nothing);
        outside += u32::from(!range.contains(tick));
        compared += 1;
        let narrow = |amounts: [U256; 2]| amounts.map(|amount| amount.to::<u128>());
        let plus = |first: [U256; 2], second: [U256; 2]| [first[0] + second[0], first[1] + second[1]];
        match random.random_range(0..5) {
            0 => assert_net(round, pool.change(KeyedChange::Collect { token_id }), owed, nothing),
            1 => {
                let part = random.random_range(1..=liquidity);
                let paid = range.amounts(price, part, false).unwrap();
                let change = KeyedChange::Remove { token_id, liquidity: part, least: narrow(paid) };
                assert_net(round, pool.change(change), plus(paid, owed), nothing);
            }
            2 => {
                let paid = range.amounts(price, liquidity, false).unwrap();
                let moved = pool.change(KeyedChange::Close { token_id, least: narrow(paid) });
                assert_net(round, moved, plus(paid, owed), nothing);
                own.swap_remove(place);
                closed += 1;
            }
            3 => {
                let more = random.random_range(1..1_u128 << 75);
                let taken = range.amounts(price, more, true).unwrap();
                let deposit = KeyedDeposit { liquidity: more, most: narrow(taken) };
                let moved = pool.change(KeyedChange::Increase { token_id, deposit });
                assert_net(round, moved, owed, taken);
            }
            _ => {
                let more = range.liquidity_for(price, owed).unwrap();
                if more == 0 {
                    continue;
                }
                let taken = range.amounts(price, more, true).unwrap();
                let deposit = KeyedDeposit { liquidity: more, most: narrow(taken) };
                let moved = pool.change(KeyedChange::Compound { token_id, deposit });
                assert_eq!(moved.1, nothing, "round {round}: compounding takes nothing from the account");
                assert_net(round, moved, owed, taken);
                compounded += 1;
            }
        }
    }
    assert!(compared > 550 && earned > 200 && outside > 30, "{compared} {earned} {outside}");
    assert!(closed > 50 && compounded > 20, "{closed} {compounded}");
}

#[test]
fn what_v4_positions_pay_and_take_in_a_pool_of_the_native_token_is_what_our_formulas_say() {
    run(true, 4);
}

#[test]
fn what_v4_positions_pay_and_take_in_a_pool_of_two_tokens_is_what_our_formulas_say() {
    run(false, 5);
}
