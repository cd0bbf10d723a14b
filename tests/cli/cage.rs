//! `bardo policy cage` with the contract on a devnet: show, set from the policy, enforcement, clear.

use std::fs;
use std::path::Path;

use alloy::primitives::{Address, U256, hex};
use alloy::sol_types::SolCall;
use bardo::abi::policy_cage::PolicyCage::{Rules, configuredCall, rulesOfCall};
use serde_json::{Value, json};

use crate::call::call;
use crate::fixture::Fixture;
use crate::writes::expect;
use crate::{bardo, run};

/// `approve(address,uint256)` of ERC-20.
const APPROVE: [u8; 4] = hex!("095ea7b3");
/// `execute(bytes,bytes[],uint256)` of the Universal Router, from its published interface.
const EXECUTE: [u8; 4] = hex!("3593564c");

impl Fixture {
    fn cage(&self, more: &[&str]) -> (String, String, i32) {
        let fixed = ["policy", "cage", "--rpc", &self.given];
        run(bardo(self.home.path()).args(fixed).args(more))
    }

    fn shown(&self) -> Value {
        let (out, err, code) = self.cage(&["show", "--json"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()["chains"][0].clone()
    }

    /// Types the requested confirmation of a change, and then `last`.
    fn cage_decision(&self, what: &str, last: &str) -> (String, u32) {
        let contract = self.contract("policyCage").parse::<Address>().unwrap().to_string();
        let digits = format!("{}\n", &contract[contract.len() - 4..]);
        let arguments = ["policy", "cage", "--rpc", &self.given, what];
        self.conversation(&arguments, &[("To confirm, type", &digits), ("Type yes", &format!("{last}\n"))])
    }

    fn contract_says<C: SolCall>(&self, call: C) -> C::Return {
        let call = json!({ "to": self.contract("policyCage"), "data": hex::encode_prefixed(call.abi_encode()) });
        let answer = self.ask("eth_call", json!([call, "latest"]));
        C::abi_decode_returns(&hex::decode(answer.as_str().unwrap()).unwrap()).unwrap()
    }

    fn rules(&self) -> Option<Rules> {
        let owner = self.account().parse().unwrap();
        self.contract_says(configuredCall { owner }).then(|| self.contract_says(rulesOfCall { owner }))
    }
}

fn buy(usdc: &str) -> Value {
    json!({ "token_in": "USDC", "token_out": "WETH", "amount": usdc })
}

#[test]
fn the_rules_on_chain_follow_from_the_policy_and_hold_until_they_are_cleared() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.shown()["status"], "none");
    assert_eq!(fixture.rules(), None);

    // Only a person at a terminal can decide it, and a rejection signs nothing.
    let (_, err, code) = fixture.cage(&["set"]);
    assert_eq!(code, 3, "{err}");
    let (shown, code) = fixture.cage_decision("set", "not now");
    assert_eq!(code, 4, "{shown}");
    assert!(shown.contains("the operator refused: not now"), "{shown}");
    assert_eq!(fixture.nonce("pending"), 0);

    // The demo policy: 2,500 dollars per action, 5,000 per day.
    let (shown, code) = fixture.cage_decision("set", "yes");
    assert_eq!(code, 0, "{shown}");
    let rules = fixture.rules().unwrap();
    let usdc = fixture.token("USDC").parse::<Address>().unwrap();
    let of_usdc = rules.assets.iter().find(|asset| asset.token == usdc).unwrap();
    assert_eq!((of_usdc.maxPerTransaction, of_usdc.maxPerDay, of_usdc.exit), (2_500_000_000, 5_000_000_000, true));
    let router = fixture.contract("universalRouterV2_1_0").parse::<Address>().unwrap();
    let lists = |target: Address, selector: [u8; 4]| {
        rules.calls.iter().any(|call| call.target == target && call.selector.0 == selector)
    };
    assert!(lists(router, EXECUTE) && lists(usdc, APPROVE), "{rules:?}");
    assert!(rules.spenders.contains(&fixture.contract("permit2").parse().unwrap()));
    let shown = fixture.shown();
    assert_eq!((&shown["status"], &shown["differences"]), (&json!("agrees"), &json!([])));

    // A trade within the rules passes, and the check names the contract.
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    let checks = answer["decision_hints"]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["check"] == "policy_cage").unwrap();
    let contract = fixture.contract("policyCage").parse::<Address>().unwrap();
    assert_eq!(check["detail"], format!("inside the rules of {contract}"));

    // Rules that were set under a tighter policy stay in force under a looser one.
    fixture.under("max_single_trade_usd = \"100\"\n");
    assert_eq!(fixture.shown()["status"], "differs");
    let (shown, code) = fixture.cage_decision("set", "yes");
    assert_eq!(code, 0, "{shown}");
    fixture.under("");
    // Of each dollar token of the devnet, and of no other.
    let shown = fixture.shown()["differences"].clone();
    let words = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let mut differs: Vec<_> = shown.as_array().unwrap().iter().collect();
    differs.sort_by_key(|one| words(one, "of"));
    let differs: Vec<String> = differs
        .into_iter()
        .map(|one| ["rule", "of", "on_chain", "by_policy"].map(|field| words(one, field)).join(" | "))
        .collect();
    let expected = ["DAI", "USDC", "USDT"].map(|coin| format!("maxPerTransaction | {coin} | 100 {coin} | 2500 {coin}"));
    assert_eq!(differs, expected);
    let before = fixture.nonce("pending");
    let refused = fixture.swap(buy("500"), &["--approve", "always"]);
    let names = expect(&refused, "SAFETY_CAGE_VIOLATION", "more than the rules allow");
    assert!(names.iter().all(|name| name == "policy_cage.maxPerTransaction"), "{names:?}");
    assert_eq!(refused.0["error"]["details"]["violations"][0]["would_pass"], format!("100 USDC ({usdc}) or less"));
    let figures = json!({ "unit": "raw_units", "limit": "100000000", "value": "500000000", "left": "100000000" });
    assert_eq!(refused.0["error"]["details"]["violations"][0]["figures"], figures);
    assert_eq!(fixture.nonce("pending"), before, "nothing was signed");

    let (shown, code) = fixture.cage_decision("clear", "yes");
    assert_eq!(code, 0, "{shown}");
    assert_eq!(fixture.rules(), None);
    assert_eq!(fixture.shown()["status"], "none");
    let (answer, exit) = fixture.swap(buy("500"), &["--dry-run"]);
    assert_eq!((&answer["status"], exit), (&json!("simulated"), 0), "{answer}");
    assert_eq!(U256::from(fixture.nonce("latest")), U256::from(before + 1), "the clearing alone");
}

