//! Keys at rest: one encrypted file each, in a folder of their own, in the form that other wallets read (web3 secret
//! storage, version 3). A file is made for its owner's eyes from the first byte, whole or not at all, and never over
//! another.
//!
//! | file | holds |
//! |---|---|
//! | `file` | the form of a key file, with what of it is believed |
//! | `cipher` | from a password to a key and back |
//! | `folder` | files, names, modes |

mod cipher;
mod file;
mod folder;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use alloy::primitives::Address;

use super::binding::LedgerId;
use super::local::LocalAccount;
use super::secret::{Password, SecretError, SecretKey, for_a_new_key};
use super::signing::Key;
use bardo_base::text::SafeText;

pub use cipher::{MOST_MEMORY, MOST_ROUNDS};

/// The longest name of a key, in characters.
const LONGEST_NAME: usize = 40;

/// The name of a key: letters, digits, `-` and `_`. Also its file's, so nothing in it can lead to another folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

/// A folder of key files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keystore {
    folder: PathBuf,
}

/// A key file as it can be told without its password. The address is the file's own claim until it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its name.
    pub name: KeyName,
    /// The file.
    pub path: PathBuf,
    /// Whose key the file says it is.
    pub address: Address,
    /// The ledger it belongs to.
    pub ledger: LedgerId,
}

/// A file of the folder, whether or not it can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: KeyName,
    /// What it says, or why it cannot be used.
    pub entry: Result<KeyEntry, KeystoreError>,
}

