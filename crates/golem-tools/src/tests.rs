//! Tests of the tools on the embedded devnet, compared with the contracts' own answers.

mod identity;
mod market;
mod positions;
mod vaults;
mod wallet;

use std::sync::{Arc, LazyLock};

use alloy::network::TransactionBuilder;
use alloy::primitives::{Address, U256, aliases::U48, aliases::U160, uint};
use alloy::providers::Provider;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{SolCall, SolValue};
use serde_json::{Value, json};

use super::ALL_TOOL_DEFS;
use crate::engine::{
    CallStatus, Catalog, ConnectedChain, Executor, ExecutorConfig, ToolCall, ToolEnvironment, ToolInput, ToolResponse,
};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{EventKind, Fabric, Receiver};
use bardo_base::id::GolemId;
use bardo_base::model::{CapabilityTier, Category};
use bardo_sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use golem_chain::network::KnownContract;
use golem_chain::price::PriceChain;
use golem_chain::provider::ChainClient;

/// Devnet shared by all tests. A test that changes state uses an account of its own.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(sandbox);

fn sandbox() -> Sandbox {
    let config = SandboxConfig {
        seed: 1,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: true,
    };
    Sandbox::boot(&config, &|_| {}).unwrap()
}

struct ToolHarness {
    executor: Executor,
    events: Receiver,
    world: Arc<ToolEnvironment>,
    _fabric: Fabric,
}

/// Creates a test bench with the devnet account of this index.
fn harness(account: Option<usize>) -> ToolHarness {
    harness_on(&SANDBOX, account)
}

fn harness_on(sandbox: &Sandbox, account: Option<usize>) -> ToolHarness {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let networks = sandbox.description().networks();
    let chains = networks.into_iter().zip(sandbox.chains()).map(|(network, chain)| {
        let client = ChainClient::devnet(network, chain.devnet.clone(), clock.clone()).unwrap();
        let prices = PriceChain::for_chain(&client, &Default::default(), clock.clone()).unwrap();
        ConnectedChain::new(client, prices)
    });
    let account = account.map(|number| sandbox.accounts()[number]);
    let world = Arc::new(ToolEnvironment::new(clock.clone(), account, chains.collect(), vec![]));
    let fabric = Fabric::in_memory(1_000, clock);
    let events = fabric.subscribe(1_000);
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
        world: world.clone(),
        fabric: fabric.clone(),
        golem_id: GolemId::operator(),
        calls_per_minute: 10_000,
        hooks: vec![],
        store: None,
        acting: None,
    });
    ToolHarness { executor, events, world, _fabric: fabric }
}

/// World of the devnet with the account of this index.
pub(crate) fn devnet_world(account: usize) -> Arc<ToolEnvironment> {
    harness(Some(account)).world
}

/// World of one of the devnet's chains, without an account.
pub(crate) fn world_of_chain(name: &str) -> Arc<ToolEnvironment> {
    let whole = devnet_world(0);
    let chain = whole.chain(name).unwrap().clone();
    Arc::new(ToolEnvironment::new(Arc::new(SystemClock), None, vec![chain], vec![]))
}

impl ToolHarness {
    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn data(&self, tool: &str, params: Value) -> Value {
        let response = self.call(tool, params).await;
        assert_eq!(response.status, CallStatus::Success, "{:?}", response.error);
        response.data.unwrap()
    }

    async fn code(&self, tool: &str, params: Value) -> (CallStatus, ErrorCode) {
        let response = self.call(tool, params).await;
        (response.status, response.error.unwrap().code())
    }

    fn ethereum(&self) -> &ConnectedChain {
        self.world.chain("ethereum").unwrap()
    }

    fn token(&self, symbol: &str) -> Address {
        let tokens = self.ethereum().network().book.tokens();
        tokens.iter().find(|token| token.symbol == symbol).unwrap().address
    }

    /// Calls a contract directly, without the code under test.
    async fn ask<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        let request = TransactionRequest::default().with_to(to).with_input(call.abi_encode());
        let output = self.ethereum().client.provider().call(request).await.unwrap();
        C::abi_decode_returns(&output).unwrap()
    }

    /// Sends a call from one of the devnet's accounts.
    async fn send(&self, account: usize, to: Address, call: impl SolCall) {
        self.transact(account, to.into(), call.abi_encode()).await;
    }

    /// Sends raw input from one of the devnet's accounts; returns the created contract, if any.
    async fn transact(&self, account: usize, to: alloy::primitives::TxKind, input: Vec<u8>) -> Option<Address> {
        let provider = self.ethereum().client.provider();
        let from = SANDBOX.accounts()[account];
        let party = &bardo_sandbox::keys::DevnetAccount::development_accounts().unwrap()[account];
        let nonce = provider.get_transaction_count(from).await.unwrap();
        let transaction = alloy::consensus::TxEip1559 {
            chain_id: 31_337,
            nonce,
            gas_limit: 3_000_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to,
            value: U256::ZERO,
            access_list: Default::default(),
            input: input.into(),
        };
        let raw = alloy::eips::eip2718::Encodable2718::encoded_2718(&party.sign(transaction).unwrap());
        let receipt = provider.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap();
        assert!(receipt.status());
        receipt.contract_address
    }

    fn steps(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while self.events.try_receive(&mut events, 100) {}
        let steps = events.iter().filter_map(|event| match &event.kind {
            EventKind::ToolUpdate(update) => Some(format!("{} {}/{}", update.step, update.index, update.of)),
            _ => None,
        });
        steps.collect()
    }
}

