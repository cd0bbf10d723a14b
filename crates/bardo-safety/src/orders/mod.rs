//! Signed orders that fillers and relayers settle, from the signature to the end that the chain confirms. Each order is
//! submitted to a service once and polled on the chain until it can take no more tokens. Every change is published as
//! an event. The service's answers are shown, but never trusted.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | chains and services, polling of open orders, storage of their end |
//! | `record` | orders in the database |
//! | `auction` | on-chain state of a UniswapX order, and its card |
//! | `bridge` | state of a bridge order on both chains, and its card |
//! | `depth` | the block with enough confirmations, at which an end is read |
//! | `price_time` | time at which a falling price reaches a bid |
//! | `order_end` | comparison with the expected outcome, and the audit log |
//! | `submission` | submission of each order, once, and withdrawal of unseen orders |
//! | `fill_amounts` | amounts that a fill brought for one order of several |
//! | `state` | status of an order, auction or bridge |
//!
//! Not here: the decision to sign (see `pipeline`), and the services themselves.

mod auction;
mod bridge;
pub(crate) mod depth;
mod fill_amounts;
mod order_end;
mod price_time;
pub mod record;
mod state;
mod submission;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use parking_lot::Mutex;

use crate::permit;
use crate::policy_engine::{ActionEnd, PolicyEngine, ReserveError};
use crate::typed::TypedMessage;
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, Fabric, IntentUpdate, OrderUpdate};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::{Store, StoreError};
use golem_chain::network::Network;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::sender::{self, RecordError};
use golem_protocols::across::quote::FeeGateway;
use golem_protocols::intents::gateway::IntentGateway;
use golem_protocols::uniswap::gateway::{OrderGateway, ServiceReport};
use golem_protocols::uniswap::order::OrderKind;

pub use record::{OrderRecord, OrderStage};
pub use state::OrderState;

/// Interval between polls of the open orders.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout for polling expired orders before an action.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(3);

/// A chain on which orders are signed, with its services.
#[derive(Debug, Clone)]
pub struct OrderChain {
    /// Client for the chain's endpoints.
    pub client: ChainClient,
    /// Type of UniswapX order in use on the chain.
    pub kind: OrderKind,
    /// Service that accepts UniswapX orders; `None` if there is none.
    pub auctions: Option<Arc<dyn OrderGateway>>,
    /// Service that accepts bridge orders from this chain; `None` if there is none.
    pub bridges: Option<Arc<dyn IntentGateway>>,
    /// Service that quotes deposits with the bridge Across from this chain; `None` if there is none.
    pub deposits: Option<Arc<dyn FeeGateway>>,
    /// Confirmations before an end counts, including the block of the end itself; `None` for the network's default.
    pub confirmations: Option<u64>,
}

/// Configuration of [`Orders`].
#[derive(Debug)]
pub struct OrdersConfig {
    /// Chains on which orders may be signed.
    pub chains: Vec<OrderChain>,
    /// Store with the ledger's database.
    pub store: Store,
    /// Policy engine that settles reservations.
    pub rules: Arc<dyn PolicyEngine>,
    /// Clock for timestamps and pauses.
    pub clock: Arc<dyn Clock>,
    /// Event fabric for the updates.
    pub fabric: Fabric,
}

/// Signed orders and their services. Clones share the same state.
#[derive(Clone)]
pub struct Orders {
    inner: Arc<Inner>,
}

struct Inner {
    chains: Vec<OrderChain>,
    store: Store,
    rules: Arc<dyn PolicyEngine>,
    clock: Arc<dyn Clock>,
    fabric: Fabric,
    /// Lock per order, so that only one poll runs at a time. Otherwise a poll with an older view could overwrite a
    /// newer one, or treat an update as published that is not stored yet.
    polling: Mutex<BTreeMap<B256, Arc<tokio::sync::Mutex<()>>>>,
    /// Last published card of each order as JSON, to avoid repeated events.
    reported: Mutex<BTreeMap<B256, String>>,
    /// Last answer of the service for each order, with its time in milliseconds since the Unix epoch.
    service_answers: Mutex<BTreeMap<B256, (u64, ServiceAnswer)>>,
}

