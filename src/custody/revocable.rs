//! An account whose hands can be taken away for good: what a Golem holds, and loses with its death. The owner's key
//! stays as it is, in its file and in whatever else holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy::primitives::{Address, Bytes};
use futures::future::BoxFuture;

use crate::chain::signed::Signed;
use crate::safety::pipeline::Order;
use crate::safety::proposal::Proposal;
use crate::safety::{Account, AccountKind, Capability, FrameContext, FrameError, Framed, SignError};

/// An account until it is revoked.
#[derive(Debug)]
pub struct RevocableAccount {
    inner: Arc<dyn Account>,
    revoked: Arc<AtomicBool>,
}

/// Takes the account's hands away. A clone is the same switch; there is no way back.
#[derive(Debug, Clone)]
pub struct Revocation(Arc<AtomicBool>);

impl Revocation {
    /// From now on nothing more is signed.
    pub fn revoke(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether that was done.
    pub fn is_revoked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl RevocableAccount {
    /// The same account, and what takes its hands away.
    pub fn new(inner: Arc<dyn Account>) -> (Self, Revocation) {
        let revoked = Arc::new(AtomicBool::new(false));
        (Self { inner, revoked: Arc::clone(&revoked) }, Revocation(revoked))
    }

    fn check(&self) -> Result<(), SignError> {
        if self.revoked.load(Ordering::SeqCst) {
            return Err(SignError::Locked("its Golem has died, and its keys are revoked".to_owned()));
        }
        Ok(())
    }
}

impl Account for RevocableAccount {
    fn address(&self) -> Address {
        self.inner.address()
    }

    fn kind(&self) -> AccountKind {
        self.inner.kind()
    }

    fn frame(&self, proposal: Proposal, context: &FrameContext) -> Result<Framed, FrameError> {
        self.inner.frame(proposal, context)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<Signed, SignError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.sign(capability).await
        })
    }

    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.sign_order(capability).await
        })
    }
}
