//! When to draw: on request, never faster than the cap, all requests between two frames becoming one.
//!
//! Time is handed in, so that tests own it. Without a request there is no frame, and no timer either.

use std::time::{Duration, Instant};

/// Sixty frames a second at most.
pub const SHORTEST_INTERVAL: Duration = Duration::from_nanos(16_666_667);

/// Collects requests for frames and says when the next one is due.
#[derive(Debug, Default)]
pub struct FrameScheduler {
    last: Option<Instant>,
    wanted: Option<Instant>,
}

impl FrameScheduler {
    /// Asks for a frame at `at` or soon after. An earlier request stands.
    pub fn request(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    /// When the next frame is due; `None` while nobody asked for one.
    pub fn due(&self) -> Option<Instant> {
        let wanted = self.wanted?;
        Some(self.last.map_or(wanted, |last| wanted.max(last + SHORTEST_INTERVAL)))
    }

    /// Whether to draw now; if so, every request up to now is answered.
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
