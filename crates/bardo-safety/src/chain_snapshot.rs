//! Chain snapshot: tokens, prices and holdings that the pipeline reads at one block before it decides. Anything that
//! could not be read is a [`UnknownValue`] in its place.

mod data_fee;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::rpc::types::Filter;
use alloy::sol_types::SolEvent as _;
use parking_lot::{Mutex, MutexGuard};

use super::check_inputs::{Portfolio, PortfolioHolding, PositionHolding};
use super::signing_payload::SigningPayload;
use super::value::{PriceBand, PriceSpread, PriceSpreads, UnknownValue};
use bardo_abi::erc20::Erc20;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::fork::ForkSource;
use golem_chain::multicall::CallBatch;
use golem_chain::network::{DataFees, KnownContract, Network};
use golem_chain::price::{NoPrice, PriceChain, PriceReport};
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::token::{self, TokenError, TokenId, TokenInfo};
use golem_protocols::aave::receipts::ReceiptTokens;
use golem_protocols::uniswap::positions::{
    AccountPositions, Exit, PositionContracts, PositionKeys, PositionState, PricedToken, UnreadableSource,
};
use golem_protocols::uniswap::twap::{ObservedPools, PoolPrices, TickHints, TwapPrices, TwapRules};

/// Maximum distance of a stablecoin from one dollar, in basis points. Beyond it, the coin has no price.
const PEG_TOLERANCE: u32 = 200;

/// Maximum distance of a single pool from the feed, in basis points. Beyond it, the feed outvotes the pool.
const POOL_TOLERANCE: u32 = 300;

/// Access to one chain's state. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    /// Client of the chain's endpoints.
    pub client: ChainClient,
    /// State source of simulations.
    pub source: ForkSource,
    /// Token prices by feeds or, on test networks, by configuration.
    pub prices: PriceChain,
    /// Requirements on a pool's time-weighted mean price.
    pub twap: TwapRules,
    /// Data fee that the chain charges in addition to gas; the network's default or the operator's setting.
    pub data_fees: DataFees,
    /// Latest price readings, by block. A preview and its commit usually use the same one.
    read: Arc<Mutex<VecDeque<BlockPrices>>>,
    /// Bitmap words and initialized ticks that earlier reads of pools needed.
    hints: Arc<TickHints>,
    /// Pools and ranges of liquidity positions that earlier reads found.
    positions: Arc<PositionKeys>,
    /// Tokens that stand for supplies in the lending market.
    pub(crate) receipts: Arc<ReceiptTokens>,
}

/// Prices read on one block.
#[derive(Debug, Clone)]
struct BlockPrices {
    block: B256,
    tokens: Vec<TokenId>,
    traded: Vec<Address>,
    at: Instant,
    spreads: PriceSpreads,
}

/// Maximum age of a price reading for the same block. Feed ages and half-hour means barely change within it; new prices
/// show in the next block.
const READ_FOR: Duration = Duration::from_secs(2);

/// Maximum number of readings kept: a few pairs on a few blocks.
const READINGS: usize = 8;

impl SnapshotReader {
    /// Creates the reader of a chain with its prices. Pool means use the shortest window, and pools need a depth of at
    /// least `minimum_depth`.
    pub fn new(client: ChainClient, prices: PriceChain, minimum_depth: Usd) -> Self {
        let (source, data_fees) = (ForkSource::of(&client), client.network().data_fees);
        let twap = TwapRules { window: golem_protocols::uniswap::twap::MIN_WINDOW, minimum_depth };
        let (read, hints, positions, receipts) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        Self { client, source, prices, twap, data_fees, read, hints, positions, receipts }
    }

    /// Sets how the chain charges data fees.
    #[must_use]
    pub fn charging(mut self, data_fees: DataFees) -> Self {
        self.data_fees = data_fees;
        self
    }

    /// Returns the chain as one endpoint alone describes it, through `client`.
    #[must_use]
    pub fn alone(&self, client: ChainClient) -> Self {
        let prices = self.prices.through(client.provider(), None);
        let (read, positions, receipts) = (Arc::default(), Arc::default(), Arc::default());
        Self { source: ForkSource::of(&client), prices, read, positions, receipts, client, ..self.clone() }
    }

