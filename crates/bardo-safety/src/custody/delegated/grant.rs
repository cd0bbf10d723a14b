//! Delegation that an owner has signed for a session key, validated before use: every caveat must be known, the
//! signature must be the owner's, and the chain's state must match.

use alloy::primitives::{Address, B256, Bytes, Signature, U256, address, b256};
use alloy::providers::Provider as _;
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct as _, eip712_domain};
use serde_json::{Value, json};

use super::caveats::{DelegationLimits, Enforcers, LimitsError};
use bardo_abi::delegation::{DeleGator, Delegation, DelegationManager, typed};
use bardo_base::signer::signer_of;
use golem_chain::network::{KnownContract, Network};
use golem_chain::provider::{ChainClient, ProviderError};

/// Authority value of a delegation that comes from the delegator itself, not from another delegation.
const ROOT: B256 = b256!("0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");

/// Delegate value that permits anyone to use the delegation; rejected here.
const ANYONE: Address = address!("0x0000000000000000000000000000000000000a11");

/// EntryPoint 0.7, by whose calls the framework's code executes anything, at the same address on every chain.
const ENTRY_POINT: Address = address!("0x0000000071727De22E5E9d8BAf0edAc6f37da032");

/// Name and version in the manager's signing domain.
const NAME: &str = "DelegationManager";
const VERSION: &str = "1";

/// Prefix of the code of an account that has delegated by [EIP-7702](https://eips.ethereum.org/EIPS/eip-7702).
const DESIGNATOR: [u8; 3] = [0xef, 0x01, 0x00];

/// Requirement that a draft bounds what a stolen session key could take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftBounds {
    /// It must, by limits that are understood, or by the owner's policy contract.
    Required,
    /// The owner accepts that nothing bounds it.
    Waived,
}

/// Valid delegation from an owner to a session key.
#[derive(Debug, Clone, PartialEq)]
pub struct DelegationGrant {
    chain_id: u64,
    manager: Address,
    implementation: Address,
    delegation: Delegation,
    limits: DelegationLimits,
}

/// Reason for which a delegation is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The chain's address book lacks the delegation framework.
    #[error("the address book of {0} has no delegation framework")]
    NoFramework(String),
    /// The delegation is for another session key.
    #[error("the delegation is for {granted}, but this session key is {own}")]
    OtherSession {
        /// Delegate in the delegation.
        granted: Address,
        /// Address of the session key.
        own: Address,
    },
    /// Anyone could use the delegation, or it depends on another delegation.
    #[error("the delegation is not directly from the owner to one session key: {0}")]
    Shape(&'static str),
    /// The limits are missing or unknown.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The signature is not the owner's.
    #[error("the delegation is not signed by its owner {0}")]
    Signature(Address),
}

