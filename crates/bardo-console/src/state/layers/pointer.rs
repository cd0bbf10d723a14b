//! Handling of clicks, the wheel and pastes. A click on a drawn key acts as that key.

use ratatui::layout::Position;

use crate::keymap::Action;
use crate::state::{ClickTarget, Effect, Layer, State};
use bardo_base::text::SafeText;

impl State {
    pub(in crate::state) fn paste(&mut self, text: &SafeText) {
        let now = self.clock.now_millis;
        match self.display.layers.last_mut() {
            Some(Layer::Decision(decision)) => decision.pasted(now),
            Some(Layer::Palette { field, .. }) => field.paste(text),
            Some(_) => self.untaken_key(),
            None => match &mut self.display.prompt {
                Some(field) => field.paste(text),
                None => {
                    if let Some(view) = self.display.screens.get_mut(self.display.screen)
                        && view.accepts_text()
                    {
                        view.paste(text);
                    }
                }
            },
        }
    }

    pub(in crate::state) fn click(&mut self, at: Position, target: ClickTarget) -> Vec<Effect> {
        if let (Some(one), now) = (target.warning, self.clock.now_millis)
            && let Some(Layer::Decision(decision)) = self.display.layers.last_mut()
        {
            decision.mark_one(one, now);
            return Vec::new();
        }
        // In a dialog and in the hint line, a click on a drawn key acts as that key.
        let in_hints = at.y.saturating_add(1) == self.display.size.height;
        if !self.display.layers.is_empty() || in_hints || self.booting() {
            return match target.key {
                Some(key) => self.key(key),
                None if in_hints && self.display.layers.is_empty() && target.next_screen => {
                    let tabs = self.tabs();
                    let here = tabs.iter().position(|screen| *screen == self.display.screen).unwrap_or(0);
                    let next = tabs.get((here + 1) % tabs.len().max(1)).copied();
                    next.map(|screen| self.go_to(screen)).unwrap_or_default()
                }
                None => {
                    self.untaken_key();
                    Vec::new()
                }
            };
        }
        if let Some(screen) = target.tab {
            return self.go_to(screen);
        }
        if target.waiting {
            return self.page_action(Action::Decide);
        }
        if at.y.saturating_add(2) == self.display.size.height && self.display.prompt.is_none() {
            return self.page_action(Action::Prompt);
        }
        let body = self.body();
        if body.contains(at) {
            return self.with_screen(self.display.screen, |view, known, area| view.click(at, known, area));
        }
        Vec::new()
    }

    pub(in crate::state) fn wheel(&mut self, at: Position, down: bool) {
        let now = self.clock.now_millis;
        let action = if down { Action::Down } else { Action::Up };
        match self.display.layers.last_mut() {
            Some(Layer::Decision(decision)) => {
                for _ in 0..3 {
                    decision.act(action, now, 1);
                }
            }
            Some(_) => drop(self.layer_action(action)),
            None => {
                self.with_screen(self.display.screen, |view, known, area| {
                    view.wheel(at, down, known, area);
                    Vec::new()
                });
            }
        }
    }
}
