//! Local simulation of calls on a pinned block: status, decoded revert, gas, logs, and all changes that matter to an
//! owner.
//!
//! A [`Fork`] is a block and the environment of the next one. [`Fork::simulate`] runs a plan of calls in that
//! environment. If the transaction becomes the first of the next block, it does exactly what was simulated. The
//! transaction stays in the process: only accounts and slots are read over RPC.
//!
//! | file | contents |
//! |---|---|
//! | `call` | calls to simulate |
//! | `outcome` | results of a simulation |
//! | `revert` | revert reasons as text |
//! | `machine` | revm over layers of state |
//! | `balance_delta` | initial balances that differ from the chain's |
//! | `run` | one run of a plan, and its limits |
//! | `candidates`, `ownership_query`, `storage_trace` | queries about possible changes |
//! | `changes`, `unanswered` | changes by the query results, their accounting, and unanswered queries |
//! | `source`, `remote`, `pinned` | blocks to pin, state over JSON-RPC |
//! | `holdings` | copying what an account holds to a stand-in |
//! | `origin` | the block that a local chain continues from, with a cache on disk |
//! | `verify` | comparison of the read values on all endpoints |
//!
//! Not here: safety rules (see `safety`) and signing (see `custody`).

mod balance_delta;
mod call;
mod candidates;
mod changes;
pub mod holdings;
mod machine;
pub mod origin;
mod outcome;
mod ownership_query;
pub(crate) mod pinned;
mod remote;
mod revert;
mod run;
mod source;
mod storage_trace;
mod unanswered;
mod verify;

use std::sync::{Arc, LazyLock};

use alloy::{
    eips::BlockId,
    primitives::{Address, B256, U256},
};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use balance_delta::BalanceDelta;
pub use call::{CallError, CallFees, CodeDelegation, ForkCall, GasPayment};
pub use changes::{DetectionLimits, WatchList};
pub use outcome::*;
pub use remote::{PrefetchHints, RemoteLimits, RemoteState};
pub use revert::{KnownErrors, RevertMeaning, RevertReason};
pub use source::{ForkSource, NextBlock};

use crate::{
    devnet::{ForkPoint, WorldState},
    evm::{BlockContext, ChainRules, SignaturePlaceholder},
    provider::{Dispute, ProviderError},
};
use bardo_base::text::SafeText;
use pinned::{MissedValues, PinnedState, SpeculationResult};
use run::{RunBudget, RunThread, run};

/// Limit on concurrent simulations of this process: one per processor.
static RUNNING: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Maximum length of an external error message, in characters.
const MAX_TEXT: usize = 256;

/// A pinned block with its state, and the environment of the following block. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Fork {
    pinned: PinnedBlock,
    rules: ChainRules,
    next: BlockContext,
    state: PinnedOrigin,
}

/// Location of the pinned block's state.
#[derive(Debug, Clone)]
enum PinnedOrigin {
    /// The complete state, in this process.
    Devnet(Arc<WorldState>),
    /// State behind an endpoint, with a cache.
    Remote(Arc<PinnedState>),
}

/// Options of a simulation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimulationOptions {
    /// Items to report in any case.
    pub watch: WatchList,
    /// Limits on the search for changes.
    pub limits: DetectionLimits,
    /// State to fetch before the first run, over RPC.
    pub hints: PrefetchHints,
    /// Future signatures, for which [`PLACEHOLDER_SIGNATURE`](crate::evm::PLACEHOLDER_SIGNATURE) stands in the
    /// calldata. They apply to this simulation only.
    pub signatures: Vec<SignaturePlaceholder>,
    /// Initial balances that differ from the chain's. They apply to this simulation only.
    pub shifts: Vec<BalanceDelta>,
    /// Storage slots that differ from the chain's. They apply to this simulation only.
    pub slots: Vec<SlotOverride>,
}

/// Value of a storage slot in a simulation, instead of the chain's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOverride {
    /// Contract whose storage it is.
    pub contract: Address,
    /// Slot of its storage.
    pub slot: U256,
    /// Value before the first call.
    pub value: U256,
}

