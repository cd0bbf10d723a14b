//! `get_position`: amounts, range, fees and value of liquidity positions.

use alloy::eips::BlockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::lp::history::{TimeInRange, pool_of, time_in_range};
use crate::positions::{self, MOST_POSITIONS, PositionRow};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_protocols::uniswap::positions::PositionId;

/// Definition of the `get_position` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetPosition>();

/// Parameters of `get_position`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42", or a list of up to 100 such numbers.
    position_id: OneOrMany,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Hours before now, from 1 to 72, over which the time in the range is measured from the pool's swaps; for one position.
    /// Without it, that time is not measured.
    history_hours: Option<u64>,
}

/// Maximum number of hours that the time in the range is measured over.
const MOST_HOURS: u64 = 72;

/// One identity, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    /// Identity of one position.
    One(String),
    /// Identities of several positions.
    Many(Vec<String>),
}

/// Result of `get_position`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Number of the block that all figures are from.
    block_number: u64,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Positions in the order of the request.
    positions: Vec<PositionRow>,
    /// Time that the position was in its range; absent if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<TimeInRange>,
}

/// Implementation of `get_position`; see [`TOOL_DEF`].
pub struct GetPosition;

impl ReadTool for GetPosition {
    const META: ToolMeta = ToolMeta {
        name: "get_position",
        description: "Shows liquidity positions of Uniswap V3 and V4, anybody's: range, current amounts and those at both \
                      ends of the range, what can be collected now to the smallest unit, share of the pool's liquidity, \
                      hook, and value; with history_hours also the part of that time that one position was in its range. \
                      Where a hook takes part in a withdrawal, one is simulated; a position that it does \
                      not let out is worth nothing. All figures are from one block.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading positions"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Amounts, range, fees owed and value of a liquidity position.",
        prompt_guidelines: Guidelines {
            thriving: "Look whether a position is in its range and what it earned before you change it.",
            cautious: "Check each position; one outside its range earns nothing.",
            declining: "Use it to decide which position to close first.",
            terminal: "Use it to see what closing would pay.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["position_id", "chain"],
        summary_fields: &["block_number"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"position_id": "1", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let named = match params.position_id {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        };
        if !(1..=MOST_POSITIONS).contains(&named.len()) {
            return Err(invalid("position_id", &format_args!("name 1 to {MOST_POSITIONS} positions")));
        }
        let ids = named.iter().map(|text| text.parse().map_err(|error| invalid("position_id", &error)));
        let ids = ids.collect::<Result<Vec<PositionId>, ToolError>>()?;
        if let Some(hours) = params.history_hours {
            if ids.len() != 1 {
                return Err(invalid("history_hours", &"the time in the range is measured for one position: name one"));
            }
            if !(1..=MOST_HOURS).contains(&hours) {
                return Err(invalid("history_hours", &format_args!("use 1 to {MOST_HOURS} hours")));
            }
        }
        context.step("Reading positions");
        let (head, read) = positions::read(chain, &ids).await?;
        let rows = ids.iter().zip(&read.states).map(|(id, state)| match state {
            Some(state) => read.row(state),
            None => Err(not_found(chain.network(), *id)),
        });
        let rows = rows.collect::<Result<Vec<_>, ToolError>>()?;
        let history = match (params.history_hours, ids.as_slice(), read.states.as_slice()) {
            (Some(hours), [id], [Some(state)]) => {
                let pool = pool_of(chain, state, BlockId::hash(head.hash)).await?;
                Some(time_in_range(chain, &head, (*id, state), &pool, hours).await?)
            }
            _ => None,
        };
        let explanation = match rows.as_slice() {
            [one] => match &history {
                Some(history) => format!("{} {}", one.sentence(), history.sentence()),
                None => one.sentence(),
            },
            many => format!("{} positions on {}.", many.len(), chain.network().name),
        };
        let output = Output {
            chain: chain.network().name.clone(),
            block_number: head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            positions: rows,
            history,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Error for a position that the chain does not have.
pub(crate) fn not_found(network: &golem_chain::network::Network, id: PositionId) -> ToolError {
    ToolError::new(ErrorCode::PositionNotFound, format_args!("there is no {} position {id} on {network}", id.version()))
}
