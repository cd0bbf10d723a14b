//! Obligations of calls, read back from their bytes, whatever a simulation shows today.

use alloy::primitives::{Address, U256, keccak256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, Weth9};
use bardo::abi::erc7683::OriginSettler;
use bardo::abi::uniswap_v2::UniswapV2Factory;
use bardo::chain::network::KnownContract;
use bardo::chain::token::{TokenId, TokenInfo};
use bardo::safety::calldata::read;
use bardo::safety::proposal::{Inflow, LegPurpose, Outflow, PlanLeg, ProposalIntent};
use bardo::uniswap::router::{
    CALLER, RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapCommand, SwapPath, V3Path, WHOLE_BALANCE,
};

use bardo_testkit::harness::{TestHarness, leg};

const HUNDRED: u64 = 100_000_000;
const STRANGER: Address = Address::repeat_byte(0x51);

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_minimum_must_be_guaranteed_by_the_calldata() {
    let world = TestHarness::new(3).await;
    let book = &world.client.network().book;
    let number = |value: u64| U256::from(value);
    let inflow = |token: &TokenInfo, at_least: u64| Inflow {
        token: token.clone(),
        at_least: number(at_least),
        expected: number(at_least),
        recipient: world.account(),
    };
    assert_eq!(read(&world.swap(HUNDRED).await, book), []);
    assert_eq!(read(&world.approval(HUNDRED), book), []);
    // The calldata would accept less than the declared minimum.
    assert_eq!(read(&world.swap_enforcing(HUNDRED, Some(number(1))).await, book).len(), 1);

    let transfer = |token: Address| -> PlanLeg {
        leg(LegPurpose::Main, token, Erc20::transferCall { to: STRANGER, value: number(5) }.abi_encode().into())
    };
    let mut sent = world.proposal(ProposalIntent::Transfer, vec![transfer(world.contract_of(&world.usdc))]);
    sent.outflows = vec![Outflow { token: world.usdc.clone(), amount: number(5) }];
    // The recipient is in the bytes, and must be declared.
    assert_eq!(read(&sent, book).len(), 1);
    sent.recipients = vec![world.account()];
    assert_eq!(read(&sent, book).len(), 1);
    sent.recipients = vec![STRANGER];
    assert_eq!(read(&sent, book), []);
    sent.outflows[0].amount = number(4);
    assert_eq!(read(&sent, book).len(), 1);
    sent.outflows[0].amount = number(5);
    // A transfer's bytes promise no inflow.
    sent.inflows = vec![inflow(&world.weth, 1)];
    assert_eq!(read(&sent, book).len(), 1);
    // A call of a token by a contract that is not one of the declared tokens.
    sent.inflows.clear();
    sent.legs = vec![transfer(STRANGER)];
    assert_eq!(read(&sent, book).len(), 1);

    // The same for the native token.
    let mut coin = world.proposal(
        ProposalIntent::Transfer,
        vec![PlanLeg { value: number(7), ..leg(LegPurpose::Main, STRANGER, Default::default()) }],
    );
    coin.outflows = vec![Outflow { token: TokenInfo::native(world.client.network()), amount: number(7) }];
    assert_eq!(read(&coin, book).len(), 1);
    coin.recipients = vec![STRANGER];
    assert_eq!(read(&coin, book), []);

    // The certain part of a flow counts once.
    let mut twice = world.swap(HUNDRED).await;
    twice.inflows.push(twice.inflows[0].clone());
    assert_eq!(read(&twice, book).len(), 1);

    // Only the wrapping contract makes the wrapped amount certain.
    let deposit = leg(LegPurpose::Main, world.contract_of(&world.weth), Weth9::depositCall {}.abi_encode().into());
    let mut wrapped = world.proposal(ProposalIntent::Swap, vec![PlanLeg { value: number(7), ..deposit }]);
    wrapped.outflows = vec![Outflow { token: TokenInfo::native(world.client.network()), amount: number(7) }];
    wrapped.inflows = vec![inflow(&world.weth, 7)];
    assert_eq!(read(&wrapped, book), []);
    wrapped.inflows = vec![inflow(&world.weth, 8)];
    assert_eq!(read(&wrapped, book).len(), 1);
    wrapped.legs[0].to = STRANGER;
    assert_eq!(read(&wrapped, book).len(), 1);
}

