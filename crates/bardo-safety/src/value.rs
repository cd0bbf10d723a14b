//! Dollar values of an action: outflows at the highest known price, inflows at the lowest. A value that is not known is
//! a [`UnknownValue`], never zero.
//!
//! Exchanges are also valued by the price sources that follow a fall: feeds, and the last half minute of pools. Exits
//! are checked against these (`checks::slippage`).
//!
//! Pure functions: `reader` gathers the prices.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use alloy::primitives::{Address, U256, U512};

use super::lending_calls;
use super::proposal::{AllowanceBound, AllowanceKind, Proposal, TradeFigures};
use super::signing_payload::SigningPayload;
use super::simulate::JudgeContext;
use super::vault_calls;
use super::wrapping::only_wraps;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::aave::call::LendingCall;

/// Bit length from which an allowance counts as unlimited: Permit2 never decreases such an allowance, and no token has
/// that many units.
const UNLIMITED_BITS: usize = 160;

/// Maximum length of one reason, in characters.
const MAX_REASON: usize = 300;

/// Dollar values of an action.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActionValues {
    /// Declared outflows, at the highest price; none for a wrapping of the native token, whose value stays.
    pub outflows: Vec<ValuedAmount>,
    /// Least declared inflows to the account itself, at the lowest price; none for a wrapping.
    pub inflows: Vec<ValuedAmount>,
    /// Values of the declared flows of an action that moves no value, such as a wrapping or a repayment, to be shown. They
    /// count nowhere, and are left out without a price.
    pub shown: Vec<ValuedAmount>,
    /// Amounts that the remaining allowances let others take, at the highest price. Amounts of signed orders are left
    /// out: each was counted with its order.
    pub takeable: Vec<ValuedAmount>,
    /// Amounts that open orders may still take through Permit2, by token, in raw units. A trade leaves them in place;
    /// each was counted with its order.
    pub promised: BTreeMap<TokenId, U256>,
    /// Worst gas cost: every transaction at its gas limit and the highest fee.
    pub gas: Usd,
    /// Worst gas cost in wei, of which `gas` is the value.
    pub gas_wei: U256,
    /// Spending that counts against limits: outflows, takeable amounts and gas.
    pub spent: Usd,
    /// Value of native tokens that a wrapping makes a token of: it is not spent, but from then on allowances of that
    /// token that were granted earlier can take it. Value of what a borrowing brings: it is not spent, but owed. Both need
    /// the consent that spending as much would need. Zero for any other action.
    pub exposed: Usd,
    /// Sum of all inflows.
    pub received: Usd,
    /// Exchange at the prices of sources that do not lag; `None` if one is missing.
    pub present: Option<ExchangeValue>,
    /// Exchange at the prices of feeds and the quote; `None` if a token has no feed.
    pub by_feed: Option<ExchangeValue>,
    /// Exchange at all prices except the quote's; `None` if a price is missing.
    pub unquoted: Option<ExchangeValue>,
    /// Price problems of the exchanged tokens that the operator must know.
    pub concerns: Vec<PriceConcern>,
    /// True if two or more pools price one of these tokens.
    pub several_pools: bool,
}

/// Price problem that the operator must decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceConcern {
    /// Only pools price the token, no feed.
    NoFeed {
        /// Contract of the token.
        token: Address,
    },
    /// The token's only pool is far from its feed, and does not count.
    Disputed {
        /// Contract of the token.
        token: Address,
        /// Price by the feed, in dollars.
        feed: Usd,
        /// Price by the pool, in dollars.
        pool: Usd,
    },
}

/// Dollars given and received by an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeValue {
    /// Outflow at the highest price.
    pub given: Usd,
    /// Least inflow at the lowest price.
    pub received: Usd,
}

impl ActionValues {
    /// Dollars of what leaves the wallet, without gas, at the highest price; `None` where nothing leaves.
    pub fn leaves(&self) -> Option<Usd> {
        let out = self.outflows.iter().filter(|valued| !valued.amount.is_zero());
        let sum = out.map(|valued| valued.usd).try_fold(Usd::ZERO, |sum, usd| sum.checked_add(usd).ok())?;
        (!sum.is_zero()).then_some(sum)
    }

