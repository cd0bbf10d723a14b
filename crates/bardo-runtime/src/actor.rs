//! Who lives in a session: the seam between the session, which furnishes a seat, and whoever sits in it. A seat holds
//! all that an actor may touch: tools through its own executor, events in its own name, the operator's words, and what
//! holds it back. An actor never sees a signer, a ledger or the operator's answers but through its calls.

mod living;

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use bardo_base::clock::{Attendance, Clock};
use bardo_base::fabric::{EventKind, Fabric};
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::stop::StopFile;
use bardo_store::Store;
use golem::archetype::Archetypes;
use golem::life::Played;
use golem::scenario::Scenario;
use golem_tools::engine::{Executor, World};

pub use living::{HEARTBEAT, Living};

/// The show that an actor was born with: the session gives its cues, and both tell how it goes.
#[derive(Debug, Clone)]
pub struct Script {
    /// The show.
    pub scenario: Scenario,
    /// How it goes.
    pub played: watch::Sender<Played>,
    /// When it was asked for, on the clock's steady scale in milliseconds: what began before was another show.
    pub asked_at: u64,
}

/// What an actor gets.
#[derive(Debug)]
pub struct Seat {
    /// In whose name it acts.
    pub golem_id: GolemId,
    /// The only way to do anything.
    pub executor: Executor,
    /// Where it says what it thinks and does.
    pub fabric: Fabric,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The phase its calls are decided in; set by whoever keeps its vitals.
    pub phase: watch::Sender<Phase>,
    /// What the operator says to it.
    pub words: mpsc::Receiver<SafeText>,
    /// The shows it is to play.
    pub shows: mpsc::Receiver<Scenario>,
    /// The stop in force. From [`StopLevel::Pause`] on nothing new begins; the pipeline holds that in any case.
    pub stop: watch::Receiver<Option<StopLevel>>,
    /// The role it has.
    pub role: SafeText,
    /// All roles.
    pub roles: Arc<Archetypes>,
    /// The world its vitals are read from.
    pub world: Arc<World>,
    /// Where it remembers.
    pub store: Store,
    /// The stop file, which it can set like everybody else; its papers are in the folder beside it.
    pub stop_file: StopFile,
    /// The name it puts into that file.
    pub halts_as: SafeText,
    /// Set when the session ends: begin nothing new, and return once all calls are answered.
    pub leaving: watch::Receiver<bool>,
    /// Holds the time, where somebody moves it, until the actor takes part in it by itself.
    pub attendance: Attendance,
}

/// Somebody who lives in a session.
pub trait Actor: Send {
    /// Lives, until told to leave.
    fn live(self: Box<Self>, seat: Seat) -> BoxFuture<'static, ()>;

    /// The show it plays, where it plays one.
    fn script(&self) -> Option<Script> {
        None
    }
}

impl Seat {
    /// Says something in its own name.
    pub fn say(&self, kind: EventKind) {
        self.fabric.emit(&self.golem_id, None, kind);
    }

    /// Whether it must not begin anything new.
    pub fn held(&self) -> bool {
        self.stop.borrow().is_some() || *self.leaving.borrow()
    }
}
