//! The best single path against the enumeration, where the search's bounds are hardest: V4 and native pools, prices over the whole
//! range, no liquidity at the price, reserves of a few units, fees from nothing to almost everything, and equal pools.

use super::*;
use alloy::primitives::aliases::{I24, U24};

use bardo_abi::uniswap_v4::PoolKey;

/// Token that is the native one's wrapped form, neither the lowest nor the highest address.
const WRAPPED: u8 = 2;

/// Kind, both tokens, seven numbers that the kind reads in its way.
type Extreme = (u8, (u8, u8), i32, u32, u32, u32, bool);

fn any_extreme() -> impl Strategy<Value = Extreme> {
    let tick = prop_oneof![-887_000..887_000i32, -300..300i32, Just(0)];
    (0u8..4, (0..TOKENS, 1..TOKENS), tick, 0u32..128, 0u32..113, 0u32..1_000_000, any::<bool>())
}

/// Positions around a price, or on both sides of it with nothing at it. A seventh of all prices lies outside every position.
fn ladder(tick: i32, spacing: i32, bits: u32, is_hollow: bool) -> (u128, Vec<Tick>) {
    let down = |tick: i32| tick.div_euclid(spacing) * spacing;
    let (lowest, highest) = (down(-887_272) + spacing, down(887_272));
    let at = |tick: i32| down(tick).clamp(lowest, highest);
    let size = 1i128 << bits.min(120);
    let spans = match is_hollow {
        true => vec![(at(tick - 9_000), at(tick - 2 * spacing)), (at(tick + 2 * spacing), at(tick + 9_000))],
        false => vec![(at(tick - 60_000), at(tick + 60_000)), (at(tick - 400), at(tick + 400 + spacing))],
    };
    let mut nets = std::collections::BTreeMap::<i32, i128>::new();
    for (low, high) in spans.into_iter().filter(|(low, high)| low < high) {
        *nets.entry(low).or_default() += size;
        *nets.entry(high).or_default() -= size;
    }
    let liquidity: i128 = nets.range(..=tick).map(|(_, net)| net).sum();
    let ticks = nets.into_iter().filter(|(_, net)| *net != 0);
    (u128::try_from(liquidity).unwrap(), ticks.map(|(index, liquidity_net)| Tick { index, liquidity_net }).collect())
}

fn extreme_pool(at: u64, (kind, (a, gap), tick, bits, other_bits, fee, is_hollow): Extreme) -> Option<Pool> {
    let (a, b) = (token(a), token((a + gap) % TOKENS));
    let (token0, token1) = if a < b { (a, b) } else { (b, a) };
    let address = Address::from_word(U256::from(at + 100).into());
    let spacing = [1, 10, 60, 200][usize::try_from(at % 4).unwrap()];
    let (liquidity, ticks) = ladder(tick, spacing, bits, is_hollow);
    let sqrt_price_x96 = sqrt_price_at_tick(tick).unwrap();
    if kind == 0 {
        let [reserve0, reserve1] = [bits.min(111), other_bits.min(111)].map(|bits| (1u128 << bits) - 1);
        return Some(V2Pool { address, token0, token1, reserve0, reserve1 }.into());
    }
    if kind == 1 {
        let state = V3State {
            id: address.into(),
            token0,
            token1,
            fee,
            tick_spacing: spacing,
            sqrt_price_x96,
            liquidity,
            tick,
            ticks,
            known_ticks: ALL_TICKS,
        };
        return V3Pool::new(state).ok().map(Pool::from);
    }
    // The third kind has the native token where its wrapped form would be.
    let (currency0, currency1) = match (kind, token0 == token(WRAPPED), token1 == token(WRAPPED)) {
        (2, ..) | (_, false, false) => (token0, token1),
        (_, true, _) => (Address::ZERO, token1),
        (_, _, true) => (Address::ZERO, token0),
    };
    let key = PoolKey {
        currency0,
        currency1,
        fee: U24::from(fee),
        tickSpacing: I24::try_from(spacing).unwrap(),
        hooks: Address::ZERO,
    };
    let state = V4State {
        key,
        wrapped_native: token(WRAPPED),
        // Both directions have a fee of their own, of at most a thousandth.
        protocol_fee: ((other_bits * 8 + 1).min(1_000) << 12) | (bits * 7),
        lp_fee: fee,
        sqrt_price_x96,
        tick,
        liquidity,
        ticks,
        known_ticks: ALL_TICKS,
    };
    V4Pool::new(state).ok().map(Pool::from)
}

