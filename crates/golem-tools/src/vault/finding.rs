//! Reasons for caution about a vault, a deposit or a withdrawal, as typed findings.

use std::fmt;

use alloy::primitives::{U256, U512};
use schemars::JsonSchema;
use serde::Serialize;

use crate::lending::percent;

/// Reason for caution about a vault. Amounts are in whole tokens or whole shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum VaultFinding {
    /// The share price rose faster than earnings explain. A donation does this, and so does the beginning of an inflation
    /// attack.
    PriceJump {
        /// Past block to compare with.
        since_block: u64,
        /// Rise since then in percent, rounded up.
        rise_pct: String,
    },
    /// The share price fell: the vault lost some of what it held.
    PriceFall {
        /// Past block to compare with.
        since_block: u64,
        /// Fall since then in percent, rounded up.
        fall_pct: String,
    },
    /// There is less than a thousandth of one whole share, so that a small donation moves the share price by much.
    FewShares {
        /// Supply of whole shares.
        shares: String,
    },
    /// The deposit would give no share at all: its value would go to those who hold shares already.
    NoShares,
    /// The vault gives less than its own preview in the same block.
    PreviewTooHigh {
        /// Amount in the preview: shares of a deposit, tokens of a withdrawal.
        previewed: String,
        /// Amount that the simulated call gave.
        simulated: String,
        /// Difference in percent of the preview, rounded up.
        less_pct: String,
    },
    /// Depositing and withdrawing at once would lose something: a fee, or rounding at a high share price.
    RoundTripCost {
        /// Loss in percent of the deposit, rounded up.
        cost_pct: String,
    },
    /// The vault takes another amount than the deposit's.
    TakesOther {
        /// Amount that it took.
        taken: String,
    },
    /// The amount is above what the vault says that it takes or gives now.
    OverLimit {
        /// Limit: tokens of a deposit, shares of a withdrawal.
        limit: String,
    },
    /// The vault is paused: nothing is requested, settled, claimed or cancelled there now.
    Paused,
    /// Its manager settles requests. Price and time of that are open, and so whether it happens at all.
    SettledLater,
    /// A request to deposit waits for the vault's manager and can no longer be cancelled.
    RequestStuck {
        /// Tokens of the request.
        amount: String,
    },
    /// The deposit is refused.
    DepositFails {
        /// Reason of the contract.
        why: String,
    },
    /// The withdrawal is refused; after a deposit, its shares could not be redeemed.
    WithdrawalFails {
        /// Reason of the contract.
        why: String,
    },
}

impl fmt::Display for VaultFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PriceJump { since_block, rise_pct } => {
                write!(f, "the share price rose by {rise_pct} % since block {since_block}")
            }
            Self::PriceFall { since_block, fall_pct } => {
                write!(f, "the share price fell by {fall_pct} % since block {since_block}")
            }
            Self::FewShares { shares } => write!(f, "there are only {shares} shares, so a donation moves their price"),
            Self::NoShares => write!(f, "the deposit would give no shares"),
            Self::PreviewTooHigh { previewed, simulated, less_pct } => {
                write!(f, "it gives {simulated} where its preview says {previewed}, {less_pct} % less")
            }
            Self::RoundTripCost { cost_pct } => write!(f, "withdrawing at once would lose {cost_pct} %"),
            Self::TakesOther { taken } => write!(f, "it takes {taken}, not the amount"),
            Self::OverLimit { limit } => write!(f, "the vault's limit is {limit} now"),
            Self::Paused => write!(f, "the vault is paused"),
            Self::SettledLater => {
                write!(f, "its manager settles requests, at a price and a time that nobody knows before")
            }
            Self::RequestStuck { amount } => {
                write!(f, "the request to deposit {amount} waits for the manager and can no longer be cancelled")
            }
            Self::DepositFails { why } => write!(f, "the deposit fails: {why}"),
            Self::WithdrawalFails { why } => write!(f, "the withdrawal fails: {why}"),
        }
    }
}

/// Findings in one sentence; empty without any.
pub(crate) fn sentence(findings: &[VaultFinding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let each: Vec<String> = findings.iter().map(VaultFinding::to_string).collect();
    format!(" Caution: {}.", each.join("; "))
}

/// `part` of `whole` in basis points, rounded up; the largest number if `whole` is zero or the share is out of range.
pub(crate) fn share(part: U256, whole: U256) -> u32 {
    if whole.is_zero() {
        return if part.is_zero() { 0 } else { u32::MAX };
    }
    (U512::from(part) * U512::from(10_000_u32)).div_ceil(U512::from(whole)).saturating_to()
}

/// [`share`] in percent.
pub(crate) fn share_pct(part: U256, whole: U256) -> String {
    percent(share(part, whole))
}
