//! Screen 2: manual use of every trading tool. A form is built from the tool's schema, and a quote follows the typing.
//! A preview shows the simulated offer, and then the same approval dialog opens as for the Golem's actions. Manual
//! actions use the same pipeline as the Golem's.

mod answer;
mod choices;
mod layout;
mod quote;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;
use serde_json::{Map, Value};

use answer::{events_of, permit};
use quote::is_positive_amount;

use super::form::{FormFields, ToolForm, parameter_label};
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, copied, copy_explorer_link, ticket};
use crate::keymap::{Action, Key};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::state::feed::CallSeen;
use crate::state::model::MoneyKind;
use crate::theme::{Role, Theme};
use crate::widgets;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::quote::QuoteModel;
use bardo_base::id::CallId;
use bardo_base::model::{ActionClass, CapabilityTier, Category};
use bardo_base::text::{SafeText, width};
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_session::handle::{SessionCommand, ToolInfo};
use bardo_session::questions::QuestionKey;

/// Width from which form and answer stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 96;
/// Minimum time between two automatic quotes, in milliseconds.
const QUOTE_EVERY_MILLIS: u64 = 700;
/// Tools whose forms come first, in this order.
const USED_MOST: [&str; 4] =
    [SWAP_TOOL, "uniswap_submit_cross_chain_intent", "uniswap_submit_uniswapx_order", "wallet_transfer_token"];
/// Name of the tool that the automatic quotes call.
const QUOTE_TOOL: &str = "uniswap_get_quote";
/// Name of the tool that swaps by the quoted route.
const SWAP_TOOL: &str = "uniswap_execute_swap";

/// Extra lines between fields and button, where there is room.
const ROOMY: u16 = 6;
/// Lines below the fields: the choices, two of help, the button.
const BELOW: u16 = 4;

/// Lines of the lowest form: its frame, a field, the button.
const LEAST_FORM: u16 = 4;

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
    /// Time of the response, in milliseconds since the Unix epoch: a limit that frees up counts down from it.
    answered_at: u64,
    /// Kind of money in use when the preview was requested.
    money: Option<MoneyKind>,
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
    forms: Vec<ToolForm>,
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
    previewing: Option<(u32, Value, Option<MoneyKind>)>,
    /// Call that carries out an offer, and the count of the command that previewed it.
    execution: Option<(CallId, u32)>,
    execution_response: Option<Box<ToolResponse>>,
    /// Version of the policy that quote and preview were checked with.
    policy_version: Option<u64>,
    sent: u32,
    purposes: Vec<(u32, Purpose)>,
    remark: Option<String>,
    /// Parameters that the next Enter records, or that were recorded: a tool that signs nothing has no preview, and acts at once.
    recording: Option<(Value, bool)>,
}

fn notice(words: &str) -> Vec<ScreenRequest> {
    vec![ScreenRequest::Notice(SafeText::clean(words, 200))]
}

/// Tools that the screen of transactions calls for its selected row.
const OF_TRANSACTIONS: [&str; 2] = ["speed_up_transaction", "cancel_transaction"];

/// Returns true for the tools with a form on this screen: all trading tools, those for liquidity and vaults, those that move
/// the wallet's tokens, and those that act on protocol fees and hooks.
pub fn has_form(tool: &ToolInfo) -> bool {
    let moves_tokens =
        tool.category == Category::Wallet && signs(tool) && !OF_TRANSACTIONS.contains(&tool.name.as_str());
    let of_others = matches!(tool.category, Category::Fees | Category::Hook) && signs(tool);
    matches!(tool.category, Category::Trading | Category::Lp | Category::Vault) || moves_tokens || of_others
}

/// Returns true if the tool can end in a signature.
pub(super) fn signs(tool: &ToolInfo) -> bool {
    tool.capability != CapabilityTier::Read && tool.action_class != ActionClass::ReadOnly
}

fn trading<'k>(known: &ScreenContext<'k>) -> impl Iterator<Item = &'k ToolInfo> {
    known.ready.into_iter().flat_map(|ready| ready.tools.iter()).filter(|tool| has_form(tool))
}

