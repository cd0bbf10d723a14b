//! Layers over a screen, and the effects of keys, clicks and pastes. The topmost layer gets every key first, and
//! handles it or passes it on.

mod pointer;

use crossterm::event::KeyCode;
use serde_json::{Map, Value};

use super::call_details::CallDetails;
use super::complete::{self, Candidate};
use super::feed::CallStatus;
use super::prompt::{self, PaletteEntry, PaletteNames, PromptCommand};
use super::{Effect, Frozen, NO_DECISION, QUESTION_MILLIS, STORY_TICKET, State};
use crate::keymap::{Action, Context, Key};
use crate::screens::{ScreenId, ScreenRequest, has_form};
use crate::scroll::ScrollOffset;
use crate::widgets::decision::ends_words;
use crate::widgets::decision::{Decision, DecisionOutcome, GUARD_MILLIS};
use crate::widgets::text_field::TextField;
use bardo_base::id::CallId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_session::handle::{LeaveMode, ReplayControl, ReplayState, SessionCommand, SessionInfo, SessionQuery};
use bardo_session::market::MoneyKind;
use bardo_session::questions::OFFER_NUMBER;

/// Names for the palette: a session's scenarios, and its tools with a form.
fn palette_names(ready: Option<&SessionInfo>) -> PaletteNames<'_> {
    let Some(ready) = ready else { return PaletteNames::default() };
    let forms = ready.tools.iter().filter(|tool| has_form(tool));
    PaletteNames {
        shows: &ready.scenarios,
        forms: forms.map(|tool| (tool.name.as_str(), tool.description.as_str())).collect(),
    }
}

/// Part of a recording that an arrow key skips, in percent.
const SCRUB_PERCENT: u8 = 5;

/// Width from which the tabs of the screens with a digit and the wallet fit in one line.
const DIGIT_TABS_WIDTH: u16 = 160;
/// Width from which the tabs of all screens and the wallet fit in one line.
const ALL_TABS_WIDTH: u16 = 196;

/// Maximum number of audit log entries shown for one call.
const STORY_ENTRIES: u32 = 200;

/// Layer over a screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// Help overlay with the keys and their effects.
    Help {
        /// Number of rows scrolled past.
        offset: ScrollOffset,
        /// Context whose keys are listed.
        of: Context,
    },
    /// Dialog that confirms leaving.
    Quit {
        /// Time of opening or of the last key, in milliseconds of the machine's clock.
        since: u64,
        /// Set when cancelling the open orders is chosen.
        picked: bool,
    },
    /// Dialog of an approval request.
    Decision(Box<Decision>),
    /// Overlay after new signatures were stopped, with the choices that follow.
    Hold {
        /// Time of opening or of the last key, in milliseconds of the machine's clock.
        since: u64,
        /// Message of the session if it could not stop.
        failure: Option<SafeText>,
        /// Stop that was in force before the hold, which a release leaves in force.
        before: Option<StopLevel>,
    },
    /// Details of a call.
    CallDetails(Box<CallDetails>),
    /// Command palette with its search.
    Palette {
        /// Text to search for.
        field: Box<TextField>,
        /// Index of the selected entry.
        at: usize,
    },
    /// Dialog that confirms a cancellation or revocation.
    Confirm {
        /// Title: what is asked.
        asks: &'static str,
        /// Text with the subject of the question and the consequences.
        title: SafeText,
        /// Command that a confirmation sends.
        command: Box<SessionCommand>,
        /// Time of opening or of the last key, in milliseconds of the machine's clock.
        since: u64,
        /// Set when the confirmation is chosen.
        picked: bool,
    },
}

/// Returns true if the guard time has passed since the last key. A key typed ahead, or meant for the layer below, then
/// answers nothing.
const fn settled(since: u64, now: u64) -> bool {
    now >= since.saturating_add(GUARD_MILLIS)
}

impl Layer {
    /// Key binding context of the layer.
    pub fn context(&self) -> Context {
        match self {
            Self::Help { .. } => Context::Help,
            Self::Quit { .. } => Context::Quit,
            Self::Decision(decision) if decision.ended_at.is_some() => Context::Ended,
            Self::Decision(decision) if decision.typing() => Context::Typing,
            Self::Decision(_) => Context::Decision,
            Self::Hold { .. } => Context::Hold,
            Self::CallDetails(_) => Context::CallDetails,
            Self::Palette { .. } => Context::Typing,
            Self::Confirm { .. } => Context::Confirm,
        }
    }
}

