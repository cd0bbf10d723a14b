//! The `bardo paper` command: shows or resets the paper trading of every network in the data folder. It works while a
//! session is running, since a session reads the paper ledger for every action.

use std::path::Path;

use serde_json::json;

use super::args::PaperAction;
use super::{CliExit, CommandFailure, load, print, print_json};
use bardo_base::config::{ConfigFlags, Environment};
use bardo_base::units::TokenAmount;
use bardo_runtime::data::{DataFolder, open_paper};
use bardo_safety::paper::{self, PaperPosition};
use bardo_store::StoreError;
use golem_tools::engine::forget_keys;
use golem_tools::memory::forget_states;

pub(super) fn run(
    action: PaperAction,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    let ledgers = DataFolder::of(&config).paper_ledgers()?;
    match action {
        PaperAction::Show => {
            let mut positions = Vec::new();
            for ledger in &ledgers {
                let found = open_paper(ledger)?.read(paper::positions)?;
                positions.extend(found.into_iter().map(|position| (name(ledger), position)));
            }
            if json {
                let told = positions.iter().map(|(ledger, position)| json!({"ledger": ledger, "position": position}));
                print_json(&told.collect::<Vec<_>>())?;
            } else {
                print(&list(&positions))?;
            }
        }
        PaperAction::Reset => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let mut actions = 0;
            for ledger in &ledgers {
                let store = open_paper(ledger)?;
                actions += runtime.block_on(store.write::<_, StoreError>(|transaction| {
                    let actions = paper::reset(transaction)?;
                    forget_keys(transaction)?;
                    forget_states(transaction)?;
                    Ok(actions)
                }))?;
            }
            if json {
                print_json(&json!({"actions": actions, "ledgers": ledgers.len()}))?;
            } else {
                print(&format!(
                    "{actions} paper actions discarded; balances and limits start again from the chain's state\n"
                ))?;
            }
        }
    }
    Ok(CliExit::Success)
}

/// Returns the name of the ledger's folder, which identifies the network.
fn name(ledger: &Path) -> String {
    let folder = ledger.parent().and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn list(positions: &[(String, PaperPosition)]) -> String {
    if positions.is_empty() {
        return "PAPER: no balance has changed\n".to_owned();
    }
    let mut text = "PAPER: none of this was signed\n".to_owned();
    for (ledger, position) in positions {
        let whole = |raw: &str| {
            let amount = raw.parse().ok().and_then(|raw| TokenAmount::new(raw, position.decimals).ok());
            amount.map_or_else(|| raw.to_owned(), |amount| amount.to_string())
        };
        let PaperPosition { chain_id, account, symbol, came_raw, went_raw, .. } = position;
        text.push_str(&format!(
            "{ledger}  chain {chain_id}  {account}  {symbol}  in {}  out {}\n",
            whole(came_raw),
            whole(went_raw)
        ));
    }
    text
}
