//! Transactions of a Safe as its owners sign them, and the owners' signatures. Both are recomputed and verified here,
//! whatever a file or another program says of them.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, Signature, U256, eip191_hash_message};
use alloy::sol_types::{Eip712Domain, SolStruct as _};

use crate::proposal::SIGNATURE_BYTES;
use crate::signing_payload::SigningPayload;
use bardo_abi::safe::typed;
use bardo_base::signer::signer_of;

/// Transaction of a Safe: a plain call without a refund to anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeTx {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Address of the Safe.
    pub safe: Address,
    /// Contract or account that is called.
    pub to: Address,
    /// Value sent along, in wei.
    pub value: U256,
    /// Calldata of the call.
    pub data: Bytes,
    /// Number of the transaction.
    pub nonce: U256,
}

impl SafeTx {
    /// Returns the transaction that carries the proposed call number `leg` of a payload; `None` if the payload is not one of
    /// a Safe that needs several owners.
    pub fn of_leg(payload: &SigningPayload, leg: usize) -> Option<Self> {
        let (plan, proposal) = (payload.safe()?, payload.proposal());
        let call = proposal.legs.get(leg)?;
        let nonce = plan.nonce.checked_add(U256::from(leg))?;
        let (to, value, data) = (call.to, call.value, call.data.clone());
        Some(Self { chain_id: proposal.chain_id, safe: proposal.account, to, value, data, nonce })
    }

    /// Returns all transactions of a payload, in order; empty as for [`Self::of_leg`].
    pub fn of_payload(payload: &SigningPayload) -> Vec<Self> {
        (0..payload.legs().len()).filter_map(|leg| Self::of_leg(payload, leg)).collect()
    }

    /// Returns the hash that owners sign ([EIP-712](https://eips.ethereum.org/EIPS/eip-712); `Safe.sol`,
    /// `getTransactionHash`).
    pub fn hash(&self) -> B256 {
        let message = typed::SafeTx {
            to: self.to,
            value: self.value,
            data: self.data.clone(),
            operation: super::CALL,
            safeTxGas: U256::ZERO,
            baseGas: U256::ZERO,
            gasPrice: U256::ZERO,
            gasToken: Address::ZERO,
            refundReceiver: Address::ZERO,
            nonce: self.nonce,
        };
        let domain = Eip712Domain {
            chain_id: Some(U256::from(self.chain_id)),
            verifying_contract: Some(self.safe),
            ..Eip712Domain::default()
        };
        message.eip712_signing_hash(&domain)
    }
}

/// Agreement of an owner with a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Signature by this account.
    Signed(Address),
    /// This account says that it has agreed by `approveHash`, which only the chain can confirm.
    Approved(Address),
}

impl Agreement {
    /// Returns the account that agrees.
    pub const fn owner(self) -> Address {
        match self {
            Self::Signed(owner) | Self::Approved(owner) => owner,
        }
    }

    /// Reads one signature over the transaction with this hash, in the forms of `Safe.sol` (`checkNSignatures`): of the hash
    /// itself, of the hash as a message (v above 30), or a reference to `approveHash` (v = 1). `None` for anything else: a
    /// contract's signature (v = 0) is not accepted.
    pub fn read(signature: &[u8], hash: B256) -> Option<Self> {
        let bytes: &[u8; SIGNATURE_BYTES] = signature.try_into().ok()?;
        let (words, v) = (bytes.get(..64)?, *bytes.last()?);
        if v == 1 {
            let (owner, rest) = words.split_at_checked(32)?;
            let is_plain = owner.starts_with(&[0; 12]) && rest.iter().all(|byte| *byte == 0);
            return is_plain.then(|| Self::Approved(Address::from_word(B256::from_slice(owner))));
        }
        let (parity, digest) = match v {
            27 | 28 => (v == 28, hash),
            31 | 32 => (v == 32, eip191_hash_message(hash)),
            _ => return None,
        };
        let signature = Signature::from_bytes_and_parity(words, parity);
        // The contract takes the other form of the same signature too, but no wallet makes it.
        if signature.normalize_s().is_some() {
            return None;
        }
        signer_of(&signature, &digest).map(Self::Signed)
    }
}

