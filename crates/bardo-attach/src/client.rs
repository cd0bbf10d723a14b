//! A console's side of a connection.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use zeroize::Zeroizing;

use super::place::{Place, PlaceError};
use super::wire::{self, FromConsole, Greeting, Hello, MAX_FROM_SESSION, Rights, VERSION};
use bardo_base::text::SafeText;
use bardo_session::handle::{SessionCommand, SessionEnd, SessionHandle, SessionLeft, SessionNews, SessionSummary};
use bardo_session::market::MarketUpdate;

/// Timeout for the session's greeting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for the greeting through another program, which may ask for a password.
const PATIENCE_WITH_PASSWORD: Duration = Duration::from_secs(60);

/// Maximum length of a session's greeting, in bytes.
const MAX_GREETING: usize = 64 << 10;

/// Reason that a console is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No session is served, or its token cannot be read.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The session cannot be reached.
    #[error("the session at {socket} cannot be reached: {error}")]
    Connection {
        /// Socket or command that leads to the session.
        socket: String,
        /// Error of the connection.
        error: std::io::Error,
    },
    /// Another user listens on the socket.
    #[error("the session is another user's, so it is not trusted")]
    OtherUser,
    /// The session refused the console.
    #[error("the session refuses this console: {0}")]
    Refused(SafeText),
}

/// Connection to a served session, after its greeting.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    rights: Rights,
    /// Bytes after the greeting that were read with it.
    begun: Vec<u8>,
}

impl Connection {
    /// Connects to the session that is served at `place`. Blocks for up to ten seconds.
    ///
    /// # Errors
    /// [`AttachError`] if no session is served there, or if it refuses.
    pub fn open(place: &Place, rights: Rights) -> Result<Self, AttachError> {
        let token = place.token()?;
        let socket = place.socket();
        let failed = |error| AttachError::Connection { socket: socket.display().to_string(), error };
        let stream = UnixStream::connect(&socket).map_err(failed)?;
        if peer_uid(&stream).map_err(failed)? != rustix::process::geteuid().as_raw() {
            return Err(AttachError::OtherUser);
        }
        // The clone that was asked shares the mode.
        stream.set_nonblocking(false).map_err(failed)?;
        let hello = Hello { bardo: VERSION, token: token.to_string(), rights };
        let line = wire::line_of(&hello).map(Zeroizing::new).map_err(failed)?;
        (&mut &stream).write_all(line.as_bytes()).map_err(failed)?;
        Self::greeted(stream, PATIENCE, failed)
    }

    /// Attaches through `stream`, whose other side is a `bardo attach --stdio`, named `command` in errors. It has the
    /// token; it may ask for a password first, so it gets a minute.
    ///
    /// # Errors
    /// [`AttachError`] if the other side does not answer, or if the session refuses.
    pub fn over(stream: UnixStream, command: &str) -> Result<Self, AttachError> {
        let failed = |error| AttachError::Connection { socket: command.to_owned(), error };
        Self::greeted(stream, PATIENCE_WITH_PASSWORD, failed)
    }

    /// Reads the session's greeting within `patience`, however many pieces it comes in.
    pub(crate) fn greeted(
        stream: UnixStream,
        patience: Duration,
        failed: impl Fn(std::io::Error) -> AttachError,
    ) -> Result<Self, AttachError> {
        let greeting = first_line(&stream, patience).and_then(|(line, begun)| Ok((wire::parse(&line)?, begun)));
        match greeting.map_err(failed)? {
            (Greeting::Welcome { rights }, begun) => Ok(Self { stream, rights, begun }),
            (Greeting::Refused { why }, _) => Err(AttachError::Refused(why)),
        }
    }

    /// Turns the connection into a handle. Leaving through it detaches the console; the session goes on. Must be called
    /// on a tokio runtime.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn into_handle(self) -> std::io::Result<SessionHandle> {
        self.stream.set_nonblocking(true)?;
        let (reading, writing) = tokio::net::UnixStream::from_std(self.stream)?.into_split();
        let reading = tokio::io::AsyncReadExt::chain(std::io::Cursor::new(self.begun), reading);
        Ok(relay(tokio::io::BufReader::new(reading), writing))
    }

    /// Sends one command and detaches, without waiting for its result.
    ///
    /// # Errors
    /// The connection's error, also if the session does not take the command within ten seconds.
    pub fn send(mut self, command: &FromConsole) -> std::io::Result<()> {
        let line = command.to_line()?;
        self.stream.write_all(line.as_bytes())?;
        self.stream.shutdown(std::net::Shutdown::Write)?;
        // The session closes the connection once it has read what was sent. Closed from here, it could fail to write
        // its news before it reads.
        self.stream.set_read_timeout(Some(PATIENCE))?;
        std::io::copy(&mut self.stream, &mut std::io::sink()).map(drop)
    }

    /// Copies the greeting, and then lines, between this connection and a console behind `input` and `output`, until
    /// one side ends. A console that is gone is an end, and no error.
    ///
    /// # Errors
    /// The connection's error while the console is there, or an error of `output` other than a closed pipe.
    pub fn copy(
        self,
        mut input: impl std::io::Read + Send + 'static,
        mut output: impl std::io::Write,
    ) -> std::io::Result<()> {
        let mut to_session = self.stream.try_clone()?;
        let console_gone = Arc::new(AtomicBool::new(false));
        let input_ended = Arc::clone(&console_gone);
        std::thread::spawn(move || {
            let _ended = std::io::copy(&mut input, &mut to_session);
            input_ended.store(true, Ordering::SeqCst);
            let _ended = to_session.shutdown(std::net::Shutdown::Write);
        });
        let mut write = |bytes: &[u8]| output.write_all(bytes).and_then(|()| output.flush());
        let copied = (|| -> std::io::Result<()> {
            let greeting = wire::line_of(&Greeting::Welcome { rights: self.rights })?;
            write(greeting.as_bytes())?;
            write(&self.begun)?;
            let mut reading = &self.stream;
            let mut buffer = [0; 16 << 10];
            loop {
                let read = reading.read(&mut buffer)?;
                let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
                write(bytes)?;
            }
        })();
        match copied {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe || console_gone.load(Ordering::SeqCst) => {
                Ok(())
            }
            copied => copied,
        }
    }
}

