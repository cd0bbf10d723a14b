//! What an action costs and brings in dollars: what goes out at the highest, what comes in at the
//! lowest of the prices that can be told. A figure that cannot be told is a [`Doubt`], never zero.
//!
//! Beside that stands what an exchange is worth by the witnesses that follow a fall, feeds and the last half minute
//! of pools: what only leaves a position is held to these (`checks::slippage`).
//!
//! Pure: prices are gathered in `ground`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use alloy::primitives::{Address, U256, U512};

use super::framed::Framed;
use super::proposal::{AllowanceBound, AllowanceKind, Proposal, Trade};
use super::simulate::Surroundings;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::{Token, TokenId};

/// From here on an allowance is one without limit: Permit2 never counts it down, and no token has
/// that many units.
const UNLIMITED_BITS: usize = 160;

/// Characters kept of one reason.
const MAX_REASON: usize = 300;

/// What an action costs and brings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Values {
    /// Each declared outflow, at the highest price.
    pub outflows: Vec<Valued>,
    /// The least of each declared inflow to the account itself, at the lowest price.
    pub inflows: Vec<Valued>,
    /// What can still be taken afterwards by the allowances that are left, at the highest price; without what signed
    /// orders may take, which was counted with each of them.
    pub takeable: Vec<Valued>,
    /// What open orders may still take of each token through Permit2, which a trade leaves them. Raw units; counted with
    /// each of those orders.
    pub promised: BTreeMap<TokenId, U256>,
    /// Gas of every leg to its limit at the highest fee.
    pub gas: Usd,
    /// What counts as spent: outflows, takeable and gas.
    pub spent: Usd,
    /// All inflows together.
    pub received: Usd,
    /// What goes out and comes in by witnesses that do not lag; `None` where one of them is missing.
    pub present: Option<Exchange>,
    /// The same by feeds and the quote; `None` where a token has no feed.
    pub by_feed: Option<Exchange>,
    /// The same by every witness but the quote.
    pub unquoted: Option<Exchange>,
    /// What the operator must know about the prices of tokens that are given or come in.
    pub concerns: Vec<PriceConcern>,
    /// Whether two or more pools price one of these tokens.
    pub several_pools: bool,
}

/// A token whose price the operator must decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceConcern {
    /// It has no feed: only pools price it.
    NoFeed {
        /// The token's contract.
        token: Address,
    },
    /// Its only pool differs much from its feed, and is not counted.
    Disputed {
        /// The token's contract.
        token: Address,
        /// Dollars by the feed.
        feed: Usd,
        /// Dollars by the pool.
        pool: Usd,
    },
}

/// What is given for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// What goes out, at the highest price.
    pub given: Usd,
    /// The least that comes in, at the lowest.
    pub received: Usd,
}

impl Values {
    /// Dollars of what leaves the wallet, without gas, at the highest price; `None` where nothing leaves.
    pub fn leaves(&self) -> Option<Usd> {
        let out = self.outflows.iter().filter(|valued| !valued.amount.is_zero());
        let sum = out.map(|valued| valued.usd).try_fold(Usd::ZERO, |sum, usd| sum.checked_add(usd).ok())?;
        (!sum.is_zero()).then_some(sum)
    }

    /// What goes out for what must come in, by every witness.
    ///
    /// # Errors
    /// A [`Doubt`] where the sum is too large to be told.
    pub fn exchange(&self) -> Result<Exchange, Doubt> {
        Ok(Exchange { given: sum(&self.outflows)?, received: self.received })
    }

    /// What a fair exit may lose, before gas: what goes out at the highest price less the least that comes in at the
    /// lowest, by all witnesses or by those that do not lag, whichever is less. A fair price was found by one of them.
    ///
    /// # Errors
    /// A [`Doubt`] where the sum is too large to be told.
    pub fn exit_loss(&self) -> Result<Usd, Doubt> {
        let loss = |one: Exchange| match one.received < one.given {
            true => one.given.checked_sub(one.received).map_err(Doubt::because),
            false => Ok(Usd::ZERO),
        };
        let by_all = loss(self.exchange()?)?;
        self.present.map_or(Ok(by_all), |present| Ok(loss(present)?.min(by_all)))
    }

