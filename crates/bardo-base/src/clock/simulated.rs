//! Clock that is advanced explicitly, tick by tick, for scenarios and tests that do not wait.
//!
//! Time does not advance while a participant is busy, so the order of events does not depend on the speed of the
//! machine. Participants wake one after the other, each once the previous one rests again. So the order of participants
//! that wake at the same tick is fixed as well.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::Clock;

/// A clock that is advanced explicitly. A clone shows the same time.
#[derive(Debug, Clone)]
pub struct SimulatedClock {
    shared: Arc<ClockState>,
}

#[derive(Debug)]
struct ClockState {
    /// Shown time, in milliseconds since the Unix epoch.
    millis: AtomicU64,
    participants: Mutex<Participants>,
    /// True while every participant rests in the current tick.
    rested: watch::Sender<bool>,
}

/// Number of participants, and the queues of those that rest.
#[derive(Debug, Default)]
struct Participants {
    /// Number of registered participants.
    attending: usize,
    /// Participants that rest until the next tick, in the order in which they began to.
    resting: VecDeque<Sleeper>,
    /// Participants that the current tick has yet to wake, in order.
    waking: VecDeque<Sleeper>,
    /// Number of the next participant to rest.
    number: u64,
}

#[derive(Debug)]
struct Sleeper {
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Participants {
    fn wake_all(&mut self) {
        for sleeper in self.waking.drain(..) {
            // A receiver that is gone has also left the queue, so the send may fail.
            let _awake = sleeper.wake.send(());
        }
    }
}

impl ClockState {
    fn participants(&self) -> MutexGuard<'_, Participants> {
        self.participants.lock()
    }

    /// Wakes the next participant if none is busy, and publishes whether all of them rest.
    fn wake_next(&self, participants: &mut Participants) {
        while participants.resting.len() + participants.waking.len() >= participants.attending
            && let Some(next) = participants.waking.pop_front()
        {
            let _awake = next.wake.send(());
        }
        let rested = participants.waking.is_empty() && participants.resting.len() >= participants.attending;
        self.rested.send_if_modified(|known| std::mem::replace(known, rested) != rested);
    }
}

/// Registration of a participant in simulated time; see [`Clock::attend`]. Empty for real clocks.
#[derive(Debug, Default)]
pub struct ClockParticipation(Option<Arc<ClockState>>);

impl Drop for ClockParticipation {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            let mut participants = shared.participants();
            participants.attending = participants.attending.saturating_sub(1);
            shared.wake_next(&mut participants);
        }
    }
}

/// A participant that rests until the next tick.
struct RestingParticipant {
    shared: Arc<ClockState>,
    number: u64,
    woken: oneshot::Receiver<()>,
}

impl RestingParticipant {
    fn begin(shared: &Arc<ClockState>) -> Self {
        let mut participants = shared.participants();
        let (wake, woken) = oneshot::channel();
        let number = participants.number;
        participants.number += 1;
        participants.resting.push_back(Sleeper { number, wake });
        shared.wake_next(&mut participants);
        drop(participants);
        Self { shared: Arc::clone(shared), number, woken }
    }
}

impl Drop for RestingParticipant {
    /// A participant that stops resting before it is woken counts as busy again.
    fn drop(&mut self) {
        let mut participants = self.shared.participants();
        participants.resting.retain(|sleeper| sleeper.number != self.number);
        participants.waking.retain(|sleeper| sleeper.number != self.number);
        self.shared.wake_next(&mut participants);
    }
}

