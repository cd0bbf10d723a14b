//! Deposits to vaults and withdrawals, through executor and pipeline on the devnet: what is claimed equals balances and views of
//! the vault's contract, shares count what they pay out, and the policy says which vaults are used.

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolValue as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::Phase;
use bardo::base::units::TokenAmount;
use bardo::chain::network::KnownContract;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, Executor, PreviewResult, ToolCall, ToolInput, ToolResponse};
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::content;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::sandbox::contracts::BundledContract;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::TestHarness;

alloy::sol! {
    /// Written here from the standard, apart from the code under test.
    interface Standard {
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function convertToAssets(uint256 shares) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function set(uint8 mode) external;
        function balanceOf(address owner) external view returns (uint256);
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
    /// Account with $4,000 of USDC more, under the demo policy with these lines, approved by nobody.
    async fn new(account: usize, lines: &str) -> Self {
        let world = TestHarness::new(account).await;
        let usdc = world.contract_of(&world.usdc);
        let to = world.account();
        world.send(usdc, OpenMint::mintCall { to, value: U256::from(4_000_000_000_u64) }).await;
        Self::over(world, usdc, lines)
    }

    fn over(world: TestHarness, usdc: Address, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let lines = format!("approve_first_seen = false\nrequire_human_approval_above_usd = \"none\"\n{lines}");
        let rules = ruled(&world, folder.path(), &store, &lines);
        let pipeline = world.pipeline_under(rules.clone(), &store);
        let (acting, phase) = acting(&world, pipeline, ApprovalMode::Never);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let tools = seen(&world).under(Arc::clone(&rules));
        let executor = executor(catalog, tools, world.fabric(), Some(store), Some(acting));
        Self { world, executor, phase, usdc, rules, _folder: folder }
    }

    /// The same account under other lines.
    fn again(self, lines: &str) -> Self {
        let Self { world, usdc, .. } = self;
        Self::over(world, usdc, lines)
    }

    fn vault(&self) -> Address {
        self.world.contract(KnownContract::Vault)
    }

    /// Deploys a vault of USDC, in which a stranger has 1,000.
    async fn open(&self, contract: BundledContract, more: &[u8]) -> Address {
        let arguments = [self.usdc.abi_encode().as_slice(), more].concat();
        let creation: Bytes = contract.creation(&arguments).unwrap();
        let vault = self.world.deploy(creation).await;
        self.put(vault, 1_000, Address::repeat_byte(0x5a)).await;
        vault
    }

    async fn put(&self, vault: Address, whole: u64, receiver: Address) {
        let assets = U256::from(whole) * U256::from(1_000_000);
        self.world.send(self.usdc, OpenMint::mintCall { to: self.world.account(), value: assets }).await;
        self.world.send(self.usdc, Erc20::approveCall { spender: vault, value: assets }).await;
        self.world.send(vault, Standard::depositCall { assets, receiver }).await;
    }

    async fn held(&self, token: Address) -> U256 {
        self.world.ask(token, Erc20::balanceOfCall { owner: self.world.account() }).await
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn act(&self, tool: &str, vault: Address, amount: &str) -> ToolResponse {
        let field = if tool == "vault_deposit" { "amount" } else { "shares" };
        self.call(tool, json!({"vault_address": vault, field: amount, "chain": "ethereum"})).await
    }

    async fn done(&self, tool: &str, vault: Address, amount: &str) -> Value {
        let response = self.act(tool, vault, amount).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        // Receipts, events and balances are as declared.
        let hints = response.decision_hints.as_ref().unwrap();
        assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!("done")), "{hints:#}");
        let mut data = response.data.unwrap();
        data["counted_usd"] = hints["counted_usd"].clone();
        data
    }

    async fn refused(&self, tool: &str, vault: Address, amount: &str) -> (Option<ErrorCode>, String) {
        let response = self.act(tool, vault, amount).await;
        assert_ne!(response.status, CallStatus::Success, "{response:#?}");
        (response.error.as_ref().map(ToolError::code), format!("{response:?}"))
    }

    async fn portfolio(&self) -> Value {
        self.call("get_portfolio", json!({"chain": "ethereum"})).await.data.unwrap()
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

fn raw(text: &Value) -> U256 {
    TokenAmount::parse(text.as_str().unwrap(), 6).unwrap().raw()
}

fn dollars(text: &Value) -> f64 {
    text.as_str().unwrap().parse().unwrap()
}

/// Deposit and withdrawal in the devnet's own vault, by the address book: each step moves what the contract's views and the
/// balances show, equity and portfolio stay what they were, and in the end nobody may take anything from the account.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_is_made_counted_and_withdrawn() {
    let fixture = Fixture::new(4, "").await;
    let (vault, start) = (fixture.vault(), fixture.held(fixture.usdc).await);
    let (begun, total) = (fixture.equity().await.0, dollars(&fixture.portfolio().await["total_usd"]));
    // The preview lists the shares that come in, by the vault's address instead of its own word for them, and with no value.
    let params = json!({"amount": "420", "chain": "ethereum"});
    let dry = ToolCall { dry_run: true, ..ToolCall::new("vault_deposit", ToolInput::Json(params.clone())) };
    let dry = fixture.executor.call(dry).await;
    let listed = &dry.decision_hints.as_ref().unwrap()["permit"]["bounds"]["receives_at_least"];
    assert_eq!(listed[0]["token"], json!(vault.to_string()), "{listed:#}");
    assert!(raw(&listed[0]["amount"]) > U256::from(390_000_000) && listed[0]["usd"].is_null(), "{listed:#}");
    let deposited = fixture.call("vault_deposit", params).await;
    assert_eq!(deposited.status, CallStatus::Success, "{deposited:#?}");
    assert_eq!(deposited.decision_hints.as_ref().unwrap()["mismatches"], json!([]));
    let deposited = deposited.data.unwrap();
    let assets = U256::from(420_000_000);
    assert_eq!((raw(&deposited["amount"]), start - fixture.held(fixture.usdc).await), (assets, assets));
    let owner = fixture.world.account();
    let shares = fixture.world.ask(vault, Standard::balanceOfCall { owner }).await;
    assert_eq!(raw(&deposited["shares"]), shares);
    // By hand, at 1.05 USDC a share or more, since the vault may have earned: 420 / 1.05 = 400.
    assert!(shares <= U256::from(400_000_000) && shares > U256::from(390_000_000), "{shares}");
    let allowance = Erc20::allowanceCall { owner, spender: vault };
    assert_eq!(fixture.world.ask(fixture.usdc, allowance.clone()).await, U256::ZERO, "used up");

    let worth = fixture.world.ask(vault, Standard::previewRedeemCall { shares }).await;
    let portfolio = fixture.portfolio().await;
    let own = &portfolio["vaults"][0];
    assert_eq!((raw(&own["pays"]), raw(&own["shares"])), (worth, shares), "{portfolio:#}");
    assert!((dollars(&portfolio["vaults_usd"]) - 420.0).abs() < 5.0, "{portfolio:#}");
    // Gas only: a deposit loses nothing.
    assert!((dollars(&portfolio["total_usd"]) - total).abs() < 20.0, "{total}: {portfolio:#}");
    let (equity, is_whole) = fixture.equity().await;
    assert!((equity - begun).abs() < 20.0 && is_whole, "{begun} {equity}");

    // A part goes out in a phase that lets positions shrink, and the rest at the end of a life. Deposits do not pass there.
    fixture.phase.send(Phase::Survival).unwrap();
    let part = fixture.done("vault_withdraw", vault, "100").await;
    assert_eq!(raw(&part["shares"]), U256::from(100_000_000));
    let counted: f64 = part["counted_usd"].as_str().unwrap().parse().unwrap();
    assert!(counted < 30.0, "a withdrawal spends gas only: {counted}");
    let (refusal, why) = fixture.refused("vault_deposit", vault, "10").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyPhaseBlocked), "{why}");
    fixture.phase.send(Phase::Terminal).unwrap();
    let rest = fixture.done("vault_withdraw", vault, "max").await;
    assert_eq!(fixture.held(vault).await, U256::ZERO);
    let end = fixture.held(fixture.usdc).await;
    assert_eq!(start - assets + raw(&part["amount"]) + raw(&rest["amount"]), end);
    // The standard rounds each way in favour of the vault.
    assert!(start - end <= U256::from(3), "{start} {end}");
    let (refusal, why) = fixture.refused("vault_withdraw", vault, "1").await;
    assert_eq!(refusal, Some(ErrorCode::ValidationFailed), "{why}");
}

