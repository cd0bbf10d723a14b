//! Figures in the refusal of a simulation: each rule's limit, the violating value and a passing value, and a revert
//! reason in words beside the contract's own, from real contracts on the devnet. Every figure is computed here.

use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, Weth9};
use bardo::abi::nft::Erc721;
use bardo::base::error::ErrorCode;
use bardo::chain::network::KnownContract;
use bardo::chain::permit2::PermitSingle;
use bardo::safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, Outflow, Proposal, ProposalIntent};
use bardo::safety::typed::TypedMessage;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;
use bardo::uniswap::router::{RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapCommand};

use crate::gates::proposed;
use crate::orders::{Fixture, ServiceBehavior};
use bardo_testkit::harness::{TestHarness, leg};

/// A hundred USDC.
const HUNDRED: u64 = 100_000_000;
const STRANGER: Address = Address::repeat_byte(0x51);
const HONEST: &str = "an action that does only what it declares";

/// Violations of a proposal, each as `rule | limit | value | would pass`.
async fn violations(world: &TestHarness, proposal: Proposal) -> Vec<String> {
    let refusal = world.preview(proposal).await.expect_err("the proposal has no violation");
    assert_eq!(refusal.code, ErrorCode::SafetySimulationFailed, "{refusal:?}");
    // The message names the rule of each violation; its figures are rounded there.
    for one in &refusal.violations {
        assert!(refusal.message.contains(&format!("{}: ", one.rule)), "{}", refusal.message);
    }
    let words = |one: &bardo::base::error::Violation| {
        format!("{} | {} | {} | {}", one.rule, one.limit, one.value, one.would_pass)
    };
    refusal.violations.iter().map(words).collect()
}

/// Raw units as whole tokens, by long division: digits, a point, and no zeros at the end.
fn whole(raw: U256, decimals: u32) -> String {
    let one = U256::from(10).pow(U256::from(decimals));
    let (whole, rest) = raw.div_rem(one);
    let mut rest = (rest + one).to_string().split_off(1);
    while rest.ends_with('0') {
        rest.pop();
    }
    if rest.is_empty() { whole.to_string() } else { format!("{whole}.{rest}") }
}

/// Amounts as the checks report them.
trait Amounts {
    /// Raw units of USDC, with six decimals.
    fn in_usdc(&self, raw: u64) -> String;
    /// Raw units of WETH, with 18 decimals.
    fn in_weth(&self, raw: U256) -> String;
}

impl Amounts for TestHarness {
    fn in_usdc(&self, raw: u64) -> String {
        format!("{} USDC ({})", whole(U256::from(raw), 6), self.contract_of(&self.usdc))
    }

    fn in_weth(&self, raw: U256) -> String {
        format!("{} WETH ({})", whole(raw, 18), self.contract_of(&self.weth))
    }
}

