//! Rate limit for tool calls, as a true sliding window rather than a counter that resets each minute.

use std::collections::VecDeque;

/// Length of the window, in milliseconds.
const WINDOW: u64 = 60_000;

/// Timestamps of the calls in the last minute.
#[derive(Debug)]
pub struct CallRate {
    limit: usize,
    taken: VecDeque<u64>,
    now: u64,
}

impl CallRate {
    /// Allows at most `limit` calls in any 60 seconds; zero allows none.
    pub fn new(limit: u32) -> Self {
        Self { limit: limit as usize, taken: VecDeque::new(), now: 0 }
    }

    /// Takes a slot in the window. A clock that goes backwards frees nothing.
    ///
    /// # Errors
    /// Returns the time until a slot is free, in milliseconds.
    pub fn take(&mut self, now_millis: u64) -> Result<(), u64> {
        self.now = self.now.max(now_millis);
        while self.taken.front().is_some_and(|at| at + WINDOW <= self.now) {
            self.taken.pop_front();
        }
        if self.taken.len() < self.limit {
            self.taken.push_back(self.now);
            return Ok(());
        }
        Err(self.taken.front().map_or(WINDOW, |at| at + WINDOW - self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_holds_more_than_the_limit() {
        let mut rate = CallRate::new(3);
        // Two late in one minute must count in the next one.
        for at in [59_000, 59_500, 60_500] {
            assert_eq!(rate.take(at), Ok(()));
        }
        assert_eq!(rate.take(61_000), Err(58_000));
        assert_eq!(rate.take(118_999), Err(1));
        assert_eq!(rate.take(119_000), Ok(()));
        assert_eq!(rate.take(119_001), Err(499));
    }

    #[test]
    fn a_clock_set_back_frees_no_call() {
        let mut rate = CallRate::new(1);
        assert_eq!(rate.take(1_000_000), Ok(()));
        assert_eq!(rate.take(5), Err(60_000));
        assert_eq!(rate.take(1_059_999), Err(1));
        assert_eq!(rate.take(1_060_000), Ok(()));
    }

    #[test]
    fn a_limit_of_zero_blocks_every_call() {
        assert_eq!(CallRate::new(0).take(7), Err(60_000));
    }
}
