//! `list_pools`: pools of a token or a pair, with fee, depth within 2 % and volume over a window.
//!
//! Pools of V2 and V3 come from the address formula of their factories, so an address that an endpoint or an agent names
//! is listed only if it is one of them.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::blocks::{BlockPoint, first_block_since, is_on_chain};
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply, address};
use crate::market::depth::{PoolDepth, depth};
use crate::market::fixed::Fixed;
use crate::market::logs::{LogBudget, read_backwards};
use crate::market::swaps::{SwapSource, decode, query};
use crate::shared::{contract_of, invalid};
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::CallBatch;
use golem_chain::token::{self, TokenInfo};
use golem_protocols::uniswap::discovery::TickReach;
use golem_protocols::uniswap::pool::Pool;
use golem_protocols::uniswap::ratio::Ratio;

/// Definition of the `list_pools` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<ListPools>();

/// Range of the window of volumes, in hours.
const HOURS: std::ops::RangeInclusive<u64> = 1..=168;
/// Maximum number of listed pools.
const MOST_POOLS: usize = 50;
/// Maximum number of requests for logs, and of logs.
const MOST_REQUESTS: u32 = 40;
const MOST_LOGS: usize = 50_000;

/// Order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SortBy {
    /// Deepest pool first.
    Depth,
    /// Largest volume first.
    Volume,
    /// Lowest fee first.
    Fee,
}

/// Parameters of `list_pools`. Either a token or a pool is required.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token in each pool: symbol or 0x address.
    #[serde(default)]
    token: Option<String>,
    /// Other token: symbol or 0x address; defaults to the chain's wrapped native token and its listed USDC, USDT, DAI and
    /// WBTC.
    #[serde(default)]
    quote: Option<String>,
    /// Address of one pool, to list that pool alone.
    #[serde(default)]
    pool: Option<String>,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Window of the volumes before the newest block, in hours: 1 to 168.
    #[serde(default = "day")]
    volume_hours: u64,
    /// Order of the list.
    #[serde(default = "by_depth")]
    sort_by: SortBy,
    /// Maximum number of pools, 1 to 50.
    #[serde(default = "score")]
    limit: usize,
}

fn day() -> u64 {
    24
}

fn by_depth() -> SortBy {
    SortBy::Depth
}

fn score() -> usize {
    20
}

/// Result of `list_pools`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Number of the block whose state was read.
    block_number: u64,
    /// First block of the volumes.
    volume_from_block: u64,
    /// Requested window of the volumes, in hours.
    volume_hours: u64,
    /// True if the whole window was read; otherwise the volumes are those since `volume_from_block`.
    volume_complete: bool,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Number of pools that were found.
    pool_count: usize,
    /// Listed pools, at most `limit`.
    pools: Vec<PoolRow>,
}

/// Pool with its depth and volume.
#[derive(Debug, Serialize, JsonSchema)]
struct PoolRow {
    /// Address of the pool.
    pool: String,
    /// Uniswap version: `V2` or `V3`.
    version: String,
    /// Fee in hundredths of a basis point: 3000 is 0.3 %.
    fee_tier: u32,
    /// Symbol of the token, as listed; otherwise its address.
    token: String,
    /// Symbol of the other token, as listed; otherwise its address.
    quote: String,
    /// Price of one whole token in whole quote tokens, without fee.
    price: Option<String>,
    /// Amount of the token that can be bought until its price is 2 % higher, without fee.
    buy_depth: Option<String>,
    /// Amount of the quote token that sales of the token bring until its price is 2 % lower, without fee.
    sell_depth: Option<String>,
    /// The smaller of both in dollars; absent without a price.
    depth_usd: Option<String>,
    /// Traded amount of the token, in whole tokens.
    volume: String,
    /// Traded amount of the quote token, in whole tokens.
    quote_volume: String,
    /// Traded amount in dollars, at the present price of the token, or else of the quote token; absent without both.
    volume_usd: Option<String>,
    /// Number of swaps.
    swap_count: u64,
}

/// Implementation of `list_pools`; see [`TOOL_DEF`].
pub struct ListPools;

