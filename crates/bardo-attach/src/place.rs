//! Socket, token and lock of a served session, in the data directory's folder `serve`.

use std::fs::{File, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::Rng as _;
use tokio::net::UnixListener;
use zeroize::Zeroizing;

use bardo_base::{private, regular_file};

/// Folder inside the data directory.
const FOLDER: &str = "serve";
/// Socket that consoles connect to.
const SOCKET: &str = "session.sock";
/// File with the token that a console must send.
const TOKEN: &str = "token";
/// File that a serving session keeps locked.
const LOCK: &str = "lock";
/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;
/// Longest path of a Unix socket that all systems accept, in bytes.
const LONGEST_PATH: usize = 100;

/// Number of further attempts to take the lock, and the pause before each.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(20);

/// Place where the session of a data directory is served: a folder with socket, token and lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
}

/// Reason that a session cannot be served or found.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A file or folder cannot be used.
    #[error("{}: {error}", path.display())]
    File {
        /// File or folder at fault.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Another session is served from this data directory.
    #[error("a session of this data directory is being served already: attach to it with `bardo attach`")]
    Served,
    /// No session is served from this data directory.
    #[error("no session of this data directory is being served: start one with `bardo serve`")]
    NotServed,
    /// The folder could be another user's.
    #[error(
        "{} is a link, or belongs to another user, or is open to others, so a session there is not trusted",
        path.display()
    )]
    NotOwn {
        /// Folder at fault.
        path: PathBuf,
    },
    /// The path of the data directory is too long for a Unix socket.
    #[error(
        "{} is too long for the path of a Unix socket (at most {LONGEST_PATH} bytes): use a data directory with a \
         shorter path",
        path.display()
    )]
    TooLong {
        /// Path that the socket would have.
        path: PathBuf,
    },
}

/// Served session: its listener, and the lock that it holds until it is dropped.
#[derive(Debug)]
pub struct Serving {
    /// Listener for consoles.
    pub(crate) listener: UnixListener,
    /// Token that a console must send.
    pub(crate) token: Zeroizing<String>,
    place: Place,
    _lock: File,
}

impl Place {
    /// Returns the place of the session in the data directory `data`.
    pub fn in_data(data: &Path) -> Self {
        Self { folder: data.join(FOLDER) }
    }

    /// Path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// True if a process serves a session here. A folder that is not its owner's alone counts as served, so that
    /// attaching to it reports why it is not trusted.
    pub fn is_served(&self) -> bool {
        match self.check_owner() {
            Err(PlaceError::NotServed) => false,
            Err(_) => true,
            Ok(()) => match regular_file::open_no_link(&self.folder.join(LOCK)) {
                Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
                Err(_) => false,
            },
        }
    }

    /// Checks that the folder is this user's, open to nobody else and no link: the program that controls it could serve
    /// a session of their own there, and would be sent commands and passwords.
    fn check_owner(&self) -> Result<(), PlaceError> {
        let path = &self.folder;
        let found = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(PlaceError::NotServed),
            Err(error) => return Err(PlaceError::File { path: path.clone(), error }),
            Ok(found) => found,
        };
        let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
        match own {
            true => Ok(()),
            false => Err(PlaceError::NotOwn { path: path.clone() }),
        }
    }

    /// Reads the token of the serving session.
    ///
    /// # Errors
    /// [`PlaceError::NotServed`], or [`PlaceError::File`] if the token cannot be read.
    pub fn token(&self) -> Result<Zeroizing<String>, PlaceError> {
        self.check_owner()?;
        if !self.is_served() {
            return Err(PlaceError::NotServed);
        }
        let path = self.folder.join(TOKEN);
        let mut text = Zeroizing::new(String::with_capacity(2 * TOKEN_BYTES));
        let read = regular_file::open_no_link(&path)
            .and_then(|file| file.take(2 * TOKEN_BYTES as u64).read_to_string(&mut text));
        read.map(|_| text).map_err(|error| PlaceError::File { path, error })
    }

    /// Begins to serve: takes the lock, writes a new token and binds the socket, all for the owner only. Must be called
    /// on a tokio runtime.
    ///
    /// # Errors
    /// [`PlaceError::Served`] if another session is served here; otherwise the file at fault.
    pub fn serve(self) -> Result<Serving, PlaceError> {
        let socket = self.socket();
        if socket.as_os_str().len() > LONGEST_PATH {
            return Err(PlaceError::TooLong { path: socket });
        }
        let of = |path: &Path| {
            let path = path.to_owned();
            move |error| PlaceError::File { path, error }
        };
        private::folder(&self.folder).map_err(of(&self.folder))?;
        let path = self.folder.join(LOCK);
        let mut options = private::file();
        let options = options.read(true).write(true).create(true).truncate(false);
        if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(of(&path)(std::io::ErrorKind::InvalidInput.into()));
        }
        let lock = regular_file::open_with(options, &path).map_err(of(&path))?;
        let mut tries = 0;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                // [`Self::is_served`] of another process holds the lock for a moment.
                Err(TryLockError::WouldBlock) if tries < TRIES => {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(PlaceError::Served),
                Err(TryLockError::Error(error)) => return Err(PlaceError::File { path, error }),
            }
        }
        let token = self.write_token()?;
        // Left behind by a process that was killed: only the holder of the lock gets here.
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(of(&socket)(error)),
            Ok(()) | Err(_) => {}
        }
        // Nobody else can reach the socket: its folder is the owner's alone.
        let listener = UnixListener::bind(&socket).map_err(of(&socket))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&socket, mode).map_err(of(&socket))?;
        Ok(Serving { listener, token, place: self, _lock: lock })
    }

    /// Replaces the token with a new one.
    fn write_token(&self) -> Result<Zeroizing<String>, PlaceError> {
        let mut bytes = Zeroizing::new([0_u8; TOKEN_BYTES]);
        rand::rng().fill(&mut bytes[..]);
        let mut token = Zeroizing::new(String::with_capacity(2 * TOKEN_BYTES));
        for byte in bytes.iter() {
            for digit in [byte >> 4, byte & 15] {
                token.extend(char::from_digit(u32::from(digit), 16));
            }
        }
        let path = self.folder.join(TOKEN);
        private::replace(&path, token.as_bytes()).map_err(|error| PlaceError::File { path, error })?;
        Ok(token)
    }
}

impl Serving {
    /// Path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.place.socket()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The lock still holds, so no other session has bound the socket meanwhile.
        let _gone = std::fs::remove_file(self.place.socket());
    }
}
