//! V4 positions through executor and pipeline on the devnet: what is claimed equals balances, events, and the answers of
//! position manager and state view.

use std::sync::LazyLock;

use alloy::primitives::aliases::{I24, U24, U48, U160};
use alloy::primitives::{Address, B256, U256, address, keccak256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall as _, SolValue};
use bardo::abi::erc20::Erc20;
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswap_v4::{PoolKey, PoolManager, PoolTrader, PositionManager, StateView};
use bardo::base::error::ErrorCode;
use bardo::base::model::Phase;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::engine::CallStatus;
use bardo::sandbox::Sandbox;
use bardo::uniswap::v3::position::TickRange;
use bardo::uniswap::v3::tick_math::sqrt_price_at_tick;
use bardo::uniswap::v4::manager::{KeyedChange, KeyedDeposit, KeyedPlan};
use serde_json::{Value, json};

use super::liquidity::{FEES, Fixture, RECEIVED, code, gained};
use bardo_testkit::harness::{TestHarness, sandbox};

/// Devnet of the tests that open nothing whose number they foretell, and those of the others.
static DEVNET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(29));
static LOCKED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(33));
static TRADED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(32));

/// Hook without code whose address has the flag of `beforeRemoveLiquidity` (bit 9) alone: the pool manager calls it before a
/// withdrawal, and an answer without data reverts.
const LOCKING_HOOK: Address = address!("0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a0200");

impl Fixture {
    async fn keyed(devnet: &'static Sandbox, account: usize) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let fixture = Self::over(TestHarness::over(devnet, account, rules).await, "USDT").await;
        // Permit2 is allowed for the trades of the test alone.
        for token in fixture.tokens {
            for (spender, value) in [(fixture.trader(), U256::MAX), (fixture.permit2(), U256::ZERO)] {
                fixture.world.send(token, Erc20::approveCall { spender, value }).await;
            }
        }
        fixture
    }

    fn trader(&self) -> Address {
        TRADED.chains()[0].deployment.contracts["poolTrader"]
    }

    fn permit2(&self) -> Address {
        self.world.contract(KnownContract::Permit2)
    }

    fn positions(&self) -> Address {
        self.world.contract(KnownContract::V4PositionManager)
    }

    /// Key of the pool of two stablecoins.
    fn key(&self, hooks: Address) -> PoolKey {
        let [currency0, currency1] = self.tokens;
        PoolKey { currency0, currency1, fee: U24::from(100), tickSpacing: I24::try_from(1).unwrap(), hooks }
    }

    async fn trade(&self, zero_for_one: bool, amount: u64) {
        let limit = sqrt_price_at_tick(if zero_for_one { -400 } else { 400 }).unwrap().to();
        let amount = self.whole(usize::from(!zero_for_one), amount).to();
        let trade = PoolTrader::Trade {
            key: self.key(Address::ZERO),
            zeroForOne: zero_for_one,
            amountIn: amount,
            sqrtPriceLimitX96: limit,
            leastOut: 0,
        };
        self.world.send(self.trader(), PoolTrader::tradeCall { trades: vec![trade] }).await;
    }

    /// Allowances of both tokens for Permit2, and in Permit2 for the position manager.
    async fn standing(&self) -> [U256; 4] {
        let owner = self.world.account();
        let (permit2, spender) = (self.permit2(), self.positions());
        let mut found = [U256::ZERO; 4];
        for (at, token) in self.tokens.into_iter().enumerate() {
            found[at] = self.world.ask(token, Erc20::allowanceCall { owner, spender: permit2 }).await;
            let inside = self.world.ask(permit2, Permit2::allowanceCall { owner, token, spender }).await;
            found[2 + at] = U256::from(inside.amount);
        }
        found
    }

    async fn liquidity(&self, token_id: U256) -> u128 {
        self.world.ask(self.positions(), PositionManager::getPositionLiquidityCall { tokenId: token_id }).await
    }

    async fn price(&self) -> U256 {
        let pool = keccak256(self.key(Address::ZERO).abi_encode());
        let view = self.world.contract(KnownContract::V4StateView);
        self.world.ask(view, StateView::getSlot0Call { poolId: pool }).await.sqrtPriceX96.to()
    }

