//! Takes secrets out of parameters before anything is said about them.

use alloy::primitives::{B256, keccak256};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::text::SafeText;

/// What stands where a secret stood.
const REMOVED: &str = "[secret removed]";
/// The longest text an event carries, in characters; the hash covers all of it.
const TEXT_CHARS: usize = 1_024;

/// A field is secret when its name, without case and separators, contains one of these.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passphrase",
    "secret",
    "mnemonic",
    "seedphrase",
    "privatekey",
    "apikey",
    "accesskey",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "bearer",
    "authorization",
    "credential",
];

/// Parameters that may be shown: made by [`Redacted::new`] alone, or read from a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redacted(Value);

impl Redacted {
    /// Removes the value of every field whose name tells of a secret, or that is among
    /// `secret_fields` (those a schema marks), at any depth; and every text with the shape of a
    /// mnemonic or a private key. Other texts are cleaned and shortened.
    pub fn new(params: &Value, secret_fields: &[String]) -> Self {
        Self(shown(&stripped(params, secret_fields)))
    }

    /// As [`Self::new`], of the top-level fields `only` where that is not empty.
    pub fn selected(params: &Value, secret_fields: &[String], only: &[&str]) -> Self {
        match params {
            Value::Object(fields) if !only.is_empty() => {
                let chosen: Map<_, _> = fields
                    .iter()
                    .filter(|(name, _)| only.contains(&name.as_str()))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                Self::new(&Value::Object(chosen), secret_fields)
            }
            _ => Self::new(params, secret_fields),
        }
    }

    /// What may be shown.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Keccak-256 of the parameters, secrets removed, as JSON without spaces and with sorted keys: the
/// same for the same call however it was written, and no help in guessing a secret.
pub fn hash(params: &Value, secret_fields: &[String]) -> B256 {
    let mut text = String::new();
    canonical(&stripped(params, secret_fields), &mut text);
    keccak256(text)
}

/// Writes compact JSON with the keys of every object in order.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.iter().collect();
            names.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (place, (name, inner)) in names.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(inner, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (place, inner) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                canonical(inner, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

fn stripped(value: &Value, secret_fields: &[String]) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, inner)| {
                    let secret = is_secret_name(name) || secret_fields.iter().any(|field| field == name);
                    let inner = if secret { Value::from(REMOVED) } else { stripped(inner, secret_fields) };
                    (name.clone(), inner)
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(|item| stripped(item, secret_fields)).collect()),
        Value::String(text) if looks_like_mnemonic(text) => Value::from(REMOVED),
        plain => plain.clone(),
    }
}

fn shown(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(name, inner)| (SafeText::clean(name, 80).to_string(), shown(inner))).collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(shown).collect()),
        Value::String(text) => Value::from(SafeText::clean(text, TEXT_CHARS).to_string()),
        plain => plain.clone(),
    }
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_WORDS.iter().any(|word| plain.contains(word))
}

/// Whether a text has the shape of a BIP-39 phrase: 12 to 24 short lower-case words and nothing else.
fn looks_like_mnemonic(text: &str) -> bool {
    let mut words = 0usize;
    for word in text.split_whitespace() {
        words += 1;
        if !(3..=8).contains(&word.len()) || !word.bytes().all(|b| b.is_ascii_lowercase()) {
            return false;
        }
    }
    matches!(words, 12 | 15 | 18 | 21 | 24)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MNEMONIC: &str = "test test test test test test test test test test test junk";

    #[test]
    fn secrets_are_removed_at_any_depth() {
        let params = json!({
            "token_in": "WETH",
            "Api-Key": "k-123",
            "nested": [{"private_key": "0xabc", "note": MNEMONIC, "keystorePassword": {"a": 1}}],
            "pin": "4711",
        });
        let shown = Redacted::new(&params, &["pin".to_owned()]);
        assert_eq!(
            *shown.value(),
            json!({
                "token_in": "WETH",
                "Api-Key": REMOVED,
                "nested": [{"private_key": REMOVED, "note": REMOVED, "keystorePassword": REMOVED}],
                "pin": REMOVED,
            })
        );
    }

    #[test]
    fn ordinary_fields_stay() {
        let params = json!({"token": "USDC", "amount": "1.5", "deep": {"spender": "0x01", "n": 3}});
        assert_eq!(*Redacted::new(&params, &[]).value(), params);
        let chosen = Redacted::selected(&params, &[], &["token", "absent"]);
        assert_eq!(*chosen.value(), json!({"token": "USDC"}));
    }

    #[test]
    fn texts_are_cleaned_and_shortened() {
        let params = json!({"reason": format!("a\u{202e}b{}", "x".repeat(5_000))});
        let shown = Redacted::new(&params, &[]);
        let text = shown.value()["reason"].as_str().unwrap();
        assert!(!text.contains('\u{202e}') && text.chars().count() <= TEXT_CHARS + 1, "{}", text.chars().count());
    }

    #[test]
    fn the_hash_is_of_the_content_without_secrets() {
        let one: Value = serde_json::from_str(r#"{"b":{"c":null},"a":[1,"x"]}"#).unwrap();
        assert_eq!(hash(&one, &[]), keccak256(br#"{"a":[1,"x"],"b":{"c":null}}"#));
        let with = |secret: &str| hash(&json!({"password": secret, "a": 1}), &[]);
        assert_eq!(with("one"), with("two"));
        assert_ne!(hash(&json!({"a": 1}), &[]), hash(&json!({"a": 2}), &[]));
    }
}
