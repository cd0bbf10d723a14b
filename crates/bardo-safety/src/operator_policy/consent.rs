//! Consent that the operator's policy requires, and the actions that a standing "always" covers. Pure functions of
//! policy, payload and check inputs.

use crate::approval::{ApprovalNeed, ApprovalReason};
use crate::check_inputs::CheckInputs;
use crate::policy::{ItemName, Policy};
use crate::proposal::ProposalIntent;
use crate::second_approval::SecondRequirement;
use crate::signing_payload::SigningPayload;
use crate::value::is_unlimited;
use bardo_base::fabric::CheckReason;
use bardo_base::model::CapabilityTier;
use bardo_base::units::Usd;

/// Dollars that an action spends or exposes to earlier allowances; `None` if unknown, which callers treat as above every
/// threshold.
fn at_stake(inputs: &CheckInputs) -> Option<Usd> {
    inputs.values.as_ref().ok().and_then(|values| values.spent.checked_add(values.exposed).ok())
}

/// Returns the consent that the policy requires.
pub(crate) fn of(policy: &Policy, payload: &SigningPayload, inputs: &CheckInputs) -> ApprovalNeed {
    let Some(spent) = at_stake(inputs) else {
        // A check blocks an unknown value. If none did, it must not pass without approval.
        return ApprovalNeed::Approval { reasons: vec![ApprovalReason::Untold] };
    };
    let proposal = payload.proposal();
    let needs = policy.consent(proposal.tool.name, spent);
    // A transfer cannot be undone: unless the policy sets a threshold for the tool, each one needs approval.
    let own = policy.rules().tools.0.contains_key(proposal.tool.name);
    match proposal.intent == ProposalIntent::Transfer && !own {
        true => needs.and_asking(ApprovalReason::Found(CheckReason::Transfer)),
        false => needs,
    }
}

/// Returns the second approval that the policy requires.
pub(crate) fn second_approval(
    policy: &Policy,
    payload: &SigningPayload,
    inputs: &CheckInputs,
) -> Option<SecondRequirement> {
    let (most, approvers) = policy.second_approval()?;
    let needed = |above| Some(SecondRequirement { above, approvers: approvers.clone() });
    match payload.proposal().tool.capability {
        // Who acts next is worth more than what moves now.
        CapabilityTier::Privileged => return needed(None),
        CapabilityTier::Read | CapabilityTier::Write => {}
    }
    // Taking back what was given must not wait for a second person.
    if inputs.only_revokes() {
        return None;
    }
    // What an unlimited allowance can take is not what the account holds today.
    if payload.proposal().allowances.iter().any(|bound| is_unlimited(bound.at_most)) {
        return needed(None);
    }
    match at_stake(inputs) {
        Some(spent) if spent <= most => None,
        Some(_) => needed(Some(most)),
        None => needed(None),
    }
}

/// Returns true if the safety-guardian must agree.
pub(crate) fn above_hot_lane(policy: &Policy, inputs: &CheckInputs) -> bool {
    at_stake(inputs).is_none_or(|spent| policy.above_hot_lane(spent))
}

/// Returns true if the operator's standing "always" may replace an approval.
pub(crate) fn always_covers(policy: &Policy, devnet: bool, payload: &SigningPayload, inputs: &CheckInputs) -> bool {
    let tool = &payload.proposal().tool;
    let named = policy.rules().always_approve.allows(&ItemName(tool.name.to_owned()), false);
    match tool.capability {
        CapabilityTier::Read => true,
        CapabilityTier::Write => named && (devnet || !above_hot_lane(policy, inputs)),
        CapabilityTier::Privileged => false,
    }
}

