//! Reads of the pool browser: pools of a token with depth and volume, and then the pools of each pair, which include V4.

use serde_json::{Value, json};

use crate::painter::StyledText;
use crate::screens::ScreenContext;
use crate::screens::reading::{OLD_MILLIS, ReadPurpose, ReadValue, failure};
use crate::widgets::figure::text;
use crate::widgets::pool::{MOST_POOLS, Pool};
use bardo_base::text::SafeText;
use bardo_session::envelope::ToolResponse;

/// Window of the volumes, in hours.
const WINDOW_HOURS: u64 = 24;
/// Maximum number of pairs whose pools are read one by one.
const MOST_PAIRS: usize = 5;

/// Token on a chain whose pools are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolScope {
    /// Index of the chain in the network.
    pub(super) chain: usize,
    /// Name of the chain.
    pub(super) name: SafeText,
    /// Symbol of the token.
    pub(super) token: SafeText,
}

/// Read of the browser.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// Pools of a token with depth and volume: V2 and V3.
    List(PoolScope),
    /// Pools of a token and this other one: also V4.
    Pair(PoolScope, SafeText),
}

impl Purpose {
    pub(super) const fn scope(&self) -> &PoolScope {
        match self {
            Self::List(scope) | Self::Pair(scope, _) => scope,
        }
    }
}

impl ReadPurpose for Purpose {
    fn call(&self) -> (&'static str, Value) {
        match self {
            Self::List(scope) => (
                "list_pools",
                json!({
                    "chain": scope.name.as_str(), "token": scope.token.as_str(), "limit": MOST_POOLS,
                    "volume_hours": WINDOW_HOURS,
                }),
            ),
            Self::Pair(scope, quote) => (
                "get_pool_info",
                json!({ "chain": scope.name.as_str(), "token_a": scope.token.as_str(), "token_b": quote.as_str() }),
            ),
        }
    }
}

/// Pools of one token, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct TokenPools {
    list: ReadValue<Vec<Pool>>,
    /// Pools of single pairs, with the other token.
    pairs: Vec<(SafeText, ReadValue<Vec<Pool>>)>,
    /// All pools, merged.
    merged: Vec<Pool>,
    /// Hours of the window, and whether all of it was read.
    window: Option<(u64, bool)>,
    /// Start of the newest reading, in milliseconds of the machine's clock.
    pub(super) asked_at: Option<u64>,
}

impl TokenPools {
    pub(super) fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.merged.iter()
    }

    pub(super) fn window(&self) -> (u64, bool) {
        self.window.unwrap_or((WINDOW_HOURS, true))
    }

    pub(super) const fn was_read(&self) -> bool {
        self.list.read_at().is_some()
    }

    pub(super) fn is_old(&self, now: u64) -> bool {
        self.asked_at.is_none_or(|at| now >= at.saturating_add(OLD_MILLIS))
    }

    pub(super) fn age(&self, known: &ScreenContext<'_>) -> Option<StyledText> {
        self.list.age(known)
    }

    /// Parts whose newest reading failed, with the reason.
    pub(super) fn faults(&self) -> impl Iterator<Item = (String, &SafeText)> {
        let list = self.list.fault.iter().map(|why| ("depth and volume".to_owned(), why));
        let pairs =
            self.pairs.iter().filter_map(|(quote, read)| Some((format!("pools with {quote}"), read.fault.as_ref()?)));
        list.chain(pairs)
    }

    fn pair_mut(&mut self, quote: &SafeText) -> Option<&mut ReadValue<Vec<Pool>>> {
        if !self.pairs.iter().any(|(of, _)| of == quote) {
            self.pairs.push((quote.clone(), ReadValue::default()));
        }
        self.pairs.iter_mut().find(|(of, _)| of == quote).map(|(_, read)| read)
    }

    /// Records that a read brought nothing.
    pub(super) fn fail(&mut self, purpose: &Purpose, why: &str) {
        match purpose {
            Purpose::List(_) => self.list.fail(why),
            Purpose::Pair(_, quote) => {
                if let Some(read) = self.pair_mut(quote) {
                    read.fail(why);
                }
            }
        }
    }

    /// Stores a reply. Returns the reads that follow from it.
    pub(super) fn receive(&mut self, purpose: &Purpose, response: &ToolResponse, now: u64) -> Vec<Purpose> {
        let Some(data) = response.data.as_ref().filter(|_| response.error.is_none()) else {
            self.fail(purpose, failure(response));
            return Vec::new();
        };
        let entries = || data.get("pools").and_then(Value::as_array).into_iter().flatten().take(MOST_POOLS);
        let next = match purpose {
            Purpose::List(scope) => {
                let read: Vec<Pool> = entries().filter_map(Pool::from_list).collect();
                let hours = data.get("volume_hours").and_then(Value::as_u64).unwrap_or(WINDOW_HOURS);
                let complete = data.get("volume_complete").and_then(Value::as_bool).unwrap_or_default();
                self.window = Some((hours, complete));
                let mut quotes: Vec<SafeText> = Vec::new();
                for pool in &read {
                    let [_, quote] = &pool.tokens;
                    if !quotes.contains(quote) && quotes.len() < MOST_PAIRS {
                        quotes.push(quote.clone());
                    }
                }
                self.pairs.retain(|(quote, _)| quotes.contains(quote));
                self.list.set(read, now);
                quotes.into_iter().map(|quote| Purpose::Pair(scope.clone(), quote)).collect()
            }
            Purpose::Pair(scope, quote) => {
                let tokens = [scope.token.clone(), text(data, "token_b").unwrap_or_else(|| quote.clone())];
                let read = entries().filter_map(|entry| Pool::from_info(tokens.clone(), entry)).collect();
                if let Some(pair) = self.pair_mut(quote) {
                    pair.set(read, now);
                }
                Vec::new()
            }
        };
        self.merge();
        next
    }

    /// Joins both readings: those with depth first, in their order, then the others by value.
    fn merge(&mut self) {
        self.merged = self.list.value.clone().unwrap_or_default();
        let mut others: Vec<&Pool> = Vec::new();
        for pool in self.pairs.iter().filter_map(|(_, read)| read.value.as_ref()).flatten() {
            match self.merged.iter_mut().find(|known| known.id.as_str().eq_ignore_ascii_case(pool.id.as_str())) {
                Some(known) => known.add(pool),
                None => others.push(pool),
            }
        }
        others.sort_by_key(|pool| std::cmp::Reverse(pool.holds.map(|holds| holds.decimal())));
        let others: Vec<Pool> = others.into_iter().cloned().collect();
        self.merged.extend(others);
    }
}
