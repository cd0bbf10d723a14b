//! Queue of approval requests, in order of arrival. The requester holds a [`PendingApproval`].

#[cfg(test)]
mod model;
mod pending;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy::primitives::{Address, B256};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Transaction;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::grant::{ApprovalGrant, GrantScope, GrantTime, never_granted};
use super::limits::{AskLimits, AskRefused};
use super::remote_answers::RemoteAnswers;
use super::{
    ActionApproval, AnswerError, ApprovalNeed, ApprovalRequest, ApprovalSource, AskedBy, Confirmation, OperatorAnswer,
    OperatorReply, requirement,
};
use crate::audit::AuditLog;
use crate::operator_proof::{Authorisation, OperatorProof, ProofError};
use crate::pipeline::Preview;
use crate::second_approval::{GivenApproval, SecondError, SecondSignature};
use crate::stop::{self, StopCategory};
use crate::vault_management;
use crate::wrapping::only_unwraps;
use bardo_base::clock::Clock;
use bardo_base::fabric::{ApprovalRequested, AskReason, EventKind, Fabric, RequestRenewal};
use bardo_base::id::{GolemId, PermitId};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;

pub use pending::PendingApproval;
use pending::asked_because;

/// Length limit of a reason, in characters.
const MAX_REASON: usize = 400;
/// Largest backward step of the wall clock that keeps standing approvals, in milliseconds. Corrections by time servers
/// are smaller.
const MAX_CORRECTION: u64 = 2_000;
/// Number of permits to remember that were rejected after their request was closed.
const MAX_LATE: usize = 64;
/// Number of actions to remember that took from a standing approval and whose commit has not ended.
const MAX_CHARGES: usize = 256;
/// Time for which an agent's request to replace a transaction keeps its fee from being raised, in milliseconds.
const AGENT_HOLDS: u64 = 60_000;

/// Approval queue of this process. Clones share the same queue.
#[derive(Clone)]
pub struct ApprovalQueue {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    fabric: Fabric,
    timeout: Duration,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    audit_log: Option<AuditLog>,
    remote: OnceLock<Arc<dyn RemoteAnswers>>,
    /// True if approvals need a proof that the operator gave them.
    needs_proof: AtomicBool,
}

#[derive(Default)]
struct State {
    open: Vec<OpenRequest>,
    grants: Vec<ApprovalGrant>,
    /// Standing approvals that come with an approval which the audit log does not contain yet. They take effect after
    /// that.
    unrecorded: Vec<ApprovalGrant>,
    /// Permits that were rejected after their request was closed.
    late: VecDeque<PermitId>,
    /// Spending that actions took from standing approvals, by permit, until their commit ends: the approval's number and the
    /// spending.
    charges: VecDeque<(PermitId, u64, Usd)>,
    next: u64,
    /// Highest wall clock reading since the last large backward step, in milliseconds since the Unix epoch.
    latest: u64,
    limits: AskLimits,
}

struct OpenRequest {
    number: u64,
    preview: Arc<Preview>,
    asked_by: AskedBy,
    /// Expired permits under which the same action was requested before.
    earlier: Vec<PermitId>,
    reasons: Vec<AskReason>,
    changed: Vec<SafeText>,
    revision: u32,
    passes_by_itself: bool,
    asked_at: u64,
    ends_at: u64,
    answer: Option<oneshot::Sender<QueueResult>>,
    /// True from an answer until its requester takes it, or asks again.
    answered: bool,
    /// Previews that a second operator may sign: the current one, and earlier ones that it is at least as good as.
    signable: Vec<Arc<Preview>>,
    /// Second approval that was given.
    second: Option<GivenApproval>,
}

enum QueueResult {
    /// The answer, and the number of the standing approval that it gives, if any.
    Answer(OperatorAnswer, Option<u64>),
    Withdrawn(SafeText),
}

impl QueueResult {
    /// Returns true if the answer lets the action run. Such an answer is valid only for the permit that it names.
    fn is_approval(&self) -> bool {
        match self {
            Self::Answer(answer, _) => is_approval(answer),
            Self::Withdrawn(_) => false,
        }
    }
}

