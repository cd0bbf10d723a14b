//! Removal of secrets from parameters before they enter events.

use std::borrow::Cow;

use alloy_primitives::{B256, keccak256};
use coins_bip39::{English, Wordlist};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::SafeText;

/// Text in place of a secret.
const REMOVED: &str = "[secret removed]";
/// Text in place of the value of a call that matches no schema.
pub const NOT_RECORDED: &str = "[not recorded]";
/// Text in place of content beyond the limits of an event.
const LEFT_OUT: &str = "[more left out]";
/// Maximum length of a text in an event, in characters; the hash covers all of it.
const TEXT_CHARS: usize = 1_024;
/// Maximum length of a field's name in an event, in characters.
const NAME_CHARS: usize = 80;
/// Maximum number of values in an event, including objects and lists; the hash covers all of them.
const MOST_VALUES: usize = 256;
/// Minimum number of words in a BIP-39 phrase.
const FEWEST_WORDS: usize = 12;
/// Number of hexadecimal digits of a private key.
const KEY_DIGITS: usize = 64;

/// A field is secret if its name, lower-cased and without separators, contains one of these.
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

/// Endings of field names, lower-cased and without separators, for 32-byte values that are not keys. By shape alone, a
/// private key looks the same.
const HASH_WORDS: &[&str] =
    &["hash", "hashes", "digest", "root", "salt", "topic", "slot", "orderid", "intentid", "tx", "transaction"];

/// Parameters for display: created only by the functions here, or read from a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RedactedParams(Value);

impl RedactedParams {
    /// Removes the value of every field whose name indicates a secret or is in `secret_fields` (those that a schema
    /// marks), at any depth.
    ///
    /// Also removes every text that contains a BIP-39 phrase. In other texts it removes every word with the shape of a
    /// private key, unless the field's name marks a hash. Texts are cleaned and truncated, and at most 256 values are
    /// kept.
    pub fn new(params: &Value, secret_fields: &[String]) -> Self {
        Self::selected(params, secret_fields, &[])
    }

    /// Same as [`Self::new`], limited to the top-level fields `only` unless that is empty.
    pub fn selected(params: &Value, secret_fields: &[String], only: &[&str]) -> Self {
        let mut showing = RedactionState { secret_fields, left: MOST_VALUES };
        Self(match params {
            Value::Object(fields) if !only.is_empty() => {
                let chosen = fields.iter().filter(|(name, _)| only.contains(&name.as_str()));
                showing.object(chosen)
            }
            _ => showing.value(params, ""),
        })
    }

    /// Keeps only the names of the top-level fields: for parameters that match no schema, whose values might be
    /// secrets.
    pub fn names(params: &Value) -> Self {
        let Value::Object(fields) = params else { return Self(Value::Null) };
        let mut shown = Map::new();
        for (place, name) in fields.keys().enumerate() {
            if place == MOST_VALUES {
                shown.insert(LEFT_OUT.to_owned(), Value::Null);
                break;
            }
            shown.insert(shown_name(name), Value::from(NOT_RECORDED));
        }
        Self(Value::Object(shown))
    }

    /// Parameters for display, as JSON.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Replaces the `amount`, if there is one, by the smaller one that the operator asked for.
    pub fn use_amount(&mut self, amount: &SafeText) {
        if let Some(asked) = self.0.get_mut("amount") {
            *asked = Value::from(amount.as_str());
        }
    }
}

/// Keccak-256 of the parameters as compact JSON with sorted keys.
///
/// It is the same for the same call in any notation, and it does not help to guess a secret: the value of a field that
/// is secret by name is ignored. Keys and phrases that were found by their shape are too random to guess, so they are
/// replaced by their own hash.
pub fn hash(params: &Value, secret_fields: &[String]) -> B256 {
    let mut text = String::new();
    canonical(params, "", secret_fields, &mut text);
    keccak256(text)
}

/// Writes compact JSON with the keys of every object in order.
fn canonical(value: &Value, name: &str, secret_fields: &[String], out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (place, (name, inner)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                push_text(name, out);
                out.push(':');
                if is_secret_field(name, secret_fields) {
                    push_text(REMOVED, out);
                } else {
                    canonical(inner, name, secret_fields, out);
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (place, inner) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                canonical(inner, name, secret_fields, out);
            }
            out.push(']');
        }
        Value::String(text) if holds_phrase(text) || (!is_hash_field(name) && holds_key(text)) => {
            push_text(&format!("{REMOVED} {}", keccak256(text)), out);
        }
        plain => out.push_str(&plain.to_string()),
    }
}

fn push_text(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// State while parameters are prepared for an event.
struct RedactionState<'a> {
    secret_fields: &'a [String],
    /// Number of values that may still be included.
    left: usize,
}

impl RedactionState<'_> {
    fn value(&mut self, value: &Value, name: &str) -> Value {
        self.left = self.left.saturating_sub(1);
        match value {
            Value::Object(fields) => self.object(fields.iter()),
            Value::Array(items) => {
                let mut shown = Vec::new();
                for item in items {
                    if self.left == 0 {
                        shown.push(Value::from(LEFT_OUT));
                        break;
                    }
                    shown.push(self.value(item, name));
                }
                Value::Array(shown)
            }
            Value::String(text) => Value::from(shown_text(text, is_hash_field(name))),
            plain => plain.clone(),
        }
    }

    fn object<'v>(&mut self, fields: impl Iterator<Item = (&'v String, &'v Value)>) -> Value {
        let mut shown = Map::new();
        for (name, inner) in fields {
            if self.left == 0 {
                shown.insert(LEFT_OUT.to_owned(), Value::Null);
                break;
            }
            let inner = if is_secret_field(name, self.secret_fields) {
                self.left -= 1;
                Value::from(REMOVED)
            } else {
                self.value(inner, name)
            };
            shown.insert(shown_name(name), inner);
        }
        Value::Object(shown)
    }
}

