//! Event loop of the console: waits for any event, handles every event that is ready, then draws once.

use std::io;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::{Event, EventStream, KeyEventKind, MouseButton, MouseEventKind};
use futures::StreamExt;
use ratatui::layout::Size;
use tokio::sync::mpsc;

use super::ConsoleError;
use super::frames::FrameScheduler;
use super::screen::Screen;
use super::signals::{self, SignalRequest, Signals};
use super::source::Source;
use super::state::{Effect, Input, State};
use super::terminal::{self, TerminalGuard};
use super::theme::Theme;
use super::view;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::text::SafeText;
use bardo_session::handle::{AddressedCommand, SessionNews, SessionSummary};

/// Maximum number of ready events handled before a due frame is drawn.
const MOST_AT_ONCE: usize = 1024;

/// Maximum length of a paste, in characters; the rest is cut.
const LONGEST_PASTE: usize = 4_096;

/// Event that ends one wait of the loop.
enum WakeReason {
    Terminal(Option<io::Result<Event>>),
    News(Option<SessionNews>),
    Signal(SignalRequest),
    Timer,
    Panic,
}

/// State of the event loop.
struct Console {
    state: State,
    theme: Theme,
    guard: TerminalGuard,
    screen: Screen,
    frames: FrameScheduler,
    /// Function that stops this process, set when a key or a signal asks to suspend it.
    stop: Option<fn() -> io::Result<()>>,
    /// Set from suspension until SIGCONT: the terminal is restored, and nothing is drawn.
    away: bool,
    /// Channel for commands to the session.
    commands: mpsc::Sender<AddressedCommand>,
    /// Set when the terminal is gone or the process has to end: nothing more is drawn.
    dark: bool,
}

/// Runs the console until the operator leaves, a signal ends it, or the terminal is gone.
///
/// # Errors
/// A [`ConsoleError`] if signals cannot be received, the terminal fails, or a thread panicked.
pub(super) async fn run(
    guard: TerminalGuard,
    theme: Theme,
    state: State,
    source: Source,
) -> Result<Option<SessionSummary>, ConsoleError> {
    let mut signals = Signals::listen().map_err(ConsoleError::Terminal)?;
    let screen = Screen::new(state.display.size);
    let (commands, _) = mpsc::channel(1);
    let mut console = Console {
        state,
        theme,
        guard,
        screen,
        frames: FrameScheduler::default(),
        stop: None,
        away: false,
        commands,
        dark: false,
    };
    // The first frame is drawn before anything slow starts.
    console.frames.request(Instant::now());
    console.draw_if_due()?;
    let mut handle = source();
    console.commands = handle.commands.clone();
    let mut events = EventStream::new();
    let mut listening = true;
    loop {
        let timer = console.wake_at();
        let woken = tokio::select! {
            () = terminal::panic_reported() => WakeReason::Panic,
            signal = signals.next() => WakeReason::Signal(signal),
            event = events.next(), if !console.dark => WakeReason::Terminal(event),
            update = handle.news.recv(), if listening => WakeReason::News(update),
            () = sleep_until(timer) => WakeReason::Timer,
        };
        // Every wakeup also handles what depends on time alone, such as debounced quotes and chain health checks.
        let due = console.state.update(Input::Time(now_millis()));
        if console.carry_out(due)? {
            return console.state.end();
        }
        let mut next = Some(woken);
        let mut taken = 0;
        while let Some(woken) = next.take() {
            let leave = match woken {
                WakeReason::Panic => return Err(ConsoleError::Panicked),
                WakeReason::Timer => {
                    console.frames.request(Instant::now());
                    false
                }
                WakeReason::News(None) => {
                    listening = false;
                    console.input(Input::SessionGone)?
                }
                WakeReason::News(Some(news)) => console.input(Input::News(Box::new(news)))?,
                WakeReason::Signal(asked) => console.signal(asked)?,
                // The terminal is gone: signed transactions are settled before the session ends.
                WakeReason::Terminal(None | Some(Err(_))) => console.terminate()?,
                WakeReason::Terminal(Some(Ok(event))) => console.event(event)?,
            };
            if leave {
                return console.state.end();
            }
            taken += 1;
            if taken < MOST_AT_ONCE {
                // Polls with this task's own waker, because the stream keeps the first waker that it gets until it has
                // used it.
                let event = match console.dark {
                    true => None,
                    false => match futures::poll!(events.next()) {
                        Poll::Ready(event) => Some(WakeReason::Terminal(event)),
                        Poll::Pending => None,
                    },
                };
                next = event.or_else(|| handle.news.try_recv().ok().map(|update| WakeReason::News(Some(update))));
            }
        }
        if let Some(stop) = console.stop.take() {
            // A SIGCONT that came before this stop does not end it.
            signals.forget_continue();
            console.guard.leave_for_now();
            console.away = true;
            stop().map_err(ConsoleError::Terminal)?;
        }
        console.draw_if_due()?;
    }
}

impl Console {
    /// Time of the next wakeup without an event: the next due frame or the next change of a moving element. `None` if
    /// nothing is due, while suspended, or without a terminal.
    fn wake_at(&self) -> Option<Instant> {
        let moves = self
            .state
            .next_change_millis()
            .map(|at| Instant::now() + Duration::from_millis(at.saturating_sub(now_millis())));
        if self.away || self.dark {
            return None;
        }
        match (self.frames.due(), moves) {
            (Some(due), Some(moves)) => Some(due.min(moves)),
            (due, moves) => due.or(moves),
        }
    }

