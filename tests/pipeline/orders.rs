//! Signed orders through executor, pipeline and the devnet's order service: filled at the curve's value for the block,
//! expired, cancelled, or refused before the signature; and their reservations until then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{Filter, TransactionRequest};
use alloy::sol_types::{SolCall as _, SolEvent as _, SolValue as _};
use bardo::abi::erc20::Erc20;
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswapx::{Reactor, SignedOrder};
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::id::GolemId;
use bardo::base::model::{Phase, StopLevel};
use bardo::base::service::ServiceError;
use bardo::base::text::SafeText;
use bardo::base::units::{BasisPoints, TokenAmount, Usd};
use bardo::chain::devnet::Chain;
use bardo::chain::fork::DetectionGap;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::permit2::{nonce_position, nonce_used};
use bardo::chain::provider::ChainClient;
use bardo::custody::RevocableAccount;
use bardo::engine::{
    ApprovalMode, CallStatus, Catalog, Executor, PreviewResult, ToolCall, ToolInput, ToolResponse, WriteAccess,
};
use bardo::fabric::Fabric;
use bardo::runtime::questions::{ListedAddresses, RequestContext, view_model};
use bardo::safety::RevocationCause;
use bardo::safety::approval::Consent;
use bardo::safety::approval::{ApprovalRequest, AskedBy, GrantScope, requirement};
use bardo::safety::orders::{OrderChain, OrderRecord, OrderStage, Orders, OrdersConfig};
use bardo::safety::pipeline::CommitState;
use bardo::safety::policy::{self, Rules, Spender};
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::LegPurpose;
use bardo::safety::typed::TypedMessage;
use bardo::sandbox::order_service::LocalOrders;
use bardo::session::questions::{ActionAddress, AddressPart, Question, RequestSubject};
use bardo::tools::ALL_TOOL_DEFS;
use bardo::uniswap::gateway::{OrderGateway, ServiceReport, ServiceStatus};
use bardo::uniswap::order::{OrderKind, UniswapXOrder};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, keys, ruled, seen};
use bardo_testkit::harness::{Hook, Shifted, TestHarness, cents, devnet};

/// Behaviour of a test's order service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceBehavior {
    /// Like the devnet's own service.
    Honest,
    /// Accepts orders, forwards them to no filler, and reports this status.
    FalseStatus(ServiceStatus),
    /// Returns a wrong hash for a submitted order, and another order under the right hash.
    StoresAnother,
    /// Rejects every order.
    Rejects,
    /// Accepts orders, and answers as if the outcome were unclear.
    UnclearAnswer,
    /// Cannot be reached.
    Unreachable,
    /// Asks the caller to wait before a submission.
    Busy,
    /// Accepts orders, and has a poll interval of ten seconds.
    LimitsPolls,
}

#[derive(Debug)]
struct Service {
    inner: LocalOrders,
    behavior: ServiceBehavior,
    /// Hashes of the submitted orders.
    submitted: std::sync::Mutex<Vec<B256>>,
    /// Number of requests for a report.
    report_requests: std::sync::atomic::AtomicUsize,
}

impl OrderGateway for Service {
    fn name(&self) -> &str {
        "a test's service"
    }

    fn submit<'a>(
        &'a self,
        order: &'a UniswapXOrder,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>> {
        self.submitted.lock().unwrap().push(order.hash());
        Box::pin(async move {
            match self.behavior {
                ServiceBehavior::Honest => self.inner.submit(order, signature).await,
                ServiceBehavior::FalseStatus(_) | ServiceBehavior::LimitsPolls => Ok(order.hash()),
                ServiceBehavior::Busy => Err(ServiceError::Busy { after: Duration::from_secs(1) }),
                ServiceBehavior::StoresAnother => Ok(B256::repeat_byte(0xee)),
                ServiceBehavior::Rejects => Err(ServiceError::Refused(bardo::base::text::SafeText::clean("no", 10))),
                ServiceBehavior::Unreachable => {
                    Err(ServiceError::Unreachable(bardo::base::text::SafeText::clean("gone", 10)))
                }
                ServiceBehavior::UnclearAnswer => {
                    self.inner.submit(order, signature).await?;
                    Err(ServiceError::Unclear(bardo::base::text::SafeText::clean("mm", 10)))
                }
            }
        })
    }

    fn poll_interval(&self) -> Duration {
        if self.behavior == ServiceBehavior::LimitsPolls { Duration::from_secs(10) } else { Duration::ZERO }
    }

    fn order_report(&self, hash: B256) -> BoxFuture<'_, Result<Option<ServiceReport>, ServiceError>> {
        self.report_requests.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.behavior {
                ServiceBehavior::StoresAnother => {
                    let other = bardo::uniswap::order::OrderDraft {
                        reactor: Address::repeat_byte(1),
                        swapper: Address::repeat_byte(2),
                        recipient: Address::repeat_byte(3),
                        nonce: U256::from(4),
                        deadline: u64::MAX / 2,
                        cosigner: Address::repeat_byte(5),
                        token_in: Address::repeat_byte(6),
                        token_out: Address::repeat_byte(7),
                        legs: bardo::uniswap::order::OrderAmounts::ExactIn {
                            amount_in: U256::from(8),
                            start_out: U256::from(9),
                            least_out: U256::from(1),
                        },
                        auction: bardo::uniswap::order::AuctionTerms::CosignedTimes,
                    };
                    Ok(Some(ServiceReport {
                        status: ServiceStatus::Open,
                        cosigned: Some(other.order().unwrap()),
                        transaction: None,
                        best_bid: None,
                        names: vec![],
                    }))
                }
                ServiceBehavior::FalseStatus(status) => Ok(Some(ServiceReport {
                    status,
                    cosigned: None,
                    transaction: Some(B256::repeat_byte(1)),
                    best_bid: None,
                    names: vec![],
                })),
                ServiceBehavior::Honest
                | ServiceBehavior::Rejects
                | ServiceBehavior::UnclearAnswer
                | ServiceBehavior::Unreachable
                | ServiceBehavior::Busy
                | ServiceBehavior::LimitsPolls => self.inner.order_report(hash).await,
            }
        })
    }
}

pub struct Fixture {
    pub world: TestHarness,
    pub executor: Executor,
    pub orders: Orders,
    service: Arc<Service>,
    _phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
}

/// A used nonce of Permit2: word and bits of its bitmap.
pub struct UsedNonce {
    pub permit2: Address,
    word: U256,
    bits: U256,
    /// Block whose state was changed.
    pub block: u64,
}

impl Fixture {
    pub async fn new(account: usize, kind: OrderKind, behavior: ServiceBehavior) -> Self {
        Self::of(TestHarness::new(account).await, kind, behavior).await
    }

