//! Binary image of a chain: configuration, newest state, blocks with transactions and receipts, pending transactions
//! and time. A chain restored from an image continues like the original.
//!
//! An image does not contain states of earlier blocks, snapshots, and unread events. Not here: storage of images and
//! their integrity checks, which are the caller's task.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;
use std::sync::Arc;

use alloy::consensus::{Header, ReceiptEnvelope, Transaction as _, TxEnvelope};
use alloy::eips::{Decodable2718, Encodable2718};
use alloy::primitives::{B256, Bytes};
use alloy::rlp::{Decodable as _, Encodable as _};
use revm::context::result::HaltReason;

use super::block::{Block, ChainTransaction, ExecutionFailure, Receipt, with_hash};
use super::bytes::{ByteReader, ByteWriter, BytesError};
use super::chain::{Chain, ChainConfig};
use super::events::EventLog;
use super::ledger::{BlockStore, HistoryLimits};
use super::pool::TxPool;
use super::rewind::SavedStates;
use super::state::{StoredAccount, WorldState};
use super::time::Timekeeper;
use crate::evm::{ChainRules, SpecId};
use crate::fork::origin::Origin;

/// Version of the format. An image of another version is refused.
const VERSION: u64 = 1;
/// Version of the format for forks, with the origin's block and only what changed since.
const FORK_VERSION: u64 = 1_001;

/// Error for an image that cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The image has another format version.
    #[error("it is of version {found}, but this is version {VERSION}")]
    Version {
        /// Version of the image.
        found: u64,
    },
    /// The image is of a fork of another block, or of a chain of its own.
    #[error("it is not of a fork of block {hash} of chain {chain_id}")]
    OtherOrigin {
        /// EIP-155 id of the given origin's chain.
        chain_id: u64,
        /// Hash of the given origin's block.
        hash: B256,
    },
    /// The image is of a fork, and no origin was given.
    #[error("it is of a fork: start it with the network that it was forked from")]
    NoOrigin,
    /// The bytes are not a valid image.
    #[error(transparent)]
    Read(#[from] BytesError),
}

impl Chain {
    /// Serialises the chain. Equal chains give equal bytes.
    pub fn to_image(&self) -> Vec<u8> {
        let mut writer = ByteWriter::default();
        match self.origin() {
            None => writer.number(VERSION),
            Some(origin) => {
                writer.number(FORK_VERSION);
                writer.number(origin.rules().chain_id);
                writer.hash(origin.hash());
            }
        }
        write_config(&mut writer, &self.config);
        writer.number(self.next_base_fee);
        writer.number(self.reorgs);
        writer.flag(self.impersonate_all);
        writer.length(self.impersonated.len());
        for address in &self.impersonated {
            writer.address(*address);
        }
        self.time.write(&mut writer);
        let blocks: Vec<_> = self.blocks(0, self.number()).collect();
        writer.length(blocks.len());
        for block in blocks {
            write_block(&mut writer, block);
        }
        self.state.write(&mut writer);
        writer.length(self.pool.len());
        for transaction in self.pool.iter() {
            write_transaction(&mut writer, transaction);
        }
        writer.into_bytes()
    }

    /// Restores the chain from an image.
    ///
    /// # Errors
    /// [`ImageError`] for another version or invalid bytes, and for the image of a fork.
    pub fn from_image(bytes: &[u8]) -> Result<Self, ImageError> {
        Self::from_image_on(bytes, None)
    }

    /// Restores a fork from an image, on the origin it was forked from; or another chain without one.
    ///
    /// # Errors
    /// [`ImageError`] for another version or origin, or invalid bytes.
    pub fn from_image_on(bytes: &[u8], origin: Option<&Arc<Origin>>) -> Result<Self, ImageError> {
        let mut reader = ByteReader::new(bytes);
        match (reader.number()?, origin) {
            (VERSION, None) => {}
            (FORK_VERSION, Some(origin)) => {
                let (chain_id, hash) = (origin.rules().chain_id, origin.hash());
                if (reader.number()?, reader.hash()?) != (chain_id, hash) {
                    return Err(ImageError::OtherOrigin { chain_id, hash });
                }
            }
            (VERSION, Some(origin)) => {
                return Err(ImageError::OtherOrigin { chain_id: origin.rules().chain_id, hash: origin.hash() });
            }
            (FORK_VERSION, None) => return Err(ImageError::NoOrigin),
            (found, _) => return Err(ImageError::Version { found }),
        }
        let config = read_config(&mut reader)?;
        let (next_base_fee, reorgs, impersonate_all) = (reader.number()?, reader.number()?, reader.flag()?);
        let mut impersonated = BTreeSet::new();
        for _ in 0..reader.length()? {
            impersonated.insert(reader.address()?);
        }
        let time = Timekeeper::read(&mut reader)?;
        let mut blocks = Vec::new();
        for _ in 0..reader.length()? {
            blocks.push(Arc::new(read_block(&mut reader)?));
        }
        let state = WorldState::read(&mut reader, origin)?;
        let mut pool = TxPool::default();
        for _ in 0..reader.length()? {
            let waiting = read_transaction(&mut reader)?;
            pool.insert(Arc::new(waiting)).map_err(|_| BytesError::Invalid("waiting transaction"))?;
        }
        reader.finish()?;
        let ledger = BlockStore::rebuilt(config.history, blocks, BTreeMap::new(), state.clone());
        let ledger = ledger.ok_or(BytesError::Invalid("list of blocks"))?;
        let (snapshots, journal) = (SavedStates::default(), EventLog::default());
        let (impersonated, impersonate_all) = (impersonated, impersonate_all);
        Ok(Self {
            config,
            state,
            ledger,
            pool,
            time,
            next_base_fee,
            impersonated,
            impersonate_all,
            snapshots,
            journal,
            reorgs,
            edits: 0,
        })
    }
}

