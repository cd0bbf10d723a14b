//! The chain layer: the embedded devnet, the sender, fork simulation and price feeds.

mod devnet;
mod prices;
mod sending;
mod simulation;
