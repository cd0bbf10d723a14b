//! Tests of fair exchanges, and of the slippage and impact that each phase allows.

use std::collections::BTreeMap;

use alloy::primitives::Address;
use proptest::prelude::*;

use super::*;
use crate::policy::{Policy, parse};
use crate::value::{ExchangeValue, PriceConcern, UnknownValue, ValuedAmount};
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use golem_chain::token::{TokenId, TokenInfo};

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// An exchange: dollars given and received by all price sources, and by the current ones.
fn exchange(all: (&str, &str), now: Option<(&str, &str)>) -> ActionValues {
    let text = SafeText::clean("WETH", 20);
    let id = TokenId::Erc20(Address::ZERO);
    let token = TokenInfo { id, symbol: text.clone(), name: text, decimals: 18, listed: true };
    ActionValues {
        outflows: vec![ValuedAmount { token, amount: U256::from(1), usd: usd(all.0) }],
        received: usd(all.1),
        present: now.map(|(given, received)| ExchangeValue { given: usd(given), received: usd(received) }),
        ..ActionValues::default()
    }
}

/// Judges with a limit of 2 %: passes by all sources, passes as an exit, asks for approval, or is refused.
fn judged(values: &ActionValues, leaves: bool) -> &'static str {
    match fair(values, leaves, BasisPoints::new(200).unwrap()) {
        Ok(FairExchange::Wholly) => "wholly",
        Ok(FairExchange::Now { steep: false }) => "now",
        Ok(FairExchange::Now { steep: true } | FairExchange::ByFeed { contested: true }) => "asks",
        Ok(FairExchange::ByFeed { contested: false }) => "by feed",
        Err(_) => "refused",
    }
}

#[test]
fn a_position_is_left_at_the_price_of_now_and_entered_at_every_price() {
    // The mean gives 1,000 and the market 900: nine tenths, where 98 % are needed.
    let fallen = exchange(("1000", "899"), Some(("900", "899")));
    assert_eq!(judged(&fallen, false), "refused", "an entry is held to every witness");
    assert_eq!(judged(&fallen, true), "now");
    // A manipulated pool below a correct feed: of 900, 882 are needed and 881.99 are there.
    assert_eq!(judged(&exchange(("1000", "881.99"), Some(("900", "881.99"))), true), "refused");
    assert_eq!(judged(&exchange(("1000", "882"), Some(("900", "882"))), true), "now");
    // Without a current price source, or with an unknown one, the limit is not eased.
    assert_eq!(judged(&exchange(("1000", "899"), None), true), "refused");
    // If all price sources agree, nothing changes.
    for leaves in [false, true] {
        assert_eq!(judged(&exchange(("1000", "980"), None), leaves), "wholly");
        assert_eq!(judged(&exchange(("1000", "979.99"), Some(("1000", "979.99"))), leaves), "refused");
    }
}

#[test]
fn a_straying_pool_keeps_no_position_locked() {
    // Other pools give 5,000 in every window; the feed and the traded pools give 1,000.
    let stray = exchange(("5000", "995"), Some(("5000", "995")));
    assert_eq!(judged(&stray, true), "refused", "without a feed nothing outvotes them");
    let by_feed = Some(ExchangeValue { given: usd("1000"), received: usd("995") });
    let one = ActionValues { by_feed, ..stray };
    assert_eq!((judged(&one, true), judged(&one, false)), ("by feed", "refused"));
    // Several pools contradict the feed: the operator decides, and nothing is refused.
    assert_eq!(judged(&ActionValues { several_pools: true, ..one.clone() }, true), "asks");
    // A loss by the feed as well stays refused.
    let by_feed = Some(ExchangeValue { given: usd("1000"), received: usd("979.99") });
    assert_eq!(judged(&ActionValues { by_feed, ..one }, true), "refused");
}

