//! Active key bindings: the built-in table with the operator's own keys. Only the keys of screens can be rebound.
//! Answers to an approval request keep their letters, and the stop keeps Ctrl-X, so that they are the same everywhere.

use std::collections::BTreeMap;

use crossterm::event::KeyCode;

use super::{Action, Binding, Context, KEYMAP, Key};

/// Row of the active key bindings.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveBinding {
    /// Context in which the binding applies.
    pub context: Context,
    /// Keys that trigger the action; hints show the first one.
    pub keys: Vec<Key>,
    /// Action that the keys trigger.
    pub action: Action,
    /// One or two words for the hint bar; empty if the bar does not show it.
    pub hint: &'static str,
    /// One line for the help overlay.
    pub help: &'static str,
}

/// Active key bindings of the console.
#[derive(Debug, Clone, PartialEq)]
pub struct Keymap {
    rows: Vec<ActiveBinding>,
}

/// Error in the configured keys, with the name of the setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeymapError {
    /// No action that can be bound has this name.
    #[error("keys.{name}: no action has this name. Known actions: {known}")]
    UnknownAction {
        /// Action name in the configuration.
        name: String,
        /// All valid action names, separated by commas.
        known: String,
    },
    /// The text does not name a key that terminals send.
    #[error("keys.{name}: `{key}` is not a key. Write one such as x, Ctrl-K, F2, PgDn or Space")]
    UnknownKey {
        /// Action name in the configuration.
        name: String,
        /// Key as written in the configuration.
        key: String,
    },
    /// The key is reserved on every screen.
    #[error("keys.{name}: {key} is reserved for {kept}. Choose another key")]
    Kept {
        /// Action name in the configuration.
        name: String,
        /// Key as written in the configuration.
        key: String,
        /// Action that the key is reserved for.
        kept: String,
    },
    /// Two actions use the same key.
    #[error("{key} is bound to both {one} and {other}. Give one of them another key")]
    Conflict {
        /// Key that both actions use.
        key: String,
        /// Name of the action that claims the key first.
        one: String,
        /// Name of the action that claims the key second.
        other: String,
    },
}

impl KeymapError {
    /// Names of the settings that the error is about.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::UnknownAction { name, .. } | Self::UnknownKey { name, .. } | Self::Kept { name, .. } => vec![name],
            Self::Conflict { one, other, .. } => vec![one, other],
        }
    }
}

impl Default for Keymap {
    fn default() -> Self {
        let row = |row: &Binding| ActiveBinding {
            context: row.context,
            keys: row.keys.to_vec(),
            action: row.action,
            hint: row.hint,
            help: row.help,
        };
        Self { rows: KEYMAP.iter().map(row).collect() }
    }
}

impl Keymap {
    /// Returns the built-in bindings with the given keys for the named actions (`freeze`, `next-panel`, `logs`). Keys
    /// are separated by spaces; hints show the first one.
    ///
    /// # Errors
    /// A [`KeymapError`] for an unknown action, an unknown or reserved key, or a conflict. Then none of the keys is
    /// applied.
    pub fn with<'a>(wanted: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, KeymapError> {
        let mut keymap = Self::default();
        for (name, keys) in wanted {
            let Some(at) =
                keymap.rows.iter().position(|row| row.context == Context::Page && name_of(row.action) == name)
            else {
                let known = keymap.rows.iter().filter(|row| row.context == Context::Page);
                let known = known.map(|row| name_of(row.action)).collect::<Vec<_>>().join(", ");
                return Err(KeymapError::UnknownAction { name: name.to_owned(), known });
            };
            let mut bound = Vec::new();
            for text in keys.split_whitespace() {
                let key = Key::named(text).ok_or_else(|| KeymapError::UnknownKey {
                    name: name.to_owned(),
                    key: bardo_base::text::SafeText::clean(text, 40).to_string(),
                })?;
                if let Some(kept) = reserved_for(key) {
                    return Err(KeymapError::Kept { name: name.to_owned(), key: key.to_string(), kept });
                }
                bound.push(key);
            }
            if let (Some(row), false) = (keymap.rows.get_mut(at), bound.is_empty()) {
                row.keys = bound;
            }
        }
        keymap.conflict().map_or(Ok(keymap), Err)
    }

    /// Finds the first key that two actions of the screens use.
    fn conflict(&self) -> Option<KeymapError> {
        let mut seen: BTreeMap<String, &ActiveBinding> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.context == Context::Page) {
            for key in &row.keys {
                let before = seen.insert(key.to_string(), row);
                if let Some(other) = before.filter(|other| other.action != row.action) {
                    let (one, other) = (name_of(other.action), name_of(row.action));
                    return Some(KeymapError::Conflict { key: key.to_string(), one, other });
                }
            }
        }
        None
    }

    /// Returns the action of `key` in `context`, or `None` if the key is not bound there.
    pub fn action(&self, context: Context, key: Key) -> Option<Action> {
        let find = |context: Context| self.rows.iter().find(|row| row.context == context && row.keys.contains(&key));
        find(context).or_else(|| find(Context::Anywhere)).map(|row| row.action)
    }

    /// Rows that apply in `context`: its own first, then those of [`Context::Anywhere`].
    pub fn rows(&self, context: Context) -> impl Iterator<Item = &ActiveBinding> {
        self.of(context).chain(self.of(Context::Anywhere))
    }

    /// Rows of exactly this context.
    pub fn of(&self, context: Context) -> impl Iterator<Item = &ActiveBinding> {
        self.rows.iter().filter(move |row| row.context == context)
    }
}

