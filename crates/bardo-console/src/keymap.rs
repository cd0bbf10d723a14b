//! Key bindings: one table decides what a key does, what the hint bar shows, and what the `?` help lists.
//!
//! A key has one meaning per context. A binding in [`Context::Anywhere`] applies in every context that does not bind
//! the key itself. [`conflicts`] finds keys that are bound twice. In a text field every printable key is text, and the
//! keys of [`Context::Field`] edit it.

mod custom;
mod help_texts;

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::screen_id::ScreenId;
use bardo_session::questions::AnswerKind;
pub use custom::{ActiveBinding, Keymap, KeymapError, name_of};
pub use help_texts::help_on;

/// Layer of the console in which a binding applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// Every layer that does not bind the key itself.
    Anywhere,
    /// A screen without a layer above it.
    Page,
    /// The help overlay.
    Help,
    /// The dialog that confirms leaving the console.
    Quit,
    /// The shutdown view, while the session settles.
    Leaving,
    /// An approval request that waits for an answer.
    Decision,
    /// An approval request that has ended. No printable key acts here, because it may belong to a word that the
    /// operator was still typing.
    Ended,
    /// The text field of an approval request, the prompt and the palette: only keys that are not text.
    Typing,
    /// Every text field, those of the screens included: keys that edit the text.
    Field,
    /// The overlay after Ctrl-X stopped new signatures, until the operator chooses what follows.
    Hold,
    /// The details page of a call, and other pages of text.
    CallDetails,
    /// The confirmation dialog before a cancellation or revocation.
    Confirm,
}

/// Command that a key triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Opens the dialog that confirms leaving.
    AskToQuit,
    /// Leaves after all signed transactions are settled.
    QuitFinish,
    /// Chooses to cancel open orders before leaving.
    QuitCancel,
    /// Leaves at once.
    QuitNow,
    /// Opens the help overlay.
    Help,
    /// Closes the topmost layer; on a screen, ends the zoom.
    Back,
    /// Closes the topmost layer; without one, asks before leaving.
    CloseOrQuit,
    /// Switches to another screen.
    GoTo(ScreenId),
    /// Moves the focus to the next panel.
    NextPanel,
    /// Moves the focus to the previous panel.
    PreviousPanel,
    /// Moves down one row.
    Down,
    /// Moves up one row.
    Up,
    /// Moves left one column.
    Left,
    /// Moves right one column.
    Right,
    /// Goes to the first row.
    Top,
    /// Goes to the last row.
    Bottom,
    /// Moves down half a page.
    HalfPageDown,
    /// Moves up half a page.
    HalfPageUp,
    /// Opens the selected item.
    Open,
    /// Starts typing a filter.
    Filter,
    /// Goes to the next match.
    NextMatch,
    /// Goes to the previous match.
    PreviousMatch,
    /// Opens the prompt: a message to the Golem or a command.
    Prompt,
    /// Opens the command palette.
    Palette,
    /// Opens the oldest waiting approval request.
    Decide,
    /// Pauses the Golem; when it is paused, asks to resume it.
    Pause,
    /// Shows only the focused panel, or all panels again.
    Zoom,
    /// Verifies the whole audit log.
    Verify,
    /// Uses a shorter time range.
    ShorterRange,
    /// Uses a longer time range.
    LongerRange,
    /// Follows the newest entry.
    Follow,
    /// Copies the selected item.
    Copy,
    /// Shows the block explorer address of the selected item.
    Explorer,
    /// Asks whether to cancel or revoke the selected item.
    CancelSelected,
    /// Asks whether to raise the fees of the selected transaction.
    SpeedUp,
    /// Sends the selected transaction's signed bytes again.
    Rebroadcast,
    /// Exports the rows that are shown.
    Export,
    /// Opens the command that names the address of the selected row.
    Label,
    /// Blocks new signatures at once.
    Hold,
    /// Changes the hold to a halt.
    HoldHalt,
    /// Changes the hold so that only exits pass.
    HoldExitOnly,
    /// Releases the operator's own hold.
    HoldRelease,
    /// Chooses an answer to an approval request.
    Pick(AnswerKind),
    /// Chooses approval, where there is only one way to approve.
    PickYes,
    /// Carries out the chosen answer or action.
    DoIt,
    /// Marks the next unread warning as read.
    MarkRead,
    /// Shows or hides the raw call.
    RawCall,
    /// Goes to the next approval request.
    NextQuestion,
    /// Freezes the view, or follows events again.
    Freeze,
    /// Advances a recording by one event.
    ReplayStep,
    /// Doubles the speed of a recording.
    ReplayFaster,
    /// Halves the speed of a recording.
    ReplaySlower,
    /// Edits a text field.
    Edit(Edit),
    /// Redraws the whole screen.
    Redraw,
    /// Suspends the process and returns to the shell.
    Suspend,
}

