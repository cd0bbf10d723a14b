//! Ordered events of a chain, read by filters, subscriptions and block watchers.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{Block, ChainTransaction};

/// Number of events that are kept for late readers.
const KEPT: usize = 4_096;

/// An event of the chain.
#[derive(Debug, Clone)]
pub enum ChainEvent {
    /// A block became the head.
    Added(Arc<Block>),
    /// A block is no longer part of the chain; the newest one is reported first.
    Removed(Arc<Block>),
    /// A transaction was added to the pool.
    Pending(Arc<ChainTransaction>),
    /// Number of events that were lost because too many occurred at once. Only subscribers receive it; it is never in
    /// the journal.
    Missed(u64),
}

/// The latest events, with consecutive sequence numbers.
#[derive(Debug, Clone, Default)]
pub struct EventLog {
    events: VecDeque<ChainEvent>,
    first: u64,
}

impl EventLog {
    /// Sequence number of the next event.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.events.len()).unwrap_or(u64::MAX))
    }

    /// Sequence number of the oldest kept event.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// All events from sequence number `from` on; `None` if some of them are no longer kept.
    pub fn since(&self, from: u64) -> Option<impl Iterator<Item = &ChainEvent>> {
        let skip = usize::try_from(from.checked_sub(self.first)?).ok()?;
        Some(self.events.iter().skip(skip))
    }

    pub(super) fn push(&mut self, event: ChainEvent) {
        if self.events.len() == KEPT {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
    }
}
