//! A relayer network with false answers: about the orders that it stores or accepts, about bids and about an intent's
//! status. No money is lost, and the reported state follows the chain.

use std::sync::atomic::{AtomicUsize, Ordering};

use bardo::base::service::ServiceError;
use bardo::base::text::SafeText;
use bardo::chain::sender::{SenderRules, TxSender};
use bardo::engine::{Catalog, Executor, PaperMode};
use bardo::intents::CrossChainIntent;
use bardo::intents::gateway::{BidRequest, IntentGateway, RelayerBid};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::ApprovalQueue;
use bardo::safety::chain_snapshot::SnapshotReader;
use bardo::safety::pipeline::{PipelineChain, PipelineConfig};
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::*;

/// Behaviour of a test's relayer network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetworkBehavior {
    /// Returns another id for a submitted order.
    StoresAnother,
    /// Rejects every order.
    Rejects,
    /// Drops orders, and answers as if the outcome were unclear.
    UnclearAnswer,
    /// Forwards orders to the relayers, and answers as if the outcome were unclear.
    AcceptsUnclearly,
    /// Drops orders, and returns an invalid answer.
    InvalidAnswer,
    /// Accepts orders but forwards them to no relayer, and invents a chosen bid.
    FalseBids,
    /// Accepts orders but forwards them to no relayer, and returns an invalid answer to requests for bids.
    NoBids,
    /// Quotes a hundredth of the market's output.
    LowQuotes,
    /// Quotes bids of one and a half times the input.
    HighBids,
}

#[derive(Debug)]
struct Network {
    inner: Arc<dyn IntentGateway>,
    behavior: NetworkBehavior,
    submissions: AtomicUsize,
}

fn text(text: &str) -> SafeText {
    SafeText::clean(text, 60)
}

impl IntentGateway for Network {
    fn name(&self) -> &str {
        "a test's network"
    }

    fn quote<'a>(&'a self, request: &'a BidRequest) -> BoxFuture<'a, Result<Vec<RelayerBid>, ServiceError>> {
        Box::pin(async move {
            let mut bids = self.inner.quote(request).await?;
            if self.behavior == NetworkBehavior::LowQuotes {
                bids.iter_mut().for_each(|bid| bid.output /= U256::from(100));
            }
            if self.behavior == NetworkBehavior::HighBids {
                bids.iter_mut().for_each(|bid| bid.output = request.amount_in * U256::from(3) / U256::from(2));
            }
            Ok(bids)
        })
    }

    fn submit<'a>(
        &'a self,
        intent: &'a CrossChainIntent,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>> {
        self.submissions.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.behavior {
                NetworkBehavior::StoresAnother => Ok(B256::repeat_byte(0xee)),
                NetworkBehavior::Rejects => Err(ServiceError::Refused(text("400 it is full here"))),
                NetworkBehavior::UnclearAnswer => Err(ServiceError::Unclear(text("500 something broke"))),
                NetworkBehavior::AcceptsUnclearly => {
                    self.inner.submit(intent, signature).await?;
                    Err(ServiceError::Unclear(text("500 something broke")))
                }
                NetworkBehavior::InvalidAnswer => {
                    Err(ServiceError::InvalidResponse(text("a response without an intent id")))
                }
                NetworkBehavior::FalseBids
                | NetworkBehavior::NoBids
                | NetworkBehavior::LowQuotes
                | NetworkBehavior::HighBids => Ok(intent.id()),
            }
        })
    }

    fn bids(&self, id: B256) -> BoxFuture<'_, Result<Option<Vec<RelayerBid>>, ServiceError>> {
        Box::pin(async move {
            match self.behavior {
                NetworkBehavior::FalseBids => Ok(Some(vec![RelayerBid {
                    relayer: Address::repeat_byte(0xbb),
                    name: text("delivered\u{202e}, repaid"),
                    output: U256::MAX,
                    seconds: 0,
                    chosen: true,
                }])),
                NetworkBehavior::NoBids => Err(ServiceError::InvalidResponse(text("not a list of bids"))),
                NetworkBehavior::StoresAnother
                | NetworkBehavior::Rejects
                | NetworkBehavior::UnclearAnswer
                | NetworkBehavior::AcceptsUnclearly
                | NetworkBehavior::InvalidAnswer
                | NetworkBehavior::LowQuotes
                | NetworkBehavior::HighBids => self.inner.bids(id).await,
            }
        })
    }
}

