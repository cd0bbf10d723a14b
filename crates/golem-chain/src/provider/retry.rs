//! Retry rules for reads: number of rounds and waits between them.

use rand::Rng;
use std::time::Duration;

/// Retry limits. One *round* tries every usable endpoint once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRules {
    /// Maximum number of rounds; 1 disables retries.
    pub rounds: u32,
    /// Wait before the second round; doubles with each round.
    pub first_wait: Duration,
    /// Longest wait between rounds, also for a pause requested by `Retry-After`.
    pub longest_wait: Duration,
    /// Time after which no new attempt starts.
    pub total: Duration,
    /// Randomisation of the waits.
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

/// Randomisation of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Half of the wait is fixed and half is random, so that many clients do not retry at the same time.
    Random,
    /// The whole wait is fixed.
    Off,
}

impl RetryRules {
    /// Wait after `round` (0 for the first) has failed.
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
