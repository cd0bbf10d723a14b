//! Deposits with Across's SpokePools by the tools, between both chains of a devnet: filled and the relayer repaid, expired and paid
//! back, filled by a lie that does not count, and quotes that lie. Flows are read from the chains.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::{TxEip1559, TypedTransaction};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::Erc20;
use bardo::across::quote::HttpFees;
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::ConfigFlags;
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::Phase;
use bardo::chain::devnet::Chain;
use bardo::chain::sender::{SenderRules, TxSender};
use bardo::chain::service::JsonService;
use bardo::engine::{
    ApprovalMode, CallStatus, Catalog, Executor, PaperMode, ToolCall, ToolEnvironment, ToolInput, ToolResponse,
    WriteAccess,
};
use bardo::fabric::Fabric;
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::runtime::deposits;
use bardo::safety::account::Account;
use bardo::safety::approval::ApprovalQueue;
use bardo::safety::chain_snapshot::SnapshotReader;
use bardo::safety::orders::{OrderChain, Orders, OrdersConfig};
use bardo::safety::pipeline::{Pipeline, PipelineChain, PipelineConfig};
use bardo::safety::policy_engine::PolicyEngine;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::relayers::Relayers;
use bardo::sandbox::{Sandbox, SandboxChain};
use bardo::session::handle::{DepositStage, DepositsState};
use bardo::store::{Store, StoreConfig, StoreError};
use bardo::tools::ALL_TOOL_DEFS;
use bardo::tools::across::{InTransit, in_transit};
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::engine::{Engine, still};

alloy::sol! {
    /// Written here from the published interface, apart from the code under test.
    struct Relay {
        bytes32 depositor;
        bytes32 recipient;
        bytes32 exclusiveRelayer;
        bytes32 inputToken;
        bytes32 outputToken;
        uint256 inputAmount;
        uint256 outputAmount;
        uint256 originChainId;
        uint256 depositId;
        uint32 fillDeadline;
        uint32 exclusivityDeadline;
        bytes message;
    }
    #[allow(clippy::too_many_arguments)]
    interface Published {
        function depositV3(
            address depositor,
            address recipient,
            address inputToken,
            address outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 destinationChainId,
            address exclusiveRelayer,
            uint32 quoteTimestamp,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            bytes calldata message
        ) external payable;
        function numberOfDeposits() external view returns (uint32);
        function getV3RelayHash(Relay memory relayData) external view returns (bytes32);
        function fillStatuses(bytes32 relayHash) external view returns (uint256);
    }
}

/// Deposited amount: 500 USDC.
const AMOUNT: u64 = 500_000_000;

const POLICY: &str = "preset = \"demo\"\nmax_trades_per_hour = 1000\nmax_tool_calls_per_minute = 10000\n";

struct Crossing {
    executor: Executor,
    world: Arc<ToolEnvironment>,
    orders: Orders,
    sandbox: Sandbox,
    account: Address,
    store: Store,
    rules: Arc<dyn PolicyEngine>,
    signer: Arc<dyn Account>,
    _home: tempfile::TempDir,
}

impl Crossing {
    /// The same setup as `bardo call`, with chains that make blocks only here.
    async fn open() -> Self {
        Self::open_under("").await
    }

    async fn open_under(lines: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy-devnet.toml"), format!("{POLICY}{lines}")).unwrap();
        // Time is advanced far here: a feed update meanwhile would be from the future.
        let engine = Engine::open(home.path(), &ConfigFlags::default(), || still(21, false)).await;
        let (orders, sandbox) = (engine.orders.unwrap(), engine.sandbox.unwrap());
        let (executor, world, store, rules) = (engine.executor, engine.world, engine.store, engine.rules);
        let account = sandbox.accounts()[0];
        Self { executor, world, orders, account, sandbox, store, rules, signer: engine.acting.account, _home: home }
    }

    fn chain(&self, name: &str) -> &SandboxChain {
        self.sandbox.chain(name).unwrap()
    }

    fn relayers(&self) -> &Relayers {
        self.chain("ethereum").background_actors.relayers().unwrap()
    }

    fn pool(&self, name: &str) -> Address {
        self.chain(name).deployment.contracts["acrossSpokePool"]
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        let call = ToolCall { approve: Some(ApprovalMode::Always), ..ToolCall::new(tool, ToolInput::Json(params)) };
        self.executor.call(call).await
    }

    async fn deposit(&self, seconds: u64) -> Value {
        let response = self.call("across_deposit", route(json!({ "deadline": seconds }))).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        let hints = response.decision_hints.as_ref().unwrap();
        assert_eq!((&hints["mismatches"], &hints["state"]), (&json!([]), &json!("done")), "{hints:#}");
        response.data.unwrap()
    }

