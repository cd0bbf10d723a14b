//! Watched values: prices for the chart, and alerts that nobody asked for.

use super::line::{chain_words, stopper};
use super::{ALERT_MILLIS, ALERTS_KEPT, Alert, State, model};
use crate::format::dollars;
use crate::state::call_details::{grant_words, named};
use crate::state::feed::{CallSeen, CallStatus};
use crate::widgets::sprite::phase_words;
use crate::widgets::words::policy_lines;
use bardo_base::fabric::{ChainState, EndState, Event, EventKind};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, Usd};
use bardo_session::handle::{LimitUsage, SessionSnapshot, SpendState};

/// Time after the operator's message in which the agent's first thought counts as its answer, in milliseconds.
const ANSWER_MILLIS: u64 = 20_000;

fn scaled(value: Usd) -> Option<u128> {
    value.scaled(2, Rounding::Down)
}

/// Watched limits: whether at least 80 % is used, and the name of the limit.
fn filled(limits: &LimitUsage) -> [(bool, &'static str); 4] {
    let dollars = |now: SpendState| {
        let (used, limit) = (scaled(now.used)?, scaled(now.limit?)?);
        Some(used.checked_mul(100)? >= limit.checked_mul(80)?)
    };
    let counted = |(used, most): (u32, u32)| most > 0 && u64::from(used) * 100 >= u64::from(most) * 80;
    [
        (dollars(limits.day) == Some(true), "the daily cap"),
        (dollars(limits.month) == Some(true), "the 30-day cap"),
        (counted(limits.calls), "the call limit per minute"),
        (counted(limits.trades), "the trade limit per hour"),
    ]
}

/// Alert text for a call that needed no approval, by its result; `None` if nothing was done.
fn unasked_result(call: &CallSeen, state: Option<EndState>) -> Option<&'static str> {
    const DONE: &str = "done without asking you";
    const UNCLEAR: &str = "signed without asking you, outcome unknown";
    match state {
        Some(EndState::Done) => Some(DONE),
        Some(EndState::Placed) => Some("submitted without asking you, not filled yet"),
        Some(EndState::Unclear) => Some(UNCLEAR),
        Some(EndState::Rehearsed | EndState::NotDone) => None,
        // Old journals have no end state, so the transactions decide.
        None => match call.standing() {
            CallStatus::Done => Some(DONE),
            CallStatus::Unclear => Some(UNCLEAR),
            CallStatus::Running
            | CallStatus::Waiting
            | CallStatus::Sent
            | CallStatus::Rehearsed
            | CallStatus::OnPaper
            | CallStatus::Blocked
            | CallStatus::Refused
            | CallStatus::Lapsed
            | CallStatus::NotDone
            | CallStatus::Failed => None,
        },
    }
}

impl State {
    /// Records the price of the first chain's wrapped native token for its chart. The source is a WETH/USDC pool that
    /// holds at least a tenth of the deepest one's value. Among these, the lowest fee wins, because its price follows
    /// the market most closely. Without such a pool it is the feed price, which moves in steps.
    pub(super) fn note_price(&mut self) {
        let Some(chain) = self.session.page.chains.first() else { return };
        let pair = |pool: &&model::PoolRow| pool.base.as_str() == "WETH" && pool.quote.as_str() == "USDC";
        let pools = || chain.pools.iter().filter(pair).filter(|pool| pool.price.is_some());
        let tenth = |value: Usd| value.scaled(2, Rounding::Down).unwrap_or(0) / 10;
        let least = pools().filter_map(|pool| pool.holds).max().map_or(0, tenth);
        let held = |pool: &&model::PoolRow| pool.holds.and_then(|holds| holds.scaled(2, Rounding::Down)).unwrap_or(0);
        let finest = pools().filter(|pool| held(pool) >= least).min_by_key(|pool| pool.fee_pips);
        let weth = chain.tokens.iter().find(|token| token.symbol.as_str() == "WETH");
        let feed = match weth.map(|token| &token.price) {
            Some(model::FeedPrice::Live(price)) => price.to_string().parse().ok(),
            Some(model::FeedPrice::None(_)) | None => None,
        };
        let pool = finest.map(|pool| pool.fee_pips);
        let price = finest.and_then(|pool| pool.price).or(feed);
        let at = chain.blocks.front().map(|block| block.timestamp.saturating_mul(1000));
        if let (Some(at), Some(price)) = (at, price) {
            self.session.feed.take_price(at, price);
            self.session.feed.price_pool = pool;
        }
    }