    /// Dollars given and received: all outflows at the highest price, and the least inflow at the lowest.
    ///
    /// # Errors
    /// [`UnknownValue`] if the sum is out of range.
    pub fn exchange(&self) -> Result<ExchangeValue, UnknownValue> {
        Ok(ExchangeValue { given: sum(&self.outflows)?, received: self.received })
    }

    /// Returns the possible loss of a fair exit without gas: the outflow at the highest price less the least inflow at
    /// the lowest. It is the smaller loss of all sources and of those that do not lag, since one of them found the
    /// price fair.
    ///
    /// # Errors
    /// [`UnknownValue`] if the sum is out of range.
    pub fn exit_loss(&self) -> Result<Usd, UnknownValue> {
        let loss = |one: ExchangeValue| match one.received < one.given {
            true => one.given.checked_sub(one.received).map_err(UnknownValue::because),
            false => Ok(Usd::ZERO),
        };
        let by_all = loss(self.exchange()?)?;
        self.present.map_or(Ok(by_all), |present| Ok(loss(present)?.min(by_all)))
    }

    /// Returns true if only pools price `id`.
    pub fn is_unfed(&self, id: TokenId) -> bool {
        self.concerns.iter().any(|concern| match concern {
            // The native token is listed by its wrapping contract, whose address is not known here. Assume the stricter
            // case.
            PriceConcern::NoFeed { token } => id == TokenId::Native || id == TokenId::Erc20(*token),
            PriceConcern::Disputed { .. } => false,
        })
    }

    /// Adds the value that arrives on another chain.
    ///
    /// # Errors
    /// [`UnknownValue`] if the sum is out of range.
    pub fn arriving(mut self, arrival: Option<ValuedAmount>) -> Result<Self, UnknownValue> {
        if let Some(arrival) = arrival {
            self.received = self.received.checked_add(arrival.usd).map_err(UnknownValue::because)?;
            self.inflows.push(arrival);
            // A bridge is not an exit, so all price sources count.
            (self.present, self.by_feed, self.unquoted) = (None, None, None);
        }
        Ok(self)
    }
}

/// Amount of a token with its dollar value.
#[derive(Debug, Clone, PartialEq)]
pub struct ValuedAmount {
    /// Token that is valued.
    pub token: TokenInfo,
    /// Amount in raw units.
    pub amount: U256,
    /// Value in dollars.
    pub usd: Usd,
}

/// Reason why a value is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join("; "))]
pub struct UnknownValue {
    /// One sentence for each figure that is not known.
    pub reasons: Vec<SafeText>,
}

impl UnknownValue {
    /// Creates a doubt with one reason.
    pub fn because(reason: impl fmt::Display) -> Self {
        Self { reasons: vec![SafeText::clean(&reason.to_string(), MAX_REASON)] }
    }
}

/// Highest and lowest price of one whole token in dollars, by some price sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceBand {
    /// Price for outflows.
    pub highest: Usd,
    /// Price for inflows.
    pub lowest: Usd,
}

impl PriceBand {
    /// Creates the band of one or two prices.
    pub fn of(first: Usd, second: Option<Usd>) -> Self {
        let second = second.unwrap_or(first);
        Self { highest: first.max(second), lowest: first.min(second) }
    }
}

/// Prices of one token by its price sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceSpread {
    /// All sources: the feed, and the half-hour mean of pools, which lags behind a fall.
    pub all: PriceBand,
    /// Sources that do not lag: the feed, and the last half minute of the pools. `None` without a feed; the feed alone
    /// if a pool's recent price is missing or too far from it.
    pub present: Option<PriceBand>,
    /// Price by the feed alone; `None` without a feed.
    pub feed: Option<Usd>,
    /// Price of a single pool that is too far from the feed to count.
    pub outvoted: Option<Usd>,
    /// True if two or more pools are among the sources.
    pub several_pools: bool,
}

impl PriceSpread {
    /// Creates a spread without a feed and without current prices.
    pub fn lagging(all: PriceBand) -> Self {
        Self { all, present: None, feed: None, outvoted: None, several_pools: false }
    }

    /// Creates a spread from a feed alone.
    pub fn fed(feed: Usd) -> Self {
        let alone = PriceBand::of(feed, None);
        Self { all: alone, present: Some(alone), feed: Some(feed), outvoted: None, several_pools: false }
    }

    /// Returns the price that a holding counts at: the feed's, since a pool alone must not move the equity, or else the
    /// lowest.
    pub fn held(&self) -> Usd {
        self.feed.unwrap_or(self.all.lowest)
    }
}

