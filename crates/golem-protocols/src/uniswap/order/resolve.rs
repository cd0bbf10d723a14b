//! An order at one moment: what it takes and pays, or why the reactor would refuse it.
//!
//! The checks stand in the reactors' order, so that the first one to fail is the one the chain names. What only the
//! chain knows (balances, used nonces, the answer of a validation contract, protocol fees) is not looked at.

use alloy::primitives::{Address, I256, U256};

use super::Order;
use super::decay::{Side, between_times, bounded_sub, mul_div_down, mul_div_up, on_curve};
use bardo_abi::uniswapx::{
    DutchInput, DutchOutput, EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder,
    EncodedV3DutchOrder, V3DutchInput,
};

/// Ten thousand basis points are the whole.
const BPS: U256 = U256::from_limbs([10_000, 0, 0, 0]);
/// Priority orders scale by ten-millionths.
const MPS: U256 = U256::from_limbs([10_000_000, 0, 0, 0]);
/// One gwei.
const GWEI: U256 = U256::from_limbs([1_000_000_000, 0, 0, 0]);

/// A moment and who fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// The chain's id.
    pub chain_id: u64,
    /// The block's time, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// The block's number. On Arbitrum that of the second layer (`ArbSys.arbBlockNumber`), as the reactor reads it.
    pub block: u64,
    /// The block's base fee, in wei per gas.
    pub base_fee: u128,
    /// What the filling transaction pays above the base fee, in wei per gas.
    pub priority_fee: u128,
    /// Who calls the reactor.
    pub filler: Address,
}

/// A token, how much of it, and who gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// The token; zero is the native coin.
    pub token: Address,
    /// Raw units.
    pub amount: U256,
    /// Who gets it.
    pub recipient: Address,
}

/// What an order takes and pays at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The token taken from the swapper.
    pub token_in: Address,
    /// How much of it, in raw units.
    pub amount_in: U256,
    /// The most the swapper's signature permits.
    pub most_in: U256,
    /// What is paid, in the order's order.
    pub outputs: Vec<Amount>,
}

/// Why a reactor refuses an order. The variants are named after its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Revert {
    /// V2 Dutch and Dutch: the decay would go on after the order has ended.
    #[error("the decay ends after the deadline: end it at the deadline or before")]
    DeadlineBeforeEndTime,
    /// The decay ends before it starts.
    #[error("the decay ends before it starts")]
    EndTimeBeforeStartTime,
    /// An input that falls or an output that rises.
    #[error("an amount moves the wrong way: an input may only rise and an output only fall")]
    IncorrectAmounts,
    /// Dutch: both sides move.
    #[error("input and outputs both decay: only one side may")]
    InputAndOutputDecay,
    /// V3 Dutch: more points than there is room for, or points in no order.
    #[error("the decay curve has more than 16 points")]
    InvalidDecayCurve,
    /// The cosignature is not the named cosigner's over these additions.
    #[error("the cosignature is not by the order's cosigner over this order")]
    InvalidCosignature,
    /// The cosigner asks for more input than the swapper offered.
    #[error("the cosigner's input is larger than the order's")]
    InvalidCosignerInput,
    /// The cosigner offers less output than the swapper asked for, or not one amount for each output.
    #[error("the cosigner's outputs are smaller or fewer than the order's")]
    InvalidCosignerOutput,
    /// Another filler has the sole right for now.
    #[error("the order is exclusive to another filler until the decay starts")]
    NoExclusiveOverride,
    /// Dutch and V2 Dutch: the order has ended; it is Permit2 that says so.
    #[error("the order's deadline has passed")]
    SignatureExpired,
    /// V3 Dutch: the order has ended.
    #[error("the order's deadline has passed")]
    DeadlineReached,
    /// Priority: the order has ended.
    #[error("the order's deadline has passed")]
    InvalidDeadline,
    /// Priority: the auction has not begun.
    #[error("the order cannot be filled before its auction's block")]
    OrderNotFillable,
    /// Priority: both sides scale.
    #[error("input and outputs both scale with the priority fee: only one side may")]
    InputOutputScaling,
    /// A number past 256 bits, on which the reactor reverts without a name.
    #[error("an amount does not fit 256 bits")]
    Overflow,
}

