//! What is wrong with an order, before anybody signs it and after the cosigner added to it; and what it can cost.
//!
//! Every fault is reported, not only the first. Not here: policy (see `safety`) and what only a chain knows.

use alloy::primitives::{Address, I256, U256};

use super::decay::{MAX_POINTS, points};
use super::resolve::Amount;
use super::{Order, Revert};
use bardo_abi::uniswapx::NonlinearDutchDecay;

/// What an order is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// The chain it is for.
    pub chain_id: u64,
    /// The time, in seconds since the Unix epoch.
    pub now: u64,
    /// The reactor of its kind on that chain.
    pub reactor: Address,
    /// Who signs.
    pub swapper: Address,
    /// Who must receive everything.
    pub recipient: Address,
    /// The order service's cosigner.
    pub cosigner: Address,
}

/// One thing that is wrong with an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not the reactor of this kind on this chain.
    #[error("the order names reactor {found}, but orders of this kind are settled by {expected}")]
    Reactor {
        /// In the order.
        found: Address,
        /// Right.
        expected: Address,
    },
    /// Somebody else's order.
    #[error("the order belongs to {found}, but {expected} would sign it")]
    Swapper {
        /// In the order.
        found: Address,
        /// Right.
        expected: Address,
    },
    /// It has ended.
    #[error("the deadline {deadline} is not in the future: the time is {now}")]
    DeadlinePassed {
        /// In the order.
        deadline: U256,
        /// The time.
        now: u64,
    },
    /// Its own check, which could refuse every filler but one.
    #[error("the order lets contract {0} decide who may fill it: remove the validation contract")]
    ValidationContract(Address),
    /// Data for a check that is not there.
    #[error("the order has validation data without a validation contract: remove it")]
    ValidationData,
    /// Nobody, or somebody unknown, cosigns.
    #[error("the order names cosigner {found}, but the order service's cosigner is {expected}")]
    Cosigner {
        /// In the order.
        found: Address,
        /// Right.
        expected: Address,
    },
    /// It pays nothing.
    #[error("the order has no output: set what must be received")]
    NoOutput,
    /// Somebody else receives.
    #[error("output {index} goes to {found}, but everything must go to {expected}")]
    Recipient {
        /// Which output, from zero.
        index: usize,
        /// In the order.
        found: Address,
        /// Right.
        expected: Address,
    },
    /// Paid and received are the same.
    #[error("output {index} is in the input token")]
    SameToken {
        /// Which output, from zero.
        index: usize,
    },
    /// The input can be nothing.
    #[error("the input is zero: set the amount to pay")]
    ZeroInput,
    /// An output can be nothing.
    #[error("output {index} can become zero: set the minimum that is accepted")]
    ZeroOutput {
        /// Which output, from zero.
        index: usize,
    },
    /// The input falls.
    #[error("the input starts above its end: it may only rise")]
    InputFalls,
    /// An output rises.
    #[error("output {index} starts below its end: it may only fall")]
    OutputRises {
        /// Which output, from zero.
        index: usize,
    },
    /// Input and outputs both move.
    #[error("input and outputs both move: one side must be fixed")]
    BothMove,
    /// The decay ends before, or when, it starts.
    #[error("the decay ends at {end}, which is not after its start at {start}")]
    DecayEndsBeforeStart {
        /// When it starts.
        start: U256,
        /// When it ends.
        end: U256,
    },
    /// The decay goes on after the order has ended; the reactor refuses that.
    #[error("the decay ends at {end}, after the deadline {deadline}: end it at the deadline or before")]
    DecayEndsAfterDeadline {
        /// When it ends.
        end: U256,
        /// The deadline.
        deadline: U256,
    },
    /// A curve that cannot be read in one way.
    #[error("a decay curve must have at most 16 points at increasing distances of at least one block")]
    Curve,
    /// An amount past what can be counted.
    #[error("an amount is too large for a decay curve (2^255 or more)")]
    TooLarge,
    /// Not one override for each output.
    #[error("the cosigner gave {given} output amounts for {outputs} outputs: one is needed for each, zero to keep it")]
    OverrideCount {
        /// How many there are.
        given: usize,
        /// How many there must be.
        outputs: usize,
    },
    /// The cosigner takes more.
    #[error("the cosigner's input {given} is above the order's start {start}")]
    InputOverride {
        /// The cosigner's.
        given: U256,
        /// The order's.
        start: U256,
    },
    /// The cosigner pays less.
    #[error("the cosigner's amount {given} for output {index} is below the order's start {start}")]
    OutputOverride {
        /// Which output, from zero.
        index: usize,
        /// The cosigner's.
        given: U256,
        /// The order's.
        start: U256,
    },
    /// One filler alone, until the end.
    #[error("only {filler} could ever fill the order: exclusivity must end before the deadline")]
    ExclusiveToTheEnd {
        /// Who.
        filler: Address,
    },
    /// The cosignature does not hold.
    #[error("the cosignature is not by {cosigner} over this order and these amounts")]
    Cosignature {
        /// Who should have signed.
        cosigner: Address,
    },
}

