//! Simulations of a pool with its hook, compared with what the pool gives without.
//!
//! Everything runs on a fork, through a contract that exists there only ([`HookProbe`]): it swaps, or adds liquidity and removes it,
//! and reverts before anything must be paid. Each swap runs at three times, with and without paying for gas, since a hook that
//! shows one thing and does another must tell the two apart by something. The sender is another one for each block, so that no
//! hook can know it.
//!
//! What this cannot show: a hook that serves known senders otherwise, or that changes later.

use alloy::primitives::aliases::{I24, U160};
use alloy::primitives::{Address, B256, Bytes, I256, U256, U512, hex, keccak256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::code::{CodeTrait, HookCode};
use super::permission::permissions_of;
use super::report::{HookFinding, HookReport, verdict};
use crate::uniswap::discovery::HookedPool;
use crate::uniswap::pool::FixedAmount;
use crate::uniswap::v3::FEE_WHOLE;
use crate::uniswap::v3::position::TickRange;
use crate::uniswap::v3::tick_math::{MAX_SQRT_PRICE, MIN_SQRT_PRICE};
use crate::uniswap::v4::{DYNAMIC_FEE, V4Pool};
use bardo_abi::uniswap_v4::{HookProbe, ModifyLiquidityParams, SwapParams};
use bardo_base::text::SafeText;
use golem_chain::fork::{
    BalanceDelta, CallFees, ExecutionStatus, Fork, ForkCall, ForkError, NextBlock, RevertReason, SimulatedOutcome,
    SimulationOptions,
};

/// Creation code of the probe.
const PROBE: &str = include_str!("../../../../../assets/contracts/HookProbe.hex");

/// Gas limit of one trial: far more than a swap and any honest hook need.
const TRIAL_GAS: u64 = 5_000_000;

/// Parts of the pool's reserve that are swapped.
const SIZES: [u64; 3] = [1_000_000, 10_000, 100];

/// Part of the pool's liquidity that is added and removed.
const LIQUIDITY_PART: u128 = 1_000;

/// Least liquidity that is added: less could be nothing in both tokens.
const LEAST_LIQUIDITY: u128 = 1_000_000;

/// Distance of the tried range's ends from the price, in tick spacings.
const HALF_WIDTH: i32 = 10;

/// Seconds after the next block at which swaps are tried again.
const LATER: [u64; 2] = [12, 3_600];

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 160;

/// A swap that was simulated with the hook. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapTrial {
    /// True for selling currency 0.
    pub zero_for_one: bool,
    /// The fixed amount.
    pub exact: FixedAmount,
    /// The other amount without the hook: output of a fixed input, input of a fixed output.
    pub without_hook: U256,
    /// The other amount with the hook in each of the simulations, in the order next block, next block with gas paid for, and
    /// later; the reason where it fails.
    pub with_hook: Vec<Result<U256, SafeText>>,
}

impl SwapTrial {
    /// Part of the other amount that the hook costs, in millionths, rounded up; zero where it costs nothing.
    fn part(&self, with_hook: U256) -> u32 {
        match self.exact {
            FixedAmount::In(_) => part_of(self.without_hook.saturating_sub(with_hook), self.without_hook),
            FixedAmount::Out(_) => part_of(with_hook.saturating_sub(self.without_hook), self.without_hook),
        }
    }

    /// Returns true if the swap is better than the pool's price.
    fn is_better(&self, with_hook: U256) -> bool {
        match self.exact {
            FixedAmount::In(_) => with_hook > self.without_hook,
            FixedAmount::Out(_) => with_hook < self.without_hook,
        }
    }
}

/// Liquidity that was added and removed again in one simulation. Amounts of currency 0 and 1 in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiquidityTrial {
    /// Amounts that adding takes without the hook.
    pub takes_without: [U256; 2],
    /// Amounts that adding takes with the hook; the reason if it fails.
    pub takes: Result<[U256; 2], SafeText>,
    /// Amounts that removing pays without the hook.
    pub pays_without: [U256; 2],
    /// Amounts that removing pays with the hook; the reason if it fails, or if adding fails.
    pub pays: Result<[U256; 2], SafeText>,
}

