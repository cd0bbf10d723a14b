//! Full-screen console: state (pure), view (pure), keys and terminal.
//!
//! [`run`] takes the terminal, draws at once, then opens a session and receives its news. One reducer changes the state
//! ([`state`]) and [`view`] draws it. Neither accesses a terminal, a clock or a chain.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::dbg_macro
    )
)]

mod event_loop;
pub mod frames;
pub mod keymap;
pub mod painter;
pub mod screen;
pub mod screen_id;
pub mod screens;
pub mod scroll;
mod signals;
pub mod source;
pub mod state;
pub mod terminal;
pub mod theme;
pub mod view;
pub mod widgets;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

pub use bardo_base::format;
use bardo_base::text::SafeText;
use bardo_session::handle::SessionSummary;
pub use keymap::{Keymap, KeymapError};
use source::Source;
pub use state::Attention;
use state::State;
use terminal::TerminalGuard;
use theme::{Depth, Theme, ThemeError};

/// Options of the console that the operator sets.
#[derive(Debug, Clone, Default)]
pub struct ConsoleOptions {
    /// Name of the theme; `None` selects one that suits the terminal.
    pub theme: Option<String>,
    /// Folder of the operator's own themes; `None` if there is none.
    pub theme_folder: Option<PathBuf>,
    /// Disables everything that moves by itself: clock, ages, spinner. The environment variable `NO_MOTION` has the
    /// same effect.
    pub no_motion: bool,
    /// Read-only mode: the console can stop new signatures, and change nothing else.
    pub watch: bool,
    /// Allows Ctrl-Z to suspend the process, and with it the Golem.
    pub may_suspend: bool,
    /// Active key bindings of the console.
    pub keys: Keymap,
    /// Signal that the terminal gives when an approval request waits.
    pub attention: Attention,
}

/// Error that kept the console from opening or made it close.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Standard output is a file or a pipe.
    #[error(
        "the console needs a terminal, but standard output is not one. Without a terminal, use `bardo call`, \
         `bardo golem run --headless`, `bardo serve` or `bardo devnet`."
    )]
    NotATerminal,
    /// The requested theme cannot be used.
    #[error(transparent)]
    Theme(#[from] ThemeError),
    /// An operation on the terminal failed.
    #[error("terminal error: {0}")]
    Terminal(#[source] io::Error),
    /// The async runtime could not be started.
    #[error("cannot start the console's threads: {0}")]
    Runtime(#[source] io::Error),
    /// The session could not start, and the operator left.
    #[error("the session did not start: {0}")]
    NotStarted(SafeText),
    /// A thread panicked; its report has been printed.
    #[error("a part of Bardo crashed; its report is printed above")]
    Panicked,
}

impl ConsoleError {
    /// Returns true if the console was called in a way that cannot work, as opposed to a failure at run time.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NotATerminal | Self::Theme(_))
    }
}

/// Opens the console on `source` and runs until the operator leaves. The terminal is restored on every exit path.
/// Returns the session summary, if the session sent one.
///
/// # Errors
/// A [`ConsoleError`] if the terminal, the theme or the runtime cannot be used, if the session did not start, or if a
/// thread panicked. The terminal has been restored by then.
pub fn run(options: &ConsoleOptions, source: Source) -> Result<Option<SessionSummary>, ConsoleError> {
    if !io::stdout().is_terminal() {
        return Err(ConsoleError::NotATerminal);
    }
    let read = |name: &str| std::env::var(name).ok();
    let depth = Depth::detect(read);
    let name = options.theme.as_deref().unwrap_or_else(|| theme::default_name(depth, read));
    let (theme, warnings) = Theme::load(name, options.theme_folder.as_deref())?;
    let motion = !options.no_motion && read("NO_MOTION").is_none_or(|value| value.is_empty());
    let runtime = bardo_base::runtime::multi_threaded(Some(2)).map_err(ConsoleError::Runtime)?;
    let mut state = State::new(event_loop::size_now()?, event_loop::now_millis(), motion);
    state.options.watch_only = options.watch;
    state.options.may_suspend = options.may_suspend;
    state.options.keys = Arc::new(options.keys.clone());
    state.options.attention = options.attention;
    state.display.notice = warnings.first().map(|first| {
        let more = if warnings.len() > 1 { format!(" (and {} more)", warnings.len() - 1) } else { String::new() };
        SafeText::clean(&format!("{first}{more}"), 200)
    });
    let guard = TerminalGuard::enter().map_err(ConsoleError::Terminal)?;
    let result = runtime.block_on(event_loop::run(guard, theme.at_depth(depth), state, source));
    // A session that is still starting is not waited for.
    runtime.shutdown_background();
    result
}
