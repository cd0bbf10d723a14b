//! Password check before a command that permits more. Only this module creates an [`OperatorProof`].
//!
//! A command that concerns a whole data folder, such as lifting a stop, requires the password of every key file in it.
//! Otherwise anyone could add a key of their own and use its password. A command that concerns one account requires the
//! password of that account, or of the session key that acts for it. Without key files, or if only devnets are concerned, no password is required. A proof is
//! created all the same, so that there is a single code path.
//!
//! A file in the data folder limits guessing across processes: one check at a time, and a pause after each wrong
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
use crate::operator_proof::{Authorisation, OperatorProof, ProofBasis};
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};

/// Name of the file that counts wrong passwords, in the data folder.
const ATTEMPTS: &str = "password-attempts";
/// Number of wrong passwords without a pause, to allow for typing errors.
const FREE: u32 = 2;
/// Pause after the first wrong password beyond [`FREE`], in milliseconds. Each further one doubles it.
const PAUSE: u64 = 2_000;
/// Maximum pause, in milliseconds.
const MAX_PAUSE: u64 = 900_000;
/// Maximum number of bytes read from the file.
const MAX_BYTES: u64 = 4_096;

/// Reason for which no proof was created.
#[derive(Debug, thiserror::Error)]
pub enum ReauthenticationError {
    /// A password is missing.
    #[error(
        "this needs the password of the key {name}: nothing was changed. Enter it at the prompt, or use --password-fd"
    )]
    Missing {
        /// Name of the key.
        name: KeyName,
    },
    /// Too many wrong passwords.
    #[error("{wrong} wrong passwords in a row: nothing was changed. Try again in {retry_after_seconds} s")]
    TooMany {
        /// Number of wrong passwords in a row.
        wrong: u32,
        /// Remaining pause, in seconds.
        retry_after_seconds: u64,
    },
    /// The data folder has no key file of the account.
    #[error("this data folder has no key file of {account} to check the password against: nothing was changed")]
    NoKeyOf {
        /// Account without a key file.
        account: Address,
    },
    /// A password is wrong, or a key file cannot be used.
    #[error("nothing was changed: {0}")]
    Key(#[from] KeystoreError),
    /// The file with the count of wrong passwords cannot be used.
    #[error("cannot use {path}: {reason}; passwords cannot be checked without this file")]
    Attempts {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The check was interrupted because the process is ending.
    #[error("the password was not checked: the process is shutting down")]
    Interrupted,
}

/// Count of consecutive wrong passwords, as stored in the file.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct FailedAttempts {
    wrong: u32,
    /// Time of the last check, in milliseconds since the Unix epoch.
    last: u64,
}

/// Password check of one data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reauthentication {
    folder: PathBuf,
    keystore: Keystore,
    /// Owner and key file of the session key that acts.
    acting: Option<(Address, KeyName)>,
    /// Key files of which a command for the whole folder needs no password.
    idle: Vec<KeyName>,
}

impl Reauthentication {
    /// Creates the password check of the data folder `folder`, with the key files in `keys`.
    pub fn new(folder: &Path, keys: impl Into<PathBuf>) -> Self {
        Self { folder: folder.to_owned(), keystore: Keystore::at(keys), acting: None, idle: Vec::new() }
    }

    /// Lets the session key `name` prove decisions about the account of its owner, which it acts for and which has no key
    /// file of its own here. The caller has checked that the owner has signed for this session key.
    #[must_use]
    pub fn acting(self, owner: Address, name: KeyName) -> Self {
        Self { acting: Some((owner, name)), ..self }
    }

    /// Leaves out the key files `names`, which sign nothing, when a command concerns the whole folder. If no other is
    /// left, all of them count.
    #[must_use]
    pub fn without(self, names: Vec<KeyName>) -> Self {
        Self { idle: names, ..self }
    }

