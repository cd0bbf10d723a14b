//! Confinement of a brain process: what it may reach, how it is launched, and how much of that the system enforces.
//!
//! Bardo never starts a brain's program itself. It starts its own binary a second time, as the launcher ([`launch`]):
//! a supervisor with a session of its own, and below it a process that gives up its rights and then becomes the
//! program. [`plan`] derives the allowed paths, [`rules`] turns them into Landlock and seccomp rules.
//!
//! | measure | closes |
//! |---|---|
//! | own session, no terminal, all other descriptors closed, cleared environment | keys and screen of the console, inherited files, secrets |
//! | Landlock allow-list | data, configuration and key folders, terminals, sockets' folders, `/proc` |
//! | Landlock scopes | signals to Bardo, abstract Unix sockets |
//! | seccomp | Unix sockets, `ptrace`, TIOCSTI, TIOCLINUX, io_uring, namespaces, mode and owner changes, System V and POSIX queues |
//! | no capabilities, no new privileges | what root or a set-uid program could undo |

mod error;
pub mod launch;
mod plan;
mod rules;

use std::path::{Path, PathBuf};

pub use bardo_session::isolation::{Isolation, IsolationLevel, Measure};
pub use error::{LaunchError, NotIsolated};
pub use plan::{Plan, PlanError, plan};

/// What this system can enforce, found without restricting this process.
pub fn available() -> Isolation {
    rules::available(is_simulated_absent())
}

/// What a brain process may reach beside what its command needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Folders that must stay closed: data, configuration, keys.
    pub protected: Vec<PathBuf>,
    /// Further files and folders that it may read and execute.
    pub read: Vec<PathBuf>,
    /// Further files and folders that it may also change.
    pub write: Vec<PathBuf>,
    /// Further environment variables that it receives, by name.
    pub environment: Vec<String>,
    /// Whether it may open Internet sockets.
    pub network: bool,
    /// Whether it runs even where [`Isolation::is_isolated`] is false.
    pub allow_unisolated: bool,
}

impl Confinement {
    /// The least that a program can have, with these folders protected.
    pub fn protecting(protected: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        Self {
            protected: protected.into_iter().map(|path| path.as_ref().to_owned()).collect(),
            read: Vec::new(),
            write: Vec::new(),
            environment: Vec::new(),
            network: true,
            allow_unisolated: false,
        }
    }
}

/// Whether a test pretends that this system has no Landlock. Release builds never do.
pub(super) fn is_simulated_absent() -> bool {
    cfg!(debug_assertions) && std::env::var_os("BARDO_TEST_NO_LANDLOCK").is_some_and(|value| value == "1")
}
