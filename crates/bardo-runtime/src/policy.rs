//! Policy of each kind of network: one file for devnets and one for all other networks, beside the configuration file,
//! each with a preset that applies while the file is absent.

use std::path::PathBuf;

use bardo_base::config::Config;
use bardo_safety::policy::{PolicyError, PolicyKeeper, PolicyPreset, enforceable};
use golem_chain::network::{NetworkKind, NetworkPlan, NetworkPlanError};
use golem_tools::ALL_TOOL_DEFS;

/// Policy file of test networks and real networks. Without it nothing is signed there.
const FILE: &str = "policy.toml";
/// Policy file of devnets. Without it the demo preset applies.
const DEVNET_FILE: &str = "policy-devnet.toml";

/// Path of the policy file, and the preset that applies without it.
pub fn place(config: &Config, devnet: bool) -> (PathBuf, PolicyPreset) {
    let (file, absent) = if devnet { (DEVNET_FILE, PolicyPreset::Demo) } else { (FILE, PolicyPreset::ReadOnly) };
    (config.file.with_file_name(file), absent)
}

/// Opens the policy of this kind of network, for the built-in tools.
///
/// # Errors
/// [`PolicyError`] for a file that cannot be used, or a rule that nothing would enforce for these tools.
pub fn open(config: &Config, devnet: bool) -> Result<PolicyKeeper, PolicyError> {
    let installed: Vec<&str> = ALL_TOOL_DEFS.iter().map(|tool| tool.meta.name).collect();
    open_for(config, devnet, &installed)
}

/// Opens the policy for tools of these names.
///
/// # Errors
/// Same as for [`open`].
pub fn open_for(config: &Config, devnet: bool, installed: &[&str]) -> Result<PolicyKeeper, PolicyError> {
    enforceable(installed)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::config::{ConfigFlags, Environment};

    #[test]
    fn tools_that_a_rule_would_not_bind_are_refused_at_the_start() {
        let home = tempfile::tempdir().unwrap();
        let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
        let config = Config::load(&Environment::from_iter(variables), &ConfigFlags::default()).unwrap();
        for devnet in [true, false] {
            assert!(open(&config, devnet).is_ok(), "what Bardo brings is held to every rule");
            let refused = open_for(&config, devnet, &["token_approve", "rebalance_position"]).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "nothing enforces min_rebalance_benefit_usd, although rebalance_position is installed: remove that tool"
            );
        }
    }
}
