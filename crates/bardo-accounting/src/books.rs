//! Lots: what the account holds, at which cost, used first in, first out.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::{Address, U256};

use crate::entry::{Entry, Origin, Token, TokenFacts};
use crate::money::share;
use bardo_base::id::CallId;
use bardo_base::units::{Rounding, SignedUsd, TokenAmount, Usd, UsdError};

/// Prices that were witnessed, per whole token in dollars.
pub trait WitnessedPrices {
    /// Price of `token` at `at`, in seconds since the Unix epoch: the one that the action `call` was decided by, or one
    /// that was witnessed about that time. `None` if there is none; it is never estimated.
    fn at(&self, chain_id: u64, token: Token, at: u64, call: Option<CallId>) -> Option<Usd>;
}

/// Descriptions of the tokens in the books, by chain and token.
pub type TokenBook = BTreeMap<(u64, Token), TokenFacts>;

/// Asset of an account. The wrapped native token is the native one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that holds it.
    pub account: Address,
    /// Token, or `None` for the native one.
    pub token: Token,
}

/// Amount acquired at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lot {
    /// Time of the acquisition, in seconds since the Unix epoch.
    pub at: u64,
    /// Amount that is left, in raw units.
    pub amount: U256,
    /// Cost of that amount; `None` if unknown.
    pub cost: Option<Usd>,
}

/// Treatment of an outgoing amount that exceeds all lots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shortage {
    /// Its cost is unknown.
    #[default]
    UnknownCost,
    /// It was held before the books began, and counts as acquired at the price witnessed then. For paper ledgers, which
    /// start from whatever the account held.
    HeldBefore,
}

/// Kind of a posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PostingKind {
    /// Balance at the beginning of the books.
    Opening,
    /// Something was given, and something else received.
    Trade,
    /// A bridge order took tokens from the account.
    BridgeOut,
    /// A bridge order delivered tokens.
    BridgeIn,
    /// An own transaction sent tokens elsewhere.
    Sent,
    /// An own transaction brought tokens without giving any.
    Received,
    /// Tokens arrived without Bardo.
    Deposit,
    /// Tokens left without Bardo.
    Withdrawal,
    /// Nothing but gas was paid.
    Gas,
}

impl PostingKind {
    /// Name for screens.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Opening => "Opening balance",
            Self::Trade => "Trade",
            Self::BridgeOut => "Bridge, sent",
            Self::BridgeIn => "Bridge, arrived",
            Self::Sent => "Sent",
            Self::Received => "Received",
            Self::Deposit => "Deposit, not by Bardo",
            Self::Withdrawal => "Withdrawal, not by Bardo",
            Self::Gas => "Gas only",
        }
    }
}

/// One side of a posting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Asset that moved.
    pub asset: Asset,
    /// Amount in raw units.
    pub amount: U256,
    /// Dollars that it counts for; `None` if no price was witnessed.
    pub value: Option<Usd>,
    /// Known cost of what was given. For what was received, the cost of the new lot; `None` if unknown.
    pub cost: Option<Usd>,
    /// Part of a given amount whose cost is unknown.
    pub uncosted: U256,
    /// Realised gain of a given amount, as far as cost and value are known.
    pub realised: SignedUsd,
    /// Value of the part whose cost is unknown.
    pub uncosted_value: Usd,
}

/// Result of one entry in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// Kind of the posting.
    pub kind: PostingKind,
    /// Net amounts that left, without gas.
    pub given: Vec<Leg>,
    /// Net amounts that arrived.
    pub received: Vec<Leg>,
    /// Gas as a leg of its own; `None` if the account paid none.
    pub gas: Option<Leg>,
}

impl Posting {
    /// Realised gain of what was given, and of the tokens that paid for gas.
    ///
    /// # Errors
    /// [`BookError::Dollars`] if the sum is out of range.
    pub fn realised(&self) -> Result<SignedUsd, BookError> {
        let legs = self.given.iter().chain(&self.gas);
        legs.map(|leg| leg.realised).try_fold(SignedUsd::ZERO, |sum, one| Ok(sum.checked_add(one)?))
    }

