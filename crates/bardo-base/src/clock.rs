//! Clock abstraction, so that tests and simulations can control time.

mod simulated;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

pub use simulated::{ClockParticipation, SimulatedClock};

/// A source of wall-clock time, and a way to wait.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_millis(&self) -> u64;

    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64 {
        self.now_millis() / 1000
    }

    /// Milliseconds on a monotonic scale with an arbitrary origin, for measuring durations.
    fn steady_millis(&self) -> u64 {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits for `time` or less. A caller that waits for a point in time must read the clock again afterwards.
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    /// Registers a participant until the returned value is dropped. A simulated clock does not advance while a
    /// participant is busy, which is whenever it is not in a [`pause`](Self::pause).
    fn attend(&self) -> ClockParticipation {
        ClockParticipation::default()
    }
}

/// Largest difference between a chain's time and a machine's that counts as none, in seconds: some chains make a block
/// a minute or two late.
pub const CLOCK_TOLERANCE: u64 = 120;

/// Time of a chain's latest block beside this machine's, in seconds since the Unix epoch.
///
/// Nobody can tell from the two alone which of them is wrong: the machine's clock may be set wrong, and an endpoint may
/// follow the chain no more, or lie about the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTimes {
    /// Time of this machine, in seconds since the Unix epoch.
    pub machine: u64,
    /// Time of the chain's latest block, in seconds since the Unix epoch.
    pub chain: u64,
    /// Largest difference that counts as none.
    pub tolerance: u64,
}

impl BlockTimes {
    /// Returns true if the two times differ by at most `tolerance` seconds.
    pub fn agree(&self) -> bool {
        self.machine.abs_diff(self.chain) <= self.tolerance
    }

    /// Moment from which deadlines and expirations run: the later of the two where they agree, since that is when the
    /// next block can be, and the chain's elsewhere, since the chain is what compares them.
    pub fn moment(&self) -> u64 {
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
