//! Rows of a swap card: checks, steps, balance changes, comparison with the quote, verification.

use super::folding::{About, about};
use super::{Offer, Step, StepState, SwapModel, SwapResult};
use crate::format::{dollars, dollars_used, grouped};
use crate::painter::StyledText;
use crate::theme::Role;
use crate::widgets::Moment;
use crate::widgets::figure::{against_quote, amount, decimal, paid, readable, running, took};
use crate::widgets::paint::Row;
use crate::widgets::status::CardStatus;
use crate::widgets::words::{check_word, found};
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{CheckOutcome, Finding};
use bardo_base::model::Check;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;

impl SwapModel {
    /// Row of the amount paid and the minimum received. If the offer has no structured minimum, its own sentence.
    pub(super) fn terms(&self, offer: &Offer) -> Row {
        let (paid, symbol) = (paid(self.call.param("amount").as_str()), self.call.token("token_in"));
        let Some(least) = offer.least.as_ref().filter(|_| !paid.is_empty()) else {
            return Row::new("offer: ", Role::TextDim).then(readable(offer.expected.as_str(), 4), Role::Text);
        };
        let row = Row::new("pay ", Role::TextDim).then(format!("{paid} {symbol}"), Role::Text);
        let limits = self.checks.iter().find(|row| row.check == Check::SpendingLimit);
        // The headline's figure; what counts against the limits, with gas, stands with the limits.
        let row = match (offer.leaves, limits.map(|row| &row.finding)) {
            (Some(leaves), _) => row.then(format!(" {}", dollars(leaves)), Role::TextDim),
            (None, Some(Finding::Spending { now, .. })) => row.then(format!(" {}", dollars_used(*now)), Role::TextDim),
            (None, _) => row,
        };
        let least = format!("{} {}", amount(least.amount.as_str()), least.symbol);
        row.then("   get at least ", Role::TextDim).then(least, Role::TextStrong)
    }

    /// Rows of the earlier and the current offer, if the price moved between them.
    pub(super) fn moved_rows(&self) -> Vec<Row> {
        let own = self.offer.as_ref().map(|offer| &offer.expected);
        let (was, is) = match (&self.before, &self.after) {
            (_, Some(after)) => (own, Some(after)),
            (Some(before), None) => (Some(before), own),
            (None, None) if self.price_moved() => (own, None),
            (None, None) => return Vec::new(),
        };
        let mut rows = Vec::new();
        if let Some(was) = was {
            rows.push(Row::new("was: ", Role::TextDim).then(readable(was.as_str(), 4), Role::Text).kept());
        }
        if let Some(is) = is {
            rows.push(Row::new("is:  ", Role::StateCare).then(readable(is.as_str(), 4), Role::StateCare).kept());
        }
        rows
    }

    /// Returns true if the call ended because its offer was no longer valid.
    fn price_moved(&self) -> bool {
        self.call.failure.as_ref().is_some_and(|failure| failure.code == ErrorCode::PermitMismatch)
    }

    fn check_counts(&self) -> (usize, usize, usize) {
        let count = |outcome| self.checks.iter().filter(|row| row.outcome == outcome).count();
        (self.checks.len(), count(CheckOutcome::Warned), count(CheckOutcome::Blocked))
    }

    /// Steps in one line, such as `✓ checks 9  ✓ simulate  ▸ confirm`.
    pub(super) fn step_pieces(&self) -> Vec<StyledText> {
        let mut pieces = Vec::new();
        let (all, _, blocked) = self.check_counts();
        let (mark, role) = if blocked > 0 {
            ("✕", Role::StateBad)
        } else if all > 0 {
            ("✓", Role::StateGood)
        } else {
            ("·", Role::TextDim)
        };
        pieces.push((format!("{mark} "), role));
        pieces.push((format!("checks {all}  "), Role::Text));
        for step in &self.steps {
            let (mark, role) = step_mark(step.state);
            pieces.push((format!("{mark} "), role));
            let word = match about(step.name.as_str()) {
                About::Simulate => "simulate".to_owned(),
                About::Approve => "allowance".to_owned(),
                About::Build => "build".to_owned(),
                About::Sign => "sign".to_owned(),
                About::Send => "send".to_owned(),
                About::Confirm => "confirm".to_owned(),
                About::Other => step.name.to_string(),
            };
            pieces.push((format!("{word}  "), if step.state == StepState::Ahead { Role::TextDim } else { Role::Text }));
        }
        pieces
    }

