//! Slippage guard: slippage, price impact, quote age, and dollars lost. The loss compares the guaranteed output at the
//! lowest price with the input at the highest.
//!
//! An exit (as the simulation found) only has to meet the loss limit by the price sources that follow a fall: the feed,
//! and other pools' last half minute. The half-hour mean would forbid every sale after a fall, when it is needed most.
//! The mean remains an outer bound: further than [`STEEP`] below it, the operator must approve.

use alloy::primitives::U256;
use bardo_base::fabric::{CheckReason, Finding};

use crate::check_inputs::CheckInputs;
use crate::proposal::{ProposalIntent, TradeFigures};
use crate::signing_payload::SigningPayload;
use crate::simulate::figure_of;
use crate::value::{ActionValues, ExchangeValue, PriceConcern};
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, Violation};
use bardo_base::format::{dollars, dollars_left, grouped};
use bardo_base::model::{Check, RuleName};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use golem_chain::token::TokenId;

/// Tolerated clock difference, in milliseconds, before a quote counts as one from the future.
const CLOCK_SLACK_MILLIS: u64 = 5_000;

/// Distance below the half-hour mean up to which an exit needs no approval, in basis points: a quarter. A larger fall
/// is rarer than a wrong feed.
const STEEP: u32 = 2_500;

/// Loss limits of a trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlippageLimits {
    /// Maximum slippage tolerance of a trade.
    pub max_slippage: BasisPoints,
    /// Maximum price impact.
    pub max_price_impact: BasisPoints,
    /// Exclusive upper bound on the price impact in this phase; `None` if the phase sets none.
    pub impact_below: Option<BasisPoints>,
    /// Maximum loss of value in the worst case that the trade allows.
    pub max_loss: BasisPoints,
    /// Maximum age of a quote, in milliseconds.
    pub max_quote_age: u64,
}

/// Checks a trade's figures and the value of every exchange.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs, limits: &SlippageLimits) -> Verdict {
    let mut violations = Vec::new();
    let mut unknown = false;
    let proposal = payload.proposal();
    if let Some(trade) = &proposal.trade {
        trade_rules(trade, inputs, limits, &mut violations);
    }
    // Every exchange of tokens must keep its value, not only trades. A trade that brings the account nothing loses
    // everything.
    let comes_back = proposal.inflows.iter().any(|inflow| inflow.recipient == proposal.account);
    // A deposit into a liquidity position gives tokens for the position: `position_calls` compares its value; and
    // `vault_calls` that of a vault's shares, in units of its token. A settlement exchanges nothing.
    let of_its_own =
        matches!(proposal.intent, ProposalIntent::Liquidity | ProposalIntent::Vault | ProposalIntent::VaultManagement);
    let swaps = comes_back && !proposal.outflows.is_empty() && !of_its_own;
    let exchanges = proposal.trade.is_some() || proposal.order.is_some() || proposal.arrival.is_some() || swaps;
    let leaves = inputs.simulation.as_ref().is_some_and(|simulated| simulated.leaves);
    let mut asks = None;
    let mut suggestion = None;
    if exchanges {
        match &inputs.values {
            Ok(values) => match fair(values, leaves, limits.max_loss) {
                Ok(fair) => asks = fair.asks(values),
                Err(violation) => {
                    let bridges = proposal.bridged().is_some();
                    suggestion =
                        values.exchange().ok().filter(|_| bridges).and_then(|paid| enough(&paid, limits.max_loss));
                    violations.push(*violation);
                }
            },
            Err(doubt) => {
                unknown = true;
                violations.push(Violation::new(
                    RuleName::MaxLossBps,
                    format_args!("at most {} lost", limits.max_loss),
                    doubt.to_string(),
                    "the same when every price is known",
                ));
            }
        }
    }
    if violations.is_empty() {
        let found = match &proposal.trade {
            Some(trade) => Finding::Slippage { slippage: trade.slippage, impact: trade.price_impact },
            None if proposal.order.is_some() || proposal.arrival.is_some() => Finding::ArrivalFair,
            None => Finding::NothingTraded,
        };
        let passed = Verdict::passed(Check::SlippageGuard, found);
        return asks.into_iter().fold(passed, Verdict::asking);
    }
    let code = if unknown { ErrorCode::SafetyPriceUnknown } else { ErrorCode::SafetySlippage };
    let blocked = Verdict::broken(Check::SlippageGuard, code, violations);
    match suggestion {
        Some(suggestion) => blocked.suggesting(suggestion),
        None => blocked,
    }
}

