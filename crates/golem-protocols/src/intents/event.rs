//! ERC-7683 `Open` event, in its current and its older form.

use alloy::primitives::{B256, Log};
use alloy::sol_types::SolEvent;

use bardo_abi::erc7683::{FillInstruction, OriginSettler, Output, ResolvedCrossChainOrder, older};

/// Order that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedIntent {
    /// Id that the event is indexed by. Some settlers index a different value than the order's id: use the order's own
    /// id, which its content determines.
    pub indexed_id: B256,
    /// Resolved order from the event.
    pub order: ResolvedCrossChainOrder,
}

/// Error for a log that does not open an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log is not an ERC-7683 Open event")]
pub struct UnknownOpen;

impl OpenedIntent {
    /// Decodes a log. The caller must check which contract emitted it.
    ///
    /// # Errors
    /// [`UnknownOpen`] for any other log.
    pub fn decode(log: &Log) -> Result<Self, UnknownOpen> {
        if let Ok(event) = OriginSettler::Open::decode_log_validate(log) {
            return Ok(Self { indexed_id: event.data.orderId, order: event.data.resolvedOrder });
        }
        let event = older::OriginSettler::Open::decode_log_validate(log).map_err(|_| UnknownOpen)?;
        Ok(Self { indexed_id: event.data.orderId, order: newer(event.data.resolvedOrder) })
    }
}

/// Converts an order of the older form, whose fill instructions have 64-bit chain ids.
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
