//! The file in which owners of a Safe exchange a proposal with its signatures. Each transaction has the fields of the Safe
//! Transaction Service's JSON. Nothing in a file is believed: transactions are compared with their own fields, hashes are
//! computed again, and each signature is verified over our hash.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::record::SafeProposalRecord;
use super::stored::StoredProposal;
use crate::custody::safe::{SafeSignatures, SafeTx};
use crate::signing_payload::MAX_LEGS;

/// Version of the file's form.
const VERSION: u32 = 1;

/// Maximum size of a file, in bytes: eight transactions of the largest calldata, in hexadecimal digits.
pub const MAX_FILE: u64 = 4 << 20;

/// Reason why a file is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The file is not of this form.
    #[error("the file does not contain a proposal of a Safe: {0}")]
    Malformed(&'static str),
    /// A transaction is a delegate call.
    #[error("transaction {0} is a delegate call, which could change everything in the Safe")]
    DelegateCall(usize),
    /// A transaction pays somebody for its execution, or limits its gas.
    #[error("transaction {0} has a gas price, a gas limit or a receiver of a refund")]
    Refund(usize),
    /// The hash is not that of the fields beside it.
    #[error("transaction {index} has the hash {own}, but the file says {stated}")]
    Hash {
        /// Index of the transaction, from 0.
        index: usize,
        /// Hash in the file.
        stated: B256,
        /// Hash of the fields in the file.
        own: B256,
    },
    /// The transactions are not those of the proposal.
    #[error("the file's transactions are not those of the proposal")]
    OtherTransactions,
    /// An owner is named twice.
    #[error("the file has two signatures of {0} over one transaction")]
    Twice(Address),
    /// A signature is wrong.
    #[error("the signature that the file says is of {owner} is not used: {why}")]
    Signature {
        /// Account that the file names.
        owner: Address,
        /// Reason why it does not count.
        why: &'static str,
    },
}

/// Proposal with the signatures of owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExchangeFile {
    version: u32,
    chain_id: u64,
    /// Proposal of the transactions; without it nobody can sign them here, and signatures alone can be imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proposal: Option<StoredProposal>,
    transactions: Vec<ExchangeTx>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExchangeTx {
    safe: Address,
    to: Address,
    value: Number,
    data: Option<Bytes>,
    operation: Number,
    safe_tx_gas: Number,
    base_gas: Number,
    gas_price: Number,
    gas_token: Option<Address>,
    refund_receiver: Option<Address>,
    nonce: Number,
    safe_tx_hash: B256,
    #[serde(default)]
    confirmations: Vec<Confirmation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Confirmation {
    owner: Address,
    signature: Bytes,
}

/// Number as the service writes it: as a number, or as decimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Digits(String),
}

impl Number {
    fn of(value: U256) -> Self {
        Self::Digits(value.to_string())
    }

    fn read(&self) -> Result<U256, ExchangeError> {
        let wrong = ExchangeError::Malformed("a number is not written in decimal digits");
        match self {
            Self::Whole(value) => Ok(U256::from(*value)),
            Self::Digits(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                U256::from_str_radix(digits, 10).map_err(|_| wrong)
            }
            Self::Digits(_) => Err(wrong),
        }
    }
}

impl ExchangeTx {
    fn read(&self, chain_id: u64, index: usize) -> Result<SafeTx, ExchangeError> {
        if self.operation.read()? != U256::ZERO {
            return Err(ExchangeError::DelegateCall(index));
        }
        let amounts = [&self.safe_tx_gas, &self.base_gas, &self.gas_price];
        let parties = [self.gas_token, self.refund_receiver];
        let mut pays = parties.into_iter().flatten().any(|party| !party.is_zero());
        for amount in amounts {
            pays |= !amount.read()?.is_zero();
        }
        if pays {
            return Err(ExchangeError::Refund(index));
        }
        let (value, nonce, data) = (self.value.read()?, self.nonce.read()?, self.data.clone().unwrap_or_default());
        let transaction = SafeTx { chain_id, safe: self.safe, to: self.to, value, data, nonce };
        let (own, stated) = (transaction.hash(), self.safe_tx_hash);
        match own == stated {
            true => Ok(transaction),
            false => Err(ExchangeError::Hash { index, stated, own }),
        }
    }
}