/// Process with the same account and ledger that knows only a network with false answers.
struct FalseNetworkProcess {
    executor: Executor,
    orders: Orders,
    network: Arc<Network>,
    _phase: watch::Sender<Phase>,
}

impl FalseNetworkProcess {
    fn new(bridge: &Bridge, behavior: NetworkBehavior) -> Self {
        let inner = bridge.orders.chain(31_337).unwrap().bridges.clone().unwrap();
        let network = Arc::new(Network { inner, behavior, submissions: AtomicUsize::new(0) });
        // A store of its own, as another process has, so that no recovery treats its actions as left unfinished.
        let store = Store::open(StoreConfig::at(bridge.store.path()), ALL_MIGRATIONS).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let fabric = Fabric::in_memory(100, clock.clone());
        let connected =
            |id: u64| OrderChain { bridges: Some(network.clone()), ..bridge.orders.chain(id).unwrap().clone() };
        let orders = Orders::new(OrdersConfig {
            chains: vec![connected(31_337), connected(31_338)],
            store: store.clone(),
            rules: bridge.rules.clone(),
            clock: clock.clone(),
            fabric: fabric.clone(),
        });
        let chain = |name: &str| {
            let chain = bridge.world.chain(name).unwrap();
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
            rules: bridge.rules.clone(),
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
        let acting = WriteAccess {
            pipeline,
            account: bridge.signer.clone(),
            phase,
            approve: ApprovalMode::Always,
            paper: PaperMode::default(),
        };
        let world = (*bridge.world).clone().with_orders(Some(orders.clone()));
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = bardo_testkit::acting::executor(catalog, world, fabric, Some(store), Some(acting));
        Self { executor, orders, network, _phase: sender }
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn send(&self) -> ToolResponse {
        let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100", "source_chain": "ethereum",
                            "destination_chain": "base", "deadline": 600});
        self.call("uniswap_submit_cross_chain_intent", params).await
    }
}

fn id_of(response: &ToolResponse) -> B256 {
    response.data.as_ref().unwrap()["intent_id"].as_str().unwrap().parse().unwrap()
}

