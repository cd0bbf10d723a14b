//! The password check before something lets more through: the only maker of an [`OperatorProof`].
//!
//! What concerns a whole data folder, such as lifting a stop, takes the password of every key file in it: otherwise anyone
//! could make a key of their own and use that. What concerns one account takes that account's. Where there is no key file,
//! or only devnets are concerned, there is no password; a proof is made all the same, so that the rest goes one path.
//!
//! Guessing is limited across processes by a file beside the keys: one check at a time, and a pause after each wrong
//! password that doubles. Passwords are never stored.
//!
//! Not here: prompts (`cli::password`, the console's decision dialog), and the audit log (`runtime::reauthentication`).

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use alloy::primitives::Address;
use serde::{Deserialize, Serialize};

use super::keystore::{KeyEntry, KeyName, Keystore, KeystoreError};
use super::secret::Password;
use crate::operator_proof::{Authorisation, Basis, OperatorProof};
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};

/// The file that counts wrong passwords, in the data folder.
const ATTEMPTS: &str = "password-attempts";
/// Wrong passwords that cost no pause: people mistype.
const FREE: u32 = 2;
/// The pause after the first wrong password beyond those, in milliseconds; each further one doubles it.
const PAUSE: u64 = 2_000;
/// The longest pause, in milliseconds.
const MAX_PAUSE: u64 = 900_000;
/// The longest file that is read.
const MAX_BYTES: u64 = 4_096;

/// Why no proof was made.
#[derive(Debug, thiserror::Error)]
pub enum ReauthenticationError {
    /// A password is missing.
    #[error(
        "this needs the password of the key {name}: nothing was changed. Type it at the prompt, or use --password-fd"
    )]
    Missing {
        /// The key.
        name: KeyName,
    },
    /// Too many wrong passwords.
    #[error("{wrong} wrong passwords in a row: nothing was changed. Try again in {retry_after_seconds} s")]
    TooMany {
        /// How many.
        wrong: u32,
        /// When the next one is checked.
        retry_after_seconds: u64,
    },
    /// The account has no key file here whose password could be checked.
    #[error(
        "there is no key file of {account} in this data folder whose password could be checked: nothing was changed"
    )]
    NoKeyOf {
        /// The account.
        account: Address,
    },
    /// A password is wrong, or a key file cannot be used.
    #[error("nothing was changed: {0}")]
    Key(#[from] KeystoreError),
    /// The count of wrong passwords cannot be kept.
    #[error("cannot use {path}: {reason}; no password is checked without that file")]
    Attempts {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The check did not end.
    #[error("the password was not checked: the program is ending")]
    Interrupted,
}

/// Wrong passwords in a row, as the file has them.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Attempts {
    wrong: u32,
    /// When the last one was checked, in milliseconds since the Unix epoch.
    last: u64,
}

/// The password check of one data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reauthentication {
    folder: PathBuf,
    keystore: Keystore,
}

impl Reauthentication {
    /// The check of the data folder `folder`, whose key files are in `keys`.
    pub fn new(folder: &Path, keys: impl Into<PathBuf>) -> Self {
        Self { folder: folder.to_owned(), keystore: Keystore::at(keys) }
    }

    /// The keys whose passwords `wanted` takes, by name; none where it takes no password. `devnet`: it concerns devnets
    /// only.
    ///
    /// # Errors
    /// [`ReauthenticationError`]: which keys there are cannot be known, or the account's is not there.
    pub fn keys_for(&self, wanted: &Authorisation, devnet: bool) -> Result<Vec<KeyEntry>, ReauthenticationError> {
        if devnet && !wanted.is_of_every_network() {
            return Ok(Vec::new());
        }
        let all = self.keystore.list()?.into_iter().map(|listed| listed.entry).collect::<Result<Vec<_>, _>>()?;
        match wanted.account() {
            None => Ok(all),
            Some(account) => match all.into_iter().find(|entry| entry.address == account) {
                Some(entry) => Ok(vec![entry]),
                None => Err(ReauthenticationError::NoKeyOf { account }),
            },
        }
    }

    /// Checks the passwords that `wanted` takes and makes a proof for it; `now` in milliseconds since the Unix epoch.
    /// Takes about half a second and 256 MiB for each key: not on a thread that serves others.
    ///
    /// # Errors
    /// [`ReauthenticationError`]: there is no proof.
    pub fn prove(
        &self,
        wanted: Authorisation,
        devnet: bool,
        passwords: &[(KeyName, Password)],
        now: u64,
    ) -> Result<OperatorProof, ReauthenticationError> {
        let keys = self.keys_for(&wanted, devnet)?;
        if keys.is_empty() {
            let basis = if devnet && !wanted.is_of_every_network() { Basis::Devnet } else { Basis::NoKeys };
            return Ok(OperatorProof::issue(wanted, basis, &self.folder, now));
        }
        // Nothing counts as a guess before every password is there.
        let mut given = Vec::new();
        for key in &keys {
            let password = passwords.iter().find(|(name, _)| *name == key.name).map(|(_, password)| password);
            given.push((key, password.ok_or_else(|| ReauthenticationError::Missing { name: key.name.clone() })?));
        }
        let accounts = self.counted(now, || {
            let mut accounts = Vec::new();
            for (key, password) in given {
                let account = self.keystore.verify(&key.name, password)?;
                // What was listed and what was opened are two readings of a file.
                if account != key.address {
                    return Err(KeystoreError::Password { path: key.path.clone() });
                }
                accounts.push(account);
            }
            Ok(accounts)
        })?;
        Ok(OperatorProof::issue(wanted, Basis::Passwords(accounts), &self.folder, now))
    }

