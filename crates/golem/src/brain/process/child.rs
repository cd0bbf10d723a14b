//! Confined child process with three pipes, each on a thread of its own. Excess output fills no memory, unread input
//! blocks no caller, and dropping the handle kills the process with all its descendants.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::confinement::launch::{LaunchReport, LaunchSpecification};
use super::confinement::{Confinement, ConfinementPlanError, Isolation, LaunchError, launch, plan};
use super::protocol::MOST_LINE;
use bardo_base::removal;
use bardo_base::text::SafeText;

/// Maximum number of lines from the process that wait for Bardo. A process that writes more blocks at its pipe.
const LINES_WAITING: usize = 64;
/// Maximum number of lines that wait for the process. If the queue is full, the process has stopped reading.
const WORDS_WAITING: usize = 256;
/// Size of the kept tail of stderr, in bytes.
const KEPT: usize = 2_048;
/// Timeout for the launcher to report.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Output of a child process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChildOutput {
    /// Line without its terminator.
    Line(Vec<u8>),
    /// Line of more than [`MOST_LINE`] bytes; the rest is not read.
    TooLong,
    /// End of stdout, with the length of an unterminated last line in bytes.
    End(usize),
}

/// Parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

impl CommandLine {
    /// Splits a line at white space; single and double quotes keep words together. No shell is involved.
    ///
    /// # Errors
    /// Returns a description of the problem.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        let mut words: Vec<String> = Vec::new();
        let mut word: Option<String> = None;
        let mut quote = None;
        for letter in line.chars() {
            match (quote, letter) {
                (Some(open), _) if letter == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (None, _) if letter.is_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(letter),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed");
        }
        words.extend(word);
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or("the command names no program")?;
        Ok(Self { program, arguments: words.collect() })
    }

    /// Name of the program as written.
    pub fn program(&self) -> &str {
        &self.program
    }
}