/// Simulates the pool with its hook on `fork`, and compares. `code` is the hook's runtime code on the same block.
///
/// # Errors
/// [`ForkError`] if nothing can be simulated; then nothing is known about the hook.
pub async fn evaluate(fork: &Fork, pool: &HookedPool, code: &[u8]) -> Result<HookReport, ForkError> {
    let permissions = permissions_of(pool.key.hooks);
    let code = HookCode::read(code);
    let mut findings = Vec::new();
    let planned = match &pool.without_hook {
        Ok(without) => swaps(without),
        Err(error) => {
            findings.push(HookFinding::NoComparison { why: SafeText::clean(&error.to_string(), MAX_REASON) });
            Vec::new()
        }
    };
    let range = tried_range(pool);
    let bench = Bench::new(fork, pool);
    let now = fork.next_block().timestamp;
    let mut trials: Vec<SwapTrial> = planned;
    let mut liquidity = None;
    for (round, (timestamp, is_paid)) in rounds(now).into_iter().enumerate() {
        let moved = fork.in_block(NextBlock { timestamp: Some(timestamp), ..NextBlock::default() });
        let mut calls = bench.creation();
        let first = calls.len();
        calls.extend(trials.iter().map(|trial| bench.swap(trial.zero_for_one, trial.exact)));
        if round == 0
            && let Some((range, amount)) = range
        {
            calls.extend([false, true].map(|exit| bench.liquidity(range, amount, exit)));
        }
        let calls = bench.paying(calls, is_paid, &moved);
        let simulation = moved.simulate_with(&calls, &bench.options(is_paid)).await?;
        let mut outcomes = simulation.outcomes.into_iter().skip(first);
        for trial in &mut trials {
            let given = outcomes.next().map_or_else(|| Err(SafeText::default()), |one| bench.swapped(&one, trial));
            trial.with_hook.push(given);
        }
        if round == 0
            && let Some((range, amount)) = range
        {
            let (added, removed) = (outcomes.next(), outcomes.next());
            liquidity = added.zip(removed).and_then(|(added, removed)| {
                Some(LiquidityTrial {
                    takes_without: range.amounts(pool.sqrt_price_x96, amount, true).ok()?,
                    takes: changed(&added).map(|(taken, _)| taken.map(paid)),
                    pays_without: range.amounts(pool.sqrt_price_x96, amount, false).ok()?,
                    pays: changed(&removed).map(|(_, back)| back.map(received)),
                })
            });
        }
    }
    findings.extend(of_swaps(pool, &trials));
    findings.extend(liquidity.iter().flat_map(of_liquidity));
    if code.traits.iter().copied().any(CodeTrait::defies_simulation) {
        findings.push(HookFinding::DefiesSimulation);
    }
    let verdict = verdict(&pool.key, &permissions, &findings);
    Ok(HookReport { key: pool.key, permissions, code, swaps: trials, liquidity, findings, verdict })
}

/// Times of the simulations, in seconds since the Unix epoch, and whether gas is paid for.
fn rounds(now: u64) -> Vec<(u64, bool)> {
    let later = LATER.iter().map(|seconds| (now.saturating_add(*seconds), true));
    [(now, false), (now, true)].into_iter().chain(later).collect()
}

/// Swaps of several sizes in both directions with their results without the hook, and one with a fixed output.
fn swaps(without: &V4Pool) -> Vec<SwapTrial> {
    let mut planned = Vec::new();
    for zero_for_one in [true, false] {
        let (gives, takes) = (without.virtual_reserve(zero_for_one), without.virtual_reserve(!zero_for_one));
        let of = |reserve: U256, part: u64| reserve / U256::from(part);
        let inputs = SIZES.map(|part| FixedAmount::In(of(gives, part)));
        let output = FixedAmount::Out(of(takes, SIZES[1]));
        for exact in inputs.into_iter().chain([output]).filter(|exact| !exact.amount().is_zero()) {
            let Ok(quote) = without.quote(zero_for_one, exact) else { continue };
            let without_hook = match exact {
                FixedAmount::In(_) => quote.amount_out,
                FixedAmount::Out(_) => quote.amount_in,
            };
            planned.push(SwapTrial { zero_for_one, exact, without_hook, with_hook: Vec::new() });
        }
    }
    planned
}

/// Range around the price, and the liquidity to be added there.
fn tried_range(pool: &HookedPool) -> Option<(TickRange, u128)> {
    let spacing = pool.key.tickSpacing.as_i32();
    let width = spacing.checked_mul(HALF_WIDTH)?;
    let range = TickRange::outward(pool.tick.checked_sub(width)?, pool.tick.checked_add(width)?, spacing).ok()?;
    Some((range, (pool.liquidity / LIQUIDITY_PART).max(LEAST_LIQUIDITY)))
}

/// Calls of the probe for one pool.
struct Bench<'a> {
    pool: &'a HookedPool,
    /// Account that sends them, which nobody can have known.
    sender: Address,
}