    /// Returns the chain's name, id and address book.
    pub fn network(&self) -> &Network {
        self.client.network()
    }

    /// Contract that prices a token: the token itself, or the wrapping contract for the native token.
    fn contract(&self, token: TokenId) -> Option<Address> {
        match token {
            TokenId::Native => self.network().book.contract(KnownContract::WrappedNative),
            TokenId::Erc20(address) => Some(address),
        }
    }

    /// Returns the dollar stablecoins of this chain.
    pub fn stables(&self) -> BTreeSet<Address> {
        stables(self.network())
    }

    /// Returns every token that the payload names, as the address book and the chain at `block` describe it.
    ///
    /// # Errors
    /// [`SnapshotReadError`] if the chain does not answer, an address is not a token, or the proposal describes a token
    /// differently.
    pub async fn tokens(
        &self,
        payload: &SigningPayload,
        block: BlockId,
    ) -> Result<BTreeMap<TokenId, TokenInfo>, SnapshotReadError> {
        let network = self.network();
        let mut known = BTreeMap::from([(TokenId::Native, TokenInfo::native(network))]);
        let mut unknown: Vec<Address> = Vec::new();
        let named = named_tokens(payload);
        for (id, _) in &named {
            if let TokenId::Erc20(address) = id
                && !unknown.contains(address)
            {
                unknown.push(*address);
            }
        }
        if !unknown.is_empty() {
            let read = token::read_at(&unknown, network, self.client.agreed(), block).await.map_err(read_error)?;
            let is_listed = |address: &Address| network.book.tokens().iter().any(|token| token.address == *address);
            let mut impossible = None;
            for (address, token) in unknown.iter().zip(read) {
                match token {
                    Ok(token) => drop(known.insert(TokenId::Erc20(*address), token)),
                    Err(TokenError::Chain(error)) => return Err(SnapshotReadError::Chain(error)),
                    // A listed token takes precedence: if it is not a token, the endpoint misdescribes the chain.
                    Err(why) if is_listed(address) => {
                        impossible = Some(SnapshotReadError::AgainstBook(UnknownValue::because(why)));
                        break;
                    }
                    Err(why) => {
                        impossible = impossible.or(Some(SnapshotReadError::NoToken(UnknownValue::because(why))))
                    }
                }
            }
            if let Some(impossible) = impossible {
                return Err(impossible);
            }
        }
        // A different description would show the operator wrong figures.
        for (id, claimed) in named {
            if known.get(&id).is_some_and(|real| *real != claimed) {
                let which = self.contract(id).unwrap_or_default();
                let why = format_args!("the proposal's description of {which} differs from the chain's");
                return Err(SnapshotReadError::Doubt(UnknownValue::because(why)));
            }
        }
        Ok(known)
    }

    /// Like [`Self::spreads`], but reads prices once per block. A reading with a missing price is not kept, so that the
    /// next call polls the failed endpoint again.
    pub async fn spreads_on(&self, block: B256, tokens: &[TokenId], traded: &[Address]) -> PriceSpreads {
        let fits = |one: &BlockPrices| {
            one.block == block && one.tokens == tokens && one.traded == traded && one.at.elapsed() < READ_FOR
        };
        let known = self.readings().iter().find(|one| fits(one)).map(|one| one.spreads.clone());
        if let Some(spreads) = known {
            return spreads;
        }
        let at = Instant::now();
        // At the block that `checks::clocks` judges, of a single endpoint too: its "latest" could be an older one,
        // whose age nothing would look at. How old the block is, that check decides, so that an exit passes by a wrong
        // clock.
        let pinned = Some(BlockId::hash(block));
        let spreads = self.spreads_at(&self.prices.at_any_block_age(), tokens, traded, pinned).await;
        if spreads.of.values().any(Result::is_err) {
            return spreads;
        }
        let mut readings = self.readings();
        readings.truncate(READINGS - 1);
        let (tokens, traded) = (tokens.to_vec(), traded.to_vec());
        readings.push_front(BlockPrices { block, tokens, traded, at, spreads: spreads.clone() });
        spreads
    }

