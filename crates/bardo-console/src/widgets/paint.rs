//! Rows of pieces and their drawing: wrapped at words if they are too wide, counted if there are too many. Nothing is
//! left out silently.

use ratatui::layout::Rect;
use unicode_segmentation::UnicodeSegmentation;

use super::Moment;
use crate::format::time_of_day;
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::theme::Role;
use bardo_base::text::width;

/// Minimum width of a card with a frame, in columns.
const LEAST_FRAMED: u16 = 12;
/// Width from which the one-line form has a column for the kind, in columns.
const ROOMY_LINE: u16 = 60;

/// Line of a card: text at its left, figures at its right end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Pieces from the left end.
    pub left: Vec<StyledText>,
    /// Pieces at the right end.
    pub right: Vec<StyledText>,
    /// True if the row is kept when not all rows fit: position of the money, failures.
    pub keep: bool,
}

impl Row {
    /// Creates a row with one piece at the left.
    pub fn new(text: impl Into<String>, role: Role) -> Self {
        Self { left: vec![(text.into(), role)], ..Self::default() }
    }

    /// Creates a row from pieces at the left.
    pub fn of(left: Vec<StyledText>) -> Self {
        Self { left, ..Self::default() }
    }

    /// Adds a piece at the left.
    #[must_use]
    pub fn then(mut self, text: impl Into<String>, role: Role) -> Self {
        self.left.push((text.into(), role));
        self
    }

    /// Adds a piece at the right end.
    #[must_use]
    pub fn end(mut self, text: impl Into<String>, role: Role) -> Self {
        self.right.push((text.into(), role));
        self
    }

    /// Marks the row to be kept when not all rows fit.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.keep = true;
        self
    }
}

/// Upper edge of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Title {
    /// Name of the card.
    pub left: Vec<StyledText>,
    /// Status of the card.
    pub right: Vec<StyledText>,
}

/// Pieces that are kept or dropped together on a short line; the highest rank is dropped first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Rank of the group; 0 is kept longest.
    pub rank: u8,
    /// Pieces of the group.
    pub pieces: Vec<StyledText>,
}

impl Group {
    /// Creates a group with one piece.
    pub fn new(rank: u8, text: impl Into<String>, role: Role) -> Self {
        Self { rank, pieces: vec![(text.into(), role)] }
    }
}

/// One-line form of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Start in milliseconds since the Unix epoch; 0 hides it.
    pub at: u64,
    /// Status mark, one column wide, and its role.
    pub mark: (&'static str, Role),
    /// Kind of the card, in one word.
    pub kind: String,
    /// Content, as groups with ranks.
    pub groups: Vec<Group>,
    /// Pieces at the right end, such as the duration.
    pub right: Vec<StyledText>,
}

/// Part of `pieces` that fits `columns`; a cut ends with `…`.
pub fn cut(pieces: &[StyledText], columns: usize) -> Vec<StyledText> {
    if styled_width(pieces) <= columns {
        return pieces.to_vec();
    }
    let Some(mut room) = columns.checked_sub(1) else { return Vec::new() };
    let mut kept: Vec<StyledText> = Vec::new();
    for (text, role) in pieces {
        let (head, whole) = head_of(text, room);
        room = room.saturating_sub(width(head));
        kept.push((head.to_owned(), *role));
        if !whole {
            break;
        }
    }
    // A figure that already ends with `…` needs no second mark.
    if let Some((text, _)) = kept.last_mut()
        && let Some(before) = text.trim_end().strip_suffix('…').map(str::len)
    {
        text.truncate(before);
    }
    let role = kept.last().map_or(Role::TextDim, |(_, role)| *role);
    kept.push(("…".to_owned(), role));
    kept
}

/// Longest prefix of `text` that fits `columns`, and whether it is the whole text.
fn head_of(text: &str, columns: usize) -> (&str, bool) {
    let mut used = 0;
    for (at, cluster) in text.grapheme_indices(true) {
        used += width(cluster);
        if used > columns {
            return (text.get(..at).unwrap_or(""), false);
        }
    }
    (text, true)
}

