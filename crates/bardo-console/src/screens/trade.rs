//! Screen 2: manual use of every trading tool. A form is built from the tool's schema, and a quote follows the typing.
//! A preview shows the simulated offer, and then the same approval dialog opens as for the Golem's actions. Manual
//! actions use the same pipeline as the Golem's.

mod answer;
mod choices;
mod layout;
mod quote;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Position, Rect};
use serde_json::{Map, Value};

use answer::{events_of, permit};
use quote::says_an_amount;

use super::form::Form;
use super::{Heard, Known, ScreenId, ScreenView, Wish, copied, look_at, ticket};
use crate::keymap::{Action, Key};
use crate::painter::{Painter, StyledText, line};
use crate::state::feed::CallSeen;
use crate::state::model::Money;
use crate::theme::Role;
use crate::widgets;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::quote::QuoteModel;
use bardo_base::id::CallId;
use bardo_base::model::{CapabilityTier, Category};
use bardo_base::text::{SafeText, width};
use bardo_session::envelope::{Status, ToolResponse};
use bardo_session::handle::{Command, ToolInfo};
use bardo_session::questions::QuestionKey;

/// Width from which form and answer stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 96;
/// Minimum time between two automatic quotes, in milliseconds.
const QUOTE_EVERY_MILLIS: u64 = 700;
/// Name of the tool that the automatic quotes call.
const QUOTE_TOOL: &str = "uniswap_get_quote";

/// Extra lines between fields and button, where there is room.
const ROOMY: u16 = 6;
/// Lines below the fields: the choices, two of help, the button.
const BELOW: u16 = 4;

/// Purpose of a command that this screen sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Quote,
    /// A preview and the commit of its offer. Both use the ticket of the preview.
    Preview,
}

/// Preview with the parameters that it is for.
#[derive(Debug, Clone, PartialEq)]
struct Preview {
    /// Count of the command that requested it.
    count: u32,
    params: Value,
    response: Box<ToolResponse>,
    /// Kind of money in use when the preview was requested.
    money: Option<Money>,
}

impl Preview {
    /// Key of the offer's approval request; `None` if the response holds no permit.
    fn key(&self) -> Option<QuestionKey> {
        let permit = permit(&self.response)?.get("permit_id").and_then(Value::as_str)?;
        Some(QuestionKey::Action(permit.parse().ok()?))
    }
}

/// State of screen 2.
#[derive(Debug, Default)]
pub struct Trade {
    /// Tool names; empty until the session is ready.
    tools: Vec<String>,
    chosen: usize,
    forms: Vec<Form>,
    /// Set while the form has the focus.
    typing: bool,
    /// Set while the answer fills the screen.
    zoomed: bool,
    quote: Option<QuoteModel>,
    /// Parameters that the quote is for.
    quoted: Value,
    asking_quote: bool,
    last_quote_millis: u64,
    preview: Option<Preview>,
    /// Pending preview: its count, its parameters, and the kind of money.
    previewing: Option<(u32, Value, Option<Money>)>,
    /// Call that carries out an offer, and the count of the command that previewed it.
    deed: Option<(CallId, u32)>,
    deed_response: Option<Box<ToolResponse>>,
    sent: u32,
    purposes: Vec<(u32, Purpose)>,
    remark: Option<String>,
}

fn notice(words: &str) -> Vec<Wish> {
    vec![Wish::Notice(SafeText::clean(words, 200))]
}

fn trading<'k>(known: &Known<'k>) -> impl Iterator<Item = &'k ToolInfo> {
    known.ready.into_iter().flat_map(|ready| ready.tools.iter()).filter(|tool| tool.category == Category::Trading)
}

impl Trade {
    /// Creates the forms once the tools are known. Swaps come first, because they are used most.
    fn learn(&mut self, known: &Known<'_>) {
        if !self.tools.is_empty() {
            return;
        }
        let mut all: Vec<&ToolInfo> = trading(known).collect();
        all.sort_by_key(|tool| (tool.capability != CapabilityTier::Write, !tool.name.as_str().contains("swap")));
        for tool in all {
            let mut form = Form::of(tool);
            // Every form needs a chain, so the first one is preset.
            let first = known.page.network.as_ref().and_then(|network| network.chains.first());
            if let Some(chain) = first {
                let chain = Value::from(chain.name.as_str());
                form.fill(&Value::Object(Map::from_iter([("chain".to_owned(), chain)])));
            }
            self.tools.push(tool.name.to_string());
            self.forms.push(form);
        }
    }

    fn form(&self) -> Option<&Form> {
        self.forms.get(self.chosen)
    }

