//! Forks of a served chain: the same results as there, from the cache as well, and nothing from an origin that lies,
//! fails or stalls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::{Bytes, TxKind, bytes};
use alloy::providers::Provider as _;
use alloy::rpc::types::{TransactionInput, TransactionRequest};
use serde_json::{Value, json};

use super::*;
use crate::devnet::ledger::HistoryLimits;
use crate::devnet::server::{RpcServer, serve};
use crate::devnet::{Chain, ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig};
use crate::fork::{ExecutionStatus, ForkCall, ForkSource};
use crate::network::ChainPlan;
use crate::provider::read_only::READ_ONLY_METHODS;
use bardo_base::clock::SystemClock;

const ALICE: Address = Address::repeat_byte(0xa1);
const COUNTER: Address = Address::repeat_byte(0xc0);
/// Adds the first word of the calldata to slot 7, stores zero in slot 9, and returns the sum with the balance of ALICE
/// and the hash of block 1: `PUSH0 CALLDATALOAD PUSH1 7 SLOAD ADD DUP1 PUSH1 7 SSTORE PUSH0 PUSH1 9 SSTORE PUSH0 MSTORE
/// PUSH20 ALICE BALANCE PUSH1 32 MSTORE PUSH1 1 BLOCKHASH PUSH1 64 MSTORE PUSH1 9 SLOAD PUSH1 96 MSTORE PUSH1 128 PUSH0
/// RETURN`.
const CODE: Bytes = bytes!(
    "5f3560075401806007555f6009555f5273a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1316020526001406040526009546060526080\
     5ff3"
);
const LIVE_ID: u64 = 31_337;
const LOCAL_ID: u64 = 31_338;

/// A served chain with a contract and some blocks.
async fn live() -> (Devnet, RpcServer) {
    let chain = ChainConfig {
        balances: vec![(ALICE, U256::from(10).pow(U256::from(20)))],
        codes: vec![(COUNTER, CODE)],
        ..ChainConfig::default()
    };
    let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
    let devnet = Devnet::spawn(DevnetConfig { chain, running }).unwrap();
    devnet
        .run(|chain| {
            chain.set_storage_at(COUNTER, U256::from(7), U256::from(70));
            chain.set_storage_at(COUNTER, U256::from(9), U256::from(90));
            (0..5).for_each(|_| drop(chain.mine()));
        })
        .await
        .unwrap();
    let server = serve(devnet.clone(), 0).await.unwrap();
    (devnet, server)
}

fn plan(urls: &[String]) -> ChainPlan {
    let endpoints = urls.iter().map(|url| bardo_base::config::RpcUrl::parse(url).unwrap()).collect();
    let network = Network::devnet("ethereum", LIVE_ID, crate::network::AddressBook::default());
    ChainPlan { name: "ethereum".to_owned(), network: Some(network), chain_id: Some(LIVE_ID), endpoints }
}

async fn opened(urls: &[String], block: ForkBlock, folder: &Path) -> Result<Arc<Origin>, OriginError> {
    Origin::open(plan(urls), block, folder, Arc::new(SystemClock)).await
}

async fn forked(origin: &Arc<Origin>) -> Result<Devnet, OriginError> {
    let origin = Arc::clone(origin);
    let history = HistoryLimits { blocks: 64, states: 64 };
    let chain = tokio::task::spawn_blocking(move || Chain::forked(origin, LOCAL_ID, history, &[])).await.unwrap()?;
    let running = RunningConfig { mining: MiningMode::OnTransaction, clock: None, hook: None };
    Ok(Devnet::adopt(chain, running).unwrap())
}

fn count(by: u64) -> TransactionRequest {
    TransactionRequest {
        from: Some(ALICE),
        to: Some(TxKind::Call(COUNTER)),
        input: TransactionInput::new(U256::from(by).to_be_bytes::<32>().into()),
        ..TransactionRequest::default()
    }
}

