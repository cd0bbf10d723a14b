//! Tests of the owner's rules one by one, each at its bound and just past it.

use alloy::primitives::aliases::U48;

use super::*;

const CAGE: Address = Address::repeat_byte(1);
const MANAGER: Address = Address::repeat_byte(2);
const OWNER: Address = Address::repeat_byte(3);
const ROUTER: Address = Address::repeat_byte(4);
const PERMIT2: Address = Address::repeat_byte(5);
/// Accepts native tokens and has no functions.
const PURSE: Address = Address::repeat_byte(6);
const USDC: Address = Address::repeat_byte(7);
const WETH: Address = Address::repeat_byte(8);
const STRANGER: Address = Address::repeat_byte(9);
const SWAP: [u8; 4] = [0x35, 0x93, 0x56, 0x4c];
/// Time of the last action that was not an exit.
const LAST: u64 = 1_000_000;
const NOW: u64 = LAST + 600;

/// Raw USDC (six decimals) of an amount in cents.
fn usdc(cents: u64) -> U256 {
    U256::from(cents) * U256::from(10_000)
}

/// Raw WETH of an amount in ten-thousandths, worth 20 cents each.
fn weth(parts: u64) -> U256 {
    U256::from(parts) * U256::from(10).pow(U256::from(14))
}

fn dollars(whole: u64) -> U256 {
    U256::from(whole) * U256::from(UNIT)
}

/// 10,000 USDC and 5 WETH at 2,000 dollars: 20,000 dollars, the high-water mark.
fn cage() -> OnchainPolicy {
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
        (usdc(1_000_000), usdc(100_000), U256::from(10).pow(U256::from(30)), Some("USDC"), 6),
        (weth(50_000), U256::ZERO, dollars(2_000), Some("WETH"), 18),
    ];
    let assets =
        rules.assets.iter().zip(held).map(|(rule, (balance, left_in_day, price, symbol, decimals))| OnchainAsset {
            rule: rule.clone(),
            symbol: symbol.map(|symbol| SafeText::clean(symbol, 20)),
            decimals: Some(decimals),
            balance,
            left_in_day,
            price: Some(price),
        });
    let assets = assets.collect();
    OnchainPolicy {
        contract: CAGE,
        manager: MANAGER,
        owner: OWNER,
        rules,
        assets,
        highest: dollars(20_000),
        last_action: LAST,
    }
}

fn token(address: Address) -> TokenId {
    if address.is_zero() { TokenId::Native } else { TokenId::Erc20(address) }
}

/// A swap by a listed call.
fn swap(out: (Address, U256), into: (Address, U256)) -> PlanEffects<'static> {
    PlanEffects {
        calls: vec![(ROUTER, U256::ZERO, &SWAP)],
        out: vec![(token(out.0), out.1)],
        into: vec![(token(into.0), into.1, into.1)],
    }
}

/// 1,000 dollars for half a WETH.
fn buy() -> PlanEffects<'static> {
    swap((USDC, usdc(100_000)), (WETH, weth(5_000)))
}

/// The reverse of [`buy`].
fn sell() -> PlanEffects<'static> {
    swap((WETH, weth(5_000)), (USDC, usdc(100_000)))
}

/// One call that moves nothing.
fn call(target: Address, value: u64, data: &[u8]) -> PlanEffects<'_> {
    PlanEffects { calls: vec![(target, U256::from(value), data)], ..PlanEffects::default() }
}

/// Returns the rules that a plan violates at this time.
fn broken(cage: &OnchainPolicy, plan: &PlanEffects<'_>, now: u64) -> Vec<String> {
    let found = cage.judge(plan, now);
    found.into_iter().map(|one| one.rule.as_str().trim_start_matches("policy_cage.").to_owned()).collect()
}

