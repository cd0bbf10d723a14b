//! Asynchronous vaults (ERC-7540) through executor and pipeline on the devnet: a request is partial until it was settled and
//! claimed, one that is stuck is said to be, one can be cancelled, and the arithmetic of shares is the contract's.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::Phase;
use bardo::base::units::TokenAmount;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::erc7540::math::Valuation;
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::sandbox::keys::DevnetAccount;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::{TestHarness, devnet};

alloy::sol! {
    /// Written here from the published interface, apart from the code under test.
    interface Managed {
        function totalAssets() external view returns (uint256);
        function totalSupply() external view returns (uint256);
        function convertToAssets(uint256 shares) external view returns (uint256);
        function convertToShares(uint256 assets) external view returns (uint256);
        function pendingDepositRequest(uint256 requestId, address controller) external view returns (uint256);
        function claimableDepositRequest(uint256 requestId, address controller) external view returns (uint256);
        function updateNewTotalAssets(uint256 newTotalAssets) external;
        function settleDeposit(uint256 newTotalAssets) external;
    }
}

struct Fixture {
    world: TestHarness,
    executor: Executor,
    phase: watch::Sender<Phase>,
    usdc: Address,
    rules: Arc<OperatorPolicyEngine>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// Account with $4,000 of USDC more, under the demo policy that also names the devnet's other asynchronous vaults.
    async fn new(account: usize) -> Self {
        let world = TestHarness::new(account).await;
        let usdc = world.contract_of(&world.usdc);
        let to = world.account();
        world.send(usdc, OpenMint::mintCall { to, value: U256::from(4_000_000_000_u64) }).await;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let names = ["asyncVault", "stuckAsyncVault", "pausedAsyncVault", "cappedAsyncVault"];
        let named: Vec<String> = names.iter().map(|key| format!("\"devnet-ethereum:{}\"", vault(key))).collect();
        let lines = format!(
            "approve_first_seen = false\nrequire_human_approval_above_usd = \"none\"\nallowed_vaults = [{}]\n",
            named.join(", ")
        );
        let rules = ruled(&world, folder.path(), &store, &lines);
        let pipeline = world.pipeline_under(rules.clone(), &store);
        let (acting, phase) = acting(&world, pipeline, ApprovalMode::Never);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let tools = seen(&world).under(Arc::clone(&rules));
        let executor = executor(catalog, tools, world.fabric(), Some(store), Some(acting));
        Self { world, executor, phase, usdc, rules, _folder: folder }
    }

    async fn held(&self, token: Address) -> U256 {
        self.world.ask(token, Erc20::balanceOfCall { owner: self.world.account() }).await
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    /// Calls a tool that reaches this status, with everything on the chain as declared.
    async fn reach(&self, status: CallStatus, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, status, "{response:#?}");
        let hints = response.decision_hints.as_ref().unwrap();
        let state = if status == CallStatus::Partial { "placed" } else { "done" };
        assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!(state)), "{hints:#}");
        response.data.unwrap()
    }

    async fn refused(&self, tool: &str, params: Value) -> (Option<ErrorCode>, String) {
        let response = self.call(tool, params).await;
        assert!(!matches!(response.status, CallStatus::Success | CallStatus::Partial), "{response:#?}");
        let error = response.error.as_ref();
        (error.map(ToolError::code), format!("{:?} {error:?}", response.explanation))
    }

    async fn state(&self, vault: Address) -> Value {
        let response = self.call("get_vault_state", json!({"vault_address": vault, "chain": "ethereum"})).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        response.data.unwrap()
    }

    /// Value of everything by a Golem's meter, and whether it may tell a loss.
    async fn equity(&self) -> (f64, bool) {
        let terms = LifeTerms { born_at: 0, high_water: None, lifespan_seconds: None };
        let world = seen(&self.world).under(Arc::clone(&self.rules));
        let mut meter = VitalsMeter::new(Arc::new(world), terms).unwrap();
        let (reading, worth) = meter.read(SystemClock.now_millis()).await;
        (worth.equity.unwrap().to_string().parse().unwrap(), reading.feed_grade)
    }
}

/// One of the devnet's asynchronous vaults.
fn vault(key: &str) -> Address {
    devnet().deployment.contracts[key]
}

fn raw(text: &Value, decimals: u8) -> U256 {
    TokenAmount::parse(text.as_str().unwrap(), decimals).unwrap().raw()
}

/// Mines blocks until the devnet's manager has settled, at most as many as it may take.
async fn settled(fixture: &Fixture, vault: Address) {
    let controller = fixture.world.account();
    for _ in 0..12 {
        let pending = Managed::pendingDepositRequestCall { requestId: U256::ZERO, controller };
        if fixture.world.ask(vault, pending).await.is_zero() {
            return;
        }
        a_block(fixture).await;
    }
    panic!("the manager did not settle");
}

