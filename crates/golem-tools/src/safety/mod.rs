//! Safety tools: simulation of calls, and the state of the limits.

pub mod check_safety_status;
pub mod simulate_transaction;
