//! How often and how soon a read is asked again.

use rand::Rng;
use std::time::Duration;

/// The bounds of asking again. One *round* asks every usable endpoint once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRules {
    /// Rounds at most; 1 means no repetition.
    pub rounds: u32,
    /// Wait before the second round; doubles each round.
    pub first_wait: Duration,
    /// Longest wait between rounds, also for what an endpoint asks for by `Retry-After`.
    pub longest_wait: Duration,
    /// No new attempt begins after this long.
    pub total: Duration,
    /// How waits are spread.
    pub jitter: Jitter,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            rounds: 4,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(5),
            total: Duration::from_secs(30),
            jitter: Jitter::Random,
        }
    }
}

/// Where the random part of a wait comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Half of the wait is fixed, half is random, so that many clients do not come back together.
    Random,
    /// No randomness: the whole wait.
    Off,
}

impl RetryRules {
    /// The wait after `round` (0 for the first) has failed.
    pub fn wait_after(&self, round: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(1_u32.checked_shl(round).unwrap_or(u32::MAX));
        self.spread(doubled.min(self.longest_wait))
    }

    fn spread(&self, wait: Duration) -> Duration {
        match self.jitter {
            Jitter::Off => wait,
            Jitter::Random => {
                let half = wait / 2;
                let micros = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
                half.saturating_add(Duration::from_micros(rand::rng().random_range(0..=micros)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let rules = RetryRules { jitter: Jitter::Off, ..RetryRules::default() };
        let millis: Vec<u128> = (0..8).map(|round| rules.wait_after(round).as_millis()).collect();
        assert_eq!(millis, [200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(rules.wait_after(u32::MAX).as_millis(), 5000);
    }

    #[test]
    fn jitter_stays_between_half_and_whole() {
        let rules = RetryRules::default();
        let waits: Vec<Duration> = (0..200).map(|_| rules.wait_after(1)).collect();
        assert!(waits.iter().all(|wait| (200..=400).contains(&wait.as_millis())));
        assert!(waits.iter().any(|wait| wait != &waits[0]), "two hundred waits were all the same");
    }
}