impl Order {
    /// What the order takes and pays at `at`.
    ///
    /// # Errors
    /// [`Revert`] where the reactor would refuse it.
    pub fn resolve(&self, at: &At) -> Result<Resolved, Revert> {
        let now = U256::from(at.timestamp);
        let resolved = match self {
            Self::Dutch(order) => dutch(order, at, now),
            Self::DutchV2(order) => {
                if order.info.deadline < order.cosignerData.decayEndTime {
                    return Err(Revert::DeadlineBeforeEndTime);
                }
                self.check_cosignature(at.chain_id)?;
                dutch_v2(order, at, now)
            }
            Self::DutchV3(order) => {
                if order.info.deadline < now {
                    return Err(Revert::DeadlineReached);
                }
                self.check_cosignature(at.chain_id)?;
                dutch_v3(order, at)
            }
            Self::Priority(order) => {
                if order.info.deadline < now {
                    return Err(Revert::InvalidDeadline);
                }
                self.check_auction(order, at)?;
                priority(order, at)
            }
        }?;
        if self.info().deadline < now { Err(Revert::SignatureExpired) } else { Ok(resolved) }
    }

    /// From the cosigner's block if it is earlier and signed, from the order's own in any case.
    fn check_auction(&self, order: &EncodedPriorityOrder, at: &At) -> Result<(), Revert> {
        let block = U256::from(at.block);
        let mut opens = order.auctionStartBlock;
        let target = order.cosignerData.auctionTargetBlock;
        if order.cosigner != Address::ZERO && block < opens && target < opens {
            self.check_cosignature(at.chain_id)?;
            opens = target;
        }
        if block < opens {
            return Err(Revert::OrderNotFillable);
        }
        let outputs_scale = order.outputs.iter().any(|output| !output.mpsPerPriorityFeeWei.is_zero());
        if !order.input.mpsPerPriorityFeeWei.is_zero() && outputs_scale {
            return Err(Revert::InputOutputScaling);
        }
        Ok(())
    }
}

fn dutch(order: &EncodedExclusiveDutchOrder, at: &At, now: U256) -> Result<Resolved, Revert> {
    let (from, until) = (order.decayStartTime, order.decayEndTime);
    if order.info.deadline < until {
        return Err(Revert::DeadlineBeforeEndTime);
    }
    if until < from {
        return Err(Revert::EndTimeBeforeStartTime);
    }
    let outputs_decay = order.outputs.iter().any(|output| output.startAmount != output.endAmount);
    if order.input.startAmount != order.input.endAmount && outputs_decay {
        return Err(Revert::InputAndOutputDecay);
    }
    let resolved = over_time(&order.input, &order.outputs, (from, until), now)?;
    // The V1 reactor's `ExclusivityOverrideLib` rounds down where the later `ExclusivityLib` rounds up.
    let (filler, bps) = (order.exclusiveFiller, order.exclusivityOverrideBps);
    resolved.with_exclusivity((at.filler, filler), from, bps, now, mul_div_down)
}

