//! The bytes of a Safe's call, and what its receipt must say. The chain is in `tests/pipeline/safe.rs`.

use alloy::primitives::{Address, B256, Bytes, Log, LogData, U256, address, b256, hex, keccak256};
use alloy::sol_types::SolValue as _;
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;

use super::transaction::check_joined;
use super::{Agreement, SafeSignatures, SafeTx, agreement, carries, counts, executed, execution, execution_with};
use crate::proposal::PlanLeg;
use crate::sample;
use crate::signing_payload::PayloadLeg;
use golem_chain::fork::{StorageWrite, ValueChange, WriteExplanation};

const SAFE: Address = Address::repeat_byte(0x5a);
const OWNER: Address = address!("0x00000000000000000000000000000000000000a1");
const TARGET: Address = address!("0x00000000000000000000000000000000000000b2");

/// Topics of `ExecutionSuccess` and `ExecutionFailure`, as block explorers show them for Safe 1.4.1.
const SUCCESS: B256 = b256!("0x442e715f626346e8c54381002da614f62bee8d27386535b2521ec8540898556e");
const FAILURE: B256 = b256!("0x23428b18acfb3ea64b08dc0c1d296ea9c09702c09083ca5272e64d115b687d23");

fn proposed() -> PlanLeg {
    PlanLeg { value: U256::from(7), ..sample::leg(TARGET, Bytes::from_static(&[1, 2, 3, 4])) }
}

fn prepared() -> PayloadLeg {
    let leg = proposed();
    PayloadLeg {
        purpose: leg.purpose,
        from: OWNER,
        to: SAFE,
        value: U256::ZERO,
        data: execution(OWNER, &leg),
        gas_limit: leg.gas_limit,
        slots: Vec::new(),
    }
}

/// The calldata, written by hand after the contract's interface: `execTransaction(address,uint256,bytes,uint8,uint256,
/// uint256,uint256,address,address,bytes)` has the selector 0x6a761202, and 1 as the last byte of a signature is an
/// agreement that the sender gives.
#[test]
fn a_call_is_plain_without_a_refund_and_agreed_to_by_its_sender() {
    let words = [
        "00000000000000000000000000000000000000000000000000000000000000b2",
        "0000000000000000000000000000000000000000000000000000000000000007",
        "0000000000000000000000000000000000000000000000000000000000000140",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000180",
        "0000000000000000000000000000000000000000000000000000000000000004",
        "0102030400000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000041",
        "00000000000000000000000000000000000000000000000000000000000000a1",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
    ];
    let expected = format!("6a761202{}", words.concat());
    assert_eq!(hex::encode(execution(OWNER, &proposed())), expected);
}

#[test]
fn only_the_plain_call_of_the_safe_carries_the_proposed_one() {
    let whole = prepared();
    assert!(carries(&whole, &proposed(), SAFE));
    // Byte 31 of the fourth argument is the operation: 1 is a delegate call. Argument 6 is the gas price, 8 the
    // receiver of a refund.
    for byte in [4 + 3 * 32 + 31, 4 + 6 * 32 + 31, 4 + 8 * 32 + 31, 4 + 31, 4 + 32 + 31, 4 + 11 * 32] {
        let mut data = whole.data.to_vec();
        data[byte] ^= 1;
        assert!(!carries(&PayloadLeg { data: data.into(), ..whole.clone() }, &proposed(), SAFE), "byte {byte}");
    }
    assert!(!carries(&PayloadLeg { to: TARGET, ..whole.clone() }, &proposed(), SAFE));
    assert!(!carries(&PayloadLeg { value: U256::ONE, ..whole.clone() }, &proposed(), SAFE));
    assert!(!carries(&PayloadLeg { from: TARGET, ..whole }, &proposed(), SAFE), "another owner's agreement");
    let itself = PlanLeg { to: SAFE, ..proposed() };
    let call = PayloadLeg { data: execution(OWNER, &itself), ..prepared() };
    assert!(!carries(&call, &itself, SAFE), "a call of the Safe itself");
}

