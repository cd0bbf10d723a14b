//! What the framed bytes do on a fork of the chain as it is, held against what was declared.

use alloy::primitives::U256;

use crate::base::model::ActionClass;
use crate::chain::fork::{Pinned, Simulation};
use crate::chain::token::TokenId;

/// What the framed bytes do.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The block it was run on.
    pub pinned: Pinned,
    /// Gas of all legs together, in gas units.
    pub gas_used: u64,
    /// The class of the action, derived from the changes.
    pub class: ActionClass,
    /// Whether it only leaves positions: what comes in is an exit asset, it comes to the account
    /// itself, at a fair price, and no new allowance is left.
    pub reduce_only: bool,
    /// What every balance of the account moved by, gas apart.
    pub moves: Vec<Move>,
    /// The whole answer of the fork.
    pub simulation: Simulation,
}

/// A balance of the account before and after, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Which token.
    pub token: TokenId,
    /// Before.
    pub before: U256,
    /// After; for the native coin as if gas were free.
    pub after: U256,
}
