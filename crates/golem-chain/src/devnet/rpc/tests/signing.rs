//! Tests of accounts that the node signs for. The expected signatures come from anvil 1.7.1 with the same keys.

use alloy::consensus::TxEnvelope;
use alloy::consensus::transaction::SignerRecoverable;
use alloy::eips::Decodable2718;

use super::*;

const STRANGER: Address = Address::repeat_byte(0x99);

/// The example of <https://eips.ethereum.org/EIPS/eip-712>.
fn mail() -> Value {
    json!({
        "types": {
            "EIP712Domain": [
                { "name": "name", "type": "string" },
                { "name": "version", "type": "string" },
                { "name": "chainId", "type": "uint256" },
                { "name": "verifyingContract", "type": "address" },
            ],
            "Person": [{ "name": "name", "type": "string" }, { "name": "wallet", "type": "address" }],
            "Mail": [
                { "name": "from", "type": "Person" },
                { "name": "to", "type": "Person" },
                { "name": "contents", "type": "string" },
            ],
        },
        "primaryType": "Mail",
        "domain": {
            "name": "Ether Mail",
            "version": "1",
            "chainId": 1,
            "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
        },
        "message": {
            "from": { "name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826" },
            "to": { "name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB" },
            "contents": "Hello, Bob!",
        },
    })
}

