//! Parameters of the eight tools. Unknown fields are rejected.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::memory::EntryKind;

/// Description of one of the eight tools for a brain.
#[derive(Debug, Clone, Copy)]
pub struct AgentTool {
    /// Name of the tool.
    pub name: &'static str,
    /// Description of its effect.
    pub description: &'static str,
    schema: fn() -> Value,
}

impl AgentTool {
    /// Returns the JSON Schema (draft 2020-12) of its parameters.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// Returns the eight tools in the format of a chat completion's `tools`.
    pub fn openai() -> Value {
        let one = |tool: &Self| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.schema()});
            json!({"type": "function", "function": function})
        };
        AGENT_TOOLS.iter().map(one).collect()
    }
}

/// All eight tools.
pub const AGENT_TOOLS: [AgentTool; 8] = [
    AgentTool {
        name: "preview_action",
        description: "Simulates an on-chain action and holds it: every check of the safety pipeline runs and nothing \
                      is signed. Returns a permit, the expected outcome, the bounds and the permit's expiry, or every \
                      rule that the action violates.",
        schema: schema::<PreviewAction>,
    },
    AgentTool {
        name: "commit_action",
        description: "Executes the previewed action once, within its bounds. Needs the permit and its simulation hash. \
                      If operator approval is needed, it waits for it.",
        schema: schema::<CommitAction>,
    },
    AgentTool {
        name: "cancel_action",
        description: "Cancels a previewed action, or one that waits for the operator. An action that is being signed \
                      cannot be cancelled.",
        schema: schema::<CancelAction>,
    },
    AgentTool {
        name: "query_state",
        description: "Reads the chains: balances, prices, pools, quotes, allowances, orders and more. Changes nothing.",
        schema: schema::<QueryState>,
    },
    AgentTool {
        name: "search_context",
        description: "Searches the playbook, the owner's strategy and the current state.",
        schema: schema::<SearchContext>,
    },
    AgentTool {
        name: "query_grimoire",
        description: "Searches memory: past trades, patterns in them, and lessons from them.",
        schema: schema::<QueryGrimoire>,
    },
    AgentTool {
        name: "update_directive",
        description: "Changes a section of the playbook. The change is stored as a delta that the operator can undo. \
                      The strategy belongs to the owner and is never changed.",
        schema: schema::<UpdateDirective>,
    },
    AgentTool {
        name: "emergency_halt",
        description: "Stops all signing except revocations, cancellations and refunds at once, and withdraws every open offer. \
                      Only the operator can lift it; selling holdings then needs operator approval. While the operator \
                      sells everything (flatten), it stops only you and the sales continue.",
        schema: schema::<EmergencyHalt>,
    },
];

/// Parameters of `preview_action`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewAction {
    /// Kind of action, such as "swap".
    pub kind: String,
    /// Parameters of the action, such as {"token_in": "WETH", "token_out": "USDC", "amount": "0.1", "chain":
    /// "ethereum"}.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// Reason in a sentence, shown to the operator.
    #[serde(default)]
    pub why: Option<String>,
}

/// Parameters of `commit_action`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommitAction {
    /// Permit id from preview_action.
    pub permit_id: String,
    /// Simulation hash from the same preview.
    pub simulation_hash: String,
}

/// Parameters of `cancel_action`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelAction {
    /// Permit id of the action.
    pub permit_id: String,
}

/// Parameters of `query_state`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryState {
    /// Query, such as "balances", "price" or "quote".
    pub query: String,
    /// Parameters of the query, such as {"chain": "ethereum"}.
    #[serde(default)]
    pub params: Map<String, Value>,
}

/// Parameters of `search_context`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchContext {
    /// Words to search for.
    pub query: String,
    /// Maximum number of passages.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    pub limit: u32,
}

/// Parameters of `query_grimoire`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryGrimoire {
    /// Words to search for.
    pub query: String,
    /// Restricts the search to this kind of memory.
    #[serde(default)]
    pub kind: Option<EntryKind>,
    /// Maximum number of results.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    pub limit: u32,
}

/// Parameters of `update_directive`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateDirective {
    /// Section of the playbook; a new name creates a section.
    pub section: String,
    /// New text of the section.
    pub text: String,
    /// Reason for the change.
    pub reason: String,
}

/// Parameters of `emergency_halt`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EmergencyHalt {
    /// Reason, shown to the operator.
    pub reason: String,
}

fn ten() -> u32 {
    10
}

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
