//! Compares the operator's checks with a small model of them, rule by rule: `case` generates cases, `obvious` computes
//! the expected violations.

mod case;
mod exact;
mod obvious;

use std::collections::BTreeMap;

use rand::SeedableRng;

use bardo_base::error::Violation;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use case::ModelCase;

pub(crate) const META: ToolMeta = ToolMeta {
    name: "uniswap_execute_swap",
    description: "",
    category: Category::Trading,
    capability: CapabilityTier::Write,
    risk_tier: RiskTier::Layer3,
    tick_budget: TickBudget::Slow,
    progress_steps: &[],
    sprite_trigger: SpriteTrigger::Executing,
    prompt_snippet: "",
    prompt_guidelines: Guidelines { thriving: "", cautious: "", declining: "", terminal: "", memory: None },
    idempotent: false,
    action_class: ActionClass::ReadOnly,
    checks: &[],
    event_params: &[],
    summary_fields: &[],
    card: None,
    spenders: &[],
};

#[test]
fn the_checks_agree_with_a_small_model_of_themselves() {
    let count = if std::env::var_os("BARDO_LONG").is_some() { 100_000 } else { 20_000 };
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    let (mut passed, mut asked) = (0, 0);
    let (mut checks, mut rules) = (BTreeMap::<Check, usize>::new(), BTreeMap::<String, usize>::new());
    for number in 0..count {
        let case = ModelCase::random(&mut random);
        let verdicts = case.decide(&case.policy().unwrap());
        let broken = verdicts
            .iter()
            .flat_map(|verdict| verdict.violations().iter().map(|one| (verdict.check, one.rule.to_string())));
        let mut found: Vec<_> = broken.collect();
        let mut expected = case.broken();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "case {number}: {case:#?}\n{verdicts:#?}");
        let asks = verdicts.iter().any(|verdict| !verdict.asks.is_empty());
        assert_eq!(asks, case.asks(), "case {number}: {case:#?}\n{verdicts:#?}");
        for one in verdicts {
            // A blocked caller gets the rule, the limit, the value and a value that would pass.
            assert_eq!(one.blocks(), !one.violations().is_empty(), "{one:?}");
            assert_eq!(one.blocks(), one.code.is_some(), "{one:?}");
            let whole = |one: &Violation| ![&one.limit, &one.value, &one.would_pass].iter().any(|text| text.is_empty());
            assert!(one.violations().iter().all(whole), "{one:?}");
            *checks.entry(one.check).or_default() += usize::from(one.blocks());
        }
        passed += usize::from(found.is_empty());
        asked += usize::from(asks);
        found.into_iter().for_each(|(_, rule)| *rules.entry(rule).or_default() += 1);
    }
    // The cases have coverage: each check and each rule blocks some, some ask for approval and some pass.
    assert!(passed > 50 && asked > 500, "{passed} passed, {asked} asked");
    assert_eq!(checks.len(), 7, "{checks:?}");
    assert!(checks.values().all(|blocked| (count / 50..count).contains(blocked)), "{checks:?}");
    assert_eq!(rules.len(), obvious::RULES, "{rules:#?}");
    assert!(rules.values().all(|broken| (count / 1_000..count).contains(broken)), "{rules:#?}");
}
