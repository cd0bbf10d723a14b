//! Card of a swap: checks and steps with their states and times, then the result and its verification on chain.

mod folding;
mod rows;

pub(crate) use rows::source_words;

use alloy_primitives::U256;
use serde_json::Value;

use super::call::CallModel;
use super::figure::{amount, left, memory_rows, paid, readable, text};
use super::paint::{CardLine, Group, Row, Title};
use super::quote::ask_words;
use super::reasons::Reasons;
use super::status::CardStatus;
use super::{CardKeys, CardView, Moment, keyed};
use crate::format::short_hash;
use crate::theme::Role;
use bardo_base::fabric::{LeastOut, SafetyCheck, ToolVerified, TxState, TxUpdate};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepState {
    /// The step has not started.
    #[default]
    Ahead,
    /// The step is running.
    Running,
    /// The step has ended.
    Done,
    /// The step was not needed.
    Skipped,
    /// The step failed and stopped the swap.
    Failed,
}

/// Step of a swap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Name of the step, from the tool's own list.
    pub name: SafeText,
    /// State of the step.
    pub state: StepState,
    /// Start in milliseconds since the Unix epoch.
    pub began: u64,
    /// End in milliseconds since the Unix epoch.
    pub ended: u64,
    /// Result of the step as text.
    pub note: SafeText,
}

/// Balance before and after, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceMove {
    /// Symbol of the token.
    pub token: SafeText,
    /// Balance before the swap.
    pub before: SafeText,
    /// Balance after the swap.
    pub after: SafeText,
}

/// Result of a swap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwapResult {
    /// Amount paid, in whole tokens.
    pub amount_in: SafeText,
    /// Amount received, in whole tokens.
    pub amount_out: SafeText,
    /// Amount received according to the quote, in whole tokens.
    pub quoted_out: Option<SafeText>,
    /// Minimum amount received, in whole tokens.
    pub minimum_out: Option<SafeText>,
    /// Shortfall from the quote, in basis points.
    pub slippage_bps: Option<i64>,
    /// Gas used, in units.
    pub gas_used: Option<u64>,
    /// Gas cost, in wei.
    pub gas_wei: Option<U256>,
    /// Hash of the transaction.
    pub tx_hash: Option<SafeText>,
    /// Block of the transaction.
    pub block: Option<u64>,
    /// Block explorer address of the transaction.
    pub explorer_url: Option<SafeText>,
    /// Balances that changed.
    pub moves: Vec<BalanceMove>,
    /// Differences from the declared result.
    pub mismatches: Vec<SafeText>,
    /// Reasons for the routing.
    pub reasons: Reasons,
}

/// Simulated offer of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Expected outcome as text.
    pub expected: SafeText,
    /// Minimum amount received.
    pub least: Option<LeastOut>,
    /// Dollars of what leaves the wallet, without gas; absent in recordings of earlier versions.
    pub leaves: Option<Usd>,
    /// Until when it serves, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// True once the offer has been used.
    pub used: bool,
}

/// Model of a swap's card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SwapModel {
    /// Call that the card shows.
    pub call: CallModel,
    /// Steps of the tool.
    pub steps: Vec<Step>,
    /// Verdicts of the checks, in order of their first event.
    pub checks: Vec<SafetyCheck>,
    /// Times of the first and the last check before any signature, in milliseconds since the Unix epoch.
    pub checked: Option<(u64, u64)>,
    /// Simulated offer, once there is one.
    pub offer: Option<Offer>,
    /// Newest update of each transaction.
    pub transactions: Vec<TxUpdate>,
    /// Verification on chain, once it has arrived.
    pub verified: Option<ToolVerified>,
    /// Result, once it has arrived.
    pub result: Option<SwapResult>,
    /// Number of similar past trades in memory, and the changes that they caused.
    pub memory: Option<(u32, Vec<SafeText>)>,
    /// Expected outcome of an earlier offer, which failed because the price moved.
    pub before: Option<SafeText>,
    /// Expected outcome of a later offer for the same trade, after this one failed because the price moved.
    pub after: Option<SafeText>,
}

impl SwapResult {
    /// Reads a tool's response; `None` if it is not the result of a swap.
    pub fn read(data: &Value, hints: &Value) -> Option<Self> {
        let whole = |value: &Value, field: &str| value.get(field).and_then(Value::as_u64);
        let list = |field: &str| hints.get(field).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let costs = list("transactions").iter().filter_map(|one| text(one, "gas_cost_wei")?.as_str().parse().ok());
        let gas_wei = costs.fold(U256::ZERO, U256::saturating_add);
        let moved = |one: &Value| {
            Some(BalanceMove { token: text(one, "token")?, before: text(one, "before")?, after: text(one, "after")? })
        };
        Some(Self {
            amount_in: text(data, "amount_in")?,
            amount_out: text(data, "amount_out")?,
            quoted_out: text(hints, "quoted_out"),
            minimum_out: text(hints, "minimum_out"),
            slippage_bps: data.get("slippage_actual_bps").and_then(Value::as_i64),
            gas_used: whole(data, "gas_used"),
            gas_wei: (!gas_wei.is_zero()).then_some(gas_wei),
            tx_hash: text(data, "tx_hash"),
            block: whole(data, "block_number"),
            explorer_url: text(data, "explorer_url"),
            moves: list("moves").iter().take(16).filter_map(moved).collect(),
            mismatches: list("mismatches")
                .iter()
                .take(8)
                .filter_map(|one| Some(SafeText::clean(one.as_str()?, 300)))
                .collect(),
            reasons: Reasons::read(hints),
        })
    }
}

