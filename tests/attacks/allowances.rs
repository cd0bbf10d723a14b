//! Allowances for contracts that anyone can use, and orders that stay open for days.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::endpoints::end_with_this_process;
use crate::real_network::RealNetwork;
use bardo_testkit::devnet::{Devnet, ask};
use bardo_testkit::lying_rpc::LyingRpc;

/// Devnet of all cases in this file. It makes a block for each transaction.
pub static DEVNET: LazyLock<Devnet> = LazyLock::new(|| {
    let devnet = Devnet::start("0", 1);
    end_with_this_process(&devnet);
    devnet
});

/// Address of an entry of the devnet's book, as `0x` and forty digits.
pub fn contract(name: &str) -> String {
    DEVNET.chain("ethereum")["contracts"][name].as_str().unwrap_or_else(|| panic!("no {name}")).to_owned()
}

fn token(symbol: &str) -> String {
    DEVNET.chain("ethereum")["tokens"][symbol]["address"].as_str().unwrap().to_owned()
}

fn account() -> String {
    DEVNET.chain("ethereum")["accounts"][0].as_str().unwrap().to_owned()
}

/// Allowance of `spender` on the account's USDC on the chain, in hexadecimal digits without leading zeros; empty for
/// zero.
fn allowance(spender: &str) -> String {
    let word = |address: &str| format!("{:0>64}", address.trim_start_matches("0x").to_lowercase());
    let data = format!("0xdd62ed3e{}{}", word(&account()), word(spender));
    let answer = ask(DEVNET.url(0), "eth_call", json!([{ "to": token("USDC"), "data": data }, "latest"]));
    answer.as_str().unwrap().trim_start_matches("0x").trim_start_matches('0').to_owned()
}

/// Calls a tool with the binary, without approval. Returns the response and the exit code.
fn call(home: &Path, tool: &str, params: &Value) -> (Value, i32) {
    let rpc: Vec<String> = ["ethereum", "base"].iter().map(|name| rpc(name)).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .env_clear()
        .env("BARDO_HOME", home)
        .args(["call", "--approve", "never", tool, &params.to_string(), "--rpc", &rpc[0], "--rpc", &rpc[1]])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let envelope = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (envelope, output.status.code().unwrap())
}

pub fn rpc(name: &str) -> String {
    format!("{name}={}", DEVNET.chain(name)["rpc"].as_str().unwrap())
}

fn policy(home: &Path, lines: &str) {
    fs::write(home.join("policy-devnet.toml"), format!("preset = \"demo\"\n{lines}")).unwrap();
}

pub fn approve(spender: &str) -> Value {
    json!({ "token": "USDC", "spender": spender, "amount": "950", "chain": "ethereum" })
}

/// Asserts that an allowance was refused because of the spender's role, for a reason that contains `says`.
fn assert_refused(answer: &(Value, i32), says: &str) {
    let (envelope, code) = answer;
    assert_eq!(*code, 3, "{envelope}");
    assert_eq!(envelope["error"]["code"], "SAFETY_NOT_ALLOWED", "{envelope}");
    let violations = envelope["error"]["details"]["violations"].to_string();
    assert!(violations.contains("spender_role") && violations.contains(says), "{envelope}");
}

#[test]
fn multicall3_gets_no_allowance() {
    let home = tempfile::tempdir().unwrap();
    let multicall = contract("multicall3");
    assert_refused(&call(home.path(), "token_approve", &approve(&multicall)), "arbitrary calls for anyone");
    assert_eq!(allowance(&multicall), "");
}

#[test]
fn contracts_of_the_devnets_book_that_take_no_tokens_get_no_allowance() {
    let home = tempfile::tempdir().unwrap();
    // One case for every reason. A unit test covers every role of every bundled book.
    for (name, says) in [
        ("entryPoint", "arbitrary calls"),
        ("delegationManager", "arbitrary calls"),
        ("orderCosigner", "private key"),
        ("quoterV2", "never lets it take tokens"),
        ("v3Factory", "never lets it take tokens"),
        ("wrappedNative", "never lets it take tokens"),
        ("v2DutchReactor", "only through orders"),
        ("originSettler", "only through orders"),
    ] {
        let spender = contract(name);
        assert_refused(&call(home.path(), "token_approve", &approve(&spender)), says);
        assert_eq!(allowance(&spender), "", "{name}");
    }
}

