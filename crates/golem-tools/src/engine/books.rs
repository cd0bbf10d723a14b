//! Profit and loss as tools see it. The books are kept above this crate, which only asks for their sums.

use std::fmt;

use alloy::primitives::Address;
use futures::future::BoxFuture;

use bardo_base::error::ToolError;
use bardo_base::text::SafeText;
use bardo_base::units::{SignedUsd, Usd};

/// Books of one account on all connected chains.
pub trait AccountBooks: fmt::Debug + Send + Sync {
    /// Account that the books are about.
    fn account(&self) -> Address;

    /// Brings the books up to date with the chains, and sums what happened from `from`, in seconds since the Unix epoch.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the books cannot be read, or a figure is out of range.
    fn since(&self, from: u64) -> BoxFuture<'_, Result<BooksSums, ToolError>>;
}

/// Sums of an account's books over a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BooksSums {
    /// Number of trades.
    pub trades: u64,
    /// Gains and losses realised first in, first out, without gas and fees.
    pub realised: SignedUsd,
    /// Value of the gas paid.
    pub gas: Usd,
    /// Fees of bridge orders; a gain if prices made it so.
    pub fees: SignedUsd,
    /// Realised result after gas and fees.
    pub net: SignedUsd,
    /// Unrealised gain of everything that is held now; `None` if the price of a holding with a cost is not known.
    pub unrealised: Option<SignedUsd>,
    /// Number of entries in which a price or a cost is missing, which are therefore in no sum.
    pub incomplete: u64,
    /// Chains that could not be read now, with the reason: their entries may be missing.
    pub faults: Vec<SafeText>,
}