/// Price sources of an exchange, in addition to the quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangePrices {
    All,
    Present,
    Feed,
}

impl ExchangePrices {
    fn of(self, spread: PriceSpread) -> Option<PriceBand> {
        match self {
            Self::All => Some(spread.all),
            Self::Present => spread.present,
            Self::Feed => spread.feed.map(|feed| PriceBand::of(feed, None)),
        }
    }
}

/// Prices of every queried token contract, or the reason why there is none. The native token is listed by its wrapping
/// contract.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceSpreads {
    /// Prices by token contract.
    pub of: BTreeMap<Address, Result<PriceSpread, SafeText>>,
    /// Contract that wraps the native token, if known.
    pub wrapped: Option<Address>,
}

impl PriceSpreads {
    /// Returns the prices of a token.
    ///
    /// # Errors
    /// [`UnknownValue`] with the reason if there is no price.
    pub fn get(&self, token: TokenId) -> Result<PriceSpread, UnknownValue> {
        let contract = match token {
            TokenId::Native => self.wrapped.ok_or_else(|| UnknownValue::because("the native token has no price"))?,
            TokenId::Erc20(address) => address,
        };
        match self.of.get(&contract) {
            Some(Ok(spread)) => Ok(*spread),
            Some(Err(reason)) => Err(UnknownValue { reasons: vec![reason.clone()] }),
            None => Err(UnknownValue::because(format_args!("no price was requested for {contract}"))),
        }
    }
}

/// Treatment of inflows and gas without a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpricedRule {
    /// Unknown value, as for any outflow.
    Doubt,
    /// Counts as zero. For revocations only: they give nothing for their inflows, and an allowance that stays can cost
    /// more than their gas, which the policy bounds in wei as well.
    Nothing,
}

/// Reasons why values are not known.
#[derive(Default)]
struct ValueDoubts(Vec<SafeText>);

impl ValueDoubts {
    /// Returns the amount if its value is known, and keeps the reasons otherwise.
    fn keep(&mut self, result: Result<ValuedAmount, UnknownValue>) -> Option<ValuedAmount> {
        match result {
            Ok(valued) => Some(valued),
            Err(doubt) => {
                // A token without a price leaves several figures unknown, for the same reason.
                for reason in doubt.reasons {
                    if !self.0.contains(&reason) {
                        self.0.push(reason);
                    }
                }
                None
            }
        }
    }
}

