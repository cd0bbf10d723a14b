//! Signing with a key. Every user signature is made in this file, in four forms: typed messages (signatures inside a
//! transaction's calldata, and orders that others settle), transactions, transactions of a Safe, and second approvals. The
//! first three come from a capability; a second approval is a statement about another account's action and moves nothing by itself.

use alloy::consensus::{SignableTransaction as _, TxEip1559};
use alloy::primitives::{Address, B256, B512, Bytes, TxKind};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use zeroize::{Zeroize as _, Zeroizing};

use super::secret::SecretKey;
use crate::pipeline::{OrderToSign, SafeToSign, ToSign};
use crate::proposal::SIGNATURE_BYTES;
use crate::queue_key::QueueKey;
use crate::second_approval::{SecondError, SecondSignature, SecondStatement};
use crate::{PayloadSlot, SignError, SigningPayload};
use bardo_base::signer::signer_of;
use golem_chain::signed::SignedTransaction;

/// Key that can sign.
pub(super) struct SigningKey {
    signer: PrivateKeySigner,
}

impl SigningKey {
    /// Creates a key from a secret; `None` for an invalid one.
    pub(super) fn new(secret: &SecretKey) -> Option<Self> {
        secret.signer().map(|signer| Self { signer })
    }

    /// Address of the key.
    pub(super) fn address(&self) -> Address {
        self.signer.address()
    }

    /// Public key: the uncompressed point without its prefix.
    pub(super) fn public_key(&self) -> B512 {
        self.signer.public_key()
    }

    /// Derives the key that authenticates rows of `account` in a ledger. The derivation is one-way and does not reveal
    /// this key.
    pub(super) fn queue_key(&self, ledger: &str, account: Address) -> QueueKey {
        let mut copy = self.signer.to_bytes();
        let secret = Zeroizing::new(copy.0);
        copy.0.zeroize();
        QueueKey::derive(&secret, ledger, account)
    }

    /// Signs the content of a capability: each message at its offset in the calldata, then the transaction that
    /// contains it.
    ///
    /// # Errors
    /// [`SignError::Refused`] if the content is not for this key and the checked chain. No signature is returned then.
    pub(super) fn sign(&self, to_sign: &ToSign) -> Result<SignedTransaction, SignError> {
        check(to_sign, self.address())?;
        let mut data = to_sign.transaction.data.to_vec();
        for slot in &to_sign.transaction.slots {
            let place = place(&mut data, slot, self.address())?;
            place.copy_from_slice(&self.hash(slot.message.digest(to_sign.chain_id))?);
        }
        let transaction = unsigned(to_sign, data);
        let signature = self.signer.sign_hash_sync(&transaction.signature_hash()).map_err(failed)?;
        let signed = SignedTransaction::new(transaction.into_signed(signature).into())
            .map_err(|error| SignError::Refused(error.to_string()))?;
        if signed.from() != self.address() {
            return Err(SignError::Refused("the signature does not recover to the account".into()));
        }
        Ok(signed)
    }

    /// Signs a second operator's approval of another account's decision.
    ///
    /// # Errors
    /// [`SecondError::OwnKey`] if this key is the acting account's.
    pub(super) fn approve_second(&self, statement: &SecondStatement) -> Result<SecondSignature, SecondError> {
        match statement {
            SecondStatement::Action { account, .. } if *account == self.address() => {
                return Err(SecondError::OwnKey(self.address()));
            }
            SecondStatement::Action { .. } | SecondStatement::Policy { .. } => {}
        }
        let signature = self.signer.sign_hash_sync(&statement.digest()).map_err(|_| SecondError::NoSigner)?;
        SecondSignature::new(signature)
    }

    /// Signs the order of a capability.
    ///
    /// # Errors
    /// [`SignError::Refused`] if the order is not for this key and the checked chain.
    pub(super) fn sign_order(&self, to_sign: &OrderToSign) -> Result<Bytes, SignError> {
        check_order(to_sign, self.address())?;
        Ok(Bytes::from(self.hash(to_sign.message.digest(to_sign.chain_id))?))
    }

