//! The checks, one file each: pure functions of a frame and of facts gathered before.

pub mod slippage;
