//! Catalog exports in the formats of other programs. Bardo runs no server for these protocols.

use serde_json::{Value, json};

use super::catalog::CatalogEntry;
use bardo_base::model::CapabilityTier;

impl CatalogEntry {
    /// Returns all metadata of the tool, its schemas and its example.
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

    /// Exports the tool as an entry of `tools` in OpenAI's chat completions
    /// (<https://platform.openai.com/docs/guides/function-calling>). The format has no field for risk.
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

    /// Exports the tool in the format of the Model Context Protocol, revision 2025-06-18
    /// (<https://modelcontextprotocol.io/specification/2025-06-18/schema#tool>). The protocol has no field for the
    /// tiers; they are under `_meta`.
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

/// Returns the body of an MCP `tools/list` result.
pub fn mcp_list<'a>(entries: impl Iterator<Item = &'a CatalogEntry>) -> Value {
    json!({"tools": entries.map(CatalogEntry::mcp).collect::<Vec<_>>()})
}

/// Returns the value of `tools` in a request to OpenAI's chat completions.
pub fn openai_list<'a>(entries: impl Iterator<Item = &'a CatalogEntry>) -> Value {
    entries.map(CatalogEntry::openai).collect()
}