    /// Checks passwords by `check`, one check at a time among all processes, and not before the pause after earlier wrong
    /// ones is over. Only [`KeystoreError::Password`] leaves an attempt counted as wrong.
    ///
    /// # Errors
    /// [`ReauthenticationError::TooMany`], [`ReauthenticationError::Attempts`], and what `check` answers.
    pub fn counted<T>(
        &self,
        now: u64,
        check: impl FnOnce() -> Result<T, KeystoreError>,
    ) -> Result<T, ReauthenticationError> {
        // Held until the end: two processes do not guess at once.
        let mut counter = self.counter()?;
        let attempts = self.read(&mut counter)?;
        if let Some(retry_after_seconds) = attempts.wait(now) {
            return Err(ReauthenticationError::TooMany { wrong: attempts.wrong, retry_after_seconds });
        }
        // Counted as wrong before it is checked, so that ending the process does not uncount it.
        let counted = Attempts { wrong: attempts.wrong.saturating_add(1), last: now };
        self.write(&mut counter, counted)?;
        let checked = check();
        if !matches!(checked, Err(KeystoreError::Password { .. })) {
            let before = if checked.is_ok() { Attempts::default() } else { attempts };
            self.write(&mut counter, before)?;
        }
        Ok(checked?)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(ATTEMPTS)
    }

    fn counter(&self) -> Result<File, ReauthenticationError> {
        let mut options = private::file();
        let options = options.read(true).write(true).create(true).truncate(false);
        let opened = regular_file::open_with(options, &self.path()).and_then(|file| file.lock().map(|()| file));
        opened.map_err(|reason| self.failed(reason))
    }

    /// What the file says. One that cannot be understood is an error: it is not ours to guess what it counted.
    fn read(&self, counter: &mut File) -> Result<Attempts, ReauthenticationError> {
        let mut text = String::new();
        counter.take(MAX_BYTES).read_to_string(&mut text).map_err(|reason| self.failed(reason))?;
        if text.trim().is_empty() {
            return Ok(Attempts::default());
        }
        serde_json::from_str(&text).map_err(|error| self.failed(error.into()))
    }

    fn write(&self, counter: &mut File, attempts: Attempts) -> Result<(), ReauthenticationError> {
        let text = serde_json::to_vec(&attempts).map_err(|error| self.failed(error.into()))?;
        let written = counter
            .rewind()
            .and_then(|()| counter.set_len(0))
            .and_then(|()| counter.write_all(&text))
            .and_then(|()| counter.sync_all());
        written.map_err(|reason| self.failed(reason))
    }

    fn failed(&self, reason: std::io::Error) -> ReauthenticationError {
        ReauthenticationError::Attempts { path: self.path(), reason }
    }
}

impl ReauthenticationError {
    /// What the audit log says of a refused attempt; `None` where no password was checked and none was refused.
    pub fn attempt(&self) -> Option<SafeText> {
        match self {
            Self::Key(KeystoreError::Password { .. }) | Self::TooMany { .. } => {
                Some(SafeText::clean(&self.to_string(), 200))
            }
            Self::Missing { .. } | Self::NoKeyOf { .. } | Self::Key(_) | Self::Attempts { .. } | Self::Interrupted => {
                None
            }
        }
    }
}

impl Attempts {
    /// How long the next password is not checked, in seconds; `None`: it may be now. A wall clock before the last attempt
    /// shortens nothing.
    fn wait(self, now: u64) -> Option<u64> {
        let beyond = self.wrong.checked_sub(FREE).filter(|beyond| *beyond > 0)?;
        let pause = PAUSE.saturating_mul(1u64.checked_shl(beyond - 1).unwrap_or(u64::MAX)).min(MAX_PAUSE);
        let left = match now.checked_sub(self.last) {
            Some(passed) => pause.saturating_sub(passed),
            None => pause,
        };
        (left > 0).then(|| left.div_ceil(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_password_beyond_the_first_two_doubles_the_pause() {
        let wait = |wrong, now| Attempts { wrong, last: 10_000 }.wait(now);
        assert_eq!((wait(0, 10_000), wait(1, 10_000), wait(2, 10_000)), (None, None, None));
        assert_eq!((wait(3, 10_000), wait(3, 11_999), wait(3, 12_000)), (Some(2), Some(1), None));
        assert_eq!((wait(4, 10_000), wait(5, 10_000), wait(6, 10_000)), (Some(4), Some(8), Some(16)));
        assert_eq!((wait(60, 10_000), wait(u32::MAX, 10_000)), (Some(900), Some(900)));
        // A clock that was set back.
        assert_eq!(wait(3, 0), Some(2));
    }
}
