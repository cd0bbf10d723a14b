//! Approval requests that belong to no action: lowering a stop, leaving paper mode, resetting the circuit breaker,
//! selling holdings, and a looser policy. The session opens them; only the operator's approval of exactly what was
//! shown has an effect.

use super::keys::STAY;
use alloy::primitives::{Address, B256};
use bardo_base::fabric::{AskReason, BindingLimit};
use bardo_base::id::GolemId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::approval::ApprovalRequirement;
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::policy::{BindingCap, PendingPolicy, Policy};
use bardo_safety::stop::{ActiveStop, OTHER_COPY_STOPPED, RestoredCopy};
use bardo_session::handle::NamedAddress;
use bardo_session::market::MoneyKind;
use bardo_session::questions::{
    AnswerKind, AnswerOption, PolicyChange, PolicyRequest, PolicyTexts, Question, QuestionKey, RequestSubject,
    SalePlan, SecondApprovalRequest, TypedConfirmation,
};
use parking_lot::{Mutex, MutexGuard};

/// Subject of one of the session's own requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PromptSubject {
    /// Lowering or lifting a stop.
    Lower {
        /// Stop in force at the time of the request, to which the approval applies.
        from: ActiveStop,
        /// New level; `None` for no stop.
        to: Option<StopLevel>,
        /// Level that the data folder's own stop keeps in force whatever the answer; `None` without one.
        remains: Option<StopLevel>,
        /// Author and reason of the stop.
        said: SafeText,
        /// True if the Golem stays without keys whatever the answer.
        without_keys: bool,
        /// Origin of the data folder, if it was restored and nobody has confirmed that the other copy is stopped.
        restored: Option<RestoredCopy>,
    },
    /// Leaving paper mode, so that transactions are signed again.
    LeavePaper,
    /// Resetting the circuit breaker of consecutive failures.
    ResetBreaker {
        /// Number of consecutive failures.
        failures: u32,
    },
    /// Selling the holdings of a dead Golem.
    SellAfterDeath,
    /// Selling under a flatten stop that this session does not accept as the operator's decision to sell.
    SellUnderFlatten {
        /// Stop that orders the sale.
        from: ActiveStop,
        /// Number of holdings of which the last attempt left something; 0 before the first.
        unsold: usize,
    },
    /// Lowering the Golem's own halt to flatten, so that its holdings can be sold.
    SellUnderHalt {
        /// Stop that the Golem set.
        from: ActiveStop,
    },
}

#[derive(Debug, Clone)]
struct QueuedPrompt {
    number: u64,
    asked_at: u64,
    own: PromptSubject,
    /// Plan of a sale of holdings, as it is shown; `None` for other requests, and before it was read.
    plan: Option<SalePlan>,
}

impl PromptSubject {
    /// Requirements that an approval must meet: a restored copy begins to sign only after the operator has confirmed that
    /// the other one is stopped.
    pub(super) fn requirement(&self) -> ApprovalRequirement {
        let Self::Lower { restored: Some(_), to, .. } = self else { return ApprovalRequirement::default() };
        if *to >= Some(StopLevel::Halt) {
            return ApprovalRequirement::default();
        }
        let what = format!("\"{OTHER_COPY_STOPPED}\", after you have stopped the copy that the backup was made from");
        let expected = SafeText::clean(OTHER_COPY_STOPPED, 200);
        let confirm = Some(TypedConfirmation { what: SafeText::clean(&what, 200), expected });
        ApprovalRequirement { to_read: Vec::new(), confirm }
    }

    /// True if an approval sells holdings.
    fn sells(&self) -> bool {
        match self {
            Self::SellAfterDeath | Self::SellUnderFlatten { .. } | Self::SellUnderHalt { .. } => true,
            Self::Lower { .. } | Self::LeavePaper | Self::ResetBreaker { .. } => false,
        }
    }

