//! Supplies, withdrawals, borrowings and repayments in the lending market, through executor and pipeline on the devnet: what
//! is claimed equals balances, events and views of the pool, and the policy bounds every debt.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolValue as _;
use bardo::abi::aave::{AavePool, AaveProtocolDataProvider};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::Phase;
use bardo::base::units::TokenAmount;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::sandbox::Sandbox;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::{TestHarness, sandbox};

struct Fixture {
    world: TestHarness,
    executor: Executor,
    phase: watch::Sender<Phase>,
    usdc: Address,
    dai: Address,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// Account with $4,000 of USDC and $10 of DAI, under the demo policy with these lines, approved by nobody.
    async fn new(account: usize, lines: &str) -> Self {
        Self::over(TestHarness::new(account).await, lines).await
    }

    async fn over(world: TestHarness, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let lines = format!("approve_first_seen = false\nrequire_human_approval_above_usd = \"none\"\n{lines}");
        let pipeline = world.pipeline_under(ruled(&world, folder.path(), &store, &lines), &store);
        let (acting, phase) = acting(&world, pipeline, ApprovalMode::Never);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = executor(catalog, seen(&world), world.fabric(), Some(store), Some(acting));
        let tokens = world.client.network().book.tokens();
        let usdc = tokens.iter().find(|token| token.symbol == "USDC").unwrap().address;
        let dai = tokens.iter().find(|token| token.symbol == "DAI").unwrap().address;
        let fixture = Self { world, executor, phase, usdc, dai, _folder: folder };
        let to = fixture.world.account();
        // For the interest of what is borrowed.
        fixture.world.send(dai, OpenMint::mintCall { to, value: U256::from(10_000_000_000_000_000_000_u64) }).await;
        fixture.world.send(usdc, OpenMint::mintCall { to, value: U256::from(4_000_000_000_u64) }).await;
        fixture
    }

    fn pool(&self) -> Address {
        self.world.contract(KnownContract::AavePool)
    }

    async fn held(&self, token: Address) -> U256 {
        self.world.ask(token, Erc20::balanceOfCall { owner: self.world.account() }).await
    }

    /// Supply and debt of the account, by Aave's own view.
    async fn position(&self, asset: Address) -> [U256; 2] {
        let others = self.world.client.network().book.others();
        let views = others.into_iter().find(|(name, _)| *name == "aaveProtocolDataProvider").unwrap().1;
        let user = self.world.account();
        let found = self.world.ask(views, AaveProtocolDataProvider::getUserReserveDataCall { asset, user }).await;
        [found.currentATokenBalance, found.currentVariableDebt]
    }

    async fn health(&self) -> U256 {
        let user = self.world.account();
        self.world.ask(self.pool(), AavePool::getUserAccountDataCall { user }).await.healthFactor
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn act(&self, tool: &str, token: &str, amount: &str) -> ToolResponse {
        self.call(tool, json!({"token": token, "amount": amount, "chain": "ethereum"})).await
    }

    async fn done(&self, tool: &str, token: &str, amount: &str) -> Value {
        let response = self.act(tool, token, amount).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        // Receipts, events and balances are as declared.
        let hints = response.decision_hints.as_ref().unwrap();
        assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!("done")), "{hints:#}");
        let mut data = response.data.unwrap();
        data["counted_usd"] = hints["counted_usd"].clone();
        data
    }

    async fn refused(&self, tool: &str, token: &str, amount: &str) -> (Option<ErrorCode>, String) {
        let response = self.act(tool, token, amount).await;
        assert_ne!(response.status, CallStatus::Success, "{response:#?}");
        (code(&response), format!("{response:?}"))
    }
}

fn code(response: &ToolResponse) -> Option<ErrorCode> {
    response.error.as_ref().map(ToolError::code)
}

fn usdc(text: &Value) -> U256 {
    TokenAmount::parse(text.as_str().unwrap(), 6).unwrap().raw()
}

