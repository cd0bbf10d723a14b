//! One approval request from the requester's side: waiting for the outcome and recording it in the audit log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::{ApprovalQueue, MAX_REASON, QueueResult};
use crate::approval::worsening::{Worsening, worsenings};
use crate::approval::{
    ActionApproval, ApprovalNeed, ApprovalReason, ApprovalSource, AskRefused, AskedBy, Decision, OperatorAnswer,
    requirement,
};
use crate::audit::{AuditError, AuditKind, AuditNote};
use crate::pipeline::Preview;
use crate::second_approval::GivenApproval;
use bardo_base::clock::Clock;
use bardo_base::fabric::{ApprovalOutcome, ApprovalResolved, AskReason, EventKind, RequestRenewal};
use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Waits until the wall clock reaches `moment`, in milliseconds since the Unix epoch.
async fn reaches(clock: &dyn Clock, moment: u64) {
    while let Some(left) = moment.checked_sub(clock.now_millis()).filter(|left| *left > 0) {
        clock.pause(Duration::from_millis(left)).await;
    }
}

/// Limit of the pause between two reads of both clocks, so that a clock set forward and back again delays little.
const MAX_CLOCK_PAUSE: Duration = Duration::from_secs(1);

/// Waits until the wall clock reaches `moment` and the monotonic clock reaches `steady`. Setting the wall clock forward
/// must not shorten the time in which the operator can object.
async fn reaches_both(clock: &dyn Clock, moment: u64, steady: u64) {
    loop {
        let left = moment.saturating_sub(clock.now_millis()).max(steady.saturating_sub(clock.steady_millis()));
        if left == 0 {
            return;
        }
        clock.pause(Duration::from_millis(left).min(MAX_CLOCK_PAUSE)).await;
    }
}

/// Number of shown previews of one request that are compared with the next one.
const MOST_SHOWN: usize = 64;

/// One open approval request. Dropping the ticket withdraws the request.
#[must_use = "dropping a pending approval withdraws the request"]
pub struct PendingApproval {
    pub(super) queue: ApprovalQueue,
    pub(super) number: u64,
    pub(super) asked_by: AskedBy,
    pub(super) preview: Arc<Preview>,
    /// Previews shown since the last change for the worse. The operator may have read any of them.
    pub(super) shown: Vec<Arc<Preview>>,
    /// Previews shown before the first change for the worse that still applies; empty while none does.
    pub(super) better: Vec<Arc<Preview>>,
    pub(super) answered: oneshot::Receiver<QueueResult>,
    pub(super) ends: Instant,
    /// The end by the wall clock, in milliseconds since the Unix epoch.
    pub(super) ends_at: u64,
    /// The end by the monotonic clock of [`Clock`], in milliseconds.
    pub(super) ends_steady: u64,
    /// Length of the whole wait.
    pub(super) wait: Duration,
    pub(super) passes_by_itself: bool,
    /// True if the wait ended when the permit had expired as well. Then the wait starts again with the next permit.
    pub(super) begins_anew: bool,
    pub(super) over: bool,
    /// Limit that kept the request from being queued; `None` for a queued request.
    pub(super) refused: Option<AskRefused>,
    /// True once recording the request in the audit log was attempted.
    pub(super) recorded: bool,
    /// Standing approval of the answer: lifetime in milliseconds, total, and number.
    pub(super) similar: Option<(u64, Usd, Option<u64>)>,
    /// Expired permits under which the same action was requested before.
    pub(super) earlier: Vec<PermitId>,
    /// Answer that arrived during another simulation.
    pub(super) remote_answer: Option<QueueResult>,
}

impl PendingApproval {
    /// Waits for the outcome. After [`Decision::PermitExpired`] the request is still open: call [`Self::replace`] and
    /// wait again. Every other decision closes it.
    pub async fn decision(&mut self) -> Decision {
        self.decision_until(std::future::pending()).await
    }

