//! The safety pipeline on the embedded devnet: real contracts, real signatures, a real database.

mod cage;
mod calldata;
mod consent;
mod crowd;
mod delegated;
mod operator;
mod orders;
mod properties;
mod recovery;
mod refusals;
mod stops;
mod swap;
mod tools;
mod world;
mod writes;
