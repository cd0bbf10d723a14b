//! Loading of dumps; the whole dump is read and checked before the chain changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::consensus::Transaction as _;
use alloy::eips::Encodable2718 as _;
use alloy::primitives::map::B256HashMap;
use alloy::primitives::{Address, B256, Bytes};
use revm::context::BlockEnv;
use revm::context::result::HaltReason;
use revm::interpreter::{InstructionResult, SuccessOrHalt};

use super::super::block::{Block, ChainTransaction, ExecutionFailure, Receipt, impersonated_hash, with_hash};
use super::super::chain::Chain;
use super::super::error::SubmitError;
use super::super::ledger::BlockStore;
use super::super::state::{BLOCK_HASH_WINDOW, WorldState};
use super::format::{ChainDump, DumpedAccount, DumpedBlock, DumpedReceipt, DumpedTransaction, HistoricalState};
use super::{DumpError, MAX_JSON, unpack};
use bardo_base::text::SafeText;

/// Highest accepted block number and timestamp, so that later ones fit too.
const LATEST: u64 = u64::MAX >> 1;
/// Highest accepted base fee, in wei per gas.
const HIGHEST_BASE_FEE: u64 = 1 << 60;
/// Highest accepted excess blob gas: a blob fee of e^30 wei under today's schedules. Above it the fee formula
/// overflows.
const MOST_EXCESS_BLOB_GAS: u64 = 150_000_000;
/// Lowest accepted block gas limit: one transfer.
const LOWEST_GAS_LIMIT: u64 = 21_000;

impl Chain {
    /// Loads a dump, compressed or plain, like anvil. Its accounts and slots replace existing ones, a nonce never
    /// decreases, and all others stay. If it has blocks, they replace the chain's, and the chain continues after the
    /// newest of them.
    ///
    /// # Errors
    /// [`DumpError`]; the chain has not changed then.
    pub fn load_dump(&mut self, bytes: &[u8]) -> Result<(), DumpError> {
        let dump: ChainDump = serde_json::from_slice(&unpack(bytes, MAX_JSON)?)?;
        let mut state = self.state.clone();
        for (address, account) in &dump.accounts {
            merge(&mut state, *address, account)?;
        }
        let newest = newest_of(&dump);
        let Some(newest) = newest.filter(|_| !dump.blocks.is_empty()) else {
            // The dump contains accounts only.
            self.edit(|edited| *edited = state);
            return Ok(());
        };
        let blocks = history(newest, dump.blocks, dump.transactions)?;
        let hashes = blocks.iter().rev().take(usize::try_from(BLOCK_HASH_WINDOW).unwrap_or(usize::MAX));
        state.replace_block_hashes(hashes.map(|block| (block.number(), block.hash)));
        let states = earlier_states(&blocks, dump.historical_states.unwrap_or_default())?;
        let Some(ledger) = BlockStore::rebuilt(self.config.history, blocks, states, state.clone()) else {
            return Err(DumpError::NoHead(newest));
        };
        self.take_over(ledger, state, dump.block.as_ref());
        Ok(())
    }

    /// Replaces history and state; cannot fail.
    fn take_over(&mut self, ledger: BlockStore, state: WorldState, block: Option<&BlockEnv>) {
        self.edits += 1;
        let before = std::mem::replace(&mut self.ledger, ledger);
        self.state = state;
        if let Some(block) = block {
            self.config.coinbase = block.beneficiary;
        }
        self.config.gas_limit = self.head().header.gas_limit;
        self.next_base_fee = self.base_fee_after(&Arc::clone(self.head()));
        self.pool.remove_stale(&self.state);
        self.announce_switch(&before);
    }
}

fn newest_of(dump: &ChainDump) -> Option<u64> {
    dump.best_block_number.or_else(|| dump.block.as_ref().map(|block| block.number.saturating_to()))
}

/// Merges an account like anvil.
fn merge(state: &mut WorldState, address: Address, account: &DumpedAccount) -> Result<(), DumpError> {
    state.set_nonce(address, account.nonce.max(state.nonce(address)));
    state.set_balance(address, account.balance);
    state.set_code(address, account.code.clone())?;
    for (slot, value) in &account.storage {
        state.set_storage_at(address, (*slot).into(), (*value).into());
    }
    Ok(())
}

/// Blocks from the newest back to the end of the parent chain, returned oldest first.
fn history(newest: u64, blocks: Vec<DumpedBlock>, receipts: Vec<DumpedReceipt>) -> Result<Vec<Arc<Block>>, DumpError> {
    let mut by_hash: BTreeMap<_, DumpedBlock> =
        blocks.into_iter().map(|block| (block.header.hash_slow(), block)).collect();
    let mut receipts: B256HashMap<DumpedReceipt> =
        receipts.into_iter().map(|receipt| (receipt.info.transaction_hash, receipt)).collect();
    // After a reorganisation, anvil may still list blocks outside of the chain. Of several blocks at the newest height,
    // the one with most receipts is chosen, and among equals one whose parent is listed.
    let in_block = |hash| receipts.values().filter(|receipt| receipt.block_hash == hash).count();
    let heads = by_hash.iter().filter(|(_, block)| block.header.number == newest);
    let head = heads.max_by_key(|(hash, block)| (in_block(**hash), by_hash.contains_key(&block.header.parent_hash)));
    let mut next = head.map(|(hash, _)| *hash);
    let mut found = Vec::new();
    while let Some((hash, dumped)) = next.and_then(|hash| by_hash.remove_entry(&hash)) {
        check_header(&dumped)?;
        let (number, parent) = (dumped.header.number, dumped.header.parent_hash);
        found.push(Arc::new(block(hash, dumped, &mut receipts)?));
        let is_parent = |it: &DumpedBlock| it.header.number.checked_add(1) == Some(number);
        next = by_hash.get(&parent).is_some_and(is_parent).then_some(parent);
    }
    if found.is_empty() {
        return Err(DumpError::NoHead(newest));
    }
    found.reverse();
    Ok(found)
}

