//! Which policy holds: what its file says, what the operator decided about it, and the record of both.

use std::sync::Arc;

use alloy::primitives::B256;
use serde_json::json;
use tokio::runtime::Handle;

use super::{AcceptError, MAX_CHANGE, OperatorRules};
use crate::audit::{self, Entry, Kind};
use crate::ledger;
use crate::operator_proof::{Authorisation, OperatorProof};
use crate::policy::{self, Adopted, Change, Followed, Pending, Policy, Preset};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;

/// A change of one field, in a line.
fn words(change: &Change) -> SafeText {
    SafeText::clean(&format!("{}: {} → {}", change.field, change.from, change.to), MAX_CHANGE)
}

impl OperatorRules {
    /// The policy in force, after a look at its file.
    pub fn policy(&self) -> Arc<Policy> {
        // One ledger keeps what holds, and records it.
        if let Some(real) = &self.real {
            return real.policy();
        }
        let before = self.keeper.current();
        let changes = match self.keeper.follow() {
            Followed::Unchanged | Followed::Broken(_) => Vec::new(),
            Followed::Restated => {
                self.restate_soon(before.policy.clone());
                Vec::new()
            }
            Followed::Tightened(changes) => changes,
            // What is tighter in it holds already.
            Followed::Waits(_) => before.policy.changes(&self.keeper.current().policy),
        };
        let now = self.keeper.current();
        if now.policy.hash() != before.policy.hash() {
            // What is tighter holds anyway, from the file; that it is kept and recorded may come a moment later.
            self.keep_soon(now.policy.clone(), &changes);
        }
        now.policy
    }

    /// Goes on from the policy that held when the last program on this ledger ended. On a ledger that is new the file is
    /// taken as it is. To be called once, before anything relies on these rules.
    ///
    /// # Errors
    /// [`AcceptError`]: nothing is known of what held.
    pub async fn resume(&self, now: u64) -> Result<(), AcceptError> {
        if let Ok(runtime) = Handle::try_current() {
            // The one in which they were made, where they were made in one, serves as well.
            let _known = self.runtime.set(runtime);
        }
        let written = self.keeper.current().policy;
        let mut held = self.store.read(policy::held)?;
        if held.is_none() {
            if !self.kept_a_policy()? {
                return self.keep(written, Kind::PolicyAdopted, Vec::new(), None, now).await;
            }
            // Another process may have kept the first one in between.
            held = self.store.read(policy::held)?;
        }
        let Some((hash, sources)) = held else {
            tracing::warn!("the policy that held last is gone from the ledger: the policy file waits for approval");
            return self.go_on_from(Policy::preset(Preset::ReadOnly), None, now).await;
        };
        if hash == written.hash() {
            return Ok(());
        }
        // What this version cannot read any more, or reads otherwise, as where a preset's figures were changed, it cannot
        // compare with: nothing passes until the operator has agreed anew.
        let held = match Policy::from_sources(sources.iter().map(String::as_str)) {
            Ok(Some(held)) if held.hash() == hash => held,
            Ok(_) | Err(_) => Policy::preset(Preset::ReadOnly),
        };
        self.go_on_from(held, Some(hash), now).await
    }

    /// Goes on from `held`, which the ledger has under the hash `kept`. What is tighter in the file holds at once, whether or
    /// not the rest of it waits.
    async fn go_on_from(&self, held: Policy, kept: Option<B256>, now: u64) -> Result<(), AcceptError> {
        let before = held.clone();
        self.keeper.resume(held);
        let holds = self.keeper.current().policy;
        if kept == Some(holds.hash()) {
            return Ok(());
        }
        let changes = before.changes(&holds);
        self.keep(holds, Kind::PolicyTightened, changes, None, now).await
    }

    /// Whether a policy was kept in this ledger before, by the audit log; an audit log from which something was taken, by
    /// itself or by its anchor, counts as one that said so.
    fn kept_a_policy(&self) -> Result<bool, AcceptError> {
        let report = self.store.read(|connection| audit::verify(connection, &self.anchor, None))?;
        // A log that was begun before there were rules has no anchor yet.
        let whole = report.faults.iter().all(|fault| matches!(fault, audit::Fault::NoAnchor));
        let kinds = [Kind::PolicyAdopted, Kind::PolicyTightened, Kind::PolicyAccepted, Kind::PolicyRefused];
        let kept = self.store.read(|connection| audit::has_any(connection, &kinds))?;
        Ok(kept || !whole)
    }

    /// The looser policy that waits for a decision, if one does and it has not been refused.
    pub fn pending(&self) -> Option<Pending> {
        self.policy();
        self.keeper.pending()
    }

