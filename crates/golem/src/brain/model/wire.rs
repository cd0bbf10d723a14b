//! Request and response formats of the two supported chat APIs. A dialogue becomes a request body, and the pieces of a
//! streamed answer become one [`ModelAnswer`]. The module does no I/O; input that it does not understand is an error,
//! never a guess.

use serde_json::{Value, json};

use crate::agent_api::{AGENT_TOOLS, AgentTool};

/// Maximum size of one call's arguments, in bytes.
const MOST_ARGUMENTS: usize = 64 << 10;
/// Maximum size of an answer's text, in bytes.
const MOST_TEXT: usize = 64 << 10;
/// Maximum number of calls in one answer.
const MOST_CALLS: usize = 8;
/// Maximum length of a call's id and of a tool's name, in bytes.
const MOST_NAME: usize = 128;

/// API style of a chat endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiStyle {
    /// OpenAI's `POST /chat/completions`, which many endpoints support.
    Openai,
    /// Anthropic's `POST /messages`.
    Anthropic,
}

/// Tool call of the model. The arguments are the model's text, which need not be JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ModelToolCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// Answer of the model, as far as it has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ModelAnswer {
    pub(super) text: String,
    pub(super) calls: Vec<ModelToolCall>,
    /// Total tokens reported by the endpoint; zero without a report.
    pub(super) tokens: u64,
    /// Tokens of the answer, included in `tokens`.
    pub(super) written: u64,
    /// Refusal to answer, with the model's reason; empty if it gives none.
    pub(super) refusal: Option<String>,
    /// True once the endpoint has marked the end.
    pub(super) ended: bool,
}

/// Turn of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DialogueTurn {
    /// Message to the model.
    User(String),
    /// Answer of the model.
    Model(ModelAnswer),
    /// Results of its calls, as pairs of call id and text, in the order of the calls.
    Results(Vec<(String, String)>),
}

/// Error in a piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    /// Piece that is not JSON.
    #[error("a piece that is not JSON")]
    NotJson,
    /// Error reported by the endpoint.
    #[error("the endpoint aborted it: {0}")]
    Fault(String),
    /// Exceeded limit of an answer.
    #[error("{0}")]
    TooMuch(&'static str),
}

impl ApiStyle {
    /// Returns the style for a configured name; [`Self::Openai`] for unknown names.
    pub fn named(name: &str) -> Self {
        if name == "anthropic" { Self::Anthropic } else { Self::Openai }
    }

    /// Path of the chat endpoint, relative to the base URL.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Openai => "chat/completions",
            Self::Anthropic => "messages",
        }
    }

    /// Builds the body of a request.
    pub(super) fn request(self, model: &str, system: &str, turns: &[DialogueTurn], most_tokens: u64) -> Value {
        match self {
            Self::Openai => {
                let mut messages = vec![json!({"role": "system", "content": system})];
                for turn in turns {
                    openai_turn(turn, &mut messages);
                }
                json!({
                    "model": model, "messages": messages, "tools": AgentTool::openai(), "max_tokens": most_tokens,
                    "stream": true, "stream_options": {"include_usage": true},
                })
            }
            Self::Anthropic => {
                let tool = |tool: &AgentTool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema()});
                json!({
                    "model": model, "system": system, "messages": turns.iter().map(anthropic_turn).collect::<Vec<_>>(),
                    "tools": AGENT_TOOLS.iter().map(tool).collect::<Vec<_>>(), "max_tokens": most_tokens, "stream": true,
                })
            }
        }
    }

    /// Adds a piece to an answer and returns the new text in it.
    ///
    /// # Errors
    /// [`WireError`] if the piece is malformed, reports an error or exceeds a limit.
    pub(super) fn take(self, piece: &[u8], answer: &mut ModelAnswer) -> Result<String, WireError> {
        if self == Self::Openai && piece == b"[DONE]" {
            answer.ended = true;
            return Ok(String::new());
        }
        let piece: Value = serde_json::from_slice(piece).map_err(|_| WireError::NotJson)?;
        if let Some(fault) = piece.get("error").filter(|fault| !fault.is_null()) {
            let said = fault.get("message").and_then(Value::as_str).unwrap_or("no reason given");
            return Err(WireError::Fault(said.to_owned()));
        }
        let text = match self {
            Self::Openai => openai_piece(&piece, answer)?,
            Self::Anthropic => anthropic_piece(&piece, answer)?,
        };
        if answer.text.len().saturating_add(text.len()) > MOST_TEXT {
            return Err(WireError::TooMuch("more than 64 KiB of text"));
        }
        answer.text.push_str(&text);
        Ok(text)
    }
}

