//! Cross-chain intents after [ERC-7683](https://eips.ethereum.org/EIPS/eip-7683): a token on one chain for a token on
//! another. The user signs once; relayers open and fill the order.
//!
//! The module does no I/O, except for the clients in [`service`]. Not here: signing (see `custody`), judging an intent
//! (see `safety`), and choosing a filler.

mod event;
pub mod gateway;
pub mod service;
mod validate;

#[cfg(test)]
mod tests;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::sol_types::{SolCall, SolStruct, SolValue};

pub use event::{OpenedIntent, UnknownOpen};
pub use validate::{IntentExpectation, IntentFault};

use bardo_abi::erc7683::{
    AcrossOrderData, FillInstruction, GaslessCrossChainOrder, OriginSettler, Output, RelayData,
    ResolvedCrossChainOrder, witness,
};
use golem_chain::permit2::{Permit2Message, PermitTransferFrom, PermitWitness, TokenPermissions};

/// Maximum length of parsed order data, in bytes.
pub const MAX_ENCODED: usize = 16 * 1024;

/// Intent that the user signs, with its order data decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossChainIntent {
    /// Settler on the origin chain.
    pub origin_settler: Address,
    /// Owner of the input tokens, who signs.
    pub user: Address,
    /// Unused Permit2 nonce of the user.
    pub nonce: U256,
    /// EIP-155 id of the chain that the tokens leave.
    pub origin_chain_id: u64,
    /// Deadline for opening, in seconds since the Unix epoch.
    pub open_deadline: u32,
    /// Deadline for filling, in seconds since the Unix epoch.
    pub fill_deadline: u32,
    /// Tokens, amounts, destination and recipient.
    pub data: AcrossOrderData,
}

/// Error for an order that is not a supported intent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentDecodeError {
    /// Encoding beyond [`MAX_ENCODED`].
    #[error("{length} bytes are too long for an order: at most {MAX_ENCODED} are accepted")]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
    /// Bytes that are not a valid ABI encoding.
    #[error("the bytes are not an encoded {what}: {reason}")]
    Malformed {
        /// Name of the expected structure.
        what: &'static str,
        /// Error of the ABI decoder.
        reason: String,
    },
    /// Encoding that decodes, but differs from the output of `abi.encode`.
    #[error("the bytes decode as an {what} but are not its standard encoding: encode it again")]
    NotCanonical {
        /// Name of the expected structure.
        what: &'static str,
    },
    /// Order data of an unsupported type, with its hash.
    #[error("the order data is of type {0}, which is not supported")]
    AnotherType(B256),
    /// Origin chain id beyond 64 bits.
    #[error("the origin chain's id {0} is too large")]
    ChainId(U256),
}

impl CrossChainIntent {
    /// Returns the EIP-712 type hash of the order data.
    pub fn data_type() -> B256 {
        keccak256(AcrossOrderData::eip712_encode_type().as_bytes())
    }

    /// Returns the order in the settlers' structure.
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

    /// Converts an order whose data has the type [`CrossChainIntent::data_type`].
    ///
    /// # Errors
    /// Returns a [`IntentDecodeError`] for any other order.
    pub fn read(order: &GaslessCrossChainOrder) -> Result<Self, IntentDecodeError> {
        if order.orderDataType != Self::data_type() {
            return Err(IntentDecodeError::AnotherType(order.orderDataType));
        }
        let data: AcrossOrderData = canonical(&order.orderData, "order data")?;
        Ok(Self {
            origin_settler: order.originSettler,
            user: order.user,
            nonce: order.nonce,
            origin_chain_id: u64::try_from(order.originChainId)
                .map_err(|_| IntentDecodeError::ChainId(order.originChainId))?,
            open_deadline: order.openDeadline,
            fill_deadline: order.fillDeadline,
            data,
        })
    }

    /// Returns the ABI encoding of the order.
    pub fn encode(&self) -> Bytes {
        self.order().abi_encode().into()
    }

    /// Decodes an order.
    ///
    /// # Errors
    /// Returns a [`IntentDecodeError`] for anything but the exact encoding of [`CrossChainIntent::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, IntentDecodeError> {
        Self::read(&canonical(bytes, "order")?)
    }

    /// Returns the hash of the order with its data as bytes, for settlers that use no witness.
    pub fn plain_hash(&self) -> B256 {
        self.order().eip712_hash_struct()
    }

    /// Returns the order as the witness of a Permit2 transfer.
    pub fn witness(&self) -> PermitWitness {
        PermitWitness::of(&witness::GaslessCrossChainOrder {
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

    /// Returns the hash of the order data alone.
    pub fn data_hash(&self) -> B256 {
        typed(&self.data).eip712_hash_struct()
    }

    /// Returns the Permit2 transfer that the user signs: exactly the input, to the origin settler, with the order as
    /// witness.
    pub fn permit(&self) -> Permit2Message {
        Permit2Message::Transfer {
            permit: PermitTransferFrom {
                permitted: TokenPermissions { token: self.data.inputToken, amount: self.data.inputAmount },
                nonce: self.nonce,
                deadline: U256::from(self.open_deadline),
            },
            spender: self.origin_settler,
            witness: Some(self.witness()),
        }
    }

    /// Returns the calldata that opens the order with the user's signature. The filler chooses `filler_data`.
    pub fn open_for(&self, signature: Bytes, filler_data: Bytes) -> Bytes {
        OriginSettler::openForCall { order: self.order(), signature, originFillerData: filler_data }.abi_encode().into()
    }

    /// Returns the deposit id that our settler assigns to an order opened with a signature. It is known in advance.
    pub fn deposit_id(&self) -> U256 {
        keccak256((self.user, self.nonce).abi_encode()).into()
    }

    /// Returns the relay data that the destination settler receives.
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
            // Across's `_resolveFor` passes the period on; only the deposit itself adds the block timestamp.
            exclusivityDeadline: self.data.exclusivityPeriod,
            message: self.data.message.clone(),
        }
    }

    /// Returns the resolved order that any filler can read, under `deposit_id` and with the destination's settler.
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

    /// Returns the order's id at our settlers, known before it is opened.
    pub fn id(&self) -> B256 {
        order_id(&self.relay(self.deposit_id()), self.data.destinationChainId)
    }
}

/// Returns an order's id: the hash of its relay data and the destination chain id.
pub fn order_id(relay: &RelayData, destination_chain_id: U256) -> B256 {
    keccak256((relay.clone(), destination_chain_id).abi_encode_params())
}

/// Decodes an order's relay data.
///
/// # Errors
/// Returns a [`IntentDecodeError`] for anything but its exact encoding.
pub fn read_relay(origin_data: &[u8]) -> Result<RelayData, IntentDecodeError> {
    canonical(origin_data, "fill instruction")
}

/// Decodes a value and rejects any encoding that differs from the standard one.
fn canonical<T>(bytes: &[u8], what: &'static str) -> Result<T, IntentDecodeError>
where
    T: SolValue + From<<T::SolType as alloy::sol_types::SolType>::RustType>,
{
    if bytes.len() > MAX_ENCODED {
        return Err(IntentDecodeError::TooLong { length: bytes.len() });
    }
    let value = T::abi_decode_validate(bytes)
        .map_err(|error| IntentDecodeError::Malformed { what, reason: error.to_string() })?;
    if value.abi_encode() == bytes { Ok(value) } else { Err(IntentDecodeError::NotCanonical { what }) }
}

/// Converts the order data to the witness type.
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