    fn readings(&self) -> MutexGuard<'_, VecDeque<BlockPrices>> {
        self.read.lock()
    }

    /// Returns the highest and lowest prices of `tokens`, by feed and by the means of pools other than `traded`.
    pub async fn spreads(&self, tokens: &[TokenId], traded: &[Address]) -> PriceSpreads {
        self.spreads_at(&self.prices, tokens, traded, None).await
    }

    async fn spreads_at(
        &self,
        prices: &PriceChain,
        tokens: &[TokenId],
        traded: &[Address],
        block: Option<BlockId>,
    ) -> PriceSpreads {
        let wrapped = self.contract(TokenId::Native);
        let asked: BTreeSet<Address> = tokens.iter().filter_map(|token| self.contract(*token)).chain(wrapped).collect();
        let asked: Vec<Address> = asked.into_iter().collect();
        // Feeds of the tokens and, in the same request, of the tokens that pools may quote them in.
        let mut with_anchors = asked.clone();
        let listed = self.network().book.tokens().iter().map(|token| token.address);
        for anchor in wrapped.into_iter().chain(self.stables()).chain(listed) {
            if !with_anchors.contains(&anchor) {
                with_anchors.push(anchor);
            }
        }
        // Feeds and pools are independent, so both requests run at once.
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
        PriceSpreads { of, wrapped }
    }

    /// Pool prices at `block`, without the pools in `traded`; `None` if the address book lacks a contract that reading
    /// needs.
    fn twap(&self, traded: &[Address], block: Option<BlockId>) -> Option<TwapPrices> {
        // Believed alone only where there is one endpoint: the witness below is asked instead of it.
        let twap = TwapPrices::new(self.client.provider().clone(), self.network(), self.twap).ok()?;
        let several = self.client.has_several_endpoints();
        let twap = twap.witnessed_by(several.then(|| self.client.agreed().clone())).at(block);
        Some(twap.hinted_by(Arc::clone(&self.hints)).without(traded.iter().copied()))
    }

    /// Amounts of an ERC-20 token that all transactions of a range of blocks brought to `account` and took from it, by
    /// the token's `Transfer` events. `None` where they cannot be read, where endpoints contradict each other about
    /// them, or where the sum does not fit 256 bits.
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

    /// Returns the liquidity positions of `account` at `block`, by the answers that the endpoints agree on. Without a
    /// position manager in the address book there are none.
    ///
    /// # Errors
    /// [`SnapshotReadError`] if the chain does not answer, or contradicts itself.
    pub async fn positions(&self, account: Address, block: BlockId) -> Result<AccountPositions, SnapshotReadError> {
        let Ok(contracts) = PositionContracts::of(self.network()) else { return Ok(AccountPositions::default()) };
        let read = self.positions.read(contracts, self.client.agreed(), account, block).await;
        read.map_err(|error| match error {
            UnreadableSource::Chain(error) => SnapshotReadError::Chain(error),
            UnreadableSource::Unreadable(error) => SnapshotReadError::Doubt(UnknownValue::because(error)),
        })
    }

    /// Returns the balances of `account` at `block`: the native token, the address book's tokens and `also`.
    ///
    /// # Errors
    /// [`SnapshotReadError`] if the chain does not answer, Multicall3 is missing, or a balance cannot be read.
    pub async fn balances(
        &self,
        account: Address,
        also: &BTreeMap<TokenId, TokenInfo>,
        block: BlockId,
    ) -> Result<BTreeMap<TokenId, (TokenInfo, U256)>, SnapshotReadError> {
        let balances = self.readable_balances(account, also, block).await?;
        match also.iter().find(|(id, _)| !balances.contains_key(id)) {
            // A token that the payload names must answer.
            Some((_, token)) => Err(unread(&token.symbol)),
            None => Ok(balances),
        }
    }

    /// Like [`Self::balances`], without the tokens whose balance cannot be read: each fails for itself.
    ///
    /// # Errors
    /// [`SnapshotReadError`] if the chain does not answer, or Multicall3 is missing.
    pub async fn readable_balances(
        &self,
        account: Address,
        also: &BTreeMap<TokenId, TokenInfo>,
        block: BlockId,
    ) -> Result<BTreeMap<TokenId, (TokenInfo, U256)>, SnapshotReadError> {
        let network = self.network();
        let no_multicall = "balances cannot be read: the address book has no Multicall3";
        let multicall = network.book.contract(KnownContract::Multicall3);
        let multicall = multicall.ok_or_else(|| SnapshotReadError::Doubt(UnknownValue::because(no_multicall)))?;
        let listed = network.book.tokens().iter().map(|token| TokenInfo {
            id: TokenId::Erc20(token.address),
            symbol: SafeText::clean(&token.symbol, token::MAX_SYMBOL),
            name: SafeText::clean(&token.name, token::MAX_NAME),
            decimals: token.decimals,
            listed: true,
        });
        let mut tokens: BTreeMap<TokenId, TokenInfo> = listed.map(|token| (token.id, token)).collect();
        tokens.extend(also.iter().map(|(id, token)| (*id, token.clone())));
        let mut calls = CallBatch::default();
        let native = calls.push(multicall, &IMulticall3::getEthBalanceCall { addr: account });
        let mut asked = Vec::new();
        for (id, token) in tokens {
            if let TokenId::Erc20(address) = id {
                asked.push((token, calls.push(address, &Erc20::balanceOfCall { owner: account })));
            }
        }
        let answers = calls.send(self.client.agreed(), multicall, block).await.map_err(|error| match error {
            // Multicall3 fails or answers nothing, although the address book lists it here.
            ProviderError::Decode { .. } | ProviderError::Rpc { .. } => {
                SnapshotReadError::AgainstBook(UnknownValue::because(error))
            }
            other => SnapshotReadError::Chain(other),
        })?;
        let coin = TokenInfo::native(network);
        let held = native.take(&answers).ok_or_else(|| unread(&coin.symbol))?;
        let mut balances = BTreeMap::from([(TokenId::Native, (coin, held))]);
        for (token, call) in asked {
            // A listed token without a contract here has no balance.
            if let Some(amount) = call.take(&answers) {
                balances.insert(token.id, (token, amount));
            }
        }
        Ok(balances)
    }
}