impl ExchangeFile {
    /// Returns the file of a proposal with these signatures.
    pub fn of(record: &SafeProposalRecord, signatures: &SafeSignatures) -> Self {
        let transactions = record.transactions().into_iter().enumerate().map(|(index, transaction)| {
            let confirmations = signatures.each().filter_map(|(owner, signatures)| {
                Some(Confirmation { owner, signature: signatures.get(index)?.clone() })
            });
            ExchangeTx {
                safe: transaction.safe,
                to: transaction.to,
                value: Number::of(transaction.value),
                safe_tx_hash: transaction.hash(),
                data: Some(transaction.data),
                operation: Number::Whole(0),
                safe_tx_gas: Number::of(U256::ZERO),
                base_gas: Number::of(U256::ZERO),
                gas_price: Number::of(U256::ZERO),
                gas_token: Some(Address::ZERO),
                refund_receiver: Some(Address::ZERO),
                nonce: u64::try_from(transaction.nonce).map_or(Number::of(transaction.nonce), Number::Whole),
                confirmations: confirmations.collect(),
            }
        });
        let (chain_id, proposal) = (record.proposal.chain_id, Some(record.proposal.clone()));
        Self { version: VERSION, chain_id, proposal, transactions: transactions.collect() }
    }

    /// Parses a file and checks that its transactions are plain calls of one Safe, in order, with their own hashes.
    ///
    /// # Errors
    /// The first [`ExchangeError`] that applies.
    pub fn parse(text: &str) -> Result<(Self, Vec<SafeTx>), ExchangeError> {
        if text.len() as u64 > MAX_FILE {
            return Err(ExchangeError::Malformed("it is too large"));
        }
        let file: Self = serde_json::from_str(text).map_err(|_| ExchangeError::Malformed("it has another form"))?;
        if file.version != VERSION {
            return Err(ExchangeError::Malformed("it has a version that this program does not know"));
        }
        if file.transactions.is_empty() || file.transactions.len() > MAX_LEGS {
            return Err(ExchangeError::Malformed("it has no transactions, or too many"));
        }
        let read = |(index, one): (usize, &ExchangeTx)| one.read(file.chain_id, index);
        let transactions: Vec<SafeTx> = file.transactions.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        for (one, next) in transactions.iter().zip(transactions.iter().skip(1)) {
            if one.safe != next.safe || one.nonce.checked_add(U256::ONE) != Some(next.nonce) {
                return Err(ExchangeError::Malformed("its transactions are not the following ones of one Safe"));
            }
        }
        Ok((file, transactions))
    }

    /// Returns what the transactions are for.
    ///
    /// # Errors
    /// [`ExchangeError::OtherTransactions`] if the file does not say it, or says it of other calls.
    pub fn proposal(&self, transactions: &[SafeTx]) -> Result<&StoredProposal, ExchangeError> {
        let proposal = self.proposal.as_ref().ok_or(ExchangeError::OtherTransactions)?;
        let calls: Vec<_> = proposal.calls().collect();
        let is_same = |(one, call): (&SafeTx, &(Address, U256, &Bytes))| {
            (one.chain_id, one.safe) == (proposal.chain_id, proposal.account) && (one.to, one.value, &one.data) == *call
        };
        match calls.len() == transactions.len() && transactions.iter().zip(&calls).all(is_same) {
            true => Ok(proposal),
            false => Err(ExchangeError::OtherTransactions),
        }
    }

    /// Returns the signatures in the file that verify as ones of `owners` over these transactions.
    ///
    /// # Errors
    /// [`ExchangeError`] if any of them does not verify, or is of another account than the file says.
    pub fn signatures(&self, transactions: &[SafeTx], owners: &[Address]) -> Result<SafeSignatures, ExchangeError> {
        let mut by: BTreeMap<Address, Vec<Bytes>> = BTreeMap::new();
        for one in &self.transactions {
            let mut seen = BTreeSet::new();
            for Confirmation { owner, signature } in &one.confirmations {
                if !seen.insert(*owner) {
                    return Err(ExchangeError::Twice(*owner));
                }
                by.entry(*owner).or_default().push(signature.clone());
            }
        }
        let hashes: Vec<B256> = transactions.iter().map(SafeTx::hash).collect();
        let mut verified = SafeSignatures::default();
        for (owner, signatures) in by {
            let refused = |why| ExchangeError::Signature { owner, why };
            let found = verified.add(&hashes, owners, &signatures).map_err(refused)?;
            if found != owner {
                return Err(refused("it is of another account"));
            }
        }
        Ok(verified)
    }
}
