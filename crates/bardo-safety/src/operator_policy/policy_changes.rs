//! The policy in force: the policy file, the operator's decisions about it, and their records.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use rusqlite::{Connection, Transaction};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{AcceptError, MAX_CHANGE, OperatorPolicyEngine};
use crate::audit::{self, AuditKind, LogEntry};
use crate::ledger;
use crate::operator_proof::{Authorisation, OperatorProof};
use crate::policy::{self, ActivePolicy, FieldChange, PendingPolicy, Policy, PolicyFileCheck, PolicyPreset};
use crate::second_approval::{
    GivenPolicyApproval, LONGEST_POLICY_APPROVAL, SecondError, SecondSignature, SecondStatement,
};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;

/// Formats a change of one field in one line.
fn describe(change: &FieldChange) -> SafeText {
    SafeText::clean(&format!("{}: {} → {}", change.field, change.from, change.to), MAX_CHANGE)
}

/// Kinds of entries about the policy in force.
const OF_POLICIES: [AuditKind; 3] = [AuditKind::PolicyAdopted, AuditKind::PolicyTightened, AuditKind::PolicyAccepted];

/// Kinds of entries about decisions on policies: each ends the second approvals that were given before it.
const DECISIONS: [AuditKind; 4] =
    [AuditKind::PolicyAdopted, AuditKind::PolicyTightened, AuditKind::PolicyAccepted, AuditKind::PolicyRefused];

/// Second approval that a policy asks for, as an audit log entry records it.
fn second_json(policy: &Policy) -> Value {
    policy
        .second_approval()
        .map_or(Value::Null, |(above, approvers)| json!({ "above_usd": above, "approvers": approvers }))
}

/// Read-only policy for a ledger whose record of the policy in force is missing or damaged. It asks for the second
/// approval that the newest entry of the audit log recorded, so that no damage makes one person enough.
fn read_only_as_recorded(connection: &Connection) -> Result<Policy, AcceptError> {
    let preset = Policy::preset(PolicyPreset::ReadOnly);
    let asks = |body: &Value| body.get("asks_second").is_some_and(|asked| !asked.is_null());
    let Some(body) = audit::newest_body(connection, &OF_POLICIES, asks)? else { return Ok(preset) };
    let above = body["asks_second"]["above_usd"].as_str().unwrap_or("0");
    let approvers = body["asks_second"]["approvers"].as_array().into_iter().flatten();
    let approvers: Vec<_> = approvers.filter_map(Value::as_str).map(|one| format!("\"{one}\"")).collect();
    let text = format!(
        "preset = \"read-only\"\n[second_approval]\nabove_usd = \"{above}\"\napprovers = [{}]\n",
        approvers.join(", ")
    );
    // Without readable approvers nobody can approve, and the ledger must be restored.
    let guarded = Policy::from_sources([text.as_str()]).ok().flatten();
    Ok(guarded.unwrap_or_else(|| preset.asking_nobody()))
}

/// Entry of the audit log about a policy that comes into force.
struct PolicyRecord {
    kind: AuditKind,
    changes: Vec<FieldChange>,
    by: Option<SafeText>,
    second: Option<GivenPolicyApproval>,
}

impl PolicyRecord {
    fn of(kind: AuditKind, changes: Vec<FieldChange>, by: Option<&str>) -> Self {
        Self { kind, changes, by: by.map(|by| SafeText::clean(by, MAX_CHANGE)), second: None }
    }
}

/// Verifies a second approval of the policy `to` again, against the policy in force and the ledger in which it is about
/// to count. `accounts` act under the policy.
fn verify_second(
    transaction: &Transaction<'_>,
    in_force: &Policy,
    given: &GivenPolicyApproval,
    (to, accounts): (&Policy, &[Address]),
    now: u64,
) -> Result<(), AcceptError> {
    let approvers = in_force.second_approval().map(|(_, approvers)| approvers.clone()).unwrap_or_default();
    let entry = audit::newest(transaction, &DECISIONS)?.unwrap_or_default();
    // A clock that was set back revives no approval.
    let now = now.max(ledger::clock(transaction)?);
    let statement = SecondStatement::of_policy(in_force, to, entry, given.statement.deadline());
    if statement != given.statement {
        return Err(SecondError::Over.into());
    }
    statement.verify(&given.signature, &approvers, accounts, now)?;
    Ok(())
}

