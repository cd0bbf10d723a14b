//! Read-only queries of the console state.

use ratatui::layout::Rect;

use super::feed::{CallStatus, Feed};
use super::model::Page;
use super::{LEAST, Layer, State, call_details};
use crate::ConsoleError;
use crate::format::short_hash;
use crate::keymap::{self, Action, Context};
use crate::screens::{ScreenContext, ScreenId};
use crate::widgets::bridge::is_over;
use crate::widgets::figure::paid;
use bardo_base::fabric::ApprovalResolved;
use bardo_base::model::StopLevel;
use bardo_session::handle::{SessionSnapshot, SessionSummary};
use bardo_session::market::MoneyKind;
use bardo_session::questions::{Question, RequestSubject};

/// Interval between frames of a moving element, in milliseconds.
const MOVING_MILLIS: u64 = 120;
/// Interval between frames of a guard countdown, in milliseconds.
const COUNTDOWN_MILLIS: u64 = 100;
/// Time for which the session's own clock runs on without news, in milliseconds. Then it stands still.
const OWN_TIME_RUNS_MILLIS: u64 = 1_500;
/// Rows of header and tabs, and of prompt and hints, at the usual sizes.
pub(crate) const HEADER_ROWS: u16 = 2;
const FOOTER_ROWS: u16 = 2;

impl State {
    /// Session time in milliseconds since the Unix epoch. A scenario can have its own time, and a recording has that of
    /// its day. All event times and deadlines are compared with it.
    pub fn session_millis(&self) -> u64 {
        match self.clock.own_time {
            Some((own, reply)) => {
                own.saturating_add(self.clock.now_millis.saturating_sub(reply).min(OWN_TIME_RUNS_MILLIS))
            }
            None => self.clock.now_millis,
        }
    }

    /// Resolution of an approval request about an action; `None` while it waits, or if no event reports it.
    pub fn outcome_of(&self, question: &Question) -> Option<&ApprovalResolved> {
        let RequestSubject::Action(action) = &question.about else { return None };
        let resolved = self.session.feed.call(question.call_id?)?.resolved.as_ref()?;
        (resolved.permit_id == action.permit).then_some(resolved)
    }

    /// Page to draw: the frozen one, else the live one.
    pub fn shown_page(&self) -> &Page {
        self.display.frozen.as_ref().map_or(&self.session.page, |frozen| &frozen.page)
    }

    /// Feed to draw: the frozen one, else the live one.
    pub fn shown_feed(&self) -> &Feed {
        self.display.frozen.as_ref().map_or(&self.session.feed, |frozen| &frozen.feed)
    }

    /// Snapshot to draw: the frozen one, else the live one.
    pub fn shown_snapshot(&self) -> Option<&SessionSnapshot> {
        self.display.frozen.as_ref().map_or(&self.session.snapshot, |frozen| &frozen.snapshot).as_deref()
    }