/// Editing command of a text field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Undoes the last edit.
    Undo,
    /// Redoes the last undone edit.
    Redo,
    /// Moves the cursor one character left.
    Left,
    /// Moves the cursor one character right.
    Right,
    /// Moves the cursor one word left.
    WordLeft,
    /// Moves the cursor one word right.
    WordRight,
    /// Moves the cursor to the start.
    Start,
    /// Moves the cursor to the end.
    End,
    /// Extends the selection one character left.
    SelectLeft,
    /// Extends the selection one character right.
    SelectRight,
    /// Extends the selection one word left.
    SelectWordLeft,
    /// Extends the selection one word right.
    SelectWordRight,
    /// Extends the selection to the start.
    SelectToStart,
    /// Extends the selection to the end.
    SelectToEnd,
    /// Selects the whole text.
    SelectAll,
    /// Copies the selection within the field.
    CopyText,
    /// Inserts what was last copied or deleted in the field.
    PasteText,
    /// Deletes the selection, or one character back.
    DeleteBack,
    /// Deletes the selection, or one character forward.
    DeleteForward,
    /// Deletes the selection, or back to the last blank.
    DeleteWordBack,
    /// Deletes the selection, or back to the start of a word or a sign.
    DeletePartBack,
    /// Deletes the selection, or the next word.
    DeleteWordForward,
    /// Deletes the selection, or everything before the cursor.
    DeleteToStart,
    /// Deletes the selection, or everything after the cursor.
    DeleteToEnd,
}

impl Edit {
    /// Editing command of a key; `None` if the key edits nothing. These keys cannot be rebound.
    pub fn of(key: Key) -> Option<Self> {
        KEYMAP.iter().find_map(|row| match row.action {
            Action::Edit(edit) if row.keys.contains(&key) => Some(edit),
            _ => None,
        })
    }
}

/// Key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Key code as crossterm reports it.
    pub code: KeyCode,
    /// Modifiers that are held. Shift is removed for characters and for back tab, because the code already implies it.
    pub modifiers: KeyModifiers,
}

