//! Results by trade, day, token, strategy and Golem.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, U256};
use serde::Serialize;

use crate::books::{Asset, BookError, Books, Leg, Lot, Posting, PostingKind, Shortage, TokenBook, bounded};
use crate::entry::{Entry, Flow, Token};
use crate::tables::PriceHistory;
use bardo_base::chains::display_name;
use bardo_base::display::tool_word;
use bardo_base::format;
use bardo_base::id::CallId;
use bardo_base::units::{Rounding, SignedUsd, TokenAmount, Usd};

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Most days without entries that are listed between two with entries.
const MOST_DAYS_BETWEEN: u64 = 4_000;

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

/// Part of the books that a report covers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Period of the report.
    pub period: Period,
    /// Account of the report; `None` for all accounts.
    pub account: Option<Address>,
    /// EIP-155 ids of the chains whose money is of one kind; `None` for all chains.
    pub chains: Option<BTreeSet<u64>>,
}

impl From<Period> for Selection {
    fn from(period: Period) -> Self {
        Self { period, ..Self::default() }
    }
}

impl Selection {
    fn has_chain(&self, entry: &Entry) -> bool {
        self.chains.as_ref().is_none_or(|chains| chains.contains(&entry.chain_id))
    }

    fn has_account(&self, account: Address) -> bool {
        self.account.is_none_or(|own| own == account)
    }
}

/// Sums of any number of postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Number of trades; a bridge order counts when it arrives, and not if it is refunded.
    pub trades: u64,
    /// Gains and losses realised, where cost and value are known. Without gas and fees.
    pub realised: SignedUsd,
    /// Value of the gas paid.
    pub gas: Usd,
    /// Number of payments of gas whose price is not known: they are not in `gas`.
    pub unpriced_gas: u64,
    /// Cost of bridge orders: the value that left less the value that arrived. A gain if prices made it so.
    pub fees: SignedUsd,
    /// Proceeds of amounts whose cost is unknown: in no other figure.
    pub uncosted_proceeds: Usd,
    /// Cost that was lost sight of, because what came for it has no known value: in no other figure.
    pub untracked: Usd,
    /// Number of postings in which a price or a cost is missing.
    pub incomplete: u64,
}

impl Totals {
    /// Realised result after gas and fees.
    ///
    /// # Errors
    /// [`BookError`] if the figure is out of range.
    pub fn net(&self) -> Result<SignedUsd, BookError> {
        Ok(self.realised.checked_sub(SignedUsd::gain(self.gas))?.checked_sub(self.fees)?)
    }

    fn add(&mut self, posted: &Posted) -> Result<(), BookError> {
        self.add_whole(posted)?;
        posted.posting.given.iter().try_for_each(|leg| self.add_leg(leg))?;
        match &posted.posting.gas {
            Some(gas) => self.add_gas(gas),
            None => Ok(()),
        }
    }

    /// Adds what belongs to a posting as a whole, and to none of its legs.
    fn add_whole(&mut self, posted: &Posted) -> Result<(), BookError> {
        let posting = &posted.posting;
        self.trades += u64::from(matches!(posting.kind, PostingKind::Trade | PostingKind::BridgeIn));
        self.incomplete += u64::from(posting.is_incomplete());
        self.fees = self.fees.checked_add(posted.fee.unwrap_or_default())?;
        self.uncosted_proceeds = self.uncosted_proceeds.checked_add(posting.unassigned)?;
        self.untracked = self.untracked.checked_add(posting.untracked)?;
        Ok(())
    }

