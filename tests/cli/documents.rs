//! The trading and identity tools compared with the documents that define them. All words of the tables were copied from
//! them by hand, none from the code.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{bardo, run};

/// The document's tables: properties, displayed fields and parameters of each tool.
fn documented() -> Value {
    json!([
        {
            "name": "uniswap_get_quote",
            "category": "trading", "capability": "Read", "risk_tier": "Layer1",
            "tick_budget": {"class": "Medium", "limit_ms": 5_000},
            "progress_steps": ["Resolving tokens", "Computing route", "Estimating gas"],
            "sprite_trigger": "Thinking", "card": "QuoteCard",
            "event_params": ["token_in", "token_out", "amount", "chain"],
            "summary_fields": ["amount_out", "route_type", "price_impact_pct"],
            "required": ["token_in", "token_out", "amount", "chain"],
            "optional": {"slippage_bps": 50, "prefer_uniswapx": true, "exact_output": false},
            "types": {
                "token_in": "string", "token_out": "string", "amount": "string", "chain": "string",
                "slippage_bps": "integer", "prefer_uniswapx": "boolean", "exact_output": "boolean",
            },
        },
        {
            "name": "uniswap_execute_swap",
            "category": "trading", "capability": "Write", "risk_tier": "Layer3",
            "tick_budget": {"class": "Slow", "limit_ms": 15_000},
            "progress_steps": [
                "Simulating via Revm", "Approving token", "Building calldata", "Signing transaction", "Broadcasting",
                "Confirming receipt",
            ],
            "sprite_trigger": "Executing", "card": "SwapProgress",
            "event_params": ["token_in", "token_out", "amount", "chain"],
            "summary_fields": ["tx_hash", "amount_out", "slippage_actual_bps"],
            "required": ["token_in", "token_out", "amount", "chain"],
            "optional": {"slippage_bps": 50, "deadline": 300, "prefer_uniswapx": true},
            "types": {
                "token_in": "string", "token_out": "string", "amount": "string", "chain": "string",
                "slippage_bps": "integer", "deadline": "integer", "prefer_uniswapx": "boolean",
            },
        },
        {
            "name": "uniswap_submit_uniswapx_order",
            "category": "trading", "capability": "Write", "risk_tier": "Layer2",
            "tick_budget": {"class": "Medium", "limit_ms": 5_000},
            "progress_steps": ["Validating order", "Signing Permit2", "Submitting to filler network"],
            "sprite_trigger": "Executing", "card": "OrderCard",
            "event_params": ["token_in", "token_out", "amount", "chain"],
            "summary_fields": ["order_hash", "order_type", "status"],
            "required": ["token_in", "token_out", "amount", "chain"],
            // `slippage_bps` is an addition: the documents fix it at 50, which no auction passes in the Cautious phase.
            "optional": {"decay_start_time": 10, "decay_end_time": 120, "slippage_bps": 50},
            "types": {
                "token_in": "string", "token_out": "string", "amount": "string", "chain": "string",
                "decay_start_time": "integer", "decay_end_time": "integer", "slippage_bps": "integer",
            },
        },
        {
            "name": "uniswap_check_allowance",
            "category": "trading", "capability": "Read", "risk_tier": "Layer1",
            "tick_budget": {"class": "Fast", "limit_ms": 1_000},
            "progress_steps": ["Resolving token", "Reading allowance"],
            "sprite_trigger": "Thinking", "card": "AllowanceChip",
            "event_params": ["token", "spender", "chain"],
            "summary_fields": ["needs_approval", "allowance"],
            "required": ["token", "chain"],
            "optional": {"spender": null},
            "types": {"token": "string", "spender": ["string", "null"], "chain": "string"},
        },
        {
            "name": "uniswap_submit_cross_chain_intent",
            "category": "trading", "capability": "Write", "risk_tier": "Layer3",
            "tick_budget": {"class": "Slow", "limit_ms": 15_000},
            "progress_steps": [
                "Validating chains", "Signing intent", "Submitting to filler network", "Awaiting initial bids",
            ],
            "sprite_trigger": "Executing", "card": "CrossChainProgress",
            "event_params": ["token_in", "token_out", "amount", "source_chain", "destination_chain"],
            "summary_fields": ["intent_id", "status", "filler_count"],
            "required": ["token_in", "token_out", "amount", "source_chain", "destination_chain"],
            "optional": {"deadline": 3_600},
            "types": {
                "token_in": "string", "token_out": "string", "amount": "string", "source_chain": "string",
                "destination_chain": "string", "deadline": "integer",
            },
        },
    ])
}

