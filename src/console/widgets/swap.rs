//! SwapProgress: every check and step of a swap with its state and time, then what it changed and whether the chain
//! agrees.

use alloy::primitives::U256;
use serde_json::Value;

use super::call::Call;
use super::figure::{against_quote, amount, left, text, took};
use super::paint::{Group, Line, Row, Title};
use super::quote::ask_words;
use super::status::Status;
use super::{Moment, Sheet};
use crate::base::model::Check;
use crate::base::text::SafeText;
use crate::base::units::TokenAmount;
use crate::console::format::{grouped, short_hash};
use crate::console::pen::Piece;
use crate::console::theme::Role;
use crate::fabric::{CheckOutcome, EventKind, ToolVerified, TxState, TxUpdate};

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

/// What a check said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRow {
    /// Which.
    pub check: Check,
    /// How it decided.
    pub outcome: CheckOutcome,
    /// Why.
    pub detail: SafeText,
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
    /// Why this way and not by auction.
    pub why: Option<SafeText>,
}

/// The simulated offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What will be true afterwards.
    pub expected: SafeText,
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
    pub checks: Vec<CheckRow>,
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
}

/// What a step's name is about. The names are the documents'; the events that tell of them are the pipeline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Simulate,
    Approve,
    Build,
    Sign,
    Send,
    Confirm,
    Other,
}

fn about(name: &str) -> About {
    let name = name.to_ascii_lowercase();
    [
        ("simulat", About::Simulate),
        ("approv", About::Approve),
        ("calldata", About::Build),
        ("sign", About::Sign),
        ("broadcast", About::Send),
        ("confirm", About::Confirm),
    ]
    .into_iter()
    .find(|(word, _)| name.contains(word))
    .map_or(About::Other, |(_, about)| about)
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
            why: text(hints.get("uniswapx").unwrap_or(&Value::Null), "why"),
        })
    }
}

impl SwapModel {
    /// A card for a call that was asked for, with the tool's own steps.
    pub fn asked(at: u64, tool: &str, params: Value, steps: &[&str]) -> Self {
        let step = |name: &&str| Step { name: SafeText::clean(name, 60), ..Step::default() };
        Self { call: Call::asked(at, tool, params), steps: steps.iter().map(step).collect(), ..Self::default() }
    }

