//! PolicyCage check: whether the account's on-chain policy contract allows the action. It uses the rules read from the
//! contract; an account without rules is not restricted.

use crate::check_inputs::CheckInputs;
use crate::onchain_policy::{OnchainPolicy, PlanEffects};
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::value::UnknownValue;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::Finding;
use bardo_base::model::{Check, RuleName};

/// Checks the action against the account's on-chain rules.
pub fn check(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    cage: &Result<Option<OnchainPolicy>, UnknownValue>,
) -> Verdict {
    let proposal = payload.proposal();
    if proposal.intent == ProposalIntent::PolicyCage {
        // The owner may change the rules whatever they say. `safety::calldata` reads the calls back.
        return Verdict::passed(Check::PolicyCage, Finding::OwnRules);
    }
    let cage = match cage {
        Ok(Some(cage)) => cage,
        Ok(None) => return Verdict::passed(Check::PolicyCage, Finding::NoCage),
        Err(doubt) => {
            let violation = Violation::new(
                RuleName::PolicyCage,
                "readable rules",
                doubt.to_string(),
                "the same when the policy contract can be read",
            );
            return Verdict::because(Check::PolicyCage, ErrorCode::SafetyCageViolation, doubt, vec![violation]);
        }
    };
    let plan = PlanEffects {
        // The delegation manager forwards the proposed call to the contract, however it is wrapped.
        calls: proposal.legs.iter().map(|leg| (leg.to, leg.value, leg.data.as_ref())).collect(),
        out: proposal.outflows.iter().map(|flow| (flow.token.id, flow.amount)).collect(),
        into: proposal
            .inflows
            .iter()
            .filter(|inflow| inflow.recipient == proposal.account)
            .map(|inflow| (inflow.token.id, inflow.at_least, inflow.expected.max(inflow.at_least)))
            .collect(),
    };
    let violations = cage.judge(&plan, inputs.block_time);
    if violations.is_empty() {
        return Verdict::passed(Check::PolicyCage, Finding::InsideCage { contract: cage.contract });
    }
    Verdict::broken(Check::PolicyCage, ErrorCode::SafetyCageViolation, violations)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, Bytes};

    use super::*;
    use crate::sample;
    use bardo_base::model::Phase;

    #[test]
    fn rules_that_cannot_be_read_let_nothing_through() {
        let me = Address::repeat_byte(1);
        let proposal = sample::proposal(me, ProposalIntent::Swap, sample::leg(me, Bytes::from_static(&[1, 2, 3, 4])));
        let payload = SigningPayload::new(sample::frame(proposal)).unwrap();
        let inputs = CheckInputs {
            asked: false,
            now_millis: 1,
            block_time: 1,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: Ok(Default::default()),
            portfolio: Ok(Default::default()),
            simulation: None,
        };
        let verdict = check(&payload, &inputs, &Err(UnknownValue::because("it does not tell its rules")));
        assert_eq!(verdict.code, Some(ErrorCode::SafetyCageViolation));
        assert_eq!((verdict.violations()[0].rule.as_str(), verdict.blocks()), ("policy_cage", true));
        assert!(!check(&payload, &inputs, &Ok(None)).blocks(), "an account without rules is not caged");
    }
}
