//! Translation of the state tools: the agent's own notes. `deployment_id` is the name of a note.

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::super::Arguments;
use super::{AlmanakSession, Answer, Outcome, text_or_null};

pub(super) fn save<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [("state", arguments.value("state")), ("name", text_or_null(arguments.some_text("deployment_id")))];
        let response = session.ask("save_agent_state", asked).await?;
        let found = response.data.as_ref().unwrap_or(&Value::Null);
        let result = json!({"version": found["version"], "checksum": found["checksum"]});
        Ok(Answer::new("save_agent_state", response, result))
    })
}

pub(super) fn load<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [("name", text_or_null(arguments.some_text("deployment_id")))];
        let response = session.ask("load_agent_state", asked).await?;
        let found = response.data.as_ref().unwrap_or(&Value::Null);
        let state = if found["state"].is_object() { found["state"].clone() } else { json!({}) };
        let result = json!({"state": state, "version": found["version"]});
        Ok(Answer::new("load_agent_state", response, result))
    })
}

pub(super) fn record_decision<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [
            ("decision_summary", arguments.value("decision_summary")),
            ("tool_calls", arguments.value("tool_calls")),
            ("intent_type", arguments.value("intent_type")),
            ("name", text_or_null(arguments.some_text("deployment_id"))),
        ];
        let response = session.ask("record_agent_decision", asked).await?;
        let found = response.data.as_ref().unwrap_or(&Value::Null);
        let result = json!({"recorded": true, "decision_id": found["decision_id"]});
        Ok(Answer::new("record_agent_decision", response, result))
    })
}