impl<'a> Bench<'a> {
    fn new(fork: &Fork, pool: &'a HookedPool) -> Self {
        let seed: (B256, B256) = (fork.pinned().hash, crate::uniswap::v4::key_hash(&pool.key));
        Self { pool, sender: Address::from_word(keccak256(seed.abi_encode())) }
    }

    /// Creation of the probe, as the sender's first transaction.
    fn creation(&self) -> Vec<ForkCall> {
        // The bundled file is hexadecimal: a test reads it. Without code, every trial fails, and nothing is known.
        let code = hex::decode(PROBE.trim_end()).unwrap_or_default();
        vec![ForkCall::create(self.sender, code)]
    }

    fn probe(&self) -> Address {
        self.sender.create(0)
    }

    fn call(&self, data: Vec<u8>) -> ForkCall {
        ForkCall::new(self.sender, self.probe(), data).with_gas_limit(TRIAL_GAS)
    }

    fn swap(&self, zero_for_one: bool, exact: FixedAmount) -> ForkCall {
        let size = I256::try_from(exact.amount()).unwrap_or(I256::MAX);
        let amount = match exact {
            FixedAmount::In(_) => -size,
            FixedAmount::Out(_) => size,
        };
        let limit = if zero_for_one { MIN_SQRT_PRICE + U256::ONE } else { MAX_SQRT_PRICE - U256::ONE };
        let params = SwapParams {
            zeroForOne: zero_for_one,
            amountSpecified: amount,
            sqrtPriceLimitX96: U160::saturating_from(limit),
        };
        self.call(HookProbe::trySwapCall { manager: self.pool.manager, key: self.pool.key, params }.abi_encode())
    }

    fn liquidity(&self, range: TickRange, amount: u128, exit: bool) -> ForkCall {
        // Ticks of a range fit 24 bits.
        let tick = |tick| I24::try_from(tick).unwrap_or_default();
        let params = ModifyLiquidityParams {
            tickLower: tick(range.lower()),
            tickUpper: tick(range.upper()),
            liquidityDelta: I256::try_from(amount).unwrap_or(I256::MAX),
            salt: B256::ZERO,
        };
        let call = HookProbe::tryLiquidityCall { manager: self.pool.manager, key: self.pool.key, params, exit };
        self.call(call.abi_encode())
    }

    /// The calls with gas that is paid for, as a wallet sends them.
    fn paying(&self, calls: Vec<ForkCall>, is_paid: bool, fork: &Fork) -> Vec<ForkCall> {
        if !is_paid {
            return calls;
        }
        let max_fee = u128::from(fork.next_block().base_fee).saturating_mul(2).saturating_add(TIP);
        let fees = CallFees::Dynamic { max_fee, max_priority_fee: TIP };
        (0..).zip(calls).map(|(nonce, call)| call.paid(nonce, fees)).collect()
    }

    fn options(&self, is_paid: bool) -> SimulationOptions {
        let added = if is_paid { U256::from(u128::MAX) } else { U256::ZERO };
        let purse = BalanceDelta { token: None, holder: self.sender, added, removed: U256::ZERO };
        SimulationOptions { shifts: vec![purse], ..SimulationOptions::default() }
    }

    /// The other amount of a swap, where the fixed amount was kept.
    fn swapped(&self, outcome: &SimulatedOutcome, trial: &SwapTrial) -> Result<U256, SafeText> {
        let shown = decoded::<HookProbe::trySwapCall>(outcome)?;
        if !shown.done {
            return Err(reason(&shown.reason));
        }
        let [first, second] = amounts(shown.delta);
        let (gives, gets) = if trial.zero_for_one { (first, second) } else { (second, first) };
        let (gives, gets) = (paid(gives), received(gets));
        let (fixed, other) = match trial.exact {
            FixedAmount::In(_) => (gives, gets),
            FixedAmount::Out(_) => (gets, gives),
        };
        let is_kept = fixed == trial.exact.amount();
        if is_kept { Ok(other) } else { Err(SafeText::clean("the hook changes the fixed amount", MAX_REASON)) }
    }
}

/// Tip of paid trials, in wei per gas.
const TIP: u128 = 1_000_000_000;

/// Return value of a call of the probe, which itself does not fail.
fn decoded<C: alloy::sol_types::SolCall>(outcome: &SimulatedOutcome) -> Result<C::Return, SafeText> {
    match &outcome.status {
        ExecutionStatus::Success => C::abi_decode_returns_validate(&outcome.output)
            .map_err(|_| SafeText::clean("the simulation gives no result", MAX_REASON)),
        ExecutionStatus::Reverted(why) => Err(SafeText::clean(&why.to_string(), MAX_REASON)),
        ExecutionStatus::Halted(why) => Err(SafeText::clean(&why.to_string(), MAX_REASON)),
    }
}