    /// Authorisation that an approval needs. `account` is the signing account.
    pub(super) fn authorisation(&self, account: Address) -> Authorisation {
        match self {
            Self::Lower { from, to, .. } => Authorisation::lower_stop(from, *to),
            Self::SellUnderHalt { from } => Authorisation::lower_stop(from, Some(StopLevel::Flatten)),
            Self::ResetBreaker { .. } => Authorisation::ResetBreaker,
            Self::LeavePaper => Authorisation::LeavePaper { account },
            // An unrequested sale costs spread and gas, and an agent could cause its own death or a flatten.
            Self::SellAfterDeath | Self::SellUnderFlatten { .. } => Authorisation::SellHoldings { account },
        }
    }
}

/// Open requests of the session itself.
#[derive(Debug, Default)]
pub(super) struct SessionPrompts {
    state: Mutex<(u64, Vec<QueuedPrompt>)>,
}

impl SessionPrompts {
    fn state(&self) -> MutexGuard<'_, (u64, Vec<QueuedPrompt>)> {
        self.state.lock()
    }

    /// Opens a request; repeating the same one has no effect.
    pub(super) fn ask(&self, own: PromptSubject, now: u64) {
        let mut state = self.state();
        if state.1.iter().any(|queued| queued.own == own) {
            return;
        }
        state.0 += 1;
        let number = state.0;
        state.1.push(QueuedPrompt { number, asked_at: now, own, plan: None });
    }

    /// Returns an open request; `None` if it has ended.
    pub(super) fn get(&self, number: u64) -> Option<PromptSubject> {
        self.state().1.iter().find(|queued| queued.number == number).map(|queued| queued.own.clone())
    }

    /// Title of an open request, and the plan that is shown with it; `None` if it has ended.
    pub(super) fn shown(&self, number: u64) -> Option<(SafeText, Option<SalePlan>)> {
        let state = self.state();
        let queued = state.1.iter().find(|queued| queued.number == number)?;
        Some((question(queued, MoneyKind::Play).title, queued.plan.clone()))
    }

    /// Updates the plans of open requests to sell holdings. A plan that only counts other dollars is kept, so that nobody has
    /// to read it again. It is made only if there is such a request.
    pub(super) fn update_plans(&self, make: impl FnOnce() -> SalePlan) {
        let mut state = self.state();
        let mut open = state.1.iter_mut().filter(|queued| queued.own.sells()).peekable();
        if open.peek().is_none() {
            return;
        }
        let plan = make();
        for queued in open.filter(|queued| !queued.plan.as_ref().is_some_and(|known| known.is_same(&plan))) {
            queued.plan = Some(plan.clone());
        }
    }

    /// Removes and returns an open request; `None` if it has ended.
    pub(super) fn take(&self, number: u64) -> Option<PromptSubject> {
        let mut state = self.state();
        let at = state.1.iter().position(|queued| queued.number == number)?;
        Some(state.1.remove(at).own)
    }

    /// Updates the level that stays in force in open requests to lower a stop. It is read only if there is one.
    pub(super) fn update_remaining(&self, read: impl FnOnce() -> Option<StopLevel>) {
        let mut state = self.state();
        let open = state.1.iter_mut().filter_map(|queued| match &mut queued.own {
            PromptSubject::Lower { remains, .. } => Some(remains),
            PromptSubject::LeavePaper
            | PromptSubject::ResetBreaker { .. }
            | PromptSubject::SellAfterDeath
            | PromptSubject::SellUnderFlatten { .. }
            | PromptSubject::SellUnderHalt { .. } => None,
        });
        let mut open = open.peekable();
        if open.peek().is_some() {
            let level = read();
            open.for_each(|remains| *remains = level);
        }
    }

    /// Drops requests about another stop than the one in force, and the one after the Golem's death under a flatten,
    /// which sells the same holdings; returns true if any was dropped.
    pub(super) fn keep_for(&self, in_force: &ActiveStop) -> bool {
        let mut state = self.state();
        let before = state.1.len();
        state.1.retain(|queued| match &queued.own {
            PromptSubject::Lower { from, .. }
            | PromptSubject::SellUnderFlatten { from, .. }
            | PromptSubject::SellUnderHalt { from } => from == in_force,
            PromptSubject::SellAfterDeath => in_force.level() != Some(StopLevel::Flatten),
            PromptSubject::LeavePaper | PromptSubject::ResetBreaker { .. } => true,
        });
        state.1.len() < before
    }

    pub(super) fn clear(&self) {
        self.state().1.clear();
    }

    /// Open requests, without positions.
    pub(super) fn questions(
        &self,
        account: Address,
        money: MoneyKind,
        needs: impl Fn(&Authorisation) -> bool,
    ) -> Vec<Question> {
        let question = |queued: &QueuedPrompt| Question {
            needs_password: needs(&queued.own.authorisation(account)),
            ..question(queued, money)
        };
        self.state().1.iter().map(question).collect()
    }
}

