//! Form built from the input schema of a tool: one field per parameter, with the schema's own description as help.

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;
use serde_json::{Map, Value};

use crate::keymap::Key;
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::screens::list;
use crate::theme::{Role, Theme};
use crate::widgets;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::text_field::TextField;
use crate::widgets::text_input::{CURSOR, TextInput};
use bardo_base::error::ToolError;
use bardo_base::text::{SafeText, fit, width};
use bardo_session::handle::ToolInfo;

/// Maximum length of a field, in characters.
const LONGEST: usize = 4_000;
/// Width below which the focused field has its whole line, in columns.
const CRAMPED: u16 = 60;

/// Type of value that a field accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text of any content.
    Text,
    /// Unsigned whole number.
    Whole,
    /// Boolean, switched instead of typed.
    Switch,
    /// JSON of any shape.
    Json,
}

/// Field for one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterField {
    /// Name of the parameter.
    pub name: String,
    /// Description of the parameter in the schema.
    pub help: SafeText,
    /// Type of value that the field accepts.
    pub kind: FieldKind,
    /// True if the field must not be empty.
    pub required: bool,
    /// Default value of the parameter, used while the field is empty.
    pub default: Value,
    /// Text typed so far.
    pub typed: TextField,
}

/// Label of a parameter: its name in words, with the unit where the name does not say it.
pub fn parameter_label(name: &str) -> String {
    match name {
        // The tools name a chain by its name too, whatever the parameter is called.
        "chain_id" => "chain".to_owned(),
        "prefer_uniswapx" => "prefer auction".to_owned(),
        "intent_id" => "bridge order".to_owned(),
        "deadline" | "expires_in" => format!("{}, s", name.replace('_', " ")),
        "decay_start_time" => "price falls from, s".to_owned(),
        "decay_end_time" => "price falls until, s".to_owned(),
        other => [("_bps", "bps"), ("_seconds", "s")]
            .into_iter()
            .find_map(|(end, unit)| Some(format!("{}, {unit}", other.strip_suffix(end)?.replace('_', " "))))
            .unwrap_or_else(|| other.replace('_', " ")),
    }
}

/// Parameter that a tool's error is about, with the error's message and suggestion in the words of a form: its field has
/// a label, and no shell beside it. `None` if the error names no parameter.
pub fn parameter_error(error: &ToolError) -> Option<(String, String)> {
    let name = error.details().get("parameter")?.as_str()?;
    let label = parameter_label(name);
    let start = format!("parameter `{name}`: ");
    let message = error.message().strip_prefix(&start).unwrap_or(error.message());
    // A suggestion of the tool's own says more than where to type.
    let usual = error.suggestion() == error.code().suggestion();
    let suggestion = if usual { format!("Correct the field “{label}”.") } else { help_words(error.suggestion()) };
    Some((format!("{label}: {message}"), suggestion))
}

/// Description of a parameter in the words of the screen: names of tools and of parameters as the form shows them.
fn help_words(description: &str) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut words = String::new();
    let mut rest = description;
    while !rest.is_empty() {
        let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        match name {
            tool if tool.starts_with("uniswap") && tool.contains('_') => {
                words.push_str(&widgets::plain::tool_word(tool));
            }
            parameter if parameter.contains('_') => words.push_str(&parameter_label(parameter)),
            "intent" => words.push_str("bridge order"),
            other => words.push_str(other),
        }
        let gap = after.find(is_part).unwrap_or(after.len());
        let (between, next) = after.split_at(gap);
        words.push_str(between);
        rest = next;
    }
    words.replace("an bridge order", "a bridge order")
}

/// Invalid field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Name of the parameter.
    pub name: String,
    /// Rule that the field breaks, as it completes a sentence after the name.
    pub what: &'static str,
}

/// Form for the parameters of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolForm {
    /// Name of the tool.
    pub tool: String,
    /// Fields of the form, required ones first.
    pub fields: Vec<ParameterField>,
    /// Index of the focused field.
    pub at: usize,
}

