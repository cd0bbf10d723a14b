//! Making a backup while sessions run.

use std::fs::{self, File};
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use super::archive::{BackupManifest, BackupPath, FORMAT, ListedFile, MANIFEST, MOST_TEXT};
use super::{BackupError, redact};
use bardo_base::config::Config;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};

/// Work of deriving the key from the passphrase, as the exponent of scrypt's cost: about a second and 256 MiB.
const WORK: u8 = 18;
/// Timeout for a database that another process has locked.
const PATIENCE: Duration = Duration::from_secs(10);
/// Prefix of the folder for the copies that a backup is written from, in the data folder. A hexadecimal number follows.
const COPIES: &str = ".backup-copies-";
/// Prefix of that folder until its lock is held.
const BEGUN: &str = ".backup-begun-";
/// Digits of the number after these prefixes.
const DIGITS: usize = 16;
/// Name of the lock in that folder, which is held while it is used.
const LOCK: &str = "in-use";

/// Choices of a backup.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackupOptions {
    /// Includes the encrypted key files.
    pub with_keys: bool,
    /// Replaces an existing file.
    pub replace: bool,
}

/// Contents of a backup that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSummary {
    /// List of its files, with its origin.
    pub manifest: BackupManifest,
    /// Number of URLs in the configuration that have lost their credentials.
    pub redacted: usize,
}

/// A file of the backup with its content.
struct Source {
    path: BackupPath,
    from: SourceFile,
}

enum SourceFile {
    Bytes(Vec<u8>),
    Copy(PathBuf),
}

/// Folder for the copies of databases. Removed on drop; what a process that was killed has left, by the next backup.
struct Copies {
    path: PathBuf,
    _in_use: File,
}

