//! Card of a call whose tool has no widget: request and result in a few fields.

use std::collections::BTreeMap;

use alloy_primitives::{B256, U256};
use serde_json::Value;

use super::call::CallModel;
use super::figure::{amount, decimal, paid, readable};
use super::paint::{CardLine, Group, Row, Title};
use super::status::CardStatus;
use super::words::{counted, transaction_words};
use super::{CardView, Moment};
use crate::format::{grouped, short_address, short_hash};
use crate::theme::Role;
use bardo_base::fabric::{EventKind, SimulatedChange, TxState};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;

pub use bardo_base::display::tool_word;

/// Length of a hash with its prefix, in characters.
const HASH_CHARACTERS: usize = 66;
/// Maximum number of fields shown.
const MAX_FIELDS: usize = 12;

/// Model of a plain card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlainModel {
    /// Call that the card shows.
    pub call: CallModel,
    /// Result fields, as name and text.
    pub summary: Vec<(SafeText, SafeText)>,
    /// Result fields for the one-line form.
    pub line: Vec<(SafeText, SafeText)>,
    /// State of its transaction, if it has one.
    pub sent: Option<TxState>,
    /// True if the last transaction of its plan was confirmed.
    pub confirmed: bool,
    /// Balances of the account that the simulation changes, without gas.
    pub moves: Vec<SimulatedChange>,
    /// Gas cost of its transactions in wei, by their hash.
    pub gas: BTreeMap<B256, U256>,
    /// True if the chain agrees with what was declared; `None` before the comparison.
    pub matched: Option<bool>,
}

impl PlainModel {
    /// Creates the card of a requested call.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        Self { call: CallModel::asked(at, tool, params), ..Self::default() }
    }

    /// Applies an event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        match kind {
            EventKind::PermitIssued(permit) => {
                self.moves = permit.changes.iter().filter(|change| !change.gas).cloned().collect();
            }
            EventKind::ToolVerified(verified) => self.matched = Some(verified.matched),
            EventKind::TxUpdate(update) => {
                if let Some(cost) = update.gas_cost_wei {
                    self.gas.insert(update.hash, cost);
                }
            }
            _ => {}
        }
        if let EventKind::TxUpdate(update) = kind {
            self.sent = Some(update.state);
            self.confirmed = update.state == TxState::Confirmed && update.leg >= update.of;
        }
        if let EventKind::ToolEnd(end) = kind {
            self.summary = fields(&end.result_summary);
            self.line = scalar_fields(&end.result_summary);
        }
    }

    /// Words for a call that sends tokens or brings them back; `None` for other tools, and where
    /// the parameters lack something.
    fn subject(&self) -> Option<Subject> {
        let text = |name: &str| self.call.params.get(name).and_then(Value::as_str);
        let found = |name: &str| self.summary.iter().find(|(of, _)| of.as_str() == name).map(|(_, value)| value);
        match self.call.tool.as_str() {
            "wallet_transfer_token" => {
                let sent = format!("{} {}", paid(text("amount")?), address_words(text("token")?));
                let to = address_words(text("recipient")?);
                let on = text("chain_id").map(|chain| format!(" on {chain}")).unwrap_or_default();
                let verb = if self.call.status == CardStatus::Done { "Sent" } else { "Send" };
                Some(Subject {
                    title: format!("{verb} {sent}"),
                    detail: format!("to {to}{on}"),
                    line: format!("{sent} → {to}{on}"),
                })
            }
            "intent_refund" => {
                found("status").filter(|status| status.as_str() == "refunded")?;
                let back = format!("{} {}", found("amount")?, found("token")?);
                let on = found("chain")?;
                Some(Subject {
                    title: format!("Refunded {back}"),
                    detail: format!("back in your wallet on {on}"),
                    line: format!("{back} back on {on}"),
                })
            }
            _ => None,
        }
    }

    /// Balances that the action moves, such as `−0.1 WETH, −365.5733 USDC`; `None` if it moves none.
    fn moved(&self) -> Option<String> {
        let words = |change: &SimulatedChange| {
            let unsigned = change.change.as_str().trim_start_matches(['+', '-', '−']);
            let (sign, figure) = match change.change.as_str().starts_with('+') {
                true => ("+", amount(unsigned)),
                false => ("−", paid(unsigned)),
            };
            format!("{sign}{figure} {}", address_words(change.symbol.as_str()))
        };
        let all: Vec<String> = self.moves.iter().map(words).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Rows of the balances before and after, and of what the transactions cost and what the chain says.
    fn outcome_rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for change in &self.moves {
            let figure = |text: &SafeText| if text.is_empty() { "?".to_owned() } else { amount(text.as_str()) };
            let words = format!("{} → {}", figure(&change.before), figure(&change.after));
            let symbol = address_words(change.symbol.as_str());
            rows.push(
                Row::new(format!("{symbol}  "), Role::TextStrong)
                    .then(words, Role::Text)
                    .end("simulated", Role::TextDim),
            );
        }
        let gas = self.gas.values().fold(U256::ZERO, |sum, cost| sum.saturating_add(*cost));
        let mut row = Row::default();
        if !gas.is_zero() {
            row = row.then("gas ", Role::TextDim).then(paid(&TokenAmount::ether(gas).to_string()), Role::Text);
        }
        if let Some(matched) = self.matched {
            let gap = if row.left.is_empty() { "" } else { "   " };
            let (words, role) =
                if matched { ("Chain agrees ✓", Role::StateGood) } else { ("Chain disagrees ✕", Role::StateBad) };
            row = row.then(gap, Role::TextDim).then(words, role);
        }
        if !row.left.is_empty() {
            rows.push(row);
        }
        rows
    }

    /// Row with the position of the money during the call; `None` if no money moves.
    fn money_row(&self) -> Option<Row> {
        let words = match self.call.tool.as_str() {
            "uniswapx_cancel_order" if self.confirmed => "the cancellation is in a block; checking it on chain",
            _ if self.call.signs && self.confirmed => "moved; checking it on chain",
            "uniswapx_cancel_order" => "in your wallet; the order can still fill until cancelled",
            "intent_refund" => "in the settler until refunded",
            _ if self.call.signs => "in your wallet",
            _ => return None,
        };
        money_row(&self.call, words, self.sent)
    }
}

