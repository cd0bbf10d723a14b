//! Above the hot lane: the guardian's own fork, price and reading of the policy.

use bardo::base::error::ErrorCode;
use bardo::engine::{ApprovalMode, Status};
use serde_json::json;

use crate::world::{House, swap};

/// The demo's policy with a lower hot lane, so that what is above it is still below the largest trade.
const LOW_LANE: &str = "preset = \"demo\"\n[spending_limits]\nhot_lane = \"500\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn it_agrees_with_its_own_price_and_the_operator_is_asked_all_the_same() {
    let house = House::with_policy(LOW_LANE).await;
    let golem = house.golem("ada", "trade-executor");
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.2")).await;
    assert_eq!(previewed.status, Status::Simulated, "{previewed:#?}");
    let data = previewed.data.as_ref().unwrap();
    assert_eq!(data["approval"], "approval");
    assert!(data["reasons"].to_string().contains("above the hot lane"), "{}", data["reasons"]);
    let offered = golem.call("commit_action", crate::world::permit(&previewed)).await;
    assert_eq!(offered.error.unwrap().code(), ErrorCode::ApprovalRequired);
    assert_eq!(house.acting.approve, ApprovalMode::Never);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_reads_the_policy_by_itself() {
    let house = House::with_policy(LOW_LANE).await;
    let golem = house.golem("ada", "trade-executor");
    // A policy that it alone cannot read: the pipeline goes on under the last good one, the guardian says no.
    std::fs::write(house.folder.path().join("policy-devnet.toml"), "preset = \"demo\"\nnonsense = 1\n").unwrap();
    let refused = golem.call("preview_action", swap("WETH", "USDC", "0.2")).await;
    assert_eq!(refused.status, Status::Blocked, "{refused:#?}");
    let said = serde_json::to_string(&refused.error).unwrap();
    assert!(said.contains("safety-guardian") && said.contains("nonsense"), "{said}");
    // Below the hot lane nobody needs it.
    let small = golem.call("preview_action", swap("WETH", "USDC", "0.05")).await;
    assert_eq!(small.status, Status::Simulated, "{small:#?}");
    assert_ne!(small.data.unwrap()["approval"], json!("approval"));
}
