//! Dialects: the tool catalogs of other agent frameworks, spoken over the native tools.
//!
//! A dialect is a table ([`DialectTool`]): names, parameters with their defaults, the native tools behind each, and how
//! parameters and results are translated. It implements nothing a second time: every call becomes calls of native tools,
//! which pass the executor, the policy and the pipeline as if they had been made under their own names.
//!
//! | file | holds |
//! |---|---|
//! | `arguments` | parameters of a call, checked against the table |
//! | `native` | the native tools as a dialect calls them |
//! | `response` | envelope of an answer |
//! | [`almanak`] | the dialect of Almanak's agent tools |

pub mod almanak;
mod arguments;
mod native;
mod response;

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::engine::Catalog;
use bardo_base::model::CapabilityTier;

pub use arguments::Arguments;
pub use native::{ExecutorTools, HeldCall, NativeCall, NativeTools};
pub use response::{DialectError, DialectResponse, envelope};

/// Group of a dialect's tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolGroup {
    /// Reading of chains and of the account.
    Data,
    /// Prepares and checks an action without doing it.
    Planning,
    /// Acts on a chain.
    Action,
    /// Keeps the agent's own notes.
    State,
}

/// Risk of a dialect's tool, in the dialect's own words. It decides nothing: the native tool's own tier and the policy do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DialectRisk {
    /// Reads and simulations.
    None,
    /// Changes records of this machine.
    Low,
    /// Movements of money.
    Medium,
    /// Takes on a position, a debt or a contract.
    High,
}

/// Value of a parameter that a call leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// Null, for a parameter that may be absent.
    Null,
    /// Text as it is sent.
    Text(&'static str),
    /// Whole number as it is sent.
    Number(u64),
    /// Decimal number, as it is written.
    Decimal(&'static str),
    /// Boolean as it is sent.
    Flag(bool),
    /// List without entries.
    Empty,
    /// This chain; the session's first chain where the session does not have it.
    Chain(&'static str),
}

impl DefaultValue {
    /// The value in JSON.
    pub fn json(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) | Self::Chain(text) => Value::from(text),
            Self::Number(number) => Value::from(number),
            Self::Decimal(text) => text.parse::<f64>().map_or(Value::Null, Value::from),
            Self::Flag(flag) => Value::from(flag),
            Self::Empty => Value::Array(Vec::new()),
        }
    }
}

/// Kind of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text that is not null.
    Text,
    /// Text that may be null.
    TextOrNull,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// Whole number within these bounds.
    Integer(u64, u64),
    /// Whole number within these bounds, or null.
    IntegerOrNull(u64, u64),
    /// Number of at least zero.
    Decimal,
    /// True or false.
    Flag,
    /// List of texts.
    Texts,
    /// Object that is not null.
    Object,
    /// Object that may be null.
    ObjectOrNull,
    /// List of objects.
    Objects,
}

/// Parameter of a dialect's tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Kind of its value.
    pub kind: ParameterKind,
    /// Value if it is left out; `None` for a required parameter.
    pub default: Option<DefaultValue>,
    /// Meaning of the parameter.
    pub about: &'static str,
}

/// Tool of a dialect: a row of its table.
#[derive(Clone, Copy)]
pub struct DialectTool {
    /// Name of the tool.
    pub name: &'static str,
    /// Description for a model.
    pub description: &'static str,
    /// Group of the tool.
    pub category: ToolGroup,
    /// Risk in the dialect's words.
    pub risk: DialectRisk,
    /// True if repeating a call has no further effect.
    pub idempotent: bool,
    /// Dollars above which the dialect wants a person asked; `None` without such a limit. An action above it that the
    /// policy would do without asking is refused.
    pub approval_above_usd: Option<u32>,
    /// Parameters, in order.
    pub parameters: &'static [Parameter],
    /// Native tools behind it.
    pub native: &'static [&'static str],
    /// Translation of its calls and answers.
    run: almanak::Run,
}

impl fmt::Debug for DialectTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialectTool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DialectTool {
    /// Native tools behind it that `catalog` does not have. While there are any, each call says so.
    pub fn lacks(&self, catalog: &Catalog) -> Vec<&'static str> {
        self.native.iter().copied().filter(|tool| catalog.get(tool).is_none()).collect()
    }

    /// True if a native tool behind it signs.
    pub fn signs(&self, catalog: &Catalog) -> bool {
        self.native.iter().any(|tool| catalog.get(tool).is_some_and(|entry| entry.def.meta.signs()))
    }

    /// Returns the JSON Schema (draft 2020-12) of the parameters.
    pub fn input_schema(&self) -> Value {
        let properties = self.parameters.iter().map(|parameter| (parameter.name.to_owned(), parameter.schema()));
        let required = self.parameters.iter().filter(|parameter| parameter.default.is_none());
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "required": required.map(|parameter| parameter.name).collect::<Vec<_>>(),
            "additionalProperties": false,
        })
    }

    /// Returns everything about the tool, with what it lacks in `catalog`.
    pub fn describe(&self, catalog: &Catalog) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "category": self.category,
            "risk_tier": self.risk,
            "idempotent": self.idempotent,
            "requires_approval_above_usd": self.approval_above_usd,
            "native_tools": self.native,
            "lacks": self.lacks(catalog),
            "input_schema": self.input_schema(),
        })
    }

    /// Exports the tool as an entry of `tools` in OpenAI's chat completions.
    pub fn openai(&self) -> Value {
        json!({
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.input_schema()},
        })
    }

    /// Exports the tool in the format of the Model Context Protocol; see
    /// [`CatalogEntry::mcp`](crate::engine::CatalogEntry::mcp).
    pub fn mcp(&self, catalog: &Catalog) -> Value {
        let is_read =
            |tool: &&str| catalog.get(tool).is_some_and(|entry| entry.def.meta.capability == CapabilityTier::Read);
        let reads = match self.category {
            ToolGroup::Data | ToolGroup::Planning => true,
            ToolGroup::State => self.native.iter().all(is_read),
            ToolGroup::Action => false,
        };
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema(),
            "annotations": {
                "readOnlyHint": reads,
                "destructiveHint": !reads,
                "idempotentHint": self.idempotent,
                "openWorldHint": true,
            },
            "_meta": {"bardo/native_tools": self.native, "bardo/lacks": self.lacks(catalog)},
        })
    }
}

impl Parameter {
    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            ParameterKind::Text => json!({"type": "string"}),
            ParameterKind::TextOrNull => json!({"type": ["string", "null"]}),
            ParameterKind::Choice(choices) => json!({"type": "string", "enum": choices}),
            ParameterKind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            ParameterKind::IntegerOrNull(least, most) => {
                json!({"type": ["integer", "null"], "minimum": least, "maximum": most})
            }
            ParameterKind::Decimal => json!({"type": "number", "minimum": 0}),
            ParameterKind::Flag => json!({"type": "boolean"}),
            ParameterKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            ParameterKind::Object => json!({"type": "object"}),
            ParameterKind::ObjectOrNull => json!({"type": ["object", "null"]}),
            ParameterKind::Objects => json!({"type": "array", "items": {"type": "object"}}),
        };
        if let Value::Object(fields) = &mut schema {
            fields.insert("description".to_owned(), Value::from(self.about));
            if let Some(default) = self.default {
                fields.insert("default".to_owned(), default.json());
            }
        }
        schema
    }
}
