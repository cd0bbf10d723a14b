//! Screens of the console, one file each, behind the [`ScreenView`] trait. A screen keeps the operator's state
//! (selection, filter, typed text) and reads everything else from [`ScreenContext`]. It draws into an area of any size
//! and answers keys with requests. It sends nothing and does not access the terminal.
//!
//! To add a screen, write a type that implements [`ScreenView`] and add it to [`Screens::new`].

mod agents;
mod audit;
mod custody;
mod filter;
mod form;
mod gas;
mod list;
mod live;
mod logs;
mod network;
mod orders;
mod pools;
mod portfolio;
mod positions;
mod reading;
mod screen_dialog;
mod tools;
mod trade;
mod transactions;

use std::collections::BTreeMap;
use std::fmt::Debug;

use ratatui::layout::{Position, Rect};
use serde_json::Value;

use self::filter::Filter;
use self::screen_dialog::{DialogOutcome, ScreenDialog};
pub use self::trade::has_form;
use super::keymap::{Action, Key};
use super::painter::Painter;
pub use super::screen_id::ScreenId;
use super::state::away::Summary;
use super::state::call_details;
use super::state::feed::{CallSeen, Feed};
use super::state::model::{MoneyKind, Page};
use super::widgets::Moment;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::handle::{LimitUsage, PolicyState, QueryResult, SessionCommand, SessionInfo, SessionSnapshot};
use bardo_session::questions::Question;

impl ScreenId {
    /// Returns true if the action has an effect on this screen. Help and hints list no others.
    pub const fn does(self, action: Action) -> bool {
        match action {
            Action::NextPanel | Action::PreviousPanel => !matches!(
                self,
                Self::Orders
                    | Self::Logs
                    | Self::Transactions
                    | Self::Agents
                    | Self::Positions
                    | Self::Pools
                    | Self::Custody
            ),
            // On Trade it finds a form.
            Action::Filter => !matches!(self, Self::Transactions),
            Action::NextMatch | Action::PreviousMatch => !matches!(self, Self::Trade | Self::Transactions),
            Action::SpeedUp | Action::Rebroadcast => matches!(self, Self::Transactions),
            Action::Top | Action::Bottom | Action::HalfPageDown | Action::HalfPageUp => !matches!(self, Self::Trade),
            // Logs has a single panel, which already fills the screen.
            Action::Zoom => !matches!(self, Self::Logs),
            Action::ShorterRange | Action::LongerRange => matches!(self, Self::Live | Self::Portfolio | Self::Logs),
            Action::Follow => {
                matches!(self, Self::Live | Self::Audit | Self::Logs | Self::Positions | Self::Pools | Self::Custody)
            }
            Action::Copy => !matches!(self, Self::Network),
            Action::Verify => matches!(self, Self::Audit),
            Action::Label => matches!(self, Self::Portfolio),
            Action::Explorer => matches!(self, Self::Live | Self::Trade | Self::Orders | Self::Transactions),
            Action::CancelSelected => {
                matches!(
                    self,
                    Self::Live | Self::Orders | Self::Portfolio | Self::Audit | Self::Transactions | Self::Custody
                )
            }
            Action::Left | Action::Right => matches!(self, Self::Trade | Self::Tools | Self::Pools),
            _ => true,
        }
    }

    /// Returns true if the key's action does something on this screen in a session but nothing in a recording. A
    /// recording has no tools to call, no controls and no allowances.
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
            Self::Portfolio => matches!(action, Action::Copy | Action::Label),
            Self::Audit => matches!(action, Action::Export | Action::Follow | Action::Filter),
            Self::Transactions => matches!(
                action,
                Action::Open
                    | Action::Zoom
                    | Action::Copy
                    | Action::Explorer
                    | Action::CancelSelected
                    | Action::SpeedUp
                    | Action::Rebroadcast
            ),
            Self::Agents => matches!(
                action,
                Action::Open | Action::Zoom | Action::Copy | Action::Filter | Action::NextMatch | Action::PreviousMatch
            ),
            Self::Custody => matches!(
                action,
                Action::Open
                    | Action::Zoom
                    | Action::Copy
                    | Action::Follow
                    | Action::CancelSelected
                    | Action::Filter
                    | Action::NextMatch
                    | Action::PreviousMatch
            ),
            Self::Positions | Self::Pools => matches!(
                action,
                Action::Open
                    | Action::Zoom
                    | Action::Copy
                    | Action::Follow
                    | Action::Filter
                    | Action::NextMatch
                    | Action::PreviousMatch
            ),
            Self::Live | Self::Orders | Self::Logs => false,
        }
    }
}

