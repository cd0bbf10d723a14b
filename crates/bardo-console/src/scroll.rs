//! Scroll position of a page of text.

use std::cell::Cell;

use crate::keymap::Action;

/// First line shown of a text. Only drawing knows how many lines there are, so it limits the position and stores the
/// limited one, from which the next key goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrollOffset(Cell<usize>);

impl ScrollOffset {
    /// Moves the position by a key. `rows` is the height of the page.
    pub fn scroll(&mut self, action: Action, rows: usize) {
        let half = (rows / 2).max(1);
        let offset = self.0.get_mut();
        *offset = match action {
            Action::Down => offset.saturating_add(1),
            Action::Up => offset.saturating_sub(1),
            Action::HalfPageDown => offset.saturating_add(half),
            Action::HalfPageUp => offset.saturating_sub(half),
            Action::Top => 0,
            Action::Bottom => usize::MAX,
            _ => *offset,
        };
    }

    /// First line to draw of `lines` lines in a page with `room` lines.
    pub fn first(&self, lines: usize, room: usize) -> usize {
        let first = self.0.get().min(lines.saturating_sub(room));
        self.0.set(first);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_after_the_end_goes_on_from_the_last_page() {
        let mut offset = ScrollOffset::default();
        offset.scroll(Action::Bottom, 10);
        assert_eq!(offset.first(25, 10), 15);
        offset.scroll(Action::Up, 10);
        assert_eq!(offset.first(25, 10), 14);
        offset.scroll(Action::HalfPageDown, 10);
        assert_eq!(offset.first(25, 10), 15, "no further than the last line");
        offset.scroll(Action::HalfPageUp, 10);
        assert_eq!(offset.first(25, 10), 10);
        offset.scroll(Action::Top, 10);
        assert_eq!(offset.first(25, 10), 0);
        assert_eq!(offset.first(5, 10), 0, "what fits is not scrolled");
    }
}