/// Pieces of the groups that fit. If a group of rank 2 or more was dropped, `…` follows. Groups of rank 0 and 1 are cut
/// instead of dropped.
pub fn chosen(mut groups: Vec<Group>, columns: usize) -> Vec<StyledText> {
    let total = |groups: &[Group]| groups.iter().map(|group| styled_width(&group.pieces)).sum::<usize>();
    let mut dropped = 0;
    while total(&groups) + dropped > columns {
        let worst = groups.iter().map(|group| group.rank).max().unwrap_or(0);
        let last = groups.iter().rposition(|group| group.rank == worst && worst >= 2);
        let Some(at) = last else { break };
        groups.remove(at);
        dropped = 2;
    }
    let mut pieces: Vec<StyledText> = groups.into_iter().flat_map(|group| group.pieces).collect();
    if dropped > 0 {
        pieces.push((" …".to_owned(), Role::TextDim));
    }
    cut(&pieces, columns)
}

/// Rows wrapped to `columns`.
pub fn wrapped(rows: Vec<Row>, columns: usize) -> Vec<Row> {
    if columns == 0 {
        return Vec::new();
    }
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        let (left, right) = (styled_width(&row.left), styled_width(&row.right));
        if left + usize::from(left > 0 && right > 0) + right <= columns {
            lines.push(row);
            continue;
        }
        let mut broken: Vec<Row> = broken(&row.left, columns)
            .into_iter()
            .map(|left| Row { left, right: Vec::new(), keep: row.keep })
            .collect();
        match broken.last_mut() {
            Some(last) if right > 0 && styled_width(&last.left) + 1 + right <= columns => last.right = row.right,
            _ if right > 0 => {
                let more = self::broken(&row.right, columns).into_iter();
                broken.extend(more.map(|right| Row { left: Vec::new(), right, keep: row.keep }));
            }
            _ => {}
        }
        lines.append(&mut broken);
    }
    lines
}

/// Appends text to a line, merged into the last piece if the role is the same.
fn add(line: &mut Vec<StyledText>, text: &str, role: Role) {
    match line.last_mut() {
        Some(last) if last.1 == role => last.0.push_str(text),
        _ if text.is_empty() => {}
        _ => line.push((text.to_owned(), role)),
    }
}

/// Pieces broken between words, and within a word that is longer than a line.
fn broken(pieces: &[StyledText], columns: usize) -> Vec<Vec<StyledText>> {
    let indent = if columns >= 16 { 2 } else { 0 };
    let margin: Vec<StyledText> = if indent > 0 { vec![(" ".repeat(indent), Role::Text)] } else { Vec::new() };
    let mut lines: Vec<Vec<StyledText>> = Vec::new();
    let mut current: Vec<StyledText> = Vec::new();
    let mut used = 0;
    let mut start = 0;
    for (text, role) in pieces {
        for word in text.split_inclusive(' ') {
            let mut solid = word.trim_end_matches(' ');
            let blanks = word.get(solid.len()..).unwrap_or("");
            if used + width(solid) > columns && used > start {
                lines.push(std::mem::replace(&mut current, margin.clone()));
                (used, start) = (indent, indent);
            }
            while used + width(solid) > columns {
                let (head, _) = head_of(solid, columns - used);
                // A character wider than the whole line is replaced by `…`.
                let head_bytes = head.len();
                if head.is_empty() {
                    add(&mut current, "…", *role);
                    let first = solid.graphemes(true).next().map_or(solid.len(), str::len);
                    solid = solid.get(first..).unwrap_or("");
                } else {
                    add(&mut current, head, *role);
                    solid = solid.get(head_bytes..).unwrap_or("");
                }
                lines.push(std::mem::replace(&mut current, margin.clone()));
                (used, start) = (indent, indent);
            }
            add(&mut current, solid, *role);
            used += width(solid);
            if used > start && used + blanks.len() <= columns {
                add(&mut current, blanks, *role);
                used += blanks.len();
            }
        }
    }
    if used > start || lines.is_empty() {
        lines.push(current);
    }
    lines
}