fn is_approval(answer: &OperatorAnswer) -> bool {
    match answer {
        OperatorAnswer::Once | OperatorAnswer::Similar { .. } => true,
        OperatorAnswer::Smaller { .. } | OperatorAnswer::Refuse { .. } | OperatorAnswer::RefuseAndStop { .. } => false,
    }
}

impl std::fmt::Debug for ApprovalQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalQueue").field("timeout", &self.inner.timeout).finish_non_exhaustive()
    }
}

impl ApprovalQueue {
    /// Creates an approval queue whose requests lapse after `timeout`.
    pub fn new(clock: Arc<dyn Clock>, fabric: Fabric, timeout: Duration) -> Self {
        Self::made(clock, fabric, timeout, None)
    }

    /// Creates an approval queue that records each request and its outcome in the audit log. An approval that cannot be
    /// recorded is invalid.
    pub fn recording(clock: Arc<dyn Clock>, fabric: Fabric, timeout: Duration, audit_log: AuditLog) -> Self {
        Self::made(clock, fabric, timeout, Some(audit_log))
    }

    fn made(clock: Arc<dyn Clock>, fabric: Fabric, timeout: Duration, audit_log: Option<AuditLog>) -> Self {
        let (state, remote) = (Mutex::default(), OnceLock::new());
        let changed = watch::Sender::new(0);
        let needs_proof = AtomicBool::new(false);
        Self { inner: Arc::new(Inner { clock, fabric, timeout, state, changed, audit_log, remote, needs_proof }) }
    }

    /// Sets the source of answers that other processes on the same ledger received. Only the first call has an effect.
    pub fn listen(&self, remote: Arc<dyn RemoteAnswers>) {
        let _said_before = self.inner.remote.set(remote);
    }

    /// Requires a proof of the operator for every later approval, since an agent that asks here may reach the
    /// operator's keyboard. This cannot be undone.
    pub fn require_proof(&self) {
        self.inner.needs_proof.store(true, Ordering::SeqCst);
    }

    /// Returns whether an approval needs a proof of the operator.
    pub fn needs_proof(&self) -> bool {
        self.inner.needs_proof.load(Ordering::SeqCst)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }

    fn notify_watchers(&self) {
        self.inner.changed.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// Returns a version number that changes whenever the set of open requests changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Returns all open requests that have no answer yet, the oldest first. An answered one stays open for the moment in
    /// which its requester takes the answer; shown as waiting, it would invite a second answer that counts for nothing.
    pub fn pending(&self) -> Vec<ApprovalRequest> {
        let state = self.state();
        let waiting = || state.open.iter().filter(|open| !open.answered);
        let of = waiting().count();
        let request = |(index, open): (usize, &OpenRequest)| ApprovalRequest {
            preview: Arc::clone(&open.preview),
            asked_by: open.asked_by.clone(),
            requirement: requirement(&open.preview),
            reasons: open.reasons.clone(),
            changed: open.changed.clone(),
            revision: open.revision,
            passes_by_itself: open.passes_by_itself,
            second: open.second.clone(),
            asked_at: open.asked_at,
            ends_at: open.ends_at,
            place: index + 1,
            of,
        };
        waiting().enumerate().map(request).collect()
    }

    /// Returns true if an open request is about replacing the account's transaction with this nonce. One of an agent's
    /// counts only for [`AGENT_HOLDS`]: the nonce would hold up the operator's later transactions for as long as the agent
    /// wants to be asked.
    pub(crate) fn asks_to_replace(&self, chain_id: u64, account: Address, nonce: u64) -> bool {
        let now = self.inner.clock.now_millis();
        self.state().open.iter().any(|open| {
            let proposal = open.preview.payload.proposal();
            let replaces = proposal.replaces.as_ref().is_some_and(|replaced| replaced.nonce == nonce);
            let counts = open.asked_by.is_operator() || now.saturating_sub(open.asked_at) < AGENT_HOLDS;
            replaces && counts && (proposal.chain_id, proposal.account) == (chain_id, account)
        })
    }

    /// Returns the preview of the open request that has this permit now or had it before a renewal.
    pub fn asked(&self, permit_id: PermitId) -> Option<Arc<Preview>> {
        let state = self.state();
        let mut open = state.open.iter();
        let found = open.find(|open| open.preview.permit.permit_id == permit_id || open.earlier.contains(&permit_id));
        found.map(|open| Arc::clone(&open.preview))
    }

    /// Returns the valid standing approvals, each with its remaining time.
    pub fn grants(&self) -> Vec<(ApprovalGrant, Duration)> {
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
        let live = state.grants.iter().filter(|grant| grant.stands(now));
        live.map(|grant| (grant.clone(), grant.lasts(now))).collect()
    }

    /// Revokes one standing approval. Returns false if none has this number.
    pub fn revoke_grant(&self, number: u64) -> bool {
        let mut state = self.state();
        let before = state.grants.len();
        state.grants.retain(|grant| grant.number() != number);
        state.grants.len() < before
    }

    /// Revokes all standing approvals, as after a halt or a change of policy or phase.
    pub fn drop_grants(&self) {
        self.state().drop_grants();
    }

    /// Drops the expired standing approvals and those given under another policy or in another phase.
    pub fn keep_grants_of(&self, policy: B256, phase: Phase) {
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
        state.grants.retain(|grant| grant.is_in_force(now, policy, phase));
        state.unrecorded.retain(|grant| grant.is_in_force(now, policy, phase));
    }

    /// Returns the reason for which no standing approval can cover the action; `None` if one can.
    pub fn why_no_grant(preview: &Preview) -> Option<&'static str> {
        never_granted(preview)
    }

