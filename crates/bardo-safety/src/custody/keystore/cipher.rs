//! From a password to the bytes that encrypt a key, and the encryption itself: scrypt (or, in others' files, PBKDF2), then
//! AES-128 in counter mode, then a keccak checksum over both
//! ([web3 secret storage](https://ethereum.org/en/developers/docs/data-structures-and-encoding/web3-secret-storage/)).

use aes::Aes128;
use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use alloy::primitives::{B256, Keccak256};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::custody::secret::Password;

/// What our own files take: 2^18 rounds over blocks of 8, so 256 MiB.
pub(super) const OURS: Scrypt = Scrypt { log_n: 18, r: 8, p: 1 };

/// The most memory a file may ask for, in bytes. Wallets ask for 256 MiB at most.
pub const MOST_MEMORY: u64 = 512 << 20;

/// The most work a file may ask for: rounds of scrypt times block size times lanes, or rounds of PBKDF2.
pub const MOST_ROUNDS: u64 = 1 << 24;

/// The bytes that are derived: half encrypts, half authenticates.
const DERIVED: usize = 32;

/// Parameters of scrypt ([RFC 7914](https://www.rfc-editor.org/rfc/rfc7914)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scrypt {
    /// Binary logarithm of the cost.
    pub(super) log_n: u8,
    /// Block size.
    pub(super) r: u32,
    /// Lanes.
    pub(super) p: u32,
}

/// How a password is stretched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretching {
    /// By memory.
    Scrypt(Scrypt),
    /// By rounds of HMAC-SHA-256; read, never written.
    Pbkdf2 {
        /// How many.
        rounds: u32,
    },
}

/// What a password and a salt give.
pub(super) struct Derived(Zeroizing<[u8; DERIVED]>);

impl Stretching {
    /// Whether it is within what is done for a file.
    ///
    /// # Errors
    /// What it asks too much of.
    pub(super) fn within_bounds(self) -> Result<(), &'static str> {
        match self {
            Self::Scrypt(Scrypt { log_n, r, p }) => {
                let n = 1u64.checked_shl(log_n.into()).ok_or("more memory than there is")?;
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

    /// Stretches a password. `None` for parameters that mean nothing.
    pub(super) fn derive(self, password: &Password, salt: &[u8]) -> Option<Derived> {
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
        Some(Derived(out))
    }
}

impl Derived {
    /// Encrypts or decrypts in place: counter mode is its own inverse.
    pub(super) fn crypt(&self, iv: &[u8; 16], bytes: &mut [u8; 32]) {
        let mut key = Zeroizing::new([0u8; 16]);
        key.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
        ctr::Ctr128BE::<Aes128>::new((&*key).into(), iv.into()).apply_keystream(bytes);
    }

    /// The checksum that tells a wrong password.
    pub(super) fn mac(&self, ciphertext: &[u8]) -> B256 {
        let mut hash = Keccak256::new();
        hash.update(self.second_half());
        hash.update(ciphertext);
        hash.finalize()
    }

    /// A checksum over what our files say beside the key, which only who knows the password can make.
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
