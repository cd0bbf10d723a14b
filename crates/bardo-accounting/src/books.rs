//! Lots: what the account holds, at which cost, used first in, first out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use alloy_primitives::{Address, B256, U256};

use crate::entry::{Entry, Origin, Token, TokenFacts};
use crate::money::share;
use bardo_base::id::CallId;
use bardo_base::units::{Rounding, SignedUsd, TokenAmount, Usd, UsdError};

/// Prices that were witnessed, per whole token in dollars.
pub trait WitnessedPrices {
    /// Price of `token` at `at`, in seconds since the Unix epoch: one that was witnessed about that time, or else the one
    /// that the action `call` was decided by within a day of it. `None` if there is none; it is never estimated.
    fn at(&self, chain_id: u64, token: Token, at: u64, call: Option<CallId>) -> Option<Usd>;
}

/// Descriptions of the tokens in the books, by chain and token.
pub type TokenBook = BTreeMap<(u64, Token), TokenFacts>;

/// Asset of an account. The wrapped native token counts as the native token.
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
    /// A bridge order gave back what it had taken.
    BridgeRefund,
    /// Tokens moved to another account of these books, at their cost.
    OwnOut,
    /// Tokens came from another account of these books, at their cost.
    OwnIn,
    /// The chain has more or less than all known movements explain.
    Unexplained,
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
            Self::BridgeRefund => "Bridge, refunded",
            Self::OwnOut => "To an own account",
            Self::OwnIn => "From an own account",
            Self::Unexplained => "Unexplained difference",
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
    /// Proceeds that could be assigned to none of the amounts given, because their own values are not known.
    pub unassigned: Usd,
    /// Cost that can no longer be followed, because what was received for it has no known value.
    pub untracked: Usd,
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

    /// True if nothing moved and nothing was paid, as when a token joins the books with a balance of zero.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.received.is_empty() && self.gas.is_none()
    }

    /// True if a price or a cost that the result needs is missing.
    pub fn is_incomplete(&self) -> bool {
        let realises = matches!(self.kind, PostingKind::Trade | PostingKind::BridgeOut);
        let given = self.given.iter().filter(|_| realises);
        // What came from an own account has its cost from there, and needs no price.
        let moved = self.kind == PostingKind::OwnIn;
        given.chain(&self.gas).any(|leg| leg.value.is_none() || !leg.uncosted.is_zero())
            || self.received.iter().any(|leg| if moved { leg.cost.is_none() } else { leg.value.is_none() })
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
    /// Cost that can no longer be followed, because what came for it has no known value.
    pub untracked: Usd,
}

/// Most dollars that one amount can count for. Above it, a price or an amount is false, and the value is unknown: false
/// values must not make the sums of all others overflow.
const MOST_VALUE: u64 = 10_000_000_000;

/// Transfer of one token between two accounts of the books: chain, transaction and token.
type OwnTransfer = (u64, B256, Token);

/// Books of any number of accounts.
#[derive(Debug, Clone, Default)]
pub struct Books {
    lots: BTreeMap<Asset, VecDeque<Lot>>,
    held: BTreeMap<Asset, U256>,
    shortage: Shortage,
    flow: CostFlow,
    own_transfers: BTreeSet<(u64, B256)>,
    /// Lots on their way from one account to another.
    moving: BTreeMap<OwnTransfer, Vec<Lot>>,
    overflowed: BTreeSet<Asset>,
}

/// Lots taken out of the books.
#[derive(Debug, Clone, Default)]
struct Taken {
    costed: U256,
    cost: Usd,
    uncosted: U256,
    lots: Vec<Lot>,
}

impl Books {
    /// Creates empty books.
    pub fn new(shortage: Shortage) -> Self {
        Self { shortage, ..Self::default() }
    }

    /// Adds the transactions, by chain and hash, that only move tokens from one account of the books to another.
    pub fn with_own_transfers(mut self, transfers: BTreeSet<(u64, B256)>) -> Self {
        self.own_transfers = transfers;
        self
    }

    /// Assets that were left out, because their amounts exceed 256 bits.
    pub fn overflowed(&self) -> &BTreeSet<Asset> {
        &self.overflowed
    }

    /// Lots that are held, by asset.
    pub fn lots(&self) -> impl Iterator<Item = (&Asset, &VecDeque<Lot>)> {
        self.lots.iter().filter(|(_, lots)| !lots.is_empty())
    }

    /// Amount that the lots of an asset hold.
    pub fn held(&self, asset: &Asset) -> U256 {
        self.held.get(asset).copied().unwrap_or_default()
    }

    /// Sums that account for every dollar of cost.
    pub fn flow(&self) -> CostFlow {
        self.flow
    }