impl SwapModel {
    /// Creates the card of a requested call, with the tool's own steps.
    pub fn asked(at: u64, tool: &str, params: Value, steps: &[impl AsRef<str>]) -> Self {
        let step = |name: &str| Step { name: SafeText::clean(name, 60), ..Step::default() };
        let steps = steps.iter().map(AsRef::as_ref).map(step);
        Self { call: CallModel::asked(at, tool, params), steps: steps.collect(), ..Self::default() }
    }

    /// Position of the money, as a sentence.
    pub fn money(&self) -> String {
        let newest = self.transactions.last();
        let (paid, asked) = (self.call.token("token_in"), paid(self.call.param("amount").as_str()));
        match (self.call.status, newest) {
            (CardStatus::Done, _) => "moved, confirmed on chain".to_owned(),
            (_, Some(tx)) => match tx.state {
                TxState::Signed => format!("in your wallet; signed, not sent. tx {}", short_hash(tx.hash)),
                TxState::Sent => format!("sent, not confirmed. tx {}", short_hash(tx.hash)),
                TxState::Confirmed if !folding::is_main(tx) && self.call.status.is_over() => {
                    "in your wallet; the swap was not sent, and gas was spent on its allowance".to_owned()
                }
                TxState::Confirmed if !folding::is_main(tx) => {
                    format!("in your wallet; {} of {} transactions done", tx.leg, tx.of)
                }
                TxState::Confirmed => "moved, confirmed on chain".to_owned(),
                TxState::Reverted => "in your wallet; only gas was spent".to_owned(),
                TxState::Dropped => "in your wallet; the transaction was never included".to_owned(),
                TxState::Unclear => format!("outcome unknown; tracking tx {}", short_hash(tx.hash)),
            },
            (status, None) if self.offer.as_ref().is_some_and(|offer| offer.used) && !status.is_over() => {
                format!("in your wallet; {asked} {paid} reserved")
            }
            // The failure message may already say that nothing was signed.
            (status, None) if status.is_over() && !self.call.says("nothing was signed") => {
                "in your wallet; nothing was signed".to_owned()
            }
            _ => "in your wallet".to_owned(),
        }
    }

    /// Address of the transaction in a public block explorer; `None` on a devnet.
    pub fn link(&self) -> Option<&str> {
        let link = self.result.as_ref()?.explorer_url.as_ref()?.as_str();
        link.starts_with("https://").then_some(link)
    }

    /// Step that is running.
    fn running(&self) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.state == StepState::Running)
    }

    /// Returns true if the chain contradicts the declared result.
    fn disagrees(&self) -> bool {
        self.verified.as_ref().is_some_and(|verified| !verified.matched && !verified.unfilled)
    }

    fn money_row(&self) -> Row {
        Row::new("Money: ", Role::TextDim).then(self.money(), Role::Text).kept()
    }
}