#[test]
fn an_exit_far_below_the_only_pool_that_the_feed_outvotes_asks() {
    let sold = Address::ZERO;
    let disputed = |token, feed: &str, pool: &str| PriceConcern::Disputed { token, feed: usd(feed), pool: usd(pool) };
    // By the feed, which counts, the exchange is fair; the only other pool shows a higher price.
    let by_feed = exchange(("1000", "995"), None);
    let with = |concern| ActionValues { concerns: vec![concern], ..by_feed.clone() };
    assert_eq!(
        judged(&with(disputed(sold, "0.75", "1")), true),
        "wholly",
        "three quarters of the pool are near enough"
    );
    let below = with(disputed(sold, "0.7499", "1"));
    assert_eq!(judged(&below, true), "asks");
    // Entries ask by a rule of their own, and an incoming token is not sold below its pool.
    assert_eq!(judged(&below, false), "wholly");
    assert_eq!(judged(&with(disputed(Address::with_last_byte(9), "0.5", "1")), true), "wholly");
    assert_eq!(judged(&with(PriceConcern::NoFeed { token: sold }), true), "wholly");
}

#[test]
fn a_quote_above_every_witness_is_reported_as_such_and_not_as_a_loss() {
    let rule = |values: &ActionValues| fair(values, false, BasisPoints::new(200).unwrap()).unwrap_err();
    // The price sources give 1,000, and the quote promises 1,090 for it. The given amount counts at what the quote
    // makes of it.
    let lure = exchange(("1090", "1000"), None);
    assert_eq!(rule(&lure).rule, "max_loss_bps");
    let lure = ActionValues { unquoted: Some(ExchangeValue { given: usd("1000"), received: usd("1085") }), ..lure };
    let found = rule(&lure);
    assert_eq!(found.rule, "quote_above_witnesses");
    assert!(found.value.as_str().contains("$1,085.00") && found.value.as_str().contains("$1,000.00"), "{found:?}");
    // A real loss stays a loss.
    let loss = ActionValues { unquoted: Some(ExchangeValue { given: usd("1000"), received: usd("979") }), ..lure };
    assert_eq!(rule(&loss).rule, "max_loss_bps");
}

#[test]
fn a_quarter_below_the_mean_the_operator_is_asked() {
    assert_eq!(judged(&exchange(("1000", "750"), Some(("750", "750"))), true), "now");
    assert_eq!(judged(&exchange(("1000", "749.99"), Some(("750", "749.99"))), true), "asks");
    assert_eq!(judged(&exchange(("1000", "400"), Some(("400", "400"))), true), "asks");
    let values = exchange(("1000", "400"), Some(("400", "400")));
    let asks = |fair: FairExchange| fair.asks(&values);
    assert!(
        asks(FairExchange::Now { steep: true })
            .unwrap()
            .to_string()
            .starts_with("it sells WETH at a price more than 25 %")
    );
    assert!(
        asks(FairExchange::ByFeed { contested: true }).unwrap().to_string().starts_with("the feed of WETH "),
        "the token is named"
    );
    assert_eq!(asks(FairExchange::Now { steep: false }), None);
    assert_eq!(judged(&exchange(("1000", "400"), Some(("400", "400"))), false), "refused");
}

fn token(number: u8) -> TokenInfo {
    let text = SafeText::clean("T", 20);
    let id = TokenId::Erc20(Address::with_last_byte(number));
    TokenInfo { id, symbol: text.clone(), name: text, decimals: 18, listed: true }
}

/// Returns the rules that block a trade with this slippage and impact (in millionths) under a policy in a phase.
fn against(policy: &Policy, phase: Phase, slippage: u32, impact: u32) -> Vec<String> {
    changed(policy, phase, (slippage, impact), |_| {})
}