/// Returns true if the transactions must go to a private relay only.
pub(crate) fn needs_private_relay(policy: &Policy, payload: &SigningPayload, inputs: &CheckInputs) -> bool {
    let mainnet = payload.proposal().chain_id == 1;
    // A wrapping has no price that others could move.
    mainnet && inputs.values.as_ref().map_or(true, |values| policy.wants_private_rpc(values.spent))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use alloy::primitives::Address;

    use super::*;
    use crate::policy::parse;
    use crate::proposal::{AllowanceBound, AllowanceKind};
    use crate::sample;
    use crate::value::{ActionValues, UnknownValue};
    use bardo_base::model::Phase;

    fn policy(lines: &str) -> Policy {
        parse(&format!("preset = \"demo\"\n{lines}"), Path::new("policy.toml")).unwrap()
    }

    /// A swap on a chain, and its check inputs with this value spent; `None` for an unknown value.
    fn swap(chain_id: u64, spent: Option<&str>, allowances: Vec<AllowanceBound>) -> (SigningPayload, CheckInputs) {
        let me = Address::repeat_byte(1);
        let call = sample::leg(Address::repeat_byte(2), alloy::primitives::bytes!("01020304"));
        let mut frame = sample::frame(sample::proposal(me, ProposalIntent::Swap, call));
        frame.proposal.chain_id = chain_id;
        frame.proposal.allowances = allowances;
        let values = spent.map(|spent| ActionValues { spent: spent.parse().unwrap(), ..ActionValues::default() });
        let inputs = CheckInputs {
            asked: false,
            now_millis: 1_000,
            block_time: 1,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: values.ok_or_else(|| UnknownValue::because("no price")),
            portfolio: Ok(Default::default()),
            simulation: None,
        };
        (SigningPayload::new(frame).unwrap(), inputs)
    }

    fn private(lines: &str, chain_id: u64, spent: Option<&str>) -> bool {
        let (payload, inputs) = swap(chain_id, spent, Vec::new());
        needs_private_relay(&policy(lines), &payload, &inputs)
    }

    #[test]
    fn a_second_approval_is_asked_above_the_amount_and_for_an_unknown_or_unlimited_one() {
        let approver = Address::repeat_byte(9);
        let lines = format!("[second_approval]\nabove_usd = \"100\"\napprovers = [\"{approver}\"]\n");
        let above = |limit: Option<&str>| {
            let above = limit.map(|limit| limit.parse().unwrap());
            Some(SecondRequirement { above, approvers: [approver].into() })
        };
        for (spent, expected) in [
            (Some("0"), None),
            (Some("99.999999"), None),
            (Some("100"), None),
            (Some("100.000001"), above(Some("100"))),
            (Some("1000000"), above(Some("100"))),
            (None, above(None)),
        ] {
            let (payload, inputs) = swap(1, spent, Vec::new());
            assert_eq!(second_approval(&policy(&lines), &payload, &inputs), expected, "{spent:?}");
            assert_eq!(second_approval(&policy(""), &payload, &inputs), None, "a policy without it");
        }
        let unlimited = AllowanceBound {
            token: sample::token(Address::repeat_byte(3), "IN", 18),
            spender: Address::repeat_byte(4),
            kind: AllowanceKind::Erc20,
            at_most: alloy::primitives::U256::MAX,
        };
        let (payload, inputs) = swap(1, Some("1"), vec![unlimited]);
        assert_eq!(second_approval(&policy(&lines), &payload, &inputs), above(None));
    }

    #[test]
    fn what_is_large_or_of_unknown_size_is_shown_to_nobody_on_mainnet() {
        let limit = "private_rpc_above_usd = \"1000\"\n";
        for (chain_id, spent, expected) in [
            (1, Some("999.99"), false),
            (1, Some("1000"), false),
            (1, Some("1000.01"), true),
            (1, None, true),
            // Test networks and devnets have no front-runners to hide from.
            (31_337, Some("1000.01"), false),
            (31_337, None, false),
            (11_155_111, Some("1000000"), false),
        ] {
            assert_eq!(private(limit, chain_id, spent), expected, "{chain_id} {spent:?}");
        }
        let never = "private_rpc_above_usd = \"none\"\n";
        assert!(!private(never, 1, Some("1000000")));
        assert!(private(never, 1, None), "no limit tells nothing of what cannot be told");
        assert!(private("private_rpc_above_usd = \"0\"\n", 1, Some("0.01")));
    }
}
