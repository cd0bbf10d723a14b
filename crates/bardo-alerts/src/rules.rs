//! Conditions over a session's news. Each gives an alert once, when it begins to hold; the same alert is not repeated
//! for a while.

use std::collections::{BTreeMap, VecDeque};

use super::alert::Alert;
use bardo_base::config::{AlertRule, AlertSettings};
use bardo_base::fabric::{
    ApprovalOutcome, ApprovalResolved, BreakerState, ChainHealth, ChainState, Event, EventKind, HaltChanged,
    PhaseChanged, SessionOpened,
};
use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_session::handle::{SessionNews, SessionSnapshot};
use bardo_session::market::{ChainSnapshot, FeedPrice, MarketUpdate};
use bardo_session::questions::{Question, QuestionKey, RequestSubject};

/// Maximum number of tokens whose prices are followed.
const MOST_PRICES: usize = 512;
/// Maximum number of past decisions and alerts that are remembered.
const MOST_KNOWN: usize = 256;
/// Number of samples over the time within which a move counts.
const SAMPLES: u64 = 120;
/// Decimals of dollars that moves are computed with.
const DOLLAR_DECIMALS: u8 = 9;
/// Maximum length of a place, in characters.
const LONGEST_PLACE: usize = 120;
/// Digits after the decimal point of a shown amount.
const PLACES: usize = 6;

/// State without a stop.
const NO_STOP: &str = "none";
/// State of a chain whose endpoints answer.
const HEALTHY: &str = "healthy";

/// Rules with the state that they need.
#[derive(Debug)]
pub(crate) struct AlertRules {
    rules: Vec<AlertRule>,
    decision_millis: u64,
    within_millis: u64,
    repeat_millis: u64,
    gas_below: Option<TokenAmount>,
    balance_percent: Option<u64>,
    price_percent: Option<u64>,
    /// Network with its kind of money.
    network: String,
    /// Names of the chains by id, with the symbols of their native tokens.
    chains: BTreeMap<u64, (SafeText, SafeText)>,
    /// Names of the chains in their order.
    chain_names: Vec<SafeText>,
    waiting: BTreeMap<u64, WaitingDecision>,
    /// Titles and chains of past decisions about actions.
    decisions: VecDeque<(PermitId, SafeText, Option<u64>)>,
    breaker_open: bool,
    /// True after a gap in the events, until a snapshot names the stop in force.
    gap: bool,
    gas_low: Vec<u64>,
    balance: MoveWindow,
    prices: BTreeMap<(usize, String), MoveWindow>,
    /// Alerts that were sent, by rule, subject and state.
    sent: BTreeMap<(AlertRule, String, String), SentAlert>,
    /// States that were sent last, by rule and subject.
    reported: BTreeMap<(AlertRule, String), ReportedState>,
}

/// Last alert of a rule, subject and state.
#[derive(Debug, Clone, Copy)]
struct SentAlert {
    at: u64,
    /// Number of equal ones since.
    repeated: u64,
}

impl SentAlert {
    /// True for the time within which the same is not sent again. A clock that was set back ends it.
    fn is_recent(self, now: u64, repeat_millis: u64) -> bool {
        self.at <= now && now < self.at.saturating_add(repeat_millis)
    }
}

/// State of a subject that was sent last.
#[derive(Debug)]
struct ReportedState {
    state: String,
    /// Alert about the present state, if it is another one and was sent a short while ago.
    waiting: Option<Alert>,
}

/// Decision that waits, by its number.
#[derive(Debug)]
struct WaitingDecision {
    since: u64,
    reported: bool,
    title: SafeText,
    value: Option<Usd>,
    reasons: Vec<SafeText>,
    chain: Option<u64>,
    ends_at: Option<u64>,
    passes_by_itself: bool,
}

impl WaitingDecision {
    /// True once it has waited for long enough, or for half of the time that it has. One that goes ahead by itself is
    /// reported at once.
    fn is_due(&self, now: u64, after: u64) -> bool {
        let half = self.ends_at.map(|ends| ends.saturating_sub(self.since) / 2).unwrap_or(u64::MAX);
        self.passes_by_itself || now < self.since || now >= self.since.saturating_add(after.min(half))
    }
}