    pub async fn of(world: TestHarness, kind: OrderKind, behavior: ServiceBehavior) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (store, folder) = keys();
        let fabric = Fabric::in_memory(1_000, clock.clone());
        let chain = devnet();
        let inner = LocalOrders::new(chain.devnet.clone(), chain.background_actors.clone());
        let service =
            Arc::new(Service { inner, behavior, submitted: Default::default(), report_requests: Default::default() });
        let orders = Orders::new(OrdersConfig {
            chains: vec![OrderChain {
                client: world.client.clone(),
                kind,
                auctions: Some(service.clone()),
                bridges: None,
                deposits: None,
                confirmations: None,
            }],
            store: world.store.clone(),
            rules: world.book.clone(),
            clock: clock.clone(),
            fabric: fabric.clone(),
        });
        world.pipeline.connect_orders(orders.clone());
        let (acting, phase) = acting(&world, world.pipeline.clone(), ApprovalMode::Never);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let around = seen(&world).with_orders(Some(orders.clone()));
        let executor = executor(catalog, around, fabric, Some(store), Some(acting));
        Self { world, executor, orders, service, _phase: phase, _folder: folder }
    }

    /// Order tracking of a process with the same ledger, whose clock is ahead by `millis`.
    fn orders_later(&self, millis: i64) -> Orders {
        let clock = Arc::<Shifted>::default();
        clock.shift(millis);
        self.orders_with_clock(clock)
    }

    /// Order tracking of a process with the same ledger and this clock.
    fn orders_with_clock(&self, clock: Arc<Shifted>) -> Orders {
        Orders::new(OrdersConfig {
            chains: vec![OrderChain {
                client: self.world.client.clone(),
                kind: OrderKind::DutchV2,
                auctions: Some(self.service.clone()),
                bridges: None,
                deposits: None,
                confirmations: None,
            }],
            store: self.world.store.clone(),
            rules: self.world.book.clone(),
            fabric: Fabric::in_memory(100, clock.clone()),
            clock,
        })
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    pub async fn place(&self, params: Value) -> B256 {
        let response = self.call("uniswap_submit_uniswapx_order", params).await;
        assert_eq!(response.status, CallStatus::Partial, "{response:#?}");
        response.data.unwrap()["order_hash"].as_str().unwrap().parse().unwrap()
    }

    /// Makes blocks until the order has ended.
    async fn end(&self, hash: B256) -> OrderRecord {
        // In step with the clock: a chain that runs ahead would be in the future for other observers.
        let mine = || async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            drop(devnet().devnet.mine().await.unwrap());
        };
        let record = self.orders.wait(hash, Duration::from_secs(240), mine).await.unwrap();
        assert_eq!(record.stage, OrderStage::Ended, "{record:#?}");
        record
    }

    /// Order tracking with the same ledger over `client`, without a service.
    pub fn orders_over(&self, client: ChainClient) -> Orders {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Orders::new(OrdersConfig {
            chains: vec![OrderChain {
                client,
                kind: OrderKind::DutchV2,
                auctions: None,
                bridges: None,
                deposits: None,
                confirmations: None,
            }],
            store: self.world.store.clone(),
            rules: self.world.book.clone(),
            clock: clock.clone(),
            fabric: Fabric::in_memory(100, clock),
        })
    }

    /// Sets the order's nonce as used in Permit2's storage, without the event that a real transaction would emit.
    pub async fn use_nonce(&self, hash: B256) -> UsedNonce {
        let (word, bit) = nonce_position(signed(&self.orders.record(hash).unwrap()).info().nonce);
        let permit2 = self.world.contract(KnownContract::Permit2);
        // Permit2's nonceBitmap is its first mapping: owner, then word.
        let owner = self.world.account();
        let bits = U256::from(1) << bit;
        for slot in 0u8..4 {
            let inner = keccak256((owner, U256::from(slot)).abi_encode());
            let slot: U256 = keccak256((word, inner).abi_encode()).into();
            let write = move |chain: &mut Chain| {
                chain.set_storage_at(permit2, slot, bits);
                chain.number()
            };
            let block = devnet().devnet.run(write).await.unwrap();
            devnet().devnet.mine().await.unwrap();
            if self.world.ask(permit2, Permit2::nonceBitmapCall { owner, word }).await == bits {
                return UsedNonce { permit2, word, bits, block };
            }
        }
        panic!("no storage slot holds the nonce bitmap");
    }

    /// Revokes allowances, for the next user of the account.
    pub async fn clear(&self) {
        let nothing = Erc20::approveCall { spender: self.world.contract(KnownContract::Permit2), value: U256::ZERO };
        self.world.send(self.world.contract_of(&self.world.usdc), nothing).await;
    }

    /// Amount of USDC that signed orders may still take according to the ledger, after a change to this order's row.
    fn promised_after(&self, change: &'static str, hash: B256) -> U256 {
        let database = rusqlite::Connection::open(self.world.store.path()).unwrap();
        assert_eq!(database.execute(change, [hash.as_slice()]).unwrap(), 1, "{change}");
        let (chain_id, account) = (self.world.client.chain_id(), self.world.account());
        let promised = self
            .world
            .store
            .read(|connection| bardo::safety::orders::record::promised(connection, chain_id, account))
            .unwrap();
        promised.get(&self.world.contract_of(&self.world.usdc)).copied().unwrap_or_default()
    }

    async fn permit2_allows(&self) -> U256 {
        self.world.allowance(self.world.contract(KnownContract::Permit2)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_shows_the_order_and_a_standing_approval_is_bound_to_its_reactor() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::Honest).await;
    let call = ToolCall::new("uniswap_submit_uniswapx_order", ToolInput::Json(order("40", 60)));
    let PreviewResult::Held(offer) = fixture.executor.offer(call).await else { panic!("no offer") };
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
    // The displayed requester and reason belong to this action, not to an agent's latest activity.
    let text = |words: &str| SafeText::clean(words, 40);
    let last = RequestContext {
        asked_by: vec![text("trade-executor")],
        words: Some(text("another thought")),
        ..RequestContext::default()
    };
    let requested_by = |asked_by: AskedBy| {
        let request = ApprovalRequest { asked_by, ..request.clone() };
        let question = view_model(&request, Some(fixture.world.client.network()), 1, false, last.clone());
        let RequestSubject::Action(action) = question.about else { panic!("{:?}", question.about) };
        (question.golem_id, action.asked_by, action.words)
    };
    let golem_id = &preview.payload.proposal().golem_id;
    let why = Some(text("too much of it"));
    assert_eq!(requested_by(AskedBy::Agent { why: why.clone() }), (golem_id.clone(), last.asked_by.clone(), why));
    assert_eq!(requested_by(AskedBy::Agent { why: None }).2, None);
    assert_eq!(requested_by(AskedBy::Operator), (GolemId::operator(), vec![], None));
    // Nothing is submitted before it is signed.
    assert!(preview.permit.expected_outcome.as_str().starts_with("Auction 40 USDC for "), "{:?}", preview.permit);
    let question = view_model(&request, Some(fixture.world.client.network()), 1, false, RequestContext::default());
    let RequestSubject::Action(asked) = question.about else { panic!("{question:?}") };
    // A standing approval states the scope that its grant will have.
    let (similar, scope) = (asked.similar.clone().unwrap(), GrantScope::of(&preview));
    assert_eq!((similar.tool.as_str(), &similar.golem_id), (scope.tool, &scope.golem_id));
    assert_eq!((similar.gives, similar.gets), (vec![text("USDC")], vec![text("WETH")]));
    assert_eq!(similar.receivers, [fixture.world.account()]);
    assert_eq!((similar.arrives_on, similar.slippage), (None, BasisPoints::new(50).ok()));
    let message = &preview.payload.order().unwrap().message;
    let TypedMessage::UniswapxOrder { order, .. } = message else { panic!("{message:?}") };
    let shown = asked.order.unwrap();
    let field = |name: &str| shown.fields.iter().find(|(one, _)| one.as_str() == name).unwrap().1.to_string();
    assert_eq!(field("reactor"), order.info().reactor.to_string());
    assert_eq!(field("deadline"), order.info().deadline.to_string());
    assert_eq!(field("maximum input"), "40000000");
    assert_eq!(field("recipient"), fixture.world.account().to_string());
    assert_eq!(U256::from(shown.usable_until), order.info().deadline);
    // Addresses that the policy lists are distinguished from those that are only known.
    let reactor = order.info().reactor;
    let permit2 = fixture.world.contract(KnownContract::Permit2);
    // An auction is simulated with its worst fill, and labelled so.
    let comes = asked.changes.iter().find(|change| change.expected.starts_with('+')).unwrap();
    assert_eq!(comes.worst.as_ref(), Some(&comes.expected));
    // Until it is filled Permit2 may take all of it; afterwards nothing remains.
    let allowed = asked.allowances.iter().find(|one| one.spender == permit2 && !one.through_permit2).unwrap();
    assert_eq!((allowed.until_settled.as_deref(), allowed.amount.as_str()), (Some("40"), "0"));
    let mut rules = policy::parse("preset = \"demo\"\n", std::path::Path::new("policy.toml")).unwrap().rules().clone();
    let listed = |rules: &Rules, address: Address| {
        let context = RequestContext { listed: ListedAddresses::of(rules), ..RequestContext::default() };
        let question = view_model(&request, Some(fixture.world.client.network()), 1, false, context);
        let RequestSubject::Action(asked) = question.about else { panic!("{question:?}") };
        let spender = |place: &&ActionAddress| place.part == AddressPart::Spender && place.address == address;
        asked.places.iter().find(spender).map(|place| place.listed)
    };
    assert_eq!((listed(&rules, reactor), listed(&rules, permit2)), (Some(false), Some(false)));
    rules.allowed_spenders = policy::AllowedItems::only([Spender(permit2)]);
    assert_eq!((listed(&rules, reactor), listed(&rules, permit2)), (Some(false), Some(true)));
    // An incomplete simulation is labelled, and the label must be read before an approval.
    assert!(!question_of(&request, &fixture).to_read.iter().any(|one| one.text.as_str().contains("more may move")));
    let mut blind = (*preview).clone();
    blind.simulated.simulation.changes.gaps.push(DetectionGap::Preimages);
    let requirement = requirement(&blind);
    let blind = ApprovalRequest { preview: Arc::new(blind), requirement, ..request.clone() };
    assert!(question_of(&blind, &fixture).to_read.iter().any(|one| one.text.as_str().contains("more may move")));
    // The reactor is among the spenders, and a standing approval covers only it.
    assert!(asked.places.iter().any(|place| place.part == AddressPart::Spender && place.address == reactor));
    assert!(GrantScope::of(&preview).takers.contains(&reactor));
    offer.withdraw().await;
}

