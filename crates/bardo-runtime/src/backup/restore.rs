//! Restoring a backup into an empty data folder.
//!
//! Everything is unpacked and checked in a folder of its own beside the data folder, with the stop in force. One rename
//! then makes it the data folder. The files of the configuration lie in it until they are in place, so that a process
//! that is killed in between leaves nothing half done: `bardo resume` puts them in place as well, and no session opens a
//! ledger before.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::BackupError;
use super::archive::{BackupManifest, BackupPath, ListedFile, MANIFEST, MOST_MANIFEST, PathKind};
use super::make::secret;
use bardo_base::config::Config;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::secret::Password;
use bardo_base::{private, regular_file};
use bardo_safety::stop::{RestoredCopy, StopFile};

/// Folder of the restored data folder for files of the configuration that are not in place yet.
const CONFIG: &str = "restored-config";
/// Maximum work of deriving the key, as the exponent of scrypt's cost: 2^20 takes seconds and 1 GiB.
const MOST_WORK: u8 = 20;
/// Part of the name of the folder to unpack into, between that of the data folder and two numbers.
const RESTORING: &str = ".restoring-";
/// Size of the pieces that are copied, in bytes.
const PIECE: usize = 64 << 10;

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Manifest of the backup.
    pub manifest: BackupManifest,
    /// Files of the configuration that were put in place.
    pub configuration: Vec<PathBuf>,
}

/// Folder that is removed on drop unless it has become the data folder; what a process that was killed has left, by the
/// next restore.
struct Unpacked {
    path: PathBuf,
    /// Lock of the folder while it is used.
    _in_use: File,
}

impl Unpacked {
    /// Creates the folder, halted from the beginning: whatever is left of it signs nothing.
    fn begin(data: &Path, now: u64) -> Result<Self, BackupError> {
        remove_leftovers(data);
        let path = beside(data, now);
        private::folder(&path).map_err(BackupError::file(&path))?;
        let in_use = File::open(&path).and_then(|folder| folder.lock().map(|()| folder));
        let unpacked = Self { _in_use: in_use.map_err(BackupError::file(&path))?, path };
        StopFile::in_folder(&unpacked.path).begin_restored(&RestoredCopy::default(), now)?;
        Ok(unpacked)
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _renamed_already = fs::remove_dir_all(&self.path);
    }
}

