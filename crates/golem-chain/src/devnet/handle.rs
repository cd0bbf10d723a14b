//! A chain on its own thread, and the handle to it. The handle is cheap to clone, and the thread ends with the last
//! clone.
//!
//! Everything that accesses the chain runs on its thread in sequence: closures given to [`Devnet::run`], JSON-RPC
//! requests, and block production.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use alloy::eips::BlockId;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

use super::block::Block;
use super::chain::{Chain, ChainConfig, ForkPoint};
use super::error::BlockError;
use super::events::ChainEvent;
use super::filters::FilterSet;
use super::keep::KeptChain;
use super::rpc::{self, Answer, RpcError, RpcResult, Work};
use super::state::InvalidCode;
use crate::fork::origin::Origin;
use bardo_base::clock::{Clock, SystemClock};

/// Events that a slow subscriber may be behind before it loses some: twice the size of the journal. All events of one
/// command then fit along with as many unread ones.
const EVENT_BACKLOG: usize = 8_192;

/// Maximum number of requests processed in parallel outside of the chain's thread.
const WORKERS: usize = 2;

/// Stack size of a worker thread, in bytes: traces nest as deeply as calls, up to 1,024.
const WORKER_STACK: usize = 32 << 20;

/// Maximum number of consecutive blocks mined on transactions before the next command runs.
const MAX_BLOCKS_AT_ONCE: usize = 256;

/// Mode of block production.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MiningMode {
    /// A block at each interval.
    Interval(Duration),
    /// A block as soon as a transaction can be included.
    OnTransaction,
    /// Blocks on request only.
    Manual,
}

/// Blocks before which the block hook runs, in addition to those mined by interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookPolicy {
    /// Blocks mined because of a transaction.
    pub on_transaction: bool,
    /// Blocks requested through JSON-RPC (`evm_mine`, `anvil_mine`).
    pub on_request: bool,
}

/// Function that runs on the chain's thread before a block is sealed. It may submit transactions, which are then part
/// of that block, and must not mine.
pub type BlockHook = Box<dyn FnMut(&mut Chain) + Send>;

/// Configuration of a new devnet.
pub struct DevnetConfig {
    /// Configuration of the chain.
    pub chain: ChainConfig,
    /// Configuration of the running chain.
    pub running: RunningConfig,
}

/// Configuration of a running chain.
pub struct RunningConfig {
    /// Mode of block production.
    pub mining: MiningMode,
    /// Source of timestamps; with `None` each block is one second later, which is reproducible.
    pub clock: Option<Arc<dyn Clock>>,
    /// Block hook, and the blocks before which it runs.
    pub hook: Option<(BlockHook, HookPolicy)>,
}

impl Default for RunningConfig {
    fn default() -> Self {
        Self { mining: MiningMode::OnTransaction, clock: Some(Arc::new(SystemClock)), hook: None }
    }
}

/// Error for a chain that cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DevnetStopped {
    /// The chain's thread has ended.
    #[error("the devnet's chain has stopped")]
    Stopped,
    /// The call came from the chain's own thread and would wait forever.
    #[error("the devnet was asked to wait for itself: a block hook must use the chain it is given")]
    FromOwnThread,
}

