//! What can go wrong in the sandbox.

use alloy::primitives::{Address, B256};

use super::contracts::ContractError;
use super::keys::KeyError;
use golem_chain::devnet::Failure;
use golem_chain::devnet::error::{SubmitError, TimestampError};

/// Why the devnet could not be furnished, or an inhabitant could not act.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The bundle.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// Preset code was refused.
    #[error("the devnet refused preset code: {0}")]
    Preset(#[from] golem_chain::devnet::state::InvalidCode),
    /// A transaction was not accepted.
    #[error("the devnet did not accept the transaction for {step}: {source}")]
    Refused {
        /// What it was to do.
        step: &'static str,
        /// Why not.
        source: SubmitError,
    },
    /// A transaction failed.
    #[error("the transaction for {step} failed: {failure:?}")]
    Failed {
        /// What it was to do.
        step: &'static str,
        /// How.
        failure: Failure,
    },
    /// A transaction never got into a block.
    #[error("{waiting} genesis transactions did not fit into any block; the first is {first}")]
    Stuck {
        /// How many.
        waiting: usize,
        /// Hash of the first.
        first: B256,
    },
    /// Genesis did not put a contract where it belongs.
    #[error("no contract at {address}, where {name} belongs")]
    Missing {
        /// Its name.
        name: &'static str,
        /// Its address.
        address: Address,
    },
    /// Block times must rise.
    #[error(transparent)]
    Time(#[from] TimestampError),
    /// A start before the contracts and the market's past.
    #[error(
        "start time {start} is before {earliest}, when genesis and the market's past have ended: choose a later one"
    )]
    StartTooEarly {
        /// The start, seconds since the epoch.
        start: u64,
        /// The earliest possible start, seconds since the epoch.
        earliest: u64,
    },
    /// A kept devnet cannot be used.
    #[error(transparent)]
    Kept(#[from] super::keep::KeptError),
    /// The genesis snapshot cannot be used.
    #[error(
        "the genesis snapshot cannot be used: {0}; build Bardo again, and if its contracts or its plan have changed, run \
         `cargo run --release --example genesis` first"
    )]
    Snapshot(super::snapshot::SnapshotError),
    /// The chain's plan has no such token.
    #[error("{chain} has no {token}")]
    NoSuchToken {
        /// The chain.
        chain: &'static str,
        /// The token, by its key.
        token: &'static str,
    },
    /// A chain's thread could not be started.
    #[error(transparent)]
    Spawn(#[from] golem_chain::devnet::handle::SpawnError),
    /// A chain's builder ended without a word.
    #[error("a chain of the devnet could not be built: its builder stopped")]
    BuilderLost,
}
