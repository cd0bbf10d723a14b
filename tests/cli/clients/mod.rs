//! `bardo devnet` as other programs see it: a process on loopback, asked by a stock `cast` and by viem.
//!
//! All of it needs outside programs, which `.ci/tools/install` fetches; `.ci/run` runs it.

mod cast;
#[path = "../../support/mainnet.rs"]
mod mainnet;
mod process;
mod quotes;
#[path = "../../support/side_by_side.rs"]
mod side_by_side;
mod sidecar;
mod swaps;
mod unlocked;
mod viem;
