//! Where questions lie until somebody answers, first come first served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use rusqlite::Transaction;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::elsewhere::Elsewhere;
use super::grant::{Grant, Scope, never_granted};
use super::{Answer, AnswerError, ApprovalNeed, ApprovalRequest, Decision, Reason, Said, Yes};
use crate::base::clock::Clock;
use crate::base::id::PermitId;
use crate::base::model::Phase;
use crate::base::text::SafeText;
use crate::base::units::{TokenAmount, Usd};
use crate::chain::token::Token;
use crate::fabric::{ApprovalOutcome, ApprovalRequested, ApprovalResolved, EventKind, Fabric};
use crate::safety::audit::{AuditError, Note, Trail};
use crate::safety::pipeline::Preview;
use crate::safety::proposal::Flow;
use crate::store::StoreError;

/// Characters kept of a reason.
const MAX_REASON: usize = 400;
/// So many permits are remembered that somebody said no to when their question was over already.
const MAX_LATE: usize = 64;

/// The desk of one program. Cheap to clone; clones are the same desk.
#[derive(Clone)]
pub struct ApprovalDesk {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    fabric: Fabric,
    timeout: Duration,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    trail: Option<Trail>,
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
}

#[derive(Default)]
struct State {
    open: Vec<Open>,
    grants: Vec<Grant>,
    /// Given with a yes that is not on record yet: these do not stand before it is.
    unrecorded: Vec<Grant>,
    /// Permits that somebody said no to when their question was over already.
    late: VecDeque<PermitId>,
    next: u64,
}

struct Open {
    number: u64,
    preview: Arc<Preview>,
    /// The permits under which the same was asked before.
    earlier: Vec<PermitId>,
    reasons: Vec<SafeText>,
    changed: Vec<SafeText>,
    passes_by_itself: bool,
    asked_at: u64,
    ends_at: u64,
    answer: Option<oneshot::Sender<Answered>>,
}

enum Answered {
    /// With the number of the standing approval that it gives, where it gives one.
    Answer(Answer, Option<u64>),
    Withdrawn(SafeText),
}

impl Answered {
    /// Whether it lets the action pass: then it is worth as much as the permit it was said to.
    fn says_yes(&self) -> bool {
        match self {
            Self::Answer(answer, _) => says_yes(answer),
            Self::Withdrawn(_) => false,
        }
    }
}

fn says_yes(answer: &Answer) -> bool {
    match answer {
        Answer::Once | Answer::Similar { .. } => true,
        Answer::Edit { .. } | Answer::Refuse { .. } | Answer::RefuseAndHalt { .. } => false,
    }
}

impl std::fmt::Debug for ApprovalDesk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalDesk").field("timeout", &self.inner.timeout).finish_non_exhaustive()
    }
}

impl ApprovalDesk {
    /// A desk whose questions lapse after `timeout`.
    pub fn new(clock: Arc<dyn Clock>, fabric: Fabric, timeout: Duration) -> Self {
        Self::made(clock, fabric, timeout, None)
    }

    /// The same, with every question and how it ended on the audit trail. A yes that cannot be recorded is none.
    pub fn recording(clock: Arc<dyn Clock>, fabric: Fabric, timeout: Duration, trail: Trail) -> Self {
        Self::made(clock, fabric, timeout, Some(trail))
    }

    fn made(clock: Arc<dyn Clock>, fabric: Fabric, timeout: Duration, trail: Option<Trail>) -> Self {
        let (state, elsewhere) = (Mutex::default(), OnceLock::new());
        let changed = watch::Sender::new(0);
        Self { inner: Arc::new(Inner { clock, fabric, timeout, state, changed, trail, elsewhere }) }
    }

