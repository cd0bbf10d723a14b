//! JSON Schemas (draft 2020-12) for callers: closed output schemas, the envelope schema, and a validator for the
//! keywords that these schemas use.

use serde_json::{Value, json};

use bardo_base::error::{ErrorCategory, ErrorCode, ErrorGroup, FigureUnit};
use bardo_session::envelope::CallStatus;

/// Annotation keywords, which restrict nothing.
const NOTES: [&str; 5] = ["$schema", "title", "description", "format", "default"];

/// Closes a schema at every depth: an object with `properties` forbids additional ones, unless it already states
/// `additionalProperties`.
pub fn close(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if keywords.contains_key("properties") && !keywords.contains_key("additionalProperties") {
                keywords.insert("additionalProperties".to_owned(), json!(false));
            }
            for (keyword, inner) in keywords {
                match (keyword.as_str(), inner) {
                    // Keys of `properties` are property names, even if they look like keywords.
                    ("properties", Value::Object(properties)) => properties.values_mut().for_each(close),
                    ("const" | "enum" | "default", _) => {}
                    (_, inner) => close(inner),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the first mismatch of `value` and `schema`, as a JSON pointer and a reason; `None` if the value is valid. An
/// unsupported keyword is a mismatch, so that no keyword is ignored silently.
pub fn mismatch(schema: &Value, value: &Value) -> Option<SchemaMismatch> {
    fits(schema, value, "").err()
}

/// A place of a value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {fault}")]
pub struct SchemaMismatch {
    /// JSON pointer to the place; `/` for the whole value.
    pub at: String,
    /// Reason for the mismatch.
    pub fault: SchemaFault,
}

/// Reason for a mismatch, with the value that was found and the schema's limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    /// The schema allows no value.
    #[error("no value is allowed here")]
    NothingFits,
    /// Another JSON type.
    #[error("{0} is not of the type {1}")]
    Type(Value, Value),
    /// Not the constant.
    #[error("{0} is not {1}")]
    Constant(Value, Value),
    /// Not in the list.
    #[error("{0} is not one of {1}")]
    Unlisted(Value, Value),
    /// Below the minimum.
    #[error("{0} is below {1}")]
    Below(Value, Value),
    /// Above the maximum.
    #[error("{0} is above {1}")]
    Above(Value, Value),
    /// Fewer characters than allowed.
    #[error("{0} is shorter than {1}")]
    Shorter(Value, Value),
    /// More characters than allowed.
    #[error("{0} is longer than {1}")]
    Longer(Value, Value),
    /// Fewer items than allowed.
    #[error("{0} has fewer items than {1}")]
    Fewer(Value, Value),
    /// More items than allowed.
    #[error("{0} has more items than {1}")]
    More(Value, Value),
    /// Fits too few or too many of the alternatives.
    #[error("{value} matches {fitting} of {schemas} schemas")]
    Alternatives {
        /// Value that was checked.
        value: Value,
        /// Number of schemas that it fits.
        fitting: usize,
        /// Number of schemas.
        schemas: usize,
    },
    /// A required field is absent.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A keyword that this check does not know.
    #[error("the keyword `{0}` cannot be checked")]
    Keyword(String),
}

fn fits(schema: &Value, value: &Value, at: &str) -> Result<(), SchemaMismatch> {
    let wrong = |fault| Err(SchemaMismatch { at: if at.is_empty() { "/" } else { at }.to_owned(), fault });
    let against = |kind: fn(Value, Value) -> SchemaFault, limit: &Value| kind(value.clone(), limit.clone());
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(keywords) => keywords,
        _ => return wrong(SchemaFault::NothingFits),
    };
    for (keyword, limit) in keywords {
        let fault = match keyword.as_str() {
            note if NOTES.contains(&note) => None,
            "type" => (!is_of_type(limit, value)).then(|| against(SchemaFault::Type, limit)),
            "const" => (limit != value).then(|| against(SchemaFault::Constant, limit)),
            "enum" => {
                let listed = limit.as_array().is_some_and(|all| all.contains(value));
                (!listed).then(|| against(SchemaFault::Unlisted, limit))
            }
            "minimum" => below(value.as_f64(), limit.as_f64()).then(|| against(SchemaFault::Below, limit)),
            "maximum" => below(limit.as_f64(), value.as_f64()).then(|| against(SchemaFault::Above, limit)),
            "minLength" => {
                let short = value.as_str().is_some_and(|text| below(length(text), limit.as_f64()));
                short.then(|| against(SchemaFault::Shorter, limit))
            }
            "maxLength" => {
                let long = value.as_str().is_some_and(|text| below(limit.as_f64(), length(text)));
                long.then(|| against(SchemaFault::Longer, limit))
            }
            "oneOf" | "anyOf" => {
                let schemas = limit.as_array().map(Vec::as_slice).unwrap_or_default();
                let fitting = schemas.iter().filter(|schema| fits(schema, value, at).is_ok()).count();
                let right = if keyword == "oneOf" { fitting == 1 } else { fitting > 0 };
                (!right).then(|| SchemaFault::Alternatives { value: value.clone(), fitting, schemas: schemas.len() })
            }
            "minItems" => {
                let few = value.as_array().is_some_and(|all| below(size(all), limit.as_f64()));
                few.then(|| against(SchemaFault::Fewer, limit))
            }
            "maxItems" => {
                let many = value.as_array().is_some_and(|all| below(limit.as_f64(), size(all)));
                many.then(|| against(SchemaFault::More, limit))
            }
            "prefixItems" => {
                let both = limit.as_array().into_iter().flatten().zip(value.as_array().into_iter().flatten());
                for (place, (schema, item)) in both.enumerate() {
                    fits(schema, item, &format!("{at}/{place}"))?;
                }
                None
            }
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(limit, item, &format!("{at}/{place}"))?;
                }
                None
            }
            "required" => {
                let names = limit.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing =
                    value.as_object().and_then(|fields| names.into_iter().find(|name| !fields.contains_key(*name)));
                missing.map(|name| SchemaFault::Missing(name.to_owned()))
            }
            "properties" => {
                for (name, inner) in limit.as_object().into_iter().flatten() {
                    if let Some(field) = value.get(name) {
                        fits(inner, field, &format!("{at}/{name}"))?;
                    }
                }
                None
            }
            "additionalProperties" => {
                let named = keywords.get("properties").and_then(Value::as_object);
                let others = value.as_object().into_iter().flatten();
                for (name, field) in others.filter(|(name, _)| named.is_none_or(|named| !named.contains_key(*name))) {
                    fits(limit, field, &format!("{at}/{name}"))?;
                }
                None
            }
            unknown => Some(SchemaFault::Keyword(unknown.to_owned())),
        };
        if let Some(fault) = fault {
            return wrong(fault);
        }
    }
    Ok(())
}

