//! `add_liquidity`: opens a liquidity position.

use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::deposits::{self, DepositPlan, Output, Source, Target};
use super::named_pool::NamedPool;
use super::range::RangeWish;
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::positions;
use crate::shared::invalid;
use crate::swap_query::slippage;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::positions::PositionPool;
use golem_protocols::uniswap::v4::liquidity_fault;

/// Definition of the `add_liquidity` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<AddLiquidity>();

/// Parameters of `add_liquidity`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// First token: symbol or 0x address. Prices are of this token.
    token_a: String,
    /// Second token: symbol or 0x address. Prices are in this token.
    token_b: String,
    /// Most of the first token, in whole tokens, or "max". Without it, as much as the other amount needs.
    #[serde(default)]
    amount_a: Option<String>,
    /// Most of the second token, in whole tokens, or "max". Without it, as much as the other amount needs.
    #[serde(default)]
    amount_b: Option<String>,
    /// Fee of the pool in hundredths of a basis point: 100, 500, 3000 or 10000. Needed unless `pool_id` names the pool.
    #[serde(default)]
    fee_tier: Option<u32>,
    /// Uniswap version of the pool: "v3", or "v4" for the pool of this fee without a hook. Of V3 if absent.
    #[serde(default)]
    version: Option<String>,
    /// Id of a V4 pool, as 64 hexadecimal digits with 0x before them, instead of fee and version.
    #[serde(default)]
    pool_id: Option<String>,
    /// Lower price of one whole first token in whole second tokens.
    #[serde(default)]
    price_lower: Option<String>,
    /// Upper price of one whole first token in whole second tokens.
    #[serde(default)]
    price_upper: Option<String>,
    /// Lower tick of the pool, instead of prices.
    #[serde(default)]
    tick_lower: Option<i32>,
    /// Upper tick of the pool, instead of prices.
    #[serde(default)]
    tick_upper: Option<i32>,
    /// Distance of both ends of the range from the pool's price in percent, instead of prices: "10" is from nine to eleven
    /// tenths of the price of the pool's first token.
    #[serde(default)]
    width_pct: Option<String>,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance in basis points, as a bound on the pool's price; the minimum amounts follow from it.
    #[serde(default)]
    slippage_bps: Option<u32>,
}

/// Currency of a V4 pool: the zero address is the native token.
fn currency(token: &TokenInfo) -> Address {
    match token.id {
        TokenId::Native => Address::ZERO,
        TokenId::Erc20(address) => address,
    }
}

/// Implementation of `add_liquidity`; see [`TOOL_DEF`].
pub struct AddLiquidity;

impl WriteTool for AddLiquidity {
    const META: ToolMeta = ToolMeta {
        name: "add_liquidity",
        description: "Opens a Uniswap V3 or V4 liquidity position for the wallet in an existing pool. The range is rounded \
                      outward to the pool's ticks. Both tokens need a price feed, and the pool's price must agree with the \
                      feeds. The position manager is allowed exactly what is deposited, and the allowance is revoked. V3 \
                      pools hold wrapped ETH; V4 pools hold it wrapped or native, as two different pools. The hook of a pool \
                      is evaluated first: a hostile one is refused, and any that takes part in what happens there needs \
                      approval.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Reading pool",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Opens a liquidity position in a price range, with amounts of two tokens.",
        prompt_guidelines: Guidelines {
            thriving: "Open a position only where the expected fees exceed what the price's movement costs; prefer wide \
                       ranges.",
            cautious: "Open small, wide positions in the deepest pools only.",
            declining: "Do not open positions; close those that are out of range.",
            terminal: "Not allowed; close every position.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: deposits::CHECKS,
        event_params: &["token_a", "token_b", "amount_a", "amount_b", "fee_tier", "chain"],
        summary_fields: &["tx_hash", "position_id", "amount0", "amount1"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = DepositPlan;

    fn example() -> Value {
        json!({
            "token_a": "WETH", "token_b": "USDC", "amount_a": "0.1", "fee_tier": 3000, "width_pct": "10",
            "chain": "ethereum",
        })
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, DepositPlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        deposits::refuse_paper(context)?;
        let slippage = slippage(context, params.slippage_bps)?;
        let prices = [params.price_lower, params.price_upper];
        let wish = RangeWish::of(prices, [params.tick_lower, params.tick_upper], params.width_pct)?;
        let (token_a, token_b) = futures::try_join!(chain.token(&params.token_a), chain.token(&params.token_b))?;
        let named = NamedPool::of(params.version.as_deref(), params.fee_tier, params.pool_id.as_deref())?;
        let (a, b) = match named {
            NamedPool::V3(_) => (deposits::contract(&token_a, "token_a")?, deposits::contract(&token_b, "token_b")?),
            NamedPool::V4Fee(_) | NamedPool::V4(_) => (currency(&token_a), currency(&token_b)),
        };
        if a == b {
            return Err(invalid("token_b", &"name another token than the first"));
        }
        let a_is_first = a < b;
        let mut tokens = [(token_a, a), (token_b, b)];
        let mut wished = [params.amount_a.as_deref(), params.amount_b.as_deref()];
        let mut names = ["amount_a", "amount_b"];
        if !a_is_first {
            tokens.reverse();
            wished.reverse();
            names.reverse();
        }
        context.step("Reading pool");
        let contracts = positions::contracts(chain)?;
        let provider = chain.client.agreed();
        let pair = [tokens[0].1, tokens[1].1];
        let read = async |block| named.read(&contracts, provider, pair, block).await;
        let (head, pool) = positions::with_head(chain, read).await?;
        let pool = pool.ok_or_else(|| named.missing([&tokens[0].0.symbol, &tokens[1].0.symbol]))?;
        if let PositionPool::Keyed(key) = pool.pool
            && let Some(what) = liquidity_fault(&key)
        {
            return Err(invalid("pool_id", &format_args!("nothing is deposited in this pool: {what}")));
        }
        let range = wish.ticks(&pool, [tokens[0].0.decimals, tokens[1].0.decimals], a_is_first)?;
        let target = Target {
            id: None,
            pool: pool.pool,
            fee: pool.fee,
            range,
            sqrt_price_x96: pool.sqrt_price_x96,
            head_time: head.time,
        };
        deposits::prepare(context, chain, target, tokens, Source::Wallet(wished, names), slippage).await
    }

    fn output(
        context: &CallContext,
        plan: DepositPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        deposits::output(context, plan, committed)
    }
}
