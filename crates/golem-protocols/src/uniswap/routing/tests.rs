//! Tests of the router against an independent enumeration, over random sets of pools.

mod extremes;

use super::*;
use crate::uniswap::discovery::keys_of;
use crate::uniswap::pool::{Pool, PoolQuote};
use crate::uniswap::ratio::big;
use crate::uniswap::v2::V2Pool;
use crate::uniswap::v3::tick_math::sqrt_price_at_tick;
use crate::uniswap::v3::{ALL_TICKS, Tick, V3Pool, V3State};
use crate::uniswap::v4::{V4Pool, V4State};
use num_bigint::BigInt;
use proptest::prelude::*;

const TOKENS: u8 = 5;

fn token(index: u8) -> Address {
    Address::repeat_byte(index + 1)
}

/// Random pool: two tokens, a depth, a price skew and a kind (0 is V2, otherwise a V3 tier).
type Seed = (u8, u8, u32, i32, usize);

fn any_seed() -> impl Strategy<Value = Seed> {
    (0..TOKENS, 1..TOKENS, 30u32..70, -300..300i32, 0usize..5)
}

/// Builds pools with distinct addresses; all tokens have about the same value.
fn pools_of(seeds: &[Seed]) -> Vec<Pool> {
    seeds.iter().enumerate().map(|(at, seed)| pool_of(u64::try_from(at).unwrap(), *seed)).collect()
}

fn pool_of(at: u64, (a, gap, depth, skew, kind): Seed) -> Pool {
    let (a, b) = (token(a), token((a + gap) % TOKENS));
    let (token0, token1) = if a < b { (a, b) } else { (b, a) };
    let address = Address::from_word(U256::from(at + 100).into());
    let liquidity = 1u128 << depth;
    let Some((fee, spacing)) = [(100, 1), (500, 10), (3000, 60), (10_000, 200)].get(kind.wrapping_sub(1)).copied()
    else {
        let reserve1 = liquidity + liquidity / 10_000 * u128::from(skew.unsigned_abs());
        return V2Pool { address, token0, token1, reserve0: liquidity, reserve1 }.into();
    };
    // A narrow position inside a wide one makes trades cross ticks.
    let wide = (20_000 / spacing * spacing, i128::try_from(liquidity).unwrap());
    let narrow = (600 / spacing * spacing, i128::try_from(liquidity * 5).unwrap());
    let ticks = vec![(-wide.0, wide.1), (-narrow.0, narrow.1), (narrow.0, -narrow.1), (wide.0, -wide.1)];
    let state = V3State {
        id: address.into(),
        token0,
        token1,
        fee,
        tick_spacing: spacing,
        sqrt_price_x96: sqrt_price_at_tick(skew).unwrap(),
        liquidity: liquidity * 6,
        tick: skew,
        ticks: ticks.into_iter().map(|(index, liquidity_net)| Tick { index, liquidity_net }).collect(),
        known_ticks: ALL_TICKS,
    };
    V3Pool::new(state).unwrap().into()
}

/// Builds a request with gas at `units_per_gas` raw units per gas unit. This is of the order of the price impact at
/// these sizes, so gas often decides.
fn request(from: u8, to: u8, exact: FixedAmount, units_per_gas: u64) -> RouteRequest {
    let price = Ratio::of(U256::from(units_per_gas), U256::from(1000)).unwrap();
    RouteRequest { gas: GasCost::new(1000, &price), ..RouteRequest::new(token(from), token(to), exact) }
}

fn tokens_along(path: &[&Pool], from: Address) -> Option<Vec<Address>> {
    let mut tokens = vec![from];
    for pool in path {
        let (token0, token1) = pool.tokens();
        let last = *tokens.last()?;
        let next = if last == token0 {
            token1
        } else if last == token1 {
            token0
        } else {
            return None;
        };
        if tokens.contains(&next) {
            return None;
        }
        tokens.push(next);
    }
    Some(tokens)
}

