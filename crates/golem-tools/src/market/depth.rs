//! Depth of a pool: the amounts that can be taken out until its price has moved by 2 %, without fees. Amounts come from
//! the initialized ticks, never from virtual reserves: liquidity parked elsewhere does not count.

use alloy::primitives::U256;

use golem_protocols::uniswap::pool::Pool;
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::v2::V2Pool;
use golem_protocols::uniswap::v3::V3State;
use golem_protocols::uniswap::v3::math::{amount0_between, amount1_between, mul_div, mul_div_up};
use golem_protocols::uniswap::v3::tick_math::sqrt_price_at_tick;

/// Square roots of the factors 1.02 and 0.98, times 10^18, rounded down.
const ROOT_UP: u64 = 1_009_950_493_836_207_795;
const ROOT_DOWN: u64 = 989_949_493_661_166_534;
/// Scale of the roots.
const SCALE: u64 = 1_000_000_000_000_000_000;

/// Amounts within 2 % of a pool's price, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolDepth {
    /// Amount of the base that can be bought until its price is 2 % higher.
    pub(crate) base: U256,
    /// Amount of the quote that sales of the base bring until its price is 2 % lower.
    pub(crate) quote: U256,
}

/// Computes the depth of a V2 or V3 pool, seen from its base; `None` if the pool's state is impossible, and for V4 pools,
/// whose logs are not read either.
pub(crate) fn depth(pool: &Pool, base_is_token0: bool) -> Option<PoolDepth> {
    match pool {
        Pool::V2(pool) => of_pair(pool, base_is_token0),
        Pool::V3(pool) => of_ticks(pool.state(), base_is_token0),
        Pool::V4(_) => None,
    }
}

/// Depth in raw quotes, for comparing pools of one pair: the smaller side.
pub(crate) fn comparable(pool: &Pool, base_is_token0: bool) -> Option<U256> {
    let depth = depth(pool, base_is_token0)?;
    let base = Ratio::whole(depth.base).times(&pool.mid_price(base_is_token0)?).ceil()?;
    Some(base.min(depth.quote))
}

/// Constant product: a price that is `f` times as high has `1/√f` of the base and `√f` of the quote.
fn of_pair(pool: &V2Pool, base_is_token0: bool) -> Option<PoolDepth> {
    let (reserve0, reserve1) = (U256::from(pool.reserve0), U256::from(pool.reserve1));
    let (base, quote) = if base_is_token0 { (reserve0, reserve1) } else { (reserve1, reserve0) };
    Some(PoolDepth {
        base: base.checked_sub(mul_div_up(base, U256::from(SCALE), U256::from(ROOT_UP)).ok()?)?,
        quote: quote.checked_sub(mul_div_up(quote, U256::from(ROOT_DOWN), U256::from(SCALE)).ok()?)?,
    })
}

fn of_ticks(state: &V3State, base_is_token0: bool) -> Option<PoolDepth> {
    let root = state.sqrt_price_x96;
    let times = |factor: u64| mul_div(root, U256::from(factor), U256::from(SCALE)).ok();
    let by = |factor: u64| mul_div(root, U256::from(SCALE), U256::from(factor)).ok();
    // The price of token1 in token0 is the inverse: it rises by the factor that the raw price falls by.
    Some(if base_is_token0 {
        PoolDepth { base: above(state, times(ROOT_UP)?)?, quote: below(state, times(ROOT_DOWN)?)? }
    } else {
        PoolDepth { base: below(state, by(ROOT_UP)?)?, quote: above(state, by(ROOT_DOWN)?)? }
    })
}

/// Amount of token0 between the price and a higher root. `None` beyond the ticks that were read.
fn above(state: &V3State, target: U256) -> Option<U256> {
    let (mut at, mut liquidity, mut sum) = (state.sqrt_price_x96, state.liquidity, U256::ZERO);
    for tick in state.ticks.iter().filter(|tick| tick.index > state.tick) {
        let boundary = sqrt_price_at_tick(tick.index).ok()?;
        if boundary >= target {
            break;
        }
        sum = sum.checked_add(amount0_between(at, boundary, liquidity, false).ok()?)?;
        liquidity = liquidity.checked_add_signed(tick.liquidity_net)?;
        at = boundary;
    }
    let known = sqrt_price_at_tick(*state.known_ticks.end()).ok()?;
    if target > known {
        return None;
    }
    sum.checked_add(amount0_between(at, target, liquidity, false).ok()?)
}

