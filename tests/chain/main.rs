//! The chain layer: the embedded devnet, the sender, fork simulation and price feeds.

#[path = "../support/anvil.rs"]
mod anvil;
mod devnet;
mod prices;
mod sending;
mod simulation;