/// What an order can cost and must bring, whatever the moment, the cosigner and the filler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The token paid.
    pub token_in: Address,
    /// The most of it.
    pub most_in: U256,
    /// The least of each output.
    pub least_out: Vec<Amount>,
}

/// One output, as far as all kinds have it.
struct Side {
    token: Address,
    start: U256,
    least: U256,
    recipient: Address,
}

impl Order {
    /// What is wrong with the part that the swapper signs.
    pub fn faults(&self, expected: &Expectation) -> Vec<Fault> {
        let mut faults = Vec::new();
        let info = self.info();
        if info.reactor != expected.reactor {
            faults.push(Fault::Reactor { found: info.reactor, expected: expected.reactor });
        }
        if info.swapper != expected.swapper {
            faults.push(Fault::Swapper { found: info.swapper, expected: expected.swapper });
        }
        if info.deadline <= U256::from(expected.now) {
            faults.push(Fault::DeadlinePassed { deadline: info.deadline, now: expected.now });
        }
        if info.additionalValidationContract != Address::ZERO {
            faults.push(Fault::ValidationContract(info.additionalValidationContract));
        } else if !info.additionalValidationData.is_empty() {
            faults.push(Fault::ValidationData);
        }
        if let Some(found) = self.cosigner().filter(|found| *found != expected.cosigner) {
            faults.push(Fault::Cosigner { found, expected: expected.cosigner });
        }
        self.amount_faults(expected, &mut faults);
        self.auction_faults(&mut faults);
        faults
    }

    fn amount_faults(&self, expected: &Expectation, faults: &mut Vec<Fault>) {
        let (start_in, most_in) = self.input();
        if most_in.is_zero() || start_in.is_zero() {
            faults.push(Fault::ZeroInput);
        }
        if start_in > most_in {
            faults.push(Fault::InputFalls);
        }
        let sides = self.sides();
        if sides.is_empty() {
            faults.push(Fault::NoOutput);
        }
        for (index, side) in sides.iter().enumerate() {
            if side.recipient != expected.recipient {
                faults.push(Fault::Recipient { index, found: side.recipient, expected: expected.recipient });
            }
            if side.token == self.token_in() {
                faults.push(Fault::SameToken { index });
            }
            if side.least.is_zero() {
                faults.push(Fault::ZeroOutput { index });
            }
            if side.start < side.least {
                faults.push(Fault::OutputRises { index });
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
            faults.push(Fault::BothMove);
        }
    }

    fn auction_faults(&self, faults: &mut Vec<Fault>) {
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

    /// What is wrong with what the cosigner added, its signature included.
    pub fn cosigner_faults(&self, chain_id: u64) -> Vec<Fault> {
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
                // Until the cosigner's block matters nothing of it is read, so an order without one is sound.
                let unsigned = order.cosignature.is_empty() && order.cosignerData.auctionTargetBlock.is_zero();
                if unsigned {
                    return faults;
                }
            }
        }
        if let (Some(cosigner), Err(Revert::InvalidCosignature)) = (self.cosigner(), self.check_cosignature(chain_id)) {
            faults.push(Fault::Cosignature { cosigner });
        }
        faults
    }

