//! Signed orders that others settle, from their signature to the end that the chain says: handed to a service once,
//! looked at on the chain until nothing can come of them any more, told to whoever watches. What a service says is
//! shown and never believed.
//!
//! | file | holds |
//! |---|---|
//! | here | who takes orders, submitting, the round of looking, the end |
//! | `record` | orders in the database |
//! | `auction` | what the chain says of a UniswapX order, and its card |
//! | `bridge` | what two chains say of a bridge order, and its card |
//! | `depth` | the block by which an end is told |
//! | `reach` | when a falling price reaches a bid |
//! | `ending` | how an end is said and put on the audit trail |
//! | `handing_in` | each signature to its service, once; and withdrawing what nobody has seen |
//! | `state` | where an order stands, auction or bridge |
//!
//! Not here: what may be signed (see `pipeline`), and the services themselves.

mod auction;
mod bridge;
mod brought;
mod depth;
mod ending;
mod handing_in;
mod reach;
pub mod record;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;

use crate::permit;
use crate::rulebook::{End, ReserveError, Rulebook};
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
use golem_protocols::intents::gateway::IntentGateway;
use golem_protocols::uniswap::gateway::{Hearsay, OrderGateway};
use golem_protocols::uniswap::order::OrderKind;

pub use record::{Record, Stage};
pub use state::OrderState;

/// How often live orders are looked at.
const ROUND: Duration = Duration::from_millis(500);
/// How long an action waits for orders whose time is over to be read.
const SETTLES: Duration = Duration::from_secs(3);

/// A chain on which orders are signed.
#[derive(Debug, Clone)]
pub struct OrderChain {
    /// The way to it.
    pub client: ChainClient,
    /// Which kind of auction is used there.
    pub kind: OrderKind,
    /// Who takes UniswapX orders.
    pub auctions: Option<Arc<dyn OrderGateway>>,
    /// Who fills bridge orders that leave from there.
    pub bridges: Option<Arc<dyn IntentGateway>>,
    /// How many blocks, its own included, must lie on an end before it counts; nothing where the chain's kind says it.
    pub confirmations: Option<u64>,
}

/// What following orders takes.
#[derive(Debug)]
pub struct OrdersConfig {
    /// The chains.
    pub chains: Vec<OrderChain>,
    /// The ledger's database.
    pub store: Store,
    /// The operator's rules, which settle what was held.
    pub rules: Arc<dyn Rulebook>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where it says what happens.
    pub fabric: Fabric,
}

/// Signed orders and who settles them. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Orders {
    inner: Arc<Inner>,
}

struct Inner {
    chains: Vec<OrderChain>,
    store: Store,
    rules: Arc<dyn Rulebook>,
    clock: Arc<dyn Clock>,
    fabric: Fabric,
    /// One look at a time at each order: of two at once the later would find told what the earlier has not written yet,
    /// and the one that saw less might write last.
    looking: Mutex<BTreeMap<B256, Arc<tokio::sync::Mutex<()>>>>,
    /// What was told last of each order, so that nothing is told twice.
    told: Mutex<BTreeMap<B256, String>>,
    /// What its service said last of each order, and when that was, in milliseconds since the Unix epoch.
    heard: Mutex<BTreeMap<B256, (u64, Heard)>>,
}

/// What a service says of an order.
type Heard = Result<Option<Hearsay>, ServiceError>;

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").field("chains", &self.inner.chains).finish_non_exhaustive()
    }
}

