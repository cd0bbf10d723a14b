//! Wires what the rooms below offer into something that runs: a network into the world that tools
//! see, the data folder that belongs to it, and what writes go through. It makes no decision of its own.

mod acting;
pub mod data;
pub mod policy;
mod world;

pub use acting::acting;
pub use world::{OpenError, OpenWorld, open};
