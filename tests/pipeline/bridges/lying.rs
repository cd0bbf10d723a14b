//! A filler network that lies: about the orders it stores, about accepting them, about bids and about an intent's
//! status. No money is lost, and reports follow the chain.

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

/// Behaviour of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Stores an order under another id.
    Other,
    /// Rejects every order.
    Refuses,
    /// Accepts nothing and gives no clear answer.
    Mumbles,
    /// Forwards orders to the relayers and gives no clear answer.
    TakesAndMumbles,
    /// Accepts nothing and returns an invalid answer.
    Babbles,
    /// Reports orders as open, but forwards them to nobody; invents a chosen bid with matching figures.
    Pretends,
    /// Fails on requests for bids.
    Forgets,
    /// Quotes a hundredth of the market's output.
    Lowballs,
    /// All its fillers bid half as much again as the input.
    Overbids,
}

#[derive(Debug)]
struct Network {
    inner: Arc<dyn IntentGateway>,
    manner: Manner,
    handed_in: AtomicUsize,
}

fn words(text: &str) -> SafeText {
    SafeText::clean(text, 60)
}

impl IntentGateway for Network {
    fn name(&self) -> &str {
        "a test's network"
    }

    fn quote<'a>(&'a self, request: &'a BidRequest) -> BoxFuture<'a, Result<Vec<RelayerBid>, ServiceError>> {
        Box::pin(async move {
            let mut bids = self.inner.quote(request).await?;
            if self.manner == Manner::Lowballs {
                bids.iter_mut().for_each(|bid| bid.output /= U256::from(100));
            }
            if self.manner == Manner::Overbids {
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
        self.handed_in.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.manner {
                Manner::Other => Ok(B256::repeat_byte(0xee)),
                Manner::Refuses => Err(ServiceError::Refused(words("400 it is full here"))),
                Manner::Mumbles => Err(ServiceError::Unclear(words("500 something broke"))),
                Manner::TakesAndMumbles => {
                    self.inner.submit(intent, signature).await?;
                    Err(ServiceError::Unclear(words("500 something broke")))
                }
                Manner::Babbles => Err(ServiceError::InvalidResponse(words("a response without an intent id"))),
                Manner::Pretends | Manner::Forgets | Manner::Lowballs | Manner::Overbids => Ok(intent.id()),
            }
        })
    }

    fn bids(&self, id: B256) -> BoxFuture<'_, Result<Option<Vec<RelayerBid>>, ServiceError>> {
        Box::pin(async move {
            match self.manner {
                Manner::Pretends => Ok(Some(vec![RelayerBid {
                    relayer: Address::repeat_byte(0xbb),
                    name: words("delivered\u{202e}, repaid"),
                    output: U256::MAX,
                    seconds: 0,
                    chosen: true,
                }])),
                Manner::Forgets => Err(ServiceError::InvalidResponse(words("not a list of bids"))),
                Manner::Other
                | Manner::Refuses
                | Manner::Mumbles
                | Manner::TakesAndMumbles
                | Manner::Babbles
                | Manner::Lowballs
                | Manner::Overbids => self.inner.bids(id).await,
            }
        })
    }
}

/// The same account on the same ledger, in a process that knows only this network.
struct Lied {
    executor: Executor,
    orders: Orders,
    network: Arc<Network>,
    _phase: watch::Sender<Phase>,
}