/// Removes what killed restores have left: real folders with exactly such a name, the mark of a restored copy, and a free
/// lock.
fn remove_leftovers(data: &Path) {
    let data: PathBuf = data.components().collect();
    let (Some(parent), Some(name)) = (data.parent(), data.file_name().and_then(|name| name.to_str())) else { return };
    let prefix = format!("{name}{RESTORING}");
    let is_unpacked = |name: &str| {
        let numbers = name.strip_prefix(&prefix).and_then(|numbers| numbers.split_once('-'));
        numbers.is_some_and(|(millis, random)| {
            let is_hex = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex && !millis.is_empty() && millis.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_str().is_some_and(is_unpacked) {
            continue;
        }
        let is_marked = StopFile::in_folder(&entry.path()).restored().is_some();
        let Ok(folder) = File::open(entry.path()) else { continue };
        if is_marked && folder.try_lock().is_ok() {
            let _stays = fs::remove_dir_all(entry.path());
        }
    }
}

/// Checks what can be checked before the passphrase is known: the data folder is empty or absent, and `file` is a backup
/// with a passphrase. Nothing is written.
///
/// # Errors
/// [`BackupError`] that says what is wrong.
pub fn check_before_passphrase(config: &Config, file: &Path) -> Result<(), BackupError> {
    require_empty(&config.data_dir.value)?;
    open(file).map(drop)
}

/// Restores the backup in `file` into the configured data folder, which must be empty or absent. The restored copy is
/// halted until the operator has confirmed that the other copy is stopped. `now` is in milliseconds since the Unix
/// epoch. Blocks.
///
/// # Errors
/// [`BackupError`]; nothing is then restored.
pub fn restore(
    config: &Config,
    file: &Path,
    passphrase: &Password,
    with_configuration: bool,
    now: u64,
) -> Result<RestoreSummary, BackupError> {
    let data = &config.data_dir.value;
    require_empty(data)?;
    let unpacked = Unpacked::begin(data, now)?;
    let folder = &unpacked.path;
    let manifest = unpack(file, passphrase, folder, with_configuration)?;
    check_configuration(config, folder)?;
    let copy = RestoredCopy { made_at: manifest.made_at, made_from: manifest.made_from.clone() };
    StopFile::in_folder(folder).begin_restored(&copy, now)?;
    sync(folder)?;
    failpoint::reach(Failpoint::RestoreUnpacked);
    require_empty(data)?;
    // Replaces an empty folder, and fails for one that another process has filled meanwhile.
    fs::rename(folder, data).map_err(|reason| match reason.kind() {
        std::io::ErrorKind::DirectoryNotEmpty => BackupError::NotEmpty(data.clone()),
        _ => BackupError::file(data)(reason),
    })?;
    if let Some(parent) = data.parent() {
        sync_one(parent)?;
    }
    failpoint::reach(Failpoint::RestoreRenamed);
    let configuration = install_configuration(config)?;
    Ok(RestoreSummary { manifest, configuration })
}

/// Puts the files of the configuration in place that a restore has left in the data folder. Returns their paths. An
/// existing file with another content stays, and the restored one beside the data.
///
/// # Errors
/// [`BackupError`] if a file cannot be written or exists with another content.
pub fn install_configuration(config: &Config) -> Result<Vec<PathBuf>, BackupError> {
    let waiting = config.data_dir.value.join(CONFIG);
    if !waiting.is_dir() {
        return Ok(Vec::new());
    }
    let Some(folder) = config.file.parent() else { return Ok(Vec::new()) };
    let mut installed = Vec::new();
    for from in waiting_files(&waiting)? {
        let to = folder.join(from.strip_prefix(&waiting).unwrap_or(&from));
        let content = regular_file::read(&from, u64::MAX).map_err(BackupError::file(&from))?;
        if differs(&to, &content)? {
            return Err(BackupError::ConfigExists(to));
        }
        if let Some(parent) = to.parent() {
            private::make(parent).map_err(BackupError::file(parent))?;
        }
        private::replace(&to, &content).map_err(BackupError::file(&to))?;
        installed.push(to);
    }
    fs::remove_dir_all(&waiting).map_err(BackupError::file(&waiting))?;
    Ok(installed)
}

/// True if a restore into this data folder was interrupted before its configuration was in place. No session may sign
/// then: the policy in force would not be the restored one.
pub fn is_configuration_waiting(data: &Path) -> bool {
    // What cannot be looked at counts.
    data.join(CONFIG)
        .symlink_metadata()
        .map_or_else(|error| !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory), |_| true)
}

/// Refuses before anything is in place if a file of the configuration would be replaced by another.
fn check_configuration(config: &Config, unpacked: &Path) -> Result<(), BackupError> {
    let waiting = unpacked.join(CONFIG);
    let Some(folder) = config.file.parent() else { return Ok(()) };
    for from in waiting_files(&waiting)? {
        let to = folder.join(from.strip_prefix(&waiting).unwrap_or(&from));
        let content = regular_file::read(&from, u64::MAX).map_err(BackupError::file(&from))?;
        if differs(&to, &content)? {
            return Err(BackupError::ConfigExists(to));
        }
    }
    Ok(())
}

fn differs(path: &Path, content: &[u8]) -> Result<bool, BackupError> {
    match regular_file::read(path, super::archive::MOST_TEXT) {
        Ok(found) => Ok(found != content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Ok(true),
        Err(error) => Err(BackupError::file(path)(error)),
    }
}

/// Files below the folder of the waiting configuration, at most two levels deep.
fn waiting_files(folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let mut found = Vec::new();
    let list = |folder: &Path| -> Result<Vec<PathBuf>, BackupError> {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            read => {
                let read = read.map_err(BackupError::file(folder))?;
                read.map(|entry| entry.map(|entry| entry.path()))
                    .collect::<Result<_, _>>()
                    .map_err(BackupError::file(folder))
            }
        }
    };
    for path in list(folder)? {
        if path.is_dir() { found.extend(list(&path)?) } else { found.push(path) }
    }
    found.sort_unstable();
    Ok(found)
}

fn require_empty(data: &Path) -> Result<(), BackupError> {
    match fs::read_dir(data) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(BackupError::NotEmpty(data.to_owned())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::file(data)(error)),
    }
}

