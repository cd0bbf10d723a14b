//! Everybody who lives on one chain, and what they have been told: acts once before each block is made.
//!
//! Not here: what each of them does (see `market`, `keeper`, `faucet`).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use alloy::primitives::{Address, B256};
use parking_lot::Mutex;

use super::cast::{Cast, Order, Role, send};
use super::error::SandboxError;
use super::faucet::{self, Gift};
use super::genesis::Deployment;
use super::keeper::{self, FeedFault};
use super::market::{self, Moment};
use super::order_service::OrderService;
use super::relayers::Relayers;
use super::target::{Asset, PriceE8, Prices, Shock, price_at};
use golem_chain::devnet::Chain;
use golem_protocols::uniswap::gateway::BestBid;

/// How many transactions of one inhabitant may wait before it holds back: then blocks are full, and more of the
/// same would only crowd others out.
const LARGEST_QUEUE: u64 = 3;

/// Whether the market trades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarketMode {
    /// It does.
    #[default]
    On,
    /// Nobody trades, and what things are worth stays as it was.
    Off,
}

/// What the inhabitants of one chain have been told.
#[derive(Debug, Default)]
struct Instructions {
    frozen_at: Option<(u64, u64)>,
    keeper_rests: bool,
    shocks: Vec<Shock>,
    silent_feeds: BTreeSet<Asset>,
    orders: Vec<Order>,
}

/// The inhabitants of one chain. A clone is the same people.
#[derive(Debug, Clone)]
pub struct Residents {
    seed: u64,
    /// When the market began, in seconds since the epoch.
    began: u64,
    deployment: Arc<Deployment>,
    cast: Cast,
    instructions: Arc<Mutex<Instructions>>,
    order_service: OrderService,
    relayers: Arc<OnceLock<Relayers>>,
}

impl Residents {
    /// The inhabitants of a furnished chain whose market began at `began`, in seconds since the epoch: market and keeper
    /// at work.
    pub fn new(seed: u64, began: u64, deployment: Arc<Deployment>, cast: Cast) -> Self {
        let order_service = OrderService::new(seed, Arc::clone(&deployment), cast.clone());
        Self { seed, began, deployment, cast, instructions: Arc::default(), order_service, relayers: Arc::default() }
    }

    /// The chain's order service.
    pub fn order_service(&self) -> &OrderService {
        &self.order_service
    }

    /// Lets relayers act here from now on; the first to come stay.
    pub fn join(&self, relayers: Relayers) {
        let _first = self.relayers.set(relayers);
    }

    /// The relayers who act here.
    pub fn relayers(&self) -> Option<&Relayers> {
        self.relayers.get()
    }

    /// What stands where.
    pub fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// The address of one of them.
    pub fn address(&self, role: Role) -> Address {
        self.cast.address(role)
    }

    /// Starts or stops the market, as of the chain's next block.
    pub fn set_market(&self, chain: &Chain, mode: MarketMode) {
        let next = chain.next_context();
        self.instructions.lock().frozen_at = match mode {
            MarketMode::On => None,
            MarketMode::Off => Some((next.timestamp, next.number)),
        };
    }

    /// Sends the keeper to rest, or back to work. Unlike [`silence`](Self::silence) it concerns all feeds.
    pub fn set_keeper_rests(&self, rests: bool) {
        self.instructions.lock().keeper_rests = rests;
    }

    /// Pushes prices.
    pub fn shock(&self, shock: Shock) {
        self.instructions.lock().shocks.push(shock);
    }

    /// Lets everything but the dollar coins fall by `parts_per_million` over `blocks` from the next block on, for good.
    pub fn crash(&self, chain: &Chain, parts_per_million: u32, blocks: u64) {
        let fall = i32::try_from(parts_per_million.min(990_000)).unwrap_or_default();
        self.shock(Shock {
            asset: None,
            parts_per_million: -fall,
            from_block: chain.next_context().number,
            blocks,
            passes: false,
        });
    }

    /// Lets everything but the dollar coins rise by `parts_per_million` over `blocks` from the next block on, and fall
    /// back over as many.
    pub fn spike(&self, chain: &Chain, parts_per_million: u32, blocks: u64) {
        self.shock(Shock {
            asset: None,
            parts_per_million: i32::try_from(parts_per_million).unwrap_or(i32::MAX),
            from_block: chain.next_context().number,
            blocks,
            passes: true,
        });
    }

