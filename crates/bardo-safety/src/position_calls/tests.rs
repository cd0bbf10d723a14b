use alloy::primitives::{Bytes, LogData, address};
use alloy::sol_types::SolCall as _;

use super::*;
use crate::proposal::{AllowanceBound, AllowanceKind, Inflow, Outflow};
use crate::sample;
use golem_chain::fork::ValueChange;
use golem_protocols::uniswap::positions::{Exit, PositionId, PositionKey, PositionPool};
use golem_protocols::uniswap::v3::position::TickRange;
use golem_protocols::uniswap::v4::manager::KeyedChange;

const MANAGER: Address = address!("0x00000000000000000000000000000000000000c1");
const MANAGERS: PositionManagers = PositionManagers { v3: Some(MANAGER), v4: None, pools: None, permit2: None };
const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const TOKENS: [Address; 2] =
    [address!("0x00000000000000000000000000000000000000d1"), address!("0x00000000000000000000000000000000000000d2")];
const NOW: u64 = 1_000;

fn id() -> U256 {
    U256::from(42)
}

/// Position around a price of one, whose liquidity of 10^18 is worth about 3 · 10^16 of each token.
fn state() -> PositionState {
    PositionState {
        key: PositionKey {
            id: PositionId::V3(id()),
            token0: TOKENS[0],
            token1: TOKENS[1],
            fee: 3_000,
            range: TickRange::new(-600, 600).unwrap(),
            pool: PositionPool::Contract(Address::repeat_byte(9)),
        },
        owner: ME,
        liquidity: 1_000_000_000_000_000_000,
        pool_liquidity: 5_000_000_000_000_000_000,
        sqrt_price_x96: U256::ONE << 96,
        tick: 0,
        owed: [7, 8],
        exit: Exit::Open,
    }
}

fn most() -> BasisPoints {
    BasisPoints::new(100).unwrap()
}

/// At a slippage of one percent, half a percent of movement and a price of one, by hand: L · (1/√1.015 − 1/√(1.0001^600))
/// of token0, and L · (√0.985 − √(1.0001^−600)) of token1.
fn least() -> [U256; 2] {
    let root = |price: f64| price.sqrt();
    let edge = 1.0001_f64.powi(600);
    let first = 1e18 * (1.0 / root(1.015) - 1.0 / root(edge));
    let second = 1e18 * (root(0.985) - 1.0 / root(edge));
    // A millionth above the bound, which is rounded down.
    [first, second].map(|amount| U256::from((amount * 1.000_001) as u128))
}

fn part() -> Withdrawal {
    Withdrawal { liquidity: state().liquidity, least: least(), deadline: U256::from(NOW + 600) }
}

fn close() -> PositionPlan {
    PositionPlan::Close { token_id: id(), part: Some(part()) }
}

fn proposal(plan: PositionPlan) -> Proposal {
    with(plan.calldata(ME))
}

fn with(data: Bytes) -> Proposal {
    let inflow = |at: usize| Inflow {
        token: sample::token(TOKENS[at], "T", 18),
        at_least: U256::ZERO,
        expected: U256::ZERO,
        recipient: ME,
    };
    Proposal {
        inflows: vec![inflow(0), inflow(1)],
        ..sample::proposal(ME, ProposalIntent::Liquidity, sample::leg(MANAGER, data))
    }
}

fn judged(proposal: &Proposal) -> Result<PositionChange, PositionRuleError> {
    decode(&proposal.legs[0], proposal, MANAGERS)
}

fn found(proposal: &Proposal, state: Option<PositionState>) -> Vec<RuleName> {
    faults(proposal, MANAGERS, state.as_ref(), NOW, most()).into_iter().map(|fault| fault.rule).collect()
}