/// Draws rows that were wrapped to the area's width. If they do not all fit, the kept rows and the first others are
/// drawn, and the last line counts the rest.
pub fn rows(painter: &mut Painter<'_>, area: Rect, rows: &[Row]) {
    let room = usize::from(area.height);
    if rows.len() <= room {
        for (at, row) in (0..).zip(rows) {
            painter.row(line(area, at), &row.left, &row.right);
        }
        return;
    }
    let Some(mut room) = room.checked_sub(1) else { return };
    let shown_room = room;
    let mut shown = vec![false; rows.len()];
    for keep in [true, false] {
        for (row, shown) in rows.iter().zip(&mut shown) {
            if room > 0 && row.keep == keep {
                *shown = true;
                room -= 1;
            }
        }
    }
    let chosen = rows.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(row, _)| row);
    for (at, row) in (0..).zip(chosen) {
        painter.row(line(area, at), &row.left, &row.right);
    }
    let missing = rows.len() - shown_room;
    let lines = if missing == 1 { "line" } else { "lines" };
    let words = [(format!("… {missing} more {lines}"), Role::TextDim)];
    painter.pieces(line(area, area.height - 1), &cut(&words, usize::from(area.width)));
}

/// Draws the one-line form of a card. On a narrow line the time and the right end are dropped, then groups by rank.
pub fn one_line(painter: &mut Painter<'_>, area: Rect, card: Line, _now: Moment) {
    let area = line(area, 0);
    let columns = usize::from(area.width);
    let roomy = area.width >= ROOMY_LINE;
    let mut left: Vec<StyledText> = Vec::new();
    if roomy && card.at > 0 {
        left.push((format!("{} ", time_of_day(card.at / 1000)), Role::TextDim));
    }
    let (mark, role) = card.mark;
    left.push((format!("{mark} "), role));
    let kind = if roomy { format!("{:<10} ", card.kind) } else { format!("{} ", card.kind) };
    left.push((kind, if role == Role::StateBad { role } else { Role::Title }));
    let right = if roomy { card.right } else { Vec::new() };
    let taken = styled_width(&left) + if right.is_empty() { 0 } else { styled_width(&right) + 1 };
    left.extend(chosen(card.groups, columns.saturating_sub(taken)));
    painter.row(area, &cut(&left, columns), &right);
}

/// Draws a card with a frame if there is room for one, else with its title as the first line.
pub fn card(painter: &mut Painter<'_>, area: Rect, title: Title, body: Vec<Row>, edge: Role) {
    if area.height >= 4 && area.width >= LEAST_FRAMED {
        let columns = usize::from(area.width) - 4;
        let (title, mut first) = fitted(title, columns);
        painter.frame(area, &title.left, &title.right, edge);
        let inner = Rect { x: area.x + 2, y: area.y + 1, width: area.width - 4, height: area.height - 2 };
        first.extend(body);
        rows(painter, inner, &wrapped(first, columns));
        return;
    }
    let mut all = vec![Row { left: title.left, right: title.right, keep: true }];
    all.extend(body);
    rows(painter, area, &wrapped(all, usize::from(area.width)));
}

