//! Resolution of an order at one moment: its input and outputs, or the reason why the reactor reverts.
//!
//! The checks follow the reactors' order, so the first failure is the one that the chain reports. State known only on
//! chain is not considered: balances, used nonces, validation contracts and protocol fees.

use alloy::primitives::{Address, I256, U256};

use super::UniswapXOrder;
use super::decay::{AmountSide, between_times, bounded_sub, mul_div_down, mul_div_up, on_curve};
use bardo_abi::uniswapx::{
    DutchInput, DutchOutput, EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder,
    EncodedV3DutchOrder, V3DutchInput,
};

/// One hundred percent, in basis points.
const BPS: U256 = U256::from_limbs([10_000, 0, 0, 0]);
/// One hundred percent, in the ten-millionths of priority orders.
const MPS: U256 = U256::from_limbs([10_000_000, 0, 0, 0]);
/// One gwei, in wei.
const GWEI: U256 = U256::from_limbs([1_000_000_000, 0, 0, 0]);

/// Moment and filler of a resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolutionPoint {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Block timestamp, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// Block number. On Arbitrum the L2 block number (`ArbSys.arbBlockNumber`), as the reactor reads it.
    pub block: u64,
    /// Base fee of the block, in wei per gas.
    pub base_fee: u128,
    /// Priority fee of the fill transaction, in wei per gas.
    pub priority_fee: u128,
    /// Account that calls the reactor.
    pub filler: Address,
}

/// Output of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputAmount {
    /// Token; the zero address is the native token.
    pub token: Address,
    /// Amount in raw units.
    pub amount: U256,
    /// Recipient of the output.
    pub recipient: Address,
}

/// Input and outputs of an order at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAmounts {
    /// Token taken from the swapper.
    pub token_in: Address,
    /// Input amount, in raw units.
    pub amount_in: U256,
    /// Maximum input that the swapper's signature permits, in raw units.
    pub most_in: U256,
    /// Outputs, in the sequence of the order.
    pub outputs: Vec<OutputAmount>,
}

/// Revert reason of a reactor. The variants are named after the contracts' errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReactorRevert {
    /// V2 Dutch and Dutch: the decay ends after the order's deadline.
    #[error("the decay ends after the deadline: end it at the deadline or before")]
    DeadlineBeforeEndTime,
    /// The decay ends before it starts.
    #[error("the decay ends before it starts")]
    EndTimeBeforeStartTime,
    /// An input falls or an output rises.
    #[error("an amount moves the wrong way: an input may only rise and an output only fall")]
    IncorrectAmounts,
    /// Dutch: input and outputs both decay.
    #[error("input and outputs both decay: only one side may")]
    InputAndOutputDecay,
    /// V3 Dutch: the curve has more than 16 points.
    #[error("the decay curve has more than 16 points")]
    InvalidDecayCurve,
    /// The cosignature is not the cosigner's signature of this data.
    #[error("the cosignature is not by the order's cosigner over this order")]
    InvalidCosignature,
    /// The cosigner's input exceeds the order's.
    #[error("the cosigner's input is larger than the order's")]
    InvalidCosignerInput,
    /// The cosigner's outputs are below the order's, or their number differs.
    #[error("the cosigner's outputs are smaller or fewer than the order's")]
    InvalidCosignerOutput,
    /// Another filler has exclusivity at this moment.
    #[error("the order is exclusive to another filler until the decay starts")]
    NoExclusiveOverride,
    /// Dutch and V2 Dutch: the deadline has passed, as Permit2 reports it.
    #[error("the order's deadline has passed")]
    SignatureExpired,
    /// V3 Dutch: the deadline has passed.
    #[error("the order's deadline has passed")]
    DeadlineReached,
    /// Priority: the deadline has passed.
    #[error("the order's deadline has passed")]
    InvalidDeadline,
    /// Priority: the auction has not started.
    #[error("the order cannot be filled before its auction's block")]
    OrderNotFillable,
    /// Priority: input and outputs both scale.
    #[error("input and outputs both scale with the priority fee: only one side may")]
    InputOutputScaling,
    /// Number beyond 256 bits, on which the reactor reverts without a reason.
    #[error("an amount does not fit 256 bits")]
    Overflow,
}

impl UniswapXOrder {
    /// Resolves the order at `at`.
    ///
    /// # Errors
    /// Returns the [`ReactorRevert`] of the reactor.
    pub fn resolve(&self, at: &ResolutionPoint) -> Result<ResolvedAmounts, ReactorRevert> {
        let now = U256::from(at.timestamp);
        let resolved = match self {
            Self::Dutch(order) => dutch(order, at, now),
            Self::DutchV2(order) => {
                if order.info.deadline < order.cosignerData.decayEndTime {
                    return Err(ReactorRevert::DeadlineBeforeEndTime);
                }
                self.check_cosignature(at.chain_id)?;
                dutch_v2(order, at, now)
            }
            Self::DutchV3(order) => {
                if order.info.deadline < now {
                    return Err(ReactorRevert::DeadlineReached);
                }
                self.check_cosignature(at.chain_id)?;
                dutch_v3(order, at)
            }
            Self::Priority(order) => {
                if order.info.deadline < now {
                    return Err(ReactorRevert::InvalidDeadline);
                }
                self.check_auction(order, at)?;
                priority(order, at)
            }
        }?;
        if self.info().deadline < now { Err(ReactorRevert::SignatureExpired) } else { Ok(resolved) }
    }