fn question(queued: &QueuedPrompt, money: MoneyKind) -> Question {
    let sale = || RequestSubject::SellHoldings { plan: queued.plan.clone().map(Box::new) };
    let (title, reason, about) = match &queued.own {
        PromptSubject::Lower { from, to, remains, said, without_keys, restored: _ } => {
            // A stop of the whole data folder stays in force below the session's own.
            let stays = remains.filter(|stays| Some(*stays) > *to);
            let to = &(*to).max(*remains);
            let title = match (to, without_keys) {
                (Some(to), _) if stays.is_some() => {
                    format!("Lift the stop of this session; {to} stays in force until `bardo resume`")
                }
                (Some(to), false) => format!("Lower the stop to {to}"),
                (None, false) => "Lift the stop: signing resumes".to_owned(),
                (Some(to), true) => format!("Lower the stop to {to}; {STAY}"),
                (None, true) => format!("Lift the stop: you can sign again; {STAY}"),
            };
            let about = RequestSubject::Lower { from: from.level(), to: *to, said: said.clone() };
            (title, AskReason::Loosens, about)
        }
        PromptSubject::LeavePaper => {
            ("Leave paper mode: actions are signed again".to_owned(), AskReason::Loosens, RequestSubject::LeavePaper)
        }
        PromptSubject::ResetBreaker { failures } => (
            "Close the failure breaker: trading resumes".to_owned(),
            AskReason::Loosens,
            RequestSubject::ResetBreaker { failures: *failures },
        ),
        PromptSubject::SellAfterDeath => {
            ("The Golem has died: sell what it held".to_owned(), AskReason::GolemDied, sale())
        }
        PromptSubject::SellUnderFlatten { from, unsold } => {
            let title = match (unsold, from) {
                (0, ActiveStop::Stop(stop)) => {
                    format!("Flatten, requested by {}: cancel open orders and sell holdings", stop.by)
                }
                (0, ActiveStop::None | ActiveStop::Garbled { .. }) => "Cancel open orders and sell holdings".to_owned(),
                (1, _) => "Flatten is not complete: one holding was not sold. Try again".to_owned(),
                (unsold, _) => format!("Flatten is not complete: {unsold} holdings were not sold. Try again"),
            };
            (title, AskReason::LeavesPositions, sale())
        }
        PromptSubject::SellUnderHalt { from } => {
            let by = match from {
                ActiveStop::Stop(stop) => stop.by.clone(),
                ActiveStop::None | ActiveStop::Garbled { .. } => SafeText::clean("somebody", 20),
            };
            let title =
                format!("{by} stopped everything: lower the stop to flatten, cancel open orders and sell all holdings");
            (title, AskReason::SellsUnderHalt, sale())
        }
    };
    let confirm = queued.own.requirement().confirm;
    let value = queued.plan.as_ref().and_then(SalePlan::value);
    Question { confirm, value, ..plain(QuestionKey::Own(queued.number), queued.asked_at, &title, reason, about, money) }
}

