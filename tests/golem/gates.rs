//! Gates of the phases, through the whole pipeline: every phase with every class of action, and each limit of a phase,
//! shown to block and to let pass. Expectations are copied from the documents.

use alloy::network::TransactionBuilder as _;
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::error::ErrorCode;
use bardo::base::model::Phase;
use bardo::engine::{CallStatus, ToolResponse};
use bardo::golem::agent_api::AgentSession;
use bardo::sandbox::plan::SandboxToken;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use bardo_testkit::golem_harness::{GolemHarness, permit};

const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
pub const PHASES: [Phase; 5] = [Phase::Thriving, Phase::Cautious, Phase::Defensive, Phase::Survival, Phase::Terminal];

/// The demo preset with the phases' own limits, and no other limit that would interfere.
pub const WIDE: &str = "preset = \"demo\"\n\
    max_single_trade_usd = \"1000000\"\nmax_daily_spend_usd = \"9000000\"\nmax_monthly_spend_usd = \"9000000\"\n\
    require_human_approval_above_usd = \"none\"\nmax_tool_calls_per_minute = 100000\nmax_slippage_bps = 2000\n\
    max_price_impact_bps = 2000\nmax_loss_bps = 3000\nmax_position_size_usd = \"9000000\"\nmax_allowance_usd = \"1000000\"\nstop_loss_pct = 90\n\
    [spending_limits]\nper_transaction = \"1000000\"\nper_day = \"9000000\"\nhot_lane = \"1000000\"\n";

/// The same without the limits from the phases' guidelines, so that only the matrix applies.
const MATRIX_ALONE: &str = "[phases.defensive]\nexit_only = false\nmax_position_share_bps = 10000\n\
    [phases.survival]\nexit_only = false\nmax_position_share_bps = 10000\n\
    [phases.terminal]\nexit_only = false\n";

pub fn trade(from: &str, to: &str, amount: &str, slippage_bps: u32) -> Value {
    json!({"kind": "swap", "params": {
        "token_in": from, "token_out": to, "amount": amount, "chain": "ethereum", "prefer_uniswapx": false,
        "slippage_bps": slippage_bps,
    }})
}

/// Previews an action and withdraws the offer, so nothing is spent.
pub async fn tried(golem: &AgentSession, action: Value) -> ToolResponse {
    let previewed = golem.call("preview_action", action).await;
    if previewed.status == CallStatus::Simulated {
        golem.call("cancel_action", json!({"permit_id": permit(&previewed)["permit_id"]})).await;
    }
    previewed
}

/// Violated rules; empty if it passes.
pub fn rules(response: &ToolResponse) -> Vec<String> {
    if response.status == CallStatus::Simulated || response.status == CallStatus::Success {
        return Vec::new();
    }
    let error = response.error.as_ref().unwrap_or_else(|| panic!("{response:#?}"));
    let told = serde_json::to_value(error).unwrap();
    let violated = told["details"]["violations"].as_array().unwrap_or_else(|| panic!("{told:#}"));
    violated.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
}

/// Harness with a small UNI position to close, and an allowance to revoke.
async fn furnished(policy: &str) -> (GolemHarness, AgentSession) {
    let harness = GolemHarness::with_policy(policy).await;
    let golem = harness.golem("ada", "trade-executor");
    for action in [
        trade("USDC", "UNI", "30", 30),
        json!({"kind": "approve", "params": {"token": "DAI", "spender": PERMIT2, "amount": "5", "chain": "ethereum"}}),
    ] {
        let previewed = golem.call("preview_action", action).await;
        let done = golem.call("commit_action", permit(&previewed)).await;
        assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    }
    (harness, golem)
}

