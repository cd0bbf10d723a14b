use alloy::primitives::aliases::U24;
use alloy::primitives::hex;

use super::*;

const ME: Address = Address::repeat_byte(0xa1);
const OTHER: Address = Address::repeat_byte(0xa2);
const COIN: Address = Address::repeat_byte(0xc1);

fn key(currency0: Address) -> PoolKey {
    PoolKey {
        currency0,
        currency1: COIN,
        fee: U24::from(3_000),
        tickSpacing: I24::try_from(60).unwrap(),
        hooks: Address::ZERO,
    }
}

fn changes(currency0: Address) -> Vec<KeyedChange> {
    let token_id = U256::from(3);
    let deposit = KeyedDeposit { liquidity: 5, most: [9, 8] };
    vec![
        KeyedChange::Collect { token_id },
        KeyedChange::Remove { token_id, liquidity: 5, least: [1, 2] },
        KeyedChange::Close { token_id, least: [1, 2] },
        KeyedChange::Mint { key: key(currency0), range: TickRange::new(-600, 1_200).unwrap(), deposit },
        KeyedChange::Increase { token_id, deposit },
        KeyedChange::Compound { token_id, deposit },
    ]
}

/// Plans in a pool of two tokens, and in one of the native token.
fn plans() -> Vec<KeyedPlan> {
    let plan = |first: Address| {
        let plan = move |change| KeyedPlan { currencies: [first, COIN], change, deadline: U256::from(99) };
        changes(first).into_iter().map(plan)
    };
    plan(Address::repeat_byte(0xb1)).chain(plan(Address::ZERO)).collect()
}

/// Actions and inputs of a call.
fn steps(data: &[u8]) -> (Vec<u8>, Vec<Bytes>) {
    let call = Manager::modifyLiquiditiesCall::abi_decode(data).unwrap();
    let (actions, inputs) = <(Bytes, Vec<Bytes>)>::abi_decode_params(&call.unlockData).unwrap();
    (actions.to_vec(), inputs)
}

fn call(actions: Vec<u8>, inputs: Vec<Bytes>) -> Vec<u8> {
    let unlock = (Bytes::from(actions), inputs).abi_encode_params();
    Manager::modifyLiquiditiesCall { unlockData: unlock.into(), deadline: U256::from(99) }.abi_encode()
}

#[test]
fn a_plan_is_read_back_from_its_bytes_and_from_no_others() {
    for plan in plans() {
        let data = plan.calldata(ME);
        assert_eq!(KeyedPlan::decode(&data, ME), Ok(plan));
        let other = KeyedPlan::decode(&data, OTHER);
        match plan.change {
            // Paid to the caller, but for the native token that is swept.
            KeyedChange::Increase { .. } if !plan.currencies[0].is_zero() => assert_eq!(other, Ok(plan)),
            _ => assert_eq!(other, Err(PositionCallError::Recipient(ME)), "{plan:?}"),
        }
        let longer = [data.as_ref(), &[0]].concat();
        assert!(KeyedPlan::decode(&longer, ME).is_err(), "trailing bytes of {plan:?}");
        assert!(KeyedPlan::decode(&data[..data.len() - 1], ME).is_err());
        // The call brings what the position may take of the native token, and nothing else.
        let brings = matches!(plan.change, KeyedChange::Mint { .. } | KeyedChange::Increase { .. });
        let value = if brings && plan.currencies[0].is_zero() { 9 } else { 0 };
        assert_eq!(plan.value(), U256::from(value));
    }
    assert_eq!(KeyedPlan::decode(&[], ME), Err(PositionCallError::Unknown));
}

#[test]
fn an_action_more_or_less_or_in_another_order_is_refused() {
    let sweep: Bytes = (COIN, ME).abi_encode_params().into();
    for plan in plans() {
        let (actions, inputs) = steps(&plan.calldata(ME));
        assert_eq!(KeyedPlan::decode(&call(actions.clone(), inputs.clone()), ME), Ok(plan), "the parts as they are");
        // SETTLE, TAKE, CLEAR_OR_TAKE, SWEEP, WRAP, UNWRAP, a burn and a second of each action.
        for more in [0x0b, 0x0e, 0x13, SWEEP, 0x15, 0x16, BURN_POSITION, actions[0], actions[1]] {
            let (mut with, mut inputs) = (actions.clone(), inputs.clone());
            with.push(more);
            inputs.push(sweep.clone());
            assert!(KeyedPlan::decode(&call(with, inputs), ME).is_err(), "{more} behind {plan:?}");
        }
        let (mut less, mut fewer) = (actions.clone(), inputs.clone());
        less.pop();
        fewer.pop();
        assert!(KeyedPlan::decode(&call(less, fewer), ME).is_err(), "{plan:?} without its end");
        let (mut turned, mut other) = (actions.clone(), inputs.clone());
        turned.reverse();
        other.reverse();
        assert!(KeyedPlan::decode(&call(turned, other), ME).is_err(), "{plan:?} backwards");
        // An input without its action.
        let (actions, mut inputs) = (actions, inputs);
        inputs.push(sweep.clone());
        assert!(KeyedPlan::decode(&call(actions, inputs), ME).is_err(), "{plan:?}");
    }
}