/// Error that prevented a simulation. The effects of the calls are then unknown.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A chain would not include this transaction at all.
    #[error("call {index} cannot be a transaction in this block: {reason}")]
    Rejected {
        /// Index of the call in the plan, from 0.
        index: usize,
        /// Reason for the rejection.
        reason: SafeText,
    },
    /// An endpoint could not be reached, or refused.
    #[error("the chain state could not be read: {0}")]
    Endpoint(#[from] ProviderError),
    /// An endpoint returned an invalid answer.
    #[error("the chain state could not be read: {what}")]
    Malformed {
        /// Description of the problem.
        what: String,
    },
    /// The endpoint does not have the block.
    #[error("the endpoint does not know block {block:?}: use an existing block, or wait until the endpoint has it")]
    UnknownBlock {
        /// The requested block.
        block: BlockId,
    },
    /// The endpoint belongs to another chain.
    #[error("wrong chain: expected id {expected}, found id {found}; correct the URL or the chain's name")]
    WrongChain {
        /// Id of the expected chain.
        expected: u64,
        /// Chain id that the endpoint returned.
        found: u64,
    },
    /// The pinned block is no longer part of the chain.
    #[error(
        "block {number} ({hash}) was replaced while its state was being read: pin the new block and simulate again"
    )]
    Reorganised {
        /// Height of the replaced block.
        number: u64,
        /// Hash of the replaced block.
        hash: B256,
    },
    /// Endpoints give different values for state that the calls read, without a majority.
    #[error("{0}: find the wrong endpoint and remove it")]
    Disputed(Dispute),
    /// No endpoint answered when the values that the calls read were compared.
    #[error("no endpoint responded when comparing the values that the simulation read: try again")]
    Unverified,
    /// The calls kept reading missing state after the maximum number of fetch rounds.
    #[error("after {rounds} rounds of fetching, the calls still read missing state: simulate fewer or simpler calls")]
    NotConverging {
        /// Number of fetch rounds.
        rounds: usize,
    },
    /// Failure of the state source.
    #[error("the chain state could not be read: {0}")]
    State(SafeText),
    /// A token does not keep balances in single storage slots, so another balance cannot be set.
    #[error("the paper balance of token {token} cannot be simulated: its contract does not store balances in one slot")]
    Shift {
        /// Address of the token.
        token: alloy::primitives::Address,
    },
    /// The process is shutting down.
    #[error("the simulation was stopped: the process is shutting down")]
    Stopped,
    /// Internal failure of the EVM.
    #[error("the virtual machine failed: {0}")]
    Machine(SafeText),
}

impl Fork {
    /// Creates a fork of a devnet's block, with the devnet's state.
    pub fn on_devnet(snapshot: ForkPoint) -> Self {
        let ForkPoint { rules, state, block, hash, next } = snapshot;
        let pinned = PinnedBlock { chain_id: rules.chain_id, number: block.number, hash };
        Self { pinned, rules, next, state: PinnedOrigin::Devnet(Arc::new(state)) }
    }

    fn on_remote(pinned: PinnedBlock, rules: ChainRules, next: BlockContext, state: Arc<PinnedState>) -> Self {
        Self { pinned, rules, next, state: PinnedOrigin::Remote(state) }
    }

    /// The block whose state is read.
    pub fn pinned(&self) -> PinnedBlock {
        self.pinned
    }

    /// Environment in which calls run.
    pub fn next_block(&self) -> BlockContext {
        self.next
    }

    /// The same state, with these properties of the block in which calls run.
    #[must_use]
    pub fn in_block(&self, next: NextBlock) -> Self {
        let mut fork = self.clone();
        next.correct(&mut fork.next);
        fork
    }

    /// Simulates `calls` in sequence, each as a transaction of its own, all in the next block, and reports their
    /// changes.
    ///
    /// # Errors
    /// A [`ForkError`] if the simulation could not run. A revert is a result, not an error.
    pub async fn simulate(&self, calls: &[ForkCall]) -> Result<Simulation, ForkError> {
        self.simulate_with(calls, &SimulationOptions::default()).await
    }

