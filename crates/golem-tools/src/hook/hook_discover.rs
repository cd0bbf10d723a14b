//! `hook_discover`: V4 pools with hooks, from the logs of their creation.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CurrencyRow, MOST_LOGS, MOST_REQUESTS, fee_text, key_of, manager};
use crate::blocks;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply, address};
use crate::market::logs::{LogBudget, LogQuery, read_backwards};
use crate::shared::invalid;
use bardo_abi::uniswap_v4::{PoolKey, PoolManager, StateView};
use bardo_base::contracts::KnownContract;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_chain::multicall::CallBatch;
use golem_chain::token::TokenId;
use golem_protocols::uniswap::hook::permission::permissions_of;

/// Definition of the `hook_discover` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<HookDiscover>();

/// Maximum number of listed pools.
const MOST_POOLS: usize = 50;

/// Parameters of `hook_discover`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Token in each pool: symbol or 0x address; any if absent.
    #[serde(default)]
    token: Option<String>,
    /// Address of the hook; any if absent.
    #[serde(default)]
    hook: Option<String>,
    /// Maximum number of pools, 1 to 50; the newest are listed first.
    #[serde(default = "score")]
    limit: usize,
}

fn score() -> usize {
    20
}

/// Result of `hook_discover`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Number of the block whose state was read.
    block_number: u64,
    /// First block whose logs were read.
    from_block: u64,
    /// True if the logs were read back to the first block.
    complete: bool,
    /// Number of pools with a hook that were found.
    pool_count: usize,
    /// Number of different hooks among them.
    hook_count: usize,
    /// Pools, the newest first, at most `limit`.
    pools: Vec<PoolRow>,
}

/// Pool with a hook.
#[derive(Debug, Serialize, JsonSchema)]
struct PoolRow {
    /// Id of the pool.
    pool_id: String,
    /// First currency of the pool.
    currency0: CurrencyRow,
    /// Second currency of the pool.
    currency1: CurrencyRow,
    /// Fee in hundredths of a basis point; 8388608 if the hook sets it.
    fee: u32,
    /// The same for a reader.
    fee_text: String,
    /// Distance between usable ticks.
    tick_spacing: i32,
    /// Address of the hook.
    hook: String,
    /// Permissions that the hook's address states.
    permissions: Vec<&'static str>,
    /// Number of the block in which the pool was created.
    created_block: u64,
    /// Liquidity in range, in the pool's own unit; absent if it cannot be read.
    liquidity: Option<String>,
}

/// Implementation of `hook_discover`; see [`TOOL_DEF`].
pub struct HookDiscover;

impl ReadTool for HookDiscover {
    const META: ToolMeta = ToolMeta {
        name: "hook_discover",
        description: "Lists Uniswap V4 pools that have a hook, from the logs of their creation, with the permissions that the \
                      hook's address states. What a hook does with them, hook_evaluate shows.",
        category: Category::Hook,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading pools", "Reading liquidity"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Lists V4 pools with hooks and what their hooks may do.",
        prompt_guidelines: Guidelines {
            thriving: "Find pools with a hook that you consider; evaluate each before you use it.",
            cautious: "Prefer pools without a hook.",
            declining: "Not needed: use pools without a hook.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "token", "hook"],
        summary_fields: &["pool_count", "hook_count"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        if !(1..=MOST_POOLS).contains(&params.limit) {
            return Err(invalid("limit", &format_args!("{}; use 1 to {MOST_POOLS}", params.limit)));
        }
        let hook = params.hook.as_deref().map(|hook| address(hook, "hook")).transpose()?;
        let token = match &params.token {
            Some(token) => Some(match chain.token(token).await?.id {
                TokenId::Native => Address::ZERO,
                TokenId::Erc20(token) => token,
            }),
            None => None,
        };
        context.step("Reading pools");
        let head = blocks::newest(chain).await?;
        let query = LogQuery {
            addresses: vec![manager(chain)?],
            events: vec![PoolManager::Initialize::SIGNATURE_HASH],
            first: None,
            second: None,
            third: None,
        };
        let mut budget = LogBudget::new(MOST_REQUESTS, MOST_LOGS);
        let range = read_backwards(chain, &query, (0, head.number), &mut budget, |_| false).await?;
        let found = range.logs.iter().filter_map(|placed| {
            let (id, key) = key_of(&placed.log)?;
            let wanted = !key.hooks.is_zero()
                && hook.is_none_or(|hook| hook == key.hooks)
                && token.is_none_or(|token| [key.currency0, key.currency1].contains(&token));
            wanted.then_some((placed.number, id, key))
        });
        let mut found: Vec<(u64, B256, PoolKey)> = found.collect();
        found.reverse();
        let (pool_count, mut hooks) = (found.len(), BTreeMap::new());
        for (_, _, key) in &found {
            hooks.insert(key.hooks, ());
        }
        found.truncate(params.limit);
        context.step("Reading liquidity");
        let view = chain.network().book.contract(KnownContract::V4StateView);
        let mut calls = CallBatch::default();
        let asked: Vec<_> = found
            .iter()
            .map(|(_, id, _)| Some(calls.push(view?, &StateView::getLiquidityCall { poolId: *id })))
            .collect();
        let answers = chain.ask_at(calls, head.hash).await?;
        let liquidity = asked.iter().map(|asked| asked.as_ref().and_then(|asked| asked.take(&answers)));
        let rows = found.iter().zip(liquidity).map(|((created, id, key), liquidity)| PoolRow {
            pool_id: id.to_string(),
            currency0: CurrencyRow::of(chain, key.currency0),
            currency1: CurrencyRow::of(chain, key.currency1),
            fee: key.fee.to(),
            fee_text: fee_text(key),
            tick_spacing: key.tickSpacing.as_i32(),
            hook: key.hooks.to_string(),
            permissions: permissions_of(key.hooks).iter().map(|one| one.name()).collect(),
            created_block: *created,
            liquidity: liquidity.map(|liquidity| U256::from(liquidity).to_string()),
        });
        let output = Output {
            chain: chain.network().name.clone(),
            block_number: head.number,
            from_block: range.from,
            complete: range.from == 0,
            pool_count,
            hook_count: hooks.len(),
            pools: rows.collect(),
        };
        let pools = if pool_count == 1 { "pool" } else { "pools" };
        let mut explanation = format!("{pool_count} V4 {pools} with a hook on {}.", chain.network().name);
        if !output.complete {
            explanation.push_str(&format!(" Logs were read back to block {} only.", output.from_block));
        }
        Ok(ToolReply::new(output, explanation))
    }
}