    /// Returns an approval from a standing approval that covers the action, if one exists, and deducts the action's
    /// spending.
    pub fn granted(&self, preview: &Preview) -> Option<ActionApproval> {
        if never_granted(preview).is_some() {
            return None;
        }
        let scope = GrantScope::of(preview);
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
        let covers = state.grants.iter_mut().find_map(|grant| {
            let taken = grant.take(&scope, preview.values.spent, now);
            taken.then(|| grant.number())
        });
        let permit_id = preview.permit.permit_id;
        let number = covers?;
        state.charge(permit_id, number, preview.values.spent);
        Some(ActionApproval {
            permit_id,
            source: ApprovalSource::Grant,
            grant: Some(number),
            earlier: Vec::new(),
            second: None,
        })
    }

    /// Ends what the action of a permit took from a standing approval: it stays taken, or is given back once if the action
    /// was `undone`, with nothing signed.
    pub(crate) fn settle_charge(&self, permit_id: PermitId, undone: bool) {
        let mut state = self.state();
        let Some((_, number, spent)) = state.uncharge(permit_id).filter(|_| undone) else { return };
        let State { grants, unrecorded, .. } = &mut *state;
        if let Some(grant) = grants.iter_mut().chain(unrecorded).find(|grant| grant.number() == number) {
            grant.give_back(spent);
        }
    }

    /// Returns whether the approval is still valid. The standing approval may have been revoked since, and the operator
    /// may have rejected the action just after its request was closed.
    pub(crate) fn stands(&self, yes: &ActionApproval) -> bool {
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
        let granted = |number| state.grants.iter().any(|grant| grant.number() == number && grant.stands(now));
        yes.grant.is_none_or(granted) && !yes.permit_ids().any(|permit| state.late.contains(&permit))
    }

    /// Closes a request for the other processes, in the transaction that consumes its permit: a later answer there
    /// finds it closed. Returns the rejection that another process recorded before, if any.
    ///
    /// # Errors
    /// The database's failure.
    pub(crate) fn close(
        &self,
        transaction: &Transaction<'_>,
        yes: &ActionApproval,
    ) -> Result<Option<SafeText>, StoreError> {
        let Some(remote) = self.inner.remote.get() else { return Ok(None) };
        for permit_id in yes.permit_ids() {
            if let Some(source) = remote.close(transaction, permit_id)? {
                return Ok(Some(source));
            }
        }
        Ok(None)
    }

