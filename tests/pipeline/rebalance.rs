//! Moves of liquidity positions through executor and pipeline on the devnet: what they are expected to bring, whether the
//! policy lets them begin, and what is where when a step fails.

use std::sync::LazyLock;
use std::time::Duration;

use alloy::primitives::{Address, I256, U256, keccak256};
use alloy::providers::Provider as _;
use alloy::rpc::types::Filter;
use bardo::abi::uniswap_v3::{NonfungiblePositionManager as Manager, UniswapV3Pool};
use bardo::base::error::ErrorCode;
use bardo::base::model::Phase;
use bardo::chain::devnet::Chain;
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::SenderRules;
use bardo::engine::{CallStatus, ToolCall, ToolInput};
use bardo::sandbox::Sandbox;
use bardo::uniswap::address::{V3_POOL_INIT_CODE_HASH, v3_pool};
use serde_json::{Value, json};

use super::liquidity::{Fixture, RECEIVED, code};
use bardo_testkit::harness::{TestHarness, sandbox};

static WEIGHED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(41));
static MOVED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(42));
static STOPPED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(43));
static UNKNOWN: LazyLock<Sandbox> = LazyLock::new(|| sandbox(44));
static ENDED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(45));
static MIGRATED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(46));
static TIMED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(47));

impl Fixture {
    async fn rebalancing(devnet: &'static Sandbox, account: usize, lines: &str) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        Self::under(TestHarness::over(devnet, account, rules).await, "USDT", lines).await
    }

    fn pool(&self) -> Address {
        let factory = self.world.contract(bardo::chain::network::KnownContract::V3Factory);
        v3_pool(factory, self.tokens[0], self.tokens[1], 100, V3_POOL_INIT_CODE_HASH)
    }

    /// Lets time pass on the chain.
    async fn pass(devnet: &'static Sandbox, seconds: u64) {
        devnet.chains()[0].devnet.run(move |chain: &mut Chain| chain.increase_time(seconds)).await.unwrap();
        devnet.chains()[0].devnet.mine().await.unwrap();
    }

    /// More than an hour of trading there and back, so that the price ends each time where it was.
    async fn trade_for_an_hour(&self, devnet: &'static Sandbox, amount: u64) {
        for _ in 0..14 {
            for _ in 0..5 {
                self.swap(0, amount).await;
                self.swap(1, amount).await;
            }
            Self::pass(devnet, 300).await;
        }
    }

    async fn count(&self) -> U256 {
        let owner = self.world.account();
        self.world.ask(self.manager(), Manager::balanceOfCall { owner }).await
    }

    async fn tick(&self) -> i32 {
        self.world.ask(self.pool(), UniswapV3Pool::slot0Call {}).await.tick.as_i32()
    }
}

fn number(data: &Value, path: &str) -> f64 {
    data.pointer(path).unwrap_or_else(|| panic!("no {path} in {data:#}")).as_str().unwrap().parse().unwrap()
}

