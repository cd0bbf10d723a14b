//! `bardo devnet` as other programs see it: a process on loopback that a stock `cast` and viem use.
//!
//! All tests here need external programs, which `.ci/tools/install` fetches; `.ci/run` runs them.

mod agent0;
mod almanak;
mod cast;
mod process;
mod quotes;
mod sidecar;
mod swaps;
mod unlocked;
mod v4_sdk;
mod viem;
