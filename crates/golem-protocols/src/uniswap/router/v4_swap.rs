//! V4_SWAP: one swap along a path of V4 pools, with the payment of its input and the withdrawal of its output.
//!
//! The command of the contract is a program of its own: a list of actions with parameters, which may pay anyone. Only three
//! programs are encoded and decoded here, in the order of Uniswap's own SDK:
//!
//! | amount | actions |
//! |---|---|
//! | fixed input | SWAP_EXACT_IN, SETTLE of all that is owed, TAKE of all that was bought |
//! | fixed output | SWAP_EXACT_OUT, SETTLE of all that is owed, TAKE of the fixed amount |
//! | the router's whole balance | SETTLE of that balance, SWAP_EXACT_IN of all of it, TAKE of all that was bought |
//!
//! V4 stops where a pool's liquidity ends: SWAP_EXACT_OUT then buys less than its amount, which routers before 2.1.2 do
//! not notice. TAKE of the fixed amount then leaves a debt, and the pool manager reverts everything.
//!
//! The parameters of SWAP_EXACT_IN and SWAP_EXACT_OUT have a field more from router 2.1.0 on. Read by a router of the
//! other encoding, they can be valid with another meaning, so the encoding follows from the address book's role alone.
//!
//! Formats: <https://github.com/Uniswap/v4-periphery>, `IV4Router.sol` and `Actions.sol`.

use std::collections::BTreeSet;

use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolValue;

use super::command::{SwapAmounts, SwapCommand, SwapPath};
use super::{RouterVersion, WHOLE_BALANCE};
use crate::uniswap::v4::key_fault;
use bardo_abi::uniswap_v4::{ExactPathParams, ExactPathParamsV21, PathKey, PoolKey};

/// Actions of v4-periphery.
const SWAP_EXACT_IN: u8 = 0x07;
const SWAP_EXACT_OUT: u8 = 0x09;
const SETTLE: u8 = 0x0b;
const TAKE: u8 = 0x0e;

/// Amount that stands for all that is owed, or all that is due (`ActionConstants.OPEN_DELTA`).
const OPEN_DELTA: U256 = U256::ZERO;

/// Path through V4 pools, in trading order for exact input and exact output. The zero address is the native token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V4Path {
    first: Address,
    steps: Vec<V4Step>,
}

/// Pool on a path, with the currency that it gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V4Step {
    /// Fee in the pool's key.
    pub fee: U24,
    /// Tick spacing in the pool's key.
    pub tick_spacing: I24,
    /// Hook in the pool's key.
    pub hooks: Address,
    /// Currency that the pool gives; the zero address is the native token.
    pub currency_out: Address,
}

impl V4Path {
    /// Creates a path from `first` through pools to their output currencies. `None` for a path without pools, with a
    /// pool whose swaps are not computed (see [`key_fault`]), or back to a currency: the contract would pay out only the
    /// difference.
    pub fn new(first: Address, steps: Vec<V4Step>) -> Option<Self> {
        let path = Self { first, steps };
        let distinct: BTreeSet<Address> = path.currencies().collect();
        let sound = distinct.len() == path.steps.len() + 1 && path.keys().all(|key| key_fault(&key).is_none());
        (sound && !path.steps.is_empty()).then_some(path)
    }

    /// Returns the input currency.
    pub fn first(&self) -> Address {
        self.first
    }

    /// Returns the output currency.
    pub fn last(&self) -> Address {
        self.steps.last().map_or(self.first, |step| step.currency_out)
    }

    /// Returns the pools in trading order, each with the currency that it gives.
    pub fn steps(&self) -> &[V4Step] {
        &self.steps
    }

    /// Returns the currencies in trading order.
    pub fn currencies(&self) -> impl Iterator<Item = Address> {
        std::iter::once(self.first).chain(self.steps.iter().map(|step| step.currency_out))
    }

    /// Returns the keys of the pools in trading order.
    pub fn keys(&self) -> impl Iterator<Item = PoolKey> {
        self.currencies().zip(&self.steps).map(|(paid, step)| {
            let (currency0, currency1) =
                if paid < step.currency_out { (paid, step.currency_out) } else { (step.currency_out, paid) };
            PoolKey { currency0, currency1, fee: step.fee, tickSpacing: step.tick_spacing, hooks: step.hooks }
        })
    }

    /// Returns the contract's path: each pool with the currency on its other side, seen from the fixed amount's
    /// currency.
    fn encoded(&self, exact_output: bool) -> Vec<PathKey> {
        let others: Vec<Address> =
            if exact_output { self.currencies().collect() } else { self.currencies().skip(1).collect() };
        let key = |(step, other): (&V4Step, Address)| PathKey {
            intermediateCurrency: other,
            fee: U256::from(step.fee),
            tickSpacing: step.tick_spacing,
            hooks: step.hooks,
            hookData: Bytes::new(),
        };
        self.steps.iter().zip(others).map(key).collect()
    }

