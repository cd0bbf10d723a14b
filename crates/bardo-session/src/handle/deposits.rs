//! Deposits of the session's account with a bridge's pool, as screens show them. They are read elsewhere, from both chains.

use serde::{Deserialize, Serialize};

use bardo_base::fabric::TxPlace;
use bardo_base::text::SafeText;

/// Deposits of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositsState {
    /// Deposits of the last days, the newest first.
    pub rows: Vec<DepositRow>,
    /// Reason why the deposits of a chain could not be read; `None` if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SafeText>,
}

/// Stage of a deposit, by the logs of both chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepositStage {
    /// A relayer can fill it.
    Waiting,
    /// The destination's pool was asked to pay it itself.
    SlowFillAsked,
    /// A relayer paid it.
    Filled,
    /// The destination's pool paid it itself.
    FilledSlowly,
    /// Its deadline has passed, and nobody filled it.
    Expired,
    /// It expired, and the source's pool paid it back.
    Refunded,
    /// The chains contradict each other, or cannot be read.
    Unclear,
}

impl DepositStage {
    /// True if nothing more can become of it.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Filled | Self::FilledSlowly | Self::Refunded => true,
            Self::Waiting | Self::SlowFillAsked | Self::Expired | Self::Unclear => false,
        }
    }

    /// Word for the stage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::SlowFillAsked => "slow fill asked",
            Self::Filled => "filled",
            Self::FilledSlowly => "slow-filled",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::Unclear => "unclear",
        }
    }
}

/// Deposit with a bridge's pool. Amounts are decimal strings of whole tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositRow {
    /// Id of the deposit on its source.
    pub id: SafeText,
    /// Name of the source chain.
    pub source_chain: SafeText,
    /// Name of the destination chain; its id if it is not connected.
    pub destination_chain: SafeText,
    /// Stage that it has reached.
    pub stage: DepositStage,
    /// Amount that was deposited.
    pub amount_in: String,
    /// Symbol of the deposited token; its address if it is not listed.
    pub token_in: SafeText,
    /// Amount that it asks for.
    pub amount_asked: String,
    /// Amount that arrived, by the token's own transfers; `None` before.
    pub amount_received: Option<String>,
    /// Symbol of the received token; its address if it is not listed.
    pub token_out: SafeText,
    /// Last second in which it can be filled, since the Unix epoch, by the destination's time.
    pub fill_deadline: u64,
    /// Time of its block, in milliseconds since the Unix epoch.
    pub deposited_at: u64,
    /// Transaction of the deposit.
    pub deposited: TxPlace,
    /// Transaction in which the destination's pool was asked to pay it itself.
    pub slow_fill_asked: Option<TxPlace>,
    /// Transaction of the fill, on the destination.
    pub filled: Option<TxPlace>,
    /// Account that is repaid for the fill.
    pub relayer: Option<SafeText>,
    /// Transaction of the refund, on the source.
    pub refunded: Option<TxPlace>,
    /// Reason for an unclear state, or empty.
    pub remark: SafeText,
}
