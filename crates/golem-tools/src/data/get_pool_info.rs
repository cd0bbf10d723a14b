//! `get_pool_info`: Uniswap pools of two tokens, with price, fee and holdings.

use alloy::eips::BlockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::shared::{contract_of, per_whole};
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::{CallBatch, CallIndex};
use golem_chain::token::TokenInfo;
use golem_protocols::uniswap::discovery::TickReach;
use golem_protocols::uniswap::pool::Pool;

/// Definition of the `get_pool_info` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetPoolInfo>();

/// Parameters of `get_pool_info`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// First token: symbol or 0x address.
    token_a: String,
    /// Second token: symbol or 0x address.
    token_b: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Fee tier in hundredths of a basis point: 100, 500, 3000 or 10000. If given, only V3 and V4 pools of this tier are
    /// listed.
    #[serde(default)]
    fee_tier: Option<u32>,
}

/// Result of `get_pool_info`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of the first token.
    token_a: String,
    /// Symbol of the second token.
    token_b: String,
    /// Name of the chain.
    chain: String,
    /// Number of the block that was read.
    block_number: u64,
    /// Number of listed pools.
    pool_count: usize,
    /// Pools, ordered by dollar value, largest first.
    pools: Vec<PoolInfo>,
}

/// State of one pool.
#[derive(Debug, Serialize, JsonSchema)]
struct PoolInfo {
    /// Address of the pool; in V4 the hash of its key.
    pool: String,
    /// Uniswap version: `V2`, `V3` or `V4`.
    version: String,
    /// Fee in hundredths of a basis point: 3000 is 0.3 %.
    fee_tier: u32,
    /// Price of the first token in whole second tokens, without the fee.
    price_b_per_a: Option<String>,
    /// Price of the second token in whole first tokens, without the fee.
    price_a_per_b: Option<String>,
    /// Pool's balance of the first token, in whole tokens. A V4 pool has no balance of its own: what its ticks near the
    /// price hold, which is the least.
    held_a: String,
    /// Pool's balance of the second token, in whole tokens; in V4 as for the first.
    held_b: String,
    /// Value of both balances in dollars; absent if a price is missing.
    value_usd: Option<String>,
    /// V3 and V4: liquidity in range, in the protocol's own unit.
    liquidity: Option<String>,
    /// V3 and V4: the current tick.
    tick: Option<i32>,
}

/// Implementation of `get_pool_info`; see [`TOOL_DEF`].
pub struct GetPoolInfo;