/// Reason for which a grant cannot be used with the chain's current state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelegationNotReady {
    /// The owner's account does not delegate to the framework's code.
    #[error("{owner} has not delegated its account to {implementation}: the owner must sign that authorisation first")]
    NoDelegator {
        /// Owner of the delegating account.
        owner: Address,
        /// Contract that the account's code should point to.
        implementation: Address,
    },
    /// The account's code uses another manager.
    #[error("the code of {owner} uses the manager {found}, not {manager}")]
    OtherManager {
        /// Owner of the delegating account.
        owner: Address,
        /// Manager that the code uses.
        found: Address,
        /// Manager that the grant expects.
        manager: Address,
    },
    /// The owner has revoked the delegation.
    #[error("the owner has revoked this delegation")]
    Revoked,
    /// The manager contract is paused by its owner.
    #[error("the delegation manager is paused: no delegation works until it resumes")]
    Paused,
    /// The chain could not be read.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl DelegationGrant {
    /// Creates an unsigned delegation for `session` to act as `owner`, and the digest that the owner's wallet signs.
    /// `salt` distinguishes it from others with the same limits.
    ///
    /// # Errors
    /// [`GrantError::NoFramework`] if the chain's address book lacks the framework, and [`GrantError::Limits`] if it lacks
    /// an enforcer, if a target would let the session key escape its limits, or if nothing bounds what a stolen key could
    /// take although `bounds` requires it.
    pub fn draft(
        network: &Network,
        owner: Address,
        session: Address,
        (limits, bounds): (&DelegationLimits, DraftBounds),
        salt: U256,
    ) -> Result<(Delegation, B256), GrantError> {
        let caveats = limits.encode(&Enforcers::of(&network.book)?)?;
        limits.avoid(&escapes(network, owner)?)?;
        match bounds {
            DraftBounds::Required => drop(limits.exposure(owner, &network.book).map_err(LimitsError::from)?),
            DraftBounds::Waived => {}
        }
        let signature = Bytes::new();
        let delegation = Delegation { delegate: session, delegator: owner, authority: ROOT, caveats, salt, signature };
        let (manager, _) = framework(network)?;
        let digest = digest(&delegation, manager, network.chain_id);
        Ok((delegation, digest))
    }

    /// Returns the limits that the caveats of a delegation encode, signed or not.
    ///
    /// # Errors
    /// [`GrantError::Limits`] if a caveat is not known.
    pub fn limits_of(network: &Network, delegation: &Delegation) -> Result<DelegationLimits, GrantError> {
        Ok(DelegationLimits::decode(&delegation.caveats, &Enforcers::of(&network.book)?)?)
    }

    /// Returns the digest that the owner's wallet signs for a delegation.
    ///
    /// # Errors
    /// [`GrantError::NoFramework`] if the chain's address book lacks the manager.
    pub fn digest(network: &Network, delegation: &Delegation) -> Result<B256, GrantError> {
        Ok(digest(delegation, framework(network)?.0, network.chain_id))
    }

    /// Returns a delegation as typed data (`eth_signTypedData_v4`), for the owner's wallet elsewhere.
    ///
    /// # Errors
    /// [`GrantError::NoFramework`] if the chain's address book lacks the manager.
    pub fn typed_data(network: &Network, delegation: &Delegation) -> Result<Value, GrantError> {
        let (manager, _) = framework(network)?;
        let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let caveats: Vec<Value> = delegation
            .caveats
            .iter()
            .map(|caveat| json!({ "enforcer": caveat.enforcer, "terms": caveat.terms }))
            .collect();
        Ok(json!({
            "types": {
                "EIP712Domain": [
                    field("name", "string"), field("version", "string"), field("chainId", "uint256"),
                    field("verifyingContract", "address"),
                ],
                "Delegation": [
                    field("delegate", "address"), field("delegator", "address"), field("authority", "bytes32"),
                    field("caveats", "Caveat[]"), field("salt", "uint256"),
                ],
                "Caveat": [field("enforcer", "address"), field("terms", "bytes")],
            },
            "primaryType": "Delegation",
            "domain": {
                "name": NAME, "version": VERSION, "chainId": network.chain_id, "verifyingContract": manager,
            },
            "message": {
                "delegate": delegation.delegate, "delegator": delegation.delegator,
                "authority": delegation.authority, "caveats": caveats, "salt": delegation.salt.to_string(),
            },
        }))
    }

    /// Validates a delegation that was signed elsewhere.
    ///
    /// # Errors
    /// [`GrantError`] if its form, a caveat, a target or the signature is not accepted.
    pub fn read(network: &Network, delegation: Delegation) -> Result<Self, GrantError> {
        let (manager, implementation) = framework(network)?;
        let limits = DelegationLimits::decode(&delegation.caveats, &Enforcers::of(&network.book)?)?;
        limits.avoid(&escapes(network, delegation.delegator)?)?;
        if delegation.authority != ROOT {
            return Err(GrantError::Shape("it depends on another delegation"));
        }
        if delegation.delegate == ANYONE || delegation.delegate == delegation.delegator {
            return Err(GrantError::Shape("its delegate is anyone, or the owner"));
        }
        if !is_signed(&delegation, manager, network.chain_id) {
            return Err(GrantError::Signature(delegation.delegator));
        }
        Ok(Self { chain_id: network.chain_id, manager, implementation, delegation, limits })
    }

    /// Returns the EIP-155 id of the chain that the grant is for.
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Returns the owner, whose account the session key acts for.
    pub fn owner(&self) -> Address {
        self.delegation.delegator
    }

    /// Returns the address of the session key.
    pub fn session(&self) -> Address {
        self.delegation.delegate
    }

    /// Returns the address of the delegation manager, which the session key calls.
    pub fn manager(&self) -> Address {
        self.manager
    }

    /// Returns the limits of the delegation.
    pub fn limits(&self) -> &DelegationLimits {
        &self.limits
    }

    /// Returns the signed delegation.
    pub fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    /// Returns the delegation with the arguments that its caveats need for a call. They are not signed.
    pub fn for_call(&self, to: Address, data: &[u8]) -> Delegation {
        let mut delegation = self.delegation.clone();
        for (caveat, args) in delegation.caveats.iter_mut().zip(self.limits.arguments(to, data)) {
            caveat.args = args;
        }
        delegation
    }

    /// Checks that the chain's state matches the grant: the owner's account delegates to this framework and manager,
    /// the manager is not paused, and the delegation is not revoked.
    ///
    /// # Errors
    /// [`DelegationNotReady`] if one of these does not hold or the chain cannot be read.
    pub async fn check(&self, client: &ChainClient) -> Result<(), DelegationNotReady> {
        let owner = self.owner();
        let (provider, block) = client.newest().await?;
        let code = provider.get_code_at(owner).block_id(block).await.map_err(ProviderError::from)?;
        if code.as_ref() != [&DESIGNATOR[..], self.implementation.as_slice()].concat() {
            return Err(DelegationNotReady::NoDelegator { owner, implementation: self.implementation });
        }
        let found = ask(client, owner, DeleGator::delegationManagerCall {}).await?;
        if found != self.manager {
            return Err(DelegationNotReady::OtherManager { owner, found, manager: self.manager });
        }
        if ask(client, self.manager, DelegationManager::pausedCall {}).await? {
            return Err(DelegationNotReady::Paused);
        }
        let hash = delegation_hash(&self.delegation);
        match ask(client, self.manager, DelegationManager::disabledDelegationsCall { delegationHash: hash }).await? {
            true => Err(DelegationNotReady::Revoked),
            false => Ok(()),
        }
    }
}

