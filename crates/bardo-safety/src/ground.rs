//! What the pipeline reads of a chain before it decides: tokens, prices, holdings, all at one block.
//! Whatever does not answer is kept as a doubt in its place.

mod data_fee;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::rpc::types::Filter;
use alloy::sol_types::SolEvent as _;

use super::facts::{Holding, Portfolio};
use super::framed::Framed;
use super::value::{Band, Doubt, Spread, Spreads};
use bardo_abi::erc20::Erc20;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::fork::Source;
use golem_chain::multicall::Calls;
use golem_chain::network::{Contract, DataFees, Network};
use golem_chain::price::{NoPrice, PriceChain, PriceReport};
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::token::{self, Token, TokenError, TokenId};
use golem_protocols::uniswap::twap::{Observed, PoolPrices, TickHints, TwapPrices, TwapRules};

/// Dollar coins that one may leave to; a network's book says where they are.
const STABLES: [&str; 3] = ["USDC", "USDT", "DAI"];

/// A dollar coin may stray this far from a dollar, in ten-thousandths, before it is no dollar.
const PEG_TOLERANCE: u32 = 200;

/// A single pool that differs from a feed by more, in ten-thousandths, is outvoted by it.
const POOL_TOLERANCE: u32 = 300;

/// A chain as the pipeline sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The way to it.
    pub client: ChainClient,
    /// Where simulations read from.
    pub source: Source,
    /// What its tokens are worth by feeds, or, on test networks, by configuration.
    pub prices: PriceChain,
    /// What a pool must show before its mean is a price.
    pub twap: TwapRules,
    /// What is paid beside gas: as the network says, or as the operator does.
    pub data_fees: DataFees,
    /// What was read last of prices, by block: a preview and the commit after it mostly see the same one.
    read: Arc<Mutex<VecDeque<Read>>>,
    /// Where the pools' liquidity was found by earlier reads.
    hints: Arc<TickHints>,
}

/// Prices as they were read on a block.
#[derive(Debug, Clone)]
struct Read {
    block: B256,
    tokens: Vec<TokenId>,
    traded: Vec<Address>,
    at: Instant,
    spreads: Spreads,
}

/// Prices are not read again for the same block and this long. A feed's age and a mean over half an hour say the same
/// over it; what has moved shows in the next block.
const READ_FOR: Duration = Duration::from_secs(2);

/// Readings kept: a few pairs on a few blocks.
const READINGS: usize = 8;

impl Ground {
    /// A chain with prices, and the shortest mean over pools at least `minimum_depth` deep.
    pub fn new(client: ChainClient, prices: PriceChain, minimum_depth: Usd) -> Self {
        let (source, data_fees) = (Source::of(&client), client.network().data_fees);
        let twap = TwapRules { window: golem_protocols::uniswap::twap::MIN_WINDOW, minimum_depth };
        Self { client, source, prices, twap, data_fees, read: Arc::default(), hints: Arc::default() }
    }

    /// The same chain, where the operator says what is paid beside gas.
    #[must_use]
    pub fn charging(mut self, data_fees: DataFees) -> Self {
        self.data_fees = data_fees;
        self
    }

    /// The chain as one endpoint alone describes it, through `client`.
    #[must_use]
    pub fn alone(&self, client: ChainClient) -> Self {
        let prices = self.prices.through(client.provider(), None);
        Self { source: Source::of(&client), prices, read: Arc::default(), client, ..self.clone() }
    }

    /// The chain's name, id and address book.
    pub fn network(&self) -> &Network {
        self.client.network()
    }

    /// The contract that prices and keeps a token: the wrapping one for the native coin.
    fn contract(&self, token: TokenId) -> Option<Address> {
        match token {
            TokenId::Native => self.network().book.contract(Contract::WrappedNative),
            TokenId::Erc20(address) => Some(address),
        }
    }

    /// The dollar coins of this chain.
    pub fn stables(&self) -> BTreeSet<Address> {
        stables(self.network())
    }

