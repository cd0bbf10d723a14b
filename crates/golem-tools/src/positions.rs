//! Shared parts of the tools for liquidity positions: the state of positions at one block, and their description in whole
//! tokens and dollars.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::Serialize;

use crate::blocks::{self, BlockPoint};
use crate::engine::ConnectedChain;
use crate::shared::per_whole;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::network::{KnownContract, Network};
use golem_chain::token::{self, TokenId, TokenInfo};
use golem_protocols::uniswap::positions::{
    Exit, PositionContracts, PositionId, PositionKey, PositionState, PricedToken, UnreadableSource,
};
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::v3::math::MathError;
use golem_protocols::uniswap::v3::position::price_of;

/// Maximum number of positions that one call describes.
pub(crate) const MOST_POSITIONS: usize = 100;

/// Amounts of both tokens of a pool, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct AmountPair {
    /// Amount of token0.
    pub(crate) amount0: String,
    /// Amount of token1.
    pub(crate) amount1: String,
}

/// Liquidity position at one block.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PositionRow {
    /// Identity of the position: the number of its token, of V4 with `v4:` before it.
    pub(crate) position_id: String,
    /// Uniswap version: `V3` or `V4`.
    version: &'static str,
    /// Account that the position belongs to.
    owner: String,
    /// Address of the pool; its id in V4.
    pool: String,
    /// Fee in hundredths of a basis point: 3000 is 0.3 %; 8388608 if the pool's hook sets it.
    fee_tier: u32,
    /// Address of the pool's hook; absent without one.
    hook: Option<String>,
    /// Prospect of a withdrawal: `open`; `locked` if a simulated withdrawal of all of it reverts or pays less
    /// than the pool owes, because of the pool's hook or a subscriber; `untried` if one of them takes part and no withdrawal
    /// was simulated. Unless it is open, its value is zero.
    exit: &'static str,
    /// Symbol of the pool's first token, as listed; otherwise its address.
    token0: String,
    /// Symbol of the pool's second token, as listed; otherwise its address.
    token1: String,
    /// Addresses of tokens whose contract does not answer as one; their amounts are in raw units, and the prices are those
    /// of raw units. Absent if both answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable_tokens: Vec<String>,
    /// Lower tick of the range.
    tick_lower: i32,
    /// Upper tick of the range.
    tick_upper: i32,
    /// Current tick of the pool.
    tick: i32,
    /// Current price of one whole token0 in whole tokens of token1.
    price: String,
    /// Price at the lower tick.
    price_lower: String,
    /// Price at the upper tick.
    price_upper: String,
    /// True if the price is within the range, so that the position earns fees.
    in_range: bool,
    /// Liquidity of the position, in the pool's units.
    liquidity: String,
    /// Part of the pool's liquidity at the current price that is the position's, in percent; absent outside its range.
    share_pct: Option<String>,
    /// Amounts that a withdrawal would pay now, without fees.
    now: AmountPair,
    /// Amounts at the lower price of the range: all of it is token0.
    at_lower_price: AmountPair,
    /// Amounts at the upper price of the range: all of it is token1.
    at_upper_price: AmountPair,
    /// Amounts that can be collected now: fees, and what was withdrawn before and not collected.
    owed: AmountPair,
    /// Value of `now` and `owed` together, in dollars; absent without a price of each token.
    value_usd: Option<String>,
    /// Value of `owed` in dollars; absent without a price of each token.
    owed_usd: Option<String>,
}

impl PositionRow {
    /// Describes the position in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { position_id, version, token0, token1, .. } = self;
        let place = if self.in_range { "in its range" } else { "out of its range" };
        let value = match (self.exit, self.value_usd.as_deref()) {
            ("open", Some(usd)) => format!("worth ${usd}"),
            ("open", None) => "of unknown value".to_owned(),
            (exit, _) => format!("{exit}: it counts as nothing"),
        };
        format!("{version} position {position_id} in {token0}/{token1} is {place} and {value}.")
    }
}

