//! Data tools: chain status, tokens, balances, pools, prices, candles, indicators and transactions.

pub mod estimate_gas;
pub mod get_balances;
pub mod get_chain_status;
pub mod get_indicator;
pub mod get_lending_position;
pub mod get_pool_info;
pub mod get_portfolio;
pub mod get_position;
pub mod get_price_history;
pub mod get_risk_metrics;
pub mod get_token_price;
pub mod get_transaction;
pub mod get_vault_state;
pub mod list_lending_reserves;
pub mod list_pools;
pub mod list_positions;
pub mod search_tokens;
pub mod vault_list;
