//! Potential gain of a sandwich attack on a swap: buying ahead of it in one of its pools, as far as the swap's slippage
//! limit allows, and selling right after it.
//!
//! The computation uses the pools' exact arithmetic on the state of one block. Not here: the likelihood of an attack,
//! and the attacker's gas.

use alloy::primitives::{Address, U256};

use super::pool::{FixedAmount, Pool, PoolError};
use super::routing::{PoolSet, Route, RouteLeg};

/// Number of bisection steps for the largest first trade, which gives a precision of a millionth of the pool's depth.
const HALVINGS: usize = 20;
/// Number of tested sizes of the first trade, evenly spaced up to the largest.
const SIZES: u64 = 8;

/// Best sandwich found in one pool. Amounts are in raw units of the token that the swap pays into the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sandwich {
    /// Index of the attacked leg, from zero.
    pub leg: usize,
    /// Index of the attacked hop in that leg, from zero.
    pub hop: usize,
    /// Address of the attacked pool.
    pub pool: Address,
    /// Token that the attacker pays and gains.
    pub token: Address,
    /// Input of the attacker's first trade.
    pub first: U256,
    /// Attacker's gain after selling: pool fees are deducted, gas is not.
    pub gain: U256,
    /// Output that the swap still receives, in raw units of its output token.
    pub amount_out: U256,
}

/// Finds the most profitable sandwich of each pool on the route, as long as the swap still receives `minimum_out`.
/// Pools without a profitable sandwich, and pools missing from `pools`, are left out.
pub fn sandwiches(route: &Route, pools: &PoolSet, minimum_out: U256) -> Vec<Sandwich> {
    let mut found = Vec::new();
    for (at, leg) in route.legs.iter().enumerate() {
        let others = route.legs.iter().enumerate().filter(|(other, _)| *other != at);
        let from_others = others.fold(U256::ZERO, |sum, (_, leg)| sum.saturating_add(leg.amount_out));
        for hop in 0..leg.hops.len() {
            let attacked = AttackedPool::new((at, leg), hop, pools, from_others);
            found.extend(attacked.and_then(|attacked| attacked.best(minimum_out)));
        }
    }
    found
}

/// Attacked pool with the rest of its route.
struct AttackedPool<'a> {
    leg: &'a RouteLeg,
    leg_place: usize,
    pools: Vec<(&'a Pool, bool)>,
    place: usize,
    from_others: U256,
}