/// Name of a state for a result.
const fn exit_name(exit: Exit) -> &'static str {
    match exit {
        Exit::Open => "open",
        Exit::Untried => "untried",
        Exit::Locked => "locked",
    }
}

/// Contracts of positions on a chain.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if the address book does not have one of them.
pub(crate) fn contracts(chain: &ConnectedChain) -> Result<PositionContracts, ToolError> {
    PositionContracts::of(chain.network()).map_err(|missing| {
        let what = format_args!("the address book of {} has no {}", chain.network(), missing.name());
        ToolError::new(ErrorCode::ChainUnsupported, what)
    })
}

/// Newest block on which the endpoints agree, and what `question` reads on it. With one endpoint both are asked at once,
/// and `question` may then be answered one block later.
///
/// # Errors
/// The errors of both.
pub(crate) async fn with_head<T, F>(
    chain: &ConnectedChain,
    question: impl FnOnce(BlockId) -> F,
) -> Result<(BlockPoint, T), ToolError>
where
    F: Future<Output = Result<T, ToolError>>,
{
    if chain.client.has_several_endpoints() {
        let head = blocks::newest(chain).await?;
        let answer = question(BlockId::hash(head.hash)).await?;
        return Ok((head, answer));
    }
    futures::try_join!(blocks::newest(chain), question(BlockId::latest()))
}

/// States of positions at one block, in the order of `ids`; `None` for one that does not exist. Two round trips with one
/// endpoint, three with several.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without the contracts, or the provider's error.
pub(crate) async fn read(chain: &ConnectedChain, ids: &[PositionId]) -> Result<(BlockPoint, Described), ToolError> {
    let contracts = contracts(chain)?;
    let provider = chain.client.agreed();
    let (head, keys) = with_head(chain, async |block| Ok(contracts.keys(provider, ids, block).await?)).await?;
    let described = describe(chain, &contracts, &keys, head).await?;
    Ok((head, described))
}

/// States of positions with the tokens and prices that describe them.
pub(crate) struct Described {
    /// States in the order of the request; `None` for a position that does not exist.
    pub(crate) states: Vec<Option<PositionState>>,
    tokens: BTreeMap<Address, TokenInfo>,
    prices: BTreeMap<Address, Usd>,
}

/// Reads the states of these positions at `head`, with tokens and prices, in one round trip.
///
/// # Errors
/// The provider's error.
pub(crate) async fn describe(
    chain: &ConnectedChain,
    contracts: &PositionContracts,
    keys: &[Option<PositionKey>],
    head: BlockPoint,
) -> Result<Described, ToolError> {
    let known: Vec<PositionKey> = keys.iter().copied().flatten().collect();
    let network = chain.network();
    let addresses: BTreeSet<Address> = known.iter().flat_map(|key| [key.token0, key.token1]).collect();
    // The zero address is the native token, which has the price of its wrapped form.
    let wrapped = network.book.contract(KnownContract::WrappedNative).filter(|_| addresses.contains(&Address::ZERO));
    let addresses: BTreeSet<Address> = addresses.into_iter().filter(|one| !one.is_zero()).chain(wrapped).collect();
    let addresses: Vec<Address> = addresses.into_iter().collect();
    let provider = chain.client.agreed();
    let (states, infos, reports) = futures::join!(
        contracts.states(provider, &known, BlockId::hash(head.hash)),
        token::read(&addresses, network, provider),
        chain.prices.prices(&addresses)
    );
    let mut states = states?;
    contracts.try_exits(provider, states.iter_mut().flatten(), BlockId::hash(head.hash)).await;
    let mut states = states.into_iter();
    let states = keys.iter().map(|key| key.and_then(|_| states.next().flatten())).collect();
    // A contract that burns all gas fails the whole request. Anybody can give an account a position in such a token, so
    // listed ones are then read apart, and the others count as unreadable.
    let infos = match infos {
        Ok(infos) => addresses.iter().copied().zip(infos).collect(),
        Err(_) => {
            let book = network.book.tokens();
            let listed: Vec<Address> =
                addresses.iter().copied().filter(|one| book.iter().any(|token| token.address == *one)).collect();
            let infos = token::read(&listed, network, provider).await?;
            listed.into_iter().zip(infos).collect::<Vec<_>>()
        }
    };
    let infos = infos.into_iter().filter_map(|(token, info)| Some((token, info.ok()?)));
    let prices = addresses.iter().copied().zip(reports.iter());
    let prices = prices.filter_map(|(token, report)| Some((token, report.price.as_ref()?.usd)));
    let mut described = Described { states, tokens: infos.collect(), prices: prices.collect() };
    described.tokens.insert(Address::ZERO, TokenInfo::native(network));
    if let Some(price) = wrapped.and_then(|wrapped| described.prices.get(&wrapped).copied()) {
        described.prices.insert(Address::ZERO, price);
    }
    Ok(described)
}