impl Key {
    /// Key without modifiers.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: KeyModifiers::NONE }
    }

    /// Character key without modifiers.
    pub const fn char(character: char) -> Self {
        Self::plain(KeyCode::Char(character))
    }

    /// Character key with Ctrl.
    pub const fn ctrl(character: char) -> Self {
        Self { code: KeyCode::Char(character), modifiers: KeyModifiers::CONTROL }
    }

    /// Key with modifiers.
    pub const fn held(modifiers: KeyModifiers, code: KeyCode) -> Self {
        Self { code, modifiers }
    }

    /// Character that the key types; `None` for other keys and with modifiers.
    pub fn text(self) -> Option<char> {
        match self.code {
            KeyCode::Char(character) if self.modifiers.is_empty() => Some(character),
            _ => None,
        }
    }
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        let mut modifiers = event.modifiers;
        // Terminals disagree on whether Shift is reported with `G` and with Shift-Tab.
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers.remove(KeyModifiers::SHIFT);
        }
        Self { code: event.code, modifiers }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (KeyCode::Char(character), KeyModifiers::CONTROL) = (self.code, self.modifiers) {
            return write!(f, "Ctrl-{}", character.to_ascii_uppercase());
        }
        for (modifier, name) in
            [(KeyModifiers::CONTROL, "Ctrl-"), (KeyModifiers::ALT, "Alt-"), (KeyModifiers::SHIFT, "Shift-")]
        {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("Space"),
            KeyCode::Char(character) if self.modifiers == KeyModifiers::ALT => {
                write!(f, "{}", character.to_ascii_uppercase())
            }
            KeyCode::Char(character) => write!(f, "{character}"),
            KeyCode::Down => f.write_str("↓"),
            KeyCode::Up => f.write_str("↑"),
            KeyCode::Left => f.write_str("←"),
            KeyCode::Right => f.write_str("→"),
            KeyCode::BackTab => f.write_str("Shift-Tab"),
            KeyCode::PageDown => f.write_str("PgDn"),
            KeyCode::PageUp => f.write_str("PgUp"),
            other => write!(f, "{other}"),
        }
    }
}

/// Row of the key binding table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Context in which the binding applies.
    pub context: Context,
    /// Keys that trigger the action; hints show the first one.
    pub keys: &'static [Key],
    /// Action that the keys trigger.
    pub action: Action,
    /// One or two words for the hint bar; empty if the bar does not show it.
    pub hint: &'static str,
    /// One line for the help overlay.
    pub help: &'static str,
}

const fn bind(
    context: Context,
    keys: &'static [Key],
    action: Action,
    hint: &'static str,
    help: &'static str,
) -> Binding {
    Binding { context, keys, action, hint, help }
}

const ALT: KeyModifiers = KeyModifiers::ALT;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
const CTRL_SHIFT: KeyModifiers = KeyModifiers::CONTROL.union(KeyModifiers::SHIFT);

// Terminals without the extended keyboard protocol send Ctrl-/ and Ctrl-_ as one byte, which is read as Ctrl-7.
const UNDO: &[Key] = &[Key::ctrl('_'), Key::ctrl('/'), Key::ctrl('7')];
const WORD_LEFT: &[Key] =
    &[Key::held(ALT, KeyCode::Char('b')), Key::held(CTRL, KeyCode::Left), Key::held(ALT, KeyCode::Left)];
const WORD_RIGHT: &[Key] =
    &[Key::held(ALT, KeyCode::Char('f')), Key::held(CTRL, KeyCode::Right), Key::held(ALT, KeyCode::Right)];
const DOWN: &[Key] = &[Key::char('j'), Key::plain(KeyCode::Down)];
const UP: &[Key] = &[Key::char('k'), Key::plain(KeyCode::Up)];
const TOP: &[Key] = &[Key::char('g'), Key::plain(KeyCode::Home)];
const BOTTOM: &[Key] = &[Key::char('G'), Key::plain(KeyCode::End)];
const HALF_DOWN: &[Key] = &[Key::ctrl('d'), Key::plain(KeyCode::PageDown)];
const HALF_UP: &[Key] = &[Key::ctrl('u'), Key::plain(KeyCode::PageUp)];
const ENTER: &[Key] = &[Key::plain(KeyCode::Enter)];
const ESC: &[Key] = &[Key::plain(KeyCode::Esc)];
const HELP: &[Key] = &[Key::char('?'), Key::plain(KeyCode::F(1))];
const ESC_OR_Q: &[Key] = &[Key::plain(KeyCode::Esc), Key::char('q')];

use Action as Do;
use Context as In;

