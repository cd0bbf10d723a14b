//! The `bardo labels` command: names that the operator gives to addresses, and watch-only accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;
use tokio::time::timeout;

use super::args::LabelsAction;
use super::{CliExit, CommandFailure, load, print, print_json};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::text::{SafeText, width};
use bardo_runtime::data::DataFolder;
use bardo_runtime::ens::EnsReader;
use bardo_runtime::labels::{self, Label, LabelError, Labels, own_accounts};
use golem_chain::network::{Network, NetworkPlan};

/// Maximum time for the names of ENS.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(
    action: &LabelsAction,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    let data = DataFolder::of(&config);
    let labels = Labels::of(&data);
    match action {
        LabelsAction::List => list(&config, &labels, &data, json),
        LabelsAction::Add { address, name, watch, no_watch } => {
            let networks = networks(&config)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let watched = (*watch || *no_watch).then_some(*watch);
            let adding = labels::add(&data, (address, name), watched, &networks, SystemClock.now_millis());
            let added = runtime.block_on(adding).map_err(refused)?;
            if json {
                print_json(&added)?;
            } else {
                print(&format!("{}\n", added.describe()))?;
            }
            Ok(CliExit::Success)
        }
        LabelsAction::Remove { which } => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let Some(removed) = runtime.block_on(labels.remove(which))? else {
                let which = SafeText::clean(which, 80);
                let error = format!("no label is '{which}': `bardo labels list` shows names and addresses");
                return Err(CommandFailure::usage(error));
            };
            if json {
                print_json(&removed)?;
            } else {
                print(&format!("Removed the label {} from {}\n", removed.name, removed.address))?;
            }
            Ok(CliExit::Success)
        }
    }
}

/// Networks of the configuration whose contracts a label must not imitate, beside those that are always known.
fn networks(config: &Config) -> Result<Vec<Network>, CommandFailure> {
    Ok(match NetworkPlan::from_config(config)? {
        NetworkPlan::Devnet => Vec::new(),
        NetworkPlan::Endpoints(plans) => plans.into_iter().filter_map(|plan| plan.network).collect(),
    })
}

fn refused(error: LabelError) -> CommandFailure {
    match error {
        LabelError::Store(error) => error.into(),
        LabelError::Keys(_) | LabelError::Folder(_) => CommandFailure::from(error.to_string()),
        LabelError::NoAddress(_) | LabelError::Checksum(_) | LabelError::ZeroAddress => {
            CommandFailure::usage(error.to_string())
        }
        LabelError::Unusable(_)
        | LabelError::LikeAddress(_)
        | LabelError::Imitates { .. }
        | LabelError::Taken { .. }
        | LabelError::Resembles { .. }
        | LabelError::Known { .. }
        | LabelError::TooMany => CommandFailure { exit: CliExit::Blocked, error: error.into() },
    }
}

/// Names of the Ethereum Name Service of these addresses, where a configured network has it. What cannot be read is said and
/// left out: a name only stands beside an address.
fn ens_names(config: &Config, addresses: &BTreeSet<Address>) -> Result<BTreeMap<Address, SafeText>, CommandFailure> {
    // Without a usable network there is no such service, and a list needs none.
    let Ok(NetworkPlan::Endpoints(plans)) = NetworkPlan::from_config(config) else { return Ok(BTreeMap::new()) };
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let asked = async { timeout(PATIENCE, EnsReader::names_of(&plans, addresses, Arc::new(SystemClock))).await };
    let problem = match runtime.block_on(asked) {
        Ok(Ok(names)) => return Ok(names),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    eprintln!("bardo: names of ENS were not read: {}", SafeText::clean(&problem, 300));
    Ok(BTreeMap::new())
}

fn list(config: &Config, labels: &Labels, data: &DataFolder, json: bool) -> Result<CliExit, CommandFailure> {
    let own = own_accounts(data).map_err(refused)?;
    let known = labels.list()?;
    let addresses: BTreeSet<Address> =
        own.iter().map(|(_, address)| *address).chain(known.iter().map(|label| label.address)).collect();
    let ens = if addresses.is_empty() { BTreeMap::new() } else { ens_names(config, &addresses)? };
    let names = labels::names(data);
    if json {
        let ens = ens.iter().map(|(address, name)| {
            json!({"address": address, "name": name, "described": names.describe_ens(*address, name)})
        });
        let ens: Vec<_> = ens.collect();
        let own = own.iter().map(|(name, address)| json!({"address": address, "name": name}));
        print_json(&json!({"labels": known, "own_accounts": own.collect::<Vec<_>>(), "ens": ens}))?;
        return Ok(CliExit::Success);
    }
    let room = known.iter().map(|label| label.name.width()).chain(own.iter().map(|(name, _)| name.width())).max();
    let line = |name: &SafeText, address: Address, what: &str| {
        let padding = " ".repeat(room.unwrap_or(0).saturating_sub(width(name.as_str())));
        let ens = ens.get(&address).map(|name| format!("  {}", names.describe_ens(address, name))).unwrap_or_default();
        format!("{name}{padding}  {address}  {what}{ens}").trim_end().to_owned() + "\n"
    };
    let what = |label: &Label| if label.watched { "watch-only" } else { "label" };
    let mut text: String = own.iter().map(|(name, address)| line(name, *address, "own account")).collect();
    text.extend(known.iter().map(|label| line(&label.name, label.address, what(label))));
    print(if text.is_empty() { "No labels. `bardo labels add ADDRESS NAME` adds one.\n" } else { &text })?;
    Ok(CliExit::Success)
}
