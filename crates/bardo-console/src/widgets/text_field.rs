//! Single-line text field on [`TextArea`]: cursor, selection, word motion, undo and redo are the library's.
//!
//! The field itself limits the length, keeps the text on one line and reads its keys from the key binding table.
//! Pasted text arrives as [`SafeText`], so nothing typed or pasted can act on the terminal. A password is never typed
//! into it, because the library keeps a history of all edits.

use std::collections::VecDeque;
use std::ops::Range;

use ratatui_textarea::{CursorMove, DataCursor, TextArea};
use unicode_segmentation::UnicodeSegmentation;

use crate::keymap::{Edit, Key};
use bardo_base::text::SafeText;

/// Maximum length of a text without another limit, in characters.
const LONGEST: usize = 400;
/// Number of edits that can be undone. A typed character is one edit.
const EDITS_KEPT: usize = 1_000;
/// Number of cursor motions that separate what is undone at once.
const MOTIONS_KEPT: usize = 100;

/// Text with a cursor, a selection and a history.
#[derive(Debug, Clone)]
pub struct TextField {
    area: TextArea<'static>,
    /// Maximum length, in characters.
    longest: usize,
    /// Texts in which the cursor was moved, the newest last. Undo and redo stop at each of them.
    moved_in: VecDeque<String>,
}

impl Default for TextField {
    fn default() -> Self {
        Self::with_limit("", LONGEST)
    }
}

impl PartialEq for TextField {
    /// Compares text, cursor and selection, but not the history.
    fn eq(&self, other: &Self) -> bool {
        (self.text(), self.cursor(), self.selection()) == (other.text(), other.cursor(), other.selection())
    }
}

impl Eq for TextField {}

impl TextField {
    /// Creates a field with initial text, cut to the maximum length, and the cursor at its end.
    pub fn holding(text: &str) -> Self {
        Self::with_limit(text, LONGEST)
    }

    /// Creates a field like [`Self::holding`] with another maximum length, in characters.
    pub fn with_limit(text: &str, longest: usize) -> Self {
        let mut area = TextArea::new(vec![one_line(text).take(longest).collect()]);
        area.set_max_histories(EDITS_KEPT);
        area.move_cursor(CursorMove::End);
        Self { area, longest, moved_in: VecDeque::new() }
    }

    /// Text as typed.
    pub fn text(&self) -> &str {
        self.area.lines().first().map_or("", String::as_str)
    }

    /// Text cleaned for use outside the field.
    pub fn safe(&self) -> SafeText {
        SafeText::clean(self.text(), self.longest)
    }

    /// Number of characters before the cursor.
    pub fn cursor(&self) -> usize {
        let DataCursor(_, column) = self.area.cursor();
        column
    }

    /// Selected range in characters; `None` if nothing is selected.
    pub fn selection(&self) -> Option<Range<usize>> {
        let ((_, from), (_, to)) = self.area.selection_range()?;
        (from < to).then_some(from..to)
    }

    /// Clears the text; undo brings it back. Returns false if it was empty.
    pub fn clear(&mut self) -> bool {
        self.area.clear()
    }

    /// Replaces the whole text, with the cursor at its end; undo brings the earlier text back.
    pub fn replace(&mut self, text: &str) {
        if text != self.text() {
            self.area.select_all();
            let text: String = one_line(text).take(self.longest).collect();
            self.area.insert_str(text);
        }
    }

    /// Handles a key. Returns false if the key does not edit a text.
    pub fn key(&mut self, key: Key) -> bool {
        match (Edit::of(key), key.text()) {
            (Some(edit), _) => self.edit(edit),
            (None, Some(character)) => self.insert(&character.to_string()),
            (None, None) => return false,
        }
        true
    }

    /// Inserts pasted text at the cursor, as one edit; control characters are dropped.
    pub fn paste(&mut self, text: &SafeText) {
        self.insert(text.as_str());
    }

