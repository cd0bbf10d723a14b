//! The devnet from outside: its loopback server as clients see it, and a comparison with anvil.

mod differential;
mod dumps;
mod methods;
mod server;

use alloy::primitives::{Address, U256, address, bytes};
use bardo::chain::devnet::{ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig};

/// First account of the development mnemonic.
const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
/// Contract that emits an empty log with topic 0x2a.
const LOGGER: Address = Address::repeat_byte(0x10);

fn devnet(mining: MiningMode) -> Devnet {
    let chain = ChainConfig {
        balances: vec![(ALICE, U256::from(100_000_000_000_000_000_000_u128))],
        codes: vec![(LOGGER, bytes!("602a5f5fa100"))],
        ..Default::default()
    };
    Devnet::spawn(DevnetConfig { chain, running: RunningConfig { mining, clock: None, hook: None } }).expect("spawns")
}