    async fn ether(&self) -> U256 {
        self.world.client.provider().get_balance(self.world.account()).await.unwrap()
    }

    /// Opens a position by hand, in a pool of this key.
    async fn open_by_hand(&self, key: PoolKey, liquidity: u128) -> U256 {
        let next = self.world.ask(self.positions(), PositionManager::nextTokenIdCall {}).await;
        let deposit = KeyedDeposit { liquidity, most: [u128::MAX >> 1; 2] };
        let range = TickRange::new(-200, 200).unwrap();
        let plan = KeyedPlan {
            currencies: [key.currency0, key.currency1],
            change: KeyedChange::Mint { key, range, deposit },
            deadline: U256::MAX,
        };
        for token in self.tokens {
            let (spender, amount) = (self.permit2(), U160::MAX);
            self.world.send(token, Erc20::approveCall { spender, value: U256::MAX }).await;
            let (spender, expiration) = (self.positions(), U48::MAX);
            self.world.send(self.permit2(), Permit2::approveCall { token, spender, amount, expiration }).await;
        }
        let data = plan.calldata(self.world.account());
        let call = PositionManager::modifyLiquiditiesCall::abi_decode(&data).unwrap();
        self.world.send(self.positions(), call).await;
        for token in self.tokens {
            let spender = self.permit2();
            self.world.send(token, Erc20::approveCall { spender, value: U256::ZERO }).await;
        }
        next
    }
}

fn number(data: &Value, field: &str) -> u128 {
    data[field].as_str().unwrap().parse().unwrap()
}

