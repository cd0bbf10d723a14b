//! UniswapX orders: the three kinds with a cosigner (V2 Dutch, V3 Dutch, Priority), and the V1 Dutch order, which still
//! carries limit orders. Builds, hashes, encodes and resolves them exactly like the reactors.
//!
//! The module does no I/O. Where an SDK differs from the reactor contract, this follows the contract. Not here: signing
//! (see `custody`), judging an order (see `safety`), and submitting it.

mod build;
mod cosign;
pub mod decay;
mod resolve;
mod validate;

#[cfg(test)]
mod tests;

use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::{SolStruct, SolValue};

pub use build::{AuctionTerms, OrderAmounts, OrderDraft};
pub use resolve::{OutputAmount, ReactorRevert, ResolutionPoint, ResolvedAmounts};
pub use validate::{OrderBounds, OrderExpectation, OrderFault};

use bardo_abi::uniswapx::{
    EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder, EncodedV3DutchOrder, ExclusiveDutchOrder,
    OrderInfo, PriorityOrder, V2DutchOrder, V3DutchOrder,
};
use golem_chain::permit2::{Permit2Message, PermitTransferFrom, PermitWitness, TokenPermissions};

/// Maximum length of a parsed order, in bytes. Real orders have a few outputs and 1–2 kB.
pub const MAX_ENCODED: usize = 16 * 1024;

/// Kind of an order, which determines its reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderKind {
    /// V1 Dutch order: decays over time, without a cosigner.
    Dutch,
    /// V2 Dutch order: decays between two times set by the cosigner.
    DutchV2,
    /// V3 Dutch order: decays over blocks along a curve, from a block set by the cosigner.
    DutchV3,
    /// Priority order: improves with the priority fee of the fill transaction instead of decaying.
    Priority,
}

impl OrderKind {
    /// All order kinds.
    pub const ALL: [Self; 4] = [Self::Dutch, Self::DutchV2, Self::DutchV3, Self::Priority];

    /// Returns the name used by tools and the Trading API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dutch => "DUTCH_LIMIT",
            Self::DutchV2 => "DUTCH_V2",
            Self::DutchV3 => "DUTCH_V3",
            Self::Priority => "PRIORITY",
        }
    }

    /// Returns the name used by the order service.
    pub const fn service_name(self) -> &'static str {
        match self {
            Self::Dutch => "Dutch",
            Self::DutchV2 => "Dutch_V2",
            Self::DutchV3 => "Dutch_V3",
            Self::Priority => "Priority",
        }
    }

    /// Returns the kind with this name, in either form.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name || kind.service_name() == name)
    }
}

impl fmt::Display for OrderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Order in its reactor's structure. Before the cosignature, the cosigner's fields are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UniswapXOrder {
    /// V1 Dutch order without a cosigner.
    Dutch(EncodedExclusiveDutchOrder),
    /// V2 Dutch order.
    DutchV2(EncodedV2DutchOrder),
    /// V3 Dutch order.
    DutchV3(EncodedV3DutchOrder),
    /// Priority order, priced by the priority fee.
    Priority(EncodedPriorityOrder),
}

/// Error for bytes that are not a valid order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderDecodeError {
    /// Encoding beyond [`MAX_ENCODED`].
    #[error("{length} bytes are too long for an order: at most {MAX_ENCODED} are accepted")]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
    /// Bytes that are not the ABI encoding of this order kind.
    #[error("the bytes are not an encoded {kind} order: {reason}")]
    Malformed {
        /// Expected order kind.
        kind: OrderKind,
        /// Error of the ABI decoder.
        reason: String,
    },
    /// Encoding that decodes, but differs from the output of `abi.encode`, so that different readers could disagree.
    #[error("the bytes decode as a {kind} order but are not its standard encoding: encode the order again")]
    NotCanonical {
        /// Expected order kind.
        kind: OrderKind,
    },
}

impl UniswapXOrder {
    /// Returns the order kind.
    pub fn kind(&self) -> OrderKind {
        match self {
            Self::Dutch(_) => OrderKind::Dutch,
            Self::DutchV2(_) => OrderKind::DutchV2,
            Self::DutchV3(_) => OrderKind::DutchV3,
            Self::Priority(_) => OrderKind::Priority,
        }
    }

    /// Returns the common fields: reactor, swapper, nonce, deadline and validation.
    pub fn info(&self) -> &OrderInfo {
        match self {
            Self::Dutch(order) => &order.info,
            Self::DutchV2(order) => &order.info,
            Self::DutchV3(order) => &order.info,
            Self::Priority(order) => &order.info,
        }
    }

    /// Returns the input token.
    pub fn token_in(&self) -> Address {
        match self {
            Self::Dutch(order) => order.input.token,
            Self::DutchV2(order) => order.baseInput.token,
            Self::DutchV3(order) => order.baseInput.token,
            Self::Priority(order) => order.input.token,
        }
    }