/// Returns the rules that a plan violates at [`NOW`].
fn now(cage: &OnchainPolicy, plan: &PlanEffects<'_>) -> Vec<String> {
    broken(cage, plan, NOW)
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_call_is_one_of_the_list_and_never_of_the_cage_the_manager_or_the_account() {
    let mut cage = cage();
    assert_eq!(now(&cage, &buy()), NOTHING);
    assert_eq!(now(&cage, &call(ROUTER, 0, &[1, 2, 3, 4])), ["calls"]);
    assert_eq!(now(&cage, &call(STRANGER, 0, &SWAP)), ["calls"]);
    // Without a function only if that is listed; three bytes are not a selector.
    assert_eq!(now(&cage, &call(PURSE, 0, &[])), NOTHING);
    assert_eq!(now(&cage, &call(ROUTER, 0, &[])), ["calls"]);
    assert_eq!(now(&cage, &call(PURSE, 0, &[1, 2, 3])), ["calls"]);
    // The zero selector names no function.
    assert_eq!(now(&cage, &call(PURSE, 0, &[0; 4])), ["calls"]);
    // A rule for anybody opens no function.
    let anybody = PolicyCage::CallRule { target: Address::ZERO, selector: FixedBytes::ZERO };
    cage.rules.calls.push(anybody);
    for target in [ROUTER, STRANGER, Address::ZERO] {
        assert_eq!(now(&cage, &call(target, 0, &[])), NOTHING, "{target}");
        assert_eq!(now(&cage, &call(target, 0, &[0; 4])), ["calls"], "{target}");
    }
    for own in [CAGE, MANAGER, OWNER] {
        assert_eq!(now(&cage, &call(own, 0, &[])), ["calls"], "{own}");
    }
    // Not even if the owner listed them.
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
    let (balance, left_in_day) = (U256::ZERO, U256::ZERO);
    cage.assets.push(OnchainAsset { rule: coin, symbol: None, decimals: Some(18), balance, left_in_day, price });
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
        // A revocation is always allowed.
        assert_eq!(now(&cage, &call(target, 0, &allow(STRANGER, U256::ZERO))), NOTHING);
    }
}

#[test]
fn outflow_is_limited_per_transaction_and_per_day() {
    let one = U256::from(1);
    let more = swap((USDC, usdc(100_000) + one), (WETH, weth(5_001)));
    assert_eq!(now(&cage(), &more), ["maxPerTransaction"]);
    let mut cage = cage();
    // 1,000 on top of 1,500 is all that may leave in a day.
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
    // The maximum inflow counts, even if the minimum would be inside.
    cage.assets[1].balance = weth(55_000);
    let mut plan = buy();
    plan.into[0].2 += U256::from(1);
    assert_eq!(now(&cage, &plan), ["maxPosition"]);
}

#[test]
fn no_more_value_is_lost_than_the_owner_lets() {
    let cage = cage();
    // At the maximum loss, 980 dollars come in for 1,000. The minimum inflow counts.
    assert_eq!(now(&cage, &swap((USDC, usdc(100_000)), (WETH, weth(4_900)))), NOTHING);
    assert_eq!(now(&cage, &swap((USDC, usdc(100_000)), (WETH, weth(4_899)))), ["maxLossBps"]);
    let mut hopeful = buy();
    hopeful.into[0].1 = weth(4_899);
    assert_eq!(now(&cage, &hopeful), ["maxLossBps"]);
}

