//! What the status page knows, as plain data: sent by a source, kept here, drawn by the view.
//!
//! Everything with letters that did not come from this program is [`SafeText`]. Not here: how it was read.

use std::collections::{BTreeMap, VecDeque};

use alloy::primitives::{Address, B256};
use rust_decimal::Decimal;

use crate::base::text::SafeText;
use crate::base::units::{Rounding, TokenAmount, Usd};

/// Blocks kept per chain: more than the tallest screen and the widest sparkline can show.
pub const BLOCKS_KEPT: usize = 256;
/// Prices kept per token for its sparkline.
pub const PRICES_KEPT: usize = 64;
/// Rows of activity kept.
pub const ACTIVITY_KEPT: usize = 512;
/// Steps of the boot kept.
pub const BOOT_STEPS_KEPT: usize = 256;

/// Whose money moves here. The words never collapse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Money {
    /// The embedded devnet.
    Play,
    /// A public test network.
    Test,
    /// A network where it costs.
    Real,
    /// The whole pipeline with nothing signed.
    Paper,
    /// A recorded run.
    Replay,
}

impl Money {
    /// The badge, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Play => "PLAY MONEY",
            Self::Test => "TEST MONEY",
            Self::Real => "REAL MONEY",
            Self::Paper => "PAPER",
            Self::Replay => "REPLAY",
        }
    }
}

/// One message of a source to the page.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// A step of the boot, as it happens.
    Boot(BootStep),
    /// The network stands; blocks follow.
    Started(Network),
    /// What a chain looks like after a block.
    Chain(Box<ChainSnapshot>),
    /// Something does not work; `chain` is its place in [`Network::chains`] where it is one chain's trouble.
    Fault {
        /// The chain it concerns.
        chain: Option<usize>,
        /// What, and what to do.
        message: SafeText,
    },
}

/// A step of the boot. The same step of the same chain told again replaces what was told before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootStep {
    /// The chain that boots.
    pub chain: SafeText,
    /// What it does.
    pub step: SafeText,
    /// How far it is; may be empty.
    pub detail: SafeText,
    /// Whether it was the chain's last.
    pub done: bool,
}

/// The network as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: SafeText,
    /// Whose money.
    pub money: Money,
    /// Its chains; rows refer to them by their place here.
    pub chains: Vec<ChainIdentity>,
    /// The wallet whose balances are shown.
    pub wallet: Address,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainIdentity {
    /// Its name.
    pub name: SafeText,
    /// Its EIP-155 id.
    pub id: u64,
    /// Milliseconds between blocks, where they come by the clock.
    pub interval_millis: Option<u64>,
}

/// A chain after a block: the state now, and what happened since the last snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainSnapshot {
    /// The chain's place in [`Network::chains`].
    pub chain: usize,
    /// The blocks since the last snapshot, oldest first. One that is already known replaces it and all after it.
    pub blocks: Vec<BlockRow>,
    /// Every token with what its feed says.
    pub tokens: Vec<TokenRow>,
    /// Every pool.
    pub pools: Vec<PoolRow>,
    /// What the wallet holds.
    pub balances: Vec<BalanceRow>,
    /// What happened in `blocks`, oldest first.
    pub activity: Vec<ActivityRow>,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRow {
    /// Its number.
    pub number: u64,
    /// Seconds since the Unix epoch, as the chain says.
    pub timestamp: u64,
    /// Base fee in wei (EIP-1559).
    pub base_fee_wei: u128,
    /// Gas used by its transactions.
    pub gas_used: u64,
    /// Gas it could have used.
    pub gas_limit: u64,
    /// Transactions in it.
    pub transactions: usize,
}

/// A token's price, as its feed says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedPrice {
    /// Fresh enough to be used.
    Live(Usd),
    /// No price is an answer, and this is why: stale, absent, nonsense.
    None(SafeText),
}

/// One token of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its symbol.
    pub symbol: SafeText,
    /// Where it lives.
    pub address: Address,
    /// Its price.
    pub price: FeedPrice,
}

/// The protocol version of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolVersion {
    /// Uniswap V2.
    V2,
    /// Uniswap V3.
    V3,
}

/// One pool of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRow {
    /// The token priced.
    pub base: SafeText,
    /// The token it is priced in.
    pub quote: SafeText,
    /// Which protocol.
    pub version: PoolVersion,
    /// The fee in hundredths of a basis point, as V3 counts them (3000 is 0.3 %).
    pub fee_pips: u32,
    /// Where it lives.
    pub address: Address,
    /// What one whole base token costs in quote tokens in this pool; `None` while it has no liquidity.
    pub price: Option<Decimal>,
    /// The same, by the feeds.
    pub feed_price: Option<Decimal>,
    /// What the pool's tokens are worth by the feeds.
    pub holds: Option<Usd>,
}

impl PoolRow {
    /// How far the pool's price is from the feeds', in basis points of the feeds'.
    pub fn gap_bps(&self) -> Option<i64> {
        let (price, feed) = (self.price?, self.feed_price?);
        let gap = price.checked_sub(feed)?.checked_div(feed)?.checked_mul(Decimal::from(10_000))?;
        i64::try_from(gap.round().mantissa()).ok()
    }
}

/// One holding of the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceRow {
    /// The token's symbol, or the chain's own coin.
    pub symbol: SafeText,
    /// How much.
    pub amount: TokenAmount,
    /// What it is worth; `None` where there is no price.
    pub value: Option<Usd>,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    /// A swap in a pool.
    Swap,
    /// Tokens or coins moved.
    Transfer,
    /// An allowance was given or taken back.
    Approval,
    /// A feed was told a new price.
    Feed,
    /// Any other call.
    Call,
    /// A contract was created.
    Create,
}

impl ActivityKind {
    /// The kind, in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Swap => "Swap",
            Self::Transfer => "Transfer",
            Self::Approval => "Approval",
            Self::Feed => "Feed",
            Self::Call => "Call",
            Self::Create => "Create",
        }
    }
}

/// One thing that happened in a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityRow {
    /// The block's time, seconds since the Unix epoch.
    pub at: u64,
    /// The block's number.
    pub block: u64,
    /// The chain's place in [`Network::chains`].
    pub chain: usize,
    /// What kind.
    pub kind: ActivityKind,
    /// Whether the transaction reverted.
    pub failed: bool,
    /// What, in a line.
    pub text: SafeText,
    /// The transaction.
    pub transaction: B256,
}

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
