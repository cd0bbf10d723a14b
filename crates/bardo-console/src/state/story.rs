//! The whole story of a call: what was asked, every check, what was simulated, decided, signed, and whether the chain
//! agrees; with its entries on the trail.

use std::borrow::Cow;

use alloy_primitives::B256;
use serde_json::json;

use super::feed::{CallSeen, Feed};
use super::model::{Money, Page};
use crate::keymap::Action;
use crate::widgets::plain::tool_word;
use bardo_base::chains;
use bardo_base::id::CallId;
use bardo_session::handle::Found;

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

/// What a call is about, in a few words: what is traded, and on which chains; a token; what is read. Never its kind,
/// which is [`word`]'s.
pub fn title(call: &CallSeen) -> String {
    let params = call.start.as_ref().map(|start| start.params.value());
    let text = |name: &str| params.and_then(|params| params.get(name)).and_then(|value| value.as_str());
    let ends = text("source_chain").zip(text("destination_chain"));
    match (text("amount"), text("token_in"), text("token_out"), ends) {
        (Some(amount), Some(from), to, Some((source, destination))) => {
            let got = to.filter(|to| *to != from).map(|to| format!(" as {to}")).unwrap_or_default();
            format!("{amount} {from} {source} → {destination}{got}")
        }
        (Some(amount), Some(from), Some(to), None) => format!("{amount} {from} → {to}"),
        _ => text("token").or_else(|| text("chain")).unwrap_or_default().to_owned(),
    }
}

/// What the address of a devnet's transaction begins with: no site has it, this program does.
pub const OWN_PAGES: &str = "bardo://";

/// Where a call's newest transaction can be looked at: on its network's explorer; of a devnet, in this program.
pub fn link(call: &CallSeen, page: &Page) -> Option<String> {
    let (_, update) = call.transactions.last()?;
    Some(transaction_link(update.chain_id, update.hash, page))
}

/// Where a transaction can be looked at.
pub fn transaction_link(chain_id: u64, hash: B256, page: &Page) -> String {
    let devnet = page.network.as_ref().is_none_or(|network| network.money == Money::Play);
    let outside = chains::known(chain_id).filter(|_| !devnet).map(|chain| chain.explorer);
    match outside {
        Some(explorer) => format!("{explorer}/tx/{hash}"),
        None => format!("{OWN_PAGES}tx/{hash}"),
    }
}

/// A call in a line: its kind, and what it is about.
pub fn named(call: &CallSeen) -> String {
    format!("{} {}", word(call.tool()), title(call)).trim_end().to_owned()
}

/// A tool's name as people call it.
pub fn word(tool: &str) -> Cow<'static, str> {
    Cow::Borrowed(match tool {
        "uniswap_get_quote" => "Quote",
        "uniswap_execute_swap" => "Swap",
        "uniswap_check_allowance" => "Allowance",
        "token_approve" => "Approve",
        "token_revoke" => "Revoke",
        "uniswap_submit_uniswapx_order" => "Auction",
        "uniswapx_cancel_order" => "Cancel",
        "uniswap_submit_cross_chain_intent" => "Bridge",
        "intent_refund" => "Refund",
        "" => "Call",
        other => return Cow::Owned(tool_word(other)),
    })
}
