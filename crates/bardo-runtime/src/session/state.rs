//! Session state and main loop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use alloy::primitives::Address;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::offers::WaitingOffers;
use super::prompts::SessionPrompts;
use super::running::RunningTasks;
use super::stats::SessionStats;
use super::{SessionOptions, StopWatch, send_news};
use crate::account::SelectedAccount;
use crate::accounting::BookKeeper;
use crate::actor::{Actor, ActorContext, ActorScript};
use crate::data::{DataFolder, Ledger};
use crate::labels::AddressNames;
use crate::questions::shared::SharedQueue;
use crate::tool_info;
use bardo_base::clock::{Clock, SimulatedClock};
use bardo_base::fabric::{EventKind, Fabric};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{OnDeath, Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::approval::ApprovalQueue;
use bardo_safety::custody::RevocationSwitch;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::pipeline::Pipeline;
use bardo_safety::policy::PolicyKeeper;
use bardo_safety::stop::ActiveStop;
use bardo_sandbox::{Sandbox, SandboxChain};
use bardo_session::handle::{
    AddressedCommand, AllowancesState, ChainHoldings, DepositsState, LeaveMode, PnlState, SchedulesState, SessionInfo,
    SessionNews, TransactionsState, WatchedHoldings,
};
use bardo_session::isolation::Isolation;
use bardo_session::market::NetworkIdentity;
use golem::archetype::Archetypes;
use golem::scenario::Scenario;
use golem_tools::engine::{Catalog, Executor, PaperMode, ToolEnvironment};

/// Polling interval of policy, requests and snapshots.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Timeout for signed transactions on leaving.
const SETTLING: Duration = Duration::from_secs(90);
/// Timeout for delivering the last events to the console.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// Capacity of the queues of messages and scenarios for the actor.
const WAITING: usize = 16;

/// Notice of a read-only console whose session cannot share another process's embedded devnet.
const NOT_ATTACHED_EMBEDDED: &str = "watching a devnet of its own: a running Bardo's devnet is inside its own process. \
                                     To share a session, start it with `bardo serve` and attach here. Ctrl-X stops \
                                     every Bardo of this data folder";
/// Notice of a read-only console beside a running session.
const NOT_ATTACHED: &str = "watching the chains, the ledger and its decisions: events of a running session are \
                            visible only if it was started with `bardo serve`. Ctrl-X stops it";

/// State of a running session.
pub(super) struct SessionState {
    pub golem_id: GolemId,
    pub name: SafeText,
    /// Archetype of the Golem.
    pub role: SafeText,
    pub watch_only: bool,
    /// Treatment of its holdings when it dies.
    pub on_death: OnDeath,
    /// True with simulated time.
    pub has_own_time: bool,
    /// True in step-by-step mode.
    pub step_by_step: bool,
    /// True if an external brain process leads, which can write to the ledger like any process of this user.
    pub led_by_program: bool,
    /// Isolation of that process; `None` without one.
    pub brain_isolation: Option<Isolation>,
    pub sources: SessionSources,
    pub control: SessionControl,
    pub links: SessionChannels,
}

/// Data sources and executors of the session, created when it starts.
pub(super) struct SessionSources {
    pub golem: Executor,
    pub operator: Executor,
    pub catalog: Catalog,
    pub roles: Arc<Archetypes>,
    pub paper: Option<PaperMode>,
    /// Data directory with the keys and labels.
    pub folder: DataFolder,
    /// Account that acts, whose key proves decisions about it.
    pub selected: Option<SelectedAccount>,
    /// Keeper of the account's books; `None` without an account, and in a read-only session.
    pub books: Option<BookKeeper>,
    pub queue: Option<ApprovalQueue>,
    pub pipeline: Option<Pipeline>,
    pub keeper: Option<Arc<PolicyKeeper>>,
    pub rules: Option<Arc<OperatorPolicyEngine>>,
    pub world: Arc<ToolEnvironment>,
    pub sandbox: Option<Sandbox>,
    /// Chains in this process on which actors live.
    pub inhabited: Vec<SandboxChain>,
    pub ledger: Ledger,
    /// Shared approval queue of all processes on this ledger.
    pub shared: SharedQueue,
    pub network: NetworkIdentity,
    pub clock: Arc<dyn Clock>,
    pub fabric: Fabric,
    pub journal: PathBuf,
}

/// Action of another process that the operator approved in this one.
pub(super) struct ApprovedElsewhere {
    pub call_id: CallId,
    pub title: SafeText,
    /// End of the wait for its outcome, in milliseconds since the Unix epoch.
    pub reported_until: u64,
}

/// State that the operator, scenarios and stops change while the session runs.
pub(super) struct SessionControl {
    pub stop_watch: StopWatch,
    /// Handle that revokes the Golem's access to its account.
    pub revocation: Option<RevocationSwitch>,
    pub own: SessionPrompts,
    /// Previews that wait for the operator.
    pub offers: WaitingOffers,
    pub stats: Arc<Mutex<SessionStats>>,
    /// Chains whose block production a scenario has halted.
    pub halted: Mutex<BTreeSet<u64>>,
    /// Scenario whose cues are triggered.
    pub script: watch::Sender<Option<ActorScript>>,
    /// Number of moments of a scenario that may still happen, in step-by-step mode.
    pub steps: Semaphore,
    /// Manual calls that are not answered yet, and other work that the session finishes.
    pub running: RunningTasks,
    /// Actions of other processes that the operator approved here, and whose outcome is not reported yet.
    pub approved_elsewhere: Mutex<Vec<ApprovedElsewhere>>,
    /// Id of the stop under which the operator approved the sale of holdings.
    pub decided: Mutex<Option<SafeText>>,
    /// True while holdings are being sold, by one task at a time.
    pub selling: AtomicBool,
    /// Held while the rules in PolicyCage are set, so that the policy read last is the one set last.
    pub policy_cage: tokio::sync::Mutex<()>,
    pub leaving: watch::Sender<bool>,
    pub phase: watch::Sender<Phase>,
}

impl SessionControl {
    pub(super) fn new(
        stop_watch: StopWatch,
        revocation: Option<RevocationSwitch>,
        phase: watch::Sender<Phase>,
    ) -> Self {
        Self {
            stop_watch,
            revocation,
            own: SessionPrompts::default(),
            offers: WaitingOffers::default(),
            stats: Arc::new(Mutex::new(SessionStats::default())),
            halted: Mutex::default(),
            script: watch::Sender::new(None),
            steps: tokio::sync::Semaphore::new(0),
            approved_elsewhere: Mutex::default(),
            running: RunningTasks::default(),
            decided: Mutex::default(),
            selling: AtomicBool::new(false),
            policy_cage: tokio::sync::Mutex::default(),
            leaving: watch::Sender::new(false),
            phase,
        }
    }
}

/// Channels on which the session publishes news for the console and the last known state for its own tasks.
pub(super) struct SessionChannels {
    pub news: mpsc::Sender<SessionNews>,
    pub holdings: watch::Sender<Vec<ChainHoldings>>,
    pub stop: watch::Sender<Option<StopLevel>>,
    /// Stop file's content at the last poll; `None` before the first.
    pub in_force: watch::Sender<Option<ActiveStop>>,
    /// Allowances at the last reading.
    pub allowances: watch::Sender<AllowancesState>,
    /// Profit and loss at the last reading.
    pub pnl: watch::Sender<Option<Arc<PnlState>>>,
    /// Unconfirmed transactions and open orders at the last reading.
    pub transactions: watch::Sender<Option<Arc<TransactionsState>>>,
    /// Rung when they should be read again at once.
    pub transactions_changed: Notify,
    /// Schedules of swaps at the last reading.
    pub schedules: watch::Sender<Option<Arc<SchedulesState>>>,
    /// Deposits with a bridge's pool at the last reading.
    pub deposits: watch::Sender<Option<Arc<DepositsState>>>,
    /// Names of own accounts and labels at the last reading.
    pub names: watch::Sender<AddressNames>,
    /// Names of the Ethereum Name Service that were found, by address.
    pub ens: watch::Sender<BTreeMap<Address, SafeText>>,
    /// Holdings of watch-only accounts at the last reading.
    pub watched: watch::Sender<Vec<WatchedHoldings>>,
    pub phase_now: watch::Receiver<Phase>,
}

/// Channels to the actor.
pub(super) struct ActorChannels {
    pub words: mpsc::Sender<SafeText>,
    pub scenarios: mpsc::Sender<Scenario>,
}

impl SessionChannels {
    pub(super) fn new(news: mpsc::Sender<SessionNews>, phase_now: watch::Receiver<Phase>) -> Self {
        Self {
            news,
            holdings: watch::Sender::new(Vec::new()),
            stop: watch::Sender::new(None),
            in_force: watch::Sender::new(None),
            allowances: watch::Sender::new(AllowancesState::default()),
            pnl: watch::Sender::new(None),
            transactions: watch::Sender::new(None),
            transactions_changed: Notify::new(),
            schedules: watch::Sender::new(None),
            deposits: watch::Sender::new(None),
            names: watch::Sender::new(AddressNames::default()),
            ens: watch::Sender::new(BTreeMap::new()),
            watched: watch::Sender::new(Vec::new()),
            phase_now,
        }
    }
}

impl SessionState {
    pub(super) fn stats(&self) -> MutexGuard<'_, SessionStats> {
        self.control.stats.lock()
    }

    /// Runs until the console leaves or closes.
    pub(super) async fn run(
        self,
        options: SessionOptions,
        actor: Box<dyn Actor>,
        mut commands: mpsc::Receiver<AddressedCommand>,
        simulated: Option<SimulatedClock>,
    ) {
        let state = Arc::new(self);
        let (words, heard) = mpsc::channel(WAITING);
        let (scenarios, asked) = mpsc::channel(WAITING);
        let lines = ActorChannels { words, scenarios };
        let mut tasks = JoinSet::new();
        let events = state.sources.fabric.subscribe(super::watching::WINDOW);
        let (close, closing) = oneshot::channel();
        let telling = tokio::spawn(super::watching::events(Arc::clone(&state), events, closing));
        state.emit(None, EventKind::SessionOpened(state.opened()));
        super::watching::chains(&state, &mut tasks);
        send_news(&state.links.news, SessionNews::Ready(Box::new(state.ready(&options)))).await;
        // The actor must see the stop in force.
        state.poll_stop();
        tasks.spawn(super::watching::stop(Arc::clone(&state)));
        tasks.spawn(super::watching::allowances(Arc::clone(&state)));
        tasks.spawn(super::watching::profit_and_loss(Arc::clone(&state)));
        tasks.spawn(super::watching::transactions(Arc::clone(&state)));
        tasks.spawn(super::watching::schedules(Arc::clone(&state)));
        tasks.spawn(super::watching::deposits(Arc::clone(&state)));
        tasks.spawn(super::watching::names(Arc::clone(&state)));
        let context = ActorContext {
            golem_id: state.golem_id.clone(),
            executor: state.sources.golem.clone(),
            fabric: state.sources.fabric.clone(),
            clock: state.sources.clock.clone(),
            phase: state.control.phase.clone(),
            words: heard,
            scenarios: asked,
            stop: state.links.stop.subscribe(),
            role: state.role.clone(),
            roles: Arc::clone(&state.sources.roles),
            world: Arc::clone(&state.sources.world),
            store: state.sources.ledger.store.clone(),
            stop_file: state.control.stop_watch.file.clone(),
            halts_as: super::selling::halts_as(&state.golem_id, &state.sources.network),
            leaving: state.control.leaving.subscribe(),
            attendance: state.sources.clock.attend(),
        };
        state.control.script.send_replace(actor.script());
        let mut watched = super::watching::ReportedState::new(&state);
        // Such a brain could type the keys of an approval, but does not know the password.
        if let Some(queue) = state.sources.queue.as_ref().filter(|_| state.here_needs_password()) {
            queue.require_proof();
        }
        let life = if options.watch { None } else { Some(tokio::spawn(actor.live(context))) };
        tasks.spawn(super::shutdown::follow(Arc::clone(&state), state.on_death));
        tasks.spawn(super::selling::follow(Arc::clone(&state)));
        tasks.spawn(super::liquidations::follow(Arc::clone(&state)));
        tasks.spawn(super::schedules::follow(Arc::clone(&state)));
        match (simulated, options.time) {
            (Some(clock), Some(time)) => drop(tasks.spawn(super::time::conduct(Arc::clone(&state), clock, time))),
            _ => drop(tasks.spawn(super::scenario_events::follow(Arc::clone(&state)))),
        }
        let mut look = interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut queue = state.sources.queue.as_ref().map(ApprovalQueue::watch);
        let mut stopped = state.links.in_force.subscribe();
        let mode = loop {
            tokio::select! {
                sent = commands.recv() => match sent {
                    // The console has closed: signed transactions are settled, nothing new begins.
                    None => break LeaveMode::Finish,
                    Some(sent) => if let Some(mode) = state.carry_out(sent, &lines, &mut watched).await {
                        break mode;
                    },
                },
                () = changed(queue.as_mut()) => state.publish_requests(&mut watched).await,
                // The sender belongs to the stage, so the channel stays open.
                Ok(()) = stopped.changed() => state.poll_unwatched(&mut watched).await,
                _ = look.tick() => state.poll_unwatched(&mut watched).await,
            }
        };
        state.leave(mode, life, &mut commands, &lines, &mut watched).await;
        // Reports a last stop, however soon the session ended after it.
        state.poll_stop();
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        drop(close);
        // A console that reads nothing more must not block the end.
        let _told = timeout(LAST_EVENTS, telling).await;
        let flushing = state.sources.fabric.clone();
        // Flushing the journal is worth a moment; a failing disk has been reported already.
        let _flushed = tokio::task::spawn_blocking(move || flushing.flush()).await;
        state.read_last_value().await;
        let mut session_summary = state.stats().session_summary(&state.journal_words());
        session_summary.chains_ended = state.sources.sandbox.as_ref().is_some_and(|sandbox| !sandbox.is_kept());
        session_summary.paper = state.sources.paper.as_ref().is_some_and(PaperMode::on);
        send_news(&state.links.news, SessionNews::Left(Box::new(session_summary))).await;
    }

    /// True if the brain that raises requests here could act as the operator: its requests then need the key's
    /// password.
    pub(super) fn is_brain_unisolated(&self) -> bool {
        self.brain_isolation.as_ref().is_some_and(|isolation| !isolation.is_isolated())
    }

    fn journal_words(&self) -> SafeText {
        SafeText::clean(&self.sources.journal.display().to_string(), 400)
    }

    fn ready(&self, options: &SessionOptions) -> SessionInfo {
        SessionInfo {
            golem_id: self.golem_id.clone(),
            name: self.name.clone(),
            role: self.role.clone(),
            tools: self.sources.catalog.iter().map(|entry| tool_info(entry)).collect(),
            scenarios: options.scenarios.clone(),
            journal: Some(self.journal_words()),
            commands: golem::brain::operator::commands(),
            brain: self.brain_isolation.clone(),
            own_devnet: !self.sources.inhabited.is_empty(),
            served: false,
            not_attached: options.watch.then(|| {
                let embedded = self.sources.sandbox.is_some();
                SafeText::clean(if embedded { NOT_ATTACHED_EMBEDDED } else { NOT_ATTACHED }, 400)
            }),
        }
    }

    /// Ends running work. Meanwhile the operator can still answer, hold, and leave at once.
    async fn leave(
        self: &Arc<Self>,
        mode: LeaveMode,
        life: Option<tokio::task::JoinHandle<()>>,
        commands: &mut mpsc::Receiver<AddressedCommand>,
        lines: &ActorChannels,
        watched: &mut super::watching::ReportedState,
    ) {
        self.control.leaving.send_replace(true);
        for executor in [&self.sources.golem, &self.sources.operator] {
            executor.end_steps();
        }
        if let Some(queue) = &self.sources.queue {
            self.stats().leave_unanswered(queue.pending().len());
            queue.withdraw_all("the session is ending");
        }
        self.control.own.clear();
        self.control.offers.clear();
        if mode == LeaveMode::Now {
            if let Some(life) = life {
                life.abort();
            }
            return;
        }
        let mut cancelling = (mode == LeaveMode::CancelOrders).then(|| {
            let state = Arc::clone(self);
            tokio::spawn(async move {
                // Failed cancellations are in the remarks of the session summary.
                let _left = state.unwind_orders(None).await;
                state.remark_allowances().await;
            })
        });
        let mut ends = Instant::now() + SETTLING;
        let mut life = life;
        loop {
            let alive = life.as_ref().is_some_and(|life| !life.is_finished());
            let cancels = cancelling.as_ref().is_some_and(|cancelling| !cancelling.is_finished());
            if cancels {
                // Each cancellation has its own timeout; signed transactions have theirs after the last one.
                ends = Instant::now() + SETTLING;
            }
            if !alive && !cancels && self.control.running.count() == 0 {
                return;
            }
            if Instant::now() >= ends {
                self.stats().remark("signed actions did not settle in time; the next start settles them");
                break;
            }
            let sent = timeout(POLL_INTERVAL, commands.recv()).await;
            self.poll_unwatched(watched).await;
            match sent {
                Ok(Some(sent)) => {
                    if self.carry_out(sent, lines, watched).await == Some(LeaveMode::Now) {
                        break;
                    }
                }
                // The console has closed: nobody can hurry the end, which comes without help.
                Ok(None) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(_) => {}
            }
        }
        for unfinished in [life.take(), cancelling.take()].into_iter().flatten() {
            unfinished.abort();
        }
    }
}

async fn changed(queue: Option<&mut watch::Receiver<u64>>) {
    if let Some(queue) = queue
        && queue.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
