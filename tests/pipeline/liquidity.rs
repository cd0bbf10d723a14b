//! Deposits into liquidity positions and withdrawals from them, through executor and pipeline on the devnet: what is
//! claimed equals balances, events and answers of the position manager.

use std::sync::{Arc, LazyLock};

use alloy::primitives::aliases::{I24, U24, U160};
use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::uniswap_v3::{NonfungiblePositionManager as Manager, SwapRouter02};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::{Phase, StopLevel};
use bardo::base::units::TokenAmount;
use bardo::chain::network::KnownContract;
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::SenderRules;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, Executor, ToolCall, ToolInput, ToolResponse};
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::stop::StopFile;
use bardo::sandbox::Sandbox;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use bardo::uniswap::v3::tick_math::sqrt_price_at_tick;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::{TestHarness, sandbox};

/// Fee of the pool of two stablecoins.
const FEE: u32 = 100;

pub(super) struct Fixture {
    pub(super) world: TestHarness,
    pub(super) executor: Executor,
    pub(super) phase: watch::Sender<Phase>,
    /// Tokens in the pool's order.
    pub(super) tokens: [Address; 2],
    decimals: [u8; 2],
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Account with some of USDC and of `other`, under the demo policy.
    async fn new(account: usize, other: &str) -> Self {
        Self::over(TestHarness::new(account).await, other).await
    }

    pub(super) async fn over(world: TestHarness, other: &str) -> Self {
        Self::under(world, other, "").await
    }

    /// Fixture under the demo policy with these lines.
    pub(super) async fn under(world: TestHarness, other: &str, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        // The account gets more of both stablecoins than the demo policy lets it hold of one.
        let lines = format!("max_position_size_usd = \"100000000\"\n{lines}");
        let rules = ruled(&world, folder.path(), &store, &lines);
        let pipeline = world.pipeline_under(rules.clone(), &store);
        let (acting, phase) = acting(&world, pipeline, ApprovalMode::Never);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = executor(catalog, seen(&world).under(rules), world.fabric(), Some(store), Some(acting));
        let listed = |symbol: &str| {
            let tokens = world.client.network().book.tokens();
            tokens.iter().find(|token| token.symbol == symbol).unwrap().address
        };
        let usdc = listed("USDC");
        let mut tokens = [usdc, listed(other)];
        tokens.sort_unstable();
        let decimals = tokens.map(|token| if token == usdc || other == "USDT" { 6 } else { 18 });
        let fixture = Self { world, executor, phase, tokens, decimals, folder };
        for at in [0, 1] {
            let to = fixture.world.account();
            fixture.world.send(tokens[at], OpenMint::mintCall { to, value: fixture.whole(at, 90_000) }).await;
            for spender in [fixture.manager(), fixture.world.contract(KnownContract::SwapRouter02)] {
                fixture.world.send(tokens[at], Erc20::approveCall { spender, value: U256::MAX }).await;
            }
        }
        fixture
    }

    pub(super) fn manager(&self) -> Address {
        self.world.contract(KnownContract::V3PositionManager)
    }

    pub(super) fn whole(&self, at: usize, amount: u64) -> U256 {
        U256::from(amount) * U256::from(10).pow(U256::from(self.decimals[at]))
    }

    pub(super) async fn held(&self) -> [U256; 2] {
        let owner = self.world.account();
        let of = async |at: usize| self.world.ask(self.tokens[at], Erc20::balanceOfCall { owner }).await;
        [of(0).await, of(1).await]
    }

    /// Opens a position around a price of one dollar each; returns its token.
    async fn open(&self, amount: u64) -> U256 {
        let [first, second] = self.decimals;
        let middle = if first == second { 0 } else { 276_324 * (i32::from(second > first) * 2 - 1) };
        self.open_at([middle - 200, middle + 200], amount).await
    }

