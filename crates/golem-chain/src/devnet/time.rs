//! Which timestamp the next block gets. There is no clock here: whoever has one tells the time
//! with [`Timekeeper::set_wall`].

use super::error::TimestampError;

/// Decides timestamps: always after the parent's, else the wall's time plus whatever was travelled.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timekeeper {
    wall: Option<u64>,
    offset: i64,
    exact: Option<u64>,
    interval: Option<u64>,
}

impl Timekeeper {
    /// Tells the time, in seconds since the Unix epoch. Never told, a chain counts one second a block.
    pub fn set_wall(&mut self, now: u64) {
        self.wall = Some(now);
    }

    /// Every block is this much later than its parent, whatever the wall says.
    pub fn set_interval(&mut self, seconds: Option<u64>) {
        self.interval = seconds;
    }

    /// The next block is at `timestamp`; later ones go on from there.
    pub fn set_next(&mut self, timestamp: u64, parent: u64) -> Result<(), TimestampError> {
        if timestamp <= parent {
            return Err(TimestampError { asked: timestamp, last: parent });
        }
        self.exact = Some(timestamp);
        Ok(())
    }

    /// Moves time on by `seconds`; returns how far all such moves have brought it.
    pub fn increase(&mut self, seconds: u64) -> i64 {
        self.offset = self.offset.saturating_add_unsigned(seconds);
        self.offset
    }

    /// What was travelled in seconds, the next block's exact timestamp, and the interval.
    pub(super) fn travelled(&self) -> (i64, Option<u64>, Option<u64>) {
        (self.offset, self.exact, self.interval)
    }

    /// The same as was returned by [`travelled`](Self::travelled). The time is still to be told.
    pub(super) fn travelling(offset: i64, exact: Option<u64>, interval: Option<u64>) -> Self {
        Self { wall: None, offset, exact, interval }
    }

    /// The timestamp of the next block.
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

    /// Notes that a block was made at `timestamp`, as [`peek`](Self::peek) said.
    pub fn advance(&mut self, timestamp: u64) {
        let was_exact = self.exact.take().is_some();
        match self.wall {
            // Without a wall, the last block is the time: what was travelled is now behind it.
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
    fn without_a_wall_a_block_is_a_second() {
        let mut time = Timekeeper::default();
        assert_eq!(time.peek(100), 101);
        time.advance(101);
        time.increase(60);
        assert_eq!(time.peek(101), 162);
        time.advance(162);
        assert_eq!(time.peek(162), 163);
    }

    #[test]
    fn blocks_follow_the_wall_but_never_stand_still() {
        let mut time = Timekeeper::default();
        time.set_wall(1_000);
        assert_eq!(time.peek(900), 1_000);
        assert_eq!(time.peek(1_000), 1_001);
        assert_eq!(time.increase(50), 50);
        assert_eq!(time.peek(1_000), 1_050);
    }

    #[test]
    fn an_exact_time_moves_the_chain_for_good() {
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