    /// Checks the limits on requests.
    fn may_ask(&self, preview: &Preview, asked_by: &AskedBy) -> Result<(), AskRefused> {
        let now = self.inner.clock.steady_millis();
        let mut state = self.state();
        let golem_id = &preview.payload.proposal().golem_id;
        let of_agent =
            |open: &&OpenRequest| !open.asked_by.is_operator() && open.preview.payload.proposal().golem_id == *golem_id;
        let open = state.open.iter().filter(of_agent).count();
        state.limits.may_ask(preview, asked_by, open, now)
    }

    /// Queues an approval request of an agent. An action with [`ApprovalNeed::Delay`] proceeds when its delay is over;
    /// every other request lapses. If a limit prevents the request, it is not queued and [`PendingApproval::decision`]
    /// returns [`Decision::NotAsked`](super::Decision::NotAsked).
    pub fn ask(&self, preview: Arc<Preview>) -> PendingApproval {
        self.ask_for(preview, AskedBy::default())
    }

    /// Queues an approval request like [`Self::ask`], with a known requester.
    pub fn ask_for(&self, preview: Arc<Preview>, asked_by: AskedBy) -> PendingApproval {
        let (passes_by_itself, wait, reasons) = match &preview.needs {
            ApprovalNeed::Delay { millis } => (true, Duration::from_millis(*millis), asked_because(&preview.needs)),
            ApprovalNeed::Approval { .. } => (false, self.inner.timeout, asked_because(&preview.needs)),
            ApprovalNeed::Instant | ApprovalNeed::Notify => (false, self.inner.timeout, Vec::new()),
        };
        let reasons = asked_by.reasons(reasons);
        let refused = self.may_ask(&preview, &asked_by).err();
        let asked_at = self.inner.clock.now_millis();
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let ends_at = asked_at.saturating_add(millis);
        let (sender, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            let open = OpenRequest {
                number,
                preview: Arc::clone(&preview),
                asked_by: asked_by.clone(),
                earlier: Vec::new(),
                reasons: reasons.clone(),
                changed: Vec::new(),
                revision: 0,
                passes_by_itself,
                asked_at,
                ends_at,
                answer: Some(sender),
                answered: false,
                signable: vec![Arc::clone(&preview)],
                second: None,
            };
            if refused.is_none() {
                state.open.push(open);
            }
            number
        };
        if refused.is_none() {
            self.announce(&preview, reasons, (ends_at, passes_by_itself), None);
        }
        PendingApproval {
            queue: self.clone(),
            number,
            asked_by,
            shown: vec![Arc::clone(&preview)],
            better: Vec::new(),
            preview,
            answered,
            ends: Instant::now() + wait,
            ends_at,
            ends_steady: self.inner.clock.steady_millis().saturating_add(millis),
            wait,
            passes_by_itself,
            begins_anew: false,
            over: refused.is_some(),
            refused,
            recorded: false,
            similar: None,
            earlier: Vec::new(),
            remote_answer: None,
        }
    }

    /// Creates a request that is not queued, for a manual action: the operator answers it together with the command.
    pub fn by_hand(preview: Arc<Preview>) -> ApprovalRequest {
        ApprovalRequest {
            requirement: requirement(&preview),
            asked_by: AskedBy::Operator,
            reasons: asked_because(&preview.needs),
            changed: Vec::new(),
            revision: 0,
            passes_by_itself: false,
            second: None,
            asked_at: preview.permit.issued_at,
            ends_at: preview.permit.expires_at,
            place: 0,
            of: 0,
            preview,
        }
    }

    /// Requests and approves an action of the operator, who has viewed its preview. The approval needs the same
    /// confirmation and proof as one of a queued request. The request and the approval are recorded alike.
    ///
    /// # Errors
    /// Returns an [`AnswerError`] if the approval is not accepted; then nothing is requested.
    pub fn ask_approved(
        &self,
        preview: Arc<Preview>,
        confirmation: &Confirmation,
        proof: Option<OperatorProof>,
    ) -> Result<PendingApproval, AnswerError> {
        let permit_id = preview.permit.permit_id;
        if self.needs_proof() {
            let wanted = Authorisation::Approve { permit_id, account: preview.payload.account() };
            proof.ok_or(ProofError::NoPassword)?.redeem(&wanted, self.inner.clock.now_millis())?;
        }
        let now = self.state().moment(&*self.inner.clock);
        if preview.permit.expired(now.wall, now.steady) {
            return Err(AnswerError::Expired);
        }
        if let Some(second) = &preview.second {
            // The request must be open while the second operator decides.
            return Err(second.missing().into());
        }
        requirement(&preview).check(confirmation)?;
        Ok(self.ask_answered(preview, OperatorAnswer::Once))
    }

