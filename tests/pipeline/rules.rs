//! Rules of the operator's own that ask for time or for somebody who knows the other side: hours in which may be acted,
//! and those who were never paid before. Each is a field of a policy file, and goes through the real pipeline.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::{Address, U256, address};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::clock::Clock as _;
use bardo::base::error::ErrorCode;
use bardo::chain::network::Contract;
use bardo::runtime::data::ROOMS;
use bardo::safety::approval::{ApprovalNeed, Consent};
use bardo::safety::operator::OperatorRules;
use bardo::safety::pipeline::{Pipeline, State};
use bardo::safety::policy::{Keeper, parse};
use bardo::safety::proposal::{Flow, Intent, Proposal, Purpose};
use bardo::safety::stop::StopFile;
use bardo::store::{Store, StoreConfig};

use crate::world::{ASKED, TOOL, World, leg};

const HUNDRED: u64 = 100_000_000;
const DAY: u64 = 86_400;
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

struct Ruled {
    world: World,
    pipeline: Pipeline,
    _folder: tempfile::TempDir,
}

impl Ruled {
    fn over(world: World, policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ROOMS).unwrap();
        let policy = parse(&format!("preset = \"demo\"\n{policy}"), Path::new("policy.toml")).unwrap();
        let stop = StopFile::in_folder(folder.path());
        let networks = [world.client.network().clone()];
        let rules = OperatorRules::new(Arc::new(Keeper::fixed(policy)), stop, store.clone(), networks);
        // Permits that no time of these tests uses up.
        let pipeline = world.pipeline_with(Arc::new(rules), &store, Duration::from_secs(86_400));
        Self { world, pipeline, _folder: folder }
    }
}

/// The day of the week of a day since 1 January 1970, which was a Thursday.
fn weekday(day: u64) -> &'static str {
    DAYS[(day % 7) as usize]
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_its_hours_nothing_is_signed_but_what_takes_back() {
    let world = World::new(2).await;
    // Three days from now, whatever day it is and however long this takes.
    let then = world.clock.now_millis() / 1_000 / DAY + 3;
    let hours = format!("active_hours = [\"{} 09:30-18:00\"]", weekday(then));
    let ruled = Ruled::over(world, &hours);
    let world = &ruled.world;
    let looked = ruled.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await;
    let refusal = looked.expect_err("it may not act now");
    assert_eq!(refusal.code, ErrorCode::SafetyRateLimited, "{refusal:#?}");
    let found: Vec<&str> = refusal.violations.iter().map(|one| one.rule.as_str()).collect();
    assert_eq!(found, ["active_hours"], "{refusal:#?}");
    let one = &refusal.violations[0];
    assert_eq!(one.limit, format!("{} 09:30-18:00 UTC", weekday(then)));
    // It says in how many seconds: at the half hour after nine of that day.
    let digits: String = one.would_pass.chars().filter(char::is_ascii_digit).collect();
    let seconds: u64 = digits.parse().unwrap();
    let now = world.clock.now_millis() / 1_000;
    let opens = then * DAY + 34_200;
    assert!(seconds.abs_diff(opens - now) <= 120, "{seconds} s, and it opens in {} s", opens - now);

    // Taking back is never held up.
    let (usdc, permit2) = (world.contract_of(&world.usdc), world.contract(Contract::Permit2));
    world.send(usdc, Erc20::approveCall { spender: permit2, value: U256::from(7) }).await;
    let back = Proposal { intent: Intent::Revoke, ..world.approval(0) };
    let preview = ruled.pipeline.preview(back, world.wallet.clone(), ASKED).await;
    let committed = ruled.pipeline.commit(preview.unwrap().permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, State::Done, "{:?}", committed.remarks);
    assert_eq!(world.allowance(permit2).await, U256::ZERO);

    // And once the hour has come, the same swap passes.
    world.clock.shift(i64::try_from((opens - now + 600) * 1_000).unwrap());
    let preview = ruled.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap();
    let committed = ruled.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, State::Done, "{:?}", committed.remarks);
}