    /// Whether only pools price `id`.
    pub fn is_unfed(&self, id: TokenId) -> bool {
        self.concerns.iter().any(|concern| match concern {
            // The native coin stands under the contract that wraps it, which is not known here: the stricter reading.
            PriceConcern::NoFeed { token } => id == TokenId::Native || id == TokenId::Erc20(*token),
            PriceConcern::Disputed { .. } => false,
        })
    }

    /// With what comes in on another chain.
    ///
    /// # Errors
    /// A [`Doubt`] where the sum is too large to be told.
    pub fn arriving(mut self, arrival: Option<Valued>) -> Result<Self, Doubt> {
        if let Some(arrival) = arrival {
            self.received = self.received.checked_add(arrival.usd).map_err(Doubt::because)?;
            self.inflows.push(arrival);
            // What goes to another chain leaves no position: it is held to every witness.
            (self.present, self.by_feed, self.unquoted) = (None, None, None);
        }
        Ok(self)
    }
}

/// An amount and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Valued {
    /// Which token.
    pub token: Token,
    /// Raw units.
    pub amount: U256,
    /// Dollars.
    pub usd: Usd,
}

/// Why a value cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join("; "))]
pub struct Doubt {
    /// One sentence for each figure that could not be told.
    pub reasons: Vec<SafeText>,
}

impl Doubt {
    /// A doubt for one reason.
    pub fn because(reason: impl fmt::Display) -> Self {
        Self { reasons: vec![SafeText::clean(&reason.to_string(), MAX_REASON)] }
    }
}

/// The highest and the lowest dollars for one whole token that some witnesses name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// For what goes out.
    pub highest: Usd,
    /// For what comes in.
    pub lowest: Usd,
}

impl Band {
    /// Of one or two witnesses.
    pub fn of(first: Usd, second: Option<Usd>) -> Self {
        let second = second.unwrap_or(first);
        Self { highest: first.max(second), lowest: first.min(second) }
    }
}

/// What the witnesses of a token name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Of all: the feed, and the mean of half an hour, which lags behind a fall.
    pub all: Band,
    /// Of those that do not lag: the feed, and the last half minute of the pool that the mean is from. `None` without
    /// a feed; the feed alone where that pool has been too shallow since.
    pub present: Option<Band>,
    /// The feed alone; `None` without one.
    pub feed: Option<Usd>,
    /// A single pool that strays from the feed, so that it is not counted.
    pub outvoted: Option<Usd>,
    /// Whether two or more pools are among the witnesses.
    pub several_pools: bool,
}

impl Spread {
    /// Where nothing but these witnesses is known.
    pub fn lagging(all: Band) -> Self {
        Self { all, present: None, feed: None, outvoted: None, several_pools: false }
    }

    /// By a feed alone.
    pub fn fed(feed: Usd) -> Self {
        let alone = Band::of(feed, None);
        Self { all: alone, present: Some(alone), feed: Some(feed), outvoted: None, several_pools: false }
    }

    /// Dollars at which a holding counts: the feed where there is one, since a pool alone must not move equity.
    pub fn held(&self) -> Usd {
        self.feed.unwrap_or(self.all.lowest)
    }
}

/// The witnesses that price an exchange, beside the quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Witnesses {
    All,
    Present,
    Feed,
}

impl Witnesses {
    fn of(self, spread: Spread) -> Option<Band> {
        match self {
            Self::All => Some(spread.all),
            Self::Present => spread.present,
            Self::Feed => spread.feed.map(|feed| Band::of(feed, None)),
        }
    }
}