    /// Requests and rejects an action of the operator, who has viewed its preview. The request and the rejection are
    /// recorded like those of a queued request. With `halt`, the decision also stops trading.
    pub fn ask_rejected(&self, preview: Arc<Preview>, reason: SafeText, halt: bool) -> PendingApproval {
        let answer = match halt {
            true => OperatorAnswer::RefuseAndStop { reason },
            false => OperatorAnswer::Refuse { reason },
        };
        self.ask_answered(preview, answer)
    }

    /// Announces a request that has its answer already.
    fn ask_answered(&self, preview: Arc<Preview>, answer: OperatorAnswer) -> PendingApproval {
        let (ends_at, reasons) = (preview.permit.expires_at, asked_because(&preview.needs));
        let wait = preview.permit.expires.saturating_duration_since(Instant::now());
        let millis = ends_at.saturating_sub(self.inner.clock.now_millis());
        let number = {
            let mut state = self.state();
            state.next += 1;
            state.next
        };
        self.announce(&preview, reasons, (ends_at, false), None);
        PendingApproval {
            queue: self.clone(),
            number,
            asked_by: AskedBy::Operator,
            shown: vec![Arc::clone(&preview)],
            better: Vec::new(),
            preview,
            answered: oneshot::channel().1,
            ends: Instant::now() + wait,
            ends_at,
            ends_steady: self.inner.clock.steady_millis().saturating_add(millis),
            wait,
            passes_by_itself: false,
            begins_anew: false,
            over: false,
            refused: None,
            recorded: false,
            similar: None,
            earlier: Vec::new(),
            remote_answer: Some(QueueResult::Answer(answer, None)),
        }
    }

    fn announce(
        &self,
        preview: &Preview,
        reasons: Vec<AskReason>,
        (ends_at, passes_by_itself): (u64, bool),
        renewal: Option<RequestRenewal>,
    ) {
        let proposal = preview.payload.proposal();
        let requested = ApprovalRequested {
            permit_id: preview.permit.permit_id,
            title: proposal.expected_outcome.clone(),
            reasons,
            lapses_at: ends_at,
            passes_by_itself,
            renewal,
        };
        let kind = EventKind::ApprovalRequested(requested);
        self.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
        self.notify_watchers();
    }

    /// Answers the open request that has `permit_id`. An approval must satisfy the request's [`ApprovalRequirement`],
    /// whatever its source. A rejection, or an edit, is also accepted for an earlier permit of the same request: it
    /// does not depend on the figures that were shown.
    ///
    /// # Errors
    /// Returns an [`AnswerError`] if the answer is not accepted; then the request stays open. A rejection of a closed
    /// request still prevents a signature that has not been made yet.
    pub fn answer(&self, permit_id: PermitId, reply: impl Into<OperatorReply>) -> Result<(), AnswerError> {
        self.answer_proved(permit_id, reply, None)
    }

    /// Answers like [`Self::answer`], with a proof that the operator gave the answer. A rejection needs none.
    ///
    /// # Errors
    /// Returns the errors of [`Self::answer`], and [`AnswerError::Unproved`] if the proof is missing or invalid.
    pub fn answer_proved(
        &self,
        permit_id: PermitId,
        reply: impl Into<OperatorReply>,
        proof: Option<OperatorProof>,
    ) -> Result<(), AnswerError> {
        let reply = reply.into();
        let yes = is_approval(&reply.answer);
        if yes && self.needs_proof() {
            let account = self.asked(permit_id).ok_or(AnswerError::NotAsked)?.payload.account();
            let wanted = Authorisation::Approve { permit_id, account };
            proof.ok_or(ProofError::NoPassword)?.redeem(&wanted, self.inner.clock.now_millis())?;
        }
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
        let answered = state.answer(permit_id, reply, now);
        if !yes && answered == Err(AnswerError::NotAsked) {
            state.late.push_back(permit_id);
            if state.late.len() > MAX_LATE {
                state.late.pop_front();
            }
        }
        answered
    }

