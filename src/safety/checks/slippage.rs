//! Is the least that can come in enough? Size of the slippage, price impact, age of the quote, and
//! dollars: what is guaranteed, at the lowest price, against what goes out, at the highest.

use alloy::primitives::U256;

use crate::base::error::{ErrorCode, Violation};
use crate::base::model::Check;
use crate::base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use crate::safety::facts::Facts;
use crate::safety::framed::Framed;
use crate::safety::proposal::Trade;
use crate::safety::value::Values;
use crate::safety::verdict::Verdict;

/// A clock may be this far behind a quote's before the quote counts as one from the future.
const CLOCK_SLACK_MILLIS: u64 = 5_000;

/// How much a trade may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlippageLimits {
    /// The most slippage a trade may allow.
    pub max_slippage: BasisPoints,
    /// The most it may move the price.
    pub max_price_impact: BasisPoints,
    /// The most value it may lose, in the worst case that it allows.
    pub max_loss: BasisPoints,
    /// The oldest a quote may be, in milliseconds.
    pub max_quote_age: u64,
}

/// The slippage guard.
pub fn check(framed: &Framed, facts: &Facts, limits: &SlippageLimits) -> Verdict {
    let mut violations = Vec::new();
    let mut unknown = false;
    let proposal = framed.proposal();
    if let Some(trade) = &proposal.trade {
        trade_rules(trade, facts, limits, &mut violations);
    }
    // Whatever gives tokens for tokens is held to its value, trade or not; a trade that brings the
    // account nothing has lost everything.
    let comes_back = proposal.inflows.iter().any(|inflow| inflow.recipient == proposal.account);
    let exchanges =
        proposal.trade.is_some() || proposal.order.is_some() || (comes_back && !proposal.outflows.is_empty());
    if exchanges {
        match &facts.values {
            Ok(values) => worst_case(values, limits, &mut violations),
            Err(doubt) => {
                unknown = true;
                violations.push(Violation {
                    rule: "max_loss_bps".to_owned(),
                    limit: format!("at most {} lost", limits.max_loss),
                    value: doubt.to_string(),
                    would_pass: "the same once every price can be told".to_owned(),
                });
            }
        }
    }
    if violations.is_empty() {
        return match &proposal.trade {
            Some(trade) => Verdict::passed(
                Check::SlippageGuard,
                format_args!("slippage {}, impact {}", trade.slippage, trade.price_impact),
            ),
            None => Verdict::passed(Check::SlippageGuard, "nothing is traded"),
        };
    }
    let code = if unknown { ErrorCode::SafetyPriceUnknown } else { ErrorCode::SafetySlippage };
    let detail = violations.iter().map(|one| format!("{}: {}", one.rule, one.value)).collect::<Vec<_>>().join("; ");
    Verdict::blocked(Check::SlippageGuard, code, detail, violations)
}