impl ReadTool for ListPools {
    const META: ToolMeta = ToolMeta {
        name: "list_pools",
        description: "Lists the Uniswap V2 and V3 pools of a token or a pair with fee, price, the amounts that can be \
                      traded within 2 % of the price, and the volume of a window, counted from swap logs. Names an \
                      address as a pool only if the factory's address formula gives it.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading pools", "Reading prices", "Reading swaps"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Pools of a token with depth within 2 %, fee and volume. For the output of a trade, request a \
                         quote.",
        prompt_guidelines: Guidelines {
            thriving: "Find where a token trades before you plan around it.",
            cautious: "Leave a token whose pools are shallow or hardly trade.",
            declining: "Check the depth of what must be sold; sell the shallowest first.",
            terminal: "Use only when an exit's quote shows a high impact.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token", "quote", "pool", "chain"],
        summary_fields: &["pool_count", "volume_complete"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token": "WETH", "chain": "ethereum", "volume_hours": 1})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        if !HOURS.contains(&params.volume_hours) {
            let what = format_args!("{}; use {} to {}", params.volume_hours, HOURS.start(), HOURS.end());
            return Err(invalid("volume_hours", &what));
        }
        if !(1..=MOST_POOLS).contains(&params.limit) {
            return Err(invalid("limit", &format_args!("{}; use 1 to {MOST_POOLS}", params.limit)));
        }
        context.step("Reading pools");
        let scope = Scope::of(chain, &params).await?;
        let tokens: Vec<Address> = [scope.token].into_iter().chain(scope.quote).collect();
        let snapshot = chain.pools()?.pools(&tokens, BlockId::latest(), TickReach::Near).await?;
        let pools: Vec<(&Pool, bool, Address)> =
            snapshot.pools.pools().iter().filter_map(|pool| scope.oriented(pool)).collect();
        if pools.is_empty() {
            let what = format_args!("no such V2 or V3 pool on {}", chain.network());
            let advice = "Name the other token as quote, or check the address.";
            return Err(ToolError::new(ErrorCode::PoolNotFound, what).suggest(advice));
        }
        context.step("Reading prices");
        let known = TokenFacts::read(chain, &pools, scope.token).await?;
        context.step("Reading swaps");
        let head = BlockPoint { number: snapshot.block_number, hash: snapshot.block_hash, time: snapshot.timestamp };
        let since = head.time.saturating_sub(params.volume_hours.saturating_mul(3_600));
        let sources: Vec<SwapSource> =
            pools.iter().filter_map(|(pool, first, _)| SwapSource::new(pool, *first, [0, 0])).collect();
        let volumes = Volumes::read(chain, &sources, since, &head).await?;
        let found = pools.len();
        let mut rows: Vec<(Option<Usd>, Option<Usd>, PoolRow)> = pools
            .into_iter()
            .map(|(pool, first, quote)| known.row(pool, first, (scope.token, quote), &volumes))
            .collect::<Result<_, _>>()?;
        rows.sort_by(|(depth, volume, row), (other_depth, other_volume, other)| {
            let order = match params.sort_by {
                SortBy::Depth => other_depth.cmp(depth),
                SortBy::Volume => other_volume.cmp(volume),
                SortBy::Fee => row.fee_tier.cmp(&other.fee_tier),
            };
            order.then_with(|| other_depth.cmp(depth)).then_with(|| row.pool.cmp(&other.pool))
        });
        rows.truncate(params.limit);
        let output = Output {
            chain: chain.network().name.clone(),
            block_number: head.number,
            volume_from_block: volumes.from_block,
            volume_hours: params.volume_hours,
            volume_complete: volumes.complete,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            pool_count: found,
            pools: rows.into_iter().map(|(_, _, row)| row).collect(),
        };
        let what = if found == 1 { "pool" } else { "pools" };
        let mut explanation = format!("{found} {what} on {}.", chain.network().name);
        if !volumes.complete {
            explanation.push_str(&format!(" Volumes are those since block {} only.", volumes.from_block));
        }
        Ok(ToolReply::new(output, explanation))
    }
}

