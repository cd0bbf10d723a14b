//! The whole story of a call: what was asked, every check, what was simulated, decided, signed, and whether the chain
//! agrees; with its entries on the trail.

use serde_json::json;

use super::feed::{CallSeen, Feed};
use crate::base::id::CallId;
use crate::console::keymap::Action;
use crate::console::widgets::plain::tool_word;
use crate::runtime::handle::Found;

/// The story of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// Which call.
    pub call_id: CallId,
    /// Lines scrolled past.
    pub offset: usize,
    /// Its entries on the trail, once they are found.
    pub trail: Option<Box<Found>>,
}

impl Story {
    /// A story about to be looked up.
    pub fn new(call_id: CallId) -> Self {
        Self { call_id, offset: 0, trail: None }
    }

    /// Moves through it.
    pub fn scroll(&mut self, action: Action, rows: usize) {
        let half = (rows / 2).max(1);
        self.offset = match action {
            Action::Down => self.offset.saturating_add(1),
            Action::Up => self.offset.saturating_sub(1),
            Action::HalfPageDown => self.offset.saturating_add(half),
            Action::HalfPageUp => self.offset.saturating_sub(half),
            Action::Top => 0,
            Action::Bottom => usize::MAX,
            _ => self.offset,
        };
    }

    /// The story as JSON.
    pub fn json(&self, feed: &Feed) -> String {
        let call = feed.call(self.call_id);
        let told = json!({
            "call_id": self.call_id,
            "tool": call.map(CallSeen::tool),
            "params": call.and_then(|call| call.start.as_ref()).map(|start| start.params.value()),
            "checks": call.map(|call| &call.checks),
            "offer": call.and_then(|call| call.offer.as_ref()),
            "decision": call.and_then(|call| call.resolved.as_ref()),
            "transactions": call.map(|call| call.transactions.iter().map(|(_, update)| update).collect::<Vec<_>>()),
            "error": call.and_then(|call| call.error.as_ref()),
            "end": call.and_then(|call| call.end.as_ref()),
            "verified": call.and_then(|call| call.verified.as_ref()),
            "trail": self.trail,
        });
        serde_json::to_string_pretty(&told).unwrap_or_default()
    }
}

/// What a call is, in a few words: its parameters where they are a trade's.
pub fn title(call: &CallSeen) -> String {
    trade(call).unwrap_or_else(|| name(call))
}

/// The same with what it does before it: `Swap 0.25 WETH → USDC`, `Revoke WETH`.
pub fn name(call: &CallSeen) -> String {
    let does = tool_word(call.tool());
    match trade(call).or_else(|| param(call, "token").map(str::to_owned)) {
        Some(what) => format!("{does} {what}"),
        None => does,
    }
}

fn trade(call: &CallSeen) -> Option<String> {
    Some(format!("{} {} → {}", param(call, "amount")?, param(call, "token_in")?, param(call, "token_out")?))
}

fn param<'c>(call: &'c CallSeen, name: &str) -> Option<&'c str> {
    call.start.as_ref()?.params.value().get(name)?.as_str()
}
