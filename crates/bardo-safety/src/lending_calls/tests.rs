use alloy::primitives::{Bytes, address};

use super::*;
use crate::proposal::{AllowanceBound, AllowanceKind, Inflow, Outflow};
use crate::sample;
use crate::value::PriceSpread;
use golem_chain::fork::{BalanceChange, PinnedBlock, StateChanges};
use golem_protocols::aave::math::RAY;
use golem_protocols::aave::reserve::{ReserveConfig, ReserveState};

const POOL: Address = address!("0x00000000000000000000000000000000000000c1");
const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const ASSET: Address = address!("0x00000000000000000000000000000000000000d1");
const RECEIPT: Address = address!("0x00000000000000000000000000000000000000e1");
const DEBT: Address = address!("0x00000000000000000000000000000000000000e2");
const REWARDS: Address = address!("0x00000000000000000000000000000000000000f1");

fn amount() -> U256 {
    U256::from(1_000_000)
}

fn supply() -> LendingCall {
    LendingCall::Supply { asset: ASSET, amount: amount() }
}

fn withdraw() -> LendingCall {
    LendingCall::Withdraw { asset: ASSET, amount: amount() }
}

fn borrow() -> LendingCall {
    LendingCall::Borrow { asset: ASSET, amount: amount() }
}

fn repay() -> LendingCall {
    LendingCall::Repay { asset: ASSET, amount: amount() }
}

fn proposal(call: LendingCall) -> Proposal {
    let token = || sample::token(ASSET, "T", 6);
    let mut made = sample::proposal(ME, ProposalIntent::Lending, sample::leg(POOL, call.calldata(ME)));
    match call {
        LendingCall::Supply { amount, .. } | LendingCall::Repay { amount, .. } => {
            made.outflows = vec![Outflow { token: token(), amount }];
        }
        LendingCall::Withdraw { .. } | LendingCall::Borrow { .. } => {
            let (at_least, recipient) = (amount(), ME);
            made.inflows = vec![Inflow { token: token(), at_least, expected: at_least, recipient }];
        }
    }
    made
}

/// Position with five million units supplied and two million owed, at an index of one and a half.
fn around() -> JudgeContext {
    let index = RAY * U256::from(3) / U256::from(2);
    let reserve = ReserveState {
        asset: ASSET,
        id: 0,
        config: ReserveConfig { decimals: 6, threshold: 8_000, ..ReserveConfig::decode(U256::ZERO) },
        a_token: RECEIPT,
        debt_token: DEBT,
        liquidity_index: index,
        debt_index: index,
        supply_rate: U256::ZERO,
        debt_rate: U256::ZERO,
        updated: 0,
        price: U256::from(100_000_000),
    };
    let (supplied, debt) = (U256::from(5_000_000), U256::from(2_000_000));
    let position = ReservePosition { reserve, supplied, debt, is_collateral: true };
    let sums = AccountSums::of(&[position]).unwrap();
    let (positions, sums, rewards) = (vec![position], Some(sums), vec![REWARDS]);
    let state = MarketState { account: ME, positions, sums, category: 0, rewards, oracle: OTHER };
    let lending = Some(LendingContext {
        pool: POOL,
        multicall: None,
        state: Some(state),
        symbols: BTreeMap::new(),
        stablecoins: Default::default(),
    });
    JudgeContext { lending, ..JudgeContext::default() }
}

fn judged(proposal: &Proposal) -> Result<LendingCall, LendingRuleError> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main).unwrap();
    decode(main, proposal, Some(POOL))
}

fn approval(purpose: LegPurpose, to: Address, spender: Address) -> PlanLeg {
    let data: Bytes = Erc20::approveCall { spender, value: amount() }.abi_encode().into();
    PlanLeg { purpose, ..sample::leg(to, data) }
}

fn bound(spender: Address, at_most: u64) -> AllowanceBound {
    let token = sample::token(ASSET, "T", 6);
    AllowanceBound { token, spender, kind: AllowanceKind::Erc20, at_most: U256::from(at_most) }
}