/// Returns the dollar values of `payload`. Token descriptions come from `tokens`, not from the proposal. `held` has the
/// account's balances, for unlimited allowances; `around` has the amounts that signed orders may take.
///
/// # Errors
/// [`UnknownValue`] with every figure that is not known.
pub fn values(
    payload: &SigningPayload,
    tokens: &BTreeMap<TokenId, TokenInfo>,
    spreads: &PriceSpreads,
    held: &BTreeMap<TokenId, U256>,
    around: &JudgeContext,
    incoming: UnpricedRule,
) -> Result<ActionValues, UnknownValue> {
    let proposal = payload.proposal();
    let pricing = Pricing { tokens, spreads, trade: proposal.trade.as_ref(), witnesses: ExchangePrices::All };
    let mut doubts = ValueDoubts::default();
    let mut keep = |result| doubts.keep(result);
    // A wrapping moves no value: what leaves comes back in another form. Only its gas is spent.
    let wrapping = only_wraps(proposal, spreads.wrapped);
    // Nor does a repayment: the debt falls by what is paid, which the simulation must show.
    let lends = lending_calls::plan_in(proposal, around);
    let moves_value = wrapping.is_none() && !matches!(lends, Some(LendingCall::Repay { .. }));
    let wrapped = wrapping.filter(|wrapping| wrapping.given == TokenId::Native);
    // Shares of a vault have no price. A deposit spends its token, and what the shares pay out is compared with that in the
    // token's own units; a withdrawal spends nothing.
    let share = vault_calls::share(proposal);
    let borrowed = match lends {
        Some(LendingCall::Borrow { asset, amount }) => Some((TokenId::Erc20(asset), amount)),
        Some(LendingCall::Supply { .. } | LendingCall::Withdraw { .. } | LendingCall::Repay { .. }) | None => None,
    };
    let exposes = wrapped.map(|wrapping| (wrapping.given, wrapping.amount)).or(borrowed);
    let exposed = match exposes.map(|(token, amount)| keep(pricing.outgoing(token, amount))) {
        Some(valued) => valued.map_or(Usd::ZERO, |valued| valued.usd),
        None => Usd::ZERO,
    };
    let outflows: Vec<ValuedAmount> = proposal
        .outflows
        .iter()
        .filter(|flow| moves_value && share != Some(flow.token.id))
        .filter_map(|flow| keep(pricing.outgoing(flow.token.id, flow.amount)))
        .collect();
    let inflows: Vec<ValuedAmount> = proposal
        .inflows
        .iter()
        .filter(|inflow| moves_value && inflow.recipient == proposal.account && share != Some(inflow.token.id))
        .filter_map(|inflow| match (pricing.incoming(inflow.token.id, inflow.at_least), incoming) {
            (Err(_), UnpricedRule::Nothing) => None,
            (valued, UnpricedRule::Doubt | UnpricedRule::Nothing) => keep(valued),
        })
        .collect();
    let paid = proposal.outflows.iter().map(|flow| pricing.outgoing(flow.token.id, flow.amount));
    let got = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account);
    let got = got.map(|inflow| pricing.incoming(inflow.token.id, inflow.at_least));
    let shown = paid.chain(got).filter(|_| !moves_value).filter_map(Result::ok).collect();
    let takeable: Vec<ValuedAmount> = proposal
        .allowances
        .iter()
        .filter_map(|bound| match counted_once(bound, proposal, held, around) {
            Ok(amount) if amount.is_zero() => None,
            Ok(amount) => keep(pricing.outgoing(bound.token.id, amount)),
            Err(doubt) => keep(Err(doubt)),
        })
        .collect();
    let gas = match (pricing.outgoing(TokenId::Native, payload.worst_gas()), incoming) {
        (Err(_), UnpricedRule::Nothing) => Some(Usd::ZERO),
        (valued, UnpricedRule::Doubt | UnpricedRule::Nothing) => keep(valued).map(|valued| valued.usd),
    };
    let sums = sum(&outflows).and_then(|out| Ok((out, sum(&takeable)?, sum(&inflows)?)));
    let (Some(gas), Ok((out, left, received))) = (gas, sums) else {
        if doubts.0.is_empty() {
            doubts.0.push(SafeText::clean("the sum of all values is too large", MAX_REASON));
        }
        return Err(UnknownValue { reasons: doubts.0 });
    };
    if !doubts.0.is_empty() {
        return Err(UnknownValue { reasons: doubts.0 });
    }
    let spent = out.checked_add(left).and_then(|spent| spent.checked_add(gas)).map_err(UnknownValue::because)?;
    // These are optional: nothing depends on them if a source has no price.
    let exchanged = |pricing: Pricing<'_>| exchanged(payload, &pricing).ok().filter(|_| moves_value);
    let present = exchanged(Pricing { witnesses: ExchangePrices::Present, ..pricing });
    let by_feed = exchanged(Pricing { witnesses: ExchangePrices::Feed, ..pricing });
    let unquoted = exchanged(Pricing { trade: None, ..pricing });
    let (concerns, several_pools) = concerns(payload, spreads);
    Ok(ActionValues {
        outflows,
        inflows,
        shown,
        takeable,
        promised: promised(proposal, around),
        gas,
        gas_wei: payload.worst_gas(),
        spent,
        exposed,
        received,
        present,
        by_feed,
        unquoted,
        concerns,
        several_pools,
    })
}

/// Returns what signed orders may take through the spenders of a trade's allowances, by token, in raw units.
fn promised(proposal: &Proposal, around: &JudgeContext) -> BTreeMap<TokenId, U256> {
    let of = |bound: &AllowanceBound| match bound.kind {
        AllowanceKind::Erc20 => (bound.token.id, around.promised_to(bound.token.id, bound.spender)),
        AllowanceKind::Permit2 { .. } => (bound.token.id, U256::ZERO),
    };
    let bounds = proposal.allowances.iter().filter(|_| proposal.is_trade());
    bounds.map(of).filter(|(_, raw)| !raw.is_zero()).collect()
}