    /// Checks the auction's start: the cosigner's block if it is earlier and signed, otherwise the order's own block.
    fn check_auction(&self, order: &EncodedPriorityOrder, at: &ResolutionPoint) -> Result<(), ReactorRevert> {
        let block = U256::from(at.block);
        let mut opens = order.auctionStartBlock;
        let target = order.cosignerData.auctionTargetBlock;
        if order.cosigner != Address::ZERO && block < opens && target < opens {
            self.check_cosignature(at.chain_id)?;
            opens = target;
        }
        if block < opens {
            return Err(ReactorRevert::OrderNotFillable);
        }
        let outputs_scale = order.outputs.iter().any(|output| !output.mpsPerPriorityFeeWei.is_zero());
        if !order.input.mpsPerPriorityFeeWei.is_zero() && outputs_scale {
            return Err(ReactorRevert::InputOutputScaling);
        }
        Ok(())
    }
}

fn dutch(
    order: &EncodedExclusiveDutchOrder,
    at: &ResolutionPoint,
    now: U256,
) -> Result<ResolvedAmounts, ReactorRevert> {
    let (from, until) = (order.decayStartTime, order.decayEndTime);
    if order.info.deadline < until {
        return Err(ReactorRevert::DeadlineBeforeEndTime);
    }
    if until < from {
        return Err(ReactorRevert::EndTimeBeforeStartTime);
    }
    let outputs_decay = order.outputs.iter().any(|output| output.startAmount != output.endAmount);
    if order.input.startAmount != order.input.endAmount && outputs_decay {
        return Err(ReactorRevert::InputAndOutputDecay);
    }
    let resolved = over_time(&order.input, &order.outputs, (from, until), now)?;
    // The V1 reactor's `ExclusivityOverrideLib` rounds down, while the later `ExclusivityLib` rounds up.
    let (filler, bps) = (order.exclusiveFiller, order.exclusivityOverrideBps);
    resolved.with_exclusivity((at.filler, filler), from, bps, now, mul_div_down)
}

fn dutch_v2(order: &EncodedV2DutchOrder, at: &ResolutionPoint, now: U256) -> Result<ResolvedAmounts, ReactorRevert> {
    let added = &order.cosignerData;
    let mut input = order.baseInput.clone();
    input.startAmount = overridden_input(input.startAmount, added.inputAmount)?;
    let mut outputs = order.baseOutputs.clone();
    let starts = outputs.iter_mut().map(|output| &mut output.startAmount).collect();
    override_outputs(starts, &added.outputAmounts)?;
    let resolved = over_time(&input, &outputs, (added.decayStartTime, added.decayEndTime), now)?;
    let (filler, bps) = (added.exclusiveFiller, added.exclusivityOverrideBps);
    resolved.with_exclusivity((at.filler, filler), added.decayStartTime, bps, now, mul_div_up)
}

/// Resolves input and outputs that decay between two times.
fn over_time(
    input: &DutchInput,
    outputs: &[DutchOutput],
    (from, until): (U256, U256),
    now: U256,
) -> Result<ResolvedAmounts, ReactorRevert> {
    if input.startAmount > input.endAmount {
        return Err(ReactorRevert::IncorrectAmounts);
    }
    let amount_in = between_times(input.startAmount, input.endAmount, from, until, now)?;
    let paid = outputs.iter().map(|output| {
        if output.startAmount < output.endAmount {
            return Err(ReactorRevert::IncorrectAmounts);
        }
        let amount = between_times(output.startAmount, output.endAmount, from, until, now)?;
        Ok(OutputAmount { token: output.token, amount, recipient: output.recipient })
    });
    let outputs = paid.collect::<Result<_, _>>()?;
    Ok(ResolvedAmounts { token_in: input.token, amount_in, most_in: input.endAmount, outputs })
}

fn dutch_v3(order: &EncodedV3DutchOrder, at: &ResolutionPoint) -> Result<ResolvedAmounts, ReactorRevert> {
    let added = &order.cosignerData;
    let mut input = order.baseInput.clone();
    input.startAmount = overridden_input(input.startAmount, added.inputAmount)?;
    let mut outputs = order.baseOutputs.clone();
    let starts = outputs.iter_mut().map(|output| &mut output.startAmount).collect();
    override_outputs(starts, &added.outputAmounts)?;

    let rise = BaseFeeRise::new(U256::from(at.base_fee), order.startingBaseFee)?;
    input.startAmount = rise.input(&input)?;
    for output in &mut outputs {
        if !output.adjustmentPerGweiBaseFee.is_zero() {
            let taken = rise.delta(output.adjustmentPerGweiBaseFee)?;
            output.startAmount = bounded_sub(output.startAmount, taken, output.minAmount, U256::MAX)?;
        }
    }

    let (start, block) = (added.decayStartBlock, U256::from(at.block));
    let bounds = (U256::ZERO, input.maxAmount);
    let amount_in = on_curve(&input.curve, AmountSide::Input, input.startAmount, start, block, bounds)?;
    let paid = outputs.iter().map(|output| {
        let bounds = (output.minAmount, U256::MAX);
        let amount = on_curve(&output.curve, AmountSide::Output, output.startAmount, start, block, bounds)?;
        Ok(OutputAmount { token: output.token, amount, recipient: output.recipient })
    });
    let outputs = paid.collect::<Result<_, _>>()?;
    let resolved = ResolvedAmounts { token_in: input.token, amount_in, most_in: input.maxAmount, outputs };
    let fillers = (at.filler, added.exclusiveFiller);
    resolved.with_exclusivity(fillers, start, added.exclusivityOverrideBps, block, mul_div_up)
}