/// Why a key file cannot be made, read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeystoreError {
    /// Not a name.
    #[error("`{0}` is no name for a key: take 1 to 40 letters, digits, `-` or `_`")]
    Name(SafeText),
    /// A key of that name is there.
    #[error("there is a key called `{name}` already ({path}); it stays as it is: choose another name")]
    Exists {
        /// The name.
        name: KeyName,
        /// Its file.
        path: PathBuf,
    },
    /// No key of that name.
    #[error("there is no key called `{name}`{}; `bardo keys list` lists them", there_is(.known))]
    NotFound {
        /// The name.
        name: KeyName,
        /// The names there are.
        known: Vec<KeyName>,
    },
    /// The system refused.
    #[error("{path}: {reason}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        reason: SafeText,
    },
    /// Others could read or replace it.
    #[error(
        "{path} can be reached by others (mode {mode:o}): run `chmod {right:o} {path}`, and think about who may have copied it"
    )]
    Mode {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// What the mode should be.
        right: u32,
    },
    /// Not a key file, or not one of version 3.
    #[error("{path} is no key file that can be read: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: SafeText,
    },
    /// Opening it would take more memory or time than any wallet asks for.
    #[error("{path} asks for {what}, more than any wallet does: it is not opened")]
    TooCostly {
        /// The file.
        path: PathBuf,
        /// What it asks for.
        what: &'static str,
    },
    /// The password is not the one, or the file was changed.
    #[error("{path} does not open: the password is wrong, or the file was changed")]
    Password {
        /// The file.
        path: PathBuf,
    },
    /// The key inside is not the one the file claims.
    #[error("{path} holds the key of {found} and says it is {claimed}'s: somebody has changed it; do not use it")]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// Of the key inside.
        found: Address,
        /// In the file's words.
        claimed: Address,
    },
    /// Another wallet's file, which belongs to no ledger.
    #[error("{path} belongs to no ledger: bring it in with `bardo keys import NAME --keystore {path}`")]
    Unbound {
        /// The file.
        path: PathBuf,
    },
    /// It belongs to another ledger.
    #[error(
        "the key `{name}` belongs to ledger {own}, and this is ledger {found}: one key is counted in one ledger, or its limits \
         would hold twice over; use its own data folder, or import the key here and delete it there"
    )]
    OtherLedger {
        /// The key.
        name: KeyName,
        /// The ledger it belongs to.
        own: LedgerId,
        /// The one it was to be used with.
        found: LedgerId,
    },
    /// The secret itself is none.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl Keystore {
    /// The key files in `folder`, which need not be there yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Encrypts a key into a new file, bound to `ledger`. Takes about half a second and 256 MiB on purpose.
    ///
    /// # Errors
    /// [`KeystoreError::Exists`]; [`SecretError::ShortPassword`]; [`KeystoreError::File`] if the file could not be made,
    /// of which then nothing is left.
    pub fn create(
        &self,
        name: &KeyName,
        secret: &SecretKey,
        password: &Password,
        ledger: &LedgerId,
    ) -> Result<KeyEntry, KeystoreError> {
        let password = for_a_new_key(password.clone())?;
        let path = self.path(name);
        // Before the work; the creation itself decides.
        if path.exists() {
            return Err(KeystoreError::Exists { name: name.clone(), path });
        }
        let key = Key::new(secret).ok_or(SecretError::OutOfRange)?;
        let address = key.address();
        let written = file::write(secret, &password, address, ledger)?;
        folder::create(&self.folder, &path, written.as_bytes(), name)?;
        Ok(KeyEntry { name: name.clone(), path, address, ledger: ledger.clone() })
    }

    /// Every file in the folder that looks like a key, by name; those that cannot be read say why.
    ///
    /// # Errors
    /// [`KeystoreError::File`] if the folder cannot be read. One that is not there holds nothing.
    pub fn list(&self) -> Result<Vec<Listed>, KeystoreError> {
        let names = folder::names(&self.folder)?;
        Ok(names.into_iter().map(|name| Listed { entry: self.entry(&name), name }).collect())
    }

    /// What a file says of itself.
    ///
    /// # Errors
    /// [`KeystoreError`].
    pub fn entry(&self, name: &KeyName) -> Result<KeyEntry, KeystoreError> {
        let (path, file) = self.read(name)?;
        let (address, ledger) = file.claims().ok_or_else(|| KeystoreError::Unbound { path: path.clone() })?;
        Ok(KeyEntry { name: name.clone(), address, ledger: ledger.clone(), path })
    }

    /// Opens a key for signing, for use with `ledger`. Takes about half a second and 256 MiB: not on a thread that
    /// serves others.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], [`KeystoreError::OtherLedger`], and what is wrong with the file.
    pub fn open(&self, name: &KeyName, password: &Password, ledger: &LedgerId) -> Result<LocalAccount, KeystoreError> {
        let (path, file) = self.read(name)?;
        let (_, own) = file.claims().ok_or_else(|| KeystoreError::Unbound { path: path.clone() })?;
        if own != ledger {
            let (own, found) = (own.clone(), ledger.clone());
            return Err(KeystoreError::OtherLedger { name: name.clone(), own, found });
        }
        let secret = file.open(password, &path)?;
        let key = Key::new(&secret).ok_or(SecretError::OutOfRange)?;
        Ok(LocalAccount::open(key))
    }

    /// Whether the password opens this key file, whatever ledger it belongs to; the account inside. Takes as long as
    /// [`Self::open`], and keeps nothing of the key.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], and what is wrong with the file.
    pub fn verify(&self, name: &KeyName, password: &Password) -> Result<Address, KeystoreError> {
        let (path, file) = self.read(name)?;
        let secret = file.open(password, &path)?;
        Ok(Key::new(&secret).ok_or(SecretError::OutOfRange)?.address())
    }

    /// The key inside another wallet's file, wherever that lies; for importing.
    ///
    /// # Errors
    /// [`KeystoreError::Password`], and what is wrong with the file.
    pub fn read_foreign(path: impl Into<PathBuf>, password: &Password) -> Result<SecretKey, KeystoreError> {
        let path = path.into();
        let text = folder::read(&path)?;
        file::KeyFile::parse(&text, &path)?.open(password, &path)
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
        names => format!(" (there is {})", names.iter().map(KeyName::to_string).collect::<Vec<_>>().join(", ")),
    }
}
