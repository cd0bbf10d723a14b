//! Local simulation of calls on a pinned block: status, decoded revert, gas, logs and every change
//! that matters to an owner.
//!
//! A [`Fork`] is a block and the environment of the next one. [`Fork::simulate`] runs a plan of
//! calls in that environment, so that a transaction that is then the first of the next block does
//! exactly what was simulated. Nothing about the transaction leaves the process: over RPC, only
//! accounts and slots are read.
//!
//! | file | holds |
//! |---|---|
//! | `call` | what is simulated |
//! | `outcome` | what comes out |
//! | `revert` | reasons in words |
//! | `machine` | revm over layers of state |
//! | `shift` | balances that a simulation begins with and the chain does not have |
//! | `run` | one run of a plan, and what it may spend |
//! | `candidates`, `question`, `trail` | what to ask about changes |
//! | `changes`, `silence` | the answers, what they account for, and what nobody answers |
//! | `source`, `remote`, `pinned` | blocks to pin, state over JSON-RPC |
//! | `verify` | the values that a simulation read, compared on every endpoint |
//!
//! Not here: any opinion on what is safe (see `safety`), or anything that is sent (see `custody`).

mod call;
mod candidates;
mod changes;
mod machine;
mod outcome;
mod pinned;
mod question;
mod remote;
mod revert;
mod run;
mod shift;
mod silence;
mod source;
mod trail;
mod verify;

use std::sync::{Arc, LazyLock};

use alloy::{eips::BlockId, primitives::B256};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use call::{Call, CallError, Delegation, Fees, Payment};
pub use changes::{Limits, Watch};
pub use outcome::*;
pub use remote::{Hints, Remote, RemoteLimits};
pub use revert::{Errors, Meaning, Reason};
pub use shift::BalanceShift;
pub use source::{NextBlock, Source};

use crate::{
    devnet::{Snapshot, State},
    evm::{BlockContext, ChainRules, StandIn},
    provider::{Dispute, ProviderError},
};
use bardo_base::text::SafeText;
use pinned::{PinnedState, Speculated};
use run::{Effort, Place, run};

/// How many simulations of this process run at once: one per processor.
static RUNNING: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Characters kept of what another program said about a failure.
const MAX_TEXT: usize = 256;

/// A pinned block with its state, and the environment of the block that would follow it.
/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Fork {
    pinned: Pinned,
    rules: ChainRules,
    next: BlockContext,
    state: PinnedOn,
}

/// Where the state of the pinned block is.
#[derive(Debug, Clone)]
enum PinnedOn {
    /// In this process, whole.
    Devnet(Arc<State>),
    /// Behind an endpoint, cached.
    Remote(Arc<PinnedState>),
}

/// How a simulation is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// What to report in any case.
    pub watch: Watch,
    /// Bounds on the search for changes.
    pub limits: Limits,
    /// What to fetch before the first run, over RPC.
    pub hints: Hints,
    /// Signatures that will be made, for which [`PLACEHOLDER_SIGNATURE`](crate::evm::PLACEHOLDER_SIGNATURE)
    /// stands in the calldata. They exist in this one simulation only.
    pub signatures: Vec<StandIn>,
    /// Balances that differ from the chain's when the first call begins. They exist in this one simulation only.
    pub shifts: Vec<BalanceShift>,
}

/// Why there is no simulation. Whatever the reason: nothing is known about what the calls would do.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A chain would not include this transaction at all.
    #[error("call {index} cannot be a transaction in this block: {reason}")]
    Rejected {
        /// Which call of the plan, from 0.
        index: usize,
        /// What is wrong with it.
        reason: SafeText,
    },
    /// An endpoint could not be asked, or refused.
    #[error("the chain state could not be read: {0}")]
    Endpoint(#[from] ProviderError),
    /// An endpoint answered something that is not an answer.
    #[error("the chain state could not be read: {what}")]
    Malformed {
        /// What is wrong, in our words.
        what: String,
    },
    /// The endpoint does not have the block.
    #[error("the endpoint does not know block {block:?}: name one that exists, or wait until it has it")]
    UnknownBlock {
        /// What was asked for.
        block: BlockId,
    },
    /// Another chain answers there.
    #[error("wrong chain: expected id {expected}, found id {found}; correct the URL or the chain's name")]
    WrongChain {
        /// The id that was meant.
        expected: u64,
        /// The id the endpoint gives.
        found: u64,
    },
    /// The pinned block is no longer part of the chain.
    #[error("block {number} ({hash}) was replaced while its state was being read: pin the new one and simulate again")]
    Reorganised {
        /// Its height.
        number: u64,
        /// Its hash, as it was.
        hash: B256,
    },
    /// Endpoints of the chain give different values for what the calls read, and no majority of them agrees.
    #[error("{0}: find out which of them is wrong and remove it")]
    Disputed(Dispute),
    /// No endpoint answered when the values that the calls read were compared.
    #[error("no endpoint answered when the values that the simulation read were compared: try again")]
    Unverified,
    /// What the calls read depends on what they read, too many times over.
    #[error(
        "after {rounds} rounds of fetching, the calls still read state that is not there: simulate fewer or simpler calls"
    )]
    NotConverging {
        /// Rounds that were made.
        rounds: usize,
    },
    /// The state could not be read.
    #[error("the chain state could not be read: {0}")]
    State(SafeText),
    /// A balance is not kept in one storage slot, so that another one cannot be put in its place.
    #[error(
        "the balance of token {token} cannot be simulated as it is on paper: its contract does not keep it in one slot"
    )]
    Shift {
        /// The token's contract.
        token: alloy::primitives::Address,
    },
    /// The program is shutting down.
    #[error("the simulation was stopped before it ended: the program is shutting down")]
    Stopped,
    /// The virtual machine gave up.
    #[error("the virtual machine failed: {0}")]
    Machine(SafeText),
}