/// Request for adopting a looser policy.
pub(super) fn policy_question(
    pending: &PendingPolicy,
    in_force: &Policy,
    second: Option<SecondApprovalRequest>,
    file: &str,
    since: u64,
    (money, names): (MoneyKind, &[NamedAddress]),
) -> Question {
    let text = |words: &str| SafeText::clean(words, 200);
    let changes: Vec<PolicyChange> = pending
        .changes
        .iter()
        .map(|change| PolicyChange {
            field: text(&change.field),
            from: text(&change.from),
            to: text(&change.to),
            tighter: change.tighter,
        })
        .collect();
    let title = match changes.as_slice() {
        [one] => format!("{}: {} → {}", one.field, one.from, one.to),
        many => format!("Change {} policy fields", many.len()),
    };
    let hash = pending.policy.hash();
    let texts_of = |policy: &Policy| policy.sources().iter().map(ToString::to_string).collect();
    let texts = second.as_ref().map(|_| PolicyTexts { in_force: texts_of(in_force), new: texts_of(&pending.policy) });
    let binding = pending.policy.binding(&pending.changes).into_iter().map(binding_limit).collect();
    // Whom a change names stands beside the whole address, as everywhere.
    let written: Vec<&str> = changes.iter().flat_map(|change| [change.from.as_str(), change.to.as_str()]).collect();
    let is_in = |named: &&NamedAddress| {
        let address = named.address.to_string().to_lowercase();
        written.iter().any(|text| text.to_lowercase().contains(&address))
    };
    let names = names.iter().filter(is_in).cloned().collect();
    let about = RequestSubject::Policy(PolicyRequest { file: text(file), changes, binding, names, texts });
    let mut question = plain(QuestionKey::Policy(hash), since, &title, AskReason::LoosensPolicy, about, money);
    question.confirm = policy_requirement(hash, money).confirm;
    for offered in question.answers.iter_mut().filter(|offered| offered.kind == AnswerKind::Once) {
        offered.why_not = second.as_ref().and_then(SecondApprovalRequest::why_not);
    }
    question.second = second;
    question
}

/// Confirmation that adopting a looser policy needs.
pub(super) fn policy_requirement(hash: B256, money: MoneyKind) -> ApprovalRequirement {
    let whole = hash.to_string();
    let confirm = (money == MoneyKind::Real).then(|| TypedConfirmation {
        what: SafeText::clean("the last four characters of the new policy's hash", 200),
        expected: SafeText::clean(whole.get(whole.len().saturating_sub(4)..).unwrap_or(&whole), 200),
    });
    ApprovalRequirement { to_read: Vec::new(), confirm }
}

fn plain(
    key: QuestionKey,
    asked_at: u64,
    title: &str,
    reason: AskReason,
    about: RequestSubject,
    money: MoneyKind,
) -> Question {
    let offered = |kind| AnswerOption {
        kind,
        why_not: match kind {
            AnswerKind::Similar => Some(SafeText::clean("each change needs its own decision", 80)),
            AnswerKind::Smaller => Some(SafeText::clean("it has no amount", 80)),
            AnswerKind::Once | AnswerKind::Refuse | AnswerKind::RefuseAndStop => None,
        },
    };
    Question {
        key,
        number: 0,
        golem_id: GolemId::operator(),
        call_id: None,
        place: 0,
        of: 0,
        title: SafeText::clean(title, 300),
        value: None,
        money,
        asked_at,
        ends_at: None,
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![reason],
        changed: Vec::new(),
        revision: 0,
        second: None,
        to_read: Vec::new(),
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(offered).collect(),
        about,
    }
}

