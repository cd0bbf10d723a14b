//! Wires what the rooms below offer into something that runs: a network into the world that tools
//! see, and the data folder that belongs to it. It makes no decision of its own.

pub mod data;
pub mod policy;
mod world;

pub use world::{OpenError, OpenWorld, open};
