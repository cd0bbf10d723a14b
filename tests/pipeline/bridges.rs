//! Bridge orders by the tools, between both chains of a devnet: delivered and repaid, locked and refunded after their
//! deadline, refused if the destination makes no blocks. Flows are read from the chains.

mod lying;
mod reorged;

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::Erc20;
use bardo::abi::erc7683::OriginSettler;
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::ConfigFlags;
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::{Check, Phase};
use bardo::base::units::{TokenAmount, Usd};
use bardo::chain::devnet::{Chain, MiningMode};
use bardo::chain::provider::ChainClient;
use bardo::engine::{
    ApprovalMode, CallStatus, Executor, PreviewResult, ToolCall, ToolEnvironment, ToolInput, ToolResponse, WriteAccess,
};
use bardo::fabric::Fabric;
use bardo::runtime::questions::{RequestContext, view_model};
use bardo::safety::account::Account;
use bardo::safety::approval::{ApprovalRequest, AskedBy, requirement};
use bardo::safety::orders::{OrderChain, OrderRecord, OrderStage, Orders, OrdersConfig};
use bardo::safety::pipeline::{PhaseRequest, Pipeline};
use bardo::safety::policy_engine::PolicyEngine;
use bardo::safety::typed::TypedMessage;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{Sandbox, SandboxChain, SandboxConfig};
use bardo::session::questions::RequestSubject;
use bardo::store::{Store, StoreError};
use bardo::uniswap::order::OrderKind;
use serde_json::{Value, json};

use bardo_testkit::engine::{Engine, still};

/// Sent amount: 100 USDC.
const AMOUNT: u64 = 100_000_000;
/// Seconds that the settler waits for news of a delivery after the fill deadline.
const REFUND_DELAY: u64 = 30;

const POLICY: &str = "preset = \"demo\"\nmax_trades_per_hour = 1000\nmax_tool_calls_per_minute = 10000\n";

fn quiet() -> SandboxConfig {
    // Time is advanced far here: a feed update meanwhile would be from the future.
    still(21, false)
}

pub struct Bridge {
    pub executor: Executor,
    pub world: Arc<ToolEnvironment>,
    pub orders: Orders,
    sandbox: Sandbox,
    pub account: Address,
    store: Store,
    rules: Arc<dyn PolicyEngine>,
    pipeline: Pipeline,
    signer: Arc<dyn Account>,
    _home: tempfile::TempDir,
}

impl Bridge {
    /// The same setup as `bardo call`, with chains that make blocks only here.
    pub async fn open() -> Self {
        Self::open_under("").await
    }

    /// Adds these lines to the policy.
    async fn open_under(lines: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy-devnet.toml"), format!("{POLICY}{lines}")).unwrap();
        let engine = Engine::open(home.path(), &ConfigFlags::default(), quiet).await;
        let (orders, sandbox) = (engine.orders.unwrap(), engine.sandbox.unwrap());
        let WriteAccess { pipeline, account: signer, .. } = engine.acting;
        let (executor, world, store, rules) = (engine.executor, engine.world, engine.store, engine.rules);
        let account = sandbox.accounts()[0];
        Self { executor, world, orders, account, sandbox, store, rules, pipeline, signer, _home: home }
    }