    pub(super) fn check_rows(&self) -> Vec<Row> {
        let (all, warned, blocked) = self.check_counts();
        if all == 0 {
            return vec![Row::new("· Checks", Role::TextDim)];
        }
        let (mark, role) = match (blocked, warned) {
            (0, 0) => ("✓", Role::StateGood),
            (0, _) => ("!", Role::StateCare),
            _ => ("✕", Role::StateBad),
        };
        let mut row = Row::new(format!("{mark} "), role).then(format!("Checks {} of {all}", all - blocked), Role::Text);
        if let Some((first, last)) = self.checked {
            row = row.end(took(last.saturating_sub(first)), Role::TextDim);
        }
        let mut rows = vec![row];
        for check in self.checks.iter().filter(|check| check.outcome != CheckOutcome::Passed) {
            let (mark, role) = match check.outcome {
                CheckOutcome::Blocked => ("✕", Role::StateBad),
                _ => ("!", Role::StateCare),
            };
            let name = check_word(check.check);
            let detail = found(&check.finding);
            rows.push(Row::new(format!("  {mark} {name}: "), role).then(detail, Role::Text).kept());
        }
        rows
    }

    pub(super) fn step_rows(&self, now: Moment) -> Vec<Row> {
        let widest = self.steps.iter().map(|step| step.name.width()).max().unwrap_or(0);
        let row = |step: &Step| {
            let (mark, role) = step_mark(step.state);
            let padding = " ".repeat(widest.saturating_sub(step.name.width()) + 2);
            let name = if step.state == StepState::Ahead { Role::TextDim } else { Role::Text };
            let row = Row::new(format!("{mark} "), role).then(step.name.as_str(), name);
            let row = if step.note.is_empty() {
                row
            } else {
                row.then(padding, Role::Text).then(step.note.as_str(), Role::TextDim)
            };
            match step.state {
                StepState::Running => row.end(running(step.began, now), Role::Chart),
                StepState::Done if step.ended > step.began => row.end(took(step.ended - step.began), Role::TextDim),
                _ => row,
            }
        };
        self.steps.iter().map(row).collect()
    }

    pub(super) fn result_rows(&self, result: &SwapResult) -> Vec<Row> {
        let mut rows = Vec::new();
        for moved in &result.moves {
            let change = change_words(moved.before.as_str(), moved.after.as_str());
            let way = format!("{} → {}", amount(moved.before.as_str()), amount(moved.after.as_str()));
            rows.push(
                Row::new(format!("{:<6} ", moved.token.as_str()), Role::TextDim)
                    .then(way, Role::Text)
                    .end(change, Role::TextStrong),
            );
        }
        if result.moves.is_empty() {
            let (token_in, token_out) = (self.call.token("token_in"), self.call.token("token_out"));
            let would = if self.call.status == CardStatus::Simulated { "would pay " } else { "paid " };
            rows.push(
                Row::new(would, Role::TextDim)
                    .then(format!("{} {token_in}", paid(result.amount_in.as_str())), Role::Text)
                    .then("  get ", Role::TextDim)
                    .then(format!("{} {token_out}", amount(result.amount_out.as_str())), Role::TextStrong),
            );
        }
        rows.push(self.comparison(result));
        // Once it is over, what came of it matters more than its steps; before, where the money is.
        let keep = self.call.status.is_over();
        rows.into_iter().map(|row| Row { keep, ..row }).collect()
    }