/// Data that a screen may read. While the view is frozen, page, feed and snapshot are those of that moment, and so is
/// the time that they are drawn for.
#[derive(Debug, Clone, Copy)]
pub struct ScreenContext<'a> {
    /// Session time for everything displayed, in milliseconds since the Unix epoch. Frozen with the view.
    pub now_millis: u64,
    /// Session time that is never frozen, in milliseconds since the Unix epoch; for the time left of requests and
    /// offers.
    pub live_millis: u64,
    /// Machine time in milliseconds since the Unix epoch; for the intervals between queries.
    pub machine_millis: u64,
    /// False if nothing may move by itself.
    pub motion: bool,
    /// Kind of money that moves, including paper trading. Never frozen.
    pub money: Option<MoneyKind>,
    /// Chains, pools, prices and blocks.
    pub page: &'a Page,
    /// State built from events. Frozen with the view.
    pub feed: &'a Feed,
    /// State built from events, never frozen: the operator's own actions go on while the view is frozen.
    pub live_feed: &'a Feed,
    /// Open approval requests, oldest first. Never frozen.
    pub questions: &'a [Question],
    /// Manual action whose offer is held until it is answered. Never frozen.
    pub offer: Option<&'a Question>,
    /// Latest snapshot of holdings, allowances and limits. `None` until the session is ready.
    pub snapshot: Option<&'a SessionSnapshot>,
    /// Description of the session: Golem, tools, chains. `None` until the session is ready.
    pub ready: Option<&'a SessionInfo>,
    /// True in read-only mode, where the operator can stop new signatures and change nothing else.
    pub watch_only: bool,
    /// Summary of the operator's absence, if there is an unread one.
    pub away: Option<&'a Summary>,
}

impl<'a> ScreenContext<'a> {
    /// Returns true if a recording is being played.
    pub fn replayed(&self) -> bool {
        self.money == Some(MoneyKind::Replay)
    }

    /// Returns true if screens can read with tools: neither a recording nor a read-only console runs any.
    pub fn may_read(&self) -> bool {
        !self.watch_only && !self.replayed()
    }

    /// Usage of the limits from the snapshot. Without a snapshot, as in a recording, it comes from the latest
    /// `limits:changed` event. `None` if unknown.
    pub fn limits(&self) -> Option<&'a LimitUsage> {
        match self.snapshot {
            Some(snapshot) => snapshot.limits.as_ref(),
            None => self.feed.limits.as_ref().map(|event| &event.limits),
        }
    }

    /// Policy in force from the snapshot. Without a snapshot, as in a recording, it comes from the latest
    /// `limits:changed` event. `None` if unknown.
    pub fn policy(&self) -> Option<&'a PolicyState> {
        match self.snapshot {
            Some(snapshot) => Some(&snapshot.policy),
            None => self.feed.limits.as_ref().map(|event| &event.policy),
        }
    }

    /// Symbol of a chain's native token, which pays for gas; `None` if unknown.
    pub fn native_symbol(&self, chain_id: u64) -> Option<&'a SafeText> {
        let held = self.snapshot.and_then(|snapshot| snapshot.holdings.iter().find(|one| one.chain_id == chain_id));
        // The native token comes first among the holdings of a chain.
        held.and_then(|chain| chain.rows.first())
            .map(|row| &row.symbol)
            .or_else(|| self.feed.native_symbols.get(&chain_id))
    }

    /// Moment for which widgets are drawn; frozen with the view.
    pub const fn moment(&self) -> Moment {
        Moment { millis: self.now_millis, motion: self.motion }
    }

    /// Moment for widgets that go on while the view is frozen.
    pub const fn live(&self) -> Moment {
        Moment { millis: self.live_millis, motion: self.motion }
    }
}

/// Request of a screen to the console.
#[derive(Debug, Clone, PartialEq)]
pub enum ScreenRequest {
    /// Sends a command. A ticket in it is made with [`ticket`].
    Send(Box<SessionCommand>),
    /// Copies text to the clipboard.
    Copy(String),
    /// Opens the approval request with this number.
    OpenQuestion(u64),
    /// Opens the approval dialog for the manual action that is held.
    OpenOffer,
    /// Opens the details of a call.
    OpenCall(CallId),
    /// Hides a read-only call from the activity, because a form made it by itself.
    SetAside(CallId),
    /// Asks for confirmation and sends the command if it is given; for cancellations and revocations.
    Confirm {
        /// Title of the dialog: what is asked.
        asks: &'static str,
        /// Text with the subject of the question and the consequences.
        title: SafeText,
        /// Command that a confirmation sends.
        command: Box<SessionCommand>,
    },
    /// Writes text to a new file in the current directory.
    Write {
        /// Name of the file, without a folder.
        name: String,
        /// Content of the file.
        text: String,
    },
    /// Opens the command palette with this beginning of a command.
    Palette(String),
    /// Switches to another screen.
    GoTo(ScreenId),
    /// Opens the form of a tool on the trade screen, filled in with these parameters. Nothing is sent.
    OpenForm {
        /// Name of the tool.
        tool: String,
        /// Known parameters, as an object.
        params: Value,
    },
    /// Discards the absence summary, because the operator has read it.
    AbsenceRead,
    /// Shows a notice in the hint line until the next key.
    Notice(SafeText),
}

