//! Frame scheduler: draws on request, at most once per interval, and merges all requests between two frames.
//!
//! Callers pass the time in, so tests control it. Without a request there is no frame and no timer.

use std::time::{Duration, Instant};

/// Shortest time between two frames: 60 frames per second.
pub const SHORTEST_INTERVAL: Duration = Duration::from_nanos(16_666_667);

/// Collects frame requests and computes when the next frame is due.
#[derive(Debug, Default)]
pub struct FrameScheduler {
    last: Option<Instant>,
    wanted: Option<Instant>,
}

impl FrameScheduler {
    /// Requests a frame at `at` or soon after. An earlier request stays in force.
    pub fn request(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    /// Time of the next frame; `None` without a request.
    pub fn due(&self) -> Option<Instant> {
        let wanted = self.wanted?;
        Some(self.last.map_or(wanted, |last| wanted.max(last + SHORTEST_INTERVAL)))
    }

    /// Returns true if a frame is due at `now`, and then clears all requests.
    pub fn take(&mut self, now: Instant) -> bool {
        let due = self.due().is_some_and(|due| due <= now);
        if due {
            self.last = Some(now);
            self.wanted = None;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_no_frame() {
        let mut frames = FrameScheduler::default();
        assert_eq!(frames.due(), None);
        assert!(!frames.take(Instant::now()));
    }

    #[test]
    fn a_thousand_requests_become_one_frame_per_interval() {
        let start = Instant::now();
        let mut frames = FrameScheduler::default();
        let mut drawn = 0;
        // 1,000 requests over one second, one each millisecond.
        for millisecond in 0..1000 {
            let now = start + Duration::from_millis(millisecond);
            frames.request(now);
            drawn += u32::from(frames.take(now));
        }
        assert!((58..=60).contains(&drawn), "{drawn}");
    }

    #[test]
    fn a_request_too_soon_waits_for_the_cap_and_an_earlier_one_stands() {
        let start = Instant::now();
        let mut frames = FrameScheduler::default();
        frames.request(start);
        assert!(frames.take(start));
        frames.request(start + Duration::from_secs(1));
        frames.request(start + Duration::from_millis(1));
        assert_eq!(frames.due(), Some(start + SHORTEST_INTERVAL));
        assert!(!frames.take(start + Duration::from_millis(2)));
        assert!(frames.take(start + SHORTEST_INTERVAL));
        assert_eq!(frames.due(), None, "the later request was answered by the earlier frame");
    }
}