    /// Opens a position between two ticks; returns its token.
    pub(super) async fn open_at(&self, [lower, upper]: [i32; 2], amount: u64) -> U256 {
        let params = Manager::MintParams {
            token0: self.tokens[0],
            token1: self.tokens[1],
            fee: U24::from(FEE),
            tickLower: I24::try_from(lower).unwrap(),
            tickUpper: I24::try_from(upper).unwrap(),
            amount0Desired: self.whole(0, amount),
            amount1Desired: self.whole(1, amount),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: self.world.account(),
            deadline: U256::MAX,
        };
        self.world.send(self.manager(), Manager::mintCall { params }).await;
        let owner = self.world.account();
        let count = self.world.ask(self.manager(), Manager::balanceOfCall { owner }).await;
        let index = count - U256::ONE;
        self.world.ask(self.manager(), Manager::tokenOfOwnerByIndexCall { owner, index }).await
    }

    pub(super) async fn swap(&self, from: usize, amount: u64) {
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: self.tokens[from],
            tokenOut: self.tokens[1 - from],
            fee: U24::from(FEE),
            recipient: self.world.account(),
            amountIn: self.whole(from, amount),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        let router = self.world.contract(KnownContract::SwapRouter02);
        self.world.send(router, SwapRouter02::exactInputSingleCall { params }).await;
    }

    /// Result that a call of the account to the manager would have.
    async fn would<C: SolCall>(&self, call: C) -> C::Return {
        let request = TransactionRequest::default();
        let request = request.from(self.world.account()).to(self.manager()).input(call.abi_encode().into());
        C::abi_decode_returns(&self.world.client.provider().call(request).await.unwrap()).unwrap()
    }

    pub(super) async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    pub(super) async fn call_of(&self, call: ToolCall) -> ToolResponse {
        self.executor.call(call).await
    }

    pub(super) async fn data(&self, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        // Receipts, events and balances are as declared.
        if let Some(hints) = response.decision_hints.as_ref().filter(|_| tool != "get_position") {
            assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!("done")), "{hints:#}");
        }
        response.data.unwrap()
    }

    pub(super) fn amounts(&self, data: &Value, names: [&str; 2]) -> [U256; 2] {
        [0, 1].map(|at| TokenAmount::parse(data[names[at]].as_str().unwrap(), self.decimals[at]).unwrap().raw())
    }
}

pub(super) const RECEIVED: [&str; 2] = ["amount0", "amount1"];
pub(super) const FEES: [&str; 2] = ["fees0", "fees1"];

pub(super) fn code(response: &ToolResponse) -> Option<ErrorCode> {
    response.error.as_ref().map(ToolError::code)
}

pub(super) fn gained(before: [U256; 2], after: [U256; 2]) -> [U256; 2] {
    [after[0] - before[0], after[1] - before[1]]
}

