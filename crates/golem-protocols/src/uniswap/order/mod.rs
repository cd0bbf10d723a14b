//! UniswapX orders: the three with a cosigner (V2 Dutch, V3 Dutch, Priority) and the first Dutch order, which
//! still carries limit orders. Built, hashed, encoded, resolved at any moment exactly as the reactor does.
//!
//! All of it is pure. The reactor is the authority: where an SDK and the contract differ, this follows the
//! contract. Not here: signing (see `custody`), whether an order is wise (see `safety`), sending it anywhere.

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

pub use build::{Auction, Draft, Legs};
pub use resolve::{Amount, At, Resolved, Revert};
pub use validate::{Bounds, Expectation, Fault};

use bardo_abi::uniswapx::{
    EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder, EncodedV3DutchOrder, ExclusiveDutchOrder,
    OrderInfo, PriorityOrder, V2DutchOrder, V3DutchOrder,
};
use golem_chain::permit2::{Permit, PermitTransferFrom, TokenPermissions, Witness};

/// The longest encoding that is read. A real order has a few outputs and 1–2 kB.
pub const MAX_ENCODED: usize = 16 * 1024;

/// Which kind of order, and so which reactor settles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderKind {
    /// The first Dutch order: decays over time, no cosigner.
    Dutch,
    /// Decays over time between moments a cosigner sets.
    DutchV2,
    /// Decays over blocks along a curve, from a block a cosigner sets.
    DutchV3,
    /// Does not decay: improves with the priority fee of the filling transaction.
    Priority,
}

impl OrderKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dutch, Self::DutchV2, Self::DutchV3, Self::Priority];

    /// The name that tools and the Trading API use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dutch => "DUTCH_LIMIT",
            Self::DutchV2 => "DUTCH_V2",
            Self::DutchV3 => "DUTCH_V3",
            Self::Priority => "PRIORITY",
        }
    }

    /// The name that the order service uses.
    pub const fn service_name(self) -> &'static str {
        match self {
            Self::Dutch => "Dutch",
            Self::DutchV2 => "Dutch_V2",
            Self::DutchV3 => "Dutch_V3",
            Self::Priority => "Priority",
        }
    }

    /// The kind with this name, in either form.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name || kind.service_name() == name)
    }
}

impl fmt::Display for OrderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An order as its reactor takes it. Before it is cosigned, what the cosigner adds is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The first Dutch order.
    Dutch(EncodedExclusiveDutchOrder),
    /// V2 Dutch.
    DutchV2(EncodedV2DutchOrder),
    /// V3 Dutch.
    DutchV3(EncodedV3DutchOrder),
    /// Priority.
    Priority(EncodedPriorityOrder),
}

/// Why bytes are not an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than any order is.
    #[error("{length} bytes are too long for an order: at most {MAX_ENCODED} are accepted")]
    TooLong {
        /// How long it was.
        length: usize,
    },
    /// Not ABI-encoded as this kind of order.
    #[error("the bytes are not an encoded {kind} order: {reason}")]
    Malformed {
        /// The kind that was looked for.
        kind: OrderKind,
        /// What the decoder says.
        reason: String,
    },
    /// Readable, but not the encoding that `abi.encode` gives, so that its readers could disagree.
    #[error("the bytes decode as a {kind} order but are not its standard encoding: encode the order again")]
    NotCanonical {
        /// The kind that was looked for.
        kind: OrderKind,
    },
}

impl Order {
    /// Which kind.
    pub fn kind(&self) -> OrderKind {
        match self {
            Self::Dutch(_) => OrderKind::Dutch,
            Self::DutchV2(_) => OrderKind::DutchV2,
            Self::DutchV3(_) => OrderKind::DutchV3,
            Self::Priority(_) => OrderKind::Priority,
        }
    }

    /// Reactor, swapper, nonce, deadline, own check.
    pub fn info(&self) -> &OrderInfo {
        match self {
            Self::Dutch(order) => &order.info,
            Self::DutchV2(order) => &order.info,
            Self::DutchV3(order) => &order.info,
            Self::Priority(order) => &order.info,
        }
    }

