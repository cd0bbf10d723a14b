//! The safety pipeline on the embedded devnet: real contracts, real signatures, a real database.

mod calldata;
mod cage;
mod consent;
mod properties;
mod recovery;
mod refusals;
mod stops;
mod swap;
mod world;
mod writes;