/// Open, swaps, collect, a part, close. Each step brings what the manager would pay and what the balances show; all of it
/// together is what went in and the fees, but for one unit that the pool keeps of each token in each step.
#[tokio::test(flavor = "multi_thread")]
async fn what_went_into_a_position_comes_out_with_its_fees() {
    let fixture = Fixture::new(4, "DAI").await;
    let start = fixture.held().await;
    let token_id = fixture.open(2_000).await;
    let opened = fixture.held().await;
    let put_in = gained(opened, start);
    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum"});
    let nothing = fixture.call("collect_fees", at.clone()).await;
    assert_eq!(code(&nothing), Some(ErrorCode::ValidationFailed), "{nothing:#?}");

    // There and back, so that only the fees remain.
    fixture.swap(0, 20_000).await;
    fixture.swap(1, 20_000).await;
    let recipient = fixture.world.account();
    let params = Manager::CollectParams { tokenId: token_id, recipient, amount0Max: u128::MAX, amount1Max: u128::MAX };
    let owed = fixture.would(Manager::collectCall { params }).await;
    let before = fixture.held().await;
    let collected = fixture.data("collect_fees", at.clone()).await;
    let fees = gained(before, fixture.held().await);
    assert_eq!(fees, [owed.amount0, owed.amount1]);
    assert!(!fees[0].is_zero() && !fees[1].is_zero(), "{fees:?}");
    assert_eq!((fixture.amounts(&collected, RECEIVED), fixture.amounts(&collected, FEES)), (fees, fees));
    assert_eq!(collected["closed"], false);

    let whole = fixture.data("get_position", at.clone()).await["positions"][0].clone();
    let mut part = at.clone();
    part["share_pct"] = json!("25");
    let before = fixture.held().await;
    let removed = fixture.data("remove_liquidity", part.clone()).await;
    let quarter = gained(before, fixture.held().await);
    assert_eq!((fixture.amounts(&removed, RECEIVED), fixture.amounts(&removed, FEES)), (quarter, [U256::ZERO; 2]));
    let liquidity = |data: &Value, field: &str| data[field].as_str().unwrap().parse::<u128>().unwrap();
    let all = liquidity(&whole, "liquidity");
    assert_eq!(liquidity(&removed, "liquidity_left"), all - all / 4);

    // A position can be closed in every phase; withdrawing less cannot, at the end.
    fixture.phase.send(Phase::Terminal).unwrap();
    for (tool, params) in [("remove_liquidity", part), ("collect_fees", at.clone())] {
        let refused = fixture.call(tool, params).await;
        let expected = if tool == "collect_fees" { ErrorCode::ValidationFailed } else { ErrorCode::SafetyPhaseBlocked };
        assert_eq!(code(&refused), Some(expected), "{refused:#?}");
    }
    let before = fixture.held().await;
    let response = fixture.call("close_position", at.clone()).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let (closed, hints) = (response.data.unwrap(), response.decision_hints.unwrap());
    let rest = gained(before, fixture.held().await);
    assert_eq!((fixture.amounts(&closed, RECEIVED), &closed["closed"]), (rest, &json!(true)));
    // It counts as gas only.
    let counted: f64 = hints["counted_usd"].as_str().unwrap().parse().unwrap();
    assert!(counted > 0.0 && counted < 30.0, "{counted}");
    let owner = fixture.world.account();
    assert_eq!(fixture.world.ask(fixture.manager(), Manager::balanceOfCall { owner }).await, U256::ZERO);
    assert_eq!(code(&fixture.call("close_position", at).await), Some(ErrorCode::PositionNotFound));

    // Without fees, both tokens together are worth what went in, about a dollar each; the swaps moved one to the other.
    let dollars = |amounts: [U256; 2]| {
        let micro = |at: usize| amounts[at] * U256::from(1_000_000) / fixture.whole(at, 1);
        (micro(0) + micro(1)).to::<u64>()
    };
    let (into, out) = (dollars(put_in), dollars(quarter) + dollars(rest));
    assert!(into.abs_diff(out) < 100_000, "{into} {out}: ten cents of four thousand dollars");
}

/// Without trades between, the pool keeps at most one unit of each token for each step.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_nothing_traded_in_returns_all_but_a_unit() {
    let fixture = Fixture::new(5, "USDT").await;
    let before = fixture.held().await;
    let token_id = fixture.open(1_500).await;
    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum"});
    // An exit takes nothing from the account, so this stop lets it through.
    let stop = StopFile::in_folder(fixture.folder.path());
    stop.raise(StopLevel::ExitOnly, "odd prices", "test", SystemClock.now_millis()).unwrap();
    fixture.data("close_position", at).await;
    let after = fixture.held().await;
    for (before, after) in before.into_iter().zip(after) {
        assert!(before >= after && before - after <= U256::ONE, "{before} {after}");
    }
}

