//! Checks of the owner's policy contract before every signature.

use alloy::primitives::{Address, Bytes, FixedBytes, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::feed::Aggregator;
use bardo::abi::policy_cage::PolicyCage::{AssetRule, CallRule, Rules, clearCall, configureCall, resetHighestCall};
use bardo::base::error::{ErrorCode, Violation};
use bardo::chain::devnet::Chain;
use bardo::chain::network::KnownContract;
use bardo::chain::token::TokenInfo;
use bardo::safety::proposal::{LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent};

use bardo_testkit::harness::{TestHarness, devnet, leg};

const HUNDRED: u64 = 100_000_000;

/// Rules under which `proposal`'s calls may move at most `most` raw units of USDC.
fn rules(world: &TestHarness, calls: Vec<CallRule>, most: u128) -> Rules {
    let feed = |pair: &str| {
        let feeds = world.client.network().book.feeds();
        feeds.iter().find(|feed| feed.pair == pair).expect("a feed").address
    };
    let asset = |token, pair, exit, most| AssetRule {
        token,
        feed: feed(pair),
        exit,
        maxPerTransaction: most,
        maxPerDay: u128::MAX,
        maxPosition: u128::MAX,
    };
    Rules {
        assets: vec![
            asset(world.contract_of(&world.usdc), "USDC / USD", true, most),
            asset(world.contract_of(&world.weth), "ETH / USD", false, u128::MAX),
        ],
        calls,
        spenders: vec![world.contract(KnownContract::Permit2)],
        maxDrawdownBps: 5_000,
        maxLossBps: 500,
        minInterval: 0,
        maxPriceAge: 86_400,
    }
}

/// Violations by the contract's rules, each as `rule | limit | value | what would pass`.
async fn stands_against(world: &TestHarness, proposal: Proposal) -> Vec<String> {
    let refusal = world.preview(proposal).await.expect_err("nothing stands against it");
    assert_eq!(refusal.code, ErrorCode::SafetyCageViolation, "{refusal:?}");
    let words = |one: &Violation| format!("{} | {} | {} | {}", one.rule, one.limit, one.value, one.would_pass);
    refusal.violations.iter().map(words).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_the_policy_contract_would_reject_is_refused_before_the_signature() {
    let world = TestHarness::new(9).await;
    let cage = world.contract(KnownContract::PolicyCage);
    let swap = world.swap(HUNDRED).await;
    assert!(world.preview(swap.clone()).await.is_ok(), "an account without rules is not caged");

    // Exactly the calls of the swap.
    let calls: Vec<CallRule> = swap
        .legs
        .iter()
        .map(|leg| CallRule { target: leg.to, selector: FixedBytes::from_slice(&leg.data[..4]) })
        .collect();
    assert_eq!(calls[0].selector, Erc20::approveCall::SELECTOR);
    let configure = async |calls: &[CallRule], most| {
        world.send(cage, configureCall { set: rules(&world, calls.to_vec(), most) }).await;
    };
    configure(&calls, u128::from(HUNDRED)).await;
    let passed = world.preview(world.swap(HUNDRED).await).await.expect("inside the rules");
    drop(passed);

    configure(&calls, u128::from(HUNDRED) - 1).await;
    // A hundred are requested, and a millionth less is permitted.
    let usdc = world.contract_of(&world.usdc);
    let (most, asked) = (format!("99.999999 USDC ({usdc})"), format!("100 USDC ({usdc})"));
    let rule = "policy_cage.maxPerTransaction";
    assert_eq!(
        stands_against(&world, world.swap(HUNDRED).await).await,
        [
            format!("{rule} | at most {most} allowed at once | {asked} | {most} or less"),
            format!("{rule} | at most {most} in one transaction | {asked} | {most} or less"),
        ]
    );

    // `execute(bytes,bytes[],uint256)` of the router, from its published interface, is not on the list.
    configure(&calls[..1], u128::MAX).await;
    let router = world.contract(KnownContract::UniversalRouterV210);
    assert_eq!(
        stands_against(&world, world.swap(HUNDRED).await).await,
        [format!(
            "policy_cage.calls | the functions that the owner lists | function 0x3593564c of {router} | a listed \
             function, or the same after the owner lists this one"
        )]
    );

    // Nothing was signed for any of it, and without rules it passes again.
    world.send(cage, clearCall {}).await;
    assert!(world.preview(world.swap(HUNDRED).await).await.is_ok());
}

/// A send of the native token without data, to an address that is on no list.
fn send(world: &TestHarness, wei: u64) -> Proposal {
    let (friend, amount) = (Address::repeat_byte(0x42), U256::from(wei));
    let leg = PlanLeg { value: amount, ..leg(LegPurpose::Main, friend, Bytes::new()) };
    Proposal {
        outflows: vec![Outflow { token: TokenInfo::native(world.client.network()), amount }],
        recipients: vec![friend],
        ..world.proposal(ProposalIntent::Transfer, vec![leg])
    }
}

/// A rule of the zero address and the zero selector stands for plain sends to anybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_native_transfer_passes_only_with_a_rule_for_any_recipient() {
    let world = TestHarness::new(9).await;
    let cage = world.contract(KnownContract::PolicyCage);
    let configure = async |calls: Vec<CallRule>| {
        let mut set = rules(&world, calls, u128::MAX);
        let native = AssetRule { token: Address::ZERO, maxPerTransaction: 1_000, ..set.assets[1].clone() };
        set.assets.push(native);
        // A send is a loss by the contract's count.
        (set.maxLossBps, set.maxDrawdownBps) = (10_000, 10_000);
        world.send(cage, configureCall { set }).await;
    };
    let listed = |target| CallRule { target, selector: FixedBytes::ZERO };
    configure(vec![listed(Address::ZERO)]).await;
    let passed = world.preview(send(&world, 1_000)).await;
    passed.unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let native = "policy_cage.maxPerTransaction | at most 0.000000000000001 ETH in one transaction | \
                  0.000000000000001001 ETH | 0.000000000000001 ETH or less";
    assert_eq!(stands_against(&world, send(&world, 1_001)).await, [native]);

    let friend = Address::repeat_byte(0x42);
    for calls in [vec![], vec![CallRule { target: Address::ZERO, selector: FixedBytes([1; 4]) }]] {
        configure(calls).await;
        let expected = format!(
            "policy_cage.calls | the functions that the owner lists | a call of {friend} without a function | a listed \
             function, or the same after the owner lists this one"
        );
        assert_eq!(stands_against(&world, send(&world, 1_000)).await, [expected]);
    }
    configure(vec![listed(friend)]).await;
    assert!(world.preview(send(&world, 1_000)).await.is_ok(), "a recipient by name");
    world.send(cage, clearCall {}).await;
}

/// Installs a feed with this answer and eight decimals.
async fn feed(at: Address, answer: U256, updated: u64) {
    // The first word is both the round and the answer to `decimals()`.
    let words = [U256::from(8), answer, U256::from(updated), U256::from(updated), U256::from(8)];
    let mut code = Vec::new();
    for (place, word) in (0_u8..).zip(words) {
        // PUSH32 word PUSH1 offset MSTORE.
        code.push(0x7f);
        code.extend(word.to_be_bytes::<32>());
        code.extend([0x60, 32 * place, 0x52]);
    }
    // PUSH1 160 PUSH0 RETURN.
    code.extend([0x60, 0xa0, 0x5f, 0xf3]);
    devnet().devnet.run(move |chain: &mut Chain| chain.set_code(at, code.into())).await.unwrap().unwrap();
    devnet().devnet.mine().await.unwrap();
}

/// A price that the contract would not use counts as missing in the off-chain check, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_or_empty_feed_is_not_a_price() {
    let world = TestHarness::new(9).await;
    let (cage, own) = (world.contract(KnownContract::PolicyCage), Address::repeat_byte(0xfe));
    let swap = world.swap(HUNDRED).await;
    let calls =
        swap.legs.iter().map(|leg| CallRule { target: leg.to, selector: FixedBytes::from_slice(&leg.data[..4]) });
    let mut set = rules(&world, calls.collect(), u128::MAX);
    let told = world.ask(set.assets[1].feed, Aggregator::latestRoundDataCall {}).await;
    let price = U256::try_from(told.answer).unwrap();
    set.assets[1].feed = own;
    set.maxPriceAge = 3_600;
    world.send(cage, configureCall { set }).await;
    let now = devnet().devnet.run(|chain: &mut Chain| chain.head().header.timestamp).await.unwrap();
    feed(own, price, now).await;
    let passed = world.preview(world.swap(HUNDRED).await).await;
    passed.unwrap_or_else(|refusal| panic!("{refusal:?}"));
    for (answer, updated) in [(price, now - 3_700), (U256::ZERO, now), (price, now + 3_600), (U256::MAX, now)] {
        feed(own, answer, updated).await;
        let expected = format!(
            "policy_cage.maxPriceAge | a price of every asset, at most 3600 s old | no price for WETH ({}) by the feed \
             {own} | the same when every feed of the rules is up to date",
            world.contract_of(&world.weth)
        );
        assert_eq!(stands_against(&world, world.swap(HUNDRED).await).await, [expected], "{answer} at {updated}");
    }
    world.send(cage, clearCall {}).await;
}