/// One action of each class, in the order of the matrix.
fn classes() -> [(&'static str, Value); 7] {
    [
        ("new-position", trade("USDC", "LINK", "50", 30)),
        ("increase-position", trade("USDC", "WETH", "50", 30)),
        ("rebalance", trade("UNI", "LINK", "1", 30)),
        ("decrease-position", trade("WETH", "USDC", "0.1", 30)),
        ("close-position", trade("UNI", "USDC", "max", 30)),
        ("read-only", json!({"query": "balances"})),
        ("revoke", json!({"kind": "revoke", "params": {"token": "DAI", "spender": PERMIT2, "chain": "ethereum"}})),
    ]
}

async fn holds(golem: &AgentSession, harness: &GolemHarness, expected: &[(&str, [bool; 5])]) {
    let actions = classes();
    for (at, phase) in PHASES.into_iter().enumerate() {
        harness.phase.send_replace(phase);
        for (class, action) in &actions {
            let response = match *class {
                "read-only" => golem.call("query_state", action.clone()).await,
                _ => tried(golem, action.clone()).await,
            };
            let (_, passes) = expected.iter().find(|(name, _)| name == class).unwrap();
            let came = rules(&response);
            assert_eq!(came.is_empty(), passes[at], "{phase}: {class}: {came:?}");
            if !came.is_empty() {
                assert_eq!(response.error.as_ref().unwrap().code(), ErrorCode::SafetyPhaseBlocked, "{phase}: {class}");
                assert_eq!(response.status, CallStatus::Blocked);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_matrix_holds_for_every_phase_and_class() {
    let (harness, golem) = furnished(&format!("{WIDE}{MATRIX_ALONE}")).await;
    const Y: bool = true;
    const N: bool = false;
    let expected = [
        ("new-position", [Y, Y, N, N, N]),
        ("increase-position", [Y, Y, N, N, N]),
        ("rebalance", [Y, Y, Y, N, N]),
        ("decrease-position", [Y, Y, Y, Y, N]),
        ("close-position", [Y, Y, Y, Y, Y]),
        ("read-only", [Y, Y, Y, Y, Y]),
        ("revoke", [Y, Y, Y, Y, Y]),
    ];
    holds(&golem, &harness, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stricter_of_phase_limit_and_guideline_applies() {
    let (harness, golem) = furnished("preset = \"demo\"\nmax_tool_calls_per_minute = 100000\n").await;
    const Y: bool = true;
    const N: bool = false;
    let expected = [
        ("new-position", [Y, Y, N, N, N]),
        ("increase-position", [Y, Y, N, N, N]),
        // A rebalance is not an exit, and a whole position is more than a quarter of it.
        ("rebalance", [Y, Y, N, N, N]),
        ("decrease-position", [Y, Y, Y, Y, N]),
        ("close-position", [Y, Y, N, N, Y]),
        ("read-only", [Y, Y, Y, Y, Y]),
        ("revoke", [Y, Y, Y, Y, Y]),
    ];
    holds(&golem, &harness, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cautious_halves_the_size_of_all_but_exits() {
    let harness = GolemHarness::with_policy("preset = \"demo\"\nmax_tool_calls_per_minute = 100000\n").await;
    let golem = harness.golem("ada", "trade-executor");
    // The demo preset permits 2,500 dollars per trade.
    for (phase, action, passes) in [
        (Phase::Thriving, trade("USDC", "WETH", "1265", 30), true),
        (Phase::Thriving, trade("USDC", "WETH", "2525", 30), false),
        (Phase::Cautious, trade("USDC", "WETH", "1235", 30), true),
        (Phase::Cautious, trade("USDC", "WETH", "1265", 30), false),
        // The limit does not restrict an exit.
        (Phase::Cautious, trade("WETH", "USDC", "0.5", 30), true),
        (Phase::Cautious, trade("WETH", "USDC", "0.8", 30), true),
    ] {
        harness.phase.send_replace(phase);
        let came = rules(&tried(&golem, action.clone()).await);
        assert_eq!(came.is_empty(), passes, "{phase} {action}: {came:?}");
        assert!(passes || came.iter().any(|rule| rule == "max_single_trade_usd"), "{came:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cautious_allows_30_bps_of_slippage() {
    let harness = GolemHarness::with_policy(WIDE).await;
    let golem = harness.golem("ada", "trade-executor");
    for (phase, slippage, passes) in
        [(Phase::Cautious, 30, true), (Phase::Cautious, 31, false), (Phase::Thriving, 31, true)]
    {
        harness.phase.send_replace(phase);
        let came = rules(&tried(&golem, trade("USDC", "WETH", "50", slippage)).await);
        assert_eq!(came, if passes { vec![] } else { vec!["max_slippage_bps".to_owned()] }, "{phase} {slippage}");
    }
}

/// Balance of the wallet in raw units.
async fn held(harness: &GolemHarness, token: SandboxToken) -> u128 {
    let call = Erc20::balanceOfCall { owner: harness.world.account.unwrap() };
    let request = TransactionRequest::default().with_to(harness.address(token)).with_input(call.abi_encode());
    let answer = harness.world.chains()[0].client.provider().call(request).await.unwrap();
    Erc20::balanceOfCall::abi_decode_returns(&answer).unwrap().to()
}

/// A position is closed in four sales of a quarter, of which the last closes it.
#[tokio::test(flavor = "multi_thread")]
async fn four_quarter_sales_close_a_position_in_an_exit_phase() {
    let (harness, golem) = furnished(WIDE).await;
    harness.phase.send_replace(Phase::Defensive);
    let whole = held(&harness, SandboxToken::Uni).await;
    let quarter = whole / 4;
    let uni = |raw: u128| format!("{}.{:018}", raw / 10_u128.pow(18), raw % 10_u128.pow(18));
    let wanted = ["phases.defensive.max_position_share_bps"];
    for sold in 0..3 {
        // More than a quarter of the initial position is too much, even if it is all that remains.
        assert_eq!(rules(&tried(&golem, trade("UNI", "USDC", "max", 30)).await), wanted, "{sold}");
        let more = quarter + quarter / 50;
        assert_eq!(rules(&tried(&golem, trade("UNI", "USDC", &uni(more), 30)).await), wanted, "{sold}");
        let previewed = golem.call("preview_action", trade("UNI", "USDC", &uni(quarter), 30)).await;
        let done = golem.call("commit_action", permit(&previewed)).await;
        assert_eq!(done.status, CallStatus::Success, "{sold}: {done:#?}");
    }
    assert_eq!(held(&harness, SandboxToken::Uni).await, whole - 3 * quarter);
    let previewed = golem.call("preview_action", trade("UNI", "USDC", "max", 30)).await;
    let done = golem.call("commit_action", permit(&previewed)).await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    assert_eq!(held(&harness, SandboxToken::Uni).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn exits_sell_a_quarter_at_a_time_and_terminal_allows_200_bps() {
    let (harness, golem) = furnished(WIDE).await;
    // The wallet holds 4.5 WETH: a quarter is 1.125.
    for (phase, amount, passes) in [
        (Phase::Cautious, "1.2", true),
        (Phase::Defensive, "1.125", true),
        (Phase::Defensive, "1.125000000000000001", false),
        (Phase::Survival, "1.125", true),
        (Phase::Survival, "1.125000000000000001", false),
    ] {
        harness.phase.send_replace(phase);
        let came = rules(&tried(&golem, trade("WETH", "USDC", amount, 30)).await);
        let wanted = format!("phases.{}.max_position_share_bps", phase.as_str().to_lowercase());
        assert_eq!(came, if passes { vec![] } else { vec![wanted] }, "{phase} {amount}");
    }
    // Actions other than exits are refused with that reason.
    for phase in [Phase::Defensive, Phase::Survival, Phase::Terminal] {
        harness.phase.send_replace(phase);
        let came = rules(&tried(&golem, trade("WETH", "UNI", "0.02", 30)).await);
        assert!(came.contains(&format!("phases.{}.exit_only", phase.as_str().to_lowercase())), "{phase}: {came:?}");
    }
    for (phase, slippage, passes) in
        [(Phase::Terminal, 200, true), (Phase::Terminal, 201, false), (Phase::Thriving, 201, true)]
    {
        harness.phase.send_replace(phase);
        let came = rules(&tried(&golem, trade("UNI", "USDC", "max", slippage)).await);
        assert_eq!(came, if passes { vec![] } else { vec!["max_slippage_bps".to_owned()] }, "{phase} {slippage}");
    }
}

/// Random trades in random phases: the verdict on each follows from the documents' limits alone.
#[tokio::test(flavor = "multi_thread")]
async fn random_trades_pass_exactly_within_the_documented_limits() {
    let demo = "preset = \"demo\"\nmax_tool_calls_per_minute = 100000\nmax_slippage_bps = 250\nmax_loss_bps = 400\n\
        max_daily_spend_usd = \"9000\"\n[spending_limits]\nper_day = \"9000\"\n";
    let harness = GolemHarness::with_policy(demo).await;
    let golem = harness.golem("ada", "trade-executor");
    let mut runner = TestRunner::deterministic();
    // Half of them with little slippage, so that some pass in every phase, and some with more than the policy permits.
    let slippage = proptest::prop_oneof![3 => 1_u32..=30, 2 => 31_u32..=250, 1 => 251_u32..300];
    let drawn = (0_usize..5, proptest::bool::ANY, 1_u32..3_000, slippage);
    let mut seen = [[0_u32; 2]; 5];
    for number in 0..100 {
        let (at, buys, size, slippage) = drawn.new_tree(&mut runner).unwrap().current();
        let phase = PHASES[at];
        harness.phase.send_replace(phase);
        // A purchase of this many dollars, or a sale of this many ten-thousandths of the 4.5 WETH, at about 3,400
        // dollars.
        let (action, dollars) = match buys {
            true => (trade("USDC", "WETH", &size.to_string(), slippage), f64::from(size)),
            false => {
                let weth = f64::from(size) * 4.5 / 10_000.0;
                (trade("WETH", "USDC", &format!("{weth:.6}"), slippage), weth * 3_400.0)
            }
        };
        // A fair sale counts with its possible loss, and needs approval above the hot lane: no limit refuses it.
        let most = match (buys, phase) {
            (true, Phase::Cautious) => 1_250.0,
            (true, _) => 2_500.0,
            (false, _) => f64::INFINITY,
        };
        // Too near to the limit to predict the verdict here, where the price is known only approximately.
        if (dollars / most - 1.0).abs() < 0.02 {
            continue;
        }
        let allowed = match phase {
            Phase::Thriving => true,
            Phase::Cautious => slippage <= 30,
            Phase::Defensive | Phase::Survival => !buys && size <= 2_500,
            Phase::Terminal => false,
        };
        let passes = allowed && dollars < most && slippage <= 250;
        let response = tried(&golem, action.clone()).await;
        let came = rules(&response);
        assert_eq!(came.is_empty(), passes, "draw {number}, {phase}: {action}: {came:?}");
        seen[at][usize::from(passes)] += 1;
    }
    // The random cases are meaningful: both verdicts occurred in each phase except Terminal, where none of these pass.
    eprintln!("{seen:?}");
    let both = |seen: &[u32; 2]| seen.iter().all(|count| *count > 0);
    assert!(seen[..4].iter().all(both) && seen[4][0] > 0, "{seen:?}");
}