/// A position without liquidity is closed by a collection and a burn.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_position_is_closed_without_a_withdrawal() {
    let fixture = Fixture::new(6, "USDT").await;
    let token_id = fixture.open(1_000).await;
    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum"});
    let mut all = at.clone();
    all["share_pct"] = json!("100");
    let removed = fixture.data("remove_liquidity", all).await;
    assert_eq!((&removed["liquidity_left"], &removed["closed"]), (&json!("0"), &json!(false)));
    let closed = fixture.data("close_position", at).await;
    assert_eq!((&closed["amount0"], &closed["amount1"], &closed["closed"]), (&json!("0"), &json!("0"), &json!(true)));
    // Another account's position and impossible shares are refused before anything is proposed.
    let others = fixture.call("close_position", json!({"position_id": "1", "chain": "ethereum"})).await;
    assert_eq!(code(&others), Some(ErrorCode::ValidationFailed), "{others:#?}");
    for share in ["0", "100.0001", "-1", "half"] {
        let params = json!({"position_id": "1", "share_pct": share, "chain": "ethereum"});
        assert_eq!(code(&fixture.call("remove_liquidity", params).await), Some(ErrorCode::ValidationFailed), "{share}");
    }
}

/// Devnets of the tests of deposits: one without trades, and one for each test that moves a pool.
static STILL: LazyLock<Sandbox> = LazyLock::new(|| sandbox(26));
static MOVED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(27));
static TRADED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(28));

impl Fixture {
    /// Account on a devnet of its own, without any allowance.
    async fn depositing(devnet: &'static Sandbox, account: usize, other: &str) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let fixture = Self::over(TestHarness::over(devnet, account, rules).await, other).await;
        let spender = fixture.manager();
        for token in fixture.tokens {
            fixture.world.send(token, Erc20::approveCall { spender, value: U256::ZERO }).await;
        }
        fixture
    }

    async fn allowed(&self) -> [U256; 2] {
        let (owner, spender) = (self.world.account(), self.manager());
        let of = async |at: usize| self.world.ask(self.tokens[at], Erc20::allowanceCall { owner, spender }).await;
        [of(0).await, of(1).await]
    }

    /// Value of the account's liquidity positions, and of everything, in dollars.
    pub(super) async fn portfolio(&self) -> [f64; 2] {
        let data = self.data("get_portfolio", json!({"chain": "ethereum"})).await;
        assert_eq!(data["all_priced"], true, "{data:#}");
        ["positions_usd", "total_usd"].map(|field| data[field].as_str().unwrap().parse().unwrap())
    }

    /// True if a fall of the equity counts for a Golem's death.
    pub(super) async fn is_feed_grade(&self) -> bool {
        let terms = LifeTerms { born_at: 0, high_water: None, lifespan_seconds: None };
        let mut meter = VitalsMeter::new(Arc::new(seen(&self.world)), terms).unwrap();
        meter.read(SystemClock.now_millis()).await.0.feed_grade
    }

    /// Equity by the vitals, in dollars.
    pub(super) async fn equity(&self) -> f64 {
        let terms = LifeTerms { born_at: 0, high_water: None, lifespan_seconds: None };
        let mut meter = VitalsMeter::new(Arc::new(seen(&self.world)), terms).unwrap();
        let (_, worth) = meter.read(SystemClock.now_millis()).await;
        worth.equity.unwrap().to_string().parse().unwrap()
    }
}