#[test]
fn a_withdrawal_does_nothing_else() {
    assert_eq!(judged(&proposal(close())), Ok(PositionChange::V3(close())));
    let changed = |change: fn(&mut Proposal)| {
        let mut proposal = proposal(close());
        change(&mut proposal);
        judged(&proposal)
    };
    assert_eq!(changed(|one| one.intent = ProposalIntent::Swap), Err(PositionRuleError::Beside));
    assert_eq!(changed(|one| one.legs[0].to = OTHER), Err(PositionRuleError::Elsewhere));
    assert_eq!(changed(|one| one.account = OTHER), Err(PositionCallError::Recipient(ME).into()));
    let more: [fn(&mut Proposal); 5] = [
        |one| one.legs[0].value = U256::ONE,
        |one| one.legs[0].purpose = LegPurpose::CleanUp,
        |one| one.legs.push(one.legs[0].clone()),
        |one| one.outflows.push(Outflow { token: sample::token(OTHER, "O", 18), amount: U256::ONE }),
        |one| {
            one.allowances.push(AllowanceBound {
                token: sample::token(OTHER, "O", 18),
                spender: MANAGER,
                kind: AllowanceKind::Erc20,
                at_most: U256::ONE,
            });
        },
    ];
    for change in more {
        assert_eq!(changed(change), Err(PositionRuleError::MovesMore));
    }
    let inflows: [fn(&mut Proposal); 4] = [
        |one| drop(one.inflows.pop()),
        |one| one.inflows.reverse(),
        |one| one.inflows[1].recipient = OTHER,
        |one| one.inflows[0].token.id = TokenId::Native,
    ];
    for change in inflows {
        assert_eq!(changed(change), Err(PositionRuleError::Inflows));
    }
}

#[test]
fn only_the_token_of_a_closed_position_is_given_up_and_to_nobody() {
    let change = |collection, id, before, after| NftChange { collection, id, who: ValueChange { before, after } };
    let burned = change(MANAGER, id(), ME, Address::ZERO);
    assert!(declares(&proposal(close()), MANAGERS, &burned));
    for other in [
        change(OTHER, id(), ME, Address::ZERO),
        change(MANAGER, U256::from(43), ME, Address::ZERO),
        change(MANAGER, id(), ME, OTHER),
        change(MANAGER, id(), OTHER, Address::ZERO),
        change(MANAGER, id(), Address::ZERO, ME),
    ] {
        assert!(!declares(&proposal(close()), MANAGERS, &other), "{other:?}");
    }
    let remove = proposal(PositionPlan::Remove { token_id: id(), part: part() });
    assert!(!declares(&remove, MANAGERS, &burned) && moves_a_token(&remove, MANAGERS).is_none());
    let after = |proposal: &Proposal, holder| positions_after(proposal, MANAGERS, (MANAGER, holder), U256::from(3));
    assert_eq!(after(&proposal(close()), ME), Some(U256::from(2)));
    assert_eq!((after(&proposal(close()), OTHER), after(&remove, ME)), (None, None));
}

#[test]
fn the_chain_must_say_that_the_position_is_the_accounts_and_has_these_tokens() {
    let plan = proposal(close());
    assert_eq!(found(&plan, Some(state())), []);
    assert_eq!(found(&plan, None), [RuleName::Nft]);
    let mut foreign = state();
    foreign.owner = OTHER;
    assert_eq!(found(&plan, Some(foreign)), [RuleName::Nft]);
    let mut third = state();
    third.key.token1 = OTHER;
    assert!(found(&plan, Some(third)).contains(&RuleName::Inflow));
    let mut another = state();
    another.key.id = PositionId::V3(U256::from(1));
    assert_eq!(found(&plan, Some(another)), [RuleName::Nft]);
    // A position that lost liquidity since, and one that would keep some.
    let mut less = state();
    less.liquidity -= 1;
    assert_eq!(found(&plan, Some(less)), [RuleName::Calldata, RuleName::Calldata]);
    let mut more = state();
    more.liquidity += 1;
    assert_eq!(found(&plan, Some(more)), [RuleName::Calldata]);
    let emptied = proposal(PositionPlan::Close { token_id: id(), part: None });
    assert_eq!(found(&emptied, Some(state())), [RuleName::Calldata]);
    assert_eq!(found(&proposal(PositionPlan::Collect { token_id: id() }), Some(state())), []);
}

