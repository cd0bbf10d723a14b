//! Reader of one chain for the Network screen: new blocks with their activity, then all prices, pools and balances in
//! one `eth_call` through Multicall3, pinned to the newest of those blocks.
//!
//! The caller decides when to read, and provides the chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::consensus::BlockHeader;
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::network::TransactionBuilder;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::bindings::IMulticall3::{self, Call3};
use alloy::providers::{DynProvider, Provider};
use alloy::rpc::types::{Block, TransactionRequest};
use alloy::sol_types::SolCall;
use rust_decimal::Decimal;

use super::activity::activity_of;
use super::arithmetic::{inverted, v2_price, v3_price};
use bardo_abi::erc20::Erc20;
use bardo_abi::uniswap_v2::UniswapV2Pair;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::clock::SystemClock;
use bardo_base::fabric::LiquidationMove;
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use bardo_session::market::{
    BalanceRow, BlockRow, ChainSnapshot, FeedPrice, LendingRow, LendingState, PoolRow, PoolVersion, PositionRow,
    TokenRow,
};
use golem_chain::network::{BookToken, KnownContract, Network};
use golem_chain::price::{FeedPrices, PriceSource, feed_specs};
use golem_chain::token::TokenId;
use golem_protocols::aave::market::{BASE_DECIMALS, MarketContracts, MarketError, MarketState};
use golem_protocols::aave::position::price_moves;
use golem_protocols::aave::receipts::ReceiptTokens;
use golem_protocols::uniswap::positions::{PositionContracts, PositionKeys, PositionState, PricedToken};
use golem_tools::engine::{PaperMode, ToolEnvironment};
use golem_tools::vault::holding;

/// Maximum number of blocks per reading, for the first reading and after a long pause.
const MOST_BLOCKS: usize = 64;

/// Quote tokens, in order of precedence.
const QUOTES: [&str; 4] = ["USDC", "USDT", "DAI", "WETH"];

/// Location of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlace {
    /// Address of the pool.
    pub address: Address,
    /// Protocol version of the pool.
    pub version: PoolVersion,
    /// Fee in hundredths of a basis point.
    pub fee_pips: u32,
    /// Token with the lower address.
    pub token0: Address,
    /// Token with the higher address.
    pub token1: Address,
}

/// A pool whose tokens are both in the address book.
#[derive(Debug, Clone)]
pub(super) struct KnownPool {
    pub(super) place: PoolPlace,
    pub(super) token0: BookToken,
    pub(super) token1: BookToken,
    /// True if token 1 is the one that is priced.
    flipped: bool,
}

/// Errors of reading a chain.
#[derive(Debug, thiserror::Error)]
pub enum MarketReadError {
    /// The chain did not answer.
    #[error("the chain does not respond: {0}")]
    Silent(SafeText),
    /// A block that was just announced does not exist.
    #[error("block {0} no longer exists")]
    NoBlock(u64),
    /// The network has no Multicall3, which batches all reads.
    #[error("the address book has no Multicall3 for {0}")]
    NoMulticall(SafeText),
    /// The answer of Multicall3 cannot be decoded.
    #[error("cannot decode the chain's response: check that Multicall3 is deployed")]
    NoAnswer,
}

/// Reader of one chain.
#[derive(Debug)]
pub struct ChainReader {
    chain: usize,
    provider: DynProvider,
    multicall: Address,
    wallet: Address,
    network: Network,
    pools: Vec<KnownPool>,
    prices: FeedPrices,
    /// Hashes of the newest blocks that were read, to detect reorganisations.
    known: BTreeMap<u64, B256>,
    /// Paper mode: while it is on, the wallet's balances are the paper balances.
    paper: Option<PaperMode>,
    /// Pools and ranges of the wallet's liquidity positions.
    positions: PositionKeys,
    /// Tokens that stand for supplies in the lending market.
    receipts: ReceiptTokens,
    /// Environment that knows the vaults whose shares count; without one, none are read.
    vaults: Option<Arc<ToolEnvironment>>,
}

