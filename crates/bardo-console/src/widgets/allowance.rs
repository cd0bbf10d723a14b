//! Allowance chip: token, spender, amount and expiry of an allowance.

use alloy_primitives::{Address, U256};
use serde_json::Value;

use super::call::CallModel;
use super::figure::{paid, text};
use super::paint::{CardLine, Group, Row, Title};
use super::plain::{money_row, sent_group};
use super::status::CardStatus;
use super::words::transaction_words;
use super::{CardView, Moment};
use crate::format::{short_address, time_of_day};
use crate::painter::StyledText;
use crate::theme::Role;
use bardo_base::contracts::KnownContract;
use bardo_base::fabric::{EventKind, TxState};
use bardo_base::text::SafeText;

/// Data of an allowance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Symbol of the token.
    pub token: SafeText,
    /// Address that may spend it; `None` if unknown, or after a revocation without a spender.
    pub spender: Option<Address>,
    /// Display name of the spender, if known.
    pub spender_label: Option<SafeText>,
    /// Allowed amount as text: whole tokens, `unlimited`, or raw units if the decimals are unknown.
    pub allowed: SafeText,
    /// True if the amount is zero.
    pub none: bool,
    /// True if the amount is unlimited.
    pub unlimited: bool,
    /// True if it covers the wallet's whole balance; `None` if the response does not say.
    pub sufficient: Option<bool>,
    /// Expiry in seconds since the Unix epoch; `None` without one.
    pub expires_at: Option<u64>,
    /// True if the allowance was already expired when it was read.
    pub expired: bool,
}

/// Model of the allowance chip.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AllowanceModel {
    /// Call that it came from; a call without a tool name if it has another source.
    pub call: CallModel,
    /// Allowance data, once known.
    pub allowance: Option<Allowance>,
    /// State of its transaction, if it has one.
    pub sent: Option<TxState>,
}

impl Allowance {
    /// Reads the response of an allowance check, an approval or a revocation. `None` if required fields are missing.
    pub fn read(tool: &str, data: &Value, hints: &Value) -> Option<Self> {
        let token = text(data, "token")?;
        if tool == "token_revoke" {
            let spenders = data.get("spenders").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
            let spender = spenders.first().and_then(Value::as_str).and_then(|spender| spender.parse().ok());
            let many = (spenders.len() > 1).then(|| SafeText::clean(&format!("{} spenders", spenders.len()), 40));
            let label = many.or_else(|| text(hints, "spender_label"));
            let allowed = SafeText::clean("0", 1);
            return Some(Self { token, spender, spender_label: label, allowed, none: true, ..Self::default() });
        }
        let allowed = text(data, "allowance")?;
        let permit2 = hints.get("permit2").unwrap_or(&Value::Null);
        let ends = data.get("expires_at").or_else(|| permit2.get("expires_at")).and_then(Value::as_u64);
        let raw: Option<U256> = allowed.as_str().parse().ok();
        // Amounts from 2^160 − 1 up count as unlimited. That is the maximum of Permit2.
        let unlimited = allowed.as_str() == "unlimited" || raw.is_some_and(|raw| raw >= U256::MAX >> 96);
        Some(Self {
            none: raw.is_some_and(|raw| raw.is_zero()),
            unlimited,
            token,
            spender: text(data, "spender").and_then(|spender| spender.as_str().parse().ok()),
            spender_label: text(hints, "spender_label"),
            allowed,
            sufficient: data.get("sufficient").and_then(Value::as_bool),
            expires_at: ends.filter(|ends| *ends > 0),
            expired: permit2.get("expired").and_then(Value::as_bool).unwrap_or(false),
        })
    }

    /// Display name of the spender, or its shortened address.
    pub fn spender_words(&self) -> String {
        match (&self.spender_label, self.spender) {
            (Some(label), _) => label_words(label.as_str()),
            (None, Some(spender)) => short_address(spender),
            (None, None) => "nobody".to_owned(),
        }
    }

    /// Symbol, text and role of the allowance's state.
    pub fn badge(&self, now: Moment) -> (&'static str, &'static str, Role) {
        let over = self.expired || self.expires_at.is_some_and(|ends| ends <= now.millis / 1000);
        match (over && !self.none, self.unlimited, self.none, self.sufficient) {
            (true, ..) => ("○", "Expired", Role::StateCare),
            (_, true, ..) => ("!", "UNLIMITED", Role::StateCare),
            (_, _, true, Some(true)) => ("✓", "Nothing to allow", Role::TextDim),
            (_, _, _, Some(false)) => ("!", "Needs approval", Role::StateCare),
            (_, _, true, None) => ("✓", "No allowance", Role::TextDim),
            _ => ("✓", "Approved", Role::StateGood),
        }
    }

    /// Amount and expiry, such as `0.25 until 15:11:02`.
    pub fn scope(&self) -> String {
        let what = match (self.unlimited, self.none) {
            (true, _) => "any amount".to_owned(),
            (_, true) => "nothing".to_owned(),
            // A check reports raw units, which are less clear than the fact that they suffice.
            _ if self.sufficient.is_some() => "allowed".to_owned(),
            _ => paid(self.allowed.as_str()),
        };
        match self.expires_at.filter(|_| !self.none) {
            Some(ends) => format!("{what} until {}", time_of_day(ends)),
            None => what,
        }
    }
}

/// Display name of a contract key of the address book; any other label is unchanged.
fn label_words(label: &str) -> String {
    KnownContract::from_key(label).map_or_else(|| label.to_owned(), |contract| contract.name().to_owned())
}