/// A spread for every contract that was asked about, or why there is none. The native coin stands
/// under the contract that wraps it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spreads {
    /// By token contract.
    pub of: BTreeMap<Address, Result<Spread, SafeText>>,
    /// The contract that wraps the native coin, where one is known.
    pub wrapped: Option<Address>,
}

impl Spreads {
    /// The spread of a token.
    ///
    /// # Errors
    /// A [`Doubt`] that says why there is no price.
    pub fn get(&self, token: TokenId) -> Result<Spread, Doubt> {
        let contract = match token {
            TokenId::Native => self.wrapped.ok_or_else(|| Doubt::because("the chain's coin has no price here"))?,
            TokenId::Erc20(address) => address,
        };
        match self.of.get(&contract) {
            Some(Ok(spread)) => Ok(*spread),
            Some(Err(reason)) => Err(Doubt { reasons: vec![reason.clone()] }),
            None => Err(Doubt::because(format_args!("no price was asked for {contract}"))),
        }
    }
}

/// What becomes of what comes in, and of gas, where there is no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpriced {
    /// A doubt, as for all that is given for something.
    Doubt,
    /// It counts for nothing: for what only takes back, where nothing is given for what comes in, and where an allowance that
    /// stays for want of a price can cost more than gas, which the policy bounds in wei as well.
    Nothing,
}

/// What `framed` costs and brings. Tokens are taken from `tokens`, not from the proposal; `held` is
/// what the account has of each, for allowances without a limit; `around` tells what signed orders may take.
///
/// # Errors
/// A [`Doubt`] with every figure that cannot be told.
pub fn values(
    framed: &Framed,
    tokens: &BTreeMap<TokenId, Token>,
    spreads: &Spreads,
    held: &BTreeMap<TokenId, U256>,
    around: &Surroundings,
    incoming: Unpriced,
) -> Result<Values, Doubt> {
    let proposal = framed.proposal();
    let pricing = Pricing { tokens, spreads, trade: proposal.trade.as_ref(), witnesses: Witnesses::All };
    let mut doubts: Vec<SafeText> = Vec::new();
    let mut keep = |result: Result<Valued, Doubt>| match result {
        Ok(valued) => Some(valued),
        Err(doubt) => {
            // One token without a price leaves several figures untold, for one and the same reason.
            for reason in doubt.reasons {
                if !doubts.contains(&reason) {
                    doubts.push(reason);
                }
            }
            None
        }
    };
    let outflows: Vec<Valued> =
        proposal.outflows.iter().filter_map(|flow| keep(pricing.outgoing(flow.token.id, flow.amount))).collect();
    let inflows: Vec<Valued> = proposal
        .inflows
        .iter()
        .filter(|inflow| inflow.recipient == proposal.account)
        .filter_map(|inflow| match (pricing.incoming(inflow.token.id, inflow.at_least), incoming) {
            (Err(_), Unpriced::Nothing) => None,
            (valued, Unpriced::Doubt | Unpriced::Nothing) => keep(valued),
        })
        .collect();
    let takeable: Vec<Valued> = proposal
        .allowances
        .iter()
        .filter_map(|bound| match counted_once(bound, proposal, held, around) {
            Ok(amount) if amount.is_zero() => None,
            Ok(amount) => keep(pricing.outgoing(bound.token.id, amount)),
            Err(doubt) => keep(Err(doubt)),
        })
        .collect();
    let gas = match (pricing.outgoing(TokenId::Native, framed.worst_gas()), incoming) {
        (Err(_), Unpriced::Nothing) => Some(Usd::ZERO),
        (valued, Unpriced::Doubt | Unpriced::Nothing) => keep(valued).map(|valued| valued.usd),
    };
    let sums = sum(&outflows).and_then(|out| Ok((out, sum(&takeable)?, sum(&inflows)?)));
    let (Some(gas), Ok((out, left, received))) = (gas, sums) else {
        if doubts.is_empty() {
            doubts.push(SafeText::clean("the sum of all values is too large to be told", MAX_REASON));
        }
        return Err(Doubt { reasons: doubts });
    };
    if !doubts.is_empty() {
        return Err(Doubt { reasons: doubts });
    }
    let spent = out.checked_add(left).and_then(|spent| spent.checked_add(gas)).map_err(Doubt::because)?;
    // Where these witnesses say nothing, nothing rests on them.
    let present = exchanged(framed, &Pricing { witnesses: Witnesses::Present, ..pricing }).ok();
    let by_feed = exchanged(framed, &Pricing { witnesses: Witnesses::Feed, ..pricing }).ok();
    let unquoted = exchanged(framed, &Pricing { trade: None, ..pricing }).ok();
    let (concerns, several_pools) = concerns(framed, spreads);
    let promised = |bound: &AllowanceBound| match bound.kind {
        AllowanceKind::Erc20 => (bound.token.id, around.promised_to(bound.token.id, bound.spender)),
        AllowanceKind::Permit2 { .. } => (bound.token.id, U256::ZERO),
    };
    let promised = proposal.allowances.iter().filter(|_| proposal.is_trade()).map(promised);
    Ok(Values {
        outflows,
        inflows,
        takeable,
        promised: promised.filter(|(_, raw)| !raw.is_zero()).collect(),
        gas,
        spent,
        received,
        present,
        by_feed,
        unquoted,
        concerns,
        several_pools,
    })
}

