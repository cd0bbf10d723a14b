//! The `bardo golem kinds` command: every kind of action that a Golem can request, its tools, and whether it is
//! available. It uses the same table as the previews.

use serde_json::json;

use super::{CliExit, CommandFailure, load, print, print_json};
use ::golem::agent_api::ACTION_KINDS;
use ::golem::archetype::ArchetypeError;
use bardo_base::config::{ConfigFlags, Environment};
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::Catalog;

pub(super) fn run(
    role: Option<&str>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let all = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let catalog = match role {
        None => all.clone(),
        Some(role) => {
            let roles = bardo_runtime::roles(&load(environment, flags)?, &all)?;
            roles.reach(role, &all).map_err(|error| match error {
                ArchetypeError::Unknown { .. } => CommandFailure::usage(error.to_string()),
                other => other.into(),
            })?
        }
    };
    let rows = ACTION_KINDS.iter().map(|kind| {
        let tools: Vec<&str> = kind.reads.iter().copied().chain([kind.acts]).collect();
        (kind.name, tools, kind.lacks(&catalog))
    });
    if json {
        let row = |(kind, tools, lacks)| json!({"kind": kind, "tools": tools, "lacks": lacks});
        print_json(&rows.map(row).collect::<Vec<_>>())?;
        return Ok(CliExit::Success);
    }
    let rows: Vec<_> = rows.collect();
    let works = rows.iter().filter(|(.., lacks)| lacks.is_empty()).count();
    let mut text = String::new();
    for (kind, tools, lacks) in &rows {
        let state = match lacks.as_slice() {
            [] => "works".to_owned(),
            lacks if lacks.iter().all(|tool| all.get(tool).is_some()) => {
                format!("not in this role: {}", lacks.join(", "))
            }
            lacks => format!("lacks {}", lacks.join(", ")),
        };
        text.push_str(&format!("{kind:22}  {state:44}  {}\n", tools.join(" → ")));
    }
    print(&format!("{text}\n{works} of {} kinds available\n", rows.len()))?;
    Ok(CliExit::Success)
}
