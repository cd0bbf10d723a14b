//! The reference in `docs/reference`, made from the code: the grammar of the command line, the policy's fields, the
//! configuration's template, the tools' schemas, the error table and the events' types.
//!
//! `BARDO_UPDATE_DOCS=1 cargo test -p bardo reference` writes the files; without the variable a file that differs from
//! the code fails the test.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use serde_json::Value;

use super::args::Cli;
use bardo_base::error::ErrorCode;
use bardo_safety::policy::{Policy, PolicyPreset};
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::dialect::almanak;
use golem_tools::engine::{CallStatus, Catalog, CatalogEntry};

/// The sources that the events are read from.
const EVENTS: [&str; 5] = [
    include_str!("../../crates/bardo-base/src/fabric/event.rs"),
    include_str!("../../crates/bardo-base/src/fabric/event/trade.rs"),
    include_str!("../../crates/bardo-base/src/fabric/event/life.rs"),
    include_str!("../../crates/bardo-base/src/fabric/event/limits.rs"),
    include_str!("../../crates/bardo-base/src/fabric/finding.rs"),
];

/// A cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The notice that each page begins with.
fn head(title: &str, about: &str) -> String {
    format!("# {title}\n\n<!-- Made from the code; see CONTRIBUTING.md. -->\n\n{about}\n")
}

fn commands() -> String {
    let mut text = head(
        "Commands",
        "`bardo COMMAND --help` prints the same. Results go to stdout, everything else to stderr. Exit codes: 0 done, \
         1 failed, 2 wrong usage, 3 blocked by a rule, 4 not approved.",
    );
    let mut program = Cli::command();
    program.build();
    command(&mut text, &program, "bardo");
    text
}

fn command(text: &mut String, command: &Command, path: &str) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    _ = write!(text, "\n## {path}\n\n{about}\n\n```\n{usage}\n```\n");
    let own = |argument: &&clap::Arg| {
        !argument.is_hide_set()
            && !matches!(argument.get_id().as_str(), "help" | "version")
            && (path == "bardo" || !argument.is_global_set())
    };
    let rows: Vec<String> = command
        .get_arguments()
        .filter(own)
        .map(|argument| {
            let values: Vec<String> = argument
                .get_value_names()
                .filter(|_| argument.get_action().takes_values())
                .unwrap_or_default()
                .iter()
                .map(ToString::to_string)
                .collect();
            let name = match argument.get_long() {
                Some(long) => format!("--{long} {}", values.join(" ")),
                None => values.join(" "),
            };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let default: Vec<_> = argument.get_default_values().iter().map(|one| one.to_string_lossy()).collect();
            let default = match argument.get_action().takes_values() && !default.is_empty() {
                true => format!(" (default: {})", default.join(" ")),
                false => String::new(),
            };
            let possible: Vec<String> = argument
                .get_possible_values()
                .iter()
                .filter(|_| argument.get_action().takes_values())
                .map(|one| one.get_name().to_owned())
                .collect();
            let possible =
                if possible.is_empty() { String::new() } else { format!(" (one of: {})", possible.join(", ")) };
            format!("| `{}` | {}{possible}{default} |\n", cell(name.trim()), cell(&help))
        })
        .collect();
    if !rows.is_empty() {
        _ = write!(text, "\n| argument | meaning |\n|---|---|\n{}", rows.concat());
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        self::command(text, inner, &format!("{path} {}", inner.get_name()));
    }
}

fn policy() -> String {
    let mut text = head(
        "Policy fields",
        "A policy file begins with a preset and lists where it differs from it; a field that is not listed here is refused. \
         Dollars and percentages stand in quotes. `bardo policy explain` prints the policy in force as a documented file.",
    );
    let presets = [PolicyPreset::ReadOnly, PolicyPreset::Demo, PolicyPreset::DefiTrading, PolicyPreset::Paranoid];
    let names: Vec<&str> = presets.iter().map(|preset| preset.as_str()).collect();
    _ = writeln!(text, "\n| field | meaning | {} |", names.join(" | "));
    _ = writeln!(text, "|---|---|{}", "---|".repeat(names.len()));
    let all: Vec<Policy> = presets.iter().map(|preset| Policy::preset(*preset)).collect();
    let [first, ..] = all.as_slice() else { return text };
    for field in first.fields() {
        let value = |policy: &Policy| {
            let value = policy.fields().into_iter().find(|one| one.name == field.name).map(|one| one.value);
            format!("`{}`", cell(&value.unwrap_or_default()))
        };
        let values: Vec<String> = all.iter().map(value).collect();
        _ = writeln!(text, "| `{}` | {} | {} |", field.name, cell(&field.about), values.join(" | "));
    }
    text
}

