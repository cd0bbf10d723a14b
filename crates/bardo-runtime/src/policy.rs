//! Policy of each kind of network: one file for devnets and one for all other networks, beside the configuration file,
//! each with a preset that applies while the file is absent.

use std::path::PathBuf;

use bardo_base::config::Config;
use bardo_safety::policy::{PolicyError, PolicyKeeper, PolicyPreset};
use golem_chain::network::{NetworkKind, NetworkPlan, NetworkPlanError};

/// Policy file of test networks and real networks. Without it nothing is signed there.
const FILE: &str = "policy.toml";
/// Policy file of devnets. Without it the demo preset applies.
const DEVNET_FILE: &str = "policy-devnet.toml";

/// Path of the policy file, and the preset that applies without it.
pub fn place(config: &Config, devnet: bool) -> (PathBuf, PolicyPreset) {
    let (file, absent) = if devnet { (DEVNET_FILE, PolicyPreset::Demo) } else { (FILE, PolicyPreset::ReadOnly) };
    (config.file.with_file_name(file), absent)
}

/// Opens the policy of this kind of network.
///
/// # Errors
/// [`PolicyError`] for a file that cannot be used.
pub fn open(config: &Config, devnet: bool) -> Result<PolicyKeeper, PolicyError> {
    let (path, absent) = place(config, devnet);
    PolicyKeeper::open(path, absent)
}

/// True if all configured chains are devnets, as far as the configuration shows.
///
/// # Errors
/// [`NetworkPlanError`] if the configuration names no usable network.
pub fn is_devnet(config: &Config) -> Result<bool, NetworkPlanError> {
    Ok(match NetworkPlan::from_config(config)? {
        NetworkPlan::Devnet => true,
        NetworkPlan::Endpoints(plans) => {
            let kind = |plan: &golem_chain::network::ChainPlan| plan.network.as_ref().map(|network| network.kind);
            !plans.is_empty() && plans.iter().all(|plan| kind(plan) == Some(NetworkKind::Devnet))
        }
    })
}
