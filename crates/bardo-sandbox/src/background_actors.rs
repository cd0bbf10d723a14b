//! The background actors of one chain with their settings; they act once before each block.
//!
//! Not here: their individual behaviour (see `market`, `keeper`, `faucet`).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use alloy::primitives::{Address, B256};
use parking_lot::Mutex;

use super::actors::{ActorRole, ActorTransaction, Actors, send};
use super::async_vaults::VaultManager;
use super::error::SandboxError;
use super::faucet::{self, FaucetAsset};
use super::genesis::Deployment;
use super::keeper::{self, FeedFault};
use super::liquidator::Liquidator;
use super::market::{self, MarketBlock};
use super::order_service::OrderService;
use super::relayers::Relayers;
use super::target::{AssetPrices, PriceE8, PriceShock, PricedAsset, price_at};
use golem_chain::devnet::handle::BlockHook;
use golem_chain::devnet::{Chain, HookPolicy};
use golem_protocols::uniswap::gateway::BestBid;

/// Maximum number of pending transactions of an actor, after which it sends no more: blocks are full then, and more of
/// them would displace others.
const LARGEST_QUEUE: u64 = 3;

/// Mode of the market: trading or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarketMode {
    /// The market trades.
    #[default]
    On,
    /// There are no trades, and prices stay unchanged.
    Off,
}

/// Settings of a chain's actors.
#[derive(Debug, Default)]
struct ActorSettings {
    frozen_at: Option<(u64, u64)>,
    keeper_rests: bool,
    shocks: Vec<PriceShock>,
    silent_feeds: BTreeSet<PricedAsset>,
    orders: Vec<ActorTransaction>,
}

/// Background actors of one chain. Clones share their state.
#[derive(Debug, Clone)]
pub struct BackgroundActors {
    seed: u64,
    /// Begin of the market, in seconds since the Unix epoch.
    began: u64,
    /// Prices around which the market fluctuates.
    anchors: AssetPrices,
    deployment: Arc<Deployment>,
    actors: Actors,
    instructions: Arc<Mutex<ActorSettings>>,
    order_service: OrderService,
    relayers: Arc<OnceLock<Relayers>>,
    liquidator: Liquidator,
    vault_manager: VaultManager,
}

impl BackgroundActors {
    /// Creates the actors of a chain whose market began at `began`, in seconds since the Unix epoch. Market and keeper
    /// are active.
    pub fn new(seed: u64, began: u64, deployment: Arc<Deployment>, actors: Actors) -> Self {
        let order_service = OrderService::new(seed, Arc::clone(&deployment), actors.clone());
        let liquidator = Liquidator::new(seed, Arc::clone(&deployment), actors.clone());
        let vault_manager = VaultManager::new(Arc::clone(&deployment));
        Self {
            seed,
            began,
            anchors: AssetPrices::anchors(),
            deployment,
            actors,
            instructions: Arc::default(),
            order_service,
            relayers: Arc::default(),
            liquidator,
            vault_manager,
        }
    }

    /// The same actors with a market that fluctuates around `anchors`.
    #[must_use]
    pub fn around(self, anchors: AssetPrices) -> Self {
        Self { anchors, ..self }
    }

    /// Order service of the chain.
    pub fn order_service(&self) -> &OrderService {
        &self.order_service
    }

    /// Adds the relayers; later calls have no effect.
    pub fn join(&self, relayers: Relayers) {
        let _first = self.relayers.set(relayers);
    }

    /// The relayers; `None` before [`join`](Self::join).
    pub fn relayers(&self) -> Option<&Relayers> {
        self.relayers.get()
    }

    /// Addresses of the deployed contracts.
    pub fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// Address of the actor in `role`.
    pub fn address(&self, role: ActorRole) -> Address {
        self.actors.address(role)
    }

    /// Starts or stops the market, from the chain's next block on.
    pub fn set_market(&self, chain: &Chain, mode: MarketMode) {
        let next = chain.next_context();
        self.instructions.lock().frozen_at = match mode {
            MarketMode::On => None,
            MarketMode::Off => Some((next.timestamp, next.number)),
        };
    }

    /// Pauses or resumes the keeper. Unlike [`silence`](Self::silence), this affects all feeds.
    pub fn set_keeper_rests(&self, rests: bool) {
        self.instructions.lock().keeper_rests = rests;
    }

    /// Adds a price shock.
    pub fn shock(&self, shock: PriceShock) {
        self.instructions.lock().shocks.push(shock);
    }

    /// Lowers all prices except stablecoins by `parts_per_million` over `blocks` from the next block on, permanently.
    pub fn crash(&self, chain: &Chain, parts_per_million: u32, blocks: u64) {
        let fall = i32::try_from(parts_per_million.min(990_000)).unwrap_or_default();
        self.shock(PriceShock {
            asset: None,
            parts_per_million: -fall,
            from_block: chain.next_context().number,
            blocks,
            passes: false,
        });
    }

    /// Raises all prices except stablecoins by `parts_per_million` over `blocks` from the next block on, and lowers
    /// them again over as many blocks.
    pub fn spike(&self, chain: &Chain, parts_per_million: u32, blocks: u64) {
        self.shock(PriceShock {
            asset: None,
            parts_per_million: i32::try_from(parts_per_million).unwrap_or(i32::MAX),
            from_block: chain.next_context().number,
            blocks,
            passes: true,
        });
    }