impl CardView for SwapModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.call.status;
        let mut groups = Vec::new();
        let bare = |result: &SwapResult| {
            let paid = format!("{} {}", paid(result.amount_in.as_str()), self.call.token("token_in"));
            let got = format!(" → {} {}", amount(result.amount_out.as_str()), self.call.token("token_out"));
            vec![(paid, Role::Text), (got, Role::TextStrong)]
        };
        match &self.result {
            Some(result) if self.call.failure.is_none() => {
                groups.push(Group { rank: 0, pieces: bare(result) });
                let mut row = self.comparison(result);
                row.left.truncate(1);
                row.left.insert(0, ("  ".to_owned(), Role::Text));
                groups.push(Group { rank: 1, pieces: row.left });
            }
            _ => groups.push(Group::new(0, ask_words(&self.call), Role::Text)),
        }
        let mut mark = status.sign();
        if self.disagrees() {
            // First in the line, so that no figure displaces it.
            mark = CardStatus::Failed.sign();
            groups.insert(0, Group::new(0, "CHAIN DISAGREES  ", Role::StateBad));
        }
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        } else if status.in_flight() {
            let (step, role) = match (self.running(), status) {
                (_, CardStatus::Waiting) => ("waits for you".to_owned(), Role::StateCare),
                _ if self.call.offered_until.is_some() => ("not signed".to_owned(), Role::TextDim),
                (Some(step), CardStatus::Running) => (step.name.to_string(), Role::TextDim),
                _ => (self.money(), Role::TextDim),
            };
            groups.push(Group::new(1, format!("  {step}"), role));
        }
        CardLine { at: self.call.at, mark, kind: "Swap".to_owned(), groups, right: self.call.line_end(now) }
    }

    fn title(&self, now: Moment) -> Title {
        let right = match (self.call.status, self.running()) {
            _ if self.disagrees() => vec![("✕ CHAIN DISAGREES".to_owned(), Role::StateBad)],
            (CardStatus::Running, Some(step)) if self.call.offered_until.is_none() => {
                let word = step.name.as_str().split(' ').next().unwrap_or("").to_lowercase();
                vec![(format!("▸ {word} {}", super::figure::running(step.began, now)), Role::Chart)]
            }
            _ => self.call.status_text(now),
        };
        Title { left: vec![(format!("Swap {}", ask_words(&self.call)), Role::Title)], right }
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        if self.call.status == CardStatus::Empty {
            return vec![Row::new("No swap yet.", Role::TextDim)];
        }
        let mut rows = Vec::new();
        match &self.result {
            _ if self.call.failure.is_some() => {
                rows.extend(self.call.failure_rows());
                rows.extend(self.moved_rows());
            }
            Some(result) if self.call.status.is_over() => {
                let (token_in, token_out) = (self.call.token("token_in"), self.call.token("token_out"));
                rows.push(
                    Row::new(format!("{} {token_in} → ", paid(result.amount_in.as_str())), Role::Text)
                        .then(format!("{} {token_out}", amount(result.amount_out.as_str())), Role::TextStrong),
                );
                let mut row = self.comparison(result);
                if let Some(verdict) = self.verdict_row() {
                    row.right.extend(verdict.left.into_iter().take(1));
                }
                rows.push(row);
            }
            _ => {
                rows.push(Row::of(self.step_pieces()));
                if let Some(offer) = &self.offer {
                    let row = self.terms(offer);
                    rows.push(match offer.used {
                        true => row,
                        false => row.end(format!("offer {}", left(offer.expires_at / 1000, now)), Role::TextDim),
                    });
                }
            }
        }
        if !matches!(self.call.status, CardStatus::Done | CardStatus::Simulated) {
            rows.push(self.money_row());
        }
        rows
    }

    fn full(&self, now: Moment, _columns: usize) -> Vec<Row> {
        if self.call.status == CardStatus::Empty {
            return vec![Row::new("No swap yet. Press 2 to open the form.", Role::TextDim)];
        }
        let mut rows = self.call.failure_rows();
        rows.extend(self.moved_rows());
        rows.extend(memory_rows(self.memory.as_ref()));
        rows.extend(self.check_rows());
        rows.extend(self.step_rows(now));
        if let (Some(offer), false) = (&self.offer, self.call.status.is_over()) {
            let valid = match (offer.used, offer.expires_at <= now.millis) {
                (true, _) => ("taken".to_owned(), Role::TextDim),
                (false, true) => ("○ expired".to_owned(), Role::StateCare),
                (false, false) => (left(offer.expires_at / 1000, now), Role::Text),
            };
            rows.push(
                Row::new("Simulated offer: ", Role::TextDim)
                    .then(readable(offer.expected.as_str(), 4), Role::Text)
                    .end(valid.0, valid.1),
            );
        }
        if let (Some(result), true) =
            (&self.result, self.call.status.is_over() || self.call.status == CardStatus::Unclear)
        {
            rows.extend(self.result_rows(result));
            // Differences that the verification row lists are not repeated.
            let outcome = self.verified.as_ref().map_or("", |verified| verified.actual_outcome.as_str());
            for mismatch in result.mismatches.iter().filter(|one| !outcome.contains(one.as_str())) {
                rows.push(Row::new("✕ ", Role::StateBad).then(mismatch.as_str(), Role::StateBad).kept());
            }
        }
        rows.extend(self.verdict_row());
        if self.call.status != CardStatus::Done {
            rows.push(self.money_row());
        }
        rows.extend(self.result.iter().flat_map(|result| result.reasons.rows()));
        rows.extend(self.link().map(|link| Row::new("at ", Role::TextDim).then(link, Role::Text)));
        rows
    }

    fn last(&self, _now: Moment, keys: CardKeys) -> Option<Row> {
        let mut row = Row::new(short_hash(self.transactions.last()?.hash), Role::Text);
        if keys.copy {
            row = keyed(row, "y", "copy");
        }
        if keys.explorer {
            row = keyed(row, "o", "explorer");
        }
        Some(if keys.open.is_empty() { row } else { keyed(row, "Enter", keys.open) })
    }

    fn edge(&self, _now: Moment) -> Role {
        if self.disagrees() { Role::StateBad } else { self.call.status.edge() }
    }
}
