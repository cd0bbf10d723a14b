//! Snapshots, and reorganisations that replace the newest blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes};

use super::block::{Block, ChainTransaction};
use super::chain::Chain;
use super::error::ReorgError;
use super::events::ChainEvent;
use super::ledger::BlockStore;
use super::pool::TxPool;
use super::state::WorldState;
use super::time::Timekeeper;

/// Maximum number of snapshots; the oldest is removed.
const KEPT: usize = 256;

/// Saved chain states, by id.
#[derive(Clone, Default)]
pub(super) struct SavedStates {
    saved: BTreeMap<u64, SavedState>,
    last: u64,
    beginning: Option<Box<SavedState>>,
}

/// Saved state of a chain, cheap to copy.
#[derive(Clone)]
struct SavedState {
    state: WorldState,
    ledger: BlockStore,
    pool: TxPool,
    time: Timekeeper,
    next_base_fee: u64,
    impersonated: BTreeSet<Address>,
    impersonate_all: bool,
}

/// Result of a reorganisation.
#[derive(Debug, Clone)]
pub struct Reorg {
    /// Removed blocks, oldest first.
    pub removed: Vec<Arc<Block>>,
    /// Replacement blocks, oldest first.
    pub added: Vec<Arc<Block>>,
    /// Transactions of the removed blocks that are in no block now. They are not in the pool either; callers can submit
    /// them again.
    pub dropped: Vec<Arc<ChainTransaction>>,
}

impl Chain {
    /// Saves the current chain state; returns its id.
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

    /// Restores the state that [`save`](Self::save) stored under `id`, and removes it and all later ones. False if
    /// there is none.
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

    /// Replaces the newest `depth` blocks by others with the same timestamps. Each of `replacements` is a transaction
    /// with the offset of its new block (0 is the oldest).
    ///
    /// # Errors
    /// [`ReorgError`]; the chain is unchanged then.
    pub fn reorg(&mut self, depth: u64, replacements: Vec<(ChainTransaction, u64)>) -> Result<Reorg, ReorgError> {
        let saved = self.saved();
        let (before, journal, reorgs) = (self.ledger.clone(), self.journal.clone(), self.reorgs);
        let result = self.try_reorg(depth, replacements);
        // The blocks are reported together at the end, removed ones first.
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
        // Pending transactions stay pending: the new blocks contain only the replacements.
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
            // The count makes an empty block differ from the empty one that it replaces.
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

    /// Saves the start state for [`reset`](Self::reset).
    pub(super) fn begin(&mut self) {
        self.snapshots.beginning = Some(Box::new(self.saved()));
    }

    /// Restores the start state and removes all snapshots.
    pub(super) fn reset(&mut self) {
        let Some(beginning) = self.snapshots.beginning.clone() else { return };
        self.snapshots.saved.clear();
        let before = self.ledger.clone();
        self.restore(*beginning);
        self.announce_switch(&before);
    }

    /// Newest block of every snapshot, by id.
    pub(super) fn saved_heads(&self) -> impl Iterator<Item = (u64, &Arc<Block>)> {
        self.snapshots.saved.iter().map(|(id, saved)| (*id, saved.ledger.head()))
    }

    fn saved(&self) -> SavedState {
        SavedState {
            state: self.state.clone(),
            ledger: self.ledger.clone(),
            pool: self.pool.clone(),
            time: self.time,
            next_base_fee: self.next_base_fee,
            impersonated: self.impersonated.clone(),
            impersonate_all: self.impersonate_all,
        }
    }

    fn restore(&mut self, saved: SavedState) {
        self.edits += 1;
        self.state = saved.state;
        self.ledger = saved.ledger;
        self.pool = saved.pool;
        self.time = saved.time;
        self.next_base_fee = saved.next_base_fee;
        self.impersonated = saved.impersonated;
        self.impersonate_all = saved.impersonate_all;
    }

    /// Reports the blocks that were removed and added since `before`.
    pub(super) fn announce_switch(&mut self, before: &BlockStore) {
        let hash_at =
            |ledger: &BlockStore, number: u64| -> Option<B256> { ledger.block(number).map(|block| block.hash) };
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
