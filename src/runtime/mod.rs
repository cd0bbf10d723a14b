//! Wires what the rooms below offer into something that runs: a network into the world that tools
//! see, the data folder that belongs to it, and what writes go through. It makes no decision of its own.

mod acting;
pub mod data;
pub mod policy;
mod world;

use std::path::PathBuf;

use crate::base::config::Config;

pub use acting::acting;
pub use world::{OpenError, OpenWorld, open};

/// Where archetypes of the operator's own are: beside the configuration.
pub fn archetype_folder(config: &Config) -> PathBuf {
    config.file.with_file_name("archetypes")
}
