//! Fork simulation against real contracts and against contracts that mislead it.

mod changes;
mod endpoint;
mod execution;
mod remote;
mod world;