/// The figures against the raw logs: fees by the share of each swap, and the benefit as fees less loss, swap and gas. The
/// arithmetic here is in floats, from the bytes of the logs.
#[tokio::test(flavor = "multi_thread")]
async fn the_figures_of_a_move_follow_from_the_logs() {
    let fixture = Fixture::rebalancing(&WEIGHED, 3, "").await;
    let token_id = fixture.open_at([40, 80], 900).await;
    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum", "tick_lower": -8, "tick_upper": 8});
    let early = fixture.call("compute_rebalance_candidate", at.clone()).await;
    assert_eq!(code(&early), Some(ErrorCode::ValidationFailed), "{early:#?}");
    assert!(early.error.as_ref().unwrap().message().contains("too little data"), "{early:#?}");

    fixture.trade_for_an_hour(&WEIGHED, 20_000).await;
    let moved = fixture.data("compute_rebalance_candidate", at).await;
    let (figures, sample) = (&moved["figures"], &moved["figures"]["sample"]);
    assert_eq!(sample["was_limited"], false, "{moved:#}");
    assert!(sample["return_count"].as_u64().unwrap() >= 12, "{moved:#}");

    let seconds = sample["seconds"].as_u64().unwrap() as f64;
    let liquidity = number(figures, "/new_liquidity");
    let topic = keccak256("Swap(address,address,int256,int256,uint160,uint128,int24)");
    let filter = Filter::new().address(fixture.pool()).event_signature(topic);
    let filter = filter.from_block(sample["from_block"].as_u64().unwrap());
    let logs = fixture.world.client.provider().get_logs(&filter).await.unwrap();
    assert_eq!((sample["swap_count"].as_u64(), logs.len() >= 140), (Some(logs.len() as u64), true), "{moved:#}");
    let mut fees = [0.0; 2];
    for log in logs {
        let data = &log.data().data;
        let word = |at: usize| U256::from_be_slice(&data[at * 32..at * 32 + 32]);
        let of_pool: f64 = word(3).to_string().parse().unwrap();
        for (at, fees) in fees.iter_mut().enumerate() {
            let amount = I256::from_raw(word(at));
            if amount.is_positive() {
                let paid: f64 = amount.to_string().parse().unwrap();
                *fees += paid * 100.0 / 1e6 * liquidity / (of_pool + liquidity) * 86_400.0 / seconds;
            }
        }
    }
    let part = number(figures, "/expected/time_in_range_pct") / 100.0;
    assert!(part > 0.99, "the price is where it was after each pair of swaps: {moved:#}");
    for (at, name) in ["/expected/fees/amount0", "/expected/fees/amount1"].into_iter().enumerate() {
        let (expected, is) = (fees[at] / 1e6 * part, number(figures, name));
        assert!((expected - is).abs() <= expected * 1e-3 && is > 0.0, "{name}: {expected} {is}");
    }
    let [fees, loss, swap, gas] =
        ["/expected/fees_usd", "/expected/lvr_usd", "/swap_cost_usd", "/gas_usd"].map(|name| number(figures, name));
    let benefit = number(figures, "/benefit_usd");
    assert!((fees - loss - swap - gas - benefit).abs() < 1e-6, "{moved:#}");
    assert!(gas > 0.0 && swap > 0.0, "{moved:#}");
    // A dollar each: the fees in dollars are those of both tokens.
    let both = number(figures, "/expected/fees/amount0") + number(figures, "/expected/fees/amount1");
    assert!((both - fees).abs() < both * 0.02, "{moved:#}");
    // Above the price the position held token0 alone, and half of it goes into a range around the price.
    let paid = number(figures, "/swap/amount_in");
    assert!((400.0..500.0).contains(&paid), "{moved:#}");
    // Where it is, it earns nothing.
    assert_eq!((&moved["in_range"], number(figures, "/if_kept/fees_usd")), (&json!(false), 0.0), "{moved:#}");
    assert_eq!(moved["min_benefit_usd"], "10");
    assert_eq!(moved["reaches_minimum"], json!(benefit >= 10.0));
}