fn question_of(request: &ApprovalRequest, fixture: &Fixture) -> Question {
    view_model(request, Some(fixture.world.client.network()), 1, false, RequestContext::default())
}

pub fn order(amount: &str, seconds: u64) -> Value {
    json!({"token_in": "USDC", "token_out": "WETH", "amount": amount, "chain": "ethereum",
           "decay_end_time": seconds})
}

pub fn signed(record: &OrderRecord) -> UniswapXOrder {
    match &record.message {
        TypedMessage::UniswapxOrder { order, .. } => order.as_ref().clone(),
        other => panic!("{other:?}"),
    }
}

fn raw(card: &Value, name: &str, decimals: u8) -> U256 {
    TokenAmount::parse(card[name].as_str().unwrap(), decimals).unwrap().raw()
}

/// Lock for a test that pauses the fillers.
static FILLERS_PAUSED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Places orders of this kind until one is filled, and compares card and balances.
async fn assert_filled_at_curve(kind: OrderKind, account: usize) {
    let fixture = Fixture::new(account, kind, ServiceBehavior::Honest).await;
    let (usdc, weth) = (fixture.world.usdc.clone(), fixture.world.weth.clone());
    let mut tries = 0;
    // Fillers skip some orders at random. Such an order expires, and another one is placed.
    let (record, before) = loop {
        let before = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
        let hash = {
            // Other tests make blocks, in which the order could be filled before it is read.
            let _alone = FILLERS_PAUSED.lock().await;
            let service = devnet().background_actors.order_service();
            service.set_fillers_rest(true);
            let hash = fixture.place(order("250", 40)).await;
            assert_eq!(fixture.permit2_allows().await, U256::from(250_000_000), "exactly what the order takes");
            assert!(fixture.world.book.ends.lock().unwrap().len() == tries, "its reservation stays open");
            service.set_fillers_rest(false);
            hash
        };
        let record = fixture.end(hash).await;
        tries += 1;
        if record.status.as_str() == "filled" {
            break (record, before);
        }
        assert_eq!(record.status.as_str(), "expired");
        assert!(tries < 6, "no order was filled");
    };
    let after = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
    let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
    let order = signed(&record);
    assert_eq!(card["order_type"], kind.name());
    assert_eq!(before[0] - after[0], U256::from(250_000_000));
    assert_eq!(raw(&card["fill"], "amount_in", 6), before[0] - after[0]);
    assert_eq!(raw(&card["fill"], "amount_out", 18), after[1] - before[1], "exactly the amount received");
    // And the curve's value for that block, computed from the order alone.
    assert_eq!(raw(&card, "current_amount", 18), after[1] - before[1]);
    assert!(after[1] - before[1] >= order.bounds().least_out[0].amount);
    assert_eq!(fixture.permit2_allows().await, U256::ZERO, "nothing is left to take");
    assert!(matches!(fixture.world.book.ends.lock().unwrap().last(), Some(ActionEnd::Done { .. })));
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), tries, "each order is submitted once");
    assert_eq!(fixture.orders.live().unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v2_order_is_filled_at_its_curves_price() {
    assert_filled_at_curve(OrderKind::DutchV2, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v3_order_is_filled_at_its_curves_price() {
    assert_filled_at_curve(OrderKind::DutchV3, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_order_is_filled_at_the_price_for_its_fee() {
    assert_filled_at_curve(OrderKind::Priority, 9).await;
}

/// A priority order opens to all fillers in the block that covers the requested time.
#[tokio::test(flavor = "multi_thread")]
async fn a_priority_order_is_signed_for_the_requested_start() {
    let fixture = Fixture::new(9, OrderKind::Priority, ServiceBehavior::Honest).await;
    let _alone = FILLERS_PAUSED.lock().await;
    let service = devnet().background_actors.order_service();
    service.set_fillers_rest(true);
    let seconds = fixture.world.client.network().block_millis / 1_000 * 3 + 1;
    let head = async || devnet().devnet.run(|chain| chain.number()).await.unwrap();
    let before = head().await;
    let mut asked = order("100", 3_000);
    asked["decay_start_time"] = json!(seconds);
    let hash = fixture.place(asked).await;
    let after = head().await;
    service.set_fillers_rest(false);
    let UniswapXOrder::Priority(signed) = signed(&fixture.orders.record(hash).unwrap()) else { panic!("{hash}") };
    // Three whole blocks and a second are covered by four.
    let start: u64 = signed.auctionStartBlock.to();
    assert!((before + 4..=after + 4).contains(&start), "{before} {start} {after}");
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_open_orders_may_take_is_named_beside_what_is_held() {
    let fixture = Fixture::new(8, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    fixture.place(order("250", 3_000)).await;
    let held = TokenAmount::new(fixture.world.balance(&fixture.world.usdc).await, 6).unwrap().to_string();
    let response = fixture.call("uniswap_submit_uniswapx_order", order(&held, 3_000)).await;
    let error = response.error.unwrap();
    assert_eq!(error.code(), ErrorCode::InsufficientBalance, "{error:#?}");
    assert!(error.to_string().contains(", 250 reserved for orders"), "{error}");
    assert_eq!((&error.details()["held"], &error.details()["promised"]), (&json!(held), &json!("250")));
    fixture.clear().await;
}

/// A filler settles two orders of one account in one transaction. Each card shows the order's own proceeds.
#[tokio::test(flavor = "multi_thread")]
async fn two_orders_filled_in_one_batch_report_their_own_amounts() {
    let fixture = Fixture::new(7, OrderKind::Priority, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let (world, filler) = (&fixture.world, TestHarness::new(3).await);
    let bought = json!({"token_in": "USDC", "token_out": "UNI", "amount": "50", "chain": "ethereum",
                        "prefer_uniswapx": false});
    assert_eq!(fixture.call("uniswap_execute_swap", bought).await.status, CallStatus::Success);
    let purchase = filler.preview(filler.swap(900_000_000).await).await.unwrap();
    filler.pipeline.commit(purchase.permit.permit_id, Consent::None).await.unwrap();

    let _alone = FILLERS_PAUSED.lock().await;
    let service = devnet().background_actors.order_service();
    service.set_fillers_rest(true);
    let mut hashes = vec![fixture.place(order("250", 3_000)).await];
    let second = json!({"token_in": "UNI", "token_out": "WETH", "amount": "2", "chain": "ethereum",
                        "decay_end_time": 3_000});
    hashes.push(fixture.place(second).await);
    let mut cosigned = Vec::new();
    for hash in &hashes {
        let record = fixture.orders.record(*hash).unwrap();
        let signature = record.signature.clone().unwrap();
        fixture.service.inner.submit(&signed(&record), &signature).await.unwrap();
        let shown = fixture.service.inner.order_report(*hash).await.unwrap().unwrap();
        cosigned.push(SignedOrder { order: shown.cosigned.unwrap().encode(), sig: signature });
    }
    // Mine until the auctions have started.
    for _ in 0..10 {
        devnet().devnet.mine().await.unwrap();
    }
    let before = [world.balance(&world.usdc).await, world.balance(&world.weth).await];
    let reactor = signed(&fixture.orders.record(hashes[0]).unwrap()).info().reactor;
    filler.send(filler.contract_of(&filler.weth), Erc20::approveCall { spender: reactor, value: U256::MAX }).await;
    // A tip of three wei: a priority order's output grows with it.
    filler.send_for(3, reactor, Reactor::executeBatchCall { orders: cosigned }).await;
    service.set_fillers_rest(false);
    let after = [world.balance(&world.usdc).await, world.balance(&world.weth).await];

    let mut fills = Vec::new();
    for hash in hashes {
        let record = fixture.orders.poll(hash).await.unwrap();
        assert_eq!(record.status.as_str(), "filled", "{record:#?}");
        let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
        assert!(raw(&card["fill"], "amount_out", 18) >= signed(&record).bounds().least_out[0].amount, "{card}");
        fills.push(card["fill"].clone());
    }
    let amounts_out: Vec<U256> = fills.iter().map(|fill| raw(fill, "amount_out", 18)).collect();
    // The orders are worth 250 dollars and about 20, so swapped amounts would show.
    assert!(amounts_out[0] > amounts_out[1] * U256::from(5), "{amounts_out:?}");
    assert_eq!(amounts_out[0] + amounts_out[1], after[1] - before[1], "together exactly the amount received");
    assert_eq!(raw(&fills[0], "amount_in", 6), before[0] - after[0]);
    assert_eq!(raw(&fills[1], "amount_in", 18), U256::from(2_000_000_000_000_000_000_u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_order_is_invalid_and_its_reservation_released() {
    let fixture = Fixture::new(8, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 3_000)).await;
    // The service reports it as filled; the chain has no fill.
    let record = fixture.orders.poll(hash).await.unwrap();
    assert_eq!((record.status.as_str(), record.stage), ("open", OrderStage::Submitted));
    assert!(record.card.as_deref().unwrap().contains("the chain does not"), "{record:#?}");
    assert!(fixture.world.book.ends.lock().unwrap().is_empty());

    // While the order can be filled, neither another order of the pair nor a swap is signed.
    for tool in ["uniswap_submit_uniswapx_order", "uniswap_execute_swap"] {
        let mut params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "50", "chain": "ethereum"});
        if tool == "uniswap_execute_swap" {
            params["prefer_uniswapx"] = json!(false);
        }
        let response = fixture.call(tool, params).await;
        assert_eq!(response.error.as_ref().map(ToolError::code), Some(ErrorCode::OrderStillOpen), "{response:#?}");
        assert!(response.error.unwrap().message().contains("can still be filled"));
    }

    // Under a halt nothing is placed, but cancelling works.
    *fixture.world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    let response = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    let record = fixture.end(hash).await;
    assert_eq!(record.status.as_str(), "cancelled");
    let nonce = signed(&record).info().nonce;
    let (word, _) = nonce_position(nonce);
    let permit2 = fixture.world.contract(KnownContract::Permit2);
    let bits = fixture.world.ask(permit2, Permit2::nonceBitmapCall { owner: fixture.world.account(), word }).await;
    assert!(nonce_used(nonce, bits));
    let again = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
    assert!(again.error.unwrap().message().contains("already ended"));
    assert_eq!(fixture.world.book.ends.lock().unwrap().len(), 2, "the ends of the order and of the cancellation");
}

/// An allowance that was prepared for an open order as well would be too large once that order has ended.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_counts_on_an_open_order_is_outdated_when_that_order_ends() {
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let hash = fixture.place(order("250", 60)).await;
    let other = json!({"token_in": "USDC", "token_out": "UNI", "amount": "50", "chain": "ethereum"});
    let call = || ToolCall::new("uniswap_submit_uniswapx_order", ToolInput::Json(other.clone()));
    let PreviewResult::Held(offer) = fixture.executor.offer(call()).await else { panic!("no offer") };
    let allowed = &offer.preview().payload.proposal().allowances;
    assert!(!allowed.is_empty(), "{:#?}", offer.preview().payload.proposal());
    assert!(!fixture.world.pipeline.is_outdated(offer.preview()));
    // The allowance of a deposit is exact, whatever orders are open.
    let supply = json!({"token": "USDC", "amount": "20", "chain": "ethereum"});
    let supply = ToolCall::new("lending_supply", ToolInput::Json(supply));
    let PreviewResult::Held(exact) = fixture.executor.offer(supply).await else { panic!("no offer") };
    let cancelled = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
    assert_eq!(cancelled.status, CallStatus::Success, "{cancelled:#?}");
    fixture.end(hash).await;
    assert!(fixture.world.pipeline.is_outdated(offer.preview()));
    let refused = offer.commit().await;
    let error = refused.error.as_ref().unwrap();
    assert_eq!(error.code(), ErrorCode::PermitMismatch, "{refused:#?}");
    assert!(error.message().contains("an open order that its allowance was prepared for has ended"), "{refused:#?}");
    let supplied = exact.commit().await;
    assert_eq!(supplied.status, CallStatus::Success, "{supplied:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_order_stays_fillable_after_a_swap_of_its_token() {
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let swap = json!({"token_in": "USDC", "token_out": "UNI", "amount": "50", "chain": "ethereum",
                      "prefer_uniswapx": false});
    let mut tries = 0;
    loop {
        let hash = fixture.place(order("250", 60)).await;
        assert_eq!(fixture.permit2_allows().await, U256::from(250_000_000));
        // Once with an allowance that is too small for both, and once more after it.
        for _ in 0..2 {
            let swapped = fixture.call("uniswap_execute_swap", swap.clone()).await;
            assert_eq!(swapped.status, CallStatus::Success, "{swapped:#?}");
            assert_eq!(fixture.permit2_allows().await, U256::from(250_000_000), "exactly the amount of the open order");
        }
        // Fillers receive the order only now.
        let record = fixture.orders.record(hash).unwrap();
        fixture.service.inner.submit(&signed(&record), record.signature.as_ref().unwrap()).await.unwrap();
        let record = fixture.end(hash).await;
        tries += 1;
        if record.status.as_str() == "filled" {
            break;
        }
        // Fillers skip some orders at random, but cancel none.
        assert_eq!(record.status.as_str(), "expired", "{record:#?}");
        assert!(tries < 6, "no order was filled");
    }
    assert_eq!(fixture.permit2_allows().await, U256::ZERO, "nothing is left to take");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_without_an_order_service_keeps_the_allowance_of_stored_orders() {
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    fixture.place(order("100", 3_000)).await;
    // Another process on the same ledger, without a settlement service.
    let folder = tempfile::tempdir().unwrap();
    let rules = ruled(&fixture.world, folder.path(), &fixture.world.store, "");
    let pipeline = fixture.world.pipeline_under(rules.clone(), &fixture.world.store);
    let (acting, _phase) = acting(&fixture.world, pipeline, ApprovalMode::Always);
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let executor = executor(catalog, seen(&fixture.world).under(rules), fixture.world.fabric(), None, Some(acting));
    let swap = json!({"token_in": "USDC", "token_out": "UNI", "amount": "50", "chain": "ethereum"});
    let swapped = executor.call(ToolCall::new("uniswap_execute_swap", ToolInput::Json(swap))).await;
    assert_eq!(swapped.status, CallStatus::Success, "{swapped:#?}");
    assert_eq!(fixture.permit2_allows().await, U256::from(100_000_000), "exactly the amount of the open order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_keeps_exactly_the_allowance_that_open_orders_need() {
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let (world, permit2) = (&fixture.world, fixture.world.contract(KnownContract::Permit2));
    let swap = async |allowed: u64, remaining: u64| {
        let mut proposal = world.swap(50_000_000).await;
        proposal.legs[0] = world.approve(LegPurpose::Approve, permit2, U256::from(allowed));
        proposal.allowances[0].at_most = U256::from(remaining);
        proposal
    };
    let allowance = (ErrorCode::SafetySimulationFailed, ["allowance".to_owned()].into());
    // Without an open order a trade cannot declare a remaining allowance, in between or at the end.
    assert!(world.preview(swap(50_000_000, 0).await).await.is_ok());
    assert_eq!(world.refused(swap(50_000_001, 1).await).await, allowance);
    assert_eq!(world.refused(swap(1_000_000_000, 950_000_000).await).await, allowance);

    fixture.place(order("100", 3_000)).await;
    assert!(world.preview(swap(150_000_000, 100_000_000).await).await.is_ok());
    // Rejected: a remainder above the order's amount, one below it, and an undeclared one.
    assert_eq!(world.refused(swap(150_000_001, 100_000_001).await).await, allowance);
    assert_eq!(world.refused(swap(149_999_999, 100_000_000).await).await, allowance);
    assert_eq!(world.refused(swap(50_000_000, 0).await).await, allowance);
    assert_eq!(world.refused(swap(150_000_000, 99_999_999).await).await, allowance);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_that_stops_half_way_revokes_only_its_own_allowance() {
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let mut params = order("100", 3_000);
    params["token_out"] = json!("UNI");
    fixture.place(params).await;
    let (world, permit2) = (&fixture.world, fixture.world.contract(KnownContract::Permit2));
    let mut swap = world.swap(50_000_000).await;
    swap.legs[0] = world.approve(LegPurpose::Approve, permit2, U256::from(150_000_000));
    swap.allowances[0].at_most = U256::from(100_000_000);
    let permit = world.preview(swap).await.unwrap().permit.permit_id;
    // The stop is set once the allowance is included, that is, when the swap itself is about to be signed.
    let (book, wallet) = (Arc::clone(&world.book), Arc::clone(&world.wallet));
    let before = wallet.signatures.load(Ordering::SeqCst);
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        if wallet.signatures.load(Ordering::SeqCst) == before + 2 {
            *book.stop.lock().unwrap() = Some(StopLevel::Halt);
        }
    })
    .into_inner()
    .unwrap();
    let committed = world.pipeline.commit(permit, Consent::None).await.unwrap();
    assert!(matches!(committed.state, CommitState::Stopped { .. }), "{:?}", committed.state);
    assert_eq!(committed.remarks, Vec::<String>::new());
    assert_eq!(fixture.permit2_allows().await, U256::from(100_000_000), "exactly the amount of the open order");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_with_a_rejection_or_unclear_answer_stays_reserved_and_is_submitted_once() {
    for (account, behavior, status) in
        [(9, ServiceBehavior::Rejects, "error"), (9, ServiceBehavior::UnclearAnswer, "open")]
    {
        let fixture = Fixture::new(account, OrderKind::DutchV2, behavior).await;
        let hash = fixture.place(order("100", 3_000)).await;
        for _ in 0..3 {
            fixture.orders.round().await.unwrap();
        }
        let record = fixture.orders.record(hash).unwrap();
        if record.status.as_str() == "filled" {
            continue;
        }
        assert_eq!(record.status.as_str(), status, "{record:#?}");
        assert_eq!(fixture.service.submitted.lock().unwrap().len(), 1, "{behavior:?}");
        assert!(fixture.world.book.ends.lock().unwrap().is_empty(), "the reservation of a submitted signature stays");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_orders_are_refused_before_anything_is_signed() {
    let fixture = Fixture::new(7, OrderKind::DutchV2, ServiceBehavior::Honest).await;
    let nonce = fixture.world.nonce().await;
    let bad = [
        (json!({"decay_start_time": 20}), "cosigner"),
        (json!({"slippage_bps": 10_001}), "slippage_bps"),
        (json!({"decay_end_time": 0}), "decay_end_time"),
        (json!({"decay_end_time": 90_000}), "decay_end_time"),
        (json!({"token_in": "ETH"}), "wrap it"),
        (json!({"token_out": "USDC"}), "the token to sell"),
        (json!({"decay_start_time": 86_400}), "decay_start_time"),
        (json!({"decay_start_time": -1}), "decay_start_time"),
        (json!({"decay_end_time": -1}), "decay_end_time"),
        (json!({"token_in": "NOSUCH"}), "NOSUCH"),
        (json!({"token_out": "NOSUCH"}), "NOSUCH"),
        (json!({"token_in": Address::repeat_byte(9).to_string()}), "0x0909"),
        (json!({"token_out": Address::repeat_byte(9).to_string()}), "0x0909"),
        (json!({"amount": "1000001"}), "not enough USDC: 1,000,001 needed, "),
        (json!({"amount": "0"}), "amount"),
        (json!({"amount": "-1"}), "amount"),
        (json!({"amount": "1e3"}), "amount"),
        (json!({"amount": "1.0000001"}), "decimals"),
        (json!({"amount": 100.5}), "the number 100.5 was given with an exponent or as a float, which can lose digits"),
        (json!({"chain": "arbitrum"}), "arbitrum"),
        (json!({"chain": "1"}), "1"),
        (json!({"recipient": Address::ZERO.to_string()}), "recipient"),
    ];
    for (change, expected) in bad {
        let mut params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum"});
        params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let response = fixture.call("uniswap_submit_uniswapx_order", params).await;
        assert!(matches!(response.status, CallStatus::Error | CallStatus::Blocked), "{change}: {response:#?}");
        assert!(response.error.as_ref().unwrap().message().contains(expected), "{change}: {response:#?}");
    }
    let unknown = json!({"order_hash": B256::repeat_byte(9).to_string()});
    for tool in ["uniswap_get_uniswapx_order_status", "uniswapx_cancel_order"] {
        let response = fixture.call(tool, unknown.clone()).await;
        assert!(response.error.unwrap().message().contains("was not signed here"));
        for invalid in ["", "0x12", "no hash", "0x090909090909090909090909090909090909090909090909090909090909090g"] {
            let response = fixture.call(tool, json!({"order_hash": invalid})).await;
            assert_eq!(response.status, CallStatus::Error, "{tool} {invalid}: {response:#?}");
            assert!(response.error.unwrap().message().contains("order_hash"), "{tool} {invalid}");
        }
    }
    assert_eq!(fixture.world.nonce().await, nonce);
    assert_eq!(fixture.orders.every().unwrap(), []);
    assert!(fixture.world.client.provider().get_block_number().await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_status_of_the_service_does_not_override_the_chain() {
    let permit2 = |fixture: &Fixture| fixture.world.contract(KnownContract::Permit2);
    for (status, _) in ServiceStatus::NAMES {
        let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::FalseStatus(status)).await;
        let (usdc, weth) = (fixture.world.usdc.clone(), fixture.world.weth.clone());
        let before = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
        let hash = fixture.place(order("100", 3_000)).await;
        for _ in 0..2 {
            fixture.orders.round().await.unwrap();
        }
        let record = fixture.orders.record(hash).unwrap();
        // Whatever the service reports, the order can be filled until its deadline: it stays open and reserved.
        assert_eq!((record.status.as_str(), record.stage), ("open", OrderStage::Submitted), "{status:?}");
        assert!(fixture.world.book.ends.lock().unwrap().is_empty(), "{status:?}: its reservation stays open");
        let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
        let is_contradicted =
            matches!(status, ServiceStatus::Filled | ServiceStatus::Expired | ServiceStatus::Cancelled);
        let remark = card["remark"].as_str().unwrap_or_default();
        assert_eq!(remark.contains("the chain counts"), is_contradicted, "{status:?}: {remark}");
        assert!(card.get("fill").is_none_or(Value::is_null), "{status:?}: {card}");
        let shown = fixture.call("uniswap_get_uniswapx_order_status", json!({"order_hash": hash.to_string()})).await;
        let shown = shown.data.unwrap();
        assert_eq!((shown["status"].as_str(), &shown["fill_amount"]), (Some("open"), &Value::Null), "{status:?}");
        assert_eq!(fixture.service.submitted.lock().unwrap().len(), 1, "{status:?}");
        // The order can be cancelled, and the balances are unchanged.
        let cancelled = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
        assert_eq!(cancelled.status, CallStatus::Success, "{status:?}: {cancelled:#?}");
        assert_eq!(fixture.end(hash).await.status.as_str(), "cancelled", "{status:?}");
        let after = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
        assert_eq!(after, before, "{status:?}");
        let (word, _) = nonce_position(signed(&record).info().nonce);
        let call = Permit2::nonceBitmapCall { owner: fixture.world.account(), word };
        assert!(nonce_used(signed(&record).info().nonce, fixture.world.ask(permit2(&fixture), call).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_order_under_the_same_hash_is_not_accepted() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::StoresAnother).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let record = fixture.orders.poll(hash).await.unwrap();
    // The answer has another hash, so it is unknown whether the service has the order. It is not submitted again.
    assert_eq!(record.stage, OrderStage::Submitting, "{record:#?}");
    fixture.orders.round().await.unwrap();
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), 1);
    let card: Value = serde_json::from_str(fixture.orders.record(hash).unwrap().card.as_deref().unwrap()).unwrap();
    assert!(card["remark"].as_str().unwrap().contains("returned another order"), "{card}");
    // The card shows the signed order, not the one that the service returned.
    let least = signed(&record).bounds().least_out[0].amount;
    assert_eq!(raw(&card, "end_amount", 18), least);
    assert!(card.get("exclusivity").is_none_or(Value::is_null), "{card}");
    let cancelled = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
    assert_eq!(cancelled.status, CallStatus::Success, "{cancelled:#?}");
    assert_eq!(fixture.end(hash).await.status.as_str(), "cancelled");
}

/// A swap prefers an auction, and the service rejects the order but keeps the signature. The fallback to the pools
/// waits until the order is invalid, so the kept signature is worthless.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_and_its_fallback_swap_never_both_settle() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::Rejects).await;
    let (usdc, weth) = (fixture.world.usdc.clone(), fixture.world.weth.clone());
    let before = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
    let swap = |prefer: bool| {
        json!({"token_in": "USDC", "token_out": "WETH", "amount": "1500", "chain": "ethereum",
               "prefer_uniswapx": prefer, "deadline": 3_000})
    };
    let response = fixture.call("uniswap_execute_swap", swap(true)).await;
    assert_eq!(response.status, CallStatus::Partial, "{response:#?}");
    let hash: B256 = response.data.unwrap()["order_hash"].as_str().unwrap().parse().unwrap();
    let record = fixture.orders.record(hash).unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Refused, "error"), "{record:#?}");

    // The service rejected the order, but has its signature: neither route is open while the order can be filled.
    for prefer in [false, true] {
        let refused = fixture.call("uniswap_execute_swap", swap(prefer)).await;
        assert_eq!(refused.error.as_ref().map(ToolError::code), Some(ErrorCode::OrderStillOpen), "{refused:#?}");
        assert!(refused.error.unwrap().message().contains("can still be filled"));
    }
    let cancelled = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
    assert_eq!(cancelled.status, CallStatus::Success, "{cancelled:#?}");
    assert_eq!(fixture.end(hash).await.status.as_str(), "cancelled");

    let fallback = fixture.call("uniswap_execute_swap", swap(false)).await;
    assert_eq!(fallback.status, CallStatus::Success, "{fallback:#?}");
    let after = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
    assert_eq!(before[0] - after[0], U256::from(1_500_000_000), "sold once");
    assert!(after[1] > before[1]);

    // Now the service gives the signature to fillers after all.
    let (order, signature) = (signed(&record), record.signature.clone().unwrap());
    let late_submission = fixture.service.inner.submit(&order, &signature).await;
    for _ in 0..4 {
        devnet().devnet.mine().await.unwrap();
    }
    if late_submission.is_ok() {
        let report = fixture.service.inner.order_report(hash).await.unwrap().unwrap();
        assert_eq!(report.status, ServiceStatus::Cancelled);
    }
    let later = [fixture.world.balance(&usdc).await, fixture.world.balance(&weth).await];
    assert_eq!(later, after, "the input is not sold twice");
}

/// A used nonce without an event proves nothing: a log may be missing at the endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn an_unexplained_used_nonce_releases_no_reservation() {
    let fixture = Fixture::new(5, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let UsedNonce { permit2, word, bits, .. } = fixture.use_nonce(hash).await;
    let record = fixture.orders.poll(hash).await.unwrap();
    assert_ne!(record.stage, OrderStage::Ended, "{}: {:?}", record.status, fixture.world.book.ends.lock().unwrap());
    // Then the nonce is invalidated, as by a cancellation after a fill: Permit2 emits an event for a used nonce as
    // well.
    let wallet = fixture.world.account();
    fixture.world.send(permit2, Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: bits }).await;
    let head = fixture.world.client.provider().get_block_number().await.unwrap();
    let event = Permit2::UnorderedNonceInvalidation::SIGNATURE_HASH;
    let filter = Filter::new().address(permit2).event_signature(event).topic1(wallet.into_word());
    let logs = fixture.world.client.provider().get_logs(&filter.from_block(head.saturating_sub(20))).await.unwrap();
    assert!(!logs.is_empty(), "the event was emitted");
    let record = fixture.orders.poll(hash).await.unwrap();
    assert_ne!(record.stage, OrderStage::Ended, "{}: {:?}", record.status, fixture.world.book.ends.lock().unwrap());
    fixture.clear().await;
}

/// After the deadline, an unexplained use counts as if the order had taken everything.
#[tokio::test(flavor = "multi_thread")]
async fn an_unexplained_used_nonce_counts_in_full_past_the_deadline() {
    let fixture = Fixture::new(5, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 30)).await;
    let reserved = fixture.orders.record(hash).unwrap().spent;
    fixture.use_nonce(hash).await;
    let record = fixture.end(hash).await;
    assert_eq!(record.status.as_str(), "error");
    // 100 dollars, and at least the whole reservation.
    let ends = fixture.world.book.ends.lock().unwrap().clone();
    let [ActionEnd::Done { spent }] = ends.as_slice() else { panic!("{ends:?}") };
    assert!(cents(*spent) >= 10_000 && spent <= &reserved, "{spent} of {reserved}");
    fixture.clear().await;
}

/// The input of an open order counts with the order, so a swap beside it counts only its own input.
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_beside_an_open_order_is_counted_once() {
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let (world, permit2) = (&fixture.world, fixture.world.contract(KnownContract::Permit2));
    let alone = world.preview(world.swap(50_000_000).await).await.unwrap().values;
    fixture.place(order("100", 3_000)).await;
    let mut swap = world.swap(50_000_000).await;
    swap.legs[0] = world.approve(LegPurpose::Approve, permit2, U256::from(150_000_000));
    swap.allowances[0].at_most = U256::from(100_000_000);
    let beside = world.preview(swap).await.unwrap().values;
    assert_eq!((beside.takeable.len(), beside.outflows[0].amount), (0, alone.outflows[0].amount));
    // 50 USDC at a dollar, or at the quote's value, plus gas: without the order's 100.
    assert_eq!(beside.spent, beside.outflows[0].usd.checked_add(beside.gas).unwrap());
    assert!(cents(beside.spent) < 10_000, "{}", beside.spent);
    // An allowance counts in full, with or without an order: 100 dollars and gas.
    let approval = world.preview(world.approval(100_000_000)).await.unwrap().values;
    assert!(cents(approval.spent) >= 10_000, "{}", approval.spent);
    fixture.clear().await;
}

/// A fill of an own auction in the block of another action does not change that action's verdict, which comes from the
/// action's own receipt and logs.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_stays_as_declared_if_an_own_order_fills_meanwhile() {
    let fixture = Fixture::new(7, OrderKind::DutchV2, ServiceBehavior::Honest).await;
    let (provider, account) = (fixture.world.client.provider(), fixture.world.account());
    let usdc = fixture.world.contract_of(&fixture.world.usdc);
    let balance_at = async |block: u64| -> U256 {
        let call = Erc20::balanceOfCall { owner: account };
        let request = TransactionRequest::default().with_to(usdc).with_input(call.abi_encode());
        let answer = provider.call(request).block(block.into()).await.unwrap();
        Erc20::balanceOfCall::abi_decode_returns(&answer).unwrap()
    };
    let service = devnet().background_actors.order_service();
    for _ in 0..6 {
        // Other tests make blocks, in which the order could be filled without the transfer.
        let _alone = FILLERS_PAUSED.lock().await;
        service.set_fillers_rest(true);
        let hash = fixture.place(order("250", 40)).await;
        service.set_fillers_rest(false);
        while fixture.orders.poll(hash).await.unwrap().stage != OrderStage::Ended {
            let params = json!({"token": "ETH", "recipient": Address::repeat_byte(0x77), "amount": "0.001", "chain": "ethereum"});
            let call = ToolCall::new("wallet_transfer_token", ToolInput::Json(params));
            let call = ToolCall { approve: Some(ApprovalMode::Always), ..call };
            let response = fixture.executor.call(call).await;
            assert_eq!(response.status, CallStatus::Success, "{response:#?}");
            let hints = response.decision_hints.unwrap();
            assert_eq!(hints["as_declared"], true, "{hints:#}");
            let block = hints["transactions"][0]["block"].as_u64().unwrap();
            let (before, after) = (balance_at(block - 1).await, balance_at(block).await);
            if before != after {
                assert_eq!(before - after, U256::from(250_000_000), "the auction's own amount");
                fixture.end(hash).await;
                return fixture.clear().await;
            }
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }
    panic!("no transfer shared a block with the fill");
}

/// The native token and its wrapped form count as one token, so that it is not bought twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_for_the_wrapped_token_blocks_a_swap_for_the_native_token() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    fixture.place(order("100", 3_000)).await;
    let params = json!({"token_in": "USDC", "token_out": "ETH", "amount": "50", "chain": "ethereum",
                        "prefer_uniswapx": false});
    let response = fixture.call("uniswap_execute_swap", params).await;
    assert_eq!(response.error.as_ref().map(ToolError::code), Some(ErrorCode::OrderStillOpen), "{response:#?}");
    fixture.clear().await;
}

/// The native token is not sold while an order sells its wrapped form.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_gives_the_wrapped_token_blocks_a_swap_of_the_native_token() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let bought = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum",
                        "prefer_uniswapx": false});
    assert_eq!(fixture.call("uniswap_execute_swap", bought).await.status, CallStatus::Success);
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.02", "chain": "ethereum",
                        "decay_end_time": 3_000});
    fixture.place(params).await;
    let params = json!({"token_in": "ETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum",
                        "prefer_uniswapx": false});
    let response = fixture.call("uniswap_execute_swap", params).await;
    assert_eq!(response.error.as_ref().map(ToolError::code), Some(ErrorCode::OrderStillOpen), "{response:#?}");
    assert!(response.error.unwrap().message().contains("can still be filled"));
}

/// A block that may still be reorganised does not end an order.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_ends_only_by_a_confirmed_block() {
    let fixture = Fixture::new(5, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 30)).await;
    let deadline: u64 = signed(&fixture.orders.record(hash).unwrap()).info().deadline.to();
    // The devnet as a public test network, whose last block may be replaced.
    let mut network = fixture.world.client.network().clone();
    network.kind = NetworkKind::Test;
    let client = ChainClient::devnet(network, devnet().devnet.clone(), Arc::new(SystemClock)).unwrap();
    let orders = fixture.orders_over(client);
    let provider = fixture.world.client.provider();
    for _ in 0..240 {
        let record = orders.poll(hash).await.unwrap();
        let head = provider.get_block_number().await.unwrap();
        let below = provider.get_block_by_number((head - 1).into()).await.unwrap().unwrap();
        if record.stage == OrderStage::Ended {
            assert_eq!(record.status.as_str(), "expired");
            assert!(below.header.timestamp > deadline, "the block after the deadline has a confirmation");
            return fixture.clear().await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        devnet().devnet.mine().await.unwrap();
    }
    panic!("the order did not end");
}

/// After a stop is set, signed orders are not submitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_signed_order_is_not_submitted_under_a_stop() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::Unreachable).await;
    let hash = fixture.place(order("100", 3_000)).await;
    assert_eq!(fixture.orders.record(hash).unwrap().stage, OrderStage::Signed, "it waits for another submission");
    let before = fixture.service.submitted.lock().unwrap().len();
    *fixture.world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    let record = fixture.orders.submit(hash).await.unwrap();
    assert_eq!(record.stage, OrderStage::Signed);
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), before);
    *fixture.world.book.stop.lock().unwrap() = None;
    fixture.orders.submit(hash).await.unwrap();
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), before + 1, "submitted once the stop is lifted");
    // A halt ends an order that no service has seen, so lifting the halt releases no old order.
    *fixture.world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    assert_eq!(fixture.orders.submit_stored().await.unwrap(), 0);
    *fixture.world.book.stop.lock().unwrap() = None;
    fixture.orders.submit_stored().await.unwrap();
    let record = fixture.orders.record(hash).unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "cancelled"));
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), before + 1);
    let paid = if record.gas == Usd::ZERO { ActionEnd::Withdrawn } else { ActionEnd::Partly { spent: record.gas } };
    assert_eq!(fixture.world.book.ends.lock().unwrap().last(), Some(&paid));
    fixture.clear().await;
}

