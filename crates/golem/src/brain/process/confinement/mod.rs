//! Confinement of a brain process: allowed access, launch, and the measures that the system enforces.
//!
//! Bardo never starts a brain's program directly. It starts its own binary again as the launcher ([`launch`]): a
//! supervisor with its own session, and below it a process that drops its rights and then becomes the program. [`plan`]
//! derives the allowed paths, [`rules`] turns them into Landlock and seccomp rules.
//!
//! | measure | closes |
//! |---|---|
//! | own session, no terminal, all other descriptors closed, cleared environment | keys and screen of the console, inherited files, secrets |
//! | Landlock allow-list | data, configuration and key folders, terminals, sockets' folders, `/proc` |
//! | Landlock scopes | signals to Bardo, abstract Unix sockets |
//! | seccomp | Unix sockets, `ptrace`, TIOCSTI, TIOCLINUX, io_uring, namespaces, mode and owner changes, System V and POSIX queues |
//! | no capabilities, no new privileges | everything that root or a set-uid program could undo |

mod error;
pub mod launch;
mod plan;
mod rules;

use std::path::{Path, PathBuf};

pub use bardo_session::isolation::{Isolation, IsolationLevel, IsolationMeasure};
pub use error::{LaunchError, NotIsolated};
pub use plan::{ConfinementPlan, ConfinementPlanError, plan};

/// Returns the measures that this system can enforce, without restricting this process.
pub fn available() -> Isolation {
    rules::available(is_simulated_absent())
}

/// Access of a brain process beyond the needs of its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Folders that must stay closed: data, configuration, keys.
    pub protected: Vec<PathBuf>,
    /// Further files and folders that it may read and execute.
    pub read: Vec<PathBuf>,
    /// Further files and folders that it may also change.
    pub write: Vec<PathBuf>,
    /// Names of further environment variables that it receives.
    pub environment: Vec<String>,
    /// True if it may open Internet sockets.
    pub network: bool,
    /// True if it runs even where [`Isolation::is_isolated`] is false.
    pub allow_unisolated: bool,
}

impl Confinement {
    /// Creates the minimal access rules, with these folders protected. Internet sockets are allowed.
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

/// True if a test simulates a system without Landlock; always false in release builds.
pub(super) fn is_simulated_absent() -> bool {
    cfg!(debug_assertions) && std::env::var_os("BARDO_TEST_NO_LANDLOCK").is_some_and(|value| value == "1")
}