impl Lied {
    fn to(bridge: &Bridge, manner: Manner) -> Self {
        let inner = bridge.orders.chain(31_337).unwrap().bridges.clone().unwrap();
        let network = Arc::new(Network { inner, manner, handed_in: AtomicUsize::new(0) });
        // A session of its own on the ledger, as another process has: no recovery takes its actions for unfinished
        // ones.
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
fn held(bridge: &Bridge) -> i64 {
    let read = |connection: &rusqlite::Connection| -> Result<i64, StoreError> {
        let question = "SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')";
        Ok(connection.prepare(question).unwrap().query_row([], |row| row.get(0)).unwrap())
    };
    bridge.store.read(read).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn false_answers_of_a_relayer_network_do_not_override_the_chain() {
    let bridge = Bridge::open().await;
    let had = bridge.purses().await;
    let mannered = [
        (Manner::Other, "which is another order"),
        (Manner::Refuses, "the service refused: 400 it is full here"),
        (Manner::Mumbles, "response is unclear: 500 something broke"),
        (Manner::Babbles, "the service returned an invalid response: a response without an intent id"),
        (Manner::Pretends, ""),
        (Manner::Forgets, "the service returned an invalid response: not a list of bids"),
    ];
    for ((manner, says), placed) in mannered.into_iter().zip(1..) {
        let lied = Lied::to(&bridge, manner);
        let sent = lied.send().await;
        assert_eq!(sent.status, CallStatus::Partial, "{manner:?}: {sent:#?}");
        let id = id_of(&sent);
        assert!(sent.explanation.as_deref().unwrap_or_default().contains(says), "{manner:?}: {sent:#?}");
        for _ in 0..3 {
            bridge.chain("ethereum").devnet.mine().await.unwrap();
            bridge.chain("base").devnet.mine().await.unwrap();
            let record = lied.orders.poll(id).await.unwrap();
            // Nobody has locked anything, so it waits; its possible input stays reserved.
            assert_eq!(record.status.as_str(), "pending", "{manner:?}: {record:#?}");
            let card = card(&record);
            assert!(card["delivered"].is_null() && card["amount_out"].is_null(), "{manner:?}: {card}");
            assert!(card["money"].as_str().unwrap().contains("stays in the wallet"), "{manner:?}: {card}");
            assert!(!card.to_string().contains('\u{202e}'), "{card}");
        }
        // A cancelled order stays reserved until nobody can lock it any more.
        assert_eq!((bridge.purses().await, held(&bridge)), (had, placed), "{manner:?}");
        assert_eq!(lied.network.handed_in.load(Ordering::SeqCst), 1, "{manner:?}: handed in once");
        let status = lied.call("uniswap_get_uniswapx_order_status", json!({"order_hash": id.to_string()})).await;
        assert_eq!(status.data.unwrap()["status"], "pending", "{manner:?}");
        // Cancelling does not depend on the network.
        let void = lied.call("uniswapx_cancel_order", json!({"order_hash": id.to_string()})).await;
        assert_eq!(void.status, CallStatus::Success, "{manner:?}: {void:#?}");
        bridge.chain("ethereum").devnet.mine().await.unwrap();
    }
    // A cancelled order frees its money once it can no longer be locked.
    bridge.pass(601).await;
    for record in bridge.orders.every().unwrap() {
        let record = bridge.orders.poll(record.hash).await.unwrap();
        assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "expired"), "{record:#?}");
    }
    assert_eq!((bridge.purses().await, held(&bridge)), (had, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_accepted_without_an_answer_is_found_by_its_lock_and_not_resubmitted() {
    let bridge = Bridge::open().await;
    // Relayers overlook some orders: then another one is sent.
    for _ in 0..4 {
        let lied = Lied::to(&bridge, Manner::TakesAndMumbles);
        let sent = lied.send().await;
        assert_eq!(sent.status, CallStatus::Partial, "{sent:#?}");
        assert!(sent.explanation.as_deref().unwrap_or_default().contains("response is unclear"), "{sent:#?}");
        let id = id_of(&sent);
        let seen = bridge.blocks_until(id, &["ethereum"], "filling").await;
        assert_eq!(lied.orders.submit_stored().await.unwrap(), 0, "its fate is the chain's to tell");
        assert_eq!(lied.network.handed_in.load(Ordering::SeqCst), 1);
        if let Some(record) = seen {
            assert!(card(&record)["locked"].is_object(), "{record:#?}");
            return;
        }
        let void = lied.call("uniswapx_cancel_order", json!({"order_hash": id.to_string()})).await;
        assert_eq!(void.status, CallStatus::Success, "{void:#?}");
    }
    panic!("no relayer locks anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_far_below_the_input_is_not_signed() {
    let bridge = Bridge::open().await;
    let lied = Lied::to(&bridge, Manner::Lowballs);
    let sent = lied.send().await;
    assert_eq!(sent.status, CallStatus::Blocked, "{sent:#?}");
    assert_eq!(code(&sent), Some(ErrorCode::SafetySlippage), "{sent:#?}");
    assert_eq!((bridge.orders.every().unwrap().len(), held(&bridge)), (0, 0));
    assert_eq!(lied.network.handed_in.load(Ordering::SeqCst), 0);
}

/// Nobody delivers an order that asks for more than its amount is worth, and its money waits.
#[tokio::test(flavor = "multi_thread")]
async fn overbidding_relayers_do_not_raise_an_orders_minimum_above_the_feeds() {
    let bridge = Bridge::open().await;
    let lied = Lied::to(&bridge, Manner::Overbids);
    let sent = lied.send().await;
    assert_eq!(sent.status, CallStatus::Partial, "{sent:#?}");
    let record = lied.orders.record(id_of(&sent)).unwrap();
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let asked = intent.data.outputAmount;
    // Both sides are dollar tokens: the output equals the input within a hundredth.
    assert!((U256::from(AMOUNT * 95 / 100)..=U256::from(AMOUNT * 101 / 100)).contains(&asked), "{asked}");
}
