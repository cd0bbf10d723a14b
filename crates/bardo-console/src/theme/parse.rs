//! Parser of theme files. Keeps source positions, so that mistakes are reported with their line.

use std::collections::BTreeMap;
use std::fmt;

use ratatui::style::{Color, Modifier, Style};
use toml::de::{DeTable, DeValue};

use super::{Role, ThemeError, ThemeKind, color};

/// Mistake in a theme that does not prevent its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThemeWarning {
    /// Name of the theme with the mistake.
    pub theme: String,
    /// Line of the mistake, starting at 1.
    pub line: usize,
    /// Description of the mistake and of valid values.
    pub message: String,
}

impl fmt::Display for ThemeWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "theme {}, line {}: {}", self.theme, self.line, self.message)
    }
}

/// Role as written in a file. Colours are resolved later, because an inheriting theme may redefine the palette.
#[derive(Debug, Clone)]
struct StyleEntry {
    line: usize,
    fg: Option<String>,
    bg: Option<String>,
    modifiers: Modifier,
}

/// One theme file in the chain of inheritance.
#[derive(Debug)]
pub(super) struct ParsedTheme {
    name: String,
    pub(super) inherits: Option<String>,
    kind: Option<ThemeKind>,
    palette: BTreeMap<String, Color>,
    roles: Vec<(Role, StyleEntry)>,
}

/// Modifiers that a role can set to `true`.
const MODIFIERS: [(&str, Modifier); 5] = [
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underline", Modifier::UNDERLINED),
    ("reverse", Modifier::REVERSED),
];

/// Collects the warnings of one file and converts positions into lines.
struct Reporter<'a> {
    theme: &'a str,
    source: &'a str,
    warnings: &'a mut Vec<ThemeWarning>,
}

impl Reporter<'_> {
    fn line(&self, at: usize) -> usize {
        line_of(self.source, at)
    }

    fn warn(&mut self, at: usize, message: String) {
        let line = self.line(at);
        self.warnings.push(ThemeWarning { theme: self.theme.to_owned(), line, message });
    }
}

