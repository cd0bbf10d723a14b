//! Encrypted key files, one per key, in a folder of their own, in a format that other wallets can read (web3 secret
//! storage, version 3). A file is private from its creation, appears complete or not at all, and never overwrites
//! another.
//!
//! | file | holds |
//! |---|---|
//! | `file` | format and validation of a key file |
//! | `cipher` | key derivation and encryption |
//! | `folder` | creation, names and permissions of files |
//! | `server` | wallet servers, which have the key of some entries |

mod cipher;
mod file;
mod folder;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use alloy::primitives::Address;

use super::binding::LedgerId;
use super::embedded::ServerKey;
use super::local::LocalAccount;
use super::secret::{Password, SecretError, SecretKey, for_a_new_key};
use super::signing::SigningKey;
use crate::second_approval::{SecondError, SecondSignature, SecondStatement};
use bardo_base::text::SafeText;

use file::Additions;

pub use cipher::{MOST_MEMORY, MOST_ROUNDS};
pub use server::{ServerCredential, ServerEnrolment, ServerWallet, ServerWalletError, SignedEnrolment};

/// Folder of key files that are no longer used, below the folder of the keystore.
pub const RETIRED: &str = "revoked";

/// Maximum length of a key's name, in characters.
const LONGEST_NAME: usize = 40;

/// Name of a key: letters, digits, `-` and `_`. It is also the file's name, so it cannot lead to another folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

/// Folder with key files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keystore {
    folder: PathBuf,
}

/// Key file as listed without its password. The address is only the file's claim until it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Name of the key.
    pub name: KeyName,
    /// Path of the key file.
    pub path: PathBuf,
    /// Address that the file claims.
    pub address: Address,
    /// Ledger that the key belongs to.
    pub ledger: LedgerId,
    /// Wallet server that has the key; `None` if the file has it.
    pub server: Option<Box<ServerWallet>>,
}

/// Key file of the folder, usable or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// Name of the key.
    pub name: KeyName,
    /// The file's claims, or the reason for which it cannot be used.
    pub entry: Result<KeyEntry, KeystoreError>,
}

