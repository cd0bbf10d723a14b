//! Tests of the ladder against the pool contract's loop, implemented here step by step.

use super::math::{mul_div, mul_div_up};
use super::swap_step::compute_swap_step;
use super::tick_math::{MAX_SQRT_PRICE, MIN_SQRT_PRICE, tick_at_sqrt_price};
use super::*;
use alloy::primitives::U512;
use proptest::prelude::*;

/// The pool contract's `swap`, one word and one tick at a time. Returns (in, out, price, tick, liquidity, crossed).
fn contract_loop(state: &V3State, down: bool, exact: FixedAmount, limit: U256) -> (U256, U256, U256, i32, u128, u32) {
    let (mut price, mut tick, mut liquidity) = (state.sqrt_price_x96, state.tick, state.liquidity);
    let mut left = exact.amount();
    let (mut paid, mut got, mut crossed) = (U256::ZERO, U256::ZERO, 0);
    while !left.is_zero() && price != limit {
        let position = tick.div_euclid(state.tick_spacing);
        let (next, net) = if down {
            let word_start = (position >> 8) * 256 * state.tick_spacing;
            let tick_below = state.ticks.iter().rev().find(|t| t.index <= tick && t.index >= word_start);
            tick_below.map_or((word_start, None), |t| (t.index, Some(t.liquidity_net)))
        } else {
            let word_end = (((position + 1) >> 8) * 256 + 255) * state.tick_spacing;
            let tick_above = state.ticks.iter().find(|t| t.index > tick && t.index <= word_end);
            tick_above.map_or((word_end, None), |t| (t.index, Some(t.liquidity_net)))
        };
        let next = next.clamp(MIN_TICK, MAX_TICK);
        let next_price = sqrt_price_at_tick(next).unwrap();
        let target = if down { next_price.max(limit) } else { next_price.min(limit) };
        let remaining = match exact {
            FixedAmount::In(_) => FixedAmount::In(left),
            FixedAmount::Out(_) => FixedAmount::Out(left),
        };
        let start = price;
        let step = compute_swap_step(price, target, liquidity, remaining, state.fee).unwrap();
        price = step.sqrt_price_next;
        paid += step.amount_in + step.fee_amount;
        got += step.amount_out;
        left -= if matches!(exact, FixedAmount::In(_)) { step.amount_in + step.fee_amount } else { step.amount_out };
        if price == next_price {
            if let Some(net) = net {
                crossed += 1;
                liquidity = liquidity.checked_add_signed(if down { -net } else { net }).unwrap();
            }
            tick = if down { next - 1 } else { next };
        } else if price != start {
            tick = tick_at_sqrt_price(price).unwrap();
        }
    }
    (paid, got, price, tick, liquidity, crossed)
}

/// Builds a pool from positions `(lower, width, liquidity)`, in units of the spacing around zero.
fn pool_of(spacing: i32, fee: u32, price_tick: i32, within: u64, positions: &[(i32, i32, u128)]) -> V3State {
    let mut nets = std::collections::BTreeMap::new();
    for (lower, width, liquidity) in positions {
        let liquidity = i128::try_from(*liquidity).unwrap();
        *nets.entry(lower * spacing).or_insert(0) += liquidity;
        *nets.entry((lower + width) * spacing).or_insert(0) -= liquidity;
    }
    nets.retain(|_, net| *net != 0);
    let low = sqrt_price_at_tick(price_tick).unwrap();
    let high = sqrt_price_at_tick(price_tick + 1).unwrap();
    let in_range: i128 = nets.range(..=price_tick).map(|(_, net)| *net).sum();
    V3State {
        id: Address::repeat_byte(9).into(),
        token0: Address::repeat_byte(1),
        token1: Address::repeat_byte(2),
        fee,
        tick_spacing: spacing,
        sqrt_price_x96: low + (high - low) * U256::from(within) / U256::from(u64::MAX),
        liquidity: u128::try_from(in_range).unwrap(),
        tick: price_tick,
        ticks: nets.into_iter().map(|(index, liquidity_net)| Tick { index, liquidity_net }).collect(),
        known_ticks: ALL_TICKS,
    }
}

fn any_pool() -> impl Strategy<Value = V3State> {
    let position = (-600..600i32, 1..500i32, (10u32..80).prop_flat_map(|bits| 1..(1u128 << bits)));
    let fee_and_spacing = prop::sample::select(vec![(100, 1), (500, 10), (3000, 60), (10_000, 200)]);
    (fee_and_spacing, prop::collection::vec(position, 1..8), -60_000..60_000i32, 0..u64::MAX)
        .prop_map(|((fee, spacing), positions, tick, within)| pool_of(spacing, fee, tick, within, &positions))
}

fn any_exact() -> impl Strategy<Value = FixedAmount> {
    (any::<bool>(), (0u32..120).prop_flat_map(|bits| 1..=(1u128 << bits))).prop_map(|(paying, amount)| {
        if paying { FixedAmount::In(U256::from(amount)) } else { FixedAmount::Out(U256::from(amount)) }
    })
}

