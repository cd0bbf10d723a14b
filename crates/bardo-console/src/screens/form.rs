//! A form made from a tool's input schema: a field per parameter, with the schema's own help.

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Position, Rect};
use serde_json::{Map, Value};
use unicode_segmentation::UnicodeSegmentation;

use crate::keymap::Key;
use crate::pen::{Pen, Piece, line};
use crate::theme::Role;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use bardo_base::text::{SafeText, fit, width};
use bardo_session::handle::ToolInfo;

/// The longest text of a field, in characters.
const LONGEST: usize = 4_000;

/// What a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words.
    Text,
    /// A whole number.
    Whole,
    /// Yes or no.
    Switch,
    /// JSON.
    Json,
}

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The parameter's name.
    pub name: String,
    /// The schema's help.
    pub help: SafeText,
    /// What it takes.
    pub kind: Kind,
    /// Whether there must be something in it.
    pub required: bool,
    /// What holds when nothing is in it.
    pub default: Value,
    /// What was typed.
    pub typed: String,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amiss {
    /// The parameter.
    pub name: String,
    /// What.
    pub what: &'static str,
}

/// A form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Form {
    /// The tool.
    pub tool: String,
    /// Its fields, those that must be filled first.
    pub fields: Vec<Field>,
    /// The field that has the keys.
    pub at: usize,
}

/// The kind of a schema's property, through `null` and references to none.
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
    /// The form of a tool, empty.
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
        // As the tool lists what it must have; the others after them.
        let place = |field: &Field| required.iter().position(|name| *name == field.name).unwrap_or(usize::MAX);
        fields.sort_by_key(place);
        Self { tool: tool.name.to_string(), fields, at: 0 }
    }

    /// Fills fields from an object, such as the tool's example or what was typed before.
    pub fn fill(&mut self, values: &Value) {
        for field in &mut self.fields {
            match values.get(&field.name) {
                Some(Value::String(text)) => field.typed = SafeText::clean(text, LONGEST).as_str().to_owned(),
                Some(Value::Null) | None => {}
                Some(other) => field.typed = other.to_string(),
            }
        }
    }

    /// The parameters as they are typed.
    ///
    /// # Errors
    /// The first field that does not hold what it takes.
    pub fn params(&self) -> Result<Value, Amiss> {
        let mut params = Map::new();
        for field in &self.fields {
            let amiss = |what| Amiss { name: field.name.clone(), what };
            let typed = field.typed.trim();
            if typed.is_empty() {
                if field.required {
                    return Err(amiss("has to be filled"));
                }
                continue;
            }
            let value = match field.kind {
                Kind::Text => Value::from(typed),
                Kind::Whole => Value::from(typed.parse::<u64>().map_err(|_| amiss("takes a whole number"))?),
                Kind::Switch => Value::from(typed.parse::<bool>().map_err(|_| amiss("takes true or false"))?),
                Kind::Json => serde_json::from_str(typed).map_err(|_| amiss("takes JSON"))?,
            };
            params.insert(field.name.clone(), value);
        }
        Ok(Value::Object(params))
    }

    /// What a field holds, or would hold by default.
    pub fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|field| field.name == name).map_or("", |field| field.typed.trim())
    }

    /// To the field after, or before; round about.
    pub fn step(&mut self, forward: bool) {
        let count = self.fields.len().max(1);
        self.at = if forward { (self.at + 1) % count } else { (self.at + count - 1) % count };
    }

    /// Whether something is typed into the field with the keys.
    pub fn holds_something(&self) -> bool {
        self.fields.get(self.at).is_some_and(|field| !field.typed.is_empty())
    }

    /// Types a key into the field; whether it changed something.
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

    /// Puts text at the end of the field, cleaned.
    pub fn insert(&mut self, text: &str) {
        let Some(field) = self.fields.get_mut(self.at) else { return };
        if field.kind == Kind::Switch {
            return;
        }
        // A space alone is no text to the cleaner, and stands here between words.
        let clean = if text == " " { " ".to_owned() } else { SafeText::clean(text, LONGEST).as_str().to_owned() };
        let room = LONGEST.saturating_sub(field.typed.chars().count());
        field.typed.extend(clean.chars().take(room));
    }

    /// The lines it takes.
    pub fn lines(&self) -> u16 {
        u16::try_from(self.fields.len()).unwrap_or(u16::MAX)
    }

    fn first_shown(&self, height: u16) -> usize {
        (self.at + 1).saturating_sub(usize::from(height))
    }

    /// The field at a line of its area.
    pub fn field_at(&self, at: Position, area: Rect) -> Option<usize> {
        if !area.contains(at) {
            return None;
        }
        let index = usize::from(at.y - area.y) + self.first_shown(area.height);
        (index < self.fields.len()).then_some(index)
    }

    /// Draws the fields, one a line; the one with the keys has a cursor. Where there are more than fit, that one is
    /// in view, and the last line's right end counts the others.
    pub fn draw(&self, pen: &mut Pen<'_>, area: Rect, focused: bool) {
        let labels = self.fields.iter().map(|field| width(&field.name)).max().unwrap_or(0) + 3;
        let first = self.first_shown(area.height);
        let shown = self.fields.iter().enumerate().skip(first).take(usize::from(area.height));
        for (row, (index, field)) in (0..).zip(shown) {
            let here = focused && index == self.at;
            let place = line(area, row);
            let mark = if here { "▸ " } else { "  " };
            let name = format!("{}{}", field.name.replace('_', " "), if field.required { "*" } else { "" });
            let padding = " ".repeat(labels.saturating_sub(width(&name)));
            let mut pieces: Vec<Piece> = vec![
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
                    Value::Bool(yes) => if *yes { "yes, by default" } else { "no, by default" }.to_owned(),
                    Value::String(text) => format!("{} by default", fit(text, 20)),
                    other => format!("{other} by default"),
                };
                pieces.push((hint, Role::TextDim));
            } else {
                let typed = match (field.kind, field.typed.as_str()) {
                    (Kind::Switch, "true") => "yes",
                    (Kind::Switch, _) => "no",
                    (_, typed) => typed,
                };
                // The end of what is typed is where the cursor is: a long text loses its beginning, with a mark.
                pieces.push((tail(typed, room), Role::TextStrong));
                if here {
                    pieces.push(("▏".to_owned(), Role::BorderFocus));
                }
            }
            let hidden = self.fields.len().saturating_sub(usize::from(area.height));
            let right: Vec<Piece> = if hidden > 0 && row + 1 == area.height {
                vec![(format!("+ {hidden} more"), Role::TextDim)]
            } else {
                Vec::new()
            };
            pen.row(place, &cut(&pieces, usize::from(area.width)), &right);
        }
        if self.fields.is_empty() {
            rows(
                pen,
                area,
                &wrapped(vec![Row::new("This tool takes no parameters.", Role::TextDim)], area.width.into()),
            );
        }
    }

    /// The help of the field with the keys.
    pub fn help(&self) -> SafeText {
        self.fields.get(self.at).map(|field| field.help.clone()).unwrap_or_default()
    }
}

/// The last columns of a text, `…` where there was more before them.
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

    /// A tool with a field of each kind.
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
        assert_eq!(form.params().unwrap_err(), Amiss { name: "slippage_bps".to_owned(), what: "takes a whole number" });
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
