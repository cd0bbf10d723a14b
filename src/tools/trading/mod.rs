//! Quotes, swaps, orders, allowances.

pub mod token_approve;
pub mod token_revoke;
pub mod uniswap_check_allowance;
pub mod uniswap_execute_swap;
pub mod uniswap_get_quote;