impl AlertRules {
    pub fn new(settings: &AlertSettings) -> Self {
        let minutes = |minutes: u64| minutes.saturating_mul(60_000);
        Self {
            rules: settings.rules.value.clone(),
            decision_millis: settings.decision_seconds.value.saturating_mul(1_000),
            within_millis: minutes(settings.within_minutes.value),
            repeat_millis: minutes(settings.repeat_minutes.value),
            gas_below: settings.gas_below.as_ref().map(|gas| gas.value),
            balance_percent: settings.balance_percent.as_ref().map(|percent| percent.value),
            price_percent: settings.price_percent.as_ref().map(|percent| percent.value),
            network: "not started".to_owned(),
            chains: BTreeMap::new(),
            chain_names: Vec::new(),
            waiting: BTreeMap::new(),
            decisions: VecDeque::new(),
            breaker_open: false,
            gap: false,
            gas_low: Vec::new(),
            balance: MoveWindow::default(),
            prices: BTreeMap::new(),
            sent: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }

    /// Follows news at a time in milliseconds since the Unix epoch. Returns the alerts to send.
    pub fn note(&mut self, news: &SessionNews, now: u64) -> Vec<Alert> {
        let found = match news {
            SessionNews::Market(update) => self.note_market(update, now),
            SessionNews::Events(events) => events.iter().filter_map(|event| self.note_event(event, now)).collect(),
            SessionNews::Questions(open) => {
                self.note_questions(open, now);
                self.waiting(now)
            }
            SessionNews::Snapshot(snapshot) => self.note_snapshot(snapshot, now),
            SessionNews::Ready(_)
            | SessionNews::Offered { .. }
            | SessionNews::Began { .. }
            | SessionNews::Reply { .. }
            | SessionNews::Found { .. }
            | SessionNews::CommandResult { .. }
            | SessionNews::Replay(_)
            | SessionNews::Left(_) => Vec::new(),
        };
        self.unrepeated(found, now)
    }

    /// Returns the alerts that time alone brings.
    pub fn tick(&mut self, now: u64) -> Vec<Alert> {
        let mut found = self.waiting(now);
        for ((rule, subject), reported) in &mut self.reported {
            let key = reported.waiting.as_ref().map(|alert| (*rule, subject.clone(), alert.state.clone()));
            let sent = key.and_then(|key| self.sent.get(&key));
            if !sent.is_some_and(|sent| sent.is_recent(now, self.repeat_millis)) {
                found.extend(reported.waiting.take());
            }
        }
        self.unrepeated(found, now)
    }

    /// Network of the session, with the chain if one is given.
    pub fn place(&self, chain: Option<u64>) -> SafeText {
        let chain = chain.map(|id| match self.chains.get(&id) {
            Some((name, _)) => format!(", {name}"),
            None => format!(", chain {id}"),
        });
        SafeText::clean(&format!("{}{}", self.network, chain.unwrap_or_default()), LONGEST_PLACE)
    }

    fn alert(&self, rule: AlertRule, subject: String, now: u64, brief: &str, chain: Option<u64>) -> Alert {
        Alert::new(rule, subject, now, brief, self.place(chain))
    }

    /// Drops alerts of rules that are off, and those that were sent a short while ago. The last one sent about a state
    /// is about the present one: another waits until it may be repeated, and a stop never waits.
    fn unrepeated(&mut self, found: Vec<Alert>, now: u64) -> Vec<Alert> {
        let mut left = Vec::new();
        for mut alert in found {
            let Some(rule) = alert.rule.filter(|rule| self.rules.contains(rule)) else { continue };
            let key = (rule, alert.subject.clone(), alert.state.clone());
            let object = (rule, alert.subject.clone());
            let is_state = !alert.state.is_empty();
            if is_state {
                let reported = self.reported.get_mut(&object);
                let before = reported.as_ref().map_or(state_before(rule), |reported| reported.state.as_str());
                if before == alert.state {
                    if let Some(reported) = reported {
                        reported.waiting = None;
                    }
                    continue;
                }
            }
            if let Some(sent) = self.sent.get_mut(&key) {
                if sent.is_recent(now, self.repeat_millis) && rule != AlertRule::Stop {
                    sent.repeated = sent.repeated.saturating_add(1);
                    if let Some(reported) = self.reported.get_mut(&object).filter(|_| is_state) {
                        reported.waiting = Some(alert);
                    }
                    continue;
                }
                alert.repeated = sent.repeated;
            }
            if self.sent.len() >= MOST_KNOWN {
                let repeat = self.repeat_millis;
                self.sent.retain(|_, sent| sent.is_recent(now, repeat));
                if self.sent.len() >= MOST_KNOWN {
                    self.sent.clear();
                }
            }
            self.sent.insert(key, SentAlert { at: now, repeated: 0 });
            if is_state {
                self.reported.insert(object, ReportedState { state: alert.state.clone(), waiting: None });
            }
            left.push(alert);
        }
        left
    }

    fn note_market(&mut self, update: &MarketUpdate, now: u64) -> Vec<Alert> {
        match update {
            MarketUpdate::Started(network) => {
                self.network = format!("{} ({})", network.name, network.money.describe());
                self.chain_names = network.chains.iter().map(|chain| chain.name.clone()).collect();
                for chain in &network.chains {
                    let native = self.chains.remove(&chain.id).map(|(_, native)| native).unwrap_or_default();
                    self.chains.insert(chain.id, (chain.name.clone(), native));
                }
                Vec::new()
            }
            MarketUpdate::Fault { chain: None, message } => {
                let alert = self.alert(AlertRule::Endpoint, "network".to_owned(), now, "The network has failed.", None);
                vec![alert.detailed([message.to_string()])]
            }
            MarketUpdate::Chain(chain) => self.note_prices(chain, now),
            MarketUpdate::Boot(_) | MarketUpdate::Fault { chain: Some(_), .. } | MarketUpdate::Endpoints { .. } => {
                Vec::new()
            }
        }
    }

    fn note_event(&mut self, event: &Event, now: u64) -> Option<Alert> {
        match &event.kind {
            EventKind::SessionOpened(opened) => {
                self.note_opened(opened);
                None
            }
            EventKind::ApprovalResolved(resolved) => self.resolved(resolved, now),
            EventKind::PhaseChanged(changed) => Some(self.phase(changed, now)),
            // A dialog's stop while the operator chooses a level.
            EventKind::HaltRaised(changed) | EventKind::HaltLowered(changed) if changed.hold => None,
            EventKind::HaltRaised(changed) => Some(self.stop(changed, true, now)),
            EventKind::HaltLowered(changed) => Some(self.stop(changed, false, now)),
            EventKind::ChainHealth(health) => self.health(health, now),
            EventKind::FabricGap(_) => {
                self.gap = true;
                None
            }
            EventKind::ToolStart(_)
            | EventKind::ToolUpdate(_)
            | EventKind::ToolOverrun(_)
            | EventKind::ToolError(_)
            | EventKind::ToolEnd(_)
            | EventKind::SafetyCheck(_)
            | EventKind::PermitIssued(_)
            | EventKind::PermitConsumed(_)
            | EventKind::PermitRefused(_)
            | EventKind::ApprovalRequested(_)
            | EventKind::TxUpdate(_)
            | EventKind::ToolVerified(_)
            | EventKind::OrderUpdate(_)
            | EventKind::IntentUpdate(_)
            | EventKind::ChainBlock(_)
            | EventKind::PolicyChanged(_)
            | EventKind::LimitsChanged(_)
            | EventKind::Vitals(_)
            | EventKind::SpriteChanged(_)
            | EventKind::GolemNow(_)
            | EventKind::GolemThought(_)
            | EventKind::MemoryHits(_)
            | EventKind::DirectiveChanged(_)
            | EventKind::LendingLiquidated(_)
            | EventKind::ActionRecovered(_)
            | EventKind::Caption(_)
            // An alert about a channel would go to that channel.
            | EventKind::AlertChannel(_)
            | EventKind::FabricFault(_) => None,
        }
    }

    fn note_opened(&mut self, opened: &SessionOpened) {
        for chain in &opened.chains {
            self.chains.insert(chain.chain_id, (chain.name.clone(), chain.native_symbol.clone()));
        }
    }

    fn note_questions(&mut self, open: &[Question], now: u64) {
        self.waiting.retain(|number, _| open.iter().any(|question| question.number == *number));
        for question in open {
            let chain = chain_of(question);
            if let QuestionKey::Action(permit) = question.key
                && !self.decisions.iter().any(|(known, ..)| *known == permit)
            {
                if self.decisions.len() >= MOST_KNOWN {
                    self.decisions.pop_front();
                }
                self.decisions.push_back((permit, question.title.clone(), chain));
            }
            let known = self.waiting.get(&question.number);
            // Not after now, if the clock was set back.
            let (since, reported) = known.map_or((now, false), |known| (known.since.min(now), known.reported));
            let decision = WaitingDecision {
                since,
                reported,
                title: question.title.clone(),
                value: question.value,
                reasons: question.reasons.iter().map(|reason| reason.describe()).collect(),
                chain,
                ends_at: question.ends_at,
                passes_by_itself: question.passes_by_itself,
            };
            self.waiting.insert(question.number, decision);
        }
    }

    /// Decisions that have waited long enough.
    fn waiting(&mut self, now: u64) -> Vec<Alert> {
        let due: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, one)| !one.reported && one.is_due(now, self.decision_millis))
            .map(|(number, _)| *number)
            .collect();
        let mut found = Vec::new();
        for number in due {
            let Some(decision) = self.waiting.get_mut(&number) else { continue };
            decision.reported = true;
            let Some(decision) = self.waiting.get(&number) else { continue };
            let alert = self.alert(
                AlertRule::DecisionWaits,
                number.to_string(),
                now,
                "A decision waits for your answer.",
                decision.chain,
            );
            let worth = decision.value.map(|value| format!("Leaves the wallet: {}", dollars(value)));
            let reasons = decision.reasons.iter().map(|reason| format!("Asked because: {reason}"));
            let details = [decision.title.to_string()].into_iter().chain(worth).chain(reasons);
            found.push(alert.lapsing(decision.ends_at, decision.passes_by_itself).detailed(details));
        }
        found
    }

    fn resolved(&self, resolved: &ApprovalResolved, now: u64) -> Option<Alert> {
        match resolved.outcome {
            ApprovalOutcome::Lapsed => {}
            ApprovalOutcome::Approved
            | ApprovalOutcome::ApprovedSimilar
            | ApprovalOutcome::Edited
            | ApprovalOutcome::Refused
            | ApprovalOutcome::RefusedAndHalted
            | ApprovalOutcome::Withdrawn => return None,
        }
        let known = self.decisions.iter().find(|(permit, ..)| *permit == resolved.permit_id);
        let chain = known.and_then(|(.., chain)| *chain);
        let words = "A decision lapsed without an answer; nothing was signed.";
        let alert = self.alert(AlertRule::DecisionLapsed, resolved.permit_id.to_string(), now, words, chain);
        Some(alert.detailed(known.map(|(_, title, _)| title.to_string())))
    }

    fn phase(&self, changed: &PhaseChanged, now: u64) -> Alert {
        let words = format!("The Golem's phase is now {}.", changed.to.as_str());
        let alert = self.alert(AlertRule::Phase, "phase".to_owned(), now, &words, None);
        alert.in_state(changed.to.as_str()).detailed([format!("Before: {}. {}", changed.from.as_str(), changed.why)])
    }

    fn stop(&self, changed: &HaltChanged, raised: bool, now: u64) -> Alert {
        let (level, words) = match (changed.level, raised) {
            (None, _) => (NO_STOP, "The stop was lifted.".to_owned()),
            (Some(level), true) => (level.as_str(), format!("A stop was raised: {}.", level.as_str())),
            (Some(level), false) => (level.as_str(), format!("The stop was lowered to {}.", level.as_str())),
        };
        let by = if changed.by.is_empty() { String::new() } else { format!("By: {}", changed.by) };
        let alert = self.alert(AlertRule::Stop, "stop".to_owned(), now, &words, None);
        alert.in_state(level).detailed([by, changed.reason.to_string()])
    }

    fn health(&self, health: &ChainHealth, now: u64) -> Option<Alert> {
        let (name, words) = match health.state {
            ChainState::Down => ("down", "No endpoint of the chain answers."),
            ChainState::Disputed => ("disputed", "The endpoints of the chain contradict each other."),
            ChainState::Degraded => return None,
            ChainState::Healthy => (HEALTHY, "The endpoints of the chain answer again."),
        };
        let subject = health.chain_id.to_string();
        let alert = self.alert(AlertRule::Endpoint, subject, now, words, Some(health.chain_id));
        Some(alert.in_state(name).detailed([health.why.to_string()]))
    }

    fn note_snapshot(&mut self, snapshot: &SessionSnapshot, now: u64) -> Vec<Alert> {
        let mut found = Vec::new();
        let own_hold = snapshot.stop.as_ref().is_some_and(|stop| stop.own_hold);
        if self.gap && !own_hold {
            self.gap = false;
            let stop = snapshot.stop.clone();
            let (by, reason) = stop.as_ref().map(|stop| (stop.by.clone(), stop.reason.clone())).unwrap_or_default();
            let changed = HaltChanged { level: stop.map(|stop| stop.level), by, reason, hold: false };
            found.push(self.stop(&changed, true, now));
        }
        if let Some(limits) = &snapshot.limits {
            let open = match limits.breaker {
                BreakerState::Open { failures, .. } => Some(failures),
                BreakerState::Closed { .. } | BreakerState::OneTrial => None,
            };
            if let Some(failures) = open.filter(|_| !self.breaker_open) {
                let words = "The failure breaker is open: only exits pass.";
                let alert = self.alert(AlertRule::Breaker, "open".to_owned(), now, words, None);
                found.push(alert.detailed([format!("Failures in a row: {failures}")]));
            }
            self.breaker_open = open.is_some();
        }
        if snapshot.account.is_some() {
            found.extend(self.note_gas(snapshot, now));
            found.extend(self.note_balance(snapshot, now));
        }
        found
    }

    fn note_gas(&mut self, snapshot: &SessionSnapshot, now: u64) -> Vec<Alert> {
        let Some(least) = self.gas_below else { return Vec::new() };
        let mut found = Vec::new();
        for held in &snapshot.holdings {
            let Some((_, native)) = self.chains.get(&held.chain_id) else { continue };
            let Some(row) = held.rows.iter().find(|row| row.symbol == *native) else { continue };
            let low = row.amount.decimals() == least.decimals() && row.amount.raw() < least.raw();
            let known = self.gas_low.contains(&held.chain_id);
            match (low, known) {
                (true, false) => {
                    self.gas_low.push(held.chain_id);
                    let words = "The native token for gas runs low.";
                    let subject = held.chain_id.to_string();
                    let alert = self.alert(AlertRule::Gas, subject, now, words, Some(held.chain_id));
                    let amount = row.amount.shortened(PLACES);
                    found.push(alert.detailed([format!("Left: {amount} {}", row.symbol)]));
                }
                (false, true) => self.gas_low.retain(|chain| *chain != held.chain_id),
                (true, true) | (false, false) => {}
            }
        }
        found
    }

    fn note_balance(&mut self, snapshot: &SessionSnapshot, now: u64) -> Option<Alert> {
        let percent = self.balance_percent?;
        // Before every chain is read, the total lacks a part.
        let whole = snapshot.all_priced && !self.chains.is_empty() && snapshot.holdings.len() == self.chains.len();
        let value = snapshot.equity.filter(|_| whole)?;
        let moved = self.balance.note(now, value, self.within_millis, percent)?;
        let words = format!(
            "The value of the holdings {} by more than {percent} % within {} minutes.",
            moved.verb(),
            self.within_millis / 60_000
        );
        let alert = self.alert(AlertRule::Balance, moved.verb().to_owned(), now, &words, None);
        Some(alert.detailed([format!("From {} to {}", dollars(moved.from), dollars(moved.to))]))
    }

    fn note_prices(&mut self, chain: &ChainSnapshot, now: u64) -> Vec<Alert> {
        let Some(percent) = self.price_percent else { return Vec::new() };
        let minutes = self.within_millis / 60_000;
        let mut found = Vec::new();
        for token in &chain.tokens {
            let FeedPrice::Live(price) = &token.price else { continue };
            let key = (chain.chain, token.address.to_string());
            if !self.prices.contains_key(&key) && self.prices.len() >= MOST_PRICES {
                continue;
            }
            let window = self.prices.entry(key.clone()).or_default();
            let Some(moved) = window.note(now, *price, self.within_millis, percent) else { continue };
            let words = format!(
                "The price of {} {} by more than {percent} % within {minutes} minutes.",
                token.symbol,
                moved.verb()
            );
            let subject = format!("{} {} {}", key.0, key.1, moved.verb());
            let id = self
                .chain_names
                .get(chain.chain)
                .and_then(|name| self.chains.iter().find(|(_, (known, _))| known == name).map(|(id, _)| *id));
            let alert = self.alert(AlertRule::Price, subject, now, &words, id);
            found.push(alert.detailed([format!("From {} to {}", dollars(moved.from), dollars(moved.to))]));
        }
        found
    }
}

