//! The policy in force: the policy file, the operator's decisions about it, and their records.

use std::sync::Arc;

use alloy::primitives::B256;
use serde_json::json;
use tokio::runtime::Handle;

use super::{AcceptError, MAX_CHANGE, OperatorPolicyEngine};
use crate::audit::{self, AuditKind, LogEntry};
use crate::ledger;
use crate::operator_proof::{Authorisation, OperatorProof};
use crate::policy::{self, ActivePolicy, FieldChange, PendingPolicy, Policy, PolicyFileCheck, PolicyPreset};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;

/// Formats a change of one field in one line.
fn words(change: &FieldChange) -> SafeText {
    SafeText::clean(&format!("{}: {} → {}", change.field, change.from, change.to), MAX_CHANGE)
}

impl OperatorPolicyEngine {
    /// Returns the policy in force, after checking its file.
    pub fn policy(&self) -> Arc<Policy> {
        // Only the real ledger keeps and records the policy.
        if let Some(real) = &self.real {
            return real.policy();
        }
        let before = self.keeper.current();
        let changes = match self.keeper.follow() {
            PolicyFileCheck::Unchanged | PolicyFileCheck::Broken(_) => Vec::new(),
            PolicyFileCheck::Restated => {
                self.restate_soon(before.policy.clone());
                Vec::new()
            }
            PolicyFileCheck::Tightened(changes) => changes,
            // The tighter parts are already in force.
            PolicyFileCheck::Waits(_) => before.policy.changes(&self.keeper.current().policy),
        };
        let now = self.keeper.current();
        if now.policy.hash() != before.policy.hash() {
            // The tighter parts are in force in any case, by the file. Recording them may happen a moment later.
            self.keep_soon(now.policy.clone(), &changes);
        }
        now.policy
    }

    /// Restores the policy that was in force when the last process on this ledger ended. On a new ledger, the file's
    /// policy is adopted. Call it once, before anything relies on these rules.
    ///
    /// # Errors
    /// [`AcceptError`] if the previous policy cannot be read or recorded.
    pub async fn resume(&self, now: u64) -> Result<(), AcceptError> {
        if let Ok(runtime) = Handle::try_current() {
            // The runtime in which the rules were created, if any, serves as well.
            let _known = self.runtime.set(runtime);
        }
        let _first = self.resumed_at.set(now);
        let written = self.keeper.current().policy;
        let mut held = self.store.read(policy::stored_policy)?;
        if held.is_none() {
            if !self.has_stored_policy()? {
                return self.keep(written, AuditKind::PolicyAdopted, Vec::new(), None, now).await;
            }
            // Another process may have stored the first policy in between.
            held = self.store.read(policy::stored_policy)?;
        }
        let Some((hash, sources)) = held else {
            tracing::warn!("the last policy in force is missing from the ledger: the policy file waits for approval");
            return self.go_on_from(Policy::preset(PolicyPreset::ReadOnly), None, now).await;
        };
        if hash == written.hash() {
            return Ok(());
        }
        // A policy that this version cannot parse, or parses differently (for example after a preset changed), cannot
        // be compared. Nothing passes until the operator approves again.
        let held = match Policy::from_sources(sources.iter().map(String::as_str)) {
            Ok(Some(held)) if held.hash() == hash => held,
            Ok(_) | Err(_) => Policy::preset(PolicyPreset::ReadOnly),
        };
        self.go_on_from(held, Some(hash), now).await
    }

    /// Continues from `held`, which the ledger stores with the hash `kept`. Tighter parts of the file apply at once,
    /// whether or not the rest waits.
    async fn go_on_from(&self, held: Policy, kept: Option<B256>, now: u64) -> Result<(), AcceptError> {
        let before = held.clone();
        self.keeper.resume(held);
        let holds = self.keeper.current().policy;
        if kept == Some(holds.hash()) {
            return Ok(());
        }
        let changes = before.changes(&holds);
        self.keep(holds, AuditKind::PolicyTightened, changes, None, now).await
    }

    /// Returns true if a policy was stored in this ledger before, by the audit log. A log with missing entries, by
    /// itself or by its anchor, counts as true.
    fn has_stored_policy(&self) -> Result<bool, AcceptError> {
        let report = self.store.read(|connection| audit::verify(connection, &self.anchor, None))?;
        // A log that is older than the rules has no anchor yet.
        let whole = report.faults.iter().all(|fault| matches!(fault, audit::LogFault::NoAnchor));
        let kinds =
            [AuditKind::PolicyAdopted, AuditKind::PolicyTightened, AuditKind::PolicyAccepted, AuditKind::PolicyRefused];
        let kept = self.store.read(|connection| audit::has_any(connection, &kinds))?;
        Ok(kept || !whole)
    }

    /// Returns the looser policy that waits for a decision; `None` if there is none, or if it was rejected.
    pub fn pending(&self) -> Option<PendingPolicy> {
        self.policy();
        self.keeper.pending()
    }

