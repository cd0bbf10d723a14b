//! What a cosigner adds to an order, what it signs, and whether a signature is its.
//!
//! Not here: making that signature.

use alloy::primitives::{Address, B256, Bytes, Signature, U256, keccak256};
use alloy::sol_types::SolValue;

use super::{Order, Revert};
use bardo_base::signer::signer_of;

impl Order {
    /// Who must cosign; nobody for the first Dutch order and for a Priority order that names none.
    pub fn cosigner(&self) -> Option<Address> {
        match self {
            Self::Dutch(_) => None,
            Self::DutchV2(order) => Some(order.cosigner),
            Self::DutchV3(order) => Some(order.cosigner),
            Self::Priority(order) => (order.cosigner != Address::ZERO).then_some(order.cosigner),
        }
    }

    /// What the cosigner signs as it stands, without any prefix: the hash of the order's hash and its additions. V3
    /// Dutch and Priority put the chain's id between. Nothing for the first Dutch order.
    pub fn cosigner_digest(&self, chain_id: u64) -> Option<B256> {
        let chain = U256::from(chain_id).to_be_bytes::<32>();
        let (chain, additions) = match self {
            Self::Dutch(_) => return None,
            Self::DutchV2(order) => (&[][..], order.cosignerData.abi_encode()),
            Self::DutchV3(order) => (&chain[..], order.cosignerData.abi_encode()),
            Self::Priority(order) => (&chain[..], order.cosignerData.abi_encode()),
        };
        Some(keccak256([self.hash().as_slice(), chain, &additions].concat()))
    }

    /// The cosigner's signature; empty where it has not signed yet.
    pub fn cosignature(&self) -> Option<&Bytes> {
        match self {
            Self::Dutch(_) => None,
            Self::DutchV2(order) => Some(&order.cosignature),
            Self::DutchV3(order) => Some(&order.cosignature),
            Self::Priority(order) => Some(&order.cosignature),
        }
    }

    /// The order with the cosigner's signature in it; the first Dutch order has no place for one and stays as it is.
    pub fn with_cosignature(mut self, cosignature: Bytes) -> Self {
        match &mut self {
            Self::Dutch(_) => {}
            Self::DutchV2(order) => order.cosignature = cosignature,
            Self::DutchV3(order) => order.cosignature = cosignature,
            Self::Priority(order) => order.cosignature = cosignature,
        }
        self
    }

    /// Whether the cosigner signed exactly these additions, read as the reactor reads it: r, s, then v of 27 or 28.
    pub(super) fn check_cosignature(&self, chain_id: u64) -> Result<(), Revert> {
        let (Some(digest), Some(signature)) = (self.cosigner_digest(chain_id), self.cosignature()) else {
            return Ok(());
        };
        let signer = recover(digest, signature).ok_or(Revert::InvalidCosignature)?;
        let named = match self {
            Self::Dutch(_) => return Ok(()),
            Self::DutchV2(order) => order.cosigner,
            Self::DutchV3(order) => order.cosigner,
            Self::Priority(order) => order.cosigner,
        };
        if signer == named { Ok(()) } else { Err(Revert::InvalidCosignature) }
    }
}

/// Who signed `digest`; nobody where the bytes are no signature.
fn recover(digest: B256, signature: &[u8]) -> Option<Address> {
    let (r, rest) = signature.split_first_chunk::<32>()?;
    let (s, rest) = rest.split_first_chunk::<32>()?;
    let odd = match rest.first()? {
        27 => false,
        28 => true,
        _ => return None,
    };
    let signature = Signature::new(U256::from_be_bytes(*r), U256::from_be_bytes(*s), odd);
    signer_of(&signature, &digest)
}