/// Why an order could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger refused.
    #[error(transparent)]
    Ledger(#[from] ReserveError),
    /// A chain did not answer.
    #[error("the chain did not answer: {0}")]
    Chain(#[from] ProviderError),
    /// A chain answered what cannot be.
    #[error("{0}")]
    Nonsense(String),
    /// There is no such order here.
    #[error("order {0} was not signed here, or not in this data folder")]
    Unknown(B256),
    /// Its chain is not connected.
    #[error("chain {0} is not connected")]
    NoChain(u64),
}

impl From<OrderError> for ToolError {
    fn from(error: OrderError) -> Self {
        let code = match &error {
            OrderError::Store(_) | OrderError::Ledger(_) => ErrorCode::StoreUnavailable,
            OrderError::Chain(_) => ErrorCode::ChainUnreachable,
            OrderError::Nonsense(_) => ErrorCode::ChainInconsistent,
            OrderError::Unknown(_) => ErrorCode::ValidationFailed,
            OrderError::NoChain(_) => ErrorCode::ChainUnknown,
        };
        Self::new(code, error)
    }
}

/// What was seen of an order.
pub(super) struct Seen {
    card: Card,
    /// How it has ended; nothing while it can still take something.
    end: Option<Ending>,
}

/// What is told of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Card {
    /// Of an auction.
    Order(Box<OrderUpdate>),
    /// Of a bridge.
    Intent(Box<IntentUpdate>),
}

impl Card {
    /// Where the order stands.
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

/// How an order has ended, for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It took what it could.
    Took,
    /// It took nothing, and never will.
    TookNothing,
    /// Nobody has seen it, and nobody will: if that still holds when it is written down.
    Withdrawn,
}

impl Orders {
    /// Orders on these chains.
    pub fn new(config: OrdersConfig) -> Self {
        let OrdersConfig { chains, store, rules, clock, fabric } = config;
        Self {
            inner: Arc::new(Inner {
                chains,
                store,
                rules,
                clock,
                fabric,
                looking: Mutex::default(),
                told: Mutex::default(),
                heard: Mutex::default(),
            }),
        }
    }

    /// The chain with this id.
    ///
    /// # Errors
    /// [`OrderError::NoChain`].
    pub fn chain(&self, chain_id: u64) -> Result<&OrderChain, OrderError> {
        let found = self.inner.chains.iter().find(|chain| chain.client.chain_id() == chain_id);
        found.ok_or(OrderError::NoChain(chain_id))
    }

    /// Whether somebody is connected who takes such an order.
    pub fn takes(&self, chain_id: u64, message: &TypedMessage) -> bool {
        let Ok(chain) = self.chain(chain_id) else { return false };
        match message {
            TypedMessage::UniswapxOrder { .. } => chain.auctions.is_some(),
            TypedMessage::CrossChainOrder { .. } => chain.bridges.is_some(),
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => false,
        }
    }

    /// The order as it is kept.
    ///
    /// # Errors
    /// [`OrderError::Unknown`] or the database's failure.
    pub fn record(&self, hash: B256) -> Result<Record, OrderError> {
        self.inner.store.read(|connection| record::find(connection, hash))?.ok_or(OrderError::Unknown(hash))
    }

    /// Every order that was signed under this ledger, the oldest first.
    ///
    /// # Errors
    /// The database's failure.
    pub fn every(&self) -> Result<Vec<Record>, OrderError> {
        Ok(self.inner.store.read(record::every)?)
    }

    /// Every order that can still take something.
    ///
    /// # Errors
    /// The database's failure.
    pub fn live(&self) -> Result<Vec<Record>, OrderError> {
        Ok(self.inner.store.read(record::live)?)
    }

    /// What signed orders of an account may still take of a token, in raw units.
    ///
    /// # Errors
    /// The database's failure.
    pub fn promised(&self, chain_id: u64, account: Address, token: Address) -> Result<U256, OrderError> {
        let promised = self.inner.store.read(|connection| record::promised(connection, chain_id, account))?;
        Ok(promised.get(&token).copied().unwrap_or_default())
    }

    /// Looks at one order on the chain and at its service, writes down and tells what has changed.
    ///
    /// # Errors
    /// [`OrderError`]; then nothing is known that was not known before.
    pub async fn look(&self, hash: B256) -> Result<Record, OrderError> {
        self.look_with(hash, "").await
    }