/// The whole way in and out of the vault of the address book, with the balances and views of the contract at each step, and an
/// equity that stays what it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_is_requested_settled_and_claimed() {
    let fixture = Fixture::new(2).await;
    let managed = vault("asyncVault");
    let named = json!({"vault_address": managed, "chain": "ethereum"});
    let with = |field: &str, value: &str| {
        let mut params = named.clone();
        params[field] = json!(value);
        params
    };
    let (begun, start) = (fixture.equity().await.0, fixture.held(fixture.usdc).await);
    let near = |equity: f64, what: &str| assert!((equity - begun).abs() < 25.0, "{what}: {begun} {equity}");

    let tried = fixture.call("vault_simulate_deposit", with("amount", "510")).await.data.unwrap();
    // By hand: a share is worth 1.02 USDC, so 510 are 500 shares, but for a virtual unit.
    assert!(tried["shares_at_last_valuation"].as_str().unwrap().starts_with("500.0000"), "{tried:#}");
    assert_eq!((&tried["shares_received"], &tried["returned"]), (&Value::Null, &json!("510")), "{tried:#}");

    let asked = fixture.reach(CallStatus::Partial, "vault_deposit", with("amount", "510")).await;
    let assets = U256::from(510_000_000);
    assert_eq!((raw(&asked["amount"], 6), &asked["shares"]), (assets, &json!("0")));
    assert_eq!(start - fixture.held(fixture.usdc).await, assets);
    let controller = fixture.world.account();
    let pending = Managed::pendingDepositRequestCall { requestId: U256::ZERO, controller };
    let state = fixture.state(managed).await;
    if fixture.world.ask(managed, pending).await == assets {
        let open = &state["requests"];
        assert_eq!((&open["pending_deposit"], &open["cancellable"]), (&json!("510"), &json!(true)), "{state:#}");
        near(fixture.equity().await.0, "requested");
    }

    settled(&fixture, managed).await;
    let state = fixture.state(managed).await;
    assert_eq!(state["requests"]["claimable_deposit"], "510", "{state:#}");
    near(fixture.equity().await.0, "settled");
    let (refusal, why) = fixture.refused("vault_cancel_request", named.clone()).await;
    assert!(refusal == Some(ErrorCode::ValidationFailed) && why.contains("vault_claim"), "{why}");
    // A claim passes where nothing new does.
    fixture.phase.send(Phase::Terminal).unwrap();
    let (refusal, why) = fixture.refused("vault_deposit", with("amount", "10")).await;
    assert!(refusal.is_some(), "{why}");
    let claim = |request: &str| json!({"vault_address": managed, "request": request, "chain": "ethereum"});
    let claimed = fixture.reach(CallStatus::Success, "vault_claim", claim("deposit")).await;
    let shares = fixture.held(managed).await;
    assert_eq!((raw(&claimed["shares"], 18), raw(&claimed["amount"], 6)), (shares, assets));
    assert!(fixture.state(managed).await["requests"].is_null());
    let (equity, is_whole) = fixture.equity().await;
    near(equity, "claimed");
    assert!(is_whole, "everything would be paid");

    // And out again, in the last phase: all of it at once.
    let asked = fixture.reach(CallStatus::Partial, "vault_withdraw", with("shares", "max")).await;
    assert_eq!((raw(&asked["shares"], 18), &asked["amount"]), (shares, &json!("0")));
    assert_eq!(fixture.held(managed).await, U256::ZERO);
    near(fixture.equity().await.0, "withdrawal requested");
    for _ in 0..12 {
        if fixture.state(managed).await["requests"]["claimable_withdrawal"] != "0" {
            break;
        }
        a_block(&fixture).await;
    }
    near(fixture.equity().await.0, "withdrawal settled");
    let before = fixture.held(fixture.usdc).await;
    let paid = fixture.reach(CallStatus::Success, "vault_claim", claim("withdrawal")).await;
    assert_eq!(raw(&paid["amount"], 6), fixture.held(fixture.usdc).await - before);
    // Rounded in favour of the vault, twice.
    let lost = start - fixture.held(fixture.usdc).await;
    assert!(lost <= U256::from(3), "{lost}");
}