/// Answer of a service about an order.
type ServiceAnswer = Result<Option<ServiceReport>, ServiceError>;

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").field("chains", &self.inner.chains).finish_non_exhaustive()
    }
}

/// Reason for which an order could not be read or updated.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger rejected the update.
    #[error(transparent)]
    Ledger(#[from] ReserveError),
    /// The record of sent transactions could not be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A chain did not answer.
    #[error("the chain did not respond: {0}")]
    Chain(#[from] ProviderError),
    /// A chain or contract returned an invalid answer, or a stored order is invalid.
    #[error("{0}")]
    InvalidAnswer(String),
    /// No order with this hash exists in this ledger.
    #[error("order {0} was not signed here, or not in this data folder")]
    Unknown(B256),
    /// The order's chain is not connected.
    #[error("chain {0} is not connected")]
    NoChain(u64),
}

impl From<OrderError> for ToolError {
    fn from(error: OrderError) -> Self {
        let code = match &error {
            OrderError::Chain(cause) => return cause.clone().into(),
            OrderError::Store(_) | OrderError::Ledger(_) | OrderError::Record(_) => ErrorCode::StoreUnavailable,
            OrderError::InvalidAnswer(_) => ErrorCode::ChainInconsistent,
            OrderError::Unknown(_) => ErrorCode::ValidationFailed,
            OrderError::NoChain(_) => ErrorCode::ChainUnknown,
        };
        Self::new(code, error)
    }
}

/// Result of one poll.
pub(super) struct PollResult {
    card: CardState,
    /// End of the order; `None` while it may still take tokens.
    end: Option<OrderEnd>,
}

/// Displayed state of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum CardState {
    /// State of an auction order.
    Order(Box<OrderUpdate>),
    /// State of a bridge order.
    Intent(Box<IntentUpdate>),
}

impl CardState {
    /// Returns the order's status.
    pub fn status(&self) -> OrderState {
        match self {
            Self::Order(update) => OrderState::Auction(update.status),
            Self::Intent(update) => OrderState::Bridge(update.status),
        }
    }

    fn json(&self) -> Result<String, StoreError> {
        match self {
            Self::Order(update) => serde_json::to_string(update),
            Self::Intent(update) => serde_json::to_string(update),
        }
        .map_err(|error| StoreError::Query(error.to_string()))
    }

    fn event(&self) -> EventKind {
        match self {
            Self::Order(update) => EventKind::OrderUpdate(update.clone()),
            Self::Intent(update) => EventKind::IntentUpdate(update.clone()),
        }
    }
}

/// End of an order, as the ledger counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderEnd {
    /// The order was filled, or counts as filled because its end is unknown.
    Filled,
    /// The order took no tokens and never can.
    Unfilled,
    /// The order is withdrawn. Applies only if no service has seen it when the end is stored.
    Withdrawn,
}

impl Orders {
    /// Creates the order tracking for the configured chains.
    pub fn new(config: OrdersConfig) -> Self {
        let OrdersConfig { chains, store, rules, clock, fabric } = config;
        Self {
            inner: Arc::new(Inner {
                chains,
                store,
                rules,
                clock,
                fabric,
                polling: Mutex::default(),
                reported: Mutex::default(),
                service_answers: Mutex::default(),
            }),
        }
    }

    /// Returns the chain with this id.
    ///
    /// # Errors
    /// [`OrderError::NoChain`] if it is not connected.
    pub fn chain(&self, chain_id: u64) -> Result<&OrderChain, OrderError> {
        let chain = self.inner.chains.iter().find(|chain| chain.client.chain_id() == chain_id);
        chain.ok_or(OrderError::NoChain(chain_id))
    }

