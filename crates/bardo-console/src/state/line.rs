//! Log lines: one line of plain text per important event, for the event list, the log and its filter.

use std::collections::BTreeMap;

use crate::widgets::figure::readable;
use crate::widgets::sprite::phase_words;
use crate::widgets::words::{check_word, counted, failure_words, finding_words, offer_words, policy_lines};
use bardo_base::display::tool_word;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{
    ActionRecovered, AlertChannelChanged, ApprovalOutcome, ApprovalResolved, ChainHealth, ChainState, CheckOutcome,
    Event, EventKind, IntentStatus, IntentUpdate, OrderStatus, OrderUpdate, RecoveredEnd, RequestRenewal, SafetyCheck,
    SpriteState, TxState, TxUpdate,
};
use bardo_base::format::short_hash;
use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;

/// Maximum length of a line, in characters.
const LONGEST: usize = 300;

/// Digits after the decimal point.
const PLACES: usize = 4;

/// Importance of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Steps, blocks, passed checks.
    Detail,
    /// Normal events worth a line.
    Plain,
    /// Events that deserve attention.
    Care,
    /// Failures and violations.
    Bad,
}

impl LogLevel {
    /// Name of the level in the log and its filter.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Detail => "detail",
            Self::Plain => "info",
            Self::Care => "care",
            Self::Bad => "bad",
        }
    }
}

/// Log line of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Sequence number of the event.
    pub seq: u64,
    /// Time of the event, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Golem, or operator, that acted.
    pub golem_id: GolemId,
    /// Call that the event belongs to.
    pub call_id: Option<CallId>,
    /// Importance of the line.
    pub level: LogLevel,
    /// Kind of the event, as in the journal.
    pub kind: &'static str,
    /// Description of the event.
    pub text: SafeText,
    /// Error code, if the event is an error; for the log and its filter.
    pub code: Option<ErrorCode>,
}

/// Name of a chain, else its id.
pub fn chain_words(chain_id: u64, chains: &BTreeMap<u64, SafeText>) -> String {
    chains.get(&chain_id).map_or_else(|| format!("chain {chain_id}"), ToString::to_string)
}

/// Returns true for an event that has a log line.
pub fn is_logged(kind: &EventKind) -> bool {
    !matches!(kind, EventKind::Vitals(_) | EventKind::SessionOpened(_) | EventKind::LimitsChanged(_))
}

/// Log line of an event; `None` for an event without one. `chains` holds the names of the chains.
pub fn line(event: &Event, chains: &BTreeMap<u64, SafeText>) -> Option<LogLine> {
    let (level, kind, text) = log_line(&event.kind, chains)?;
    Some(LogLine {
        seq: event.seq,
        at: event.at,
        golem_id: event.golem_id.clone(),
        call_id: event.call_id,
        level,
        kind,
        text: SafeText::clean(&readable(&text, PLACES), LONGEST),
        code: match &event.kind {
            EventKind::ToolError(failed) => Some(failed.error_code),
            _ => None,
        },
    })
}

