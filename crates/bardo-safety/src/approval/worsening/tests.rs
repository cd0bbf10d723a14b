//! Every kind of change for the worse on its own, and every change that is expected while an operator reads.

use alloy::primitives::{B256, U160};
use bardo_base::fabric::{CheckReason, Finding};

use super::*;
use crate::approval::ApprovalNeed;
use crate::approval::model::{preview, proposal, usd};
use crate::guardian::GuardianOpinion;
use crate::permit::ActionPermit;
use crate::proposal::{Inflow, Outflow, Proposal, SignatureSlot};
use crate::sample;
use crate::signing_payload::{FeeBound, SigningPayload};
use crate::value::ValuedAmount;
use bardo_abi::permit2::typed::{PermitDetails, PermitSingle};
use bardo_base::error::ErrorCode;
use bardo_base::model::Phase;

/// Time of the first simulation, in milliseconds since the Unix epoch; the next one is a minute later.
const FIRST: u64 = 1_700_000_000_000;
const NEXT: u64 = FIRST + 60_000;
/// Lifetime of the swap's signature, in seconds.
const USABLE: u64 = 300;

fn weth() -> TokenInfo {
    sample::token(Address::repeat_byte(20), "WETH", 18)
}

fn usdc() -> TokenInfo {
    sample::token(Address::repeat_byte(21), "USDC", 6)
}

/// Converts a whole amount into raw units.
fn raw(whole: u64, decimals: u8) -> U256 {
    U256::from(whole) * U256::from(10).pow(U256::from(decimals))
}

/// A swap of one WETH for at least 3,000 USDC with a Permit2 signature, proposed at `at`.
fn swap(at: u64) -> Proposal {
    let spender = Address::repeat_byte(66);
    let expires_at = at / 1_000 + USABLE;
    let mut proposal = proposal();
    let recipient = proposal.account;
    proposal.outflows = vec![Outflow { token: weth(), amount: raw(1, 18) }];
    let (at_least, expected) = (raw(3_000, 6), raw(3_015, 6));
    proposal.inflows = vec![Inflow { token: usdc(), at_least, expected, recipient }];
    let kind = AllowanceKind::Permit2 { expires_at };
    proposal.allowances = vec![AllowanceBound { token: weth(), spender, kind, at_most: raw(1, 18) }];
    let details = PermitDetails {
        token: Address::repeat_byte(20),
        amount: U160::from(1_000_000_000_000_000_000_u64),
        expiration: expires_at.try_into().unwrap(),
        nonce: (at / 1_000 % 97).try_into().unwrap(),
    };
    let permit = PermitSingle { details, spender, sigDeadline: U256::from(expires_at) };
    let permit2 = Address::repeat_byte(22);
    let message = TypedMessage::Permit2Allowance { permit2, permit };
    proposal.legs[0].data = vec![0x35; 200].into();
    proposal.legs[0].slots = vec![SignatureSlot { offset: 100, message }];
    proposal
}

/// The preview of `proposal` at `at`, valued at 3,010 dollars.
fn of(proposal: Proposal, at: u64) -> Preview {
    let passed = |check| Verdict::passed(check, Finding::said("as it should be"));
    let above = |value: u64| {
        ApprovalReason::above(
            crate::ledger::MicroUsd::new(value * 1_000_000).unwrap(),
            crate::ledger::MicroUsd::new(1_000_000_000).unwrap(),
            "require_human_approval_above_usd",
        )
    };
    Preview {
        verdicts: vec![passed(Check::Halt), passed(Check::SlippageGuard)],
        needs: ApprovalNeed::Approval { reasons: vec![above(3_010)] },
        ..preview(proposal, 3_010, at)
    }
}

fn first() -> Preview {
    of(swap(FIRST), FIRST)
}

fn words(found: &[Worsening]) -> Vec<String> {
    found.iter().map(|one| one.describe().to_string()).collect()
}