/// The swap with other commands in its call, and with the matching permit.
fn with_call(mut proposal: Proposal, change: impl FnOnce(&mut RouterExecution, &mut PermitSingle)) -> Proposal {
    let main = proposal.legs.iter_mut().find(|leg| leg.purpose == LegPurpose::Main).unwrap();
    let mut execution = RouterExecution::decode(&main.data, RouterVersion::V2_0).unwrap();
    let TypedMessage::Permit2Allowance { permit, .. } = &mut main.slots[0].message else { panic!() };
    change(&mut execution, permit);
    let RouterCommand::Permit2Permit { permit: inside, .. } = &mut execution.commands[0] else { panic!() };
    *inside = permit.clone();
    main.data = execution.encode(RouterVersion::V2_0);
    proposal
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_transfers_are_reported_in_whole_tokens() {
    let world = TestHarness::new(6).await;
    let (me, permit2, router) =
        (world.account(), world.contract(KnownContract::Permit2), world.contract(KnownContract::UniversalRouterV210));
    let honest = world.swap(HUNDRED).await;
    // Quoted by the contract, so the output is known to the last digit while nobody trades in between.
    let comes = honest.inflows[0].expected;

    // A millionth less is declared than leaves: by balance, by calldata and by signature.
    let mut less_out = honest.clone();
    less_out.outflows[0].amount -= U256::from(1);
    less_out.trade.as_mut().unwrap().amount_in -= U256::from(1);
    let (declared, leaves) = (world.in_usdc(HUNDRED - 1), world.in_usdc(HUNDRED));
    assert_eq!(
        violations(&world, less_out).await,
        [
            format!(
                "signature | at most {declared} for {router} | {leaves} | a signature for exactly the action's amount"
            ),
            format!("calldata | at most {declared} out | {leaves} may leave | {HONEST}"),
            format!("allowance | at most {declared} for {permit2} | {leaves} after transaction 1 | {HONEST}"),
            format!("outflow | at most {declared} from {me} | {leaves} | {HONEST}"),
        ]
    );

    // One raw unit more is promised than arrives.
    let mut more_in = honest.clone();
    more_in.inflows[0].at_least = comes + U256::from(1);
    let least = honest.inflows[0].at_least;
    assert_eq!(
        violations(&world, more_in).await,
        [
            format!(
                "calldata | at least {} in, guaranteed | only {} guaranteed by the calldata | {HONEST}",
                world.in_weth(comes + U256::from(1)),
                world.in_weth(least)
            ),
            format!(
                "inflow | at least {} to {me} | {comes} | a minimum of {comes} or less, as in a new quote",
                world.in_weth(comes + U256::from(1)),
                comes = world.in_weth(comes)
            ),
        ]
    );

    // The inflow is not declared: no tool describes the token, so raw units are shown.
    let mut unnamed_in = honest.clone();
    unnamed_in.inflows.clear();
    unnamed_in.trade = None;
    let weth = world.contract_of(&world.weth);
    let rules = violations(&world, unnamed_in).await;
    let undeclared =
        format!("undeclared_inflow | nothing of {weth} to {me} | {comes} smallest units of {weth} | {HONEST}");
    assert!(rules.contains(&undeclared), "{rules:#?}");

    // The whole output goes to another account, in a declared swap.
    let mut theft = honest.clone();
    let (usdc, transfer) =
        (world.contract_of(&world.usdc), Erc20::transferCall { to: STRANGER, value: U256::from(HUNDRED) });
    theft.legs = vec![leg(LegPurpose::Main, usdc, transfer.abi_encode().into())];
    assert_eq!(
        violations(&world, theft).await,
        [
            format!(
                "calldata | a call that can be decoded | transaction 1 to {usdc}: it pays {STRANGER}, which is not a \
                 declared recipient | {HONEST}"
            ),
            format!("inflow | at least {} to {me} | {} | {HONEST}", world.in_weth(least), world.in_weth(U256::ZERO)),
        ]
    );

    // Twice the used amount is allowed: the rest would stay, and the swap declares that none does.
    let mut stays = honest.clone();
    stays.legs = vec![world.approve(LegPurpose::Approve, permit2, U256::from(HUNDRED * 2)), stays.legs[1].clone()];
    assert_eq!(
        violations(&world, stays).await,
        [
            format!(
                "allowance | at most {} for {permit2} | {} after transaction 1 | {HONEST}",
                world.in_usdc(HUNDRED),
                world.in_usdc(2 * HUNDRED)
            ),
            format!(
                "allowance | at most {} for {permit2} in the end | {} | {HONEST}",
                world.in_usdc(0),
                world.in_usdc(HUNDRED)
            ),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_allowances_are_reported_with_spender_and_expiry() {
    let world = TestHarness::new(6).await;
    let (me, permit2) = (world.account(), world.contract(KnownContract::Permit2));
    let usdc = world.contract_of(&world.usdc);
    // An unlimited allowance for a spender that the proposal does not name.
    let mut wide = world.approval(HUNDRED);
    wide.legs = vec![world.approve(LegPurpose::Main, STRANGER, U256::MAX)];
    assert_eq!(
        violations(&world, wide).await,
        [format!("allowance | none of USDC ({usdc}) for {STRANGER} | an unlimited amount of USDC ({usdc}) | {HONEST}")]
    );

    // Inside Permit2, an hour longer than declared. 2033-05-18 03:33:20 UTC is Unix time 2,000,000,000.
    let until = 2_000_000_000_u64;
    let call = bardo::abi::permit2::Permit2::approveCall {
        token: usdc,
        spender: STRANGER,
        amount: U160::from(HUNDRED),
        expiration: U48::from(until + 3_600),
    };
    let mut late =
        world.proposal(ProposalIntent::Approve, vec![leg(LegPurpose::Main, permit2, call.abi_encode().into())]);
    late.allowances = vec![AllowanceBound {
        token: world.usdc.clone(),
        spender: STRANGER,
        kind: AllowanceKind::Permit2 { expires_at: until },
        at_most: U256::from(HUNDRED),
    }];
    let hundred = world.in_usdc(HUNDRED);
    assert_eq!(
        violations(&world, late).await,
        [format!(
            "allowance | at most {hundred} for {STRANGER} in Permit2 until 2033-05-18 03:33:20Z in the end | {hundred} \
             until 2033-05-18 04:33:20Z | {HONEST}"
        )]
    );

    // A gift to an undeclared recipient.
    let mut gift = world.proposal(
        ProposalIntent::Transfer,
        vec![leg(
            LegPurpose::Main,
            usdc,
            Erc20::transferCall { to: STRANGER, value: U256::from(HUNDRED) }.abi_encode().into(),
        )],
    );
    gift.outflows = vec![Outflow { token: world.usdc.clone(), amount: U256::from(HUNDRED) }];
    gift.recipients = vec![me];
    assert_eq!(
        violations(&world, gift).await,
        [
            format!(
                "calldata | a call that can be decoded | transaction 1 to {usdc}: it pays {STRANGER}, which is not a \
                 declared recipient | {HONEST}"
            ),
            format!("recipient | only the declared recipients receive anything | {STRANGER} | {HONEST}"),
        ]
    );
}

alloy::sol! {
    /// Function of Permit2, from its published interface.
    function invalidateNonces(address token, address spender, uint48 newNonce) external;
}

/// Unknown, undeclared changes are described by their kind: native token, tokens without a description, operators,
/// nonces.
#[tokio::test(flavor = "multi_thread")]
async fn other_undeclared_changes_are_reported_by_kind() {
    let world = TestHarness::new(6).await;
    let (me, permit2) = (world.account(), world.contract(KnownContract::Permit2));
    let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));

    // A hundredth of a native token is wrapped without a declaration.
    let mut wrap = leg(LegPurpose::Main, weth, Weth9::depositCall {}.abi_encode().into());
    wrap.value = U256::from(10).pow(U256::from(16));
    assert_eq!(
        violations(&world, world.proposal(ProposalIntent::Transfer, vec![wrap])).await,
        [
            format!("calldata | at most 0 of the native token out | 0.01 of the native token may leave | {HONEST}"),
            format!("outflow | at most 0 of the native token from {me} | 0.01 of the native token | {HONEST}"),
            format!(
                "undeclared_inflow | nothing of {weth} to {me} | 10000000000000000 smallest units of {weth} | {HONEST}"
            ),
        ]
    );

    // An operator of a collection may take all of it.
    let positions = world.contract(KnownContract::V3PositionManager);
    let call = Erc721::setApprovalForAllCall { operator: STRANGER, approved: true };
    let operated =
        world.proposal(ProposalIntent::Approve, vec![leg(LegPurpose::Main, positions, call.abi_encode().into())]);
    assert_eq!(
        violations(&world, operated).await,
        [
            format!(
                "calldata | a call that can be decoded | transaction 1 to {positions}: the position manager can only be \
                 called by a liquidity tool | {HONEST}"
            ),
            format!("operator | the operators of {positions} stay | {STRANGER} becomes true | {HONEST}"),
        ]
    );

    // Five future signatures are invalidated.
    let call = invalidateNoncesCall { token: usdc, spender: STRANGER, newNonce: U48::from(5) };
    let voided = world.proposal(ProposalIntent::Revoke, vec![leg(LegPurpose::Main, permit2, call.abi_encode().into())]);
    assert_eq!(
        violations(&world, voided).await,
        [
            format!(
                "calldata | a call that can be decoded | transaction 1 to {permit2}: unknown Permit2 call | {HONEST}"
            ),
            format!("permit2_nonce | the nonce of {usdc} for {STRANGER} becomes 0 | 5 | {HONEST}"),
        ]
    );
}

/// Text and advice of the only violation named `simulation`.
fn said(rules: &[String]) -> &str {
    let rules: Vec<&String> = rules.iter().filter(|rule| rule.starts_with("simulation | ")).collect();
    assert_eq!(rules.len(), 1, "{rules:#?}");
    rules[0].trim_start_matches("simulation | every transaction succeeds | ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reverting_swap_is_explained() {
    let world = TestHarness::new(6).await;
    let honest = world.swap(HUNDRED).await;
    let expected = honest.inflows[0].expected;

    // The router would have to deliver twice the possible output.
    let dear = world.swap_enforcing(HUNDRED, Some(expected * U256::from(2))).await;
    assert_eq!(
        said(&violations(&world, dear).await),
        "transaction 2 reverts: the price moved: the output would be below the minimum; by the contract: \
         V3TooLittleReceived() | the same with a new quote, or with more slippage"
    );
    // For an exact output, the input is bounded.
    let most = with_call(honest.clone(), |execution, _| {
        let RouterCommand::Swap(SwapCommand { exact, .. }) = &mut execution.commands[1] else { panic!() };
        *exact = SwapAmounts::Out { amount: expected * U256::from(2), in_max: U256::from(HUNDRED) };
    });
    assert_eq!(
        said(&violations(&world, most).await),
        "transaction 2 reverts: the price moved: the input would exceed the maximum; by the contract: \
         V3TooMuchRequested() | the same with a new quote, or with more slippage"
    );
    // Past its deadline: the first second of 1970 is over on every chain.
    let late = with_call(honest.clone(), |execution, _| execution.deadline = Some(U256::from(1)));
    assert_eq!(
        said(&violations(&world, late).await),
        "transaction 2 reverts: its deadline has passed; by the contract: TransactionDeadlinePassed() | the same with a new quote"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reverting_permit_is_explained() {
    let world = TestHarness::new(6).await;
    let honest = world.swap(HUNDRED).await;
    // The router wraps Permit2's error about a permit in its own error; errors while it takes the token pass unchanged.
    let past = with_call(honest.clone(), |_, permit| permit.sigDeadline = U256::from(1));
    assert_eq!(
        said(&violations(&world, past).await),
        "transaction 2 reverts: the signature has expired; by the contract: ExecutionFailed(commandIndex: 0, message: \
         …): SignatureExpired(signatureDeadline: 1) | the same with a new signature"
    );
    let used = with_call(honest.clone(), |_, permit| permit.details.nonce += U48::from(1));
    assert_eq!(
        said(&violations(&world, used).await),
        "transaction 2 reverts: the signature was already used, or was cancelled; by the contract: \
         ExecutionFailed(commandIndex: 0, message: …): InvalidNonce() | the same with a new signature"
    );
    // The allowance is one unit below the amount taken.
    let small = with_call(honest.clone(), |_, permit| permit.details.amount -= U160::from(1));
    assert_eq!(
        said(&violations(&world, small).await),
        "transaction 2 reverts: the Permit2 allowance is below the amount; by the contract: \
         InsufficientAllowance(amount: 99999999) | the same with an allowance for the full amount"
    );
    let gone = with_call(honest.clone(), |_, permit| permit.details.expiration = U48::from(1));
    assert_eq!(
        said(&violations(&world, gone).await),
        "transaction 2 reverts: the Permit2 allowance has expired; by the contract: AllowanceExpired(deadline: 1) | \
         the same with a new allowance"
    );
    // Permit2 itself has no allowance for the token.
    let mut alone = honest;
    alone.legs.remove(0);
    assert_eq!(
        said(&violations(&world, alone).await),
        "transaction 1 reverts: the token could not be taken: balance or allowance too low, or the token refuses; by \
         the contract: TRANSFER_FROM_FAILED | an amount within balance and allowance, of a transferable token"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_above_the_balance_is_explained() {
    let world = TestHarness::new(6).await;
    let held = world.balance(&world.usdc).await;
    let call = Erc20::transferCall { to: STRANGER, value: held + U256::from(1) };
    let legs = vec![leg(LegPurpose::Main, world.contract_of(&world.usdc), call.abi_encode().into())];
    let mut more = world.proposal(ProposalIntent::Transfer, legs);
    more.outflows = vec![Outflow { token: world.usdc.clone(), amount: held + U256::from(1) }];
    more.recipients = vec![STRANGER];
    // The token's checked subtraction reverts without a named error.
    assert_eq!(
        said(&violations(&world, more).await),
        "transaction 1 reverts: arithmetic overflow; for a token, the balance or allowance is below the amount; by the \
         contract: panic 0x11: arithmetic overflow or underflow | an amount within balance and allowance"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_out_of_gas_is_reported_with_its_gas_limit() {
    let world = TestHarness::new(6).await;
    let mut short = world.swap(HUNDRED).await;
    // Enough gas to start, and less than a swap takes. The account adds a tenth to every gas limit.
    short.legs[1].gas_limit = 60_000;
    assert_eq!(
        said(&violations(&world, short).await),
        "transaction 2 halts within its 66000 gas: out of gas | an action that can run within its gas"
    );
}

/// An order is settled by another account's call, and its revert is reported the same way.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_settled_is_explained() {
    let fixture = Fixture::new(8, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let world = &fixture.world;
    let proposal = proposed(&fixture).await;
    world.disallow().await;
    assert_eq!(
        violations(world, proposal.clone()).await,
        ["simulation | the order can be settled at its worst | it reverts: the token could not be taken: balance or \
          allowance too low, or the token refuses; by the contract: TRANSFER_FROM_FAILED | an amount within balance \
          and allowance, of a transferable token"]
    );
    fixture.clear().await;
}