#[test]
fn a_lending_action_does_nothing_else() {
    for call in [supply(), withdraw(), borrow(), repay()] {
        assert_eq!(judged(&proposal(call)), Ok(call));
        let changed = |change: &dyn Fn(&mut Proposal)| {
            let mut proposal = proposal(call);
            change(&mut proposal);
            judged(&proposal)
        };
        assert_eq!(changed(&|one| one.intent = ProposalIntent::Swap), Err(LendingRuleError::Beside));
        assert_eq!(changed(&|one| one.legs[0].to = OTHER), Err(LendingRuleError::Elsewhere));
        assert_eq!(changed(&|one| one.account = OTHER), Err(LendingCallError::Beneficiary(ME).into()));
        assert_eq!(changed(&|one| one.legs[0].value = U256::ONE), Err(LendingRuleError::DoesMore));
        assert_eq!(changed(&|one| one.legs.push(one.legs[0].clone())), Err(LendingRuleError::DoesMore));
        let more = Outflow { token: sample::token(OTHER, "O", 18), amount: U256::ONE };
        assert_eq!(changed(&|one| one.outflows.push(more.clone())), Err(LendingRuleError::Flows));
        assert_eq!(changed(&|one| one.outflows.iter_mut().for_each(|flow| flow.amount += U256::ONE)).is_ok(), {
            matches!(call, LendingCall::Withdraw { .. } | LendingCall::Borrow { .. })
        });
        assert_eq!(changed(&|one| one.inflows.iter_mut().for_each(|flow| flow.recipient = OTHER)).is_ok(), {
            matches!(call, LendingCall::Supply { .. } | LendingCall::Repay { .. })
        });
        assert_eq!(changed(&|one| one.inflows.iter_mut().for_each(|flow| flow.at_least += U256::ONE)).is_ok(), {
            matches!(call, LendingCall::Supply { .. } | LendingCall::Repay { .. })
        });
        // The allowance of the plan, for the pool alone and used up or revoked, beside what gives a token.
        let gives = matches!(call, LendingCall::Supply { .. } | LendingCall::Repay { .. });
        for (to, spender, left, right) in
            [(ASSET, POOL, 0, true), (OTHER, POOL, 0, false), (ASSET, OTHER, 0, false), (ASSET, POOL, 1, false)]
        {
            let allowed = changed(&|one| {
                one.legs.insert(0, approval(LegPurpose::Approve, to, spender));
                one.legs.push(approval(LegPurpose::CleanUp, to, spender));
                one.allowances.push(bound(spender, left));
            });
            let expected = if gives && right { Ok(call) } else { Err(LendingRuleError::Allowance) };
            assert_eq!(allowed, expected, "{call:?} {to} {spender} {left}");
        }
    }
}

fn change(token: Address, before: u64, after: u64) -> BalanceChange {
    let balance = ValueChange { before: U256::from(before), after: U256::from(after) };
    BalanceChange { token, holder: ME, balance }
}

fn found(call: LendingCall, balances: Vec<BalanceChange>) -> Vec<RuleName> {
    let pinned = PinnedBlock { chain_id: 1, number: 1, hash: Default::default() };
    let changes = StateChanges { balances, ..StateChanges::default() };
    let simulation = Simulation { pinned, outcomes: vec![], changes };
    faults(&proposal(call), &around(), &simulation, true).into_iter().map(|fault| fault.rule).collect()
}

/// At an index of one and a half, a balance may be three units off.
#[test]
fn supplies_and_debts_move_by_the_calldata_alone() {
    let none: [RuleName; 0] = [];
    for off in [0, 3] {
        assert_eq!(found(supply(), vec![change(RECEIPT, 5_000_000, 6_000_000 - off)]), none);
        assert_eq!(found(withdraw(), vec![change(RECEIPT, 5_000_000, 4_000_000 + off)]), none);
        assert_eq!(found(borrow(), vec![change(DEBT, 2_000_000, 3_000_000 + off)]), none);
        let paid = change(ASSET, 9_000_000, 8_000_000);
        assert_eq!(found(repay(), vec![change(DEBT, 2_000_000, 1_000_000 + off), paid]), none);
    }
    assert_eq!(found(supply(), vec![]), [RuleName::Inflow], "nothing for what is given");
    assert_eq!(found(supply(), vec![change(RECEIPT, 5_000_000, 5_999_996)]), [RuleName::Inflow]);
    assert_eq!(
        found(withdraw(), vec![change(RECEIPT, 5_000_000, 3_999_996)]),
        [RuleName::Outflow],
        "more than comes out"
    );
    assert_eq!(found(borrow(), vec![change(DEBT, 2_000_000, 3_000_004)]), [RuleName::Outflow], "more than comes out");
    assert_eq!(found(borrow(), vec![]), [RuleName::Outflow]);
    let both = vec![change(DEBT, 2_000_000, 3_000_000), change(RECEIPT, 5_000_000, 4_999_999)];
    assert_eq!(found(borrow(), both), [RuleName::Outflow], "the supply must stay");
    let paid = || change(ASSET, 9_000_000, 8_000_000);
    assert_eq!(found(repay(), vec![paid()]), [RuleName::Inflow], "the debt must fall");
    assert_eq!(found(repay(), vec![change(DEBT, 2_000_000, 1_000_004), paid()]), [RuleName::Inflow]);
    let all = LendingCall::Withdraw { asset: ASSET, amount: U256::MAX };
    let out = change(ASSET, 0, 5_000_000);
    assert_eq!(found(all, vec![change(RECEIPT, 5_000_000, 0), out]), none);
    assert_eq!(found(all, vec![change(RECEIPT, 5_000_000, 1), out]), [RuleName::Outflow], "something stays");
    assert_eq!(found(all, vec![change(RECEIPT, 5_000_004, 0), out]), [RuleName::Outflow], "less comes out");
}

