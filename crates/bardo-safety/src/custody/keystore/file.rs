//! Format of a key file. Files of other wallets are accepted, and other wallets can read ours. Ours contain one
//! additional member: the ledger that the key belongs to, authenticated with the password.
//!
//! The file of a wallet server's key has in that member also the server, the wallet and the encrypted credential. The key
//! of such a file signs nothing: it authenticates rows of the ledger.

use std::path::Path;

use alloy::primitives::{Address, B256, Signature, hex};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::KeystoreError;
use super::cipher::{DerivedKey, KeyDerivation, OURS, Scrypt};
use super::server::{ServerCredential, ServerWallet, is_own};
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
    server: Option<ServerPart>,
}

/// Wallet server of a key file, before decryption.
#[derive(Debug)]
struct ServerPart {
    wallet: ServerWallet,
    /// The wallet's signature over the statement that the file is its own.
    signature: Signature,
    iv: [u8; 16],
    ciphertext: Vec<u8>,
    mac: B256,
}

/// Ledger that a new file belongs to, and the wallet server with the credential if the key is there.
pub(super) struct Additions<'a> {
    pub(super) ledger: &'a LedgerId,
    pub(super) server: Option<(&'a ServerWallet, &'a ServerCredential, Signature)>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerForm>,
}

#[derive(Serialize, Deserialize)]
struct ServerForm {
    url: String,
    app_id: String,
    wallet_id: String,
    address: String,
    signature: String,
    iv: String,
    credential: String,
    mac: String,
}

/// Returns the text of a new file, encrypted with the password.
pub(super) fn write(
    secret: &SecretKey,
    password: &Password,
    address: Address,
    additions: &Additions<'_>,
) -> Result<Zeroizing<String>, KeystoreError> {
    let (salt, iv, id) = (random::<32>()?, random::<16>()?, random::<16>()?);
    let derived = KeyDerivation::Scrypt(OURS).derive(password, &salt).ok_or(SecretError::NoRandomness)?;
    let mut ciphertext = Zeroizing::new(*secret.expose());
    derived.crypt(&iv, ciphertext.as_mut_slice());
    let mac = derived.mac(ciphertext.as_slice());
    let server = match additions.server {
        None => None,
        Some((wallet, credential, signature)) => {
            Some(ServerPart::encrypted((wallet.clone(), signature), credential, &derived)?)
        }
    };
    let seal = sealed(&derived, additions.ledger, address, mac, server.as_ref());
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
        bardo: Some(BindingForm {
            ledger: additions.ledger.to_string(),
            seal: hex::encode(seal),
            server: server.as_ref().map(ServerPart::form),
        }),
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
        let own = match written.address {
            None => None,
            Some(text) => {
                let bytes = bytes(&text, "address")?;
                Some(Address::try_from(bytes.as_slice()).map_err(|_| exact("address"))?)
            }
        };
        let (bound, server) = match written.bardo {
            None => (None, None),
            Some(BindingForm { ledger, seal, server }) => {
                let ledger: LedgerId = ledger.parse().map_err(|_| form("its ledger name is invalid"))?;
                let seal = B256::try_from(bytes(&seal, "seal")?.as_slice()).map_err(|_| exact("seal"))?;
                let server = match server {
                    None => None,
                    Some(server) => {
                        let wallet = ServerWallet::parse(&server.url, &server.app_id, &server.wallet_id);
                        let address = bytes(&server.address, "server's address")?;
                        let address = Address::try_from(address.as_slice()).map_err(|_| exact("server's address"))?;
                        let wallet = wallet.map_err(|error| form(&error.to_string()))?.of(address);
                        let iv = bytes(&server.iv, "credential's iv")?;
                        let iv = iv.try_into().map_err(|_| exact("credential's iv"))?;
                        let ciphertext = bytes(&server.credential, "credential")?;
                        let mac = bytes(&server.mac, "credential's mac")?;
                        let mac = B256::try_from(mac.as_slice()).map_err(|_| exact("credential's mac"))?;
                        let signature = bytes(&server.signature, "wallet's signature")?;
                        let signature = Signature::from_raw(&signature).map_err(|_| exact("wallet's signature"))?;
                        // Known before any password: a file that the wallet did not sign claims nothing.
                        let key = own.ok_or_else(|| form("its address is missing"))?;
                        if !is_own(wallet.address, key, &ledger, &signature) {
                            return Err(form("the wallet that it names has not signed that it is its own"));
                        }
                        Some(ServerPart { wallet, signature, iv, ciphertext, mac })
                    }
                };
                (Some((ledger, seal)), server)
            }
        };
        Ok(Self { address: own, stretching, salt, iv, ciphertext, mac, bound, server })
    }

    /// Returns the account's address and the ledger that the file claims; `None` for another wallet's file.
    pub(super) fn claims(&self) -> Option<(Address, &LedgerId)> {
        let address = self.server().map_or(self.address, |wallet| Some(wallet.address));
        Some((address?, &self.bound.as_ref()?.0))
    }

    /// Returns the wallet server that the file claims to have its key; `None` if the file has the key itself.
    pub(super) fn server(&self) -> Option<&ServerWallet> {
        self.server.as_ref().map(|part| &part.wallet)
    }

    /// Decrypts the key. Fails if the password is wrong, or if the claimed address or ledger does not match, and for a
    /// key on a wallet server.
    pub(super) fn open(&self, password: &Password, path: &Path) -> Result<SecretKey, KeystoreError> {
        match &self.server {
            None => self.decrypt(password, path).map(|(secret, _)| secret),
            Some(_) => Err(KeystoreError::OnServer { path: path.to_owned() }),
        }
    }

    /// Decrypts the credential of a wallet server, and the secret that authenticates rows of the ledger.
    pub(super) fn open_server(
        &self,
        password: &Password,
        path: &Path,
    ) -> Result<(SecretKey, ServerCredential), KeystoreError> {
        let part = self.server.as_ref().ok_or_else(|| KeystoreError::NoServer { path: path.to_owned() })?;
        let (secret, derived) = self.decrypt(password, path)?;
        // The seal, which has been checked, covers the ciphertext and its checksum.
        let mut bytes = Zeroizing::new(part.ciphertext.clone());
        derived.crypt(&part.iv, bytes.as_mut_slice());
        let text = std::str::from_utf8(&bytes).ok().map(|text| Password::new(text.to_owned()));
        let wrong = || KeystoreError::Password { path: path.to_owned() };
        let credential = text.and_then(|text| ServerCredential::new(text).ok()).ok_or_else(wrong)?;
        Ok((secret, credential))
    }

    fn decrypt(&self, password: &Password, path: &Path) -> Result<(SecretKey, DerivedKey), KeystoreError> {
        let wrong = || KeystoreError::Password { path: path.to_owned() };
        let derived = self.stretching.derive(password, &self.salt).ok_or_else(wrong)?;
        if derived.mac(&self.ciphertext) != self.mac {
            return Err(wrong());
        }
        let mut bytes = Zeroizing::new(self.ciphertext);
        derived.crypt(&self.iv, bytes.as_mut_slice());
        let secret = SecretKey::from_bytes(bytes)?;
        let found = SigningKey::new(&secret).ok_or(SecretError::OutOfRange)?.address();
        if let Some(claimed) = self.address
            && claimed != found
        {
            return Err(KeystoreError::OtherKey { path: path.to_owned(), found, claimed });
        }
        if let Some((ledger, seal)) = &self.bound {
            let server = self.server.as_ref();
            if server.is_some_and(|part| derived.mac(&part.ciphertext) != part.mac)
                || sealed(&derived, ledger, found, self.mac, server) != *seal
            {
                return Err(wrong());
            }
        }
        Ok((secret, derived))
    }
}