#[tokio::test]
async fn a_sent_transaction_is_signed_with_the_senders_key() {
    let devnet = devnet(MiningMode::OnTransaction);
    let hash = ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": BOB, "value": "0x5" }])).await;
    let raw: Bytes = serde_json::from_value(ask(&devnet, "eth_getRawTransactionByHash", json!([hash])).await).unwrap();
    let envelope = TxEnvelope::decode_2718(&mut raw.as_ref()).expect("a transaction");
    assert_eq!(envelope.recover_signer().expect("a signature"), ALICE);
    assert_eq!(json!(keccak256(&raw)), hash);
    let receipt = ask(&devnet, "eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!((&receipt["status"], &receipt["from"]), (&json!("0x1"), &json!(ALICE)));
    assert_eq!(ask(&devnet, "eth_getBalance", json!([BOB])).await, "0x5");
    for method in ["eth_getRawTransactionByBlockNumberAndIndex", "eth_getRawTransactionByBlockHashAndIndex"] {
        let block = if method.contains("Hash") { receipt["blockHash"].clone() } else { json!("latest") };
        assert_eq!(ask(&devnet, method, json!([block, "0x0"])).await, json!(raw));
        assert_eq!(ask(&devnet, method, json!([block, "0x1"])).await, Value::Null);
    }
}

#[tokio::test]
async fn only_funded_development_accounts_are_listed_and_signed_for() {
    let devnet = devnet(MiningMode::OnTransaction);
    assert_eq!(ask(&devnet, "eth_accounts", json!([])).await, json!([ALICE]));
    // The mnemonic's second account has no balance here.
    let second = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
    for sender in [STRANGER, second] {
        for (method, params) in [
            ("eth_sendTransaction", json!([{ "from": sender, "to": BOB }])),
            ("eth_signTransaction", json!([{ "from": sender, "to": BOB }])),
            ("eth_sign", json!([sender, "0x12"])),
            ("personal_sign", json!(["0x12", sender])),
            ("eth_signTypedData_v4", json!([sender, mail()])),
        ] {
            let (code, message, _) = refused(&devnet, method, params).await;
            assert_eq!(code, -32602, "{method}: {message}");
            assert!(message.starts_with("No Signer available"), "{method}: {message}");
        }
    }
    // An impersonated account may send, but nothing is signed for it.
    ask(&devnet, "anvil_impersonateAccount", json!([STRANGER])).await;
    assert_eq!(ask(&devnet, "eth_accounts", json!([])).await, json!([ALICE, STRANGER]));
    ask(&devnet, "anvil_setBalance", json!([STRANGER, "0xffffffffffffffff"])).await;
    ask(&devnet, "eth_sendTransaction", json!([{ "from": STRANGER, "to": BOB }])).await;
    assert_eq!(refused(&devnet, "eth_signTransaction", json!([{ "from": STRANGER, "to": BOB }])).await.0, -32602);
}

#[tokio::test]
async fn messages_typed_data_and_transactions_get_the_signatures_anvil_gives() {
    let devnet = devnet(MiningMode::Manual);
    let expected = "0x87b638f4675a39ef49eb0379a7f5d248affd109cc6cb5b69457d7e8394d7d852\
                    74c8b407ca2b2b37ba4cc9c3bcfde488f7f59748175764b928324bd31c0f93851c";
    assert_eq!(ask(&devnet, "eth_sign", json!([ALICE, "0x1234"])).await, expected);
    assert_eq!(ask(&devnet, "personal_sign", json!(["0x1234", ALICE])).await, expected);
    let expected = "0x6ea8bb309a3401225701f3565e32519f94a0ea91a5910ce9229fe488e773584c\
                    0390416a2190d9560219dab757ecca2029e63fa9d1c2aebf676cc25b9f03126a1b";
    for data in [mail(), json!(mail().to_string())] {
        assert_eq!(ask(&devnet, "eth_signTypedData_v4", json!([ALICE, data])).await, expected);
        assert_eq!(ask(&devnet, "eth_signTypedData", json!([ALICE, data])).await, expected);
    }
    let request = json!({
        "from": ALICE, "to": BOB, "value": "0x1", "nonce": "0x2", "gas": "0x5208",
        "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x3b9aca00",
    });
    let expected = "0x02f86c827a6902843b9aca00847735940082520894b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b00180c001\
                    a038679d04918b978939e2b78196ec4ba5dba98dee508ff87420b6d465087df07b\
                    a07c52d1199bb13620b0f7c5ceff76432173854273c754fd08c0d15497028d3653";
    assert_eq!(ask(&devnet, "eth_signTransaction", json!([request])).await, expected);
    assert_eq!(ask(&devnet, "txpool_status", json!([])).await["queued"], "0x0");
    // A transaction of another chain is not signed here.
    let foreign = json!([{ "from": ALICE, "to": BOB, "chainId": "0x1" }]);
    assert!(refused(&devnet, "eth_signTransaction", foreign).await.1.contains("chain id 1"));
}

#[tokio::test]
async fn typed_data_that_is_endless_when_written_out_is_refused() {
    let devnet = devnet(MiningMode::Manual);
    let typed = |types: serde_json::Map<String, Value>| json!([ALICE, { "types": types, "primaryType": "T0", "domain": {}, "message": {} }]);
    // Each type contains the next one twice: 2^60 members.
    let member = |kind: String| json!({ "name": "a", "type": kind });
    let mut types = serde_json::Map::new();
    for index in 0..60 {
        let next = format!("T{}", index + 1);
        types.insert(format!("T{index}"), json!([member(next.clone()), member(format!("{next}[]"))]));
    }
    types.insert("T60".to_owned(), json!([member("uint256".to_owned())]));
    let (code, message, _) = refused(&devnet, "eth_signTypedData_v4", typed(types)).await;
    assert_eq!(code, -32602);
    assert!(message.contains("too many members"), "{message}");
    let ring = [("T0", "T1"), ("T1", "T0")].map(|(name, held)| (name.to_owned(), json!([member(held.to_owned())])));
    let (_, message, _) = refused(&devnet, "eth_signTypedData_v4", typed(ring.into_iter().collect())).await;
    assert!(message.contains("are recursive"), "{message}");
    let lists = [("T0".to_owned(), json!([member(format!("uint256{}", "[]".repeat(100_000)))]))];
    let (_, message, _) = refused(&devnet, "eth_signTypedData_v4", typed(lists.into_iter().collect())).await;
    assert!(message.contains("too long"), "{message}");
    for nonsense in [json!([ALICE, {}]), json!([ALICE, "{"]), json!([ALICE, { "types": 7 }]), json!([ALICE])] {
        assert_eq!(refused(&devnet, "eth_signTypedData_v4", nonsense).await.0, -32602);
    }
}
