//! The console on a real terminal: programs driven through a PTY, their output read by a terminal emulator.
//!
//! Most tests drive this very test binary again ([`harness`]), with a scripted source in place of a network.
//! Nothing here asserts on time; the patience in [`pty`] only ends a hang.

mod hand;
mod harness;
mod hostile;
mod panics;
mod program;
mod pty;
mod recorded;
mod terminal;
mod written;
