//! The event bus: sequence numbers, ring buffer, receivers, and the queue of the journal.
//!
//! One short lock orders everything. Under it, an event gets its number and enters the ring and the journal's queue.
//! Each receiver reads the ring from its own position, many events at a time, so a slow receiver costs an emitter
//! nothing.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::event::{Event, EventKind, FabricFault, FabricGap};
use super::journal::{self, JournalError, JournalFile};
use crate::clock::Clock;
use crate::id::{CallId, GolemId};
use crate::text::SafeText;

/// Maximum number of events that wait for the journal's thread; beyond it, emitting blocks on the disk.
const PENDING_LIMIT: usize = 1 << 16;

/// Configuration of a fabric.
#[derive(Debug, Clone)]
pub struct FabricConfig {
    /// Number of events kept in memory, at least one.
    pub ring: usize,
    /// Path of the journal; without one, events that leave the ring are lost.
    pub journal: Option<PathBuf>,
    /// Clock that stamps the events.
    pub clock: Arc<dyn Clock>,
}

/// Handle for emitting events; cheap to clone. When the last one is dropped, the journal is closed and the receivers
/// end.
#[derive(Clone)]
pub struct Fabric {
    inner: Arc<Inner>,
}

/// Events after a given one, as far as they are still available.
#[derive(Debug, Clone)]
pub struct EventHistory {
    /// The events, in order and without gaps.
    pub events: Vec<Arc<Event>>,
    /// Last sequence number that this history covers: drop later deliveries at or below it.
    pub last: u64,
    /// False if older events were requested that are no longer available.
    pub complete: bool,
}

/// A position in the stream of events.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    next: u64,
    window: u64,
}

struct Inner {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signals new events to receivers.
    arrived: Notify,
    /// Signals work to the journal's thread.
    work: Condvar,
    /// Signals free space in the queue to emitters, and progress to `flush`.
    progress: Condvar,
    journal_path: Option<PathBuf>,
}

#[derive(Debug)]
struct State {
    ring: VecDeque<Arc<Event>>,
    ring_limit: usize,
    next: u64,
    pending: Vec<Arc<Event>>,
    /// Sequence number up to which the journal is on disk.
    synced: u64,
    /// Sequence number up to which a caller waits for the disk.
    sync_wanted: u64,
    index: Vec<(u64, u64)>,
    journaling: bool,
    failed: Option<JournalError>,
    closed: bool,
}

impl Fabric {
    /// Opens the journal, if configured, and starts its thread.
    ///
    /// # Errors
    /// A [`JournalError`] if the journal cannot be created or its thread cannot be started.
    pub fn new(config: FabricConfig) -> Result<Self, JournalError> {
        match config.journal.as_deref().map(JournalFile::create).transpose()? {
            None => Ok(Self::in_memory(config.ring, config.clock)),
            Some(journal) => Self::journaled(config.ring, config.clock, journal),
        }
    }

