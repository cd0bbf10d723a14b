//! Launcher of confined processes: Bardo's own binary, started again under one of two hidden names.
//!
//! The supervisor opens a session, starts the confined process, and kills everything that belongs to it when Bardo
//! ends, however that happens. The confined process drops its rights, reports on its stdout which measures are in
//! force, and then becomes the program. Neither needs `unsafe`: both restrict the process that they run in.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use super::{Isolation, LaunchError, NotIsolated, rules};

/// Hidden command name of the supervisor.
pub const SUPERVISE: &str = "__run-confined";
/// Hidden command name of the process that becomes the program.
const ENTER: &str = "__enter-confined";
/// Interval at which the supervisor checks that Bardo is running.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Exit code of a failed launch: the shell's code for a program that cannot be started.
const NOT_LAUNCHED: u8 = 126;

/// Launch parameters, passed as a command-line argument. They contain no secrets, because other processes can read
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchSpecification {
    /// Id of the process that the program must not outlive.
    pub parent: u32,
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Files and folders that the program may read and execute.
    pub read: Vec<PathBuf>,
    /// Files and folders that the program may read and change.
    pub write: Vec<PathBuf>,
    /// True if Internet sockets are allowed.
    pub network: bool,
    /// True if the program may run where the isolation is not enforced.
    pub allow_unisolated: bool,
    /// True if a test simulates a system without Landlock.
    pub simulate_absent: bool,
}

impl LaunchSpecification {
    /// True in a simulated test; always false in release builds.
    pub(super) fn simulate_absent(&self) -> bool {
        cfg!(debug_assertions) && self.simulate_absent
    }
}

/// First line on the program's stdout, written before the program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchReport {
    /// The program starts now.
    Starting {
        /// Measures that are in force.
        isolation: Isolation,
        /// Id of the process that becomes the program and leads its process group.
        process: u32,
    },
    /// The program is not started.
    Refused {
        /// Reason in a sentence.
        why: String,
    },
}

/// Runs this process as the launcher if its arguments say so; returns `None` otherwise.
pub fn dispatch() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let (role, specification) = (arguments.next()?, arguments.next());
    let launch: fn(&LaunchSpecification) -> Result<ExitCode, LaunchError> = match role.to_str() {
        Some(SUPERVISE) => supervise,
        Some(ENTER) => enter,
        _ => return None,
    };
    let read = |text: &OsStr| text.to_str().and_then(|text| serde_json::from_str(text).ok());
    let launched = match specification.as_deref().and_then(read) {
        Some(specification) => launch(&specification),
        None => Err(LaunchError::NoSpecification),
    };
    Some(launched.unwrap_or_else(|why| {
        report(&LaunchReport::Refused { why: why.to_string() });
        ExitCode::from(NOT_LAUNCHED)
    }))
}

/// Builds the command that starts the supervisor, without pipes and environment.
///
/// # Errors
/// Returns the reason if a path is not UTF-8 or Bardo's binary is not found.
pub(in super::super) fn command(specification: &LaunchSpecification) -> Result<Command, LaunchError> {
    let text = serde_json::to_string(specification).map_err(LaunchError::Specification)?;
    let mut command = Command::new(launcher()?);
    command.args([SUPERVISE, &text]);
    Ok(command)
}

/// Returns the path of Bardo's binary: that of this process. Tests and examples run from a folder one level deeper.
fn launcher() -> Result<PathBuf, LaunchError> {
    let own = std::env::current_exe().map_err(LaunchError::OwnBinary)?;
    if cfg!(debug_assertions)
        && own.parent().and_then(Path::file_name).is_some_and(|name| name == "deps" || name == "examples")
    {
        let beside = own.parent().and_then(Path::parent).map(|folder| folder.join("bardo"));
        return beside.filter(|path| path.is_file()).ok_or(LaunchError::NotBuilt);
    }
    // The link stays valid while an update replaces the file.
    Ok(if cfg!(target_os = "linux") { PathBuf::from("/proc/self/exe") } else { own })
}