/// Like [`against`], after a change of the trade. The time is second 100, and quotes may be 30 s old.
fn changed(
    policy: &Policy,
    phase: Phase,
    (slippage, impact): (u32, u32),
    change: impl Fn(&mut TradeFigures),
) -> Vec<String> {
    let limits = SlippageLimits { max_quote_age: 30_000, ..policy.slippage(phase) };
    let points = |points: u32| BasisPoints::new(points).unwrap();
    let expected = U256::from(10_000_000u64);
    let mut trade = TradeFigures {
        token_in: token(1),
        token_out: token(2),
        amount_in: U256::from(1),
        expected_out: expected,
        // A basis point of ten million is a thousand.
        min_out: expected - U256::from(1_000 * slippage),
        slippage: points(slippage),
        price_impact: points(impact.div_ceil(100)),
        impact_reached: points(impact / 100),
        quoted_at: 100_000,
        deadline: 101,
        pools: vec![],
        exact_output: false,
    };
    change(&mut trade);
    let nothing = || UnknownValue::because("not asked");
    let inputs = CheckInputs {
        asked: false,
        now_millis: 100_000,
        block_time: 100,
        phase,
        stop: None,
        tokens: BTreeMap::new(),
        values: Err(nothing()),
        portfolio: Err(nothing()),
        simulation: None,
    };
    let mut violations = Vec::new();
    trade_rules(&trade, &inputs, &limits, &mut violations);
    violations.into_iter().map(|one| one.rule.to_string()).collect()
}

proptest! {
    /// Figures of the source documents: 30 bps and less than one percent in Cautious, 200 bps in Terminal. The
    /// operator's own limits apply on top: here 250 bps and at most 2 %.
    #[test]
    fn a_phase_takes_exactly_its_slippage_and_impact(
        phase in 0_usize..5,
        slippage in prop_oneof![0_u32..260, 25_u32..35, 195_u32..205],
        impact in prop_oneof![0_u32..25_000, 9_990_u32..10_010, 19_990_u32..20_010],
    ) {
        let text = "preset = \"demo\"\nmax_slippage_bps = 250\nmax_price_impact_bps = 200\n";
        let policy = parse(text, std::path::Path::new("p.toml")).unwrap();
        let most = [250, 30, 250, 250, 200][phase];
        let impact_passes = if phase == 1 { impact < 10_000 } else { impact <= 20_000 };
        let found = against(&policy, Phase::ALL[phase], slippage, impact);
        prop_assert_eq!(found.iter().any(|rule| rule == "max_slippage_bps"), slippage > most);
        prop_assert_eq!(found.iter().any(|rule| rule == "max_price_impact_bps"), !impact_passes);
        prop_assert_eq!(found.is_empty(), slippage <= most && impact_passes);
    }
}

#[test]
fn a_quote_is_of_now_and_a_trade_promises_what_it_quoted() {
    let policy = parse("preset = \"demo\"", std::path::Path::new("p.toml")).unwrap();
    let found = |change: &dyn Fn(&mut TradeFigures)| changed(&policy, Phase::Thriving, (10, 10), change);
    type Case = (fn(&mut TradeFigures), &'static [&'static str]);
    let cases: [Case; 12] = [
        (|_| {}, &[]),
        (|trade| trade.quoted_at = 70_000, &[]),
        (|trade| trade.quoted_at = 69_999, &["max_quote_age_seconds"]),
        // Clocks differ by a little.
        (|trade| trade.quoted_at = 105_000, &[]),
        (|trade| trade.quoted_at = 105_001, &["max_quote_age_seconds"]),
        (|trade| trade.quoted_at = u64::MAX, &["max_quote_age_seconds"]),
        (|trade| trade.deadline = 100, &["deadline"]),
        (|trade| trade.amount_in = U256::ZERO, &["min_out"]),
        (|trade| (trade.expected_out, trade.min_out) = (U256::ZERO, U256::ZERO), &["min_out"]),
        (|trade| trade.min_out -= U256::from(1), &["min_out"]),
        // An exact output is promised exactly.
        (|trade| (trade.exact_output, trade.min_out) = (true, trade.expected_out), &[]),
        (|trade| trade.exact_output = true, &["min_out"]),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found(&change), expected, "case {number}");
    }
}
