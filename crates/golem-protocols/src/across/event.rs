//! Events of SpokePools, of both generations: the one before 2025 has addresses and 32-bit ids, the present one words.

use alloy::primitives::{Address, B256, Bytes, Log, U256, keccak256};
use alloy::sol_types::SolEvent as _;

use bardo_abi::across::{AcrossRelay, AcrossSpokePool};

/// Deposit, as its pool tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepositEvent {
    /// All that identifies it on its destination.
    pub relay: AcrossRelay,
    /// EIP-155 id of its destination.
    pub destination_chain_id: U256,
    /// Time for which its fee was quoted, in seconds since the Unix epoch.
    pub quote_timestamp: u32,
}

impl DepositEvent {
    /// Hashes of the events that tell a deposit.
    pub const SIGNATURES: [B256; 2] =
        [AcrossSpokePool::FundsDeposited::SIGNATURE_HASH, AcrossSpokePool::V3FundsDeposited::SIGNATURE_HASH];

    /// Decodes a log of a pool on the chain `origin_chain_id`; `None` for any other event. Whether the log is the pool's, its
    /// address says.
    pub fn decode(log: &Log, origin_chain_id: u64) -> Option<Self> {
        let origin = U256::from(origin_chain_id);
        if let Ok(event) = AcrossSpokePool::FundsDeposited::decode_log_validate(log) {
            let event = event.data;
            return Some(Self {
                destination_chain_id: event.destinationChainId,
                quote_timestamp: event.quoteTimestamp,
                relay: AcrossRelay {
                    depositor: event.depositor,
                    recipient: event.recipient,
                    exclusiveRelayer: event.exclusiveRelayer,
                    inputToken: event.inputToken,
                    outputToken: event.outputToken,
                    inputAmount: event.inputAmount,
                    outputAmount: event.outputAmount,
                    originChainId: origin,
                    depositId: event.depositId,
                    fillDeadline: event.fillDeadline,
                    exclusivityDeadline: event.exclusivityDeadline,
                    message: event.message,
                },
            });
        }
        let event = AcrossSpokePool::V3FundsDeposited::decode_log_validate(log).ok()?.data;
        Some(Self {
            destination_chain_id: event.destinationChainId,
            quote_timestamp: event.quoteTimestamp,
            relay: AcrossRelay {
                depositor: event.depositor.into_word(),
                recipient: event.recipient.into_word(),
                exclusiveRelayer: event.exclusiveRelayer.into_word(),
                inputToken: event.inputToken.into_word(),
                outputToken: event.outputToken.into_word(),
                inputAmount: event.inputAmount,
                outputAmount: event.outputAmount,
                originChainId: origin,
                depositId: U256::from(event.depositId),
                fillDeadline: event.fillDeadline,
                exclusivityDeadline: event.exclusivityDeadline,
                message: event.message,
            },
        })
    }
}

/// Way in which a deposit was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillKind {
    /// A relayer paid it.
    Fast,
    /// A relayer paid it after a slow fill was asked for.
    ReplacedSlow,
    /// The destination's pool paid it by a leaf of a bundle.
    Slow,
}

impl FillKind {
    /// Kind by its number in the events; `None` for any other number.
    const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Fast),
            1 => Some(Self::ReplacedSlow),
            2 => Some(Self::Slow),
            _ => None,
        }
    }
}

/// Fill, as the destination's pool tells it. The events have a message or its hash; here it is the hash, and zero for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FillEvent {
    /// The filled relay, without its message.
    pub relay: AcrossRelay,
    /// Hash of the relay's message; zero for none.
    pub message_hash: B256,
    /// Way in which it was filled.
    pub kind: FillKind,
    /// Account that is repaid for the fill; zero for a slow fill.
    pub relayer: B256,
    /// EIP-155 id of the chain on which it is repaid.
    pub repayment_chain_id: U256,
    /// Address that received the output.
    pub paid_to: B256,
    /// Amount that it received, in raw units.
    pub paid: U256,
}

fn hash_of(message: &Bytes) -> B256 {
    if message.is_empty() { B256::ZERO } else { keccak256(message) }
}

impl FillEvent {
    /// Hashes of the events that tell a fill.
    pub const SIGNATURES: [B256; 2] =
        [AcrossSpokePool::FilledRelay::SIGNATURE_HASH, AcrossSpokePool::FilledV3Relay::SIGNATURE_HASH];

    /// Decodes a log of a pool; `None` for any other event, and for a kind of fill that the interface does not have.
    pub fn decode(log: &Log) -> Option<Self> {
        if let Ok(event) = AcrossSpokePool::FilledRelay::decode_log_validate(log) {
            let event = event.data;
            return Some(Self {
                message_hash: event.messageHash,
                kind: FillKind::of(event.relayExecutionInfo.fillType)?,
                relayer: event.relayer,
                repayment_chain_id: event.repaymentChainId,
                paid_to: event.relayExecutionInfo.updatedRecipient,
                paid: event.relayExecutionInfo.updatedOutputAmount,
                relay: AcrossRelay {
                    depositor: event.depositor,
                    recipient: event.recipient,
                    exclusiveRelayer: event.exclusiveRelayer,
                    inputToken: event.inputToken,
                    outputToken: event.outputToken,
                    inputAmount: event.inputAmount,
                    outputAmount: event.outputAmount,
                    originChainId: event.originChainId,
                    depositId: event.depositId,
                    fillDeadline: event.fillDeadline,
                    exclusivityDeadline: event.exclusivityDeadline,
                    message: Bytes::new(),
                },
            });
        }
        let event = AcrossSpokePool::FilledV3Relay::decode_log_validate(log).ok()?.data;
        Some(Self {
            message_hash: hash_of(&event.message),
            kind: FillKind::of(event.relayExecutionInfo.fillType)?,
            relayer: event.relayer.into_word(),
            repayment_chain_id: event.repaymentChainId,
            paid_to: event.relayExecutionInfo.updatedRecipient.into_word(),
            paid: event.relayExecutionInfo.updatedOutputAmount,
            relay: AcrossRelay {
                depositor: event.depositor.into_word(),
                recipient: event.recipient.into_word(),
                exclusiveRelayer: event.exclusiveRelayer.into_word(),
                inputToken: event.inputToken.into_word(),
                outputToken: event.outputToken.into_word(),
                inputAmount: event.inputAmount,
                outputAmount: event.outputAmount,
                originChainId: event.originChainId,
                depositId: U256::from(event.depositId),
                fillDeadline: event.fillDeadline,
                exclusivityDeadline: event.exclusivityDeadline,
                message: Bytes::new(),
            },
        })
    }