fn configuration() -> String {
    let mut text = head(
        "Configuration",
        "`bardo config init` writes this file, `bardo config show` prints each setting with its origin. Environment \
         variables override the file, flags override both.",
    );
    _ = write!(
        text,
        "\n```toml\n{}\n```\n",
        include_str!("../../crates/bardo-base/src/config/template.toml").trim_end()
    );
    text
}

fn tools() -> String {
    let mut text = head(
        "Tools",
        "Every tool answers with the envelope of [errors.md](errors.md). `bardo tools NAME --format json` prints the whole \
         schemas. A write goes through preview, checks, simulation, approval and commit; `--dry-run` stops before the \
         signature.",
    );
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    for def in ALL_TOOL_DEFS {
        tool(&mut text, catalog.get(def.meta.name).unwrap());
    }
    text
}

fn tool(text: &mut String, entry: &CatalogEntry) {
    let meta = &entry.def.meta;
    _ = write!(
        text,
        "\n## {}\n\n{}\n\nCategory {}, capability {}, risk {}, budget {} ({} s).\n",
        meta.name,
        cell(meta.description),
        meta.category,
        meta.capability,
        meta.risk_tier,
        meta.tick_budget,
        meta.tick_budget.limit().as_secs()
    );
    let required: Vec<&str> =
        entry.input_schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(properties) = entry.input_schema["properties"].as_object().filter(|all| !all.is_empty()) {
        text.push_str("\n| parameter | type | | meaning |\n|---|---|---|---|\n");
        for (name, schema) in properties {
            let need = match (required.contains(&name.as_str()), &schema["default"]) {
                (true, _) => "required".to_owned(),
                (false, Value::Null) => "optional".to_owned(),
                (false, default) => format!("default `{default}`"),
            };
            let about = cell(schema["description"].as_str().unwrap_or_default());
            _ = writeln!(text, "| `{name}` | {} | {need} | {about} |", super::tools::kind_of(schema));
        }
    }
    if let Some(properties) = entry.output_schema["properties"].as_object().filter(|all| !all.is_empty()) {
        text.push_str("\n| result | meaning |\n|---|---|\n");
        for (name, schema) in properties {
            let about = cell(schema["description"].as_str().unwrap_or_default());
            _ = writeln!(text, "| `{name}` | {about} |");
        }
    }
    _ = write!(text, "\n```\nbardo call {} '{}'\n```\n", meta.name, entry.example);
}

fn dialect() -> String {
    let mut text = head(
        "Dialect almanak",
        "The tools of Almanak's agent tools, package 2.29.2, as Bardo answers to them: `bardo call --dialect almanak NAME`. \
         [The guide](../agents.md#tools-of-another-framework) says where Bardo differs. `bardo tools --dialect almanak \
         --format openai|mcp` prints their schemas.",
    );
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    for tool in almanak::TOOLS {
        let described = tool.describe(&catalog);
        let word = |name: &str| described[name].as_str().unwrap_or_default().to_owned();
        let behind: Vec<String> = tool.native.iter().map(|name| format!("`{name}`")).collect();
        let behind = if behind.is_empty() { "the tool of the intent".to_owned() } else { behind.join(", ") };
        let lacks = match tool.lacks(&catalog).as_slice() {
            [] => String::new(),
            lacking => format!(" Lacks `{}`, which does not exist yet.", lacking.join("`, `")),
        };
        let limit = tool.approval_above_usd.map(|limit| format!(", approval above ${limit}")).unwrap_or_default();
        _ = write!(
            text,
            "\n## {}\n\n{}\n\nCategory {}, risk {}{limit}. Behind it: {behind}.{lacks}\n",
            tool.name,
            cell(tool.description),
            word("category"),
            word("risk_tier"),
        );
        text.push_str("\n| parameter | type | | meaning |\n|---|---|---|---|\n");
        for parameter in tool.parameters {
            let need = match parameter.default.map(|default| default.json()) {
                None => "required".to_owned(),
                Some(Value::Null) => "optional".to_owned(),
                Some(default) => format!("default `{default}`"),
            };
            let schema = &described["input_schema"]["properties"][parameter.name];
            let about = cell(parameter.about);
            _ = writeln!(text, "| `{}` | {} | {need} | {about} |", parameter.name, super::tools::kind_of(schema));
        }
    }
    text
}

