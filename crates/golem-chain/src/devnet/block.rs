//! Data of a devnet chain: transactions with their sender, receipts, and sealed blocks.
//!
//! Not here: block production (see `chain` and `produce`).

use std::sync::Arc;

use alloy::consensus::constants::EMPTY_WITHDRAWALS;
use alloy::consensus::proofs::ordered_trie_root_with_encoder;
use alloy::consensus::{
    EMPTY_OMMER_ROOT_HASH, Header, ReceiptEnvelope, Signed, TxEnvelope, TxReceipt, TypedTransaction,
};
use alloy::eips::eip2718::{Decodable2718, Encodable2718};
use alloy::eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy::primitives::{Address, B64, B256, Bloom, Bytes, Log, Signature, U256, keccak256};
use revm::context::result::HaltReason;

use super::error::SubmitError;
use crate::evm::BlockContext;
use crate::signed::sender_of;

/// A transaction with its recovered sender.
#[derive(Debug, Clone)]
pub struct ChainTransaction {
    /// The signed transaction; that of an impersonated sender has a placeholder signature.
    pub envelope: TxEnvelope,
    /// Address of the sender.
    pub sender: Address,
    /// Transaction hash; for an impersonated sender it also covers the sender.
    pub hash: B256,
    /// True for an unsigned transaction of an impersonated sender.
    pub impersonated: bool,
}

/// Receipt of a mined transaction.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// Receipt as defined by consensus: type, status, cumulative gas, logs, bloom.
    pub envelope: ReceiptEnvelope<Log>,
    /// Gas used by this transaction, after refunds and with the calldata floor.
    pub gas_used: u64,
    /// Gas price that was paid, in wei per gas.
    pub effective_gas_price: u128,
    /// Address of the created contract, even if the creation failed; `None` for a call.
    pub contract_address: Option<Address>,
    /// Number of logs in the block before this transaction's first.
    pub first_log_index: u64,
    /// Reason of the failure; `None` for success.
    pub failure: Option<ExecutionFailure>,
}

/// Failure of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutionFailure {
    /// Revert with this data.
    Reverted(Bytes),
    /// Exceptional halt, which uses all gas.
    Halted(HaltReason),
}

/// A sealed block of the chain.
#[derive(Debug, Clone)]
pub struct Block {
    /// Header of the block.
    pub header: Header,
    /// Keccak hash of the header.
    pub hash: B256,
    /// Transactions in block order.
    pub transactions: Vec<Arc<ChainTransaction>>,
    /// Receipts, one per transaction.
    pub receipts: Vec<Receipt>,
}

impl ChainTransaction {
    /// Recovers the sender of a signed transaction.
    ///
    /// # Errors
    /// [`SubmitError::InvalidSignature`] if no sender can be recovered.
    pub fn signed(envelope: TxEnvelope) -> Result<Self, SubmitError> {
        let sender = sender_of(&envelope).ok_or(SubmitError::InvalidSignature)?;
        let hash = *envelope.tx_hash();
        Ok(Self { envelope, sender, hash, impersonated: false })
    }

    /// Decodes the parameter of `eth_sendRawTransaction` ([EIP-2718](https://eips.ethereum.org/EIPS/eip-2718)).
    ///
    /// # Errors
    /// [`SubmitError`] for a malformed encoding or an invalid signature.
    pub fn decode(raw: &[u8]) -> Result<Self, SubmitError> {
        let mut rest = raw;
        let envelope = TxEnvelope::decode_2718(&mut rest).map_err(|_| SubmitError::Malformed)?;
        if !rest.is_empty() {
            return Err(SubmitError::Malformed);
        }
        Self::signed(envelope)
    }

    /// Creates an unsigned transaction from `sender`.
    pub fn impersonated(transaction: TypedTransaction, sender: Address) -> Self {
        // A well-formed signature that no key made.
        let signature = Signature::new(U256::from(1), U256::from(1), false);
        let hash = impersonated_hash(&transaction.clone().into_envelope(signature), sender);
        let envelope = match transaction {
            TypedTransaction::Legacy(tx) => TxEnvelope::Legacy(Signed::new_unchecked(tx, signature, hash)),
            TypedTransaction::Eip2930(tx) => TxEnvelope::Eip2930(Signed::new_unchecked(tx, signature, hash)),
            TypedTransaction::Eip1559(tx) => TxEnvelope::Eip1559(Signed::new_unchecked(tx, signature, hash)),
            TypedTransaction::Eip4844(tx) => TxEnvelope::Eip4844(Signed::new_unchecked(tx, signature, hash)),
            TypedTransaction::Eip7702(tx) => TxEnvelope::Eip7702(Signed::new_unchecked(tx, signature, hash)),
        };
        Self { envelope, sender, hash, impersonated: true }
    }
}

