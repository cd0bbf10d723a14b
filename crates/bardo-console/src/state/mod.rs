//! The console's state and its one way forward: [`State::update`] takes an input and returns effects.
//!
//! Pure: no clock, no terminal, no chain. What time it is comes in with the inputs. The view reads `&State`.

mod asked;
pub mod away;
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
pub mod story;
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
use bardo_session::handle::{Command, Farewell, LeaveMode, News, Ready, ReplayNow, Sent, Snapshot};
use bardo_session::questions::Question;
pub use complete::Candidate;
use feed::Feed;
use field::Field;
pub use layers::Layer;
use model::Page;
pub use prompt::Entry;

/// A click so soon after the terminal came to the front brought it there, and presses nothing.
const FOCUS_CLICK_MILLIS: u64 = 400;
/// The ticket of the trail's newest entries, asked for by a story: no screen's.
const STORY_TICKET: u64 = 2;
/// Alerts kept.
const ALERTS_KEPT: usize = 32;
/// An alert stands in the header so long.
const ALERT_MILLIS: u64 = 60_000;
/// How far a session's words are from the machine's clock when it has a time of its own.
const OWN_TIME_MILLIS: u64 = 3_600_000;
/// How long `a` waits for the question of a call whose event says already that it waits, in milliseconds.
const QUESTION_MILLIS: u64 = 3_000;
/// Answer to `a` where nothing waits.
const NO_DECISION: &str = "no decision waits";
/// Fewest columns and rows of a page.
pub const LEAST: Size = Size { width: 40, height: 10 };

/// What can reach the state.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A key was pressed (not released, not repeated by the terminal's own account).
    Key(Key),
    /// A mouse button went down on a cell.
    Click {
        /// From 0.
        column: u16,
        /// From 0.
        row: u16,
    },
    /// The wheel turned over a cell; down is towards the reader.
    Wheel {
        /// From 0.
        column: u16,
        /// From 0.
        row: u16,
        /// Whether it turned down.
        down: bool,
    },
    /// Text was pasted.
    Paste(SafeText),
    /// The terminal has a new size.
    Resize(Size),
    /// The terminal came to the front, or went behind.
    Focus(bool),
    /// It is now this many milliseconds since the Unix epoch.
    Time(u64),
    /// A frame with the state as it is now has been written.
    Drawn,
    /// The session has news.
    News(Box<News>),
    /// The session has ended without a word.
    SessionGone,
    /// The process is asked to end.
    Terminate,
    /// There is no shell to go back to, so Ctrl-Z did nothing.
    CannotSuspend,
}

/// What the state wants done outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Forget what the terminal shows and draw it all.
    Redraw,
    /// Stop the process.
    Suspend,
    /// Send this to the session.
    Send(Sent),
    /// Put this on the clipboard.
    Copy(String),
    /// Call for the operator's attention.
    Attention(Attention),
    /// Write this to a new file of the operator's.
    Write {
        /// Its name.
        name: String,
        /// What is in it.
        text: String,
    },
}

/// How the console calls for attention when something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attention {
    /// By what is drawn, and nothing else.
    #[default]
    None,
    /// By the terminal's bell.
    Bell,
    /// By a message of the desktop, where the terminal passes one on (OSC 9).
    Notify,
}

impl Attention {
    /// The bytes that do it. No word in them comes from outside.
    pub const fn bytes(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Bell => b"\x07",
            Self::Notify => b"\x1b]9;Bardo: something waits for you\x07",
        }
    }
}

/// A view that stands still.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// Chains and markets as they were.
    pub page: Page,
    /// Events as they were.
    pub feed: Feed,
    /// What is not an event, as it was.
    pub snapshot: Option<Arc<Snapshot>>,
    /// When that was, by the session's time.
    pub at: u64,
    /// Events that came since.
    pub missed: u64,
}

/// Something that wants a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// When.
    pub at: u64,
    /// What, in a line.
    pub text: SafeText,
}

/// An action by hand that the session holds until it is answered or its time is over.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOffer {
    /// Ticket of the command that asked for it.
    pub ticket: u64,
    /// The question whether to do it.
    pub question: Box<Question>,
    /// Set once its decision was opened: from then on it is listed among those that wait.
    pub opened: bool,
}