/// The checks before the signature say nothing about prices and limits long afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_not_submitted_long_after_its_signature() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::Unreachable).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let submitted = || fixture.service.submitted.lock().unwrap().len();
    assert_eq!(submitted(), 1);
    // Soon after the signature, the submission is retried.
    fixture.orders.submit_stored().await.unwrap();
    assert_eq!(submitted(), 2);
    // Later it is not submitted, even on request. No service has seen it, so it ends and its reservation is released.
    let later = fixture.orders_later(200_000);
    later.submit(hash).await.unwrap();
    later.submit_stored().await.unwrap();
    assert_eq!(submitted(), 2);
    let record = later.record(hash).unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "cancelled"));
    fixture.clear().await;
    drop(fixture);

    // A busy service may have kept the order, which can still take its input, so it stays reserved.
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::Busy).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let submitted = fixture.service.submitted.lock().unwrap().len();
    let later = fixture.orders_later(200_000);
    later.submit_stored().await.unwrap();
    *fixture.world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    fixture.orders.submit_stored().await.unwrap();
    assert_eq!(fixture.orders.record(hash).unwrap().stage, OrderStage::Signed);
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), submitted);
    assert!(fixture.world.book.ends.lock().unwrap().is_empty());
    fixture.clear().await;
}

/// A clock that was set back after the signature does not show the signature's age.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_not_submitted_after_the_clock_was_set_back() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::Unreachable).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let submitted = || fixture.service.submitted.lock().unwrap().len();
    assert_eq!(submitted(), 1);
    let earlier = fixture.orders_later(-200_000);
    earlier.submit(hash).await.unwrap();
    earlier.submit_stored().await.unwrap();
    assert_eq!(submitted(), 1);
    let record = earlier.record(hash).unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "cancelled"));
    fixture.clear().await;
}