/// State of a subject about which nothing was sent yet.
fn state_before(rule: AlertRule) -> &'static str {
    match rule {
        AlertRule::Stop => NO_STOP,
        AlertRule::Endpoint => HEALTHY,
        AlertRule::DecisionWaits
        | AlertRule::DecisionLapsed
        | AlertRule::Breaker
        | AlertRule::Phase
        | AlertRule::Gas
        | AlertRule::Balance
        | AlertRule::Price => "",
    }
}

fn chain_of(question: &Question) -> Option<u64> {
    match &question.about {
        RequestSubject::Action(action) => Some(action.chain_id),
        RequestSubject::Policy(_)
        | RequestSubject::Lower { .. }
        | RequestSubject::LeavePaper
        | RequestSubject::ResetBreaker { .. }
        | RequestSubject::SellHoldings { .. } => None,
    }
}

/// Dollars with cents, or with more digits below one dollar.
fn dollars(value: Usd) -> String {
    let places = if value < Usd::whole(1) { 6 } else { 2 };
    format!("${}", value.to_fixed(places, Rounding::Down))
}

/// Values of the last while, for noticing a move.
#[derive(Debug, Default)]
struct MoveWindow {
    samples: VecDeque<(u64, Usd)>,
}

/// A move that is large enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ValueMove {
    from: Usd,
    to: Usd,
}