    /// Inserts as much of a text as the maximum length allows, in place of the selection.
    fn insert(&mut self, text: &str) {
        let kept = self.text().chars().count() - self.selection().map_or(0, |selected| selected.len());
        let text: String = one_line(text).take(self.longest.saturating_sub(kept)).collect();
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => self.area.insert_char(only),
            (Some(_), Some(_)) => _ = self.area.insert_str(text),
            (None, _) => {}
        }
    }

    /// Carries out an editing command.
    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Undo => self.undo(),
            Edit::Redo => self.redo(),
            Edit::Left => self.go(CursorMove::Back),
            Edit::Right => self.go(CursorMove::Forward),
            Edit::WordLeft => self.go(CursorMove::WordBack),
            Edit::WordRight => self.go(CursorMove::WordForward),
            Edit::Start => self.go(CursorMove::Head),
            Edit::End => self.go(CursorMove::End),
            Edit::SelectLeft => self.select(CursorMove::Back),
            Edit::SelectRight => self.select(CursorMove::Forward),
            Edit::SelectWordLeft => self.select(CursorMove::WordBack),
            Edit::SelectWordRight => self.select(CursorMove::WordForward),
            Edit::SelectToStart => self.select(CursorMove::Head),
            Edit::SelectToEnd => self.select(CursorMove::End),
            Edit::SelectAll => self.area.select_all(),
            Edit::CopyText => self.area.copy(),
            Edit::PasteText => {
                let text = self.area.yank_text();
                self.insert(&text);
            }
            Edit::DeleteBack => self.delete_back(last_cluster),
            Edit::DeleteForward => _ = self.area.delete_next_char(),
            Edit::DeleteWordBack => self.delete_back(last_word),
            Edit::DeletePartBack => _ = self.area.delete_word(),
            Edit::DeleteWordForward => _ = self.area.delete_next_word(),
            Edit::DeleteToStart => _ = self.area.delete_line_by_head(),
            Edit::DeleteToEnd => _ = self.area.delete_line_by_end(),
        }
    }

    /// Moves the cursor without a selection.
    fn go(&mut self, to: CursorMove) {
        self.note_motion();
        self.area.cancel_selection();
        self.area.move_cursor(to);
    }

    /// Separates what was typed before a motion from what is typed after it.
    fn note_motion(&mut self) {
        if self.moved_in.back().is_none_or(|text| text != self.text()) {
            self.moved_in.push_back(self.text().to_owned());
            let surplus = self.moved_in.len().saturating_sub(MOTIONS_KEPT);
            self.moved_in.drain(..surplus);
        }
    }

    /// Returns true if the cursor was moved in the present text.
    fn was_moved_in(&self) -> bool {
        self.moved_in.iter().any(|text| text == self.text())
    }

    /// Moves the cursor and extends the selection, or begins one.
    fn select(&mut self, to: CursorMove) {
        self.note_motion();
        if !self.area.is_selecting() {
            self.area.start_selection();
        }
        self.area.move_cursor(to);
    }

    /// Deletes the selection, which can then be pasted, else the end of the text before the cursor; `end` returns it.
    fn delete_back(&mut self, end: fn(&str) -> &str) {
        if self.selection().is_some() {
            self.area.cut();
            return;
        }
        self.area.cancel_selection();
        let before: String = self.text().chars().take(self.cursor()).collect();
        let count = end(&before).chars().count();
        for _ in 0..count {
            self.area.move_cursor(CursorMove::Back);
        }
        self.area.delete_str(count);
    }

    /// Undoes the last edit. Typed characters are undone word by word, each word with the blank before it, and never
    /// beyond a motion of the cursor.
    fn undo(&mut self) {
        loop {
            let before = self.text().to_owned();
            if !self.area.undo()
                || added(self.text(), &before, self.cursor()).is_none_or(char::is_whitespace)
                || self.was_moved_in()
            {
                return;
            }
        }
    }

    /// Redoes the last undone edit, and typed characters word by word.
    fn redo(&mut self) {
        let mut first = true;
        loop {
            let before = self.text().to_owned();
            if !self.area.redo() {
                return;
            }
            let added = added(&before, self.text(), self.cursor().saturating_sub(1));
            if !first && added.is_none_or(char::is_whitespace) {
                self.area.undo();
                return;
            }
            if added.is_none() || self.was_moved_in() {
                return;
            }
            first = false;
        }
    }
}

/// Characters of a text without control characters, and so without line ends.
fn one_line(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|character| !character.is_control())
}

/// Character at `at` that a longer text has more than a shorter one; `None` unless they differ by one character.
fn added(shorter: &str, longer: &str, at: usize) -> Option<char> {
    (shorter.chars().count() + 1 == longer.chars().count()).then(|| longer.chars().nth(at)).flatten()
}

/// Last grapheme cluster of a text, such as a letter with its accents.
fn last_cluster(text: &str) -> &str {
    text.graphemes(true).next_back().unwrap_or("")
}

