//! Uniswap: pool state, exact quotes, routing over V2, V3 and V4, router calls and UniswapX orders.
//!
//! Everything is a pure computation without clock or chain, except for [`discovery`], [`positions`] and [`twap`], which read a chain,
//! and [`service`], [`trading`] and [`sidecar`], which call external services. Not here: judging a trade (see
//! `safety`), and signing (see `custody`).

pub mod address;
pub mod claim;
pub mod discovery;
mod faults;
pub mod gateway;
pub mod hook;
pub mod order;
pub mod outlook;
pub mod pool;
pub mod pool_id;
pub mod positions;
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
pub mod v4;
