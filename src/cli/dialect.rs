//! `bardo tools --dialect` and `bardo call --dialect`: the tools of another agent framework, over the native ones.

use std::io::IsTerminal;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{Dialect, ToolsFormat};
use super::call::{CallFlags, ShellTools, exit_of, with_tools};
use super::tools::kind_of;
use super::{CliExit, CommandFailure, answer, load, parameters, print, print_json};
use bardo_base::config::{ConfigFlags, Environment};
use bardo_base::text::{SafeText, nearest};
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::dialect::almanak::{self, AlmanakSession};
use golem_tools::dialect::{DialectResponse, DialectTool};
use golem_tools::engine::{Catalog, ToolResponse};

/// Tools of a dialect.
const fn tools_of(dialect: Dialect) -> &'static [DialectTool] {
    match dialect {
        Dialect::Almanak => almanak::TOOLS,
    }
}

fn named(dialect: Dialect, name: &str) -> Result<&'static DialectTool, CommandFailure> {
    let tools = tools_of(dialect);
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let near = nearest(name, tools.iter().map(|tool| tool.name));
        let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        let name = SafeText::clean(name, 64);
        let known = "`bardo tools --dialect almanak` lists them";
        CommandFailure::usage(format!("unknown tool '{name}'{near} ({known})"))
    })
}

/// Lists the tools of a dialect, or describes one.
pub(super) fn list(dialect: Dialect, name: Option<&str>, format: ToolsFormat) -> Result<CliExit, CommandFailure> {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let listed = match name {
        Some(name) => std::slice::from_ref(named(dialect, name)?),
        None => tools_of(dialect),
    };
    match (format, name) {
        (ToolsFormat::Table, None) => print(&table(listed, &catalog))?,
        (ToolsFormat::Table, Some(_)) => print(&listed.iter().map(|tool| detail(tool, &catalog)).collect::<String>())?,
        (ToolsFormat::Json, Some(_)) => {
            for tool in listed {
                print_json(&tool.describe(&catalog))?;
            }
        }
        (ToolsFormat::Json, None) => {
            print_json(&listed.iter().map(|tool| tool.describe(&catalog)).collect::<Vec<_>>())?;
        }
        (ToolsFormat::Openai, _) => print_json(&listed.iter().map(DialectTool::openai).collect::<Vec<_>>())?,
        (ToolsFormat::Mcp, _) => {
            print_json(&json!({"tools": listed.iter().map(|tool| tool.mcp(&catalog)).collect::<Vec<_>>()}))?;
        }
    }
    Ok(CliExit::Success)
}

/// Text of a serialised value, such as a category.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn table(tools: &[DialectTool], catalog: &Catalog) -> String {
    let width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}  {:<9}  {:<6}  behind it\n", "tool", "category", "risk");
    for tool in tools {
        let behind = match tool.lacks(catalog).as_slice() {
            [] if tool.native.is_empty() => "the tool of the intent".to_owned(),
            [] => tool.native.join(", "),
            lacking => format!("{} (lacks {})", tool.native.join(", "), lacking.join(", ")),
        };
        let (category, risk) = (word(tool.category), word(tool.risk));
        text.push_str(&format!("{:width$}  {category:<9}  {risk:<6}  {behind}\n", tool.name));
    }
    text
}

pub(super) fn detail(tool: &DialectTool, catalog: &Catalog) -> String {
    let mut text = format!("{}\n  {}\n\n", tool.name, tool.description);
    let repeats = if tool.idempotent { "repeating it has no further effect" } else { "repeating it acts again" };
    text.push_str(&format!("  {} · risk {} · {repeats}\n", word(tool.category), word(tool.risk)));
    if !tool.native.is_empty() {
        text.push_str(&format!("  behind it: {}\n", tool.native.join(", ")));
    }
    let lacks = tool.lacks(catalog);
    if !lacks.is_empty() {
        text.push_str(&format!("  lacks: {}, which this version does not have\n", lacks.join(", ")));
    }
    if let Some(limit) = tool.approval_above_usd {
        text.push_str(&format!("  above ${limit} it is refused unless the policy asks the operator\n"));
    }
    text.push_str("\nParameters\n");
    let schema = tool.input_schema();
    for parameter in tool.parameters {
        let need = match parameter.default.map(|default| default.json()) {
            None => "required".to_owned(),
            Some(Value::Null) => "optional".to_owned(),
            Some(default) => format!("default {default}"),
        };
        let kind = kind_of(&schema["properties"][parameter.name]);
        text.push_str(&format!("  {} ({kind}, {need}): {}\n", parameter.name, parameter.about));
    }
    text
}

/// Calls a tool of a dialect.
pub(super) fn call(
    dialect: Dialect,
    tool: &str,
    words: &[String],
    options: CallFlags,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let tool = named(dialect, tool)?;
    let native = almanak::behind(tool);
    let entries: Vec<_> = native.iter().filter_map(|name| catalog.get(name).cloned()).collect();
    let signs = entries.iter().any(|entry| entry.def.meta.signs());
    if options.idempotency_key.is_some() && !signs {
        let words = format!("{} sends nothing, so a key has no use: remove --idempotency-key", tool.name);
        return Err(CommandFailure::usage(words));
    }
    // What only prepares needs the account's address, and not its key.
    let options = CallFlags { dry_run: options.dry_run || almanak::only_prepares(tool), ..options };
    let input = parameters::read(words, &tool.input_schema())?;
    let config = load(environment, flags)?;
    let answer = async |shell: ShellTools| match dialect {
        Dialect::Almanak => AlmanakSession::new(Arc::new(shell)).call(tool.name, input).await,
    };
    let response = with_tools(&config, &entries, options, answer, |refused| refused_by(tool, refused))?;
    if json || !std::io::stdout().is_terminal() {
        print_json(&response)?;
    } else {
        print(&answer::of_dialect(tool.name, &response))?;
    }
    Ok(exit_of(response.status))
}

/// Answer of a call that did not reach a tool.
fn refused_by(tool: &DialectTool, refused: ToolResponse) -> DialectResponse {
    DialectResponse::not_called(tool.name, refused)
}
