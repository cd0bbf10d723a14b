//! The screens, each in a file of its own, behind one shape. A screen keeps what is the operator's on it (what is
//! selected, filtered, typed), reads everything else from [`Known`], draws into an area of any size, and answers keys
//! with wishes. It sends nothing and knows no terminal.
//!
//! To add one: a file with a type that implements [`ScreenView`], and its place in [`Screens::new`].

mod ask;
mod audit;
mod filter;
mod form;
mod list;
mod live;
mod logs;
mod network;
mod orders;
mod portfolio;
mod tools;
mod trade;

use std::collections::BTreeMap;
use std::fmt::Debug;

use ratatui::layout::{Position, Rect};

use self::filter::Filter;
use super::keymap::{Action, Key};
use super::pen::Pen;
use super::state::away::Summary;
use super::state::feed::{CallSeen, Feed};
use super::state::model::{Money, Page};
use super::state::story;
use super::widgets::Moment;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::handle::{Command, Found, Limits, PolicyNow, Ready, Snapshot};
use bardo_session::questions::Question;

/// The screens, in the order of their digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScreenId {
    /// 1: the Golem, live.
    Live,
    /// 2: tools that trade, by hand.
    Trade,
    /// 3: auction orders and bridge orders.
    Orders,
    /// 4: what is held, and what others may take.
    Portfolio,
    /// 5: offers, decisions, standing approvals, the trail.
    Audit,
    /// 6: the catalog.
    Tools,
    /// 7: chains, pools, the devnet's controls.
    Network,
    /// 8: one line per event.
    Logs,
}

impl ScreenId {
    /// All of them, in the order of their digits.
    pub const ALL: [Self; 8] =
        [Self::Live, Self::Trade, Self::Orders, Self::Portfolio, Self::Audit, Self::Tools, Self::Network, Self::Logs];

    /// The digit that switches to it.
    pub const fn digit(self) -> char {
        match self {
            Self::Live => '1',
            Self::Trade => '2',
            Self::Orders => '3',
            Self::Portfolio => '4',
            Self::Audit => '5',
            Self::Tools => '6',
            Self::Network => '7',
            Self::Logs => '8',
        }
    }

    /// Whether a key's action does anything on this screen: the help and the hints list no other.
    pub const fn does(self, action: Action) -> bool {
        match action {
            Action::NextPanel | Action::PreviousPanel => !matches!(self, Self::Orders | Self::Logs),
            // Trade is a form: nothing in it is a list that could be narrowed.
            Action::Filter | Action::NextMatch | Action::PreviousMatch => !matches!(self, Self::Trade),
            Action::Top | Action::Bottom | Action::HalfPageDown | Action::HalfPageUp => !matches!(self, Self::Trade),
            // Logs has one panel, and that has the whole place.
            Action::Zoom => !matches!(self, Self::Logs),
            Action::ShorterRange | Action::LongerRange => matches!(self, Self::Live | Self::Portfolio | Self::Logs),
            Action::Follow => matches!(self, Self::Live | Self::Audit | Self::Logs),
            Action::Copy => !matches!(self, Self::Network),
            Action::Verify => matches!(self, Self::Audit),
            Action::Explorer => matches!(self, Self::Live | Self::Trade | Self::Orders),
            Action::CancelSelected => {
                matches!(self, Self::Live | Self::Orders | Self::Portfolio | Self::Audit)
            }
            Action::Left | Action::Right => matches!(self, Self::Trade | Self::Tools),
            Action::Open => !matches!(self, Self::Portfolio),
            _ => true,
        }
    }

    /// Whether a key's action, which does something here in a session, does nothing in a recording: there are no tools to
    /// call, no controls and no allowances in it.
    pub const fn is_idle_in_recording(self, action: Action) -> bool {
        match self {
            Self::Trade | Self::Tools => matches!(
                action,
                Action::Open
                    | Action::Up
                    | Action::Down
                    | Action::NextPanel
                    | Action::PreviousPanel
                    | Action::Zoom
                    | Action::Copy
                    | Action::Explorer
                    | Action::Filter
                    | Action::NextMatch
                    | Action::PreviousMatch
                    | Action::Top
                    | Action::Bottom
                    | Action::HalfPageDown
                    | Action::HalfPageUp
            ),
            Self::Network => matches!(action, Action::Open),
            Self::Portfolio => matches!(action, Action::Copy),
            Self::Audit => matches!(action, Action::Export | Action::Follow | Action::Filter),
            Self::Live | Self::Orders | Self::Logs => false,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "Live",
            Self::Trade => "Trade",
            Self::Orders => "Orders",
            Self::Portfolio => "Portfolio",
            Self::Audit => "Audit",
            Self::Tools => "Tools",
            Self::Network => "Network",
            Self::Logs => "Logs",
        }
    }
}

