//! The `bardo serve` and `bardo attach` commands: a session without a screen, and consoles on it.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::{
    CliExit, CommandFailure, DisplayOptions, alerts, known_role, logs, print, session_summary, shown, without_controls,
};
use ::golem::brain::BrainChoice;
use bardo_attach::wire::{FromConsole, Greeting, Rights, line_of};
use bardo_attach::{AttachError, Connection, MetricsListener, Place, serve};
use bardo_base::config::{Config, SettingOrigin};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_console::source::Source;
use bardo_runtime::session::{Session, SessionOptions};
use bardo_session::handle::{
    AddressedCommand, LeaveMode, NEWS_WAITING, SessionCommand, SessionHandle, SessionLeft, SessionNews,
};
use bardo_session::market::MarketUpdate;

/// Timeout for a session to report its network.
const ANSWER: Duration = Duration::from_secs(2);

/// Way in which a served session is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum End {
    /// Start nothing new and wait for signed transactions
    Finish,
    /// Cancel open orders first
    CancelOrders,
    /// End at once; signed transactions are settled at the next start
    Now,
}

impl From<End> for LeaveMode {
    fn from(end: End) -> Self {
        match end {
            End::Finish => Self::Finish,
            End::CancelOrders => Self::CancelOrders,
            End::Now => Self::Now,
        }
    }
}

/// Returns the place of the configured data directory's session.
pub(super) fn place(config: &Config) -> Place {
    Place::in_data(&config.data_dir.value)
}

/// Runs the session until it ends, with its figures at `metrics_port` of 127.0.0.1; port 0 stands for any free port. Fails
/// if the session cannot start.
/// SIGINT and SIGTERM finish it, a second one ends it at once; SIGHUP, which a closed terminal sends, changes nothing.
pub(super) fn run(
    config: Config,
    session: SessionOptions,
    metrics_port: Option<u16>,
) -> Result<CliExit, CommandFailure> {
    let _found = BrainChoice::of(&config)?;
    known_role(&config)?;
    alerts::check(&config)?;
    let _logs = logs::start(&config)?;
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let (summary, not_started) = runtime.block_on(async {
        let serving = place(&config).serve()?;
        eprintln!("bardo: serving at {}; `bardo attach` opens a console on it", serving.socket().display());
        let figures = match metrics_port {
            Some(port) => Some(listen(port).await?),
            None => None,
        };
        let ends = leave_on_signals()?;
        let (handle, not_started) = ending_unless_started(Session::open(config, session));
        let summary = serve(serving, handle, ends, figures).await;
        let reason = not_started.lock().take();
        Ok::<_, CommandFailure>((summary, reason))
    })?;
    // A session that is still starting is not waited for.
    runtime.shutdown_background();
    if let Some(reason) = not_started {
        return Err(format!("the session did not start: {reason}").into());
    }
    eprintln!("bardo: the session has ended");
    if let Some(summary) = summary {
        session_summary::print_summary(&summary)?;
    }
    Ok(CliExit::Success)
}

/// Passes on what a session reports, and ends one that cannot start: nobody may be there to read it, and a service manager
/// starts the program again only if it ends. The reason is kept beside the returned handle.
fn ending_unless_started(session: SessionHandle) -> (SessionHandle, Arc<Mutex<Option<SafeText>>>) {
    let SessionHandle { commands, mut news } = session;
    let (told, heard) = mpsc::channel(NEWS_WAITING);
    let leaving = commands.clone();
    let reason = Arc::<Mutex<Option<SafeText>>>::default();
    let kept = Arc::clone(&reason);
    tokio::spawn(async move {
        while let Some(message) = news.recv().await {
            // A session reports an error that concerns no chain only if it does not start.
            if let SessionNews::Market(MarketUpdate::Fault { chain: None, message }) = &message {
                *kept.lock() = Some(message.clone());
                let command = SessionCommand::Leave(LeaveMode::Now);
                let _gone = leaving.send(AddressedCommand { golem_id: GolemId::operator(), command }).await;
            }
            if told.send(message).await.is_err() {
                return;
            }
        }
    });
    (SessionHandle { commands, news: heard }, reason)
}

