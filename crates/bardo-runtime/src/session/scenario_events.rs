//! Events around the Golem in a scenario (`[[cue]]`), on a devnet in this process. An event never answers a request
//! that a person could answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::U256;
use parking_lot::MutexGuard;
use tokio::sync::watch;

use super::error::SteerError;
use super::state::SessionState;
use super::time::UNHURRIED;
use crate::actor::ActorScript;
use bardo_base::fabric::{Caption, EventKind};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::approval::{self, AnswerError, OperatorAnswer};
use bardo_safety::stop::StopError;
use bardo_sandbox::MarketMode;
use bardo_sandbox::agents::{self, AgentRating};
use bardo_sandbox::target::{PriceShock, PricedAsset};
use bardo_session::handle::{QueryResult, SessionQuery};
use golem::scenario::{EventEffect, ScenarioEvent, ScriptedOperator, ScriptedReply};
use golem_chain::devnet::MiningMode;

/// Error of a scenario cue: its action failed, or its expectation was not met.
#[derive(Debug, thiserror::Error)]
enum CueError {
    /// The devnet is not steered.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The stop file does not take it.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// There is no approval queue.
    #[error("this session has no approval queue")]
    NoQueue,
    /// The approval queue is empty.
    #[error("no decision is open")]
    NoQuestion,
    /// The answer does not count.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The Golem is in another phase.
    #[error("expected the phase {expected}, found {found}")]
    Phase {
        /// Phase that the scenario expects.
        expected: Phase,
        /// Phase that the Golem is in.
        found: Phase,
    },
    /// The audit log is not as expected.
    #[error("expected the audit log to be intact: {whole}; found {found:?}")]
    Audit {
        /// The scenario's expectation.
        whole: bool,
        /// Result of the audit check.
        found: Box<QueryResult>,
    },
}

/// Polling interval for due cues, with the system clock.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Cues of the present scenario that are still to be triggered.
pub(super) struct ScenarioEvents {
    script: watch::Receiver<Option<ActorScript>>,
    waiting: VecDeque<ScenarioEvent>,
    /// Time at which the Golem began the scenario; cue times are relative to it.
    begun: Option<u64>,
    given: usize,
    moments: Vec<u64>,
    operator: bool,
}

