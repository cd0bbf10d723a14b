//! Creation, names and permissions of key files. A file is accessible to its owner only and appears complete.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::{KeyName, KeystoreError};
use bardo_base::regular_file;
use bardo_base::text::SafeText;

/// Maximum size of a key file, in bytes. Real ones have a few hundred.
const LARGEST_FILE: u64 = 64 << 10;

/// Creates a file, failing if it exists. The content is written and synced under a temporary name, then linked to
/// `path` in one atomic step.
pub(super) fn create(folder: &Path, path: &Path, bytes: &[u8], name: &KeyName) -> Result<(), KeystoreError> {
    let failed = |at: &Path, error: std::io::Error| file_error(at, &error);
    make_folder(folder).map_err(|error| failed(folder, error))?;
    only_the_owner_of(folder, 0o700)?;
    let draft = folder.join(format!(".{name}.{}.new", rand::random::<u64>()));
    let written = write_private(&draft, bytes)
        .map_err(|error| failed(&draft, error))
        // A hard link fails if the target exists; a rename would overwrite it.
        .and_then(|()| {
            fs::hard_link(&draft, path).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => KeystoreError::Exists { name: name.clone(), path: path.to_owned() },
                _ => failed(path, error),
            })
        });
    // The draft is removed in either case.
    let removed = fs::remove_file(&draft);
    written?;
    removed.map_err(|error| failed(&draft, error))?;
    // Sync the directory entry as well: the file must be durable before anyone sends money to the address.
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed(folder, error))
}

/// Moves a file into a private folder, which is created if it does not exist.
pub(super) fn rename(path: &Path, folder: &Path, to: &Path) -> Result<(), KeystoreError> {
    make_folder(folder).map_err(|error| file_error(folder, &error))?;
    fs::rename(path, to).map_err(|error| file_error(path, &error))
}

/// Reads a file's text, up to [`LARGEST_FILE`].
pub(super) fn read(path: &Path) -> Result<String, KeystoreError> {
    let failed = |error: std::io::Error| file_error(path, &error);
    regular_file::read_text(path, LARGEST_FILE).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            KeystoreError::Form { path: path.to_owned(), reason: SafeText::clean("it is too large", 60) }
        }
        _ => failed(error),
    })
}

/// Returns the names of the keys in a folder, sorted; empty if the folder does not exist.
pub(super) fn names(folder: &Path) -> Result<Vec<KeyName>, KeystoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file_error(folder, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| file_error(folder, &error))?.file_name();
        if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".json")).and_then(|name| name.parse().ok())
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Checks that only the owner can read or replace the file.
pub(super) fn only_the_owner(folder: &Path, path: &Path) -> Result<(), KeystoreError> {
    only_the_owner_of(folder, 0o700)?;
    only_the_owner_of(path, 0o600)
}

#[cfg(unix)]
fn only_the_owner_of(path: &Path, right: u32) -> Result<(), KeystoreError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).map_err(|error| file_error(path, &error))?.permissions().mode() & 0o777;
    // Others may list the folder, but must not write to it.
    let forbidden = if right == 0o700 { 0o022 } else { 0o077 };
    if mode & forbidden != 0 {
        return Err(KeystoreError::Mode { path: path.to_owned(), mode, right });
    }
    Ok(())
}

#[cfg(not(unix))]
fn only_the_owner_of(_: &Path, _: u32) -> Result<(), KeystoreError> {
    // On other systems, a user's folders are private by default.
    Ok(())
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_private(path: &PathBuf, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn file_error(path: &Path, error: &std::io::Error) -> KeystoreError {
    KeystoreError::File { path: path.to_owned(), reason: SafeText::clean(&error.to_string(), 200) }
}
