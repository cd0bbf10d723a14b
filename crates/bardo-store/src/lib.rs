//! The database: one SQLite file, one writer thread, any number of readers. It has a table of migrations of its own;
//! every other module declares the tables that it needs.
//!
//! It uses WAL with `synchronous=FULL`: a completed write is on disk. Every write is one immediate transaction, so that
//! two processes on one file never build on outdated reads.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::dbg_macro
    )
)]

mod copies;
mod error;
mod file_lock;
mod migrate;
mod session;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bardo_base::{private, regular_file};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

pub use copies::copy;
pub use error::StoreError;
pub use file_lock::{FileLock, FileLockError};
pub use migrate::Migrations;

use file_lock::FileLocks;
use session::StoreSession;

/// Interval between attempts to enable WAL on a file that another process is just creating.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Number of cached statements per connection; larger than the number of different statements in the program.
const STATEMENT_CACHE_SIZE: usize = 256;

/// Suffixes of the files that SQLite creates next to a database.
const SIDE_FILES: &[&str] = &["-journal", "-wal", "-shm"];

/// Number of reader connections kept open between uses.
const MAX_IDLE_READERS: usize = 4;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Path of the file. It is created if missing, in an existing folder.
    pub path: PathBuf,
    /// Timeout for another process that is writing.
    pub patience: Duration,
}

impl StoreConfig {
    /// Creates options for a file, with a timeout of five seconds.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), patience: Duration::from_secs(5) }
    }
}

/// Open database. Clones share it. When the last one is dropped, the writer finishes its queued jobs.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    config: StoreConfig,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Mutex<Vec<Connection>>,
    locks: FileLocks,
    /// Last field, so that it is released after the last write.
    session: StoreSession,
}

/// Job for the writer thread.
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

impl Store {
    /// Opens the file, restricts it to its owner, and migrates every module's tables. Before tables that exist are
    /// migrated, the database is copied into the folder `NAME-copies` beside it, where the three newest copies stay.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be opened or migrated.
    pub fn open(config: StoreConfig, migrations: &[Migrations]) -> Result<Self, StoreError> {
        prepare_file(&config.path)?;
        let mut connection = connect(&config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mode = enable_write_ahead_log(&connection, config.patience)?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(StoreError::Open {
                path: config.path,
                reason: format!("its journal mode remains `{mode}`, but write-ahead logging is required"),
            });
        }
        connection.pragma_update(None, "synchronous", "full")?;
        if migrate::is_pending(&connection, migrations)? {
            copies::before_migration(&connection, &config.path, config.patience)?;
        }
        migrate::run(&mut connection, migrations)?;
        let session = StoreSession::begin(&config.path)?;
        session.name_on(&connection)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("store".to_owned());
        let writer = thread
            .spawn(move || {
                for job in queue {
                    job(&mut connection);
                }
            })
            .map_err(|error| StoreError::Open { path: config.path.clone(), reason: error.to_string() })?;
        let (readers, locks) = (Mutex::new(Vec::new()), FileLocks::beside(&config.path));
        Ok(Self { inner: Arc::new(Inner { config, jobs: Some(jobs), writer: Some(writer), readers, locks, session }) })
    }

    /// Runs `work` in one immediate transaction on the writer thread. The transaction is committed and on disk when
    /// this returns. An error or a panic in `work` rolls all of it back. Once started, it runs to its end even if the
    /// caller is dropped.
    ///
    /// # Errors
    /// The error of `work`, or a [`StoreError`] if the transaction cannot be started or committed.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = catch_unwind(AssertUnwindSafe(|| run_in_transaction(connection, work)))
                .unwrap_or_else(|_| Err(StoreError::Interrupted.into()));
            // The caller may be gone.
            let _sent = answer.send(result);
        });
        let is_queued = self.inner.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !is_queued {
            return Err(StoreError::Interrupted.into());
        }
        answered.await.unwrap_or_else(|_| Err(StoreError::Interrupted.into()))
    }

    /// Runs `query` on a read-only connection. It sees everything committed before it started. Blocks for the duration
    /// of the query.
    ///
    /// # Errors
    /// The error of `query`, or a [`StoreError`] if no connection can be opened.
    pub fn read<T, E: From<StoreError>>(&self, query: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let idle = self.inner.readers.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.inner.config, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let result = query(&connection);
        let mut readers = self.inner.readers.lock();
        if readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
        result
    }

    /// Returns the name of this open store, unique among all users of the file. On the writer's connection it is in
    /// `temp.store_session`, so that a module can record which store wrote a row.
    pub fn session(&self) -> &str {
        self.inner.session.id()
    }

    /// Returns true if the store of that name is still open, in this or another process. If that is unknown, it counts
    /// as open.
    pub fn is_session_alive(&self, session: &str) -> bool {
        self.inner.session.is_alive(session)
    }

    /// Waits for the lock `name`, which excludes all other users of this file, in this and other processes. It is held
    /// until the result is dropped or this process ends.
    ///
    /// # Errors
    /// [`FileLockError`] if the lock was not acquired within `patience`, or its file fails.
    pub async fn acquire_lock(&self, name: &str, patience: Duration) -> Result<FileLock, FileLockError> {
        self.inner.locks.acquire_lock(name, patience).await
    }

    /// Returns how often the lock `name` has been acquired so far; `None` while it is held.
    ///
    /// # Errors
    /// [`StoreError`] if the lock file cannot be read.
    pub fn times_locked(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.inner.locks.count(name)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.inner.config.path
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.config.path).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Without a sender the thread ends after its last job.
        drop(self.jobs.take());
        if let Some(writer) = self.writer.take()
            && writer.thread().id() != std::thread::current().id()
        {
            // A panic of a job is caught inside the thread.
            let _ended = writer.join();
        }
    }
}

fn run_in_transaction<T, E: From<StoreError>>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
    // A transaction that is dropped without a commit rolls back.
    let value = work(&transaction)?;
    transaction.commit().map_err(StoreError::from)?;
    Ok(value)
}

/// Creates the file if it is missing. SQLite gives its side files the mode of the main one and opens whatever exists in
/// their place; a pipe would block it forever.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let failed =
        |path: &Path, error: std::io::Error| StoreError::Open { path: path.to_owned(), reason: error.to_string() };
    let mut options = private::file();
    let options = options.read(true).write(true).create(true).truncate(false);
    let prepared = regular_file::open_with(options, path).and_then(|file| {
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        drop(file);
        Ok(())
    });
    prepared.map_err(|error| failed(path, error))?;
    for suffix in SIDE_FILES {
        let mut side = path.as_os_str().to_owned();
        side.push(suffix);
        // Do not open the file: closing it would release this process's locks on it through other connections.
        if std::fs::metadata(&side).is_ok_and(|found| !found.is_file()) {
            return Err(failed(Path::new(&side), std::io::Error::other("it is not a regular file; remove it")));
        }
    }
    Ok(())
}

/// Enables write-ahead logging and returns the resulting mode, which the file keeps. If two connections do so at once
/// on a new file, SQLite rejects one without waiting, because its busy timeout does not apply to this change.
fn enable_write_ahead_log(connection: &Connection, patience: Duration) -> Result<String, StoreError> {
    let began = Instant::now();
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match mode {
            Err(error) if is_busy(&error) && began.elapsed() < patience => std::thread::sleep(RETRY_INTERVAL),
            result => return Ok(result?),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
}

fn connect(config: &StoreConfig, access: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(&config.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(config.patience)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    Ok(connection)
}