fn trade_rules(trade: &Trade, facts: &Facts, limits: &SlippageLimits, violations: &mut Vec<Violation>) {
    let mut refuse = |rule: &str, limit: String, value: String, would_pass: String| {
        violations.push(Violation { rule: rule.to_owned(), limit, value, would_pass });
    };
    if trade.slippage > limits.max_slippage {
        let most = limits.max_slippage;
        refuse("max_slippage_bps", format!("at most {most}"), trade.slippage.to_string(), format!("{most} or less"));
    }
    if trade.price_impact > limits.max_price_impact {
        refuse(
            "max_price_impact_bps",
            format!("at most {}", limits.max_price_impact),
            trade.price_impact.to_string(),
            "a smaller amount, or a deeper market".to_owned(),
        );
    }
    if trade.amount_in.is_zero() || trade.min_out.is_zero() {
        refuse(
            "min_out",
            "something must go in and something must come out".to_owned(),
            format!("{} in, at least {} out", trade.amount_in, trade.min_out),
            "a trade with a least output above zero".to_owned(),
        );
    }
    let promised = if trade.exact_output { trade.expected_out } else { trade.slippage.minimum_out(trade.expected_out) };
    if trade.min_out < promised {
        refuse(
            "min_out",
            format!("at least {promised}, the quote less {}", trade.slippage),
            trade.min_out.to_string(),
            format!("a least output of {promised}"),
        );
    }
    let age = facts.now_millis.checked_sub(trade.quoted_at);
    let from_the_future = trade.quoted_at > facts.now_millis.saturating_add(CLOCK_SLACK_MILLIS);
    if from_the_future || age.is_some_and(|age| age > limits.max_quote_age) {
        let value = match age {
            Some(age) => format!("{} s old", age / 1_000),
            None => "made after now, by this machine's clock".to_owned(),
        };
        refuse("max_quote_age", format!("at most {} s", limits.max_quote_age / 1_000), value, "a new quote".to_owned());
    }
    if trade.deadline <= facts.block_time {
        refuse(
            "deadline",
            "a time to come".to_owned(),
            format!("{} s ago by the chain's time", facts.block_time.saturating_sub(trade.deadline)),
            "a new quote".to_owned(),
        );
    }
}

/// Guaranteed output ≥ input · (1 − the most that may be lost).
fn worst_case(values: &Values, limits: &SlippageLimits, violations: &mut Vec<Violation>) {
    let given = values.outflows.iter().try_fold(Usd::ZERO, |sum, one| sum.checked_add(one.usd));
    let least = given.and_then(|given| Ok((given, at_least(given, limits.max_loss)?)));
    match least {
        Ok((_, least)) if values.received >= least => {}
        Ok((given, least)) => violations.push(Violation {
            rule: "max_loss_bps".to_owned(),
            limit: format!("at most {} of ${} lost", limits.max_loss, given.to_fixed(2, Rounding::Up)),
            value: format!("only ${} are certain to come in", values.received.to_fixed(2, Rounding::Down)),
            would_pass: format!("at least ${} guaranteed", least.to_fixed(2, Rounding::Up)),
        }),
        Err(error) => violations.push(Violation {
            rule: "max_loss_bps".to_owned(),
            limit: format!("at most {} lost", limits.max_loss),
            value: error.to_string(),
            would_pass: "an amount whose value can be told".to_owned(),
        }),
    }
}