/// Supply, borrow, repay, withdraw. Each step moves what the pool's own views and the balances show, and in the end the
/// account owes nothing and nobody may take anything from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_debt_is_made_and_unmade() {
    let fixture = Fixture::new(4, "").await;
    let start = fixture.held(fixture.usdc).await;
    let supplied = fixture.done("lending_supply", "USDC", "1500").await;
    assert_eq!(usdc(&supplied["amount"]), U256::from(1_500_000_000));
    assert_eq!(supplied["health_factor_after"], "none (no debt)");
    assert_eq!(start - fixture.held(fixture.usdc).await, U256::from(1_500_000_000));
    let [supply, debt] = fixture.position(fixture.usdc).await;
    // Rounding, and interest of a unit in two seconds: 1,500,000,000 · 1.4 % / 31,536,000 = 0.67 a second.
    assert!(supply.abs_diff(U256::from(1_500_000_000)) <= U256::from(200) && debt.is_zero(), "{supply} {debt}");
    let allowance = Erc20::allowanceCall { owner: fixture.world.account(), spender: fixture.pool() };
    assert_eq!(fixture.world.ask(fixture.usdc, allowance.clone()).await, U256::ZERO, "used up");

    // By hand: 340 DAI against $1,500 at 78 %, so 1,170 / 340 = 3.44.
    let before = fixture.held(fixture.dai).await;
    let borrowed = fixture.done("lending_borrow", "DAI", "340").await;
    assert_eq!(fixture.held(fixture.dai).await - before, U256::from(340) * U256::from(10).pow(U256::from(18)));
    let factor: f64 = borrowed["health_factor_after"].as_str().unwrap().parse().unwrap();
    assert!((3.3..3.6).contains(&factor), "{factor}");
    let chain: f64 = fixture.health().await.to::<u128>() as f64 / 1e18;
    assert!((chain - factor).abs() < 0.02, "{chain} {factor}");
    let counted: f64 = borrowed["counted_usd"].as_str().unwrap().parse().unwrap();
    assert!(counted < 30.0, "a borrowing spends gas only: {counted}");
    let read = fixture.call("get_lending_position", json!({"chain": "ethereum"})).await.data.unwrap();
    let rows = read["positions"].as_array().unwrap();
    let row = |token: &str| rows.iter().find(|row| row["token"] == token).unwrap();
    // By hand: $1,500 at 78 % carry 1,170, so DAI would have to rise to 1,170 / 340 = $3.44.
    let (falls, rises) = (&row("USDC")["liquidated_at"], &row("DAI")["liquidated_at"]);
    assert!(falls["fall_pct"].is_string() && falls["rise_pct"].is_null(), "{read:#}");
    assert!(rises["price_usd"].as_str().unwrap().starts_with("3.44") && rises["fall_pct"].is_null(), "{read:#}");
    let owed = TokenAmount::parse(row("DAI")["debt"].as_str().unwrap(), 18).unwrap().raw();
    assert!(fixture.position(fixture.dai).await[1] >= owed && !owed.is_zero());

    // By hand: what was supplied and what is owed, in dollars, are parts of the total; borrowing made nobody richer.
    let portfolio = fixture.call("get_portfolio", json!({"chain": "ethereum"})).await.data.unwrap();
    let dollars = |field: &Value| field.as_str().unwrap().parse::<f64>().unwrap();
    let (supplied_usd, owed_usd) = (dollars(&portfolio["supplied_usd"]), dollars(&portfolio["debt_usd"]));
    assert!((supplied_usd - 1_500.0).abs() < 15.0 && (owed_usd - 340.0).abs() < 5.0, "{supplied_usd} {owed_usd}");
    let held: f64 = portfolio["chains"][0]["balances"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["usd_value"].as_str().or(row["value_usd"].as_str()))
        .map(|usd| usd.parse::<f64>().unwrap())
        .sum();
    assert!((dollars(&portfolio["total_usd"]) - (held + supplied_usd - owed_usd)).abs() < 1.0, "{held}: {portfolio:#}");
    let market = &portfolio["lending"][0];
    assert!((dollars(&market["net_usd"]) - (supplied_usd - owed_usd)).abs() < 0.01, "{market:#}");
    assert_eq!(market["debts"][0]["token"], "DAI");

    // Most of the collateral cannot go while the debt stands: the pool would let go of this, with 405 / 340 = 1.19.
    let (refusal, why) = fixture.refused("lending_withdraw", "USDC", "980").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyHealthFactor), "{why}");
    assert!(why.contains("min_health_factor"), "{why}");

    let (refusal, why) = fixture.refused("lending_withdraw", "USDC", "max").await;
    assert_eq!(refusal, Some(ErrorCode::ValidationFailed), "{why}");

    // Exits pass at the end of a life: the whole debt, then the whole supply.
    fixture.phase.send(Phase::Terminal).unwrap();
    let repaid = fixture.done("lending_repay", "DAI", "max").await;
    assert_eq!(fixture.position(fixture.dai).await[1], U256::ZERO);
    let paid = TokenAmount::parse(repaid["amount"].as_str().unwrap(), 18).unwrap().raw();
    assert!(
        paid >= owed && paid - owed < U256::from(10_000_000_000_000_000_u64),
        "with the interest of a few blocks: {paid}"
    );
    let counted: f64 = repaid["counted_usd"].as_str().unwrap().parse().unwrap();
    assert!(counted < 30.0, "a repayment spends gas only: {counted}");
    assert_eq!(fixture.world.ask(fixture.dai, allowance.clone()).await, U256::ZERO, "what was not used is revoked");
    let withdrawn = fixture.done("lending_withdraw", "USDC", "max").await;
    assert_eq!(fixture.position(fixture.usdc).await, [U256::ZERO; 2]);
    let end = fixture.held(fixture.usdc).await;
    assert_eq!(start - U256::from(1_500_000_000) + usdc(&withdrawn["amount"]), end);
    // Rounding takes a unit; interest gives some.
    assert!(end + U256::from(2) >= start, "{start} {end}");
    assert_eq!(fixture.health().await, U256::MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_bounds_a_debt() {
    let fixture = Fixture::new(5, "max_borrow_usd = \"900\"\nmin_health_factor = \"2\"\n").await;
    fixture.done("lending_supply", "USDC", "1900").await;
    // Under the pool's own limit of 75 %, and above the policy's: 1,482 / 850 = 1.74.
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "850").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyHealthFactor), "{why}");
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "901").await;
    assert!(refusal == Some(ErrorCode::SafetyHealthFactor) && why.contains("max_borrow_usd"), "{why}");
    // Above what the pool lends, it is refused before anything is proposed.
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "1600").await;
    assert_eq!(refusal, Some(ErrorCode::ValidationFailed), "{why}");
    fixture.done("lending_borrow", "DAI", "500").await;
    assert!(fixture.health().await > U256::from(2_900_000_000_000_000_000_u64), "1,482 / 500 = 2.96");
    // 500 and 401 are above what may be owed, each of them is not.
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "401").await;
    assert!(refusal == Some(ErrorCode::SafetyHealthFactor) && why.contains("owed afterwards"), "{why}");
    // 702 of weighted supply would secure 500 of debt: 1.40.
    let (refusal, why) = fixture.refused("lending_withdraw", "USDC", "1000").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyHealthFactor), "{why}");
    fixture.done("lending_withdraw", "USDC", "400").await;
    // A new debt is forbidden in a phase for exits; a repayment is not.
    fixture.phase.send(Phase::Defensive).unwrap();
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "10").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyPhaseBlocked), "{why}");
    fixture.done("lending_repay", "DAI", "200").await;
    for (tool, token, amount) in [
        ("lending_repay", "DAI", "301"),
        ("lending_repay", "WETH", "max"),
        ("lending_withdraw", "USDC", "1501"),
        ("lending_borrow", "DAI", "max"),
        ("lending_supply", "ETH", "1"),
        ("lending_supply", "UNI", "1"),
        ("lending_supply", "USDC", "0"),
    ] {
        let (refusal, why) = fixture.refused(tool, token, amount).await;
        assert_eq!(refusal, Some(ErrorCode::ValidationFailed), "{tool} {token} {amount}: {why}");
    }
}

