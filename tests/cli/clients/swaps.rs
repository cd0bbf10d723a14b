//! `bardo call uniswap_execute_swap` with a running devnet: the reported amounts equal the balance changes that a stock
//! `cast` reads from the tokens.

use std::process::Command;

use alloy::primitives::utils::parse_units;
use serde_json::{Value, json};

use crate::clients::cast::{Chain, number};
use bardo_testkit::devnet::Devnet;

#[test]
#[ignore = "needs cast: run by .ci/run"]
fn the_amounts_of_a_swap_agree_with_the_tokens_through_cast() {
    let devnet = Devnet::start("1s", 7);
    let chain = Chain(devnet.chain("ethereum"));
    let home = tempfile::tempdir().unwrap();
    let owner = chain.0["accounts"][0].as_str().unwrap();
    let holds = |symbol: &str| {
        let said = chain.call_at(chain.token(symbol), "balanceOf(address)(uint256)", &[owner], "latest");
        number(&said[0])
    };
    for (token_in, token_out, amount) in [("WETH", "USDC", "0.25"), ("USDC", "WETH", "300"), ("WETH", "DAI", "0.1")] {
        let params = json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum",
                            "prefer_uniswapx": false});
        let before = (holds(token_in), holds(token_out));
        let output = Command::new(env!("CARGO_BIN_EXE_bardo"))
            .args(["call", "--approve", "always", "uniswap_execute_swap", &params.to_string()])
            .args(["--rpc", &format!("ethereum={}", chain.0["rpc"].as_str().unwrap())])
            .env_clear()
            .env("BARDO_HOME", home.path())
            .output()
            .expect("bardo runs");
        let envelope: Value = serde_json::from_slice(&output.stdout).expect("an envelope");
        assert_eq!((&envelope["status"], output.status.code()), (&json!("success"), Some(0)), "{envelope}");
        let after = (holds(token_in), holds(token_out));
        let claims = |field: &str, symbol: &str| {
            let decimals = chain.0["tokens"][symbol]["decimals"].as_u64().unwrap();
            let units = parse_units(envelope["data"][field].as_str().unwrap(), u8::try_from(decimals).unwrap());
            u128::try_from(units.unwrap().get_absolute()).unwrap()
        };
        assert_eq!(before.0 - after.0, claims("amount_in", token_in), "{token_in} went: {envelope}");
        assert_eq!(after.1 - before.1, claims("amount_out", token_out), "{token_out} came: {envelope}");
        assert!(after.1 > before.1, "something came");
    }
}