#[test]
fn a_receipt_says_that_the_safe_executed_its_call_and_paid_nobody() {
    let log = |address, topic, payment: u64| Log {
        address,
        data: LogData::new_unchecked(vec![topic, B256::repeat_byte(1)], U256::from(payment).abi_encode().into()),
    };
    let success = log(SAFE, SUCCESS, 0);
    assert!(executed(SAFE, None, [&success]));
    assert!(!executed(SAFE, None, []), "no event");
    assert!(!executed(SAFE, None, [&log(TARGET, SUCCESS, 0)]), "another contract's event");
    assert!(!executed(SAFE, None, [&log(SAFE, FAILURE, 0)]), "a failed call");
    assert!(!executed(SAFE, None, [&success, &log(SAFE, FAILURE, 0)]), "one of two failed");
    assert!(!executed(SAFE, None, [&log(SAFE, SUCCESS, 1)]), "a refund");
    let (own, other) = (B256::repeat_byte(1), B256::repeat_byte(2));
    assert!(executed(SAFE, Some(&[other, own]), [&success]));
    assert!(!executed(SAFE, Some(&[other]), [&success]), "another transaction of the Safe");
}

/// The nonce is the sixth variable of `Safe.sol` and its bases, after the modules, the owners, two counts and the
/// contract that the proxy runs.
#[test]
fn a_simulation_may_change_a_safes_count_of_calls_and_nothing_else_of_it() {
    let write = |account, slot: u64, after: u64| StorageWrite {
        account,
        slot: U256::from(slot),
        value: ValueChange { before: U256::from(7), after: U256::from(after) },
        keys: Vec::new(),
        explained: WriteExplanation::No,
    };
    assert!(counts(SAFE, &write(SAFE, 5, 9), 2));
    assert!(!counts(SAFE, &write(SAFE, 5, 10), 2), "a call that nobody proposed");
    assert!(!counts(SAFE, &write(SAFE, 5, 8), 2), "a call that did not happen");
    assert!(!counts(SAFE, &write(TARGET, 5, 9), 2), "another contract");
    for slot in [0, 1, 2, 3, 4, 6] {
        assert!(!counts(SAFE, &write(SAFE, slot, 9), 2), "slot {slot}");
    }
}

/// The hash by the contract's formula, with the type hashes as `Safe.sol` 1.4.1 has them.
#[test]
fn a_transaction_has_the_hash_that_the_contract_computes() {
    let domain_type = b256!("0x47e79534a245952e8b16893a336b85a3d9ea9fa8c573f3d803afb92a79469218");
    let transaction_type = b256!("0xbb8310d486368db6bd6f849402fdd73ad53d316b5a4b2644ad6efe0f941286d8");
    let own = transaction();
    let nobody = Address::ZERO;
    let fields = (
        (transaction_type, own.to, own.value, keccak256(&own.data), U256::ZERO),
        (U256::ZERO, U256::ZERO, U256::ZERO, nobody, nobody, own.nonce),
    );
    let domain = keccak256((domain_type, U256::from(own.chain_id), own.safe).abi_encode());
    let content = keccak256(fields.abi_encode());
    let expected = keccak256([&[0x19, 0x01], domain.as_slice(), content.as_slice()].concat());
    assert_eq!(own.hash(), expected);
    let others = [
        SafeTx { chain_id: 1, ..own.clone() },
        SafeTx { safe: OWNER, ..own.clone() },
        SafeTx { to: OWNER, ..own.clone() },
        SafeTx { value: U256::ZERO, ..own.clone() },
        SafeTx { data: Bytes::new(), ..own.clone() },
        SafeTx { nonce: U256::ZERO, ..own.clone() },
    ];
    assert!(others.iter().all(|other| other.hash() != expected));
}

fn transaction() -> SafeTx {
    let PlanLeg { to, value, data, .. } = proposed();
    SafeTx { chain_id: 31_337, safe: SAFE, to, value, data, nonce: U256::from(3) }
}

/// Three keys, in ascending order of their addresses.
fn keys() -> Vec<PrivateKeySigner> {
    let mut keys: Vec<PrivateKeySigner> =
        (1..=3).map(|one| PrivateKeySigner::from_bytes(&B256::repeat_byte(one)).unwrap()).collect();
    keys.sort_by_key(PrivateKeySigner::address);
    keys
}

fn signed(key: &PrivateKeySigner, hash: B256) -> Bytes {
    Bytes::from(key.sign_hash_sync(&hash).unwrap().as_bytes())
}