async fn listen(port: u16) -> Result<MetricsListener, CommandFailure> {
    let listener = MetricsListener::bind(port).await;
    let listener = listener.map_err(|error| format!("cannot serve metrics on port {port} of 127.0.0.1: {error}"))?;
    eprintln!("bardo: metrics at http://{}/metrics, health at /healthz", listener.address()?);
    Ok(listener)
}

fn leave_on_signals() -> std::io::Result<mpsc::Receiver<LeaveMode>> {
    let (ends, ending) = mpsc::channel(4);
    let [mut hang_up, mut interrupt, mut terminate] =
        [signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
    tokio::spawn(async move {
        let mut mode = LeaveMode::Finish;
        loop {
            tokio::select! {
                Some(()) = hang_up.recv() => continue,
                Some(()) = interrupt.recv() => {}
                Some(()) = terminate.recv() => {}
                else => return,
            }
            eprintln!("bardo: {}", if mode == LeaveMode::Now { "ending now" } else { "finishing; again to end now" });
            if ends.send(mode).await.is_err() {
                return;
            }
            mode = LeaveMode::Now;
        }
    });
    Ok(ending)
}

/// Asks the served session to end.
pub(super) fn end(config: &Config, end: End) -> Result<CliExit, CommandFailure> {
    let connection = Connection::open(&place(config), Rights::Operate)?;
    let command = SessionCommand::Leave(end.into());
    connection.send(&FromConsole { sent: AddressedCommand { golem_id: GolemId::operator(), command } })?;
    print("asked the session to end\n")?;
    Ok(CliExit::Success)
}

/// Opens the console on the served session, for a command line that does not say so. The session keeps its own
/// settings, so settings for this run alone are refused.
pub(super) fn attach_plain(config: &Config, look: DisplayOptions) -> Result<CliExit, CommandFailure> {
    let asked = settings_of_this_run(config);
    if asked.is_empty() {
        return attach(config, None, look);
    }
    let (verb, them) = if asked.len() == 1 { ("applies", "it") } else { ("apply", "them") };
    Err(CommandFailure::usage(format!(
        "a session{} is served from {} already, and {} {verb} to a new session only. `bardo attach` opens a console on \
         the running one, `bardo serve --end` ends it; or remove {them}, or set BARDO_DATA_DIR to another folder",
        running_network(&place(config)).map(|network| format!(" on {network}")).unwrap_or_default(),
        config.data_dir.value.display(),
        asked.join(", ")
    )))
}

/// Sources of the settings of a session that come from flags or the environment.
fn settings_of_this_run(config: &Config) -> Vec<String> {
    let mut origins = vec![&config.network.origin, &config.golem.brain.origin, &config.golem.archetype.origin];
    origins.extend(config.book.iter().map(|book| &book.origin));
    origins.extend(config.account.iter().map(|account| &account.origin));
    let mut asked: Vec<String> = Vec::new();
    for origin in origins {
        match origin {
            SettingOrigin::Default | SettingOrigin::File { .. } => {}
            SettingOrigin::Environment(_) | SettingOrigin::Flag(_) => asked.push(origin.to_string()),
        }
    }
    // An endpoint in the environment selects no network; one in a flag does.
    let endpoints = config.chains.values().map(|chain| &chain.rpc.origin);
    let flags = endpoints.filter(|origin| matches!(origin, SettingOrigin::Flag(_))).take(1);
    asked.extend(flags.map(ToString::to_string));
    asked
}

/// Name of the network of the session at `place`; `None` if it does not say so within a moment.
fn running_network(place: &Place) -> Option<SafeText> {
    let connection = Connection::open(place, Rights::Watch).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let mut handle = connection.into_handle().ok()?;
        let network = async {
            loop {
                if let SessionNews::Market(MarketUpdate::Started(network)) = handle.news.recv().await? {
                    return Some(network.name);
                }
            }
        };
        tokio::time::timeout(ANSWER, network).await.ok().flatten()
    })
}

