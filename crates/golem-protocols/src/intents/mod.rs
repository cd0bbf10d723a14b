//! Cross-chain intents after ERC-7683: one token here for another one there, signed once, opened and filled by others.
//!
//! All of it is pure. Not here: signing (see `custody`), whether an intent is wise (see `safety`), finding a filler.

mod event;
pub mod gateway;
pub mod service;
mod validate;

#[cfg(test)]
mod tests;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::sol_types::{SolCall, SolStruct, SolValue};

pub use event::{Opened, UnknownOpen};
pub use validate::{Expectation, Fault};

use bardo_abi::erc7683::{
    AcrossOrderData, FillInstruction, GaslessCrossChainOrder, OriginSettler, Output, RelayData,
    ResolvedCrossChainOrder, witness,
};
use golem_chain::permit2::{Permit, PermitTransferFrom, TokenPermissions, Witness};

/// The longest order data that is read.
pub const MAX_ENCODED: usize = 16 * 1024;

/// An intent: what the user signs, with its data read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The settler on the chain the tokens leave.
    pub origin_settler: Address,
    /// Whose tokens they are.
    pub user: Address,
    /// A Permit2 nonce of the user's that is unused.
    pub nonce: U256,
    /// The chain the tokens leave.
    pub origin_chain_id: u64,
    /// Until when it can be opened, in seconds since the Unix epoch.
    pub open_deadline: u32,
    /// Until when it can be filled, in seconds since the Unix epoch.
    pub fill_deadline: u32,
    /// What for what, and where.
    pub data: AcrossOrderData,
}

/// Why an order is no intent of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than any order is.
    #[error("{length} bytes are too long for an order: at most {MAX_ENCODED} are accepted")]
    TooLong {
        /// How long it was.
        length: usize,
    },
    /// Not ABI-encoded as it should be.
    #[error("the bytes are not an encoded {what}: {reason}")]
    Malformed {
        /// What was looked for.
        what: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// Readable, but not the encoding that `abi.encode` gives.
    #[error("the bytes decode as an {what} but are not its standard encoding: encode it again")]
    NotCanonical {
        /// What was looked for.
        what: &'static str,
    },
    /// Another kind of order data.
    #[error("the order data is of type {0}, which is not supported")]
    AnotherType(B256),
    /// A chain id past 64 bits.
    #[error("the origin chain's id {0} is too large")]
    ChainId(U256),
}

impl Intent {
    /// The type of the order data, as an order names it.
    pub fn data_type() -> B256 {
        keccak256(AcrossOrderData::eip712_encode_type().as_bytes())
    }

    /// The order as settlers take it.
    pub fn order(&self) -> GaslessCrossChainOrder {
        GaslessCrossChainOrder {
            originSettler: self.origin_settler,
            user: self.user,
            nonce: self.nonce,
            originChainId: U256::from(self.origin_chain_id),
            openDeadline: self.open_deadline,
            fillDeadline: self.fill_deadline,
            orderDataType: Self::data_type(),
            orderData: self.data.abi_encode().into(),
        }
    }

    /// Reads an order whose data is of [`Intent::data_type`].
    ///
    /// # Errors
    /// [`DecodeError`] for every other one.
    pub fn read(order: &GaslessCrossChainOrder) -> Result<Self, DecodeError> {
        if order.orderDataType != Self::data_type() {
            return Err(DecodeError::AnotherType(order.orderDataType));
        }
        let data: AcrossOrderData = canonical(&order.orderData, "order data")?;
        Ok(Self {
            origin_settler: order.originSettler,
            user: order.user,
            nonce: order.nonce,
            origin_chain_id: u64::try_from(order.originChainId)
                .map_err(|_| DecodeError::ChainId(order.originChainId))?,
            open_deadline: order.openDeadline,
            fill_deadline: order.fillDeadline,
            data,
        })
    }

    /// The ABI encoding of the order.
    pub fn encode(&self) -> Bytes {
        self.order().abi_encode().into()
    }