    /// Takes the second operator's approval of the open request that has `permit_id`, now or before a renewal that found
    /// nothing worse. The signature alone decides, through any console. Returns the approver.
    ///
    /// # Errors
    /// [`SecondError`] if it does not count, or cannot be recorded.
    pub async fn approve_second(
        &self,
        permit_id: PermitId,
        signature: SecondSignature,
    ) -> Result<Address, SecondError> {
        let (number, given) = {
            let mut state = self.state();
            let now = state.moment(&*self.inner.clock);
            let open = state.open.iter().filter(|open| !open.answered);
            let mut signable = open.flat_map(|open| open.signable.iter().map(move |preview| (open, preview)));
            let found = signable.find(|(_, preview)| preview.permit.permit_id == permit_id);
            let (open, preview) = found.ok_or(SecondError::Over)?;
            if let Some(given) = &open.second {
                return Err(SecondError::Given(given.by()));
            }
            (open.number, GivenApproval::new(Arc::clone(preview), open.ends_at, signature, now.wall)?)
        };
        if let Some(audit_log) = &self.inner.audit_log {
            let recorded = audit_log.record(pending::second_note(&given)).await;
            recorded.map_err(|error| SecondError::Unrecorded(error.to_string()))?;
        }
        let by = given.by();
        let mut state = self.state();
        let still = |open: &&mut OpenRequest| {
            let signable = || open.signable.iter().any(|one| one.permit.permit_id == given.permit_id());
            open.number == number && !open.answered && signable()
        };
        let open = state.open.iter_mut().find(still).ok_or(SecondError::Over)?;
        if let Some(other) = &open.second {
            return Err(SecondError::Given(other.by()));
        }
        open.second = Some(given);
        drop(state);
        self.notify_watchers();
        Ok(by)
    }

    /// Withdraws every open request and revokes every standing approval, as at a halt.
    pub fn withdraw_all(&self, reason: &str) {
        self.withdraw(reason, |_| true);
    }

    /// Withdraws the open requests that a stop at `level` does not let through, and revokes every standing approval.
    pub fn withdraw_blocked(&self, level: StopLevel, reason: &str) {
        self.withdraw(reason, |preview| is_blocked(preview, level));
    }

    fn withdraw(&self, reason: &str, concerns: impl Fn(&Preview) -> bool) {
        let reason = SafeText::clean(reason, MAX_REASON);
        let mut state = self.state();
        state.drop_grants();
        let open = state.open.iter_mut().filter(|open| concerns(&open.preview));
        // Send before the lock is released: a request without its sender counts as answered.
        for sender in open.filter_map(|open| open.answer.take()) {
            // The requester may have dropped its ticket.
            let _gone = sender.send(QueueResult::Withdrawn(reason.clone()));
        }
    }

    fn remove(&self, number: u64) {
        self.state().open.retain(|open| open.number != number);
        self.notify_watchers();
    }
}

/// Returns true if a stop at `level` does not let the simulated action through.
pub fn is_blocked(preview: &Preview, level: StopLevel) -> bool {
    let (simulated, proposal) = (&preview.simulated, preview.payload.proposal());
    let category = if only_unwraps(proposal, Some(simulated)) {
        StopCategory::Exit
    } else {
        let takes_back = simulated.only_revokes || vault_management::only_pauses(proposal, Some(simulated));
        stop::passage(takes_back, simulated.reduce_only, simulated.class)
    };
    // No stop lets an agent's order through.
    let agents_order = proposal.order.is_some() && proposal.golem_id != GolemId::operator();
    agents_order || !stop::lets_through(Some(level), category)
}

impl OpenRequest {
    /// Checks that the second approval that the action needs was given, and still counts.
    fn check_second(&self, now: u64) -> Result<(), SecondError> {
        let Some(requirement) = &self.preview.second else { return Ok(()) };
        let given = self.second.as_ref().ok_or_else(|| requirement.missing())?;
        given.verify(&self.preview, requirement, now)
    }

