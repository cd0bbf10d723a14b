//! The populated devnet from outside: its contracts, its prices, and the behaviour of its actors. Expected prices come
//! from the specification, amounts from the protocols' own contracts.

#[path = "../support/anvil.rs"]
mod anvil;
mod anvils;
mod boot;
mod execution;
mod feeds;
mod genesis;
#[path = "../support/liar.rs"]
mod liar;
mod market;
mod order_request;
mod orders;
#[path = "../support/passing.rs"]
mod passing;
mod quotes;
mod reactors;
mod relayers;
mod resolve;
mod services;
#[cfg(unix)]
mod sidecar;
mod tokens;
mod trading;
mod world;