impl ChainReader {
    /// Reader of the chain at index `chain` of its network. Pools with a token outside the address book are skipped,
    /// because their symbols are untrusted.
    ///
    /// # Errors
    /// [`MarketReadError::NoMulticall`] if the network has none.
    pub fn new(
        chain: usize,
        network: Network,
        provider: DynProvider,
        wallet: Address,
        pools: Vec<PoolPlace>,
    ) -> Result<Self, MarketReadError> {
        let missing = || MarketReadError::NoMulticall(SafeText::clean(&network.name, 40));
        let multicall = network.book.contract(KnownContract::Multicall3).ok_or_else(missing)?;
        let token = |address: Address| network.book.token_at(address).cloned();
        let mut known: Vec<KnownPool> = pools
            .into_iter()
            .filter_map(|place| {
                let (token0, token1) = (token(place.token0)?, token(place.token1)?);
                let flipped = quote_rank(&token0.symbol) < quote_rank(&token1.symbol);
                Some(KnownPool { place, token0, token1, flipped })
            })
            .collect();
        // Pools of one pair are adjacent, in the order in which the pairs were given.
        let pair = |pool: &KnownPool| (pool.place.token0, pool.place.token1);
        let order: Vec<_> = known.iter().map(pair).collect();
        known.sort_by_key(|pool| order.iter().position(|other| *other == pair(pool)));
        let prices =
            FeedPrices::new(provider.clone(), multicall, feed_specs(&network), None, None, Arc::new(SystemClock));
        let (pools, known) = (known, BTreeMap::new());
        let (paper, positions, receipts, vaults) = (None, PositionKeys::default(), ReceiptTokens::default(), None);
        Ok(Self {
            chain,
            provider,
            multicall,
            wallet,
            network,
            pools,
            prices,
            known,
            paper,
            positions,
            receipts,
            vaults,
        })
    }

    /// Shows the paper balances of the wallet while paper mode is on.
    #[must_use]
    pub fn with_paper(self, paper: Option<PaperMode>) -> Self {
        Self { paper, ..self }
    }

    /// Reads the wallet's shares of the vaults that this environment knows.
    #[must_use]
    pub fn with_vaults(self, world: Arc<ToolEnvironment>) -> Self {
        Self { vaults: Some(world), ..self }
    }

    /// Reads the new blocks up to `head`, and the chain's state after them.
    ///
    /// # Errors
    /// A [`MarketReadError`]; the next reading starts at the same block.
    pub async fn read(&mut self, head: u64) -> Result<ChainSnapshot, MarketReadError> {
        let fresh = self.fresh_blocks(head).await?;
        self.snapshot(head, fresh).await
    }

    /// Reads the state again after a block that was already read: paper balances change without a block.
    ///
    /// # Errors
    /// A [`MarketReadError`] if the chain does not answer or the answer is invalid.
    pub async fn read_again(&mut self, head: u64) -> Result<ChainSnapshot, MarketReadError> {
        self.snapshot(head, Vec::new()).await
    }

    async fn snapshot(&mut self, head: u64, fresh: Vec<Block>) -> Result<ChainSnapshot, MarketReadError> {
        let mut activity = Vec::new();
        for block in &fresh {
            let number = block.header.number();
            let id = BlockId::Number(BlockNumberOrTag::Number(number));
            let receipts = self.provider.get_block_receipts(id).await.map_err(silent)?.unwrap_or_default();
            activity.extend(activity_of(self.chain, &self.network, &self.pools, block, &receipts));
        }
        let addresses: Vec<Address> = self.network.book.tokens().iter().map(|token| token.address).collect();
        let quoted = self.prices.prices(&addresses).await;
        let mut prices = BTreeMap::new();
        let mut tokens = Vec::new();
        for (token, quoted) in self.network.book.tokens().iter().zip(quoted) {
            let price = match quoted {
                Ok(price) => {
                    prices.insert(token.address, price.usd);
                    FeedPrice::Live(price.usd)
                }
                Err(reason) => FeedPrice::None(SafeText::clean(&reason.to_string(), 80)),
            };
            tokens.push(TokenRow { symbol: symbol(token), address: token.address, price });
        }
        let ((pools, balances), mut positions, shares, lending) = futures::try_join!(
            self.state_at(head, &prices),
            async { Ok(self.positions_at(head, &prices).await) },
            async { Ok(self.shares_at(head, &prices).await) },
            async { Ok(self.lending_at(head, &prices).await) }
        )?;
        positions.extend(shares);
        for block in &fresh {
            self.known.insert(block.header.number(), block.header.hash);
        }
        while self.known.len() > MOST_BLOCKS {
            self.known.pop_first();
        }
        let blocks = fresh.iter().map(row_of).collect();
        Ok(ChainSnapshot { chain: self.chain, blocks, tokens, pools, balances, positions, lending, activity })
    }

