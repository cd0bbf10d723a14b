//! Parsing of a caller's input into tool parameters, with precise error messages.

use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::nearest;

/// Maximum length of an input, in bytes: several times the largest calldata a transaction can carry.
pub const MAX_INPUT_BYTES: usize = 1 << 20;
/// Maximum nesting depth of an input.
pub const MAX_INPUT_DEPTH: usize = 32;

/// Name of the parameter that carries a token amount.
pub(super) const AMOUNT: &str = "amount";

/// Input of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolInput {
    /// JSON text, not yet parsed.
    Text(String),
    /// Parsed JSON value.
    Json(Value),
}

impl ToolInput {
    /// Returns the parameters as a JSON object.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if the input is invalid JSON, too long, too deep, not an object, or repeats a name.
    pub fn into_object(self) -> Result<Value, ToolError> {
        let value = match self {
            Self::Text(text) => read(&text)?,
            Self::Json(value) => {
                measure(&value, 0, &mut MAX_INPUT_BYTES.clone())?;
                value
            }
        };
        match value {
            Value::Object(_) => Ok(value),
            other => Err(invalid(format_args!("the input is {}; expected an object of parameters", name_of(&other)))),
        }
    }
}

/// Deserializes an object into typed parameters. `names` are the tool's parameters, used for suggestions.
///
/// # Errors
/// `VALIDATION_FAILED`, with the name of the parameter that does not fit.
pub fn typed<T: DeserializeOwned>(value: &Value, names: &[String]) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let reason = plain_type_names(error.inner().to_string());
        let unknown = reason
            .strip_prefix("unknown field `")
            .and_then(|rest| rest.split_once('`'))
            .map(|(field, _)| field.to_owned());
        let at = if path == "." || unknown.is_some() { String::new() } else { format!("parameter `{path}`: ") };
        let mut message = format!("{at}{reason}");
        if let Some(close) = unknown.as_deref().and_then(|field| nearest(field, names.iter().map(String::as_str))) {
            message.push_str(&format!("; did you mean `{close}`?"));
        }
        let failed = invalid(message);
        match unknown {
            Some(field) => failed.detail("parameter", field.chars().take(80).collect::<String>()),
            None if path == "." => failed,
            None => failed.detail("parameter", path),
        }
    })
}

/// Replaces the names of Rust number types, which mean nothing to the caller, with their ranges.
fn plain_type_names(reason: String) -> String {
    for (kind, words) in [
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number of zero or more"),
        ("expected usize", "expected a whole number of zero or more"),
    ] {
        if let Some(start) = reason.strip_suffix(kind) {
            return format!("{start}{words}");
        }
    }
    reason
}

fn invalid(message: impl fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::ValidationFailed, message)
}

fn too_long(bytes: usize) -> ToolError {
    invalid(format_args!("the input is {bytes} bytes long; at most {MAX_INPUT_BYTES} are accepted"))
}

