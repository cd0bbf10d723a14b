//! SwapProgress: every check and step of a swap with its state and time, then what it changed and whether the chain
//! agrees.

mod folding;
mod rows;

use alloy_primitives::U256;
use serde_json::Value;

use super::call::Call;
use super::figure::{amount, left, memory_rows, paid, readable, text};
use super::paint::{Group, Line, Row, Title};
use super::quote::ask_words;
use super::reasons::Reasons;
use super::status::Status;
use super::{CardKeys, Moment, Sheet, keyed};
use crate::format::short_hash;
use crate::theme::Role;
use bardo_base::fabric::{LeastOut, SafetyCheck, ToolVerified, TxState, TxUpdate};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepState {
    /// Not begun.
    #[default]
    Ahead,
    /// Under way.
    Running,
    /// Over.
    Done,
    /// Was not needed.
    Skipped,
    /// Stopped the swap.
    Failed,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Its name, from the tool's own list.
    pub name: SafeText,
    /// How it stands.
    pub state: StepState,
    /// When it began, in milliseconds since the Unix epoch.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// What it found.
    pub note: SafeText,
}

/// A balance before and after, in whole tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceMove {
    /// The token's symbol.
    pub token: SafeText,
    /// Before.
    pub before: SafeText,
    /// After.
    pub after: SafeText,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwapResult {
    /// Paid, in whole tokens.
    pub amount_in: SafeText,
    /// Received, in whole tokens.
    pub amount_out: SafeText,
    /// What the quote said.
    pub quoted_out: Option<SafeText>,
    /// The least it would have taken.
    pub minimum_out: Option<SafeText>,
    /// Received below the quote, in basis points.
    pub slippage_bps: Option<i64>,
    /// Gas, in units.
    pub gas_used: Option<u64>,
    /// What gas cost, in wei.
    pub gas_wei: Option<U256>,
    /// The transaction.
    pub tx_hash: Option<SafeText>,
    /// Its block.
    pub block: Option<u64>,
    /// Where to look at it.
    pub explorer_url: Option<SafeText>,
    /// What moved.
    pub moves: Vec<BalanceMove>,
    /// What was not as declared.
    pub mismatches: Vec<SafeText>,
    /// Why it went this way.
    pub reasons: Reasons,
}

/// The simulated offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What will be true afterwards.
    pub expected: SafeText,
    /// The least that comes in.
    pub least: Option<LeastOut>,
    /// Dollars of what leaves the wallet, without gas; absent in recordings of earlier versions.
    pub leaves: Option<Usd>,
    /// Until when it serves, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// Whether it has been used.
    pub used: bool,
}

/// SwapProgress's model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SwapModel {
    /// The call.
    pub call: Call,
    /// The tool's steps.
    pub steps: Vec<Step>,
    /// What the checks said, in the order in which they were met.
    pub checks: Vec<SafetyCheck>,
    /// From the first check to the last before anything was signed, in milliseconds since the Unix epoch.
    pub checked: Option<(u64, u64)>,
    /// The simulated offer, once there is one.
    pub offer: Option<Offer>,
    /// Its transactions, the newest word on each.
    pub transactions: Vec<TxUpdate>,
    /// Whether the chain agrees.
    pub verified: Option<ToolVerified>,
    /// What became of it.
    pub result: Option<SwapResult>,
    /// What was remembered, and what that changed, a line each.
    pub memory: Option<(u32, Vec<SafeText>)>,
    /// What the offer before this one promised, where its price had moved away.
    pub before: Option<SafeText>,
    /// What the next offer for the same promises, once the price has moved away from this one.
    pub after: Option<SafeText>,
}

impl SwapResult {
    /// Reads a tool's answer; `None` where it is none.
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
    /// A card for a call that was asked for, with the tool's own steps.
    pub fn asked(at: u64, tool: &str, params: Value, steps: &[impl AsRef<str>]) -> Self {
        let step = |name: &str| Step { name: SafeText::clean(name, 60), ..Step::default() };
        let steps = steps.iter().map(AsRef::as_ref).map(step);
        Self { call: Call::asked(at, tool, params), steps: steps.collect(), ..Self::default() }
    }