impl SimulatedClock {
    /// Creates a clock that shows `millis` milliseconds since the Unix epoch.
    pub fn at(millis: u64) -> Self {
        let shared = ClockState {
            millis: AtomicU64::new(millis),
            participants: Mutex::default(),
            rested: watch::Sender::new(true),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the time, which never goes back. Wakes no participant: see [`tick`](Self::tick).
    pub fn set(&self, millis: u64) {
        self.shared.millis.fetch_max(millis, Ordering::SeqCst);
    }

    /// Wakes all pausing participants, one after the other, so that they read the time again.
    pub fn tick(&self) {
        let mut participants = self.shared.participants();
        participants.wake_all();
        let resting = std::mem::take(&mut participants.resting);
        participants.waking.extend(resting);
        self.shared.rested.send_replace(false);
        self.shared.wake_next(&mut participants);
    }

    /// Wakes at once all participants that the current tick has yet to wake: a busy one may be waiting for one of them.
    pub fn wake_all(&self) {
        let mut participants = self.shared.participants();
        participants.wake_all();
        self.shared.wake_next(&mut participants);
    }

    /// Waits until no participant is busy. A participant that waits for anything other than time counts as busy, so
    /// callers should bound this wait where that can happen.
    pub async fn rested(&self) {
        let mut rested = self.shared.rested.subscribe();
        // `self` keeps the sender alive, so waiting cannot fail.
        let _rested = rested.wait_for(|rested| *rested).await;
    }
}

impl Clock for SimulatedClock {
    fn now_millis(&self) -> u64 {
        self.shared.millis.load(Ordering::SeqCst)
    }

    fn steady_millis(&self) -> u64 {
        self.now_millis()
    }

    fn pause(&self, _: Duration) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut rest = RestingParticipant::begin(&shared);
            // The sender stays in its queue until it is used.
            let _woken = (&mut rest.woken).await;
        })
    }

    fn attend(&self) -> ClockParticipation {
        let mut participants = self.shared.participants();
        participants.attending += 1;
        self.shared.wake_next(&mut participants);
        ClockParticipation(Some(Arc::clone(&self.shared)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_rested(clock: &SimulatedClock) -> bool {
        tokio::time::timeout(Duration::from_millis(50), clock.rested()).await.is_ok()
    }

    #[tokio::test]
    async fn time_waits_for_busy_participants_only() {
        let clock = SimulatedClock::at(1_000);
        assert!(is_rested(&clock).await, "without a participant");
        let participation = clock.attend();
        assert!(!is_rested(&clock).await, "the participant is busy");
        let mut pause = clock.pause(Duration::from_secs(9));
        assert!(futures::poll!(&mut pause).is_pending());
        assert!(is_rested(&clock).await);
        clock.set(2_000);
        assert!(futures::poll!(&mut pause).is_pending(), "setting the time wakes no participant");
        clock.tick();
        assert!(!is_rested(&clock).await, "the participant was woken but has not run yet");
        assert!(futures::poll!(&mut pause).is_ready());
        assert!(!is_rested(&clock).await);
        // A participant that stops waiting before the tick counts as busy again.
        let mut pause = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut pause).is_pending());
        drop(pause);
        assert!(!is_rested(&clock).await);
        drop(participation);
        assert!(is_rested(&clock).await);
    }

    #[tokio::test]
    async fn a_pause_that_outlives_its_tick_does_not_count_in_the_next() {
        let clock = SimulatedClock::at(0);
        let (_one, _two) = (clock.attend(), clock.attend());
        let (mut first, mut second) = (clock.pause(Duration::ZERO), clock.pause(Duration::ZERO));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        clock.tick();
        let mut third = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut third).is_pending());
        drop((first, second));
        assert!(!is_rested(&clock).await, "one of two rests");
        let mut fourth = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut fourth).is_pending());
        assert!(is_rested(&clock).await);
    }

    #[tokio::test]
    async fn participants_woken_by_one_tick_run_one_after_the_other() {
        let clock = SimulatedClock::at(0);
        let (_one, _two) = (clock.attend(), clock.attend());
        let (mut first, mut second) = (clock.pause(Duration::ZERO), clock.pause(Duration::ZERO));
        // In the order in which they began to rest, not in which they were created.
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut first).is_pending());
        clock.tick();
        assert!(futures::poll!(&mut first).is_pending(), "the second participant comes first");
        assert!(futures::poll!(&mut second).is_ready());
        assert!(futures::poll!(&mut first).is_pending(), "the second participant is busy");
        let mut again = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut again).is_pending());
        assert!(futures::poll!(&mut first).is_ready());
        assert!(!is_rested(&clock).await, "the first participant is busy");
        // A participant may wait for another one that has yet to be woken.
        let mut first = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut first).is_pending());
        assert!(is_rested(&clock).await);
        clock.tick();
        assert!(futures::poll!(&mut again).is_ready() && futures::poll!(&mut first).is_pending());
        clock.wake_all();
        assert!(futures::poll!(&mut first).is_ready());
    }

    #[test]
    fn time_never_goes_back() {
        let clock = SimulatedClock::at(5);
        clock.set(4);
        assert_eq!((clock.now_millis(), clock.steady_millis()), (5, 5));
        clock.set(6);
        assert_eq!(clock.now_millis(), 6);
    }
}
