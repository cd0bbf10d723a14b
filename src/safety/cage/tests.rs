//! The owner's rules one by one, each at its bound and just past it.

use alloy::primitives::aliases::U48;

use super::*;

const CAGE: Address = Address::repeat_byte(1);
const MANAGER: Address = Address::repeat_byte(2);
const OWNER: Address = Address::repeat_byte(3);
const ROUTER: Address = Address::repeat_byte(4);
const PERMIT2: Address = Address::repeat_byte(5);
/// Takes coins and no function.
const PURSE: Address = Address::repeat_byte(6);
const USDC: Address = Address::repeat_byte(7);
const WETH: Address = Address::repeat_byte(8);
const STRANGER: Address = Address::repeat_byte(9);
const SWAP: [u8; 4] = [0x35, 0x93, 0x56, 0x4c];
/// When the last action was that was no exit.
const LAST: u64 = 1_000_000;
const NOW: u64 = LAST + 600;

/// Dollars in raw USDC, of six decimals.
fn usdc(cents: u64) -> U256 {
    U256::from(cents) * U256::from(10_000)
}

/// Ten-thousandths of a WETH: 20 cents each.
fn weth(parts: u64) -> U256 {
    U256::from(parts) * U256::from(10).pow(U256::from(14))
}

fn dollars(whole: u64) -> U256 {
    U256::from(whole) * U256::from(UNIT)
}

/// 10,000 USDC and 5 WETH at 2,000 dollars: 20,000 dollars, as much as there ever was.
fn cage() -> Cage {
    let rule = |token, exit, once, day, position: U256| AssetRule {
        token,
        feed: STRANGER,
        exit,
        maxPerTransaction: once,
        maxPerDay: day,
        maxPosition: position.to(),
    };
    let usd = |cents| usdc(cents).to::<u128>();
    let call = |target, selector: [u8; 4]| PolicyCage::CallRule { target, selector: selector.into() };
    let rules = Rules {
        assets: vec![
            rule(USDC, true, usd(100_000), usd(250_000), usdc(1_200_000)),
            rule(WETH, false, u128::MAX, u128::MAX, weth(60_000)),
        ],
        calls: vec![
            call(ROUTER, SWAP),
            call(USDC, Erc20::approveCall::SELECTOR),
            call(STRANGER, Erc20::approveCall::SELECTOR),
            call(PERMIT2, Permit2::approveCall::SELECTOR),
            call(PURSE, [0; 4]),
        ],
        spenders: vec![PERMIT2],
        maxDrawdownBps: 1_000,
        maxLossBps: 200,
        minInterval: 600,
        maxPriceAge: 3_600,
    };
    let held = [
        (usdc(1_000_000), usdc(100_000), U256::from(10).pow(U256::from(30))),
        (weth(50_000), U256::ZERO, dollars(2_000)),
    ];
    let assets = rules.assets.iter().zip(held).map(|(rule, (balance, left_in_day, price))| CagedAsset {
        rule: rule.clone(),
        balance,
        left_in_day,
        price: Some(price),
    });
    let assets = assets.collect();
    Cage { contract: CAGE, manager: MANAGER, owner: OWNER, rules, assets, highest: dollars(20_000), last_action: LAST }
}

fn token(address: Address) -> TokenId {
    if address.is_zero() { TokenId::Native } else { TokenId::Erc20(address) }
}

/// So much out for so much in, by a listed call.
fn swap(out: (Address, U256), into: (Address, U256)) -> Plan<'static> {
    Plan {
        calls: vec![(ROUTER, U256::ZERO, &SWAP)],
        out: vec![(token(out.0), out.1)],
        into: vec![(token(into.0), into.1, into.1)],
    }
}

/// A thousand dollars for half a WETH.
fn buy() -> Plan<'static> {
    swap((USDC, usdc(100_000)), (WETH, weth(5_000)))
}

/// And back.
fn sell() -> Plan<'static> {
    swap((WETH, weth(5_000)), (USDC, usdc(100_000)))
}

/// One call that moves nothing.
fn call(target: Address, value: u64, data: &[u8]) -> Plan<'_> {
    Plan { calls: vec![(target, U256::from(value), data)], ..Plan::default() }
}

