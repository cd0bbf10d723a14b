//! Uniswap as mathematics and as calls: pool state, quotes to the wei, routing over V2 and V3.
//!
//! Everything up to [`routing`] is pure: it takes pool state and gives numbers, with no clock and
//! no chain. Not here: deciding whether a trade is wise (see `safety`) or signing one (`custody`).

pub mod address;
pub mod discovery;
pub mod pool;
pub mod ratio;
pub mod routing;
pub mod v2;
pub mod v3;
