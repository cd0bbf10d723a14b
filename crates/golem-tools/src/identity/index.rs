//! Index of a chain's agents, read from the registries' logs.
//!
//! Logs of final blocks are stored with the hash of the last block read, so that the next reading begins there. Logs of
//! younger blocks are read again each time and stay in memory: a reorganisation of them needs no repair. If the chain no
//! longer has the last block read, the index goes back to the last one that the chain still has.
//!
//! Files in IPFS that were read before are kept beside the logs, by the identifiers that prove them, and filled into the
//! agents that name them at each reading. They do not depend on the chain, so a reorganisation leaves them.
//!
//! All reads are answers on which the endpoints agree. An index of an endpoint that is asked alone is in memory only.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, B256, Bytes, Log, LogData, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{Filter, Log as RpcLog};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::blocks::{BlockPoint, asks_for_less, block, is_on_chain, newest};
use crate::engine::ConnectedChain;
use bardo_abi::erc8004::{ReputationRegistry, ValidationRegistry};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use bardo_store::{Migrations, Store, StoreConfig, StoreError};
use golem_chain::multicall::CallBatch;
use golem_chain::network::{KnownContract, NetworkKind};
use golem_chain::provider::ProviderError;
use golem_protocols::erc8004::AgentRegistry;
use golem_protocols::erc8004::directory::{AgentDirectory, RegistrySet};
use golem_protocols::erc8004::file::ReadRegistration;
use golem_protocols::erc8004::kept::{KeptBlocks, MAX_KEPT, MAX_KEPT_BYTES};
use golem_protocols::erc8004::location::{Cid, FileLocation, IpfsPath};

/// Migrations of the index's database, which can be deleted at any time.
const MIGRATIONS: Migrations = Migrations {
    room: "agents",
    steps: &[
        "
    CREATE TABLE agents_checkpoint (
        chain_id INTEGER NOT NULL,
        registry BLOB NOT NULL,
        number INTEGER NOT NULL,
        hash BLOB NOT NULL,
        PRIMARY KEY (chain_id, registry, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE agents_log (
        chain_id INTEGER NOT NULL,
        registry BLOB NOT NULL,
        number INTEGER NOT NULL,
        log_index INTEGER NOT NULL,
        time INTEGER NOT NULL,
        address BLOB NOT NULL,
        topics BLOB NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (chain_id, registry, number, log_index)
    ) STRICT;
",
        "
    CREATE TABLE agents_block (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        cid TEXT NOT NULL UNIQUE,
        bytes BLOB NOT NULL
    ) STRICT;
",
    ],
};

/// Date of the proposal of ERC-8004, 13 August 2025, in seconds since the Unix epoch. No registry is older.
const FIRST_TIME: u64 = 1_755_043_200;
/// Depth from which a block counts as final where the chain does not say: on devnets, and at endpoints without the tag.
const FINAL_DEPTH: u64 = 64;
/// Number of blocks of the first request for logs.
const FIRST_SPAN: u64 = 10_000;
/// Maximum number of blocks of a request for logs.
const MAX_SPAN: u64 = 1_000_000;
/// Number of checkpoints kept: the deepest reorganisation that leaves a part of the index valid.
const KEPT_CHECKPOINTS: u32 = 256;
/// Number of attempts to read the youngest blocks while the chain reorganises.
const ATTEMPTS: usize = 3;
/// Time for which a file in IPFS that was requested in vain is not requested for a search again.
const MISSED_FOR: Duration = Duration::from_secs(600);
/// Maximum number of such files that are remembered.
const MAX_MISSED: usize = 4_096;
/// Number of headers requested at once.
const HEADERS_AT_ONCE: usize = 8;

/// Agents of a chain at one block.
#[derive(Debug, Clone)]
pub(crate) struct AgentView {
    /// Agents by the logs up to the block.
    pub(crate) directory: Arc<AgentDirectory>,
    /// Block up to which logs were read.
    pub(crate) head: BlockPoint,
}

/// Index of one chain's agents. Cheap to clone; clones share the index.
#[derive(Clone, Default)]
pub struct AgentIndex {
    inner: Arc<SharedIndex>,
}

#[derive(Default)]
struct SharedIndex {
    database: Mutex<Option<PathBuf>>,
    state: tokio::sync::Mutex<Option<IndexState>>,
    kept: Mutex<KeptBlocks>,
    /// Database of the kept blocks, once they are loaded; the inner one is `None` without a database.
    blocks: tokio::sync::Mutex<Option<Option<Store>>>,
    /// Blocks that were not read in time or at all, and when; they are not requested again at once.
    missed: Mutex<BTreeMap<Cid, Instant>>,
}

impl fmt::Debug for AgentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentIndex").finish_non_exhaustive()
    }
}

