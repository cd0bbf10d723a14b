//! State of the console. [`State::update`] is its only reducer: it takes an input and returns effects.
//!
//! Pure: without clock, terminal or chain access. The time arrives as an input. The view reads `&State`.

mod asked;
pub mod away;
pub mod call_details;
mod complete;
pub mod decision;
pub mod feed;
pub mod field;
mod layers;
pub mod line;
pub mod model;
mod news;
mod prompt;
mod secret;
pub mod trades;
pub mod trail;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use ratatui::layout::{Position, Rect, Size};

use crate::keymap::{Key, Keymap};
use crate::screens::{Known, ScreenId, Screens, Wish};
pub use away::Away;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_session::handle::{Command, LeaveMode, News, Ready, ReplayState, Sent, SessionSummary, Snapshot};
use bardo_session::questions::Question;
pub use complete::Candidate;
use feed::Feed;
use field::Field;
pub use layers::Layer;
use model::Page;
pub use prompt::Entry;

/// Time after the terminal got the focus in which a click is ignored, because it only raised the window; in
/// milliseconds.
const FOCUS_CLICK_MILLIS: u64 = 400;
/// Ticket of the audit log query for call details. No screen uses it.
const STORY_TICKET: u64 = 2;
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
    /// A frame with the current state was written.
    Drawn,
    /// The session sent news.
    News(Box<News>),
    /// The session ended without a summary.
    SessionGone,
    /// The process has to end.
    Terminate,
    /// Ctrl-Z had no effect, because there is no shell to return to.
    CannotSuspend,
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
    Send(Sent),
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
    pub snapshot: Option<Arc<Snapshot>>,
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

/// Complete state of the console.
#[derive(Debug)]
pub struct State {
    /// Size of the terminal.
    pub size: Size,
    /// Machine time of the last input, in milliseconds since the Unix epoch. Guard times and intervals use it.
    pub now_millis: u64,
    /// False if nothing may move by itself: clock, ages, spinner.
    pub motion: bool,
    /// True in read-only mode, where the operator can stop new signatures and change nothing else.
    pub watch_only: bool,
    /// True if Ctrl-Z may suspend the process, which also suspends the Golem.
    pub may_suspend: bool,
    /// Chains and markets.
    pub page: Page,
    /// State folded from events.
    pub feed: Feed,
    /// Copy of the state while the view is frozen.
    pub frozen: Option<Box<Frozen>>,
    /// Open approval requests, oldest first. The operator's own comes last, once its dialog was opened.
    pub questions: Arc<Vec<Question>>,
    /// Manual action that is held until it is answered.
    pub offer: Option<HeldOffer>,
    /// Active key bindings.
    pub keys: Arc<Keymap>,
    /// Signal when an approval request waits, besides the drawn screen.
    pub attention: Attention,
    /// Latest snapshot of holdings, allowances and limits.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Description of the session: Golem, tools, chains.
    pub ready: Option<Box<Ready>>,
    /// Position in the recording, if one is played.
    pub replay: Option<ReplayState>,
    /// Screen in front.
    pub screen: ScreenId,
    /// All screens by id.
    pub screens: Screens,
    /// Layers over the screen, bottom first.
    pub layers: Vec<Layer>,
    /// Text of the prompt while it is open.
    pub prompt: Option<Field>,
    /// Message for the operator until the next key.
    pub notice: Option<SafeText>,
    /// Time of the operator's last message without an answer, in milliseconds since the Unix epoch.
    pub said_at: Option<u64>,
    /// Alerts, oldest first.
    pub alerts: VecDeque<Alert>,
    /// Detection of the operator's absence, with the last summary.
    pub away: Away,
    /// Session summary, once the session has ended.
    pub session_summary: Option<Box<SessionSummary>>,
    /// Set once the session was asked to end.
    pub leaving: bool,
    focused_at: u64,
    history_asked: bool,
    /// Newest time of a session that does not follow the machine's clock, and the machine time of its arrival.
    own_time: Option<(u64, u64)>,
    newest_event_at: u64,
    /// Scenario that was requested last.
    asked_show: Option<String>,
    /// Until when the first question to arrive is opened at once, in milliseconds since the Unix epoch: the operator asked
    /// for it when only its event was here.
    opens_until: Option<u64>,
}

impl State {
    /// Creates the state before any news.
    pub fn new(size: Size, now_millis: u64, motion: bool) -> Self {
        Self {
            size,
            now_millis,
            motion,
            watch_only: false,
            may_suspend: true,
            page: Page::default(),
            feed: Feed::default(),
            frozen: None,
            questions: Arc::default(),
            offer: None,
            keys: Arc::default(),
            attention: Attention::None,
            snapshot: None,
            ready: None,
            replay: None,
            screen: ScreenId::Live,
            screens: Screens::new(),
            layers: Vec::new(),
            prompt: None,
            notice: None,
            said_at: None,
            alerts: VecDeque::new(),
            away: Away::new(now_millis),
            session_summary: None,
            leaving: false,
            focused_at: 0,
            history_asked: false,
            own_time: None,
            newest_event_at: 0,
            asked_show: None,
            opens_until: None,
        }
    }

    /// Applies an input and returns the effects to carry out.
    pub fn update(&mut self, input: Input) -> Vec<Effect> {
        let before = self.covers();
        let effects = self.take_in_one(input);
        if self.covers() < before {
            self.uncovered();
        }
        effects
    }