fn unread(symbol: &SafeText) -> SnapshotReadError {
    SnapshotReadError::Doubt(UnknownValue::because(format_args!("the balance of {symbol} could not be read")))
}

/// Reason why the tokens of a payload, or the account's balances of them, are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotReadError {
    /// The chain does not answer, so nothing is known of the tokens.
    #[error(transparent)]
    Chain(ProviderError),
    /// A listed token is not a token here, or Multicall3 does not answer: this is not the chain of the address book, or
    /// the endpoint misdescribes it.
    #[error("{0}")]
    AgainstBook(UnknownValue),
    /// An unlisted address is not a token here.
    #[error("{0}")]
    NoToken(UnknownValue),
    /// The chain answered, and one of the answers cannot be trusted.
    #[error("{0}")]
    Doubt(UnknownValue),
}

impl From<SnapshotReadError> for UnknownValue {
    fn from(read_error: SnapshotReadError) -> Self {
        match read_error {
            SnapshotReadError::Chain(error) => Self::because(error),
            SnapshotReadError::AgainstBook(doubt)
            | SnapshotReadError::NoToken(doubt)
            | SnapshotReadError::Doubt(doubt) => doubt,
        }
    }
}

/// Returns the dollar stablecoins of a network's address book that count as exit assets.
pub fn stables(network: &Network) -> BTreeSet<Address> {
    network.book.stablecoins().map(|token| token.address).collect()
}

fn read_error(error: TokenError) -> SnapshotReadError {
    match error {
        TokenError::Chain(error) => SnapshotReadError::Chain(error),
        other => SnapshotReadError::Doubt(UnknownValue::because(other)),
    }
}