fn log_line(kind: &EventKind, chains: &BTreeMap<u64, SafeText>) -> Option<(LogLevel, &'static str, String)> {
    Some(match kind {
        EventKind::ToolStart(start) => (LogLevel::Detail, "tool:start", format!("{} started", start.tool_name)),
        EventKind::ToolUpdate(update) => {
            (LogLevel::Detail, "tool:update", format!("{} ({}/{})", update.step, update.index, update.of))
        }
        EventKind::ToolOverrun(overrun) => {
            (LogLevel::Care, "tool:overrun", format!("slower than {} ms; still running", overrun.budget_ms))
        }
        EventKind::ToolError(failed) => (LogLevel::Bad, "tool:error", format!("not done: {}", failure_words(failed))),
        EventKind::ToolEnd(end) => {
            let how = if end.success { "done" } else { "not done" };
            (LogLevel::Detail, "tool:end", format!("{how} in {} ms", end.duration_ms))
        }
        EventKind::SafetyCheck(check) => check_line(check),
        EventKind::PermitIssued(issued) => {
            (LogLevel::Plain, "permit:issued", format!("simulated {}", issued.expected_outcome))
        }
        EventKind::PermitConsumed(_) => {
            (LogLevel::Plain, "permit:consumed", "signing exactly what was simulated".to_owned())
        }
        EventKind::PermitRefused(refused) => {
            let why = offer_words(refused.code, refused.why.as_str());
            (LogLevel::Care, "permit:refused", format!("the simulated offer is no longer usable: {why}"))
        }
        EventKind::ApprovalRequested(asked) => {
            let silence = if asked.passes_by_itself { "; it goes ahead unless you reject it" } else { "" };
            let (level, words) = match asked.renewal {
                None => (LogLevel::Care, "needs your decision"),
                Some(RequestRenewal::AsGood) => (LogLevel::Detail, "simulated again, still needs your decision"),
                Some(RequestRenewal::Worse) => (LogLevel::Care, "changed for the worse, needs your decision"),
            };
            (level, "approval:requested", format!("{words}: {}{silence}", asked.title))
        }
        EventKind::ApprovalResolved(resolved) => answer_line(resolved),
        EventKind::TxUpdate(update) => transaction_line(update),
        EventKind::ActionRecovered(found) => recovered_line(found),
        EventKind::ToolVerified(verified) => {
            // If the chain agrees, the figures are those that were declared.
            match verified.matched {
                true => (LogLevel::Plain, "tool:verified", "chain agrees ✓".to_owned()),
                false if verified.unfilled => {
                    (LogLevel::Care, "tool:verified", format!("not done ○ {}", verified.actual_outcome))
                }
                false => (LogLevel::Bad, "tool:verified", format!("chain disagrees ✕ {}", verified.actual_outcome)),
            }
        }
        EventKind::OrderUpdate(order) => order_line(order),
        EventKind::IntentUpdate(intent) => intent_line(intent),
        EventKind::ChainBlock(block) => (
            LogLevel::Detail,
            "chain:block",
            format!("{} block #{}", chain_words(block.chain_id, chains), block.number),
        ),
        EventKind::ChainHealth(health) => health_line(health, chains),
        EventKind::HaltRaised(halt) => {
            let level = halt.level.map_or("nothing", |level| level.as_str());
            (LogLevel::Bad, "halt:raised", format!("{} raised the stop to {level}: {}", stopper(&halt.by), halt.reason))
        }
        EventKind::HaltLowered(halt) => match halt.level {
            Some(level) => {
                (LogLevel::Care, "halt:lowered", format!("{} lowered the stop to {level}", stopper(&halt.by)))
            }
            None => (LogLevel::Care, "halt:lowered", "the stop is lifted".to_owned()),
        },
        EventKind::PolicyChanged(changed) => {
            (LogLevel::Care, "policy:changed", format!("policy v{}: {}", changed.version, policy_lines(changed)))
        }
        EventKind::Vitals(_) | EventKind::SessionOpened(_) | EventKind::LimitsChanged(_) => return None,
        EventKind::LendingLiquidated(found) => {
            (LogLevel::Bad, "lending:liquidated", format!("{found}, on {}", chain_words(found.chain_id, chains)))
        }
        EventKind::PhaseChanged(changed) => {
            let (from, to) = (phase_words(changed.from), phase_words(changed.to));
            (LogLevel::Care, "phase:changed", format!("{from} → {to}: {}", changed.why))
        }
        EventKind::SpriteChanged(changed) => {
            let level = if changed.to == SpriteState::Dead { LogLevel::Bad } else { LogLevel::Detail };
            (level, "sprite:changed", format!("body: {:?}", changed.to))
        }
        EventKind::GolemNow(now) => (LogLevel::Plain, "golem:now", now.now.to_string()),
        EventKind::GolemThought(said) if said.report => (LogLevel::Care, "golem:thought", said.text.to_string()),
        EventKind::GolemThought(said) => (LogLevel::Detail, "golem:thought", format!("┆ {}", said.text)),
        EventKind::MemoryHits(hits) => {
            let changes: Vec<&str> = hits.changes.iter().map(SafeText::as_str).collect();
            let (level, detail) = match changes.is_empty() {
                true => (LogLevel::Detail, String::new()),
                false => (LogLevel::Plain, format!(": {}", changes.join("; "))),
            };
            (level, "golem:memory", format!("{}{detail}", counted(hits.similar, "similar past trade")))
        }
        EventKind::DirectiveChanged(changed) => {
            let how = if changed.undone { "undone" } else { "changed" };
            (LogLevel::Plain, "golem:directive", format!("playbook {how}: {}", changed.summary))
        }
        EventKind::Caption(caption) => (LogLevel::Plain, "show:caption", caption.text.to_string()),
        EventKind::AlertChannel(changed) => alert_line(changed),
        EventKind::FabricGap(gap) => {
            (LogLevel::Care, "fabric:gap", format!("screen missed {} (nothing lost)", counted(gap.missed, "event")))
        }
        EventKind::FabricFault(fault) => (LogLevel::Bad, "fabric:fault", fault.message.to_string()),
    })
}

/// Name of the one who changed a stop, in a sentence.
pub(super) fn stopper(by: &SafeText) -> &str {
    match by.as_str() {
        "" => "somebody",
        "operator" => "the operator",
        other => other,
    }
}

/// Line of a check's result.
fn check_line(check: &SafetyCheck) -> (LogLevel, &'static str, String) {
    let (level, how) = match check.outcome {
        CheckOutcome::Passed => (LogLevel::Detail, "passed"),
        CheckOutcome::Warned => (LogLevel::Care, "warned"),
        CheckOutcome::Blocked => (LogLevel::Bad, "blocked"),
    };
    (level, "safety:check", format!("{} {how}: {}", check_word(check.check), finding_words(&check.finding)))
}