    /// Fabric without a journal: events that leave the ring are lost.
    pub fn in_memory(ring: usize, clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { shared: Arc::new(Shared::new(ring, None)), clock, writer: None }) }
    }

    pub(super) fn journaled(ring: usize, clock: Arc<dyn Clock>, journal: JournalFile) -> Result<Self, JournalError> {
        let path = journal.path().to_owned();
        let shared = Arc::new(Shared::new(ring, Some(path.clone())));
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let writer = thread
            .spawn({
                let (shared, clock) = (shared.clone(), clock.clone());
                move || write_journal(&shared, journal, &*clock)
            })
            .map_err(|reason| JournalError::Create { path, reason: reason.to_string() })?;
        Ok(Self { inner: Arc::new(Inner { shared, clock, writer: Some(writer) }) })
    }

    /// Emits an event and returns its sequence number. Blocks only when the journal is tens of thousands of events
    /// behind.
    pub fn emit(&self, golem_id: &GolemId, call_id: Option<CallId>, kind: EventKind) -> u64 {
        let shared = &*self.inner.shared;
        let at = self.inner.clock.now_millis();
        // Allocated before the lock is taken, to keep it short. The number is assigned under the lock.
        let mut event = Arc::new(Event { seq: 0, at, golem_id: golem_id.clone(), call_id, kind });
        let mut state = shared.state.lock();
        while state.journaling && state.pending.len() >= PENDING_LIMIT {
            shared.progress.wait(&mut state);
        }
        let seq = state.next;
        // No other reference exists yet, so `get_mut` succeeds.
        if let Some(event) = Arc::get_mut(&mut event) {
            event.seq = seq;
        }
        let forgotten = state.push(event);
        let idle = state.pending.len() == 1;
        drop(state);
        // Freed outside the lock if this was its last owner.
        drop(forgotten);
        if idle {
            shared.work.notify_one();
        }
        shared.arrived.notify_waiters();
        seq
    }

    /// Returns a receiver of all events from now on. It may fall `window` events behind (at most the size of the ring)
    /// before it gets a gap.
    pub fn subscribe(&self, window: usize) -> Receiver {
        let state = self.inner.shared.state.lock();
        let window = window.clamp(1, state.ring_limit) as u64;
        Receiver { shared: self.inner.shared.clone(), next: state.next, window }
    }

    /// Returns the events after number `after`: from the ring, and from the journal for those that left the ring.
    /// Reading the journal blocks on the disk, so drawing threads must not call this.
    ///
    /// # Errors
    /// A [`JournalError`] if the journal cannot be written or read.
    pub fn history(&self, after: u64) -> Result<EventHistory, JournalError> {
        let shared = &*self.inner.shared;
        let (ring, last, offset) = {
            let state = shared.state.lock();
            let first = state.ring.front().map_or(state.next, |event| event.seq);
            let ring: Vec<_> = state.ring.iter().filter(|event| event.seq > after).cloned().collect();
            let last = state.next - 1;
            if after.saturating_add(1) >= first {
                return Ok(EventHistory { events: ring, last, complete: true });
            }
            // Last index entry at or before the first requested event.
            let before = state.index.partition_point(|(seq, _)| *seq <= after + 1);
            (ring, last, before.checked_sub(1).and_then(|at| state.index.get(at)).map_or(0, |(_, offset)| *offset))
        };
        let Some(path) = &shared.journal_path else {
            return Ok(EventHistory { events: ring, last, complete: false });
        };
        self.flush()?;
        let until = ring.first().map_or(last, |event| event.seq - 1);
        let mut events = Vec::new();
        for event in journal::read_from(path, offset)? {
            let event = event?;
            if event.seq > until {
                break;
            }
            if event.seq > after {
                events.push(Arc::new(event));
            }
        }
        let complete = events.first().is_some_and(|event| event.seq == after + 1);
        events.extend(ring);
        Ok(EventHistory { events, last, complete })
    }

    /// Blocks until all earlier events are on disk.
    ///
    /// # Errors
    /// The [`JournalError`] with which the journal failed.
    pub fn flush(&self) -> Result<(), JournalError> {
        let shared = &*self.inner.shared;
        let mut state = shared.state.lock();
        let target = state.next - 1;
        state.sync_wanted = state.sync_wanted.max(target);
        shared.work.notify_one();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if !state.journaling || state.synced >= target {
                return Ok(());
            }
            shared.progress.wait(&mut state);
        }
    }

    /// Error with which the journal failed, if it did.
    pub fn fault(&self) -> Option<JournalError> {
        self.inner.shared.state.lock().failed.clone()
    }
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").field("journal", &self.inner.shared.journal_path).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
        self.shared.arrived.notify_waiters();
        if let Some(writer) = self.writer.take() {
            // A panic of the journal's thread has lost its events already; there is nothing to do about it here.
            let _ended = writer.join();
        }
    }
}

impl Receiver {
    /// Waits for events and appends up to `limit` of them to `into`.
    ///
    /// Returns false when the fabric is gone and no events remain. A receiver that is too far behind gets one
    /// `fabric:gap` and continues with the present. Dropping the future loses nothing.
    pub async fn receive(&mut self, into: &mut Vec<Arc<Event>>, limit: usize) -> bool {
        loop {
            let shared = self.shared.clone();
            let arrived = shared.arrived.notified();
            match self.take(into, limit) {
                QueueRead::Some => return true,
                QueueRead::Closed => return false,
                QueueRead::Nothing => arrived.await,
            }
        }
    }

    /// Same as [`Self::receive`] without waiting: false if no event is available.
    pub fn try_receive(&mut self, into: &mut Vec<Arc<Event>>, limit: usize) -> bool {
        matches!(self.take(into, limit), QueueRead::Some)
    }

