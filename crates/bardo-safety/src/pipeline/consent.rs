//! Required consent, and whether the given consent suffices. Pure functions.

use super::{Pipeline, PipelineRefusal, Preview};
use crate::approval::{ApprovalNeed, ApprovalReason, ApprovalSource, Consent};
use crate::check_inputs::CheckInputs;
use crate::proposal::ProposalIntent;
use crate::second_approval::{SecondError, SecondRequirement};
use crate::signing_payload::SigningPayload;
use crate::verdict::Verdict;
use bardo_base::error::ErrorCode;
use bardo_base::model::{CapabilityTier, Check};
use golem_chain::network::NetworkKind;

/// Combines the consent that the policy requires with the consent that no policy can waive.
pub(crate) fn needs(
    by_rules: ApprovalNeed,
    payload: &SigningPayload,
    inputs: &CheckInputs,
    verdicts: &[Verdict],
    above_hot_lane: bool,
    parties: &[ApprovalReason],
) -> ApprovalNeed {
    // A revocation needs no consent, except when the operator's own revocations exceed the policy's rate.
    let takes_nonce = Pipeline::replacement_reason(payload, inputs);
    if inputs.only_revokes()
        && payload.proposal().tool.capability != CapabilityTier::Privileged
        && takes_nonce.is_none()
    {
        let rate = verdicts.iter().filter(|verdict| verdict.check == Check::RateLimit);
        let asks = rate.flat_map(|verdict| &verdict.asks);
        return asks.fold(ApprovalNeed::Instant, |needs, why| needs.and_asking(ApprovalReason::Found(why.clone())));
    }
    let mut needs = by_rules;
    if let Some(why) = takes_nonce {
        needs = needs.and_asking(why);
    }
    if payload.proposal().tool.capability == CapabilityTier::Privileged {
        needs = needs.and_asking(ApprovalReason::Authority);
    } else if payload.proposal().intent == ProposalIntent::Identity {
        // It moves no dollars, but others act on the endpoints and ratings that an agent publishes.
        needs = needs.and_asking(ApprovalReason::Publishes);
    }
    if above_hot_lane {
        needs = needs.and_asking(ApprovalReason::HotLane);
    }
    for why in parties {
        needs = needs.and_asking(why.clone());
    }
    // Exits may use any price; an entry needs a price that the operator has seen.
    let leaves = inputs.simulation.as_ref().is_some_and(|simulated| simulated.leaves);
    let concerns = inputs.values.iter().flat_map(|values| &values.concerns).filter(|_| !leaves && exchanges(payload));
    for concern in concerns {
        needs = needs.and_asking(ApprovalReason::Price(concern.clone()));
    }
    let asks = verdicts.iter().flat_map(|verdict| &verdict.asks);
    asks.fold(needs, |needs, why| needs.and_asking(ApprovalReason::Found(why.clone())))
}

/// Adds the reason for a second approval, which no delay and no standing approval replaces.
pub(crate) fn and_second(needs: ApprovalNeed, second: Option<&SecondRequirement>) -> ApprovalNeed {
    match second {
        Some(second) => needs.and_asking(ApprovalReason::SecondApproval { limit: second.above }),
        None => needs,
    }
}

/// Checks that the consent contains the second approval that the action needs now.
///
/// # Errors
/// [`SecondError`] if it is missing, or does not count any more.
pub(crate) fn second_given(
    second: Option<&SecondRequirement>,
    preview: &Preview,
    given: &Consent,
    now: u64,
) -> Result<(), SecondError> {
    let Some(requirement) = second else { return Ok(()) };
    let given = match given {
        Consent::Approved(yes) => yes.second().filter(|second| yes.permit_ids().any(|id| id == second.permit_id())),
        Consent::None | Consent::Always => None,
    };
    given.ok_or_else(|| requirement.missing())?.verify(preview, requirement, now)
}

/// Returns true if the account gives something and receives something.
fn exchanges(payload: &SigningPayload) -> bool {
    let proposal = payload.proposal();
    let comes_back = proposal.inflows.iter().any(|inflow| inflow.recipient == proposal.account);
    proposal.is_trade() || (comes_back && !proposal.outflows.is_empty())
}

/// Checks that `given` covers `needs`.
///
/// # Errors
/// [`PipelineRefusal`] with `APPROVAL_REQUIRED` if consent is missing or too weak, or with `PERMIT_MISMATCH` if the
/// action needs more consent now than the operator was asked for.
pub(crate) fn enough(
    preview: &Preview,
    needs: &ApprovalNeed,
    given: &Consent,
    word_covers: impl FnOnce() -> bool,
) -> Result<(), PipelineRefusal> {
    let missing = |why: &str| PipelineRefusal::new(ErrorCode::ApprovalRequired, why);
    if matches!(needs, ApprovalNeed::Instant | ApprovalNeed::Notify) {
        return Ok(());
    }
    match given {
        Consent::Approved(yes) if yes.permit_id() != preview.permit.permit_id => {
            Err(missing("the approval is for another permit"))
        }
        Consent::Approved(yes)
            if yes.said() == ApprovalSource::Waited && matches!(needs, ApprovalNeed::Approval { .. }) =>
        {
            Err(missing("it needs an approval; a delay is not enough"))
        }
        // The reasons shown to the operator must cover everything that is needed now.
        Consent::Approved(_) if !preview.needs.covers(needs) => {
            Err(PipelineRefusal::new(ErrorCode::PermitMismatch, "it needs more consent now than when it was requested"))
        }
        Consent::Approved(_) => Ok(()),
        Consent::Always if always_reaches(preview, needs, word_covers) => Ok(()),
        Consent::Always => Err(missing("the standing approval does not cover this")),
        Consent::None => Err(missing("it needs the operator's approval")),
    }
}

/// Returns true if the standing "always" covers the action. On a devnet it covers everything that the rules allow.
/// Elsewhere it covers what the policy names, but no privileged tool and no reason that concerns this action alone.
fn always_reaches(preview: &Preview, needs: &ApprovalNeed, word_covers: impl FnOnce() -> bool) -> bool {
    let privileged = preview.payload.proposal().tool.capability == CapabilityTier::Privileged;
    match preview.network {
        NetworkKind::Devnet => true,
        NetworkKind::Test | NetworkKind::Real => {
            let of_this_one = needs.reasons().iter().any(ApprovalReason::is_of_this_one);
            !privileged && !of_this_one && word_covers()
        }
    }
}