/// Number of lines that [`card`] needs at this width to show everything.
pub fn card_height(width: u16, title: Title, body: Vec<Row>) -> u16 {
    let lines = if width >= LEAST_FRAMED {
        let columns = usize::from(width) - 4;
        let (_, mut first) = fitted(title, columns);
        first.extend(body);
        wrapped(first, columns).len() + 2
    } else {
        let mut all = vec![Row { left: title.left, right: title.right, keep: true }];
        all.extend(body);
        wrapped(all, usize::from(width)).len()
    };
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Title that fits an edge of this width. A part that had to be shortened is repeated in full in rows below.
fn fitted(title: Title, columns: usize) -> (Title, Vec<Row>) {
    // A dash and a blank at both sides of each end, and one dash between the ends.
    let room = columns.saturating_sub(5);
    let (left, right) = (styled_width(&title.left), styled_width(&title.right));
    if left + right <= room {
        return (title, Vec::new());
    }
    if left <= room {
        let below = Row { left: Vec::new(), right: title.right, keep: true };
        return (Title { left: title.left, right: Vec::new() }, vec![below]);
    }
    let whole = Row { left: title.left.clone(), right: title.right, keep: true };
    (Title { left: cut(&title.left, room), right: Vec::new() }, vec![whole])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(rows: &[Row]) -> Vec<String> {
        let join = |pieces: &[StyledText]| pieces.iter().map(|(text, _)| text.as_str()).collect::<String>();
        rows.iter().map(|row| format!("{}|{}", join(&row.left), join(&row.right))).collect()
    }

    #[test]
    fn what_does_not_fit_goes_on_in_the_next_line() {
        let row = Row::new("Money: ", Role::TextDim).then("in your wallet; counted as spent", Role::Text);
        assert_eq!(texts(&wrapped(vec![row.clone()], 20)), ["Money: in your |", "  wallet; counted as|", "  spent|"]);
        assert_eq!(texts(&wrapped(vec![row], 80)).len(), 1);
        let hash = Row::new("0x1f9840a85d5aF5bf1D17", Role::Text);
        assert_eq!(texts(&wrapped(vec![hash], 8)), ["0x1f9840|", "a85d5aF5|", "bf1D17|"]);
        let both = Row::new("left words", Role::Text).end("right", Role::Text);
        assert_eq!(texts(&wrapped(vec![both.clone()], 16)), ["left words|right"]);
        assert_eq!(texts(&wrapped(vec![both], 12)), ["left words|", "|right"]);
        assert_eq!(texts(&wrapped(vec![Row::new("宽宽", Role::Text)], 1)), ["…|", "…|"]);
    }

    #[test]
    fn no_word_of_a_wrapped_row_is_lost() {
        let said = "a bb ccc dddd eeeee ffffff ggggggg hhhhhhhh iiiiiiiii";
        for columns in 1..60 {
            let lines = wrapped(vec![Row::new(said, Role::Text)], columns);
            let all: String = lines.iter().flat_map(|row| &row.left).map(|(text, _)| text.as_str()).collect();
            assert_eq!(all.replace(' ', ""), said.replace(' ', ""), "{columns}");
            assert!(lines.iter().all(|row| styled_width(&row.left) <= columns), "{columns}");
        }
    }

    #[test]
    fn a_cut_says_so_once() {
        let said = |columns| {
            let pieces = [("at least 155.4989… UNI".to_owned(), Role::Text)];
            cut(&pieces, columns).iter().map(|(text, _)| text.as_str()).collect::<String>()
        };
        assert_eq!(said(22), "at least 155.4989… UNI");
        assert_eq!(said(21), "at least 155.4989… U…");
        assert_eq!(said(20), "at least 155.4989…");
        assert_eq!(said(19), "at least 155.4989…");
        assert_eq!(said(18), "at least 155.4989…");
        assert_eq!(said(17), "at least 155.498…");
    }

    #[test]
    fn a_line_drops_by_rank_and_says_so() {
        let groups = || {
            vec![
                Group::new(0, "core", Role::Text),
                Group::new(2, " least", Role::Text),
                Group::new(1, " more", Role::Text),
            ]
        };
        let said = |columns| chosen(groups(), columns).iter().map(|(text, _)| text.as_str()).collect::<String>();
        assert_eq!(said(15), "core least more");
        assert_eq!(said(14), "core more …");
        assert_eq!(said(11), "core more …");
        assert_eq!(said(8), "core mo…");
        assert_eq!(said(3), "co…");
        assert_eq!(said(0), "");
    }
}
