//! Time at which an auction's falling price reaches a bid.

use alloy::primitives::U256;

use golem_protocols::uniswap::order::{ResolutionPoint, UniswapXOrder};

/// Returns the seconds from `now` until the auction requires at most `bid` from the filler named in `now`. Zero if it
/// already does, or if its price does not fall with time. `None` if it does not happen before `deadline`, or if the
/// order lacks the cosigner's data about its curve.
pub(super) fn seconds_until(
    order: &UniswapXOrder,
    now: &ResolutionPoint,
    bid: U256,
    deadline: u64,
    block_millis: u64,
) -> Option<u64> {
    let remaining = deadline.checked_sub(now.timestamp)?;
    let by_blocks = match order {
        UniswapXOrder::Dutch(_) | UniswapXOrder::DutchV2(_) => false,
        UniswapXOrder::DutchV3(_) => true,
        // A priority order's price depends on the filler's fee, not on time.
        UniswapXOrder::Priority(_) => return Some(0),
    };
    let block_millis = block_millis.max(1);
    let seconds = |steps: u64| if by_blocks { steps.saturating_mul(block_millis).div_ceil(1_000) } else { steps };
    let max_steps = if by_blocks { remaining.saturating_mul(1_000) / block_millis } else { remaining };
    let reached_after = |steps: u64| {
        let block = if by_blocks { now.block.saturating_add(steps) } else { now.block };
        let at =
            ResolutionPoint { timestamp: now.timestamp.saturating_add(seconds(steps)).min(deadline), block, ..*now };
        // An error means that another filler has exclusivity then, so the price is not reached.
        let resolved = order.resolve(&at).ok()?;
        let required = resolved.outputs.iter().fold(U256::ZERO, |sum, output| sum.saturating_add(output.amount));
        (required <= bid).then_some(())
    };
    if reached_after(0).is_some() {
        return Some(0);
    }
    reached_after(max_steps)?;
    // The price never rises, so a binary search finds the first step at which it is reached.
    let (mut before, mut after) = (0, max_steps);
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if reached_after(middle).is_some() {
            after = middle;
        } else {
            before = middle;
        }
    }
    Some(seconds(after))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Address;

    use super::*;
    use bardo_sandbox::keys::DevnetAccount;
    use golem_protocols::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};

    const START: u64 = 1_000;
    const DEADLINE: u64 = 1_110;
    const CHAIN: u64 = 31_337;

    fn draft(auction: AuctionTerms) -> UniswapXOrder {
        let cosigner = DevnetAccount::development_accounts().unwrap().swap_remove(3).address();
        let draft = OrderDraft {
            reactor: Address::repeat_byte(1),
            swapper: Address::repeat_byte(2),
            recipient: Address::repeat_byte(2),
            nonce: U256::from(7),
            deadline: DEADLINE,
            cosigner,
            token_in: Address::repeat_byte(4),
            token_out: Address::repeat_byte(5),
            legs: OrderAmounts::ExactIn {
                amount_in: U256::from(5),
                start_out: U256::from(2_000),
                least_out: U256::from(1_000),
            },
            auction,
        };
        draft.order().unwrap()
    }

    fn now(timestamp: u64, block: u64) -> ResolutionPoint {
        ResolutionPoint {
            chain_id: CHAIN,
            timestamp,
            block,
            base_fee: 7,
            priority_fee: 0,
            filler: Address::repeat_byte(9),
        }
    }

    #[test]
    fn a_price_that_falls_with_time_reaches_a_bid_after_the_seconds_it_needs() {
        // Ten per second, from 2,000 down to 1,000.
        let order = draft(AuctionTerms::Times { from: START, until: START + 100 });
        let at =
            |timestamp, output: u64| seconds_until(&order, &now(timestamp, 1), U256::from(output), DEADLINE, 12_000);
        assert_eq!([at(START, 2_000), at(START, 1_990), at(START, 1_985)], [Some(0), Some(1), Some(2)]);
        assert_eq!([at(START + 40, 1_500), at(START + 60, 1_500)], [Some(10), Some(0)]);
        // The time before the fall starts is included.
        assert_eq!(at(START - 20, 1_990), Some(21));
        assert_eq!(at(START, 1_000), Some(100));
        // The price never falls below the minimum, and nothing happens past the deadline.
        assert_eq!([at(START, 999), at(DEADLINE + 1, 1_500)], [None, None]);
    }

    #[test]
    fn a_price_that_falls_with_blocks_reaches_a_bid_when_its_block_is_due() {
        let mut order = draft(AuctionTerms::CosignedBlocks { over: 50, base_fee: 0, per_gwei: U256::ZERO });
        let UniswapXOrder::DutchV3(three) = &mut order else { panic!("{order:?}") };
        three.cosignerData.decayStartBlock = U256::from(10);
        three.cosignerData.outputAmounts = vec![U256::ZERO];
        let party = DevnetAccount::development_accounts().unwrap().swap_remove(3);
        let digest = order.cosigner_digest(CHAIN).unwrap();
        let order = order.with_cosignature(party.sign_digest(CHAIN, digest).unwrap());
        let at = |block, output: u64| seconds_until(&order, &now(START, block), U256::from(output), DEADLINE, 2_000);
        // Twenty per block, two seconds each.
        assert_eq!([at(10, 2_000), at(10, 1_980), at(10, 1_960)], [Some(0), Some(2), Some(4)]);
        assert_eq!(at(8, 1_980), Some(6));
        // It needs 50 blocks of 12 seconds, longer than the time until the deadline.
        let slow = seconds_until(&order, &now(START, 10), U256::from(1_000), DEADLINE, 12_000);
        assert_eq!(slow, None);
    }

    #[test]
    fn a_price_that_depends_on_the_fee_is_reached_at_once_and_one_without_a_curve_never() {
        let order = draft(AuctionTerms::PriorityFee { start_block: 5, baseline: 0, mps_per_wei: U256::from(1) });
        assert_eq!(seconds_until(&order, &now(START, 1), U256::from(1_500), DEADLINE, 2_000), Some(0));
        // The cosigner has not provided the curve of this order yet.
        let order = draft(AuctionTerms::CosignedTimes);
        assert_eq!(seconds_until(&order, &now(START, 1), U256::from(1_500), DEADLINE, 2_000), None);
    }
}