/// Suggests a larger amount for a bridge whose cost exceeds the loss limit: its fillers' gas is a fixed cost. `None` if
/// nothing is lost, or if the limit is zero.
fn enough(paid: &ExchangeValue, most: BasisPoints) -> Option<String> {
    let fee = paid.given.checked_sub(paid.received).ok().filter(|fee| !fee.is_zero())?;
    // A tenth more than the fixed cost alone requires, since a filler's margin grows with the amount.
    let times = U256::from(11_000_u32).div_ceil(U256::from(most.get()).max(U256::ONE));
    let least = Usd::value_of(TokenAmount::new(times, 0).ok()?, fee, Rounding::Up).ok().filter(|_| most.get() > 0)?;
    Some(format!(
        "Send more: of {}, the bridge costs {}, and much of that is gas, which is the same for any amount. From about \
         {} on, it would cost less than {most} at the current bids.",
        dollars(paid.given),
        dollars(fee),
        dollars(least),
    ))
}

fn trade_rules(trade: &TradeFigures, inputs: &CheckInputs, limits: &SlippageLimits, violations: &mut Vec<Violation>) {
    let goes = |raw| figure_of(&trade.token_in, raw);
    let comes = |raw| figure_of(&trade.token_out, raw);
    let mut refuse =
        |rule: RuleName, limit: String, value: String, would_pass: String, figures: Option<RuleFigures>| {
            violations.push(Violation::new(rule, limit, value, would_pass).with(figures));
        };
    let bps = |most: BasisPoints, value: BasisPoints| Some(RuleFigures::new(FigureUnit::Bps, most.get(), value.get()));
    if trade.slippage > limits.max_slippage {
        let most = limits.max_slippage;
        refuse(
            RuleName::MaxSlippageBps,
            format!("at most {most}"),
            trade.slippage.to_string(),
            format!("{most} or less"),
            bps(most, trade.slippage).map(|figures| figures.leaving(most.get())),
        );
    }
    // The phase's bound and the general one are one rule: if both are violated, the lower bound is reported.
    let most = limits.max_price_impact;
    let general = trade.price_impact > most;
    let of_phase = limits.impact_below.filter(|below| trade.impact_reached >= *below);
    if general && of_phase.is_none_or(|below| below > most) {
        refuse(
            RuleName::MaxPriceImpactBps,
            format!("at most {most}"),
            trade.price_impact.to_string(),
            "a smaller amount, or a deeper market".to_owned(),
            bps(most, trade.price_impact),
        );
    }
    if let Some(below) = of_phase.filter(|below| *below <= most || !general) {
        refuse(
            RuleName::MaxPriceImpactBps,
            format!("below {below} in this phase"),
            trade.price_impact.to_string(),
            "a smaller amount, or a deeper market".to_owned(),
            bps(below, trade.price_impact),
        );
    }
    if trade.amount_in.is_zero() || trade.min_out.is_zero() {
        refuse(
            RuleName::MinOut,
            "amounts in and out above zero".to_owned(),
            format!("{} in, at least {} out", goes(trade.amount_in), comes(trade.min_out)),
            "a trade with a minimum output above zero".to_owned(),
            None,
        );
    }
    let promised = if trade.exact_output { trade.expected_out } else { trade.slippage.minimum_out(trade.expected_out) };
    if trade.min_out < promised {
        refuse(
            RuleName::MinOut,
            format!("at least {}, the quote less {}", comes(promised), trade.slippage),
            comes(trade.min_out),
            format!("a minimum output of {}", comes(promised)),
            Some(RuleFigures::new(FigureUnit::RawUnits, promised, trade.min_out)),
        );
    }
    let age = inputs.now_millis.checked_sub(trade.quoted_at);
    let from_the_future = trade.quoted_at > inputs.now_millis.saturating_add(CLOCK_SLACK_MILLIS);
    if from_the_future || age.is_some_and(|age| age > limits.max_quote_age) {
        let value = match age {
            Some(age) => format!("{} s old", age / 1_000),
            None => "in the future, by this machine's clock".to_owned(),
        };
        refuse(
            RuleName::MaxQuoteAgeSeconds,
            format!("at most {} s", limits.max_quote_age / 1_000),
            value,
            "a new quote".to_owned(),
            age.map(|age| RuleFigures::new(FigureUnit::Seconds, limits.max_quote_age / 1_000, age / 1_000)),
        );
    }
    if trade.deadline <= inputs.block_time {
        refuse(
            RuleName::Deadline,
            "a time in the future".to_owned(),
            format!("{} s ago by the chain's time", inputs.block_time.saturating_sub(trade.deadline)),
            "a new quote".to_owned(),
            None,
        );
    }
}

/// Price sources by which an exchange stays within the loss limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairExchange {
    /// All price sources.
    Wholly,
    /// An exit, by its feed and the pools that it trades in; other pools disagree.
    ByFeed {
        /// True if several pools disagree with the feed, so that the operator decides.
        contested: bool,
    },
    /// An exit, by the price sources that do not lag.
    Now {
        /// True if it is more than [`STEEP`] below the half-hour mean, so that the operator must approve.
        steep: bool,
    },
}

