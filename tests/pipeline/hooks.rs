//! Hooks of V4 pools through executor and pipeline on the devnet: each hostile resident is named with figures and stopped, a hook that
//! takes part needs approval, and a template is deployed and works.

use std::sync::LazyLock;

use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, U256, keccak256};
use alloy::sol_types::SolValue;
use bardo::abi::erc20::Erc20;
use bardo::abi::uniswap_v4::{PoolKey, PoolManager, PoolTrader};
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::engine::{ApprovalMode, CallStatus, ToolCall, ToolInput, ToolResponse};
use bardo::sandbox::Sandbox;
use bardo::uniswap::v3::tick_math::sqrt_price_at_tick;
use serde_json::{Value, json};

use super::liquidity::Fixture;
use bardo_testkit::harness::{TestHarness, sandbox};

static DEVNET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(41));

alloy::sol! {
    /// Written here from the template's source, apart from the code under test.
    interface Counting {
        function manager() external view returns (address);
        function swaps(bytes32 poolId) external view returns (uint256);
    }
}

impl Fixture {
    async fn hooked(account: usize) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        Self::over(TestHarness::over(&DEVNET, account, rules).await, "USDT").await
    }

    fn resident(&self, key: &str) -> Address {
        DEVNET.chains()[0].deployment.contracts[key]
    }

    async fn approved(&self, tool: &str, params: Value) -> ToolResponse {
        let call = ToolCall { approve: Some(ApprovalMode::Always), ..ToolCall::new(tool, ToolInput::Json(params)) };
        self.call_of(call).await
    }

    /// The one pool of a hook, as `hook_discover` lists it.
    async fn pool_of(&self, hook: Address) -> Value {
        let found = self.data("hook_discover", json!({"chain": "ethereum", "hook": hook})).await;
        assert_eq!((&found["pool_count"], &found["complete"]), (&json!(1), &json!(true)), "{found:#}");
        found["pools"][0].clone()
    }

    async fn evaluated(&self, hook: Address) -> Value {
        let pool = self.pool_of(hook).await;
        self.data("hook_evaluate", json!({"pool_id": pool["pool_id"], "chain": "ethereum"})).await
    }

    fn deposit(&self, pool: &Value, token_b: &str) -> Value {
        json!({
            "token_a": pool["currency0"]["symbol"], "token_b": token_b, "amount_b": "50", "pool_id": pool["pool_id"],
            "width_pct": "8", "chain": "ethereum",
        })
    }
}

fn finding<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {report:#}"))
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Figures by hand, from the hooks' sources: five percent of a deposit, two of a swap's other side, a fee of 0.05 % that is shown
/// and one of 20 % that is taken, for which a fixed output costs 1 / 0.8 = 1.25 times as much.
#[tokio::test(flavor = "multi_thread")]
async fn each_hostile_resident_is_named_with_its_figures_and_takes_no_deposit() {
    let fixture = Fixture::hooked(5).await;
    let lock = fixture.evaluated(fixture.resident("exitLockHook")).await;
    assert_eq!((&lock["verdict"], &lock["permissions"]), (&json!("hostile"), &json!(["before_remove_liquidity"])));
    finding(&lock, "withdrawal_fails");
    assert_eq!(lock["liquidity"]["pays"], Value::Null);
    assert_eq!(lock["liquidity"]["takes"], lock["liquidity"]["takes_without_hook"]);

    let tax = fixture.evaluated(fixture.resident("depositTaxHook")).await;
    let part = number(&finding(&tax, "takes_from_deposit")["part_pct"]);
    assert!((4.99..=5.0).contains(&part) && tax["verdict"] == "hostile", "{tax:#}");

    let jump = fixture.evaluated(fixture.resident("feeJumpHook")).await;
    let changes = finding(&jump, "changes_quote");
    let (lowest, highest) = (number(&changes["lowest_pct"]), number(&changes["highest_pct"]));
    assert!((0.049..=0.052).contains(&lowest) && (24.9..=25.1).contains(&highest), "{changes}");
    assert_eq!(jump["verdict"], "hostile");
    assert!(jump["code"]["traits"].as_array().unwrap().contains(&json!("reads_transaction")), "{jump:#}");

    let swaps = fixture.evaluated(fixture.resident("swapTaxHook")).await;
    let part = number(&finding(&swaps, "takes_from_swap")["part_pct"]);
    assert!((1.99..=2.001).contains(&part) && swaps["verdict"] == "hostile", "{swaps:#}");

    for (key, why) in [
        ("exitLockHook", "liquidity that was added does not come out"),
        ("depositTaxHook", "adding liquidity costs"),
        ("feeJumpHook", "the same swap loses"),
        ("swapTaxHook", "of a swap beside the pool's fee"),
    ] {
        let pool = fixture.pool_of(fixture.resident(key)).await;
        let other = pool["currency1"]["symbol"].as_str().unwrap().to_owned();
        let refused = fixture.approved("add_liquidity", fixture.deposit(&pool, &other)).await;
        assert_eq!(refused.status, CallStatus::Blocked, "{key}: {refused:#?}");
        let words = format!("{refused:?}");
        assert!(words.contains("pool_hook") && words.contains(why), "{key}: {words}");
    }
}

/// Nothing was found against this one, and nobody but the operator decides about it.
#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_takes_part_needs_approval() {
    let fixture = Fixture::hooked(6).await;
    let report = fixture.evaluated(fixture.resident("swapCountHook")).await;
    assert_eq!((&report["verdict"], &report["findings"]), (&json!("no_harm_found"), &json!([])), "{report:#}");
    for row in report["swaps"].as_array().unwrap() {
        assert!(row["with_hook"].as_array().unwrap().iter().all(|one| *one == row["without_hook"]), "{row}");
    }
    let pool = fixture.pool_of(fixture.resident("swapCountHook")).await;
    let asked = fixture.call("add_liquidity", fixture.deposit(&pool, "USDC")).await;
    assert_ne!(asked.status, CallStatus::Success, "{asked:#?}");
    assert!(format!("{asked:?}").contains("the pool's hook takes part"), "{asked:#?}");
    let done = fixture.approved("add_liquidity", fixture.deposit(&pool, "USDC")).await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    let id = done.data.unwrap()["position_id"].clone();
    let closed = fixture.approved("close_position", json!({"position_id": id, "chain": "ethereum"})).await;
    assert_eq!(closed.status, CallStatus::Success, "{closed:#?}");
}

