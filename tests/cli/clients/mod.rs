//! `bardo devnet` as other programs see it: a process on loopback that a stock `cast` and viem use.
//!
//! All tests here need external programs, which `.ci/tools/install` fetches; `.ci/run` runs them.

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