impl Copies {
    fn begin(data: &Path) -> Result<Self, BackupError> {
        remove_leftovers(data);
        let number = format!("{:0DIGITS$x}", rand::random::<u64>());
        // Locked under another name, so that the final one never appears unlocked to another backup.
        let begun = data.join(format!("{BEGUN}{number}"));
        private::folder(&begun).map_err(BackupError::file(&begun))?;
        let lock = begun.join(LOCK);
        let file = private::file().write(true).create_new(true).open(&lock).map_err(BackupError::file(&lock))?;
        file.lock().map_err(BackupError::file(&lock))?;
        let path = data.join(format!("{COPIES}{number}"));
        fs::rename(&begun, &path).map_err(BackupError::file(&path))?;
        Ok(Self { path, _in_use: file })
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders that a killed backup has left: real folders with exactly such a name and a lock that is free. Any
/// other folder is the operator's.
fn remove_leftovers(data: &Path) {
    let Ok(entries) = fs::read_dir(data) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_str().is_some_and(is_copies) {
            continue;
        }
        let Ok(lock) = regular_file::open(&entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _stays = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_copies(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix(COPIES).is_some_and(|number| number.len() == DIGITS && number.bytes().all(is_digit))
}

/// Checks what can be checked before a passphrase is typed: there is a data folder, and `file` is free and lies outside
/// of it. Nothing is written.
///
/// # Errors
/// [`BackupError`] that says what is wrong.
pub fn check_before_backup(config: &Config, file: &Path, options: BackupOptions) -> Result<(), BackupError> {
    if !options.replace && file.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let data = &config.data_dir.value;
    if !data.is_dir() {
        return Err(BackupError::Nothing(data.clone()));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (data_at, folder_at) = (data.canonicalize(), folder.canonicalize());
    if folder_at.map_err(BackupError::file(folder))?.starts_with(data_at.map_err(BackupError::file(data))?) {
        return Err(BackupError::Inside(file.to_owned()));
    }
    Ok(())
}

/// Writes a backup of the configured data folder to `file`, encrypted with `passphrase`. Sessions go on meanwhile; each
/// database is copied as it is at one moment. `now` is in milliseconds since the Unix epoch. Blocks.
///
/// # Errors
/// [`BackupError`]; `file` is then unchanged.
pub fn make(
    config: &Config,
    file: &Path,
    passphrase: &Password,
    options: BackupOptions,
    now: u64,
) -> Result<BackupSummary, BackupError> {
    check_before_backup(config, file, options)?;
    let data = &config.data_dir.value;
    let copies = Copies::begin(data)?;
    let mut sources = Vec::new();
    add_data(data, &copies.path, options, &mut sources)?;
    let redacted = add_configuration(config, &mut sources)?;
    if sources.is_empty() {
        return Err(BackupError::Nothing(data.clone()));
    }
    failpoint::reach(Failpoint::BackupCopied);
    // For display only: a machine without the file has no name here.
    let host = regular_file::read_text(Path::new("/etc/hostname"), 256).unwrap_or_default();
    let made_from = match host.trim() {
        "" => data.display().to_string(),
        host => format!("{} on {host}", data.display()),
    };
    let manifest = BackupManifest {
        format: FORMAT,
        bardo: SafeText::clean(env!("CARGO_PKG_VERSION"), 40),
        made_at: now,
        made_from: SafeText::clean(&made_from, 300),
        with_keys: options.with_keys,
        files: sources.iter().map(listed).collect::<Result<_, _>>()?,
    };
    // A restore would refuse it, which must not be found out then.
    manifest.paths().map_err(BackupError::Unrestorable)?;
    write(file, &manifest, &sources, passphrase, options.replace)?;
    Ok(BackupSummary { manifest, redacted })
}

/// Collects the files of the data folder.
fn add_data(data: &Path, copies: &Path, options: BackupOptions, sources: &mut Vec<Source>) -> Result<(), BackupError> {
    for ledger in folders(&data.join("ledger"))? {
        let name = name_of(&ledger);
        // The ledger of an embedded devnet has ended with it.
        if name.starts_with("embedded-") {
            continue;
        }
        for database in ["ledger", "paper"] {
            let from = ledger.join(format!("{database}.db"));
            if !from.is_file() {
                continue;
            }
            // The head before the database: it may lag behind, and must not be ahead.
            let anchor = format!("{database}.audit-head");
            add_text(&ledger.join(&anchor), &format!("data/ledger/{name}/{anchor}"), sources)?;
            let copy = copies.join(format!("{name}-{database}.db"));
            bardo_store::copy(&from, &copy, PATIENCE)?;
            add(&format!("data/ledger/{name}/{database}.db"), SourceFile::Copy(copy), sources)?;
        }
        for network in folders(&ledger.join("playbooks"))? {
            for golem in folders(&network)? {
                let path =
                    format!("data/ledger/{name}/playbooks/{}/{}/PLAYBOOK.md", name_of(&network), name_of(&golem));
                add_text(&golem.join("PLAYBOOK.md"), &path, sources)?;
            }
        }
    }
    let labels = data.join("labels.db");
    if labels.is_file() {
        let copy = copies.join("labels.db");
        bardo_store::copy(&labels, &copy, PATIENCE)?;
        add("data/labels.db", SourceFile::Copy(copy), sources)?;
    }
    for golem in folders(&data.join("golems"))? {
        add_text(&golem.join("STRATEGY.md"), &format!("data/golems/{}/STRATEGY.md", name_of(&golem)), sources)?;
    }
    if options.with_keys {
        for key in files(&data.join("keys"))? {
            add_text(&key, &format!("data/keys/{}", name_of(&key)), sources)?;
        }
    }
    Ok(())
}

/// Collects the files beside the configuration. Returns the number of URLs that have lost their credentials.
fn add_configuration(config: &Config, sources: &mut Vec<Source>) -> Result<usize, BackupError> {
    let Some(folder) = config.file.parent() else { return Ok(0) };
    let mut redacted = 0;
    if config.file_exists {
        let text = regular_file::read_text(&config.file, MOST_TEXT).map_err(BackupError::file(&config.file))?;
        let failed = |reason| BackupError::Credentials { path: config.file.clone(), reason };
        let (text, count) = redact::redacted(&text).map_err(failed)?;
        redacted = count;
        add("config/config.toml", SourceFile::Bytes(text.into_bytes()), sources)?;
    }
    for policy in ["policy.toml", "policy-devnet.toml"] {
        add_text(&folder.join(policy), &format!("config/{policy}"), sources)?;
    }
    for role in files(&folder.join("archetypes"))? {
        // Bardo reads no others.
        if role.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        add_text(&role, &format!("config/archetypes/{}", name_of(&role)), sources)?;
    }
    Ok(redacted)
}

/// Adds a file if it exists and a backup may contain it.
fn add_text(from: &Path, path: &str, sources: &mut Vec<Source>) -> Result<(), BackupError> {
    match regular_file::read(from, MOST_TEXT) {
        Ok(bytes) => add(path, SourceFile::Bytes(bytes), sources),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::file(from)(error)),
    }
}

fn add(path: &str, from: SourceFile, sources: &mut Vec<Source>) -> Result<(), BackupError> {
    let path = BackupPath::parse(path).ok_or_else(|| BackupError::Name(SafeText::clean(path, 300)))?;
    sources.push(Source { path, from });
    Ok(())
}

fn listed(source: &Source) -> Result<ListedFile, BackupError> {
    let mut hash = Sha256::new();
    let bytes = match &source.from {
        SourceFile::Bytes(bytes) => {
            hash.update(bytes);
            bytes.len() as u64
        }
        SourceFile::Copy(copy) => {
            let mut file = regular_file::open(copy).map_err(BackupError::file(copy))?;
            std::io::copy(&mut file, &mut hash).map_err(BackupError::file(copy))?
        }
    };
    let sha256 = alloy::hex::encode(hash.finalize());
    Ok(ListedFile { path: source.path.as_str().to_owned(), bytes, sha256 })
}

/// Writes the archive under another name first, so that `file` has the whole of it or is unchanged.
fn write(
    file: &Path,
    manifest: &BackupManifest,
    sources: &[Source],
    passphrase: &Password,
    replace: bool,
) -> Result<(), BackupError> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(format!(".{:016x}.part", rand::random::<u64>()));
    let unfinished = PathBuf::from(unfinished);
    let written = write_new(&unfinished, manifest, sources, passphrase).and_then(|()| {
        failpoint::reach(Failpoint::BackupWritten);
        if replace {
            return fs::rename(&unfinished, file).map_err(BackupError::file(file));
        }
        // A link replaces nothing, unlike a rename.
        match fs::hard_link(&unfinished, file) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(BackupError::Exists(file.to_owned()))
            }
            Ok(()) => Ok(()),
            // FAT, exFAT and some file systems of a network have no links.
            Err(_) => copy_new(&unfinished, file),
        }
    });
    if !replace || written.is_err() {
        let _gone = fs::remove_file(&unfinished);
    }
    written?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::file(folder))
}

