//! Results by trade, day, token, strategy and Golem.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use serde::Serialize;

use crate::books::{Asset, BookError, Books, Leg, Lot, Posting, PostingKind, Shortage, TokenBook};
use crate::entry::{Entry, Token};
use crate::tables::PriceHistory;
use bardo_base::format;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, SignedUsd, TokenAmount, Usd};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Period of a report, in seconds since the Unix epoch: from the first up to, and without, the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// First second of the period.
    pub from: u64,
    /// Second after the last.
    pub to: u64,
}

impl Default for Period {
    fn default() -> Self {
        Self { from: 0, to: u64::MAX }
    }
}

/// Sums of any number of postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Number of trades; a bridge order counts when it arrives.
    pub trades: u64,
    /// Gains and losses realised, where cost and value are known. Without gas and fees.
    pub realised: SignedUsd,
    /// Value of the gas paid.
    pub gas: Usd,
    /// Cost of bridge orders: the value that left less the value that arrived.
    pub fees: Usd,
    /// Proceeds of amounts whose cost is unknown: in no other figure.
    pub uncosted_proceeds: Usd,
    /// Number of postings in which a price or a cost is missing.
    pub incomplete: u64,
}

impl Totals {
    /// Realised result after gas and fees.
    ///
    /// # Errors
    /// [`BookError`] if the figure is out of range.
    pub fn net(&self) -> Result<SignedUsd, BookError> {
        let costs = self.gas.checked_add(self.fees)?;
        Ok(self.realised.checked_sub(SignedUsd::gain(costs))?)
    }

    fn add(&mut self, posted: &Posted) -> Result<(), BookError> {
        let posting = &posted.posting;
        self.trades += u64::from(matches!(posting.kind, PostingKind::Trade | PostingKind::BridgeIn));
        self.incomplete += u64::from(posting.is_incomplete());
        self.fees = self.fees.checked_add(posted.fee.unwrap_or_default())?;
        posting.given.iter().try_for_each(|leg| self.add_leg(leg))?;
        if let Some(gas) = &posting.gas {
            self.add_leg(gas)?;
            self.gas = self.gas.checked_add(gas.value.unwrap_or_default())?;
        }
        Ok(())
    }

    fn add_leg(&mut self, leg: &Leg) -> Result<(), BookError> {
        self.realised = self.realised.checked_add(leg.realised)?;
        self.uncosted_proceeds = self.uncosted_proceeds.checked_add(leg.uncosted_value)?;
        Ok(())
    }
}

/// Entry with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// Entry that was posted.
    pub entry: Entry,
    /// Result of the entry.
    pub posting: Posting,
    /// Fee of a bridge order, known when it arrives.
    pub fee: Option<Usd>,
}

/// Holding of an asset by the books of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Asset that is held.
    pub asset: Asset,
    /// Amount in raw units.
    pub amount: U256,
    /// Cost of the part whose cost is known.
    pub cost: Usd,
    /// Part whose cost is unknown, in raw units.
    pub uncosted: U256,
    /// Value of the part with known cost, at the last witnessed price; `None` without one.
    pub value: Option<Usd>,
    /// `value − cost`; `None` without a price.
    pub unrealised: Option<SignedUsd>,
}

/// One day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// Midnight at which it begins, in seconds since the Unix epoch.
    pub begins: u64,
    /// Sums of the day.
    pub totals: Totals,
    /// Realised result after gas and fees since the period began, at the day's end.
    pub net_so_far: SignedUsd,
    /// Unrealised gain at the day's end, of the holdings for which a price of that day is known; `None` if there is no
    /// such holding.
    pub unrealised: Option<SignedUsd>,
}

/// Grouping of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// By action of Bardo's, or by entry where there is none.
    Trade,
    /// By day in UTC.
    Day,
    /// By chain and token.
    Token,
    /// By the tool that traded.
    Strategy,
    /// By the Golem that acted.
    Golem,
}

/// Sums of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Name of the group; empty for what no action of Bardo's did.
    pub name: String,
    /// Sums of the group.
    pub totals: Totals,
}