    /// Returns true if a service for this type of order is connected on the chain.
    pub fn accepts(&self, chain_id: u64, message: &TypedMessage) -> bool {
        let Ok(chain) = self.chain(chain_id) else { return false };
        match message {
            TypedMessage::UniswapxOrder { .. } => chain.auctions.is_some(),
            TypedMessage::CrossChainOrder { .. } => chain.bridges.is_some(),
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => false,
        }
    }

    /// Returns the stored order.
    ///
    /// # Errors
    /// [`OrderError::Unknown`] if there is none, or the database's failure.
    pub fn record(&self, hash: B256) -> Result<OrderRecord, OrderError> {
        self.inner.store.read(|connection| record::find(connection, hash))?.ok_or(OrderError::Unknown(hash))
    }

    /// Returns every order in this ledger, the oldest first.
    ///
    /// # Errors
    /// The database's failure.
    pub fn every(&self) -> Result<Vec<OrderRecord>, OrderError> {
        Ok(self.inner.store.read(record::every)?)
    }

    /// Returns every signed order that has not ended.
    ///
    /// # Errors
    /// The database's failure.
    pub fn live(&self) -> Result<Vec<OrderRecord>, OrderError> {
        Ok(self.inner.store.read(record::live)?)
    }

    /// Returns the transactions of this ledger in blocks of a chain that were signed since a time, in milliseconds since the
    /// Unix epoch, and whose bytes contain an address; see [`sender::included_with`].
    ///
    /// # Errors
    /// The database's failure.
    pub fn transactions_with(&self, chain_id: u64, address: Address, since: u64) -> Result<Vec<B256>, OrderError> {
        Ok(self.inner.store.read(|connection| sender::included_with(connection, chain_id, address, since))?)
    }

    /// Returns the amount of a token that signed orders of an account may still take, in raw units.
    ///
    /// # Errors
    /// The database's failure.
    pub fn promised(&self, chain_id: u64, account: Address, token: Address) -> Result<U256, OrderError> {
        let promised = self.inner.store.read(|connection| record::promised(connection, chain_id, account))?;
        Ok(promised.get(&token).copied().unwrap_or_default())
    }

    /// Polls one order on its chain and at its service, and stores and publishes changes.
    ///
    /// # Errors
    /// [`OrderError`] if the poll fails; the stored state is unchanged then.
    pub async fn poll(&self, hash: B256) -> Result<OrderRecord, OrderError> {
        self.poll_order(hash, "").await
    }