    /// Every token the frame names, as the book and the chain at `block` describe it.
    ///
    /// # Errors
    /// [`Untold`]: the chain does not answer, describes what is no token, or describes it otherwise than the proposal.
    pub async fn tokens(&self, framed: &Framed, block: BlockId) -> Result<BTreeMap<TokenId, Token>, Untold> {
        let network = self.network();
        let mut known = BTreeMap::from([(TokenId::Native, Token::native(network))]);
        let mut unknown: Vec<Address> = Vec::new();
        let named = named_tokens(framed);
        for (id, _) in &named {
            if let TokenId::Erc20(address) = id
                && !unknown.contains(address)
            {
                unknown.push(*address);
            }
        }
        if !unknown.is_empty() {
            let read = token::read_at(&unknown, network, self.client.agreed(), block).await.map_err(untold)?;
            let is_listed = |address: &Address| network.book.tokens().iter().any(|token| token.address == *address);
            let mut impossible = None;
            for (address, token) in unknown.iter().zip(read) {
                match token {
                    Ok(token) => drop(known.insert(TokenId::Erc20(*address), token)),
                    Err(TokenError::Chain(error)) => return Err(Untold::Chain(error)),
                    // A token of the address book counts for more: that it is none says that the chain is misdescribed.
                    Err(why) if is_listed(address) => {
                        impossible = Some(Untold::AgainstBook(Doubt::because(why)));
                        break;
                    }
                    Err(why) => impossible = impossible.or(Some(Untold::NoToken(Doubt::because(why)))),
                }
            }
            if let Some(impossible) = impossible {
                return Err(impossible);
            }
        }
        // A proposal that describes a token otherwise would show the operator other figures.
        for (id, claimed) in named {
            if known.get(&id).is_some_and(|real| *real != claimed) {
                let which = self.contract(id).unwrap_or_default();
                let why = format_args!("the proposal describes {which} otherwise than the chain does");
                return Err(Untold::Doubt(Doubt::because(why)));
            }
        }
        Ok(known)
    }

    /// [`Self::spreads`], read once for a block. A reading in which any token has no price is not kept: an endpoint
    /// that failed once is asked again by the next call.
    pub async fn spreads_on(&self, block: B256, tokens: &[TokenId], traded: &[Address]) -> Spreads {
        let fits = |one: &Read| {
            one.block == block && one.tokens == tokens && one.traded == traded && one.at.elapsed() < READ_FOR
        };
        let known = self.readings().iter().find(|one| fits(one)).map(|one| one.spreads.clone());
        if let Some(spreads) = known {
            return spreads;
        }
        let at = Instant::now();
        // The endpoints are compared on one block; one endpoint alone is asked for its latest.
        let pinned = self.client.has_several_endpoints().then(|| BlockId::hash(block));
        // How old the block is, `checks::clocks` decides: an exit passes by a wrong clock of this machine.
        let spreads = self.spreads_at(&self.prices.at_any_block_age(), tokens, traded, pinned).await;
        if spreads.of.values().any(Result::is_err) {
            return spreads;
        }
        let mut readings = self.readings();
        readings.truncate(READINGS - 1);
        let (tokens, traded) = (tokens.to_vec(), traded.to_vec());
        readings.push_front(Read { block, tokens, traded, at, spreads: spreads.clone() });
        spreads
    }

    fn readings(&self) -> MutexGuard<'_, VecDeque<Read>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Highest and lowest prices of `tokens`: by feed and by the mean of pools other than `traded`.
    pub async fn spreads(&self, tokens: &[TokenId], traded: &[Address]) -> Spreads {
        self.spreads_at(&self.prices, tokens, traded, None).await
    }

    async fn spreads_at(
        &self,
        prices: &PriceChain,
        tokens: &[TokenId],
        traded: &[Address],
        block: Option<BlockId>,
    ) -> Spreads {
        let wrapped = self.contract(TokenId::Native);
        let asked: BTreeSet<Address> = tokens.iter().filter_map(|token| self.contract(*token)).chain(wrapped).collect();
        let asked: Vec<Address> = asked.into_iter().collect();
        // Feeds of the tokens and, in the same request, of what pools are likely to price them in.
        let mut with_anchors = asked.clone();
        let listed = self.network().book.tokens().iter().map(|token| token.address);
        for anchor in wrapped.into_iter().chain(self.stables()).chain(listed) {
            if !with_anchors.contains(&anchor) {
                with_anchors.push(anchor);
            }
        }
        // Feeds and pools do not depend on each other: both are on their way at once.
        let twap = self.twap(traded, block);
        let observe = async {
            match &twap {
                Some(twap) => twap.observe(&asked).await.map(Some),
                None => Ok(None),
            }
        };
        let feeds = match block {
            Some(_) => prices.through(self.client.agreed(), block),
            None => prices.clone(),
        };
        let (reports, observed) = futures::join!(feeds.prices(&with_anchors), observe);
        let means = means(twap.as_ref(), observed, &reports, asked.len()).await;
        let stables = self.stables();
        let of = asked
            .iter()
            .zip(reports.iter())
            .zip(means)
            .map(|((token, report), mean)| (*token, spread(report, &mean, stables.contains(token))))
            .collect();
        Spreads { of, wrapped }
    }

