//! An account whose hands can be taken away for good: what a Golem holds, and loses with its death or by the highest step
//! of the stop ladder. The owner's key stays as it is, in its file and in whatever else holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use alloy::primitives::{Address, Bytes};
use futures::future::BoxFuture;

use crate::pipeline::Order;
use crate::proposal::Proposal;
use crate::queue_key::QueueKey;
use crate::{Account, AccountKind, Capability, FrameContext, FrameError, Framed, Revoked, SignError};
use golem_chain::signed::Signed;

const WHOLE: u8 = 0;
const STOPPED: u8 = 1;
const DEAD: u8 = 2;

/// An account until it is revoked.
#[derive(Debug)]
pub struct RevocableAccount {
    inner: Arc<dyn Account>,
    state: Arc<AtomicU8>,
}

/// Takes the account's hands away. A clone is the same switch; there is no way back.
#[derive(Debug, Clone)]
pub struct Revocation {
    state: Arc<AtomicU8>,
    kind: AccountKind,
}

impl Revocation {
    /// From now on nothing more is signed. Whether something would have been until now.
    pub fn revoke(&self, why: Revoked) -> bool {
        let mark = match why {
            Revoked::Stop => STOPPED,
            Revoked::Death => DEAD,
        };
        // A later reason says more, unless it is less: nobody gives a dead Golem keys again.
        self.state.fetch_max(mark, Ordering::SeqCst) == WHOLE
    }

    /// Whether that was done, and why.
    pub fn why(&self) -> Option<Revoked> {
        why(&self.state)
    }

    /// Whether that was done.
    pub fn is_revoked(&self) -> bool {
        self.why().is_some()
    }

    /// How the account signs, or signed.
    pub fn kind(&self) -> AccountKind {
        self.kind
    }
}

fn why(state: &AtomicU8) -> Option<Revoked> {
    match state.load(Ordering::SeqCst) {
        WHOLE => None,
        STOPPED => Some(Revoked::Stop),
        _ => Some(Revoked::Death),
    }
}

impl RevocableAccount {
    /// The same account, and what takes its hands away.
    pub fn new(inner: Arc<dyn Account>) -> (Self, Revocation) {
        let state = Arc::new(AtomicU8::new(WHOLE));
        let revocation = Revocation { state: Arc::clone(&state), kind: inner.kind() };
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

    fn kind(&self) -> AccountKind {
        self.inner.kind()
    }

    fn revoked(&self) -> Option<Revoked> {
        why(&self.state).or_else(|| self.inner.revoked())
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        self.check().ok().and_then(|()| self.inner.queue_key(ledger))
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