    /// The same orders with this client for the origin chain.
    pub fn orders_over(&self, origin: ChainClient) -> Orders {
        let destination = self.world.chain("base").unwrap().client.clone();
        let chain = |client| OrderChain {
            client,
            kind: OrderKind::DutchV2,
            auctions: None,
            bridges: None,
            deposits: None,
            confirmations: None,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Orders::new(OrdersConfig {
            chains: vec![chain(origin), chain(destination)],
            store: self.store.clone(),
            rules: self.rules.clone(),
            clock: clock.clone(),
            fabric: Fabric::in_memory(100, clock),
        })
    }

    pub fn chain(&self, name: &str) -> &SandboxChain {
        self.sandbox.chain(name).unwrap()
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        let call = ToolCall { approve: Some(ApprovalMode::Always), ..ToolCall::new(tool, ToolInput::Json(params)) };
        self.executor.call(call).await
    }

    async fn send(&self, seconds: u64) -> ToolResponse {
        let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                            "destination_chain": "base", "deadline": seconds});
        self.call("uniswap_submit_cross_chain_intent", params).await
    }

    async fn sent(&self, seconds: u64) -> B256 {
        let response = self.send(seconds).await;
        assert_eq!(response.status, CallStatus::Partial, "{response:#?}");
        let data = response.data.unwrap();
        let id = data["intent_id"].as_str().unwrap().parse().unwrap();
        // The estimate is the amount that the order was signed for.
        let TypedMessage::CrossChainOrder { intent, .. } = self.orders.record(id).unwrap().message else { panic!() };
        let told = TokenAmount::parse(data["estimated_output"].as_str().unwrap(), 6).unwrap();
        assert_eq!(told.raw(), intent.data.outputAmount);
        id
    }

    async fn refund(&self, id: B256) -> ToolResponse {
        self.call("intent_refund", json!({"intent_id": id.to_string()})).await
    }

    /// Makes blocks on these chains in turn until the intent has this status; `None` after twenty.
    async fn blocks_until(&self, id: B256, chains: &[&str], status: &str) -> Option<OrderRecord> {
        for _ in 0..20 {
            let record = self.orders.poll(id).await.unwrap();
            if record.status.as_str() == status {
                return Some(record);
            }
            for name in chains {
                self.chain(name).devnet.mine().await.unwrap();
            }
        }
        None
    }

    /// An intent that a relayer has locked. One that all of them overlook or drop is cancelled and sent again.
    pub async fn locked(&self, seconds: u64) -> (B256, OrderRecord) {
        for _ in 0..4 {
            let id = self.sent(seconds).await;
            if let Some(record) = self.blocks_until(id, &["ethereum"], "filling").await {
                return (id, record);
            }
            let void = self.call("uniswapx_cancel_order", json!({"order_hash": id.to_string()})).await;
            assert_eq!(void.status, CallStatus::Success, "{void:#?}");
        }
        panic!("no relayer locks anything");
    }

    /// Timestamp of the next block of a chain.
    async fn next_time(&self, chain: &SandboxChain) -> u64 {
        chain.devnet.run(|chain: &mut Chain| chain.next_context().timestamp).await.unwrap()
    }

    /// Both chains make a block this many seconds after the later of them. Blocks within the same second are each a
    /// second later than their parent, so the chain that makes more of them runs ahead.
    async fn pass(&self, seconds: u64) {
        let mut latest = 0;
        for chain in self.sandbox.chains() {
            latest = latest.max(self.next_time(chain).await);
        }
        self.pass_to(latest + seconds).await;
    }

    /// Both chains make a block with this timestamp.
    async fn pass_to(&self, time: u64) {
        for chain in self.sandbox.chains() {
            let made = chain.devnet.run(move |chain: &mut Chain| chain.set_next_timestamp(time)).await.unwrap();
            made.unwrap();
            chain.devnet.mine().await.unwrap();
        }
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

    /// Balances of the account on both chains, and of the origin's settler.
    async fn purses(&self) -> [U256; 3] {
        let settler = self.chain("ethereum").deployment.contracts["originSettler"];
        [
            self.usdc("ethereum", self.account).await,
            self.usdc("base", self.account).await,
            self.usdc("ethereum", settler).await,
        ]
    }

    /// Rule that refuses a swap into a new position on ethereum; `None` if it succeeds.
    async fn swap_refused(&self) -> Option<String> {
        let params = json!({"token_in": "USDC", "token_out": "UNI", "amount": "1", "chain": "ethereum"});
        let response = self.call("uniswap_execute_swap", params).await;
        if response.status == CallStatus::Success {
            return None;
        }
        let violations = response.error.as_ref().unwrap().details()["violations"].as_array().cloned();
        let rules = violations.unwrap_or_default().into_iter().map(|one| one["rule"].as_str().unwrap().to_owned());
        Some(rules.collect::<Vec<_>>().join(" "))
    }

    /// High-water marks of the stop-loss on both chains, in millionths of a dollar.
    fn marks(&self) -> [i64; 2] {
        let account = self.account.to_string();
        [31_337, 31_338].map(|chain| {
            let read = |connection: &rusqlite::Connection| -> Result<i64, StoreError> {
                let mut rows = connection
                    .prepare(
                        "SELECT coalesce(max(micros), 0) FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2",
                    )
                    .unwrap();
                Ok(rows.query_row(rusqlite::params![chain, account], |row| row.get(0)).unwrap())
            };
            self.store.read(read).unwrap()
        })
    }

    /// Sets the account's native balance on ethereum; returns the previous one.
    async fn set_coin(&self, wei: U256) -> U256 {
        let account = self.account;
        let set = move |chain: &mut Chain| {
            let had = chain.state().balance(account);
            chain.set_balance(account, wei);
            had
        };
        let had = self.chain("ethereum").devnet.run(set).await.unwrap();
        self.chain("ethereum").devnet.mine().await.unwrap();
        had
    }

    async fn deposit(&self, id: B256) -> u8 {
        let settler = self.chain("ethereum").deployment.contracts["originSettler"];
        self.ask("ethereum", settler, OriginSettler::depositsCall { orderId: id }).await.status
    }

    async fn nonce(&self) -> u64 {
        let chain = self.world.chain("ethereum").unwrap();
        chain.client.provider().get_transaction_count(self.account).await.unwrap()
    }
}