/// Amount of token1 between a lower root and the price. `None` beyond the ticks that were read.
fn below(state: &V3State, target: U256) -> Option<U256> {
    let (mut at, mut liquidity, mut sum) = (state.sqrt_price_x96, state.liquidity, U256::ZERO);
    for tick in state.ticks.iter().rev().filter(|tick| tick.index <= state.tick) {
        let boundary = sqrt_price_at_tick(tick.index).ok()?;
        if boundary <= target {
            break;
        }
        sum = sum.checked_add(amount1_between(boundary, at, liquidity, false).ok()?)?;
        liquidity = liquidity.checked_add_signed(tick.liquidity_net.checked_neg()?)?;
        at = boundary;
    }
    let known = sqrt_price_at_tick(*state.known_ticks.start()).ok()?;
    if target < known {
        return None;
    }
    sum.checked_add(amount1_between(target, at, liquidity, false).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::Address;
    use golem_protocols::uniswap::v3::{Tick, V3Pool};

    fn v3(liquidity: u128, range: (i32, i32)) -> V3State {
        let nets = i128::try_from(liquidity).unwrap();
        V3State {
            id: Address::repeat_byte(3).into(),
            token0: Address::repeat_byte(1),
            token1: Address::repeat_byte(2),
            fee: 3_000,
            tick_spacing: 1,
            sqrt_price_x96: U256::ONE << 96,
            liquidity,
            tick: 0,
            ticks: vec![Tick { index: range.0, liquidity_net: nets }, Tick { index: range.1, liquidity_net: -nets }],
            known_ticks: -2_048..=2_048,
        }
    }

    #[test]
    fn depth_of_a_pair_follows_from_the_constant_product() {
        let (reserve0, reserve1) = (1_000_000_000_000_u128, 3_400_000_000_000_u128);
        let (token0, token1) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let pool: Pool = V2Pool { address: Address::repeat_byte(9), token0, token1, reserve0, reserve1 }.into();
        // 10^12 · (1 − 1/√1.02) = 9,852,457,023.… and 3.4 · 10^12 · (1 − √0.98) = 34,171,721,552.03….
        let found = depth(&pool, true).unwrap();
        assert_eq!((found.base, found.quote), (U256::from(9_852_457_023_u64), U256::from(34_171_721_552_u64)));
        let other = depth(&pool, false).unwrap();
        // 3.4 · 10^12 · (1 − 1/√1.02) = 33,498,353,879.30… and 10^12 · (1 − √0.98) = 10,050,506,338.83….
        assert_eq!((other.base, other.quote), (U256::from(33_498_353_879_u64), U256::from(10_050_506_338_u64)));
    }

    #[test]
    fn depth_of_ticks_counts_the_liquidity_in_range_on_each_side() {
        // L = 10^18 everywhere, price 1: token0 above is L · (1 − 1/√1.02) = 9,852,457,023,325,690; token1 below is
        // L · (1 − √0.98) = 10,050,506,338,833,466.
        let pool = |state| Pool::from(V3Pool::new(state).unwrap());
        let wide = pool(v3(1_000_000_000_000_000_000, (-2_000, 2_000)));
        let found = depth(&wide, true).unwrap();
        let near = |value: U256, expected: u128| value.abs_diff(U256::from(expected)) <= U256::from(2);
        assert!(near(found.base, 9_852_457_023_325_690), "{found:?}");
        assert!(near(found.quote, 10_050_506_338_833_466), "{found:?}");
        // Seen from the other token, prices are inverse: 1.02 is 1/1.02 there.
        let other = depth(&wide, false).unwrap();
        assert!(near(other.base, 9_852_457_023_325_690), "{other:?}");
        assert!(near(other.quote, 10_050_506_338_833_466), "{other:?}");
        // Liquidity up to tick 100 alone: L · (1 − 1.0001^−50) = 4,987,272,070,749,096; nothing beyond it counts.
        let narrow = depth(&pool(v3(1_000_000_000_000_000_000, (-2_000, 100))), true).unwrap();
        assert!(near(narrow.base, 4_987_272_070_749_096), "{narrow:?}");
        // Liquidity that is not in range counts for nothing at all.
        let mut away = v3(1_000_000_000_000_000_000, (500, 2_000));
        away.liquidity = 0;
        let away = depth(&pool(away), true).unwrap();
        assert_eq!((away.base, away.quote), (U256::ZERO, U256::ZERO));
    }

    #[test]
    fn the_depth_beyond_the_ticks_that_were_read_is_not_known() {
        let mut state = v3(1_000, (-50, 50));
        state.known_ticks = -60..=60;
        assert_eq!(of_ticks(&state, true), None);
    }
}