/// Profit and loss of a period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Entries of the period with their results, oldest first.
    pub posted: Vec<Posted>,
    /// Holdings at the end of the period.
    pub holdings: Vec<Holding>,
    /// Days with entries, oldest first.
    pub days: Vec<Day>,
    /// Sums of the period.
    pub totals: Totals,
    /// Descriptions of all tokens.
    pub tokens: TokenBook,
}

/// Posts all entries and sums those of `period`. Entries before it only build up the lots.
///
/// # Errors
/// [`BookError`] if a figure is out of range.
pub fn build(
    mut entries: Vec<Entry>,
    prices: &PriceHistory,
    tokens: TokenBook,
    period: Period,
    shortage: Shortage,
) -> Result<Report, BookError> {
    entries.sort_by_key(Entry::place);
    let mut books = Books::new(shortage);
    let mut report = Report::default();
    let mut departed: BTreeMap<CallId, Usd> = BTreeMap::new();
    let mut newest: u64 = 0;
    for entry in entries {
        if entry.at >= period.to {
            break;
        }
        let posting = books.post(&entry, prices, &tokens)?;
        let fee = bridge_fee(&entry, &posting, &mut departed)?;
        if entry.at < period.from {
            continue;
        }
        let begins = entry.at - entry.at % DAY;
        let posted = Posted { entry, posting, fee };
        report.totals.add(&posted)?;
        newest = posted.entry.at;
        if report.days.last().is_none_or(|day| day.begins != begins) {
            report.days.push(Day { begins, totals: Totals::default(), net_so_far: SignedUsd::ZERO, unrealised: None });
        }
        report.posted.push(posted);
        let net_so_far = report.totals.net()?;
        if let (Some(day), Some(posted)) = (report.days.last_mut(), report.posted.last()) {
            day.totals.add(posted)?;
            day.net_so_far = net_so_far;
            // Overwritten by the day's last entry.
            day.unrealised = unrealised(&books, prices, &tokens, begins.saturating_add(DAY - 1))?;
        }
    }
    let at = if period.to == u64::MAX { prices.newest().max(newest) } else { period.to.saturating_sub(1) };
    report.holdings = holdings(&books, prices, &tokens, at)?;
    report.tokens = tokens;
    Ok(report)
}

impl Report {
    /// Sums of each group, in the order of the groups' names; trades and days in the order of time.
    ///
    /// # Errors
    /// [`BookError`] if a figure is out of range.
    pub fn by(&self, grouping: Grouping) -> Result<Vec<Group>, BookError> {
        match grouping {
            Grouping::Day => {
                Ok(self.days.iter().map(|day| Group { name: day_name(day.begins), totals: day.totals }).collect())
            }
            Grouping::Token => self.by_token(),
            Grouping::Trade => self.by_trade(),
            Grouping::Strategy => self
                .sums(|posted| posted.entry.action.as_ref().map(|action| action.tool.to_string()).unwrap_or_default()),
            Grouping::Golem => self.sums(|posted| {
                posted.entry.action.as_ref().map(|action| action.golem_id.as_str().to_owned()).unwrap_or_default()
            }),
        }
    }

    /// Every token that has a result or is held, with the unrealised gain of all accounts' holdings; `None` if none has
    /// one.
    ///
    /// # Errors
    /// [`BookError`] if a figure is out of range.
    pub fn tokens_with_results(&self) -> Result<BTreeMap<(u64, Token), Option<SignedUsd>>, BookError> {
        let mut all: BTreeMap<(u64, Token), Option<SignedUsd>> = BTreeMap::new();
        for posted in &self.posted {
            let legs = posted.posting.given.iter().chain(&posted.posting.received).chain(&posted.posting.gas);
            for leg in legs {
                all.entry((leg.asset.chain_id, leg.asset.token)).or_default();
            }
        }
        for holding in &self.holdings {
            let known = all.entry((holding.asset.chain_id, holding.asset.token)).or_default();
            if let Some(more) = holding.unrealised {
                *known = Some(known.unwrap_or(SignedUsd::ZERO).checked_add(more)?);
            }
        }
        Ok(all)
    }

    /// Name of a token's group.
    pub fn token_name(symbol: &str, chain_id: u64) -> String {
        format!("{symbol} on chain {chain_id}")
    }

    /// Sum of the unrealised gains; `None` if no holding has one.
    ///
    /// # Errors
    /// [`BookError`] if the figure is out of range.
    pub fn unrealised(&self) -> Result<Option<SignedUsd>, BookError> {
        sum(self.holdings.iter().filter_map(|holding| holding.unrealised))
    }