/// Detail of the policy contract's check in an answer.
fn detail(answer: &Value) -> &Value {
    let checks = answer["decision_hints"]["checks"].as_array().unwrap_or_else(|| panic!("{answer}"));
    &checks.iter().find(|check| check["check"] == "policy_cage").unwrap()["detail"]
}

/// The state of each chain's rules on a devnet that ends with the command.
fn embedded(home: &Path) -> Vec<Value> {
    let (out, err, code) = run(bardo(home).args(["policy", "cage", "show", "--json"]));
    assert_eq!(code, 0, "{err}");
    serde_json::from_str::<Value>(&out).unwrap()["chains"].as_array().unwrap().clone()
}

#[test]
fn an_embedded_devnet_has_the_policys_rules_from_the_start() {
    let home = tempfile::tempdir().unwrap();
    let chains = embedded(home.path());
    assert_eq!(chains.len(), 2);
    for chain in &chains {
        assert_eq!((&chain["status"], &chain["differences"]), (&json!("agrees"), &json!([])), "{chain}");
        // The demo policy: 2,500 dollars per action, 5,000 per day, and a send to anybody.
        let rules = &chain["on_chain"];
        let find = |list: &str, wanted: &dyn Fn(&Value) -> bool| {
            rules[list].as_array().unwrap().iter().find(|one| wanted(one)).cloned().unwrap_or_else(|| panic!("{chain}"))
        };
        let usdc = find("assets", &|asset| asset["symbol"] == "USDC");
        assert_eq!((&usdc["max_per_transaction"], &usdc["max_per_day"]), (&json!("2500000000"), &json!("5000000000")));
        find("calls", &|call| call["target"] == Address::ZERO.to_string() && call["selector"] == "0x00000000");
    }
    let contract: Address = chains[0]["contract"].as_str().unwrap().parse().unwrap();
    let inside = format!("inside the rules of {contract}");
    let swap = |usdc: &str| {
        let params = json!({ "token_in": "USDC", "token_out": "WETH", "amount": usdc, "prefer_uniswapx": false, "chain": "ethereum" });
        call(home.path(), &["uniswap_execute_swap", &params.to_string(), "--dry-run"])
    };
    let (answer, exit) = swap("100");
    assert_eq!((&answer["status"], exit, detail(&answer)), (&json!("simulated"), 0, &json!(inside)), "{answer}");
    let to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
    let params = json!({ "token": "ETH", "amount": "0.01", "recipient": to, "chain": "ethereum" }).to_string();
    let (answer, exit) = call(home.path(), &["wallet_transfer_token", &params, "--dry-run"]);
    assert_eq!((&answer["status"], exit, detail(&answer)), (&json!("simulated"), 0, &json!(inside)), "{answer}");

    // More than the policy allows is more than the contract allows.
    let refused = swap("2600");
    assert_eq!(refused.1, 3, "{}", refused.0);
    let violations = refused.0["error"]["details"]["violations"].as_array().unwrap();
    let rules: Vec<_> = violations.iter().map(|one| one["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"max_single_trade_usd"), "{rules:?}");
    assert!(rules.contains(&"policy_cage.maxPerTransaction"), "{rules:?}");

    // Where the contract would reject what the policy allows, there are no rules, and the check says so.
    fs::write(home.path().join("policy-devnet.toml"), "preset = \"demo\"\nallowed_tokens = \"all\"\n").unwrap();
    for chain in embedded(home.path()) {
        assert_eq!((&chain["status"], &chain["on_chain"]), (&json!("none"), &Value::Null), "{chain}");
        let gap = json!({ "kind": "unlisted", "fields": ["allowed_tokens"] });
        assert!(chain["gaps"].as_array().unwrap().contains(&gap), "{chain}");
    }
    let (answer, exit) = swap("100");
    let none = "the account has set no rules in a policy contract";
    assert_eq!((&answer["status"], exit, detail(&answer)), (&json!("simulated"), 0, &json!(none)), "{answer}");
}

#[test]
fn rehearsals_and_devnets_that_end_with_the_process_set_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (_, err, code) = run(bardo(home.path()).args(["policy", "cage", "set"]));
    assert!(code == 2 && err.contains("bardo devnet"), "{code} {err}");
    let (_, err, code) = run(bardo(home.path()).args(["--paper", "policy", "cage", "clear"]));
    assert!(code == 2 && err.contains("--paper signs nothing"), "{code} {err}");
}
