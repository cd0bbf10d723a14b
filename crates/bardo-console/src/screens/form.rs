//! Form built from the input schema of a tool: one field per parameter, with the schema's own description as help.

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Position, Rect};
use serde_json::{Map, Value};
use unicode_segmentation::UnicodeSegmentation;

use crate::keymap::Key;
use crate::painter::{Painter, StyledText, line};
use crate::theme::Role;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use bardo_base::text::{SafeText, fit, width};
use bardo_session::handle::ToolInfo;

/// Maximum length of a field, in characters.
const LONGEST: usize = 4_000;

/// Type of value that a field accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
pub struct Field {
    /// Name of the parameter.
    pub name: String,
    /// Description of the parameter in the schema.
    pub help: SafeText,
    /// Type of value that the field accepts.
    pub kind: Kind,
    /// True if the field must not be empty.
    pub required: bool,
    /// Default value of the parameter, used while the field is empty.
    pub default: Value,
    /// Text typed so far.
    pub typed: String,
}

/// Invalid field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amiss {
    /// Name of the parameter.
    pub name: String,
    /// Rule that the field breaks, as it completes a sentence after the name.
    pub what: &'static str,
}

/// Form for the parameters of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Form {
    /// Name of the tool.
    pub tool: String,
    /// Fields of the form, required ones first.
    pub fields: Vec<Field>,
    /// Index of the focused field.
    pub at: usize,
}

/// Kind of a schema property. Unions with `null` count as the other type; references are not followed.
fn kind_of(property: &Value) -> Kind {
    let named = |name: &str| match property.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(many)) => many.iter().any(|one| one == name),
        _ => false,
    };
    if named("boolean") {
        Kind::Switch
    } else if named("integer") {
        Kind::Whole
    } else if named("string") || property.get("type").is_none() && property.get("enum").is_some() {
        Kind::Text
    } else {
        Kind::Json
    }
}