fn check_header(block: &DumpedBlock) -> Result<(), DumpError> {
    let header = &block.header;
    let number = header.number;
    let fields = [
        ("number", number, 0, LATEST),
        ("timestamp", header.timestamp, 0, LATEST),
        ("gasLimit", header.gas_limit, LOWEST_GAS_LIMIT, LATEST),
        ("baseFeePerGas", header.base_fee_per_gas.unwrap_or_default(), 0, HIGHEST_BASE_FEE),
        ("gasUsed", header.gas_used, 0, header.gas_limit),
        ("excessBlobGas", header.excess_blob_gas.unwrap_or_default(), 0, MOST_EXCESS_BLOB_GAS),
    ];
    match fields.into_iter().find(|(_, value, least, most)| !(*least..=*most).contains(value)) {
        Some((field, value, ..)) => Err(DumpError::OutOfRange { number, field, value }),
        None => Ok(()),
    }
}

fn block(hash: B256, dumped: DumpedBlock, receipts: &mut B256HashMap<DumpedReceipt>) -> Result<Block, DumpError> {
    let base_fee = dumped.header.base_fee_per_gas;
    let mut block = Block { header: dumped.header, hash, transactions: Vec::new(), receipts: Vec::new() };
    let mut logs_before = 0_u64;
    for (index, transaction) in dumped.transactions.into_iter().enumerate() {
        let number = block.number();
        let bad = |error: SubmitError| {
            let reason = SafeText::clean(&error.to_string(), 120);
            DumpError::Transaction { block: number, index, reason }
        };
        let transaction = transaction_of(transaction).map_err(bad)?;
        let dumped = receipts.remove(&transaction.hash).ok_or(DumpError::NoReceipt(transaction.hash))?;
        let receipt = receipt(&transaction, dumped, base_fee, logs_before);
        logs_before = logs_before.saturating_add(u64::try_from(receipt.logs().len()).unwrap_or(u64::MAX));
        block.transactions.push(Arc::new(transaction));
        block.receipts.push(receipt);
    }
    Ok(block)
}

/// Converts a transaction; its hash and sender are computed, not taken from the dump.
fn transaction_of(dumped: DumpedTransaction) -> Result<ChainTransaction, SubmitError> {
    let (envelope, impersonated) = match dumped {
        DumpedTransaction::Wrapped { transaction, impersonated_sender } => (transaction, impersonated_sender),
        DumpedTransaction::Bare(transaction) => (transaction, None),
    };
    let Some(sender) = impersonated else {
        return ChainTransaction::decode(&envelope.encoded_2718());
    };
    let hash = impersonated_hash(&envelope, sender);
    Ok(ChainTransaction { envelope: with_hash(*envelope, hash), sender, hash, impersonated: true })
}

fn receipt(
    transaction: &ChainTransaction,
    dumped: DumpedReceipt,
    base_fee: Option<u64>,
    first_log_index: u64,
) -> Receipt {
    let failure = (!dumped.receipt.status()).then(|| failure(dumped.info.exit, dumped.info.out));
    Receipt {
        envelope: dumped.receipt,
        gas_used: dumped.info.gas_used,
        effective_gas_price: transaction.envelope.effective_gas_price(base_fee),
        contract_address: dumped.info.contract_address,
        first_log_index,
        failure,
    }
}

fn failure(exit: InstructionResult, output: Option<Bytes>) -> ExecutionFailure {
    match SuccessOrHalt::<HaltReason>::from(exit) {
        SuccessOrHalt::Halt(reason) => ExecutionFailure::Halted(reason),
        SuccessOrHalt::Success(_)
        | SuccessOrHalt::Revert
        | SuccessOrHalt::FatalExternalError
        | SuccessOrHalt::Internal(_) => ExecutionFailure::Reverted(output.unwrap_or_default()),
    }
}

/// States of listed blocks, by block number.
fn earlier_states(
    blocks: &[Arc<Block>],
    dumped: Vec<(B256, HistoricalState)>,
) -> Result<BTreeMap<u64, WorldState>, DumpError> {
    let numbers: B256HashMap<u64> = blocks.iter().map(|block| (block.hash, block.number())).collect();
    let mut states = BTreeMap::new();
    for (hash, dumped) in dumped {
        let Some(number) = numbers.get(&hash) else { continue };
        let mut state = WorldState::default();
        for (address, info) in dumped.accounts {
            state.set_nonce(address, info.nonce);
            state.set_balance(address, info.balance);
            state.set_code(address, info.code.map(|code| code.original_bytes()).unwrap_or_default())?;
        }
        for (address, slots) in dumped.storage {
            for (slot, value) in slots {
                state.set_storage_at(address, slot, value);
            }
        }
        let hashes = dumped.block_hashes.into_iter().map(|(number, hash)| (number.saturating_to::<u64>(), hash));
        state.replace_block_hashes(hashes);
        states.insert(*number, state);
    }
    Ok(states)
}
