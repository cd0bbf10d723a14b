//! A Safe that others change, impostors of a Safe, and actions that would change who may act for it. Each Safe has the
//! acting owner and another one, who makes the changes.

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall, SolValue as _};
use bardo::abi::erc20::Erc20;
use bardo::abi::safe::Safe;
use bardo::base::error::ErrorCode;
use bardo::chain::network::KnownContract;
use bardo::custody::{SafeAccount, SafeOwnerKey, SafeRefusal, SafeState};
use bardo::safety::Account as _;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{CommitState, Preview};
use bardo::safety::proposal::{LegPurpose, Proposal, ProposalIntent};
use bardo::sandbox::contracts::BundledContract;
use bardo::sandbox::safes::devnet_safes;
use bardo_testkit::harness::{ASKED, TestHarness, leg};
use bardo_testkit::safe::TestSafe;

/// Account of the devnet that is the other owner.
const OTHER: usize = 6;

/// An exact allowance of the Safe for Permit2.
fn approval(world: &TestHarness, safe: &TestSafe) -> Proposal {
    Proposal { account: safe.address, ..world.approval(5_000_000) }
}

async fn preview(world: &TestHarness, account: &Arc<SafeAccount>, proposal: Proposal) -> Result<Preview, ErrorCode> {
    let previewed = world.pipeline.preview(proposal, account.clone(), ASKED).await;
    previewed.map_err(|refusal| refusal.code)
}

async fn allowance(world: &TestHarness, safe: &TestSafe) -> U256 {
    let call = Erc20::allowanceCall { owner: safe.address, spender: world.contract(KnownContract::Permit2) };
    world.ask(world.contract_of(&world.usdc), call).await
}