/// Open, swaps, collect, increase, compound, a part, close, in a pool of two stablecoins. Every amount is that of the
/// balances and of the contracts' own views, the value counts all the way, and no allowance stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_v4_position_is_opened_earns_and_is_closed() {
    // Bardo signs nothing for an account that something else sends from, so another account trades.
    let (fixture, trader) = (Fixture::keyed(&TRADED, 4).await, Fixture::keyed(&TRADED, 8).await);
    let (start, begun, equity) = (fixture.held().await, fixture.portfolio().await, fixture.equity().await);
    let [first, second] = fixture.tokens.map(|token| token.to_string());
    let open = json!({
        "token_a": first, "token_b": second, "amount_a": "400", "amount_b": "400", "fee_tier": 100, "version": "v4",
        "width_pct": "2", "chain": "ethereum",
    });
    let next = fixture.world.ask(fixture.positions(), PositionManager::nextTokenIdCall {}).await;
    let opened = fixture.data("add_liquidity", open.clone()).await;
    let held = fixture.held().await;
    let given = gained(held, start);
    assert_eq!((&opened["position_id"], fixture.amounts(&opened, RECEIVED)), (&json!(format!("v4:{next}")), given));
    let liquidity = fixture.liquidity(next).await;
    assert_eq!(number(&opened, "liquidity_added"), liquidity);
    let ticks = ["tick_lower", "tick_upper"].map(|field| i32::try_from(opened[field].as_i64().unwrap()).unwrap());
    let range = TickRange::new(ticks[0], ticks[1]).unwrap();
    // What the liquidity takes at the pool's price, which did not move: the published formula, rounded up.
    assert_eq!(range.amounts(fixture.price().await, liquidity, true).unwrap(), given);
    assert!(given.iter().all(|amount| *amount <= fixture.whole(0, 400)), "{given:?}: the named amounts are maximums");
    assert_eq!(fixture.standing().await, [U256::ZERO; 4]);
    let owner = fixture.world.account();
    assert_eq!(fixture.world.ask(fixture.positions(), PositionManager::ownerOfCall { id: next }).await, owner);
    let [positions, total] = fixture.portfolio().await;
    let dollars = |amounts: [U256; 2]| (amounts[0] + amounts[1]).to::<u64>() as f64 / 1e6;
    assert!((positions - dollars(given)).abs() < 10.0, "{positions} for {given:?}");
    assert!(begun[1] - total > -5.0 && begun[1] - total < 15.0, "{begun:?} {total}");
    assert!((equity - fixture.equity().await).abs() < 15.0, "what went in counts");

    let at = json!({"position_id": format!("v4:{next}"), "chain": "ethereum"});
    assert_eq!(code(&fixture.call("collect_fees", at.clone()).await), Some(ErrorCode::ValidationFailed), "nothing yet");
    trader.trade(true, 20_000).await;
    trader.trade(false, 20_000).await;
    let row = fixture.data("get_position", at.clone()).await["positions"][0].clone();
    let owed = fixture.amounts(&row["owed"], RECEIVED);
    assert!(owed.iter().all(|fee| !fee.is_zero()), "{row:#}");
    assert_eq!((&row["exit"], &row["hook"], &row["version"]), (&json!("open"), &Value::Null, &json!("V4")));
    let listed = fixture.data("list_positions", json!({"chain": "ethereum"})).await;
    assert_eq!((&listed["positions"], &listed["unread_count"]), (&json!([row]), &json!(0)));
    let before = fixture.held().await;
    let collected = fixture.data("collect_fees", at.clone()).await;
    let fees = gained(before, fixture.held().await);
    assert_eq!((fees, fixture.amounts(&collected, RECEIVED), fixture.amounts(&collected, FEES)), (owed, fees, fees));

    // An addition collects what is owed as well.
    trader.trade(true, 10_000).await;
    let owed = fixture.amounts(&fixture.data("get_position", at.clone()).await["positions"][0]["owed"], RECEIVED);
    let mut more = at.clone();
    more["amount0"] = json!("200");
    let before = fixture.held().await;
    let increased = fixture.data("increase_liquidity", more).await;
    let added = number(&increased, "liquidity_added");
    assert_eq!(fixture.liquidity(next).await, liquidity + added);
    let taken = range.amounts(fixture.price().await, added, true).unwrap();
    let after = fixture.held().await;
    for side in [0, 1] {
        assert_eq!(before[side] + owed[side], after[side] + taken[side], "{increased:#}");
    }
    assert_eq!(fixture.standing().await, [U256::ZERO; 4]);

    // Compounded fees pay for all of it: the wallet gets the rest.
    trader.trade(false, 30_000).await;
    trader.trade(true, 20_000).await;
    let owed = fixture.amounts(&fixture.data("get_position", at.clone()).await["positions"][0]["owed"], RECEIVED);
    let before = fixture.held().await;
    let compounded = fixture.data("compound_fees", at.clone()).await;
    let added = number(&compounded, "liquidity_added");
    let taken = range.amounts(fixture.price().await, added, true).unwrap();
    let rest = gained(before, fixture.held().await);
    assert_eq!([rest[0] + taken[0], rest[1] + taken[1]], owed);
    assert_eq!(fixture.standing().await, [U256::ZERO; 4]);

    let all = fixture.liquidity(next).await;
    let mut part = at.clone();
    part["share_pct"] = json!("25");
    let before = fixture.held().await;
    let removed = fixture.data("remove_liquidity", part.clone()).await;
    let quarter = gained(before, fixture.held().await);
    assert_eq!(fixture.amounts(&removed, RECEIVED), quarter);
    assert_eq!(range.amounts(fixture.price().await, all / 4, false).unwrap(), quarter);
    assert_eq!((number(&removed, "liquidity_left"), fixture.liquidity(next).await), (all - all / 4, all - all / 4));

    // A position can be closed in every phase; withdrawing less, or adding, cannot, at the end.
    fixture.phase.send(Phase::Terminal).unwrap();
    for (tool, params) in [("remove_liquidity", part), ("add_liquidity", open)] {
        assert_eq!(code(&fixture.call(tool, params).await), Some(ErrorCode::SafetyPhaseBlocked), "{tool}");
    }
    let before = fixture.held().await;
    let closed = fixture.data("close_position", at.clone()).await;
    let rest = gained(before, fixture.held().await);
    assert_eq!((fixture.amounts(&closed, RECEIVED), &closed["closed"]), (rest, &json!(true)));
    assert_eq!(range.amounts(fixture.price().await, all - all / 4, false).unwrap(), rest);
    assert_eq!(fixture.world.ask(fixture.positions(), PositionManager::balanceOfCall { owner }).await, U256::ZERO);
    assert_eq!(code(&fixture.call("close_position", at).await), Some(ErrorCode::PositionNotFound));
    let empty = fixture.data("list_positions", json!({"chain": "ethereum"})).await;
    assert_eq!((&empty["position_count"], &empty["positions"]), (&json!(0), &json!([])));
    fixture.phase.send(Phase::Thriving).unwrap();
}