/// Last word of a text, delimited by blanks, with the blanks after it.
fn last_word(text: &str) -> &str {
    let kept = text.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
    text.get(kept..).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};
    use proptest::prelude::*;

    use super::*;
    use crate::keymap::{Context, KEYMAP};

    fn typed(text: &str) -> TextField {
        let mut field = TextField::default();
        text.chars().for_each(|letter| assert!(field.key(Key::char(letter))));
        field
    }

    fn with(modifiers: KeyModifiers, code: KeyCode) -> Key {
        Key { code, modifiers }
    }

    fn press(field: &mut TextField, keys: &[Key]) {
        keys.iter().for_each(|key| assert!(field.key(*key), "{key}"));
    }

    #[test]
    fn keys_of_readline_move_and_delete() {
        let mut field = typed("sell 0.25 WETH now");
        press(&mut field, &[Key::ctrl('w')]);
        assert_eq!(field.text(), "sell 0.25 WETH ");
        press(&mut field, &[Key::ctrl('w'), Key::ctrl('w')]);
        assert_eq!(field.text(), "sell ", "a number with a point is one word");
        let mut field = typed("one two");
        press(&mut field, &[with(KeyModifiers::ALT, KeyCode::Char('b')), Key::ctrl('u')]);
        assert_eq!((field.text(), field.cursor()), ("two", 0));
        press(&mut field, &[Key::plain(KeyCode::Delete), Key::ctrl('e'), Key::plain(KeyCode::Backspace)]);
        assert_eq!(field.text(), "w");
        let mut field = typed("one two");
        press(&mut field, &[Key::ctrl('a'), with(KeyModifiers::CONTROL, KeyCode::Right), Key::ctrl('k')]);
        assert_eq!(field.text(), "one ");
        // At both ends nothing is left to delete.
        press(&mut field, &[Key::ctrl('k'), Key::ctrl('a'), Key::ctrl('u'), Key::ctrl('w')]);
        press(&mut field, &[Key::plain(KeyCode::Backspace), Key::plain(KeyCode::Left)]);
        assert_eq!((field.text(), field.cursor()), ("one ", 0));
    }

    #[test]
    fn undo_goes_back_word_by_word_and_redo_forward() {
        let mut field = typed("one two");
        field.paste(&SafeText::clean(" three four", 40));
        let undo = Key::ctrl('_');
        let mut seen = Vec::new();
        for _ in 0..4 {
            press(&mut field, &[undo]);
            seen.push(field.text().to_owned());
        }
        assert_eq!(seen, ["one two", "one", "", ""]);
        let mut seen = Vec::new();
        for _ in 0..4 {
            press(&mut field, &[Key::ctrl('r')]);
            seen.push(field.text().to_owned());
        }
        assert_eq!(seen, ["one", "one two", "one twothree four", "one twothree four"]);
        assert!(field.clear());
        press(&mut field, &[undo]);
        assert_eq!(field.text(), "one twothree four", "a cleared text comes back");
    }

    #[test]
    fn a_motion_of_the_cursor_separates_what_is_undone() {
        let mut field = typed("one");
        press(&mut field, &[Key::plain(KeyCode::Home), Key::char('x'), Key::char('y')]);
        // There and back again is a motion too.
        press(&mut field, &[Key::plain(KeyCode::Left), Key::plain(KeyCode::Right), Key::char('z')]);
        assert_eq!(field.text(), "xyzone");
        for (key, texts) in [('_', ["xyone", "one", "", ""]), ('r', ["one", "xyone", "xyzone", "xyzone"])] {
            for text in texts {
                press(&mut field, &[Key::ctrl(key)]);
                assert_eq!(field.text(), text);
            }
        }
    }

    #[test]
    fn a_selection_is_replaced_by_what_is_typed_and_can_be_copied() {
        let mut field = typed("abc def");
        press(&mut field, &[with(KeyModifiers::CONTROL | KeyModifiers::SHIFT, KeyCode::Left)]);
        assert_eq!(field.selection(), Some(4..7));
        press(&mut field, &[with(KeyModifiers::ALT, KeyCode::Char('w')), Key::plain(KeyCode::Home), Key::ctrl('y')]);
        assert_eq!(field.text(), "defabc def");
        press(&mut field, &[with(KeyModifiers::ALT, KeyCode::Char('a')), Key::char('x')]);
        assert_eq!((field.text(), field.selection()), ("x", None));
        // An empty selection replaces nothing.
        press(&mut field, &[with(KeyModifiers::SHIFT, KeyCode::Right), Key::plain(KeyCode::Backspace)]);
        assert_eq!(field.text(), "");
    }

    #[test]
    fn an_accent_goes_with_its_letter() {
        let mut field = typed("e\u{301}");
        press(&mut field, &[Key::plain(KeyCode::Backspace)]);
        assert_eq!(field.text(), "");
    }

    #[test]
    fn keys_that_edit_nothing_are_left_to_others() {
        let mut field = typed("text");
        for key in [Key::ctrl('x'), Key::ctrl('c'), Key::ctrl('z'), Key::ctrl('l'), Key::ctrl('p')] {
            assert!(!field.key(key), "{key}");
        }
        for code in [KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::Up, KeyCode::F(1), KeyCode::PageDown] {
            assert!(!field.key(Key::plain(code)), "{code:?}");
        }
        assert_eq!(field.text(), "text");
    }

    proptest! {
        /// After any keys and pastes the text is one line without control characters, within its limit, and the cursor
        /// is in it.
        #[test]
        fn any_input_leaves_one_line(inputs in prop::collection::vec((0_usize..60, "\\PC{0,3}[\n\r\t]?"), 0..60)) {
            let keys: Vec<Key> =
                KEYMAP.iter().filter(|row| row.context == Context::Field).flat_map(|row| row.keys).copied().collect();
            let mut field = TextField::with_limit("", 20);
            for (at, text) in inputs {
                match keys.get(at) {
                    Some(key) => drop(field.key(*key)),
                    None => field.insert(&text),
                }
                let length = field.text().chars().count();
                prop_assert!(length <= 20 && field.cursor() <= length);
                prop_assert!(!field.text().contains(char::is_control) && field.area.lines().len() == 1);
            }
        }
    }
}
