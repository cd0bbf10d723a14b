//! Screen 6: tool catalog by category or tool set. Shows a tool's effect, permissions, checks, schema and prompt text
//! for the current phase. A form runs tools that only read.

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;
use serde_json::{Map, Value};

use super::filter::Filter;
use super::form::{FormFields, ToolForm, parameter_error, parameter_label};
use super::screen_dialog::column;
use super::trade::{has_form, signs};
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, ticket};
use crate::keymap::{Action, Key};
use crate::painter::{Painter, StyledText, line};
use crate::theme::{Role, Theme};
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::sprite::phase_words;
use crate::widgets::words::check_word;
use bardo_base::model::{CapabilityTier, Phase, Profile, RiskTier};
use bardo_base::text::SafeText;
use bardo_session::envelope::ToolResponse;
use bardo_session::handle::{SessionCommand, ToolInfo};

/// Width from which list and details stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 90;
/// Maximum number of lines kept of a reply.
const ANSWER_LINES: usize = 2_000;

/// State of screen 6.
#[derive(Debug, Default)]
pub struct Tools {
    selected: usize,
    /// Index of the displayed tool set in [`Profile::ALL`]; `None` shows all tools.
    profile: Option<usize>,
    form: Option<ToolForm>,
    answer: Option<Box<ToolResponse>>,
    asking: bool,
    remark: Option<String>,
    offset: usize,
    zoomed: bool,
    filter: Filter,
    sent: u32,
}