    /// The turn to look at an order. Whoever holds it looks and writes down before anybody else does.
    async fn turn(&self, hash: B256) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.inner.looking.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(hash).or_default())
        };
        turn.lock_owned().await
    }

    async fn look_with(&self, hash: B256, remark: &str) -> Result<Record, OrderError> {
        let _turn = self.turn(hash).await;
        let record = self.record(hash)?;
        if !record.is_live() || record.stage == Stage::Reserved {
            return Ok(record);
        }
        let seen = self.seen(&record, remark).await?;
        self.write_down(&record, seen).await?;
        self.record(hash)
    }

    /// What the service says of an order: anew, if it has not been asked for a while. Of one that the chain has ended it
    /// is asked until it has said what its cosigner did.
    async fn hearsay(&self, service: &dyn OrderGateway, hash: B256, ended: bool) -> Heard {
        let now = self.inner.clock.now_millis();
        let pause = u64::try_from(service.pause().as_millis()).unwrap_or(u64::MAX);
        let lock = || self.inner.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&hash).cloned();
        if let Some((at, said)) = known {
            let lacks = ended && !matches!(&said, Ok(Some(said)) if said.cosigned.is_some());
            if now < at.saturating_add(pause) && !lacks {
                return said;
            }
        }
        let said = service.look(hash).await;
        let mut heard = lock();
        // Of what has ended nobody asks again.
        heard.retain(|other, (at, _)| *other != hash && now < at.saturating_add(pause));
        if pause > 0 {
            heard.insert(hash, (now, said.clone()));
        }
        said
    }

    async fn seen(&self, record: &Record, remark: &str) -> Result<Seen, OrderError> {
        match &record.message {
            TypedMessage::UniswapxOrder { order, .. } => self.auction(record, order, remark).await,
            TypedMessage::CrossChainOrder { intent, .. } => self.bridge(record, intent, remark).await,
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => {
                Err(OrderError::Nonsense("what is kept as an order is none".to_owned()))
            }
        }
    }

    async fn write_down(&self, record: &Record, seen: Seen) -> Result<(), OrderError> {
        failpoint::reach(Failpoint::OrderLooked);
        let Seen { card, end } = seen;
        let (hash, status, json) = (record.hash, card.status(), card.json()?);
        {
            let mut told = self.inner.told.lock().unwrap_or_else(PoisonError::into_inner);
            if end.is_none() && told.get(&hash) == Some(&json) {
                return Ok(());
            }
            if end.is_some() {
                told.remove(&hash);
            } else {
                told.insert(hash, json.clone());
            }
        }
        let now = self.inner.clock.now_millis();
        let (rules, kept, shown) = (Arc::clone(&self.inner.rules), record.clone(), card.clone());
        let first = self
            .inner
            .store
            .write(move |transaction| -> Result<bool, ReserveError> {
                if let Some(end) = end {
                    let ended = match end {
                        Ending::Took | Ending::TookNothing => record::end(transaction, hash, status, now)?,
                        Ending::Withdrawn => record::withdraw(transaction, hash, status, now)?,
                    };
                    if !ended {
                        return Ok(false);
                    }
                    // Only what has arrived for certain is no loss: what its settler has paid on for nothing is one.
                    let moved = match ending::has_arrived(&shown, end) {
                        true => rules.arrived(transaction, now, kept.reservation)?,
                        false => None,
                    };
                    ending::record(transaction, now, &kept, &shown, (end, moved))?;
                    let (end, word) = match end {
                        Ending::Took => (End::Done { spent: kept.spent }, "done"),
                        Ending::TookNothing | Ending::Withdrawn if kept.gas == Usd::ZERO => {
                            (End::Withdrawn, "withdrawn")
                        }
                        Ending::TookNothing | Ending::Withdrawn => (End::Partly { spent: kept.gas }, "done"),
                    };
                    rules.settle(transaction, now, kept.reservation, end)?;
                    permit::note_end(transaction, kept.permit_id, word)?;
                }
                record::note_card(transaction, hash, status, &json, now)?;
                if end.is_some() {
                    failpoint::reach(Failpoint::OrderInsideEnd);
                }
                Ok(true)
            })
            .await?;
        if end.is_some() {
            failpoint::reach(Failpoint::OrderEnded);
        }
        if first {
            self.inner.fabric.emit(&record.golem_id, Some(record.call_id), card.event());
            if end.is_some() {
                self.inner.fabric.emit(&record.golem_id, Some(record.call_id), ending::event(record, &card));
            }
        }
        Ok(())
    }

    /// Looks at everything that is live once, and hands in before what was signed and not handed in yet.
    ///
    /// # Errors
    /// The database's failure; what a chain or a service does not answer is looked at again in the next round.
    pub async fn round(&self) -> Result<usize, OrderError> {
        self.hand_in_stored().await?;
        self.look_at_all().await
    }

    async fn look_at_all(&self) -> Result<usize, OrderError> {
        self.look_at_live(|_| true).await
    }

    /// Looks at the live orders of an account that were made on a chain, and hands nothing in.
    ///
    /// # Errors
    /// The database's failure.
    pub(crate) async fn look_at_those_of(&self, chain_id: u64, account: Address) -> Result<usize, OrderError> {
        self.look_at_live(|record| record.chain_id == chain_id && record.account == account).await
    }

    /// Reads how those orders of an account have ended whose time is over. What they hold and what they block ends only
    /// once that is on record, and a process that lives for one call follows no orders. What cannot be read in a few
    /// seconds stays as it is.
    pub async fn settle_expired(&self, account: Address) {
        let orders = self.clone();
        // On a task of its own: what is found is written down to its end.
        let settling = tokio::spawn(async move {
            let live = orders.live()?;
            for record in live.iter().filter(|record| record.account == account) {
                if orders.time_on(record.chain_id).await > record.usable_until() {
                    orders.look(record.hash).await?;
                }
            }
            Ok::<_, OrderError>(())
        });
        match tokio::time::timeout(SETTLES, settling).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "an order whose time is over could not be read"),
            Ok(Err(_)) | Err(_) => tracing::warn!("an order whose time is over could not be read in time"),
        }
    }

    /// Time of a chain in seconds: of its latest block, or of this machine where that is later.
    async fn time_on(&self, chain_id: u64) -> u64 {
        let machine = self.inner.clock.now_millis() / 1_000;
        let Ok(chain) = self.chain(chain_id) else { return machine };
        let head = chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
        head.ok().flatten().map_or(machine, |head| head.header.timestamp.max(machine))
    }

    async fn look_at_live(&self, wanted: impl Fn(&Record) -> bool) -> Result<usize, OrderError> {
        let live: Vec<_> = self.live()?.into_iter().filter(|record| wanted(record)).collect();
        for record in &live {
            if let Err(error) = self.look(record.hash).await {
                tracing::warn!(order = %record.hash, %error, "an order could not be looked at");
            }
        }
        Ok(live.len())
    }

    /// Follows every live order until all clones of this are gone. Whoever only looks, or rehearses, hands nothing in:
    /// `hands_in` is asked in each round. Must be called on a tokio runtime.
    pub fn follow(&self, hands_in: impl Fn() -> bool + Send + 'static) {
        let inner: Weak<Inner> = Arc::downgrade(&self.inner);
        let clock = Arc::clone(&self.inner.clock);
        let attendance = clock.attend();
        tokio::spawn(async move {
            let _attendance = attendance;
            loop {
                clock.pause(ROUND).await;
                let Some(inner) = inner.upgrade() else { return };
                let orders = Self { inner };
                let round = if hands_in() { orders.round().await } else { orders.look_at_all().await };
                if let Err(error) = round {
                    tracing::warn!(%error, "orders cannot be followed");
                }
            }
        });
    }

    /// Waits until an order has ended, or `patience` is over; between looks `nudge` may make a block.
    ///
    /// # Errors
    /// [`OrderError`] of the last look.
    pub async fn wait<Nudged>(
        &self,
        hash: B256,
        patience: Duration,
        mut nudge: impl FnMut() -> Nudged,
    ) -> Result<Record, OrderError>
    where
        Nudged: Future<Output = ()>,
    {
        let until = tokio::time::Instant::now() + patience;
        loop {
            let record = self.look(hash).await?;
            let rests = !record.is_live() || record.status.has_expired();
            if rests || tokio::time::Instant::now() >= until {
                return Ok(record);
            }
            nudge().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn network(&self, chain_id: u64) -> Option<&Network> {
        self.chain(chain_id).ok().map(|chain| chain.client.network())
    }
}

/// Text for a card, cleaned.
fn line(text: impl fmt::Display) -> SafeText {
    SafeText::clean(&text.to_string(), 300)
}