impl Form {
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
        let field = |(name, property): (&String, &Value)| Field {
            name: name.clone(),
            help: SafeText::clean(property.get("description").and_then(Value::as_str).unwrap_or(""), 400),
            kind: kind_of(property),
            required: required.contains(&name.as_str()),
            default: property.get("default").cloned().unwrap_or(Value::Null),
            typed: String::new(),
        };
        let mut fields: Vec<Field> = properties.iter().map(field).collect();
        // Required fields in the order in which the tool lists them, then the others.
        let place = |field: &Field| required.iter().position(|name| *name == field.name).unwrap_or(usize::MAX);
        fields.sort_by_key(place);
        Self { tool: tool.name.to_string(), fields, at: 0 }
    }

    /// Fills fields from an object, such as the tool's example or earlier input.
    pub fn fill(&mut self, values: &Value) {
        for field in &mut self.fields {
            match values.get(&field.name) {
                Some(Value::String(text)) => field.typed = SafeText::clean(text, LONGEST).as_str().to_owned(),
                Some(Value::Null) | None => {}
                Some(other) => field.typed = other.to_string(),
            }
        }
    }

    /// Parameters as typed, as a JSON object.
    ///
    /// # Errors
    /// The first field whose text is missing or does not match its kind.
    pub fn params(&self) -> Result<Value, Amiss> {
        let mut params = Map::new();
        for field in &self.fields {
            let amiss = |what| Amiss { name: field.name.clone(), what };
            let typed = field.typed.trim();
            if typed.is_empty() {
                if field.required {
                    return Err(amiss("is required"));
                }
                continue;
            }
            let value = match field.kind {
                Kind::Text => Value::from(typed),
                Kind::Whole => Value::from(typed.parse::<u64>().map_err(|_| amiss("must be a whole number"))?),
                Kind::Switch => Value::from(typed.parse::<bool>().map_err(|_| amiss("must be true or false"))?),
                Kind::Json => serde_json::from_str(typed).map_err(|_| amiss("must be JSON"))?,
            };
            params.insert(field.name.clone(), value);
        }
        Ok(Value::Object(params))
    }

    /// Trimmed text of a field; empty if nothing was typed or there is no such field.
    pub fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|field| field.name == name).map_or("", |field| field.typed.trim())
    }

    /// Moves the focus to the next or previous field, with wraparound.
    pub fn step(&mut self, forward: bool) {
        let count = self.fields.len().max(1);
        self.at = if forward { (self.at + 1) % count } else { (self.at + count - 1) % count };
    }

    /// Returns true if the focused field contains text.
    pub fn holds_something(&self) -> bool {
        self.fields.get(self.at).is_some_and(|field| !field.typed.is_empty())
    }

    /// Applies a key to the focused field. Returns true if the text changed.
    pub fn key(&mut self, key: Key) -> bool {
        let Some(field) = self.fields.get_mut(self.at) else { return false };
        let before = field.typed.clone();
        match (key.code, key.modifiers) {
            (KeyCode::Char('u' | 'c'), KeyModifiers::CONTROL) => field.typed.clear(),
            (KeyCode::Char('w'), KeyModifiers::CONTROL) => {
                let kept = field.typed.trim_end().rfind(' ').map_or(0, |at| at + 1);
                field.typed.truncate(kept);
            }
            (KeyCode::Backspace, _) => {
                let last = field.typed.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
                field.typed.truncate(last);
            }
            (KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right, _) if field.kind == Kind::Switch => {
                let holds = match field.typed.as_str() {
                    "" => field.default.as_bool().unwrap_or(false),
                    typed => typed == "true",
                };
                field.typed = (!holds).to_string();
            }
            (KeyCode::Char(typed), KeyModifiers::NONE) if field.kind != Kind::Switch => {
                self.insert(&typed.to_string());
            }
            _ => {}
        }
        self.fields.get(self.at).is_some_and(|field| field.typed != before)
    }

    /// Appends text to the focused field, after cleaning it.
    pub fn insert(&mut self, text: &str) {
        let Some(field) = self.fields.get_mut(self.at) else { return };
        if field.kind == Kind::Switch {
            return;
        }
        // The cleaner removes a lone space, but between words it is needed.
        let clean = if text == " " { " ".to_owned() } else { SafeText::clean(text, LONGEST).as_str().to_owned() };
        let room = LONGEST.saturating_sub(field.typed.chars().count());
        field.typed.extend(clean.chars().take(room));
    }

    /// Number of lines that all fields need.
    pub fn lines(&self) -> u16 {
        u16::try_from(self.fields.len()).unwrap_or(u16::MAX)
    }

    fn first_shown(&self, height: u16) -> usize {
        (self.at + 1).saturating_sub(usize::from(height))
    }

    /// Index of the field at a position of its area.
    pub fn field_at(&self, at: Position, area: Rect) -> Option<usize> {
        if !area.contains(at) {
            return None;
        }
        let index = usize::from(at.y - area.y) + self.first_shown(area.height);
        (index < self.fields.len()).then_some(index)
    }

    /// Draws the fields, one per line, with a cursor in the focused one. If they do not all fit, the focused field
    /// stays in view, and the last line counts the others.
    pub fn draw(&self, painter: &mut Painter<'_>, area: Rect, focused: bool) {
        let labels = self.fields.iter().map(|field| width(&field.name)).max().unwrap_or(0) + 3;
        let first = self.first_shown(area.height);
        let shown = self.fields.iter().enumerate().skip(first).take(usize::from(area.height));
        for (row, (index, field)) in (0..).zip(shown) {
            let here = focused && index == self.at;
            let place = line(area, row);
            let mark = if here { "▸ " } else { "  " };
            let name = format!("{}{}", field.name.replace('_', " "), if field.required { "*" } else { "" });
            let padding = " ".repeat(labels.saturating_sub(width(&name)));
            let mut pieces: Vec<StyledText> = vec![
                (mark.to_owned(), Role::BorderFocus),
                (format!("{name}{padding}"), if here { Role::Title } else { Role::TextDim }),
            ];
            let used: usize = pieces.iter().map(|(text, _)| width(text)).sum();
            let room = usize::from(area.width).saturating_sub(used + 1);
            if field.typed.is_empty() {
                if here {
                    pieces.push(("▏".to_owned(), Role::BorderFocus));
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
                let typed = match (field.kind, field.typed.as_str()) {
                    (Kind::Switch, "true") => "yes",
                    (Kind::Switch, _) => "no",
                    (_, typed) => typed,
                };
                // The cursor is at the end, so a long text is cut at its start, with a mark.
                pieces.push((tail(typed, room), Role::TextStrong));
                if here {
                    pieces.push(("▏".to_owned(), Role::BorderFocus));
                }
            }
            let hidden = self.fields.len().saturating_sub(usize::from(area.height));
            let right: Vec<StyledText> = if hidden > 0 && row + 1 == area.height {
                vec![(format!("+ {hidden} more"), Role::TextDim)]
            } else {
                Vec::new()
            };
            painter.row(place, &cut(&pieces, usize::from(area.width)), &right);
        }
        if self.fields.is_empty() {
            rows(
                painter,
                area,
                &wrapped(vec![Row::new("This tool takes no parameters.", Role::TextDim)], area.width.into()),
            );
        }
    }

    /// Help text of the focused field.
    pub fn help(&self) -> SafeText {
        self.fields.get(self.at).map(|field| field.help.clone()).unwrap_or_default()
    }
}

