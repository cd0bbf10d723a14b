//! Tools of the account itself.

pub mod wallet_transfer_token;
