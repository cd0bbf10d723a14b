//! Chain access that is independent of protocols: networks and their address books, tokens, prices, the provider stack,
//! the embedded devnet (without any contracts) and the fork simulation.
//!
//! Not here: protocol knowledge (see `uniswap`) and signing for a user (see `custody`).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::dbg_macro
    )
)]

pub mod devnet;
pub mod evm;
mod faults;
pub mod fork;
pub mod multicall;
pub mod network;
pub mod outside_file;
pub mod permit2;
pub mod price;
pub mod provider;
pub mod sender;
pub mod service;
pub mod signed;
pub mod token;
pub mod typed_data;