impl Described {
    /// Token of a position.
    ///
    /// # Errors
    /// `TOKEN_INVALID` if it does not answer as a token.
    pub(crate) fn token(&self, address: Address) -> Result<&TokenInfo, ToolError> {
        self.tokens.get(&address).ok_or_else(|| {
            let what = format_args!("the contract at {address} does not answer as a token");
            ToolError::new(ErrorCode::TokenInvalid, what)
        })
    }

    /// Symbol of a listed token, or the address of any other.
    pub(crate) fn symbol(&self, address: Address) -> String {
        let listed = self.tokens.get(&address).filter(|info| info.listed);
        listed.map_or_else(|| address.to_string(), |info| info.symbol.to_string())
    }

    /// A token for its description: one that does not answer has raw units.
    fn described(&self, address: Address) -> TokenInfo {
        self.tokens.get(&address).cloned().unwrap_or_else(|| TokenInfo {
            id: TokenId::Erc20(address),
            symbol: SafeText::default(),
            name: SafeText::default(),
            decimals: 0,
            listed: false,
        })
    }

    /// Both amounts in whole tokens, or in raw units of a token that does not answer.
    ///
    /// # Errors
    /// `TOKEN_INVALID` for an amount that no token has.
    pub(crate) fn pair(&self, key: &PositionKey, [raw0, raw1]: [U256; 2]) -> Result<AmountPair, ToolError> {
        let whole = |token, raw| Ok::<_, ToolError>(TokenAmount::new(raw, self.described(token).decimals)?.to_string());
        Ok(AmountPair { amount0: whole(key.token0, raw0)?, amount1: whole(key.token1, raw1)? })
    }

    /// Value of both amounts in dollars, rounded down; `None` without a price of each token that is not zero.
    pub(crate) fn value(&self, key: &PositionKey, amounts: [U256; 2]) -> Option<Usd> {
        self.value_at(key, amounts, Rounding::Down)
    }

    /// Value of both amounts in dollars; `None` without a price of each token that is not zero.
    pub(crate) fn value_at(&self, key: &PositionKey, amounts: [U256; 2], rounding: Rounding) -> Option<Usd> {
        [key.token0, key.token1].into_iter().zip(amounts).try_fold(Usd::ZERO, |sum, (token, raw)| {
            if raw.is_zero() {
                return Some(sum);
            }
            let amount = TokenAmount::new(raw, self.tokens.get(&token)?.decimals).ok()?;
            sum.checked_add(Usd::value_of(amount, *self.prices.get(&token)?, rounding).ok()?).ok()
        })
    }

    /// Prices and decimals of both tokens of a position; `None` without one of them.
    pub(crate) fn priced(&self, key: &PositionKey) -> Option<[PricedToken; 2]> {
        let of =
            |token| Some(PricedToken { usd: *self.prices.get(&token)?, decimals: self.tokens.get(&token)?.decimals });
        Some([of(key.token0)?, of(key.token1)?])
    }

