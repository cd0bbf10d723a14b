//! Which rows a panel has and how many of them fit: shared by the view that draws and the reducer that scrolls.

use ratatui::layout::Rect;

use super::State;
use super::layout::{Panel, Shape};
use super::model::Page;

/// One row of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// The name of the chain whose rows follow.
    Heading(usize),
    /// Entry `1` of what the panel shows of chain `0`.
    Item(usize, usize),
}

/// How a panel is drawn in the room it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One line, everything in short.
    Line,
    /// Under a rule, entries one after another as they fit; it does not scroll.
    Flow,
    /// A list under a rule.
    Ruled,
    /// A list in a frame.
    Framed,
}

/// How `panel` is drawn in `area`.
pub fn form(state: &State, panel: Panel, area: Rect) -> Form {
    if state.plan().shape != Shape::Narrow {
        return Form::Framed;
    }
    match panel {
        _ if state.zoomed => Form::Ruled,
        Panel::Chain(_) => Form::Line,
        Panel::Tokens | Panel::Wallet => Form::Flow,
        Panel::Pools | Panel::Activity if area.height < 2 => Form::Line,
        Panel::Pools | Panel::Activity => Form::Ruled,
    }
}

/// The lines above the list that stay where they are: a chain's summary, the pools' column names.
pub fn fixed_lines(panel: Panel, inner: Rect) -> u16 {
    match panel {
        Panel::Chain(_) => inner.height.min(2),
        Panel::Pools if inner.height >= 5 => 1,
        _ => 0,
    }
}

/// What lies inside a panel's rule or frame.
pub fn inside(form: Form, area: Rect) -> Rect {
    match form {
        Form::Line => area,
        Form::Flow | Form::Ruled => Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area },
        Form::Framed => Rect {
            x: area.x + 1,
            y: area.y + 1,
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(2),
        },
    }
}

/// How many rows of its list a panel shows at once.
pub fn visible(state: &State, panel: Panel, area: Rect) -> usize {
    let form = form(state, panel, area);
    if matches!(form, Form::Line | Form::Flow) {
        return 0;
    }
    let inner = inside(form, area);
    usize::from(inner.height - fixed_lines(panel, inner).min(inner.height))
}

/// How many rows a panel's list has.
pub fn count(state: &State, panel: Panel) -> usize {
    let page = state.page();
    match panel {
        Panel::Chain(chain) => page.chains.get(chain).map_or(0, |chain| chain.blocks.len()),
        Panel::Activity => page.activity.len(),
        _ => rows(page, panel).len(),
    }
}

/// The rows of a panel that lists something of every chain.
pub fn rows(page: &Page, panel: Panel) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, chain) in page.chains.iter().enumerate() {
        let items = match panel {
            Panel::Tokens => chain.tokens.len(),
            Panel::Wallet => chain.balances.len(),
            Panel::Pools => chain.pools.len(),
            Panel::Chain(_) | Panel::Activity => 0,
        };
        if items > 0 {
            rows.push(Row::Heading(at));
            rows.extend((0..items).map(|item| Row::Item(at, item)));
        }
    }
    rows
}