impl Trade {
    /// Creates the forms once the tools are known. The tools that are used most come first.
    fn learn(&mut self, known: &ScreenContext<'_>) {
        if !self.tools.is_empty() {
            return;
        }
        let mut all: Vec<&ToolInfo> = trading(known).collect();
        let place = |name: &str| USED_MOST.iter().position(|used| *used == name).unwrap_or(USED_MOST.len());
        all.sort_by_key(|tool| (tool.capability != CapabilityTier::Write, place(tool.name.as_str())));
        for tool in all {
            let mut form = ToolForm::of(tool);
            if let Some(chain) = Self::first_chain(known) {
                form.fill(&chain);
            }
            self.tools.push(tool.name.to_string());
            self.forms.push(form);
        }
    }

    /// Chain that every form starts with, since each needs one.
    fn first_chain(known: &ScreenContext<'_>) -> Option<Value> {
        let chain = known.page.network.as_ref()?.chains.first()?;
        let names = ["chain", "chain_id"].map(|name| (name.to_owned(), Value::from(chain.name.as_str())));
        Some(Value::Object(Map::from_iter(names)))
    }

    fn form(&self) -> Option<&ToolForm> {
        self.forms.get(self.chosen)
    }

    fn tool<'k>(&self, known: &ScreenContext<'k>) -> Option<&'k ToolInfo> {
        let name = self.tools.get(self.chosen)?;
        trading(known).find(|tool| tool.name.as_str() == name)
    }

    fn writes(&self, known: &ScreenContext<'_>) -> bool {
        self.tool(known).is_some_and(|tool| tool.capability != CapabilityTier::Read)
    }

    /// Returns true for a tool that changes records and signs nothing, so that there is nothing to preview.
    fn records(&self, known: &ScreenContext<'_>) -> bool {
        self.tool(known).is_some_and(|tool| tool.capability != CapabilityTier::Read && !signs(tool))
    }

    fn choose(&mut self, at: usize) {
        if at != self.chosen && at < self.tools.len() {
            self.chosen = at;
            self.forget_preview();
            self.execution = None;
            self.execution_response = None;
            self.remark = None;
            self.recording = None;
        }
    }

    /// Call that carries out the operator's action, in its current state.
    fn done<'k>(&self, known: &ScreenContext<'k>) -> Option<&'k CallSeen> {
        known.live_feed.call(self.execution?.0)
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
    fn call(&mut self, purpose: Purpose, tool: &str, params: Value) -> ScreenRequest {
        let (ticket, tool) = (self.next_ticket(purpose), tool.to_owned());
        ScreenRequest::Send(Box::new(SessionCommand::Call {
            ticket,
            tool,
            params,
            dry_run: true,
            idempotency_key: None,
            unasked: purpose == Purpose::Quote,
        }))
    }

    /// Performs the next step: calls a read tool, previews a write, or opens the approval dialog for a matching
    /// preview.
    fn submit(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.learn(known);
        let Some(tool) = self.tool(known) else { return notice("the tools are not known yet") };
        let Some(form) = self.form() else { return Vec::new() };
        let params = match form.params() {
            Ok(params) => params,
            Err(amiss) => {
                let words = format!("{} {}", parameter_label(&amiss.name), amiss.what);
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
        if !signs(tool) {
            return self.record(&name, params, known);
        }
        if self.offered(&params, known) {
            return vec![ScreenRequest::OpenOffer];
        }
        self.preview = None;
        self.execution = None;
        self.execution_response = None;
        vec![self.ask_preview(&name, params, false, known)]
    }

    /// Runs a tool that records at the second Enter, once for the same form: what it does is done at once.
    fn record(&mut self, tool: &str, params: Value, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let has_failed = self.preview.as_ref().is_some_and(|preview| preview.response.error.is_some());
        match &self.recording {
            Some((same, true)) if *same == params && !has_failed => {
                notice("this is done already: change the form to do it once more")
            }
            Some((same, false)) if *same == params => {
                self.recording = Some((params.clone(), true));
                let (ticket, tool) = (self.next_ticket(Purpose::Preview), tool.to_owned());
                self.previewing = Some((self.sent, params.clone(), known.money));
                vec![ScreenRequest::Send(Box::new(SessionCommand::Call {
                    ticket,
                    tool,
                    params,
                    dry_run: false,
                    idempotency_key: None,
                    unasked: false,
                }))]
            }
            _ => {
                self.preview = None;
                self.recording = Some((params, false));
                self.remark = Some("Nothing is done yet: Enter again does it, without a preview.".to_owned());
                Vec::new()
            }
        }
    }

    /// Requests the reply of a read tool or the preview of a write. A write's offer is held until it is committed or
    /// expires. Stores the parameters, because the answer is valid only for them.
    fn ask_preview(&mut self, tool: &str, params: Value, reads: bool, known: &ScreenContext<'_>) -> ScreenRequest {
        let request = if reads {
            self.call(Purpose::Preview, tool, params.clone())
        } else {
            let (ticket, tool) = (self.next_ticket(Purpose::Preview), tool.to_owned());
            // The quote beside a new offer is a new one, too.
            self.quoted = Value::Null;
            ScreenRequest::Send(Box::new(SessionCommand::Offer { ticket, tool, params: params.clone() }))
        };
        self.previewing = Some((self.sent, params, known.money));
        request
    }

    /// Discards the preview and any pending one, because the form has changed.
    fn forget_preview(&mut self) {
        self.preview = None;
        self.previewing = None;
        self.recording = None;
    }

    /// Returns to the form after an action that has ended: its card and the quote before it are outdated.
    fn start_over(&mut self, known: &ScreenContext<'_>) {
        let ended = match self.execution {
            Some(_) => self.execution_response.is_some() || self.done(known).is_some_and(|call| call.end().is_some()),
            None => return,
        };
        if ended {
            (self.execution, self.execution_response) = (None, None);
            (self.quote, self.quoted) = (None, Value::Null);
        }
    }

    /// Discards quote, preview and result after a change of the policy, because its checks answer differently now.
    fn follow_policy(&mut self, known: &ScreenContext<'_>) {
        let Some(version) = known.policy().map(|policy| policy.version) else { return };
        let before = self.policy_version.replace(version);
        if before.is_some_and(|before| before != version) {
            if self.preview.is_some() || self.previewing.is_some() {
                self.remark = Some("The policy has changed: preview again.".to_owned());
            }
            self.forget_preview();
            self.start_over(known);
            (self.quote, self.quoted) = (None, Value::Null);
        }
    }

    /// Returns true if the session holds a valid simulated offer for exactly these parameters.
    fn offered(&self, params: &Value, known: &ScreenContext<'_>) -> bool {
        let Some(preview) = &self.preview else { return false };
        let holds = permit(&preview.response).and_then(|permit| permit.get("expires_at")).and_then(Value::as_u64);
        preview.params == *params
            && preview.money == known.money
            && preview.response.status == CallStatus::Simulated
            && holds.is_some_and(|until| until > known.live_millis)
            && self.is_held(known)
    }

    /// Returns true if the session still holds the last previewed offer.
    fn is_held(&self, known: &ScreenContext<'_>) -> bool {
        let key = self.preview.as_ref().and_then(Preview::key);
        key.is_some() && key == known.offer.map(|question| question.key)
    }

    /// Returns true if Enter opens the approval dialog for the current form.
    fn can_be_done(&self, known: &ScreenContext<'_>) -> bool {
        self.form().and_then(|form| form.params().ok()).is_some_and(|params| self.offered(&params, known))
    }

    /// Discards an offer that would now move a different kind of money, such as one previewed on paper after paper
    /// trading ended.
    fn close_outdated(&mut self, known: &ScreenContext<'_>) {
        let moves_other = |preview: &mut Preview| preview.key().is_some() && preview.money != known.money;
        if self.preview.take_if(moves_other).is_some() {
            self.remark = Some("The kind of money has changed: preview again.".to_owned());
        }
    }
}

/// Panel of the form, with the choices and the help of its focused field.
struct FormPanel<'a> {
    theme: &'a Theme,
    screen: &'a Trade,
    known: &'a ScreenContext<'a>,
}