    /// Counts from now on what is answered in other programs, before it has been heard here. Said once.
    pub fn listen(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _said_before = self.inner.elsewhere.set(elsewhere);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_watchers(&self) {
        self.inner.changed.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// A number that changes whenever the open questions do.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// All open questions, the oldest first.
    pub fn pending(&self) -> Vec<ApprovalRequest> {
        let state = self.state();
        let of = state.open.len();
        let request = |(index, open): (usize, &Open)| ApprovalRequest {
            preview: Arc::clone(&open.preview),
            reasons: open.reasons.clone(),
            changed: open.changed.clone(),
            passes_by_itself: open.passes_by_itself,
            asked_at: open.asked_at,
            ends_at: open.ends_at,
            place: index + 1,
            of,
        };
        state.open.iter().enumerate().map(request).collect()
    }

    /// The open question that waits for this permit, or did before it was asked anew.
    pub fn asked(&self, permit_id: PermitId) -> Option<Arc<Preview>> {
        let state = self.state();
        let mut open = state.open.iter();
        let found = open.find(|open| open.preview.permit.permit_id == permit_id || open.earlier.contains(&permit_id));
        found.map(|open| Arc::clone(&open.preview))
    }

    /// The standing approvals that still hold.
    pub fn grants(&self) -> Vec<Grant> {
        self.state().grants.clone()
    }

    /// Takes one standing approval back; false if there is none of that number.
    pub fn revoke_grant(&self, number: u64) -> bool {
        let mut state = self.state();
        let before = state.grants.len();
        state.grants.retain(|grant| grant.number() != number);
        state.grants.len() < before
    }

    /// Takes every standing approval back: after a halt, or a change of rules or phase.
    pub fn drop_grants(&self) {
        self.state().drop_grants();
    }

    /// Drops the standing approvals that were given under other rules or in another phase.
    pub fn keep_grants_of(&self, policy: B256, phase: Phase) {
        let now = Instant::now();
        let mut state = self.state();
        state.grants.retain(|grant| grant.lives(now, policy, phase));
        state.unrecorded.retain(|grant| grant.lives(now, policy, phase));
    }

    /// Why an action can never be covered by a standing approval; `None` if it can.
    pub fn why_no_grant(preview: &Preview) -> Option<&'static str> {
        never_granted(preview)
    }

    /// A yes by a standing approval that covers this action, if there is one.
    pub fn granted(&self, preview: &Preview) -> Option<Yes> {
        if never_granted(preview).is_some() {
            return None;
        }
        let scope = Scope::of(preview);
        let now = Instant::now();
        let mut state = self.state();
        let covers = state.grants.iter_mut().find_map(|grant| {
            let taken = grant.take(&scope, preview.values.spent, now);
            taken.then(|| grant.number())
        });
        let permit_id = preview.permit.permit_id;
        covers.map(|number| Yes { permit_id, said: Said::Grant, grant: Some(number), earlier: Vec::new() })
    }

    /// Whether what a yes rests on still stands: a standing approval may have been taken back since it said yes, and
    /// somebody may have said no when the question had just passed.
    pub(crate) fn stands(&self, yes: &Yes) -> bool {
        let now = Instant::now();
        let state = self.state();
        let granted = |number| state.grants.iter().any(|grant| grant.number() == number && grant.stands(now));
        yes.grant.is_none_or(granted) && !yes.asked_as().any(|permit| state.late.contains(&permit))
    }

    /// Ends a question for the other programs, in the transaction that uses its permit up: whoever answers later is told
    /// that it is over. What somebody there has said against it before is answered here.
    pub(crate) fn close(&self, transaction: &Transaction<'_>, yes: &Yes) -> Result<Option<SafeText>, StoreError> {
        let Some(elsewhere) = self.inner.elsewhere.get() else { return Ok(None) };
        for permit_id in yes.asked_as() {
            if let Some(said) = elsewhere.close(transaction, permit_id)? {
                return Ok(Some(said));
            }
        }
        Ok(None)
    }

    /// Lays a question on the desk. `Delay` passes by itself when its time is over, all else lapses.
    pub fn ask(&self, preview: Arc<Preview>) -> Ticket {
        let (passes_by_itself, wait, reasons) = match &preview.needs {
            ApprovalNeed::Delay { millis } => (true, Duration::from_millis(*millis), Vec::new()),
            ApprovalNeed::Approval { .. } => (false, self.inner.timeout, in_words(&preview.needs)),
            ApprovalNeed::Instant | ApprovalNeed::Notify => (false, self.inner.timeout, Vec::new()),
        };
        let asked_at = self.inner.clock.now_millis();
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let ends_at = asked_at.saturating_add(millis);
        let (sender, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            state.open.push(Open {
                number,
                preview: Arc::clone(&preview),
                earlier: Vec::new(),
                reasons: reasons.clone(),
                changed: Vec::new(),
                passes_by_itself,
                asked_at,
                ends_at,
                answer: Some(sender),
            });
            number
        };
        self.announce(&preview, reasons, ends_at);
        Ticket {
            desk: self.clone(),
            number,
            preview,
            answered,
            ends: Instant::now() + wait,
            ends_at,
            ends_steady: self.inner.clock.steady_millis().saturating_add(millis),
            wait,
            passes_by_itself,
            begins_anew: false,
            over: false,
            told: false,
            similar: None,
            earlier: Vec::new(),
            heard: None,
        }
    }

    fn announce(&self, preview: &Preview, reasons: Vec<SafeText>, ends_at: u64) {
        let proposal = preview.framed.proposal();
        let requested = ApprovalRequested {
            permit_id: preview.permit.permit_id,
            title: proposal.expected_outcome.clone(),
            reasons,
            lapses_at: ends_at,
        };
        let kind = EventKind::ApprovalRequested(requested);
        self.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
        self.tell_watchers();
    }

    /// Answers the question that waits for `permit_id`. A no also counts where the same is asked under another permit by
    /// now: what was shown with it makes no difference to it.
    ///
    /// # Errors
    /// [`AnswerError`]: the answer does not count, the question stays as it is. A no to what is over already still keeps
    /// it from being signed, if it has not been.
    pub fn answer(&self, permit_id: PermitId, answer: Answer) -> Result<(), AnswerError> {
        let mut state = self.state();
        let yes = says_yes(&answer);
        let answered = state.answer(permit_id, answer, self.inner.clock.now_millis());
        if !yes && answered == Err(AnswerError::NotAsked) {
            state.late.push_back(permit_id);
            if state.late.len() > MAX_LATE {
                state.late.pop_front();
            }
        }
        answered
    }

    /// Takes every open question back, as at a halt, and every standing approval.
    pub fn withdraw_all(&self, reason: &str) {
        let reason = SafeText::clean(reason, MAX_REASON);
        let mut state = self.state();
        state.drop_grants();
        // Said before the state is let go of: a question without its sender has been answered.
        for sender in state.open.iter_mut().filter_map(|open| open.answer.take()) {
            // Whoever asked may have gone meanwhile.
            let _gone = sender.send(Answered::Withdrawn(reason.clone()));
        }
    }

    fn remove(&self, number: u64) {
        self.state().open.retain(|open| open.number != number);
        self.tell_watchers();
    }
}

impl State {
    fn answer(&mut self, permit_id: PermitId, answer: Answer, now: u64) -> Result<(), AnswerError> {
        let yes = says_yes(&answer);
        let asks =
            |open: &Open| open.preview.permit.permit_id == permit_id || (!yes && open.earlier.contains(&permit_id));
        let open = self.open.iter_mut().find(|open| asks(open)).ok_or(AnswerError::NotAsked)?;
        if yes && open.preview.permit.expired(now, Instant::now()) {
            return Err(AnswerError::Expired);
        }
        let mut grant = None;
        if let Answer::Similar { millis, total } = &answer {
            if let Some(why) = never_granted(&open.preview) {
                return Err(AnswerError::NoGrant(why));
            }
            let spent = open.preview.values.spent;
            let left = total.checked_sub(spent).map_err(|_| AnswerError::TotalTooSmall { total: *total, spent })?;
            let lasts = Duration::from_millis(*millis);
            self.next += 1;
            grant = Some(Grant::new(self.next, &open.preview, left, lasts, Instant::now()));
        }
        let sender = open.answer.take().ok_or(AnswerError::NotAsked)?;
        // Whoever asked may have gone; then nobody acts on it, and no grant may stay behind.
        let number = grant.as_ref().map(Grant::number);
        sender.send(Answered::Answer(answer, number)).map_err(|_| AnswerError::NotAsked)?;
        self.unrecorded.extend(grant);
        Ok(())
    }

