//! `list_positions`: liquidity positions of an account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::positions::{self, MOST_POSITIONS, PositionRow, inconsistent};
use crate::shared::invalid;
use alloy::eips::BlockId;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::{counted, dollars};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::Usd;

/// Definition of the `list_positions` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<ListPositions>();

/// Parameters of `list_positions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Account, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
    /// True to list positions without liquidity and without anything to collect as well.
    #[serde(default)]
    include_empty: bool,
    /// Number of positions to skip: those of V3 in the order of the contract, then those of V4 in the order of their numbers.
    #[serde(default)]
    offset: u64,
    /// Maximum number of positions that are read, 1 to 100.
    #[serde(default = "hundred")]
    limit: u64,
}

fn hundred() -> u64 {
    100
}

/// Result of `list_positions`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the account.
    account: String,
    /// Name of the chain.
    chain: String,
    /// Number of the block that all figures are from.
    block_number: u64,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Number of positions of the account, empty ones included.
    position_count: u64,
    /// Number of V4 positions in `position_count` that are not listed, because the endpoint did not return the
    /// events of their blocks; the next call continues.
    unread_count: u64,
    /// Offset of the next call; absent if this one reached the last position.
    next_offset: Option<u64>,
    /// Number of positions that were read and left out because they are empty.
    empty_count: usize,
    /// Value of the listed positions in dollars, without those that have no price.
    total_usd: String,
    /// True if every listed position has a value.
    all_priced: bool,
    /// Positions of the account.
    positions: Vec<PositionRow>,
}

/// Implementation of `list_positions`; see [`TOOL_DEF`].
pub struct ListPositions;

impl ReadTool for ListPositions {
    const META: ToolMeta = ToolMeta {
        name: "list_positions",
        description: "Lists the Uniswap V3 and V4 liquidity positions of the wallet or another account with range, \
                      amounts, what can be collected, and value. All figures are from one block. Positions of V4 are \
                      found by the events with which they came to the account, and their number says whether some are \
                      missing.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Listing positions", "Reading positions"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Liquidity positions of the wallet with range, fees owed and value.",
        prompt_guidelines: Guidelines {
            thriving: "Review them regularly; collect fees when they are worth more than the gas.",
            cautious: "Review them before each change; do not open another one while one is out of its range.",
            declining: "Use it to list what must be closed.",
            terminal: "Use it once to see what is left to close.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "account"],
        summary_fields: &["position_count", "total_usd"],
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
        let account = context.world.account(params.account.as_deref())?;
        if !(1..=MOST_POSITIONS as u64).contains(&params.limit) {
            return Err(invalid("limit", &format_args!("{}; use 1 to {MOST_POSITIONS}", params.limit)));
        }
        context.step("Listing positions");
        let contracts = positions::contracts(chain)?;
        let provider = chain.client.agreed();
        let page = (params.offset, params.limit);
        let listed = async |block| Ok(contracts.owned(provider, account, page, block).await?);
        let (head, listed) = positions::with_head(chain, listed).await?;
        let unreadable = || {
            let what = format_args!("the positions of {account} on {} could not be read in full", chain.network());
            ToolError::new(ErrorCode::ChainInconsistent, what)
        };
        let (of_v3, mut ids) = listed.ok_or_else(unreadable)?;
        let reached = params.offset.saturating_add(params.limit);
        let block = BlockId::hash(head.hash);
        let (keyed, unread) = chain
            .positions()
            .keyed_of(contracts, provider, account, block)
            .await
            .map_err(|error| inconsistent(chain.network(), error))?;
        // The page may begin among the positions of V3 and end among those of V4.
        let skipped = usize::try_from(params.offset.saturating_sub(of_v3)).unwrap_or(usize::MAX);
        let room = usize::try_from(reached.saturating_sub(of_v3.max(params.offset))).unwrap_or(usize::MAX);
        let of_v4 = u64::try_from(keyed.len()).unwrap_or(u64::MAX);
        ids.extend(keyed.into_iter().skip(skipped).take(room));
        let listed = of_v3.saturating_add(of_v4);
        context.step("Reading positions");
        let keys = contracts.keys(provider, &ids, block).await?;
        let read = positions::describe(chain, &contracts, &keys, head).await?;
        let (mut total, mut all_priced, mut empty) = (Usd::ZERO, true, 0);
        let mut rows = Vec::new();
        for state in &read.states {
            let state = state.as_ref().ok_or_else(unreadable)?;
            if state.liquidity == 0 && state.owed == [0, 0] && !params.include_empty {
                empty += 1;
                continue;
            }
            match read.worth(state) {
                Some(usd) => total = total.checked_add(usd).map_err(|error| invalid("account", &error))?,
                None => all_priced = false,
            }
            rows.push(read.row(state)?);
        }
        let what = if rows.len() == 1 { "position" } else { "positions" };
        let mut explanation = format!("{} {what} on {}, worth {}", rows.len(), chain.network().name, dollars(total));
        explanation.push_str(if all_priced { "." } else { ", plus positions without a price." });
        if unread > 0 {
            let more = counted(unread, "more position", "more positions");
            explanation.push_str(&format!(
                " The account has {more} of V4, which could not be read: the endpoints do not tell of old events, or there \
                 are too many."
            ));
        }
        let output = Output {
            account: account.to_string(),
            chain: chain.network().name.clone(),
            block_number: head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            position_count: listed.saturating_add(unread),
            unread_count: unread,
            next_offset: (reached < listed).then_some(reached),
            empty_count: empty,
            total_usd: total.to_string(),
            all_priced,
            positions: rows,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
