//! Foundation of all crates: units, text, errors, configuration, clock and events. Independent of any chain connection.
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

pub mod chains;
pub mod clock;
pub mod config;
pub mod contracts;
pub mod display;
pub mod error;
pub mod fabric;
pub mod failpoint;
pub mod format;
pub mod id;
pub mod model;
pub mod private;
pub mod regular_file;
pub mod removal;
pub mod rng;
pub mod runtime;
pub mod secret;
pub mod service;
pub mod signer;
pub mod text;
pub mod units;