/// Call that changes who may act for a Safe, made from the addresses of a module and of a handler.
type SafeChange = fn(Address, Address) -> Vec<u8>;

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_that_changed_after_it_was_bound_does_nothing_until_it_is_bound_again() {
    let world = TestHarness::new(OTHER).await;
    let handler = Address::repeat_byte(0x11);
    let module = world.contract(KnownContract::Permit2);
    let changes: [(&str, SafeChange); 4] = [
        ("module", |module, _| Safe::enableModuleCall { module }.abi_encode()),
        ("handler", |_, handler| Safe::setFallbackHandlerCall { handler }.abi_encode()),
        ("owner", |_, owner| Safe::addOwnerWithThresholdCall { owner, _threshold: U256::ONE }.abi_encode()),
        ("threshold", |_, owner| Safe::addOwnerWithThresholdCall { owner, _threshold: U256::from(2) }.abi_encode()),
    ];
    for (what, change) in changes {
        let safe = TestSafe::new(&world).await;
        let account = safe.account(&world).await;
        // It was previewed, and everything is ready to be signed.
        let ready = preview(&world, &account, approval(&world, &safe)).await.unwrap();
        let before = safe.numbers(&world).await.0;
        let mut call = safe.execution(world.account(), safe.address, Safe::nonceCall {});
        call.data = change(module, handler).into();
        world.send(safe.address, call).await;
        let refused = world.pipeline.commit(ready.permit.permit_id, Consent::None).await;
        let code = refused.map(|outcome| outcome.state).map_err(|why| why.code).unwrap_err();
        // With another threshold the call fails already in the last simulation, before the account is asked.
        assert!(code == ErrorCode::SafeRefused || what == "threshold", "{what}: {code}");
        let again = preview(&world, &account, approval(&world, &safe)).await;
        assert_eq!(again.map(drop), Err(ErrorCode::SafeRefused), "{what}");
        assert_eq!((safe.numbers(&world).await.0, allowance(&world, &safe).await), (before, U256::ZERO), "{what}");
        // The operator sees the change, and binds the Safe as it is now.
        let state = SafeState::read(&world.client, safe.address).await.unwrap();
        let found = match what {
            "module" => state.modules == [module] && state.has_others(),
            "handler" => state.handler == handler,
            "owner" => state.owners.contains(&handler),
            _ => state.threshold == U256::from(2),
        };
        assert!(found, "{what}: {state:?}");
        let bound = safe.account(&world).await;
        let after = preview(&world, &bound, approval(&world, &safe)).await.map(drop);
        assert_eq!(after, if what == "threshold" { Err(ErrorCode::SafeRefused) } else { Ok(()) }, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_was_removed_signs_nothing_for_the_safe() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let (sentinel, stranger) = (Address::with_last_byte(1), Address::repeat_byte(0x12));
    let swap = Safe::swapOwnerCall { prevOwner: sentinel, oldOwner: safe.owner, newOwner: stranger };
    safe.change(&world, swap).await;
    assert_eq!(preview(&world, &account, approval(&world, &safe)).await.map(drop), Err(ErrorCode::SafeRefused));
    // Not even if it is bound like this.
    let bound = safe.account(&world).await;
    let refused = bound.check().await.unwrap_err();
    assert_eq!(refused, SafeRefusal::NotOwner { safe: safe.address, owner: safe.owner });
    assert_eq!(preview(&world, &bound, approval(&world, &safe)).await.map(drop), Err(ErrorCode::SafeRefused));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_action_calls_the_safe_itself() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let calls: [Vec<u8>; 4] = [
        Safe::enableModuleCall { module: Address::repeat_byte(0x13) }.abi_encode(),
        Safe::setGuardCall { guard: Address::repeat_byte(0x13) }.abi_encode(),
        Safe::addOwnerWithThresholdCall { owner: Address::repeat_byte(0x13), _threshold: U256::ONE }.abi_encode(),
        Vec::new(),
    ];
    for call in calls {
        let own = leg(LegPurpose::Main, safe.address, Bytes::from(call));
        let proposal =
            Proposal { account: safe.address, legs: vec![own], ..world.proposal(ProposalIntent::Approve, Vec::new()) };
        assert_eq!(preview(&world, &account, proposal).await.map(drop), Err(ErrorCode::SafeRefused));
    }
    // Nor a message, which would need the Safe's own signature.
    let swap = Proposal { account: safe.address, ..world.swap(1_000_000).await };
    assert_eq!(preview(&world, &account, swap).await.map(drop), Err(ErrorCode::ValidationFailed));
    assert_eq!(safe.numbers(&world).await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_looks_like_a_safe_is_none() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    // The proxy of Safe 1.4.1 over another contract, which could answer whatever it likes.
    let proxy = BundledContract::SafeProxy.creation(&world.contract_of(&world.usdc).abi_encode()).unwrap();
    let proxy = world.deploy(proxy).await;
    for impostor in [proxy, world.contract(KnownContract::Permit2), safe.owner] {
        let read = SafeState::read(&world.client, impostor).await;
        assert!(matches!(read, Err(SafeRefusal::NotSafe { .. })), "{read:?}");
        let bound = SafeState::read(&world.client, safe.address).await.unwrap().fingerprint();
        let key = SafeOwnerKey::Local(safe.key());
        let account = Arc::new(SafeAccount::new(impostor, bound, key, world.client.clone()));
        let proposal = Proposal { account: impostor, ..approval(&world, &safe) };
        assert_eq!(preview(&world, &account, proposal).await.map(drop), Err(ErrorCode::SafeRefused));
    }
    // A Safe of others, and one that needs two.
    let [first, second] = devnet_safes().unwrap().try_into().unwrap();
    let refused = SafeState::read(&world.client, first.address).await.unwrap().check_owner(safe.owner);
    assert_eq!(refused, Err(SafeRefusal::NotOwner { safe: first.address, owner: safe.owner }));
    let refused = SafeState::read(&world.client, second.address).await.unwrap().check_owner(second.owners[0]);
    assert_eq!(refused, Err(SafeRefusal::Threshold { safe: second.address, threshold: U256::from(2) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_inside_the_safe_fails_as_a_whole() {
    let world = TestHarness::new(OTHER).await;
    let safe = TestSafe::new(&world).await;
    let account = safe.account(&world).await;
    let too_much = Erc20::transferCall { to: world.account(), value: U256::from(10_000_000_001_u64) };
    let usdc = world.contract_of(&world.usdc);
    let proposal = Proposal {
        account: safe.address,
        recipients: vec![world.account()],
        ..world.proposal(ProposalIntent::Transfer, vec![leg(LegPurpose::Main, usdc, too_much.abi_encode().into())])
    };
    assert!(preview(&world, &account, proposal).await.is_err());
    assert_eq!(safe.numbers(&world).await, (0, U256::ZERO));
    // On chain, the bytes that an owner would send for it make the whole transaction fail.
    let call = safe.execution(world.account(), usdc, too_much);
    let request = alloy::rpc::types::TransactionRequest::default().from(world.account()).to(safe.address);
    let answer = world.client.provider().call(request.input(call.abi_encode().into())).await;
    assert!(answer.unwrap_err().to_string().contains("GS013"));

    let done = preview(&world, &account, approval(&world, &safe)).await.unwrap();
    assert_eq!(done.payload.signer(), safe.owner);
    let done = world.pipeline.commit(done.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(done.state, CommitState::Done, "{:?}", done.remarks);
    assert_eq!(safe.numbers(&world).await, (1, U256::ONE));
    assert_eq!((allowance(&world, &safe).await, account.address()), (U256::from(5_000_000), safe.address));
}