    /// Walks from `head` back to a block whose parent is known; returns the oldest first.
    async fn fresh_blocks(&mut self, head: u64) -> Result<Vec<Block>, MarketReadError> {
        let mut fresh = Vec::new();
        let mut number = head;
        loop {
            let tag = BlockNumberOrTag::Number(number);
            let block = self.provider.get_block_by_number(tag).full().await.map_err(silent)?;
            let block = block.ok_or(MarketReadError::NoBlock(number))?;
            let parent = block.header.parent_hash();
            fresh.push(block);
            let Some(before) = number.checked_sub(1) else { break };
            // A rehearsal does not have the live network's earlier blocks.
            let is_first = self.network.rehearses.is_some_and(|block| before < block.number);
            if is_first || fresh.len() >= MOST_BLOCKS || self.known.get(&before) == Some(&parent) {
                break;
            }
            number = before;
        }
        self.known.retain(|known, _| *known < number);
        fresh.reverse();
        Ok(fresh)
    }

    /// Reads pools and balances at a block, in one call.
    async fn state_at(
        &self,
        block: u64,
        prices: &BTreeMap<Address, Usd>,
    ) -> Result<(Vec<PoolRow>, Vec<BalanceRow>), MarketReadError> {
        let mut calls = Vec::new();
        for pool in &self.pools {
            let address = pool.place.address;
            match pool.place.version {
                PoolVersion::V2 => calls.push(call(address, &UniswapV2Pair::getReservesCall {})),
                PoolVersion::V3 => calls.push(call(address, &UniswapV3Pool::slot0Call {})),
            }
            calls.push(call(pool.token0.address, &Erc20::balanceOfCall { owner: address }));
            calls.push(call(pool.token1.address, &Erc20::balanceOfCall { owner: address }));
        }
        calls.push(call(self.multicall, &IMulticall3::getEthBalanceCall { addr: self.wallet }));
        for token in self.network.book.tokens() {
            calls.push(call(token.address, &Erc20::balanceOfCall { owner: self.wallet }));
        }
        let input = IMulticall3::aggregate3Call { calls }.abi_encode();
        let request = TransactionRequest::default().with_to(self.multicall).with_input(input);
        let output: Bytes = self.provider.call(request).block(BlockId::number(block)).await.map_err(silent)?;
        let answers =
            IMulticall3::aggregate3Call::abi_decode_returns(&output).map_err(|_| MarketReadError::NoAnswer)?;
        let mut answers = answers.into_iter().map(|answer| answer.success.then_some(answer.returnData));
        let pools = self.pools.iter().map(|pool| pool_row(pool, &mut answers, prices)).collect();
        let wrapped = self.network.book.contract(KnownContract::WrappedNative);
        let native = wrapped.and_then(|wrapped| prices.get(&wrapped)).copied();
        let coin = SafeText::clean(self.network.native_symbol, 16);
        let mut balances = Vec::new();
        let shifts = match self.paper.as_ref().and_then(PaperMode::in_force) {
            Some(paper) => paper.ledger.shifts(self.network.chain_id, self.wallet).map_err(silent)?,
            None => Vec::new(),
        };
        let counts = |token: Option<Address>, on_chain: U256| {
            shifts.iter().find(|shift| shift.token == token).map_or(on_chain, |shift| shift.apply(on_chain))
        };
        if let Some(wei) = next::<IMulticall3::getEthBalanceCall>(&mut answers) {
            balances.push(balance_row(coin, TokenAmount::ether(counts(None, wei)), native));
        }
        for token in self.network.book.tokens() {
            let raw = next::<Erc20::balanceOfCall>(&mut answers);
            let raw = raw.map(|raw| counts(Some(token.address), raw));
            let amount = raw.and_then(|raw| TokenAmount::new(raw, token.decimals).ok());
            if let Some(amount) = amount.filter(|amount| !amount.raw().is_zero()) {
                balances.push(balance_row(symbol(token), amount, prices.get(&token.address).copied()));
            }
        }
        Ok((pools, balances))
    }

