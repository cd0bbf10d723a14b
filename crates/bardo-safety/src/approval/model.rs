//! Model test of the required level of consent and of the consent that is enough. The model follows the specification's
//! page on approval and the descriptions of the policy fields, in whole dollars.

use bardo_base::fabric::{CheckReason, Finding};
use std::collections::BTreeSet;

use alloy::primitives::{Address, B256, Bytes, U256};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{ActionApproval, ApprovalNeed, ApprovalReason, ApprovalSource, Consent};
use crate::check_inputs::CheckInputs;
use crate::operator_policy::consent as by_policy;
use crate::permit::ActionPermit;
use crate::pipeline::{Preview, consent};
use crate::policy::{Policy, parse};
use crate::proposal::{Proposal, ProposalIntent};
use crate::sample;
use crate::signing_payload::SigningPayload;
use crate::simulate::SimulatedEffects;
use crate::value::{ActionValues, UnknownValue};
use crate::verdict::Verdict;
use bardo_base::id::PermitId;
use bardo_base::model::{ActionClass, CapabilityTier, Check, Phase};
use bardo_base::units::Usd;
use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};
use golem_chain::network::NetworkKind;

const ME: Address = Address::repeat_byte(1);

pub(crate) fn usd(whole: u64) -> Usd {
    Usd::from_scaled(U256::from(whole), 0).unwrap()
}

/// A call for this account that moves no tokens.
pub(crate) fn proposal() -> Proposal {
    sample::proposal(ME, ProposalIntent::Swap, sample::leg(ME, Bytes::from_static(&[1, 2, 3, 4])))
}

pub(super) fn simulated(only_revokes: bool) -> SimulatedEffects {
    let pinned = PinnedBlock { chain_id: 31_337, number: 1, hash: B256::ZERO };
    SimulatedEffects {
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
    }
}

/// A preview of `proposal` with a value of `dollars`.
pub(crate) fn preview(proposal: Proposal, dollars: u64, now: u64) -> Preview {
    let payload = SigningPayload::new(sample::frame(proposal)).unwrap();
    Preview {
        permit: ActionPermit::issue(&payload, B256::ZERO, now, 60_000),
        payload,
        simulated: simulated(false),
        values: ActionValues { spent: usd(dollars), ..ActionValues::default() },
        counted: usd(dollars),
        verdicts: vec![],
        needs: ApprovalNeed::Approval { reasons: vec![] },
        opinion: None,
        above_hot_lane: false,
        largest_granted: None,
        second: None,
        first_seen: false,
        parties: vec![],
        policy: B256::ZERO,
        phase: Phase::Thriving,
        own: None,
        last_stop: None,
        network: NetworkKind::Devnet,
        paper: false,
        under_way: crate::pipeline::UnderWay::default(),
    }
}

/// Random inputs of one case, with values in whole dollars.
#[derive(Debug, Clone)]
struct Case {
    approval_above: Option<u64>,
    tool_above: Option<u64>,
    hot_lane: Option<u64>,
    delay_above: Option<u64>,
    delay_seconds: u64,
    notify_above: Option<u64>,
    named: bool,
    privileged: bool,
    transfer: bool,
    first_seen: bool,
    first_allowed: bool,
    resembles: bool,
    found: bool,
    only_revokes: bool,
    network: NetworkKind,
    /// Value when the preview was shown, and value now; `None` if it is unknown.
    shown: Option<u64>,
    now: Option<u64>,
    given: &'static str,
}

/// Level of consent in the model's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    Instant,
    Notify,
    Delay(u64),
    Approval(BTreeSet<&'static str>),
}

const TOOL_FIELD: &str = "tools.uniswap_execute_swap.requires_approval_above_usd";
/// Policy fields whose limits compare the action's value.
const FIELDS: [&str; 3] = ["require_human_approval_above_usd", TOOL_FIELD, "spending_limits.hot_lane"];

impl Case {
    fn random(random: &mut impl Rng) -> Self {
        fn maybe(random: &mut impl Rng, around: u64) -> Option<u64> {
            random.random_bool(0.7).then(|| random.random_range(around / 2..=around * 2))
        }
        let shown = random.random_bool(0.95).then(|| random.random_range(0..3_000));
        let risen = |shown: u64, random: &mut _| match Rng::random_range(random, 0..4) {
            0 => Rng::random_range(random, 0..3_000),
            1 => shown * 102 / 100,
            2 => shown * 102 / 100 + 1,
            _ => shown,
        };
        let now = shown.map(|shown| risen(shown, random)).filter(|_| random.random_bool(0.97));
        Self {
            approval_above: maybe(random, 1_000),
            tool_above: maybe(random, 800),
            hot_lane: maybe(random, 2_000),
            delay_above: maybe(random, 500),
            delay_seconds: random.random_range(0..100),
            notify_above: maybe(random, 200),
            named: random.random_bool(0.5),
            privileged: random.random_bool(0.1),
            transfer: random.random_bool(0.2),
            first_seen: random.random_bool(0.1),
            first_allowed: random.random_bool(0.03),
            resembles: random.random_bool(0.03),
            found: random.random_bool(0.1),
            only_revokes: random.random_bool(0.1),
            network: *[NetworkKind::Devnet, NetworkKind::Test, NetworkKind::Real].choose(random).unwrap(),
            shown,
            now,
            given: ["nothing", "a yes", "a yes to another", "waiting", "always"].choose(random).unwrap(),
        }
    }

