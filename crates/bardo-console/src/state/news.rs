//! Handling of the session's news: markets, events, approval requests, snapshots and replies, and their effect on the
//! topmost layer.

use std::sync::Arc;

use super::model::{BlockRow, ChainPage, ChainSnapshot};
use super::{Effect, HeldOffer, Layer, OUTCOME_ENTRIES, OUTCOME_TICKET, OWN_TIME_MILLIS, STORY_TICKET, State};
use crate::screens::{CommandReply, holder};
use crate::widgets::decision::Decision;
use bardo_base::fabric::{Event, EventKind};
use bardo_base::model::StopLevel;
use bardo_session::handle::{QueryResult, SessionCommand, SessionNews, SessionQuery};
use bardo_session::market::MarketUpdate;
use bardo_session::questions::{OFFER_NUMBER, Question, QuestionKey, RequestSubject};

/// Number of events requested after a gap or when attaching; as many as the screens can show.
const HISTORY_EVENTS: u64 = 20_000;
/// Ticket of that history query. No screen uses it.
const HISTORY_TICKET: u64 = 1;

/// Intents that a halt may let through: the session decides by the simulated changes.
const TAKES_BACK: [&str; 5] = ["revoke", "cancel_order", "cancel_transaction", "refund", "speed_up"];

fn takes_back(question: &Question) -> bool {
    match &question.about {
        RequestSubject::Action(action) => TAKES_BACK.contains(&action.intent.as_str()),
        RequestSubject::Policy(_)
        | RequestSubject::Lower { .. }
        | RequestSubject::LeavePaper
        | RequestSubject::ResetBreaker { .. }
        | RequestSubject::SellHoldings { .. } => true,
    }
}

impl State {
    pub(super) fn news(&mut self, news: SessionNews) -> Vec<Effect> {
        let mut effects = Vec::new();
        match news {
            SessionNews::Market(update) => {
                if let MarketUpdate::Started(network) = &update {
                    self.session.feed.chains = network.chains.iter().map(|one| (one.id, one.name.clone())).collect();
                }
                self.session.page.apply(update);
                self.note_price();
                self.note_time();
            }
            SessionNews::Ready(ready) => self.session.ready = Some(ready),
            SessionNews::Events(events) => return self.events(&events),
            SessionNews::Questions(questions) => {
                let more =
                    questions.iter().any(|one| !self.session.questions.iter().any(|known| known.number == one.number));
                self.session.questions = questions;
                self.list_offer();
                if more {
                    effects.extend(self.call_for_attention());
                }
                self.open_awaited();
                let waits = self.waits_words(self.options.watch_only);
                if more && !self.display.layers.iter().any(|layer| matches!(layer, Layer::Decision(_))) {
                    self.show_notice(&waits);
                } else if self.session.questions.is_empty()
                    && self.display.notice.as_ref().is_some_and(|notice| notice.as_str() == waits)
                {
                    self.display.notice = None;
                }
                self.follow_question();
                effects.extend(self.ask_outcome());
            }
            SessionNews::Snapshot(snapshot) => {
                let before = self.operator.alerts.back().cloned();
                self.watch_caps(&snapshot);
                if self.operator.alerts.back() != before.as_ref() {
                    effects.extend(self.call_for_attention());
                }
                self.session.snapshot = Some(snapshot);
                self.follow_question();
                if self.session.snapshot.as_ref().is_some_and(|snapshot| snapshot.stop.is_none()) {
                    self.session.feed.stop = None;
                }
            }
            SessionNews::Offered { ticket, question } => {
                let opened =
                    self.session.offer.take().is_some_and(|held| held.opened && held.question.key == question.key);
                self.session.offer = Some(HeldOffer { ticket, question, opened });
                self.follow_question();
            }
            SessionNews::Began { ticket, call_id } => {
                self.forget_offer(ticket);
                return self.receive_reply(ticket, CommandReply::Began(call_id));
            }
            SessionNews::Reply { ticket, response } => {
                self.forget_offer(ticket);
                return self.receive_reply(ticket, CommandReply::Reply(response));
            }
            SessionNews::Found { ticket: HISTORY_TICKET, found } => {
                self.operator.history_asked = false;
                if let QueryResult::History { events, last, .. } = *found {
                    match self.replaying() {
                        true => self.replay_events(&events),
                        false => self.session.feed.take_history(&events, last),
                    }
                }
            }
            SessionNews::Found { ticket: STORY_TICKET, found } => {
                if let Some(Layer::CallDetails(call_details)) = self.display.layers.last_mut() {
                    call_details.audit_rows = Some(found);
                }
            }
            SessionNews::Found { ticket: OUTCOME_TICKET, found } => {
                if let (QueryResult::Audit { entries }, Some(decision)) = (*found, self.ended_decision()) {
                    decision.take_outcome(&entries);
                }
            }
            SessionNews::Found { ticket, found } => return self.receive_reply(ticket, CommandReply::Found(found)),
            SessionNews::CommandResult { done, words } => {
                if let (false, Some(Layer::Hold { failure, .. })) = (done, self.display.layers.last_mut()) {
                    *failure = Some(words.clone());
                }
                let mark = if done { "" } else { "not done: " };
                self.show_notice(&format!("{mark}{words}"));
            }
            SessionNews::Replay(now) => self.session.replay = Some(now),
            SessionNews::Left(session_summary) => {
                self.session.summary = Some(session_summary);
                return vec![Effect::Quit];
            }
        }
        effects
    }

