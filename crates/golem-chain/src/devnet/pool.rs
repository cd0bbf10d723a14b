//! Pool of pending transactions: by sender and nonce, best tip first.
//!
//! Not here: validation of transactions (see `admit`).

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use alloy::consensus::Transaction;
use alloy::primitives::map::B256HashMap;
use alloy::primitives::{Address, B256};

use super::block::ChainTransaction;
use super::error::SubmitError;
use super::state::WorldState;

/// Maximum number of pending transactions.
const CAPACITY: usize = 10_000;

/// Minimum fee increase of a replacement, in percent.
const PRICE_BUMP_PERCENT: u128 = 10;

/// The pending transactions. `Clone` is linear, but the pool is nearly always small.
#[derive(Debug, Clone, Default)]
pub struct TxPool {
    by_sender: BTreeMap<Address, BTreeMap<u64, Waiting>>,
    by_hash: B256HashMap<Arc<ChainTransaction>>,
    arrivals: u64,
}

#[derive(Debug, Clone)]
struct Waiting {
    transaction: Arc<ChainTransaction>,
    arrival: u64,
}

impl TxPool {
    /// Number of pending transactions.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Returns true if there are no pending transactions.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// The pending transaction with this hash.
    pub fn get(&self, hash: B256) -> Option<&Arc<ChainTransaction>> {
        self.by_hash.get(&hash)
    }

    /// All pending transactions, by sender and nonce.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ChainTransaction>> {
        self.by_sender.values().flat_map(|queue| queue.values().map(|waiting| &waiting.transaction))
    }

    /// Nonce after the sender's consecutive transactions that start at `account_nonce`.
    pub fn next_nonce(&self, sender: Address, account_nonce: u64) -> u64 {
        let mut next = account_nonce;
        if let Some(queue) = self.by_sender.get(&sender) {
            while queue.contains_key(&next) {
                next = next.saturating_add(1);
            }
        }
        next
    }

    /// Adds a transaction, or replaces one with the same nonce that pays less.
    ///
    /// # Errors
    /// [`SubmitError::AlreadyKnown`], [`SubmitError::ReplacementUnderpriced`] or [`SubmitError::PoolFull`].
    pub fn insert(&mut self, transaction: Arc<ChainTransaction>) -> Result<(), SubmitError> {
        if self.by_hash.contains_key(&transaction.hash) {
            return Err(SubmitError::AlreadyKnown);
        }
        let nonce = transaction.envelope.nonce();
        let replaced = self.by_sender.get(&transaction.sender).and_then(|queue| queue.get(&nonce));
        match replaced {
            Some(old) if !outbids(&transaction, &old.transaction) => return Err(SubmitError::ReplacementUnderpriced),
            None if self.len() >= CAPACITY => return Err(SubmitError::PoolFull(CAPACITY)),
            _ => {}
        }
        let hash = transaction.hash;
        let waiting = Waiting { transaction: Arc::clone(&transaction), arrival: self.arrivals };
        self.arrivals += 1;
        if let Some(old) = self.by_sender.entry(transaction.sender).or_default().insert(nonce, waiting) {
            self.by_hash.remove(&old.transaction.hash);
        }
        self.by_hash.insert(hash, transaction);
        Ok(())
    }

    /// Removes a transaction and returns it.
    pub fn remove(&mut self, hash: B256) -> Option<Arc<ChainTransaction>> {
        let transaction = self.by_hash.remove(&hash)?;
        if let Some(queue) = self.by_sender.get_mut(&transaction.sender) {
            queue.remove(&transaction.envelope.nonce());
            if queue.is_empty() {
                self.by_sender.remove(&transaction.sender);
            }
        }
        Some(transaction)
    }

    /// Removes all transactions.
    pub fn clear(&mut self) {
        self.by_sender.clear();
        self.by_hash.clear();
    }

    /// Removes transactions whose nonce is already used in `state`.
    pub fn remove_stale(&mut self, state: &WorldState) {
        let stale: Vec<B256> = self
            .iter()
            .filter(|transaction| transaction.envelope.nonce() < state.nonce(transaction.sender))
            .map(|transaction| transaction.hash)
            .collect();
        for hash in stale {
            self.remove(hash);
        }
    }

    /// Returns true if a transaction could be included in a block at `base_fee` on `state`.
    pub fn has_ready(&self, state: &WorldState, base_fee: u64) -> bool {
        self.by_sender.iter().any(|(sender, queue)| {
            queue
                .get(&state.nonce(*sender))
                .is_some_and(|waiting| waiting.transaction.envelope.max_fee_per_gas() >= u128::from(base_fee))
        })
    }

    /// Iterates over transactions that could be included, best tip first, those of each sender in nonce order.
    pub fn candidates(&self, state: &WorldState, base_fee: u64) -> BlockCandidates<'_> {
        let mut candidates = BlockCandidates { pool: self, base_fee, heads: BinaryHeap::new() };
        for sender in self.by_sender.keys() {
            candidates.push(*sender, state.nonce(*sender));
        }
        candidates
    }
}

/// Candidates for a block; see [`TxPool::candidates`].
pub struct BlockCandidates<'a> {
    pool: &'a TxPool,
    base_fee: u64,
    heads: BinaryHeap<SenderHead>,
}

impl BlockCandidates<'_> {
    /// The best remaining transaction. Unless [`BlockCandidates::advance`] is called for it, its sender's later
    /// transactions are skipped.
    pub fn next_best(&mut self) -> Option<Arc<ChainTransaction>> {
        let head = self.heads.pop()?;
        self.pool.by_sender.get(&head.sender)?.get(&head.nonce).map(|waiting| Arc::clone(&waiting.transaction))
    }

    /// Makes the sender's next transaction available.
    pub fn advance(&mut self, included: &ChainTransaction) {
        self.push(included.sender, included.envelope.nonce().saturating_add(1));
    }

    fn push(&mut self, sender: Address, nonce: u64) {
        let Some(waiting) = self.pool.by_sender.get(&sender).and_then(|queue| queue.get(&nonce)) else { return };
        if let Some(tip) = waiting.transaction.envelope.effective_tip_per_gas(self.base_fee) {
            self.heads.push(SenderHead { tip, earliness: u64::MAX - waiting.arrival, sender, nonce });
        }
    }
}

/// A sender's next transaction, ordered by tip and then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SenderHead {
    tip: u128,
    earliness: u64,
    sender: Address,
    nonce: u64,
}

fn outbids(new: &ChainTransaction, old: &ChainTransaction) -> bool {
    let least = |old: u128| old.saturating_mul(100 + PRICE_BUMP_PERCENT).div_ceil(100);
    new.envelope.max_fee_per_gas() >= least(old.envelope.max_fee_per_gas())
        && new.envelope.priority_fee_or_price() >= least(old.envelope.priority_fee_or_price())
}
