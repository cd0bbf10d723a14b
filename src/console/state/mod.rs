//! The console's state and its one way forward: [`State::update`] takes an input and returns effects.
//!
//! Pure: no clock, no terminal, no chain. What time it is comes in with the inputs. The view reads `&State`.

pub mod feed;
pub mod layout;
pub mod line;
pub mod model;
pub mod rows;

use std::collections::BTreeMap;

use ratatui::layout::{Rect, Size};

use crate::base::text::SafeText;
use crate::console::keymap::{self, Action, Context, Key};
use layout::{Panel, Plan, Shape};
use model::{Page, Update};

/// Milliseconds between two pictures of the boot's spinner.
const SPINNER_MILLIS: u64 = 120;

/// What can reach the state.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A key was pressed (not released, not repeated by the terminal's own account).
    Key(Key),
    /// A mouse button went down on a cell.
    Click {
        /// From 0.
        column: u16,
        /// From 0.
        row: u16,
    },
    /// The wheel turned over a cell; down is towards the reader.
    Wheel {
        /// From 0.
        column: u16,
        /// From 0.
        row: u16,
        /// Whether it turned down.
        down: bool,
    },
    /// Text was pasted. The page takes none.
    Paste,
    /// The terminal has a new size.
    Resize(Size),
    /// It is now this many milliseconds since the Unix epoch.
    Time(u64),
    /// A source has news.
    News(Update),
    /// There is no shell to go back to, so Ctrl-Z did nothing.
    CannotSuspend,
}

/// What the state wants done outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Forget what the terminal shows and draw it all.
    Redraw,
    /// Stop the process.
    Suspend,
}

/// What lies over the page; the topmost has the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The keys and what they do.
    Help {
        /// Rows scrolled past.
        offset: usize,
    },
    /// The question before leaving.
    Quit,
}

impl Layer {
    /// Where its keys are bound.
    pub const fn context(self) -> Context {
        match self {
            Self::Help { .. } => Context::Help,
            Self::Quit => Context::Quit,
        }
    }
}

/// A view that stands still.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// What it shows.
    pub page: Page,
    /// Snapshots that came since.
    pub missed: usize,
}

/// Everything the console knows.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The terminal's size.
    pub size: Size,
    /// Milliseconds since the Unix epoch, as last told.
    pub now_millis: u64,
    /// Whether things may move by themselves: the clock, ages, the spinner.
    pub motion: bool,
    /// What the sources said.
    pub live: Page,
    /// Set while the view stands still.
    pub frozen: Option<Box<Frozen>>,
    /// Bottom first.
    pub layers: Vec<Layer>,
    /// The panel that has the keys.
    pub focus: Panel,
    /// Whether it has all the room.
    pub zoomed: bool,
    /// Rows scrolled past, per panel.
    pub offsets: BTreeMap<Panel, usize>,
    /// A line for the operator, until the next key.
    pub notice: Option<SafeText>,
}

impl State {
    /// A state that knows nothing yet.
    pub fn new(size: Size, now_millis: u64, motion: bool) -> Self {
        Self {
            size,
            now_millis,
            motion,
            live: Page::default(),
            frozen: None,
            layers: Vec::new(),
            focus: Panel::Pools,
            zoomed: false,
            offsets: BTreeMap::new(),
            notice: None,
        }
    }

    /// The page to draw: the frozen one, or the live one.
    pub fn page(&self) -> &Page {
        self.frozen.as_ref().map_or(&self.live, |frozen| &frozen.page)
    }

    /// Whether the network is still coming up, so that the page shows the boot instead.
    pub fn booting(&self) -> bool {
        let page = self.page();
        page.network.is_none() || page.chains.iter().all(|chain| chain.blocks.is_empty())
    }

    /// Where everything is.
    pub fn plan(&self) -> Plan {
        let zoomed = (self.zoomed && !self.booting()).then_some(self.focus);
        layout::plan(Rect::new(0, 0, self.size.width, self.size.height), self.page().chains.len(), zoomed)
    }

    /// Where the keys of the topmost layer are bound.
    pub fn context(&self) -> Context {
        self.layers.last().map_or(Context::Page, |layer| layer.context())
    }

    /// Rows scrolled past in `panel`.
    pub fn offset(&self, panel: Panel) -> usize {
        self.offsets.get(&panel).copied().unwrap_or(0)
    }

    /// When the screen changes by itself next, in milliseconds since the Unix epoch; `None`: never.
    pub fn next_change_millis(&self) -> Option<u64> {
        if !self.motion {
            return None;
        }
        let step = if self.booting() && self.live.fault.is_none() { SPINNER_MILLIS } else { 1000 };
        Some((self.now_millis / step + 1) * step)
    }

