//! Tests with our own dumps, and with dumps that must be refused. Tests with anvil's dumps are in `tests/chain`.

use std::io::Write as _;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::super::chain::{Chain, ChainConfig};
use super::super::image::tests::eventful;
use super::*;

fn parsed(dump: &[u8]) -> Value {
    serde_json::from_slice(&unpack(dump, MAX_JSON).expect("gzip")).expect("JSON")
}

fn packed(json: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(json).expect("written");
    encoder.finish().expect("written")
}

#[test]
fn a_dump_round_trips() {
    let chain = eventful();
    for historical_states in [false, true] {
        let dump = chain.dump(historical_states).expect("a dump");
        let mut other = Chain::new(ChainConfig { genesis_time: 1, ..ChainConfig::default() }).expect("a chain");
        other.load_dump(&dump).expect("loaded");
        assert_eq!(parsed(&other.dump(historical_states).expect("a dump")), parsed(&dump));
        assert_eq!(other.state(), chain.state());
        assert_eq!(other.state().clone().root(), chain.state().clone().root());
        assert_eq!(other.head().hash, chain.head().hash);
        for (left, right) in other.blocks(0, 2).zip(chain.blocks(0, 2)) {
            assert!(format!("{left:?}") == format!("{right:?}"), "block {}", left.number());
        }
        // Earlier states are available only if the dump contains them.
        let earlier = other.view(BlockId::number(1)).map(|view| view.state);
        assert_eq!(earlier.is_ok(), historical_states);
        if let Ok(earlier) = earlier {
            assert_eq!(earlier, chain.view(BlockId::number(1)).expect("kept").state);
        }
        // Plain JSON is accepted too.
        let mut plain = Chain::new(ChainConfig::default()).expect("a chain");
        plain.load_dump(parsed(&dump).to_string().as_bytes()).expect("loaded");
        assert_eq!(plain.head().hash, chain.head().hash);
    }
}

#[test]
fn a_loaded_dump_is_merged_as_by_anvil() {
    let mut chain = Chain::new(ChainConfig::default()).expect("a chain");
    let (kept, merged) = (Address::repeat_byte(1), Address::repeat_byte(2));
    chain.set_balance(kept, U256::from(5));
    chain.set_nonce(merged, 9);
    chain.set_code(merged, vec![0x60, 0x00].into()).expect("code");
    chain.set_storage_at(merged, U256::from(1), U256::from(11));
    chain.set_storage_at(merged, U256::from(2), U256::from(22));
    let before = chain.head().hash;
    let account = json!({"nonce": 3, "balance": "0x7", "code": "0x", "storage": {"0x2": "0x2b", "0x3": "0x2c"}});
    chain.load_dump(json!({"accounts": {merged.to_string(): account}}).to_string().as_bytes()).expect("loaded");
    let state = chain.state();
    assert_eq!((state.balance(kept), state.balance(merged), state.nonce(merged)), (U256::from(5), U256::from(7), 9));
    assert!(state.code(merged).is_empty());
    for (slot, value) in [(1, 11), (2, 43), (3, 44)] {
        assert_eq!(state.storage_at(merged, U256::from(slot)), U256::from(value));
    }
    assert_eq!(chain.head().hash, before);
    assert_eq!(chain.view(BlockId::latest()).expect("the newest").state, *chain.state());
}