#[test]
fn data_for_a_hook_and_other_currencies_are_refused() {
    for plan in plans() {
        let (actions, mut inputs) = steps(&plan.calldata(ME));
        let data = Bytes::from_static(&[1]);
        let token_id = U256::from(3);
        inputs[0] = match plan.change {
            KeyedChange::Collect { .. } => (token_id, U256::ZERO, 0_u128, 0_u128, data).abi_encode_params(),
            KeyedChange::Remove { .. } => (token_id, U256::from(5), 1_u128, 2_u128, data).abi_encode_params(),
            KeyedChange::Close { .. } => (token_id, 1_u128, 2_u128, data).abi_encode_params(),
            KeyedChange::Mint { key, range, .. } => {
                let tick = |tick| I24::try_from(tick).unwrap();
                let (lower, upper) = (tick(range.lower()), tick(range.upper()));
                (key, lower, upper, U256::from(5), 9_u128, 8_u128, ME, data).abi_encode_params()
            }
            KeyedChange::Increase { .. } | KeyedChange::Compound { .. } => {
                (token_id, U256::from(5), 9_u128, 8_u128, data).abi_encode_params()
            }
        }
        .into();
        assert_eq!(KeyedPlan::decode(&call(actions, inputs), ME), Err(PositionCallError::Encoding), "{plan:?}");
        if let KeyedChange::Mint { .. } = plan.change {
            let (actions, mut inputs) = steps(&plan.calldata(ME));
            inputs[1] = (plan.currencies[0], OTHER).abi_encode_params().into();
            assert_eq!(KeyedPlan::decode(&call(actions, inputs), ME), Err(PositionCallError::Encoding));
        }
    }
    // A collection has no minimums, and a pool cannot hold more liquidity than its maximum.
    let (actions, mut inputs) = steps(&plans()[0].calldata(ME));
    inputs[0] = (U256::from(3), U256::ZERO, 1_u128, 0_u128, Bytes::new()).abi_encode_params().into();
    assert_eq!(KeyedPlan::decode(&call(actions.clone(), inputs.clone()), ME), Err(PositionCallError::Encoding));
    inputs[0] = (U256::from(3), U256::MAX, 1_u128, 0_u128, Bytes::new()).abi_encode_params().into();
    assert_eq!(KeyedPlan::decode(&call(actions, inputs), ME), Err(PositionCallError::Encoding));
}

/// Words of `modifyLiquidities(bytes,uint256)` for a collection, selector `0xdd46508f`, written by hand: the offset of the
/// data and the deadline; its length of 576 bytes; two actions and two inputs.
#[test]
fn a_collection_has_the_bytes_of_the_published_interface() {
    let word = |number: u64| U256::from(number).to_be_bytes::<32>();
    let address = |of: Address| of.into_word().0;
    let mut actions = [0_u8; 32];
    actions[..2].copy_from_slice(&[0x01, 0x11]);
    let words = [
        word(0x40),
        word(99),
        word(0x240),
        // Offsets of actions and inputs.
        word(0x40),
        word(0x80),
        word(2),
        actions,
        // Two inputs, at 64 and 288 bytes from here.
        word(2),
        word(0x40),
        word(0x120),
        // Token, liquidity, minimums, and no data for a hook.
        word(0xc0),
        word(7),
        word(0),
        word(0),
        word(0),
        word(0xa0),
        word(0),
        // Both currencies and the recipient.
        word(0x60),
        address(Address::ZERO),
        address(COIN),
        address(ME),
    ];
    let data = [hex!("dd46508f").as_slice(), &words.concat()].concat();
    let plan = KeyedPlan {
        currencies: [Address::ZERO, COIN],
        change: KeyedChange::Collect { token_id: U256::from(7) },
        deadline: U256::from(99),
    };
    assert_eq!(hex::encode(plan.calldata(ME)), hex::encode(data));
}
