//! A signed transaction: the bytes that may be stored and sent, and what they say when read back.
//!
//! Reading back is the point: whoever gets one from a signer compares it with what was to be
//! signed. Not here: signing (see `custody`), and sending (see `chain::sender`).

use alloy::{
    consensus::{Transaction as _, TxEnvelope},
    eips::eip2718::{Decodable2718 as _, Encodable2718 as _},
    primitives::{Address, B256, Bytes},
};

use bardo_base::signer::signer_of;

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

#[cfg(test)]
mod tests {
    use alloy::consensus::transaction::SignerRecoverable as _;
    use alloy::consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
    use alloy::primitives::{Signature, TxKind, U256, uint};
    use alloy_signer::SignerSync as _;
    use alloy_signer_local::PrivateKeySigner;

    use super::*;

    /// The group's order, as [SEC 2](https://www.secg.org/sec2-v2.pdf) gives it.
    const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

    /// A transaction signed, and the same with the signature's mirror image, which recovers to the same key.
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
    fn a_transaction_is_its_signers_and_with_the_upper_half_of_s_nobodys() {
        let signer = PrivateKeySigner::random();
        let (to, chain_id) = (Address::repeat_byte(9), 31_337);
        let every = [
            both(&signer, TxLegacy { chain_id: Some(chain_id), to: TxKind::Call(to), ..Default::default() }),
            both(&signer, TxEip2930 { chain_id, to: TxKind::Call(to), ..Default::default() }),
            both(&signer, TxEip1559 { chain_id, to: TxKind::Call(to), ..Default::default() }),
            both(&signer, TxEip7702 { chain_id, to, ..Default::default() }),
        ];
        for [good, mirrored] in every {
            // The library that signs says the same of both.
            assert_eq!(good.recover_signer().ok(), Some(signer.address()));
            assert!(mirrored.recover_signer().is_err());
            let read = Signed::decode(&good.encoded_2718()).unwrap();
            assert_eq!((read.from(), read.hash()), (signer.address(), *good.tx_hash()));
            assert_eq!(Signed::decode(&mirrored.encoded_2718()), Err(SignedError::Signature));
        }
    }
}
