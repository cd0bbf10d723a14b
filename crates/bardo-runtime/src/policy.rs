//! Which policy holds on which network: one file for devnets, one for everything else, each beside
//! the configuration, each with a preset that stands for it while it is absent.

use std::path::PathBuf;

use bardo_base::config::Config;
use bardo_base::model::Category;
use bardo_safety::policy::{Keeper, PolicyError, Preset, enforceable};
use golem_chain::network::{NetworkKind, Plan, PlanError};
use golem_tools::ALL_TOOL_DEFS;

/// The policy of test networks and of real ones. Without it nothing is signed there.
const FILE: &str = "policy.toml";
/// The policy of devnets. Without it the demo's figures hold.
const DEVNET_FILE: &str = "policy-devnet.toml";

/// Where the policy is kept, and what holds without the file.
pub fn place(config: &Config, devnet: bool) -> (PathBuf, Preset) {
    let (file, absent) = if devnet { (DEVNET_FILE, Preset::Demo) } else { (FILE, Preset::ReadOnly) };
    (config.file.with_file_name(file), absent)
}

/// Opens the policy of this kind of network, for the tools that Bardo brings.
///
/// # Errors
/// [`PolicyError`] where there is a file that cannot be used, or a rule that nothing would hold these tools to.
pub fn open(config: &Config, devnet: bool) -> Result<Keeper, PolicyError> {
    let installed: Vec<Category> = ALL_TOOL_DEFS.iter().map(|tool| tool.meta.category).collect();
    open_for(config, devnet, &installed)
}

/// The same for tools of these categories.
///
/// # Errors
/// As [`open`].
pub fn open_for(config: &Config, devnet: bool, installed: &[Category]) -> Result<Keeper, PolicyError> {
    enforceable(installed)?;
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
                "nothing enforces min_rebalance_benefit_usd, although lp tools are installed: remove those tools"
            );
        }
    }
}