    fn events(&mut self, events: &[Arc<Event>]) -> Vec<Effect> {
        let before = self.operator.alerts.back().cloned();
        let began_before = self.began_before(events);
        self.apply_events(events);
        let called = (self.operator.alerts.back() != before.as_ref()).then(|| self.call_for_attention()).flatten();
        if let Some(frozen) = &mut self.display.frozen {
            frozen.missed = frozen.missed.saturating_add(u64::try_from(events.len()).unwrap_or(u64::MAX));
        }
        if (began_before || self.session.feed.missed > 0) && !self.operator.history_asked {
            self.operator.history_asked = true;
            let query = SessionQuery::History { after: self.session.feed.last.saturating_sub(HISTORY_EVENTS) };
            return called
                .into_iter()
                .chain([self.send(SessionCommand::Look { ticket: HISTORY_TICKET, query })])
                .collect();
        }
        called.into_iter().collect()
    }

    /// Returns true if these are this console's first events of a served session that had some before.
    fn began_before(&self, events: &[Arc<Event>]) -> bool {
        let served = self.session.ready.as_ref().is_some_and(|ready| ready.served);
        served && self.session.feed.last == 0 && events.first().is_some_and(|first| first.seq > 1)
    }

    fn apply_events(&mut self, events: &[Arc<Event>]) {
        let replaying = self.replaying();
        for event in events {
            self.session.feed.take(event);
            if !self.clock.motion {
                self.session.feed.rest();
            }
            self.watch_event(event);
            if replaying {
                self.recorded_block(event);
            }
        }
        self.clock.newest_event_at = events.last().map_or(self.clock.newest_event_at, |event| event.at);
        self.note_time();
    }

    /// Rebuilds the state from `events`, because a recording jumps to another place. Later data is discarded.
    fn replay_events(&mut self, events: &[Arc<Event>]) {
        self.session.feed.restart();
        self.session.page.chains.iter_mut().for_each(|chain| *chain = ChainPage::default());
        self.operator.alerts.clear();
        self.clock.newest_event_at = 0;
        self.apply_events(events);
    }

    /// Adds a block of a recording to its chain, because no chain reports it.
    fn recorded_block(&mut self, event: &Event) {
        let EventKind::ChainBlock(block) = &event.kind else { return };
        let chains = self.session.page.network.iter().flat_map(|network| &network.chains);
        let Some(chain) = chains.into_iter().position(|chain| chain.id == block.chain_id) else { return };
        let row = BlockRow {
            number: block.number,
            timestamp: block.timestamp,
            base_fee_wei: 0,
            gas_used: 0,
            gas_limit: 0,
            transactions: 0,
        };
        let (tokens, pools, balances, activity) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let blocks = vec![row];
        self.session.page.apply(MarketUpdate::Chain(Box::new(ChainSnapshot {
            chain,
            blocks,
            tokens,
            pools,
            balances,
            positions: Vec::new(),
            lending: None,
            activity,
        })));
    }

    /// Determines the time of the session. Events and blocks must both be far from the machine's clock. Old events
    /// alone mean a quiet night, and blocks alone a chain whose time was advanced. A recording always has the time of
    /// its day.
    fn note_time(&mut self) {
        let (now, recorded) = (self.clock.now_millis, self.replaying());
        let is_far = |at: u64| recorded || at.abs_diff(now) > OWN_TIME_MILLIS;
        let blocks = self.session.page.chains.iter().filter_map(|chain| chain.blocks.front());
        let newest_block = blocks.map(|block| block.timestamp.saturating_mul(1000)).max();
        self.clock.own_time = match newest_block {
            Some(block) if self.clock.newest_event_at > 0 && is_far(self.clock.newest_event_at) && is_far(block) => {
                Some((block.max(self.clock.newest_event_at), now))
            }
            // A recording may contain no block.
            None if recorded && self.clock.newest_event_at > 0 => Some((self.clock.newest_event_at, now)),
            _ => None,
        };
    }

    /// Updates an open approval dialog from its request. If the request has ended, the dialog stays and says so.
    /// Closing it would send the next keys, typed as a reason, to the screen below.
    ///
    /// A manual action is held until it expires, and only for the kind of money that it was previewed for. A halt
    /// withdraws it unless it only takes something back.
    pub(super) fn follow_question(&mut self) {
        let (now, live, money) = (self.clock.now_millis, self.session_millis(), self.money());
        let is_halted = self.stop() >= Some(StopLevel::Halt);
        let holds = |held: &HeldOffer| {
            held.question.ends_at.is_none_or(|until| until > live)
                && money.is_none_or(|money| money == held.question.money)
                && (!is_halted || takes_back(&held.question))
        };
        self.session.offer.take_if(|held| !holds(held));
        self.list_offer();
        let more = self.waiting_offers();
        let offer = self.session.offer.as_ref().map(|held| &*held.question);
        for layer in &mut self.display.layers {
            if let Layer::Decision(decision) = layer {
                match self.session.questions.iter().chain(offer).find(|question| question.number == decision.number) {
                    Some(question) => decision.follow(&counted(question, more)),
                    None => decision.end(now),
                }
            }
        }
    }

