//! The devnet chain: synchronous and deterministic. It has no clock, thread or I/O; the same calls in the same order
//! give the same blocks and hashes.
//!
//! Not here: execution without a block (`call`), fee queries (`fees`), time travel and reorganisations (`rewind`), the
//! thread (`handle`) and JSON-RPC (`rpc`).

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::consensus::TypedTransaction;
use alloy::eips::eip2935::{HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE};
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, B256, Bytes, U256, keccak256};

use super::block::{Block, ChainTransaction};
use super::error::{BlockError, SubmitError, TimestampError};
use super::events::{ChainEvent, EventLog};
use super::ledger::{BlockStore, HistoryLimits, MinedTransaction};
use super::pool::TxPool;
use super::produce::{BlockProduction, produce};
use super::rewind::SavedStates;
use super::state::{InvalidCode, WorldState};
use super::time::Timekeeper;
use crate::evm::{BlockContext, ChainRules, next_base_fee};

/// Genesis and fixed properties of a chain.
#[derive(Debug, Clone)]
pub struct ChainConfig {
    /// Chain id and hardfork.
    pub rules: ChainRules,
    /// Timestamp of block 0, in seconds since the Unix epoch.
    pub genesis_time: u64,
    /// Base fee of blocks 0 and 1, in wei per gas.
    pub base_fee: u64,
    /// Lower bound of the base fee, in wei per gas. EIP-1559 itself has none but 0, and on a quiet chain the fee falls
    /// to 7 wei.
    pub least_base_fee: u64,
    /// Gas limit of every block.
    pub gas_limit: u64,
    /// Recipient of the priority fees.
    pub coinbase: Address,
    /// Result of `eth_maxPriorityFeePerGas`, in wei per gas.
    pub suggested_tip: u128,
    /// Initial balances, in wei. `eth_accounts` lists those of them that belong to the development mnemonic.
    pub balances: Vec<(Address, U256)>,
    /// Contracts that exist from the start, by address.
    pub codes: Vec<(Address, Bytes)>,
    /// Numbers of blocks and states to keep.
    pub history: HistoryLimits,
}

/// A devnet chain; see the module's documentation. A clone is an independent chain and is cheap.
#[derive(Clone)]
pub struct Chain {
    pub(super) config: ChainConfig,
    pub(super) state: WorldState,
    pub(super) ledger: BlockStore,
    pub(super) pool: TxPool,
    pub(super) time: Timekeeper,
    pub(super) next_base_fee: u64,
    pub(super) impersonated: BTreeSet<Address>,
    pub(super) impersonate_all: bool,
    pub(super) snapshots: SavedStates,
    pub(super) journal: EventLog,
    pub(super) reorgs: u64,
    /// Number of changes outside of blocks. After one, the new blocks alone do not lead to the current state.
    pub(super) edits: u64,
}

/// State and block context for an execution.
#[derive(Debug, Clone)]
pub struct ExecutionView {
    /// State to execute on.
    pub state: WorldState,
    /// Block context of the execution.
    pub context: BlockContext,
}

/// Starting point of a fork of this chain.
#[derive(Debug, Clone)]
pub struct ForkPoint {
    /// Chain id and hardfork.
    pub rules: ChainRules,
    /// State after the block.
    pub state: WorldState,
    /// Context of the block.
    pub block: BlockContext,
    /// Hash of the block.
    pub hash: B256,
    /// Context of the next block: the existing one, or else the block that would be mined now.
    pub next: BlockContext,
}

impl Default for ChainConfig {
    /// Chain 31337 under Osaka with a base fee of 1 gwei, 30 M gas per block and no accounts.
    fn default() -> Self {
        Self {
            rules: ChainRules::osaka(31_337),
            genesis_time: 1_700_000_000,
            base_fee: 1_000_000_000,
            least_base_fee: 0,
            gas_limit: 30_000_000,
            coinbase: Address::ZERO,
            suggested_tip: 1_000_000_000,
            balances: Vec::new(),
            codes: Vec::new(),
            history: HistoryLimits { blocks: 8_192, states: 256 },
        }
    }
}

