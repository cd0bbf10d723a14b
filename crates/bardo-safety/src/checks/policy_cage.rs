//! PolicyCage check: whether the account's on-chain policy contract allows the action. It uses the rules read from the
//! contract; an account without rules is not restricted. An account that signs with its own key can always revoke.

use crate::account::AccountKind;
use crate::check_inputs::CheckInputs;
use crate::onchain_policy::{OnchainPolicy, PlanEffects};
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::value::UnknownValue;
use crate::vault_calls;
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
    // The contract measures the listed assets, and shares of a vault are none of them: it sees a deposit as spending.
    let share = vault_calls::share(proposal);
    let outflows = proposal.outflows.iter().filter(|flow| share != Some(flow.token.id));
    let plan = PlanEffects {
        // The delegation manager forwards the proposed call to the contract, however it is wrapped.
        calls: proposal.legs.iter().map(|leg| (leg.to, leg.value, leg.data.as_ref())).collect(),
        out: outflows.map(|flow| (flow.token.id, flow.amount)).collect(),
        into: proposal
            .inflows
            .iter()
            .filter(|inflow| inflow.recipient == proposal.account && share != Some(inflow.token.id))
            .map(|inflow| (inflow.token.id, inflow.at_least, inflow.expected.max(inflow.at_least)))
            .collect(),
    };
    let violations = cage.judge(&plan, inputs.block_time);
    let contract = cage.contract;
    if violations.is_empty() {
        return Verdict::passed(Check::PolicyCage, Finding::InsideCage { contract });
    }
    // The contract refuses a delegate even a revocation while one of its feeds is silent, or of a token that it does
    // not list. Without a delegate it would refuse nothing, and an allowance that cannot be revoked may cost
    // everything.
    if inputs.only_revokes() && payload.kind() != AccountKind::Delegated {
        return Verdict::passed(Check::PolicyCage, Finding::TakesBackBesideCage { contract });
    }
    Verdict::broken(Check::PolicyCage, ErrorCode::SafetyCageViolation, violations)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256, Bytes, U256};

    use super::*;
    use crate::sample;
    use crate::simulate::SimulatedEffects;
    use bardo_abi::policy_cage::PolicyCage::Rules;
    use bardo_base::model::{ActionClass, Phase};
    use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};

    const ME: Address = Address::repeat_byte(1);

    fn payload(kind: AccountKind) -> SigningPayload {
        let proposal = sample::proposal(ME, ProposalIntent::Swap, sample::leg(ME, Bytes::from_static(&[1, 2, 3, 4])));
        let mut parts = sample::frame(proposal);
        parts.kind = kind;
        SigningPayload::new(parts).unwrap()
    }

    fn inputs(only_revokes: bool) -> CheckInputs {
        let pinned = PinnedBlock { chain_id: 31_337, number: 1, hash: B256::ZERO };
        CheckInputs {
            asked: false,
            now_millis: 1,
            block_time: 1,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: Ok(Default::default()),
            portfolio: Ok(Default::default()),
            simulation: Some(SimulatedEffects {
                pinned,
                gas_used: 1,
                gas_cost: U256::ZERO,
                class: ActionClass::NewPosition,
                leaves: false,
                reduce_only: false,
                only_revokes,
                moves: vec![],
                paid: vec![],
                lending: None,
                simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
            }),
        }
    }

    #[test]
    fn rules_that_cannot_be_read_let_nothing_through() {
        let (payload, inputs) = (payload(AccountKind::LocalKey), inputs(false));
        let verdict = check(&payload, &inputs, &Err(UnknownValue::because("it does not tell its rules")));
        assert_eq!(verdict.code, Some(ErrorCode::SafetyCageViolation));
        assert_eq!((verdict.violations()[0].rule.as_str(), verdict.blocks()), ("policy_cage", true));
        assert!(!check(&payload, &inputs, &Ok(None)).blocks(), "an account without rules is not caged");
    }

    /// Rules that allow nothing stop every action, and every action of a delegate. Who signs with the account's own key
    /// can still revoke, cancel and take a refund.
    #[test]
    fn revocations_pass_the_rules_unless_sent_by_a_delegate() {
        let rules = Rules {
            assets: vec![],
            calls: vec![],
            spenders: vec![],
            maxDrawdownBps: 0,
            maxLossBps: 0,
            minInterval: 0,
            maxPriceAge: 1,
        };
        let contract = Address::repeat_byte(2);
        let cage = OnchainPolicy {
            contract,
            manager: Address::repeat_byte(3),
            owner: Address::repeat_byte(4),
            rules,
            assets: vec![],
            highest: U256::ZERO,
            last_action: 0,
        };
        let cage = Ok(Some(cage));
        for kind in [AccountKind::LocalKey, AccountKind::DevelopmentKey, AccountKind::Embedded] {
            assert!(check(&payload(kind), &inputs(false), &cage).blocks(), "{kind:?}");
            let passed = check(&payload(kind), &inputs(true), &cage);
            assert_eq!(
                passed,
                Verdict::passed(Check::PolicyCage, Finding::TakesBackBesideCage { contract }),
                "{kind:?}"
            );
        }
        for only_revokes in [false, true] {
            assert!(check(&payload(AccountKind::Delegated), &inputs(only_revokes), &cage).blocks());
        }
    }
}
