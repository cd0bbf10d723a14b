//! The one loop: wait for anything, take in everything that is ready, then draw once.

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
use super::signals::{self, Asked, Signals};
use super::source::Source;
use super::state::{Effect, Input, State};
use super::terminal::{self, TerminalGuard};
use super::theme::Theme;
use super::view;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::text::SafeText;
use bardo_session::handle::{Farewell, News, Sent};

/// Ready events taken in before a frame that is due gets its turn.
const MOST_AT_ONCE: usize = 1024;

/// The longest paste that is looked at, in characters.
const LONGEST_PASTE: usize = 4_096;

/// What woke the loop.
enum Woken {
    Terminal(Option<io::Result<Event>>),
    News(Option<News>),
    Signal(Asked),
    Timer,
    Panic,
}

/// Everything the loop owns.
struct Console {
    state: State,
    theme: Theme,
    guard: TerminalGuard,
    screen: Screen,
    frames: FrameScheduler,
    /// Asked for by a key or a signal: how to stop this process.
    stop: Option<fn() -> io::Result<()>>,
    /// The terminal is given back, and nothing is drawn, until SIGCONT.
    away: bool,
    /// Where commands go.
    commands: mpsc::Sender<Sent>,
    /// The terminal has gone, or the process is to end: nothing is drawn any more.
    dark: bool,
}

/// Runs until the operator leaves, a signal says so, or the terminal is gone.
pub(super) async fn run(
    guard: TerminalGuard,
    theme: Theme,
    state: State,
    source: Source,
) -> Result<Option<Farewell>, ConsoleError> {
    let mut signals = Signals::listen().map_err(ConsoleError::Terminal)?;
    let screen = Screen::new(state.size);
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
    // The first frame comes before anything that takes time.
    console.frames.request(Instant::now());
    console.draw_if_due()?;
    let mut handle = source();
    console.commands = handle.commands.clone();
    let mut events = EventStream::new();
    let mut listening = true;
    loop {
        let timer = console.wake_at();
        let woken = tokio::select! {
            () = terminal::panic_reported() => Woken::Panic,
            signal = signals.next() => Woken::Signal(signal),
            event = events.next(), if !console.dark => Woken::Terminal(event),
            update = handle.news.recv(), if listening => Woken::News(update),
            () = sleep_until(timer) => Woken::Timer,
        };
        // What is due by time alone is done, too: a quote that follows the typing, a question about a chain's health.
        let due = console.state.update(Input::Time(now_millis()));
        if console.carry_out(due)? {
            return Ok(console.state.farewell.take().map(|farewell| *farewell));
        }
        let mut next = Some(woken);
        let mut taken = 0;
        while let Some(woken) = next.take() {
            let leave = match woken {
                Woken::Panic => return Err(ConsoleError::Panicked),
                Woken::Timer => {
                    console.frames.request(Instant::now());
                    false
                }
                Woken::News(None) => {
                    listening = false;
                    console.input(Input::SessionGone)?
                }
                Woken::News(Some(news)) => console.input(Input::News(Box::new(news)))?,
                Woken::Signal(asked) => console.signal(asked)?,
                // The terminal has gone: what is signed is settled before this ends.
                Woken::Terminal(None | Some(Err(_))) => console.terminate()?,
                Woken::Terminal(Some(Ok(event))) => console.event(event)?,
            };
            if leave {
                return Ok(console.state.farewell.take().map(|farewell| *farewell));
            }
            taken += 1;
            if taken < MOST_AT_ONCE {
                // Asked with this task's own waker: the stream keeps the first it is given until it has used it.
                let event = match console.dark {
                    true => None,
                    false => match futures::poll!(events.next()) {
                        Poll::Ready(event) => Some(Woken::Terminal(event)),
                        Poll::Pending => None,
                    },
                };
                next = event.or_else(|| handle.news.try_recv().ok().map(|update| Woken::News(Some(update))));
            }
        }
        if let Some(stop) = console.stop.take() {
            // One that came before the stop is no sign of an end to it.
            signals.forget_continue();
            console.guard.leave_for_now();
            console.away = true;
            stop().map_err(ConsoleError::Terminal)?;
        }
        console.draw_if_due()?;
    }
}

