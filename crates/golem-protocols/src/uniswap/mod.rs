//! Uniswap as mathematics and as calls: pool state, quotes to the wei, routing over V2 and V3.
//!
//! All of it is pure (pool state in, numbers out, no clock and no chain) but [`discovery`] and [`twap`],
//! which read a chain, and [`service`], [`trading`] and [`sidecar`], which ask others. Not here: deciding whether a trade is wise (see `safety`) or signing one (`custody`).

pub mod address;
pub mod claim;
pub mod discovery;
mod faults;
pub mod gateway;
pub mod order;
pub mod pool;
pub mod quote;
pub mod ratio;
pub mod router;
pub mod routing;
pub mod sandwich;
pub mod service;
pub mod sidecar;
pub mod trading;
pub mod twap;
pub mod v2;
pub mod v3;
