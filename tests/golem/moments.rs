//! What the shows trade has room to every limit of the demo policy whenever it comes: a market that has moved meanwhile
//! refuses none of it, and lets nobody be asked who was not to be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy::primitives::U256;
use bardo::base::clock::Clock;
use bardo::engine::{ApprovalMode, Status};
use bardo::golem::scenario::{self, Beat};
use bardo::sandbox::faucet::Gift;
use bardo::sandbox::plan::Token;
use bardo::sandbox::{MarketMode, Pace, SandboxConfig};
use serde_json::{Value, json};

use crate::world::House;

/// The market's longest wave is furthest out at every multiple of this age, in seconds, and the shortest as well.
const APART: u64 = 900;

/// So many of them are looked at: two hours.
const MOMENTS: u64 = 8;

/// The demo's policy with a little less than it lets be lost, so that what passes here has room there.
const TIGHTER: &str = "preset = \"demo\"\nmax_loss_bps = 190\nmax_tool_calls_per_minute = 100000\n";

/// A clock that only the test moves.
#[derive(Debug)]
struct Moved(AtomicU64);

impl Clock for Moved {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Lets so many seconds pass, in blocks as they come while the devnet's own past is made.
async fn pass(house: &House, clock: &Moved, seconds: u64) {
    const STEP: u64 = 20;
    for _ in 0..seconds / STEP {
        clock.0.fetch_add(STEP * 1_000, Ordering::SeqCst);
        for chain in house.sandbox().chains() {
            chain.devnet.mine().await.unwrap();
        }
    }
}

/// Every trade that is to succeed in some show, each once, by the words of its parameters.
fn trades() -> BTreeMap<String, Value> {
    let trades = |beat: &Beat| {
        let kind = beat.params["kind"].as_str().unwrap_or_default();
        let ends_well = beat.expect.iter().any(|end| end == "success" || end == "PERMIT_MISMATCH");
        let meant = beat.does.as_deref() == Some("act") && ends_well && ["swap", "auction", "bridge"].contains(&kind);
        meant.then(|| (beat.params["params"].to_string(), json!({"kind": kind, "params": beat.params["params"]})))
    };
    let shows: Vec<_> = scenario::names().map(|name| scenario::find(name).unwrap()).collect();
    shows.iter().flat_map(|show| show.beats.iter().chain(&show.later)).filter_map(trades).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_a_show_trades_the_policy_has_room_for_it() {
    let trades = trades();
    assert!(trades.len() >= 15, "{trades:#?}");
    let clock = Arc::new(Moved(AtomicU64::new(1_800_000_000_000)));
    let sandbox = SandboxConfig {
        // The seed of a show where nobody says otherwise.
        seed: 0,
        start_time: clock.now_seconds(),
        // Blocks are made by the test alone, on a chain that makes some.
        pace: Pace::Every(Duration::from_secs(365 * 86_400)),
        clock: Some(clock.clone()),
        market: MarketMode::On,
        keeper: true,
    };
    let house = House::on(sandbox, TIGHTER, ApprovalMode::Never, clock.clone()).await.with_orders();
    let account = house.world.account.unwrap();
    // What a show has bought or carried over before it sells it there.
    for (chain, token, raw) in [
        (0, Token::Uni, 50_000_000_000_000_000_000_u128),
        (0, Token::Link, 50_000_000_000_000_000_000),
        (1, Token::Usdc, 1_000_000_000),
    ] {
        let chain = &house.sandbox().chains()[chain];
        let (residents, gift) = (chain.residents.clone(), Gift::Token(token, U256::from(raw)));
        chain.devnet.run(move |chain| residents.give(chain, account, gift).unwrap()).await.unwrap();
    }
    let golem = house.golem("ada", "trade-executor");
    for moment in 1..=MOMENTS {
        pass(&house, &clock, APART).await;
        for (what, action) in &trades {
            let looked = golem.call("preview_action", action.clone()).await;
            assert_eq!(looked.status, Status::Simulated, "{moment}: {what}: {:#?}", looked.error);
            // Above the thousand dollars of the policy are those of the shows that tell of a decision.
            let asks = action["params"]["amount"] == "0.36";
            let data = looked.data.unwrap();
            assert_eq!(data["approval"] == "approval", asks, "{moment}: {what}: {data:#}");
            golem.take_back_all().await;
        }
    }
}