fn code(response: &ToolResponse) -> Option<ErrorCode> {
    response.error.as_ref().map(ToolError::code)
}

fn message(response: &ToolResponse) -> &str {
    response.error.as_ref().map(ToolError::message).unwrap_or_default()
}

fn card(record: &OrderRecord) -> Value {
    serde_json::from_str(record.card.as_deref().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_shows_what_a_bridge_order_costs() {
    let bridge = Bridge::open().await;
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                        "destination_chain": "base"});
    let call = ToolCall::new("uniswap_submit_cross_chain_intent", ToolInput::Json(params));
    let PreviewResult::Held(offer) = bridge.executor.offer(call).await else { panic!("no offer") };
    let preview = Arc::new(offer.preview().clone());
    let request = ApprovalRequest {
        preview: Arc::clone(&preview),
        asked_by: AskedBy::default(),
        requirement: requirement(&preview),
        reasons: vec![],
        changed: vec![],
        revision: 0,
        second: None,
        passes_by_itself: false,
        asked_at: 0,
        ends_at: 0,
        place: 1,
        of: 1,
    };
    let network = bridge.world.chains()[0].client.network();
    let question = view_model(&request, Some(network), 1, false, RequestContext::default());
    let RequestSubject::Action(asked) = question.about else { panic!("{question:?}") };
    // A dollar token goes out and a dollar token arrives, so the cost is the difference of the amounts.
    let arrives: f64 = asked.arrival.unwrap().expected.parse().unwrap();
    let (lost, bps) = asked.costs.expected_loss.unwrap();
    let lost: f64 = Usd::to_string(&lost).parse().unwrap();
    assert!((lost - (100.0 - arrives)).abs() < 0.05, "{lost} {arrives}");
    assert!((bps as f64 - lost * 100.0).abs() <= 1.0 && asked.costs.worst_loss_bps >= Some(bps), "{bps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_is_delivered_on_the_destination_and_its_relayer_repaid_on_the_origin() {
    let bridge = Bridge::open().await;
    // Relayers forget some locked orders: then another one is sent.
    let mut delivered = None;
    for _ in 0..4 {
        let had = bridge.purses().await;
        let (id, record) = bridge.locked(600).await;
        let locked = [had[0] - U256::from(AMOUNT), had[1], had[2] + U256::from(AMOUNT)];
        assert_eq!(bridge.purses().await, locked);
        assert!(card(&record)["money"].as_str().unwrap().contains("locked in settler 0x"), "{record:#?}");
        // A locked order cannot be refunded while it can be delivered.
        let early = bridge.refund(id).await;
        assert_eq!(code(&early), Some(ErrorCode::NotYet));
        assert!(message(&early).contains("unless it is delivered"), "{early:#?}");
        let wait = early.error.as_ref().unwrap().details()["retry_after_seconds"].as_u64().unwrap();
        assert!((1..=600 + REFUND_DELAY + 1).contains(&wait), "{early:#?}");
        // Nor is there anything left to cancel.
        let void = bridge.call("uniswapx_cancel_order", json!({"order_hash": id.to_string()})).await;
        assert_eq!(code(&void), Some(ErrorCode::ValidationFailed), "{void:#?}");
        assert!(message(&void).contains("its money is already locked: locked in settler 0x"), "{void:#?}");
        if let Some(record) = bridge.blocks_until(id, &["base", "ethereum"], "filled").await {
            delivered = Some((had, id, record));
            break;
        }
    }
    let (had, id, record) = delivered.expect("no relayer delivers anything");
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let least = intent.data.outputAmount;
    assert!(least > U256::from(AMOUNT * 95 / 100), "{least}");
    assert_eq!(bridge.purses().await[1] - had[1], least, "to the unit what was signed for");
    // The messenger repays the filler, and only then the order has ended.
    for _ in 0..20 {
        if bridge.orders.poll(id).await.unwrap().stage == OrderStage::Ended {
            break;
        }
        bridge.pass(1).await;
    }
    let record = bridge.orders.record(id).unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "filled"));
    assert!(card(&record)["repaid"].is_object(), "{record:#?}");
    assert_eq!(bridge.purses().await, [had[0] - U256::from(AMOUNT), had[1] + least, had[2]]);
    let late = bridge.refund(id).await;
    assert!(message(&late).contains("the intent is filled"), "{late:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undelivered_intent_is_refunded_after_its_deadline() {
    let bridge = Bridge::open().await;
    let had = bridge.purses().await;
    // The destination makes no block before the deadline: nobody can deliver.
    let (id, record) = bridge.locked(60).await;
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let last = u64::from(intent.fill_deadline);
    bridge.pass_to(last + 10).await;
    let record = bridge.orders.poll(id).await.unwrap();
    assert_eq!((record.status.as_str(), record.stage), ("expired", OrderStage::Submitted));
    assert!(card(&record)["money"].as_str().unwrap().contains("intent_refund"), "{record:#?}");
    // First second in which the settler refunds it, not the last in which it could be delivered.
    let from = card(&record)["refund_from"].as_u64().unwrap();
    assert_eq!(from, last + REFUND_DELAY + 1, "{record:#?}");
    // A delivery may have been made at the last moment: the settler waits for news of it.
    let early = bridge.refund(id).await;
    assert_eq!(code(&early), Some(ErrorCode::NotYet), "{early:#?}");
    let wait = early.error.as_ref().unwrap().details()["retry_after_seconds"].as_u64().unwrap();
    assert!((1..=REFUND_DELAY + 1).contains(&wait), "{early:#?}");
    assert!(message(&early).contains("the settler refunds it from"), "{early:#?}");
    assert_eq!(bridge.purses().await[2], U256::from(AMOUNT));

    bridge.pass_to(from.max(last + 10 + REFUND_DELAY)).await;
    let back = bridge.refund(id).await;
    assert_eq!(back.status, CallStatus::Success, "{back:#?}");
    let data = back.data.unwrap();
    assert_eq!((data["status"].as_str(), data["amount"].as_str()), (Some("refunded"), Some("100")));
    assert!(data["tx_hash"].is_string() && data["block_number"].is_u64(), "{data}");
    assert_eq!(bridge.purses().await, had, "not a unit is missing");
    let record = bridge.orders.poll(id).await.unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "refunded"));
    assert!(card(&record)["refunded"].is_object() && card(&record)["delivered"].is_null(), "{record:#?}");

    // Refunding works once, and only for the account's own bridge orders.
    let again = bridge.refund(id).await;
    assert!(message(&again).contains("the intent is refunded"), "{again:#?}");
    let unknown = bridge.refund(B256::repeat_byte(7)).await;
    assert!(message(&unknown).contains("was not signed here"), "{unknown:#?}");
    assert_eq!(bridge.deposit(id).await, 3);
}

