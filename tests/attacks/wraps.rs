//! Wrapping of the native token: what it exposes to earlier allowances, what it leaves for gas, and the way back.

use std::fs;
use std::path::Path;

use alloy::hex;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;
use assert_cmd::Command;
use bardo::abi::erc20::Erc20;
use serde_json::{Value, json};

use crate::allowances::{DEVNET, contract, rpc};
use bardo_testkit::devnet::ask;

/// A folder with a ledger of its own, and the development account that acts with it.
struct Home {
    folder: tempfile::TempDir,
    account: usize,
}

impl Home {
    fn new(account: usize, policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("policy-devnet.toml"), format!("preset = \"demo\"\n{policy}")).unwrap();
        Self { folder, account }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn address(&self) -> Address {
        DEVNET.chain("ethereum")["accounts"][self.account].as_str().unwrap().parse().unwrap()
    }
}

fn call(home: &Home, tool: &str, params: &Value, more: &[&str]) -> (Value, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .env_clear()
        .env("BARDO_HOME", home.path())
        .args(["call", "--approve", "never", tool, &params.to_string(), "--rpc", &rpc("ethereum")])
        .args(["--rpc", &rpc("base"), "--key", &format!("development:{}", home.account)])
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let envelope = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (envelope, output.status.code().unwrap())
}

fn amount(amount: &str) -> Value {
    json!({"amount": amount, "chain": "ethereum"})
}

/// An allowance of WETH that was granted years ago takes what is wrapped today. So wrapping needs the consent that spending
/// as much would need: the first operator's, and the second one's.
#[test]
fn a_wrapping_above_the_limits_is_not_made_without_consent() {
    let plain = Home::new(2, "");
    let (small, code) = call(&plain, "wrap_native", &amount("0.1"), &[]);
    assert_eq!((&small["status"], code), (&json!("success"), 0), "{small}");
    // Windows count gas alone: the same value comes back by unwrapping.
    let counted: f64 = small["decision_hints"]["counted_usd"].as_str().unwrap().parse().unwrap();
    assert!(counted < 10.0, "{counted}");
    let (large, code) = call(&plain, "wrap_native", &amount("1"), &[]);
    assert_eq!((&large["error"]["code"], code), (&json!("APPROVAL_REQUIRED"), 3), "{large}");
    let own = Home::new(
        3,
        "max_position_size_usd = \"1500\"\n[second_approval]\nabove_usd = \"100\"\n\
         approvers = [\"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf\"]\n",
    );
    let (second, code) = call(&own, "wrap_native", &amount("0.05"), &[]);
    assert_eq!((&second["error"]["code"], code), (&json!("APPROVAL_REQUIRED"), 3), "{second}");
    assert!(second["error"]["message"].as_str().unwrap().contains("second"), "{second}");
    let (held, code) = call(&own, "wrap_native", &amount("0.5"), &[]);
    assert_eq!(code, 3, "{held}");
    assert!(held["error"]["details"]["violations"].to_string().contains("max_position_size_usd"), "{held}");
}

/// Gas for the exits can be had back in every phase and under a stop that lets exits pass. A wrapping, which takes it away,
/// passes in neither.
#[test]
fn gas_comes_back_in_every_phase_and_cannot_be_wrapped_away() {
    let home = Home::new(4, "require_human_approval_above_usd = \"none\"\nmax_position_size_usd = \"none\"\n");
    let (wrapped, code) = call(&home, "wrap_native", &amount("0.05"), &[]);
    assert_eq!(code, 0, "{wrapped}");
    for phase in ["thriving", "cautious", "defensive", "survival", "terminal"] {
        let (back, code) = call(&home, "unwrap_native", &amount("0.01"), &["--dry-run", "--phase", phase]);
        assert_eq!((&back["status"], code), (&json!("simulated"), 0), "{phase}: {back}");
        let (away, _) = call(&home, "wrap_native", &amount("0.01"), &["--dry-run", "--phase", phase]);
        let passes = ["thriving", "cautious"].contains(&phase);
        assert_eq!(away["status"] == "simulated", passes, "{phase}: {away}");
    }
    // Nearly everything: what stays pays for no exit.
    let coin = ask(DEVNET.url(0), "eth_getBalance", json!([home.address().to_string(), "latest"]));
    let coin: U256 = coin.as_str().unwrap().parse().unwrap();
    let most = alloy::primitives::utils::format_ether(coin - U256::from(2_000_000_000_000_000_u64));
    let (all, code) = call(&home, "wrap_native", &amount(&most), &[]);
    assert_eq!((&all["error"]["code"], code), (&json!("VALIDATION_FAILED"), 1), "{all}");
    assert!(all["error"]["message"].as_str().unwrap().contains("stay for gas"), "{all}");
    // Thirty of these would use up what stays.
    let (dust, _) = call(&home, "unwrap_native", &amount("0.000000000000000001"), &[]);
    assert_eq!(dust["error"]["code"], "VALIDATION_FAILED", "{dust}");
    assert!(dust["error"]["message"].as_str().unwrap().contains("more than this amount"), "{dust}");

    let stop = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .env_clear()
        .env("BARDO_HOME", home.path())
        .args(["halt", "--level", "exit-only", "--reason", "look first"])
        .output()
        .unwrap();
    assert!(stop.status.success(), "{stop:?}");
    let (back, code) = call(&home, "unwrap_native", &amount("0.01"), &[]);
    assert_eq!((&back["status"], code), (&json!("success"), 0), "{back}");
    let (away, _) = call(&home, "wrap_native", &amount("0.01"), &[]);
    assert_eq!(away["error"]["code"], "HALTED", "{away}");
}

