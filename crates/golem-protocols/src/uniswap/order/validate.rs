//! Validation of an order, before it is signed and after its cosignature, and the bounds of its cost.
//!
//! All faults are reported, not only the first. Not here: policy (see `safety`), and state known only on chain.

use alloy::primitives::{Address, I256, U256};

use super::decay::{MAX_POINTS, points};
use super::resolve::OutputAmount;
use super::{ReactorRevert, UniswapXOrder};
use bardo_abi::uniswapx::NonlinearDutchDecay;

/// Expected values of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderExpectation {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Current time, in seconds since the Unix epoch.
    pub now: u64,
    /// Reactor of the order kind on that chain.
    pub reactor: Address,
    /// Account that signs.
    pub swapper: Address,
    /// Account that must receive all outputs.
    pub recipient: Address,
    /// Cosigner of the order service.
    pub cosigner: Address,
}

/// Fault of an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderFault {
    /// Another reactor than expected.
    #[error("the order names reactor {found}, but orders of this kind are settled by {expected}")]
    Reactor {
        /// Reactor in the order.
        found: Address,
        /// Reactor that was expected.
        expected: Address,
    },
    /// Order of another swapper.
    #[error("the order belongs to {found}, but {expected} would sign it")]
    Swapper {
        /// Swapper in the order.
        found: Address,
        /// Swapper that was expected.
        expected: Address,
    },
    /// Deadline that has passed.
    #[error("the deadline {deadline} is not in the future: the time is {now}")]
    DeadlinePassed {
        /// Deadline in the order, in seconds since the Unix epoch.
        deadline: U256,
        /// Current time, in seconds since the Unix epoch.
        now: u64,
    },
    /// Validation contract, which could reject every filler but one.
    #[error("the order lets contract {0} decide who may fill it: remove the validation contract")]
    ValidationContract(Address),
    /// Validation data without a validation contract.
    #[error("the order has validation data without a validation contract: remove it")]
    ValidationData,
    /// Missing or unknown cosigner.
    #[error("the order names cosigner {found}, but the order service's cosigner is {expected}")]
    Cosigner {
        /// Cosigner in the order.
        found: Address,
        /// Cosigner that was expected.
        expected: Address,
    },
    /// Order without outputs.
    #[error("the order has no output: set what must be received")]
    NoOutput,
    /// Output for another recipient.
    #[error("output {index} goes to {found}, but everything must go to {expected}")]
    Recipient {
        /// Index of the output, from zero.
        index: usize,
        /// Recipient in the order.
        found: Address,
        /// Recipient that was expected.
        expected: Address,
    },
    /// Output in the input token.
    #[error("output {index} is in the input token")]
    SameToken {
        /// Index of the output, from zero.
        index: usize,
    },
    /// Input amount of zero.
    #[error("the input is zero: set the amount to pay")]
    ZeroInput,
    /// Output that can be zero.
    #[error("output {index} can become zero: set the minimum that is accepted")]
    ZeroOutput {
        /// Index of the output, from zero.
        index: usize,
    },
    /// Input that falls during the auction.
    #[error("the input starts above its end: it may only rise")]
    InputFalls,
    /// Output that rises during the auction.
    #[error("output {index} starts below its end: it may only fall")]
    OutputRises {
        /// Index of the output, from zero.
        index: usize,
    },
    /// Auction in which input and outputs both move.
    #[error("input and outputs both move: one side must be fixed")]
    BothMove,
    /// Decay whose end is not after its start.
    #[error("the decay ends at {end}, which is not after its start at {start}")]
    DecayEndsBeforeStart {
        /// Start of the decay.
        start: U256,
        /// End of the decay.
        end: U256,
    },
    /// Decay that ends after the deadline, which the reactor rejects.
    #[error("the decay ends at {end}, after the deadline {deadline}: end it at the deadline or before")]
    DecayEndsAfterDeadline {
        /// End of the decay.
        end: U256,
        /// Deadline of the order.
        deadline: U256,
    },
    /// Ambiguous decay curve.
    #[error("a decay curve must have at most 16 points at increasing distances of at least one block")]
    Curve,
    /// Amount too large for a decay curve.
    #[error("an amount is too large for a decay curve (2^255 or more)")]
    TooLarge,
    /// Number of cosigned amounts that differs from the number of outputs.
    #[error("the cosigner gave {given} output amounts for {outputs} outputs: one is needed for each, zero to keep it")]
    OverrideCount {
        /// Number of cosigned amounts.
        given: usize,
        /// Number of outputs.
        outputs: usize,
    },
    /// Cosigned input above the order's start.
    #[error("the cosigner's input {given} is above the order's start {start}")]
    InputOverride {
        /// Amount given by the cosigner.
        given: U256,
        /// Start amount of the order.
        start: U256,
    },
    /// Cosigned output below the order's start.
    #[error("the cosigner's amount {given} for output {index} is below the order's start {start}")]
    OutputOverride {
        /// Index of the output, from zero.
        index: usize,
        /// Amount given by the cosigner.
        given: U256,
        /// Start amount of the order.
        start: U256,
    },
    /// Exclusivity for one filler until the deadline.
    #[error("only {filler} could ever fill the order: exclusivity must end before the deadline")]
    ExclusiveToTheEnd {
        /// Address of the exclusive filler.
        filler: Address,
    },
    /// Cosignature that does not verify.
    #[error("the cosignature is not by {cosigner} over this order and these amounts")]
    Cosignature {
        /// Cosigner that was expected.
        cosigner: Address,
    },
}