    pub(super) fn watch_event(&mut self, event: &Event) {
        let words = match &event.kind {
            EventKind::ApprovalResolved(resolved)
                if resolved.outcome == bardo_base::fabric::ApprovalOutcome::Lapsed =>
            {
                "nobody answered a decision in time".to_owned()
            }
            EventKind::PhaseChanged(changed) => {
                format!("phase {} → {}: {}", phase_words(changed.from), phase_words(changed.to), changed.why)
            }
            EventKind::ChainHealth(health) => {
                let chain = chain_words(health.chain_id, &self.session.feed.chains);
                match health.state {
                    ChainState::Down => format!("{chain} does not answer: {}", health.why),
                    ChainState::Disputed => format!("{chain} endpoints disagree: {}", health.why),
                    ChainState::Degraded => format!("{chain} responds with errors: {}", health.why),
                    // It takes the place of the notice that it did not.
                    ChainState::Healthy => format!("{chain} answers again"),
                }
            }
            // The agent's first thought after the operator's message is its answer, and is shown beside the prompt.
            // A report of the program answers no message.
            EventKind::GolemThought(said) if said.report => return,
            EventKind::GolemThought(said) => {
                let since = self.operator.said_at.take();
                let waits = since.is_some_and(|since| self.clock.now_millis <= since.saturating_add(ANSWER_MILLIS));
                if waits {
                    self.display.notice = Some(said.text.clone());
                }
                return;
            }
            // Calls above the notification threshold are reported, although they needed no approval.
            EventKind::ToolEnd(end) => {
                let call = event.call_id.and_then(|call| self.session.feed.call(call));
                let Some(call) = call.filter(|call| call.offer.as_ref().is_some_and(|offer| offer.notify)) else {
                    return;
                };
                let Some(how) = unasked_result(call, end.state) else { return };
                format!("{how}, above your notification limit: {}", named(call))
            }
            EventKind::FabricFault(fault) => fault.message.to_string(),
            EventKind::LendingLiquidated(found) => {
                format!("{found}, on {}", chain_words(found.chain_id, &self.session.feed.chains))
            }
            EventKind::AlertChannel(changed) if !changed.works => {
                format!("alerts by {} fail: {}", changed.channel, changed.why)
            }
            EventKind::PolicyChanged(changed) if changed.version > 1 => {
                format!("the policy has changed: {}", policy_lines(changed))
            }
            EventKind::HaltRaised(halt) => {
                let level = halt.level.map_or("nothing", |level| level.as_str());
                // What lifts the stop comes before the reason, which a short line cuts.
                let lifts =
                    if self.options.watch_only || self.replaying() { "" } else { " · :resume asks to lift it" };
                let reason = if halt.reason.is_empty() { String::new() } else { format!(" · {}", halt.reason) };
                format!("{} raised the stop to {level}{lifts}{reason}", stopper(&halt.by))
            }
            EventKind::HaltLowered(halt) => match halt.level {
                Some(level) => format!("{} lowered the stop to {level}", stopper(&halt.by)),
                // The stop file is gone then, and with it who lifted the stop.
                None if halt.by.is_empty() => "the stop was lifted".to_owned(),
                None => format!("{} lifted the stop", stopper(&halt.by)),
            },
            _ => return,
        };
        self.alert(event.at, &words);
    }

    fn alert(&mut self, at: u64, words: &str) {
        if self.operator.alerts.len() >= ALERTS_KEPT {
            self.operator.alerts.pop_front();
        }
        self.operator.alerts.push_back(Alert { at, text: SafeText::clean(words, 200) });
    }

    /// Newest alert, while it is fresh by the session's time.
    pub fn fresh_alert(&self) -> Option<&Alert> {
        self.operator.alerts.back().filter(|alert| self.session_millis() < alert.at.saturating_add(ALERT_MILLIS))
    }

    /// Raises an alert when a limit passes 80 % of use, or when the breaker opens.
    pub(super) fn watch_caps(&mut self, next: &SessionSnapshot) {
        use bardo_session::handle::BreakerState;
        let Some(limits) = &next.limits else { return };
        let before = self.session.snapshot.as_ref().and_then(|snapshot| snapshot.limits.as_ref());
        let (was, is) = (before.map(filled), filled(limits));
        let open = |limits: &bardo_session::handle::LimitUsage| !matches!(limits.breaker, BreakerState::Closed { .. });
        let opened = open(limits) && !before.is_some_and(open);
        for (at, (full, words)) in is.into_iter().enumerate() {
            let known = was.and_then(|was| was.get(at).copied()).is_some_and(|(full, _)| full);
            if full && !known {
                self.alert(next.at, &format!("80 % of {words} is used"));
            }
        }
        let left = |snapshot: &SessionSnapshot, number: u64| {
            snapshot.grants.iter().find(|grant| grant.number == number).and_then(|grant| scaled(grant.left))
        };
        for grant in &next.grants {
            let Some(granted) = grant.granted.and_then(scaled) else { continue };
            let low = |left: u128| left.saturating_mul(5) <= granted;
            let before =
                self.session.snapshot.as_ref().and_then(|snapshot| left(snapshot, grant.number)).is_some_and(low);
            if scaled(grant.left).is_some_and(low) && !before {
                let (scope, left) = (grant_words(grant), dollars(grant.left));
                let of = grant.granted.map(|granted| format!(" of {}", dollars(granted))).unwrap_or_default();
                self.alert(next.at, &format!("standing approval {scope}: {left}{of} left"));
            }
        }
        if opened {
            self.alert(next.at, "the failure breaker is open: no new trades");
        }
    }
}
