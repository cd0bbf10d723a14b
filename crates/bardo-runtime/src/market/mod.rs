//! What is read of chains and their markets for whoever watches: blocks and what happened in them, prices, pools, the
//! wallet's balances. Nothing that is checked before a signature comes from here.

mod activity;
mod arithmetic;
pub mod reader;

use bardo_sandbox::genesis::{Deployment, Pool};
use bardo_sandbox::plan::Venue;
use bardo_session::market::PoolVersion;
use reader::PoolPlace;

/// The pools that a devnet was furnished with.
pub fn pools_of(deployment: &Deployment) -> Vec<PoolPlace> {
    let place = |pool: &Pool| PoolPlace {
        address: pool.address,
        version: match pool.venue {
            Venue::V2 => PoolVersion::V2,
            Venue::V3(_) => PoolVersion::V3,
        },
        fee_pips: pool.venue.fee(),
        token0: pool.token0.address,
        token1: pool.token1.address,
    };
    deployment.pools.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
