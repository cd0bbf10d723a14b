//! Change of an agent's wallet. The new wallet signs it, not the owner, with a short deadline.

use std::borrow::Cow;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct};

use super::{AgentRegistry, RuleError};
use bardo_abi::erc8004::{AgentWalletSet, IdentityRegistry};

/// Maximum distance of the signature's deadline from now, in seconds; the registry rejects a later one.
pub const MAX_DEADLINE_SECONDS: u64 = 300;

/// Change of an agent's wallet, as EIP-712 typed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalletChange {
    /// Identity registry of the agent.
    pub registry: AgentRegistry,
    /// Agent's token id in the registry.
    pub agent: U256,
    /// Account that becomes the wallet and signs.
    pub new_wallet: Address,
    /// Owner of the agent.
    pub owner: Address,
    /// Deadline of the signature, in seconds since the Unix epoch.
    pub deadline: u64,
}

impl WalletChange {
    /// Returns the registry's EIP-712 domain.
    pub fn domain(&self) -> Eip712Domain {
        Eip712Domain {
            name: Some(Cow::Borrowed("ERC8004IdentityRegistry")),
            version: Some(Cow::Borrowed("1")),
            chain_id: Some(U256::from(self.registry.chain_id)),
            verifying_contract: Some(self.registry.address),
            salt: None,
        }
    }

    /// Returns the struct that is signed.
    pub fn message(&self) -> AgentWalletSet {
        AgentWalletSet {
            agentId: self.agent,
            newWallet: self.new_wallet,
            owner: self.owner,
            deadline: U256::from(self.deadline),
        }
    }

    /// Returns the digest that the new wallet signs.
    pub fn digest(&self) -> B256 {
        self.message().eip712_signing_hash(&self.domain())
    }

    /// Returns the calldata of the change, with the new wallet's signature.
    pub fn calldata(&self, signature: Bytes) -> Bytes {
        let deadline = U256::from(self.deadline);
        IdentityRegistry::setAgentWalletCall { agentId: self.agent, newWallet: self.new_wallet, deadline, signature }
            .abi_encode()
            .into()
    }

    /// Checks the change against the registry's rules at `now`, in seconds since the Unix epoch.
    ///
    /// # Errors
    /// Returns the first violated [`RuleError`].
    pub fn check(&self, now: u64) -> Result<(), RuleError> {
        if self.new_wallet == Address::ZERO {
            return Err(RuleError::NoWallet);
        }
        if self.deadline < now {
            return Err(RuleError::DeadlinePassed { deadline: self.deadline, now });
        }
        if self.deadline - now > MAX_DEADLINE_SECONDS {
            return Err(RuleError::DeadlineTooFar { latest: now.saturating_add(MAX_DEADLINE_SECONDS) });
        }
        Ok(())
    }
}
