//! Nothing is lost: the real binary is killed, cut off from its chain, its disk and other processes, and restarted. In
//! the end the ledger agrees with the chain, and every action was done once.
//!
//! Environment variables select the long forms: `BARDO_KILLS=5000`, `BARDO_SOAK=50000`, `BARDO_POWER_CUTS=5000`,
//! `BARDO_FELLOW_SWAPS=250` (for each of four processes). `.ci/run` uses a soak of 2,000 swaps, and a thousand swaps of
//! four processes. `BARDO_TEST_PROGRAM` names a copy of the program that does not change meanwhile.
#![cfg(unix)]

mod changed;
mod crash;
mod disk;
mod endpoints;
mod fellow;
mod halts;
mod host;
mod late;
mod moved;
mod orders;
mod outside;
mod paper;
mod power;
mod processes;
mod queue;
mod reorg;
mod replacements;
mod sends;
mod served;
mod soak;
mod steering;