    /// Symbol of a token, or its address. Of several tokens with one symbol on a chain, only a known stablecoin has it
    /// alone; the others carry their address, so that none is taken for another.
    pub fn symbol(&self, chain_id: u64, token: Token) -> String {
        match (self.tokens.get(&(chain_id, token)), token) {
            (Some(facts), Some(address)) if !facts.is_dollar && self.is_shared(chain_id, address, &facts.symbol) => {
                format!("{}-{address}", facts.symbol)
            }
            (Some(facts), _) => facts.symbol.to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => "native".to_owned(),
        }
    }

    /// Returns true if another token of the chain has this symbol, in any case.
    fn is_shared(&self, chain_id: u64, address: Address, symbol: &SafeText) -> bool {
        self.tokens.iter().any(|((chain, token), facts)| {
            *chain == chain_id && *token != Some(address) && facts.symbol.as_str().eq_ignore_ascii_case(symbol.as_str())
        })
    }

    /// Amount of a token in readable form: exact, or raw units if its decimals are not known.
    pub fn amount(&self, asset: &Asset, raw: U256) -> String {
        let facts = self.tokens.get(&(asset.chain_id, asset.token));
        let amount = facts.and_then(|facts| TokenAmount::new(raw, facts.decimals).ok());
        amount.map_or_else(|| raw.to_string(), |amount| amount.to_string())
    }

    fn sums(&self, name: impl Fn(&Posted) -> String) -> Result<Vec<Group>, BookError> {
        let mut groups: BTreeMap<String, Totals> = BTreeMap::new();
        for posted in &self.posted {
            groups.entry(name(posted)).or_default().add(posted)?;
        }
        Ok(groups.into_iter().map(|(name, totals)| Group { name, totals }).collect())
    }

    fn by_trade(&self) -> Result<Vec<Group>, BookError> {
        let name = |posted: &Posted| match (&posted.entry.action, posted.entry.tx) {
            (Some(action), _) => action.call_id.to_string(),
            (None, Some(tx)) => tx.to_string(),
            (None, None) => format!("block {} on chain {}", posted.entry.block.0, posted.entry.chain_id),
        };
        let mut groups: Vec<Group> = Vec::new();
        for posted in &self.posted {
            let name = name(posted);
            match groups.iter_mut().rev().find(|group| group.name == name) {
                Some(group) => group.totals.add(posted)?,
                None => {
                    let mut totals = Totals::default();
                    totals.add(posted)?;
                    groups.push(Group { name, totals });
                }
            }
        }
        Ok(groups)
    }

    /// Results of each token that was given; gas belongs to the native token, and a bridge's fee to the one it brought.
    fn by_token(&self) -> Result<Vec<Group>, BookError> {
        let mut groups: BTreeMap<(u64, Token), Totals> = BTreeMap::new();
        for Posted { entry, posting, fee } in &self.posted {
            let incomplete = u64::from(posting.is_incomplete());
            for leg in &posting.given {
                let totals = groups.entry((entry.chain_id, leg.asset.token)).or_default();
                totals.add_leg(leg)?;
                totals.trades += u64::from(posting.kind == PostingKind::Trade);
                totals.incomplete += incomplete;
            }
            for leg in &posting.received {
                let totals = groups.entry((entry.chain_id, leg.asset.token)).or_default();
                totals.fees = totals.fees.checked_add(fee.unwrap_or_default())?;
                totals.incomplete += if posting.given.is_empty() { incomplete } else { 0 };
            }
            if let Some(gas) = &posting.gas {
                let totals = groups.entry((entry.chain_id, None)).or_default();
                totals.add_leg(gas)?;
                totals.gas = totals.gas.checked_add(gas.value.unwrap_or_default())?;
            }
        }
        let named = |((chain_id, token), totals)| Group {
            name: Self::token_name(&self.symbol(chain_id, token), chain_id),
            totals,
        };
        Ok(groups.into_iter().map(named).collect())
    }
}

impl PriceHistory {
    /// Time of the newest price, in seconds since the Unix epoch; 0 without prices.
    pub fn newest(&self) -> u64 {
        self.times().max().unwrap_or_default()
    }
}