/// Reply to a command of a screen.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandReply {
    /// The call started and has this id.
    Began(CallId),
    /// The call ended with this response.
    Reply(Box<bardo_session::envelope::ToolResponse>),
    /// Result of a query.
    Found(Box<QueryResult>),
}

/// Calls a tool; `count` is that of the ticket.
fn call(screen: ScreenId, count: u32, tool: &str, params: Value) -> ScreenRequest {
    ScreenRequest::Send(Box::new(SessionCommand::Call {
        ticket: ticket(screen, count),
        tool: tool.to_owned(),
        params,
        dry_run: false,
        idempotency_key: None,
        unasked: false,
    }))
}

/// Passes a key or click to an open dialog and closes it if that ended it. `None` if no dialog is open.
fn answered(
    slot: &mut Option<ScreenDialog>,
    input: impl FnOnce(&mut ScreenDialog) -> DialogOutcome<Vec<ScreenRequest>>,
) -> Option<Vec<ScreenRequest>> {
    Some(match input(slot.as_mut()?) {
        DialogOutcome::Open => Vec::new(),
        DialogOutcome::Closed => {
            *slot = None;
            Vec::new()
        }
        DialogOutcome::Do(requests) => {
            *slot = None;
            requests
        }
    })
}

/// Notice about the end of a call, for screens that keep no other record of it. Empty for other replies.
fn said(reply: &CommandReply) -> Vec<ScreenRequest> {
    let CommandReply::Reply(response) = reply else { return Vec::new() };
    let words = response.explanation.as_deref().unwrap_or("");
    let mark = if response.error.is_some() { "✕" } else { "✓" };
    vec![ScreenRequest::Notice(SafeText::clean(&format!("{mark} {words}"), 200))]
}

/// Copies the hash of the newest transaction of a call, else the call's own id.
fn copied(call: &CallSeen) -> ScreenRequest {
    let hash = call.transactions.last().map(|(_, update)| update.hash.to_string());
    ScreenRequest::Copy(hash.unwrap_or_else(|| call.call_id.to_string()))
}

/// Copies the block explorer address of the newest transaction of a call, because a line may have no room for all of
/// it. On a devnet the address is the console's own page, so the details of the call are opened instead.
fn copy_explorer_link(call: &CallSeen, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
    let Some(link) = call_details::link(call, known.page) else {
        return vec![ScreenRequest::Notice(SafeText::clean("no transaction was sent", 60))];
    };
    let notice = ScreenRequest::Notice(SafeText::clean(&link, 200));
    match link.starts_with(call_details::OWN_PAGES) {
        true => vec![notice, ScreenRequest::OpenCall(call.call_id)],
        false => vec![ScreenRequest::Copy(link), notice],
    }
}

/// Ticket whose reply goes to the screen: its key in the upper 32 bits, its own count in the lower.
pub const fn ticket(screen: ScreenId, count: u32) -> u64 {
    ((screen.key() as u64) << 32) | count as u64
}

/// Screen and count of a ticket; `None` if no screen has the ticket's key.
pub fn holder(ticket: u64) -> Option<(ScreenId, u32)> {
    let key = ticket >> 32;
    let screen = ScreenId::ALL.into_iter().find(|screen| u64::from(u32::from(screen.key())) == key)?;
    Some((screen, u32::try_from(ticket & u64::from(u32::MAX)).ok()?))
}

/// Screen of the console: its state, drawing and input.
pub trait ScreenView: Debug + Send {
    /// Identifier of the screen.
    fn id(&self) -> ScreenId;