/// Line of an approval request that ended.
fn answer_line(resolved: &ApprovalResolved) -> (LogLevel, &'static str, String) {
    let how = match resolved.outcome {
        ApprovalOutcome::Approved => "you approved",
        ApprovalOutcome::ApprovedSimilar => "you approved, with similar actions for a while",
        ApprovalOutcome::Edited => "you asked for a smaller amount",
        ApprovalOutcome::Refused => "you rejected",
        ApprovalOutcome::RefusedAndHalted => "you rejected, and stopped everything",
        ApprovalOutcome::Lapsed => "nobody answered in time",
        ApprovalOutcome::Withdrawn => "the request was withdrawn",
    };
    let why = resolved.reason.as_ref().filter(|why| !why.is_empty());
    let text = why.map_or_else(|| how.to_owned(), |why| format!("{how}: \"{why}\""));
    (LogLevel::Care, "approval:resolved", text)
}

/// Line of an action that an earlier process left open.
fn recovered_line(found: &ActionRecovered) -> (LogLevel, &'static str, String) {
    let (level, how) = match found.end {
        Some(RecoveredEnd::Done) => (LogLevel::Plain, "was completed"),
        Some(RecoveredEnd::Partly) => (LogLevel::Care, "was not completed"),
        Some(RecoveredEnd::Failed) => (LogLevel::Bad, "failed"),
        Some(RecoveredEnd::Withdrawn) => (LogLevel::Plain, "was withdrawn or cancelled, and nothing of it happened"),
        Some(RecoveredEnd::Unclear) => (LogLevel::Care, "may be signed elsewhere"),
        None => (LogLevel::Care, "is open"),
    };
    let tool = found.tool.as_ref().map_or_else(|| "an action".to_owned(), |tool| tool_word(tool.as_str()));
    (level, "action:recovered", format!("{tool} of an earlier process {how}, by the chain"))
}

/// Line of a transaction's new state.
fn transaction_line(update: &TxUpdate) -> (LogLevel, &'static str, String) {
    let hash = short_hash(update.hash);
    let block = update.block.map(|block| format!(" in block #{block}")).unwrap_or_default();
    let (level, how) = match update.state {
        TxState::Signed => (LogLevel::Plain, "signed"),
        TxState::Sent => (LogLevel::Plain, "sent"),
        TxState::Confirmed => (LogLevel::Plain, "confirmed"),
        TxState::Reverted => (LogLevel::Bad, "reverted"),
        TxState::Dropped => (LogLevel::Care, "never included:"),
        TxState::Unclear => (LogLevel::Care, "outcome unknown:"),
    };
    (level, "tx:update", format!("{how} {hash}{block}"))
}

/// Line of an order's new state.
fn order_line(order: &OrderUpdate) -> (LogLevel, &'static str, String) {
    let level = match order.status {
        OrderStatus::Pending | OrderStatus::Open => LogLevel::Detail,
        OrderStatus::Filled | OrderStatus::Cancelled => LogLevel::Plain,
        OrderStatus::Expired | OrderStatus::InsufficientFunds => LogLevel::Care,
        OrderStatus::Error => LogLevel::Bad,
    };
    let (give, get) = (&order.token_in.symbol, &order.token_out.symbol);
    let text =
        format!("{} {} {give} → {get} {}", order.kind_word().to_lowercase(), order.amount_in, order.status.as_str());
    (level, "order:update", text)
}

/// Line of a bridge order's new state.
fn intent_line(intent: &IntentUpdate) -> (LogLevel, &'static str, String) {
    let level = match intent.status {
        IntentStatus::Pending | IntentStatus::Filling => LogLevel::Detail,
        IntentStatus::Filled | IntentStatus::Refunded => LogLevel::Plain,
        IntentStatus::Expired => LogLevel::Care,
    };
    let (give, to) = (&intent.token_in.symbol, &intent.destination_chain);
    let text = format!("bridge {} {give} to {to} {}", intent.amount_in, intent.status.as_str());
    (level, "intent:update", text)
}

/// Line of an alert channel's new state.
fn alert_line(changed: &AlertChannelChanged) -> (LogLevel, &'static str, String) {
    let lost = match changed.lost {
        0 => String::new(),
        lost => format!(" ({} lost in this run)", counted(lost, "alert")),
    };
    let (level, how) = match changed.works {
        true => (LogLevel::Plain, format!("alerts by {} work again{lost}", changed.channel)),
        false => (LogLevel::Care, format!("alerts by {} fail{lost}: {}", changed.channel, changed.why)),
    };
    (level, "alert:channel", how)
}

/// Line of a chain's health.
fn health_line(health: &ChainHealth, chains: &BTreeMap<u64, SafeText>) -> (LogLevel, &'static str, String) {
    let (level, how) = match health.state {
        ChainState::Healthy => (LogLevel::Plain, "responds normally"),
        ChainState::Degraded => (LogLevel::Care, "responds with errors"),
        ChainState::Down => (LogLevel::Bad, "does not answer"),
        ChainState::Disputed => (LogLevel::Bad, "endpoints disagree:"),
    };
    (level, "chain:health", format!("{} {how} {}", chain_words(health.chain_id, chains), health.why))
}