/// Error of starting a brain process.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// It needs what stays closed, or is not there.
    #[error(transparent)]
    Plan(#[from] ConfinementPlanError),
    /// No folder of its own can be made.
    #[error("cannot create a scratch folder for the brain: {0}")]
    Scratch(#[source] std::io::Error),
    /// Temporary files are kept in a protected folder.
    #[error("the temporary folder is inside a protected folder; set TMPDIR to another one")]
    ScratchProtected,
    /// Its launcher does not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Nothing can serve its pipes.
    #[error("cannot start a thread for its pipes: {0}")]
    Thread(#[source] std::io::Error),
    /// Its launcher refuses to start it.
    #[error("cannot start `{program}`: {why}")]
    Refused {
        /// Name of the program as written.
        program: SafeText,
        /// The launcher's reason.
        why: SafeText,
    },
    /// Its launcher says nothing in time.
    #[error("cannot start `{program}`: its launcher does not respond")]
    NoReport {
        /// Name of the program as written.
        program: SafeText,
    },
}

/// Scratch folder of a process. Once a program has run, [`ScratchFolder::remove`] deletes it with its contents.
/// Dropping the value removes only an empty folder.
#[derive(Debug)]
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Creates the folder, accessible only for this user.
    fn make() -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("bardo-brain-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let folder = std::fs::canonicalize(std::env::temp_dir())?.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Removes the folder with everything the program left in it.
    fn remove(&self) {
        match removal::folder(&self.0) {
            Ok(()) => {}
            // A program can create folders that cannot be removed; nothing depends on their removal.
            Err(error) => tracing::warn!(folder = %self.0.display(), %error, "cannot remove a brain's scratch folder"),
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Dropping must not take long, so it removes only an empty folder: one in which no program has run.
        let _removed_already = std::fs::remove_dir(&self.0);
    }
}

/// Running child process. Dropping it kills the process with all its descendants.
#[derive(Debug)]
pub(super) struct ChildProcess {
    /// Supervisor of the program.
    child: Option<Child>,
    /// Leader of the program's process group, known after its report.
    group: Option<rustix::process::Pid>,
    scratch: Option<ScratchFolder>,
    out: mpsc::Receiver<ChildOutput>,
    words: Option<mpsc::Sender<Vec<u8>>>,
    complaints: Arc<Mutex<Vec<u8>>>,
    /// Thread that reads stderr.
    listener: Option<thread::JoinHandle<()>>,
}

impl ChildProcess {
    /// Starts a confined program and waits until it runs.
    ///
    /// # Errors
    /// [`StartError`].
    pub(super) async fn start(line: &CommandLine, confinement: &Confinement) -> Result<(Self, Isolation), StartError> {
        let mut running = Self::launch(line, confinement)?;
        let report = match tokio::time::timeout(LAUNCH_TIMEOUT, running.next()).await {
            Ok(Some(ChildOutput::Line(line))) => serde_json::from_slice(&line).ok(),
            Ok(Some(ChildOutput::TooLong | ChildOutput::End(_)) | None) | Err(_) => None,
        };
        let named = || SafeText::clean(&line.program, 300);
        match report {
            Some(LaunchReport::Starting { isolation, process }) => {
                running.group = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
                Ok((running, isolation))
            }
            Some(LaunchReport::Refused { why }) => {
                Err(StartError::Refused { program: named(), why: SafeText::clean(&why, 300) })
            }
            None => Err(StartError::NoReport { program: named() }),
        }
    }

    fn launch(line: &CommandLine, confinement: &Confinement) -> Result<Self, StartError> {
        let allowed = plan(&line.program, &line.arguments, confinement)?;
        let scratch = ScratchFolder::make().map_err(StartError::Scratch)?;
        if confinement.protected.iter().any(|folder| scratch.0.starts_with(folder)) {
            return Err(StartError::ScratchProtected);
        }
        let paths = |set: std::collections::BTreeSet<PathBuf>| set.into_iter().collect::<Vec<_>>();
        let mut write = paths(allowed.write);
        write.push(scratch.0.clone());
        let specification = LaunchSpecification {
            parent: std::process::id(),
            program: allowed.program,
            arguments: line.arguments.clone(),
            read: paths(allowed.read),
            write,
            network: confinement.network,
            allow_unisolated: confinement.allow_unisolated,
            simulate_absent: super::confinement::is_simulated_absent(),
        };
        let mut command = launch::command(&specification)?;
        command.env_clear();
        for name in &allowed.environment {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for name in ["TMPDIR", "TMP", "TEMP"] {
            command.env(name, &scratch.0);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(LaunchError::Spawn)?;
        let (send, out) = mpsc::channel(LINES_WAITING);
        let (words, said) = mpsc::channel(WORDS_WAITING);
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on, any error drops this value and so kills the child.
        let mut running = Self {
            child: Some(child),
            group: None,
            scratch: Some(scratch),
            out,
            words: Some(words),
            complaints: Arc::clone(&complaints),
            listener: None,
        };
        let named = || thread::Builder::new().name("brain".to_owned());
        if let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) {
            named().spawn(move || write_lines(stdin, said)).map_err(StartError::Thread)?;
            named().spawn(move || read(stdout, &send)).map_err(StartError::Thread)?;
            running.listener = Some(named().spawn(move || listen(stderr, &complaints)).map_err(StartError::Thread)?);
        }
        Ok(running)
    }

    /// Returns the next output; `None` after the end of stdout.
    pub(super) async fn next(&mut self) -> Option<ChildOutput> {
        self.out.recv().await
    }

    /// Queues a line for the process; false if the process no longer reads.
    pub(super) fn send_line(&self, line: &serde_json::Value) -> bool {
        let Some(words) = &self.words else { return false };
        words.try_send(format!("{line}\n").into_bytes()).is_ok()
    }

    /// Closes stdin after the queued lines.
    pub(super) fn close(&mut self) {
        self.words = None;
    }

    /// Describes how the process ended; `None` while it runs. The supervisor ends in the same way as the program. It
    /// stays in the process table until it is dropped, so that its id is not reused.
    pub(super) fn ended(&mut self) -> Option<String> {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let number = Pid::from_raw(i32::try_from(self.child.as_ref()?.id()).ok()?)?;
        let status = waitid(WaitId::Pid(number), options).ok().flatten()?;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, Some(signal)) => format!("it was killed by signal {signal}"),
            (None, None) => "it ended".to_owned(),
        })
    }

    /// True if all of stderr has been read.
    pub(super) fn stderr_is_read(&self) -> bool {
        self.listener.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }

    /// Returns the last line of stderr that is not blank.
    pub(super) fn complaint(&self) -> SafeText {
        let kept = self.complaints.lock();
        let last = kept.split(|byte| *byte == b'\n').rfind(|line| !line.iter().all(u8::is_ascii_whitespace));
        SafeText::clean_bytes(last.unwrap_or_default(), 200)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // A supervisor that has ended has killed the group itself, and the group id may have been reused.
        if let (None, Some(group)) = (self.ended(), self.group) {
            let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let Some(mut child) = self.child.take() else { return };
        // The child may have ended by itself. A program that has not reported yet ends with its supervisor.
        let _gone = child.kill();
        let scratch = self.scratch.take();
        // The kill takes effect at once. Waiting only clears the process table and must not block the caller.
        let _unreaped = thread::Builder::new().name("brain".to_owned()).spawn(move || {
            let _ended = child.wait();
            if let Some(scratch) = scratch {
                scratch.remove();
            }
        });
    }
}

/// Splits the output into lines.
fn read(mut from: impl Read, to: &mpsc::Sender<ChildOutput>) {
    let mut line = Vec::new();
    let mut piece = [0_u8; 8_192];
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in piece.get(..read).unwrap_or_default() {
            if *byte == b'\n' {
                if to.blocking_send(ChildOutput::Line(std::mem::take(&mut line))).is_err() {
                    return;
                }
            } else if line.len() >= MOST_LINE {
                // The receiver may be gone.
                let _gone = to.blocking_send(ChildOutput::TooLong);
                return;
            } else {
                line.push(*byte);
            }
        }
    }
    let _gone = to.blocking_send(ChildOutput::End(line.len()));
}

fn write_lines(mut to: ChildStdin, mut words: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = words.blocking_recv() {
        // Other parts of the code detect that the process closed its stdin.
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn listen(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut piece = [0_u8; 1_024];
    while let Ok(read) = from.read(&mut piece) {
        if read == 0 {
            return;
        }
        let mut kept = kept.lock();
        kept.extend_from_slice(piece.get(..read).unwrap_or_default());
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_without_a_shell() {
        let parts = |line: &str| CommandLine::parse(line).map(|line| (line.program, line.arguments));
        assert_eq!(parts("python3 a.py"), Ok(("python3".to_owned(), vec!["a.py".to_owned()])));
        let quoted = vec!["-c".to_owned(), "print('a b')".to_owned(), String::new(), "x;$(rm)".to_owned()];
        assert_eq!(parts(r#" python3 -c "print('a b')" '' x;$(rm) "#), Ok(("python3".to_owned(), quoted)));
        assert_eq!(parts("  "), Err("the command names no program"));
        assert_eq!(parts("a 'b"), Err("a quote is not closed"));
    }

    #[test]
    fn lines_are_split_and_an_endless_one_is_dropped() {
        let cut = |bytes: &[u8]| {
            let (send, mut out) = mpsc::channel(64);
            read(bytes, &send);
            drop(send);
            std::iter::from_fn(|| out.blocking_recv()).collect::<Vec<_>>()
        };
        let line = |text: &str| ChildOutput::Line(text.as_bytes().to_vec());
        assert_eq!(cut(b"a\n\nbc\nhalf"), [line("a"), line(""), line("bc"), ChildOutput::End(4)]);
        let endless = vec![b'x'; MOST_LINE + 1];
        assert_eq!(cut(&endless), [ChildOutput::TooLong]);
    }

    #[test]
    fn of_endless_stderr_only_the_last_lines_are_kept() {
        let said: Vec<u8> = (0..10_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
        let kept = Mutex::new(Vec::new());
        listen(said.as_slice(), &kept);
        let kept = kept.into_inner();
        assert_eq!(kept.len(), 2_048);
        assert!(kept.ends_with(b"line 9998\nline 9999\n"));
    }
}
