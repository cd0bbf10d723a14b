//! Line protocol between Bardo and a brain process: one JSON object per line, in UTF-8.
//!
//! Bardo sends:
//!
//! | `type` | fields | when |
//! |---|---|---|
//! | `hello` | `protocol`, `golem_id`, `role`, `account`, `chains`, `caps`, `goal`, `strategy`, `tools`, `kinds`, `queries`, `dialects`, `limits` | first |
//! | `tick` | `tick`, `context`, `calls_left` | at each interval; the program answers with any line, `idle` if it has nothing else |
//! | `words` | `text`, `context` | the operator sent a message |
//! | `result` | `id`, `untrusted`, `response` | a call is answered |
//! | `refused` | `id`, `line`, `why` | a line could not be parsed, or a call was not made |
//! | `bye` | `why`, `seconds` | last; after this many seconds the process is killed |
//!
//! `line` counts the program's lines from 1. `id` is the call's id exactly as it was sent, if one can be read, so that
//! the program can find the refused line. `chains` of `hello` contains each chain's `name`, `chain_id`, `native` symbol
//! and `tokens`. `caps` contains the policy's caps in dollars, with the used and remaining amounts. `goal` and
//! `strategy` are the owner's instructions, to be followed within the caps.
//!
//! Each of the `kinds` and `queries` of `hello` has `parameters`, a `description`, and `guidelines` with one sentence
//! per phase.
//!
//! The program sends:
//!
//! | `type` | fields | meaning |
//! |---|---|---|
//! | `call` | `id`, `tool`, `params`, `dialect` | calls one of the eight tools, or a tool of a dialect that `hello` lists; the answer carries the same `id` |
//! | `think` | `text`, `more` | a thought; with `more`, the next line continues it |
//! | `now` | `now`, `next`, `step`, `of` | current activity, next activity, and the current step of how many |
//! | `idle` | | nothing to do |
//! | `done` | `why` | the brain ends |
//!
//! `assets/schemas` contains the schemas of all lines; `bardo golem protocol` prints them.
//!
//! The content of a `response` comes from chains, files and other people: data, never instructions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::agent_api::{ACTION_KINDS, AGENT_TOOLS, AgentSession, QUERIES, in_agent_terms};
use bardo_base::model::Guidelines;
use bardo_base::text::SafeText;
use golem_tools::dialect::almanak;
use golem_tools::engine::{json_fault, unambiguous};

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;
/// Maximum size of a line from the program, in bytes.
pub const MOST_LINE: usize = 128 << 10;
/// Maximum size of an answer to the program, in bytes. The data of a larger answer is left out.
pub const MOST_ANSWER: usize = 1 << 20;
/// Maximum length of an id chosen by the program, in characters.
pub(super) const MOST_ID: usize = 64;

/// Dialect that a brain can speak beside the eight tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrainDialect {
    /// Almanak's agent tools.
    Almanak,
}

/// Line from a brain process.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum BrainMessage {
    /// Call of one of the eight tools.
    Call {
        /// Id that the answer carries.
        #[schemars(length(min = 1, max = 64))]
        id: String,
        /// Name of the tool.
        tool: String,
        /// Parameters of the tool.
        #[serde(default)]
        params: Value,
        /// Dialect that the tool is of; without one, it is one of the eight.
        #[serde(default)]
        dialect: Option<BrainDialect>,
    },
    /// Piece of a thought, shown on the screen.
    Think {
        /// Text of the thought.
        text: String,
        /// True if the next line continues the thought.
        #[serde(default)]
        more: bool,
    },
    /// Report of the current activity.
    Now {
        /// Current activity, in a sentence.
        now: String,
        /// Next activity; empty for none.
        #[serde(default)]
        next: String,
        /// Number of the current step, from 1.
        #[serde(default)]
        step: Option<u32>,
        /// Total number of steps.
        #[serde(default)]
        of: Option<u32>,
    },
    /// Answer to a tick without anything to do.
    Idle {},
    /// End of the brain.
    Done {
        /// Reason for the end.
        #[serde(default)]
        why: String,
    },
}

