//! Application of a call's events to the steps of a swap card.

use serde_json::Value;

use super::{Offer, Step, StepState, SwapModel, SwapResult};
use crate::format::grouped;
use crate::widgets::status::CardStatus;
use crate::widgets::words::found;
use bardo_base::fabric::{CheckOutcome, EventKind, TxPurpose, TxState, TxUpdate};
use bardo_base::model::Check;
use bardo_base::text::SafeText;

/// Subject of a step, derived from its name. The documents define the names; the pipeline emits the matching events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Simulate,
    Approve,
    Build,
    Sign,
    Send,
    Confirm,
    Other,
}

/// Returns true if the transaction is the swap itself; in recordings of earlier versions, if it is the last of the plan.
pub(super) fn is_main(update: &TxUpdate) -> bool {
    match update.purpose {
        Some(TxPurpose::Main) => true,
        Some(TxPurpose::Approve | TxPurpose::CleanUp) => false,
        None => update.leg >= update.of,
    }
}

pub(super) fn about(name: &str) -> About {
    let name = name.to_ascii_lowercase();
    [
        ("simulat", About::Simulate),
        ("approv", About::Approve),
        ("calldata", About::Build),
        ("sign", About::Sign),
        ("broadcast", About::Send),
        ("confirm", About::Confirm),
    ]
    .into_iter()
    .find(|(word, _)| name.contains(word))
    .map_or(About::Other, |(_, about)| about)
}

impl SwapModel {
    /// Applies an event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        match kind {
            EventKind::ToolUpdate(update) => {
                self.end_running(at);
                let index = usize::try_from(update.index.saturating_sub(1)).unwrap_or(usize::MAX);
                let of = usize::try_from(update.of).unwrap_or(0).min(32);
                if self.steps.len() < of {
                    self.steps.resize(of, Step::default());
                }
                if let Some(step) = self.steps.get_mut(index) {
                    let name = update.step.clone();
                    let note = std::mem::take(&mut step.note);
                    *step = Step { name, state: StepState::Running, began: at, ended: 0, note };
                }
            }
            EventKind::SafetyCheck(check) => {
                self.end_running(at);
                let first = self.checked.map_or(at, |(first, _)| first);
                if !self.offer.as_ref().is_some_and(|offer| offer.used) {
                    self.checked = Some((first, at));
                }
                if check.check == Check::Simulation {
                    let state =
                        if check.outcome == CheckOutcome::Blocked { StepState::Failed } else { StepState::Done };
                    let began = self.checked.map_or(at, |(_, last)| last);
                    let detail = SafeText::clean(&found(&check.finding), 400);
                    self.set(About::Simulate, state, (began, at), Some(detail));
                }
                match self.checks.iter_mut().find(|known| known.check == check.check) {
                    Some(known) => known.clone_from(check),
                    None => self.checks.push(check.clone()),
                }
            }
            // A used offer is followed only by one that revokes what an unfinished swap left.
            EventKind::PermitIssued(_) | EventKind::PermitConsumed(_)
                if self.offer.as_ref().is_some_and(|offer| offer.used) => {}
            EventKind::PermitIssued(permit) => {
                self.end_running(at);
                let expected = permit.expected_outcome.clone();
                let least = permit.least();
                self.offer = Some(Offer {
                    expected,
                    least,
                    leaves: permit.leaves_usd,
                    expires_at: permit.expires_at,
                    used: false,
                });
            }
            EventKind::PermitConsumed(_) => {
                if let Some(offer) = &mut self.offer {
                    offer.used = true;
                }
                self.set(About::Sign, StepState::Running, (at, at), None);
            }
            EventKind::TxUpdate(update) => self.transaction(at, update),
            EventKind::MemoryHits(hits) => self.memory = Some((hits.similar, hits.changes.clone())),
            EventKind::ToolVerified(verified) => self.verified = Some(verified.clone()),
            EventKind::ToolEnd(end) => self.end(at, end.success, end.card.as_ref()),
            _ => {}
        }
    }

    fn transaction(&mut self, at: u64, update: &TxUpdate) {
        // It revokes an allowance, so it does not count as a step of the swap.
        if update.purpose == Some(TxPurpose::CleanUp) {
            return;
        }
        match self.transactions.iter_mut().find(|known| known.leg == update.leg) {
            Some(known) => *known = update.clone(),
            None => self.transactions.push(update.clone()),
        }
        let last = is_main(update);
        match update.state {
            TxState::Signed => {
                self.set(About::Sign, StepState::Done, (at, at), None);
                self.set(About::Send, StepState::Running, (at, at), None);
            }
            TxState::Sent => {
                self.set(About::Send, StepState::Done, (at, at), None);
                self.set(About::Confirm, StepState::Running, (at, at), None);
            }
            TxState::Confirmed | TxState::Reverted => {
                let state = if update.state == TxState::Reverted { StepState::Failed } else { StepState::Done };
                let note =
                    update.block.map(|block| SafeText::clean(&format!("block #{}", grouped(&block.to_string())), 40));
                if last || state == StepState::Failed {
                    self.set(About::Confirm, state, (at, at), note);
                } else {
                    self.set(About::Approve, state, (at, at), note);
                    self.set(About::Sign, StepState::Running, (at, at), None);
                }
            }
            TxState::Dropped => {
                self.set(About::Send, StepState::Failed, (at, at), Some(SafeText::clean("no endpoint accepted it", 40)))
            }
            TxState::Unclear => {
                self.set(About::Confirm, StepState::Running, (at, at), Some(SafeText::clean("outcome unknown", 40)))
            }
        }
    }

    fn end(&mut self, at: u64, success: bool, card: Option<&bardo_base::fabric::ResultCard>) {
        let unclear = self.call.status == CardStatus::Unclear;
        for step in &mut self.steps {
            match (step.state, success) {
                (StepState::Running, true) if !unclear => {
                    step.state = StepState::Done;
                    step.ended = at;
                }
                (StepState::Running, false) => {
                    step.state = StepState::Failed;
                    step.ended = at;
                }
                (StepState::Ahead, true) if !unclear => {
                    step.state = StepState::Skipped;
                    let why = if self.call.status == CardStatus::Simulated { "not signed" } else { "not needed" };
                    step.note = SafeText::clean(why, 20);
                }
                _ => {}
            }
        }
        if let Some(card) = card {
            let hints = card.hints.as_ref().unwrap_or(&Value::Null);
            // A swap that was stopped before its own transaction has no result.
            let stopped = hints.get("state").and_then(Value::as_str) == Some("stopped");
            self.result = SwapResult::read(&card.data, hints).filter(|_| !stopped);
        }
    }

    fn end_running(&mut self, at: u64) {
        for step in self.steps.iter_mut().filter(|step| step.state == StepState::Running) {
            if matches!(about(step.name.as_str()), About::Simulate | About::Approve | About::Build | About::Other) {
                step.state = StepState::Done;
                step.ended = at;
            }
        }
    }

    fn set(&mut self, which: About, state: StepState, (began, ended): (u64, u64), note: Option<SafeText>) {
        let Some(step) = self.steps.iter_mut().find(|step| about(step.name.as_str()) == which) else { return };
        if step.began == 0 {
            step.began = began;
        }
        step.state = state;
        step.ended = ended;
        if let Some(note) = note {
            step.note = note;
        }
    }
}