impl AgentIndex {
    /// Keeps the index in this database, which is created at the first reading. Without it, the index is in memory.
    pub(crate) fn keep_in(&self, database: PathBuf) {
        *self.inner.database.lock() = Some(database);
    }

    /// Reads the logs that are new since the last reading, and returns the agents at the newest block.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` without registries, or if their code is missing or belongs to other registries;
    /// `CHAIN_INCONSISTENT` if endpoints contradict each other or the chain reorganises all the time;
    /// `STORE_UNAVAILABLE` if the database fails; the provider's error otherwise.
    pub(crate) async fn read(&self, chain: &ConnectedChain) -> Result<AgentView, ToolError> {
        let registries = registries(chain)?;
        let mut slot = self.inner.state.lock().await;
        for _ in 0..ATTEMPTS {
            let head = newest(chain).await?;
            let state = match slot.as_mut() {
                Some(state) => state,
                None => {
                    check_code(chain, &registries, head.hash).await?;
                    let store = self.open().await?;
                    slot.insert(IndexState::load(store, registries)?)
                }
            };
            if let Some(view) = state.follow(chain, head).await? {
                self.load_kept().await;
                return Ok(state.filled(view, &self.inner.kept));
            }
        }
        let what = format_args!("{} reorganised while its agents were read", chain.network());
        Err(ToolError::new(ErrorCode::ChainInconsistent, what).suggest("Try again after the next block."))
    }

    /// Keeps the blocks of a file in IPFS, so that agents that name it are found by its words from the next reading on. A
    /// database that fails costs only a later reading of the file.
    pub(crate) async fn keep(&self, blocks: &[(Cid, Vec<u8>)]) {
        let store = self.load_kept().await;
        let new: Vec<(Cid, Vec<u8>)> = {
            let mut kept = self.inner.kept.lock();
            // A file that is too large is not kept at all: a part of the way to it is of no use.
            if blocks.iter().any(|(_, bytes)| bytes.len() > MAX_KEPT_BYTES) {
                return;
            }
            blocks.iter().filter(|(cid, bytes)| kept.keep(*cid, bytes)).cloned().collect()
        };
        if let Some(store) = store.filter(|_| !new.is_empty())
            && let Err(error) = store.write(move |tx| keep_blocks(tx, &new)).await
        {
            tracing::warn!(%error, "an agent's file was not kept");
        }
    }

