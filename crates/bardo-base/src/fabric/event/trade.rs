//! Payloads of orders that others fill: auctions on one chain, bridges between two.
//!
//! Amounts are decimal strings of whole tokens, as tools return them. No check reads them.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::text::SafeText;
use crate::units::TokenAmount;

/// A token as cards show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardToken {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token; the zero address is the native token.
    pub address: Address,
    /// Decimals of the token.
    pub decimals: u8,
}

/// Location of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TxPlace {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Hash of the transaction.
    pub hash: B256,
    /// Block that includes it, once it is mined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
}

/// Status of an auction order, in the order service's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Signed and stored locally; the service has not confirmed it.
    Pending,
    /// In the order book; any eligible filler can fill it.
    Open,
    /// Filled, according to the chain.
    Filled,
    /// Past its deadline; it can no longer be filled.
    Expired,
    /// Cancelled on chain.
    Cancelled,
    /// The swapper lacks the balance or the allowance for its input. It can become open again.
    InsufficientFunds,
    /// Rejected by the service, or unfillable on the chain.
    Error,
}

impl OrderStatus {
    /// True if the status can no longer change.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Filled | Self::Expired | Self::Cancelled => true,
            Self::Pending | Self::Open | Self::InsufficientFunds | Self::Error => false,
        }
    }

    /// Written form of the status.
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

/// Curve of an order's output. Dutch orders that decay over time have two points with a straight line between them;
/// block-based and priority orders have as many points as needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecayCurve {
    /// Unit of the positions.
    pub unit: DecayUnit,
    /// Positions with their outputs, in order of position.
    pub points: Vec<(u64, String)>,
}

/// Unit of a curve's positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecayUnit {
    /// Seconds since the Unix epoch.
    Seconds,
    /// Numbers of blocks.
    Blocks,
    /// Wei of priority fee per gas that the filling transaction pays.
    Wei,
}

/// Exclusive right of one filler at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusivity {
    /// Address of the filler.
    pub filler: Address,
    /// Name of the filler, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SafeText>,
    /// Last position of the curve with exclusivity, inclusive.
    pub until: u64,
}

/// An offer of a filler, or its fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillerOffer {
    /// Address of the filler.
    pub filler: Address,
    /// Name of the filler, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SafeText>,
    /// Amount that the filler would deliver.
    pub output_amount: String,
    /// Estimated time of delivery, in seconds.
    pub estimated_seconds: u64,
    /// True if the offer was chosen, or has locked the order.
    pub chosen: bool,
}

/// A fill, as recorded on chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderFill {
    /// Transaction of the fill.
    pub tx: TxPlace,
    /// Address of the filler.
    pub filler: Address,
    /// Name of the filler, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SafeText>,
    /// Amount taken from the swapper.
    pub amount_in: String,
    /// Amount that was delivered.
    pub amount_out: String,
    /// Position of the curve at the fill.
    pub position: u64,
}

/// Payload of `order:update`: everything that a card shows of an auction order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderUpdate {
    /// Hash of the order.
    pub order_hash: B256,
    /// Auction type: `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`.
    pub order_type: SafeText,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Status of the order.
    pub status: OrderStatus,
    /// Token that the order gives.
    pub token_in: CardToken,
    /// Token that the order buys.
    pub token_out: CardToken,
    /// Maximum input amount.
    pub amount_in: String,
    /// Output amount of the quote.
    pub quoted_out: String,
    /// Highest output amount of the curve.
    pub start_amount: String,
    /// Lowest output amount of the curve: the worst case.
    pub end_amount: String,
    /// Curve of the output.
    pub curve: DecayCurve,
    /// Present position on the curve; for a priority order the fee that fillers currently bid.
    pub position: u64,
    /// Output amount at the present position.
    pub current_amount: String,
    /// Exclusive right of one filler at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusivity: Option<Exclusivity>,
    /// Best offer of a filler, where it can be known: on devnets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_bid: Option<FillerOffer>,
    /// Time of its signature, in milliseconds since the Unix epoch; `None` while it is unsigned, and in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<u64>,
    /// Last second in which the order can be filled, since the Unix epoch.
    pub deadline: u64,
    /// Fill of the order, once it is filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<OrderFill>,
    /// Transaction that cancelled the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<TxPlace>,
    /// Location of the funds, in one sentence.
    pub money: SafeText,
    /// Obstacle, or reason of the outcome; empty if there is none.
    pub remark: SafeText,
}

impl OrderUpdate {
    /// True for a limit order: it asks for more than the pools paid when it was signed. An auction may end below that.
    pub fn is_limit(&self) -> bool {
        let raw = |amount: &str| TokenAmount::parse(amount, self.token_out.decimals).ok().map(|amount| amount.raw());
        raw(&self.end_amount).zip(raw(&self.quoted_out)).is_some_and(|(least, quoted)| least > quoted)
    }

    /// Name of the order's kind for people.
    pub fn kind_word(&self) -> &'static str {
        if self.is_limit() { "Limit order" } else { "Auction" }
    }
}

/// Status of a bridge order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    /// Signed; not yet locked on the source chain.
    Pending,
    /// Locked on the source chain; fillers are working on it.
    Filling,
    /// Delivered on the destination chain.
    Filled,
    /// Past its fill deadline without delivery; the funds can be refunded.
    Expired,
    /// Funds returned on the source chain.
    Refunded,
}

impl IntentStatus {
    /// True if the status can no longer change.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Filled | Self::Refunded => true,
            Self::Pending | Self::Filling | Self::Expired => false,
        }
    }

    /// Written form of the status.
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

/// Payload of `intent:update`: everything that a card shows of a bridge order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentUpdate {
    /// Id of the intent: the hash of the order.
    pub intent_id: B256,
    /// Status of the intent.
    pub status: IntentStatus,
    /// Name of the source chain.
    pub source_chain: SafeText,
    /// Name of the destination chain.
    pub destination_chain: SafeText,
    /// Time of its signature, in milliseconds since the Unix epoch; `None` while it is unsigned, and in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_at: Option<u64>,
    /// Input token on the source chain.
    pub token_in: CardToken,
    /// Output token on the destination chain.
    pub token_out: CardToken,
    /// Full input amount.
    pub amount_in: String,
    /// Minimum output amount.
    pub min_out: String,
    /// Estimated output amount.
    pub estimated_output: String,
    /// Recipient on the destination chain.
    pub recipient: Address,
    /// Contract that holds the funds while the order is open.
    pub settler: Address,
    /// Offers of fillers, the best first.
    pub bids: Vec<FillerOffer>,
    /// Transaction that locked the funds on the source chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<TxPlace>,
    /// Transaction of the delivery on the destination chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<TxPlace>,
    /// Account that delivered; absent until there is a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filler: Option<Address>,
    /// Transaction of the filler's repayment on the source chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaid: Option<TxPlace>,
    /// Transaction of the refund on the source chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded: Option<TxPlace>,
    /// Delivered amount, confirmed by the balance on the destination chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_out: Option<String>,
    /// Last second in which the order can be delivered, since the Unix epoch.
    pub fill_deadline: u64,
    /// First second in which the settler refunds an undelivered order, since the Unix epoch; absent if the settler's
    /// refund delay is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_from: Option<u64>,
    /// Location of the funds, in one sentence.
    pub money: SafeText,
    /// Obstacle, or reason of the outcome; empty if there is none.
    pub remark: SafeText,
}
