//! Devnets that are kept between runs, by name, each with its own ledger.
//!
//! ```text
//! devnets/NAME/                        one devnet: record, chains, lock (see `bardo_sandbox::keep`)
//! devnets/NAME/snapshots/LABEL/        copies of these files, with the ledger in `ledger/`
//! devnets/NAME/restoring               unfinished restore; the next process that opens the devnet completes it
//! ledger/devnet-ID/                    its ledger, by the devnet's id
//! ```
//!
//! A snapshot holds chains and ledger of the same moment, and a restore replaces both, so that the ledger never
//! contains transactions that the chain lacks.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use alloy::eips::BlockId;
use rusqlite::OptionalExtension as _;

use super::{DataError, DataFolder, LEDGERS, LOCK, Ledger, QUEUE_SECRETS, folders};
use bardo_base::id::InstanceId;
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file, removal};
use bardo_sandbox::keep::{self, KeptError, KeptFolder};
use bardo_store::StoreError;
use golem_chain::devnet::Devnet;

/// Folder of all kept devnets, in the data directory.
const DEVNETS: &str = "devnets";
const SNAPSHOTS: &str = "snapshots";
/// Folder of the ledger's copy in a snapshot.
const LEDGER_COPY: &str = "ledger";
/// Marker of an unfinished restore; contains the label of the snapshot.
const RESTORING: &str = "restoring";
/// Maximum length of a name.
const LONGEST_NAME: usize = 40;
/// Maximum size of a copied file, in bytes.
const MAX_FILE: u64 = 4 << 30;
/// Maximum depth of folders below a ledger's own.
const DEEPEST: usize = 8;

/// Name of a kept devnet, or label of a snapshot. It is part of a path, so few characters are permitted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DevnetName(String);

/// Error for a text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid name: use 1 to 40 lower-case letters, digits, `-` or `_`, beginning with a letter or a digit"
)]
pub struct DevnetNameError(SafeText);

impl FromStr for DevnetName {
    type Err = DevnetNameError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let begins = given.bytes().next().is_some_and(plain);
        let fits = given.len() <= LONGEST_NAME && given.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'));
        if begins && fits { Ok(Self(given.to_owned())) } else { Err(DevnetNameError(SafeText::clean(given, 60))) }
    }
}

impl fmt::Display for DevnetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Summary of a kept devnet for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSummary {
    /// Name of the devnet.
    pub name: DevnetName,
    /// Id of the devnet; `None` before its first run, or if the record is damaged.
    pub instance: Option<InstanceId>,
    /// Live network and block that it was forked from, such as `ethereum@21000000`; `None` for a devnet of its own.
    pub fork: Option<String>,
    /// True if a process uses it.
    pub is_in_use: bool,
    /// Size of its chains in bytes, without snapshots.
    pub bytes: u64,
    /// Labels of its snapshots.
    pub snapshots: Vec<DevnetName>,
}

/// Errors of operations on kept devnets.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    /// No kept devnet has this name.
    #[error("there is no kept devnet {0}: `bardo devnet list` lists all")]
    NoDevnet(DevnetName),
    /// The devnet has no snapshot with this label.
    #[error("{devnet} has no snapshot {label}: `bardo devnet list` lists all")]
    NoSnapshot {
        /// Name of the devnet.
        devnet: DevnetName,
        /// Label of the snapshot.
        label: DevnetName,
    },
    /// A snapshot with this label exists already.
    #[error("{devnet} already has a snapshot {label}: choose another label")]
    SnapshotExists {
        /// Name of the devnet.
        devnet: DevnetName,
        /// Label of the snapshot.
        label: DevnetName,
    },
    /// Another process uses its ledger.
    #[error("the ledger of {0} is in use by another process: stop that process first")]
    LedgerInUse(DevnetName),
    /// A file operation failed.
    #[error("cannot use {}: {reason}; check that the folder can be written and the disk has room", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The devnet's own files cannot be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DevnetError + use<> {
    let path = path.to_owned();
    |reason| DevnetError::File { path, reason }
}