    /// Signs the Safe's transaction of a capability. Whether this key is an owner's, the Safe's account checks.
    ///
    /// # Errors
    /// [`SignError::Refused`] if the transaction is not for the checked chain, or the key not the payload's.
    pub(super) fn sign_safe(&self, to_sign: &SafeToSign) -> Result<Bytes, SignError> {
        belongs(to_sign.payload.signer(), self.address())?;
        on_checked_chain(to_sign.transaction.chain_id, &to_sign.payload)?;
        Ok(Bytes::from(self.hash(to_sign.transaction.hash())?))
    }

    /// Returns `r ‖ s ‖ v` with v 27 or 28, after checking that it recovers to the key's address.
    fn hash(&self, digest: B256) -> Result<[u8; SIGNATURE_BYTES], SignError> {
        let signature = self.signer.sign_hash_sync(&digest).map_err(failed)?;
        if signer_of(&signature, &digest) == Some(self.address()) {
            Ok(signature.as_bytes())
        } else {
            Err(SignError::Refused("a message's signature does not recover to the account".into()))
        }
    }
}

/// Checks that a transaction is for the account `own` and for the checked chain.
///
/// # Errors
/// [`SignError::Refused`].
pub(super) fn check(to_sign: &ToSign, own: Address) -> Result<(), SignError> {
    belongs(to_sign.transaction.from, own)?;
    on_checked_chain(to_sign.chain_id, &to_sign.payload)
}

/// Checks that an order is for the account `own` and for the checked chain.
///
/// # Errors
/// [`SignError::Refused`].
pub(super) fn check_order(to_sign: &OrderToSign, own: Address) -> Result<(), SignError> {
    belongs(to_sign.signer, own)?;
    on_checked_chain(to_sign.chain_id, &to_sign.payload)
}

fn belongs(signer: Address, own: Address) -> Result<(), SignError> {
    match signer == own {
        true => Ok(()),
        false => Err(SignError::Refused(format!("{signer} must sign, but this key belongs to {own}"))),
    }
}

fn on_checked_chain(chain_id: u64, payload: &SigningPayload) -> Result<(), SignError> {
    match chain_id != 0 && chain_id == payload.proposal().chain_id {
        true => Ok(()),
        false => Err(SignError::Refused("the chain differs from the checked one".into())),
    }
}

/// Returns the place of a signature in the calldata.
///
/// # Errors
/// [`SignError::Refused`] if another account must sign it, or if it lies outside the calldata.
pub(super) fn place<'a>(data: &'a mut [u8], slot: &PayloadSlot, own: Address) -> Result<&'a mut [u8], SignError> {
    if slot.signer != own {
        return Err(SignError::Refused(format!("a {} must be signed by {}", slot.message.kind(), slot.signer)));
    }
    slot.offset
        .checked_add(SIGNATURE_BYTES)
        .and_then(|end| data.get_mut(slot.offset..end))
        .ok_or_else(|| SignError::Refused("a signature slot lies outside the calldata".into()))
}

/// The transaction of a capability with its final calldata, not signed yet.
pub(super) fn unsigned(to_sign: &ToSign, data: Vec<u8>) -> TxEip1559 {
    let leg = &to_sign.transaction;
    TxEip1559 {
        chain_id: to_sign.chain_id,
        nonce: to_sign.nonce,
        gas_limit: leg.gas_limit,
        max_fee_per_gas: to_sign.fees.max_fee_per_gas,
        max_priority_fee_per_gas: to_sign.fees.max_priority_fee_per_gas,
        to: TxKind::Call(leg.to),
        value: leg.value,
        access_list: Default::default(),
        input: Bytes::from(data),
    }
}

fn failed(error: alloy_signer::Error) -> SignError {
    SignError::Refused(format!("the signature could not be made: {error}"))
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.address())
    }
}