/// Returns price problems of the exchanged tokens, and whether several pools price one of them.
fn concerns(payload: &SigningPayload, spreads: &PriceSpreads) -> (Vec<PriceConcern>, bool) {
    let proposal = payload.proposal();
    let own = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account);
    let given = proposal.outflows.iter().map(|flow| flow.token.id);
    let (mut concerns, mut several_pools) = (Vec::new(), false);
    let tokens: BTreeSet<TokenId> = given.chain(own.map(|inflow| inflow.token.id)).collect();
    let share = vault_calls::share(proposal);
    for id in tokens.into_iter().filter(|id| share != Some(*id)) {
        let Ok(spread) = spreads.get(id) else { continue };
        let contract = match id {
            TokenId::Native => spreads.wrapped,
            TokenId::Erc20(address) => Some(address),
        };
        let Some(token) = contract else { continue };
        several_pools |= spread.several_pools;
        match (spread.feed, spread.outvoted) {
            (None, _) => concerns.push(PriceConcern::NoFeed { token }),
            (Some(feed), Some(pool)) => concerns.push(PriceConcern::Disputed { token, feed, pool }),
            (Some(_), None) => {}
        }
    }
    (concerns, several_pools)
}

/// Returns the dollars that the account gives and receives, by these price sources.
fn exchanged(payload: &SigningPayload, pricing: &Pricing<'_>) -> Result<ExchangeValue, UnknownValue> {
    let proposal = payload.proposal();
    let given = proposal.outflows.iter().map(|flow| pricing.outgoing(flow.token.id, flow.amount));
    let own = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account);
    let received = own.map(|inflow| pricing.incoming(inflow.token.id, inflow.at_least));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let received = received.collect::<Result<Vec<_>, _>>()?;
    Ok(ExchangeValue { given: sum(&given)?, received: sum(&received)? })
}

/// Returns the amount that an allowance lets others take: its amount, or the current balance if it is unlimited. Later
/// deposits are not counted; the policy decides about unlimited allowances.
///
/// A trade leaves Permit2 the amounts that signed orders may still take. Each of them was counted when it was signed,
/// and stays reserved until the order ends. Of a trade's allowance only the excess over them counts; any other action's
/// allowance counts in full.
fn takeable(
    bound: &AllowanceBound,
    is_trade: bool,
    held: &BTreeMap<TokenId, U256>,
    around: &JudgeContext,
) -> Result<U256, UnknownValue> {
    if !is_unlimited(bound.at_most) {
        let counted = match bound.kind {
            AllowanceKind::Erc20 if is_trade => around.promised_to(bound.token.id, bound.spender),
            AllowanceKind::Erc20 | AllowanceKind::Permit2 { .. } => U256::ZERO,
        };
        return Ok(bound.at_most.saturating_sub(counted));
    }
    held.get(&bound.token.id)
        .copied()
        .ok_or_else(|| UnknownValue::because(format_args!("the balance of {} could not be read", bound.token.symbol)))
}

/// Returns the amount of an allowance that counts as spending, in raw units: [`takeable`], with the two allowances of
/// one approval through Permit2 counted once. Permit2 moves only what its own allowances permit, so of the token's
/// allowance to Permit2 only the excess over those counts. Both together count as the larger one.
fn counted_once(
    bound: &AllowanceBound,
    proposal: &Proposal,
    held: &BTreeMap<TokenId, U256>,
    around: &JudgeContext,
) -> Result<U256, UnknownValue> {
    let is_trade = proposal.is_trade();
    let amount = takeable(bound, is_trade, held, around)?;
    if bound.kind != AllowanceKind::Erc20 || around.permit2 != Some(bound.spender) {
        return Ok(amount);
    }
    let inside =
        |one: &&AllowanceBound| matches!(one.kind, AllowanceKind::Permit2 { .. }) && one.token.id == bound.token.id;
    let through = proposal.allowances.iter().filter(inside);
    let through = through
        .map(|one| takeable(one, is_trade, held, around))
        .try_fold(U256::ZERO, |sum, one| Ok::<_, UnknownValue>(sum.saturating_add(one?)))?;
    Ok(amount.saturating_sub(through))
}

/// Returns true if an allowance of this many raw units is unlimited in effect.
pub fn is_unlimited(amount: U256) -> bool {
    amount.bit_len() >= UNLIMITED_BITS
}

fn sum(values: &[ValuedAmount]) -> Result<Usd, UnknownValue> {
    values.iter().try_fold(Usd::ZERO, |sum, one| sum.checked_add(one.usd)).map_err(UnknownValue::because)
}

