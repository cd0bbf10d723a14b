//! Terminal modes: everything that was switched on is switched off again on every exit path.
//!
//! [`TerminalGuard`] restores the terminal when dropped. [`restore`] does the same from a panic hook or a signal, and
//! can be called twice. Drawing is handled elsewhere.

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

/// Modes that are switched on. Global, because a panic hook and a signal handler have no other access.
static SWITCHED_ON: AtomicU8 = AtomicU8::new(0);

/// Set by the panic hook. A panic on any thread ends the console, and nothing may be drawn after its report.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Notifies the event loop of a panic.
static PANIC_REPORTED: Notify = Notify::const_new();

static HOOK: Once = Once::new();

/// Guard that keeps the terminal in the console's modes and restores it when dropped.
#[derive(Debug)]
pub struct TerminalGuard(());

impl TerminalGuard {
    /// Takes the terminal: raw mode, alternate screen, mouse, bracketed paste, focus events, hidden cursor. Also
    /// installs a panic hook that restores the terminal before the previous hook prints its report.
    ///
    /// # Errors
    /// An I/O error if the terminal refuses a mode; modes that were switched on are switched off again.
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

    /// Restores the terminal for a while, for example to suspend the process.
    pub fn leave_for_now(&self) {
        restore();
    }

    /// Takes the terminal again after [`Self::leave_for_now`], or after a stop that could not be prepared.
    ///
    /// # Errors
    /// An I/O error if the terminal refuses a mode.
    pub fn retake(&self) -> io::Result<()> {
        restore();
        self.take()
    }

    fn take(&self) -> io::Result<()> {
        // Each mode is recorded first. Switching off a mode that failed to switch on does no harm.
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

/// Switches off all modes that are on. Errors are ignored, because the terminal may be gone.
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

/// Waits until a thread has panicked and its report is printed.
pub async fn panic_reported() {
    PANIC_REPORTED.notified().await;
}

/// Writes one frame as a synchronized update, so that no partial frame is visible. Writes nothing for an empty frame
/// and after a panic.
///
/// # Errors
/// An I/O error if the terminal does not accept the bytes.
pub fn write_frame(frame: &[u8]) -> io::Result<()> {
    if frame.is_empty() {
        return Ok(());
    }
    let update = synchronized(frame)?;
    // The check holds the lock, so that a panic hook on another thread cannot restore in the middle of a frame.
    let mut out = io::stdout().lock();
    if PANICKED.load(Ordering::SeqCst) {
        return Ok(());
    }
    out.write_all(&update)?;
    out.flush()
}

/// Wraps a frame into the escape sequences of a synchronized update.
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
