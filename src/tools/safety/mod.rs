//! What is safe: trying calls, and the state of the checks.

pub mod simulate_transaction;
