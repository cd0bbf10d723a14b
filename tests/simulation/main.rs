//! Fork simulation against real contracts and against contracts that mislead it.

mod changes;
mod world;
