//! The devnet compared with anvil: the same signed transactions must have the same effects on both.
//!
//! Senders, contracts and calldata are random, from a seed that is printed and can be set with `BARDO_SEED`. Programs
//! are random opcode sequences, so that most features and failures of the EVM occur. Values that must differ are
//! excluded: block hashes and `PREVRANDAO`. Every method that both have is called on both; `methods` lists them and the
//! fields that are excluded.

use std::collections::BTreeSet;

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxEnvelope, TxLegacy};
use alloy::eips::Encodable2718;
use alloy::eips::eip2930::{AccessList, AccessListItem};
use alloy::eips::eip7702::{Authorization, SignedAuthorization};
use alloy::primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use alloy::providers::{DynProvider, Provider};
use alloy::rpc::client::BatchRequest;
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::devnet::methods::Pair;

pub const GENESIS_TIME: u64 = 1_800_000_000;
const GWEI: u128 = 1_000_000_000;
pub const CHAIN_ID: u64 = 31_337;
const SENDERS: usize = 8;
const BLOCKS: u64 = 210;
pub const SLOTS: u64 = 6;
const LEAST_TRANSACTIONS: usize = 1_000;
const COINBASE: Address = Address::repeat_byte(0xc0);

/// Random state of the test.
struct TestHarness {
    random: ChaCha8Rng,
    keys: Vec<PrivateKeySigner>,
    nonces: Vec<u64>,
    contracts: Vec<Address>,
    addresses: BTreeSet<Address>,
}