fn dutch_v2(order: &EncodedV2DutchOrder, at: &At, now: U256) -> Result<Resolved, Revert> {
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

/// Both sides at `now`, moving between two times.
fn over_time(
    input: &DutchInput,
    outputs: &[DutchOutput],
    (from, until): (U256, U256),
    now: U256,
) -> Result<Resolved, Revert> {
    if input.startAmount > input.endAmount {
        return Err(Revert::IncorrectAmounts);
    }
    let amount_in = between_times(input.startAmount, input.endAmount, from, until, now)?;
    let paid = outputs.iter().map(|output| {
        if output.startAmount < output.endAmount {
            return Err(Revert::IncorrectAmounts);
        }
        let amount = between_times(output.startAmount, output.endAmount, from, until, now)?;
        Ok(Amount { token: output.token, amount, recipient: output.recipient })
    });
    let outputs = paid.collect::<Result<_, _>>()?;
    Ok(Resolved { token_in: input.token, amount_in, most_in: input.endAmount, outputs })
}

fn dutch_v3(order: &EncodedV3DutchOrder, at: &At) -> Result<Resolved, Revert> {
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
    let amount_in = on_curve(&input.curve, Side::Input, input.startAmount, start, block, bounds)?;
    let paid = outputs.iter().map(|output| {
        let bounds = (output.minAmount, U256::MAX);
        let amount = on_curve(&output.curve, Side::Output, output.startAmount, start, block, bounds)?;
        Ok(Amount { token: output.token, amount, recipient: output.recipient })
    });
    let outputs = paid.collect::<Result<_, _>>()?;
    let resolved = Resolved { token_in: input.token, amount_in, most_in: input.maxAmount, outputs };
    let fillers = (at.filler, added.exclusiveFiller);
    resolved.with_exclusivity(fillers, start, added.exclusivityOverrideBps, block, mul_div_up)
}

/// By how much the base fee differs from the one the swapper reckoned with.
struct BaseFeeRise {
    fell: bool,
    wei: U256,
}

impl BaseFeeRise {
    fn new(base_fee: U256, starting: U256) -> Result<Self, Revert> {
        let wei = base_fee.abs_diff(starting);
        I256::try_from(wei).map_err(|_| Revert::Overflow)?;
        Ok(Self { fell: base_fee < starting, wei })
    }

    /// What the difference is worth: rounded down where dearer gas costs the swapper, up where cheaper gas pays it.
    fn delta(&self, per_gwei: U256) -> Result<I256, Revert> {
        let size =
            if self.fell { mul_div_up(per_gwei, self.wei, GWEI)? } else { mul_div_down(per_gwei, self.wei, GWEI)? };
        let size = I256::try_from(size).map_err(|_| Revert::Overflow)?;
        Ok(if self.fell { -size } else { size })
    }

    fn input(&self, input: &V3DutchInput) -> Result<U256, Revert> {
        if input.adjustmentPerGweiBaseFee.is_zero() {
            return Ok(input.startAmount);
        }
        let added = self.delta(input.adjustmentPerGweiBaseFee)?;
        bounded_sub(input.startAmount, -added, U256::ZERO, input.maxAmount)
    }
}

fn priority(order: &EncodedPriorityOrder, at: &At) -> Result<Resolved, Revert> {
    let fee = U256::from(at.priority_fee).saturating_sub(order.baselinePriorityFeeWei);
    let scale = |per_wei: U256| fee.checked_mul(per_wei).ok_or(Revert::Overflow);
    let off = scale(order.input.mpsPerPriorityFeeWei)?;
    let amount_in = if off >= MPS { U256::ZERO } else { mul_div_down(order.input.amount, MPS - off, MPS)? };
    let paid = order.outputs.iter().map(|output| {
        let factor = MPS.checked_add(scale(output.mpsPerPriorityFeeWei)?).ok_or(Revert::Overflow)?;
        let amount = mul_div_up(output.amount, factor, MPS)?;
        Ok(Amount { token: output.token, amount, recipient: output.recipient })
    });
    let outputs = paid.collect::<Result<_, _>>()?;
    Ok(Resolved { token_in: order.input.token, amount_in, most_in: order.input.amount, outputs })
}

/// The start of an input after the cosigner's word: zero changes nothing, more than the order's is refused.
fn overridden_input(start: U256, given: U256) -> Result<U256, Revert> {
    if given.is_zero() {
        Ok(start)
    } else if given > start {
        Err(Revert::InvalidCosignerInput)
    } else {
        Ok(given)
    }
}

/// The starts of the outputs after the cosigner's word: one for each, zero changes nothing, less is refused.
fn override_outputs(starts: Vec<&mut U256>, given: &[U256]) -> Result<(), Revert> {
    if starts.len() != given.len() {
        return Err(Revert::InvalidCosignerOutput);
    }
    for (start, given) in starts.into_iter().zip(given) {
        if !given.is_zero() {
            if given < start {
                return Err(Revert::InvalidCosignerOutput);
            }
            *start = *given;
        }
    }
    Ok(())
}

impl Resolved {
    /// Up to and with `end`, anybody but the exclusive filler pays more, or nothing at all if the order says zero.
    fn with_exclusivity(
        mut self,
        (filler, exclusive): (Address, Address),
        end: U256,
        override_bps: U256,
        now: U256,
        scale: fn(U256, U256, U256) -> Result<U256, Revert>,
    ) -> Result<Self, Revert> {
        if exclusive == Address::ZERO || now > end || exclusive == filler {
            return Ok(self);
        }
        if override_bps.is_zero() {
            return Err(Revert::NoExclusiveOverride);
        }
        let factor = BPS.checked_add(override_bps).ok_or(Revert::Overflow)?;
        for output in &mut self.outputs {
            output.amount = scale(output.amount, factor, BPS)?;
        }
        Ok(self)
    }
}
