//! Simulation over RPC against anvil: it carries the devnet's state, simulations read from it, and
//! every transaction is then executed on both.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy::eips::{BlockId, Encodable2718};
use alloy::primitives::{B256, Bytes, U256};
use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use bardo::chain::devnet::State;
use bardo::chain::fork::{Call, Fork, Remote, RemoteLimits, Source, Status};
use serde_json::{Map, Value, json};

use crate::execution::{Exchange, next_block, seed};

/// anvil, ended with the test.
struct Anvil(Child);

impl Drop for Anvil {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn start(state: &State, timestamp: u64, chain_id: u64) -> (Anvil, DynProvider) {
    let mut alloc = Map::new();
    for address in state.addresses() {
        let storage: Map<String, Value> = state
            .storage(address)
            .map(|(slot, value)| (B256::from(slot).to_string(), json!(B256::from(value))))
            .collect();
        let account = json!({
            "balance": state.balance(address),
            "nonce": format!("{:#x}", state.nonce(address)),
            "code": state.code(address),
            "storage": storage,
        });
        alloc.insert(address.to_string(), account);
    }
    let genesis = json!({
        "config": { "chainId": chain_id },
        "timestamp": format!("{timestamp:#x}"),
        "gasLimit": "0x1c9c380",
        "difficulty": "0x0",
        "alloc": alloc,
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("genesis.json");
    std::fs::write(&file, genesis.to_string()).expect("written");
    let binary = std::env::var("BARDO_ANVIL").unwrap_or_else(|_| "anvil".to_owned());
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let anvil = Command::new(&binary)
        .args(["--hardfork", "osaka", "--no-mining", "--silent", "--gas-limit", "30000000"])
        .args(["--chain-id", &chain_id.to_string(), "--port", &port.to_string()])
        .args(["--timestamp", &timestamp.to_string()])
        .arg("--init")
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .map(Anvil)
        .unwrap_or_else(|error| panic!("cannot start {binary}: {error}"));
    let url = format!("http://127.0.0.1:{port}").parse().expect("a URL");
    let provider = ProviderBuilder::default().connect_http(url).erased();
    for _ in 0..400 {
        if provider.get_chain_id().await.is_ok() {
            return (anvil, provider);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("anvil does not answer");
}

async fn ask(provider: &DynProvider, method: &'static str, params: Value) -> Value {
    provider.raw_request(method.into(), params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs anvil: run by .ci/run"]
async fn a_hundred_simulated_over_anvil_do_the_same_on_both() {
    let mut exchange = Exchange::open(seed(22)).await;
    let (state, timestamp, rules) = exchange
        .devnet
        .run(|chain| (chain.state().clone(), chain.head().header.timestamp, *chain.rules()))
        .await
        .expect("a chain");
    let (_anvil, provider) = start(&state, timestamp, rules.chain_id).await;
    let source = Source::Remote(Remote::new(provider.clone(), rules, RemoteLimits::default()));
    for _ in 0..110 {
        let next = next_block(&exchange).await;
        let attempt = exchange.attempt().await;
        let fork = Fork::pin(&source, BlockId::latest(), next).await.expect("a fork");
        let call = Call::from_signed(&attempt.envelope).expect("a call");
        let simulation = fork.simulate(&[call]).await.unwrap_or_else(|error| panic!("{}: {error}", attempt.what));

        let what = attempt.what.clone();
        let (timestamp, base_fee) = (next.timestamp.expect("said"), next.base_fee.expect("said"));
        ask(&provider, "evm_setNextBlockTimestamp", json!([timestamp])).await;
        ask(&provider, "anvil_setNextBlockBaseFeePerGas", json!([U256::from(base_fee)])).await;
        ask(&provider, "anvil_setCoinbase", json!([next.coinbase.expect("said")])).await;
        let hash =
            ask(&provider, "eth_sendRawTransaction", json!([Bytes::from(attempt.envelope.encoded_2718())])).await;
        ask(&provider, "evm_mine", json!([])).await;
        let receipt = provider
            .get_transaction_receipt(serde_json::from_value(hash).expect("a hash"))
            .await
            .expect("a receipt")
            .unwrap_or_else(|| panic!("not in the block: {what}"));
        let outcome = &simulation.outcomes[0];
        assert_eq!(receipt.status(), outcome.status == Status::Success, "{what}: {:?}", outcome.status);
        assert_eq!(receipt.gas_used, outcome.gas_used, "{what}");
        let logs: Vec<_> = receipt.logs().iter().map(|log| log.inner.clone()).collect();
        assert_eq!(logs, outcome.logs, "{what}");
        for account in &simulation.changes.accounts {
            let balance = provider.get_balance(account.account).await.expect("a balance");
            let nonce = provider.get_transaction_count(account.account).await.expect("a nonce");
            assert_eq!((balance, nonce), (account.balance.after, account.nonce.after), "{what}: {account:?}");
        }
        for write in &simulation.changes.writes {
            let value = provider.get_storage_at(write.account, write.slot).await.expect("a slot");
            assert_eq!(value, write.value.after, "{what}: {write:?}");
        }
        exchange.compare(attempt, &simulation).await;
    }
}