    fn add_gas(&mut self, gas: &Leg) -> Result<(), BookError> {
        self.add_leg(gas)?;
        self.gas = self.gas.checked_add(gas.value.unwrap_or_default())?;
        self.unpriced_gas += u64::from(gas.value.is_none());
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
    /// Fee of a bridge order, known when it arrives: the value that left less the value that arrived.
    pub fee: Option<SignedUsd>,
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
    /// Unrealised gain at the day's end; `None` if the price of a holding with a cost is not known.
    pub unrealised: Option<SignedUsd>,
    /// Number of entries of the day. A day without any is listed if its unrealised gain is known.
    pub entries: u64,
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
    /// Days with entries, and those between and after them whose unrealised gain is known; oldest first.
    pub days: Vec<Day>,
    /// Sums of the period.
    pub totals: Totals,
    /// Descriptions of all tokens.
    pub tokens: TokenBook,
    /// Number of entries that belong to another account, or to a chain with another kind of money.
    pub elsewhere: u64,
    /// Assets that are left out, because their amounts exceed 256 bits.
    pub overflowed: Vec<Asset>,
}

/// Posts all entries and sums those of `selection`. Entries before its period only build up the lots, and so do those of
/// other accounts, from which lots may come.
///
/// # Errors
/// [`BookError`] if a figure is out of range.
pub fn build(
    mut entries: Vec<Entry>,
    prices: &PriceHistory,
    tokens: TokenBook,
    selection: impl Into<Selection>,
    shortage: Shortage,
) -> Result<Report, BookError> {
    let selection = selection.into();
    let period = selection.period;
    entries.sort_by_key(Entry::place);
    let all = entries.len();
    entries.retain(|entry| selection.has_chain(entry));
    let mut report = Report { elsewhere: u64::try_from(all - entries.len()).unwrap_or(u64::MAX), ..Report::default() };
    let books = Books::new(shortage).with_own_transfers(own_transfers(&entries));
    let mut days = DayKeeper { books, prices, tokens: &tokens, account: selection.account };
    let mut departed: BTreeMap<CallId, Departure> = BTreeMap::new();
    let mut newest: u64 = 0;
    for entry in entries {
        if entry.at >= period.to {
            break;
        }
        let own = selection.has_account(entry.account);
        let counts = own && entry.at >= period.from;
        report.elsewhere += u64::from(!own);
        if counts {
            days.begin(&mut report, entry.at)?;
        }
        let mut posting = days.books.post(&entry, prices, &tokens)?;
        let fee = bridge_fee(&entry, &mut posting, &mut departed)?;
        if !counts || posting.is_empty() {
            continue;
        }
        newest = entry.at;
        let posted = Posted { entry, posting, fee };
        report.totals.add(&posted)?;
        let net_so_far = report.totals.net()?;
        if let Some(day) = report.days.last_mut() {
            day.totals.add(&posted)?;
            day.net_so_far = net_so_far;
            day.entries += 1;
        }
        report.posted.push(posted);
    }
    let at = if period.to == u64::MAX { prices.newest().max(newest) } else { period.to.saturating_sub(1) };
    days.finish(&mut report, at)?;
    report.holdings = days.holdings(at)?;
    report.overflowed =
        days.books.overflowed().iter().copied().filter(|asset| selection.has_account(asset.account)).collect();
    report.days.retain(|day| day.entries > 0 || day.unrealised.is_some());
    report.tokens = tokens;
    Ok(report)
}

/// Books, and the days of a report whose unrealised gain they give.
struct DayKeeper<'a> {
    books: Books,
    prices: &'a PriceHistory,
    tokens: &'a TokenBook,
    account: Option<Address>,
}

impl DayKeeper<'_> {
    /// Closes the days before the one of `at`, and begins that.
    fn begin(&self, report: &mut Report, at: u64) -> Result<(), BookError> {
        let begins = at - at % DAY;
        if report.days.last().is_some_and(|day| day.begins == begins) {
            return Ok(());
        }
        self.close(report, begins)?;
        let net_so_far = report.totals.net()?;
        report.days.push(Day { begins, totals: Totals::default(), net_so_far, unrealised: None, entries: 0 });
        Ok(())
    }

    /// Closes all days up to the one of `at`.
    fn finish(&self, report: &mut Report, at: u64) -> Result<(), BookError> {
        if !report.days.is_empty() {
            self.begin(report, at)?;
        }
        self.value(report, at)
    }

    /// Values the last day at its end, and adds the days after it, up to the one that ends when `until` begins.
    fn close(&self, report: &mut Report, until: u64) -> Result<(), BookError> {
        let Some(last) = report.days.last().map(|day| day.begins) else { return Ok(()) };
        self.value(report, last.saturating_add(DAY - 1))?;
        let net_so_far = report.totals.net()?;
        let between = (1..=MOST_DAYS_BETWEEN).map(|days| last.saturating_add(days * DAY));
        for begins in between.take_while(|begins| *begins < until) {
            report.days.push(Day { begins, totals: Totals::default(), net_so_far, unrealised: None, entries: 0 });
            self.value(report, begins.saturating_add(DAY - 1))?;
        }
        Ok(())
    }

    /// Values the holdings at `at` for the last day.
    fn value(&self, report: &mut Report, at: u64) -> Result<(), BookError> {
        if let Some(day) = report.days.last_mut() {
            day.unrealised = unrealised(&self.holdings(at)?)?;
        }
        Ok(())
    }

    fn holdings(&self, at: u64) -> Result<Vec<Holding>, BookError> {
        let mut all = holdings(&self.books, self.prices, self.tokens, at)?;
        all.retain(|holding| self.account.is_none_or(|own| own == holding.asset.account));
        Ok(all)
    }
}

/// Unrealised gain of all holdings; `None` if one with a cost has no price.
fn unrealised(holdings: &[Holding]) -> Result<Option<SignedUsd>, BookError> {
    let mut all = SignedUsd::ZERO;
    for holding in holdings.iter().filter(|holding| !holding.cost.is_zero()) {
        let Some(gain) = holding.unrealised else { return Ok(None) };
        all = all.checked_add(gain)?;
    }
    Ok(Some(all))
}