    /// True if a price or a cost that the result needs is missing.
    pub fn is_incomplete(&self) -> bool {
        let realises = matches!(self.kind, PostingKind::Trade | PostingKind::BridgeOut);
        let given = self.given.iter().filter(|_| realises);
        given.chain(&self.gas).any(|leg| leg.value.is_none() || !leg.uncosted.is_zero())
            || self.received.iter().any(|leg| leg.value.is_none())
    }
}

/// Error of the books. Nothing was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// A dollar figure is out of range.
    #[error("the books cannot add up these dollars: {0}")]
    Dollars(#[from] UsdError),
    /// A sum of amounts does not fit 256 bits.
    #[error("the books cannot add up these amounts: they exceed 256 bits")]
    Amount,
}

/// Sums that account for every dollar of cost. With `opened`, `realised` and `uncosted_proceeds` on one side and the
/// other figures and the cost of the lots on the other, both sides are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostFlow {
    /// Cost of what came without a trade.
    pub opened: Usd,
    /// Gains and losses realised.
    pub realised: SignedUsd,
    /// Proceeds of amounts whose cost is unknown.
    pub uncosted_proceeds: Usd,
    /// Cost of what was transferred away.
    pub transferred: Usd,
    /// Value of what went into a bridge.
    pub bridged: Usd,
    /// Gas paid, at its value.
    pub gas: Usd,
    /// Cost that was lost sight of, because what came for it has no known value.
    pub untracked: Usd,
}

/// Books of any number of accounts.
#[derive(Debug, Clone, Default)]
pub struct Books {
    lots: BTreeMap<Asset, VecDeque<Lot>>,
    shortage: Shortage,
    flow: CostFlow,
}

/// Lots taken out of the books.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    costed: U256,
    cost: Usd,
    uncosted: U256,
}

impl Books {
    /// Creates empty books.
    pub fn new(shortage: Shortage) -> Self {
        Self { shortage, ..Self::default() }
    }

    /// Lots that are held, by asset.
    pub fn lots(&self) -> impl Iterator<Item = (&Asset, &VecDeque<Lot>)> {
        self.lots.iter().filter(|(_, lots)| !lots.is_empty())
    }

    /// Amount that the lots of an asset hold.
    ///
    /// # Errors
    /// [`BookError::Amount`] if the sum does not fit 256 bits.
    pub fn held(&self, asset: &Asset) -> Result<U256, BookError> {
        let lots = self.lots.get(asset).into_iter().flatten();
        lots.map(|lot| lot.amount).try_fold(U256::ZERO, U256::checked_add).ok_or(BookError::Amount)
    }

    /// Sums that account for every dollar of cost.
    pub fn flow(&self) -> CostFlow {
        self.flow
    }

    /// Posts an entry. Entries must come in the order of [`Entry::place`].
    ///
    /// # Errors
    /// [`BookError`] if a figure is out of range.
    pub fn post(
        &mut self,
        entry: &Entry,
        prices: &dyn WitnessedPrices,
        tokens: &TokenBook,
    ) -> Result<Posting, BookError> {
        let view = EntryView { entry, prices, tokens };
        let (given, received) = view.net()?;
        let gas = match entry.gas.is_zero() {
            true => None,
            false => Some(self.pay_gas(&view)?),
        };
        let kind = kind(entry.origin, given.is_empty(), received.is_empty());
        let (given, received) = match kind {
            PostingKind::Trade => self.trade(&view, &given, &received)?,
            PostingKind::BridgeOut => (self.sell(&view, &given, &own_values(&given))?, Vec::new()),
            PostingKind::Sent | PostingKind::Withdrawal => (self.transfer_out(&given)?, Vec::new()),
            PostingKind::Opening | PostingKind::BridgeIn | PostingKind::Received | PostingKind::Deposit => {
                (Vec::new(), self.open(&view, &received)?)
            }
            PostingKind::Gas => (Vec::new(), Vec::new()),
        };
        if kind == PostingKind::BridgeOut {
            for value in given.iter().filter_map(|leg| leg.value) {
                self.flow.bridged = self.flow.bridged.checked_add(value)?;
            }
        }
        Ok(Posting { kind, given, received, gas })
    }