    /// The pools' prices at `block`, without the pools in `traded`; `None` where the book lacks the contracts that reading
    /// takes.
    fn twap(&self, traded: &[Address], block: Option<BlockId>) -> Option<TwapPrices> {
        // Believed alone only where there is one endpoint: the witness below is asked instead of it.
        let twap = TwapPrices::new(self.client.provider().clone(), self.network(), self.twap).ok()?;
        let several = self.client.has_several_endpoints();
        let twap = twap.witnessed_by(several.then(|| self.client.agreed().clone())).at(block);
        Some(twap.hinted_by(Arc::clone(&self.hints)).without(traded.iter().copied()))
    }

    /// Amounts of an ERC-20 token that all transactions of a range of blocks brought to `account` and took from it, by the
    /// token's `Transfer` events. `None` where they cannot be read, where endpoints contradict each other about them, or where
    /// the sum does not fit 256 bits.
    pub async fn transfers(&self, account: Address, token: TokenId, blocks: (u64, u64)) -> Option<(U256, U256)> {
        let TokenId::Erc20(contract) = token else { return None };
        let filter = Filter::new().address(contract).from_block(blocks.0).to_block(blocks.1);
        let filter = filter.event_signature(Erc20::Transfer::SIGNATURE_HASH);
        let filters = [filter.clone().topic2(account.into_word()), filter.topic1(account.into_word())];
        let [came, went] = filters.map(|filter| async move {
            let logs = self.client.agreed().get_logs(&filter).await.ok()?;
            let amounts = logs.iter().filter_map(|log| Erc20::Transfer::decode_log(&log.inner).ok());
            amounts.map(|one| one.data.value).try_fold(U256::ZERO, U256::checked_add)
        });
        let (came, went) = futures::join!(came, went);
        came.zip(went)
    }

    /// What `account` holds at `block` of the chain's coin, the book's tokens and `also`.
    ///
    /// # Errors
    /// [`Untold`] if the chain does not answer, Multicall3 is not there, or a balance cannot be read.
    pub async fn balances(
        &self,
        account: Address,
        also: &BTreeMap<TokenId, Token>,
        block: BlockId,
    ) -> Result<BTreeMap<TokenId, (Token, U256)>, Untold> {
        let network = self.network();
        let no_multicall = "balances cannot be read: the address book has no Multicall3";
        let multicall = network.book.contract(Contract::Multicall3);
        let multicall = multicall.ok_or_else(|| Untold::Doubt(Doubt::because(no_multicall)))?;
        let listed = network.book.tokens().iter().map(|token| Token {
            id: TokenId::Erc20(token.address),
            symbol: SafeText::clean(&token.symbol, token::MAX_SYMBOL),
            name: SafeText::clean(&token.name, token::MAX_NAME),
            decimals: token.decimals,
            listed: true,
        });
        let mut tokens: BTreeMap<TokenId, Token> = listed.map(|token| (token.id, token)).collect();
        tokens.extend(also.iter().map(|(id, token)| (*id, token.clone())));
        let mut calls = Calls::default();
        let native = calls.push(multicall, &IMulticall3::getEthBalanceCall { addr: account });
        let mut asked = Vec::new();
        for (id, token) in tokens {
            if let TokenId::Erc20(address) = id {
                asked.push((token, calls.push(address, &Erc20::balanceOfCall { owner: account })));
            }
        }
        let answers = calls.send(self.client.agreed(), multicall, block).await.map_err(|error| match error {
            // Multicall3 answers nothing, or fails, although the address book has it here.
            ProviderError::Decode { .. } | ProviderError::Rpc { .. } => Untold::AgainstBook(Doubt::because(error)),
            other => Untold::Chain(other),
        })?;
        let unread = |symbol: &SafeText| {
            Untold::Doubt(Doubt::because(format_args!("the balance of {symbol} could not be read")))
        };
        let coin = Token::native(network);
        let held = native.take(&answers).ok_or_else(|| unread(&coin.symbol))?;
        let mut balances = BTreeMap::from([(TokenId::Native, (coin, held))]);
        for (token, call) in asked {
            // A listed token that has no contract here holds nothing; one the frame names must answer.
            match call.take(&answers) {
                Some(amount) => drop(balances.insert(token.id, (token, amount))),
                None if also.contains_key(&token.id) => return Err(unread(&token.symbol)),
                None => {}
            }
        }
        Ok(balances)
    }
}

