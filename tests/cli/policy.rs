use serde_json::Value;

use crate::{bardo, run};

#[test]
fn devnets_use_the_demo_policy_and_other_networks_sign_nothing() {
    let home = tempfile::tempdir().unwrap();
    let show = |network: &str| {
        let (out, err, code) = run(bardo(home.path()).args(["policy", "show", "--json", "--network", network]));
        assert_eq!((err.as_str(), code), ("", 0));
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let field = |policy: &Value, name: &str, what: &str| {
        let fields = policy["fields"].as_array().unwrap();
        fields.iter().find(|field| field["field"] == name).unwrap_or_else(|| panic!("no {name}"))[what].clone()
    };
    let demo = show("devnet");
    assert_eq!((demo["policy"].as_str(), demo["exists"].as_bool()), (Some("demo"), Some(false)));
    assert_eq!(field(&demo, "max_single_trade_usd", "value"), "\"2500\"");
    assert_eq!(field(&demo, "max_single_trade_usd", "enforced_by"), "spending_limit");
    for name in ["require_rebalance_check", "min_rebalance_benefit_usd"] {
        assert_eq!(field(&demo, name, "enforced"), true);
        assert_eq!(field(&demo, name, "enforced_by"), "rebalance_position and migrate_position");
    }
    let (out, _, code) = run(bardo(home.path()).env("BARDO_RPC_SEPOLIA", "http://127.0.0.1:1").args([
        "policy",
        "show",
        "--network",
        "sepolia",
    ]));
    assert_eq!(code, 0);
    assert!(out.starts_with("read-only"), "{out}");

    std::fs::write(home.path().join("policy-devnet.toml"), "preset = \"paranoid\"\nmax_gas_usd = \"3\"\n").unwrap();
    let own = show("devnet");
    assert_eq!(own["policy"], "paranoid*");
    assert_eq!(field(&own, "max_gas_usd", "set_by"), "line 2");
    assert_ne!(own["hash"], demo["hash"]);
}

#[cfg(unix)]
#[test]
fn the_policy_follows_the_endpoints_chain() {
    let home = tempfile::tempdir().unwrap();
    let show = |at: &str| {
        let (out, err, code) = run(bardo(home.path()).args(["policy", "show", "--json", "--rpc", at]));
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let told = |policy: &Value| {
        (
            policy["policy"].as_str().unwrap().to_owned(),
            policy["for"].as_str().unwrap().to_owned(),
            policy["endpoint_asked"] == true,
        )
    };
    // Chain 1 by its name; a devnet by its own description.
    let devnet = crate::devnet::start();
    let demo = ("demo".to_owned(), "devnets".to_owned(), true);
    assert_eq!(told(&show(&format!("ethereum={}", devnet.url(0)))), demo);
    let nobody = ("read-only".to_owned(), "test networks and real ones".to_owned(), false);
    assert_eq!(told(&show("ethereum=http://127.0.0.1:1")), nobody);
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("policy-devnet.toml"), "preset = \"demo\"\n\nmax_gass_usd = \"3\"\n").unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["policy", "show"]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(
        err.contains("policy-devnet.toml, line 3: unknown field `max_gass_usd`; did you mean `max_gas_usd`?"),
        "{err}"
    );
}

/// Every policy field in force in this home on a devnet, with its value.
fn fields(home: &std::path::Path) -> Vec<(String, String)> {
    let (out, err, code) = run(bardo(home).args(["policy", "show", "--json"]));
    assert_eq!((err.as_str(), code), ("", 0));
    let shown: Value = serde_json::from_str(&out).unwrap();
    let text = |field: &Value, name: &str| field[name].as_str().unwrap().to_owned();
    let all = shown["fields"].as_array().unwrap();
    all.iter().map(|field| (text(field, "field"), text(field, "value"))).collect()
}

#[test]
fn policy_explain_describes_each_field() {
    for written in [
        None,
        Some("preset = \"paranoid\"\n"),
        Some("preset = \"demo\"\nmax_gas_usd = \"3\"\n\n[phases.defensive]\nmax_position_share_bps = 1234\n"),
    ] {
        let (home, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        if let Some(written) = written {
            std::fs::write(home.path().join("policy-devnet.toml"), written).unwrap();
        }
        let (out, err, code) = run(bardo(home.path()).args(["policy", "explain"]));
        assert_eq!((err.as_str(), code), ("", 0), "{written:?}");
        // Saved unchanged.
        std::fs::write(copy.path().join("policy-devnet.toml"), &out).unwrap();
        assert_eq!(fields(copy.path()), fields(home.path()), "{written:?}\n{out}");
    }
}

#[test]
fn explain_prints_a_file_that_can_be_used() {
    let home = tempfile::tempdir().unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["policy", "explain"]));
    assert_eq!(code, 0);
    // With everything in it uncommented except the sentences.
    let file: String = out
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    std::fs::write(home.path().join("policy-devnet.toml"), file).unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["policy", "show"]));
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(out.starts_with("demo*"), "{out}");
    let (out, _, _) = run(bardo(home.path()).args(["policy", "explain", "stop_loss_pct"]));
    assert!(out.contains("balance_circuit_breaker") && out.contains("#stop_loss_pct = \"10\""), "{out}");
    let (_, err, code) = run(bardo(home.path()).args(["policy", "explain", "stop_los_pct"]));
    assert_eq!(code, 2);
    assert!(err.contains("did you mean 'stop_loss_pct'?"), "{err}");
}

