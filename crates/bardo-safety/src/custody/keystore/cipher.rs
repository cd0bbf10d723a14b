//! Key derivation from a password, and encryption of the key: scrypt (or PBKDF2 in files of other wallets), AES-128 in
//! counter mode, and a keccak checksum ([web3 secret
//! storage](https://ethereum.org/en/developers/docs/data-structures-and-encoding/web3-secret-storage/)).

use aes::Aes128;
use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use alloy::primitives::{B256, Keccak256};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::custody::secret::Password;

/// Parameters of new files: cost 2^18 and block size 8, which takes 256 MiB.
pub(super) const OURS: Scrypt = Scrypt { log_n: 18, r: 8, p: 1 };

/// Maximum memory that a file may require, in bytes. Wallets use 256 MiB at most.
pub const MOST_MEMORY: u64 = 512 << 20;

/// Maximum work that a file may require: scrypt cost × block size × parallelism, or PBKDF2 rounds.
pub const MOST_ROUNDS: u64 = 1 << 24;

/// Number of derived bytes: one half encrypts, the other authenticates.
const DERIVED: usize = 32;

/// Parameters of scrypt ([RFC 7914](https://www.rfc-editor.org/rfc/rfc7914)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scrypt {
    /// Binary logarithm of the cost parameter N.
    pub(super) log_n: u8,
    /// Block size parameter r.
    pub(super) r: u32,
    /// Parallelism parameter p.
    pub(super) p: u32,
}

/// Key derivation function with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyDerivation {
    /// scrypt, used for new files.
    Scrypt(Scrypt),
    /// PBKDF2 with HMAC-SHA-256; read, never written.
    Pbkdf2 {
        /// Number of rounds.
        rounds: u32,
    },
}

/// Bytes derived from a password and a salt.
pub(super) struct DerivedKey(Zeroizing<[u8; DERIVED]>);

impl KeyDerivation {
    /// Checks that the parameters are within the limits for a file.
    ///
    /// # Errors
    /// Description of the resource that is exceeded.
    pub(super) fn within_bounds(self) -> Result<(), &'static str> {
        match self {
            Self::Scrypt(Scrypt { log_n, r, p }) => {
                let n = 1u64.checked_shl(log_n.into()).ok_or("more memory than is available")?;
                let memory = n.saturating_mul(u64::from(r)).saturating_mul(128);
                if memory > MOST_MEMORY || u64::from(r).saturating_mul(p.into()).saturating_mul(128) > MOST_MEMORY {
                    return Err("more than 512 MiB of memory");
                }
                if n.saturating_mul(u64::from(r)).saturating_mul(u64::from(p)) > MOST_ROUNDS {
                    return Err("too many rounds of scrypt");
                }
                Ok(())
            }
            Self::Pbkdf2 { rounds } if u64::from(rounds) > MOST_ROUNDS => Err("too many rounds of PBKDF2"),
            Self::Pbkdf2 { .. } => Ok(()),
        }
    }

    /// Derives the key bytes from a password; `None` for invalid parameters.
    pub(super) fn derive(self, password: &Password, salt: &[u8]) -> Option<DerivedKey> {
        let mut out = Zeroizing::new([0u8; DERIVED]);
        match self {
            Self::Scrypt(Scrypt { log_n, r, p }) => {
                let params = scrypt::Params::new(log_n, r, p, DERIVED).ok()?;
                scrypt::scrypt(password.expose(), salt, &params, out.as_mut_slice()).ok()?;
            }
            Self::Pbkdf2 { rounds: 0 } => return None,
            Self::Pbkdf2 { rounds } => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password.expose(), salt, rounds, out.as_mut_slice());
            }
        }
        Some(DerivedKey(out))
    }
}

impl DerivedKey {
    /// Encrypts or decrypts in place, since counter mode is its own inverse.
    pub(super) fn crypt(&self, iv: &[u8; 16], bytes: &mut [u8]) {
        let mut key = Zeroizing::new([0u8; 16]);
        key.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
        ctr::Ctr128BE::<Aes128>::new((&*key).into(), iv.into()).apply_keystream(bytes);
    }

    /// Returns the checksum that detects a wrong password.
    pub(super) fn mac(&self, ciphertext: &[u8]) -> B256 {
        let mut hash = Keccak256::new();
        hash.update(self.second_half());
        hash.update(ciphertext);
        hash.finalize()
    }

    /// Returns a checksum over the additional fields of our files, which cannot be computed without the password.
    pub(super) fn seal(&self, said: &[&[u8]]) -> B256 {
        let mut hash = Keccak256::new();
        hash.update(b"bardo key file 1");
        hash.update(self.second_half());
        for part in said {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize()
    }

    fn second_half(&self) -> &[u8] {
        self.0.get(16..).unwrap_or_default()
    }
}
