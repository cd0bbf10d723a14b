//! Plans whose last steps only clean up: the counted value of an exact-output trade, and a failing last step.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Bytes, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::permit2::Permit2;
use bardo::base::error::ErrorCode;
use bardo::chain::devnet::Chain;
use bardo::chain::evm::PLACEHOLDER_SIGNATURE;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::permit2::{PermitDetails, PermitSingle};
use bardo::chain::sender::SenderRules;
use bardo::fabric::TxState;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::CommitState;
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::{Inflow, LegPurpose, Outflow, PlanLeg, Proposal, SignatureSlot, TradeFigures};
use bardo::safety::typed::TypedMessage;
use bardo::sandbox::Sandbox;
use bardo::uniswap::router::{
    CALLER, RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapCommand, SwapPath, V3Path,
};

use bardo_testkit::harness::{FEE, Hook, TestHarness, cents, leg, sandbox};

const HUNDRED: u64 = 100_000_000;

/// Step that revokes the router's allowance for USDC inside Permit2.
fn inside(world: &TestHarness) -> PlanLeg {
    let call = Permit2::approveCall {
        token: world.contract_of(&world.usdc),
        spender: world.contract(KnownContract::UniversalRouterV210),
        amount: U160::ZERO,
        expiration: U48::ZERO,
    };
    leg(LegPurpose::CleanUp, world.contract(KnownContract::Permit2), call.abi_encode().into())
}

/// Buys this amount of WETH for at most `most` raw USDC: an allowance, the swap, and the revocation of both allowances.
async fn exactly(world: &TestHarness, out: U256, most: u64) -> Proposal {
    let like = world.swap(most).await;
    let (router, permit2) =
        (world.contract(KnownContract::UniversalRouterV210), world.contract(KnownContract::Permit2));
    let (from, to, in_max) = (world.contract_of(&world.usdc), world.contract_of(&world.weth), U256::from(most));
    let made = like.trade.clone().unwrap();
    let TypedMessage::Permit2Allowance { permit, .. } = &like.legs[1].slots[0].message else { panic!("{like:#?}") };
    let permit = PermitSingle {
        details: PermitDetails { amount: U160::from(most), ..permit.details.clone() },
        ..permit.clone()
    };
    let commands = vec![
        RouterCommand::Permit2Permit { permit: permit.clone(), signature: PLACEHOLDER_SIGNATURE.into() },
        RouterCommand::Swap(SwapCommand {
            path: SwapPath::V3(V3Path::new(from, vec![(FEE, to)]).unwrap()),
            exact: SwapAmounts::Out { amount: out, in_max },
            recipient: CALLER,
            payer_is_user: true,
            min_hop_prices: vec![],
        }),
    ];
    let execution = RouterExecution { commands, deadline: Some(U256::from(made.deadline)) };
    let message = TypedMessage::Permit2Allowance { permit2, permit };
    let offset = execution.signature_offset(RouterVersion::V2_0).unwrap();
    let main = PlanLeg {
        slots: vec![SignatureSlot { offset, message }],
        ..leg(LegPurpose::Main, router, execution.encode(RouterVersion::V2_0))
    };
    Proposal {
        legs: vec![
            world.approve(LegPurpose::Approve, permit2, in_max),
            main,
            world.approve(LegPurpose::CleanUp, permit2, U256::ZERO),
            inside(world),
        ],
        outflows: vec![Outflow { token: world.usdc.clone(), amount: in_max }],
        inflows: vec![Inflow { token: world.weth.clone(), at_least: out, expected: out, recipient: world.account() }],
        trade: Some(TradeFigures { amount_in: in_max, expected_out: out, min_out: out, exact_output: true, ..made }),
        ..like
    }
}

/// The actual input is read from the token's events in the plan's own transactions; the maximum is not spent.
#[tokio::test(flavor = "multi_thread")]
async fn an_exact_output_trade_counts_its_actual_input() {
    let world = TestHarness::new(1).await;
    let out = world.quote(U256::from(HUNDRED)).await;
    let before = [world.balance(&world.usdc).await, world.balance(&world.weth).await];
    // Three and a half dollars more than needed.
    let preview = world.preview(exactly(&world, out, 103_500_000).await).await.unwrap();
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
    let after = [world.balance(&world.usdc).await, world.balance(&world.weth).await];
    assert_eq!(after[1] - before[1], out);
    let paid = i64::try_from(before[0] - after[0]).unwrap();
    assert!(paid < 101_000_000, "{paid}");
    // A native token is about 3,400 dollars.
    let gas = committed.truth.unwrap().gas_cost * U256::from(340_000) / U256::from(10u64.pow(18));
    let gas = i64::try_from(gas).unwrap();
    let ends = world.book.ends.lock().unwrap().clone();
    let [ActionEnd::Done { spent }] = ends.as_slice() else { panic!("{ends:?}") };
    let most = paid / 10_000 + gas + gas / 20 + 50;
    assert!(cents(*spent) >= paid / 10_000 && cents(*spent) <= most, "{spent} for {paid} and {gas} of gas");
    assert!(most < 10_350, "gas is too dear here for the test to tell anything: {gas}");
}

/// Devnet of this file: a contract is broken there.
static BROKEN: LazyLock<Sandbox> = LazyLock::new(|| sandbox(6));

/// The main step of a plan has happened, whatever happens to the clean-up.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_clean_up_does_not_reduce_the_spending() {
    let world = TestHarness::over(&BROKEN, 3, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
    let permit2 = world.contract(KnownContract::Permit2);
    let mut swap = world.swap(HUNDRED).await;
    swap.legs.push(inside(&world));
    let preview = world.preview(swap).await.unwrap();
    let wallet = Arc::clone(&world.wallet);
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        if wallet.signatures.load(Ordering::SeqCst) == 3 {
            // PUSH0 PUSH0 REVERT: every call reverts.
            let breaks = BROKEN.chains()[0]
                .devnet
                .run(move |chain: &mut Chain| chain.set_code(permit2, Bytes::from_static(&[0x5f, 0x5f, 0xfd])));
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(breaks).unwrap().unwrap();
            });
        }
    })
    .into_inner()
    .unwrap();
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    let states: Vec<_> = committed.legs.iter().map(|leg| leg.state).collect();
    assert_eq!(states, [TxState::Confirmed, TxState::Confirmed, TxState::Reverted], "{committed:#?}");
    let CommitState::Stopped { code, why } = &committed.state else { panic!("{:?}", committed.state) };
    assert_eq!(*code, ErrorCode::ExecutionTxReverted, "{why}");
    // The hundred dollars are spent.
    let ends = world.book.ends.lock().unwrap().clone();
    // The revocation of the allowance comes first, and counts with its gas.
    assert!(matches!(ends.last(), Some(ActionEnd::Done { spent }) if cents(*spent) >= 10_000), "{ends:?}");
}
