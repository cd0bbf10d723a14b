//! The `bardo golem roles` command: every role of a Golem, and the broken ones with the reason. The `bardo golem
//! protocol` command: the schemas of the messages that agents exchange.

use serde_json::{Value, json};

use super::args::ProtocolSchema;
use super::{CliExit, CommandFailure, load, print, print_json};
use ::golem::archetype::Archetype;
use ::golem::brain::process::lines;
use bardo_base::config::{ConfigFlags, Environment};
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{Catalog, schema};

pub(super) fn run(environment: &Environment, flags: &ConfigFlags, json: bool) -> Result<CliExit, CommandFailure> {
    let all = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let roles = bardo_runtime::roles(&load(environment, flags)?, &all)?;
    if json {
        let usable = roles.iter().map(described);
        let broken = roles.broken().map(|(name, fault)| json!({ "name": name, "error": fault.to_string() }));
        print_json(&usable.chain(broken).collect::<Vec<_>>())?;
        return Ok(CliExit::Success);
    }
    let mut text = String::new();
    for role in roles.iter() {
        let own = if role.is_built_in() { "" } else { "  (your own)" };
        text.push_str(&format!("{:22}  {}{own}\n", role.name, role.about));
    }
    for (name, fault) in roles.broken() {
        text.push_str(&format!(
            "{name:22}  cannot be used: {}\n",
            fault.to_string().replace('\n', "\n                        ")
        ));
    }
    print(&text)?;
    Ok(CliExit::Success)
}

/// Prints the published schemas: a single one in the form of `assets/schemas`, or all in one object.
pub(super) fn protocol(schema: Option<ProtocolSchema>) -> Result<CliExit, CommandFailure> {
    let made = |schema| match schema {
        ProtocolSchema::Envelope => schema::envelope(),
        ProtocolSchema::FromBrain => lines::from_brain(),
        ProtocolSchema::ToBrain => lines::to_brain(),
    };
    match schema {
        Some(schema) => print_json(&made(schema))?,
        None => print_json(&json!({
            "envelope": made(ProtocolSchema::Envelope), "from_brain": made(ProtocolSchema::FromBrain),
            "to_brain": made(ProtocolSchema::ToBrain),
        }))?,
    }
    Ok(CliExit::Success)
}

fn described(role: &Archetype) -> Value {
    let delegates: Vec<&str> = role.delegates_to.iter().map(|edge| edge.to.as_str()).collect();
    json!({
        "name": role.name, "about": role.about, "group": role.group, "writes": role.writes, "terminal": role.terminal,
        "delegates_to": delegates, "built_in": role.is_built_in(),
    })
}