alloy::sol! {
    /// Call of the pool that Bardo never makes.
    interface CollateralSwitch {
        function setUserUseReserveAsCollateral(address asset, bool useAsCollateral) external;
    }
}

/// A supply whose collateral was switched off elsewhere counts although the pool's bits of the account do not show it: in the
/// portfolio, and in the equity, so that more can be supplied and all of it withdrawn without looking like a loss or a gain.
#[tokio::test(flavor = "multi_thread")]
async fn a_supply_that_is_no_collateral_counts() {
    let fixture = Fixture::new(6, "").await;
    let (asset, amount, me) = (fixture.usdc, U256::from(100_000_000), fixture.world.account());
    fixture.world.send(asset, Erc20::approveCall { spender: fixture.pool(), value: amount }).await;
    let supply = AavePool::supplyCall { asset, amount, onBehalfOf: me, referralCode: 0 };
    fixture.world.send(fixture.pool(), supply).await;
    let switch = CollateralSwitch::setUserUseReserveAsCollateralCall { asset, useAsCollateral: false };
    fixture.world.send(fixture.pool(), switch).await;
    let bits = fixture.world.ask(fixture.pool(), AavePool::getUserConfigurationCall { user: me }).await;
    assert_eq!(bits, U256::ZERO, "the pool's bits of the account do not show it");
    let portfolio = fixture.call("get_portfolio", json!({"chain": "ethereum"})).await.data.unwrap();
    let supplied: f64 = portfolio["supplied_usd"].as_str().unwrap().parse().unwrap();
    assert!((99.0..101.0).contains(&supplied), "{portfolio:#}");
    assert_eq!(portfolio["lending"][0]["supplies"][0]["token"], "USDC", "{portfolio:#}");
    fixture.done("lending_supply", "USDC", "100").await;
    fixture.done("lending_withdraw", "USDC", "max").await;
    // The first supply of a reserve is collateral again.
    fixture.done("lending_supply", "USDC", "100").await;
    fixture.done("lending_withdraw", "USDC", "max").await;
    assert_eq!(fixture.position(asset).await, [U256::ZERO; 2]);
}