/// Reason for which a key file cannot be created, read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeystoreError {
    /// The text is not a valid key name.
    #[error("`{0}` is not a valid key name: use 1 to 40 letters, digits, `-` or `_`")]
    Name(SafeText),
    /// A key of this name exists already.
    #[error("the key `{name}` already exists ({path}) and was not changed: choose another name")]
    Exists {
        /// Name of the key.
        name: KeyName,
        /// Path of the existing file.
        path: PathBuf,
    },
    /// There is no key of this name.
    #[error("unknown key `{name}`{}; `bardo keys list` lists the keys", there_is(.known))]
    NotFound {
        /// Name of the key.
        name: KeyName,
        /// Names of the existing keys.
        known: Vec<KeyName>,
    },
    /// A file operation failed.
    #[error("{path}: {reason}")]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error message of the operating system.
        reason: SafeText,
    },
    /// The permissions let others read or replace the file.
    #[error(
        "{path} can be reached by others (mode {mode:o}): run `chmod {right:o} {path}`, and consider whether it was \
         copied"
    )]
    Mode {
        /// Path of the file or folder.
        path: PathBuf,
        /// Current permission bits.
        mode: u32,
        /// Required permission bits.
        right: u32,
    },
    /// The file is not a key file of version 3.
    #[error("{path} is not a readable key file: {reason}")]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Description of the fault.
        reason: SafeText,
    },
    /// Decryption would take more memory or time than the limits allow.
    #[error("{path} requires {what}, more than any wallet uses: it was not opened")]
    TooCostly {
        /// Path of the file.
        path: PathBuf,
        /// Resource that exceeds the limits.
        what: &'static str,
    },
    /// The password is wrong, or the file was changed.
    #[error("cannot open {path}: the password is wrong, or the file was changed")]
    Password {
        /// Path of the file.
        path: PathBuf,
    },
    /// The key in the file does not match the claimed address.
    #[error(
        "{path} contains the key of {found} but claims to be {claimed}'s: the file was tampered with; do not use it"
    )]
    OtherKey {
        /// Path of the file.
        path: PathBuf,
        /// Address of the key in the file.
        found: Address,
        /// Address that the file claims.
        claimed: Address,
    },
    /// The file is another wallet's and belongs to no ledger.
    #[error("{path} belongs to no ledger: import it with `bardo keys import NAME --keystore {path}`")]
    Unbound {
        /// Path of the file.
        path: PathBuf,
    },
    /// The key belongs to another ledger.
    #[error(
        "the key `{name}` belongs to ledger {own}, but this is ledger {found}: in two ledgers, its limits would be \
         counted separately; use its own data folder, or import the key here and delete it there"
    )]
    OtherLedger {
        /// Name of the key.
        name: KeyName,
        /// Ledger that the key belongs to.
        own: LedgerId,
        /// Ledger that it was to be used with.
        found: LedgerId,
    },
    /// The key is on a wallet server, and the file has only the credential.
    #[error("{path} has no key: the key is on a wallet server, which signs only what Bardo asks of it")]
    OnServer {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file names no wallet server.
    #[error("{path} names no wallet server")]
    NoServer {
        /// Path of the file.
        path: PathBuf,
    },
    /// The secret or the new password is invalid.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The key cannot give a second approval.
    #[error(transparent)]
    Second(#[from] SecondError),
}

impl Keystore {
    /// Creates a keystore for `folder`, which need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Encrypts a key into a new file, bound to `ledger`. The key derivation deliberately takes about half a second and
    /// 256 MiB.
    ///
    /// # Errors
    /// [`KeystoreError::Exists`], [`SecretError::ShortPassword`], or [`KeystoreError::File`] if the file could not be
    /// created; no incomplete key file is left then.
    pub fn create(
        &self,
        name: &KeyName,
        secret: &SecretKey,
        password: &Password,
        ledger: &LedgerId,
    ) -> Result<KeyEntry, KeystoreError> {
        let password = for_a_new_key(password.clone())?;
        let path = self.path(name);
        // Checked early to save work; the creation itself decides.
        if path.exists() {
            return Err(KeystoreError::Exists { name: name.clone(), path });
        }
        let key = SigningKey::new(secret).ok_or(SecretError::OutOfRange)?;
        let address = key.address();
        let written = file::write(secret, &password, address, &Additions { ledger, server: None })?;
        folder::create(&self.folder, &path, written.as_bytes(), name)?;
        Ok(KeyEntry { name: name.clone(), path, address, ledger: ledger.clone(), server: None })
    }

    /// Stores the credential of a wallet server's wallet in a new file, bound to the enrolment's ledger. The secret of the
    /// enrolment authenticates rows of the ledger; `wallet` has the address that signed it.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn create_server(
        &self,
        name: &KeyName,
        (wallet, credential): (ServerWallet, &ServerCredential),
        enrolment: SignedEnrolment,
        password: &Password,
    ) -> Result<KeyEntry, KeystoreError> {
        let password = for_a_new_key(password.clone())?;
        let path = self.path(name);
        if path.exists() {
            return Err(KeystoreError::Exists { name: name.clone(), path });
        }
        let SignedEnrolment { secret, key, wallet: address, ledger, signature } = enrolment;
        let wallet = wallet.of(address);
        let additions = Additions { ledger: &ledger, server: Some((&wallet, credential, signature)) };
        let written = file::write(&secret, &password, key, &additions)?;
        folder::create(&self.folder, &path, written.as_bytes(), name)?;
        Ok(KeyEntry { name: name.clone(), path, address, ledger, server: Some(Box::new(wallet)) })
    }

    /// Returns every key file in the folder, sorted by name. A file that cannot be used is listed with the error.
    ///
    /// # Errors
    /// [`KeystoreError::File`] if the folder cannot be read. A missing folder is empty.
    pub fn list(&self) -> Result<Vec<ListedKey>, KeystoreError> {
        let names = folder::names(&self.folder)?;
        Ok(names.into_iter().map(|name| ListedKey { entry: self.entry(&name), name }).collect())
    }

    /// Reads the claims of a key file, without its password.
    ///
    /// # Errors
    /// [`KeystoreError`] if the file is missing, cannot be read, or belongs to no ledger.
    pub fn entry(&self, name: &KeyName) -> Result<KeyEntry, KeystoreError> {
        let (path, file) = self.read(name)?;
        let (address, ledger) = file.claims().ok_or_else(|| KeystoreError::Unbound { path: path.clone() })?;
        let (ledger, server) = (ledger.clone(), file.server().cloned().map(Box::new));
        Ok(KeyEntry { name: name.clone(), address, ledger, server, path })
    }

    /// Opens a key for signing, for use with `ledger`. Takes about half a second and 256 MiB, so run it on a blocking
    /// thread.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], [`KeystoreError::OtherLedger`], or the fault of the file.
    pub fn open(&self, name: &KeyName, password: &Password, ledger: &LedgerId) -> Result<LocalAccount, KeystoreError> {
        let (path, file) = self.read_of(name, ledger)?;
        let secret = file.open(password, &path)?;
        let key = SigningKey::new(&secret).ok_or(SecretError::OutOfRange)?;
        Ok(LocalAccount::open(key))
    }

    /// Opens the credential of a wallet server, for use with `ledger`. Takes as long as [`Self::open`].
    ///
    /// # Errors
    /// As for [`Self::open`], and [`KeystoreError::NoServer`] for a file that has the key itself.
    pub fn open_server(
        &self,
        name: &KeyName,
        password: &Password,
        ledger: &LedgerId,
    ) -> Result<ServerKey, KeystoreError> {
        let (path, file) = self.read_of(name, ledger)?;
        let (secret, credential) = file.open_server(password, &path)?;
        let wallet = file.server().cloned().ok_or(KeystoreError::NoServer { path })?;
        Ok(ServerKey::new(wallet, credential, secret))
    }

    /// Signs a second operator's approval with a key, whatever ledger the key belongs to. Takes as long as
    /// [`Self::open`] and does not keep the key.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], the fault of the file, or [`KeystoreError::Second`] for the acting account's own key.
    pub fn approve_second(
        &self,
        name: &KeyName,
        password: &Password,
        statement: &SecondStatement,
    ) -> Result<SecondSignature, KeystoreError> {
        let (path, file) = self.read(name)?;
        let secret = file.open(password, &path)?;
        Ok(SigningKey::new(&secret).ok_or(SecretError::OutOfRange)?.approve_second(statement)?)
    }

    /// Checks the password of a key file, whatever ledger it belongs to, and returns the account's address. Takes as
    /// long as [`Self::open`] and does not keep the key.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], or the fault of the file.
    pub fn verify(&self, name: &KeyName, password: &Password) -> Result<Address, KeystoreError> {
        let (path, file) = self.read(name)?;
        if let Some(wallet) = file.server() {
            file.open_server(password, &path)?;
            return Ok(wallet.address);
        }
        let secret = file.open(password, &path)?;
        Ok(SigningKey::new(&secret).ok_or(SecretError::OutOfRange)?.address())
    }

    /// Decrypts the key of another wallet's file at any path, for importing.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], or the fault of the file.
    pub fn read_foreign(path: impl Into<PathBuf>, password: &Password) -> Result<SecretKey, KeystoreError> {
        let path = path.into();
        let text = folder::read(&path)?;
        file::KeyFile::parse(&text, &path)?.open(password, &path)
    }

    /// Moves a key file into the folder [`RETIRED`] below the keystore, where Bardo neither lists nor opens it; another
    /// wallet still can. Returns its new path, or `None` if there is no such file.
    ///
    /// # Errors
    /// [`KeystoreError::Exists`] if a file of this name is there already, and [`KeystoreError::File`] if it cannot be moved.
    pub fn retire(&self, name: &KeyName) -> Result<Option<PathBuf>, KeystoreError> {
        let (path, folder) = (self.path(name), self.folder.join(RETIRED));
        if !path.exists() {
            return Ok(None);
        }
        let retired = folder.join(format!("{name}.json"));
        if retired.exists() {
            return Err(KeystoreError::Exists { name: name.clone(), path: retired });
        }
        folder::rename(&path, &folder, &retired)?;
        Ok(Some(retired))
    }

    /// Reads a file that belongs to `ledger`.
    fn read_of(&self, name: &KeyName, ledger: &LedgerId) -> Result<(PathBuf, file::KeyFile), KeystoreError> {
        let (path, file) = self.read(name)?;
        let (_, own) = file.claims().ok_or_else(|| KeystoreError::Unbound { path: path.clone() })?;
        if own != ledger {
            let (own, found) = (own.clone(), ledger.clone());
            return Err(KeystoreError::OtherLedger { name: name.clone(), own, found });
        }
        Ok((path, file))
    }

    fn read(&self, name: &KeyName) -> Result<(PathBuf, file::KeyFile), KeystoreError> {
        let path = self.path(name);
        if !path.exists() {
            let known = folder::names(&self.folder).unwrap_or_default();
            return Err(KeystoreError::NotFound { name: name.clone(), known });
        }
        folder::only_the_owner(&self.folder, &path)?;
        let text = folder::read(&path)?;
        let file = file::KeyFile::parse(&text, &path)?;
        Ok((path, file))
    }

    fn path(&self, name: &KeyName) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

impl FromStr for KeyName {
    type Err = KeystoreError;

    fn from_str(text: &str) -> Result<Self, KeystoreError> {
        let fits = (1..=LONGEST_NAME).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if fits { Ok(Self(text.to_owned())) } else { Err(KeystoreError::Name(SafeText::clean(text, 60))) }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn there_is(names: &[KeyName]) -> String {
    match names {
        [] => String::new(),
        names => format!(" (known: {})", names.iter().map(KeyName::to_string).collect::<Vec<_>>().join(", ")),
    }
}
