//! A chain on a thread of its own, and the handle to it: cheap to clone, the thread ends with the
//! last clone.
//!
//! Everything that touches the chain runs on its thread, one thing after another: closures given
//! to [`Devnet::run`], JSON-RPC requests, and the making of blocks.

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
use super::chain::{Chain, ChainConfig, Snapshot};
use super::error::BlockError;
use super::events::ChainEvent;
use super::filters::Filters;
use super::keep::KeptChain;
use super::rpc::{self, Answer, RpcError, RpcResult, Work};
use super::state::InvalidCode;
use bardo_base::clock::{Clock, SystemClock};

/// How many events a slow subscriber may be behind before it misses some: twice what the journal
/// keeps, so that all one command can tell of fits beside as much that is still unread.
const EVENT_BACKLOG: usize = 8_192;

/// Requests worked on at a time beside the chain's thread.
const WORKERS: usize = 2;

/// Stack of a thread that works on a request, in bytes: traces are as deep as calls nest, 1,024 at most.
const WORKER_STACK: usize = 32 << 20;

/// How many blocks in a row are made on transaction before the next command gets its turn.
const MAX_BLOCKS_AT_ONCE: usize = 256;

/// When blocks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mining {
    /// One each time this long has passed.
    Interval(Duration),
    /// One as soon as a transaction can go into it.
    OnTransaction,
    /// Only when somebody asks.
    Manual,
}

/// Before which blocks the block hook runs, besides those made by interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookPolicy {
    /// Blocks made because a transaction came.
    pub on_transaction: bool,
    /// Blocks asked for through JSON-RPC (`evm_mine`, `anvil_mine`).
    pub on_request: bool,
}

/// What runs in the chain's thread right before a block is sealed: it may submit transactions,
/// which are then part of that block, and must not mine.
pub type BlockHook = Box<dyn FnMut(&mut Chain) + Send>;

/// How a devnet begins.
pub struct DevnetConfig {
    /// The chain.
    pub chain: ChainConfig,
    /// How it goes on.
    pub running: RunningConfig,
}

/// How a chain runs once it has a thread.
pub struct RunningConfig {
    /// When blocks are made.
    pub mining: Mining,
    /// Where timestamps come from; `None` counts one second a block, and is the same on every run.
    pub clock: Option<Arc<dyn Clock>>,
    /// Whom to let act before blocks, and which.
    pub hook: Option<(BlockHook, HookPolicy)>,
}

impl Default for RunningConfig {
    fn default() -> Self {
        Self { mining: Mining::OnTransaction, clock: Some(Arc::new(SystemClock)), hook: None }
    }
}

/// The chain's thread is no longer there, or the call came from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DevnetGone {
    /// It has ended.
    #[error("the devnet's chain has stopped")]
    Stopped,
    /// Waiting for oneself takes for ever.
    #[error("the devnet was asked to wait for itself: a block hook must use the chain it is given")]
    FromOwnThread,
}

