//! Identity of a pool on its chain.

use std::fmt;

use alloy::primitives::{Address, B256};

/// Identity of a pool on its chain. Pools with a contract order before pools without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolId {
    /// Contract of a V2 or V3 pool, which also holds the pool's tokens.
    Contract(Address),
    /// Keccak-256 hash of a V4 pool's ABI-encoded key. The pool manager holds the tokens of all these pools.
    Keyed(B256),
}

impl PoolId {
    /// Returns the pool's own contract; `None` for a pool without one.
    pub fn contract(self) -> Option<Address> {
        match self {
            Self::Contract(address) => Some(address),
            Self::Keyed(_) => None,
        }
    }
}

impl From<Address> for PoolId {
    fn from(address: Address) -> Self {
        Self::Contract(address)
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contract(address) => address.fmt(f),
            Self::Keyed(hash) => hash.fmt(f),
        }
    }
}
