//! Detection of the operator's absence, and the summary of what happened meanwhile.

use rust_decimal::{Decimal, RoundingStrategy};

use super::feed::{Counts, Feed};
use crate::format::grouped;
use crate::widgets::figure::paid;
use bardo_base::units::{TokenAmount, Usd};

/// Time without a key after which the operator counts as absent, in milliseconds.
const IDLE_MILLIS: u64 = 300_000;
/// Minimum duration of an absence that gets a summary, in milliseconds.
const LEAST_MILLIS: u64 = 60_000;

/// Summary of an absence of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Start of the absence, in milliseconds since the Unix epoch.
    pub since: u64,
    /// End of the absence, in milliseconds since the Unix epoch.
    pub until: u64,
    /// Counts of what happened during the absence.
    pub counts: Counts,
    /// Equity before and after, if both are known.
    pub equity: Option<(Usd, Usd)>,
    /// Price of the first chain's native token at the end, in dollars, if known.
    pub price: Option<Decimal>,
}

impl Summary {
    /// Gas cost during the absence in dollars, or in ETH if the price is unknown. `None` without gas costs.
    pub fn gas(&self) -> Option<String> {
        let wei = self.counts.gas_wei;
        if wei.is_zero() {
            return None;
        }
        let coins = TokenAmount::ether(wei).to_string();
        let dollars = self.price.and_then(|price| coins.parse::<Decimal>().ok()?.checked_mul(price));
        let cents = dollars.map(|dollars| dollars.round_dp_with_strategy(2, RoundingStrategy::AwayFromZero));
        Some(match cents {
            Some(cents) => format!("${}", grouped(&format!("{cents:.2}"))),
            None => format!("{} ETH", paid(&coins)),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AbsenceStart {
    at: u64,
    counts: Counts,
    equity: Option<Usd>,
}

/// State of the absence detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    touched_at: u64,
    left: Option<AbsenceStart>,
    summary: Option<Summary>,
}

impl Away {
    /// Starts with a present operator.
    pub fn new(now: u64) -> Self {
        Self { touched_at: now, left: None, summary: None }
    }

    /// Summary of the last absence, until it is dismissed or the next one ends.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Starts an absence because the terminal lost the focus.
    pub fn lost(&mut self, now: u64, feed: &Feed) {
        if self.left.is_none() {
            let equity = feed.equity.back().map(|(_, equity)| *equity);
            self.left = Some(AbsenceStart { at: now, counts: feed.counts.clone(), equity });
        }
    }

    /// Starts an absence, dated back to the last key, if no key was pressed for long enough.
    pub fn idle(&mut self, now: u64, feed: &Feed) {
        if now >= self.touched_at.saturating_add(IDLE_MILLIS) && self.left.is_none() {
            self.lost(now, feed);
            if let Some(left) = &mut self.left {
                left.at = self.touched_at;
            }
        }
    }

    /// Ends an absence. Creates a summary if it was long enough.
    pub fn back(&mut self, now: u64, feed: &Feed) {
        self.touched_at = now;
        let Some(left) = self.left.take() else { return };
        if now < left.at.saturating_add(LEAST_MILLIS) {
            return;
        }
        let (was, is) = (left.counts, &feed.counts);
        let counts = Counts {
            trades: is.trades.saturating_sub(was.trades),
            blocked: is.blocked.saturating_sub(was.blocked),
            lapsed: is.lapsed.saturating_sub(was.lapsed),
            refused: is.refused.saturating_sub(was.refused),
            failed: is.failed.saturating_sub(was.failed),
            phases: is.phases.saturating_sub(was.phases),
            gas_wei: is.gas_wei.saturating_sub(was.gas_wei),
        };
        let equity = left.equity.zip(feed.equity.back().map(|(_, equity)| *equity));
        let price = feed.prices.back().map(|(_, price)| *price);
        self.summary = Some(Summary { since: left.at, until: now, counts, equity, price });
    }

    /// Discards the summary.
    pub fn dismiss(&mut self) {
        self.summary = None;
    }
}