/// 100 of about 25,000 dollars are in transit: more than the stop-loss permits as a loss, but not lost.
const NARROW: &str = "stop_loss_pct = \"0.3\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn funds_in_a_bridge_are_not_a_loss_but_a_simultaneous_loss_counts() {
    let bridge = Bridge::open_under(NARROW).await;
    // A tenth of a native token is 340 dollars.
    let poorer = async || {
        let coin = U256::from(10).pow(U256::from(17));
        let had = bridge.set_coin(U256::ZERO).await;
        bridge.set_coin(had - coin).await;
        let refused = bridge.swap_refused().await;
        bridge.set_coin(had).await;
        refused
    };
    let stop_loss = Some("stop_loss_pct".to_owned());
    let mut delivered = None;
    // Relayers forget some locked orders: then another one is sent.
    for _ in 0..4 {
        let (id, _) = bridge.locked(600).await;
        assert_eq!(bridge.swap_refused().await, None, "it is locked, not lost");
        assert_eq!(poorer().await, stop_loss, "what is locked hides no loss");
        if bridge.blocks_until(id, &["base", "ethereum"], "filled").await.is_some() {
            delivered = Some(id);
            break;
        }
    }
    let id = delivered.expect("no relayer delivers anything");
    assert_eq!(bridge.swap_refused().await, None, "it has arrived");
    let before = bridge.marks();
    for _ in 0..20 {
        if bridge.orders.poll(id).await.unwrap().stage == OrderStage::Ended {
            break;
        }
        bridge.pass(1).await;
    }
    assert_eq!(bridge.orders.record(id).unwrap().stage, OrderStage::Ended);
    // The mark moved with the money: a hundred dollars plus a few cents of earlier losses, from one chain to the other.
    let after = bridge.marks();
    let removed = before[0] - after[0];
    assert!((99_000_000..=102_000_000).contains(&removed), "{before:?} {after:?}");
    assert_eq!(after[1], removed.max(before[1]), "{before:?} {after:?}");
    assert_eq!(bridge.swap_refused().await, None, "it has left for good, and nothing is lost");
    assert_eq!(poorer().await, stop_loss);
    let log: String = bridge
        .store
        .read(|connection| -> Result<String, StoreError> {
            let mut rows = connection.prepare("SELECT group_concat(body) FROM audit_entry").unwrap();
            Ok(rows.query_row([], |row| row.get(0)).unwrap())
        })
        .unwrap();
    assert!(log.contains("stop_loss_mark"), "that a mark was lowered is on the trail");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_refund_is_not_a_loss_and_does_not_move_the_high_water_mark() {
    let bridge = Bridge::open_under(NARROW).await;
    let (id, record) = bridge.locked(60).await;
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let marks = bridge.marks();
    let last = u64::from(intent.fill_deadline);
    bridge.pass_to(last + 10).await;
    // Its location is unknown until it is back: anyone may complete the refund.
    assert_eq!(bridge.swap_refused().await.as_deref(), Some("stop_loss_pct"));
    bridge.pass_to(last + 10 + REFUND_DELAY).await;
    let back = bridge.refund(id).await;
    assert_eq!(back.status, CallStatus::Success, "{back:#?}");
    assert_eq!(bridge.orders.poll(id).await.unwrap().stage, OrderStage::Ended);
    assert_eq!(bridge.marks(), marks);
    assert_eq!(bridge.swap_refused().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_to_a_halted_chain_is_refused_before_the_signature() {
    let bridge = Bridge::open().await;
    let (had, nonce) = (bridge.purses().await, bridge.nonce().await);
    let base = &bridge.chain("base").devnet;
    base.set_mining(MiningMode::Manual).await.unwrap();
    let refused = bridge.send(600).await;
    assert_eq!(code(&refused), Some(ErrorCode::CrossChainDestinationDegraded), "{refused:#?}");
    assert_eq!(refused.status, CallStatus::Error);
    assert!(message(&refused).contains("base") && message(&refused).contains("produces no blocks"), "{refused:#?}");
    // A chain that only seems to run: its latest block is older than many of its block times.
    base.set_mining(MiningMode::Interval(Duration::from_secs(3_600))).await.unwrap();
    let origin = &bridge.chain("ethereum").devnet;
    origin.set_mining(MiningMode::Manual).await.unwrap();
    assert_eq!(bridge.orders.every().unwrap(), [], "nothing was signed");
    assert_eq!((bridge.purses().await, bridge.nonce().await), (had, nonce), "and nothing sent");

    base.set_mining(MiningMode::OnTransaction).await.unwrap();
    origin.set_mining(MiningMode::OnTransaction).await.unwrap();
    bridge.sent(600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_intents_are_refused_before_anything_is_signed() {
    let bridge = Bridge::open().await;
    let nonce = bridge.nonce().await;
    let bad = [
        (json!({"destination_chain": "ethereum"}), ErrorCode::ValidationFailed, "same as the source chain"),
        (json!({"source_chain": "base"}), ErrorCode::ValidationFailed, "same as the source chain"),
        (json!({"destination_chain": "arbitrum"}), ErrorCode::ChainUnknown, "arbitrum"),
        (json!({"source_chain": "1"}), ErrorCode::ChainUnknown, "1"),
        (json!({"token_in": "NOSUCH"}), ErrorCode::TokenNotFound, "NOSUCH"),
        (json!({"token_out": "NOSUCH"}), ErrorCode::TokenNotFound, "NOSUCH"),
        (json!({"token_in": "ETH"}), ErrorCode::ValidationFailed, "token_in"),
        (json!({"token_out": "ETH"}), ErrorCode::ValidationFailed, "token_out"),
        (json!({"amount": "0"}), ErrorCode::ValidationFailed, "amount"),
        (json!({"amount": "-1"}), ErrorCode::ValidationFailed, "amount"),
        (json!({"amount": "1e3"}), ErrorCode::ValidationFailed, "amount"),
        (json!({"amount": "1.0000001"}), ErrorCode::ValidationFailed, "decimals"),
        (json!({"amount": "5001"}), ErrorCode::InsufficientBalance, "not enough USDC: 5,001 needed, 5,000 held"),
        (json!({"deadline": 0}), ErrorCode::ValidationFailed, "deadline"),
        (json!({"deadline": 59}), ErrorCode::ValidationFailed, "deadline"),
        (json!({"deadline": 604_801}), ErrorCode::ValidationFailed, "deadline"),
        (json!({"deadline": -5}), ErrorCode::ValidationFailed, "deadline"),
        (json!({"recipient": Address::repeat_byte(9).to_string()}), ErrorCode::ValidationFailed, "recipient"),
    ];
    for (change, wanted, words) in bad {
        let mut params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                                "destination_chain": "base"});
        params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let response = bridge.call("uniswap_submit_cross_chain_intent", params).await;
        assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(wanted)), "{change}: {response:#?}");
        assert!(message(&response).contains(words), "{change}: {response:#?}");
    }
    for garbled in ["", "0x12", "no id"] {
        let response = bridge.call("intent_refund", json!({"intent_id": garbled})).await;
        assert_eq!(
            (response.status, code(&response)),
            (CallStatus::Error, Some(ErrorCode::ValidationFailed)),
            "{garbled}"
        );
        assert!(message(&response).contains("intent_id"), "{garbled}: {response:#?}");
    }
    // And if the fault is the chain's: the settler there is not the known one.
    let settler = bridge.chain("base").deployment.contracts["destinationSettler"];
    let put = move |chain: &mut Chain| {
        let known = chain.state().code(settler);
        chain.set_code(settler, Bytes::from_static(&[0x5f, 0x5f, 0xf3])).unwrap();
        known
    };
    let known = bridge.chain("base").devnet.run(put).await.unwrap();
    bridge.chain("base").devnet.mine().await.unwrap();
    let response = bridge.send(600).await;
    assert_eq!(code(&response), Some(ErrorCode::ChainUnsupported), "{response:#?}");
    assert!(message(&response).contains("differs from the known code"), "{response:#?}");
    bridge.chain("base").devnet.run(move |chain: &mut Chain| chain.set_code(settler, known)).await.unwrap().unwrap();
    // The same on the origin, where the money would be locked.
    let settler = bridge.chain("ethereum").deployment.contracts["originSettler"];
    let put = move |chain: &mut Chain| chain.set_code(settler, Bytes::from_static(&[0x5f, 0x5f, 0xf3])).unwrap();
    bridge.chain("ethereum").devnet.run(put).await.unwrap();
    bridge.chain("ethereum").devnet.mine().await.unwrap();
    bridge.chain("base").devnet.mine().await.unwrap();
    let response = bridge.send(600).await;
    assert!(matches!(response.status, CallStatus::Error | CallStatus::Blocked), "{response:#?}");
    assert_eq!(bridge.orders.every().unwrap(), []);
    assert_eq!(bridge.nonce().await, nonce);
}