    /// Keeps the second approval of an earlier preview only if nothing in the current one is worse.
    fn renew_second(&mut self, is_worse: bool) {
        if is_worse {
            self.signable.clear();
        }
        self.signable.push(Arc::clone(&self.preview));
        let (preview, given) = (&self.preview, self.second.take());
        self.second = given.filter(|given| {
            let asked = preview.second.as_ref();
            !is_worse && asked.is_some_and(|asked| given.verify(preview, asked, given.at()).is_ok())
        });
    }
}

impl State {
    /// Returns the current time and keeps the highest wall clock reading. If the wall clock steps back by more than
    /// [`MAX_CORRECTION`], the elapsed time is unknown, so every standing approval ends.
    fn moment(&mut self, clock: &dyn Clock) -> GrantTime {
        let now = GrantTime::now(clock);
        if now.wall.saturating_add(MAX_CORRECTION) < self.latest {
            self.drop_grants();
            self.latest = now.wall;
        }
        self.latest = self.latest.max(now.wall);
        GrantTime { wall: self.latest, ..now }
    }

    fn answer(&mut self, permit_id: PermitId, reply: OperatorReply, now: GrantTime) -> Result<(), AnswerError> {
        let OperatorReply { answer, confirmation } = reply;
        let yes = is_approval(&answer);
        let asks = |open: &OpenRequest| {
            open.preview.permit.permit_id == permit_id || (!yes && open.earlier.contains(&permit_id))
        };
        let open = self.open.iter_mut().find(|open| asks(open)).ok_or(AnswerError::NotAsked)?;
        if yes && open.preview.permit.expired(now.wall, now.steady) {
            return Err(AnswerError::Expired);
        }
        if yes {
            requirement(&open.preview).check(&confirmation)?;
            open.check_second(now.wall)?;
        }
        let (mut grant, mut charge) = (None, None);
        if let OperatorAnswer::Similar { millis, total } = &answer {
            if let Some(why) = never_granted(&open.preview) {
                return Err(AnswerError::NoGrant(why));
            }
            let spent = open.preview.values.spent;
            let left = total.checked_sub(spent).map_err(|_| AnswerError::TotalTooSmall { total: *total, spent })?;
            self.next += 1;
            grant = Some(ApprovalGrant::new(self.next, &open.preview, (*total, left), *millis, now));
            charge = Some((open.preview.permit.permit_id, self.next, spent));
        }
        let sender = open.answer.take().ok_or(AnswerError::NotAsked)?;
        open.answered = true;
        // If the requester is gone, nobody acts on the answer, so no standing approval may remain.
        let number = grant.as_ref().map(ApprovalGrant::number);
        sender.send(QueueResult::Answer(answer, number)).map_err(|_| AnswerError::NotAsked)?;
        self.unrecorded.extend(grant);
        if let Some((permit_id, number, spent)) = charge {
            self.charge(permit_id, number, spent);
        }
        Ok(())
    }

    /// Remembers what the action of a permit took from a standing approval.
    fn charge(&mut self, permit_id: PermitId, number: u64, spent: Usd) {
        if self.charges.len() >= MAX_CHARGES {
            self.charges.pop_front();
        }
        self.charges.push_back((permit_id, number, spent));
    }

    fn uncharge(&mut self, permit_id: PermitId) -> Option<(PermitId, u64, Usd)> {
        let found = self.charges.iter().position(|(charged, ..)| *charged == permit_id)?;
        self.charges.remove(found)
    }

    fn drop_grants(&mut self) {
        self.grants.clear();
        self.unrecorded.clear();
    }

    /// Activates the standing approval `number` if `stands`; otherwise drops it.
    fn settle_grant(&mut self, number: u64, stands: bool) {
        let found = self.unrecorded.iter().position(|grant| grant.number() == number);
        // It is missing if it was revoked before the approval was recorded.
        let Some(grant) = found.map(|at| self.unrecorded.swap_remove(at)) else { return };
        if stands {
            self.grants.push(grant);
        }
    }
}
