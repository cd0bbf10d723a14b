//! Input of secrets: passwords, private keys and mnemonics. Their debug output hides them, and their memory is wiped on
//! drop.

use std::fmt;

use alloy::primitives::{B256, hex};
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use zeroize::{Zeroize as _, Zeroizing};

pub use bardo_base::secret::{LONGEST_SECRET, Password};

/// Minimum length of a password for a new key, in characters.
pub const SHORTEST_PASSWORD: usize = 8;

/// Private key of secp256k1: a number from 1 to the group order, exclusive.
pub struct SecretKey(Zeroizing<[u8; 32]>);

/// Reason for which a text is not a usable secret. The messages never quote the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The password is too short.
    #[error("the password has {0} characters: use at least {SHORTEST_PASSWORD}")]
    ShortPassword(usize),
    /// The text is not 32 bytes in hexadecimal.
    #[error("not a private key: enter 64 hexadecimal digits, with or without 0x")]
    NotHexadecimal,
    /// The number is zero or not below the group order.
    #[error("this number is not a valid secp256k1 private key")]
    OutOfRange,
    /// The text is not a phrase of the English word list with a valid checksum.
    #[error("not a mnemonic: enter its 12, 15, 18, 21 or 24 English words in order, separated by single spaces")]
    NotAMnemonic,
    /// The account index cannot be derived.
    #[error("account number {0} cannot be derived: use one below 2147483648")]
    Index(u32),
    /// The system's random number generator failed.
    #[error("the system's random number generator failed: no key was created")]
    NoRandomness,
}

/// Checks that a password is long enough to encrypt a new key.
///
/// # Errors
/// [`SecretError::ShortPassword`] if it is shorter than [`SHORTEST_PASSWORD`].
pub fn for_a_new_key(password: Password) -> Result<Password, SecretError> {
    match password.chars() {
        length if length < SHORTEST_PASSWORD => Err(SecretError::ShortPassword(length)),
        _ => Ok(password),
    }
}

impl SecretKey {
    /// Generates a key from the system's random number generator.
    ///
    /// # Errors
    /// [`SecretError::NoRandomness`] if the generator fails.
    pub fn generate() -> Result<Self, SecretError> {
        loop {
            let mut bytes = Zeroizing::new([0u8; 32]);
            OsRng.try_fill_bytes(bytes.as_mut_slice()).map_err(|_| SecretError::NoRandomness)?;
            // About one in 2^128 candidates is out of range.
            if let Ok(key) = Self::from_bytes(bytes) {
                return Ok(key);
            }
        }
    }

    /// Parses a key from 64 hexadecimal digits, with or without `0x`.
    ///
    /// # Errors
    /// [`SecretError::NotHexadecimal`] or [`SecretError::OutOfRange`].
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        hex::decode_to_slice(text.trim(), bytes.as_mut_slice()).map_err(|_| SecretError::NotHexadecimal)?;
        Self::from_bytes(bytes)
    }

    /// Derives account number `index` of an English mnemonic, at m/44'/60'/0'/0/index
    /// ([BIP-44](https://github.com/bitcoin/bips/blob/master/bip-0044.mediawiki)).
    ///
    /// # Errors
    /// [`SecretError::NotAMnemonic`] or [`SecretError::Index`].
    pub fn from_mnemonic(phrase: &str, index: u32) -> Result<Self, SecretError> {
        let words = Zeroizing::new(phrase.split_whitespace().collect::<Vec<_>>().join(" "));
        let builder = MnemonicBuilder::from_phrase(words.as_str());
        let builder = builder.index(index).map_err(|_| SecretError::Index(index))?;
        let signer = builder.build().map_err(|_| SecretError::NotAMnemonic)?;
        Ok(Self::of(&signer))
    }

    /// Creates a key from 32 big-endian bytes.
    pub(super) fn from_bytes(bytes: Zeroizing<[u8; 32]>) -> Result<Self, SecretError> {
        let key = Self(bytes);
        match key.signer() {
            Some(_) => Ok(key),
            None => Err(SecretError::OutOfRange),
        }
    }

    pub(super) fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Creates a signer. `None` for an invalid key, which none of the constructors accepts.
    pub(super) fn signer(&self) -> Option<PrivateKeySigner> {
        let mut copy = B256::from(*self.0);
        let signer = PrivateKeySigner::from_bytes(&copy).ok();
        copy.0.zeroize();
        signer
    }

    fn of(signer: &PrivateKeySigner) -> Self {
        let mut copy = signer.to_bytes();
        let key = Self(Zeroizing::new(copy.0));
        copy.0.zeroize();
        key
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::address;

    /// First private key of the development mnemonic, which is public.
    const FIRST: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    const PHRASE: &str = "test test test test test test test test test test test junk";

    #[test]
    fn keys_and_mnemonics_give_the_addresses_every_wallet_gives() {
        let address = |key: &SecretKey| key.signer().unwrap().address();
        let first = address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(address(&SecretKey::from_hex(FIRST).unwrap()), first);
        assert_eq!(address(&SecretKey::from_hex(&format!("  {}\n", &FIRST[2..])).unwrap()), first);
        assert_eq!(address(&SecretKey::from_mnemonic(PHRASE, 0).unwrap()), first);
        assert_eq!(
            address(&SecretKey::from_mnemonic(&format!("\t{}  ", PHRASE.replace(' ', "  ")), 9).unwrap()),
            address!("0xa0Ee7A142d267C1f36714E4a8F75612F20a79720")
        );
    }

    #[test]
    fn an_invalid_secret_is_rejected_without_being_shown() {
        // Group order of secp256k1, SEC 2 section 2.4.1.
        let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        for (text, error) in [
            ("", SecretError::NotHexadecimal),
            ("0x12", SecretError::NotHexadecimal),
            (&FIRST[..65], SecretError::NotHexadecimal),
            (&"0".repeat(64), SecretError::OutOfRange),
            (order, SecretError::OutOfRange),
        ] {
            assert_eq!(SecretKey::from_hex(text).unwrap_err(), error, "{text}");
        }
        for phrase in ["", "test", "test test test test test test test test test test test test", FIRST] {
            assert_eq!(SecretKey::from_mnemonic(phrase, 0).unwrap_err(), SecretError::NotAMnemonic, "{phrase}");
        }
        assert_eq!(SecretKey::from_mnemonic(PHRASE, u32::MAX).unwrap_err(), SecretError::Index(u32::MAX));
        assert_eq!(for_a_new_key(Password::new("seven77".into())).unwrap_err(), SecretError::ShortPassword(7));
        assert!(for_a_new_key(Password::new("eight888".into())).is_ok());
    }

    #[test]
    fn secrets_print_as_nothing() {
        let (key, password) = (SecretKey::from_hex(FIRST).unwrap(), Password::new("hunter22".into()));
        let printed = format!("{key:?} {password:?}");
        assert_eq!(printed, "SecretKey(…) Password(…)");
    }

    #[test]
    fn new_keys_differ() {
        let (one, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        assert_ne!(one.expose(), other.expose());
    }
}
