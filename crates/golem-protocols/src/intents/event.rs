//! The `Open` event in both of its forms.

use alloy::primitives::{B256, Log};
use alloy::sol_types::SolEvent;

use bardo_abi::erc7683::{FillInstruction, OriginSettler, Output, ResolvedCrossChainOrder, older};

/// An order was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The id the event is indexed by. Some settlers index another number than the one in the order: trust the
    /// order's own for what it is hashed from.
    pub indexed_id: B256,
    /// The order.
    pub order: ResolvedCrossChainOrder,
}

/// A log that opens no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log is not an ERC-7683 Open event")]
pub struct UnknownOpen;

impl Opened {
    /// Reads a log. Which contract wrote it is the caller's to check.
    ///
    /// # Errors
    /// [`UnknownOpen`] for every other log.
    pub fn decode(log: &Log) -> Result<Self, UnknownOpen> {
        if let Ok(event) = OriginSettler::Open::decode_log_validate(log) {
            return Ok(Self { indexed_id: event.data.orderId, order: event.data.resolvedOrder });
        }
        let event = older::OriginSettler::Open::decode_log_validate(log).map_err(|_| UnknownOpen)?;
        Ok(Self { indexed_id: event.data.orderId, order: newer(event.data.resolvedOrder) })
    }
}

/// The same order with chain ids of 256 bits.
fn newer(order: older::ResolvedCrossChainOrder) -> ResolvedCrossChainOrder {
    let output = |output: older::Output| Output {
        token: output.token,
        amount: output.amount,
        recipient: output.recipient,
        chainId: output.chainId,
    };
    let instruction = |instruction: older::FillInstruction| FillInstruction {
        destinationChainId: alloy::primitives::U256::from(instruction.destinationChainId),
        destinationSettler: instruction.destinationSettler,
        originData: instruction.originData,
    };
    ResolvedCrossChainOrder {
        user: order.user,
        originChainId: order.originChainId,
        openDeadline: order.openDeadline,
        fillDeadline: order.fillDeadline,
        orderId: order.orderId,
        maxSpent: order.maxSpent.into_iter().map(output).collect(),
        minReceived: order.minReceived.into_iter().map(output).collect(),
        fillInstructions: order.fillInstructions.into_iter().map(instruction).collect(),
    }
}