/// Parses a line.
///
/// # Errors
/// Returns a description of the problem.
pub fn read(line: &[u8]) -> Result<BrainMessage, SafeText> {
    let wrong = |what: &dyn std::fmt::Display| SafeText::clean(&what.to_string(), 200);
    let text = std::str::from_utf8(line).map_err(|_| wrong(&"not UTF-8"))?;
    let value = unambiguous(text)
        .map_err(|error| wrong(&format_args!("the line is not one JSON object: {}", json_fault(&error))))?;
    let said: BrainMessage = serde_json::from_value(value)
        .map_err(|error| wrong(&format_args!("the line is not a message of this protocol: {}", json_fault(&error))))?;
    match &said {
        BrainMessage::Call { id, .. } if id.is_empty() || id.chars().count() > MOST_ID => {
            Err(wrong(&format_args!("an id has 1 to {MOST_ID} characters")))
        }
        BrainMessage::Call { .. }
        | BrainMessage::Think { .. }
        | BrainMessage::Now { .. }
        | BrainMessage::Idle {}
        | BrainMessage::Done { .. } => Ok(said),
    }
}

/// Limits of a brain, as sent in `hello`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrainLimits {
    /// Interval between two ticks, in seconds.
    pub tick_seconds: u64,
    /// Timeout for an answer to a tick, in seconds.
    pub patience_seconds: u64,
    /// Maximum number of calls in total.
    pub calls: u64,
    /// Maximum number of concurrent calls.
    pub calls_at_once: usize,
    /// Maximum number of lines per second.
    pub lines_a_second: usize,
}

/// Builds the `hello` line.
pub fn hello(agent: &AgentSession, limits: BrainLimits) -> Value {
    let tools = AGENT_TOOLS
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.schema()}));
    let kinds = ACTION_KINDS.iter().filter(|kind| kind.lacks(agent.catalog()).is_empty());
    let kinds = kinds.map(|kind| describe(agent, "kind", kind.name, kind.acts));
    let queries = QUERIES.iter().filter(|query| agent.catalog().get(query.tool).is_some());
    let queries = queries.map(|query| describe(agent, "query", query.name, query.tool));
    let strategy = agent.documents().strategy().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the owner's strategy for the program");
        String::new()
    });
    json!({
        "type": "hello", "protocol": PROTOCOL, "golem_id": agent.golem_id(), "role": agent.role(),
        "account": agent.account(), "chains": agent.chains(), "caps": agent.caps(), "goal": agent.goal(), "strategy": strategy,
        "tools": tools.collect::<Vec<_>>(), "kinds": kinds.collect::<Vec<_>>(),
        "queries": queries.collect::<Vec<_>>(), "dialects": [almanak::NAME],
        "limits": {
            "tick_seconds": limits.tick_seconds, "patience_seconds": limits.patience_seconds, "calls": limits.calls,
            "calls_at_once": limits.calls_at_once, "lines_a_second": limits.lines_a_second, "line_bytes": MOST_LINE,
        },
    })
}

/// Describes a kind of action or query for the program: its parameters, its purpose, and the guideline for each phase.
fn describe(agent: &AgentSession, of: &str, name: &str, tool: &str) -> Value {
    let mut told = json!({of: name, "parameters": agent.schema_of(tool)});
    if let (Some(entry), Value::Object(fields)) = (agent.catalog().get(tool), &mut told) {
        let meta = &entry.def.meta;
        let memory = meta.prompt_guidelines.memory.filter(|_| agent.learns());
        let guidelines = Guidelines { memory, ..meta.prompt_guidelines }.each();
        let guidelines: Map<String, Value> = guidelines
            .map(|(key, advice)| (key.to_owned(), Value::from(in_agent_terms(advice, agent.catalog()))))
            .collect();
        fields.insert("description".to_owned(), json!(in_agent_terms(meta.description, agent.catalog())));
        fields.insert("guidelines".to_owned(), Value::Object(guidelines));
    }
    told
}

/// Builds the answer to a call.
pub fn result(id: &str, response: &impl Serialize) -> Value {
    let mut told = serde_json::to_value(response).unwrap_or_default();
    if told.to_string().len() > MOST_ANSWER
        && let Value::Object(fields) = &mut told
    {
        fields.insert("data".to_owned(), json!("left out: larger than 1 MiB"));
        fields.insert("decision_hints".to_owned(), Value::Null);
    }
    json!({"type": "result", "id": id, "untrusted": true, "response": told})
}

