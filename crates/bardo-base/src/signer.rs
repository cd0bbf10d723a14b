//! Recovery of the account that made an ECDSA signature over secp256k1.
//!
//! Uses Bitcoin Core's library, which is several times as fast as the pure-Rust one that signs; a test compares the
//! two. The speed matters, because every signature is checked before it is sent and again on receipt.

use alloy_primitives::{Address, B256, Signature};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

/// Returns the account that signed `digest`; `None` if no key makes such a signature. Both low and high values of `s`
/// recover; callers that must reject the high ones check this themselves.
pub fn signer_of(signature: &Signature, digest: &B256) -> Option<Address> {
    let signature = signature.normalized_s();
    let mut bytes = [0; 64];
    let (r, s) = bytes.split_at_mut(32);
    r.copy_from_slice(&signature.r().to_be_bytes::<32>());
    s.copy_from_slice(&signature.s().to_be_bytes::<32>());
    let odd = if signature.v() { RecoveryId::One } else { RecoveryId::Zero };
    let signature = RecoverableSignature::from_compact(&bytes, odd).ok()?;
    let key = SECP256K1.recover_ecdsa(Message::from_digest(digest.0), &signature).ok()?;
    // The first byte only marks the key as uncompressed.
    let [_, point @ ..] = key.serialize_uncompressed();
    Some(Address::from_raw_public_key(&point))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, uint};
    use alloy_signer::SignerSync as _;
    use alloy_signer_local::PrivateKeySigner;
    use proptest::prelude::*;

    use super::*;

    /// Order of the group, from [SEC 2](https://www.secg.org/sec2-v2.pdf).
    const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

    /// Recovery by the pure-Rust library.
    fn pure(signature: &Signature, digest: &B256) -> Option<Address> {
        signature.recover_address_from_prehash(digest).ok()
    }

    #[test]
    fn a_known_signature_recovers_to_its_account() {
        // First account of the development mnemonic, by its well-known key.
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        let signer: PrivateKeySigner = key.parse().unwrap();
        let digest = B256::repeat_byte(7);
        let signature = signer.sign_hash_sync(&digest).unwrap();
        let expected: Address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
        assert_eq!(signer_of(&signature, &digest), Some(expected));
        assert_ne!(signer_of(&signature, &B256::repeat_byte(8)), Some(expected));
        // Mirrored signature: the other parity with the other half of `s`.
        let mirrored = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
        assert_eq!(signer_of(&mirrored, &digest), Some(expected));
    }

    #[test]
    fn a_signature_that_no_key_makes_recovers_no_account() {
        let digest = B256::repeat_byte(7);
        for (r, s) in [(0, 1), (1, 0), (0, 0)] {
            assert_eq!(signer_of(&Signature::new(U256::from(r), U256::from(s), false), &digest), None, "{r} {s}");
        }
        for (r, s) in [(ORDER, U256::ONE), (U256::ONE, ORDER), (U256::MAX, U256::MAX)] {
            assert_eq!(signer_of(&Signature::new(r, s, true), &digest), None, "{r} {s}");
        }
        // No point of the curve has the x-coordinate 5.
        assert_eq!(signer_of(&Signature::new(U256::from(5), U256::ONE, false), &digest), None);
    }

    proptest! {
        #[test]
        fn both_libraries_agree(key in any::<[u8; 32]>(), digest in any::<[u8; 32]>(), high: bool, flipped: bool) {
            let Ok(signer) = PrivateKeySigner::from_bytes(&B256::from(key)) else { return Ok(()) };
            let digest = B256::from(digest);
            let made = signer.sign_hash_sync(&digest).unwrap();
            let s = if high { ORDER - made.s() } else { made.s() };
            let signature = Signature::new(made.r(), s, made.v() ^ flipped);
            prop_assert_eq!(signer_of(&signature, &digest), pure(&signature, &digest));
            prop_assert_eq!(signer_of(&made, &digest), Some(signer.address()));
        }

        #[test]
        fn both_libraries_agree_on_noise(r in any::<[u8; 32]>(), s in any::<[u8; 32]>(), odd: bool, digest in any::<[u8; 32]>()) {
            let signature = Signature::new(U256::from_be_bytes(r), U256::from_be_bytes(s), odd);
            let digest = B256::from(digest);
            prop_assert_eq!(signer_of(&signature, &digest), pure(&signature, &digest));
        }
    }
}
