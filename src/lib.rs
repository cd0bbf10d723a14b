//! Bardo: a terminal program for running an on-chain trading agent.
//!
//! This crate contains the program's subcommands ([`cli`]), and re-exports the workspace's crates under the names that
//! `docs/internals` uses.
#![forbid(unsafe_code)]
// Panicking shortcuts are allowed in tests only, since a process that holds keys must not stop.
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

pub mod cli;

pub use bardo_abi as abi;
pub use bardo_accounting as accounting;
#[cfg(unix)]
pub use bardo_attach as attach;
pub use bardo_base as base;
pub use bardo_base::fabric;
pub use bardo_console as console;
pub use bardo_runtime as runtime;
pub use bardo_safety as safety;
pub use bardo_safety::custody;
pub use bardo_sandbox as sandbox;
pub use bardo_session as session;
pub use bardo_store as store;
pub use golem;
pub use golem_chain as chain;
pub use golem_protocols::{aave, across, erc4626, erc7540, erc8004, intents, uniswap};
pub use golem_tools as tools;
pub use golem_tools::engine;