    fn policy(&self) -> Policy {
        let most = |most: Option<u64>| most.map_or("\"none\"".to_owned(), |most| format!("\"{most}\""));
        let tool = self.tool_above.map_or(String::new(), |above| {
            format!("uniswap_execute_swap = {{ requires_approval_above_usd = {above} }}")
        });
        let text = format!(
            "preset = \"demo\"\nrequire_human_approval_above_usd = {}\ntools = {{ {tool} }}\n\
             spending_limits.hot_lane = {}\ndelay_above_usd = {}\ndelay_seconds = {}\nnotify_above_usd = {}\n\
             always_approve = [\"{}\"]\n",
            most(self.approval_above),
            most(self.hot_lane),
            most(self.delay_above),
            self.delay_seconds,
            most(self.notify_above),
            if self.named { "uniswap_execute_swap" } else { "another" },
        );
        parse(&text, std::path::Path::new("model.toml")).unwrap()
    }

    fn preview(&self) -> Preview {
        let mut proposal = proposal();
        if self.privileged {
            proposal.tool.capability = CapabilityTier::Privileged;
        }
        if self.transfer {
            proposal.intent = ProposalIntent::Transfer;
        }
        Preview { network: self.network, ..preview(proposal, 0, 1_000) }
    }

    /// Level of consent that the code computes for a value.
    fn taken(&self, policy: &Policy, payload: &SigningPayload, value: Option<u64>) -> (ApprovalNeed, CheckInputs) {
        let values = value.map(|value| ActionValues { spent: usd(value), ..ActionValues::default() });
        let inputs = CheckInputs {
            asked: false,
            now_millis: 1_000,
            block_time: 1,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: values.ok_or_else(|| UnknownValue::because("no price")),
            portfolio: Ok(Default::default()),
            simulation: Some(simulated(self.only_revokes)),
        };
        let passed = Verdict::passed(Check::SlippageGuard, Finding::NothingTraded);
        let verdict = if self.found { passed.asking(CheckReason::HookTakesPart) } else { passed };
        let by_rules = by_policy::of(policy, payload, &inputs);
        let above = by_policy::above_hot_lane(policy, &inputs);
        let alike = ApprovalReason::Resembles { who: Address::repeat_byte(1), known: Address::repeat_byte(2) };
        let parties = [
            (self.first_seen, ApprovalReason::FirstPaid),
            (self.first_allowed, ApprovalReason::FirstAllowed),
            (self.resembles, alike),
        ];
        let parties: Vec<_> = parties.into_iter().filter(|(is, _)| *is).map(|(_, why)| why).collect();
        (consent::needs(by_rules, payload, &inputs, &[verdict], above, &parties), inputs)
    }

    /// Level of consent that the model expects for a value.
    fn asks(&self, value: Option<u64>) -> Need {
        if self.only_revokes && !self.privileged {
            return Need::Instant;
        }
        let above = |limit: Option<u64>| limit.is_some_and(|limit| value.is_some_and(|value| value > limit));
        let reasons = [
            (FIELDS[0], above(self.approval_above)),
            (FIELDS[1], above(self.tool_above)),
            (FIELDS[2], above(self.hot_lane)),
            ("hot lane", value.is_none() || above(self.hot_lane)),
            ("untold", value.is_none()),
            ("authority", self.privileged),
            ("first paid", self.first_seen),
            ("first allowed", self.first_allowed),
            ("resembles", self.resembles),
            ("given away", value.is_some() && self.transfer && self.tool_above.is_none()),
            ("found", self.found),
        ];
        let reasons: BTreeSet<_> = reasons.into_iter().filter(|(_, is)| *is).map(|(reason, _)| reason).collect();
        if !reasons.is_empty() {
            Need::Approval(reasons)
        } else if above(self.delay_above) {
            Need::Delay(self.delay_seconds)
        } else if above(self.notify_above) {
            Need::Notify
        } else {
            Need::Instant
        }
    }