/// Transactions that moved the same amounts from one account of the books to another, and nothing else.
fn own_transfers(entries: &[Entry]) -> BTreeSet<(u64, B256)> {
    let mut by_tx: BTreeMap<(u64, B256), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        if let Some(tx) = entry.tx {
            by_tx.entry((entry.chain_id, tx)).or_default().push(entry);
        }
    }
    let moves = |flows: &BTreeMap<Token, Flow>, turned: bool| -> BTreeMap<Token, (U256, U256)> {
        let of = |flow: &Flow| (flow.received.saturating_sub(flow.given), flow.given.saturating_sub(flow.received));
        let turn = |(came, went)| if turned { (went, came) } else { (came, went) };
        flows
            .iter()
            .map(|(token, flow)| (*token, turn(of(flow))))
            .filter(|(_, net)| *net != Default::default())
            .collect()
    };
    let is_own = |found: &[&Entry]| match found {
        [one, other] => {
            one.account != other.account
                && !one.flows.is_empty()
                && moves(&one.flows, true) == moves(&other.flows, false)
        }
        _ => false,
    };
    by_tx.into_iter().filter(|(_, found)| is_own(found)).map(|(key, _)| key).collect()
}

impl Report {
    /// Sums of each group, in the order of the groups' names; trades and days in the order of time.
    ///
    /// # Errors
    /// [`BookError`] if a figure is out of range.
    pub fn by(&self, grouping: Grouping) -> Result<Vec<Group>, BookError> {
        match grouping {
            Grouping::Day => {
                let days = self.days.iter().filter(|day| day.entries > 0);
                Ok(days.map(|day| Group { name: day_name(day.begins), totals: day.totals }).collect())
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

    /// Every token that has a result or is held, with the unrealised gain of all accounts' holdings: zero if nothing is
    /// held, and `None` if no holding has one.
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
        let mut held: BTreeSet<(u64, Token)> = BTreeSet::new();
        for holding in self.holdings.iter().filter(|holding| !holding.amount.is_zero()) {
            let key = (holding.asset.chain_id, holding.asset.token);
            held.insert(key);
            let known = all.entry(key).or_default();
            if let Some(more) = holding.unrealised {
                *known = Some(known.unwrap_or(SignedUsd::ZERO).checked_add(more)?);
            }
        }
        for (_, unrealised) in all.iter_mut().filter(|(key, _)| !held.contains(key)) {
            *unrealised = Some(SignedUsd::ZERO);
        }
        Ok(all)
    }

    /// Number of holdings that the unrealised gain leaves out, wholly or in part, because a price or a cost is missing.
    pub fn unvalued(&self) -> u64 {
        let out = |holding: &&Holding| holding.value.is_none() || !holding.uncosted.is_zero();
        self.holdings.iter().filter(out).count() as u64
    }

    /// Sum of the unrealised gains; `None` if no holding has one.
    ///
    /// # Errors
    /// [`BookError`] if the figure is out of range.
    pub fn unrealised(&self) -> Result<Option<SignedUsd>, BookError> {
        sum(self.holdings.iter().filter_map(|holding| holding.unrealised))
    }

    /// Symbol of a token, or its address. The symbol of a token that its network's address book does not list is the
    /// token's own claim: it carries the whole address, so that the token is taken for no other.
    pub fn symbol(&self, chain_id: u64, token: Token) -> String {
        match (self.tokens.get(&(chain_id, token)), token) {
            (Some(facts), Some(address)) if !facts.listed => format!("{}-{address}", facts.symbol),
            (Some(facts), _) => facts.symbol.to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => "native".to_owned(),
        }
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
            (None, None) => format!("block {} on {}", posted.entry.block.0, display_name(posted.entry.chain_id)),
        };
        // An id alone says nothing to somebody who looks for a trade.
        let title = |posted: &Posted, name: &str| match &posted.entry.action {
            Some(action) => {
                let at = format::utc(posted.entry.at.saturating_mul(1_000));
                format!("{at} {} {name}", tool_word(action.tool.as_str()))
            }
            None => name.to_owned(),
        };
        let mut groups: Vec<Group> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for posted in &self.posted {
            let name = name(posted);
            match places.get(&name).and_then(|place| groups.get_mut(*place)) {
                Some(group) => group.totals.add(posted)?,
                None => {
                    let mut totals = Totals::default();
                    totals.add(posted)?;
                    groups.push(Group { name: title(posted, &name), totals });
                    places.insert(name, groups.len() - 1);
                }
            }
        }
        Ok(groups)
    }

    /// Results of each token that was given; gas belongs to the native token. What belongs to a posting as a whole, such
    /// as the count of trades and a bridge's fee, belongs to the first token given, or else the first received.
    ///
    /// # Errors
    /// [`BookError`] if a figure is out of range.
    pub fn sums_of_tokens(&self) -> Result<BTreeMap<(u64, Token), Totals>, BookError> {
        let mut groups: BTreeMap<(u64, Token), Totals> = BTreeMap::new();
        for posted in &self.posted {
            let Posted { entry, posting, .. } = posted;
            let first = posting.given.first().or(posting.received.first());
            let of_whole = groups.entry((entry.chain_id, first.and_then(|leg| leg.asset.token))).or_default();
            of_whole.add_whole(posted)?;
            for leg in &posting.given {
                groups.entry((entry.chain_id, leg.asset.token)).or_default().add_leg(leg)?;
            }
            if let Some(gas) = &posting.gas {
                groups.entry((entry.chain_id, None)).or_default().add_gas(gas)?;
            }
        }
        Ok(groups)
    }

    fn by_token(&self) -> Result<Vec<Group>, BookError> {
        let named = |((chain_id, token), totals)| Group {
            name: format!("{} on {}", self.symbol(chain_id, token), display_name(chain_id)),
            totals,
        };
        Ok(self.sums_of_tokens()?.into_iter().map(named).collect())
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

/// Bridge order on its way.
struct Departure {
    chain_id: u64,
    account: Address,
    value: Option<Usd>,
}

/// Fee of a bridge order that arrives. One that gives back what it took is a refund.
fn bridge_fee(
    entry: &Entry,
    posting: &mut Posting,
    departed: &mut BTreeMap<CallId, Departure>,
) -> Result<Option<SignedUsd>, BookError> {
    let Some(call) = entry.action.as_ref().map(|action| action.call_id) else { return Ok(None) };
    let value = |legs: &[Leg]| match legs {
        [leg] => leg.value,
        _ => None,
    };
    match posting.kind {
        PostingKind::BridgeOut => {
            let (chain_id, account, value) = (entry.chain_id, entry.account, value(&posting.given));
            departed.insert(call, Departure { chain_id, account, value });
            Ok(None)
        }
        PostingKind::BridgeIn => {
            let Some(left) = departed.remove(&call) else { return Ok(None) };
            if (left.chain_id, left.account) == (entry.chain_id, entry.account) {
                posting.kind = PostingKind::BridgeRefund;
            }
            let values = left.value.zip(value(&posting.received));
            Ok(values.map(|(left, arrived)| SignedUsd::difference(left, arrived)).transpose()?)
        }
        PostingKind::Opening
        | PostingKind::Trade
        | PostingKind::Sent
        | PostingKind::Received
        | PostingKind::Deposit
        | PostingKind::Withdrawal
        | PostingKind::BridgeRefund
        | PostingKind::OwnOut
        | PostingKind::OwnIn
        | PostingKind::Unexplained
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
            bounded(Usd::value_of(TokenAmount::new(costed, facts.decimals).ok()?, price, Rounding::Down).ok()?)
        });
        let unrealised = value.map(|value| SignedUsd::difference(value, cost)).transpose()?;
        let amount = costed.checked_add(uncosted).ok_or(BookError::Amount)?;
        all.push(Holding { asset: *asset, amount, cost, uncosted, value, unrealised });
    }
    Ok(all)
}

/// Amounts that came into an account and left it, of one token, by entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balance {
    /// Sum of all that came, in raw units.
    pub received: U256,
    /// Sum of all that left, with gas, in raw units.
    pub given: U256,
}