/// Number of reservations that are still held.
fn reserved_count(bridge: &Bridge) -> i64 {
    let read = |connection: &rusqlite::Connection| -> Result<i64, StoreError> {
        let query = "SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')";
        Ok(connection.prepare(query).unwrap().query_row([], |row| row.get(0)).unwrap())
    };
    bridge.store.read(read).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn false_answers_of_a_relayer_network_do_not_override_the_chain() {
    let bridge = Bridge::open().await;
    let had = bridge.purses().await;
    let cases = [
        (NetworkBehavior::StoresAnother, "which is another order"),
        (NetworkBehavior::Rejects, "the service refused: 400 it is full here"),
        (NetworkBehavior::UnclearAnswer, "response is unclear: 500 something broke"),
        (NetworkBehavior::InvalidAnswer, "the service returned an invalid response: a response without an intent id"),
        (NetworkBehavior::FalseBids, ""),
        (NetworkBehavior::NoBids, "the service returned an invalid response: not a list of bids"),
    ];
    for ((behavior, says), placed) in cases.into_iter().zip(1..) {
        let process = FalseNetworkProcess::new(&bridge, behavior);
        let sent = process.send().await;
        assert_eq!(sent.status, CallStatus::Partial, "{behavior:?}: {sent:#?}");
        let id = id_of(&sent);
        assert!(sent.explanation.as_deref().unwrap_or_default().contains(says), "{behavior:?}: {sent:#?}");
        for _ in 0..3 {
            bridge.chain("ethereum").devnet.mine().await.unwrap();
            bridge.chain("base").devnet.mine().await.unwrap();
            let record = process.orders.poll(id).await.unwrap();
            // No relayer has locked the input, so the order is pending and its input stays reserved.
            assert_eq!(record.status.as_str(), "pending", "{behavior:?}: {record:#?}");
            let card = card(&record);
            assert!(card["delivered"].is_null() && card["amount_out"].is_null(), "{behavior:?}: {card}");
            assert!(card["money"].as_str().unwrap().contains("stays in the wallet"), "{behavior:?}: {card}");
            assert!(!card.to_string().contains('\u{202e}'), "{card}");
        }
        // A cancelled order stays reserved until its deadline for locking has passed.
        assert_eq!((bridge.purses().await, reserved_count(&bridge)), (had, placed), "{behavior:?}");
        assert_eq!(process.network.submissions.load(Ordering::SeqCst), 1, "{behavior:?}: submitted once");
        let status = process.call("uniswap_get_uniswapx_order_status", json!({"order_hash": id.to_string()})).await;
        assert_eq!(status.data.unwrap()["status"], "pending", "{behavior:?}");
        // Cancelling does not depend on the network.
        let cancelled = process.call("uniswapx_cancel_order", json!({"order_hash": id.to_string()})).await;
        assert_eq!(cancelled.status, CallStatus::Success, "{behavior:?}: {cancelled:#?}");
        bridge.chain("ethereum").devnet.mine().await.unwrap();
    }
    // Past that deadline, its reservation is released.
    bridge.pass(601).await;
    for record in bridge.orders.every().unwrap() {
        let record = bridge.orders.poll(record.hash).await.unwrap();
        assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "expired"), "{record:#?}");
    }
    assert_eq!((bridge.purses().await, reserved_count(&bridge)), (had, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_accepted_without_an_answer_is_found_by_its_lock_and_not_resubmitted() {
    let bridge = Bridge::open().await;
    // Relayers skip some orders at random, so several are sent.
    for _ in 0..4 {
        let process = FalseNetworkProcess::new(&bridge, NetworkBehavior::AcceptsUnclearly);
        let sent = process.send().await;
        assert_eq!(sent.status, CallStatus::Partial, "{sent:#?}");
        assert!(sent.explanation.as_deref().unwrap_or_default().contains("response is unclear"), "{sent:#?}");
        let id = id_of(&sent);
        let seen = bridge.blocks_until(id, &["ethereum"], "filling").await;
        assert_eq!(process.orders.submit_stored().await.unwrap(), 0, "it is not submitted again");
        assert_eq!(process.network.submissions.load(Ordering::SeqCst), 1);
        if let Some(record) = seen {
            assert!(card(&record)["locked"].is_object(), "{record:#?}");
            return;
        }
        let cancelled = process.call("uniswapx_cancel_order", json!({"order_hash": id.to_string()})).await;
        assert_eq!(cancelled.status, CallStatus::Success, "{cancelled:#?}");
    }
    panic!("no relayer locks anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_far_below_the_input_is_not_signed() {
    let bridge = Bridge::open().await;
    let process = FalseNetworkProcess::new(&bridge, NetworkBehavior::LowQuotes);
    let sent = process.send().await;
    assert_eq!(sent.status, CallStatus::Blocked, "{sent:#?}");
    assert_eq!(code(&sent), Some(ErrorCode::SafetySlippage), "{sent:#?}");
    assert_eq!((bridge.orders.every().unwrap().len(), reserved_count(&bridge)), (0, 0));
    assert_eq!(process.network.submissions.load(Ordering::SeqCst), 0);
}

/// No relayer would deliver an order that asks for more than its input is worth.
#[tokio::test(flavor = "multi_thread")]
async fn overbidding_relayers_do_not_raise_an_orders_minimum_above_the_feeds() {
    let bridge = Bridge::open().await;
    let process = FalseNetworkProcess::new(&bridge, NetworkBehavior::HighBids);
    let sent = process.send().await;
    assert_eq!(sent.status, CallStatus::Partial, "{sent:#?}");
    let record = process.orders.record(id_of(&sent)).unwrap();
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let minimum = intent.data.outputAmount;
    // Both sides are dollar tokens: the output equals the input within a hundredth.
    assert!((U256::from(AMOUNT * 95 / 100)..=U256::from(AMOUNT * 101 / 100)).contains(&minimum), "{minimum}");
}