/// Built-in key bindings, in the order of hints and help.
pub const KEYMAP: &[Binding] = &[
    bind(In::Page, &[Key::char('a')], Do::Decide, "decide", "open the oldest decision; this does not answer it"),
    bind(In::Page, ENTER, Do::Open, "open", "open the selected row"),
    bind(In::Page, &[Key::char('/')], Do::Filter, "filter", "filter: words, token:UNI status:blocked since:1h"),
    bind(In::Page, &[Key::char(' ')], Do::Freeze, "freeze view", "freeze the view; nothing else stops"),
    bind(In::Page, &[Key::char('p')], Do::Pause, "pause", "pause the Golem: no new actions; again asks to resume"),
    bind(In::Page, &[Key::char('1')], Do::GoTo(ScreenId::Live), "", "the running Golem"),
    bind(In::Page, &[Key::char('2')], Do::GoTo(ScreenId::Trade), "", "trade by hand"),
    bind(In::Page, &[Key::char('3')], Do::GoTo(ScreenId::Orders), "", "auctions and bridge orders"),
    bind(In::Page, &[Key::char('4')], Do::GoTo(ScreenId::Portfolio), "", "holdings and allowances"),
    bind(In::Page, &[Key::char('5')], Do::GoTo(ScreenId::Audit), "", "decisions, standing approvals, audit log"),
    bind(In::Page, &[Key::char('6')], Do::GoTo(ScreenId::Tools), "", "available tools"),
    bind(In::Page, &[Key::char('7')], Do::GoTo(ScreenId::Network), "", "chains, pools, devnet controls"),
    bind(In::Page, &[Key::char('8'), Key::char('l')], Do::GoTo(ScreenId::Logs), "", "one line per event"),
    bind(In::Page, &[Key::char('9')], Do::GoTo(ScreenId::Transactions), "", "transactions and orders under way"),
    bind(In::Page, &[Key::char('0')], Do::GoTo(ScreenId::Agents), "", "registered agents"),
    bind(In::Page, &[Key::char('i')], Do::GoTo(ScreenId::Positions), "", "positions: liquidity, lending, vaults"),
    bind(In::Page, &[Key::char('d')], Do::GoTo(ScreenId::Pools), "", "pools of a token, with depth and hooks"),
    bind(In::Page, &[Key::char('c')], Do::GoTo(ScreenId::Custody), "", "account, session keys, allowances at risk"),
    bind(In::Page, &[Key::plain(KeyCode::Tab)], Do::NextPanel, "", "focus the next panel"),
    bind(In::Page, &[Key::plain(KeyCode::BackTab)], Do::PreviousPanel, "", "focus the previous panel"),
    bind(In::Page, DOWN, Do::Down, "", "one row down"),
    bind(In::Page, UP, Do::Up, "", "one row up"),
    bind(In::Page, &[Key::plain(KeyCode::Left), Key::char('h')], Do::Left, "", "left; in a recording: back"),
    bind(In::Page, &[Key::plain(KeyCode::Right)], Do::Right, "", "right; in a recording: forward"),
    bind(In::Page, TOP, Do::Top, "", "first row"),
    bind(In::Page, BOTTOM, Do::Bottom, "", "last row"),
    bind(In::Page, HALF_DOWN, Do::HalfPageDown, "", "half a page down"),
    bind(In::Page, HALF_UP, Do::HalfPageUp, "", "half a page up"),
    bind(In::Page, &[Key::char('n')], Do::NextMatch, "", "next match"),
    bind(In::Page, &[Key::char('N')], Do::PreviousMatch, "", "previous match"),
    bind(In::Page, &[Key::char('z')], Do::Zoom, "", "show only this panel, or all"),
    bind(In::Page, &[Key::char('v')], Do::Verify, "", "verify that the audit log is intact"),
    bind(In::Page, &[Key::char('[')], Do::ShorterRange, "", "a shorter time range: all, 24 h, 1 h, 15 min"),
    bind(In::Page, &[Key::char(']')], Do::LongerRange, "", "a longer time range"),
    bind(In::Page, &[Key::char('f')], Do::Follow, "", "follow the newest entries"),
    bind(In::Page, &[Key::char('y')], Do::Copy, "", "copy the selected row"),
    bind(In::Page, &[Key::char('o')], Do::Explorer, "", "copy the explorer link of its transaction"),
    bind(In::Page, &[Key::char('x')], Do::CancelSelected, "", "cancel or revoke the selected row; asks first"),
    bind(In::Page, &[Key::char('u')], Do::SpeedUp, "", "raise the fees of the selected transaction; asks first"),
    bind(In::Page, &[Key::char('b')], Do::Rebroadcast, "", "send the selected transaction's bytes again"),
    bind(In::Page, &[Key::char('e')], Do::Export, "", "write all trades to a CSV file"),
    bind(In::Page, &[Key::char('w')], Do::Label, "", "name the address of the selected row"),
    bind(In::Page, ESC, Do::Back, "", "go back one layer"),
    bind(In::Page, &[Key::char('.')], Do::ReplayStep, "", "in a recording: next event"),
    bind(In::Page, &[Key::char('>')], Do::ReplayFaster, "", "in a recording: twice as fast"),
    bind(In::Page, &[Key::char('<')], Do::ReplaySlower, "", "in a recording: half as fast"),
    bind(In::Page, &[Key::char('q')], Do::AskToQuit, "", "go back; on a screen: quit"),
    bind(In::Page, &[Key::char(':')], Do::Prompt, "command", "write to the Golem, or type a command"),
    bind(In::Page, &[Key::ctrl('p')], Do::Palette, "", "find a command"),
    bind(In::Page, HELP, Do::Help, "help", "this help"),
    bind(In::Decision, &[Key::char('a')], Do::Pick(AnswerKind::Once), "approve once", "select: approve once"),
    bind(
        In::Decision,
        &[Key::char('s')],
        Do::Pick(AnswerKind::Similar),
        "similar",
        "select: approve similar actions for a while",
    ),
    bind(In::Decision, &[Key::char('e')], Do::Pick(AnswerKind::Smaller), "smaller", "select: a smaller amount"),
    bind(In::Decision, &[Key::char('r')], Do::Pick(AnswerKind::Refuse), "reject", "select: reject with a reason"),
    bind(
        In::Decision,
        &[Key::char('h')],
        Do::Pick(AnswerKind::RefuseAndStop),
        "reject and stop",
        "select: reject and stop everything",
    ),
    bind(In::Decision, ENTER, Do::DoIt, "confirm", "confirm the selected answer"),
    bind(In::Decision, &[Key::char(' ')], Do::MarkRead, "mark read", "mark the next ! as read"),
    bind(In::Decision, &[Key::char('d')], Do::RawCall, "raw call", "show the exact calls to sign"),
    bind(In::Decision, &[Key::char('y')], Do::Copy, "copy", "copy the decision as JSON"),
    bind(In::Decision, &[Key::char('n')], Do::NextQuestion, "next", "next decision"),
    bind(In::Decision, &[Key::char('z')], Do::Zoom, "full screen", "full screen on or off"),
    bind(In::Decision, DOWN, Do::Down, "", "one line down"),
    bind(In::Decision, UP, Do::Up, "", "one line up"),
    bind(In::Decision, TOP, Do::Top, "", "first line"),
    bind(In::Decision, BOTTOM, Do::Bottom, "", "last line"),
    bind(In::Decision, HALF_DOWN, Do::HalfPageDown, "", "a page down"),
    bind(In::Decision, HALF_UP, Do::HalfPageUp, "", "a page up"),
    // The hint bar has room only for the answers.
    bind(In::Decision, HELP, Do::Help, "", "this help"),
    bind(In::Decision, ESC_OR_Q, Do::Back, "later", "decide later"),
    bind(In::Ended, ESC, Do::Back, "close", "close the ended decision"),
    bind(In::Ended, ENTER, Do::DoIt, "", "close it once it has stood for two seconds"),
    bind(In::Ended, &[Key::plain(KeyCode::Down)], Do::Down, "", "one line down"),
    bind(In::Ended, &[Key::plain(KeyCode::Up)], Do::Up, "", "one line up"),
    bind(In::Ended, &[Key::plain(KeyCode::PageDown)], Do::HalfPageDown, "", "a page down"),
    bind(In::Ended, &[Key::plain(KeyCode::PageUp)], Do::HalfPageUp, "", "a page up"),
    bind(In::Typing, ENTER, Do::DoIt, "confirm", "confirm the input"),
    bind(In::Typing, ESC, Do::Back, "back", "go back without confirming"),
    bind(In::Typing, &[Key::plain(KeyCode::F(1))], Do::Help, "help", "this help"),
    bind(In::Typing, &[Key::plain(KeyCode::PageDown)], Do::HalfPageDown, "", "in a decision: a page down"),
    bind(In::Typing, &[Key::plain(KeyCode::PageUp)], Do::HalfPageUp, "", "in a decision: a page up"),
    bind(In::Field, UNDO, Do::Edit(Edit::Undo), "undo", "undo the last word or edit"),
    bind(In::Field, &[Key::ctrl('r')], Do::Edit(Edit::Redo), "", "redo what was undone"),
    bind(In::Field, &[Key::plain(KeyCode::Left)], Do::Edit(Edit::Left), "", "one character left"),
    bind(In::Field, &[Key::plain(KeyCode::Right)], Do::Edit(Edit::Right), "", "one character right"),
    bind(In::Field, WORD_LEFT, Do::Edit(Edit::WordLeft), "", "one word left"),
    bind(In::Field, WORD_RIGHT, Do::Edit(Edit::WordRight), "", "one word right"),
    bind(In::Field, &[Key::plain(KeyCode::Home), Key::ctrl('a')], Do::Edit(Edit::Start), "", "to the start"),
    bind(In::Field, &[Key::plain(KeyCode::End), Key::ctrl('e')], Do::Edit(Edit::End), "", "to the end"),
    bind(In::Field, &[Key::held(SHIFT, KeyCode::Left)], Do::Edit(Edit::SelectLeft), "", "select one character left"),
    bind(In::Field, &[Key::held(SHIFT, KeyCode::Right)], Do::Edit(Edit::SelectRight), "", "select one character right"),
    bind(In::Field, &[Key::held(CTRL_SHIFT, KeyCode::Left)], Do::Edit(Edit::SelectWordLeft), "", "select a word left"),
    bind(
        In::Field,
        &[Key::held(CTRL_SHIFT, KeyCode::Right)],
        Do::Edit(Edit::SelectWordRight),
        "",
        "select a word right",
    ),
    bind(In::Field, &[Key::held(SHIFT, KeyCode::Home)], Do::Edit(Edit::SelectToStart), "", "select to the start"),
    bind(In::Field, &[Key::held(SHIFT, KeyCode::End)], Do::Edit(Edit::SelectToEnd), "", "select to the end"),
    bind(In::Field, &[Key::held(ALT, KeyCode::Char('a'))], Do::Edit(Edit::SelectAll), "", "select everything"),
    bind(In::Field, &[Key::held(ALT, KeyCode::Char('w'))], Do::Edit(Edit::CopyText), "", "copy the selection"),
    bind(In::Field, &[Key::ctrl('y')], Do::Edit(Edit::PasteText), "", "insert what was copied or deleted"),
    bind(In::Field, &[Key::plain(KeyCode::Backspace)], Do::Edit(Edit::DeleteBack), "", "delete one character back"),
    bind(In::Field, &[Key::plain(KeyCode::Delete)], Do::Edit(Edit::DeleteForward), "", "delete one character forward"),
    bind(In::Field, &[Key::ctrl('w')], Do::Edit(Edit::DeleteWordBack), "", "delete back to the last blank"),
    bind(
        In::Field,
        &[Key::held(ALT, KeyCode::Backspace)],
        Do::Edit(Edit::DeletePartBack),
        "",
        "delete back to the start of a word or sign",
    ),
    bind(
        In::Field,
        &[Key::held(ALT, KeyCode::Char('d'))],
        Do::Edit(Edit::DeleteWordForward),
        "",
        "delete a word forward",
    ),
    bind(In::Field, &[Key::ctrl('u')], Do::Edit(Edit::DeleteToStart), "", "delete everything before the cursor"),
    bind(In::Field, &[Key::ctrl('k')], Do::Edit(Edit::DeleteToEnd), "", "delete everything after the cursor"),
    bind(In::Hold, ENTER, Do::HoldHalt, "halt", "halt: sign only revocations, cancellations and refunds"),
    bind(In::Hold, &[Key::char('x')], Do::HoldExitOnly, "exit-only", "exit-only: allow only sales and revocations"),
    bind(In::Hold, HELP, Do::Help, "help", "this help"),
    bind(In::Hold, ESC, Do::HoldRelease, "release", "release only this hold"),
    bind(In::CallDetails, HELP, Do::Help, "help", "this help"),
    bind(In::CallDetails, ESC_OR_Q, Do::Back, "close", "close the details"),
    bind(In::CallDetails, DOWN, Do::Down, "down", "one line down"),
    bind(In::CallDetails, UP, Do::Up, "up", "one line up"),
    bind(In::CallDetails, TOP, Do::Top, "", "first line"),
    bind(In::CallDetails, BOTTOM, Do::Bottom, "", "last line"),
    bind(In::CallDetails, HALF_DOWN, Do::HalfPageDown, "", "half a page down"),
    bind(In::CallDetails, HALF_UP, Do::HalfPageUp, "", "half a page up"),
    bind(In::CallDetails, &[Key::char('y')], Do::Copy, "copy", "copy the transaction hash"),
    bind(In::CallDetails, &[Key::char('o')], Do::Explorer, "explorer", "copy the explorer link of its transaction"),
    bind(
        In::Help,
        &[Key::plain(KeyCode::Esc), Key::char('?'), Key::char('q'), Key::plain(KeyCode::F(1))],
        Do::Back,
        "close",
        "close the help",
    ),
    bind(In::Help, DOWN, Do::Down, "down", "one row down"),
    bind(In::Help, UP, Do::Up, "up", "one row up"),
    bind(In::Help, TOP, Do::Top, "", "first row"),
    bind(In::Help, BOTTOM, Do::Bottom, "", "last row"),
    bind(In::Help, HALF_DOWN, Do::HalfPageDown, "", "half a page down"),
    bind(In::Help, HALF_UP, Do::HalfPageUp, "", "half a page up"),
    bind(In::Quit, &[Key::char('f')], Do::QuitFinish, "finish and quit", "settle signed actions, then quit"),
    bind(
        In::Quit,
        &[Key::char('c')],
        Do::QuitCancel,
        "cancel orders and quit",
        "select: cancel open orders, then quit",
    ),
    bind(In::Quit, ENTER, Do::DoIt, "confirm", "confirm the selected answer"),
    bind(In::Quit, &[Key::char('e')], Do::Export, "export trades", "write all trades to a CSV file"),
    bind(In::Quit, &[Key::plain(KeyCode::Esc), Key::char('s'), Key::char('q')], Do::Back, "stay", "do not quit"),
    bind(In::Quit, HELP, Do::Help, "help", "this help"),
    bind(In::Leaving, &[Key::char('!')], Do::QuitNow, "leave now", "quit now; signed actions settle at the next start"),
    bind(In::Confirm, HELP, Do::Help, "help", "this help"),
    bind(In::Confirm, &[Key::char('y')], Do::PickYes, "yes", "select: yes"),
    bind(In::Confirm, ENTER, Do::DoIt, "confirm", "confirm the selected answer"),
    bind(
        In::Confirm,
        &[Key::plain(KeyCode::Esc), Key::char('n'), Key::char('q')],
        Do::Back,
        "no",
        "go back without confirming",
    ),
    bind(In::Anywhere, &[Key::ctrl('x')], Do::Hold, "STOP", "HOLD: stop all new signatures, then choose"),
    bind(In::Anywhere, &[Key::ctrl('c')], Do::CloseOrQuit, "", "clear the input or close the layer; on a screen: quit"),
    bind(In::Anywhere, &[Key::ctrl('l')], Do::Redraw, "", "redraw the screen"),
    bind(In::Anywhere, &[Key::ctrl('z')], Do::Suspend, "", "suspend Bardo and its chains (`fg` resumes)"),
];

