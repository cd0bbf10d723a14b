//! JSON format of a dump, with the fields of anvil 1.x. Older formats that anvil reads are supported too.

use std::collections::BTreeMap;

use alloy::consensus::{Header, ReceiptEnvelope, TxEnvelope};
use alloy::primitives::{Address, B256, Bytes, Log, U256};
use revm::context::BlockEnv;
use revm::interpreter::InstructionResult;
use revm::state::AccountInfo;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct ChainDump {
    /// Environment of the newest block.
    #[serde(default, deserialize_with = "block_env")]
    pub(super) block: Option<BlockEnv>,
    pub(super) accounts: BTreeMap<Address, DumpedAccount>,
    #[serde(default, deserialize_with = "optional_number")]
    pub(super) best_block_number: Option<u64>,
    /// Blocks in no particular order.
    #[serde(default)]
    pub(super) blocks: Vec<DumpedBlock>,
    /// Receipts in no particular order.
    #[serde(default)]
    pub(super) transactions: Vec<DumpedReceipt>,
    /// States of earlier blocks by block hash.
    #[serde(default)]
    pub(super) historical_states: Option<Vec<(B256, HistoricalState)>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DumpedAccount {
    #[serde(deserialize_with = "number")]
    pub(super) nonce: u64,
    pub(super) balance: U256,
    pub(super) code: Bytes,
    #[serde(deserialize_with = "storage")]
    pub(super) storage: BTreeMap<B256, B256>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DumpedBlock {
    pub(super) header: Header,
    pub(super) transactions: Vec<DumpedTransaction>,
    #[serde(deserialize_with = "ignored")]
    pub(super) ommers: [(); 0],
    #[serde(default, skip_deserializing)]
    pub(super) withdrawals: Option<()>,
}

/// A transaction with its impersonated sender if any, or a bare one as written before anvil 1.0.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum DumpedTransaction {
    Wrapped { transaction: Box<TxEnvelope>, impersonated_sender: Option<Address> },
    Bare(Box<TxEnvelope>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DumpedReceipt {
    pub(super) info: TransactionInfo,
    pub(super) receipt: ReceiptEnvelope<Log>,
    pub(super) block_hash: B256,
    pub(super) block_number: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TransactionInfo {
    pub(super) transaction_hash: B256,
    pub(super) transaction_index: u64,
    pub(super) from: Address,
    pub(super) to: Option<Address>,
    pub(super) contract_address: Option<Address>,
    /// Call traces, which are ignored. The devnet executes a transaction again to trace it.
    #[serde(default, deserialize_with = "ignored")]
    pub(super) traces: [(); 0],
    pub(super) exit: InstructionResult,
    pub(super) out: Option<Bytes>,
    #[serde(default, deserialize_with = "number")]
    pub(super) nonce: u64,
    #[serde(deserialize_with = "number")]
    pub(super) gas_used: u64,
}

/// All accounts after an earlier block.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HistoricalState {
    pub(super) accounts: BTreeMap<Address, AccountInfo>,
    #[serde(default)]
    pub(super) storage: BTreeMap<Address, BTreeMap<U256, U256>>,
    #[serde(default)]
    pub(super) block_hashes: BTreeMap<U256, B256>,
}

fn ignored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[(); 0], D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| [])
}

fn number_of(value: &Value) -> Option<u64> {
    super::super::rpc::number(value).and_then(|number| u64::try_from(number).ok())
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    number_of(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("a number below 2^64 is missing"))
}

fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value => number_of(&value).map(Some).ok_or_else(|| D::Error::custom("best_block_number is not a number")),
    }
}

/// Slots and values in hexadecimal of any width, like anvil.
fn storage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<B256, B256>, D::Error> {
    let slots: BTreeMap<U256, U256> = BTreeMap::deserialize(deserializer)?;
    Ok(slots.into_iter().map(|(slot, value)| (slot.into(), value.into())).collect())
}

/// The block environment. Dumps before anvil 1.3 write numbers differently; of those, the used fields are read.
fn block_env<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BlockEnv>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if value.is_null() {
        return Ok(None);
    }
    if let Ok(block) = BlockEnv::deserialize(&value) {
        return Ok(Some(block));
    }
    let field = |name: &str| value.get(name).and_then(super::super::rpc::number);
    let Some(number) = field("number") else { return Err(D::Error::custom("block.number is missing")) };
    let small = |name: &str| field(name).map(|number| number.saturating_to::<u64>()).unwrap_or_default();
    let beneficiary = value.get("beneficiary").or_else(|| value.get("coinbase")).cloned().unwrap_or(Value::Null);
    Ok(Some(BlockEnv {
        number,
        beneficiary: Option::deserialize(beneficiary).map_err(D::Error::custom)?.unwrap_or_default(),
        timestamp: field("timestamp").unwrap_or_default(),
        gas_limit: small("gas_limit"),
        basefee: small("basefee"),
        ..BlockEnv::default()
    }))
}