fn shown_name(name: &str) -> String {
    if holds_phrase(name) {
        return REMOVED.to_owned();
    }
    SafeText::clean(&without_keys(name), NAME_CHARS).to_string()
}

fn shown_text(text: &str, is_hash: bool) -> String {
    if holds_phrase(text) {
        return REMOVED.to_owned();
    }
    let text = if is_hash { Cow::Borrowed(text) } else { without_keys(text) };
    SafeText::clean(&text, TEXT_CHARS).to_string()
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn is_secret_field(name: &str, secret_fields: &[String]) -> bool {
    let plain = plain(name);
    SECRET_WORDS.iter().any(|word| plain.contains(word)) || secret_fields.iter().any(|field| field == name)
}

fn is_hash_field(name: &str) -> bool {
    let plain = plain(name);
    HASH_WORDS.iter().any(|word| plain.ends_with(word))
}

/// True if a text contains twelve words of the BIP-39 list in a row, ignoring numbers and separators between them.
fn holds_phrase(text: &str) -> bool {
    let words = English::get_all();
    let mut run = 0usize;
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        // The list is in alphabetical order, and its words have 3 to 8 letters.
        let listed = (3..=8).contains(&word.len()) && words.binary_search(&word.to_ascii_lowercase().as_str()).is_ok();
        // Numbers do not end a run: written-down phrases are often numbered.
        run = if listed {
            run + 1
        } else if word.bytes().all(|b| b.is_ascii_digit()) {
            run
        } else {
            0
        };
        if run == FEWEST_WORDS {
            return true;
        }
    }
    false
}

/// Words of a text with the shape of a private key: exactly 64 hexadecimal digits, with or without 0x.
fn keys(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
        digits.len() == KEY_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn holds_key(text: &str) -> bool {
    keys(text).next().is_some()
}

fn without_keys(text: &str) -> Cow<'_, str> {
    let mut kept = Cow::Borrowed(text);
    for key in keys(text) {
        kept = Cow::Owned(kept.replace(key, REMOVED));
    }
    kept
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
        let shown = RedactedParams::new(&params, &["pin".to_owned()]);
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
        assert_eq!(*RedactedParams::new(&params, &[]).value(), params);
        let chosen = RedactedParams::selected(&params, &[], &["token", "absent"]);
        assert_eq!(*chosen.value(), json!({"token": "USDC"}));
    }

    #[test]
    fn texts_are_cleaned_and_shortened() {
        let params = json!({"reason": format!("a\u{202e}b{}", "x".repeat(5_000))});
        let shown = RedactedParams::new(&params, &[]);
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

    /// First key of the well-known development mnemonic, without value: 0xac09…ff80.
    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn keys_and_phrases_are_removed_wherever_they_stand() {
        let numbered: String = MNEMONIC.split(' ').zip(1..).map(|(word, place)| format!("{place}. {word}, ")).collect();
        let params = json!({
            "token": format!("0x{KEY}"),
            "note": format!("use {} please", KEY.to_uppercase()),
            "reason": format!("My phrase: {}!", MNEMONIC.to_uppercase()),
            "list": [numbered, KEY],
            format!("0x{KEY}"): 1,
        });
        let shown = RedactedParams::new(&params, &[]);
        assert_eq!(
            *shown.value(),
            json!({
                "token": REMOVED,
                "note": format!("use {REMOVED} please"),
                "reason": REMOVED,
                "list": [REMOVED, REMOVED],
                REMOVED: 1,
            })
        );
    }

    #[test]
    fn hashes_calldata_and_plain_sentences_stay() {
        let params = json!({
            "tx_hash": format!("0x{KEY}"),
            "orderHashes": [KEY],
            "calldata": format!("0x{KEY}{KEY}"),
            "pool": "0x0000000000000000000000000000000000000001",
            "reason": "about over these words that are also on the list: able above absent, and then more words come",
        });
        assert_eq!(*RedactedParams::new(&params, &[]).value(), params);
    }

    #[test]
    fn an_events_values_are_limited() {
        let wide = RedactedParams::new(&json!({"list": vec![1; 5_000]}), &[]);
        let list = wide.value()["list"].as_array().unwrap();
        // The object and the list count as values, too.
        assert_eq!((list.len(), list.last()), (MOST_VALUES - 2 + 1, Some(&json!(LEFT_OUT))));
        let many: Map<_, _> = (0..5_000).map(|at| (format!("f{at}"), json!([[]]))).collect();
        let text = RedactedParams::new(&Value::Object(many.clone()), &[]).value().to_string();
        assert!(text.len() < 4_000 && text.contains(LEFT_OUT), "{text}");
        let names = RedactedParams::names(&Value::Object(many));
        assert_eq!(names.value().as_object().unwrap().len(), MOST_VALUES + 1);
    }

    #[test]
    fn without_a_matching_schema_only_names_are_kept() {
        let names = RedactedParams::names(&json!({"amuont": "1", "pin": "4711", KEY: {"deep": MNEMONIC}}));
        assert_eq!(*names.value(), json!({"amuont": NOT_RECORDED, "pin": NOT_RECORDED, REMOVED: NOT_RECORDED}));
        assert_eq!(*RedactedParams::names(&json!([MNEMONIC])).value(), Value::Null);
    }

    #[test]
    fn redacted_values_still_distinguish_calls() {
        let with = |token: &str| hash(&json!({"token": token}), &[]);
        assert_ne!(with(KEY), with(&KEY.replace('a', "b")));
        assert_eq!(with(KEY), with(KEY));
    }
}
