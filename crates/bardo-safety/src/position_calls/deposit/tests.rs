use alloy::primitives::{LogData, address};

use super::super::{class, declares, decode, moves_a_token, positions_after, unproven as unproven_change};
use super::*;
use crate::proposal::{AllowanceBound, Inflow, Outflow, ProposalIntent};
use crate::sample;
use PositionChange::V3;
use bardo_base::model::ActionClass;
use golem_chain::fork::{NftChange, ValueChange};

const MANAGER: Address = address!("0x00000000000000000000000000000000000000c1");
const MANAGERS: PositionManagers = PositionManagers { v3: Some(MANAGER), v4: None, pools: None, permit2: None };
const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const TOKENS: [Address; 2] =
    [address!("0x00000000000000000000000000000000000000d1"), address!("0x00000000000000000000000000000000000000d2")];
const NOW: u64 = 1_000;

fn whole(amount: f64) -> U256 {
    U256::from((amount * 1e18) as u128)
}

fn bps(points: u32) -> BasisPoints {
    BasisPoints::new(points).unwrap()
}

fn range() -> TickRange {
    TickRange::new(-600, 600).unwrap()
}

/// One of each token at a price of one, in a range of 600 ticks on both sides. With a slippage of one percent and half a
/// percent of movement, by hand: at √1.015 the second token pays for a liquidity of 1 / (√1.015 − 1/e), e = 1.0001^300, and
/// that takes 1/√1.015 − 1/e of the first for each unit of it; at √0.985 the same the other way round.
fn least() -> [U256; 2] {
    let (high, low, edge) = (1.015_f64.sqrt(), 0.985_f64.sqrt(), 1.0001_f64.powi(300));
    let first = (1.0 / high - 1.0 / edge) / (high - 1.0 / edge);
    let second = (low - 1.0 / edge) / (1.0 / low - 1.0 / edge);
    // A millionth above the bound, for the digits of this arithmetic.
    [whole(first * 1.000_001), whole(second * 1.000_001)]
}

fn deposit() -> Deposit {
    Deposit { most: [whole(1.0); 2], least: least(), deadline: U256::from(NOW + 600) }
}

fn mint() -> PositionPlan {
    PositionPlan::Mint { token0: TOKENS[0], token1: TOKENS[1], fee: 3_000, range: range(), deposit: deposit() }
}

fn increase() -> PositionPlan {
    PositionPlan::Increase { token_id: U256::from(42), deposit: deposit() }
}

fn compound() -> PositionPlan {
    PositionPlan::Compound { token_id: U256::from(42), deposit: deposit() }
}

fn approve(purpose: LegPurpose, token: Address, spender: Address, value: U256) -> PlanLeg {
    PlanLeg { purpose, ..sample::leg(token, Erc20::approveCall { spender, value }.abi_encode()) }
}

/// Plan with an allowance of each token before, and its revocation afterwards.
fn proposal(plan: PositionPlan) -> Proposal {
    let outflow = |at: usize| Outflow { token: sample::token(TOKENS[at], "T", 18), amount: whole(1.0) };
    let bound = |at: usize| AllowanceBound {
        token: sample::token(TOKENS[at], "T", 18),
        spender: MANAGER,
        kind: AllowanceKind::Erc20,
        at_most: U256::ZERO,
    };
    Proposal {
        outflows: vec![outflow(0), outflow(1)],
        allowances: vec![bound(0), bound(1)],
        legs: vec![
            approve(LegPurpose::Approve, TOKENS[0], MANAGER, whole(1.0)),
            approve(LegPurpose::Approve, TOKENS[1], MANAGER, whole(1.0)),
            sample::leg(MANAGER, plan.calldata(ME)),
            approve(LegPurpose::CleanUp, TOKENS[0], MANAGER, U256::ZERO),
            approve(LegPurpose::CleanUp, TOKENS[1], MANAGER, U256::ZERO),
        ],
        ..sample::proposal(ME, ProposalIntent::Liquidity, sample::leg(MANAGER, plan.calldata(ME)))
    }
}