    /// Loads the stored blocks at the first call, and returns their database. Each is compared with its identifier again, so
    /// a database that somebody changed gives no agent another file.
    async fn load_kept(&self) -> Option<Store> {
        let mut slot = self.inner.blocks.lock().await;
        if slot.is_none() {
            let loaded = match self.open().await {
                Ok(Some(store)) => store.read(stored_blocks).map(|blocks| Some((store, blocks))).map_err(store_failed),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            let loaded = loaded.unwrap_or_else(|error| {
                tracing::warn!(%error, "the kept files of agents were not read");
                None
            });
            let mut kept = self.inner.kept.lock();
            let store = loaded.map(|(store, blocks)| {
                for (cid, bytes) in blocks {
                    kept.keep(cid, &bytes);
                }
                store
            });
            *slot = Some(store);
        }
        slot.clone().flatten()
    }

    /// Registration file in IPFS at an address, if it is kept.
    pub(crate) async fn kept_file(&self, address: &SafeText) -> Option<ReadRegistration> {
        drop(self.load_kept().await);
        let Ok(FileLocation::Ipfs(path)) = FileLocation::parse(address.as_str()) else { return None };
        let content = self.inner.kept.lock().content(&path).ok().flatten()?;
        ReadRegistration::read(&content).ok()
    }

    /// Of these files in IPFS, those that were not requested in vain lately.
    pub(crate) fn not_missed(&self, paths: Vec<(U256, &IpfsPath)>) -> Vec<U256> {
        let mut missed = self.inner.missed.lock();
        missed.retain(|_, at| at.elapsed() < MISSED_FOR);
        paths.into_iter().filter(|(_, path)| !missed.contains_key(&path.cid)).map(|(id, _)| id).collect()
    }

    /// Notes that a file in IPFS was requested in vain.
    pub(crate) fn miss(&self, path: &IpfsPath) {
        let mut missed = self.inner.missed.lock();
        if missed.len() < MAX_MISSED {
            missed.insert(path.cid, Instant::now());
        }
    }

    async fn open(&self) -> Result<Option<Store>, ToolError> {
        let Some(path) = self.inner.database.lock().clone() else { return Ok(None) };
        let opening = move || {
            let folder = path.parent().map(bardo_base::private::folder);
            folder.transpose().map_err(|error| StoreError::Open { path: path.clone(), reason: error.to_string() })?;
            Store::open(StoreConfig::at(path), &[MIGRATIONS])
        };
        let opened = tokio::task::spawn_blocking(opening).await.map_err(|_| store_failed(StoreError::Interrupted))?;
        opened.map(Some).map_err(store_failed)
    }
}

/// Registries of a chain's address book.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without an identity or a reputation registry.
pub(crate) fn registries(chain: &ConnectedChain) -> Result<RegistrySet, ToolError> {
    let network = chain.network();
    Ok(RegistrySet {
        identity: AgentRegistry {
            chain_id: network.chain_id,
            address: chain.contract(KnownContract::IdentityRegistry)?,
        },
        reputation: chain.contract(KnownContract::ReputationRegistry)?,
        validation: network.book.contract(KnownContract::ValidationRegistry),
    })
}

/// Checks that every registry has code, and that the others belong to the identity registry.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if not; otherwise as for [`ConnectedChain::ask_at`].
pub(crate) async fn check_code(chain: &ConnectedChain, registries: &RegistrySet, block: B256) -> Result<(), ToolError> {
    let unsupported = |what: String| Err(ToolError::new(ErrorCode::ChainUnsupported, what));
    for address in registries.addresses() {
        let code = chain.client.agreed().get_code_at(address).block_id(BlockId::hash(block)).await;
        if code.map_err(ProviderError::from)?.is_empty() {
            return unsupported(format!("there is no contract at {address}, the address book's registry of agents"));
        }
    }
    let mut calls = CallBatch::default();
    let reputation = calls.push(registries.reputation, &ReputationRegistry::getIdentityRegistryCall {});
    let validation =
        registries.validation.map(|registry| calls.push(registry, &ValidationRegistry::getIdentityRegistryCall {}));
    let answers = chain.ask_at(calls, block).await?;
    let linked = |answer: Option<Address>| answer == Some(registries.identity.address);
    if !linked(reputation.take(&answers)) || validation.is_some_and(|call| !linked(call.take(&answers))) {
        return unsupported(format!(
            "the registries of {} do not belong to the identity registry {}",
            chain.network(),
            registries.identity.address
        ));
    }
    Ok(())
}

/// Log with the time of its block.
#[derive(Debug, Clone)]
struct TimedLog {
    number: u64,
    index: u64,
    time: u64,
    log: Log,
}

struct IndexState {
    store: Option<Store>,
    registries: RegistrySet,
    /// Last block whose logs are in `settled`.
    cursor: Option<(u64, B256)>,
    settled: Arc<AgentDirectory>,
    view: Option<AgentView>,
}

impl IndexState {
    /// Loads what is stored.
    fn load(store: Option<Store>, registries: RegistrySet) -> Result<Self, ToolError> {
        let mut directory = AgentDirectory::new(registries);
        let mut cursor = None;
        if let Some(store) = &store {
            let stored = store.read(|connection| stored(connection, &registries)).map_err(store_failed)?;
            cursor = stored.0;
            for TimedLog { log, time, .. } in stored.1 {
                directory.apply(&log, time);
            }
        }
        Ok(Self { store, registries, cursor, settled: Arc::new(directory), view: None })
    }

