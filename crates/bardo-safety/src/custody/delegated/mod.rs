//! Session key that acts for an owner. The owner's account has the delegation framework's code (EIP-7702), and the
//! owner has signed a delegation to the session key. Each transaction calls the framework's manager, which checks the
//! caveats and makes the owner's account execute the call. The session key pays for gas. It can do only what the
//! caveats permit, even if it is stolen.
//!
//! Caveats restrict calls, not signatures. A transaction that needs a signed typed message is rejected, because only
//! the owner's own key could sign it.
//!
//! Not here: making the owner's account a delegator, and granting or revoking delegations (the owner's own wallet does
//! that).

mod caveats;
mod grant;
#[cfg(test)]
mod tests;

use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};
use futures::future::BoxFuture;

use super::local::{LocalAccount, fits, with_margin};
use crate::proposal::{PlanLeg, Proposal};
use crate::queue_key::QueueKey;
use crate::{
    Account, AccountKind, Capability, PayloadContext, PayloadError, PayloadLeg, PayloadParts, SignError, SigningPayload,
};
use bardo_abi::delegation::DelegationManager;
use golem_chain::signed::SignedTransaction;

pub use caveats::{CallLimit, DelegationLimits, Enforcers, LimitsError};
pub use grant::{DelegationGrant, DelegationNotReady, GrantError, delegation_hash};

/// ERC-7579 execution mode: a single call that reverts on failure.
const SINGLE: B256 = B256::ZERO;

/// Gas of the manager around a call, without caveats: signature, two loops over the hooks, events.
const REDEEM_GAS: u64 = 120_000;

/// Gas of one caveat's hooks; those that read balances use the most.
const CAVEAT_GAS: u64 = 60_000;

/// Gas of the policy contract's hooks, which keep balances and prices of up to about eight assets from before to after
/// the call.
const CAGE_GAS: u64 = 1_000_000;

/// Owner's account, operated through a session key.
pub struct DelegatedAccount {
    session: LocalAccount,
    grant: DelegationGrant,
}

impl DelegatedAccount {
    /// Creates the account of the grant's owner, for the holder of the session key.
    ///
    /// # Errors
    /// [`GrantError::OtherSession`] if the grant is for another session key.
    pub fn new(session: LocalAccount, grant: DelegationGrant) -> Result<Self, GrantError> {
        let own = session.address();
        if grant.session() != own {
            return Err(GrantError::OtherSession { granted: grant.session(), own });
        }
        Ok(Self { session, grant })
    }

    /// Returns the grant that the account acts under.
    pub fn grant(&self) -> &DelegationGrant {
        &self.grant
    }

    /// Converts a proposed transaction into a call of the manager.
    fn wrap(&self, index: usize, leg: &PlanLeg) -> Result<PayloadLeg, PayloadError> {
        if !leg.slots.is_empty() {
            return Err(PayloadError::Unsupported(
                "caveats limit calls, not signatures: a session key cannot sign typed messages for its owner; set the \
                 allowance by a call instead"
                    .into(),
            ));
        }
        self.grant
            .limits()
            .lets_through(leg.to, leg.value, &leg.data)
            .map_err(|error| PayloadError::Unsupported(format!("transaction {index}: {error}")))?;
        let context = vec![self.grant.delegation().clone()].abi_encode();
        let execution = [leg.to.as_slice(), &leg.value.to_be_bytes::<32>(), &leg.data].concat();
        let call = DelegationManager::redeemDelegationsCall {
            permissionContexts: vec![context.into()],
            modes: vec![SINGLE],
            executionCallDatas: vec![execution.into()],
        };
        let around = self.grant.limits().all().iter().fold(REDEEM_GAS, |sum, limit| {
            sum.saturating_add(if *limit == CallLimit::PolicyCage { CAGE_GAS } else { CAVEAT_GAS })
        });
        Ok(PayloadLeg {
            purpose: leg.purpose,
            from: self.session.address(),
            to: self.grant.manager(),
            // The value comes from the owner's balance, not from the session key's.
            value: U256::ZERO,
            data: Bytes::from(call.abi_encode()),
            gas_limit: with_margin(leg.gas_limit.saturating_add(around)),
            slots: Vec::new(),
        })
    }
}

impl Account for DelegatedAccount {
    fn address(&self) -> Address {
        self.grant.owner()
    }

    fn kind(&self) -> AccountKind {
        AccountKind::Delegated
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        self.session.queue_key_of(ledger, self.grant.owner())
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        fits(self.grant.owner(), &proposal, context)?;
        if proposal.chain_id != self.grant.chain_id() {
            return Err(PayloadError::WrongChain {
                chain_id: proposal.chain_id,
                why: format!("the delegation is for chain {}", self.grant.chain_id()),
            });
        }
        if proposal.order.is_some() {
            return Err(PayloadError::Unsupported(
                "caveats limit calls, not signatures: the account that owns the tokens must sign an order, not a \
                 session key of its owner"
                    .into(),
            ));
        }
        let legs =
            proposal.legs.iter().enumerate().map(|(index, leg)| self.wrap(index, leg)).collect::<Result<_, _>>()?;
        let session = self.session.address();
        SigningPayload::new(PayloadParts {
            proposal,
            kind: AccountKind::Delegated,
            signer: session,
            payer: session,
            legs,
            order: None,
            fees: context.fees,
        })
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        // The signed transaction is a plain one of the session key.
        self.session.sign(capability)
    }
}

impl fmt::Debug for DelegatedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegatedAccount")
            .field("owner", &self.grant.owner())
            .field("session", &self.session.address())
            .finish_non_exhaustive()
    }
}
