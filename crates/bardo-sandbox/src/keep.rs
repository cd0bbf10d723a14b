//! Storage of a devnet between runs: a folder with both chains (see `golem_chain::devnet::keep`) and a record of
//! constant properties: instance, seed, begin of the market, and the address books.
//!
//! The chains, their time, the market (a function of seed and age), price keeper, fillers and relayers continue in the
//! next run. Open orders and intents of the services, price shocks, and snapshots by `evm_snapshot` end with a run.
//! Orders and intents expire at their deadlines.
//!
//! Not here: names of devnets and their ledgers (see `bardo-runtime`, `data::devnets`).

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::primitives::Address;
use serde::{Deserialize, Serialize};

use super::error::SandboxError;
use super::genesis::Deployment;
use super::plan::ChainSetup;
use super::residents::KeptMarket;
use super::snapshot::BookFile;
use bardo_base::id::InstanceId;
use bardo_base::{private, regular_file};
use golem_chain::devnet::Chain;
use golem_chain::devnet::keep::{KeepError, KeptChain};
use golem_chain::fork::origin::Origin;
use golem_chain::network::LiveBlock;

/// Version of the record.
const VERSION: u32 = 1;
/// File name of the record. It is written last, so a folder without it contains no devnet yet.
pub const RECORD: &str = "devnet.json";
/// File name of the lock that the process using the folder holds.
pub const LOCK: &str = "in-use";
/// Name of a fork's chain in its folder.
const FORK_CHAIN: &str = "fork";
/// Folder of the cached values of a fork's origin.
const ORIGIN: &str = "origin";
/// Maximum size of a record, in bytes.
const MAX_RECORD: u64 = 1 << 20;

/// Error for a stored devnet that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Another process uses the devnet.
    #[error("{} is in use by another process: end that process, or keep this devnet under another name", .0.display())]
    InUse(PathBuf),
    /// The operating system reported an error.
    #[error("cannot use {}: {reason}; check that the folder is writable and the disk has free space", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The record is damaged or of another version.
    #[error("{} is damaged or of another version: {reason}; restore a snapshot of the devnet, or delete it", path.display())]
    Record {
        /// Path of the record.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// The files of a chain cannot be used.
    #[error(transparent)]
    Chain(#[from] KeepError),
}

/// Constant properties of a stored devnet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptRecord {
    version: u32,
    /// Identity of the devnet, after which its ledgers are named.
    pub instance: InstanceId,
    /// Seed of the market.
    pub seed: u64,
    /// Begin of the market, in seconds since the Unix epoch.
    pub began: u64,
    books: BTreeMap<String, BookFile>,
    /// The live network that it was forked from; absent for a devnet of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<KeptFork>,
}

/// Origin of a stored fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFork {
    /// Name of the live network.
    pub network: String,
    /// Block of the live network.
    pub block: LiveBlock,
    /// Account whose holdings the stand-in got; `None` without one.
    pub holder: Option<Address>,
    /// Market of the actors that live there; `None` without actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<KeptMarket>,
}

/// Folder of a stored devnet, locked by this process.
#[derive(Debug, Clone)]
pub struct KeptFolder {
    path: PathBuf,
    lock: Arc<File>,
}