#[test]
fn hostile_dumps_are_refused_and_change_nothing() {
    let good = eventful().dump(true).expect("a dump");
    let with = |change: fn(&mut Value)| {
        let mut dump = parsed(&good);
        change(&mut dump);
        packed(dump.to_string().as_bytes())
    };
    let first = |dump: &mut Value, number: u64| {
        let blocks = dump["blocks"].as_array().expect("blocks");
        blocks.iter().position(|block| block["header"]["number"] == format!("{number:#x}")).expect("a block")
    };
    let bad = [
        ("cut off", good[..good.len() / 2].to_vec(), "gzip data is damaged or truncated"),
        ("empty", Vec::new(), "not in anvil's format"),
        ("no dump", packed(b"[1, 2]"), "not in anvil's format"),
        ("deep", packed("[".repeat(100_000).as_bytes()), "not in anvil's format"),
        ("a type", with(|dump| dump["accounts"] = json!({"0x01": 1})), "not in anvil's format"),
        ("a balance", with(|dump| *account(dump, "balance") = json!("0x1".repeat(70))), "not in anvil's format"),
        ("code", with(|dump| *account(dump, "code") = json!("0xef0100")), "EIP-7702"),
        ("the newest", with(|dump| dump["best_block_number"] = json!(7)), "names block 7 as its newest block"),
        ("far away", with(|dump| dump["best_block_number"] = json!(u64::MAX)), "names block 18446744073709551615"),
        ("receipts", with(|dump| dump["transactions"] = json!([])), "not its receipt"),
    ];
    for (name, dump, expected) in bad {
        refused(name, &dump, expected);
    }
    for (field, value) in [
        ("number", "0xffffffffffffffff"),
        ("timestamp", "0xffffffffffffffff"),
        ("gasLimit", "0x0"),
        ("gasLimit", "0xffffffffffffffff"),
        ("baseFeePerGas", "0xffffffffffffffff"),
        ("gasUsed", "0xffffffffffff"),
        ("excessBlobGas", "0xffffffffffff"),
    ] {
        let mut dump = parsed(&good);
        let newest = first(&mut dump, 2);
        dump["blocks"][newest]["header"][field] = json!(value);
        if field == "number" {
            dump["best_block_number"] = json!(u64::MAX);
        }
        refused(field, &packed(dump.to_string().as_bytes()), &format!("has {field}"));
    }
    // A wrong transaction hash in the dump is ignored.
    let mut renamed = parsed(&good);
    let block = first(&mut renamed, 1);
    renamed["blocks"][block]["transactions"][0]["transaction"]["hash"] = json!(B256::repeat_byte(1));
    let mut chain = Chain::new(ChainConfig::default()).expect("a chain");
    chain.load_dump(renamed.to_string().as_bytes()).expect("loaded");
    let loaded = &chain.blocks(1, 1).next().expect("block 1").transactions[0];
    assert_eq!(
        (*loaded.envelope.tx_hash(), loaded.hash),
        (loaded.hash, eventful().blocks(1, 1).next().expect("block 1").transactions[0].hash)
    );
    // With an invalid signature the transaction cannot be loaded.
    let mut forged = parsed(&good);
    let block = first(&mut forged, 1);
    let transaction = &mut forged["blocks"][block]["transactions"][0];
    transaction["impersonated_sender"] = Value::Null;
    transaction["transaction"]["r"] = json!("0x0");
    refused("a signature", &packed(forged.to_string().as_bytes()), "cannot be loaded");
}

fn account<'a>(dump: &'a mut Value, field: &str) -> &'a mut Value {
    let accounts = dump["accounts"].as_object_mut().expect("accounts");
    &mut accounts.values_mut().next().expect("an account")[field]
}

/// Loads a dump into a chain with a history and expects an error.
fn refused(name: &str, dump: &[u8], expected: &str) {
    let mut chain = eventful();
    let before = chain.to_image();
    let error = chain.load_dump(dump).expect_err(name).to_string();
    assert!(error.contains(expected), "{name}: {error}");
    assert!(chain.to_image() == before, "{name}");
}

#[test]
fn a_small_file_that_unpacks_to_much_is_refused_before_it_is_read() {
    let bomb = packed(&vec![b' '; 4 << 20]);
    assert!(bomb.len() < 32 << 10);
    assert_eq!(unpack(&bomb, 1 << 20), Err(DumpError::TooLarge(1 << 20)));
    assert_eq!(unpack(&vec![b' '; 2 << 20], 1 << 20), Err(DumpError::TooLarge(1 << 20)));
    assert_eq!(unpack(&bomb, 4 << 20).map(|json| json.len()), Ok(4 << 20));
}

#[test]
fn of_two_blocks_at_the_same_height_the_one_with_receipts_is_used() {
    let chain = eventful();
    let mut dump = parsed(&chain.dump(false).expect("a dump"));
    let mut stray = dump["blocks"][2].clone();
    stray["header"]["extraData"] = json!("0x01");
    stray["header"]["parentHash"] = json!(B256::ZERO);
    dump["blocks"].as_array_mut().expect("blocks").push(stray);
    let blocks = dump["blocks"].as_array().expect("blocks").len();
    let mut other = Chain::new(ChainConfig::default()).expect("a chain");
    other.load_dump(dump.to_string().as_bytes()).expect("loaded");
    assert_eq!((blocks, other.blocks(0, 9).count()), (4, 3));
}