/// In a pool of the native token, the call brings what the position may take, and gets the rest back.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_of_the_native_token_takes_and_pays_it() {
    let fixture = Fixture::keyed(&DEVNET, 5).await;
    let usdc = fixture.world.contract_of(&fixture.world.usdc);
    let open = json!({
        "token_a": "ETH", "token_b": usdc.to_string(), "amount_a": "0.05", "fee_tier": 3000, "version": "v4",
        "width_pct": "20", "chain": "ethereum",
    });
    let mut most = open.clone();
    most["amount_a"] = json!("max");
    assert_eq!(code(&fixture.call("add_liquidity", most).await), Some(ErrorCode::ValidationFailed));
    let (equity, before) = (fixture.equity().await, fixture.ether().await);
    let opened = fixture.data("add_liquidity", open).await;
    let id = opened["position_id"].as_str().unwrap().to_owned();
    let token_id: U256 = id.strip_prefix("v4:").unwrap().parse().unwrap();
    let liquidity = fixture.liquidity(token_id).await;
    assert_eq!(number(&opened, "liquidity_added"), liquidity);
    let wei =
        |data: &Value| bardo::base::units::TokenAmount::parse(data["amount0"].as_str().unwrap(), 18).unwrap().raw();
    let at = json!({"position_id": id, "chain": "ethereum"});
    let row = fixture.data("get_position", at.clone()).await["positions"][0].clone();
    // What it would pay now is what went in, but for the rounding of one unit.
    let ether = U256::from(25) * U256::from(10).pow(U256::from(15));
    assert!(wei(&opened) - wei(&row["now"]) <= U256::ONE, "{opened:#} {row:#}");
    assert!(wei(&opened) > ether && wei(&opened) <= ether + ether, "{opened:#}");
    let spent = before - fixture.ether().await;
    // The rest is gas: less than a hundredth of an ether here.
    assert!(spent >= wei(&opened) && spent - wei(&opened) < ether / U256::from(10), "{spent} {opened:#}");
    assert_eq!((&row["token0"], &row["in_range"]), (&json!("ETH"), &json!(true)));
    assert!((equity - fixture.equity().await).abs() < 25.0, "it counts in the equity");
    let before = fixture.ether().await;
    let closed = fixture.data("close_position", at).await;
    let after = fixture.ether().await;
    assert_eq!(wei(&closed), wei(&row["now"]), "nobody traded");
    assert!(after > before && after - before <= wei(&closed), "{before} {after}");
    assert!((equity - fixture.equity().await).abs() < 25.0);
}

