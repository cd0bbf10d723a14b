//! Details of a call: request, checks, simulation, decision, signatures, verification, and its audit log entries.

use std::borrow::Cow;

use alloy_primitives::B256;
use serde_json::json;

use super::feed::{CallSeen, Feed};
use super::model::{MoneyKind, Page};
use crate::scroll::ScrollOffset;
use crate::widgets::figure::paid;
use crate::widgets::plain::tool_word;
use bardo_base::chains;
use bardo_base::format::short_address;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::handle::{GrantState, QueryResult};

/// State of the details page of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallDetails {
    /// Id of the call.
    pub call_id: CallId,
    /// First line of the page to show.
    pub offset: ScrollOffset,
    /// Reply with its audit log entries; `None` until it arrives.
    pub audit_rows: Option<Box<QueryResult>>,
}

impl CallDetails {
    /// Creates the details page before its audit log entries arrive.
    pub fn new(call_id: CallId) -> Self {
        Self { call_id, offset: ScrollOffset::default(), audit_rows: None }
    }

    /// Details of the call as JSON.
    pub fn json(&self, feed: &Feed) -> String {
        let call = feed.call(self.call_id);
        let details = json!({
            "call_id": self.call_id,
            "tool": call.map(CallSeen::tool),
            "params": call.and_then(|call| call.start.as_ref()).map(|start| start.params.value()),
            "checks": call.map(|call| &call.checks),
            "offer": call.and_then(|call| call.offer.as_ref()),
            "decision": call.and_then(|call| call.resolved.as_ref()),
            "transactions": call.map(|call| call.transactions.iter().map(|(_, update)| update).collect::<Vec<_>>()),
            "error": call.and_then(|call| call.error.as_ref()),
            "end": call.and_then(|call| call.end()),
            "verified": call.and_then(|call| call.verified.as_ref()),
            "trail": self.audit_rows,
        });
        serde_json::to_string_pretty(&details).unwrap_or_default()
    }
}

/// Subject of a call in a few words: the trade and its chains, a token, or the chain. Its kind is returned by [`word`].
pub fn title(call: &CallSeen) -> String {
    title_with(call, None)
}

/// Subject of a call in a few words, with another amount than the one of its parameters if one is given.
fn title_with(call: &CallSeen, amount: Option<&str>) -> String {
    let params = call.start.as_ref().map(|start| start.params.value());
    let text = |name: &str| params.and_then(|params| params.get(name)).and_then(|value| value.as_str());
    let ends = text("source_chain").zip(text("destination_chain"));
    match (
        amount.or_else(|| text("amount")).map(paid),
        text("token_in").map(token_words),
        text("token_out").map(token_words),
        ends,
    ) {
        (Some(amount), Some(from), to, Some((source, destination))) => {
            let got = to.filter(|to| to != &from).map(|to| format!(" as {to}")).unwrap_or_default();
            format!("{amount} {from} {source} → {destination}{got}")
        }
        (Some(amount), Some(from), Some(to), None) => format!("{amount} {from} → {to}"),
        _ => text("token").map(token_words).or_else(|| text("chain").map(Into::into)).unwrap_or_default().into_owned(),
    }
}

/// Name of a token as a call gives it, with an address in its short form.
fn token_words(token: &str) -> Cow<'_, str> {
    token.parse().map_or(Cow::Borrowed(token), |address| Cow::Owned(short_address(address)))
}

/// Scheme of a devnet transaction's address, which only the console itself can show.
pub const OWN_PAGES: &str = "bardo://";

/// Address of a call's newest transaction in its block explorer, or in the console on a devnet. `None` without one.
pub fn link(call: &CallSeen, page: &Page) -> Option<String> {
    let (_, update) = call.transactions.last()?;
    Some(transaction_link(update.chain_id, update.hash, page))
}

/// Address of a transaction in its block explorer, or in the console if there is none.
pub fn transaction_link(chain_id: u64, hash: B256, page: &Page) -> String {
    let devnet =
        page.network.as_ref().is_none_or(|network| matches!(network.money, MoneyKind::Play | MoneyKind::Rehearsal));
    let outside = chains::known(chain_id).filter(|_| !devnet).map(|chain| chain.explorer);
    match outside {
        Some(explorer) => format!("{explorer}/tx/{hash}"),
        None => format!("{OWN_PAGES}tx/{hash}"),
    }
}

/// Kind and subject of a call in one line.
pub fn named(call: &CallSeen) -> String {
    format!("{} {}", word(call.tool()), title(call)).trim_end().to_owned()
}

/// Kind and subject of a call as the operator was asked about it: a smaller amount that was answered came later.
pub fn named_as_asked(call: &CallSeen) -> String {
    format!("{} {}", word(call.tool()), title_with(call, call.asked_amount.as_deref())).trim_end().to_owned()
}

/// Tool and tokens of a standing approval.
pub fn grant_words(grant: &GrantState) -> String {
    let tokens: Vec<&str> = grant.tokens.iter().map(SafeText::as_str).collect();
    format!("{} {}", word(grant.tool.as_str()), tokens.join(" ")).trim_end().to_owned()
}

/// Display name of a tool.
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
