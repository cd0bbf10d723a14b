//! Actions inside the wrapper of a Safe: what is checked, shown and recorded is the call that the Safe makes, never the
//! wrapper, and its owner is another holder of money.

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256, address};
use alloy::sol_types::SolCall;
use bardo::abi::erc20::Erc20;
use bardo::abi::erc8004::IdentityRegistry;
use bardo::abi::safe::Safe;
use bardo::base::error::ErrorCode;
use bardo::custody::{SafeAccount, SafeState};
use bardo::safety::approval::{ApprovalReason, receivers};
use bardo::safety::content;
use bardo::safety::permit::PermitBounds;
use bardo::safety::pipeline::Preview;
use bardo::safety::proposal::{BridgeArrival, Inflow, LegPurpose, Outflow, Proposal, ProposalIntent};
use bardo::safety::{Account, FeeBound, PayloadContext};
use bardo_testkit::harness::{ASKED, TestHarness, leg};
use bardo_testkit::safe::TestSafe;

/// Account of the devnet that is the other owner.
const OTHER: usize = 5;

const STRANGER: Address = address!("0x57a46e4000000000000000000000000000000077");

async fn preview(world: &TestHarness, account: &Arc<SafeAccount>, proposal: Proposal) -> Preview {
    world.pipeline.preview(proposal, account.clone(), ASKED).await.unwrap()
}

fn payment(world: &TestHarness, account: Address, to: Address) -> Proposal {
    let (token, amount) = (world.usdc.clone(), U256::from(5_000_000));
    let call = Erc20::transferCall { to, value: amount }.abi_encode();
    let main = leg(LegPurpose::Main, world.contract_of(&world.usdc), call.into());
    Proposal {
        account,
        outflows: vec![Outflow { token: token.clone(), amount }],
        inflows: vec![Inflow { token, at_least: amount, expected: amount, recipient: to }],
        recipients: vec![to],
        ..world.proposal(ProposalIntent::Transfer, vec![main])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_safe_is_paid_like_a_stranger() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    for to in [safe.owner, STRANGER] {
        let paid = preview(&world, &account, payment(&world, safe.address, to)).await;
        assert_eq!((paid.parties.as_slice(), receivers(&paid)), ([ApprovalReason::FirstPaid].as_slice(), vec![to]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_inside_a_wrapper_is_shown_and_bound() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let uri = "https://elsewhere.example/agent.json";
    let call = IdentityRegistry::register_1Call { agentURI: uri.to_owned() }.abi_encode();
    let main = leg(LegPurpose::Main, STRANGER, Bytes::from(call));
    let proposal = Proposal { account: safe.address, ..world.proposal(ProposalIntent::Identity, vec![main]) };
    let fees = FeeBound { max_fee_per_gas: 1_000_000_000, max_priority_fee_per_gas: 1 };
    let context = PayloadContext { chain_id: proposal.chain_id, fees };
    account.refresh().await.unwrap();
    let payload = account.prepare_payload(proposal, &context).unwrap();
    let worst_gas = payload.worst_gas();
    let bounds = PermitBounds { outflows: vec![], inflows: vec![], allowances: vec![], fees, worst_gas };
    let shown = content::signed(&payload, &bounds).calls.remove(0);
    assert!(shown.to == safe.address && shown.publishes.iter().any(|(_, text)| text.as_str() == uri), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_sends_nothing_to_its_own_address_on_another_chain() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let arrival = BridgeArrival {
        chain_id: 31_338,
        token: world.usdc.clone(),
        at_least: U256::from(4_900_000),
        expected: U256::from(5_000_000),
    };
    let plain = payment(&world, safe.address, STRANGER);
    assert!(world.pipeline.preview(plain.clone(), account.clone(), ASKED).await.is_ok());
    let bridged = Proposal { arrival: Some(Box::new(arrival)), ..plain };
    let refused = world.pipeline.preview(bridged, account, ASKED).await.unwrap_err();
    assert!(
        refused.code == ErrorCode::ValidationFailed && refused.message.contains("exists on one chain only"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_handler_that_gives_everything_away_is_no_part_of_a_plain_safe() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    assert!(!SafeState::read(&world.client, safe.address).await.unwrap().has_others());
    // The Safe calls its handler with whatever anybody sends: a token there transfers what the Safe has.
    let handler = world.contract_of(&world.usdc);
    safe.change(&world, Safe::setFallbackHandlerCall { handler }).await;
    let balance = Erc20::balanceOfCall { owner: safe.address };
    let all = world.ask(handler, balance.clone()).await;
    assert!(!all.is_zero());
    world.send(safe.address, Erc20::transferCall { to: STRANGER, value: all }).await;
    assert_eq!(world.ask(handler, balance).await, U256::ZERO, "by a call of a stranger");
    assert!(SafeState::read(&world.client, safe.address).await.unwrap().has_others());
}
