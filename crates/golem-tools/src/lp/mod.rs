//! Liquidity tools: deposits into positions, withdrawals from them, and moves to another range or pool.

pub mod add_liquidity;
mod candidate;
pub mod close_position;
pub mod collect_fees;
pub mod compound_fees;
pub mod compute_rebalance_candidate;
mod deposits;
mod exits;
pub(crate) mod history;
pub mod increase_liquidity;
pub mod migrate_position;
mod moves;
mod named_pool;
mod range;
pub mod rebalance_position;
pub mod remove_liquidity;
