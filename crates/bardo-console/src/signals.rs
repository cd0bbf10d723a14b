//! Process signals as one stream: terminate, stop, continue.

use std::io;

use futures::FutureExt;
use rustix::process::{Signal, getpgrp, getpid, getsid, kill_current_process_group, kill_process};
use tokio::signal::unix::{self, SignalKind};

/// Action that a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// Leaves the console, on SIGHUP, SIGINT or SIGTERM.
    Leave,
    /// Restores the terminal and stops, on SIGTSTP.
    Stop,
    /// Continues, on SIGCONT; possibly after a SIGSTOP, which cannot be observed.
    Continue,
}

/// Signals that the console handles.
#[derive(Debug)]
pub(super) struct Signals {
    hang_up: unix::Signal,
    interrupt: unix::Signal,
    terminate: unix::Signal,
    stop: unix::Signal,
    carry_on: unix::Signal,
}

impl Signals {
    /// Starts to listen. From here on, the default action of these signals is disabled.
    ///
    /// # Errors
    /// An I/O error if a handler cannot be installed.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: unix::signal(SignalKind::hangup())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            stop: unix::signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
            carry_on: unix::signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.hang_up.recv() => SignalRequest::Leave,
            _ = self.interrupt.recv() => SignalRequest::Leave,
            _ = self.terminate.recv() => SignalRequest::Leave,
            _ = self.stop.recv() => SignalRequest::Stop,
            _ = self.carry_on.recv() => SignalRequest::Continue,
        }
    }

    /// Discards a SIGCONT that has already arrived.
    pub(super) fn forget_continue(&mut self) {
        // At most one is pending, because signals are not counted.
        let _ = self.carry_on.recv().now_or_never();
    }
}

/// Returns true if a shell would get the terminal when this process stops. The first process of a session has no shell
/// behind it (`xterm -e bardo`), and stopping it would leave a window that does not respond.
pub(super) fn has_shell_behind() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Stops this process with SIGSTOP. Can return shortly before the process stops, when another thread takes the signal.
/// Only SIGCONT shows that the stop is over.
///
/// # Errors
/// An I/O error if the signal cannot be sent.
pub(super) fn stop_self() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Stops the whole job, including `cargo run` and pipes, so that the shell takes the terminal. Returns as [`stop_self`]
/// does.
///
/// # Errors
/// An I/O error if the signal cannot be sent.
pub(super) fn stop_job() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::STOP)?)
}
