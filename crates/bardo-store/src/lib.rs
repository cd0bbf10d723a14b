//! The database: one SQLite file, one thread that writes, any number of readers. It owns no table
//! but its own list of migrations: each room brings the tables it needs.
//!
//! WAL with `synchronous=FULL`: what a write has answered is on disk. Every write is one immediate
//! transaction, so that two processes on one file never build on the same stale reading.
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

mod error;
mod hold;
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

pub use error::StoreError;
pub use hold::{Hold, HoldError};
pub use migrate::Migrations;

use hold::Holds;
use session::Session;

/// How long it is waited before a file that somebody else has just begun is asked again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Statements that each connection keeps compiled: more than there are, for the same few run again and again.
const STATEMENTS: usize = 256;

/// Suffixes of the files that SQLite keeps beside a database.
const SIDE_FILES: &[&str] = &["-journal", "-wal", "-shm"];

/// Readers kept open between uses.
const READERS: usize = 4;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The file; made if it is not there, in a folder that is.
    pub path: PathBuf,
    /// How long to wait for another process that writes.
    pub patience: Duration,
}

impl StoreConfig {
    /// A file, with five seconds of patience.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), patience: Duration::from_secs(5) }
    }
}

/// An open database; cheap to clone. When the last handle goes, the writer ends after what it was given.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    config: StoreConfig,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Mutex<Vec<Connection>>,
    holds: Holds,
    /// Let go of last, when nothing more is written.
    session: Session,
}

/// Something for the writer's thread to do.
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

impl Store {
    /// Opens the file, readable by its owner alone, and brings every room's tables up to date.
    pub fn open(config: StoreConfig, rooms: &[Migrations]) -> Result<Self, StoreError> {
        prepare_file(&config.path)?;
        let mut connection = connect(&config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mode = write_ahead(&connection, config.patience)?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(StoreError::Open {
                path: config.path,
                reason: format!("its journal mode stays `{mode}`; write-ahead logging is needed"),
            });
        }
        connection.pragma_update(None, "synchronous", "full")?;
        migrate::run(&mut connection, rooms)?;
        let session = Session::begin(&config.path)?;
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
        let (readers, holds) = (Mutex::new(Vec::new()), Holds::beside(&config.path));
        Ok(Self { inner: Arc::new(Inner { config, jobs: Some(jobs), writer: Some(writer), readers, holds, session }) })
    }

    /// Runs `work` in one immediate transaction on the writer's thread. It is committed, and on disk,
    /// when this answers; an error of `work`, or a panic in it, undoes all of it. Once begun it runs
    /// to its end even if the caller goes away.
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
            let result = catch_unwind(AssertUnwindSafe(|| transact(connection, work)))
                .unwrap_or_else(|_| Err(StoreError::Interrupted.into()));
            // Nobody may be left to hear it.
            let _heard = answer.send(result);
        });
        let sent = self.inner.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(StoreError::Interrupted.into());
        }
        answered.await.unwrap_or_else(|_| Err(StoreError::Interrupted.into()))
    }

    /// Runs `look` on a connection that cannot write. It sees everything committed before it began.
    /// Blocks for as long as the query takes.
    pub fn read<T, E: From<StoreError>>(&self, look: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let idle = self.inner.readers.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.inner.config, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let result = look(&connection);
        let mut readers = self.inner.readers.lock();
        if readers.len() < READERS {
            readers.push(connection);
        }
        result
    }

    /// The name of this open store among all that work on the file, in this process and others. On the writer's
    /// connection it stands in `temp.store_session`, so that a room can note whose work a row is.
    pub fn session(&self) -> &str {
        self.inner.session.id()
    }

    /// Whether the store of that name is still open, here or in another process. Where that cannot be told it counts
    /// as open.
    pub fn session_lives(&self, session: &str) -> bool {
        self.inner.session.lives(session)
    }

    /// Waits until nobody else who works on this file, here or in another process, is at work under `name`, and
    /// keeps the name until the answer is dropped or this process ends.
    ///
    /// # Errors
    /// [`HoldError`]; then it is not held.
    pub async fn hold(&self, name: &str, patience: Duration) -> Result<Hold, HoldError> {
        self.inner.holds.hold(name, patience).await
    }

    /// How often `name` has been held; nothing while somebody holds it.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn held_before(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.inner.holds.count(name)
    }

    /// The file.
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
            // A job cannot panic past its catch.
            let _ended = writer.join();
        }
    }
}

fn transact<T, E: From<StoreError>>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
    // Dropped without a commit, it rolls back.
    let value = work(&transaction)?;
    transaction.commit().map_err(StoreError::from)?;
    Ok(value)
}

/// Makes the file if it is not there. SQLite gives its side files the mode of the main one, and opens whatever stands in
/// their place: a pipe would hold it up for ever.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let failed =
        |path: &Path, error: std::io::Error| StoreError::Open { path: path.to_owned(), reason: error.to_string() };
    let mut options = private::file();
    let options = options.read(true).write(true).create(true).truncate(false);
    let opened = regular_file::open_with(options, path).and_then(|file| {
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        drop(file);
        Ok(())
    });
    opened.map_err(|error| failed(path, error))?;
    for suffix in SIDE_FILES {
        let mut side = path.as_os_str().to_owned();
        side.push(suffix);
        // Not opened: closing it again would release the locks that this process has on it by other connections.
        if std::fs::metadata(&side).is_ok_and(|found| !found.is_file()) {
            return Err(failed(Path::new(&side), std::io::Error::other("it is not a regular file; remove it")));
        }
    }
    Ok(())
}

/// Has the file log ahead, and answers the mode that now holds; it stays set in the file. Of two who do so at once on a
/// new file SQLite sends one away without waiting: it comes as a reader, and its patience is for those who come to write.
fn write_ahead(connection: &Connection, patience: Duration) -> Result<String, StoreError> {
    let began = Instant::now();
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match mode {
            Err(error) if is_busy(&error) && began.elapsed() < patience => std::thread::sleep(LOOK_AGAIN),
            told => return Ok(told?),
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
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}
