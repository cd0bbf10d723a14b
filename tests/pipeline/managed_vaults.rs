//! The manager's side of asynchronous vaults on the devnet: a vault is deployed, settled, invested, harvested, capped, paused and
//! torn down, and what its depositors have is never the operator's.

use std::sync::{Arc, LazyLock};

use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolValue as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::erc7540::LagoonInit;
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::contracts::KnownContract;
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::{Phase, StopLevel};
use bardo::base::units::TokenAmount;
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::SenderRules;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::stop::StopFile;
use bardo::sandbox::Sandbox;
use bardo::sandbox::contracts::BundledContract;
use bardo::sandbox::keys::DevnetAccount;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::{TestHarness, sandbox};

/// Devnet of these tests alone, so that nobody else moves the account's balances.
static OWN: LazyLock<Sandbox> = LazyLock::new(|| sandbox(29));

alloy::sol! {
    /// Written here from the published interfaces, apart from the code under test.
    interface Managed {
        struct Roles {
            address whitelistManager;
            address feeReceiver;
            address safe;
            address feeRegistry;
            address valuationManager;
        }
        function owner() external view returns (address);
        function getRolesStorage() external view returns (Roles memory);
        function paused() external view returns (bool);
        function maxCap() external view returns (uint256);
        function totalAssets() external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
        function requestDeposit(uint256 assets, address controller, address owner) external returns (uint256);
        function requestRedeem(uint256 shares, address controller, address owner) external returns (uint256);
        function deposit(uint256 assets, address receiver) external returns (uint256);
        function redeem(uint256 shares, address receiver, address controller) external returns (uint256);
        function isInstance(address vault) external view returns (bool);
    }
}

struct Manager {
    world: TestHarness,
    usdc: Address,
    folder: tempfile::TempDir,
}

/// Tools of the manager under one policy.
struct Desk {
    executor: Executor,
    rules: Arc<OperatorPolicyEngine>,
    _phase: watch::Sender<Phase>,
}