impl ReadTool for GetPoolInfo {
    const META: ToolMeta = ToolMeta {
        name: "get_pool_info",
        description: "Lists the Uniswap V2, V3 and V4 pools between two tokens: price, fee, balances, and for V3 and V4 \
                      liquidity and tick. Of V4, only pools with the usual fees and without a hook. All \
                      figures are from one block.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Resolving tokens", "Reading pools", "Reading pool balances"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Pools between two tokens with price, fee and depth. For the output of a trade, request a \
                         quote.",
        prompt_guidelines: Guidelines {
            thriving: "Check depth before sizing a trade; split a trade above 1 % of a pool.",
            cautious: "Check depth before every trade and prefer the deepest pool.",
            declining: "Check the pools of the tokens to exit, the shallowest first.",
            terminal: "Use only when an exit's quote shows a high impact.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["pool_count"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        context.step("Resolving tokens");
        let (token_a, token_b) = futures::try_join!(chain.token(&params.token_a), chain.token(&params.token_b))?;
        let (a, b) = (contract_of(chain, &token_a)?, contract_of(chain, &token_b)?);
        if a == b {
            return Err(ToolError::new(
                ErrorCode::ValidationFailed,
                format_args!(
                    "{} and {} are the same token to a pool; name two different ones",
                    token_a.symbol, token_b.symbol
                ),
            ));
        }
        context.step("Reading pools");
        let snapshot = chain.pools()?.pools(&[a, b], BlockId::latest(), TickReach::Near).await?;
        let wanted = |pool: &Pool| match (params.fee_tier, pool) {
            (None, _) => true,
            (Some(fee), Pool::V3(_) | Pool::V4(_)) => pool.fee() == fee,
            (Some(_), Pool::V2(_)) => false,
        };
        let pools: Vec<(&Pool, bool)> = snapshot.pools.between(a, b).filter(|(pool, _)| wanted(pool)).collect();
        if pools.is_empty() {
            let tier = params.fee_tier.map(|fee| format!(" with fee tier {fee}")).unwrap_or_default();
            return Err(ToolError::new(
                ErrorCode::PoolNotFound,
                format_args!("no pool{tier} between {} and {} on {}", token_a.symbol, token_b.symbol, chain.network()),
            ));
        }
        context.step("Reading pool balances");
        let mut calls = CallBatch::default();
        let held: Vec<_> = pools
            .iter()
            .map(|(pool, _)| {
                [a, b].map(|token| Some(calls.push(token, &Erc20::balanceOfCall { owner: pool.id().contract()? })))
            })
            .collect();
        let tokens = [a, b];
        let ask = chain.ask_at(calls, snapshot.block_hash);
        let (answers, prices) = futures::join!(ask, chain.prices.prices(&tokens));
        let answers = answers?;
        let price = |at: usize| prices.get(at).and_then(|report| report.price.as_ref()).map(|price| price.usd);
        let silent = |token: &TokenInfo| {
            ToolError::new(ErrorCode::TokenInvalid, format_args!("{} does not respond to balanceOf", token.symbol))
        };
        let mut listed = Vec::with_capacity(pools.len());
        let balance = |call: Option<CallIndex<Erc20::balanceOfCall>>, pool: &Pool, address, token: &TokenInfo| {
            let raw = match call {
                Some(call) => call.take(&answers),
                None => pool.held(address),
            };
            let raw = raw.ok_or_else(|| silent(token))?;
            Ok::<_, ToolError>(TokenAmount::new(raw, token.decimals)?)
        };
        for ((pool, a_is_token0), [of_a, of_b]) in pools.into_iter().zip(held) {
            let (of_a, of_b) = (balance(of_a, pool, a, &token_a)?, balance(of_b, pool, b, &token_b)?);
            let worth = |amount, at| price(at).and_then(|price| Usd::value_of(amount, price, Rounding::Down).ok());
            let value = worth(of_a, 0).zip(worth(of_b, 1)).and_then(|(a, b)| a.checked_add(b).ok());
            let state = match pool {
                Pool::V2(_) => None,
                Pool::V3(pool) => Some((pool.state().liquidity, pool.state().tick)),
                Pool::V4(pool) => Some(pool.position()),
            };
            let info = PoolInfo {
                pool: pool.id().to_string(),
                version: pool.version().to_string(),
                fee_tier: pool.fee(),
                price_b_per_a: per_whole(pool.mid_price(a_is_token0), &token_a, &token_b),
                price_a_per_b: per_whole(pool.mid_price(!a_is_token0), &token_b, &token_a),
                held_a: of_a.to_string(),
                held_b: of_b.to_string(),
                value_usd: value.map(|value| value.to_string()),
                liquidity: state.map(|(liquidity, _)| liquidity.to_string()),
                tick: state.map(|(_, tick)| tick),
            };
            listed.push((value, of_a.raw(), info));
        }
        listed.sort_by(|(value, raw, _), (other, other_raw, _)| other.cmp(value).then(other_raw.cmp(raw)));
        let pools: Vec<_> = listed.into_iter().map(|(_, _, info)| info).collect();
        let explanation = format!(
            "{} {} between {} and {} on {}.",
            pools.len(),
            if pools.len() == 1 { "pool" } else { "pools" },
            token_a.symbol,
            token_b.symbol,
            chain.network().name,
        );
        let output = Output {
            token_a: token_a.symbol.to_string(),
            token_b: token_b.symbol.to_string(),
            chain: chain.network().name.clone(),
            block_number: snapshot.block_number,
            pool_count: pools.len(),
            pools,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