    /// Reads up to `head`; `None` if the chain reorganised meanwhile.
    async fn follow(&mut self, chain: &ConnectedChain, head: BlockPoint) -> Result<Option<AgentView>, ToolError> {
        if let Some(view) = self.view.as_ref().filter(|view| view.head == head) {
            return Ok(Some(view.clone()));
        }
        self.confirm_cursor(chain).await?;
        if let Some(target) = final_block(chain, &head).await?
            && !self.settle(chain, target).await?
        {
            return Ok(None);
        }
        let first = match self.cursor {
            Some((number, _)) => number.saturating_add(1),
            None => first_block(chain, &head).await?,
        };
        let mut directory = Arc::clone(&self.settled);
        let mut next = first;
        let mut span = FIRST_SPAN;
        while next <= head.number {
            let Some((logs, last)) = self.logs(chain, (next, head.number), &mut span).await? else { return Ok(None) };
            if !logs.is_empty() {
                let directory = Arc::make_mut(&mut directory);
                logs.iter().for_each(|timed| directory.apply(&timed.log, timed.time));
            }
            next = last.saturating_add(1);
        }
        // Logs are asked for by number: they are those of this head only if it is still on the chain.
        if !is_on_chain(chain, (head.number, head.hash)).await? {
            return Ok(None);
        }
        let view = AgentView { directory, head };
        self.view = Some(view.clone());
        Ok(Some(view))
    }

    /// Fills in files that are kept. Files of settled logs are filled in once; a new address empties an agent's file.
    fn filled(&mut self, mut view: AgentView, kept: &Mutex<KeptBlocks>) -> AgentView {
        let kept = kept.lock();
        let files = self.settled.fillable(&kept);
        if !files.is_empty() {
            Arc::make_mut(&mut self.settled).fill(files);
        }
        let files = view.directory.fillable(&kept);
        if !files.is_empty() {
            Arc::make_mut(&mut view.directory).fill(files);
            self.view = Some(view.clone());
        }
        view
    }

    /// Goes back to the last block read that the chain still has.
    async fn confirm_cursor(&mut self, chain: &ConnectedChain) -> Result<(), ToolError> {
        let Some(cursor) = self.cursor else { return Ok(()) };
        if is_on_chain(chain, cursor).await? {
            return Ok(());
        }
        tracing::warn!(chain_id = chain.network().chain_id, block = cursor.0, "a block of the agents' index is gone");
        let registries = self.registries;
        let Some(store) = self.store.clone() else {
            *self = Self::load(None, registries)?;
            return Ok(());
        };
        let earlier = store.read(|connection| checkpoints(connection, &registries)).map_err(store_failed)?;
        let mut common = None;
        for point in earlier {
            if is_on_chain(chain, point).await? {
                common = Some(point.0);
                break;
            }
        }
        let work = move |tx: &Transaction<'_>| forget_after(tx, &registries, common);
        store.write(work).await.map_err(store_failed)?;
        *self = Self::load(Some(store), registries)?;
        Ok(())
    }