fn openai_turn(turn: &DialogueTurn, messages: &mut Vec<Value>) {
    match turn {
        DialogueTurn::User(text) => messages.push(json!({"role": "user", "content": text})),
        DialogueTurn::Model(answer) => {
            let call = |asked: &ModelToolCall| {
                json!({"id": asked.id, "type": "function",
                    "function": {"name": asked.tool, "arguments": asked.arguments}})
            };
            let calls: Vec<Value> = answer.calls.iter().map(call).collect();
            let mut message = json!({"role": "assistant", "content": answer.text});
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls);
            }
            messages.push(message);
        }
        DialogueTurn::Results(results) => {
            let one = |(id, text): &(String, String)| json!({"role": "tool", "tool_call_id": id, "content": text});
            messages.extend(results.iter().map(one));
        }
    }
}

fn anthropic_turn(turn: &DialogueTurn) -> Value {
    match turn {
        DialogueTurn::User(text) => json!({"role": "user", "content": text}),
        DialogueTurn::Model(answer) => {
            let mut content = Vec::new();
            if !answer.text.trim().is_empty() {
                content.push(json!({"type": "text", "text": answer.text}));
            }
            content.extend(answer.calls.iter().map(|asked| {
                // The API accepts only objects. For other arguments, the result tells the model about the error.
                let input = serde_json::from_str(&asked.arguments).ok().filter(Value::is_object);
                json!({"type": "tool_use", "id": asked.id, "name": asked.tool, "input": input.unwrap_or(json!({}))})
            }));
            json!({"role": "assistant", "content": content})
        }
        DialogueTurn::Results(results) => {
            let one =
                |(id, text): &(String, String)| json!({"type": "tool_result", "tool_use_id": id, "content": text});
            json!({"role": "user", "content": results.iter().map(one).collect::<Vec<_>>()})
        }
    }
}

fn openai_piece(piece: &Value, answer: &mut ModelAnswer) -> Result<String, WireError> {
    if let Some(tokens) = piece["usage"]["total_tokens"].as_u64() {
        answer.tokens = answer.tokens.max(tokens);
    }
    let choice = &piece["choices"][0];
    if let Some(reason) = choice["finish_reason"].as_str() {
        answer.ended = true;
        if reason == "content_filter" {
            answer.refusal.get_or_insert_default();
        }
    }
    let delta = &choice["delta"];
    if let Some(refusal) = delta["refusal"].as_str() {
        let said = answer.refusal.get_or_insert_default();
        if said.len().saturating_add(refusal.len()) > MOST_TEXT {
            return Err(WireError::TooMuch("more than 64 KiB of text"));
        }
        said.push_str(refusal);
    }
    for call in delta["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let at = call["index"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        let asked = slot(answer, at)?;
        add(&mut asked.id, &call["id"], MOST_NAME)?;
        add(&mut asked.tool, &call["function"]["name"], MOST_NAME)?;
        add(&mut asked.arguments, &call["function"]["arguments"], MOST_ARGUMENTS)?;
    }
    Ok(delta["content"].as_str().unwrap_or_default().to_owned())
}

fn anthropic_piece(piece: &Value, answer: &mut ModelAnswer) -> Result<String, WireError> {
    match piece["type"].as_str().unwrap_or_default() {
        "message_start" => count_anthropic(&piece["message"]["usage"], answer),
        "message_delta" => {
            count_anthropic(&piece["usage"], answer);
            if piece["delta"]["stop_reason"] == "refusal" {
                answer.refusal.get_or_insert_default();
            }
        }
        "message_stop" => answer.ended = true,
        "content_block_start" if piece["content_block"]["type"] == "tool_use" => {
            let at = answer.calls.len();
            let asked = slot(answer, at)?;
            add(&mut asked.id, &piece["content_block"]["id"], MOST_NAME)?;
            add(&mut asked.tool, &piece["content_block"]["name"], MOST_NAME)?;
        }
        "content_block_delta" if piece["delta"]["type"] == "text_delta" => {
            return Ok(piece["delta"]["text"].as_str().unwrap_or_default().to_owned());
        }
        "content_block_delta" if piece["delta"]["type"] == "input_json_delta" => {
            // Blocks arrive one after another, so a piece belongs to the last call.
            let last = answer.calls.last_mut().ok_or(WireError::TooMuch("arguments without a call"))?;
            add(&mut last.arguments, &piece["delta"]["partial_json"], MOST_ARGUMENTS)?;
        }
        _ => {}
    }
    Ok(String::new())
}