/// Anyone can emit an approval in the account's name, from a contract that uses up the gas of everything that asks it.
#[test]
fn a_contract_that_burns_all_gas_hides_no_allowance() {
    let home = Home::new(5, "");
    let spender = contract("permit2");
    let approve = json!({"token": "USDC", "spender": spender, "amount": "7", "chain": "ethereum"});
    let (allowed, code) = call(&home, "token_approve", &approve, &[]);
    assert_eq!(code, 0, "{allowed}");
    // With call data it loops; without, it emits Approval(account, spender, 2^256 - 1):
    // CALLDATASIZE PUSH1 loop JUMPI, PUSH0 NOT PUSH0 MSTORE, PUSH20 spender PUSH20 owner PUSH32 event PUSH1 32 PUSH0 LOG3
    // STOP, loop: JUMPDEST PUSH1 loop JUMP.
    let event = [
        &[0x73][..],
        &[0x22; 20],
        &[0x73],
        home.address().as_slice(),
        &[0x7f],
        Erc20::Approval::SIGNATURE_HASH.as_slice(),
        &[0x60, 0x20, 0x5f, 0xa3, 0x00],
    ]
    .concat();
    let head = [0x36, 0x60, 0x00, 0x57, 0x5f, 0x19, 0x5f, 0x52];
    let at = u8::try_from(head.len() + event.len()).unwrap();
    let mut code = [&head[..], &event, &[0x5b, 0x60, at, 0x56]].concat();
    code[2] = at;
    // PUSH1 length DUP1 PUSH1 11 PUSH0 CODECOPY PUSH0 RETURN
    let length = u8::try_from(code.len()).unwrap();
    let create = [&[0x60, length, 0x80, 0x60, 0x0b, 0x5f, 0x39, 0x5f, 0xf3, 0x00, 0x00][..], &code].concat();
    let from = DEVNET.chain("ethereum")["accounts"][7].as_str().unwrap();
    let send = |transaction: Value| {
        let hash = ask(DEVNET.url(0), "eth_sendTransaction", json!([transaction]));
        ask(DEVNET.url(0), "eth_getTransactionReceipt", json!([hash]))
    };
    for _ in 0..3 {
        let made = send(json!({"from": from, "data": hex::encode_prefixed(&create), "gas": "0x2dc6c0"}));
        let called = send(json!({"from": from, "to": made["contractAddress"], "gas": "0x186a0"}));
        assert_eq!(called["logs"][0]["topics"].as_array().map(Vec::len), Some(3), "{called}");
    }
    let (answer, code) = call(&home, "get_allowances", &json!({"chain": "ethereum"}), &[]);
    assert_eq!(code, 0, "{answer}");
    let data = &answer["data"];
    let rows = data["allowances"].as_array().unwrap();
    let row = rows.iter().find(|row| row["spender"].as_str().unwrap().eq_ignore_ascii_case(&spender)).unwrap();
    assert_eq!((&row["token"], &row["allowance"]), (&json!("USDC"), &json!("7")));
    assert_eq!((&data["complete"], &data["unread_of_strangers"]), (&json!(true), &json!(3)), "{data}");
    assert!(answer["explanation"].as_str().unwrap().contains("3 approvals"), "{answer}");
}