/// Anybody can supply a token for the account. Where its price is not confirmed, it neither secures a debt nor keeps the
/// account from its own supplies.
#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_supply_without_a_confirmed_price_blocks_nothing() {
    let own: &'static Sandbox = Box::leak(Box::new(sandbox(33)));
    let rules = || SenderRules::for_network(NetworkKind::Devnet, 1_000);
    let fixture = Fixture::over(TestHarness::over(own, 6, rules()).await, "").await;
    let stranger = TestHarness::over(own, 7, rules()).await;
    fixture.done("lending_supply", "USDC", "1000").await;
    fixture.done("lending_borrow", "DAI", "100").await;
    let network = fixture.world.client.network();
    let asset = network.book.tokens().iter().find(|token| token.symbol == "WBTC").unwrap().address;
    let oracle = network.book.others().find(|(name, _)| *name == "aaveOracle").unwrap().1;
    // The market has the price of LINK for WBTC, about $17, which no other source confirms.
    let slot = alloy::primitives::keccak256((asset, U256::ZERO).abi_encode());
    let _done: Value = alloy::providers::Provider::raw_request(
        fixture.world.client.provider(),
        "anvil_setStorageAt".into(),
        (oracle, U256::from_be_bytes(slot.0), network.book.feed("LINK / USD").unwrap().address.into_word()),
    )
    .await
    .unwrap();
    stranger.send(asset, OpenMint::mintCall { to: stranger.account(), value: U256::from(200_000_000_u64) }).await;
    stranger.send(asset, Erc20::approveCall { spender: fixture.pool(), value: U256::MAX }).await;
    let gift = async |amount: u64| {
        let (on_behalf_of, amount) = (fixture.world.account(), U256::from(amount));
        let call = AavePool::supplyCall { asset, amount, onBehalfOf: on_behalf_of, referralCode: 0 };
        stranger.send(fixture.pool(), call).await;
    };
    gift(1).await;
    assert!(!fixture.position(asset).await[0].is_zero(), "the account has it");
    fixture.done("lending_withdraw", "USDC", "50").await;
    fixture.done("lending_borrow", "DAI", "50").await;
    // Two WBTC would be worth $34 in the market and secure $26 more; they secure nothing. Of 950 USDC at 78 % the policy's
    // 1.5 leaves a debt of at most $494.
    gift(200_000_000 - 1).await;
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "350").await;
    assert_eq!(refusal, Some(ErrorCode::SafetyHealthFactor), "{why}");
    assert!(why.contains("lending_prices"), "{why}");
    fixture.done("lending_borrow", "DAI", "200").await;
}

