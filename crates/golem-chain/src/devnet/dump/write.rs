//! Writing of dumps.

use std::collections::BTreeMap;

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256, U256};
use flate2::Compression;
use flate2::write::GzEncoder;
use revm::context::BlockEnv;
use revm::interpreter::InstructionResult;
use revm::state::{AccountInfo, Bytecode};
use serde::{Serialize, Serializer};

use super::super::block::{Block, ChainTransaction, ExecutionFailure, Receipt};
use super::super::chain::Chain;
use super::super::state::WorldState;
use super::format::{DumpedAccount, DumpedBlock, DumpedReceipt, DumpedTransaction, HistoricalState, TransactionInfo};
use super::{DumpError, MAX_JSON};
use crate::evm;
use bardo_base::text::SafeText;

impl Chain {
    /// Dumps the chain's newest state, blocks and transactions in anvil's format, gzip-compressed. With
    /// `historical_states`, it includes the states of earlier blocks that are still kept.
    ///
    /// # Errors
    /// [`DumpError::TooLarge`] if the JSON exceeds the limit.
    pub fn dump(&self, historical_states: bool) -> Result<Vec<u8>, DumpError> {
        let mut limited = LimitedWriter { inner: GzEncoder::new(Vec::new(), Compression::fast()), left: MAX_JSON };
        match serde_json::to_writer(&mut limited, &self.to_dump(historical_states)) {
            Ok(()) => limited.inner.finish().map_err(failed),
            Err(error) if error.is_io() => Err(DumpError::TooLarge(MAX_JSON)),
            Err(error) => Err(error.into()),
        }
    }

    fn to_dump(&self, historical_states: bool) -> DumpForm<'_> {
        let head = self.head();
        let blocks = || self.blocks(0, head.number());
        DumpForm {
            block: evm::block_env(self.rules(), &head.context()),
            accounts: self.state().addresses().map(|address| (address, account(self.state(), address))).collect(),
            best_block_number: head.number(),
            blocks: blocks().map(|block| dumped_block(block)).collect(),
            transactions: blocks().flat_map(|block| receipts(block)).collect(),
            historical_states: historical_states.then_some(EarlierStates(self)),
        }
    }
}

/// A dump in serialised form, with the fields of [`ChainDump`](super::format::ChainDump).
#[derive(Serialize)]
struct DumpForm<'a> {
    block: BlockEnv,
    accounts: BTreeMap<Address, DumpedAccount>,
    best_block_number: u64,
    blocks: Vec<DumpedBlock>,
    transactions: Vec<DumpedReceipt>,
    historical_states: Option<EarlierStates<'a>>,
}

/// States of earlier blocks, created one at a time during serialisation because all together are large.
struct EarlierStates<'a>(&'a Chain);

impl Serialize for EarlierStates<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(chain) = self;
        let earlier = chain.blocks(0, chain.number()).filter(|block| block.number() < chain.number());
        serializer.collect_seq(
            earlier.filter_map(|block| Some((block.hash, historical(chain.ledger.state(block.number())?)))),
        )
    }
}

fn failed(error: std::io::Error) -> DumpError {
    DumpError::Compression(SafeText::clean(&error.to_string(), 100))
}

/// Writer with a size limit.
struct LimitedWriter<W> {
    inner: W,
    left: u64,
}

impl<W: std::io::Write> std::io::Write for LimitedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(length).ok_or_else(|| std::io::Error::other("too large"))?;
        self.inner.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

fn account(state: &WorldState, address: Address) -> DumpedAccount {
    DumpedAccount {
        nonce: state.nonce(address),
        balance: state.balance(address),
        code: state.code(address),
        storage: state.storage(address).map(|(slot, value)| (slot.into(), value.into())).collect(),
    }
}

fn dumped_block(block: &Block) -> DumpedBlock {
    let transactions = block.transactions.iter().map(|transaction| DumpedTransaction::Wrapped {
        transaction: Box::new(transaction.envelope.clone()),
        impersonated_sender: transaction.impersonated.then_some(transaction.sender),
    });
    DumpedBlock { header: block.header.clone(), transactions: transactions.collect(), ommers: [], withdrawals: None }
}

fn receipts(block: &Block) -> impl Iterator<Item = DumpedReceipt> + '_ {
    block.transactions.iter().zip(&block.receipts).zip(0..).map(|((transaction, receipt), index)| DumpedReceipt {
        info: info(transaction, receipt, index),
        receipt: receipt.envelope.clone(),
        block_hash: block.hash,
        block_number: block.number(),
    })
}

fn info(transaction: &ChainTransaction, receipt: &Receipt, transaction_index: u64) -> TransactionInfo {
    let (exit, out) = match &receipt.failure {
        None => (InstructionResult::Stop, None),
        Some(ExecutionFailure::Reverted(output)) => (InstructionResult::Revert, Some(output.clone())),
        Some(ExecutionFailure::Halted(reason)) => (reason.clone().into(), None),
    };
    TransactionInfo {
        transaction_hash: transaction.hash,
        transaction_index,
        from: transaction.sender,
        to: transaction.envelope.to(),
        contract_address: receipt.contract_address,
        traces: [],
        exit,
        out,
        nonce: transaction.envelope.nonce(),
        gas_used: receipt.gas_used,
    }
}

fn historical(state: &WorldState) -> HistoricalState {
    let info = |address| {
        let code = Bytecode::new_raw_checked(state.code(address)).unwrap_or_default();
        AccountInfo::new(state.balance(address), state.nonce(address), state.code_hash(address), code)
    };
    let slots = |address| -> BTreeMap<U256, U256> { state.storage(address).collect() };
    HistoricalState {
        accounts: state.addresses().map(|address| (address, info(address))).collect(),
        storage: state.addresses().map(|address| (address, slots(address))).filter(|(_, it)| !it.is_empty()).collect(),
        block_hashes: state.block_hashes().map(|(number, hash): (u64, B256)| (U256::from(number), hash)).collect(),
    }
}
