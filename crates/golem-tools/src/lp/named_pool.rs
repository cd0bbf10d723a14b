//! Pools as a call names them: by fee and version, or by id.

use std::fmt;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256};
use alloy::providers::DynProvider;

use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use golem_protocols::uniswap::discovery::keys_of;
use golem_protocols::uniswap::positions::{PoolState, PositionContracts};

/// Pool as a call names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedPool {
    /// V3 pool of a fee.
    V3(u32),
    /// V4 pool of a fee without a hook.
    V4Fee(u32),
    /// V4 pool of an id.
    V4(B256),
}

impl NamedPool {
    /// Reads the parameters.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` unless they name one pool.
    pub(super) fn of(version: Option<&str>, fee: Option<u32>, id: Option<&str>) -> Result<Self, ToolError> {
        let version = version.map(|version| version.trim().to_ascii_lowercase());
        let is_v4 = match version.as_deref() {
            None => None,
            Some("v3") => Some(false),
            Some("v4") => Some(true),
            Some(_) => return Err(invalid("version", &"use \"v3\" or \"v4\"")),
        };
        match (is_v4, fee, id) {
            (None | Some(true), None, Some(id)) => {
                let what = "use the id of a V4 pool: 64 hexadecimal digits with 0x before them";
                id.trim().parse().map(Self::V4).map_err(|_| invalid("pool_id", &what))
            }
            (Some(true), Some(fee), None) => Ok(Self::V4Fee(fee)),
            (None | Some(false), Some(fee), None) => Ok(Self::V3(fee)),
            _ => Err(invalid("fee_tier", &"name the pool by fee_tier, with version for V4, or by pool_id alone")),
        }
    }

    /// Parameter that names the pool.
    pub(super) const fn parameter(self) -> &'static str {
        match self {
            Self::V3(_) | Self::V4Fee(_) => "fee_tier",
            Self::V4(_) => "pool_id",
        }
    }

    /// Reads the pool's state; `None` if there is no such pool of the pair, lower address first, or it has no price.
    ///
    /// # Errors
    /// The errors of the chain.
    pub(super) async fn read(
        self,
        contracts: &PositionContracts,
        provider: &DynProvider,
        pair: [Address; 2],
        block: BlockId,
    ) -> Result<Option<PoolState>, ToolError> {
        let key = match self {
            Self::V3(fee) => return Ok(contracts.pool_state(provider, pair, fee, block).await?),
            Self::V4Fee(fee) => keys_of(pair[0], pair[1]).find(|key| key.fee.to::<u32>() == fee),
            Self::V4(id) => contracts.pool_key(provider, id, block).await?,
        };
        let key = key.filter(|key| [key.currency0, key.currency1] == pair);
        let Some(key) = key else { return Ok(None) };
        Ok(contracts.keyed_pool_state(provider, key, block).await?)
    }

    /// Error for a pool that there is not.
    pub(super) fn missing(self, [first, second]: [&dyn fmt::Display; 2]) -> ToolError {
        let what =
            format_args!("there is no {self} of {first} and {second} that has a price; get_pool_info lists the pools");
        ToolError::new(ErrorCode::PoolNotFound, what)
    }
}

impl fmt::Display for NamedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V3(fee) => write!(f, "V3 pool with a fee of {fee}"),
            Self::V4Fee(fee) => write!(f, "V4 pool with a fee of {fee} and without a hook"),
            Self::V4(id) => write!(f, "V4 pool {id} with a position"),
        }
    }
}