/// Services limit the rate of requests, and quotes need them more than reports.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_polled_no_more_often_than_its_interval() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::LimitsPolls).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let clock = Arc::<Shifted>::default();
    let orders = fixture.orders_with_clock(clock.clone());
    let before = fixture.service.report_requests.load(Ordering::SeqCst);
    let request_count = || fixture.service.report_requests.load(Ordering::SeqCst) - before;
    // The clock is set back before each poll, so that the duration of the test does not matter.
    for _ in 0..5 {
        orders.poll(hash).await.unwrap();
        clock.shift(-1_000);
    }
    assert_eq!(request_count(), 1, "one request for five polls within ten seconds");
    clock.shift(60_000);
    orders.poll(hash).await.unwrap();
    assert_eq!(request_count(), 2, "another request after the interval");
    fixture.clear().await;
}

/// A rollup's data fee counts for the transactions before an order as for others.
#[tokio::test(flavor = "multi_thread")]
async fn data_fees_of_an_orders_transactions_are_counted() {
    let mut world = TestHarness::new(7).await;
    // PUSH7 10^15, PUSH0, MSTORE, PUSH1 32, PUSH0, RETURN: a thousandth of a native token for every transaction.
    let code = alloy::primitives::bytes!("66038d7ea4c680005f5260205ff3");
    world.pipeline = world.as_rollup(Address::repeat_byte(0x0f), code).await;
    let fixture = Fixture::of(world, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let hash = fixture.place(order("100", 3_000)).await;
    let record = fixture.orders.record(hash).unwrap();
    // The devnet's receipts lack the data fee, so the whole reservation counts: twice a thousandth of a native token
    // at about 3,400 dollars for each transaction, plus gas.
    assert!(record.gas >= "6".parse().unwrap(), "{}", record.gas);
    fixture.clear().await;
}

/// Session keys that are revoked in the middle of a plan sign no order.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_account_signs_no_order() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::Honest).await;
    let world = &fixture.world;
    let (account, revocation) = RevocableAccount::new(world.wallet.clone());
    let (acting, _phase) = acting(world, world.pipeline.clone(), ApprovalMode::Never);
    let acting = WriteAccess { account: Arc::new(account), ..acting };
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let around = seen(world).with_orders(Some(fixture.orders.clone()));
    let executor = executor(catalog, around, world.fabric(), None, Some(acting));
    // The keys are revoked once the allowance for the order is signed.
    *world.wallet.on_sign.lock().unwrap() =
        Hook::new(move || _ = revocation.revoke(RevocationCause::Death)).into_inner().unwrap();
    let call = ToolCall::new("uniswap_submit_uniswapx_order", ToolInput::Json(order("40", 60)));
    let response = executor.call(call).await;
    let json = serde_json::to_string(&response).unwrap();
    assert!(json.contains("its keys are revoked"), "{json}");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 1, "only the allowance is signed");
    assert_eq!(fixture.service.submitted.lock().unwrap().len(), 0);
    *world.wallet.on_sign.lock().unwrap() = None;
    fixture.clear().await;
}

