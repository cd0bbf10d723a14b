//! Amounts, liquidity and fees of positions, compared with Uniswap's own contracts for random ranges, prices and swaps.

use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::sol_types::SolValue;
use bardo::abi::uniswap_v3::{NonfungiblePositionManager, SwapRouter02, UniswapV3Pool};
use bardo::base::units::BasisPoints;
use bardo::uniswap::positions::collectable;
use bardo::uniswap::v3::position::TickRange;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::world::{ALICE, Market, TestHarness};

const FEE: u32 = 3_000;
const ROUNDS: u32 = 1_200;

struct Pool<'a> {
    world: &'a mut TestHarness,
    market: &'a Market,
}

impl Pool<'_> {
    fn price(&self) -> (U256, i32) {
        let slot0 = self.world.ask(ALICE, self.market.pool, UniswapV3Pool::slot0Call {});
        (slot0.sqrtPriceX96.to(), slot0.tick.as_i32())
    }

    fn swap(&mut self, down: bool, amount: U256) {
        let [first, second] = self.market.tokens;
        let (token_in, token_out) = if down { (first, second) } else { (second, first) };
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: token_in,
            tokenOut: token_out,
            fee: U24::from(FEE),
            recipient: ALICE,
            amountIn: amount,
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        self.world.act(ALICE, self.market.router, SwapRouter02::exactInputSingleCall { params });
    }

    fn position(&self, token: U256) -> (TickRange, NonfungiblePositionManager::positionsReturn) {
        let call = NonfungiblePositionManager::positionsCall { tokenId: token };
        let position = self.world.ask(ALICE, self.market.positions, call);
        (TickRange::new(position.tickLower.as_i32(), position.tickUpper.as_i32()).unwrap(), position)
    }

    fn outside(&self, tick: i32) -> [U256; 2] {
        let call = UniswapV3Pool::ticksCall { tick: I24::try_from(tick).unwrap() };
        let tick = self.world.ask(ALICE, self.market.pool, call);
        [tick.feeGrowthOutside0X128, tick.feeGrowthOutside1X128]
    }

    /// Amounts that a `collect` pays by our formulas.
    fn owed(&self, token: U256) -> [u128; 2] {
        let (range, position) = self.position(token);
        // The key as the contract hashes it: packed, each tick in three bytes.
        let packed = (self.market.positions, position.tickLower, position.tickUpper).abi_encode_packed();
        let key: B256 = keccak256(packed);
        let pool = self.market.pool;
        let shared = self.world.ask(ALICE, pool, UniswapV3Pool::positionsCall { key });
        let growth = [
            self.world.ask(ALICE, pool, UniswapV3Pool::feeGrowthGlobal0X128Call {}),
            self.world.ask(ALICE, pool, UniswapV3Pool::feeGrowthGlobal1X128Call {}),
        ];
        let outside = [self.outside(range.lower()), self.outside(range.upper())];
        collectable(range, (self.price().1, growth), outside, &position, &shared)
    }

    fn collect(&self, token: U256) -> NonfungiblePositionManager::collectCall {
        let params = NonfungiblePositionManager::CollectParams {
            tokenId: token,
            recipient: ALICE,
            amount0Max: u128::MAX,
            amount1Max: u128::MAX,
        };
        NonfungiblePositionManager::collectCall { params }
    }

    fn decrease(&self, token: U256, liquidity: u128) -> NonfungiblePositionManager::decreaseLiquidityCall {
        NonfungiblePositionManager::decreaseLiquidityCall {
            params: NonfungiblePositionManager::DecreaseLiquidityParams {
                tokenId: token,
                liquidity,
                amount0Min: U256::ZERO,
                amount1Min: U256::ZERO,
                deadline: U256::MAX,
            },
        }
    }
}

