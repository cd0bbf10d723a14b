//! Copies of a database while others use it, and the copy that is kept before a migration.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bardo_base::failpoint::{self, Failpoint};
use bardo_base::private;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::RETRY_INTERVAL;
use super::error::StoreError;

/// Number of copies that are kept from before migrations.
const KEPT: usize = 3;
/// Suffix of the folder with these copies, after the name of the database.
const FOLDER: &str = "-copies";
/// Time after which an unfinished copy counts as left.
const LONGEST_COPY: Duration = Duration::from_secs(3_600);
/// Ending of a copy that is not complete yet.
const UNFINISHED: &str = "part";

/// Copies the database at `from` as it is at one moment, including what is in its write-ahead log. Other processes go on
/// reading and writing it. `to` must not exist; it is created for its owner only, and on disk when this returns.
///
/// # Errors
/// [`StoreError`] if one of the files cannot be used, or the database is locked for longer than `patience`.
pub fn copy(from: &Path, to: &Path, patience: Duration) -> Result<(), StoreError> {
    let source =
        Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    source.busy_timeout(patience)?;
    copy_from(&source, to, patience)
}

fn copy_from(source: &Connection, to: &Path, patience: Duration) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Open { path: to.to_owned(), reason: error.to_string() };
    let file = private::file().read(true).write(true).create_new(true).open(to).map_err(failed)?;
    let mut target =
        Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let began = Instant::now();
    {
        let copying = Backup::new(source, &mut target)?;
        // In one step, under one read lock: a write of another process would start a copy in several steps again.
        loop {
            match copying.step(-1)? {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked if began.elapsed() < patience => {
                    std::thread::sleep(RETRY_INTERVAL)
                }
                StepResult::More if began.elapsed() < patience => {}
                _ => return Err(StoreError::Locked),
            }
        }
    }
    target.close().map_err(|(_, error)| error)?;
    file.sync_all().map_err(failed)
}

/// Copies a database before its tables are migrated, into the folder `NAME-copies` beside it, and removes all but the
/// newest copies there.
pub(super) fn before_migration(connection: &Connection, path: &Path, patience: Duration) -> Result<(), StoreError> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(FOLDER);
    let folder = PathBuf::from(folder);
    let failed = |error: std::io::Error| StoreError::Open { path: folder.clone(), reason: error.to_string() };
    private::folder(&folder).map_err(failed)?;
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let copy = folder.join(format!("{millis:013}-{:08x}.db", rand::random::<u32>()));
    let unfinished = copy.with_extension(UNFINISHED);
    // Before the disk is filled further: each failed start would otherwise leave one.
    remove_unfinished(&folder, millis);
    let copied =
        copy_from(connection, &unfinished, patience).and_then(|()| std::fs::rename(&unfinished, &copy).map_err(failed));
    if copied.is_err() {
        let _stays = std::fs::remove_file(&unfinished);
    }
    copied?;
    std::fs::File::open(&folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    failpoint::reach(Failpoint::MigrationCopied);
    remove_older(&folder);
    Ok(())
}

/// Removes copies that were begun long ago and not completed, by a process that was killed.
fn remove_unfinished(folder: &Path, now_millis: u128) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let begun = path.file_stem().and_then(|name| name.to_str()?.split('-').next()?.parse::<u128>().ok());
        let is_old = begun.is_some_and(|begun| begun.saturating_add(LONGEST_COPY.as_millis()) < now_millis);
        if is_old && path.extension().is_some_and(|ending| ending == UNFINISHED) {
            let _stays = std::fs::remove_file(path);
        }
    }
}

/// Removes all but the newest copies, and what a process that was killed has left. A file that cannot be removed stays.
fn remove_older(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut copies: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    copies.sort_unstable();
    let ends_in = |path: &Path, ending: &str| path.extension().is_some_and(|found| found == ending);
    let whole: Vec<&PathBuf> = copies.iter().filter(|path| ends_in(path, "db")).collect();
    let older = whole.iter().take(whole.len().saturating_sub(KEPT)).copied();
    // Another process may be writing a copy just now: only those older than the newest whole one are leftovers.
    let newest = whole.last().copied();
    let left = copies.iter().filter(|path| ends_in(path, UNFINISHED) && newest.is_some_and(|newest| *path < newest));
    for path in older.chain(left) {
        let _stays = std::fs::remove_file(path);
    }
}