    fn take(&mut self, into: &mut Vec<Arc<Event>>, limit: usize) -> QueueRead {
        let state = self.shared.state.lock();
        let behind = state.next - self.next;
        if behind == 0 {
            return if state.closed { QueueRead::Closed } else { QueueRead::Nothing };
        }
        let newest = state.ring.back();
        if behind > self.window {
            let gap = FabricGap { missed: behind, first: self.next };
            // The gap carries the sequence number and Golem of the last skipped event; only this receiver sees it.
            if let Some(last) = newest {
                into.push(Arc::new(Event {
                    seq: last.seq,
                    at: last.at,
                    golem_id: last.golem_id.clone(),
                    call_id: None,
                    kind: EventKind::FabricGap(gap),
                }));
            }
            self.next = state.next;
            return QueueRead::Some;
        }
        // `behind` is at most the window, and the window at most the ring, so the ring holds all of it.
        let skip = state.ring.len().saturating_sub(behind as usize);
        let before = into.len();
        into.extend(state.ring.iter().skip(skip).take(limit.max(1)).cloned());
        self.next += (into.len() - before) as u64;
        QueueRead::Some
    }
}

enum QueueRead {
    Some,
    Nothing,
    Closed,
}

impl Shared {
    fn new(ring_limit: usize, journal_path: Option<PathBuf>) -> Self {
        let state = State {
            ring: VecDeque::new(),
            ring_limit: ring_limit.max(1),
            next: 1,
            pending: Vec::new(),
            synced: 0,
            sync_wanted: 0,
            index: Vec::new(),
            journaling: journal_path.is_some(),
            failed: None,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            arrived: Notify::new(),
            work: Condvar::new(),
            progress: Condvar::new(),
            journal_path,
        }
    }
}

impl State {
    /// Numbers and stores an event; returns the event that leaves the ring.
    fn push(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        self.next += 1;
        if self.journaling {
            self.pending.push(event.clone());
        }
        let forgotten = if self.ring.len() >= self.ring_limit { self.ring.pop_front() } else { None };
        self.ring.push_back(event);
        forgotten
    }
}

/// Main loop of the journal's thread: writes pending events and syncs on request, until the fabric is closed.
fn write_journal(shared: &Shared, mut journal: JournalFile, clock: &dyn Clock) {
    let mut batch = Vec::new();
    loop {
        let closed = {
            let mut state = shared.state.lock();
            while state.pending.is_empty() && state.synced >= state.sync_wanted && !state.closed {
                shared.work.wait(&mut state);
            }
            std::mem::swap(&mut batch, &mut state.pending);
            if state.closed {
                state.sync_wanted = u64::MAX;
            }
            state.closed
        };
        shared.progress.notify_all();
        let sync = |journal: &mut JournalFile| {
            let (wanted, upto) = {
                let state = shared.state.lock();
                (state.sync_wanted > state.synced, state.next - 1 - state.pending.len() as u64)
            };
            if wanted { journal.sync().map(|()| Some(upto)) } else { Ok(None) }
        };
        let written = journal.append(&batch).and_then(|index| Ok((index, sync(&mut journal)?)));
        match written {
            Ok((index, synced)) => {
                let mut state = shared.state.lock();
                state.index.extend(index);
                if let Some(upto) = synced {
                    state.synced = state.synced.max(upto);
                    shared.progress.notify_all();
                }
                if closed && state.pending.is_empty() {
                    return;
                }
            }
            Err(reason) => return give_up(shared, &journal, &batch, &reason, clock),
        }
        batch.clear();
    }
}

/// Handles a failure of the journal: queues no more events for it and emits `fabric:fault`.
fn give_up(shared: &Shared, journal: &JournalFile, batch: &[Arc<Event>], reason: &std::io::Error, clock: &dyn Clock) {
    let mut state = shared.state.lock();
    let first_lost = batch.first().or(state.pending.first()).map_or(state.next, |event| event.seq);
    let error = JournalError::Write { path: journal.path().to_owned(), reason: reason.to_string(), first_lost };
    let message = SafeText::clean(&error.to_string(), 400);
    state.failed = Some(error);
    state.journaling = false;
    state.pending = Vec::new();
    let event = Event {
        seq: state.next,
        at: clock.now_millis(),
        golem_id: GolemId::operator(),
        call_id: None,
        kind: EventKind::FabricFault(FabricFault { message, first_lost }),
    };
    let forgotten = state.push(Arc::new(event));
    drop(state);
    drop(forgotten);
    shared.progress.notify_all();
    shared.arrived.notify_waiters();
}
