//! Market data computed from pools: swap logs, candles, indicators and depth. Nothing here takes part in a decision
//! about money: an amount that is signed rests on feeds, means over time and simulations.
//!
//! | module | holds |
//! |---|---|
//! | `fixed` | decimals of any size, for prices and statistics |
//! | `logs` | bounded reading of logs, newest first |
//! | `swaps` | swaps of pools, from their logs |
//! | `candles` | intervals with open, high, low and close |
//! | `history` | candles of a pair, read from its deepest pool |
//! | `indicators` | indicators over candles |
//! | `risk` | risk figures of holdings at past prices |
//! | `depth` | amounts within 2 % of a pool's price |

pub(crate) mod candles;
pub(crate) mod depth;
pub(crate) mod fixed;
pub(crate) mod history;
pub(crate) mod indicators;
pub(crate) mod logs;
pub(crate) mod risk;
pub(crate) mod swaps;
