//! Wallet tools, which move the account's own tokens.

pub mod cancel_transaction;
mod replacement;
pub mod speed_up_transaction;
pub mod wallet_transfer_token;
