//! The full-screen program: state (pure), view (pure), keys, terminal.
//!
//! [`run`] takes the terminal, draws at once, then opens a session and lets it tell its news. The state
//! ([`state`]) is changed by one reducer, drawn by [`view`], and neither knows a terminal, a clock or a chain.
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
pub mod pen;
pub mod screen;
pub mod screens;
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
use bardo_session::handle::Farewell;
pub use keymap::{Keymap, KeymapError};
use source::Source;
pub use state::Attention;
use state::State;
use terminal::TerminalGuard;
use theme::{Depth, Theme, ThemeError};

/// What the operator chose.
#[derive(Debug, Clone, Default)]
pub struct ConsoleOptions {
    /// A theme's name; without one, what suits the terminal.
    pub theme: Option<String>,
    /// Where the operator's own themes are.
    pub theme_folder: Option<PathBuf>,
    /// Nothing moves by itself: no clock, no ages, no spinner. The variable `NO_MOTION` says the same.
    pub no_motion: bool,
    /// Nothing can be changed from it.
    pub watch: bool,
    /// Whether Ctrl-Z may stop the process, and the Golem with it.
    pub may_suspend: bool,
    /// Which key does what.
    pub keys: Keymap,
    /// How a decision that waits calls for attention.
    pub attention: Attention,
}

/// Why the console could not open or had to close.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Output goes to a file or a pipe.
    #[error("the console needs a terminal, and standard output is none; to run the devnet without one: `bardo devnet`")]
    NotATerminal,
    /// The theme asked for cannot be used.
    #[error(transparent)]
    Theme(#[from] ThemeError),
    /// The terminal did not do what it was asked.
    #[error("the terminal does not answer: {0}")]
    Terminal(#[source] io::Error),
    /// The threads it runs on could not be started.
    #[error("the console's threads could not be started: {0}")]
    Runtime(#[source] io::Error),
    /// A thread panicked; its report has been printed.
    #[error("a part of Bardo failed; its report stands above")]
    Panicked,
}

impl ConsoleError {
    /// Whether the console was asked for in a way that cannot work, rather than failed at it.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NotATerminal | Self::Theme(_))
    }
}

/// Opens the console on `source` and runs until the operator leaves. The terminal is whole again on every way out.
///
/// # Errors
/// A [`ConsoleError`]; the terminal has been given back by then.
pub fn run(options: &ConsoleOptions, source: Source) -> Result<Option<Farewell>, ConsoleError> {
    if !io::stdout().is_terminal() {
        return Err(ConsoleError::NotATerminal);
    }
    let read = |name: &str| std::env::var(name).ok();
    let depth = Depth::detect(read);
    let name = options.theme.as_deref().unwrap_or_else(|| theme::default_name(depth, read));
    let (theme, warnings) = Theme::load(name, options.theme_folder.as_deref())?;
    let motion = !options.no_motion && read("NO_MOTION").is_none_or(|value| value.is_empty());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ConsoleError::Runtime)?;
    let mut state = State::new(event_loop::size_now()?, event_loop::now_millis(), motion);
    state.watch_only = options.watch;
    state.may_suspend = options.may_suspend;
    state.keys = Arc::new(options.keys.clone());
    state.attention = options.attention;
    state.notice = warnings.first().map(|first| {
        let more = if warnings.len() > 1 { format!(" (and {} more)", warnings.len() - 1) } else { String::new() };
        SafeText::clean(&format!("{first}{more}"), 200)
    });
    let guard = TerminalGuard::enter().map_err(ConsoleError::Terminal)?;
    let result = runtime.block_on(event_loop::run(guard, theme.at_depth(depth), state, source));
    // A boot that is still under way need not be waited for.
    runtime.shutdown_background();
    result
}
