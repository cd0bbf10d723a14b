//! Which policy holds on which network: one file for devnets, one for everything else, each beside
//! the configuration, each with a preset that stands for it while it is absent.

use std::path::PathBuf;

use crate::base::config::Config;
use crate::chain::network::{NetworkKind, Plan, PlanError};
use crate::safety::policy::{Keeper, PolicyError, Preset};

/// The policy of test networks and of real ones. Without it nothing is signed there.
const FILE: &str = "policy.toml";
/// The policy of devnets. Without it the demo's figures hold.
const DEVNET_FILE: &str = "policy-devnet.toml";

/// Where the policy is kept, and what holds without the file.
pub fn place(config: &Config, devnet: bool) -> (PathBuf, Preset) {
    let (file, absent) = if devnet { (DEVNET_FILE, Preset::Demo) } else { (FILE, Preset::ReadOnly) };
    (config.file.with_file_name(file), absent)
}

/// Opens the policy of this kind of network.
///
/// # Errors
/// [`PolicyError`] where there is a file that cannot be used.
pub fn open(config: &Config, devnet: bool) -> Result<Keeper, PolicyError> {
    let (path, absent) = place(config, devnet);
    Keeper::open(path, absent)
}

/// Whether everything the configuration asks for is a devnet's, as far as can be told without asking.
///
/// # Errors
/// [`PlanError`] where the configuration names no network that could be worked on.
pub fn is_devnet(config: &Config) -> Result<bool, PlanError> {
    Ok(match Plan::from_config(config)? {
        Plan::Devnet => true,
        Plan::Endpoints(plans) => {
            let kind = |plan: &crate::chain::network::ChainPlan| plan.network.as_ref().map(|network| network.kind);
            !plans.is_empty() && plans.iter().all(|plan| kind(plan) == Some(NetworkKind::Devnet))
        }
    })
}
