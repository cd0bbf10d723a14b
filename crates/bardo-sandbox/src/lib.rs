//! Background actors of the devnet, as independent parties with keys of their own: genesis, pools, market, price
//! keeper, faucet, order service and fillers, relayers between the chains.
//!
//! [`Sandbox::boot`] starts both chains with contracts, liquidity and actors. All later changes, by users or actors,
//! are transactions; actors have no privileged access.
//!
//! Not here: the chain itself (see `chain::devnet`), and everything that acts for a user.
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

pub mod actors;
pub mod agents;
mod async_vaults;
pub mod background_actors;
mod block_builder;
pub mod boot;
pub mod contracts;
mod deploy;
pub mod error;
pub mod faucet;
pub mod genesis;
mod hostile_hooks;
pub mod keep;
pub mod keeper;
pub mod keys;
mod lending;
mod liquidator;
mod liquidity;
pub mod market;
mod market_v4;
pub mod math;
pub mod order_service;
pub mod plan;
mod protocol_fees;
pub mod relayers;
pub mod residents;
pub mod safes;
pub mod services;
pub mod snapshot;
mod spoke_pool;
pub mod target;
mod v4_pools;
#[cfg(test)]
mod v4_tests;
mod vaults;

pub use background_actors::{BackgroundActors, MarketMode};
pub use boot::{BlockPace, Sandbox, SandboxChain, SandboxConfig, StartProgress};
pub use error::SandboxError;
