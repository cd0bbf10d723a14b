//! Card of a supply, withdrawal, borrowing or repayment in a lending market: what it does to the debt's security.

use serde_json::Value;

use super::call::CallModel;
use super::figure::{amount, text};
use super::paint::{CardLine, Group, Row, Title};
use super::plain::{money_row, sent_group};
use super::status::CardStatus;
use super::{CardView, Moment};
use crate::theme::Role;
use bardo_base::fabric::{EventKind, Finding, LiquidationMove, TxState, health_factor};
use bardo_base::text::SafeText;

/// Security of the debts before and after an action, by the simulation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DebtEffect {
    /// Health factor before, as text.
    pub before: SafeText,
    /// Health factor after, as text.
    pub after: SafeText,
    /// Changes of single prices that liquidate the debt afterwards, as words.
    pub moves: Vec<SafeText>,
}

/// Model of the card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LendingModel {
    /// Call that it came from.
    pub call: CallModel,
    /// Effect on the debts, once the simulation has shown it.
    pub effect: Option<DebtEffect>,
    /// Amount with its token, by the pool's event, once it has moved.
    pub moved: Option<SafeText>,
    /// State of its newest transaction, if it has one.
    pub sent: Option<TxState>,
    /// True if the chain agrees with what was declared; `None` before the comparison.
    pub matched: Option<bool>,
}

impl DebtEffect {
    fn simulated(before: Option<u64>, after: Option<u64>, moves: &[LiquidationMove]) -> Self {
        let factor = |found| SafeText::clean(&health_factor(found), 24);
        let moves = moves.iter().map(|found| SafeText::clean(&found.to_string(), 120));
        Self { before: factor(before), after: factor(after), moves: moves.collect() }
    }

    /// Reads the result of an action; `None` without a simulation of the debts.
    fn read(data: &Value) -> Option<Self> {
        let rows = data.get("liquidated_if").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let words = |row: &Value| {
            let (token, price) = (text(row, "token")?, text(row, "price_usd")?);
            let (verb, change) = match text(row, "rise_pct") {
                Some(rise) => ("rises", rise),
                None => ("falls", text(row, "fall_pct")?),
            };
            let price = amount(price.as_str());
            Some(SafeText::clean(&format!("liquidated if {token} {verb} {change} % to ${price}"), 120))
        };
        Some(Self {
            before: text(data, "health_factor_before")?,
            after: text(data, "health_factor_after")?,
            moves: rows.iter().filter_map(words).collect(),
        })
    }

    /// Health factors, such as `health 2.80 → 4.68`.
    fn health_text(&self) -> String {
        let no_debt = health_factor(None);
        let [before, after] = [&self.before, &self.after].map(|factor| match factor.as_str() {
            text if text == no_debt => "none",
            text => text,
        });
        if before == after { format!("health {after}") } else { format!("health {before} → {after}") }
    }
}