/// State of the counter, the account and a transaction on this chain, as a caller sees it.
async fn seen(devnet: &Devnet) -> Result<BTreeMap<&'static str, Value>, String> {
    let provider = devnet.provider();
    let ask = async |name, method: &'static str, params: Value| {
        let answer: Result<Value, _> = provider.raw_request(method.into(), params).await;
        answer.map(|answer| (name, answer)).map_err(|error| error.to_string())
    };
    let mut seen = BTreeMap::from([
        ask("call", "eth_call", json!([count(3), "latest"])).await?,
        ask("balance", "eth_getBalance", json!([ALICE, "latest"])).await?,
        ask("nonce", "eth_getTransactionCount", json!([ALICE, "latest"])).await?,
        ask("code", "eth_getCode", json!([COUNTER, "latest"])).await?,
        ask("slot", "eth_getStorageAt", json!([COUNTER, "0x7", "latest"])).await?,
        ask("nobody", "eth_getBalance", json!([Address::repeat_byte(0x77), "latest"])).await?,
        ask("gas", "eth_estimateGas", json!([count(3), "latest"])).await?,
    ]);
    let sent = devnet
        .run(|chain| {
            let nonce = chain.pending_nonce(ALICE);
            let fees = u128::from(chain.next_base_fee()) * 2;
            let transaction = alloy::consensus::TxEip1559 {
                chain_id: chain.rules().chain_id,
                nonce,
                gas_limit: 200_000,
                max_fee_per_gas: fees,
                to: TxKind::Call(COUNTER),
                input: U256::from(4).to_be_bytes::<32>().into(),
                ..Default::default()
            };
            let hash = chain.submit_as(ALICE, transaction.into()).unwrap();
            chain.mine();
            chain.transaction(hash).map(|included| {
                let receipt = included.receipt().unwrap().clone();
                (receipt.is_success(), receipt.gas_used, receipt.effective_gas_price.to_string())
            })
        })
        .await
        .unwrap();
    seen.insert("sent", json!(sent));
    for (name, slot) in [("slot after", "0x7"), ("slot emptied", "0x9")] {
        seen.extend([ask(name, "eth_getStorageAt", json!([COUNTER, slot, "latest"])).await?]);
    }
    seen.extend([ask("balance after", "eth_getBalance", json!([ALICE, "latest"])).await?]);
    Ok(seen)
}

#[tokio::test]
async fn a_fork_does_what_its_origin_does_and_again_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, server) = live().await;
    let head = devnet.run(|chain| chain.head().hash).await.unwrap();
    let first = opened(&[server.url()], ForkBlock::Latest, folder.path()).await.unwrap();
    assert_eq!((first.number(), first.hash(), first.is_offline()), (5, head, false));
    let here = seen(&forked(&first).await.unwrap()).await.unwrap();
    let there = seen(&devnet).await.unwrap();
    assert_eq!(here, there);
    assert_eq!(here["slot after"], json!(B256::from(U256::from(74))));
    assert_eq!(here["sent"][0], true);
    // The origin has moved on; the fork has not.
    let second = opened(&[server.url()], ForkBlock::Number(5), folder.path()).await.unwrap();
    assert_eq!(seen(&forked(&second).await.unwrap()).await.unwrap(), there);
    assert_eq!(second.round_trips(), 1, "only the block itself is read again");
    drop((first, second));
    server.stop().await;
    // Nobody answers any more: everything comes from the cache.
    let gone = ["http://127.0.0.1:9".to_owned()];
    for block in [ForkBlock::Latest, ForkBlock::Number(5), ForkBlock::Hash(head)] {
        let offline = opened(&gone, block, folder.path()).await.unwrap();
        assert!(offline.is_offline());
        let fork = forked(&offline).await.unwrap();
        assert_eq!(seen(&fork).await.unwrap(), there, "{block}");
        // Other calldata, whose bytes look like addresses that were never read, and the same reads.
        let mut other = count(3);
        other.input = TransactionInput::new([[0_u8; 31].as_slice(), &[3], &[0; 12], &[0xee; 20]].concat().into());
        fork.provider().call(other).await.unwrap();
        // A value that was never read is an error, and not zero.
        let unknown = fork.provider().get_balance(Address::repeat_byte(0x42)).await.unwrap_err().to_string();
        assert!(unknown.contains("no endpoint of ethereum responds"), "{unknown}");
        // An edit of such an account would make a wrong one of it.
        let edited: Result<Value, _> =
            fork.provider().raw_request("anvil_setNonce".into(), json!([Address::repeat_byte(0x43), "0x5"])).await;
        assert!(edited.unwrap_err().to_string().contains("no endpoint"));
    }
    let nothing = opened(&gone, ForkBlock::Number(4), folder.path()).await.unwrap_err();
    assert!(matches!(nothing, OriginError::NothingCached { .. }), "{nothing}");
}