impl Chain {
    /// Creates a chain with block 0.
    ///
    /// # Errors
    /// [`InvalidCode`] if a genesis contract's code is invalid.
    pub fn new(config: ChainConfig) -> Result<Self, InvalidCode> {
        let mut state = WorldState::default();
        state.set_code(HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE.clone())?;
        state.set_nonce(HISTORY_STORAGE_ADDRESS, 1);
        for (address, code) in &config.codes {
            state.set_code(*address, code.clone())?;
            state.set_nonce(*address, 1);
        }
        for (address, balance) in &config.balances {
            state.set_balance(*address, *balance);
        }
        let context = BlockContext {
            number: 0,
            timestamp: config.genesis_time,
            base_fee: config.base_fee,
            gas_limit: config.gas_limit,
            coinbase: config.coinbase,
            prevrandao: B256::ZERO,
            excess_blob_gas: 0,
        };
        let genesis = Arc::new(Block::seal(&context, B256::ZERO, state.root(), Bytes::new(), Vec::new(), Vec::new()));
        state.push_block_hash(0, genesis.hash);
        Ok(Self {
            next_base_fee: config.base_fee,
            ledger: BlockStore::new(config.history, genesis, state.clone()),
            config,
            state,
            pool: TxPool::default(),
            time: Timekeeper::default(),
            impersonated: BTreeSet::new(),
            impersonate_all: false,
            snapshots: SavedStates::default(),
            journal: EventLog::default(),
            reorgs: 0,
            edits: 0,
        })
    }

    // --- submission and mining --------------------------------------------------------------

    /// Adds a transaction to the pool; returns its hash.
    ///
    /// # Errors
    /// [`SubmitError`] if the pool does not admit it.
    pub fn submit(&mut self, transaction: ChainTransaction) -> Result<B256, SubmitError> {
        self.admit(&transaction)?;
        let transaction = Arc::new(transaction);
        self.pool.insert(Arc::clone(&transaction))?;
        let hash = transaction.hash;
        self.journal.push(ChainEvent::Pending(transaction));
        Ok(hash)
    }

    /// Decodes a signed transaction and [submits](Self::submit) it.
    ///
    /// # Errors
    /// [`SubmitError`], also for a malformed encoding.
    pub fn submit_raw(&mut self, raw: &[u8]) -> Result<B256, SubmitError> {
        self.submit(ChainTransaction::decode(raw)?)
    }

    /// [Submits](Self::submit) an unsigned transaction from any account. Signing costs more than most executions, and
    /// on a devnet some senders need no key.
    ///
    /// # Errors
    /// [`SubmitError`] if the pool does not admit it.
    pub fn submit_as(&mut self, sender: Address, transaction: TypedTransaction) -> Result<B256, SubmitError> {
        self.submit(ChainTransaction::impersonated(transaction, sender))
    }

    /// Mines the next block from the pool, ordered by tip.
    pub fn mine(&mut self) -> Arc<Block> {
        let context = self.next_context();
        self.seal(context, Bytes::new())
    }

    /// Mines the next block at `timestamp`.
    ///
    /// # Errors
    /// [`TimestampError`] if it is not after the newest block's timestamp.
    pub fn mine_at(&mut self, timestamp: u64) -> Result<Arc<Block>, TimestampError> {
        self.set_next_timestamp(timestamp)?;
        Ok(self.mine())
    }

    /// Returns true if a pending transaction could be included in the next block.
    pub fn has_ready(&self) -> bool {
        self.pool.has_ready(&self.state, self.next_base_fee)
    }

    pub(super) fn seal(&mut self, context: BlockContext, extra_data: Bytes) -> Arc<Block> {
        let parent_hash = self.head().hash;
        let production = produce(&self.config.rules, &context, parent_hash, self.state.clone(), &self.pool);
        for rejected in &production.rejected {
            self.pool.remove(*rejected);
        }
        self.append(&context, extra_data, production)
    }

    /// Seals a block from an execution's result and appends it.
    pub(super) fn append(
        &mut self,
        context: &BlockContext,
        extra_data: Bytes,
        production: BlockProduction,
    ) -> Arc<Block> {
        let parent_hash = self.head().hash;
        let mut state = production.state;
        let block = Arc::new(Block::seal(
            context,
            parent_hash,
            state.root(),
            extra_data,
            production.transactions,
            production.receipts,
        ));
        state.push_block_hash(context.number, block.hash);
        for transaction in &block.transactions {
            self.pool.remove(transaction.hash);
        }
        if !self.pool.is_empty() {
            self.pool.remove_stale(&state);
        }
        self.next_base_fee = self.base_fee_after(&block);
        self.time.advance(context.timestamp);
        self.state = state.clone();
        self.ledger.push(Arc::clone(&block), state);
        self.journal.push(ChainEvent::Added(Arc::clone(&block)));
        block
    }

    // --- queries ----------------------------------------------------------------------------

    /// Chain id and hardfork.
    pub fn rules(&self) -> &ChainRules {
        &self.config.rules
    }

