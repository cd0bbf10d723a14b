//! The `bardo devnet list`, `delete`, `snapshot` and `restore` commands for kept devnets.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use serde_json::json;

use super::args::DevnetAction;
use super::{CliExit, CommandFailure, load, print, print_json};
use bardo_base::config::{Config, ConfigFlags, Environment, ForkSettings};
use bardo_runtime::data::DataFolder;
use bardo_runtime::data::devnets::{DevnetError, DevnetName, KeptSummary};
use golem_chain::network::NetworkPlan;

pub(super) fn run(
    action: &DevnetAction,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let folder = DataFolder::of(&load(environment, flags)?);
    match action {
        DevnetAction::List => {
            let found = folder.kept_devnets()?;
            if json { print_json(&found.iter().map(describe).collect::<Vec<_>>())? } else { print(&list(&found))? }
        }
        DevnetAction::Snapshot { name, label } => {
            folder.snapshot_devnet(name, label)?;
            done(json, "snapshot", name, &format!("snapshot {label} of {name} was created, including its ledger"))?;
        }
        DevnetAction::Restore { name, label } => {
            let snapshots = known(&folder, name)?.snapshots;
            if !snapshots.contains(label) {
                return Err(DevnetError::NoSnapshot { devnet: name.clone(), label: label.clone() }.into());
            }
            let what =
                format!("{name} and its ledger will be restored to snapshot {label}; everything since then is lost.");
            confirm(&what, name)?;
            folder.restore_devnet(name, label)?;
            done(json, "restored", name, &format!("{name} was restored to snapshot {label}"))?;
        }
        DevnetAction::Delete { name } => {
            known(&folder, name)?;
            confirm(&format!("{name} will be deleted with its ledger and its snapshots."), name)?;
            folder.delete_devnet(name)?;
            done(json, "deleted", name, &format!("{name} was deleted"))?;
        }
    }
    Ok(CliExit::Success)
}

/// Selects the live network of a kept fork, unless `--fork` names it.
pub(super) fn resume_fork(config: &mut Config, name: &DevnetName) {
    if config.fork.is_none()
        && let Some((network, hash)) = DataFolder::of(config).kept_rehearsal(name)
    {
        config.fork =
            Some(ForkSettings { network, url: None, block: Some(hash.to_string()), holder: None, residents: false });
    }
}

/// Refuses a network whose chains are not in this process, since they cannot be kept.
pub(super) fn on_embedded(config: &Config) -> Result<(), CommandFailure> {
    match NetworkPlan::from_config(config)? {
        NetworkPlan::Devnet => Ok(()),
        NetworkPlan::Endpoints(_) => {
            let words = "--data keeps this process's own devnet, but another network is selected: remove one of them";
            Err(CommandFailure::usage(words.to_owned()))
        }
    }
}

/// Returns the devnet of this name. A missing one is reported before any confirmation.
fn known(folder: &DataFolder, name: &DevnetName) -> Result<KeptSummary, CommandFailure> {
    let found = folder.kept_devnets()?.into_iter().find(|kept| kept.name == *name);
    found.ok_or_else(|| DevnetError::NoDevnet(name.clone()).into())
}

/// Asks on the terminal for the devnet's name as confirmation.
fn confirm(what: &str, name: &DevnetName) -> Result<(), CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let error = "this cannot be undone and needs your confirmation on a terminal: run the command there yourself";
        return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
    }
    eprint!("{what}\nType `{name}` to confirm: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == name.to_string() {
        Ok(())
    } else {
        Err(CommandFailure { exit: CliExit::Rejected, error: "not confirmed; nothing was changed".into() })
    }
}

fn done(json: bool, key: &str, name: &DevnetName, text: &str) -> Result<(), CommandFailure> {
    if json { print_json(&json!({ key: name.to_string() })) } else { print(&format!("{text}\n")) }
}

fn describe(kept: &KeptSummary) -> serde_json::Value {
    json!({
        "name": kept.name.to_string(),
        "instance": kept.instance,
        "fork": kept.fork,
        "in_use": kept.is_in_use,
        "bytes": kept.bytes,
        "snapshots": kept.snapshots.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn list(found: &[KeptSummary]) -> String {
    if found.is_empty() {
        return "no kept devnets; `bardo devnet --data NAME` or `bardo --data NAME` creates one\n".to_owned();
    }
    let mut text = String::new();
    for kept in found {
        let state = match (kept.is_in_use, kept.instance) {
            (true, _) => "in use",
            (false, Some(_)) => "ready",
            (false, None) => "empty, or damaged",
        };
        let snapshots: Vec<String> = kept.snapshots.iter().map(ToString::to_string).collect();
        let snapshots = if snapshots.is_empty() { "no snapshots".to_owned() } else { snapshots.join(", ") };
        let fork = kept.fork.as_ref().map(|fork| format!("  fork of {fork}")).unwrap_or_default();
        let size = kept.bytes.div_ceil(1_024);
        text.push_str(&format!("{:<20} {state:<10} {size} KiB  {snapshots}{fork}\n", kept.name));
    }
    text
}