/// Everything a screen may read. While the view is frozen, page, feed and snapshot are those of that moment, and what is
/// drawn of them is told by its time.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Milliseconds since the Unix epoch by the session's time: what everything that is shown is told by.
    pub now_millis: u64,
    /// The same, and never frozen: what is left of a question's time, and of an offer's.
    pub live_millis: u64,
    /// The same by the machine's clock: how often something is asked.
    pub machine_millis: u64,
    /// Whether things may move by themselves.
    pub motion: bool,
    /// Whose money moves, paper told apart. Never frozen.
    pub money: Option<Money>,
    /// Chains, pools, prices, blocks.
    pub page: &'a Page,
    /// What events told.
    pub feed: &'a Feed,
    /// The same, and never frozen: what the operator does goes on though the view stands still.
    pub live_feed: &'a Feed,
    /// Open questions, the oldest first. Never frozen.
    pub questions: &'a [Question],
    /// The action by hand that is held and waits for its answer. Never frozen.
    pub offer: Option<&'a Question>,
    /// What is not an event. `None` until the session stands.
    pub snapshot: Option<&'a Snapshot>,
    /// Who is here. `None` until the session stands.
    pub ready: Option<&'a Ready>,
    /// Whether nothing can be changed from here.
    pub watch_only: bool,
    /// What happened while nobody looked.
    pub away: Option<&'a Summary>,
}

impl<'a> Known<'a> {
    /// Whether a recording is played.
    pub fn replayed(&self) -> bool {
        self.money == Some(Money::Replay)
    }

    /// What is used of the limits; in a recording, as it was told then.
    pub fn limits(&self) -> Option<&'a Limits> {
        match self.snapshot {
            Some(snapshot) => snapshot.limits.as_ref(),
            None => self.feed.limits.as_ref().map(|told| &told.limits),
        }
    }

    /// The policy in force; in a recording, as it was told then.
    pub fn policy(&self) -> Option<&'a PolicyNow> {
        match self.snapshot {
            Some(snapshot) => Some(&snapshot.policy),
            None => self.feed.limits.as_ref().map(|told| &told.policy),
        }
    }

    /// Symbol of a chain's native token, which pays for gas; `None` where no one told it.
    pub fn native_symbol(&self, chain_id: u64) -> Option<&'a SafeText> {
        let held = self.snapshot.and_then(|snapshot| snapshot.holdings.iter().find(|one| one.chain_id == chain_id));
        // The native token comes first among the holdings of a chain.
        held.and_then(|chain| chain.rows.first())
            .map(|row| &row.symbol)
            .or_else(|| self.feed.native_symbols.get(&chain_id))
    }

    /// The moment for which widgets are drawn.
    pub const fn moment(&self) -> Moment {
        Moment { millis: self.now_millis, motion: self.motion }
    }

    /// The moment for what goes on though the view stands still.
    pub const fn live(&self) -> Moment {
        Moment { millis: self.live_millis, motion: self.motion }
    }
}

/// What a screen wants of whoever holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// Send this. A ticket in it is made with [`ticket`].
    Send(Box<Command>),
    /// Put this on the clipboard.
    Copy(String),
    /// Open the question of this number.
    OpenQuestion(u64),
    /// Open the decision about the action by hand that is held.
    OpenOffer,
    /// Open the whole story of a call.
    OpenCall(CallId),
    /// Leave a call out of the activity: a form made it by itself, and it reads only.
    SetAside(CallId),
    /// Ask whether to do it, and do it on a yes: for what cancels or revokes.
    Confirm {
        /// What is asked.
        title: SafeText,
        /// What a yes sends.
        command: Box<Command>,
    },
    /// Write this to a new file of the operator's.
    Write {
        /// Its name, without a folder.
        name: String,
        /// What is in it.
        text: String,
    },
    /// Switch to a screen.
    GoTo(ScreenId),
    /// The summary of the absence has been read.
    AbsenceRead,
    /// Say something in the hint line, until the next key.
    Notice(SafeText),
}

/// News that answers a command of a screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A call has its id.
    Began(CallId),
    /// A call is over.
    Reply(Box<bardo_session::envelope::ToolResponse>),
    /// What a query found.
    Found(Box<Found>),
}

/// How a call ended, as a line for the operator: for screens that keep nothing else of it.
fn said(heard: &Heard) -> Vec<Wish> {
    let Heard::Reply(response) = heard else { return Vec::new() };
    let words = response.explanation.as_deref().unwrap_or("");
    let mark = if response.error.is_some() { "✕" } else { "✓" };
    vec![Wish::Notice(SafeText::clean(&format!("{mark} {words}"), 200))]
}

/// What `y` copies of a call: its newest transaction's hash, else its own id.
fn copied(call: &CallSeen) -> Wish {
    let hash = call.transactions.last().map(|(_, update)| update.hash.to_string());
    Wish::Copy(hash.unwrap_or_else(|| call.call_id.to_string()))
}

/// What `o` does about a call: the address of its newest transaction goes onto the clipboard, because a line may have no
/// room for all of it. A devnet's has no page but the call's own story.
fn look_at(call: &CallSeen, known: &Known<'_>) -> Vec<Wish> {
    let Some(link) = story::link(call, known.page) else {
        return vec![Wish::Notice(SafeText::clean("it has sent no transaction", 60))];
    };
    let notice = Wish::Notice(SafeText::clean(&link, 200));
    match link.starts_with(story::OWN_PAGES) {
        true => vec![notice, Wish::OpenCall(call.call_id)],
        false => vec![Wish::Copy(link), notice],
    }
}