    /// Row that compares the received amount with the quote, with the minimum and the gas.
    pub(super) fn comparison(&self, result: &SwapResult) -> Row {
        let mut row = Row::default();
        let quoted = result.quoted_out.as_ref();
        match quoted.and_then(|quoted| against_quote(result.amount_out.as_str(), quoted.as_str())) {
            Some((words, role)) => {
                row = row.then(words, role);
                row = row.then(
                    format!(" {}", quoted.map_or(String::new(), |quoted| amount(quoted.as_str()))),
                    Role::TextDim,
                );
            }
            None => {
                if let Some(points) = result.slippage_bps {
                    let words = match points {
                        0 => "exactly the quote".to_owned(),
                        _ => {
                            let side = if points > 0 { "under" } else { "over" };
                            let far =
                                rust_decimal::Decimal::new(points.unsigned_abs().try_into().unwrap_or(i64::MAX), 2);
                            format!("{far} % {side} quote")
                        }
                    };
                    row = row.then(words, if points >= 100 { Role::StateCare } else { Role::StateGood });
                }
            }
        }
        if let Some(least) = &result.minimum_out {
            row = row.then(format!(" · floor {}", amount(least.as_str())), Role::TextDim);
        }
        let cost = result.gas_wei.map(|wei| paid(&TokenAmount::ether(wei).to_string()));
        match (cost, result.gas_used) {
            (Some(cost), _) => row.then(format!(" · gas {cost} ETH"), Role::TextDim),
            (None, Some(units)) => row.then(format!(" · gas {} units", grouped(&units.to_string())), Role::TextDim),
            (None, None) => row,
        }
    }

    pub(super) fn verdict_row(&self) -> Option<Row> {
        let verified = self.verified.as_ref()?;
        if verified.unfilled {
            return None;
        }
        let source = source_words(&verified.ground_truth_source);
        Some(if verified.matched {
            Row::new("Chain agrees ✓ ", Role::StateGood).then(SafeText::clean(&source, 60).as_str(), Role::TextDim)
        } else {
            Row::new("Chain disagrees ✕ ", Role::StateBad).then(verified.actual_outcome.as_str(), Role::StateBad).kept()
        })
    }
}

fn step_mark(state: StepState) -> (&'static str, Role) {
    match state {
        StepState::Ahead => ("·", Role::TextDim),
        StepState::Running => ("▸", Role::Chart),
        StepState::Done => ("✓", Role::StateGood),
        StepState::Skipped => ("–", Role::TextDim),
        StepState::Failed => ("✕", Role::StateBad),
    }
}

/// Difference between two numbers, with its sign; empty if they cannot be compared.
fn change_words(before: &str, after: &str) -> String {
    let (Some(before), Some(after)) = (decimal(before), decimal(after)) else {
        return String::new();
    };
    let Some(change) = after.checked_sub(before) else { return String::new() };
    let figure = change.abs().normalize().to_string();
    if change.is_sign_negative() { format!("−{}", paid(&figure)) } else { format!("+{}", amount(&figure)) }
}

/// Sources of a verification in words.
pub(crate) fn source_words(source: &str) -> String {
    let parts = source.split(" + ").flat_map(|part| part.split(" and ")).map(|part| match part.trim() {
        "transaction_receipt" => "receipt".to_owned(),
        "balance_diff" => "balances".to_owned(),
        "erc7683_intent_status" => "order status".to_owned(),
        "destination_balance_diff" => "balances on the destination".to_owned(),
        other => other.replace('_', " "),
    });
    parts.collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod source_tests {
    use super::source_words;

    #[test]
    fn the_sources_of_a_verification_have_no_code_names() {
        for (source, words) in [
            ("transaction_receipt + balance_diff", "receipt + balances"),
            ("erc7683_intent_status + destination_balance_diff", "order status + balances on the destination"),
            ("receipt and balances", "receipt + balances"),
        ] {
            assert_eq!(source_words(source), words);
        }
    }
}