/// Pools that a call asks for.
struct Scope {
    token: Address,
    quote: Option<Address>,
    pool: Option<Address>,
}

impl Scope {
    /// Resolves the tokens; of a pool that is named alone, its own.
    async fn of(chain: &ConnectedChain, params: &Params) -> Result<Self, ToolError> {
        let pool = params.pool.as_deref().map(|pool| address(pool, "pool")).transpose()?;
        let named = match &params.token {
            Some(token) => Some(contract_of(chain, &chain.token(token).await?)?),
            None => None,
        };
        let quote = match &params.quote {
            Some(quote) => Some(contract_of(chain, &chain.token(quote).await?)?),
            None => None,
        };
        match (named, pool) {
            (Some(token), pool) if quote != Some(token) => Ok(Self { token, quote, pool }),
            (Some(_), _) => Err(invalid("quote", &"it is the same token to a pool; name another one")),
            (None, Some(pool)) => {
                let mut calls = CallBatch::default();
                // V2 pairs have the same two functions.
                let token0 = calls.push(pool, &UniswapV3Pool::token0Call {});
                let token1 = calls.push(pool, &UniswapV3Pool::token1Call {});
                let answers = chain.ask(calls).await?;
                let (Some(token0), Some(token1)) = (token0.take(&answers), token1.take(&answers)) else {
                    let what = format_args!("{pool} on {} does not answer as a pool", chain.network());
                    return Err(ToolError::new(ErrorCode::PoolNotFound, what));
                };
                // Prices are given in the token that the chain lists as a base, if only one is.
                let book = &chain.network().book;
                let first_is_base = book.is_stablecoin(token0) && !book.is_stablecoin(token1);
                let (token, quote) = if first_is_base { (token1, token0) } else { (token0, token1) };
                Ok(Self { token, quote: Some(quote), pool: Some(pool) })
            }
            (None, None) => Err(invalid("token", &"name a token or a pool")),
        }
    }

    /// The pool with its orientation and its other token; `None` if it was not asked for, and for V4 pools, whose swap
    /// logs are not read.
    fn oriented<'a>(&self, pool: &'a Pool) -> Option<(&'a Pool, bool, Address)> {
        let (token0, token1) = pool.tokens();
        let (first, other) = match self.token {
            token if token == token0 => (true, token1),
            token if token == token1 => (false, token0),
            _ => return None,
        };
        let is_wanted = pool.id().contract().is_some()
            && self.quote.is_none_or(|quote| quote == other)
            && self.pool.is_none_or(|address| pool.id() == address.into());
        is_wanted.then_some((pool, first, other))
    }
}

/// Metadata and dollar prices of the tokens of some pools.
struct TokenFacts {
    infos: BTreeMap<Address, TokenInfo>,
    prices: BTreeMap<Address, Usd>,
}

impl TokenFacts {
    async fn read(chain: &ConnectedChain, pools: &[(&Pool, bool, Address)], token: Address) -> Result<Self, ToolError> {
        let tokens: BTreeSet<Address> = pools.iter().map(|(_, _, quote)| *quote).chain([token]).collect();
        let tokens: Vec<Address> = tokens.into_iter().collect();
        let (infos, reports) =
            futures::join!(token::read(&tokens, chain.network(), chain.client.agreed()), chain.prices.prices(&tokens));
        let infos = tokens.iter().copied().zip(infos?).filter_map(|(token, info)| Some((token, info.ok()?)));
        let prices = tokens.iter().copied().zip(reports.iter());
        let prices = prices.filter_map(|(token, report)| Some((token, report.price.as_ref()?.usd)));
        Ok(Self { infos: infos.collect(), prices: prices.collect() })
    }

    fn whole(&self, token: Address, raw: U256) -> Result<TokenAmount, ToolError> {
        let decimals = self.infos.get(&token).map(|info| info.decimals).ok_or_else(|| {
            ToolError::new(ErrorCode::TokenInvalid, format_args!("the contract at {token} does not answer as a token"))
        })?;
        Ok(TokenAmount::new(raw, decimals)?)
    }

