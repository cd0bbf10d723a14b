//! Policy of each kind of network: one file for devnets and one for all other networks, beside the configuration file,
//! each with a preset that applies while the file is absent.

use std::path::PathBuf;

use bardo_base::config::Config;
use bardo_base::model::Category;
use bardo_safety::policy::{Keeper, PolicyError, Preset, enforceable};
use golem_chain::network::{NetworkKind, Plan, PlanError};
use golem_tools::ALL_TOOL_DEFS;

/// Policy file of test networks and real networks. Without it nothing is signed there.
const FILE: &str = "policy.toml";
/// Policy file of devnets. Without it the demo preset applies.
const DEVNET_FILE: &str = "policy-devnet.toml";

/// Path of the policy file, and the preset that applies without it.
pub fn place(config: &Config, devnet: bool) -> (PathBuf, Preset) {
    let (file, absent) = if devnet { (DEVNET_FILE, Preset::Demo) } else { (FILE, Preset::ReadOnly) };
    (config.file.with_file_name(file), absent)
}

/// Opens the policy of this kind of network, for the built-in tools.
///
/// # Errors
/// [`PolicyError`] for a file that cannot be used, or a rule that nothing would enforce for these tools.
pub fn open(config: &Config, devnet: bool) -> Result<Keeper, PolicyError> {
    let installed: Vec<Category> = ALL_TOOL_DEFS.iter().map(|tool| tool.meta.category).collect();
    open_for(config, devnet, &installed)
}

/// Opens the policy for tools of these categories.
///
/// # Errors
/// Same as for [`open`].
pub fn open_for(config: &Config, devnet: bool, installed: &[Category]) -> Result<Keeper, PolicyError> {
    enforceable(installed)?;
    let (path, absent) = place(config, devnet);
    Keeper::open(path, absent)
}

/// True if all configured chains are devnets, as far as the configuration shows.
///
/// # Errors
/// [`PlanError`] if the configuration names no usable network.
pub fn is_devnet(config: &Config) -> Result<bool, PlanError> {
    Ok(match Plan::from_config(config)? {
        Plan::Devnet => true,
        Plan::Endpoints(plans) => {
            let kind = |plan: &golem_chain::network::ChainPlan| plan.network.as_ref().map(|network| network.kind);
            !plans.is_empty() && plans.iter().all(|plan| kind(plan) == Some(NetworkKind::Devnet))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::config::{Environment, Flags};

    #[test]
    fn tools_that_a_rule_would_not_hold_are_refused_at_the_start() {
        let home = tempfile::tempdir().unwrap();
        let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
        let config = Config::load(&Environment::from_iter(variables), &Flags::default()).unwrap();
        for devnet in [true, false] {
            assert!(open(&config, devnet).is_ok(), "what Bardo brings is held to every rule");
            let refused = open_for(&config, devnet, &[Category::Trading, Category::Lp]).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "nothing enforces min_rebalance_benefit_usd, although lp tools are installed: do without them"
            );
        }
    }
}
