//! Conversion of a route to router commands, in the order of Uniswap's own SDK.
//!
//! The plan prevents silent losses: the router's final balance is swept to the recipient, every path has a bound, and
//! native tokens that were sent but not spent are returned.
//!
//! V4 pools may trade the native token itself, for which routes have the wrapped one. The router wraps and unwraps
//! between the parts of a path, and before and after it.

use alloy::primitives::{Address, U256};

use super::{
    CALLER, RouterCommand, RouterExecution, SwapAmounts, SwapCommand, SwapPath, THE_ROUTER, V3Path, V4Path, V4Step,
    WHOLE_BALANCE,
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
    /// Exact output over pools of two versions, or over pools of the native token and of its wrapped token.
    #[error("a path through pools of several versions cannot have an exact output: use an exact input")]
    MixedExactOutput,
    /// First pool that takes the native token, although the wrapped token is paid.
    #[error("the route begins with a pool of the native token, but its wrapped token is paid")]
    UnpaidNative,
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
    /// Amount that overflows with slippage: 256 bits, and 128 bits in V4.
    #[error("with slippage the amount is too large for the router")]
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
    let spends_coin = route.legs.iter().any(begins_native);
    if spends_coin && !request.native_in {
        return Err(RouterPlanError::UnpaidNative);
    }
    if request.native_in {
        let mut wrapped = amount_in_max;
        if spends_coin {
            wrapped = U256::ZERO;
            for leg in route.legs.iter().filter(|leg| !begins_native(leg)) {
                let paid = if exact_output { at_most(leg.amount_in, slippage)? } else { leg.amount_in };
                wrapped = wrapped.saturating_add(paid);
            }
        }
        if !wrapped.is_zero() {
            commands.push(RouterCommand::WrapEth { recipient: THE_ROUTER, amount: wrapped });
        }
    }
    // The router's V2 exact output bounds the input, not the received amount. The output therefore goes through the
    // router, where the sweep bounds it.
    let v2_exact_output =
        exact_output && route.legs.iter().flat_map(|leg| &leg.hops).any(|hop| hop.version == PoolVersion::V2);
    let together_from = if request.one_bound { 2 } else { BOUND_TOGETHER_FROM };
    let bounded_together = !exact_output && route.legs.len() >= together_from;
    // An output in the other form than the requested one must be wrapped or unwrapped by the router.
    let converted = route.legs.iter().any(|leg| ends_native(leg) != request.native_out);
    let through_router = bounded_together || converted || request.portion.is_some() || v2_exact_output;
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
        pay_out(request, recipient, quoted, converted, &mut commands);
    }
    if exact_output && request.native_in && !route.legs.iter().all(begins_native) {
        commands.push(RouterCommand::UnwrapWeth { recipient, amount_min: U256::ZERO });
    }
    if spends_coin {
        // A V4 swap takes only what it used, which is less than the bound, or than the amount where liquidity ends.
        commands.push(RouterCommand::Sweep { token: Address::ZERO, recipient, amount_min: U256::ZERO });
    }
    Ok(RouterTrade {
        execution: RouterExecution { commands, deadline: request.deadline },
        value: if request.native_in { amount_in_max } else { U256::ZERO },
        amount_in_max,
        amount_out_min,
    })
}

/// Returns true if a leg takes the native token itself.
fn begins_native(leg: &RouteLeg) -> bool {
    leg.hops.first().is_some_and(|hop| hop.currencies().0.is_zero())
}

/// Returns true if a leg gives the native token itself.
fn ends_native(leg: &RouteLeg) -> bool {
    leg.hops.last().is_some_and(|hop| hop.currencies().1.is_zero())
}