impl Fork {
    /// A fork of a devnet's block, on its state as it is.
    pub fn on_devnet(snapshot: Snapshot) -> Self {
        let Snapshot { rules, state, block, hash, next } = snapshot;
        let pinned = Pinned { chain_id: rules.chain_id, number: block.number, hash };
        Self { pinned, rules, next, state: PinnedOn::Devnet(Arc::new(state)) }
    }

    fn on_remote(pinned: Pinned, rules: ChainRules, next: BlockContext, state: Arc<PinnedState>) -> Self {
        Self { pinned, rules, next, state: PinnedOn::Remote(state) }
    }

    /// The block whose state is read.
    pub fn pinned(&self) -> Pinned {
        self.pinned
    }

    /// The environment calls run in.
    pub fn next_block(&self) -> BlockContext {
        self.next
    }

    /// Simulates `calls` one after the other, each as a transaction of its own, all in the next
    /// block, and reports what they change.
    ///
    /// # Errors
    /// See [`ForkError`]. A revert is an answer, not an error.
    pub async fn simulate(&self, calls: &[Call]) -> Result<Simulation, ForkError> {
        self.simulate_with(calls, &Options::default()).await
    }

    /// [`Fork::simulate`] with declarations and bounds of the caller's own.
    ///
    /// # Errors
    /// See [`ForkError`].
    pub async fn simulate_with(&self, calls: &[Call], options: &Options) -> Result<Simulation, ForkError> {
        let effort = Effort::of(&options.limits);
        // Whoever stops waiting takes this away, and the work ends soon after.
        let _awaited = effort.awaited();
        match &self.state {
            PinnedOn::Devnet(state) => {
                let state = Arc::clone(state);
                self.attempt(calls, options, &effort, move |fork, calls, options, effort, place| {
                    run(fork, &*state, calls, options, effort, place)
                })
                .await?
            }
            PinnedOn::Remote(state) => state.simulate(self, calls, options, &effort).await,
        }
    }

    /// One speculative run on a remote state.
    async fn speculate(
        &self,
        state: &Arc<PinnedState>,
        calls: &[Call],
        options: &Options,
        effort: &Arc<Effort>,
    ) -> Result<Speculated, ForkError> {
        let state = Arc::clone(state);
        self.attempt(calls, options, effort, move |fork, calls, options, effort, place| {
            state.run(fork, calls, options, effort, place)
        })
        .await
    }

    /// Does `work` where it is called if it is small, and otherwise on a thread that may block: a plan by its gas
    /// limits, questions by what they turn out to use.
    async fn attempt<T: Send + 'static>(
        &self,
        calls: &[Call],
        options: &Options,
        effort: &Arc<Effort>,
        work: impl Fn(&Self, &[Call], &Options, &Effort, Place) -> Option<T> + Send + 'static,
    ) -> Result<T, ForkError> {
        if run::may_run_here(calls, &options.limits) {
            let _running = permit().await?;
            if let Some(done) = work(self, calls, options, effort, Place::Here) {
                return Ok(done);
            }
        }
        let running = permit().await?;
        let (fork, calls, options, effort) = (self.clone(), calls.to_vec(), options.clone(), Arc::clone(effort));
        tokio::task::spawn_blocking(move || {
            // Held until the work is done, even if nobody waits for it any more.
            let _running = running;
            work(&fork, &calls, &options, &effort, Place::Elsewhere)
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