/// Last columns of a text, after `…` if it was cut.
fn tail(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = Vec::new();
    let mut used = 1;
    for cluster in text.graphemes(true).rev() {
        used += width(cluster);
        if used > columns {
            break;
        }
        kept.push(cluster);
    }
    kept.push("…");
    kept.reverse();
    kept.concat()
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
        let mut form = Form::of(&tool("uniswap_execute_swap", CapabilityTier::Write));
        let names: Vec<_> = form.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names[..4], ["token_in", "token_out", "amount", "chain"]);
        assert_eq!(form.params().unwrap_err().name, "token_in");
        form.fill(&json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"}));
        assert_eq!(
            form.params().unwrap(),
            json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"})
        );
        let at = |form: &Form, name: &str| form.fields.iter().position(|field| field.name == name).unwrap();
        form.at = at(&form, "exact");
        assert!(form.key(plain(KeyCode::Char(' '))));
        form.at = at(&form, "slippage_bps");
        for typed in "30x".chars() {
            form.key(plain(KeyCode::Char(typed)));
        }
        assert_eq!(
            form.params().unwrap_err(),
            Amiss { name: "slippage_bps".to_owned(), what: "must be a whole number" }
        );
        assert!(form.key(plain(KeyCode::Backspace)));
        let params = form.params().unwrap();
        assert_eq!((params["exact"].clone(), params["slippage_bps"].clone()), (json!(true), json!(30)));
        assert!(params.get("spender").is_none());
    }

    #[test]
    fn keys_with_modifiers_type_nothing_and_pasted_text_is_cleaned() {
        let mut form = Form::of(&tool("t", CapabilityTier::Read));
        assert!(!form.key(Key { code: KeyCode::Char('x'), modifiers: KeyModifiers::CONTROL }));
        form.insert("WE\u{1b}[31mTH\n");
        assert!(!form.fields[0].typed.contains('\u{1b}') && form.fields[0].typed.contains("WE"));
        form.insert(&"y".repeat(LONGEST * 2));
        assert_eq!(form.fields[0].typed.chars().count(), LONGEST);
        assert!(form.key(Key { code: KeyCode::Char('u'), modifiers: KeyModifiers::CONTROL }));
        assert_eq!(form.fields[0].typed, "");
    }

    #[test]
    fn a_long_text_shows_its_end_with_a_mark() {
        assert_eq!(tail("0x1234567890", 6), "…67890");
        assert_eq!(tail("short", 6), "short");
        assert_eq!(tail("宽宽宽", 5), "…宽宽");
    }
}
