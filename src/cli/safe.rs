//! The `bardo keys safe` command: shows a Safe as the chain has it, and prints the setting that binds it so.

use std::sync::Arc;

use alloy::primitives::Address;
use serde_json::json;

use super::{CliExit, CommandFailure, call, print_json, print_named};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::Config;
use bardo_runtime::account::{SafeOwner, SelectedSafe};
use bardo_runtime::data::DataFolder;
use bardo_safety::custody::SafeState;
use bardo_sandbox::safes::devnet_safes;
use golem_chain::network::NetworkKind;

pub(super) fn run(
    config: &Config,
    address: Option<Address>,
    (owner, chain): (&str, Option<&str>),
    accept: bool,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(bind(config, address, (owner, chain), accept, json))
}

async fn bind(
    config: &Config,
    address: Option<Address>,
    (owner, chain): (&str, Option<&str>),
    accept: bool,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await?;
    let chain = match chain {
        Some(asked) => opened.world.chain(asked)?,
        None => opened.world.chains().first().ok_or("no chain is connected")?,
    };
    let network = chain.network();
    let address = match address {
        Some(address) => address,
        None if network.kind == NetworkKind::Devnet => {
            devnet_safes()?.first().map(|safe| safe.address).ok_or("this devnet has no Safe")?
        }
        None => return Err(CommandFailure::usage("name the address of the Safe".into())),
    };
    let owner = SafeOwner::find(config, network.chain_id, owner)?;
    let state = SafeState::read(&chain.client, address).await?;
    state.check_owner(owner.address())?;
    let may_bind = accept || !state.has_others();
    let safe = SelectedSafe { chain_id: network.chain_id, address, bound: state.fingerprint(), owner };
    let setting = may_bind.then(|| safe.setting());
    if json {
        print_json(&json!({
            "address": state.address, "chain_id": state.chain_id, "version": state.version,
            "singleton": state.singleton, "owners": state.owners, "threshold": state.threshold.to_string(),
            "nonce": state.nonce.to_string(), "modules": state.modules, "guard": state.guard,
            "fallback_handler": state.handler, "setting": setting,
        }))?;
    } else {
        let mut text = format!("Safe {address} on {network}\n{}", lines(&state));
        match &setting {
            Some(setting) => text.push_str(&format!(
                "{}\nIt acts through its owner {} ({}) with\n  account = \"{setting}\"\nor, for one command, --key {setting}\n",
                several(&state),
                safe.owner.name(),
                safe.owner.address()
            )),
            None => text.push_str(
                "\nIt has a module, which acts without its owners, or a guard. If you know what they do, bind it with \
                 --accept.\n",
            ),
        }
        print_named(&text, &DataFolder::of(config))?;
    }
    Ok(if may_bind { CliExit::Success } else { CliExit::Rejected })
}

/// Says how a Safe acts that needs several owners.
fn several(state: &SafeState) -> String {
    match state.needs_several() {
        true => format!(
            "\nIt needs {} owners: an action is signed by this one and waits for the others (`bardo safe`).",
            state.threshold
        ),
        false => String::new(),
    }
}

/// The state, one fact a line.
fn lines(state: &SafeState) -> String {
    let list = |list: &[Address]| match list.is_empty() {
        true => "none".to_owned(),
        false => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let one = |address: Address| if address.is_zero() { "none".to_owned() } else { address.to_string() };
    [
        ("version", state.version.to_owned()),
        ("owners", list(&state.owners)),
        ("threshold", state.threshold.to_string()),
        ("nonce", state.nonce.to_string()),
        ("modules", list(&state.modules)),
        ("guard", one(state.guard)),
        ("fallback handler", one(state.handler)),
    ]
    .map(|(name, value)| format!("  {name:<17} {value}\n"))
    .concat()
}
