//! Where questions lie until somebody answers, first come first served. Whoever asked holds a `ticket`.

#[cfg(test)]
mod model;
mod ticket;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use alloy::primitives::B256;
use rusqlite::Transaction;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::elsewhere::Elsewhere;
use super::grant::{Grant, Moment, Scope, never_granted};
use super::limits::{AskLimits, AskRefused};
use super::{Answer, AnswerError, ApprovalNeed, ApprovalRequest, AskedBy, Confirmation, Reply, Said, Yes, requirement};
use crate::audit::Trail;
use crate::operator_proof::{Authorisation, OperatorProof, ProofError};
use crate::pipeline::Preview;
use bardo_base::clock::Clock;
use bardo_base::fabric::{ApprovalRequested, AskReason, EventKind, Fabric};
use bardo_base::id::PermitId;
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_store::StoreError;

pub use ticket::Ticket;
use ticket::asked_because;

/// Characters kept of a reason.
const MAX_REASON: usize = 400;
/// How far the wall clock may go back before standing approvals end, in milliseconds: time servers correct by less.
const MAX_CORRECTION: u64 = 2_000;
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
    /// Whether approvals take a proof that the operator gave them.
    takes_proof: AtomicBool,
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
    /// The wall clock when it was last read, in milliseconds since the Unix epoch.
    latest: u64,
    limits: AskLimits,
}

