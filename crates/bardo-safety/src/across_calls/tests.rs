use alloy::primitives::{Bytes, LogData, address};
use alloy::sol_types::SolCall;

use super::*;
use crate::calldata;
use crate::proposal::{AllowanceBound, AllowanceKind, BridgeArrival, Inflow, Outflow};
use crate::sample;
use bardo_abi::across::AcrossSpokePool;

const POOL: Address = address!("0x00000000000000000000000000000000000000c1");
const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const ASSET: Address = address!("0x00000000000000000000000000000000000000d1");
const WANTED: Address = address!("0x00000000000000000000000000000000000000d2");
const NOW: u64 = 1_800_000_000;

fn book() -> AddressBook {
    let mut book = AddressBook::default();
    book.set("acrossSpokePool", POOL);
    book
}

fn deposit() -> OwnDeposit {
    OwnDeposit {
        input_token: ASSET,
        output_token: WANTED,
        input_amount: U256::from(1_000_000),
        output_amount: U256::from(990_000),
        destination_chain_id: 31_338,
        quote_timestamp: 1_800_000_000,
        fill_deadline: 1_800_003_600,
    }
}

fn proposal(call: OwnDeposit) -> Proposal {
    let mut made = sample::proposal(ME, ProposalIntent::Bridge, sample::leg(POOL, call.calldata(ME)));
    made.outflows = vec![Outflow { token: sample::token(ASSET, "T", 6), amount: call.input_amount }];
    made.arrival = Some(Box::new(BridgeArrival {
        chain_id: call.destination_chain_id,
        token: sample::token(WANTED, "T", 6),
        at_least: call.output_amount,
        expected: call.output_amount,
    }));
    made
}

fn judged(proposal: &Proposal) -> Result<DepositPlan, DepositRuleError> {
    decode(proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main).unwrap(), proposal, &book())
}

fn changed(change: impl FnOnce(&mut Proposal)) -> Result<DepositPlan, DepositRuleError> {
    let mut proposal = proposal(deposit());
    change(&mut proposal);
    // Whatever the judgement, the pipeline's reading of the calldata agrees with it.
    assert_eq!(calldata::read(&proposal, &book()).is_empty(), judged(&proposal).is_ok(), "{proposal:#?}");
    judged(&proposal)
}

fn approval(purpose: LegPurpose, to: Address, spender: Address, value: u64) -> PlanLeg {
    let data: Bytes = Erc20::approveCall { spender, value: U256::from(value) }.abi_encode().into();
    PlanLeg { purpose, ..sample::leg(to, data) }
}

#[test]
fn a_deposit_is_all_that_the_calldata_and_the_declaration_say_alike() {
    assert_eq!(changed(|_| {}), Ok(DepositPlan { pool: POOL, call: deposit() }));
    assert_eq!(changed(|one| one.account = OTHER), Err(DepositCallError::Beneficiary(ME).into()));
    assert_eq!(changed(|one| one.legs[0].value = U256::from(1)), Err(DepositRuleError::DoesMore));
    assert_eq!(changed(|one| one.legs.push(one.legs[0].clone())), Err(DepositRuleError::DoesMore));
    assert_eq!(changed(|one| one.outflows.clear()), Err(DepositRuleError::Flows));
    assert_eq!(changed(|one| one.outflows[0].amount = U256::from(999_999)), Err(DepositRuleError::Flows));
    assert_eq!(changed(|one| one.outflows[0].token.id = TokenId::Erc20(WANTED)), Err(DepositRuleError::Flows));
    assert_eq!(changed(|one| one.recipients.push(OTHER)), Err(DepositRuleError::Flows));
    let inflow = |one: &mut Proposal| {
        let token = one.outflows[0].token.clone();
        one.inflows = vec![Inflow { token, at_least: U256::from(1), expected: U256::from(1), recipient: ME }];
    };
    assert_eq!(changed(inflow), Err(DepositRuleError::Flows));
}

#[test]
fn a_deposit_is_the_only_thing_that_its_plan_does() {
    for (name, add) in sample::additions() {
        assert_eq!(judged_with(add), Err(DepositRuleError::DoesMore), "{name}");
    }
    assert_eq!(judged_with(|one| one.files.push(Bytes::from_static(b"{}"))), Err(DepositRuleError::DoesMore));
    // Beside the one main call, its allowance could call the pool.
    let mut twice = proposal(deposit());
    twice.legs.insert(0, PlanLeg { purpose: LegPurpose::Approve, ..twice.legs[0].clone() });
    assert_eq!(decode(&twice.legs[0], &twice, &book()), Err(DepositRuleError::DoesMore));
    assert_eq!(decode(&twice.legs[1], &twice, &book()), Err(DepositRuleError::Allowance));
    // Of another token, an allowance is none of the deposit's.
    let of_other = |one: &mut Proposal| {
        let (token, kind) = (sample::token(WANTED, "T", 6), AllowanceKind::Erc20);
        one.allowances = vec![AllowanceBound { token, spender: POOL, kind, at_most: U256::ZERO }];
    };
    assert_eq!(judged_with(of_other), Err(DepositRuleError::Allowance));
}