struct Pricing<'a> {
    tokens: &'a BTreeMap<TokenId, TokenInfo>,
    spreads: &'a PriceSpreads,
    trade: Option<&'a TradeFigures>,
    witnesses: ExchangePrices,
}

impl Pricing<'_> {
    /// Values an outflow at the highest of its own prices and the quote's.
    fn outgoing(&self, id: TokenId, amount: U256) -> Result<ValuedAmount, UnknownValue> {
        let token = self.token(id)?;
        let own = self.own(&token, amount, |band| band.highest, Rounding::Up)?;
        let by_quote = match self.trade.filter(|trade| trade.token_in.id == id && !amount.is_zero()) {
            Some(trade) => {
                let out = self.token(trade.token_out.id)?;
                // Proportional part of the trade's output for this amount.
                let share = scaled(trade.expected_out, amount, trade.amount_in, Rounding::Up)?;
                Some(self.own(&out, share, |band| band.highest, Rounding::Up)?)
            }
            None => None,
        };
        Ok(ValuedAmount { token, amount, usd: by_quote.map_or(own, |quoted| own.max(quoted)) })
    }

    /// Values an inflow at the lowest of its own prices and the quote's.
    fn incoming(&self, id: TokenId, amount: U256) -> Result<ValuedAmount, UnknownValue> {
        let token = self.token(id)?;
        let own = self.own(&token, amount, |band| band.lowest, Rounding::Down)?;
        let by_quote = match self.trade.filter(|trade| trade.token_out.id == id && !amount.is_zero()) {
            Some(trade) => {
                let paid = self.token(trade.token_in.id)?;
                let share = scaled(trade.amount_in, amount, trade.expected_out, Rounding::Down)?;
                Some(self.own(&paid, share, |band| band.lowest, Rounding::Down)?)
            }
            None => None,
        };
        Ok(ValuedAmount { token, amount, usd: by_quote.map_or(own, |quoted| own.min(quoted)) })
    }

    fn token(&self, id: TokenId) -> Result<TokenInfo, UnknownValue> {
        self.tokens.get(&id).cloned().ok_or_else(|| UnknownValue::because("a token could not be read on the chain"))
    }

    fn own(
        &self,
        token: &TokenInfo,
        amount: U256,
        side: fn(PriceBand) -> Usd,
        rounding: Rounding,
    ) -> Result<Usd, UnknownValue> {
        let amount = TokenAmount::new(amount, token.decimals).map_err(UnknownValue::because)?;
        // Zero units need no price.
        if amount.raw().is_zero() {
            return Ok(Usd::ZERO);
        }
        let band = self.witnesses.of(self.spreads.get(token.id)?);
        let band = band.ok_or_else(|| UnknownValue::because(format_args!("{} has no current price", token.symbol)))?;
        let price = side(band);
        Usd::value_of(amount, price, rounding)
            .map_err(|error| UnknownValue::because(format_args!("the value of {amount} {}: {error}", token.symbol)))
    }
}

/// Decimals of dollars that are divided.
const DOLLAR_DIGITS: u8 = 8;

/// Dollars of a part of an amount, at the price of the whole, rounded up. `None` if the whole is zero or the result is
/// out of range.
pub(crate) fn value_of_part(whole_usd: Usd, part: U256, whole: U256) -> Option<Usd> {
    if part.is_zero() {
        return Some(Usd::ZERO);
    }
    let usd = U256::from(whole_usd.scaled(DOLLAR_DIGITS, Rounding::Up)?);
    Usd::from_scaled(scaled(usd, part, whole, Rounding::Up).ok()?, DOLLAR_DIGITS).ok()
}

/// Computes `amount · part / whole`.
fn scaled(amount: U256, part: U256, whole: U256, rounding: Rounding) -> Result<U256, UnknownValue> {
    if whole.is_zero() {
        return Err(UnknownValue::because("the quote has an amount of zero"));
    }
    let (quotient, remainder) = (U512::from(amount) * U512::from(part)).div_rem(U512::from(whole));
    let round_up = rounding == Rounding::Up && !remainder.is_zero();
    let scaled = quotient + U512::from(u8::from(round_up));
    if scaled > U512::from(U256::MAX) {
        return Err(UnknownValue::because("the quote's amounts are out of proportion"));
    }
    Ok(U256::from(scaled))
}

#[cfg(test)]
mod tests;
