//! `get_portfolio` and `estimate_gas` by `bardo call`: balances as the contracts hold them, profit and loss as `bardo pnl`
//! reports it, and an estimate without a password or a transaction.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::units::TokenAmount;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

fn portfolio(fixture: &Fixture, params: Value) -> Value {
    let (answer, code) = fixture.call("get_portfolio", &params, &[]);
    assert_eq!((&answer["status"], code), (&json!("success"), 0), "{answer:#}");
    answer["data"].clone()
}

#[test]
fn a_portfolio_has_the_balances_of_the_contracts_and_the_sums_of_the_books() {
    let fixture = Fixture::new();
    let begun = portfolio(&fixture, json!({}));
    assert_eq!((&begun["pnl"]["trade_count"], &begun["pnl"]["gas_usd"]), (&json!(0), &json!("0")));
    let (swapped, code) = fixture.swap(json!({"token_in": "USDC", "token_out": "WETH", "amount": "50"}), &[]);
    assert_eq!((&swapped["status"], code), (&json!("success"), 0), "{swapped:#}");

    let data = portfolio(&fixture, json!({"chain": "ethereum"}));
    let rows = data["chains"][0]["balances"].as_array().unwrap();
    let owner: Address = fixture.account().parse().unwrap();
    let input = alloy::hex::encode_prefixed(Erc20::balanceOfCall { owner }.abi_encode());
    for (symbol, decimals) in [("USDC", 6), ("WETH", 18)] {
        let held = fixture.ask("eth_call", json!([{"to": fixture.token(symbol), "data": input}, "latest"]));
        let held: U256 = held.as_str().unwrap().parse().unwrap();
        let row = rows.iter().find(|row| row["token"] == symbol).unwrap();
        assert_eq!(row["amount"], TokenAmount::new(held, decimals).unwrap().to_string());
    }
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let sum: f64 = rows.iter().map(|row| number(&row["value_usd"])).sum();
    assert!((number(&data["total_usd"]) - sum).abs() < 1e-6, "{data:#}");
    assert_eq!((&data["open_orders"], &data["no_pnl"]), (&json!([]), &Value::Null));

    // The same books, as another command reports them.
    let (out, err, code) = run(bardo(fixture.home.path()).args(["pnl", "--json", "--rpc", &fixture.given]));
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let (totals, pnl) = (&report["totals"], &data["pnl"]);
    assert_eq!((&pnl["trade_count"], &totals["trades"]), (&json!(1), &json!(1)), "{report:#}");
    for (field, expected) in [
        ("realised_usd", &totals["realised"]),
        ("gas_usd", &totals["gas"]),
        ("fees_usd", &totals["fees"]),
        ("net_usd", &report["net"]),
    ] {
        assert_eq!(&pnl[field], expected, "{field}: {data:#}");
    }
    assert!(number(&pnl["gas_usd"]) > 0.0);
    // The sum of a result is that of its parts.
    let parts = number(&pnl["realised_usd"]) - number(&pnl["gas_usd"]) - number(&pnl["fees_usd"]);
    assert!((number(&pnl["net_usd"]) - parts).abs() < 1e-9, "{pnl:#}");
    // Nothing has happened since a later time.
    let later = portfolio(&fixture, json!({"since": 4_000_000_000_u64}));
    assert_eq!((&later["pnl"]["trade_count"], &later["pnl"]["net_usd"]), (&json!(0), &json!("0")));
    // The books are those of one account.
    let other = portfolio(&fixture, json!({"account": Address::repeat_byte(0x51).to_string()}));
    assert_eq!((&other["pnl"], &other["total_usd"]), (&Value::Null, &json!("0")));
    let why = other["no_pnl"].as_str().unwrap().to_lowercase();
    assert!(why.contains(&fixture.account().to_lowercase()), "{other:#}");
}

#[test]
fn an_estimate_needs_no_password_and_sends_nothing() {
    let fixture = Fixture::new();
    let before = fixture.nonce("pending");
    let params = json!({"tool": "wrap_native", "params": {"amount": "0.1", "chain": "ethereum"}});
    let (answer, code) = fixture.call("estimate_gas", &params, &[]);
    assert_eq!((&answer["status"], code), (&json!("success"), 0), "{answer:#}");
    // A deposit into the wrapped token costs 21,000 gas and what its contract uses, well below 60,000.
    let used = answer["data"]["gas_used"].as_u64().unwrap();
    assert!((21_000..60_000).contains(&used), "{answer:#}");
    assert_eq!(fixture.nonce("pending"), before);
}

#[test]
fn stored_books_are_read_without_an_endpoint() {
    let home = tempfile::tempdir().unwrap();
    let pnl = |more: &[&str]| run(bardo(home.path()).args(["pnl", "--json", "--network", "sepolia"]).args(more));
    let (out, err, code) = pnl(&["--offline"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["totals"]["trades"], json!(0), "{report:#}");
    // With the chain's part, it needs one.
    let (out, err, code) = pnl(&[]);
    assert!(code != 0 && out.is_empty() && err.contains("BARDO_RPC_SEPOLIA"), "{code}: {out}{err}");
}
