//! Aave V3: the four calls of its pool in closed forms, the state of its reserves and of an account's position in them at
//! one block, and its mathematics.
//!
//! Formulas are those of `WadRayMath`, `PercentageMath`, `MathUtils` and `GenericLogic` of aave-v3-core; tests compare
//! them with the contracts' own views.

pub mod call;
pub mod market;
pub mod math;
pub mod position;
pub mod receipts;
pub mod reserve;
