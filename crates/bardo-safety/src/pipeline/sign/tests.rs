//! Signed transactions that differ from the payload in one field: validly signed, and still rejected.

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxEnvelope, TxLegacy};
use alloy::eips::eip2930::{AccessList, AccessListItem};
use alloy::eips::eip7702::Authorization;
use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Bytes, address};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;

use super::*;
use crate::proposal::{ProposalIntent, SignatureSlot};
use crate::sample;
use crate::signing_payload::PayloadParts;
use crate::typed::TypedMessage;
use golem_chain::evm::PLACEHOLDER_SIGNATURE;
use golem_chain::permit2::{PermitDetails, PermitSingle};

const ROUTER: Address = address!("00000000000000000000000000000000000000c3");
const OTHER: Address = address!("00000000000000000000000000000000000000d4");
const NONCE: u64 = 7;
/// Offset of the signature in the calldata.
const PLACE: usize = 40;
const FEES: FeeBound = FeeBound { max_fee_per_gas: 9_000_000_000, max_priority_fee_per_gas: 500_000_000 };

fn key(byte: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(byte)).unwrap()
}

fn message() -> TypedMessage {
    let permit = PermitSingle {
        details: PermitDetails { token: OTHER, amount: U160::from(1), expiration: U48::from(2), nonce: U48::from(3) },
        spender: ROUTER,
        sigDeadline: alloy::primitives::U256::from(4),
    };
    TypedMessage::Permit2Allowance { permit2: OTHER, permit }
}

/// A call whose calldata has one signature slot of the key.
fn framed() -> SigningPayload {
    let mut data = vec![0x5a; 120];
    data[PLACE..PLACE + SIGNATURE_BYTES].copy_from_slice(&PLACEHOLDER_SIGNATURE);
    let mut leg = sample::leg(ROUTER, data);
    leg.slots = vec![SignatureSlot { offset: PLACE, message: message() }];
    let frame: PayloadParts = sample::frame(sample::proposal(key(1).address(), ProposalIntent::Swap, leg));
    SigningPayload::new(frame).unwrap()
}

/// The payload's calldata with this key's signature over `digest` in its slot.
fn data(signer: &PrivateKeySigner, digest: B256) -> Vec<u8> {
    let mut data = framed().legs()[0].data.to_vec();
    data[PLACE..PLACE + SIGNATURE_BYTES].copy_from_slice(&signer.sign_hash_sync(&digest).unwrap().as_bytes());
    data
}

/// The expected transaction.
fn wanted() -> TxEip1559 {
    TxEip1559 {
        chain_id: 31_337,
        nonce: NONCE,
        gas_limit: 200_000,
        max_fee_per_gas: FEES.max_fee_per_gas,
        max_priority_fee_per_gas: FEES.max_priority_fee_per_gas,
        to: TxKind::Call(ROUTER),
        value: Default::default(),
        access_list: AccessList::default(),
        input: data(&key(1), message().digest(31_337)).into(),
    }
}

fn signed<T: SignableTransaction<Signature>>(transaction: T, key: &PrivateKeySigner) -> SignedTransaction
where
    TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signature = key.sign_hash_sync(&transaction.signature_hash()).unwrap();
    SignedTransaction::new(TxEnvelope::from(transaction.into_signed(signature))).unwrap()
}

fn looked(signed: &SignedTransaction) -> Result<(), &'static str> {
    as_framed(&framed(), 0, NONCE, FEES, signed)
}

