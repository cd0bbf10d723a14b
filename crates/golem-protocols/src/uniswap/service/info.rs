//! `orderInfo` of an order submission: the readable form of an order that the service requires beside its encoding,
//! identical to the one in its quotes.
//!
//! The API document's list of required names differs from its list of properties, so both are written. The validation
//! contract and data appear under their old and new names. The cosigner's fields have the values of the encoded order,
//! which are empty before the cosignature. The required `type` of amounts and curves is left out, because no property
//! of that name is documented.

use alloy::primitives::{Address, U256};
use serde_json::{Map, Value, json};

use crate::uniswap::order::UniswapXOrder;
use bardo_abi::uniswapx::{DutchInput, DutchOutput, NonlinearDutchDecay};

/// Builds the `orderInfo` of an order on this chain.
pub fn order_info(chain_id: u64, order: &UniswapXOrder) -> Value {
    let info = order.info();
    let mut told = json!({
        "chainId": chain_id,
        "nonce": info.nonce.to_string(),
        "reactor": info.reactor,
        "swapper": info.swapper,
        "deadline": info.deadline.saturating_to::<u64>(),
        "additionalValidationContract": info.additionalValidationContract,
        "additionalValidationData": info.additionalValidationData,
        "validationContract": info.additionalValidationContract,
        "validationData": info.additionalValidationData,
    });
    if let (Value::Object(told), Value::Object(more)) = (&mut told, of_kind(order)) {
        told.extend(more);
    }
    told
}

/// Builds the part that depends on the order kind.
fn of_kind(order: &UniswapXOrder) -> Value {
    match order {
        UniswapXOrder::Dutch(order) => {
            let mut told = exclusive(
                order.decayStartTime,
                order.decayEndTime,
                order.exclusiveFiller,
                order.exclusivityOverrideBps,
            );
            told.insert("decayStartTime".to_owned(), order.decayStartTime.saturating_to::<u64>().into());
            told.insert("decayEndTime".to_owned(), order.decayEndTime.saturating_to::<u64>().into());
            told.insert("input".to_owned(), input(&order.input));
            told.insert("outputs".to_owned(), order.outputs.iter().map(output).collect());
            told.into()
        }
        UniswapXOrder::DutchV2(order) => {
            let cosigner = &order.cosignerData;
            let mut told = exclusive(
                cosigner.decayStartTime,
                cosigner.decayEndTime,
                cosigner.exclusiveFiller,
                cosigner.exclusivityOverrideBps,
            );
            told.insert("cosigner".to_owned(), json!(order.cosigner));
            told.insert("input".to_owned(), input(&order.baseInput));
            told.insert("outputs".to_owned(), order.baseOutputs.iter().map(output).collect());
            told.into()
        }
        UniswapXOrder::DutchV3(order) => {
            let cosigner = &order.cosignerData;
            // This kind decays over blocks, so it has no times.
            let mut told = exclusive(U256::ZERO, U256::ZERO, cosigner.exclusiveFiller, cosigner.exclusivityOverrideBps);
            let input = json!({
                "token": order.baseInput.token,
                "startAmount": order.baseInput.startAmount.to_string(),
                "maxAmount": order.baseInput.maxAmount.to_string(),
                "adjustmentPerGweiBaseFee": order.baseInput.adjustmentPerGweiBaseFee.to_string(),
                "curve": curve(&order.baseInput.curve),
            });
            let outputs = order.baseOutputs.iter().map(|output| {
                json!({
                    "token": output.token,
                    "startAmount": output.startAmount.to_string(),
                    "minAmount": output.minAmount.to_string(),
                    "adjustmentPerGweiBaseFee": output.adjustmentPerGweiBaseFee.to_string(),
                    "curve": curve(&output.curve),
                    "recipient": output.recipient,
                })
            });
            told.insert("cosigner".to_owned(), json!(order.cosigner));
            told.insert("startingBaseFee".to_owned(), order.startingBaseFee.to_string().into());
            told.insert("input".to_owned(), input);
            told.insert("outputs".to_owned(), outputs.collect());
            told.into()
        }
        UniswapXOrder::Priority(order) => {
            let outputs = order.outputs.iter().map(|output| {
                json!({
                    "token": output.token,
                    "amount": output.amount.to_string(),
                    "mpsPerPriorityFeeWei": output.mpsPerPriorityFeeWei.to_string(),
                    "recipient": output.recipient,
                })
            });
            json!({
                "cosigner": order.cosigner,
                "auctionStartBlock": order.auctionStartBlock.to_string(),
                "baselinePriorityFeeWei": order.baselinePriorityFeeWei.to_string(),
                "input": {
                    "token": order.input.token,
                    "amount": order.input.amount.to_string(),
                    "mpsPerPriorityFeeWei": order.input.mpsPerPriorityFeeWei.to_string(),
                },
                "outputs": outputs.collect::<Vec<_>>(),
            })
        }
    }
}

/// Builds the fields for the decay times and the exclusivity.
fn exclusive(start: U256, end: U256, filler: Address, bps: U256) -> Map<String, Value> {
    [
        ("startTime", Value::from(start.saturating_to::<u64>())),
        ("endTime", end.saturating_to::<u64>().into()),
        ("exclusiveFiller", json!(filler)),
        ("exclusivityOverrideBps", bps.to_string().into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

fn input(input: &DutchInput) -> Value {
    json!({
        "token": input.token,
        "startAmount": input.startAmount.to_string(),
        "endAmount": input.endAmount.to_string(),
    })
}

fn output(output: &DutchOutput) -> Value {
    json!({
        "token": output.token,
        "startAmount": output.startAmount.to_string(),
        "endAmount": output.endAmount.to_string(),
        "recipient": output.recipient,
    })
}

/// Converts a curve to the service's format. The contract packs the blocks into one number, 16 bits each, the first one
/// lowest.
fn curve(curve: &NonlinearDutchDecay) -> Value {
    let blocks = (0..curve.relativeAmounts.len()).map(|at| {
        (curve.relativeBlocks.wrapping_shr(at.saturating_mul(16)) & U256::from(u16::MAX)).saturating_to::<u64>()
    });
    json!({
        "relativeBlocks": blocks.collect::<Vec<_>>(),
        "relativeAmounts": curve.relativeAmounts.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
