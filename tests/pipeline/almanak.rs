//! The dialect `almanak` through executor and pipeline on the devnet: what its answers claim is what the chain's contracts
//! have, a dry run signs nothing, and a bundle is done once.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::config::ConfigFlags;
use bardo::base::units::TokenAmount;
use bardo::chain::network::KnownContract;
use bardo::engine::{ApprovalMode, CallStatus, ToolCall, ToolInput};
use bardo::tools::dialect::almanak::AlmanakSession;
use bardo::tools::dialect::{DialectResponse, ExecutorTools};
use serde_json::{Value, json};

use bardo_testkit::engine::{Engine, still};

/// Session of the dialect over a whole engine with a devnet of its own.
struct Fixture {
    engine: Engine,
    session: AlmanakSession,
    _home: tempfile::TempDir,
}

impl Fixture {
    /// Under the demo policy with these lines.
    async fn under(policy: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy-devnet.toml"), format!("preset = \"demo\"\n{policy}")).unwrap();
        let engine = Engine::open(home.path(), &ConfigFlags::default(), || still(7, true)).await;
        let session = session(&engine, ApprovalMode::Always);
        Self { engine, session, _home: home }
    }

    async fn call(&self, tool: &str, params: Value) -> DialectResponse {
        self.session.call(tool, ToolInput::Json(params)).await
    }

    /// Data of a call with this status.
    async fn ends(&self, status: CallStatus, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, status, "{tool}: {response:#?}");
        response.data.unwrap()
    }

    fn account(&self) -> Address {
        self.engine.world.account.unwrap()
    }

    async fn nonce(&self) -> u64 {
        let chain = self.engine.world.chain("ethereum").unwrap();
        chain.client.provider().get_transaction_count(self.account()).await.unwrap()
    }

    /// Balance by the contract itself, in raw units.
    async fn balance(&self, symbol: &str) -> U256 {
        let chain = self.engine.world.chain("ethereum").unwrap();
        let token = chain.network().book.tokens().iter().find(|token| token.symbol == symbol).unwrap().address;
        let call = Erc20::balanceOfCall { owner: self.account() };
        let request = TransactionRequest::default().to(token).input(call.abi_encode().into());
        let answer = chain.client.provider().call(request).await.unwrap();
        Erc20::balanceOfCall::abi_decode_returns(&answer).unwrap()
    }
}

fn session(engine: &Engine, approve: ApprovalMode) -> AlmanakSession {
    let template = ToolCall { approve: Some(approve), ..ToolCall::new(String::new(), ToolInput::Text(String::new())) };
    AlmanakSession::new(Arc::new(ExecutorTools::new(engine.executor.clone(), template)))
}

fn raw(amount: &Value, decimals: u8) -> U256 {
    TokenAmount::parse(amount.as_str().unwrap(), decimals).unwrap().raw()
}

