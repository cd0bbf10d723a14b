//! Status of a signed order: one type for auction and bridge orders.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::typed::TypedMessage;
use bardo_base::fabric::{IntentStatus, OrderStatus};

/// Status of a signed order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderState {
    /// Status of an auction order.
    Auction(OrderStatus),
    /// Status of a bridge order.
    Bridge(IntentStatus),
    /// A bridge order that failed or was rejected before its input was locked.
    Unplaced,
}

impl OrderState {
    /// Returns the status of an order that no service has accepted yet.
    pub fn pending(message: &TypedMessage) -> Self {
        match message {
            TypedMessage::CrossChainOrder { .. } => Self::Bridge(IntentStatus::Pending),
            TypedMessage::UniswapxOrder { .. }
            | TypedMessage::Permit2Allowance { .. }
            | TypedMessage::Permit2Transfer { .. } => Self::Auction(OrderStatus::Pending),
        }
    }

    /// Returns the status of an order that failed locally or was rejected by its service.
    pub fn failed(message: &TypedMessage) -> Self {
        match Self::pending(message) {
            Self::Auction(_) => Self::Auction(OrderStatus::Error),
            Self::Bridge(_) | Self::Unplaced => Self::Unplaced,
        }
    }

    /// Returns the name that the database contains.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auction(status) => status.as_str(),
            Self::Bridge(status) => status.as_str(),
            Self::Unplaced => OrderStatus::Error.as_str(),
        }
    }

    /// Parses the stored name, for an order of the message's type.
    pub(super) fn parse_name(message: &TypedMessage, name: &str) -> Option<Self> {
        fn read<T: DeserializeOwned>(name: &str) -> Option<T> {
            serde_json::from_value(Value::from(name)).ok()
        }
        match Self::pending(message) {
            Self::Auction(_) => read(name).map(Self::Auction),
            Self::Bridge(_) | Self::Unplaced if name == Self::Unplaced.as_str() => Some(Self::Unplaced),
            Self::Bridge(_) | Self::Unplaced => read(name).map(Self::Bridge),
        }
    }

    /// Returns true if the order expired without being settled.
    pub const fn has_expired(self) -> bool {
        matches!(self, Self::Auction(OrderStatus::Expired) | Self::Bridge(IntentStatus::Expired))
    }
}

impl fmt::Display for OrderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for OrderState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, Bytes, U256};

    use super::*;
    use bardo_abi::erc7683::AcrossOrderData;
    use golem_protocols::intents::CrossChainIntent;
    use golem_protocols::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};

    const USER: Address = Address::repeat_byte(1);

    fn auction() -> TypedMessage {
        let draft = OrderDraft {
            reactor: Address::repeat_byte(2),
            swapper: USER,
            recipient: USER,
            nonce: U256::ZERO,
            deadline: 2_000_000_000,
            cosigner: Address::repeat_byte(3),
            token_in: Address::repeat_byte(4),
            token_out: Address::repeat_byte(5),
            legs: OrderAmounts::ExactIn {
                amount_in: U256::from(8),
                start_out: U256::from(9),
                least_out: U256::from(1),
            },
            auction: AuctionTerms::CosignedTimes,
        };
        TypedMessage::UniswapxOrder { permit2: Address::repeat_byte(6), order: Box::new(draft.order().unwrap()) }
    }

    fn bridge() -> TypedMessage {
        let intent = CrossChainIntent {
            origin_settler: Address::repeat_byte(2),
            user: USER,
            nonce: U256::ZERO,
            origin_chain_id: 31_337,
            open_deadline: 1,
            fill_deadline: 2,
            data: AcrossOrderData {
                inputToken: USER,
                inputAmount: U256::ONE,
                outputToken: USER,
                outputAmount: U256::ONE,
                destinationChainId: U256::from(31_338),
                recipient: USER.into_word(),
                exclusiveRelayer: Address::ZERO,
                depositNonce: U256::ZERO,
                exclusivityPeriod: 0,
                message: Bytes::new(),
            },
        };
        TypedMessage::CrossChainOrder { permit2: Address::repeat_byte(6), intent: Box::new(intent) }
    }

    #[test]
    fn every_stored_name_parses_back_to_its_status() {
        let (auction, bridge) = (auction(), bridge());
        for status in ["pending", "open", "filled", "expired", "cancelled", "insufficient_funds", "error"] {
            assert_eq!(OrderState::parse_name(&auction, status).unwrap().as_str(), status);
        }
        for status in ["pending", "filling", "filled", "expired", "refunded", "error"] {
            assert_eq!(OrderState::parse_name(&bridge, status).unwrap().as_str(), status);
        }
        assert_eq!(OrderState::parse_name(&auction, "refunded"), None);
        assert_eq!(OrderState::parse_name(&bridge, "cancelled"), None);
        for message in [&auction, &bridge] {
            let [pending, failed] = [OrderState::pending(message), OrderState::failed(message)];
            assert_eq!([pending.as_str(), failed.as_str()], ["pending", "error"]);
            for state in [pending, failed] {
                assert_eq!(OrderState::parse_name(message, state.as_str()), Some(state));
                assert!(!state.has_expired());
            }
            assert!(OrderState::parse_name(message, "expired").unwrap().has_expired());
        }
    }
}