impl State {
    pub(super) fn key(&mut self, key: Key) -> Vec<Effect> {
        let context = self.context();
        // Keys of every context come first, so that no text field can block the stop.
        if let Some(action @ (Action::Hold | Action::Redraw | Action::Suspend)) =
            self.options.keys.action(Context::Anywhere, key)
        {
            return self.anywhere(action);
        }
        if self.session.leaving && self.display.layers.is_empty() {
            return match self.options.keys.action(Context::Leaving, key) {
                Some(Action::QuitNow | Action::CloseOrQuit) => self.leave(LeaveMode::Now),
                _ => Vec::new(),
            };
        }
        if context == Context::Typing {
            return self.type_key(key);
        }
        if context == Context::Page {
            return self.page_key(key);
        }
        match self.options.keys.action(context, key) {
            Some(action) => self.layer_action(action),
            None => {
                self.untaken_key();
                Vec::new()
            }
        }
    }

    /// Handles a key without a meaning: as a keystroke, it restarts the guard time of a dialog.
    fn untaken_key(&mut self) {
        let now = self.clock.now_millis;
        match self.display.layers.last_mut() {
            Some(Layer::Decision(decision)) => drop(decision.act(Action::Redraw, now, 1)),
            Some(Layer::Quit { since, .. } | Layer::Hold { since, .. } | Layer::Confirm { since, .. }) => *since = now,
            Some(Layer::Help { .. } | Layer::CallDetails(_) | Layer::Palette { .. }) | None => {}
        }
    }

    fn page_key(&mut self, key: Key) -> Vec<Effect> {
        let screen = self.display.screen;
        let takes_text = self.display.screens.get(screen).is_some_and(|view| view.accepts_text());
        if takes_text {
            // A text field clears on Ctrl-C, so a rebound key is translated.
            let clears = self.options.keys.action(Context::Page, key) == Some(Action::CloseOrQuit);
            let key = if clears { Key::ctrl('c') } else { key };
            let mut consumed = false;
            let effects = self.with_screen(screen, |view, known, _| {
                let mut requests = Vec::new();
                consumed = view.type_key(key, known, &mut requests);
                requests
            });
            if consumed {
                return effects;
            }
        }
        let Some(action) = self.options.keys.action(Context::Page, key) else { return Vec::new() };
        if takes_text && key.text().is_some() {
            return Vec::new();
        }
        let action = match action {
            Action::NextMatch | Action::PreviousMatch => {
                // A filtered list shows only matches, so the next match is the next row.
                if !self.display.screens.get(screen).is_some_and(|view| view.has_filter()) {
                    if screen.does(action) {
                        self.show_notice("no filter is set: / sets one");
                    }
                    return Vec::new();
                }
                if action == Action::NextMatch { Action::Down } else { Action::Up }
            }
            other => other,
        };
        // The key first goes back, out of a zoom, a filter or a selection, and leaves only then.
        let asked = if action == Action::AskToQuit { Action::Back } else { action };
        let mut consumed = false;
        let effects = self.with_screen(screen, |view, known, area| match view.act(asked, known, area) {
            Some(requests) => {
                consumed = true;
                requests
            }
            None => Vec::new(),
        });
        if consumed { effects } else { self.page_action(action) }
    }