/// The time in the range against the prices of the raw logs at the ends of the same intervals, from the block of the
/// position's first transfer on.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_in_the_range_follows_from_the_logs() {
    let fixture = Fixture::rebalancing(&TIMED, 8, "").await;
    let tick = fixture.tick().await;
    let (lower, upper) = (tick - 1, tick + 2);
    fixture.swap(0, 10).await;
    Fixture::pass(&TIMED, 1_200).await;
    let token_id = fixture.open_at([lower, upper], 900).await;
    // In the range, out of it for some intervals, and in it again.
    for (from, seconds) in [(0, 700), (0, 1_500), (1, 800), (1, 100)] {
        fixture.swap(from, if seconds > 1_000 || from == 1 && seconds == 800 { 80_000 } else { 10 }).await;
        Fixture::pass(&TIMED, seconds).await;
    }
    let asked = json!({"position_id": token_id.to_string(), "chain": "ethereum", "history_hours": 72});
    let answer = fixture.data("get_position", asked.clone()).await;
    let history = &answer["history"];

    let provider = fixture.world.client.provider();
    let time = async |block: u64| provider.get_block(block.into()).await.unwrap().unwrap().header.timestamp;
    let topic = keccak256("Swap(address,address,int256,int256,uint160,uint128,int24)");
    let swaps =
        provider.get_logs(&Filter::new().address(fixture.pool()).event_signature(topic).from_block(0)).await.unwrap();
    let made = Filter::new().address(fixture.manager()).event_signature(keccak256("Transfer(address,address,uint256)"));
    let made = made.topic1(alloy::primitives::B256::ZERO).topic3(alloy::primitives::B256::from(token_id)).from_block(0);
    let opened = time(provider.get_logs(&made).await.unwrap()[0].block_number.unwrap()).await;
    let mut prices = Vec::new();
    for log in &swaps {
        // The tick is the last word of the data, a signed number.
        let word = &log.data().data[128..160];
        prices.push((time(log.block_number.unwrap()).await, i32::from_be_bytes(word[28..].try_into().unwrap())));
    }
    let head = time(answer["block_number"].as_u64().unwrap()).await;
    let (mut inside, mut all, mut start) = (0, 0, prices[0].0 / 300 * 300);
    while start <= head {
        let (_, price) = prices.iter().rfind(|(at, _)| *at < start + 300).unwrap();
        if start + 300 > opened {
            all += 1;
            inside += i32::from((lower..upper).contains(price));
        }
        start += 300;
    }
    assert!(inside > 3 && all - inside > 3, "{inside} of {all}");
    let percent = f64::from(inside) / f64::from(all) * 100.0;
    assert!((number(history, "/time_in_range_pct") - percent).abs() < 0.01, "{percent} {history:#}");
    assert_eq!(history["seconds"], json!(head - opened), "{history:#}");
    assert_eq!(
        (&history["was_opened_in_it"], &history["was_limited"], &history["swap_count"]),
        (&json!(true), &json!(false), &json!(swaps.len()))
    );
    // Of several positions it is not measured.
    let several =
        json!({"position_id": [token_id.to_string(), token_id.to_string()], "chain": "ethereum", "history_hours": 1});
    let refused = fixture.call("get_position", several).await;
    assert_eq!(code(&refused), Some(ErrorCode::ValidationFailed), "{refused:#?}");
}