    /// Stops or resumes the updates of a feed.
    pub fn silence(&self, asset: PricedAsset, silent: bool) {
        let mut instructions = self.instructions.lock();
        if silent {
            instructions.silent_feeds.insert(asset);
        } else {
            instructions.silent_feeds.remove(&asset);
        }
    }

    /// Sets a feed's fault mode in the next block.
    pub fn set_fault(&self, asset: PricedAsset, fault: FeedFault) {
        if let Some(order) = keeper::fault_order(&self.deployment, asset, fault) {
            self.instructions.lock().orders.push(order);
        }
    }

    /// Sends a gift from the faucet, pending for the next block; returns the hash of the last transaction.
    ///
    /// # Errors
    /// A [`SandboxError`] if the token does not exist or the chain refuses a transaction.
    pub fn give(&self, chain: &mut Chain, to: Address, gift: FaucetAsset) -> Result<Option<B256>, SandboxError> {
        let mut last = None;
        for order in faucet::orders(&self.deployment, to, gift)? {
            last = Some(send(chain, &self.actors, order)?);
        }
        Ok(last)
    }

    /// Market price of `asset` in the chain's next block, in dollars with eight decimals.
    pub fn price(&self, chain: &Chain, asset: PricedAsset) -> PriceE8 {
        let next = chain.next_context();
        let instructions = self.instructions.lock();
        let (timestamp, block) = instructions.frozen_at.unwrap_or((next.timestamp, next.number));
        price_at(&self.anchors, self.seed, asset, self.age(timestamp), block, &instructions.shocks)
    }

    /// Hook that lets the actors act before each block of their chain.
    pub fn block_hook(&self) -> (BlockHook, HookPolicy) {
        let (actors, name) = (self.clone(), self.deployment.plan.name);
        let hook = move |chain: &mut Chain| {
            if let Err(error) = actors.act(chain) {
                tracing::warn!(chain = name, %error, "a background actor of the devnet could not act");
            }
        };
        (Box::new(hook), HookPolicy { on_transaction: true, on_request: true })
    }

    /// Lets all actors submit their transactions for the next block.
    ///
    /// # Errors
    /// A [`SandboxError`] if the chain refuses a transaction.
    pub fn act(&self, chain: &mut Chain) -> Result<(), SandboxError> {
        let (orders, prices) = self.decide(chain);
        for order in orders {
            let sender = self.actors.address(order.role);
            if chain.pending_nonce(sender).saturating_sub(chain.state().nonce(sender)) < LARGEST_QUEUE {
                send(chain, &self.actors, order)?;
            }
        }
        for order in self.liquidator.orders(chain).into_iter().chain(self.vault_manager.orders(chain)) {
            send(chain, &self.actors, order)?;
        }
        self.order_service.follow(chain);
        for order in self.order_service.fills(chain, &prices) {
            send(chain, &self.actors, order)?;
        }
        if let Some(relayers) = self.relayers.get() {
            for order in relayers.act(chain, &prices) {
                send(chain, &self.actors, order)?;
            }
        }
        Ok(())
    }

    /// Best output that a filler would deliver for an open order in the chain's next block.
    pub fn best_bid(&self, chain: &Chain, hash: B256) -> Option<BestBid> {
        self.order_service.best_bid(chain, &self.prices(chain), hash)
    }

    /// Market prices of all assets in the chain's next block.
    pub(super) fn prices(&self, chain: &Chain) -> AssetPrices {
        let next = chain.next_context();
        let instructions = self.instructions.lock();
        let (timestamp, block) = instructions.frozen_at.unwrap_or((next.timestamp, next.number));
        AssetPrices::at(&self.anchors, self.seed, self.age(timestamp), block, &instructions.shocks)
    }

    /// Age of the market at this time, in seconds.
    fn age(&self, timestamp: u64) -> u64 {
        timestamp.saturating_sub(self.began)
    }

    /// Transactions of market and keeper for the next block, with the prices that they follow.
    fn decide(&self, chain: &Chain) -> (Vec<ActorTransaction>, AssetPrices) {
        let next = chain.next_context();
        let mut instructions = self.instructions.lock();
        let (timestamp, block) = instructions.frozen_at.unwrap_or((next.timestamp, next.number));
        let prices = AssetPrices::at(&self.anchors, self.seed, self.age(timestamp), block, &instructions.shocks);
        let mut decided = Vec::new();
        if instructions.frozen_at.is_none() {
            let moment = MarketBlock {
                seed: self.seed,
                block: next.number,
                timestamp: next.timestamp,
                parent_timestamp: chain.head().header.timestamp,
            };
            decided.extend(market::orders(&self.deployment, &self.actors, chain.state(), &moment, &prices));
        }
        if !instructions.keeper_rests {
            let silent = |asset| instructions.silent_feeds.contains(&asset);
            decided.extend(keeper::orders(&self.deployment, chain.state(), next.timestamp, &prices, silent));
        }
        // Fault switches come last, after pending price updates.
        decided.append(&mut instructions.orders);
        (decided, prices)
    }
}
