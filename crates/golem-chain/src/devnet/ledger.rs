//! History of a devnet chain: blocks, positions of transactions, and the states of recent blocks. All collections are
//! persistent, so that a copy (a snapshot) is cheap.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::primitives::B256;
use alloy::primitives::map::FbBuildHasher;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap};

use super::block::{Block, ChainTransaction, Receipt};
use super::state::WorldState;

type HashKeyMap<V> = GenericHashMap<B256, V, FbBuildHasher<32>, DefaultSharedPtr>;

/// Numbers of blocks and states to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Number of blocks with transactions and receipts; the first block is always kept.
    pub blocks: u64,
    /// Number of states of recent blocks.
    pub states: u64,
}

/// A mined transaction, with its block.
#[derive(Debug, Clone)]
pub struct MinedTransaction {
    /// The block that contains it.
    pub block: Arc<Block>,
    /// Position in the block.
    pub index: usize,
}

/// Blocks, transaction index and states; `Clone` is O(1).
#[derive(Clone)]
pub(super) struct BlockStore {
    history: HistoryLimits,
    head: Arc<Block>,
    /// Number of the first block, which is always kept.
    first: u64,
    blocks: OrdMap<u64, Arc<Block>>,
    numbers: HashKeyMap<u64>,
    transactions: HashKeyMap<(u64, usize)>,
    states: OrdMap<u64, WorldState>,
}

impl MinedTransaction {
    /// The transaction itself.
    pub fn transaction(&self) -> Option<&Arc<ChainTransaction>> {
        self.block.transactions.get(self.index)
    }

    /// Receipt of the transaction.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.block.receipts.get(self.index)
    }
}

impl BlockStore {
    pub(super) fn new(history: HistoryLimits, genesis: Arc<Block>, state: WorldState) -> Self {
        let mut ledger = Self {
            history,
            head: Arc::clone(&genesis),
            first: genesis.number(),
            blocks: OrdMap::new(),
            numbers: HashKeyMap::default(),
            transactions: HashKeyMap::default(),
            states: OrdMap::new(),
        };
        ledger.push(genesis, state);
        ledger
    }

    /// Creates a history of these blocks, oldest first. `newest` is the state of the last one, and `states` are known
    /// states of earlier ones. `None` without a block.
    pub(super) fn rebuilt(
        history: HistoryLimits,
        blocks: Vec<Arc<Block>>,
        mut states: BTreeMap<u64, WorldState>,
        newest: WorldState,
    ) -> Option<Self> {
        let head = blocks.last()?.number();
        states.insert(head, newest);
        let mut ledger = Self {
            history,
            head: Arc::clone(blocks.first()?),
            first: blocks.first()?.number(),
            blocks: OrdMap::new(),
            numbers: HashKeyMap::default(),
            transactions: HashKeyMap::default(),
            states: OrdMap::new(),
        };
        for block in blocks {
            let state = states.remove(&block.number());
            ledger.insert(block, state);
        }
        Some(ledger)
    }

    /// The chain's first block.
    pub(super) fn first(&self) -> Option<&Arc<Block>> {
        self.blocks.get(&self.first)
    }

    pub(super) fn head(&self) -> &Arc<Block> {
        &self.head
    }

    /// Appends a block and its state, and removes the oldest entries.
    pub(super) fn push(&mut self, block: Arc<Block>, state: WorldState) {
        self.insert(block, Some(state));
    }

    fn insert(&mut self, block: Arc<Block>, state: Option<WorldState>) {
        let number = block.number();
        self.numbers.insert(block.hash, number);
        for (index, transaction) in block.transactions.iter().enumerate() {
            self.transactions.insert(transaction.hash, (number, index));
        }
        self.blocks.insert(number, Arc::clone(&block));
        if let Some(state) = state {
            self.states.insert(number, state);
        }
        self.head = block;
        if let Some(old) = number.checked_sub(self.history.states.max(1)) {
            self.states.remove(&old);
        }
        if let Some(old) = number.checked_sub(self.history.blocks.max(1)).filter(|old| *old > self.first) {
            self.forget(old);
        }
    }

    /// Truncates the history to block `number` and returns its state; `None` if that is no longer kept.
    pub(super) fn truncate(&mut self, number: u64) -> Option<WorldState> {
        let state = self.states.get(&number)?.clone();
        let target = Arc::clone(self.blocks.get(&number)?);
        for later in number + 1..=self.head.number() {
            self.forget(later);
            self.states.remove(&later);
        }
        self.head = target;
        Some(state)
    }

    pub(super) fn replace_head_state(&mut self, state: WorldState) {
        self.states.insert(self.head.number(), state);
    }

    pub(super) fn block(&self, number: u64) -> Option<&Arc<Block>> {
        self.blocks.get(&number)
    }

    pub(super) fn block_by_hash(&self, hash: B256) -> Option<&Arc<Block>> {
        self.numbers.get(&hash).and_then(|number| self.blocks.get(number))
    }

    pub(super) fn state(&self, number: u64) -> Option<&WorldState> {
        self.states.get(&number)
    }

    pub(super) fn oldest_state(&self) -> u64 {
        self.states.get_min().map_or(0, |(number, _)| *number)
    }

    pub(super) fn transaction(&self, hash: B256) -> Option<MinedTransaction> {
        let (number, index) = self.transactions.get(&hash)?;
        Some(MinedTransaction { block: Arc::clone(self.blocks.get(number)?), index: *index })
    }

    pub(super) fn blocks(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = &Arc<Block>> {
        self.blocks.range(from..=to).map(|(_, block)| block)
    }

    fn forget(&mut self, number: u64) {
        if let Some(block) = self.blocks.remove(&number) {
            self.numbers.remove(&block.hash);
            for transaction in &block.transactions {
                self.transactions.remove(&transaction.hash);
            }
        }
    }
}
