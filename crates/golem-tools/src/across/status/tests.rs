use alloy::primitives::{Bytes, LogData, address};

use super::*;

const POOL: Address = address!("0x00000000000000000000000000000000000000c1");
const ME: Address = address!("0x00000000000000000000000000000000000000a1");
const OTHER: Address = address!("0x00000000000000000000000000000000000000a2");
const GIVEN: Address = address!("0x00000000000000000000000000000000000000d1");
const WANTED: Address = address!("0x00000000000000000000000000000000000000d2");

fn relay(id: u64, fill_deadline: u32) -> AcrossRelay {
    AcrossRelay {
        depositor: ME.into_word(),
        recipient: ME.into_word(),
        exclusiveRelayer: B256::ZERO,
        inputToken: GIVEN.into_word(),
        outputToken: WANTED.into_word(),
        inputAmount: U256::from(1_000),
        outputAmount: U256::from(990),
        originChainId: U256::from(1),
        depositId: U256::from(id),
        fillDeadline: fill_deadline,
        exclusivityDeadline: 0,
        message: Bytes::new(),
    }
}

fn fill(paid: u64) -> FillEvent {
    FillEvent {
        relay: relay(0, 100),
        message_hash: B256::ZERO,
        kind: FillKind::Fast,
        relayer: OTHER.into_word(),
        repayment_chain_id: U256::from(1),
        paid_to: ME.into_word(),
        paid: U256::from(paid),
    }
}

fn moved(token: Address, from: Address, to: Address, value: u64) -> Log {
    Log { address: token, data: LogData::from(&Erc20::Transfer { from, to, value: U256::from(value) }) }
}

fn unwrapped(token: Address, src: Address, wad: u64) -> Log {
    Log { address: token, data: LogData::from(&Weth9::Withdrawal { src, wad: U256::from(wad) }) }
}

#[test]
fn a_fill_is_received_when_the_token_itself_says_so() {
    let of = |wrapped: Option<Address>, logs: &[Log]| received(&relay(0, 100), &fill(990), (POOL, wrapped), logs);
    let all = Some(U256::from(990));
    assert_eq!(of(None, &[moved(WANTED, OTHER, ME, 990)]), all);
    // A token with a fee, another token, another recipient, and nothing but the pool's own word.
    assert_eq!(of(None, &[moved(WANTED, OTHER, ME, 989)]), None);
    assert_eq!(of(None, &[moved(GIVEN, OTHER, ME, 990)]), None);
    assert_eq!(of(None, &[moved(WANTED, OTHER, OTHER, 990)]), None);
    assert_eq!(of(None, &[]), None);
    // The wrapped native token arrives unwrapped, once, by the pool, and of this amount.
    assert_eq!(of(Some(WANTED), &[unwrapped(WANTED, POOL, 990)]), all);
    assert_eq!(of(None, &[unwrapped(WANTED, POOL, 990)]), None, "a token that only says so");
    assert_eq!(of(Some(WANTED), &[unwrapped(WANTED, OTHER, 990)]), None);
    assert_eq!(of(Some(WANTED), &[unwrapped(WANTED, POOL, 989)]), None);
    assert_eq!(
        of(Some(WANTED), &[unwrapped(WANTED, POOL, 990), unwrapped(WANTED, POOL, 990)]),
        None,
        "of which deposit?"
    );
}

#[test]
fn a_slow_fill_brings_what_the_pool_itself_paid_and_no_more() {
    let slow = |paid: u64| FillEvent { kind: FillKind::Slow, relayer: B256::ZERO, ..fill(paid) };
    let of = |paid: u64, logs: &[Log]| received(&relay(0, 100), &slow(paid), (POOL, None), logs);
    // The part of a relayer stays with the depositor.
    assert_eq!(of(998, &[moved(WANTED, POOL, ME, 998)]), Some(U256::from(998)));
    assert_eq!(of(998, &[moved(WANTED, OTHER, ME, 998)]), None, "a stranger's transfer does not come from the pool");
    assert_eq!(of(998, &[moved(WANTED, POOL, ME, 989)]), None);
    // Another deposit that the same transaction fills is not counted here.
    let both = [moved(WANTED, POOL, ME, 998), moved(WANTED, POOL, ME, 500)];
    assert_eq!(of(998, &both), Some(U256::from(998)));
}

