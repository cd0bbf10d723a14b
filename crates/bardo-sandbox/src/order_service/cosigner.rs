//! Cosigner of the order service: sets the decay times of an order and its exclusive filler.

use alloy::primitives::{Address, U256};

use super::fillers;
use crate::actors::Actors;
use crate::keys::KeyError;
use golem_chain::devnet::Chain;
use golem_protocols::uniswap::order::UniswapXOrder;

/// Seconds before a V2 Dutch order starts to decay, during which one filler may have exclusivity.
const LEAD_SECONDS: u64 = 10;
/// Blocks before a V3 Dutch order starts to decay.
const LEAD_BLOCKS: u64 = 3;
/// Extra output that other fillers must pay during the exclusivity, in basis points.
const EXCLUSIVITY_BPS: u64 = 100;

/// Adds the cosigner's data and signature to an order; `number` is its zero-based sequence number.
pub(super) fn cosign(
    mut order: UniswapXOrder,
    number: u64,
    chain: &Chain,
    actors: &Actors,
) -> Result<UniswapXOrder, KeyError> {
    let next = chain.next_context();
    let exclusive = fillers::quickest(actors, number);
    match &mut order {
        UniswapXOrder::Dutch(_) => {}
        UniswapXOrder::DutchV2(order) => {
            let now = U256::from(next.timestamp);
            // The decay lasts at least a second and ends with the order.
            let room = order.info.deadline.saturating_sub(now);
            let lead = U256::from(LEAD_SECONDS).min(room / U256::from(2));
            order.cosignerData.decayStartTime = now + lead;
            order.cosignerData.decayEndTime = order.info.deadline;
            order.cosignerData.exclusiveFiller = exclusive;
            order.cosignerData.exclusivityOverrideBps = U256::from(EXCLUSIVITY_BPS);
            order.cosignerData.inputAmount = U256::ZERO;
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        UniswapXOrder::DutchV3(order) => {
            order.cosignerData.decayStartBlock = U256::from(next.number + LEAD_BLOCKS);
            order.cosignerData.exclusiveFiller = exclusive;
            order.cosignerData.exclusivityOverrideBps = U256::from(EXCLUSIVITY_BPS);
            order.cosignerData.inputAmount = U256::ZERO;
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        UniswapXOrder::Priority(order) => {
            if order.cosigner == Address::ZERO {
                return Ok(UniswapXOrder::Priority(order.clone()));
            }
            order.cosignerData.auctionTargetBlock = U256::from(next.number);
        }
    }
    let chain_id = chain.rules().chain_id;
    match order.cosigner_digest(chain_id) {
        None => Ok(order),
        Some(digest) => {
            let signature = actors.cosigner().sign_digest(chain_id, digest)?;
            Ok(order.with_cosignature(signature))
        }
    }
}