/// Name, change of the second proposal, change of its preview, and the expected report.
type Case = (&'static str, fn(&mut Proposal), fn(&mut Preview), &'static [&'static str]);

fn as_is(_: &mut Proposal) {}

fn same(_: &mut Preview) {}

/// The Permit2 message inside the first call.
fn permit_of(proposal: &mut Proposal) -> &mut PermitSingle {
    match &mut proposal.legs[0].slots[0].message {
        TypedMessage::Permit2Allowance { permit, .. } => permit,
        other => panic!("{other:?}"),
    }
}

/// No flow bounds the worth of a managed vault: neither a higher nor a lower one may stand under the same approval.
#[test]
fn another_valuation_of_a_vault_is_worse_in_either_direction() {
    let settles = |total: u64, at| {
        let mut proposal = swap(at);
        proposal.legs[0].slots.clear();
        proposal.legs[0].data = ManageCall::Settle { total: U256::from(total) }.calldata(proposal.account);
        of(proposal, at)
    };
    let vault = settles(1, FIRST).payload.legs()[0].to;
    let another = [format!("another valuation of the vault {vault}")];
    for (was, is, wanted) in [
        (4_900_000, 2_700_000, &another[..]),
        (4_900_000, 4_900_491, &another[..]),
        (4_900_000, 4_900_490, &[]),
        (4_900_000, 4_900_000, &[]),
    ] {
        let found = words(&worsenings(&settles(was, FIRST), &settles(is, NEXT)));
        assert_eq!(found, wanted, "{was} → {is}");
    }
}

#[test]
fn expected_changes_during_review_are_not_worse() {
    let cases: [Case; 7] = [
        ("another nonce and later deadlines", as_is, same, &[]),
        ("more comes in", |proposal| proposal.inflows[0].at_least += U256::from(1), same, &[]),
        ("less leaves", |proposal| proposal.outflows[0].amount -= U256::from(1), same, &[]),
        ("a smaller allowance", |proposal| proposal.allowances[0].at_most -= U256::from(1), same, &[]),
        ("other calldata of the same function", |proposal| proposal.legs[0].data = vec![0x35; 240].into(), same, &[]),
        ("a price within what it moves", as_is, |preview| preview.values.spent = usd(3_070), &[]),
        (
            "a check says the same in other words",
            as_is,
            |preview| {
                preview.verdicts[1] = Verdict::passed(Check::SlippageGuard, Finding::said("50 bps, impact 3 bps"));
            },
            &[],
        ),
    ];
    for (name, propose, look, _) in cases {
        let mut proposal = swap(NEXT);
        propose(&mut proposal);
        let mut now = of(proposal, NEXT);
        look(&mut now);
        assert_eq!(words(&worsenings(&first(), &now)), [""; 0], "{name}");
    }
}

#[test]
fn every_change_for_the_worse_is_reported_once_in_readable_units() {
    const OTHER: &str = "0x0909090909090909090909090909090909090909";
    let cases: [Case; 20] = [
        (
            "a wei more leaves",
            |proposal| proposal.outflows[0].amount += U256::from(1),
            same,
            &["maximum WETH out: 1 → 1.000000000000000001"],
        ),
        (
            "another token leaves",
            |proposal| proposal.outflows.push(Outflow { token: usdc(), amount: raw(5, 6) }),
            same,
            &["maximum USDC out: 0 → 5"],
        ),
        (
            "a little less comes in",
            |proposal| proposal.inflows[0].at_least -= U256::from(1),
            same,
            &["minimum USDC in: 3000 → 2999.999999"],
        ),
        ("nothing comes in", |proposal| proposal.inflows.clear(), same, &["minimum USDC in: 3000 → 0"]),
        (
            "less is expected",
            |proposal| proposal.inflows[0].expected = raw(3_001, 6),
            same,
            &["expected USDC in: 3015 → 3001"],
        ),
        (
            "somebody else receives it",
            |proposal| {
                proposal.inflows[0].recipient = OTHER.parse().unwrap();
                proposal.recipients = vec![OTHER.parse().unwrap()];
            },
            same,
            &["minimum USDC in: 3000 → 0", "another receiver: 0x0909090909090909090909090909090909090909"],
        ),
        (
            "somebody is called",
            |proposal| proposal.legs[0].to = OTHER.parse().unwrap(),
            same,
            &["another call: 0x0909090909090909090909090909090909090909"],
        ),
        (
            "another function",
            |proposal| proposal.legs[0].data = vec![0x36; 200].into(),
            same,
            &["another call: 0x0101010101010101010101010101010101010101"],
        ),
        (
            "a larger allowance",
            |proposal| proposal.allowances[0].at_most = raw(2, 18),
            same,
            &["0x4242424242424242424242424242424242424242 may take of WETH: 1 → 2"],
        ),
        (
            "an unlimited one",
            |proposal| proposal.allowances[0].at_most = U256::MAX,
            same,
            &["0x4242424242424242424242424242424242424242 may take of WETH: 1 → without limit"],
        ),
        (
            "another spender",
            |proposal| proposal.allowances[0].spender = OTHER.parse().unwrap(),
            same,
            &["0x0909090909090909090909090909090909090909 may take of WETH: 0 → 1"],
        ),
        (
            "it holds for an hour more",
            |proposal| {
                proposal.allowances[0].kind = AllowanceKind::Permit2 { expires_at: NEXT / 1_000 + USABLE + 3_600 };
            },
            same,
            &["0x4242424242424242424242424242424242424242 may take it 60 min longer"],
        ),
        (
            "a signature lets another take",
            |proposal| permit_of(proposal).spender = OTHER.parse().unwrap(),
            same,
            &["another message to sign: Permit2 PermitSingle"],
        ),
        (
            "it can be used for an hour more",
            |proposal| permit_of(proposal).sigDeadline += U256::from(3_600),
            same,
            &["0x4242424242424242424242424242424242424242 may take it 60 min longer"],
        ),
        (
            "it counts for more than a price moves",
            as_is,
            |preview| {
                preview.values.spent = usd(3_071);
            },
            &["counts against the limits: $3,010.00 → $3,071.00"],
        ),
        (
            "a check warns",
            as_is,
            |preview| {
                preview.verdicts[1] = Verdict::warned(Check::SlippageGuard, Finding::said("close to the limit"));
            },
            &["slippage: close to the limit"],
        ),
        (
            "a check fails",
            as_is,
            |preview| {
                preview.verdicts[0] = Verdict::because(Check::Halt, ErrorCode::Halted, "a stop is in force", vec![]);
            },
            &["halt: a stop is in force"],
        ),
        (
            "a check asks",
            as_is,
            |preview| {
                preview.verdicts[1] = Verdict::passed(Check::SlippageGuard, Finding::said("as it should be"))
                    .asking(CheckReason::VaultUnlisted);
            },
            &["also needs approval because it withdraws from a vault that is not in allowed_vaults"],
        ),
        (
            "a new reason",
            as_is,
            |preview| {
                let ApprovalNeed::Approval { reasons } = &mut preview.needs else { panic!() };
                reasons.push(ApprovalReason::FirstPaid);
                preview.parties.push(ApprovalReason::FirstPaid);
            },
            &["also needs approval because it pays a new recipient"],
        ),
        ("another policy", as_is, |preview| preview.policy = B256::repeat_byte(7), &["the policy has changed since"]),
    ];
    for (name, propose, look, source) in cases {
        let mut proposal = swap(NEXT);
        propose(&mut proposal);
        let mut now = of(proposal, NEXT);
        look(&mut now);
        assert_eq!(words(&worsenings(&first(), &now)), source, "{name}");
    }
}

#[test]
fn incomparable_changes_count_as_worse() {
    let cases: [Case; 8] = [
        ("account", |proposal| proposal.account = Address::repeat_byte(9), same, &[]),
        ("chain", |proposal| proposal.chain_id = 1, same, &[]),
        ("tool", |proposal| proposal.tool.name = "token_approve", same, &[]),
        ("intent", |proposal| proposal.intent = crate::proposal::ProposalIntent::Transfer, same, &[]),
        ("a check that no longer decides", as_is, |preview| drop(preview.verdicts.pop()), &[]),
        (
            "a value too large to count",
            as_is,
            |preview| {
                preview.values.spent = Usd::from_scaled(U256::from(u128::MAX / 1_000), 0).unwrap_or(usd(9_000_000_000));
            },
            &[],
        ),
        (
            "what can still be taken",
            as_is,
            |preview| {
                preview.values.takeable = vec![ValuedAmount { token: weth(), amount: U256::from(1), usd: usd(1) }];
            },
            &[],
        ),
        (
            "a signer",
            as_is,
            |preview| {
                let mut frame = sample::frame(preview.payload.proposal().clone());
                frame.payer = Address::repeat_byte(9);
                frame.fees = FeeBound { max_fee_per_gas: 10, max_priority_fee_per_gas: 1 };
                if let Ok(payload) = SigningPayload::new(frame) {
                    preview.permit = ActionPermit::issue(&payload, B256::ZERO, NEXT, 60_000);
                    preview.payload = payload;
                }
            },
            &[],
        ),
    ];
    for (name, propose, look, _) in cases {
        let mut proposal = swap(NEXT);
        propose(&mut proposal);
        let mut now = of(proposal, NEXT);
        look(&mut now);
        assert!(!worsenings(&first(), &now).is_empty(), "{name}");
    }
    // A lost agreement of the guardian is worse; a new phase alone is not.
    let opinion = GuardianOpinion { agrees: true, why: SafeText::default(), left_to_operator: false };
    let agreed = Preview { opinion: Some(opinion), ..first() };
    assert!(!worsenings(&agreed, &of(swap(NEXT), NEXT)).is_empty());
    let cautious = Preview { phase: Phase::Cautious, ..of(swap(NEXT), NEXT) };
    assert_eq!(worsenings(&first(), &cautious), []);
}