/// Error for a devnet that could not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The code of a genesis contract is invalid.
    #[error("genesis: {0}")]
    Genesis(#[from] InvalidCode),
    /// The thread could not be started.
    #[error("cannot start the chain's thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Handle to a running chain; see the module's documentation.
#[derive(Clone)]
pub struct Devnet {
    shared: Arc<Shared>,
}

struct Shared {
    chain_id: u64,
    origin: Option<Arc<Origin>>,
    commands: mpsc::Sender<DevnetCommand>,
    events: broadcast::Sender<ChainEvent>,
    head: watch::Receiver<Arc<Block>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    thread_id: ThreadId,
    /// Permits for work outside of the chain's thread.
    workers: Arc<Semaphore>,
}

enum DevnetCommand {
    Run(Box<dyn FnOnce(&mut DevnetThread) + Send>),
    Stop,
}

/// Data owned by the thread: the chain and its environment.
pub(super) struct DevnetThread {
    pub(super) chain: Chain,
    pub(super) filters: FilterSet,
    pub(super) description: Option<Arc<Value>>,
    /// Random id of this run of the node.
    pub(super) instance: [u8; 32],
    mining: MiningMode,
    next_block: Option<Instant>,
    clock: Option<Arc<dyn Clock>>,
    hook: Option<(BlockHook, HookPolicy)>,
    published: u64,
    events: broadcast::Sender<ChainEvent>,
    head: watch::Sender<Arc<Block>>,
    /// Storage on disk; `None` for a chain in memory.
    kept: Option<KeptChain>,
    /// The chain could not be stored: the thread ends, and nothing that is not on disk is published.
    is_lost: bool,
}

impl Devnet {
    /// Creates a chain and starts its thread.
    ///
    /// # Errors
    /// [`SpawnError`] if a genesis contract is invalid or the thread cannot start.
    pub fn spawn(config: DevnetConfig) -> Result<Self, SpawnError> {
        Self::adopt(Chain::new(config.chain)?, config.running)
    }

    /// Starts a thread for an existing chain.
    ///
    /// # Errors
    /// [`SpawnError::Thread`] if the thread cannot start.
    pub fn adopt(chain: Chain, config: RunningConfig) -> Result<Self, SpawnError> {
        Self::start(chain, config, None)
    }

    /// Like [`adopt`](Self::adopt), for a chain that is stored on disk. A block is published or reported only once it
    /// is on disk; if that fails, the chain stops. A checkpoint is written at the end.
    ///
    /// # Errors
    /// [`SpawnError::Thread`] if the thread cannot start.
    pub fn adopt_kept(chain: Chain, config: RunningConfig, kept: KeptChain) -> Result<Self, SpawnError> {
        Self::start(chain, config, Some(kept))
    }

    fn start(mut chain: Chain, config: RunningConfig, kept: Option<KeptChain>) -> Result<Self, SpawnError> {
        let (commands, inbox) = mpsc::channel();
        let (events, _) = broadcast::channel(EVENT_BACKLOG);
        let (head_sender, head) = watch::channel(Arc::clone(chain.head()));
        let (chain_id, origin) = (chain.rules().chain_id, chain.origin().cloned());
        chain.begin();
        let mut engine = DevnetThread {
            published: chain.journal().end(),
            chain,
            filters: FilterSet::default(),
            description: None,
            instance: rand::random(),
            mining: MiningMode::Manual,
            next_block: None,
            clock: config.clock,
            hook: config.hook,
            events: events.clone(),
            head: head_sender,
            kept,
            is_lost: false,
        };
        engine.set_mining(config.mining);
        let thread =
            std::thread::Builder::new().name(format!("chain-{chain_id}")).spawn(move || engine.serve(&inbox))?;
        let thread_id = thread.thread().id();
        let thread = Mutex::new(Some(thread));
        let workers = Arc::new(Semaphore::new(WORKERS));
        Ok(Self { shared: Arc::new(Shared { chain_id, origin, commands, events, head, thread, thread_id, workers }) })
    }

    /// Origin of a fork; `None` for a chain of its own.
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.shared.origin.as_ref()
    }

    /// EIP-155 id of the chain.
    pub fn chain_id(&self) -> u64 {
        self.shared.chain_id
    }

    /// Runs `work` on the chain's thread and returns its result. In the mode [`MiningMode::OnTransaction`], ready
    /// transactions are mined afterwards.
    ///
    /// # Errors
    /// [`DevnetStopped`] if the chain has stopped, or from the chain's own thread.
    pub async fn run<T, Work>(&self, work: Work) -> Result<T, DevnetStopped>
    where
        T: Send + 'static,
        Work: FnOnce(&mut Chain) -> T + Send + 'static,
    {
        self.engine(move |engine| work(&mut engine.chain)).await
    }

    /// Like [`run`](Self::run), for synchronous callers. It blocks, so it must not be called in a future.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub fn run_blocking<T, Work>(&self, work: Work) -> Result<T, DevnetStopped>
    where
        T: Send + 'static,
        Work: FnOnce(&mut Chain) -> T + Send + 'static,
    {
        self.check_thread()?;
        let (answer, question) = mpsc::sync_channel(1);
        self.send(Box::new(move |engine| {
            let result = work(&mut engine.chain);
            if engine.may_answer() {
                // The caller may no longer wait for the result.
                let _ = answer.send(result);
            }
        }))?;
        question.recv().map_err(|_| DevnetStopped::Stopped)
    }

    /// Starting point for a fork at `block`.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run); inside, [`BlockError`] if the block is not available.
    pub async fn snapshot(&self, block: BlockId) -> Result<Result<ForkPoint, BlockError>, DevnetStopped> {
        self.run(move |chain| chain.snapshot(block)).await
    }

    /// Sets the mode of block production.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub async fn set_mining(&self, mining: MiningMode) -> Result<(), DevnetStopped> {
        self.engine(move |engine| engine.set_mining(mining)).await
    }

    /// Current mode of block production.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub async fn mining(&self) -> Result<MiningMode, DevnetStopped> {
        self.engine(|engine| engine.mining()).await
    }

    /// Mines the next block, with the block hook.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub async fn mine(&self) -> Result<Arc<Block>, DevnetStopped> {
        self.engine(DevnetThread::mine_with_hook).await
    }

    /// Sets the block hook, replacing an earlier one.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub async fn set_block_hook(&self, hook: BlockHook, policy: HookPolicy) -> Result<(), DevnetStopped> {
        self.engine(move |engine| engine.hook = Some((hook, policy))).await
    }

    /// Removes the block hook.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub async fn clear_block_hook(&self) -> Result<(), DevnetStopped> {
        self.engine(|engine| engine.hook = None).await
    }

    /// Sets the result of `bardo_describe`.
    ///
    /// # Errors
    /// [`DevnetStopped`] as for [`run`](Self::run).
    pub async fn set_description(&self, description: Value) -> Result<(), DevnetStopped> {
        self.engine(move |engine| engine.description = Some(Arc::new(description))).await
    }

    /// Subscribes to all events from now on. A slow receiver is informed of the number of lost events.
    pub fn events(&self) -> broadcast::Receiver<ChainEvent> {
        self.shared.events.subscribe()
    }

    /// Watches the newest block.
    pub fn head(&self) -> watch::Receiver<Arc<Block>> {
        self.shared.head.clone()
    }

    /// Runs `work` on the chain's thread, with the chain's environment.
    pub(super) async fn engine<T, Work>(&self, work: Work) -> Result<T, DevnetStopped>
    where
        T: Send + 'static,
        Work: FnOnce(&mut DevnetThread) -> T + Send + 'static,
    {
        self.check_thread()?;
        let (answer, question) = oneshot::channel();
        self.send(Box::new(move |engine| {
            let result = work(engine);
            if engine.may_answer() {
                // The caller may no longer wait for the result.
                let _ = answer.send(result);
            }
        }))?;
        question.await.map_err(|_| DevnetStopped::Stopped)
    }

    /// Executes one JSON-RPC request.
    pub(super) async fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> Result<RpcResult, DevnetStopped> {
        if let Err(error) = self.read_ahead(&method, params.as_deref()).await? {
            return Ok(Err(error));
        }
        let answer = self.engine(move |engine| rpc::dispatch(engine, &method, params.as_deref())).await?;
        self.complete(answer).await
    }

    /// Completes an answer that needs more work.
    pub(super) async fn complete(&self, mut answer: Answer) -> Result<RpcResult, DevnetStopped> {
        loop {
            answer = match answer {
                Answer::Now(result) => return Ok(result),
                Answer::Elsewhere(work) => return Ok(self.work(work).await),
                Answer::Later(part) => self.engine(part).await?,
            };
        }
    }

    /// Runs `work` on a thread of its own once a permit is free.
    async fn work(&self, work: Work) -> RpcResult {
        let failed = |what: &str| Err(RpcError::internal(what));
        let Ok(place) = Arc::clone(&self.shared.workers).acquire_owned().await else {
            return failed("the node is shutting down");
        };
        let (answer, question) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name("chain-worker".to_owned()).stack_size(WORKER_STACK).spawn(move || {
                // The caller may no longer wait; the permit is held until the work is done in any case.
                let _ = answer.send(work());
                drop(place);
            });
        if thread.is_err() {
            return failed("no thread could be started for this request");
        }
        question.await.unwrap_or_else(|_| failed("the request could not be completed"))
    }

    fn send(&self, work: Box<dyn FnOnce(&mut DevnetThread) + Send>) -> Result<(), DevnetStopped> {
        self.shared.commands.send(DevnetCommand::Run(work)).map_err(|_| DevnetStopped::Stopped)
    }

    fn check_thread(&self) -> Result<(), DevnetStopped> {
        if std::thread::current().id() == self.shared.thread_id {
            return Err(DevnetStopped::FromOwnThread);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Devnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devnet").field("chain_id", &self.shared.chain_id).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.commands.send(DevnetCommand::Stop);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && std::thread::current().id() != self.thread_id
        {
            // The thread has reported its panic itself.
            let _ = thread.join();
        }
    }
}