/// Signatures of owners over the transactions of a proposal: for each owner one for each transaction, in order. The map is
/// sorted by address, as the contract requires it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafeSignatures(BTreeMap<Address, Vec<Bytes>>);

impl SafeSignatures {
    /// Adds the signatures of one owner over all transactions with these hashes.
    ///
    /// # Errors
    /// The reason, if one is not a signature of the same account over its transaction, or not by an owner.
    pub fn add(&mut self, hashes: &[B256], owners: &[Address], signatures: &[Bytes]) -> Result<Address, &'static str> {
        if hashes.is_empty() || hashes.len() != signatures.len() {
            return Err("an owner signs each transaction of the proposal once");
        }
        let mut by = None;
        for (hash, signature) in hashes.iter().zip(signatures) {
            let found = Agreement::read(signature, *hash).ok_or("it does not sign the transaction")?.owner();
            if by.is_some_and(|by| by != found) {
                return Err("its signatures are of different accounts");
            }
            by = Some(found);
        }
        let by = by.filter(|by| owners.contains(by)).ok_or("it is not signed by an owner of the Safe")?;
        self.0.insert(by, signatures.to_vec());
        Ok(by)
    }

    /// Returns the owners that have signed.
    pub fn owners(&self) -> impl Iterator<Item = Address> + '_ {
        self.0.keys().copied()
    }

    /// Returns true if the owner has signed.
    pub fn has(&self, owner: Address) -> bool {
        self.0.contains_key(&owner)
    }

    /// Returns each owner with the signatures of the transactions, in order.
    pub fn each(&self) -> impl Iterator<Item = (Address, &[Bytes])> {
        self.0.iter().map(|(owner, signatures)| (*owner, signatures.as_slice()))
    }

    /// Returns the signatures of transaction number `leg` as `execTransaction` takes them, where `sender` sends it and thereby
    /// agrees: exactly `threshold` of them, in ascending order of the owners. `None` if there are too few.
    pub fn joined(&self, leg: usize, sender: Address, threshold: usize) -> Option<Bytes> {
        let others = self.0.iter().filter(|(owner, _)| **owner != sender);
        let mut chosen: BTreeMap<Address, Vec<u8>> = others
            .take(threshold.checked_sub(1)?)
            .map(|(owner, signatures)| Some((*owner, signatures.get(leg)?.to_vec())))
            .collect::<Option<_>>()?;
        chosen.insert(sender, super::agreement(sender));
        (chosen.len() == threshold).then(|| chosen.into_values().flatten().collect::<Vec<u8>>().into())
    }
}

/// Checks that `joined` are the signatures of exactly `threshold` different owners over the transaction with this hash, in
/// ascending order, where `sender` agrees by sending it. Returns the owners that have agreed by `approveHash`.
///
/// # Errors
/// The reason, if they are not.
pub(super) fn check_joined(
    joined: &[u8],
    hash: B256,
    (owners, threshold): (&[Address], U256),
    sender: Address,
) -> Result<Vec<Address>, &'static str> {
    let (each, rest) = joined.as_chunks::<SIGNATURE_BYTES>();
    if !rest.is_empty() || U256::from(each.len()) != threshold {
        return Err("it does not have as many signatures as the Safe needs");
    }
    let (mut last, mut sends, mut approved) = (Address::ZERO, false, Vec::new());
    for signature in each {
        let agreement = Agreement::read(signature, hash).ok_or("a signature is not one of the transaction")?;
        let owner = agreement.owner();
        if owner <= last {
            return Err("its signatures are not in ascending order of the owners");
        }
        if !owners.contains(&owner) {
            return Err("a signature is not by an owner of the Safe");
        }
        match agreement {
            Agreement::Approved(owner) if owner == sender => sends = true,
            Agreement::Approved(owner) => approved.push(owner),
            Agreement::Signed(_) => {}
        }
        last = owner;
    }
    match sends {
        true => Ok(approved),
        false => Err("the sender does not agree to it"),
    }
}
