//! The `bardo tools` command: the available tools, for people and for other programs.

use super::{CliExit, CommandFailure, args::ToolsFormat, load, print, print_json};
use ::golem::archetype::ArchetypeError;
use bardo_base::config::{ConfigFlags, Environment};
use bardo_base::model::{Category, GuidelineKey, Phase, Profile};
use bardo_base::text::SafeText;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{Catalog, CatalogEntry, ToolFilter, categories_of, mcp_list, openai_list};
use serde_json::Value;

pub(super) fn run(
    name: Option<&str>,
    profile: Option<Profile>,
    category: Option<Category>,
    format: ToolsFormat,
) -> Result<CliExit, CommandFailure> {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let entries: Vec<&CatalogEntry> = match name {
        Some(name) => match catalog.get(name) {
            Some(entry) => vec![entry],
            None => {
                let near = catalog.nearest(name).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
                let name = SafeText::clean(name, 64);
                return Err(CommandFailure::usage(format!("unknown tool '{name}'{near} (`bardo tools` lists them)")));
            }
        },
        None => catalog.filter(ToolFilter { profile, category, capability: None }).map(|entry| &**entry).collect(),
    };
    if let (Some(profile), ToolsFormat::Table) = (profile, format) {
        print(&sets(profile, &catalog))?;
    }
    show(entries, name, format)
}

/// Lists the categories of a profile, and those without a tool.
fn sets(profile: Profile, catalog: &Catalog) -> String {
    let holds = |category: Category| {
        let filter = ToolFilter { category: Some(category), ..ToolFilter::default() };
        catalog.filter(filter).next().is_some()
    };
    let (with, without): (Vec<Category>, Vec<Category>) =
        categories_of(profile).iter().copied().partition(|category| holds(*category));
    let words = |all: &[Category]| all.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
    let lacking = if without.is_empty() { String::new() } else { format!("; no tool yet: {}", words(&without)) };
    format!("{profile}: {}{lacking}\n\n", words(&with))
}

/// Lists the tools of a role, including the operator's own roles.
pub(super) fn of_archetype(
    role: &str,
    category: Option<Category>,
    format: ToolsFormat,
    environment: &Environment,
    flags: &ConfigFlags,
) -> Result<CliExit, CommandFailure> {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let roles = bardo_runtime::roles(&load(environment, flags)?, &catalog)?;
    let role = roles.get(role).map_err(|error| match error {
        ArchetypeError::Unknown { .. } => CommandFailure::usage(error.to_string()),
        other => other.into(),
    })?;
    let tools = role.tools(&catalog)?;
    let filter = ToolFilter { category, ..ToolFilter::default() };
    show(tools.filter(filter).map(|entry| &**entry).collect(), None, format)
}

fn show(entries: Vec<&CatalogEntry>, name: Option<&str>, format: ToolsFormat) -> Result<CliExit, CommandFailure> {
    match (format, name) {
        (ToolsFormat::Table, None) => print(&table(&entries))?,
        (ToolsFormat::Table, Some(_)) => print(&entries.iter().map(|entry| detail(entry)).collect::<String>())?,
        (ToolsFormat::Json, None) => {
            print_json(&entries.iter().map(|entry| entry.describe()).collect::<Vec<_>>())?;
        }
        (ToolsFormat::Json, Some(_)) => {
            for entry in entries {
                print_json(&entry.describe())?;
            }
        }
        (ToolsFormat::Openai, _) => print_json(&openai_list(entries.into_iter()))?,
        (ToolsFormat::Mcp, _) => print_json(&mcp_list(entries.into_iter()))?,
    }
    Ok(CliExit::Success)
}

/// Maximum width of a table row, in characters.
const ROW_CHARS: usize = 140;
/// Width of the columns between name and description, including gaps.
const COLUMNS_CHARS: usize = 44;

