//! Tests of each bound on a trade's figures.

use alloy::primitives::{Address, Bytes};

use super::*;
use crate::proposal::{Inflow, Outflow, ProposalIntent};
use crate::sample;
use crate::signing_payload::SigningPayload;
use crate::value::{UnknownValue, ValuedAmount};
use bardo_base::model::Phase;

const ME: Address = Address::repeat_byte(1);
const NOW: u64 = 1_790_000_000_000;
fn hundredth() -> BasisPoints {
    BasisPoints::new(100).unwrap()
}

fn limits() -> SlippageLimits {
    SlippageLimits {
        max_slippage: hundredth(),
        max_price_impact: hundredth(),
        impact_below: None,
        max_loss: hundredth(),
        max_quote_age: 60_000,
    }
}

/// A trade of 1,000 for at least 990, quoted now at 1,000 with a slippage of one percent.
fn trade() -> TradeFigures {
    let (given, wanted) = (Address::repeat_byte(2), Address::repeat_byte(3));
    TradeFigures {
        token_in: sample::token(given, "IN", 18),
        token_out: sample::token(wanted, "OUT", 18),
        amount_in: U256::from(1_000),
        expected_out: U256::from(1_000),
        min_out: U256::from(990),
        slippage: hundredth(),
        price_impact: hundredth(),
        impact_reached: hundredth(),
        quoted_at: NOW,
        deadline: NOW / 1_000 + 1,
        pools: vec![],
        exact_output: false,
    }
}

fn framed(trade: Option<TradeFigures>) -> SigningPayload {
    let of = self::trade();
    let mut proposal = sample::proposal(ME, ProposalIntent::Swap, sample::leg(ME, Bytes::from_static(&[1, 2, 3, 4])));
    proposal.outflows = vec![Outflow { token: of.token_in, amount: of.amount_in }];
    proposal.inflows =
        vec![Inflow { token: of.token_out, at_least: of.min_out, expected: of.expected_out, recipient: ME }];
    proposal.trade = trade;
    SigningPayload::new(sample::frame(proposal)).unwrap()
}

/// Facts of an exchange of 1,000 dollars for `received`.
fn facts(received: Result<&str, UnknownValue>) -> CheckInputs {
    let dollars = |text: &str| text.parse::<Usd>().unwrap();
    let of = trade();
    CheckInputs {
        asked: false,
        now_millis: NOW,
        block_time: NOW / 1_000,
        phase: Phase::Thriving,
        stop: None,
        tokens: Default::default(),
        values: received.map(|received| ActionValues {
            outflows: vec![ValuedAmount { token: of.token_in, amount: of.amount_in, usd: dollars("1000") }],
            received: dollars(received),
            ..ActionValues::default()
        }),
        portfolio: Ok(Default::default()),
        simulation: None,
    }
}

fn rules(verdict: &Verdict) -> Vec<&str> {
    verdict.violations().iter().map(|one| one.rule.as_str()).collect()
}

#[test]
fn each_figure_of_a_trade_is_checked_against_its_limit() {
    let sound = check(&framed(Some(trade())), &facts(Ok("990")), &limits());
    assert_eq!(rules(&sound), Vec::<&str>::new(), "{}", sound.detail());
    type Spoilt = (&'static str, fn(&mut TradeFigures));
    let spoilt: &[Spoilt] = &[
        // A slippage above the limit also lowers the least output, which then passes.
        ("max_slippage_bps", |one| one.slippage = BasisPoints::new(101).unwrap()),
        ("max_price_impact_bps", |one| one.price_impact = BasisPoints::new(101).unwrap()),
        ("min_out", |one| one.min_out = U256::from(989)),
        ("min_out", |one| one.amount_in = U256::ZERO),
        ("min_out", |one| (one.min_out, one.expected_out) = (U256::ZERO, U256::ZERO)),
        ("min_out", |one| (one.exact_output, one.min_out) = (true, U256::from(999))),
        ("max_quote_age_seconds", |one| one.quoted_at = NOW - 60_001),
        ("max_quote_age_seconds", |one| one.quoted_at = NOW + 5_001),
        ("deadline", |one| one.deadline = NOW / 1_000),
    ];
    for (rule, spoil) in spoilt {
        let mut one = trade();
        spoil(&mut one);
        let verdict = check(&framed(Some(one)), &facts(Ok("990")), &limits());
        assert_eq!((rules(&verdict), verdict.code), (vec![*rule], Some(ErrorCode::SafetySlippage)));
    }
    let kept: [fn(&mut TradeFigures); 3] = [
        |one| one.quoted_at = NOW - 60_000,
        |one| one.quoted_at = NOW + 5_000,
        |one| (one.exact_output, one.min_out) = (true, U256::from(1_000)),
    ];
    for kept in kept {
        let mut one = trade();
        kept(&mut one);
        assert_eq!(rules(&check(&framed(Some(one)), &facts(Ok("990")), &limits())), Vec::<&str>::new());
    }
}

#[test]
fn every_exchange_is_limited_by_value_and_an_unknown_value_fails() {
    // 1,000 dollars less one percent are 990.
    for trade in [Some(trade()), None] {
        let one = framed(trade);
        assert!(rules(&check(&one, &facts(Ok("990")), &limits())).is_empty());
        assert_eq!(rules(&check(&one, &facts(Ok("989.99")), &limits())), ["max_loss_bps"]);
        let unknown = check(&one, &facts(Err(UnknownValue::because("no feed"))), &limits());
        assert_eq!((rules(&unknown), unknown.code), (vec!["max_loss_bps"], Some(ErrorCode::SafetyPriceUnknown)));
    }
}
