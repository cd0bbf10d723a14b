//! Rules that depend on time or on known counterparties: active hours, and recipients that were never paid. Each is a
//! field of a policy file, and passes the real pipeline.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::{Address, U256, address};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::clock::Clock as _;
use bardo::base::error::ErrorCode;
use bardo::chain::network::KnownContract;
use bardo::fabric::{CheckOutcome, EventKind};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::{ApprovalNeed, ApprovalReason, Consent};
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::pipeline::{CommitState, Pipeline};
use bardo::safety::policy::{PolicyKeeper, parse};
use bardo::safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, Outflow, Proposal, ProposalIntent};
use bardo::safety::stop::StopFile;
use bardo::store::{Store, StoreConfig};

use bardo_testkit::harness::{ASKED, TOOL, TestHarness, leg};

const HUNDRED: u64 = 100_000_000;
const DAY: u64 = 86_400;
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Account and pipeline under a policy.
struct PolicyFixture {
    world: TestHarness,
    pipeline: Pipeline,
    _folder: tempfile::TempDir,
}

impl PolicyFixture {
    fn over(world: TestHarness, policy: &str) -> Self {
        Self::acquainted(world, policy, BTreeSet::new())
    }

    /// Like [`Self::over`], with labelled addresses.
    fn acquainted(world: TestHarness, policy: &str, labelled: BTreeSet<Address>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let policy = parse(&format!("preset = \"demo\"\n{policy}"), Path::new("policy.toml")).unwrap();
        let stop = StopFile::in_folder(folder.path());
        let networks = [world.client.network().clone()];
        let rules = OperatorPolicyEngine::new(Arc::new(PolicyKeeper::fixed(policy)), stop, store.clone(), networks)
            .acquainted_with(Arc::new(move || Ok(labelled.clone())));
        // Permits with a lifetime beyond these tests.
        let pipeline = world.pipeline_with(Arc::new(rules), &store, Duration::from_secs(86_400));
        Self { world, pipeline, _folder: folder }
    }
}

/// Day of the week of a day since 1 January 1970, which was a Thursday.
fn weekday(day: u64) -> &'static str {
    DAYS[(day % 7) as usize]
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_trading_hours_only_revocations_are_signed() {
    let world = TestHarness::new(2).await;
    // Three days from now, so that the hours cannot start during the test.
    let then = world.clock.now_millis() / 1_000 / DAY + 3;
    // The devnet's time stays behind the shifted clock, so deadlines seem to be days away.
    let hours = format!("active_hours = [\"{} 09:30-18:00\"]\nmax_allowance_seconds = 604800", weekday(then));
    let fixture = PolicyFixture::over(world, &hours);
    let world = &fixture.world;
    let preview = fixture.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await;
    let refusal = preview.expect_err("outside the active hours");
    assert_eq!(refusal.code, ErrorCode::SafetyRateLimited, "{refusal:#?}");
    let found: Vec<&str> = refusal.violations.iter().map(|one| one.rule.as_str()).collect();
    assert_eq!(found, ["active_hours"], "{refusal:#?}");
    let one = &refusal.violations[0];
    assert_eq!(one.limit, format!("{} 09:30-18:00 UTC", weekday(then)));
    // Until half past nine of that day.
    let seconds = one.figures.as_ref().unwrap().frees_in_seconds.unwrap();
    let now = world.clock.now_millis() / 1_000;
    let opens = then * DAY + 34_200;
    assert!(seconds.abs_diff(opens - now) <= 120, "{seconds} s, and it opens in {} s", opens - now);

    // Revocations are never delayed.
    let (usdc, permit2) = (world.contract_of(&world.usdc), world.contract(KnownContract::Permit2));
    world.send(usdc, Erc20::approveCall { spender: permit2, value: U256::from(7) }).await;
    let back = Proposal { intent: ProposalIntent::Revoke, ..world.approval(0) };
    let preview = fixture.pipeline.preview(back, world.wallet.clone(), ASKED).await;
    let committed = fixture.pipeline.commit(preview.unwrap().permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
    assert_eq!(world.allowance(permit2).await, U256::ZERO);

    // Within the hours, the same swap passes.
    world.clock.shift(i64::try_from((opens - now + 600) * 1_000).unwrap());
    let preview = fixture.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap();
    let committed = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
}

/// The rule is checked again before the signature.
#[tokio::test(flavor = "multi_thread")]
async fn trading_hours_that_end_before_the_signature_block_it() {
    let world = TestHarness::new(2).await;
    // Move the clock to the start of an hour, so that the preview has the whole hour. The policy permits the day up to
    // the end of that hour.
    let hour = DAY * 1_000 / 24;
    let into = world.clock.now_millis() % hour;
    world.clock.shift(i64::try_from(hour - into).unwrap());
    let now = world.clock.now_millis();
    let until = now / hour % 24 + 1;
    let day = weekday(now / 1_000 / DAY);
    // The devnet's time stays behind the shifted clock, so deadlines seem to be hours away.
    let hours = format!("active_hours = [\"{day} 00:00-{until:02}:00\"]\nmax_allowance_seconds = 604800");
    let fixture = PolicyFixture::over(world, &hours);
    let world = &fixture.world;
    let preview = fixture.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap();
    let before = world.wallet.signatures.load(Ordering::SeqCst);
    world.clock.shift(i64::try_from(hour).unwrap());
    let refused = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await;
    let refusal = refused.expect_err("the hours are over");
    assert!(refusal.violations.iter().any(|one| one.rule == "active_hours"), "{refusal:#?}");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), before);
}