    /// Value of a position with what it is owed, in dollars, rounded down; zero if it cannot be withdrawn; `None` without a
    /// price.
    pub(crate) fn worth(&self, state: &PositionState) -> Option<Usd> {
        match state.exit {
            Exit::Open => {}
            Exit::Untried | Exit::Locked => return Some(Usd::ZERO),
        }
        let [now0, now1] = state.withdrawn(state.liquidity).ok()?;
        let [owed0, owed1] = state.owed.map(U256::from);
        self.value(&state.key, [now0.checked_add(owed0)?, now1.checked_add(owed1)?])
    }

    /// Description of a position.
    ///
    /// # Errors
    /// `CHAIN_INCONSISTENT` for figures that no pool can have.
    pub(crate) fn row(&self, state: &PositionState) -> Result<PositionRow, ToolError> {
        let key = &state.key;
        let [low, high] = key.range.sqrt_prices().map_err(impossible)?;
        let [at_lower, at_upper] = state.at_bounds().map_err(impossible)?;
        let owed = state.owed.map(U256::from);
        let now = state.withdrawn(state.liquidity).map_err(impossible)?;
        let price = |sqrt: U256| {
            let whole = per_whole(price_of(sqrt), &self.described(key.token0), &self.described(key.token1));
            whole.ok_or_else(|| impossible(MathError::PriceOutOfRange))
        };
        let share = Ratio::of(U256::from(state.liquidity), U256::from(state.pool_liquidity));
        Ok(PositionRow {
            position_id: key.id.to_string(),
            version: key.id.version(),
            owner: state.owner.to_string(),
            pool: key.pool.id().to_string(),
            fee_tier: key.fee,
            hook: key.pool.hook().map(|hook| hook.to_string()),
            exit: exit_name(state.exit),
            token0: self.symbol(key.token0),
            token1: self.symbol(key.token1),
            unreadable_tokens: [key.token0, key.token1]
                .into_iter()
                .filter(|token| !self.tokens.contains_key(token))
                .map(|token| token.to_string())
                .collect(),
            tick_lower: key.range.lower(),
            tick_upper: key.range.upper(),
            tick: state.tick,
            price: price(state.sqrt_price_x96)?,
            price_lower: price(low)?,
            price_upper: price(high)?,
            in_range: state.is_in_range(),
            liquidity: state.liquidity.to_string(),
            share_pct: share.filter(|_| state.is_in_range()).map(|share| share.to_percent(4)),
            now: self.pair(key, now)?,
            at_lower_price: self.pair(key, at_lower)?,
            at_upper_price: self.pair(key, at_upper)?,
            owed: self.pair(key, owed)?,
            value_usd: self.worth(state).map(|usd| usd.to_string()),
            owed_usd: self.value(key, owed).map(|usd| usd.to_string()),
        })
    }
}

/// Liquidity position as a part of an account's holdings.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeldPosition {
    /// Name of the chain.
    chain: String,
    /// Identity of the position: the number of its token, of V4 with `v4:` before it.
    position_id: String,
    /// Symbol of the pool's first token, as listed; otherwise its address.
    token0: String,
    /// Symbol of the pool's second token, as listed; otherwise its address.
    token1: String,
    /// Fee in hundredths of a basis point; 8388608 if the pool's hook sets it.
    fee_tier: u32,
    /// `open`, or `locked` or `untried` if the pool's hook or a subscriber does not let it out, or was not tried: it counts
    /// as nothing then.
    exit: &'static str,
    /// Amounts at the price of both tokens' feeds, with what is owed; absent without both prices.
    amounts: Option<AmountPair>,
    /// Value of `amounts` in dollars; absent without both prices.
    value_usd: Option<String>,
    /// Reason why it has no value; absent otherwise.
    no_value: Option<String>,
    #[serde(skip)]
    value: Option<Usd>,
}

impl HeldPosition {
    /// Value in dollars; `None` without both prices.
    pub(crate) fn value(&self) -> Option<Usd> {
        self.value
    }
}