fn table(entries: &[&CatalogEntry]) -> String {
    if entries.is_empty() {
        return "no tool matches; `bardo tools` without a filter lists all\n".to_owned();
    }
    let width = entries.iter().map(|entry| entry.def.meta.name.len()).max().unwrap_or(0);
    let mut text =
        format!("{:width$}  {:<12}  {:<10}  {:<6}  {:<6}  what it does\n", "tool", "category", "may", "risk", "budget");
    for entry in entries {
        let meta = &entry.def.meta;
        let first = in_short(meta.description, ROW_CHARS.saturating_sub(width + COLUMNS_CHARS));
        text.push_str(&format!(
            "{:width$}  {:<12}  {:<10}  {:<6}  {:<6}  {first}\n",
            meta.name, meta.category, meta.capability, meta.risk_tier, meta.tick_budget
        ));
    }
    text
}

/// Returns the first clause of a description, cut to fit a row.
fn in_short(description: &str, most: usize) -> String {
    let first = description.split(['.', ':']).next().unwrap_or(description);
    if first.chars().count() <= most {
        return first.to_owned();
    }
    let mut text = String::new();
    for word in first.split(' ') {
        if text.chars().count() + word.chars().count() + 2 > most {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text.push('…');
    text
}

fn detail(entry: &CatalogEntry) -> String {
    let meta = &entry.def.meta;
    let mut text = format!("{}\n  {}\n\n", meta.name, meta.description);
    text.push_str(&format!(
        "  {} · {} · {} · {} (under {} s) · {}\n\n",
        meta.category,
        meta.capability,
        meta.risk_tier,
        meta.tick_budget,
        meta.tick_budget.limit().as_secs(),
        if meta.idempotent { "repeating it has no further effect" } else { "repeating it acts again" },
    ));
    text.push_str("Parameters\n");
    let required = entry.input_schema["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in entry.input_schema["properties"].as_object().into_iter().flatten() {
        let kind = kind_of(schema);
        let need = if required.iter().any(|one| one == name) {
            "required".to_owned()
        } else {
            match &schema["default"] {
                Value::Null => "optional".to_owned(),
                default => format!("default {default}"),
            }
        };
        let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        text.push_str(&format!("  {name} ({kind}, {need}): {about}\n"));
    }
    text.push_str("\nResult\n");
    for (name, schema) in entry.output_schema["properties"].as_object().into_iter().flatten() {
        let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        text.push_str(&format!("  {name}: {about}\n"));
    }
    text.push_str("\nGuidelines\n");
    for key in GuidelineKey::ALL {
        let phases: Vec<Phase> = Phase::ALL.iter().copied().filter(|phase| phase.guideline() == *key).collect();
        let line = phases.first().map_or("", |phase| meta.prompt_guidelines.for_phase(*phase));
        let names: Vec<String> = phases.iter().map(ToString::to_string).collect();
        text.push_str(&format!("  {}: {line}\n", names.join(", ")));
    }
    if let Some(memory) = meta.prompt_guidelines.memory {
        text.push_str(&format!("  memory: {memory}\n"));
    }
    text.push_str(&format!("\nSteps  {}\n", meta.progress_steps.join(" → ")));
    text.push_str(&format!("Try    bardo call {} '{}'\n", meta.name, entry.example));
    text
}
/// Kinds of values that a parameter takes, in words: types, or the permitted texts themselves.
pub(super) fn kind_of(schema: &Value) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if !name.is_empty() && name != "null" && !names.contains(&name) {
            names.push(name);
        }
    };
    match &schema["type"] {
        Value::String(_) if schema["const"].is_string() => add(schema["const"].to_string()),
        Value::String(_) if schema["enum"].is_array() => {
            schema["enum"].as_array().into_iter().flatten().for_each(|text| add(text.to_string()));
        }
        Value::String(kind) => add(kind.clone()),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).for_each(|kind| add(kind.to_owned())),
        _ => {
            let parts = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
            parts.map(kind_of).for_each(&mut add);
        }
    }
    match names.is_empty() {
        true if schema["type"] != "null" => "object".to_owned(),
        _ => names.join(" or "),
    }
}
