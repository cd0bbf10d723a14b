//! Prices from the devnet's feed contract, executed by a real EVM, with each of its faults.

use alloy::{
    consensus::{TxEip1559, TypedTransaction},
    primitives::{Address, Bytes, TxKind, U256, address, aliases::I192},
    sol_types::{SolCall, SolValue},
};
use bardo::{
    abi::feed::PriceFeed,
    base::{clock::SystemClock, text::SafeText},
    chain::{
        devnet::{ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig},
        price::{FeedPrices, FeedSpec, NoPrice, Price, PriceSource},
    },
    sandbox::contracts::{BundledContract, MULTICALL3},
};
use std::{sync::Arc, time::Duration};

const KEEPER: Address = address!("0x00000000000000000000000000000000000fee01");
const TOKEN: Address = address!("0x00000000000000000000000000000000000000aa");
const HEARTBEAT: u64 = 300;

struct TestHarness {
    devnet: Devnet,
    feed: Address,
    nonce: u64,
}

impl TestHarness {
    /// Chain with Multicall3 and one feed without an answer yet.
    async fn new() -> Self {
        let chain = ChainConfig {
            balances: vec![(KEEPER, U256::from(10).pow(U256::from(20)))],
            codes: vec![(MULTICALL3, BundledContract::Multicall3.code().unwrap())],
            ..ChainConfig::default()
        };
        let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain, running }).unwrap();
        let mut world = Self { devnet, feed: KEEPER.create(0), nonce: 0 };
        let arguments = ("ETH / USD".to_owned(), U256::from(8), KEEPER).abi_encode_params();
        world.send(TxKind::Create, BundledContract::PriceFeed.creation(&arguments).unwrap()).await;
        world
    }

    /// Sends one transaction of the keeper in its own block.
    async fn send(&mut self, to: TxKind, input: Bytes) {
        let transaction = TypedTransaction::Eip1559(TxEip1559 {
            chain_id: 31_337,
            nonce: self.nonce,
            gas_limit: 5_000_000,
            max_fee_per_gas: 20_000_000_000,
            max_priority_fee_per_gas: 1,
            to,
            input,
            ..TxEip1559::default()
        });
        self.nonce += 1;
        let receipt = self.devnet.run(move |chain| {
            let hash = chain.submit_as(KEEPER, transaction).unwrap();
            chain.mine();
            chain.transaction(hash).unwrap().receipt().unwrap().is_success()
        });
        assert!(receipt.await.unwrap(), "the keeper's transaction failed");
    }

    async fn push(&mut self, answer: i64) {
        let answer = I192::try_from(answer).unwrap();
        self.send(TxKind::Call(self.feed), PriceFeed::pushCall { answer }.abi_encode().into()).await;
    }

    async fn fault(&mut self, fault: PriceFeed::Fault, forced: i64) {
        let call = PriceFeed::setFaultCall { fault, forcedAnswer: I192::try_from(forced).unwrap() };
        self.send(TxKind::Call(self.feed), call.abi_encode().into()).await;
    }

    /// Advances time with a block.
    async fn wait(&self, seconds: u64) {
        self.devnet
            .run(move |chain| {
                chain.increase_time(seconds);
                chain.mine();
            })
            .await
            .unwrap();
    }

    async fn read_as(&self, pair: &str, decimals: u8) -> Result<Price, NoPrice> {
        let spec = FeedSpec {
            token: TOKEN,
            address: self.feed,
            pair: SafeText::clean(pair, 40),
            decimals,
            heartbeat: Duration::from_secs(HEARTBEAT),
        };
        let clock = Arc::new(SystemClock);
        let source = FeedPrices::new(self.devnet.provider(), MULTICALL3, [spec], None, None, clock);
        source.prices(&[TOKEN]).await.remove(0)
    }

    async fn read(&self) -> Result<Price, NoPrice> {
        self.read_as("ETH / USD", 8).await
    }
}

#[tokio::test]
async fn every_feed_fault_of_the_devnet_is_reported_with_its_reason() {
    let mut world = TestHarness::new().await;
    // The feed reverts before its first answer.
    assert_eq!(world.read().await, Err(NoPrice::NoAnswer));

    world.push(340_012_345_678).await;
    let price = world.read().await.unwrap();
    assert_eq!(price.usd.to_string(), "3400.12345678");
    assert_eq!(price.age, Some(Duration::ZERO));

    // A heartbeat and a quarter is the maximum age.
    world.wait(HEARTBEAT * 5 / 4 - 1).await;
    let age = world.read().await.unwrap().age.unwrap();
    assert!(age <= Duration::from_secs(375), "{age:?}");
    world.wait(10).await;
    assert!(matches!(world.read().await, Err(NoPrice::Stale { .. })));

    // Frozen: updates are dropped, so the answer keeps its age.
    world.fault(PriceFeed::Fault::Frozen, 0).await;
    world.push(350_000_000_000).await;
    assert!(matches!(world.read().await, Err(NoPrice::Stale { .. })));

    for forced in [0, -5] {
        world.fault(PriceFeed::Fault::Forced, forced).await;
        assert!(matches!(world.read().await, Err(NoPrice::NotPositive { .. })), "{forced}");
    }
    world.fault(PriceFeed::Fault::Forced, 123_456_789).await;
    assert_eq!(world.read().await.unwrap().usd.to_string(), "1.23456789");
    world.fault(PriceFeed::Fault::Broken, 0).await;
    assert_eq!(world.read().await, Err(NoPrice::NoAnswer));

    world.fault(PriceFeed::Fault::None, 0).await;
    world.push(350_000_000_000).await;
    assert_eq!(world.read().await.unwrap().usd.to_string(), "3500");
    // The contract must be the expected feed.
    assert!(matches!(world.read_as("BTC / USD", 8).await, Err(NoPrice::WrongFeed { .. })));
    assert!(matches!(world.read_as("ETH / USD", 18).await, Err(NoPrice::WrongFeed { .. })));
}