    /// Draws the screen. Works at any size and shows where something does not fit.
    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect);

    /// Handles an action of the page context. `area` is where the screen is drawn. `None` if the action has no meaning
    /// here and the caller may handle it.
    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>>;

    /// Filter of the list; `None` if the screen has no list to filter at the moment.
    fn filter(&self) -> Option<&Filter> {
        None
    }

    /// Mutable filter of the list, like [`Self::filter`].
    fn filter_mut(&mut self) -> Option<&mut Filter> {
        None
    }

    /// Confirmation dialog of the screen, if one is open. It takes every key, paste and click.
    fn dialog(&self) -> Option<&ScreenDialog> {
        None
    }

    /// Place of the confirmation dialog; `None` for screens that never open one.
    fn dialog_slot(&mut self) -> Option<&mut Option<ScreenDialog>> {
        None
    }

    /// Returns true while a text field has the focus. Then every printable key goes to [`Self::type_key`], and digits
    /// do not switch screens.
    fn accepts_text(&self) -> bool {
        self.asks() || self.filter().is_some_and(Filter::typing)
    }

    /// Word for what [`Action::Open`] does now, for the hint bar; `None` if it does nothing.
    fn open_hint(&self, _known: &ScreenContext<'_>) -> Option<&'static str> {
        Some("open")
    }

    /// Returns true while a dialog of the screen is open, which takes every key without being a text field.
    fn asks(&self) -> bool {
        self.dialog().is_some()
    }

    /// Returns true if the list is filtered; then `n` and `N` move between matches.
    fn has_filter(&self) -> bool {
        self.filter().is_some_and(Filter::stands)
    }

    /// Handles a key in the text field, including Esc, Enter, Tab and the arrows. Returns false if the key was not
    /// used.
    fn type_key(&mut self, key: Key, known: &ScreenContext<'_>, requests: &mut Vec<ScreenRequest>) -> bool {
        let now = known.machine_millis;
        if let Some(answer) = self.dialog_slot().and_then(|slot| answered(slot, |dialog| dialog.key(key, now))) {
            requests.extend(answer);
            return true;
        }
        self.filter_mut().is_some_and(|filter| filter.key(key))
    }

    /// Inserts pasted text into the text field. A paste never submits, whatever it contains.
    fn paste(&mut self, text: &SafeText) {
        if let Some(dialog) = self.dialog_slot().and_then(Option::as_mut) {
            dialog.pasted();
        } else if let Some(filter) = self.filter_mut() {
            filter.paste(text);
        }
    }

    /// Handles a click at a position inside `area`, which an open dialog takes.
    fn click(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let now = known.machine_millis;
        match self.dialog_slot().and_then(|slot| answered(slot, |dialog| dialog.click(at, area, now))) {
            Some(answer) => answer,
            None => self.click_page(at, known, area),
        }
    }

    /// Handles a click that no dialog takes.
    fn click_page(&mut self, _at: Position, _known: &ScreenContext<'_>, _area: Rect) -> Vec<ScreenRequest> {
        Vec::new()
    }

    /// Handles the mouse wheel at a position inside `area`.
    fn wheel(&mut self, _at: Position, _down: bool, _known: &ScreenContext<'_>, _area: Rect) {}

    /// Handles a reply to a command of this screen; `count` is that of the ticket.
    fn receive_reply(&mut self, _count: u32, _heard: CommandReply, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        Vec::new()
    }

    /// Called when the screen comes to the front.
    fn shown(&mut self, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        Vec::new()
    }

    /// Fills in the form of a tool and focuses it. Returns false if the screen has no such form.
    fn fill_form(&mut self, _tool: &str, _params: &Value, _known: &ScreenContext<'_>) -> bool {
        false
    }

    /// Called when no layer covers the screen any more, so that its own dialog restarts the guard time.
    fn uncovered(&mut self, known: &ScreenContext<'_>) {
        if let Some(dialog) = self.dialog_slot().and_then(Option::as_mut) {
            dialog.uncovered(known.machine_millis);
        }
    }

    /// Called about once a second, and at the time of [`Self::wakes_at`].
    fn tick(&mut self, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        Vec::new()
    }

    /// Time at which [`Self::tick`] has work to do, in milliseconds since the Unix epoch; `None` if it has none.
    fn wakes_at(&self) -> Option<u64> {
        None
    }
}

/// All screens of the console by their id.
#[derive(Debug, Default)]
pub struct Screens {
    screens: BTreeMap<ScreenId, Box<dyn ScreenView>>,
}

impl Screens {
    /// Creates all screens of this build.
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
            Box::<transactions::Transactions>::default(),
            Box::<agents::Agents>::default(),
            Box::<positions::Positions>::default(),
            Box::<pools::Pools>::default(),
            Box::<custody::Custody>::default(),
        ];
        Self { screens: screens.into_iter().map(|screen| (screen.id(), screen)).collect() }
    }

    /// Screen with this id, if this build has it.
    pub fn get(&self, id: ScreenId) -> Option<&dyn ScreenView> {
        self.screens.get(&id).map(AsRef::as_ref)
    }

    /// Mutable screen with this id, if this build has it.
    pub fn get_mut(&mut self, id: ScreenId) -> Option<&mut Box<dyn ScreenView>> {
        self.screens.get_mut(&id)
    }

    /// Ids of all screens, in the order of their tabs.
    pub fn ids(&self) -> impl Iterator<Item = ScreenId> + '_ {
        self.screens.keys().copied()
    }
}

#[cfg(test)]
mod desk_tests;
#[cfg(test)]
pub(super) use desk_tests::{sample_agents, sample_custody, sample_pools, sample_positions, sample_transactions};
#[cfg(test)]
pub(super) use form::tests::tool as sample_tool;