impl Manager {
    async fn new(account: usize) -> Self {
        let world = TestHarness::over(&OWN, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
        let usdc = world.contract_of(&world.usdc);
        Self { world, usdc, folder: tempfile::tempdir().unwrap() }
    }

    /// Tools under the demo policy that also names these vaults.
    fn desk(&self, vaults: &[Address], approve: ApprovalMode) -> Desk {
        let path = self.folder.path().join(format!("{}", rand::random::<u64>()));
        std::fs::create_dir(&path).unwrap();
        let store = Store::open(StoreConfig::at(path.join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let named: Vec<String> = vaults.iter().map(|vault| format!("\"devnet-ethereum:{vault}\"")).collect();
        let lines = format!(
            "approve_first_seen = false\nrequire_human_approval_above_usd = \"none\"\nallowed_vaults = [{}]\n",
            named.join(", ")
        );
        let rules = ruled(&self.world, &path, &store, &lines);
        let pipeline = self.world.pipeline_under(rules.clone(), &store);
        let (acting, phase) = acting(&self.world, pipeline, approve);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let tools = seen(&self.world).under(Arc::clone(&rules));
        let executor = executor(catalog, tools, self.world.fabric(), Some(store), Some(acting));
        Desk { executor, rules, _phase: phase }
    }

    async fn held(&self) -> U256 {
        self.world.ask(self.usdc, Erc20::balanceOfCall { owner: self.world.account() }).await
    }

    /// Value of everything by a Golem's meter under these rules.
    async fn equity(&self, desk: &Desk) -> f64 {
        self.reading(desk).await.0
    }

    /// The same, and whether the reading may tell a loss.
    async fn reading(&self, desk: &Desk) -> (f64, bool) {
        let terms = LifeTerms { born_at: 0, high_water: None, lifespan_seconds: None };
        let world = seen(&self.world).under(Arc::clone(&desk.rules));
        let mut meter = VitalsMeter::new(Arc::new(world), terms).unwrap();
        let (reading, worth) = meter.read(SystemClock.now_millis()).await;
        (worth.equity.unwrap().to_string().parse().unwrap(), reading.feed_grade)
    }

    /// A depositor's call, outside of Bardo.
    async fn depositor(&self, to: Address, call: impl alloy::sol_types::SolCall + Clone) {
        self.world.send_by(&trader(), to, call).await;
    }

    async fn requests_deposit(&self, vault: Address, assets: u64) {
        let (me, assets) = (trader().address(), U256::from(assets));
        self.depositor(self.usdc, OpenMint::mintCall { to: me, value: assets }).await;
        self.depositor(self.usdc, Erc20::approveCall { spender: vault, value: assets }).await;
        self.depositor(vault, Managed::requestDepositCall { assets, controller: me, owner: me }).await;
    }
}

impl Desk {
    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn done(&self, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, CallStatus::Success, "{tool}: {response:#?}");
        let hints = response.decision_hints.as_ref().unwrap();
        assert_eq!(hints["mismatches"], json!([]), "{hints:#}");
        response.data.unwrap()
    }

    async fn refused(&self, tool: &str, params: Value) -> (ErrorCode, String) {
        let response = self.call(tool, params).await;
        assert!(!matches!(response.status, CallStatus::Success | CallStatus::Partial), "{tool}: {response:#?}");
        let error = response.error.as_ref();
        (error.map(ToolError::code).unwrap(), format!("{:?} {error:?} {:?}", response.explanation, response.data))
    }
}

fn trader() -> DevnetAccount {
    DevnetAccount::inhabitant("first trader").unwrap()
}

fn raw(text: &Value) -> U256 {
    TokenAmount::parse(text.as_str().unwrap(), 6).unwrap().raw()
}

async fn deployed(manager: &Manager) -> Address {
    let desk = manager.desk(&[], ApprovalMode::Always);
    let params = json!({"token": "USDC", "name": "My vault", "symbol": "mV", "chain": "ethereum"});
    let made = desk.done("vault_deploy", params).await;
    made["vault_address"].as_str().unwrap().parse().unwrap()
}

/// The whole life of a vault, with the contract's own views at each step, and an equity that stays what it was before.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_is_deployed_managed_and_torn_down() {
    let manager = Manager::new(8).await;
    let me = manager.world.account();
    let begun = manager.equity(&manager.desk(&[], ApprovalMode::Never)).await;
    let vault = deployed(&manager).await;
    let factory = manager.world.contract(KnownContract::AsyncVaultFactory);
    assert!(manager.world.ask(factory, Managed::isInstanceCall { vault }).await);
    let roles = manager.world.ask(vault, Managed::getRolesStorageCall {}).await;
    let owner = manager.world.ask(vault, Managed::ownerCall {}).await;
    assert_eq!([roles.safe, roles.valuationManager, roles.feeReceiver, owner], [me; 4]);

    let desk = manager.desk(&[vault], ApprovalMode::Always);
    // Gas alone is spent, far less than any of the sums that move.
    let near = |equity: f64, what: &str| {
        assert!(equity <= begun + 1.0 && begun - equity < 150.0, "{what}: {begun} {equity}");
    };
    let named = json!({"vault_address": vault, "chain": "ethereum"});
    let with = |fields: Value| {
        let mut params = named.clone();
        for (field, value) in fields.as_object().unwrap() {
            params[field] = value.clone();
        }
        params
    };
    manager.requests_deposit(vault, 1_000_000_000).await;
    let before = manager.held().await;
    let settled = desk.done("vault_settle", named.clone()).await;
    assert_eq!((&settled["deposits_settled"], &settled["withdrawals_settled"]), (&json!("1000"), &json!("0")));
    // The contract's first epoch of deposits is 1.
    assert_eq!(settled["epoch_id"], 1, "{settled:#}");
    assert_eq!(manager.held().await - before, U256::from(1_000_000_000));
    assert_eq!(manager.world.ask(vault, Managed::totalAssetsCall {}).await, U256::from(1_000_000_000));
    near(manager.equity(&desk).await, "settled");
    let portfolio = desk.call("get_portfolio", json!({"chain": "ethereum"})).await.data.unwrap();
    assert_eq!(portfolio["vaults"][0]["owed"], "1000", "{portfolio:#}");

    // Invested, it earns interest; no more than the vault is worth can be.
    let (code, why) = desk.refused("vault_rebalance", with(json!({"direction": "invest", "amount": "1000.1"}))).await;
    assert!(code == ErrorCode::ValidationFailed && why.contains("is worth 1000"), "{why}");
    desk.done("vault_rebalance", with(json!({"direction": "invest", "amount": "600"}))).await;
    near(manager.equity(&desk).await, "invested");
    for _ in 0..20 {
        manager.depositor(manager.usdc, OpenMint::mintCall { to: Address::repeat_byte(7), value: U256::ONE }).await;
    }
    let held = manager.held().await;
    let harvest = desk.done("vault_harvest", named.clone()).await;
    let harvested = raw(&harvest["harvested"]);
    assert!(!harvested.is_zero(), "{harvest:#}");
    assert_eq!(manager.held().await - held, harvested, "the interest came to the wallet");
    let total = manager.world.ask(vault, Managed::totalAssetsCall {}).await;
    assert_eq!(total, U256::from(1_000_000_000) + harvested, "and it is the depositors'");
    near(manager.equity(&desk).await, "harvested");

    // A depositor leaves with a half.
    let depositor = trader().address();
    manager.depositor(vault, Managed::depositCall { assets: U256::from(1_000_000_000), receiver: depositor }).await;
    let shares = manager.world.ask(vault, Managed::balanceOfCall { owner: depositor }).await;
    let half = shares / U256::from(2);
    let leave = Managed::requestRedeemCall { shares: half, controller: depositor, owner: depositor };
    manager.depositor(vault, leave).await;
    let settled = desk.done("vault_settle", named.clone()).await;
    let paid = raw(&settled["withdrawals_settled"]);
    // With the interest of a few blocks more.
    assert!(paid.abs_diff(total / U256::from(2)) <= U256::from(100), "{paid} of {total}");
    let before = manager.world.ask(manager.usdc, Erc20::balanceOfCall { owner: depositor }).await;
    let redeem = Managed::redeemCall { shares: half, receiver: depositor, controller: depositor };
    manager.depositor(vault, redeem).await;
    let after = manager.world.ask(manager.usdc, Erc20::balanceOfCall { owner: depositor }).await;
    assert_eq!(after - before, paid);
    near(manager.equity(&desk).await, "a half paid out");

    desk.done("vault_set_cap", with(json!({"cap": "5000"}))).await;
    assert_eq!(manager.world.ask(vault, Managed::maxCapCall {}).await, U256::from(5_000_000_000_u64));
    desk.done("vault_pause", named.clone()).await;
    assert!(manager.world.ask(vault, Managed::pausedCall {}).await);
    let (code, why) = desk.refused("vault_settle", named.clone()).await;
    assert!(code == ErrorCode::SafetySimulationFailed && why.contains("EnforcedPause"), "{why}");
    desk.done("vault_resume", named.clone()).await;
    assert!(!manager.world.ask(vault, Managed::pausedCall {}).await);

    let leave = Managed::requestRedeemCall { shares: shares - half, controller: depositor, owner: depositor };
    manager.depositor(vault, leave).await;
    let ended = desk.done("vault_teardown", named.clone()).await;
    assert!(raw(&ended["withdrawals_settled"]) >= paid - U256::from(10), "{ended:#}");
    assert!(manager.world.ask(vault, Managed::maxCapCall {}).await.is_zero());
    let allowance = Erc20::allowanceCall { owner: me, spender: vault };
    assert!(manager.world.ask(manager.usdc, allowance).await.is_zero());
    let lent = desk.call("get_lending_position", json!({"chain": "ethereum"})).await.data.unwrap();
    assert!(!lent.to_string().contains("\"supplied\":\"600"), "{lent:#}");
    near(manager.equity(&desk).await, "torn down");
}

/// A valuation that is not what the vault is worth: above what the Safe holds it is blocked, and a jump is the operator's to decide.
#[tokio::test(flavor = "multi_thread")]
async fn a_false_valuation_is_blocked_or_asks() {
    let manager = Manager::new(9).await;
    let vault = deployed(&manager).await;
    let always = manager.desk(&[vault], ApprovalMode::Always);
    let never = manager.desk(&[vault], ApprovalMode::Never);
    let at = |total: &str| json!({"vault_address": vault, "new_total_assets": total, "chain": "ethereum"});
    manager.requests_deposit(vault, 500_000_000).await;
    // Not named by the policy, it brings nobody's money here.
    let unnamed = manager.desk(&[], ApprovalMode::Always);
    let (code, why) = unnamed.refused("vault_settle", at("0")).await;
    assert!(code == ErrorCode::SafetyNotAllowed && why.contains("allowed_vaults"), "{why}");
    never.done("vault_settle", at("0")).await;
    never.done("vault_settle", at("500")).await;
    // Nothing is supplied, so that no interest explains a rise: many of them would pay those who leave with the operator's money.
    let wrong = [("505", "interest explains"), ("500.01", "interest explains"), ("499.99", "below its last valuation")];
    for (total, reason) in wrong {
        let (_, why) = never.refused("vault_settle", at(total)).await;
        assert!(why.contains(reason), "{total}: {why}");
    }
    let (code, why) = always.refused("vault_settle", at("900000")).await;
    assert!(code == ErrorCode::SafetySimulationFailed && why.contains("holds for it"), "{why}");
    always.done("vault_settle", at("505")).await;
    // On a new ledger, which knows of no earlier nonces.
    manager.desk(&[vault], ApprovalMode::Never).done("vault_settle", at("505")).await;
}

/// Two vaults of one token: the interest of what is invested is theirs by their worth, once, and no operator's money is.
#[tokio::test(flavor = "multi_thread")]
async fn two_vaults_of_a_token_share_its_interest() {
    let manager = Manager::new(4).await;
    let (large, small) = (deployed(&manager).await, deployed(&manager).await);
    let desk = manager.desk(&[large, small], ApprovalMode::Always);
    let named = |vault: Address| json!({"vault_address": vault, "chain": "ethereum"});
    for (vault, assets) in [(large, 1_000_000_000), (small, 500_000_000)] {
        manager.requests_deposit(vault, assets).await;
        desk.done("vault_settle", named(vault)).await;
    }
    let invest = json!({"vault_address": large, "direction": "invest", "amount": "600", "chain": "ethereum"});
    desk.done("vault_rebalance", invest).await;
    for _ in 0..20 {
        manager.depositor(manager.usdc, OpenMint::mintCall { to: Address::repeat_byte(7), value: U256::ONE }).await;
    }
    let mut rises = Vec::new();
    for vault in [large, small] {
        let before = manager.world.ask(vault, Managed::totalAssetsCall {}).await;
        desk.done("vault_settle", named(vault)).await;
        rises.push(manager.world.ask(vault, Managed::totalAssetsCall {}).await - before);
    }
    assert!(rises[0] > rises[1] && !rises[1].is_zero(), "{rises:?}");
    let before = manager.held().await;
    desk.done("lending_withdraw", json!({"token": "USDC", "amount": "max", "chain": "ethereum"})).await;
    let interest = manager.held().await - before - U256::from(600_000_000);
    assert!(rises[0] + rises[1] <= interest, "{rises:?} of {interest}");
}

/// A vault that the policy names says that the account is its Safe and owes it a billion dollars. No factory made it: it makes
/// nobody poorer, stops nothing, and ends no life.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_claims_to_be_managed_makes_nobody_poorer() {
    let manager = Manager::new(5).await;
    let me = manager.world.account();
    let init = LagoonInit {
        underlying: manager.usdc,
        name: "V".to_owned(),
        symbol: "V".to_owned(),
        safe: me,
        whitelistManager: trader().address(),
        valuationManager: trader().address(),
        admin: trader().address(),
        feeReceiver: trader().address(),
        managementRate: 0,
        performanceRate: 0,
        enableWhitelist: false,
        rateUpdateCooldown: U256::ZERO,
    };
    let creation = BundledContract::AsyncVault.creation(&(init,).abi_encode_params()).unwrap();
    let vault = manager.world.deploy(creation).await;
    manager.world.send(manager.usdc, OpenMint::mintCall { to: me, value: U256::from(100_000_000) }).await;
    let desk = manager.desk(&[vault], ApprovalMode::Always);
    let supply = json!({"token": "USDC", "amount": "10", "chain": "ethereum"});
    desk.done("lending_supply", supply.clone()).await;
    let (begun, _) = manager.reading(&desk).await;
    // Its worth by its last valuation, where the published source keeps it.
    let (slot, billion) = (U256::from(6), U256::from(1_000_000_000_000_000_u64));
    OWN.chains()[0].devnet.run(move |chain| chain.set_storage_at(vault, slot, billion)).await.unwrap();
    assert_eq!(manager.world.ask(vault, Managed::totalAssetsCall {}).await, billion);
    let (equity, tells_loss) = manager.reading(&desk).await;
    assert!((equity - begun).abs() < 20.0 && !tells_loss, "{begun} {equity} {tells_loss}");
    let portfolio = desk.call("get_portfolio", json!({"chain": "ethereum"})).await.data.unwrap();
    assert!(portfolio["vaults"][0]["owed"].is_null() && portfolio["all_priced"] == json!(false), "{portfolio:#}");
    // The stop-loss sees no loss either.
    desk.done("lending_supply", supply).await;
    let (_, why) = desk.refused("vault_pause", json!({"vault_address": vault, "chain": "ethereum"})).await;
    assert!(why.contains("does not manage"), "{why}");
}