/// Difference of the base fee from the one that the swapper assumed.
struct BaseFeeRise {
    fell: bool,
    wei: U256,
}

impl BaseFeeRise {
    fn new(base_fee: U256, starting: U256) -> Result<Self, ReactorRevert> {
        let wei = base_fee.abs_diff(starting);
        I256::try_from(wei).map_err(|_| ReactorRevert::Overflow)?;
        Ok(Self { fell: base_fee < starting, wei })
    }

    /// Returns the value of the difference: rounded down if the fee has risen, at the swapper's cost, and up if it has
    /// fallen.
    fn delta(&self, per_gwei: U256) -> Result<I256, ReactorRevert> {
        let size =
            if self.fell { mul_div_up(per_gwei, self.wei, GWEI)? } else { mul_div_down(per_gwei, self.wei, GWEI)? };
        let size = I256::try_from(size).map_err(|_| ReactorRevert::Overflow)?;
        Ok(if self.fell { -size } else { size })
    }

    fn input(&self, input: &V3DutchInput) -> Result<U256, ReactorRevert> {
        if input.adjustmentPerGweiBaseFee.is_zero() {
            return Ok(input.startAmount);
        }
        let added = self.delta(input.adjustmentPerGweiBaseFee)?;
        bounded_sub(input.startAmount, -added, U256::ZERO, input.maxAmount)
    }
}

fn priority(order: &EncodedPriorityOrder, at: &ResolutionPoint) -> Result<ResolvedAmounts, ReactorRevert> {
    let fee = U256::from(at.priority_fee).saturating_sub(order.baselinePriorityFeeWei);
    let scale = |per_wei: U256| fee.checked_mul(per_wei).ok_or(ReactorRevert::Overflow);
    let off = scale(order.input.mpsPerPriorityFeeWei)?;
    let amount_in = if off >= MPS { U256::ZERO } else { mul_div_down(order.input.amount, MPS - off, MPS)? };
    let paid = order.outputs.iter().map(|output| {
        let factor = MPS.checked_add(scale(output.mpsPerPriorityFeeWei)?).ok_or(ReactorRevert::Overflow)?;
        let amount = mul_div_up(output.amount, factor, MPS)?;
        Ok(OutputAmount { token: output.token, amount, recipient: output.recipient })
    });
    let outputs = paid.collect::<Result<_, _>>()?;
    Ok(ResolvedAmounts { token_in: order.input.token, amount_in, most_in: order.input.amount, outputs })
}

/// Applies the cosigner's input: zero keeps the order's amount, a larger amount is rejected.
fn overridden_input(start: U256, given: U256) -> Result<U256, ReactorRevert> {
    if given.is_zero() {
        Ok(start)
    } else if given > start {
        Err(ReactorRevert::InvalidCosignerInput)
    } else {
        Ok(given)
    }
}

/// Applies the cosigner's outputs, one for each: zero keeps the order's amount, a smaller amount is rejected.
fn override_outputs(starts: Vec<&mut U256>, given: &[U256]) -> Result<(), ReactorRevert> {
    if starts.len() != given.len() {
        return Err(ReactorRevert::InvalidCosignerOutput);
    }
    for (start, given) in starts.into_iter().zip(given) {
        if !given.is_zero() {
            if given < start {
                return Err(ReactorRevert::InvalidCosignerOutput);
            }
            *start = *given;
        }
    }
    Ok(())
}

impl ResolvedAmounts {
    /// Applies exclusivity until `end`, inclusive: any filler but the exclusive one must pay the override on top, or
    /// cannot fill if the override is zero.
    fn with_exclusivity(
        mut self,
        (filler, exclusive): (Address, Address),
        end: U256,
        override_bps: U256,
        now: U256,
        scale: fn(U256, U256, U256) -> Result<U256, ReactorRevert>,
    ) -> Result<Self, ReactorRevert> {
        if exclusive == Address::ZERO || now > end || exclusive == filler {
            return Ok(self);
        }
        if override_bps.is_zero() {
            return Err(ReactorRevert::NoExclusiveOverride);
        }
        let factor = BPS.checked_add(override_bps).ok_or(ReactorRevert::Overflow)?;
        for output in &mut self.outputs {
            output.amount = scale(output.amount, factor, BPS)?;
        }
        Ok(self)
    }
}