fn errors() -> String {
    let mut text = head(
        "Envelope, statuses and errors",
        "Every call answers with one JSON object: `call_id`, `status`, `data` (the tool's result), `error`, \
         `decision_hints` (facts for the next step) and `explanation` (the same in a sentence). The schema is \
         `assets/schemas/envelope.json`, printed by `bardo golem protocol envelope`.",
    );
    text.push_str("\n| status | exit code of `bardo call` |\n|---|---|\n");
    for status in CallStatus::ALL {
        _ = writeln!(text, "| `{}` | {} |", status.as_str(), super::call::exit_of(status) as u8);
    }
    text.push_str(
        "\nAn error has `code`, `category`, `message`, `recoverable`, `suggestion` and `details`. `recoverable` means that \
         the same call can succeed once the suggestion has been followed.\n\n\
         | code | category | recoverable | suggestion |\n|---|---|---|---|\n",
    );
    for code in ErrorCode::ALL {
        let category = serde_json::to_value(code.category()).unwrap();
        let recoverable = if code.recoverable() { "yes" } else { "no" };
        let (code, category) = (code.as_str(), category.as_str().unwrap_or_default().to_owned());
        let suggestion = ErrorCode::ALL.iter().find(|one| one.as_str() == code).map_or("", |one| one.suggestion());
        _ = writeln!(text, "| `{code}` | {category} | {recoverable} | {} |", cell(suggestion));
    }
    text
}

/// A field or variant with the doc comment above it.
struct DocumentedItem {
    about: String,
    name: String,
    kind: String,
}

/// The documented items between `opening` and the `}` that closes it, attributes left out.
fn items(source: &str, opening: &str) -> Option<Vec<DocumentedItem>> {
    let (_, rest) = source.split_once(opening)?;
    let (body, _) = rest.split_once("\n}")?;
    let (mut items, mut about, mut renamed) = (Vec::new(), Vec::new(), None);
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            about.push(words.trim());
        } else if let Some(attribute) = line.strip_prefix("#[serde(rename = \"") {
            renamed = attribute.split('"').next();
        } else if line.starts_with("#[") || line.is_empty() || line.starts_with("//") {
            continue;
        } else {
            let line = line.trim_start_matches("pub ").trim_end_matches(',');
            let (name, kind) = line.split_once(": ").or_else(|| line.split_once('(')).unwrap_or((line, ""));
            let kind = kind.trim_end_matches(')').trim_start_matches("Box<").to_owned();
            let name = renamed.take().unwrap_or(name).to_owned();
            items.push(DocumentedItem { about: about.join(" "), name, kind });
            about.clear();
        }
    }
    Some(items)
}

fn events() -> String {
    let mut text = head(
        "Events",
        "A run emits typed events with a sequence number. `bardo golem run --headless` prints them as JSON lines, and every \
         run is recorded; the first line of a recording names the version of its format. Each event has `seq`, `at` \
         (milliseconds since the Unix epoch), `golem_id`, `call_id` where it belongs to a call, `kind`, and the fields of its \
         kind. Fields whose type is optional may be missing.",
    );
    for event in items(EVENTS[0], "pub enum EventKind {").unwrap() {
        let payload = event.kind.trim_end_matches('>');
        _ = write!(text, "\n## {}\n\n{}\n", event.name, event.about);
        let opening = format!("pub struct {payload} {{");
        let fields = EVENTS.iter().find_map(|source| items(source, &opening));
        let fields = fields.unwrap_or_else(|| panic!("the type of {} is in none of the sources", event.name));
        text.push_str("\n| field | type | meaning |\n|---|---|---|\n");
        for field in fields {
            _ = writeln!(text, "| `{}` | `{}` | {} |", field.name, cell(&field.kind), cell(&field.about));
        }
    }
    text
}

#[test]
fn the_reference_is_that_of_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
    let update = std::env::var_os("BARDO_UPDATE_DOCS").is_some();
    for (name, text) in [
        ("commands.md", commands()),
        ("policy.md", policy()),
        ("configuration.md", configuration()),
        ("tools.md", tools()),
        ("almanak.md", dialect()),
        ("errors.md", errors()),
        ("events.md", events()),
    ] {
        let path = folder.join(name);
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, text).unwrap();
            continue;
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "docs/reference/{name} is not what the code says: run `BARDO_UPDATE_DOCS=1 cargo test -p bardo reference`"
        );
    }
}

/// The policies that the operator's guide shows can be used as they stand.
#[test]
fn the_guides_policies_are_policies() {
    let guide = include_str!("../../docs/operator.md");
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    // Those inside a list are indented.
    let policies: Vec<String> = blocks
        .map(|block| block.lines().map(str::trim_start).collect::<Vec<_>>().join("\n"))
        .filter(|block| block.starts_with("preset"))
        .collect();
    assert_eq!(policies.len(), 4);
    for text in policies {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        std::fs::write(&path, &text).unwrap();
        let read = bardo_safety::policy::read(&path);
        assert!(matches!(read, Ok(Some(_))), "{text}\n{read:?}");
    }
}