    /// Reads and stores the logs up to `target`; false if the chain reorganised meanwhile.
    async fn settle(&mut self, chain: &ConnectedChain, target: BlockPoint) -> Result<bool, ToolError> {
        let mut span = FIRST_SPAN;
        loop {
            let first = match self.cursor {
                Some((number, _)) => number.saturating_add(1),
                None => first_block(chain, &target).await?,
            };
            if first > target.number {
                return Ok(true);
            }
            let Some((logs, last)) = self.logs(chain, (first, target.number), &mut span).await? else {
                return Ok(false);
            };
            let end = if last == target.number { Some(target) } else { block(chain, last.into()).await? };
            let Some(end) = end else { return Ok(false) };
            let point = (end.number, end.hash);
            if let Some(store) = self.store.clone() {
                let (registries, known, stored) = (self.registries, self.cursor, logs.clone());
                let work = move |tx: &Transaction<'_>| extend(tx, &registries, known, point, &stored);
                if !store.write(work).await.map_err(store_failed)? {
                    // Another process has extended the index.
                    *self = Self::load(Some(store), registries)?;
                    continue;
                }
            }
            // Without the view, the directory has one owner and is not copied.
            self.view = None;
            if !logs.is_empty() {
                let directory = Arc::make_mut(&mut self.settled);
                logs.iter().for_each(|timed| directory.apply(&timed.log, timed.time));
            }
            self.cursor = Some(point);
        }
    }

