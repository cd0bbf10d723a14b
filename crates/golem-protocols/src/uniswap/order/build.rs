//! Builder of UniswapX orders: account, tokens, amounts, auction and deadline.
//!
//! Not here: validation of the result (see `validate`), and the cosigner's additions.

use alloy::primitives::{Address, Bytes, I256, U256};

use super::decay::curve;
use super::{OrderFault, UniswapXOrder};
use bardo_abi::uniswapx::{
    DutchInput, DutchOutput, EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder,
    EncodedV3DutchOrder, NonlinearDutchDecay, OrderInfo, PriorityCosignerData, PriorityInput, PriorityOutput,
    V2CosignerData, V3CosignerData, V3DutchInput, V3DutchOutput,
};

/// Fixed amount of an order and bounds of the other one, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderAmounts {
    /// Fixed input with a falling output.
    ExactIn {
        /// Input amount in raw units.
        amount_in: U256,
        /// Output at the start of the auction.
        start_out: U256,
        /// Minimum output of the auction.
        least_out: U256,
    },
    /// Fixed output with a rising input.
    ExactOut {
        /// Output amount in raw units.
        amount_out: U256,
        /// Input at the start of the auction.
        start_in: U256,
        /// Maximum input of the auction.
        most_in: U256,
    },
}

/// Pricing mechanism, which determines the order kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuctionTerms {
    /// Dutch: decay between two times set by the swapper, in seconds since the Unix epoch.
    Times {
        /// Start of the decay.
        from: u64,
        /// End of the decay.
        until: u64,
    },
    /// V2 Dutch: decay between two times set by the cosigner.
    CosignedTimes,
    /// V3 Dutch: linear decay over blocks, from a block set by the cosigner.
    CosignedBlocks {
        /// Number of blocks, at least one.
        over: u16,
        /// Base fee that the amounts are based on, in wei per gas.
        base_fee: u128,
        /// Adjustment of the moving amount per gwei of base fee, in raw units.
        per_gwei: U256,
    },
    /// Priority: from a block on, the amount improves with the fill transaction's priority fee.
    PriorityFee {
        /// First block in which any filler may fill.
        start_block: u64,
        /// Part of the priority fee that has no effect, in wei per gas.
        baseline: u128,
        /// Improvement in ten-millionths of the amount, per wei above the baseline.
        mps_per_wei: U256,
    },
}

/// Parameters of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderDraft {
    /// Reactor of the auction's kind.
    pub reactor: Address,
    /// Owner of the input tokens, who signs.
    pub swapper: Address,
    /// Recipient of the output.
    pub recipient: Address,
    /// Unused Permit2 nonce.
    pub nonce: U256,
    /// Deadline for the fill, in seconds since the Unix epoch.
    pub deadline: u64,
    /// Cosigner of the order. Unused for a Dutch order without cosigner; zero for a Priority order without one.
    pub cosigner: Address,
    /// Address of the input token.
    pub token_in: Address,
    /// Output token; the zero address is the native token.
    pub token_out: Address,
    /// Input and output amounts.
    pub legs: OrderAmounts,
    /// Pricing mechanism of the order.
    pub auction: AuctionTerms,
}

impl OrderDraft {
    /// Builds the order, not yet cosigned.
    ///
    /// # Errors
    /// [`OrderFault::TooLarge`] if an amount is too large for a decay curve.
    pub fn order(&self) -> Result<UniswapXOrder, OrderFault> {
        let info = OrderInfo {
            reactor: self.reactor,
            swapper: self.swapper,
            nonce: self.nonce,
            deadline: U256::from(self.deadline),
            additionalValidationContract: Address::ZERO,
            additionalValidationData: Bytes::new(),
        };
        let (token_out, recipient, cosigner) = (self.token_out, self.recipient, self.cosigner);
        let ((start_in, most_in), (start_out, least_out)) = match self.legs {
            OrderAmounts::ExactIn { amount_in, start_out, least_out } => {
                ((amount_in, amount_in), (start_out, least_out))
            }
            OrderAmounts::ExactOut { amount_out, start_in, most_in } => ((start_in, most_in), (amount_out, amount_out)),
        };
        let input = DutchInput { token: self.token_in, startAmount: start_in, endAmount: most_in };
        let outputs = vec![DutchOutput { token: token_out, startAmount: start_out, endAmount: least_out, recipient }];
        Ok(match self.auction {
            AuctionTerms::Times { from, until } => UniswapXOrder::Dutch(EncodedExclusiveDutchOrder {
                info,
                decayStartTime: U256::from(from),
                decayEndTime: U256::from(until),
                exclusiveFiller: Address::ZERO,
                exclusivityOverrideBps: U256::ZERO,
                input,
                outputs,
            }),
            AuctionTerms::CosignedTimes => UniswapXOrder::DutchV2(EncodedV2DutchOrder {
                info,
                cosigner,
                baseInput: input,
                baseOutputs: outputs,
                cosignerData: V2CosignerData { outputAmounts: vec![U256::ZERO], ..Default::default() },
                cosignature: Bytes::new(),
            }),
            AuctionTerms::CosignedBlocks { over, base_fee, per_gwei } => {
                let exact_in = matches!(self.legs, OrderAmounts::ExactIn { .. });
                let per_gwei_of = |moves: bool| if moves { per_gwei } else { U256::ZERO };
                UniswapXOrder::DutchV3(EncodedV3DutchOrder {
                    info,
                    cosigner,
                    startingBaseFee: U256::from(base_fee),
                    baseInput: V3DutchInput {
                        token: self.token_in,
                        startAmount: start_in,
                        curve: straight(over, start_in, most_in)?,
                        maxAmount: most_in,
                        adjustmentPerGweiBaseFee: per_gwei_of(!exact_in),
                    },
                    baseOutputs: vec![V3DutchOutput {
                        token: token_out,
                        startAmount: start_out,
                        curve: straight(over, start_out, least_out)?,
                        recipient,
                        minAmount: least_out,
                        adjustmentPerGweiBaseFee: per_gwei_of(exact_in),
                    }],
                    cosignerData: V3CosignerData { outputAmounts: vec![U256::ZERO], ..Default::default() },
                    cosignature: Bytes::new(),
                })
            }
            AuctionTerms::PriorityFee { start_block, baseline, mps_per_wei } => {
                let exact_in = matches!(self.legs, OrderAmounts::ExactIn { .. });
                let mps_of = |moves: bool| if moves { mps_per_wei } else { U256::ZERO };
                UniswapXOrder::Priority(EncodedPriorityOrder {
                    info,
                    cosigner,
                    auctionStartBlock: U256::from(start_block),
                    baselinePriorityFeeWei: U256::from(baseline),
                    input: PriorityInput {
                        token: self.token_in,
                        amount: most_in,
                        mpsPerPriorityFeeWei: mps_of(!exact_in),
                    },
                    outputs: vec![PriorityOutput {
                        token: token_out,
                        amount: least_out,
                        mpsPerPriorityFeeWei: mps_of(exact_in),
                        recipient,
                    }],
                    cosignerData: PriorityCosignerData::default(),
                    cosignature: Bytes::new(),
                })
            }
        })
    }
}

/// Builds a decay curve with one point, from `start` to `end`; an empty curve if both are equal.
fn straight(over: u16, start: U256, end: U256) -> Result<NonlinearDutchDecay, OrderFault> {
    if start == end {
        return Ok(curve(&[]));
    }
    let signed = |value| I256::try_from(value).map_err(|_| OrderFault::TooLarge);
    // Both values are non-negative, so the difference fits.
    Ok(curve(&[(over, signed(start)? - signed(end)?)]))
}