/// Mints, swaps, collects and withdraws at random, some of it shared in one range by several tokens. Every minted
/// liquidity and amount, every withdrawn amount and every collected fee is what our formulas say, to the unit.
#[test]
fn amounts_liquidity_and_fees_of_random_positions_are_those_of_the_contracts() {
    let (mut world, market) = TestHarness::with_market();
    let manager: Address = market.positions;
    let mut pool = Pool { world: &mut world, market: &market };
    let mut random = ChaCha8Rng::seed_from_u64(26);
    let mut tokens: Vec<U256> = (1_u64..=3).map(U256::from).collect();
    let (mut compared, mut earned, mut outside) = (0_u32, 0_u32, 0_u32);
    for round in 0..ROUNDS {
        let (a, b) = (random.random_range(-20..20) * 60, random.random_range(-20..20) * 60);
        if let Ok(range) = TickRange::new(a.min(b), a.max(b)) {
            let wanted = [0, 0].map(|_| U256::from(random.random_range(1_u64..1 << 62)));
            let (price, _) = pool.price();
            let params = NonfungiblePositionManager::MintParams {
                token0: market.tokens[0],
                token1: market.tokens[1],
                fee: U24::from(FEE),
                tickLower: I24::try_from(range.lower()).unwrap(),
                tickUpper: I24::try_from(range.upper()).unwrap(),
                amount0Desired: wanted[0],
                amount1Desired: wanted[1],
                amount0Min: U256::ZERO,
                amount1Min: U256::ZERO,
                recipient: ALICE,
                deadline: U256::MAX,
            };
            let minted = pool.world.act(ALICE, manager, NonfungiblePositionManager::mintCall { params });
            let (liquidity, taken) = range.deposit(price, wanted).unwrap();
            assert_eq!(liquidity, minted.liquidity, "round {round}");
            assert_eq!(taken, [minted.amount0, minted.amount1], "round {round}");
            // The minimums of a deposit at this price would have let it through.
            let least = range.least_deposit(price, wanted, BasisPoints::new(100).unwrap()).unwrap();
            assert!(least[0] <= minted.amount0 && least[1] <= minted.amount1, "round {round}: {least:?}");
            // Beside one amount alone, as much of the other is needed as the contract takes with it.
            for (at, beside) in [(0, range.beside_first(price, taken[0])), (1, range.beside_second(price, taken[1]))] {
                let Ok(other) = beside else {
                    assert!(taken[at].is_zero(), "round {round}");
                    continue;
                };
                if taken[at].is_zero() {
                    continue;
                }
                // What was taken is rounded up by less than a unit, which stands for this much of the other token.
                let missing = taken[1 - at].abs_diff(other);
                assert!(missing <= U256::from(3) + other / taken[at], "round {round}: {taken:?} {other}");
            }
            tokens.push(minted.tokenId);
        }
        let amount = U256::from(random.random_range(1_u64..u64::MAX)) * U256::from(random.random_range(1_u64..12));
        // Back to the middle more often than away from it.
        let down = random.random_bool(if pool.price().1 > 0 { 0.8 } else { 0.2 });
        pool.swap(down, amount);

        let token = tokens[random.random_range(0..tokens.len())];
        let ((range, position), (price, tick)) = (pool.position(token), pool.price());
        let owed = pool.owed(token);
        let paid = pool.world.ask(ALICE, manager, pool.collect(token));
        assert_eq!(owed.map(U256::from), [paid.amount0, paid.amount1], "round {round}, token {token}");
        earned += u32::from(owed != [0, 0]);
        if position.liquidity > 0 {
            let part = random.random_range(1..=position.liquidity);
            let paid = pool.world.ask(ALICE, manager, pool.decrease(token, part));
            assert_eq!(range.amounts(price, part, false).unwrap(), [paid.amount0, paid.amount1], "round {round}");
            outside += u32::from(!range.contains(tick));
            compared += 1;
            // Some of it is done, so that later rounds find uncollected withdrawals.
            if random.random_bool(0.3) && token > U256::from(3) {
                pool.world.act(ALICE, manager, pool.decrease(token, part));
            }
        }
        if random.random_bool(0.3) && owed != [0, 0] {
            pool.world.act(ALICE, manager, pool.collect(token));
        }
    }
    assert!(compared > 1_000 && earned > 500 && outside > 50, "{compared} {earned} {outside}");
}