/// Path of the folder to unpack into: on the same file system as the data folder, so that a rename is possible.
fn beside(data: &Path, now: u64) -> PathBuf {
    // Without a separator at its end, behind which the name would lie in the folder itself.
    let mut name = data.components().collect::<PathBuf>().into_os_string();
    name.push(format!("{RESTORING}{now}-{:08x}", rand::random::<u32>()));
    PathBuf::from(name)
}

/// Opens a backup and reads its header, for which no passphrase is needed.
fn open(file: &Path) -> Result<age::Decryptor<std::io::BufReader<File>>, BackupError> {
    let opened = regular_file::open(file).map_err(BackupError::file(file))?;
    let decryptor = age::Decryptor::new_buffered(std::io::BufReader::new(opened))
        .map_err(|error| BackupError::damaged(file, error))?;
    if decryptor.is_scrypt() {
        Ok(decryptor)
    } else {
        Err(BackupError::damaged(file, "it is not encrypted with a passphrase"))
    }
}

/// Unpacks and checks an archive that cannot be trusted.
fn unpack(
    file: &Path,
    passphrase: &Password,
    into: &Path,
    with_configuration: bool,
) -> Result<BackupManifest, BackupError> {
    let decryptor = open(file)?;
    let mut identity = age::scrypt::Identity::new(secret(passphrase));
    identity.set_max_work_factor(MOST_WORK);
    let decrypted =
        decryptor.decrypt(std::iter::once(&identity as &dyn age::Identity)).map_err(|error| match error {
            age::DecryptError::ExcessiveWork { .. } => {
                BackupError::damaged(file, "its passphrase would take too long to try")
            }
            age::DecryptError::NoMatchingKeys | age::DecryptError::DecryptionFailed | age::DecryptError::InvalidMac => {
                BackupError::Passphrase
            }
            error => BackupError::damaged(file, error),
        })?;
    let mut archive = tar::Archive::new(decrypted);
    let damaged = |reason: &dyn std::fmt::Display| BackupError::damaged(file, reason);
    // Extended headers, which could name another path or size, are entries of their own and therefore refused.
    let mut entries = archive.entries().map_err(|error| damaged(&error))?.raw(true);
    let first = entries.next().ok_or_else(|| damaged(&"it is empty"))?.map_err(|error| damaged(&error))?;
    if entry_path(&first).as_deref() != Some(MANIFEST) || first.size() > MOST_MANIFEST {
        return Err(damaged(&"it does not begin with a manifest"));
    }
    let mut text = Vec::new();
    first.take(MOST_MANIFEST).read_to_end(&mut text).map_err(|error| damaged(&error))?;
    let manifest: BackupManifest = serde_json::from_slice(&text).map_err(|error| damaged(&error))?;
    let paths = manifest.paths().map_err(|reason| damaged(&reason))?;
    let mut expected = paths.iter().zip(&manifest.files);
    for entry in entries {
        let entry = entry.map_err(|error| damaged(&error))?;
        let (path, listed) = expected.next().ok_or_else(|| damaged(&"it has files that it does not list"))?;
        if entry_path(&entry).as_deref() != Some(path.as_str()) || entry.size() != listed.bytes {
            return Err(damaged(&format!("{} is not where it is listed", path.as_str())));
        }
        unpack_one(entry, path, listed, into, with_configuration, &damaged)?;
    }
    if expected.next().is_some() {
        return Err(damaged(&"it was cut off"));
    }
    // The end of the encryption proves that nothing is missing; it comes after the end of the archive.
    let mut decrypted = archive.into_inner();
    std::io::copy(&mut decrypted, &mut std::io::sink()).map_err(|error| damaged(&error))?;
    Ok(manifest)
}