/// A position whose hook lets nothing out is shown as locked, counts as nothing, and gets nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_hook_locks_counts_as_nothing() {
    let fixture = Fixture::keyed(&LOCKED, 6).await;
    let key = fixture.key(LOCKING_HOOK);
    let pools = fixture.world.contract(KnownContract::V4PoolManager);
    fixture.world.send(pools, PoolManager::initializeCall { key, sqrtPriceX96: U160::from(1) << 96 }).await;
    let begun = fixture.portfolio().await;
    let equity = fixture.equity().await;
    assert!(fixture.is_feed_grade().await);
    let locked = fixture.open_by_hand(key, 10_u128.pow(11)).await;
    let open = fixture.open_by_hand(fixture.key(Address::ZERO), 10_u128.pow(11)).await;
    let at = |id: U256| json!({"position_id": format!("v4:{id}"), "chain": "ethereum"});
    let row = async |id| fixture.data("get_position", at(id)).await["positions"][0].clone();
    let (shut, free) = (row(locked).await, row(open).await);
    assert_eq!((&shut["exit"], &shut["value_usd"]), (&json!("locked"), &json!("0")));
    assert_eq!((&shut["hook"], &free["exit"]), (&json!(LOCKING_HOOK.to_string()), &json!("open")));
    assert_eq!(shut["liquidity"], free["liquidity"]);
    let worth: f64 = free["value_usd"].as_str().unwrap().parse().unwrap();
    assert!(worth > 500.0, "{free:#}");
    let listed = fixture.data("list_positions", json!({"chain": "ethereum"})).await;
    assert_eq!((&listed["positions"], &listed["total_usd"]), (&json!([shut, free]), &free["value_usd"]));
    let [positions, total] = fixture.portfolio().await;
    assert!((positions - worth).abs() < worth / 100.0, "{positions} {worth}");
    // What went into the locked one is lost to the account.
    assert!((begun[1] - total - worth).abs() < 30.0, "{begun:?} {total} {worth}");
    assert!((equity - fixture.equity().await - worth).abs() < 30.0);
    assert!(!fixture.is_feed_grade().await, "a position that is missing is no loss that ends a life");

    let closing = fixture.call("close_position", at(locked)).await;
    assert_eq!(closing.status, CallStatus::Blocked, "{closing:#?}");
    assert_eq!(code(&closing), Some(ErrorCode::SafetySimulationFailed));
    // What the hands above allowed inside Permit2 is found and revoked without naming the position manager.
    assert_eq!(fixture.standing().await[2..], [U256::from(U160::MAX); 2]);
    for token in fixture.tokens {
        let params = json!({"token": token.to_string(), "chain": "ethereum"});
        let revoked = fixture.call("token_revoke", params).await;
        assert_eq!(revoked.status, CallStatus::Success, "{revoked:#?}");
    }
    assert_eq!(fixture.standing().await, [U256::ZERO; 4]);
    let mut more = at(locked);
    more["amount0"] = json!("10");
    let refused = fixture.call("increase_liquidity", more).await;
    assert_eq!(refused.status, CallStatus::Blocked, "{refused:#?}");
    assert!(format!("{refused:?}").contains("liquidity that was added does not come out"), "{refused:#?}");
    let [first, second] = fixture.tokens.map(|token| token.to_string());
    let id: B256 = keccak256(key.abi_encode());
    let mut open_more = json!({
        "token_a": first, "token_b": second, "amount_a": "10", "pool_id": id.to_string(), "width_pct": "2",
        "chain": "ethereum",
    });
    let refused = fixture.call("add_liquidity", open_more.clone()).await;
    assert_eq!(refused.status, CallStatus::Blocked, "{refused:#?}");
    assert!(format!("{refused:?}").contains("liquidity that was added does not come out"), "{refused:#?}");
    // The pool without a hook is found by its id as well.
    open_more["pool_id"] = json!(keccak256(fixture.key(Address::ZERO).abi_encode()).to_string());
    assert_eq!(fixture.call("add_liquidity", open_more).await.status, CallStatus::Success);
}

/// The positions of an account that somebody else has, by the events with which it got them.
#[tokio::test(flavor = "multi_thread")]
async fn positions_of_others_are_listed() {
    let fixture = Fixture::keyed(&DEVNET, 7).await;
    // The genesis liquidity belongs to the devnet's treasury.
    let owner = fixture.world.ask(fixture.positions(), PositionManager::ownerOfCall { id: U256::ONE }).await;
    assert_ne!(owner, fixture.world.account());
    let walk = async |limit: u64| {
        let (mut rows, mut from) = (Vec::new(), json!(0));
        while !from.is_null() {
            let page = json!({
                "chain": "ethereum", "account": owner.to_string(), "offset": from, "limit": limit, "include_empty": true,
            });
            let mut data = fixture.data("list_positions", page).await;
            assert_eq!(data["unread_count"], 0);
            rows.append(data["positions"].as_array_mut().unwrap());
            from = data["next_offset"].take();
        }
        rows
    };
    let rows = walk(100).await;
    let of_v4: Vec<&Value> = rows.iter().filter(|row| row["version"] == "V4").collect();
    let count = fixture.world.ask(fixture.positions(), PositionManager::balanceOfCall { owner }).await;
    assert_eq!(U256::from(of_v4.len()), count);
    assert!(of_v4.len() > 5 && rows.len() > of_v4.len() && of_v4.iter().all(|row| row["owner"] == owner.to_string()));
    // Other pages list the same in the same order.
    let ids = |rows: &[Value]| rows.iter().map(|row| row["position_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&walk(37).await), ids(&rows));
}