/// Positions of an account at a block that hold something, with their exit values, and the number of those that were not
/// read. A position with an unlisted token has no value: anybody can give an account one in tokens of their own making.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if they cannot be read in full, or the provider's error.
pub(crate) async fn held_positions(
    chain: &ConnectedChain,
    account: Address,
    block: u64,
) -> Result<(Vec<HeldPosition>, u64), ToolError> {
    let network = chain.network();
    // Where there are no contracts, there are no positions.
    let Ok(contracts) = PositionContracts::of(network) else { return Ok((Vec::new(), 0)) };
    let block = BlockId::number(block);
    let read = chain.positions().read(contracts, chain.client.agreed(), account, block).await;
    let read = read.map_err(|error| inconsistent(network, error))?;
    let held: Vec<&PositionState> = read.states.iter().filter(|state| !state.is_empty()).collect();
    let listed = network.book.tokens();
    let wrapped = network.book.contract(KnownContract::WrappedNative);
    // The wrapped token has the native one's price and decimals.
    let at = |token: TokenId| match token {
        TokenId::Native => wrapped,
        TokenId::Erc20(address) => Some(address),
    };
    let known = |token: TokenId| at(token).and_then(|at| listed.iter().find(|token| token.address == at));
    let tokens: BTreeSet<TokenId> = held.iter().flat_map(|state| state.key.tokens()).collect();
    let tokens: BTreeSet<Address> = tokens.into_iter().filter_map(|token| Some(known(token)?.address)).collect();
    let tokens: Vec<Address> = tokens.into_iter().collect();
    let reports = chain.prices.prices(&tokens).await;
    let prices = tokens.into_iter().zip(reports);
    let prices: BTreeMap<Address, Usd> =
        prices.filter_map(|(token, report)| Some((token, report.price.as_ref()?.usd))).collect();
    let priced =
        |token: TokenId| Some(PricedToken { usd: *prices.get(&at(token)?)?, decimals: known(token)?.decimals });
    let row = |state: &&PositionState| {
        let key = &state.key;
        let [first, second] = key.tokens();
        let symbol = |token: TokenId| match token {
            TokenId::Native => network.native_symbol.to_owned(),
            TokenId::Erc20(address) => known(token).map_or_else(|| address.to_string(), |one| one.symbol.clone()),
        };
        let pair = priced(first).zip(priced(second)).map(|(first, second)| [first, second]);
        let counted = pair.and_then(|pair| {
            let [raw0, raw1] = state.fair_amounts(pair)?;
            let whole = |raw, token: PricedToken| Some(TokenAmount::new(raw, token.decimals).ok()?.to_string());
            let amounts = AmountPair { amount0: whole(raw0, pair[0])?, amount1: whole(raw1, pair[1])? };
            Some((amounts, state.exit_value(pair)?))
        });
        let (amounts, value) = counted.unzip();
        let without = [first, second].into_iter().find(|token| priced(*token).is_none());
        let no_value = without.map(|token| match known(token) {
            Some(token) => format!("{} has no price", token.symbol),
            None => format!("{} is not a listed token", symbol(token)),
        });
        HeldPosition {
            chain: network.name.clone(),
            position_id: key.id.to_string(),
            token0: symbol(first),
            token1: symbol(second),
            fee_tier: key.fee,
            exit: exit_name(state.exit),
            amounts,
            value_usd: value.map(|usd: Usd| usd.to_string()),
            no_value,
            value,
        }
    };
    Ok((held.iter().map(row).collect(), read.unread))
}

/// Error for positions that cannot be read.
pub(crate) fn inconsistent(network: &Network, error: UnreadableSource) -> ToolError {
    match error {
        UnreadableSource::Chain(error) => error.into(),
        UnreadableSource::Unreadable(error) => {
            ToolError::new(ErrorCode::ChainInconsistent, format_args!("{network}: {error}"))
        }
    }
}

/// Error for figures of an endpoint that no pool can have.
pub(crate) fn impossible(error: MathError) -> ToolError {
    ToolError::new(ErrorCode::ChainInconsistent, format_args!("the position's figures are impossible: {error}"))
}
