//! How much consent the operator's policy asks for an action, and what it lets a standing word cover: pure functions of the
//! policy, the frame and the facts.

use super::MAX_CHANGE;
use crate::base::model::CapabilityTier;
use crate::base::text::SafeText;
use crate::base::units::Usd;
use crate::safety::approval::{ApprovalNeed, Reason};
use crate::safety::facts::Facts;
use crate::safety::framed::Framed;
use crate::safety::policy::{Policy, Word};
use crate::safety::proposal::Intent;

/// Why a transfer is looked at that nothing else would ask about.
pub(in crate::safety) const GIVES_AWAY: &str =
    "it gives something away, and the policy does not say from how many dollars on that needs you";

/// What counts as spent, or more than anything where that cannot be told.
fn spent(facts: &Facts) -> Option<Usd> {
    facts.values.as_ref().ok().map(|values| values.spent)
}

/// How much consent it takes by the policy.
pub(in crate::safety) fn of(policy: &Policy, framed: &Framed, facts: &Facts) -> ApprovalNeed {
    let Some(spent) = spent(facts) else {
        // A check blocks it; where it did not, nobody agrees to an unknown amount unasked.
        return ApprovalNeed::Approval { reasons: vec![Reason::Untold] };
    };
    let proposal = framed.proposal();
    let needs = policy.consent(proposal.tool.name, spent);
    // What is given away does not come back: unless the policy says from when on, each is looked at.
    let own = policy.rules().tools.0.contains_key(proposal.tool.name);
    match proposal.intent == Intent::Transfer && !own {
        true => needs.and_asking(Reason::Found(SafeText::clean(GIVES_AWAY, MAX_CHANGE))),
        false => needs,
    }
}

/// Whether the safety-guardian must agree.
pub(in crate::safety) fn above_hot_lane(policy: &Policy, facts: &Facts) -> bool {
    spent(facts).is_none_or(|spent| policy.above_hot_lane(spent))
}

/// Whether the operator's standing word may stand for a yes.
pub(in crate::safety) fn always_covers(policy: &Policy, devnet: bool, framed: &Framed, facts: &Facts) -> bool {
    let tool = &framed.proposal().tool;
    let named = policy.rules().always_approve.allows(&Word(tool.name.to_owned()), false);
    match tool.capability {
        CapabilityTier::Read => true,
        CapabilityTier::Write => named && (devnet || !above_hot_lane(policy, facts)),
        CapabilityTier::Privileged => false,
    }
}

/// Whether its transactions go to a private relay alone.
pub(in crate::safety) fn goes_private(policy: &Policy, framed: &Framed, facts: &Facts) -> bool {
    let mainnet = framed.proposal().chain_id == 1;
    mainnet && spent(facts).is_none_or(|spent| policy.wants_private_rpc(spent))
}
