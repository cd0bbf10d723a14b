//! Liquidity tools: deposits into positions, and withdrawals from them.

pub mod add_liquidity;
pub mod close_position;
pub mod collect_fees;
pub mod compound_fees;
mod deposits;
mod exits;
pub mod increase_liquidity;
mod range;
pub mod remove_liquidity;