/// The pipeline values what is declared to arrive; so that must be what the calldata asks for.
#[test]
fn the_declared_arrival_is_the_one_that_the_calldata_asks_for() {
    let arrival = |change: fn(&mut BridgeArrival)| changed(|one| change(one.arrival.as_mut().unwrap()));
    assert_eq!(changed(|one| one.arrival = None), Err(DepositRuleError::Arrival));
    assert_eq!(arrival(|it| it.chain_id = 1), Err(DepositRuleError::Arrival));
    assert_eq!(arrival(|it| it.token.id = TokenId::Erc20(ASSET)), Err(DepositRuleError::Arrival));
    assert_eq!(arrival(|it| it.at_least = U256::from(990_001)), Err(DepositRuleError::Arrival));
    assert_eq!(arrival(|it| it.expected = U256::from(2_000_000)), Err(DepositRuleError::Arrival));
    let stays = OwnDeposit { destination_chain_id: 31_337, ..deposit() };
    assert_eq!(judged(&proposal(stays)), Err(DepositRuleError::SameChain(31_337)));
}

/// An arrival makes a payment look like an exchange, so that nothing else may claim one.
#[test]
fn nothing_but_a_deposit_may_claim_an_arrival() {
    let mut transfer = proposal(deposit());
    transfer.intent = ProposalIntent::Transfer;
    transfer.recipients = vec![OTHER];
    let data = Erc20::transferCall { to: OTHER, value: U256::from(1_000_000) }.abi_encode();
    transfer.legs = vec![sample::leg(ASSET, data)];
    assert!(claims_arrival(&transfer, &book()));
    assert_eq!(calldata::read(&transfer, &book()).len(), 1);
    transfer.arrival = None;
    assert_eq!(calldata::read(&transfer, &book()), []);
    // A pool that the address book does not name is none.
    let mut elsewhere = proposal(deposit());
    elsewhere.legs[0].to = OTHER;
    assert!(claims_arrival(&elsewhere, &book()));
    assert!(claims_arrival(&proposal(deposit()), &AddressBook::default()));
}

/// The simulation lets the pool of a deposit keep tokens, and nobody of anything else.
#[test]
fn only_the_pool_of_a_deposit_keeps_tokens() {
    let of = |change: &dyn Fn(&mut Proposal)| {
        let mut one = proposal(deposit());
        change(&mut one);
        keeper(&one)
    };
    assert_eq!(of(&|_| {}), Some(POOL));
    assert_eq!(of(&|one| one.arrival = None), None);
    assert_eq!(of(&|one| one.intent = ProposalIntent::Transfer), None);
    assert_eq!(of(&|one| one.account = OTHER), None);
    assert_eq!(of(&|one| one.legs.clear()), None);
    let transfer = Erc20::transferCall { to: OTHER, value: U256::from(1) }.abi_encode();
    assert_eq!(of(&|one| one.legs = vec![sample::leg(ASSET, transfer.clone())]), None);
}

#[test]
fn the_pool_is_called_by_a_bridge_deposit_alone() {
    for intent in [ProposalIntent::Swap, ProposalIntent::Transfer, ProposalIntent::Vault, ProposalIntent::Refund] {
        assert_eq!(changed(|one| one.intent = intent), Err(DepositRuleError::Beside), "{intent:?}");
    }
    // Functions of the pool that no tool uses.
    let pause = alloy::primitives::hex!("738b62e50000000000000000000000000000000000000000000000000000000000000001");
    assert_eq!(changed(|one| one.legs[0].data = Bytes::from(pause)), Err(DepositCallError::Unknown.into()));
    let leaf = AcrossSpokePool::relayRootBundleCall {
        relayerRefundRoot: Default::default(),
        slowRelayRoot: Default::default(),
    };
    assert_eq!(changed(|one| one.legs[0].data = leaf.abi_encode().into()), Err(DepositCallError::Unknown.into()));
}