/// What the operator must know about the tokens that are given and come in, and whether several pools price one.
fn concerns(framed: &Framed, spreads: &Spreads) -> (Vec<PriceConcern>, bool) {
    let proposal = framed.proposal();
    let own = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account);
    let given = proposal.outflows.iter().map(|flow| flow.token.id);
    let (mut concerns, mut several_pools) = (Vec::new(), false);
    let tokens: BTreeSet<TokenId> = given.chain(own.map(|inflow| inflow.token.id)).collect();
    for id in tokens {
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

/// What the account gives for what it must get, by some witnesses.
fn exchanged(framed: &Framed, pricing: &Pricing<'_>) -> Result<Exchange, Doubt> {
    let proposal = framed.proposal();
    let given = proposal.outflows.iter().map(|flow| pricing.outgoing(flow.token.id, flow.amount));
    let own = proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account);
    let received = own.map(|inflow| pricing.incoming(inflow.token.id, inflow.at_least));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let received = received.collect::<Result<Vec<_>, _>>()?;
    Ok(Exchange { given: sum(&given)?, received: sum(&received)? })
}

/// How much an allowance lets somebody take: what it says, or, where it has no limit, all that is
/// held now. What comes later is not told by any figure; whether that may be is the policy's.
///
/// A trade leaves Permit2 what signed orders may still take. Each of them was counted when it was signed, and is held
/// until it has ended: of a trade's allowance only what goes beyond them counts. Whoever only allows is counted in full.
fn takeable(
    bound: &AllowanceBound,
    is_trade: bool,
    held: &BTreeMap<TokenId, U256>,
    around: &Surroundings,
) -> Result<U256, Doubt> {
    if !is_unlimited(bound.at_most) {
        let counted = match bound.kind {
            AllowanceKind::Erc20 if is_trade => around.promised_to(bound.token.id, bound.spender),
            AllowanceKind::Erc20 | AllowanceKind::Permit2 { .. } => U256::ZERO,
        };
        return Ok(bound.at_most.saturating_sub(counted));
    }
    held.get(&bound.token.id)
        .copied()
        .ok_or_else(|| Doubt::because(format_args!("the balance of {} could not be read", bound.token.symbol)))
}