fn swap(amount: &str) -> Value {
    json!({"token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_is_what_the_chain_says_and_a_dry_run_signs_nothing() {
    let fixture = Fixture::under("").await;
    let (nonce, weth, usdc) = (fixture.nonce().await, fixture.balance("WETH").await, fixture.balance("USDC").await);
    let mut dry = swap("0.05");
    dry["dry_run"] = json!(true);
    let simulated = fixture.ends(CallStatus::Simulated, "swap_tokens", dry).await;
    assert_eq!(simulated["tx_hash"], Value::Null);
    assert_eq!((fixture.nonce().await, fixture.balance("WETH").await), (nonce, weth), "nothing was sent");

    let done = fixture.ends(CallStatus::Success, "swap_tokens", swap("0.05")).await;
    // 0.05 WETH is 5·10^16 of its smallest units.
    assert_eq!(weth - fixture.balance("WETH").await, U256::from(50_000_000_000_000_000_u64));
    assert_eq!(raw(&done["amount_out"], 6), fixture.balance("USDC").await - usdc);
    assert_eq!(done["amount_in"], "0.05");
    let gas: f64 = done["gas_usd"].as_str().unwrap().parse().unwrap();
    assert!(gas > 0.0 && gas < 50.0, "{done}");
    let hash = done["tx_hash"].as_str().unwrap().parse().unwrap();
    let chain = fixture.engine.world.chain("ethereum").unwrap();
    let receipt = chain.client.provider().get_transaction_receipt(hash).await.unwrap().unwrap();
    assert!(receipt.status() && receipt.from == fixture.account());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiled_bundle_is_executed_once_and_only_by_its_session() {
    let fixture = Fixture::under("").await;
    let nonce = fixture.nonce().await;
    let intent = json!({"intent_type": "SWAP", "chain": "ethereum",
        "params": {"from_token": "WETH", "to_token": "USDC", "amount": "0.05", "max_slippage": "0.005"}});
    let compiled = fixture.ends(CallStatus::Success, "compile_intent", intent.clone()).await;
    let bundle = json!({"bundle_id": compiled["bundle_id"]});
    assert!(!compiled["actions"].as_array().unwrap().is_empty());
    let simulated = fixture.ends(CallStatus::Simulated, "simulate_intent", bundle.clone()).await;
    assert_eq!(simulated["success"], true, "{simulated}");
    let mut dry = bundle.clone();
    dry["dry_run"] = json!(true);
    assert_eq!(fixture.ends(CallStatus::Simulated, "execute_compiled_bundle", dry).await["tx_hashes"], json!([]));
    assert_eq!(fixture.nonce().await, nonce, "nothing was sent so far");

    // Another session, which did not compile it, cannot execute it.
    let other = session(&fixture.engine, ApprovalMode::Always);
    let response = other.call("execute_compiled_bundle", ToolInput::Json(bundle.clone())).await;
    let error = response.error.unwrap();
    assert!(error.message.contains("another process compiled it"), "{}", error.message);
    let mut elsewhere = bundle.clone();
    elsewhere["chain"] = json!("base");
    let response = fixture.call("execute_compiled_bundle", elsewhere).await;
    assert!(response.error.unwrap().message.contains("the bundle is on ethereum"));

    let usdc = fixture.balance("USDC").await;
    let mut execute = bundle.clone();
    execute["require_simulation"] = json!(false);
    let done = fixture.ends(CallStatus::Success, "execute_compiled_bundle", execute).await;
    assert_eq!(done["success"], true);
    let hashes = done["tx_hashes"].as_array().unwrap();
    assert_eq!(fixture.nonce().await - nonce, hashes.len() as u64);
    assert!(fixture.balance("USDC").await > usdc);
    let again = fixture.call("execute_compiled_bundle", bundle).await;
    assert!(again.error.unwrap().message.contains("was already executed"));
    assert_eq!(fixture.nonce().await - nonce, hashes.len() as u64, "nothing more was sent");
}

/// The native policy holds: the dialect's own threshold of ten thousand dollars permits nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_policy_holds_whatever_the_dialects_table_says() {
    let fixture = Fixture::under("max_single_trade_usd = 100\n").await;
    let nonce = fixture.nonce().await;
    // Purchases: leaving for a stablecoin counts as little more than its gas.
    let buy = |amount: &str| json!({"token_in": "USDC", "token_out": "WETH", "amount": amount, "chain": "ethereum"});
    let response = fixture.call("swap_tokens", buy("170")).await;
    assert_eq!(response.status, CallStatus::Blocked, "{response:#?}");
    let violations = &response.decision_hints.as_ref().unwrap()["native_error"]["details"]["violations"];
    assert_eq!(violations[0]["rule"], "max_single_trade_usd");
    assert_eq!(json!(response.error.unwrap().error_code), "risk_blocked");
    let intent = json!({"intent_type": "swap", "params": buy("170"), "chain": "ethereum"});
    let checked = fixture.ends(CallStatus::Success, "validate_risk", intent.clone()).await;
    assert_eq!(checked["allowed"], false);
    assert!(checked["violations"][0].as_str().unwrap().starts_with("max_single_trade_usd"), "{checked}");
    let small = json!({"intent_type": "swap", "params": buy("30"), "chain": "ethereum"});
    assert_eq!(fixture.ends(CallStatus::Success, "validate_risk", small).await["allowed"], true);
    // A bundle of a blocked action is none.
    assert_eq!(fixture.call("compile_intent", intent).await.status, CallStatus::Blocked);
    // What needs the operator's approval does not go on without one.
    let asked = Fixture::under("require_human_approval_above_usd = 100\n").await;
    let never = session(&asked.engine, ApprovalMode::Never);
    let response = never.call("swap_tokens", ToolInput::Json(buy("200"))).await;
    let native = &response.decision_hints.unwrap()["native_error"]["code"];
    assert_eq!((response.status, native), (CallStatus::Blocked, &json!("APPROVAL_REQUIRED")));
    assert_eq!(fixture.nonce().await, nonce);
}

/// Wraps, supplies, borrows, repays and withdraws; opens a position, reads and closes it. Amounts are those of the
/// contracts.
#[tokio::test(flavor = "multi_thread")]
async fn lending_liquidity_and_wrapping_are_done_for_real() {
    let fixture = Fixture::under("").await;
    let weth = fixture.balance("WETH").await;
    let wrap = json!({"token": "WETH", "amount": "0.2", "chain": "ethereum"});
    let wrapped = fixture.ends(CallStatus::Success, "wrap_native", wrap.clone()).await;
    assert_eq!((&wrapped["amount_wrapped"], &wrapped["token"]), (&json!("0.2"), &json!("WETH")));
    assert_eq!(fixture.balance("WETH").await - weth, U256::from(200_000_000_000_000_000_u64));
    fixture.ends(CallStatus::Success, "unwrap_native", wrap).await;
    assert_eq!(fixture.balance("WETH").await, weth);

    // What the policy refuses, whatever is supplied before, is refused before: the collateral stays in the wallet.
    let beyond = json!({"token": "USDC", "amount": "100000000", "collateral_token": "WETH", "collateral_amount": "0.3",
        "chain": "ethereum"});
    let (held, nonce) = (fixture.balance("WETH").await, fixture.nonce().await);
    let response = fixture.call("borrow_lending", beyond).await;
    assert!(matches!(response.status, CallStatus::Blocked | CallStatus::Error), "{response:#?}");
    assert_eq!((fixture.balance("WETH").await, fixture.nonce().await), (held, nonce), "{response:#?}");

    let usdc = fixture.balance("USDC").await;
    let borrow = json!({"token": "USDC", "amount": "100", "collateral_token": "WETH", "collateral_amount": "0.3",
        "chain": "ethereum"});
    let response = fixture.call("borrow_lending", borrow).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    assert_eq!(response.data.unwrap()["amount_borrowed"], "100");
    assert_eq!(response.decision_hints.unwrap()["collateral"]["status"], "success");
    assert_eq!(weth - fixture.balance("WETH").await, U256::from(300_000_000_000_000_000_u64));
    assert_eq!(fixture.balance("USDC").await - usdc, U256::from(100_000_000));
    let position = fixture.ends(CallStatus::Success, "list_lending_positions", json!({"chain": "ethereum"})).await;
    let debt: f64 = position["total_debt_usd"].as_str().unwrap().parse().unwrap();
    assert!((debt - 100.0).abs() < 1.0, "{position}");
    // Aave's reserve of WETH on the devnet lends at one loan-to-value; by the reserve itself.
    let listed =
        fixture.ends(CallStatus::Success, "list_lending_reserves", json!({"chain": "ethereum", "asset": "WETH"})).await;
    assert_eq!(position["ltv_bps"], listed["reserves"][0]["ltv_bps"], "{position} {listed}");
    let repay = json!({"token": "USDC", "amount": "all", "chain": "ethereum"});
    fixture.ends(CallStatus::Success, "repay_lending", repay).await;
    let withdraw = json!({"token": "WETH", "amount": "all", "chain": "ethereum"});
    fixture.ends(CallStatus::Success, "withdraw_lending", withdraw).await;
    let position = fixture.ends(CallStatus::Success, "list_lending_positions", json!({"chain": "ethereum"})).await;
    assert_eq!((&position["health_factor"], &position["total_debt_usd"]), (&json!("∞"), &json!("0")));

    let pool = json!({"token_a": "WETH", "token_b": "USDC", "fee_tier": 3000, "chain": "ethereum"});
    let state = fixture.ends(CallStatus::Success, "get_pool_state", pool).await;
    let price: f64 = state["current_price"].as_str().unwrap().parse().unwrap();
    // Named in one order of the tokens; the bounds are the pool's own price and a tenth around it.
    let open = json!({"token_a": "USDC", "token_b": "WETH", "amount_a": "100", "amount_b": "0.1", "fee_tier": 3000,
        "price_lower": format!("{:.18}", price * 0.9), "price_upper": format!("{:.18}", price * 1.1), "chain": "ethereum"});
    let opened = fixture.ends(CallStatus::Success, "open_lp_position", open).await;
    let id = opened["position_id"].as_str().unwrap().to_owned();
    let chain = fixture.engine.world.chain("ethereum").unwrap();
    let manager = chain.network().book.contract(KnownContract::V3PositionManager).unwrap();
    let read =
        fixture.ends(CallStatus::Success, "get_lp_position", json!({"position_id": id, "chain": "ethereum"})).await;
    assert_eq!((&read["in_range"], &read["liquidity"]), (&json!(true), &opened["liquidity"]), "{read}");
    assert_eq!(read["position_manager"], manager.to_string());
    let listed = fixture.ends(CallStatus::Success, "list_lp_positions", json!({"chain": "ethereum"})).await;
    assert_eq!((listed["count"].as_u64(), &listed["positions"][0]["position_id"]), (Some(1), &json!(id)), "{listed}");
    let closed =
        fixture.ends(CallStatus::Success, "close_lp_position", json!({"position_id": id, "chain": "ethereum"})).await;
    assert!(closed["tx_hash"].is_string(), "{closed}");
    let gone = fixture.call("get_lp_position", json!({"position_id": id, "chain": "ethereum"})).await;
    assert_eq!(json!(gone.error.unwrap().error_code), "validation_error");
}

/// The tools of a vault's manager: the vault's roles and its settlement are those of the contract, another role is refused, and the
/// policy decides which vault is settled.
#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_vaults_manager_act_for_the_account_alone() {
    alloy::sol! {
        /// Written here from the published interface, apart from the code under test.
        interface Managed {
            function owner() external view returns (address);
        }
    }
    let fixture = Fixture::under("").await;
    let me = fixture.account().to_string();
    let chain = fixture.engine.world.chain("ethereum").unwrap();
    let usdc = chain.network().book.tokens().iter().find(|token| token.symbol == "USDC").unwrap().address;
    let deploy = |owner: &str| {
        json!({"chain": "ethereum", "name": "A", "symbol": "A", "underlying_token_address": usdc, "safe_address": me,
            "admin_address": owner, "fee_receiver_address": me, "deployer_address": me})
    };
    let nonce = fixture.nonce().await;
    let stranger = fixture.call("deploy_vault", deploy("0x000000000000000000000000000000000000bEEF")).await;
    assert!(stranger.error.is_some() && fixture.nonce().await == nonce, "{stranger:#?}");
    let made = fixture.ends(CallStatus::Success, "deploy_vault", deploy(&me)).await;
    let vault: Address = made["vault_address"].as_str().unwrap().parse().unwrap();
    let ask = async |call: Vec<u8>| {
        let request = TransactionRequest::default().to(vault).input(call.into());
        U256::from_be_slice(&chain.client.provider().call(request).await.unwrap())
    };
    let owner = ask(Managed::ownerCall {}.abi_encode()).await;
    assert_eq!(Address::from_word(owner.into()), fixture.account());
    let settle = json!({"vault_address": vault, "chain": "ethereum", "safe_address": me, "valuator_address": me});
    let nonce = fixture.nonce().await;
    let unnamed = fixture.call("settle_vault", settle).await;
    assert!(unnamed.error.is_some() && fixture.nonce().await == nonce, "not in allowed_vaults: {unnamed:#?}");
    // The account's rules on chain do not name its functions either.
    let end = json!({"vault_address": vault, "chain": "ethereum", "safe_address": me, "valuator_address": me});
    let ended = fixture.call("teardown_vault", end).await;
    assert!(ended.error.is_some() && fixture.nonce().await == nonce, "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_the_dialect_are_kept_in_the_ledger() {
    let fixture = Fixture::under("").await;
    let saved = fixture.ends(CallStatus::Success, "save_agent_state", json!({"state": {"step": 3}})).await;
    assert_eq!(saved["version"], 1);
    assert!(saved["checksum"].as_str().unwrap().starts_with("0x"));
    let other = session(&fixture.engine, ApprovalMode::Never);
    let loaded = other.call("load_agent_state", ToolInput::Json(json!({}))).await;
    assert_eq!(loaded.data.unwrap(), json!({"state": {"step": 3}, "version": 1}));
    let named = json!({"deployment_id": "second"});
    assert_eq!(fixture.ends(CallStatus::Success, "load_agent_state", named).await, json!({"state": {}, "version": 0}));
    let decision = json!({"decision_summary": "hold", "tool_calls": [{"name": "get_price"}]});
    assert_eq!(fixture.ends(CallStatus::Success, "record_agent_decision", decision).await["recorded"], true);
}
