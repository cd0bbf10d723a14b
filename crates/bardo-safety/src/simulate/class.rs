//! Action classes, derived from balance changes and from the declaration.

use alloy::primitives::U256;

use super::{JudgeContext, TokenMove};
use crate::lending_calls;
use crate::position_calls;
use crate::proposal::{Proposal, ProposalIntent};
use crate::vault_calls;
use crate::vault_management;
use crate::wrapping::only_wraps;
use bardo_base::model::ActionClass;
use golem_chain::token::TokenId;

/// Divisor for dust: a remainder up to a thousandth of the former holding counts as nothing.
const DUST_PART: u64 = 1_000;

/// Classifies a set of balance changes. A mixture has the class of its riskiest part.
///
/// | given | received | class |
/// |---|---|---|
/// | anything | nothing | new position: a transfer |
/// | nothing | anything | close: something comes back |
/// | stablecoin or ETH | a risky token, or ETH for a stablecoin | increase, or new position if none was held |
/// | risky | risky; or between stablecoins | rebalance |
/// | risky, or ETH for a stablecoin | stablecoin or ETH | decrease, or close if no more than a thousandth stays |
pub(super) fn classify(
    lost: &[&TokenMove],
    gained: &[&TokenMove],
    more_allowed: bool,
    around: &JudgeContext,
) -> ActionClass {
    let kind = |token: TokenId| Kind::of(token, around);
    if lost.is_empty() && gained.is_empty() {
        return if more_allowed { ActionClass::NewPosition } else { ActionClass::ReadOnly };
    }
    if lost.is_empty() {
        return if more_allowed { ActionClass::NewPosition } else { ActionClass::ClosePosition };
    }
    if gained.is_empty() {
        return ActionClass::NewPosition;
    }
    let mut class = ActionClass::ReadOnly;
    for given in lost {
        for received in gained {
            let one = match (kind(given.token), kind(received.token)) {
                (Kind::Risky, Kind::Risky) | (Kind::Stable, Kind::Stable) | (Kind::Coin, Kind::Coin) => {
                    ActionClass::Rebalance
                }
                (Kind::Stable, Kind::Coin | Kind::Risky) | (Kind::Coin, Kind::Risky) => {
                    let added = received.after.saturating_sub(received.before);
                    let held = received.before.saturating_mul(U256::from(DUST_PART)) > added;
                    if held { ActionClass::IncreasePosition } else { ActionClass::NewPosition }
                }
                (Kind::Risky, Kind::Stable | Kind::Coin) | (Kind::Coin, Kind::Stable) => {
                    let all_but_dust = given.after.saturating_mul(U256::from(DUST_PART)) <= given.before;
                    if all_but_dust { ActionClass::ClosePosition } else { ActionClass::DecreasePosition }
                }
            };
            class = class.min(one);
        }
    }
    class
}

/// Returns the least risky class that the intent and the declaration allow, whatever a simulation reports.
/// `safety::calldata` checks the calldata against the same declaration. `revokes` is the result of
/// [`crate::revocation::only_revokes`].
///
/// | declared | class |
/// |---|---|
/// | a revocation, cancellation or refund by its calldata; by its intent alone | read-only; new position |
/// | a wrapping of the native token, or its reverse, by its calldata; by its intent alone | read-only; new position |
/// | a withdrawal from a liquidity position by its calldata: all of it; a part, or its fees | close; decrease |
/// | a deposit into an own liquidity position by its calldata; a new liquidity position | increase; new position |
/// | a supply or borrowing; a withdrawal or repayment of a part; of the whole, by its calldata | new position; decrease; close |
/// | a deposit to a vault; a withdrawal from one, by its calldata | new position; close |
/// | a pause or valuation of an own vault; a settlement; its deployment, resumption or cap | read-only; close; new position |
/// | a collection or release of protocol fees, a deployment of a hook | new position |
/// | an allowance, a transfer, a change of identity or of PolicyCage rules | new position |
/// | a risky token for stablecoins or ETH, or ETH for stablecoins, received by the account | close |
/// | anything for a risky token, or stablecoins for ETH | increase |
/// | like for like, or a bridge order or deposit with an arrival | rebalance |
/// | nothing out, or nothing in | new position |
pub(super) fn declared_class(proposal: &Proposal, revokes: bool, around: &JudgeContext) -> ActionClass {
    match proposal.intent {
        _ if revokes => ActionClass::ReadOnly,
        ProposalIntent::Wrap if only_wraps(proposal, around.wrapped).is_some() => ActionClass::ReadOnly,
        ProposalIntent::Approve
        | ProposalIntent::Transfer
        | ProposalIntent::Identity
        | ProposalIntent::PolicyCage
        | ProposalIntent::Revoke
        | ProposalIntent::CancelOrder
        | ProposalIntent::Refund
        | ProposalIntent::SpeedUp
        | ProposalIntent::CancelTransaction
        | ProposalIntent::Wrap => ActionClass::NewPosition,
        ProposalIntent::Liquidity => position_calls::plan(proposal, around.position_managers)
            .map_or(ActionClass::NewPosition, |plan| position_calls::class(&plan)),
        ProposalIntent::Lending => lending_calls::class(proposal, around).unwrap_or(ActionClass::NewPosition),
        ProposalIntent::Vault if vault_calls::plan(proposal).is_some_and(|plan| plan.is_exit()) => {
            ActionClass::ClosePosition
        }
        ProposalIntent::VaultManagement => vault_management::class(proposal).unwrap_or(ActionClass::NewPosition),
        ProposalIntent::Vault | ProposalIntent::ProtocolFees | ProposalIntent::Hook => ActionClass::NewPosition,
        ProposalIntent::Bridge if proposal.bridged().is_some() => ActionClass::Rebalance,
        ProposalIntent::Swap | ProposalIntent::PlaceOrder | ProposalIntent::Bridge => {
            let mut class = None;
            for flow in proposal.outflows.iter().filter(|flow| !flow.amount.is_zero()) {
                for inflow in &proposal.inflows {
                    let comes_back = inflow.recipient == proposal.account && !inflow.at_least.is_zero();
                    let given = Kind::of(flow.token.id, around);
                    let one = match (given, Kind::of(inflow.token.id, around)) {
                        _ if !comes_back => ActionClass::NewPosition,
                        (Kind::Stable, Kind::Stable) | (Kind::Coin, Kind::Coin) => ActionClass::Rebalance,
                        (Kind::Risky, Kind::Risky) => ActionClass::Rebalance,
                        (Kind::Stable, Kind::Coin | Kind::Risky) | (Kind::Coin, Kind::Risky) => {
                            ActionClass::IncreasePosition
                        }
                        (Kind::Risky, Kind::Stable | Kind::Coin) | (Kind::Coin, Kind::Stable) => {
                            ActionClass::ClosePosition
                        }
                    };
                    class = Some(class.map_or(one, |class: ActionClass| class.min(one)));
                }
            }
            class.unwrap_or(ActionClass::NewPosition)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stable,
    Coin,
    Risky,
}

impl Kind {
    fn of(token: TokenId, around: &JudgeContext) -> Self {
        match token {
            TokenId::Native => Self::Coin,
            TokenId::Erc20(address) if Some(address) == around.wrapped => Self::Coin,
            TokenId::Erc20(address) if around.stables.contains(&address) => Self::Stable,
            TokenId::Erc20(_) => Self::Risky,
        }
    }
}