    /// Configuration of the chain, with later changes.
    pub fn config(&self) -> &ChainConfig {
        &self.config
    }

    /// The newest block.
    pub fn head(&self) -> &Arc<Block> {
        self.ledger.head()
    }

    /// Height of the newest block.
    pub fn number(&self) -> u64 {
        self.head().number()
    }

    /// State after the newest block.
    pub fn state(&self) -> &WorldState {
        &self.state
    }

    /// Pool of pending transactions.
    pub fn pool(&self) -> &TxPool {
        &self.pool
    }

    /// Journal of the latest events.
    pub fn journal(&self) -> &EventLog {
        &self.journal
    }

    /// Gas limit of the next block.
    pub fn gas_limit(&self) -> u64 {
        self.config.gas_limit
    }

    /// Base fee of the next block, in wei per gas.
    pub fn next_base_fee(&self) -> u64 {
        self.next_base_fee
    }

    /// Finds the block `id`. `safe` and `finalized` are the newest block, since there is no consensus. `pending` is not
    /// a block of the chain; see [`pending_block`](Self::pending_block).
    pub fn block(&self, id: BlockId) -> Option<&Arc<Block>> {
        match id {
            BlockId::Hash(hash) => self.ledger.block_by_hash(hash.block_hash),
            BlockId::Number(BlockNumberOrTag::Number(number)) => self.ledger.block(number),
            BlockId::Number(BlockNumberOrTag::Earliest) => self.ledger.first(),
            BlockId::Number(BlockNumberOrTag::Pending) => None,
            BlockId::Number(_) => Some(self.head()),
        }
    }