/// Verifies that no other process has put a policy into force that `in_force` is not at least as strict as. A process
/// that follows another file, or was asleep meanwhile, decides nothing about it.
pub(super) fn still_in_force(transaction: &Transaction<'_>, in_force: &Policy) -> Result<(), AcceptError> {
    let Some((hash, sources)) = policy::stored_policy(transaction)? else { return Err(AcceptError::Overtaken) };
    if hash == in_force.hash() {
        return Ok(());
    }
    let stored = Policy::from_sources(sources.iter().map(String::as_str)).ok().flatten();
    let stored = stored.filter(|stored| stored.hash() == hash).ok_or(AcceptError::Overtaken)?;
    if stored.changes(in_force).iter().all(|change| change.tighter) { Ok(()) } else { Err(AcceptError::Overtaken) }
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
                return self.keep(written, PolicyRecord::of(AuditKind::PolicyAdopted, Vec::new(), None), now).await;
            }
            // Another process may have stored the first policy in between.
            held = self.store.read(policy::stored_policy)?;
        }
        let newest = self.store.read(|connection| audit::newest_body(connection, &OF_POLICIES, |_| true))?;
        let recorded = newest.and_then(|body| body["policy"].as_str().and_then(|hash| hash.parse::<B256>().ok()));
        // A row that the audit log does not confirm was changed by something else. Ledgers of early versions have no entry.
        let trusted = match (recorded, &held) {
            (Some(recorded), Some((hash, _))) => recorded == *hash,
            (None, Some(_)) => self.log_is_whole()?,
            (_, None) => false,
        };
        let Some((hash, sources)) = held.filter(|_| trusted) else {
            tracing::warn!(
                "the ledger lacks the last policy in force, or its audit log names another: the policy file waits for \
                 approval"
            );
            let held = self.store.read(read_only_as_recorded)?;
            return self.go_on_from(held, None, now).await;
        };
        if hash == written.hash() {
            return Ok(());
        }
        // A policy that this version cannot parse, or parses differently (for example after a preset changed), cannot
        // be compared. Nothing passes until the operator approves again.
        let held = match Policy::from_sources(sources.iter().map(String::as_str)) {
            Ok(Some(held)) if held.hash() == hash => held,
            // A second approval that was in force stays so, and the decision needs it.
            Ok(_) | Err(_) => self.store.read(read_only_as_recorded)?,
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
        self.keep(holds, PolicyRecord::of(AuditKind::PolicyTightened, changes, None), now).await
    }

    /// Returns true if a policy was stored in this ledger before, by the audit log. A log with missing entries, by
    /// itself or by its anchor, counts as true.
    fn has_stored_policy(&self) -> Result<bool, AcceptError> {
        let kept = self.store.read(|connection| audit::has_any(connection, &DECISIONS))?;
        Ok(kept || !self.log_is_whole()?)
    }

    /// Returns true if the audit log has no missing or changed entry. A log that is older than the rules has no anchor
    /// yet.
    fn log_is_whole(&self) -> Result<bool, AcceptError> {
        let report = self.store.read(|connection| audit::verify(connection, &self.anchor, None))?;
        Ok(report.faults.iter().all(|fault| matches!(fault, audit::LogFault::NoAnchor)))
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
        let second = self.second_of()?;
        let change = PolicyRecord { second, ..PolicyRecord::of(AuditKind::PolicyAccepted, pending.changes, Some(by)) };
        self.keep(pending.policy, change, now).await?;
        *self.second.lock() = None;
        Ok(self.keeper.accept(hash))
    }

    /// Rejects the waiting policy with this hash. `false` if another policy, or none, is waiting by now.
    ///
    /// # Errors
    /// [`AcceptError`] if the rejection could not be recorded; it takes effect in this process all the same.
    pub async fn refuse(&self, hash: B256, by: &str, now: u64) -> Result<bool, AcceptError> {
        let refused = self.keeper.refuse(hash);
        if refused {
            *self.second.lock() = None;
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

    /// Adds an account that acts under these rules. Its key never counts as a second approver.
    pub fn acts_for(&self, account: Address) {
        self.accounts.lock().push(account);
    }

    /// Returns the statement that a second operator signs to approve the policy `to`, until `deadline` in milliseconds
    /// since the Unix epoch, with the addresses whose signature counts. `None` if the policy in force asks for none.
    ///
    /// # Errors
    /// [`AcceptError`] if the audit log cannot be read.
    pub fn policy_statement(
        &self,
        to: &Policy,
        deadline: u64,
    ) -> Result<Option<(SecondStatement, BTreeSet<Address>)>, AcceptError> {
        let policy = self.policy();
        let Some((_, approvers)) = policy.second_approval() else { return Ok(None) };
        let entry = self.store.read(|connection| audit::newest(connection, &DECISIONS))?.unwrap_or_default();
        let statement = SecondStatement::of_policy(&policy, to, entry, deadline);
        Ok(Some((statement, approvers.clone())))
    }

    /// Takes a second operator's approval of the waiting policy with the hash `to`, for [`Self::accept`]. Returns the
    /// approver.
    ///
    /// # Errors
    /// [`AcceptError`] if it does not count.
    pub fn approve_second(
        &self,
        to: B256,
        deadline: u64,
        signature: SecondSignature,
        now: u64,
    ) -> Result<Address, AcceptError> {
        let pending = self.pending().filter(|pending| pending.policy.hash() == to).ok_or(SecondError::Over)?;
        let (statement, approvers) = self.policy_statement(&pending.policy, deadline)?.ok_or(SecondError::Over)?;
        if deadline > now.saturating_add(LONGEST_POLICY_APPROVAL) {
            return Err(SecondError::Late.into());
        }
        let by = statement.verify(&signature, &approvers, &self.accounts.lock(), now)?;
        *self.second.lock() = Some(GivenPolicyApproval { statement, signature, by, at: now });
        Ok(by)
    }

    /// Returns who approved the waiting policy with the hash `to` as the second operator, and when, in milliseconds since
    /// the Unix epoch.
    pub fn second_given(&self, to: B256) -> Option<(Address, u64)> {
        let given = self.second.lock();
        let given = given.as_ref()?;
        matches!(given.statement, SecondStatement::Policy { to: of, .. } if of == to).then_some((given.by, given.at))
    }

    /// Returns the second approval that another policy needs; `None` if it needs none.
    fn second_of(&self) -> Result<Option<GivenPolicyApproval>, AcceptError> {
        let policy = self.policy();
        let Some((_, approvers)) = policy.second_approval() else { return Ok(None) };
        let given = self.second.lock().clone();
        let missing = SecondError::Missing(approvers.iter().copied().collect());
        Ok(Some(given.ok_or(missing)?))
    }

    /// Stores a policy as the one in force, with its audit log entry, in one database transaction.
    async fn keep(&self, policy: Arc<Policy>, record: PolicyRecord, now: u64) -> Result<(), AcceptError> {
        let PolicyRecord { kind, changes, by, second } = record;
        let (keeper, accounts) = (Arc::clone(&self.keeper), self.accounts.lock().clone());
        let written = self.store.write(move |transaction| -> Result<(), AcceptError> {
            let in_force = keeper.current().policy;
            if kind == AuditKind::PolicyAccepted {
                still_in_force(transaction, &in_force)?;
            }
            if let Some(given) = &second {
                verify_second(transaction, &in_force, given, (&policy, &accounts), now)?;
            }
            policy::store_policy(transaction, &policy, now)?;
            let body = json!({
                "policy": policy.hash(), "name": policy.name(), "by": by,
                "second_approval": second.as_ref().map(GivenPolicyApproval::to_json),
                "asks_second": second_json(&policy),
                "changes": changes.iter().map(describe).collect::<Vec<_>>(),
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
        let (store, changes) = (self.store.clone(), changes.iter().map(describe).collect::<Vec<_>>());
        let since = self.resumed_at.get().copied().unwrap_or_default();
        runtime.spawn(async move {
            let kept = store.write(move |transaction| -> Result<(), AcceptError> {
                let now = ledger::clock(transaction)?.max(since);
                policy::store_policy(transaction, &policy, now)?;
                let body = json!({
                    "policy": policy.hash(), "name": policy.name(), "changes": changes, "asks_second": second_json(&policy),
                });
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
                let changes = held.changes(&both).iter().map(describe).collect::<Vec<_>>();
                let body = json!({
                    "policy": both.hash(), "name": both.name(), "changes": changes, "asks_second": second_json(&both),
                });
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
