//! The data folder: where the stop file, the keys and the ledgers are, and which ledger belongs to
//! which network. What is in a ledger is each room's own business.
//!
//! ```text
//! STOP                         the stop file: any process and any person can set it
//! keys/                        key files
//! golems/ID/STRATEGY.md        what the owner wants of a Golem
//! runs/                        a journal for each run of the console, and for each call that writes
//! ledger/real/ledger.db        one for all real networks, so that caps hold across them
//! ledger/real/paper.db         the same tables for what is done on paper, and what moved there
//! ledger/devnet-ID/ledger.db   one for each devnet, worthless once that devnet has ended
//! ledger/embedded-ID/…         the same for a devnet inside one process
//! ledger/…/playbooks/NETWORK/ID/PLAYBOOK.md   a Golem's playbook, beside the rows that undo its changes
//! devnets/NAME/                a devnet that is kept between runs, see [`devnets`]; its ledger is ledger/devnet-ID
//! shows/ID/                    the same for one show, removed with it: its stop, its ledger and its playbook are its own
//! queue-secrets/devnet-ID      secret that authenticates the approval queue of that devnet's ledger
//! ```

mod binding;
pub mod devnets;
mod folders;
pub mod queue_secret;
pub mod show;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bardo_base::clock::Clock;
use bardo_base::config::Config;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{GolemId, InstanceId};
use bardo_safety::paper::{self, PaperLedger};
use bardo_safety::stop::StopFile;
use bardo_safety::{audit, ledger, permit, policy};
use bardo_store::{Migrations, Store, StoreConfig, StoreError};
use golem::memory;
use golem_chain::provider::{ConnectError, ProviderError};
use golem_chain::sender;
use golem_tools::engine;

use super::OpenWorld;
use super::questions::shared::{self, Shared};
use binding::Identity;

/// The tables of every room that keeps something in a ledger.
pub const ROOMS: &[Migrations] = &[
    binding::MIGRATIONS,
    engine::MIGRATIONS,
    sender::MIGRATIONS,
    ledger::MIGRATIONS,
    audit::MIGRATIONS,
    permit::MIGRATIONS,
    policy::MIGRATIONS,
    memory::MIGRATIONS,
    shared::MIGRATIONS,
];

const QUEUE_SECRETS: &str = "queue-secrets";
const LEDGERS: &str = "ledger";
const RUNS: &str = "runs";
const DATABASE: &str = "ledger.db";
const PAPER: &str = "paper.db";
const LOCK: &str = "in-use";

/// The data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    root: PathBuf,
    /// The operator's folder, where this is a show's: its stop counts here as well, and recordings are made there.
    outer: Option<PathBuf>,
}

/// Whose ledger it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerKind {
    /// All networks but devnets share it.
    Real,
    /// A devnet's, in this process or another.
    Devnet,
}

/// An open ledger. Cheap to clone; as long as a clone lives, nobody clears the folder away.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// The database.
    pub store: Store,
    /// Whose it is.
    pub kind: LedgerKind,
    /// Approval requests of all processes on this ledger.
    pub queue: Shared,
    id: Arc<str>,
    _in_use: Arc<File>,
}

