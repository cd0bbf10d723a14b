//! Conversion of a route to router commands, in the order of Uniswap's own SDK.
//!
//! The plan prevents silent losses: the router's final balance is swept to the recipient, every path has a bound, and
//! native tokens that were sent but not spent are returned.

use alloy::primitives::{Address, U256};

use super::{
    CALLER, RouterCommand, RouterExecution, SwapAmounts, SwapCommand, SwapPath, THE_ROUTER, V3Path, WHOLE_BALANCE,
};
use crate::uniswap::pool::{FixedAmount, ProtocolVersion as PoolVersion};
use crate::uniswap::pool_id::PoolId;
use crate::uniswap::routing::{Hop, Route, RouteLeg};
use bardo_base::units::BasisPoints;
use golem_chain::permit2::PermitSingle;

/// Minimum number of paths from which an exact input has one bound over all paths instead of one per path. This causes
/// fewer reverts, at the cost of one more transfer.
const BOUND_TOGETHER_FROM: usize = 3;

/// Recipient of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputRecipient {
    /// Caller of the router.
    Caller,
    /// Account with this address.
    Account(Address),
}

/// Share of the output for a third party, such as an interface fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeePortion {
    /// Recipient of the share.
    pub recipient: Address,
    /// Share of the output.
    pub share: BasisPoints,
}

/// Trade to be converted.
#[derive(Debug, Clone)]
pub struct SwapRequest<'a> {
    /// Route of the trade.
    pub route: &'a Route,
    /// True if the native token is paid; it is then wrapped first.
    pub native_in: bool,
    /// True if the native token is received; it is then unwrapped last.
    pub native_out: bool,
    /// Slippage tolerance of the amount that is not fixed.
    pub slippage: BasisPoints,
    /// Recipient of the output.
    pub recipient: OutputRecipient,
    /// Permit with its signature, which is submitted to Permit2 first.
    pub permit: Option<(PermitSingle, alloy::primitives::Bytes)>,
    /// Share of the output for a third party.
    pub portion: Option<FeePortion>,
    /// True if an exact input over two paths has one bound over both, as with more paths. The minimum is then exact to
    /// the unit, at the cost of one more transfer.
    pub one_bound: bool,
    /// Deadline in seconds since the Unix epoch; `None` for no deadline.
    pub deadline: Option<U256>,
}

/// Trade as one call of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterTrade {
    /// Call of the router.
    pub execution: RouterExecution,
    /// Native tokens sent with the call, in wei.
    pub value: U256,
    /// Maximum that the caller pays, in raw units; exactly this amount for an exact input.
    pub amount_in_max: U256,
    /// Minimum that the recipient gets before a portion is deducted, in raw units. The contract enforces it.
    pub amount_out_min: U256,
}

/// Error for a route that cannot be one call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterPlanError {
    /// Path without pools.
    #[error("the route has a path without pools")]
    Empty,
    /// Exact output over pools of two versions.
    #[error("a path through V2 and V3 pools cannot have an exact output: use an exact input")]
    MixedExactOutput,
    /// Recipient address with a special meaning for the router.
    #[error(
        "{0} cannot be a recipient: the router gives this address a special meaning, or tokens sent to it are \
             lost"
    )]
    ReservedRecipient(Address),
    /// Permit for the native token.
    #[error("the native token needs no permit: remove it")]
    PermitForCoin,
    /// Permit for another token than the input token.
    #[error("the permit is for {permitted}, but the route pays {paid}")]
    PermitForAnother {
        /// Token of the permit.
        permitted: Address,
        /// Input token of the route.
        paid: Address,
    },
    /// Amount that overflows with slippage.
    #[error("with slippage the amount is above 2^256 - 1")]
    TooLarge,
}

