//! Session key that acts for an owner. The owner's account has the delegation framework's code (EIP-7702), and the
//! owner has signed a delegation to the session key. Each transaction calls the framework's manager, which checks the
//! caveats and makes the owner's account execute the call. The session key pays for gas. It can do only what the
//! caveats permit, even if it is stolen.
//!
//! Calls that the caveats would refuse are refused here first, before a payload is prepared and again before it is signed,
//! together with what the chain does not know yet: a revocation, and signatures whose transactions are on their way.
//!
//! Caveats restrict calls, not signatures. A transaction that needs a signed typed message is rejected, because only
//! the owner's own key could sign it.
//!
//! | file | contents |
//! |---|---|
//! | `caveats` | limits as caveats, in the formats of their enforcers |
//! | `shapes` | calls with fixed arguments, as alternatives |
//! | `bounds` | what a stolen session key could take |
//! | `grant` | the delegation that the owner signs, and its validation |
//!
//! Not here: making the owner's account a delegator, and granting or disabling delegations (the owner's own wallet does
//! that), and the session key's row (see [`super::session_keys`]).

mod bounds;
mod caveats;
mod grant;
#[cfg(test)]
mod refusals;
mod shapes;
#[cfg(test)]
mod stolen;
#[cfg(test)]
mod tests;

use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};
use futures::future::BoxFuture;

use super::local::{LocalAccount, fits, with_margin};
use super::session_keys::{SessionKeeper, SessionRefusal};
use crate::pipeline::ToSign;
use crate::proposal::{PlanLeg, Proposal};
use crate::queue_key::QueueKey;
use crate::{
    Account, AccountKind, Capability, PayloadContext, PayloadError, PayloadLeg, PayloadParts, SignError, SigningPayload,
};
use bardo_abi::delegation::DelegationManager;
use golem_chain::signed::SignedTransaction;
use golem_chain::token::TokenId;

pub use bounds::{KeyExposure, UnboundedKey};
pub use caveats::{CallLimit, DelegationLimits, Enforcers, LimitsError};
pub use grant::{DelegationGrant, DelegationNotReady, DraftBounds, GrantError, delegation_hash, is_signed};
pub use shapes::CallShape;

/// ERC-7579 execution mode: a single call that reverts on failure.
const SINGLE: B256 = B256::ZERO;

/// Gas of the manager around a call, without caveats: signature, two loops over the hooks, events.
const REDEEM_GAS: u64 = 120_000;

/// Gas of one caveat's hooks; those that read balances use the most.
const CAVEAT_GAS: u64 = 60_000;

/// Gas of the hooks of a list of call shapes, which read the whole list four times.
const SHAPES_GAS: u64 = 300_000;

/// Gas of the policy contract's hooks, which keep balances and prices of up to about eight assets from before to after
/// the call.
const CAGE_GAS: u64 = 1_000_000;

/// Owner's account, operated through a session key.
pub struct DelegatedAccount {
    session: LocalAccount,
    grant: DelegationGrant,
    keeper: SessionKeeper,
    /// Key that authenticates the session key's row; `None` while it is locked.
    key: Option<QueueKey>,
}

impl DelegatedAccount {
    /// Creates the account of the grant's owner, for the holder of the session key. `keeper` keeps its row.
    ///
    /// # Errors
    /// [`GrantError::OtherSession`] if the grant is for another session key.
    pub fn new(session: LocalAccount, grant: DelegationGrant, keeper: SessionKeeper) -> Result<Self, GrantError> {
        let own = session.address();
        if grant.session() != own {
            return Err(GrantError::OtherSession { granted: grant.session(), own });
        }
        let key = session.queue_key_of(keeper.ledger(), grant.owner());
        Ok(Self { session, grant, keeper, key })
    }

    /// Returns the grant that the account acts under.
    pub fn grant(&self) -> &DelegationGrant {
        &self.grant
    }

    /// Checks that the session key may make `more` calls now.
    ///
    /// # Errors
    /// The first [`SessionRefusal`] that applies.
    pub fn check(&self, more: u64) -> Result<(), SessionRefusal> {
        self.keeper.check(&self.grant, self.key.as_ref(), more)
    }

    /// Checks what the action may take from the owner. Its declared outflows bound the loss, since the pipeline refuses
    /// any other; all of them together must stay within the limit of one call.
    fn losses(&self, proposal: &Proposal) -> Result<(), SessionRefusal> {
        for limit in self.grant.limits().all() {
            let CallLimit::TokenLoss { token, owner, amount: most } = limit else { continue };
            let taken = || proposal.outflows.iter().filter(|outflow| outflow.token.id == TokenId::Erc20(*token));
            let asked = taken().fold(U256::ZERO, |sum, outflow| sum.saturating_add(outflow.amount));
            // Without an outflow of the token, nothing of it is asked for.
            let first = taken().next().filter(|_| *owner == self.grant.owner() && asked > *most);
            if let Some(flow) = first {
                return Err(SessionRefusal::Loss { token: Box::new(flow.token.clone()), most: *most, asked });
            }
        }
        Ok(())
    }