/// Words of a card about tokens that are sent or come back.
struct Subject {
    /// Title of the card.
    title: String,
    /// First row below the title.
    detail: String,
    /// Text of the one-line form.
    line: String,
}

/// Names of the fields that a [`Subject`] contains.
const IN_SUBJECT: [&str; 6] = ["amount", "token", "recipient", "chain", "status", "bridge order"];

/// Address in its short form; any other text as it is.
fn address_words(text: &str) -> String {
    text.parse().map_or_else(|_| SafeText::clean(text, 40).to_string(), short_address)
}

/// Row with the position of a call's money until it is settled. `words` is the text while no transaction is pending.
/// `None` once the call is settled.
pub(super) fn money_row(call: &CallModel, words: &str, sent: Option<TxState>) -> Option<Row> {
    if !call.status.in_flight() && call.status != CardStatus::Loading {
        return None;
    }
    let text = match sent {
        Some(state @ (TxState::Signed | TxState::Sent | TxState::Unclear)) => transaction_words(state),
        Some(TxState::Confirmed | TxState::Reverted | TxState::Dropped) | None => words,
    };
    Some(Row::new("Money: ", Role::TextDim).then(text, Role::Text).kept())
}

/// State of a call's transaction for its line, while the call runs.
pub(super) fn sent_group(call: &CallModel, sent: Option<TxState>) -> Option<Group> {
    let state = sent.filter(|_| call.status.in_flight())?;
    Some(Group::new(1, format!("  {}", transaction_words(state)), Role::TextDim))
}

/// Dollars with grouped thousands and two decimals.
fn amount_of_dollars(figure: &str) -> String {
    let (whole, cents) = figure.split_once('.').unwrap_or((figure, "00"));
    format!("{}.{:0<2}", grouped(whole), cents.get(..2).unwrap_or(cents))
}

/// Fields for the one-line form: only values, no lists or objects.
fn scalar_fields(value: &Value) -> Vec<(SafeText, SafeText)> {
    let Value::Object(all) = value else { return Vec::new() };
    let plain = all.iter().filter(|(_, value)| !value.is_array() && !value.is_object() && !value.is_null());
    fields(&plain.map(|(name, value)| (name.clone(), value.clone())).collect::<serde_json::Map<_, _>>().into())
}