    fn tool<'k>(&self, known: &Known<'k>) -> Option<&'k ToolInfo> {
        let name = self.tools.get(self.chosen)?;
        trading(known).find(|tool| tool.name.as_str() == name)
    }

    fn writes(&self, known: &Known<'_>) -> bool {
        self.tool(known).is_some_and(|tool| tool.capability != CapabilityTier::Read)
    }

    fn choose(&mut self, at: usize) {
        if at != self.chosen && at < self.tools.len() {
            self.chosen = at;
            self.forget_preview();
            self.deed = None;
            self.deed_response = None;
            self.remark = None;
        }
    }

    /// Call that carries out the operator's action, in its current state.
    fn done<'k>(&self, known: &Known<'k>) -> Option<&'k CallSeen> {
        known.live_feed.call(self.deed?.0)
    }

    /// Ticket of the next command for this purpose.
    fn next_ticket(&mut self, purpose: Purpose) -> u64 {
        self.sent = self.sent.wrapping_add(1);
        // Drops the oldest entry, whose reply never came.
        if self.purposes.len() > 64 {
            self.purposes.remove(0);
        }
        self.purposes.push((self.sent, purpose));
        ticket(ScreenId::Trade, self.sent)
    }

    /// Command for a dry-run call of a tool, which signs nothing.
    fn call(&mut self, purpose: Purpose, tool: &str, params: Value) -> Wish {
        let (ticket, tool) = (self.next_ticket(purpose), tool.to_owned());
        Wish::Send(Box::new(Command::Call { ticket, tool, params, dry_run: true, idempotency_key: None }))
    }

    /// Performs the next step: calls a read tool, previews a write, or opens the approval dialog for a matching
    /// preview.
    fn submit(&mut self, known: &Known<'_>) -> Vec<Wish> {
        self.learn(known);
        let Some(tool) = self.tool(known) else { return notice("the tools are not known yet") };
        let Some(form) = self.form() else { return Vec::new() };
        let params = match form.params() {
            Ok(params) => params,
            Err(amiss) => {
                let words = format!("{} {}", amiss.name.replace('_', " "), amiss.what);
                let at = form.fields.iter().position(|field| field.name == amiss.name);
                if let (Some(at), Some(form)) = (at, self.forms.get_mut(self.chosen)) {
                    form.at = at;
                }
                self.typing = true;
                self.remark = Some(words);
                return Vec::new();
            }
        };
        self.remark = None;
        let name = tool.name.to_string();
        if tool.capability == CapabilityTier::Read {
            self.preview = None;
            return vec![self.ask_preview(&name, params, true, known)];
        }
        if known.watch_only {
            return notice("this console is read-only: it cannot trade");
        }
        if self.offered(&params, known) {
            return vec![Wish::OpenOffer];
        }
        self.preview = None;
        self.deed = None;
        self.deed_response = None;
        vec![self.ask_preview(&name, params, false, known)]
    }

    /// Requests the reply of a read tool or the preview of a write. A write's offer is held until it is committed or
    /// expires. Stores the parameters, because the answer is valid only for them.
    fn ask_preview(&mut self, tool: &str, params: Value, reads: bool, known: &Known<'_>) -> Wish {
        let wish = if reads {
            self.call(Purpose::Preview, tool, params.clone())
        } else {
            let (ticket, tool) = (self.next_ticket(Purpose::Preview), tool.to_owned());
            Wish::Send(Box::new(Command::Offer { ticket, tool, params: params.clone() }))
        };
        self.previewing = Some((self.sent, params, known.money));
        wish
    }

    /// Discards the preview and any pending one, because the form has changed.
    fn forget_preview(&mut self) {
        self.preview = None;
        self.previewing = None;
    }

    /// Returns true if the session holds a valid simulated offer for exactly these parameters.
    fn offered(&self, params: &Value, known: &Known<'_>) -> bool {
        let Some(preview) = &self.preview else { return false };
        let holds = permit(&preview.response).and_then(|permit| permit.get("expires_at")).and_then(Value::as_u64);
        preview.params == *params
            && preview.money == known.money
            && preview.response.status == Status::Simulated
            && holds.is_some_and(|until| until > known.live_millis)
            && self.is_held(known)
    }

    /// Returns true if the session still holds the last previewed offer.
    fn is_held(&self, known: &Known<'_>) -> bool {
        let key = self.preview.as_ref().and_then(Preview::key);
        key.is_some() && key == known.offer.map(|question| question.key)
    }

    /// Returns true if Enter opens the approval dialog for the current form.
    fn can_be_done(&self, known: &Known<'_>) -> bool {
        self.form().and_then(|form| form.params().ok()).is_some_and(|params| self.offered(&params, known))
    }

    /// Discards an offer that would now move a different kind of money, such as one previewed on paper after paper
    /// trading ended.
    fn close_outdated(&mut self, known: &Known<'_>) {
        let moves_other = |preview: &mut Preview| preview.key().is_some() && preview.money != known.money;
        if self.preview.take_if(moves_other).is_some() {
            self.remark = Some("The kind of money has changed: preview again.".to_owned());
        }
    }
}