/// A ticket whose answer comes back to that screen: the screen's digit above, its own count below.
pub const fn ticket(screen: ScreenId, count: u32) -> u64 {
    ((screen.digit() as u64) << 32) | count as u64
}

/// The screen that a ticket belongs to, and its count.
pub fn holder(ticket: u64) -> Option<(ScreenId, u32)> {
    let digit = ticket >> 32;
    let screen = ScreenId::ALL.into_iter().find(|screen| u64::from(u32::from(screen.digit())) == digit)?;
    Some((screen, u32::try_from(ticket & u64::from(u32::MAX)).ok()?))
}

/// One screen.
pub trait ScreenView: Debug + Send {
    /// Which.
    fn id(&self) -> ScreenId;

    /// Draws it. Works at any size; where something does not fit it says so.
    fn draw(&self, known: &Known<'_>, pen: &mut Pen<'_>, area: Rect);

    /// Does what a key of the keymap's page asks for. `area` is where it is drawn. `None`: the key means nothing here,
    /// and may mean something to whoever holds the screen.
    fn act(&mut self, action: Action, known: &Known<'_>, area: Rect) -> Option<Vec<Wish>>;

    /// What narrows its list, where it has one that can be narrowed.
    fn filter(&self) -> Option<&Filter> {
        None
    }

    /// The same, to be changed.
    fn filter_mut(&mut self) -> Option<&mut Filter> {
        None
    }

    /// Whether a text field has the keys: then every printable key comes to [`Self::type_key`], and digits switch no
    /// screens.
    fn takes_text(&self) -> bool {
        self.filter().is_some_and(Filter::typing)
    }

    /// Whether only what fits a filter is shown: then `n` and `N` go from one to the next.
    fn has_filter(&self) -> bool {
        self.filter().is_some_and(Filter::stands)
    }

    /// A key for the text field; Esc, Enter, Tab and the arrows come here too while one has the keys. `false`: not
    /// consumed.
    fn type_key(&mut self, key: Key, _known: &Known<'_>, _wishes: &mut Vec<Wish>) -> bool {
        self.filter_mut().is_some_and(|filter| filter.key(key))
    }

    /// Text pasted while a text field has the keys. It submits nothing, whatever is in it.
    fn paste(&mut self, text: &SafeText) {
        if let Some(filter) = self.filter_mut() {
            filter.paste(text);
        }
    }

    /// A click at a place inside `area`.
    fn click(&mut self, _at: Position, _known: &Known<'_>, _area: Rect) -> Vec<Wish> {
        Vec::new()
    }

    /// The wheel over a place inside `area`.
    fn wheel(&mut self, _at: Position, _down: bool, _known: &Known<'_>, _area: Rect) {}

    /// An answer to a command of this screen, by the count in its ticket.
    fn hear(&mut self, _count: u32, _heard: Heard, _known: &Known<'_>) -> Vec<Wish> {
        Vec::new()
    }

    /// Called when the screen comes to the front.
    fn shown(&mut self, _known: &Known<'_>) -> Vec<Wish> {
        Vec::new()
    }

    /// Called when nothing covers the screen any more: a question of its own is before the reader anew.
    fn uncovered(&mut self, _known: &Known<'_>) {}

    /// Called when time has passed, once a second or so, and when [`Self::wakes_at`] comes.
    fn tick(&mut self, _known: &Known<'_>) -> Vec<Wish> {
        Vec::new()
    }

    /// When [`Self::tick`] has something to do, in milliseconds since the Unix epoch.
    fn wakes_at(&self) -> Option<u64> {
        None
    }
}

/// All screens there are.
#[derive(Debug, Default)]
pub struct Screens {
    screens: BTreeMap<ScreenId, Box<dyn ScreenView>>,
}

impl Screens {
    /// The screens of this build.
    pub fn new() -> Self {
        let screens: Vec<Box<dyn ScreenView>> = vec![
            Box::<live::Live>::default(),
            Box::<trade::Trade>::default(),
            Box::<orders::Orders>::default(),
            Box::<portfolio::Portfolio>::default(),
            Box::<audit::Audit>::default(),
            Box::<tools::Tools>::default(),
            Box::<network::NetworkScreen>::default(),
            Box::<logs::Logs>::default(),
        ];
        Self { screens: screens.into_iter().map(|screen| (screen.id(), screen)).collect() }
    }

    /// The screen, where there is one.
    pub fn get(&self, id: ScreenId) -> Option<&dyn ScreenView> {
        self.screens.get(&id).map(AsRef::as_ref)
    }

    /// The screen, to be changed.
    pub fn get_mut(&mut self, id: ScreenId) -> Option<&mut Box<dyn ScreenView>> {
        self.screens.get_mut(&id)
    }

    /// The screens there are, in the order of their digits.
    pub fn ids(&self) -> impl Iterator<Item = ScreenId> + '_ {
        self.screens.keys().copied()
    }
}

#[cfg(test)]
mod desk_tests;
#[cfg(test)]
pub(super) use form::tests::tool as sample_tool;