#[test]
fn the_catalog_takes_every_tool_and_the_list_is_complete() {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    // The engine folder contains no tools.
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.is_dir() && !path.ends_with("engine")) {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for file in entries.filter(|path| path.is_file()) {
            if std::fs::read_to_string(&file).unwrap().contains("pub static TOOL_DEF") {
                files.push(file.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    let names: Vec<_> = catalog.iter().map(|entry| entry.def.meta.name).collect();
    assert_eq!(names, files, "each tool is in a file of its name, and in the list");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_works_on_the_devnet() {
    let harness = harness(Some(0));
    for entry in harness.executor.catalog().iter() {
        let response = harness.call(entry.def.meta.name, entry.example.clone()).await;
        if matches!(entry.def.meta.name, "uniswap_get_uniswapx_order_status" | "across_get_quote") {
            // The parameters are valid, but no order service is connected.
            assert_eq!(response.error.unwrap().code(), ErrorCode::ChainUnsupported);
        } else if entry.def.meta.name == "get_transaction" {
            // The devnet has no transaction with a hash of zeros.
            assert_eq!(response.error.unwrap().code(), ErrorCode::ValidationFailed);
        } else if entry.def.meta.category == Category::Memory {
            // No database is open here in which an agent could keep notes.
            assert_eq!(response.error.unwrap().code(), ErrorCode::StoreUnavailable);
        } else if entry.def.meta.name == "vault_simulate_withdraw" {
            // The account has no shares.
            assert_eq!(response.error.unwrap().code(), ErrorCode::ValidationFailed);
        } else if entry.def.meta.name == "estimate_gas" {
            // It prepares a write, and no account can sign one.
            assert_eq!(response.error.unwrap().code(), ErrorCode::WalletNotConfigured);
        } else if entry.def.meta.name == "check_safety_status"
            || entry.def.meta.name.starts_with("session_")
            || matches!(entry.def.meta.name, "wallet_fund" | "wallet_provision" | "wallet_configure_policy")
            || entry.def.meta.name.contains("schedule")
        {
            // Without a ledger the spent amounts and the schedules are unknown, without a data folder the keys: none is invented.
            assert_eq!(response.error.unwrap().code(), ErrorCode::StoreUnavailable);
        } else if entry.def.meta.capability == CapabilityTier::Read {
            assert_eq!(response.status, CallStatus::Success, "{}: {:?}", entry.def.meta.name, response.error);
        } else {
            // The parameters are valid, but no account can sign.
            assert_eq!(response.error.unwrap().code(), ErrorCode::WalletNotConfigured, "{}", entry.def.meta.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_safety_status_has_the_used_and_remaining_part_of_every_limit() {
    use bardo_base::id::CallId;
    use bardo_base::model::{Phase, StopLevel};
    use bardo_safety::ledger::{
        self, BridgedValue, LedgerCaps, LedgerError, MicroUsd, Originator, ReservationOutcome, ReservationRequest,
    };
    use bardo_safety::policy::{PolicyKeeper, parse};
    use bardo_safety::stop::StopFile;
    use bardo_safety::{audit, operator_policy::OperatorPolicyEngine, permit, policy};

    let mut harness = harness(Some(0));
    let folder = tempfile::tempdir().unwrap();
    let rooms = [
        bardo_accounting::tables::MIGRATIONS,
        ledger::MIGRATIONS,
        audit::MIGRATIONS,
        permit::MIGRATIONS,
        policy::MIGRATIONS,
    ];
    let store = bardo_store::Store::open(bardo_store::StoreConfig::at(folder.path().join("ledger.db")), &rooms);
    let store = store.unwrap();
    let text = "preset = \"demo\"\nmax_trades_per_hour = 2\nmax_consecutive_failures = 9\n";
    let rules = parse(text, std::path::Path::new("policy.toml")).unwrap();
    let caps = rules.caps(Phase::Thriving, false);
    let stop = StopFile::in_folder(folder.path());
    let networks: Vec<_> = harness.world.chains().iter().map(|chain| chain.network().clone()).collect();
    let rules = Arc::new(OperatorPolicyEngine::new(
        Arc::new(PolicyKeeper::fixed(rules)),
        stop.clone(),
        store.clone(),
        networks,
    ));
    let world = Arc::new(ToolEnvironment::clone(&harness.world).under(rules));
    harness.executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
        world: world.clone(),
        fabric: harness._fabric.clone(),
        golem_id: GolemId::operator(),
        calls_per_minute: 1,
        hooks: vec![],
        store: Some(store.clone()),
        acting: None,
    });
    // One trade of 40 dollars is done, and one of 25 is pending.
    let now = SystemClock.now_millis();
    let party = Originator {
        call_id: CallId::new(now),
        golem_id: GolemId::operator(),
        chain_id: 31_337,
        account: SANDBOX.accounts()[0],
    };
    let dollars = |whole: u64| MicroUsd::new(whole * 1_000_000).unwrap();
    let (bridging, bridger) = (caps.clone(), party.clone());
    let spent = store.write(move |tx| -> Result<(), LedgerError> {
        for whole in [40, 25] {
            let spend = dollars(whole);
            let equity = dollars(20_000);
            let tokens = Default::default();
            let request = ReservationRequest {
                spend,
                gas: MicroUsd::ZERO,
                tokens,
                trade: true,
                only_revokes: false,
                by_operator: false,
                exit: false,
                sold: Default::default(),
                asked: false,
                traded: spend,
                exempt: false,
                equity,
            };
            let id = ledger::reserve(tx, now, &caps, &party, &request)?;
            if whole == 40 {
                ledger::settle(tx, now, id, ReservationOutcome::Done { spent: spend }, 9)?;
            }
        }
        Ok(())
    });
    spent.await.unwrap();
    let data = harness.data("check_safety_status", json!({})).await;
    let cap = |rule: &str| {
        let caps = data["caps"].as_array().unwrap();
        let cap = caps.iter().find(|cap| cap["rule"] == rule).unwrap_or_else(|| panic!("{rule}: {data}"));
        ["limit_usd", "used_usd", "left_usd"].map(|field| cap[field].as_str().unwrap().parse::<f64>().unwrap())
    };
    assert_eq!(cap("max_daily_spend_usd"), [5_000.0, 65.0, 4_935.0]);
    assert_eq!(cap("max_monthly_spend_usd"), [50_000.0, 65.0, 49_935.0]);
    assert_eq!(cap("max_single_trade_usd"), [2_500.0, 0.0, 2_500.0]);
    assert_eq!(data["trades_per_hour"], json!({"limit": 2, "used": 2, "left": 0}));
    assert_eq!(data["calls_per_minute"]["used"], 1, "this one, in the policy's count and not the executor's");
    assert_eq!((&data["breaker"]["state"], &data["breaker"]["failures"]), (&json!("closed"), &json!(0)));
    let stop_loss: Vec<f64> = ["high_water_usd", "stops_at_usd"]
        .map(|field| data["stop_loss"][field].as_str().unwrap().parse().unwrap())
        .to_vec();
    assert_eq!(stop_loss, [20_000.0, 18_000.0], "ten percent below");
    let of = |data: &Value| {
        ["chain", "chain_id", "observed", "high_water_usd"].map(|field| data["stop_loss"][field].clone())
    };
    assert_eq!(of(&data), [json!("ethereum"), json!(31_337), json!(true), json!("20000")]);
    assert_eq!((&data["can_trade"], &data["stop"]), (&json!(false), &Value::Null), "no trade is left");
    assert_eq!(data["unenforced"], json!([]));
    assert_eq!(data["policy"]["waiting_changes"], json!([]));

    stop.raise(StopLevel::ExitOnly, "odd prices", "test", now).unwrap();
    let stopped = harness.data("check_safety_status", json!({"chain": "ethereum"})).await;
    assert_eq!((&stopped["stop"]["level"], &stopped["stop"]["reason"]), (&json!("exit-only"), &json!("odd prices")));
    assert_eq!(stopped["calls_per_minute"]["used"], 2);

    // 500 dollars arrive on the other chain, where the holdings were never read: an arrival alone sets no mark.
    let arrived = store.write(move |tx| -> Result<(), LedgerError> {
        let caps = LedgerCaps { trades_per_hour: 100, cooldown: 0, ..bridging };
        let request = ReservationRequest {
            spend: dollars(1),
            gas: MicroUsd::ZERO,
            tokens: Default::default(),
            trade: true,
            only_revokes: false,
            by_operator: false,
            exit: false,
            sold: Default::default(),
            asked: false,
            traded: dollars(1),
            exempt: false,
            equity: dollars(20_000),
        };
        let id = ledger::reserve(tx, now, &caps, &bridger, &request)?;
        let leaving = BridgedValue { worth: dollars(500), whole: dollars(20_000), to: 31_338 };
        ledger::record_bridged(tx, id, &bridger, leaving)?;
        ledger::note_arrived(tx, now, id)?;
        Ok(())
    });
    arrived.await.unwrap();
    let there = harness.call("check_safety_status", json!({"chain": "base"})).await;
    let data = there.data.unwrap();
    assert_eq!(of(&data), [json!("base"), json!(31_338), json!(false), Value::Null]);
    assert_eq!(data["stop_loss"]["stops_at_usd"], Value::Null);
    let said = there.explanation.unwrap();
    assert!(said.contains("No high-water mark was observed on base yet"), "{said}");
    // The share of what left went with it.
    let here = harness.data("check_safety_status", json!({"chain": "ethereum"})).await;
    assert_eq!(here["stop_loss"]["high_water_usd"], "19500");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_are_those_of_the_contracts() {
    let mut harness = harness(Some(0));
    let data = harness.data("get_balances", json!({"chain": "31337", "tokens": ["ETH", "WETH", "USDC"]})).await;
    assert_eq!(harness.steps(), ["Resolving tokens 1/3", "Reading balances 2/3", "Reading prices 3/3"]);
    let owner = SANDBOX.accounts()[0];
    assert_eq!(data["account"], owner.to_string());
    let balances = data["chains"][0]["balances"].as_array().unwrap();
    let wei = harness.ethereum().client.provider().get_balance(owner).await.unwrap();
    assert_eq!(balances[0]["raw"], wei.to_string());
    for (balance, symbol) in balances[1..].iter().zip(["WETH", "USDC"]) {
        let raw = harness.ask(harness.token(symbol), Erc20::balanceOfCall { owner }).await;
        assert_eq!(balance["token"], symbol);
        assert_eq!(balance["raw"], raw.to_string(), "{symbol}");
    }
    // Balances of the specification's demo wallet: 4.5 WETH and 5,000 USDC.
    assert_eq!((&balances[1]["amount"], &balances[2]["amount"]), (&json!("4.5"), &json!("5000")));
    assert!(data["all_priced"].as_bool().unwrap(), "{data}");

    let all = harness.data("get_balances", json!({})).await;
    let chains: Vec<_> = all["chains"].as_array().unwrap().iter().map(|chain| &chain["chain_id"]).collect();
    assert_eq!(chains, [31_337, 31_338]);
    let other = harness.data("get_balances", json!({"account": format!("{:#x}", Address::repeat_byte(9))})).await;
    assert_eq!(other["total_usd"], "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowance_is_what_the_spender_could_really_take() {
    let mut harness = harness(Some(3));
    let owner = SANDBOX.accounts()[3];
    let book = &harness.ethereum().network().book;
    let permit2 = book.contract(KnownContract::Permit2).unwrap();
    let router = book.contract(KnownContract::UniversalRouterV210).unwrap();
    let usdc = harness.token("USDC");
    let mint = bardo_abi::erc20::OpenMint::mintCall { to: owner, value: uint!(1_000_U256) };
    harness.send(3, usdc, mint).await;
    let check = |spender: Option<Address>| {
        let mut params = json!({"token": "USDC", "chain": "ethereum"});
        if let Some(spender) = spender {
            params["spender"] = json!(spender);
        }
        params
    };
    let expect = |allowance: &str, sufficient: bool, spender: Address| {
        json!({
            "token": "USDC", "spender": spender.to_string(), "allowance": allowance,
            "sufficient": sufficient, "needs_approval": !sufficient,
        })
    };
    let balance = harness.ask(usdc, Erc20::balanceOfCall { owner }).await;
    let tool = "uniswap_check_allowance";
    assert_eq!(harness.data(tool, check(None)).await, expect("0", false, router));
    assert_eq!(harness.steps(), ["Resolving token 1/2", "Reading allowance 2/2"]);

    // An allowance for the router itself has no effect, because the router spends through Permit2.
    harness.send(3, usdc, Erc20::approveCall { spender: router, value: U256::MAX }).await;
    assert_eq!(harness.data(tool, check(None)).await, expect("0", false, router));
    // An allowance for Permit2 suffices for Permit2, but not yet for the router.
    harness.send(3, usdc, Erc20::approveCall { spender: permit2, value: balance }).await;
    assert_eq!(harness.data(tool, check(Some(permit2))).await, expect(&balance.to_string(), true, permit2));
    assert_eq!(harness.data(tool, check(None)).await, expect("0", false, router));
    // If Permit2 allows the router more than the token allows Permit2, the smaller amount counts.
    let now = SystemClock.now_seconds();
    let allow = |expires_at: u64| Permit2::approveCall {
        token: usdc,
        spender: router,
        amount: U160::MAX,
        expiration: U48::from(expires_at),
    };
    harness.send(3, permit2, allow(now + 3_600)).await;
    assert_eq!(harness.data(tool, check(None)).await, expect(&balance.to_string(), true, router));
    // With one unit less, the allowance no longer covers the balance.
    let less = balance - uint!(1_U256);
    harness.send(3, usdc, Erc20::approveCall { spender: permit2, value: less }).await;
    assert_eq!(harness.data(tool, check(None)).await, expect(&less.to_string(), false, router));
    // An expired allowance counts as none.
    harness.send(3, usdc, Erc20::approveCall { spender: permit2, value: U256::MAX }).await;
    harness.send(3, permit2, allow(now - 1)).await;
    let response = harness.call(tool, check(None)).await;
    assert_eq!(response.data.unwrap(), expect("0", false, router));
    assert_eq!(response.decision_hints.unwrap()["permit2"]["expired"], true);
    assert!(response.explanation.unwrap().contains("expired"));
    // With an empty balance any allowance suffices; the native token needs none.
    let empty = harness_of(Address::repeat_byte(7));
    assert_eq!(empty.data(tool, check(None)).await, expect("0", true, router));
    let coin = harness.data(tool, json!({"token": "ETH", "chain": "ethereum"})).await;
    assert_eq!((&coin["sufficient"], &coin["needs_approval"]), (&json!(true), &json!(false)));
}

/// Creates a test bench with any account.
fn harness_of(account: Address) -> ToolHarness {
    let mut harness = harness(None);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let world = ToolEnvironment::new(clock.clone(), Some(account), harness.world.chains().to_vec(), vec![]);
    harness.world = Arc::new(world);
    harness.executor = Executor::new(ExecutorConfig {
        catalog: harness.executor.catalog().clone(),
        world: harness.world.clone(),
        fabric: Fabric::in_memory(10, clock),
        golem_id: GolemId::operator(),
        calls_per_minute: 100,
        hooks: vec![],
        store: None,
        acting: None,
    });
    harness
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_found_and_imitations_are_named() {
    let harness = harness(None);
    let symbols = |data: &Value| -> Vec<String> {
        data["tokens"].as_array().unwrap().iter().map(|token| token["symbol"].as_str().unwrap().to_owned()).collect()
    };
    let search = async |query: &str| harness.data("search_tokens", json!({"query": query, "chain": "ethereum"})).await;
    assert_eq!(symbols(&search("weth").await), ["WETH"]);
    let usd = symbols(&search("usd").await);
    assert!(usd.contains(&"USDC".to_owned()) && usd.contains(&"USDT".to_owned()), "{usd:?}");
    assert_eq!(search("nothing of that name").await["total"], 0);
    let limited = harness.data("search_tokens", json!({"query": "", "chain": "base", "limit": 1})).await;
    assert_eq!(symbols(&limited).len(), 1);
    assert!(limited["total"].as_u64().unwrap() > 1);

    let deployment = &SANDBOX.chain("ethereum").unwrap().deployment;
    let fake = deployment.tokens.iter().find(|(token, _)| format!("{token:?}").contains("Lookalike")).unwrap().1;
    let found = search(&fake.to_string()).await;
    assert!(found["tokens"][0]["warning"].is_string(), "{found}");
    let denied = harness.code("get_token_price", json!({"token": fake.to_string(), "chain": "ethereum"})).await;
    assert_eq!(denied, (CallStatus::Blocked, ErrorCode::TokenLookalike));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prices_have_a_source_and_an_age_and_are_never_zero() {
    let mut harness = harness(None);
    let data = harness.data("get_token_price", json!({"token": "WETH", "chain": "ethereum"})).await;
    assert_eq!(harness.steps(), ["Resolving token 1/2", "Reading price feeds 2/2"]);
    let feed = harness.ethereum().network().book.feed("ETH / USD").unwrap().clone();
    let round = harness.ask(feed.address, bardo_abi::feed::Aggregator::latestRoundDataCall {}).await;
    let stated = bardo_base::units::Usd::from_scaled(round.answer.into_raw(), feed.decimals).unwrap();
    assert_eq!(data["price_usd"], stated.to_string());
    assert_eq!((&data["live"], &data["source"]), (&json!(true), &json!("feed ETH / USD")));
    assert_eq!(
        harness.data("get_token_price", json!({"token": "ETH", "chain": "ethereum"})).await["price_usd"],
        data["price_usd"]
    );

    let deployment = &SANDBOX.chain("ethereum").unwrap().deployment;
    let unpriced = deployment.tokens.iter().find(|(token, _)| format!("{token:?}").contains("Fee")).unwrap().1;
    let response = harness.call("get_token_price", json!({"token": unpriced.to_string(), "chain": "ethereum"})).await;
    let error = response.error.unwrap();
    assert_eq!((response.status, error.code()), (CallStatus::Error, ErrorCode::PriceUnavailable));
    assert!(error.details()["refusals"][0].is_string(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_report_their_health() {
    let mut harness = harness(None);
    let data = harness.data("get_chain_status", json!({})).await;
    assert_eq!(harness.steps(), ["Reading chain state 1/2", "Reading endpoint health 2/2"]);
    let head = harness.ethereum().client.provider().get_block_number().await.unwrap();
    let ethereum = &data["chains"][0];
    assert_eq!((&ethereum["chain"], &ethereum["chain_id"]), (&json!("ethereum"), &json!(31_337)));
    assert!(ethereum["block_number"].as_u64().unwrap() <= head);
    assert_eq!((&ethereum["condition"], &ethereum["money"]), (&json!("healthy"), &json!("devnet")));
    assert_eq!(ethereum["uniswap"], json!(["v2", "v3", "v4"]));
    assert_eq!(data["all_healthy"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impossible_action_is_refused_with_its_code() {
    let harness = harness(None);
    let price = |token: &str, chain: &str| json!({"token": token, "chain": chain});
    for (params, code) in [
        (price("NOSUCH", "ethereum"), ErrorCode::TokenNotFound),
        (price("", "ethereum"), ErrorCode::ValidationFailed),
        (price("0x12", "ethereum"), ErrorCode::ValidationFailed),
        (price("0x0000000000000000000000000000000000000000", "ethereum"), ErrorCode::ValidationFailed),
        (price("0x0000000000000000000000000000000000000bad", "ethereum"), ErrorCode::TokenNotFound),
        (price("WETH", "etherium"), ErrorCode::ChainUnknown),
        (price("WETH", "1"), ErrorCode::ChainUnknown),
        (price("WETH", ""), ErrorCode::ChainUnknown),
        (json!({"token": "WETH"}), ErrorCode::ValidationFailed),
        (json!({"token": "WETH", "chain": 31337.5}), ErrorCode::ValidationFailed),
        (json!({"token": "WETH", "chain": 1}), ErrorCode::ChainUnknown),
    ] {
        assert_eq!(harness.code("get_token_price", params.clone()).await, (CallStatus::Error, code), "{params}");
    }
    let allowance = |spender: &str| json!({"token": "WETH", "chain": "ethereum", "spender": spender});
    let tool = "uniswap_check_allowance";
    let code = harness.code(tool, json!({"token": "WETH", "chain": "ethereum"})).await;
    assert_eq!(code, (CallStatus::Error, ErrorCode::WalletNotConfigured));
    let harness = harness_of(SANDBOX.accounts()[0]);
    for spender in ["permit2", "0x0000000000000000000000000000000000000000"] {
        assert_eq!(
            harness.code(tool, allowance(spender)).await,
            (CallStatus::Error, ErrorCode::ValidationFailed),
            "{spender}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_is_what_the_quoter_contract_says() {
    let mut harness = harness(Some(0));
    let tool = "uniswap_get_quote";
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum"});
    let response = harness.call(tool, params).await;
    assert_eq!(harness.steps(), ["Resolving tokens 1/3", "Computing route 2/3", "Estimating gas 3/3"]);
    assert_eq!(response.status, CallStatus::Success, "{:?}", response.error);
    let (data, hints) = (response.data.unwrap(), response.decision_hints.unwrap());
    // So small an amount is not split; the protocol's own quoter confirms its single path.
    let route = data["route"].as_array().unwrap();
    assert!(route.iter().all(|hop| hop["leg"] == 1 && hop["share_bps"] == 10_000), "{route:?}");
    assert_eq!(route.len(), 1, "{route:?}");
    let book = &harness.ethereum().network().book;
    let amount_in = uint!(10_000_000_000_000_000_U256);
    let out = if route[0]["version"] == "V3" {
        let params = bardo_abi::uniswap_v3::QuoterV2::QuoteExactInputSingleParams {
            tokenIn: harness.token("WETH"),
            tokenOut: harness.token("USDC"),
            amountIn: amount_in,
            fee: alloy::primitives::aliases::U24::from(route[0]["fee_tier"].as_u64().unwrap()),
            sqrtPriceLimitX96: U160::ZERO,
        };
        let call = bardo_abi::uniswap_v3::QuoterV2::quoteExactInputSingleCall { params };
        harness.ask(book.contract(KnownContract::QuoterV2).unwrap(), call).await.amountOut
    } else {
        let path = vec![harness.token("WETH"), harness.token("USDC")];
        let call = bardo_abi::uniswap_v2::UniswapV2Router02::getAmountsOutCall { amountIn: amount_in, path };
        *harness.ask(book.contract(KnownContract::V2Router).unwrap(), call).await.last().unwrap()
    };
    assert_eq!(hints["amount_out_raw"], out.to_string());
    // floor(out × (1 − 0.5 %)), in whole tokens with six decimals.
    let least = out * uint!(9_950_U256) / uint!(10_000_U256);
    let least = bardo_base::units::TokenAmount::new(least, 6).unwrap().to_string();
    assert_eq!(hints["minimum_out"], least);
    assert_eq!((&data["route_type"], &data["permit_data"]), (&json!("CLASSIC"), &Value::Null));
    assert!(response.explanation.unwrap().contains("UniswapX is preferred"));
    assert!(data["price_impact_pct"].as_f64().unwrap() < 0.1 && data["gas_estimate_usd"].as_f64().unwrap() > 0.0);

    // The cost of buying exactly that output equals the amount paid, up to the rounding of one output unit.
    let exact = data["amount_out"].as_str().unwrap();
    let params = json!({
        "token_in": "WETH", "token_out": "USDC", "amount": exact, "chain": "ethereum",
        "exact_output": true, "prefer_uniswapx": false,
    });
    let back = harness.call(tool, params).await;
    let paid: U256 = back.decision_hints.unwrap()["amount_in_raw"].as_str().unwrap().parse().unwrap();
    assert!(paid <= amount_in && paid > amount_in - amount_in / uint!(1_000_U256), "{paid}");
    assert!(!back.explanation.unwrap().contains("UniswapX"));

    let all =
        harness.data(tool, json!({"token_in": "WETH", "token_out": "DAI", "amount": "max", "chain": "ethereum"})).await;
    assert_eq!(all["amount_in"], "4.5");
    let coin = harness
        .data(tool, json!({"token_in": "ETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum"}))
        .await;
    assert_eq!((&coin["token_in"], &coin["amount_out"]), (&json!("ETH"), &data["amount_out"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impossible_quote_is_refused_with_its_code() {
    let harness = harness(None);
    let quote = |amount: &str| json!({"token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum"});
    let long = "9".repeat(80);
    for amount in ["0", "-1", "NaN", "1e400", &long, "١٢", "0.0000000000000000001", "", " ", "1,5", "0x10"] {
        let denied = harness.code("uniswap_get_quote", quote(amount)).await;
        assert_eq!(denied, (CallStatus::Error, ErrorCode::ValidationFailed), "{amount}");
    }
    let with = |name: &str, value: Value| {
        let mut params = quote("1");
        params[name] = value;
        params
    };
    let mut drained = with("amount", json!("1000000000"));
    drained["exact_output"] = json!(true);
    let arguments = ("Lonely Token".to_owned(), "LONE".to_owned(), U256::from(18)).abi_encode_params();
    let creation = bardo_sandbox::contracts::BundledContract::MockERC20.creation(&arguments).unwrap();
    let poolless = harness.transact(5, alloy::primitives::TxKind::Create, creation.to_vec()).await.unwrap();
    for (params, code) in [
        (drained, ErrorCode::RoutingInsufficientLiquidity),
        (with("token_out", json!("WETH")), ErrorCode::ValidationFailed),
        (with("token_out", json!("ETH")), ErrorCode::ValidationFailed),
        (with("slippage_bps", json!(10_001)), ErrorCode::ValidationFailed),
        (with("amount", json!("max")), ErrorCode::WalletNotConfigured),
        (with("token_in", json!(poolless)), ErrorCode::RoutingNoRoute),
        (with("chain", json!("polygon")), ErrorCode::ChainUnknown),
    ] {
        assert_eq!(harness.code("uniswap_get_quote", params.clone()).await, (CallStatus::Error, code), "{params}");
    }
    let source = golem_protocols::uniswap::quote::AbsentSource { name: "the Trading API", why: "it is not built in" };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let world = ToolEnvironment::new(clock.clone(), None, harness.world.chains().to_vec(), vec![])
        .quoting_from(Arc::new(source));
    let executor = Executor::new(ExecutorConfig {
        catalog: harness.executor.catalog().clone(),
        world: Arc::new(world),
        fabric: Fabric::in_memory(10, clock),
        golem_id: GolemId::operator(),
        calls_per_minute: 100,
        hooks: vec![],
        store: None,
        acting: None,
    });
    let response = executor.call(ToolCall::new("uniswap_get_quote", ToolInput::Json(quote("1")))).await;
    assert_eq!(response.error.unwrap().code(), ErrorCode::SdkFallbackUnavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_are_listed_with_what_they_hold() {
    let harness = harness(None);
    let params = json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"});
    let data = harness.data("get_pool_info", params.clone()).await;
    let pools = data["pools"].as_array().unwrap();
    assert_eq!(data["pool_count"], pools.len());
    for (version, count) in [("V2", 1), ("V3", 4), ("V4", 2)] {
        assert_eq!(pools.iter().filter(|pool| pool["version"] == version).count(), count, "{version}");
    }
    for pool in pools {
        // The pool manager holds the tokens of all V4 pools together.
        if pool["version"] == "V4" {
            // The plan gives the pools of ether and of wrapped ether 1,500,000 and 500,000 dollars, not all near the price.
            let dollars: f64 = pool["value_usd"].as_str().unwrap().parse().unwrap();
            assert!((50_000.0..1_700_000.0).contains(&dollars), "{pool}");
            assert_eq!(pool["pool"].as_str().map(str::len), Some(66), "{pool}");
        } else {
            let owner: Address = pool["pool"].as_str().unwrap().parse().unwrap();
            let held = harness.ask(harness.token("WETH"), Erc20::balanceOfCall { owner }).await;
            assert_eq!(pool["held_a"], bardo_base::units::TokenAmount::ether(held).to_string());
        }
        // The devnet's ether starts at 3,400 dollars, and its generated history moves it by a few percent.
        let price: f64 = pool["price_b_per_a"].as_str().unwrap().parse().unwrap();
        assert!((3_000.0..3_800.0).contains(&price), "{pool}");
    }
    let mut tier = params;
    tier["fee_tier"] = json!(500);
    let one = harness.data("get_pool_info", tier.clone()).await;
    assert_eq!((&one["pool_count"], &one["pools"][0]["fee_tier"]), (&json!(1), &json!(500)));
    tier["fee_tier"] = json!(123);
    assert_eq!(harness.code("get_pool_info", tier).await, (CallStatus::Error, ErrorCode::PoolNotFound));
}

/// Creates a test bench with another environment, such as another policy or other auctions.
fn harness_in(world: ToolEnvironment) -> ToolHarness {
    let mut harness = harness(None);
    harness.world = Arc::new(world);
    harness.executor = Executor::new(ExecutorConfig {
        catalog: harness.executor.catalog().clone(),
        world: harness.world.clone(),
        fabric: harness._fabric.clone(),
        golem_id: GolemId::operator(),
        calls_per_minute: 1_000,
        hooks: vec![],
        store: None,
        acting: None,
    });
    harness
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_has_the_figures_of_the_one_route_that_the_swap_would_take() {
    let account = SANDBOX.accounts()[6];
    let plain = harness_of(account);
    let offered = [(31_337, golem_protocols::uniswap::order::OrderKind::DutchV2)].into_iter().collect();
    let harness = harness_in(ToolEnvironment::clone(&plain.world).offering(offered));
    let params = |more: Value| {
        let mut params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.5", "chain": "ethereum"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let quote = async |more: Value| {
        let answer = harness.call("uniswap_get_quote", params(more)).await;
        assert_eq!(answer.status, CallStatus::Success, "{answer:?}");
        (answer.data.unwrap(), answer.decision_hints.unwrap(), answer.explanation.unwrap())
    };
    let raw = |text: &Value| bardo_base::units::TokenAmount::parse(text.as_str().unwrap(), 6).unwrap().raw();
    let (pools, pools_hints, _) = quote(json!({"prefer_uniswapx": false})).await;
    assert_eq!(pools["route_type"], "CLASSIC");
    let through_pools: U256 = pools_hints["amount_out_raw"].as_str().unwrap().parse().unwrap();

    let (data, hints, said) = quote(json!({})).await;
    assert_eq!(
        (&data["route_type"], &data["route"], &data["permit_data"]),
        (&json!("DUTCH_V2"), &json!([]), &json!(null))
    );
    // The auction starts 0.1 % above the pools and ends 0.5 % below them.
    assert_eq!(raw(&data["amount_out"]), through_pools * uint!(1_001_U256) / uint!(1_000_U256));
    assert_eq!(raw(&hints["minimum_out"]), through_pools * uint!(995_U256) / uint!(1_000_U256));
    assert_eq!(hints["amount_out_raw"], raw(&data["amount_out"]).to_string());
    assert_eq!((&data["price_impact_pct"], &hints["legs"]), (&pools["price_impact_pct"], &json!([])));
    assert!(said.contains("starts at") && !said.contains("path"), "{said}");
    // The pool quote is reported as the alternative.
    assert_eq!(hints["alternative"]["route_type"], "CLASSIC");
    assert_eq!(hints["alternative"]["amount_out"], pools["amount_out"]);
    // The filler pays for the fill: the wallet pays only for the Permit2 approval, and only if one is needed.
    assert!(hints["gas_units"].as_u64().unwrap() < pools_hints["gas_units"].as_u64().unwrap(), "{hints}");
    assert!(data["gas_estimate_usd"].as_f64().unwrap() > 0.0);
    let permit2 = harness.ethereum().network().book.contract(KnownContract::Permit2).unwrap();
    let half = uint!(500_000_000_000_000_000_U256);
    harness.send(6, harness.token("WETH"), Erc20::approveCall { spender: permit2, value: half }).await;
    let (data, hints, _) = quote(json!({})).await;
    assert_eq!((&data["gas_estimate_usd"], &hints["gas_units"]), (&json!(0.0), &json!(0)));

    // For an exact output, the bound is the maximum input.
    let (data, hints, _) = quote(json!({"amount": "1000", "exact_output": true})).await;
    let paid: U256 = hints["amount_in_raw"].as_str().unwrap().parse().unwrap();
    let most = paid * uint!(1_005_U256) / uint!(1_000_U256);
    assert_eq!(hints["maximum_in"], bardo_base::units::TokenAmount::ether(most).to_string());
    assert_eq!(data["route_type"], "CLASSIC");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policys_tools_and_chains_bind_reads() {
    use bardo_safety::policy::{Policy, PolicyPreset, parse};

    let plain = harness(Some(0));
    let under = |lines: &str| {
        let policy = parse(&format!("preset = \"demo\"\n{lines}"), std::path::Path::new("policy.toml")).unwrap();
        harness_in(ToolEnvironment::clone(&plain.world).bound_by(Arc::new(policy)))
    };
    let price = |chain: &str| json!({"token": "WETH", "chain": chain});
    let refused = |answer: ToolResponse, rule: &str, value: &str| {
        let error = answer.error.unwrap();
        assert_eq!((answer.status, error.code()), (CallStatus::Blocked, ErrorCode::SafetyNotAllowed), "{error}");
        let violation = &error.details()["violations"][0];
        assert_eq!((&violation["rule"], &violation["value"]), (&json!(rule), &json!(value)), "{violation}");
    };

    let harness = under("allowed_tools = [\"get_token_price\"]\n");
    assert_eq!(harness.call("get_token_price", price("base")).await.status, CallStatus::Success);
    refused(harness.call("get_balances", json!({})).await, "allowed_tools", "get_balances");

    let harness = under("allowed_chains = [\"devnet-ethereum\"]\n");
    assert_eq!(harness.call("get_token_price", price("ethereum")).await.status, CallStatus::Success);
    for named in ["base", "31338"] {
        refused(harness.call("get_token_price", price(named)).await, "allowed_chains", "devnet-base");
    }
    assert_eq!(harness.code("get_token_price", price("polygon")).await, (CallStatus::Error, ErrorCode::ChainUnknown));
    // A caller that names no chain gets the allowed ones, and an error if there are none.
    let all = harness.data("get_chain_status", json!({})).await;
    let names: Vec<_> = all["chains"].as_array().unwrap().iter().map(|chain| chain["chain"].clone()).collect();
    assert_eq!(names, ["ethereum"]);
    let harness = under("allowed_chains = []\n");
    for tool in ["get_chain_status", "get_balances", "check_safety_status"] {
        refused(harness.call(tool, json!({})).await, "allowed_chains", "devnet-ethereum");
    }

    // The read-only preset signs nothing and allows all reads.
    let read_only = Arc::new(Policy::preset(PolicyPreset::ReadOnly));
    let harness = harness_in(ToolEnvironment::clone(&plain.world).bound_by(read_only));
    assert_eq!(harness.call("get_token_price", price("base")).await.status, CallStatus::Success);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_json_number_is_an_amount_with_exactly_the_digits_that_were_sent() {
    let harness = harness(None);
    let quote = |amount: Value| json!({"token_in": "USDC", "token_out": "WETH", "amount": amount, "chain": "ethereum"});
    let sent = async |amount: &str| {
        let params = format!(r#"{{"token_in":"WETH","token_out":"USDC","amount":{amount},"chain":"ethereum"}}"#);
        harness.executor.call(ToolCall::new("uniswap_get_quote", ToolInput::Text(params))).await
    };
    let (number, text) = (
        harness.data("uniswap_get_quote", quote(json!(10))).await,
        harness.data("uniswap_get_quote", quote(json!("10"))).await,
    );
    assert_eq!(number["amount_out"], text["amount_out"]);
    assert_eq!(number["amount_in"], "10");
    // A float holds 0.1000000000000000055 and 0.1 as the same number, and 20.000000000000000001 as 20.
    for digits in ["0.5", "0.1", "1.000000000000000001", "20.000000000000000001"] {
        let (number, text) = (sent(digits).await, sent(&format!("\"{digits}\"")).await);
        let (number, text) = (number.data.unwrap(), text.data.unwrap());
        assert_eq!(number["amount_in"], digits);
        assert_eq!(number["amount_out"], text["amount_out"], "{digits}");
    }
    let refusal = async |amount: &str| {
        let error = sent(amount).await.error.unwrap();
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{amount}");
        error.message().to_owned()
    };
    for exponent in ["1e3", "1E3", "5e-1", "1.5e0"] {
        let says = refusal(exponent).await;
        assert!(says.contains("exponent") && says.contains(r#"such as "amount": "0.25""#), "{says}");
    }
    let too_fine = refusal("0.1000000000000000055").await;
    assert!(too_fine.contains("18"), "{too_fine}");
    let lossy = harness.executor.call(ToolCall::new("uniswap_get_quote", ToolInput::Json(quote(json!(0.1))))).await;
    assert_eq!(lossy.error.unwrap().code(), ErrorCode::ValidationFailed);
    let negative = harness.code("uniswap_get_quote", quote(json!(-1))).await;
    assert_eq!(negative, (CallStatus::Error, ErrorCode::ValidationFailed));
}

/// Every allowance that logs name is read from the state: the token's own, Permit2's, and none that was used up, has
/// expired, or is claimed by the log of a contract that is not a token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allowances_are_found_in_logs_and_read_from_the_state() {
    let harness = harness(Some(8));
    let (usdc, dai, weth) = (harness.token("USDC"), harness.token("DAI"), harness.token("WETH"));
    let permit2 = harness.ethereum().contract(KnownContract::Permit2).unwrap();
    let router = harness.ethereum().contract(KnownContract::UniversalRouterV210).unwrap();
    let stranger = Address::repeat_byte(0x5f);
    let owner = SANDBOX.accounts()[8];
    let mint = |value: u64| bardo_abi::erc20::OpenMint::mintCall { to: owner, value: U256::from(value) };
    harness.send(8, usdc, mint(70_000_000)).await;
    let approve = |spender, value| Erc20::approveCall { spender, value };
    harness.send(8, usdc, approve(permit2, U256::MAX)).await;
    harness.send(8, usdc, approve(stranger, U256::from(30_000_000))).await;
    harness.send(8, dai, approve(stranger, U256::from(5))).await;
    harness.send(8, weth, approve(stranger, U256::from(9))).await;
    harness.send(8, weth, approve(stranger, U256::ZERO)).await;
    let allow = |token, spender, amount: u64, expiration: u64| {
        let (amount, expiration) = (U160::from(amount), U48::from(expiration));
        Permit2::approveCall { token, spender, amount, expiration }
    };
    let never = (1 << 48) - 1;
    harness.send(8, permit2, allow(usdc, router, 20_000_000, never)).await;
    // Permit2 stores the block's own time for an expiry of zero; it is over with that block.
    harness.send(8, permit2, allow(usdc, stranger, 20_000_000, 1)).await;

    let data = harness.data("get_allowances", json!({"chain": "ethereum"})).await;
    assert_eq!((&data["complete"], &data["searched_from_block"]), (&json!(true), &json!(0)));
    let rows: Vec<_> = data["allowances"].as_array().unwrap().iter().collect();
    let row = |token: &str, spender: Address, kept_by: &str| {
        let (spender, is) = (spender.to_string(), |row: &&&Value, key: &str, value: &str| row[key] == value);
        rows.iter().find(|row| is(row, "token", token) && is(row, "spender", &spender) && is(row, "kept_by", kept_by))
    };
    assert_eq!(rows.len(), 4, "{rows:#?}");
    let whole = row("USDC", permit2, "token").unwrap();
    assert_eq!(
        (&whole["unlimited"], &whole["at_risk"], &whole["spender_label"]),
        (&json!(true), &json!("70"), &json!("Permit2"))
    );
    let part = row("USDC", stranger, "token").unwrap();
    assert_eq!(
        (&part["allowance"], &part["at_risk"], &part["spender_label"]),
        (&json!("30"), &json!("30"), &Value::Null)
    );
    let inside = row("USDC", router, "permit2").unwrap();
    assert_eq!((&inside["at_risk"], &inside["expires_at"]), (&json!("20"), &json!(never)));
    // Nothing is held, so nothing is at risk, and the allowance is still listed.
    let empty = row("DAI", stranger, "token").unwrap();
    assert_eq!((&empty["at_risk"], &empty["allowance"]), (&json!("0"), &json!("0.000000000000000005")));
    // All three USDC allowances together can take no more than the 70 USDC that are held, at the feed's price.
    let price = harness.data("get_token_price", json!({"token": "USDC", "chain": "ethereum"})).await;
    let usd = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let expected = usd(&price["price_usd"]) * 70.0;
    assert!((usd(&data["value_at_risk_usd"]) - expected).abs() < 0.001, "{data:#?}");

    let late = harness.code("get_allowances", json!({"chain": "ethereum", "from_block": 9_000_000})).await;
    assert_eq!(late, (CallStatus::Error, ErrorCode::ValidationFailed));
}

/// A transaction's balances, calls, events and cost equal the chain's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_decoded_with_its_calls_balances_and_cost() {
    let harness = harness(Some(9));
    let (usdc, to) = (harness.token("USDC"), Address::repeat_byte(0x61));
    let owner = SANDBOX.accounts()[9];
    harness.send(9, usdc, bardo_abi::erc20::OpenMint::mintCall { to: owner, value: U256::from(5_000_000) }).await;
    let provider = harness.ethereum().client.provider();
    let before = provider.get_balance(owner).await.unwrap();
    harness.send(9, usdc, Erc20::transferCall { to, value: U256::from(1_250_000) }).await;
    let paid = before - provider.get_balance(owner).await.unwrap();
    let block = provider.get_block_number().await.unwrap();
    let logs = provider
        .get_logs(&alloy::rpc::types::Filter::new().from_block(0).to_block(block).address(usdc).topic2(to.into_word()))
        .await
        .unwrap();
    let hash = logs[0].transaction_hash.unwrap();

    let data = harness.data("get_transaction", json!({"tx_hash": hash.to_string(), "chain": "ethereum"})).await;
    assert_eq!((&data["status"], &data["traced"], &data["complete"]), (&json!("success"), &json!(true), &json!(true)));
    assert_eq!((&data["from"], &data["to_label"]), (&json!(owner.to_string()), &json!("USDC")));
    assert_eq!(data["function"], "transfer(address,uint256)");
    let moved: Vec<_> = data["balances"].as_array().unwrap().iter().collect();
    let row = |account: Address, change: &str| json!({"account": account.to_string(), "account_label": null, "token": "USDC", "change": change});
    assert_eq!(moved, [&row(owner, "-1.25"), &row(to, "+1.25")]);
    assert_eq!(data["events"][0]["event"], "Transfer(address,address,uint256)");
    assert_eq!(data["events"][0]["fields"]["value"], "1250000");
    let calls = data["calls"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["function"], &calls[0]["depth"]), (1, &data["function"], &json!(0)));
    // The account's balance fell by exactly the cost, which is nothing but gas.
    let cost = bardo_base::units::TokenAmount::parse(data["cost"].as_str().unwrap(), 18).unwrap();
    assert_eq!(cost.raw(), paid);

    let unknown = json!({"tx_hash": format!("0x{}", "11".repeat(32)), "chain": "ethereum"});
    assert_eq!(harness.code("get_transaction", unknown).await, (CallStatus::Error, ErrorCode::ValidationFailed));
}

/// Collects the places of a schema whose objects accept members that they do not name.
fn open_objects(schema: &Value, at: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if members.get("properties").is_some_and(Value::is_object) && members.get("additionalProperties").is_none()
            {
                found.push(at.to_owned());
            }
            members.iter().for_each(|(name, inner)| open_objects(inner, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => items.iter().for_each(|inner| open_objects(inner, at, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_result_is_described_whole() {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let mut found = Vec::new();
    for tool in ALL_TOOL_DEFS {
        let entry = catalog.get(tool.meta.name).unwrap();
        open_objects(&entry.output_schema, tool.meta.name, &mut found);
        open_objects(&entry.input_schema, tool.meta.name, &mut found);
    }
    assert_eq!(found, [""; 0]);
    open_objects(&json!({"a": [{"properties": {}}]}), "open", &mut found);
    assert_eq!(found, ["open/a"]);
}