fn write_config(writer: &mut ByteWriter, config: &ChainConfig) {
    writer.number(config.rules.chain_id);
    let spec: &'static str = config.rules.spec.into();
    writer.bytes(spec.as_bytes());
    writer.number(config.genesis_time);
    writer.number(config.base_fee);
    writer.number(config.least_base_fee);
    writer.number(config.gas_limit);
    writer.address(config.coinbase);
    writer.word(alloy::primitives::U256::from(config.suggested_tip));
    writer.length(config.balances.len());
    for (address, balance) in &config.balances {
        writer.address(*address);
        writer.word(*balance);
    }
    writer.number(config.history.blocks);
    writer.number(config.history.states);
}

fn read_config(reader: &mut ByteReader<'_>) -> Result<ChainConfig, BytesError> {
    let chain_id = reader.number()?;
    let spec = SpecId::from_str(reader.text()?).map_err(|_| BytesError::Invalid("hardfork"))?;
    let (genesis_time, base_fee, least_base_fee) = (reader.number()?, reader.number()?, reader.number()?);
    let (gas_limit, coinbase, suggested_tip) = (reader.number()?, reader.address()?, reader.word()?);
    let mut balances = Vec::new();
    for _ in 0..reader.length()? {
        balances.push((reader.address()?, reader.word()?));
    }
    Ok(ChainConfig {
        rules: ChainRules { chain_id, spec },
        genesis_time,
        base_fee,
        least_base_fee,
        gas_limit,
        coinbase,
        suggested_tip: u128::try_from(suggested_tip).map_err(|_| BytesError::Invalid("tip"))?,
        balances,
        // Genesis contracts are part of the state.
        codes: Vec::new(),
        history: HistoryLimits { blocks: reader.number()?, states: reader.number()? },
    })
}

fn write_block(writer: &mut ByteWriter, block: &Block) {
    let mut header = Vec::new();
    block.header.encode(&mut header);
    writer.bytes(&header);
    writer.length(block.transactions.len());
    for (transaction, receipt) in block.transactions.iter().zip(&block.receipts) {
        write_transaction(writer, transaction);
        write_receipt(writer, receipt);
    }
}

fn read_block(reader: &mut ByteReader<'_>) -> Result<Block, BytesError> {
    let mut header = reader.bytes()?;
    let header = Header::decode(&mut header).map_err(|_| BytesError::Invalid("block header"))?;
    let hash = header.hash_slow();
    let mut block = Block { header, hash, transactions: Vec::new(), receipts: Vec::new() };
    let mut logs_before = 0_u64;
    for _ in 0..reader.length()? {
        let transaction = read_transaction(reader)?;
        let receipt = read_receipt(reader, &transaction, block.header.base_fee_per_gas, logs_before)?;
        logs_before = logs_before.saturating_add(u64::try_from(receipt.logs().len()).unwrap_or(u64::MAX));
        block.transactions.push(Arc::new(transaction));
        block.receipts.push(receipt);
    }
    Ok(block)
}

/// Includes the hash and the sender, which would otherwise have to be computed again.
pub(super) fn write_transaction(writer: &mut ByteWriter, transaction: &ChainTransaction) {
    writer.flag(transaction.impersonated);
    writer.address(transaction.sender);
    writer.hash(transaction.hash);
    writer.bytes(&transaction.envelope.encoded_2718());
}

pub(super) fn read_transaction(reader: &mut ByteReader<'_>) -> Result<ChainTransaction, BytesError> {
    let (impersonated, sender, hash): (bool, _, B256) = (reader.flag()?, reader.address()?, reader.hash()?);
    let envelope = TxEnvelope::decode_2718_exact(reader.bytes()?).map_err(|_| BytesError::Invalid("transaction"))?;
    Ok(ChainTransaction { envelope: with_hash(envelope, hash), sender, hash, impersonated })
}