    fn pay_gas(&mut self, view: &EntryView<'_>) -> Result<Leg, BookError> {
        let gas = view.side(None, view.entry.gas);
        let leg = self.sell_one(view, &gas, gas.value)?;
        if let Some(value) = leg.value {
            self.flow.gas = self.flow.gas.checked_add(value)?;
        }
        Ok(leg)
    }

    fn trade(
        &mut self,
        view: &EntryView<'_>,
        given: &[Side],
        received: &[Side],
    ) -> Result<(Vec<Leg>, Vec<Leg>), BookError> {
        let worth = view.trade_value(given, received)?;
        let (proceeds, costs) = (divided(worth, given)?, divided(worth, received)?);
        let sold = self.sell(view, given, &proceeds)?;
        let mut bought = Vec::new();
        for (side, cost) in received.iter().zip(costs.iter().copied()) {
            self.acquire(view.entry.at, side.asset, side.amount, cost);
            bought.push(Leg::received(side, cost));
        }
        // A value that only one side could be given: on the other it is without a counterpart.
        let known = |values: &[Option<Usd>]| values.iter().all(Option::is_some);
        if let Some(worth) = worth {
            match (known(&proceeds), known(&costs)) {
                (true, false) => self.flow.untracked = self.flow.untracked.checked_add(worth)?,
                (false, true) => self.flow.uncosted_proceeds = self.flow.uncosted_proceeds.checked_add(worth)?,
                (true, true) | (false, false) => {}
            }
        }
        Ok((sold, bought))
    }

    fn open(&mut self, view: &EntryView<'_>, received: &[Side]) -> Result<Vec<Leg>, BookError> {
        let mut legs = Vec::new();
        for side in received {
            self.acquire(view.entry.at, side.asset, side.amount, side.value);
            if let Some(value) = side.value {
                self.flow.opened = self.flow.opened.checked_add(value)?;
            }
            legs.push(Leg::received(side, side.value));
        }
        Ok(legs)
    }

    fn transfer_out(&mut self, given: &[Side]) -> Result<Vec<Leg>, BookError> {
        let mut legs = Vec::new();
        for side in given {
            let taken = self.take(side.asset, side.amount)?;
            self.flow.transferred = self.flow.transferred.checked_add(taken.cost)?;
            legs.push(Leg {
                asset: side.asset,
                amount: side.amount,
                value: side.value,
                cost: (!taken.costed.is_zero()).then_some(taken.cost),
                uncosted: taken.uncosted,
                realised: SignedUsd::ZERO,
                uncosted_value: Usd::ZERO,
            });
        }
        Ok(legs)
    }

    fn sell(&mut self, view: &EntryView<'_>, given: &[Side], proceeds: &[Option<Usd>]) -> Result<Vec<Leg>, BookError> {
        given.iter().zip(proceeds).map(|(side, proceeds)| self.sell_one(view, side, *proceeds)).collect()
    }

    fn sell_one(&mut self, view: &EntryView<'_>, side: &Side, proceeds: Option<Usd>) -> Result<Leg, BookError> {
        self.cover(view, side)?;
        let taken = self.take(side.asset, side.amount)?;
        let (realised, uncosted_value) = match proceeds {
            Some(proceeds) => {
                let of_costed = share(proceeds, taken.costed, side.amount)?;
                (SignedUsd::difference(of_costed, taken.cost)?, proceeds.checked_sub(of_costed)?)
            }
            None => {
                self.flow.untracked = self.flow.untracked.checked_add(taken.cost)?;
                (SignedUsd::ZERO, Usd::ZERO)
            }
        };
        self.flow.realised = self.flow.realised.checked_add(realised)?;
        self.flow.uncosted_proceeds = self.flow.uncosted_proceeds.checked_add(uncosted_value)?;
        Ok(Leg {
            asset: side.asset,
            amount: side.amount,
            value: proceeds,
            cost: (!taken.costed.is_zero()).then_some(taken.cost),
            uncosted: taken.uncosted,
            realised,
            uncosted_value,
        })
    }

