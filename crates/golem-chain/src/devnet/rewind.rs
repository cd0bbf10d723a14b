//! Going back: snapshots, and reorganisations that replace the newest blocks by others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes};

use super::block::{Block, ChainTransaction};
use super::chain::Chain;
use super::error::ReorgError;
use super::events::ChainEvent;
use super::ledger::Ledger;
use super::pool::Pool;
use super::state::State;
use super::time::Timekeeper;

/// How many snapshots are kept; the oldest goes first.
const KEPT: usize = 256;

/// Saved chains, by id.
#[derive(Clone, Default)]
pub(super) struct Snapshots {
    saved: BTreeMap<u64, Saved>,
    last: u64,
    beginning: Option<Box<Saved>>,
}

/// Everything a chain was. All of it is cheap to copy.
#[derive(Clone)]
struct Saved {
    state: State,
    ledger: Ledger,
    pool: Pool,
    time: Timekeeper,
    next_base_fee: u64,
    impersonated: BTreeSet<Address>,
    impersonate_all: bool,
}

/// What a reorganisation did.
#[derive(Debug, Clone)]
pub struct Reorg {
    /// The blocks that are gone, oldest first.
    pub removed: Vec<Arc<Block>>,
    /// The blocks in their place, oldest first.
    pub added: Vec<Arc<Block>>,
    /// Transactions that were in the removed blocks and are in none now. They are not waiting
    /// either: whoever wants them back submits them again.
    pub dropped: Vec<Arc<ChainTransaction>>,
}

impl Chain {
    /// Saves the chain as it is; returns the id to come back to it.
    pub fn save(&mut self) -> u64 {
        let saved = self.saved();
        self.snapshots.last += 1;
        let id = self.snapshots.last;
        self.snapshots.saved.insert(id, saved);
        if self.snapshots.saved.len() > KEPT {
            self.snapshots.saved.pop_first();
        }
        id
    }

    /// Goes back to what [`save`](Self::save) kept under `id`, and forgets it and every later one.
    /// False if there is none.
    pub fn revert(&mut self, id: u64) -> bool {
        let mut later = self.snapshots.saved.split_off(&id);
        let Some(saved) = later.remove(&id) else {
            self.snapshots.saved.append(&mut later);
            return false;
        };
        let before = self.ledger.clone();
        self.restore(saved);
        self.announce_switch(&before);
        true
    }

    /// Replaces the newest `depth` blocks by as many others at the same times, with
    /// `replacements`: each a transaction and the offset (0 is the oldest) of the new block it
    /// goes into. On any error the chain is left as it was.
    pub fn reorg(&mut self, depth: u64, replacements: Vec<(ChainTransaction, u64)>) -> Result<Reorg, ReorgError> {
        let saved = self.saved();
        let (before, journal, reorgs) = (self.ledger.clone(), self.journal.clone(), self.reorgs);
        let result = self.try_reorg(depth, replacements);
        // The blocks are told of in one go, removed ones first, and not while they are being made.
        self.journal = journal;
        if result.is_ok() {
            self.announce_switch(&before);
        } else {
            self.restore(saved);
            self.reorgs = reorgs;
        }
        result
    }

    fn try_reorg(&mut self, depth: u64, replacements: Vec<(ChainTransaction, u64)>) -> Result<Reorg, ReorgError> {
        let head = self.number();
        let too_deep = || ReorgError::TooDeep { depth, head, oldest: self.ledger.oldest_state() };
        let ancestor = head.checked_sub(depth).ok_or_else(too_deep)?;
        if self.ledger.state(ancestor).is_none() {
            return Err(too_deep());
        }
        let mut by_offset: BTreeMap<u64, Vec<ChainTransaction>> = BTreeMap::new();
        for (transaction, offset) in replacements {
            if offset >= depth {
                return Err(ReorgError::OffsetOutOfRange { offset, depth });
            }
            by_offset.entry(offset).or_default().push(transaction);
        }
        let removed: Vec<Arc<Block>> = self.ledger.blocks(ancestor + 1, head).cloned().collect();
        if let Some(state) = self.ledger.truncate(ancestor) {
            self.state = state;
        }
        self.reorgs += 1;
        self.edits += 1;
        // What waited, waits on: only the replacements go into the new blocks.
        let waiting = std::mem::take(&mut self.pool);
        let mut added = Vec::with_capacity(removed.len());
        for (offset, old) in removed.iter().enumerate() {
            let mut context = old.context();
            context.prevrandao = self.prevrandao(self.head().hash);
            self.next_base_fee = self.base_fee_after(self.head());
            context.base_fee = self.next_base_fee;
            for transaction in by_offset.remove(&(offset as u64)).unwrap_or_default() {
                self.submit(transaction)?;
            }
            // The count makes an empty block differ from the empty one it replaces.
            let time = self.time;
            added.push(self.seal(context, Bytes::copy_from_slice(&self.reorgs.to_be_bytes())));
            self.time = time;
            self.pool.clear();
        }
        self.pool = waiting;
        self.pool.remove_stale(&self.state);
        let dropped = removed
            .iter()
            .flat_map(|block| &block.transactions)
            .filter(|transaction| self.transaction(transaction.hash).is_none())
            .cloned()
            .collect();
        Ok(Reorg { removed, added, dropped })
    }

    /// Notes that the chain begins here, for [`reset`](Self::reset).
    pub(super) fn begin(&mut self) {
        self.snapshots.beginning = Some(Box::new(self.saved()));
    }

    /// Goes back to the beginning and forgets every saved chain.
    pub(super) fn reset(&mut self) {
        let Some(beginning) = self.snapshots.beginning.clone() else { return };
        self.snapshots.saved.clear();
        let before = self.ledger.clone();
        self.restore(*beginning);
        self.announce_switch(&before);
    }

    /// The newest block of every saved chain, by id.
    pub(super) fn saved_heads(&self) -> impl Iterator<Item = (u64, &Arc<Block>)> {
        self.snapshots.saved.iter().map(|(id, saved)| (*id, saved.ledger.head()))
    }

    fn saved(&self) -> Saved {
        Saved {
            state: self.state.clone(),
            ledger: self.ledger.clone(),
            pool: self.pool.clone(),
            time: self.time,
            next_base_fee: self.next_base_fee,
            impersonated: self.impersonated.clone(),
            impersonate_all: self.impersonate_all,
        }
    }

    fn restore(&mut self, saved: Saved) {
        self.edits += 1;
        self.state = saved.state;
        self.ledger = saved.ledger;
        self.pool = saved.pool;
        self.time = saved.time;
        self.next_base_fee = saved.next_base_fee;
        self.impersonated = saved.impersonated;
        self.impersonate_all = saved.impersonate_all;
    }

    /// Tells which blocks went and which came between `before` and now.
    pub(super) fn announce_switch(&mut self, before: &Ledger) {
        let hash_at = |ledger: &Ledger, number: u64| -> Option<B256> { ledger.block(number).map(|block| block.hash) };
        let mut common = before.head().number().min(self.number());
        while common > 0 && hash_at(before, common) != hash_at(&self.ledger, common) {
            common -= 1;
        }
        for block in before.blocks(common + 1, before.head().number()).rev() {
            self.journal.push(ChainEvent::Removed(Arc::clone(block)));
        }
        let added: Vec<Arc<Block>> = self.ledger.blocks(common + 1, self.number()).cloned().collect();
        for block in added {
            self.journal.push(ChainEvent::Added(block));
        }
    }
}
