//! The devnet's inhabitants, as outside parties with keys of their own: genesis, pools, market, price keeper, faucet.

pub mod contracts;
pub mod keys;
pub mod math;
pub mod plan;
pub mod target;
