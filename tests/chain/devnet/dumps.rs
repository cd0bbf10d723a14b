//! State dumps compared with anvil, in both directions.

use std::collections::BTreeSet;

use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::DynProvider;
use alloy::sol_types::SolCall;
use bardo::abi::uniswap_v3::QuoterV2;
use bardo::chain::devnet::{Chain, ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig, WorldState};
use bardo::sandbox::actors::Actors;
use bardo::sandbox::boot::build_chain;
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::{ETHEREUM, SandboxToken};
use serde_json::{Value, json};

use super::differential::{ask, ask_all, assert_same};
use bardo_testkit::anvil::start;

const GENESIS_TIME: u64 = 1_800_000_000;
const CHAIN_ID: u64 = 31_337;
/// First account of the development mnemonic, which anvil signs for.
const ALICE: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const LOGGER: Address = Address::repeat_byte(0x10);
const REVERTER: Address = Address::repeat_byte(0x11);
const HALTER: Address = Address::repeat_byte(0x12);
/// Contract that adds one to slot 0.
const COUNTER: Address = Address::repeat_byte(0x13);
/// Account that delegates to [`LOGGER`] (EIP-7702).
const DELEGATED: Address = Address::repeat_byte(0x14);

fn adopted(chain: Chain) -> Devnet {
    let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
    Devnet::adopt(chain, running).expect("spawns")
}