/// Returns the amount of the open side, and the ticks crossed per hop.
fn run(path: &[&Pool], tokens: &[Address], exact: FixedAmount) -> Option<(U256, Vec<u32>)> {
    let mut amount = exact;
    let mut ticks = Vec::new();
    let hops: Vec<(&Pool, Address)> = path.iter().copied().zip(tokens.iter().copied()).collect();
    let mut one = |(pool, token): &(&Pool, Address), amount: FixedAmount| -> Option<PoolQuote> {
        let quote = pool.quote(*token == pool.tokens().0, amount).ok()?;
        ticks.push(quote.ticks_crossed);
        (!quote.amount_out.is_zero()).then_some(quote)
    };
    match exact {
        FixedAmount::In(_) => {
            for hop in &hops {
                amount = FixedAmount::In(one(hop, amount)?.amount_out);
            }
        }
        FixedAmount::Out(_) => {
            for hop in hops.iter().rev() {
                amount = FixedAmount::Out(one(hop, amount)?.amount_in);
            }
            ticks.reverse();
        }
    }
    Some((amount.amount(), ticks))
}

/// Returns the gain after gas of the best single path (negative for a payment), found by trying all sequences of pools.
fn brute_force(pools: &[Pool], request: &RouteRequest, units_per_gas: u64) -> Option<BigInt> {
    enumerate(pools, request, units_per_gas, &|path, _| {
        request.mixed_paths || path.iter().all(|pool| pool.version() == path[0].version())
    })
}

/// The same over the paths that are permitted.
fn enumerate(
    pools: &[Pool],
    request: &RouteRequest,
    units_per_gas: u64,
    is_permitted: &dyn Fn(&[&Pool], &[Address]) -> bool,
) -> Option<BigInt> {
    let mut best: Option<BigInt> = None;
    let mut try_path = |path: &[&Pool]| {
        let Some(tokens) = tokens_along(path, request.token_in) else { return };
        if tokens.last() != Some(&request.token_out) {
            return;
        }
        if !is_permitted(path, &tokens) {
            return;
        }
        let Some((amount, ticks)) = run(path, &tokens, request.exact) else { return };
        let model = &request.gas_model;
        let gas: u64 = path
            .iter()
            .zip(ticks)
            .map(|(pool, ticks)| match pool {
                Pool::V2(_) => model.v2_hop,
                Pool::V3(_) => model.v3_hop + model.v3_tick * u64::from(ticks),
                Pool::V4(_) => model.v4_hop + model.v3_tick * u64::from(ticks),
            })
            .sum();
        let cost = BigInt::from((gas + model.leg) * units_per_gas);
        let net = match request.exact {
            FixedAmount::In(_) => BigInt::from(big(amount)) - cost,
            FixedAmount::Out(_) => -BigInt::from(big(amount)) - cost,
        };
        if best.as_ref().is_none_or(|best| net > *best) {
            best = Some(net);
        }
    };
    for first in pools {
        try_path(&[first]);
        for second in pools {
            try_path(&[first, second]);
            for third in pools {
                try_path(&[first, second, third]);
            }
        }
    }
    best
}

/// Returns a route's gain after gas, without the transaction's base cost, like the enumeration.
fn net(route: &Route, units_per_gas: u64) -> BigInt {
    let gas: u64 = route.legs.iter().map(|leg| leg.gas_units).sum();
    let cost = BigInt::from(gas * units_per_gas);
    match route.exact {
        FixedAmount::In(_) => BigInt::from(big(route.amount_out)) - cost,
        FixedAmount::Out(_) => -BigInt::from(big(route.amount_in)) - cost,
    }
}