    fn take_in_one(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => {
                self.notice = None;
                self.opens_until = None;
                self.looked();
                self.key(key)
            }
            // Some terminals report positions outside the screen; they are ignored.
            Input::Click { column, row } | Input::Wheel { column, row, .. }
                if column >= self.size.width || row >= self.size.height =>
            {
                Vec::new()
            }
            Input::Click { column, row } => {
                self.notice = None;
                self.opens_until = None;
                self.looked();
                if self.now_millis < self.focused_at.saturating_add(FOCUS_CLICK_MILLIS) {
                    return Vec::new();
                }
                self.click(Position { x: column, y: row })
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
                if size != self.size {
                    self.size = size;
                    for layer in &mut self.layers {
                        if let Layer::Decision(decision) = layer {
                            decision.moved();
                        }
                    }
                }
                vec![Effect::Redraw]
            }
            Input::Focus(here) => {
                if here {
                    self.focused_at = self.now_millis;
                    self.looked();
                } else {
                    self.away.lost(self.now_millis, &self.feed);
                }
                Vec::new()
            }
            Input::Time(now) => {
                self.now_millis = now;
                self.away.idle(now, &self.feed);
                self.follow_question();
                if self.opens_until.take_if(|until| *until < now).is_some() {
                    self.say(NO_DECISION);
                }
                self.with_screen(self.screen, |view, known, _| view.tick(known))
            }
            Input::Drawn => {
                let (now, fit) = (self.now_millis, crate::view::decision_fit(self));
                // At most one approval dialog is open. `fit` is `None` unless it is the topmost layer.
                for layer in &mut self.layers {
                    if let Layer::Decision(decision) = layer {
                        decision.drawn(now, fit);
                    }
                }
                Vec::new()
            }
            Input::News(news) => self.news(*news),
            Input::SessionGone => {
                if self.leaving || self.session_summary.is_some() {
                    return vec![Effect::Quit];
                }
                self.page.fault = Some(SafeText::clean("the session has ended; q leaves", 60));
                Vec::new()
            }
            Input::Terminate => self.leave(LeaveMode::Finish),
            Input::CannotSuspend => {
                self.say("Ctrl-Z: this terminal has no shell to return to");
                Vec::new()
            }
        }
    }

    /// Shows a message in the hint line until the next key.
    pub fn say(&mut self, words: &str) {
        self.notice = Some(SafeText::clean(words, 300));
    }

    fn looked(&mut self) {
        self.away.back(self.now_millis, &self.feed);
    }

    /// Effect that calls the operator, if the options ask for one.
    fn call_for_attention(&self) -> Option<Effect> {
        (self.attention != Attention::None).then_some(Effect::Attention(self.attention))
    }

    /// Lets a screen act and carries out its wishes.
    fn with_screen(
        &mut self,
        id: ScreenId,
        act: impl FnOnce(&mut dyn crate::screens::ScreenView, &Known<'_>, Rect) -> Vec<Wish>,
    ) -> Vec<Effect> {
        // The screens are moved out, so that one can be changed while it reads the rest of the state.
        let mut screens = std::mem::take(&mut self.screens);
        let body = self.body();
        let wishes = match screens.get_mut(id) {
            Some(view) => act(view.as_mut(), &self.known(), body),
            None => Vec::new(),
        };
        self.screens = screens;
        let mut effects = Vec::new();
        for wish in wishes {
            effects.extend(self.grant(wish));
        }
        effects
    }

    fn grant(&mut self, wish: Wish) -> Vec<Effect> {
        match wish {
            Wish::Send(command) => vec![self.send(*command)],
            Wish::Copy(text) => {
                self.say("copied");
                vec![Effect::Copy(text)]
            }
            Wish::Write { name, text } => vec![Effect::Write { name, text }],
            Wish::OpenQuestion(number) => {
                self.open_decision(number);
                Vec::new()
            }
            Wish::OpenOffer => {
                self.open_offer();
                Vec::new()
            }
            Wish::OpenCall(call_id) => self.open_story(call_id),
            Wish::SetAside(call_id) => {
                self.feed.set_aside(call_id);
                if let Some(frozen) = &mut self.frozen {
                    frozen.feed.set_aside(call_id);
                }
                Vec::new()
            }
            Wish::Confirm { .. } if self.watch_only => {
                self.say("this console is read-only: it cannot change anything");
                Vec::new()
            }
            Wish::Confirm { title, command } => {
                self.layers.push(Layer::Confirm { title, command, since: self.now_millis, picked: false });
                Vec::new()
            }
            Wish::GoTo(screen) => self.go_to(screen),
            Wish::AbsenceRead => {
                self.away.dismiss();
                Vec::new()
            }
            Wish::Notice(words) => {
                self.notice = Some(words);
                Vec::new()
            }
        }
    }

    fn send(&self, command: Command) -> Effect {
        let golem_id = self.ready.as_ref().map_or_else(GolemId::operator, |ready| ready.golem_id.clone());
        Effect::Send(Sent { golem_id, command })
    }

    fn go_to(&mut self, screen: ScreenId) -> Vec<Effect> {
        if self.screens.get(screen).is_none() {
            self.say(&format!("this build has no screen {}", screen.name()));
            return Vec::new();
        }
        self.screen = screen;
        self.with_screen(screen, |view, known, _| {
            view.uncovered(known);
            view.shown(known)
        })
    }

    /// Asks the session to end; a second request ends it at once.
    fn leave(&mut self, mode: LeaveMode) -> Vec<Effect> {
        let mode = if self.leaving { LeaveMode::Now } else { mode };
        self.leaving = true;
        self.layers.retain(|layer| !matches!(layer, Layer::Quit { .. }));
        vec![self.send(Command::Leave(mode))]
    }
}