/// Arriving tokens are valued by their chain's description, not by the proposal's.
#[tokio::test(flavor = "multi_thread")]
async fn an_arrival_must_match_the_destinations_token_decimals() {
    let bridge = Bridge::open().await;
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                        "destination_chain": "base"});
    let call = ToolCall::new("uniswap_submit_cross_chain_intent", ToolInput::Json(params));
    let offer = match bridge.executor.offer(call).await {
        PreviewResult::Held(offer) => offer,
        PreviewResult::Over(response) => panic!("{response:#?}"),
    };
    let guard = offer.preview().verdicts.iter().find(|verdict| verdict.check == Check::SlippageGuard).unwrap();
    let sentence = "the minimum output is worth the input, less the permitted loss";
    assert_eq!(guard.finding.to_string(), sentence, "a bridge between tokens trades one for the other");
    let proposal = offer.preview().payload.proposal().clone();
    offer.withdraw().await;
    let poll = async |decimals: u8| {
        let mut proposal = proposal.clone();
        proposal.order.as_mut().unwrap().arrival.as_mut().unwrap().token.decimals = decimals;
        let asked = PhaseRequest { phase: Phase::Thriving, own: None };
        bridge.pipeline.preview(proposal, bridge.signer.clone(), asked).await.err().map(|refusal| refusal.code)
    };
    assert_eq!(poll(6).await, None, "as it is");
    // With two decimals the same number would be ten thousand times the dollars.
    assert_eq!(poll(2).await, Some(ErrorCode::SafetyPriceUnknown));
}
