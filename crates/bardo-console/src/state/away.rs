//! Detection of the operator's absence, and the summary of what happened meanwhile.

use rust_decimal::{Decimal, RoundingStrategy};

use super::feed::{Counts, Feed};
use crate::format::grouped;
use crate::widgets::figure::paid;
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};
use bardo_session::handle::{SessionSnapshot, TransactionsState};

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
    /// Names of the chains on which nothing is signed at the end, because something else has used the account.
    pub blocked_chains: Vec<SafeText>,
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

/// Counts and value at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Baseline {
    at: u64,
    counts: Counts,
    equity: Option<Usd>,
}

/// Source of a summary, as it is known now.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Counts and prices of the session.
    pub feed: &'a Feed,
    /// Newest snapshot, whose equity the header shows.
    pub snapshot: Option<&'a SessionSnapshot>,
}

impl Known<'_> {
    fn equity(&self) -> Option<Usd> {
        self.snapshot.and_then(|snapshot| snapshot.equity)
    }

    fn baseline(&self, at: u64) -> Baseline {
        Baseline { at, counts: self.feed.counts.clone(), equity: self.equity() }
    }
}

/// State of the absence detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// State at the last key.
    touched: Baseline,
    left: Option<Baseline>,
    summary: Option<Summary>,
}

impl Away {
    /// Starts with a present operator.
    pub fn new(now: u64) -> Self {
        let touched = Baseline { at: now, counts: Counts::default(), equity: None };
        Self { touched, left: None, summary: None }
    }

    /// Summary of the last absence, until it is dismissed or the next one ends.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Starts an absence because the terminal lost the focus.
    pub fn lost(&mut self, now: u64, known: Known<'_>) {
        if self.left.is_none() {
            self.left = Some(known.baseline(now));
        }
    }

    /// Starts an absence at the last key, with what was known then, if no key was pressed for long enough.
    pub fn idle(&mut self, now: u64, known: Known<'_>) {
        if self.left.is_some() {
            return;
        }
        // The value may become known only after the last key, as when the session begins.
        if self.touched.equity.is_none() {
            self.touched.equity = known.equity();
        }
        if now >= self.touched.at.saturating_add(IDLE_MILLIS) {
            self.left = Some(self.touched.clone());
        }
    }

    /// Ends an absence. Creates a summary if it was long enough.
    pub fn back(&mut self, now: u64, known: Known<'_>) {
        self.touched = known.baseline(now);
        let feed = known.feed;
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
        let equity = left.equity.zip(known.equity());
        let price = feed.prices.back().map(|(_, price)| *price);
        let transactions = known.snapshot.and_then(|snapshot| snapshot.transactions.as_deref());
        let blocked_chains = transactions.into_iter().flat_map(TransactionsState::used_outside).cloned().collect();
        self.summary = Some(Summary { since: left.at, until: now, counts, equity, price, blocked_chains });
    }

    /// Discards the summary.
    pub fn dismiss(&mut self) {
        self.summary = None;
    }
}