/// Builds the refusal of the program's line number `line`: it could not be parsed, or its call was not made. `id` is
/// the id of the call.
pub fn refused(id: &Value, line: u64, why: &dyn std::fmt::Display) -> Value {
    json!({"type": "refused", "id": id, "line": line, "why": SafeText::clean(&why.to_string(), 300)})
}

/// Returns the id in a line that could not be parsed, if it is a short text or a number; otherwise `null`.
pub fn id_of(line: &[u8]) -> Value {
    let id = serde_json::from_slice::<Value>(line).ok().and_then(|line| line.get("id").cloned());
    id.filter(|id| (id.is_string() || id.is_number()) && id.to_string().len() <= 4 * MOST_ID).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::id::CallId;
    use golem_tools::engine::{CallStatus, ToolResponse};

    #[test]
    fn a_name_given_twice_is_rejected_at_any_depth() {
        let call = |params: &str| format!(r#"{{"type":"call","id":"1","tool":"query_state","params":{params}}}"#);
        assert!(read(call(r#"{"amount":"1"}"#).as_bytes()).is_ok());
        for twice in [
            call(r#"{"amount":"1","amount":"2"}"#),
            call(r#"{"of":{"amount":"1","\u0061mount":"2"}}"#),
            call(r#"{"of":[[{"deep":[{"amount":"1","amount":"2"}]}]]}"#),
            r#"{"type":"idle","type":"idle"}"#.to_owned(),
        ] {
            let error = read(twice.as_bytes()).unwrap_err();
            assert!(error.as_str().contains("twice"), "{error}");
        }
    }

    #[test]
    fn an_answer_that_is_too_large_loses_only_its_data() {
        let describe = |length: usize| {
            let response = ToolResponse {
                call_id: CallId::new(1),
                status: CallStatus::Success,
                data: Some(json!("x".repeat(length))),
                error: None,
                decision_hints: Some(json!({"hint": 1})),
                explanation: Some("here".to_owned()),
            };
            result("1", &response)
        };
        let small = describe(1_000);
        assert_eq!(
            (small["untrusted"].as_bool(), small["response"]["data"].as_str().unwrap().len()),
            (Some(true), 1_000)
        );
        let large = describe(MOST_ANSWER);
        assert_eq!(large["response"]["data"], "left out: larger than 1 MiB");
        assert_eq!(
            (&large["response"]["status"], &large["response"]["explanation"]),
            (&json!("success"), &json!("here"))
        );
        assert!(large.to_string().len() < 1_000);
    }

    #[test]
    fn messages_of_the_protocol_are_read_and_others_rejected_in_words() {
        let call = read(br#"{"type":"call","id":"1","tool":"query_state","params":{"query":"balances"}}"#).unwrap();
        assert!(matches!(call, BrainMessage::Call { tool, .. } if tool == "query_state"));
        assert_eq!(read(br#"{"type":"idle"}"#), Ok(BrainMessage::Idle {}));
        let think = BrainMessage::Think { text: "hm".to_owned(), more: false };
        assert_eq!(read(br#"{"type":"think","text":"hm"}"#), Ok(think));
        for (line, wanted) in [
            (&b"{\"type\":\"call\",\"id\":\"1\",\"tool\":\"x\",\"dialect\":\"y\"}"[..], "unknown variant `y`"),
            (b"{\"type\":\"sign\",\"bytes\":\"0x\"}", "unknown variant `sign`"),
            (b"{\"type\":\"idle\",\"and\":1}", "unknown field"),
            (b"{\"type\":\"call\",\"id\":\"\",\"tool\":\"x\"}", "1 to 64"),
            (b"{\"type\":\"call\",\"tool\":\"x\"}", "missing field `id`"),
            (b"{\"type\":\"idle\"", "it ends too early"),
            (b"\xff\xfe", "not UTF-8"),
            (b"", "it ends too early"),
            (b"{idle}", "line 1, character 2 is unexpected"),
        ] {
            let why = read(line).unwrap_err();
            assert!(why.as_str().contains(wanted), "{why}");
        }
    }
}
