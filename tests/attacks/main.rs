//! Attacks on Bardo: each case plays an attacker and checks a promise of `SECURITY.md`.
//!
//! One file per attacked surface. `SECURITY.md` names every case beside the promise it proves; [`named`] fails if the
//! two differ. Cases that need a terminal run the real binary in a pseudo-terminal.

mod allowances;
mod brain;
#[path = "../support/devnet.rs"]
mod devnet_process;
mod endpoints;
mod exits;
mod files;
#[allow(dead_code)] // Other test programs use the rest of it.
#[path = "../golem/world.rs"]
mod golem_world;
mod limits;
#[path = "../support/lying_rpc.rs"]
mod lying_rpc;
mod named;
mod operator;
mod oracle;
mod prices;
#[path = "../support/proof.rs"]
mod proof;
mod questions;
mod real_network;
mod take_back;
mod tokens;
#[path = "../pipeline/world.rs"]
#[allow(dead_code)] // The pipeline tests use more of it.
mod world;
