//! What happened on a chain, in order: read by filters, subscriptions and whoever watches blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{Block, ChainTransaction};

/// How many events are kept for those who have not read them yet.
const KEPT: usize = 4_096;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum ChainEvent {
    /// A block became the head.
    Added(Arc<Block>),
    /// A block is no longer part of the chain; the newest goes first.
    Removed(Arc<Block>),
    /// A transaction began to wait.
    Pending(Arc<ChainTransaction>),
    /// So many events happened at once that the first of them, this many, are not told of. Only
    /// whoever is told of events gets this; the journal never holds it.
    Missed(u64),
}

/// The last events, each with a sequence number.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    events: VecDeque<ChainEvent>,
    first: u64,
}

impl Journal {
    /// The number the next event will have.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.events.len()).unwrap_or(u64::MAX))
    }

    /// The number of the oldest event that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// All events from number `from` on; `None` if some of them are no longer kept.
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