    /// As [`Self::decision`]. Returns [`Decision::PermitExpired`] also if `outdated` ends first, so that the action is
    /// previewed again before its permit is over.
    pub async fn decision_until(&mut self, outdated: impl Future<Output = ()>) -> Decision {
        if let Some(refused) = &self.refused {
            return Decision::NotAsked(refused.clone());
        }
        if !self.recorded {
            self.recorded = true;
            if let Err(error) = self.record(self.question()).await {
                let decision = unrecorded(&error);
                self.finish(ApprovalOutcome::Withdrawn, Some(&decision));
                return decision;
            }
        }
        let expires = self.preview.permit.expires;
        let expires_at = self.preview.permit.expires_at;
        if let Some(remote_answer) = self.remote_answer.take() {
            let decision = self.taken(Some(remote_answer));
            return self.conclude(decision).await;
        }
        let (clock, passes) = (Arc::clone(&self.queue.inner.clock), self.passes_by_itself);
        let decision = tokio::select! {
            biased;
            answered = &mut self.answered => self.taken(answered.ok()),
            // An action that proceeds without an answer must wait for both clocks. A request that lapses ends with
            // either clock.
            () = reaches_both(&*clock, self.ends_at, self.ends_steady), if passes => self.timed_out(),
            () = reaches(&*clock, self.ends_at.min(expires_at)), if !passes => match self.ends_at <= expires_at {
                true => self.timed_out(),
                false => return Decision::PermitExpired,
            },
            () = sleep_until(self.ends), if !passes => self.timed_out(),
            () = reaches(&*clock, expires_at), if passes && expires_at < self.ends_at => return Decision::PermitExpired,
            () = sleep_until(expires), if expires < self.ends => return Decision::PermitExpired,
            () = outdated => return Decision::PermitExpired,
        };
        self.conclude(decision).await
    }

    /// Returns a rejection, edit or withdrawal that arrived since the permit expired, for a caller that cannot renew
    /// the request. Such an answer closes the request; otherwise returns `None`.
    pub async fn refused_meanwhile(&mut self) -> Option<Decision> {
        let source = self.receive_answer().filter(|source| !source.is_approval())?;
        let decision = self.taken(Some(source));
        Some(self.conclude(decision).await)
    }

    /// Withdraws a request whose action can no longer be done, with the reason in the audit log and in the event.
    pub async fn withdraw(&mut self, reason: &str) {
        let reason = SafeText::clean(reason, MAX_REASON);
        let _withdrawn = self.conclude(Decision::Withdrawn { reason }).await;
    }

    /// Records a decision in the audit log, then closes the request.
    async fn conclude(&mut self, decision: Decision) -> Decision {
        let Some(outcome) = self.outcome(&decision) else { return decision };
        // The record must be on disk before anyone acts on the decision.
        let recorded = self.record(self.answer(outcome, &decision)).await;
        let (outcome, decision) = match recorded {
            Ok(()) => (outcome, decision),
            Err(error) => (ApprovalOutcome::Withdrawn, unrecorded(&error)),
        };
        if let (Decision::Approved(_), Some((_, _, Some(number)))) = (&decision, self.similar) {
            self.queue.state().settle_grant(number, true);
        }
        self.finish(outcome, Some(&decision));
        decision
    }

    /// Returns the answer that arrived, if any, and accepts no later answer for this permit.
    fn receive_answer(&mut self) -> Option<QueueResult> {
        if let Some(remote_answer) = self.remote_answer.take() {
            return Some(remote_answer);
        }
        let mut state = self.queue.state();
        if let Some(open) = state.open.iter_mut().find(|open| open.number == self.number) {
            open.answer = None;
        }
        // Answers are sent under the lock that is held here.
        self.answered.try_recv().ok()
    }

    /// Outcome of the request; `None` if the decision does not close it.
    fn outcome(&self, decision: &Decision) -> Option<ApprovalOutcome> {
        Some(match decision {
            Decision::Approved(_) if self.similar.is_some() => ApprovalOutcome::ApprovedSimilar,
            Decision::Approved(_) => ApprovalOutcome::Approved,
            Decision::Edit { .. } => ApprovalOutcome::Edited,
            Decision::Refused { .. } => ApprovalOutcome::Refused,
            Decision::RefusedAndHalted { .. } => ApprovalOutcome::RefusedAndHalted,
            Decision::Lapsed => ApprovalOutcome::Lapsed,
            Decision::Withdrawn { .. } => ApprovalOutcome::Withdrawn,
            Decision::PermitExpired | Decision::NotAsked(_) => return None,
        })
    }

    async fn record(&self, note: AuditNote) -> Result<(), AuditError> {
        match &self.queue.inner.audit_log {
            Some(audit_log) => audit_log.record(note).await,
            None => Ok(()),
        }
    }

    fn note(&self, kind: AuditKind, mut body: Value) -> AuditNote {
        // Paper trading shares the audit log: mark its approvals, which permit no signature.
        if let (true, Some(body)) = (self.preview.paper, body.as_object_mut()) {
            body.insert("paper".to_owned(), Value::Bool(true));
        }
        let proposal = self.preview.payload.proposal();
        AuditNote { kind, call_id: Some(proposal.call_id), golem_id: proposal.golem_id.clone(), body }
    }