fn known(id: u64, fill_deadline: u32, state: DepositState) -> KnownDeposit {
    KnownDeposit {
        relay: relay(id, fill_deadline),
        destination_chain_id: 2,
        deposited: (B256::repeat_byte(1), 10 + id),
        state,
        slow_fill_asked_by: None,
        filled_by: None,
        fill_kind: None,
        relayer: None,
        received: None,
        refunded_by: None,
        remark: None,
    }
}

fn paid(amount: u64, block: u64) -> PaidBack {
    let transaction = B256::from(U256::from(block));
    PaidBack { token: GIVEN, amount: U256::from(amount), transaction, block }
}

fn allotted(mut deposits: Vec<KnownDeposit>, payments: &[PaidBack]) -> Vec<(DepositState, Option<u64>)> {
    allot(&mut deposits, payments);
    let by = |hash: B256| U256::from_be_bytes(hash.0).to::<u64>();
    deposits.iter().map(|one| (one.state, one.refunded_by.map(by))).collect()
}

/// By hand, with blocks of two seconds: three days are 129,600 blocks. A deposit of the first of them that was filled at once is filled
/// still, and not unclear.
#[test]
fn a_fill_is_looked_for_as_long_as_its_deposit_is_followed() {
    assert!(fills_from(1_000_000, 2_000) <= 1_000_000 - 129_600);
    assert_eq!(FOLLOWED_MILLIS / 2_000, 129_600);
    assert_eq!((fills_from(5, 2_000), fills_from(5, 0)), (1, 1), "a young chain");
}

/// A refund in logs that were not read is in the wallet already.
#[test]
fn what_may_have_been_paid_back_is_on_its_way_no_more() {
    use DepositState::{Expired, Filled, Pending, Refunded, Unclear};
    let mut deposits =
        vec![known(0, 300, Expired), known(1, 200, Expired), known(2, 400, Pending), known(3, 1, Filled)];
    allot(&mut deposits, &[paid(1_000, 50)]);
    doubt_expired(&mut deposits);
    let states: Vec<DepositState> = deposits.iter().map(|one| one.state).collect();
    assert_eq!(states, [Unclear, Refunded, Pending, Filled]);
    assert!(deposits[0].remark.is_some_and(|remark| remark.contains("refunds")));
}

#[test]
fn what_was_paid_back_goes_to_the_expired_in_the_order_of_their_deadlines() {
    use DepositState::{Expired, Filled, Pending, Refunded};
    let three = || vec![known(0, 300, Expired), known(1, 200, Expired), known(2, 100, Filled)];
    assert_eq!(allotted(three(), &[]), [(Expired, None), (Expired, None), (Filled, None)]);
    // One payment for one deposit: the one whose deadline came first.
    let one = allotted(three(), &[paid(1_000, 50)]);
    assert_eq!(one, [(Expired, None), (Refunded, Some(50)), (Filled, None)]);
    // One sum for both, as a data worker pays what expired together.
    let both = allotted(three(), &[paid(2_000, 50)]);
    assert_eq!(both, [(Refunded, Some(50)), (Refunded, Some(50)), (Filled, None)]);
    let two = allotted(three(), &[paid(1_000, 50), paid(1_000, 60)]);
    assert_eq!(two, [(Refunded, Some(60)), (Refunded, Some(50)), (Filled, None)]);
    // A part does not count, and is not used up by a deposit that it does not cover.
    assert_eq!(allotted(three(), &[paid(999, 50)]), [(Expired, None), (Expired, None), (Filled, None)]);
    let parts = allotted(three(), &[paid(600, 50), paid(400, 55)]);
    assert_eq!(parts, [(Expired, None), (Refunded, Some(55)), (Filled, None)]);
    // What was paid before the deposit, or in another token, is not its refund; what is open is not refunded.
    assert_eq!(allotted(vec![known(0, 300, Expired)], &[paid(1_000, 10)]), [(Expired, None)]);
    let other = PaidBack { token: WANTED, ..paid(1_000, 50) };
    assert_eq!(allotted(vec![known(0, 300, Expired)], &[other]), [(Expired, None)]);
    assert_eq!(allotted(vec![known(0, 300, Pending)], &[paid(1_000, 50)]), [(Pending, None)]);
}
