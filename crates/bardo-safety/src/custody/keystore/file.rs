//! Format of a key file. Files of other wallets are accepted, and other wallets can read ours. Ours contain one
//! additional member: the ledger that the key belongs to, authenticated with the password.

use std::path::Path;

use alloy::primitives::{Address, B256, hex};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::KeystoreError;
use super::cipher::{KeyDerivation, OURS, Scrypt};
use crate::custody::binding::LedgerId;
use crate::custody::secret::{Password, SecretError, SecretKey};
use crate::custody::signing::SigningKey;
use bardo_base::text::SafeText;

/// Maximum length of a salt, in bytes.
const LONGEST_SALT: usize = 128;

/// Parsed key file, before decryption.
#[derive(Debug)]
pub(super) struct KeyFile {
    address: Option<Address>,
    stretching: KeyDerivation,
    salt: Vec<u8>,
    iv: [u8; 16],
    ciphertext: [u8; 32],
    mac: B256,
    bound: Option<(LedgerId, B256)>,
}

/// JSON representation of a key file.
#[derive(Serialize, Deserialize)]
struct KeyFileForm {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: CryptoForm,
    /// Our additional member, which other wallets ignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bardo: Option<BindingForm>,
}

#[derive(Serialize, Deserialize)]
struct CryptoForm {
    cipher: String,
    cipherparams: IvForm,
    ciphertext: String,
    kdf: String,
    kdfparams: KdfForm,
    mac: String,
}

#[derive(Serialize, Deserialize)]
struct IvForm {
    iv: String,
}

/// Parameters of both functions; `kdf` determines the required ones.
#[derive(Default, Serialize, Deserialize)]
struct KdfForm {
    dklen: u64,
    salt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prf: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct BindingForm {
    ledger: String,
    seal: String,
}

/// Returns the text of a new file, encrypted with the password.
pub(super) fn write(
    secret: &SecretKey,
    password: &Password,
    address: Address,
    ledger: &LedgerId,
) -> Result<Zeroizing<String>, KeystoreError> {
    let (salt, iv, id) = (random::<32>()?, random::<16>()?, random::<16>()?);
    let derived = KeyDerivation::Scrypt(OURS).derive(password, &salt).ok_or(SecretError::NoRandomness)?;
    let mut ciphertext = Zeroizing::new(*secret.expose());
    derived.crypt(&iv, &mut ciphertext);
    let mac = derived.mac(ciphertext.as_slice());
    let seal = derived.seal(&[ledger.as_str().as_bytes(), address.as_slice(), mac.as_slice()]);
    let Scrypt { log_n, r, p } = OURS;
    let written = KeyFileForm {
        version: 3,
        id: Some(uuid(id)),
        address: Some(hex::encode(address)),
        crypto: CryptoForm {
            cipher: "aes-128-ctr".into(),
            cipherparams: IvForm { iv: hex::encode(iv) },
            ciphertext: hex::encode(ciphertext.as_slice()),
            kdf: "scrypt".into(),
            kdfparams: KdfForm {
                dklen: 32,
                salt: hex::encode(salt),
                n: Some(1 << log_n),
                r: Some(r),
                p: Some(p),
                ..KdfForm::default()
            },
            mac: hex::encode(mac),
        },
        bardo: Some(BindingForm { ledger: ledger.to_string(), seal: hex::encode(seal) }),
    };
    let text = serde_json::to_string_pretty(&written).map_err(|_| SecretError::NoRandomness)?;
    Ok(Zeroizing::new(format!("{text}\n")))
}

impl KeyFile {
    /// Parses a file's text. None of its content is trusted.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, KeystoreError> {
        let form = |reason: &str| KeystoreError::Form { path: path.to_owned(), reason: SafeText::clean(reason, 200) };
        let written: KeyFileForm = serde_json::from_str(text).map_err(|error| form(&error.to_string()))?;
        if written.version != 3 {
            return Err(form("it is not of version 3"));
        }
        let crypto = written.crypto;
        if crypto.cipher != "aes-128-ctr" {
            return Err(form("its cipher is not aes-128-ctr"));
        }
        let kdf = crypto.kdfparams;
        if kdf.dklen != 32 {
            return Err(form("its derived key does not have 32 bytes"));
        }
        let missing = || form("a parameter of its key derivation is missing");
        let stretching = match crypto.kdf.as_str() {
            "scrypt" => {
                let n = kdf.n.ok_or_else(missing)?;
                if !n.is_power_of_two() || n < 2 {
                    return Err(form("its scrypt cost is not a power of two"));
                }
                // At most 63, so it fits.
                let log_n = u8::try_from(n.trailing_zeros()).unwrap_or(u8::MAX);
                let (r, p) = (kdf.r.ok_or_else(missing)?, kdf.p.ok_or_else(missing)?);
                if r == 0 || p == 0 {
                    return Err(form("its scrypt block size or lanes are zero"));
                }
                if u32::from(log_n) >= r.saturating_mul(16) {
                    return Err(form("its scrypt cost is beyond what its block size allows (RFC 7914)"));
                }
                KeyDerivation::Scrypt(Scrypt { log_n, r, p })
            }
            "pbkdf2" => {
                if kdf.prf.as_deref() != Some("hmac-sha256") {
                    return Err(form("its PBKDF2 does not use hmac-sha256"));
                }
                KeyDerivation::Pbkdf2 { rounds: kdf.c.filter(|rounds| *rounds > 0).ok_or_else(missing)? }
            }
            _ => return Err(form("its key derivation is neither scrypt nor pbkdf2")),
        };
        stretching.within_bounds().map_err(|what| KeystoreError::TooCostly { path: path.to_owned(), what })?;
        let bytes =
            |text: &str, what: &str| hex::decode(text).map_err(|_| form(&format!("its {what} is not hexadecimal")));
        let salt = bytes(&kdf.salt, "salt")?;
        if salt.len() > LONGEST_SALT {
            return Err(form("its salt is too long"));
        }
        let exact = |what: &str| form(&format!("its {what} has the wrong length"));
        let iv = bytes(&crypto.cipherparams.iv, "iv")?.try_into().map_err(|_| exact("iv"))?;
        let ciphertext = bytes(&crypto.ciphertext, "ciphertext")?.try_into().map_err(|_| exact("ciphertext"))?;
        let mac = B256::try_from(bytes(&crypto.mac, "mac")?.as_slice()).map_err(|_| exact("mac"))?;
        let address = match written.address {
            None => None,
            Some(text) => {
                let bytes = bytes(&text, "address")?;
                Some(Address::try_from(bytes.as_slice()).map_err(|_| exact("address"))?)
            }
        };
        let bound = match written.bardo {
            None => None,
            Some(BindingForm { ledger, seal }) => {
                let ledger = ledger.parse().map_err(|_| form("its ledger name is invalid"))?;
                let seal = B256::try_from(bytes(&seal, "seal")?.as_slice()).map_err(|_| exact("seal"))?;
                Some((ledger, seal))
            }
        };
        Ok(Self { address, stretching, salt, iv, ciphertext, mac, bound })
    }