/// A move below the policy's benefit is blocked with the figures; one above it closes the position, swaps and opens the
/// new one with what came out, never with more.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_is_moved_if_that_pays() {
    let fixture = Fixture::rebalancing(&MOVED, 4, "").await;
    let token_id = fixture.open_at([40, 80], 900).await;
    fixture.trade_for_an_hour(&MOVED, 80_000).await;
    let to = |lower: i32, upper: i32| {
        json!({
            "position_id": token_id.to_string(), "chain": "ethereum", "tick_lower": lower, "tick_upper": upper,
        })
    };
    let tick = fixture.tick().await;
    let narrow = [tick - 1, tick + 2];
    // Hardly any of the pool's fees would be its own in a range this wide.
    let refused = fixture.call("rebalance_position", to(-50_000, 50_000)).await;
    assert_eq!(
        (refused.status, code(&refused)),
        (CallStatus::Blocked, Some(ErrorCode::SafetyRebalanceBenefit)),
        "{refused:#?}"
    );
    let details = refused.error.as_ref().unwrap().details();
    let violation = &details["violations"][0];
    assert_eq!(
        (&violation["rule"], &violation["figures"]["limit"]),
        (&json!("min_rebalance_benefit_usd"), &json!("10"))
    );
    let benefit: f64 = violation["figures"]["value"].as_str().unwrap().parse().unwrap();
    assert!(benefit < 10.0 && number(&details["figures"], "/benefit_usd") == benefit, "{details:#?}");
    assert_eq!(fixture.count().await, U256::ONE, "nothing was begun");

    // In a phase that opens no positions none is moved: it would be closed alone.
    fixture.phase.send(Phase::Defensive).unwrap();
    let refused = fixture.call("rebalance_position", to(narrow[0], narrow[1])).await;
    assert_eq!(code(&refused), Some(ErrorCode::SafetyPhaseBlocked), "{refused:#?}");
    fixture.phase.send(Phase::Thriving).unwrap();

    let before = fixture.held().await;
    let response = fixture.call("rebalance_position", to(narrow[0], narrow[1])).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let moved = response.data.unwrap();
    assert_eq!(moved["state"], "moved", "{moved:#}");
    assert!(number(&moved, "/figures/benefit_usd") >= 10.0, "{moved:#}");
    let steps = moved["steps"].as_array().unwrap();
    let done: Vec<(&str, &str)> =
        steps.iter().map(|step| (step["step"].as_str().unwrap(), step["status"].as_str().unwrap())).collect();
    assert_eq!(done, [("withdraw", "success"), ("swap", "success"), ("deposit", "success")], "{moved:#}");

    // One position before and after; the old one is gone, the new one has the range and the amounts of the answer.
    assert_eq!(fixture.count().await, U256::ONE);
    let new = moved["position_id"].as_str().unwrap();
    let gone = fixture.call("get_position", json!({"position_id": token_id.to_string(), "chain": "ethereum"})).await;
    assert_eq!(code(&gone), Some(ErrorCode::PositionNotFound));
    let row =
        fixture.data("get_position", json!({"position_id": new, "chain": "ethereum"})).await["positions"][0].clone();
    assert_eq!(
        (&row["tick_lower"], &row["tick_upper"], &row["in_range"]),
        (&json!(narrow[0]), &json!(narrow[1]), &json!(true))
    );
    for at in [0, 1] {
        let (now, deposited) =
            (fixture.amounts(&row["now"], RECEIVED)[at], fixture.amounts(&moved["deposited"], RECEIVED)[at]);
        assert!(deposited - now <= U256::ONE, "the pool keeps at most one unit: {row:#} {moved:#}");
    }
    // The wallet has what it had and what stays of the position.
    let (after, rest) = (fixture.held().await, fixture.amounts(&moved["in_wallet"], RECEIVED));
    assert_eq!([after[0] - before[0], after[1] - before[1]], rest, "{moved:#}");
    let worth = |pair: [U256; 2]| (pair[0] + pair[1]).to::<u64>();
    let [out, into] = ["withdrawn", "deposited"].map(|name| worth(fixture.amounts(&moved[name], RECEIVED)));
    assert!(into <= out && out - into < out / 20, "{out} {into}");
    // The gas that was reckoned with is enough, and no more than three times what it was.
    let gas = moved["gas_used"].as_u64().unwrap();
    assert!((400_000..1_300_000).contains(&gas), "{gas}");
}

/// The second trade of the hour is refused: the position is closed, its tokens are in the wallet, and the call in the answer
/// goes on later.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_leaves_what_stands_and_how_to_go_on() {
    let fixture = Fixture::rebalancing(&STOPPED, 5, "max_trades_per_hour = 2").await;
    let token_id = fixture.open_at([40, 80], 900).await;
    fixture.trade_for_an_hour(&STOPPED, 80_000).await;
    let tick = fixture.tick().await;
    let params = json!({
        "position_id": token_id.to_string(), "chain": "ethereum", "tick_lower": tick - 1, "tick_upper": tick + 2,
        "slippage_bps": 40,
    });
    let rehearsed = fixture.call("estimate_gas", json!({"tool": "rebalance_position", "params": params})).await;
    assert_eq!(rehearsed.status, CallStatus::Success, "{rehearsed:#?}");
    let before = fixture.held().await;
    // The close and the swap are the two trades of this hour.
    let response = fixture.call("rebalance_position", params).await;
    let moved = response.data.as_ref().unwrap_or_else(|| panic!("{response:#?}"));
    assert_eq!(
        (response.status, code(&response)),
        (CallStatus::Blocked, Some(ErrorCode::SafetyRateLimited)),
        "{response:#?}"
    );
    assert_eq!((&moved["state"], &moved["position_id"]), (&json!("withdrawn"), &Value::Null), "{moved:#}");
    assert_eq!(response.decision_hints.as_ref().unwrap()["state"], "stopped", "{response:#?}");
    assert_eq!(fixture.count().await, U256::ZERO);
    let after = fixture.held().await;
    let stands = fixture.amounts(&moved["in_wallet"], RECEIVED);
    assert_eq!([after[0] - before[0], after[1] - before[1]], stands, "{moved:#}");
    let explanation = response.explanation.as_deref().unwrap();
    assert!(explanation.contains("is closed, and no new one was opened: the deposit was not made"), "{explanation}");

    let next = &moved["next"];
    assert_eq!((&next["tool"], &next["params"]["slippage_bps"]), (&json!("add_liquidity"), &json!(40)), "{moved:#}");
    // An hour later by the ledger, and by no chain.
    fixture.world.clock.shift(3_700_000);
    let opened = fixture.data("add_liquidity", next["params"].clone()).await;
    assert_eq!((&opened["tick_lower"], &opened["tick_upper"]), (&json!(tick - 1), &json!(tick + 2)), "{opened:#}");
    assert_eq!(fixture.count().await, U256::ONE);
}