/// Hash of an unsigned transaction, the same as anvil's. It covers the sender, since two senders may send the same
/// bytes.
pub(super) fn impersonated_hash(envelope: &TxEnvelope, sender: Address) -> B256 {
    let mut bytes = Vec::new();
    alloy::rlp::Encodable::encode(envelope, &mut bytes);
    bytes.extend_from_slice(sender.as_slice());
    keccak256(&bytes)
}

/// Sets a known hash, since the hash of an impersonated sender's transaction does not follow from its bytes.
pub(super) fn with_hash(envelope: TxEnvelope, hash: B256) -> TxEnvelope {
    fn known<T>(signed: Signed<T>, hash: B256) -> Signed<T> {
        let signature = *signed.signature();
        Signed::new_unchecked(signed.strip_signature(), signature, hash)
    }
    match envelope {
        TxEnvelope::Legacy(signed) => TxEnvelope::Legacy(known(signed, hash)),
        TxEnvelope::Eip2930(signed) => TxEnvelope::Eip2930(known(signed, hash)),
        TxEnvelope::Eip1559(signed) => TxEnvelope::Eip1559(known(signed, hash)),
        TxEnvelope::Eip4844(signed) => TxEnvelope::Eip4844(known(signed, hash)),
        TxEnvelope::Eip7702(signed) => TxEnvelope::Eip7702(known(signed, hash)),
    }
}

impl Receipt {
    /// Returns true if the execution succeeded.
    pub fn is_success(&self) -> bool {
        self.failure.is_none()
    }

    /// Logs of the transaction, in order.
    pub fn logs(&self) -> &[Log] {
        self.envelope.logs()
    }
}

impl Block {
    /// Height of the block.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Block values that its transactions could read.
    pub fn context(&self) -> BlockContext {
        BlockContext {
            number: self.header.number,
            timestamp: self.header.timestamp,
            base_fee: self.header.base_fee_per_gas.unwrap_or_default(),
            gas_limit: self.header.gas_limit,
            coinbase: self.header.beneficiary,
            prevrandao: self.header.mix_hash,
            excess_blob_gas: self.header.excess_blob_gas.unwrap_or_default(),
        }
    }

    /// Seals a block: computes the roots, the header and its hash.
    pub(super) fn seal(
        context: &BlockContext,
        parent_hash: B256,
        state_root: B256,
        extra_data: Bytes,
        transactions: Vec<Arc<ChainTransaction>>,
        receipts: Vec<Receipt>,
    ) -> Self {
        let transactions_root = ordered_trie_root_with_encoder(&transactions, |transaction, buffer| {
            transaction.envelope.encode_2718(buffer)
        });
        let receipts_root =
            ordered_trie_root_with_encoder(&receipts, |receipt, buffer| receipt.envelope.encode_2718(buffer));
        let mut logs_bloom = Bloom::default();
        for receipt in &receipts {
            logs_bloom |= receipt.envelope.bloom();
        }
        let header = Header {
            parent_hash,
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: context.coinbase,
            state_root,
            transactions_root,
            receipts_root,
            logs_bloom,
            difficulty: U256::ZERO,
            number: context.number,
            gas_limit: context.gas_limit,
            gas_used: receipts.last().map_or(0, |receipt| receipt.envelope.cumulative_gas_used()),
            timestamp: context.timestamp,
            extra_data,
            mix_hash: context.prevrandao,
            nonce: B64::ZERO,
            base_fee_per_gas: Some(context.base_fee),
            withdrawals_root: Some(EMPTY_WITHDRAWALS),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(context.excess_blob_gas),
            parent_beacon_block_root: Some(B256::ZERO),
            requests_hash: Some(EMPTY_REQUESTS_HASH),
            ..Default::default()
        };
        let hash = header.hash_slow();
        Self { header, hash, transactions, receipts }
    }
}
