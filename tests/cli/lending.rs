//! Lending over an endpoint, where a simulation fetches each value that it reads.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, U256, hex};
use alloy::sol_types::SolCall;
use bardo::abi::aave::AavePool;
use bardo::abi::erc20::{Erc20, OpenMint};
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// First account of the development mnemonic, which acts.
const ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// Third account of the mnemonic.
const STRANGER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

impl Fixture {
    fn done(&self, tool: &str, token: &str, amount: &str) {
        let params = json!({"token": token, "amount": amount, "chain": "ethereum"});
        let (answer, _) = self.call(tool, &params, &["--approve", "always"]);
        assert_eq!(answer["status"], "success", "{tool} {token}: {answer:#}");
    }

    /// Sends a call as the stranger.
    fn by_a_stranger(&self, to: &str, call: impl SolCall) {
        let data = hex::encode_prefixed(call.abi_encode());
        let sent = json!({"from": STRANGER, "to": to, "data": data, "gas": "0xdbba0"});
        let hash = self.ask("eth_sendTransaction", json!([sent]));
        let begun = Instant::now();
        let receipt = loop {
            let found = self.ask("eth_getTransactionReceipt", json!([hash]));
            if !found.is_null() {
                break found;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no block includes {hash}");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(receipt["status"], "0x1", "{receipt}");
    }
}

/// Anybody can supply tokens for the account. The health factor rests on every reserve that it has something in, and a
/// simulation finds them in time.
#[test]
fn supplies_of_a_stranger_in_every_reserve_keep_nobody_from_a_withdrawal() {
    let fixture = Fixture::new();
    fixture.done("lending_supply", "WETH", "0.4");
    fixture.done("lending_borrow", "USDC", "200");
    let (listed, _) = fixture.call("list_lending_reserves", &json!({"chain": "ethereum"}), &[]);
    let pool: Address = listed["data"]["pool"].as_str().unwrap().parse().unwrap();
    let reserves: Vec<Value> = listed["data"]["reserves"].as_array().unwrap().clone();
    let others = reserves.iter().filter(|one| one["token"] != "WETH");
    assert_eq!(others.clone().count(), 3, "{listed:#}");
    for one in others {
        let token = one["address"].as_str().unwrap();
        let (asset, amount) = (token.parse().unwrap(), U256::from(1_000));
        fixture.by_a_stranger(token, OpenMint::mintCall { to: STRANGER.parse().unwrap(), value: amount });
        fixture.by_a_stranger(token, Erc20::approveCall { spender: pool, value: amount });
        let on_behalf_of = ACCOUNT.parse().unwrap();
        let supply = AavePool::supplyCall { asset, amount, onBehalfOf: on_behalf_of, referralCode: 0 };
        fixture.by_a_stranger(&pool.to_string(), supply);
    }
    fixture.done("lending_withdraw", "WETH", "0.01");
    fixture.done("lending_borrow", "DAI", "10");
    fixture.done("lending_repay", "USDC", "max");
}