    /// Returns the keys whose passwords `wanted` requires, in the order of the listing; empty if it requires none.
    /// `devnet` is true if the command concerns devnets only.
    ///
    /// # Errors
    /// [`ReauthenticationError`] if a key file cannot be read, or if the account has none.
    pub fn keys_for(&self, wanted: &Authorisation, devnet: bool) -> Result<Vec<KeyEntry>, ReauthenticationError> {
        if devnet && !wanted.is_of_every_network() {
            return Ok(Vec::new());
        }
        let all = self.keystore.list()?.into_iter().map(|listed| listed.entry).collect::<Result<Vec<_>, _>>()?;
        match wanted.account() {
            None => {
                let count = |entry: &&KeyEntry| !self.idle.contains(&entry.name);
                let counting: Vec<KeyEntry> = all.iter().filter(count).cloned().collect();
                // Otherwise a changed row would make the command need no password at all.
                Ok(if counting.is_empty() { all } else { counting })
            }
            Some(account) => {
                // The account's own key decides wherever it is here: a session key must not stand in for it.
                let own = all.iter().find(|entry| entry.address == account);
                let acting = self.acting.as_ref().filter(|(owner, _)| *owner == account).map(|(_, name)| name);
                let entry = own.or_else(|| all.iter().find(|entry| Some(&entry.name) == acting));
                entry.map(|entry| vec![entry.clone()]).ok_or(ReauthenticationError::NoKeyOf { account })
            }
        }
    }

    /// Checks the passwords that `wanted` requires and creates a proof for it. `now` is in milliseconds since the Unix
    /// epoch. The check takes about half a second and 256 MiB for each key, so run it on a blocking thread.
    ///
    /// # Errors
    /// [`ReauthenticationError`] if a password is missing or wrong, guessing is paused, or a file cannot be used.
    pub fn prove(
        &self,
        wanted: Authorisation,
        devnet: bool,
        passwords: &[(KeyName, Password)],
        now: u64,
    ) -> Result<OperatorProof, ReauthenticationError> {
        let keys = self.keys_for(&wanted, devnet)?;
        if keys.is_empty() {
            let basis = if devnet && !wanted.is_of_every_network() { ProofBasis::Devnet } else { ProofBasis::NoKeys };
            return Ok(OperatorProof::issue(wanted, basis, &self.folder, now));
        }
        // Nothing counts as a guess before every password is present.
        let mut given = Vec::new();
        for key in &keys {
            let password = passwords.iter().find(|(name, _)| *name == key.name).map(|(_, password)| password);
            given.push((key, password.ok_or_else(|| ReauthenticationError::Missing { name: key.name.clone() })?));
        }
        let accounts = self.counted(now, || {
            let mut accounts = Vec::new();
            for (key, password) in given {
                let account = self.keystore.verify(&key.name, password)?;
                // The listing and the check are separate reads, so the file may have been replaced in between.
                if account != key.address {
                    return Err(KeystoreError::Password { path: key.path.clone() });
                }
                // A session key proves what its owner's account does.
                accounts.push(wanted.account().unwrap_or(account));
            }
            Ok(accounts)
        })?;
        Ok(OperatorProof::issue(wanted, ProofBasis::Passwords(accounts), &self.folder, now))
    }