    /// Reads the wallet's supplies and debts in the lending market at a block; `None` without any. A market that cannot be
    /// read is shown as such, so that the total is seen to lack it.
    async fn lending_at(&self, block: u64, prices: &BTreeMap<Address, Usd>) -> Option<LendingState> {
        let contracts = MarketContracts::of(&self.network).ok()?;
        match self.lent(&contracts, BlockId::number(block)).await {
            Ok(None) => None,
            Ok(Some(state)) => {
                Some(lending_state(&state, &self.network, prices)).filter(|state| !state.rows.is_empty())
            }
            Err(error) => {
                tracing::debug!(%error, "the wallet's supplies and debts cannot be read");
                Some(LendingState::unread())
            }
        }
    }

    async fn lent(&self, contracts: &MarketContracts, block: BlockId) -> Result<Option<MarketState>, MarketError> {
        if self.receipts.is_used(contracts, &self.provider, self.wallet, block).await? != Some(true) {
            return Ok(None);
        }
        contracts.state(&self.provider, self.wallet, block).await.map(Some)
    }

    /// Reads the wallet's shares of vaults at a block, each with what a simulated redemption pays. What cannot be read or
    /// redeemed is a row without a value, so that the total is seen to lack it.
    async fn shares_at(&self, block: u64, prices: &BTreeMap<Address, Usd>) -> Vec<PositionRow> {
        let Some(world) = &self.vaults else { return Vec::new() };
        let Ok(chain) = world.chain(&self.network.chain_id.to_string()) else { return Vec::new() };
        let row = |pair: &str, value, owed| {
            let (name, pair) = (SafeText::clean("Vault", 24), SafeText::clean(pair, 24));
            PositionRow { name, pair, fee_pips: 0, value, owed }
        };
        let held = match holding::read(world, chain, self.wallet, BlockId::number(block)).await {
            Ok(held) => held,
            Err(error) => {
                tracing::debug!(%error, "the wallet's shares of vaults cannot be read");
                return vec![row("not readable", None, Usd::ZERO)];
            }
        };
        let rows = held.iter().map(|one| {
            let Some(token) = self.network.book.token_at(one.asset) else {
                return row("unlisted token", None, Usd::ZERO);
            };
            let pays = one.pays.as_ref().ok().and_then(|pays| TokenAmount::new(*pays, token.decimals).ok());
            let value = pays.zip(prices.get(&token.address).copied());
            let value = value.and_then(|(pays, price)| Usd::value_of(pays, price, Rounding::Down).ok());
            if one.owed.is_zero() {
                return row(&token.symbol, value, Usd::ZERO);
            }
            let amount = TokenAmount::new(one.owed, token.decimals).ok();
            let owed = amount.zip(prices.get(&token.address).copied());
            let owed = owed.and_then(|(owed, price)| Usd::value_of(owed, price, Rounding::Up).ok());
            // What is owed without a price makes the whole row one, so that the total is seen to lack it.
            let value = match (owed, &one.pays) {
                (Some(_), Err(_)) => Some(Usd::ZERO),
                (Some(_), Ok(_)) => value,
                (None, _) => None,
            };
            row(&format!("{} of others", token.symbol), value, owed.unwrap_or_default())
        });
        rows.collect()
    }