#[test]
fn an_agreement_is_read_in_the_forms_of_the_contract() {
    let (hash, key) = (transaction().hash(), keys().remove(0));
    let by = Some(Agreement::Signed(key.address()));
    let plain = signed(&key, hash);
    assert_eq!(Agreement::read(&plain, hash), by);
    // As a message (`eth_sign`), which the contract recognises by four more in the last byte.
    let mut message = key.sign_message_sync(hash.as_slice()).unwrap().as_bytes();
    assert_ne!(Agreement::read(&message, hash), by);
    message[64] += 4;
    assert_eq!(Agreement::read(&message, hash), by);
    assert_eq!(Agreement::read(&agreement(OWNER), hash), Some(Agreement::Approved(OWNER)));
    let mut padded = agreement(OWNER);
    padded[0] = 1;
    assert_eq!(Agreement::read(&padded, hash), None);
    // A contract's signature, another version byte, another length, and the other form of the same signature.
    for v in [0, 2, 26, 29, 30, 33] {
        let mut other = plain.to_vec();
        other[64] = v;
        assert_eq!(Agreement::read(&other, hash), None, "{v}");
    }
    assert_eq!(Agreement::read(&plain[..64], hash), None);
    let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let mut high = plain.to_vec();
    let s = order - U256::from_be_slice(&high[32..64]);
    high[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    high[64] = if high[64] == 27 { 28 } else { 27 };
    assert_eq!(Agreement::read(&high, hash), None);
}

#[test]
fn signatures_of_enough_owners_are_joined_in_their_order() {
    let (hash, keys) = (transaction().hash(), keys());
    let owners: Vec<Address> = keys.iter().map(PrivateKeySigner::address).collect();
    let stranger = PrivateKeySigner::from_bytes(&B256::repeat_byte(9)).unwrap();
    let mut given = SafeSignatures::default();
    let mut add = |key: &PrivateKeySigner, hash| given.add(&[transaction().hash()], &owners, &[signed(key, hash)]);
    assert!(add(&stranger, hash).is_err(), "not an owner");
    assert!(add(&keys[2], B256::repeat_byte(1)).is_err(), "another transaction");
    assert_eq!(add(&keys[2], hash), Ok(owners[2]));
    assert_eq!(add(&keys[2], hash), Ok(owners[2]), "the same owner again");
    assert_eq!(given.owners().count(), 1);
    assert_eq!(given.joined(0, owners[1], 3), None, "two of three");
    let joined = given.joined(0, owners[1], 2).unwrap();
    assert_eq!(joined[..65], agreement(owners[1]));
    assert_eq!(joined[65..], signed(&keys[2], hash));
    assert_eq!(given.joined(1, owners[1], 2), None, "there is no second transaction");
    let two = (owners.as_slice(), U256::from(2));
    assert_eq!(check_joined(&joined, hash, two, owners[1]), Ok(vec![]));
    // What the contract would refuse as well, and what it would take from somebody else.
    let part = |at: usize| joined[at * 65..(at + 1) * 65].to_vec();
    let own = part(0);
    let [first, third] = [signed(&keys[0], hash).to_vec(), part(1)];
    let wrong = [
        ("too few", own.clone(), two, hash),
        ("too many", [first.clone(), own.clone(), third.clone()].concat(), two, hash),
        ("unsorted", [third.clone(), own.clone()].concat(), two, hash),
        ("the same twice", [own.clone(), own.clone()].concat(), two, hash),
        ("not the sender", [first, third.clone()].concat(), two, hash),
        ("another hash", joined.to_vec(), two, B256::repeat_byte(1)),
        ("not an owner", joined.to_vec(), (&owners[..2], U256::from(2)), hash),
        ("a piece", joined[..129].to_vec(), two, hash),
    ];
    for (what, joined, of, hash) in wrong {
        assert!(check_joined(&joined, hash, of, owners[1]).is_err(), "{what}");
    }
    let approved = [own, agreement(owners[2])].concat();
    assert_eq!(check_joined(&approved, hash, two, owners[1]), Ok(vec![owners[2]]), "the chain must confirm it");
    // A call with several signatures carries the proposed one, from any sender.
    let prepared = PayloadLeg { data: execution_with(&proposed(), joined), ..prepared() };
    assert!(carries(&prepared, &proposed(), SAFE));
    assert!(!carries(&prepared, &PlanLeg { value: U256::ZERO, ..proposed() }, SAFE));
}