/// Kind of a schema property. Unions with `null` count as the other type, and a union that permits text is text;
/// references are not followed.
fn kind_of(property: &Value) -> FieldKind {
    if let Some(all) = property.get("anyOf").and_then(Value::as_array) {
        let kinds: Vec<FieldKind> =
            all.iter().filter(|one| one.get("type") != Some(&Value::from("null"))).map(kind_of).collect();
        return match kinds.as_slice() {
            [one] => *one,
            many if many.contains(&FieldKind::Text) => FieldKind::Text,
            _ => FieldKind::Json,
        };
    }
    let named = |name: &str| match property.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(many)) => many.iter().any(|one| one == name),
        _ => false,
    };
    if named("boolean") {
        FieldKind::Switch
    } else if named("integer") {
        FieldKind::Whole
    } else if named("string") || property.get("type").is_none() && property.get("enum").is_some() {
        FieldKind::Text
    } else {
        FieldKind::Json
    }
}

impl ToolForm {
    /// Creates the empty form of a tool.
    pub fn of(tool: &ToolInfo) -> Self {
        let schema = &tool.input_schema;
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let field = |(name, property): (&String, &Value)| ParameterField {
            name: name.clone(),
            help: SafeText::clean(&help_words(property.get("description").and_then(Value::as_str).unwrap_or("")), 400),
            kind: kind_of(property),
            required: required.contains(&name.as_str()),
            default: property.get("default").cloned().unwrap_or(Value::Null),
            typed: TextField::with_limit("", LONGEST),
        };
        let mut fields: Vec<ParameterField> = properties.iter().map(field).collect();
        // Required fields in the order in which the tool lists them, then the others.
        let place = |field: &ParameterField| required.iter().position(|name| *name == field.name).unwrap_or(usize::MAX);
        fields.sort_by_key(place);
        Self { tool: tool.name.to_string(), fields, at: 0 }
    }

    /// Focuses the field that an error is about, if the form has it.
    pub fn focus_error(&mut self, error: &ToolError) {
        let name = error.details().get("parameter").and_then(Value::as_str);
        if let Some(at) = self.fields.iter().position(|field| Some(field.name.as_str()) == name) {
            self.at = at;
        }
    }

    /// Fills fields from an object, such as the tool's example or earlier input.
    pub fn fill(&mut self, values: &Value) {
        for field in &mut self.fields {
            match values.get(&field.name) {
                Some(Value::String(text)) => field.typed.replace(SafeText::clean(text, LONGEST).as_str()),
                Some(Value::Null) | None => {}
                Some(other) => field.typed.replace(&other.to_string()),
            }
        }
    }

    /// Parameters as typed, as a JSON object.
    ///
    /// # Errors
    /// The first field whose text is missing or does not match its kind.
    pub fn params(&self) -> Result<Value, FieldError> {
        let mut params = Map::new();
        for field in &self.fields {
            let amiss = |what| FieldError { name: field.name.clone(), what };
            let typed = field.typed.text().trim();
            if typed.is_empty() {
                if field.required {
                    return Err(amiss("is required"));
                }
                continue;
            }
            let value = match field.kind {
                FieldKind::Text => Value::from(typed),
                FieldKind::Whole => Value::from(typed.parse::<u64>().map_err(|_| amiss("must be a whole number"))?),
                FieldKind::Switch => Value::from(typed.parse::<bool>().map_err(|_| amiss("must be true or false"))?),
                FieldKind::Json => serde_json::from_str(typed).map_err(|_| amiss("must be JSON"))?,
            };
            params.insert(field.name.clone(), value);
        }
        Ok(Value::Object(params))
    }