/// Opened, added to and closed again: amounts, range, liquidity and owner are the contract's, no allowance stays, and the
/// equity is what it was, but for gas.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_is_opened_added_to_and_closed() {
    let fixture = Fixture::depositing(&STILL, 4, "DAI").await;
    let (before, begun, equity) = (fixture.held().await, fixture.portfolio().await, fixture.equity().await);
    assert_eq!(begun[0], 0.0);
    let open = json!({
        "token_a": "DAI", "token_b": "USDC", "amount_a": "400", "amount_b": "410", "fee_tier": FEE, "width_pct": "2",
        "chain": "ethereum",
    });
    let opened = fixture.data("add_liquidity", open.clone()).await;
    let held = fixture.held().await;
    let given = gained(held, before);
    assert_eq!(fixture.amounts(&opened, RECEIVED), given);
    assert!(given.iter().all(|amount| !amount.is_zero()));
    assert_eq!(fixture.allowed().await, [U256::ZERO; 2]);
    let token_id: U256 = opened["position_id"].as_str().unwrap().parse().unwrap();
    let position = fixture.world.ask(fixture.manager(), Manager::positionsCall { tokenId: token_id }).await;
    assert_eq!(opened["liquidity_added"], position.liquidity.to_string());
    assert_eq!(
        (position.token0, position.token1, position.fee),
        (fixture.tokens[0], fixture.tokens[1], U24::from(FEE))
    );
    let ticks = [position.tickLower.as_i32(), position.tickUpper.as_i32()];
    assert_eq!([&opened["tick_lower"], &opened["tick_upper"]], [&json!(ticks[0]), &json!(ticks[1])]);
    // Two percent of the price are 198 and 202 ticks by hand: ln(1.02) and ln(0.98) over ln(1.0001).
    assert!((399..=402).contains(&(ticks[1] - ticks[0])), "{ticks:?}");
    let owner = fixture.world.ask(fixture.manager(), Manager::ownerOfCall { tokenId: token_id }).await;
    assert_eq!(owner, fixture.world.account());
    // What went in counts: the equity falls by gas alone, here less than five dollars.
    let dollars = |amounts: [U256; 2]| -> f64 {
        let micro = |at: usize| amounts[at] * U256::from(1_000_000) / fixture.whole(at, 1);
        (micro(0) + micro(1)).to::<u64>() as f64 / 1e6
    };
    let [positions, total] = fixture.portfolio().await;
    assert!((positions - dollars(given)).abs() < 1.0, "{positions} for {given:?}");
    assert!(begun[1] - total > 0.0 && begun[1] - total < 5.0, "{begun:?} {total}");
    let after = fixture.equity().await;
    assert!(equity - after > 0.0 && equity - after < 5.0, "{equity} {after}");

    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum"});
    let mut more = at.clone();
    more["amount0"] = json!("100");
    let increased = fixture.data("increase_liquidity", more).await;
    let given = gained(fixture.held().await, held);
    assert_eq!(fixture.amounts(&increased, RECEIVED), given);
    assert!(fixture.whole(0, 100) - given[0] <= U256::from(10).pow(U256::from(12)), "{given:?}: the named amount");
    let now = fixture.world.ask(fixture.manager(), Manager::positionsCall { tokenId: token_id }).await;
    let added: u128 = increased["liquidity_added"].as_str().unwrap().parse().unwrap();
    assert_eq!(now.liquidity, position.liquidity + added);
    assert_eq!(fixture.allowed().await, [U256::ZERO; 2]);

    let closed = fixture.data("close_position", at).await;
    assert_eq!(closed["closed"], true);
    let end = fixture.held().await;
    for (before, end) in before.into_iter().zip(end) {
        // One unit for each of the two deposits and the withdrawal.
        assert!(before >= end && before - end <= U256::from(3), "{before} {end}");
    }
    assert!(fixture.portfolio().await[0] == 0.0 && (equity - fixture.equity().await).abs() < 10.0);

    // Neither the phases nor the stops that forbid purchases let a deposit pass.
    for phase in [Phase::Defensive, Phase::Survival, Phase::Terminal] {
        fixture.phase.send(phase).unwrap();
        assert_eq!(code(&fixture.call("add_liquidity", open.clone()).await), Some(ErrorCode::SafetyPhaseBlocked));
    }
    fixture.phase.send(Phase::Thriving).unwrap();
    let stop = StopFile::in_folder(fixture.folder.path());
    stop.raise(StopLevel::ExitOnly, "odd prices", "test", SystemClock.now_millis()).unwrap();
    assert_eq!(code(&fixture.call("add_liquidity", open).await), Some(ErrorCode::Halted));
}

