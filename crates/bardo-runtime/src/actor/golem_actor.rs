//! The Golem as the session's actor: its eight tools over the seat's executor, and its life.

use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Actor, ActorContext, ActorScript};
use crate::data::DataFolder;
use bardo_base::error::ToolError;
use bardo_base::fabric::{EventKind, GolemThought};
use bardo_base::text::SafeText;
use golem::agent_api::{AgentConfig, AgentSession};
use golem::archetype::ArchetypeError;
use golem::brain::Brain;
use golem::life::{LifeConfig, ScenarioProgress, live};
use golem::memory::{Documents, Memory, network_key};
use golem::phase::PhaseRules;
use golem::scenario::Scenario;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{Catalog, CatalogError};

/// Interval between two heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// Minimum time in a phase for scenarios, in milliseconds: a scenario ends before the usual minimum.
const SHOW_DWELL: u64 = 10_000;

/// The Golem as an [`Actor`]; see the module documentation.
#[derive(Debug)]
pub struct GolemActor {
    scenario: Scenario,
    /// True if `scenario` is played, rather than only a message.
    plays: bool,
    played: watch::Sender<ScenarioProgress>,
    brain: Mutex<Option<Box<dyn Brain>>>,
    lifespan_seconds: Option<u64>,
    goal: Option<SafeText>,
}

impl GolemActor {
    /// Golem that plays this scenario and lives on.
    pub fn playing(scenario: Scenario) -> Self {
        let (played, brain) = (watch::Sender::new(ScenarioProgress::default()), Mutex::new(None));
        Self { scenario, plays: true, played, brain, lifespan_seconds: None, goal: None }
    }

    /// Golem that shows this message, plays nothing, and follows the operator's instructions.
    pub fn listening(why: &dyn std::fmt::Display) -> Self {
        Self { plays: false, ..Self::playing(Scenario::quiet(why)) }
    }

    /// Sets its lifespan in seconds; without one, age never ends it.
    #[must_use]
    pub fn given(self, lifespan_seconds: Option<u64>) -> Self {
        Self { lifespan_seconds, ..self }
    }

    /// Sets its owner's goal.
    #[must_use]
    pub fn wanting(self, goal: Option<SafeText>) -> Self {
        Self { goal, ..self }
    }

    /// Sets its brain, which then decides instead of a scenario.
    #[must_use]
    pub fn led_by(self, brain: Option<Box<dyn Brain>>) -> Self {
        *self.brain.lock() = brain;
        self
    }

    /// Progress of the scenario, from now on.
    pub fn played(&self) -> watch::Receiver<ScenarioProgress> {
        self.played.subscribe()
    }
}

impl Actor for GolemActor {
    fn script(&self) -> Option<ActorScript> {
        // A brain has no cues.
        let plays = self.brain.lock().is_none();
        plays.then(|| ActorScript { scenario: self.scenario.clone(), played: self.played.clone(), asked_at: 0 })
    }

    fn live(self: Box<Self>, context: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (fabric, golem_id, played) = (context.fabric.clone(), context.golem_id.clone(), self.played.clone());
            if let Err(why) = self.lead(context).await {
                // The session must not wait for the scenario.
                played.send_modify(|played| {
                    played.missed.push(why.to_string());
                    (played.done, played.cued) = (true, true);
                });
                let text = SafeText::clean(&format!("I cannot run here: {why}"), 400);
                fabric.emit(
                    &golem_id,
                    None,
                    EventKind::GolemThought(GolemThought { thought: 0, text, more: false, report: false }),
                );
            }
        })
    }
}

/// Error that prevents or ends the run of a Golem.
#[derive(Debug, thiserror::Error)]
enum LeadError {
    /// The tools contradict each other.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// Its role cannot be used.
    #[error(transparent)]
    Archetype(#[from] ArchetypeError),
    /// Its memory or its signing account fails.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

impl GolemActor {
    /// Rules for changing phases. Only a scenario is short enough to need a shorter minimum time.
    fn phases(&self) -> PhaseRules {
        if self.plays && self.brain.lock().is_none() {
            PhaseRules::DEFAULT.dwelling(SHOW_DWELL)
        } else {
            PhaseRules::DEFAULT
        }
    }

    async fn lead(self: Box<Self>, context: ActorContext) -> Result<(), LeadError> {
        let all = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
        let home = DataFolder::at(context.stop_file.path().parent().unwrap_or(Path::new("")));
        let ledger = context.store.path().parent().unwrap_or(Path::new("")).to_owned();
        let network = network_key(context.world.chain_names());
        let documents = Documents::new(home.strategy(&context.golem_id), &ledger, &network, &context.golem_id);
        let agent = AgentSession::new(AgentConfig {
            all,
            executor: context.executor,
            roles: context.roles,
            role: context.role.to_string(),
            memory: Memory::new(context.store, context.golem_id.clone()),
            documents,
            goal: self.goal.clone(),
            stop: context.stop_file,
            halts_as: context.halts_as,
            phase: context.phase.subscribe(),
            clock: context.clock.clone(),
            fabric: context.fabric.clone(),
            golem_id: context.golem_id.clone(),
        })?;
        let phases = self.phases();
        let brain = self.brain.lock().take();
        let config = LifeConfig {
            agent,
            world: context.world,
            phases,
            phase: context.phase,
            stop: context.stop,
            leaving: context.leaving,
            words: context.words,
            scenarios: context.scenarios,
            played: self.played,
            attendance: context.attendance,
            clock: context.clock,
            fabric: context.fabric,
            golem_id: context.golem_id,
            heartbeat: HEARTBEAT,
            lifespan_seconds: self.lifespan_seconds,
            brain,
        };
        Ok(live(config, self.scenario).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golem::brain::{AgentSignals, BrainEnd};
    use golem::scenario;

    /// Brain that decides nothing.
    #[derive(Debug)]
    struct IdleBrain;

    impl Brain for IdleBrain {
        fn live<'a>(self: Box<Self>, _: &'a mut AgentSignals) -> BoxFuture<'a, BrainEnd> {
            Box::pin(async { BrainEnd { well: true, why: SafeText::clean("", 1) } })
        }
    }

    #[test]
    fn the_dwell_is_ten_seconds_for_scenarios_and_a_minute_otherwise() {
        let show = || GolemActor::playing(scenario::find(scenario::DEFAULT).unwrap());
        assert_eq!(show().phases().dwell_millis, 10_000);
        assert_eq!(show().led_by(Some(Box::new(IdleBrain))).phases().dwell_millis, 60_000);
        assert_eq!(GolemActor::listening(&"nothing is played").phases().dwell_millis, 60_000);
        // The other rules are the same for all.
        assert_eq!(show().phases().rows, PhaseRules::DEFAULT.rows);
    }
}