/// Answer without the fields that only anvil has.
fn comparable(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(fields) => {
            for name in ["blockTimestamp", "blobGasPrice", "blobGasUsed"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(|value| *value = comparable(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = comparable(value.take())),
        _ => {}
    }
    answer
}

/// Compares both chains' answers to the same requests.
async fn compare(ours: &DynProvider, theirs: &DynProvider, questions: &[(&'static str, Value)]) {
    for part in questions.chunks(500) {
        let (here, there) = (ask_all(ours, part).await, ask_all(theirs, part).await);
        for ((question, here), there) in part.iter().zip(here).zip(there) {
            assert_same(&comparable(here), &comparable(there), &format!("{question:?}"));
        }
    }
}

fn about_accounts(addresses: impl Iterator<Item = Address>, block: &Value) -> Vec<(&'static str, Value)> {
    let methods = ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"];
    addresses.flat_map(|address| methods.map(|method| (method, json!([address, block])))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs anvil: run by .ci/run"]
async fn anvil_loads_the_devnets_state_and_continues_identically() {
    let accounts = DevnetAccount::development_accounts().expect("accounts");
    let actors = Actors::new().expect("keys");
    let (chain, background_actors) =
        build_chain(1, &ETHEREUM, &actors, GENESIS_TIME, &|_| {}).expect("a furnished chain");
    let (state, head) = (chain.state().clone(), chain.number());
    let headers: Vec<_> = chain.blocks(head - 3, head).map(|block| block.header.clone()).collect();
    let hashes: Vec<B256> = chain
        .blocks(head - 20, head)
        .flat_map(|block| block.transactions.iter().map(|transaction| transaction.hash))
        .collect();
    let devnet = adopted(chain);
    let ours = devnet.provider();
    let (_anvil, theirs) = start(&WorldState::default(), GENESIS_TIME, CHAIN_ID).await;
    let dump = ask(&ours, "anvil_dumpState", json!([])).await;
    assert_eq!(ask(&theirs, "anvil_loadState", json!([dump])).await, json!(true));

    assert_eq!(ask(&theirs, "eth_blockNumber", json!([])).await, json!(format!("{head:#x}")));
    let mut questions = about_accounts(state.addresses(), &json!("latest"));
    for address in state.addresses() {
        questions
            .extend(state.storage(address).map(|(slot, _)| ("eth_getStorageAt", json!([address, slot, "latest"]))));
    }
    assert!(questions.len() > 5_000, "{}", questions.len());
    let deployment = background_actors.deployment();
    for (amount, fee) in [(1_u64, 100_u32), (5, 500), (50, 3_000), (3, 10_000)] {
        let params = QuoterV2::QuoteExactInputSingleParams {
            tokenIn: deployment.weth,
            tokenOut: deployment.token(SandboxToken::Usdc).expect("there"),
            amountIn: U256::from(amount) * U256::from(10).pow(U256::from(18)),
            fee: U24::from(fee),
            sqrtPriceLimitX96: U160::ZERO,
        };
        let input = Bytes::from(QuoterV2::quoteExactInputSingleCall { params }.abi_encode());
        questions.push(("eth_call", json!([{"to": deployment.contracts["quoterV2"], "input": input}, "latest"])));
    }
    questions.extend(hashes.iter().map(|hash| ("eth_getTransactionReceipt", json!([hash]))));
    assert!(hashes.len() > 5);

    for header in headers {
        let question = [("eth_getBlockByNumber", json!([format!("{:#x}", header.number), false]))];
        let there = ask_all(&theirs, &question).await.remove(0);
        let read: alloy::rpc::types::Block<B256> = serde_json::from_value(there).expect("a block");
        assert_eq!(read.header.inner, header);
        assert_eq!(read.header.hash, header.hash_slow());
    }

    compare(&ours, &theirs, &questions).await;
    // Both continue after the same block and treat the same transaction equally.
    let key = accounts.first().expect("an account");
    let count: U256 =
        serde_json::from_value(ask(&ours, "eth_getTransactionCount", json!([key.address(), "latest"])).await)
            .expect("a number");
    let signed = key
        .sign(alloy::consensus::TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: count.to(),
            gas_limit: 100_000,
            max_fee_per_gas: 10_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to: deployment.weth.into(),
            value: U256::from(7),
            ..Default::default()
        })
        .expect("signed");
    let raw = json!([Bytes::from(alloy::eips::Encodable2718::encoded_2718(&signed))]);
    for provider in [&ours, &theirs] {
        ask(provider, "eth_sendRawTransaction", raw.clone()).await;
        // The devnet's fee has a minimum, unlike anvil's.
        ask(provider, "anvil_setNextBlockBaseFeePerGas", json!(["0x3b9aca00"])).await;
        ask(provider, "evm_mine", json!([])).await;
    }
    compare(&ours, &theirs, &[("eth_getBalance", json!([key.address(), "latest"])), ("eth_blockNumber", json!([]))])
        .await;
    // The new block has another state root there, and so another hash.
    let receipt = async |provider: &DynProvider| {
        let mut receipt = ask(provider, "eth_getTransactionReceipt", json!([signed.tx_hash()])).await;
        for log in receipt["logs"].as_array_mut().expect("logs") {
            log["blockHash"] = Value::Null;
        }
        receipt["blockHash"] = Value::Null;
        comparable(receipt)
    };
    assert_same(&receipt(&ours).await, &receipt(&theirs).await, "the next receipt");
}

/// Lets anvil make a few blocks that contain everything that a dump must keep.
async fn live(theirs: &DynProvider) -> BTreeSet<Address> {
    let codes = [
        (LOGGER, "0x602a5f5fa100".to_owned()),
        (REVERTER, "0x60075f5260205ffd".to_owned()),
        (HALTER, "0xfe".to_owned()),
        (COUNTER, "0x5f546001015f5500".to_owned()),
        (DELEGATED, format!("0xef0100{}", alloy::hex::encode(LOGGER))),
    ];
    for (address, code) in &codes {
        ask(theirs, "anvil_setCode", json!([address, code])).await;
    }
    ask(theirs, "anvil_setBalance", json!([LOGGER, "0xde0b6b3a7640000"])).await;
    ask(theirs, "anvil_impersonateAccount", json!([LOGGER])).await;
    for _ in 0..3 {
        for to in [LOGGER, REVERTER, HALTER, COUNTER, DELEGATED] {
            ask(theirs, "eth_sendTransaction", json!([{"from": ALICE, "to": to, "gas": "0x186a0"}])).await;
        }
        let create = json!([{"from": ALICE, "input": "0x60fe5f5360015ff3", "gas": "0x186a0"}]);
        ask(theirs, "eth_sendTransaction", create).await;
        let unsigned = json!([{"from": LOGGER, "to": COUNTER, "value": "0x0", "gas": "0x186a0"}]);
        ask(theirs, "eth_sendTransaction", unsigned).await;
        ask(theirs, "evm_mine", json!([])).await;
    }
    let mut addresses: BTreeSet<Address> = codes.iter().map(|(address, _)| *address).collect();
    addresses.insert(ALICE.parse().expect("an address"));
    for number in 1..=3 {
        let receipts = ask(theirs, "eth_getBlockReceipts", json!([format!("{number:#x}")])).await;
        let receipts = receipts.as_array().expect("receipts");
        assert_eq!(receipts.len(), 7);
        let created = receipts.iter().filter_map(|receipt| receipt["contractAddress"].as_str());
        addresses.extend(created.map(|address| address.parse::<Address>().expect("an address")));
    }
    addresses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs anvil: run by .ci/run"]
async fn the_devnet_loads_anvils_state_blocks_and_earlier_states() {
    let (_anvil, theirs) = start(&WorldState::default(), GENESIS_TIME, CHAIN_ID).await;
    ask(&theirs, "anvil_setBalance", json!([ALICE, "0x56bc75e2d63100000"])).await;
    let addresses = live(&theirs).await;
    let dump = ask(&theirs, "anvil_dumpState", json!([true])).await;
    let chain = ChainConfig { genesis_time: 1, ..ChainConfig::default() };
    let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
    let devnet = Devnet::spawn(DevnetConfig { chain, running }).expect("spawns");
    let ours = devnet.provider();
    assert_eq!(ask(&ours, "anvil_loadState", json!([dump])).await, json!(true));

    let mut questions = vec![("eth_blockNumber", json!([]))];
    // Anvil adds accounts that were only read to every state that it answers from; blocks 1 to 3 have all of them.
    for block in ["0x1", "0x2", "0x3", "latest"] {
        questions.extend(about_accounts(addresses.iter().copied(), &json!(block)));
        questions.push(("eth_getStorageAt", json!([COUNTER, "0x0", block])));
        // Returns BLOCKHASH of block 1.
        let program = "0x6001405f5260205ff3";
        let code = json!({ Address::repeat_byte(0x15).to_string(): { "code": program } });
        questions.push(("eth_call", json!([{"to": Address::repeat_byte(0x15)}, block, code])));
        questions.push(("eth_getBlockReceipts", json!([block])));
        questions.push(("eth_getLogs", json!([{"fromBlock": "0x1", "toBlock": block, "address": LOGGER}])));
    }
    compare(&ours, &theirs, &questions).await;
    for number in ["0x0", "0x1", "0x2", "0x3"] {
        let question = [("eth_getBlockByNumber", json!([number, false]))];
        let (here, there) = (ask_all(&ours, &question).await, ask_all(&theirs, &question).await);
        for field in ["hash", "parentHash", "stateRoot", "timestamp", "transactions", "baseFeePerGas", "gasUsed"] {
            assert_eq!(here[0][field], there[0][field], "block {number}: {field}");
        }
        for hash in here[0]["transactions"].as_array().expect("hashes") {
            compare(&ours, &theirs, &[("eth_getTransactionByHash", json!([hash]))]).await;
        }
    }
    // Another anvil loads the dump that the devnet writes.
    let (_third, third) = start(&WorldState::default(), GENESIS_TIME, CHAIN_ID).await;
    let again = ask(&ours, "anvil_dumpState", json!([true])).await;
    assert_eq!(ask(&third, "anvil_loadState", json!([again])).await, json!(true));
    // Anvil itself does not load block hashes for BLOCKHASH in the newest state.
    questions.retain(|(method, _)| *method != "eth_call");
    compare(&third, &theirs, &questions).await;
}
