//! Keys that authenticate rows which processes exchange through the ledger. Anyone who can write the database can
//! insert or change a row; only a process with the account's key can create a valid one.
//!
//! Tags are HMAC-SHA256 ([RFC 2104](https://www.rfc-editor.org/rfc/rfc2104)). Custody derives the key from the unlocked
//! account. On devnets, whose keys are public, it is derived from a secret of the instance.

use std::fmt;
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Domain separator of the key derivation.
const DERIVATION: &[u8] = b"bardo ledger authentication key 1";

/// Length of a secret and of a tag, in bytes.
pub const QUEUE_KEY_BYTES: usize = 32;

/// Block size of SHA-256, in bytes.
const BLOCK_BYTES: usize = 64;

/// Key of one account in one ledger. Clones share the memory, which is wiped when the last one is dropped.
#[derive(Clone)]
pub struct QueueKey {
    account: Address,
    secret: Arc<Zeroizing<[u8; QUEUE_KEY_BYTES]>>,
}

impl QueueKey {
    /// Derives the key of `account` in the ledger named `ledger` from a secret.
    pub fn derive(secret: &[u8; QUEUE_KEY_BYTES], ledger: &str, account: Address) -> Self {
        let parts: [&[u8]; 2] = [ledger.as_bytes(), account.as_slice()];
        let mut derived = Zeroizing::new([0; QUEUE_KEY_BYTES]);
        derived.copy_from_slice(&mac(secret, DERIVATION, &parts).finalize().into_bytes());
        Self { account, secret: Arc::new(derived) }
    }

    /// Returns the account that the key belongs to.
    pub fn account(&self) -> Address {
        self.account
    }

    /// Returns the tag of a message. `domain` states the message's purpose; a tag is valid in its own domain only.
    pub fn tag(&self, domain: &str, parts: &[&[u8]]) -> B256 {
        B256::from_slice(&mac(&self.secret, domain.as_bytes(), parts).finalize().into_bytes())
    }

    /// Returns true if `tag` was made with this key for this message. The comparison takes constant time.
    pub fn verifies(&self, domain: &str, parts: &[&[u8]], tag: &[u8]) -> bool {
        mac(&self.secret, domain.as_bytes(), parts).verify_slice(tag).is_ok()
    }
}

impl fmt::Debug for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueueKey({}, …)", self.account)
    }
}

/// Computes the HMAC over `domain` and `parts`, each preceded by its length, so that no two messages share an encoding.
fn mac(secret: &[u8; QUEUE_KEY_BYTES], domain: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // A key shorter than SHA-256's block is padded with zeros (RFC 2104, section 2).
    let mut block = Zeroizing::new([0; BLOCK_BYTES]);
    for (byte, of_secret) in block.iter_mut().zip(secret) {
        *byte = *of_secret;
    }
    let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new((&*block).into());
    for part in [domain].iter().chain(parts) {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Address = Address::repeat_byte(1);

    #[test]
    fn a_tag_serves_for_one_key_one_domain_and_one_split_of_the_message() {
        let key = QueueKey::derive(&[7; 32], "real-1", ONE);
        let tag = key.tag("question", &[b"ab", b"c"]);
        assert!(key.verifies("question", &[b"ab", b"c"], tag.as_slice()));
        assert!(!key.verifies("answer", &[b"ab", b"c"], tag.as_slice()));
        assert!(!key.verifies("question", &[b"a", b"bc"], tag.as_slice()));
        assert!(!key.verifies("question", &[b"ab", b"c"], &tag[..31]));
        for other in [
            QueueKey::derive(&[8; 32], "real-1", ONE),
            QueueKey::derive(&[7; 32], "real-2", ONE),
            QueueKey::derive(&[7; 32], "real-1", Address::repeat_byte(2)),
        ] {
            assert!(!other.verifies("question", &[b"ab", b"c"], tag.as_slice()), "{other:?}");
        }
        assert!(!format!("{key:?}").contains("07"), "{key:?}");
    }

    /// Expected value computed with Python's `hmac` module.
    #[test]
    fn a_tag_is_the_hmac_that_other_programs_compute() {
        let key = QueueKey::derive(&[7; 32], "real-1", ONE);
        let expected = "a5ccc6d3678dd239d0134ec088d4de8d680e9a6657d701af0e133fc966aeb312";
        assert_eq!(alloy::hex::encode(key.tag("question", &[b"ab", b"c"])), expected);
    }
}