    /// Takes in one event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        match kind {
            EventKind::ToolUpdate(update) => {
                self.end_running(at);
                let index = usize::try_from(update.index.saturating_sub(1)).unwrap_or(usize::MAX);
                let of = usize::try_from(update.of).unwrap_or(0).min(32);
                if self.steps.len() < of {
                    self.steps.resize(of, Step::default());
                }
                if let Some(step) = self.steps.get_mut(index) {
                    let name = SafeText::clean(&update.step, 60);
                    let note = std::mem::take(&mut step.note);
                    *step = Step { name, state: StepState::Running, began: at, ended: 0, note };
                }
            }
            EventKind::SafetyCheck(check) => {
                self.end_running(at);
                let first = self.checked.map_or(at, |(first, _)| first);
                if !self.offer.as_ref().is_some_and(|offer| offer.used) {
                    self.checked = Some((first, at));
                }
                if check.check == Check::Simulation {
                    let state =
                        if check.outcome == CheckOutcome::Blocked { StepState::Failed } else { StepState::Done };
                    let began = self.checked.map_or(at, |(_, last)| last);
                    self.set(About::Simulate, state, (began, at), Some(check.detail.clone()));
                }
                let row = CheckRow { check: check.check, outcome: check.outcome, detail: check.detail.clone() };
                match self.checks.iter_mut().find(|known| known.check == check.check) {
                    Some(known) => *known = row,
                    None => self.checks.push(row),
                }
            }
            EventKind::PermitIssued(permit) => {
                self.end_running(at);
                let expected = permit.expected_outcome.clone();
                self.offer = Some(Offer { expected, expires_at: permit.expires_at, used: false });
            }
            EventKind::PermitConsumed(_) => {
                if let Some(offer) = &mut self.offer {
                    offer.used = true;
                }
                self.set(About::Sign, StepState::Running, (at, at), None);
            }
            EventKind::TxUpdate(update) => self.transaction(at, update),
            EventKind::ToolVerified(verified) => self.verified = Some(verified.clone()),
            EventKind::ToolEnd(end) => self.end(at, end.success, end.card.as_ref()),
            _ => {}
        }
    }

    fn transaction(&mut self, at: u64, update: &TxUpdate) {
        match self.transactions.iter_mut().find(|known| known.leg == update.leg) {
            Some(known) => *known = update.clone(),
            None => self.transactions.push(update.clone()),
        }
        let last = update.leg >= update.of;
        match update.state {
            TxState::Signed => {
                self.set(About::Sign, StepState::Done, (at, at), None);
                self.set(About::Send, StepState::Running, (at, at), None);
            }
            TxState::Sent => {
                self.set(About::Send, StepState::Done, (at, at), None);
                self.set(About::Confirm, StepState::Running, (at, at), None);
            }
            TxState::Confirmed | TxState::Reverted => {
                let state = if update.state == TxState::Reverted { StepState::Failed } else { StepState::Done };
                let note =
                    update.block.map(|block| SafeText::clean(&format!("block #{}", grouped(&block.to_string())), 40));
                if last || state == StepState::Failed {
                    self.set(About::Confirm, state, (at, at), note);
                } else {
                    self.set(About::Approve, state, (at, at), note);
                    self.set(About::Sign, StepState::Running, (at, at), None);
                }
            }
            TxState::Dropped => {
                self.set(About::Send, StepState::Failed, (at, at), Some(SafeText::clean("no endpoint took it", 40)))
            }
            TxState::Unclear => {
                self.set(About::Confirm, StepState::Running, (at, at), Some(SafeText::clean("not known yet", 40)))
            }
        }
    }

    fn end(&mut self, at: u64, success: bool, card: Option<&crate::fabric::Card>) {
        let unclear = self.call.status == Status::Unclear;
        for step in &mut self.steps {
            match (step.state, success) {
                (StepState::Running, true) if !unclear => {
                    step.state = StepState::Done;
                    step.ended = at;
                }
                (StepState::Running, false) => {
                    step.state = StepState::Failed;
                    step.ended = at;
                }
                (StepState::Ahead, true) if !unclear => {
                    step.state = StepState::Skipped;
                    let why = if self.call.status == Status::Simulated { "not signed" } else { "not needed" };
                    step.note = SafeText::clean(why, 20);
                }
                _ => {}
            }
        }
        if let Some(card) = card {
            self.result = SwapResult::read(&card.data, card.hints.as_ref().unwrap_or(&Value::Null));
        }
    }

    fn end_running(&mut self, at: u64) {
        for step in self.steps.iter_mut().filter(|step| step.state == StepState::Running) {
            if matches!(about(step.name.as_str()), About::Simulate | About::Approve | About::Build | About::Other) {
                step.state = StepState::Done;
                step.ended = at;
            }
        }
    }

    fn set(&mut self, which: About, state: StepState, (began, ended): (u64, u64), note: Option<SafeText>) {
        let Some(step) = self.steps.iter_mut().find(|step| about(step.name.as_str()) == which) else { return };
        if step.began == 0 {
            step.began = began;
        }
        step.state = state;
        step.ended = ended;
        if let Some(note) = note {
            step.note = note;
        }
    }

    /// Where the money is, in a sentence.
    pub fn money(&self) -> String {
        let newest = self.transactions.last();
        let (paid, asked) = (self.call.param("token_in"), amount(self.call.param("amount").as_str()));
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
            (status, None) if status.is_over() => "in your wallet; nothing was signed".to_owned(),
            _ => "in your wallet".to_owned(),
        }
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

    fn check_counts(&self) -> (usize, usize, usize) {
        let count = |outcome| self.checks.iter().filter(|row| row.outcome == outcome).count();
        (self.checks.len(), count(CheckOutcome::Warned), count(CheckOutcome::Blocked))
    }

    /// The steps in one line: `✓ checks 9  ✓ simulate  ▸ confirm`.
    fn step_pieces(&self) -> Vec<Piece> {
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

    fn check_rows(&self) -> Vec<Row> {
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
            rows.push(Row::new(format!("  {mark} {name}: "), role).then(check.detail.as_str(), Role::Text).kept());
        }
        rows
    }

    fn step_rows(&self, now: Moment) -> Vec<Row> {
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
                StepState::Running => row.end(super::figure::running(step.began, now), Role::Chart),
                StepState::Done if step.ended > step.began => row.end(took(step.ended - step.began), Role::TextDim),
                _ => row,
            }
        };
        self.steps.iter().map(row).collect()
    }

    fn result_rows(&self, result: &SwapResult) -> Vec<Row> {
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
            let (token_in, token_out) = (self.call.param("token_in"), self.call.param("token_out"));
            let would = if self.call.status == Status::Simulated { "would pay " } else { "paid " };
            rows.push(
                Row::new(would, Role::TextDim)
                    .then(format!("{} {token_in}", amount(result.amount_in.as_str())), Role::Text)
                    .then("  get ", Role::TextDim)
                    .then(format!("{} {token_out}", amount(result.amount_out.as_str())), Role::TextStrong),
            );
        }
        rows.push(self.comparison(result));
        rows
    }

    /// What came, held against the quote; the floor; gas.
    fn comparison(&self, result: &SwapResult) -> Row {
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
        let cost = result.gas_wei.map(|wei| amount(&TokenAmount::ether(wei).to_string()));
        match (cost, result.gas_used) {
            (Some(cost), _) => row.then(format!(" · gas {cost} ETH"), Role::TextDim),
            (None, Some(units)) => row.then(format!(" · gas {} units", grouped(&units.to_string())), Role::TextDim),
            (None, None) => row,
        }
    }

    fn verdict_row(&self) -> Option<Row> {
        let verified = self.verified.as_ref()?;
        let source = verified.ground_truth_source.replace(" and ", " + ");
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

/// A check, in the words of the screen.
pub fn check_word(check: Check) -> &'static str {
    match check {
        Check::Halt => "stop",
        Check::PhaseGate => "phase",
        Check::TokenAllowlist => "tokens",
        Check::SpendingLimit => "limits",
        Check::RateLimit => "rate",
        Check::BalanceBreaker => "breaker",
        Check::SlippageGuard => "slippage",
        Check::PolicyCage => "policy contract",
        Check::Simulation => "simulation",
        Check::ChainHealth => "other chain",
    }
}

