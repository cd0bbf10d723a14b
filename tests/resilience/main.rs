//! Nothing lost: the real binary is killed, cut off from its chain, its disk and its fellows, and started again. In the
//! end the ledger says what the chain says, and every wish was fulfilled once.
//!
//! The long forms are asked for by the environment: `BARDO_KILLS=5000`, `BARDO_SOAK=50000`,
//! `BARDO_POWER_CUTS=5000`, `BARDO_FELLOW_SWAPS=250` (of each of four programs). `.ci/run` asks for a soak of 2,000 swaps,
//! and for a thousand from four programs. `BARDO_TEST_PROGRAM` names a copy of the program that stays as it is meanwhile.
#![cfg(unix)]

#[path = "../chain/sending/world.rs"]
#[allow(dead_code)] // What the tests of sending need beside.
mod chain;
mod changed;
mod crash;
#[path = "../support/devnet.rs"]
mod devnet;
mod disk;
mod endpoints;
#[path = "../support/engine.rs"]
#[allow(dead_code)] // What the tests of the pipeline need beside.
mod engine;
mod fellow;
mod halts;
mod host;
mod late;
mod orders;
mod outside;
mod paper;
#[path = "../support/passing.rs"]
mod passing;
mod power;
mod processes;
#[path = "../support/proof.rs"]
mod proof;
#[path = "../chain/sending/proxy.rs"]
#[allow(dead_code)] // The same.
mod proxy;
mod queue;
mod reorg;
mod sends;
mod soak;
mod steering;