    fn value(&self, token: Address, amount: TokenAmount) -> Option<Usd> {
        Usd::value_of(amount, *self.prices.get(&token)?, Rounding::Down).ok()
    }

    fn symbol(&self, token: Address) -> String {
        let listed = self.infos.get(&token).filter(|info| info.listed);
        listed.map_or_else(|| token.to_string(), |info| info.symbol.to_string())
    }

    /// Row of a pool, with its depth and volume in dollars for sorting.
    fn row(
        &self,
        pool: &Pool,
        first: bool,
        (token, quote): (Address, Address),
        volumes: &Volumes,
    ) -> Result<(Option<Usd>, Option<Usd>, PoolRow), ToolError> {
        let depth = depth(pool, first);
        let sides = match depth {
            Some(PoolDepth { base, quote: other }) => Some((self.whole(token, base)?, self.whole(quote, other)?)),
            None => None,
        };
        let depth_usd = sides.and_then(|(base, other)| Some(self.value(token, base)?.min(self.value(quote, other)?)));
        let traded = pool.id().contract().and_then(|address| volumes.of.get(&address)).copied().unwrap_or_default();
        let (volume, quote_volume) = (self.whole(token, traded.base)?, self.whole(quote, traded.quote)?);
        let volume_usd = self.value(token, volume).or_else(|| self.value(quote, quote_volume));
        let ten = |amount: TokenAmount| U256::from(10).checked_pow(U256::from(amount.decimals())).map(Ratio::whole);
        let price = pool.mid_price(first).and_then(|raw| {
            let whole = raw.times(&ten(volume)?).over(&ten(quote_volume)?)?;
            Some(Fixed::price(&whole)?.to_string())
        });
        let row = PoolRow {
            pool: pool.id().to_string(),
            version: pool.version().to_string(),
            fee_tier: pool.fee(),
            token: self.symbol(token),
            quote: self.symbol(quote),
            price,
            buy_depth: sides.map(|(base, _)| base.to_string()),
            sell_depth: sides.map(|(_, other)| other.to_string()),
            depth_usd: depth_usd.map(|value| value.to_string()),
            volume: volume.to_string(),
            quote_volume: quote_volume.to_string(),
            volume_usd: volume_usd.map(|value| value.to_string()),
            swap_count: traded.swaps,
        };
        Ok((depth_usd, volume_usd, row))
    }
}

/// Traded amounts of one pool, in raw units.
#[derive(Debug, Clone, Copy, Default)]
struct Traded {
    base: U256,
    quote: U256,
    swaps: u64,
}

/// Traded amounts of several pools since a block.
struct Volumes {
    of: BTreeMap<Address, Traded>,
    from_block: u64,
    complete: bool,
}

impl Volumes {
    async fn read(
        chain: &ConnectedChain,
        sources: &[SwapSource],
        since: u64,
        head: &BlockPoint,
    ) -> Result<Self, ToolError> {
        let first = first_block_since(chain, since, head).await?;
        let mut budget = LogBudget::new(MOST_REQUESTS, MOST_LOGS);
        let range = read_backwards(chain, &query(sources), (first.number, head.number), &mut budget, |_| false).await?;
        let swaps = decode(chain, sources, &range.logs)?;
        // Logs are requested by number: they are those of this head only if it is still on the chain.
        if !is_on_chain(chain, (head.number, head.hash)).await? {
            let what = format_args!("{} reorganised while its swaps were read", chain.network());
            return Err(ToolError::new(ErrorCode::ChainInconsistent, what).suggest("Try again after the next block."));
        }
        let mut of: BTreeMap<Address, Traded> = BTreeMap::new();
        for swap in swaps {
            let traded = of.entry(swap.pool).or_default();
            traded.base = traded.base.saturating_add(swap.base);
            traded.quote = traded.quote.saturating_add(swap.quote);
            traded.swaps = traded.swaps.saturating_add(1);
        }
        Ok(Self { of, from_block: range.from, complete: range.from <= first.number })
    }
}
