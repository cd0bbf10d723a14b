//! State of chains and their markets, as plain data that can be serialized.
//!
//! All outside text is [`SafeText`]. Reading the chains is done elsewhere.

use alloy_primitives::{Address, B256};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use bardo_base::fabric::LiquidationMove;
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};

/// Maximum number of blocks that a console keeps per chain; more than any screen or sparkline shows.
pub const BLOCKS_KEPT: usize = 256;
/// Maximum number of activity rows that a console keeps.
pub const ACTIVITY_KEPT: usize = 512;

/// Kind of money that moves. Displays always show it in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoneyKind {
    /// Play money of the embedded devnet.
    Play,
    /// Play money of a rehearsal: a local copy of a live network.
    Rehearsal,
    /// Test money of a public test network.
    Test,
    /// Real money, on any other network.
    Real,
    /// Paper trading: the whole pipeline without signatures.
    Paper,
    /// Playback of a recorded run.
    Replay,
}

impl MoneyKind {
    /// Text of the badge.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Play => "PLAY MONEY",
            Self::Rehearsal => "REHEARSAL",
            Self::Test => "TEST MONEY",
            Self::Real => "REAL MONEY",
            Self::Paper => "PAPER",
            Self::Replay => "REPLAY",
        }
    }
}

/// Message of a market reader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MarketUpdate {
    /// Step of the boot, as it happens.
    Boot(BootStep),
    /// The network has started; blocks follow.
    Started(NetworkIdentity),
    /// State of a chain after a block.
    Chain(Box<ChainSnapshot>),
    /// Error of the network, or of one chain.
    Fault {
        /// Index in [`NetworkIdentity::chains`]; `None` for the whole network.
        chain: Option<usize>,
        /// Description of the error, and what to do.
        message: SafeText,
    },
    /// State of a chain's endpoints.
    Endpoints {
        /// Index of the chain in [`NetworkIdentity::chains`].
        chain: usize,
        /// Current state of the endpoints.
        state: EndpointsState,
    },
}

/// State of a chain's endpoints, and how far they can be cross-checked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EndpointsState {
    /// Number of configured endpoints; zero for a chain inside this process.
    pub configured: usize,
    /// Number of endpoints that respond.
    pub answering: usize,
    /// Labels of the endpoints that contradict others.
    pub disputed: Vec<SafeText>,
    /// Latest contradiction as a sentence, if there is one.
    pub dispute: Option<SafeText>,
}

/// Step of the boot. A new message about the same step of the same chain replaces the previous one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootStep {
    /// Name of the chain that boots.
    pub chain: SafeText,
    /// Name of the step.
    pub step: SafeText,
    /// Progress of the step; may be empty.
    pub detail: SafeText,
    /// True for the chain's last step.
    pub done: bool,
    /// True if the chain is a rehearsal of a live network.
    #[serde(default)]
    pub rehearses: bool,
}

/// Network with its chains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkIdentity {
    /// Name of the network.
    pub name: SafeText,
    /// Kind of money on the network.
    pub money: MoneyKind,
    /// Chains; other messages refer to them by their index.
    pub chains: Vec<ChainIdentity>,
    /// Wallet whose balances are shown.
    pub wallet: Address,
}

/// Identity of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainIdentity {
    /// Name of the chain.
    pub name: SafeText,
    /// EIP-155 id of the chain.
    pub id: u64,
    /// Time between blocks in milliseconds; `None` if blocks have no fixed interval.
    pub interval_millis: Option<u64>,
}

/// State of a chain after a block, with what happened since the last snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainSnapshot {
    /// Index of the chain in [`NetworkIdentity::chains`].
    pub chain: usize,
    /// Blocks since the last snapshot, oldest first. A block with a known number replaces that block and all later
    /// ones.
    pub blocks: Vec<BlockRow>,
    /// All tokens with their feed prices.
    pub tokens: Vec<TokenRow>,
    /// All pools of the chain.
    pub pools: Vec<PoolRow>,
    /// Balances of the wallet.
    pub balances: Vec<BalanceRow>,
    /// Liquidity positions of the wallet that hold something.
    #[serde(default)]
    pub positions: Vec<PositionRow>,
    /// Supplies and debts of the wallet in the lending market; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending: Option<LendingState>,
    /// Activity in `blocks`, oldest first.
    pub activity: Vec<ActivityRow>,
}

/// Liquidity position of the wallet, or its shares of a vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionRow {
    /// Version and number of the position, such as `V3 #42`; `Vault` for shares of one.
    pub name: SafeText,
    /// Tokens of its pool, such as `WETH/USDC`, or the vault's token.
    pub pair: SafeText,
    /// Fee of its pool in hundredths of a basis point; zero for shares.
    pub fee_pips: u32,
    /// Exit value at the feeds' prices, with the fees owed, in dollars; of shares what a simulated redemption pays. `None`
    /// without a price of each token, and for shares that cannot be redeemed.
    pub value: Option<Usd>,
    /// Dollars that the wallet holds for the depositors of a vault that it manages; zero for any other row.
    #[serde(default)]
    pub owed: Usd,
}