    /// Logs from the first of `range` to the returned block, in order; `None` if a block of them left the chain. `span`
    /// is the number of blocks to ask for, which adapts to what the endpoint answers.
    async fn logs(
        &self,
        chain: &ConnectedChain,
        (first, to): (u64, u64),
        span: &mut u64,
    ) -> Result<Option<(Vec<TimedLog>, u64)>, ToolError> {
        loop {
            let last = to.min(first.saturating_add(span.saturating_sub(1)));
            let filter = Filter::new().address(self.registries.addresses()).from_block(first).to_block(last);
            match chain.client.agreed().get_logs(&filter).await.map_err(ProviderError::from) {
                Ok(found) => {
                    *span = span.saturating_mul(2).min(MAX_SPAN);
                    let Some(logs) = self.timed(chain, (first, last), found).await? else { return Ok(None) };
                    return Ok(Some((logs, last)));
                }
                Err(error) if last > first && asks_for_less(&error) => *span = (last - first).div_ceil(2),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Checks that the logs are those that were asked for, and finds the times of their blocks.
    async fn timed(
        &self,
        chain: &ConnectedChain,
        (first, last): (u64, u64),
        found: Vec<RpcLog>,
    ) -> Result<Option<Vec<TimedLog>>, ToolError> {
        let invalid = || {
            let what = format_args!("{} returned a log that was not asked for", chain.network());
            Err(ToolError::new(ErrorCode::ChainInconsistent, what))
        };
        // The time in a log is optional, and endpoints do not have to agree on it.
        let trusts_logs = !chain.client.has_several_endpoints();
        let mut times: BTreeMap<B256, Option<u64>> = BTreeMap::new();
        for log in &found {
            let (Some(number), Some(hash)) = (log.block_number, log.block_hash) else { return invalid() };
            let is_wanted = self.registries.kind_of(log.address()).is_some() && (first..=last).contains(&number);
            if log.removed || !is_wanted || log.log_index.is_none() {
                return invalid();
            }
            times.insert(hash, log.block_timestamp.filter(|_| trusts_logs));
        }
        let unknown: Vec<B256> = times.iter().filter(|(_, time)| time.is_none()).map(|(hash, _)| *hash).collect();
        let headers = stream::iter(unknown.into_iter().map(|hash| async move {
            let header = block(chain, BlockId::hash(hash)).await?;
            Ok::<_, ToolError>(header.map(|header| (hash, header.time)))
        }));
        let headers: Vec<Option<(B256, u64)>> = headers.buffer_unordered(HEADERS_AT_ONCE).try_collect().await?;
        for header in headers {
            let Some((hash, time)) = header else { return Ok(None) };
            times.insert(hash, Some(time));
        }
        let timed = |log: RpcLog| {
            let time = log.block_hash.and_then(|hash| times.get(&hash).copied().flatten())?;
            Some(TimedLog { number: log.block_number?, index: log.log_index?, time, log: log.inner })
        };
        let mut logs: Vec<TimedLog> = found.into_iter().filter_map(timed).collect();
        logs.sort_by_key(|log| (log.number, log.index));
        Ok(Some(logs))
    }
}

/// Last final block up to `head`; `None` if the chain has none yet.
async fn final_block(chain: &ConnectedChain, head: &BlockPoint) -> Result<Option<BlockPoint>, ToolError> {
    if chain.network().kind != NetworkKind::Devnet {
        // Endpoints that know no finality, or do not agree on it, leave it to the depth.
        let tagged = block(chain, BlockNumberOrTag::Finalized.into()).await;
        if let Ok(Some(point)) = tagged {
            return Ok(Some(point).filter(|point| point.number <= head.number));
        }
    }
    match head.number.checked_sub(FINAL_DEPTH) {
        Some(number) => block(chain, number.into()).await,
        None => Ok(None),
    }
}

/// First block that can have a log of the registries: on a devnet its first, elsewhere the first after the proposal of
/// ERC-8004, found by the times of headers.
async fn first_block(chain: &ConnectedChain, newest: &BlockPoint) -> Result<u64, ToolError> {
    if chain.network().kind == NetworkKind::Devnet || newest.time <= FIRST_TIME {
        return Ok(0);
    }
    let (mut before, mut from) = (0, newest.number);
    while before < from {
        let middle = before + (from - before) / 2;
        let header = block(chain, middle.into()).await?.ok_or_else(|| {
            let what = format_args!("{} has no block {middle} below its newest", chain.network());
            ToolError::new(ErrorCode::ChainInconsistent, what)
        })?;
        if header.time < FIRST_TIME {
            before = middle.saturating_add(1);
        } else {
            from = middle;
        }
    }
    Ok(from)
}

fn store_failed(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, format_args!("the index of agents: {error}"))
}

type StoredIndex = (Option<(u64, B256)>, Vec<TimedLog>);

fn stored(connection: &Connection, registries: &RegistrySet) -> Result<StoredIndex, StoreError> {
    let (chain_id, registry) = key(registries);
    let cursor = checkpoints(connection, registries)?.into_iter().next();
    let mut statement = connection.prepare_cached(
        "SELECT number, log_index, time, address, topics, data FROM agents_log
         WHERE chain_id = ?1 AND registry = ?2 ORDER BY number, log_index",
    )?;
    let mut rows = statement.query(params![chain_id, registry.as_slice()])?;
    let mut logs = Vec::new();
    while let Some(row) = rows.next()? {
        let topics: Vec<u8> = row.get(4)?;
        let topics: Vec<B256> = topics.chunks_exact(32).map(B256::from_slice).collect();
        let data: Vec<u8> = row.get(5)?;
        let damaged = || StoreError::Corrupt("a log that cannot be one".to_owned());
        let data = LogData::new(topics, Bytes::from(data)).ok_or_else(damaged)?;
        let address: Vec<u8> = row.get(3)?;
        let address = Address::try_from(address.as_slice()).map_err(|_| damaged())?;
        logs.push(TimedLog {
            number: number(row.get(0)?),
            index: number(row.get(1)?),
            time: number(row.get(2)?),
            log: Log { address, data },
        });
    }
    Ok((cursor, logs))
}

/// Stored blocks of files in IPFS, the oldest first. Ones whose identifiers cannot be read are left out.
fn stored_blocks(connection: &Connection) -> Result<Vec<(Cid, Vec<u8>)>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT cid, bytes FROM agents_block WHERE length(bytes) <= ?1 ORDER BY position")?;
    let rows = statement
        .query_map(params![bounded(MAX_KEPT_BYTES)], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    let mut blocks = Vec::new();
    for row in rows {
        let (cid, bytes) = row?;
        blocks.extend(Cid::parse(&cid).ok().map(|cid| (cid, bytes)));
    }
    Ok(blocks)
}

/// Stores blocks, and removes the oldest beyond the limit.
fn keep_blocks(tx: &Transaction<'_>, blocks: &[(Cid, Vec<u8>)]) -> Result<(), StoreError> {
    let mut insert = tx.prepare_cached("INSERT OR IGNORE INTO agents_block (cid, bytes) VALUES (?1, ?2)")?;
    for (cid, bytes) in blocks {
        insert.execute(params![cid.to_string(), bytes])?;
    }
    tx.execute(
        "DELETE FROM agents_block WHERE position NOT IN (
            SELECT position FROM agents_block ORDER BY position DESC LIMIT ?1)",
        params![bounded(MAX_KEPT)],
    )?;
    Ok(())
}

fn bounded(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Stored checkpoints, newest first.
fn checkpoints(connection: &Connection, registries: &RegistrySet) -> Result<Vec<(u64, B256)>, StoreError> {
    let (chain_id, registry) = key(registries);
    let mut statement = connection.prepare_cached(
        "SELECT number, hash FROM agents_checkpoint WHERE chain_id = ?1 AND registry = ?2 ORDER BY number DESC",
    )?;
    let rows = statement.query_map(params![chain_id, registry.as_slice()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
    })?;
    let mut points = Vec::new();
    for row in rows {
        let (at, hash) = row?;
        // A hash of another length is on no chain, so the index goes back behind it.
        points.push((number(at), B256::try_from(hash.as_slice()).unwrap_or_default()));
    }
    Ok(points)
}

/// Adds the logs up to `point`; false if the index no longer ends at `known`.
fn extend(
    tx: &Transaction<'_>,
    registries: &RegistrySet,
    known: Option<(u64, B256)>,
    point: (u64, B256),
    logs: &[TimedLog],
) -> Result<bool, StoreError> {
    let (chain_id, registry) = key(registries);
    let registry = registry.as_slice();
    let last = tx
        .query_row(
            "SELECT number FROM agents_checkpoint WHERE chain_id = ?1 AND registry = ?2 ORDER BY number DESC LIMIT 1",
            params![chain_id, registry],
            |row| row.get::<_, i64>(0),
        )
        .optional()?
        .map(number);
    if last != known.map(|(number, _)| number) {
        return Ok(false);
    }
    let mut insert = tx.prepare_cached(
        "INSERT INTO agents_log (chain_id, registry, number, log_index, time, address, topics, data)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for TimedLog { number, index, time, log } in logs {
        let topics: Vec<u8> = log.topics().iter().flat_map(|topic| topic.0).collect();
        insert.execute(params![
            chain_id,
            registry,
            integer(*number),
            integer(*index),
            integer(*time),
            log.address.as_slice(),
            topics,
            log.data.data.as_ref()
        ])?;
    }
    tx.execute(
        "INSERT INTO agents_checkpoint (chain_id, registry, number, hash) VALUES (?1, ?2, ?3, ?4)",
        params![chain_id, registry, integer(point.0), point.1.as_slice()],
    )?;
    tx.execute(
        "DELETE FROM agents_checkpoint WHERE chain_id = ?1 AND registry = ?2 AND number NOT IN (
            SELECT number FROM agents_checkpoint WHERE chain_id = ?1 AND registry = ?2 ORDER BY number DESC LIMIT ?3)",
        params![chain_id, registry, KEPT_CHECKPOINTS],
    )?;
    Ok(true)
}

/// Removes everything after block `common`, or everything.
fn forget_after(tx: &Transaction<'_>, registries: &RegistrySet, common: Option<u64>) -> Result<(), StoreError> {
    let (chain_id, registry) = key(registries);
    let after = common.map_or(-1, integer);
    for table in ["agents_log", "agents_checkpoint"] {
        let delete = format!("DELETE FROM {table} WHERE chain_id = ?1 AND registry = ?2 AND number > ?3");
        tx.execute(&delete, params![chain_id, registry.as_slice(), after])?;
    }
    Ok(())
}

fn key(registries: &RegistrySet) -> (i64, Address) {
    (integer(registries.identity.chain_id), registries.identity.address)
}

/// SQLite's integers have 63 bits, which no block number, index or time exceeds.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content of a file with this name, as one raw block.
    fn block(name: &str) -> (Cid, Vec<u8>) {
        let kind = golem_protocols::erc8004::file::TYPE;
        let bytes = format!("{{\"type\":\"{kind}\",\"name\":\"{name}\"}}").into_bytes();
        (Cid::of_raw(&bytes), bytes)
    }

