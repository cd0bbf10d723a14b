//! Everything that stands while a session runs, and its one loop.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::asking::OwnQuestions;
use super::offers::Offers;
use super::tally::Tally;
use super::{Brake, SessionOptions, tell};
use crate::actor::{Actor, Script, Seat};
use crate::data::Ledger;
use crate::questions::shared::Shared;
use crate::tool_info;
use bardo_base::clock::{Clock, SimulatedClock};
use bardo_base::fabric::{EventKind, Fabric};
use bardo_base::id::GolemId;
use bardo_base::model::{OnDeath, Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::approval::ApprovalDesk;
use bardo_safety::custody::Revocation;
use bardo_safety::operator::OperatorRules;
use bardo_safety::pipeline::Pipeline;
use bardo_safety::policy::Keeper;
use bardo_safety::stop::InForce;
use bardo_sandbox::Sandbox;
use bardo_session::handle::{AllowancesNow, ChainHoldings, LeaveMode, News, Ready, Sent};
use bardo_session::isolation::Isolation;
use bardo_session::market::Network;
use golem::archetype::Archetypes;
use golem::scenario::Scenario;
use golem_tools::engine::{Catalog, Executor, Paper, World};

/// How often policy and questions are looked at, and the snapshot is made.
const LOOK: Duration = Duration::from_millis(200);
/// How long what is signed is waited for on leaving.
const SETTLING: Duration = Duration::from_secs(90);
/// How long a console may take to hear the last events.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// Words and shows that may wait for the actor.
const WAITING: usize = 16;

/// Notice of a console that watches while a running session's devnet is inside another process.
const NOT_ATTACHED_EMBEDDED: &str = "watching a devnet of its own. A running Bardo's devnet is inside that process: run \
     `bardo devnet`, and give its --rpc to both. Ctrl-X stops every Bardo of this data folder";
/// Notice of a console that watches beside a running session.
const NOT_ATTACHED: &str =
    "watching the chains, the ledger and its decisions. The events of a running session stay with it. Ctrl-X stops it";

/// Everything that stands.
pub(super) struct Stage {
    pub golem: Executor,
    pub operator: Executor,
    pub golem_id: GolemId,
    pub name: SafeText,
    /// The Golem's role.
    pub role: SafeText,
    pub watch_only: bool,
    pub catalog: Catalog,
    pub roles: Arc<Archetypes>,
    pub paper: Option<Paper>,
    pub desk: Option<ApprovalDesk>,
    pub pipeline: Option<Pipeline>,
    pub keeper: Option<Arc<Keeper>>,
    pub rules: Option<Arc<OperatorRules>>,
    pub own: OwnQuestions,
    /// Previews that wait for the operator's word.
    pub offers: Offers,
    pub tally: Arc<Mutex<Tally>>,
    pub holdings: watch::Sender<Vec<ChainHoldings>>,
    pub stop: watch::Sender<Option<StopLevel>>,
    /// What the stop file said when it was looked at last.
    pub in_force: watch::Sender<Option<InForce>>,
    /// What others may take, as it was read last.
    pub allowances: watch::Sender<AllowancesNow>,
    /// Takes the Golem's hands away.
    pub revocation: Option<Revocation>,
    /// What becomes of its holdings when it dies.
    pub on_death: OnDeath,
    /// Whether time is the session's own.
    pub has_own_time: bool,
    /// Chains that a show lets make no blocks.
    pub halted: Mutex<BTreeSet<u64>>,
    /// The show whose cues are given.
    pub cues: watch::Sender<Option<Script>>,
    /// How many moments of a show may still come, where they come one by one.
    pub steps: Semaphore,
    /// Whether they do.
    pub step_by_step: bool,
    pub leaving: watch::Sender<bool>,
    /// Calls made by hand that are not answered yet.
    pub running: Arc<AtomicU64>,
    /// The stop under which the operator has holdings sold, by a yes of their own.
    pub decided: Mutex<Option<SafeText>>,
    /// Whether holdings are being sold: by one task at a time.
    pub selling: AtomicBool,
    pub phase: watch::Sender<Phase>,
    pub phase_now: watch::Receiver<Phase>,
    pub brake: Brake,
    pub fabric: Fabric,
    pub world: Arc<World>,
    pub sandbox: Option<Sandbox>,
    pub ledger: Ledger,
    /// Whether a program of its own leads here: one that can write to the ledger like any program of this user.
    pub led_by_program: bool,
    /// How far the system isolates that program; `None` where no program leads.
    pub brain_isolation: Option<Isolation>,
    /// What all programs on this ledger ask.
    pub shared: Shared,
    pub network: Network,
    pub clock: Arc<dyn Clock>,
    pub news: mpsc::Sender<News>,
    pub journal: PathBuf,
}

/// The ways to the actor.
pub(super) struct Lines {
    pub words: mpsc::Sender<SafeText>,
    pub shows: mpsc::Sender<Scenario>,
}

impl Stage {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until the console leaves or has gone.
    pub(super) async fn run(
        self,
        options: SessionOptions,
        actor: Box<dyn Actor>,
        mut commands: mpsc::Receiver<Sent>,
        simulated: Option<SimulatedClock>,
    ) {
        let stage = Arc::new(self);
        let (words, heard) = mpsc::channel(WAITING);
        let (shows, asked) = mpsc::channel(WAITING);
        let lines = Lines { words, shows };
        let mut tasks = JoinSet::new();
        let events = stage.fabric.subscribe(super::watching::WINDOW);
        let (close, closing) = oneshot::channel();
        let telling = tokio::spawn(super::watching::events(Arc::clone(&stage), events, closing));
        stage.emit(None, EventKind::SessionOpened(stage.opened()));
        super::watching::chains(&stage, &mut tasks);
        tell(&stage.news, News::Ready(Box::new(stage.ready(&options)))).await;
        // Whoever lives here finds the stop in force.
        stage.look_at_stop();
        tasks.spawn(super::watching::stop(Arc::clone(&stage)));
        tasks.spawn(super::watching::allowances(Arc::clone(&stage)));
        let seat = Seat {
            golem_id: stage.golem_id.clone(),
            executor: stage.golem.clone(),
            fabric: stage.fabric.clone(),
            clock: stage.clock.clone(),
            phase: stage.phase.clone(),
            words: heard,
            shows: asked,
            stop: stage.stop.subscribe(),
            role: stage.role.clone(),
            roles: Arc::clone(&stage.roles),
            world: Arc::clone(&stage.world),
            store: stage.ledger.store.clone(),
            stop_file: stage.brake.file.clone(),
            halts_as: super::selling::halts_as(&stage.golem_id, &stage.network),
            leaving: stage.leaving.subscribe(),
            attendance: stage.clock.attend(),
        };
        stage.cues.send_replace(actor.script());
        let mut watched = super::watching::Watched::new(&stage);
        // Such a brain can type the keys of an approval; it does not know the key's password.
        if let Some(desk) = stage.desk.as_ref().filter(|_| stage.here_needs_password()) {
            desk.require_proof();
        }
        let life = if options.watch { None } else { Some(tokio::spawn(actor.live(seat))) };
        tasks.spawn(super::dying::follow(Arc::clone(&stage), stage.on_death));
        tasks.spawn(super::selling::follow(Arc::clone(&stage)));
        match (simulated, options.time) {
            (Some(clock), Some(time)) => drop(tasks.spawn(super::time::conduct(Arc::clone(&stage), clock, time))),
            _ => drop(tasks.spawn(super::cues::follow(Arc::clone(&stage)))),
        }
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut desk = stage.desk.as_ref().map(ApprovalDesk::watch);
        let mut stopped = stage.in_force.subscribe();
        let mode = loop {
            tokio::select! {
                sent = commands.recv() => match sent {
                    // The console has gone: what is signed is settled, nothing new begins.
                    None => break LeaveMode::Finish,
                    Some(sent) => if let Some(mode) = stage.carry_out(sent, &lines, &mut watched).await {
                        break mode;
                    },
                },
                () = changed(desk.as_mut()) => stage.tell_questions(&mut watched).await,
                // Its sender is the stage's own.
                Ok(()) = stopped.changed() => stage.look_around(&mut watched).await,
                _ = look.tick() => stage.look_around(&mut watched).await,
            }
        };
        stage.leave(mode, life, &mut commands, &lines, &mut watched).await;
        // A stop that was set last is reported, however soon the session ended after it.
        stage.look_at_stop();
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        drop(close);
        // A console that reads nothing any more is not waited for.
        let _told = timeout(LAST_EVENTS, telling).await;
        let flushing = stage.fabric.clone();
        // The journal's last words are worth a moment; a disk that cannot take them has said so.
        let _flushed = tokio::task::spawn_blocking(move || flushing.flush()).await;
        let farewell = stage.tally().farewell(&stage.journal_words());
        tell(&stage.news, News::Left(Box::new(farewell))).await;
    }

    /// Whether the brain that raises questions here could act as the operator: its questions need the key's password.
    pub(super) fn is_brain_unisolated(&self) -> bool {
        self.brain_isolation.as_ref().is_some_and(|isolation| !isolation.is_isolated())
    }

    fn journal_words(&self) -> SafeText {
        SafeText::clean(&self.journal.display().to_string(), 400)
    }

    fn ready(&self, options: &SessionOptions) -> Ready {
        Ready {
            golem_id: self.golem_id.clone(),
            name: self.name.clone(),
            role: self.role.clone(),
            tools: self.catalog.iter().map(|entry| tool_info(entry)).collect(),
            scenarios: options.scenarios.clone(),
            journal: Some(self.journal_words()),
            commands: golem::brain::operator::commands(),
            brain: self.brain_isolation.clone(),
            not_attached: options.watch.then(|| {
                let embedded = self.sandbox.is_some();
                SafeText::clean(if embedded { NOT_ATTACHED_EMBEDDED } else { NOT_ATTACHED }, 400)
            }),
        }
    }

    /// Ends what is under way. While it waits, the operator can still answer, hold, and leave at once.
    async fn leave(
        self: &Arc<Self>,
        mode: LeaveMode,
        life: Option<tokio::task::JoinHandle<()>>,
        commands: &mut mpsc::Receiver<Sent>,
        lines: &Lines,
        watched: &mut super::watching::Watched,
    ) {
        self.leaving.send_replace(true);
        if let Some(desk) = &self.desk {
            desk.withdraw_all("the operator leaves");
        }
        self.own.clear();
        self.offers.clear();
        if mode == LeaveMode::Now {
            if let Some(life) = life {
                life.abort();
            }
            return;
        }
        let mut cancelling = (mode == LeaveMode::CancelOrders).then(|| {
            let stage = Arc::clone(self);
            tokio::spawn(async move {
                // What could not be is in the farewell's remarks.
                let _left = stage.take_orders_back(None).await;
            })
        });
        let mut ends = Instant::now() + SETTLING;
        let mut life = life;
        loop {
            let alive = life.as_ref().is_some_and(|life| !life.is_finished());
            let cancels = cancelling.as_ref().is_some_and(|cancelling| !cancelling.is_finished());
            if cancels {
                // Each cancellation has an end of its own; what is signed has its time after the last.
                ends = Instant::now() + SETTLING;
            }
            if !alive && !cancels && self.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            if Instant::now() >= ends {
                self.tally().remark("what is signed was not settled in time; the next start settles it");
                break;
            }
            let sent = timeout(LOOK, commands.recv()).await;
            self.look_around(watched).await;
            match sent {
                Ok(Some(sent)) => {
                    if self.carry_out(sent, lines, watched).await == Some(LeaveMode::Now) {
                        break;
                    }
                }
                // The console has gone: nobody is left to hurry it, and it ends in time by itself.
                Ok(None) => tokio::time::sleep(LOOK).await,
                Err(_) => {}
            }
        }
        for unfinished in [life.take(), cancelling.take()].into_iter().flatten() {
            unfinished.abort();
        }
    }
}

async fn changed(desk: Option<&mut watch::Receiver<u64>>) {
    if let Some(desk) = desk
        && desk.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