    fn question(&self) -> AuditNote {
        let body = json!({
            "permit_id": self.preview.permit.permit_id, "asked": self.preview.payload.proposal().expected_outcome,
            "reasons": self.preview.needs.reasons(), "passes_by_itself": self.passes_by_itself,
        });
        self.note(AuditKind::ApprovalRequested, body)
    }

    fn answer(&self, outcome: ApprovalOutcome, decision: &Decision) -> AuditNote {
        let second = match decision {
            Decision::Approved(yes) => yes.second().map(GivenApproval::to_json),
            _ => None,
        };
        let (amount, source) = match decision {
            Decision::Edit { amount } => (Some(amount), None),
            Decision::Approved(yes) => (None, Some(yes.said().as_str())),
            Decision::Refused { .. }
            | Decision::RefusedAndHalted { .. }
            | Decision::Lapsed
            | Decision::Withdrawn { .. }
            | Decision::PermitExpired
            | Decision::NotAsked(_) => (None, None),
        };
        let body = json!({
            "permit_id": self.preview.permit.permit_id, "outcome": outcome, "by": source, "reason": decision.reason(),
            "second_approval": second, "amount": amount, "stands_for_ms": self.similar.map(|(millis, ..)| millis),
            "stands_up_to_usd": self.similar.map(|(_, total, _)| total),
        });
        self.note(AuditKind::ApprovalResolved, body)
    }

    fn taken(&mut self, answered: Option<QueueResult>) -> Decision {
        match answered {
            Some(QueueResult::Answer(OperatorAnswer::Similar { millis, total }, number)) => {
                self.similar = Some((millis, total, number));
                Decision::Approved(self.yes(ApprovalSource::Operator))
            }
            Some(QueueResult::Answer(OperatorAnswer::Once, _)) => {
                Decision::Approved(self.yes(ApprovalSource::Operator))
            }
            Some(QueueResult::Answer(OperatorAnswer::Smaller { amount }, _)) => Decision::Edit { amount },
            Some(QueueResult::Answer(OperatorAnswer::Refuse { reason }, _)) => Decision::Refused { reason },
            Some(QueueResult::Answer(OperatorAnswer::RefuseAndStop { reason }, _)) => {
                Decision::RefusedAndHalted { reason }
            }
            Some(QueueResult::Withdrawn(reason)) => Decision::Withdrawn { reason },
            None => Decision::Withdrawn { reason: SafeText::clean("the approval request was withdrawn", MAX_REASON) },
        }
    }

    fn yes(&self, source: ApprovalSource) -> ActionApproval {
        let second = self.second().map(Box::new);
        let (permit_id, earlier) = (self.preview.permit.permit_id, self.earlier.clone());
        ActionApproval { permit_id, source, grant: None, earlier, second }
    }

    /// Second approval of the request, if one was given.
    fn second(&self) -> Option<GivenApproval> {
        let state = self.queue.state();
        state.open.iter().find(|open| open.number == self.number).and_then(|open| open.second.clone())
    }

    fn timed_out(&mut self) -> Decision {
        let passes = self.passes_by_itself;
        let permit = &self.preview.permit;
        if passes && permit.expired(self.queue.inner.clock.now_millis(), Instant::now()) {
            self.begins_anew = true;
            return Decision::PermitExpired;
        }
        // An answer at the same moment takes precedence over the timeout.
        if let Some(source) = self.receive_answer() {
            return self.taken(Some(source));
        }
        if passes { Decision::Approved(self.yes(ApprovalSource::Waited)) } else { Decision::Lapsed }
    }