/// Fields of each result, from the document's structs.
const RESULTS: [(&str, &[&str]); 5] = [
    (
        "uniswap_get_quote",
        &[
            "quote_id",
            "token_in",
            "token_out",
            "amount_in",
            "amount_out",
            "price_impact_pct",
            "gas_estimate_usd",
            "route",
            "route_type",
            "deadline",
            "permit_data",
        ],
    ),
    (
        "uniswap_execute_swap",
        &[
            "tx_hash",
            "block_number",
            "gas_used",
            "amount_in",
            "amount_out",
            "effective_price",
            "price_impact_pct",
            "slippage_actual_bps",
            "explorer_url",
        ],
    ),
    (
        "uniswap_submit_uniswapx_order",
        &["order_hash", "order_type", "status", "deadline", "start_amount", "end_amount"],
    ),
    ("uniswap_check_allowance", &["token", "spender", "allowance", "sufficient", "needs_approval"]),
    (
        "uniswap_submit_cross_chain_intent",
        &["intent_id", "status", "source_chain", "destination_chain", "estimated_output", "filler_bids"],
    ),
];

/// Notes about custody for each kind of account: a session key with its enforcement, then the other two.
const CUSTODY: [(&str, &[&str]); 3] = [
    (
        "uniswap_execute_swap",
        &[
            "session key",
            "caveat enforcers",
            "expir",
            "embedded wallet",
            "wallet server signs",
            "owner keeps its recovery",
            "local key",
            "no on-chain bounds",
            "polic",
        ],
    ),
    (
        "uniswap_submit_uniswapx_order",
        &[
            "session",
            "needs no ETH",
            "Permit2",
            "embedded wallet",
            "wallet server signs",
            "local key",
            "no on-chain bounds",
            "polic",
        ],
    ),
    (
        "uniswap_submit_cross_chain_intent",
        &[
            "session",
            "origin settler",
            "gas",
            "embedded wallet",
            "wallet server signs",
            "local key",
            "no on-chain bounds",
            "polic",
        ],
    ),
];

fn tools() -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["tools", "--format", "json"]));
    assert_eq!(code, 0, "{out}");
    serde_json::from_str(&out).unwrap()
}

fn named<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}"))
}

