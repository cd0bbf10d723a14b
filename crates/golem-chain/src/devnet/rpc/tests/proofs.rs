//! Tests of proofs; alloy verifies them for the state root in the block's header.

use alloy::rpc::types::EIP1186AccountProofResponse;
use alloy_trie::proof::verify_proof;
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieAccount};

use super::*;

/// Verifies a proof for `root` like a light client; `exists` says whether the account exists.
fn verify(root: B256, proof: &EIP1186AccountProofResponse, exists: bool) {
    let leaf = TrieAccount::new(proof.nonce, proof.balance, proof.storage_hash, proof.code_hash);
    let expected = exists.then(|| alloy::rlp::encode(leaf));
    verify_proof(root, Nibbles::unpack(keccak256(proof.address)), expected, &proof.account_proof).expect("account");
    for slot in &proof.storage_proof {
        let expected = (!slot.value.is_zero()).then(|| alloy::rlp::encode(slot.value));
        let key = Nibbles::unpack(keccak256(slot.key.as_b256()));
        // An empty root has no proof nodes.
        if proof.storage_hash == EMPTY_ROOT_HASH {
            assert!(slot.proof.is_empty() && slot.value.is_zero());
        } else {
            verify_proof(proof.storage_hash, key, expected, &slot.proof).expect("slot");
        }
    }
}

#[tokio::test]
async fn accounts_and_slots_are_proven_against_the_blocks_state_root() {
    let devnet = devnet(MiningMode::OnTransaction);
    for slot in 0..50_u64 {
        let value = B256::from(U256::from(slot + 1) << (slot * 4));
        ask(&devnet, "anvil_setStorageAt", json!([LOGGER, U256::from(slot), value])).await;
    }
    ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": BOB, "value": "0x5" }])).await;
    ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": LOGGER }])).await;
    let absent = Address::repeat_byte(0x77);
    let slots = json!(["0x0", "0x31", "0x32", B256::with_last_byte(7)]);
    for (block, height) in [("0x1", 1), ("0x2", 2)] {
        let header = ask(&devnet, "eth_getHeaderByNumber", json!([block])).await;
        let root: B256 = serde_json::from_value(header["stateRoot"].clone()).expect("a root");
        for (who, exists) in [(ALICE, true), (BOB, true), (LOGGER, true), (REVERTER, true), (absent, false)] {
            let answer = ask(&devnet, "eth_getProof", json!([who, slots, block])).await;
            let proof: EIP1186AccountProofResponse = serde_json::from_value(answer.clone()).expect("a proof");
            verify(root, &proof, exists);
            let nonce = if who == ALICE { height } else { u64::from(who == LOGGER || who == REVERTER) };
            assert_eq!(proof.nonce, nonce, "{who}");
            // Keys are returned in the form in which they were given.
            let keys = answer["storageProof"].as_array().expect("slots").iter().map(|slot| slot["key"].clone());
            assert_eq!(Value::from_iter(keys), slots);
        }
    }
    let answer = ask(&devnet, "eth_getProof", json!([LOGGER, ["0x31"], "latest"])).await;
    assert_eq!(answer["storageProof"][0]["value"], json!(U256::from(50) << 196));
    let many: Vec<String> = (0..1_025).map(|slot| format!("{slot:#x}")).collect();
    assert_eq!(refused(&devnet, "eth_getProof", json!([LOGGER, many, "latest"])).await.0, -32602);
    assert_eq!(refused(&devnet, "eth_getProof", json!([LOGGER, ["0xzz"], "latest"])).await.0, -32602);
    assert_eq!(refused(&devnet, "eth_getProof", json!([LOGGER, [], "0x99"])).await.0, -32000);
}

#[tokio::test]
async fn a_header_has_the_blocks_hash_and_no_body_fields() {
    let devnet = devnet(MiningMode::OnTransaction);
    ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": BOB, "value": "0x5" }])).await;
    let header = ask(&devnet, "eth_getHeaderByNumber", json!(["latest"])).await;
    let parsed: alloy::rpc::types::Header = serde_json::from_value(header.clone()).expect("a header");
    assert_eq!(parsed.inner.hash_slow(), parsed.hash);
    assert_eq!(ask(&devnet, "eth_getHeaderByHash", json!([parsed.hash])).await, header);
    for field in ["transactions", "uncles", "size", "totalDifficulty"] {
        assert_eq!(header[field], Value::Null, "{field}");
    }
    assert_eq!(ask(&devnet, "eth_getHeaderByHash", json!([B256::ZERO])).await, Value::Null);
    assert_eq!(ask(&devnet, "eth_getHeaderByNumber", json!(["0x99"])).await, Value::Null);
}