    /// The token that the order takes.
    pub fn token_in(&self) -> Address {
        match self {
            Self::Dutch(order) => order.input.token,
            Self::DutchV2(order) => order.baseInput.token,
            Self::DutchV3(order) => order.baseInput.token,
            Self::Priority(order) => order.input.token,
        }
    }

    /// The most that the order can take: what its Permit2 signature permits.
    pub fn most_in(&self) -> U256 {
        match self {
            Self::Dutch(order) => order.input.endAmount,
            Self::DutchV2(order) => order.baseInput.endAmount,
            Self::DutchV3(order) => order.baseInput.maxAmount,
            Self::Priority(order) => order.input.amount,
        }
    }

    /// The order's hash: what the swapper signs as a witness, and what identifies it everywhere.
    pub fn hash(&self) -> B256 {
        self.witness().hash()
    }

    /// The type that is hashed, as EIP-712 writes it.
    pub fn type_string(&self) -> String {
        match self {
            Self::Dutch(_) => ExclusiveDutchOrder::eip712_encode_type(),
            Self::DutchV2(_) => V2DutchOrder::eip712_encode_type(),
            Self::DutchV3(_) => V3DutchOrder::eip712_encode_type(),
            Self::Priority(_) => PriorityOrder::eip712_encode_type(),
        }
        .into_owned()
    }

    /// The order as Permit2 binds a transfer to it. What a cosigner adds is no part of it.
    pub fn witness(&self) -> Witness {
        match self.clone() {
            Self::Dutch(order) => Witness::of(&ExclusiveDutchOrder {
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
            Self::DutchV2(order) => Witness::of(&V2DutchOrder {
                info: order.info,
                cosigner: order.cosigner,
                baseInputToken: order.baseInput.token,
                baseInputStartAmount: order.baseInput.startAmount,
                baseInputEndAmount: order.baseInput.endAmount,
                baseOutputs: order.baseOutputs,
            }),
            Self::DutchV3(order) => Witness::of(&V3DutchOrder {
                info: order.info,
                cosigner: order.cosigner,
                startingBaseFee: order.startingBaseFee,
                baseInput: order.baseInput,
                baseOutputs: order.baseOutputs,
            }),
            Self::Priority(order) => Witness::of(&PriorityOrder {
                info: order.info,
                cosigner: order.cosigner,
                auctionStartBlock: order.auctionStartBlock,
                baselinePriorityFeeWei: order.baselinePriorityFeeWei,
                input: order.input,
                outputs: order.outputs,
            }),
        }
    }

    /// What the swapper signs: a Permit2 transfer of at most [`Order::most_in`] to the reactor, bound to the order.
    pub fn permit(&self) -> Permit {
        let info = self.info();
        Permit::Transfer {
            permit: PermitTransferFrom {
                permitted: TokenPermissions { token: self.token_in(), amount: self.most_in() },
                nonce: info.nonce,
                deadline: info.deadline,
            },
            spender: info.reactor,
            witness: Some(self.witness()),
        }
    }

    /// The encoding that the reactor and the order service take.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Dutch(order) => order.abi_encode(),
            Self::DutchV2(order) => order.abi_encode(),
            Self::DutchV3(order) => order.abi_encode(),
            Self::Priority(order) => order.abi_encode(),
        }
        .into()
    }

    /// Reads an order of a known kind.
    ///
    /// # Errors
    /// [`DecodeError`] for anything but the exact encoding [`Order::encode`] gives.
    pub fn decode(kind: OrderKind, bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_ENCODED {
            return Err(DecodeError::TooLong { length: bytes.len() });
        }
        let decoded = match kind {
            OrderKind::Dutch => EncodedExclusiveDutchOrder::abi_decode_validate(bytes).map(Self::Dutch),
            OrderKind::DutchV2 => EncodedV2DutchOrder::abi_decode_validate(bytes).map(Self::DutchV2),
            OrderKind::DutchV3 => EncodedV3DutchOrder::abi_decode_validate(bytes).map(Self::DutchV3),
            OrderKind::Priority => EncodedPriorityOrder::abi_decode_validate(bytes).map(Self::Priority),
        };
        let order = decoded.map_err(|error| DecodeError::Malformed { kind, reason: error.to_string() })?;
        if *order.encode() == *bytes { Ok(order) } else { Err(DecodeError::NotCanonical { kind }) }
    }
}