type IdentityRow =
    (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Name, capability, risk tier, tick budget, steps and parameters of each identity tool. The last tool is only named by
/// the document, so its row is that of the other writes. `chain_id` accepts a name beside the document's number.
const IDENTITY: [IdentityRow; 12] = [
    (
        "identity_discover_agents",
        "Read",
        "Layer1",
        "Medium",
        &["Querying subgraph", "Resolving metadata", "Loading Agent Cards"],
        &["query", "protocol", "chain", "min_reputation", "sort_by", "limit", "offset"],
    ),
    (
        "identity_get_agent_profile",
        "Read",
        "Layer1",
        "Medium",
        &["Fetching contract state", "Resolving IPFS metadata", "Loading engagement stats"],
        &["agent_id", "include_feedback"],
    ),
    ("identity_get_reputation_summary", "Read", "Layer1", "Fast", &["Querying Reputation Registry"], &["agent_id"]),
    (
        "identity_submit_feedback",
        "Write",
        "Layer2",
        "Medium",
        &["Building transaction", "Simulating", "Broadcasting"],
        &["agent_id", "score", "tag1", "tag2", "review", "chain_id"],
    ),
    ("identity_get_validation_status", "Read", "Layer1", "Fast", &["Querying Validation Registry"], &["agent_id"]),
    (
        "identity_evaluate_agent_trust",
        "Read",
        "Layer1",
        "Medium",
        &["Loading identity", "Loading reputation", "Loading validation", "Computing trust score"],
        &["agent_id"],
    ),
    (
        "identity_register_agent",
        "Write",
        "Layer2",
        "Medium",
        &["Uploading metadata to IPFS", "Building registration tx", "Simulating", "Broadcasting"],
        &["name", "description", "image", "registration", "chain_id"],
    ),
    (
        "identity_update_metadata",
        "Write",
        "Layer2",
        "Medium",
        &["Uploading to IPFS", "Building update tx", "Simulating", "Broadcasting"],
        &["agent_id", "updates", "chain_id"],
    ),
    (
        "identity_verify_agent",
        "Write",
        "Layer2",
        "Slow",
        &["Preparing proof", "Submitting verification tx", "Awaiting confirmation"],
        &["agent_id", "method", "proof", "chain_id"],
    ),
    ("identity_get_credentials", "Read", "Layer1", "Fast", &["Loading credentials"], &[]),
    ("identity_get_tier", "Read", "Layer1", "Fast", &["Computing tier"], &["agent_id"]),
    (
        "identity_transfer_ownership",
        "Privileged",
        "Layer3",
        "Medium",
        &["Validating recipient", "Building transfer tx", "Simulating", "Broadcasting"],
        &["agent_id", "new_owner", "chain_id"],
    ),
];

/// Fields of each identity tool's result, from the document's structs.
const IDENTITY_RESULTS: [(&str, &[&str]); 11] = [
    ("identity_discover_agents", &["agents", "total", "has_more"]),
    (
        "identity_get_agent_profile",
        &[
            "agent_id",
            "chain_id",
            "owner",
            "name",
            "description",
            "image",
            "active",
            "registration",
            "services",
            "engagement",
            "feedback_summary",
            "feedback_history",
        ],
    ),
    (
        "identity_get_reputation_summary",
        &[
            "agent_id",
            "total_feedback",
            "average_score",
            "tag_breakdown",
            "recent_trend",
            "top_providers",
            "beta_distribution",
        ],
    ),
    ("identity_submit_feedback", &["tx_hash", "feedback_id", "agent_id", "score"]),
    (
        "identity_get_validation_status",
        &["agent_id", "validated", "method", "last_validated", "validation_score", "history"],
    ),
    ("identity_evaluate_agent_trust", &["trust_score", "breakdown", "confidence", "flags", "recommendation"]),
    ("identity_register_agent", &["tx_hash", "agent_id", "chain_id"]),
    ("identity_update_metadata", &["tx_hash", "agent_id", "fields_updated"]),
    ("identity_verify_agent", &["tx_hash", "agent_id", "method", "validation_score"]),
    ("identity_get_credentials", &["agent_id", "api_keys", "session_keys"]),
    ("identity_get_tier", &["agent_id", "tier", "points", "next_tier_threshold", "tier_benefits"]),
];

#[test]
fn the_identity_tools_are_those_of_the_document() {
    let tools = tools();
    for (name, capability, risk_tier, class, steps, parameters) in IDENTITY {
        let tool = named(&tools, name);
        let (limit, trigger) = match class {
            "Fast" => (1_000, "Thinking"),
            "Slow" => (15_000, "Executing"),
            _ => (5_000, if capability == "Read" { "Thinking" } else { "Executing" }),
        };
        for (field, wanted) in [
            ("category", json!("identity")),
            ("capability", json!(capability)),
            ("risk_tier", json!(risk_tier)),
            ("tick_budget", json!({"class": class, "limit_ms": limit})),
            ("progress_steps", json!(steps)),
            ("sprite_trigger", json!(trigger)),
        ] {
            assert_eq!(tool[field], wanted, "{name}: {field}");
        }
        let properties = tool["input_schema"]["properties"].as_object().cloned().unwrap_or_default();
        let found: BTreeSet<_> = properties.keys().map(String::as_str).collect();
        assert_eq!(found, parameters.iter().copied().collect(), "{name}");
    }
    for (name, fields) in IDENTITY_RESULTS {
        let properties = named(&tools, name)["output_schema"]["properties"].as_object().unwrap();
        for field in fields {
            assert!(properties.contains_key(*field), "{name}: {field}");
        }
    }
    // The document's table: 12 tools, 7 that read, 4 that write, 1 that is privileged.
    let of = |capability: &str| {
        let identity = tools.iter().filter(|tool| tool["category"] == "identity");
        identity.filter(|tool| tool["capability"] == capability).count()
    };
    assert_eq!([of("Read"), of("Write"), of("Privileged")], [7, 4, 1]);
}

/// Risk tier, tick budget, steps and parameters of the document's reads of the wallet. `chain_id` accepts a name beside
/// the document's number.
const WALLET: [WalletRow; 5] = [
    ("wallet_get_status", "Medium", &["Querying provider", "Loading balances", "Checking session keys"], &[]),
    ("wallet_get_delegation", "Fast", &["Checking delegation"], &["contract", "method", "chain_id"]),
    ("wallet_detect_account_type", "Fast", &["Checking bytecode"], &["address", "chain_id"]),
    ("wallet_get_gas_price", "Fast", &["Fetching gas oracle"], &["chain_id"]),
    ("wallet_get_supported_chains", "Fast", &["Checking chain health"], &[]),
];

type WalletRow = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Fields of their results.
const WALLET_RESULTS: [(&str, &[&str]); 5] = [
    (
        "wallet_get_status",
        &[
            "provider",
            "address",
            "account_type",
            "balances",
            "active_session_keys",
            "pending_transactions",
            "policy_summary",
            "identity_status",
        ],
    ),
    ("wallet_get_delegation", &["delegated", "delegate_address", "permissions", "expires_at"]),
    ("wallet_detect_account_type", &["address", "account_type", "has_code", "code_size"]),
    (
        "wallet_get_gas_price",
        &["chain_id", "base_fee_gwei", "priority_fee_gwei", "estimated_swap_cost_usd", "estimated_lp_cost_usd"],
    ),
    ("wallet_get_supported_chains", &["chains"]),
];

#[test]
fn the_reads_of_the_wallet_are_those_of_the_document() {
    let tools = tools();
    for (name, class, steps, parameters) in WALLET {
        let tool = named(&tools, name);
        let limit = if class == "Fast" { 1_000 } else { 5_000 };
        for (field, wanted) in [
            ("category", json!("wallet")),
            ("capability", json!("Read")),
            ("risk_tier", json!("Layer1")),
            ("tick_budget", json!({"class": class, "limit_ms": limit})),
            ("progress_steps", json!(steps)),
            ("sprite_trigger", json!("Thinking")),
        ] {
            assert_eq!(tool[field], wanted, "{name}: {field}");
        }
        let properties = tool["input_schema"]["properties"].as_object().cloned().unwrap_or_default();
        let found: BTreeSet<_> = properties.keys().map(String::as_str).collect();
        assert_eq!(found, parameters.iter().copied().collect(), "{name}");
    }
    for (name, fields) in WALLET_RESULTS {
        let properties = named(&tools, name)["output_schema"]["properties"].as_object().unwrap();
        for field in fields {
            assert!(properties.contains_key(*field), "{name}: {field}");
        }
    }
}

/// Capability, risk tier, tick budget, steps, parameters and result fields of the document's tools for session keys and
/// funding. Of the parameters, the bounds of a session key are additions: the document has none, and a key without them
/// could take everything.
const SESSION: [SessionRow; 6] = [
    (
        "session_provision_key",
        "Write",
        "Layer2",
        "Fast",
        &["Generating key", "Registering permissions"],
        &[
            "permissions",
            "expires_in",
            "label",
            "swaps",
            "chain_id",
            "max_calls",
            "max_value",
            "max_loss",
            "policy_contract",
        ],
        &["key_id", "public_key", "expires_at", "permissions", "label"],
    ),
    ("session_get_keys", "Read", "Layer1", "Fast", &["Loading session keys"], &["include_ended"], &["keys", "total"]),
    (
        "session_revoke_key",
        "Write",
        "Layer1",
        "Fast",
        &["Revoking keys"],
        &["key_ids", "reason"],
        &["revoked_count", "revoked_keys"],
    ),
    (
        "wallet_fund",
        "Write",
        "Layer2",
        "Slow",
        &["Requesting funds", "Awaiting confirmation"],
        &["source", "token", "amount", "chain_id"],
        &["tx_hash", "amount_funded", "token", "source"],
    ),
    (
        "wallet_provision",
        "Privileged",
        "Layer2",
        "Medium",
        &["Creating wallet", "Verifying"],
        &["provider", "chain_id", "label"],
        &["address", "provider", "chain_id", "account_type"],
    ),
    (
        "wallet_configure_policy",
        "Write",
        "Layer2",
        "Fast",
        &["Validating policy", "Applying to provider"],
        &["policy_template", "custom_policy"],
        &["policy_hash", "template", "allowed_contracts", "spending_limit_usd"],
    ),
];

type SessionRow = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn the_tools_for_session_keys_are_those_of_the_document() {
    let tools = tools();
    for (name, capability, risk_tier, class, steps, parameters, fields) in SESSION {
        let tool = named(&tools, name);
        let limit = match class {
            "Fast" => 1_000,
            "Medium" => 5_000,
            _ => 15_000,
        };
        for (field, wanted) in [
            ("category", json!("wallet")),
            ("capability", json!(capability)),
            ("risk_tier", json!(risk_tier)),
            ("tick_budget", json!({"class": class, "limit_ms": limit})),
            ("progress_steps", json!(steps)),
            ("sprite_trigger", json!(if capability == "Read" { "Thinking" } else { "Executing" })),
        ] {
            assert_eq!(tool[field], wanted, "{name}: {field}");
        }
        let properties = tool["input_schema"]["properties"].as_object().cloned().unwrap_or_default();
        let found: BTreeSet<_> = properties.keys().map(String::as_str).collect();
        assert_eq!(found, parameters.iter().copied().collect(), "{name}");
        let results = tool["output_schema"]["properties"].as_object().unwrap();
        for field in fields {
            assert!(results.contains_key(*field), "{name}: {field}");
        }
    }
    // The default lifetime of the document: a day.
    let provision = named(&tools, "session_provision_key");
    assert_eq!(provision["input_schema"]["properties"]["expires_in"]["default"], 86_400);
}

/// Of the 24 tools of the document: those that read, write and are privileged, by the table at its end.
#[test]
fn the_document_counts_its_tools_by_capability() {
    let tools = tools();
    let all = tools.iter().filter(|tool| {
        let name = tool["name"].as_str().unwrap();
        ["identity_", "wallet_", "session_"].iter().any(|prefix| name.starts_with(prefix))
    });
    let mut counts = [["Read", "Write", "Privileged"]; 3].map(|kinds| kinds.map(|kind| (kind, 0)));
    for tool in all {
        let group = match tool["name"].as_str().unwrap().split('_').next() {
            Some("identity") => 0,
            Some("wallet") => 1,
            _ => 2,
        };
        for (kind, count) in &mut counts[group] {
            *count += u32::from(tool["capability"] == *kind);
        }
    }
    assert_eq!(counts.map(|group| group.map(|(_, count)| count)), [[7, 4, 1], [5, 3, 1], [1, 2, 0]]);
}

#[test]
fn the_trading_tools_are_those_of_the_document() {
    let tools = tools();
    for row in documented().as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let tool = named(&tools, name);
        for field in [
            "category",
            "capability",
            "risk_tier",
            "tick_budget",
            "progress_steps",
            "sprite_trigger",
            "card",
            "event_params",
            "summary_fields",
        ] {
            assert_eq!(tool[field], row[field], "{name}: {field}");
        }
        let schema = &tool["input_schema"];
        let set = |value: &Value| -> BTreeSet<String> {
            value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(set(&schema["required"]), set(&row["required"]), "{name}");
        let properties = schema["properties"].as_object().unwrap();
        let types = row["types"].as_object().unwrap();
        // The document's parameters, and one optional of ours: the bound that a slice of a schedule carries.
        let ours = |parameter: &&String| (name, parameter.as_str()) == ("uniswap_execute_swap", "least_price");
        let (added, given): (BTreeSet<&String>, BTreeSet<&String>) = properties.keys().partition(ours);
        assert_eq!(
            (given, added.len()),
            (types.keys().collect(), usize::from(name == "uniswap_execute_swap")),
            "{name}"
        );
        for (parameter, kind) in types {
            assert_eq!(&properties[parameter]["type"], kind, "{name}: {parameter}");
        }
        for (parameter, default) in row["optional"].as_object().unwrap() {
            assert_eq!(properties[parameter].get("default").unwrap_or(&Value::Null), default, "{name}: {parameter}");
        }
    }
}

#[test]
fn every_result_has_the_fields_of_the_document() {
    let tools = tools();
    for (name, fields) in RESULTS {
        let properties = named(&tools, name)["output_schema"]["properties"].as_object().unwrap();
        for field in fields {
            assert!(properties.contains_key(*field), "{name}: {field}");
        }
    }
}

#[test]
fn every_writing_tool_describes_its_custody() {
    let tools = tools();
    for (name, words) in CUSTODY {
        let description = named(&tools, name)["description"].as_str().unwrap();
        let note = description.split_once("Custody: ").unwrap_or_else(|| panic!("{name}: {description}")).1;
        for word in words {
            assert!(note.contains(word), "{name} says nothing of \"{word}\": {note}");
        }
    }
}
