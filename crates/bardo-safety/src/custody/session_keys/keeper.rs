//! Checks of one session key before each signature: its row in the ledger, and the time. Time is the latest of the
//! machine's clock, the ledger's clock and the newest block, so that setting one of them back prolongs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy::eips::BlockNumberOrTag;
use alloy::providers::Provider as _;
use rusqlite::Connection;

use super::history;
use super::records::{self, SessionKeyError};
use super::{SessionKeyId, SessionKeyRecord, SessionKeyState, SessionRefusal};
use crate::audit::LogHead;
use crate::custody::delegated::{CallLimit, DelegationGrant};
use crate::ledger;
use crate::queue_key::QueueKey;
use bardo_base::clock::Clock;
use bardo_store::Store;
use golem_chain::provider::ChainClient;

/// Keeper of one session key's row.
#[derive(Debug, Clone)]
pub struct SessionKeeper {
    id: SessionKeyId,
    ledger: Arc<str>,
    store: Store,
    client: ChainClient,
    clock: Arc<dyn Clock>,
    /// Latest block time seen, in seconds since the Unix epoch.
    block_time: Arc<AtomicU64>,
}

impl SessionKeeper {
    /// Creates the keeper of session key `id` in the ledger named `ledger`, for the chain of `client`. `store` must have
    /// been opened with [`permit::MIGRATIONS`](crate::permit::MIGRATIONS),
    /// [`ledger::MIGRATIONS`](crate::ledger::MIGRATIONS) and [`audit::MIGRATIONS`](crate::audit::MIGRATIONS).
    pub fn new(id: SessionKeyId, ledger: &str, store: Store, client: ChainClient, clock: Arc<dyn Clock>) -> Self {
        let block_time = Arc::new(AtomicU64::new(0));
        Self { id, ledger: ledger.into(), store, client, clock, block_time }
    }

    /// Returns the name of the ledger.
    pub fn ledger(&self) -> &str {
        &self.ledger
    }

    /// Reads the time of the newest block.
    ///
    /// # Errors
    /// [`SessionRefusal::Unread`] if the chain does not answer.
    pub async fn read_block_time(&self) -> Result<(), SessionRefusal> {
        let head = self.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
        let head = head.map_err(|error| SessionRefusal::Unread(format!("the newest block: {error}")))?;
        let head = head.ok_or_else(|| SessionRefusal::Unread("there is no newest block".to_owned()))?;
        self.block_time.fetch_max(head.header.timestamp, Ordering::SeqCst);
        Ok(())
    }

    /// Checks that the key may make `more` calls now. Without `key`, which a locked account lacks, the row is not
    /// authenticated; nothing can be signed then.
    ///
    /// # Errors
    /// The first [`SessionRefusal`] that applies.
    pub fn check(&self, grant: &DelegationGrant, key: Option<&QueueKey>, more: u64) -> Result<(), SessionRefusal> {
        let anchor = history::anchor(self.store.path())?;
        let read = self.store.read(|connection| self.checked((connection, anchor), grant, key, more).map(drop));
        read.map_err(refused)
    }

    /// Checks the key and counts one signature, in one transaction.
    ///
    /// # Errors
    /// The first [`SessionRefusal`] that applies; nothing is counted then.
    pub async fn take(&self, grant: &DelegationGrant, key: &QueueKey) -> Result<(), SessionRefusal> {
        let anchor = history::anchor(self.store.path())?;
        let (keeper, grant, key) = (self.clone(), grant.clone(), key.clone());
        let written = self.store.write(move |transaction| {
            let record = keeper.checked((transaction, anchor), &grant, Some(&key), 1)?;
            records::count(transaction, &record, keeper.clock.now_millis(), &key)
        });
        written.await.map_err(refused)
    }

    fn checked(
        &self,
        (connection, anchor): (&Connection, Option<LogHead>),
        grant: &DelegationGrant,
        key: Option<&QueueKey>,
        more: u64,
    ) -> Result<SessionKeyRecord, SessionKeyError> {
        history::reaches(connection, anchor)?;
        let missing = SessionRefusal::Unverified("this ledger has no row of it");
        let stored = records::find(connection, self.id)?.ok_or(missing)?;
        let record = match key {
            Some(key) => stored.verified(key)?.clone(),
            None => stored.claims().clone(),
        };
        match &record.state {
            SessionKeyState::Granted => {}
            SessionKeyState::Drafted => {
                return Err(SessionRefusal::Unverified("its owner has not signed the delegation").into());
            }
            SessionKeyState::Revoked(revocation) => {
                let (by, reason) = (revocation.by, revocation.reason.clone());
                return Err(SessionRefusal::Revoked { by, reason }.into());
            }
        }
        if record.delegation != *grant.delegation() || record.chain_id != grant.chain_id() {
            return Err(SessionRefusal::Unverified("the row has another delegation than the account").into());
        }
        let now = self.now(connection)?;
        let expired = |at: u64| SessionKeyError::from(SessionRefusal::Expired { at, now });
        if now >= record.expires_at {
            return Err(expired(record.expires_at));
        }
        let enough = |most: u64| match record.uses.saturating_add(more) <= most {
            true => Ok(()),
            false => Err(SessionRefusal::UsedUp { most, used: record.uses, more }),
        };
        record.max_calls.map_or(Ok(()), enough)?;
        for limit in grant.limits().all() {
            match limit {
                CallLimit::Time { before, .. } if *before != 0 && now >= *before => return Err(expired(*before)),
                CallLimit::Time { after, .. } if *after != 0 && self.earliest() <= *after => {
                    return Err(SessionRefusal::TooEarly { after: *after, now: self.earliest() }.into());
                }
                CallLimit::Calls(most) => enough(*most)?,
                CallLimit::Time { .. }
                | CallLimit::Targets(_)
                | CallLimit::Methods(_)
                | CallLimit::Shapes(_)
                | CallLimit::Value(_)
                | CallLimit::TokenLoss { .. }
                | CallLimit::PolicyCage => {}
            }
        }
        Ok(record)
    }

    /// Latest of the three times, in seconds since the Unix epoch.
    fn now(&self, connection: &Connection) -> Result<u64, SessionRefusal> {
        let ledger = ledger::clock(connection).map_err(|error| SessionRefusal::Unread(error.to_string()))?;
        Ok(self.clock.now_seconds().max(ledger / 1_000).max(self.block_time.load(Ordering::SeqCst)))
    }

    /// Earliest of the machine's and the chain's time, in seconds since the Unix epoch.
    fn earliest(&self) -> u64 {
        let machine = self.clock.now_seconds();
        match self.block_time.load(Ordering::SeqCst) {
            0 => machine,
            block => machine.min(block),
        }
    }
}

fn refused(error: SessionKeyError) -> SessionRefusal {
    match error {
        SessionKeyError::Refused(refusal) => refusal,
        SessionKeyError::Damaged { .. } => SessionRefusal::Unverified("its row is damaged"),
        error @ (SessionKeyError::Store(_) | SessionKeyError::Unknown(_) | SessionKeyError::State { .. }) => {
            SessionRefusal::Unread(error.to_string())
        }
    }
}
