//! Read errors with a broken environment: an address without a token, a pair without a pool, a book without a contract,
//! an endpoint that stops answering. Each through the binary, with its exit code.

use serde_json::{Value, json};

use crate::call::{call, expect};
use crate::fixture::Fixture;
use bardo_testkit::liar::{Liar, Lie};

impl Fixture {
    fn told(&self, tool: &str, params: Value, more: &[&str]) -> (Value, i32) {
        let params = params.to_string();
        let fixed = [tool, &params, "--rpc", &self.given];
        call(self.home.path(), &[&fixed[..], more].concat())
    }
}

#[test]
fn an_address_that_is_not_a_token_is_reported() {
    let fixture = Fixture::new();
    // Permit2 has code, but no functions of a token.
    let permit2 = fixture.contract("permit2");
    let asked = json!({"token": permit2, "chain": "ethereum"});
    let error =
        expect(fixture.told("get_token_price", asked.clone(), &[]), "TOKEN_INVALID", "not a usable ERC-20", "Permit2");
    assert!(error["message"].as_str().unwrap().to_lowercase().contains(&permit2.to_lowercase()), "{error}");
    expect(fixture.told("uniswap_check_allowance", asked, &[]), "TOKEN_INVALID", "not a usable ERC-20", "Permit2");
}

#[test]
fn a_pair_without_a_pool_is_reported() {
    let fixture = Fixture::new();
    let pair = |fee: u32| json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum", "fee_tier": fee});
    expect(fixture.told("get_pool_info", pair(123), &[]), "POOL_NOT_FOUND", "fee tier 123", "no such tier");
    assert_eq!(fixture.told("get_pool_info", pair(500), &[]).1, 0);
    // Two valid tokens without a common pool: a pair's share and a stablecoin.
    let asked = json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"});
    let (pools, _) = fixture.told("get_pool_info", asked, &[]);
    let share = pools["data"]["pools"].as_array().unwrap().iter().find(|pool| pool["version"] == "V2").unwrap();
    let lonely = json!({"token_a": share["pool"], "token_b": "USDC", "chain": "ethereum"});
    expect(fixture.told("get_pool_info", lonely, &[]), "POOL_NOT_FOUND", "no pool", "a pair's share");
}

#[test]
fn a_contract_missing_in_the_address_book_is_reported_by_its_role() {
    let fixture = Fixture::new();
    for (missing, role, tool, params) in [
        (
            "universalRouterV2_1_0",
            "universalRouter",
            "uniswap_check_allowance",
            json!({"token": "USDC", "chain": "ethereum"}),
        ),
        ("multicall3", "multicall3", "get_balances", json!({"chain": "ethereum", "tokens": ["USDC"]})),
    ] {
        let mut described = fixture.devnet.described.clone();
        let contracts = described["chains"][0]["contracts"].as_object_mut().unwrap();
        assert!(contracts.remove(missing).is_some(), "{missing}");
        let book = fixture.home.path().join("book.json");
        std::fs::write(&book, described.to_string()).unwrap();
        let answer = fixture.told(tool, params.clone(), &["--book", book.to_str().unwrap()]);
        expect(answer, "CHAIN_UNSUPPORTED", role, tool);
        assert_eq!(fixture.told(tool, params, &[]).1, 0, "{tool} with the whole book");
    }
}

/// Endpoint that identifies itself, but returns no answers of contracts.
#[test]
fn a_read_that_waits_too_long_is_cancelled() {
    let fixture = Fixture::new();
    let silent = |answer: &mut Value| {
        let answers = match answer {
            Value::Array(answers) => answers.iter().collect::<Vec<_>>(),
            one => vec![&*one],
        };
        // Only contracts' answers and their code are this long.
        let told = |one: &&Value| one["result"].as_str().is_some_and(|result| result.len() > 200);
        if answers.iter().any(told) {
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    };
    let liar = Liar::start(fixture.devnet.url(0), "/", Lie::Changed(Box::new(silent)));
    let given = format!("ethereum={}", liar.url());
    let asked = json!({"token": "WETH", "chain": "ethereum"}).to_string();
    let answer = call(fixture.home.path(), &["get_token_price", &asked, "--rpc", &given]);
    let error = expect(answer, "TOOL_TIMEOUT", "get_token_price", "silence");
    assert_eq!(error["category"], "timeout");
}