/// Name of the action that reserves `key` in every context; `None` for a key that can be bound.
fn reserved_for(key: Key) -> Option<String> {
    if key.code == KeyCode::Esc {
        return Some("going back".to_owned());
    }
    let anywhere = KEYMAP.iter().find(|row| row.context == Context::Anywhere && row.keys.contains(&key))?;
    Some(name_of(anywhere.action))
}

/// Name of an action in the configuration, such as `next-panel`. For a change of screen it is the screen's name.
pub fn name_of(action: Action) -> String {
    if let Action::GoTo(screen) = action {
        return screen.name().to_lowercase();
    }
    let variant = format!("{action:?}");
    let mut name = String::with_capacity(variant.len() + 4);
    for (at, letter) in variant.chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

impl Key {
    /// Parses a key as hints write it; `ctrl` may have any case. `None` for text that names no usable key.
    pub fn named(text: &str) -> Option<Self> {
        if let Some((held, letter)) = text.split_once('-').filter(|(held, _)| held.eq_ignore_ascii_case("ctrl")) {
            let _ = held;
            let mut letters = letter.chars();
            let (letter, None) = (letters.next()?, letters.next()) else { return None };
            // Ctrl-I, Ctrl-M and Ctrl-[ are Tab, Enter and Esc on most terminals.
            let sent = letter.is_ascii_alphabetic() && !matches!(letter.to_ascii_lowercase(), 'i' | 'm');
            return sent.then(|| Self::ctrl(letter.to_ascii_lowercase()));
        }
        let mut letters = text.chars();
        if let (Some(letter), None) = (letters.next(), letters.next()) {
            return (!letter.is_control()).then(|| Self::char(letter));
        }
        let code = match text.to_lowercase().as_str() {
            "space" => return Some(Self::char(' ')),
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "tab" => KeyCode::Tab,
            "shift-tab" => KeyCode::BackTab,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "pgup" => KeyCode::PageUp,
            "pgdn" => KeyCode::PageDown,
            "insert" => KeyCode::Insert,
            "delete" => KeyCode::Delete,
            "backspace" => KeyCode::Backspace,
            other => KeyCode::F(other.strip_prefix('f')?.parse().ok().filter(|number| (1..=24).contains(number))?),
        };
        Some(Self::plain(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen_id::ScreenId;

    #[test]
    fn without_wishes_it_is_the_table() {
        let keymap = Keymap::with([]).unwrap();
        for row in KEYMAP {
            for key in row.keys {
                assert_eq!(keymap.action(row.context, *key), Some(row.action), "{key}");
            }
        }
    }

    #[test]
    fn an_own_key_takes_the_place_of_the_built_in_ones() {
        let keymap = Keymap::with([("freeze", "F2 Ctrl-K"), ("logs", "L")]).unwrap();
        assert_eq!(keymap.action(Context::Page, Key::plain(KeyCode::F(2))), Some(Action::Freeze));
        assert_eq!(keymap.action(Context::Page, Key::ctrl('k')), Some(Action::Freeze));
        assert_eq!(keymap.action(Context::Page, Key::char(' ')), None);
        assert_eq!(keymap.action(Context::Page, Key::char('L')), Some(Action::GoTo(ScreenId::Logs)));
        // Keys of approval requests are not affected.
        assert_eq!(keymap.action(Context::Decision, Key::char(' ')), Some(Action::MarkRead));
    }

    #[test]
    fn a_conflict_names_both_and_nothing_holds() {
        let error = Keymap::with([("freeze", "/")]).unwrap_err();
        assert_eq!(error.to_string(), "/ is bound to both filter and freeze. Give one of them another key");
        // Both actions moved, so nothing conflicts.
        assert!(Keymap::with([("freeze", "/"), ("filter", "Space")]).is_ok());
        let error = Keymap::with([("pause", "F5"), ("help", "F5")]).unwrap_err().to_string();
        assert!(error.contains("pause") && error.contains("help"), "{error}");
    }

    #[test]
    fn the_stop_and_the_way_back_keep_their_keys() {
        for key in ["Ctrl-X", "ctrl-c", "Esc", "Ctrl-Z", "Ctrl-L"] {
            assert!(matches!(Keymap::with([("zoom", key)]), Err(KeymapError::Kept { .. })), "{key}");
        }
        // Actions that answer an approval request cannot be named here.
        for name in ["pick", "do-it", "hold", "mark-read", "hold-release"] {
            assert!(matches!(Keymap::with([(name, "F3")]), Err(KeymapError::UnknownAction { .. })), "{name}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for key in ["", "xx", "F0", "F25", "Ctrl-", "Ctrl-xx", "Ctrl-I", "Hyper-x"] {
            let found = Key::named(key);
            assert_eq!(found, None, "{key}");
        }
        assert!(matches!(Keymap::with([("zoom", "nokey")]), Err(KeymapError::UnknownKey { .. })));
    }

    #[test]
    fn every_key_of_the_table_can_be_written_as_hints_show_it() {
        for row in KEYMAP.iter().filter(|row| row.context == Context::Page) {
            for key in row.keys {
                let arrow = matches!(key.code, KeyCode::Up | KeyCode::Down | KeyCode::Left | KeyCode::Right);
                assert!(arrow || Key::named(&key.to_string()) == Some(*key), "{key}");
            }
        }
    }
}
