//! Trading tools: quotes, swaps, orders and allowances.

pub mod across_deposit;
pub mod across_get_deposit_status;
pub mod across_get_quote;
pub mod cancel_schedule;
pub mod filled;
pub mod intent_refund;
pub mod list_schedules;
mod schedule_info;
pub mod token_approve;
pub mod token_revoke;
pub mod uniswap_check_allowance;
pub mod uniswap_execute_swap;
pub mod uniswap_get_quote;
pub mod uniswap_get_uniswapx_order_status;
pub mod uniswap_place_limit_order;
pub mod uniswap_schedule_swaps;
pub mod uniswap_submit_cross_chain_intent;
pub mod uniswap_submit_uniswapx_order;
pub mod uniswapx_cancel_order;
pub mod unwrap_native;
pub mod wrap_native;
mod wrapping;