    /// Reads the wallet's liquidity positions at a block. What cannot be read is a row without a value, so that the total
    /// is seen to lack it.
    async fn positions_at(&self, block: u64, prices: &BTreeMap<Address, Usd>) -> Vec<PositionRow> {
        let Ok(contracts) = PositionContracts::of(&self.network) else { return Vec::new() };
        let block = BlockId::number(block);
        let without_value = |name: &str, pair: &str| PositionRow {
            name: SafeText::clean(name, 24),
            pair: SafeText::clean(pair, 24),
            fee_pips: 0,
            value: None,
            owed: Usd::ZERO,
        };
        let read = match self.positions.read(contracts, &self.provider, self.wallet, block).await {
            Ok(read) => read,
            Err(error) => {
                tracing::debug!(%error, "the wallet's liquidity positions cannot be read");
                return vec![without_value("LP", "not readable")];
            }
        };
        let held = read.states.iter().filter(|state| !state.is_empty());
        let mut rows: Vec<PositionRow> = held.map(|state| position_row(state, &self.network, prices)).collect();
        if read.unread > 0 {
            rows.push(without_value("LP", &format!("{} more, not read", read.unread)));
        }
        rows
    }
}

/// Supplies and debts of an account, at the feeds' prices. A supply of an unlisted token is left out, which anybody can give
/// the wallet; a debt is listed by its address.
fn lending_state(state: &MarketState, network: &Network, prices: &BTreeMap<Address, Usd>) -> LendingState {
    let tokens = network.book.tokens();
    let listed = |address: Address| tokens.iter().find(|token| token.address == address);
    let name = |address: Address| listed(address).map_or_else(|| SafeText::clean(&address.to_string(), 16), symbol);
    let rows = state.positions.iter().filter_map(|one| {
        let reserve = &one.reserve;
        let supplied = if listed(reserve.asset).is_some() { one.supplied } else { U256::ZERO };
        let amount = |raw| TokenAmount::new(raw, reserve.config.decimals).ok();
        let value = |amount: TokenAmount, rounding| Usd::value_of(amount, *prices.get(&reserve.asset)?, rounding).ok();
        let (supplied, owed) = (amount(supplied)?, amount(one.debt)?);
        let is_empty = supplied.raw().is_zero() && owed.raw().is_zero();
        (!is_empty).then(|| LendingRow {
            symbol: name(reserve.asset),
            supplied,
            supplied_value: value(supplied, Rounding::Down),
            owed,
            owed_value: value(owed, Rounding::Up),
        })
    });
    // In a category, other thresholds hold than the reserves' own.
    let found = if state.category == 0 { price_moves(&state.positions).unwrap_or_default() } else { Vec::new() };
    // Beside a collateral that falls, a dollar that rises is not worth naming.
    let some_falls = found.iter().flatten().any(|found| !found.rises);
    let is_named = |asset: Address, rises: bool| !(rises && some_falls && network.book.is_stablecoin(asset));
    let found = state.positions.iter().zip(found).filter_map(|(one, found)| {
        let found = found.filter(|found| is_named(one.reserve.asset, found.rises))?;
        Some(LiquidationMove {
            symbol: name(one.reserve.asset),
            // A price that would have to more than double is left out.
            fall: BasisPoints::new(found.basis_points).ok()?,
            price: Usd::from_scaled(found.price, BASE_DECIMALS).ok()?,
            rises: found.rises,
        })
    });
    let mut moves: Vec<LiquidationMove> = found.collect();
    moves.sort_by_key(|found| found.fall.get());
    let health = state.sums.and_then(|sums| sums.health_hundredths());
    LendingState { rows: rows.collect(), health, moves, unread: false }
}

/// Row of a position, at the feeds' prices. One with an unlisted token has no value: anybody can give the wallet one.
fn position_row(state: &PositionState, network: &Network, prices: &BTreeMap<Address, Usd>) -> PositionRow {
    let tokens = network.book.tokens();
    let wrapped = network.book.contract(KnownContract::WrappedNative);
    // The wrapped token has the native one's price and decimals.
    let at = |token: TokenId| match token {
        TokenId::Native => wrapped,
        TokenId::Erc20(address) => Some(address),
    };
    let token = |id: TokenId| at(id).and_then(|at| tokens.iter().find(|token| token.address == at));
    let priced = |id: TokenId| Some(PricedToken { usd: *prices.get(&at(id)?)?, decimals: token(id)?.decimals });
    let key = &state.key;
    let [first, second] = key.tokens();
    let pair = priced(first).zip(priced(second));
    let name = |id: TokenId| match id {
        TokenId::Native => network.native_symbol,
        TokenId::Erc20(_) => token(id).map_or("unlisted", |token| token.symbol.as_str()),
    };
    PositionRow {
        name: SafeText::clean(&format!("{} #{}", key.id.version(), key.id.token()), 24),
        pair: SafeText::clean(&format!("{}/{}", name(first), name(second)), 24),
        fee_pips: key.fee,
        value: pair.and_then(|(first, second)| state.exit_value([first, second])),
        owed: Usd::ZERO,
    }
}

