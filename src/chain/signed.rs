//! A signed transaction: the bytes that may be stored and sent, and what they say when read back.
//!
//! Reading back is the point: whoever gets one from a signer compares it with what was to be
//! signed. Not here: signing (see `custody`), and sending (see `chain::sender`).

use alloy::{
    consensus::{Transaction as _, TxEnvelope},
    eips::eip2718::{Decodable2718 as _, Encodable2718 as _},
    primitives::{Address, B256, Bytes},
};

use crate::base::signer::signer_of;

/// A transaction with its signature, decoded and encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    transaction: TxEnvelope,
    from: Address,
    raw: Bytes,
}

/// Why bytes are no signed transaction of one chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    /// Not the encoding of a transaction, or more than one.
    #[error("these bytes are not one signed transaction")]
    Malformed,
    /// The signature recovers to no account.
    #[error("the transaction's signature belongs to no account")]
    Signature,
    /// Valid on every chain, so on chains it was not meant for.
    #[error("the transaction names no chain and could be replayed on any: sign one that carries a chain id (EIP-155)")]
    NoChain,
}

/// Who signed a transaction. The upper half of `s` is nobody's signature
/// ([EIP-2](https://eips.ethereum.org/EIPS/eip-2)).
pub fn sender_of(transaction: &TxEnvelope) -> Option<Address> {
    let signature = transaction.signature();
    if signature.normalize_s().is_some() {
        return None;
    }
    signer_of(signature, &transaction.signature_hash())
}

impl Signed {
    /// Takes a signed transaction, and recovers who signed it.
    ///
    /// # Errors
    /// [`SignedError`]: a signature of nobody, or no chain id.
    pub fn new(transaction: TxEnvelope) -> Result<Self, SignedError> {
        let from = sender_of(&transaction).ok_or(SignedError::Signature)?;
        if transaction.chain_id().is_none() {
            return Err(SignedError::NoChain);
        }
        let raw = Bytes::from(transaction.encoded_2718());
        Ok(Self { transaction, from, raw })
    }

    /// Reads the bytes of one.
    ///
    /// # Errors
    /// [`SignedError`]: bytes left over count as malformed.
    pub fn decode(raw: &[u8]) -> Result<Self, SignedError> {
        let mut rest = raw;
        let transaction = TxEnvelope::decode_2718(&mut rest).map_err(|_| SignedError::Malformed)?;
        if !rest.is_empty() {
            return Err(SignedError::Malformed);
        }
        Self::new(transaction)
    }

    /// The transaction.
    pub fn transaction(&self) -> &TxEnvelope {
        &self.transaction
    }

    /// Who signed it, recovered from the signature.
    pub fn from(&self) -> Address {
        self.from
    }

    /// The chain it is valid on.
    pub fn chain_id(&self) -> u64 {
        // Held by `new`; a chain id of zero exists nowhere and fits no chain it could be compared with.
        self.transaction.chain_id().unwrap_or_default()
    }

    /// Its place among the signer's transactions.
    pub fn nonce(&self) -> u64 {
        self.transaction.nonce()
    }

    /// The hash it is found by.
    pub fn hash(&self) -> B256 {
        *self.transaction.tx_hash()
    }

    /// What is sent ([EIP-2718](https://eips.ethereum.org/EIPS/eip-2718)).
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }
}
