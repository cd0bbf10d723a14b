//! The populated devnet from outside: its contracts, its prices, and the behaviour of its actors. Expected prices come
//! from the specification, amounts from the protocols' own contracts.

mod anvils;
mod boot;
mod execution;
mod feeds;
mod genesis;
mod market;
mod order_request;
mod orders;
mod quotes;
mod reactors;
mod relayers;
mod resolve;
mod services;
#[cfg(unix)]
mod sidecar;
mod tokens;
mod trading;
mod v4_quotes;
mod world;