/// Precedence of a quote token; lower values are preferred.
fn quote_rank(symbol: &str) -> usize {
    QUOTES.iter().position(|quote| *quote == symbol).unwrap_or(QUOTES.len())
}

pub(super) fn symbol(token: &BookToken) -> SafeText {
    SafeText::clean(&token.symbol, 16)
}

fn silent(error: impl std::fmt::Display) -> MarketReadError {
    MarketReadError::Silent(SafeText::clean(&error.to_string(), 120))
}

fn call<C: SolCall>(target: Address, call: &C) -> Call3 {
    Call3 { target, allowFailure: true, callData: call.abi_encode().into() }
}

/// Next answer; `None` if the call failed or returned an unexpected form.
fn next<C: SolCall>(answers: &mut impl Iterator<Item = Option<Bytes>>) -> Option<C::Return> {
    C::abi_decode_returns_validate(&answers.next()??).ok()
}

fn row_of(block: &Block) -> BlockRow {
    BlockRow {
        number: block.header.number(),
        timestamp: block.header.timestamp(),
        base_fee_wei: block.header.base_fee_per_gas().unwrap_or_default().into(),
        gas_used: block.header.gas_used(),
        gas_limit: block.header.gas_limit(),
        transactions: block.transactions.len(),
    }
}

fn balance_row(symbol: SafeText, amount: TokenAmount, price: Option<Usd>) -> BalanceRow {
    let value = price.and_then(|price| Usd::value_of(amount, price, Rounding::Down).ok());
    BalanceRow { symbol, amount, value }
}

fn pool_row(
    pool: &KnownPool,
    answers: &mut impl Iterator<Item = Option<Bytes>>,
    prices: &BTreeMap<Address, Usd>,
) -> PoolRow {
    let (decimals0, decimals1) = (pool.token0.decimals, pool.token1.decimals);
    let price0 = match pool.place.version {
        PoolVersion::V2 => next::<UniswapV2Pair::getReservesCall>(answers).and_then(|reserves| {
            v2_price(U256::from(reserves.reserve0), U256::from(reserves.reserve1), decimals0, decimals1)
        }),
        PoolVersion::V3 => next::<UniswapV3Pool::slot0Call>(answers)
            .and_then(|slot| v3_price(U256::from(slot.sqrtPriceX96), decimals0, decimals1)),
    };
    let mut worth = |token: &BookToken| {
        let raw = next::<Erc20::balanceOfCall>(answers)?;
        let amount = TokenAmount::new(raw, token.decimals).ok()?;
        Usd::value_of(amount, *prices.get(&token.address)?, Rounding::Down).ok()
    };
    let (worth0, worth1) = (worth(&pool.token0), worth(&pool.token1));
    let (base, quote) = if pool.flipped { (&pool.token1, &pool.token0) } else { (&pool.token0, &pool.token1) };
    let feed_price = decimal(prices.get(&base.address)).zip(decimal(prices.get(&quote.address)));
    PoolRow {
        base: symbol(base),
        quote: symbol(quote),
        version: pool.place.version,
        fee_pips: pool.place.fee_pips,
        address: pool.place.address,
        price: if pool.flipped { price0.and_then(inverted) } else { price0 },
        feed_price: feed_price.and_then(|(base, quote)| base.checked_div(quote)),
        holds: worth0.zip(worth1).and_then(|(one, other)| one.checked_add(other).ok()),
    }
}

fn decimal(price: Option<&Usd>) -> Option<Decimal> {
    price.and_then(|price| price.to_string().parse().ok())
}