/// The market's oracle is not believed alone: with ether at another price there, nothing can be borrowed against it.
#[tokio::test(flavor = "multi_thread")]
async fn a_market_with_wrong_prices_lends_nothing_more() {
    let own: &'static Sandbox = Box::leak(Box::new(sandbox(27)));
    let sending = SenderRules::for_network(NetworkKind::Devnet, 1_000);
    let fixture = Fixture::over(TestHarness::over(own, 7, sending).await, "").await;
    fixture.done("lending_supply", "USDC", "1000").await;
    fixture.done("lending_borrow", "DAI", "100").await;
    let network = fixture.world.client.network();
    let others: Vec<(String, Address)> =
        network.book.others().map(|(name, address)| (name.to_owned(), address)).collect();
    let oracle = others.iter().find(|(name, _)| name == "aaveOracle").unwrap().1;
    // The first mapping of the oracle: source by asset. USDC gets the feed of UNI, about $7.85.
    let slot = alloy::primitives::keccak256((fixture.usdc, U256::ZERO).abi_encode());
    let feed = |pair: &str| network.book.feed(pair).unwrap().address.into_word();
    let set = async |feed: alloy::primitives::B256| {
        let provider = fixture.world.client.provider();
        let _done: Value = alloy::providers::Provider::raw_request(
            provider,
            "anvil_setStorageAt".into(),
            (oracle, U256::from_be_bytes(slot.0), feed),
        )
        .await
        .unwrap();
    };
    set(feed("UNI / USD")).await;
    let borrowed = fixture.refused("lending_borrow", "DAI", "100").await;
    let withdrawn = fixture.refused("lending_withdraw", "USDC", "100").await;
    let repaid = fixture.act("lending_repay", "DAI", "50").await;
    set(feed("USDC / USD")).await;
    for (refusal, why) in [borrowed, withdrawn] {
        assert_eq!(refusal, Some(ErrorCode::SafetyHealthFactor), "{why}");
        assert!(why.contains("lending_prices"), "{why}");
    }
    assert_eq!(repaid.status, CallStatus::Success, "a repayment needs no price: {repaid:#?}");
    fixture.done("lending_borrow", "DAI", "100").await;
    // A source that reverts: the pool values nothing any more and still takes a repayment, of a part and in every phase.
    set(fixture.pool().into_word()).await;
    let (refusal, why) = fixture.refused("lending_borrow", "DAI", "1").await;
    fixture.phase.send(Phase::Terminal).unwrap();
    let before = fixture.position(fixture.dai).await[1];
    let repaid = fixture.act("lending_repay", "DAI", "20").await;
    let after = fixture.position(fixture.dai).await[1];
    set(feed("USDC / USD")).await;
    assert!(refusal.is_some(), "{why}");
    assert_eq!(repaid.status, CallStatus::Success, "{repaid:#?}");
    // Twenty DAI less the interest of a few blocks.
    let paid = before - after;
    assert!(
        paid > U256::from(19_990_000_000_000_000_000_u128) && paid <= U256::from(20_000_000_000_000_000_000_u128),
        "{paid}"
    );
}