fn end_of(down: bool) -> U256 {
    if down { MIN_SQRT_PRICE + U256::from(1) } else { MAX_SQRT_PRICE - U256::from(1) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_swap_matches_the_contracts_loop(state in any_pool(), exact in any_exact(), down in any::<bool>()) {
        let (paid, got, price, tick, liquidity, crossed) = contract_loop(&state, down, exact, end_of(down));
        let filled = match exact { FixedAmount::In(amount) => paid == amount, FixedAmount::Out(amount) => got == amount };
        match V3Pool::new(state).unwrap().swap(down, exact) {
            Ok(swap) => {
                prop_assert!(filled);
                prop_assert_eq!((swap.amount_in, swap.amount_out), (paid, got));
                prop_assert_eq!((swap.sqrt_price_after, swap.tick_after().unwrap()), (price, tick));
                prop_assert_eq!((swap.liquidity_after, swap.ticks_crossed), (liquidity, crossed));
            }
            Err(error) => {
                prop_assert!(!filled, "refused what the contract fills: {error}");
                let expected = PoolError::InsufficientLiquidity { pool: Address::repeat_byte(9).into() };
                prop_assert_eq!(error, expected);
            }
        }
    }

    #[test]
    fn a_limit_stops_where_the_contract_stops(
        state in any_pool(), exact in any_exact(), down in any::<bool>(), far in 1..40_000i32, on_tick in any::<bool>(),
    ) {
        let spacing = state.tick_spacing;
        let tick = if down { state.tick - far } else { state.tick + 1 + far };
        let tick = if on_tick { tick.div_euclid(spacing) * spacing } else { tick };
        let limit = sqrt_price_at_tick(tick).unwrap();
        prop_assume!(if down { limit < state.sqrt_price_x96 } else { limit > state.sqrt_price_x96 });
        let (paid, got, price, tick, liquidity, _) = contract_loop(&state, down, exact, limit);
        let swap = V3Pool::new(state).unwrap().swap_to_limit(down, exact, limit).unwrap();
        prop_assert_eq!((swap.amount_in, swap.amount_out), (paid, got));
        prop_assert_eq!((swap.sqrt_price_after, swap.tick_after().unwrap(), swap.liquidity_after), (price, tick, liquidity));
    }

    #[test]
    fn mul_div_has_full_width(a in any::<[u64; 4]>(), b in any::<[u64; 4]>(), c in any::<[u64; 4]>(), shift in 0usize..256) {
        let (a, b, c) = (U256::from_limbs(a), U256::from_limbs(b) >> shift, U256::from_limbs(c));
        let product = U512::from(a) * U512::from(b);
        let (quotient, up) = (mul_div(a, b, c), mul_div_up(a, b, c));
        match quotient {
            Ok(quotient) => {
                let back = U512::from(quotient) * U512::from(c);
                prop_assert!(back <= product && product - back < U512::from(c));
                match up {
                    Ok(up) => prop_assert_eq!(up - quotient, U256::from(u8::from(back != product))),
                    Err(_) => prop_assert_eq!(quotient, U256::MAX),
                }
            }
            Err(_) => prop_assert!(c.is_zero() || product >= U512::from(c) << 256),
        }
    }

    #[test]
    fn ticks_and_prices_invert(tick in MIN_TICK..MAX_TICK) {
        let price = sqrt_price_at_tick(tick).unwrap();
        prop_assert_eq!(tick_at_sqrt_price(price), Ok(tick));
        if tick > MIN_TICK {
            prop_assert_eq!(tick_at_sqrt_price(price - U256::from(1)), Ok(tick - 1));
        }
    }
}

#[test]
fn a_swap_stops_at_ticks_that_were_not_read() {
    let mut state = pool_of(60, 3000, 30, 0, &[(-1000, 2000, 1 << 70)]);
    let all = V3Pool::new(state.clone()).unwrap();
    let much = FixedAmount::In(U256::from(1u128 << 72));
    assert!(all.quote(true, much).is_ok());
    state.known_ticks = -15_360..=15_359;
    state.ticks.clear();
    let some = V3Pool::new(state).unwrap();
    assert_eq!(some.quote(true, much), Err(PoolError::InsufficientLiquidity { pool: Address::repeat_byte(9).into() }));
    let little = FixedAmount::In(U256::from(1u128 << 60));
    assert_eq!(some.quote(true, little), all.quote(true, little));
    assert_eq!(some.quote(true, FixedAmount::In(U256::ZERO)), Err(PoolError::ZeroAmount));
    assert_eq!(some.quote(true, FixedAmount::In(U256::MAX)), Err(PoolError::AmountTooLarge));
}

#[test]
fn a_limit_on_a_skipped_word_leaves_the_tick_below() {
    let pool = V3Pool::new(pool_of(60, 3000, -50_878, 5, &[(0, 1, 1)])).unwrap();
    let word_start = -5 * 256 * 60;
    let swap =
        pool.swap_to_limit(true, FixedAmount::Out(U256::from(1)), sqrt_price_at_tick(word_start).unwrap()).unwrap();
    assert_eq!((swap.amount_in, swap.amount_out), (U256::ZERO, U256::ZERO));
    assert_eq!(swap.tick_after(), Ok(word_start - 1));
}

#[test]
fn impossible_states_are_refused() {
    let good = pool_of(60, 3000, 30, 0, &[(-10, 20, 1 << 70)]);
    let refused = |change: fn(&mut V3State)| {
        let mut state = good.clone();
        change(&mut state);
        matches!(V3Pool::new(state), Err(PoolError::InvalidState { .. }))
    };
    assert!(V3Pool::new(good.clone()).is_ok());
    assert!(refused(|state| state.token0 = state.token1));
    assert!(refused(|state| state.fee = 1_000_000));
    assert!(refused(|state| state.tick_spacing = 0));
    assert!(refused(|state| state.tick = 90));
    assert!(refused(|state| state.tick = i32::MIN));
    assert!(refused(|state| state.tick = i32::MAX));
    assert!(refused(|state| state.liquidity += 1));
    assert!(refused(|state| state.ticks.reverse()));
    assert!(refused(|state| state.ticks[0].index += 1));
    assert!(refused(|state| state.sqrt_price_x96 = U256::ZERO));
}
