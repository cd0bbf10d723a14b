//! Validation of `quote.orderInfo` in an order request. The real service reads these fields in addition to the encoded
//! order, so this one refuses an order without them or with those of another order.

use alloy::primitives::{Address, U256};
use serde_json::Value;

use golem_protocols::uniswap::order::UniswapXOrder;

/// Required fields of all kinds.
const OF_ALL: [&str; 9] =
    ["chainId", "nonce", "reactor", "swapper", "deadline", "validationContract", "validationData", "input", "outputs"];
/// Additional fields of Dutch orders.
const OF_DUTCH: [&str; 4] = ["startTime", "endTime", "exclusiveFiller", "exclusivityOverrideBps"];
/// Additional fields of Priority orders.
const OF_PRIORITY: [&str; 3] = ["auctionStartBlock", "baselinePriorityFeeWei", "cosigner"];

/// Error in an order request's description of its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum OrderInfoError {
    /// A field is absent.
    #[error("\"quote.orderInfo.{0}\" is missing")]
    Missing(&'static str),
    /// A field differs from the encoded order.
    #[error("\"quote.orderInfo.{0}\" differs from the encoded order's")]
    Differs(&'static str),
}

/// Compares `info` with the submitted order.
///
/// # Errors
/// [`OrderInfoError`]: the first field that is missing or another order's.
pub(super) fn validate(info: &Value, order: &UniswapXOrder) -> Result<(), OrderInfoError> {
    let (more, amounts): (&[&'static str], _) = match order {
        UniswapXOrder::Dutch(_) | UniswapXOrder::DutchV2(_) => (&OF_DUTCH, [["startAmount", "endAmount"]; 2]),
        UniswapXOrder::DutchV3(_) => (&OF_DUTCH, [["startAmount", "maxAmount"], ["startAmount", "minAmount"]]),
        UniswapXOrder::Priority(_) => (&OF_PRIORITY, [["amount", "mpsPerPriorityFeeWei"]; 2]),
    };
    for name in OF_ALL.iter().chain(more) {
        if info.get(name).is_none_or(Value::is_null) {
            return Err(OrderInfoError::Missing(name));
        }
    }
    use OrderInfoError::Differs;
    let address = |value: &Value| value.as_str().and_then(|text| text.parse::<Address>().ok());
    let number = |value: &Value| value.as_str().and_then(|text| U256::from_str_radix(text, 10).ok());
    let at = |name: &str| info.get(name).unwrap_or(&Value::Null);
    let own = order.info();
    if number(at("nonce")) != Some(own.nonce) {
        return Err(Differs("nonce"));
    }
    for (name, address_of) in [("reactor", own.reactor), ("swapper", own.swapper)] {
        if address(at(name)) != Some(address_of) {
            return Err(Differs(name));
        }
    }
    let [of_input, of_outputs] = amounts;
    let whole = |side: &Value, names: [&str; 2]| names.iter().all(|name| side.get(name).and_then(number).is_some());
    let input = at("input");
    if input.get("token").and_then(address) != Some(order.token_in()) || !whole(input, of_input) {
        return Err(Differs("input"));
    }
    let outputs = at("outputs").as_array().ok_or(Differs("outputs"))?;
    let told = |output: &Value| {
        ["token", "recipient"].iter().all(|name| output.get(name).and_then(address).is_some())
            && whole(output, of_outputs)
    };
    if outputs.is_empty() || !outputs.iter().all(told) {
        return Err(Differs("outputs"));
    }
    Ok(())
}
