//! A session's own time: it passes second by second, each as soon as nobody has anything more to do in the one before,
//! and blocks are made as it passes. So a show takes as long as its work does, and goes the same way each time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::cues::{Cues, answer};
use super::stage::Stage;
use bardo_base::clock::{Clock, SimulatedClock};
use golem::scenario::Operator;

/// When such a time begins, in milliseconds since the Unix epoch: 15 January 2027, 8:00.
pub(super) const BEGINS_AT: u64 = 1_800_000_000_000;

/// The devnet's own interval where blocks are made as such a time passes: it never comes.
pub(super) const UNHURRIED: Duration = Duration::from_secs(365 * 86_400);

/// How long somebody may be busy, by the machine's clock, before time passes in spite of it.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long somebody may be busy, by the machine's clock, while others wait in line to be woken: it may be one of them for
/// whom it waits.
const IN_LINE: Duration = Duration::from_secs(30);

/// How often it is looked whether time may go on.
const LOOK: Duration = Duration::from_millis(20);

/// How a session's own time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOptions {
    /// How fast.
    pub pace: Pace,
    /// How many seconds pass at once, at least one. A chain makes one block in them, however many would be due.
    pub tick: u64,
    /// After how many of its milliseconds it stands still.
    pub most: Option<u64>,
    /// Whether each moment of a show waits for [`Command::Step`](bardo_session::handle::Command::Step).
    pub step: bool,
    /// Whether the show's own operator answers, in the place of a person.
    pub operator: bool,
}

/// How fast time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as everybody is done.
    Free,
    /// So many seconds in one of the machine's.
    Times(u32),
}

/// Moves the time on, until it is aborted.
pub(super) async fn conduct(stage: Arc<Stage>, clock: SimulatedClock, options: TimeOptions) {
    let begun = clock.now_millis();
    let tick = options.tick.max(1).saturating_mul(1_000);
    let mut cues = Cues::of(&stage, options.operator);
    let mut due = Instant::now();
    // On a screen life goes on after the show, and whoever counts heartbeats lives as many.
    let ends = options.operator && options.most.is_none();
    let mut looked = false;
    loop {
        if timeout(IN_LINE, clock.rested()).await.is_err() {
            clock.wake_all();
            if timeout(PATIENCE, clock.rested()).await.is_err() {
                tracing::warn!("time advances although an actor is still busy");
            }
        }
        // What the stop file says is known to everybody before the next second.
        stage.stop.send_if_modified(|known| {
            let now = stage.lasting(stage.brake.file.read().level());
            std::mem::replace(known, now) != now
        });
        let answered = options.operator && answer_open(&stage);
        if cues.give(&stage).await || answered {
            clock.tick();
            continue;
        }
        let now = clock.now_millis();
        let leaving = *stage.leaving.borrow();
        let over = ends && stage.running.load(Ordering::SeqCst) == 0 && stage.is_over();
        if over && looked {
            // Nothing more happens, however long it takes whoever follows it to leave.
            stage.settled();
            sleep(LOOK).await;
            // What a person does now is seen all the same, and lets time pass while it takes some.
            clock.tick();
            continue;
        }
        looked = over;
        if over {
            // Whoever has something to do at the end begins it now; time has not moved.
            clock.tick();
            continue;
        }
        if !leaving && options.most.is_some_and(|most| now.saturating_sub(begun) >= most) {
            sleep(LOOK).await;
            continue;
        }
        let next = now.saturating_add(tick);
        if options.step && !leaving && cues.is_moment(now, next) {
            match stage.steps.acquire().await {
                Ok(permit) => permit.forget(),
                Err(_) => return,
            }
        }
        if let Pace::Times(times) = options.pace {
            due = due.max(Instant::now()) + Duration::from_millis(tick).checked_div(times.max(1)).unwrap_or_default();
            sleep_until(due).await;
        }
        clock.set(next);
        make_blocks(&stage, now.saturating_sub(begun), next.saturating_sub(begun)).await;
        clock.tick();
    }
}

impl Stage {
    /// Whether nothing of its show is still to come.
    fn is_over(&self) -> bool {
        self.cues.borrow().as_ref().is_some_and(|script| script.played.borrow().is_over())
    }

    /// Tells whoever follows the show that nothing begun by it is under way any more.
    fn settled(&self) {
        if let Some(script) = self.cues.borrow().as_ref() {
            script.played.send_if_modified(|played| !std::mem::replace(&mut played.settled, true));
        }
    }
}

/// Makes the blocks that are due from `before` until `elapsed`, in milliseconds since the beginning: one at most.
async fn make_blocks(stage: &Stage, before: u64, elapsed: u64) {
    let Some(sandbox) = &stage.sandbox else { return };
    for chain in sandbox.chains() {
        let pace = chain.deployment.plan.block_millis.max(1);
        let due = elapsed / pace > before / pace;
        if due && !stage.halted().contains(&chain.devnet.chain_id()) {
            // A chain that has stopped makes no blocks; whoever needs one says so.
            let _stopped = chain.devnet.mine().await;
        }
    }
}

/// Has the show's operator answer what is open; true if anything was answered.
fn answer_open(stage: &Stage) -> bool {
    let Some(desk) = &stage.desk else { return false };
    let operator = stage.cues.borrow().as_ref().map_or(Operator::Wait, |script| script.scenario.operator);
    let mut answered = false;
    for request in desk.pending() {
        let Some(said) = answer(operator) else { continue };
        let reply = bardo_safety::approval::Reply { answer: said, confirmation: request.requirement.met() };
        answered |= desk.answer(request.preview.permit.permit_id, reply).is_ok();
    }
    answered
}
