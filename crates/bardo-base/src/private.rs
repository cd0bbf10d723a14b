//! Folders and files that only their owner may read.
//!
//! Modes are set at creation, never afterwards: between the two anyone could open the file. A folder or file that was
//! created with wider permissions is restricted when it is used again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Error, Write as _};
use std::path::Path;

/// Restricts everything that this process creates from now on to its owner, whatever mode is requested. Called first in
/// `main`: libraries that write logs and databases do not set modes.
pub fn owner_only_from_now_on() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Creates a folder with its missing parents for its owner only. An existing one is restricted to its owner.
///
/// # Errors
/// The operating system's error; an error if the path is not a folder, belongs to another user, or has content and is
/// writable by others.
pub fn folder(path: &Path) -> io::Result<()> {
    make(path)?;
    #[cfg(unix)]
    narrow(path)?;
    Ok(())
}

/// Creates a folder with its missing parents for its owner only. An existing one stays as it is.
///
/// # Errors
/// The operating system's error.
pub fn make(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn narrow(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let own = rustix::process::geteuid().as_raw();
    let link = fs::symlink_metadata(path)?;
    // Checked and changed through one handle, so that nothing can replace the folder in between.
    let handle = File::open(path)?;
    let found = handle.metadata()?;
    // The owner of a link could redirect it, so the link is checked like its target. Root may have created it.
    if found.uid() != own || (link.uid() != own && link.uid() != 0) {
        return Err(Error::other("it belongs to another user; choose a folder of your own"));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o022 != 0 && fs::read_dir(path)?.next().is_some() {
        return Err(Error::other(format!(
            "other users can write to it (mode {mode:o}) and it is not empty; check that all of it is yours, then run \
             `chmod 700` on it"
        )));
    }
    if mode & 0o077 != 0 {
        handle.set_permissions(fs::Permissions::from_mode(mode & 0o700))?;
    }
    Ok(())
}

/// Options that create a file for its owner only. The caller adds read or write access.
pub fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Replaces a file as a whole, readable for its owner only: after a crash it has either the old or the new content. The
/// new content is written under a random name first, so that concurrent writers cannot mix theirs.
///
/// # Errors
/// The operating system's error; the file is then unchanged, unless only the folder could not be synced to disk.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("{:016x}.new", rand::random::<u64>()));
    let write = || {
        let mut file = self::file().write(true).create_new(true).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    if let Err(error) = write() {
        // A temporary file that cannot be removed does no harm.
        let _removed = fs::remove_file(&new);
        return Err(error);
    }
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Restricts the regular files of a folder whose names begin with `prefix` to their owner.
///
/// # Errors
/// The operating system's error, and an error for a matching name that is not a regular file: opening a pipe would
/// block forever, and a link would redirect writes.
pub fn files(folder: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        if !entry.file_type()?.is_file() {
            let name = entry.file_name();
            return Err(Error::other(format!("{} in it is not a regular file; remove it", name.to_string_lossy())));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = entry.metadata()?.permissions().mode();
            if mode & 0o077 != 0 {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode & 0o600))?;
            }
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_wide_folder_is_narrowed_or_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        folder(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
        for wide in [0o755, 0o777] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wide)).unwrap();
            folder(&path).unwrap();
            assert_eq!(mode(&path), 0o700);
        }
        fs::write(path.join("planted"), "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(folder(&path).unwrap_err().to_string().contains("chmod 700"));
        let link = home.path().join("link");
        symlink(home.path().join("a"), &link).unwrap();
        fs::set_permissions(home.path().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        folder(&link).unwrap();
        assert_eq!(mode(&home.path().join("a")), 0o700);
        // A folder of another user.
        if !rustix::process::geteuid().is_root() {
            assert!(folder(Path::new("/usr")).unwrap_err().to_string().contains("another user"));
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let names = || {
            let names =
                fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        replace(&path, b"one").unwrap();
        let reader = File::open(&path).unwrap();
        replace(&path, b"a longer one").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (b"a longer one".as_slice(), 0o600));
        // A reader that opened the old file still reads all of it.
        assert_eq!(io::read_to_string(reader).unwrap(), "one");
        // A folder cannot be replaced by a file, and the attempt leaves nothing behind.
        fs::create_dir_all(home.path().join("folder/full")).unwrap();
        replace(&home.path().join("folder"), b"content").unwrap_err();
        assert_eq!(names(), ["folder", "token"]);
    }

    #[test]
    fn only_regular_files_are_narrowed() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("bardo.1.log"), "x").unwrap();
        fs::set_permissions(home.path().join("bardo.1.log"), fs::Permissions::from_mode(0o644)).unwrap();
        files(home.path(), "bardo.").unwrap();
        assert_eq!(mode(&home.path().join("bardo.1.log")), 0o600);
        symlink("/dev/null", home.path().join("bardo.2.log")).unwrap();
        assert!(files(home.path(), "bardo.").unwrap_err().to_string().contains("bardo.2.log"));
    }
}
