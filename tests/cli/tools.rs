//! `bardo tools`: its four output formats, its filters, and the documents' category sets.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{bardo, run};

/// Profiles of `003`; `wallet` is placed as in the specification.
const PROFILES: [(&str, &str); 12] = [
    ("data", "data identity"),
    ("trader", "data trading safety wallet"),
    ("lp", "data trading lp safety wallet"),
    ("vault", "data vault safety wallet"),
    ("fees", "data fees"),
    ("erc8004", "data identity"),
    ("intelligence", "data intelligence"),
    ("observatory", "data intelligence identity memory"),
    ("learning", "data memory self_improvement"),
    ("dashboard", "data intelligence"),
    ("full", "data trading lp vault safety identity memory streaming intelligence fees self_improvement hook wallet"),
    (
        "dev",
        "data trading lp vault safety identity memory streaming intelligence fees self_improvement hook wallet testnet",
    ),
];

/// Stdout of a successful command without stderr output.
fn tools(arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let (out, err, code) = run(bardo(home.path()).arg("tools").args(arguments));
    assert_eq!((err.as_str(), code), ("", 0), "{arguments:?}");
    out
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&tools(arguments)).unwrap()
}

fn names<'a>(list: &'a Value, pointer: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|tool| tool.pointer(pointer).unwrap().as_str().unwrap()).collect()
}

#[test]
fn all_four_listings_name_the_same_tools() {
    let full = json(&["--format", "json"]);
    let all = names(&full, "/name");
    for tool in ["get_balances", "get_chain_status", "get_pool_info", "get_token_price", "search_tokens"] {
        assert!(all.contains(&tool), "{tool}");
    }
    assert!(all.contains(&"uniswap_get_quote") && all.contains(&"uniswap_check_allowance"));

    let openai = json(&["--format", "openai"]);
    assert_eq!(names(&openai, "/function/name"), all);
    let mcp = json(&["--format", "mcp"]);
    assert_eq!(names(&mcp["tools"], "/name"), all);
    for (number, tool) in full.as_array().unwrap().iter().enumerate() {
        assert_eq!(openai[number]["type"], "function");
        assert_eq!(openai[number]["function"]["parameters"], tool["input_schema"]);
        assert_eq!(mcp["tools"][number]["inputSchema"], tool["input_schema"]);
        assert_eq!(mcp["tools"][number]["outputSchema"], tool["output_schema"]);
        let reads = tool["capability"] == "Read";
        assert_eq!(mcp["tools"][number]["annotations"]["readOnlyHint"], reads);
        assert_eq!(tool["input_schema"]["additionalProperties"], false);
    }
    // `--json` is the JSON format, and the table has a line for each tool.
    assert_eq!(json(&["--json"]), full);
    let table = tools(&[]);
    assert_eq!(table.lines().count(), all.len() + 1, "{table}");
    for (line, name) in table.lines().skip(1).zip(&all) {
        assert!(line.starts_with(name), "{line}");
        assert!(line.chars().count() <= 140, "fits a screen: {line}");
    }
}

#[test]
fn profiles_show_the_categories_of_the_documents() {
    let all = json(&["--format", "json"]);
    for (profile, categories) in PROFILES {
        let categories: BTreeSet<_> = categories.split_whitespace().collect();
        let expected: Vec<_> = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|tool| categories.contains(tool["category"].as_str().unwrap()))
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        let shown = json(&["--profile", profile, "--format", "json"]);
        assert_eq!(names(&shown, "/name"), expected, "{profile}");
    }
    // The table shows the categories of a profile, and which of them have no tools yet.
    let filled: BTreeSet<&str> =
        all.as_array().unwrap().iter().map(|tool| tool["category"].as_str().unwrap()).collect();
    for (profile, categories) in PROFILES {
        let table = tools(&["--profile", profile]);
        let first =
            table.lines().next().unwrap().strip_prefix(&format!("{profile}: ")).unwrap_or_else(|| panic!("{table}"));
        let (with, without) = first.split_once("; no tool yet: ").unwrap_or((first, ""));
        let set =
            |words: &str| words.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>();
        let named = categories.split_whitespace().map(str::to_owned);
        let (wanted, empty): (BTreeSet<_>, BTreeSet<_>) = named.partition(|one| filled.contains(one.as_str()));
        assert_eq!((set(with), set(without)), (wanted, empty), "{table}");
    }
    let traders = json(&["--category", "trading", "--format", "json"]);
    assert!(traders.as_array().unwrap().iter().all(|tool| tool["category"] == "trading"));
    assert!(!traders.as_array().unwrap().is_empty());
}

