//! Interface between the session and the actor that lives in it.
//!
//! A [`ActorContext`] holds everything that an actor may access: tools through its own executor, events in its own
//! name, the operator's messages, and the stops. Signer, ledger and approvals are reachable only through tool calls.

mod golem_actor;

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use bardo_base::clock::{Clock, ClockParticipation};
use bardo_base::fabric::{EventKind, Fabric};
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::stop::StopFile;
use bardo_store::Store;
use golem::archetype::Archetypes;
use golem::life::ScenarioProgress;
use golem::scenario::Scenario;
use golem_tools::engine::{Executor, ToolEnvironment};

pub use golem_actor::{GolemActor, HEARTBEAT};

/// The scenario that an actor starts with. The session triggers its cues; both report its progress.
#[derive(Debug, Clone)]
pub struct ActorScript {
    /// Scenario that is played.
    pub scenario: Scenario,
    /// Progress of the scenario.
    pub played: watch::Sender<ScenarioProgress>,
    /// Time of the request, in milliseconds of the clock's monotonic scale: a scenario that began earlier is another
    /// one.
    pub asked_at: u64,
}

/// Everything that the session gives an actor.
#[derive(Debug)]
pub struct ActorContext {
    /// Id under which the actor acts.
    pub golem_id: GolemId,
    /// Executor of tool calls, the only way to act.
    pub executor: Executor,
    /// Event stream for the actor's own events.
    pub fabric: Fabric,
    /// Clock of the session.
    pub clock: Arc<dyn Clock>,
    /// Phase that its calls are checked against; set by the owner of its vitals.
    pub phase: watch::Sender<Phase>,
    /// Messages of the operator.
    pub words: mpsc::Receiver<SafeText>,
    /// Scenarios that it is asked to play.
    pub scenarios: mpsc::Receiver<Scenario>,
    /// Stop in force. From [`StopLevel::Pause`] on the actor begins nothing new; the pipeline enforces this in any
    /// case.
    pub stop: watch::Receiver<Option<StopLevel>>,
    /// Name of its archetype.
    pub role: SafeText,
    /// All archetypes that were loaded.
    pub roles: Arc<Archetypes>,
    /// Chains and accounts that its vitals are read from.
    pub world: Arc<ToolEnvironment>,
    /// Database for its memory.
    pub store: Store,
    /// Stop file, which the actor can set like any other process. Its documents are in the folder beside it.
    pub stop_file: StopFile,
    /// Name that it writes into the stop file.
    pub halts_as: SafeText,
    /// True when the session ends: begin nothing new, and return once all calls are answered.
    pub leaving: watch::Receiver<bool>,
    /// Registration with a simulated clock until the actor registers itself.
    pub attendance: ClockParticipation,
}

/// An actor that lives in a session.
pub trait Actor: Send {
    /// Runs until the session asks it to leave.
    fn live(self: Box<Self>, context: ActorContext) -> BoxFuture<'static, ()>;

    /// Scenario that it plays, if any.
    fn script(&self) -> Option<ActorScript> {
        None
    }
}

impl ActorContext {
    /// Emits an event in the actor's name.
    pub fn emit(&self, kind: EventKind) {
        self.fabric.emit(&self.golem_id, None, kind);
    }

    /// True if it must not begin anything new.
    pub fn held(&self) -> bool {
        self.stop.borrow().is_some() || *self.leaving.borrow()
    }
}
