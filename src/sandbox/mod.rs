//! The devnet's inhabitants, as outside parties with keys of their own: genesis, pools, market, price keeper, faucet.

pub mod contracts;