/// Supplies and debts of the wallet in the lending market of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingState {
    /// Supplies and debts, one row per token.
    pub rows: Vec<LendingRow>,
    /// Health factor in hundredths, rounded down; absent without debt, and while it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<u64>,
    /// Changes of single prices that make the debt liquidable, the smallest first.
    pub moves: Vec<LiquidationMove>,
    /// True if the market could not be read, so that the figures lack it.
    #[serde(default)]
    pub unread: bool,
}

impl LendingState {
    /// State of a market that could not be read.
    pub fn unread() -> Self {
        Self { rows: Vec::new(), health: None, moves: Vec::new(), unread: true }
    }

    /// True if something is owed.
    pub fn owes(&self) -> bool {
        self.rows.iter().any(|row| !row.owed.raw().is_zero())
    }
}

/// Supply and debt of the wallet in one token, with interest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingRow {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Amount that is supplied.
    pub supplied: TokenAmount,
    /// Value of the supply in dollars; `None` without a price.
    pub supplied_value: Option<Usd>,
    /// Amount that is owed.
    pub owed: TokenAmount,
    /// Value of the debt in dollars; `None` without a price.
    pub owed_value: Option<Usd>,
}

/// Block of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRow {
    /// Number of the block.
    pub number: u64,
    /// Timestamp of the block, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// Base fee in wei (EIP-1559).
    pub base_fee_wei: u128,
    /// Gas used by its transactions.
    pub gas_used: u64,
    /// Gas limit of the block.
    pub gas_limit: u64,
    /// Number of transactions.
    pub transactions: usize,
}

/// Price of a token according to its feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedPrice {
    /// Price that is recent enough to use.
    Live(Usd),
    /// Reason why there is no price: stale, missing or invalid.
    None(SafeText),
}

/// Token of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token.
    pub address: Address,
    /// Price of the token.
    pub price: FeedPrice,
}

/// Protocol version of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolVersion {
    /// Pool of Uniswap V2.
    V2,
    /// Pool of Uniswap V3.
    V3,
}

/// Pool of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolRow {
    /// Symbol of the priced token.
    pub base: SafeText,
    /// Symbol of the token that the price is in.
    pub quote: SafeText,
    /// Protocol version of the pool.
    pub version: PoolVersion,
    /// Fee in hundredths of a basis point, as in Uniswap V3 (3000 is 0.3 %).
    pub fee_pips: u32,
    /// Contract of the pool.
    pub address: Address,
    /// Price of one whole base token in quote tokens, in this pool; `None` without liquidity.
    pub price: Option<Decimal>,
    /// Price of one whole base token in quote tokens, according to the feeds.
    pub feed_price: Option<Decimal>,
    /// Value of the pool's tokens according to the feeds.
    pub holds: Option<Usd>,
}

impl PoolRow {
    /// Difference of the pool's price from the feed price, in basis points of the feed price. `None` if a price is
    /// missing.
    pub fn gap_bps(&self) -> Option<i64> {
        let (price, feed) = (self.price?, self.feed_price?);
        let gap = price.checked_sub(feed)?.checked_div(feed)?.checked_mul(Decimal::from(10_000))?;
        i64::try_from(gap.round().mantissa()).ok()
    }
}

/// Balance of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceRow {
    /// Symbol of the token, or of the native token.
    pub symbol: SafeText,
    /// Amount that the wallet holds.
    pub amount: TokenAmount,
    /// Value in dollars; `None` without a price.
    pub value: Option<Usd>,
}

/// Kind of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActivityKind {
    /// Swap in a pool.
    Swap,
    /// Transfer of a token or of the native token.
    Transfer,
    /// Allowance that was set or revoked.
    Approval,
    /// New price in a feed.
    Feed,
    /// Any other call.
    Call,
    /// Creation of a contract.
    Create,
}

impl ActivityKind {
    /// Display word for the kind.
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

/// Activity in a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRow {
    /// Timestamp of the block, in seconds since the Unix epoch.
    pub at: u64,
    /// Number of the block.
    pub block: u64,
    /// Index of the chain in [`NetworkIdentity::chains`].
    pub chain: usize,
    /// Kind of the activity.
    pub kind: ActivityKind,
    /// True if the transaction reverted.
    pub failed: bool,
    /// Description in one line.
    pub text: SafeText,
    /// Hash of the transaction.
    pub transaction: B256,
}