    /// Puts the waiting policy with this hash into force, on the operator's approval. `None` if another policy, or
    /// none, is waiting by now.
    ///
    /// # Errors
    /// [`AcceptError`] if the proof does not cover it or it cannot be recorded; the policy in force is unchanged.
    pub async fn accept(
        &self,
        hash: B256,
        by: &str,
        now: u64,
        proof: OperatorProof,
    ) -> Result<Option<ActivePolicy>, AcceptError> {
        let basis = proof.redeem_on(self.is_devnet(), &Authorisation::AcceptPolicy { hash }, now)?;
        let by = format!("{by}, confirmed by {}", basis.as_str());
        let by = by.as_str();
        let Some(pending) = self.pending().filter(|pending| pending.policy.hash() == hash) else { return Ok(None) };
        self.keep(pending.policy, AuditKind::PolicyAccepted, pending.changes, Some(by), now).await?;
        Ok(self.keeper.accept(hash))
    }

    /// Rejects the waiting policy with this hash. `false` if another policy, or none, is waiting by now.
    ///
    /// # Errors
    /// [`AcceptError`] if the rejection could not be recorded; it takes effect in this process all the same.
    pub async fn refuse(&self, hash: B256, by: &str, now: u64) -> Result<bool, AcceptError> {
        let refused = self.keeper.refuse(hash);
        if refused {
            let by = SafeText::clean(by, MAX_CHANGE);
            self.store
                .write(move |transaction| {
                    let body = json!({ "policy": hash, "by": by });
                    let golem_id = GolemId::operator();
                    let entry =
                        LogEntry { kind: AuditKind::PolicyRefused, call_id: None, golem_id: &golem_id, body: &body };
                    audit::append(transaction, now, &entry).map(drop)
                })
                .await?;
        }
        Ok(refused)
    }

    /// Stores a policy as the one in force, with its audit log entry, in one database transaction.
    async fn keep(
        &self,
        policy: Arc<Policy>,
        kind: AuditKind,
        changes: Vec<FieldChange>,
        by: Option<&str>,
        now: u64,
    ) -> Result<(), AcceptError> {
        let by = by.map(|by| SafeText::clean(by, MAX_CHANGE));
        let written = self.store.write(move |transaction| -> Result<(), AcceptError> {
            policy::store_policy(transaction, &policy, now)?;
            let body = json!({
                "policy": policy.hash(), "name": policy.name(), "by": by,
                "changes": changes.iter().map(words).collect::<Vec<_>>(),
            });
            let golem_id = GolemId::operator();
            let entry = LogEntry { kind, call_id: None, golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            Ok(())
        });
        written.await
    }

    fn keep_soon(&self, policy: Arc<Policy>, changes: &[FieldChange]) {
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else { return };
        let (store, changes) = (self.store.clone(), changes.iter().map(words).collect::<Vec<_>>());
        let since = self.resumed_at.get().copied().unwrap_or_default();
        runtime.spawn(async move {
            let kept = store.write(move |transaction| -> Result<(), AcceptError> {
                let now = ledger::clock(transaction)?.max(since);
                policy::store_policy(transaction, &policy, now)?;
                let body = json!({ "policy": policy.hash(), "name": policy.name(), "changes": changes });
                let golem_id = GolemId::operator();
                let entry =
                    LogEntry { kind: AuditKind::PolicyTightened, call_id: None, golem_id: &golem_id, body: &body };
                audit::append(transaction, now, &entry)?;
                Ok(())
            });
            if let Err(error) = kept.await {
                tracing::warn!(%error, "a tighter policy is in force but not recorded");
            }
        });
    }

    /// Stores a policy that the operator restored, if another process has stored a looser one meanwhile.
    fn restate_soon(&self, policy: Arc<Policy>) {
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.get().cloned()) else { return };
        let store = self.store.clone();
        let since = self.resumed_at.get().copied().unwrap_or_default();
        runtime.spawn(async move {
            let kept = store.write(move |transaction| -> Result<(), AcceptError> {
                let Some((hash, sources)) =
                    policy::stored_policy(transaction)?.filter(|(hash, _)| *hash != policy.hash())
                else {
                    return Ok(());
                };
                // A policy that cannot be parsed is handled when the next process starts.
                let held = Policy::from_sources(sources.iter().map(String::as_str)).ok().flatten();
                let Some(held) = held.filter(|held| held.hash() == hash) else { return Ok(()) };
                let both = held.stricter(&policy);
                if both.hash() == hash {
                    return Ok(());
                }
                let now = ledger::clock(transaction)?.max(since);
                policy::store_policy(transaction, &both, now)?;
                let changes = held.changes(&both).iter().map(words).collect::<Vec<_>>();
                let body = json!({ "policy": both.hash(), "name": both.name(), "changes": changes });
                let golem_id = GolemId::operator();
                let entry =
                    LogEntry { kind: AuditKind::PolicyTightened, call_id: None, golem_id: &golem_id, body: &body };
                audit::append(transaction, now, &entry)?;
                Ok(())
            });
            if let Err(error) = kept.await {
                tracing::warn!(%error, "a restored policy could not be stored as the one in force");
            }
        });
    }
}