/// Rules of the request that the plain enumeration does not know, by the documents of its fields.
fn is_permitted(path: &[&Pool], tokens: &[Address], request: &RouteRequest) -> bool {
    let unpaid = path[0].is_native_at(request.token_in) && !request.pays_native;
    let passes = path.windows(2).zip(&tokens[1..]).all(|(pair, shared)| {
        request.mixed_paths
            || (pair[0].version() == pair[1].version()
                && pair[0].is_native_at(*shared) == pair[1].is_native_at(*shared))
    });
    !unpaid && passes && (request.v4 || path.iter().all(|pool| pool.version() != ProtocolVersion::V4))
}

/// Pools, both ends, the amount, what the request permits, and the price of gas.
type Case = (Vec<Extreme>, bool, (u8, u8), u128, (bool, bool, bool, bool), u64);

fn any_case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec(any_extreme(), 1..11),
        any::<bool>(),
        (0..TOKENS, 1..TOKENS),
        (0u32..130).prop_flat_map(|bits| 1..=(1u128 << bits.min(127))),
        any::<(bool, bool, bool, bool)>(),
        prop::sample::select(vec![0u64, 1, 1_000_000]),
    )
}

fn checked((seeds, twins, ends, amount, (paying, mixed, v4, native), units_per_gas): Case) -> Option<Route> {
    let both = if twins { [seeds.as_slice(), seeds.as_slice()].concat() } else { seeds };
    let mut pools: Vec<Pool> = Vec::new();
    for (at, seed) in both.into_iter().take(14).enumerate() {
        let pool = extreme_pool(u64::try_from(at).unwrap(), seed);
        pools.extend(pool.filter(|pool| pools.iter().all(|known| known.id() != pool.id())));
    }
    let (from, to) = (ends.0, (ends.0 + ends.1) % TOKENS);
    let exact = if paying { FixedAmount::In(U256::from(amount)) } else { FixedAmount::Out(U256::from(amount)) };
    let request = RouteRequest {
        mixed_paths: mixed,
        v4,
        pays_native: native && from == WRAPPED,
        max_legs: 1,
        ..request(from, to, exact, units_per_gas)
    };
    let expected = enumerate(&pools, &request, units_per_gas, &|path, tokens| is_permitted(path, tokens, &request));
    let found = best_route(&PoolSet::new(pools), &request);
    match (&found, &expected) {
        (Ok(route), Some(expected)) => assert_eq!(&net(route, units_per_gas), expected),
        (Err(_), None) => {}
        other => panic!("{other:?}"),
    }
    found.ok()
}

#[test]
fn the_best_path_is_found_at_extreme_prices_too() {
    let config = ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() };
    let counts = std::cell::Cell::new([0u32; 3]);
    let run = proptest::test_runner::TestRunner::new(config).run(&any_case(), |case| {
        let Some(route) = checked(case) else { return Ok(()) };
        let hops = &route.legs[0].hops;
        let is_native = hops.iter().any(|hop| hop.currencies().0.is_zero() || hop.currencies().1.is_zero());
        let [found, several, native] = counts.get();
        counts.set([found + 1, several + u32::from(hops.len() > 1), native + u32::from(is_native)]);
        Ok(())
    });
    run.unwrap();
    let counts = counts.get();
    assert!(counts.iter().zip([150, 30, 10]).all(|(count, least)| *count >= least), "too few cases: {counts:?}");
}