struct Open {
    number: u64,
    preview: Arc<Preview>,
    asked_by: AskedBy,
    /// The permits under which the same was asked before.
    earlier: Vec<PermitId>,
    reasons: Vec<AskReason>,
    changed: Vec<SafeText>,
    revision: u32,
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
        let takes_proof = AtomicBool::new(false);
        Self { inner: Arc::new(Inner { clock, fabric, timeout, state, changed, trail, elsewhere, takes_proof }) }
    }

    /// Counts from now on what is answered in other programs, before it has been heard here. Said once.
    pub fn listen(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _said_before = self.inner.elsewhere.set(elsewhere);
    }

    /// From now on an approval counts only with a proof that the operator gave it: an agent that asks here may reach the
    /// operator's keyboard. This is never undone.
    pub fn require_proof(&self) {
        self.inner.takes_proof.store(true, Ordering::SeqCst);
    }

    /// Whether an approval counts only with a proof.
    pub fn takes_proof(&self) -> bool {
        self.inner.takes_proof.load(Ordering::SeqCst)
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
            asked_by: open.asked_by.clone(),
            requirement: requirement(&open.preview),
            reasons: open.reasons.clone(),
            changed: open.changed.clone(),
            revision: open.revision,
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

    /// The standing approvals that still hold, each with how long.
    pub fn grants(&self) -> Vec<(Grant, Duration)> {
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
        let live = state.grants.iter().filter(|grant| grant.stands(now));
        live.map(|grant| (grant.clone(), grant.lasts(now))).collect()
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
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
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
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
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
        let mut state = self.state();
        let now = state.moment(&*self.inner.clock);
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

    /// Whether this may be asked now.
    fn may_ask(&self, preview: &Preview) -> Result<(), AskRefused> {
        let now = self.inner.clock.steady_millis();
        let mut state = self.state();
        let golem_id = &preview.framed.proposal().golem_id;
        let open = state.open.iter().filter(|open| open.preview.framed.proposal().golem_id == *golem_id).count();
        state.limits.may_ask(preview, open, now)
    }

    /// Queues a question. `Delay` passes by itself when its time is over, all else lapses. Where the same was refused a
    /// short while ago, or the agent has asked too much, nobody is asked and [`Ticket::decision`] says so.
    pub fn ask(&self, preview: Arc<Preview>) -> Ticket {
        self.ask_for(preview, AskedBy::default())
    }

    /// The same for an action of which it is known who asked for it.
    pub fn ask_for(&self, preview: Arc<Preview>, asked_by: AskedBy) -> Ticket {
        let (passes_by_itself, wait, reasons) = match &preview.needs {
            ApprovalNeed::Delay { millis } => (true, Duration::from_millis(*millis), asked_because(&preview.needs)),
            ApprovalNeed::Approval { .. } => (false, self.inner.timeout, asked_because(&preview.needs)),
            ApprovalNeed::Instant | ApprovalNeed::Notify => (false, self.inner.timeout, Vec::new()),
        };
        let refused = self.may_ask(&preview).err();
        let asked_at = self.inner.clock.now_millis();
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let ends_at = asked_at.saturating_add(millis);
        let (sender, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            let open = Open {
                number,
                preview: Arc::clone(&preview),
                asked_by,
                earlier: Vec::new(),
                reasons: reasons.clone(),
                changed: Vec::new(),
                revision: 0,
                passes_by_itself,
                asked_at,
                ends_at,
                answer: Some(sender),
            };
            if refused.is_none() {
                state.open.push(open);
            }
            number
        };
        if refused.is_none() {
            self.announce(&preview, reasons, ends_at, passes_by_itself);
        }
        Ticket {
            desk: self.clone(),
            number,
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
            told: false,
            similar: None,
            earlier: Vec::new(),
            heard: None,
        }
    }

    /// A question that is not queued, because the operator answers it with the request itself: an action by hand.
    pub fn by_hand(preview: Arc<Preview>) -> ApprovalRequest {
        ApprovalRequest {
            requirement: requirement(&preview),
            asked_by: AskedBy::Operator,
            reasons: asked_because(&preview.needs),
            changed: Vec::new(),
            revision: 0,
            passes_by_itself: false,
            asked_at: preview.permit.issued_at,
            ends_at: preview.permit.expires_at,
            place: 0,
            of: 0,
            preview,
        }
    }

    /// Asks and answers in one: the operator has read a preview of their own action and approves it. It counts with the
    /// same confirmation, and the same proof, as an approval of a queued question, and both are put on record.
    ///
    /// # Errors
    /// [`AnswerError`]: the approval does not count, and nothing is asked.
    pub fn ask_approved(
        &self,
        preview: Arc<Preview>,
        confirmation: &Confirmation,
        proof: Option<OperatorProof>,
    ) -> Result<Ticket, AnswerError> {
        let permit_id = preview.permit.permit_id;
        if self.takes_proof() {
            let wanted = Authorisation::Approve { permit_id, account: preview.framed.account() };
            proof.ok_or(ProofError::NoPassword)?.redeem(&wanted, self.inner.clock.now_millis())?;
        }
        let now = self.state().moment(&*self.inner.clock);
        if preview.permit.expired(now.wall, now.steady) {
            return Err(AnswerError::Expired);
        }
        requirement(&preview).check(confirmation)?;
        let (ends_at, reasons) = (preview.permit.expires_at, asked_because(&preview.needs));
        let wait = preview.permit.expires.saturating_duration_since(Instant::now());
        let millis = ends_at.saturating_sub(now.wall);
        let number = {
            let mut state = self.state();
            state.next += 1;
            state.next
        };
        self.announce(&preview, reasons, ends_at, false);
        Ok(Ticket {
            desk: self.clone(),
            number,
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
            told: false,
            similar: None,
            earlier: Vec::new(),
            heard: Some(Answered::Answer(Answer::Once, None)),
        })
    }

    fn announce(&self, preview: &Preview, reasons: Vec<AskReason>, ends_at: u64, passes_by_itself: bool) {
        let proposal = preview.framed.proposal();
        let requested = ApprovalRequested {
            permit_id: preview.permit.permit_id,
            title: proposal.expected_outcome.clone(),
            reasons,
            lapses_at: ends_at,
            passes_by_itself,
        };
        let kind = EventKind::ApprovalRequested(requested);
        self.inner.fabric.emit(&proposal.golem_id, Some(proposal.call_id), kind);
        self.tell_watchers();
    }

    /// Answers the question that waits for `permit_id`. An approval counts only with what the question's [`Requirement`]
    /// asks for, wherever it comes from. A no also counts where the same is asked under another permit by
    /// now: what was shown with it makes no difference to it.
    ///
    /// # Errors
    /// [`AnswerError`]: the answer does not count, the question stays as it is. A no to what is over already still keeps
    /// it from being signed, if it has not been.
    pub fn answer(&self, permit_id: PermitId, reply: impl Into<Reply>) -> Result<(), AnswerError> {
        self.answer_proved(permit_id, reply, None)
    }

    /// The same with a proof that the operator gave the answer. A refusal takes none.
    ///
    /// # Errors
    /// As [`Self::answer`]; [`AnswerError::Unproved`].
    pub fn answer_proved(
        &self,
        permit_id: PermitId,
        reply: impl Into<Reply>,
        proof: Option<OperatorProof>,
    ) -> Result<(), AnswerError> {
        let reply = reply.into();
        let yes = says_yes(&reply.answer);
        if yes && self.takes_proof() {
            let account = self.asked(permit_id).ok_or(AnswerError::NotAsked)?.framed.account();
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
    /// The present. A wall clock that was set back ends every standing approval, since how much time has passed can no
    /// longer be known; a smaller correction is ignored.
    fn moment(&mut self, clock: &dyn Clock) -> Moment {
        let now = Moment::now(clock);
        if now.wall.saturating_add(MAX_CORRECTION) < self.latest {
            self.drop_grants();
            self.latest = now.wall;
        }
        self.latest = self.latest.max(now.wall);
        Moment { wall: self.latest, ..now }
    }

    fn answer(&mut self, permit_id: PermitId, reply: Reply, now: Moment) -> Result<(), AnswerError> {
        let Reply { answer, confirmation } = reply;
        let yes = says_yes(&answer);
        let asks =
            |open: &Open| open.preview.permit.permit_id == permit_id || (!yes && open.earlier.contains(&permit_id));
        let open = self.open.iter_mut().find(|open| asks(open)).ok_or(AnswerError::NotAsked)?;
        if yes && open.preview.permit.expired(now.wall, now.steady) {
            return Err(AnswerError::Expired);
        }
        if yes {
            requirement(&open.preview).check(&confirmation)?;
        }
        let mut grant = None;
        if let Answer::Similar { millis, total } = &answer {
            if let Some(why) = never_granted(&open.preview) {
                return Err(AnswerError::NoGrant(why));
            }
            let spent = open.preview.values.spent;
            let left = total.checked_sub(spent).map_err(|_| AnswerError::TotalTooSmall { total: *total, spent })?;
            self.next += 1;
            grant = Some(Grant::new(self.next, &open.preview, (*total, left), *millis, now));
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