/// The rules that stand against a plan at this time.
fn broken(cage: &Cage, plan: &Plan<'_>, now: u64) -> Vec<String> {
    let found = cage.judge(plan, now);
    found.into_iter().map(|one| one.rule.trim_start_matches("policy_cage.").to_owned()).collect()
}

/// The same now.
fn now(cage: &Cage, plan: &Plan<'_>) -> Vec<String> {
    broken(cage, plan, NOW)
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_call_is_one_of_the_list_and_never_of_the_cage_the_manager_or_the_account() {
    let mut cage = cage();
    assert_eq!(now(&cage, &buy()), NOTHING);
    assert_eq!(now(&cage, &call(ROUTER, 0, &[1, 2, 3, 4])), ["calls"]);
    assert_eq!(now(&cage, &call(STRANGER, 0, &SWAP)), ["calls"]);
    // Without a function only where that is listed, and three bytes are none either.
    assert_eq!(now(&cage, &call(PURSE, 0, &[])), NOTHING);
    assert_eq!(now(&cage, &call(ROUTER, 0, &[])), ["calls"]);
    assert_eq!(now(&cage, &call(PURSE, 0, &[1, 2, 3])), ["calls"]);
    // Not even where the owner could list them.
    for own in [CAGE, MANAGER, OWNER] {
        cage.rules.calls.push(PolicyCage::CallRule { target: own, selector: SWAP.into() });
        assert_eq!(now(&cage, &call(own, 0, &SWAP)), ["calls"], "{own}");
    }
}

#[test]
fn only_listed_assets_are_sent_allowed_given_or_taken() {
    let mut cage = cage();
    let approve = Erc20::approveCall { spender: PERMIT2, value: U256::from(1) }.abi_encode();
    assert_eq!(now(&cage, &call(STRANGER, 0, &approve)), ["assets"], "an allowance of it");
    let nothing = (USDC, U256::ZERO);
    assert_eq!(now(&cage, &swap((STRANGER, U256::from(1)), nothing)), ["assets"], "out of the account");
    assert_eq!(now(&cage, &swap(nothing, (STRANGER, U256::from(1)))), ["assets"], "into it");
    assert_eq!(now(&cage, &call(PURSE, 1, &[])), ["assets"], "the coin");
    let coin = AssetRule { token: Address::ZERO, ..cage.rules.assets[1].clone() };
    let price = Some(dollars(2_000));
    cage.assets.push(CagedAsset { rule: coin, balance: U256::ZERO, left_in_day: U256::ZERO, price });
    assert_eq!(now(&cage, &call(PURSE, 1, &[])), NOTHING, "a coin that is listed");
}

#[test]
fn an_allowance_is_for_a_listed_spender_and_no_more_than_may_go_out_at_once() {
    let cage = cage();
    let (limit, one) = (usdc(100_000), U256::from(1));
    let plain = |spender, value| Erc20::approveCall { spender, value }.abi_encode();
    let inside = |spender, amount: U256| {
        Permit2::approveCall { token: USDC, spender, amount: amount.to(), expiration: U48::MAX }.abi_encode()
    };
    for (target, allow) in [(USDC, &plain as &dyn Fn(Address, U256) -> Vec<u8>), (PERMIT2, &inside)] {
        assert_eq!(now(&cage, &call(target, 0, &allow(PERMIT2, limit))), NOTHING);
        assert_eq!(now(&cage, &call(target, 0, &allow(PERMIT2, limit + one))), ["maxPerTransaction"]);
        assert_eq!(now(&cage, &call(target, 0, &allow(STRANGER, one))), ["spenders"]);
        // Taking one back is always right.
        assert_eq!(now(&cage, &call(target, 0, &allow(STRANGER, U256::ZERO))), NOTHING);
    }
}

#[test]
fn what_leaves_stays_under_its_bounds_at_once_and_within_a_day() {
    let one = U256::from(1);
    let more = swap((USDC, usdc(100_000) + one), (WETH, weth(5_001)));
    assert_eq!(now(&cage(), &more), ["maxPerTransaction"]);
    let mut cage = cage();
    // A thousand on top of fifteen hundred is all that may leave in a day.
    cage.assets[0].left_in_day = usdc(150_000);
    assert_eq!(now(&cage, &buy()), NOTHING);
    cage.assets[0].left_in_day += one;
    assert_eq!(now(&cage, &buy()), ["maxPerDay"]);
    cage.assets[0].left_in_day = usdc(900_000);
    assert_eq!(now(&cage, &sell()), NOTHING, "what leaves nothing is not held up by what has left");
}

#[test]
fn a_position_grows_no_further_than_its_bound_and_may_always_shrink() {
    let mut cage = cage();
    cage.assets[1].balance = weth(55_000);
    assert_eq!(now(&cage, &buy()), NOTHING);
    cage.assets[1].balance += U256::from(1);
    assert_eq!(now(&cage, &buy()), ["maxPosition"]);
    cage.assets[1].balance = weth(90_000);
    assert_eq!(now(&cage, &sell()), NOTHING);
    // The most that may come in counts, where the least would be inside.
    cage.assets[1].balance = weth(55_000);
    let mut plan = buy();
    plan.into[0].2 += U256::from(1);
    assert_eq!(now(&cage, &plan), ["maxPosition"]);
}

#[test]
fn no_more_value_is_lost_than_the_owner_lets() {
    let cage = cage();
    // 980 dollars for a thousand are the most that may be lost; the least that may come in counts.
    assert_eq!(now(&cage, &swap((USDC, usdc(100_000)), (WETH, weth(4_900)))), NOTHING);
    assert_eq!(now(&cage, &swap((USDC, usdc(100_000)), (WETH, weth(4_899)))), ["maxLossBps"]);
    let mut hopeful = buy();
    hopeful.into[0].1 = weth(4_899);
    assert_eq!(now(&cage, &hopeful), ["maxLossBps"]);
}

#[test]
fn a_value_that_cannot_be_told_stops_everything() {
    let mut cage = cage();
    cage.assets[1].price = None;
    for plan in [buy(), sell(), call(PURSE, 0, &[])] {
        assert_eq!(now(&cage, &plan), ["maxPriceAge"]);
    }
}

#[test]
fn below_the_floor_only_exits_go_on() {
    let mut cage = cage();
    // 90 % of 22,222 dollars are a little less than 20,000.
    cage.highest = dollars(22_222);
    assert_eq!(now(&cage, &buy()), NOTHING);
    cage.highest = dollars(22_223);
    assert_eq!(now(&cage, &buy()), ["maxDrawdownBps"]);
    assert_eq!(now(&cage, &sell()), NOTHING, "an exit");
    // What gives and gets nothing is no exit, however little may be lost.
    cage.rules.maxLossBps = 10_000;
    let gift = Plan { into: vec![], ..swap((USDC, usdc(100)), (USDC, U256::ZERO)) };
    assert_eq!(now(&cage, &gift), ["maxDrawdownBps"]);
    assert_eq!(now(&cage, &call(PURSE, 0, &[])), NOTHING, "and what moves nothing loses nothing");
    // What stands there now may itself be the highest: a thousand of 20,000 may go, at 5 %.
    (cage.highest, cage.rules.maxDrawdownBps) = (U256::ZERO, 500);
    let gift = |cents| Plan { into: vec![], ..swap((USDC, usdc(cents)), (USDC, U256::ZERO)) };
    assert_eq!(now(&cage, &gift(100_000)), NOTHING);
    cage.rules.maxDrawdownBps = 499;
    assert_eq!(now(&cage, &gift(100_000)), ["maxDrawdownBps"]);
}

#[test]
fn actions_keep_their_distance_and_exits_need_none() {
    let mut cage = cage();
    assert_eq!(broken(&cage, &buy(), NOW - 1), ["minInterval"]);
    assert_eq!(broken(&cage, &buy(), NOW), NOTHING);
    assert_eq!(broken(&cage, &sell(), NOW - 1), NOTHING);
    cage.last_action = 0;
    assert_eq!(broken(&cage, &buy(), 599), NOTHING, "there was none before");
}