fn report(report: &LaunchReport) {
    if let Ok(line) = serde_json::to_string(report) {
        // Bardo may be gone already.
        let _unread = writeln!(std::io::stdout(), "{line}");
    }
}

/// Closes all inherited descriptors except the three standard ones.
fn close_inherited() {
    let listed = std::fs::read_dir("/dev/fd").map(|entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        names.collect::<Vec<_>>()
    });
    // Without a list, this range exceeds the usual number of descriptors.
    let descriptors = listed.unwrap_or_else(|_| (3..65_536).collect());
    for descriptor in descriptors.into_iter().filter(|descriptor| *descriptor > 2) {
        // The descriptor that listed the folder is closed already. Nothing else in this process owns a descriptor yet.
        let _closed = nix::unistd::close(descriptor);
    }
}

fn common() -> Result<(), LaunchError> {
    close_inherited();
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none).map_err(LaunchError::CoreDumps)
}

/// Runs beside the program until it ends, and kills it when Bardo has ended.
fn supervise(specification: &LaunchSpecification) -> Result<ExitCode, LaunchError> {
    common()?;
    rustix::process::setsid().map_err(LaunchError::Session)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(LaunchError::Memory)?;
    let text = serde_json::to_string(specification).map_err(LaunchError::Specification)?;
    let mut command = Command::new(launcher()?);
    // The program cannot leave this process group, so killing the group ends everything.
    command.args([ENTER, &text]).process_group(0);
    let child = command.spawn().map_err(LaunchError::Spawn)?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(LaunchError::NoProcessId)?;
    // The pipes belong to the program: Bardo must see when the program closes them.
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.map_err(LaunchError::Null)?;
    let quiet = rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .and_then(|()| rustix::stdio::dup2_stderr(&null));
    quiet.map_err(LaunchError::Pipes)?;
    let parent = i32::try_from(specification.parent).ok().and_then(Pid::from_raw);
    let end = move || {
        // The group may have ended by itself.
        let _gone = rustix::process::kill_process_group(process, Signal::KILL);
    };
    std::thread::spawn(move || {
        while rustix::process::getppid() == parent {
            std::thread::sleep(POLL_INTERVAL);
        }
        end();
        std::process::exit(i32::from(NOT_LAUNCHED));
    });
    // The program stays in the process table, so that its group id is not reused.
    let waited = loop {
        match rustix::process::waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other,
        }
    };
    end();
    let status = waited.map_err(LaunchError::Wait)?;
    let Some(status) = status else { return Ok(ExitCode::from(NOT_LAUNCHED)) };
    // The supervisor ends in the same way as the program.
    if let Some(signal) = status.terminating_signal().and_then(Signal::from_named_raw) {
        let _ended = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(NOT_LAUNCHED)))
}

/// Restricts this process and replaces it by the program.
fn enter(specification: &LaunchSpecification) -> Result<ExitCode, LaunchError> {
    common()?;
    let supervisor = rustix::process::getppid();
    let isolation = rules::restrict(specification)?;
    if !isolation.is_isolated() && !specification.allow_unisolated {
        return Err(NotIsolated(isolation).into());
    }
    #[cfg(target_os = "linux")]
    {
        // This must follow the drop of capabilities, which clears the setting.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(LaunchError::Bind)?;
        if rustix::process::getppid() != supervisor {
            return Err(LaunchError::SupervisorEnded);
        }
    }
    report(&LaunchReport::Starting { isolation, process: std::process::id() });
    let mut command = Command::new(&specification.program);
    let error = command.args(&specification.arguments).stdin(Stdio::inherit()).exec();
    // The report is out, so this error goes to stderr like a program's own.
    let _unread = writeln!(std::io::stderr(), "cannot start `{}`: {error}", specification.program.display());
    Ok(ExitCode::from(NOT_LAUNCHED))
}
