//! A swap through the whole program with an anvil that has the devnet's contracts: the binary, over HTTP, with the
//! address book in a file.

use std::path::Path;
use std::process::{Command, Stdio};

use alloy::primitives::{Address, U256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::Erc20;
use bardo::chain::network::KnownContract;
use serde_json::{Value, json};

use bardo_testkit::anvil;
use bardo_testkit::harness::{TestHarness, description};

const SWAP: &str = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.25","chain":"ethereum"}"#;

fn call(home: &Path, url: &str, more: &[&str]) -> (Value, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear().env("BARDO_HOME", home).stdin(Stdio::null()).stderr(Stdio::null());
    let book = home.join("book.json");
    let given = format!("ethereum={url}");
    command.args(["--rpc", &given, "--book", book.to_str().unwrap(), "call", "--approve", "always"]);
    let output = command.args(["uniswap_execute_swap", SWAP]).args(more).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
}

async fn ask<C: SolCall>(provider: &DynProvider, to: Address, call: C) -> C::Return {
    let request = TransactionRequest::default().to(to).input(call.abi_encode().into());
    C::abi_decode_returns(&provider.call(request).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs anvil: run by .ci/run"]
async fn a_swap_over_anvil_does_what_it_claims_once() {
    let world = TestHarness::new(0).await;
    let (state, timestamp, chain_id) = world.state().await;
    let (anvil, provider) = anvil::start(&state, timestamp, chain_id).await;
    provider.raw_request::<_, Value>("evm_setAutomine".into(), [true]).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("book.json"), serde_json::to_string(&description()).unwrap()).unwrap();

    let owner = world.account();
    let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
    let permit2 = world.contract(KnownContract::Permit2);
    let holds = async |token| ask(&provider, token, Erc20::balanceOfCall { owner }).await;
    let before = [holds(weth).await, holds(usdc).await];
    // An idle anvil makes no block, and a chain with an old last block is not traded on.
    let fresh = async || provider.raw_request::<_, Value>("evm_mine".into(), ()).await.unwrap();
    fresh().await;
    let rehearsed = call(home.path(), anvil.url(), &["--dry-run"]);
    assert_eq!((&rehearsed.0["status"], rehearsed.1), (&json!("simulated"), 0), "{}", rehearsed.0);
    assert_eq!([holds(weth).await, holds(usdc).await], before, "a rehearsal alters nothing");

    fresh().await;
    let (answer, exit) = call(home.path(), anvil.url(), &["--idempotency-key", "once"]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    let after = [holds(weth).await, holds(usdc).await];
    assert_eq!(before[0] - after[0], U256::from(250_000_000_000_000_000_u64));
    let came = after[1] - before[1];
    let claimed = answer["data"]["amount_out"].as_str().unwrap();
    assert_eq!(claimed, alloy::primitives::utils::format_units(came, 6).unwrap().trim_end_matches('0'), "to the unit");
    assert_eq!(ask(&provider, weth, Erc20::allowanceCall { owner, spender: permit2 }).await, U256::ZERO);
    let hash = answer["data"]["tx_hash"].as_str().unwrap().parse().unwrap();
    let receipt = provider.get_transaction_receipt(hash).await.unwrap().unwrap();
    assert!(receipt.status() && receipt.from == owner);
    assert_eq!(Some(receipt.gas_used), answer["data"]["gas_used"].as_u64());

    let (again, _) = call(home.path(), anvil.url(), &["--idempotency-key", "once"]);
    assert_eq!(again["data"], answer["data"], "the same key gives the first result");
    assert_eq!([holds(weth).await, holds(usdc).await], after);
}
