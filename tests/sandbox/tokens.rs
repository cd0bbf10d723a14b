//! Bad tokens misbehave exactly as their names say.

use alloy::primitives::{Address, U256};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::uniswap_v2::UniswapV2Router02;
use bardo::sandbox::plan::{ETHEREUM, SandboxToken};

use crate::world::World;

const THOUSAND: u64 = 1_000_000;

fn world_with(token: SandboxToken) -> (World, Address) {
    let mut world = World::quiet(&ETHEREUM);
    let (to, at) = (world.accounts[1].address(), world.token(token));
    assert!(world.transact(1, at, OpenMint::mintCall { to, value: U256::from(THOUSAND) }).failure.is_none());
    assert_eq!(world.balance(token, to), U256::from(THOUSAND));
    (world, at)
}

fn send(world: &mut World, token: Address, value: u64) -> bool {
    let to = world.accounts[2].address();
    world.transact(1, token, Erc20::transferCall { to, value: U256::from(value) }).failure.is_none()
}

fn arrived(world: &World, token: SandboxToken) -> U256 {
    world.balance(token, world.accounts[2].address())
}

#[test]
fn a_fee_on_transfer_token_delivers_one_percent_less() {
    let (mut world, at) = world_with(SandboxToken::FeeOnTransfer);
    assert!(send(&mut world, at, 10_000));
    assert_eq!(arrived(&world, SandboxToken::FeeOnTransfer), U256::from(9_900));
}

#[test]
fn a_token_without_return_values_returns_none() {
    let (mut world, at) = world_with(SandboxToken::NoReturn);
    assert!(send(&mut world, at, 10_000));
    assert_eq!(arrived(&world, SandboxToken::NoReturn), U256::from(10_000));
    let silent = world.try_ask(at, Erc20::approveCall { spender: at, value: U256::ZERO });
    assert!(silent.is_err(), "nothing came back, so no bool can be decoded");
    let approve = |value: u64| Erc20::approveCall { spender: at, value: U256::from(value) };
    assert!(world.transact(1, at, approve(5)).failure.is_none());
    assert!(world.transact(1, at, approve(6)).failure.is_some(), "from one allowance to another only by zero");
    assert!(world.transact(1, at, approve(0)).failure.is_none());
}

#[test]
fn a_hostile_symbol_is_hostile() {
    let (world, at) = world_with(SandboxToken::HostileSymbol);
    let symbol = world.ask(at, Erc20::symbolCall {});
    assert!(symbol.contains('\u{1b}') && symbol.contains('\u{202e}'));
}

#[test]
fn a_lookalike_only_looks_alike() {
    let (world, at) = world_with(SandboxToken::Lookalike);
    let symbol = world.ask(at, Erc20::symbolCall {});
    assert_ne!(symbol, "USDC");
    assert_eq!(symbol.replace('\u{421}', "C"), "USDC");
    assert_eq!(world.ask(at, Erc20::decimalsCall {}), 6);
}

#[test]
fn a_reverting_token_never_moves() {
    let (mut world, at) = world_with(SandboxToken::Reverting);
    assert!(!send(&mut world, at, 1));
    assert_eq!(arrived(&world, SandboxToken::Reverting), U256::ZERO);
}

#[test]
fn bad_tokens_can_be_tried_in_pools_of_their_own() {
    let mut world = World::quiet(&ETHEREUM);
    let (weth, router, demo) = (world.token(SandboxToken::Weth), world.contract("v2Router"), world.demo());
    let approved = world.transact(0, weth, Erc20::approveCall { spender: router, value: U256::MAX });
    assert!(approved.failure.is_none());
    let amount = U256::from(10).pow(U256::from(16));
    for (token, works) in [
        (SandboxToken::NoReturn, true),
        (SandboxToken::HostileSymbol, true),
        (SandboxToken::Lookalike, true),
        (SandboxToken::FeeOnTransfer, true),
        (SandboxToken::Reverting, false),
    ] {
        let buy = UniswapV2Router02::swapExactTokensForTokensCall {
            amountIn: amount,
            amountOutMin: U256::ONE,
            path: vec![weth, world.token(token)],
            to: demo,
            deadline: U256::MAX,
        };
        let promised = *world
            .ask(router, UniswapV2Router02::getAmountsOutCall { amountIn: amount, path: buy.path.clone() })
            .last()
            .unwrap();
        let receipt = world.transact(0, router, buy);
        assert_eq!(receipt.failure.is_none(), works, "{token:?}");
        let got = world.balance(token, demo);
        match token {
            SandboxToken::FeeOnTransfer => {
                assert!(got < promised && got >= promised * U256::from(98) / U256::from(100))
            }
            SandboxToken::Reverting => assert_eq!(got, U256::ZERO),
            _ => assert_eq!(got, promised),
        }
    }
}
