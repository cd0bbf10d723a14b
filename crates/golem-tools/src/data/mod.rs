//! Data tools: chain status, tokens, balances, pools and prices.

pub mod get_balances;
pub mod get_chain_status;
pub mod get_pool_info;
pub mod get_token_price;
pub mod search_tokens;