/// A vault may call its shares like a listed token: a decision would say that USDC comes in. Where shares go in or come out, they
/// have the vault's address as their name.
#[tokio::test(flavor = "multi_thread")]
async fn shares_are_not_named_by_their_vault() {
    let fixture = Fixture::new(5, "").await;
    let arguments = (fixture.usdc, "USD Coin".to_owned(), "USDC".to_owned()).abi_encode_params();
    let vault = fixture.world.deploy(BundledContract::PlainVault.creation(&arguments).unwrap()).await;
    fixture.put(vault, 1_000, Address::repeat_byte(0x5a)).await;
    fixture.put(vault, 100, fixture.world.account()).await;
    let fixture = fixture.again(&format!("allowed_vaults = [\"devnet-ethereum:{vault}\"]\n"));
    for (tool, field) in [("vault_deposit", "amount"), ("vault_withdraw", "shares")] {
        let params = json!({"vault_address": vault, field: "50", "chain": "ethereum"});
        let offered = fixture.executor.offer(ToolCall::new(tool, ToolInput::Json(params))).await;
        let offer = match offered {
            PreviewResult::Held(offer) => offer,
            PreviewResult::Over(response) => panic!("{tool}: {response:#?}"),
        };
        let preview = offer.preview();
        let (bounds, coin) = (&preview.permit.bounds, "ETH");
        let flows = bounds.outflows.iter().map(|flow| &flow.token).chain(bounds.inflows.iter().map(|flow| &flow.token));
        let changes = preview.simulated.balance_changes(&preview.payload, flows, coin);
        let named = |address: Address| {
            changes.iter().find(|one| one.address == Some(address)).map(|one| one.symbol.to_string())
        };
        assert_eq!((named(vault), named(fixture.usdc)), (Some(vault.to_string()), Some("USDC".to_owned())), "{tool}");
        let content = content::signed(&preview.payload, bounds);
        let flows = content.most_out.iter().chain(&content.least_in);
        for flow in flows {
            let name = if flow.token == Some(vault) { vault.to_string() } else { "USDC".to_owned() };
            assert_eq!(flow.symbol.as_str(), name, "{tool}");
        }
    }
}

