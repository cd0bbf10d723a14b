//! Fork simulation against real contracts and against contracts that mislead it.

mod changes;
mod endpoint;
mod remote;
mod world;