/// Row of the list.
enum CatalogRow<'k> {
    Category(&'static str, usize),
    Tool(&'k ToolInfo),
}

impl Tools {
    fn set(&self) -> Option<Profile> {
        self.profile.and_then(|at| Profile::ALL.get(at).copied())
    }

    fn tools<'k>(&self, known: &ScreenContext<'k>) -> Vec<&'k ToolInfo> {
        let set = self.set();
        let all = known.ready.map_or(&[] as &[ToolInfo], |ready| &ready.tools);
        let fits = |tool: &&ToolInfo| {
            let words = format!("{} {} {}", tool.name, tool.category.as_str(), tool.description);
            set.is_none_or(|set| tool.profiles.contains(&set)) && self.filter.lets(&words)
        };
        let mut all: Vec<_> = all.iter().filter(fits).collect();
        all.sort_by_key(|tool| (tool.category, tool.name.clone()));
        all
    }

    fn entries<'k>(&self, known: &ScreenContext<'k>) -> Vec<CatalogRow<'k>> {
        let tools = self.tools(known);
        let mut all = Vec::with_capacity(tools.len() + 8);
        let mut category = None;
        for tool in &tools {
            if category != Some(tool.category) {
                category = Some(tool.category);
                let count = tools.iter().filter(|other| other.category == tool.category).count();
                all.push(CatalogRow::Category(tool.category.as_str(), count));
            }
            all.push(CatalogRow::Tool(tool));
        }
        all
    }

    fn selected<'k>(&self, known: &ScreenContext<'k>) -> Option<&'k ToolInfo> {
        let tools = self.tools(known);
        tools.get(self.selected.min(tools.len().saturating_sub(1))).copied()
    }

    fn plan(&self, area: Rect) -> (Rect, Rect) {
        if self.zoomed {
            return (Rect { width: 0, height: 0, ..area }, area);
        }
        if area.width >= SIDE_BY_SIDE {
            // Wide enough for the longest tool name.
            return super::list::beside(area, (area.width * 2 / 5).clamp(50, 54));
        }
        super::list::stacked(area, if self.form.is_some() { 0 } else { area.height * 2 / 5 })
    }

    fn open(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(tool) = self.selected(known) else { return Vec::new() };
        if tool.capability != CapabilityTier::Read {
            if has_form(tool) {
                let (tool, params) = (tool.name.to_string(), Value::Object(Map::new()));
                return vec![ScreenRequest::OpenForm { tool, params }];
            }
            let words = if signs(tool) {
                "this tool signs: ask the Golem, or run it with `bardo call` from a shell"
            } else {
                "this tool signs nothing and changes records: run it with `bardo call` from a shell"
            };
            return vec![ScreenRequest::Notice(SafeText::clean(words, 120))];
        }
        let mut form = ToolForm::of(tool);
        form.fill(&tool.example);
        self.form = Some(form);
        self.answer = None;
        self.offset = 0;
        Vec::new()
    }

    fn run(&mut self) -> Vec<ScreenRequest> {
        let Some(form) = &mut self.form else { return Vec::new() };
        match form.params() {
            Ok(params) => {
                self.remark = None;
                self.asking = true;
                self.offset = 0;
                self.sent = self.sent.wrapping_add(1);
                vec![ScreenRequest::Send(Box::new(SessionCommand::Call {
                    ticket: ticket(ScreenId::Tools, self.sent),
                    tool: form.tool.clone(),
                    params,
                    dry_run: true,
                    idempotency_key: None,
                    unasked: false,
                }))]
            }
            Err(amiss) => {
                form.at = form.fields.iter().position(|field| field.name == amiss.name).unwrap_or(0);
                self.remark = Some(format!("{} {}", parameter_label(&amiss.name), amiss.what));
                Vec::new()
            }
        }
    }

    fn detail_rows(&self, known: &ScreenContext<'_>, tool: &ToolInfo) -> Vec<Row> {
        let phase = known.snapshot.map_or(Phase::Thriving, |snapshot| snapshot.phase);
        let label = |text: &str| (format!("{text:<10}"), Role::TextDim);
        let fact = |name: &str, words: String, role: Role| Row::of(vec![label(name), (words, role)]);
        let may = match tool.capability {
            CapabilityTier::Read => ("reads; signs nothing", Role::StateGood),
            CapabilityTier::Write if !signs(tool) => ("changes records; signs nothing", Role::StateCare),
            CapabilityTier::Write => ("signs, inside the policy", Role::StateCare),
            CapabilityTier::Privileged => ("changes who has authority; always asks you", Role::StateBad),
        };
        let checks: Vec<&str> = tool.checks.iter().map(|check| check_word(*check)).collect();
        let sets: Vec<&str> = tool.profiles.iter().map(|profile| profile.as_str()).collect();
        let mut all = vec![
            Row::new(tool.description.as_str(), Role::Text),
            Row::default(),
            fact("may", may.0.to_owned(), may.1),
            fact("risk", risk_words(tool.risk_tier).to_owned(), Role::Text),
            fact("takes", format!("usually less than {} s", tool.tick_budget.limit_millis() / 1000), Role::Text),
            fact("counts as", tool.action_class.to_string().replace('-', " "), Role::Text),
            fact("checks", checks.join(", "), Role::Text),
            fact("tool sets", sets.join(", "), Role::Text),
        ];
        if !tool.progress_steps.is_empty() {
            let steps: Vec<&str> = tool.progress_steps.iter().map(SafeText::as_str).collect();
            all.push(fact("steps", steps.join(" → "), Role::Text));
        }
        all.push(Row::default());
        let guideline = tool.guidelines.iter().find(|(of, _)| *of == phase).map(|(_, words)| words.as_str());
        all.push(Row::new(format!("In this phase, {}: ", phase_words(phase)), Role::Title));
        all.push(Row::new(guideline.unwrap_or("no guideline"), Role::Text));
        for (of, words) in tool.guidelines.iter().filter(|(of, _)| *of != phase) {
            all.push(Row::new(format!("{}: ", phase_words(*of)), Role::TextDim).then(words.as_str(), Role::TextDim));
        }
        all.push(Row::default());
        all.push(Row::new("Input (* required)", Role::Title));
        all.extend(schema_rows(&tool.input_schema));
        all.push(Row::new("Output", Role::Title));
        all.extend(schema_rows(&tool.output_schema));
        all
    }

    fn answer_rows(&self) -> Vec<Row> {
        if self.asking {
            return vec![Row::new("▸ running…", Role::Chart)];
        }
        let Some(answer) = &self.answer else {
            return vec![Row::new("Enter runs it. It is read-only.", Role::TextDim)];
        };
        let mut all = Vec::new();
        match &answer.error {
            Some(error) => {
                let plain = || (error.message().to_owned(), error.suggestion().to_owned());
                let (message, suggestion) = parameter_error(error).unwrap_or_else(plain);
                let words = format!("✕ {}: {}", error.code(), SafeText::clean(&message, 400));
                all.push(Row::new(words, Role::StateBad).kept());
                all.push(Row::new(SafeText::clean(&suggestion, 300).as_str(), Role::TextDim));
            }
            None => {
                let words = answer.explanation.as_deref().unwrap_or("");
                all.push(Row::new("✓ ", Role::StateGood).then(SafeText::clean(words, 600).as_str(), Role::Text));
            }
        }
        let data = answer.data.as_ref().unwrap_or(&Value::Null);
        let pretty = serde_json::to_string_pretty(data).unwrap_or_default();
        for text in pretty.lines().take(ANSWER_LINES) {
            let indent = text.len() - text.trim_start().len();
            let clean = SafeText::clean(text, 400);
            all.push(Row::new(format!("{}{clean}", " ".repeat(indent)), Role::Text));
        }
        all
    }
}

