//! Sprite of the Golem: half-block pixels, letters without colours, or a face in a small area.
//!
//! The art is data (`assets/sprites/golem.toml`). This module only draws the state that it is given.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::widgets::Widget;
use serde::Deserialize;

use super::Moment;
use crate::painter::{Painter, line};
use crate::theme::{Role, Theme};
use bardo_base::fabric::SpriteState;
use bardo_base::model::Phase;
use bardo_base::text::width;

/// Width of the sprite, in columns.
pub const COLUMNS: u16 = 10;
/// Height of the sprite, in lines.
pub const LINES: u16 = 4;

/// State of the sprite to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpriteModel {
    /// State that selects the pose.
    pub state: SpriteState,
    /// Phase that selects colour and cracks.
    pub phase: Phase,
    /// True to draw letters instead of pixels, for terminals and screen readers that need them.
    pub letters: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Art {
    frame_millis: u64,
    states: BTreeMap<SpriteState, Pose>,
    cracks: BTreeMap<Phase, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pose {
    small: String,
    small_ascii: String,
    frames: Vec<String>,
    ascii: Vec<String>,
}

/// Embedded art. A test parses it; if parsing failed, nothing would be drawn.
static ART: LazyLock<Art> =
    LazyLock::new(|| toml::from_str(include_str!("../../../../assets/sprites/golem.toml")).unwrap_or_default());

/// Role of the sprite's body in a phase.
pub const fn phase_role(phase: Phase) -> Role {
    match phase {
        Phase::Thriving => Role::PhaseThriving,
        Phase::Cautious => Role::PhaseCautious,
        Phase::Defensive => Role::PhaseDefensive,
        Phase::Survival => Role::PhaseSurvival,
        Phase::Terminal => Role::PhaseTerminal,
    }
}

/// Display text of a phase.
pub const fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Thriving => "THRIVING",
        Phase::Cautious => "CAUTIOUS",
        Phase::Defensive => "EXITS ONLY",
        Phase::Survival => "LAST RESERVES",
        Phase::Terminal => "DYING",
    }
}

/// Time of the next frame, in milliseconds since the Unix epoch; `None` without motion or with a single frame.
pub fn next_change_millis(model: &SpriteModel, now: Moment) -> Option<u64> {
    let frames = ART.states.get(&model.state).map_or(0, |pose| pose.frames.len());
    let step = ART.frame_millis.max(1);
    (now.motion && frames > 1).then(|| (now.millis / step + 1) * step)
}

/// Widget of the sprite, drawn at the upper left of its area. In fewer than ten columns or four lines it is a face, and
/// if the face does not fit, a single character of it.
///
/// The library has no pictures: its `Canvas` draws shapes. The art is data with a role for each pixel, and letters
/// where there are no colours.
#[derive(Debug, Clone, Copy)]
pub struct Sprite<'a> {
    model: SpriteModel,
    theme: &'a Theme,
    now: Moment,
}

impl<'a> Sprite<'a> {
    /// Creates the widget of the sprite at a moment.
    pub const fn new(model: SpriteModel, theme: &'a Theme, now: Moment) -> Self {
        Self { model, theme, now }
    }
}

impl Widget for Sprite<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        draw(&self.model, &mut Painter { buffer, theme: self.theme }, area, self.now);
    }
}