impl Balance {
    /// Amount that should be held; `None` if more left than came.
    pub fn held(self) -> Option<U256> {
        self.received.checked_sub(self.given)
    }

    /// Adds an entry's flow, and its gas; `None` if a sum does not fit 256 bits.
    #[must_use]
    pub fn with(self, flow: Flow, gas: U256) -> Option<Self> {
        let given = self.given.checked_add(flow.given)?.checked_add(gas)?;
        Some(Self { received: self.received.checked_add(flow.received)?, given })
    }
}

/// Balances that entries of one account on one chain give. The wrapped native token is counted for itself here, as the
/// chain does. `None` for a token whose sums do not fit 256 bits.
pub fn balances<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> BTreeMap<Token, Option<Balance>> {
    let mut all: BTreeMap<Token, Option<Balance>> = BTreeMap::new();
    for entry in entries {
        for (token, flow) in &entry.flows {
            let sum = all.entry(*token).or_insert_with(|| Some(Balance::default()));
            *sum = sum.and_then(|sum| sum.with(*flow, U256::ZERO));
        }
        let native = all.entry(None).or_insert_with(|| Some(Balance::default()));
        *native = native.and_then(|sum| sum.with(Flow::default(), entry.gas));
    }
    all
}

#[cfg(test)]
mod tests;