/// Payment of five USDC.
fn payment(world: &TestHarness, to: Address) -> Proposal {
    let amount = U256::from(5_000_000_u64);
    let call = Erc20::transferCall { to, value: amount };
    let send = leg(LegPurpose::Main, world.contract_of(&world.usdc), call.abi_encode().into());
    Proposal {
        outflows: vec![Outflow { token: world.usdc.clone(), amount }],
        recipients: vec![to],
        ..world.proposal(ProposalIntent::Transfer, vec![send])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_payment_needs_approval_if_the_policy_says_so() {
    let new = address!("0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e01");
    let known = address!("0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e02");
    for (asks, named) in [(true, false), (false, false), (true, true)] {
        let mut policy = format!("approve_first_seen = {asks}\n");
        match named {
            true => policy.push_str(&format!("allowed_recipients = [\"{known}\"]\n")),
            false => policy.push_str("allowed_recipients = \"all\"\n"),
        }
        // Without this rule about the tool, every payment would need approval.
        policy.push_str(&format!("[tools.{}]\nrequires_approval_above_usd = \"1000\"\n", TOOL.name));
        let fixture = PolicyFixture::over(TestHarness::new(2).await, &policy);
        let world = &fixture.world;
        let to = if named { known } else { new };
        let preview = fixture.pipeline.preview(payment(world, to), world.wallet.clone(), ASKED).await.unwrap();
        let needs_approval = matches!(preview.needs, ApprovalNeed::Approval { .. });
        assert_eq!(needs_approval, asks && !named, "asks {asks}, named {named}: {:?}", preview.needs);
        assert_eq!(preview.first_seen, asks && !named);
        if !needs_approval {
            continue;
        }
        let words: Vec<String> = preview.needs.reasons().iter().map(ToString::to_string).collect();
        assert_eq!(words, ["it pays a new recipient"]);
        let refused = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
        // After one approved payment, the recipient is known.
        let again = fixture.pipeline.preview(payment(world, to), world.wallet.clone(), ASKED).await.unwrap();
        let paid = fixture.pipeline.commit(again.permit.permit_id, Consent::Always).await.unwrap();
        assert_eq!(paid.state, CommitState::Done, "{:?}", paid.remarks);
        let next = fixture.pipeline.preview(payment(world, to), world.wallet.clone(), ASKED).await.unwrap();
        assert!(!next.first_seen && !matches!(next.needs, ApprovalNeed::Approval { .. }), "{:?}", next.needs);
    }
}

/// Approval of this many raw units of USDC for `spender`.
fn approval_for(world: &TestHarness, spender: Address, units: u64) -> Proposal {
    let amount = U256::from(units);
    let bound = AllowanceBound { token: world.usdc.clone(), spender, kind: AllowanceKind::Erc20, at_most: amount };
    Proposal {
        allowances: vec![bound],
        ..world.proposal(ProposalIntent::Approve, vec![world.approve(LegPurpose::Main, spender, amount)])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_allowance_needs_approval_if_the_policy_says_so() {
    let new = address!("0x6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e01");
    let known = address!("0x6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e02");
    for (asks, named) in [(true, false), (false, false), (true, true)] {
        let spenders = if named { format!("[\"{known}\"]") } else { "\"all\"".to_owned() };
        let policy = format!("approve_first_seen = {asks}\nallowed_spenders = {spenders}\n");
        let fixture = PolicyFixture::over(TestHarness::new(2).await, &policy);
        let world = &fixture.world;
        let preview_of =
            async |proposal| fixture.pipeline.preview(proposal, world.wallet.clone(), ASKED).await.unwrap();
        let spender = if named { known } else { new };
        let preview = preview_of(approval_for(world, spender, 5_000_000)).await;
        let needs_approval = matches!(preview.needs, ApprovalNeed::Approval { .. });
        assert_eq!(needs_approval, asks && !named, "asks {asks}, named {named}: {:?}", preview.needs);
        // The contracts of the address book are known: an ordinary swap needs no approval.
        if !named {
            let swap = preview_of(world.swap(HUNDRED).await).await;
            assert!(
                swap.parties.is_empty() && !matches!(swap.needs, ApprovalNeed::Approval { .. }),
                "{:?}",
                swap.needs
            );
        }
        if !needs_approval {
            continue;
        }
        assert_eq!(preview.needs.reasons(), [ApprovalReason::FirstAllowed]);
        let refused = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
        let again = preview_of(approval_for(world, spender, 5_000_000)).await;
        let allowed = fixture.pipeline.commit(again.permit.permit_id, Consent::Always).await.unwrap();
        assert_eq!(allowed.state, CommitState::Done, "{:?}", allowed.remarks);
        // After the approval, the address is known as a spender, but not as a recipient.
        let next = preview_of(approval_for(world, spender, 6_000_000)).await;
        assert!(next.parties.is_empty() && !matches!(next.needs, ApprovalNeed::Approval { .. }), "{:?}", next.needs);
        assert_eq!(preview_of(payment(world, spender)).await.parties, [ApprovalReason::FirstPaid]);
        // Revocations are never delayed.
        let back = preview_of(Proposal { intent: ProposalIntent::Revoke, ..approval_for(world, spender, 0) }).await;
        assert!(matches!(back.needs, ApprovalNeed::Instant), "{:?}", back.needs);
        let back = fixture.pipeline.commit(back.permit.permit_id, Consent::None).await.unwrap();
        assert_eq!(back.state, CommitState::Done, "{:?}", back.remarks);
    }
}

/// Address with the first and last two bytes of `known`.
fn lookalike(known: Address, middle: u8) -> Address {
    let mut bytes = [middle; 20];
    bytes[..2].copy_from_slice(&known[..2]);
    bytes[18..].copy_from_slice(&known[18..]);
    Address::from(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookalike_address_needs_approval_whatever_the_policy_says() {
    let safe = address!("0x5afe00112233445566778899aabbccddeeff5afe");
    let friend = address!("0x7ea1222222222222222222222222222222221ea7");
    // Under this policy, unknown recipients need no approval; only the resemblance does.
    let policy = format!(
        "approve_first_seen = false\nallowed_recipients = \"all\"\nsafe_addresses = [\"{safe}\"]\n[tools.{}]\n\
         requires_approval_above_usd = \"1000\"\n",
        TOOL.name
    );
    let fixture = PolicyFixture::over(TestHarness::new(2).await, &policy);
    let world = &fixture.world;
    let preview_of =
        async |to| fixture.pipeline.preview(payment(world, to), world.wallet.clone(), ASKED).await.unwrap();
    let preview_without_approval = async |to| {
        let preview = preview_of(to).await;
        assert!(!matches!(preview.needs, ApprovalNeed::Approval { .. }), "{to}: {:?}", preview.needs);
        preview.permit.permit_id
    };
    // Before the friend is known, a lookalike of it needs no approval.
    preview_without_approval(lookalike(friend, 0x33)).await;
    let paid = fixture.pipeline.commit(preview_without_approval(friend).await, Consent::None).await.unwrap();
    assert_eq!(paid.state, CommitState::Done, "{:?}", paid.remarks);
    preview_without_approval(friend).await;
    let listed = world.contract_of(&world.weth);
    for known in [friend, safe, world.account(), world.contract(KnownContract::Permit2), listed] {
        let who = lookalike(known, 0x33);
        let preview = preview_of(who).await;
        assert_eq!(preview.needs.reasons(), [ApprovalReason::Resembles { who, known }], "of {known}");
        let words = preview.needs.reasons()[0].to_string();
        assert!(words.contains(&known.to_string()) && words.contains(&who.to_string()), "{words}");
    }
    let copied = lookalike(friend, 0x33);
    let refused = fixture.pipeline.commit(preview_of(copied).await.permit.permit_id, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
    // After an approved payment, the lookalike is known itself.
    let paid = fixture.pipeline.commit(preview_of(copied).await.permit.permit_id, Consent::Always).await.unwrap();
    assert_eq!(paid.state, CommitState::Done, "{:?}", paid.remarks);
    preview_without_approval(copied).await;
    // Another lookalike still resembles both.
    let third = preview_of(lookalike(friend, 0x44)).await;
    assert!(matches!(third.needs.reasons(), [ApprovalReason::Resembles { .. }]), "{:?}", third.needs);
}

/// A label makes no address known, but others may imitate it: an address that looks like it needs approval, although
/// nobody was ever paid.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_like_a_labelled_one_needs_approval() {
    let labelled = address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
    let policy = format!(
        "approve_first_seen = false\nallowed_recipients = \"all\"\n[tools.{}]\nrequires_approval_above_usd = \"1000\"\n",
        TOOL.name
    );
    let world = TestHarness::new(3).await;
    let fixture = PolicyFixture::acquainted(world, &policy, BTreeSet::from([labelled]));
    let world = &fixture.world;
    let preview_of =
        async |to| fixture.pipeline.preview(payment(world, to), world.wallet.clone(), ASKED).await.unwrap();
    let who = lookalike(labelled, 0x33);
    assert_eq!(preview_of(who).await.needs.reasons(), [ApprovalReason::Resembles { who, known: labelled }]);
    // The labelled address itself resembles nothing.
    assert!(!matches!(preview_of(labelled).await.needs, ApprovalNeed::Approval { .. }));
}

/// The specification requires this order.
#[tokio::test(flavor = "multi_thread")]
async fn the_checks_of_a_swap_are_reported_in_order() {
    let fixture = PolicyFixture::over(TestHarness::new(2).await, "");
    let world = &fixture.world;
    let mut subscription = world.fabric().subscribe(1_000);
    fixture.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap();
    let mut events = Vec::new();
    subscription.try_receive(&mut events, 1_000);
    let checks: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::SafetyCheck(check) => Some((check.check.as_str(), check.outcome)),
            _ => None,
        })
        .collect();
    let order = [
        "halt",
        "phase_gate",
        "token_allowlist",
        "spending_limit",
        "rate_limit",
        "balance_circuit_breaker",
        "slippage_guard",
        "policy_cage",
        "simulation",
    ];
    assert_eq!(checks, order.map(|check| (check, CheckOutcome::Passed)));
}