impl FairExchange {
    /// Returns the reason for approval, if one is needed.
    fn asks(self, values: &ActionValues) -> Option<CheckReason> {
        let mut sold: Vec<SafeText> = values.outflows.iter().map(|one| one.token.symbol.clone()).collect();
        sold.dedup();
        match self {
            Self::Now { steep: true } => Some(CheckReason::SellsBelowAverage { sold, percent: STEEP / 100 }),
            Self::ByFeed { contested: true } => Some(CheckReason::FeedContested { sold }),
            Self::Wholly | Self::Now { steep: false } | Self::ByFeed { contested: false } => None,
        }
    }
}

/// Returns true if an outgoing token's feed is more than [`STEEP`] below its only other pool, which the feed outvoted.
/// Prices that cannot be compared count as such a case.
fn sells_below_a_pool(values: &ActionValues) -> bool {
    values.concerns.iter().any(|concern| match concern {
        PriceConcern::NoFeed { .. } => false,
        PriceConcern::Disputed { token, feed, pool } => {
            let goes = values.outflows.iter().any(|one| match one.token.id {
                // The native token has the price of its wrapping contract, whose address is not known here.
                TokenId::Native => true,
                TokenId::Erc20(id) => id == *token,
            });
            let least = BasisPoints::new(STEEP).ok().and_then(|steep| at_least(*pool, steep).ok());
            goes && least.is_none_or(|least| *feed < least)
        }
    })
}

/// Checks that the guaranteed output is at least input · (1 − `most`). `leaves` is true if the action is only an exit.
///
/// # Errors
/// The violation, if the loss is too large or a value is not known.
pub fn fair(values: &ActionValues, leaves: bool, most: BasisPoints) -> Result<FairExchange, Box<Violation>> {
    let read_error = |error: &dyn std::fmt::Display| {
        Box::new(Violation::new(
            RuleName::MaxLossBps,
            format_args!("at most {most} lost"),
            error.to_string(),
            "an amount whose value is known",
        ))
    };
    let by_all = values.exchange().map_err(|error| read_error(&error))?;
    let least = at_least(by_all.given, most).map_err(|error| read_error(&error))?;
    if by_all.received >= least {
        // A feed that outvotes the only other pool may itself be wrong. Far below that pool, the operator decides.
        let steep = leaves && sells_below_a_pool(values);
        return Ok(if steep { FairExchange::Now { steep } } else { FairExchange::Wholly });
    }
    let (exchange, least) = match values.present.filter(|_| leaves) {
        None => (by_all, least),
        Some(now) => {
            let least = at_least(now.given, most).map_err(|error| read_error(&error))?;
            if now.received >= least {
                let steep = BasisPoints::new(STEEP).ok().and_then(|steep| at_least(by_all.given, steep).ok());
                return Ok(FairExchange::Now { steep: steep.is_none_or(|least| by_all.received < least) });
            }
            // The feed and the traded pools agree, so no other pool may lock the position in.
            if let Some(by_feed) = values.by_feed
                && at_least(by_feed.given, most).is_ok_and(|least| by_feed.received >= least)
            {
                return Ok(FairExchange::ByFeed { contested: values.several_pools });
            }
            (now, least)
        }
    };
    // Without the quote there is no loss, so the quote promises too much.
    let gain = |unquoted: &ExchangeValue| at_least(unquoted.given, most).is_ok_and(|least| unquoted.received >= least);
    if let Some(unquoted) = values.unquoted.filter(gain) {
        return Err(Box::new(Violation::new(
            RuleName::QuoteAboveWitnesses,
            format_args!("a quote within {most} of the feeds and the other pools"),
            format_args!(
                "the quote returns at least {} for {}, which feeds and other pools do not explain",
                dollars_left(unquoted.received),
                dollars(unquoted.given),
            ),
            "the same when quote, feeds and pools agree",
        )));
    }
    Err(Box::new(
        Violation::new(
            RuleName::MaxLossBps,
            format_args!("at most {most} of {} lost", dollars(exchange.given)),
            format_args!("only {} guaranteed to come in", dollars_left(exchange.received)),
            format_args!("at least ${} guaranteed", grouped(&least.to_fixed(2, Rounding::Up))),
        )
        .with(RuleFigures::new(
            FigureUnit::Usd,
            least.to_fixed(2, Rounding::Up),
            exchange.received.to_fixed(2, Rounding::Down),
        )),
    ))
}

/// Returns `given · (1 − loss)`, rounded up.
///
/// # Errors
/// [`UsdError`](bardo_base::units::UsdError) if the result is out of range.
pub fn at_least(given: Usd, loss: BasisPoints) -> Result<Usd, bardo_base::units::UsdError> {
    // Four decimals, so that one unit is a basis point. Both fit the type's own bounds.
    let kept = 10_000u32.saturating_sub(loss.get());
    match TokenAmount::new(U256::from(kept), 4) {
        Ok(kept) => Usd::value_of(kept, given, Rounding::Up),
        Err(_) => Err(bardo_base::units::UsdError::OutOfRange),
    }
}

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod tests;
