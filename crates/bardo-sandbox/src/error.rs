//! Errors of the sandbox.

use alloy::primitives::{Address, B256};

use super::contracts::ContractError;
use super::keys::KeyError;
use golem_chain::devnet::ExecutionFailure;
use golem_chain::devnet::error::{SubmitError, TimestampError};

/// Error of building a devnet or of one of its actors.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Error of a devnet key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Error of the contract bundle.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The chain refused genesis code.
    #[error("the devnet rejected preset code: {0}")]
    Preset(#[from] golem_chain::devnet::state::InvalidCode),
    /// The chain refused a transaction.
    #[error("the devnet did not accept the transaction for {step}: {source}")]
    Refused {
        /// Purpose of the transaction.
        step: &'static str,
        /// Reason of the refusal.
        source: SubmitError,
    },
    /// The registration file of an agent could not be written.
    #[error("an agent's registration file cannot be written: {0}")]
    Registration(#[from] serde_json::Error),
    /// The devnet has no owner or client of this key.
    #[error("the devnet has no owner of an agent and no client `{0}`")]
    NoAgent(String),
    /// A transaction failed.
    #[error("the transaction for {step} failed: {failure:?}")]
    Failed {
        /// Purpose of the transaction.
        step: &'static str,
        /// Reason of the failure.
        failure: ExecutionFailure,
    },
    /// Genesis transactions were not included in any block.
    #[error("{waiting} genesis transactions did not fit into any block; the first is {first}")]
    Stuck {
        /// Number of these transactions.
        waiting: usize,
        /// Hash of the first one.
        first: B256,
    },
    /// Genesis did not create an expected contract.
    #[error("no contract at {address}, where {name} is expected")]
    Missing {
        /// Name of the contract.
        name: &'static str,
        /// Expected address of the contract.
        address: Address,
    },
    /// A block timestamp does not increase.
    #[error(transparent)]
    Time(#[from] TimestampError),
    /// The start time is before the end of genesis and market history.
    #[error("start time {start} is before {earliest}, when genesis and the market's history end: choose a later one")]
    StartTooEarly {
        /// Requested start, in seconds since the Unix epoch.
        start: u64,
        /// Earliest possible start, in seconds since the Unix epoch.
        earliest: u64,
    },
    /// A stored devnet cannot be used.
    #[error(transparent)]
    Kept(#[from] super::keep::KeptError),
    /// The genesis snapshot cannot be used.
    #[error(
        "the genesis snapshot cannot be used: {0}; rebuild Bardo, and if its contracts or its plan have changed, run \
         `cargo run --release --example genesis` first"
    )]
    Snapshot(super::snapshot::SnapshotError),
    /// The chain's plan does not contain the token.
    #[error("{chain} has no {token}")]
    NoSuchToken {
        /// Name of the chain.
        chain: &'static str,
        /// Key of the token.
        token: &'static str,
    },
    /// A planned V4 pool cannot be created from the deployed tokens and hooks.
    #[error("{chain} lacks a token or hook of a planned V4 pool, or the pool's ticks are out of range")]
    NoSuchPool {
        /// Name of the chain.
        chain: &'static str,
    },
    /// No salt gives a hook an address with its flags.
    #[error("no salt was found that gives {hook} an address with its flags")]
    NoHookAddress {
        /// Key of the hook.
        hook: &'static str,
    },
    /// A rehearsed network has no pools for a market.
    #[error(
        "{network} has no pools in which a market can trade (ether against USDC on Uniswap, with SwapRouter02 in the \
         address book): rehearse without --residents"
    )]
    NoMarket {
        /// Name of the network.
        network: String,
    },
    /// An actor of a rehearsal could not get a token, because the network could not be read.
    #[error("cannot give the market's actors {token}: {reason}")]
    Unfunded {
        /// Key of the token.
        token: &'static str,
        /// Cause of the failure.
        reason: bardo_base::text::SafeText,
    },
    /// A chain's thread could not be started.
    #[error(transparent)]
    Spawn(#[from] golem_chain::devnet::handle::SpawnError),
    /// A chain's builder thread panicked.
    #[error("a chain of the devnet could not be built: its builder stopped")]
    BuilderLost,
}