/// Changes of the rules are privileged: a caller that may change them could remove them.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_operator_changes_the_rules_and_only_in_an_action_of_their_own() {
    let world = TestHarness::new(7).await;
    let cage = world.contract(KnownContract::PolicyCage);
    let clear: Bytes = clearCall {}.abi_encode().into();
    let change = |intent, to, data| world.proposal(intent, vec![leg(LegPurpose::Main, to, data)]);
    let clears = |intent| change(intent, cage, clear.clone());
    world.preview(clears(ProposalIntent::PolicyCage)).await.expect("the operator clears them");

    let found = async |proposal: Proposal| {
        let refusal = world.preview(proposal).await.expect_err("something changes the rules");
        assert_eq!(refusal.code, ErrorCode::SafetySimulationFailed, "{refusal:?}");
        let calldata = refusal.violations.iter().find(|one| one.rule == "calldata");
        calldata.unwrap_or_else(|| panic!("{refusal:?}")).value.clone()
    };
    let by_agent = Proposal { golem_id: "ada".parse().unwrap(), ..clears(ProposalIntent::PolicyCage) };
    assert!(found(by_agent).await.as_str().ends_with("only the operator can change the PolicyCage rules"));
    let alone = "PolicyCage rules can only be changed by a separate action";
    for intent in [ProposalIntent::Swap, ProposalIntent::Approve, ProposalIntent::Revoke, ProposalIntent::Transfer] {
        assert!(found(clears(intent)).await.as_str().ends_with(alone), "{intent:?}");
    }
    let identity = found(clears(ProposalIntent::Identity)).await;
    assert!(
        identity.as_str().ends_with("a change of an identity calls only the registries of agents in the address book"),
        "{identity}"
    );
    let approve = Erc20::approveCall { spender: cage, value: U256::MAX }.abi_encode();
    let usdc = world.contract_of(&world.usdc);
    assert!(found(change(ProposalIntent::PolicyCage, usdc, approve.into())).await.as_str().ends_with(alone));
    let neither = "it neither sets nor clears the PolicyCage rules";
    let longer = Bytes::from([clear.as_ref(), &[0]].concat());
    for data in [resetHighestCall {}.abi_encode().into(), longer] {
        assert!(found(change(ProposalIntent::PolicyCage, cage, data)).await.as_str().ends_with(neither));
    }
    let mut paid = clears(ProposalIntent::PolicyCage);
    paid.legs[0].value = U256::from(1);
    assert!(found(paid).await.as_str().ends_with(neither));
}