    fn drop_grants(&mut self) {
        self.grants.clear();
        self.unrecorded.clear();
    }

    /// Lets the standing approval of a yes stand, or forgets it.
    fn settle_grant(&mut self, number: u64, stands: bool) {
        let found = self.unrecorded.iter().position(|grant| grant.number() == number);
        // Taken back before it was on record, it is gone.
        let Some(grant) = found.map(|at| self.unrecorded.swap_remove(at)) else { return };
        if stands {
            self.grants.push(grant);
        }
    }
}

/// Waits until the clock shows `moment`, in milliseconds since the Unix epoch.
async fn reaches(clock: &dyn Clock, moment: u64) {
    while let Some(left) = moment.checked_sub(clock.now_millis()).filter(|left| *left > 0) {
        clock.pause(Duration::from_millis(left)).await;
    }
}

/// The longest pause between two looks at both clocks: one that was set forward and back again holds nothing up for long.
const LOOK_AT_CLOCKS: Duration = Duration::from_secs(1);

/// Waits until the clock shows `moment` and its steady scale `steady`. Setting a machine's clock forward makes nothing
/// pass that somebody was given the time to refuse.
async fn reaches_both(clock: &dyn Clock, moment: u64, steady: u64) {
    loop {
        let left = moment.saturating_sub(clock.now_millis()).max(steady.saturating_sub(clock.steady_millis()));
        if left == 0 {
            return;
        }
        clock.pause(Duration::from_millis(left).min(LOOK_AT_CLOCKS)).await;
    }
}

/// One open question, for whoever asked it. Dropped, the question is withdrawn.
#[must_use = "a ticket that is dropped withdraws its question"]
pub struct Ticket {
    desk: ApprovalDesk,
    number: u64,
    preview: Arc<Preview>,
    answered: oneshot::Receiver<Answered>,
    ends: Instant,
    /// The same by the clock, in milliseconds since the Unix epoch.
    ends_at: u64,
    /// The same by the clock's steady scale.
    ends_steady: u64,
    /// How long is waited in all.
    wait: Duration,
    passes_by_itself: bool,
    /// Whether the waiting was over when its permit was found to be as well: then it begins anew.
    begins_anew: bool,
    over: bool,
    /// Whether the question is on the trail.
    told: bool,
    /// For how long and up to how much the yes stands, where it does, and the number of what stands.
    similar: Option<(u64, Usd, Option<u64>)>,
    /// The permits under which the same was asked before.
    earlier: Vec<PermitId>,
    /// What was said while it was being simulated again.
    heard: Option<Answered>,
}

impl Ticket {
    /// Waits for what happens next. After [`Decision::PermitExpired`] the question is still open:
    /// [`Self::replace`] it and wait again. Any other decision ends it.
    pub async fn decision(&mut self) -> Decision {
        if !self.told {
            self.told = true;
            if let Err(error) = self.record(self.question()).await {
                let decision = unrecorded(&error);
                self.finish(ApprovalOutcome::Withdrawn, decision.reason().cloned());
                return decision;
            }
        }
        let expires = self.preview.permit.expires;
        let expires_at = self.preview.permit.expires_at;
        if let Some(heard) = self.heard.take() {
            let decision = self.taken(Some(heard));
            return self.conclude(decision).await;
        }
        let (clock, passes) = (Arc::clone(&self.desk.inner.clock), self.passes_by_itself);
        let decision = tokio::select! {
            biased;
            answered = &mut self.answered => self.taken(answered.ok()),
            // Where silence is a yes, both clocks must have come to the end; where it is none, one is enough.
            () = reaches_both(&*clock, self.ends_at, self.ends_steady), if passes => self.timed_out(),
            () = reaches(&*clock, self.ends_at.min(expires_at)), if !passes => match self.ends_at <= expires_at {
                true => self.timed_out(),
                false => return Decision::PermitExpired,
            },
            () = sleep_until(self.ends), if !passes => self.timed_out(),
            () = reaches(&*clock, expires_at), if passes && expires_at < self.ends_at => return Decision::PermitExpired,
            () = sleep_until(expires), if expires < self.ends => return Decision::PermitExpired,
        };
        self.conclude(decision).await
    }