#[test]
fn a_policy_that_lists_multicall3_does_not_load() {
    let home = tempfile::tempdir().unwrap();
    let multicall = contract("multicall3");
    policy(home.path(), &format!("allowed_spenders = [\"{multicall}\"]\n"));
    let (envelope, code) = call(home.path(), "token_approve", &approve(&multicall));
    assert_ne!(code, 0, "{envelope}");
    // The policy is validated before any action.
    assert_eq!(envelope["error"]["code"], "VALIDATION_FAILED", "{envelope}");
    let message = envelope["error"]["message"].as_str().unwrap();
    let says = ["policy-devnet.toml", "is Multicall3 and may never get an allowance", "allowed_spenders"];
    assert!(says.iter().all(|part| message.contains(part)), "{message}");
    assert_eq!(allowance(&multicall), "");
}

#[test]
fn a_policy_that_allows_all_spenders_allows_no_plain_key_and_no_multicall() {
    let home = tempfile::tempdir().unwrap();
    policy(home.path(), "allowed_spenders = \"all\"\napprove_first_seen = false\n");
    let cosigner = contract("orderCosigner");
    assert_refused(&call(home.path(), "token_approve", &approve(&cosigner)), "private key");
    assert_eq!(allowance(&cosigner), "");
    // Contracts that call for anyone have the same address on many chains, so they are refused on every chain. This one
    // is mainnet's UniswapMulticall (Uniswap's deployment addresses), which the devnet's book does not contain.
    const UNISWAP_MULTICALL: &str = "0x1F98415757620B543A52E61c46B32eB19261F984";
    assert!(!DEVNET.described.to_string().to_lowercase().contains(&UNISWAP_MULTICALL.to_lowercase()));
    assert_refused(&call(home.path(), "token_approve", &approve(UNISWAP_MULTICALL)), "anyone");
}

#[test]
fn a_lookalike_of_permit2_gets_no_allowance() {
    let home = tempfile::tempdir().unwrap();
    let permit2 = contract("permit2");
    let lookalike = format!("{}{}{}", &permit2[..10], "1".repeat(24), &permit2[34..]).to_lowercase();
    let (envelope, code) = call(home.path(), "token_approve", &approve(&lookalike));
    assert_eq!(code, 3, "{envelope}");
    assert_eq!(allowance(&lookalike), "");
}

#[test]
fn no_tokens_are_sent_to_a_contract_of_the_book() {
    let home = tempfile::tempdir().unwrap();
    for to in [contract("multicall3"), contract("universalRouterV2_1_0"), contract("orderCosigner"), token("USDC")] {
        let params = json!({ "token": "USDC", "recipient": to, "amount": "5", "chain": "ethereum" });
        let (envelope, code) = call(home.path(), "wallet_transfer_token", &params);
        assert_ne!(code, 0, "{envelope}");
        assert!(envelope["error"]["message"].as_str().unwrap().contains("tokens sent to it"), "{envelope}");
    }
}

#[test]
fn an_order_lasts_no_longer_than_the_policy_permits_an_allowance() {
    let home = tempfile::tempdir().unwrap();
    let order = |seconds: u64| json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum", "decay_end_time": seconds });
    let (envelope, code) = call(home.path(), "uniswap_submit_uniswapx_order", &order(86_400));
    assert_eq!(code, 3, "{envelope}");
    assert!(envelope["error"]["details"]["violations"].to_string().contains("max_allowance_seconds"), "{envelope}");
    // Just inside the limit there is no objection.
    let (envelope, _) = call(home.path(), "uniswap_submit_uniswapx_order", &order(3_000));
    assert!(!envelope.to_string().contains("max_allowance_seconds"), "{envelope}");
}

