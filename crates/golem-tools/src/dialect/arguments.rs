//! Parameters of a dialect's call, checked against the table and completed with its defaults.

use serde_json::{Map, Value};

use super::{DefaultValue, DialectTool, Parameter, ParameterKind};
use crate::engine::ToolEnvironment;
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::{SafeText, nearest};

/// Maximum length of a text that names something, in bytes. Longer ones belong to the parameters that say so themselves.
const LONGEST_TEXT: usize = 256;
/// Parameters whose texts the native tool bounds.
const LONG_TEXTS: [&str; 1] = ["decision_summary"];
/// Maximum number of entries in a list of texts.
const MOST_TEXTS: usize = 100;

/// Parameters of a call. Every parameter of the tool has a value of its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    values: Map<String, Value>,
    /// Names that the call gave.
    given: Vec<&'static str>,
}

impl Arguments {
    /// Checks the parameters of a call of `tool`, and adds the defaults of those that it leaves out.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` with the parameter's name: one that the tool does not have, one that is missing, and one whose
    /// value is not of its kind.
    pub fn read(tool: &DialectTool, mut given: Map<String, Value>, world: &ToolEnvironment) -> Result<Self, ToolError> {
        let names = || tool.parameters.iter().map(|parameter| parameter.name);
        if let Some(unknown) = given.keys().find(|name| names().all(|known| known != name.as_str())) {
            let close = nearest(unknown, names()).map(|close| format!("; did you mean `{close}`?")).unwrap_or_default();
            let shown = SafeText::clean(unknown, 80);
            let what = format_args!(
                "unknown parameter `{shown}`{close}; {} has {}",
                tool.name,
                names().collect::<Vec<_>>().join(", ")
            );
            return Err(ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", shown.as_str()));
        }
        let mut values = Map::new();
        let mut named = Vec::new();
        for parameter in tool.parameters {
            let value = match (given.remove(parameter.name), parameter.default) {
                (Some(value), _) => {
                    named.push(parameter.name);
                    parameter.checked(value)?
                }
                (None, Some(DefaultValue::Chain(chain))) => Value::from(default_chain(chain, world)),
                (None, Some(default)) => default.json(),
                (None, None) => return Err(invalid(parameter.name, &"it is required")),
            };
            values.insert(parameter.name.to_owned(), value);
        }
        Ok(Self { values, given: named })
    }

    /// True if the call gave the parameter.
    pub fn gives(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Text of a parameter; empty for null and for a parameter that the tool does not have.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Text of a parameter, if it is not null and not empty.
    pub fn some_text(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    /// Whole number of a parameter.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.values.get(name).and_then(Value::as_u64)
    }

    /// True if the parameter is true.
    pub fn flag(&self, name: &str) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Texts of a list.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        self.values.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Object of a parameter; `None` for null.
    pub fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.values.get(name).and_then(Value::as_object)
    }

    /// Value of a parameter; null for one that the tool does not have.
    pub fn value(&self, name: &str) -> Value {
        self.values.get(name).cloned().unwrap_or_default()
    }
}

/// The dialect's own default chain if the session has it, otherwise the session's first chain.
fn default_chain(default: &str, world: &ToolEnvironment) -> String {
    let has_it = world.chain_names().any(|name| name == default);
    let first = || world.chain_names().next().map(str::to_owned);
    if has_it { default.to_owned() } else { first().unwrap_or_else(|| default.to_owned()) }
}

impl Parameter {
    /// Checks the kind of a value.
    fn checked(&self, value: Value) -> Result<Value, ToolError> {
        let Self { name, kind, .. } = *self;
        let is_long = LONG_TEXTS.contains(&name);
        let fits_length = |text: &str| is_long || text.len() <= LONGEST_TEXT;
        match (kind, value) {
            (ParameterKind::Text | ParameterKind::TextOrNull, Value::String(text)) => match fits_length(&text) {
                true => Ok(Value::String(text)),
                false => Err(invalid(name, &format_args!("{} bytes; at most {LONGEST_TEXT} are taken", text.len()))),
            },
            // Whole numbers keep their digits; a fraction may have lost some.
            (ParameterKind::Text, Value::Number(number)) if is_amount(name) && number.is_u64() => {
                Ok(Value::String(number.to_string()))
            }
            (
                ParameterKind::TextOrNull | ParameterKind::IntegerOrNull(..) | ParameterKind::ObjectOrNull,
                Value::Null,
            ) => Ok(Value::Null),
            (ParameterKind::Choice(choices), Value::String(text)) if choices.contains(&text.as_str()) => {
                Ok(Value::String(text))
            }
            (ParameterKind::Choice(choices), _) => {
                Err(invalid(name, &format_args!("expected one of {}", choices.join(", "))))
            }
            (ParameterKind::Integer(least, most) | ParameterKind::IntegerOrNull(least, most), value) => {
                let number = match &value {
                    Value::Number(number) => number.as_u64(),
                    Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
                    _ => None,
                };
                match number.filter(|number| (least..=most).contains(number)) {
                    Some(number) => Ok(Value::from(number)),
                    None => Err(invalid(name, &format_args!("expected a whole number from {least} to {most}"))),
                }
            }
            (ParameterKind::Decimal, Value::Number(number)) if number.as_f64().is_some_and(|value| value >= 0.0) => {
                Ok(Value::Number(number))
            }
            (ParameterKind::Flag, Value::Bool(flag)) => Ok(Value::Bool(flag)),
            (ParameterKind::Texts, Value::Array(items)) => {
                let are_texts = items.iter().all(|item| item.as_str().is_some_and(fits_length));
                match are_texts && items.len() <= MOST_TEXTS {
                    true => Ok(Value::Array(items)),
                    false => {
                        let what = format_args!(
                            "expected a list of at most {MOST_TEXTS} texts of at most {LONGEST_TEXT} bytes each"
                        );
                        Err(invalid(name, &what))
                    }
                }
            }
            (ParameterKind::Object | ParameterKind::ObjectOrNull, Value::Object(fields)) => Ok(Value::Object(fields)),
            (ParameterKind::Objects, Value::Array(items)) if items.iter().all(Value::is_object) => {
                Ok(Value::Array(items))
            }
            (kind, _) => Err(invalid(name, &format_args!("expected {}", kind.expected_form()))),
        }
    }
}

/// True for the parameters that carry an amount of a token.
fn is_amount(name: &str) -> bool {
    name == "amount" || name.starts_with("amount_") || name == "collateral_amount" || name == "new_total_assets"
}

impl ParameterKind {
    const fn expected_form(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::TextOrNull => "a text or null",
            Self::Choice(_) => "one of the listed texts",
            Self::Integer(..) => "a whole number",
            Self::IntegerOrNull(..) => "a whole number or null",
            Self::Decimal => "a number of at least zero",
            Self::Flag => "true or false",
            Self::Texts => "a list of texts",
            Self::Object => "an object",
            Self::ObjectOrNull => "an object or null",
            Self::Objects => "a list of objects",
        }
    }
}
