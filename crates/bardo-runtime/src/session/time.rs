//! Simulated time of a session: it advances tick by tick, each as soon as all participants are done with the one
//! before, and blocks are made as it advances. So a scenario takes as long as its work, with the same outcome each
//! time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::scenario_events::{ScenarioEvents, answer};
use super::state::SessionState;
use bardo_base::clock::{Clock, SimulatedClock};
use golem::scenario::ScriptedOperator;

/// Start of simulated time, in milliseconds since the Unix epoch: 15 January 2027, 8:00 UTC.
pub(super) const BEGINS_AT: u64 = 1_800_000_000_000;

/// Block interval of the devnet itself under simulated time: it is never reached.
pub(super) const UNHURRIED: Duration = Duration::from_secs(365 * 86_400);

/// Maximum time that a participant may be busy, by the system clock, before time advances anyway.
const PATIENCE: Duration = Duration::from_secs(90);

/// Maximum time that a participant may be busy, by the system clock, while others wait to be woken: it may be waiting
/// for one of them.
const IN_LINE: Duration = Duration::from_secs(30);

/// Polling interval while time stands still.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Seconds of a tick from which on a scenario spans hours, most of which nobody wants to watch.
const LONG_TICK: u64 = 60;

/// Ticks around a moment of such a scenario that pass at the usual pace.
const QUIET_TICKS: u64 = 12;

/// Factor of the pace between such moments, while no call runs.
const QUIET_PACE: u32 = 20;

/// Options of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOptions {
    /// Speed of simulated time.
    pub pace: TimePace,
    /// Seconds per tick, at least one. A chain makes at most one block per tick.
    pub tick: u64,
    /// Duration after which time stands still, in milliseconds; `None` for no limit.
    pub most: Option<u64>,
    /// True if each moment of a scenario waits for
    /// [`SessionCommand::Step`](bardo_session::handle::SessionCommand::Step).
    pub step: bool,
    /// True if the scenario's own operator answers requests instead of a person.
    pub operator: bool,
}

/// Speed of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePace {
    /// As fast as the participants are done.
    Free,
    /// This many simulated seconds per second of the system clock.
    Times(u32),
}

/// Advances the time until the task is aborted.
pub(super) async fn conduct(state: Arc<SessionState>, clock: SimulatedClock, options: TimeOptions) {
    let begun = clock.now_millis();
    let tick = options.tick.max(1).saturating_mul(1_000);
    let mut cues = ScenarioEvents::of(&state, options.operator);
    let mut due = Instant::now();
    // On a screen, life goes on after the scenario; with a limit on time, a run must last its full time.
    let ends = options.operator && options.most.is_none();
    let mut looked = false;
    loop {
        if timeout(IN_LINE, clock.rested()).await.is_err() {
            clock.wake_all();
            if timeout(PATIENCE, clock.rested()).await.is_err() {
                tracing::warn!("time advances although an actor is still busy");
            }
        }
        // The state of the stop file is published before the next tick.
        state.links.stop.send_if_modified(|known| {
            let now = state.lasting(state.control.stop_watch.file.read().level());
            std::mem::replace(known, now) != now
        });
        let answered = options.operator && answer_open(&state);
        if cues.give(&state).await || answered {
            clock.tick();
            continue;
        }
        let now = clock.now_millis();
        let leaving = *state.control.leaving.borrow();
        let over = ends && state.control.running.count() == 0 && state.is_over();
        if over && looked {
            // Nothing more happens, however long the observer takes to leave.
            state.settled();
            sleep(POLL_INTERVAL).await;
            // A person's action is still noticed, and lets time advance while it is running.
            clock.tick();
            continue;
        }
        looked = over;
        if over {
            // Participants with something to do at the end begin it now; time has not advanced.
            clock.tick();
            continue;
        }
        if !leaving && options.most.is_some_and(|most| now.saturating_sub(begun) >= most) {
            sleep(POLL_INTERVAL).await;
            continue;
        }
        // A tick would end the time that a person has to decide.
        let is_watched = !options.operator && matches!(options.pace, TimePace::Times(_));
        if is_watched && !leaving && options.tick >= LONG_TICK && somebody_decides(&state) {
            sleep(POLL_INTERVAL).await;
            continue;
        }
        let next = now.saturating_add(tick);
        if options.step && !leaving && cues.is_moment(now, next) {
            match state.control.steps.acquire().await {
                Ok(permit) => permit.forget(),
                Err(_) => return,
            }
        }
        if let TimePace::Times(times) = options.pace {
            let is_quiet = options.tick >= LONG_TICK
                && state.control.running.count() == 0
                && cues.is_quiet(now.saturating_sub(tick * QUIET_TICKS), next.saturating_add(tick * QUIET_TICKS));
            let times = times.max(1).saturating_mul(if is_quiet { QUIET_PACE } else { 1 });
            due = due.max(Instant::now()) + Duration::from_millis(tick).checked_div(times).unwrap_or_default();
            sleep_until(due).await;
        }
        clock.set(next);
        make_blocks(&state, now.saturating_sub(begun), next.saturating_sub(begun)).await;
        clock.tick();
    }
}

impl SessionState {
    /// True if the scenario has nothing left to do.
    fn is_over(&self) -> bool {
        self.control.script.borrow().as_ref().is_some_and(|script| script.played.borrow().is_over())
    }

    /// Reports that nothing started by the scenario is still running.
    fn settled(&self) {
        if let Some(script) = self.control.script.borrow().as_ref() {
            script.played.send_if_modified(|played| !std::mem::replace(&mut played.settled, true));
        }
    }
}

/// Makes the blocks that are due between `before` and `elapsed`, in milliseconds since the beginning: at most one per
/// chain.
async fn make_blocks(state: &SessionState, before: u64, elapsed: u64) {
    let Some(sandbox) = &state.sources.sandbox else { return };
    for chain in sandbox.chains() {
        let pace = chain.deployment.plan.block_millis.max(1);
        let due = elapsed / pace > before / pace;
        if due && !state.halted().contains(&chain.devnet.chain_id()) {
            // A stopped chain makes no blocks; code that needs one reports that itself.
            let _stopped = chain.devnet.mine().await;
        }
    }
}

/// True if a request waits for the operator's answer. One that passes by itself waits for the time.
fn somebody_decides(state: &SessionState) -> bool {
    state.sources.queue.as_ref().is_some_and(|queue| queue.pending().iter().any(|request| !request.passes_by_itself))
}

/// Answers the open requests as the scenario's operator; returns true if any was answered.
fn answer_open(state: &SessionState) -> bool {
    let Some(queue) = &state.sources.queue else { return false };
    let operator =
        state.control.script.borrow().as_ref().map_or(ScriptedOperator::Wait, |script| script.scenario.operator);
    let mut answered = false;
    for request in queue.pending() {
        let Some(said) = answer(operator) else { continue };
        let reply = bardo_safety::approval::OperatorReply { answer: said, confirmation: request.requirement.met() };
        answered |= queue.answer(request.preview.permit.permit_id, reply).is_ok();
    }
    answered
}
