//! Profit and loss over a month of a seeded devnet with its residents: the books agree with the chains to the last unit,
//! and what nobody explained is named.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};
use bardo_testkit::devnet::ask;

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Name of the token with a fee on transfers among the devnet's contracts.
const TOLL: &str = "badFeeOnTransferToken";

struct Month {
    fixture: Fixture,
    base: String,
}

impl Month {
    fn new() -> Self {
        let mut fixture = Fixture::new();
        let base = format!("base={}", fixture.devnet.url(1));
        let toll = fixture.contract(TOLL).to_owned();
        let usdc_on_base = fixture.devnet.described["chains"][1]["tokens"]["USDC"]["address"].as_str().unwrap();
        let mut allowed = vec!["31337:native".to_owned(), format!("31338:{usdc_on_base}"), format!("31337:{toll}")];
        allowed.extend(["WETH", "USDC"].map(|symbol| format!("31337:{}", fixture.token(symbol))));
        fixture.under(&format!("allowed_tokens = {allowed:?}\nmax_slippage_bps = 300\nmax_loss_bps = 500\n"));
        fixture.configure(&format!("[prices.ethereum]\n\"{toll}\" = \"1\"\n"));
        Self { fixture, base }
    }

    /// Calls a write tool with both chains. An order may still be open afterwards.
    fn call(&self, tool: &str, params: Value) {
        let more = ["--rpc", &self.base, "--approve", "always"];
        let (answer, code) = self.fixture.call(tool, &params, &more);
        let status = answer["status"].as_str().unwrap_or_default();
        assert!(matches!(status, "success" | "partial") && code == 0, "{tool}, exit code {code}: {answer:#}");
    }

    /// Report with its comparison, and the exit code.
    fn pnl(&self, more: &[&str]) -> (Value, i32) {
        let rpc = ["pnl", "--json", "--rpc", &self.fixture.given, "--rpc", &self.base];
        let (out, err, code) = run(bardo(self.fixture.home.path()).args(rpc).args(more));
        (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")), code)
    }

    /// Imports and compares: everything must agree.
    fn import(&self, when: &str) -> Value {
        let (report, code) = self.pnl(&["--reconcile", "--by", "trade"]);
        assert_eq!(code, 0, "{when}: {report:#}");
        let compared = report["reconciled"].as_array().unwrap();
        assert!(compared.len() >= 4 && compared.iter().all(|one| one["even"] == true), "{when}: {report:#}");
        report
    }

    /// Lets time pass on both chains.
    fn pass(&self, seconds: u64) {
        for chain in 0..2 {
            let url = self.fixture.devnet.url(chain);
            ask(url, "evm_increaseTime", json!([seconds]));
            ask(url, "evm_mine", json!([]));
        }
    }

    /// Sends a transaction from an account that the devnet holds open, and waits for its receipt.
    fn send(&self, from: &str, to: &str, data: Vec<u8>, gas: u64) -> Value {
        let transaction =
            json!({"from": from, "to": to, "data": alloy::hex::encode_prefixed(data), "gas": format!("{gas:#x}")});
        let hash = self.fixture.ask("eth_sendTransaction", json!([transaction]));
        let since = Instant::now();
        loop {
            let receipt = self.fixture.ask("eth_getTransactionReceipt", json!([hash]));
            if receipt.is_object() {
                return receipt;
            }
            assert!(since.elapsed() < Duration::from_secs(60), "{hash} is in no block");
            self.fixture.ask("evm_mine", json!([]));
        }
    }

    /// Adds to an account's native balance without any event.
    fn give(&self, wei: u64) {
        let account = self.fixture.account();
        let held = self.fixture.ask("eth_getBalance", json!([account, "latest"]));
        let held: U256 = held.as_str().unwrap().parse().unwrap();
        self.fixture.ask("anvil_setBalance", json!([account, held + U256::from(wei)]));
    }
}

/// Kinds of the lines of a tax file.
fn descriptions(month: &Month) -> Vec<String> {
    let arguments = ["pnl", "--csv", "-", "--rpc", &month.fixture.given, "--rpc", &month.base];
    let (out, err, code) = run(bardo(month.fixture.home.path()).args(arguments));
    assert_eq!(code, 0, "{err}");
    // A description with a comma is quoted, and has more fields here.
    out.lines().skip(1).map(|line| line.split(',').skip(11).collect::<Vec<_>>().join(",")).collect()
}

#[test]
fn a_month_of_a_devnet_reconciles_to_the_wei() {
    let month = Month::new();
    let (account, usdc) = (month.fixture.account().to_owned(), month.fixture.token("USDC").to_owned());
    let to: Address = account.parse().unwrap();
    let other = month.fixture.devnet.described["chains"][0]["accounts"][3].as_str().unwrap().to_owned();
    month.import("the beginning");
    let pools = |token_in: &str, token_out: &str, amount: &str| {
        json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum",
               "prefer_uniswapx": false, "slippage_bps": 200})
    };
    month.call("uniswap_execute_swap", pools("USDC", "WETH", "50"));
    // A token that takes a fee from every transfer: less arrives than the pool sent.
    month.call("uniswap_execute_swap", pools("ETH", month.fixture.contract(TOLL), "0.01"));
    month.import("after the token with a fee");
    // An auction and a bridge order, which residents fill. A fill costs the filler about a dollar of gas: of 40 USDC that
    // is 2 %, more than an auction of 0.5 % declines by, and nobody fills it.
    let auction = json!({"token_in": "USDC", "token_out": "WETH", "amount": "1200", "chain": "ethereum"});
    month.call("uniswap_submit_uniswapx_order", auction);
    let bridge = json!({"token_in": "USDC", "token_out": "USDC", "amount": "500", "source_chain": "ethereum",
        "destination_chain": "base"});
    month.call("uniswap_submit_cross_chain_intent", bridge);
    let since = Instant::now();
    loop {
        let report = month.import("while orders are open");
        if report["totals"]["trades"] == 4 {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(120), "two orders are not filled: {report:#}");
        month.pass(1);
        std::thread::sleep(Duration::from_millis(100));
    }
    // Weeks with money from outside, with an event and without one, and a failed transaction of the operator's wallet.
    for week in 1..=4_u64 {
        month.pass(7 * DAY + week);
        let value = U256::from(7_000_000 + week);
        month.send(&other, &usdc, OpenMint::mintCall { to, value }.abi_encode(), 200_000);
        month.pass(DAY / 2);
        month.give(123_456_789 + week);
        month.pass(60);
        let much = Erc20::transferCall { to: other.parse().unwrap(), value: U256::MAX };
        let failed = month.send(&account, &usdc, much.abi_encode(), 100_000);
        assert_eq!(failed["status"], "0x0", "{failed:#}");
        if week % 2 == 0 {
            month.import(&format!("week {week}"));
        }
    }
    let found = descriptions(&month);
    let count = |kind: &str| found.iter().filter(|line| line.contains(kind)).count();
    assert_eq!((count("Trade"), count("Deposit")), (3, 8), "{found:#?}");
    assert_eq!((count("sent"), count("arrived")), (1, 1), "{found:#?}");
    assert_eq!(count("Unexplained"), 0, "{found:#?}");
}