/// A trade moves a pool and the amounts of every position in it, and with them neither the equity nor the vitals. A deposit
/// at the moved price is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_pool_moves_no_equity_and_takes_no_deposit() {
    let fixture = Fixture::depositing(&MOVED, 5, "USDT").await;
    fixture.world.send(fixture.tokens[0], Erc20::approveCall { spender: fixture.manager(), value: U256::MAX }).await;
    fixture.world.send(fixture.tokens[1], Erc20::approveCall { spender: fixture.manager(), value: U256::MAX }).await;
    let token_id = fixture.open(3_000).await;
    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum"});
    let row = async || fixture.data("get_position", at.clone()).await["positions"][0].clone();
    let (alone, equity) = (fixture.portfolio().await[0], fixture.equity().await);
    assert!(alone > 5_900.0 && alone < 6_010.0, "{alone}: three thousand of one, and almost as much of the other");
    let [first, second] = fixture.tokens.map(|token| token.to_string());
    let open = json!({
        "token_a": first, "token_b": second, "amount_a": "300", "fee_tier": FEE, "width_pct": "1", "chain": "ethereum",
    });
    assert_eq!(fixture.call("add_liquidity", open.clone()).await.status, CallStatus::Success);
    let value = fixture.portfolio().await[0];

    // Both tokens have six decimals: down to the price of tick −2,000, a fifth below a dollar.
    let to = fixture.world.account();
    let wealth = fixture.whole(0, 40_000_000);
    fixture.world.send(fixture.tokens[0], OpenMint::mintCall { to, value: wealth }).await;
    let held = fixture.equity().await;
    let params = SwapRouter02::ExactInputSingleParams {
        tokenIn: fixture.tokens[0],
        tokenOut: fixture.tokens[1],
        fee: U24::from(FEE),
        recipient: to,
        amountIn: wealth,
        amountOutMinimum: U256::ZERO,
        sqrtPriceLimitX96: sqrt_price_at_tick(-2_000).unwrap().to(),
    };
    let router = fixture.world.contract(KnownContract::SwapRouter02);
    fixture.world.send(router, SwapRouter02::exactInputSingleCall { params }).await;
    let moved = row().await;
    assert_eq!(moved["in_range"], false);
    let [positions, _] = fixture.portfolio().await;
    // Its amounts are all of the first token now, and the fees of the trade, at most 0.01 % of 40 million, are owed.
    assert!(positions >= value && positions < value + 4_100.0, "{value} {positions}");
    let stated: f64 = moved["value_usd"].as_str().unwrap().parse().unwrap();
    assert!(stated > alone, "a withdrawal at the moved price pays more, at the feeds' prices: {stated} {alone}");
    // The account gave far more than it got, in the wallet; its positions lost nothing.
    assert!(fixture.equity().await < held && held > equity);
    let refused = fixture.call("add_liquidity", open).await;
    assert_eq!((refused.status, code(&refused)), (CallStatus::Blocked, Some(ErrorCode::SafetySimulationFailed)));
    let violations = refused.error.as_ref().unwrap().violations();
    let rules: Vec<String> = violations.iter().map(|violation| violation.rule.to_string()).collect();
    assert_eq!(rules, ["price"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_deposits_are_refused_before_anything_is_proposed() {
    let fixture = Fixture::depositing(&STILL, 6, "DAI").await;
    let with = |change: &[(&str, Value)]| {
        let mut params = json!({
            "token_a": "DAI", "token_b": "USDC", "amount_a": "100", "fee_tier": FEE, "width_pct": "2",
            "chain": "ethereum",
        });
        for (name, value) in change {
            params[*name] = value.clone();
        }
        params
    };
    let null = Value::Null;
    for (change, expected) in [
        (vec![("fee_tier", json!(10_000))], ErrorCode::PoolNotFound),
        (vec![("token_b", json!("DAI"))], ErrorCode::ValidationFailed),
        (vec![("token_b", json!("ETH"))], ErrorCode::ValidationFailed),
        (vec![("amount_a", null.clone())], ErrorCode::ValidationFailed),
        (vec![("amount_a", json!("0"))], ErrorCode::ValidationFailed),
        (vec![("amount_a", json!("100000"))], ErrorCode::InsufficientBalance),
        (vec![("width_pct", null.clone())], ErrorCode::ValidationFailed),
        (vec![("tick_lower", json!(1))], ErrorCode::ValidationFailed),
        // A range above the price holds only the pool's first token, and one below it only the second.
        (
            vec![
                ("width_pct", null.clone()),
                ("price_lower", json!("2")),
                ("price_upper", json!("3")),
                ("amount_b", json!("1")),
                ("amount_a", null.clone()),
            ],
            ErrorCode::ValidationFailed,
        ),
    ] {
        let response = fixture.call("add_liquidity", with(&change)).await;
        assert_eq!(code(&response), Some(expected), "{change:?} {response:#?}");
    }
    let others = json!({"position_id": "1", "amount0": "1", "chain": "ethereum"});
    assert_eq!(code(&fixture.call("increase_liquidity", others).await), Some(ErrorCode::ValidationFailed));
}

/// Compounded fees go back into their position but for what its range does not take, which the wallet gets to the unit.
#[tokio::test(flavor = "multi_thread")]
async fn fees_are_added_to_their_position() {
    let fixture = Fixture::depositing(&TRADED, 7, "DAI").await;
    for token in fixture.tokens {
        fixture.world.send(token, Erc20::approveCall { spender: fixture.manager(), value: U256::MAX }).await;
    }
    let token_id = fixture.open(2_000).await;
    for token in fixture.tokens {
        fixture.world.send(token, Erc20::approveCall { spender: fixture.manager(), value: U256::ZERO }).await;
    }
    let at = json!({"position_id": token_id.to_string(), "chain": "ethereum"});
    assert_eq!(
        code(&fixture.call("compound_fees", at.clone()).await),
        Some(ErrorCode::ValidationFailed),
        "nothing owed"
    );
    fixture.swap(0, 40_000).await;
    fixture.swap(1, 20_000).await;
    let recipient = fixture.world.account();
    let params = Manager::CollectParams { tokenId: token_id, recipient, amount0Max: u128::MAX, amount1Max: u128::MAX };
    let owed = fixture.would(Manager::collectCall { params }).await;
    let before = fixture.held().await;
    let liquidity = fixture.world.ask(fixture.manager(), Manager::positionsCall { tokenId: token_id }).await.liquidity;
    let compounded = fixture.data("compound_fees", at.clone()).await;
    let added = fixture.amounts(&compounded, RECEIVED);
    assert!(added.iter().all(|amount| !amount.is_zero()), "{compounded:#}");
    let rest = gained(before, fixture.held().await);
    assert_eq!([added[0] + rest[0], added[1] + rest[1]], [owed.amount0, owed.amount1]);
    assert!(rest.iter().any(|amount| !amount.is_zero()), "one of the two is more than the range takes");
    let now = fixture.world.ask(fixture.manager(), Manager::positionsCall { tokenId: token_id }).await;
    let by_tool: u128 = compounded["liquidity_added"].as_str().unwrap().parse().unwrap();
    assert_eq!(now.liquidity, liquidity + by_tool);
    assert_eq!((now.tokensOwed0, now.tokensOwed1, fixture.allowed().await), (0, 0, [U256::ZERO; 2]));
    assert_eq!(code(&fixture.call("compound_fees", at).await), Some(ErrorCode::ValidationFailed), "nothing is left");
}