fn is_of_type(wanted: &Value, value: &Value) -> bool {
    let is = |wanted: &str| match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match wanted {
        Value::String(one) => is(one),
        Value::Array(all) => all.iter().filter_map(Value::as_str).any(is),
        _ => false,
    }
}

fn below(one: Option<f64>, other: Option<f64>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one < other)
}

fn size(items: &[Value]) -> Option<f64> {
    u32::try_from(items.len()).ok().map(f64::from)
}

fn length(text: &str) -> Option<f64> {
    u32::try_from(text.chars().count()).ok().map(f64::from)
}

/// Returns the schema of the envelope, the response of every tool call.
pub fn envelope() -> Value {
    let words = |all: &[Value]| json!({ "enum": all });
    let codes: Vec<Value> = ErrorCode::ALL.iter().map(|code| json!(code)).collect();
    let text = |about: &str| json!({ "type": "string", "description": about });
    let figures = json!({
        "type": "object", "additionalProperties": false, "required": ["unit", "limit", "value"],
        "description": "Figures of the violation, as decimal strings in one unit; absent for a rule without figures.",
        "properties": {
            "unit": words(&FigureUnit::ALL.map(|unit| json!(unit))),
            "limit": text("Limit of the rule."),
            "value": text("Total of the call and of the earlier actions that count."),
            "left": text("Amount that the limit allows now; absent if the rule allows none."),
            "frees_in_seconds": {
                "type": "integer", "minimum": 0,
                "description": "Seconds until the limit allows more; absent if waiting does not help.",
            },
        },
    });
    let violation = json!({
        "type": "object", "additionalProperties": false, "required": ["rule", "limit", "value", "would_pass"],
        "properties": {
            "rule": text("Name of the rule, as in the policy."),
            "limit": text("Limit of the rule, as text."),
            "value": text("Requested value, as text."),
            "would_pass": text("Value that would pass, as text."),
            "figures": figures,
        },
    });
    let error = json!({
        "type": "object", "additionalProperties": false,
        "required": ["code", "category", "message", "recoverable", "suggestion", "details"],
        "properties": {
            "code": words(&codes),
            "category": words(&ErrorCategory::ALL.map(|category| json!(category))),
            "message": text("Description of the error."),
            "recoverable": {
                "type": "boolean", "description": "Whether a retry can succeed after following the suggestion.",
            },
            "suggestion": text("Suggested action."),
            "details": {
                "type": "object", "required": ["group"],
                "description": "Details of this error; further fields depend on the code.",
                "properties": {
                    "group": words(&ErrorGroup::ALL.map(|group| json!(group))),
                    "violations": { "type": "array", "items": violation },
                },
            },
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ToolResponse",
        "description": "Response of every tool call.",
        "type": "object", "additionalProperties": false,
        "required": ["call_id", "status", "data", "error", "decision_hints", "explanation"],
        "properties": {
            "call_id": { "type": "string", "minLength": 26, "maxLength": 26, "description": "Id of the call." },
            "status": words(&CallStatus::ALL.map(|status| json!(status))),
            "data": { "description": "Output of the tool, by its output schema; null if there is none." },
            "error": { "oneOf": [{ "type": "null" }, error] },
            "decision_hints": { "description": "Data that helps to decide what to do next; null if there is none." },
            "explanation": { "type": ["string", "null"], "description": "Result as text for a person." },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolResponse;
    use bardo_base::error::{RuleFigures, ToolError, Violation};
    use bardo_base::id::CallId;
    use bardo_base::model::RuleName;

    #[test]
    fn a_closed_schema_refuses_what_it_does_not_name_at_any_depth() {
        let mut schema = json!({
            "type": "object", "required": ["a"],
            "properties": {
                "a": { "type": "array", "items": { "type": "object", "properties": { "properties": { "type": "integer" } } } },
                "map": { "type": "object", "additionalProperties": { "type": "string" } },
            },
        });
        let open = json!({ "a": [{ "properties": 1, "more": 2 }], "map": { "any": "x" } });
        assert_eq!(mismatch(&schema, &open), None);
        close(&mut schema);
        assert_eq!(mismatch(&schema, &open).unwrap().to_string(), "/a/0/more: no value is allowed here");
        for (value, wanted) in [
            (json!({ "a": [{ "properties": 1 }], "map": { "any": "x" } }), None),
            (json!({ "a": [{ "properties": 1.5 }] }), Some("/a/0/properties: 1.5 is not of the type \"integer\"")),
            (json!({ "a": [], "map": { "any": 1 } }), Some("/map/any: 1 is not of the type \"string\"")),
            (json!({ "a": [], "b": 1 }), Some("/b: no value is allowed here")),
            (json!({}), Some("/: `a` is missing")),
        ] {
            let told = mismatch(&schema, &value).map(|mismatch| mismatch.to_string());
            assert_eq!(told.as_deref(), wanted, "{value}");
        }
        for (schema, value) in [
            (json!({ "enum": ["a", "b"] }), json!("c")),
            (json!({ "const": "a" }), json!("b")),
            (json!({ "minimum": 0 }), json!(-1)),
            (json!({ "maximum": 255 }), json!(256)),
            (json!({ "minLength": 2 }), json!("a")),
            (json!({ "maxLength": 2 }), json!("abc")),
            (json!({ "minItems": 2 }), json!([1])),
            (json!({ "maxItems": 2 }), json!([1, 2, 3])),
            (json!({ "prefixItems": [{ "type": "integer" }, { "type": "string" }] }), json!([1, 2])),
            (json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }), json!(1)),
            (json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), json!("x")),
            (json!({ "pattern": "x" }), json!("x")),
        ] {
            assert!(mismatch(&schema, &value).is_some(), "{schema} takes {value}");
        }
    }

    #[test]
    fn the_envelope_has_a_schema_that_every_error_fits() {
        let schema = envelope();
        let violation =
            Violation::new(RuleName::MaxTradesPerHour, "5 in any 60 minutes", "5 were made", "the next one in 60 s")
                .with(RuleFigures::new(FigureUnit::Count, 5, 6).leaving(0).freeing_in(Some(60)));
        for code in ErrorCode::ALL {
            let error = ToolError::new(*code, "something").violating(std::slice::from_ref(&violation));
            for status in CallStatus::ALL {
                let response = ToolResponse::failed(CallId::new(1), status, error.clone());
                assert_eq!(mismatch(&schema, &json!(response)), None, "{code}");
            }
        }
        let mut response = json!(ToolResponse::failed(
            CallId::new(1),
            CallStatus::Error,
            ToolError::new(ErrorCode::NotYet, "later").violating(&[violation])
        ));
        response["error"]["details"]["violations"][0]["more"] = json!(1);
        assert!(mismatch(&schema, &response).is_some());
    }
}
