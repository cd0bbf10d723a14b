//! Fork simulation with real contracts and with contracts that mislead it.

mod anvil;
mod changes;
mod endpoint;
mod execution;
mod keyed_positions;
mod lending;
mod policy_cage;
mod positions;
mod remote;
mod router;
mod vaults;
mod world;