/// A vault that the policy does not name is not deposited to, and what is in there comes out with consent.
#[tokio::test(flavor = "multi_thread")]
async fn the_policy_says_which_vaults_are_used() {
    let fixture = Fixture::new(5, "").await;
    let arguments = ("Plain".to_owned(), "pV".to_owned());
    let arguments = (fixture.usdc, arguments.0, arguments.1).abi_encode_params();
    let vault = fixture.world.deploy(BundledContract::PlainVault.creation(&arguments).unwrap()).await;
    fixture.put(vault, 1_000, Address::repeat_byte(0x5a)).await;
    let (refusal, why) = fixture.refused("vault_deposit", vault, "50").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyNotAllowed), "{why}");
    assert!(why.contains("allowed_vaults"), "{why}");
    let fixture = fixture.again(&format!("allowed_vaults = [\"devnet-ethereum:{vault}\"]\n"));
    let deposited = fixture.done("vault_deposit", vault, "50").await;
    assert_eq!(raw(&deposited["shares"]), U256::from(50_000_000));
    // The list stands in the place of the book.
    let (refusal, why) = fixture.refused("vault_deposit", fixture.vault(), "50").await;
    assert!(refusal == Some(ErrorCode::SafetyNotAllowed) && why.contains("allowed_vaults"), "{why}");
    let fixture = fixture.again("");
    let (refusal, why) = fixture.refused("vault_withdraw", vault, "max").await;
    assert_eq!(refusal, Some(ErrorCode::ApprovalRequired), "{why}");
    let fixture = fixture.again(&format!("allowed_vaults = [\"devnet-ethereum:{vault}\"]\n"));
    fixture.done("vault_withdraw", vault, "max").await;
    for line in ["allowed_protocols = [\"uniswap\"]\n", "allowed_intent_types = [\"swap\"]\n"] {
        let fixture = Fixture::over(TestHarness::new(3).await, fixture.usdc, line);
        let (refusal, why) = fixture.refused("vault_deposit", fixture.vault(), "50").await;
        assert_eq!(refusal, Some(ErrorCode::SafetyNotAllowed), "{why}");
    }
}

/// Shares count towards the limit on one holding, by what they pay out.
#[tokio::test(flavor = "multi_thread")]
async fn shares_count_towards_the_limit_on_one_holding() {
    let fixture = Fixture::new(6, "max_position_size_usd = \"1000\"\n").await;
    let vault = fixture.vault();
    fixture.done("vault_deposit", vault, "600").await;
    let (refusal, why) = fixture.refused("vault_deposit", vault, "500").await;
    assert_eq!(refusal, Some(ErrorCode::SafetySpendingLimitExceeded), "{why}");
    assert!(why.contains("max_position_size_usd"), "{why}");
    fixture.done("vault_deposit", vault, "300").await;
    fixture.done("vault_withdraw", vault, "max").await;
}