    /// Reads an encoded order.
    ///
    /// # Errors
    /// [`DecodeError`] for anything but the exact encoding [`Intent::encode`] gives.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&canonical(bytes, "order")?)
    }

    /// Hash of the order with its data as bytes, for settlers that sign no witness.
    pub fn plain_hash(&self) -> B256 {
        self.order().eip712_hash_struct()
    }

    /// The order as Permit2 binds a transfer to it.
    pub fn witness(&self) -> Witness {
        Witness::of(&witness::GaslessCrossChainOrder {
            originSettler: self.origin_settler,
            user: self.user,
            nonce: self.nonce,
            originChainId: U256::from(self.origin_chain_id),
            openDeadline: self.open_deadline,
            fillDeadline: self.fill_deadline,
            orderDataType: Self::data_type(),
            orderData: typed(&self.data),
        })
    }

    /// Hash of the order data alone.
    pub fn data_hash(&self) -> B256 {
        typed(&self.data).eip712_hash_struct()
    }

    /// What the user signs: a Permit2 transfer of exactly the input to the origin settler, bound to the order.
    pub fn permit(&self) -> Permit {
        Permit::Transfer {
            permit: PermitTransferFrom {
                permitted: TokenPermissions { token: self.data.inputToken, amount: self.data.inputAmount },
                nonce: self.nonce,
                deadline: U256::from(self.open_deadline),
            },
            spender: self.origin_settler,
            witness: Some(self.witness()),
        }
    }

    /// The call that opens it with the user's signature. `filler_data` is the filler's own.
    pub fn open_for(&self, signature: Bytes, filler_data: Bytes) -> Bytes {
        OriginSettler::openForCall { order: self.order(), signature, originFillerData: filler_data }.abi_encode().into()
    }

    /// The number under which our settler keeps an order that was opened with a signature: known before it is opened.
    pub fn deposit_id(&self) -> U256 {
        keccak256((self.user, self.nonce).abi_encode()).into()
    }

    /// What the destination is told.
    pub fn relay(&self, deposit_id: U256) -> RelayData {
        RelayData {
            depositor: self.user.into_word(),
            recipient: self.data.recipient,
            exclusiveRelayer: self.data.exclusiveRelayer.into_word(),
            inputToken: self.data.inputToken.into_word(),
            outputToken: self.data.outputToken.into_word(),
            inputAmount: self.data.inputAmount,
            outputAmount: self.data.outputAmount,
            originChainId: U256::from(self.origin_chain_id),
            depositId: deposit_id,
            fillDeadline: self.fill_deadline,
            // Across's `_resolveFor` passes the period on; only the deposit itself adds the time of its block.
            exclusivityDeadline: self.data.exclusivityPeriod,
            message: self.data.message.clone(),
        }
    }

    /// The order as every filler can read it, under `deposit_id` and with the destination's settler.
    pub fn resolve(&self, deposit_id: U256, destination_settler: B256) -> ResolvedCrossChainOrder {
        let relay = self.relay(deposit_id);
        let origin = U256::from(self.origin_chain_id);
        let destination = self.data.destinationChainId;
        ResolvedCrossChainOrder {
            user: self.user,
            originChainId: origin,
            openDeadline: self.open_deadline,
            fillDeadline: self.fill_deadline,
            orderId: order_id(&relay, destination),
            maxSpent: vec![Output {
                token: relay.outputToken,
                amount: relay.outputAmount,
                recipient: relay.recipient,
                chainId: destination,
            }],
            minReceived: vec![Output {
                token: relay.inputToken,
                amount: relay.inputAmount,
                recipient: B256::ZERO,
                chainId: origin,
            }],
            fillInstructions: vec![FillInstruction {
                destinationChainId: destination,
                destinationSettler: destination_settler,
                originData: relay.abi_encode().into(),
            }],
        }
    }

    /// The order's id at our settlers, known before it is opened.
    pub fn id(&self) -> B256 {
        order_id(&self.relay(self.deposit_id()), self.data.destinationChainId)
    }
}

/// An order's id: hash of what the destination is told, and of which destination it is.
pub fn order_id(relay: &RelayData, destination_chain_id: U256) -> B256 {
    keccak256((relay.clone(), destination_chain_id).abi_encode_params())
}

/// Reads what an order tells the destination.
///
/// # Errors
/// [`DecodeError`] for anything but its exact encoding.
pub fn read_relay(origin_data: &[u8]) -> Result<RelayData, DecodeError> {
    canonical(origin_data, "fill instruction")
}

/// Decodes what is in its one standard encoding.
fn canonical<T>(bytes: &[u8], what: &'static str) -> Result<T, DecodeError>
where
    T: SolValue + From<<T::SolType as alloy::sol_types::SolType>::RustType>,
{
    if bytes.len() > MAX_ENCODED {
        return Err(DecodeError::TooLong { length: bytes.len() });
    }
    let value =
        T::abi_decode_validate(bytes).map_err(|error| DecodeError::Malformed { what, reason: error.to_string() })?;
    if value.abi_encode() == bytes { Ok(value) } else { Err(DecodeError::NotCanonical { what }) }
}

/// The order data as the witness has it.
fn typed(data: &AcrossOrderData) -> witness::AcrossOrderData {
    witness::AcrossOrderData {
        inputToken: data.inputToken,
        inputAmount: data.inputAmount,
        outputToken: data.outputToken,
        outputAmount: data.outputAmount,
        destinationChainId: data.destinationChainId,
        recipient: data.recipient,
        exclusiveRelayer: data.exclusiveRelayer,
        depositNonce: data.depositNonce,
        exclusivityPeriod: data.exclusivityPeriod,
        message: data.message.clone(),
    }
}
