//! What calls bind the chain to, read back from their bytes, whatever a simulation shows today.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, Weth9};
use bardo::chain::token::Token;
use bardo::safety::calldata::read;
use bardo::safety::proposal::{Flow, Inflow, Intent, Leg, Purpose};

use crate::world::{World, leg};

const HUNDRED: u64 = 100_000_000;
const STRANGER: Address = Address::repeat_byte(0x51);

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_held_to_what_their_bytes_guarantee() {
    let world = World::new(3).await;
    let book = &world.client.network().book;
    let number = |value: u64| U256::from(value);
    let inflow = |token: &Token, at_least: u64| Inflow {
        token: token.clone(),
        at_least: number(at_least),
        expected: number(at_least),
        recipient: world.account(),
    };
    assert_eq!(read(&world.swap(HUNDRED).await, book), []);
    assert_eq!(read(&world.approval(HUNDRED), book), []);
    // The calldata would take less than is declared.
    assert_eq!(read(&world.swap_enforcing(HUNDRED, Some(number(1))).await, book).len(), 1);

    let transfer = |token: Address| -> Leg {
        leg(Purpose::Main, token, Erc20::transferCall { to: STRANGER, value: number(5) }.abi_encode().into())
    };
    let mut sent = world.proposal(Intent::Transfer, vec![transfer(world.contract_of(&world.usdc))]);
    sent.outflows = vec![Flow { token: world.usdc.clone(), amount: number(5) }];
    assert_eq!(read(&sent, book), []);
    sent.outflows[0].amount = number(4);
    assert_eq!(read(&sent, book).len(), 1);
    sent.outflows[0].amount = number(5);
    // Nothing in a transfer's bytes brings something in return.
    sent.inflows = vec![inflow(&world.weth, 1)];
    assert_eq!(read(&sent, book).len(), 1);
    // A token's call, of a contract that is none of the tokens named.
    sent.inflows.clear();
    sent.legs = vec![transfer(STRANGER)];
    assert_eq!(read(&sent, book).len(), 1);

    // Wrapping is bound by the one contract that wraps.
    let deposit = leg(Purpose::Main, world.contract_of(&world.weth), Weth9::depositCall {}.abi_encode().into());
    let mut wrapped = world.proposal(Intent::Swap, vec![Leg { value: number(7), ..deposit }]);
    wrapped.outflows = vec![Flow { token: Token::native(world.client.network()), amount: number(7) }];
    wrapped.inflows = vec![inflow(&world.weth, 7)];
    assert_eq!(read(&wrapped, book), []);
    wrapped.inflows = vec![inflow(&world.weth, 8)];
    assert_eq!(read(&wrapped, book).len(), 1);
    wrapped.legs[0].to = STRANGER;
    assert_eq!(read(&wrapped, book).len(), 1);
}
