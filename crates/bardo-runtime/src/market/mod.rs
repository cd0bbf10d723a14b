//! Chain and market data for display: blocks and their activity, prices, pools and the wallet's balances. No check
//! before a signature uses these data.

mod activity;
mod arithmetic;
pub mod reader;

use bardo_sandbox::genesis::{Deployment, GenesisPool};
use bardo_sandbox::plan::Venue;
use bardo_session::market::PoolVersion;
use reader::PoolPlace;

/// Pools that a devnet was created with.
pub fn pools_of(deployment: &Deployment) -> Vec<PoolPlace> {
    let place = |pool: &GenesisPool| PoolPlace {
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
