//! A price feed that fails, and one that repeats an old answer. Without a known price nothing is bought or sold, but
//! allowances can be revoked.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use alloy::primitives::U256;
use bardo::base::clock::Clock;
use bardo::base::error::ToolError;
use bardo::base::model::Phase;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::price::PriceChain;
use bardo::chain::sender::SenderRules;
use bardo::engine::{self, ApprovalMode, CallStatus, Catalog, ConnectedChain, Executor, ToolCall, ToolInput};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::sandbox::keeper::{FeedFault, HEARTBEAT_SECONDS};
use bardo::sandbox::target::PricedAsset;
use bardo::sandbox::{Sandbox, SandboxChain};
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled};
use bardo_testkit::harness::{TestHarness, sandbox};

/// Devnet of this file. Other tests cannot use a devnet whose feed fails.
static DEVNET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(11));

struct Fixture {
    world: TestHarness,
    executor: Executor,
    chain: &'static SandboxChain,
    _phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let sending = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let world = TestHarness::in_step(&DEVNET, 5, sending).await;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        // Permits with a lifetime beyond this test.
        let rules = ruled(&world, folder.path(), &store, "");
        let pipeline = world.pipeline_with(rules, &store, Duration::from_secs(86_400));
        let (acting, phase) = acting(&world, pipeline, ApprovalMode::Never);
        // Tools and pipeline share one clock, which follows the chain's time.
        let clock: Arc<dyn Clock> = world.clock.clone();
        let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
        let chains = vec![ConnectedChain::new(world.client.clone(), prices)];
        let seen = engine::ToolEnvironment::new(clock, Some(world.account()), chains, vec![]);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = executor(catalog, seen, world.fabric(), Some(store), Some(acting));
        Self { world, executor, chain: &DEVNET.chains()[0], _phase: phase, _folder: folder }
    }

    /// Advances time and makes a block, in which the feeds' keeper acts.
    async fn advance(&self, seconds: u64) {
        self.chain.devnet.run(move |chain| chain.increase_time(seconds)).await.unwrap();
        self.chain.devnet.mine().await.unwrap();
        self.world.clock.shift(i64::try_from(seconds * 1_000).unwrap());
    }

    /// Calls a tool; returns status, error code and the whole response as text.
    async fn call(&self, tool: &str, params: Value) -> (CallStatus, Option<&'static str>, String) {
        let response = self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await;
        let code = response.error.as_ref().map(|error: &ToolError| error.code().as_str());
        (response.status, code, format!("{response:#?}"))
    }

    /// Results of a purchase and of a sale of the native token.
    async fn trades(&self) -> Vec<(CallStatus, Option<&'static str>, String)> {
        let mut all = Vec::new();
        for (token_in, token_out, amount) in [("USDC", "WETH", "20"), ("ETH", "USDC", "0.005")] {
            let params = json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum",
                                "prefer_uniswapx": false});
            all.push(self.call("uniswap_execute_swap", params).await);
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_price_only_revocations_pass() {
    let fixture = Fixture::new().await;
    let world = &fixture.world;
    let permit2 = world.contract(KnownContract::Permit2);
    for (fault, seconds) in [(FeedFault::Broken, 30), (FeedFault::Frozen, 6 * HEARTBEAT_SECONDS)] {
        for (status, _, response) in fixture.trades().await {
            assert_eq!(status, CallStatus::Success, "while the feed works: {response}");
        }
        let allow = json!({"token": "USDC", "amount": "7", "chain": "ethereum"});
        let (status, _, response) = fixture.call("token_approve", allow).await;
        assert_eq!(
            (status, world.allowance(permit2).await),
            (CallStatus::Success, U256::from(7_000_000)),
            "{response}"
        );
        fixture.chain.background_actors.set_fault(PricedAsset::Eth, fault);
        fixture.advance(1).await;
        fixture.advance(seconds).await;
        let nonce = world.nonce().await;
        for (status, code, response) in fixture.trades().await {
            assert_eq!((status, code), (CallStatus::Blocked, Some("SAFETY_PRICE_UNKNOWN")), "{fault:?}: {response}");
        }
        assert_eq!(world.nonce().await, nonce, "nothing was sent");
        let (status, _, response) = fixture.call("token_revoke", json!({"token": "USDC", "chain": "ethereum"})).await;
        assert_eq!(status, CallStatus::Success, "{fault:?}: {response}");
        assert_eq!(world.allowance(permit2).await, U256::ZERO);
        fixture.chain.background_actors.set_fault(PricedAsset::Eth, FeedFault::None);
        fixture.advance(HEARTBEAT_SECONDS).await;
        fixture.advance(1).await;
    }
}