#[test]
fn only_the_pools_own_contracts_are_records_of_a_lending_action() {
    let (around, own) = (around(), proposal(supply()));
    for (contract, record, written) in
        [(POOL, false, true), (RECEIPT, true, true), (DEBT, true, true), (REWARDS, false, true), (ASSET, false, false)]
    {
        assert_eq!(
            (is_record(contract, &own, &around), writes(contract, &own, &around)),
            (record, written),
            "{contract}"
        );
        // Beside any other action they are contracts like others.
        let other = Proposal { intent: ProposalIntent::Transfer, ..proposal(supply()) };
        assert!(!is_record(contract, &other, &around) && !writes(contract, &other, &around));
    }
    assert!(keeps(RECEIPT, &own, &around) && !keeps(OTHER, &own, &around));
}

#[test]
fn what_pays_a_debt_closes_and_a_part_of_a_free_supply_decreases() {
    let of = |call| class(&proposal(call), &around());
    assert_eq!(of(supply()), Some(ActionClass::NewPosition));
    assert_eq!(of(borrow()), Some(ActionClass::NewPosition));
    assert_eq!(of(LendingCall::Withdraw { asset: ASSET, amount: U256::MAX }), Some(ActionClass::ClosePosition));
    // The account owes two millions: a part paid back, or taken out to pay it, passes in every phase.
    assert_eq!(of(repay()), Some(ActionClass::ClosePosition));
    assert_eq!(of(withdraw()), Some(ActionClass::ClosePosition));
    let mut free = around();
    for one in &mut free.lending.as_mut().unwrap().state.as_mut().unwrap().positions {
        one.debt = U256::ZERO;
    }
    assert_eq!(class(&proposal(withdraw()), &free), Some(ActionClass::DecreasePosition));
}

#[test]
fn only_a_repayment_needs_no_price() {
    for (call, pays) in [(repay(), true), (supply(), false), (borrow(), false), (withdraw(), false)] {
        assert_eq!(repays(&proposal(call)), pays, "{call:?}");
    }
    assert!(!repays(&Proposal { intent: ProposalIntent::Transfer, ..proposal(repay()) }));
}

fn log<E: alloy::sol_types::SolEvent>(address: Address, event: &E) -> Log {
    Log { address, data: event.encode_log_data() }
}

