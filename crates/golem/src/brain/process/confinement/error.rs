//! Errors of launching a confined program.

use std::io;

use rustix::io::Errno;

use super::Isolation;

/// The system cannot isolate a program, and the configuration does not allow it to run without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}. Such a program could act as you. Use a system with Landlock, another brain, or set golem.allow_unisolated_brain \
     = true."
)]
pub struct NotIsolated(pub Isolation);

/// Error of the launcher; the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launcher has no specification that it can read.
    #[error("the launcher was called without a specification")]
    NoSpecification,
    /// A path of the specification is not UTF-8.
    #[error("a path is not UTF-8: {0}")]
    Specification(#[source] serde_json::Error),
    /// The path of Bardo's binary is not known.
    #[error("cannot find Bardo's own binary: {0}")]
    OwnBinary(#[source] io::Error),
    /// A test or example runs without the binary beside it.
    #[error("brain processes are launched by the `bardo` binary, which is not built; run `cargo build`")]
    NotBuilt,
    /// The launcher's process does not start.
    #[error("cannot start the launcher: {0}")]
    Spawn(#[source] io::Error),
    /// The launcher's process has no id.
    #[error("the launcher has no process id")]
    NoProcessId,
    /// Core dumps cannot be turned off.
    #[error("cannot disable core dumps: {0}")]
    CoreDumps(#[source] Errno),
    /// The supervisor cannot open a session of its own.
    #[error("cannot create a new session: {0}")]
    Session(#[source] Errno),
    /// Other processes could read the supervisor's memory.
    #[error("cannot protect the supervisor's memory: {0}")]
    Memory(#[source] Errno),
    /// `/dev/null` cannot be opened.
    #[error("/dev/null: {0}")]
    Null(#[source] io::Error),
    /// The supervisor cannot let go of the program's pipes.
    #[error("cannot pass the pipes to the program: {0}")]
    Pipes(#[source] Errno),
    /// The supervisor cannot wait for the program.
    #[error("cannot wait for the program: {0}")]
    Wait(#[source] Errno),
    /// The program would outlive its supervisor.
    #[error("cannot bind the program to its supervisor: {0}")]
    Bind(#[source] Errno),
    /// The supervisor ended before the program started.
    #[error("the supervisor has ended")]
    SupervisorEnded,
    /// The process keeps capabilities.
    #[error("cannot drop capabilities: {0}")]
    Capabilities(#[source] Errno),
    /// The process could gain privileges.
    #[error("cannot lock privileges: {0}")]
    Privileges(#[source] Errno),
    /// Landlock refuses the rules.
    #[cfg(target_os = "linux")]
    #[error("Landlock: {0}")]
    Landlock(#[source] landlock::RulesetError),
    /// Landlock does not apply the rules.
    #[error("Landlock: the kernel did not enforce the rules")]
    NotEnforced,
    /// The system cannot isolate the program.
    #[error(transparent)]
    NotIsolated(#[from] NotIsolated),
}

/// Error of installing a program's system call filter.
#[cfg(target_os = "linux")]
#[derive(Debug, thiserror::Error)]
pub(super) enum SeccompError {
    /// No filter can be compiled for this processor.
    #[error("seccomp is not supported on this architecture")]
    Architecture,
    /// A filter cannot be compiled.
    #[error(transparent)]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel does not take a filter.
    #[error(transparent)]
    Apply(#[from] seccompiler::Error),
}