/// Reads the first line, and the bytes that came with it. The other side gets `patience` for the whole line.
fn first_line(stream: &UnixStream, patience: Duration) -> std::io::Result<(String, Vec<u8>)> {
    let late = || {
        let words = format!("no greeting came within {} s", patience.as_secs_f32());
        std::io::Error::new(std::io::ErrorKind::TimedOut, words)
    };
    let deadline = Instant::now() + patience;
    let (mut line, mut buffer) = (Vec::new(), [0; 4 << 10]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        stream.set_read_timeout(Some(left))?;
        let mut reading = stream;
        let read = match reading.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(late()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        line.extend_from_slice(bytes);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            stream.set_read_timeout(None)?;
            let begun = line.split_off(end + 1);
            let line = String::from_utf8(line)
                .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error()))?;
            return Ok((line, begun));
        }
        if line.len() > MAX_GREETING {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the greeting is too long"));
        }
    }
}

/// User id of the process on the other side.
fn peer_uid(stream: &UnixStream) -> std::io::Result<u32> {
    let stream = stream.try_clone()?;
    stream.set_nonblocking(true)?;
    // The standard library does not report it yet; tokio's stream does, on a runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async { tokio::net::UnixStream::from_std(stream)?.peer_cred().map(|peer| peer.uid()) })
}

/// Returns a handle over a connection that has been greeted. Must be called on a tokio runtime.
fn relay<R, W>(mut reading: R, mut writing: W) -> SessionHandle
where
    R: tokio::io::AsyncBufRead + Unpin + Send + 'static,
    W: tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (handle, end) = SessionHandle::pair();
    let SessionEnd { mut commands, news } = end;
    let told = news.clone();
    let lost = Arc::new(AtomicBool::new(false));
    let losing = Arc::clone(&lost);
    let receiving = tokio::spawn(async move {
        loop {
            let why = match wire::read_line(&mut reading, MAX_FROM_SESSION).await {
                Ok(Some(line)) => match wire::parse::<SessionNews>(&line) {
                    Ok(message) => {
                        let left = matches!(message, SessionNews::Left(_));
                        if told.send(message).await.is_err() || left {
                            return;
                        }
                        continue;
                    }
                    Err(error) => format!("the session sent an invalid line: {error}"),
                },
                Ok(None) => "the session closed the connection".to_owned(),
                Err(error) => format!("the connection to the session failed: {error}"),
            };
            losing.store(true, Ordering::SeqCst);
            let message = SafeText::clean(
                &format!("{why}. The state on screen is no longer current: leave, and run `bardo attach` again."),
                400,
            );
            let _gone = told.send(SessionNews::Market(MarketUpdate::Fault { chain: None, message })).await;
            return;
        }
    });
    tokio::spawn(async move {
        while let Some(sent) = commands.recv().await {
            if matches!(sent.command, SessionCommand::Leave(_)) {
                let left = if lost.load(Ordering::SeqCst) { SessionLeft::Lost } else { SessionLeft::Detached };
                let summary = SessionSummary { left, ..SessionSummary::default() };
                let _gone = news.send(SessionNews::Left(Box::new(summary))).await;
                break;
            }
            let line = FromConsole { sent }.to_line();
            let sent = match &line {
                Ok(line) => writing.write_all(line.as_bytes()).await,
                Err(error) => Err(std::io::Error::other(error.to_string())),
            };
            if let Err(error) = sent {
                let words = SafeText::clean(&format!("the session cannot be reached: {error}"), 300);
                let _gone = news.send(SessionNews::CommandResult { done: false, words }).await;
            }
        }
        receiving.abort();
        let _closed = writing.shutdown().await;
    });
    handle
}