    fn draw_if_due(&mut self) -> Result<(), ConsoleError> {
        if self.away || self.dark || !self.frames.take(Instant::now()) {
            return Ok(());
        }
        let (state, theme) = (&self.state, &self.theme);
        let bytes = self.screen.frame(state.display.size, |area, buffer| view::draw(state, theme, area, buffer));
        if terminal::write_frame(&bytes.map_err(ConsoleError::Terminal)?).is_err() {
            // Nothing can be shown any more, but signed transactions are still settled.
            self.terminate()?;
            return Ok(());
        }
        self.state.update(view::drawn(&self.state));
        failpoint::reach(Failpoint::Drawn);
        Ok(())
    }

    /// Ends the session after the terminal is gone. Returns true if the loop can end at once.
    fn terminate(&mut self) -> Result<bool, ConsoleError> {
        if !self.dark {
            self.dark = true;
            self.guard.leave_for_now();
        }
        self.input(Input::Terminate)
    }

    /// Handles a terminal event. Returns true if the loop must end.
    fn event(&mut self, event: Event) -> Result<bool, ConsoleError> {
        self.notice_size();
        let input = match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => Input::Key(key.into()),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => view::click(&self.state, mouse.column, mouse.row),
                MouseEventKind::ScrollDown => Input::Wheel { column: mouse.column, row: mouse.row, down: true },
                MouseEventKind::ScrollUp => Input::Wheel { column: mouse.column, row: mouse.row, down: false },
                _ => return Ok(false),
            },
            Event::Paste(text) => Input::Paste(SafeText::clean(&text, LONGEST_PASTE)),
            Event::Resize(width, height) => Input::Resize(Size { width, height }),
            Event::FocusGained => Input::Focus(true),
            Event::FocusLost => Input::Focus(false),
            Event::Key(_) => return Ok(false),
        };
        self.input(input)
    }

    /// Applies a new terminal size before its resize event arrives. A key can arrive first, and the layout that it was
    /// meant for is then no longer on the screen.
    fn notice_size(&mut self) {
        // If the terminal does not report its size, the last known size stays.
        if let Ok(size) = size_now()
            && size != self.state.display.size
        {
            self.state.update(Input::Resize(size));
            self.screen.forget();
            self.frames.request(Instant::now());
        }
    }

    /// Passes an input to the state and carries out its effects. Returns true if the loop must end.
    fn input(&mut self, input: Input) -> Result<bool, ConsoleError> {
        let effects = self.state.update(input);
        self.frames.request(Instant::now());
        self.carry_out(effects)
    }

    /// Carries out effects of the state. Returns true if the loop must end.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Result<bool, ConsoleError> {
        let mut leave = false;
        for effect in effects {
            match effect {
                Effect::Quit => leave = true,
                Effect::Redraw => self.screen.forget(),
                Effect::Suspend if signals::has_shell_behind() => self.stop = Some(signals::stop_job),
                Effect::Suspend => leave |= self.input(Input::CannotSuspend)?,
                Effect::Send(sent) => self.send(sent),
                Effect::Copy(text) => self.copy(&text),
                Effect::Write { name, text } => self.write(&name, &text),
                // A failed write is not reported here: the next frame writes to the same terminal and reports it.
                Effect::Attention(how) if !self.away && !self.dark => drop(terminal::write_frame(how.bytes())),
                Effect::Attention(_) => {}
            }
        }
        Ok(leave)
    }

    /// Sends a command to the session. If the channel is full or closed, shows that the command was not carried out.
    fn send(&mut self, sent: AddressedCommand) {
        if self.commands.try_send(sent).is_err() {
            self.state.show_notice("not sent: the session does not accept commands");
        }
    }

    /// Copies through OSC 52: the terminal owns the clipboard, so this also works over a remote shell.
    fn copy(&mut self, text: &str) {
        let mut bytes = Vec::new();
        let copied = crossterm::queue!(bytes, CopyToClipboard::to_clipboard_from(text));
        if copied.is_err() || terminal::write_frame(&bytes).is_err() {
            self.state.show_notice("cannot copy: the terminal rejected it");
        }
    }

    /// Writes a file into the current directory. An existing file is never overwritten.
    fn write(&mut self, name: &str, text: &str) {
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(name)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
        match written {
            Ok(()) => self.state.show_notice(&written_words(name, std::env::current_dir().ok())),
            Err(error) => self.state.show_notice(&format!("cannot write {name}: {error}")),
        }
    }

    /// Handles a signal. Returns true if the loop must end.
    fn signal(&mut self, asked: SignalRequest) -> Result<bool, ConsoleError> {
        match asked {
            SignalRequest::Leave => return self.terminate(),
            SignalRequest::Stop => self.stop = Some(signals::stop_self),
            SignalRequest::Continue => self.resume()?,
        }
        Ok(false)
    }

    /// Takes the terminal again after a stop and redraws everything: the shell wrote over it, and its size may have
    /// changed.
    fn resume(&mut self) -> Result<(), ConsoleError> {
        self.away = false;
        self.guard.retake().map_err(ConsoleError::Terminal)?;
        let due = self.state.update(Input::Time(now_millis()));
        self.carry_out(due)?;
        self.state.update(Input::Resize(size_now()?));
        self.screen.forget();
        self.frames.request(Instant::now());
        Ok(())
    }
}

pub(super) fn size_now() -> Result<Size, ConsoleError> {
    let (width, height) = crossterm::terminal::size().map_err(ConsoleError::Terminal)?;
    Ok(Size { width, height })
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Milliseconds since the Unix epoch; 0 if the system clock is before it.
pub(super) fn now_millis() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// Notice about a file that was written to the folder, which is named where it is known. The name comes first, so that a
/// short line cuts the folder.
fn written_words(name: &str, folder: Option<std::path::PathBuf>) -> String {
    folder.map_or_else(|| format!("{name} is written"), |folder| format!("{name} is written to {}", folder.display()))
}