fn too_deep() -> String {
    format!("the input is nested deeper than {MAX_INPUT_DEPTH} levels")
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn read(text: &str) -> Result<Value, ToolError> {
    if text.len() > MAX_INPUT_BYTES {
        return Err(too_long(text.len()));
    }
    if text.trim().is_empty() {
        return Err(invalid("the input is empty; expected a JSON object of parameters, or `{}` without parameters"));
    }
    unambiguous(text).map_err(|error| invalid(format_args!("the input is not valid JSON: {}", json_fault(&error))))
}

/// Checks depth and size of a value that did not come from text; `left` is the remaining size in bytes.
fn measure(value: &Value, depth: usize, left: &mut usize) -> Result<(), ToolError> {
    let spend = |bytes: usize, left: &mut usize| {
        *left = left.checked_sub(bytes).ok_or_else(|| {
            invalid(format_args!("the input is longer than {MAX_INPUT_BYTES} bytes, which is the limit"))
        })?;
        Ok(())
    };
    if depth > MAX_INPUT_DEPTH {
        return Err(invalid(too_deep()));
    }
    match value {
        Value::Array(items) => {
            spend(2, left)?;
            items.iter().try_for_each(|item| measure(item, depth + 1, left))
        }
        Value::Object(fields) => {
            spend(2, left)?;
            fields.iter().try_for_each(|(name, inner)| {
                spend(name.len() + 3, left)?;
                measure(inner, depth + 1, left)
            })
        }
        Value::String(text) => spend(text.len() + 2, left),
        Value::Null | Value::Bool(_) | Value::Number(_) => spend(1, left),
    }
}

/// Parses JSON text, rejecting names that occur twice in one object. An `amount` that is a decimal number keeps its
/// digits: it becomes a JSON string, because a float could lose some of them.
///
/// # Errors
/// Returns the syntax error, the repeated name, or the excess depth.
pub fn unambiguous(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = StrictJson { depth: 0 }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Fault of a text that cannot be read as JSON, in words: its place instead of the parser's terms.
pub fn json_fault(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Eof => "it ends too early, with a quote or bracket that is not closed".to_owned(),
        serde_json::error::Category::Syntax => {
            let (line, character) = (error.line(), error.column());
            format!("line {line}, character {character} is unexpected, or ends a number that is out of range")
        }
        serde_json::error::Category::Data | serde_json::error::Category::Io => {
            let text = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            text.strip_suffix(&place).unwrap_or(&text).to_owned()
        }
    }
}

/// Deserializes any JSON value and rejects names that occur twice in one object. Parsers differ in which of two values
/// they keep.
#[derive(Clone, Copy)]
struct StrictJson {
    depth: usize,
}

impl StrictJson {
    /// Converts the text of an amount: a number in decimal notation keeps its digits as a string unless it is a whole
    /// number of 64 bits. Every other value, also a number with an exponent, is read as usual.
    fn amount<E: serde::de::Error>(self, raw: &RawValue) -> Result<Value, E> {
        let read = self.deserialize(&mut serde_json::Deserializer::from_str(raw.get()));
        // The place inside the amount is not its place in the text.
        let value = read.map_err(|error| E::custom(json_fault(&error)))?;
        let is_decimal = raw.get().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-'));
        Ok(if value.is_f64() && is_decimal { Value::String(raw.get().to_owned()) } else { value })
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_INPUT_DEPTH { Err(E::custom(too_deep())) } else { Ok(Self { depth: self.depth + 1 }) }
    }
}

impl<'de> DeserializeSeed<'de> for StrictJson {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictJson {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(serde::de::Error::custom(format_args!("`{name}` is given twice")));
            }
            let value = if name == AMOUNT {
                inner.amount(&access.next_value::<Box<RawValue>>()?)?
            } else {
                access.next_value_seed(inner)?
            };
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Params {
        token_in: String,
        #[serde(default)]
        slippage_bps: u32,
        #[serde(default)]
        legs: Vec<Leg>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Leg {
        fee: u32,
    }

    fn try_text(text: &str) -> Result<Params, ToolError> {
        let names = ["token_in", "slippage_bps", "legs"].map(str::to_owned);
        typed(&ToolInput::Text(text.to_owned()).into_object()?, &names)
    }

    #[test]
    fn a_parameter_that_does_not_fit_is_named() {
        for (text, wanted) in [
            ("", "empty"),
            ("  \n", "empty"),
            ("{}", "missing field `token_in`"),
            ("[1]", "the input is a list; expected an object"),
            ("\"WETH\"", "the input is a text"),
            (
                "{\"token_in\": \"WETH\"",
                "not valid JSON: it ends too early, with a quote or bracket that is not closed",
            ),
            ("{\"token_in\": \"WETH\"} x", "line 1, character 22 is unexpected"),
            ("{\"token_in\": 5}", "parameter `token_in`: invalid type: integer `5`, expected a string"),
            ("{\"token_in\": \"A\", \"slippage_bps\": -1}", "parameter `slippage_bps`"),
            ("{\"token_in\": \"A\", \"slippage_bps\": 5000000000}", "parameter `slippage_bps`"),
            ("{\"token_in\": \"A\", \"slippage_bps\": 1e400}", "number that is out of range"),
            ("{\"token_in\": \"A\", \"slippage_bps\": NaN}", "not valid JSON"),
            ("{\"tokenin\": \"A\"}", "unknown field `tokenin`"),
            ("{\"tokenin\": \"A\"}", "did you mean `token_in`?"),
            ("{\"token_in\": \"A\", \"token_in\": \"B\"}", "`token_in` is given twice"),
            ("{\"token_in\": \"A\", \"legs\": [{\"fee\": 1}, {\"fee\": \"x\"}]}", "parameter `legs[1].fee`"),
        ] {
            let error = try_text(text).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ValidationFailed, "{text}");
            assert!(error.message().contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn size_and_depth_are_bounded_for_text_and_for_values() {
        let long = format!("{{\"token_in\": \"{}\"}}", "x".repeat(10_000_000));
        let error = try_text(&long).unwrap_err();
        assert!(error.message().contains("10000016 bytes long"), "{error}");
        let error = ToolInput::Json(json!({"token_in": "x".repeat(2_000_000)})).into_object().unwrap_err();
        assert!(error.message().contains("longer than 1048576 bytes"), "{error}");

        let deep = |levels: usize| format!("{}{}", "{\"a\":[".repeat(levels / 2), "]}".repeat(levels / 2));
        assert!(ToolInput::Text(deep(MAX_INPUT_DEPTH)).into_object().is_ok());
        for text in [deep(MAX_INPUT_DEPTH + 2), deep(100_000), "[".repeat(500_000)] {
            let error = ToolInput::Text(text).into_object().unwrap_err();
            assert!(error.message().contains("nested deeper than 32 levels"), "{error}");
        }
        let value: Value = serde_json::from_str(&deep(MAX_INPUT_DEPTH + 2)).unwrap();
        assert!(ToolInput::Json(value).into_object().is_err());
    }

    #[test]
    fn an_amount_that_is_a_number_keeps_its_digits_at_any_depth() {
        let parsed = |amount: &str| {
            let text = format!("{{\"params\": [{{\"amount\": {amount}, \"size\": 0.5}}]}}");
            unambiguous(&text).map(|value| value["params"][0].clone())
        };
        for (amount, kept) in [
            ("0.5", json!("0.5")),
            ("0.10", json!("0.10")),
            ("123456789.000000000000000001", json!("123456789.000000000000000001")),
            ("18446744073709551616", json!("18446744073709551616")),
            ("-0.5", json!("-0.5")),
            ("5", json!(5)),
            ("5e-1", json!(5e-1)),
            ("\"0.5\"", json!("0.5")),
            ("null", Value::Null),
            ("{\"amount\": 0.1}", json!({"amount": "0.1"})),
        ] {
            assert_eq!(parsed(amount).unwrap(), json!({"amount": kept, "size": 0.5}), "{amount}");
        }
        for (fault, wanted) in
            [("0.", "character"), (".5", "character"), ("{\"a\": 1, \"a\": 2}", "`a` is given twice")]
        {
            let words = json_fault(&parsed(fault).unwrap_err());
            assert!(words.contains(wanted), "{words}");
        }
    }

    #[test]
    fn hostile_names_are_cleaned() {
        let error = try_text("{\"\\u001b[31mx\": 1}").unwrap_err();
        assert!(!error.message().chars().any(char::is_control), "{error}");
    }

    #[test]
    fn good_input_arrives() {
        let params = try_text("{\"token_in\": \"WETH\", \"legs\": [{\"fee\": 500}]}").unwrap();
        assert_eq!(params, Params { token_in: "WETH".into(), slippage_bps: 0, legs: vec![Leg { fee: 500 }] });
    }
}