    async fn status(&self, id: &Value) -> Value {
        let response =
            self.call("across_get_deposit_status", json!({"source_chain": "ethereum", "deposit_id": id})).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        let data = response.data.unwrap();
        assert_eq!(data["count"], 1, "{data:#}");
        data["deposits"][0].clone()
    }

    /// Mines blocks until the relayers or the data worker have done what is waited for; they act between blocks.
    async fn mine_until(&self, holds: impl AsyncFn() -> bool) {
        for _ in 0..60 {
            for chain in self.sandbox.chains() {
                chain.devnet.mine().await.unwrap();
            }
            if holds().await {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Makes blocks on both chains until the deposit has this status; the last one that it had.
    async fn blocks_until(&self, id: &Value, status: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..30 {
            last = self.status(id).await;
            if last["status"] == status {
                break;
            }
            for chain in self.sandbox.chains() {
                chain.devnet.mine().await.unwrap();
            }
        }
        last
    }

    /// Both chains make a block with this timestamp.
    async fn pass_to(&self, time: u64) {
        for chain in self.sandbox.chains() {
            let made = chain.devnet.run(move |chain: &mut Chain| chain.set_next_timestamp(time)).await.unwrap();
            made.unwrap();
            chain.devnet.mine().await.unwrap();
        }
    }

    /// Value of everything by a Golem's meter, and whether it may tell a loss.
    async fn equity(&self) -> (f64, bool) {
        let terms = LifeTerms { born_at: 0, high_water: None, lifespan_seconds: None };
        let mut meter = VitalsMeter::new(Arc::clone(&self.world), terms).unwrap();
        let (reading, worth) = meter.read(SystemClock.now_millis()).await;
        (worth.equity.unwrap().to_string().parse().unwrap(), reading.feed_grade)
    }

    async fn ask<C: SolCall>(&self, name: &str, to: Address, call: C) -> C::Return {
        let chain = self.world.chain(name).unwrap();
        let request = TransactionRequest {
            to: Some(TxKind::Call(to)),
            input: Bytes::from(call.abi_encode()).into(),
            ..Default::default()
        };
        C::abi_decode_returns(&chain.client.provider().call(request).await.unwrap()).unwrap()
    }

    async fn usdc(&self, name: &str, owner: Address) -> U256 {
        let token = self.chain(name).deployment.token(SandboxToken::Usdc).unwrap();
        self.ask(name, token, Erc20::balanceOfCall { owner }).await
    }

    /// Balances of the account on both chains, and of the origin's pool.
    async fn purses(&self) -> [U256; 3] {
        [
            self.usdc("ethereum", self.account).await,
            self.usdc("base", self.account).await,
            self.usdc("ethereum", self.pool("ethereum")).await,
        ]
    }

    /// Status of a deposit in the destination's pool: 0 unfilled, 2 filled.
    async fn fill_status(&self, data: &Value) -> U256 {
        let token = |name: &str| self.chain(name).deployment.token(SandboxToken::Usdc).unwrap().into_word();
        let id: u64 = data["deposit_id"].as_str().unwrap().parse().unwrap();
        let relay = Relay {
            depositor: self.account.into_word(),
            recipient: self.account.into_word(),
            exclusiveRelayer: B256::ZERO,
            inputToken: token("ethereum"),
            outputToken: token("base"),
            inputAmount: U256::from(AMOUNT),
            outputAmount: raw(&data["amount_out"]),
            originChainId: U256::from(31_337),
            depositId: U256::from(id),
            fillDeadline: u32::try_from(data["fill_deadline"].as_u64().unwrap()).unwrap(),
            exclusivityDeadline: 0,
            message: Bytes::new(),
        };
        let hash = self.ask("base", self.pool("base"), Published::getV3RelayHashCall { relayData: relay }).await;
        self.ask("base", self.pool("base"), Published::fillStatusesCall { relayHash: hash }).await
    }

    async fn nonce(&self) -> u64 {
        let chain = self.world.chain("ethereum").unwrap();
        chain.client.provider().get_transaction_count(self.account).await.unwrap()
    }

    /// High-water marks of the stop-loss on both chains, in millionths of a dollar.
    fn marks(&self) -> [i64; 2] {
        let account = self.account.to_string();
        [31_337, 31_338].map(|chain| {
            let read = |connection: &rusqlite::Connection| -> Result<i64, StoreError> {
                let query =
                    "SELECT coalesce(max(micros), 0) FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2";
                let mut rows = connection.prepare(query).unwrap();
                Ok(rows.query_row(rusqlite::params![chain, account], |row| row.get(0)).unwrap())
            };
            self.store.read(read).unwrap()
        })
    }

    /// A process with the same account that asks the service at `url` for quotes.
    fn quoting_from(&self, url: &str) -> Quoting {
        let service = JsonService::new(url).unwrap().within(Duration::from_secs(2));
        let store = Store::open(StoreConfig::at(self.store.path()), ALL_MIGRATIONS).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let fabric = Fabric::in_memory(100, clock.clone());
        let connected = |id: u64| OrderChain {
            deposits: Some(Arc::new(HttpFees::new(service.clone()))),
            ..self.orders.chain(id).unwrap().clone()
        };
        let orders = Orders::new(OrdersConfig {
            chains: vec![connected(31_337), connected(31_338)],
            store: store.clone(),
            rules: self.rules.clone(),
            clock: clock.clone(),
            fabric: fabric.clone(),
        });
        let chain = |name: &str| {
            let chain = self.world.chain(name).unwrap();
            let (client, network) = (chain.client.clone(), chain.network());
            let rules = SenderRules::for_network(network.kind, network.block_millis);
            PipelineChain {
                reader: SnapshotReader::new(client.clone(), chain.prices.clone(), "10000".parse().unwrap()),
                sender: TxSender::new(client, store.clone(), clock.clone(), None, rules),
            }
        };
        let pipeline = Pipeline::new(PipelineConfig {
            chains: vec![chain("ethereum"), chain("base")],
            store: store.clone(),
            rules: self.rules.clone(),
            clock: clock.clone(),
            fabric: fabric.clone(),
            queue: ApprovalQueue::new(clock, fabric.clone(), Duration::from_secs(60)),
            key: None,
            guardian: None,
            permit_ttl: Duration::from_secs(60),
            patience: Duration::from_secs(60),
        });
        pipeline.connect_orders(orders.clone());
        let (sender, phase) = watch::channel(Phase::Thriving);
        let (account, approve, paper) = (self.signer.clone(), ApprovalMode::Always, PaperMode::default());
        let acting = WriteAccess { pipeline, account, phase, approve, paper };
        let world = (*self.world).clone().with_orders(Some(orders));
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = bardo_testkit::acting::executor(catalog, world, fabric, Some(store), Some(acting));
        Quoting { executor, _phase: sender }
    }
}

struct Quoting {
    executor: Executor,
    _phase: watch::Sender<Phase>,
}

impl Quoting {
    async fn deposit(&self, more: Value) -> ToolResponse {
        self.executor.call(ToolCall::new("across_deposit", ToolInput::Json(route(more)))).await
    }
}

fn route(more: Value) -> Value {
    let mut params =
        json!({"token_in": "USDC", "amount": "500", "source_chain": "ethereum", "destination_chain": "base"});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// Raw units of a USDC amount in whole tokens.
fn raw(amount: &Value) -> U256 {
    bardo::base::units::TokenAmount::parse(amount.as_str().unwrap(), 6).unwrap().raw()
}

fn code(response: &ToolResponse) -> Option<ErrorCode> {
    response.error.as_ref().map(ToolError::code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_is_filled_on_the_destination_and_its_relayer_repaid_out_of_the_pool() {
    let crossing = Crossing::open().await;
    let quote = crossing.call("across_get_quote", route(json!({}))).await;
    assert_eq!(quote.status, CallStatus::Success, "{quote:#?}");
    let quote = quote.data.unwrap();
    let (amount, pool) = (U256::from(AMOUNT), crossing.pool("ethereum"));
    let had = crossing.purses().await;
    let data = crossing.deposit(3_600).await;
    assert_eq!((&data["pool"], &data["deposit_id"]), (&json!(pool.to_string()), &json!("0")));
    assert_eq!(crossing.ask("ethereum", pool, Published::numberOfDepositsCall {}).await, 1);
    assert_eq!(crossing.purses().await, [had[0] - amount, had[1], had[2] + amount]);
    let out = raw(&data["amount_out"]);
    // By hand: of 500 dollars at least 99 % arrive, and a relayer keeps something.
    assert!(out >= U256::from(495_000_000) && out < amount, "{data:#}");
    assert!(raw(&quote["amount_out"]).abs_diff(out) < U256::from(1_000_000), "{quote:#} {data:#}");
    assert_eq!(crossing.status(&data["deposit_id"]).await["status"], "pending");
    assert_eq!(crossing.fill_status(&data).await, U256::ZERO);

    let filled = crossing.blocks_until(&data["deposit_id"], "filled").await;
    assert_eq!(filled["status"], "filled", "{filled:#}");
    assert_eq!(crossing.fill_status(&data).await, U256::from(2));
    assert_eq!(crossing.purses().await[1] - had[1], out, "to the unit what the deposit asks for");
    assert_eq!(filled["received"], json!(format!("{} USDC", data["amount_out"].as_str().unwrap())));
    assert!(filled["fill_tx"].is_string() && filled["refund_tx"].is_null(), "{filled:#}");
    // The data worker repays the relayer with what was deposited.
    let relayer: Address = filled["relayer"].as_str().unwrap().parse().unwrap();
    crossing.mine_until(async || crossing.purses().await[2] == had[2]).await;
    assert_eq!(crossing.purses().await, [had[0] - amount, had[1] + out, had[2]]);
    assert!(crossing.usdc("ethereum", relayer).await >= amount);
    assert_eq!(crossing.status(&data["deposit_id"]).await["status"], "filled", "a repayment is not a refund");
}

/// A deposit that the pool itself pays counts as filled by a slow fill, with what it really paid: more than was asked for, since no
/// relayer keeps a part.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_no_relayer_fills_is_paid_by_the_pool_itself() {
    let crossing = Crossing::open().await;
    let had = crossing.purses().await;
    crossing.relayers().set_slow(true);
    let data = crossing.deposit(3_600).await;
    let asked = crossing.blocks_until(&data["deposit_id"], "slow_fill_requested").await;
    assert_eq!(asked["status"], "slow_fill_requested", "{asked:#}");
    assert!(
        asked["slow_fill_tx"].is_string() && asked["fill_tx"].is_null() && asked["received"].is_null(),
        "{asked:#}"
    );
    assert_eq!(crossing.fill_status(&data).await, U256::from(1));
    assert_eq!(crossing.purses().await[1], had[1], "nothing has arrived");
    let (source, token) = (crossing.world.chain("ethereum").unwrap(), crossing.chain("ethereum"));
    let given = token.deployment.token(SandboxToken::Usdc).unwrap();
    let transit = in_transit(&crossing.world, source, crossing.account).await.unwrap();
    assert_eq!(
        transit,
        InTransit { deposits: vec![(given, U256::from(AMOUNT))], is_partial: false },
        "it still counts"
    );
    let rows = deposits::read(&crossing.world, crossing.account).await;
    assert_eq!((rows.rows[0].stage, &rows.rows[0].amount_received), (DepositStage::SlowFillAsked, &None), "{rows:#?}");

    let filled = crossing.blocks_until(&data["deposit_id"], "filled").await;
    assert_eq!((&filled["status"], &filled["filled_by"]), (&json!("filled"), &json!("slow")), "{filled:#}");
    assert_eq!(filled["relayer"], Value::Null, "nobody is repaid");
    // By hand: 500 less the pool's basis point, 0.05, whatever the quote left to a relayer.
    assert!(raw(&data["amount_out"]) < U256::from(499_950_000), "{data:#}");
    assert_eq!(filled["received"], "499.95 USDC");
    assert_eq!(crossing.purses().await[1] - had[1], U256::from(499_950_000));
    assert_eq!(crossing.fill_status(&data).await, U256::from(2));
    for _ in 0..10 {
        crossing.chain("ethereum").devnet.mine().await.unwrap();
    }
    assert_eq!(crossing.purses().await[2], had[2] + U256::from(AMOUNT), "no relayer and no depositor is paid for it");

    let DepositsState { rows, fault } = deposits::read(&crossing.world, crossing.account).await;
    assert_eq!((rows.len(), fault), (1, None));
    let (row, text) = (&rows[0], |value: &Value| value.as_str().unwrap().parse::<B256>().unwrap());
    assert_eq!(row.stage, DepositStage::FilledSlowly);
    assert_eq!((row.amount_in.as_str(), row.amount_received.as_deref()), ("500", Some("499.95")));
    assert_eq!((row.source_chain.as_str(), row.destination_chain.as_str()), ("ethereum", "base"));
    assert_eq!((row.deposited.hash, row.relayer.as_ref()), (text(&filled["deposit_tx"]), None));
    assert_eq!(row.filled.as_ref().unwrap().hash, text(&filled["fill_tx"]));
    assert_eq!(row.slow_fill_asked.as_ref().unwrap().hash, text(&asked["slow_fill_tx"]));
}

/// A deposit that leaves the relayers less than they take waits for the pool itself, without anybody's help.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_is_worth_no_relayers_while_is_filled_slowly() {
    let crossing = Crossing::open().await;
    let had = crossing.purses().await;
    let token = |name: &str| crossing.chain(name).deployment.token(SandboxToken::Usdc).unwrap();
    let now = crossing.chain("ethereum").devnet.run(|chain: &mut Chain| chain.head().header.timestamp).await.unwrap();
    // The most modest relayer keeps 6 basis points, 0.3 USDC.
    let thin = json!({
        "spokePoolAddress": crossing.pool("ethereum"), "destinationSpokePoolAddress": crossing.pool("base"),
        "inputToken": {"address": token("ethereum"), "chainId": 31_337},
        "outputToken": {"address": token("base"), "chainId": 31_338},
        "timestamp": now.to_string(), "outputAmount": "499900000", "isAmountTooLow": false,
    });
    let made = crossing.quoting_from(&service(Some(thin.to_string()))).deposit(json!({})).await;
    assert_eq!(made.status, CallStatus::Success, "{made:#?}");
    let id = made.data.unwrap()["deposit_id"].clone();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let last = crossing.blocks_until(&id, "filled").await;
        seen.push(last["status"].clone());
        if last["status"] == "filled" {
            assert_eq!((&last["filled_by"], &last["received"]), (&json!("slow"), &json!("499.95 USDC")), "{last:#}");
            break;
        }
    }
    assert_eq!(seen.last(), Some(&json!("filled")), "{seen:?}");
    assert_eq!(crossing.purses().await[1] - had[1], U256::from(499_950_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_that_nobody_fills_is_paid_back_after_its_deadline() {
    let crossing = Crossing::open().await;
    let had = crossing.purses().await;
    crossing.relayers().set_rest(true);
    let data = crossing.deposit(60).await;
    let last = data["fill_deadline"].as_u64().unwrap();
    crossing.pass_to(last).await;
    assert_eq!(crossing.status(&data["deposit_id"]).await["status"], "pending", "its last second");
    crossing.pass_to(last + 10).await;
    let expired = crossing.status(&data["deposit_id"]).await;
    assert_eq!((&expired["status"], &expired["refund_tx"]), (&json!("expired"), &Value::Null), "{expired:#}");
    assert_eq!(crossing.purses().await[2], had[2] + U256::from(AMOUNT), "the pool still has it");
    crossing.pass_to(last + 25).await;
    let refunded = crossing.blocks_until(&data["deposit_id"], "refunded").await;
    assert_eq!(refunded["status"], "refunded", "{refunded:#}");
    assert!(refunded["refund_tx"].is_string() && refunded["fill_tx"].is_null(), "{refunded:#}");
    assert_eq!(crossing.purses().await, had, "not a unit is missing");
    // It is paid once, also after more bundles.
    for _ in 0..10 {
        crossing.chain("ethereum").devnet.mine().await.unwrap();
    }
    assert_eq!(crossing.purses().await, had);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fill_that_pays_less_than_the_deposit_asks_for_does_not_count() {
    let crossing = Crossing::open().await;
    let had = crossing.purses().await;
    crossing.relayers().set_lies(true);
    let data = crossing.deposit(60).await;
    let out = raw(&data["amount_out"]);
    crossing.mine_until(async || crossing.purses().await[1] != had[1]).await;
    // The pool took the lie: it fills whatever a relayer says that there was, and has an event of it with this deposit's id.
    let got = crossing.purses().await[1] - had[1];
    assert_eq!(got, out / U256::from(2), "half of it arrived");
    let now = crossing.status(&data["deposit_id"]).await;
    assert_eq!((&now["status"], &now["fill_tx"]), (&json!("pending"), &Value::Null), "{now:#}");
    assert_eq!(crossing.fill_status(&data).await, U256::ZERO);
    // Nor is the liar repaid: the depositor gets everything back.
    let last = data["fill_deadline"].as_u64().unwrap();
    crossing.pass_to(last + 25).await;
    let refunded = crossing.blocks_until(&data["deposit_id"], "refunded").await;
    assert_eq!(refunded["status"], "refunded", "{refunded:#}");
    assert_eq!(crossing.purses().await, [had[0], had[1] + got, had[2]]);
}

/// Two deposits of one account expire together: each is refunded, and one refund does not count for both.
#[tokio::test(flavor = "multi_thread")]
async fn each_refund_counts_for_one_deposit() {
    let crossing = Crossing::open().await;
    let had = crossing.purses().await;
    crossing.relayers().set_rest(true);
    let first = crossing.deposit(60).await;
    let second = crossing.deposit(600).await;
    let last = first["fill_deadline"].as_u64().unwrap();
    crossing.pass_to(last + 25).await;
    let refunded = crossing.blocks_until(&first["deposit_id"], "refunded").await;
    assert_eq!(refunded["status"], "refunded", "{refunded:#}");
    assert_eq!(crossing.status(&second["deposit_id"]).await["status"], "pending");
    let last = second["fill_deadline"].as_u64().unwrap();
    crossing.pass_to(last + 5).await;
    assert_eq!(crossing.status(&second["deposit_id"]).await["status"], "expired", "the refund was the first one's");
    crossing.pass_to(last + 25).await;
    let refunded = crossing.blocks_until(&second["deposit_id"], "refunded").await;
    assert_eq!(refunded["status"], "refunded", "{refunded:#}");
    assert_eq!(crossing.purses().await, had);
}

/// A deposit on its way counts until it was filled or paid back, and never twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_on_its_way_is_part_of_the_equity() {
    let crossing = Crossing::open().await;
    let before = crossing.equity().await;
    // The amounts are 500 dollars each; gas and the fee are a few.
    let near = |(equity, is_whole): (f64, bool), what: &str| {
        assert!((equity - before.0).abs() < 20.0 && is_whole, "{what}: {before:?} {equity} {is_whole}");
    };
    crossing.relayers().set_rest(true);
    let data = crossing.deposit(60).await;
    near(crossing.equity().await, "pending");
    let last = data["fill_deadline"].as_u64().unwrap();
    crossing.pass_to(last + 10).await;
    assert_eq!(crossing.status(&data["deposit_id"]).await["status"], "expired");
    near(crossing.equity().await, "expired");
    crossing.pass_to(last + 25).await;
    let refunded = crossing.blocks_until(&data["deposit_id"], "refunded").await;
    assert_eq!(refunded["status"], "refunded", "{refunded:#}");
    near(crossing.equity().await, "paid back");

    crossing.relayers().set_rest(false);
    let data = crossing.deposit(3_600).await;
    near(crossing.equity().await, "pending again");
    let filled = crossing.blocks_until(&data["deposit_id"], "filled").await;
    assert_eq!(filled["status"], "filled", "{filled:#}");
    near(crossing.equity().await, "filled");
}

/// The mark of the stop-loss moves with the deposit, so that it does not count as a loss on the chain that it left.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_is_no_loss_and_takes_its_part_of_the_mark_along() {
    let crossing = Crossing::open_under("stop_loss_pct = \"0.5\"\n").await;
    let first = crossing.deposit(600).await;
    let filled = crossing.blocks_until(&first["deposit_id"], "filled").await;
    assert_eq!(filled["status"], "filled", "{filled:#}");
    let [source, destination] = crossing.marks();
    // 500 of some 25,000 dollars are 2 %, more than the stop-loss permits as a loss.
    let swap = json!({"token_in": "USDC", "token_out": "UNI", "amount": "1", "chain": "ethereum"});
    let response = crossing.call("uniswap_execute_swap", swap).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    assert!((499_000_000..=505_000_000).contains(&destination), "{source} {destination}");
}

/// Answers one request after another with this body, as JSON; never, if there is none.
fn service(body: Option<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4_096];
            let _read = stream.read(&mut request);
            match &body {
                None => silent.push(stream),
                Some(body) => {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
                }
            }
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn no_quote_of_a_lying_service_is_signed() {
    let crossing = Crossing::open().await;
    let (had, nonce) = (crossing.purses().await, crossing.nonce().await);
    let token = |name: &str| crossing.chain(name).deployment.token(SandboxToken::Usdc).unwrap();
    let now = crossing.chain("ethereum").devnet.run(|chain: &mut Chain| chain.head().header.timestamp).await.unwrap();
    let honest = json!({
        "spokePoolAddress": crossing.pool("ethereum"), "destinationSpokePoolAddress": crossing.pool("base"),
        "inputToken": {"address": token("ethereum"), "chainId": 31_337},
        "outputToken": {"address": token("base"), "chainId": 31_338},
        "timestamp": now.to_string(), "outputAmount": "498000000", "isAmountTooLow": false,
    });
    let with = |change: Value| {
        let mut told = honest.clone();
        told.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        told
    };
    let stranger = Address::repeat_byte(0xbb);
    let (lie, cost) = (ErrorCode::ChainInconsistent, ErrorCode::SafetySlippage);
    for (answer, more, expected) in [
        (with(json!({"spokePoolAddress": stranger})), json!({}), lie),
        (with(json!({"destinationSpokePoolAddress": stranger})), json!({}), lie),
        (with(json!({"inputToken": {"address": stranger}})), json!({}), lie),
        (with(json!({"outputToken": {"address": stranger}})), json!({}), lie),
        (with(json!({"outputToken": {"address": token("base"), "chainId": 1}})), json!({}), lie),
        (with(json!({"timestamp": (now - 3_000).to_string()})), json!({}), lie),
        (with(json!({"timestamp": (now + 3_000).to_string()})), json!({}), lie),
        // More than it is worth, which nobody fills.
        (with(json!({"outputAmount": "510000000"})), json!({}), lie),
        (with(json!({"outputAmount": U256::MAX.to_string()})), json!({}), lie),
        (with(json!({"outputAmount": "0"})), json!({}), lie),
        (with(json!({"isAmountTooLow": true})), json!({}), ErrorCode::RoutingInsufficientLiquidity),
        // A fee of 2 % is above the caller's limit, and one of 20 % above the policy's, whatever the caller permits.
        (with(json!({"outputAmount": "490000000"})), json!({}), cost),
        (with(json!({"outputAmount": "400000000"})), json!({"max_fee_bps": 10_000}), cost),
        (json!([]), json!({}), lie),
        (json!("x".repeat(2 << 20)), json!({}), lie),
    ] {
        let quoting = crossing.quoting_from(&service(Some(answer.to_string())));
        let response = quoting.deposit(more).await;
        let answer: String = answer.to_string().chars().take(300).collect();
        assert_eq!(code(&response), Some(expected), "{answer}: {response:#?}");
    }
    let silent = crossing.quoting_from(&service(None)).deposit(json!({})).await;
    assert_eq!(code(&silent), Some(ErrorCode::ChainUnreachable), "{silent:#?}");
    let gone = crossing.quoting_from("http://127.0.0.1:9").deposit(json!({})).await;
    assert_eq!(code(&gone), Some(ErrorCode::ChainUnreachable), "{gone:#?}");
    assert_eq!((crossing.purses().await, crossing.nonce().await), (had, nonce), "nothing was signed");

    // Recipient, relayer, message and calldata of an answer are not used: the deposit is the account's own.
    let foreign = with(json!({"recipient": stranger, "exclusiveRelayer": stranger, "exclusivityDeadline": 600,
                              "message": "0x1234", "swapTx": {"to": stranger, "data": "0x12"}}));
    let taken = crossing.quoting_from(&service(Some(foreign.to_string()))).deposit(json!({})).await;
    assert_eq!(taken.status, CallStatus::Success, "{taken:#?}");
    let data = taken.data.unwrap();
    assert_eq!(data["amount_out"], "498");
    assert_eq!(crossing.fill_status(&data).await, U256::ZERO);
    let filled = crossing.blocks_until(&data["deposit_id"], "filled").await;
    assert_eq!(filled["status"], "filled", "{filled:#}");
    assert_eq!(crossing.fill_status(&data).await, U256::from(2), "exactly this relay: no message, no exclusivity");
    assert_eq!(crossing.purses().await[1] - had[1], U256::from(498_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_needs_a_route_an_amount_and_a_time() {
    let crossing = Crossing::open().await;
    let nonce = crossing.nonce().await;
    for (more, expected) in [
        (json!({"destination_chain": "ethereum"}), ErrorCode::ValidationFailed),
        (json!({"destination_chain": "arbitrum"}), ErrorCode::ChainUnknown),
        (json!({"amount": "0"}), ErrorCode::ValidationFailed),
        (json!({"amount": "900000"}), ErrorCode::ValidationFailed),
        (json!({"amount": "200000"}), ErrorCode::InsufficientBalance),
        (json!({"token_in": "ETH", "amount": "1"}), ErrorCode::ValidationFailed),
        (json!({"deadline": 59}), ErrorCode::ValidationFailed),
        (json!({"deadline": 21_601}), ErrorCode::ValidationFailed),
        (json!({"max_fee_bps": 0}), ErrorCode::SafetySlippage),
        (json!({"recipient": Address::repeat_byte(1)}), ErrorCode::ValidationFailed),
    ] {
        let response = crossing.call("across_deposit", route(more.clone())).await;
        assert_eq!(code(&response), Some(expected), "{more}: {response:#?}");
    }
    assert_eq!(crossing.nonce().await, nonce);
    let unknown = json!({"source_chain": "ethereum", "deposit_id": "7"});
    let response = crossing.call("across_get_deposit_status", unknown).await;
    assert_eq!(code(&response), Some(ErrorCode::ValidationFailed), "{response:#?}");
    let none = crossing.call("across_get_deposit_status", json!({"source_chain": "ethereum"})).await;
    assert_eq!(none.data.unwrap()["count"], 0);
}

/// Anybody can deposit in the account's name. However many do, the account's own deposit is found by its id, at once, and a list
/// that leaves some out says so.
#[tokio::test(flavor = "multi_thread")]
async fn deposits_that_strangers_make_in_the_accounts_name_hide_none_of_its_own() {
    const STRANGERS: u64 = 60;
    let crossing = Crossing::open().await;
    crossing.relayers().set_rest(true);
    let own = crossing.deposit(3_600).await;
    let (pool, account, stranger) = (crossing.pool("ethereum"), crossing.account, crossing.sandbox.accounts()[1]);
    let [given, wanted] =
        ["ethereum", "base"].map(|name| crossing.chain(name).deployment.token(SandboxToken::Usdc).unwrap());
    let devnet = &crossing.chain("ethereum").devnet;
    let made = devnet
        .run(move |chain: &mut Chain| {
            let now = u32::try_from(chain.head().header.timestamp).unwrap();
            let deposit = Published::depositV3Call {
                depositor: account,
                recipient: account,
                inputToken: given,
                outputToken: wanted,
                inputAmount: U256::from(2),
                outputAmount: U256::from(1),
                destinationChainId: U256::from(31_338),
                exclusiveRelayer: Address::ZERO,
                quoteTimestamp: now,
                fillDeadline: now + 3_600,
                exclusivityDeadline: 0,
                message: Bytes::new(),
            };
            let approve = Erc20::approveCall { spender: pool, value: U256::MAX }.abi_encode();
            let fund = Erc20::transferCall { to: stranger, value: U256::from(1_000) }.abi_encode();
            let fund = TxEip1559 {
                chain_id: 31_337,
                nonce: chain.pending_nonce(account),
                gas_limit: 300_000,
                max_fee_per_gas: 100_000_000_000,
                max_priority_fee_per_gas: 1_000_000_000,
                to: TxKind::Call(given),
                input: fund.into(),
                ..TxEip1559::default()
            };
            chain.submit_as(account, TypedTransaction::Eip1559(fund)).unwrap();
            chain.set_balance(stranger, U256::from(10).pow(U256::from(20)));
            chain.mine();
            let first = chain.pending_nonce(stranger);
            for at in 0..=STRANGERS {
                let (to, data) = if at == 0 { (given, approve.clone()) } else { (pool, deposit.abi_encode()) };
                let transaction = TxEip1559 {
                    chain_id: 31_337,
                    nonce: first + at,
                    gas_limit: 300_000,
                    max_fee_per_gas: 100_000_000_000,
                    max_priority_fee_per_gas: 1_000_000_000,
                    to: TxKind::Call(to),
                    input: data.into(),
                    ..TxEip1559::default()
                };
                chain.submit_as(stranger, TypedTransaction::Eip1559(transaction)).unwrap();
            }
            for _ in 0..3 {
                chain.mine();
            }
        })
        .await;
    made.unwrap();
    let source = crossing.world.chain("ethereum").unwrap();
    let transit = in_transit(&crossing.world, source, account).await.unwrap();
    assert_eq!(transit, InTransit { deposits: vec![(given, U256::from(AMOUNT))], is_partial: false }, "no stranger's");
    let all = crossing.ask("ethereum", pool, Published::numberOfDepositsCall {}).await;
    assert_eq!(u64::from(all), STRANGERS + 1);
    let response = crossing
        .call("across_get_deposit_status", json!({"source_chain": "ethereum", "deposit_id": own["deposit_id"]}))
        .await;
    let data = response.data.unwrap();
    assert_eq!((&data["count"], &data["is_partial"]), (&json!(1), &json!(false)), "{data:#}");
    assert_eq!(data["deposits"][0]["deposited"], "500 USDC", "{data:#}");
    let response = crossing.call("across_get_deposit_status", json!({"source_chain": "ethereum"})).await;
    let data = response.data.unwrap();
    assert_eq!((&data["count"], &data["is_partial"]), (&json!(20), &json!(true)), "{data:#}");
    // Once they have all expired, nobody can tell of which of them a refund is: no one is reported as paid back.
    crossing.pass_to(own["fill_deadline"].as_u64().unwrap() + 25).await;
    let expired = crossing.status(&own["deposit_id"]).await;
    assert_eq!((&expired["status"], &expired["refund_tx"]), (&json!("expired"), &Value::Null), "{expired:#}");
    assert!(expired["remark"].as_str().unwrap().contains("name this account"), "{expired:#}");
}