/// Bounds of an order's cost and proceeds, for any moment, cosigner and filler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBounds {
    /// Address of the input token.
    pub token_in: Address,
    /// Maximum input, in raw units.
    pub most_in: U256,
    /// Minimum of each output.
    pub least_out: Vec<OutputAmount>,
}

/// Common fields of an output of any order kind.
struct OutputFields {
    token: Address,
    start: U256,
    least: U256,
    recipient: Address,
}

impl UniswapXOrder {
    /// Returns all faults in the part that the swapper signs.
    pub fn faults(&self, expected: &OrderExpectation) -> Vec<OrderFault> {
        let mut faults = Vec::new();
        let info = self.info();
        if info.reactor != expected.reactor {
            faults.push(OrderFault::Reactor { found: info.reactor, expected: expected.reactor });
        }
        if info.swapper != expected.swapper {
            faults.push(OrderFault::Swapper { found: info.swapper, expected: expected.swapper });
        }
        if info.deadline <= U256::from(expected.now) {
            faults.push(OrderFault::DeadlinePassed { deadline: info.deadline, now: expected.now });
        }
        if info.additionalValidationContract != Address::ZERO {
            faults.push(OrderFault::ValidationContract(info.additionalValidationContract));
        } else if !info.additionalValidationData.is_empty() {
            faults.push(OrderFault::ValidationData);
        }
        if let Some(found) = self.cosigner().filter(|found| *found != expected.cosigner) {
            faults.push(OrderFault::Cosigner { found, expected: expected.cosigner });
        }
        self.amount_faults(expected, &mut faults);
        self.auction_faults(&mut faults);
        faults
    }

    fn amount_faults(&self, expected: &OrderExpectation, faults: &mut Vec<OrderFault>) {
        let (start_in, most_in) = self.input();
        if most_in.is_zero() || start_in.is_zero() {
            faults.push(OrderFault::ZeroInput);
        }
        if start_in > most_in {
            faults.push(OrderFault::InputFalls);
        }
        let sides = self.sides();
        if sides.is_empty() {
            faults.push(OrderFault::NoOutput);
        }
        for (index, side) in sides.iter().enumerate() {
            if side.recipient != expected.recipient {
                faults.push(OrderFault::Recipient { index, found: side.recipient, expected: expected.recipient });
            }
            if side.token == self.token_in() {
                faults.push(OrderFault::SameToken { index });
            }
            if side.least.is_zero() {
                faults.push(OrderFault::ZeroOutput { index });
            }
            if side.start < side.least {
                faults.push(OrderFault::OutputRises { index });
            }
        }
        let moves = match self {
            Self::Priority(order) => {
                let outputs = order.outputs.iter().any(|output| !output.mpsPerPriorityFeeWei.is_zero());
                (!order.input.mpsPerPriorityFeeWei.is_zero(), outputs)
            }
            Self::Dutch(_) | Self::DutchV2(_) | Self::DutchV3(_) => {
                (start_in != most_in, sides.iter().any(|side| side.start != side.least))
            }
        };
        if moves == (true, true) {
            faults.push(OrderFault::BothMove);
        }
    }

    fn auction_faults(&self, faults: &mut Vec<OrderFault>) {
        match self {
            Self::Dutch(order) => {
                let deadline = order.info.deadline;
                times_faults(order.decayStartTime, order.decayEndTime, deadline, faults);
                exclusivity_faults(order.exclusiveFiller, order.decayStartTime, deadline, faults);
            }
            Self::DutchV3(order) => {
                let curves = order.baseOutputs.iter().map(|output| &output.curve);
                let curves = curves.chain([&order.baseInput.curve]);
                faults.extend(curves.filter_map(curve_fault));
            }
            Self::DutchV2(_) | Self::Priority(_) => {}
        }
    }