/// A lower limit that binds in the place of a changed one, for requests and events.
pub(super) fn binding_limit(cap: BindingCap) -> BindingLimit {
    let text = |words: &str| SafeText::clean(words, 200);
    BindingLimit { field: text(&cap.field), by: text(&cap.by), limit: cap.limit }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bardo_safety::stop::StopFile;

    use super::*;
    use crate::questions::second::{NotSignable, policy_changes, statement};

    /// A session can show anything. The second operator signs what the texts say, or nothing.
    #[test]
    fn a_second_operator_signs_no_policy_but_that_of_the_texts() {
        let policy = |text: &str| Policy::from_sources([text]).unwrap().unwrap();
        let in_force = policy(
            "preset = \"demo\"\n[second_approval]\nabove_usd = \"5\"\napprovers = [\"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf\"]\n",
        );
        let new = Arc::new(policy("preset = \"demo\"\n"));
        let pending = PendingPolicy { changes: in_force.changes(&new), policy: Arc::clone(&new) };
        let entry = Some(B256::repeat_byte(1));
        let second = SecondApprovalRequest { approvers: Vec::new(), policy: in_force.hash(), entry, given: None };
        let question = policy_question(&pending, &in_force, Some(second), "policy.toml", 0, (MoneyKind::Play, &[]));
        let expected = in_force.changes(&new);
        assert!(expected.iter().any(|change| change.field.contains("second_approval")), "{expected:?}");
        assert_eq!(policy_changes(&question).unwrap(), expected);
        assert!(statement(&question, 0).is_ok());
        let RequestSubject::Policy(request) = &question.about else { panic!() };
        let shown = |texts| {
            let about = RequestSubject::Policy(PolicyRequest { texts, ..request.clone() });
            Question { about, ..question.clone() }
        };
        let texts = request.texts.clone().unwrap();
        let harmless = PolicyTexts { new: texts.in_force.clone(), ..texts.clone() };
        let swapped = PolicyTexts { in_force: texts.new.clone(), new: texts.in_force };
        for altered in [None, Some(harmless), Some(swapped)] {
            assert_eq!(statement(&shown(altered), 0), Err(NotSignable::Unbound));
        }
    }

    #[test]
    fn a_flatten_takes_the_place_of_the_sale_after_death() {
        for (level, stays) in [(StopLevel::Halt, true), (StopLevel::Flatten, false)] {
            let folder = tempfile::tempdir().unwrap();
            let prompts = SessionPrompts::default();
            prompts.ask(PromptSubject::SellAfterDeath, 1);
            let in_force = StopFile::in_folder(folder.path()).raise(level, "typed", "operator", 2).unwrap();
            prompts.keep_for(&in_force);
            let left = prompts.questions(Address::ZERO, MoneyKind::Play, |_| false);
            assert_eq!(left.len(), usize::from(stays), "{level}");
        }
    }

    #[test]
    fn lifting_a_sessions_stop_names_the_stop_of_the_data_folder_that_remains() {
        let (outer, inner) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = StopFile::in_folder(inner.path()).beneath(outer.path());
        let from = file.raise(StopLevel::Halt, "typed", "operator", 1).unwrap();
        let prompts = SessionPrompts::default();
        let said = SafeText::clean("operator: typed", 40);
        let (to, remains) = (None, file.outer_level());
        prompts.ask(PromptSubject::Lower { from, to, remains, said, without_keys: false, restored: None }, 1);
        let shown = || {
            let asked = prompts.questions(Address::ZERO, MoneyKind::Play, |_| false).remove(0);
            let RequestSubject::Lower { from, to, .. } = asked.about else { panic!("{asked:?}") };
            (asked.title.to_string(), from, to)
        };
        let halt = Some(StopLevel::Halt);
        assert_eq!(shown(), ("Lift the stop: signing resumes".to_owned(), halt, None));
        // Another process stops the whole data folder while the question is open.
        StopFile::in_folder(outer.path()).raise(StopLevel::Flatten, "by hand", "bardo halt", 2).unwrap();
        prompts.update_remaining(|| file.outer_level());
        let stays = "Lift the stop of this session; flatten stays in force until `bardo resume`";
        assert_eq!(shown(), (stays.to_owned(), halt, Some(StopLevel::Flatten)));
    }
}