    /// Adds what is missing for `side` as held before, if the books allow that.
    fn cover(&mut self, view: &EntryView<'_>, side: &Side) -> Result<(), BookError> {
        if self.shortage == Shortage::UnknownCost {
            return Ok(());
        }
        let missing = side.amount.saturating_sub(self.held(&side.asset)?);
        if missing.is_zero() {
            return Ok(());
        }
        let before = view.side(side.asset.token, missing);
        self.acquire(view.entry.at, side.asset, missing, before.value);
        if let Some(value) = before.value {
            self.flow.opened = self.flow.opened.checked_add(value)?;
        }
        Ok(())
    }

    fn acquire(&mut self, at: u64, asset: Asset, amount: U256, cost: Option<Usd>) {
        if !amount.is_zero() {
            self.lots.entry(asset).or_default().push_back(Lot { at, amount, cost });
        }
    }

    fn take(&mut self, asset: Asset, amount: U256) -> Result<Taken, BookError> {
        let lots = self.lots.entry(asset).or_default();
        let (mut left, mut taken) = (amount, Taken::default());
        while !left.is_zero() {
            let Some(first) = lots.front_mut() else { break };
            let part = left.min(first.amount);
            let cost = first.cost.map(|cost| share(cost, part, first.amount)).transpose()?;
            match cost {
                Some(cost) => {
                    taken.costed = taken.costed.checked_add(part).ok_or(BookError::Amount)?;
                    taken.cost = taken.cost.checked_add(cost)?;
                }
                None => taken.uncosted = taken.uncosted.checked_add(part).ok_or(BookError::Amount)?,
            }
            left = left.saturating_sub(part);
            first.amount = first.amount.saturating_sub(part);
            first.cost = match (first.cost, cost) {
                (Some(whole), Some(cost)) => Some(whole.checked_sub(cost)?),
                (known, _) => known,
            };
            if first.amount.is_zero() {
                lots.pop_front();
            }
        }
        taken.uncosted = taken.uncosted.checked_add(left).ok_or(BookError::Amount)?;
        Ok(taken)
    }
}

impl Leg {
    fn received(side: &Side, cost: Option<Usd>) -> Self {
        Self {
            asset: side.asset,
            amount: side.amount,
            value: cost,
            cost,
            uncosted: U256::ZERO,
            realised: SignedUsd::ZERO,
            uncosted_value: Usd::ZERO,
        }
    }
}

/// Net amount of an asset with its own value.
#[derive(Debug, Clone, Copy)]
struct Side {
    asset: Asset,
    amount: U256,
    value: Option<Usd>,
    is_dollar: bool,
}

struct EntryView<'a> {
    entry: &'a Entry,
    prices: &'a dyn WitnessedPrices,
    tokens: &'a TokenBook,
}

