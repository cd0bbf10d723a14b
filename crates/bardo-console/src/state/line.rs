//! One line per event worth one, in plain words: for the list of events, the log and the filter.

use std::collections::BTreeMap;

use crate::widgets::figure::readable;
use crate::widgets::sprite::phase_words;
use crate::widgets::words::{check_word, failure_words, finding_words, offer_words, policy_line};
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{
    ApprovalOutcome, ChainState, CheckOutcome, Event, EventKind, IntentStatus, OrderStatus, SpriteState, TxState,
};
use bardo_base::format::short_hash;
use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;

/// The longest line, in characters.
const LONGEST: usize = 300;

/// Digits after the point.
const PLACES: usize = 4;

/// The kind of the line which says that events were missed.
pub const GAP: &str = "fabric:gap";

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Steps, blocks, checks that passed.
    Detail,
    /// What is worth reading.
    Plain,
    /// What is worth a second look.
    Care,
    /// What went wrong.
    Bad,
}

impl Level {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Detail => "detail",
            Self::Plain => "info",
            Self::Care => "care",
            Self::Bad => "bad",
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The event's number.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Who acted.
    pub golem_id: GolemId,
    /// The call it belongs to.
    pub call_id: Option<CallId>,
    /// How much it matters.
    pub level: Level,
    /// The event's kind, as the journal names it.
    pub kind: &'static str,
    /// What happened.
    pub text: SafeText,
    /// The error's code, where it is one: for the log and its filter.
    pub code: Option<ErrorCode>,
}

/// A chain by its name, where that is known.
pub fn chain_words(chain_id: u64, chains: &BTreeMap<u64, SafeText>) -> String {
    chains.get(&chain_id).map_or_else(|| format!("chain {chain_id}"), ToString::to_string)
}

