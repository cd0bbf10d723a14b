//! Signed transactions: the bytes that are stored and sent, and the fields decoded from them.
//!
//! A caller that gets one from a signer compares the decoded fields with the request. Not here: signing (see `custody`)
//! and sending (see `chain::sender`).

use alloy::{
    consensus::{Transaction as _, TxEnvelope},
    eips::eip2718::{Decodable2718 as _, Encodable2718 as _},
    primitives::{Address, B256, Bytes},
};

use bardo_base::signer::signer_of;

/// A signed transaction with its sender and its encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTransaction {
    transaction: TxEnvelope,
    from: Address,
    raw: Bytes,
}

/// Error for bytes that are not a signed transaction of one chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    /// The bytes do not encode exactly one transaction.
    #[error("these bytes are not one signed transaction")]
    Malformed,
    /// The signature recovers to no account.
    #[error("the transaction's signature belongs to no account")]
    Signature,
    /// The transaction has no chain id, so it is valid on every chain.
    #[error("the transaction names no chain and could be replayed on any: sign one that carries a chain id (EIP-155)")]
    NoChain,
}

/// Recovers the sender of a transaction. `None` for an invalid signature, and for one with `s` in the upper half of its
/// range ([EIP-2](https://eips.ethereum.org/EIPS/eip-2)).
pub fn sender_of(transaction: &TxEnvelope) -> Option<Address> {
    let signature = transaction.signature();
    if signature.normalize_s().is_some() {
        return None;
    }
    signer_of(signature, &transaction.signature_hash())
}

impl SignedTransaction {
    /// Wraps a signed transaction and recovers its sender.
    ///
    /// # Errors
    /// [`SignedError`] if the signature recovers to no account or the transaction has no chain id.
    pub fn new(transaction: TxEnvelope) -> Result<Self, SignedError> {
        let from = sender_of(&transaction).ok_or(SignedError::Signature)?;
        if transaction.chain_id().is_none() {
            return Err(SignedError::NoChain);
        }
        let raw = Bytes::from(transaction.encoded_2718());
        Ok(Self { transaction, from, raw })
    }

    /// Decodes a signed transaction from its EIP-2718 encoding.
    ///
    /// # Errors
    /// [`SignedError`]; trailing bytes count as malformed.
    pub fn decode(raw: &[u8]) -> Result<Self, SignedError> {
        let mut rest = raw;
        let transaction = TxEnvelope::decode_2718(&mut rest).map_err(|_| SignedError::Malformed)?;
        if !rest.is_empty() {
            return Err(SignedError::Malformed);
        }
        Self::new(transaction)
    }

    /// The decoded transaction with its signature.
    pub fn transaction(&self) -> &TxEnvelope {
        &self.transaction
    }

    /// The sender, recovered from the signature.
    pub fn from(&self) -> Address {
        self.from
    }

    /// EIP-155 id of the chain on which the transaction is valid.
    pub fn chain_id(&self) -> u64 {
        // `new` ensures that there is a chain id; the default 0 would match no chain.
        self.transaction.chain_id().unwrap_or_default()
    }

    /// Account nonce of the sender in this transaction.
    pub fn nonce(&self) -> u64 {
        self.transaction.nonce()
    }

    /// The transaction hash.
    pub fn hash(&self) -> B256 {
        *self.transaction.tx_hash()
    }

    /// The encoding that is sent ([EIP-2718](https://eips.ethereum.org/EIPS/eip-2718)).
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }
}

#[cfg(test)]
mod tests {
    use alloy::consensus::transaction::SignerRecoverable as _;
    use alloy::consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
    use alloy::primitives::{Signature, TxKind, U256, uint};
    use alloy_signer::SignerSync as _;
    use alloy_signer_local::PrivateKeySigner;

    use super::*;

    /// Order of the secp256k1 group, from [SEC 2](https://www.secg.org/sec2-v2.pdf).
    const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

    /// Signs a transaction and returns it twice: once as signed, once with the mirrored `s`, which recovers to the same
    /// key.
    fn both<T>(signer: &PrivateKeySigner, transaction: T) -> [TxEnvelope; 2]
    where
        T: SignableTransaction<Signature> + Clone,
        TxEnvelope: From<alloy::consensus::Signed<T>>,
    {
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).unwrap();
        let mirrored = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
        [signature, mirrored].map(|signature| transaction.clone().into_signed(signature).into())
    }

    #[test]
    fn the_signer_is_recovered_and_a_high_s_is_rejected() {
        let signer = PrivateKeySigner::random();
        let (to, chain_id) = (Address::repeat_byte(9), 31_337);
        let every = [
            both(&signer, TxLegacy { chain_id: Some(chain_id), to: TxKind::Call(to), ..Default::default() }),
            both(&signer, TxEip2930 { chain_id, to: TxKind::Call(to), ..Default::default() }),
            both(&signer, TxEip1559 { chain_id, to: TxKind::Call(to), ..Default::default() }),
            both(&signer, TxEip7702 { chain_id, to, ..Default::default() }),
        ];
        for [good, mirrored] in every {
            // alloy's own recovery agrees in both cases.
            assert_eq!(good.recover_signer().ok(), Some(signer.address()));
            assert!(mirrored.recover_signer().is_err());
            let read = SignedTransaction::decode(&good.encoded_2718()).unwrap();
            assert_eq!((read.from(), read.hash()), (signer.address(), *good.tx_hash()));
            assert_eq!(SignedTransaction::decode(&mirrored.encoded_2718()), Err(SignedError::Signature));
        }
    }
}