fn judged(proposal: &Proposal) -> Result<PositionChange, PositionRuleError> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main).unwrap();
    decode(main, proposal, MANAGERS)
}

#[test]
fn a_deposit_does_nothing_else() {
    for plan in [mint(), increase()] {
        assert_eq!(judged(&proposal(plan)), Ok(V3(plan)));
        let mut alone = proposal(plan);
        alone.legs.retain(|leg| leg.purpose == LegPurpose::Main);
        alone.allowances.clear();
        assert_eq!(judged(&alone), Ok(V3(plan)), "an allowance may already be there");
        let changed = |change: fn(&mut Proposal)| {
            let mut proposal = proposal(plan);
            change(&mut proposal);
            judged(&proposal)
        };
        assert_eq!(changed(|one| one.intent = ProposalIntent::Swap), Err(PositionRuleError::Beside));
        assert_eq!(changed(|one| one.legs[2].to = OTHER), Err(PositionRuleError::Elsewhere));
        let more: [fn(&mut Proposal); 7] = [
            |one| one.legs[2].value = U256::ONE,
            |one| one.recipients.push(OTHER),
            |one| {
                let token = sample::token(TOKENS[0], "T", 18);
                one.inflows.push(Inflow { token, at_least: U256::ZERO, expected: U256::ZERO, recipient: ME });
            },
            |one| one.allowances[0].at_most = U256::ONE,
            |one| one.allowances[0].spender = OTHER,
            |one| one.allowances[0].token = sample::token(OTHER, "O", 18),
            |one| one.allowances[0].kind = AllowanceKind::Permit2 { expires_at: NOW },
        ];
        for change in more {
            assert_eq!(changed(change), Err(PositionRuleError::DepositMovesMore));
        }
        let outflows: [fn(&mut Proposal); 4] = [
            |one| drop(one.outflows.pop()),
            |one| one.outflows.reverse(),
            |one| one.outflows[0].amount += U256::ONE,
            |one| one.outflows[0].token.id = TokenId::Native,
        ];
        for change in outflows {
            assert_eq!(changed(change), Err(PositionRuleError::Outflows));
        }
        let beside: [fn(&mut Proposal); 9] = [
            |one| one.legs[0] = approve(LegPurpose::Approve, TOKENS[0], OTHER, whole(1.0)),
            |one| one.legs[0] = approve(LegPurpose::Approve, TOKENS[0], MANAGER, whole(1.1)),
            |one| one.legs[0] = approve(LegPurpose::Approve, OTHER, MANAGER, whole(1.0)),
            |one| one.legs[0] = approve(LegPurpose::CleanUp, TOKENS[0], MANAGER, U256::ZERO),
            |one| one.legs[3] = approve(LegPurpose::CleanUp, TOKENS[0], MANAGER, U256::ONE),
            |one| one.legs[3] = approve(LegPurpose::Approve, TOKENS[0], MANAGER, U256::ZERO),
            |one| one.legs[0].value = U256::ONE,
            |one| one.legs[0].data = [one.legs[0].data.as_ref(), &[0]].concat().into(),
            |one| one.legs.push(one.legs[2].clone()),
        ];
        for (at, change) in beside.into_iter().enumerate() {
            assert_eq!(changed(change), Err(PositionRuleError::BesideDeposit), "{at} of {plan:?}");
        }
    }
    // Compounded fees bring the rest of both tokens, and nothing else does.
    let rest = |proposal: &mut Proposal| {
        let inflow = |at: usize| Inflow {
            token: sample::token(TOKENS[at], "T", 18),
            at_least: U256::ZERO,
            expected: U256::ZERO,
            recipient: ME,
        };
        proposal.inflows = vec![inflow(0), inflow(1)];
    };
    let with_rest = |plan, change: fn(&mut Proposal)| {
        let mut proposal = proposal(plan);
        rest(&mut proposal);
        change(&mut proposal);
        judged(&proposal)
    };
    assert_eq!(with_rest(compound(), |_| ()), Ok(V3(compound())));
    assert_eq!(judged(&proposal(compound())), Err(PositionRuleError::DepositMovesMore));
    assert_eq!(with_rest(increase(), |_| ()), Err(PositionRuleError::DepositMovesMore));
    for change in [
        (|one| one.inflows[0].recipient = OTHER) as fn(&mut Proposal),
        |one| one.inflows[0].at_least = U256::ONE,
        |one| one.inflows.reverse(),
        |one| drop(one.inflows.pop()),
    ] {
        assert_eq!(with_rest(compound(), change), Err(PositionRuleError::DepositMovesMore));
    }
    // Tokens other than the declared ones.
    let other = PositionPlan::Mint { token0: TOKENS[0], token1: OTHER, fee: 3_000, range: range(), deposit: deposit() };
    assert_eq!(judged(&proposal(other)), Err(PositionRuleError::Outflows));
    assert_eq!((class(&V3(mint())), class(&V3(increase()))), (ActionClass::NewPosition, ActionClass::IncreasePosition));
}

