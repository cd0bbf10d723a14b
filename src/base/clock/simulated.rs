//! A clock that somebody moves, tick by tick, for shows and tests that do not wait. Whoever attends is waited for: time
//! stands while one of them is busy, so that what happens at which moment does not depend on how fast the machine is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

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
    tick: watch::Sender<u64>,
    /// Whether everybody rests in the present tick.
    rested: watch::Sender<bool>,
}

/// Who takes part, and how many of them have nothing more to do in this tick.
#[derive(Debug, Default)]
struct Hall {
    attending: usize,
    resting: usize,
}

impl Shared {
    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, hall: &Hall) {
        let rested = hall.resting >= hall.attending;
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
            shared.tell(&hall);
        }
    }
}

/// Somebody who rests until the next tick.
struct Rest {
    shared: Arc<Shared>,
    since: u64,
}

impl Rest {
    fn begin(shared: &Arc<Shared>) -> Self {
        let mut hall = shared.hall();
        // Under the lock that ticks are made under: it cannot be another one by now.
        let since = *shared.tick.borrow();
        hall.resting += 1;
        shared.tell(&hall);
        drop(hall);
        Self { shared: Arc::clone(shared), since }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let mut hall = self.shared.hall();
        // With a new tick the count has begun anew, without this one.
        if *self.shared.tick.borrow() == self.since {
            hall.resting = hall.resting.saturating_sub(1);
            self.shared.tell(&hall);
        }
    }
}

impl SimulatedClock {
    /// A clock that stands at `millis` since the Unix epoch.
    pub fn at(millis: u64) -> Self {
        let shared = Shared {
            millis: AtomicU64::new(millis),
            hall: Mutex::default(),
            tick: watch::Sender::new(0),
            rested: watch::Sender::new(true),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the time, which never goes back; nobody is woken yet: see [`tick`](Self::tick).
    pub fn set(&self, millis: u64) {
        self.shared.millis.fetch_max(millis, Ordering::SeqCst);
    }

    /// Wakes everybody who pauses, to look at the time and the world again.
    pub fn tick(&self) {
        let mut hall = self.shared.hall();
        hall.resting = 0;
        self.shared.tick.send_modify(|tick| *tick += 1);
        self.shared.tell(&hall);
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
            let rest = Rest::begin(&shared);
            let mut ticks = shared.tick.subscribe();
            let since = rest.since;
            // As above: the other side is held by `shared`.
            let _there = ticks.wait_for(|tick| *tick != since).await;
        })
    }

    fn attend(&self) -> Attendance {
        let mut hall = self.shared.hall();
        hall.attending += 1;
        self.shared.tell(&hall);
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

    #[test]
    fn time_never_goes_back() {
        let clock = SimulatedClock::at(5);
        clock.set(4);
        assert_eq!((clock.now_millis(), clock.steady_millis()), (5, 5));
        clock.set(6);
        assert_eq!(clock.now_millis(), 6);
    }
}