    /// Open dialog of a request that has ended; `None` if there is none.
    fn ended_decision(&mut self) -> Option<&mut Decision> {
        self.display.layers.iter_mut().find_map(|layer| match layer {
            Layer::Decision(decision) if decision.ended_at.is_some() => Some(&mut **decision),
            _ => None,
        })
    }

    /// Query for the outcome of a request of another process whose dialog is open: "it ended" would look like "not done".
    pub(super) fn ask_outcome(&mut self) -> Option<Effect> {
        let now = self.clock.now_millis;
        let (call, _) = self.ended_decision()?.wants_outcome(now)?;
        let query = SessionQuery::Audit { after: 0, call: Some(call), most: OUTCOME_ENTRIES };
        Some(self.send(SessionCommand::Look { ticket: OUTCOME_TICKET, query }))
    }

    /// Drops an offer that was answered, or whose call has ended.
    fn forget_offer(&mut self, ticket: u64) {
        if self.session.offer.take_if(|held| held.ticket == ticket).is_some() {
            self.follow_question();
        }
    }

    /// Number of the operator's own requests that wait beside those of the session: one, or none.
    fn waiting_offers(&self) -> usize {
        usize::from(self.session.offer.as_ref().is_some_and(|held| held.opened))
    }

    /// Drops the operator's own request once it is rejected: the session withdraws it without a reply.
    pub(super) fn forget_rejected(&mut self, key: QuestionKey) {
        if self.session.offer.take_if(|held| held.question.key == key).is_some() {
            self.follow_question();
        }
    }

    /// Keeps the operator's own request in the list of waiting ones, from its first opening until it ends.
    fn list_offer(&mut self) {
        let own = self.session.offer.as_ref().filter(|held| held.opened).map(|held| &*held.question);
        self.session.feed.wait_for_operator(own.and_then(|question| Some((question.call_id?, question.ends_at))));
        if self.session.questions.iter().find(|question| question.number == OFFER_NUMBER) == own {
            return;
        }
        let own = own.cloned();
        let questions = Arc::make_mut(&mut self.session.questions);
        questions.retain(|question| question.number != OFFER_NUMBER);
        questions.extend(own);
    }

    /// Opens the approval dialog for the manual action that is held.
    pub(super) fn open_offer(&mut self) {
        let opened = self.session.offer.as_mut().map(|held| {
            held.opened = true;
            held.question.clone()
        });
        self.list_offer();
        match opened {
            Some(question) => self.show_decision(&question),
            None => self.show_notice("this offer has expired: preview it again"),
        }
    }

    /// Opens the first question to arrive after an `a` that came too early for it.
    fn open_awaited(&mut self) {
        let Some(number) = self.session.questions.first().map(|question| question.number) else { return };
        let awaited = self.operator.opens_until.take().is_some_and(|until| self.clock.now_millis <= until);
        if awaited && self.display.layers.is_empty() && self.display.prompt.is_none() {
            self.display.notice = None;
            self.open_decision(number);
        }
    }

    pub(super) fn open_decision(&mut self, number: u64) {
        if let Some(question) = self.session.questions.iter().find(|question| question.number == number).cloned() {
            self.show_decision(&question);
        }
    }

    fn show_decision(&mut self, question: &Question) {
        let number = question.number;
        let mut decision = Decision::new(number, self.clock.now_millis);
        decision.follow(&counted(question, self.waiting_offers()));
        self.display.layers.retain(|layer| !matches!(layer, Layer::Decision(_)));
        self.display.layers.push(Layer::Decision(Box::new(decision)));
        // Where the dialog is open, its own keys are shown.
        let announced = [true, false].map(|watches| self.waits_words(watches));
        if self.display.notice.as_ref().is_some_and(|notice| announced.iter().any(|words| words == notice.as_str())) {
            self.display.notice = None;
        }
    }

    /// Notice that a decision waits.
    fn waits_words(&self, watches: bool) -> String {
        match watches {
            true => format!("a decision waits for the operator: {} opens it to read", self.decide_key()),
            false => format!("a decision waits for you: press {} to open it", self.decide_key()),
        }
    }

    fn receive_reply(&mut self, ticket: u64, reply: CommandReply) -> Vec<Effect> {
        let Some((screen, count)) = holder(ticket) else { return Vec::new() };
        self.with_screen(screen, |view, known, _| view.receive_reply(count, reply, known))
    }
}

/// A request whose total counts `more` requests that the session does not know of.
fn counted(question: &Question, more: usize) -> Question {
    let of = question.of.saturating_add(if question.number == OFFER_NUMBER { 0 } else { more });
    Question { of, ..question.clone() }
}