impl TestHarness {
    fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let keys: Vec<_> = (0..SENDERS)
            .map(|_| PrivateKeySigner::from_bytes(&B256::from(random.random::<[u8; 32]>())).expect("a key"))
            .collect();
        let mut addresses: BTreeSet<Address> = keys.iter().map(PrivateKeySigner::address).collect();
        addresses.insert(COINBASE);
        Self { random, keys, nonces: vec![0; SENDERS], contracts: Vec::new(), addresses }
    }

    fn address(&mut self) -> Address {
        let known: Vec<Address> = self.addresses.iter().copied().collect();
        match self.random.random_range(0..10) {
            0 => Address::from(self.random.random::<[u8; 20]>()),
            // Precompiles, including P256VERIFY (EIP-7951).
            1 => Address::left_padding_from(&[self.random.random_range(1..=0x11)]),
            2 => Address::left_padding_from(&[1, 0]),
            _ => *known.choose(&mut self.random).expect("some address"),
        }
    }

    fn bytes(&mut self, most: usize) -> Bytes {
        let length = self.random.random_range(0..=most);
        let zeros = self.random.random_bool(0.3);
        (0..length).map(|_| if zeros && self.random.random_bool(0.7) { 0 } else { self.random.random() }).collect()
    }

    /// A program that usually keeps its stack balanced.
    fn program(&mut self) -> Vec<u8> {
        let mut code = Vec::new();
        for _ in 0..self.random.random_range(1..30) {
            self.step(&mut code);
        }
        match self.random.random_range(0..8) {
            0 => code.extend([0x60, 0x20, 0x5f, 0xfd]),
            1 => code.extend([0x60, 0x40, 0x5f, 0xf3]),
            2 => code.push(0xfe),
            3 => {
                // SELFDESTRUCT, which since EIP-6780 only moves the balance unless the contract was just created.
                let heir = self.address();
                push_address(&mut code, heir);
                code.push(0xff);
            }
            _ => code.push(0x00),
        }
        code
    }

    fn step(&mut self, code: &mut Vec<u8>) {
        let slot = u8::try_from(self.random.random_range(0..SLOTS)).expect("small");
        let value: u8 = if self.random.random_bool(0.4) { 0 } else { self.random.random() };
        match self.random.random_range(0..22) {
            // SSTORE of a constant, of a sum with the present value, or of a block property.
            0..=2 => code.extend([0x60, value, 0x60, slot, 0x55]),
            3 => code.extend([0x60, slot, 0x54, 0x60, value, 0x01, 0x60, slot, 0x55]),
            4 => {
                // COINBASE TIMESTAMP NUMBER GASLIMIT CHAINID SELFBALANCE BASEFEE BLOBBASEFEE ORIGIN CALLER CALLVALUE
                // GASPRICE
                let sources = [0x41, 0x42, 0x43, 0x45, 0x46, 0x47, 0x48, 0x4a, 0x32, 0x33, 0x34, 0x3a];
                let source = *sources.choose(&mut self.random).expect("one");
                code.extend([source, 0x60, slot, 0x55]);
            }
            // CALLDATALOAD; TSTORE and TLOAD; MSTORE, MCOPY and MSIZE; KECCAK256; CLZ (EIP-7939).
            5 => code.extend([0x60, value, 0x35, 0x60, slot, 0x55]),
            6 => code.extend([0x60, value, 0x60, slot, 0x5d, 0x60, slot, 0x5c, 0x60, slot, 0x55]),
            7 => code
                .extend([0x60, value, 0x60, value, 0x52, 0x60, 0x20, 0x60, value, 0x5f, 0x5e, 0x59, 0x60, slot, 0x55]),
            8 => code.extend([0x60, value, 0x5f, 0x20, 0x60, slot, 0x55]),
            9 => code.extend([0x60, value, 0x1e, 0x60, slot, 0x55]),
            // LOG0 to LOG4 with some memory.
            10..=12 => {
                let topics = self.random.random_range(0..=4_u8);
                for _ in 0..topics {
                    code.extend([0x60, self.random.random()]);
                }
                code.extend([0x60, value, 0x5f, 0xa0 + topics]);
            }
            // BALANCE, EXTCODESIZE, EXTCODEHASH of an address.
            13 => {
                let whom = self.address();
                push_address(code, whom);
                let what = *[0x31, 0x3b, 0x3f].choose(&mut self.random).expect("one");
                code.extend([what, 0x60, slot, 0x55]);
            }
            // CALL, CALLCODE, DELEGATECALL, STATICCALL of an address; stores the success.
            14..=17 => {
                let whom = self.address();
                let kind = *[0xf1, 0xf1, 0xf2, 0xf4, 0xfa].choose(&mut self.random).expect("one");
                code.extend([0x60, 0x20, 0x5f, 0x60, value, 0x5f]);
                if kind == 0xf1 || kind == 0xf2 {
                    code.extend([0x60, if self.random.random_bool(0.5) { 0 } else { value }]);
                }
                push_address(code, whom);
                if self.random.random_bool(0.5) {
                    code.push(0x5a);
                } else {
                    code.extend([0x61, value, slot]);
                }
                code.extend([kind, 0x60, slot, 0x55, 0x3d, 0x60, slot, 0x55]);
            }
            // CREATE or CREATE2 with init code from calldata.
            18 => {
                code.extend([0x36, 0x5f, 0x5f, 0x37]);
                if self.random.random_bool(0.5) {
                    code.extend([0x36, 0x5f, 0x60, value % 3, 0xf0]);
                } else {
                    code.extend([0x60, value, 0x36, 0x5f, 0x5f, 0xf5]);
                }
                code.extend([0x60, slot, 0x55]);
            }
            // Arithmetic on constants and GAS; stores the result.
            19 => {
                let op = self.random.random_range(0x01..=0x0b_u8);
                code.extend([0x60, value, 0x60, slot, 0x60, 3, op, 0x60, slot, 0x55]);
            }
            20 => code.extend([0x5a, 0x60, slot, 0x55]),
            // Any byte.
            _ => {
                let anything: u8 = self.random.random();
                // BLOCKHASH and PREVRANDAO must differ between the two; jumps may never end.
                if ![0x40, 0x44, 0x56, 0x57].contains(&anything) {
                    code.push(anything);
                }
            }
        }
    }

    fn creation(&mut self) -> Bytes {
        let body = self.program();
        let mut init = Vec::new();
        if self.random.random_bool(0.3) {
            for _ in 0..self.random.random_range(0..4) {
                self.step(&mut init);
            }
        }
        match self.random.random_range(0..12) {
            // Code that EIP-3541 forbids, and empty code.
            0 => init.extend([0x60, 0xef, 0x5f, 0x53, 0x60, 0x01, 0x5f, 0xf3]),
            1 => init.push(0x00),
            2 => init.extend([0x5f, 0x5f, 0xfd]),
            _ => {
                let [high, low] = u16::try_from(body.len()).expect("short").to_be_bytes();
                let [at_high, at_low] = u16::try_from(init.len() + 12).expect("short").to_be_bytes();
                // PUSH2 length DUP1 PUSH2 offset PUSH0 CODECOPY PUSH0 RETURN STOP
                init.extend([0x61, high, low, 0x80, 0x61, at_high, at_low, 0x5f, 0x39, 0x5f, 0xf3, 0x00]);
                init.extend(body);
            }
        }
        init.into()
    }

    fn access_list(&mut self) -> AccessList {
        let count = self.random.random_range(0..3);
        (0..count)
            .map(|_| AccessListItem {
                address: self.address(),
                storage_keys: (0..self.random.random_range(0..3))
                    .map(|_| B256::from(U256::from(self.random.random_range(0..SLOTS))))
                    .collect(),
            })
            .collect::<Vec<_>>()
            .into()
    }

    fn authorizations(&mut self) -> Vec<SignedAuthorization> {
        let count = self.random.random_range(1..=3);
        (0..count)
            .map(|_| {
                let who = self.random.random_range(0..SENDERS);
                let nonce = match self.random.random_range(0..4) {
                    0 => self.random.random_range(0..200),
                    1 => self.nonces[who] + 1,
                    _ => self.nonces[who],
                };
                let chain_id = *[0, CHAIN_ID, CHAIN_ID, 1].choose(&mut self.random).expect("one");
                let address = if self.random.random_bool(0.2) { Address::ZERO } else { self.address() };
                let authorization = Authorization { chain_id: U256::from(chain_id), address, nonce };
                let signature = self.keys[who].sign_hash_sync(&authorization.signature_hash()).expect("signs");
                authorization.into_signed(signature)
            })
            .collect()
    }

    /// Transaction of `who` with a position in the block given by `rank`: both chains order by fee, and the fee rises
    /// with the rank.
    fn transaction(&mut self, who: usize, rank: u64, base_fee: u128) -> TxEnvelope {
        let nonce = self.nonces[who];
        let tip = u128::from(rank + 1) * GWEI;
        let price = base_fee + tip;
        let creates = self.contracts.len() < 6 || self.random.random_bool(0.2);
        let (to, input) = if creates {
            (TxKind::Create, self.creation())
        } else if self.random.random_bool(0.6) {
            let to = *self.contracts.choose(&mut self.random).expect("some contract");
            let input = if self.random.random_bool(0.2) { self.creation() } else { self.bytes(96) };
            (TxKind::Call(to), input)
        } else {
            let to = self.address();
            let most = if self.random.random_bool(0.2) { 2_000 } else { 40 };
            (TxKind::Call(to), self.bytes(most))
        };
        let value =
            U256::from(if self.random.random_bool(0.5) { 0 } else { self.random.random_range(0..1_000_000_u64) });
        let gas_limit = *[60_000, 120_000, 300_000, 1_000_000].choose(&mut self.random).expect("one");
        let access_list = self.access_list();
        let key = self.keys[who].clone();
        match (self.random.random_range(0..5), to) {
            (0, _) => {
                let chain_id = self.random.random_bool(0.8).then_some(CHAIN_ID);
                sign(&key, TxLegacy { chain_id, nonce, gas_price: price, gas_limit, to, value, input })
            }
            (1, _) => sign(
                &key,
                TxEip2930 { chain_id: CHAIN_ID, nonce, gas_price: price, gas_limit, to, value, access_list, input },
            ),
            (2, TxKind::Call(to)) => sign(
                &key,
                TxEip7702 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: price,
                    max_priority_fee_per_gas: tip,
                    to,
                    value,
                    access_list,
                    authorization_list: self.authorizations(),
                    input,
                },
            ),
            _ => sign(
                &key,
                TxEip1559 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: price,
                    max_priority_fee_per_gas: tip,
                    to,
                    value,
                    access_list,
                    input,
                },
            ),
        }
    }
}

