//! Potential gain of a sandwich attack on a swap: the attacker buys before it in one of its pools, as far as the swap's
//! slippage limit permits, and sells right after it.
//!
//! The computation uses the pools' exact arithmetic on the state of one block. Not here: the likelihood of an attack,
//! and the attacker's gas.

use alloy::primitives::{Address, U256};

use super::pool::{FixedAmount, Pool, PoolError};
use super::pool_id::PoolId;
use super::routing::{PoolSet, Route, RouteLeg};

/// Number of bisection steps for the largest first trade, which gives a precision of a millionth of the pool's depth.
const BISECTION_STEPS: usize = 20;
/// Number of tested sizes of the first trade, evenly spaced up to the largest.
const TESTED_SIZES: u64 = 8;

/// Best sandwich found in one pool. Amounts are in raw units of the token that the swap pays into the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sandwich {
    /// Index of the attacked leg, from zero.
    pub leg: usize,
    /// Index of the attacked hop in that leg, from zero.
    pub hop: usize,
    /// Identity of the attacked pool.
    pub pool: PoolId,
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
    for (index, leg) in route.legs.iter().enumerate() {
        let others = route.legs.iter().enumerate().filter(|(other, _)| *other != index);
        let from_others = others.fold(U256::ZERO, |sum, (_, leg)| sum.saturating_add(leg.amount_out));
        for hop in 0..leg.hops.len() {
            let attacked = AttackedPool::new((index, leg), hop, pools, from_others);
            found.extend(attacked.and_then(|attacked| attacked.best(minimum_out)));
        }
    }
    found
}

/// Attacked pool with the rest of its route.
struct AttackedPool<'a> {
    leg: &'a RouteLeg,
    leg_index: usize,
    /// Pools of the leg's hops, each with true if its token 0 is paid in.
    pools: Vec<(&'a Pool, bool)>,
    /// Index of the attacked hop.
    hop_index: usize,
    /// Output of the route's other legs.
    from_others: U256,
}

impl<'a> AttackedPool<'a> {
    fn new(
        (leg_index, leg): (usize, &'a RouteLeg),
        hop_index: usize,
        pools: &'a PoolSet,
        from_others: U256,
    ) -> Option<Self> {
        let pool_of_hop = |hop: &super::routing::Hop| {
            let pool = pools.get(hop.pool)?;
            Some((pool, pool.zero_for_one(hop.token_in).ok()?))
        };
        let pools = leg.hops.iter().map(pool_of_hop).collect::<Option<Vec<_>>>()?;
        Some(Self { leg, leg_index, pools, hop_index, from_others })
    }

    /// Simulates an attack with a first trade of `first`. Returns the route's total output, and the attacker's proceeds
    /// from selling.
    fn simulate(&self, first: U256) -> Result<Option<(U256, U256)>, PoolError> {
        let Some((attacked, zero_for_one)) = self.pools.get(self.hop_index).copied() else { return Ok(None) };
        let (bought, after_first) = attacked.after(zero_for_one, FixedAmount::In(first))?;
        let mut amount = self.leg.amount_in;
        let mut after_swap = None;
        for (index, (pool, direction)) in self.pools.iter().enumerate() {
            if index == self.hop_index {
                let (quote, after) = after_first.after(*direction, FixedAmount::In(amount))?;
                amount = quote.amount_out;
                after_swap = Some(after);
            } else {
                amount = pool.quote(*direction, FixedAmount::In(amount))?.amount_out;
            }
        }
        let Some(after_swap) = after_swap else { return Ok(None) };
        let sold = after_swap.quote(!zero_for_one, FixedAmount::In(bought.amount_out))?;
        Ok(Some((self.from_others.saturating_add(amount), sold.amount_out)))
    }

    /// Finds the most profitable attack that still gives the swap `minimum_out`; `None` without a gain.
    fn best(&self, minimum_out: U256) -> Option<Sandwich> {
        let (pool, zero_for_one) = self.pools.get(self.hop_index).copied()?;
        let simulate_valid =
            |first: U256| self.simulate(first).ok().flatten().filter(|(amount_out, _)| *amount_out >= minimum_out);
        // Bisects for the largest first trade with which the swap still gets its minimum.
        let (mut low, mut high) = (U256::ZERO, pool.virtual_reserve(zero_for_one));
        if simulate_valid(high).is_some() {
            low = high;
        }
        for _ in 0..BISECTION_STEPS {
            let middle = low + (high - low) / U256::from(2);
            if simulate_valid(middle).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        let sizes = (1..=TESTED_SIZES).map(|part| low / U256::from(TESTED_SIZES) * U256::from(part));
        let candidates = sizes.filter(|first| !first.is_zero()).filter_map(|first| {
            let (amount_out, sold) = simulate_valid(first)?;
            let gain = sold.checked_sub(first).filter(|gain| !gain.is_zero())?;
            let token = self.leg.hops.get(self.hop_index)?.token_in;
            Some(Sandwich { leg: self.leg_index, hop: self.hop_index, pool: pool.id(), token, first, gain, amount_out })
        });
        candidates.max_by_key(|sandwich| sandwich.gain)
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
    fn amount_out(paid: f64, reserve_in: f64, reserve_out: f64) -> f64 {
        paid * 0.997 * reserve_out / (reserve_in + paid * 0.997)
    }

    #[test]
    fn a_large_swap_with_loose_slippage_can_be_sandwiched() {
        let (pools, route) = pair(100 * ETHER);
        let minimum = route.amount_out * U256::from(95) / U256::from(100);
        let [found] = sandwiches(&route, &pools, minimum)[..] else { panic!("one pool, one sandwich") };
        assert!(found.amount_out >= minimum, "the swap still passes");
        // Recompute the amounts by the textbook formula.
        let first = u128::try_from(found.first).unwrap() as f64 / 1e18;
        let bought = amount_out(first, 1_000.0, 1_000.0);
        let (reserve_in, reserve_out) = (1_000.0 + first, 1_000.0 - bought);
        let received = amount_out(100.0, reserve_in, reserve_out);
        let (reserve_in, reserve_out) = (reserve_in + 100.0, reserve_out - received);
        let gain = amount_out(bought, reserve_out, reserve_in) - first;
        let close = |raw: U256, wanted: f64| (u128::try_from(raw).unwrap() as f64 / 1e18 / wanted - 1.0).abs() < 1e-6;
        assert!(close(found.amount_out, received) && close(found.gain, gain), "{found:?} {received} {gain}");
        // The slippage is used up: the output is 5 % below the quote, within the precision of the search.
        assert!(found.amount_out < route.amount_out * U256::from(951) / U256::from(1_000), "{found:?}");
        // A larger first trade would fail.
        let more = AttackedPool::new((0, &route.legs[0]), 0, &pools, U256::ZERO).unwrap();
        let beyond = found.first + found.first / U256::from(100);
        assert!(more.simulate(beyond).unwrap().unwrap().0 < minimum);
    }

    #[test]
    fn small_swaps_and_tight_limits_leave_no_gain() {
        // A swap of 0.01 % moves the price less than the two fees of a sandwich cost.
        let (pools, route) = pair(ETHER / 10);
        assert_eq!(sandwiches(&route, &pools, U256::ZERO), []);
        // Without slippage tolerance there is nothing to take.
        let (pools, route) = pair(100 * ETHER);
        assert_eq!(sandwiches(&route, &pools, route.amount_out), []);
    }
}
