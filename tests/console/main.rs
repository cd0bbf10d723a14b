//! The console on a real terminal: programs run in a PTY, and a terminal emulator reads their output.
//!
//! Most tests run this test binary again ([`harness`]), with a scripted source in place of a network. Nothing here
//! asserts on time; the timeout in [`pty`] only ends a hang.

mod hand;
mod harness;
mod hostile;
mod panics;
mod program;
mod pty;
mod recorded;
mod terminal;
mod written;
