//! Removal of folders with untrusted content.
//!
//! `std::fs::remove_dir_all` takes a stack frame and a file descriptor per level: 16,000 nested folders overflow a
//! thread's stack and end the process. Here every non-empty folder is moved to the top before it is emptied, so neither
//! stack nor descriptors grow with the depth. All operations are relative to open folders, and no link is followed.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Limits of one removal; what exceeds them stays.
#[derive(Debug, Clone, Copy)]
struct RemovalLimits {
    /// Number of entries that are removed or moved.
    entries: u64,
    time: Duration,
}

const LIMITS: RemovalLimits = RemovalLimits { entries: 2_000_000, time: Duration::from_secs(300) };

/// Removes a folder with all its content. Entries that cannot be removed stay; the others are removed.
///
/// # Errors
/// The first error of the operating system; [`io::ErrorKind::TimedOut`] after five minutes or two million entries.
pub fn folder(path: &Path) -> io::Result<()> {
    within(path, LIMITS)
}

#[cfg(not(unix))]
fn within(path: &Path, _: RemovalLimits) -> io::Result<()> {
    std::fs::remove_dir_all(path)
}

#[cfg(unix)]
fn within(path: &Path, limits: RemovalLimits) -> io::Result<()> {
    let top = unix::open(rustix::fs::CWD, path)?;
    let mut removal = unix::Removal::new(top, limits);
    let emptied = removal.empty_all();
    match std::fs::remove_dir(path) {
        // The reason that it is not empty is more informative.
        Err(error) => Err(emptied.err().unwrap_or(error)),
        Ok(()) => Ok(()),
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::{CStr, CString};
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::time::Instant;

    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
    use rustix::io::Errno;

    use super::RemovalLimits;

    pub(super) fn open(folder: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(folder, name, flags, Mode::empty())?)
    }

    pub(super) struct Removal {
        top: OwnedFd,
        /// Folders in the top folder that are still to be emptied.
        waiting: Vec<CString>,
        /// Name prefix of folders that are moved to the top.
        prefix: String,
        moved: u64,
        left: u64,
        until: Instant,
        failed: Option<io::Error>,
    }

    impl Removal {
        pub(super) fn new(top: OwnedFd, limits: RemovalLimits) -> Self {
            Self {
                top,
                waiting: Vec::new(),
                prefix: format!("removed-{:016x}", rand::random::<u64>()),
                moved: 0,
                left: limits.entries,
                until: Instant::now() + limits.time,
                failed: None,
            }
        }

        /// Empties the top folder. Stops early only at a limit.
        pub(super) fn empty_all(&mut self) -> io::Result<()> {
            let top = self.top.try_clone()?;
            // Some file systems skip entries of a folder that changes while it is read, so each is read until a pass
            // removes nothing.
            while self.pass(top.as_fd(), true)? | self.empty_waiting()? {}
            self.failed.take().map_or(Ok(()), Err)
        }

        /// Empties and removes the waiting folders; returns true if any was removed.
        fn empty_waiting(&mut self) -> io::Result<bool> {
            let mut has_gone = false;
            while let Some(name) = self.waiting.pop() {
                match open(&self.top, &*name) {
                    Ok(folder) => while self.pass(folder.as_fd(), false)? {},
                    Err(error) => self.keep(error),
                }
                match unlinkat(&self.top, &*name, AtFlags::REMOVEDIR) {
                    Ok(()) => has_gone = true,
                    Err(error) => self.keep(error.into()),
                }
            }
            Ok(has_gone)
        }

        /// Reads a folder once; returns true if any entry was removed or moved.
        fn pass(&mut self, folder: BorrowedFd<'_>, is_top: bool) -> io::Result<bool> {
            let mut has_gone = false;
            for entry in Dir::read_from(folder)? {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        self.keep(error.into());
                        break;
                    }
                };
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                self.count()?;
                match self.remove(folder, name, entry.file_type(), is_top) {
                    Ok(gone) => has_gone |= gone,
                    Err(error) => self.keep(error.into()),
                }
            }
            Ok(has_gone)
        }

        /// Removes an entry of a folder, or moves it to the top; returns true if it left that folder.
        fn remove(&mut self, folder: BorrowedFd<'_>, name: &CStr, kind: FileType, is_top: bool) -> Result<bool, Errno> {
            let kind = match kind {
                FileType::Unknown => FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
                known => known,
            };
            let flags = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            match unlinkat(folder, name, flags) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if kind == FileType::Directory => {}
                Err(Errno::NOENT) | Ok(()) => return Ok(true),
                Err(error) => return Err(error),
            }
            if is_top {
                self.waiting.push(name.to_owned());
                return Ok(false);
            }
            self.moved += 1;
            let up = format!("{}-{}", self.prefix, self.moved);
            renameat(folder, name, &self.top, up.as_str())?;
            self.waiting.extend(CString::new(up));
            Ok(true)
        }

        fn count(&mut self) -> io::Result<()> {
            match self.left.checked_sub(1) {
                Some(left) if Instant::now() < self.until => self.left = left,
                Some(_) | None => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "it contains too many files to remove at once",
                    ));
                }
            }
            Ok(())
        }

        fn keep(&mut self, error: io::Error) {
            self.failed.get_or_insert(error);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fd::{AsFd as _, BorrowedFd};
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    use super::*;

    /// Creates nested folders, deeper than any path can name.
    fn nest(top: &Path, depth: usize) {
        let open =
            |folder: BorrowedFd<'_>, name: &Path| openat(folder, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut folder = open(CWD, top);
        for _ in 0..depth {
            mkdirat(&folder, "empty", Mode::RWXU).unwrap();
            mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = open(folder.as_fd(), Path::new("d"));
        }
    }

    #[test]
    fn deep_folders_exhaust_neither_stack_nor_descriptors() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep");
        std::fs::create_dir(&path).unwrap();
        nest(&path, 5_000);
        std::fs::write(path.join("d/file"), "x").unwrap();
        // About 26 bytes of stack per level.
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        let removing = path.clone();
        let removed = thread.spawn(move || folder(&removing)).unwrap().join().unwrap();
        assert!(removed.is_ok() && !path.exists(), "{removed:?}");
    }

    #[test]
    fn no_link_is_followed_and_what_stays_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let (path, kept) = (home.path().join("top"), home.path().join("kept"));
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        symlink(&kept, path.join("link")).unwrap();
        symlink(&kept, path.join("a/b/link")).unwrap();
        let few = RemovalLimits { entries: 1, ..LIMITS };
        assert_eq!(within(&path, few).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(path.exists());
        folder(&path).unwrap();
        assert!(!path.exists() && kept.join("file").exists());
        symlink(&kept, &path).unwrap();
        assert!(folder(&path).is_err() && kept.join("file").exists());
        assert_eq!(folder(&home.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