/// Somebody else's vault, and one that only says that it is the account's.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_own_vault_is_managed() {
    let manager = Manager::new(7).await;
    let foreign = OWN.chains()[0].deployment.contracts["asyncVault"];
    let desk = manager.desk(&[foreign], ApprovalMode::Always);
    let named = json!({"vault_address": foreign, "chain": "ethereum"});
    for tool in ["vault_settle", "vault_harvest", "vault_pause", "vault_resume", "vault_teardown"] {
        let (code, why) = desk.refused(tool, named.clone()).await;
        assert!(code == ErrorCode::ValidationFailed && why.contains("does not manage"), "{tool}: {why}");
    }
}

/// A halt stops everything but revocations, cancellations, refunds and a pause of an own vault.
#[tokio::test(flavor = "multi_thread")]
async fn a_halt_lets_a_pause_through() {
    let manager = Manager::new(6).await;
    let vault = deployed(&manager).await;
    let desk = manager.desk(&[vault], ApprovalMode::Always);
    let named = json!({"vault_address": vault, "chain": "ethereum"});
    let folder = std::fs::read_dir(manager.folder.path()).unwrap().map(|one| one.unwrap().path());
    for path in folder {
        StopFile::in_folder(&path).raise(StopLevel::Halt, "test", "operator", SystemClock.now_millis()).unwrap();
    }
    let (code, why) = desk.refused("vault_settle", named.clone()).await;
    assert_eq!(code, ErrorCode::Halted, "{why}");
    desk.done("vault_pause", named.clone()).await;
    assert!(manager.world.ask(vault, Managed::pausedCall {}).await);
    let (code, why) = desk.refused("vault_resume", named).await;
    assert_eq!(code, ErrorCode::Halted, "{why}");
    let code = manager.world.client.provider().get_code_at(vault).await.unwrap();
    assert!(!code.is_empty());
}
