//! Folders and files that only their owner may read.
//!
//! Modes are set when something is made, never afterwards: between the two anyone could open it. What was made wider
//! before is narrowed when it is used again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Error};
use std::path::Path;

/// Makes everything that this process creates from now on unreadable for other users, whatever mode it asks for. Called
/// first in `main`: libraries that write logs and databases choose no modes of their own.
pub fn owner_only_from_now_on() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Makes a folder for its owner alone, and those above it that are missing. One that exists is narrowed to its owner.
///
/// # Errors
/// The system's; a path that is no folder or belongs to another user; a folder with content that others can write to.
pub fn folder(path: &Path) -> io::Result<()> {
    make(path)?;
    #[cfg(unix)]
    narrow(path)?;
    Ok(())
}

/// Makes a folder for its owner alone, and those above it that are missing. One that exists stays as it is.
///
/// # Errors
/// The system's.
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
    // Checked and changed through one handle, so that nothing else can be put in its place in between.
    let handle = File::open(path)?;
    let found = handle.metadata()?;
    // A link counts as well as what it leads to: whoever owns it can lead it elsewhere. Root may have made it.
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

/// Options that create a file for its owner alone. Reading and writing are for the caller to set.
pub fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Narrows the regular files of a folder whose names begin with `prefix` to their owner.
///
/// # Errors
/// The system's, and anything of that name that is no regular file: opening a pipe would wait for ever, and a link would
/// lead the writing elsewhere.
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
        // Another user's.
        if !rustix::process::geteuid().is_root() {
            assert!(folder(Path::new("/usr")).unwrap_err().to_string().contains("another user"));
        }
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