    /// Renews the request under a new permit and records what became worse. The end of the wait stays the same, except
    /// where the action passes by itself: if something became worse, or if the wait ended together with the old permit, it
    /// starts again, since the operator could not see the new preview.
    ///
    /// If a rejection arrived since the old permit expired, nothing is renewed and [`Self::decision`] returns the
    /// rejection. An approval of this action alone that arrived since then stands if nothing became worse, and
    /// [`Self::decision`] returns it for the new permit; any other approval is dropped, and the operator is asked again.
    pub fn replace(&mut self, preview: Arc<Preview>) {
        let given = match self.receive_answer() {
            Some(source) if !source.is_approval() => {
                self.remote_answer = Some(source);
                return;
            }
            given => given,
        };
        let shown_before = self.shown.clone();
        let worse = self.worse(&preview);
        let mut stands = given.as_ref().is_some_and(|given| self.still_applies(given, &preview, &worse));
        // A change for the worse is recovered when the preview is as good as each one shown before it. After several
        // steps down, matching an intermediate step is not enough.
        let is_as_good = |before: &Arc<Preview>| worsenings(before, &preview).is_empty();
        let recovered = !self.better.is_empty() && self.better.iter().all(is_as_good);
        if !worse.is_empty() {
            if self.better.is_empty() {
                self.better = shown_before;
            }
        } else if recovered {
            self.better.clear();
        }
        // What is still worse than the best that was shown, with the figures of this simulation.
        let still_worse = self.better.iter().rev().map(|better| worsenings(better, &preview));
        let still_worse = still_worse.into_iter().find(|worse| !worse.is_empty()).unwrap_or_default();
        let mut reasons = asked_because(&preview.needs);
        if reasons.is_empty() {
            // It neither goes ahead nor ends by itself: somebody reads it, and may be about to reject it.
            reasons.push(AskReason::NoneLeft);
        }
        let reasons = self.asked_by.reasons(reasons);
        // A delay that became an approval no longer proceeds without an answer.
        if matches!(preview.needs, ApprovalNeed::Approval { .. }) {
            self.passes_by_itself = false;
        }
        let (sender, answered) = oneshot::channel();
        self.answered = answered;
        self.earlier.push(self.preview.permit.permit_id);
        self.preview = Arc::clone(&preview);
        // The operator has had no second to see what became worse, and an agent can choose the moment of a renewal.
        if (std::mem::take(&mut self.begins_anew) || !worse.is_empty()) && self.passes_by_itself {
            self.begin_waiting();
        }
        let ends_at = self.ends_at;
        let now = self.queue.inner.clock.now_millis();
        {
            let mut state = self.queue.state();
            if let Some(open) = state.open.iter_mut().find(|open| open.number == self.number) {
                open.preview = Arc::clone(&preview);
                open.earlier.clone_from(&self.earlier);
                open.reasons = reasons.clone();
                if !worse.is_empty() {
                    open.changed = worse.iter().map(Worsening::describe).collect();
                    open.revision = open.revision.saturating_add(1);
                } else {
                    open.changed = still_worse.iter().map(Worsening::describe).collect();
                }
                open.passes_by_itself = self.passes_by_itself;
                open.ends_at = ends_at;
                open.renew_second(!worse.is_empty());
                stands = stands && open.check_second(now).is_ok();
                open.answered = stands;
                open.answer = (!stands).then_some(sender);
            }
        }
        match given {
            Some(given) if stands => self.remote_answer = Some(given),
            Some(given) => self.forget(&given),
            None => {}
        }
        let renewal = if worse.is_empty() { RequestRenewal::AsGood } else { RequestRenewal::Worse };
        self.queue.announce(&preview, reasons, (ends_at, self.passes_by_itself), Some(renewal));
    }

    /// Returns true if an approval of the current preview also covers the next one: nothing is worse, and the operator
    /// would have to read and type the same. A standing approval counts what its first action spends, so it covers none
    /// but the figures it was given for.
    fn still_applies(&self, given: &QueueResult, next: &Preview, worse: &[Worsening]) -> bool {
        matches!(given, QueueResult::Answer(OperatorAnswer::Once, _))
            && worse.is_empty()
            && worsenings(&self.preview, next).is_empty()
            && requirement(&self.preview) == requirement(next)
    }

    /// Returns what became worse since the last shown preview, or else since an earlier one. A change for the worse
    /// restarts the list of shown previews.
    fn worse(&mut self, preview: &Arc<Preview>) -> Vec<Worsening> {
        let mut worse = self.shown.iter().rev().map(|shown| worsenings(shown, preview));
        let worse = worse.find(|worse| !worse.is_empty()).unwrap_or_default();
        // Limits the cost of the comparison; the operator has to view the action again.
        let full = self.shown.len() >= MOST_SHOWN;
        if !worse.is_empty() || full {
            self.shown.clear();
        }
        self.shown.push(Arc::clone(preview));
        match worse.is_empty() && full {
            true => vec![Worsening::TooOften],
            false => worse,
        }
    }