    /// Trimmed text of a field; empty if nothing was typed or there is no such field.
    pub fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|field| field.name == name).map_or("", |field| field.typed.text().trim())
    }

    /// Moves the focus to the next or previous field, with wraparound.
    pub fn step(&mut self, forward: bool) {
        let count = self.fields.len().max(1);
        self.at = if forward { (self.at + 1) % count } else { (self.at + count - 1) % count };
    }

    /// Returns true if the focused field contains text.
    pub fn holds_something(&self) -> bool {
        self.fields.get(self.at).is_some_and(|field| !field.typed.text().is_empty())
    }

    /// Applies a key to the focused field. Returns whether the text changed; `None` if the key edits nothing, so that
    /// the caller may use it.
    pub fn key(&mut self, key: Key) -> Option<bool> {
        let field = self.fields.get_mut(self.at)?;
        let before = field.typed.text().to_owned();
        match (key.code, key.modifiers) {
            (KeyCode::Char('c'), KeyModifiers::CONTROL) => _ = field.typed.clear(),
            (KeyCode::Char(' '), _) | (KeyCode::Left | KeyCode::Right, _) if field.kind == FieldKind::Switch => {
                let holds = match field.typed.text() {
                    "" => field.default.as_bool().unwrap_or(false),
                    typed => typed == "true",
                };
                field.typed.replace(&(!holds).to_string());
            }
            (KeyCode::Char('y' | 'Y' | 't' | 'T'), KeyModifiers::NONE | KeyModifiers::SHIFT)
                if field.kind == FieldKind::Switch =>
            {
                field.typed.replace("true");
            }
            (KeyCode::Char('n' | 'N' | 'f' | 'F'), KeyModifiers::NONE | KeyModifiers::SHIFT)
                if field.kind == FieldKind::Switch =>
            {
                field.typed.replace("false");
            }
            // The rest of a word such as "yes" changes nothing.
            (KeyCode::Char(_), KeyModifiers::NONE | KeyModifiers::SHIFT) if field.kind == FieldKind::Switch => {}
            (KeyCode::Backspace | KeyCode::Delete, _) if field.kind == FieldKind::Switch => _ = field.typed.clear(),
            _ if !field.typed.key(key) => return None,
            _ => {}
        }
        self.fields.get(self.at).map(|field| field.typed.text() != before)
    }

    /// Inserts pasted text into the focused field.
    pub fn paste(&mut self, text: &SafeText) {
        if let Some(field) = self.fields.get_mut(self.at).filter(|field| field.kind != FieldKind::Switch) {
            field.typed.paste(text);
        }
    }

    /// Number of lines that all fields need.
    pub fn lines(&self) -> u16 {
        u16::try_from(self.fields.len()).unwrap_or(u16::MAX)
    }

    fn first_shown(&self, height: u16) -> usize {
        list::first_shown(self.at, usize::from(height))
    }

    /// Index of the field at a position of its area.
    pub fn field_at(&self, at: Position, area: Rect) -> Option<usize> {
        if !area.contains(at) {
            return None;
        }
        let index = usize::from(at.y - area.y) + self.first_shown(area.height);
        (index < self.fields.len()).then_some(index)
    }

    /// Help text of the focused field.
    pub fn help(&self) -> SafeText {
        self.fields.get(self.at).map(|field| field.help.clone()).unwrap_or_default()
    }
}

/// Fields of a form, one per line, with a cursor in the focused one. If they do not all fit, the focused field stays in
/// view, and the last line counts the others.
pub struct FormFields<'a> {
    pub theme: &'a Theme,
    pub form: &'a ToolForm,
    pub focused: bool,
}