/// Fields of an object as text. Lists and objects are shown as counts.
pub fn fields(value: &Value) -> Vec<(SafeText, SafeText)> {
    let Value::Object(fields) = value else { return Vec::new() };
    let word = |name: &str| match name {
        "chain_id" => SafeText::clean("chain", 40),
        "intent_id" => SafeText::clean("bridge order", 40),
        other => SafeText::clean(&other.trim_end_matches("_usd").replace('_', " "), 40),
    };
    let shown = |name: &str, value: &Value| match value {
        Value::Null => SafeText::clean("none", 8),
        Value::Array(list) if list.len() == 1 => SafeText::clean("1 entry", 40),
        Value::Array(list) => SafeText::clean(&format!("{} entries", list.len()), 40),
        Value::Object(inner) => SafeText::clean(&counted(u64::try_from(inner.len()).unwrap_or(u64::MAX), "field"), 40),
        Value::String(text) if name.ends_with("_usd") && decimal(text).is_some() => {
            SafeText::clean(&format!("${}", amount_of_dollars(text)), 80)
        }
        Value::String(text) if name.contains("amount") => SafeText::clean(&readable(text, 6), 80),
        // Hashes are shortened; the details of the call show them in full.
        Value::String(text) if text.len() == HASH_CHARACTERS && text.parse::<B256>().is_ok() => {
            SafeText::clean(&short_hash(text.parse().unwrap_or_default()), 40)
        }
        Value::String(text) => SafeText::clean(text, 400),
        other => SafeText::clean(&other.to_string(), 80),
    };
    fields.iter().take(MAX_FIELDS).map(|(name, value)| (word(name), shown(name, value))).collect()
}

impl CardView for PlainModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.call.status;
        let kind = tool_word(self.call.tool.as_str());
        let mut groups = Vec::new();
        let shown = if self.line.is_empty() { scalar_fields(&self.call.params) } else { self.line.clone() };
        match (self.subject(), self.moved()) {
            (Some(subject), _) => groups.push(Group::new(0, subject.line, Role::Text)),
            // What moves says more than the names of its parameters.
            (None, Some(moved)) => groups.push(Group::new(0, moved, Role::Text)),
            (None, None) => {
                for (rank, (name, value)) in (0..).zip(shown.iter().take(4)) {
                    let gap = if rank == 0 { "" } else { "  " };
                    // The kind before it may end with the name.
                    let name = if kind.ends_with(name.as_str()) { String::new() } else { format!("{name} ") };
                    let pieces = vec![(format!("{gap}{name}"), Role::TextDim), (value.to_string(), Role::Text)];
                    groups.push(Group { rank, pieces });
                }
            }
        }
        groups.extend(sent_group(&self.call, self.sent));
        if let Some(why) = self.call.failure_words() {
            groups.insert(0, Group::new(0, format!("{why}  "), status.role()));
        }
        CardLine { at: self.call.at, mark: status.sign(), kind, groups, right: self.call.line_end(now) }
    }

    fn title(&self, now: Moment) -> Title {
        let title = self.subject().map_or_else(|| tool_word(self.call.tool.as_str()), |subject| subject.title);
        Title { left: vec![(title, Role::Title)], right: self.call.status_text(now) }
    }

    fn short(&self, _now: Moment) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        let shown = if self.summary.is_empty() { fields(&self.call.params) } else { self.summary.clone() };
        if shown.is_empty() && rows.is_empty() {
            rows.push(Row::new("Nothing to show.", Role::TextDim));
        }
        let subject = self.subject();
        let mut row = Row::default();
        let told = |name: &str| subject.is_some() && IN_SUBJECT.contains(&name) || !self.moves.is_empty();
        for (name, value) in shown.iter().filter(|(name, _)| !told(name.as_str())) {
            row = row.then(format!("{name} "), Role::TextDim).then(format!("{value}   "), Role::Text);
        }
        // The position of the money comes before the request, so that a short card does not drop it.
        rows.extend(self.money_row());
        rows.extend(subject.map(|subject| Row::new(subject.detail, Role::Text)));
        rows.extend(self.outcome_rows());
        if !row.left.is_empty() {
            rows.push(row);
        }
        rows
    }

    fn full(&self, _now: Moment, _columns: usize) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        if self.call.status == CardStatus::Empty {
            rows.push(Row::new("No request yet.", Role::TextDim));
        }
        let subject = self.subject();
        let in_subject = |name: &SafeText| subject.is_some() && IN_SUBJECT.contains(&name.as_str());
        if let Some(subject) = &subject {
            rows.push(Row::new(subject.detail.as_str(), Role::Text));
        }
        rows.extend(self.outcome_rows());
        let asked = fields(&self.call.params);
        let asked = asked.into_iter().filter(|one| !self.summary.contains(one) && !in_subject(&one.0));
        for (name, value) in asked {
            rows.push(Row::new(format!("{name} "), Role::TextDim).then(value.as_str(), Role::Text));
        }
        for (name, value) in self.summary.iter().filter(|(name, _)| !in_subject(name)) {
            rows.push(Row::new(format!("{name} "), Role::TextDim).then(value.as_str(), Role::TextStrong));
        }
        rows.extend(self.money_row());
        rows
    }

    fn edge(&self, _now: Moment) -> Role {
        self.call.status.edge()
    }
}