#[tokio::test]
async fn a_simulation_on_a_fork_finds_what_one_on_the_origin_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, server) = live().await;
    let origin = opened(&[server.url()], ForkBlock::Latest, folder.path()).await.unwrap();
    let fork = forked(&origin).await.unwrap();
    let before = origin.round_trips();
    let call = ForkCall::new(ALICE, COUNTER, U256::from(3).to_be_bytes::<32>());
    let mut found = Vec::new();
    for chain in [&devnet, &fork] {
        let source = ForkSource::Devnet(chain.clone());
        let pinned = crate::fork::Fork::pin(&source, BlockId::latest(), Default::default()).await.unwrap();
        let simulation = pinned.simulate(std::slice::from_ref(&call)).await.unwrap();
        assert_eq!(simulation.outcomes[0].status, ExecutionStatus::Success);
        found.push((simulation.outcomes.clone(), simulation.changes.writes.clone()));
    }
    assert_eq!(found[0], found[1]);
    assert!(!found[0].1.is_empty());
    let trips = origin.round_trips() - before;
    assert!((1..=4).contains(&trips), "{trips} round trips for one simulation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_fork_continues_and_only_on_its_own_block() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, server) = live().await;
    let origin = opened(&[server.url()], ForkBlock::Latest, folder.path()).await.unwrap();
    let mut chain = {
        let origin = Arc::clone(&origin);
        let made = move || Chain::forked(origin, LOCAL_ID, HistoryLimits { blocks: 64, states: 64 }, &[]);
        tokio::task::spawn_blocking(made).await.unwrap().unwrap()
    };
    chain.set_storage_at(COUNTER, U256::from(7), U256::ZERO);
    chain.open_account(ALICE, U256::from(5));
    chain.mine();
    let image = chain.to_image();
    let again = Chain::from_image_on(&image, Some(&origin)).unwrap();
    assert_eq!(again.head().hash, chain.head().hash);
    assert_eq!(again.to_image(), image);
    // Zero hides the origin's word, and an untouched word is still read there.
    let read =
        move || (again.state().storage_at(COUNTER, U256::from(7)), again.state().storage_at(COUNTER, U256::from(9)));
    assert_eq!(tokio::task::spawn_blocking(read).await.unwrap(), (U256::ZERO, U256::from(90)));
    assert!(Chain::from_image(&image).err().unwrap().to_string().contains("of a fork"));
    devnet.mine().await.unwrap();
    let later = opened(&[server.url()], ForkBlock::Latest, folder.path()).await.unwrap();
    let refused = Chain::from_image_on(&image, Some(&later)).err().unwrap().to_string();
    assert!(refused.contains("not of a fork of block"), "{refused}");
}

/// Reaction of a proxy to a request: an answer of its own, silence, or the origin's answer.
enum Manner {
    Honest,
    Claim(Value),
    Silent,
    Broken,
}