/// Display text of a risk tier.
const fn risk_words(tier: RiskTier) -> &'static str {
    match tier {
        RiskTier::Layer1 => "low: it only reads",
        RiskTier::Layer2 => "medium: it moves money within your limits",
        RiskTier::Layer3 => "high: it moves large amounts or changes authority",
    }
}

/// Display text of a JSON schema type.
fn kind_word(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "whole number",
        "boolean" => "yes or no",
        "array" => "list",
        other => other,
    }
}

/// Rows for the properties of a schema: name, type, required mark and description.
fn schema_rows(schema: &Value) -> Vec<Row> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let kind = |property: &Value| match property.get("type") {
        Some(Value::String(one)) => one.clone(),
        Some(Value::Array(many)) => {
            let named = many.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            named.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let row = |(name, property): (&String, &Value)| {
        let help = SafeText::clean(property.get("description").and_then(Value::as_str).unwrap_or(""), 300);
        let must = if required.contains(&name.as_str()) { "*" } else { "" };
        Row::new(format!("{name}{must} "), Role::TextStrong)
            .then(format!("{} ", kind_word(SafeText::clean(&kind(property), 40).as_str())), Role::TextDim)
            .then(help.as_str(), Role::Text)
    };
    let rows: Vec<Row> = properties.into_iter().flatten().map(row).collect();
    if rows.is_empty() { vec![Row::new("  nothing", Role::TextDim)] } else { rows }
}

/// Panel of the selected tool: its details, or its form and the answer.
struct ToolDetails<'a> {
    theme: &'a Theme,
    screen: &'a Tools,
    known: &'a ScreenContext<'a>,
}

impl Widget for ToolDetails<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let tool = screen.selected(known);
        if area.height < 2 || area.width < 4 {
            return;
        }
        let name = tool.map_or("Tool".to_owned(), |tool| tool.name.to_string());
        let focused = screen.form.is_some();
        let edge = if focused { Role::BorderFocus } else { Role::Border };
        let words = match (focused, tool) {
            (true, _) => "Enter runs · Esc back",
            (false, Some(tool)) if tool.capability == CapabilityTier::Read => "Enter opens its form",
            (false, None) => "Enter opens its form",
            (false, Some(tool)) if has_form(tool) => "Enter opens its form on screen 2",
            (false, Some(tool)) if signs(tool) => "it signs: no form here",
            (false, Some(_)) => "no form here",
        };
        let mark = if focused { "▸ " } else { "" };
        painter.frame(area, &[(format!("{mark}{name}"), Role::Title)], &[(words.to_owned(), Role::TextDim)], edge);
        let mut inner = Rect { x: area.x + 2, y: area.y + 1, width: area.width - 4, height: area.height - 2 };
        let body = match (&screen.form, tool) {
            (Some(form), _) => {
                let height = form.lines().min((inner.height / 2).max(1)).min(inner.height);
                painter.render(FormFields { theme: painter.theme, form, focused: true }, Rect { height, ..inner });
                let help = match &screen.remark {
                    Some(remark) => (format!("! {remark}"), Role::StateBad),
                    None => (form.help().to_string(), Role::TextDim),
                };
                let place = Rect { y: inner.y + height, height: 2.min(inner.height - height), ..inner };
                rows(painter, place, &wrapped(vec![Row::new(help.0, help.1)], place.width.into()));
                let used = (height + 3).min(inner.height);
                inner = Rect { y: inner.y + used, height: inner.height - used, ..inner };
                screen.answer_rows()
            }
            (None, Some(tool)) => screen.detail_rows(known, tool),
            (None, None) => Vec::new(),
        };
        let body = wrapped(body, inner.width.into());
        let offset = screen.offset.min(body.len().saturating_sub(usize::from(inner.height)));
        rows(painter, inner, body.get(offset..).unwrap_or(&[]));
    }
}

/// Panel of the tool catalog.
struct ToolList<'a> {
    theme: &'a Theme,
    screen: &'a Tools,
    known: &'a ScreenContext<'a>,
}