    /// Like [`Fork::simulate`], with options.
    ///
    /// # Errors
    /// As [`Fork::simulate`].
    pub async fn simulate_with(
        &self,
        calls: &[ForkCall],
        options: &SimulationOptions,
    ) -> Result<Simulation, ForkError> {
        let budget = RunBudget::of(&options.limits);
        // When the caller stops waiting, this guard is dropped and the work ends soon after.
        let _caller = budget.caller_guard();
        match &self.state {
            PinnedOrigin::Devnet(state) if state.has_origin() => self.discover(state, calls, options, &budget).await,
            PinnedOrigin::Devnet(state) => {
                let state = Arc::clone(state);
                self.attempt(calls, options, &budget, move |fork, calls, options, budget, thread| {
                    run(fork, &*state, calls, options, budget, thread)
                })
                .await?
            }
            PinnedOrigin::Remote(state) => state.simulate(self, calls, options, &budget).await,
        }
    }

    /// Runs the calls on the state of a forked devnet, after fetching what they read of its origin.
    async fn discover(
        &self,
        state: &Arc<WorldState>,
        calls: &[ForkCall],
        options: &SimulationOptions,
        budget: &Arc<RunBudget>,
    ) -> Result<Simulation, ForkError> {
        let unread = |error: origin::OriginError| ForkError::State(SafeText::clean(&error.to_string(), MAX_TEXT));
        state.fetch_ahead(PinnedState::foreseen(&self.next, calls, options)).await;
        let (rounds, guesses) = origin::rounds();
        for _ in 0..rounds {
            let mut round = MissedValues::default();
            for guess in guesses {
                let speculating = Arc::new(state.speculating(guess));
                let running = Arc::clone(&speculating);
                let result = self
                    .attempt(calls, options, budget, move |fork, calls, options, budget, thread| {
                        run(fork, &*running, calls, options, budget, thread)
                    })
                    .await?;
                if round.add(speculating.take_missed()) {
                    return result;
                }
            }
            let (needed, others) = round.into_parts();
            state.fetch_with(needed, others).await.map_err(unread)?;
        }
        Err(ForkError::NotConverging { rounds })
    }

    /// Runs the calls once, speculatively, on a remote state.
    async fn speculate(
        &self,
        state: &Arc<PinnedState>,
        calls: &[ForkCall],
        options: &SimulationOptions,
        budget: &Arc<RunBudget>,
    ) -> Result<SpeculationResult, ForkError> {
        let state = Arc::clone(state);
        self.attempt(calls, options, budget, move |fork, calls, options, budget, thread| {
            state.run(fork, calls, options, budget, thread)
        })
        .await
    }

    /// Does small `work` on the calling thread, and larger work on a blocking thread. The gas limits of the plan decide
    /// first, then the gas of the queries.
    async fn attempt<T: Send + 'static>(
        &self,
        calls: &[ForkCall],
        options: &SimulationOptions,
        budget: &Arc<RunBudget>,
        work: impl Fn(&Self, &[ForkCall], &SimulationOptions, &RunBudget, RunThread) -> Option<T> + Send + 'static,
    ) -> Result<T, ForkError> {
        if run::may_run_on_caller(calls, &options.limits) {
            let _running = permit().await?;
            if let Some(done) = work(self, calls, options, budget, RunThread::Caller) {
                return Ok(done);
            }
        }
        let running = permit().await?;
        let (fork, calls, options, budget) = (self.clone(), calls.to_vec(), options.clone(), Arc::clone(budget));
        tokio::task::spawn_blocking(move || {
            // The permit is held until the work is done, even if the caller stops waiting.
            let _running = running;
            work(&fork, &calls, &options, &budget, RunThread::Blocking)
        })
        .await
        .ok()
        .flatten()
        .ok_or(ForkError::Stopped)
    }
}

async fn permit() -> Result<SemaphorePermit<'static>, ForkError> {
    RUNNING.acquire().await.map_err(|_| ForkError::Stopped)
}