    /// Handles an action that the screen itself does not use.
    fn page_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::AskToQuit | Action::CloseOrQuit => {
                // A served session goes on, so there is nothing to decide about.
                let served = self.session.ready.as_ref().is_some_and(|ready| ready.served);
                if served || (self.in_flight().is_empty() && action == Action::AskToQuit) {
                    return self.leave(LeaveMode::Finish);
                }
                self.display.layers.push(Layer::Quit { since: self.clock.now_millis, picked: false });
            }
            Action::Export => return vec![self.trades_file()],
            Action::Help => {
                let of = if self.types_on_screen() { Context::Typing } else { Context::Page };
                self.display.layers.push(Layer::Help { offset: ScrollOffset::default(), of });
            }
            Action::GoTo(screen) => return self.go_to(screen),
            Action::Prompt => self.display.prompt = Some(TextField::default()),
            Action::Palette => self.display.layers.push(Layer::Palette { field: Box::default(), at: 0 }),
            Action::Decide => match self.session.questions.first().map(|question| question.number) {
                Some(number) => self.open_decision(number),
                None if self.replaying() => self.show_notice("this is a recording: there is nothing to decide in it"),
                // Events come before the list of questions: what a card says already is answered as soon as it is here.
                None if self.session.feed.calls.iter().any(|call| call.standing() == CallStatus::Waiting) => {
                    self.operator.opens_until = Some(self.clock.now_millis.saturating_add(QUESTION_MILLIS));
                    self.show_notice("the decision opens as soon as its question is here");
                }
                None => self.show_notice(NO_DECISION),
            },
            Action::Freeze => {
                self.display.frozen = match self.display.frozen.take() {
                    Some(_) => None,
                    None => Some(Box::new(Frozen {
                        page: self.session.page.clone(),
                        feed: self.session.feed.clone(),
                        snapshot: self.session.snapshot.clone(),
                        at: self.session_millis(),
                        missed: 0,
                    })),
                };
            }
            Action::Pause if self.replaying() => return vec![self.send(SessionCommand::Replay(ReplayControl::Toggle))],
            Action::Pause => return self.pause(),
            Action::ReplayStep | Action::ReplayFaster | Action::ReplaySlower if self.replaying() => {
                let control = match action {
                    Action::ReplayStep => ReplayControl::Step,
                    Action::ReplayFaster => ReplayControl::Faster,
                    _ => ReplayControl::Slower,
                };
                return vec![self.send(SessionCommand::Replay(control))];
            }
            Action::Left | Action::Right => return self.scrub(action == Action::Right),
            Action::Back => self.operator.away.dismiss(),
            _ => {}
        }
        Vec::new()
    }

    /// Seeks a recording by [`SCRUB_PERCENT`] in either direction, but at least by one event.
    fn scrub(&self, on: bool) -> Vec<Effect> {
        let Some(ReplayState { told, of, .. }) = self.session.replay else { return Vec::new() };
        let place = |percent: u8| of.saturating_mul(u64::from(percent)) / 100;
        let now = u8::try_from(told.saturating_mul(100) / of.max(1)).unwrap_or(100).min(100);
        let percent = match on {
            true => (now.saturating_add(SCRUB_PERCENT)..=100).find(|percent| place(*percent) > told).unwrap_or(100),
            false => (0..=now.saturating_sub(SCRUB_PERCENT)).rev().find(|percent| place(*percent) < told).unwrap_or(0),
        };
        vec![self.send(SessionCommand::Replay(ReplayControl::Seek { percent }))]
    }

    /// Effect that writes all trades to a CSV file.
    fn trades_file(&self) -> Effect {
        let name = format!("bardo-trades-{}.csv", self.clock.now_millis);
        Effect::Write { name, text: super::trades::csv(&self.session.feed) }
    }

    /// Returns true while a recording is played.
    pub(crate) fn replaying(&self) -> bool {
        self.session.page.network.as_ref().is_some_and(|network| network.money == MoneyKind::Replay)
    }

    /// Returns true for a read-only console that is attached to a session of another process.
    pub(crate) fn only_watches_served(&self) -> bool {
        self.options.watch_only && self.session.ready.as_ref().is_some_and(|ready| ready.served)
    }

    /// Pauses the Golem at once. Resuming requires an approval.
    fn pause(&mut self) -> Vec<Effect> {
        if self.options.watch_only {
            self.show_notice("this console is read-only: only Ctrl-X (stop) works");
            return Vec::new();
        }
        match self.stop() {
            None => {
                let reason = SafeText::clean("paused by the operator", 60);
                vec![self.send(SessionCommand::Raise { level: StopLevel::Pause, reason })]
            }
            Some(_) => vec![self.send(SessionCommand::AskToLower { level: None })],
        }
    }

    fn anywhere(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Hold if self.replaying() => {
                self.show_notice("this is a recording: there is nothing to stop");
                Vec::new()
            }
            Action::Hold => {
                if !self.display.layers.iter().any(|layer| matches!(layer, Layer::Hold { .. })) {
                    let snapshot = self.session.snapshot.as_ref();
                    let held = snapshot.and_then(|snapshot| snapshot.stop.as_ref()).is_some_and(|stop| stop.own_hold);
                    // What lies below an earlier hold is not known.
                    let before = self.stop().filter(|_| !held);
                    self.display.layers.push(Layer::Hold { since: self.clock.now_millis, failure: None, before });
                }
                vec![self.send(SessionCommand::Hold)]
            }
            Action::Redraw => vec![Effect::Redraw],
            Action::Suspend if self.options.may_suspend => vec![Effect::Suspend],
            Action::Suspend => {
                self.show_notice("Ctrl-Z is off with real money: it would also stop the Golem");
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Handles a key while a text field has the focus: the prompt, the palette, or the form of an approval dialog.
    fn type_key(&mut self, key: Key) -> Vec<Effect> {
        let action = self.options.keys.action(Context::Typing, key);
        let now = self.clock.now_millis;
        if self.display.layers.is_empty() {
            let Some(field) = &mut self.display.prompt else { return Vec::new() };
            match action {
                Some(Action::Back) => self.display.prompt = None,
                Some(Action::CloseOrQuit) => {
                    if !field.clear() {
                        self.display.prompt = None;
                    }
                }
                Some(Action::Help) => {
                    self.display.layers.push(Layer::Help { offset: ScrollOffset::default(), of: Context::Typing })
                }
                Some(Action::DoIt) => {
                    let message = field.safe();
                    self.display.prompt = None;
                    return self.run_entry(prompt::parse(message.as_str()));
                }
                _ if key.code == KeyCode::Tab => {
                    let line = self.candidates().and_then(|(line, all)| complete::completed(&line, &all));
                    if let (Some(line), Some(field)) = (line, &mut self.display.prompt) {
                        field.replace(&line);
                    }
                }
                _ => {
                    field.key(key);
                }
            }
            return Vec::new();
        }
        let names = palette_names(self.session.ready.as_deref());
        match self.display.layers.last_mut() {
            Some(Layer::Decision(decision)) => match action {
                Some(action @ (Action::DoIt | Action::Back | Action::Help)) => return self.layer_action(action),
                Some(action @ (Action::HalfPageDown | Action::HalfPageUp)) => return self.layer_action(action),
                Some(Action::CloseOrQuit) => return self.layer_action(Action::Back),
                _ => decision.type_key(key, now),
            },
            Some(Layer::Palette { field, at }) => match action {
                Some(Action::CloseOrQuit) if field.clear() => *at = 0,
                Some(Action::Back | Action::CloseOrQuit) => drop(self.display.layers.pop()),
                Some(Action::Help) => {
                    self.display.layers.push(Layer::Help { offset: ScrollOffset::default(), of: Context::Typing })
                }
                Some(Action::DoIt) => {
                    let found = prompt::find(field.text(), &names);
                    let chosen = found.get(*at).map(|entry| entry.command.clone());
                    self.display.layers.pop();
                    if let Some(command) = chosen {
                        return self.run_entry(command);
                    }
                }
                _ => match key.code {
                    KeyCode::Down | KeyCode::Tab => {
                        *at = (*at + 1).min(prompt::find(field.text(), &names).len().saturating_sub(1));
                    }
                    KeyCode::Up | KeyCode::BackTab => *at = at.saturating_sub(1),
                    _ => {
                        field.key(key);
                        *at = 0;
                    }
                },
            },
            _ => {}
        }
        Vec::new()
    }

    /// Text of the prompt and the completions of its last word; `None` unless the cursor is at the end.
    pub fn candidates(&self) -> Option<(String, Vec<Candidate>)> {
        let field = self.display.prompt.as_ref().filter(|field| field.cursor() == field.text().chars().count())?;
        let tools = self.session.ready.as_ref().map(|ready| ready.tools.as_slice()).unwrap_or_default();
        let find = |name: &str| {
            let tool = tools.iter().find(|tool| tool.name.as_str() == name)?;
            Some((tool.description.as_str(), &tool.input_schema))
        };
        let chains = self.session.page.network.iter().flat_map(|network| &network.chains);
        let chains: Vec<String> = chains.map(|chain| chain.name.to_string()).collect();
        let shows: Vec<String> = self.shows().iter().map(ToString::to_string).collect();
        let commands = self.session.ready.as_ref().map(|ready| ready.commands.as_slice()).unwrap_or_default();
        let names = complete::CompletionNames { commands, chains: &chains, shows: &shows };
        Some((field.text().to_owned(), complete::candidates(field.text(), &find, &names)))
    }

    /// Carries out a typed line or a palette entry.
    fn run_entry(&mut self, command: PromptCommand) -> Vec<Effect> {
        match command {
            PromptCommand::Nothing => Vec::new(),
            PromptCommand::Send(command) => {
                if let SessionCommand::Scenario { name } = &*command {
                    self.operator.requested_scenario = Some(name.clone());
                }
                if let SessionCommand::Say { .. } = &*command {
                    self.operator.said_at = Some(self.clock.now_millis);
                    self.show_notice("said");
                }
                vec![self.send(*command)]
            }
            PromptCommand::GoTo(screen) => self.go_to(screen),
            PromptCommand::Act(action) => match action {
                Action::Hold => self.anywhere(action),
                _ => self.page_action(action),
            },
            PromptCommand::Shows => {
                let field = Box::new(TextField::holding("scenario "));
                self.display.layers.push(Layer::Palette { field, at: 0 });
                Vec::new()
            }
            PromptCommand::Forms => self.fulfil(ScreenRequest::Palette("form ".to_owned())),
            PromptCommand::Form(tool) => {
                self.fulfil(ScreenRequest::OpenForm { tool, params: Value::Object(Map::new()) })
            }
            PromptCommand::Begins(command) => {
                self.display.prompt = Some(TextField::holding(command));
                Vec::new()
            }
            PromptCommand::Again => match self.show() {
                Some(name) => vec![self.send(SessionCommand::Scenario { name })],
                None => {
                    self.show_notice("no scenario is running: `scenario` lists them");
                    Vec::new()
                }
            },
            PromptCommand::Wrong(words) => {
                self.show_notice(&words);
                Vec::new()
            }
        }
    }

    /// Number of layers over the screen, the prompt included.
    pub(super) fn covers(&self) -> usize {
        self.display.layers.len() + usize::from(self.display.prompt.is_some())
    }

    /// Restarts the guard time of the layer or screen that became visible, so that no key meant for the closed layer
    /// acts on it.
    pub(super) fn uncovered(&mut self) {
        self.untaken_key();
        // An earlier drawing does not count: the dialog must be drawn again before it accepts an answer.
        if let Some(Layer::Decision(decision)) = self.display.layers.last_mut() {
            decision.moved();
        }
        if self.display.layers.is_empty() {
            self.with_screen(self.display.screen, |view, known, _| {
                view.uncovered(known);
                Vec::new()
            });
        }
    }

    fn layer_action(&mut self, action: Action) -> Vec<Effect> {
        let now = self.clock.now_millis;
        let rows = usize::from(self.display.size.height);
        if action == Action::CloseOrQuit {
            return self.close_or_quit(action, now, rows);
        }
        if action == Action::Help {
            let of = self.context();
            self.untaken_key();
            self.display.layers.push(Layer::Help { offset: ScrollOffset::default(), of });
            return Vec::new();
        }
        match self.display.layers.last_mut() {
            Some(Layer::Decision(decision))
                if self.options.watch_only
                    && decision.ended_at.is_none()
                    && matches!(action, Action::Pick(_) | Action::MarkRead | Action::DoIt) =>
            {
                self.show_notice("this console is read-only: answer in one that is not");
            }
            Some(Layer::Decision(decision)) => {
                let taken = decision.act(action, now, rows);
                let number = decision.number;
                return self.decision_taken(taken, number);
            }
            Some(Layer::Help { offset, .. }) => match action {
                Action::Back => drop(self.display.layers.pop()),
                _ => offset.scroll(action, rows),
            },
            Some(Layer::CallDetails(_)) => return self.details_action(action, rows),
            Some(Layer::Quit { .. }) => return self.quit_action(action, now),
            Some(Layer::Hold { since, before, .. }) => {
                let exit_only = *before < Some(StopLevel::ExitOnly);
                // A key that was meant for something else must not choose.
                if !settled(std::mem::replace(since, now), now) {
                    return Vec::new();
                }
                let reason = SafeText::clean("stopped by the operator", 60);
                let effects = match action {
                    Action::HoldExitOnly if !exit_only => {
                        self.show_notice(
                            "exit-only or a higher stop is in force below the hold already: Esc returns to it",
                        );
                        return Vec::new();
                    }
                    Action::HoldHalt => vec![self.send(SessionCommand::Raise { level: StopLevel::Halt, reason })],
                    // The session switches in one step, so that nothing passes between the hold and exit-only.
                    Action::HoldExitOnly => {
                        vec![self.send(SessionCommand::Raise { level: StopLevel::ExitOnly, reason })]
                    }
                    // The hold of a served session may be an operator's, so one who only watches leaves it.
                    Action::HoldRelease if self.only_watches_served() => {
                        self.show_notice("the hold stays: an operator's console releases it");
                        Vec::new()
                    }
                    Action::HoldRelease => vec![self.send(SessionCommand::ReleaseHold)],
                    _ => return Vec::new(),
                };
                self.display.layers.pop();
                return effects;
            }
            Some(Layer::Confirm { command, since, picked, .. }) => {
                let calm = settled(std::mem::replace(since, now), now);
                match action {
                    Action::PickYes if calm => *picked = true,
                    Action::DoIt if calm && *picked => {
                        let command = (**command).clone();
                        self.display.layers.pop();
                        return vec![self.send(command)];
                    }
                    Action::Back => drop(self.display.layers.pop()),
                    _ => {}
                }
            }
            Some(Layer::Palette { .. }) | None => {}
        }
        Vec::new()
    }

    /// Handles an action in the details of a call.
    fn details_action(&mut self, action: Action, rows: usize) -> Vec<Effect> {
        let Some(Layer::CallDetails(call_details)) = self.display.layers.last_mut() else { return Vec::new() };
        match action {
            Action::Back => drop(self.display.layers.pop()),
            Action::Copy => {
                let text = call_details.json(&self.session.feed);
                self.show_notice("copied");
                return vec![Effect::Copy(text)];
            }
            Action::Explorer => {
                let call = self.session.feed.call(call_details.call_id);
                return match call.and_then(|call| super::call_details::link(call, &self.session.page)) {
                    Some(link) => {
                        self.show_notice(&link);
                        vec![Effect::Copy(link)]
                    }
                    None => {
                        self.show_notice("no transaction was sent");
                        Vec::new()
                    }
                };
            }
            _ => call_details.offset.scroll(action, rows),
        }
        Vec::new()
    }

    /// Handles an action in the dialog before leaving.
    fn quit_action(&mut self, action: Action, now: u64) -> Vec<Effect> {
        let Some(Layer::Quit { since, picked }) = self.display.layers.last_mut() else { return Vec::new() };
        // Every keystroke restarts the guard time.
        let calm = settled(std::mem::replace(since, now), now);
        match action {
            // Said, so that nobody takes an ignored key for an answer.
            Action::QuitCancel | Action::DoIt | Action::QuitFinish if !calm => {
                self.show_notice("too soon: press the key again");
            }
            Action::QuitCancel if calm => *picked = true,
            Action::DoIt if calm && *picked => return self.leave(LeaveMode::CancelOrders),
            Action::QuitFinish if calm => return self.leave(LeaveMode::Finish),
            Action::Export => return vec![self.trades_file()],
            Action::Back => drop(self.display.layers.pop()),
            _ => {}
        }
        Vec::new()
    }

    /// Closes the top layer, or confirms leaving.
    fn close_or_quit(&mut self, action: Action, now: u64, rows: usize) -> Vec<Effect> {
        match self.display.layers.last_mut() {
            Some(Layer::Hold { .. }) => {}
            // The key that opened the leave dialog also confirms it, but only after the guard time.
            Some(Layer::Quit { since, .. }) => {
                if settled(std::mem::replace(since, now), now) {
                    return self.leave(LeaveMode::Finish);
                }
            }
            Some(Layer::Decision(decision)) if decision.ended_at.is_some() => {
                if decision.act(action, now, rows) == DecisionOutcome::Closed {
                    self.display.layers.pop();
                }
            }
            _ => drop(self.display.layers.pop()),
        }
        Vec::new()
    }

    fn decision_taken(&mut self, taken: DecisionOutcome, number: u64) -> Vec<Effect> {
        match taken {
            DecisionOutcome::Stays => Vec::new(),
            DecisionOutcome::Closed => {
                self.display.layers.pop();
                Vec::new()
            }
            DecisionOutcome::Later if number == OFFER_NUMBER => {
                self.display.layers.pop();
                let words =
                    format!("later: the offer stays open until it expires; {} opens it again", self.decide_key());
                self.show_notice(&words);
                Vec::new()
            }
            DecisionOutcome::Later => {
                self.display.layers.pop();
                let question = self.session.questions.iter().find(|question| question.number == number);
                let goes = question.filter(|question| question.passes_by_itself).and_then(|question| question.ends_at);
                let words = match goes {
                    Some(ends) => format!("later: it {}", ends_words(ends, true, self.known().live(), usize::MAX)),
                    None => "later: the decision keeps waiting".to_owned(),
                };
                self.show_notice(&words);
                Vec::new()
            }
            DecisionOutcome::Next => {
                let at = self.session.questions.iter().position(|question| question.number == number);
                let next =
                    at.and_then(|at| self.session.questions.get(at + 1)).or_else(|| self.session.questions.first());
                match next.map(|question| question.number) {
                    Some(next) if next != number => self.open_decision(next),
                    _ => self.show_notice("there is no other decision"),
                }
                Vec::new()
            }
            DecisionOutcome::Copy => match self.display.layers.last() {
                Some(Layer::Decision(decision)) if decision.shown.is_some() => {
                    let question = &decision.shown;
                    let text = serde_json::to_string_pretty(question).unwrap_or_default();
                    self.show_notice("copied");
                    vec![Effect::Copy(text)]
                }
                _ => Vec::new(),
            },
            DecisionOutcome::Answer(answer) => {
                // The answer applies to the request as shown: a request that was simulated again has another key.
                let shown = match self.display.layers.pop() {
                    Some(Layer::Decision(mut decision)) => {
                        let (confirmation, password) = (decision.confirmation(), decision.take_password());
                        decision.shown.map(|question| (question.key, confirmation, password))
                    }
                    _ => None,
                };
                match shown {
                    Some((key, confirmation, password)) => {
                        if !answer.kind().lets_through() {
                            self.forget_rejected(key);
                        }
                        vec![self.send(SessionCommand::Answer { key, answer, confirmation, password })]
                    }
                    None => Vec::new(),
                }
            }
        }
    }

    pub(super) fn open_story(&mut self, call_id: CallId) -> Vec<Effect> {
        self.display.layers.push(Layer::CallDetails(Box::new(CallDetails::new(call_id))));
        let query = SessionQuery::Audit { after: 0, call: Some(call_id), most: STORY_ENTRIES };
        vec![self.send(SessionCommand::Look { ticket: STORY_TICKET, query })]
    }

    /// Palette entries that match the search text.
    pub fn palette(&self, field: &TextField) -> Vec<PaletteEntry> {
        prompt::find(field.text(), &palette_names(self.session.ready.as_deref()))
    }

    /// Names of the scenarios that can be played.
    fn shows(&self) -> &[SafeText] {
        self.session.ready.as_ref().map_or(&[], |ready| ready.scenarios.as_slice())
    }

    /// Name of the current scenario: the last requested one, else the one with the newest caption.
    fn show(&self) -> Option<String> {
        self.operator.requested_scenario.clone().or_else(|| self.session.feed.show.as_ref().map(ToString::to_string))
    }

    /// Ids of the screens, in the order of their tabs. On a line with no room for all, screens 9 and 0 and those with a
    /// letter have a tab only while they are shown.
    pub fn tabs(&self) -> Vec<ScreenId> {
        let width = self.display.size.width;
        let rare = |id: ScreenId| match id {
            ScreenId::Transactions | ScreenId::Agents => width < DIGIT_TABS_WIDTH,
            ScreenId::Positions | ScreenId::Pools | ScreenId::Custody => width < ALL_TABS_WIDTH,
            ScreenId::Live
            | ScreenId::Trade
            | ScreenId::Orders
            | ScreenId::Portfolio
            | ScreenId::Audit
            | ScreenId::Tools
            | ScreenId::Network
            | ScreenId::Logs => false,
        };
        let shown = |id: &ScreenId| !rare(*id) || self.display.screen == *id;
        self.display.screens.ids().filter(shown).collect()
    }
}

#[cfg(test)]
mod tests;