impl Widget for ToolList<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let entries = screen.entries(known);
        let tool = screen.selected(known);
        let set = screen.set().map_or("all tools".to_owned(), |set| format!("tool set {set}"));
        let title = format!("{}Tools {}", if screen.form.is_none() { "▸ " } else { "" }, screen.tools(known).len());
        let edge = if screen.form.is_none() { Role::BorderFocus } else { Role::Border };
        let mut filter = screen.filter.label();
        let right: Vec<StyledText> = match known.replayed() {
            true => Vec::new(),
            false => {
                filter.extend([
                    (" · ".to_owned(), Role::TextDim),
                    ("← → ".to_owned(), Role::Key),
                    (set, Role::TextDim),
                ]);
                filter
            }
        };
        painter.frame(area, &[(title, Role::Title)], &right, edge);
        let inner = Rect { x: area.x + 2, y: area.y + 1, width: area.width - 4, height: area.height - 2 };
        let here = entries
            .iter()
            .position(|entry| matches!(entry, CatalogRow::Tool(one) if tool.is_some_and(|tool| tool.name == one.name)));
        let offset = (here.unwrap_or(0) + 1).saturating_sub(usize::from(inner.height));
        for (at, (index, entry)) in (0..inner.height).zip(entries.iter().enumerate().skip(offset)) {
            let place = line(inner, at);
            match entry {
                CatalogRow::Category(name, count) => {
                    painter.pieces(place, &[(format!("{name} "), Role::Title), (count.to_string(), Role::TextDim)]);
                }
                CatalogRow::Tool(one) => {
                    let chosen = here == Some(index);
                    let (mark, role) = if chosen { ("▸ ", Role::Selection) } else { ("  ", Role::Text) };
                    let may = match one.capability {
                        CapabilityTier::Read => ("reads", Role::TextDim),
                        CapabilityTier::Write if !signs(one) => ("records", Role::StateCare),
                        CapabilityTier::Write => ("signs", Role::StateCare),
                        CapabilityTier::Privileged => ("authority", Role::StateBad),
                    };
                    // The mark comes first; a blank and the longest permission word follow the name.
                    let room = usize::from(place.width).saturating_sub(12);
                    let pieces = vec![
                        (mark.to_owned(), Role::BorderFocus),
                        (column(one.name.as_str(), room), role),
                        (format!(" {}", may.0), may.1),
                    ];
                    painter.pieces(place, &cut(&pieces, usize::from(place.width)));
                }
            }
        }
        if entries.is_empty() {
            let words = match (known.ready.is_some(), screen.filter.stands()) {
                _ if known.replayed() => "Not in this recording.",
                (true, true) => "No tool matches the filter; Esc clears it.",
                (true, false) => "No tools in this set.",
                (false, _) => "Not known yet.",
            };
            painter.text(line(inner, 0), inner.x, words, Role::TextDim);
        }
        if entries.len() > usize::from(inner.height) && inner.height > 0 {
            let words = format!(" {}–{} of {} ", offset + 1, offset + usize::from(inner.height), entries.len());
            let below = line(area, area.height - 1);
            painter.text(below, below.x + 2, &words, Role::TextDim);
        }
    }
}

impl ScreenView for Tools {
    fn id(&self) -> ScreenId {
        ScreenId::Tools
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let (list, details) = self.plan(area);
        if list.height >= 2 && list.width >= 4 {
            painter.render(ToolList { theme: painter.theme, screen: self, known }, list);
        }
        painter.render(ToolDetails { theme: painter.theme, screen: self, known }, details);
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let last = self.tools(known).len().saturating_sub(1);
        let at = self.selected.min(last);
        let page = usize::from(self.plan(area).1.height.max(4)) / 2;
        let before = self.selected;
        match action {
            Action::Down => self.selected = (at + 1).min(last),
            Action::Up => self.selected = at.saturating_sub(1),
            Action::Top => self.selected = 0,
            Action::Bottom => self.selected = last,
            Action::HalfPageDown => self.offset = self.offset.saturating_add(page).min(ANSWER_LINES),
            Action::HalfPageUp => self.offset = self.offset.saturating_sub(page),
            Action::Right | Action::NextPanel => {
                self.profile = match self.profile {
                    None => Some(0),
                    Some(at) if at + 1 < Profile::ALL.len() => Some(at + 1),
                    Some(_) => None,
                };
                self.selected = 0;
            }
            Action::Left | Action::PreviousPanel => {
                self.profile = match self.profile {
                    None => Profile::ALL.len().checked_sub(1),
                    Some(at) => at.checked_sub(1),
                };
                self.selected = 0;
            }
            Action::Open => return Some(self.open(known)),
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Filter => {
                self.zoomed = false;
                self.filter.open();
            }
            Action::Copy => return Some(vec![ScreenRequest::Copy(self.selected(known)?.name.to_string())]),
            _ => return None,
        }
        if before != self.selected {
            self.offset = 0;
        }
        Some(Vec::new())
    }

