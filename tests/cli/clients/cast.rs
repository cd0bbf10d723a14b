//! A stock `cast` with the devnet: reading, estimating, sending, swapping, and checking the results.

use crate::clients::process::{MNEMONIC, tool};
use alloy::primitives::{U256, address, keccak256};
use bardo_testkit::devnet::Devnet;
use serde_json::Value;
use std::process::Command;

/// Runs `cast` and returns its trimmed stdout; a failure panics with cast's error.
fn cast(arguments: &[&str]) -> String {
    let output = Command::new(tool("BARDO_CAST")).args(arguments).output().expect("cast runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cast {arguments:?} failed: {said}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Number at the start of a line such as `3401209331 [3.401e9]`.
pub fn number(line: &str) -> u128 {
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number in {line:?}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

pub struct Chain<'a>(pub &'a Value);

impl Chain<'_> {
    fn rpc(&self) -> &str {
        text(&self.0["rpc"])
    }

    pub fn contract(&self, key: &str) -> &str {
        text(&self.0["contracts"][key])
    }

    pub fn token(&self, symbol: &str) -> &str {
        text(&self.0["tokens"][symbol]["address"])
    }

    fn call(&self, to: &str, signature: &str, arguments: &[&str]) -> Vec<String> {
        self.call_at(to, signature, arguments, "latest")
    }

    /// Answer of a contract in the state of a block.
    pub fn call_at(&self, to: &str, signature: &str, arguments: &[&str], block: &str) -> Vec<String> {
        let all = [&["call", "--rpc-url", self.rpc(), "--block", block, to, signature], arguments].concat();
        cast(&all).lines().map(str::to_owned).collect()
    }

    /// Sends from the first development account; returns the receipt.
    fn send(&self, arguments: &[&str]) -> Value {
        let all = [&["send", "--json", "--rpc-url", self.rpc(), "--mnemonic", MNEMONIC], arguments].concat();
        let receipt = json(&cast(&all));
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        receipt
    }

    fn balance(&self, token: &str, owner: &str) -> u128 {
        number(&self.call(token, "balanceOf(address)(uint256)", &[owner])[0])
    }
}

#[test]
#[ignore = "needs cast: run by .ci/run"]
fn cast_reads_estimates_sends_and_swaps() {
    let devnet = Devnet::start("1s", 7);
    let chain = Chain(devnet.chain("ethereum"));
    let owner = text(&chain.0["accounts"][0]);
    let (weth, usdc) = (chain.token("WETH"), chain.token("USDC"));

    assert_eq!(cast(&["chain-id", "--rpc-url", chain.rpc()]), "31337");
    assert_eq!(cast(&["chain-id", "--rpc-url", text(&devnet.chain("base")["rpc"])]), "31338");

    // Permit2's runtime code is 9,152 bytes at its one address on all chains.
    let permit2 = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3").to_string();
    assert_eq!(chain.contract("permit2").to_lowercase(), permit2.to_lowercase());
    assert_eq!(cast(&["code", "--rpc-url", chain.rpc(), &permit2]).len(), 2 + 2 * 9_152);

    // One ether is worth about 3,400 dollars; the market moves it by a few percent at most.
    let quote = chain.call(
        chain.contract("quoterV2"),
        "quoteExactInputSingle((address,address,uint256,uint24,uint160))(uint256,uint160,uint32,uint256)",
        &[&format!("({weth},{usdc},1000000000000000000,500,0)")],
    );
    let quoted = number(&quote[0]);
    assert!((3_100_000_000..3_700_000_000).contains(&quoted), "one ether quoted at {quoted}");

    let pair = chain.call(chain.contract("v2Factory"), "getPair(address,address)(address)", &[weth, usdc]).remove(0);
    let reserves = chain.call(&pair, "getReserves()(uint112,uint112,uint32)", &[]);
    let (first, second) = (number(&reserves[0]), number(&reserves[1]));
    let weth_first = weth.to_lowercase() < usdc.to_lowercase();
    let (ether, dollars) = if weth_first { (first, second) } else { (second, first) };
    let price = dollars * 1_000_000_000_000_000_000 / ether;
    assert!((3_100_000_000..3_700_000_000).contains(&price), "one ether is worth {price} in the pair");

    let stranger = "0x00000000000000000000000000000000DeaDBeef";
    let gas = cast(&["estimate", "--rpc-url", chain.rpc(), "--from", owner, stranger, "--value", "1gwei"]);
    assert_eq!(number(&gas), 21_000);
    let receipt = chain.send(&[stranger, "--value", "12345678gwei"]);
    assert_eq!(receipt["gasUsed"], "0x5208");
    assert_eq!(number(&cast(&["balance", "--rpc-url", chain.rpc(), stranger])), 12_345_678_000_000_000);

    let router = chain.contract("swapRouter02");
    let amount = "100000000000000000";
    chain.send(&[weth, "approve(address,uint256)", router, amount]);
    let before = chain.balance(usdc, owner);
    let swapped = chain.send(&[
        router,
        "exactInputSingle((address,address,uint24,address,uint256,uint256,uint160))",
        &format!("({weth},{usdc},500,{owner},{amount},1,0)"),
    ]);
    let received = chain.balance(usdc, owner) - before;
    assert!((310_000_000..370_000_000).contains(&received), "a tenth of an ether brought {received}");

    // The same swap by receipt, by log and by block.
    let hash = text(&swapped["transactionHash"]);
    let receipt = json(&cast(&["receipt", "--json", "--rpc-url", chain.rpc(), hash]));
    assert_eq!(receipt["blockHash"], swapped["blockHash"]);
    let transfer = keccak256("Transfer(address,address,uint256)").to_string();
    let paid = |logs: &Value| {
        let logs = logs.as_array().expect("a list of logs").clone();
        logs.into_iter().find(|log| {
            log["transactionHash"] == *hash
                && text(&log["address"]).eq_ignore_ascii_case(usdc)
                && log["topics"][0] == transfer.as_str()
                && text(&log["topics"][2])[26..].eq_ignore_ascii_case(&owner[2..])
        })
    };
    let log = paid(&receipt["logs"]).expect("the receipt has the transfer to the owner");
    assert_eq!(text(&log["data"]).parse::<U256>().unwrap(), U256::from(received));
    let number = U256::from_str_radix(&text(&receipt["blockNumber"])[2..], 16).unwrap().to_string();
    let logs = cast(&[
        "logs",
        "--json",
        "--rpc-url",
        chain.rpc(),
        "--from-block",
        &number,
        "--to-block",
        &number,
        "--address",
        usdc,
        "Transfer(address,address,uint256)",
    ]);
    assert_eq!(paid(&json(&logs)).expect("the log is found")["logIndex"], log["logIndex"]);

    let block = json(&cast(&["block", "--json", "--rpc-url", chain.rpc(), &number]));
    assert_eq!(block["hash"], swapped["blockHash"]);
    assert!(block["transactions"].as_array().unwrap().iter().any(|transaction| transaction == hash), "{block}");
}