    /// What was said against it since its permit ran out, for whoever cannot ask it anew. That ends the question.
    pub async fn refused_meanwhile(&mut self) -> Option<Decision> {
        let said = self.hear().filter(|said| !said.says_yes())?;
        let decision = self.taken(Some(said));
        Some(self.conclude(decision).await)
    }

    /// Puts a decision on record and ends the question with it.
    async fn conclude(&mut self, decision: Decision) -> Decision {
        let Some(outcome) = self.outcome(&decision) else { return decision };
        // On disk before anybody acts on it.
        let recorded = self.record(self.answer(outcome, &decision)).await;
        let (outcome, decision) = match recorded {
            Ok(()) => (outcome, decision),
            Err(error) => (ApprovalOutcome::Withdrawn, unrecorded(&error)),
        };
        if let (Decision::Approved(_), Some((_, _, Some(number)))) = (&decision, self.similar) {
            self.desk.state().settle_grant(number, true);
        }
        self.finish(outcome, decision.reason().cloned());
        decision
    }

    /// What has been said, if anything has; from then on nobody can say anything to this permit.
    fn hear(&mut self) -> Option<Answered> {
        if let Some(heard) = self.heard.take() {
            return Some(heard);
        }
        let mut state = self.desk.state();
        if let Some(open) = state.open.iter_mut().find(|open| open.number == self.number) {
            open.answer = None;
        }
        // Whatever was said was said under this lock.
        self.answered.try_recv().ok()
    }