    fn override_faults(&self, input: U256, outputs: &[U256], faults: &mut Vec<Fault>) {
        let start = self.input().0;
        if input > start {
            faults.push(Fault::InputOverride { given: input, start });
        }
        let sides = self.sides();
        if outputs.len() != sides.len() {
            faults.push(Fault::OverrideCount { given: outputs.len(), outputs: sides.len() });
        }
        for (index, (given, side)) in outputs.iter().zip(&sides).enumerate() {
            if !given.is_zero() && *given < side.start {
                faults.push(Fault::OutputOverride { index, given: *given, start: side.start });
            }
        }
    }

    /// What the order can cost at most and must bring at least.
    pub fn bounds(&self) -> Bounds {
        let least = |side: Side| Amount { token: side.token, amount: side.least, recipient: side.recipient };
        Bounds {
            token_in: self.token_in(),
            most_in: self.most_in(),
            least_out: self.sides().into_iter().map(least).collect(),
        }
    }

    /// The input at first and at most.
    fn input(&self) -> (U256, U256) {
        match self {
            Self::Dutch(order) => (order.input.startAmount, order.input.endAmount),
            Self::DutchV2(order) => (order.baseInput.startAmount, order.baseInput.endAmount),
            Self::DutchV3(order) => (order.baseInput.startAmount, order.baseInput.maxAmount),
            Self::Priority(order) => (order.input.amount, order.input.amount),
        }
    }

    fn sides(&self) -> Vec<Side> {
        let dutch = |output: &bardo_abi::uniswapx::DutchOutput| Side {
            token: output.token,
            start: output.startAmount,
            least: output.endAmount,
            recipient: output.recipient,
        };
        match self {
            Self::Dutch(order) => order.outputs.iter().map(dutch).collect(),
            Self::DutchV2(order) => order.baseOutputs.iter().map(dutch).collect(),
            Self::DutchV3(order) => {
                let side = |output: &bardo_abi::uniswapx::V3DutchOutput| Side {
                    token: output.token,
                    start: output.startAmount,
                    least: output.minAmount,
                    recipient: output.recipient,
                };
                order.baseOutputs.iter().map(side).collect()
            }
            Self::Priority(order) => {
                let side = |output: &bardo_abi::uniswapx::PriorityOutput| Side {
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

fn times_faults(start: U256, end: U256, deadline: U256, faults: &mut Vec<Fault>) {
    if end <= start {
        faults.push(Fault::DecayEndsBeforeStart { start, end });
    }
    if end > deadline {
        faults.push(Fault::DecayEndsAfterDeadline { end, deadline });
    }
}

fn exclusivity_faults(filler: Address, end: U256, deadline: U256, faults: &mut Vec<Fault>) {
    if filler != Address::ZERO && end >= deadline {
        faults.push(Fault::ExclusiveToTheEnd { filler });
    }
}

fn curve_fault(curve: &NonlinearDutchDecay) -> Option<Fault> {
    let count = curve.relativeAmounts.len();
    if count > MAX_POINTS {
        return Some(Fault::Curve);
    }
    let points = points(curve);
    let rising = points.iter().try_fold(0, |before, (block, _)| (*block > before).then_some(*block)).is_some();
    let unused_blocks = count < MAX_POINTS && !(curve.relativeBlocks >> (16 * count)).is_zero();
    if !rising || unused_blocks {
        return Some(Fault::Curve);
    }
    points.iter().any(|(_, amount)| *amount == I256::MIN).then_some(Fault::TooLarge)
}
