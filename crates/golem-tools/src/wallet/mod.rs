//! Wallet tools, which move the account's own tokens.

pub mod wallet_transfer_token;