#[test]
fn minimums_and_deadline_are_bounded() {
    let remove = |change: fn(&mut Withdrawal)| {
        let mut part = part();
        change(&mut part);
        found(&proposal(PositionPlan::Remove { token_id: id(), part }), Some(state()))
    };
    assert_eq!(remove(|_| ()), []);
    // Two millionths below the bound that was computed by hand.
    let lower: [fn(&mut Withdrawal); 2] = [
        |part| part.least[0] = part.least[0] * U256::from(999_997) / U256::from(1_000_000),
        |part| part.least[1] = part.least[1] * U256::from(999_997) / U256::from(1_000_000),
    ];
    for change in lower {
        assert_eq!(remove(change), [RuleName::MinOut]);
    }
    assert_eq!(remove(|part| part.least = [U256::ZERO; 2]), [RuleName::MinOut, RuleName::MinOut]);
    assert_eq!(remove(|part| part.liquidity = 0), [RuleName::Calldata]);
    for deadline in [U256::from(NOW), U256::from(NOW + 3_601), U256::MAX] {
        let part = Withdrawal { deadline, ..part() };
        let plan = proposal(PositionPlan::Remove { token_id: id(), part });
        assert_eq!(found(&plan, Some(state())), [RuleName::Deadline], "{deadline}");
    }
}

#[test]
fn a_withdrawal_is_proven_by_the_managers_own_events() {
    let log = |address, data: LogData| Log { address, data };
    let decreased = |liquidity: u128, least: [U256; 2]| {
        Manager::DecreaseLiquidity { tokenId: id(), liquidity, amount0: least[0], amount1: least[1] }.encode_log_data()
    };
    let collected = |recipient| {
        Manager::Collect { tokenId: id(), recipient, amount0: U256::ZERO, amount1: U256::ZERO }.encode_log_data()
    };
    let burned = |to| Manager::Transfer { from: ME, to, tokenId: id() }.encode_log_data();
    let full =
        || [decreased(part().liquidity, least()), collected(ME), burned(Address::ZERO)].map(|data| log(MANAGER, data));
    let missing = |logs: &[Log]| unproven(&proposal(close()), MANAGERS, &logs.iter().collect::<Vec<_>>());
    assert_eq!(missing(&full()), None);
    let cases: [(usize, Log, &str); 6] = [
        (0, log(OTHER, decreased(part().liquidity, least())), "DecreaseLiquidity"),
        (0, log(MANAGER, decreased(1, least())), "DecreaseLiquidity"),
        (0, log(MANAGER, decreased(part().liquidity, [least()[0], U256::ZERO])), "DecreaseLiquidity"),
        (1, log(MANAGER, collected(OTHER)), "Collect"),
        (2, log(MANAGER, burned(OTHER)), "Transfer"),
        (2, log(OTHER, burned(Address::ZERO)), "Transfer"),
    ];
    for (at, other, expected) in cases {
        let mut logs = full();
        logs[at] = other;
        assert_eq!(missing(&logs), Some(expected));
    }
    assert_eq!(missing(&[]), Some("DecreaseLiquidity"));
    // A call in another encoding was never signed, so it needs no proof.
    let nested = with(Manager::multicallCall { data: vec![close().calldata(ME)] }.abi_encode().into());
    assert_eq!(unproven(&nested, MANAGERS, &[]), None);
}

const KEYED: Address = address!("0x00000000000000000000000000000000000000c4");
const POOLS: Address = address!("0x00000000000000000000000000000000000000c5");
const BOTH: PositionManagers =
    PositionManagers { v3: Some(MANAGER), v4: Some(KEYED), pools: Some(POOLS), permit2: None };

fn keyed_plan(change: KeyedChange) -> KeyedPlan {
    KeyedPlan { currencies: TOKENS, change, deadline: U256::from(NOW + 600) }
}

fn keyed(change: KeyedChange) -> Proposal {
    let mut proposal = with(keyed_plan(change).calldata(ME));
    proposal.legs[0].to = KEYED;
    proposal
}

fn keyed_state() -> PositionState {
    let mut state = state();
    state.key.id = PositionId::V4(id());
    state
}

