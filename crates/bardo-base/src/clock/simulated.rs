//! A clock that somebody moves, tick by tick, for shows and tests that do not wait. Whoever attends is waited for: time
//! stands while one of them is busy, so that what happens at which moment does not depend on how fast the machine is. And
//! they are woken one after the other, each as soon as those before it rest again: who of two that wake at a moment sees
//! what the other does there does not depend on it either.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::Clock;

/// The clock. A clone shows the same time.
#[derive(Debug, Clone)]
pub struct SimulatedClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    millis: AtomicU64,
    hall: Mutex<Hall>,
    /// Whether everybody rests in the present tick.
    rested: watch::Sender<bool>,
}

/// Who takes part, and who has nothing more to do in this tick.
#[derive(Debug, Default)]
struct Hall {
    attending: usize,
    /// Those that rest until the next tick, in the order in which they began to.
    resting: VecDeque<Sleeper>,
    /// Those that the present tick is still to wake, in their order.
    waking: VecDeque<Sleeper>,
    /// The number of the next one to rest.
    number: u64,
}

#[derive(Debug)]
struct Sleeper {
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Hall {
    fn wake_all(&mut self) {
        for sleeper in self.waking.drain(..) {
            // Whoever does not wait any more is not in the line any more.
            let _awake = sleeper.wake.send(());
        }
    }
}

impl Shared {
    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock()
    }

    /// Wakes who is next, where nobody is busy, and says whether everybody rests.
    fn tell(&self, hall: &mut Hall) {
        while hall.resting.len() + hall.waking.len() >= hall.attending
            && let Some(next) = hall.waking.pop_front()
        {
            let _awake = next.wake.send(());
        }
        let rested = hall.waking.is_empty() && hall.resting.len() >= hall.attending;
        self.rested.send_if_modified(|known| std::mem::replace(known, rested) != rested);
    }
}

/// Somebody who takes part in time; see [`Clock::attend`]. Of a clock that nobody moves it is nothing.
#[derive(Debug, Default)]
pub struct Attendance(Option<Arc<Shared>>);

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            let mut hall = shared.hall();
            hall.attending = hall.attending.saturating_sub(1);
            shared.tell(&mut hall);
        }
    }
}

/// Somebody who rests until the next tick.
struct Rest {
    shared: Arc<Shared>,
    number: u64,
    woken: oneshot::Receiver<()>,
}

impl Rest {
    fn begin(shared: &Arc<Shared>) -> Self {
        let mut hall = shared.hall();
        let (wake, woken) = oneshot::channel();
        let number = hall.number;
        hall.number += 1;
        hall.resting.push_back(Sleeper { number, wake });
        shared.tell(&mut hall);
        drop(hall);
        Self { shared: Arc::clone(shared), number, woken }
    }
}

impl Drop for Rest {
    /// Whoever stops resting before it is woken is busy again.
    fn drop(&mut self) {
        let mut hall = self.shared.hall();
        hall.resting.retain(|sleeper| sleeper.number != self.number);
        hall.waking.retain(|sleeper| sleeper.number != self.number);
        self.shared.tell(&mut hall);
    }
}

impl SimulatedClock {
    /// A clock that stands at `millis` since the Unix epoch.
    pub fn at(millis: u64) -> Self {
        let shared =
            Shared { millis: AtomicU64::new(millis), hall: Mutex::default(), rested: watch::Sender::new(true) };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the time, which never goes back; nobody is woken yet: see [`tick`](Self::tick).
    pub fn set(&self, millis: u64) {
        self.shared.millis.fetch_max(millis, Ordering::SeqCst);
    }

    /// Wakes everybody who pauses, one after the other, to look at the time and the world again.
    pub fn tick(&self) {
        let mut hall = self.shared.hall();
        hall.wake_all();
        let resting = std::mem::take(&mut hall.resting);
        hall.waking.extend(resting);
        self.shared.rested.send_replace(false);
        self.shared.tell(&mut hall);
    }

    /// Wakes all at once that the present tick is still to wake: whoever is busy may be waiting for one of them.
    pub fn wake_all(&self) {
        let mut hall = self.shared.hall();
        hall.wake_all();
        self.shared.tell(&mut hall);
    }

    /// Waits until nobody who attends is busy. Whoever attends and waits for something else than the time is
    /// busy: bound this where such a thing can be.
    pub async fn rested(&self) {
        let mut rested = self.shared.rested.subscribe();
        // The clock is held here, so its side of the channel is there.
        let _there = rested.wait_for(|rested| *rested).await;
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
            let mut rest = Rest::begin(&shared);
            // The other side is in the hall until it is used.
            let _woken = (&mut rest.woken).await;
        })
    }

    fn attend(&self) -> Attendance {
        let mut hall = self.shared.hall();
        hall.attending += 1;
        self.shared.tell(&mut hall);
        Attendance(Some(Arc::clone(&self.shared)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_rested(clock: &SimulatedClock) -> bool {
        tokio::time::timeout(Duration::from_millis(50), clock.rested()).await.is_ok()
    }

    #[tokio::test]
    async fn time_waits_for_whoever_is_busy_and_for_nobody_else() {
        let clock = SimulatedClock::at(1_000);
        assert!(is_rested(&clock).await, "nobody attends");
        let attendance = clock.attend();
        assert!(!is_rested(&clock).await, "somebody is busy");
        let mut pause = clock.pause(Duration::from_secs(9));
        assert!(futures::poll!(&mut pause).is_pending());
        assert!(is_rested(&clock).await);
        clock.set(2_000);
        assert!(futures::poll!(&mut pause).is_pending(), "the time alone wakes nobody");
        clock.tick();
        assert!(!is_rested(&clock).await, "it was woken and has not looked yet");
        assert!(futures::poll!(&mut pause).is_ready());
        assert!(!is_rested(&clock).await);
        // Whoever stops waiting before the tick is busy again.
        let mut pause = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut pause).is_pending());
        drop(pause);
        assert!(!is_rested(&clock).await);
        drop(attendance);
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
    async fn those_who_wake_at_a_moment_do_so_one_after_the_other() {
        let clock = SimulatedClock::at(0);
        let (_one, _two) = (clock.attend(), clock.attend());
        let (mut first, mut second) = (clock.pause(Duration::ZERO), clock.pause(Duration::ZERO));
        // As they began to rest, not as they were made.
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut first).is_pending());
        clock.tick();
        assert!(futures::poll!(&mut first).is_pending(), "the second is not done");
        assert!(futures::poll!(&mut second).is_ready());
        assert!(futures::poll!(&mut first).is_pending(), "the second is at work");
        let mut again = clock.pause(Duration::ZERO);
        assert!(futures::poll!(&mut again).is_pending());
        assert!(futures::poll!(&mut first).is_ready());
        assert!(!is_rested(&clock).await, "the first is at work");
        // Whoever waits for somebody that is still to be woken is helped.
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