impl ServerPart {
    fn encrypted(
        (wallet, signature): (ServerWallet, Signature),
        credential: &ServerCredential,
        derived: &DerivedKey,
    ) -> Result<Self, KeystoreError> {
        let iv = random::<16>()?;
        let mut ciphertext = credential.expose().to_vec();
        derived.crypt(&iv, &mut ciphertext);
        let mac = derived.mac(&ciphertext);
        Ok(Self { wallet, signature, iv, ciphertext, mac })
    }

    fn form(&self) -> ServerForm {
        ServerForm {
            url: self.wallet.url.expose().to_string(),
            app_id: self.wallet.app_id.clone(),
            wallet_id: self.wallet.wallet_id.clone(),
            address: hex::encode(self.wallet.address),
            signature: hex::encode(self.signature.as_bytes()),
            iv: hex::encode(self.iv),
            credential: hex::encode(&self.ciphertext),
            mac: hex::encode(self.mac),
        }
    }
}

/// Seal of a file's additional members. Those of a wallet server follow only where there is one, so that the seals of
/// other files are as they were.
fn sealed(derived: &DerivedKey, ledger: &LedgerId, address: Address, mac: B256, server: Option<&ServerPart>) -> B256 {
    let mut parts = vec![ledger.as_str().as_bytes(), address.as_slice(), mac.as_slice()];
    if let Some(ServerPart { wallet, iv, ciphertext, mac, .. }) = server {
        let place = [wallet.url.expose().as_str(), &wallet.app_id, &wallet.wallet_id].map(str::as_bytes);
        parts.extend(place);
        parts.extend([wallet.address.as_slice(), iv.as_slice(), ciphertext.as_slice(), mac.as_slice()]);
    }
    derived.seal(&parts)
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
