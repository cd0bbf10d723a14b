//! Reads that a screen makes by tools that sign nothing: a few at a time, each with an end, and cancelable. What was read
//! keeps its age, and the reason why a later read failed.
//!
//! The calls run in the session. A screen only sends them and receives replies, so no frame waits for one.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::{ScreenContext, ScreenId, ScreenRequest, ticket};
use crate::format::{age, time_of_day};
use crate::painter::StyledText;
use crate::theme::Role;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::envelope::ToolResponse;
use bardo_session::handle::SessionCommand;

/// Maximum number of calls that run at once.
const MOST_RUNNING: usize = 4;
/// Time after which a call without a reply is given up, in milliseconds: twice the longest budget of a tool.
const LONGEST_MILLIS: u64 = 30_000;
/// Age from which something is read again when its screen is shown, in milliseconds.
pub(super) const OLD_MILLIS: u64 = 30_000;
/// Age from which figures are marked as old, in milliseconds.
const STALE_MILLIS: u64 = 60_000;

/// Purpose of a read.
pub(super) trait ReadPurpose: Clone + PartialEq {
    /// Tool and parameters of the call.
    fn call(&self) -> (&'static str, Value);
}

/// Call without a reply yet.
#[derive(Debug)]
struct RunningRead<P> {
    purpose: P,
    /// Start, in milliseconds of the machine's clock.
    asked_at: u64,
    call: Option<CallId>,
}

/// Queue of reads.
#[derive(Debug)]
pub(super) struct ReadQueue<P> {
    waiting: VecDeque<P>,
    running: BTreeMap<u32, RunningRead<P>>,
    sent: u32,
}

impl<P> Default for ReadQueue<P> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), running: BTreeMap::new(), sent: 0 }
    }
}

impl<P: ReadPurpose> ReadQueue<P> {
    /// Adds a read, unless the same one waits or runs.
    pub(super) fn ask(&mut self, purpose: P) {
        if !self.is_asked(&purpose) {
            self.waiting.push_back(purpose);
        }
    }

    /// Returns true if this read waits or runs.
    pub(super) fn is_asked(&self, purpose: &P) -> bool {
        self.asked().any(|one| one == purpose)
    }

    /// Reads that wait or run.
    pub(super) fn asked(&self) -> impl Iterator<Item = &P> {
        self.running.values().map(|read| &read.purpose).chain(&self.waiting)
    }

    /// Returns true if nothing waits or runs.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Starts waiting reads while fewer than [`MOST_RUNNING`] run. `now` is the machine's time in milliseconds.
    pub(super) fn start(&mut self, screen: ScreenId, now: u64) -> Vec<ScreenRequest> {
        let mut requests = Vec::new();
        while self.running.len() < MOST_RUNNING
            && let Some(purpose) = self.waiting.pop_front()
        {
            let (tool, params) = purpose.call();
            self.sent = self.sent.wrapping_add(1);
            self.running.insert(self.sent, RunningRead { purpose, asked_at: now, call: None });
            requests.push(ScreenRequest::Send(Box::new(SessionCommand::Call {
                ticket: ticket(screen, self.sent),
                tool: tool.to_owned(),
                params,
                dry_run: true,
                idempotency_key: None,
                // The activity lists only what the operator or the Golem asked for.
                unasked: true,
            })));
        }
        requests
    }

    /// Records the id of a started call. One that was given up meanwhile is cancelled.
    pub(super) fn began(&mut self, count: u32, call_id: CallId) -> Vec<ScreenRequest> {
        match self.running.get_mut(&count) {
            Some(read) => {
                read.call = Some(call_id);
                Vec::new()
            }
            None => vec![cancellation(call_id)],
        }
    }

    /// Removes an ended read and returns its purpose; `None` if it was given up before.
    pub(super) fn ended(&mut self, count: u32) -> Option<P> {
        self.running.remove(&count).map(|read| read.purpose)
    }

    /// Gives up reads that have no reply after [`LONGEST_MILLIS`]. Returns them, and requests that cancel their calls.
    pub(super) fn overdue(&mut self, now: u64) -> (Vec<P>, Vec<ScreenRequest>) {
        let late = self.running.extract_if(.., |_, read| now >= read.asked_at.saturating_add(LONGEST_MILLIS));
        let late: Vec<RunningRead<P>> = late.map(|(_, read)| read).collect();
        given_up(late)
    }

    /// Cancels everything that waits or runs, as [`Self::overdue`] does.
    pub(super) fn cancel(&mut self) -> (Vec<P>, Vec<ScreenRequest>) {
        let waiting = std::mem::take(&mut self.waiting);
        let (mut purposes, requests) = given_up(std::mem::take(&mut self.running).into_values().collect());
        purposes.extend(waiting);
        (purposes, requests)
    }
}

fn cancellation(call_id: CallId) -> ScreenRequest {
    ScreenRequest::Send(Box::new(SessionCommand::Cancel { call_id }))
}