    /// Stops a feed's heartbeat, or starts it again.
    pub fn silence(&self, asset: Asset, silent: bool) {
        let mut instructions = self.instructions.lock();
        if silent {
            instructions.silent_feeds.insert(asset);
        } else {
            instructions.silent_feeds.remove(&asset);
        }
    }

    /// Has the keeper throw a feed's fault switch in the next block.
    pub fn set_fault(&self, asset: Asset, fault: FeedFault) {
        if let Some(order) = keeper::fault_order(&self.deployment, asset, fault) {
            self.instructions.lock().orders.push(order);
        }
    }

    /// Has the faucet send a gift, which waits for the next block; returns the last transaction's hash.
    pub fn give(&self, chain: &mut Chain, to: Address, gift: Gift) -> Result<Option<B256>, SandboxError> {
        let mut last = None;
        for order in faucet::orders(&self.deployment, to, gift)? {
            last = Some(send(chain, &self.cast, order)?);
        }
        Ok(last)
    }

    /// What the market holds `asset` to be worth in the chain's next block.
    pub fn price(&self, chain: &Chain, asset: Asset) -> PriceE8 {
        let next = chain.next_context();
        let instructions = self.instructions.lock();
        let (timestamp, block) = instructions.frozen_at.unwrap_or((next.timestamp, next.number));
        price_at(self.seed, asset, self.age(timestamp), block, &instructions.shocks)
    }

    /// Lets everybody act: what they send goes into the block that is made next.
    pub fn act(&self, chain: &mut Chain) -> Result<(), SandboxError> {
        for order in self.decide(chain) {
            let sender = self.cast.address(order.role);
            if chain.pending_nonce(sender).saturating_sub(chain.state().nonce(sender)) < LARGEST_QUEUE {
                send(chain, &self.cast, order)?;
            }
        }
        self.order_service.follow(chain);
        for order in self.order_service.fills(chain, &self.prices(chain)) {
            send(chain, &self.cast, order)?;
        }
        if let Some(relayers) = self.relayers.get() {
            for order in relayers.act(chain, &self.prices(chain)) {
                send(chain, &self.cast, order)?;
            }
        }
        Ok(())
    }

    /// The best that a filler would deliver for an open order in the chain's next block.
    pub fn best_bid(&self, chain: &Chain, hash: B256) -> Option<BestBid> {
        self.order_service.best_bid(chain, &self.prices(chain), hash)
    }

    /// What the market holds everything to be worth in the chain's next block.
    pub(super) fn prices(&self, chain: &Chain) -> Prices {
        let next = chain.next_context();
        let instructions = self.instructions.lock();
        let (timestamp, block) = instructions.frozen_at.unwrap_or((next.timestamp, next.number));
        Prices::at(self.seed, self.age(timestamp), block, &instructions.shocks)
    }

    /// How old the market is at this time.
    fn age(&self, timestamp: u64) -> u64 {
        timestamp.saturating_sub(self.began)
    }

    fn decide(&self, chain: &Chain) -> Vec<Order> {
        let next = chain.next_context();
        let mut instructions = self.instructions.lock();
        let (timestamp, block) = instructions.frozen_at.unwrap_or((next.timestamp, next.number));
        let prices = Prices::at(self.seed, self.age(timestamp), block, &instructions.shocks);
        let mut decided = Vec::new();
        if instructions.frozen_at.is_none() {
            let moment = Moment {
                seed: self.seed,
                block: next.number,
                timestamp: next.timestamp,
                parent_timestamp: chain.head().header.timestamp,
            };
            decided.extend(market::orders(&self.deployment, &self.cast, chain.state(), &moment, &prices));
        }
        if !instructions.keeper_rests {
            let silent = |asset| instructions.silent_feeds.contains(&asset);
            decided.extend(keeper::orders(&self.deployment, chain.state(), next.timestamp, &prices, silent));
        }
        // Faults are thrown last, after what was to be written before them.
        decided.append(&mut instructions.orders);
        decided
    }
}
