//! The bytes of a Safe's call, and what its receipt must say. The chain is in `tests/pipeline/safe.rs`.

use alloy::primitives::{Address, B256, Bytes, Log, LogData, U256, address, b256, hex};
use alloy::sol_types::SolValue as _;

use super::{carries, counts, executed, execution};
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
    assert!(executed(SAFE, [&success]));
    assert!(!executed(SAFE, []), "no event");
    assert!(!executed(SAFE, [&log(TARGET, SUCCESS, 0)]), "another contract's event");
    assert!(!executed(SAFE, [&log(SAFE, FAILURE, 0)]), "a failed call");
    assert!(!executed(SAFE, [&success, &log(SAFE, FAILURE, 0)]), "one of two failed");
    assert!(!executed(SAFE, [&log(SAFE, SUCCESS, 1)]), "a refund");
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
