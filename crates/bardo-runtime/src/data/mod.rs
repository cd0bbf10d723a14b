//! The data directory: location of the stop file, the keys and the ledgers, and the ledger of each network. The
//! contents of a ledger belong to the crates that define its tables.
//!
//! ```text
//! STOP                          the stop file: any process and any person can set it
//! keys/                         key files
//! alerts.json                   state of the alert channels
//! RESTORED                      mark of a restored copy, until the other one is confirmed stopped
//! golems/ID/STRATEGY.md         the owner's strategy for a Golem
//! runs/                         a journal for each run of the console, and for each call that writes
//! ledger/real/ledger.db         one for all real networks, so that limits apply across them
//! ledger/…/ledger.db-copies/     copies from before the last migrations
//! ledger/real/paper.db          paper ledger beside it, with the same tables and the paper balances
//! ledger/devnet-ID/ledger.db    one for each devnet, worthless once that devnet has ended
//! ledger/embedded-ID/…          the same for a devnet inside one process
//! ledger/…/playbooks/NETWORK/ID/PLAYBOOK.md   a Golem's playbook, beside the rows that undo its changes
//! labels.db                     the operator's labels of addresses, for all networks
//! agents.db                     index of agents on all networks that are not embedded; it can be deleted
//! forks/CHAIN-HASH.state        what rehearsals have read of a block of a live network
//! rehearsed/CALL_ID.json        a write of a rehearsal, to propose it on the live network
//! devnets/NAME/                 a devnet that is kept between runs, see [`devnets`]; its ledger is ledger/devnet-ID
//! shows/ID/                     data directory of one scenario run, removed with it: stop file, ledger, playbook
//! queue-secrets/devnet-ID       secret that authenticates the approval queue of that devnet's ledger
//! ```

pub(super) mod binding;
pub mod devnets;
mod folders;
pub mod queue_secret;
pub mod scenario_folder;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod versions;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bardo_accounting::tables as accounting;
use bardo_base::clock::Clock;
use bardo_base::config::Config;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{GolemId, InstanceId};
use bardo_base::model::StopLevel;
use bardo_safety::audit::LogAnchor;
use bardo_safety::paper::{self, PaperLedger};
use bardo_safety::stop::StopFile;
use bardo_safety::{audit, ledger, permit, policy};
use bardo_store::{Migrations, Store, StoreConfig, StoreError};
use golem::memory;
use golem_chain::provider::{ConnectError, ProviderError};
use golem_chain::sender;
use golem_tools::engine;

use super::questions::shared::{self, SharedQueue};
use super::{OpenEnvironment, backup};
use binding::ChainSetIdentity;

/// Migrations of all tables in a ledger.
pub const ALL_MIGRATIONS: &[Migrations] = &[
    binding::MIGRATIONS,
    engine::MIGRATIONS,
    sender::MIGRATIONS,
    ledger::MIGRATIONS,
    accounting::MIGRATIONS,
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
const AGENTS: &str = "agents.db";
const PAPER: &str = "paper.db";
const LOCK: &str = "in-use";

/// Data directory with the stop file, keys and ledgers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    root: PathBuf,
    /// The operator's data directory, if this one belongs to a scenario: its stop applies here as well, and recordings
    /// are written there.
    outer: Option<PathBuf>,
}

/// Kind of network that a ledger belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerKind {
    /// Shared by all networks except devnets.
    Real,
    /// Ledger of one devnet, in this process or another.
    Devnet,
}

/// An open ledger. Cheap to clone; its folder is not removed while a clone exists.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Database of the ledger.
    pub store: Store,
    /// Kind of network that it belongs to.
    pub kind: LedgerKind,
    /// Approval requests of all processes on this ledger.
    pub queue: SharedQueue,
    id: Arc<str>,
    _in_use: Arc<File>,
}

