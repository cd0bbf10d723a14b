//! [ERC-8004](https://eips.ethereum.org/EIPS/eip-8004): identity, reputation and validation of agents, as typed data,
//! calls, events and files.
//!
//! The module does no I/O. Not here: reading a chain, fetching files, and signing.

mod call;
pub mod card;
pub mod directory;
mod event;
pub mod file;
pub mod files;
pub mod kept;
pub mod location;
pub mod publication;
pub mod reputation;
pub mod search;
pub mod subgraph;
pub mod trust;
mod wallet;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use alloy::primitives::{Address, U256};

pub use call::{Metadata, RegistryCall, RegistryKind, RuleError};
pub use event::{RegistryEvent, UnknownEvent};
pub use wallet::{MAX_DEADLINE_SECONDS, WalletChange};

/// Agent on one chain, written as `8453:42`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId {
    /// EIP-155 id of the registry's chain.
    pub chain_id: u64,
    /// Token id in the identity registry.
    pub number: U256,
}

/// Error for text that is not an agent id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("name an agent by chain id and number, such as 8453:42")]
pub struct AgentIdError;

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chain_id, self.number)
    }
}

impl FromStr for AgentId {
    type Err = AgentIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (chain_id, number) = text.split_once(':').ok_or(AgentIdError)?;
        let decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !decimal(chain_id) || !decimal(number) {
            return Err(AgentIdError);
        }
        let number = U256::from_str_radix(number, 10).map_err(|_| AgentIdError)?;
        Ok(Self { chain_id: chain_id.parse().map_err(|_| AgentIdError)?, number })
    }
}

/// Identity registry in the format of registration files: `eip155:8453:0x8004…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentRegistry {
    /// EIP-155 id of the registry's chain.
    pub chain_id: u64,
    /// Address of the identity registry.
    pub address: Address,
}

/// Error for text that is not a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "name a registry by namespace, chain and address, such as eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"
)]
pub struct RegistryError;

impl fmt::Display for AgentRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eip155:{}:{}", self.chain_id, self.address)
    }
}

impl FromStr for AgentRegistry {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("eip155:").ok_or(RegistryError)?;
        let (chain_id, address) = rest.split_once(':').ok_or(RegistryError)?;
        let chain_id = chain_id.parse().map_err(|_| RegistryError)?;
        Ok(Self { chain_id, address: address.parse().map_err(|_| RegistryError)? })
    }
}
