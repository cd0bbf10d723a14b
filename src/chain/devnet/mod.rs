//! The bare devnet: a revm-backed chain on a thread of its own, and the ways to speak to it.
//!
//! Not here: any protocol's contracts, and whoever lives on the chain (see `sandbox`).

pub mod state;

pub use state::State;