impl DataFolder {
    /// Opens the kept devnet of this name, or a folder for a new one, and completes an interrupted restore. The folder
    /// is locked for this process until the devnet ends.
    ///
    /// # Errors
    /// A [`DevnetError`] if files cannot be used or another process uses the devnet.
    pub fn keep_devnet(&self, name: &DevnetName) -> Result<KeptFolder, DevnetError> {
        let root = self.root();
        for folder in [root.to_owned(), root.join(DEVNETS)] {
            private::folder(&folder).map_err(failed(&folder))?;
        }
        let folder = KeptFolder::open(&self.devnet(name))?;
        self.complete_restore(name, &folder)?;
        Ok(folder)
    }

    /// Lists the kept devnets by name.
    ///
    /// # Errors
    /// [`DevnetError::File`] if a folder cannot be read.
    pub fn kept_devnets(&self) -> Result<Vec<KeptSummary>, DevnetError> {
        let mut found = Vec::new();
        for name in names(&self.root().join(DEVNETS))? {
            let path = self.devnet(&name);
            let record = keep::read_record(&path).ok().flatten();
            let is_in_use = matches!(KeptFolder::open(&path), Err(KeptError::InUse(_)));
            let bytes = files(&path)?.iter().filter_map(|file| fs::metadata(file).ok()).map(|it| it.len()).sum();
            let snapshots = names(&path.join(SNAPSHOTS))?;
            found.push(KeptSummary {
                name,
                instance: record.as_ref().map(|record| record.instance),
                fork: record
                    .and_then(|record| record.fork)
                    .map(|fork| format!("{}@{}", fork.network, fork.block.number)),
                is_in_use,
                bytes,
                snapshots,
            });
        }
        Ok(found)
    }

    /// Live network and block hash of the kept fork of this name; `None` for other devnets, and if there is none.
    pub fn kept_rehearsal(&self, name: &DevnetName) -> Option<(String, alloy::primitives::B256)> {
        let fork = keep::read_record(&self.devnet(name)).ok().flatten()?.fork?;
        Some((fork.network, fork.block.hash))
    }

    /// Deletes a kept devnet with its snapshots and its ledger.
    ///
    /// # Errors
    /// A [`DevnetError`] if it does not exist, is in use, or files cannot be removed.
    pub fn delete_devnet(&self, name: &DevnetName) -> Result<(), DevnetError> {
        let folder = self.existing(name)?;
        let path = self.devnet(name);
        if let Some(ledger) = self.ledger_of(&path) {
            let _alone = self.alone(name, &ledger)?;
            remove(&ledger)?;
            let secret = ledger.file_name().map(|id| self.root().join(QUEUE_SECRETS).join(id));
            if let Some(secret) = secret.filter(|secret| secret.exists()) {
                fs::remove_file(&secret).map_err(failed(&secret))?;
            }
        }
        remove(&path)?;
        drop(folder);
        Ok(())
    }

    /// Copies an unused devnet with its ledger.
    ///
    /// # Errors
    /// A [`DevnetError`] if it does not exist or is in use, the label exists, or a copy fails.
    pub fn snapshot_devnet(&self, name: &DevnetName, label: &DevnetName) -> Result<(), DevnetError> {
        let folder = self.existing(name)?;
        self.complete_restore(name, &folder)?;
        let path = self.devnet(name);
        let snapshots = path.join(SNAPSHOTS);
        private::folder(&snapshots).map_err(failed(&snapshots))?;
        let target = snapshots.join(&label.0);
        if target.exists() {
            return Err(DevnetError::SnapshotExists { devnet: name.clone(), label: label.clone() });
        }
        // Not a valid name, so that an interrupted copy does not count as a snapshot.
        let new = snapshots.join(format!("{label}.new"));
        if new.exists() {
            remove(&new)?;
        }
        private::folder(&new).map_err(failed(&new))?;
        for file in files(&path)? {
            copy(&file, &new)?;
        }
        if let Some(ledger) = self.ledger_of(&path) {
            let _alone = self.alone(name, &ledger)?;
            copy_folder(&ledger, &new.join(LEDGER_COPY), DEEPEST)?;
        }
        fs::rename(&new, &target).map_err(failed(&target))
    }