    /// How the question ended; `None` where it goes on.
    fn outcome(&self, decision: &Decision) -> Option<ApprovalOutcome> {
        Some(match decision {
            Decision::Approved(_) if self.similar.is_some() => ApprovalOutcome::ApprovedSimilar,
            Decision::Approved(_) => ApprovalOutcome::Approved,
            Decision::Edit { .. } => ApprovalOutcome::Edited,
            Decision::Refused { .. } => ApprovalOutcome::Refused,
            Decision::RefusedAndHalted { .. } => ApprovalOutcome::RefusedAndHalted,
            Decision::Lapsed => ApprovalOutcome::Lapsed,
            Decision::Withdrawn { .. } => ApprovalOutcome::Withdrawn,
            Decision::PermitExpired => return None,
        })
    }

    async fn record(&self, note: Note) -> Result<(), AuditError> {
        match &self.desk.inner.trail {
            Some(trail) => trail.record(note).await,
            None => Ok(()),
        }
    }

    fn note(&self, kind: &'static str, body: Value) -> Note {
        let proposal = self.preview.framed.proposal();
        Note { kind, call_id: Some(proposal.call_id), golem_id: proposal.golem_id.clone(), body }
    }

    fn question(&self) -> Note {
        let body = json!({
            "permit_id": self.preview.permit.permit_id, "asked": self.preview.framed.proposal().expected_outcome,
            "reasons": self.preview.needs.reasons(), "passes_by_itself": self.passes_by_itself,
        });
        self.note("approval:requested", body)
    }

    fn answer(&self, outcome: ApprovalOutcome, decision: &Decision) -> Note {
        let (amount, said) = match decision {
            Decision::Edit { amount } => (Some(amount), None),
            Decision::Approved(yes) => (None, Some(yes.said().as_str())),
            Decision::Refused { .. }
            | Decision::RefusedAndHalted { .. }
            | Decision::Lapsed
            | Decision::Withdrawn { .. }
            | Decision::PermitExpired => (None, None),
        };
        let body = json!({
            "permit_id": self.preview.permit.permit_id, "outcome": outcome, "by": said, "reason": decision.reason(),
            "amount": amount, "stands_for_ms": self.similar.map(|(millis, ..)| millis),
            "stands_up_to_usd": self.similar.map(|(_, total, _)| total),
        });
        self.note("approval:resolved", body)
    }

