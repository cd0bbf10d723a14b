//! Health and figures of a served session for a monitoring system, in Prometheus's text format (version 0.0.4).
//!
//! Every local user can read them, so they name no account, amount, token or counterparty: shares of limits stand for
//! dollars.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use bardo_base::fabric::{ApprovalOutcome, BreakerState, Event, EventKind, LimitUsage, SpendState, TxState};
use bardo_base::id::CallId;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::units::Rounding;
use bardo_session::handle::{SessionNews, SessionSnapshot};
use bardo_session::market::MarketUpdate;

/// Upper bounds of the latency histogram, in seconds: from a quote to a transaction that waits for its block.
const SECONDS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];
/// Calls whose end is awaited for their latency.
const OPEN_CALLS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByChain {
    chain: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTool {
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByToolResult {
    tool: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLimit {
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLevel {
    level: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPhase {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVersion {
    version: &'static str,
}

type Ratio = Gauge<f64, std::sync::atomic::AtomicU64>;

/// Figures that follow a session's news. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    known: Arc<Mutex<Known>>,
    ready: Gauge,
    consoles: Gauge,
    events: Counter,
    decisions: Gauge,
    oldest_decision: Ratio,
    answers: Family<ByOutcome, Counter>,
    running: Gauge,
    calls: Family<ByToolResult, Counter>,
    latency: Family<ByTool, Histogram, fn() -> Histogram>,
    transactions: Family<ByState, Counter>,
    stop: Family<ByLevel, Gauge>,
    phase: Family<ByPhase, Gauge>,
    breaker_open: Gauge,
    breaker_failures: Gauge,
    limits: Family<ByLimit, Ratio>,
    ledger_fault: Gauge,
    block: Family<ByChain, Gauge>,
    block_time: Family<ByChain, Gauge>,
    base_fee: Family<ByChain, Ratio>,
    chain_fault: Family<ByChain, Gauge>,
    endpoints: Family<ByChain, Gauge>,
    endpoints_answering: Family<ByChain, Gauge>,
    endpoints_disputed: Family<ByChain, Gauge>,
}

/// Facts that several messages bring together.
#[derive(Debug, Default)]
struct Known {
    chains: Vec<String>,
    /// Tool of each running call.
    tools: HashMap<CallId, String>,
    /// Chains that do not respond; `None` is the network.
    faults: BTreeMap<Option<usize>, String>,
    ready: bool,
    ledger_fault: bool,
    ended: bool,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("bardo");
        let metrics = Self {
            registry: Arc::default(),
            known: Arc::default(),
            ready: Gauge::default(),
            consoles: Gauge::default(),
            events: Counter::default(),
            decisions: Gauge::default(),
            oldest_decision: Ratio::default(),
            answers: Family::default(),
            running: Gauge::default(),
            calls: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            transactions: Family::default(),
            stop: Family::default(),
            phase: Family::default(),
            breaker_open: Gauge::default(),
            breaker_failures: Gauge::default(),
            limits: Family::default(),
            ledger_fault: Gauge::default(),
            block: Family::default(),
            block_time: Family::default(),
            base_fee: Family::default(),
            chain_fault: Family::default(),
            endpoints: Family::default(),
            endpoints_answering: Family::default(),
            endpoints_disputed: Family::default(),
        };
        let build: Family<ByVersion, Gauge> = Family::default();
        build.get_or_create(&ByVersion { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "Version of Bardo", build);
        metrics.register_session(&mut registry);
        metrics.register_safety(&mut registry);
        metrics.register_chains(&mut registry);
        // Every level and period is there from the start, so that an alert can be written before it is needed.
        metrics.set_stop(None);
        Self { registry: Arc::new(registry), ..metrics }
    }

    fn register_session(&self, registry: &mut Registry) {
        registry.register("session_ready", "1 once the session can be used", self.ready.clone());
        registry.register("consoles", "Attached consoles", self.consoles.clone());
        registry.register("events", "Events of the session", self.events.clone());
        registry.register("decisions_waiting", "Decisions that wait for the operator", self.decisions.clone());
        registry.register(
            "oldest_decision_timestamp_seconds",
            "Unix time since which the oldest decision waits; 0 if none waits",
            self.oldest_decision.clone(),
        );
        registry.register("decisions", "Decisions that ended, by outcome", self.answers.clone());
        registry.register("calls_running", "Tool calls that run", self.running.clone());
        registry.register("calls", "Tool calls that ended, by tool and result", self.calls.clone());
        registry.register("call_seconds", "Duration of tool calls, in seconds", self.latency.clone());
        registry.register("transactions", "State changes of transactions", self.transactions.clone());
    }

    fn register_safety(&self, registry: &mut Registry) {
        registry.register("stop", "1 for the level of the stop in force, or for none", self.stop.clone());
        registry.register("phase", "1 for the phase that applies to calls", self.phase.clone());
        registry.register("breaker_open", "1 while the failure breaker is open", self.breaker_open.clone());
        registry.register("breaker_failures", "Failures since the last success", self.breaker_failures.clone());
        registry.register(
            "limit_used_ratio",
            "Used and reserved share of a spending limit, from 0 to 1; absent without a limit",
            self.limits.clone(),
        );
        registry.register(
            "ledger_fault",
            "1 if the ledger or the policy file cannot be read",
            self.ledger_fault.clone(),
        );
    }

    fn register_chains(&self, registry: &mut Registry) {
        registry.register("chain_block_number", "Newest block", self.block.clone());
        registry.register(
            "chain_block_timestamp_seconds",
            "Unix time of the newest block, by its header",
            self.block_time.clone(),
        );
        registry.register("chain_base_fee_wei", "Base fee of the newest block", self.base_fee.clone());
        registry.register("chain_fault", "1 while the chain does not respond", self.chain_fault.clone());
        registry.register("endpoints", "Configured endpoints", self.endpoints.clone());
        registry.register("endpoints_answering", "Endpoints that respond", self.endpoints_answering.clone());
        registry.register("endpoints_disputed", "Endpoints that contradict others", self.endpoints_disputed.clone());
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Sets the number of attached consoles.
    pub fn set_consoles(&self, attached: usize) {
        self.consoles.set(as_figure(attached));
    }

    /// Takes in news that every console receives.
    pub fn note(&self, news: &SessionNews) {
        match news {
            SessionNews::Market(update) => self.note_market(update),
            SessionNews::Ready(_) => {
                self.known().ready = true;
                self.ready.set(1);
            }
            SessionNews::Events(events) => events.iter().for_each(|event| self.note_event(event)),
            SessionNews::Questions(questions) => {
                self.decisions.set(as_figure(questions.len()));
                let oldest = questions.iter().map(|question| question.asked_at).min().unwrap_or(0);
                self.oldest_decision.set(seconds(oldest));
            }
            SessionNews::Snapshot(snapshot) => self.note_snapshot(snapshot),
            SessionNews::Left(_) => {
                self.known().ended = true;
                self.ready.set(0);
            }
            SessionNews::Offered { .. }
            | SessionNews::Began { .. }
            | SessionNews::Reply { .. }
            | SessionNews::Found { .. }
            | SessionNews::CommandResult { .. }
            | SessionNews::Replay(_) => {}
        }
    }

    fn note_market(&self, update: &MarketUpdate) {
        let mut known = self.known();
        match update {
            MarketUpdate::Boot(_) => {}
            MarketUpdate::Started(network) => {
                known.chains = network.chains.iter().map(|chain| chain.name.as_str().to_owned()).collect();
                for chain in &known.chains {
                    self.chain_fault.get_or_create(&ByChain { chain: chain.clone() }).set(0);
                }
            }
            MarketUpdate::Chain(snapshot) => {
                let chain = known.chain(snapshot.chain);
                known.faults.remove(&Some(snapshot.chain));
                self.chain_fault.get_or_create(&chain).set(0);
                if let Some(block) = snapshot.blocks.last() {
                    self.block.get_or_create(&chain).set(as_figure(block.number));
                    self.block_time.get_or_create(&chain).set(as_figure(block.timestamp));
                    self.base_fee.get_or_create(&chain).set(block.base_fee_wei as f64);
                }
            }
            MarketUpdate::Fault { chain, .. } => {
                let name = chain.map(|index| known.chain(index));
                if let Some(chain) = &name {
                    self.chain_fault.get_or_create(chain).set(1);
                }
                let name = name.map_or_else(|| "the network".to_owned(), |chain| chain.chain);
                known.faults.insert(*chain, name);
            }
            MarketUpdate::Endpoints { chain, state } => {
                let place = *chain;
                let chain = known.chain(place);
                // An endpoint that hangs brings no block whose reading could fail. The next block that is read ends the fault.
                if state.configured > 0 && state.answering == 0 {
                    self.chain_fault.get_or_create(&chain).set(1);
                    known.faults.insert(Some(place), chain.chain.clone());
                }
                self.endpoints.get_or_create(&chain).set(as_figure(state.configured));
                self.endpoints_answering.get_or_create(&chain).set(as_figure(state.answering));
                self.endpoints_disputed.get_or_create(&chain).set(as_figure(state.disputed.len()));
            }
        }
    }

    fn note_event(&self, event: &Event) {
        self.events.inc();
        match &event.kind {
            EventKind::ToolStart(start) => {
                let mut known = self.known();
                if let Some(call) = event.call_id.filter(|_| known.tools.len() < OPEN_CALLS) {
                    known.tools.insert(call, start.tool_name.clone().into_owned());
                }
            }
            EventKind::ToolEnd(end) => {
                // Its start may be missing, but its end counts.
                let tool = event.call_id.as_ref().and_then(|call| self.known().tools.remove(call));
                let tool = tool.unwrap_or_else(|| "unknown".to_owned());
                let result = if end.success { "success" } else { "failure" };
                self.latency.get_or_create(&ByTool { tool: tool.clone() }).observe(seconds(end.duration_ms));
                self.calls.get_or_create(&ByToolResult { tool, result }).inc();
            }
            EventKind::ApprovalResolved(resolved) => {
                let outcome = outcome(resolved.outcome);
                self.answers.get_or_create(&ByOutcome { outcome }).inc();
            }
            EventKind::TxUpdate(update) => {
                self.transactions.get_or_create(&ByState { state: state(update.state) }).inc();
            }
            EventKind::ToolUpdate(_)
            | EventKind::ToolOverrun(_)
            | EventKind::ToolError(_)
            | EventKind::SafetyCheck(_)
            | EventKind::PermitIssued(_)
            | EventKind::PermitConsumed(_)
            | EventKind::PermitRefused(_)
            | EventKind::ApprovalRequested(_)
            | EventKind::ToolVerified(_)
            | EventKind::OrderUpdate(_)
            | EventKind::IntentUpdate(_)
            | EventKind::ChainBlock(_)
            | EventKind::ChainHealth(_)
            | EventKind::HaltRaised(_)
            | EventKind::HaltLowered(_)
            | EventKind::PolicyChanged(_)
            | EventKind::SessionOpened(_)
            | EventKind::LimitsChanged(_)
            | EventKind::Vitals(_)
            | EventKind::PhaseChanged(_)
            | EventKind::SpriteChanged(_)
            | EventKind::GolemNow(_)
            | EventKind::GolemThought(_)
            | EventKind::MemoryHits(_)
            | EventKind::DirectiveChanged(_)
            | EventKind::LendingLiquidated(_)
            | EventKind::ActionRecovered(_)
            | EventKind::Caption(_)
            | EventKind::AlertChannel(_)
            | EventKind::FabricGap(_)
            | EventKind::FabricFault(_) => {}
        }
    }

    fn note_snapshot(&self, snapshot: &SessionSnapshot) {
        self.running.set(i64::from(snapshot.running));
        self.set_stop(snapshot.stop.as_ref().map(|stop| stop.level));
        for phase in Phase::ALL {
            let applies = i64::from(*phase == snapshot.phase);
            self.phase.get_or_create(&ByPhase { phase: phase.as_str() }).set(applies);
        }
        let fault = snapshot.fault.is_some();
        self.ledger_fault.set(i64::from(fault));
        self.known().ledger_fault = fault;
        self.note_limits(snapshot.limits.as_ref());
    }

    /// Takes in the use of the limits; `None` if the ledger cannot be read.
    fn note_limits(&self, limits: Option<&LimitUsage>) {
        let Some(limits) = limits else {
            // Figures from before would look like those of now.
            self.limits.clear();
            return;
        };
        let (open, failures) = match limits.breaker {
            BreakerState::Closed { failures } => (0, failures),
            BreakerState::Open { failures, .. } => (1, failures),
            BreakerState::OneTrial => (1, limits.failures_limit),
        };
        self.breaker_open.set(open);
        self.breaker_failures.set(i64::from(failures));
        for (limit, spent) in [("day", limits.day), ("month", limits.month)] {
            let limit = ByLimit { limit };
            match used(spent) {
                Some(used) => drop(self.limits.get_or_create(&limit).set(used)),
                None => drop(self.limits.remove(&limit)),
            }
        }
    }

    fn set_stop(&self, in_force: Option<StopLevel>) {
        let none = self.stop.get_or_create(&ByLevel { level: "none" }).clone();
        none.set(i64::from(in_force.is_none()));
        for level in StopLevel::ALL {
            let stopped = i64::from(in_force == Some(*level));
            self.stop.get_or_create(&ByLevel { level: level.as_str() }).set(stopped);
        }
    }

    /// All figures in Prometheus's text format.
    ///
    /// # Errors
    /// [`std::fmt::Error`] if a figure cannot be written.
    pub fn to_text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Reasons that the session is not healthy, one per line; empty if it is.
    pub fn faults(&self) -> Vec<String> {
        let known = self.known();
        let mut faults = Vec::new();
        if known.ended {
            faults.push("the session has ended".to_owned());
        } else if !known.ready {
            faults.push("the session is starting".to_owned());
        }
        faults.extend(known.faults.values().map(|chain| format!("{chain} does not respond")));
        if known.ledger_fault {
            faults.push("the ledger or the policy file cannot be read".to_owned());
        }
        faults
    }
}

impl Known {
    fn chain(&self, index: usize) -> ByChain {
        ByChain { chain: self.chains.get(index).cloned().unwrap_or_else(|| index.to_string()) }
    }
}

/// Figure of a gauge; one beyond its range is the highest.
fn as_figure(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

/// Milliseconds in seconds.
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

/// Share of a limit that is used; `None` without a limit.
fn used(spent: SpendState) -> Option<f64> {
    let limit = spent.limit?.scaled(6, Rounding::Down).filter(|limit| *limit > 0)?;
    Some(spent.used.scaled(6, Rounding::Up)? as f64 / limit as f64)
}

const fn outcome(outcome: ApprovalOutcome) -> &'static str {
    match outcome {
        ApprovalOutcome::Approved => "approved",
        ApprovalOutcome::ApprovedSimilar => "approved_similar",
        ApprovalOutcome::Edited => "edited",
        ApprovalOutcome::Refused => "refused",
        ApprovalOutcome::RefusedAndHalted => "refused_and_halted",
        ApprovalOutcome::Lapsed => "lapsed",
        ApprovalOutcome::Withdrawn => "withdrawn",
    }
}

const fn state(state: TxState) -> &'static str {
    match state {
        TxState::Signed => "signed",
        TxState::Sent => "sent",
        TxState::Confirmed => "confirmed",
        TxState::Reverted => "reverted",
        TxState::Dropped => "dropped",
        TxState::Unclear => "unclear",
    }
}

#[cfg(test)]
mod tests {
    use bardo_base::fabric::{EndState, ToolEnd};
    use bardo_base::id::GolemId;
    use serde_json::Value;

    use super::*;

    /// A console's bus may lose the start of a call; its end is counted all the same.
    #[test]
    fn the_end_of_a_call_counts_without_its_start() {
        let metrics = Metrics::new();
        let end = ToolEnd {
            success: false,
            state: Some(EndState::NotDone),
            duration_ms: 60,
            result_summary: Value::Null,
            card: None,
        };
        let event = Event {
            seq: 1,
            at: 1,
            golem_id: GolemId::operator(),
            call_id: Some(CallId::new(7)),
            kind: EventKind::ToolEnd(end),
        };
        metrics.note(&SessionNews::Events(vec![Arc::new(event)]));
        let text = metrics.to_text().unwrap();
        for line in [
            "bardo_calls_total{tool=\"unknown\",result=\"failure\"} 1",
            "bardo_call_seconds_bucket{tool=\"unknown\",le=\"0.05\"} 0",
            "bardo_call_seconds_bucket{tool=\"unknown\",le=\"0.1\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn a_share_of_a_limit_is_gone_with_the_ledger() {
        let metrics = Metrics::new();
        let figures = || metrics.to_text().unwrap().lines().filter(|line| line.starts_with("bardo_limit")).count();
        metrics.limits.get_or_create(&ByLimit { limit: "day" }).set(0.5);
        assert_eq!(figures(), 1);
        metrics.note_limits(None);
        assert_eq!(figures(), 0);
    }
}