/// The deployed code is the template's, its address has the bits of `afterSwap` (bit 6), and it counts the swaps of a pool.
#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_deployed_with_approval_and_works() {
    let fixture = Fixture::hooked(7).await;
    let params = json!({"template": "counting", "chain": "ethereum"});
    let asked = fixture.call("hook_deploy", params.clone()).await;
    assert_ne!(asked.status, CallStatus::Success, "it is privileged: {asked:#?}");
    let done = fixture.approved("hook_deploy", params.clone()).await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    let data = done.data.unwrap();
    let hook: Address = data["hook"].as_str().unwrap().parse().unwrap();
    let [.., high, low] = hook.into_array();
    assert_eq!(u16::from_be_bytes([high, low]) & 0x3fff, 0x40);
    let manager = fixture.world.contract(KnownContract::V4PoolManager);
    assert_eq!(fixture.world.ask(hook, Counting::managerCall {}).await, manager);
    // The same template again gets the next address.
    let again = fixture.approved("hook_deploy", params).await;
    assert_eq!(again.status, CallStatus::Success, "{again:#?}");
    assert_ne!(again.data.unwrap()["hook"], data["hook"]);
    let refused = fixture.approved("hook_deploy", json!({"template": "mine", "chain": "ethereum"})).await;
    assert_ne!(refused.status, CallStatus::Success);
    let [currency0, currency1] = fixture.tokens;
    let key =
        PoolKey { currency0, currency1, fee: U24::from(100), tickSpacing: I24::try_from(1).unwrap(), hooks: hook };
    let price: U160 = sqrt_price_at_tick(0).unwrap().to();
    fixture.world.send(manager, PoolManager::initializeCall { key, sqrtPriceX96: price }).await;
    let id = keccak256(key.abi_encode());
    // A pool without liquidity fills nothing, but the swap moves its price to the limit and the hook is called.
    let trader = fixture.resident("poolTrader");
    fixture.world.send(currency0, Erc20::approveCall { spender: trader, value: U256::MAX }).await;
    let trade = PoolTrader::Trade {
        key,
        zeroForOne: true,
        amountIn: 1_000_000,
        sqrtPriceLimitX96: sqrt_price_at_tick(-10).unwrap().to(),
        leastOut: 0,
    };
    fixture.world.send(trader, PoolTrader::tradeCall { trades: vec![trade] }).await;
    assert_eq!(fixture.world.ask(hook, Counting::swapsCall { poolId: id }).await, U256::ONE);
}