    fn begin_waiting(&mut self) {
        let (clock, millis) = (&self.queue.inner.clock, u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX));
        self.ends = Instant::now() + self.wait;
        self.ends_at = clock.now_millis().saturating_add(millis);
        self.ends_steady = clock.steady_millis().saturating_add(millis);
    }

    /// Drops the standing approval of an answer that takes no effect.
    fn forget(&self, source: &QueueResult) {
        if let QueueResult::Answer(_, Some(number)) = source {
            self.queue.state().settle_grant(*number, false);
        }
    }

    /// Counts the outcome in the limits on the agent's requests. What the operator asked for says nothing about the agent.
    fn count(&self, outcome: ApprovalOutcome) {
        if self.asked_by.is_operator() {
            return;
        }
        let now = self.queue.inner.clock.steady_millis();
        let limits = &mut self.queue.state().limits;
        match outcome {
            ApprovalOutcome::Refused | ApprovalOutcome::RefusedAndHalted => limits.note_refused(&self.preview, now),
            ApprovalOutcome::Lapsed | ApprovalOutcome::Withdrawn => limits.note_unanswered(&self.preview, now),
            ApprovalOutcome::Approved | ApprovalOutcome::ApprovedSimilar => limits.note_approved(&self.preview),
            ApprovalOutcome::Edited => {}
        }
    }

    fn finish(&mut self, outcome: ApprovalOutcome, decision: Option<&Decision>) {
        self.over = true;
        self.count(outcome);
        if let Some((_, _, Some(number))) = self.similar {
            // Does nothing if the approval was recorded, since the standing approval is active then.
            self.queue.state().settle_grant(number, false);
        }
        self.queue.remove(self.number);
        let proposal = self.preview.payload.proposal();
        let amount = match decision {
            Some(Decision::Edit { amount }) => Some(SafeText::clean(amount, MAX_REASON)),
            Some(
                Decision::Approved(_)
                | Decision::Refused { .. }
                | Decision::RefusedAndHalted { .. }
                | Decision::Lapsed
                | Decision::Withdrawn { .. }
                | Decision::PermitExpired
                | Decision::NotAsked(_),
            )
            | None => None,
        };
        let reason = decision.and_then(Decision::reason).cloned();
        let resolved = ApprovalResolved { permit_id: self.preview.permit.permit_id, outcome, reason, amount };
        let kind = EventKind::ApprovalResolved(resolved);
        self.queue.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
    }
}

impl Drop for PendingApproval {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Some(source) = self.receive_answer() {
            self.forget(&source);
        }
        self.finish(ApprovalOutcome::Withdrawn, None);
        if let (true, Some(audit_log)) = (self.recorded, &self.queue.inner.audit_log) {
            let reason = SafeText::clean("its caller cancelled it or disconnected", MAX_REASON);
            audit_log.record_soon(self.answer(ApprovalOutcome::Withdrawn, &Decision::Withdrawn { reason }));
        }
    }
}

/// Entry of the audit log about a second approval.
pub(super) fn second_note(given: &GivenApproval) -> AuditNote {
    let proposal = given.preview().payload.proposal();
    let mut body = given.to_json();
    if let Some(body) = body.as_object_mut() {
        body.insert("asked".to_owned(), json!(proposal.expected_outcome));
        if given.preview().paper {
            body.insert("paper".to_owned(), Value::Bool(true));
        }
    }
    let (call_id, golem_id) = (Some(proposal.call_id), proposal.golem_id.clone());
    AuditNote { kind: AuditKind::ApprovalSeconded, call_id, golem_id, body }
}

/// Decision in place of one that could not be recorded, and is therefore invalid.
fn unrecorded(error: &AuditError) -> Decision {
    let reason = format!("it could not be recorded in the audit log: {error}");
    Decision::Withdrawn { reason: SafeText::clean(&reason, MAX_REASON) }
}

pub(super) fn asked_because(needs: &ApprovalNeed) -> Vec<AskReason> {
    match needs {
        ApprovalNeed::Delay { millis } => vec![AskReason::Delay { seconds: millis.div_ceil(1_000) }],
        ApprovalNeed::Instant | ApprovalNeed::Notify | ApprovalNeed::Approval { .. } => {
            needs.reasons().iter().map(ApprovalReason::to_ask_reason).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delayed_action_states_why_it_waits() {
        let told = |needs| asked_because(&needs).iter().map(ToString::to_string).collect::<Vec<_>>();
        let waits = told(ApprovalNeed::Delay { millis: 30_000 });
        assert_eq!(waits, ["it is large enough for a delay of 30 s in which you can reject it"]);
        assert!(told(ApprovalNeed::Instant).is_empty() && told(ApprovalNeed::Notify).is_empty());
    }
}