/// In the pause before the swap the call is cancelled, or the session ends: nothing further begins, and what was withdrawn is
/// reported with the call that goes on.
#[tokio::test(flavor = "multi_thread")]
async fn no_further_step_begins_once_the_call_is_cancelled_or_the_session_ends() {
    let lines = "require_rebalance_check = false\ncooldown_seconds = 600";
    for (account, is_cancelled) in [(5, true), (6, false)] {
        let fixture = Fixture::rebalancing(&ENDED, account, lines).await;
        let token_id = fixture.open_at([40, 80], 900).await;
        let params = json!({
            "position_id": token_id.to_string(), "chain": "ethereum", "tick_lower": -8, "tick_upper": 8,
        });
        let call_id = fixture.executor.new_call_id();
        let call = ToolCall::new("rebalance_position", ToolInput::Json(params));
        let call = ToolCall { call_id: Some(call_id), ..call };
        let executor = fixture.executor.clone();
        let moving = tokio::spawn(async move { executor.call(call).await });
        while fixture.count().await != U256::ZERO {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if is_cancelled {
            while !fixture.executor.cancel(call_id) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        } else {
            fixture.executor.end_steps();
        }
        let response = tokio::time::timeout(Duration::from_secs(120), moving).await.expect("it does not wait").unwrap();
        assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(ErrorCode::ToolCancelled)));
        let moved = response.data.as_ref().unwrap_or_else(|| panic!("{response:#?}"));
        assert_eq!((&moved["state"], &moved["position_id"]), (&json!("withdrawn"), &Value::Null), "{moved:#}");
        assert_eq!(moved["next"]["tool"], "uniswap_execute_swap", "{moved:#}");
        assert_eq!(fixture.count().await, U256::ZERO);
    }
}

/// Without data the benefit is not known: that blocks, unless the policy does not require it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_benefit_blocks_where_it_must_be_known() {
    let fixture = Fixture::rebalancing(&UNKNOWN, 6, "").await;
    let token_id = fixture.open_at([40, 80], 900).await;
    let params = json!({
        "position_id": token_id.to_string(), "chain": "ethereum", "tick_lower": -8, "tick_upper": 8,
    });
    let refused = fixture.call("rebalance_position", params.clone()).await;
    assert_eq!(
        (refused.status, code(&refused)),
        (CallStatus::Blocked, Some(ErrorCode::SafetyRebalanceBenefit)),
        "{refused:#?}"
    );
    let violation = &refused.error.as_ref().unwrap().details()["violations"][0];
    assert_eq!(violation["rule"], "require_rebalance_check", "{refused:#?}");
    assert_eq!(fixture.count().await, U256::ONE);
    drop(fixture);

    // The cooldown before the swap and the one before the deposit are waited for.
    let fixture = Fixture::rebalancing(&UNKNOWN, 6, "require_rebalance_check = false\ncooldown_seconds = 2").await;
    let moved = fixture.data("rebalance_position", params.clone()).await;
    assert_eq!((&moved["state"], &moved["figures"]), (&json!("moved"), &Value::Null), "{moved:#}");
    let statuses = moved["steps"].as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap());
    // A slow machine meets no cooldown.
    let (blocked, done): (Vec<&str>, Vec<&str>) = statuses.partition(|status| *status == "blocked");
    assert!(done == ["success"; 3] && blocked.len() <= 2, "{moved:#}");
    assert_eq!(fixture.count().await, U256::ONE);

    // A position larger than one deposit may be is not closed for it.
    let large = fixture.open_at([40, 80], 20_000).await;
    let mut params = params;
    params["position_id"] = json!(large.to_string());
    let refused = fixture.call("rebalance_position", params).await;
    assert_eq!(code(&refused), Some(ErrorCode::SafetySpendingLimitExceeded), "{refused:#?}");
    assert_eq!(fixture.count().await, U256::from(2));
}

