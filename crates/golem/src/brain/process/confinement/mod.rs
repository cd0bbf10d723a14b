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
//! | seccomp | Unix sockets, `ptrace`, TIOCSTI, TIOCLINUX, io_uring, namespaces, mode and owner changes |
//! | no capabilities, no new privileges | what root or a set-uid program could undo |

pub mod launch;
mod plan;
mod rules;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use plan::{Plan, PlanError, plan};

/// A part of the isolation that depends on the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Files, folders and terminals outside the allow-list are closed.
    Files,
    /// Dangerous system calls are refused.
    SystemCalls,
    /// Signals and abstract sockets outside the brain are closed.
    Signals,
}

impl Measure {
    /// What it keeps the program from, with the system that has it.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Files => "files and terminals (Landlock, Linux 6.2 or later)",
            Self::SystemCalls => "system calls (seccomp)",
            Self::Signals => "signals (Landlock scopes, Linux 6.12 or later)",
        }
    }
}

/// How much of the isolation the system enforces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    missing: Vec<Measure>,
}

/// The same in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// Every measure is in force.
    Full,
    /// The program cannot act as the operator, but it can disturb: only [`Measure::Signals`] is missing.
    Partial,
    /// The program could act as the operator.
    None,
}

impl Isolation {
    /// The isolation with these measures missing.
    pub fn without(missing: impl IntoIterator<Item = Measure>) -> Self {
        let mut missing: Vec<Measure> = missing.into_iter().collect();
        missing.sort_unstable();
        missing.dedup();
        Self { missing }
    }

    /// What this system can enforce, found without restricting this process.
    pub fn available() -> Self {
        rules::available(is_simulated_absent())
    }

    /// What is not in force.
    pub fn missing(&self) -> &[Measure] {
        &self.missing
    }

    /// How much is in force.
    pub fn level(&self) -> IsolationLevel {
        if self.missing.is_empty() {
            IsolationLevel::Full
        } else if self.missing.iter().all(|measure| *measure == Measure::Signals) {
            IsolationLevel::Partial
        } else {
            IsolationLevel::None
        }
    }

    /// Whether the program cannot act as the operator.
    pub fn is_isolated(&self) -> bool {
        match self.level() {
            IsolationLevel::Full | IsolationLevel::Partial => true,
            IsolationLevel::None => false,
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level() {
            IsolationLevel::Full => "brain isolated",
            IsolationLevel::Partial => "brain partly isolated",
            IsolationLevel::None => "brain not isolated",
        })?;
        let missing: Vec<&str> = self.missing.iter().map(|measure| measure.describe()).collect();
        if missing.is_empty() { Ok(()) } else { write!(f, "; missing: {}", missing.join(", ")) }
    }
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