    /// Kept blocks of a range, both ends included.
    pub fn blocks(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = &Arc<Block>> {
        self.ledger.blocks(from, to)
    }

    /// A mined transaction with its block and receipt.
    pub fn transaction(&self, hash: B256) -> Option<MinedTransaction> {
        self.ledger.transaction(hash)
    }

    /// The next block if it were mined now, and the state after it. It is not kept, and its hash is not final.
    pub fn pending_block(&self) -> (Block, WorldState) {
        let context = self.next_context();
        let parent_hash = self.head().hash;
        let mut made = produce(&self.config.rules, &context, parent_hash, self.state.clone(), &self.pool);
        let root = made.state.root();
        (Block::seal(&context, parent_hash, root, Bytes::new(), made.transactions, made.receipts), made.state)
    }

    /// State and block context at `id`: of a kept block, or for `pending` of the next block after all pending
    /// transactions.
    ///
    /// # Errors
    /// [`BlockError`] if the block does not exist or its state is no longer kept.
    pub fn view(&self, id: BlockId) -> Result<ExecutionView, BlockError> {
        if id == BlockId::pending() {
            let context = self.next_context();
            let state = if self.pool.is_empty() { self.state.clone() } else { self.pending_block().1 };
            return Ok(ExecutionView { state, context });
        }
        let head = self.number();
        let block = self.block(id).ok_or(BlockError::NotFound { asked: id, head })?;
        let state = self.ledger.state(block.number()).ok_or_else(|| BlockError::StatePruned {
            number: block.number(),
            oldest: self.ledger.oldest_state(),
            head,
        })?;
        Ok(ExecutionView { state: state.clone(), context: block.context() })
    }

    /// Starting point for a fork at `id`, without copying; for `pending`, at the newest block.
    ///
    /// # Errors
    /// [`BlockError`] as for [`Self::view`].
    pub fn snapshot(&self, id: BlockId) -> Result<ForkPoint, BlockError> {
        let id = if id == BlockId::pending() { BlockId::latest() } else { id };
        let ExecutionView { state, context: block } = self.view(id)?;
        let hash = state.block_hash(block.number);
        let next = match self.ledger.block(block.number + 1) {
            Some(child) => child.context(),
            None => self.next_context(),
        };
        Ok(ForkPoint { rules: self.config.rules, state, block, hash, next })
    }

    /// Context of the next block if it were mined now.
    pub fn next_context(&self) -> BlockContext {
        let head = self.head();
        BlockContext {
            number: head.number() + 1,
            timestamp: self.time.peek(head.header.timestamp),
            base_fee: self.next_base_fee,
            gas_limit: self.config.gas_limit,
            coinbase: self.config.coinbase,
            prevrandao: self.prevrandao(head.hash),
            excess_blob_gas: 0,
        }
    }

    /// Nonce of the account's next transaction, after its pending ones.
    pub fn pending_nonce(&self, address: Address) -> u64 {
        self.pool.next_nonce(address, self.state.nonce(address))
    }

    /// Base fee of the block after `block`. Block 0 is empty, and block 1 has the same base fee.
    pub(super) fn base_fee_after(&self, block: &Block) -> u64 {
        let context = block.context();
        if context.number == 0 {
            return self.config.base_fee;
        }
        next_base_fee(block.header.gas_used, context.gas_limit, context.base_fee).max(self.config.least_base_fee)
    }

    /// Reproducible randomness, from the parent's hash and the number of reorganisations.
    pub(super) fn prevrandao(&self, parent: B256) -> B256 {
        let mut seed = [0_u8; 40];
        let (hash, count) = seed.split_at_mut(32);
        hash.copy_from_slice(parent.as_slice());
        count.copy_from_slice(&self.reorgs.to_be_bytes());
        keccak256(seed)
    }

    // --- devnet controls --------------------------------------------------------------------

    /// Sets the wall clock time; see [`Timekeeper::set_wall`].
    pub fn set_wall(&mut self, now: u64) {
        self.time.set_wall(now);
    }

    /// Sets the exact timestamp of the next block.
    ///
    /// # Errors
    /// [`TimestampError`] if it is not after the newest block's timestamp.
    pub fn set_next_timestamp(&mut self, timestamp: u64) -> Result<(), TimestampError> {
        self.time.set_next(timestamp, self.head().header.timestamp)
    }

    /// Sets the interval of block timestamps in seconds; with `None` they follow the wall clock.
    pub fn set_timestamp_interval(&mut self, seconds: Option<u64>) {
        self.time.set_interval(seconds);
    }

    /// Advances the next block's time; returns the sum of all advances, in seconds.
    pub fn increase_time(&mut self, seconds: u64) -> i64 {
        self.time.increase(seconds)
    }

    /// Sets the next block's base fee, in wei per gas; later ones derive from it.
    pub fn set_next_base_fee(&mut self, base_fee: u64) {
        self.next_base_fee = base_fee;
    }

    /// Sets the recipient of the priority fees from the next block on.
    pub fn set_coinbase(&mut self, coinbase: Address) {
        self.config.coinbase = coinbase;
    }

    /// Sets a balance in wei, at once and without a block.
    pub fn set_balance(&mut self, address: Address, balance: U256) {
        self.edit(|state| state.set_balance(address, balance));
    }

    /// Sets a nonce, at once and without a block.
    pub fn set_nonce(&mut self, address: Address, nonce: u64) {
        self.edit(|state| state.set_nonce(address, nonce));
    }

    /// Sets code, at once and without a block.
    ///
    /// # Errors
    /// [`InvalidCode`] if the code is invalid.
    pub fn set_code(&mut self, address: Address, code: Bytes) -> Result<(), InvalidCode> {
        self.edit(|state| state.set_code(address, code))
    }

    /// Sets a storage slot, at once and without a block.
    pub fn set_storage_at(&mut self, address: Address, slot: U256, value: U256) {
        self.edit(|state| state.set_storage_at(address, slot, value));
    }

    /// Allows or forbids unsigned transactions from `address` through JSON-RPC.
    pub fn set_impersonated(&mut self, address: Address, impersonated: bool) {
        self.edits += 1;
        if impersonated {
            self.impersonated.insert(address);
        } else {
            self.impersonated.remove(&address);
        }
    }

    /// Allows or forbids unsigned transactions from all accounts through JSON-RPC.
    pub fn set_impersonate_all(&mut self, impersonate_all: bool) {
        self.edits += 1;
        self.impersonate_all = impersonate_all;
    }

    /// Returns true if `address` may send unsigned transactions through JSON-RPC.
    pub fn is_impersonated(&self, address: Address) -> bool {
        self.impersonate_all || self.impersonated.contains(&address)
    }

    /// Accounts that were allowed individually.
    pub fn impersonated(&self) -> impl Iterator<Item = Address> + '_ {
        self.impersonated.iter().copied()
    }

    /// Removes a pending transaction from the pool.
    pub fn drop_transaction(&mut self, hash: B256) -> Option<Arc<ChainTransaction>> {
        self.pool.remove(hash)
    }

    pub(super) fn edit<T>(&mut self, edit: impl FnOnce(&mut WorldState) -> T) -> T {
        self.edits += 1;
        let result = edit(&mut self.state);
        self.ledger.replace_head_state(self.state.clone());
        if !self.pool.is_empty() {
            self.pool.remove_stale(&self.state);
        }
        result
    }
}