fn line_of(source: &str, at: usize) -> usize {
    1 + source.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Parses one theme file. Only invalid TOML is an error; every other mistake is a warning.
pub(super) fn layer(name: &str, source: &str, warnings: &mut Vec<ThemeWarning>) -> Result<ParsedTheme, ThemeError> {
    let table = DeTable::parse(source).map_err(|error| ThemeError::Syntax {
        name: name.to_owned(),
        line: line_of(source, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let mut report = Reporter { theme: name, source, warnings };
    let mut layer =
        ParsedTheme { name: name.to_owned(), inherits: None, kind: None, palette: BTreeMap::new(), roles: Vec::new() };
    for (key, value) in in_order(table.get_ref()) {
        let at = key.1;
        match (key.0, value) {
            ("inherits", DeValue::String(parent)) => layer.inherits = Some(parent.to_string()),
            ("kind", DeValue::String(kind)) if kind == "dark" => layer.kind = Some(ThemeKind::Dark),
            ("kind", DeValue::String(kind)) if kind == "light" => layer.kind = Some(ThemeKind::Light),
            ("kind", _) => report.warn(at, "`kind` must be \"dark\" or \"light\"".to_owned()),
            ("palette", DeValue::Table(entries)) => {
                for ((entry, at), value) in in_order(entries) {
                    match value.as_str().and_then(color::parse) {
                        Some(color) => drop(layer.palette.insert(entry.to_owned(), color)),
                        None => report.warn(at, format!("the palette's `{entry}` is not a colour; {COLOUR_FORMS}")),
                    }
                }
            }
            ("roles", DeValue::Table(entries)) => {
                for ((entry, at), value) in in_order(entries) {
                    let Some(role) = Role::named(entry) else {
                        report.warn(at, format!("there is no role `{entry}`"));
                        continue;
                    };
                    if let Some(written) = written(entry, at, value, &mut report) {
                        layer.roles.push((role, written));
                    }
                }
            }
            (other, _) => {
                report
                    .warn(at, format!("`{other}` is not a known key; known keys: inherits, kind, [palette], [roles]"));
            }
        }
    }
    Ok(layer)
}

const COLOUR_FORMS: &str =
    "write \"#rrggbb\", a name such as \"red\" or \"bright-red\", \"0\" to \"255\", or \"default\"";

/// Entries of a table in file order, each key with its position.
fn in_order<'t>(table: &'t DeTable<'_>) -> Vec<((&'t str, usize), &'t DeValue<'t>)> {
    let mut entries: Vec<_> =
        table.iter().map(|(key, value)| ((key.get_ref().as_ref(), key.span().start), value.get_ref())).collect();
    entries.sort_by_key(|((_, at), _)| *at);
    entries
}

fn written(name: &str, at: usize, value: &DeValue<'_>, report: &mut Reporter<'_>) -> Option<StyleEntry> {
    let mut written = StyleEntry { line: report.line(at), fg: None, bg: None, modifiers: Modifier::empty() };
    match value {
        DeValue::String(color) => written.fg = Some(color.to_string()),
        DeValue::Table(fields) => {
            for ((field, at), value) in in_order(fields) {
                let modifier = MODIFIERS.iter().find(|(known, _)| *known == field);
                match (field, value, modifier) {
                    ("fg", DeValue::String(color), _) => written.fg = Some(color.to_string()),
                    ("bg", DeValue::String(color), _) => written.bg = Some(color.to_string()),
                    (_, DeValue::Boolean(true), Some((_, modifier))) => written.modifiers |= *modifier,
                    (_, DeValue::Boolean(false), Some(_)) => {}
                    _ => report.warn(
                        at,
                        format!(
                            "`{field}` of `{name}` is not a known key; known keys: fg, bg (colours), bold, dim, \
                             italic, underline, reverse (true or false)"
                        ),
                    ),
                }
            }
        }
        _ => {
            report.warn(at, format!("`{name}` must be a colour or a table such as {{ fg = \"red\", bold = true }}"));
            return None;
        }
    }
    Some(written)
}

/// Merges the files, base theme first, and resolves the style of every role.
pub(super) fn resolve(layers: &[ParsedTheme], warnings: &mut Vec<ThemeWarning>) -> (ThemeKind, Vec<Style>) {
    let mut palette = BTreeMap::new();
    for layer in layers {
        palette.extend(layer.palette.iter().map(|(name, color)| (name.as_str(), *color)));
    }
    let mut styles: BTreeMap<&'static str, Style> = BTreeMap::new();
    for layer in layers {
        for (role, written) in &layer.roles {
            let mut faulty = false;
            let mut look_up = |name: &Option<String>| {
                let name = name.as_deref()?;
                let color = palette.get(name).copied().or_else(|| color::parse(name));
                if color.is_none() {
                    faulty = true;
                    warnings.push(ThemeWarning {
                        theme: layer.name.clone(),
                        line: written.line,
                        message: format!("`{name}` is neither in the palette nor a colour; {COLOUR_FORMS}"),
                    });
                }
                color
            };
            let style = Style { fg: look_up(&written.fg), bg: look_up(&written.bg), ..Style::default() };
            if !faulty {
                styles.insert(role.name(), style.add_modifier(written.modifiers));
            }
        }
    }
    let kind = layers.iter().rev().find_map(|layer| layer.kind).unwrap_or(ThemeKind::Dark);
    let ground = styles.get("background").copied().unwrap_or_default();
    let text = styles.get("text").copied().unwrap_or(Style::new().fg(Color::Reset));
    let all = Role::ALL.iter().map(|role| match role {
        Role::Background => Style { bg: ground.bg.or(Some(Color::Reset)), fg: text.fg, ..ground },
        _ => along_dots(role.name(), &styles).unwrap_or(text),
    });
    (kind, all.collect())
}

fn along_dots(name: &str, styles: &BTreeMap<&'static str, Style>) -> Option<Style> {
    let mut name = name;
    loop {
        if let Some(style) = styles.get(name) {
            return Some(*style);
        }
        name = name.rsplit_once('.')?.0;
    }
}