impl<'a> AttackedPool<'a> {
    fn new(
        (leg_place, leg): (usize, &'a RouteLeg),
        place: usize,
        pools: &'a PoolSet,
        from_others: U256,
    ) -> Option<Self> {
        let of_hop = |hop: &super::routing::Hop| {
            let pool = pools.get(hop.pool)?;
            Some((pool, pool.zero_for_one(hop.token_in).ok()?))
        };
        let pools = leg.hops.iter().map(of_hop).collect::<Option<Vec<_>>>()?;
        Some(Self { leg, leg_place, pools, place, from_others })
    }

    /// Simulates an attack with a first trade of `first`. Returns the route's total output, and the attacker's proceeds
    /// from selling.
    fn with(&self, first: U256) -> Result<Option<(U256, U256)>, PoolError> {
        let Some((attacked, zero_for_one)) = self.pools.get(self.place).copied() else { return Ok(None) };
        let (bought, pushed) = attacked.after(zero_for_one, FixedAmount::In(first))?;
        let mut amount = self.leg.amount_in;
        let mut left = None;
        for (at, (pool, direction)) in self.pools.iter().enumerate() {
            if at == self.place {
                let (quote, after) = pushed.after(*direction, FixedAmount::In(amount))?;
                amount = quote.amount_out;
                left = Some(after);
            } else {
                amount = pool.quote(*direction, FixedAmount::In(amount))?.amount_out;
            }
        }
        let Some(left) = left else { return Ok(None) };
        let sold = left.quote(!zero_for_one, FixedAmount::In(bought.amount_out))?;
        Ok(Some((self.from_others.saturating_add(amount), sold.amount_out)))
    }

    fn best(&self, minimum_out: U256) -> Option<Sandwich> {
        let (pool, zero_for_one) = self.pools.get(self.place).copied()?;
        let passes = |first: U256| self.with(first).ok().flatten().filter(|(amount_out, _)| *amount_out >= minimum_out);
        // Bisects for the largest first trade that the swap survives.
        let (mut low, mut high) = (U256::ZERO, pool.virtual_reserve(zero_for_one));
        if passes(high).is_some() {
            low = high;
        }
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / U256::from(2);
            if passes(middle).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        let sizes = (1..=SIZES).map(|part| low / U256::from(SIZES) * U256::from(part));
        let tried = sizes.filter(|first| !first.is_zero()).filter_map(|first| {
            let (amount_out, sold) = passes(first)?;
            let gain = sold.checked_sub(first).filter(|gain| !gain.is_zero())?;
            let token = self.leg.hops.get(self.place)?.token_in;
            Some(Sandwich {
                leg: self.leg_place,
                hop: self.place,
                pool: pool.address(),
                token,
                first,
                gain,
                amount_out,
            })
        });
        tried.max_by_key(|sandwich| sandwich.gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniswap::routing::{RouteRequest, best_route};
    use crate::uniswap::v2::V2Pool;

    const ETHER: u128 = 1_000_000_000_000_000_000;

    /// Creates a pair with 1,000 whole tokens of each kind, and the route of `paid` raw units through it.
    fn pair(paid: u128) -> (PoolSet, Route) {
        let (token0, token1) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let (reserve0, reserve1) = (1_000 * ETHER, 1_000 * ETHER);
        let pools =
            PoolSet::new([V2Pool { address: Address::repeat_byte(9), token0, token1, reserve0, reserve1 }.into()]);
        let request = RouteRequest::new(token0, token1, FixedAmount::In(U256::from(paid)));
        let route = best_route(&pools, &request).unwrap();
        (pools, route)
    }

    /// `UniswapV2Library.getAmountOut` in floating point, precise to a millionth.
    fn out(paid: f64, reserve_in: f64, reserve_out: f64) -> f64 {
        paid * 0.997 * reserve_out / (reserve_in + paid * 0.997)
    }

    #[test]
    fn a_large_swap_with_loose_slippage_feeds_a_sandwich() {
        let (pools, route) = pair(100 * ETHER);
        let minimum = route.amount_out * U256::from(95) / U256::from(100);
        let [found] = sandwiches(&route, &pools, minimum)[..] else { panic!("one pool, one sandwich") };
        assert!(found.amount_out >= minimum, "the swap still passes");
        // Recompute the amounts by the textbook formula.
        let first = u128::try_from(found.first).unwrap() as f64 / 1e18;
        let bought = out(first, 1_000.0, 1_000.0);
        let (reserve_in, reserve_out) = (1_000.0 + first, 1_000.0 - bought);
        let received = out(100.0, reserve_in, reserve_out);
        let (reserve_in, reserve_out) = (reserve_in + 100.0, reserve_out - received);
        let gain = out(bought, reserve_out, reserve_in) - first;
        let close = |raw: U256, wanted: f64| (u128::try_from(raw).unwrap() as f64 / 1e18 / wanted - 1.0).abs() < 1e-6;
        assert!(close(found.amount_out, received) && close(found.gain, gain), "{found:?} {received} {gain}");
        // The slippage is used up: the output is 5 % below the quote, within the precision of the search.
        assert!(found.amount_out < route.amount_out * U256::from(951) / U256::from(1_000), "{found:?}");
        // A larger first trade would fail.
        let more = AttackedPool::new((0, &route.legs[0]), 0, &pools, U256::ZERO).unwrap();
        let beyond = found.first + found.first / U256::from(100);
        assert!(more.with(beyond).unwrap().unwrap().0 < minimum);
    }

    #[test]
    fn fees_keep_small_swaps_and_tight_ones_safe() {
        // A swap of 0.01 % moves the price less than the two fees of a sandwich cost.
        let (pools, route) = pair(ETHER / 10);
        assert_eq!(sandwiches(&route, &pools, U256::ZERO), []);
        // Without slippage tolerance there is nothing to take.
        let (pools, route) = pair(100 * ETHER);
        assert_eq!(sandwiches(&route, &pools, route.amount_out), []);
    }
}