    /// Reads the contract's path; `None` if it passes data to a hook, or is not one that [`Self::new`] accepts.
    fn decoded(currency: Address, path: &[PathKey], exact_output: bool) -> Option<Self> {
        if path.iter().any(|key| !key.hookData.is_empty() || key.fee > U256::from(U24::MAX)) {
            return None;
        }
        let others = path.iter().map(|key| key.intermediateCurrency);
        let (first, outs): (Address, Vec<Address>) = if exact_output {
            (path.first()?.intermediateCurrency, others.skip(1).chain([currency]).collect())
        } else {
            (currency, others.collect())
        };
        let step = |(key, currency_out): (&PathKey, Address)| V4Step {
            fee: key.fee.to(),
            tick_spacing: key.tickSpacing,
            hooks: key.hooks,
            currency_out,
        };
        Self::new(first, path.iter().zip(outs).map(step).collect())
    }
}

/// Returns the input of the command. Amounts are at most 128 bits, or the router's whole balance; the planner sees to it.
pub(super) fn input(swap: &SwapCommand, path: &V4Path, version: RouterVersion) -> Vec<u8> {
    let (exact_output, amount, bound) = match swap.exact {
        SwapAmounts::In { amount, out_min } => (false, amount, out_min),
        SwapAmounts::Out { amount, in_max } => (true, amount, in_max),
    };
    let by_balance = !exact_output && amount == WHOLE_BALANCE;
    let amount: u128 = if by_balance { 0 } else { amount.saturating_to() };
    let (currency, keys) = (if exact_output { path.last() } else { path.first() }, path.encoded(exact_output));
    let bound: u128 = bound.saturating_to();
    let trade: Bytes = match version {
        RouterVersion::V2_0 => ExactPathParams { currency, path: keys, amount, bound }.abi_encode(),
        RouterVersion::V2_1_0 | RouterVersion::V2_1_1 => {
            let prices = swap.min_hop_prices.clone();
            ExactPathParamsV21 { currency, path: keys, hopBounds: prices, amount, bound }.abi_encode()
        }
    }
    .into();
    let settled = if by_balance { WHOLE_BALANCE } else { OPEN_DELTA };
    let taken = if exact_output { U256::from(amount) } else { OPEN_DELTA };
    let settle: Bytes = (path.first(), settled, swap.payer_is_user).abi_encode_params().into();
    let take: Bytes = (path.last(), swap.recipient, taken).abi_encode_params().into();
    let action = if exact_output { SWAP_EXACT_OUT } else { SWAP_EXACT_IN };
    let (actions, parameters) = if by_balance {
        ([SETTLE, action, TAKE], vec![settle, trade, take])
    } else {
        ([action, SETTLE, TAKE], vec![trade, settle, take])
    };
    (Bytes::from(actions.to_vec()), parameters).abi_encode_params()
}

/// Reads the input of the command; `None` for any program but the three of this module.
pub(super) fn decode(input: &[u8], version: RouterVersion) -> Option<SwapCommand> {
    let (actions, parameters) = <(Bytes, Vec<Bytes>)>::abi_decode_params_validate(input).ok()?;
    let [one, two, three] = parameters.as_slice() else { return None };
    let (exact_output, by_balance, trade, settle, take) = match actions.as_ref() {
        [SWAP_EXACT_IN, SETTLE, TAKE] => (false, false, one, two, three),
        [SWAP_EXACT_OUT, SETTLE, TAKE] => (true, false, one, two, three),
        [SETTLE, SWAP_EXACT_IN, TAKE] => (false, true, two, one, three),
        _ => return None,
    };
    let (currency, keys, min_hop_prices, amount, bound) = match version {
        RouterVersion::V2_0 => {
            let told = ExactPathParams::abi_decode_validate(trade).ok()?;
            (told.currency, told.path, Vec::new(), told.amount, told.bound)
        }
        RouterVersion::V2_1_0 | RouterVersion::V2_1_1 => {
            let told = ExactPathParamsV21::abi_decode_validate(trade).ok()?;
            // In 2.1.0 the bounds are no prices.
            if version == RouterVersion::V2_1_0 && !told.hopBounds.is_empty() {
                return None;
            }
            (told.currency, told.path, told.hopBounds, told.amount, told.bound)
        }
    };
    let path = V4Path::decoded(currency, &keys, exact_output)?;
    let (paid, settled, payer_is_user) = <(Address, U256, bool)>::abi_decode_params_validate(settle).ok()?;
    let (taken, recipient, least) = <(Address, Address, U256)>::abi_decode_params_validate(take).ok()?;
    let owed = if by_balance { WHOLE_BALANCE } else { OPEN_DELTA };
    // An amount of zero stands for an open one; only a settled balance is swapped whole.
    if (amount == 0) != by_balance || (by_balance && payer_is_user) {
        return None;
    }
    let due = if exact_output { U256::from(amount) } else { OPEN_DELTA };
    if paid != path.first() || settled != owed || taken != path.last() || least != due {
        return None;
    }
    let (amount, bound) = (if by_balance { WHOLE_BALANCE } else { U256::from(amount) }, U256::from(bound));
    let exact = if exact_output {
        SwapAmounts::Out { amount, in_max: bound }
    } else {
        SwapAmounts::In { amount, out_min: bound }
    };
    let swap = SwapCommand { path: SwapPath::V4(path), exact, recipient, payer_is_user, min_hop_prices };
    // Bytes that no field holds would be invisible in everything that is checked.
    (swap.input(version) == input).then_some(swap)
}

#[cfg(test)]
mod tests;
