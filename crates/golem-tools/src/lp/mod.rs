//! Liquidity tools: withdrawals from positions.

pub mod close_position;
pub mod collect_fees;
mod exits;
pub mod remove_liquidity;