/// Balance deltas of adding liquidity and of removing it.
fn changed(outcome: &SimulatedOutcome) -> Result<([i128; 2], [i128; 2]), SafeText> {
    let shown = decoded::<HookProbe::tryLiquidityCall>(outcome)?;
    if shown.done { Ok((amounts(shown.added), amounts(shown.removed))) } else { Err(reason(&shown.reason)) }
}

fn reason(thrown: &Bytes) -> SafeText {
    SafeText::clean(&RevertReason::decode(thrown).to_string(), MAX_REASON)
}

/// Amounts of a balance delta: that of currency 0 in the upper 128 bits, that of currency 1 in the lower ones.
fn amounts(delta: I256) -> [i128; 2] {
    let bytes = delta.to_be_bytes::<32>();
    let (high, low) = bytes.split_at(16);
    let signed = |half: &[u8]| i128::from_be_bytes(half.try_into().unwrap_or_default());
    [signed(high), signed(low)]
}

/// Payment of the caller; zero for a receipt.
fn paid(amount: i128) -> U256 {
    if amount < 0 { U256::from(amount.unsigned_abs()) } else { U256::ZERO }
}

/// Receipt of the caller; zero for a payment.
fn received(amount: i128) -> U256 {
    if amount > 0 { U256::from(amount.unsigned_abs()) } else { U256::ZERO }
}

/// Part in millionths, rounded up; the whole of nothing.
fn part_of(missing: U256, of: U256) -> u32 {
    if missing.is_zero() {
        return 0;
    }
    if of.is_zero() {
        return FEE_WHOLE;
    }
    let part = (U512::from(missing) * U512::from(FEE_WHOLE)).div_ceil(U512::from(of));
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Findings of the swaps.
fn of_swaps(pool: &HookedPool, trials: &[SwapTrial]) -> Vec<HookFinding> {
    let mut found = Vec::new();
    let failed = trials.iter().flat_map(|trial| &trial.with_hook).find_map(|one| one.as_ref().err());
    found.extend(failed.map(|why| HookFinding::SwapFails { why: why.clone() }));
    let parts = |trial: &SwapTrial| -> Vec<u32> {
        trial.with_hook.iter().filter_map(|one| one.as_ref().ok()).map(|with| trial.part(*with)).collect()
    };
    let largest = trials.iter().flat_map(parts).max().unwrap_or_default();
    if largest > 0 {
        // The stated fee of such a pool is not what a swap pays.
        let sets_fee = pool.key.fee.to::<u32>() == DYNAMIC_FEE;
        found.push(match sets_fee {
            true => HookFinding::SetsFee { fee: largest },
            false => HookFinding::TakesFromSwap { part: largest },
        });
    }
    let changes = trials.iter().filter(|trial| {
        let mut given = trial.with_hook.iter().filter_map(|one| one.as_ref().ok());
        let first = given.next();
        given.any(|one| Some(one) != first)
    });
    let spread: Vec<u32> = changes.flat_map(parts).collect();
    if let (Some(lowest), Some(highest)) = (spread.iter().min(), spread.iter().max()) {
        found.push(HookFinding::ChangesQuote { lowest: *lowest, highest: *highest });
    }
    let is_better = trials
        .iter()
        .any(|trial| trial.with_hook.iter().filter_map(|one| one.as_ref().ok()).any(|with| trial.is_better(*with)));
    if is_better {
        found.push(HookFinding::OtherCurve);
    }
    found
}

/// Findings of adding and removing liquidity.
fn of_liquidity(trial: &LiquidityTrial) -> Vec<HookFinding> {
    let mut found = Vec::new();
    let largest = |with: [U256; 2], without: [U256; 2], more: bool| {
        let pairs = with.into_iter().zip(without);
        let missing = pairs.map(|(with, without)| match more {
            true => part_of(with.saturating_sub(without), without),
            false => part_of(without.saturating_sub(with), without),
        });
        missing.max().filter(|part| *part > 0)
    };
    match (&trial.takes, &trial.pays) {
        (Err(why), _) => found.push(HookFinding::DepositFails { why: why.clone() }),
        (Ok(takes), pays) => {
            let part = largest(*takes, trial.takes_without, true);
            found.extend(part.map(|part| HookFinding::TakesFromDeposit { part }));
            match pays {
                Err(why) => found.push(HookFinding::WithdrawalFails { why: why.clone() }),
                Ok(pays) => {
                    let part = largest(*pays, trial.pays_without, false);
                    found.extend(part.map(|part| HookFinding::TakesFromWithdrawal { part }));
                }
            }
        }
    }
    found
}