impl ScreenView for Trade {
    fn id(&self) -> ScreenId {
        ScreenId::Trade
    }

    fn draw(&self, known: &Known<'_>, painter: &mut Painter<'_>, area: Rect) {
        if known.replayed() {
            painter.frame(area, &[("Trade".to_owned(), Role::Title)], &[], Role::Border);
            painter.text(line(area, 1), area.x + 2, "Nothing can be traded in a recording.", Role::TextDim);
            return;
        }
        let (list, form_area, answer) = self.plan(area);
        let mut pieces: Vec<StyledText> = Vec::new();
        let tabs = self.tabs(list.width);
        let shown = tabs.len();
        for (at, word) in tabs {
            let role = if at == self.chosen { Role::Selection } else { Role::TextDim };
            let mark = if at == self.chosen { "▸" } else { " " };
            pieces.push((format!("{mark}{word}"), role));
        }
        if shown < self.tools.len() {
            pieces.push((format!(" + {} more", self.tools.len() - shown), Role::TextDim));
        }
        painter.pieces(list, &cut(&pieces, usize::from(list.width)));
        if form_area.height >= 2 && form_area.width >= 4 {
            let edge = if self.typing { Role::BorderFocus } else { Role::Border };
            let title = self.tools.get(self.chosen).map_or("Trade".to_owned(), |name| widgets::plain::tool_word(name));
            let keys = if self.typing { "Tab next · Esc leaves" } else { "Enter types · ← → tool" };
            painter.frame(form_area, &[(title, Role::Title)], &[(keys.to_owned(), Role::TextDim)], edge);
            let (fields, button) = self.inside(form_area);
            match self.form() {
                Some(form) => {
                    form.draw(painter, fields, self.typing);
                    if form_area.height > 7 {
                        self.draw_choices(known, painter, Self::choices_line(fields, button));
                    }
                    let help = match &self.remark {
                        Some(remark) => (format!("! {remark}"), Role::StateBad),
                        None => (form.help().to_string(), Role::TextDim),
                    };
                    let place = Self::help_place(fields, button, form_area);
                    if form_area.height > 6 {
                        rows(painter, place, &wrapped(vec![Row::new(help.0, help.1)], place.width.into()));
                    }
                    let words = match (self.writes(known), self.can_be_done(known)) {
                        (false, _) => "[ Run ]",
                        (true, false) => "[ Preview ]",
                        (true, true) => "[ Decide… ]",
                    };
                    painter.pieces(button, &[(words.to_owned(), Role::Key), (" Enter".to_owned(), Role::TextDim)]);
                }
                None => {
                    painter.text(line(fields, 0), fields.x, "The tools are not known yet.", Role::TextDim);
                }
            }
        }
        self.draw_answer(known, painter, answer);
    }

    fn act(&mut self, action: Action, known: &Known<'_>, _area: Rect) -> Option<Vec<Wish>> {
        self.learn(known);
        let count = self.tools.len().max(1);
        match action {
            Action::Open => (self.typing, self.zoomed) = (true, false),
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Left | Action::PreviousPanel => self.choose((self.chosen + count - 1) % count),
            Action::Right | Action::NextPanel => self.choose((self.chosen + 1) % count),
            Action::Down | Action::Up => {
                (self.typing, self.zoomed) = (true, false);
                if let Some(form) = self.forms.get_mut(self.chosen) {
                    form.step(action == Action::Down);
                }
            }
            Action::Copy => {
                if let Some(call) = self.done(known) {
                    return Some(vec![copied(call)]);
                }
                let preview = self.preview.as_ref()?;
                return Some(vec![Wish::Copy(serde_json::to_string_pretty(&preview.response).ok()?)]);
            }
            Action::Explorer => return Some(look_at(self.done(known)?, known)),
            _ => return None,
        }
        Some(Vec::new())
    }

    fn takes_text(&self) -> bool {
        self.typing && self.form().is_some()
    }

