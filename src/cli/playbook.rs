//! The `bardo golem playbook` command: shows or undoes a Golem's changes to its playbook. It works while the Golem is
//! running, since it reloads its documents for every search.

use std::path::Path;

use serde_json::json;

use super::args::PlaybookAction;
use super::{CliExit, CommandFailure, load, print, print_json};
use ::golem::memory::{Documents, Memory, PlaybookDelta, network_key};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{ConfigFlags, Environment};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_runtime::data::DataFolder;

/// Length limit of a text in the output, in characters.
const MOST: usize = 100;

pub(super) fn run(
    golem_id: Option<GolemId>,
    action: Option<PlaybookAction>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    let golem_id = golem_id.unwrap_or_else(|| config.golem.id());
    let folder = DataFolder::of(&config);
    let Some(store) = folder.newest_store()? else {
        return match action {
            None => {
                eprintln!("bardo: no Golem has run here yet");
                Ok(CliExit::Success)
            }
            Some(PlaybookAction::Undo { .. }) => Err("no Golem has run here yet, so there are no changes".into()),
        };
    };
    let ledger = store.path().parent().unwrap_or(Path::new("")).to_owned();
    // Each change names the network of its playbook.
    let documents = Documents::new(folder.strategy(&golem_id), &ledger, &network_key([]), &golem_id);
    let memory = Memory::new(store, golem_id);
    match action {
        None => {
            let deltas = documents.deltas(&memory)?;
            if json {
                print_json(&deltas)?;
            } else {
                print(&list(&deltas))?;
            }
        }
        Some(PlaybookAction::Undo { delta }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let undone = runtime.block_on(documents.undo(&memory, delta, SystemClock.now_millis()))?;
            if json {
                print_json(&json!(undone))?;
            } else {
                print(&format!("change {delta} of \"{}\" was undone\n", undone.section))?;
            }
        }
    }
    Ok(CliExit::Success)
}

fn list(deltas: &[PlaybookDelta]) -> String {
    if deltas.is_empty() {
        return "no changes\n".to_owned();
    }
    let line = |text: &str| SafeText::clean(text, MOST).to_string();
    let mut text = String::new();
    for delta in deltas {
        let undone = if delta.undone { "  (undone)" } else { "" };
        let network = SafeText::clean(&delta.network, MOST);
        text.push_str(&format!("{}  {network}  {}: {}{undone}\n", delta.delta, delta.section, delta.reason));
        text.push_str(&format!(
            "   before  {}\n",
            delta.before.as_deref().map_or("(no such section)".to_owned(), line)
        ));
        text.push_str(&format!("   after   {}\n", line(&delta.after)));
    }
    text.push_str("`bardo golem playbook undo NUMBER` undoes one; the newest of a section first.\n");
    text
}