impl DevnetThread {
    fn serve(mut self, inbox: &mpsc::Receiver<DevnetCommand>) {
        loop {
            let command = match self.next_block {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    // A due block precedes commands; otherwise a busy client could stop the time.
                    None | Some(Duration::ZERO) => Err(RecvTimeoutError::Timeout),
                    Some(wait) => inbox.recv_timeout(wait),
                },
            };
            match command {
                Ok(DevnetCommand::Run(work)) => {
                    self.read_clock();
                    work(&mut self);
                    self.settle();
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.read_clock();
                    self.mine_with_hook();
                    self.schedule();
                }
                Ok(DevnetCommand::Stop) | Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            self.keep();
            if self.is_lost {
                return;
            }
            self.publish();
        }
    }

    /// Stores recent changes if the chain is on disk; false if that failed.
    fn may_answer(&mut self) -> bool {
        if self.kept.is_some() {
            self.settle();
            self.keep();
        }
        !self.is_lost
    }

    fn keep(&mut self) {
        if let Some(kept) = &mut self.kept
            && !self.is_lost
            && let Err(error) = kept.keep(&self.chain)
        {
            tracing::error!(chain = self.chain.rules().chain_id, %error, "the chain stops: its state cannot be saved");
            self.is_lost = true;
        }
    }