    /// Model: whether the preview that was approved covers the level that is needed now.
    fn shown_covers(&self, now: &Need) -> bool {
        match (self.asks(self.shown), now) {
            (_, Need::Instant | Need::Notify) | (Need::Approval(_), Need::Delay(_)) => true,
            (Need::Delay(waited), Need::Delay(needed)) => waited >= *needed,
            (Need::Approval(known), Need::Approval(needed)) => {
                let by_value = needed.iter().any(|reason| FIELDS.contains(reason));
                // A price may rise by up to 2 % while the operator reads.
                let risen = match (self.shown, self.now) {
                    (Some(shown), Some(now)) => now * 100 > shown * 102,
                    _ => true,
                };
                needed.is_subset(&known) && !(by_value && risen)
            }
            (_, Need::Delay(_) | Need::Approval(_)) => false,
        }
    }

    /// Model: whether the given consent is enough.
    fn enough(&self) -> bool {
        let now = self.asks(self.now);
        match (&now, self.given) {
            (Need::Instant | Need::Notify, _) => true,
            (_, "a yes") => self.shown_covers(&now),
            (Need::Delay(_), "waiting") => self.shown_covers(&now),
            (_, "always") if self.network == NetworkKind::Devnet => true,
            (Need::Approval(reasons), "always") => {
                let never = ["authority", "hot lane", "untold", "given away", "resembles", "found"];
                self.named && !never.iter().any(|reason| reasons.contains(reason))
            }
            (Need::Delay(_), "always") => self.named,
            _ => false,
        }
    }
}

/// Converts the code's level into the model's terms.
fn read(need: &ApprovalNeed) -> Need {
    let reason = |reason: &ApprovalReason| match reason {
        ApprovalReason::Above { field, .. } => *FIELDS.iter().find(|one| **one == field.as_str()).unwrap(),
        ApprovalReason::HotLane => "hot lane",
        ApprovalReason::Untold => "untold",
        ApprovalReason::Authority => "authority",
        ApprovalReason::Publishes => "publishes",
        ApprovalReason::FirstPaid => "first paid",
        ApprovalReason::FirstAllowed => "first allowed",
        ApprovalReason::Resembles { .. } => "resembles",
        ApprovalReason::Price(_) => "price",
        ApprovalReason::Found(CheckReason::Transfer) => "given away",
        ApprovalReason::SecondApproval { .. } => "second",
        ApprovalReason::Replaces { .. } => "replaces",
        ApprovalReason::Found(_) => "found",
    };
    match need {
        ApprovalNeed::Instant => Need::Instant,
        ApprovalNeed::Notify => Need::Notify,
        ApprovalNeed::Delay { millis } => Need::Delay(millis / 1_000),
        ApprovalNeed::Approval { reasons } => Need::Approval(reasons.iter().map(reason).collect()),
    }
}

#[test]
fn consent_agrees_with_a_small_model_of_itself() {
    let count = if std::env::var_os("BARDO_LONG").is_some() { 150_000 } else { 30_000 };
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let mut seen = std::collections::BTreeMap::<(&str, &str, bool), usize>::new();
    for number in 0..count {
        let case = Case::random(&mut random);
        let (policy, mut preview) = (case.policy(), case.preview());
        preview.needs = case.taken(&policy, &preview.payload, case.shown).0;
        assert_eq!(read(&preview.needs), case.asks(case.shown), "case {number}: {case:#?}");
        let (now, inputs) = case.taken(&policy, &preview.payload, case.now);
        let own = preview.permit.permit_id;
        let yes = |permit_id, source| {
            Consent::Approved(ActionApproval { permit_id, source, grant: None, earlier: vec![], second: None })
        };
        let given = match case.given {
            "a yes" => yes(own, ApprovalSource::Operator),
            "a yes to another" => yes(PermitId::random(), ApprovalSource::Operator),
            "waiting" => yes(own, ApprovalSource::Waited),
            "always" => Consent::Always,
            _ => Consent::None,
        };
        let devnet = case.network == NetworkKind::Devnet;
        let covers = || by_policy::always_covers(&policy, devnet, &preview.payload, &inputs);
        let enough = consent::enough(&preview, &now, &given, covers).is_ok();
        assert_eq!(enough, case.enough(), "case {number}: {case:#?}\n{now:?}");
        *seen.entry((now.word(), case.given, enough)).or_default() += 1;
    }
    // Every level occurs with every kind of consent, and with both results where both are possible.
    let often = |word: &str, given: &str, enough: bool| {
        let times = seen.iter().filter(|((one, two, three), _)| (*one, *two, *three) == (word, given, enough));
        assert!(times.map(|(_, times)| *times).sum::<usize>() > count / 3_000, "{word}, {given}, {enough}: {seen:#?}");
    };
    for given in ["nothing", "a yes", "a yes to another", "waiting", "always"] {
        often("instant", given, true);
        often("notify", given, true);
        for word in ["delay", "approval"] {
            if given != "nothing" && given != "a yes to another" && (word, given) != ("approval", "waiting") {
                often(word, given, true);
            }
            often(word, given, false);
        }
    }
}