    /// Locks an order for polling. The holder reads and stores before the next poll starts.
    async fn lock_order(&self, hash: B256) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.inner.polling.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(hash).or_default())
        };
        lock.lock_owned().await
    }

    async fn poll_order(&self, hash: B256, remark: &str) -> Result<OrderRecord, OrderError> {
        let _lock = self.lock_order(hash).await;
        let record = self.record(hash)?;
        if !record.is_live() || record.stage == OrderStage::Reserved {
            return Ok(record);
        }
        let result = self.read_state(&record, remark).await?;
        self.store_result(&record, result).await?;
        self.record(hash)
    }

    /// Returns the service's answer about an order. A cached answer is used within the service's poll interval, except
    /// for an order that was filled on chain: it is requested until the answer includes the cosigner's data.
    async fn service_answer(&self, service: &dyn OrderGateway, hash: B256, filled: bool) -> ServiceAnswer {
        let now = self.inner.clock.now_millis();
        let interval = u64::try_from(service.poll_interval().as_millis()).unwrap_or(u64::MAX);
        let lock = || self.inner.service_answers.lock();
        let cached = lock().get(&hash).cloned();
        if let Some((at, report)) = cached {
            let lacks_cosigned = filled && !matches!(&report, Ok(Some(report)) if report.cosigned.is_some());
            if now < at.saturating_add(interval) && !lacks_cosigned {
                return report;
            }
        }
        let report = service.order_report(hash).await;
        let mut service_answers = lock();
        // Drops outdated entries, including those of ended orders.
        service_answers.retain(|other, (at, _)| *other != hash && now < at.saturating_add(interval));
        if interval > 0 {
            service_answers.insert(hash, (now, report.clone()));
        }
        report
    }

    async fn read_state(&self, record: &OrderRecord, remark: &str) -> Result<PollResult, OrderError> {
        match &record.message {
            TypedMessage::UniswapxOrder { order, .. } => self.auction(record, order, remark).await,
            TypedMessage::CrossChainOrder { intent, .. } => self.bridge(record, intent, remark).await,
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => {
                Err(OrderError::InvalidAnswer("a stored order is invalid".to_owned()))
            }
        }
    }

    async fn store_result(&self, record: &OrderRecord, result: PollResult) -> Result<(), OrderError> {
        failpoint::reach(Failpoint::OrderPolled);
        let PollResult { card, end } = result;
        let (hash, status, json) = (record.hash, card.status(), card.json()?);
        {
            let mut reported = self.inner.reported.lock();
            if end.is_none() && reported.get(&hash) == Some(&json) {
                return Ok(());
            }
            if end.is_some() {
                reported.remove(&hash);
            } else {
                reported.insert(hash, json.clone());
            }
        }
        let now = self.inner.clock.now_millis();
        let (rules, order, stored_card) = (Arc::clone(&self.inner.rules), record.clone(), card.clone());
        let is_stored = self
            .inner
            .store
            .write(move |transaction| -> Result<bool, ReserveError> {
                if let Some(end) = end {
                    let ended = match end {
                        OrderEnd::Filled | OrderEnd::Unfilled => record::end(transaction, hash, status, now)?,
                        OrderEnd::Withdrawn => record::withdraw(transaction, hash, status, now)?,
                    };
                    if !ended {
                        return Ok(false);
                    }
                    // Only a confirmed arrival moves the stop-loss's high-water mark. If the filler was repaid without
                    // a delivery, the amount is lost.
                    let mark_change = match order_end::has_arrived(&stored_card, end) {
                        true => rules.arrived(transaction, now, order.reservation)?,
                        false => None,
                    };
                    order_end::record(transaction, now, &order, &stored_card, (end, mark_change))?;
                    let (action_end, permit_end) = match end {
                        OrderEnd::Filled => (ActionEnd::Done { spent: order.spent }, "done"),
                        OrderEnd::Unfilled | OrderEnd::Withdrawn if order.gas == Usd::ZERO => {
                            (ActionEnd::Withdrawn, "withdrawn")
                        }
                        OrderEnd::Unfilled | OrderEnd::Withdrawn => (ActionEnd::Partly { spent: order.gas }, "done"),
                    };
                    rules.settle(transaction, now, order.reservation, action_end)?;
                    permit::note_end(transaction, order.permit_id, permit_end)?;
                }
                record::store_card(transaction, hash, status, &json, now)?;
                if end.is_some() {
                    failpoint::reach(Failpoint::OrderInsideEnd);
                }
                Ok(true)
            })
            .await?;
        if end.is_some() {
            failpoint::reach(Failpoint::OrderEnded);
        }
        if is_stored {
            self.inner.fabric.emit(&record.golem_id, Some(record.call_id), card.event());
            if end.is_some() {
                self.inner.fabric.emit(&record.golem_id, Some(record.call_id), order_end::event(record, &card));
            }
        }
        Ok(())
    }

    /// Submits stored orders and then polls every open order once. Returns the number of open orders.
    ///
    /// # Errors
    /// The database's failure. Other failures are logged, and the next round tries again.
    pub async fn round(&self) -> Result<usize, OrderError> {
        self.submit_stored().await?;
        self.poll_all().await
    }

    async fn poll_all(&self) -> Result<usize, OrderError> {
        self.poll_live(|_| true).await
    }

    /// Polls the open orders of an account on a chain, without submitting any. Returns their number.
    ///
    /// # Errors
    /// The database's failure.
    pub(crate) async fn poll_account(&self, chain_id: u64, account: Address) -> Result<usize, OrderError> {
        self.poll_live(|record| record.chain_id == chain_id && record.account == account).await
    }

    /// Polls an account's expired orders, so that their reservations are released before an action. A process that runs
    /// a single call needs this, since it does not follow orders. Orders that cannot be read within `SETTLE_TIMEOUT`
    /// stay unchanged.
    pub async fn settle_expired(&self, account: Address) {
        let orders = self.clone();
        // A separate task, so that the timeout does not interrupt a write.
        let settling = tokio::spawn(async move {
            let live = orders.live()?;
            for record in live.iter().filter(|record| record.account == account) {
                if orders.chain_time(record.chain_id).await > record.usable_until() {
                    orders.poll(record.hash).await?;
                }
            }
            Ok::<_, OrderError>(())
        });
        match tokio::time::timeout(SETTLE_TIMEOUT, settling).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "an expired order could not be read"),
            Ok(Err(_)) | Err(_) => tracing::warn!("an expired order could not be read in time"),
        }
    }

    /// Returns the chain's time in seconds: the latest block's timestamp or the machine's clock, whichever is later.
    async fn chain_time(&self, chain_id: u64) -> u64 {
        let machine = self.inner.clock.now_millis() / 1_000;
        let Ok(chain) = self.chain(chain_id) else { return machine };
        let head = chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
        head.ok().flatten().map_or(machine, |head| head.header.timestamp.max(machine))
    }

    async fn poll_live(&self, is_selected: impl Fn(&OrderRecord) -> bool) -> Result<usize, OrderError> {
        let live: Vec<_> = self.live()?.into_iter().filter(|record| is_selected(record)).collect();
        for record in &live {
            if let Err(error) = self.poll(record.hash).await {
                tracing::warn!(order = %record.hash, %error, "an order could not be read");
            }
        }
        Ok(live.len())
    }

    /// Follows every open order until all clones are dropped. Each round calls `may_submit` and submits stored orders
    /// only if it returns true. Must be called on a tokio runtime.
    pub fn follow(&self, may_submit: impl Fn() -> bool + Send + 'static) {
        let inner: Weak<Inner> = Arc::downgrade(&self.inner);
        let clock = Arc::clone(&self.inner.clock);
        let participation = clock.attend();
        tokio::spawn(async move {
            let _participation = participation;
            loop {
                clock.pause(POLL_INTERVAL).await;
                let Some(inner) = inner.upgrade() else { return };
                let orders = Self { inner };
                let round = if may_submit() { orders.round().await } else { orders.poll_all().await };
                if let Err(error) = round {
                    tracing::warn!(%error, "orders cannot be tracked");
                }
            }
        });
    }

    /// Polls an order until it has ended or expired, or until `timeout` has elapsed. `between_polls` runs before each
    /// further poll and may produce a block.
    ///
    /// # Errors
    /// [`OrderError`] if a poll fails.
    pub async fn wait<Step>(
        &self,
        hash: B256,
        timeout: Duration,
        mut between_polls: impl FnMut() -> Step,
    ) -> Result<OrderRecord, OrderError>
    where
        Step: Future<Output = ()>,
    {
        let until = tokio::time::Instant::now() + timeout;
        loop {
            let record = self.poll(hash).await?;
            let is_done = !record.is_live() || record.status.has_expired();
            if is_done || tokio::time::Instant::now() >= until {
                return Ok(record);
            }
            between_polls().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn network(&self, chain_id: u64) -> Option<&Network> {
        self.chain(chain_id).ok().map(|chain| chain.client.network())
    }
}

/// Cleans text for a card: at most 300 characters.
fn card_text(text: impl fmt::Display) -> SafeText {
    SafeText::clean(&text.to_string(), 300)
}