fn given_up<P>(reads: Vec<RunningRead<P>>) -> (Vec<P>, Vec<ScreenRequest>) {
    let requests = reads.iter().filter_map(|read| read.call).map(cancellation).collect();
    (reads.into_iter().map(|read| read.purpose).collect(), requests)
}

/// Something that is read from time to time.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadValue<T> {
    /// Newest value that was read; `None` before the first one.
    pub(super) value: Option<T>,
    /// Time of its reply, in milliseconds of the machine's clock.
    read_at: Option<u64>,
    /// Reason why the newest read failed; `None` if it did not.
    pub(super) fault: Option<SafeText>,
}

impl<T> ReadValue<T> {
    /// Stores a new value.
    pub(super) fn set(&mut self, value: T, now: u64) {
        *self = Self { value: Some(value), read_at: Some(now), fault: None };
    }

    /// Records that a read failed. An earlier value stays, with its age.
    pub(super) fn fail(&mut self, why: &str) {
        self.fault = Some(SafeText::clean(why, 300));
    }

    /// Age of the value as text, with a mark if it is old or the newest read failed; `None` without a value.
    pub(super) fn age(&self, known: &ScreenContext<'_>) -> Option<StyledText> {
        Some(age_words(self.read_at?, self.fault.is_some(), known))
    }

    /// Time of the newest value, in milliseconds of the machine's clock.
    pub(super) const fn read_at(&self) -> Option<u64> {
        self.read_at
    }
}

/// Age of something read at a time of the machine's clock, in milliseconds.
pub(super) fn age_words(read_at: u64, failed: bool, known: &ScreenContext<'_>) -> StyledText {
    if !known.motion {
        let role = if failed { Role::StateCare } else { Role::TextDim };
        return (format!("read at {}", time_of_day(read_at / 1_000)), role);
    }
    let since = known.machine_millis.saturating_sub(read_at);
    match age(since / 1_000) {
        now if now == "now" => ("read now".to_owned(), Role::TextDim),
        words if failed || since >= STALE_MILLIS => (format!("! read {words} ago"), Role::StateCare),
        words => (format!("read {words} ago"), Role::TextDim),
    }
}

/// Reason why a call brought nothing, in words.
pub(super) fn failure(response: &ToolResponse) -> &str {
    response.error.as_ref().map_or("the reply holds no data", |error| error.message())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Page(u64);

    impl ReadPurpose for Page {
        fn call(&self) -> (&'static str, Value) {
            ("list_positions", json!({ "offset": self.0 }))
        }
    }

    fn sent(requests: &[ScreenRequest]) -> Vec<&SessionCommand> {
        let mut all = Vec::new();
        for request in requests {
            if let ScreenRequest::Send(command) = request {
                all.push(command.as_ref());
            }
        }
        all
    }

    #[test]
    fn no_more_than_four_run_at_once_and_each_reply_starts_the_next() {
        let mut queue = ReadQueue::default();
        for page in 0..6 {
            queue.ask(Page(page));
        }
        queue.ask(Page(3));
        let first = queue.start(ScreenId::Positions, 0);
        assert_eq!((sent(&first).len(), queue.asked().count()), (4, 6), "the same read is made once");
        assert!(queue.start(ScreenId::Positions, 0).is_empty());
        assert_eq!(queue.ended(1), Some(Page(0)));
        let next = queue.start(ScreenId::Positions, 0);
        assert!(
            matches!(&sent(&next)[..], [SessionCommand::Call { params, dry_run: true, .. }] if params["offset"] == 4)
        );
        assert_eq!(queue.ended(1), None, "a second reply under the same ticket");
    }

    #[test]
    fn what_gets_no_reply_is_given_up_and_its_call_cancelled() {
        let mut queue = ReadQueue::default();
        queue.ask(Page(0));
        queue.ask(Page(1));
        queue.start(ScreenId::Positions, 1_000);
        let call = CallId::new(7);
        assert!(queue.began(1, call).is_empty());
        assert!(queue.overdue(30_999).0.is_empty());
        let (late, requests) = queue.overdue(31_000);
        assert_eq!(late, [Page(0), Page(1)]);
        assert!(matches!(&sent(&requests)[..], [SessionCommand::Cancel { call_id }] if *call_id == call));
        assert!(queue.is_idle());
        // The second call's id arrives late: it is cancelled then, and its reply means nothing.
        let other = CallId::new(8);
        assert!(matches!(&sent(&queue.began(2, other))[..], [SessionCommand::Cancel { call_id }] if *call_id == other));
        assert_eq!(queue.ended(2), None);
    }

    #[test]
    fn everything_can_be_cancelled() {
        let mut queue = ReadQueue::default();
        (0..9).for_each(|page| queue.ask(Page(page)));
        queue.start(ScreenId::Positions, 0);
        queue.began(2, CallId::new(1));
        let (all, requests) = queue.cancel();
        assert_eq!((all.len(), sent(&requests).len(), queue.is_idle()), (9, 1, true));
    }
}