/// Errors of opening a ledger.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A folder or file cannot be used.
    #[error("cannot use {}: {reason}; check that the data folder exists and is writable", path.display())]
    Folder {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Play money and real money in one run.
    #[error(
        "{devnet} is a devnet chain and {other} is not: one ledger cannot hold both. Leave one of them out of this run"
    )]
    Mixed {
        /// Name of the devnet's chain.
        devnet: String,
        /// Name of the other chain.
        other: String,
    },
    /// Chains of several devnets in one run.
    #[error("{first} and {second} belong to different devnets. Use both from one `bardo devnet`, or leave one out")]
    TwoDevnets {
        /// Name of a chain.
        first: String,
        /// Name of a chain of another devnet.
        second: String,
    },
    /// A restore was interrupted before its files of the configuration were in place.
    #[error(
        "a restore into {} was interrupted before the configuration was in place, and nothing may be signed under \
         another policy: run `bardo resume`, which finishes it",
        .0.display()
    )]
    Unrestored(PathBuf),
    /// No chain identifies the ledger.
    #[error("no chain is configured, so no ledger can be opened")]
    NoChain,
    /// The chain that would identify the ledger is unreachable.
    #[error(transparent)]
    Unreachable(#[from] ConnectError),
    /// A chain did not answer the request that identifies it.
    #[error("cannot tell which devnet {chain} belongs to: {reason}")]
    Unidentified {
        /// Name of the chain.
        chain: String,
        /// Error of the endpoint.
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
        /// Path of the database.
        path: PathBuf,
        /// Name of the chain.
        chain: String,
        /// Number of its newest block.
        head: u64,
        /// Number of a block in the ledger that the chain lacks.
        number: u64,
    },
    /// The ledger belongs to another chain with the same name.
    #[error(
        "{} was created for another {chain}: its first block was {bound} and is now {found}. A restarted devnet needs \
         a new id",
        path.display()
    )]
    OtherGenesis {
        /// Path of the database.
        path: PathBuf,
        /// Name of the chain.
        chain: String,
        /// Hash of the first block when the ledger was created.
        bound: alloy::primitives::B256,
        /// Hash of the first block now.
        found: alloy::primitives::B256,
    },
}

impl From<DataError> for ToolError {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Unreachable(reason) => reason.into(),
            DataError::Unidentified { reason, .. } => reason.into(),
            DataError::Mixed { .. } | DataError::TwoDevnets { .. } | DataError::NoChain | DataError::Unrestored(_) => {
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
    /// Configured data directory; nothing is created yet.
    pub fn of(config: &Config) -> Self {
        Self { root: config.data_dir.value.clone(), outer: config.outer_data_dir.clone() }
    }

    /// Data directory at `root`; nothing is created yet.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), outer: None }
    }

    /// Paths of all its ledgers' databases, the most recently written last.
    ///
    /// # Errors
    /// [`DataError::Folder`] if a folder exists and cannot be read.
    pub fn ledgers(&self) -> Result<Vec<PathBuf>, DataError> {
        folders::all(&self.ledger_folders())
    }

    /// Path of the data directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The stop file. For a scenario, a stop of the operator's data directory applies as well.
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

    /// Directory of key files.
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    /// Returns a unique path for the journal of a run, and creates its folder.
    ///
    /// # Errors
    /// [`DataError::Folder`] if the folder cannot be created.
    pub fn new_journal(&self, clock: &dyn Clock) -> Result<PathBuf, DataError> {
        let runs = self.outer.as_ref().unwrap_or(&self.root).join(RUNS);
        folders::create(&runs)?;
        Ok(runs.join(format!("{}-{}.jsonl", clock.now_millis(), InstanceId::random())))
    }

    /// Creates the directory for its owner only, if it does not exist.
    ///
    /// # Errors
    /// [`DataError::Folder`] if it cannot be created.
    pub fn create(&self) -> Result<(), DataError> {
        folders::create(&self.root)
    }

    /// Opens the ledger of these chains; creates it if necessary, and rejects one that belongs to other chains.
    ///
    /// # Errors
    /// A [`DataError`] that names the chain or file at fault.
    pub async fn open_ledger(&self, opened: &OpenEnvironment) -> Result<Ledger, DataError> {
        let ledger = self.open(ChainSetIdentity::of(opened).await?, opened.world.clock.now_millis()).await?;
        if let Some(sandbox) = opened.sandbox.as_ref().filter(|sandbox| sandbox.is_kept()) {
            let chains =
                sandbox.chains().iter().map(|chain| (chain.deployment.plan.name.to_owned(), chain.devnet.clone()));
            devnets::check_against_chains(&ledger, chains.collect()).await?;
        }
        if let Some(rehearsal) = opened.rehearsal.as_ref().filter(|rehearsal| rehearsal.is_kept) {
            let chain = (rehearsal.network.name.clone(), rehearsal.devnet.clone());
            devnets::check_against_chains(&ledger, vec![chain]).await?;
        }
        Ok(ledger)
    }

    /// Opens the ledger that all real networks share; creates it if necessary. Keys belong to it, whatever network this
    /// run uses. `now_millis` is the time since the Unix epoch.
    ///
    /// # Errors
    /// A [`DataError`] that names the file at fault.
    pub async fn open_real_ledger(&self, now_millis: u64) -> Result<Ledger, DataError> {
        self.open(ChainSetIdentity::real(), now_millis).await
    }

