//! Account that can be disabled permanently. A Golem uses one and loses it at its death, or through the highest level
//! of the stop ladder. The owner's key is not affected, in its file or elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use alloy::primitives::{Address, Bytes, U256};
use futures::future::BoxFuture;

use super::safe::SafeSignatures;
use crate::pipeline::{Order, SafeTransaction};
use crate::proposal::Proposal;
use crate::queue_key::QueueKey;
use crate::{
    Account, AccountKind, Capability, PayloadContext, PayloadError, RevocationCause, SignError, SigningPayload,
};
use golem_chain::signed::SignedTransaction;

const WHOLE: u8 = 0;
const STOPPED: u8 = 1;
const DEAD: u8 = 2;

/// Account that signs until it is revoked.
#[derive(Debug)]
pub struct RevocableAccount {
    inner: Arc<dyn Account>,
    state: Arc<AtomicU8>,
}

/// Switch that disables the account permanently. Clones are the same switch.
#[derive(Debug, Clone)]
pub struct RevocationSwitch {
    state: Arc<AtomicU8>,
    kind: AccountKind,
}

impl RevocationSwitch {
    /// Disables signing from now on. Returns true if it was enabled until now.
    pub fn revoke(&self, why: RevocationCause) -> bool {
        let mark = match why {
            RevocationCause::Stop => STOPPED,
            RevocationCause::Death => DEAD,
        };
        // A death replaces a stop as the reason, but not the other way round: a dead Golem never gets keys again.
        self.state.fetch_max(mark, Ordering::SeqCst) == WHOLE
    }

    /// Returns the reason if the account is disabled.
    pub fn why(&self) -> Option<RevocationCause> {
        why(&self.state)
    }

    /// Returns true if the account is disabled.
    pub fn is_revoked(&self) -> bool {
        self.why().is_some()
    }

    /// Returns the account's type.
    pub fn kind(&self) -> AccountKind {
        self.kind
    }
}

fn why(state: &AtomicU8) -> Option<RevocationCause> {
    match state.load(Ordering::SeqCst) {
        WHOLE => None,
        STOPPED => Some(RevocationCause::Stop),
        _ => Some(RevocationCause::Death),
    }
}

impl RevocableAccount {
    /// Wraps an account and returns the switch that disables it.
    pub fn new(inner: Arc<dyn Account>) -> (Self, RevocationSwitch) {
        let state = Arc::new(AtomicU8::new(WHOLE));
        let revocation = RevocationSwitch { state: Arc::clone(&state), kind: inner.kind() };
        (Self { inner, state }, revocation)
    }

    fn check(&self) -> Result<(), SignError> {
        why(&self.state).map_or(Ok(()), |why| Err(SignError::Revoked(why)))
    }
}

impl Account for RevocableAccount {
    fn address(&self) -> Address {
        self.inner.address()
    }

    fn signer(&self) -> Address {
        self.inner.signer()
    }

    fn kind(&self) -> AccountKind {
        self.inner.kind()
    }

    fn revoked(&self) -> Option<RevocationCause> {
        why(&self.state).or_else(|| self.inner.revoked())
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        self.check().ok().and_then(|()| self.inner.queue_key(ledger))
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), PayloadError>> {
        self.inner.refresh()
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        self.inner.prepare_payload(proposal, context)
    }

    fn prepare_signed(
        &self,
        proposal: Proposal,
        context: &PayloadContext,
        signed: (U256, &SafeSignatures),
    ) -> Result<SigningPayload, PayloadError> {
        self.inner.prepare_signed(proposal, context, signed)
    }

    fn sign_safe(&self, capability: Capability<SafeTransaction>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move {
            self.check()?;
            let signature = self.inner.sign_safe(capability).await?;
            self.check()?;
            Ok(signature)
        })
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(async move {
            self.check()?;
            let signed = self.inner.sign(capability).await?;
            // A wallet server takes its time, and the Golem may have died meanwhile.
            self.check()?;
            Ok(signed)
        })
    }

    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move {
            self.check()?;
            let signature = self.inner.sign_order(capability).await?;
            self.check()?;
            Ok(signature)
        })
    }
}