    /// Returns the maximum input in raw units, which the Permit2 signature permits.
    pub fn most_in(&self) -> U256 {
        match self {
            Self::Dutch(order) => order.input.endAmount,
            Self::DutchV2(order) => order.baseInput.endAmount,
            Self::DutchV3(order) => order.baseInput.maxAmount,
            Self::Priority(order) => order.input.amount,
        }
    }

    /// Returns the order hash: the witness that the swapper signs, and the order's identifier.
    pub fn hash(&self) -> B256 {
        self.witness().hash()
    }

    /// Returns the EIP-712 type string of the hashed struct.
    pub fn type_string(&self) -> String {
        match self {
            Self::Dutch(_) => ExclusiveDutchOrder::eip712_encode_type(),
            Self::DutchV2(_) => V2DutchOrder::eip712_encode_type(),
            Self::DutchV3(_) => V3DutchOrder::eip712_encode_type(),
            Self::Priority(_) => PriorityOrder::eip712_encode_type(),
        }
        .into_owned()
    }

    /// Returns the order as the witness of a Permit2 transfer. The cosigner's data is not part of it.
    pub fn witness(&self) -> PermitWitness {
        match self.clone() {
            Self::Dutch(order) => PermitWitness::of(&ExclusiveDutchOrder {
                info: order.info,
                decayStartTime: order.decayStartTime,
                decayEndTime: order.decayEndTime,
                exclusiveFiller: order.exclusiveFiller,
                exclusivityOverrideBps: order.exclusivityOverrideBps,
                inputToken: order.input.token,
                inputStartAmount: order.input.startAmount,
                inputEndAmount: order.input.endAmount,
                outputs: order.outputs,
            }),
            Self::DutchV2(order) => PermitWitness::of(&V2DutchOrder {
                info: order.info,
                cosigner: order.cosigner,
                baseInputToken: order.baseInput.token,
                baseInputStartAmount: order.baseInput.startAmount,
                baseInputEndAmount: order.baseInput.endAmount,
                baseOutputs: order.baseOutputs,
            }),
            Self::DutchV3(order) => PermitWitness::of(&V3DutchOrder {
                info: order.info,
                cosigner: order.cosigner,
                startingBaseFee: order.startingBaseFee,
                baseInput: order.baseInput,
                baseOutputs: order.baseOutputs,
            }),
            Self::Priority(order) => PermitWitness::of(&PriorityOrder {
                info: order.info,
                cosigner: order.cosigner,
                auctionStartBlock: order.auctionStartBlock,
                baselinePriorityFeeWei: order.baselinePriorityFeeWei,
                input: order.input,
                outputs: order.outputs,
            }),
        }
    }

    /// Returns the Permit2 transfer that the swapper signs: at most [`UniswapXOrder::most_in`], to the reactor, with
    /// the order as witness.
    pub fn permit(&self) -> Permit2Message {
        let info = self.info();
        Permit2Message::Transfer {
            permit: PermitTransferFrom {
                permitted: TokenPermissions { token: self.token_in(), amount: self.most_in() },
                nonce: info.nonce,
                deadline: info.deadline,
            },
            spender: info.reactor,
            witness: Some(self.witness()),
        }
    }

    /// Returns the encoding for the reactor and the order service.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Dutch(order) => order.abi_encode(),
            Self::DutchV2(order) => order.abi_encode(),
            Self::DutchV3(order) => order.abi_encode(),
            Self::Priority(order) => order.abi_encode(),
        }
        .into()
    }

    /// Decodes an order of a known kind.
    ///
    /// # Errors
    /// Returns a [`OrderDecodeError`] for anything but the exact encoding of [`UniswapXOrder::encode`].
    pub fn decode(kind: OrderKind, bytes: &[u8]) -> Result<Self, OrderDecodeError> {
        if bytes.len() > MAX_ENCODED {
            return Err(OrderDecodeError::TooLong { length: bytes.len() });
        }
        let decoded = match kind {
            OrderKind::Dutch => EncodedExclusiveDutchOrder::abi_decode_validate(bytes).map(Self::Dutch),
            OrderKind::DutchV2 => EncodedV2DutchOrder::abi_decode_validate(bytes).map(Self::DutchV2),
            OrderKind::DutchV3 => EncodedV3DutchOrder::abi_decode_validate(bytes).map(Self::DutchV3),
            OrderKind::Priority => EncodedPriorityOrder::abi_decode_validate(bytes).map(Self::Priority),
        };
        let order = decoded.map_err(|error| OrderDecodeError::Malformed { kind, reason: error.to_string() })?;
        if *order.encode() == *bytes { Ok(order) } else { Err(OrderDecodeError::NotCanonical { kind }) }
    }
}
