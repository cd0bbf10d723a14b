//! Cosignatures: the cosigner's digest, and the verification of its signature.
//!
//! Not here: creating that signature.

use alloy::primitives::{Address, B256, Bytes, Signature, U256, keccak256};
use alloy::sol_types::SolValue;

use super::{ReactorRevert, UniswapXOrder};
use bardo_base::signer::signer_of;

impl UniswapXOrder {
    /// Returns the cosigner; `None` for a V1 Dutch order, and for a Priority order without one.
    pub fn cosigner(&self) -> Option<Address> {
        match self {
            Self::Dutch(_) => None,
            Self::DutchV2(order) => Some(order.cosigner),
            Self::DutchV3(order) => Some(order.cosigner),
            Self::Priority(order) => (order.cosigner != Address::ZERO).then_some(order.cosigner),
        }
    }

    /// Returns the digest that the cosigner signs without any prefix: the hash of the order hash and the cosigner's
    /// data. V3 Dutch and Priority insert the chain id between them. `None` for a V1 Dutch order.
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

    /// Returns the cosignature; empty if the cosigner has not signed yet, `None` for a V1 Dutch order.
    pub fn cosignature(&self) -> Option<&Bytes> {
        match self {
            Self::Dutch(_) => None,
            Self::DutchV2(order) => Some(&order.cosignature),
            Self::DutchV3(order) => Some(&order.cosignature),
            Self::Priority(order) => Some(&order.cosignature),
        }
    }

    /// Sets the cosignature. A V1 Dutch order has none and stays unchanged.
    pub fn with_cosignature(mut self, cosignature: Bytes) -> Self {
        match &mut self {
            Self::Dutch(_) => {}
            Self::DutchV2(order) => order.cosignature = cosignature,
            Self::DutchV3(order) => order.cosignature = cosignature,
            Self::Priority(order) => order.cosignature = cosignature,
        }
        self
    }

    /// Checks that the cosigner signed this data, as the reactor does: r, s, then v of 27 or 28.
    ///
    /// # Errors
    /// [`ReactorRevert::InvalidCosignature`] otherwise.
    pub(super) fn check_cosignature(&self, chain_id: u64) -> Result<(), ReactorRevert> {
        let (Some(digest), Some(signature)) = (self.cosigner_digest(chain_id), self.cosignature()) else {
            return Ok(());
        };
        let signer = recover(digest, signature).ok_or(ReactorRevert::InvalidCosignature)?;
        let named = match self {
            Self::Dutch(_) => return Ok(()),
            Self::DutchV2(order) => order.cosigner,
            Self::DutchV3(order) => order.cosigner,
            Self::Priority(order) => order.cosigner,
        };
        if signer == named { Ok(()) } else { Err(ReactorRevert::InvalidCosignature) }
    }
}

/// Recovers the signer of `digest`; `None` if the bytes are not a signature.
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