/// Why the tokens of a frame, or the account's balances of them, are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    /// The chain does not answer: nothing is known of them, not even that they are what they should be.
    #[error(transparent)]
    Chain(ProviderError),
    /// A listed token is none here, or Multicall3 does not answer: the chain is not the one of the address book, or the
    /// endpoint misdescribes it.
    #[error("{0}")]
    AgainstBook(Doubt),
    /// An address off the list is no token here.
    #[error("{0}")]
    NoToken(Doubt),
    /// The chain has answered, and one of them cannot be trusted.
    #[error("{0}")]
    Doubt(Doubt),
}

impl From<Untold> for Doubt {
    fn from(untold: Untold) -> Self {
        match untold {
            Untold::Chain(error) => Self::because(error),
            Untold::AgainstBook(doubt) | Untold::NoToken(doubt) | Untold::Doubt(doubt) => doubt,
        }
    }
}

/// The dollar coins of a network's address book that one may leave to.
pub fn stables(network: &Network) -> BTreeSet<Address> {
    let listed = network.book.tokens().iter();
    listed.filter(|token| STABLES.contains(&token.symbol.as_str())).map(|token| token.address).collect()
}

fn untold(error: TokenError) -> Untold {
    match error {
        TokenError::Chain(error) => Untold::Chain(error),
        other => Untold::Doubt(Doubt::because(other)),
    }
}

/// Every token the frame names, with its description.
fn named_tokens(framed: &Framed) -> Vec<(TokenId, Token)> {
    let proposal = framed.proposal();
    let trade = proposal.trade.iter().flat_map(|trade| [&trade.token_in, &trade.token_out]);
    let flows = proposal.outflows.iter().map(|flow| &flow.token);
    let inflows = proposal.inflows.iter().map(|inflow| &inflow.token);
    let allowances = proposal.allowances.iter().map(|bound| &bound.token);
    trade.chain(flows).chain(inflows).chain(allowances).map(|token| (token.id, token.clone())).collect()
}

/// What the pools say of each of `count` tokens, valued by the feeds of what they are priced in.
async fn means(
    twap: Option<&TwapPrices>,
    observed: Result<Option<Observed>, NoPrice>,
    reports: &[PriceReport],
    count: usize,
) -> Vec<Result<PoolPrices, NoPrice>> {
    let known = reports.iter().filter_map(|report| Some((report.token, report.price.as_ref()?.usd))).collect();
    match (twap, observed) {
        (Some(twap), Ok(Some(mut observed))) => {
            twap.complete(&mut observed, &known).await;
            twap.judge(&observed, &known)
        }
        (_, Ok(_)) => vec![Err(NoPrice::UnknownToken); count],
        (_, Err(reason)) => vec![Err(reason); count],
    }
}

