//! The service's cosigner: says when an order starts to decay and who may fill it before that.

use alloy::primitives::{Address, U256};

use super::fillers;
use crate::cast::Cast;
use crate::keys::KeyError;
use golem_chain::devnet::Chain;
use golem_protocols::uniswap::order::Order;

/// Seconds until a V2 Dutch order starts to decay; until then one filler may have it alone.
const LEAD_SECONDS: u64 = 10;
/// Blocks until a V3 Dutch order starts to decay.
const LEAD_BLOCKS: u64 = 3;
/// What anybody else pays more while one filler has an order, in hundredths of a percent.
const EXCLUSIVITY_BPS: u64 = 100;

/// The order, which is the `number`th from nought, with the cosigner's additions and signature.
pub(super) fn cosign(mut order: Order, number: u64, chain: &Chain, cast: &Cast) -> Result<Order, KeyError> {
    let next = chain.next_context();
    let exclusive = fillers::quickest(cast, number);
    match &mut order {
        Order::Dutch(_) => {}
        Order::DutchV2(order) => {
            let now = U256::from(next.timestamp);
            // At least a second of decay, which ends with the order.
            let room = order.info.deadline.saturating_sub(now);
            let lead = U256::from(LEAD_SECONDS).min(room / U256::from(2));
            order.cosignerData.decayStartTime = now + lead;
            order.cosignerData.decayEndTime = order.info.deadline;
            order.cosignerData.exclusiveFiller = exclusive;
            order.cosignerData.exclusivityOverrideBps = U256::from(EXCLUSIVITY_BPS);
            order.cosignerData.inputAmount = U256::ZERO;
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        Order::DutchV3(order) => {
            order.cosignerData.decayStartBlock = U256::from(next.number + LEAD_BLOCKS);
            order.cosignerData.exclusiveFiller = exclusive;
            order.cosignerData.exclusivityOverrideBps = U256::from(EXCLUSIVITY_BPS);
            order.cosignerData.inputAmount = U256::ZERO;
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        Order::Priority(order) => {
            if order.cosigner == Address::ZERO {
                return Ok(Order::Priority(order.clone()));
            }
            order.cosignerData.auctionTargetBlock = U256::from(next.number);
        }
    }
    let chain_id = chain.rules().chain_id;
    match order.cosigner_digest(chain_id) {
        None => Ok(order),
        Some(digest) => {
            let signature = cast.cosigner().sign_digest(chain_id, digest)?;
            Ok(order.with_cosignature(signature))
        }
    }
}