/// Path of a regular file in the archive; `None` for anything else, such as a link or a device.
fn entry_path(entry: &tar::Entry<'_, impl Read>) -> Option<String> {
    if entry.header().entry_type() != tar::EntryType::Regular {
        return None;
    }
    String::from_utf8(entry.path_bytes().into_owned()).ok()
}

fn unpack_one(
    mut content: impl Read,
    path: &BackupPath,
    listed: &ListedFile,
    into: &Path,
    with_configuration: bool,
    damaged: &dyn Fn(&dyn std::fmt::Display) -> BackupError,
) -> Result<(), BackupError> {
    let to = match path.kind() {
        PathKind::Database | PathKind::Data | PathKind::Key => Some(into.join(path.relative())),
        PathKind::Config => with_configuration.then(|| into.join(CONFIG).join(path.relative())),
    };
    let mut file = match &to {
        Some(to) => {
            if let Some(folder) = to.parent() {
                private::make(folder).map_err(BackupError::file(folder))?;
            }
            Some(private::file().write(true).create_new(true).open(to).map_err(BackupError::file(to))?)
        }
        None => None,
    };
    let (mut hash, mut piece, mut bytes) = (Sha256::new(), vec![0; PIECE], 0_u64);
    loop {
        let read = content.read(&mut piece).map_err(|error| damaged(&error))?;
        let Some(part) = piece.get(..read).filter(|part| !part.is_empty()) else { break };
        bytes = bytes.saturating_add(read as u64);
        hash.update(part);
        if let (Some(file), Some(to)) = (&mut file, &to) {
            file.write_all(part).map_err(BackupError::file(to))?;
        }
    }
    if bytes != listed.bytes || alloy::hex::encode(hash.finalize()) != listed.sha256 {
        return Err(damaged(&format!("{} is not what the manifest lists", path.as_str())));
    }
    if let (Some(file), Some(to)) = (&mut file, &to) {
        file.sync_all().map_err(BackupError::file(to))?;
        if path.kind() == PathKind::Database {
            check_database(to).map_err(|reason| damaged(&format!("{}: {reason}", path.as_str())))?;
        }
    }
    Ok(())
}

/// Reason why a restored database is not accepted.
#[derive(Debug, thiserror::Error)]
enum DatabaseFault {
    #[error("its path cannot be used")]
    Path,
    #[error(transparent)]
    Unreadable(#[from] rusqlite::Error),
    /// Answer of SQLite's own check.
    #[error("{0}")]
    Damaged(String),
}

/// Checks that the database is whole, without writing to it.
fn check_database(path: &Path) -> Result<(), DatabaseFault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    // Without side files, which a database in WAL mode would otherwise get.
    let uri = Url::from_file_path(path).map_err(|()| DatabaseFault::Path)?;
    let connection = Connection::open_with_flags(format!("{uri}?immutable=1"), flags)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(DatabaseFault::Damaged(found)) }
}

/// Syncs a folder and all folders below it to disk.
fn sync(folder: &Path) -> Result<(), BackupError> {
    for entry in fs::read_dir(folder).map_err(BackupError::file(folder))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync(&entry.path())?;
        }
    }
    sync_one(folder)
}

fn sync_one(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::file(folder))
}
