//! Nothing lost: the real binary is killed, cut off from its chain, its disk and its fellows, and started again. In the
//! end the ledger says what the chain says, and every wish was fulfilled once.
//!
//! The long forms are asked for by the environment: `BARDO_KILLS=5000`, `BARDO_SOAK=50000`.
#![cfg(unix)]

#[path = "../sending/world.rs"]
#[allow(dead_code)] // What the tests of sending need beside.
mod chain;
mod crash;
mod disk;
mod endpoints;
mod fellow;
mod host;
mod orders;
#[path = "../support/passing.rs"]
mod passing;
mod processes;
#[path = "../sending/proxy.rs"]
#[allow(dead_code)] // The same.
mod proxy;
mod reorg;
mod soak;