impl Widget for FormFields<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, form, focused } = self;
        let painter = &mut Painter { buffer, theme };
        let labels = form.fields.iter().map(|field| width(&parameter_label(&field.name))).max().unwrap_or(0) + 3;
        let first = form.first_shown(area.height);
        let shown = form.fields.iter().enumerate().skip(first).take(usize::from(area.height));
        for (row, (index, field)) in (0..).zip(shown) {
            let here = focused && index == form.at;
            let place = line(area, row);
            let mark = if here { "▸ " } else { "  " };
            let word = parameter_label(&field.name);
            let name = format!("{word}{}", if field.required { "*" } else { "" });
            let padding = " ".repeat(labels.saturating_sub(width(&name)));
            let mut pieces: Vec<StyledText> = vec![
                (mark.to_owned(), Role::BorderFocus),
                (format!("{name}{padding}"), if here { Role::Title } else { Role::TextDim }),
            ];
            let used: usize = pieces.iter().map(|(text, _)| width(text)).sum();
            if field.typed.text().is_empty() {
                if here && field.kind != FieldKind::Switch {
                    pieces.push((" ".to_owned(), Role::Frozen));
                }
                let hint = match &field.default {
                    Value::Null if field.required => String::new(),
                    Value::Null => "not set".to_owned(),
                    Value::Bool(yes) => if *yes { "default: yes" } else { "default: no" }.to_owned(),
                    Value::String(text) => format!("default: {}", fit(text, 20)),
                    other => format!("default: {other}"),
                };
                pieces.push((hint, Role::TextDim));
            } else {
                match (field.kind, field.typed.text()) {
                    (FieldKind::Switch, "true") => pieces.push(("yes".to_owned(), Role::TextStrong)),
                    (FieldKind::Switch, _) => pieces.push(("no".to_owned(), Role::TextStrong)),
                    _ if here => {}
                    // The start says most, so a text that is too long is cut at its end.
                    (_, typed) => pieces.push((typed.to_owned(), Role::TextStrong)),
                }
            }
            // A switch has no text to edit, so its cursor is drawn beside the value, with its keys.
            if here && field.kind == FieldKind::Switch {
                pieces.push((CURSOR.to_owned(), Role::BorderFocus));
                pieces.push(("  y or n".to_owned(), Role::TextDim));
            }
            let hidden = form.fields.len().saturating_sub(usize::from(area.height));
            // In a narrow form the count would take the room of what is typed.
            let cramped = here && area.width < CRAMPED;
            let right: Vec<StyledText> = if hidden > 0 && row + 1 == area.height && !cramped {
                vec![(format!("+ {hidden} more"), Role::TextDim)]
            } else {
                Vec::new()
            };
            let edited = here && field.kind != FieldKind::Switch && !field.typed.text().is_empty();
            painter.row(place, &cut(&pieces, usize::from(area.width)), &right);
            if edited {
                let input = Rect { x: place.x + u16::try_from(used).unwrap_or(place.width).min(place.width), ..place };
                let room = place.right().saturating_sub(input.x + u16::try_from(styled_width(&right)).unwrap_or(0));
                painter.render(TextInput::new(&field.typed, painter.theme), Rect { width: room, ..input });
            }
        }
        if form.fields.is_empty() {
            rows(
                painter,
                area,
                &wrapped(vec![Row::new("This tool takes no parameters.", Role::TextDim)], area.width.into()),
            );
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bardo_base::model::{ActionClass, CapabilityTier, Category, RiskTier, TickBudget};
    use serde_json::json;

    /// Tool with a field of each kind.
    pub(crate) fn tool(name: &str, capability: CapabilityTier) -> ToolInfo {
        let words = |text: &str| SafeText::clean(text, 200);
        ToolInfo {
            name: words(name),
            description: words("Swaps one token for another."),
            category: Category::Trading,
            profiles: Vec::new(),
            capability,
            risk_tier: RiskTier::Layer3,
            tick_budget: TickBudget::Slow,
            progress_steps: vec![words("Simulating via Revm")],
            action_class: ActionClass::ClosePosition,
            checks: Vec::new(),
            prompt_snippet: words("Swaps."),
            guidelines: Vec::new(),
            input_schema: json!({
                "properties": {
                    "amount": {"type": "string", "description": "Amount in whole tokens."},
                    "chain": {"type": "string", "description": "Chain name."},
                    "exact": {"type": "boolean", "default": false, "description": "Exact output."},
                    "slippage_bps": {"type": "integer", "default": 50, "description": "Tolerance."},
                    "spender": {"type": ["string", "null"], "default": null, "description": "Who."},
                    "token_in": {"type": "string", "description": "Token paid."},
                    "token_out": {"type": "string", "description": "Token received."},
                },
                "required": ["token_in", "token_out", "amount", "chain"],
            }),
            output_schema: json!({}),
            example: json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"}),
        }
    }

    fn plain(code: KeyCode) -> Key {
        Key { code, modifiers: KeyModifiers::NONE }
    }

    #[test]
    fn fields_stand_as_the_tool_must_have_them_and_become_typed_parameters() {
        let mut form = ToolForm::of(&tool("uniswap_execute_swap", CapabilityTier::Write));
        let names: Vec<_> = form.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names[..4], ["token_in", "token_out", "amount", "chain"]);
        assert_eq!(form.params().unwrap_err().name, "token_in");
        form.fill(&json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"}));
        assert_eq!(
            form.params().unwrap(),
            json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"})
        );
        let at = |form: &ToolForm, name: &str| form.fields.iter().position(|field| field.name == name).unwrap();
        form.at = at(&form, "exact");
        assert_eq!(form.key(plain(KeyCode::Char(' '))), Some(true));
        form.at = at(&form, "slippage_bps");
        for typed in "30x".chars() {
            form.key(plain(KeyCode::Char(typed)));
        }
        assert_eq!(
            form.params().unwrap_err(),
            FieldError { name: "slippage_bps".to_owned(), what: "must be a whole number" }
        );
        assert_eq!(form.key(plain(KeyCode::Backspace)), Some(true));
        let params = form.params().unwrap();
        assert_eq!((params["exact"].clone(), params["slippage_bps"].clone()), (json!(true), json!(30)));
        assert!(params.get("spender").is_none());
    }

    #[test]
    fn help_has_the_names_that_the_form_shows() {
        for (description, shown) in [
            (
                "Amount of token_in, in whole tokens, such as \"1.5\".",
                "Amount of token in, in whole tokens, such as \"1.5\".",
            ),
            (
                "Id of the intent, as returned by uniswap_submit_cross_chain_intent.",
                "Id of the bridge order, as returned by Bridge.",
            ),
            (
                "Hash of the order, as returned by uniswap_submit_uniswapx_order; or the id of an intent.",
                "Hash of the order, as returned by Auction; or the id of a bridge order.",
            ),
            ("“max” is all, until 1.5 × 2…", "“max” is all, until 1.5 × 2…"),
            ("", ""),
        ] {
            assert_eq!(help_words(description), shown);
        }
    }

    #[test]
    fn keys_with_modifiers_type_nothing_and_pasted_text_is_cleaned() {
        let mut form = ToolForm::of(&tool("t", CapabilityTier::Read));
        assert_eq!(form.key(Key { code: KeyCode::Char('x'), modifiers: KeyModifiers::CONTROL }), None);
        form.paste(&SafeText::clean("WE\u{1b}[31mTH\n", 100));
        assert!(!form.fields[0].typed.text().contains('\u{1b}') && form.fields[0].typed.text().contains("WE"));
        form.paste(&SafeText::clean(&"y".repeat(LONGEST * 2), LONGEST * 2));
        assert_eq!(form.fields[0].typed.text().chars().count(), LONGEST);
        assert_eq!(form.key(Key { code: KeyCode::Char('u'), modifiers: KeyModifiers::CONTROL }), Some(true));
        assert_eq!(form.fields[0].typed.text(), "");
    }

    #[test]
    fn a_long_text_shows_its_end_with_a_mark() {
        let (theme, _) = crate::theme::Theme::load("dark", None).unwrap();
        let drawn = |text: &str, keys: &[Key]| {
            let mut field = TextField::holding(text);
            keys.iter().for_each(|key| assert!(field.key(*key)));
            let area = Rect::new(0, 0, 6, 1);
            let mut buffer = ratatui::buffer::Buffer::empty(area);
            Painter { buffer: &mut buffer, theme: &theme }.render(TextInput::new(&field, &theme), area);
            buffer.content.iter().map(|cell| cell.symbol()).collect::<String>()
        };
        assert_eq!(drawn("0x1234567890", &[]), "…7890 ");
        assert_eq!(drawn("0x1234567890", &[plain(KeyCode::Home)]), "0x123…");
        assert_eq!(drawn("short", &[]), "short ");
    }
}