fn check_sums(route: &Route, pools: &[Pool]) {
    assert_eq!(route.legs.iter().map(|leg| leg.share_bps).sum::<u32>(), 10_000);
    let total = |side: fn(&RouteLeg) -> U256| route.legs.iter().map(side).fold(U256::ZERO, |sum, part| sum + part);
    assert_eq!(total(|leg| leg.amount_in), route.amount_in);
    assert_eq!(total(|leg| leg.amount_out), route.amount_out);
    match route.exact {
        FixedAmount::In(amount) => assert_eq!(route.amount_in, amount),
        FixedAmount::Out(amount) => assert_eq!(route.amount_out, amount),
    }
    let mut used = std::collections::BTreeSet::new();
    for leg in &route.legs {
        let (first, last) = (leg.hops.first().unwrap(), leg.hops.last().unwrap());
        assert_eq!((first.token_in, last.token_out), (route.token_in, route.token_out));
        assert_eq!((first.amount_in, last.amount_out), (leg.amount_in, leg.amount_out));
        for pair in leg.hops.windows(2) {
            assert_eq!((pair[0].token_out, pair[0].amount_out), (pair[1].token_in, pair[1].amount_in));
        }
        for hop in &leg.hops {
            assert!(used.insert(hop.pool), "a pool is in two legs");
            let pool = pools.iter().find(|pool| pool.id() == hop.pool).unwrap();
            let exact = match route.exact {
                FixedAmount::In(_) => FixedAmount::In(hop.amount_in),
                FixedAmount::Out(_) => FixedAmount::Out(hop.amount_out),
            };
            let quote = pool.quote(hop.token_in == pool.tokens().0, exact).unwrap();
            assert_eq!((quote.amount_in, quote.amount_out), (hop.amount_in, hop.amount_out));
        }
    }
    assert!(route.price_impact < route.price_impact_with_fee);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_single_path_beats_the_route(
        seeds in prop::collection::vec(any_seed(), 1..13),
        amount in (8u32..66).prop_flat_map(|bits| 1..=(1u64 << bits.min(63))),
        paying in any::<bool>(), mixed in any::<bool>(),
        units_per_gas in prop::sample::select(vec![0u64, 1, 1_000, 1_000_000]),
    ) {
        let pools = pools_of(&seeds);
        let exact = if paying { FixedAmount::In(U256::from(amount)) } else { FixedAmount::Out(U256::from(amount)) };
        let request = RouteRequest { mixed_paths: mixed, ..request(0, 1, exact, units_per_gas) };
        let set = PoolSet::new(pools.clone());
        let expected = brute_force(&pools, &request, units_per_gas);
        let single = best_route(&set, &RouteRequest { max_legs: 1, ..request.clone() });
        match (&single, &expected) {
            (Ok(route), Some(expected)) => {
                check_sums(route, &pools);
                prop_assert_eq!(&net(route, units_per_gas), expected);
            }
            (Err(_), None) => {}
            other => prop_assert!(false, "{other:?}"),
        }
        match (best_route(&set, &request), expected) {
            (Ok(route), Some(expected)) => {
                check_sums(&route, &pools);
                let net = net(&route, units_per_gas);
                prop_assert!(if route.legs.len() == 1 { net == expected } else { net > expected }, "worse than one path");
            }
            (Ok(route), None) => {
                check_sums(&route, &pools);
                prop_assert!(route.legs.len() > 1, "a single path that the enumeration did not find");
            }
            (Err(_), None) => {}
            (Err(error), Some(_)) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn the_order_of_pools_does_not_matter(
        (seeds, order) in prop::collection::vec(any_seed(), 2..10).prop_flat_map(|seeds| {
            let order: Vec<usize> = (0..seeds.len()).collect();
            (Just(seeds), Just(order).prop_shuffle())
        }),
        amount in 1u64..1 << 60,
    ) {
        let pools = pools_of(&seeds);
        let shuffled: Vec<Pool> = order.iter().map(|at| pools[*at].clone()).collect();
        let request = request(0, 1, FixedAmount::In(U256::from(amount)), 0);
        prop_assert_eq!(
            best_route(&PoolSet::new(pools), &request),
            best_route(&PoolSet::new(shuffled), &request)
        );
    }
}

fn v2(at: u64, a: u8, b: u8, depth: u128) -> Pool {
    let address = Address::from_word(U256::from(at).into());
    V2Pool { address, token0: token(a), token1: token(b), reserve0: depth, reserve1: depth }.into()
}

#[test]
fn equal_pairs_share_equally_and_lower_addresses_win_ties() {
    let depth = 1_000_000_000_000;
    let set = PoolSet::new([v2(7, 0, 1, depth), v2(5, 0, 1, depth)]);
    let amount = U256::from(depth / 10);
    let route = best_route(&set, &request(0, 1, FixedAmount::In(amount), 0)).unwrap();
    assert_eq!(route.legs.iter().map(|leg| leg.share_bps).collect::<Vec<_>>(), [5000, 5000]);
    // Twice 5e10 × 997 × 1e12 / (1e12 × 1000 + 5e10 × 997), rounded down.
    assert_eq!(route.amount_out, U256::from(94_965_947_516u64));
    let single = RouteRequest { max_legs: 1, ..request(0, 1, FixedAmount::In(amount), 0) };
    let route = best_route(&set, &single).unwrap();
    assert_eq!(route.legs[0].hops[0].pool, Address::from_word(U256::from(5).into()).into());
    // If gas costs more than the gain, there is no split. A second leg costs 76,000 units.
    let route = best_route(&set, &request(0, 1, FixedAmount::In(amount), 100_000)).unwrap();
    assert_eq!(route.legs.len(), 1);
}

#[test]
fn a_split_fills_an_amount_no_single_pool_can() {
    let set = PoolSet::new([v2(5, 0, 1, 1_000_000), v2(6, 0, 1, 1_000_000), v2(7, 0, 1, 900_000)]);
    let request = request(0, 1, FixedAmount::Out(U256::from(1_500_000)), 1);
    let route = best_route(&set, &request).unwrap();
    assert!(route.legs.len() >= 2);
    assert_eq!(route.amount_out, U256::from(1_500_000));
    let too_much = RouteRequest { exact: FixedAmount::Out(U256::from(2_900_000)), ..request };
    assert!(matches!(best_route(&set, &too_much), Err(RouteError::InsufficientLiquidity { .. })));
}

#[test]
fn every_failure_has_its_own_error() {
    let set = PoolSet::new([v2(5, 0, 1, 1_000_000), v2(6, 2, 3, 1_000_000)]);
    let ask = |from, to, exact| best_route(&set, &request(from, to, exact, 0)).unwrap_err();
    let one = FixedAmount::In(U256::from(1));
    assert!(matches!(ask(0, 0, one), RouteError::SameToken { .. }));
    assert!(matches!(ask(0, 2, one), RouteError::NoRoute { max_hops: 3, .. }));
    assert!(matches!(ask(0, 9, one), RouteError::NoRoute { .. }));
    assert!(matches!(ask(0, 1, one), RouteError::AmountTooSmall { .. }));
    assert_eq!(ask(0, 1, FixedAmount::In(U256::ZERO)), RouteError::ZeroAmount);
    assert_eq!(ask(0, 1, FixedAmount::Out(U256::MAX)), RouteError::AmountTooLarge);
    assert!(matches!(ask(0, 1, FixedAmount::Out(U256::from(1_000_000))), RouteError::InsufficientLiquidity { .. }));
    // Mixed paths are disabled, and the only path is mixed.
    let mixed = PoolSet::new([v2(5, 0, 1, 1_000_000), pool_of(0, (1, 1, 60, 0, 2))]);
    let exact_out = request(0, 2, FixedAmount::Out(U256::from(10)), 0);
    assert!(matches!(best_route(&mixed, &exact_out), Err(RouteError::NoRoute { .. })));
    assert!(best_route(&mixed, &RouteRequest { mixed_paths: true, ..exact_out }).is_ok());
}

#[test]
fn impact_leaves_the_fee_out() {
    let depth = 1_000_000_000_000_000u128;
    let set = PoolSet::new([v2(5, 0, 1, depth)]);
    let route = best_route(&set, &request(0, 1, FixedAmount::In(U256::from(depth / 100)), 0)).unwrap();
    // Constant product, where y is the input after the fee: 1 − 1 / (1 + y) with y = 0.00997.
    assert_eq!(route.price_impact.to_percent(6), "0.987158");
    // The same with the 0.3 % fee included: 1 − 0.997 / 1.00997.
    assert_eq!(route.price_impact_with_fee.to_percent(6), "1.284197");
}

#[test]
fn gas_is_converted_to_a_token_and_rounded_up() {
    // 2 raw units per wei at 3 wei per gas are 6 per gas unit; a third of a unit rounds up.
    let two = Ratio::of(U256::from(2), U256::from(1)).unwrap();
    assert_eq!(GasCost::new(3, &two).unwrap().of(1000), U256::from(6000));
    let third = Ratio::of(U256::from(1), U256::from(3)).unwrap();
    assert_eq!(GasCost::new(1, &third).unwrap().of(1), U256::from(1));
    assert_eq!(GasCost::new(1, &third).unwrap().of(4), U256::from(2));
    let huge = Ratio::whole(U256::from(1) << 127);
    assert_eq!(GasCost::new(1, &huge).unwrap().of(u64::MAX), U256::MAX);
    assert!(GasCost::new(u128::MAX, &huge).is_none());
    // The deepest direct pool, otherwise two pools via a middle token.
    let set = PoolSet::new([v2(5, 0, 1, 1000), v2(6, 1, 2, 1000), v2(7, 3, 4, 5)]);
    let one = Some(Ratio::whole(U256::from(1)));
    assert_eq!(set.token_per_native(token(0), token(1)), one);
    assert_eq!(set.token_per_native(token(0), token(2)), one);
    assert_eq!(set.token_per_native(token(0), token(3)), None);
}

/// A named route is recomputed, and an invalid one is rejected with its specific error.
#[test]
fn a_given_route_is_computed_over_our_pools_or_rejected() {
    // 0: V2 of tokens 0 and 1, 1: V3 of the same, 2: V3 of 1 and 2, 3: V2 of 0 and 2.
    let set = PoolSet::new(pools_of(&[(0, 1, 60, 0, 0), (0, 1, 60, 0, 2), (1, 1, 60, 0, 3), (0, 2, 60, 0, 0)]));
    let pool = |at: u64| Address::from_word(U256::from(at + 100).into());
    let named = |parts: &[(&[u64], u64)]| -> Vec<NamedPath> {
        let path = |(pools, amount): &(&[u64], u64)| NamedPath {
            pools: pools.iter().map(|at| pool(*at).into()).collect(),
            amount: U256::from(*amount),
        };
        parts.iter().map(path).collect()
    };
    let sale = request(0, 2, FixedAmount::In(U256::from(1_000_000)), 1);
    let of = |parts: &[(&[u64], u64)]| rebuild(&set, &sale, &named(parts));

    let route = of(&[(&[0, 2], 400_000), (&[3], 600_000)]).unwrap();
    assert_eq!(route.legs.iter().map(|leg| leg.share_bps).collect::<Vec<_>>(), [4_000, 6_000]);
    // Independent quotes: through the pair and the next pool, and directly.
    let quote = |at: u64, from: u8, amount: U256| {
        let pool = set.get(pool(at).into()).unwrap();
        pool.quote(pool.zero_for_one(token(from)).unwrap(), FixedAmount::In(amount)).unwrap().amount_out
    };
    let through = quote(2, 1, quote(0, 0, U256::from(400_000)));
    assert_eq!(route.amount_out, through + quote(3, 0, U256::from(600_000)));
    assert_eq!(route.amount_in, U256::from(1_000_000));
    // A third each: shares are whole basis points, and nothing is lost.
    let thirds = of(&[(&[0, 2], 333_334), (&[3], 666_666)]).unwrap();
    assert_eq!(thirds.legs.iter().map(|leg| leg.share_bps).sum::<u32>(), 10_000);
    assert_eq!(thirds.amount_in, U256::from(1_000_000));

    let whole = 1_000_000;
    /// Pools in trading order, with the amount through them.
    type Claimed<'a> = (&'a [u64], u64);
    let nine: [Claimed<'_>; 9] = [(&[3], 1); 9];
    let cases: [(&[Claimed<'_>], RebuildError); 11] = [
        (&[], RebuildError::Paths(0)),
        (&nine, RebuildError::Paths(9)),
        (&[(&[3], whole - 1)], RebuildError::Amounts),
        (&[(&[3], u64::MAX), (&[0, 2], 5)], RebuildError::Amounts),
        (&[(&[], whole)], RebuildError::Hops(0)),
        (&[(&[0, 2, 3, 1], whole)], RebuildError::Hops(4)),
        (&[(&[77], whole)], RebuildError::UnknownPool(pool(77).into())),
        (&[(&[2], whole)], RebuildError::NotAChain(pool(2).into())),
        (&[(&[0], whole)], RebuildError::OtherToken(token(1))),
        (&[(&[3], 400_000), (&[3], 600_000)], RebuildError::PoolTwice(pool(3).into())),
        (&[(&[3], whole - 99), (&[0, 2], 99)], RebuildError::TinyPart),
    ];
    for (parts, wanted) in cases {
        assert_eq!(of(parts), Err(wanted), "{parts:?}");
    }
    let buy = request(0, 2, FixedAmount::Out(U256::from(whole)), 1);
    assert_eq!(rebuild(&set, &buy, &named(&[(&[0, 2], whole)])), Err(RebuildError::Mixed));
    assert!(rebuild(&set, &buy, &named(&[(&[1, 2], whole)])).is_ok());
    // More than the pair holds.
    let all = request(0, 2, FixedAmount::Out(U256::from(1_u64 << 61)), 1);
    assert_eq!(rebuild(&set, &all, &named(&[(&[3], 1 << 61)])), Err(RebuildError::CannotFill));
}

/// Pool of V4 between a currency and another one; `None` is the native token, for which token 0 stands.
fn v4(a: Option<u8>, b: u8) -> Pool {
    let currency = a.map_or(Address::ZERO, token);
    let key = keys_of(currency, token(b)).find(|key| key.fee.to::<u32>() == 3_000).unwrap();
    let liquidity = 1u128 << 80;
    let net = i128::try_from(liquidity).unwrap();
    let state = V4State {
        key,
        wrapped_native: token(0),
        protocol_fee: 0,
        lp_fee: 3_000,
        sqrt_price_x96: sqrt_price_at_tick(0).unwrap(),
        tick: 0,
        liquidity,
        ticks: vec![Tick { index: -60_000, liquidity_net: net }, Tick { index: 60_000, liquidity_net: -net }],
        known_ticks: ALL_TICKS,
    };
    V4Pool::new(state).unwrap().into()
}

/// V4 pools are used on request only, and pools of the native token are not paid with its wrapped token.
#[test]
fn v4_pools_are_used_where_they_can_be_paid() {
    let set = PoolSet::new([v4(None, 1), v4(Some(1), 2)]);
    let amount = FixedAmount::In(U256::from(1_000_000));
    let plain = request(0, 2, amount, 0);
    assert!(matches!(best_route(&set, &plain), Err(RouteError::NoRoute { .. })));
    let wrapped = RouteRequest { v4: true, ..plain };
    assert!(matches!(best_route(&set, &wrapped), Err(RouteError::NoRoute { .. })));
    let native = RouteRequest { pays_native: true, ..wrapped.clone() };
    let route = best_route(&set, &native).unwrap();
    let hops = &route.legs[0].hops;
    assert_eq!(hops.iter().map(Hop::currencies).collect::<Vec<_>>(), [(Address::ZERO, token(1)), (token(1), token(2))]);
    assert_eq!((hops[0].token_in, hops[0].version), (token(0), ProtocolVersion::V4));
    // In the middle and at the end of a path, the router converts.
    let back = RouteRequest { v4: true, ..request(2, 0, amount, 0) };
    assert_eq!(best_route(&set, &back).unwrap().legs[0].hops[1].currencies(), (token(1), Address::ZERO));
    // A path of an exact output passes on one currency: here the native token comes in, and its wrapped token goes on.
    let through = PoolSet::new([v4(None, 1), v4(Some(0), 2)]);
    let buy = RouteRequest { v4: true, ..request(1, 2, FixedAmount::Out(U256::from(1_000)), 0) };
    assert!(matches!(best_route(&through, &buy), Err(RouteError::NoRoute { .. })));
    assert!(best_route(&through, &RouteRequest { exact: amount, mixed_paths: true, ..buy }).is_ok());
    // A named route is held to the same, beside a pair that makes a route possible.
    let set = PoolSet::new([v4(None, 1), v4(Some(1), 2), v2(5, 0, 2, 1_000_000)]);
    let pools = set.between(token(0), token(1)).chain(set.between(token(1), token(2))).map(|(pool, _)| pool.id());
    let named = [NamedPath { pools: pools.collect(), amount: amount.amount() }];
    assert_eq!(named[0].pools.len(), 2);
    assert_eq!(rebuild(&set, &wrapped, &named), Err(RebuildError::Unreachable(named[0].pools[0])));
    let without = RouteRequest { v4: false, pays_native: true, ..wrapped };
    assert_eq!(rebuild(&set, &without, &named), Err(RebuildError::Unreachable(named[0].pools[0])));
    assert!(rebuild(&set, &native, &named).is_ok());
}
