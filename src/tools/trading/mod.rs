//! Quotes, swaps, orders, allowances.

pub mod uniswap_check_allowance;