    fn close(mut self) {
        if let Some(kept) = &mut self.kept
            && let Err(error) = kept.write_checkpoint(&self.chain)
        {
            // Published blocks are in the log; direct state changes since the last block are lost.
            tracing::error!(chain = self.chain.rules().chain_id, %error, "the chain's last checkpoint was not written");
        }
    }

    /// Resets the chain to its state at the start of the thread.
    pub(super) fn reset(&mut self) {
        self.chain.reset();
        self.instance = rand::random();
    }

    pub(super) fn mining(&self) -> MiningMode {
        self.mining
    }

    pub(super) fn set_mining(&mut self, mining: MiningMode) {
        self.mining = mining;
        self.next_block = None;
        self.schedule();
    }

    /// Runs the block hook and mines the next block.
    pub(super) fn mine_with_hook(&mut self) -> Arc<Block> {
        if let Some((hook, _)) = &mut self.hook {
            hook(&mut self.chain);
        }
        self.chain.mine()
    }

    /// Mines the next block on a client's request.
    pub(super) fn mine_on_request(&mut self) -> Arc<Block> {
        if self.hook.as_ref().is_some_and(|(_, policy)| policy.on_request) {
            self.mine_with_hook()
        } else {
            self.chain.mine()
        }
    }

    /// Mines the blocks that are due in the mode [`MiningMode::OnTransaction`].
    pub(super) fn settle(&mut self) {
        // The limit keeps a hook that always submits transactions from blocking all commands.
        for _ in 0..MAX_BLOCKS_AT_ONCE {
            if self.mining != MiningMode::OnTransaction || !self.chain.has_ready() {
                return;
            }
            if self.hook.as_ref().is_some_and(|(_, policy)| policy.on_transaction) {
                self.mine_with_hook();
            } else {
                self.chain.mine();
            }
            // A transaction that needs an unreadable value of the origin would be tried again and again.
            if self.chain.origin().is_some() && self.chain.head().transactions.is_empty() {
                return;
            }
        }
    }

    fn schedule(&mut self) {
        if let MiningMode::Interval(interval) = self.mining {
            let now = Instant::now();
            // Based on the planned time, so that delays do not add up. After a suspension, the missed blocks are
            // skipped.
            let planned = self.next_block.unwrap_or(now) + interval;
            self.next_block = Some(if planned > now { planned } else { now + interval });
        }
    }

    fn read_clock(&mut self) {
        if let Some(clock) = &self.clock {
            self.chain.set_wall(clock.now_seconds());
        }
    }

    fn publish(&mut self) {
        let end = self.chain.journal().end();
        if end == self.published {
            return;
        }
        // One command can cause more events than the journal keeps; the number of lost ones is reported.
        let first = self.chain.journal().first();
        let missed = first.saturating_sub(self.published);
        let missed = (missed > 0).then_some(ChainEvent::Missed(missed));
        let events = self.chain.journal().since(self.published.max(first)).into_iter().flatten().cloned();
        for event in missed.into_iter().chain(events) {
            // Sending fails only if there are no subscribers.
            let _ = self.events.send(event);
        }
        self.published = end;
        self.head.send_replace(Arc::clone(self.chain.head()));
    }
}