    /// Replaces an unused devnet and its ledger with a snapshot. Later changes are lost.
    ///
    /// # Errors
    /// A [`DevnetError`] if devnet or snapshot do not exist, the devnet or its ledger is in use, or a file operation
    /// fails.
    pub fn restore_devnet(&self, name: &DevnetName, label: &DevnetName) -> Result<(), DevnetError> {
        let folder = self.existing(name)?;
        let path = self.devnet(name);
        let source = path.join(SNAPSHOTS).join(&label.0);
        if !source.join(keep::RECORD).is_file() {
            return Err(DevnetError::NoSnapshot { devnet: name.clone(), label: label.clone() });
        }
        // Checked before anything changes; the lock is taken again during the restore.
        self.ledger_of(&path).map(|ledger| self.alone(name, &ledger)).transpose()?;
        let marker = path.join(RESTORING);
        private::replace(&marker, label.0.as_bytes()).map_err(failed(&marker))?;
        self.complete_restore(name, &folder)
    }

    /// Executes a pending restore from the beginning: every step can be repeated.
    fn complete_restore(&self, name: &DevnetName, _folder: &KeptFolder) -> Result<(), DevnetError> {
        let path = self.devnet(name);
        let marker = path.join(RESTORING);
        let label = match regular_file::read_text(&marker, 100) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(failed(&marker))?,
        };
        let bad = |error: DevnetNameError| failed(&marker)(io::Error::other(error.to_string()));
        let source = path.join(SNAPSHOTS).join(label.parse::<DevnetName>().map_err(bad)?.0);
        let _alone = self.ledger_of(&path).map(|ledger| self.alone(name, &ledger)).transpose()?;
        for file in files(&source)? {
            copy(&file, &path)?;
        }
        if let Some(ledger) = self.ledger_of(&path) {
            if ledger.exists() {
                remove(&ledger)?;
            }
            let copied = source.join(LEDGER_COPY);
            if copied.is_dir() {
                copy_folder(&copied, &ledger, DEEPEST)?;
            }
        }
        fs::remove_file(&marker).map_err(failed(&marker))
    }

    /// Folder names of the ledgers that belong to kept devnets.
    pub(super) fn kept_ledgers(root: &Path) -> BTreeSet<String> {
        let devnets = root.join(DEVNETS);
        let records = names(&devnets).unwrap_or_default();
        let records = records.iter().filter_map(|name| keep::read_record(&devnets.join(&name.0)).ok().flatten());
        records.map(|record| format!("devnet-{}", record.instance)).collect()
    }

    fn devnet(&self, name: &DevnetName) -> PathBuf {
        self.root().join(DEVNETS).join(&name.0)
    }

    fn existing(&self, name: &DevnetName) -> Result<KeptFolder, DevnetError> {
        let path = self.devnet(name);
        if path.is_dir() { Ok(KeptFolder::open(&path)?) } else { Err(DevnetError::NoDevnet(name.clone())) }
    }

    /// Folder of the devnet's ledger, whether it exists or not.
    fn ledger_of(&self, devnet: &Path) -> Option<PathBuf> {
        let record = keep::read_record(devnet).ok().flatten()?;
        Some(self.root().join(LEDGERS).join(format!("devnet-{}", record.instance)))
    }

    /// Locks a ledger exclusively, if it exists.
    fn alone(&self, name: &DevnetName, ledger: &Path) -> Result<Option<fs::File>, DevnetError> {
        if !ledger.is_dir() {
            return Ok(None);
        }
        let path = ledger.join(LOCK);
        let lock = folders::open_lock(&path).map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(fs::TryLockError::WouldBlock) => Err(DevnetError::LedgerInUse(name.clone())),
            Err(fs::TryLockError::Error(reason)) => Err(failed(&path)(reason)),
        }
    }
}