    /// Where the money is, in a sentence.
    pub fn money(&self) -> String {
        let newest = self.transactions.last();
        let (paid, asked) = (self.call.param("token_in"), paid(self.call.param("amount").as_str()));
        match (self.call.status, newest) {
            (Status::Done, _) => "moved, as the chain says".to_owned(),
            (_, Some(tx)) => match tx.state {
                TxState::Signed => format!("in your wallet; signed, not sent. tx {}", short_hash(tx.hash)),
                TxState::Sent => format!("sent, not confirmed. tx {}", short_hash(tx.hash)),
                TxState::Confirmed if tx.leg < tx.of => {
                    format!("in your wallet; {} of {} transactions done", tx.leg, tx.of)
                }
                TxState::Confirmed => "moved, as the chain says".to_owned(),
                TxState::Reverted => "in your wallet; only gas was spent".to_owned(),
                TxState::Dropped => "in your wallet; nothing left this machine for good".to_owned(),
                TxState::Unclear => format!("not known yet; followed by its hash {}", short_hash(tx.hash)),
            },
            (status, None) if self.offer.as_ref().is_some_and(|offer| offer.used) && !status.is_over() => {
                format!("in your wallet; {asked} {paid} counted as spent")
            }
            // Of what did not come about its own line may say it already.
            (status, None) if status.is_over() && !self.call.says("nothing was signed") => {
                "in your wallet; nothing was signed".to_owned()
            }
            _ => "in your wallet".to_owned(),
        }
    }

    /// Where its transaction can be looked at, where that is somewhere outside: a devnet's is only here.
    pub fn link(&self) -> Option<&str> {
        let link = self.result.as_ref()?.explorer_url.as_ref()?.as_str();
        link.starts_with("https://").then_some(link)
    }

    /// The step that is under way.
    fn running(&self) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.state == StepState::Running)
    }

    /// Whether the chain says something else than what was declared.
    fn disagrees(&self) -> bool {
        self.verified.as_ref().is_some_and(|verified| !verified.matched)
    }

    fn money_row(&self) -> Row {
        Row::new("Money: ", Role::TextDim).then(self.money(), Role::Text).kept()
    }
}

impl Sheet for SwapModel {
    fn line(&self, now: Moment) -> Line {
        let status = self.call.status;
        let mut groups = Vec::new();
        let bare = |result: &SwapResult| {
            let paid = format!("{} {}", paid(result.amount_in.as_str()), self.call.param("token_in"));
            let got = format!(" → {} {}", amount(result.amount_out.as_str()), self.call.param("token_out"));
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
            // Before all else, so that no figure drives it out.
            mark = Status::Failed.sign();
            groups.insert(0, Group::new(0, "CHAIN DISAGREES  ", Role::StateBad));
        }
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        } else if status.in_flight() {
            let (step, role) = match (self.running(), status) {
                (_, Status::Waiting) => ("waits for you".to_owned(), Role::StateCare),
                (Some(step), Status::Running) => (step.name.to_string(), Role::TextDim),
                _ => (self.money(), Role::TextDim),
            };
            groups.push(Group::new(1, format!("  {step}"), role));
        }
        Line { at: self.call.at, mark, kind: "Swap".to_owned(), groups, right: self.call.line_end(now) }
    }

    fn title(&self, now: Moment) -> Title {
        let right = match (self.call.status, self.running()) {
            _ if self.disagrees() => vec![("✕ CHAIN DISAGREES".to_owned(), Role::StateBad)],
            (Status::Running, Some(step)) => {
                let word = step.name.as_str().split(' ').next().unwrap_or("").to_lowercase();
                vec![(format!("▸ {word} {}", super::figure::running(step.began, now)), Role::Chart)]
            }
            _ => self.call.standing(now),
        };
        Title { left: vec![(format!("Swap {}", ask_words(&self.call)), Role::Title)], right }
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        if self.call.status == Status::Empty {
            return vec![Row::new("No swap yet.", Role::TextDim)];
        }
        let mut rows = Vec::new();
        match &self.result {
            _ if self.call.failure.is_some() => {
                rows.extend(self.call.failure_rows());
                rows.extend(self.moved_rows());
            }
            Some(result) if self.call.status.is_over() => {
                let (token_in, token_out) = (self.call.param("token_in"), self.call.param("token_out"));
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
        if !matches!(self.call.status, Status::Done | Status::Simulated) {
            rows.push(self.money_row());
        }
        rows
    }

    fn full(&self, now: Moment, _columns: usize) -> Vec<Row> {
        if self.call.status == Status::Empty {
            return vec![Row::new("No swap yet. 2 opens the form for one.", Role::TextDim)];
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
        if let (Some(result), true) = (&self.result, self.call.status.is_over() || self.call.status == Status::Unclear)
        {
            rows.extend(self.result_rows(result));
            // What the chain's word below says is not said twice.
            let told = self.verified.as_ref().map_or("", |verified| verified.actual_outcome.as_str());
            for mismatch in result.mismatches.iter().filter(|one| !told.contains(one.as_str())) {
                rows.push(Row::new("✕ ", Role::StateBad).then(mismatch.as_str(), Role::StateBad).kept());
            }
        }
        rows.extend(self.verdict_row());
        if self.call.status != Status::Done {
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