    /// Data for drawing a screen. While the view is frozen, its time is frozen too.
    pub fn known_drawn(&self) -> ScreenContext<'_> {
        let now_millis = self.display.frozen.as_ref().map_or_else(|| self.session_millis(), |frozen| frozen.at);
        ScreenContext { now_millis, ..self.known() }
    }

    /// Data that screens may read, with live time.
    pub fn known(&self) -> ScreenContext<'_> {
        ScreenContext {
            now_millis: self.session_millis(),
            live_millis: self.session_millis(),
            machine_millis: self.clock.now_millis,
            motion: self.clock.motion,
            money: self.money(),
            page: self.shown_page(),
            feed: self.shown_feed(),
            live_feed: &self.session.feed,
            questions: &self.session.questions,
            offer: self.session.offer.as_ref().map(|held| &*held.question),
            snapshot: self.shown_snapshot(),
            ready: self.session.ready.as_deref(),
            watch_only: self.options.watch_only,
            away: self.operator.away.summary(),
        }
    }

    /// Returns true while the network starts, so that the boot view replaces the screen. False in a recording, which
    /// may contain no block at all.
    pub fn booting(&self) -> bool {
        !self.replaying() && self.network_comes_up()
    }

    /// Result of the console at its end: the session's summary, if it sent one.
    ///
    /// # Errors
    /// [`ConsoleError::NotStarted`] with the fault that kept the session from starting.
    pub fn end(&mut self) -> Result<Option<SessionSummary>, ConsoleError> {
        match self.session.page.fault.take().filter(|_| self.session.page.network.is_none()) {
            Some(fault) => Err(ConsoleError::NotStarted(fault)),
            None => Ok(self.session.summary.take().map(|summary| *summary)),
        }
    }

    fn network_comes_up(&self) -> bool {
        self.session.page.network.is_none() || self.session.page.chains.iter().all(|chain| chain.blocks.is_empty())
    }

    /// Kind of money that moves, including paper trading. `None` until the network is known.
    pub fn money(&self) -> Option<MoneyKind> {
        let paper = self.session.snapshot.as_ref().is_some_and(|snapshot| snapshot.paper);
        let money = self.session.page.network.as_ref()?.money;
        Some(if paper && money != MoneyKind::Replay { MoneyKind::Paper } else { money })
    }

    /// Current stop level: that of the snapshot, else that of the newest event. `None` if there is no stop.
    pub fn stop(&self) -> Option<StopLevel> {
        let level = self.session.snapshot.as_ref().and_then(|snapshot| snapshot.stop.as_ref()).map(|stop| stop.level);
        level.or_else(|| self.session.feed.stop.as_ref().and_then(|stop| stop.level))
    }

    /// Key bindings that have an effect in a context; on a screen, those that the screen uses.
    pub fn rows(&self, context: Context) -> impl Iterator<Item = &keymap::ActiveBinding> {
        let (replay, watches) = (self.replaying(), self.options.watch_only);
        let here = move |row: &&keymap::ActiveBinding| match row.action {
            // A recording has nothing to stop, approve, cancel or verify, and read-only mode allows only the stop and
            // navigation.
            Action::Hold | Action::Decide | Action::Verify if replay => false,
            Action::CancelSelected | Action::QuitCancel if replay || watches => false,
            // A read-only console shows no form either.
            action
                if (replay || watches && self.display.screen == ScreenId::Trade)
                    && row.context == Context::Page
                    && self.display.screen.is_idle_in_recording(action) =>
            {
                false
            }
            Action::Pause if watches && !replay => false,
            Action::Pick(_) | Action::MarkRead | Action::DoIt if watches && row.context == Context::Decision => false,
            _ if row.context != Context::Page => true,
            Action::ReplayStep | Action::ReplayFaster | Action::ReplaySlower => replay,
            Action::Left | Action::Right => replay || self.display.screen.does(row.action),
            action => self.display.screen.does(action),
        };
        // The keys that edit a text apply wherever one is typed.
        let edits = (context == Context::Typing).then_some(Context::Field);
        let of = move |wanted: Context| self.options.keys.of(wanted).filter(here);
        of(context).chain(edits.into_iter().flat_map(of)).chain(of(Context::Anywhere))
    }

    /// Returns true if a decision waits, or is about to.
    fn has_decision(&self) -> bool {
        !self.session.questions.is_empty()
            || self.session.feed.calls.iter().any(|call| call.standing() == CallStatus::Waiting)
    }

    /// Word of the hint bar for a binding; `None` if its key does nothing now.
    pub fn hint_word<'a>(&self, row: &'a keymap::ActiveBinding) -> Option<&'a str> {
        match row.action {
            Action::Open if row.context == Context::Page => {
                let view = self.display.screens.get(self.display.screen)?;
                view.open_hint(&self.known_drawn())
            }
            // This console can read a decision, and not answer it.
            Action::Decide if self.options.watch_only => Some("read"),
            Action::HoldRelease => Some(match self.display.layers.last() {
                Some(Layer::Hold { before: Some(StopLevel::Pause), .. }) => "back to pause",
                Some(Layer::Hold { before: Some(StopLevel::ExitOnly), .. }) => "back to exit-only",
                Some(Layer::Hold { before: Some(StopLevel::Flatten), .. }) => "back to flatten",
                Some(Layer::Hold { before: Some(StopLevel::Halt), .. }) => "back to halt",
                Some(Layer::Hold { before: Some(StopLevel::Revoke), .. }) => "back to revoke",
                _ => row.hint,
            }),
            // It would not lower the stop below the hold.
            Action::HoldExitOnly
                if matches!(
                    self.display.layers.last(),
                    Some(Layer::Hold { before, .. }) if *before >= Some(StopLevel::ExitOnly)
                ) =>
            {
                None
            }
            _ => Some(row.hint),
        }
    }

    /// Returns false for opening a decision while none waits, for an answer that the open decision strikes out, for
    /// marking warnings where it has none, for releasing a hold that may not be this console's, and for exit-only above a
    /// stop that is as high.
    pub fn can_answer(&self, action: Action) -> bool {
        if action == Action::HoldRelease {
            return !self.only_watches_served();
        }
        if action == Action::Decide {
            return self.has_decision();
        }
        if action == Action::QuitCancel {
            return self.has_open_order();
        }
        if let (Action::HoldExitOnly, Some(Layer::Hold { before, .. })) = (action, self.display.layers.last()) {
            // It would not leave a higher stop, which needs a decision.
            return *before < Some(StopLevel::ExitOnly);
        }
        let Some(Layer::Decision(decision)) = self.display.layers.last() else { return true };
        let Some(question) = &decision.shown else { return true };
        match action {
            Action::Pick(kind) => {
                question.answers.iter().any(|offered| offered.kind == kind && offered.why_not.is_none())
            }
            Action::MarkRead => !question.to_read.is_empty(),
            // A single decision has no next one.
            Action::NextQuestion => question.of > 1,
            _ => true,
        }
    }

    /// Returns true if an auction can still be filled or a bridge order is under way.
    pub fn has_open_order(&self) -> bool {
        let feed = &self.session.feed;
        feed.orders.iter().any(|(_, order)| !order.status.is_final())
            || feed.intents.iter().any(|(_, intent)| !is_over(intent))
    }

    /// Returns true if new signatures are blocked: by the operator's own hold, or by a halt.
    pub fn held(&self) -> bool {
        let stop = self.session.snapshot.as_ref().and_then(|snapshot| snapshot.stop.as_ref());
        stop.is_some_and(|stop| stop.own_hold) || self.stop() >= Some(StopLevel::Halt)
    }

    /// Key binding context of the topmost layer.
    pub fn context(&self) -> Context {
        if self.display.prompt.is_some() && self.display.layers.is_empty() {
            return Context::Typing;
        }
        self.display.layers.last().map_or(Context::Page, Layer::context)
    }

    /// Keys that open a waiting decision. Where letters are text, `a` alone does not.
    pub fn decide_key(&self) -> &'static str {
        if self.types_on_screen() || self.display.prompt.is_some() { "Esc a" } else { "a" }
    }

    /// Returns true while a text field of the screen has the focus, so that letters are text.
    pub fn types_on_screen(&self) -> bool {
        self.context() == Context::Page
            && self.display.screens.get(self.display.screen).is_some_and(|view| view.accepts_text())
    }

    /// Returns true while a dialog of the screen is open, which takes every key.
    pub fn asks_on_screen(&self) -> bool {
        self.context() == Context::Page && self.display.screens.get(self.display.screen).is_some_and(|view| view.asks())
    }

    /// Returns true if the terminal is too small for any screen.
    pub fn too_small(&self) -> bool {
        self.display.size.width < LEAST.width || self.display.size.height < LEAST.height
    }

    /// Returns true if the terminal is so small that header and tabs share a line.
    pub fn compact(&self) -> bool {
        self.display.size.width < 100 || self.display.size.height < 30
    }

    /// Whole area of the terminal.
    pub fn area(&self) -> Rect {
        Rect::new(0, 0, self.display.size.width, self.display.size.height)
    }

    /// Area of the screen between header and footer.
    pub fn body(&self) -> Rect {
        let header = if self.compact() { 1 } else { HEADER_ROWS };
        let used = (header + FOOTER_ROWS).min(self.display.size.height);
        Rect::new(0, header.min(self.display.size.height), self.display.size.width, self.display.size.height - used)
    }

    /// Time of the next change without an event, in milliseconds since the Unix epoch; `None` if nothing changes by
    /// itself.
    pub fn next_change_millis(&self) -> Option<u64> {
        let guard = self.display.layers.iter().find_map(|layer| match layer {
            Layer::Decision(decision) => decision.acts_from().filter(|from| *from > self.clock.now_millis),
            _ => None,
        });
        // With motion, the rest of the guard time is counted down.
        let guard =
            guard.map(|from| if self.clock.motion { from.min(self.clock.now_millis + COUNTDOWN_MILLIS) } else { from });
        let screen = self.display.screens.get(self.display.screen).and_then(|view| view.wakes_at());
        let screen = screen.map(|at| at.max(self.clock.now_millis.saturating_add(1)));
        let guard = guard.into_iter().chain(screen).min();
        if !self.clock.motion {
            return guard;
        }
        let moves = self.booting() && self.session.page.fault.is_none() || self.session.leaving;
        let step = if moves { MOVING_MILLIS } else { 1000 };
        let tick = (self.clock.now_millis / step + 1) * step;
        Some(guard.map_or(tick, |guard| guard.min(tick)))
    }

    /// Open and unsettled items that leaving would wait for, one line each.
    pub fn in_flight(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for call in self.session.feed.calls.iter().filter(|call| call.is_activity()) {
            let standing = call.standing();
            // An offer that nobody commits ends by itself, and leaves nothing behind.
            if call.is_offer() && standing == CallStatus::Running {
                continue;
            }
            // Signed transactions without a settlement count, even if their call has ended.
            if standing.is_open() || standing == CallStatus::Unclear {
                let passes = call.asked.as_ref().is_some_and(|(_, asked)| asked.passes_by_itself);
                let how = match standing {
                    CallStatus::Waiting if passes => "goes ahead unless you reject it",
                    _ => standing.mark().1,
                };
                lines.push(format!("{}, {how}", call_details::named(call)));
            }
        }
        for (_, order) in self.session.feed.orders.iter().filter(|(_, order)| !order.status.is_final()) {
            let (amount, hash) = (paid(&order.amount_in), short_hash(order.order_hash));
            let (from, to) = (&order.token_in.symbol, &order.token_out.symbol);
            let kind = order.kind_word().to_lowercase();
            lines.push(format!("{kind} {amount} {from} → {to} can still fill, order {hash}"));
        }
        for (_, intent) in self.session.feed.intents.iter().filter(|(_, intent)| !is_over(intent)) {
            let (amount, hash) = (paid(&intent.amount_in), short_hash(intent.intent_id));
            let (from, to) = (&intent.source_chain, &intent.destination_chain);
            lines
                .push(format!("bridge {amount} {} {from} → {to} is in progress, order {hash}", intent.token_in.symbol));
        }
        lines
    }
}