    /// Runs a password check, one at a time over all processes, and only after the pause for earlier wrong passwords.
    /// Only [`KeystoreError::Password`] counts as a wrong attempt.
    ///
    /// # Errors
    /// [`ReauthenticationError::TooMany`] during a pause, [`ReauthenticationError::Attempts`] if the count cannot be
    /// stored, and the error of `check`.
    pub fn counted<T>(
        &self,
        now: u64,
        check: impl FnOnce() -> Result<T, KeystoreError>,
    ) -> Result<T, ReauthenticationError> {
        // Keeps the file lock until the end, so that two processes cannot guess at once.
        let mut counter = self.counter()?;
        let attempts = self.read(&mut counter)?;
        if let Some(retry_after_seconds) = attempts.wait(now) {
            return Err(ReauthenticationError::TooMany { wrong: attempts.wrong, retry_after_seconds });
        }
        // Counted as wrong before the check, so that ending the process does not remove the attempt.
        let counted = FailedAttempts { wrong: attempts.wrong.saturating_add(1), last: now };
        self.write(&mut counter, counted)?;
        let checked = check();
        if !matches!(checked, Err(KeystoreError::Password { .. })) {
            let before = if checked.is_ok() { FailedAttempts::default() } else { attempts };
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

    /// Reads the count. A malformed file is an error, since its count is unknown.
    fn read(&self, counter: &mut File) -> Result<FailedAttempts, ReauthenticationError> {
        let mut text = String::new();
        counter.take(MAX_BYTES).read_to_string(&mut text).map_err(|reason| self.failed(reason))?;
        if text.trim().is_empty() {
            return Ok(FailedAttempts::default());
        }
        serde_json::from_str(&text).map_err(|error| self.failed(error.into()))
    }

    fn write(&self, counter: &mut File, attempts: FailedAttempts) -> Result<(), ReauthenticationError> {
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
    /// Returns the audit log's text for a rejected attempt; `None` if no password was checked or rejected.
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

impl FailedAttempts {
    /// Remaining pause before the next check, in seconds; `None` if it is over. A clock earlier than the last attempt
    /// does not shorten the pause.
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
    use crate::custody::secret::SecretKey;
    use crate::custody::signing::SigningKey;
    use bardo_base::id::PermitId;

    const PASSWORD: &str = "battery staple";

    fn key(folder: &Path, name: &str, secret: &SecretKey) -> KeyEntry {
        let (name, password) = (name.parse().unwrap(), Password::new(PASSWORD.to_owned()));
        Keystore::at(folder.join("keys")).create(&name, secret, &password, &"real-1".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_session_key_proves_what_its_owners_account_does_unless_the_owners_key_is_here() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, owners) = (folder.path(), SecretKey::generate().unwrap());
        let owner = SigningKey::new(&owners).unwrap().address();
        let session = key(folder, "session-1", &SecretKey::generate().unwrap());
        let gate = Reauthentication::new(folder, folder.join("keys"));
        let wanted = Authorisation::Approve { permit_id: PermitId::random(), account: owner };
        let refused = gate.keys_for(&wanted, false).unwrap_err();
        assert!(matches!(refused, ReauthenticationError::NoKeyOf { .. }), "{refused}");
        let gate = gate.acting(owner, session.name.clone());
        assert_eq!(gate.keys_for(&wanted, false).unwrap(), std::slice::from_ref(&session));
        // For another account it proves nothing.
        let other = Authorisation::LeavePaper { account: Address::repeat_byte(1) };
        let refused = gate.keys_for(&other, false).unwrap_err();
        assert!(matches!(refused, ReauthenticationError::NoKeyOf { .. }), "{refused}");
        let passwords = [(session.name.clone(), Password::new(PASSWORD.to_owned()))];
        let proof = gate.prove(wanted.clone(), false, &passwords, 1_000).unwrap();
        assert_eq!(proof.redeem(&wanted, 1_000), Ok(ProofBasis::Passwords(vec![owner])));
        let wrong = [(session.name, Password::new("another one".to_owned()))];
        assert!(gate.prove(wanted.clone(), false, &wrong, 1_000).is_err());
        // The owner's key decides as soon as it is here.
        let own = key(folder, "own", &owners);
        assert_eq!(gate.keys_for(&wanted, false).unwrap(), [own]);
    }

    #[test]
    fn keys_that_sign_nothing_are_not_asked_for_unless_there_is_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let idle = key(folder, "session-1", &SecretKey::generate().unwrap());
        let gate = Reauthentication::new(folder, folder.join("keys")).without(vec![idle.name.clone()]);
        assert_eq!(gate.keys_for(&Authorisation::ResetBreaker, false).unwrap(), std::slice::from_ref(&idle));
        let own = key(folder, "own", &SecretKey::generate().unwrap());
        assert_eq!(gate.keys_for(&Authorisation::ResetBreaker, false).unwrap(), [own]);
        // A decision about one account is of its key alone.
        let wanted = Authorisation::LeavePaper { account: idle.address };
        assert_eq!(gate.keys_for(&wanted, false).unwrap(), [idle]);
    }

    #[test]
    fn each_wrong_password_beyond_the_first_two_doubles_the_pause() {
        let wait = |wrong, now| FailedAttempts { wrong, last: 10_000 }.wait(now);
        assert_eq!((wait(0, 10_000), wait(1, 10_000), wait(2, 10_000)), (None, None, None));
        assert_eq!((wait(3, 10_000), wait(3, 11_999), wait(3, 12_000)), (Some(2), Some(1), None));
        assert_eq!((wait(4, 10_000), wait(5, 10_000), wait(6, 10_000)), (Some(4), Some(8), Some(16)));
        assert_eq!((wait(60, 10_000), wait(u32::MAX, 10_000)), (Some(900), Some(900)));
        // The clock was set back.
        assert_eq!(wait(3, 0), Some(2));
    }
}
