//! Quotes, swaps, orders, allowances.

pub mod uniswap_check_allowance;
pub mod uniswap_get_quote;
