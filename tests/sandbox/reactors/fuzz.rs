//! The fuzz entries with a bounded number of inputs: noise, and modified real encodings.

#[path = "../../../fuzz/entries.rs"]
mod entries;

use std::io::Read as _;

use alloy::consensus::TxLegacy;
use alloy::hex;
use alloy::primitives::{Address, U256, bytes};
use bardo::chain::devnet::{Chain, ChainConfig};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const INPUTS: usize = 20_000;
/// Contract that emits an empty log with topic 0x2a.
const LOGGER: Address = Address::repeat_byte(0x10);

/// Every `0x…` string and every data URI in a vector file, as bytes.
fn seeds(file: &str) -> Vec<Vec<u8>> {
    fn walk(value: &Value, found: &mut Vec<Vec<u8>>) {
        match value {
            Value::String(text) => match text.strip_prefix("0x").map(hex::decode) {
                Some(Ok(bytes)) if bytes.len() >= 64 => found.push(bytes),
                _ if text.starts_with("data:") => found.push(text.clone().into_bytes()),
                _ => {}
            },
            Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
            Value::Object(fields) => fields.values().for_each(|value| walk(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let path = format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(&serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(), &mut found);
    assert!(found.len() > 3);
    found
}

/// One input: a seed after `head` bytes of choice, changed in a few places, or plain noise.
fn input(random: &mut ChaCha8Rng, seeds: &[Vec<u8>], head: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..head).map(|_| random.random()).collect();
    if random.random_range(0..8) == 0 {
        let length = random.random_range(0..2_000);
        bytes.extend((0..length).map(|_| random.random::<u8>()));
        return bytes;
    }
    bytes.extend(seeds.choose(random).unwrap());
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.extend([0; 32]),
            // A whole word of the encoding is replaced: an offset, a length, an amount.
            4 => word(&mut bytes, head, at).fill(0xff),
            _ => {
                let small = random.random_range(0..600_u16).to_be_bytes();
                let word = word(&mut bytes, head, at);
                word.fill(0);
                if let [.., high, low] = word {
                    (*high, *low) = (small[0], small[1]);
                }
            }
        }
    }
    bytes
}

/// The 32-byte word of the encoding that contains `at`.
fn word(bytes: &mut [u8], head: usize, at: usize) -> &mut [u8] {
    let start = (head + at.saturating_sub(head) / 32 * 32).min(bytes.len());
    let end = (start + 32).min(bytes.len());
    &mut bytes[start..end]
}

fn run(seeds: &[Vec<u8>], head: usize, entry: fn(&[u8])) {
    let mut random = ChaCha8Rng::seed_from_u64(8_004);
    for _ in 0..INPUTS {
        entry(&input(&mut random, seeds, head));
    }
}

#[test]
fn no_bytes_break_the_order_decoder() {
    run(&seeds("uniswapx.json"), 9, entries::order);
}

#[test]
fn no_bytes_break_the_intent_decoder() {
    run(&seeds("erc7683.json"), 0, entries::intent);
}

#[test]
fn no_bytes_break_the_event_decoders() {
    let mut logs = Vec::new();
    for file in ["erc7683.json", "erc8004.json"] {
        let path = format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
        let had = logs.len();
        collect(&serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(), &mut logs);
        assert!(logs.len() > had, "no logs in {file}");
    }
    run(&logs, 0, entries::log);
}

/// Every object with topics and data, as the entry for logs expects it.
fn collect(value: &Value, logs: &mut Vec<Vec<u8>>) {
    if let (Some(topics), Some(data)) = (value["topics"].as_array(), value["data"].as_str()) {
        let topics = topics.iter().map(|topic| hex::decode(topic.as_str().unwrap()).unwrap());
        let topics: Vec<_> = topics.collect();
        let count = u8::try_from(topics.len()).unwrap();
        logs.push([vec![count], topics.concat(), hex::decode(data).unwrap()].concat());
    }
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, logs)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, logs)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn no_bytes_break_the_registration_reader() {
    let mut seeds = seeds("erc8004.json");
    seeds.retain(|seed| seed.starts_with(b"data:"));
    seeds.push(br#"{"type":"https://eips.ethereum.org/EIPS/eip-8004#registration-v1","services":[]}"#.to_vec());
    run(&seeds, 0, entries::registration);
}

/// A chain with a few blocks of the contents of a dump.
fn small_chain() -> Chain {
    let alice = Address::repeat_byte(0xa1);
    let config = ChainConfig {
        balances: vec![(alice, U256::MAX >> 8)],
        codes: vec![(LOGGER, bytes!("602a5f5fa1"))],
        ..ChainConfig::default()
    };
    let mut chain = Chain::new(config).unwrap();
    for nonce in 0..3 {
        let (chain_id, gas_limit, gas_price) = (Some(31_337), 100_000, 5_000_000_000);
        let transaction = TxLegacy { chain_id, nonce, gas_limit, gas_price, to: LOGGER.into(), ..Default::default() };
        chain.submit_as(alice, transaction.into()).unwrap();
        chain.mine();
    }
    chain
}

#[test]
fn no_dump_breaks_the_chain_it_is_loaded_into() {
    let dump = small_chain().dump(true).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(dump.as_slice()).read_to_end(&mut plain).unwrap();
    // A value of the header changes, which plain noise hardly ever does in JSON.
    let text = String::from_utf8(plain).unwrap();
    let mut seeds = vec![dump, text.clone().into_bytes()];
    let mut random = ChaCha8Rng::seed_from_u64(8_005);
    let figures: Vec<_> = text.match_indices(":\"0x").map(|(at, _)| at + 4).collect();
    for _ in 0..2_000 {
        let at = *figures.choose(&mut random).unwrap();
        let end = at + text[at..].find('"').unwrap();
        let figure = ["0", "1", "ffffffffffffffff", "7fffffffffffffff"].choose(&mut random).unwrap();
        seeds.push(format!("{}{figure}{}", &text[..at], &text[end..]).into_bytes());
    }
    seeds.iter().for_each(|seed| entries::dump(seed));
    for _ in 0..INPUTS / 10 {
        entries::dump(&input(&mut random, &seeds, 0));
    }
}

#[test]
fn no_bytes_break_the_reader_of_images() {
    run(&[small_chain().to_image()], 0, entries::image);
}

#[test]
fn no_answer_breaks_its_readers() {
    let encoded = seeds("uniswapx.json").into_iter().map(|seed| hex::encode_prefixed(&seed));
    let orders = encoded.map(|encoded| {
        serde_json::json!({ "requestId": "1", "orders": [{
            "type": "Dutch_V2", "encodedOrder": encoded, "signature": "0x", "nonce": "1", "orderStatus": "open",
            "orderId": format!("0x{}", "07".repeat(32)), "chainId": 31_337,
            "bestBid": {"filler": format!("0x{}", "01".repeat(20)), "name": "one", "output": "5"},
        }]})
        .to_string()
        .into_bytes()
    });
    let bid = serde_json::json!({"bids": [{"filler": format!("0x{}", "01".repeat(20)), "output": "5", "seconds": 3}]});
    let seeds: Vec<Vec<u8>> = orders.chain([bid.to_string().into_bytes()]).collect();
    run(&seeds, 0, entries::answer);
}

#[test]
fn no_quote_breaks_its_readers() {
    use alloy::primitives::{Address, B256, U256};
    use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};
    use serde_json::json;

    let [one, two] = [1, 2].map(|byte| json!({"address": Address::repeat_byte(byte), "chainId": 1}));
    let (me, router, permit2) = (Address::repeat_byte(9), Address::repeat_byte(8), Address::repeat_byte(7));
    let classic = json!({
        "routing": "CLASSIC",
        "quote": {
            "chainId": 1, "swapper": me, "tradeType": "EXACT_INPUT", "portionBips": 0,
            "input": {"token": Address::repeat_byte(1), "amount": "1000"},
            "output": {"token": Address::repeat_byte(2), "amount": "2000", "recipient": me},
            "route": [[{"type": "v3-pool", "address": Address::repeat_byte(3), "tokenIn": one, "tokenOut": two,
                        "amountIn": "1000", "amountOut": "2000"}]],
        },
        "permitData": {
            "domain": {"chainId": 1, "verifyingContract": permit2},
            "values": {
                "details": {"token": Address::repeat_byte(1), "amount": "1000", "expiration": "9", "nonce": "0"},
                "spender": router, "sigDeadline": "9",
            },
        },
    });
    let word = |address: Address| format!("{:0>64}", hex::encode(address));
    let approval = json!({"cancel": null, "approval": {
        "to": Address::repeat_byte(1), "from": me, "value": "0x00", "chainId": 1,
        "data": format!("0x095ea7b3{}{}", word(permit2), "f".repeat(64)),
    }});
    let swap = json!({"swap": {"to": router, "from": me, "value": "0x0", "chainId": 1, "data":
        "0x24856bc3000000000000000000000000000000000000000000000000000000000000004000000000000000000000000000000000000000000000000000000000000000600000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"}});
    let swaps = json!({"swaps": [{"txHash": B256::repeat_byte(4), "status": "PENDING", "swapType": "CLASSIC"}]});
    let auctions = [
        AuctionTerms::CosignedTimes,
        AuctionTerms::CosignedBlocks { over: 20, base_fee: 0, per_gwei: U256::ZERO },
        AuctionTerms::PriorityFee { start_block: 5, baseline: 0, mps_per_wei: U256::from(1) },
    ];
    let orders = auctions.map(|auction| {
        let (start_out, least_out) = match auction {
            AuctionTerms::PriorityFee { .. } => (U256::from(1_900), U256::from(1_900)),
            _ => (U256::from(2_000), U256::from(1_900)),
        };
        let draft = OrderDraft {
            reactor: Address::repeat_byte(6),
            swapper: me,
            recipient: me,
            nonce: U256::from(77),
            deadline: 1_000,
            cosigner: Address::repeat_byte(5),
            token_in: Address::repeat_byte(1),
            token_out: Address::repeat_byte(2),
            legs: OrderAmounts::ExactIn { amount_in: U256::from(1_000), start_out, least_out },
            auction,
        };
        let order = draft.order().unwrap();
        json!({"routing": order.kind().name(), "quote": {"encodedOrder": order.encode(), "orderId": order.hash()}})
    });
    // Unmodified, each is accepted by its parser, so the runs below do not only reject.
    let asked = entries::asked();
    assert!(bardo::uniswap::claim::parse(&classic["quote"], &asked).is_ok());
    assert!(
        bardo::uniswap::trading::permit(&classic["permitData"], &asked, Some(permit2), &[router]).unwrap().is_some()
    );
    assert_eq!(bardo::uniswap::trading::swaps(&swaps, &[B256::repeat_byte(4)]).unwrap().len(), 1);
    let seeds = [classic, approval, swap, swaps].into_iter().chain(orders).map(|seed| seed.to_string().into_bytes());
    run(&seeds.collect::<Vec<_>>(), 0, entries::quote);
}

/// The unmodified real encodings are parsed, so the entries above do not only reject.
#[test]
fn the_seeds_of_orders_are_orders() {
    use bardo::uniswap::order::{OrderKind, UniswapXOrder};
    let seeds = seeds("uniswapx.json");
    let read =
        seeds.iter().filter(|seed| OrderKind::ALL.into_iter().any(|kind| UniswapXOrder::decode(kind, seed).is_ok()));
    assert!(read.count() >= 10);
}