/// Rejects a ledger that contains a settled transaction in a block that a kept chain lacks. The chain's files are then
/// older, and new signatures would rely on money that is not there.
pub(super) async fn check_against_chains(ledger: &Ledger, chains: Vec<(String, Devnet)>) -> Result<(), DataError> {
    const NEWEST: &str = "SELECT block_number, block_hash FROM sender_transaction
        WHERE chain_id = ?1 AND block_number IS NOT NULL AND settled_at IS NOT NULL
        ORDER BY block_number DESC LIMIT 1";
    for (name, devnet) in chains {
        let chain_id = devnet.chain_id().cast_signed();
        let newest: Option<(i64, Vec<u8>)> = ledger.store.read(move |connection| {
            let row = connection.query_row(NEWEST, [chain_id], |row| Ok((row.get(0)?, row.get(1)?)));
            row.optional().map_err(StoreError::from)
        })?;
        let Some((number, hash)) = newest else { continue };
        let number = number.cast_unsigned();
        let asked = devnet.run(move |chain| {
            let oldest = chain.blocks(1, u64::MAX).next().map(|block| block.number());
            let found = chain.block(BlockId::number(number)).map(|block| block.hash);
            // Blocks that are too old to be kept cannot be compared.
            let is_there = found.map_or_else(|| oldest.is_some_and(|oldest| number < oldest), |at| at.0 == *hash);
            (is_there, chain.number())
        });
        match asked.await {
            Ok((true, _)) => {}
            Ok((false, head)) => {
                let (path, chain) = (ledger.store.path().to_owned(), name);
                return Err(DataError::ChainBehind { path, chain, head, number });
            }
            Err(gone) => return Err(StoreError::Query(gone.to_string()).into()),
        }
    }
    Ok(())
}

/// Entries of a folder that have valid names, sorted. Links are skipped.
fn names(folder: &Path) -> Result<Vec<DevnetName>, DevnetError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed(folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(folder))?;
        let is_folder = entry.file_type().map_err(failed(folder))?.is_dir();
        names.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()).filter(|_| is_folder));
    }
    names.sort_unstable();
    Ok(names)
}

/// Files of a devnet: its record, and checkpoint and log of each chain.
fn files(folder: &Path) -> Result<Vec<PathBuf>, DevnetError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let is_chain = path.extension().is_some_and(|extension| extension == "chain" || extension == "blocks");
        if is_chain || path.file_name().is_some_and(|name| name == keep::RECORD) {
            files.push(path);
        }
    }
    // The record is last, after the files it refers to.
    files.sort_by_key(|path| path.file_name().is_some_and(|name| name == keep::RECORD));
    Ok(files)
}

/// Copies a regular file into a folder, atomically.
fn copy(file: &Path, folder: &Path) -> Result<(), DevnetError> {
    let Some(name) = file.file_name() else { return Ok(()) };
    let bytes = regular_file::read(file, MAX_FILE).map_err(failed(file))?;
    let target = folder.join(name);
    private::replace(&target, &bytes).map_err(failed(&target))
}

/// Copies the regular files of a folder and its subfolders, without locks.
fn copy_folder(source: &Path, target: &Path, deep: usize) -> Result<(), DevnetError> {
    private::folder(target).map_err(failed(target))?;
    for entry in fs::read_dir(source).map_err(failed(source))? {
        let entry = entry.map_err(failed(source))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed(source))?);
        if kind.is_file() && entry.file_name() != LOCK {
            copy(&path, target)?;
        } else if kind.is_dir() && deep > 0 {
            copy_folder(&path, &target.join(entry.file_name()), deep - 1)?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<(), DevnetError> {
    match removal::folder(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(folder)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
