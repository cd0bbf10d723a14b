//! Thefts with the raw session key, past every check of Bardo's, on the framework's real contracts.

use alloy::primitives::{Address, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::tests::DelegationHarness;
use super::*;
use crate::custody::tests::leg;
use bardo_abi::delegation::{Delegation, SelectedGroup};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::universal_router::UniversalRouter;
use golem_chain::network::KnownContract;
use golem_chain::sender::SendState;

const USDC: u64 = 1_000_000;
const THIEF: Address = Address::repeat_byte(0x77);

alloy::sol! {
    /// Call that the framework's code makes for the account itself.
    struct Execution {
        address target;
        uint256 value;
        bytes callData;
    }

    function execute(Execution execution) external payable;
}

async fn world() -> DelegationHarness {
    let world = DelegationHarness::new().await;
    // The owner's account becomes a delegator, and the session key has ether for gas.
    world.as_owner(world.session.address(), U256::from(10).pow(U256::from(17)), Bytes::new()).await;
    world
}

/// Limits of `draft --swap USDC=200 --calls 12`.
fn swap(world: &DelegationHarness) -> Vec<CallLimit> {
    let shapes = CallShape::swap(&world.network().book, world.usdc).unwrap();
    vec![
        CallLimit::Targets(shapes.iter().map(|shape| shape.target).collect()),
        CallLimit::Shapes(shapes.to_vec()),
        CallLimit::Value(U256::ZERO),
        CallLimit::Time { after: 0, before: 4_102_444_800 },
        CallLimit::Calls(12),
        CallLimit::TokenLoss { token: world.usdc, owner: world.owner.address(), amount: U256::from(200 * USDC) },
    ]
}

fn approve(token: Address, spender: Address) -> PlanLeg {
    leg(token, U256::ZERO, Erc20::approveCall { spender, value: U256::MAX }.abi_encode().into(), 80_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_key_for_swaps_approves_nobody_but_permit2_and_the_router() {
    let world = world().await;
    let book = &world.network().book;
    let (permit2, router) =
        (book.contract(KnownContract::Permit2).unwrap(), book.contract(KnownContract::UniversalRouterV210).unwrap());
    let weth = book.contract(KnownContract::WrappedNative).unwrap();
    let account = world.account(swap(&world));
    let inside = |token: Address, spender: Address| {
        let (amount, expiration) = (alloy::primitives::Uint::MAX, alloy::primitives::Uint::MAX);
        let call = Permit2::approveCall { token, spender, amount, expiration };
        leg(permit2, U256::ZERO, call.abi_encode().into(), 80_000)
    };
    let execute = UniversalRouter::execute_1Call { commands: Bytes::new(), inputs: Vec::new(), deadline: U256::MAX };
    let execute = leg(router, U256::ZERO, execute.abi_encode().into(), 80_000);
    for honest in [approve(world.usdc, permit2), inside(world.usdc, router), execute] {
        let payload = world.prepare_payload(&account, honest.clone()).unwrap();
        assert_eq!(world.as_session(payload).await, SendState::Included, "{honest:?}");
    }
    let zero =
        leg(world.usdc, U256::ZERO, Erc20::transferCall { to: THIEF, value: U256::ONE }.abi_encode().into(), 80_000);
    for theft in [
        approve(world.usdc, THIEF),
        approve(world.usdc, world.session.address()),
        approve(weth, permit2),
        inside(world.usdc, THIEF),
        inside(weth, router),
        zero,
    ] {
        let refused = world.prepare_payload(&account, theft.clone()).unwrap_err();
        assert_eq!(refused.code(), bardo_base::error::ErrorCode::SessionKeyOutOfScope, "{theft:?}");
        // Whichever alternative the thief names.
        for group in 0..3_u64 {
            let mut delegation = account.grant().delegation().clone();
            // As many as the group has caveats: contract, function, and fixed arguments.
            let arguments = vec![Bytes::new(); [3, 4, 2][usize::try_from(group).unwrap()]];
            let selected = SelectedGroup { groupIndex: U256::from(group), caveatArgs: arguments };
            delegation.caveats[1].args = selected.abi_encode().into();
            let payload = world.redeem(delegation, &theft);
            assert_eq!(world.as_session(payload).await, SendState::Reverted, "{theft:?} as {group}");
        }
    }
    let owner = world.owner.address();
    for spender in [THIEF, world.session.address()] {
        assert_eq!(allowance(&world, owner, spender).await, U256::ZERO);
    }
    assert_eq!(allowance(&world, owner, permit2).await, U256::MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_free_arguments_a_loss_limit_bounds_nothing() {
    let world = world().await;
    let (owner, book) = (world.owner.address(), &world.network().book);
    let session = world.session.address();
    // The contracts of a swap by their names, as an earlier version recommended.
    let permit2 = book.contract(KnownContract::Permit2).unwrap();
    let limits = vec![
        CallLimit::Targets(vec![world.usdc, permit2]),
        CallLimit::Value(U256::ZERO),
        CallLimit::Time { after: 0, before: 4_102_444_800 },
        CallLimit::Calls(12),
        CallLimit::TokenLoss { token: world.usdc, owner, amount: U256::from(USDC) },
    ];
    let account = world.account(limits.clone());
    assert_eq!(
        world.as_session(world.redeem(account.grant().delegation().clone(), &approve(world.usdc, session))).await,
        SendState::Included
    );
    // What the owner has is the thief's now, a million times the limit of one call.
    assert_eq!(allowance(&world, owner, session).await, U256::MAX);
    let limits = DelegationLimits::new(limits).unwrap();
    let refused = DelegationGrant::draft(world.network(), owner, session, (&limits, DraftBounds::Required), U256::ONE);
    assert!(matches!(refused, Err(GrantError::Limits(LimitsError::Unbounded(UnboundedKey::Methods)))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_bounded_only_if_every_call_is_understood() {
    let world = DelegationHarness::new().await;
    let (owner, network) = (world.owner.address(), world.network().clone());
    let book = &network.book;
    let [permit2, router, weth, nfts] = [
        KnownContract::Permit2,
        KnownContract::UniversalRouterV210,
        KnownContract::WrappedNative,
        KnownContract::V3PositionManager,
    ]
    .map(|contract| book.contract(contract).unwrap());
    let exposure = |limits: Vec<CallLimit>| DelegationLimits::new(limits).unwrap().exposure(owner, book);
    let good = swap(&world);
    // 12 calls of 200 USDC each.
    let tokens = vec![(world.usdc, U256::from(2_400 * USDC))];
    assert_eq!(exposure(good.clone()), Ok(KeyExposure::AtMost { native: U256::ZERO, tokens, router: true }));
    let without = |at: usize| {
        let mut limits = good.clone();
        limits.remove(at);
        exposure(limits)
    };
    assert_eq!(without(1), Err(UnboundedKey::Methods));
    assert_eq!(without(2), Err(UnboundedKey::Value));
    assert_eq!(without(4), Err(UnboundedKey::Calls));
    assert_eq!(without(5), Err(UnboundedKey::Token(world.usdc)));
    let with = |at: usize, limit: CallLimit| {
        let mut limits = good.clone();
        limits[at] = limit;
        exposure(limits)
    };
    // The loss of another account limits nothing.
    let elsewhere = CallLimit::TokenLoss { token: world.usdc, owner: THIEF, amount: U256::ONE };
    assert_eq!(with(5, elsewhere), Err(UnboundedKey::Token(world.usdc)));
    // Another token among the contracts needs a limit of its own.
    let targets = CallLimit::Targets(vec![world.usdc, weth, permit2, router]);
    assert_eq!(with(0, targets), Err(UnboundedKey::Token(weth)));
    let [approve, inside, execute] = CallShape::swap(book, world.usdc).unwrap();
    let shape = |shape: &CallShape| with(1, CallLimit::Shapes(vec![shape.clone()]));
    assert!(shape(&approve).is_ok() && shape(&inside).is_ok() && shape(&execute).is_ok());
    for wrong in [
        CallShape { fixed: vec![], ..approve.clone() },
        CallShape { fixed: vec![(0, THIEF)], ..approve.clone() },
        CallShape { fixed: vec![(1, permit2)], ..approve.clone() },
        CallShape { target: nfts, ..approve.clone() },
        CallShape { fixed: vec![(0, world.usdc)], ..inside.clone() },
        CallShape { fixed: vec![(0, world.usdc), (1, THIEF)], ..inside.clone() },
        CallShape { fixed: vec![(0, weth), (1, router)], ..inside.clone() },
        CallShape { target: nfts, ..execute.clone() },
        CallShape { method: [1, 2, 3, 4], ..execute.clone() },
    ] {
        assert!(shape(&wrong).is_err(), "{wrong:?}");
    }
    // Every function of every contract counts where arguments are free.
    let methods = |methods: Vec<[u8; 4]>| with(1, CallLimit::Methods(methods));
    assert!(methods(vec![Erc20::approveCall::SELECTOR]).is_err());
    let transfers = vec![
        CallLimit::Targets(vec![world.usdc]),
        CallLimit::Methods(vec![Erc20::transferCall::SELECTOR]),
        CallLimit::Value(U256::from(5)),
        CallLimit::Time { after: 0, before: 4_102_444_800 },
        CallLimit::Calls(2),
        CallLimit::TokenLoss { token: world.usdc, owner, amount: U256::from(USDC) },
    ];
    let tokens = vec![(world.usdc, U256::from(2 * USDC))];
    assert_eq!(exposure(transfers), Ok(KeyExposure::AtMost { native: U256::from(10), tokens, router: false }));
    let mut caged = good;
    caged[1] = CallLimit::PolicyCage;
    assert_eq!(exposure(caged), Ok(KeyExposure::PolicyCage));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_that_the_account_obeys_is_no_target() {
    let world = world().await;
    let (owner, session, network) = (world.owner.address(), world.session.address(), world.network().clone());
    let limits = |target| {
        vec![
            CallLimit::Targets(vec![target]),
            CallLimit::Value(U256::ZERO),
            CallLimit::Time { after: 0, before: 4_102_444_800 },
            CallLimit::Calls(1),
        ]
    };
    // A delegation of the owner to call its own account, as a wallet elsewhere would sign it.
    let to_itself = |target: Address| {
        let mut delegation: Delegation = world.delegation(limits(world.usdc));
        delegation.caveats[0].terms = target.to_vec().into();
        delegation.signature = world.signed(&delegation);
        delegation
    };
    let [manager, code] = [KnownContract::DelegationManager, KnownContract::Eip7702Delegator]
        .map(|contract| network.book.contract(contract).unwrap());
    // By https://github.com/eth-infinitism/account-abstraction/releases/tag/v0.7.0.
    let entry_point = alloy::primitives::address!("0x0000000071727De22E5E9d8BAf0edAc6f37da032");
    for target in [owner, manager, code, entry_point] {
        let drafted = DelegationLimits::new(limits(target)).unwrap();
        let drafted = DelegationGrant::draft(&network, owner, session, (&drafted, DraftBounds::Waived), U256::ONE);
        let escapes = |error: &GrantError| matches!(error, GrantError::Limits(LimitsError::Escape { target: found, .. }) if *found == target);
        assert!(escapes(&drafted.unwrap_err()), "{target}");
        assert!(escapes(&DelegationGrant::read(&network, to_itself(target)).unwrap_err()), "{target}");
    }
    // Why: no value, one contract, and still the thief gets the owner's ether.
    let ether = U256::from(10).pow(U256::from(18));
    let execution = Execution { target: THIEF, value: ether, callData: Bytes::new() };
    let inner = leg(owner, U256::ZERO, executeCall { execution }.abi_encode().into(), 100_000);
    assert_eq!(world.as_session(world.redeem(to_itself(owner), &inner)).await, SendState::Included);
    assert_eq!(world.client.provider().get_balance(THIEF).await.unwrap(), ether);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shapes_that_are_not_wholly_understood_are_none() {
    let world = DelegationHarness::new().await;
    let good = world.delegation(swap(&world));
    let network = world.network();
    assert_eq!(DelegationGrant::read(network, good.clone()).unwrap().limits().all(), swap(&world));
    let groups = Vec::<bardo_abi::delegation::CaveatGroup>::abi_decode(&good.caveats[1].terms).unwrap();
    type Change = fn(&mut Vec<bardo_abi::delegation::CaveatGroup>);
    let changes: [(&str, Change); 7] = [
        ("no group", Vec::clear),
        ("a group without caveats, which lets everything pass", |groups| groups[0].caveats.clear()),
        ("a group without a function", |groups| drop(groups[0].caveats.remove(1))),
        ("another enforcer", |groups| groups[0].caveats[2].enforcer = THIEF),
        ("an argument of two words", |groups| {
            groups[0].caveats[2].terms = [groups[0].caveats[2].terms.as_ref(), &[0; 32]].concat().into();
        }),
        ("an argument between two words", |groups| {
            let mut terms = groups[0].caveats[2].terms.to_vec();
            terms[31] = 5;
            groups[0].caveats[2].terms = terms.into();
        }),
        ("two contracts", |groups| {
            groups[0].caveats[0].terms = [groups[0].caveats[0].terms.as_ref(), &[7; 20]].concat().into();
        }),
    ];
    for (what, change) in changes {
        let (mut changed, mut delegation) = (groups.clone(), good.clone());
        change(&mut changed);
        delegation.caveats[1].terms = changed.abi_encode().into();
        delegation.signature = world.signed(&delegation);
        let read = DelegationGrant::read(network, delegation);
        assert!(matches!(read, Err(GrantError::Limits(LimitsError::Terms { at: 1 }))), "{what}: {read:?}");
    }
}

async fn allowance(world: &DelegationHarness, owner: Address, spender: Address) -> U256 {
    let call = Erc20::allowanceCall { owner, spender }.abi_encode();
    let request = alloy::rpc::types::TransactionRequest { to: Some(world.usdc.into()), ..Default::default() };
    U256::from_be_slice(&world.client.provider().call(request.input(call.into())).await.unwrap())
}
