//! What every room may use: units, text, errors, configuration, clock. Nothing here knows a chain.

pub mod chance;
pub mod clock;
pub mod config;
pub mod error;
pub mod failpoint;
pub mod format;
pub mod id;
pub mod model;
pub mod private;
pub mod service;
pub mod signer;
pub mod text;
pub mod units;
