//! anvil as a child process with a devnet's state.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy::primitives::B256;
use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use golem_chain::devnet::WorldState;
use serde_json::{Map, Value, json};

/// A running anvil, which ends on drop.
pub struct Anvil(Child, String);

impl Anvil {
    /// URL of its endpoint.
    pub fn url(&self) -> &str {
        &self.1
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        // It may have ended by itself, so an error is expected.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts anvil (`BARDO_ANVIL`, or the one on the path) with every account of `state`.
pub async fn start(state: &WorldState, timestamp: u64, chain_id: u64) -> (Anvil, DynProvider) {
    start_with(state, timestamp, chain_id, &[]).await
}

/// Same as [`start`] with additional arguments.
pub async fn start_with(state: &WorldState, timestamp: u64, chain_id: u64, more: &[&str]) -> (Anvil, DynProvider) {
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
    let url = format!("http://127.0.0.1:{port}");
    let anvil = Command::new(&binary)
        .args(["--hardfork", "osaka", "--no-mining", "--silent", "--gas-limit", "30000000", "--no-request-size-limit"])
        .args(["--chain-id", &chain_id.to_string(), "--port", &port.to_string()])
        .args(["--timestamp", &timestamp.to_string()])
        .args(more)
        .arg("--init")
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .map(|child| Anvil(child, url.clone()))
        .unwrap_or_else(|error| panic!("cannot start {binary}: {error}"));
    let provider = ProviderBuilder::default().connect_http(url.parse().expect("a URL")).erased();
    for _ in 0..400 {
        if provider.get_chain_id().await.is_ok() {
            return (anvil, provider);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("anvil does not answer");
}