async fn ask<C: SolCall>(client: &ChainClient, to: Address, call: C) -> Result<C::Return, DelegationNotReady> {
    use alloy::rpc::types::TransactionRequest;
    let request = TransactionRequest { to: Some(to.into()), ..Default::default() }.input(call.abi_encode().into());
    let (provider, block) = client.newest().await?;
    let answer = provider.call(request).block(block).await.map_err(ProviderError::from)?;
    let decoded = C::abi_decode_returns(&answer)
        .map_err(|error| ProviderError::Decode { detail: bardo_base::text::SafeText::clean(&error.to_string(), 200) });
    Ok(decoded?)
}

fn framework(network: &Network) -> Result<(Address, Address), GrantError> {
    let find = |contract| network.book.contract(contract).ok_or_else(|| GrantError::NoFramework(network.to_string()));
    Ok((find(KnownContract::DelegationManager)?, find(KnownContract::Eip7702Delegator)?))
}

/// Contracts that a session key must not call, with their roles. The framework's code obeys calls of the account to
/// itself, of the manager and of the entry point without any limit (`onlyEntryPointOrSelf`, `onlyDelegationManager`), and
/// the manager also disables and enables the account's delegations.
fn escapes(network: &Network, owner: Address) -> Result<[(Address, &'static str); 4], GrantError> {
    let (manager, implementation) = framework(network)?;
    Ok([
        (owner, "the owner's own account"),
        (manager, "the delegation manager"),
        (implementation, "the code of the owner's account"),
        (ENTRY_POINT, "the entry point"),
    ])
}

/// Returns true if the delegator has signed the delegation for this manager and chain. The signature covers both, so that
/// it also proves which contract the delegation belongs to.
pub fn is_signed(delegation: &Delegation, manager: Address, chain_id: u64) -> bool {
    let Ok(signature) = Signature::try_from(delegation.signature.as_ref()) else { return false };
    let signer = signer_of(&signature, &digest(delegation, manager, chain_id));
    // The framework rejects signatures with a high `s`, which would recover as well.
    signer == Some(delegation.delegator) && signature.normalize_s().is_none()
}

/// Returns the hash by which the manager identifies a delegation.
pub fn delegation_hash(delegation: &Delegation) -> B256 {
    as_signed(delegation).eip712_hash_struct()
}

/// Returns the hash that an owner signs.
fn digest(delegation: &Delegation, manager: Address, chain_id: u64) -> B256 {
    as_signed(delegation).eip712_signing_hash(&domain(manager, chain_id))
}

fn as_signed(delegation: &Delegation) -> typed::Delegation {
    typed::Delegation {
        delegate: delegation.delegate,
        delegator: delegation.delegator,
        authority: delegation.authority,
        caveats: delegation
            .caveats
            .iter()
            .map(|caveat| typed::Caveat { enforcer: caveat.enforcer, terms: caveat.terms.clone() })
            .collect(),
        salt: delegation.salt,
    }
}

fn domain(manager: Address, chain_id: u64) -> Eip712Domain {
    eip712_domain! {
        name: NAME,
        version: VERSION,
        chain_id: chain_id,
        verifying_contract: manager,
    }
}
