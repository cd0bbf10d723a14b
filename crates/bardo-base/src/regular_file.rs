//! Opens regular files, and only those.
//!
//! Opening a named pipe blocks until another process opens its other end, and reading a device may never end. Files in
//! folders that others might write to are therefore opened here: without blocking, checked through the open handle, and
//! read up to a limit.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Error, ErrorKind, Read as _};
use std::path::Path;

/// Opens a file for reading.
///
/// # Errors
/// The operating system's error; [`ErrorKind::InvalidInput`] if the path leads to anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a file with these options. Custom flags in them are replaced.
///
/// # Errors
/// Same as for [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_following(options, path, true)
}

/// Opens a file for reading unless the last component of its path is a symbolic link: a link could lead to a file that
/// another user can write.
///
/// # Errors
/// Same as for [`open`]; the operating system's error for a link.
pub fn open_no_link(path: &Path) -> io::Result<File> {
    open_following(OpenOptions::new().read(true), path, false)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// Same as for [`open`]; [`ErrorKind::FileTooLarge`] for a larger file.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a UTF-8 text file of at most `limit` bytes.
///
/// # Errors
/// Same as for [`read`]; [`ErrorKind::InvalidData`] for a file that is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not valid UTF-8"))
}

fn open_following(options: &mut OpenOptions, path: &Path, links: bool) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // A terminal in place of the file must not become this process's controlling terminal.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | if links { OFlags::empty() } else { OFlags::NOFOLLOW };
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _links_are_followed = links;
    let opened = options.open(path);
    #[cfg(unix)]
    if opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())) {
        // A pipe without a reader, or a socket.
        return Err(std::fs::metadata(path).map_or_else(|error| error, |found| not_regular(found.file_type())));
    }
    let file = opened?;
    let found = file.metadata()?.file_type();
    if found.is_file() { Ok(file) } else { Err(not_regular(found)) }
}

fn not_regular(found: FileType) -> Error {
    #[cfg(unix)]
    let special = {
        use std::os::unix::fs::FileTypeExt as _;
        if found.is_fifo() {
            Some("a named pipe")
        } else if found.is_socket() {
            Some("a socket")
        } else {
            None
        }
    };
    #[cfg(not(unix))]
    let special = None;
    let kind = special.unwrap_or(if found.is_dir() { "a folder" } else { "a device" });
    Error::new(ErrorKind::InvalidInput, format!("it is {kind}, not a regular file; remove it"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn pipe(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Returns the error of an attempt that might block forever; panics after 20 seconds.
    fn error<T: Send + 'static>(attempt: impl FnOnce() -> io::Result<T> + Send + 'static) -> Error {
        let (send, ended) = mpsc::channel();
        std::thread::spawn(move || send.send(attempt().err()));
        ended.recv_timeout(Duration::from_secs(20)).expect("it waits").expect("it was opened")
    }

    #[test]
    fn only_regular_files_are_opened_and_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = pipe(folder.path());
        let link = folder.path().join("link");
        symlink(&pipe, &link).unwrap();
        let socket = folder.path().join("socket");
        let _listens = UnixListener::bind(&socket).unwrap();
        let others = [PathBuf::from("/dev/zero"), folder.path().to_owned()];
        for (path, kind) in [(&pipe, "a named pipe"), (&link, "a named pipe"), (&socket, "a socket")]
            .into_iter()
            .chain(others.iter().zip(["a device", "a folder"]))
        {
            let read = {
                let path = path.clone();
                error(move || open(&path))
            };
            let write = {
                let path = path.clone();
                error(move || open_with(OpenOptions::new().write(true).create(true), &path))
            };
            let whole = {
                let path = path.clone();
                error(move || read_text(&path, 10))
            };
            assert!(read.to_string().contains(kind) && read.kind() == ErrorKind::InvalidInput, "{path:?}: {read}");
            assert!(whole.to_string().contains(kind), "{path:?}: {whole}");
            // The system already refuses to open a folder for writing.
            assert!(write.to_string().contains(kind) || kind == "a folder", "{path:?}: {write}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        assert_eq!(read_text(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(open(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), ErrorKind::InvalidData);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(open(&link).is_ok() && open_no_link(&link).is_err() && open_no_link(&path).is_ok());
    }
}
