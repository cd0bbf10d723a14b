//! Tests of writing and restoring images.

use alloy::consensus::{TxEip1559, TypedTransaction};
use alloy::eips::BlockId;
use alloy::primitives::{Address, TxKind, U256, bytes};

use super::*;

const ALICE: Address = Address::repeat_byte(0xa1);
const LOGGER: Address = Address::repeat_byte(0x10);
const REVERTER: Address = Address::repeat_byte(0x11);
const HALTER: Address = Address::repeat_byte(0x12);
/// Contract that increments slot 0.
const COUNTER: Address = Address::repeat_byte(0x13);

pub(in super::super) fn call(nonce: u64, to: TxKind, input: Bytes) -> TypedTransaction {
    TypedTransaction::Eip1559(TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 100_000,
        max_fee_per_gas: 5_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to,
        input,
        ..Default::default()
    })
}

/// A chain with everything that an image must contain: logs, both kinds of failure, a creation, storage, edits, a
/// pending transaction and travelled time.
pub(in super::super) fn eventful() -> Chain {
    let config = ChainConfig {
        balances: vec![(ALICE, U256::from(10).pow(U256::from(20)))],
        codes: vec![
            (LOGGER, bytes!("602a5f5fa100")),
            (REVERTER, bytes!("60075f5260205ffd")),
            (HALTER, bytes!("fe")),
            (COUNTER, bytes!("5f546001015f5500")),
        ],
        ..ChainConfig::default()
    };
    let mut chain = Chain::new(config).expect("a chain");
    let targets = [LOGGER, REVERTER, HALTER, COUNTER, LOGGER];
    for (nonce, to) in (0..).zip(targets) {
        chain.submit_as(ALICE, call(nonce, TxKind::Call(to), Bytes::new())).expect("accepted");
    }
    chain.submit_as(ALICE, call(5, TxKind::Create, bytes!("60fe5f5360015ff3"))).expect("accepted");
    chain.mine();
    chain.increase_time(1_000);
    chain.mine();
    chain.set_balance(Address::repeat_byte(0x77), U256::from(77));
    chain.set_storage_at(COUNTER, U256::from(9), U256::MAX);
    chain.set_impersonated(LOGGER, true);
    chain.set_next_base_fee(1_234_567_890);
    chain.submit_as(ALICE, call(6, TxKind::Call(COUNTER), Bytes::new())).expect("accepted");
    chain
}

#[test]
fn a_chain_restored_from_an_image_continues_identically() {
    let mut chain = eventful();
    let image = chain.to_image();
    let mut again = Chain::from_image(&image).expect("an image");
    assert_eq!(again.to_image(), image);
    assert_eq!(again.state().clone().root(), chain.state().clone().root());
    assert_eq!(again.state(), chain.state());
    for (left, right) in again.blocks(0, 2).zip(chain.blocks(0, 2)) {
        assert!(format!("{left:?}") == format!("{right:?}"), "block {}", left.number());
    }
    // The pending transaction, the base fee, the state and BLOCKHASH all affect the next block's hash.
    let (left, right) = (again.mine(), chain.mine());
    assert_eq!(left.hash, right.hash);
    assert_eq!((left.transactions.len(), left.header.base_fee_per_gas), (1, Some(1_234_567_890)));
    assert_eq!(again.state().storage_at(COUNTER, U256::ZERO), U256::from(2));
    assert!(again.is_impersonated(LOGGER));
    let hash = chain.block(BlockId::number(1)).expect("there").transactions[1].hash;
    let receipt = |chain: &Chain| format!("{:?}", chain.transaction(hash).expect("there").receipt());
    assert_eq!(receipt(&again), receipt(&chain));
    // A state that is not in the image is reported as missing.
    assert!(again.view(BlockId::number(1)).is_err() && chain.view(BlockId::number(1)).is_ok());
}

#[test]
fn a_damaged_image_gives_an_error_and_never_a_panic() {
    let image = eventful().to_image();
    for end in 0..image.len() {
        assert!(Chain::from_image(&image[..end]).is_err(), "{end}");
    }
    for at in 0..image.len() {
        let mut damaged = image.clone();
        damaged[at] ^= 0x55;
        // A changed byte may give another valid image; callers check the digest of an image first.
        let _either = Chain::from_image(&damaged);
    }
    let mut newer = image.clone();
    newer[0] = 2;
    assert_eq!(Chain::from_image(&newer).err(), Some(ImageError::Version { found: 2 }));
    assert!(Chain::from_image(&[image, vec![0]].concat()).is_err());
}