/// The difference between two numerals, with its sign.
fn change_words(before: &str, after: &str) -> String {
    let (Some(before), Some(after)) = (super::figure::decimal(before), super::figure::decimal(after)) else {
        return String::new();
    };
    let Some(change) = after.checked_sub(before) else { return String::new() };
    let sign = if change.is_sign_negative() { "−" } else { "+" };
    format!("{sign}{}", amount(&change.abs().normalize().to_string()))
}

impl Sheet for SwapModel {
    fn line(&self, now: Moment) -> Line {
        let status = self.call.status;
        let mut groups = Vec::new();
        let bare = |result: &SwapResult| {
            let paid = format!("{} {}", amount(result.amount_in.as_str()), self.call.param("token_in"));
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
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        } else if self.disagrees() {
            groups.push(Group::new(1, "  CHAIN DISAGREES ✕", Role::StateBad));
        } else if status.in_flight() {
            let (step, role) = match (self.running(), status) {
                (_, Status::Waiting) => ("waits for you".to_owned(), Role::StateCare),
                (Some(step), Status::Running) => (step.name.to_string(), Role::TextDim),
                _ => (self.money(), Role::TextDim),
            };
            groups.push(Group::new(1, format!("  {step}"), role));
        }
        Line { at: self.call.at, status, kind: "Swap".to_owned(), groups, right: self.call.line_end(now) }
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
            _ if self.call.failure.is_some() => rows.extend(self.call.failure_rows()),
            Some(result) if self.call.status.is_over() => {
                let (token_in, token_out) = (self.call.param("token_in"), self.call.param("token_out"));
                rows.push(
                    Row::new(format!("{} {token_in} → ", amount(result.amount_in.as_str())), Role::Text)
                        .then(format!("{} {token_out}", amount(result.amount_out.as_str())), Role::TextStrong),
                );
                let mut row = self.comparison(result);
                if let Some(verdict) = self.verdict_row() {
                    row.right.extend(verdict.left.into_iter().take(1));
                }
                rows.push(row);
            }
            _ => {
                let mut row = Row::of(self.step_pieces());
                if let Some(offer) = self.offer.as_ref().filter(|offer| !offer.used) {
                    row = row.end(left(offer.expires_at / 1000, now), Role::TextDim);
                }
                rows.push(row);
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
                    .then(offer.expected.as_str(), Role::Text)
                    .end(valid.0, valid.1),
            );
        }
        if let (Some(result), true) = (&self.result, self.call.status.is_over() || self.call.status == Status::Unclear)
        {
            rows.extend(self.result_rows(result));
            for mismatch in &result.mismatches {
                rows.push(Row::new("✕ ", Role::StateBad).then(mismatch.as_str(), Role::StateBad).kept());
            }
        }
        rows.extend(self.verdict_row());
        if self.call.status != Status::Done {
            rows.push(self.money_row());
        }
        if let Some(tx) = self.transactions.last() {
            rows.push(
                Row::new(short_hash(tx.hash), Role::Text)
                    .then("  y", Role::Key)
                    .then(" copy", Role::TextDim)
                    .then("  o", Role::Key)
                    .then(" explorer", Role::TextDim)
                    .then("  Enter", Role::Key)
                    .then(" full story", Role::TextDim),
            );
        }
        rows
    }

    fn edge(&self, _now: Moment) -> Role {
        if self.disagrees() { Role::StateBad } else { self.call.status.edge() }
    }
}