#[test]
fn only_the_transaction_of_the_payload_is_stored() {
    assert_eq!(looked(&signed(wanted(), &key(1))), Ok(()));
    assert_eq!(looked(&signed(wanted(), &key(2))), Err("another account signed"));
    assert_eq!(as_framed(&framed(), 1, NONCE, FEES, &signed(wanted(), &key(1))), Err("there is no such transaction"));
    type Other = (&'static str, fn(&mut TxEip1559));
    let others: &[Other] = &[
        ("another chain", |one| one.chain_id = 1),
        ("another nonce", |one| one.nonce = 8),
        ("another target", |one| one.to = TxKind::Call(OTHER)),
        ("another target", |one| one.to = TxKind::Create),
        ("another value", |one| one.value = alloy::primitives::U256::from(1)),
        ("another gas limit", |one| one.gas_limit += 1),
        ("other fees", |one| one.max_fee_per_gas += 1),
        ("another priority fee", |one| one.max_priority_fee_per_gas -= 1),
        ("an access list", |one| one.access_list = list()),
        ("calldata of another length", |one| one.input = [one.input.as_ref(), &[0]].concat().into()),
        ("other calldata", |one| one.input = changed(&one.input, 0)),
        ("other calldata", |one| one.input = changed(&one.input, PLACE + SIGNATURE_BYTES)),
        ("a signature of another account in the calldata", |one| {
            one.input = data(&key(2), message().digest(31_337)).into();
        }),
        ("a signature of another account in the calldata", |one| {
            one.input = data(&key(1), message().digest(1)).into();
        }),
        ("a broken signature in the calldata", |one| one.input = framed().legs()[0].data.clone()),
    ];
    for (why, change) in others {
        let mut other = wanted();
        change(&mut other);
        assert_eq!(looked(&signed(other, &key(1))), Err(*why));
    }
}

fn list() -> AccessList {
    AccessList(vec![AccessListItem { address: OTHER, storage_keys: vec![] }])
}

/// The same bytes with one bit flipped.
fn changed(input: &Bytes, at: usize) -> Bytes {
    let mut input = input.to_vec();
    input[at] ^= 1;
    input.into()
}

#[test]
fn a_transaction_with_more_than_a_call_is_not_stored() {
    let TxEip1559 { chain_id, nonce, gas_limit, max_fee_per_gas, max_priority_fee_per_gas, value, input, .. } =
        wanted();
    let delegates = TxEip7702 {
        chain_id,
        nonce,
        gas_limit,
        max_fee_per_gas,
        max_priority_fee_per_gas,
        to: ROUTER,
        value,
        access_list: AccessList::default(),
        authorization_list: vec![
            Authorization { chain_id: alloy::primitives::U256::from(chain_id), address: OTHER, nonce: 8 }
                .into_signed(Signature::test_signature()),
        ],
        input: input.clone(),
    };
    assert_eq!(looked(&signed(delegates, &key(1))), Err("a delegation"));
    let blobs = TxEip4844 {
        chain_id,
        nonce,
        gas_limit,
        max_fee_per_gas,
        max_priority_fee_per_gas,
        to: ROUTER,
        value,
        access_list: AccessList::default(),
        blob_versioned_hashes: vec![B256::repeat_byte(1)],
        max_fee_per_blob_gas: 1,
        input: input.clone(),
    };
    assert_eq!(looked(&signed(blobs, &key(1))), Err("blobs"));
    // A single gas price does not bound base fee and tip separately.
    let (gas_price, to) = (max_fee_per_gas, TxKind::Call(ROUTER));
    let old = TxLegacy { chain_id: Some(chain_id), nonce, gas_price, gas_limit, to, value, input: input.clone() };
    assert_eq!(looked(&signed(old, &key(1))), Err("another priority fee"));
    let older = TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, access_list: list(), input };
    assert_eq!(looked(&signed(older, &key(1))), Err("another priority fee"));
}

#[test]
fn leave_to_sign_is_given_within_the_frames_fees_only() {
    let bound = framed().fees();
    let leave = |max_fee_per_gas, max_priority_fee_per_gas| {
        Capability::new(framed(), 0, NONCE, FeeBound { max_fee_per_gas, max_priority_fee_per_gas }).is_some()
    };
    let (fee, tip) = (bound.max_fee_per_gas, bound.max_priority_fee_per_gas);
    assert!(leave(fee, tip) && leave(tip, tip));
    assert!(!leave(fee + 1, tip), "more than a unit of gas may cost");
    assert!(!leave(fee, tip + 1), "more for whoever makes the block");
    assert!(!leave(tip - 1, tip), "a part that is more than the whole");
    assert!(Capability::new(framed(), 1, NONCE, bound).is_none(), "a transaction that is not there");
}
