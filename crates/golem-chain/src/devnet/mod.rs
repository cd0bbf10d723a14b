//! The bare devnet: a revm-backed chain on its own thread, with its interfaces.
//!
//! A chain can also continue from a block of a live network (see `forked`).
//!
//! Not here: contracts of protocols, and actors on the chain (see `sandbox`).

mod admit;
pub mod block;
pub mod bytes;
mod call;
pub mod chain;
pub mod dump;
pub mod error;
pub mod events;
mod fees;
mod filters;
mod forked;
pub mod handle;
pub mod image;
pub mod keep;
pub mod ledger;
pub mod pool;
mod produce;
mod replay;
pub mod rewind;
pub mod rpc;
pub mod server;
pub mod state;
#[cfg(test)]
mod tests;
pub mod time;
pub mod transport;
mod trie;

pub use block::{Block, ChainTransaction, ExecutionFailure, Receipt};
pub use call::{AccessListOutcome, CallOutcome};
pub use chain::{Chain, ChainConfig, ExecutionView, ForkPoint};
pub use handle::{BlockHook, Devnet, DevnetConfig, DevnetStopped, HookPolicy, MiningMode, RunningConfig};
pub use state::WorldState;

/// The well-known development mnemonic; worthless on any other chain.
pub const MNEMONIC: &str = "test test test test test test test test test test test junk";
