//! Read marks of the approval dialog: which of its text was on the screen.
//!
//! The marks belong to the text, not to the lines on which it was drawn. Another width, full screen and a new simulation
//! that is not worse draw the same text on other lines, and what was read stays read.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::widgets::paint::{Row, wrapped};

/// Mark of a warning that was read, which is not part of its text.
const READ_MARK: &str = "[x]";

/// Text of one line of the dialog: a range of the words of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineText {
    /// Row that the line belongs to.
    row: RowKey,
    /// Index of the first word of the row that is on the line.
    from: usize,
    /// Index after the last one.
    to: usize,
    /// Number of words of the whole row.
    of: usize,
}

/// Row by its text. Rows with the same text are distinguished by their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    text: u64,
    nth: usize,
}

/// Hash of a row's letters. Figures are left out: they move with each simulation, and a worse one clears all marks.
fn text_of(row: &Row) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (text, _) in &row.left {
        for letter in text.replace(READ_MARK, "").chars().filter(|letter| letter.is_alphabetic()) {
            letter.hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn word_count(line: &Row) -> usize {
    line.left.iter().chain(&line.right).map(|(text, _)| text.split_whitespace().count()).sum()
}

/// Texts of the lines into which the rows are wrapped at `columns`, in the order of the lines.
pub(super) fn line_texts(rows: &[Row], columns: usize) -> Vec<LineText> {
    let mut known: BTreeMap<u64, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for row in rows {
        let text = text_of(row);
        let count = known.entry(text).or_default();
        let row_key = RowKey { text, nth: *count };
        *count += 1;
        let first = all.len();
        let mut from = 0;
        for line in wrapped(vec![row.clone()], columns) {
            let to = from + word_count(&line);
            all.push(LineText { row: row_key, from, to, of: 0 });
            from = to;
        }
        all.iter_mut().skip(first).for_each(|line| line.of = from);
    }
    all
}

/// Words of each row that were on the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReadMarks {
    rows: BTreeMap<RowKey, RowMarks>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RowMarks {
    /// Number of words of the row when it was drawn.
    of: usize,
    /// Indices of the words that were on the screen.
    seen: BTreeSet<usize>,
}

impl RowMarks {
    fn is_whole(&self) -> bool {
        self.seen.len() >= self.of
    }
}

impl ReadMarks {
    /// Marks a line as seen.
    pub(super) fn mark(&mut self, line: &LineText) {
        let row = self.rows.entry(line.row).or_insert_with(|| RowMarks { of: line.of, seen: BTreeSet::new() });
        if row.of != line.of {
            // A whole row stays whole. Of another, it is unknown which words are the same.
            if row.is_whole() {
                return;
            }
            *row = RowMarks { of: line.of, seen: BTreeSet::new() };
        }
        row.seen.extend(line.from..line.to);
    }

    /// True if all words of the line were on the screen.
    pub(super) fn has(&self, line: &LineText) -> bool {
        if line.from == line.to {
            return true;
        }
        self.rows.get(&line.row).is_some_and(|row| {
            row.is_whole() || row.of == line.of && (line.from..line.to).all(|word| row.seen.contains(&word))
        })
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

/// Lines of as many different rows, for a dialog that is not drawn from a request.
pub(in crate::widgets) fn numbered_lines(count: usize) -> Vec<LineText> {
    (0..count).map(|nth| LineText { row: RowKey { text: 0, nth }, from: 0, to: 1, of: 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Role;

    fn row(text: &str) -> Row {
        Row::new(text, Role::Dialog)
    }

    fn unseen(marks: &ReadMarks, lines: &[LineText]) -> usize {
        lines.iter().filter(|line| !marks.has(line)).count()
    }

    #[test]
    fn what_was_read_at_one_width_is_read_at_another() {
        let rows = [row("one two three four"), row("five six seven eight"), row("five six seven eight")];
        let wide = line_texts(&rows, 40);
        let mut marks = ReadMarks::default();
        wide.iter().take(2).for_each(|line| marks.mark(line));
        // "one two", "three", "four" and so on: the second of two equal rows was not seen.
        let narrow = line_texts(&rows, 9);
        let of_third = narrow.iter().filter(|line| line.row.nth == 1).count();
        assert!(narrow.len() > 3 && of_third > 1, "{narrow:?}");
        assert_eq!(unseen(&marks, &narrow), of_third);
        // Half of a row is half of it: at the first width its one line is not read.
        let mut marks = ReadMarks::default();
        marks.mark(&narrow[0]);
        assert_eq!((unseen(&marks, &narrow), unseen(&marks, &wide)), (narrow.len() - 1, 3));
    }

    #[test]
    fn figures_and_read_marks_move_without_taking_a_mark_away_and_other_words_do_not() {
        let shown = |text: &str| line_texts(&[row(text)], 60);
        let mut marks = ReadMarks::default();
        marks.mark(&shown("! [ ] Permit2 may take 0.5 WETH until 14:11:02")[0]);
        for same in
            ["! [x] Permit2 may take 0.5 WETH until 14:11:02", "! [ ] Permit2 may take 0.51 WETH until 14:12:09"]
        {
            assert_eq!(unseen(&marks, &shown(same)), 0, "{same}");
        }
        assert_eq!(unseen(&marks, &shown("! [ ] Permit2 may take 0.5 UNI until 14:11:02")), 1);
    }

    #[test]
    fn a_figure_at_the_right_end_is_read_with_its_row_or_on_its_own_line() {
        let rows = [row("WETH −0.6 of your holding").end("worst case −0.6", Role::Dialog)];
        let (wide, narrow) = (line_texts(&rows, 60), line_texts(&rows, 26));
        assert_eq!((wide.len(), narrow.len()), (1, 2), "{narrow:?}");
        let mut marks = ReadMarks::default();
        marks.mark(&narrow[0]);
        assert_eq!(unseen(&marks, &wide), 1, "the worst case was not seen");
        marks.mark(&narrow[1]);
        assert_eq!(unseen(&marks, &wide), 0);
    }
}
