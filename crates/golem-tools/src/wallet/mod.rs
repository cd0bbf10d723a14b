//! Wallet tools, which move the account's own tokens.

pub mod cancel_transaction;
pub mod get_allowances;
mod replacement;
pub mod speed_up_transaction;
pub mod wallet_transfer_token;
