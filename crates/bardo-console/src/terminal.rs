//! The terminal as a borrowed thing: what was switched on is switched off again, on every way out.
//!
//! [`TerminalGuard`] undoes it when dropped; [`restore`] does so from anywhere (panic hook, signals) and is safe to
//! call twice. Not here: what is drawn, and when.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    EnableMouseCapture,
};
use crossterm::queue;
use crossterm::style::ResetColor;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use tokio::sync::Notify;

const RAW: u8 = 1;
const SCREEN: u8 = 1 << 1;
const MOUSE: u8 = 1 << 2;
const PASTE: u8 = 1 << 3;
const FOCUS: u8 = 1 << 4;
const CURSOR: u8 = 1 << 5;

/// What is switched on now. Global, because a panic hook and a signal have nothing else to go by.
static SWITCHED_ON: AtomicU8 = AtomicU8::new(0);

/// Set by the panic hook: a panic on any thread ends the console, and nothing may be drawn after its report.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Wakes whoever waits for a panic.
static PANIC_REPORTED: Notify = Notify::const_new();

static HOOK: Once = Once::new();

/// Holds the terminal in the console's modes; gives it back when dropped.
#[derive(Debug)]
pub struct TerminalGuard(());

impl TerminalGuard {
    /// Takes the terminal: raw mode, alternate screen, mouse, bracketed paste, focus events, hidden cursor.
    /// Also hooks itself before the panic hook that is set, so that a report is printed on a whole terminal.
    ///
    /// # Errors
    /// When the terminal refuses; whatever was switched on until then is undone.
    pub fn enter() -> io::Result<Self> {
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICKED.store(true, Ordering::SeqCst);
                restore();
                report(panic);
                PANIC_REPORTED.notify_one();
            }));
        });
        let guard = Self(());
        guard.take()?;
        Ok(guard)
    }

    /// Gives the terminal back for a while, for instance to stop the process.
    pub fn leave_for_now(&self) {
        restore();
    }

    /// Takes the terminal again after [`Self::leave_for_now`], or after a stop that left no time to give it back.
    ///
    /// # Errors
    /// When the terminal refuses.
    pub fn take_again(&self) -> io::Result<()> {
        restore();
        self.take()
    }

    fn take(&self) -> io::Result<()> {
        // Each mode is noted before it is switched on: undoing one that failed to switch on does no harm.
        SWITCHED_ON.fetch_or(RAW, Ordering::SeqCst);
        enable_raw_mode()?;
        SWITCHED_ON.fetch_or(SCREEN | MOUSE | PASTE | FOCUS | CURSOR, Ordering::SeqCst);
        let mut bytes = Vec::new();
        queue!(bytes, EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, EnableFocusChange, Hide)?;
        write_all(&bytes)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

/// Switches off what is switched on. Failures are passed over: at worst the terminal has gone.
pub fn restore() {
    let on = SWITCHED_ON.swap(0, Ordering::SeqCst);
    let mut bytes = Vec::new();
    let mut undo = |mode: u8, write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        if on & mode != 0 {
            // Writing to memory does not fail.
            let _ = write(&mut bytes);
        }
    };
    undo(SCREEN, &|bytes| queue!(bytes, EndSynchronizedUpdate, ResetColor));
    undo(FOCUS, &|bytes| queue!(bytes, DisableFocusChange));
    undo(PASTE, &|bytes| queue!(bytes, DisableBracketedPaste));
    undo(MOUSE, &|bytes| queue!(bytes, DisableMouseCapture));
    undo(SCREEN, &|bytes| queue!(bytes, LeaveAlternateScreen));
    undo(CURSOR, &|bytes| queue!(bytes, Show));
    if !bytes.is_empty() {
        let _ = write_all(&bytes);
    }
    if on & RAW != 0 {
        let _ = disable_raw_mode();
    }
}

/// Waits until a thread of this process has panicked and its report is printed.
pub async fn panic_reported() {
    PANIC_REPORTED.notified().await;
}

/// Writes one frame, wrapped in a synchronized update so that no half of it is ever seen.
/// No bytes, no write; after a panic nothing is drawn any more.
///
/// # Errors
/// When the terminal does not take it.
pub fn write_frame(frame: &[u8]) -> io::Result<()> {
    if frame.is_empty() {
        return Ok(());
    }
    let update = synchronized(frame)?;
    // The lock is held while asking, so that a panic hook on another thread restores after this frame or before none.
    let mut out = io::stdout().lock();
    if PANICKED.load(Ordering::SeqCst) {
        return Ok(());
    }
    out.write_all(&update)?;
    out.flush()
}

/// The bytes of one synchronized update: begun, filled, ended.
fn synchronized(frame: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(frame.len() + 16);
    queue!(bytes, BeginSynchronizedUpdate)?;
    bytes.extend_from_slice(frame);
    queue!(bytes, EndSynchronizedUpdate)?;
    Ok(bytes)
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