    fn taken(&mut self, answered: Option<Answered>) -> Decision {
        match answered {
            Some(Answered::Answer(Answer::Similar { millis, total }, number)) => {
                self.similar = Some((millis, total, number));
                Decision::Approved(self.yes(Said::Operator))
            }
            Some(Answered::Answer(Answer::Once, _)) => Decision::Approved(self.yes(Said::Operator)),
            Some(Answered::Answer(Answer::Edit { amount }, _)) => Decision::Edit { amount },
            Some(Answered::Answer(Answer::Refuse { reason }, _)) => Decision::Refused { reason },
            Some(Answered::Answer(Answer::RefuseAndHalt { reason }, _)) => Decision::RefusedAndHalted { reason },
            Some(Answered::Withdrawn(reason)) => Decision::Withdrawn { reason },
            None => Decision::Withdrawn { reason: SafeText::clean("the question was taken back", MAX_REASON) },
        }
    }

    fn yes(&self, said: Said) -> Yes {
        Yes { permit_id: self.preview.permit.permit_id, said, grant: None, earlier: self.earlier.clone() }
    }

    fn timed_out(&mut self) -> Decision {
        let passes = self.passes_by_itself;
        let permit = &self.preview.permit;
        if passes && permit.expired(self.desk.inner.clock.now_millis(), Instant::now()) {
            self.begins_anew = true;
            return Decision::PermitExpired;
        }
        // Said in the same moment: it was said before the time was over.
        if let Some(said) = self.hear() {
            return self.taken(Some(said));
        }
        if passes { Decision::Approved(self.yes(Said::Waited)) } else { Decision::Lapsed }
    }

    /// Asks the same anew under a new permit, with what has changed. Until when is waited stays, unless the waiting was
    /// over with the old permit: nobody could have seen what would pass then, so it begins anew. A no that was said since
    /// the old permit ran out is what [`Self::decision`] answers next; then nothing is asked anew.
    pub fn replace(&mut self, preview: Arc<Preview>) {
        match self.hear() {
            Some(said) if !said.says_yes() => {
                self.heard = Some(said);
                return;
            }
            // A yes was to the old permit, and to figures that are no longer these.
            Some(said) => self.forget(&said),
            None => {}
        }
        let changed = differences(&self.preview, &preview);
        let reasons = in_words(&preview.needs);
        // A question that was a delay and now needs a yes no longer passes by itself.
        if !reasons.is_empty() {
            self.passes_by_itself = false;
        }
        let (sender, answered) = oneshot::channel();
        self.answered = answered;
        self.earlier.push(self.preview.permit.permit_id);
        self.preview = Arc::clone(&preview);
        if std::mem::take(&mut self.begins_anew) && self.passes_by_itself {
            self.begin_waiting();
        }
        let ends_at = self.ends_at;
        {
            let mut state = self.desk.state();
            if let Some(open) = state.open.iter_mut().find(|open| open.number == self.number) {
                open.preview = Arc::clone(&preview);
                open.earlier.clone_from(&self.earlier);
                open.reasons = reasons.clone();
                open.changed = changed;
                open.passes_by_itself = self.passes_by_itself;
                open.answer = Some(sender);
                open.ends_at = ends_at;
            }
        }
        self.desk.announce(&preview, reasons, ends_at);
    }

    fn begin_waiting(&mut self) {
        let (clock, millis) = (&self.desk.inner.clock, u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX));
        self.ends = Instant::now() + self.wait;
        self.ends_at = clock.now_millis().saturating_add(millis);
        self.ends_steady = clock.steady_millis().saturating_add(millis);
    }

    /// Forgets the standing approval of a yes that comes to nothing.
    fn forget(&self, said: &Answered) {
        if let Answered::Answer(_, Some(number)) = said {
            self.desk.state().settle_grant(*number, false);
        }
    }