#[test]
fn only_an_exact_allowance_for_the_pool_goes_along() {
    let bound = |spender, at_most: u64| {
        let token = sample::token(ASSET, "T", 6);
        vec![AllowanceBound { token, spender, kind: AllowanceKind::Erc20, at_most: U256::from(at_most) }]
    };
    let first = |one: &mut Proposal, leg: PlanLeg| one.legs.insert(0, leg);
    let plan = Ok(DepositPlan { pool: POOL, call: deposit() });
    let exact = changed(|one| {
        first(one, approval(LegPurpose::Approve, ASSET, POOL, 1_000_000));
        one.allowances = bound(POOL, 0);
    });
    assert_eq!(exact, plan);
    let refused = Err(DepositRuleError::Allowance);
    assert_eq!(judged_with(|one| first(one, approval(LegPurpose::Approve, ASSET, POOL, 1_000_001))), refused);
    assert_eq!(judged_with(|one| first(one, approval(LegPurpose::Approve, ASSET, OTHER, 1))), refused);
    assert_eq!(judged_with(|one| first(one, approval(LegPurpose::Approve, WANTED, POOL, 1))), refused);
    assert_eq!(judged_with(|one| one.allowances = bound(POOL, 1)), refused);
    assert_eq!(judged_with(|one| one.allowances = bound(OTHER, 0)), refused);
}

fn judged_with(change: impl FnOnce(&mut Proposal)) -> Result<DepositPlan, DepositRuleError> {
    let mut proposal = proposal(deposit());
    change(&mut proposal);
    judged(&proposal)
}

#[test]
fn a_deposit_can_be_filled_for_a_while_and_not_for_ever() {
    let at = |fill_deadline: u64| {
        let call = OwnDeposit { fill_deadline: u32::try_from(fill_deadline).unwrap(), ..deposit() };
        faults(&proposal(call), &book(), NOW).len()
    };
    assert_eq!([at(NOW + 30), at(NOW + 3_600), at(NOW + 21_600)], [0, 0, 0]);
    // In the past the pool takes it as well, and it can only be paid back.
    assert_eq!([at(NOW - 1), at(NOW + 29), at(NOW + 21_601), at(u64::from(u32::MAX))], [1; 4]);
}

fn deposited(call: &OwnDeposit, pool: Address, change: impl FnOnce(&mut AcrossSpokePool::FundsDeposited)) -> Log {
    let mut event = AcrossSpokePool::FundsDeposited {
        inputToken: call.input_token.into_word(),
        outputToken: call.output_token.into_word(),
        inputAmount: call.input_amount,
        outputAmount: call.output_amount,
        destinationChainId: U256::from(call.destination_chain_id),
        depositId: U256::from(7),
        quoteTimestamp: call.quote_timestamp,
        fillDeadline: call.fill_deadline,
        exclusivityDeadline: 0,
        depositor: ME.into_word(),
        recipient: ME.into_word(),
        exclusiveRelayer: Address::ZERO.into_word(),
        message: Bytes::new(),
    };
    change(&mut event);
    Log { address: pool, data: event.encode_log_data() }
}

fn paid(token: Address, to: Address, value: u64) -> Log {
    let event = Erc20::Transfer { from: ME, to, value: U256::from(value) };
    Log { address: token, data: LogData::from(&event) }
}

#[test]
fn a_deposit_is_proven_by_the_pools_event_and_the_tokens_transfer_together() {
    let (proposal, call) = (proposal(deposit()), deposit());
    let missing = |logs: &[Log]| unproven(&proposal, &book(), &logs.iter().collect::<Vec<_>>()).is_some();
    let (told, moved) = (deposited(&call, POOL, |_| {}), paid(ASSET, POOL, 1_000_000));
    assert!(!missing(&[moved.clone(), told.clone()]));
    assert!(missing(std::slice::from_ref(&told)));
    assert!(missing(std::slice::from_ref(&moved)));
    assert!(missing(&[told.clone(), paid(ASSET, POOL, 999_999)]));
    assert!(missing(&[told.clone(), paid(ASSET, OTHER, 1_000_000)]));
    assert!(missing(&[told.clone(), paid(WANTED, POOL, 1_000_000)]));
    assert!(missing(&[moved.clone(), deposited(&call, OTHER, |_| {})]), "another contract's event");
    assert!(missing(&[moved.clone(), deposited(&call, POOL, |it| it.recipient = OTHER.into_word())]));
    assert!(missing(&[moved.clone(), deposited(&call, POOL, |it| it.outputAmount = U256::from(1))]));
    assert!(missing(&[moved.clone(), deposited(&call, POOL, |it| it.destinationChainId = U256::from(1))]));
    assert!(missing(&[moved.clone(), deposited(&call, POOL, |it| it.quoteTimestamp = 9)]));
    assert!(missing(&[moved, deposited(&call, POOL, |it| it.exclusivityDeadline = 9)]));
}