/// A check consumes its permit: none is left open in the audit log.
#[test]
fn a_check_leaves_no_open_permit_on_the_audit_log() {
    let home = tempfile::tempdir().unwrap();
    let swap = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.05","chain":"ethereum","prefer_uniswapx":false}"#;
    let (out, err, code) = run(bardo(home.path()).args(["policy", "check", "uniswap_execute_swap", swap]));
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    let (out, _, _) = run(bardo(home.path()).args(["log", "--json"]));
    let entries: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let permits = |kind: &str| -> Vec<Value> {
        let of_kind = entries.iter().filter(|entry| entry["kind"] == kind);
        of_kind.map(|entry| entry["body"]["permit_id"].clone()).collect()
    };
    let issued = permits("permit:issued");
    assert_eq!(issued.len(), 1, "{out}");
    assert_eq!(permits("permit:rehearsed"), issued, "{out}");
    let (out, _, code) = run(bardo(home.path()).args(["log", "verify"]));
    assert_eq!(code, 0, "{out}");
}

#[test]
fn a_template_is_shown_line_by_line_confirmed_kept_and_undone() {
    use crate::fixture::on_a_terminal;
    let home = tempfile::tempdir().unwrap();
    let (home, path) = (home.path(), home.path().join("policy-devnet.toml"));
    let own = "# mine\npreset = \"demo\"\nmax_gas_usd = \"3\"\n";
    std::fs::write(&path, own).unwrap();
    let text = || std::fs::read_to_string(&path).unwrap();
    let previous = |number: u32| home.join(format!("policy-devnet.toml.previous-{number}"));
    // Without a person there is no decision, and a descriptor is none.
    let params = r#"{"policy_template": "defi-trading"}"#;
    let (out, _, code) = run(bardo(home).args(["call", "wallet_configure_policy", params, "--approve", "always"]));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["error"]["code"], code), (&"APPROVAL_REQUIRED".into(), 3), "{answer}");
    let given = |params: &str, word: &str| {
        let arguments = ["--json", "call", "wallet_configure_policy", params];
        on_a_terminal(home, &arguments, &[(" to confirm: ", word)])
    };
    // Any other word leaves the file as it was.
    let (shown, code) = given(params, "write\r");
    assert!(code != 0 && shown.contains("APPROVAL_REFUSED"), "{shown}");
    assert_eq!((text().as_str(), previous(1).exists()), (own, false));
    for line in ["- # mine", "- preset = \"demo\"", "- max_gas_usd = \"3\"", "+ preset = \"defi-trading\""] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    for change in ["LOOSER   max_gas_usd: \"3\"", "tighter  max_trades_per_hour: 120", "Type `loosen`"] {
        assert!(shown.contains(change), "{change}: {shown}");
    }
    // What is confirmed is written. The tighter part is in force in that process, and the looser one waits.
    let (shown, code) = given(params, "loosen\r");
    assert!(code == 0 && shown.contains("\"in_force\": false") && shown.contains("\"max_gas_usd\""), "{shown}");
    assert!(text().contains("preset = \"defi-trading\"\nallowed_chains = [\"devnet-ethereum\""), "{}", text());
    assert_eq!(std::fs::read_to_string(previous(1)).unwrap(), own);

    // A tighter policy needs a decision too, and nothing of it waits.
    let (shown, code) = given(r#"{"policy_template": "read-only"}"#, "write\r");
    assert!(code == 0 && shown.contains("\"in_force\": true") && !shown.contains("LOOSER"), "{shown}");
    let (out, _, _) = run(bardo(home).args(["policy", "show", "--json"]));
    let policy: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(policy["policy"], "read-only*");

    // Each is undone by itself, and the operator's own text comes back to the letter.
    for _ in 0..2 {
        let (shown, code) = on_a_terminal(home, &["policy", "undo"], &[("Type `undo`", "undo\r")]);
        assert!(code == 0 && shown.contains("is restored"), "{shown}");
    }
    assert_eq!((text().as_str(), previous(1).exists()), (own, false));
    let (out, _, code) = run(bardo(home).args(["policy", "undo"]));
    assert!(code == 0 && out.contains("nothing to undo"), "{out}");
}