impl EntryView<'_> {
    fn facts(&self, token: Token) -> Option<&TokenFacts> {
        self.tokens.get(&(self.entry.chain_id, token))
    }

    fn side(&self, token: Token, amount: U256) -> Side {
        let Entry { chain_id, account, at, action, .. } = self.entry;
        let facts = self.facts(token);
        let call = action.as_ref().map(|action| action.call_id);
        let price = self.prices.at(*chain_id, token, *at, call);
        let value = facts.zip(price).and_then(|(facts, price)| {
            let amount = TokenAmount::new(amount, facts.decimals).ok()?;
            Usd::value_of(amount, price, Rounding::Down).ok()
        });
        Side {
            asset: Asset { chain_id: *chain_id, account: *account, token },
            amount,
            value,
            is_dollar: facts.is_some_and(|facts| facts.is_dollar),
        }
    }

    /// Net amounts given and received by asset; an asset that came and went in equal amounts is left out.
    fn net(&self) -> Result<(Vec<Side>, Vec<Side>), BookError> {
        let mut sums: BTreeMap<Token, (U256, U256)> = BTreeMap::new();
        for (token, flow) in &self.entry.flows {
            let wraps = self.facts(*token).is_some_and(|facts| facts.wraps_native);
            let (received, given) = sums.entry(if wraps { None } else { *token }).or_default();
            *received = received.checked_add(flow.received).ok_or(BookError::Amount)?;
            *given = given.checked_add(flow.given).ok_or(BookError::Amount)?;
        }
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for (token, (received, given)) in sums {
            if received > given {
                back.push(self.side(token, received.saturating_sub(given)));
            } else if given > received {
                out.push(self.side(token, given.saturating_sub(received)));
            }
        }
        Ok((out, back))
    }

    /// Value of a trade: of its dollar side, or of what was received, or of what was given.
    fn trade_value(&self, given: &[Side], received: &[Side]) -> Result<Option<Usd>, BookError> {
        let dollars = |sides: &[Side]| sides.iter().all(|side| side.is_dollar);
        let (first, second) = if dollars(given) && !dollars(received) { (given, received) } else { (received, given) };
        Ok(match total(first)? {
            Some(value) => Some(value),
            None => total(second)?,
        })
    }
}

fn kind(origin: Origin, nothing_given: bool, nothing_received: bool) -> PostingKind {
    match (origin, nothing_given, nothing_received) {
        (_, true, true) => PostingKind::Gas,
        (_, false, false) => PostingKind::Trade,
        (Origin::Bridge, false, true) => PostingKind::BridgeOut,
        (Origin::Bridge, true, false) => PostingKind::BridgeIn,
        (Origin::Opening, true, false) => PostingKind::Opening,
        (Origin::Transaction | Origin::Order, false, true) => PostingKind::Sent,
        (Origin::Transaction | Origin::Order, true, false) => PostingKind::Received,
        (Origin::Outside | Origin::Opening, false, true) => PostingKind::Withdrawal,
        (Origin::Outside, true, false) => PostingKind::Deposit,
    }
}

fn own_values(sides: &[Side]) -> Vec<Option<Usd>> {
    sides.iter().map(|side| side.value).collect()
}

/// Sum of the values; `None` if one is missing.
fn total(sides: &[Side]) -> Result<Option<Usd>, BookError> {
    let mut sum = Usd::ZERO;
    for side in sides {
        let Some(value) = side.value else { return Ok(None) };
        sum = sum.checked_add(value)?;
    }
    Ok(Some(sum))
}

/// Divides `worth` in proportion to the sides' own values; the last takes the remainder. `None` for all if several
/// sides share it and their values are not all known.
fn divided(worth: Option<Usd>, sides: &[Side]) -> Result<Vec<Option<Usd>>, BookError> {
    let none = vec![None; sides.len()];
    let Some(worth) = worth else { return Ok(none) };
    if sides.len() == 1 {
        return Ok(vec![Some(worth)]);
    }
    let Some(whole) = total(sides)?.filter(|whole| !whole.is_zero()) else { return Ok(none) };
    let scaled = |value: Usd| value.scaled(12, Rounding::Down).map(U256::from).ok_or(UsdError::OutOfRange);
    let mut parts = Vec::new();
    let mut left = worth;
    for (index, side) in sides.iter().enumerate() {
        let part = if index + 1 == sides.len() {
            left
        } else {
            share(worth, scaled(side.value.unwrap_or_default())?, scaled(whole)?)?
        };
        left = left.checked_sub(part)?;
        parts.push(Some(part));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
