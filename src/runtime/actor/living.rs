//! The Golem in the session's seat: its eight tools over the seat's executor, and a life of its own.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Actor, Seat};
use crate::base::text::SafeText;
use crate::engine::Catalog;
use crate::fabric::{EventKind, GolemThought};
use crate::golem::brain::Brain;
use crate::golem::life::{LifeConfig, Played, live};
use crate::golem::memory::{Memory, Papers};
use crate::golem::phase::PhaseRules;
use crate::golem::pi::{PiConfig, PiSession};
use crate::golem::scenario::Scenario;
use crate::runtime::data::DataFolder;
use crate::tools::ALL_TOOL_DEFS;

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// The dwell of shows, in milliseconds.
const SHOW_DWELL: u64 = 10_000;
/// Failures in a row, and the stop-loss in basis points, as the demo's policy has them.
const FAILURES: u32 = 3;
const STOP_LOSS_BPS: u64 = 1_000;

/// See the module.
#[derive(Debug)]
pub struct Living {
    scenario: Scenario,
    speed: u32,
    heard: Mutex<Option<oneshot::Sender<Played>>>,
    brain: Mutex<Option<Box<dyn Brain>>>,
}

impl Living {
    /// A Golem that plays this and lives on.
    pub fn playing(scenario: Scenario) -> Self {
        Self { scenario, speed: 1, heard: Mutex::new(None), brain: Mutex::new(None) }
    }

    /// The same so many times faster.
    #[must_use]
    pub fn at_speed(mut self, speed: u32) -> Self {
        self.speed = speed;
        self
    }

    /// The same with a brain of its own: where there is one it decides, and no scenario is played.
    #[must_use]
    pub fn led_by(self, brain: Option<Box<dyn Brain>>) -> Self {
        *self.brain.lock().unwrap_or_else(PoisonError::into_inner) = brain;
        self
    }

    /// The same, with somebody who hears how the show went.
    #[must_use]
    pub fn heard_by(self, who: oneshot::Sender<Played>) -> Self {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(who);
        self
    }
}

impl Actor for Living {
    fn live(self: Box<Self>, seat: Seat) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (fabric, golem_id) = (seat.fabric.clone(), seat.golem_id.clone());
            if let Err(why) = self.lead(seat).await {
                let text = SafeText::clean(&format!("I cannot live here: {why}"), 400);
                fabric.emit(&golem_id, None, EventKind::GolemThought(GolemThought { thought: 0, text, more: false }));
            }
        })
    }
}

impl Living {
    async fn lead(self: Box<Self>, seat: Seat) -> Result<(), String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let all = Catalog::new(ALL_TOOL_DEFS.iter().copied()).map_err(|error| told(&error))?;
        let home = DataFolder::at(seat.stop_file.path().parent().unwrap_or(Path::new("")));
        let pi = PiSession::new(PiConfig {
            all,
            executor: seat.executor,
            roles: seat.roles,
            role: seat.role.to_string(),
            memory: Memory::new(seat.store, seat.golem_id.clone()),
            papers: Papers::in_folder(home.papers(&seat.golem_id)),
            stop: seat.stop_file,
            phase: seat.phase.subscribe(),
            clock: seat.clock.clone(),
            fabric: seat.fabric.clone(),
            golem_id: seat.golem_id.clone(),
        })
        .map_err(|error| told(&error))?;
        let config = LifeConfig {
            pi,
            world: seat.world,
            phases: PhaseRules::DEFAULT.dwelling(SHOW_DWELL),
            phase: seat.phase,
            stop: seat.stop,
            leaving: seat.leaving,
            words: seat.words,
            clock: seat.clock,
            fabric: seat.fabric,
            golem_id: seat.golem_id,
            heartbeat: HEARTBEAT,
            speed: self.speed,
            lifespan_seconds: None,
            failures_limit: FAILURES,
            stop_loss_bps: STOP_LOSS_BPS,
            brain: self.brain.lock().unwrap_or_else(PoisonError::into_inner).take(),
        };
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Shows that are asked for later are played by nobody yet: a Golem plays the one it was born with.
        let _shows = seat.shows;
        let told_of = move |played: Played| {
            if let Some(heard) = heard {
                // Whoever wanted to hear may have gone.
                let _gone = heard.send(played);
            }
        };
        live(config, self.scenario, told_of).await.map_err(|error| told(&error))
    }
}