fn draw(model: &SpriteModel, painter: &mut Painter<'_>, area: Rect, now: Moment) {
    let Some(pose) = ART.states.get(&model.state) else { return };
    let body = phase_role(model.phase);
    let letters = model.letters || painter.theme.style(body).fg.is_none();
    if area.height < LINES || area.width < COLUMNS {
        let face = if letters { &pose.small_ascii } else { &pose.small };
        let shown = if usize::from(area.width) < width(face) {
            face.get(..).and_then(|face| face.chars().nth(1)).map(String::from)
        } else {
            Some(face.clone())
        };
        let place = line(area, 0);
        painter.text(place, place.x, shown.as_deref().unwrap_or(""), body);
        return;
    }
    let frames = if letters { &pose.ascii } else { &pose.frames };
    let at = if now.motion { now.millis.checked_div(ART.frame_millis).unwrap_or(0) } else { 0 };
    let count = u64::try_from(frames.len()).unwrap_or(1).max(1);
    let Some(frame) = usize::try_from(at % count).ok().and_then(|at| frames.get(at)) else { return };
    if letters {
        for (row, text) in (0..LINES).zip(frame.lines()) {
            painter.text(line(area, row), area.x, text, body);
        }
        return;
    }
    let cracks = ART.cracks.get(&model.phase).map_or("", String::as_str);
    let pixel = |x: u16, y: u16| {
        let at = |art: &str| art.lines().nth(y.into()).and_then(|row| row.as_bytes().get(usize::from(x))).copied();
        match at(frame) {
            Some(b'#') if at(cracks) == Some(b'x') => Some(Role::SpriteShade),
            Some(b'#') => Some(body),
            Some(b'+') => Some(Role::SpriteShade),
            Some(b'o') => Some(Role::SpriteGlow),
            Some(b'!') => Some(Role::StateCare),
            Some(b'x') => Some(Role::StateBad),
            _ => None,
        }
    };
    for row in 0..LINES {
        for column in 0..COLUMNS {
            let (upper, lower) = (pixel(column, row * 2), pixel(column, row * 2 + 1));
            let colour = |role: Role| painter.theme.style(role).fg.unwrap_or_default();
            let (symbol, style) = match (upper, lower) {
                (None, None) => continue,
                (Some(upper), None) => ("▀", Style::new().fg(colour(upper))),
                (None, Some(lower)) => ("▄", Style::new().fg(colour(lower))),
                (Some(upper), Some(lower)) if upper == lower => ("█", Style::new().fg(colour(upper))),
                (Some(upper), Some(lower)) => ("▀", Style::new().fg(colour(upper)).bg(colour(lower))),
            };
            if let Some(cell) = painter.buffer.cell_mut(Position::new(area.x + column, area.y + row)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_art_is_whole() {
        let art: Art = toml::from_str(include_str!("../../../../assets/sprites/golem.toml")).unwrap();
        assert!(art.frame_millis >= 100);
        for state in SpriteState::ALL {
            let pose = &art.states[&state];
            assert!(!pose.frames.is_empty() && !pose.ascii.is_empty(), "{state:?}");
            assert_eq!((width(&pose.small), pose.small_ascii.len()), (3, 3), "{state:?}");
            for frame in &pose.frames {
                assert_eq!(frame.lines().count(), usize::from(LINES) * 2, "{state:?}");
                let known = |row: &str| row.chars().all(|pixel| "#+o!x.".contains(pixel));
                assert!(frame.lines().all(|row| row.len() == usize::from(COLUMNS) && known(row)), "{state:?}\n{frame}");
            }
            for frame in &pose.ascii {
                assert!(frame.is_ascii() && frame.lines().count() == usize::from(LINES), "{state:?}");
                assert!(frame.lines().all(|row| row.len() <= usize::from(COLUMNS)), "{state:?}\n{frame}");
            }
        }
        for phase in Phase::ALL {
            let cracks = &art.cracks[phase];
            assert!(cracks.is_empty() || cracks.lines().count() == usize::from(LINES) * 2, "{phase}");
        }
        let poses: std::collections::BTreeSet<_> = art.states.values().map(|pose| &pose.frames[0]).collect();
        assert_eq!(poses.len(), SpriteState::ALL.len(), "each state has a body of its own");
        let faces: std::collections::BTreeSet<_> = art.states.values().map(|pose| &pose.small_ascii).collect();
        assert_eq!(faces.len(), SpriteState::ALL.len());
    }
}