/// Why no ledger is open.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder cannot be used.
    #[error("cannot use {}: {reason}; check that the data folder exists and can be written", path.display())]
    Folder {
        /// Which file or folder.
        path: PathBuf,
        /// Why not.
        reason: std::io::Error,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Play money and real money at once.
    #[error(
        "{devnet} is a devnet chain and {other} is not: one ledger cannot hold both. Leave one of them out of this run"
    )]
    Mixed {
        /// The devnet's chain.
        devnet: String,
        /// The other.
        other: String,
    },
    /// Chains of several devnets.
    #[error("{first} and {second} belong to different devnets. Use both from one `bardo devnet`, or leave one out")]
    TwoDevnets {
        /// A chain.
        first: String,
        /// A chain of another devnet.
        second: String,
    },
    /// Nothing tells which ledger is meant.
    #[error("no chain is configured, so no ledger can be opened")]
    NoChain,
    /// A chain that would have told is out of reach.
    #[error(transparent)]
    Unreachable(#[from] ConnectError),
    /// A chain did not answer what identifies it.
    #[error("cannot tell which devnet {chain} belongs to: {reason}")]
    Unidentified {
        /// The chain.
        chain: String,
        /// Why not.
        reason: ProviderError,
    },
    /// The chain's files are older than the ledger.
    #[error(
        "the kept {chain} ends at block {head}, and its ledger in {} has a transaction in block {number}, which the \
         chain lacks: the chain's files are older than the ledger. Nothing was opened. `bardo devnet restore` restores \
         a snapshot of both; `bardo devnet delete` deletes both",
        path.display()
    )]
    ChainBehind {
        /// The database.
        path: PathBuf,
        /// The chain.
        chain: String,
        /// Its newest block.
        head: u64,
        /// The block that the ledger knows.
        number: u64,
    },
    /// The ledger is of another chain that claims the same name.
    #[error(
        "{} was created for another {chain}: its first block was {bound} and is now {found}. A restarted devnet needs \
         a new id",
        path.display()
    )]
    OtherGenesis {
        /// The database.
        path: PathBuf,
        /// The chain.
        chain: String,
        /// Hash of the first block when the ledger was begun.
        bound: alloy::primitives::B256,
        /// And now.
        found: alloy::primitives::B256,
    },
}

impl From<DataError> for ToolError {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Unreachable(reason) => reason.into(),
            DataError::Unidentified { reason, .. } => reason.into(),
            DataError::Mixed { .. } | DataError::TwoDevnets { .. } | DataError::NoChain => {
                Self::new(ErrorCode::ValidationFailed, &error)
            }
            DataError::Folder { .. }
            | DataError::Store(_)
            | DataError::ChainBehind { .. }
            | DataError::OtherGenesis { .. } => Self::new(ErrorCode::StoreUnavailable, &error),
        }
    }
}

impl DataFolder {
    /// The configured folder; nothing is made yet.
    pub fn of(config: &Config) -> Self {
        Self { root: config.data_dir.value.clone(), outer: config.outer_data_dir.clone() }
    }

