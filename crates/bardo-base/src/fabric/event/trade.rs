//! Payloads of orders that others fill: auctions on one chain, bridges over two.
//!
//! Amounts are decimal strings of whole tokens, as tools give them; nothing that is checked reads them.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::text::SafeText;

/// A token as a card names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    /// Its symbol.
    pub symbol: SafeText,
    /// Its contract; the zero address is the chain's coin.
    pub address: Address,
    /// Digits after the point.
    pub decimals: u8,
}

/// Where a transaction is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxPlace {
    /// The chain's id.
    pub chain_id: u64,
    /// The transaction.
    pub hash: B256,
    /// Its block, once it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
}

/// Where an auction order stands, in the words of the order service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Signed and kept here; the service has not confirmed it.
    Pending,
    /// In the book; anybody who may can fill it.
    Open,
    /// Filled, as the chain says.
    Filled,
    /// Its deadline has passed; it can no longer be filled.
    Expired,
    /// Made void on chain.
    Cancelled,
    /// The swapper has not, or has not allowed, what it offers. It can become open again.
    InsufficientFunds,
    /// The service does not take it, or the chain would not.
    Error,
}

impl OrderStatus {
    /// Whether nothing can change any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Filled | Self::Expired | Self::Cancelled => true,
            Self::Pending | Self::Open | Self::InsufficientFunds | Self::Error => false,
        }
    }

    /// The written form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Open => "open",
            Self::Filled => "filled",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::InsufficientFunds => "insufficient_funds",
            Self::Error => "error",
        }
    }
}

/// How an order's output moves. Straight between two points for Dutch orders over time; for orders over blocks and
/// priority orders, as many points as it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecayCurve {
    /// What the positions count: `seconds` since the Unix epoch, `blocks`, or `wei` of priority fee.
    pub unit: DecayUnit,
    /// Position and output there, in order of position.
    pub points: Vec<(u64, String)>,
}

/// What a curve's positions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecayUnit {
    /// Seconds since the Unix epoch.
    Seconds,
    /// Blocks.
    Blocks,
    /// Wei of priority fee per gas that the filling transaction pays.
    Wei,
}

/// Who alone may fill at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusivity {
    /// The filler.
    pub filler: Address,
    /// Its name, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SafeText>,
    /// Until this position of the curve, inclusive.
    pub until: u64,
}

/// What a filler offers, or has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bid {
    /// Who.
    pub filler: Address,
    /// Its name, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SafeText>,
    /// What it would deliver.
    pub output_amount: String,
    /// In how many seconds it thinks so.
    pub estimated_seconds: u64,
    /// Whether it was chosen, or has locked the order.
    pub chosen: bool,
}

/// A fill, as the chain has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderFill {
    /// The transaction.
    pub tx: TxPlace,
    /// Who filled.
    pub filler: Address,
    /// Its name, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SafeText>,
    /// What was taken.
    pub amount_in: String,
    /// What came.
    pub amount_out: String,
    /// At which position of the curve.
    pub position: u64,
}

/// Payload of `order:update`: all that a card shows of an auction order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderUpdate {
    /// Its hash.
    pub order_hash: B256,
    /// `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`.
    pub order_type: SafeText,
    /// The chain's id.
    pub chain_id: u64,
    /// Where it stands.
    pub status: OrderStatus,
    /// What is given.
    pub token_in: Asset,
    /// What is wanted.
    pub token_out: Asset,
    /// The most that is given.
    pub amount_in: String,
    /// What the quote said would come.
    pub quoted_out: String,
    /// The best the curve asks.
    pub start_amount: String,
    /// The least the curve asks: the worst case.
    pub end_amount: String,
    /// How the output moves.
    pub curve: DecayCurve,
    /// Where on the curve the chain is now; for a priority order the fee that fillers bid at present.
    pub position: u64,
    /// What the curve asks there.
    pub current_amount: String,
    /// Who alone may fill at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusivity: Option<Exclusivity>,
    /// The best that a filler would take, where that can be known: on a devnet only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_bid: Option<Bid>,
    /// Last second in which it can be filled, since the Unix epoch.
    pub deadline: u64,
    /// The fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<OrderFill>,
    /// The transaction that made it void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<TxPlace>,
    /// Where the money is, in a sentence.
    pub money: SafeText,
    /// What stands in the way, or why it ended as it did; empty where there is nothing to say.
    pub remark: SafeText,
}

/// Where a bridge order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    /// Signed; not locked on the source chain yet.
    Pending,
    /// Locked on the source chain; fillers are at it.
    Filling,
    /// Delivered on the destination chain.
    Filled,
    /// Its fill deadline has passed without delivery; the money can be taken back.
    Expired,
    /// The money is back.
    Refunded,
}

impl IntentStatus {
    /// Whether nothing can change any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Filled | Self::Refunded => true,
            Self::Pending | Self::Filling | Self::Expired => false,
        }
    }

    /// The written form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Filling => "filling",
            Self::Filled => "filled",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
        }
    }
}

/// Payload of `intent:update`: all that a card shows of a bridge order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentUpdate {
    /// Its id, the hash of the order.
    pub intent_id: B256,
    /// Where it stands.
    pub status: IntentStatus,
    /// The source chain's name.
    pub source_chain: SafeText,
    /// The destination chain's name.
    pub destination_chain: SafeText,
    /// What is given.
    pub token_in: Asset,
    /// What is wanted on the other side.
    pub token_out: Asset,
    /// What is given, in full.
    pub amount_in: String,
    /// The least that is delivered.
    pub min_out: String,
    /// What is thought to be delivered.
    pub estimated_output: String,
    /// Who gets it.
    pub recipient: Address,
    /// The contract that holds the money while the order is under way.
    pub settler: Address,
    /// What fillers offered, the best first.
    pub bids: Vec<Bid>,
    /// The lock on the source chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<TxPlace>,
    /// The delivery on the destination chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<TxPlace>,
    /// Account that delivered; absent until there is a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filler: Option<Address>,
    /// The filler's repayment on the source chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaid: Option<TxPlace>,
    /// The refund on the source chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded: Option<TxPlace>,
    /// What was delivered, confirmed by the balance over there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_out: Option<String>,
    /// Last second in which it can be delivered, since the Unix epoch.
    pub fill_deadline: u64,
    /// First second in which the settler gives the money back, if nobody delivers; absent where it has not told how long
    /// after the fill deadline that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_from: Option<u64>,
    /// Where the money is, in a sentence.
    pub money: SafeText,
    /// What stands in the way, or why it ended as it did; empty where there is nothing to say.
    pub remark: SafeText,
}