    /// Posts an entry. Entries must come in the order of [`Entry::place`]. A token whose amounts exceed 256 bits is left
    /// out from then on, so that it cannot hinder the others.
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
        let (given, received) = self.net(&view);
        let gas = match entry.gas.is_zero() {
            true => None,
            false => Some(self.pay_gas(&view)?),
        };
        let own = entry.tx.map(|tx| (entry.chain_id, tx)).filter(|known| self.own_transfers.contains(known));
        let kind = kind(entry.origin, given.is_empty(), received.is_empty(), own.is_some());
        let (mut unassigned, mut untracked) = (Usd::ZERO, Usd::ZERO);
        let (given, received) = match kind {
            PostingKind::Trade => {
                let trade = self.trade(&view, &given, &received)?;
                (unassigned, untracked) = (trade.unassigned, trade.untracked);
                (trade.sold, trade.bought)
            }
            PostingKind::BridgeOut => (self.sell(&view, &given, &own_values(&given))?, Vec::new()),
            PostingKind::Unexplained => (self.transfer_out(&given, None)?, self.open(&view, &received, None)?),
            PostingKind::Sent | PostingKind::Withdrawal | PostingKind::OwnOut => {
                (self.transfer_out(&given, own)?, Vec::new())
            }
            PostingKind::Opening
            | PostingKind::BridgeIn
            | PostingKind::BridgeRefund
            | PostingKind::Received
            | PostingKind::Deposit
            | PostingKind::OwnIn => (Vec::new(), self.open(&view, &received, own)?),
            PostingKind::Gas => (Vec::new(), Vec::new()),
        };
        if kind == PostingKind::BridgeOut {
            for value in given.iter().filter_map(|leg| leg.value) {
                self.flow.bridged = self.flow.bridged.checked_add(value)?;
            }
        }
        Ok(Posting { kind, given, received, gas, unassigned, untracked })
    }

    /// Net amounts given and received by asset; an asset that came and went in equal amounts is left out.
    fn net(&mut self, view: &EntryView<'_>) -> (Vec<Side>, Vec<Side>) {
        let mut sums: BTreeMap<Token, Option<(U256, U256)>> = BTreeMap::new();
        for (token, flow) in &view.entry.flows {
            let wraps = view.facts(*token).is_some_and(|facts| facts.wraps_native);
            let sum = sums.entry(if wraps { None } else { *token }).or_insert(Some((U256::ZERO, U256::ZERO)));
            *sum = sum.and_then(|(received, given)| {
                Some((received.checked_add(flow.received)?, given.checked_add(flow.given)?))
            });
        }
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for (token, sum) in sums {
            let asset = view.asset(token);
            if self.overflowed.contains(&asset) {
                continue;
            }
            let fits = |(received, given): (U256, U256)| {
                self.held(&asset).checked_add(received.saturating_sub(given)).map(|_| (received, given))
            };
            let Some((received, given)) = sum.and_then(fits) else {
                self.lots.remove(&asset);
                self.held.remove(&asset);
                self.overflowed.insert(asset);
                continue;
            };
            if received > given {
                back.push(view.side(token, received.saturating_sub(given)));
            } else if given > received {
                out.push(view.side(token, given.saturating_sub(received)));
            }
        }
        (out, back)
    }

    fn pay_gas(&mut self, view: &EntryView<'_>) -> Result<Leg, BookError> {
        let gas = view.side(None, view.entry.gas);
        let leg = self.sell_one(view, &gas, gas.value)?;
        if let Some(value) = leg.value {
            self.flow.gas = self.flow.gas.checked_add(value)?;
        }
        Ok(leg)
    }

    fn trade(&mut self, view: &EntryView<'_>, given: &[Side], received: &[Side]) -> Result<Trade, BookError> {
        let worth = view.trade_value(given, received)?;
        let (proceeds, costs) = (divided(worth, given)?, divided(worth, received)?);
        let sold = self.sell(view, given, &proceeds)?;
        let mut bought = Vec::new();
        for (side, cost) in received.iter().zip(costs.iter().copied()) {
            self.acquire(view.entry.at, side.asset, side.amount, cost);
            bought.push(Leg::received(side, cost));
        }
        // What only one side could be given is without a counterpart on the other.
        let known =
            |values: &[Option<Usd>]| values.iter().flatten().try_fold(Usd::ZERO, |sum, one| sum.checked_add(*one));
        let (proceeds, costs) = (known(&proceeds)?, known(&costs)?);
        let unassigned = costs.checked_sub(proceeds.min(costs))?;
        self.flow.uncosted_proceeds = self.flow.uncosted_proceeds.checked_add(unassigned)?;
        let lost = proceeds.checked_sub(costs.min(proceeds))?;
        self.flow.untracked = self.flow.untracked.checked_add(lost)?;
        // The cost of what was given without proceeds is lost sight of as well.
        let unsold = sold.iter().filter(|leg| leg.value.is_none()).filter_map(|leg| leg.cost);
        let untracked = unsold.into_iter().try_fold(lost, Usd::checked_add)?;
        Ok(Trade { sold, bought, unassigned, untracked })
    }

    /// Opens lots for what came without a trade: at its own value, or, of an own transfer, with the lots that left the
    /// other account.
    fn open(
        &mut self,
        view: &EntryView<'_>,
        received: &[Side],
        own: Option<(u64, B256)>,
    ) -> Result<Vec<Leg>, BookError> {
        let mut legs = Vec::new();
        for side in received {
            let moved = own.and_then(|(chain_id, tx)| self.moving.remove(&(chain_id, tx, side.asset.token)));
            if let Some(lots) = moved {
                legs.push(self.arrive(side, lots)?);
                continue;
            }
            self.acquire(view.entry.at, side.asset, side.amount, side.value);
            if let Some(value) = side.value {
                self.flow.opened = self.flow.opened.checked_add(value)?;
            }
            legs.push(Leg::received(side, side.value));
        }
        Ok(legs)
    }

    /// Adds lots that left another account, with their times and costs.
    fn arrive(&mut self, side: &Side, lots: Vec<Lot>) -> Result<Leg, BookError> {
        let mut cost = Usd::ZERO;
        let mut costed = U256::ZERO;
        for lot in lots {
            if let Some(of_lot) = lot.cost {
                cost = cost.checked_add(of_lot)?;
                costed = costed.checked_add(lot.amount).ok_or(BookError::Amount)?;
            }
            self.acquire(lot.at, side.asset, lot.amount, lot.cost);
        }
        self.flow.transferred = self.flow.transferred.checked_sub(cost)?;
        let cost = (costed == side.amount).then_some(cost);
        Ok(Leg { value: side.value, ..Leg::received(side, cost) })
    }

    fn transfer_out(&mut self, given: &[Side], own: Option<(u64, B256)>) -> Result<Vec<Leg>, BookError> {
        let mut legs = Vec::new();
        for side in given {
            let taken = self.take(side.asset, side.amount)?;
            self.flow.transferred = self.flow.transferred.checked_add(taken.cost)?;
            if let Some((chain_id, tx)) = own {
                self.moving.insert((chain_id, tx, side.asset.token), taken.lots);
            }
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
        let missing = side.amount.saturating_sub(self.held(&side.asset));
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
            let held = self.held.entry(asset).or_default();
            *held = held.saturating_add(amount);
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
            taken.lots.push(Lot { at: first.at, amount: part, cost });
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
        let held = self.held.entry(asset).or_default();
        *held = held.saturating_sub(amount.saturating_sub(left));
        if !left.is_zero() {
            taken.lots.push(Lot { at: 0, amount: left, cost: None });
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

/// Sides of a trade, and what could not be assigned to one of them.
struct Trade {
    sold: Vec<Leg>,
    bought: Vec<Leg>,
    unassigned: Usd,
    untracked: Usd,
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

    fn asset(&self, token: Token) -> Asset {
        Asset { chain_id: self.entry.chain_id, account: self.entry.account, token }
    }

    fn side(&self, token: Token, amount: U256) -> Side {
        let Entry { chain_id, at, action, .. } = self.entry;
        let facts = self.facts(token);
        let call = action.as_ref().map(|action| action.call_id);
        let price = self.prices.at(*chain_id, token, *at, call);
        let value = facts.zip(price).and_then(|(facts, price)| {
            let amount = TokenAmount::new(amount, facts.decimals).ok()?;
            bounded(Usd::value_of(amount, price, Rounding::Down).ok()?)
        });
        Side { asset: self.asset(token), amount, value, is_dollar: facts.is_some_and(|facts| facts.is_dollar) }
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

/// The value, unless it is impossibly large.
pub(crate) fn bounded(value: Usd) -> Option<Usd> {
    let most = Usd::from_scaled(U256::from(MOST_VALUE), 0).ok()?;
    (value <= most).then_some(value)
}

fn kind(origin: Origin, nothing_given: bool, nothing_received: bool, own: bool) -> PostingKind {
    match (origin, nothing_given, nothing_received) {
        (Origin::Opening, true, true) => PostingKind::Opening,
        (_, true, true) => PostingKind::Gas,
        (Origin::Unexplained, _, _) => PostingKind::Unexplained,
        (_, false, true) if own => PostingKind::OwnOut,
        (_, true, false) if own => PostingKind::OwnIn,
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

/// Divides `worth` in proportion to the sides' own values; the last takes the remainder. If not all of these are known,
/// dollars keep their own value, and a single other side takes the rest; several others have none.
fn divided(worth: Option<Usd>, sides: &[Side]) -> Result<Vec<Option<Usd>>, BookError> {
    let none = vec![None; sides.len()];
    let Some(worth) = worth else { return Ok(none) };
    if sides.len() == 1 {
        return Ok(vec![Some(worth)]);
    }
    let Some(whole) = total(sides)?.filter(|whole| !whole.is_zero()) else {
        let dollars = sides.iter().filter(|side| side.is_dollar).filter_map(|side| side.value);
        let dollars = dollars.into_iter().try_fold(Usd::ZERO, Usd::checked_add)?;
        let alone = sides.iter().filter(|side| !side.is_dollar || side.value.is_none()).count() == 1;
        if dollars > worth {
            return Ok(none);
        }
        let rest = alone.then_some(worth.checked_sub(dollars)?);
        return Ok(sides.iter().map(|side| side.value.filter(|_| side.is_dollar).or(rest)).collect());
    };
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