    /// Returns all faults in the cosigner's data, including its signature.
    pub fn cosigner_faults(&self, chain_id: u64) -> Vec<OrderFault> {
        let mut faults = Vec::new();
        match self {
            Self::Dutch(_) => return faults,
            Self::DutchV2(order) => {
                let (added, deadline) = (&order.cosignerData, order.info.deadline);
                times_faults(added.decayStartTime, added.decayEndTime, deadline, &mut faults);
                exclusivity_faults(added.exclusiveFiller, added.decayStartTime, deadline, &mut faults);
                self.override_faults(added.inputAmount, &added.outputAmounts, &mut faults);
            }
            Self::DutchV3(order) => {
                let added = &order.cosignerData;
                self.override_faults(added.inputAmount, &added.outputAmounts, &mut faults);
            }
            Self::Priority(order) => {
                // The reactor ignores unused cosigner data, so an order without it is valid.
                let unsigned = order.cosignature.is_empty() && order.cosignerData.auctionTargetBlock.is_zero();
                if unsigned {
                    return faults;
                }
            }
        }
        if let (Some(cosigner), Err(ReactorRevert::InvalidCosignature)) =
            (self.cosigner(), self.check_cosignature(chain_id))
        {
            faults.push(OrderFault::Cosignature { cosigner });
        }
        faults
    }

    fn override_faults(&self, input: U256, outputs: &[U256], faults: &mut Vec<OrderFault>) {
        let start = self.input().0;
        if input > start {
            faults.push(OrderFault::InputOverride { given: input, start });
        }
        let sides = self.sides();
        if outputs.len() != sides.len() {
            faults.push(OrderFault::OverrideCount { given: outputs.len(), outputs: sides.len() });
        }
        for (index, (given, side)) in outputs.iter().zip(&sides).enumerate() {
            if !given.is_zero() && *given < side.start {
                faults.push(OrderFault::OutputOverride { index, given: *given, start: side.start });
            }
        }
    }

    /// Returns the maximum input and the minimum outputs.
    pub fn bounds(&self) -> OrderBounds {
        let least =
            |side: OutputFields| OutputAmount { token: side.token, amount: side.least, recipient: side.recipient };
        OrderBounds {
            token_in: self.token_in(),
            most_in: self.most_in(),
            least_out: self.sides().into_iter().map(least).collect(),
        }
    }

    /// Returns the input's start and maximum amounts.
    fn input(&self) -> (U256, U256) {
        match self {
            Self::Dutch(order) => (order.input.startAmount, order.input.endAmount),
            Self::DutchV2(order) => (order.baseInput.startAmount, order.baseInput.endAmount),
            Self::DutchV3(order) => (order.baseInput.startAmount, order.baseInput.maxAmount),
            Self::Priority(order) => (order.input.amount, order.input.amount),
        }
    }

    fn sides(&self) -> Vec<OutputFields> {
        let dutch = |output: &bardo_abi::uniswapx::DutchOutput| OutputFields {
            token: output.token,
            start: output.startAmount,
            least: output.endAmount,
            recipient: output.recipient,
        };
        match self {
            Self::Dutch(order) => order.outputs.iter().map(dutch).collect(),
            Self::DutchV2(order) => order.baseOutputs.iter().map(dutch).collect(),
            Self::DutchV3(order) => {
                let side = |output: &bardo_abi::uniswapx::V3DutchOutput| OutputFields {
                    token: output.token,
                    start: output.startAmount,
                    least: output.minAmount,
                    recipient: output.recipient,
                };
                order.baseOutputs.iter().map(side).collect()
            }
            Self::Priority(order) => {
                let side = |output: &bardo_abi::uniswapx::PriorityOutput| OutputFields {
                    token: output.token,
                    start: output.amount,
                    least: output.amount,
                    recipient: output.recipient,
                };
                order.outputs.iter().map(side).collect()
            }
        }
    }
}

fn times_faults(start: U256, end: U256, deadline: U256, faults: &mut Vec<OrderFault>) {
    if end <= start {
        faults.push(OrderFault::DecayEndsBeforeStart { start, end });
    }
    if end > deadline {
        faults.push(OrderFault::DecayEndsAfterDeadline { end, deadline });
    }
}

fn exclusivity_faults(filler: Address, end: U256, deadline: U256, faults: &mut Vec<OrderFault>) {
    if filler != Address::ZERO && end >= deadline {
        faults.push(OrderFault::ExclusiveToTheEnd { filler });
    }
}

fn curve_fault(curve: &NonlinearDutchDecay) -> Option<OrderFault> {
    let count = curve.relativeAmounts.len();
    if count > MAX_POINTS {
        return Some(OrderFault::Curve);
    }
    let points = points(curve);
    let rising = points.iter().try_fold(0, |before, (block, _)| (*block > before).then_some(*block)).is_some();
    let unused_blocks = count < MAX_POINTS && !(curve.relativeBlocks >> (16 * count)).is_zero();
    if !rising || unused_blocks {
        return Some(OrderFault::Curve);
    }
    points.iter().any(|(_, amount)| *amount == I256::MIN).then_some(OrderFault::TooLarge)
}