/// The line of an event; `None` where it is worth none. `chains` are the names of the chains.
pub fn line(event: &Event, chains: &BTreeMap<u64, SafeText>) -> Option<Line> {
    let (level, kind, text) = words(&event.kind, chains)?;
    Some(Line {
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

fn words(kind: &EventKind, chains: &BTreeMap<u64, SafeText>) -> Option<(Level, &'static str, String)> {
    Some(match kind {
        EventKind::ToolStart(start) => (Level::Detail, "tool:start", format!("{} begins", start.tool_name)),
        EventKind::ToolUpdate(update) => {
            (Level::Detail, "tool:update", format!("{} ({}/{})", update.step, update.index, update.of))
        }
        EventKind::ToolOverrun(overrun) => {
            (Level::Care, "tool:overrun", format!("takes longer than {} ms; it goes on", overrun.budget_ms))
        }
        EventKind::ToolError(failed) => (Level::Bad, "tool:error", format!("not done: {}", failure_words(failed))),
        EventKind::ToolEnd(end) => {
            let how = if end.success { "done" } else { "not done" };
            (Level::Detail, "tool:end", format!("{how} in {} ms", end.duration_ms))
        }
        EventKind::SafetyCheck(check) => {
            let (level, how) = match check.outcome {
                CheckOutcome::Passed => (Level::Detail, "passed"),
                CheckOutcome::Warned => (Level::Care, "to be read"),
                CheckOutcome::Blocked => (Level::Bad, "blocked"),
            };
            (level, "safety:check", format!("{} {how}: {}", check_word(check.check), finding_words(&check.finding)))
        }
        EventKind::PermitIssued(issued) => {
            (Level::Plain, "permit:issued", format!("simulated {}", issued.expected_outcome))
        }
        EventKind::PermitConsumed(_) => {
            (Level::Plain, "permit:consumed", "signing exactly what was simulated".to_owned())
        }
        EventKind::PermitRefused(refused) => {
            let why = offer_words(refused.code, refused.why.as_str());
            (Level::Care, "permit:refused", format!("the simulated offer no longer serves: {why}"))
        }
        EventKind::ApprovalRequested(asked) => {
            let silence = if asked.passes_by_itself { "; without a no it goes ahead" } else { "" };
            (Level::Care, "approval:requested", format!("you are asked: {}{silence}", asked.title))
        }
        EventKind::ApprovalResolved(resolved) => {
            let how = match resolved.outcome {
                ApprovalOutcome::Approved => "you approved",
                ApprovalOutcome::ApprovedSimilar => "you approved, and similar ones for a while",
                ApprovalOutcome::Edited => "you asked for a smaller amount",
                ApprovalOutcome::Refused => "you refused",
                ApprovalOutcome::RefusedAndHalted => "you refused, and stopped everything",
                ApprovalOutcome::Lapsed => "nobody answered in time",
                ApprovalOutcome::Withdrawn => "the question was taken back",
            };
            let why = resolved.reason.as_ref().filter(|why| !why.is_empty());
            let text = why.map_or_else(|| how.to_owned(), |why| format!("{how}: \"{why}\""));
            (Level::Care, "approval:resolved", text)
        }
        EventKind::TxUpdate(update) => {
            let hash = short_hash(update.hash);
            let block = update.block.map(|block| format!(" in block #{block}")).unwrap_or_default();
            let (level, how) = match update.state {
                TxState::Signed => (Level::Plain, "signed"),
                TxState::Sent => (Level::Plain, "sent"),
                TxState::Confirmed => (Level::Plain, "confirmed"),
                TxState::Reverted => (Level::Bad, "reverted"),
                TxState::Dropped => (Level::Care, "was never taken:"),
                TxState::Unclear => (Level::Care, "not known yet:"),
            };
            (level, "tx:update", format!("{how} {hash}{block}"))
        }
        EventKind::ToolVerified(verified) => {
            // Where it agrees the figures are the ones that were declared.
            match verified.matched {
                true => (Level::Plain, "tool:verified", "chain agrees ✓".to_owned()),
                false => (Level::Bad, "tool:verified", format!("chain disagrees ✕ {}", verified.actual_outcome)),
            }
        }
        EventKind::OrderUpdate(order) => {
            let level = match order.status {
                OrderStatus::Pending | OrderStatus::Open => Level::Detail,
                OrderStatus::Filled | OrderStatus::Cancelled => Level::Plain,
                OrderStatus::Expired | OrderStatus::InsufficientFunds => Level::Care,
                OrderStatus::Error => Level::Bad,
            };
            let (give, get) = (&order.token_in.symbol, &order.token_out.symbol);
            let text = format!("auction {} {give} → {get} {}", order.amount_in, order.status.as_str());
            (level, "order:update", text)
        }
        EventKind::IntentUpdate(intent) => {
            let level = match intent.status {
                IntentStatus::Pending | IntentStatus::Filling => Level::Detail,
                IntentStatus::Filled | IntentStatus::Refunded => Level::Plain,
                IntentStatus::Expired => Level::Care,
            };
            let (give, to) = (&intent.token_in.symbol, &intent.destination_chain);
            let text = format!("bridge {} {give} to {to} {}", intent.amount_in, intent.status.as_str());
            (level, "intent:update", text)
        }
        EventKind::ChainBlock(block) => {
            (Level::Detail, "chain:block", format!("{} block #{}", chain_words(block.chain_id, chains), block.number))
        }
        EventKind::ChainHealth(health) => {
            let (level, how) = match health.state {
                ChainState::Healthy => (Level::Plain, "answers well"),
                ChainState::Degraded => (Level::Care, "answers badly"),
                ChainState::Down => (Level::Bad, "does not answer"),
                ChainState::Disputed => (Level::Bad, "endpoints disagree:"),
            };
            (level, "chain:health", format!("{} {how} {}", chain_words(health.chain_id, chains), health.why))
        }
        EventKind::HaltRaised(halt) => {
            let level = halt.level.map_or("nothing", |level| level.as_str());
            (Level::Bad, "halt:raised", format!("stop ladder at {level} by {}: {}", halt.by, halt.reason))
        }
        EventKind::HaltLowered(halt) => match halt.level {
            Some(level) => (Level::Care, "halt:lowered", format!("stop ladder lowered to {level} by {}", halt.by)),
            None => (Level::Care, "halt:lowered", "the stop is lifted".to_owned()),
        },
        EventKind::PolicyChanged(changed) => {
            let changes: Vec<String> = changed.changes.iter().map(policy_line).collect();
            (Level::Care, "policy:changed", format!("policy v{}: {}", changed.version, changes.join("; ")))
        }
        EventKind::Vitals(_) | EventKind::SessionOpened(_) | EventKind::LimitsChanged(_) => return None,
        EventKind::PhaseChanged(changed) => {
            let (from, to) = (phase_words(changed.from), phase_words(changed.to));
            (Level::Care, "phase:changed", format!("{from} → {to}: {}", changed.why))
        }
        EventKind::SpriteChanged(changed) => {
            let level = if changed.to == SpriteState::Dead { Level::Bad } else { Level::Detail };
            (level, "sprite:changed", format!("body: {:?}", changed.to))
        }
        EventKind::GolemNow(now) => (Level::Plain, "golem:now", now.now.to_string()),
        EventKind::GolemThought(said) => (Level::Detail, "golem:thought", format!("┆ {}", said.text)),
        EventKind::MemoryHits(hits) => {
            let changes: Vec<&str> = hits.changes.iter().map(SafeText::as_str).collect();
            let (level, told) = match changes.is_empty() {
                true => (Level::Detail, String::new()),
                false => (Level::Plain, format!(": {}", changes.join("; "))),
            };
            (level, "golem:memory", format!("{} similar past trades{told}", hits.similar))
        }
        EventKind::DirectiveChanged(changed) => {
            let how = if changed.undone { "taken back" } else { "changed" };
            (Level::Plain, "golem:directive", format!("playbook {how}: {}", changed.summary))
        }
        EventKind::Caption(caption) => (Level::Plain, "show:caption", caption.text.to_string()),
        EventKind::FabricGap(gap) => (Level::Care, GAP, format!("screen missed {} events (nothing lost)", gap.missed)),
        EventKind::FabricFault(fault) => (Level::Bad, "fabric:fault", fault.message.to_string()),
    })
}
