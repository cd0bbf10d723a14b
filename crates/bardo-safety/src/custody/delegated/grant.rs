//! A delegation that an owner has signed for a session key, read with suspicion: every caveat understood, the signature the
//! owner's, and, before use, the chain as the delegation supposes it.

use alloy::primitives::{Address, B256, Bytes, Signature, U256, address, b256};
use alloy::providers::Provider as _;
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct as _, eip712_domain};

use super::caveats::{Enforcers, Limits, LimitsError};
use bardo_abi::delegation::{DeleGator, Delegation, DelegationManager, typed};
use bardo_base::signer::signer_of;
use golem_chain::network::{Contract, Network};
use golem_chain::provider::{ChainClient, ProviderError};

/// Says that the delegator itself is the authority, not another delegation.
const ROOT: B256 = b256!("0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");

/// Stands for "whoever": never accepted here as a session key.
const ANYONE: Address = address!("0x0000000000000000000000000000000000000a11");

/// What an account's code begins with that has delegated by [EIP-7702](https://eips.ethereum.org/EIPS/eip-7702).
const DESIGNATOR: [u8; 3] = [0xef, 0x01, 0x00];

/// An owner's leave for a session key.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    chain_id: u64,
    manager: Address,
    implementation: Address,
    delegation: Delegation,
    limits: Limits,
}

/// Why a delegation is not a grant that is used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The chain's book lacks the framework.
    #[error("the address book of {0} has no delegation framework")]
    NoFramework(String),
    /// It is for another session key.
    #[error("the delegation is for {granted}, and this session key is {own}")]
    OtherSession {
        /// In the delegation.
        granted: Address,
        /// Of the key.
        own: Address,
    },
    /// Anybody could use it, or it hangs on another delegation.
    #[error("the delegation is not one from the owner to one session key: {0}")]
    Shape(&'static str),
    /// Its limits are missing or not understood.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// It is not the owner's signature.
    #[error("the delegation is not signed by its owner {0}")]
    Signature(Address),
}

/// Why a grant cannot be used on the chain as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The owner's account does not have the framework's code.
    #[error(
        "{owner} has not delegated its account to {implementation}: the owner has to sign that authorisation first"
    )]
    NoDelegator {
        /// The owner.
        owner: Address,
        /// What its code should point to.
        implementation: Address,
    },
    /// The code it has knows another manager.
    #[error("the code of {owner} obeys {found}, not the manager {manager}")]
    OtherManager {
        /// The owner.
        owner: Address,
        /// Whom it obeys.
        found: Address,
        /// Whom it should.
        manager: Address,
    },
    /// The owner has revoked it.
    #[error("the owner has revoked this delegation")]
    Revoked,
    /// The manager has been stopped by whoever owns it.
    #[error("the delegation manager is paused: nothing can be done through it now")]
    Paused,
    /// The chain did not tell.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl Grant {
    /// A delegation for `session` to act as `owner`, not yet signed: what an owner's wallet is asked to sign, and its
    /// digest. `salt` tells it from others with the same limits.
    ///
    /// # Errors
    /// [`GrantError::NoFramework`], [`GrantError::Limits`].
    pub fn draft(
        network: &Network,
        owner: Address,
        session: Address,
        limits: &Limits,
        salt: U256,
    ) -> Result<(Delegation, B256), GrantError> {
        let caveats = limits.encode(&Enforcers::of(&network.book)?)?;
        let signature = Bytes::new();
        let delegation = Delegation { delegate: session, delegator: owner, authority: ROOT, caveats, salt, signature };
        let (manager, _) = framework(network)?;
        let digest = digest(&delegation, manager, network.chain_id);
        Ok((delegation, digest))
    }

    /// A delegation that was signed elsewhere, if everything about it is understood.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn read(network: &Network, delegation: Delegation) -> Result<Self, GrantError> {
        let (manager, implementation) = framework(network)?;
        let limits = Limits::decode(&delegation.caveats, &Enforcers::of(&network.book)?)?;
        if delegation.authority != ROOT {
            return Err(GrantError::Shape("it hangs on another delegation"));
        }
        if delegation.delegate == ANYONE || delegation.delegate == delegation.delegator {
            return Err(GrantError::Shape("its delegate is anybody, or the owner"));
        }
        let unsigned = GrantError::Signature(delegation.delegator);
        let signature = Signature::try_from(delegation.signature.as_ref()).map_err(|_| unsigned.clone())?;
        let digest = digest(&delegation, manager, network.chain_id);
        // The framework refuses the upper half of `s`, which recovers as well.
        if signer_of(&signature, &digest) != Some(delegation.delegator) || signature.normalize_s().is_some() {
            return Err(unsigned);
        }
        Ok(Self { chain_id: network.chain_id, manager, implementation, delegation, limits })
    }

    /// EIP-155 id of the chain it holds on.
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Whose account is acted for.
    pub fn owner(&self) -> Address {
        self.delegation.delegator
    }

    /// Whose key acts.
    pub fn session(&self) -> Address {
        self.delegation.delegate
    }

    /// The framework's manager, which is what the session key calls.
    pub fn manager(&self) -> Address {
        self.manager
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The delegation itself.
    pub fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    /// Whether the chain is as the grant supposes: the owner's account is a delegator of this manager, and nobody has revoked
    /// or stopped it.
    ///
    /// # Errors
    /// [`NotReady`].
    pub async fn check(&self, client: &ChainClient) -> Result<(), NotReady> {
        let owner = self.owner();
        let (provider, block) = client.newest().await?;
        let code = provider.get_code_at(owner).block_id(block).await.map_err(ProviderError::from)?;
        if code.as_ref() != [&DESIGNATOR[..], self.implementation.as_slice()].concat() {
            return Err(NotReady::NoDelegator { owner, implementation: self.implementation });
        }
        let found = ask(client, owner, DeleGator::delegationManagerCall {}).await?;
        if found != self.manager {
            return Err(NotReady::OtherManager { owner, found, manager: self.manager });
        }
        if ask(client, self.manager, DelegationManager::pausedCall {}).await? {
            return Err(NotReady::Paused);
        }
        let hash = hash_of(&self.delegation);
        match ask(client, self.manager, DelegationManager::disabledDelegationsCall { delegationHash: hash }).await? {
            true => Err(NotReady::Revoked),
            false => Ok(()),
        }
    }
}

async fn ask<C: SolCall>(client: &ChainClient, to: Address, call: C) -> Result<C::Return, NotReady> {
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
    Ok((find(Contract::DelegationManager)?, find(Contract::Eip7702Delegator)?))
}

/// The hash the manager knows a delegation by.
pub(super) fn hash_of(delegation: &Delegation) -> B256 {
    as_signed(delegation).eip712_hash_struct()
}

/// The hash an owner signs.
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
        name: "DelegationManager",
        version: "1",
        chain_id: chain_id,
        verifying_contract: manager,
    }
}