/// Opens the console on the served session.
pub(super) fn attach(config: &Config, via: Option<&str>, display: DisplayOptions) -> Result<CliExit, CommandFailure> {
    let rights = rights(&display);
    let (connection, tunnel) = match via {
        None => (Connection::open(&place(config), rights)?, None),
        Some(command) => connect_through(command).map(|(connection, tunnel)| (connection, Some(tunnel)))?,
    };
    // Suspending an attached console stops nothing.
    let options = display.options(config, true)?;
    let source: Source = Box::new(move || connection.into_handle().unwrap_or_else(|error| failed(&error)));
    let ended = bardo_console::run(&options, source);
    drop(tunnel);
    shown(ended, |summary| match summary.left {
        SessionLeft::Detached => print("Detached; the session goes on: `bardo attach`\n"),
        SessionLeft::Lost => print("The connection is lost. If the session goes on, `bardo attach` opens it again.\n"),
        SessionLeft::Ended => {
            print("The session has ended.\n")?;
            session_summary::print_summary(summary)
        }
    })
}

fn rights(display: &DisplayOptions) -> Rights {
    if display.watch { Rights::Watch } else { Rights::Operate }
}

/// Running program that leads to a session. It is killed on drop: its connection is closed by then.
pub(super) struct TunnelProcess(Child);

impl Drop for TunnelProcess {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Starts a program that leads to a session, such as `ssh HOST bardo attach --stdio`. It may ask for a password on the
/// terminal itself. What it writes to stderr is shown until the session has answered, without control characters, and
/// dropped afterwards, when the console draws there.
pub(super) fn connect_through(command: &str) -> Result<(Connection, TunnelProcess), CommandFailure> {
    let (ours, theirs) = UnixStream::pair()?;
    let (reading, writing) = (OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs));
    let mut program = Command::new("/bin/sh");
    program.args(["-c", command]).stdin(Stdio::from(reading)).stdout(Stdio::from(writing)).stderr(Stdio::piped());
    let mut child = program.spawn().map_err(|error| format!("cannot start `{command}`: {error}"))?;
    // The other side of the pair is the program's alone, so that its end is noticed.
    drop(program);
    let messages = child.stderr.take();
    let tunnel = TunnelProcess(child);
    let shows = Arc::new(Mutex::new(true));
    let (finished, ended) = std::sync::mpsc::channel();
    if let Some(mut messages) = messages {
        let shows = Arc::clone(&shows);
        std::thread::spawn(move || {
            let _finished: std::sync::mpsc::Sender<()> = finished;
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = messages.read(&mut buffer) {
                let shows = shows.lock();
                if *shows && let Some(bytes) = buffer.get(..read) {
                    let text = without_controls(&String::from_utf8_lossy(bytes).replace("\r\n", "\n"));
                    let _gone = std::io::stderr().write_all(text.as_bytes());
                }
            }
        });
    }
    let connection = Connection::over(ours, command).inspect_err(|_| {
        // Its last message says why; another process may hold its stderr open for longer.
        let _closed = ended.recv_timeout(Duration::from_secs(1));
    })?;
    *shows.lock() = false;
    Ok((connection, tunnel))
}

/// A handle that reports why there is no session behind it.
fn failed(error: &std::io::Error) -> SessionHandle {
    let (handle, end) = SessionHandle::pair();
    let message = SafeText::clean(&error.to_string(), 300);
    // A new channel has room for the first message.
    let _told = end.news.try_send(SessionNews::Market(MarketUpdate::Fault { chain: None, message }));
    handle
}

/// Connects a console on another machine, which reads stdout and writes stdin, with the session of this one.
pub(super) fn stdio(config: &Config, display: &DisplayOptions) -> Result<CliExit, CommandFailure> {
    match Connection::open(&place(config), rights(display)) {
        Ok(connection) => {
            connection.copy(std::io::stdin(), std::io::stdout())?;
            Ok(CliExit::Success)
        }
        Err(error) => {
            let why = match &error {
                AttachError::Refused(why) => why.clone(),
                AttachError::Place(_) | AttachError::OtherUser | AttachError::Connection { .. } => {
                    SafeText::clean(&error.to_string(), 300)
                }
            };
            print(&line_of(&Greeting::Refused { why })?)?;
            Err(error.into())
        }
    }
}