    async fn open(&self, identity: ChainSetIdentity, now_millis: u64) -> Result<Ledger, DataError> {
        if backup::is_configuration_waiting(&self.root) {
            return Err(DataError::Unrestored(self.root.clone()));
        }
        let folder = self.root.join(LEDGERS).join(&identity.folder);
        let now = Duration::from_millis(now_millis);
        let root = self.root.clone();
        let opening = {
            let folder = folder.clone();
            tokio::task::spawn_blocking(move || {
                folders::create(&root)?;
                folders::create(&folder)?;
                let in_use = folders::mark_in_use(&folder)?;
                folders::remove_leftovers(&root.join(LEDGERS), &folder, &DataFolder::kept_ledgers(&root), now);
                queue_secret::remove_leftovers(&root);
                let store = Store::open(StoreConfig::at(folder.join(DATABASE)), ALL_MIGRATIONS)?;
                LogAnchor::begin(&store);
                Ok::<_, DataError>((store, in_use))
            })
        };
        let (store, in_use) = opening.await.map_err(|_| StoreError::Interrupted)??;
        let id = binding::bind(&store, &identity).await?;
        let queue = SharedQueue::new(store.clone());
        Ok(Ledger { store, kind: identity.kind, queue, id: id.into(), _in_use: Arc::new(in_use) })
    }

    /// Path of the index of agents on all networks that are not embedded. It can be deleted at any time.
    pub fn agents_database(&self) -> PathBuf {
        self.root.join(AGENTS)
    }

    /// Path of the database of the open chains; `None` if it has not been created yet.
    ///
    /// # Errors
    /// A [`DataError`] if the chains cannot be identified.
    pub async fn ledger_of_chains(&self, opened: &OpenEnvironment) -> Result<Option<PathBuf>, DataError> {
        let folder = ChainSetIdentity::of(opened).await?.folder;
        let database = self.root.join(LEDGERS).join(folder).join(DATABASE);
        Ok(database.is_file().then_some(database))
    }

    /// Levels of the stops that running scenarios and consoles on an embedded devnet have set for themselves alone.
    pub fn own_stops(&self) -> Vec<StopLevel> {
        let running = self.scenario_folders().into_iter().filter(|folder| folder.join(LOCK).is_file());
        running.filter_map(|folder| StopFile::in_folder(&folder).read().level()).collect()
    }

    /// Path of the most recently written database of any network; `None` if there is none.
    ///
    /// # Errors
    /// [`DataError::Folder`] if a folder exists and cannot be read.
    pub fn newest_ledger(&self) -> Result<Option<PathBuf>, DataError> {
        folders::newest(&self.ledger_folders())
    }

    /// Path of the most recently written database of devnets, or of the one that real networks share; `None` if there
    /// is none.
    ///
    /// # Errors
    /// [`DataError::Folder`] if a folder exists and cannot be read.
    pub fn newest_ledger_of(&self, kind: LedgerKind) -> Result<Option<PathBuf>, DataError> {
        let is_real = |database: &PathBuf| {
            database.parent().and_then(Path::file_name).is_some_and(|folder| folder == binding::REAL)
        };
        Ok(self.ledgers()?.into_iter().rfind(|database| is_real(database) == (kind == LedgerKind::Real)))
    }

    /// Paths of the paper ledgers of all networks.
    ///
    /// # Errors
    /// [`DataError::Folder`] if a folder exists and cannot be read.
    pub fn paper_ledgers(&self) -> Result<Vec<PathBuf>, DataError> {
        let beside = self.ledgers()?.into_iter().map(|database| database.with_file_name(PAPER));
        Ok(beside.filter(|paper| paper.exists()).collect())
    }

    /// Opens the most recently written database; `None` if there is none.
    ///
    /// # Errors
    /// [`DataError::Folder`], or [`DataError::Store`] for a database that cannot be opened.
    pub fn newest_store(&self) -> Result<Option<Store>, DataError> {
        let Some(database) = self.newest_ledger()? else { return Ok(None) };
        Ok(Some(Store::open(StoreConfig::at(database), ALL_MIGRATIONS)?))
    }
}

/// Opens a paper ledger, which has the tables of the real one and its own.
///
/// # Errors
/// A [`StoreError`] if the database cannot be opened.
pub fn open_paper(path: &Path) -> Result<Store, StoreError> {
    let rooms: Vec<Migrations> = ALL_MIGRATIONS.iter().copied().chain([paper::MIGRATIONS]).collect();
    Store::open(StoreConfig::at(path), &rooms)
}

impl Ledger {
    /// Opens the paper ledger beside this one; creates it if necessary.
    ///
    /// # Errors
    /// [`DataError::Store`] if the database cannot be opened.
    pub async fn paper(&self) -> Result<PaperLedger, DataError> {
        let path = self.store.path().with_file_name(PAPER);
        let opening = tokio::task::spawn_blocking(move || open_paper(&path));
        let store = opening.await.map_err(|_| StoreError::Interrupted)??;
        Ok(PaperLedger::new(store, self.store.clone()))
    }

    /// Unique name of this ledger, for objects that must not be used with two ledgers.
    pub fn id(&self) -> &str {
        &self.id
    }
}