/// Converts `request` to a router call.
///
/// # Errors
/// Returns a [`RouterPlanError`] if the route cannot be one call.
pub fn plan(request: &SwapRequest<'_>) -> Result<RouterTrade, RouterPlanError> {
    let SwapRequest { route, slippage, .. } = *request;
    let recipient = match request.recipient {
        OutputRecipient::Caller => CALLER,
        OutputRecipient::Account(account) => {
            if [Address::ZERO, CALLER, THE_ROUTER].contains(&account) {
                return Err(RouterPlanError::ReservedRecipient(account));
            }
            account
        }
    };
    let mut commands = Vec::new();
    if let Some((permit, signature)) = &request.permit {
        if request.native_in {
            return Err(RouterPlanError::PermitForCoin);
        }
        if permit.details.token != route.token_in {
            return Err(RouterPlanError::PermitForAnother { permitted: permit.details.token, paid: route.token_in });
        }
        commands.push(RouterCommand::Permit2Permit { permit: permit.clone(), signature: signature.clone() });
    }
    let exact_output = matches!(route.exact, FixedAmount::Out(_));
    let amount_in_max = if exact_output { at_most(route.amount_in, slippage)? } else { route.amount_in };
    if request.native_in {
        commands.push(RouterCommand::WrapEth { recipient: THE_ROUTER, amount: amount_in_max });
    }
    // The router's V2 exact output bounds the input, not the received amount. The output therefore goes through the
    // router, where the sweep bounds it.
    let v2_exact_output =
        exact_output && route.legs.iter().flat_map(|leg| &leg.hops).any(|hop| hop.version == PoolVersion::V2);
    let together_from = if request.one_bound { 2 } else { BOUND_TOGETHER_FROM };
    let bounded_together = !exact_output && route.legs.len() >= together_from;
    let through_router = bounded_together || request.native_out || request.portion.is_some() || v2_exact_output;
    let mut bounded_by_leg = U256::ZERO;
    for leg in &route.legs {
        let exact = if exact_output {
            SwapAmounts::Out { amount: leg.amount_out, in_max: at_most(leg.amount_in, slippage)? }
        } else {
            let least = slippage.minimum_out(leg.amount_out);
            // The legs' outputs add up to the route's output, which fits.
            bounded_by_leg = bounded_by_leg.saturating_add(least);
            SwapAmounts::In { amount: leg.amount_in, out_min: if through_router { U256::ZERO } else { least } }
        };
        let to = if through_router { THE_ROUTER } else { recipient };
        path_commands(leg, exact, to, !request.native_in, &mut commands)?;
    }
    let quoted = if exact_output { route.amount_out } else { slippage.minimum_out(route.amount_out) };
    let amount_out_min = if exact_output || through_router { quoted } else { bounded_by_leg };
    if through_router {
        let mut least = quoted;
        if let Some(FeePortion { recipient, share }) = request.portion {
            let bips = U256::from(share.get());
            commands.push(RouterCommand::PayPortion { token: route.token_out, recipient, bips });
            if exact_output {
                least = least.saturating_sub(share.of(least, bardo_base::units::Rounding::Down));
            }
        }
        commands.push(if request.native_out {
            RouterCommand::UnwrapWeth { recipient, amount_min: least }
        } else {
            RouterCommand::Sweep { token: route.token_out, recipient, amount_min: least }
        });
    }
    if exact_output && request.native_in {
        commands.push(RouterCommand::UnwrapWeth { recipient, amount_min: U256::ZERO });
    }
    Ok(RouterTrade {
        execution: RouterExecution { commands, deadline: request.deadline },
        value: if request.native_in { amount_in_max } else { U256::ZERO },
        amount_in_max,
        amount_out_min,
    })
}

fn at_most(amount: U256, slippage: BasisPoints) -> Result<U256, RouterPlanError> {
    slippage.maximum_in(amount).map_err(|_| RouterPlanError::TooLarge)
}

/// Adds the commands of one leg: one for each run of pools of the same version.
fn path_commands(
    leg: &RouteLeg,
    exact: SwapAmounts,
    recipient: Address,
    payer_is_user: bool,
    commands: &mut Vec<RouterCommand>,
) -> Result<(), RouterPlanError> {
    let sections: Vec<&[Hop]> = leg.hops.chunk_by(|a, b| a.version == b.version).collect();
    let last = sections.len().checked_sub(1).ok_or(RouterPlanError::Empty)?;
    for (at, section) in sections.iter().enumerate() {
        let exact = match exact {
            SwapAmounts::Out { .. } if last > 0 => return Err(RouterPlanError::MixedExactOutput),
            SwapAmounts::Out { .. } => exact,
            SwapAmounts::In { amount, out_min } => SwapAmounts::In {
                amount: if at == 0 { amount } else { WHOLE_BALANCE },
                out_min: if at == last { out_min } else { U256::ZERO },
            },
        };
        // A pair can receive the previous swap's output directly; a V3 pool takes it from the router.
        let next = sections.get(at + 1).and_then(|next| next.first());
        let to = match next {
            None => recipient,
            Some(Hop { version: PoolVersion::V2, pool: PoolId::Contract(pair), .. }) => *pair,
            Some(_) => THE_ROUTER,
        };
        commands.push(RouterCommand::Swap(SwapCommand {
            path: path(section).ok_or(RouterPlanError::Empty)?,
            exact,
            recipient: to,
            payer_is_user: payer_is_user && at == 0,
            min_hop_prices: Vec::new(),
        }));
    }
    Ok(())
}

fn path(hops: &[Hop]) -> Option<SwapPath> {
    let first = hops.first()?;
    Some(match first.version {
        PoolVersion::V2 => {
            SwapPath::V2(std::iter::once(first.token_in).chain(hops.iter().map(|hop| hop.token_out)).collect())
        }
        PoolVersion::V3 => {
            SwapPath::V3(V3Path::new(first.token_in, hops.iter().map(|hop| (hop.fee, hop.token_out)).collect())?)
        }
    })
}