#[test]
fn an_unknown_value_rejects_everything() {
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
    // A plan that gives something and receives nothing is not an exit, even without a loss limit.
    cage.rules.maxLossBps = 10_000;
    let gift = PlanEffects { into: vec![], ..swap((USDC, usdc(100)), (USDC, U256::ZERO)) };
    assert_eq!(now(&cage, &gift), ["maxDrawdownBps"]);
    assert_eq!(now(&cage, &call(PURSE, 0, &[])), NOTHING, "and what moves nothing loses nothing");
    // The current value can itself be the highest: 1,000 of 20,000 may leave, at 5 %.
    (cage.highest, cage.rules.maxDrawdownBps) = (U256::ZERO, 500);
    let gift = |cents| PlanEffects { into: vec![], ..swap((USDC, usdc(cents)), (USDC, U256::ZERO)) };
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

/// Returns the violations of a plan, each as `rule | limit | value | what would pass`.
fn told(cage: &OnchainPolicy, plan: &PlanEffects<'_>, now: u64) -> Vec<String> {
    let found = cage.judge(plan, now);
    let words =
        found.into_iter().map(|one| format!("{} | {} | {} | {}", one.rule, one.limit, one.value, one.would_pass));
    words.map(|words| words.trim_start_matches("policy_cage.").to_owned()).collect()
}

#[test]
fn a_list_tells_what_is_not_on_it() {
    let cage = cage();
    let listed = "the functions that the owner lists";
    let would_pass = "a listed function, or the same after the owner lists this one";
    assert_eq!(
        told(&cage, &call(ROUTER, 0, &[1, 2, 3, 4]), NOW),
        [format!("calls | {listed} | function 0x01020304 of {ROUTER} | {would_pass}")]
    );
    assert_eq!(
        told(&cage, &call(ROUTER, 0, &[]), NOW),
        [format!("calls | {listed} | a call of {ROUTER} without a function | {would_pass}")]
    );
    // The message does not suggest listing what no owner can list.
    assert_eq!(
        told(&cage, &call(OWNER, 0, &SWAP), NOW),
        [format!(
            "calls | no call of the policy contract, of its delegation manager or of the account itself | function \
             0x3593564c of {OWNER} | the action without this call"
        )]
    );
    let assets = "assets | the assets that the owner lists";
    let would_pass = "a listed asset, or the same after the owner lists this one";
    assert_eq!(told(&cage, &call(PURSE, 1, &[]), NOW), [format!("{assets} | the native token | {would_pass}")]);
    let stray = swap((STRANGER, U256::from(1)), (USDC, U256::ZERO));
    assert_eq!(told(&cage, &stray, NOW), [format!("{assets} | {STRANGER} | {would_pass}")]);
    let coin = PlanEffects { out: vec![(TokenId::Native, U256::from(1))], ..call(ROUTER, 0, &SWAP) };
    assert_eq!(told(&cage, &coin, NOW), [format!("{assets} | the native token | {would_pass}")]);
    let data = Erc20::approveCall { spender: STRANGER, value: U256::from(1) }.abi_encode();
    assert_eq!(
        told(&cage, &call(USDC, 0, &data), NOW),
        [format!(
            "spenders | the spenders that the owner lists | {STRANGER} | a listed spender, or the same after the owner \
             lists this one"
        )]
    );
}

#[test]
fn a_bound_tells_its_figure_in_whole_tokens_and_what_is_left_of_it() {
    let one = U256::from(1);
    // 1,000 may leave per action; this is a millionth more.
    let more = swap((USDC, usdc(100_000) + one), (WETH, weth(5_001)));
    let (most, asked) = (format!("1000 USDC ({USDC})"), format!("1000.000001 USDC ({USDC})"));
    assert_eq!(
        told(&cage(), &more, NOW),
        [format!("maxPerTransaction | at most {most} in one transaction | {asked} | {most} or less")]
    );
    let data = |value| Erc20::approveCall { spender: PERMIT2, value }.abi_encode();
    for (value, asked) in [(usdc(100_000) + one, asked), (U256::MAX, format!("an unlimited amount of USDC ({USDC})"))] {
        assert_eq!(
            told(&cage(), &call(USDC, 0, &data(value)), NOW),
            [format!("maxPerTransaction | at most {most} allowed at once | {asked} | {most} or less")]
        );
    }
    // 2,500 may leave in a day and 1,800 have left: 700 remain.
    let mut day = cage();
    day.assets[0].left_in_day = usdc(180_000);
    assert_eq!(
        told(&day, &buy(), NOW),
        [format!(
            "maxPerDay | at most 2500 USDC ({USDC}) in a day, which ends after 24 to 28 hours | 1000 USDC ({USDC}) on top \
             of 1800 USDC ({USDC}) | 700 USDC ({USDC}) or less now"
        )]
    );
    // Six may be held: with 5.8 there is room for 0.2, with 6 for none.
    let mut position = cage();
    for (held, after, would_pass) in [
        (58_000, "6.3", format!("at most 0.2 WETH ({WETH}) incoming")),
        (60_000, "6.5", "no more of it; sales are always allowed".to_owned()),
    ] {
        position.assets[1].balance = weth(held);
        assert_eq!(
            told(&position, &buy(), NOW),
            [format!(
                "maxPosition | at most 6 WETH ({WETH}) held | {after} WETH ({WETH}) held afterwards | {would_pass}"
            )]
        );
    }
    // A token without decimals is shown in smallest units, and an unlisted one by its contract.
    let mut mute = cage();
    (mute.assets[0].symbol, mute.assets[0].decimals) = (None, None);
    assert_eq!(
        told(&mute, &more, NOW),
        [format!(
            "maxPerTransaction | at most 1000000000 smallest units of {USDC} in one transaction | 1000000001 smallest \
             units of {USDC} | 1000000000 smallest units of {USDC} or less"
        )]
    );
}

#[test]
fn a_loss_tells_what_is_needed_rounded_against_itself() {
    let cage = cage();
    // 98 % of 1,000; 0.4899 WETH at 2,000 are 979.80.
    assert_eq!(
        told(&cage, &swap((USDC, usdc(100_000)), (WETH, weth(4_899))), NOW),
        [
            "maxLossBps | at most 200 bps of the value lost | at least $979.80 for $1,000.00 by the owner's feeds | at least \
          $980.00 guaranteed"
        ]
    );
    // 98 % of 999.99 are 979.9902, which is more than 979.99.
    assert_eq!(
        told(&cage, &swap((USDC, usdc(99_999)), (WETH, weth(4_899))), NOW),
        [
            "maxLossBps | at most 200 bps of the value lost | at least $979.80 for $999.99 by the owner's feeds | at least \
          $980.00 guaranteed"
        ]
    );
    let mut fallen = self::cage();
    // 90 % of 22,223 are 20,000.70.
    fallen.highest = dollars(22_223);
    assert_eq!(
        told(&fallen, &buy(), NOW),
        [
            "maxDrawdownBps | at least $20,000.70, 1000 bps below the highest, $22,223.00 | $20,000.00 afterwards | an exit, \
          until the owner resets the highest value"
        ]
    );
    assert_eq!(
        told(&cage, &buy(), LAST + 550),
        ["minInterval | 600 s between two executions | 550 s after the last one | the same in 50 s, or an exit now"]
    );
}

#[test]
fn a_price_that_is_missing_is_named_with_its_feed() {
    let mut cage = cage();
    cage.assets[1].price = None;
    let limit = "maxPriceAge | a price of every asset, at most 3600 s old";
    let would_pass = "the same when every feed of the rules is up to date";
    assert_eq!(
        told(&cage, &buy(), NOW),
        [format!("{limit} | no price for WETH ({WETH}) by the feed {STRANGER} | {would_pass}")]
    );
    cage.assets[1].price = Some(U256::MAX);
    assert_eq!(told(&cage, &buy(), NOW), [format!("{limit} | sums too large to calculate | {would_pass}")]);
}

/// The call's value and the outflow name the same unlisted asset; two transactions call the same unlisted function.
#[test]
fn what_violates_a_rule_twice_is_listed_once() {
    let mut plan = call(ROUTER, 1, &[1, 2, 3, 4]);
    plan.calls.push((ROUTER, U256::from(2), &[1, 2, 3, 4]));
    plan.out.push((TokenId::Native, U256::from(3)));
    assert_eq!(now(&cage(), &plan), ["calls", "assets"]);
}