    fn type_key(&mut self, key: Key, known: &Known<'_>, wishes: &mut Vec<Wish>) -> bool {
        self.close_outdated(known);
        self.learn(known);
        let Some(form) = self.forms.get_mut(self.chosen) else { return false };
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) => self.typing = false,
            (KeyCode::Tab | KeyCode::Down, KeyModifiers::NONE) => form.step(true),
            (KeyCode::BackTab | KeyCode::Up, _) => form.step(false),
            (KeyCode::Enter, _) => wishes.extend(self.submit(known)),
            (KeyCode::Char('c'), KeyModifiers::CONTROL) if !form.holds_something() => self.typing = false,
            (KeyCode::Char('x' | 'l' | 'z' | 'p'), KeyModifiers::CONTROL) => return false,
            _ => {
                if form.key(key) {
                    self.remark = None;
                    self.forget_preview();
                    wishes.extend(self.follow(known));
                }
            }
        }
        true
    }

    fn paste(&mut self, text: &SafeText) {
        if let (true, Some(form)) = (self.typing, self.forms.get_mut(self.chosen)) {
            form.insert(text.as_str());
            self.forget_preview();
        }
    }

    fn click(&mut self, at: Position, known: &Known<'_>, area: Rect) -> Vec<Wish> {
        self.close_outdated(known);
        self.learn(known);
        let (list, form_area, _) = self.plan(area);
        if list.contains(at) {
            let mut x = list.x;
            for (tool, word) in self.tabs(list.width) {
                let end = x.saturating_add(u16::try_from(width(&word) + 1).unwrap_or(u16::MAX));
                if (x..end).contains(&at.x) {
                    self.choose(tool);
                    break;
                }
                x = end;
            }
            return Vec::new();
        }
        let (fields, button) = self.inside(form_area);
        if button.contains(at) {
            return self.submit(known);
        }
        let choices = self.choice_places(known, Self::choices_line(fields, button));
        if let Some((_, choice)) = choices.into_iter().find(|(place, _)| place.contains(at)) {
            return self.choose_value(&choice, known);
        }
        if let Some(form) = self.forms.get_mut(self.chosen)
            && let Some(field) = form.field_at(at, fields)
        {
            let again = form.at == field && self.typing;
            form.at = field;
            self.typing = true;
            let kind = form.fields.get(field).map(|field| field.kind);
            if again && kind == Some(super::form::Kind::Switch) {
                form.key(Key::plain(KeyCode::Char(' ')));
                self.forget_preview();
            }
        }
        Vec::new()
    }

    fn hear(&mut self, count: u32, heard: Heard, known: &Known<'_>) -> Vec<Wish> {
        let Some(purpose) = self.purposes.iter().find(|(sent, _)| *sent == count).map(|(_, purpose)| *purpose) else {
            return Vec::new();
        };
        match (purpose, heard) {
            // The second start under this ticket is the execution of the offer.
            (Purpose::Preview, Heard::Began(call)) => {
                if self.preview.take_if(|preview| preview.count == count).is_some() {
                    (self.deed, self.deed_response) = (Some((call, count)), None);
                }
            }
            (Purpose::Quote, Heard::Began(call)) => return vec![Wish::SetAside(call)],
            (Purpose::Quote, Heard::Reply(response)) => {
                self.asking_quote = false;
                if let Some(quote) = &mut self.quote {
                    for kind in events_of(&response, known.now_millis.saturating_sub(quote.call.at)) {
                        quote.fold(known.now_millis, &kind);
                    }
                }
                return self.follow(known).into_iter().collect();
            }
            (Purpose::Preview, Heard::Reply(response)) => {
                if let Some((_, params, money)) = self.previewing.take_if(|(asked, ..)| *asked == count) {
                    self.preview = Some(Preview { count, params, response, money });
                } else if self.deed.is_some_and(|(_, of)| of == count) {
                    let words = response.explanation.clone().unwrap_or_default();
                    self.deed_response = Some(response);
                    return notice(&words);
                }
            }
            (_, Heard::Found(_)) => {}
        }
        Vec::new()
    }

    fn tick(&mut self, known: &Known<'_>) -> Vec<Wish> {
        self.close_outdated(known);
        self.follow(known).into_iter().collect()
    }

    fn wakes_at(&self) -> Option<u64> {
        let asked = self.quote_params().filter(|params| says_an_amount(params.get("amount")));
        let changed = asked.is_some_and(|params| params != self.quoted);
        (changed && !self.asking_quote).then(|| self.last_quote_millis.saturating_add(QUOTE_EVERY_MILLIS))
    }

    fn shown(&mut self, known: &Known<'_>) -> Vec<Wish> {
        self.learn(known);
        Vec::new()
    }
}
