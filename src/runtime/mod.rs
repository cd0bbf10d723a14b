//! Wires what the rooms below offer into something that runs: a network into the world that tools
//! see. It makes no decision of its own.

mod world;

pub use world::{OpenError, OpenWorld, open};
