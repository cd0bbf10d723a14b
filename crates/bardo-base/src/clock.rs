//! Time behind a seam, so that tests and simulations can own it.

mod simulated;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

pub use simulated::{Attendance, SimulatedClock};

/// A source of wall-clock time, and a way to wait for it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_millis(&self) -> u64;

    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64 {
        self.now_millis() / 1000
    }

    /// Milliseconds on a scale that never goes back and begins anywhere: for how long something takes.
    fn steady_millis(&self) -> u64 {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits for `time`, or less: whoever waits for a moment looks at the clock again afterwards.
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    /// Takes part in time until it is dropped: a clock that somebody moves is not moved while a participant is busy,
    /// which is whenever it is not in a [`pause`](Self::pause).
    fn attend(&self) -> Attendance {
        Attendance::default()
    }
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_millis(&self) -> u64 {
        // A clock before 1970 reads as 0; a machine that far off fails every freshness check after it.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }
}