/// From a V3 pool into a V2 pair: the pair may be paid only by the preceding swap.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_preceding_swap_may_pay_a_pair() {
    let world = TestHarness::new(3).await;
    let book = &world.client.network().book;
    let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
    let uni = book.tokens().iter().find(|token| token.symbol == "UNI").unwrap();
    let (uni_token, factory) = (uni.address, world.contract(KnownContract::V2Factory));
    // The pair's address according to the factory.
    let pair = world.ask(factory, UniswapV2Factory::getPairCall { tokenA: weth, tokenB: uni_token }).await;
    assert!(!pair.is_zero());
    let given = U256::from(HUNDRED);
    let least = U256::from(1_000_000_000_000_000_000u64);
    let route = |paid: Address, tokens: Vec<Address>| {
        let execution = RouterExecution {
            commands: vec![
                RouterCommand::Swap(SwapCommand {
                    path: SwapPath::V3(V3Path::new(usdc, vec![(500, weth)]).unwrap()),
                    exact: SwapAmounts::In { amount: given, out_min: U256::ZERO },
                    recipient: paid,
                    payer_is_user: true,
                    min_hop_prices: vec![],
                }),
                RouterCommand::Swap(SwapCommand {
                    path: SwapPath::V2(tokens),
                    exact: SwapAmounts::In { amount: WHOLE_BALANCE, out_min: least },
                    recipient: CALLER,
                    payer_is_user: false,
                    min_hop_prices: vec![],
                }),
            ],
            deadline: Some(U256::from(u32::MAX)),
        };
        let router = world.contract(KnownContract::UniversalRouterV210);
        let mut proposal = world
            .proposal(ProposalIntent::Swap, vec![leg(LegPurpose::Main, router, execution.encode(RouterVersion::V2_0))]);
        proposal.outflows = vec![Outflow { token: world.usdc.clone(), amount: given }];
        proposal.inflows = vec![Inflow {
            token: TokenInfo { id: TokenId::Erc20(uni_token), ..world.weth.clone() },
            at_least: least,
            expected: least,
            recipient: world.account(),
        }];
        read(&proposal, book)
    };
    assert_eq!(route(pair, vec![weth, uni_token]), []);
    assert_eq!(route(STRANGER, vec![weth, uni_token]).len(), 1, "somebody else is paid");
    assert_eq!(route(pair, vec![weth, usdc, uni_token]).len(), 1, "a pair that is not asked next");
}

/// A call that this program does not make is not signed, however harmless it looks.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_call_is_a_fault() {
    let world = TestHarness::new(3).await;
    let book = &world.client.network().book;
    let (usdc, permit2) = (world.contract_of(&world.usdc), world.contract(KnownContract::Permit2));
    let settler = world.contract(KnownContract::OriginSettler);
    let found = |to: Address, data: Vec<u8>| {
        let mut proposal = world.proposal(ProposalIntent::Swap, vec![leg(LegPurpose::Main, to, data.into())]);
        proposal.outflows = vec![Outflow { token: world.usdc.clone(), amount: U256::from(5) }];
        read(&proposal, book).len()
    };
    let call = |function: &str, words: usize| [keccak256(function)[..4].to_vec(), vec![0u8; 32 * words]].concat();
    let longer = |call: Vec<u8>| [call, vec![0u8; 32]].concat();
    let approve = Erc20::approveCall { spender: permit2, value: U256::from(5) }.abi_encode();
    let refund = OriginSettler::refundCall { orderId: Default::default() }.abi_encode();
    assert_eq!((found(usdc, approve.clone()), found(settler, refund.clone())), (0, 0));
    for (to, data) in [
        (permit2, call("transferFrom(address,address,uint160,address)", 4)),
        (permit2, call("permit(address,uint256)", 2)),
        (settler, call("open((uint32,bytes32,bytes))", 4)),
        (settler, longer(refund)),
        (usdc, call("transferFrom(address,address,uint256)", 3)),
        (usdc, call("increaseAllowance(address,uint256)", 2)),
        (usdc, longer(approve.clone())),
        // An allowance that moves nothing, by a contract that is not one of the declared tokens.
        (STRANGER, approve),
        (usdc, vec![0x09, 0x5e]),
    ] {
        assert_eq!(found(to, data.clone()), 1, "{to} {data:?}");
    }
}

/// Every command of the router must pay the account, and the signed message must be the one that the call contains.
#[tokio::test(flavor = "multi_thread")]
async fn router_commands_may_not_pay_others() {
    let world = TestHarness::new(3).await;
    let book = &world.client.network().book;
    let router = world.contract(KnownContract::UniversalRouterV210);
    let found = |command: RouterCommand| {
        let execution = RouterExecution { commands: vec![command], deadline: Some(U256::from(u32::MAX)) };
        let proposal = world
            .proposal(ProposalIntent::Swap, vec![leg(LegPurpose::Main, router, execution.encode(RouterVersion::V2_0))]);
        read(&proposal, book).len()
    };
    let (some, token) = (U256::from(5), world.contract_of(&world.usdc));
    for (recipient, faults) in [(CALLER, 0), (world.account(), 0), (STRANGER, 1)] {
        assert_eq!(found(RouterCommand::Sweep { token, recipient, amount_min: some }), faults, "{recipient}");
        assert_eq!(found(RouterCommand::UnwrapWeth { recipient, amount_min: some }), faults, "{recipient}");
        assert_eq!(found(RouterCommand::WrapEth { recipient, amount: some }), faults, "{recipient}");
    }
    assert_eq!(
        found(RouterCommand::PayPortion { token, recipient: world.account(), bips: some }),
        1,
        "a share of somebody's"
    );
    // A signature that the calldata does not use could be kept by someone.
    let mut swap = world.swap(HUNDRED).await;
    let execution = RouterExecution::decode(&swap.legs[1].data, RouterVersion::V2_0).unwrap();
    let without = RouterExecution { commands: execution.commands[1..].to_vec(), deadline: execution.deadline };
    swap.legs[1].data = without.encode(RouterVersion::V2_0);
    assert_eq!(read(&swap, book).len(), 1);
    // The deadline must not be later than declared.
    let mut late = world.swap(HUNDRED).await;
    late.trade.as_mut().unwrap().deadline -= 1;
    assert_eq!(read(&late, book).len(), 1);
}