impl Console {
    /// When to wake although nothing came: a frame waits for the cap, or something on the screen moves by itself.
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
        let bytes = self.screen.frame(state.size, |area, buffer| view::draw(state, theme, area, buffer));
        if terminal::write_frame(&bytes.map_err(ConsoleError::Terminal)?).is_err() {
            // Nobody can be shown anything any more; what is signed is settled all the same.
            self.terminate()?;
            return Ok(());
        }
        self.state.update(Input::Drawn);
        failpoint::reach(Failpoint::Drawn);
        Ok(())
    }

    /// Ends the session without a terminal; true: there is nothing to wait for.
    fn terminate(&mut self) -> Result<bool, ConsoleError> {
        if !self.dark {
            self.dark = true;
            self.guard.leave_for_now();
        }
        self.input(Input::Terminate)
    }

    /// Takes in what the terminal says; true: leave.
    fn event(&mut self, event: Event) -> Result<bool, ConsoleError> {
        self.notice_size();
        let input = match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => Input::Key(key.into()),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => Input::Click { column: mouse.column, row: mouse.row },
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

    /// Takes in a new size before the terminal's own word of it: a key may come first, and what it is meant for is no
    /// longer on the screen as it was drawn.
    fn notice_size(&mut self) {
        // A terminal that does not tell its size still has the one it told last.
        if let Ok(size) = size_now()
            && size != self.state.size
        {
            self.state.update(Input::Resize(size));
            self.screen.forget();
            self.frames.request(Instant::now());
        }
    }

    /// Hands an input to the state and does what it wants done; true: leave.
    fn input(&mut self, input: Input) -> Result<bool, ConsoleError> {
        let effects = self.state.update(input);
        self.frames.request(Instant::now());
        self.carry_out(effects)
    }

    /// Does what the state wants done; true: leave.
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
                // A terminal that does not take it is asked again by the next frame.
                Effect::Attention(how) if !self.away && !self.dark => drop(terminal::write_frame(how.bytes())),
                Effect::Attention(_) => {}
            }
        }
        Ok(leave)
    }

    /// Commands that cannot be handed over are not carried out, and that is said.
    fn send(&mut self, sent: Sent) {
        if self.commands.try_send(sent).is_err() {
            self.state.say("not done: the session does not listen");
        }
    }

    /// By OSC 52: the terminal itself has the clipboard, also over a remote shell.
    fn copy(&mut self, text: &str) {
        let mut bytes = Vec::new();
        let copied = crossterm::queue!(bytes, CopyToClipboard::to_clipboard_from(text));
        if copied.is_err() || terminal::write_frame(&bytes).is_err() {
            self.state.say("the terminal does not take a copy");
        }
    }

    /// Into the folder the console was started from; a file that is there already stays.
    fn write(&mut self, name: &str, text: &str) {
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(name)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
        match written {
            Ok(()) => self.state.say(&format!("written to {name}")),
            Err(error) => self.state.say(&format!("cannot write {name}: {error}")),
        }
    }

    /// Does what a signal asks; true: leave.
    fn signal(&mut self, asked: Asked) -> Result<bool, ConsoleError> {
        match asked {
            Asked::Leave => return self.terminate(),
            Asked::Stop => self.stop = Some(signals::stop_self),
            Asked::Continue => self.come_back()?,
        }
        Ok(false)
    }

    /// Takes the terminal again and draws everything: the shell has written over it, and it may have a new size.
    fn come_back(&mut self) -> Result<(), ConsoleError> {
        self.away = false;
        self.guard.take_again().map_err(ConsoleError::Terminal)?;
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

/// Milliseconds since the Unix epoch; a clock before it reads as 0.
pub(super) fn now_millis() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}