impl AllowanceModel {
    /// Creates the chip of a requested call.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        Self { call: CallModel::asked(at, tool, params), ..Self::default() }
    }

    /// Creates the chip of an allowance that is known without a call.
    pub fn known(allowance: Allowance) -> Self {
        Self {
            call: CallModel { status: CardStatus::Done, ..CallModel::default() },
            allowance: Some(allowance),
            sent: None,
        }
    }

    /// Applies an event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        if let EventKind::TxUpdate(update) = kind {
            self.sent = Some(update.state);
        }
        if let EventKind::ToolEnd(end) = kind
            && let Some(card) = &end.card
        {
            let hints = card.hints.as_ref().unwrap_or(&Value::Null);
            self.allowance = Allowance::read(self.call.tool.as_str(), &card.data, hints);
        }
    }

    /// Row about the money during the call: an allowance does not move any.
    fn money_row(&self) -> Option<Row> {
        let sent = self.sent.filter(|_| self.call.signs);
        money_row(&self.call, "in your wallet; an allowance moves nothing", None).map(|row| match sent {
            Some(state) => row.then(format!(" · {}", transaction_words(state)), Role::TextDim),
            None => row,
        })
    }

    fn kind(&self) -> &'static str {
        match self.call.tool.as_str() {
            "token_revoke" => "Revoke",
            "token_approve" => "Approve",
            _ => "Allowance",
        }
    }

    fn pair(&self) -> String {
        match &self.allowance {
            Some(allowance) => format!("{} → {}", allowance.token, allowance.spender_words()),
            None if self.call.param("token").is_empty() => "no token".to_owned(),
            None => self.call.param("token").as_str().to_owned(),
        }
    }

    /// Chip without its time, such as `✓ Approved  WETH → Permit2  0.25 until 15:11:02`.
    pub fn chip(&self, now: Moment) -> Vec<StyledText> {
        match &self.allowance {
            Some(allowance) if self.call.status.is_over() => {
                let (mark, word, role) = allowance.badge(now);
                vec![
                    (format!("{mark} {word}  "), role),
                    (self.pair(), Role::Text),
                    (format!("  {}", allowance.scope()), Role::TextDim),
                ]
            }
            _ => {
                // A request that passes without an answer does not wait for the operator.
                let passes = self.call.status == CardStatus::Waiting && self.call.passes_by_itself;
                let word = if passes { "goes ahead" } else { self.call.status.word() };
                vec![
                    (format!("{} {word}  ", self.call.status.mark()), self.call.status.role()),
                    (self.pair(), Role::Text),
                ]
            }
        }
    }
}

impl CardView for AllowanceModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.call.status;
        let mut mark = status.sign();
        let mut groups = vec![Group::new(0, self.pair(), Role::Text)];
        if let (Some(allowance), true) = (&self.allowance, status.is_over()) {
            let (badge, word, role) = allowance.badge(now);
            // Shows the result of the check, not that it succeeded.
            mark = (badge, role);
            // A state that needs attention comes first, so that no long name displaces it.
            match role {
                Role::StateCare => groups.insert(0, Group::new(0, format!("{word}  "), role)),
                _ => groups.push(Group::new(1, format!("  {word}"), role)),
            }
            // Without an allowance there is no amount to show.
            if !allowance.none {
                groups.push(Group::new(2, format!("  {}", allowance.scope()), Role::TextDim));
            }
        }
        groups.extend(sent_group(&self.call, self.sent));
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        }
        CardLine { at: self.call.at, mark, kind: self.kind().to_owned(), groups, right: self.call.line_end(now) }
    }

    fn title(&self, now: Moment) -> Title {
        let right = match (&self.allowance, self.call.status) {
            (Some(allowance), CardStatus::Done) => {
                let (mark, word, role) = allowance.badge(now);
                vec![(format!("{mark} {word}"), role)]
            }
            _ => self.call.status_text(now),
        };
        Title { left: vec![(format!("{} {}", self.kind(), self.pair()), Role::Title)], right }
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        if self.allowance.is_some() || rows.is_empty() {
            rows.push(Row::of(self.chip(now)));
        }
        rows.extend(self.money_row());
        rows
    }

    fn full(&self, now: Moment, _columns: usize) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        let Some(allowance) = &self.allowance else {
            if rows.is_empty() {
                rows.push(match self.call.status {
                    CardStatus::Empty | CardStatus::Done => Row::new("No allowance is known.", Role::TextDim),
                    _ if self.call.signs => self.call.pending_row("Being checked and signed…"),
                    _ => Row::new("Querying the token and Permit2…", Role::TextDim),
                });
            }
            rows.extend(self.money_row());
            return rows;
        };
        let (mark, word, role) = allowance.badge(now);
        rows.push(Row::new(format!("{mark} {word}"), role).end(allowance.scope(), Role::Text));
        rows.push(Row::new("token    ", Role::TextDim).then(allowance.token.as_str(), Role::Text));
        let mut spender = Row::new("spender  ", Role::TextDim).then(allowance.spender_words(), Role::Text);
        if let (Some(address), Some(_)) = (allowance.spender, &allowance.spender_label) {
            spender = spender.end(short_address(address), Role::TextDim);
        }
        rows.push(spender);
        if allowance.sufficient == Some(false) {
            rows.push(Row::new("A swap sets its own exact allowance.", Role::TextDim));
        }
        if allowance.unlimited {
            let words = "It may take the whole balance, now and later: x revokes it.";
            rows.push(Row::new(words, Role::StateCare).kept());
        }
        rows
    }

    fn edge(&self, _now: Moment) -> Role {
        self.call.status.edge()
    }
}