    fn accepts_text(&self) -> bool {
        self.form.is_some() || self.filter.typing()
    }

    fn filter(&self) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        Some(&mut self.filter)
    }

    fn type_key(&mut self, key: Key, known: &ScreenContext<'_>, requests: &mut Vec<ScreenRequest>) -> bool {
        let Some(form) = &mut self.form else {
            let is_edited = self.filter.key(key);
            // A changed filter selects the first tool with its words in the name, else the first that matches.
            let named = self.tools(known).iter().position(|tool| self.filter.lets(tool.name.as_str()));
            (self.selected, self.offset) = (named.unwrap_or(0), 0);
            return is_edited;
        };
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) => {
                self.form = None;
                self.answer = None;
                self.remark = None;
            }
            (KeyCode::Enter, _) => requests.extend(self.run()),
            (KeyCode::Tab | KeyCode::Down, KeyModifiers::NONE) => form.step(true),
            (KeyCode::BackTab | KeyCode::Up, _) => form.step(false),
            (KeyCode::PageDown, _) | (KeyCode::Char('d'), KeyModifiers::CONTROL) => {
                self.offset = self.offset.saturating_add(8).min(ANSWER_LINES);
            }
            (KeyCode::PageUp, _) => self.offset = self.offset.saturating_sub(8),
            (KeyCode::Char('c'), KeyModifiers::CONTROL) if !form.holds_something() => {
                self.form = None;
                self.answer = None;
                self.remark = None;
            }
            // Of the keys that edit nothing, only those of every context, the palette and the help are passed on.
            (KeyCode::Char('x' | 'l' | 'z' | 'p'), KeyModifiers::CONTROL) | (KeyCode::F(1), _) => return false,
            _ => _ = form.key(key),
        }
        true
    }

    fn paste(&mut self, text: &SafeText) {
        match &mut self.form {
            Some(form) => form.paste(text),
            None => self.filter.paste(text),
        }
    }

    fn click_page(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let (list, details) = self.plan(area);
        if list.contains(at) {
            let entries = self.entries(known);
            let tools = self.tools(known);
            let tool = self.selected(known);
            let visible = usize::from(list.height.saturating_sub(2));
            let here = entries.iter().position(
                |entry| matches!(entry, CatalogRow::Tool(one) if tool.is_some_and(|tool| tool.name == one.name)),
            );
            let offset = (here.unwrap_or(0) + 1).saturating_sub(visible);
            let row = usize::from(at.y.saturating_sub(list.y + 1)) + offset;
            if at.y > list.y
                && let Some(CatalogRow::Tool(one)) = entries.get(row)
            {
                let chosen = tools.iter().position(|tool| tool.name == one.name).unwrap_or(0);
                let again = chosen == self.selected && self.form.is_none();
                self.selected = chosen;
                self.form = None;
                self.offset = 0;
                if again {
                    return self.open(known);
                }
            }
            return Vec::new();
        }
        if !details.contains(at) {
            return Vec::new();
        }
        if at.y == details.y {
            // The text at the upper edge is a button.
            return if self.form.is_some() { self.run() } else { self.open(known) };
        }
        let inner = Rect { x: details.x + 2, y: details.y + 1, width: details.width.saturating_sub(4), ..details };
        if let Some(form) = &mut self.form {
            let height = form.lines().min(details.height.saturating_sub(2) / 2);
            if let Some(field) = form.field_at(at, Rect { height, ..inner }) {
                form.at = field;
            }
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, down: bool, known: &ScreenContext<'_>, area: Rect) {
        let (list, _) = self.plan(area);
        if list.contains(at) {
            let last = self.tools(known).len().saturating_sub(1);
            self.selected = if down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
        } else {
            self.offset = if down { (self.offset + 3).min(ANSWER_LINES) } else { self.offset.saturating_sub(3) };
        }
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if let (true, CommandReply::Reply(response)) = (count == self.sent, reply) {
            self.asking = false;
            if let (Some(error), Some(form)) = (&response.error, &mut self.form) {
                form.focus_error(error);
            }
            self.answer = Some(response);
        }
        Vec::new()
    }
}
