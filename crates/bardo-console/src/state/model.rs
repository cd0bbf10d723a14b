//! What the page of chains and markets knows: the messages of `runtime::market`, folded and bounded.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::Address;

use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, Usd};

pub use bardo_session::market::{
    ActivityKind, ActivityRow, BalanceRow, BlockRow, BootStep, ChainIdentity, ChainSnapshot, EndpointsState, FeedPrice,
    Money, Network, PoolRow, PoolVersion, TokenRow, Update,
};

/// Blocks kept per chain: more than the tallest screen and the widest sparkline can show.
pub const BLOCKS_KEPT: usize = 256;
/// Prices kept per token for its sparkline.
pub const PRICES_KEPT: usize = 64;
/// Rows of activity kept.
pub const ACTIVITY_KEPT: usize = 512;
/// Steps of the boot kept.
pub const BOOT_STEPS_KEPT: usize = 256;

/// Which way a price went with the last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trend {
    /// Higher than before.
    Up,
    /// Lower than before.
    Down,
    /// The same, or nothing to compare with.
    #[default]
    Flat,
}

/// What is known of one chain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChainPage {
    /// Newest first.
    pub blocks: VecDeque<BlockRow>,
    /// As of the newest block.
    pub tokens: Vec<TokenRow>,
    /// As of the newest block.
    pub pools: Vec<PoolRow>,
    /// As of the newest block.
    pub balances: Vec<BalanceRow>,
    /// Which way each token's price went with the last block.
    pub trends: BTreeMap<Address, Trend>,
    /// Each token's prices in millionths of a dollar, oldest first, for its sparkline.
    pub history: BTreeMap<Address, VecDeque<u64>>,
    /// What is wrong with it, until its next block.
    pub fault: Option<SafeText>,
    /// How far its endpoints can be cross-checked.
    pub endpoints: EndpointsState,
}

/// Everything the page shows. Freezing the view is keeping a copy of this.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Known once the network stands.
    pub network: Option<Network>,
    /// The boot's progress, oldest first.
    pub boot: VecDeque<BootStep>,
    /// One for each of [`Network::chains`].
    pub chains: Vec<ChainPage>,
    /// Newest first.
    pub activity: VecDeque<ActivityRow>,
    /// What is wrong with the whole.
    pub fault: Option<SafeText>,
}

impl Page {
    /// Takes in one message.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Boot(step) => {
                let same = |known: &&mut BootStep| known.chain == step.chain && known.step == step.step;
                match self.boot.iter_mut().find(same) {
                    Some(known) => *known = step,
                    None => push_bounded(&mut self.boot, step, BOOT_STEPS_KEPT),
                }
            }
            Update::Started(network) => {
                self.chains = network.chains.iter().map(|_| ChainPage::default()).collect();
                self.activity.clear();
                self.network = Some(network);
            }
            Update::Chain(snapshot) => self.apply_chain(*snapshot),
            Update::Fault { chain, message } => match chain.and_then(|chain| self.chains.get_mut(chain)) {
                Some(chain) => chain.fault = Some(message),
                None => self.fault = Some(message),
            },
            Update::Endpoints { chain, state } => {
                if let Some(chain) = self.chains.get_mut(chain) {
                    chain.endpoints = state;
                }
            }
        }
    }

    fn apply_chain(&mut self, snapshot: ChainSnapshot) {
        let Some(page) = self.chains.get_mut(snapshot.chain) else { return };
        if let Some(first) = snapshot.blocks.first().map(|block| block.number) {
            // A reorganised chain: what it took back was never there.
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

    /// What the wallet's priced holdings are worth together, and whether some have no price.
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

/// A price in millionths of a dollar, only for drawing.
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