#[test]
fn a_cross_chain_order_lasts_no_longer_than_the_policy_permits_an_allowance() {
    let home = tempfile::tempdir().unwrap();
    let order = |seconds: u64| {
        json!({
            "token_in": "USDC", "token_out": "USDC", "amount": "20",
            "source_chain": "ethereum", "destination_chain": "base", "deadline": seconds,
        })
    };
    let (envelope, code) = call(home.path(), "uniswap_submit_cross_chain_intent", &order(604_800));
    assert_eq!(code, 3, "{envelope}");
    assert!(envelope["error"]["details"]["violations"].to_string().contains("max_allowance_seconds"), "{envelope}");
}

/// Network without a bundled book, whose book `change` has modified, and a home whose configuration trusts every entry.
fn with_trusted_book(seed: u64, change: impl FnOnce(&mut Value)) -> (RealNetwork, tempfile::TempDir) {
    let (network, home) = (RealNetwork::described(seed, change), tempfile::tempdir().unwrap());
    network.settle_in(home.path(), "");
    (network, home)
}

#[test]
fn a_router_of_a_trusted_book_gets_an_allowance_only_with_the_books_code_hash() {
    let mut routers = (Value::Null, Value::Null);
    let (network, home) = with_trusted_book(41, |chain| {
        routers = (chain["contracts"]["swapRouter02"].clone(), chain["contracts"]["universalRouterV2_1_0"].clone());
        chain["code_hashes"]["universalRouterV2_1_0"] = json!(format!("0x{}", "7".repeat(64)));
    });
    let plain = network.rehearse_allowance(home.path(), routers.0.as_str().unwrap());
    assert_eq!(plain["status"], "simulated", "{plain}");
    let other = network.rehearse_allowance(home.path(), routers.1.as_str().unwrap());
    assert_eq!(other["status"], "blocked", "{other}");
    assert!(other["error"].to_string().contains("code with the hash 0x7777"), "{other}");
}

#[test]
fn a_router_of_a_trusted_book_without_code_gets_no_allowance() {
    let names = ["v2Router", "permit2", "v3PositionManager"];
    let at = |number: usize| format!("0x123456789012345678901234567890123456789{number}");
    let (network, home) = with_trusted_book(42, |chain| {
        for (number, name) in names.iter().enumerate() {
            chain["contracts"][name] = json!(at(number));
            chain["code_hashes"].as_object_mut().unwrap().remove(*name);
        }
    });
    for (number, name) in names.iter().enumerate() {
        let answer = network.rehearse_allowance(home.path(), &at(number));
        assert_eq!(answer["status"], "blocked", "{name}: {answer}");
        assert!(answer["error"].to_string().contains("has no code"), "{name}: {answer}");
    }
}

#[test]
fn one_of_two_endpoints_cannot_supply_a_routers_code() {
    const ROUTER: &str = "0x1234567890123456789012345678901234567890";
    let (network, home) = with_trusted_book(43, |chain| {
        chain["contracts"]["v2Router"] = json!(ROUTER);
        chain["code_hashes"].as_object_mut().unwrap().remove("v2Router");
    });
    let endpoint = |lies: bool| {
        network.endpoint(Box::new(move |asked, answer| {
            let is_router = asked["params"][0].as_str().is_some_and(|of| of.eq_ignore_ascii_case(ROUTER));
            if lies && is_router && asked["method"] == "eth_getCode" {
                answer["result"] = json!("0x60015f5260205ff3");
            }
        }))
    };
    let (liar, honest) = (endpoint(true), endpoint(false));
    let over = |endpoints: &[&LyingRpc]| {
        let mut arguments = network.arguments()[2..].to_vec();
        for endpoint in endpoints {
            arguments.extend(["--rpc".to_owned(), format!("mine={}", endpoint.url())]);
        }
        network.rehearse_allowance_over(home.path(), ROUTER, &arguments)
    };
    // With the lying endpoint alone, the lie succeeds.
    assert_eq!(over(&[&liar])["status"], "simulated");
    for both in [[&liar, &honest], [&honest, &liar]] {
        let answer = over(&both);
        assert_ne!(answer["status"], "simulated", "{answer}");
    }
}