/// Counts tokens as <https://docs.anthropic.com/en/api/messages-streaming> reports them: each count is cumulative for
/// the whole message, and cached input is reported separately from other input.
fn count_anthropic(usage: &Value, answer: &mut ModelAnswer) {
    const READ: [&str; 3] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let of = |name: &str| usage[name].as_u64().unwrap_or(0);
    let read = READ.iter().fold(0_u64, |sum, name| sum.saturating_add(of(name)));
    let read = read.max(answer.tokens.saturating_sub(answer.written));
    answer.written = answer.written.max(of("output_tokens"));
    answer.tokens = read.saturating_add(answer.written);
}

/// Returns the call at this index of an answer; creates it if it is the next one.
fn slot(answer: &mut ModelAnswer, at: usize) -> Result<&mut ModelToolCall, WireError> {
    if at >= MOST_CALLS || at > answer.calls.len() {
        return Err(WireError::TooMuch("more than 8 calls in one answer, or calls out of order"));
    }
    if at == answer.calls.len() {
        answer.calls.push(ModelToolCall::default());
    }
    answer.calls.get_mut(at).ok_or(WireError::TooMuch("calls out of order"))
}

fn add(to: &mut String, piece: &Value, most: usize) -> Result<(), WireError> {
    let piece = piece.as_str().unwrap_or_default();
    if to.len().saturating_add(piece.len()) > most {
        return Err(WireError::TooMuch("a call with more than 64 KiB of arguments or an invalid name"));
    }
    to.push_str(piece);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(style: ApiStyle, pieces: &[&str]) -> Result<ModelAnswer, WireError> {
        let mut answer = ModelAnswer::default();
        for piece in pieces {
            style.take(piece.as_bytes(), &mut answer)?;
        }
        Ok(answer)
    }

    fn asked() -> ModelAnswer {
        let call =
            ModelToolCall { id: "c1".into(), tool: "query_state".into(), arguments: "{\"query\":\"balances\"}".into() };
        ModelAnswer {
            text: "Let me look.".into(),
            calls: vec![call],
            tokens: 30,
            ended: true,
            ..ModelAnswer::default()
        }
    }

    #[test]
    fn both_apis_answers_parse_to_the_same() {
        let openai = [
            r#"{"choices":[{"delta":{"role":"assistant","content":"Let me"}}]}"#,
            r#"{"choices":[{"delta":{"content":" look."}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"query_state","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"query\":"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"balances\"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}"#,
            "[DONE]",
        ];
        assert_eq!(answer(ApiStyle::Openai, &openai).unwrap(), asked());
        let anthropic = [
            r#"{"type":"message_start","message":{"usage":{"input_tokens":20,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me look."}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"query_state","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"balances\"}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":10}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        assert_eq!(answer(ApiStyle::Anthropic, &anthropic).unwrap(), ModelAnswer { written: 10, ..asked() });
    }

    /// Figures of the example in <https://docs.anthropic.com/en/api/messages-streaming>, and a variant with a cache.
    #[test]
    fn tokens_are_counted_as_each_endpoint_reports_them() {
        let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":472,"output_tokens":2}}}"#;
        let end = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":89}}"#;
        assert_eq!(answer(ApiStyle::Anthropic, &[start, end]).unwrap().tokens, 472 + 89);
        let cached = r#"{"type":"message_start","message":{"usage":{"input_tokens":4,"output_tokens":1,
            "cache_creation_input_tokens":100,"cache_read_input_tokens":2000}}}"#;
        assert_eq!(answer(ApiStyle::Anthropic, &[cached, end]).unwrap().tokens, 4 + 100 + 2_000 + 89);
        let openai = r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}"#;
        assert_eq!(answer(ApiStyle::Openai, &[openai]).unwrap().tokens, 30);
        assert_eq!(answer(ApiStyle::Openai, &["[DONE]"]).unwrap().tokens, 0, "not reported");
    }

    #[test]
    fn a_refusal_is_distinguished_from_an_answer() {
        let refusals = [
            r#"{"choices":[{"delta":{"refusal":"I can't "}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"help with that."}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        ];
        assert_eq!(answer(ApiStyle::Openai, &refusals).unwrap().refusal.as_deref(), Some("I can't help with that."));
        let filtered = r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;
        assert_eq!(answer(ApiStyle::Openai, &[filtered]).unwrap().refusal.as_deref(), Some(""));
        let stopped = r#"{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":3}}"#;
        assert_eq!(answer(ApiStyle::Anthropic, &[stopped]).unwrap().refusal.as_deref(), Some(""));
        let ends = r#"{"choices":[{"delta":{"refusal":null,"content":"Yes."},"finish_reason":"stop"}]}"#;
        assert_eq!(answer(ApiStyle::Openai, &[ends]).unwrap().refusal, None);
    }

    #[test]
    fn a_dialogue_is_sent_in_the_shape_of_each_api() {
        let turns = [
            DialogueTurn::User("now".into()),
            DialogueTurn::Model(asked()),
            DialogueTurn::Results(vec![("c1".to_owned(), "data".to_owned())]),
        ];
        let openai = ApiStyle::Openai.request("m", "be careful", &turns, 100);
        let roles: Vec<_> = openai["messages"].as_array().unwrap().iter().map(|one| one["role"].clone()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(openai["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"query\":\"balances\"}");
        assert_eq!(
            (&openai["messages"][3]["tool_call_id"], openai["tools"].as_array().unwrap().len()),
            (&json!("c1"), 8)
        );
        let anthropic = ApiStyle::Anthropic.request("m", "be careful", &turns, 100);
        assert_eq!(anthropic["system"], "be careful");
        assert_eq!(anthropic["messages"][1]["content"][1]["input"], json!({"query": "balances"}));
        assert_eq!(anthropic["messages"][2]["content"][0]["tool_use_id"], "c1");
        assert_eq!(anthropic["tools"].as_array().unwrap().len(), 8);
        assert_eq!(anthropic["tools"][0]["input_schema"]["type"], "object");
    }

    #[test]
    fn an_answer_of_another_shape_is_rejected() {
        for style in [ApiStyle::Openai, ApiStyle::Anthropic] {
            assert_eq!(answer(style, &["{"]), Err(WireError::NotJson));
            let fault = answer(style, &[r#"{"type":"error","error":{"message":"overloaded"}}"#]);
            assert_eq!(fault, Err(WireError::Fault("overloaded".into())));
        }
        // Text that is not UTF-8 in an otherwise valid answer.
        let broken = b"{\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}";
        assert_eq!(ApiStyle::Openai.take(broken, &mut ModelAnswer::default()), Err(WireError::NotJson));
        let far = r#"{"choices":[{"delta":{"tool_calls":[{"index":7,"id":"x"}]}}]}"#;
        assert!(matches!(answer(ApiStyle::Openai, &[far]), Err(WireError::TooMuch(_))));
        let lost = r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#;
        assert!(matches!(answer(ApiStyle::Anthropic, &[lost]), Err(WireError::TooMuch(_))));
        let begun = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x"}]}}]}"#;
        let long = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "x".repeat(40_000)}}]}}]});
        let long = long.to_string();
        assert!(answer(ApiStyle::Openai, &[begun, &long]).is_ok());
        assert!(matches!(answer(ApiStyle::Openai, &[begun, &long, &long]), Err(WireError::TooMuch(_))));
    }

    #[test]
    fn an_answer_has_eight_calls_at_most_and_names_of_a_length() {
        let openai = |at: usize, name: &str| json!({"choices": [{"delta": {"tool_calls": [{"index": at, "id": "x", "function": {"name": name}}]}}]});
        let anthropic = |_: usize, name: &str| json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "x", "name": name}});
        let made = |style: ApiStyle, calls: usize, name: &str| {
            let one = |at: usize| match style {
                ApiStyle::Openai => openai(at, name).to_string(),
                ApiStyle::Anthropic => anthropic(at, name).to_string(),
            };
            let pieces: Vec<String> = (0..calls).map(one).collect();
            answer(style, &pieces.iter().map(String::as_str).collect::<Vec<_>>())
        };
        for style in [ApiStyle::Openai, ApiStyle::Anthropic] {
            assert_eq!(made(style, 8, "query_state").unwrap().calls.len(), 8);
            assert!(matches!(made(style, 9, "query_state"), Err(WireError::TooMuch(_))), "{style:?}");
            assert!(made(style, 1, &"x".repeat(128)).is_ok());
            assert!(matches!(made(style, 1, &"x".repeat(129)), Err(WireError::TooMuch(_))), "{style:?}");
        }
    }
}