    #[tokio::test]
    async fn kept_blocks_are_compared_again_and_an_older_database_gets_their_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents.db");
        let first = Migrations { room: MIGRATIONS.room, steps: MIGRATIONS.steps.get(..1).unwrap() };
        let old = Store::open(StoreConfig::at(path.clone()), &[first]).unwrap();
        let row = "INSERT INTO agents_checkpoint VALUES (31337, x'01', 7, x'02')";
        old.write(move |tx| Ok::<_, StoreError>(tx.execute(row, [])?)).await.unwrap();
        drop(old);

        let index = AgentIndex::default();
        index.keep_in(path.clone());
        let (kept, forged, large) = (block("Far away"), block("Forged"), block(&"x".repeat(MAX_KEPT_BYTES)));
        index.keep(&[kept.clone(), (forged.0, b"other bytes".to_vec())]).await;
        // A file of several blocks is kept whole or not at all.
        index.keep(&[forged.clone(), large.clone()]).await;
        let store = Store::open(StoreConfig::at(path.clone()), &[MIGRATIONS]).unwrap();
        let count = |sql: &'static str| {
            store
                .read(move |connection| Ok::<i64, StoreError>(connection.query_row(sql, [], |row| row.get(0))?))
                .unwrap()
        };
        assert_eq!(count("SELECT COUNT(*) FROM agents_block"), 1);
        assert_eq!(count("SELECT COUNT(*) FROM agents_checkpoint"), 1, "the older database's rows stay");
        assert_eq!(
            std::fs::read_dir(folder.path().join("agents.db-copies")).unwrap().count(),
            1,
            "a copy was made first"
        );