/// Raw units of an allowance that count as spending: [`takeable`], with the two allowances of one approval through Permit2
/// counted once. Permit2 moves only what it lets others take, so of the token's allowance to Permit2 only the part beyond
/// those counts, and both together count as the larger of the two.
fn counted_once(
    bound: &AllowanceBound,
    proposal: &Proposal,
    held: &BTreeMap<TokenId, U256>,
    around: &Surroundings,
) -> Result<U256, Doubt> {
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
        .try_fold(U256::ZERO, |sum, one| Ok::<_, Doubt>(sum.saturating_add(one?)))?;
    Ok(amount.saturating_sub(through))
}

/// Whether an allowance of this many raw units has no limit in effect.
pub fn is_unlimited(amount: U256) -> bool {
    amount.bit_len() >= UNLIMITED_BITS
}

fn sum(values: &[Valued]) -> Result<Usd, Doubt> {
    values.iter().try_fold(Usd::ZERO, |sum, one| sum.checked_add(one.usd)).map_err(Doubt::because)
}

struct Pricing<'a> {
    tokens: &'a BTreeMap<TokenId, Token>,
    spreads: &'a Spreads,
    trade: Option<&'a Trade>,
    witnesses: Witnesses,
}

impl Pricing<'_> {
    /// At the highest of its own prices and of what the quote makes of it.
    fn outgoing(&self, id: TokenId, amount: U256) -> Result<Valued, Doubt> {
        let token = self.token(id)?;
        let own = self.own(&token, amount, |band| band.highest, Rounding::Up)?;
        let by_quote = match self.trade.filter(|trade| trade.token_in.id == id && !amount.is_zero()) {
            Some(trade) => {
                let out = self.token(trade.token_out.id)?;
                // The part of the trade that this amount is, or all of it where it is more.
                let share = scaled(trade.expected_out, amount, trade.amount_in, Rounding::Up)?;
                Some(self.own(&out, share, |band| band.highest, Rounding::Up)?)
            }
            None => None,
        };
        Ok(Valued { token, amount, usd: by_quote.map_or(own, |quoted| own.max(quoted)) })
    }

    /// At the lowest of its own prices and of what the quote makes of it.
    fn incoming(&self, id: TokenId, amount: U256) -> Result<Valued, Doubt> {
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
        Ok(Valued { token, amount, usd: by_quote.map_or(own, |quoted| own.min(quoted)) })
    }

    fn token(&self, id: TokenId) -> Result<Token, Doubt> {
        self.tokens.get(&id).cloned().ok_or_else(|| Doubt::because("a token could not be read on the chain"))
    }

    fn own(&self, token: &Token, amount: U256, side: fn(Band) -> Usd, rounding: Rounding) -> Result<Usd, Doubt> {
        let amount = TokenAmount::new(amount, token.decimals).map_err(Doubt::because)?;
        // Nothing is worth nothing at any price.
        if amount.raw().is_zero() {
            return Ok(Usd::ZERO);
        }
        let band = self.witnesses.of(self.spreads.get(token.id)?);
        let band = band.ok_or_else(|| Doubt::because(format_args!("{} has no price of just now", token.symbol)))?;
        let price = side(band);
        Usd::value_of(amount, price, rounding)
            .map_err(|error| Doubt::because(format_args!("the value of {amount} {}: {error}", token.symbol)))
    }
}

/// `amount · part / whole`.
fn scaled(amount: U256, part: U256, whole: U256, rounding: Rounding) -> Result<U256, Doubt> {
    if whole.is_zero() {
        return Err(Doubt::because("the quote has an amount of zero"));
    }
    let (quotient, remainder) = (U512::from(amount) * U512::from(part)).div_rem(U512::from(whole));
    let round_up = rounding == Rounding::Up && !remainder.is_zero();
    let scaled = quotient + U512::from(u8::from(round_up));
    if scaled > U512::from(U256::MAX) {
        return Err(Doubt::because("the quote's amounts are out of proportion"));
    }
    Ok(U256::from(scaled))
}

#[cfg(test)]
mod tests;