/// The account's signatures determine the amounts of open orders, not the ledger's rows. A row with another signature
/// or address, or one that cannot be read, counts as no order and blocks nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_the_accounts_signature_reserves_no_allowance() {
    const RESTORE: &str = "UPDATE safety_order
         SET (signature, facts, account, permit2) = (SELECT signature, facts, account, permit2 FROM kept) WHERE hash = ?1";
    let fixture = Fixture::new(9, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let hash = fixture.place(order("30", 60)).await;
    let database = rusqlite::Connection::open(fixture.world.store.path()).unwrap();
    database.execute_batch("CREATE TABLE kept AS SELECT * FROM safety_order").unwrap();
    for change in [
        "UPDATE safety_order SET signature = CAST(x'1111' || substr(signature, 3) AS BLOB) WHERE hash = ?1",
        "UPDATE safety_order SET facts = 'nonsense' WHERE hash = ?1",
        "UPDATE safety_order SET account = 'nonsense' WHERE hash = ?1",
        "UPDATE safety_order SET permit2 = '0x1111111111111111111111111111111111111111' WHERE hash = ?1",
    ] {
        assert_eq!(fixture.promised_after(RESTORE, hash), U256::from(30_000_000));
        assert_eq!(fixture.promised_after(change, hash), U256::ZERO, "{change}");
    }
    assert_eq!(fixture.promised_after(RESTORE, hash), U256::from(30_000_000));
    fixture.clear().await;
}

