//! Signals, as one stream: leave, stop for a while, come back.

use std::io;

use futures::FutureExt;
use rustix::process::{Signal, getpgrp, getpid, getsid, kill_current_process_group, kill_process};
use tokio::signal::unix::{self, SignalKind};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGHUP, SIGINT, SIGTERM: leave.
    Leave,
    /// SIGTSTP: give the terminal back and stop.
    Stop,
    /// SIGCONT: running again, perhaps after a stop nobody announced.
    Continue,
}

/// The signals the console listens to.
#[derive(Debug)]
pub(super) struct Signals {
    hang_up: unix::Signal,
    interrupt: unix::Signal,
    terminate: unix::Signal,
    stop: unix::Signal,
    carry_on: unix::Signal,
}

impl Signals {
    /// Starts listening; from here on these signals do nothing by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: unix::signal(SignalKind::hangup())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            stop: unix::signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
            carry_on: unix::signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.hang_up.recv() => Asked::Leave,
            _ = self.interrupt.recv() => Asked::Leave,
            _ = self.terminate.recv() => Asked::Leave,
            _ = self.stop.recv() => Asked::Stop,
            _ = self.carry_on.recv() => Asked::Continue,
        }
    }

    /// Forgets a SIGCONT that has come already.
    pub(super) fn forget_continue(&mut self) {
        // One waits at most: they are not counted.
        let _ = self.carry_on.recv().now_or_never();
    }
}

/// Whether a shell would get the terminal if this process stopped. A session's first process has none behind it
/// (`xterm -e bardo`), and stopping it would leave a window that answers to nothing.
pub(super) fn has_shell_behind() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Stops this process. May return a moment before it stands still: where another thread is the one that takes the
/// signal, this one runs on until that has told it. So nothing but SIGCONT says that the stop is over.
pub(super) fn stop_self() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Stops the whole job, `cargo run` and pipes included, so that the shell takes the terminal; returns as
/// [`stop_self`] does.
pub(super) fn stop_job() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::STOP)?)
}
