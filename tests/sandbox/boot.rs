//! Boot of both chains at once, on their threads.

use std::sync::Mutex;

use bardo::chain::network::{KnownContract, NetworkDescription};
use bardo::sandbox::genesis::StartStage;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};

use crate::world::START;

fn config() -> SandboxConfig {
    SandboxConfig {
        seed: 3,
        start_time: START,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::On,
        keeper: true,
    }
}

#[test]
fn two_boots_are_the_same_block_for_block() {
    let heads = || {
        let sandbox = Sandbox::boot(&config(), &|_| {}).unwrap();
        let mut heads = Vec::new();
        for chain in sandbox.chains() {
            heads.push(chain.devnet.head().borrow().hash);
        }
        (heads, sandbox.description())
    };
    let (mut first, mut second) = (heads(), heads());
    // Two boots differ only in their instance id.
    assert_ne!(first.1.instance.take(), second.1.instance.take());
    assert_eq!(first, second);
    assert_ne!(first.0[0], first.0[1]);
}

#[test]
fn progress_is_told_from_the_snapshot_to_the_end() {
    let told = Mutex::new(Vec::new());
    Sandbox::boot(&config(), &|progress| told.lock().unwrap().push(progress)).unwrap();
    let told = told.into_inner().unwrap();
    for chain in ["ethereum", "base"] {
        let stages: Vec<StartStage> = told.iter().filter(|news| news.chain == chain).map(|news| news.stage).collect();
        assert_eq!(stages.first(), Some(&StartStage::Snapshot));
        assert_eq!(stages.last(), Some(&StartStage::Ready));
        assert!(stages.contains(&StartStage::Past { done: 120, of: 120 }));
    }
}

#[test]
fn the_description_is_one_that_others_accept() {
    let sandbox = Sandbox::boot(&config(), &|_| {}).unwrap();
    let description = sandbox.description();
    let read = NetworkDescription::parse(&serde_json::to_string(&description).unwrap()).unwrap();
    assert_eq!(read, description);
    read.trust_as_devnet().unwrap();
    let networks = read.networks();
    assert_eq!(networks.iter().map(|network| network.chain_id).collect::<Vec<_>>(), [31337, 31338]);
    for (network, chain) in networks.iter().zip(sandbox.chains()) {
        for contract in [
            KnownContract::Permit2,
            KnownContract::Multicall3,
            KnownContract::WrappedNative,
            KnownContract::UniversalRouterV210,
            KnownContract::SwapRouter02,
            KnownContract::V2Factory,
            KnownContract::V2Router,
            KnownContract::V3Factory,
            KnownContract::V3PositionManager,
            KnownContract::QuoterV2,
            KnownContract::TickLens,
            KnownContract::V2DutchReactor,
            KnownContract::V3DutchReactor,
            KnownContract::PriorityReactor,
            KnownContract::OrderQuoter,
            KnownContract::EntryPoint,
            KnownContract::DelegationManager,
            KnownContract::Eip7702Delegator,
        ] {
            let key = contract.key();
            assert_eq!(network.book.contract(contract), Some(chain.deployment.contracts[key.as_str()]), "{key}");
        }
    }
    assert!(description.chains[0].tokens.keys().eq(["DAI", "LINK", "UNI", "USDC", "USDT", "WBTC", "WETH"]));
    assert!(description.chains[0].contracts.contains_key("badLookalikeToken"));
    assert!(description.chains[1].contracts.contains_key("allowedTargetsEnforcer"));
}

#[tokio::test]
async fn the_market_goes_on_once_booted() {
    let sandbox = Sandbox::boot(&config(), &|_| {}).unwrap();
    let chain = sandbox.chain("base").unwrap();
    let mut sent = 0;
    for _ in 0..60 {
        sent += chain.devnet.mine().await.unwrap().transactions.len();
    }
    assert!(sent > 0);
    assert!(sandbox.chain("31337").is_some() && sandbox.chain("mainnet").is_none());
}

#[tokio::test]
async fn gas_keeps_its_price_on_a_quiet_chain() {
    let sandbox =
        Sandbox::boot(&SandboxConfig { market: MarketMode::Off, keeper: false, ..config() }, &|_| {}).unwrap();
    for (name, wei) in [("ethereum", 1_000_000_000), ("base", 10_000_000)] {
        let chain = &sandbox.chain(name).unwrap().devnet;
        for _ in 0..40 {
            chain.mine().await.unwrap();
        }
        assert_eq!(chain.run(|chain| chain.next_base_fee()).await.unwrap(), wei, "{name}");
    }
}

#[test]
fn a_start_before_the_past_is_refused() {
    let error = Sandbox::boot(&SandboxConfig { start_time: 100, ..config() }, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("choose a later one"), "{error}");
}