/// Lists keys that are bound twice in one context and actions with two rows in one context.
pub fn conflicts(table: &[Binding]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, row) in table.iter().enumerate() {
        for other in table.iter().skip(at + 1).filter(|other| other.context == row.context) {
            for key in row.keys.iter().filter(|key| other.keys.contains(key)) {
                found.push(format!("{key} in {:?} is both {:?} and {:?}", row.context, row.action, other.action));
            }
            if row.action == other.action {
                found.push(format!("{:?} has two rows in {:?}", row.action, row.context));
            }
        }
        for (at, key) in row.keys.iter().enumerate() {
            if row.keys.iter().skip(at + 1).any(|other| other == key) {
                found.push(format!("{key} is listed twice in one row of {:?}", row.context));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(context: Context, key: Key) -> Option<Action> {
        Keymap::default().action(context, key)
    }

    #[test]
    fn no_key_means_two_things() {
        assert_eq!(conflicts(KEYMAP), Vec::<String>::new());
    }

    #[test]
    fn conflicts_are_found() {
        const Q: &[Key] = &[Key::char('q')];
        const XX: &[Key] = &[Key::char('x'), Key::char('x')];
        let table = [
            bind(Context::Page, Q, Action::AskToQuit, "", ""),
            bind(Context::Page, Q, Action::Help, "", ""),
            bind(Context::Help, Q, Action::Back, "", ""),
        ];
        assert_eq!(conflicts(&table), ["q in Page is both AskToQuit and Help"]);
        let twice = [bind(Context::Page, XX, Action::Zoom, "", "")];
        assert_eq!(conflicts(&twice).len(), 1);
    }

    #[test]
    fn shift_is_in_the_character() {
        let shifted = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(action(Context::Page, shifted.into()), Some(Action::Bottom));
        let back = KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT);
        assert_eq!(action(Context::Page, back.into()), Some(Action::PreviousPanel));
        let ctrl_alt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL | KeyModifiers::ALT);
        assert_eq!(action(Context::Page, ctrl_alt.into()), None);
    }

    #[test]
    fn anywhere_holds_in_every_context() {
        for context in [Context::Page, Context::Help, Context::Quit, Context::Decision, Context::Hold, Context::Typing]
        {
            assert_eq!(action(context, Key::ctrl('x')), Some(Action::Hold));
            assert_eq!(action(context, Key::ctrl('c')), Some(Action::CloseOrQuit));
            assert_eq!(action(context, Key::char('ß')), None);
        }
        assert_eq!(action(Context::Quit, Key::char('q')), Some(Action::Back), "a held q cannot leave");
    }

    #[test]
    fn no_plain_key_of_a_screen_signs_loosens_sells_or_cancels() {
        for row in KEYMAP.iter().filter(|row| row.context == Context::Page) {
            let harmless = !matches!(
                row.action,
                Action::DoIt
                    | Action::PickYes
                    | Action::Pick(_)
                    | Action::QuitNow
                    | Action::QuitFinish
                    | Action::QuitCancel
            );
            assert!(harmless, "{row:?}");
        }
    }

    #[test]
    fn answers_keep_their_letters() {
        for kind in AnswerKind::ALL {
            let key = Key::char(kind.letter());
            assert_eq!(action(Context::Decision, key), Some(Action::Pick(kind)));
        }
    }

    #[test]
    fn every_row_explains_itself() {
        for row in KEYMAP {
            assert!(!row.keys.is_empty() && !row.help.is_empty(), "{row:?}");
        }
    }
}