/// By hand: 40 USDC at 0.0005 WETH each are 0.02 WETH, and the market pays about 40 / 3,400 = 0.0118.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_order_has_one_price_waits_for_it_and_is_cancelled_like_any_other() {
    let fixture = Fixture::new(6, OrderKind::DutchV2, ServiceBehavior::Honest).await;
    let limit = |price: &str, seconds: u64| {
        json!({"token_in": "USDC", "token_out": "WETH", "amount": "40", "limit_price": price, "chain": "ethereum",
            "expires_in": seconds})
    };
    for (price, seconds, why) in [
        ("0.0002", 600, "use uniswap_execute_swap"),
        ("0", 600, "above zero"),
        ("0.0005", 59, "expected 60 to"),
        ("0.0005", 2_592_001, "expected 60 to"),
    ] {
        let response = fixture.call("uniswap_place_limit_order", limit(price, seconds)).await;
        let error = response.error.expect(why);
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{price}: {error}");
        assert!(error.message().contains(why), "{price}: {error}");
    }
    let response = fixture.call("uniswap_place_limit_order", limit("0.0005", 600)).await;
    assert_eq!(response.status, CallStatus::Partial, "{response:#?}");
    let data = response.data.unwrap();
    assert_eq!(data["least_out"], "0.02", "{data}");
    let distance: f64 = data["distance_pct"].as_str().unwrap().parse().unwrap();
    assert!((60.0..80.0).contains(&distance), "{data}");
    let hash: B256 = data["order_hash"].as_str().unwrap().parse().unwrap();
    let record = fixture.orders.record(hash).unwrap();
    let least = signed(&record).bounds().least_out;
    assert_eq!(least.iter().map(|out| out.amount).collect::<Vec<_>>(), [U256::from(20_000_000_000_000_000_u64)]);
    let UniswapXOrder::DutchV2(order) = signed(&record) else { panic!("{record:?}") };
    assert!(order.baseOutputs.iter().all(|out| out.startAmount == out.endAmount), "its price does not fall");
    // Nobody fills it at this price, however long it waits.
    for _ in 0..6 {
        devnet().devnet.mine().await.unwrap();
    }
    assert!(fixture.orders.poll(hash).await.unwrap().is_live());
    let portfolio = fixture.call("get_portfolio", json!({"chain": "ethereum"})).await.data.unwrap();
    let row = &portfolio["open_orders"][0];
    assert_eq!((&row["order_hash"], &row["least_out"]), (&json!(hash.to_string()), &json!("0.02")), "{portfolio:#}");
    let seen: f64 = row["distance_pct"].as_str().unwrap().parse().unwrap();
    assert!((seen - distance).abs() < 5.0, "{seen} {distance}");
    let response = fixture.call("uniswapx_cancel_order", json!({"order_hash": hash.to_string()})).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    assert_eq!(fixture.end(hash).await.status.as_str(), "cancelled");
}