/// Returns every token that the payload names, with its description.
fn named_tokens(payload: &SigningPayload) -> Vec<(TokenId, TokenInfo)> {
    let proposal = payload.proposal();
    let trade = proposal.trade.iter().flat_map(|trade| [&trade.token_in, &trade.token_out]);
    let flows = proposal.outflows.iter().map(|flow| &flow.token);
    let inflows = proposal.inflows.iter().map(|inflow| &inflow.token);
    let allowances = proposal.allowances.iter().map(|bound| &bound.token);
    trade.chain(flows).chain(inflows).chain(allowances).map(|token| (token.id, token.clone())).collect()
}

/// Returns the pool prices of each of `count` tokens, in dollars by the feeds of the tokens that the pools quote in.
async fn means(
    twap: Option<&TwapPrices>,
    observed: Result<Option<ObservedPools>, NoPrice>,
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

/// Combines the price sources of one token. A feed that knows the token must be healthy.
///
/// Two or more pools and the feed have a median, so that a single pool cannot move the price. A single pool counts
/// beside the feed while it is near it, or while it only lags behind a fall. Otherwise the feed outvotes it. Without a
/// feed, the pools' median counts alone.
fn spread(report: &PriceReport, pools: &Result<PoolPrices, NoPrice>, is_stable: bool) -> Result<PriceSpread, SafeText> {
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
        // A stablecoin's pools quote it in a token that moves, so their mean would reflect that token.
        (Some(feed), _) if is_stable => PriceSpread::fed(feed),
        (Some(feed), []) => PriceSpread::fed(feed),
        (Some(feed), [pool]) => {
            let lately = pool.lately.filter(|lately| agrees(*lately, feed));
            let fed = PriceSpread { present: Some(PriceBand::of(feed, lately)), ..PriceSpread::fed(feed) };
            if agrees(pool.usd, feed) || lately.is_some() {
                PriceSpread { all: PriceBand::of(feed, Some(pool.usd)), ..fed }
            } else {
                PriceSpread { outvoted: Some(pool.usd), ..fed }
            }
        }
        (Some(feed), pools) => {
            let all = medians(pools.iter().map(|pool| pool.usd).chain([feed]));
            let lately: Vec<Usd> = pools.iter().filter_map(|pool| pool.lately).collect();
            let present = match lately.as_slice() {
                [] => None,
                [one] => Some(*one).filter(|one| agrees(*one, feed)).map(|one| PriceBand::of(one, None)),
                _ => medians(lately.iter().copied().chain([feed])),
            };
            let with_feed = |band: Option<PriceBand>| {
                let band = band.unwrap_or(PriceBand::of(feed, None));
                PriceBand { highest: band.highest.max(feed), lowest: band.lowest.min(feed) }
            };
            let (all, present) = (with_feed(all), Some(with_feed(present)));
            PriceSpread { all, present, several_pools: true, ..PriceSpread::fed(feed) }
        }
        (None, pools) => match medians(pools.iter().map(|pool| pool.usd)) {
            Some(band) => PriceSpread { several_pools: pools.len() > 1, ..PriceSpread::lagging(band) },
            None => return Err(refuse(&"it has no price feed, and no sufficiently deep and traded pool")),
        },
    };
    if is_stable && !near_a_dollar(spread.all) {
        return Err(refuse(&format_args!(
            "a stablecoin at {} to {} dollars has lost its peg",
            spread.all.lowest, spread.all.highest
        )));
    }
    Ok(spread)
}

/// Returns the lower and the upper median; `None` without prices.
fn medians(prices: impl Iterator<Item = Usd>) -> Option<PriceBand> {
    let mut prices: Vec<Usd> = prices.collect();
    prices.sort();
    let lowest = *prices.get(prices.len().saturating_sub(1) / 2)?;
    let highest = *prices.get(prices.len() / 2)?;
    Some(PriceBand { highest, lowest })
}

/// Returns true if `price` is within [`POOL_TOLERANCE`] of `feed`.
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

/// Returns true if both ends are within [`PEG_TOLERANCE`] of one dollar.
fn near_a_dollar(spread: PriceBand) -> bool {
    let at = |parts: u32| Usd::from_scaled(U256::from(parts), 4);
    match (at(10_000 - PEG_TOLERANCE), at(10_000 + PEG_TOLERANCE)) {
        (Ok(low), Ok(high)) => spread.lowest >= low && spread.highest <= high,
        _ => false,
    }
}