#[test]
fn a_call_is_judged_by_the_manager_that_it_calls() {
    let close = KeyedChange::Close { token_id: id(), least: least().map(|least| least.to()) };
    let judged = |proposal: &Proposal| decode(&proposal.legs[0], proposal, BOTH);
    assert_eq!(judged(&keyed(close)), Ok(PositionChange::V4(keyed_plan(close))));
    // The call of one version to the manager of the other.
    let mut turned = keyed(close);
    turned.legs[0].to = MANAGER;
    assert_eq!(judged(&turned), Err(PositionCallError::Unknown.into()));
    let mut turned = proposal(self::close());
    turned.legs[0].to = KEYED;
    assert_eq!(judged(&turned), Err(PositionCallError::Unknown.into()));
    // A position of V3 with the same number is not the one.
    let found = |state| {
        let faults = faults(&keyed(close), BOTH, Some(&state), NOW, most());
        faults.into_iter().map(|fault| fault.rule).collect::<Vec<_>>()
    };
    assert_eq!((found(keyed_state()), found(state())), (vec![], vec![RuleName::Nft]));
    let change = |collection| NftChange { collection, id: id(), who: ValueChange { before: ME, after: Address::ZERO } };
    assert!(declares(&keyed(close), BOTH, &change(KEYED)) && !declares(&keyed(close), BOTH, &change(MANAGER)));
    let after = |collection| positions_after(&keyed(close), BOTH, (collection, ME), U256::from(3));
    assert_eq!((after(KEYED), after(MANAGER)), (Some(U256::from(2)), None));
}

#[test]
fn a_v4_collection_has_a_deadline_and_an_empty_position_is_closed() {
    let collect = |deadline: u64| {
        let plan = KeyedPlan { deadline: U256::from(deadline), ..keyed_plan(KeyedChange::Collect { token_id: id() }) };
        let mut proposal = with(plan.calldata(ME));
        proposal.legs[0].to = KEYED;
        let faults = faults(&proposal, BOTH, Some(&keyed_state()), NOW, most());
        faults.into_iter().map(|fault| fault.rule).collect::<Vec<_>>()
    };
    assert_eq!(collect(NOW + 600), []);
    assert_eq!((collect(NOW), collect(NOW + 3_601)), (vec![RuleName::Deadline], vec![RuleName::Deadline]));
    let empty = PositionState { liquidity: 0, ..keyed_state() };
    let close = keyed(KeyedChange::Close { token_id: id(), least: [0, 0] });
    assert!(faults(&close, BOTH, Some(&empty), NOW, most()).is_empty());
    assert_eq!(faults(&close, BOTH, Some(&keyed_state()), NOW, most()).len(), 2, "both minimums");
}

#[test]
fn a_v4_change_is_proven_by_the_managers_own_events() {
    let log = |address, data: LogData| Log { address, data };
    let changed = |sender, salt: u64, liquidity: i64| {
        let event = PoolManager::ModifyLiquidity {
            id: B256::ZERO,
            sender,
            tickLower: Default::default(),
            tickUpper: Default::default(),
            liquidityDelta: I256::try_from(liquidity).unwrap(),
            salt: B256::from(U256::from(salt)),
        };
        event.encode_log_data()
    };
    let token = |from, to, id: u64| KeyedManager::Transfer { from, to, id: U256::from(id) }.encode_log_data();
    let missing = |change, logs: Vec<Log>| unproven(&keyed(change), BOTH, &logs.iter().collect::<Vec<_>>());
    let remove = KeyedChange::Remove { token_id: id(), liquidity: 5, least: [0, 0] };
    assert_eq!(missing(remove, vec![log(POOLS, changed(KEYED, 42, -5))]), None);
    for other in [
        log(POOLS, changed(KEYED, 42, 5)),
        log(POOLS, changed(KEYED, 42, -4)),
        log(POOLS, changed(KEYED, 43, -5)),
        log(POOLS, changed(OTHER, 42, -5)),
        log(OTHER, changed(KEYED, 42, -5)),
    ] {
        assert_eq!(missing(remove, vec![other]), Some("ModifyLiquidity"));
    }
    let collect = KeyedChange::Collect { token_id: id() };
    assert_eq!(missing(collect, vec![log(POOLS, changed(KEYED, 42, 0))]), None);
    assert_eq!(missing(collect, vec![]), Some("ModifyLiquidity"));
    let close = KeyedChange::Close { token_id: id(), least: [0, 0] };
    assert_eq!(missing(close, vec![log(KEYED, token(ME, Address::ZERO, 42))]), None);
    for other in [
        log(KEYED, token(ME, OTHER, 42)),
        log(KEYED, token(ME, Address::ZERO, 43)),
        log(MANAGER, token(ME, Address::ZERO, 42)),
    ] {
        assert_eq!(missing(close, vec![other]), Some("Transfer"));
    }
}