impl KeptFolder {
    /// Creates a folder if it is missing, and locks it.
    ///
    /// # Errors
    /// [`KeptError::InUse`] if another process holds the lock, or [`KeptError::File`].
    pub fn open(path: &Path) -> Result<Self, KeptError> {
        private::folder(path).map_err(failed(path))?;
        let lock = path.join(LOCK);
        let mut options = private::file();
        options.read(true).write(true).create(true).truncate(false);
        let file = regular_file::open_with(&mut options, &lock).map_err(failed(&lock))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock: Arc::new(file) }),
            Err(TryLockError::WouldBlock) => Err(KeptError::InUse(path.to_owned())),
            Err(TryLockError::Error(reason)) => Err(failed(&lock)(reason)),
        }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the record; `None` if the folder contains no devnet yet.
    ///
    /// # Errors
    /// [`KeptError::Record`] if it is damaged, or [`KeptError::File`].
    pub fn record(&self) -> Result<Option<KeptRecord>, KeptError> {
        read_record(&self.path)
    }

    /// Starts to store newly built chains.
    pub(super) fn begin(
        &self,
        instance: InstanceId,
        seed: u64,
        began: u64,
        chains: &[(Chain, Deployment)],
    ) -> Result<Vec<KeptChain>, KeptError> {
        let mut kept = Vec::with_capacity(chains.len());
        let mut books = BTreeMap::new();
        for (chain, deployment) in chains {
            kept.push(KeptChain::begin(&self.path, deployment.plan.name, chain, Arc::clone(&self.lock))?);
            books.insert(deployment.plan.name.to_owned(), BookFile::of(deployment));
        }
        let path = self.path.join(RECORD);
        let record = KeptRecord { version: VERSION, instance, seed, began, books, fork: None };
        write_record(&path, &record)?;
        Ok(kept)
    }

    /// Starts to store a new fork.
    ///
    /// # Errors
    /// [`KeptError`] if a file cannot be written.
    pub fn begin_fork(&self, instance: InstanceId, fork: KeptFork, chain: &Chain) -> Result<KeptChain, KeptError> {
        let kept = KeptChain::begin(&self.path, FORK_CHAIN, chain, Arc::clone(&self.lock))?;
        let books = BTreeMap::new();
        let record = KeptRecord { version: VERSION, instance, seed: 0, began: 0, books, fork: Some(fork) };
        write_record(&self.path.join(RECORD), &record)?;
        Ok(kept)
    }

    /// Resumes the stored fork on its origin.
    ///
    /// # Errors
    /// [`KeptError`] if a file cannot be used, or the fork is of another block.
    pub fn resume_fork(&self, origin: &Arc<Origin>) -> Result<(KeptChain, Chain), KeptError> {
        Ok(KeptChain::resume_on(&self.path, FORK_CHAIN, Arc::clone(&self.lock), Some(origin))?)
    }

    /// Folder of the cached values of a fork's origin.
    pub fn origin_cache(&self) -> PathBuf {
        self.path.join(ORIGIN)
    }

    /// Resumes the stored chain of `plan` with its address book.
    pub(super) fn resume(
        &self,
        record: &KeptRecord,
        plan: &'static ChainSetup,
    ) -> Result<(KeptChain, Chain, Deployment), SandboxError> {
        let foreign = |reason: String| KeptError::Record { path: self.path.join(RECORD), reason };
        if let Some(fork) = &record.fork {
            return Err(foreign(format!("it is a fork of {}, so start it with --fork", fork.network)).into());
        }
        let book = record.books.get(plan.name).cloned();
        let book = book.ok_or_else(|| foreign(format!("it has no chain {}", plan.name)))?;
        let deployment = book.deployment(plan).map_err(|error| foreign(error.to_string()))?;
        let resumed = KeptChain::resume(&self.path, plan.name, Arc::clone(&self.lock));
        let (kept, chain) = resumed.map_err(KeptError::from)?;
        if chain.rules().chain_id != plan.chain_id {
            return Err(foreign(format!("the file of {} contains another chain", plan.name)).into());
        }
        Ok((kept, chain, deployment))
    }
}

/// Reads the record in a folder without locking it; `None` if the folder contains no devnet yet.
///
/// # Errors
/// [`KeptError::Record`] if it is damaged, or [`KeptError::File`].
pub fn read_record(folder: &Path) -> Result<Option<KeptRecord>, KeptError> {
    let path = folder.join(RECORD);
    let bytes = match regular_file::read(&path, MAX_RECORD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(failed(&path))?,
    };
    let damaged = |reason: String| KeptError::Record { path: path.clone(), reason };
    let record: KeptRecord = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if record.version == VERSION {
        Ok(Some(record))
    } else {
        Err(damaged(format!("it is of version {}, but this is version {VERSION}", record.version)))
    }
}

fn write_record(path: &Path, record: &KeptRecord) -> Result<(), KeptError> {
    let text = serde_json::to_vec_pretty(record)
        .map_err(|error| KeptError::Record { path: path.to_owned(), reason: error.to_string() })?;
    private::replace(path, &text).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> KeptError + use<> {
    let path = path.to_owned();
    |reason| KeptError::File { path, reason }
}
