//! The one loop: wait for anything, take in everything that is ready, then draw once.

use std::io;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossterm::event::{Event, EventStream, KeyEventKind, MouseButton, MouseEventKind};
use futures::StreamExt;
use ratatui::layout::Size;

use super::ConsoleError;
use super::frames::FrameScheduler;
use super::screen::Screen;
use super::signals::{self, Asked, Signals};
use super::source::Source;
use super::state::{Effect, Input, State};
use super::terminal::{self, TerminalGuard};
use super::theme::Theme;
use super::view;
use crate::runtime::handle::News;

/// Ready events taken in before a frame that is due gets its turn.
const MOST_AT_ONCE: usize = 1024;

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
}

/// Runs until the operator leaves, a signal says so, or the terminal is gone.
pub(super) async fn run(guard: TerminalGuard, theme: Theme, state: State, source: Source) -> Result<(), ConsoleError> {
    let mut signals = Signals::listen().map_err(ConsoleError::Terminal)?;
    let screen = Screen::new(state.size);
    let mut console =
        Console { state, theme, guard, screen, frames: FrameScheduler::default(), stop: None, away: false };
    // The first frame comes before anything that takes time.
    console.frames.request(Instant::now());
    console.draw_if_due()?;
    let mut handle = source();
    let mut events = EventStream::new();
    let mut listening = true;
    loop {
        let timer = console.wake_at();
        let woken = tokio::select! {
            () = terminal::panic_reported() => Woken::Panic,
            signal = signals.next() => Woken::Signal(signal),
            event = events.next() => Woken::Terminal(event),
            update = handle.news.recv(), if listening => Woken::News(update),
            () = sleep_until(timer) => Woken::Timer,
        };
        console.state.update(Input::Time(now_millis()));
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
                    false
                }
                Woken::News(Some(News::Market(update))) => console.input(Input::News(update))?,
                Woken::News(Some(_)) => false,
                Woken::Signal(asked) => console.signal(asked)?,
                // The terminal has gone.
                Woken::Terminal(None) => true,
                Woken::Terminal(Some(event)) => console.event(event.map_err(ConsoleError::Terminal)?)?,
            };
            if leave {
                return Ok(());
            }
            taken += 1;
            if taken < MOST_AT_ONCE {
                // Asked with this task's own waker: the stream keeps the first it is given until it has used it.
                let event = match futures::poll!(events.next()) {
                    Poll::Ready(event) => Some(Woken::Terminal(event)),
                    Poll::Pending => None,
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
        if self.away {
            return None;
        }
        match (self.frames.due(), moves) {
            (Some(due), Some(moves)) => Some(due.min(moves)),
            (due, moves) => due.or(moves),
        }
    }

    fn draw_if_due(&mut self) -> Result<(), ConsoleError> {
        if self.away || !self.frames.take(Instant::now()) {
            return Ok(());
        }
        let (state, theme) = (&self.state, &self.theme);
        let bytes = self.screen.frame(state.size, |area, buffer| view::draw(state, theme, area, buffer));
        terminal::write_frame(&bytes.map_err(ConsoleError::Terminal)?).map_err(ConsoleError::Terminal)
    }

    /// Takes in what the terminal says; true: leave.
    fn event(&mut self, event: Event) -> Result<bool, ConsoleError> {
        let input = match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => Input::Key(key.into()),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => Input::Click { column: mouse.column, row: mouse.row },
                MouseEventKind::ScrollDown => Input::Wheel { column: mouse.column, row: mouse.row, down: true },
                MouseEventKind::ScrollUp => Input::Wheel { column: mouse.column, row: mouse.row, down: false },
                _ => return Ok(false),
            },
            Event::Paste(_) => Input::Paste,
            Event::Resize(width, height) => Input::Resize(Size { width, height }),
            Event::Key(_) | Event::FocusGained | Event::FocusLost => return Ok(false),
        };
        self.input(input)
    }

    /// Hands an input to the state and does what it wants done; true: leave.
    fn input(&mut self, input: Input) -> Result<bool, ConsoleError> {
        let effect = self.state.update(input);
        self.frames.request(Instant::now());
        match effect {
            Some(Effect::Quit) => return Ok(true),
            Some(Effect::Redraw) => self.screen.forget(),
            Some(Effect::Suspend) if signals::has_shell_behind() => self.stop = Some(signals::stop_job),
            Some(Effect::Suspend) => return self.input(Input::CannotSuspend),
            None => {}
        }
        Ok(false)
    }

    /// Does what a signal asks; true: leave.
    fn signal(&mut self, asked: Asked) -> Result<bool, ConsoleError> {
        match asked {
            Asked::Leave => return Ok(true),
            Asked::Stop => self.stop = Some(signals::stop_self),
            Asked::Continue => self.come_back()?,
        }
        Ok(false)
    }

    /// Takes the terminal again and draws everything: the shell has written over it, and it may have a new size.
    fn come_back(&mut self) -> Result<(), ConsoleError> {
        self.away = false;
        self.guard.take_again().map_err(ConsoleError::Terminal)?;
        self.state.update(Input::Time(now_millis()));
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
