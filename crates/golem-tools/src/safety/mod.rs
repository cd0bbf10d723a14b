//! What is safe: trying calls, and the state of the checks.

pub mod check_safety_status;
pub mod simulate_transaction;
