//! JSON Schemas (draft 2020-12) of the lines between Bardo and a brain process.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::protocol::{BrainMessage, MOST_ID, PROTOCOL};
use golem_tools::dialect;
use golem_tools::engine::schema;

/// Returns the schema of a line from the brain process.
pub fn from_brain() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| settings.inline_subschemas = true);
    let mut said = settings.into_generator().into_root_schema_for::<BrainMessage>().to_value();
    said["title"] = json!("LineFromBrain");
    said["description"] = json!("One line that a brain process writes on its stdout.");
    schema::close(&mut said);
    said
}

/// Returns the schema of a line to the brain process.
pub fn to_brain() -> Value {
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let maybe_text = json!({ "type": ["string", "null"] });
    let context = json!({
        "type": "object", "description": "What the Golem is at: phase, stop, open offers, vitals and the like.",
    });
    let closed = |kind: &str, mut fields: Value| {
        fields["type"] = json!({ "const": kind });
        let required: Vec<String> = fields.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        json!({ "type": "object", "additionalProperties": false, "required": required, "properties": fields })
    };
    let object = |fields: Value, required: &[&str]| json!({ "type": "object", "additionalProperties": false, "required": required, "properties": fields });
    let list = |items: &Value| json!({ "type": "array", "items": items });
    let described = |of: &str| {
        let fields = json!({
            of: text, "parameters": { "type": "object" }, "description": text,
            "guidelines": { "type": "object", "additionalProperties": text },
        });
        object(fields, &[of, "parameters"])
    };
    let tool = object(
        json!({ "name": text, "description": text, "parameters": { "type": "object" } }),
        &["name", "description", "parameters"],
    );
    let token =
        object(json!({ "symbol": text, "address": text, "decimals": count }), &["symbol", "address", "decimals"]);
    let chain = object(
        json!({ "name": text, "chain_id": count, "native": text, "tokens": list(&token) }),
        &["name", "chain_id", "native", "tokens"],
    );
    let maybe_count = json!({ "type": ["integer", "null"], "minimum": 0 });
    let cap = object(
        json!({ "rule": text, "limit": text, "used": text, "left": text, "frees_in_seconds": maybe_count }),
        &["rule", "limit", "used", "left", "frees_in_seconds"],
    );
    let limits = ["tick_seconds", "patience_seconds", "calls", "calls_at_once", "lines_a_second", "line_bytes"];
    let limits_of: serde_json::Map<String, Value> =
        limits.iter().map(|name| ((*name).to_owned(), count.clone())).collect();
    let hello = json!({
        "protocol": { "const": PROTOCOL }, "golem_id": text, "role": text, "account": maybe_text, "chains": list(&chain),
        "caps": list(&cap), "goal": maybe_text, "strategy": text, "tools": list(&tool), "kinds": list(&described("kind")),
        "queries": list(&described("query")), "dialects": list(&text), "limits": object(Value::Object(limits_of), &limits),
    });
    let mut response = schema::envelope();
    if let Value::Object(keywords) = &mut response {
        keywords.remove("$schema");
    }
    let response = json!({ "oneOf": [response, dialect::envelope()] });
    let id = json!({ "type": "string", "maxLength": MOST_ID });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "LineToBrain",
        "description": "One line that a brain process reads on its stdin.",
        "oneOf": [
            closed("hello", hello),
            closed("tick", json!({ "tick": count, "calls_left": count, "context": context })),
            closed("words", json!({ "text": text, "context": context })),
            closed("result", json!({ "id": id, "untrusted": { "const": true }, "response": response })),
            closed("refused", json!({ "id": { "type": ["string", "number", "null"] }, "line": count, "why": text })),
            closed("bye", json!({ "why": text, "seconds": count })),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain::process::protocol::{id_of, read, refused, result};
    use bardo_base::error::{ErrorCode, ToolError};
    use bardo_base::id::CallId;
    use golem_tools::engine::{CallStatus, ToolResponse};

    #[test]
    fn the_schema_accepts_exactly_the_protocols_messages() {
        let schema = from_brain();
        for (line, fits) in [
            (r#"{"type":"call","id":"1","tool":"query_state","params":{"query":"balances"}}"#, true),
            (r#"{"type":"call","id":"1","tool":"query_state"}"#, true),
            (r#"{"type":"call","id":"1","tool":"get_price","dialect":"almanak"}"#, true),
            (r#"{"type":"call","id":"1","tool":"get_price","dialect":"another"}"#, false),
            (r#"{"type":"think","text":"hm"}"#, true),
            (r#"{"type":"think","text":"hm","more":true}"#, true),
            (r#"{"type":"now","now":"a","next":"b","step":1,"of":2}"#, true),
            (r#"{"type":"idle"}"#, true),
            (r#"{"type":"done","why":"over"}"#, true),
            (r#"{"type":"done"}"#, true),
            (r#"{"type":"idle","and":1}"#, false),
            (r#"{"type":"sign"}"#, false),
            (r#"{"type":"call","tool":"x"}"#, false),
            (r#"{"type":"call","id":"","tool":"x"}"#, false),
            (r#"{"type":"now","now":"a","step":-1}"#, false),
            (r#"{"text":"hm"}"#, false),
        ] {
            let value = serde_json::from_str(line).unwrap();
            let fault = schema::mismatch(&schema, &value);
            assert_eq!((fault.is_none(), read(line.as_bytes()).is_ok()), (fits, fits), "{line}: {fault:?}");
        }
    }

    #[test]
    fn answers_and_refusals_fit_the_schema() {
        let schema = to_brain();
        let error = ToolError::new(ErrorCode::Halted, "stopped");
        let response = ToolResponse::failed(CallId::new(1), CallStatus::Blocked, error);
        let unread = id_of(b"{\"id\":7,\"type\":\"call\"}");
        for line in
            [result("1", &response), refused(&unread, 3, &"no such tool"), refused(&Value::Null, 3, &"not JSON")]
        {
            assert_eq!(schema::mismatch(&schema, &line), None, "{line}");
        }
        let mut more = refused(&Value::Null, 3, &"not JSON");
        more["more"] = json!(1);
        assert!(schema::mismatch(&schema, &more).is_some());
    }
}
