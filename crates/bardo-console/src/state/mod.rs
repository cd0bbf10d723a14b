//! State of the console. [`State::update`] is its only reducer: it takes an input and returns effects.
//!
//! Pure: without clock, terminal or chain access. The time arrives as an input. The view reads `&State`.

pub mod away;
pub mod call_details;
mod complete;
pub mod feed;
mod layers;
pub mod line;
pub mod model;
mod news;
mod prompt;
mod queries;
pub mod trades;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use ratatui::layout::{Position, Rect, Size};

use crate::keymap::{Key, Keymap};
use crate::screens::{ScreenContext, ScreenId, ScreenRequest, Screens};
use crate::widgets::decision::VisiblePart;
use crate::widgets::text_field::TextField;
pub use away::Away;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_session::handle::{
    AddressedCommand, LeaveMode, ReplayState, SessionCommand, SessionInfo, SessionNews, SessionSnapshot, SessionSummary,
};
use bardo_session::questions::Question;
pub use complete::Candidate;
use feed::Feed;
pub use layers::Layer;
use model::Page;
pub use prompt::PaletteEntry;
pub(crate) use queries::HEADER_ROWS;

/// Time after the terminal got the focus in which a click is ignored, because it only raised the window; in
/// milliseconds.
const FOCUS_CLICK_MILLIS: u64 = 400;
/// Time for which a notice is shown without a key, in milliseconds.
const NOTICE_MILLIS: u64 = 60_000;
/// Ticket of the audit log query for call details. No screen uses it.
const STORY_TICKET: u64 = 2;
/// Ticket of the audit log query for the outcome of a request of another process. No screen uses it.
const OUTCOME_TICKET: u64 = 3;
/// Maximum number of audit entries of one call that are read for it.
const OUTCOME_ENTRIES: u32 = 1_000;
/// Maximum number of alerts kept.
const ALERTS_KEPT: usize = 32;
/// Time for which an alert stays in the header, in milliseconds.
const ALERT_MILLIS: u64 = 60_000;
/// Distance between session time and machine time from which the session has its own time, in milliseconds.
const OWN_TIME_MILLIS: u64 = 3_600_000;
/// Timeout for an approval request after the `a` key, in milliseconds. A call's event can arrive before its request.
const QUESTION_MILLIS: u64 = 3_000;
/// Answer to `a` where nothing waits.
const NO_DECISION: &str = "no decision is waiting";
/// Fewest columns and rows of a page.
pub const LEAST: Size = Size { width: 40, height: 10 };

/// Input that can change the state.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A key was pressed. Releases and reported repeats are not inputs.
    Key(Key),
    /// A mouse button was pressed on a cell.
    Click {
        /// Column, starting at 0.
        column: u16,
        /// Row, starting at 0.
        row: u16,
        /// Part of the screen at that cell.
        target: ClickTarget,
    },
    /// The mouse wheel turned over a cell.
    Wheel {
        /// Column, starting at 0.
        column: u16,
        /// Row, starting at 0.
        row: u16,
        /// True if the wheel turned towards the user.
        down: bool,
    },
    /// Text was pasted.
    Paste(SafeText),
    /// The terminal has a new size.
    Resize(Size),
    /// The terminal got or lost the focus.
    Focus(bool),
    /// Current time, in milliseconds since the Unix epoch.
    Time(u64),
    /// A frame with the current state was written. Holds the visible part of the topmost approval dialog; `None`
    /// without one, or if it cannot be answered.
    Drawn(Option<VisiblePart>),
    /// The session sent news.
    News(Box<SessionNews>),
    /// The session ended without a summary.
    SessionGone,
    /// The process has to end.
    Terminate,
    /// Ctrl-Z had no effect, because there is no shell to return to.
    CannotSuspend,
}

/// Part of the screen at a clicked cell, as the view finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClickTarget {
    /// Index of a warning of the topmost approval dialog.
    pub warning: Option<usize>,
    /// Key of a dialog or of the hint line.
    pub key: Option<Key>,
    /// True for the screen digits or name of the hint line.
    pub next_screen: bool,
    /// Screen of a tab.
    pub tab: Option<ScreenId>,
    /// True for the header's count of waiting requests.
    pub waiting: bool,
}

/// Effect that the event loop must carry out.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Leaves the console.
    Quit,
    /// Discards what is known of the terminal and redraws everything.
    Redraw,
    /// Suspends the process.
    Suspend,
    /// Sends a command to the session.
    Send(AddressedCommand),
    /// Copies text to the clipboard.
    Copy(String),
    /// Calls for the operator's attention.
    Attention(Attention),
    /// Writes text to a new file in the current directory.
    Write {
        /// Name of the file, without a folder.
        name: String,
        /// Content of the file.
        text: String,
    },
}

