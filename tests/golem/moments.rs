//! Trades of the scenarios are within every limit of the demo policy at any time: market movement neither blocks one
//! nor causes an unplanned approval request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy::primitives::U256;
use bardo::base::clock::Clock;
use bardo::engine::{ApprovalMode, CallStatus};
use bardo::golem::scenario::{self, ScenarioStep};
use bardo::sandbox::faucet::FaucetAsset;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use serde_json::{Value, json};

use bardo_testkit::golem_harness::GolemHarness;

/// The market's longest wave peaks at every multiple of this age, in seconds, and so does the shortest.
const APART: u64 = 900;

/// Number of tested multiples: two hours.
const MOMENTS: u64 = 8;

/// The demo preset with a slightly lower loss limit, so that trades that pass here have a margin.
const TIGHTER: &str = "preset = \"demo\"\nmax_loss_bps = 190\nmax_tool_calls_per_minute = 100000\n";

/// Clock that only the test advances.
#[derive(Debug)]
struct Moved(AtomicU64);

impl Clock for Moved {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Lets this many seconds pass, with blocks as in the devnet's generated past.
async fn pass(harness: &GolemHarness, clock: &Moved, seconds: u64) {
    const STEP: u64 = 20;
    for _ in 0..seconds / STEP {
        clock.0.fetch_add(STEP * 1_000, Ordering::SeqCst);
        for chain in harness.sandbox().chains() {
            chain.devnet.mine().await.unwrap();
        }
    }
}

/// Every trade that must succeed in a scenario, once, by its parameters.
fn trades() -> BTreeMap<String, Value> {
    let trades = |beat: &ScenarioStep| {
        let kind = beat.params["kind"].as_str().unwrap_or_default();
        let ends_well = beat.expect.iter().any(|end| end == "success" || end == "PERMIT_MISMATCH");
        let meant = beat.does.as_deref() == Some("act") && ends_well && ["swap", "auction", "bridge"].contains(&kind);
        meant.then(|| (beat.params["params"].to_string(), json!({"kind": kind, "params": beat.params["params"]})))
    };
    let shows: Vec<_> = scenario::names().map(|name| scenario::find(name).unwrap()).collect();
    shows.iter().flat_map(|show| show.steps.iter().chain(&show.later)).filter_map(trades).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_a_show_trades_the_policy_has_room_for_it() {
    let trades = trades();
    assert!(trades.len() >= 15, "{trades:#?}");
    let clock = Arc::new(Moved(AtomicU64::new(1_800_000_000_000)));
    let sandbox = SandboxConfig {
        // Default seed of a scenario.
        seed: 0,
        start_time: clock.now_seconds(),
        // Only the test makes blocks, on a chain that has an interval.
        pace: BlockPace::Every(Duration::from_secs(365 * 86_400)),
        clock: Some(clock.clone()),
        market: MarketMode::On,
        keeper: true,
    };
    let harness = GolemHarness::on(sandbox, TIGHTER, ApprovalMode::Never, clock.clone()).await.with_orders();
    let account = harness.world.account.unwrap();
    // Tokens that a scenario buys, bridges or borrows before it sells them.
    for (chain, token, raw) in [
        (0, SandboxToken::Uni, 50_000_000_000_000_000_000_u128),
        (0, SandboxToken::Link, 50_000_000_000_000_000_000),
        (0, SandboxToken::Wbtc, 850_000),
        (1, SandboxToken::Usdc, 1_000_000_000),
    ] {
        let chain = &harness.sandbox().chains()[chain];
        let (background_actors, gift) = (chain.background_actors.clone(), FaucetAsset::Token(token, U256::from(raw)));
        chain.devnet.run(move |chain| background_actors.give(chain, account, gift).unwrap()).await.unwrap();
    }
    let golem = harness.golem("ada", "trade-executor");
    for moment in 1..=MOMENTS {
        pass(&harness, &clock, APART).await;
        for (what, action) in &trades {
            let looked = golem.call("preview_action", action.clone()).await;
            assert_eq!(looked.status, CallStatus::Simulated, "{moment}: {what}: {:#?}", looked.error);
            // Only scenarios about decisions exceed the policy's thousand dollars.
            let asks = action["params"]["amount"] == "0.36";
            let data = looked.data.unwrap();
            assert_eq!(data["approval"] == "approval", asks, "{moment}: {what}: {data:#}");
            golem.withdraw_offers().await;
        }
    }
}
