//! Profit and loss of the session's account, as screens show it. The figures are computed elsewhere.

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

use crate::market::MoneyKind;
use bardo_base::text::SafeText;
use bardo_base::units::{SignedUsd, Usd};

/// Profit and loss over all sessions on this ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PnlState {
    /// True for the results of paper trading, which are kept apart.
    pub paper: bool,
    /// Account that the results are of; `None` without one.
    pub account: Option<Address>,
    /// Kind of the money: results of other kinds are left out. `None` if it is not known.
    pub money: Option<MoneyKind>,
    /// Sums of everything.
    pub total: PnlSums,
    /// Unrealised gain of the holdings with a known cost and price; `None` if there are none.
    pub unrealised: Option<SignedUsd>,
    /// Number of holdings that the unrealised gain leaves out, because a price or a cost is missing.
    pub unvalued: u64,
    /// Results by token, in the order of chains and tokens.
    pub tokens: Vec<PnlToken>,
    /// Number of tokens beyond those listed; the sums have them.
    pub more_tokens: u64,
    /// Results by day, oldest first; the last days only, with those without entries whose unrealised gain is known.
    pub days: Vec<PnlDay>,
    /// Number of balances that agree with the chain to the last unit.
    pub even: u32,
    /// Balances that differ, one line each with the difference.
    pub differences: Vec<SafeText>,
    /// Tokens that are not, or not wholly, in the results, one line each with the reason.
    pub left_out: Vec<SafeText>,
    /// Reason why the books are not up to date; `None` if they are.
    pub fault: Option<SafeText>,
}

/// Sums of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PnlSums {
    /// Number of trades.
    pub trades: u64,
    /// Gains and losses realised, without gas and fees.
    pub realised: SignedUsd,
    /// Value of the gas paid.
    pub gas: Usd,
    /// Fees of bridge orders; a gain if prices made them so.
    pub fees: SignedUsd,
    /// Realised result after gas and fees.
    pub net: SignedUsd,
    /// Number of entries in which a price or a cost is missing.
    pub incomplete: u64,
}

/// Results of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PnlToken {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Name of the chain.
    pub chain: SafeText,
    /// Sums of the token.
    pub sums: PnlSums,
    /// Unrealised gain; `None` without a price or a known cost.
    pub unrealised: Option<SignedUsd>,
}

/// Results of a day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PnlDay {
    /// Midnight at which the day begins, in seconds since the Unix epoch.
    pub begins: u64,
    /// Sums of the day.
    pub sums: PnlSums,
    /// Realised result after gas and fees since the beginning of the books.
    pub net_so_far: SignedUsd,
    /// Unrealised gain at the day's end; `None` if a price is missing.
    pub unrealised: Option<SignedUsd>,
    /// Number of entries of the day.
    pub entries: u64,
}
