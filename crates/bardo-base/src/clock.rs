//! Clock abstraction, so that tests and simulations can control time.

mod simulated;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

pub use simulated::{ClockParticipation, SimulatedClock};

/// A source of wall-clock time that can also wait.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_millis(&self) -> u64;

    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64 {
        self.now_millis() / 1000
    }

    /// Milliseconds on a monotonic scale with an arbitrary origin, for measuring durations.
    fn steady_millis(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits for at most `time`. It may return early, so a caller that waits for a point in time must read the clock
    /// again afterwards.
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    /// Registers a participant until the returned value is dropped. A simulated clock does not advance while a
    /// participant is busy, which is whenever it is not in a [`pause`](Self::pause).
    fn attend(&self) -> ClockParticipation {
        ClockParticipation::default()
    }
}

/// Default tolerance for the difference between a chain's time and this machine's, in seconds. On some chains a block
/// is a minute or two late.
pub const CLOCK_TOLERANCE: u64 = 120;

/// Time of a chain's latest block and of this machine, for their comparison.
///
/// The two alone do not show which of them is wrong: the machine's clock may be set wrong, and an endpoint may have
/// stopped following the chain or lie about the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTimes {
    /// Time of this machine, in seconds since the Unix epoch.
    pub machine: u64,
    /// Time of the chain's latest block, in seconds since the Unix epoch.
    pub chain: u64,
    /// Largest difference at which the two agree, in seconds.
    pub tolerance: u64,
}

impl BlockTimes {
    /// Returns true if the two times differ by at most `tolerance` seconds.
    pub fn agree(&self) -> bool {
        self.machine.abs_diff(self.chain) <= self.tolerance
    }

    /// Returns the time to compare deadlines and expirations with, in seconds since the Unix epoch. If the two agree,
    /// it is the later one, since the next block cannot be earlier. If they do not, it is the chain's, since contracts
    /// compare deadlines with the chain's time.
    pub fn deadline_time(&self) -> u64 {
        if self.agree() { self.machine.max(self.chain) } else { self.chain }
    }
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_millis(&self) -> u64 {
        // A time before 1970 reads as 0; every freshness check fails on such a machine.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }
}