/// A request to the vault whose manager never settles waits, says so, and can be cancelled. Once it was valued it can not, which is
/// said as well, and counts as nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_request_is_told_and_cancelled_while_it_can_be() {
    let fixture = Fixture::new(3).await;
    let stuck = vault("stuckAsyncVault");
    let named = json!({"vault_address": stuck, "chain": "ethereum"});
    let deposit = json!({"vault_address": stuck, "amount": "200", "chain": "ethereum"});
    let (begun, start) = (fixture.equity().await.0, fixture.held(fixture.usdc).await);
    let (refusal, why) = fixture.refused("vault_cancel_request", named.clone()).await;
    assert_eq!(refusal, Some(ErrorCode::ValidationFailed), "{why}");
    fixture.reach(CallStatus::Partial, "vault_deposit", deposit.clone()).await;
    for _ in 0..6 {
        a_block(&fixture).await;
    }
    let state = fixture.state(stuck).await;
    assert_eq!(
        (&state["requests"]["pending_deposit"], &state["requests"]["cancellable"]),
        (&json!("200"), &json!(true))
    );
    let (refusal, why) = fixture
        .refused("vault_claim", json!({"vault_address": stuck, "request": "deposit", "chain": "ethereum"}))
        .await;
    assert!(refusal == Some(ErrorCode::ValidationFailed) && why.contains("not settled yet"), "{why}");
    let back = fixture.reach(CallStatus::Success, "vault_cancel_request", named.clone()).await;
    assert_eq!((&back["amount"], fixture.held(fixture.usdc).await), (&json!("200"), start));

    fixture.reach(CallStatus::Partial, "vault_deposit", deposit).await;
    let (equity, is_whole) = fixture.equity().await;
    assert!((equity - begun).abs() < 25.0 && is_whole, "{begun} {equity}");
    let total = fixture.world.ask(stuck, Managed::totalAssetsCall {}).await;
    as_manager(&fixture, stuck, Managed::updateNewTotalAssetsCall { newTotalAssets: total }).await;
    let state = fixture.state(stuck).await;
    assert_eq!(state["requests"]["cancellable"], json!(false), "{state:#}");
    assert_eq!(state["findings"][0]["kind"], "request_stuck", "{state:#}");
    let (refusal, why) = fixture.refused("vault_cancel_request", named).await;
    assert!(refusal == Some(ErrorCode::SafetySimulationFailed) && why.contains("RequestNotCancelable"), "{why}");
    // Nobody pays it back now; that ends no life.
    let (equity, is_whole) = fixture.equity().await;
    assert!((begun - equity - 200.0).abs() < 25.0 && !is_whole, "{begun} {equity}");
    as_manager(&fixture, stuck, Managed::settleDepositCall { newTotalAssets: total }).await;
    let (equity, is_whole) = fixture.equity().await;
    assert!((begun - equity).abs() < 25.0 && is_whole, "{begun} {equity}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_and_a_full_vault_take_nothing() {
    let fixture = Fixture::new(7).await;
    let params = |key: &str, amount: &str| json!({"vault_address": vault(key), "amount": amount, "chain": "ethereum"});
    let (refusal, why) = fixture.refused("vault_deposit", params("pausedAsyncVault", "100")).await;
    assert!(refusal == Some(ErrorCode::ValidationFailed) && why.contains("paused"), "{why}");
    let tried = fixture.call("vault_simulate_deposit", params("pausedAsyncVault", "100")).await.data.unwrap();
    assert_eq!((&tried["findings"][0]["kind"], &tried["returned"]), (&json!("paused"), &Value::Null), "{tried:#}");
    let (refusal, why) = fixture.refused("vault_deposit", params("cappedAsyncVault", "1000.000001")).await;
    assert!(refusal == Some(ErrorCode::ValidationFailed) && why.contains("at most"), "{why}");
    fixture.reach(CallStatus::Partial, "vault_deposit", params("cappedAsyncVault", "50")).await;
}

/// Our arithmetic of shares equals the contract's views: 1,000 amounts of both kinds, from one unit to 10^33, drawn from a fixed
/// seed.
#[tokio::test(flavor = "multi_thread")]
async fn shares_are_computed_as_the_contract_does() {
    let fixture = Fixture::new(1).await;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for key in ["asyncVault", "stuckAsyncVault"] {
        let managed = vault(key);
        let valuation = async || {
            let assets = fixture.world.ask(managed, Managed::totalAssetsCall {}).await;
            let shares = fixture.world.ask(managed, Managed::totalSupplyCall {}).await;
            Valuation { assets, shares, asset_decimals: 6 }
        };
        let mut compared = 0;
        while compared < 500 {
            let valued = valuation().await;
            let mut seen = Vec::new();
            for _ in 0..50 {
                let amount = U256::from(u128::from(draw()) << (draw() % 48)) >> (draw() % 64);
                let of_assets = fixture.world.ask(managed, Managed::convertToSharesCall { assets: amount }).await;
                let of_shares = fixture.world.ask(managed, Managed::convertToAssetsCall { shares: amount }).await;
                seen.push((amount, of_assets, of_shares));
            }
            // Other tests use the same devnet.
            if valuation().await != valued {
                continue;
            }
            for (amount, of_assets, of_shares) in seen {
                assert_eq!(valued.shares_for(amount), Some(of_assets), "{amount} {valued:?}");
                assert_eq!(valued.assets_for(amount), Some(of_shares), "{amount} {valued:?}");
                compared += 1;
            }
        }
    }
}

/// Mines a block with a transaction of somebody else.
async fn a_block(fixture: &Fixture) {
    let trader = DevnetAccount::inhabitant("first trader").unwrap();
    let mint = OpenMint::mintCall { to: Address::repeat_byte(0x77), value: U256::ONE };
    fixture.world.send_by(&trader, fixture.usdc, mint).await;
}

/// Sends a call of the devnet's vault manager.
async fn as_manager(fixture: &Fixture, to: Address, call: impl alloy::sol_types::SolCall + Clone) {
    let manager = DevnetAccount::inhabitant("vault manager").unwrap();
    fixture.world.send_by(&manager, to, call).await;
}