#[test]
fn the_receipt_proves_the_action() {
    let (reserve, amount) = (ASSET, amount());
    let borrowed = |of: Address, amount: U256| AavePool::Borrow {
        reserve,
        user: of,
        onBehalfOf: of,
        amount,
        interestRateMode: 2,
        borrowRate: U256::ZERO,
        referralCode: 0,
    };
    let missing = |call, log: Log| unproven(&proposal(call), Some(POOL), &[&log]);
    assert_eq!(missing(borrow(), log(POOL, &borrowed(ME, amount))), None);
    assert_eq!(missing(borrow(), log(OTHER, &borrowed(ME, amount))), Some("Borrow"), "not the pool's");
    assert_eq!(missing(borrow(), log(POOL, &borrowed(OTHER, amount))), Some("Borrow"));
    assert_eq!(missing(borrow(), log(POOL, &borrowed(ME, amount - U256::ONE))), Some("Borrow"));
    let repaid =
        |amount, from_supply| AavePool::Repay { reserve, user: ME, repayer: ME, amount, useATokens: from_supply };
    assert_eq!(missing(repay(), log(POOL, &repaid(amount - U256::ONE, false))), None, "the debt was smaller");
    assert_eq!(missing(repay(), log(POOL, &repaid(amount + U256::ONE, false))), Some("Repay"));
    assert_eq!(missing(repay(), log(POOL, &repaid(amount, true))), Some("Repay"), "paid from the supply");
    let supplied = |to| AavePool::Supply { reserve, user: ME, onBehalfOf: to, amount, referralCode: 0 };
    assert_eq!(missing(supply(), log(POOL, &supplied(ME))), None);
    assert_eq!(missing(supply(), log(POOL, &supplied(OTHER))), Some("Supply"));
    let paid = |to| AavePool::Withdraw { reserve, user: ME, to, amount };
    assert_eq!(missing(withdraw(), log(POOL, &paid(ME))), None);
    assert_eq!(missing(withdraw(), log(POOL, &paid(OTHER))), Some("Withdraw"));
}

/// By hand: $5 at a threshold of 80 % secure $2 of debt, a health factor of 2. A gift of one unit of six decimals at $1 is
/// worth 100 in the market's eight decimals: (400,000,080 − 102) / 200,000,000 = 1.99999989 without it, and one of $1 leaves
/// (480,000,000 − 100,000,002) / 200,000,000 = 1.89999999.
#[test]
fn a_supply_without_a_confirmed_price_secures_nothing_and_holds_nothing_up() {
    let own = around().lending.unwrap().state.unwrap().positions.remove(0);
    let confirmed = |gift: ReservePosition| {
        let after = AccountSums::of(&[own, gift]).unwrap();
        (after.health, confirmed_health(&after, [gift].iter()))
    };
    let gift = |units: u64| ReservePosition { supplied: U256::from(units), debt: U256::ZERO, ..own };
    let health = |hundred_millionths: u64| U256::from(hundred_millionths) * U256::from(10_000_000_000_u64);
    assert_eq!(confirmed(gift(1)).1, Some(health(199_999_989)));
    assert_eq!(confirmed(gift(1_000_000)), (health(240_000_000), Some(health(189_999_999))));
    // All of the security is in doubt.
    let alone = AccountSums::of(&[own]).unwrap();
    assert_eq!(confirmed_health(&alone, [].into_iter()), Some(health(200_000_000)));
    let doubtful = ReservePosition { debt: U256::ZERO, ..own };
    assert_eq!(confirmed_health(&alone, [doubtful].iter()), Some(U256::ZERO));
    // One that secures nothing, and one in which something is owed.
    let unused = ReservePosition { is_collateral: false, ..gift(1_000_000) };
    assert_eq!(confirmed(unused).1, Some(health(200_000_000)));
    assert_eq!(confirmed(ReservePosition { debt: U256::ONE, ..gift(1) }).1, None);
}

#[test]
fn a_price_is_believed_within_three_percent_of_every_source() {
    let usd = |text: &str| text.parse::<Usd>().unwrap();
    let position = || around().lending.unwrap().state.unwrap().positions.remove(0);
    let judged = |market: u64, own: Option<[&str; 2]>| {
        let mut one = position();
        one.reserve.price = U256::from(market);
        let mut spreads = PriceSpreads::default();
        if let Some([lowest, highest]) = own {
            let mut spread = PriceSpread::fed(usd(lowest));
            spread.all.highest = usd(highest);
            spreads.of.insert(ASSET, Ok(spread));
        }
        gap(&one, &spreads).is_none()
    };
    assert!(judged(100_000_000, Some(["1", "1"])));
    assert!(judged(103_000_000, Some(["1", "1"])) && judged(97_000_000, Some(["1", "1"])));
    assert!(!judged(103_000_001, Some(["1", "1"])) && !judged(96_999_999, Some(["1", "1"])));
    // Between two sources, it must be near both.
    assert!(judged(101_000_000, Some(["1", "1.02"])));
    assert!(!judged(98_000_000, Some(["1", "1.02"])) && !judged(103_500_000, Some(["1", "1.02"])));
    assert!(!judged(100_000_000, None), "no source of its own");
    assert!(!judged(0, Some(["1", "1"])), "the market has no price");
}
