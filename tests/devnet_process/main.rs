//! `bardo devnet` as other programs see it: a process on loopback, asked by a stock `cast` and by viem.
//!
//! All of it needs outside programs, which `.ci/tools/install` fetches; `.ci/run` runs it.

mod cast;
#[path = "../support/devnet.rs"]
mod devnet;
mod process;
mod quotes;
mod viem;