/// Copies a file to a name that must not exist.
fn copy_new(from: &Path, to: &Path) -> Result<(), BackupError> {
    let mut source = regular_file::open(from).map_err(BackupError::file(from))?;
    let mut target = private::file().write(true).create_new(true).open(to).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => BackupError::Exists(to.to_owned()),
        _ => BackupError::file(to)(error),
    })?;
    let copied = std::io::copy(&mut source, &mut target).and_then(|_| target.sync_all());
    copied.map_err(|error| {
        let _stays = fs::remove_file(to);
        BackupError::file(to)(error)
    })
}

fn write_new(
    path: &Path,
    manifest: &BackupManifest,
    sources: &[Source],
    passphrase: &Password,
) -> Result<(), BackupError> {
    let failed = || BackupError::file(path);
    let mut file = private::file().write(true).create_new(true).open(path).map_err(failed())?;
    let mut recipient = age::scrypt::Recipient::new(secret(passphrase));
    // Not measured: the machine may be busy now, and the one of the restore may be small.
    recipient.set_work_factor(WORK);
    let encryptor = age::Encryptor::with_recipients(std::iter::once(&recipient as &dyn age::Recipient))
        .map_err(|error| failed()(std::io::Error::other(error)))?;
    let encrypted = encryptor.wrap_output(std::io::BufWriter::new(&mut file)).map_err(failed())?;
    let mut archive = tar::Builder::new(encrypted);
    let text = serde_json::to_vec_pretty(manifest).map_err(|error| failed()(error.into()))?;
    append(&mut archive, MANIFEST, text.len() as u64, manifest.made_at, text.as_slice()).map_err(failed())?;
    for (source, listed) in sources.iter().zip(&manifest.files) {
        let name = source.path.as_str();
        let appended = match &source.from {
            SourceFile::Bytes(bytes) => append(&mut archive, name, listed.bytes, manifest.made_at, bytes.as_slice()),
            SourceFile::Copy(copy) => {
                let file = regular_file::open(copy).map_err(BackupError::file(copy))?;
                append(&mut archive, name, listed.bytes, manifest.made_at, file.take(listed.bytes))
            }
        };
        appended.map_err(failed())?;
    }
    let encrypted = archive.into_inner().map_err(failed())?;
    let mut buffered = encrypted.finish().map_err(failed())?;
    buffered.flush().map_err(failed())?;
    drop(buffered);
    file.sync_all().map_err(failed())
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    bytes: u64,
    made_at: u64,
    content: impl std::io::Read,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_mtime(made_at / 1_000);
    header.set_entry_type(tar::EntryType::Regular);
    // Fails for a path that needs an extended header, which no restore accepts.
    header.set_path(path)?;
    header.set_cksum();
    archive.append(&header, content)
}

pub(super) fn secret(passphrase: &Password) -> SecretString {
    SecretString::from(String::from_utf8_lossy(passphrase.expose()).into_owned())
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, BackupError> {
    let read = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(BackupError::file(folder))?,
    };
    let mut found: Vec<fs::DirEntry> = read.collect::<Result<_, _>>().map_err(BackupError::file(folder))?;
    found.retain(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        !name.starts_with('.') && !name.ends_with(".new")
    });
    found.sort_by_key(fs::DirEntry::file_name);
    Ok(found)
}

/// Folders in a folder, by name; links and hidden ones are left out.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    Ok(entries(folder)?.into_iter().filter(is_folder).map(|entry| entry.path()).collect())
}

/// Regular files in a folder, by name; links, hidden ones, and unfinished ones (`*.new`) are left out.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    Ok(entries(folder)?.into_iter().filter(is_file).map(|entry| entry.path()).collect())
}
