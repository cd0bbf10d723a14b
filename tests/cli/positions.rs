//! Liquidity positions of the account, through the program, beside one that a stranger gave it.

use alloy::hex;
use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;
use bardo::abi::uniswap_v3::NonfungiblePositionManager as Manager;
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Runtime code of a contract that pays like a token and has no `decimals`: `transferFrom` adds to the receiver's balance,
/// `balanceOf` reads it, and everything else reverts.
const NO_DECIMALS: &str = "60003560e01c806323b872dd14601f57806370a082311460345760006000fd5b60443560005401600055600160005260206000f35b60005460005260206000f3";

impl Fixture {
    /// A transaction of a stranger, in its own block; returns the receipt.
    fn of_stranger(&self, to: Option<&str>, data: &str) -> Value {
        let from = self.devnet.described["chains"][0]["accounts"][3].clone();
        let mut sent = json!({"from": from, "data": data, "gas": "0x7a1200"});
        if let Some(to) = to {
            sent["to"] = json!(to);
        }
        let hash = self.ask("eth_sendTransaction", json!([sent]));
        self.ask("evm_mine", json!([]));
        let receipt = self.ask("eth_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        receipt
    }
}

#[test]
fn a_position_in_tokens_that_do_not_answer_hides_no_other() {
    let fixture = Fixture::new();
    let size = NO_DECIMALS.len() / 2;
    // PUSH1 size, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 size, PUSH1 0, RETURN.
    let deploy = format!("0x60{size:02x}600c60003960{size:02x}6000f3{NO_DECIMALS}");
    let mut tokens = [(); 2].map(|()| -> Address {
        fixture.of_stranger(None, &deploy)["contractAddress"].as_str().unwrap().parse().unwrap()
    });
    tokens.sort_unstable();
    let manager = fixture.contract("v3PositionManager").to_owned();
    let even = U160::from(1) << 96;
    let create = Manager::createAndInitializePoolIfNecessaryCall {
        token0: tokens[0],
        token1: tokens[1],
        fee: U24::from(3_000),
        sqrtPriceX96: even,
    };
    fixture.of_stranger(Some(&manager), &hex::encode_prefixed(create.abi_encode()));
    let params = Manager::MintParams {
        token0: tokens[0],
        token1: tokens[1],
        fee: U24::from(3_000),
        tickLower: I24::try_from(-600).unwrap(),
        tickUpper: I24::try_from(600).unwrap(),
        amount0Desired: U256::from(1_000_000),
        amount1Desired: U256::from(1_000_000),
        amount0Min: U256::ZERO,
        amount1Min: U256::ZERO,
        recipient: fixture.account().parse().unwrap(),
        deadline: U256::from(1_u64 << 40),
    };
    fixture.of_stranger(Some(&manager), &hex::encode_prefixed(Manager::mintCall { params }.abi_encode()));

    let (listed, exit) = fixture.call("list_positions", &json!({"chain": "ethereum"}), &[]);
    assert_eq!(exit, 0, "{listed}");
    let rows = listed["data"]["positions"].as_array().unwrap();
    assert_eq!((rows.len(), &listed["data"]["all_priced"]), (1, &json!(false)), "{listed}");
    let shown: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    assert_eq!(rows[0]["unreadable_tokens"], json!(shown));
    assert_eq!(rows[0]["value_usd"], Value::Null);
    // The amounts are raw units: a million of each went in, and rounding keeps at most one back.
    let now: u64 = rows[0]["now"]["amount0"].as_str().unwrap().parse().unwrap();
    assert!((999_990..=1_000_000).contains(&now), "{listed}");
}