/// A vault says ten times what its shares pay, and another one pays nothing: neither makes anybody richer, and what does not come
/// out ends no life.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_lies_makes_nobody_richer() {
    let fixture = Fixture::new(8, "").await;
    let lying = fixture.open(BundledContract::LyingVault, &[]).await;
    let locked = fixture.open(BundledContract::LockedVault, &[]).await;
    let lines = format!("allowed_vaults = [\"devnet-ethereum:{lying}\", \"devnet-ethereum:{locked}\"]\n");
    let fixture = fixture.again(&lines);
    let (begun, total) = (fixture.equity().await.0, dollars(&fixture.portfolio().await["total_usd"]));
    fixture.done("vault_deposit", lying, "200").await;
    let shares = fixture.held(lying).await;
    let said = fixture.world.ask(lying, Standard::convertToAssetsCall { shares }).await;
    assert!(said >= U256::from(1_999_000_000_u64), "it says $2,000: {said}");
    let (equity, is_whole) = fixture.equity().await;
    // What it says of itself leaves open whether it pays all.
    assert!((equity - begun).abs() < 20.0 && !is_whole, "{begun} {equity}");
    let after = dollars(&fixture.portfolio().await["total_usd"]);
    assert!((after - total).abs() < 20.0, "{total} {after}");

    // Shares that somebody else bought for the account.
    fixture.put(locked, 300, fixture.world.account()).await;
    let (equity, is_whole) = fixture.equity().await;
    assert!((equity - begun).abs() < 20.0 && !is_whole, "{begun} {equity}");
    let portfolio = fixture.portfolio().await;
    let own = portfolio["vaults"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["vault_address"] == json!(locked.to_string()))
        .unwrap();
    assert_eq!((&own["pays"], &own["all_redeemed"]), (&Value::Null, &json!(false)), "{portfolio:#}");
    assert!(own["why"].is_string() && portfolio["all_priced"] == json!(false), "{portfolio:#}");
    assert!((dollars(&portfolio["total_usd"]) - total).abs() < 20.0, "{portfolio:#}");
    let (refusal, why) = fixture.refused("vault_deposit", locked, "50").await;
    assert_eq!(refusal, Some(ErrorCode::SafetySimulationFailed), "{why}");
    assert!(why.contains("vault_exit"), "{why}");
    // On a new ledger, which knows of no earlier nonces than those of the transactions outside. It pays a tenth of its price.
    let (refusal, why) = fixture.again(&lines).refused("vault_withdraw", lying, "max").await;
    assert_eq!(refusal, Some(ErrorCode::ApprovalRequired), "{why}");
}

/// A vault that turns: its redemptions pay a unit, nothing, or in a simulation everything that others have in it. The loss is not
/// taken unasked, no life ends by it, and nobody gets richer.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_turns_is_left_by_the_operators_decision_only() {
    let fixture = Fixture::new(9, "").await;
    let stingy = fixture.open(BundledContract::StingyVault, &[]).await;
    let fixture = fixture.again(&format!("allowed_vaults = [\"devnet-ethereum:{stingy}\"]\n"));
    let begun = fixture.equity().await.0;
    fixture.done("vault_deposit", stingy, "200").await;
    // Each on a new ledger, which knows of no earlier nonces than those of the transactions outside.
    let lines = format!("allowed_vaults = [\"devnet-ethereum:{stingy}\"]\n");
    let turned = async |fixture: Fixture, mode: u8| {
        fixture.world.send(stingy, Standard::setCall { mode }).await;
        fixture.again(&lines)
    };
    let fixture = turned(fixture, 1).await;
    let (equity, is_whole) = fixture.equity().await;
    assert!((begun - equity - 200.0).abs() < 20.0 && !is_whole, "{begun} {equity}");
    let (refusal, why) = fixture.refused("vault_withdraw", stingy, "max").await;
    assert_eq!(refusal, Some(ErrorCode::ApprovalRequired), "{why}");
    let fixture = turned(fixture, 2).await;
    let (equity, is_whole) = fixture.equity().await;
    assert!((begun - equity - 200.0).abs() < 20.0 && !is_whole, "{begun} {equity}");
    let fixture = turned(fixture, 3).await;
    let (equity, is_whole) = fixture.equity().await;
    assert!((equity - begun).abs() < 20.0 && is_whole, "{begun} {equity}");
    let fixture = turned(fixture, 0).await;
    fixture.done("vault_withdraw", stingy, "max").await;
}