/// Commands that pay what the router received to the recipient, at least `quoted` less a portion of an exact output.
/// `converted` says that some of it has another form than the requested one.
fn pay_out(
    request: &SwapRequest<'_>,
    recipient: Address,
    quoted: U256,
    converted: bool,
    commands: &mut Vec<RouterCommand>,
) {
    let route = request.route;
    let mut least = quoted;
    let gives_coin = route.legs.iter().any(ends_native);
    // Legs that give the native token, and those that give its wrapped token, come together in the requested form.
    if gives_coin && !request.native_out {
        commands.push(RouterCommand::WrapEth { recipient: THE_ROUTER, amount: WHOLE_BALANCE });
    } else if gives_coin && converted {
        commands.push(RouterCommand::UnwrapWeth { recipient: THE_ROUTER, amount_min: U256::ZERO });
    }
    let in_coin = gives_coin && request.native_out;
    let token = if in_coin { Address::ZERO } else { route.token_out };
    if let Some(FeePortion { recipient, share }) = request.portion {
        let bips = U256::from(share.get());
        commands.push(RouterCommand::PayPortion { token, recipient, bips });
        if matches!(route.exact, FixedAmount::Out(_)) {
            least = least.saturating_sub(share.of(least, bardo_base::units::Rounding::Down));
        }
    }
    commands.push(if request.native_out && !in_coin {
        RouterCommand::UnwrapWeth { recipient, amount_min: least }
    } else {
        RouterCommand::Sweep { token, recipient, amount_min: least }
    });
}

fn at_most(amount: U256, slippage: BasisPoints) -> Result<U256, RouterPlanError> {
    slippage.maximum_in(amount).map_err(|_| RouterPlanError::TooLarge)
}

/// Adds the commands of one leg: one for each run of pools of the same version that pass on one currency, with the
/// wrapping between them.
fn path_commands(
    leg: &RouteLeg,
    exact: SwapAmounts,
    recipient: Address,
    payer_is_user: bool,
    commands: &mut Vec<RouterCommand>,
) -> Result<(), RouterPlanError> {
    let joined = |a: &Hop, b: &Hop| a.version == b.version && a.currencies().1 == b.currencies().0;
    let sections: Vec<&[Hop]> = leg.hops.chunk_by(joined).collect();
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
        let gives = section.last().ok_or(RouterPlanError::Empty)?.currencies().1;
        let next = sections.get(at + 1).and_then(|next| next.first());
        // A pair can receive the previous swap's output directly; another pool takes it from the router.
        let to = match next {
            None => recipient,
            Some(hop) => match (hop.version, hop.pool) {
                (PoolVersion::V2, PoolId::Contract(pair)) if gives == hop.token_in => pair,
                _ => THE_ROUTER,
            },
        };
        let path = path(section).ok_or(RouterPlanError::Empty)?;
        if matches!(path, SwapPath::V4(_)) && !fits_v4(exact) {
            return Err(RouterPlanError::TooLarge);
        }
        commands.push(RouterCommand::Swap(SwapCommand {
            path,
            exact,
            recipient: to,
            payer_is_user: payer_is_user && at == 0,
            min_hop_prices: Vec::new(),
        }));
        match next.map(|hop| (gives.is_zero(), hop.currencies().0.is_zero())) {
            Some((true, false)) => {
                commands.push(RouterCommand::WrapEth { recipient: THE_ROUTER, amount: WHOLE_BALANCE });
            }
            Some((false, true)) => {
                commands.push(RouterCommand::UnwrapWeth { recipient: THE_ROUTER, amount_min: U256::ZERO });
            }
            Some((true, true) | (false, false)) | None => {}
        }
    }
    Ok(())
}

/// Returns true if a V4 swap can have these amounts, which are of 128 bits there.
fn fits_v4(exact: SwapAmounts) -> bool {
    let (amount, bound) = match exact {
        SwapAmounts::In { amount, out_min } => (amount, out_min),
        SwapAmounts::Out { amount, in_max } => (amount, in_max),
    };
    let most = U256::from(u128::MAX);
    (amount <= most || amount == WHOLE_BALANCE) && bound <= most
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
        PoolVersion::V4 => {
            let step = |hop: &Hop| {
                let key = hop.key.as_ref()?;
                Some(V4Step {
                    fee: key.fee,
                    tick_spacing: key.tickSpacing,
                    hooks: key.hooks,
                    currency_out: hop.currencies().1,
                })
            };
            SwapPath::V4(V4Path::new(first.currencies().0, hops.iter().map(step).collect::<Option<_>>()?)?)
        }
    })
}
