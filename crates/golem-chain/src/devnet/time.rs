//! Timestamps of blocks. There is no clock here; callers set the time with [`Timekeeper::set_wall`].

use super::error::TimestampError;

/// Source of block timestamps: always after the parent's, and by default the wall clock plus all time travel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timekeeper {
    wall: Option<u64>,
    offset: i64,
    exact: Option<u64>,
    interval: Option<u64>,
}

impl Timekeeper {
    /// Sets the wall clock time, in seconds since the Unix epoch. Without it, each block is one second later.
    pub fn set_wall(&mut self, now: u64) {
        self.wall = Some(now);
    }

    /// Sets the interval between blocks in seconds, which overrides the wall clock; `None` removes it.
    pub fn set_interval(&mut self, seconds: Option<u64>) {
        self.interval = seconds;
    }

    /// Sets the exact timestamp of the next block; later ones continue from there.
    ///
    /// # Errors
    /// [`TimestampError`] if `timestamp` is not after `parent`.
    pub fn set_next(&mut self, timestamp: u64, parent: u64) -> Result<(), TimestampError> {
        if timestamp <= parent {
            return Err(TimestampError { asked: timestamp, last: parent });
        }
        self.exact = Some(timestamp);
        Ok(())
    }

    /// Advances the time by `seconds`; returns the sum of all advances, in seconds.
    pub fn increase(&mut self, seconds: u64) -> i64 {
        self.offset = self.offset.saturating_add_unsigned(seconds);
        self.offset
    }

    /// Time travel in seconds, exact timestamp of the next block, and interval.
    pub(super) fn travelled(&self) -> (i64, Option<u64>, Option<u64>) {
        (self.offset, self.exact, self.interval)
    }

    /// Restores the values that [`travelled`](Self::travelled) returned, without a wall clock time.
    pub(super) fn travelling(offset: i64, exact: Option<u64>, interval: Option<u64>) -> Self {
        Self { wall: None, offset, exact, interval }
    }

    /// Timestamp of the next block after a block at `parent`.
    pub fn peek(&self, parent: u64) -> u64 {
        let least = parent.saturating_add(1);
        let wanted = match (self.exact, self.interval, self.wall) {
            (Some(exact), ..) => exact,
            (None, Some(interval), _) => parent.saturating_add(interval),
            (None, None, Some(wall)) => wall.saturating_add_signed(self.offset),
            (None, None, None) => least.saturating_add_signed(self.offset),
        };
        wanted.max(least)
    }

    /// Records that a block was sealed at `timestamp`, as returned by [`peek`](Self::peek).
    pub fn advance(&mut self, timestamp: u64) {
        let was_exact = self.exact.take().is_some();
        match self.wall {
            // Without a wall clock the last block is the time, so the time travel is complete.
            None => self.offset = 0,
            Some(wall) if was_exact => {
                self.offset = i64::try_from(i128::from(timestamp) - i128::from(wall)).unwrap_or(i64::MAX);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_wall_clock_blocks_are_a_second_apart() {
        let mut time = Timekeeper::default();
        assert_eq!(time.peek(100), 101);
        time.advance(101);
        time.increase(60);
        assert_eq!(time.peek(101), 162);
        time.advance(162);
        assert_eq!(time.peek(162), 163);
    }

    #[test]
    fn block_times_follow_the_wall_clock_and_always_increase() {
        let mut time = Timekeeper::default();
        time.set_wall(1_000);
        assert_eq!(time.peek(900), 1_000);
        assert_eq!(time.peek(1_000), 1_001);
        assert_eq!(time.increase(50), 50);
        assert_eq!(time.peek(1_000), 1_050);
    }

    #[test]
    fn an_exact_block_time_moves_the_chain_permanently() {
        let mut time = Timekeeper::default();
        time.set_wall(1_000);
        assert_eq!(time.set_next(1_000, 1_000), Err(TimestampError { asked: 1_000, last: 1_000 }));
        time.set_next(5_000, 1_000).expect("later");
        assert_eq!(time.peek(1_000), 5_000);
        time.advance(5_000);
        time.set_wall(1_010);
        assert_eq!(time.peek(5_000), 5_010);
    }
}
