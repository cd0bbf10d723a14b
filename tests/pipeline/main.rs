//! The safety pipeline on the embedded devnet: real contracts, real signatures, a real database.

mod consent;
mod refusals;
mod stops;
mod swap;
mod world;
