//! Exits after a price fall, and attempts to make a sale too cheap: bent pools, a wrong feed, and both at once.
//! Expectations follow from the fall that each test makes itself.

use bardo::base::model::Phase;
use bardo::engine::{CallStatus, ToolResponse};
use bardo::golem::agent_api::AgentSession;
use bardo::sandbox::keeper::FeedFault;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::target::PricedAsset;
use serde_json::Value;

use crate::death::{bend_the_pools, fall};
use bardo_testkit::golem_harness::{GolemHarness, permit, swap};

/// The demo preset, without a practical limit on tool calls.
const DEMO: &str = "preset = \"demo\"\nmax_tool_calls_per_minute = 100000\n";

/// Previews an action and withdraws the offer.
async fn tried(golem: &AgentSession, action: Value) -> ToolResponse {
    let previewed = golem.call("preview_action", action).await;
    if previewed.status == CallStatus::Simulated {
        golem.call("cancel_action", serde_json::json!({"permit_id": permit(&previewed)["permit_id"]})).await;
    }
    previewed
}

/// Rules that the action violates.
fn rules(response: &ToolResponse) -> Vec<String> {
    let Some(error) = &response.error else { return Vec::new() };
    let told = serde_json::to_value(error).unwrap();
    let violated = told["details"]["violations"].as_array().unwrap_or_else(|| panic!("{told:#}"));
    violated.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
}

/// Swap with so little slippage that every phase accepts it.
fn sale(from: &str, to: &str, amount: &str) -> Value {
    let mut action = swap(from, to, amount);
    action["params"]["slippage_bps"] = 30.into();
    action
}

/// Lets slightly more than half a minute pass: pools and feeds keep their state.
async fn time_passes(harness: &GolemHarness) {
    for chain in harness.sandbox().chains() {
        chain.devnet.run(|chain| chain.increase_time(40)).await.unwrap();
        chain.devnet.mine().await.unwrap();
    }
}

/// Asserts that a sale of 0.2 WETH is refused because of its proceeds, and by no rules but that and those of exits.
async fn is_refused(golem: &AgentSession, why: &str) {
    let refused = tried(golem, sale("WETH", "USDC", "0.2")).await;
    assert_eq!(refused.status, CallStatus::Blocked, "{why}: {refused:#?}");
    let rules = rules(&refused);
    // A quote above what the feed justifies gets its own rule, and is refused like a loss.
    let for_its_price = |rule: &String| ["max_loss_bps", "quote_above_witnesses"].contains(&rule.as_str());
    assert!(rules.iter().any(for_its_price), "{why}: {rules:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_price_fall_exits_pass_and_entries_do_not() {
    let harness = GolemHarness::with_policy(DEMO).await;
    let golem = harness.golem("ada", "trade-executor");
    // Three and a half percent at once: the 30-minute mean is still near the old price. Further down the devnet's pools
    // are so thin that their means soon stop counting.
    fall(&harness, -35_000).await;
    time_passes(&harness).await;
    for phase in [Phase::Thriving, Phase::Cautious] {
        harness.phase.send_replace(phase);
        // By the mean, the bought token is worth more than its price: the quote is better than the mean, not a loss.
        let entries = [("USDC", "WETH", "50", "quote_above_witnesses"), ("WETH", "UNI", "0.02", "max_loss_bps")];
        for (from, to, amount, rule) in entries {
            let refused = tried(&golem, sale(from, to, amount)).await;
            assert_eq!(rules(&refused), [rule], "{phase}: {from} for {to} is no exit");
        }
    }
    for phase in [Phase::Thriving, Phase::Defensive, Phase::Survival] {
        harness.phase.send_replace(phase);
        let passes = tried(&golem, sale("WETH", "USDC", "0.2")).await;
        assert_eq!(passes.status, CallStatus::Simulated, "{phase}: {passes:#?}");
    }
    harness.phase.send_replace(Phase::Defensive);
    let previewed = golem.call("preview_action", sale("WETH", "USDC", "0.2")).await;
    let done = golem.call("commit_action", permit(&previewed)).await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn manipulated_pools_allow_no_cheap_sale() {
    let harness = GolemHarness::with_policy(DEMO).await;
    let golem = harness.golem("ada", "trade-executor");
    harness.phase.send_replace(Phase::Defensive);
    // Every pool where WETH can be sold is eight percent lower (0.96² = 0.92), and stays there.
    let others = [
        SandboxToken::Usdc,
        SandboxToken::Usdt,
        SandboxToken::Dai,
        SandboxToken::Wbtc,
        SandboxToken::Uni,
        SandboxToken::Link,
    ];
    bend_the_pools(&harness, 960, &others).await;
    time_passes(&harness).await;
    is_refused(&golem, "the feed says more").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_feed_allows_no_cheap_sale() {
    let harness = GolemHarness::with_policy(DEMO).await;
    let golem = harness.golem("ada", "trade-executor");
    harness.phase.send_replace(Phase::Defensive);
    let feed = |cents: i128| {
        harness.sandbox().chains()[0]
            .background_actors
            .set_fault(PricedAsset::Eth, FeedFault::Forced(cents * 1_000_000));
    };
    // About 3,400 less eight percent, while every pool shows 3,400; and the same above it.
    for cents in [312_800, 367_200] {
        feed(cents);
        time_passes(&harness).await;
        is_refused(&golem, "feed and pools differ").await;
    }
    // And with it every pool of the pair: other pools still show the value of WETH.
    feed(312_800);
    bend_the_pools(&harness, 960, &[SandboxToken::Usdc]).await;
    time_passes(&harness).await;
    is_refused(&golem, "the pools that are not traded in say more").await;
}
