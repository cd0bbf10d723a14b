//! What an action is, by what it moves.

use alloy::primitives::U256;

use super::{Move, Surroundings};
use crate::base::model::ActionClass;
use crate::chain::token::TokenId;

/// What is left of a holding counts as nothing below this part of what was sold: a thousandth.
const DUST_PART: u64 = 1_000;

/// What a set of moves is, from the riskiest to the harmless; a mixture is its riskiest part.
///
/// | given | received | class |
/// |---|---|---|
/// | anything | nothing | new position: a transfer |
/// | nothing | anything | close: something comes back |
/// | dollar coin or ETH | a risky token, or ETH for a dollar coin | increase, or new position if none was held |
/// | risky | risky; or between dollar coins | rebalance |
/// | risky, or ETH for a dollar coin | dollar coin or ETH | decrease, or close if no more than a thousandth stays |
pub(super) fn classify(lost: &[&Move], gained: &[&Move], more_allowed: bool, around: &Surroundings) -> ActionClass {
    let kind = |token: TokenId| match token {
        TokenId::Native => Kind::Coin,
        TokenId::Erc20(address) if Some(address) == around.wrapped => Kind::Coin,
        TokenId::Erc20(address) if around.stables.contains(&address) => Kind::Stable,
        TokenId::Erc20(_) => Kind::Risky,
    };
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
                    let came = received.after.saturating_sub(received.before);
                    let held = received.before.saturating_mul(U256::from(DUST_PART)) > came;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stable,
    Coin,
    Risky,
}