/// A proxy that counts methods and reacts to each call by `manner`.
async fn proxy(
    target: Devnet,
    heard: Arc<Mutex<BTreeMap<String, usize>>>,
    manner: impl Fn(&Value) -> Manner + Send + Sync + 'static,
) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let manner = Arc::new(manner);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (target, heard, manner) = (target.clone(), Arc::clone(&heard), Arc::clone(&manner));
            tokio::spawn(async move {
                let (mut bytes, mut piece) = (Vec::new(), [0_u8; 65_536]);
                loop {
                    let read = stream.read(&mut piece).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    bytes.extend_from_slice(&piece[..read]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                    let Ok(asked) = serde_json::from_str::<Value>(body) else { continue };
                    bytes.clear();
                    let calls = asked.as_array().cloned().unwrap_or_else(|| vec![asked.clone()]);
                    let mut answers = Vec::new();
                    for call in calls {
                        let method = call["method"].as_str().unwrap().to_owned();
                        *heard.lock().entry(method.clone()).or_default() += 1;
                        let result: Value = match manner(&call) {
                            Manner::Claim(claim) => claim,
                            Manner::Silent => std::future::pending().await,
                            Manner::Broken => return,
                            Manner::Honest => {
                                let params = call["params"].clone();
                                match target.provider().raw_request(method.into(), params).await {
                                    Ok(result) => result,
                                    Err(error) => {
                                        let error = json!({"code": -32000, "message": error.to_string()});
                                        answers.push(json!({"jsonrpc": "2.0", "id": call["id"], "error": error}));
                                        continue;
                                    }
                                }
                            }
                        };
                        answers.push(json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
                    }
                    let body = if asked.is_array() { json!(answers) } else { answers.remove(0) }.to_string();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

fn is_read_of(call: &Value, method: &str, account: Address) -> bool {
    let named = call["params"][0].as_str().and_then(|text| text.parse().ok());
    call["method"] == method && named == Some(account)
}

#[tokio::test]
async fn the_origin_receives_only_reads_whatever_happens_on_the_fork() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, _server) = live().await;
    let heard: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let url = proxy(devnet.clone(), Arc::clone(&heard), |_| Manner::Honest).await;
    let origin = opened(&[url], ForkBlock::Latest, folder.path()).await.unwrap();
    let fork = forked(&origin).await.unwrap();
    seen(&fork).await.unwrap();
    let provider = fork.provider();
    let ask = async |method: &'static str, params: Value| {
        let _answer: Result<Value, _> = provider.raw_request(method.into(), params).await;
    };
    ask("eth_sendRawTransaction", json!(["0x02"])).await;
    ask("anvil_impersonateAccount", json!([ALICE])).await;
    let paid = json!({"from": ALICE, "to": COUNTER, "value": "0x0", "gas": "0x30d40"});
    ask("eth_sendTransaction", json!([paid])).await;
    ask("eth_simulateV1", json!([{"blockStateCalls": [{"calls": [paid]}]}, "latest"])).await;
    ask("debug_traceCall", json!([paid, "latest", {}])).await;
    ask("evm_mine", json!([])).await;
    let heard = heard.lock().clone();
    assert!(heard.values().sum::<usize>() > 10, "{heard:?}");
    for method in heard.keys() {
        assert!(READ_ONLY_METHODS.contains(&method.as_str()), "{method} reached the origin");
    }
    assert_eq!(devnet.run(|chain| chain.number()).await.unwrap(), 5);
}

#[tokio::test]
async fn one_lying_endpoint_among_three_is_outvoted_and_of_two_none_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, server) = live().await;
    let lie = |call: &Value| match is_read_of(call, "eth_getBalance", ALICE) {
        true => Manner::Claim(json!("0x1")),
        false => Manner::Honest,
    };
    let liar = proxy(devnet.clone(), Arc::default(), lie).await;
    let (honest, other) = (server.url(), proxy(devnet.clone(), Arc::default(), |_| Manner::Honest).await);
    let true_balance = devnet.provider().get_balance(ALICE).await.unwrap();
    for urls in [[liar.clone(), honest.clone(), other.clone()], [honest.clone(), liar.clone(), other]] {
        let folder = tempfile::tempdir().unwrap();
        let origin = opened(&urls, ForkBlock::Latest, folder.path()).await.unwrap();
        let fork = forked(&origin).await.unwrap();
        assert_eq!(fork.provider().get_balance(ALICE).await.unwrap(), true_balance);
        drop((fork, origin));
        // Only confirmed values are in the cache.
        let offline = opened(&["http://127.0.0.1:9".to_owned()], ForkBlock::Latest, folder.path()).await.unwrap();
        assert_eq!(forked(&offline).await.unwrap().provider().get_balance(ALICE).await.unwrap(), true_balance);
    }
    let origin = opened(&[liar, honest], ForkBlock::Latest, folder.path()).await.unwrap();
    let fork = forked(&origin).await.unwrap();
    for _ in 0..2 {
        let refused = fork.provider().get_balance(ALICE).await.unwrap_err().to_string();
        assert!(refused.contains("cannot read ethereum at block 5"), "{refused}");
    }
}

