//! Clients that let the node sign: `cast`, `forge`, viem, ethers and web3.py, each with its usual workflow on accounts
//! that `eth_accounts` lists.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use alloy::primitives::{B256, keccak256};
use alloy::rpc::types::EIP1186AccountProofResponse;
use alloy_trie::proof::verify_proof;
use alloy_trie::{Nibbles, TrieAccount};
use serde_json::{Value, json};

use crate::clients::process::tool;
use bardo_testkit::devnet::Devnet;

/// Path of a file of these tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Standard output of a successful program.
fn said(output: &Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{errors}");
    out.trim().to_owned()
}

fn cast(rpc: &str, arguments: &[&str]) -> String {
    said(&Command::new(tool("BARDO_CAST")).args(arguments).args(["--rpc-url", rpc]).output().expect("cast runs"))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The counter of `Deploy.s.sol`, compiled: interface and bytecode.
fn counter() -> Value {
    let source = std::fs::read_to_string(file("Deploy.s.sol")).expect("the source");
    let input = json!({
        "language": "Solidity",
        "sources": { "Deploy.s.sol": { "content": source } },
        "settings": { "outputSelection": { "*": { "*": ["abi", "evm.bytecode.object"] } } },
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("input.json");
    std::fs::write(&path, input.to_string()).expect("written");
    let output = Command::new(file("solc.cjs"))
        .arg("--standard-json")
        .stdin(std::fs::File::open(&path).expect("opened"))
        .env("BARDO_NODE_MODULES", tool("BARDO_NODE_MODULES"))
        .output()
        .expect("the compiler runs");
    let compiled = &parsed(&said(&output))["contracts"]["Deploy.s.sol"]["Counter"];
    let bytecode = compiled["evm"]["bytecode"]["object"].as_str().unwrap_or_else(|| panic!("{compiled}"));
    json!({ "abi": compiled["abi"], "bytecode": format!("0x{bytecode}") })
}

/// Runs a script that calls the devnet and fails on a wrong answer.
fn round(program: &str, script: &str) {
    let devnet = Devnet::start("0", 7);
    let mut command = Command::new(program);
    command.arg(file(script)).env("DEVNET", devnet.described.to_string()).env("COUNTER", counter().to_string());
    command.env("BARDO_NODE_MODULES", tool("BARDO_NODE_MODULES"));
    if program == "python3" {
        command.env("PYTHONPATH", tool("BARDO_WEB3")).env("PYTHONDONTWRITEBYTECODE", "1");
    }
    let told = said(&command.output().unwrap_or_else(|error| panic!("{program}: {error}")));
    assert_eq!(told.lines().last(), Some("all answers are right"), "{told}");
}

#[test]
#[ignore = "needs cast: run by .ci/run"]
fn cast_sends_unlocked_and_runs_it_again() {
    let devnet = Devnet::start("0", 7);
    let chain = devnet.chain("ethereum");
    let (rpc, weth) = (chain["rpc"].as_str().unwrap(), chain["tokens"]["WETH"]["address"].as_str().unwrap());
    let account = parsed(&cast(rpc, &["rpc", "eth_accounts"]))[1].as_str().expect("an account").to_owned();
    let send = ["send", "--json", "--unlocked", "--from", &account, weth, "deposit()", "--value", "3gwei"];
    let receipt = parsed(&cast(rpc, &send));
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    assert!(receipt["from"].as_str().unwrap().eq_ignore_ascii_case(&account));
    let held = cast(rpc, &["call", weth, "balanceOf(address)(uint256)", &account]);
    assert_eq!(held.split_whitespace().next(), Some("3000000000"));

    // cast's own EVM reruns it on state that it reads here, with the same result.
    let again = cast(rpc, &["run", receipt["transactionHash"].as_str().unwrap()]);
    let gas = u64::from_str_radix(&receipt["gasUsed"].as_str().unwrap()[2..], 16).unwrap();
    assert!(again.contains("Transaction successfully executed."), "{again}");
    assert!(again.contains(&format!("Gas used: {gas}")), "{gas} in {again}");
}

#[test]
#[ignore = "needs cast: run by .ci/run"]
fn cast_gets_proofs_that_verify_against_the_header() {
    let devnet = Devnet::start("0", 7);
    let chain = devnet.chain("base");
    let (rpc, weth) = (chain["rpc"].as_str().unwrap(), chain["tokens"]["WETH"]["address"].as_str().unwrap());
    let account = parsed(&cast(rpc, &["rpc", "eth_accounts"]))[1].as_str().expect("an account").to_owned();
    cast(rpc, &["send", "--json", "--unlocked", "--from", &account, weth, "deposit()", "--value", "3gwei"]);
    // WETH9 keeps balances in slot 3.
    let index = Command::new(tool("BARDO_CAST")).args(["index", "address", &account, "3"]).output().expect("cast runs");
    let slot = said(&index);
    let block = cast(rpc, &["block-number"]);
    let header = parsed(&cast(rpc, &["block", &block, "--json"]));
    let root: B256 = serde_json::from_value(header["stateRoot"].clone()).expect("a root");
    let proof = cast(rpc, &["proof", weth, &slot, "0x777777", "--block", &block]);
    let proof: EIP1186AccountProofResponse = serde_json::from_str(&proof).expect("a proof");
    let leaf = alloy::rlp::encode(TrieAccount::new(proof.nonce, proof.balance, proof.storage_hash, proof.code_hash));
    verify_proof(root, Nibbles::unpack(keccak256(proof.address)), Some(leaf), &proof.account_proof)
        .expect("the account");
    let values: Vec<u64> = proof.storage_proof.iter().map(|slot| slot.value.to()).collect();
    assert_eq!(values, [3_000_000_000, 0]);
    for slot in proof.storage_proof {
        let expected = (!slot.value.is_zero()).then(|| alloy::rlp::encode(slot.value));
        let path = Nibbles::unpack(keccak256(slot.key.as_b256()));
        verify_proof(proof.storage_hash, path, expected, &slot.proof).expect("the slot");
    }
}

#[test]
#[ignore = "needs forge and node: run by .ci/run"]
fn a_forge_script_broadcasts_from_an_unlocked_account() {
    let devnet = Devnet::start("0", 7);
    let rpc = devnet.url(0);
    let account = parsed(&cast(rpc, &["rpc", "eth_accounts"]))[4].as_str().expect("an account").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("script")).expect("made");
    std::fs::copy(file("Deploy.s.sol"), folder.path().join("script/Deploy.s.sol")).expect("copied");
    std::fs::write(folder.path().join("foundry.toml"), "[profile.default]\nsrc = 'script'\nlibs = []\n")
        .expect("written");
    let output = Command::new(tool("BARDO_FORGE"))
        .args(["script", "script/Deploy.s.sol:Deploy", "--sig", "run(address)", &account, "--rpc-url", rpc])
        .args(["--broadcast", "--unlocked", "--sender", &account, "--offline", "--use"])
        .arg(file("solc.cjs"))
        .current_dir(folder.path())
        .env("BARDO_NODE_MODULES", tool("BARDO_NODE_MODULES"))
        .env("HOME", folder.path())
        .output()
        .expect("forge runs");
    let told = said(&output);
    assert!(told.contains("ONCHAIN EXECUTION COMPLETE & SUCCESSFUL"), "{told}");
    let run =
        std::fs::read_to_string(folder.path().join("broadcast/Deploy.s.sol/31337/run-latest.json")).or_else(|_| {
            std::fs::read_to_string(folder.path().join("broadcast/Deploy.s.sol/31337/run-address-latest.json"))
        });
    let run = parsed(&run.unwrap_or_else(|error| panic!("{error}: {told}")));
    let receipts = run["receipts"].as_array().expect("receipts");
    assert_eq!(receipts.len(), 3);
    for receipt in receipts {
        assert_eq!(
            (&receipt["status"], receipt["from"].as_str()),
            (&json!("0x1"), Some(account.as_str())),
            "{receipt}"
        );
    }
    let counter = receipts[0]["contractAddress"].as_str().expect("a contract");
    assert_eq!(cast(rpc, &["call", counter, "count()(uint256)"]), "7");
}

#[test]
#[ignore = "needs node and viem: run by .ci/run"]
fn viem_lets_the_node_sign() {
    round("node", "viem.mjs");
}

#[test]
#[ignore = "needs node and ethers: run by .ci/run"]
fn ethers_lets_the_node_sign() {
    round("node", "ethers.mjs");
}

#[test]
#[ignore = "needs python3 and web3.py: run by .ci/run"]
fn web3_py_lets_the_node_sign() {
    round("python3", "web3_round.py");
}