    /// Encodes the delegation as the manager takes it for a call.
    fn context(&self, to: Address, data: &[u8]) -> Bytes {
        vec![self.grant.for_call(to, data)].abi_encode().into()
    }

    /// Checks that exactly what is to be signed is a call that the delegation permits.
    fn inspect(&self, to_sign: &ToSign) -> Result<(), SessionRefusal> {
        let (granted, asked) = (self.grant.chain_id(), to_sign.chain_id);
        if asked != granted {
            return Err(SessionRefusal::Chain { granted, asked });
        }
        if to_sign.payload.account() != self.grant.owner() {
            return Err(SessionRefusal::Shape("this one is for another account"));
        }
        let leg = &to_sign.transaction;
        if leg.to != self.grant.manager() || !leg.value.is_zero() || !leg.slots.is_empty() {
            return Err(SessionRefusal::Shape("this one is not a plain call of the delegation manager"));
        }
        let wrong = SessionRefusal::Shape("this one redeems something else");
        let call = DelegationManager::redeemDelegationsCall::abi_decode(&leg.data).map_err(|_| wrong.clone())?;
        if call.abi_encode() != leg.data.as_ref() || call.modes != [SINGLE] {
            return Err(wrong);
        }
        let [execution] = call.executionCallDatas.as_slice() else { return Err(wrong) };
        let (Some(to), Some(value), Some(data)) = (execution.get(..20), execution.get(20..52), execution.get(52..))
        else {
            return Err(wrong);
        };
        let to = Address::from_slice(to);
        if call.permissionContexts != [self.context(to, data)] {
            return Err(wrong);
        }
        let permitted = self.grant.limits().lets_through(to, U256::from_be_slice(value), data);
        permitted.map_err(|limit| SessionRefusal::Limit { leg: to_sign.leg, limit })?;
        self.losses(to_sign.payload.proposal())
    }

    /// Checks everything again, counts the signature, and signs.
    async fn sign_checked(&self, to_sign: ToSign) -> Result<SignedTransaction, SignError> {
        let key = self.key.as_ref().ok_or_else(|| SignError::Locked("its key file was not opened".into()))?;
        self.inspect(&to_sign)?;
        self.keeper.read_block_time().await?;
        self.keeper.take(&self.grant, key).await?;
        // The signed transaction is a plain one of the session key.
        self.session.sign_parts(&to_sign)
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
        let permitted = self.grant.limits().lets_through(leg.to, leg.value, &leg.data);
        permitted.map_err(|limit| SessionRefusal::Limit { leg: index, limit })?;
        let execution = [leg.to.as_slice(), &leg.value.to_be_bytes::<32>(), &leg.data].concat();
        let call = DelegationManager::redeemDelegationsCall {
            permissionContexts: vec![self.context(leg.to, &leg.data)],
            modes: vec![SINGLE],
            executionCallDatas: vec![execution.into()],
        };
        let around = self.grant.limits().all().iter().fold(REDEEM_GAS, |sum, limit| {
            sum.saturating_add(match limit {
                CallLimit::PolicyCage => CAGE_GAS,
                CallLimit::Shapes(_) => SHAPES_GAS,
                CallLimit::Targets(_)
                | CallLimit::Methods(_)
                | CallLimit::Value(_)
                | CallLimit::Time { .. }
                | CallLimit::Calls(_)
                | CallLimit::TokenLoss { .. } => CAVEAT_GAS,
            })
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

    fn signer(&self) -> Address {
        self.session.address()
    }

    fn kind(&self) -> AccountKind {
        AccountKind::Delegated
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        self.session.queue_key_of(ledger, self.grant.owner())
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), PayloadError>> {
        Box::pin(async { Ok(self.keeper.read_block_time().await?) })
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        fits(self.grant.owner(), &proposal, context)?;
        if proposal.chain_id != self.grant.chain_id() {
            return Err(SessionRefusal::Chain { granted: self.grant.chain_id(), asked: proposal.chain_id }.into());
        }
        if proposal.order.is_some() {
            return Err(PayloadError::Unsupported(
                "caveats limit calls, not signatures: the account that owns the tokens must sign an order, not a \
                 session key of its owner"
                    .into(),
            ));
        }
        self.check(u64::try_from(proposal.legs.len()).unwrap_or(u64::MAX))?;
        self.losses(&proposal)?;
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
        Box::pin(self.sign_checked(capability.into_parts()))
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