    fn finish(&mut self, outcome: ApprovalOutcome, reason: Option<SafeText>) {
        self.over = true;
        if let Some((_, _, Some(number))) = self.similar {
            // Where its yes is on record it stands by now.
            self.desk.state().settle_grant(number, false);
        }
        self.desk.remove(self.number);
        let proposal = self.preview.framed.proposal();
        let resolved = ApprovalResolved { permit_id: self.preview.permit.permit_id, outcome, reason };
        let kind = EventKind::ApprovalResolved(resolved);
        self.desk.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Some(said) = self.hear() {
            self.forget(&said);
        }
        self.finish(ApprovalOutcome::Withdrawn, None);
        if let (true, Some(trail)) = (self.told, &self.desk.inner.trail) {
            let reason = SafeText::clean("whoever asked went away", MAX_REASON);
            trail.record_soon(self.answer(ApprovalOutcome::Withdrawn, &Decision::Withdrawn { reason }));
        }
    }
}

/// An answer that left no record is none.
fn unrecorded(error: &AuditError) -> Decision {
    let reason = format!("it could not be put on the audit trail: {error}");
    Decision::Withdrawn { reason: SafeText::clean(&reason, MAX_REASON) }
}

fn in_words(needs: &ApprovalNeed) -> Vec<SafeText> {
    needs.reasons().iter().map(Reason::words).collect()
}

fn listed(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An amount in whole tokens, exact.
fn whole(token: &Token, raw: U256) -> String {
    TokenAmount::new(raw, token.decimals).map_or_else(|_| raw.to_string(), |amount| amount.to_string())
}

/// What an operator must see again before a yes counts: every figure that is not what it was.
fn differences(old: &Preview, new: &Preview) -> Vec<SafeText> {
    let mut changed = Vec::new();
    let mut note = |what: &str, before: String, after: String| {
        if before != after {
            changed.push(SafeText::clean(&format!("{what}: {before} → {after}"), MAX_REASON));
        }
    };
    note("counted as spent", format!("${}", old.values.spent), format!("${}", new.values.spent));
    note("certain to come in", format!("${}", old.values.received), format!("${}", new.values.received));
    let (before, after) = (&old.permit.bounds, &new.permit.bounds);
    for (one, other) in before.outflows.iter().zip(&after.outflows) {
        let told = |flow: &Flow| whole(&flow.token, flow.amount);
        note(&format!("most {} out", one.token.symbol), told(one), told(other));
    }
    for (one, other) in before.inflows.iter().zip(&after.inflows) {
        let told = |raw| whole(&one.token, raw);
        note(&format!("least {} in", one.token.symbol), told(one.at_least), told(other.at_least));
        note(&format!("expected {} in", one.token.symbol), told(one.expected), told(other.expected));
    }
    let coin = |wei| TokenAmount::ether(wei).to_string();
    note("most gas, in coin", coin(before.worst_gas), coin(after.worst_gas));
    let targets =
        |preview: &Preview| preview.framed.legs().iter().map(|leg| leg.to.to_string()).collect::<Vec<_>>().join(", ");
    note("calls", targets(old), targets(new));
    for (one, other) in before.allowances.iter().zip(&after.allowances) {
        let may_take = format!("{} may take of {}", one.spender, one.token.symbol);
        note(&may_take, whole(&one.token, one.at_most), whole(&other.token, other.at_most));
    }
    note("receivers", listed(&old.framed.proposal().recipients), listed(&new.framed.proposal().recipients));
    let order = |preview: &Preview| preview.framed.proposal().order.clone();
    if let (Some(one), Some(other)) = (order(old), order(new)) {
        for ((name, before), (_, after)) in one.message.fields().into_iter().zip(other.message.fields()) {
            note(name, before, after);
        }
        if let (Some(one), Some(other)) = (one.arrival, other.arrival) {
            let expected = format!("expected {} on chain {}", other.token.symbol, other.chain_id);
            note(&expected, one.expected.to_string(), other.expected.to_string());
        }
    }
    changed
}