/// Signal to the operator when something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attention {
    /// Only the drawn screen.
    #[default]
    None,
    /// Bell of the terminal.
    Bell,
    /// Desktop notification, if the terminal supports OSC 9.
    Notify,
}

impl Attention {
    /// Bytes to write to the terminal. They contain no outside text.
    pub const fn bytes(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Bell => b"\x07",
            Self::Notify => b"\x1b]9;Bardo: a decision waits for you\x07",
        }
    }
}

/// Copy of the state that a frozen view draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// Chains and markets at that time.
    pub page: Page,
    /// Feed at that time.
    pub feed: Feed,
    /// Snapshot at that time.
    pub snapshot: Option<Arc<SessionSnapshot>>,
    /// Time of freezing, by the session's clock.
    pub at: u64,
    /// Number of events since then.
    pub missed: u64,
}

/// Message that needs the operator's attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Time of the alert by the session's clock, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Text of the alert, one line.
    pub text: SafeText,
}

/// Manual action that the session holds until it is answered or expires.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOffer {
    /// Ticket of the command that requested it.
    pub ticket: u64,
    /// Approval request for the action.
    pub question: Box<Question>,
    /// Set when its dialog is first opened; from then on it is listed among the waiting requests.
    pub opened: bool,
}

/// Machine time, and the time of the session.
#[derive(Debug)]
pub struct Clock {
    /// Machine time of the last input, in milliseconds since the Unix epoch. Guard times and intervals use it.
    pub now_millis: u64,
    /// False if nothing may move by itself: clock, ages, spinner.
    pub motion: bool,
    /// Newest time of a session that does not follow the machine's clock, and the machine time of its arrival.
    own_time: Option<(u64, u64)>,
    newest_event_at: u64,
}

/// Options of the console that do not change while it runs.
#[derive(Debug)]
pub struct Settings {
    /// True in read-only mode, where the operator can stop new signatures and change nothing else.
    pub watch_only: bool,
    /// True if Ctrl-Z may suspend the process, which also suspends the Golem.
    pub may_suspend: bool,
    /// Active key bindings.
    pub keys: Arc<Keymap>,
    /// Signal when an approval request waits, besides the drawn screen.
    pub attention: Attention,
}

/// Data of the session: chains, events, approval requests, and how the session stands.
#[derive(Debug, Default)]
pub struct SessionData {
    /// Chains and markets.
    pub page: Page,
    /// State folded from events.
    pub feed: Feed,
    /// Latest snapshot of holdings, allowances and limits.
    pub snapshot: Option<Arc<SessionSnapshot>>,
    /// Description of the session: Golem, tools, chains.
    pub ready: Option<Box<SessionInfo>>,
    /// Position in the recording, if one is played.
    pub replay: Option<ReplayState>,
    /// Open approval requests, oldest first. The operator's own comes last, once its dialog was opened.
    pub questions: Arc<Vec<Question>>,
    /// Manual action that is held until it is answered.
    pub offer: Option<HeldOffer>,
    /// Session summary, once the session has ended.
    pub summary: Option<Box<SessionSummary>>,
    /// Set once the session was asked to end.
    pub leaving: bool,
}

impl SessionData {
    /// Source of a summary of the operator's absence.
    fn for_absence(&self) -> away::Known<'_> {
        away::Known { feed: &self.feed, snapshot: self.snapshot.as_deref() }
    }
}

/// Display state: the size, the screen in front, and everything over it.
#[derive(Debug)]
pub struct Display {
    /// Size of the terminal.
    pub size: Size,
    /// Screen in front.
    pub screen: ScreenId,
    /// All screens by id.
    pub screens: Screens,
    /// Layers over the screen, bottom first.
    pub layers: Vec<Layer>,
    /// Text of the prompt while it is open.
    pub prompt: Option<TextField>,
    /// Message for the operator until the next key, at most for a minute.
    pub notice: Option<SafeText>,
    /// Copy of the state while the view is frozen.
    pub frozen: Option<Box<Frozen>>,
}

/// The operator's presence, and what was asked for and not answered yet.
#[derive(Debug)]
pub struct OperatorState {
    /// Time of the operator's last message without an answer, in milliseconds since the Unix epoch.
    pub said_at: Option<u64>,
    /// Alerts, oldest first.
    pub alerts: VecDeque<Alert>,
    /// Detection of the operator's absence, with the last summary.
    pub away: Away,
    focused_at: u64,
    history_asked: bool,
    /// Scenario that was requested last.
    requested_scenario: Option<String>,
    /// Until when the first question to arrive is opened at once, in milliseconds since the Unix epoch: the operator
    /// asked for it when only its event was here.
    opens_until: Option<u64>,
    /// Shown notice, with the time at which it was first seen, in milliseconds of the machine's clock.
    noticed: Option<(SafeText, u64)>,
}

