//! Built-in write tools, through executor and pipeline on the devnet: their claims equal the answers of the chain's
//! contracts.

use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::permit2::Permit2;
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::Phase;
use bardo::base::units::TokenAmount;
use bardo::chain::network::KnownContract;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::fabric::{EventKind, Receiver};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, keys, seen};
use bardo_testkit::harness::TestHarness;

struct Fixture {
    world: TestHarness,
    executor: Executor,
    events: std::sync::Mutex<Receiver>,
    phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new(account: usize) -> Self {
        let world = TestHarness::new(account).await;
        let (store, folder) = keys();
        let fabric = world.fabric();
        let events = std::sync::Mutex::new(fabric.subscribe(1_000));
        let (acting, phase) = acting(&world, world.pipeline.clone(), ApprovalMode::Never);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = executor(catalog, seen(&world), fabric, Some(store), Some(acting));
        Self { world, executor, events, phase, _folder: folder }
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn data(&self, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        response.data.unwrap()
    }

    fn steps(&self) -> Vec<String> {
        let mut events = Vec::new();
        self.events.lock().unwrap().try_receive(&mut events, 1_000);
        let steps = events.iter().filter_map(|event| match &event.kind {
            EventKind::ToolUpdate(update) => Some(update.step.to_string()),
            _ => None,
        });
        steps.collect()
    }

    async fn coin(&self) -> U256 {
        self.world.client.provider().get_balance(self.world.account()).await.unwrap()
    }

    /// The router's allowance for USDC inside Permit2.
    async fn inside(&self) -> U256 {
        let (token, spender) = (self.world.contract_of(&self.world.usdc), self.router());
        let owner = self.world.account();
        let call = Permit2::allowanceCall { owner, token, spender };
        U256::from(self.world.ask(self.world.contract(KnownContract::Permit2), call).await.amount)
    }

    fn router(&self) -> Address {
        self.world.contract(KnownContract::UniversalRouterV210)
    }

    async fn of_token(&self) -> U256 {
        self.world.allowance(self.world.contract(KnownContract::Permit2)).await
    }
}

fn amount(data: &Value, field: &str, decimals: u8) -> U256 {
    TokenAmount::parse(data[field].as_str().unwrap(), decimals).unwrap().raw()
}

fn swap(token_in: &str, token_out: &str, amount: &str) -> Value {
    json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_does_what_it_claims_and_leaves_no_allowance() {
    let fixture = Fixture::new(3).await;
    let (usdc, weth) = (fixture.world.usdc.clone(), fixture.world.weth.clone());
    let before = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
    let call = || ToolCall {
        idempotency_key: Some("once".to_owned()),
        ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(swap("USDC", "WETH", "250")))
    };
    let response = fixture.executor.call(call()).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let data = response.data.clone().unwrap();
    let after = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
    assert_eq!(before[0] - after[0], U256::from(250_000_000));
    assert_eq!(amount(&data, "amount_in", 6), before[0] - after[0]);
    assert_eq!(amount(&data, "amount_out", 18), after[1] - before[1]);
    assert_eq!(data["slippage_actual_bps"], 0, "nothing else trades here");
    let hash = data["tx_hash"].as_str().unwrap();
    assert_eq!(data["explorer_url"], format!("bardo://tx/{hash}"));
    let receipt =
        fixture.world.client.provider().get_transaction_receipt(hash.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(
        (receipt.gas_used, receipt.block_number),
        (data["gas_used"].as_u64().unwrap(), data["block_number"].as_u64())
    );
    assert_eq!((fixture.of_token().await, fixture.inside().await), (U256::ZERO, U256::ZERO));
    let hints = response.decision_hints.unwrap();
    assert_eq!(hints["uniswapx"]["used"], false);
    // What left the wallet is the amount and the gas of the receipts; what counts has the gas at its limit.
    let dollars = |field: &str| hints[field].as_str().unwrap().parse::<f64>().unwrap();
    let (left, counted) = (dollars("left_wallet_usd"), dollars("counted_usd"));
    assert!((250.0..252.0).contains(&left) && left < counted - 1.0, "{left} of {counted}");
    // Names of document 000, in the pipeline's order.
    assert_eq!(
        fixture.steps(),
        [
            "Building calldata",
            "Simulating via Revm",
            "Approving token",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt"
        ]
    );
    let log = fixture.world.trail();
    let kinds: Vec<&str> = log.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["permit:issued", "permit:consumed", "tx:signed", "tx:signed", "action:verified"]);
    assert_eq!(log[3].1["hash"], data["tx_hash"]);
    assert_eq!((&log[1].1["consent"], &log[4].1["matched"]), (&json!("none"), &json!(true)));

    // The same idempotency key again: the same result, and nothing more is spent.
    let again = fixture.executor.call(call()).await;
    assert_eq!(again.data, Some(data));
    assert_eq!(fixture.world.balance(&usdc).await, after[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_native_token_can_be_sold_and_bought() {
    let fixture = Fixture::new(4).await;
    let usdc = fixture.world.usdc.clone();
    let (coin, held) = (fixture.coin().await, fixture.world.balance(&usdc).await);
    let bought = fixture.data("uniswap_execute_swap", swap("ETH", "USDC", "0.05")).await;
    assert_eq!(amount(&bought, "amount_in", 18), U256::from(50_000_000_000_000_000_u64));
    assert_eq!(amount(&bought, "amount_out", 6), fixture.world.balance(&usdc).await - held);
    let spent = coin - fixture.coin().await;
    assert!(spent > U256::from(50_000_000_000_000_000_u64), "and the gas on top");

    let (coin, held) = (fixture.coin().await, fixture.world.balance(&usdc).await);
    let sold = fixture.data("uniswap_execute_swap", swap("USDC", "ETH", "100")).await;
    assert_eq!(held - fixture.world.balance(&usdc).await, U256::from(100_000_000));
    let got = amount(&sold, "amount_out", 18);
    let came = fixture.coin().await - coin;
    assert!(came < got && got - came < U256::from(10_000_000_000_000_000_u64), "{got} less gas is {came}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_native_balance_is_swapped_except_for_gas() {
    // The demo wallet, which holds few native tokens.
    let fixture = Fixture::new(0).await;
    let coin = fixture.coin().await;
    let sold = fixture.data("uniswap_execute_swap", swap("ETH", "USDC", "max")).await;
    let (paid, left) = (amount(&sold, "amount_in", 18), fixture.coin().await);
    assert!(paid < coin && left < coin - paid, "gas was paid out of what was left: {paid} of {coin}, {left} left");
    // Four times the maximum gas cost, whose limit is not used up: only a small rest remains.
    assert!(!left.is_zero() && left * U256::from(20) < coin, "{left} of {coin}");
    // Returned, for the next test.
    fixture.data("uniswap_execute_swap", swap("USDC", "ETH", "4000")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsed_swap_signs_nothing() {
    let fixture = Fixture::new(5).await;
    let held = fixture.world.balance(&fixture.world.usdc).await;
    let nonce = fixture.world.nonce().await;
    let call = ToolCall {
        dry_run: true,
        ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(swap("USDC", "WETH", "250")))
    };
    let response = fixture.executor.call(call).await;
    assert_eq!(response.status, CallStatus::Simulated, "{response:#?}");
    let data = response.data.unwrap();
    assert_eq!(amount(&data, "amount_in", 6), U256::from(250_000_000));
    assert!(amount(&data, "amount_out", 18) > U256::ZERO);
    assert_eq!((&data["tx_hash"], &data["block_number"]), (&Value::Null, &Value::Null));
    assert_eq!((fixture.world.balance(&fixture.world.usdc).await, fixture.world.nonce().await), (held, nonce));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowances_are_exact_and_can_be_revoked() {
    let fixture = Fixture::new(7).await;
    let approved = fixture.data("token_approve", json!({"token": "USDC", "amount": "40", "chain": "ethereum"})).await;
    assert_eq!((fixture.of_token().await, fixture.inside().await), (U256::from(40_000_000), U256::from(40_000_000)));
    assert_eq!((&approved["allowance"], &approved["spender"]), (&json!("40"), &json!(fixture.router().to_string())));
    fixture.data("token_revoke", json!({"token": "USDC", "chain": "ethereum"})).await;
    assert_eq!((fixture.of_token().await, fixture.inside().await), (U256::ZERO, U256::ZERO));
    let again = fixture.call("token_revoke", json!({"token": "USDC", "chain": "ethereum"})).await;
    assert_eq!(again.error.as_ref().map(ToolError::code), Some(ErrorCode::ValidationFailed), "{again:?}");

    // A token that permits no change of an allowance except back to zero.
    let mute = others(&fixture, "badNoReturnToken");
    let spender = Address::repeat_byte(0x5e).to_string();
    let params =
        |amount: &str| json!({"token": mute.to_string(), "spender": spender, "amount": amount, "chain": "ethereum"});
    for wanted in ["3", "2"] {
        let response = fixture.call("token_approve", params(wanted)).await;
        // Its price is unknown, so no allowance is granted.
        assert_eq!(response.error.as_ref().map(ToolError::code), Some(ErrorCode::SafetyPriceUnknown), "{response:#?}");
    }
}

fn others(fixture: &Fixture, key: &str) -> Address {
    let book = &fixture.world.client.network().book;
    book.others().find(|(name, _)| *name == key).map(|(_, address)| address).expect("a bad token")
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_tokens_are_refused_with_a_plain_reason() {
    let fixture = Fixture::new(8).await;
    let nonce = fixture.world.nonce().await;
    for key in
        ["badFeeOnTransferToken", "badNoReturnToken", "badHostileSymbolToken", "badLookalikeToken", "badRevertingToken"]
    {
        let response =
            fixture.call("uniswap_execute_swap", swap("WETH", &others(&fixture, key).to_string(), "0.01")).await;
        assert!(matches!(response.status, CallStatus::Blocked | CallStatus::Error), "{key}: {response:#?}");
        let error = response.error.as_ref().expect("why not");
        let told = serde_json::to_string(&response).unwrap();
        assert!(!error.message().chars().any(char::is_control) && !told.contains('\u{202e}'), "{key}: {told}");
        if key == "badLookalikeToken" {
            assert_eq!(error.code(), ErrorCode::TokenLookalike, "{told}");
        }
    }
    assert_eq!(fixture.world.nonce().await, nonce, "nothing was sent");
    let held: U256 = fixture
        .world
        .ask(others(&fixture, "badFeeOnTransferToken"), Erc20::balanceOfCall { owner: fixture.world.account() })
        .await;
    assert_eq!(held, U256::ZERO);
}

/// Wrapping and unwrapping move the same holding unit for unit, count as nothing but gas, and pass in the phase that
/// allows only closes; more than what is held does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_native_token_is_wrapped_and_unwrapped_unit_for_unit_in_any_phase() {
    let fixture = Fixture::new(6).await;
    let weth = fixture.world.weth.clone();
    fixture.phase.send(Phase::Terminal).unwrap();
    let half = U256::from(500_000_000_000_000_000_u64);
    let (coin, held) = (fixture.coin().await, fixture.world.balance(&weth).await);
    let response = fixture.call("wrap_native", json!({"amount": "0.5", "chain": "ethereum"})).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let data = response.data.unwrap();
    assert_eq!((&data["token_in"], &data["token_out"]), (&json!("ETH"), &json!("WETH")));
    assert_eq!((amount(&data, "amount", 18), amount(&data, "received", 18)), (half, half));
    assert_eq!(fixture.world.balance(&weth).await, held + half);
    let gas = coin - fixture.coin().await - half;
    assert!(!gas.is_zero() && gas < U256::from(1_000_000_000_000_000_u64), "{gas}");
    // Half an ether is worth more than a thousand dollars; what counts against the limits is gas at its limit.
    let hints = response.decision_hints.unwrap();
    let counted: f64 = hints["counted_usd"].as_str().unwrap().parse().unwrap();
    assert!(counted > 0.0 && counted < 10.0, "{counted}");

    let data = fixture.data("unwrap_native", json!({"amount": "max", "chain": "ethereum"})).await;
    assert_eq!(amount(&data, "received", 18), held + half);
    assert_eq!(fixture.world.balance(&weth).await, U256::ZERO);
    for (tool, params) in [
        ("unwrap_native", json!({"amount": "1", "chain": "ethereum"})),
        ("wrap_native", json!({"amount": "90000000", "chain": "ethereum"})),
    ] {
        let refused = fixture.call(tool, params).await;
        assert_eq!(refused.error.as_ref().map(ToolError::code), Some(ErrorCode::InsufficientBalance), "{refused:#?}");
    }
    // The whole balance would leave nothing for gas.
    let all = TokenAmount::ether(fixture.coin().await).to_string();
    let stuck = fixture.call("wrap_native", json!({"amount": all, "chain": "ethereum"})).await;
    assert_eq!(stuck.error.as_ref().map(ToolError::code), Some(ErrorCode::ValidationFailed), "{stuck:#?}");
    let nothing = fixture.call("unwrap_native", json!({"amount": "max", "chain": "ethereum"})).await;
    assert_eq!(nothing.error.as_ref().map(ToolError::code), Some(ErrorCode::ValidationFailed), "{nothing:#?}");
}

/// An estimate equals what the same swap uses, and leaves nothing behind: no transaction, no reservation, and a permit
/// that cannot be committed.
#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_of_gas_equals_the_action_and_leaves_nothing_to_commit() {
    let fixture = Fixture::new(7).await;
    let (nonce, coin) = (fixture.world.nonce().await, fixture.coin().await);
    let params = json!({"tool": "uniswap_execute_swap", "params": swap("USDC", "WETH", "60")});
    let estimate = fixture.data("estimate_gas", params).await;
    assert_eq!((fixture.world.nonce().await, fixture.coin().await), (nonce, coin));
    assert!(fixture.world.stored().is_empty(), "nothing was signed");
    let trail = fixture.world.trail();
    let kinds: Vec<&str> = trail.iter().map(|(kind, _)| kind.as_str()).collect();
    let (_, rehearsed) =
        trail.iter().find(|(kind, _)| kind == "permit:rehearsed").unwrap_or_else(|| panic!("{kinds:?}"));
    let permit_id = serde_json::from_value(rehearsed["permit_id"].clone()).unwrap();
    let refused = fixture.world.pipeline.commit(permit_id, bardo::safety::approval::Consent::None).await;
    assert!(refused.is_err(), "the permit is used up");
    assert_eq!(fixture.world.nonce().await, nonce);

    let response = fixture.call("uniswap_execute_swap", swap("USDC", "WETH", "60")).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let transactions = response.decision_hints.unwrap()["transactions"].clone();
    let transactions = transactions.as_array().unwrap();
    let used: u64 = transactions.iter().map(|one| one["gas_used"].as_u64().unwrap()).sum();
    assert_eq!(estimate["transaction_count"], transactions.len());
    // Minimum and deadline in the calldata differ, and other tests move the pools meanwhile, at most over a tick.
    let estimated = estimate["gas_used"].as_u64().unwrap();
    assert!(estimated.abs_diff(used) <= used / 6, "{estimated} {used}");
    // The cost is within the bound, and of the estimate's size: other tests fill blocks meanwhile, each of which moves the
    // base fee by up to an eighth.
    let paid = coin - fixture.coin().await;
    let (cost, worst) = (amount(&estimate, "gas_cost", 18), amount(&estimate, "worst_cost", 18));
    assert!(paid <= worst && cost <= worst, "{paid} {estimate:#}");
    assert!(cost < paid * U256::from(4) && paid < cost * U256::from(4), "{cost} {paid}");
    assert_eq!(estimate["data_fee"], "0");
    // ETH is worth about 3,400 dollars on the devnet.
    let dollars: f64 = estimate["worst_cost_usd"].as_str().unwrap().parse().unwrap();
    let coins: f64 = estimate["worst_cost"].as_str().unwrap().parse().unwrap();
    assert!((3_000.0..3_800.0).contains(&(dollars / coins)), "{dollars} {coins}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_has_the_data_fee_of_a_rollup_and_none_exists_for_a_read_or_a_blocked_action() {
    let fixture = Fixture::new(7).await;
    let refused = async |params: Value| fixture.call("estimate_gas", params).await.error.unwrap().code();
    for tool in ["get_balances", "estimate_gas"] {
        assert_eq!(refused(json!({"tool": tool, "params": {}})).await, ErrorCode::ValidationFailed, "{tool}");
    }
    assert_eq!(refused(json!({"tool": "no_such_tool", "params": {}})).await, ErrorCode::ToolUnknown);
    let dear = json!({"tool": "uniswap_execute_swap", "params": swap("USDC", "WETH", "99999999")});
    assert_eq!(refused(dear).await, ErrorCode::SafetySpendingLimitExceeded);
    // The next fixture has the same account, which one fixture at a time may use.
    drop(fixture);

    // PUSH7 10^15, PUSH0, MSTORE, PUSH1 32, PUSH0, RETURN: a thousandth of a native token for every transaction.
    let code = alloy::primitives::bytes!("66038d7ea4c680005f5260205ff3");
    let mut world = TestHarness::new(7).await;
    world.pipeline = world.as_rollup(Address::repeat_byte(0x0f), code).await;
    let (acting, _phase) = acting(&world, world.pipeline.clone(), ApprovalMode::Never);
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let executor = executor(catalog, seen(&world), world.fabric(), None, Some(acting));
    let params = json!({"tool": "wrap_native", "params": {"amount": "0.1", "chain": "ethereum"}});
    let response = executor.call(ToolCall::new("estimate_gas", ToolInput::Json(params))).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let data = response.data.unwrap();
    assert_eq!((&data["transaction_count"], &data["data_fee"]), (&json!(1), &json!("0.002")), "twice the oracle's fee");
    let limit = U256::from(data["gas_limit"].as_u64().unwrap());
    let fee = amount(&data, "worst_cost", 18) - amount(&data, "data_fee", 18);
    assert!((fee % limit).is_zero(), "the rest is the gas limit at one price");
}