#[tokio::test]
async fn a_header_that_belongs_to_no_block_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, _server) = live().await;
    let mut block: Value =
        devnet.provider().raw_request("eth_getBlockByNumber".into(), json!(["latest", false])).await.unwrap();
    block["timestamp"] = json!("0x1");
    let lie = move |call: &Value| match call["method"].as_str() {
        Some("eth_getBlockByNumber") => Manner::Claim(block.clone()),
        _ => Manner::Honest,
    };
    let liar = proxy(devnet, Arc::default(), lie).await;
    let refused = opened(&[liar], ForkBlock::Latest, folder.path()).await.unwrap_err();
    assert!(matches!(refused, OriginError::WrongHeader { .. }), "{refused}");
}

#[tokio::test]
async fn an_endpoint_that_breaks_or_stalls_gives_an_error_and_later_the_value() {
    let (devnet, _server) = live().await;
    let true_balance = devnet.provider().get_balance(ALICE).await.unwrap();
    for stalls in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let fails = Arc::new(AtomicUsize::new(usize::MAX));
        let left = Arc::clone(&fails);
        let bad = move |call: &Value| match is_read_of(call, "eth_getBalance", ALICE) && left.load(Ordering::SeqCst) > 0
        {
            true if stalls => Manner::Silent,
            true => Manner::Broken,
            false => Manner::Honest,
        };
        let url = proxy(devnet.clone(), Arc::default(), bad).await;
        let origin = opened(&[url], ForkBlock::Latest, folder.path()).await.unwrap();
        let fork = forked(&origin).await.unwrap();
        let provider = fork.provider();
        let asked = tokio::spawn(async move { provider.get_balance(ALICE).await });
        // The chain serves others meanwhile.
        let head = tokio::time::timeout(Duration::from_secs(2), fork.provider().get_block_number()).await;
        assert_eq!(head.expect("the chain waits for its origin").unwrap(), 5);
        let refused = asked.await.unwrap().unwrap_err().to_string();
        assert!(refused.contains("cannot read ethereum at block 5"), "{refused}");
        fails.store(0, Ordering::SeqCst);
        assert_eq!(fork.provider().get_balance(ALICE).await.unwrap(), true_balance);
    }
}

#[tokio::test]
async fn a_block_that_was_replaced_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (devnet, server) = live().await;
    let origin = opened(&[server.url()], ForkBlock::Latest, folder.path()).await.unwrap();
    let fork = forked(&origin).await.unwrap();
    fork.provider().get_balance(ALICE).await.unwrap();
    devnet.run(|chain| chain.reorg(2, Vec::new()).map(drop)).await.unwrap().unwrap();
    let refused = fork.provider().get_balance(Address::repeat_byte(0x55)).await.unwrap_err().to_string();
    assert!(refused.contains("no longer part of ethereum"), "{refused}");
    // What was read before is still that of the old block, and opening it again is refused.
    fork.provider().get_balance(ALICE).await.unwrap();
    let again = opened(&[server.url()], ForkBlock::Hash(origin.hash()), folder.path()).await.unwrap_err();
    assert!(matches!(again, OriginError::Reorganised { .. } | OriginError::NoBlock { .. }), "{again}");
}
