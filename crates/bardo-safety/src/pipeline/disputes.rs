//! Endpoint disputes: actions that may be signed although endpoints contradict each other.
//!
//! Everything that an assessment reads is compared on all endpoints of the chain. If they differ, only exits,
//! revocations, cancellations and refunds can pass. These pass on the majority's values. Without a majority, the action
//! is assessed on each endpoint alone, and must pass on most of them. With two endpoints it must pass on both, or pass
//! on one and merely revert on the other: a reverting transaction costs only its gas. An endpoint that cannot be read,
//! or that contradicts the address book, does not count.

use tracing::instrument;

use super::assess::Assessment;
use super::chain_view::{ChainView, ImpossibleChain};
use super::{Pipeline, PipelineRefusal};
use crate::chain_snapshot::SnapshotReader;
use crate::checks::slippage;
use crate::signing_payload::SigningPayload;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::Finding;
use bardo_base::model::{Check, Phase, RuleName};
use golem_chain::fork::ExecutionStatus;
use golem_chain::provider::{Dispute, DisputeMark};

/// Rule that a contradiction between endpoints violates.
pub(super) const RULE: RuleName = RuleName::EndpointsAgree;

impl Pipeline {
    /// Assesses the transactions of `payload` from index `from` on the chain's latest block. Reuses `earlier` if it was
    /// read on that block. The module documentation says what happens when endpoints contradict each other.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the chain cannot be read at all. Anything that blocks the payload is in the verdicts.
    #[instrument(level = "debug", name = "checks", skip_all, fields(chain_id = payload.proposal().chain_id))]
    pub(super) async fn assess(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
        from: usize,
        phase: Phase,
        earlier: Option<&ChainView>,
    ) -> Result<Assessment, PipelineRefusal> {
        let marks = self.marks();
        let assessed = self.assess_on(reader, payload, from, phase, earlier).await;
        let Some((dispute, all_decided)) = self.disputed_since(&marks) else { return assessed };
        match assessed {
            // The majority's values.
            Ok(assessment) if all_decided && may_pass(&assessment) => Ok(noting(assessment, &dispute)),
            Ok(assessment) if all_decided => Ok(refused(assessment, &dispute)),
            undecided => {
                match self.assess_each(reader, payload, from, phase).await {
                    Some(assessment) => Ok(noting(assessment, &dispute)),
                    None => undecided.map(|assessment| refused(assessment, &dispute)).map_err(|refusal| {
                        PipelineRefusal { code: ErrorCode::ChainInconsistent, message: dispute.to_string(), ..refusal }
                    }),
                }
            }
        }
    }

    /// Returns the assessment on which an exit or a revocation may pass although the endpoints have no majority; `None`
    /// if it may not pass.
    async fn assess_each(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
        from: usize,
        phase: Phase,
    ) -> Option<Assessment> {
        let views: Vec<SnapshotReader> =
            reader.client.each_alone().into_iter().map(|(_, client)| reader.alone(client)).collect();
        let assessed = views.iter().map(|view| self.assess_on(view, payload, from, phase, None));
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
        // Of the passing assessments, use the most pessimistic: the one with the highest spending.
        let spent = |one: &Assessment| one.inputs.values.as_ref().map(|values| values.spent).ok();
        passing.into_iter().filter(|_| enough).max_by_key(spent)
    }

    fn marks(&self) -> Vec<DisputeMark> {
        self.inner.chains.iter().map(|chain| chain.reader.client.dispute_mark()).collect()
    }

    /// Returns the latest dispute on any chain since `marks`, and whether a majority settled all of them. Other chains
    /// count too, because the value of a bridge order's output is read from its destination.
    fn disputed_since(&self, marks: &[DisputeMark]) -> Option<(Dispute, bool)> {
        let chains = self.inner.chains.iter().zip(marks);
        let disputes = chains.filter_map(|(chain, mark)| chain.reader.client.disputes_since(*mark));
        disputes.fold(None, |found: Option<(Dispute, bool)>, one| match found {
            Some((dispute, decided)) if one.all_decided => Some((dispute, decided)),
            Some((_, _)) | None => Some((one.last, one.all_decided)),
        })
    }
}

/// Returns true if endpoint disputes must not block the action: it is a fair exit, or only revokes, cancels or refunds.
pub(super) fn despite_disputes(assessment: &Assessment) -> bool {
    assessment.inputs.reduce_only() || assessment.inputs.only_revokes()
}

/// Returns true if one endpoint's assessment counts. It does not if the calls cannot be simulated there, or if it
/// contradicts the address book, which no honest endpoint does. An unlisted address may really not be a token, so that
/// blocks everything but revocations, which cost only gas either way.
fn is_present(assessment: &Assessment) -> bool {
    assessment.inputs.simulation.is_some()
        && match assessment.view.impossible {
            None => true,
            Some(ImpossibleChain::AgainstBook) => false,
            Some(ImpossibleChain::NoToken) => !assessment.inputs.only_revokes(),
        }
}

/// Returns true if the assessment passes an exit or a revocation.
fn may_pass(assessment: &Assessment) -> bool {
    !assessment.blocks() && despite_disputes(assessment)
}

/// Returns true if the only problem is a reverting transaction, and the price would be fair.
fn only_reverts(assessment: &Assessment, limits: &slippage::SlippageLimits) -> bool {
    let inputs = &assessment.inputs;
    let reverts = inputs.simulation.as_ref().is_some_and(|simulated| {
        simulated.simulation.outcomes.iter().any(|outcome| matches!(outcome.status, ExecutionStatus::Reverted(_)))
    });
    reverts && inputs.values.as_ref().is_ok_and(|values| slippage::fair(values, true, limits.max_loss).is_ok())
}

/// Adds the dispute to the verdicts as a warning, for the audit log and the operator.
fn noting(mut assessment: Assessment, dispute: &Dispute) -> Assessment {
    assessment.verdicts.push(Verdict::warned(Check::ChainHealth, Finding::said(dispute)));
    assessment
}

/// Blocks the assessment because of the dispute.
fn refused(mut assessment: Assessment, dispute: &Dispute) -> Assessment {
    let violation = Violation::new(
        RULE,
        "every synced endpoint returns the same values",
        dispute.to_string(),
        "the same after removing the wrong endpoint; an exit or a revocation now",
    );
    let verdict = Verdict::because(Check::ChainHealth, ErrorCode::ChainInconsistent, dispute, vec![violation]);
    // First, so that it determines the error: every other verdict depends on disputed values.
    assessment.verdicts.insert(0, verdict);
    assessment
}