        // Somebody writes another file under the identifier.
        let change = |cid: Cid, bytes: Vec<u8>| {
            store.write(move |tx| {
                let insert = "INSERT OR REPLACE INTO agents_block (cid, bytes) VALUES (?1, ?2)";
                Ok::<_, StoreError>(tx.execute(insert, params![cid.to_string(), bytes])?)
            })
        };
        change(forged.0, block("Evil").1).await.unwrap();
        let again = AgentIndex::default();
        again.keep_in(path);
        let file = async |cid: Cid| again.kept_file(&SafeText::clean(&format!("ipfs://{cid}"), 200)).await;
        assert_eq!(file(kept.0).await.unwrap().name.as_str(), "Far away");
        assert!(file(forged.0).await.is_none() && file(large.0).await.is_none());
        assert!(again.kept_file(&SafeText::clean("https://agents.example/x", 200)).await.is_none());
    }

    #[test]
    fn the_database_keeps_the_newest_blocks() {
        let mut connection = Connection::open_in_memory().unwrap();
        MIGRATIONS.steps.iter().for_each(|step| connection.execute_batch(step).unwrap());
        let blocks: Vec<_> = (0..MAX_KEPT + 3).map(|number| block(&number.to_string())).collect();
        let tx = connection.transaction().unwrap();
        keep_blocks(&tx, &blocks).unwrap();
        keep_blocks(&tx, &blocks[MAX_KEPT..]).unwrap();
        tx.commit().unwrap();
        let stored = stored_blocks(&connection).unwrap();
        assert_eq!((stored.len(), stored[0].0), (MAX_KEPT, blocks[3].0));
    }

    #[test]
    fn a_file_that_was_requested_in_vain_is_left_alone_for_a_while() {
        let index = AgentIndex::default();
        let path = IpfsPath { cid: block("a").0, path: vec![] };
        assert_eq!(index.not_missed(vec![(U256::ONE, &path)]), [U256::ONE]);
        index.miss(&path);
        assert!(index.not_missed(vec![(U256::ONE, &path)]).is_empty());
    }
}