    /// Returns true if it fills exactly this relay, and paid its own recipient at least what it asks for. A pool fills whatever
    /// a relayer says that there was: only the comparison of every field shows that it was this deposit.
    pub fn fills(&self, relay: &AcrossRelay) -> bool {
        is_of(&self.relay, self.message_hash, relay)
            && self.paid_to == relay.recipient
            && self.paid >= relay.outputAmount
    }
}

/// True if what an event tells of a relay, whose message it has as a hash, is exactly this one.
fn is_of(told: &AcrossRelay, message_hash: B256, relay: &AcrossRelay) -> bool {
    let without = AcrossRelay { message: Bytes::new(), ..relay.clone() };
    *told == without && message_hash == hash_of(&relay.message)
}

/// Request that the destination's pool pays a deposit itself, as that pool tells it. Anybody may make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowFillRequest {
    /// The relay to pay, without its message.
    pub relay: AcrossRelay,
    /// Hash of the relay's message; zero for none.
    pub message_hash: B256,
}

impl SlowFillRequest {
    /// Hashes of the events that tell a request.
    pub const SIGNATURES: [B256; 2] =
        [AcrossSpokePool::RequestedSlowFill::SIGNATURE_HASH, AcrossSpokePool::RequestedV3SlowFill::SIGNATURE_HASH];

    /// Decodes a log of a pool; `None` for any other event.
    pub fn decode(log: &Log) -> Option<Self> {
        if let Ok(event) = AcrossSpokePool::RequestedSlowFill::decode_log_validate(log) {
            let event = event.data;
            return Some(Self {
                message_hash: event.messageHash,
                relay: AcrossRelay {
                    depositor: event.depositor,
                    recipient: event.recipient,
                    exclusiveRelayer: event.exclusiveRelayer,
                    inputToken: event.inputToken,
                    outputToken: event.outputToken,
                    inputAmount: event.inputAmount,
                    outputAmount: event.outputAmount,
                    originChainId: event.originChainId,
                    depositId: event.depositId,
                    fillDeadline: event.fillDeadline,
                    exclusivityDeadline: event.exclusivityDeadline,
                    message: Bytes::new(),
                },
            });
        }
        let event = AcrossSpokePool::RequestedV3SlowFill::decode_log_validate(log).ok()?.data;
        Some(Self {
            message_hash: hash_of(&event.message),
            relay: AcrossRelay {
                depositor: event.depositor.into_word(),
                recipient: event.recipient.into_word(),
                exclusiveRelayer: event.exclusiveRelayer.into_word(),
                inputToken: event.inputToken.into_word(),
                outputToken: event.outputToken.into_word(),
                inputAmount: event.inputAmount,
                outputAmount: event.outputAmount,
                originChainId: event.originChainId,
                depositId: U256::from(event.depositId),
                fillDeadline: event.fillDeadline,
                exclusivityDeadline: event.exclusivityDeadline,
                message: Bytes::new(),
            },
        })
    }

    /// Returns true if it asks for exactly this relay.
    pub fn asks_for(&self, relay: &AcrossRelay) -> bool {
        is_of(&self.relay, self.message_hash, relay)
    }
}

/// Payments out of a pool by one leaf of a bundle, as the pool tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundEvent {
    /// Token that was paid.
    pub token: Address,
    /// Payments, in raw units.
    pub payments: Vec<(Address, U256)>,
    /// True if a payment failed and is kept for its recipient instead.
    pub deferred: bool,
}

impl RefundEvent {
    /// Hash of the event.
    pub const SIGNATURE: B256 = AcrossSpokePool::ExecutedRelayerRefundRoot::SIGNATURE_HASH;

    /// Decodes a log of a pool; `None` for any other event, and for one whose lists differ in length.
    pub fn decode(log: &Log) -> Option<Self> {
        let event = AcrossSpokePool::ExecutedRelayerRefundRoot::decode_log_validate(log).ok()?.data;
        if event.refundAddresses.len() != event.refundAmounts.len() {
            return None;
        }
        Some(Self {
            token: event.l2TokenAddress,
            payments: event.refundAddresses.into_iter().zip(event.refundAmounts).collect(),
            deferred: event.deferredRefunds,
        })
    }

    /// Sum of the payments to an account, in raw units.
    pub fn paid_to(&self, account: Address) -> U256 {
        let own = self.payments.iter().filter(|(to, _)| *to == account);
        own.fold(U256::ZERO, |sum, (_, amount)| sum.saturating_add(*amount))
    }
}
