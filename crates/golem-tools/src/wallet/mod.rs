//! Wallet tools: the account's state, what may act for it, the cost of acting, and transfers of its tokens.

mod account_code;
mod administration;
pub mod cancel_transaction;
pub mod get_allowances;
mod policy_template;
mod replacement;
pub mod speed_up_transaction;
pub mod wallet_configure_policy;
pub mod wallet_detect_account_type;
pub mod wallet_fund;
pub mod wallet_get_delegation;
pub mod wallet_get_gas_price;
pub mod wallet_get_status;
pub mod wallet_get_supported_chains;
pub mod wallet_provision;
pub mod wallet_transfer_token;
