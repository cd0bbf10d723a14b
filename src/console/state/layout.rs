//! Where the panels are, for a size and a number of chains. Pure, and shared by the view and by mouse hits.

use ratatui::layout::Rect;

/// A panel of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Panel {
    /// The blocks of the chain at this place.
    Chain(usize),
    /// Tokens with their feeds' prices.
    Tokens,
    /// The wallet's holdings.
    Wallet,
    /// The pools.
    Pools,
    /// What happens on the chains.
    Activity,
}

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Not enough for a page; only the badge and what is needed.
    TooSmall,
    /// One column, panels under rules, lists flowing.
    Narrow,
    /// Two columns of framed panels.
    Wide,
    /// Three columns of framed panels.
    Full,
}

/// Fewest columns of a page.
pub const LEAST_WIDTH: u16 = 36;
/// Fewest rows of a page.
pub const LEAST_HEIGHT: u16 = 10;

/// The places of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How much room there is.
    pub shape: Shape,
    /// The header line.
    pub header: Rect,
    /// Everything between header and hints.
    pub body: Rect,
    /// The hint bar.
    pub hints: Rect,
    /// The panels in the order Tab goes through them.
    pub panels: Vec<(Panel, Rect)>,
}

impl Plan {
    /// The panel at a cell of the terminal.
    pub fn at(&self, column: u16, row: u16) -> Option<Panel> {
        let hit = |area: &Rect| area.contains((column, row).into());
        self.panels.iter().find(|(_, area)| hit(area)).map(|(panel, _)| *panel)
    }

    /// The place of a panel.
    pub fn area_of(&self, panel: Panel) -> Option<Rect> {
        self.panels.iter().find(|(known, _)| *known == panel).map(|(_, area)| *area)
    }
}

/// Lays out the page for `chains` chains; with `zoomed`, that panel has all the room.
pub fn plan(area: Rect, chains: usize, zoomed: Option<Panel>) -> Plan {
    let shape = match (area.width, area.height) {
        (width, height) if width < LEAST_WIDTH || height < LEAST_HEIGHT => Shape::TooSmall,
        (width, height) if width >= 170 && height >= 36 => Shape::Full,
        (width, height) if width >= 110 && height >= 30 => Shape::Wide,
        _ => Shape::Narrow,
    };
    let header = Rect { height: area.height.min(1), ..area };
    let hints = Rect { y: area.bottom().saturating_sub(1), height: area.height.saturating_sub(1).min(1), ..area };
    let body = Rect { y: area.y + header.height, height: area.height.saturating_sub(2), ..area };
    let panels = match (shape, zoomed) {
        (Shape::TooSmall, _) => Vec::new(),
        (_, Some(panel)) => vec![(panel, body)],
        (Shape::Narrow, None) => narrow(body, chains),
        (Shape::Wide, None) => wide(body, chains),
        (Shape::Full, None) => full(body, chains),
    };
    Plan { shape, header, body, hints, panels }
}

/// Cuts `height` rows off the top of what is left.
fn take(left: &mut Rect, height: u16) -> Rect {
    let height = height.min(left.height);
    let taken = Rect { height, ..*left };
    *left = Rect { y: left.y + height, height: left.height - height, ..*left };
    taken
}

fn count(chains: usize) -> u16 {
    u16::try_from(chains).unwrap_or(u16::MAX)
}

/// A chain is one line; tokens and wallet are a rule with flowing text; pools and activity share the rest.
/// What does not fit is left out from the least important: activity, wallet, tokens.
fn narrow(body: Rect, chains: usize) -> Vec<(Panel, Rect)> {
    let mut left = body;
    let mut panels = Vec::new();
    for chain in 0..chains {
        panels.push((Panel::Chain(chain), take(&mut left, 1)));
    }
    let flow = if body.width >= 80 { 3 } else { 4 };
    if left.height >= flow + 4 {
        panels.push((Panel::Tokens, take(&mut left, flow)));
    }
    if left.height >= flow + 9 {
        panels.push((Panel::Wallet, take(&mut left, flow)));
    }
    let activity = if left.height >= 8 { left.height * 2 / 5 } else { 0 };
    let pools = left.height - activity;
    panels.push((Panel::Pools, take(&mut left, pools)));
    panels.push((Panel::Activity, left));
    panels.retain(|(_, area)| !area.is_empty());
    panels
}

fn wide(body: Rect, chains: usize) -> Vec<(Panel, Rect)> {
    let left_width = 42;
    let mut left = Rect { width: left_width, ..body };
    let mut right = Rect { x: body.x + left_width, width: body.width - left_width, ..body };
    let mut panels = Vec::new();
    let each = (body.height * 2 / 5 / count(chains).max(1)).clamp(4, 10);
    for chain in 0..chains {
        panels.push((Panel::Chain(chain), take(&mut left, each)));
    }
    let tokens = left.height * 11 / 20;
    panels.push((Panel::Tokens, take(&mut left, tokens)));
    panels.push((Panel::Wallet, left));
    let pools = right.height * 11 / 20;
    panels.push((Panel::Pools, take(&mut right, pools)));
    panels.push((Panel::Activity, right));
    panels.retain(|(_, area)| !area.is_empty());
    panels
}

fn full(body: Rect, chains: usize) -> Vec<(Panel, Rect)> {
    let left_width = 44;
    let middle_width = 80;
    let mut left = Rect { width: left_width, ..body };
    let middle = Rect { x: body.x + left_width, width: middle_width, ..body };
    let right_width = body.width - left_width - middle_width;
    let right = Rect { x: body.x + left_width + middle_width, width: right_width, ..body };
    let mut panels = Vec::new();
    let each = (body.height * 2 / 5 / count(chains).max(1)).clamp(4, 10);
    for chain in 0..chains {
        panels.push((Panel::Chain(chain), take(&mut left, each)));
    }
    let tokens = left.height * 11 / 20;
    panels.push((Panel::Tokens, take(&mut left, tokens)));
    panels.push((Panel::Wallet, left));
    panels.push((Panel::Pools, middle));
    panels.push((Panel::Activity, right));
    panels.retain(|(_, area)| !area.is_empty());
    panels
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// At any size, with any number of chains: panels lie inside, and none over another.
        #[test]
        fn panels_never_overlap_or_leave(width in 0u16..260, height in 0u16..120, chains in 0usize..6) {
            let area = Rect::new(0, 0, width, height);
            for zoomed in [None, Some(Panel::Pools)] {
                let plan = plan(area, chains, zoomed);
                let mut places: Vec<Rect> = plan.panels.iter().map(|(_, place)| *place).collect();
                places.extend([plan.header, plan.hints]);
                for (at, place) in places.iter().enumerate() {
                    prop_assert_eq!(place.intersection(area), *place);
                    for other in &places[at + 1..] {
                        prop_assert!(!place.intersects(*other) || place.is_empty() || other.is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn the_three_sizes_have_their_shapes_and_all_panels() {
        for (width, height, shape) in [(80, 24, Shape::Narrow), (120, 40, Shape::Wide), (200, 50, Shape::Full)] {
            let plan = plan(Rect::new(0, 0, width, height), 2, None);
            assert_eq!(plan.shape, shape);
            assert_eq!(plan.panels.len(), 6, "{shape:?}");
        }
        assert_eq!(plan(Rect::new(0, 0, 35, 24), 2, None).shape, Shape::TooSmall);
    }
}
