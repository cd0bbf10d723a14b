//! The catalog in the forms other programs read. Bardo runs no server of these protocols.

use serde_json::{Value, json};

use super::catalog::Entry;
use bardo_base::model::CapabilityTier;

impl Entry {
    /// Everything about the tool: metadata, schemas, example.
    pub fn describe(&self) -> Value {
        let meta = &self.def.meta;
        json!({
            "name": meta.name,
            "description": meta.description,
            "category": meta.category,
            "capability": meta.capability,
            "risk_tier": meta.risk_tier,
            "tick_budget": {"class": meta.tick_budget, "limit_ms": meta.tick_budget.limit_millis()},
            "progress_steps": meta.progress_steps,
            "sprite_trigger": meta.sprite_trigger,
            "prompt_snippet": meta.prompt_snippet,
            "prompt_guidelines": meta.prompt_guidelines,
            "idempotent": meta.idempotent,
            "action_class": meta.action_class,
            "checks": meta.checks,
            "event_params": meta.event_params,
            "summary_fields": meta.summary_fields,
            "card": meta.card,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "example": self.example,
        })
    }

    /// As an entry of `tools` in OpenAI's chat completions
    /// (<https://platform.openai.com/docs/guides/function-calling>), which has no place for risk.
    pub fn openai(&self) -> Value {
        let meta = &self.def.meta;
        json!({
            "type": "function",
            "function": {
                "name": meta.name,
                "description": meta.description,
                "parameters": self.input_schema,
            },
        })
    }

    /// As a tool of the Model Context Protocol, revision 2025-06-18
    /// (<https://modelcontextprotocol.io/specification/2025-06-18/schema#tool>). The tiers, for which
    /// it has no field, are under `_meta`.
    pub fn mcp(&self) -> Value {
        let meta = &self.def.meta;
        let reads = meta.capability == CapabilityTier::Read;
        json!({
            "name": meta.name,
            "description": meta.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": {
                "readOnlyHint": reads,
                "destructiveHint": !reads,
                "idempotentHint": meta.idempotent,
                "openWorldHint": true,
            },
            "_meta": {
                "bardo/capability": meta.capability,
                "bardo/risk_tier": meta.risk_tier,
            },
        })
    }
}

/// The body of an MCP `tools/list` answer.
pub fn mcp_list<'a>(entries: impl Iterator<Item = &'a Entry>) -> Value {
    json!({"tools": entries.map(Entry::mcp).collect::<Vec<_>>()})
}

/// The value of `tools` in a request to OpenAI's chat completions.
pub fn openai_list<'a>(entries: impl Iterator<Item = &'a Entry>) -> Value {
    entries.map(Entry::openai).collect()
}
