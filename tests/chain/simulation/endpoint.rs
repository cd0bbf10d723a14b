//! JSON-RPC endpoint with configurable faults: it serves a chain state and counts requests.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use alloy::consensus;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::{DynProvider, Provider, RootProvider};
use alloy::rpc::client::RpcClient;
use alloy::rpc::json_rpc::{RequestPacket, ResponsePacket};
use alloy::rpc::types::Header;
use alloy::transports::{TransportError, TransportErrorKind, TransportFut};
use bardo::chain::devnet::WorldState;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::Service;

use crate::simulation::world::{RULES, TestHarness};

/// Fault of the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Supports blocks by number only, as before EIP-1898.
    NoBlockHashes,
    /// Returns an error for this method.
    Refuse(&'static str),
    /// Returns an invalid result for this method.
    Garble(&'static str),
    /// Returns an empty result for this method, like endpoints that lack the state.
    Empty(&'static str),
    /// Omits this method's answers from batches.
    Forget(&'static str),
    /// Does not answer at all.
    Dead,
    /// Reports another chain id.
    OtherChain,
}

#[derive(Debug, Clone)]
pub struct Endpoint {
    shared: Arc<Mutex<Shared>>,
    hanging: Arc<Notify>,
}

#[derive(Debug)]
struct Shared {
    state: WorldState,
    header: Header,
    fault: Fault,
    /// Number of further packets before the block is replaced.
    reorg_in: Option<usize>,
    /// Number of further packets before one is never answered.
    hang_in: Option<usize>,
    packets: usize,
    methods: Vec<String>,
}

impl Endpoint {
    /// Serves the state of `world` as the block before its next one.
    pub fn new(world: &TestHarness) -> Self {
        let inner = consensus::Header {
            number: world.block.number - 1,
            timestamp: world.block.timestamp - 1,
            gas_limit: world.block.gas_limit,
            // Half full, so that the base fee stays.
            gas_used: world.block.gas_limit / 2,
            base_fee_per_gas: Some(world.block.base_fee),
            beneficiary: world.block.coinbase,
            mix_hash: world.block.prevrandao,
            excess_blob_gas: Some(0),
            blob_gas_used: Some(0),
            ..consensus::Header::default()
        };
        let shared = Shared {
            state: world.state.clone(),
            header: Header::new(inner),
            fault: Fault::None,
            reorg_in: None,
            hang_in: None,
            packets: 0,
            methods: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)), hanging: Arc::new(Notify::new()) }
    }

    pub fn provider(&self) -> DynProvider {
        RootProvider::<alloy::network::Ethereum>::new(RpcClient::new(self.clone(), true)).erased()
    }

    pub fn hash(&self) -> B256 {
        self.shared.lock().unwrap().header.hash
    }

    pub fn fail(&self, fault: Fault) {
        self.shared.lock().unwrap().fault = fault;
    }

    pub fn reorg_in(&self, packets: usize) {
        self.shared.lock().unwrap().reorg_in = Some(packets);
    }

    pub fn hang_in(&self, packets: usize) {
        self.shared.lock().unwrap().hang_in = Some(packets);
    }

    /// Waits for a packet that is never answered.
    pub async fn hanging(&self) {
        self.hanging.notified().await;
    }

    /// Number of answered packets, and their methods.
    pub fn seen(&self) -> (usize, Vec<String>) {
        let shared = self.shared.lock().unwrap();
        (shared.packets, shared.methods.clone())
    }
}

impl Shared {
    fn hangs(&mut self) -> bool {
        let left = self.hang_in;
        self.hang_in = left.and_then(|left| left.checked_sub(1));
        left == Some(0)
    }

    fn answer(&mut self, packet: RequestPacket) -> Result<String, TransportError> {
        self.packets += 1;
        if let Some(left) = self.reorg_in.as_mut() {
            if *left == 0 {
                let replaced = consensus::Header { extra_data: vec![1].into(), ..self.header.inner.clone() };
                self.header = Header::new(replaced);
                self.reorg_in = None;
            } else {
                *left -= 1;
            }
        }
        if self.fault == Fault::Dead {
            return Err(TransportErrorKind::custom_str("connection refused"));
        }
        let asked: Value = serde_json::from_str(packet.serialize().expect("JSON").get()).expect("JSON");
        let answers: Vec<Value> = match &asked {
            Value::Array(calls) => calls.iter().filter_map(|call| self.answer_call(call)).collect(),
            call => self.answer_call(call).into_iter().collect(),
        };
        Ok(if asked.is_array() { Value::from(answers) } else { answers[0].clone() }.to_string())
    }

    fn answer_call(&mut self, call: &Value) -> Option<Value> {
        let (id, method) = (&call["id"], call["method"].as_str().expect("a method"));
        self.methods.push(method.to_owned());
        let failure = |code: i64, message: &str| {
            Some(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }))
        };
        match self.fault {
            Fault::Refuse(refused) if refused == method => return failure(-32000, "missing trie node \u{1b}[31m"),
            Fault::Garble(garbled) if garbled == method => {
                return Some(json!({ "jsonrpc": "2.0", "id": id, "result": { "what": "ever" } }));
            }
            Fault::Empty(emptied) if emptied == method => {
                return Some(json!({ "jsonrpc": "2.0", "id": id, "result": "0x" }));
            }
            Fault::Forget(forgotten) if forgotten == method => return None,
            _ => {}
        }
        let params = &call["params"];
        let address = || -> Address { serde_json::from_value(params[0].clone()).expect("an address") };
        if method.starts_with("eth_get") && !method.starts_with("eth_getBlockBy") {
            let block = params.as_array().expect("parameters").last().expect("a block");
            match block.get("blockHash") {
                Some(_) if self.fault == Fault::NoBlockHashes => {
                    return failure(-32602, "invalid argument: hex string without 0x prefix");
                }
                Some(hash) if *hash != json!(self.header.hash) => {
                    return failure(-32000, "hash is not currently canonical");
                }
                Some(_) => {}
                None if *block != json!(format!("{:#x}", self.header.number)) => {
                    return failure(-32000, "header not found");
                }
                None => {}
            }
        }
        let result = match method {
            "eth_chainId" if self.fault == Fault::OtherChain => json!("0x1"),
            "eth_chainId" => json!(format!("{:#x}", RULES.chain_id)),
            "eth_getBlockByHash" if params[0] != json!(self.header.hash) => Value::Null,
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                let mut block = serde_json::to_value(&self.header).expect("JSON");
                block["transactions"] = json!([]);
                block["uncles"] = json!([]);
                block
            }
            "eth_getBalance" => json!(self.state.balance(address())),
            "eth_getTransactionCount" => json!(format!("{:#x}", self.state.nonce(address()))),
            "eth_getCode" => json!(self.state.code(address())),
            "eth_getStorageAt" => {
                let slot: U256 = serde_json::from_value(params[1].clone()).expect("a slot");
                json!(B256::from(self.state.storage_at(address(), slot)))
            }
            other => return failure(-32601, &format!("the method {other} does not exist")),
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }
}

impl Service<RequestPacket> for Endpoint {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let mut shared = self.shared.lock().unwrap();
        if shared.hangs() {
            self.hanging.notify_one();
            return Box::pin(std::future::pending());
        }
        let answer = shared.answer(packet);
        let parsed: Ready<_> = ready(answer.map(|text| serde_json::from_str(&text).expect("a response packet")));
        Box::pin(parsed)
    }
}