/// Everything the console knows.
#[derive(Debug)]
pub struct State {
    /// The terminal's size.
    pub size: Size,
    /// Milliseconds since the Unix epoch by the machine's clock, as last told: what guards and pauses are counted by.
    pub now_millis: u64,
    /// Whether things may move by themselves: the clock, ages, the spinner.
    pub motion: bool,
    /// Whether nothing can be changed from here.
    pub watch_only: bool,
    /// Whether Ctrl-Z may stop the process: it stops the Golem, too.
    pub may_suspend: bool,
    /// Chains and markets.
    pub page: Page,
    /// What events told.
    pub feed: Feed,
    /// Set while the view stands still.
    pub frozen: Option<Box<Frozen>>,
    /// Open questions, the oldest first; the operator's own comes last, once its decision was opened.
    pub questions: Arc<Vec<Question>>,
    /// The action by hand that is held and waits for its answer.
    pub offer: Option<HeldOffer>,
    /// Which key does what.
    pub keys: Arc<Keymap>,
    /// How a decision that waits calls for attention, beside what is drawn.
    pub attention: Attention,
    /// What is not an event.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Who is here.
    pub ready: Option<Box<Ready>>,
    /// Where the recording is, where one is played.
    pub replay: Option<ReplayNow>,
    /// The screen in front.
    pub screen: ScreenId,
    /// All screens.
    pub screens: Screens,
    /// Bottom first.
    pub layers: Vec<Layer>,
    /// The prompt, while it has the keys.
    pub prompt: Option<Field>,
    /// A line for the operator, until the next key.
    pub notice: Option<SafeText>,
    /// When the operator last said something that has no answer yet, in milliseconds since the Unix epoch.
    pub said_at: Option<u64>,
    /// What wants a look, the oldest first.
    pub alerts: VecDeque<Alert>,
    /// While nobody looks, and what happened then.
    pub away: Away,
    /// How the session ended.
    pub farewell: Option<Box<Farewell>>,
    /// Set while the session is asked to end.
    pub leaving: bool,
    focused_at: u64,
    history_asked: bool,
    /// The newest time of a session that does not live by the machine's clock, and when it was heard.
    own_time: Option<(u64, u64)>,
    newest_event_at: u64,
    /// The show that was asked for last.
    asked_show: Option<String>,
    /// Until when the first question to arrive is opened at once, in milliseconds since the Unix epoch: the operator asked
    /// for it when only its event was here.
    opens_until: Option<u64>,
}

impl State {
    /// A state that knows nothing yet.
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
            farewell: None,
            leaving: false,
            focused_at: 0,
            history_asked: false,
            own_time: None,
            newest_event_at: 0,
            asked_show: None,
            opens_until: None,
        }
    }

    /// Takes one input in and says what is to be done outside.
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
            // A terminal that reports a place it does not have means none that is drawn.
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
                // There is one at most, and what fits is told of it only where it is on top.
                for layer in &mut self.layers {
                    if let Layer::Decision(decision) = layer {
                        decision.drawn(now, fit);
                    }
                }
                Vec::new()
            }
            Input::News(news) => self.news(*news),
            Input::SessionGone => {
                if self.leaving || self.farewell.is_some() {
                    return vec![Effect::Quit];
                }
                self.page.fault = Some(SafeText::clean("the session has ended; q leaves", 60));
                Vec::new()
            }
            Input::Terminate => self.leave(LeaveMode::Finish),
            Input::CannotSuspend => {
                self.say("Ctrl-Z: there is no shell behind this terminal to go back to");
                Vec::new()
            }
        }
    }

    /// Says something in the hint line, until the next key.
    pub fn say(&mut self, words: &str) {
        self.notice = Some(SafeText::clean(words, 300));
    }

    fn looked(&mut self) {
        self.away.back(self.now_millis, &self.feed);
    }

    /// What calls the operator, where that is wanted.
    fn call_for_attention(&self) -> Option<Effect> {
        (self.attention != Attention::None).then_some(Effect::Attention(self.attention))
    }

    /// Lets a screen do something, and carries its wishes out.
    fn with_screen(
        &mut self,
        id: ScreenId,
        act: impl FnOnce(&mut dyn crate::screens::ScreenView, &Known<'_>, Rect) -> Vec<Wish>,
    ) -> Vec<Effect> {
        // The screens are set aside, so that one of them can be changed while it reads all the rest.
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
                self.say("this console only watches: nothing can be changed from it");
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
            self.say(&format!("there is no screen {} in this build", screen.name()));
            return Vec::new();
        }
        self.screen = screen;
        self.with_screen(screen, |view, known, _| {
            view.uncovered(known);
            view.shown(known)
        })
    }

    /// Ends the session; a second wish ends it now.
    fn leave(&mut self, mode: LeaveMode) -> Vec<Effect> {
        let mode = if self.leaving { LeaveMode::Now } else { mode };
        self.leaving = true;
        self.layers.retain(|layer| !matches!(layer, Layer::Quit { .. }));
        vec![self.send(Command::Leave(mode))]
    }
}
