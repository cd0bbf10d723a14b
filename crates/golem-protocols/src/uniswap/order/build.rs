//! Makes an order from what a trade wants: who, which tokens, how good, until when.
//!
//! Not here: whether the result is sound (see `validate`) and what the cosigner will add.

use alloy::primitives::{Address, Bytes, I256, U256};

use super::decay::curve;
use super::{Fault, Order};
use bardo_abi::uniswapx::{
    DutchInput, DutchOutput, EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder,
    EncodedV3DutchOrder, NonlinearDutchDecay, OrderInfo, PriorityCosignerData, PriorityInput, PriorityOutput,
    V2CosignerData, V3CosignerData, V3DutchInput, V3DutchOutput,
};

/// Which side is fixed, and how far the other may move, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Legs {
    /// A fixed input for an output that falls.
    ExactIn {
        /// What is paid.
        amount_in: U256,
        /// What is asked for at first.
        start_out: U256,
        /// The least that is accepted.
        least_out: U256,
    },
    /// A fixed output for an input that rises.
    ExactOut {
        /// What is received.
        amount_out: U256,
        /// What is offered at first.
        start_in: U256,
        /// The most that is paid.
        most_in: U256,
    },
}

/// How the price is found, which says what kind of order it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auction {
    /// Dutch: between two times the swapper sets, in seconds since the Unix epoch.
    Times {
        /// When the decay starts.
        from: u64,
        /// When it ends.
        until: u64,
    },
    /// V2 Dutch: between two times the cosigner sets.
    CosignedTimes,
    /// V3 Dutch: in a straight line over blocks, from a block the cosigner sets.
    CosignedBlocks {
        /// How many blocks, at least one.
        over: u16,
        /// The base fee the amounts were reckoned with, in wei per gas.
        base_fee: u128,
        /// How much of the moving side one gwei of base fee is worth.
        per_gwei: U256,
    },
    /// Priority: from a block on, better by so many ten-millionths per wei of priority fee.
    PriorityFee {
        /// The first block in which anybody may fill.
        start_block: u64,
        /// The part of the priority fee that buys nothing, in wei per gas.
        baseline: u128,
        /// Ten-millionths of the amount per wei above it.
        mps_per_wei: U256,
    },
}

/// An order to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The reactor of the auction's kind.
    pub reactor: Address,
    /// Whose tokens are sold.
    pub swapper: Address,
    /// Who receives.
    pub recipient: Address,
    /// A Permit2 nonce that is unused.
    pub nonce: U256,
    /// Until when it can fill, in seconds since the Unix epoch.
    pub deadline: u64,
    /// Who cosigns; of no meaning for the first Dutch order, and zero for a Priority order without one.
    pub cosigner: Address,
    /// The token paid.
    pub token_in: Address,
    /// The token received; zero is the native coin.
    pub token_out: Address,
    /// The amounts.
    pub legs: Legs,
    /// The auction.
    pub auction: Auction,
}

impl Draft {
    /// The order, not yet cosigned.
    ///
    /// # Errors
    /// [`Fault::TooLarge`] where an amount is past what a decay curve can hold.
    pub fn order(&self) -> Result<Order, Fault> {
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
            Legs::ExactIn { amount_in, start_out, least_out } => ((amount_in, amount_in), (start_out, least_out)),
            Legs::ExactOut { amount_out, start_in, most_in } => ((start_in, most_in), (amount_out, amount_out)),
        };
        let input = DutchInput { token: self.token_in, startAmount: start_in, endAmount: most_in };
        let outputs = vec![DutchOutput { token: token_out, startAmount: start_out, endAmount: least_out, recipient }];
        Ok(match self.auction {
            Auction::Times { from, until } => Order::Dutch(EncodedExclusiveDutchOrder {
                info,
                decayStartTime: U256::from(from),
                decayEndTime: U256::from(until),
                exclusiveFiller: Address::ZERO,
                exclusivityOverrideBps: U256::ZERO,
                input,
                outputs,
            }),
            Auction::CosignedTimes => Order::DutchV2(EncodedV2DutchOrder {
                info,
                cosigner,
                baseInput: input,
                baseOutputs: outputs,
                cosignerData: V2CosignerData { outputAmounts: vec![U256::ZERO], ..Default::default() },
                cosignature: Bytes::new(),
            }),
            Auction::CosignedBlocks { over, base_fee, per_gwei } => {
                let exact_in = matches!(self.legs, Legs::ExactIn { .. });
                let per_gwei_of = |moves: bool| if moves { per_gwei } else { U256::ZERO };
                Order::DutchV3(EncodedV3DutchOrder {
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
            Auction::PriorityFee { start_block, baseline, mps_per_wei } => {
                let exact_in = matches!(self.legs, Legs::ExactIn { .. });
                let mps_of = |moves: bool| if moves { mps_per_wei } else { U256::ZERO };
                Order::Priority(EncodedPriorityOrder {
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

/// A curve of one point from `start` to `end`; none where nothing moves.
fn straight(over: u16, start: U256, end: U256) -> Result<NonlinearDutchDecay, Fault> {
    if start == end {
        return Ok(curve(&[]));
    }
    let signed = |value| I256::try_from(value).map_err(|_| Fault::TooLarge);
    // Both are at least zero, so the difference fits.
    Ok(curve(&[(over, signed(start)? - signed(end)?)]))
}