    /// The folder at `root`; nothing is made yet.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), outer: None }
    }

    /// The databases of all its ledgers, the one that was written last at the end.
    ///
    /// # Errors
    /// [`DataError::Folder`] where the folder is there and cannot be read.
    pub fn ledgers(&self) -> Result<Vec<PathBuf>, DataError> {
        folders::all(&self.ledger_folders())
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The stop file. In a show a stop of the operator's folder counts as well.
    pub fn stop_file(&self) -> StopFile {
        match &self.outer {
            Some(outer) => StopFile::in_folder(&self.root).beneath(outer),
            None => StopFile::in_folder(&self.root),
        }
    }

    /// Folder of a Golem's STRATEGY.md, which its owner writes.
    pub fn strategy(&self, golem_id: &GolemId) -> PathBuf {
        self.root.join("golems").join(golem_id.as_str())
    }

    /// The folder of key files.
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    /// A place for the journal of a run, which nobody else writes. Its folder is made.
    ///
    /// # Errors
    /// [`DataError::Folder`].
    pub fn new_journal(&self, clock: &dyn Clock) -> Result<PathBuf, DataError> {
        let runs = self.outer.as_ref().unwrap_or(&self.root).join(RUNS);
        folders::create(&runs)?;
        Ok(runs.join(format!("{}-{}.jsonl", clock.now_millis(), InstanceId::random())))
    }

    /// Makes the folder, readable by its owner alone, where it is not there yet.
    ///
    /// # Errors
    /// [`DataError::Folder`].
    pub fn create(&self) -> Result<(), DataError> {
        folders::create(&self.root)
    }

    /// Opens the ledger that belongs to the chains of a world: begins it where there is none, and
    /// refuses one that was begun for other chains.
    ///
    /// # Errors
    /// A [`DataError`] that says which chain or file stands against it.
    pub async fn open_ledger(&self, opened: &OpenWorld) -> Result<Ledger, DataError> {
        let ledger = self.open(Identity::of(opened).await?, opened.world.clock.now_millis()).await?;
        if let Some(sandbox) = opened.sandbox.as_ref().filter(|sandbox| sandbox.is_kept()) {
            devnets::check_against_chains(&ledger, sandbox).await?;
        }
        Ok(ledger)
    }

    /// Opens the ledger that all real networks share, and begins it where there is none: keys belong
    /// to it, whatever network this run is on. `now_millis` is the time since the Unix epoch.
    ///
    /// # Errors
    /// A [`DataError`] that says which file stands against it.
    pub async fn open_real_ledger(&self, now_millis: u64) -> Result<Ledger, DataError> {
        self.open(Identity::real(), now_millis).await
    }

    async fn open(&self, identity: Identity, now_millis: u64) -> Result<Ledger, DataError> {
        let folder = self.root.join(LEDGERS).join(&identity.folder);
        let now = Duration::from_millis(now_millis);
        let root = self.root.clone();
        let opening = {
            let folder = folder.clone();
            tokio::task::spawn_blocking(move || {
                folders::create(&root)?;
                folders::create(&folder)?;
                let in_use = folders::hold(&folder)?;
                folders::clear_away(&root.join(LEDGERS), &folder, &DataFolder::kept_ledgers(&root), now);
                queue_secret::clear_away(&root);
                let store = Store::open(StoreConfig::at(folder.join(DATABASE)), ROOMS)?;
                Ok::<_, DataError>((store, in_use))
            })
        };
        let (store, in_use) = opening.await.map_err(|_| StoreError::Interrupted)??;
        let id = binding::bind(&store, &identity).await?;
        let queue = Shared::new(store.clone());
        Ok(Ledger { store, kind: identity.kind, queue, id: id.into(), _in_use: Arc::new(in_use) })
    }

    /// The database that was written last, whichever network it is of; nothing where there is none.
    ///
    /// # Errors
    /// [`DataError::Folder`] where the folder is there and cannot be read.
    pub fn newest_ledger(&self) -> Result<Option<PathBuf>, DataError> {
        folders::newest(&self.ledger_folders())
    }

    /// The paper ledgers of all its networks.
    ///
    /// # Errors
    /// [`DataError::Folder`] where a folder is there and cannot be read.
    pub fn paper_ledgers(&self) -> Result<Vec<PathBuf>, DataError> {
        let beside = self.ledgers()?.into_iter().map(|database| database.with_file_name(PAPER));
        Ok(beside.filter(|paper| paper.exists()).collect())
    }

    /// The same, opened as one of the programs that work on it; nothing where there is none.
    ///
    /// # Errors
    /// [`DataError::Folder`], or a database that cannot be opened.
    pub fn newest_store(&self) -> Result<Option<Store>, DataError> {
        let Some(database) = self.newest_ledger()? else { return Ok(None) };
        Ok(Some(Store::open(StoreConfig::at(database), ROOMS)?))
    }
}

/// Opens a paper ledger, which has the tables of the real one and its own.
///
/// # Errors
/// [`StoreError`].
pub fn open_paper(path: &Path) -> Result<Store, StoreError> {
    let rooms: Vec<Migrations> = ROOMS.iter().copied().chain([paper::MIGRATIONS]).collect();
    Store::open(StoreConfig::at(path), &rooms)
}

impl Ledger {
    /// The paper ledger beside this one; begun where there is none.
    ///
    /// # Errors
    /// [`DataError::Store`].
    pub async fn paper(&self) -> Result<PaperLedger, DataError> {
        let path = self.store.path().with_file_name(PAPER);
        let opening = tokio::task::spawn_blocking(move || open_paper(&path));
        let store = opening.await.map_err(|_| StoreError::Interrupted)??;
        Ok(PaperLedger::new(store, self.store.clone()))
    }

    /// Names this ledger and no other, for whoever must not be used with two.
    pub fn id(&self) -> &str {
        &self.id
    }
}