/// Triggers the cues of every scenario as the system clock advances.
pub(super) async fn follow(state: Arc<SessionState>) {
    let mut cues = ScenarioEvents::of(&state, false);
    loop {
        cues.give(&state).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

impl ScenarioEvents {
    /// Cues of the scenario that begins now. `operator`: the scenario answers requests, because no person does.
    pub(super) fn of(state: &SessionState, operator: bool) -> Self {
        let mut script = state.control.script.subscribe();
        script.mark_changed();
        Self { script, waiting: VecDeque::new(), begun: None, given: 0, moments: Vec::new(), operator }
    }

    /// Triggers due cues; returns true if anything happened.
    pub(super) async fn give(&mut self, state: &SessionState) -> bool {
        let now = state.sources.clock.steady_millis();
        if self.script.has_changed().unwrap_or(false) {
            let script = self.script.borrow_and_update();
            let scenario = script.as_ref().map(|script| &script.scenario);
            self.waiting = scenario.map(|show| show.events.iter().cloned().collect()).unwrap_or_default();
            self.moments = scenario.map(|show| show.moments()).unwrap_or_default();
            (self.begun, self.given) = (None, 0);
        }
        // The Golem may still wait for an answer in the previous scenario; nothing happens in one that has not begun.
        self.begun = self.begun.or_else(|| {
            let script = self.script.borrow();
            let script = script.as_ref()?;
            let begun = script.played.borrow().begun;
            begun.filter(|begun| *begun >= script.asked_at)
        });
        let Some(begun) = self.begun else { return false };
        let held = self.script.borrow().as_ref().map_or(0, |script| script.played.borrow().held_by(now));
        let elapsed = now.saturating_sub(begun).saturating_sub(held);
        let mut happened = false;
        while self.waiting.front().is_some_and(|cue| cue.at.saturating_mul(1_000) <= elapsed && !self.is_early(cue)) {
            let Some(cue) = self.waiting.pop_front() else { break };
            self.given += 1;
            if !self.is_on(state, &cue) {
                continue;
            }
            let missed = self.one(state, &cue).await;
            if let Some(missed) = missed {
                self.note(|played| played.missed.push(format!("cue {} at {} s: {missed}", self.given, cue.at)));
            }
            happened = true;
        }
        if self.waiting.is_empty() {
            self.note(|played| played.cued = true);
        }
        happened
    }

    /// True if the cue waits for a step that may still end.
    fn is_early(&self, cue: &ScenarioEvent) -> bool {
        let script = self.script.borrow();
        let (Some(name), Some(script)) = (&cue.waits_for, script.as_ref()) else { return false };
        let played = script.played.borrow();
        !played.done && !played.outcomes.contains_key(name)
    }

    /// True if the cue has no condition, or its condition holds now.
    fn is_on(&self, state: &SessionState, cue: &ScenarioEvent) -> bool {
        let script = self.script.borrow();
        let (Some(when), Some(script)) = (&cue.when, script.as_ref()) else { return true };
        when.holds(*state.links.phase_now.borrow(), &script.played.borrow().outcomes)
    }

    /// True if a moment of the scenario lies after `before` and not after `moment`, by the clock.
    pub(super) fn is_moment(&self, before: u64, moment: u64) -> bool {
        let Some(begun) = self.begun else { return false };
        let elapsed = |moment: u64| moment.saturating_sub(begun) / 1_000;
        self.moments.iter().any(|at| *at > elapsed(before) && *at <= elapsed(moment))
    }

    /// True if no moment of the scenario lies after `from` and not after `to`, by the clock, but one lies later.
    pub(super) fn is_quiet(&self, from: u64, to: u64) -> bool {
        !self.is_moment(from, to) && self.is_moment(to, u64::MAX)
    }

    fn note(&self, change: impl FnOnce(&mut golem::life::ScenarioProgress)) {
        if let Some(script) = self.script.borrow().as_ref() {
            script.played.send_modify(change);
        }
    }

    /// Triggers one cue; returns a message if the expectation failed.
    async fn one(&self, state: &SessionState, cue: &ScenarioEvent) -> Option<String> {
        if let Some(text) = &cue.caption {
            let show = self.script.borrow().as_ref().map(|script| script.scenario.name.clone()).unwrap_or_default();
            let clean = |text: &str| SafeText::clean(text, 400);
            let caption = Caption { show: clean(&show), text: clean(text), at_seconds: cue.at };
            state.emit(None, EventKind::Caption(caption));
        }
        let done = match cue.deed.as_ref()? {
            EventEffect::Market { asset, bps, blocks, passes } => {
                state.push_prices(asset.as_deref(), *bps, *blocks, *passes).await.map_err(CueError::from)
            }
            EventEffect::Trading { on } => state.set_market(*on).await.map_err(CueError::from),
            EventEffect::Chain { name, runs } => state.run_chain(name, *runs).await.map_err(CueError::from),
            EventEffect::Fillers { look } => state.set_fillers_active(*look).map_err(CueError::from),
            EventEffect::Relayers { deliver } => state.relayers_deliver(*deliver).map_err(CueError::from),
            EventEffect::Rate { chain, agent, by, value, tag, times } => {
                let rating = AgentRating { agent: U256::from(*agent), value: *value, tag: tag.clone() };
                let raters = by.iter().flat_map(|key| std::iter::repeat_n(key.clone(), usize::from(*times)));
                state.rate_agent(chain, raters.collect(), rating).await.map_err(CueError::from)
            }
            EventEffect::Answer(reply) if self.operator => state.reply(reply),
            // A person is present, who answers.
            EventEffect::Answer(_) => Ok(()),
            EventEffect::Stop { level, reason } => state.raise(*level, reason).map_err(CueError::from),
            EventEffect::Phase { is } => {
                let found = *state.links.phase_now.borrow();
                if found == *is { Ok(()) } else { Err(CueError::Phase { expected: *is, found }) }
            }
            EventEffect::Audit { whole } => {
                let found = state.run_query(SessionQuery::VerifyAudit).await;
                match found {
                    QueryResult::Verified { good, .. } if good == *whole => Ok(()),
                    other => Err(CueError::Audit { whole: *whole, found: Box::new(other) }),
                }
            }
        };
        done.err().map(|error| error.to_string())
    }
}

impl SessionState {
    /// The chains that a show lets make no blocks.
    pub(super) fn halted(&self) -> MutexGuard<'_, std::collections::BTreeSet<u64>> {
        self.control.halted.lock()
    }

    /// Chains whose market and blocks can be controlled.
    pub(super) fn inhabited(&self) -> Result<&[bardo_sandbox::SandboxChain], SteerError> {
        match self.sources.inhabited.as_slice() {
            [] => Err(SteerError::NoDevnet),
            chains => Ok(chains),
        }
    }

    /// Moves prices on both chains. The duration is given in blocks of the first chain; the other chain gets as many
    /// blocks as fit the same time.
    async fn push_prices(&self, asset: Option<&str>, bps: i32, blocks: u64, passes: bool) -> Result<(), SteerError> {
        let named = |ticker: &str| {
            let found = PricedAsset::FED.into_iter().find(|asset| asset.ticker().eq_ignore_ascii_case(ticker));
            found.ok_or_else(|| SteerError::NoAsset(SafeText::clean(ticker, 20)))
        };
        let asset = asset.map(named).transpose()?;
        let chains = self.inhabited()?;
        let measure = chains.first().map_or(1, |chain| chain.deployment.plan.block_millis.max(1));
        for chain in chains {
            let background_actors = chain.background_actors.clone();
            let blocks = (blocks.saturating_mul(measure) / chain.deployment.plan.block_millis.max(1)).max(1);
            let push = move |chain: &mut golem_chain::devnet::Chain| {
                let from_block = chain.next_context().number;
                let parts_per_million = bps.saturating_mul(100);
                background_actors.shock(PriceShock { asset, parts_per_million, from_block, blocks, passes });
            };
            chain.devnet.run(push).await?;
        }
        Ok(())
    }

    /// Turns the simulated market on or off.
    pub(super) async fn set_market(&self, on: bool) -> Result<(), SteerError> {
        let mode = if on { MarketMode::On } else { MarketMode::Off };
        for chain in self.inhabited()? {
            let background_actors = chain.background_actors.clone();
            let set = move |chain: &mut golem_chain::devnet::Chain| background_actors.set_market(chain, mode);
            chain.devnet.run(set).await?;
        }
        Ok(())
    }

    async fn run_chain(&self, name: &str, runs: bool) -> Result<(), SteerError> {
        let chain = self.inhabited()?.iter().find(|chain| chain.deployment.plan.name == name);
        let chain = chain.ok_or_else(|| SteerError::NoChainNamed(SafeText::clean(name, 20)))?;
        let id = chain.devnet.chain_id();
        match runs {
            true => self.halted().remove(&id),
            false => self.halted().insert(id),
        };
        let pace = match self.has_own_time {
            true => UNHURRIED,
            false => Duration::from_millis(chain.deployment.plan.block_millis),
        };
        let wanted = if runs { MiningMode::Interval(pace) } else { MiningMode::Manual };
        Ok(chain.devnet.set_mining(wanted).await?)
    }

    /// Lets accounts of the devnet rate an agent, each once per mention.
    async fn rate_agent(&self, chain: &str, raters: Vec<String>, rating: AgentRating) -> Result<(), SteerError> {
        let found = self.inhabited()?.iter().find(|one| one.deployment.plan.name == chain);
        let found = found.ok_or_else(|| SteerError::NoChainNamed(SafeText::clean(chain, 20)))?;
        let deployment = Arc::clone(&found.deployment);
        let rate = move |chain: &mut golem_chain::devnet::Chain| {
            raters.iter().try_for_each(|key| agents::rate(chain, &deployment, key, &rating))
        };
        Ok(found.devnet.run(rate).await??)
    }

    fn set_fillers_active(&self, look: bool) -> Result<(), SteerError> {
        for chain in self.inhabited()? {
            chain.background_actors.order_service().set_fillers_rest(!look);
        }
        Ok(())
    }

    fn relayers_deliver(&self, deliver: bool) -> Result<(), SteerError> {
        for chain in self.inhabited()? {
            let relayers = chain.background_actors.relayers().ok_or(SteerError::NoRelayers)?;
            relayers.set_rest(!deliver);
        }
        Ok(())
    }

    fn raise(&self, level: StopLevel, reason: &str) -> Result<(), StopError> {
        self.control.stop_watch.raise(level, reason).map(|_| ())
    }

    /// Answers the oldest open request about an action.
    fn reply(&self, reply: &ScriptedReply) -> Result<(), CueError> {
        let queue = self.sources.queue.as_ref().ok_or(CueError::NoQueue)?;
        let pending = queue.pending();
        let request = pending.first().ok_or(CueError::NoQuestion)?;
        let reason = |text: &str| SafeText::clean(text, 300);
        let answer = match reply {
            ScriptedReply::Approve => OperatorAnswer::Once,
            ScriptedReply::Smaller { amount } => OperatorAnswer::Smaller { amount: amount.clone() },
            ScriptedReply::Refuse { reason: why } => OperatorAnswer::Refuse { reason: reason(why) },
            ScriptedReply::RefuseAndStop { reason: why } => OperatorAnswer::RefuseAndStop { reason: reason(why) },
        };
        // Scenarios run on devnets only; nobody is there to read or type.
        let confirmed = approval::OperatorReply { answer, confirmation: request.requirement.met() };
        let answered = queue.answer(request.preview.permit.permit_id, confirmed);
        // The stop comes second here: a request that sees it first is withdrawn without an answer, and the scenario's
        // outcome would depend on the speed of the machine. The waiting agent is held by the answer meanwhile.
        if let ScriptedReply::RefuseAndStop { reason } = reply {
            self.raise(StopLevel::Halt, reason)?;
        }
        Ok(answered?)
    }
}

/// Answer of a scenario's operator to every request.
pub(super) fn answer(operator: ScriptedOperator) -> Option<OperatorAnswer> {
    match operator {
        ScriptedOperator::Wait => None,
        ScriptedOperator::Approve => Some(OperatorAnswer::Once),
        ScriptedOperator::Refuse => {
            Some(OperatorAnswer::Refuse { reason: SafeText::clean("the scenario's operator refuses", 60) })
        }
    }
}