impl Widget for FormPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let edge = if screen.typing { Role::BorderFocus } else { Role::Border };
        let title = screen.tools.get(screen.chosen).map_or("Trade".to_owned(), |name| widgets::plain::tool_word(name));
        let keys = if screen.typing { "Tab next · Esc leaves" } else { "Enter types · ← → tool" };
        painter.frame(area, &[(title, Role::Title)], &[(keys.to_owned(), Role::TextDim)], edge);
        let (fields, button) = screen.inside(area);
        match screen.form() {
            Some(form) => {
                painter.render(FormFields { theme: painter.theme, form, focused: screen.typing }, fields);
                if area.height > 7 {
                    painter.render(
                        choices::ChoiceLine { theme: painter.theme, screen, known },
                        Trade::choices_line(fields, button),
                    );
                }
                let help = match &screen.remark {
                    Some(remark) => (format!("! {remark}"), Role::StateBad),
                    None => (form.help().to_string(), Role::TextDim),
                };
                let place = Trade::help_place(fields, button, area);
                if area.height > 6 {
                    rows(painter, place, &wrapped(vec![Row::new(help.0, help.1)], place.width.into()));
                }
                let words = match (screen.writes(known), screen.can_be_done(known)) {
                    (_, _) if screen.records(known) => "[ Do it ]",
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
}

impl ScreenView for Trade {
    fn id(&self) -> ScreenId {
        ScreenId::Trade
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        if !known.may_read() {
            let words = match known.replayed() {
                true => "Nothing can be traded in a recording.",
                false => "This console is read-only: nothing can be traded here.",
            };
            painter.frame(area, &[("Trade".to_owned(), Role::Title)], &[], Role::Border);
            painter.text(line(area, 1), area.x + 2, words, Role::TextDim);
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
        let place = if shown < self.tools.len() { vec![(self.place_words(), Role::TextDim)] } else { Vec::new() };
        let room = usize::from(list.width).saturating_sub(styled_width(&place));
        painter.row(list, &cut(&pieces, room), &place);
        if form_area.height >= 2 && form_area.width >= 4 {
            painter.render(FormPanel { theme: painter.theme, screen: self, known }, form_area);
        }
        painter.render(answer::AnswerPanel { theme: painter.theme, screen: self, known }, answer);
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, _area: Rect) -> Option<Vec<ScreenRequest>> {
        if !known.may_read() {
            return None;
        }
        self.learn(known);
        let count = self.tools.len().max(1);
        match action {
            Action::Open => (self.typing, self.zoomed) = (true, false),
            Action::Filter => return Some(vec![ScreenRequest::Palette("form ".to_owned())]),
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
                return Some(vec![ScreenRequest::Copy(serde_json::to_string_pretty(&preview.response).ok()?)]);
            }
            Action::Explorer => return Some(copy_explorer_link(self.done(known)?, known)),
            _ => return None,
        }
        Some(Vec::new())
    }

    fn accepts_text(&self) -> bool {
        self.typing && self.form().is_some()
    }

    fn open_hint(&self, known: &ScreenContext<'_>) -> Option<&'static str> {
        known.may_read().then_some("types")
    }

    fn type_key(&mut self, key: Key, known: &ScreenContext<'_>, requests: &mut Vec<ScreenRequest>) -> bool {
        self.close_outdated(known);
        self.learn(known);
        let Some(form) = self.forms.get_mut(self.chosen) else { return false };
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) => self.typing = false,
            (KeyCode::Tab | KeyCode::Down, KeyModifiers::NONE) => form.step(true),
            (KeyCode::BackTab | KeyCode::Up, _) => form.step(false),
            (KeyCode::Enter, _) => requests.extend(self.submit(known)),
            (KeyCode::Char('c'), KeyModifiers::CONTROL) if !form.holds_something() => self.typing = false,
            // Of the keys that edit nothing, only those of every context, the palette and the help are passed on.
            (KeyCode::Char('x' | 'l' | 'z' | 'p'), KeyModifiers::CONTROL) | (KeyCode::F(1), _) => return false,
            _ => {
                if form.key(key) == Some(true) {
                    self.remark = None;
                    self.forget_preview();
                    self.start_over(known);
                    requests.extend(self.follow(known));
                }
            }
        }
        true
    }

    fn paste(&mut self, text: &SafeText) {
        if let (true, Some(form)) = (self.typing, self.forms.get_mut(self.chosen)) {
            form.paste(text);
            self.forget_preview();
        }
    }

    fn click_page(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        if !known.may_read() {
            return Vec::new();
        }
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
            if again && kind == Some(super::form::FieldKind::Switch) {
                _ = form.key(Key::plain(KeyCode::Char(' ')));
                self.forget_preview();
            }
        }
        Vec::new()
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(purpose) = self.purposes.iter().find(|(sent, _)| *sent == count).map(|(_, purpose)| *purpose) else {
            return Vec::new();
        };
        match (purpose, reply) {
            // The second start under this ticket is the execution of the offer.
            (Purpose::Preview, CommandReply::Began(call)) => {
                if self.preview.take_if(|preview| preview.count == count).is_some() {
                    (self.execution, self.execution_response) = (Some((call, count)), None);
                    // The action is under way: digits switch screens again.
                    self.typing = false;
                }
            }
            (Purpose::Quote, CommandReply::Began(call)) => return vec![ScreenRequest::SetAside(call)],
            (Purpose::Quote, CommandReply::Reply(response)) => {
                self.asking_quote = false;
                if let Some(quote) = &mut self.quote {
                    for kind in events_of(&response, known.now_millis.saturating_sub(quote.call.at)) {
                        quote.fold(known.now_millis, &kind);
                    }
                }
                return self.follow(known).into_iter().collect();
            }
            (Purpose::Preview, CommandReply::Reply(response)) => {
                if let Some((_, params, money)) = self.previewing.take_if(|(asked, ..)| *asked == count) {
                    let answered_at = known.live().millis;
                    if let (Some(error), Some(form)) = (&response.error, self.forms.get_mut(self.chosen)) {
                        form.focus_error(error);
                    }
                    self.preview = Some(Preview { count, params, response, answered_at, money });
                } else if self.execution.is_some_and(|(_, of)| of == count) {
                    let words = response.explanation.clone().unwrap_or_default();
                    self.execution_response = Some(response);
                    return notice(&words);
                }
            }
            (_, CommandReply::Found(_)) => {}
        }
        Vec::new()
    }

    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.close_outdated(known);
        self.follow_policy(known);
        self.follow(known).into_iter().collect()
    }

    fn wakes_at(&self) -> Option<u64> {
        let asked = self.quote_params().filter(|params| is_positive_amount(params.get("amount")));
        let changed = asked.is_some_and(|params| params != self.quoted);
        (changed && !self.asking_quote).then(|| self.last_quote_millis.saturating_add(QUOTE_EVERY_MILLIS))
    }

    fn fill_form(&mut self, tool: &str, params: &Value, known: &ScreenContext<'_>) -> bool {
        self.learn(known);
        let (Some(at), Some(info)) =
            (self.tools.iter().position(|name| name == tool), trading(known).find(|one| one.name.as_str() == tool))
        else {
            return false;
        };
        // Nothing of an earlier input stays in a form that is filled in for something else.
        let mut form = ToolForm::of(info);
        if let Some(chain) = Self::first_chain(known) {
            form.fill(&chain);
        }
        form.fill(params);
        form.at = form.fields.iter().position(|field| field.typed.text().is_empty()).unwrap_or(0);
        self.choose(at);
        self.forget_preview();
        (self.execution, self.execution_response) = (None, None);
        (self.quote, self.quoted) = (None, Value::Null);
        if let Some(kept) = self.forms.get_mut(at) {
            *kept = form;
        }
        (self.typing, self.zoomed, self.remark) = (true, false, None);
        true
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.learn(known);
        Vec::new()
    }
}