/// Complete state of the console.
#[derive(Debug)]
pub struct State {
    /// Machine time, and the time of the session.
    pub clock: Clock,
    /// Options that do not change while the console runs.
    pub options: Settings,
    /// Data of the session.
    pub session: SessionData,
    /// State of the display, without what the session reports.
    pub display: Display,
    /// The operator's presence and open requests.
    pub operator: OperatorState,
}

impl State {
    /// Creates the state before any news.
    pub fn new(size: Size, now_millis: u64, motion: bool) -> Self {
        Self {
            clock: Clock { now_millis, motion, own_time: None, newest_event_at: 0 },
            options: Settings {
                watch_only: false,
                may_suspend: true,
                keys: Arc::default(),
                attention: Attention::None,
            },
            session: SessionData::default(),
            display: Display {
                size,
                screen: ScreenId::Live,
                screens: Screens::new(),
                layers: Vec::new(),
                prompt: None,
                notice: None,
                frozen: None,
            },
            operator: OperatorState {
                said_at: None,
                alerts: VecDeque::new(),
                away: Away::new(now_millis),
                focused_at: 0,
                history_asked: false,
                requested_scenario: None,
                opens_until: None,
                noticed: None,
            },
        }
    }

    /// Applies an input and returns the effects to carry out.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let before = self.covers();
        let effects = self.apply_input(input);
        if self.covers() < before {
            self.uncovered();
        }
        effects
    }

    fn apply_input(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => {
                self.display.notice = None;
                self.operator.opens_until = None;
                self.looked();
                self.key(key)
            }
            // Some terminals report positions outside the screen; they are ignored.
            Input::Click { column, row, .. } | Input::Wheel { column, row, .. }
                if column >= self.display.size.width || row >= self.display.size.height =>
            {
                Vec::new()
            }
            Input::Click { column, row, target } => {
                self.display.notice = None;
                self.operator.opens_until = None;
                self.looked();
                if self.clock.now_millis < self.operator.focused_at.saturating_add(FOCUS_CLICK_MILLIS) {
                    return Vec::new();
                }
                self.click(Position { x: column, y: row }, target)
            }
            Input::Wheel { column, row, down } => {
                self.wheel(Position { x: column, y: row }, down);
                Vec::new()
            }
            Input::Paste(text) => {
                self.paste(&text);
                Vec::new()
            }
            Input::Resize(size) => {
                if size != self.display.size {
                    self.display.size = size;
                    for layer in &mut self.display.layers {
                        if let Layer::Decision(decision) = layer {
                            decision.moved();
                        }
                    }
                }
                vec![Effect::Redraw]
            }
            Input::Focus(here) => {
                if here {
                    self.operator.focused_at = self.clock.now_millis;
                    self.looked();
                } else {
                    self.operator.away.lost(self.clock.now_millis, self.session.for_absence());
                }
                Vec::new()
            }
            Input::Time(now) => {
                self.clock.now_millis = now;
                self.expire_notice();
                self.operator.away.idle(now, self.session.for_absence());
                self.follow_question();
                let asked = self.ask_outcome();
                if self.operator.opens_until.take_if(|until| *until < now).is_some() {
                    self.show_notice(NO_DECISION);
                }
                let ticked = self.with_screen(self.display.screen, |view, known, _| view.tick(known));
                asked.into_iter().chain(ticked).collect()
            }
            Input::Drawn(fit) => {
                let now = self.clock.now_millis;
                // At most one approval dialog is open. `fit` is `None` unless it is the topmost layer.
                for layer in &mut self.display.layers {
                    if let Layer::Decision(decision) = layer {
                        decision.drawn(now, fit.clone());
                    }
                }
                Vec::new()
            }
            Input::News(news) => self.news(*news),
            Input::SessionGone => {
                if self.session.leaving || self.session.summary.is_some() {
                    return vec![Effect::Quit];
                }
                self.session.page.fault = Some(SafeText::clean("the session has ended; q leaves", 60));
                Vec::new()
            }
            Input::Terminate => self.leave(LeaveMode::Finish),
            Input::CannotSuspend => {
                self.show_notice("Ctrl-Z: this terminal has no shell to return to");
                Vec::new()
            }
        }
    }

    /// Shows a message in the hint line until the next key.
    pub fn show_notice(&mut self, words: &str) {
        self.display.notice = Some(SafeText::clean(words, 300));
    }

    /// Removes a notice that was shown for [`NOTICE_MILLIS`]: what it says may no longer be true.
    fn expire_notice(&mut self) {
        let now = self.clock.now_millis;
        let Some(notice) = &self.display.notice else {
            self.operator.noticed = None;
            return;
        };
        match &self.operator.noticed {
            Some((shown, since)) if shown == notice => {
                if now >= since.saturating_add(NOTICE_MILLIS) {
                    (self.display.notice, self.operator.noticed) = (None, None);
                }
            }
            Some(_) | None => self.operator.noticed = Some((notice.clone(), now)),
        }
    }

    fn looked(&mut self) {
        self.operator.away.back(self.clock.now_millis, self.session.for_absence());
    }

    /// Effect that calls the operator, if the options ask for one.
    fn call_for_attention(&self) -> Option<Effect> {
        (self.options.attention != Attention::None).then_some(Effect::Attention(self.options.attention))
    }

    /// Lets a screen act and carries out its requests.
    fn with_screen(
        &mut self,
        id: ScreenId,
        act: impl FnOnce(&mut dyn crate::screens::ScreenView, &ScreenContext<'_>, Rect) -> Vec<ScreenRequest>,
    ) -> Vec<Effect> {
        // The screens are moved out, so that one can be changed while it reads the rest of the state.
        let mut screens = std::mem::take(&mut self.display.screens);
        let body = self.body();
        let requests = match screens.get_mut(id) {
            Some(view) => act(view.as_mut(), &self.known(), body),
            None => Vec::new(),
        };
        self.display.screens = screens;
        let mut effects = Vec::new();
        for request in requests {
            effects.extend(self.fulfil(request));
        }
        effects
    }

    fn fulfil(&mut self, request: ScreenRequest) -> Vec<Effect> {
        match request {
            ScreenRequest::Send(command) => vec![self.send(*command)],
            ScreenRequest::Copy(text) => {
                self.show_notice("copied");
                vec![Effect::Copy(text)]
            }
            ScreenRequest::Write { name, text } => vec![Effect::Write { name, text }],
            ScreenRequest::OpenQuestion(number) => {
                self.open_decision(number);
                Vec::new()
            }
            ScreenRequest::OpenOffer => {
                self.open_offer();
                Vec::new()
            }
            ScreenRequest::OpenCall(call_id) => self.open_story(call_id),
            ScreenRequest::SetAside(call_id) => {
                self.session.feed.set_aside(call_id);
                if let Some(frozen) = &mut self.display.frozen {
                    frozen.feed.set_aside(call_id);
                }
                Vec::new()
            }
            ScreenRequest::Confirm { .. } if self.options.watch_only => {
                self.show_notice("this console is read-only: it cannot change anything");
                Vec::new()
            }
            ScreenRequest::Confirm { asks, title, command } => {
                self.display.layers.push(Layer::Confirm {
                    asks,
                    title,
                    command,
                    since: self.clock.now_millis,
                    picked: false,
                });
                Vec::new()
            }
            ScreenRequest::Palette(beginning) => {
                let field = Box::new(TextField::holding(&beginning));
                self.display.layers.push(Layer::Palette { field, at: 0 });
                Vec::new()
            }
            ScreenRequest::GoTo(screen) => self.go_to(screen),
            ScreenRequest::OpenForm { tool, params } => {
                let effects = self.go_to(ScreenId::Trade);
                let mut filled = false;
                self.with_screen(ScreenId::Trade, |view, known, _| {
                    filled = view.fill_form(&tool, &params, known);
                    Vec::new()
                });
                if !filled {
                    self.show_notice(&format!("this session has no form for {tool}"));
                }
                effects
            }
            ScreenRequest::AbsenceRead => {
                self.operator.away.dismiss();
                Vec::new()
            }
            ScreenRequest::Notice(words) => {
                self.display.notice = Some(words);
                Vec::new()
            }
        }
    }

    fn send(&self, command: SessionCommand) -> Effect {
        let golem_id = self.session.ready.as_ref().map_or_else(GolemId::operator, |ready| ready.golem_id.clone());
        Effect::Send(AddressedCommand { golem_id, command })
    }

    fn go_to(&mut self, screen: ScreenId) -> Vec<Effect> {
        if self.display.screens.get(screen).is_none() {
            self.show_notice(&format!("this build has no screen {}", screen.name()));
            return Vec::new();
        }
        self.display.screen = screen;
        self.with_screen(screen, |view, known, _| {
            view.uncovered(known);
            view.shown(known)
        })
    }

    /// Asks the session to end; a second request ends it at once.
    fn leave(&mut self, mode: LeaveMode) -> Vec<Effect> {
        let mode = if self.session.leaving { LeaveMode::Now } else { mode };
        self.session.leaving = true;
        self.display.layers.retain(|layer| !matches!(layer, Layer::Quit { .. }));
        vec![self.send(SessionCommand::Leave(mode))]
    }
}