#[test]
fn a_role_is_shown_the_tools_that_it_may_call() {
    let shown = |role: &str| json(&["--archetype", role, "--format", "json"]);
    let trader = shown("trade-executor");
    let names = names(&trader, "/name");
    assert!(names.contains(&"uniswap_execute_swap") && names.contains(&"uniswap_get_quote"), "{names:?}");
    let guardian = shown("safety-guardian");
    assert!(!guardian.as_array().unwrap().is_empty());
    assert!(guardian.as_array().unwrap().iter().all(|tool| tool["name"] != "uniswap_execute_swap"), "{guardian}");
    // Filtered by category, and as a table.
    let narrowed = json(&["--archetype", "trade-executor", "--category", "trading", "--format", "json"]);
    let narrowed = narrowed.as_array().unwrap();
    assert!(!narrowed.is_empty() && narrowed.len() < names.len());
    assert!(narrowed.iter().all(|tool| tool["category"] == "trading"));
    assert_eq!(tools(&["--archetype", "trade-executor"]).lines().count(), names.len() + 1);
}

#[test]
fn one_tool_is_described_in_full() {
    let text = tools(&["uniswap_get_quote"]);
    // Parameters of `000` with their defaults, and its steps.
    for part in [
        "token_in (string, required)",
        "token_out (string, required)",
        "amount (string, required)",
        "chain (string, required)",
        "slippage_bps (integer, default 50)",
        "prefer_uniswapx (boolean, default true)",
        "exact_output (boolean, default false)",
        "Resolving tokens → Computing route → Estimating gas",
        "bardo call uniswap_get_quote '{",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let tool = json(&["uniswap_get_quote", "--format", "json"]);
    assert_eq!((&tool["category"], &tool["capability"]), (&"trading".into(), &"Read".into()));
}

#[test]
fn missing_things_are_usage_errors() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&["uniswap_get_qoute"][..], "did you mean 'uniswap_get_quote'?"),
        (&["zzzzzzzz"], "unknown tool 'zzzzzzzz'"),
        (&["--profile", "traders"], "trader, lp"),
        (&["--category", "nope"], "trading"),
        (&["--format", "xml"], "openai"),
        (&["uniswap_get_quote", "--profile", "trader"], "--profile"),
    ] {
        let (out, err, code) = run(bardo(home.path()).arg("tools").args(arguments));
        assert_eq!((out.as_str(), code), ("", 2), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

/// Names in a tool's texts that neither its parameters and their choices, nor any tool, nor the policy know.
fn unknown_words(tool: &Value, tools: &BTreeSet<String>, is_policy_field: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    fn walk(value: &Value, each: &mut dyn FnMut(&serde_json::Map<String, Value>)) {
        match value {
            Value::Object(fields) => {
                each(fields);
                fields.values().for_each(|value| walk(value, each));
            }
            Value::Array(all) => all.iter().for_each(|value| walk(value, each)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let (mut known, mut texts) = (tools.clone(), Vec::new());
    walk(&tool["input_schema"], &mut |fields| {
        let listed = fields.get("enum").and_then(Value::as_array).into_iter().flatten().chain(fields.get("const"));
        known.extend(listed.filter_map(Value::as_str).map(str::to_owned));
        known.extend(
            fields.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.keys().cloned()),
        );
        texts.extend(fields.get("description").and_then(Value::as_str).map(str::to_owned));
    });
    texts.extend(["description", "prompt_snippet"].map(|name| tool[name].as_str().unwrap().to_owned()));
    texts.extend(tool["prompt_guidelines"].as_object().unwrap().values().map(|text| text.as_str().unwrap().to_owned()));
    let mut found = BTreeSet::new();
    for text in &texts {
        // Text in backticks is a name, and so is every word with an underscore.
        found.extend(text.split('`').skip(1).step_by(2).map(str::to_owned));
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        found.extend(words.filter(|word| word.trim_matches('_').contains('_')).map(str::to_owned));
    }
    found.retain(|word| !known.contains(word) && !is_policy_field(word));
    found
}

#[test]
fn descriptions_and_guidelines_name_only_what_can_be_chosen() {
    let home = tempfile::tempdir().unwrap();
    let is_policy_field = |word: &str| run(bardo(home.path()).args(["policy", "explain", word])).2 == 0;
    let all = json(&["--format", "json"]);
    let tools: BTreeSet<String> =
        all.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    for tool in all.as_array().unwrap() {
        let unknown = unknown_words(tool, &tools, &is_policy_field);
        assert!(unknown.is_empty(), "{}: {unknown:?}", tool["name"]);
    }
    // Unknown names are found in the description and in the guidance of one phase.
    let mut tool = all.as_array().unwrap().iter().find(|tool| tool["name"] == "uniswap_execute_swap").unwrap().clone();
    tool["description"] = Value::from("Swaps, at `FASTEST` if you like.");
    *tool["prompt_guidelines"].as_object_mut().unwrap().values_mut().next().unwrap() =
        Value::from("Prefer route_kind DUTCH_V9.");
    let expected = ["DUTCH_V9", "FASTEST", "route_kind"].map(str::to_owned);
    assert_eq!(unknown_words(&tool, &tools, &is_policy_field), BTreeSet::from(expected));
}
