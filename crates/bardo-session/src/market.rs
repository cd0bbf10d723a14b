//! What is told of chains and their markets, as plain data that could travel over a wire.
//!
//! Everything with letters that did not come from this program is [`SafeText`]. Not here: how it was read.

use alloy_primitives::{Address, B256};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};

/// Whose money moves here. The words never collapse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// How far a chain's endpoints can be cross-checked.
    Endpoints {
        /// The chain, by its place in [`Network::chains`].
        chain: usize,
        /// The state now.
        state: EndpointsState,
    },
}

/// How far the endpoints of a chain can be cross-checked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EndpointsState {
    /// Endpoints that are configured; zero for a chain inside this process.
    pub configured: usize,
    /// Of them, those that answer.
    pub answering: usize,
    /// Endpoints that contradict others, by their label.
    pub disputed: Vec<SafeText>,
    /// The latest contradiction in a sentence, if there is one.
    pub dispute: Option<SafeText>,
}

/// A step of the boot. The same step of the same chain told again replaces what was told before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainIdentity {
    /// Its name.
    pub name: SafeText,
    /// Its EIP-155 id.
    pub id: u64,
    /// Milliseconds between blocks, where they come by the clock.
    pub interval_millis: Option<u64>,
}

/// A chain after a block: the state now, and what happened since the last snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedPrice {
    /// Fresh enough to be used.
    Live(Usd),
    /// No price is an answer, and this is why: stale, absent, nonsense.
    None(SafeText),
}

/// One token of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Its symbol.
    pub symbol: SafeText,
    /// Where it lives.
    pub address: Address,
    /// Its price.
    pub price: FeedPrice,
}

/// The protocol version of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolVersion {
    /// Uniswap V2.
    V2,
    /// Uniswap V3.
    V3,
}

/// One pool of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceRow {
    /// The token's symbol, or the chain's own coin.
    pub symbol: SafeText,
    /// How much.
    pub amount: TokenAmount,
    /// What it is worth; `None` where there is no price.
    pub value: Option<Usd>,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
