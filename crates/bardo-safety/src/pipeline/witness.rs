//! Endpoints that contradict each other, and what may be signed all the same.
//!
//! Everything that an assessment reads is compared on all endpoints of the chain. Where they differ, nothing that could
//! lose more passes. What only leaves a position, or only revokes, cancels or refunds, passes on the majority. Without a
//! majority it is assessed on each endpoint alone, and passes if it passes on most of them; with two endpoints it must
//! pass on both, except that it may merely revert on one of them: a transaction that reverts costs its gas and nothing
//! else. An endpoint that cannot be read, or that contradicts the address book, does not count.

use tracing::instrument;

use super::assess::Assessment;
use super::look::{Impossible, Look};
use super::{Pipeline, Refusal};
use crate::checks::slippage;
use crate::framed::Framed;
use crate::ground::Ground;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::Finding;
use bardo_base::model::{Check, Phase, RuleName};
use golem_chain::fork::Status;
use golem_chain::provider::{Dispute, DisputeMark};

/// The rule that a contradiction between endpoints violates.
pub(super) const RULE: RuleName = RuleName::EndpointsAgree;

impl Pipeline {
    /// Assesses the legs of `framed` from number `from` on, on the chain's latest block. What an earlier look has found
    /// on that very block is not read again. Where endpoints contradict each other, see the module.
    ///
    /// # Errors
    /// [`Refusal`] if the chain cannot be read at all. What blocks the frame is in the verdicts.
    #[instrument(level = "debug", name = "checks", skip_all, fields(chain_id = framed.proposal().chain_id))]
    pub(super) async fn assess(
        &self,
        ground: &Ground,
        framed: &Framed,
        from: usize,
        phase: Phase,
        earlier: Option<&Look>,
    ) -> Result<Assessment, Refusal> {
        let marks = self.marks();
        let assessed = self.assess_on(ground, framed, from, phase, earlier).await;
        let Some((dispute, all_decided)) = self.disputed_since(&marks) else { return assessed };
        match assessed {
            // By the majority's values.
            Ok(assessment) if all_decided && may_pass(&assessment) => Ok(noting(assessment, &dispute)),
            Ok(assessment) if all_decided => Ok(refused(assessment, &dispute)),
            undecided => match self.assess_each(ground, framed, from, phase).await {
                Some(assessment) => Ok(noting(assessment, &dispute)),
                None => undecided.map(|assessment| refused(assessment, &dispute)).map_err(|refusal| Refusal {
                    code: ErrorCode::ChainInconsistent,
                    message: dispute.to_string(),
                    ..refusal
                }),
            },
        }
    }

    /// The assessment on which an exit or a revocation may pass although endpoints contradict each other without a
    /// majority; `None` if it may not.
    async fn assess_each(&self, ground: &Ground, framed: &Framed, from: usize, phase: Phase) -> Option<Assessment> {
        let views: Vec<Ground> =
            ground.client.each_alone().into_iter().map(|(_, client)| ground.alone(client)).collect();
        let assessed = views.iter().map(|view| self.assess_on(view, framed, from, phase, None));
        let assessed = futures::future::join_all(assessed).await;
        let assessed: Vec<Assessment> = assessed.into_iter().flatten().filter(is_present).collect();
        let all = assessed.len();
        let (passing, others): (Vec<Assessment>, Vec<Assessment>) = assessed.into_iter().partition(may_pass);
        let limits = self.inner.rules.slippage(phase);
        let harmless = others.iter().filter(|one| only_reverts(one, &limits)).count();
        let enough = match all {
            0..=2 => !passing.is_empty() && passing.len().saturating_add(harmless) == all,
            _ => passing.len().saturating_mul(2) > all,
        };
        // The more pessimistic of those that pass: the one by which most is spent.
        let spent = |one: &Assessment| one.facts.values.as_ref().map(|values| values.spent).ok();
        passing.into_iter().filter(|_| enough).max_by_key(spent)
    }

    fn marks(&self) -> Vec<DisputeMark> {
        self.inner.chains.iter().map(|chain| chain.ground.client.dispute_mark()).collect()
    }

    /// The latest contradiction on any chain since `marks`, and whether a majority settled all of them. Another chain
    /// counts too: what arrives there is read from it.
    fn disputed_since(&self, marks: &[DisputeMark]) -> Option<(Dispute, bool)> {
        let chains = self.inner.chains.iter().zip(marks);
        let disputes = chains.filter_map(|(chain, mark)| chain.ground.client.disputes_since(*mark));
        disputes.fold(None, |found: Option<(Dispute, bool)>, one| match found {
            Some((dispute, decided)) if one.all_decided => Some((dispute, decided)),
            Some((_, _)) | None => Some((one.last, one.all_decided)),
        })
    }
}

/// Whether endpoints that contradict each other must not hold an action up: it only leaves a position, or only takes back
/// what others may take.
pub(super) fn despite_disputes(assessment: &Assessment) -> bool {
    assessment.facts.reduce_only() || assessment.facts.takes_back()
}

/// Whether what one endpoint alone says counts. One on which the calls cannot be read and run is absent, and so is one that
/// contradicts the address book: no honest endpoint of the chain does. That a token off the list is none may be true, and
/// somebody else may have invented it; what only takes back costs no more than gas whichever is right.
fn is_present(assessment: &Assessment) -> bool {
    assessment.facts.simulation.is_some()
        && match assessment.look.impossible {
            None => true,
            Some(Impossible::AgainstBook) => false,
            Some(Impossible::NoToken) => !assessment.facts.takes_back(),
        }
}

/// Whether an assessment lets pass what only leaves a position or only takes back what others may take.
fn may_pass(assessment: &Assessment) -> bool {
    !assessment.blocks() && despite_disputes(assessment)
}

/// Whether all that speaks against it here is that a transaction reverts, and its price would be fair.
fn only_reverts(assessment: &Assessment, limits: &slippage::SlippageLimits) -> bool {
    let facts = &assessment.facts;
    let reverts = facts.simulation.as_ref().is_some_and(|simulated| {
        simulated.simulation.outcomes.iter().any(|outcome| matches!(outcome.status, Status::Reverted(_)))
    });
    reverts && facts.values.as_ref().is_ok_and(|values| slippage::fair(values, true, limits.max_loss).is_ok())
}

/// The same with the contradiction in its verdicts, for the audit log and the operator.
fn noting(mut assessment: Assessment, dispute: &Dispute) -> Assessment {
    assessment.verdicts.push(Verdict::warned(Check::ChainHealth, Finding::said(dispute)));
    assessment
}

/// The same, blocked by the contradiction.
fn refused(mut assessment: Assessment, dispute: &Dispute) -> Assessment {
    let violation = Violation::new(
        RULE,
        "every endpoint that follows the chain gives the same values",
        dispute.to_string(),
        "the same once the wrong endpoint is removed; an exit or a revocation now",
    );
    let verdict = Verdict::because(Check::ChainHealth, ErrorCode::ChainInconsistent, dispute, vec![violation]);
    // First, so that it names the error: every other verdict rests on values that endpoints contradict.
    assessment.verdicts.insert(0, verdict);
    assessment
}
