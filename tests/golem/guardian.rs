//! Above the hot lane: the guardian's own fork, prices and reading of the policy.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::error::ErrorCode;
use bardo::base::units::{Rounding, Usd};
use bardo::chain::price::{NoPrice, Price, PriceChain, PriceResult, PriceSource};
use bardo::engine::{ApprovalMode, CallStatus, PreviewResult, ToolCall, ToolInput};
use bardo::sandbox::plan::SandboxToken;
use futures::future::BoxFuture;
use serde_json::json;

use bardo_testkit::golem_harness::{GolemHarness, swap};

/// The demo preset with a lower hot lane, so that amounts above it are still below the largest trade.
const LOW_LANE: &str = "preset = \"demo\"\n[spending_limits]\nhot_lane = \"500\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_is_asked_although_the_guardian_agrees() {
    let harness = GolemHarness::with_policy(LOW_LANE).await;
    let golem = harness.golem("ada", "trade-executor");
    let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.2")).await;
    assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
    let data = previewed.data.as_ref().unwrap();
    assert_eq!(data["approval"], "approval");
    assert!(data["reasons"].to_string().contains("needs a second opinion"), "{}", data["reasons"]);
    let offered = golem.call("commit_action", bardo_testkit::golem_harness::permit(&previewed)).await;
    assert_eq!(offered.error.unwrap().code(), ErrorCode::ApprovalRequired);
    assert_eq!(harness.acting.approve, ApprovalMode::Never);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guardian_reads_the_policy_itself() {
    let harness = GolemHarness::with_policy(LOW_LANE).await;
    let golem = harness.golem("ada", "trade-executor");
    // A policy that only the guardian cannot read: the pipeline continues with the last valid one, the guardian
    // objects.
    std::fs::write(harness.folder.path().join("policy-devnet.toml"), "preset = \"demo\"\nnonsense = 1\n").unwrap();
    let refused = golem.call("preview_action", swap("WETH", "USDC", "0.2")).await;
    assert_eq!(refused.status, CallStatus::Blocked, "{refused:#?}");
    let said = serde_json::to_string(&refused.error).unwrap();
    assert!(said.contains("safety-guardian") && said.contains("nonsense"), "{said}");
    // Below the hot lane it is not needed.
    let small = golem.call("preview_action", swap("WETH", "USDC", "0.05")).await;
    assert_eq!(small.status, CallStatus::Simulated, "{small:#?}");
    assert_ne!(small.data.unwrap()["approval"], json!("approval"));
}

/// A supply turns the token into a record of the market, which no flow declares; the guardian compares it with the calldata
/// instead of calling it a loss.
#[tokio::test(flavor = "multi_thread")]
async fn the_guardian_agrees_to_a_supply_above_the_hot_lane() {
    let harness = GolemHarness::with_policy(LOW_LANE).await;
    let params = json!({"token": "WETH", "amount": "0.2", "chain": "ethereum"});
    let call = ToolCall::new("lending_supply", ToolInput::Json(params));
    let offer = match harness.executor("ada", "trade-executor").offer(call).await {
        PreviewResult::Held(offer) => offer,
        PreviewResult::Over(response) => panic!("{response:#?}"),
    };
    let opinion = offer.preview().opinion.clone().expect("it is above the hot lane");
    assert!(opinion.agrees, "{opinion:?}");
    offer.withdraw().await;
}

/// Price source that reports slightly lower prices, which are not obviously wrong.
#[derive(Debug)]
struct Lower(PriceChain);

impl PriceSource for Lower {
    fn name(&self) -> &'static str {
        "lower"
    }

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<PriceResult>> {
        Box::pin(async move {
            let lower = |price: Price| {
                let scaled = U256::from(price.usd.scaled(8, Rounding::Down).unwrap()) * U256::from(985);
                Price { usd: Usd::from_scaled(scaled / U256::from(1_000), 8).unwrap(), ..price }
            };
            let told = self.0.prices(tokens).await.into_iter();
            told.map(|report| report.price.map(lower).ok_or(NoPrice::UnknownToken)).collect()
        })
    }
}

/// A fault of the pipeline's price sources does not affect the guardian's: they share none.
#[tokio::test(flavor = "multi_thread")]
async fn the_guardian_has_its_own_price_sources() {
    let harness = GolemHarness::told(LOW_LANE, |prices| PriceChain::new(vec![Arc::new(Lower(prices))])).await;
    let params = swap("WETH", "USDC", "0.2")["params"].clone();
    let call = ToolCall::new("uniswap_execute_swap", ToolInput::Json(params));
    let offer = match harness.executor("ada", "trade-executor").offer(call).await {
        PreviewResult::Held(offer) => offer,
        PreviewResult::Over(response) => panic!("{response:#?}"),
    };
    let opinion = offer.preview().opinion.clone().expect("it is above the hot lane");
    let (chain, clock): (_, Arc<dyn Clock>) = (&harness.world.chains()[0], Arc::new(SystemClock));
    let honest = PriceChain::for_chain(&chain.client, &Default::default(), clock).unwrap();
    let cents = async |prices: &PriceChain| {
        let price = prices.price(harness.address(SandboxToken::Weth)).await.unwrap();
        // To the nearest cent, from tenths of a cent.
        let tenths: u64 = price.usd.to_fixed(3, Rounding::Down).replace('.', "").parse().unwrap();
        let cents = (tenths + 5) / 10;
        let plain = format!("{}.{:02}", cents / 100, cents % 100);
        // Thousands are grouped: 3383.56 is 3,383.56.
        let (thousands, rest) = plain.split_at(plain.len() - 6);
        format!("own WETH price ${thousands},{rest}")
    };
    let (wanted, told) = (cents(&honest).await, cents(&chain.prices).await);
    assert_ne!(wanted, told);
    assert!(opinion.agrees && opinion.why.as_str().contains(&wanted), "{wanted}, and not {told}: {opinion:?}");
    offer.withdraw().await;
}
