//! While nobody looks: since when, and what happened then.

use rust_decimal::{Decimal, RoundingStrategy};

use super::feed::{Counts, Feed};
use crate::format::grouped;
use crate::widgets::figure::paid;
use bardo_base::units::{TokenAmount, Usd};

/// Nobody has touched a key for so long: nobody looks.
const IDLE_MILLIS: u64 = 300_000;
/// Shorter absences are worth no summary.
const LEAST_MILLIS: u64 = 60_000;

/// What happened while nobody looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Since when, in milliseconds since the Unix epoch.
    pub since: u64,
    /// Until when.
    pub until: u64,
    /// What came of everything meanwhile.
    pub counts: Counts,
    /// What everything was worth before and after, where both are known.
    pub equity: Option<(Usd, Usd)>,
    /// What the first chain's coin cost at the end of it, where that is known.
    pub price: Option<Decimal>,
}

impl Summary {
    /// What gas cost meanwhile, in dollars, and where there is no price in whole coins; `None` where nothing did.
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
struct Left {
    at: u64,
    counts: Counts,
    equity: Option<Usd>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    touched_at: u64,
    left: Option<Left>,
    summary: Option<Summary>,
}

impl Away {
    /// Somebody looks.
    pub fn new(now: u64) -> Self {
        Self { touched_at: now, left: None, summary: None }
    }

    /// The summary of the last absence, until the next one.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// The terminal went behind.
    pub fn lost(&mut self, now: u64, feed: &Feed) {
        if self.left.is_none() {
            let equity = feed.equity.back().map(|(_, equity)| *equity);
            self.left = Some(Left { at: now, counts: feed.counts.clone(), equity });
        }
    }

    /// Time passes.
    pub fn idle(&mut self, now: u64, feed: &Feed) {
        if now >= self.touched_at.saturating_add(IDLE_MILLIS) && self.left.is_none() {
            self.lost(now, feed);
            if let Some(left) = &mut self.left {
                left.at = self.touched_at;
            }
        }
    }

    /// Somebody looks again.
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

    /// The summary has been read.
    pub fn dismiss(&mut self) {
        self.summary = None;
    }
}