fn write_receipt(writer: &mut ByteWriter, receipt: &Receipt) {
    writer.bytes(&receipt.envelope.encoded_2718());
    writer.number(receipt.gas_used);
    writer.flag(receipt.contract_address.is_some());
    if let Some(address) = receipt.contract_address {
        writer.address(address);
    }
    match &receipt.failure {
        None => writer.number(0),
        Some(ExecutionFailure::Reverted(output)) => {
            writer.number(1);
            writer.bytes(output);
        }
        Some(ExecutionFailure::Halted(reason)) => {
            writer.number(2);
            // A plain enum always serialises to JSON.
            writer.bytes(&serde_json::to_vec(reason).unwrap_or_default());
        }
    }
}

fn read_receipt(
    reader: &mut ByteReader<'_>,
    transaction: &ChainTransaction,
    base_fee: Option<u64>,
    first_log_index: u64,
) -> Result<Receipt, BytesError> {
    let envelope = ReceiptEnvelope::decode_2718_exact(reader.bytes()?).map_err(|_| BytesError::Invalid("receipt"))?;
    let gas_used = reader.number()?;
    let contract_address = if reader.flag()? { Some(reader.address()?) } else { None };
    let failure = match reader.number()? {
        0 => None,
        1 => Some(ExecutionFailure::Reverted(Bytes::copy_from_slice(reader.bytes()?))),
        2 => {
            let reason: HaltReason =
                serde_json::from_slice(reader.bytes()?).map_err(|_| BytesError::Invalid("reason of a failure"))?;
            Some(ExecutionFailure::Halted(reason))
        }
        _ => return Err(BytesError::Invalid("outcome")),
    };
    let effective_gas_price = transaction.envelope.effective_gas_price(base_fee);
    Ok(Receipt { envelope, gas_used, effective_gas_price, contract_address, first_log_index, failure })
}

impl Timekeeper {
    pub(super) fn write(&self, writer: &mut ByteWriter) {
        let (offset, exact, interval) = self.travelled();
        writer.number(offset.cast_unsigned());
        writer.optional(exact);
        writer.optional(interval);
    }

    pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<Self, BytesError> {
        let offset = reader.number()?.cast_signed();
        Ok(Self::travelling(offset, reader.optional()?, reader.optional()?))
    }
}

impl WorldState {
    /// Writes accounts by address, and each distinct code once.
    fn write(&self, writer: &mut ByteWriter) {
        let mut addresses: Vec<_> = self.addresses().collect();
        addresses.sort_unstable();
        let codes: BTreeMap<B256, Bytes> = addresses
            .iter()
            .map(|address| (self.code_hash(*address), self.code(*address)))
            .filter(|(_, code)| !code.is_empty())
            .collect();
        let places: BTreeMap<B256, u64> = codes.keys().copied().zip(1..).collect();
        writer.hash(self.clone().root());
        writer.length(codes.len());
        for code in codes.values() {
            writer.bytes(code);
        }
        writer.length(addresses.len());
        for address in addresses {
            writer.address(address);
            writer.number(self.nonce(address));
            writer.word(self.balance(address));
            writer.number(places.get(&self.code_hash(address)).copied().unwrap_or_default());
            if self.has_origin() {
                writer.flag(self.is_whole(address));
            }
            let slots: BTreeMap<_, _> = self.storage(address).collect();
            writer.length(slots.len());
            for (slot, value) in slots {
                writer.word(slot);
                writer.word(value);
            }
        }
        let hashes: Vec<_> = self.block_hashes().collect();
        writer.length(hashes.len());
        for (number, hash) in hashes {
            writer.number(number);
            writer.hash(hash);
        }
    }

    fn read(reader: &mut ByteReader<'_>, origin: Option<&Arc<Origin>>) -> Result<Self, BytesError> {
        let root = reader.hash()?;
        let mut state = origin.map_or_else(WorldState::default, |origin| WorldState::of_origin(Arc::clone(origin)));
        let mut codes = vec![None];
        for _ in 0..reader.length()? {
            let code = Bytes::copy_from_slice(reader.bytes()?);
            codes.push(Some(state.store_code(code).map_err(|_| BytesError::Invalid("code"))?));
        }
        for _ in 0..reader.length()? {
            let address = reader.address()?;
            let (nonce, balance) = (reader.number()?, reader.word()?);
            let code = usize::try_from(reader.number()?).ok().and_then(|place| codes.get(place));
            let code_hash = *code.ok_or(BytesError::Invalid("code of an account"))?;
            let is_whole = if origin.is_some() { reader.flag()? } else { true };
            let mut slots = Vec::new();
            for _ in 0..reader.length()? {
                slots.push((reader.word()?, reader.word()?));
            }
            state.store_account(address, StoredAccount { nonce, balance, code_hash, is_whole, slots });
        }
        if state.root() != root {
            return Err(BytesError::Invalid("state root"));
        }
        let mut hashes = Vec::new();
        for _ in 0..reader.length()? {
            hashes.push((reader.number()?, reader.hash()?));
        }
        state.replace_block_hashes(hashes);
        Ok(state)
    }
}

#[cfg(test)]
pub(super) mod tests;
