//! One table of keys: it decides what a key does, what the hint bar shows, and what `?` lists.
//!
//! A key means one thing per context; what is bound in [`Context::Anywhere`] may not be bound again elsewhere
//! unless the place says so by binding it itself, which then wins. [`conflicts`] finds what is bound twice.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// In every layer that does not bind the key itself.
    Anywhere,
    /// On the page under all layers.
    Page,
    /// While the help is open.
    Help,
    /// While the question before leaving is open.
    Quit,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ask before leaving.
    AskToQuit,
    /// Leave.
    Quit,
    /// Open the help.
    Help,
    /// Close the topmost layer; on the page: leave zoom.
    Back,
    /// Close the topmost layer, or ask before leaving when there is none.
    CloseOrQuit,
    /// Give the keys to the next panel.
    NextPanel,
    /// Give the keys to the panel before.
    PreviousPanel,
    /// One row down.
    Down,
    /// One row up.
    Up,
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
    /// Half a page down.
    HalfPageDown,
    /// Half a page up.
    HalfPageUp,
    /// The focused panel alone, or all again.
    Zoom,
    /// The view stands still, or follows again.
    Freeze,
    /// Draw everything anew.
    Redraw,
    /// Stop the process, back to the shell.
    Suspend,
}

/// One key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which key.
    pub code: KeyCode,
    /// What is held with it. Shift is not counted for characters: it is in the character.
    pub modifiers: KeyModifiers,
}