fn push_address(code: &mut Vec<u8>, address: Address) {
    code.push(0x73);
    code.extend_from_slice(address.as_slice());
}

fn sign<T: SignableTransaction<Signature>>(key: &PrivateKeySigner, tx: T) -> TxEnvelope
where
    TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signature = key.sign_hash_sync(&tx.signature_hash()).expect("signs");
    tx.into_signed(signature).into()
}

pub(super) async fn ask(provider: &DynProvider, method: &'static str, params: Value) -> Value {
    provider.raw_request(method.into(), params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// The same requests in one batch.
pub(super) async fn ask_all(provider: &DynProvider, questions: &[(&'static str, Value)]) -> Vec<Value> {
    let mut answers = Vec::with_capacity(questions.len());
    for chunk in questions.chunks(500) {
        let mut batch = BatchRequest::new(provider.client());
        let waiting: Vec<_> =
            chunk.iter().map(|(method, params)| batch.add_call::<_, Value>(*method, params).expect("added")).collect();
        batch.send().await.expect("answered");
        for answer in waiting {
            answers.push(answer.await.expect("answered"));
        }
    }
    answers
}

/// Receipts without the fields that depend on the block hash.
fn comparable(mut receipts: Value) -> Value {
    for receipt in receipts.as_array_mut().into_iter().flatten() {
        let Some(fields) = receipt.as_object_mut() else { continue };
        // The timestamp is not a field of a standard receipt; the block's is compared.
        for name in ["blockHash", "blockTimestamp", "blobGasPrice", "blobGasUsed"] {
            fields.remove(name);
        }
        for log in fields.get_mut("logs").and_then(Value::as_array_mut).into_iter().flatten() {
            log.as_object_mut().map(|log| log.remove("blockHash"));
        }
    }
    receipts
}

/// Panics on the first difference, with its path.
pub(super) fn assert_same(ours: &Value, anvil: &Value, path: &str) {
    match (ours, anvil) {
        (Value::Object(left), Value::Object(right)) => {
            for name in left.keys().chain(right.keys()) {
                assert_same(&ours[name], &anvil[name], &format!("{path}.{name}"));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                assert_same(left, right, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(ours, anvil, "{path}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs anvil: run by .ci/run"]
async fn the_same_transactions_do_the_same_on_anvil() {
    let seed = std::env::var("BARDO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0xba2d0);
    println!("BARDO_SEED={seed}");
    let mut world = TestHarness::new(seed);
    let mut pair = Pair::start().await;
    let (ours, theirs) = (pair.ours.clone(), pair.theirs.clone());
    pair.compare_genesis().await;
    for provider in [&ours, &theirs] {
        ask(provider, "anvil_setCoinbase", json!([COINBASE])).await;
        for key in &world.keys {
            ask(provider, "anvil_setBalance", json!([key.address(), "0x56bc75e2d63100000"])).await;
        }
    }

    let (mut mined, mut failed, mut refused, mut dropped) = (0, 0, 0, 0);
    let mut base_fee = GWEI;
    for number in 1..=BLOCKS {
        let mut order: Vec<usize> = (0..SENDERS).collect();
        rand::seq::SliceRandom::shuffle(order.as_mut_slice(), &mut world.random);
        order.truncate(world.random.random_range(3..=SENDERS));
        let mut sent = Vec::new();
        for (rank, who) in order.into_iter().enumerate() {
            let transaction = world.transaction(who, rank as u64, base_fee);
            let raw = json!([Bytes::from(transaction.encoded_2718())]);
            let here = ours.raw_request::<_, Value>("eth_sendRawTransaction".into(), raw.clone()).await;
            let there = theirs.raw_request::<_, Value>("eth_sendRawTransaction".into(), raw).await;
            match (here, there) {
                (Ok(here), Ok(there)) => {
                    assert_eq!(here, there, "hashes");
                    sent.push(here);
                }
                (Err(_), Err(_)) => refused += 1,
                // anvil queues transactions that no block can ever hold; go-ethereum and the devnet reject them.
                (Err(error), Ok(there)) if error.to_string().contains("minimum needed") => {
                    ask(&theirs, "anvil_dropTransaction", json!([there])).await;
                    refused += 1;
                }
                (here, there) => panic!("block {number}: {transaction:?}\nours: {here:?}\nanvil: {there:?}"),
            }
        }
        let timestamp = GENESIS_TIME + number * 12;
        for provider in [&ours, &theirs] {
            ask(provider, "evm_setNextBlockTimestamp", json!([timestamp])).await;
            ask(provider, "evm_mine", json!([])).await;
        }
        let latest = json!(["latest"]);
        let receipts = comparable(ask(&ours, "eth_getBlockReceipts", latest.clone()).await);
        let expected = comparable(ask(&theirs, "eth_getBlockReceipts", latest).await);
        assert_same(&receipts, &expected, &format!("block {number}, receipts"));
        // An authorisation may use a sender's nonce before its own transaction; neither chain can then include that
        // transaction.
        for hash in sent.iter().filter(|hash| !receipts.to_string().contains(hash.as_str().unwrap_or("?"))) {
            for provider in [&ours, &theirs] {
                ask(provider, "anvil_dropTransaction", json!([hash])).await;
            }
            dropped += 1;
        }
        let blocks = [
            ask(&ours, "eth_getBlockByNumber", json!(["latest", false])).await,
            ask(&theirs, "eth_getBlockByNumber", json!(["latest", false])).await,
        ];
        for field in [
            "baseFeePerGas",
            "gasUsed",
            "gasLimit",
            "timestamp",
            "miner",
            "logsBloom",
            "receiptsRoot",
            "transactionsRoot",
            "transactions",
            "withdrawalsRoot",
            "requestsHash",
            "difficulty",
            "excessBlobGas",
            "blobGasUsed",
        ] {
            assert_eq!(blocks[0][field], blocks[1][field], "block {number}: {field}");
        }

        for receipt in receipts.as_array().into_iter().flatten() {
            mined += 1;
            failed += usize::from(receipt["status"] != "0x1");
            for field in ["contractAddress", "to"] {
                if let Ok(Some(address)) = serde_json::from_value::<Option<Address>>(receipt[field].clone()) {
                    world.addresses.insert(address);
                }
            }
            let created = serde_json::from_value::<Option<Address>>(receipt["contractAddress"].clone()).ok().flatten();
            if receipt["status"] == "0x1" {
                world.contracts.extend(created);
            }
        }
        compare_states(&world, &ours, &theirs, number).await;
        let addresses: Vec<Address> = world.addresses.iter().copied().collect();
        pair.compare_block(number, &addresses).await;
        for (nonce, key) in world.nonces.iter_mut().zip(&world.keys) {
            let count = ask(&ours, "eth_getTransactionCount", json!([key.address()])).await;
            *nonce = serde_json::from_value::<U256>(count).expect("a number").to();
        }
        let history = ask(&ours, "eth_feeHistory", json!(["0x1", "latest", []])).await;
        base_fee = serde_json::from_value::<U256>(history["baseFeePerGas"][1].clone()).expect("a number").to();
    }
    let contracts = world.contracts.clone();
    pair.compare_calls(&contracts, world.keys[0].address()).await;
    pair.compare_accounts().await;
    pair.compare_pool().await;
    pair.compare_development(&contracts).await;
    pair.assert_complete().await;
    println!("{mined} transactions, {failed} of them failed, {refused} refused, {dropped} dropped");
    assert!(mined >= LEAST_TRANSACTIONS);
    assert!(failed >= 50 && mined - failed >= 200, "too one-sided to mean much");
}

/// Compares balances, nonces, code and written storage of every address seen.
async fn compare_states(world: &TestHarness, ours: &DynProvider, theirs: &DynProvider, number: u64) {
    let mut questions = Vec::new();
    for address in &world.addresses {
        for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"] {
            questions.push((method, json!([address, "latest"])));
        }
    }
    let writers = world.contracts.iter().chain(world.addresses.iter().take(SENDERS + 1));
    for address in writers {
        for slot in 0..SLOTS {
            questions.push(("eth_getStorageAt", json!([address, format!("{slot:#x}"), "latest"])));
        }
    }
    let here = ask_all(ours, &questions).await;
    let there = ask_all(theirs, &questions).await;
    for ((question, here), there) in questions.iter().zip(here).zip(there) {
        assert_eq!(here, there, "block {number}: {question:?}");
    }
}