/// A position moves from V3 to V4 and back, with what it paid and never with more. A pool with a hook, the present pool and one
/// that does not exist are no targets, and an unknown benefit blocks where the policy requires it.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_is_migrated_to_another_pool_and_back() {
    let strict = Fixture::rebalancing(&MIGRATED, 7, "").await;
    let token_id = strict.open_at([-3_000, 3_000], 400).await.to_string();
    let to = |id: &str, version: &str, fee: u32| json!({"position_id": id, "version": version, "fee_tier": fee, "chain": "ethereum"});
    // Nobody has traded in the V4 pool for an hour.
    let refused = strict.call("migrate_position", to(&token_id, "v4", 100)).await;
    assert_eq!(code(&refused), Some(ErrorCode::SafetyRebalanceBenefit), "{refused:#?}");
    drop(strict);

    let fixture = Fixture::rebalancing(&MIGRATED, 7, "require_rebalance_check = false").await;
    for (target, expected) in [
        (to(&token_id, "v3", 100), ErrorCode::ValidationFailed),
        (to(&token_id, "v3", 10_000), ErrorCode::PoolNotFound),
        (to(&token_id, "v5", 100), ErrorCode::ValidationFailed),
    ] {
        let refused = fixture.call("migrate_position", target).await;
        assert_eq!(code(&refused), Some(expected), "{refused:#?}");
    }
    assert_eq!(fixture.count().await, U256::ONE, "nothing was begun");

    let mut id = token_id;
    for (version, other) in [("v4", "v3"), ("v3", "v4")] {
        let before = fixture.held().await;
        let moved = fixture.data("migrate_position", to(&id, version, 100)).await;
        assert_eq!((&moved["state"], &moved["old_position_id"]), (&json!("moved"), &json!(id)), "{moved:#}");
        assert_eq!((&moved["tick_lower"], &moved["tick_upper"]), (&json!(-3_000), &json!(3_000)), "{moved:#}");
        let new = moved["position_id"].as_str().unwrap().to_owned();
        assert_eq!(new.starts_with("v4:"), version == "v4", "{moved:#}");
        assert_eq!(fixture.count().await, U256::from(u8::from(version == "v3")), "of V3");
        let gone = fixture.call("get_position", json!({"position_id": id, "chain": "ethereum"})).await;
        assert_eq!(code(&gone), Some(ErrorCode::PositionNotFound), "of {other}");
        let row = fixture.data("get_position", json!({"position_id": new, "chain": "ethereum"})).await;
        let row = &row["positions"][0];
        assert_eq!((&row["tick_lower"], &row["tick_upper"]), (&json!(-3_000), &json!(3_000)), "{row:#}");
        for at in [0, 1] {
            let [now, into] = [&row["now"], &moved["deposited"]].map(|pair| fixture.amounts(pair, RECEIVED)[at]);
            assert!(into - now <= U256::ONE, "the pool keeps at most one unit: {row:#} {moved:#}");
        }
        let (after, rest) = (fixture.held().await, fixture.amounts(&moved["in_wallet"], RECEIVED));
        assert_eq!([after[0] - before[0], after[1] - before[1]], rest, "{moved:#}");
        let worth = |pair: [U256; 2]| (pair[0] + pair[1]).to::<u64>();
        let [out, into] = ["withdrawn", "deposited"].map(|name| worth(fixture.amounts(&moved[name], RECEIVED)));
        assert!(into <= out && out - into < out / 20, "{out} {into}");
        id = new;
    }
}