impl LendingModel {
    /// Creates the card of a requested call.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        Self { call: CallModel::asked(at, tool, params), ..Self::default() }
    }

    /// Applies an event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        match kind {
            EventKind::SafetyCheck(check) => {
                if let Finding::SimulatedDebt { before, after, falls, .. } = &check.finding {
                    self.effect = Some(DebtEffect::simulated(*before, *after, falls));
                }
            }
            EventKind::TxUpdate(update) => self.sent = Some(update.state),
            EventKind::ToolVerified(verified) => self.matched = Some(verified.matched),
            EventKind::ToolEnd(end) => {
                let Some(card) = &end.card else { return };
                let what = text(&card.data, "amount").zip(text(&card.data, "token"));
                self.moved =
                    what.map(|(moved, token)| SafeText::clean(&format!("{} {token}", amount(moved.as_str())), 80));
                // The finding names more prices than the result.
                self.effect = self.effect.take().or_else(|| DebtEffect::read(&card.data));
            }
            _ => {}
        }
    }

    fn kind(&self) -> &'static str {
        match self.call.tool.as_str() {
            "lending_supply" => "Supply",
            "lending_withdraw" => "Withdraw",
            "lending_borrow" => "Borrow",
            "lending_repay" => "Repay",
            _ => "Lending",
        }
    }

    /// Amount with its token: what moved, or what was asked for.
    fn what(&self) -> String {
        if let Some(moved) = &self.moved {
            return moved.to_string();
        }
        let (asked, token) = (self.call.param("amount"), self.call.param("token"));
        match (asked.as_str(), token.as_str()) {
            (_, "") => "no token".to_owned(),
            ("max", token) => format!("all {token}"),
            (asked, token) => format!("{} {token}", amount(asked)),
        }
    }

    /// Row about the money during the call.
    fn money_row(&self) -> Option<Row> {
        let words = match self.call.tool.as_str() {
            "lending_withdraw" => "in Aave until withdrawn",
            "lending_borrow" => "in Aave until borrowed",
            _ => "in your wallet",
        };
        money_row(&self.call, words, self.sent)
    }

    fn effect_rows(&self) -> Vec<Row> {
        let Some(effect) = &self.effect else { return Vec::new() };
        let factors = match effect.before.as_str() == effect.after.as_str() {
            true => effect.after.to_string(),
            false => format!("{} → {}", effect.before, effect.after),
        };
        let mut rows = vec![
            Row::new("health   ", Role::TextDim)
                .then(factors, Role::TextStrong)
                .end("by the simulation", Role::TextDim)
                .kept(),
        ];
        rows.extend(effect.moves.iter().map(|words| Row::new(words.as_str(), Role::Text)));
        rows
    }

    fn verified_row(&self) -> Option<Row> {
        self.matched.map(|matched| match matched {
            true => Row::new("Chain agrees ✓", Role::StateGood),
            false => Row::new("Chain disagrees ✕", Role::StateBad).kept(),
        })
    }
}

impl CardView for LendingModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.call.status;
        let mut groups = vec![Group::new(0, self.what(), Role::Text)];
        if let Some(effect) = &self.effect {
            groups.push(Group::new(1, format!("  {}", effect.health_text()), Role::TextDim));
        }
        if self.matched == Some(false) {
            groups.insert(0, Group::new(0, "Chain disagrees ✕  ".to_owned(), Role::StateBad));
        }
        groups.extend(sent_group(&self.call, self.sent));
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        }
        let mark = if self.matched == Some(false) { ("✕", Role::StateBad) } else { status.sign() };
        CardLine { at: self.call.at, mark, kind: self.kind().to_owned(), groups, right: self.call.line_end(now) }
    }

    fn title(&self, now: Moment) -> Title {
        let left = vec![(format!("{} {}", self.kind(), self.what()), Role::Title)];
        let right = match self.matched {
            Some(false) => vec![("✕ CHAIN DISAGREES".to_owned(), Role::StateBad)],
            Some(true) | None => self.call.status_text(now),
        };
        Title { left, right }
    }

    fn short(&self, _now: Moment) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        rows.extend(self.money_row());
        rows.extend(self.effect_rows());
        rows.extend(self.verified_row());
        if rows.is_empty() {
            rows.push(Row::new(self.what(), Role::Text));
        }
        rows
    }

    fn full(&self, _now: Moment, _columns: usize) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        rows.extend(self.money_row());
        rows.extend(self.effect_rows());
        if self.effect.is_none() && rows.iter().all(|row| row.left.iter().all(|(words, _)| words.starts_with("Money")))
        {
            rows.push(match self.call.status {
                CardStatus::Empty | CardStatus::Done => Row::new("Nothing is known of this action.", Role::TextDim),
                _ => self.call.pending_row("Reading the market and simulating…"),
            });
        }
        rows.extend(self.verified_row());
        rows
    }

    fn edge(&self, _now: Moment) -> Role {
        if self.matched == Some(false) { Role::StateBad } else { self.call.status.edge() }
    }
}
