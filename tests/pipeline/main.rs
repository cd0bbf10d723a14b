//! The safety pipeline on the embedded devnet: real contracts, real signatures, a real database.

mod audit;
mod bridges;
mod cage;
mod calldata;
mod consent;
mod forged;
mod operator;
mod orders;
mod properties;
mod recovery;
mod refusals;
mod reorgs;
mod stops;
mod swap;
mod tools;
mod world;
mod writes;
