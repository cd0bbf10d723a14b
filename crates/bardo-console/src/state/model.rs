//! View model of chains and markets: the messages of `bardo_session::market`, folded and bounded.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::Address;

use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, Usd};

pub use bardo_session::market::{
    ACTIVITY_KEPT, ActivityKind, ActivityRow, BLOCKS_KEPT, BalanceRow, BlockRow, BootStep, ChainIdentity,
    ChainSnapshot, EndpointsState, FeedPrice, MarketUpdate, MoneyKind, NetworkIdentity, PoolRow, PoolVersion, TokenRow,
};

/// Maximum number of prices kept per token for its sparkline.
pub const PRICES_KEPT: usize = 64;
/// Maximum number of boot steps kept.
pub const BOOT_STEPS_KEPT: usize = 256;

/// Direction of a price since the previous block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trend {
    /// The price rose.
    Up,
    /// The price fell.
    Down,
    /// The price is unchanged, or there is none to compare with.
    #[default]
    Flat,
}

/// Data of one chain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChainPage {
    /// Blocks, newest first.
    pub blocks: VecDeque<BlockRow>,
    /// Tokens as of the newest block.
    pub tokens: Vec<TokenRow>,
    /// Pools as of the newest block.
    pub pools: Vec<PoolRow>,
    /// Wallet balances as of the newest block.
    pub balances: Vec<BalanceRow>,
    /// Direction of each token's price with the last block, by token address.
    pub trends: BTreeMap<Address, Trend>,
    /// Price history of each token in millionths of a dollar, oldest first, for its sparkline.
    pub history: BTreeMap<Address, VecDeque<u64>>,
    /// Error of the chain, until its next block.
    pub fault: Option<SafeText>,
    /// State of its endpoints, and how far they can be cross-checked.
    pub endpoints: EndpointsState,
}

/// Data of all chains and markets. A frozen view keeps a copy of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Network description; `None` until the network has started.
    pub network: Option<NetworkIdentity>,
    /// Progress of the boot, oldest first.
    pub boot: VecDeque<BootStep>,
    /// Data of each chain, in the order of [`NetworkIdentity::chains`].
    pub chains: Vec<ChainPage>,
    /// Activity rows, newest first.
    pub activity: VecDeque<ActivityRow>,
    /// Error that concerns the whole network.
    pub fault: Option<SafeText>,
}

impl Page {
    /// Applies a message of the market reader.
    pub fn apply(&mut self, update: MarketUpdate) {
        match update {
            MarketUpdate::Boot(step) => {
                let same = |known: &&mut BootStep| known.chain == step.chain && known.step == step.step;
                match self.boot.iter_mut().find(same) {
                    Some(known) => *known = step,
                    None => push_bounded(&mut self.boot, step, BOOT_STEPS_KEPT),
                }
            }
            MarketUpdate::Started(network) => {
                self.chains = network.chains.iter().map(|_| ChainPage::default()).collect();
                self.activity.clear();
                self.network = Some(network);
            }
            MarketUpdate::Chain(snapshot) => self.apply_chain(*snapshot),
            MarketUpdate::Fault { chain, message } => match chain.and_then(|chain| self.chains.get_mut(chain)) {
                Some(chain) => chain.fault = Some(message),
                None => self.fault = Some(message),
            },
            MarketUpdate::Endpoints { chain, state } => {
                if let Some(chain) = self.chains.get_mut(chain) {
                    chain.endpoints = state;
                }
            }
        }
    }

    fn apply_chain(&mut self, snapshot: ChainSnapshot) {
        let Some(page) = self.chains.get_mut(snapshot.chain) else { return };
        if let Some(first) = snapshot.blocks.first().map(|block| block.number) {
            // After a reorganisation, blocks from the first new number on are dropped.
            page.blocks.retain(|block| block.number < first);
            self.activity.retain(|row| row.chain != snapshot.chain || row.block < first);
        }
        for block in snapshot.blocks {
            page.blocks.push_front(block);
        }
        page.blocks.truncate(BLOCKS_KEPT);
        for row in snapshot.activity {
            self.activity.push_front(row);
        }
        self.activity.truncate(ACTIVITY_KEPT);
        for token in &snapshot.tokens {
            let before = page.tokens.iter().find(|known| known.address == token.address);
            page.trends.insert(token.address, trend(before.and_then(live), live(token)));
            if let Some(price) = live(token).and_then(millionths) {
                push_bounded(page.history.entry(token.address).or_default(), price, PRICES_KEPT);
            }
        }
        page.tokens = snapshot.tokens;
        page.pools = snapshot.pools;
        page.balances = snapshot.balances;
        page.fault = None;
    }

    /// Total value of the wallet's priced holdings, and whether some have no price. `None` if the sum overflows.
    pub fn worth(&self) -> (Option<Usd>, bool) {
        let rows = || self.chains.iter().flat_map(|chain| &chain.balances);
        let unpriced = rows().any(|row| row.value.is_none() && !row.amount.raw().is_zero());
        let sum = rows().filter_map(|row| row.value).try_fold(Usd::ZERO, |sum, value| sum.checked_add(value).ok());
        (sum, unpriced)
    }
}

fn live(token: &TokenRow) -> Option<Usd> {
    match &token.price {
        FeedPrice::Live(price) => Some(*price),
        FeedPrice::None(_) => None,
    }
}

fn trend(before: Option<Usd>, now: Option<Usd>) -> Trend {
    match (before, now) {
        (Some(before), Some(now)) if now > before => Trend::Up,
        (Some(before), Some(now)) if now < before => Trend::Down,
        _ => Trend::Flat,
    }
}

/// Price in millionths of a dollar, for drawing only.
fn millionths(price: Usd) -> Option<u64> {
    let digits: String = price.to_fixed(6, Rounding::Down).chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}