/// Name of a day, such as `2026-11-26`.
pub fn day_name(begins: u64) -> String {
    format::utc(begins.saturating_mul(1_000)).chars().take(10).collect()
}

fn bridge_fee(
    entry: &Entry,
    posting: &Posting,
    departed: &mut BTreeMap<CallId, Usd>,
) -> Result<Option<Usd>, BookError> {
    let Some(call) = entry.action.as_ref().map(|action| action.call_id) else { return Ok(None) };
    let value = |legs: &[Leg]| match legs {
        [leg] => leg.value,
        _ => None,
    };
    match posting.kind {
        PostingKind::BridgeOut => {
            departed.extend(value(&posting.given).map(|value| (call, value)));
            Ok(None)
        }
        PostingKind::BridgeIn => match (departed.remove(&call), value(&posting.received)) {
            (Some(left), Some(arrived)) if left > arrived => Ok(Some(left.checked_sub(arrived)?)),
            _ => Ok(None),
        },
        PostingKind::Opening
        | PostingKind::Trade
        | PostingKind::Sent
        | PostingKind::Received
        | PostingKind::Deposit
        | PostingKind::Withdrawal
        | PostingKind::Gas => Ok(None),
    }
}

fn sum(figures: impl Iterator<Item = SignedUsd>) -> Result<Option<SignedUsd>, BookError> {
    let mut all = None;
    for figure in figures {
        all = Some(all.unwrap_or(SignedUsd::ZERO).checked_add(figure)?);
    }
    Ok(all)
}

fn unrealised(
    books: &Books,
    prices: &PriceHistory,
    tokens: &TokenBook,
    at: u64,
) -> Result<Option<SignedUsd>, BookError> {
    sum(holdings(books, prices, tokens, at)?.into_iter().filter_map(|holding| holding.unrealised))
}

fn holdings(books: &Books, prices: &PriceHistory, tokens: &TokenBook, at: u64) -> Result<Vec<Holding>, BookError> {
    let mut all = Vec::new();
    for (asset, lots) in books.lots() {
        let sum = |lots: &mut dyn Iterator<Item = &Lot>| {
            lots.map(|lot| lot.amount).try_fold(U256::ZERO, U256::checked_add).ok_or(BookError::Amount)
        };
        let costed = sum(&mut lots.iter().filter(|lot| lot.cost.is_some()))?;
        let uncosted = sum(&mut lots.iter().filter(|lot| lot.cost.is_none()))?;
        let costs = lots.iter().filter_map(|lot| lot.cost);
        let cost = costs.into_iter().try_fold(Usd::ZERO, Usd::checked_add)?;
        let facts = tokens.get(&(asset.chain_id, asset.token));
        let price = prices.before(asset.chain_id, asset.token, at);
        let value = facts.zip(price).and_then(|(facts, price)| {
            Usd::value_of(TokenAmount::new(costed, facts.decimals).ok()?, price, Rounding::Down).ok()
        });
        let unrealised = value.map(|value| SignedUsd::difference(value, cost)).transpose()?;
        let amount = costed.checked_add(uncosted).ok_or(BookError::Amount)?;
        all.push(Holding { asset: *asset, amount, cost, uncosted, value, unrealised });
    }
    Ok(all)
}

/// Amount that an account should hold of one token by its entries, in raw units. The wrapped native token is counted
/// for itself here, as the chain does.
///
/// # Errors
/// [`BookError::Amount`] if more went out than came in, or a sum does not fit 256 bits.
pub fn balance(entries: &[Entry], chain_id: u64, account: Address, token: Token) -> Result<U256, BookError> {
    let (mut received, mut given) = (U256::ZERO, U256::ZERO);
    for entry in entries.iter().filter(|entry| entry.chain_id == chain_id && entry.account == account) {
        let flow = entry.flows.get(&token).copied().unwrap_or_default();
        received = received.checked_add(flow.received).ok_or(BookError::Amount)?;
        given = given.checked_add(flow.given).ok_or(BookError::Amount)?;
        if token.is_none() {
            given = given.checked_add(entry.gas).ok_or(BookError::Amount)?;
        }
    }
    received.checked_sub(given).ok_or(BookError::Amount)
}

#[cfg(test)]
mod tests;