impl ValueMove {
    fn verb(self) -> &'static str {
        if self.to > self.from { "rose" } else { "fell" }
    }
}

impl MoveWindow {
    /// Adds a value. Returns a move of at least `percent` from the smallest or largest value within `within`
    /// milliseconds; the next move then counts from the new value.
    fn note(&mut self, now: u64, value: Usd, within: u64, percent: u64) -> Option<ValueMove> {
        while self.samples.front().is_some_and(|(at, _)| at.saturating_add(within) < now) {
            self.samples.pop_front();
        }
        let lowest = self.samples.iter().map(|(_, value)| *value).min();
        let highest = self.samples.iter().map(|(_, value)| *value).max();
        let moved = [lowest, highest].into_iter().flatten().find(|from| is_moved(*from, value, percent));
        if let Some(from) = moved {
            self.samples.clear();
            self.samples.push_back((now, value));
            return Some(ValueMove { from, to: value });
        }
        let pause = within / SAMPLES;
        if self.samples.back().is_none_or(|(at, _)| now >= at.saturating_add(pause)) {
            self.samples.push_back((now, value));
        }
        None
    }
}

/// True if the difference is at least `percent` of the first value. From zero nothing is a move.
fn is_moved(from: Usd, to: Usd, percent: u64) -> bool {
    let scaled = |value: Usd| value.scaled(DOLLAR_DECIMALS, Rounding::Down);
    let (Some(from), Some(to)) = (scaled(from), scaled(to)) else { return false };
    let (Some(difference), Some(least)) = (from.abs_diff(to).checked_mul(100), from.checked_mul(u128::from(percent)))
    else {
        return false;
    };
    from > 0 && difference >= least
}