/// `given · (1 − loss)`, rounded up.
pub fn at_least(given: Usd, loss: BasisPoints) -> Result<Usd, crate::base::units::UsdError> {
    // Four decimals: a ten-thousandth is a basis point. Both fit by the type's own bounds.
    let kept = 10_000u32.saturating_sub(loss.get());
    match TokenAmount::new(U256::from(kept), 4) {
        Ok(kept) => Usd::value_of(kept, given, Rounding::Up),
        Err(_) => Err(crate::base::units::UsdError::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, Bytes};

    use super::*;
    use crate::base::model::Phase;
    use crate::safety::framed::Framed;
    use crate::safety::proposal::{Flow, Inflow, Intent};
    use crate::safety::sample;
    use crate::safety::value::{Doubt, Valued};

    const ME: Address = Address::repeat_byte(1);
    const NOW: u64 = 1_790_000_000_000;
    fn hundredth() -> BasisPoints {
        BasisPoints::new(100).unwrap()
    }

    fn limits() -> SlippageLimits {
        SlippageLimits {
            max_slippage: hundredth(),
            max_price_impact: hundredth(),
            max_loss: hundredth(),
            max_quote_age: 60_000,
        }
    }

    /// A trade of 1,000 for 990 at least, quoted now at 1,000 with a slippage of a hundredth.
    fn trade() -> Trade {
        let (given, wanted) = (Address::repeat_byte(2), Address::repeat_byte(3));
        Trade {
            token_in: sample::token(given, "IN", 18),
            token_out: sample::token(wanted, "OUT", 18),
            amount_in: U256::from(1_000),
            expected_out: U256::from(1_000),
            min_out: U256::from(990),
            slippage: hundredth(),
            price_impact: hundredth(),
            quoted_at: NOW,
            deadline: NOW / 1_000 + 1,
            pools: vec![],
            exact_output: false,
        }
    }

    fn framed(trade: Option<Trade>) -> Framed {
        let of = self::trade();
        let mut proposal = sample::proposal(ME, Intent::Swap, sample::leg(ME, Bytes::from_static(&[1, 2, 3, 4])));
        proposal.outflows = vec![Flow { token: of.token_in, amount: of.amount_in }];
        proposal.inflows =
            vec![Inflow { token: of.token_out, at_least: of.min_out, expected: of.expected_out, recipient: ME }];
        proposal.trade = trade;
        Framed::new(sample::frame(proposal)).unwrap()
    }

    /// A thousand dollars out for so many.
    fn facts(received: Result<&str, Doubt>) -> Facts {
        let dollars = |text: &str| text.parse::<Usd>().unwrap();
        let of = trade();
        Facts {
            now_millis: NOW,
            block_time: NOW / 1_000,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: received.map(|received| Values {
                outflows: vec![Valued { token: of.token_in, amount: of.amount_in, usd: dollars("1000") }],
                received: dollars(received),
                ..Values::default()
            }),
            portfolio: Ok(Default::default()),
            simulation: None,
        }
    }

    fn rules(verdict: &Verdict) -> Vec<&str> {
        verdict.violations.iter().map(|one| one.rule.as_str()).collect()
    }

    #[test]
    fn each_figure_of_a_trade_has_its_bound() {
        let sound = check(&framed(Some(trade())), &facts(Ok("990")), &limits());
        assert_eq!(rules(&sound), Vec::<&str>::new(), "{}", sound.detail);
        type Spoilt = (&'static str, fn(&mut Trade));
        let spoilt: &[Spoilt] = &[
            // A slippage above the limit promises less, and then less is enough.
            ("max_slippage_bps", |one| one.slippage = BasisPoints::new(101).unwrap()),
            ("max_price_impact_bps", |one| one.price_impact = BasisPoints::new(101).unwrap()),
            ("min_out", |one| one.min_out = U256::from(989)),
            ("min_out", |one| one.amount_in = U256::ZERO),
            ("min_out", |one| (one.min_out, one.expected_out) = (U256::ZERO, U256::ZERO)),
            ("min_out", |one| (one.exact_output, one.min_out) = (true, U256::from(999))),
            ("max_quote_age", |one| one.quoted_at = NOW - 60_001),
            ("max_quote_age", |one| one.quoted_at = NOW + 5_001),
            ("deadline", |one| one.deadline = NOW / 1_000),
        ];
        for (rule, spoil) in spoilt {
            let mut one = trade();
            spoil(&mut one);
            let verdict = check(&framed(Some(one)), &facts(Ok("990")), &limits());
            assert_eq!((rules(&verdict), verdict.code), (vec![*rule], Some(ErrorCode::SafetySlippage)));
        }
        let kept: [fn(&mut Trade); 3] = [
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
    fn whatever_exchanges_is_held_to_its_value_and_an_unknown_one_is_none() {
        // 1,000 dollars less a hundredth are 990.
        for trade in [Some(trade()), None] {
            let one = framed(trade);
            assert!(rules(&check(&one, &facts(Ok("990")), &limits())).is_empty());
            assert_eq!(rules(&check(&one, &facts(Ok("989.99")), &limits())), ["max_loss_bps"]);
            let unknown = check(&one, &facts(Err(Doubt::because("no feed"))), &limits());
            assert_eq!((rules(&unknown), unknown.code), (vec!["max_loss_bps"], Some(ErrorCode::SafetyPriceUnknown)));
        }
    }
}
