//! A tool's parameters on the command line: `name=value` words, one JSON object, `@FILE`, or `-` for stdin.

use std::fs::File;
use std::io::Read;

use serde_json::{Map, Value};

use super::CommandFailure;
use bardo_base::text::SafeText;
use golem_tools::engine::{Catalog, ToolInput};

/// The longest file or stream that is read at all, in bytes; the engine has a lower limit of its own and names it.
const MAX_BYTES: u64 = 64 << 20;
/// Characters of a word that an error quotes.
const QUOTED_CHARS: usize = 60;

/// Reads the parameters of a call to `tool` from the words that follow its name on the command line.
///
/// # Errors
/// A file or stdin that cannot be read, a word that is not `name=value`, a name given twice, and a value that does not
/// have the form that the tool's schema asks for.
pub(super) fn of_tool(words: &[String], tool: &str, catalog: &Catalog) -> Result<ToolInput, CommandFailure> {
    read(words, catalog.get(tool).map_or(&Value::Null, |entry| &entry.input_schema))
}

/// Reads the parameters of a call whose parameters have this JSON Schema, like [`of_tool`].
///
/// # Errors
/// As [`of_tool`].
pub(super) fn read(words: &[String], schema: &Value) -> Result<ToolInput, CommandFailure> {
    match words {
        [] => Ok(ToolInput::Text("{}".to_owned())),
        [word] if name_and_value(word).is_none() => text_of(word).map(ToolInput::Text),
        words => object(words, schema).map(ToolInput::Json),
    }
}

/// The text of one word: itself, the file that it names (`@FILE`), or stdin (`-`).
fn text_of(word: &str) -> Result<String, CommandFailure> {
    let mut text = String::new();
    if word == "-" {
        let read = std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text);
        read.map_err(|error| CommandFailure::usage(format!("cannot read the parameters from stdin: {error}")))?;
    } else if let Some(path) = word.strip_prefix('@') {
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        read.map_err(|error| CommandFailure::usage(format!("cannot read the parameters from {path}: {error}")))?;
    } else {
        text.push_str(word);
    }
    Ok(text)
}

/// Splits `name=value`; `None` where the word does not begin with a parameter's name and `=`.
fn name_and_value(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    (name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(plain)).then_some((name, value))
}

fn object(words: &[String], schema: &Value) -> Result<Value, CommandFailure> {
    let mut object = Map::new();
    for word in words {
        let Some((name, value)) = name_and_value(word) else {
            return Err(CommandFailure::usage(format!(
                "`{}` is not a parameter: write each as name=value, or all of them as one JSON object",
                SafeText::clean(word, QUOTED_CHARS)
            )));
        };
        let schema = &schema["properties"][name];
        if object.insert(name.to_owned(), typed(name, value, schema)?).is_some() {
            return Err(CommandFailure::usage(format!("the parameter {name} is given twice: leave one of them out")));
        }
    }
    Ok(Value::Object(object))
}

/// The value in the form that the schema of its parameter asks for. A name that the tool does not have stays text: the
/// engine reports it, with the names that there are.
fn typed(name: &str, value: &str, schema: &Value) -> Result<Value, CommandFailure> {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let takes = |kind: &str| kinds.contains(&kind);
    // A schema without a type of its own refers to another one: most of those are words.
    let parsed = serde_json::from_str::<Value>(value).ok();
    let fits = |parsed: &Value| match parsed {
        Value::Bool(_) => takes("boolean"),
        Value::Number(number) => takes("number") || takes("integer") && (number.is_i64() || number.is_u64()),
        Value::Array(_) => takes("array"),
        Value::Object(_) => takes("object") || kinds.is_empty(),
        Value::Null => takes("null") && !takes("string"),
        Value::String(_) => false,
    };
    if let Some(parsed) = parsed.filter(fits) {
        return Ok(parsed);
    }
    if kinds.is_empty() || takes("string") {
        return Ok(Value::String(value.to_owned()));
    }
    let wanted: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "null").map(in_words).collect();
    Err(CommandFailure::usage(format!(
        "{name}={}: {name} takes {}",
        SafeText::clean(value, QUOTED_CHARS),
        wanted.join(" or ")
    )))
}

/// A JSON type as a person writes it.
fn in_words(kind: &str) -> &str {
    match kind {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "array" => "a JSON list, such as [\"WETH\",\"USDC\"]",
        "object" => "a JSON object, such as {\"name\":\"value\"}",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use golem_tools::ALL_TOOL_DEFS;

    fn parameters(tool: &str, words: &[&str]) -> Result<Value, String> {
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match of_tool(&words, tool, &catalog).map_err(|failure| failure.error.to_string())? {
            ToolInput::Json(value) => Ok(value),
            ToolInput::Text(text) => Ok(json!({ "text": text })),
        }
    }

    #[test]
    fn words_take_the_form_that_the_schema_asks_for() {
        assert_eq!(
            parameters("uniswap_get_quote", &["token_in=WETH", "token_out=USDC", "amount=1.50", "slippage_bps=30"]),
            Ok(json!({"token_in": "WETH", "token_out": "USDC", "amount": "1.50", "slippage_bps": 30}))
        );
        // An amount stays the text that was typed: no digit of it passes through a float.
        assert_eq!(
            parameters("uniswap_get_quote", &["amount=100000000000000000001"]),
            Ok(json!({"amount": "100000000000000000001"}))
        );
        // Everything behind the first `=` is the value.
        assert_eq!(parameters("search_tokens", &["query=a=b"]), Ok(json!({"query": "a=b"})));
    }

    #[test]
    fn one_word_that_is_no_parameter_is_json() {
        assert_eq!(parameters("search_tokens", &["{\"query\":\"a=b\"}"]), Ok(json!({"text": "{\"query\":\"a=b\"}"})));
        assert_eq!(parameters("search_tokens", &[]), Ok(json!({"text": "{}"})));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_would_be_right() {
        for (words, said) in [
            (&["token_in=WETH", "USDC"][..], "`USDC` is not a parameter: write each as name=value"),
            (&["token_in=WETH", "token_in=USDC"], "the parameter token_in is given twice"),
            (&["token_in=WETH", "slippage_bps=many"], "slippage_bps=many: slippage_bps takes a whole number"),
            (&["slippage_bps=0.5"], "slippage_bps takes a whole number"),
        ] {
            let error = parameters("uniswap_get_quote", words).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
