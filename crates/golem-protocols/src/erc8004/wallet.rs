//! Giving an agent a wallet: the wallet signs, not the owner, and not for long.

use std::borrow::Cow;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct};

use super::{Registry, RuleError};
use bardo_abi::erc8004::{AgentWalletSet, IdentityRegistry};

/// How far ahead the signature's deadline may lie, in seconds; the registry refuses a later one.
pub const MAX_DEADLINE_SECONDS: u64 = 300;

/// An agent's wallet is to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalletChange {
    /// The registry.
    pub registry: Registry,
    /// The agent.
    pub agent: U256,
    /// Who becomes the wallet, and signs.
    pub new_wallet: Address,
    /// Who owns the agent.
    pub owner: Address,
    /// Until when the signature is taken, in seconds since the Unix epoch.
    pub deadline: u64,
}

impl WalletChange {
    /// The registry's EIP-712 domain.
    pub fn domain(&self) -> Eip712Domain {
        Eip712Domain {
            name: Some(Cow::Borrowed("ERC8004IdentityRegistry")),
            version: Some(Cow::Borrowed("1")),
            chain_id: Some(U256::from(self.registry.chain_id)),
            verifying_contract: Some(self.registry.address),
            salt: None,
        }
    }

    /// The struct that is signed.
    pub fn message(&self) -> AgentWalletSet {
        AgentWalletSet {
            agentId: self.agent,
            newWallet: self.new_wallet,
            owner: self.owner,
            deadline: U256::from(self.deadline),
        }
    }

    /// What the new wallet signs.
    pub fn digest(&self) -> B256 {
        self.message().eip712_signing_hash(&self.domain())
    }

    /// The call that makes the change, with the new wallet's signature.
    pub fn calldata(&self, signature: Bytes) -> Bytes {
        let deadline = U256::from(self.deadline);
        IdentityRegistry::setAgentWalletCall { agentId: self.agent, newWallet: self.new_wallet, deadline, signature }
            .abi_encode()
            .into()
    }

    /// Whether the registry would take it at `now`, in seconds since the Unix epoch.
    ///
    /// # Errors
    /// [`RuleError`] that says what would be right.
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
