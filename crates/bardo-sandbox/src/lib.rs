//! The devnet's inhabitants, as outside parties with keys of their own: genesis, pools, market, price keeper, faucet,
//! order service and fillers, relayers between the chains.
//!
//! [`Sandbox::boot`] gives both chains, furnished and alive. Whatever happens on them afterwards, a user's swap or
//! the market's, happens by transactions; nobody here has a way in that others do not have.
//!
//! Not here: the chain itself (see `chain::devnet`), and anything that acts for a user.
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

pub mod boot;
pub mod cast;
pub mod contracts;
mod deploy;
pub mod error;
pub mod faucet;
pub mod genesis;
pub mod keep;
pub mod keeper;
pub mod keys;
mod liquidity;
pub mod market;
pub mod math;
pub mod order_service;
pub mod plan;
pub mod relayers;
pub mod residents;
pub mod services;
pub mod snapshot;
pub mod target;
mod works;

pub use boot::{Pace, Progress, Sandbox, SandboxChain, SandboxConfig};
pub use error::SandboxError;
pub use residents::{MarketMode, Residents};
