//! `bardo policy`: what an agent may do here, who said so and who sees to it.

use super::{Exit, Failure, args::PolicyAction, load, print, print_json};
use crate::base::config::{Config, Environment, Flags};
use crate::base::model::Category;
use crate::base::text::{nearest, width};
use crate::runtime::policy::{is_devnet, open, place};
use crate::safety::policy::{Field, Policy};
use crate::tools::ALL_TOOL_DEFS;

pub(super) fn run(
    action: &PolicyAction,
    environment: &Environment,
    flags: &Flags,
    json: bool,
) -> Result<Exit, Failure> {
    let config = load(environment, flags)?;
    let keeper = open(&config, is_devnet(&config)?)?;
    let policy = keeper.current().policy;
    match action {
        PolicyAction::Show => show(&config, &policy, json),
        PolicyAction::Explain { field } => explain(&policy, field.as_deref(), json),
    }
}

/// The categories of which tools are installed.
fn installed() -> Vec<Category> {
    let mut all: Vec<_> = ALL_TOOL_DEFS.iter().map(|tool| tool.meta.category).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn enforced(field: &Field, installed: &[Category]) -> String {
    field.enforced_with(installed).unwrap_or_else(|nobody| nobody)
}

fn show(config: &Config, policy: &Policy, json: bool) -> Result<Exit, Failure> {
    let devnet = is_devnet(config)?;
    let (path, _) = place(config, devnet);
    let installed = installed();
    let fields = policy.fields();
    if json {
        let fields: Vec<_> = fields
            .iter()
            .map(|field| {
                serde_json::json!({
                    "field": field.name, "value": field.value, "set_by": policy.set_by(&field.name),
                    "enforced_by": enforced(field, &installed), "enforced": field.enforced_with(&installed).is_ok(),
                })
            })
            .collect();
        print_json(&serde_json::json!({
            "policy": policy.name(), "hash": policy.hash(), "file": path, "exists": path.exists(),
            "for": if devnet { "devnets" } else { "test networks and real ones" }, "fields": fields,
        }))?;
        return Ok(Exit::Success);
    }
    let there = if path.exists() { "" } else { " (not there)" };
    let mut text = format!("{}  {}\n{}{there}\n\n", policy.name(), policy.hash(), path.display());
    let rows: Vec<[String; 4]> = fields
        .iter()
        .map(|field| [field.name.clone(), field.value.clone(), policy.set_by(&field.name), enforced(field, &installed)])
        .collect();
    let column = |at: usize| rows.iter().map(|row| row.get(at).map_or(0, |cell| width(cell))).max().unwrap_or(0);
    let (names, values, origins) = (column(0), column(1).min(40), column(2));
    for [name, value, origin, enforced] in &rows {
        text.push_str(&format!("{name:names$}  {value:values$}  {origin:origins$}  {enforced}\n"));
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// The policy as a file: every field with what it means, its value and who enforces it, commented out.
fn explain(policy: &Policy, asked: Option<&str>, json: bool) -> Result<Exit, Failure> {
    let installed = installed();
    let fields = policy.fields();
    let wanted: Vec<&Field> = fields.iter().filter(|field| asked.is_none_or(|asked| field.name == asked)).collect();
    if let Some(asked) = asked.filter(|_| wanted.is_empty()) {
        let near = nearest(asked, fields.iter().map(|field| field.name.as_str()));
        let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        return Err(Failure::usage(format!("a policy has no such field{near} (`bardo policy explain` lists them)")));
    }
    if json {
        let all: Vec<_> = wanted
            .iter()
            .map(|field| {
                serde_json::json!({
                    "field": field.name, "about": field.about, "value": field.value,
                    "enforced_by": enforced(field, &installed),
                })
            })
            .collect();
        print_json(&all)?;
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    if asked.is_none() {
        text.push_str(
            "# What an agent may do. A file begins with a preset and says where it differs from it; a field\n\
             # that is not here is refused. Dollars and percent stand in quotes, so that no digit is lost.\n\
             # Presets: read-only (signs nothing), demo (for the devnet), defi-trading, paranoid.\n\
             # Tighter figures hold as soon as the file is saved; looser ones wait for your yes.\n\n\
             preset = \"paranoid\"\n",
        );
    }
    for field in wanted {
        let by = enforced(field, &installed);
        text.push_str(&format!("\n# {}\n# Enforced by: {by}\n#{} = {}\n", field.about, field.name, field.value));
    }
    print(&text)?;
    Ok(Exit::Success)
}