    /// Takes one input in and says what is to be done outside.
    pub fn update(&mut self, input: Input) -> Option<Effect> {
        match input {
            Input::Key(key) => {
                self.notice = None;
                return keymap::action(self.context(), key).and_then(|action| self.act(action));
            }
            Input::Click { column, row } if self.layers.is_empty() => {
                if let Some(panel) = self.plan().at(column, row) {
                    self.focus = panel;
                }
            }
            Input::Wheel { column, row, down } => self.wheel(column, row, down),
            Input::Click { .. } | Input::Paste => {}
            Input::Resize(size) => {
                self.size = size;
                self.keep_focus_on_a_panel();
                return Some(Effect::Redraw);
            }
            Input::Time(now) => self.now_millis = now,
            Input::News(update) => {
                if let (Some(frozen), Update::Chain(_)) = (&mut self.frozen, &update) {
                    frozen.missed += 1;
                }
                self.live.apply(update);
            }
            Input::CannotSuspend => {
                let words = "Ctrl-Z: there is no shell behind this terminal to go back to";
                self.notice = Some(SafeText::clean(words, words.len()));
            }
        }
        None
    }

    fn act(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::AskToQuit => self.layers.push(Layer::Quit),
            Action::Quit => return Some(Effect::Quit),
            Action::Help => self.layers.push(Layer::Help { offset: 0 }),
            Action::Back => {
                if self.layers.pop().is_none() {
                    self.zoomed = false;
                }
            }
            Action::CloseOrQuit => {
                if self.layers.pop().is_none() {
                    self.layers.push(Layer::Quit);
                }
            }
            Action::NextPanel => self.step_focus(1),
            Action::PreviousPanel => self.step_focus(-1),
            Action::Down => self.scroll(1),
            Action::Up => self.scroll(-1),
            Action::Top => self.scroll(isize::MIN),
            Action::Bottom => self.scroll(isize::MAX),
            Action::HalfPageDown => self.scroll(self.half_page()),
            Action::HalfPageUp => self.scroll(-self.half_page()),
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Freeze => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(Box::new(Frozen { page: self.live.clone(), missed: 0 })),
                };
            }
            Action::Redraw => return Some(Effect::Redraw),
            Action::Suspend => return Some(Effect::Suspend),
        }
        None
    }

    fn step_focus(&mut self, step: isize) {
        let was_zoomed = std::mem::replace(&mut self.zoomed, false);
        let panels = self.plan().panels;
        self.zoomed = was_zoomed;
        let Ok(count) = isize::try_from(panels.len()) else { return };
        if count == 0 {
            return;
        }
        let at = panels.iter().position(|(panel, _)| *panel == self.focus);
        let next = match at.and_then(|at| isize::try_from(at).ok()) {
            Some(at) => (at + step).rem_euclid(count),
            None => 0,
        };
        if let Some((panel, _)) = usize::try_from(next).ok().and_then(|next| panels.get(next)) {
            self.focus = *panel;
        }
    }

    /// A smaller terminal may have no room for the panel that had the keys.
    fn keep_focus_on_a_panel(&mut self) {
        let plan = self.plan();
        if plan.shape != Shape::TooSmall && !self.zoomed && plan.area_of(self.focus).is_none() {
            self.focus = Panel::Pools;
        }
    }

    fn half_page(&self) -> isize {
        let rows = self.plan().area_of(self.focus).map_or(0, |area| rows::visible(self, self.focus, area));
        isize::try_from((rows / 2).max(1)).unwrap_or(1)
    }

    fn scroll(&mut self, by: isize) {
        if let Some(Layer::Help { offset }) = self.layers.last_mut() {
            // The help's length is the table's; its view shows the last rows when told to go beyond.
            *offset = moved(*offset, by, keymap::rows(Context::Page).count());
            return;
        }
        self.scroll_panel(self.focus, by);
    }

    fn scroll_panel(&mut self, panel: Panel, by: isize) {
        let Some(area) = self.plan().area_of(panel) else { return };
        let hidden = rows::count(self, panel).saturating_sub(rows::visible(self, panel, area));
        let offset = self.offset(panel).min(hidden);
        self.offsets.insert(panel, moved(offset, by, hidden));
    }

    fn wheel(&mut self, column: u16, row: u16, down: bool) {
        let by = if down { 3 } else { -3 };
        if !self.layers.is_empty() {
            self.scroll(by);
        } else if let Some(panel) = self.plan().at(column, row) {
            self.scroll_panel(panel, by);
        }
    }
}

fn moved(offset: usize, by: isize, most: usize) -> usize {
    offset.saturating_add_signed(by).min(most)
}

#[cfg(test)]
mod tests;
