//! The `bardo labels` command: names that the operator gives to addresses, and watch-only accounts.

use alloy::primitives::Address;
use serde_json::json;

use super::args::LabelsAction;
use super::{CliExit, CommandFailure, load, print, print_json};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::text::{SafeText, width};
use bardo_runtime::data::DataFolder;
use bardo_runtime::labels::{Label, LabelError, Labels, own_accounts};
use golem_chain::network::{Network, NetworkPlan};

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
        LabelsAction::List => list(&labels, &data, json),
        LabelsAction::Add { address, name, watch } => {
            let address = parsed(address)?;
            data.create()?;
            let own = own_accounts(&data).map_err(refused)?;
            let networks = networks(&config)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let added = runtime
                .block_on(labels.add((address, name), *watch, &own, &networks, SystemClock.now_millis()))
                .map_err(refused)?;
            let what = if added.watched { " (watch-only: its balances are on Portfolio)" } else { "" };
            if json {
                print_json(&added)?;
            } else {
                print(&format!("{}  {}{what}\n", added.address, added.name))?;
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
                print(&format!("{}  {} has no label any more\n", removed.address, removed.name))?;
            }
            Ok(CliExit::Success)
        }
    }
}

/// Reads an address; one with a wrong checksum has a changed character.
fn parsed(text: &str) -> Result<Address, CommandFailure> {
    let shown = SafeText::clean(text, 80);
    let wrong = || CommandFailure::usage(format!("'{shown}' is not an address: write 0x and 40 hexadecimal digits"));
    let address: Address = text.parse().map_err(|_| wrong())?;
    let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
    let mixed = digits.contains(|c: char| c.is_ascii_lowercase()) && digits.contains(|c: char| c.is_ascii_uppercase());
    if mixed && address.to_checksum(None) != text {
        let words = format!("the checksum of {shown} is wrong: a character was changed. Copy the address again");
        return Err(CommandFailure::usage(words));
    }
    if address.is_zero() {
        return Err(CommandFailure::usage("the zero address belongs to nobody: it gets no label".to_owned()));
    }
    Ok(address)
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
        LabelError::Keys(_) => CommandFailure::from(error.to_string()),
        LabelError::Unusable(_)
        | LabelError::LikeAddress(_)
        | LabelError::Imitates { .. }
        | LabelError::Taken { .. }
        | LabelError::Resembles { .. }
        | LabelError::Known { .. }
        | LabelError::TooMany => CommandFailure { exit: CliExit::Blocked, error: error.into() },
    }
}

fn list(labels: &Labels, data: &DataFolder, json: bool) -> Result<CliExit, CommandFailure> {
    let own = own_accounts(data).map_err(refused)?;
    let known = labels.list()?;
    if json {
        let own = own.iter().map(|(name, address)| json!({"address": address, "name": name}));
        print_json(&json!({"labels": known, "own_accounts": own.collect::<Vec<_>>()}))?;
        return Ok(CliExit::Success);
    }
    let room = known.iter().map(|label| label.name.width()).chain(own.iter().map(|(name, _)| name.width())).max();
    let line = |name: &SafeText, address: Address, what: &str| {
        let padding = " ".repeat(room.unwrap_or(0).saturating_sub(width(name.as_str())));
        format!("{name}{padding}  {address}  {what}").trim_end().to_owned() + "\n"
    };
    let what = |label: &Label| if label.watched { "watch-only" } else { "label" };
    let mut text: String = own.iter().map(|(name, address)| line(name, *address, "own account")).collect();
    text.extend(known.iter().map(|label| line(&label.name, label.address, what(label))));
    print(if text.is_empty() { "No labels. `bardo labels add ADDRESS NAME` adds one.\n" } else { &text })?;
    Ok(CliExit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_changed_character_is_refused() {
        assert!(parsed("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266").is_ok());
        assert!(parsed("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266").is_ok(), "without a checksum");
        for (text, why) in [
            ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92267", "checksum"),
            ("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "40 hexadecimal digits"),
            ("0xf39F", "40 hexadecimal digits"),
            ("alice.eth", "40 hexadecimal digits"),
            ("0x0000000000000000000000000000000000000000", "belongs to nobody"),
        ] {
            let error = parsed(text).unwrap_err().error.to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