    /// Puts the waiting policy with this hash into force, by the operator's approval of exactly that one. `None` where
    /// another one, or none, is waiting by now.
    ///
    /// # Errors
    /// [`AcceptError`]: it was not proved that the operator decided, or it could not be put on record; what held goes on
    /// holding.
    pub async fn accept(
        &self,
        hash: B256,
        by: &str,
        now: u64,
        proof: OperatorProof,
    ) -> Result<Option<Adopted>, AcceptError> {
        let basis = proof.redeem_on(self.is_devnet(), &Authorisation::AcceptPolicy { hash }, now)?;
        let by = format!("{by}, confirmed by {}", basis.as_str());
        let by = by.as_str();
        let Some(pending) = self.pending().filter(|pending| pending.policy.hash() == hash) else { return Ok(None) };
        self.keep(pending.policy, Kind::PolicyAccepted, pending.changes, Some(by), now).await?;
        Ok(self.keeper.accept(hash))
    }

    /// Leaves the waiting policy with this hash where it is, by the operator's no. `false` where another one, or none, is
    /// waiting by now.
    ///
    /// # Errors
    /// [`AcceptError`]: the no could not be put on record; it counts all the same.
    pub async fn refuse(&self, hash: B256, by: &str, now: u64) -> Result<bool, AcceptError> {
        let refused = self.keeper.refuse(hash);
        if refused {
            let by = SafeText::clean(by, MAX_CHANGE);
            self.store
                .write(move |transaction| {
                    let body = json!({ "policy": hash, "by": by });
                    let golem_id = GolemId::operator();
                    let entry = Entry { kind: Kind::PolicyRefused, call_id: None, golem_id: &golem_id, body: &body };
                    audit::append(transaction, now, &entry).map(drop)
                })
                .await?;
        }
        Ok(refused)
    }

    /// Keeps a policy as the one that holds, with its record, in one transaction.
    async fn keep(
        &self,
        policy: Arc<Policy>,
        kind: Kind,
        changes: Vec<Change>,
        by: Option<&str>,
        now: u64,
    ) -> Result<(), AcceptError> {
        let by = by.map(|by| SafeText::clean(by, MAX_CHANGE));
        let written = self.store.write(move |transaction| -> Result<(), AcceptError> {
            policy::hold(transaction, &policy, now)?;
            let body = json!({
                "policy": policy.hash(), "name": policy.name(), "by": by,
                "changes": changes.iter().map(words).collect::<Vec<_>>(),
            });
            let golem_id = GolemId::operator();
            let entry = Entry { kind, call_id: None, golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            Ok(())
        });
        written.await
    }

    fn keep_soon(&self, policy: Arc<Policy>, changes: &[Change]) {
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else { return };
        let (store, changes) = (self.store.clone(), changes.iter().map(words).collect::<Vec<_>>());
        runtime.spawn(async move {
            let kept = store.write(move |transaction| -> Result<(), AcceptError> {
                let now = ledger::clock(transaction)?;
                policy::hold(transaction, &policy, now)?;
                let body = json!({ "policy": policy.hash(), "name": policy.name(), "changes": changes });
                let golem_id = GolemId::operator();
                let entry = Entry { kind: Kind::PolicyTightened, call_id: None, golem_id: &golem_id, body: &body };
                audit::append(transaction, now, &entry)?;
                Ok(())
            });
            if let Err(error) = kept.await {
                tracing::warn!(%error, "a tighter policy holds and is not on record");
            }
        });
    }

    /// Keeps a policy that the operator has put back, where another program was told meanwhile that a looser one holds.
    fn restate_soon(&self, policy: Arc<Policy>) {
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else { return };
        let store = self.store.clone();
        runtime.spawn(async move {
            let kept = store.write(move |transaction| -> Result<(), AcceptError> {
                let Some((hash, sources)) = policy::held(transaction)?.filter(|(hash, _)| *hash != policy.hash())
                else {
                    return Ok(());
                };
                // What cannot be read is weighed when the next program starts.
                let held = Policy::from_sources(sources.iter().map(String::as_str)).ok().flatten();
                let Some(held) = held.filter(|held| held.hash() == hash) else { return Ok(()) };
                let both = held.stricter(&policy);
                if both.hash() == hash {
                    return Ok(());
                }
                policy::hold(transaction, &both, ledger::clock(transaction)?)?;
                let changes = held.changes(&both).iter().map(words).collect::<Vec<_>>();
                let body = json!({ "policy": both.hash(), "name": both.name(), "changes": changes });
                let golem_id = GolemId::operator();
                let entry = Entry { kind: Kind::PolicyTightened, call_id: None, golem_id: &golem_id, body: &body };
                audit::append(transaction, ledger::clock(transaction)?, &entry)?;
                Ok(())
            });
            if let Err(error) = kept.await {
                tracing::warn!(%error, "a policy that was put back is not kept as what holds");
            }
        });
    }
}