#[test]
fn the_account_gets_one_new_token_and_from_nobody() {
    let change =
        |collection, before, after| NftChange { collection, id: U256::from(7), who: ValueChange { before, after } };
    let declared = |plan, change| declares(&proposal(plan), MANAGERS, &change);
    assert!(declared(mint(), change(MANAGER, Address::ZERO, ME)));
    for other in [
        change(OTHER, Address::ZERO, ME),
        change(MANAGER, OTHER, ME),
        change(MANAGER, Address::ZERO, OTHER),
        change(MANAGER, ME, Address::ZERO),
    ] {
        assert!(!declared(mint(), other), "{other:?}");
    }
    assert!(!declared(increase(), change(MANAGER, Address::ZERO, ME)));
    let after = |plan, holder| positions_after(&proposal(plan), MANAGERS, (MANAGER, holder), U256::from(3));
    assert_eq!((after(mint(), ME), after(mint(), OTHER), after(increase(), ME)), (Some(U256::from(4)), None, None));
    assert!(moves_a_token(&proposal(mint()), MANAGERS).is_some());
    assert!(moves_a_token(&proposal(increase()), MANAGERS).is_none());
}

/// Rules that a deposit at this pool price (in parts of the feeds', by its square root) breaks.
fn found(plan: &PositionPlan, root: f64, change: impl FnOnce(&mut DepositGround<'_>)) -> Vec<RuleName> {
    let priced = PricedToken { usd: Usd::whole(1), decimals: 18 };
    let prices = [priced; 2];
    let one = U256::ONE << 96;
    let mut ground = DepositGround {
        pool: PositionPool::Contract(OTHER),
        range: match plan {
            PositionPlan::Mint { range, .. } => *range,
            _ => range(),
        },
        sqrt_price_x96: one * U256::from((root * 1e15) as u128) / U256::from(10_u64.pow(15)),
        owed: Some([whole(1.0); 2]),
        is_counted: true,
        prices: Some(&prices),
        now: NOW,
        max_slippage: bps(100),
        max_loss: bps(200),
    };
    change(&mut ground);
    let faults = deposit_faults(&proposal(*plan), &V3(*plan), Some(&ground));
    faults.into_iter().map(|fault| fault.rule).collect()
}

#[test]
fn the_pools_price_is_compared_with_the_feeds() {
    for plan in [mint(), increase()] {
        assert_eq!(found(&plan, 1.0, |_| ()), []);
        assert_eq!(found(&plan, 1.0, |ground| ground.prices = None), [RuleName::Price]);
        assert_eq!(found(&plan, 1.0, |ground| ground.is_counted = false), [RuleName::Calldata]);
        let no_pool = deposit_faults(&proposal(plan), &V3(plan), None);
        assert_eq!(no_pool.into_iter().map(|fault| fault.rule).collect::<Vec<_>>(), [RuleName::Calldata]);
    }
    // Minimums of zero would break another rule first: these are taken at the moved price.
    let at = |root: f64| {
        let price = U256::from((root * 1e15) as u128) * (U256::ONE << 96) / U256::from(10_u64.pow(15));
        let least = range().least_deposit(price, deposit().most, bps(100)).unwrap();
        let deposit = Deposit { least, ..deposit() };
        found(
            &PositionPlan::Mint { token0: TOKENS[0], token1: TOKENS[1], fee: 3_000, range: range(), deposit },
            root,
            |_| (),
        )
    };
    // Within two percent on both sides, and beyond.
    for (price, rules) in [
        (1.019, vec![]),
        (0.981, vec![]),
        (1.021, vec![RuleName::Price]),
        (0.979, vec![RuleName::Price]),
        (1.8, vec![RuleName::Price]),
        (0.0001, vec![RuleName::Price]),
    ] {
        assert_eq!(at(f64::sqrt(price)), rules, "{price}");
    }
}

#[test]
fn minimums_amounts_and_deadline_are_bounded() {
    let with = |change: fn(&mut Deposit)| {
        let mut deposit = deposit();
        change(&mut deposit);
        let plan = PositionPlan::Increase { token_id: U256::from(42), deposit };
        found(&plan, 1.0, |_| ())
    };
    assert_eq!(with(|_| ()), []);
    // Two millionths below the bound that was computed by hand.
    assert_eq!(
        with(|one| one.least[0] = one.least[0] * U256::from(999_997) / U256::from(1_000_000)),
        [RuleName::MinOut]
    );
    assert_eq!(
        with(|one| one.least[1] = one.least[1] * U256::from(999_997) / U256::from(1_000_000)),
        [RuleName::MinOut]
    );
    assert_eq!(with(|one| one.least = [U256::ZERO; 2]), [RuleName::MinOut, RuleName::MinOut]);
    assert_eq!(with(|one| one.deadline = U256::from(NOW)), [RuleName::Deadline]);
    assert_eq!(with(|one| one.deadline = U256::from(NOW + 3_601)), [RuleName::Deadline]);
    assert_eq!(with(|one| one.most = [U256::ZERO; 2]), [RuleName::Calldata]);
    // All of one token in a range that the price is inside of makes no liquidity.
    let one_sided = |one: &mut Deposit| (one.most[1], one.least) = (U256::ZERO, [U256::ZERO; 2]);
    assert_eq!(with(one_sided), [RuleName::Calldata]);
}

#[test]
fn compounded_fees_take_nothing_from_the_wallet() {
    let owed = |owed: [U256; 2]| found(&compound(), 1.0, |ground| ground.owed = Some(owed));
    let one = whole(1.0);
    assert_eq!(owed([one, one]), []);
    assert_eq!(owed([one - U256::ONE, one]), [RuleName::Outflow]);
    assert_eq!(owed([one, one - U256::ONE]), [RuleName::Outflow]);
    assert_eq!(found(&compound(), 1.0, |ground| ground.owed = None), [RuleName::Outflow, RuleName::Outflow]);
}

/// In a range of ten ticks on both sides, at a pool price 1.8 percent above the feeds', a trade back to the feeds' price
/// turns everything into the first token at about the pool's price. By hand: of equal halves, 0.9 percent is lost; where the
/// price has moved up within the slippage, only the second token is taken, and 1.8 percent of it is lost.
#[test]
fn a_narrow_range_at_a_moved_price_loses_too_much() {
    let root = 1.018_f64.sqrt();
    let middle = 178;
    let narrow = TickRange::new(middle - 10, middle + 10).unwrap();
    let price = U256::from((root * 1e15) as u128) * (U256::ONE << 96) / U256::from(10_u64.pow(15));
    let least = narrow.least_deposit(price, [whole(1.0); 2], bps(100)).unwrap();
    let deposit = Deposit { least, ..deposit() };
    let plan = PositionPlan::Mint { token0: TOKENS[0], token1: TOKENS[1], fee: 3_000, range: narrow, deposit };
    let lost = |most: u32| found(&plan, root, |ground| ground.max_loss = bps(most));
    assert_eq!((lost(200), lost(190)), (vec![], vec![]));
    assert_eq!((lost(170), lost(100)), (vec![RuleName::MaxLossBps], vec![RuleName::MaxLossBps]));
}

#[test]
fn a_deposit_is_proven_by_the_managers_own_events() {
    let log = |address, data: LogData| Log { address, data };
    let added = |id: u64, liquidity, amount0, amount1| {
        Manager::IncreaseLiquidity { tokenId: U256::from(id), liquidity, amount0, amount1 }.encode_log_data()
    };
    let minted = |id: u64, from, to| Manager::Transfer { from, to, tokenId: U256::from(id) }.encode_log_data();
    let missing =
        |plan: PositionPlan, logs: &[Log]| unproven_change(&proposal(plan), MANAGERS, &logs.iter().collect::<Vec<_>>());
    let one = whole(1.0);
    let right = [log(MANAGER, added(7, 5, one, one)), log(MANAGER, minted(7, Address::ZERO, ME))];
    assert_eq!(missing(mint(), &right), None);
    assert_eq!(missing(increase(), &[log(MANAGER, added(42, 5, one, one))]), None);
    let collected = |id: u64, recipient| {
        let (amount0, amount1) = (one, one);
        Manager::Collect { tokenId: U256::from(id), recipient, amount0, amount1 }.encode_log_data()
    };
    let fees = [log(MANAGER, collected(42, ME)), log(MANAGER, added(42, 5, one, one))];
    let compounding = |logs: &[Log]| {
        let mut proposal = proposal(compound());
        let token = |at: usize| sample::token(TOKENS[at], "T", 18);
        let inflow = |at| Inflow { token: token(at), at_least: U256::ZERO, expected: U256::ZERO, recipient: ME };
        proposal.inflows = vec![inflow(0), inflow(1)];
        unproven_change(&proposal, MANAGERS, &logs.iter().collect::<Vec<_>>())
    };
    assert_eq!(compounding(&fees), None);
    assert_eq!(compounding(&fees[1..]), Some("Collect"));
    assert_eq!(compounding(&[log(MANAGER, collected(42, OTHER)), fees[1].clone()]), Some("Collect"));
    for (plan, logs, expected) in [
        (mint(), vec![], "IncreaseLiquidity"),
        (mint(), vec![right[0].clone()], "Transfer"),
        (mint(), vec![right[0].clone(), log(OTHER, minted(7, Address::ZERO, ME))], "Transfer"),
        (mint(), vec![right[0].clone(), log(MANAGER, minted(8, Address::ZERO, ME))], "Transfer"),
        (mint(), vec![right[0].clone(), log(MANAGER, minted(7, OTHER, ME))], "Transfer"),
        (mint(), vec![right[0].clone(), log(MANAGER, minted(7, Address::ZERO, OTHER))], "Transfer"),
        (mint(), vec![log(OTHER, added(7, 5, one, one)), right[1].clone()], "IncreaseLiquidity"),
        (increase(), vec![log(MANAGER, added(43, 5, one, one))], "IncreaseLiquidity"),
        (increase(), vec![log(MANAGER, added(42, 0, one, one))], "IncreaseLiquidity"),
        (increase(), vec![log(MANAGER, added(42, 5, one + U256::ONE, one))], "IncreaseLiquidity"),
        (increase(), vec![log(MANAGER, added(42, 5, one, U256::ZERO))], "IncreaseLiquidity"),
    ] {
        assert_eq!(missing(plan, &logs), Some(expected), "{plan:?} {logs:?}");
    }
}
