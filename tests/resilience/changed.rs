//! Rules that change in another process after an action was previewed in this one: what holds is what holds when the
//! money is reserved.

use serde_json::json;

use bardo::engine::{ApprovalMode, CallStatus, PreviewResult, ToolCall, ToolInput};

use crate::fellow::Bench;
use crate::host::{Devnet, Home, ROOMY, run};

/// A purchase of WETH for so many USDC.
fn purchase(usdc: &str) -> serde_json::Value {
    json!({"token_in": "USDC", "token_out": "WETH", "amount": usdc, "chain": "ethereum", "prefer_uniswapx": false})
}

/// Returns the error code of a purchase of 100 dollars that is previewed here. Another process does `meanwhile` before
/// the commit. The commit must sign nothing.
async fn overtaken(policy: &str, meanwhile: impl FnOnce(&Home, &Devnet)) -> String {
    let (devnet, home) = (Devnet::start(), Home::new(policy));
    let bench = Bench::open(home.path(), Some(devnet.url())).await;
    let call = ToolCall {
        approve: Some(ApprovalMode::Always),
        ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(purchase("100")))
    };
    let PreviewResult::Held(offer) = bench.executor().offer(call).await else { panic!("no offer") };
    meanwhile(&home, &devnet);
    let (legs, usdc) = (home.count("SELECT count(*) FROM safety_leg"), devnet.balance("USDC"));
    let ended = offer.commit().await;
    assert_ne!(ended.status, CallStatus::Success, "{ended:#?}");
    assert_eq!((home.count("SELECT count(*) FROM safety_leg"), devnet.balance("USDC")), (legs, usdc));
    ended.error.unwrap().code().as_str().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_tightened_between_preview_and_commit_applies() {
    let code = overtaken(ROOMY, |home, _| {
        let tighter = format!("max_single_trade_usd = \"50\"\n{ROOMY}");
        std::fs::write(home.path().join("policy-devnet.toml"), tighter).unwrap();
    })
    .await;
    assert_eq!(code, "PERMIT_MISMATCH");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halt_by_another_process_between_preview_and_commit_applies() {
    let code = overtaken(ROOMY, |home, _| {
        assert_eq!(run(&mut home.command(&["halt", "--reason", "a test"])).code, Some(0));
    })
    .await;
    assert_eq!(code, "HALTED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_used_up_by_another_process_between_preview_and_commit_applies() {
    let capped = ROOMY.replace("max_daily_spend_usd = \"1000000\"", "max_daily_spend_usd = \"150\"");
    let code = overtaken(&capped, |home, devnet| {
        let (given, params) = (format!("ethereum={}", devnet.url()), purchase("90").to_string());
        let arguments = ["--rpc", &given, "call", "--approve", "always", "uniswap_execute_swap", &params];
        assert_eq!(run(&mut home.command(&arguments)).status(), "success");
    })
    .await;
    assert_eq!(code, "SAFETY_SPENDING_LIMIT_EXCEEDED");
}