    /// Returns the address and the ledger that the file claims; `None` for another wallet's file.
    pub(super) fn claims(&self) -> Option<(Address, &LedgerId)> {
        Some((self.address?, &self.bound.as_ref()?.0))
    }

    /// Decrypts the key. Fails if the password is wrong, or if the claimed address or ledger does not match.
    pub(super) fn open(&self, password: &Password, path: &Path) -> Result<SecretKey, KeystoreError> {
        let wrong = || KeystoreError::Password { path: path.to_owned() };
        let derived = self.stretching.derive(password, &self.salt).ok_or_else(wrong)?;
        if derived.mac(&self.ciphertext) != self.mac {
            return Err(wrong());
        }
        let mut bytes = Zeroizing::new(self.ciphertext);
        derived.crypt(&self.iv, &mut bytes);
        let secret = SecretKey::from_bytes(bytes)?;
        let found = SigningKey::new(&secret).ok_or(SecretError::OutOfRange)?.address();
        if let Some(claimed) = self.address
            && claimed != found
        {
            return Err(KeystoreError::OtherKey { path: path.to_owned(), found, claimed });
        }
        if let Some((ledger, seal)) = &self.bound
            && derived.seal(&[ledger.as_str().as_bytes(), found.as_slice(), self.mac.as_slice()]) != *seal
        {
            return Err(wrong());
        }
        Ok(secret)
    }
}

fn random<const N: usize>() -> Result<[u8; N], SecretError> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(|_| SecretError::NoRandomness)?;
    Ok(bytes)
}

/// Formats random bytes as a UUID, version 4 ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#section-5.4)).
fn uuid(random: [u8; 16]) -> String {
    let value = u128::from_be_bytes(random);
    let value = (value & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
    let digits = format!("{value:032x}");
    let mut text = String::with_capacity(36);
    for (at, digit) in digits.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}