impl Key {
    const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: KeyModifiers::NONE }
    }

    const fn char(character: char) -> Self {
        Self::plain(KeyCode::Char(character))
    }

    const fn ctrl(character: char) -> Self {
        Self { code: KeyCode::Char(character), modifiers: KeyModifiers::CONTROL }
    }
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        let mut modifiers = event.modifiers;
        // Terminals disagree on whether Shift comes with `G`, and with Shift-Tab.
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
        match self.code {
            KeyCode::Char(' ') => f.write_str("Space"),
            KeyCode::Char(character) => write!(f, "{character}"),
            KeyCode::Down => f.write_str("↓"),
            KeyCode::Up => f.write_str("↑"),
            KeyCode::BackTab => f.write_str("Shift-Tab"),
            KeyCode::PageDown => f.write_str("PgDn"),
            KeyCode::PageUp => f.write_str("PgUp"),
            other => write!(f, "{other}"),
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Where it holds.
    pub context: Context,
    /// The keys that do it; the first is the one that hints show.
    pub keys: &'static [Key],
    /// What they do.
    pub action: Action,
    /// One or two words for the hint bar; empty: not in the bar.
    pub hint: &'static str,
    /// One line for the help.
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

const DOWN: &[Key] = &[Key::char('j'), Key::plain(KeyCode::Down)];
const UP: &[Key] = &[Key::char('k'), Key::plain(KeyCode::Up)];
const TOP: &[Key] = &[Key::char('g'), Key::plain(KeyCode::Home)];
const BOTTOM: &[Key] = &[Key::char('G'), Key::plain(KeyCode::End)];
const HALF_DOWN: &[Key] = &[Key::ctrl('d'), Key::plain(KeyCode::PageDown)];
const HALF_UP: &[Key] = &[Key::ctrl('u'), Key::plain(KeyCode::PageUp)];

/// The table. Its order is the order of hints and help.
pub const KEYMAP: &[Binding] = &[
    bind(Context::Page, &[Key::plain(KeyCode::Tab)], Action::NextPanel, "panel", "give the keys to the next panel"),
    bind(
        Context::Page,
        &[Key::plain(KeyCode::BackTab)],
        Action::PreviousPanel,
        "",
        "give the keys to the panel before",
    ),
    bind(Context::Page, DOWN, Action::Down, "down", "one row down"),
    bind(Context::Page, UP, Action::Up, "up", "one row up"),
    bind(Context::Page, TOP, Action::Top, "", "to the first row"),
    bind(Context::Page, BOTTOM, Action::Bottom, "", "to the last row"),
    bind(Context::Page, HALF_DOWN, Action::HalfPageDown, "", "half a page down"),
    bind(Context::Page, HALF_UP, Action::HalfPageUp, "", "half a page up"),
    bind(Context::Page, &[Key::char('z')], Action::Zoom, "zoom", "this panel alone, and back"),
    bind(Context::Page, &[Key::char(' ')], Action::Freeze, "freeze", "let the view stand still; the chains go on"),
    bind(Context::Page, &[Key::plain(KeyCode::Esc)], Action::Back, "", "back to all panels"),
    bind(Context::Page, &[Key::char('q')], Action::AskToQuit, "quit", "leave Bardo (asks first)"),
    bind(Context::Page, &[Key::char('?'), Key::plain(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(
        Context::Help,
        &[Key::plain(KeyCode::Esc), Key::char('?'), Key::char('q'), Key::plain(KeyCode::F(1))],
        Action::Back,
        "close",
        "close the help",
    ),
    bind(Context::Help, DOWN, Action::Down, "down", "one row down"),
    bind(Context::Help, UP, Action::Up, "up", "one row up"),
    bind(Context::Quit, &[Key::char('y'), Key::plain(KeyCode::Enter)], Action::Quit, "leave", "leave Bardo"),
    bind(Context::Quit, &[Key::plain(KeyCode::Esc), Key::char('n'), Key::char('q')], Action::Back, "stay", "stay here"),
    bind(
        Context::Anywhere,
        &[Key::ctrl('c')],
        Action::CloseOrQuit,
        "",
        "close what is open; on the page: leave (asks first)",
    ),
    bind(Context::Anywhere, &[Key::ctrl('l')], Action::Redraw, "", "draw the screen anew"),
    bind(
        Context::Anywhere,
        &[Key::ctrl('z')],
        Action::Suspend,
        "",
        "stop Bardo and its chains, back to the shell (`fg` returns)",
    ),
];

/// What `key` does in `context`.
pub fn action(context: Context, key: Key) -> Option<Action> {
    let find = |context: Context| KEYMAP.iter().find(|row| row.context == context && row.keys.contains(&key));
    find(context).or_else(|| find(Context::Anywhere)).map(|row| row.action)
}

/// The rows that hold in `context`, its own first.
pub fn rows(context: Context) -> impl Iterator<Item = &'static Binding> {
    let of = |wanted: Context| KEYMAP.iter().filter(move |row| row.context == wanted);
    of(context).chain(of(Context::Anywhere))
}

/// What is bound twice in one context, and actions that two rows of one context claim.
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
                found.push(format!("{key} stands twice in one row of {:?}", row.context));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things() {
        assert_eq!(conflicts(KEYMAP), Vec::<String>::new());
    }

    #[test]
    fn conflicts_are_found() {
        const Q: &[Key] = &[Key::char('q')];
        const XX: &[Key] = &[Key::char('x'), Key::char('x')];
        let table = [
            bind(Context::Page, Q, Action::Quit, "", ""),
            bind(Context::Page, Q, Action::Help, "", ""),
            bind(Context::Help, Q, Action::Back, "", ""),
        ];
        assert_eq!(conflicts(&table), ["q in Page is both Quit and Help"]);
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
        for context in [Context::Page, Context::Help, Context::Quit] {
            assert_eq!(action(context, Key::ctrl('c')), Some(Action::CloseOrQuit));
            assert_eq!(action(context, Key::char('ß')), None);
        }
        assert_eq!(action(Context::Quit, Key::char('q')), Some(Action::Back), "a held q cannot leave");
    }

    #[test]
    fn every_row_explains_itself() {
        for row in KEYMAP {
            assert!(!row.keys.is_empty() && !row.help.is_empty(), "{row:?}");
        }
    }
}