/// Values the account's holdings. A holding with a feed counts to the equity; one that only pools price is valued at
/// the lowest pool price and summed separately. A holding without a price is listed and counts as nothing.
///
/// A liquidity position counts to the equity at its exit value: its amounts at the price of both tokens' feeds, whatever
/// the pool's price is (the formula is in [`golem_protocols::uniswap::positions`], `exit_value`), and what it is owed. One
/// with a token that is not listed or has no feed counts as nothing and is listed, since anybody can give an account a
/// position in tokens of their own making; so does one that a hook does not let out.
///
/// # Errors
/// [`UnknownValue`] if a sum is out of range.
pub fn portfolio(
    balances: &BTreeMap<TokenId, (TokenInfo, U256)>,
    positions: &AccountPositions,
    spreads: &PriceSpreads,
) -> Result<Portfolio, UnknownValue> {
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
        let worth = TokenAmount::new(*amount, token.decimals).map_err(UnknownValue::because)?;
        let value = Usd::value_of(worth, spread.held(), Rounding::Down).map_err(UnknownValue::because)?;
        let sum = if spread.feed.is_some() { &mut portfolio.equity } else { &mut portfolio.by_pools };
        *sum = sum.checked_add(value).map_err(UnknownValue::because)?;
        let highest = Usd::value_of(worth, spread.all.highest, Rounding::Up).map_err(UnknownValue::because)?;
        portfolio.holdings.push(PortfolioHolding { token: token.clone(), amount: *amount, value, highest });
    }
    portfolio.unread_positions = positions.unread;
    for state in &positions.states {
        add_position(&mut portfolio, state, balances, spreads)?;
    }
    Ok(portfolio)
}

/// Adds a liquidity position to the holdings. Empty ones are left out.
fn add_position(
    portfolio: &mut Portfolio,
    state: &PositionState,
    balances: &BTreeMap<TokenId, (TokenInfo, U256)>,
    spreads: &PriceSpreads,
) -> Result<(), UnknownValue> {
    if state.is_empty() {
        return Ok(());
    }
    let ids = state.key.tokens();
    let decimals = ids.map(|id| balances.get(&id).filter(|(token, _)| token.listed).map(|(token, _)| token.decimals));
    let priced =
        |id: TokenId, decimals: Option<u8>| Some(PricedToken { usd: spreads.get(id).ok()?.feed?, decimals: decimals? });
    let prices = priced(ids[0], decimals[0]).zip(priced(ids[1], decimals[1])).map(|(first, second)| [first, second]);
    // What a hook does not let out counts as nothing, and for limits with all that it holds.
    let prices = match state.exit {
        Exit::Open => prices,
        Exit::Untried | Exit::Locked => None,
    };
    let counted = prices.and_then(|prices| Some((state.fair_amounts(prices)?, state.exit_value(prices)?)));
    let amounts = match counted {
        Some((amounts, value)) => {
            portfolio.equity = portfolio.equity.checked_add(value).map_err(UnknownValue::because)?;
            portfolio.positions.push(PositionHolding { id: state.key.id, amounts, value });
            amounts
        }
        None => {
            portfolio.uncounted_positions.push(state.key.id);
            let impossible = "a liquidity position has amounts that no pool can pay";
            state.payable().ok_or_else(|| UnknownValue::because(impossible))?
        }
    };
    for ((id, decimals), raw) in ids.into_iter().zip(decimals).zip(amounts) {
        // A limit on one holding needs the price of that token alone.
        let (Some(decimals), Ok(spread)) = (decimals, spreads.get(id)) else { continue };
        let amount = TokenAmount::new(raw, decimals).map_err(UnknownValue::because)?;
        let usd = Usd::value_of(amount, spread.all.highest, Rounding::Up).map_err(UnknownValue::because)?;
        let sum = portfolio.in_positions.entry(id).or_default();
        *sum = sum.checked_add(usd).map_err(UnknownValue::because)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
