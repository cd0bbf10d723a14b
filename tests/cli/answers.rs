//! Answers of every read tool on a devnet match the tool's own schema.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

/// Checks a value against a schema, with the JSON Schema keywords that Bardo's schemas use; panics on an unknown
/// keyword.
fn held(value: &Value, schema: &Value, at: &str) {
    let Value::Object(schema) = schema else {
        assert_eq!(schema, &Value::Bool(true), "{at}: nothing may stand there: {value}");
        return;
    };
    for (word, said) in schema {
        match word.as_str() {
            "$schema" | "title" | "description" | "default" | "format" => {}
            "type" => {
                let types = said.as_array().cloned().unwrap_or_else(|| vec![said.clone()]);
                let is = |name: &Value| match name.as_str().unwrap() {
                    "null" => value.is_null(),
                    "boolean" => value.is_boolean(),
                    "string" => value.is_string(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    other => panic!("{at}: no type {other}"),
                };
                assert!(types.iter().any(is), "{at}: {value} is none of {said}");
            }
            "const" => assert_eq!(value, said, "{at}"),
            "enum" => assert!(said.as_array().unwrap().contains(value), "{at}: {value} is none of {said}"),
            "minimum" => assert!(value.as_f64().is_none_or(|one| one >= said.as_f64().unwrap()), "{at}: {value}"),
            "maximum" => assert!(value.as_f64().is_none_or(|one| one <= said.as_f64().unwrap()), "{at}: {value}"),
            "required" => {
                for name in said.as_array().unwrap().iter().filter(|_| value.is_object()) {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: no {name} in {value}");
                }
            }
            "properties" => {
                for (name, schema) in said.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        held(value, schema, &format!("{at}.{name}"));
                    }
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (name, value) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        held(value, said, &format!("{at}.{name}"));
                    }
                }
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    held(value, said, &format!("{at}[{number}]"));
                }
            }
            "minItems" | "maxItems" => {
                let (count, limit) = (value.as_array().map_or(0, Vec::len), said.as_u64().unwrap());
                let count = u64::try_from(count).unwrap();
                let holds = if word == "minItems" { count >= limit } else { count <= limit };
                assert!(holds || !value.is_array(), "{at}: {count} items");
            }
            "prefixItems" => {
                for (value, schema) in value.as_array().into_iter().flatten().zip(said.as_array().unwrap()) {
                    held(value, schema, at);
                }
            }
            "anyOf" | "oneOf" => {
                let fits = |schema: &Value| std::panic::catch_unwind(|| held(value, schema, at)).is_ok();
                assert!(said.as_array().unwrap().iter().any(fits), "{at}: {value} fits none of {said}");
            }
            other => panic!("{at}: this test does not know `{other}`"),
        }
    }
}

/// Asserts that the schema lists every field: nobody would look for others.
fn named(value: &Value, schema: &Value, at: &str) {
    if let (Some(value), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, value) in value {
            let schema = properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not in the schema"));
            named(value, schema, &format!("{at}.{name}"));
        }
    }
    for (number, value) in value.as_array().into_iter().flatten().enumerate() {
        named(value, &schema["items"], &format!("{at}[{number}]"));
    }
}

/// Hash of the newest transaction on the devnet's first chain.
fn newest_transaction(fixture: &Fixture) -> Value {
    let newest = fixture.ask("eth_blockNumber", json!([]));
    let newest = u64::from_str_radix(newest.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let of = |number: u64| fixture.ask("eth_getBlockByNumber", json!([format!("{number:#x}"), false]));
    let mut hashes = (0..=newest).rev().filter_map(|number| of(number)["transactions"].get(0).cloned());
    hashes.next().unwrap()
}

#[test]
fn every_read_answers_what_its_schema_says() {
    let fixture = Fixture::new();
    let (out, _, _) = run(bardo(fixture.home.path()).args(["tools", "--format", "json"]));
    let tools: Vec<Value> = serde_json::from_str(&out).unwrap();
    let submit = tools.iter().find(|tool| tool["name"] == "uniswap_submit_uniswapx_order").unwrap();
    let (placed, _) = fixture.call("uniswap_submit_uniswapx_order", &submit["example"], &["--approve", "always"]);
    let hash = placed["data"]["order_hash"].clone();
    assert!(hash.is_string(), "{placed}");
    // Shares that can be withdrawn in a simulation.
    let (deposited, code) =
        fixture.call("vault_deposit", &json!({"amount": "100", "chain": "ethereum"}), &["--approve", "always"]);
    assert_eq!((&deposited["status"], code), (&json!("success"), 0), "{deposited:#}");
    let (found, _) = fixture.call("hook_discover", &json!({"chain": "ethereum"}), &[]);
    let hooked = found["data"]["pools"][0]["pool_id"].clone();
    // The other end of a quote between two chains.
    let base = format!("base={}", fixture.devnet.url(1));
    let mut asked = BTreeSet::new();
    for tool in tools.iter().filter(|tool| tool["capability"] == "Read") {
        let name = tool["name"].as_str().unwrap();
        let params = match name {
            "uniswap_get_uniswapx_order_status" => json!({"order_hash": hash}),
            "hook_evaluate" => json!({"pool_id": hooked, "chain": "ethereum"}),
            "get_transaction" => json!({"tx_hash": newest_transaction(&fixture), "chain": "ethereum"}),
            _ => tool["example"].clone(),
        };
        let more: &[&str] = if name == "across_get_quote" { &["--rpc", &base] } else { &[] };
        let (envelope, code) = fixture.call(name, &params, more);
        assert_eq!((&envelope["status"], code), (&json!("success"), 0), "{name}: {envelope}");
        held(&envelope["data"], &tool["output_schema"], name);
        named(&envelope["data"], &tool["output_schema"], name);
        asked.insert(name);
    }
    assert_eq!(asked.len(), 49, "{asked:?}");
    for name in ["check_safety_status", "uniswap_get_quote", "simulate_transaction"] {
        assert!(asked.contains(name), "{name}");
    }
}

/// A value that lacks a required field or has another type does not match.
#[test]
#[should_panic(expected = "tool.amount: null is none of \"number\"")]
fn a_missing_audit_number_is_detected() {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]});
    held(&json!({"amount": 1.5}), &schema, "tool");
    // NaN, which JSON cannot represent.
    held(&json!({"amount": f64::NAN}), &schema, "tool");
}

#[test]
fn the_safety_status_is_available_from_the_shell() {
    let fixture = Fixture::new();
    let (envelope, code) = fixture.call("check_safety_status", &json!({}), &[]);
    assert_eq!((&envelope["status"], code), (&json!("success"), 0), "{envelope}");
    let told = &envelope["data"];
    assert_eq!(told["unenforced"], json!([]), "every field of the policy is enforced");
    // A stop is reported here, too, and does not prevent reads.
    assert_eq!(run(bardo(fixture.home.path()).args(["halt", "--reason", "a test of it"])).2, 0);
    let (stopped, code) = fixture.call("check_safety_status", &json!({}), &[]);
    assert_eq!((&stopped["status"], code), (&json!("success"), 0), "{stopped}");
    assert_ne!(stopped["data"], *told);
    assert!(stopped["data"].to_string().contains("a test of it"), "{stopped}");
}