/// What the witnesses of one token say together. A feed that knows the token must be well.
///
/// Two or more pools and the feed have a median, so that one of them cannot move it. A single pool stands beside the
/// feed while it is near it, or lags behind it after a fall; else the feed outvotes it. Without a feed the pools' median
/// stands alone.
fn spread(report: &PriceReport, pools: &Result<PoolPrices, NoPrice>, is_stable: bool) -> Result<Spread, SafeText> {
    let refuse = |why: &dyn std::fmt::Display| SafeText::clean(&format!("{}: {why}", report.token), 300);
    let pools = match pools {
        Ok(prices) => prices.pools.as_slice(),
        Err(
            NoPrice::UnknownToken | NoPrice::TooShallow { .. } | NoPrice::TooYoung { .. } | NoPrice::NotTraded { .. },
        ) => &[],
        Err(reason) => return Err(refuse(reason)),
    };
    let feed = match &report.price {
        Some(price) => Some(price.usd),
        None => {
            let failed = report.refusals.iter().find(|(_, reason)| *reason != NoPrice::UnknownToken);
            if let Some((source, reason)) = failed {
                return Err(refuse(&format_args!("{source}: {reason}")));
            }
            None
        }
    };
    let spread = match (feed, pools) {
        // The mean of a dollar coin is taken in a coin that moves: it would tell of that coin.
        (Some(feed), _) if is_stable => Spread::fed(feed),
        (Some(feed), []) => Spread::fed(feed),
        (Some(feed), [pool]) => {
            let lately = pool.lately.filter(|lately| agrees(*lately, feed));
            let fed = Spread { present: Some(Band::of(feed, lately)), ..Spread::fed(feed) };
            if agrees(pool.usd, feed) || lately.is_some() {
                Spread { all: Band::of(feed, Some(pool.usd)), ..fed }
            } else {
                Spread { outvoted: Some(pool.usd), ..fed }
            }
        }
        (Some(feed), pools) => {
            let all = medians(pools.iter().map(|pool| pool.usd).chain([feed]));
            let lately: Vec<Usd> = pools.iter().filter_map(|pool| pool.lately).collect();
            let present = match lately.as_slice() {
                [] => None,
                [one] => Some(*one).filter(|one| agrees(*one, feed)).map(|one| Band::of(one, None)),
                _ => medians(lately.iter().copied().chain([feed])),
            };
            let with_feed = |band: Option<Band>| {
                let band = band.unwrap_or(Band::of(feed, None));
                Band { highest: band.highest.max(feed), lowest: band.lowest.min(feed) }
            };
            let (all, present) = (with_feed(all), Some(with_feed(present)));
            Spread { all, present, several_pools: true, ..Spread::fed(feed) }
        }
        (None, pools) => match medians(pools.iter().map(|pool| pool.usd)) {
            Some(band) => Spread { several_pools: pools.len() > 1, ..Spread::lagging(band) },
            None => return Err(refuse(&"no feed prices it, and no pool that is deep enough and traded")),
        },
    };
    if is_stable && !near_a_dollar(spread.all) {
        return Err(refuse(&format_args!(
            "a dollar coin at {} to {} dollars has lost its peg",
            spread.all.lowest, spread.all.highest
        )));
    }
    Ok(spread)
}

/// The lower and the upper median; `None` of nothing.
fn medians(prices: impl Iterator<Item = Usd>) -> Option<Band> {
    let mut prices: Vec<Usd> = prices.collect();
    prices.sort();
    let lowest = *prices.get(prices.len().saturating_sub(1) / 2)?;
    let highest = *prices.get(prices.len() / 2)?;
    Some(Band { highest, lowest })
}

/// Whether `price` is within [`POOL_TOLERANCE`] of `feed`.
fn agrees(price: Usd, feed: Usd) -> bool {
    let part = |parts: u32| {
        let part = TokenAmount::new(U256::from(parts), 4).ok()?;
        Usd::value_of(part, feed, Rounding::Down).ok()
    };
    match (part(10_000 - POOL_TOLERANCE), part(10_000 + POOL_TOLERANCE)) {
        (Some(low), Some(high)) => (low..=high).contains(&price),
        _ => false,
    }
}

/// Whether both ends are within [`PEG_TOLERANCE`] of a dollar.
fn near_a_dollar(spread: Band) -> bool {
    let at = |parts: u32| Usd::from_scaled(U256::from(parts), 4);
    match (at(10_000 - PEG_TOLERANCE), at(10_000 + PEG_TOLERANCE)) {
        (Ok(low), Ok(high)) => spread.lowest >= low && spread.highest <= high,
        _ => false,
    }
}

/// What the account holds. A feed values a holding where there is one; else the lowest of its pools does, apart from
/// the equity. What has no price is named and counts for nothing.
///
/// # Errors
/// A [`Doubt`] where a sum is too large to be held.
pub fn portfolio(balances: &BTreeMap<TokenId, (Token, U256)>, spreads: &Spreads) -> Result<Portfolio, Doubt> {
    let priced = spreads.of.iter().filter_map(|(token, spread)| Some((*token, spread.as_ref().ok()?.held())));
    let mut portfolio = Portfolio { lowest: priced.collect(), ..Portfolio::default() };
    for (id, (token, amount)) in balances {
        if amount.is_zero() {
            continue;
        }
        let Ok(spread) = spreads.get(*id) else {
            portfolio.unpriced.push(token.clone());
            continue;
        };
        let worth = TokenAmount::new(*amount, token.decimals).map_err(Doubt::because)?;
        let value = Usd::value_of(worth, spread.held(), Rounding::Down).map_err(Doubt::because)?;
        let sum = if spread.feed.is_some() { &mut portfolio.equity } else { &mut portfolio.by_pools };
        *sum = sum.checked_add(value).map_err(Doubt::because)?;
        let highest = Usd::value_of(worth, spread.all.highest, Rounding::Up).map_err(Doubt::because)?;
        portfolio.holdings.push(Holding { token: token.clone(), amount: *amount, value, highest });
    }
    Ok(portfolio)
}

#[cfg(test)]
mod tests;