/// A devnet that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A genesis code that cannot be.
    #[error("genesis: {0}")]
    Genesis(#[from] InvalidCode),
    /// No thread.
    #[error("cannot start the chain's thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// The handle. See the module's documentation.
#[derive(Clone)]
pub struct Devnet {
    shared: Arc<Shared>,
}

struct Shared {
    chain_id: u64,
    commands: mpsc::Sender<Command>,
    events: broadcast::Sender<ChainEvent>,
    head: watch::Receiver<Arc<Block>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    thread_id: ThreadId,
    /// Places for what is worked on beside the chain's thread.
    workers: Arc<Semaphore>,
}

enum Command {
    Run(Box<dyn FnOnce(&mut Engine) + Send>),
    Stop,
}

/// What lives on the thread: the chain and what surrounds it.
pub(super) struct Engine {
    pub(super) chain: Chain,
    pub(super) filters: Filters,
    pub(super) description: Option<Arc<Value>>,
    /// Tells one run of a node from another.
    pub(super) instance: [u8; 32],
    mining: Mining,
    next_block: Option<Instant>,
    clock: Option<Arc<dyn Clock>>,
    hook: Option<(BlockHook, HookPolicy)>,
    published: u64,
    events: broadcast::Sender<ChainEvent>,
    head: watch::Sender<Arc<Block>>,
    /// Where the chain is kept.
    kept: Option<KeptChain>,
    /// The chain could not be kept: the thread ends, and nothing that is not on disk is shown.
    is_lost: bool,
}

impl Devnet {
    /// Begins a chain and gives it a thread.
    pub fn spawn(config: DevnetConfig) -> Result<Self, SpawnError> {
        Self::adopt(Chain::new(config.chain)?, config.running)
    }

    /// Gives a thread to a chain that has begun, however far it has come.
    pub fn adopt(chain: Chain, config: RunningConfig) -> Result<Self, SpawnError> {
        Self::start(chain, config, None)
    }

    /// [`adopt`](Self::adopt) of a chain that is kept on disk: no block, and no answer that could tell of one, leaves the
    /// thread before the block is there. Where that fails, the chain stops. Its end is a checkpoint.
    pub fn adopt_kept(chain: Chain, config: RunningConfig, kept: KeptChain) -> Result<Self, SpawnError> {
        Self::start(chain, config, Some(kept))
    }

    fn start(mut chain: Chain, config: RunningConfig, kept: Option<KeptChain>) -> Result<Self, SpawnError> {
        let (commands, inbox) = mpsc::channel();
        let (events, _) = broadcast::channel(EVENT_BACKLOG);
        let (head_sender, head) = watch::channel(Arc::clone(chain.head()));
        let chain_id = chain.rules().chain_id;
        chain.begin();
        let mut engine = Engine {
            published: chain.journal().end(),
            chain,
            filters: Filters::default(),
            description: None,
            instance: rand::random(),
            mining: Mining::Manual,
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
        Ok(Self { shared: Arc::new(Shared { chain_id, commands, events, head, thread, thread_id, workers }) })
    }

    /// The chain's id.
    pub fn chain_id(&self) -> u64 {
        self.shared.chain_id
    }

    /// Runs `work` on the chain's thread and waits for what it returns. Where blocks are made on
    /// transaction, one is made after `work` if it has left any transaction that is ready.
    pub async fn run<T, Work>(&self, work: Work) -> Result<T, DevnetGone>
    where
        T: Send + 'static,
        Work: FnOnce(&mut Chain) -> T + Send + 'static,
    {
        self.engine(move |engine| work(&mut engine.chain)).await
    }

    /// [`run`](Self::run) for those who are not in a future. Never call it from one: it blocks.
    pub fn run_blocking<T, Work>(&self, work: Work) -> Result<T, DevnetGone>
    where
        T: Send + 'static,
        Work: FnOnce(&mut Chain) -> T + Send + 'static,
    {
        self.check_thread()?;
        let (answer, question) = mpsc::sync_channel(1);
        self.send(Box::new(move |engine| {
            let result = work(&mut engine.chain);
            if engine.may_answer() {
                // Whoever asked may have gone; then nobody needs the answer.
                let _ = answer.send(result);
            }
        }))?;
        question.recv().map_err(|_| DevnetGone::Stopped)
    }

    /// What a fork at `block` starts from.
    pub async fn snapshot(&self, block: BlockId) -> Result<Result<Snapshot, BlockError>, DevnetGone> {
        self.run(move |chain| chain.snapshot(block)).await
    }

    /// Changes when blocks are made.
    pub async fn set_mining(&self, mining: Mining) -> Result<(), DevnetGone> {
        self.engine(move |engine| engine.set_mining(mining)).await
    }

    /// When blocks are made.
    pub async fn mining(&self) -> Result<Mining, DevnetGone> {
        self.engine(|engine| engine.mining()).await
    }

    /// Makes the next block, block hook included.
    pub async fn mine(&self) -> Result<Arc<Block>, DevnetGone> {
        self.engine(Engine::mine_with_hook).await
    }

    /// Lets `hook` act before blocks, in the place of whoever did before.
    pub async fn set_block_hook(&self, hook: BlockHook, policy: HookPolicy) -> Result<(), DevnetGone> {
        self.engine(move |engine| engine.hook = Some((hook, policy))).await
    }

    /// Lets nobody act before blocks.
    pub async fn clear_block_hook(&self) -> Result<(), DevnetGone> {
        self.engine(|engine| engine.hook = None).await
    }

    /// What `bardo_describe` answers.
    pub async fn set_description(&self, description: Value) -> Result<(), DevnetGone> {
        self.engine(move |engine| engine.description = Some(Arc::new(description))).await
    }

    /// Everything that happens from now on. A receiver that is too slow is told how much it missed.
    pub fn events(&self) -> broadcast::Receiver<ChainEvent> {
        self.shared.events.subscribe()
    }

    /// The newest block, always.
    pub fn head(&self) -> watch::Receiver<Arc<Block>> {
        self.shared.head.clone()
    }

    /// Runs `work` on the chain's thread, with all that surrounds the chain.
    pub(super) async fn engine<T, Work>(&self, work: Work) -> Result<T, DevnetGone>
    where
        T: Send + 'static,
        Work: FnOnce(&mut Engine) -> T + Send + 'static,
    {
        self.check_thread()?;
        let (answer, question) = oneshot::channel();
        self.send(Box::new(move |engine| {
            let result = work(engine);
            if engine.may_answer() {
                // Whoever asked may have gone; then nobody needs the answer.
                let _ = answer.send(result);
            }
        }))?;
        question.await.map_err(|_| DevnetGone::Stopped)
    }

    /// Answers one JSON-RPC request.
    pub(super) async fn request(&self, method: String, params: Option<Box<RawValue>>) -> Result<RpcResult, DevnetGone> {
        let answer = self.engine(move |engine| rpc::dispatch(engine, &method, params.as_deref())).await?;
        self.complete(answer).await
    }

    /// Does what an answer still takes.
    pub(super) async fn complete(&self, mut answer: Answer) -> Result<RpcResult, DevnetGone> {
        loop {
            answer = match answer {
                Answer::Now(result) => return Ok(result),
                Answer::Elsewhere(work) => return Ok(self.work(work).await),
                Answer::Later(part) => self.engine(part).await?,
            };
        }
    }

    /// Runs `work` on a thread of its own once there is a place for it.
    async fn work(&self, work: Work) -> RpcResult {
        let failed = |what: &str| Err(RpcError::internal(what));
        let Ok(place) = Arc::clone(&self.shared.workers).acquire_owned().await else {
            return failed("the node is ending");
        };
        let (answer, question) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name("chain-worker".to_owned()).stack_size(WORKER_STACK).spawn(move || {
                // Whoever asked may have gone; the place is taken until the work is done all the same.
                let _ = answer.send(work());
                drop(place);
            });
        if thread.is_err() {
            return failed("no thread could be started for this request");
        }
        question.await.unwrap_or_else(|_| failed("the request could not be worked on to its end"))
    }

    fn send(&self, work: Box<dyn FnOnce(&mut Engine) + Send>) -> Result<(), DevnetGone> {
        self.shared.commands.send(Command::Run(work)).map_err(|_| DevnetGone::Stopped)
    }

    fn check_thread(&self) -> Result<(), DevnetGone> {
        if std::thread::current().id() == self.shared.thread_id {
            return Err(DevnetGone::FromOwnThread);
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
        // The thread may be gone already; then there is nothing to stop.
        let _ = self.commands.send(Command::Stop);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && std::thread::current().id() != self.thread_id
        {
            // A panic over there was reported there.
            let _ = thread.join();
        }
    }
}

impl Engine {
    fn serve(mut self, inbox: &mpsc::Receiver<Command>) {
        loop {
            let command = match self.next_block {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    // A due block goes before whatever is asked, or a busy client could hold time still.
                    None | Some(Duration::ZERO) => Err(RecvTimeoutError::Timeout),
                    Some(wait) => inbox.recv_timeout(wait),
                },
            };
            match command {
                Ok(Command::Run(work)) => {
                    self.read_clock();
                    work(&mut self);
                    self.settle();
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.read_clock();
                    self.mine_with_hook();
                    self.schedule();
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            self.keep();
            if self.is_lost {
                return;
            }
            self.publish();
        }
    }

    /// Where the chain is kept, keeps what was just done; false if that failed.
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
            tracing::error!(chain = self.chain.rules().chain_id, %error, "the chain stops: it cannot be kept");
            self.is_lost = true;
        }
    }

    fn close(mut self) {
        if let Some(kept) = &mut self.kept
            && let Err(error) = kept.write_checkpoint(&self.chain)
        {
            // What was shown is in the log; what was only written into the state since the last block is lost.
            tracing::error!(chain = self.chain.rules().chain_id, %error, "the chain's last checkpoint was not written");
        }
    }

    /// Goes back to what the chain was when it got its thread.
    pub(super) fn reset(&mut self) {
        self.chain.reset();
        self.instance = rand::random();
    }

    pub(super) fn mining(&self) -> Mining {
        self.mining
    }

    pub(super) fn set_mining(&mut self, mining: Mining) {
        self.mining = mining;
        self.next_block = None;
        self.schedule();
    }

    /// Makes the next block after letting the hook act, whatever asked for it.
    pub(super) fn mine_with_hook(&mut self) -> Arc<Block> {
        if let Some((hook, _)) = &mut self.hook {
            hook(&mut self.chain);
        }
        self.chain.mine()
    }

    /// Makes the next block because a client asked.
    pub(super) fn mine_on_request(&mut self) -> Arc<Block> {
        if self.hook.as_ref().is_some_and(|(_, policy)| policy.on_request) {
            self.mine_with_hook()
        } else {
            self.chain.mine()
        }
    }

    /// Where blocks are made on transaction, makes those that are due.
    pub(super) fn settle(&mut self) {
        // A hook that always leaves something over must not keep everybody else waiting for ever.
        for _ in 0..MAX_BLOCKS_AT_ONCE {
            if self.mining != Mining::OnTransaction || !self.chain.has_ready() {
                return;
            }
            if self.hook.as_ref().is_some_and(|(_, policy)| policy.on_transaction) {
                self.mine_with_hook();
            } else {
                self.chain.mine();
            }
        }
    }

    fn schedule(&mut self) {
        if let Mining::Interval(interval) = self.mining {
            let now = Instant::now();
            // From the planned time and not from now, so that delays do not add up; but a machine
            // that slept does not make all the blocks it missed.
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
        // One command can make more than the journal keeps; then it is said how many are missing.
        let first = self.chain.journal().first();
        let missed = first.saturating_sub(self.published);
        let missed = (missed > 0).then_some(ChainEvent::Missed(missed));
        let events = self.chain.journal().since(self.published.max(first)).into_iter().flatten().cloned();
        for event in missed.into_iter().chain(events) {
            // Nobody listening is no error.
            let _ = self.events.send(event);
        }
        self.published = end;
        self.head.send_replace(Arc::clone(self.chain.head()));
    }
}