/// The hour ends between the look and the signature: what was allowed then is looked at once more.
#[tokio::test(flavor = "multi_thread")]
async fn an_hour_that_ends_before_the_signature_ends_what_it_allowed() {
    let world = World::new(2).await;
    // To the start of an hour, so that the look has all of it; allowed is that hour and what was of the day before it.
    let hour = DAY * 1_000 / 24;
    let into = world.clock.now_millis() % hour;
    world.clock.shift(i64::try_from(hour - into).unwrap());
    let now = world.clock.now_millis();
    let hours = format!("active_hours = [\"{} 00:00-{:02}:00\"]", weekday(now / 1_000 / DAY), now / hour % 24 + 1);
    let ruled = Ruled::over(world, &hours);
    let world = &ruled.world;
    let preview = ruled.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap();
    let before = world.wallet.signatures.load(Ordering::SeqCst);
    world.clock.shift(i64::try_from(hour).unwrap());
    let refused = ruled.pipeline.commit(preview.permit.permit_id, Consent::None).await;
    let refusal = refused.expect_err("the hours are over");
    assert!(refusal.violations.iter().any(|one| one.rule == "active_hours"), "{refusal:#?}");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), before);
}

fn gift(world: &World, to: Address) -> Proposal {
    let amount = U256::from(5_000_000_u64);
    let call = Erc20::transferCall { to, value: amount };
    let send = leg(Purpose::Main, world.contract_of(&world.usdc), call.abi_encode().into());
    Proposal {
        outflows: vec![Flow { token: world.usdc.clone(), amount }],
        recipients: vec![to],
        ..world.proposal(Intent::Transfer, vec![send])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_never_paid_takes_a_yes_where_the_policy_says_so() {
    let new = address!("0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e01");
    let known = address!("0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e02");
    for (asks, named) in [(true, false), (false, false), (true, true)] {
        let mut policy = format!("approve_first_seen = {asks}\n");
        match named {
            true => policy.push_str(&format!("allowed_recipients = [\"{known}\"]\n")),
            false => policy.push_str("allowed_recipients = \"all\"\n"),
        }
        // Without a word on the tool each gift is asked about, whoever gets it.
        policy.push_str(&format!("[tools.{}]\nrequires_approval_above_usd = \"1000\"\n", TOOL.name));
        let ruled = Ruled::over(World::new(2).await, &policy);
        let world = &ruled.world;
        let to = if named { known } else { new };
        let preview = ruled.pipeline.preview(gift(world, to), world.wallet.clone(), ASKED).await.unwrap();
        let needs_a_yes = matches!(preview.needs, ApprovalNeed::Approval { .. });
        assert_eq!(needs_a_yes, asks && !named, "asks {asks}, named {named}: {:?}", preview.needs);
        assert_eq!(preview.first_seen, asks && !named);
        if !needs_a_yes {
            continue;
        }
        let words: Vec<String> = preview.needs.reasons().iter().map(ToString::to_string).collect();
        assert_eq!(words, ["it pays somebody for the first time"]);
        let refused = ruled.pipeline.commit(preview.permit.permit_id, Consent::None).await;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
        // Once it was paid with a yes it is known.
        let again = ruled.pipeline.preview(gift(world, to), world.wallet.clone(), ASKED).await.unwrap();
        let paid = ruled.pipeline.commit(again.permit.permit_id, Consent::Always).await.unwrap();
        assert_eq!(paid.state, State::Done, "{:?}", paid.remarks);
        let next = ruled.pipeline.preview(gift(world, to), world.wallet.clone(), ASKED).await.unwrap();
        assert!(!next.first_seen && !matches!(next.needs, ApprovalNeed::Approval { .. }), "{:?}", next.needs);
    }
}
