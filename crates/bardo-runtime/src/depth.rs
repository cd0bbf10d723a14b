//! Settings of a single chain, and the confirmations it needs.

use bardo_base::config::{ChainSettings, Config};
use golem_chain::network::{Network, resolve};
use golem_chain::sender::SenderRules;

/// Settings of a chain, under any of its names.
pub(super) fn settings_of<'c>(config: &'c Config, network: &Network) -> Option<&'c ChainSettings> {
    // What is configured for a live network, such as its relay, must not meet a rehearsal's transactions.
    if network.rehearses.is_some() {
        return None;
    }
    let meant = |name: &str| resolve(name, std::slice::from_ref(network)).is_ok();
    config.chains.iter().find(|(name, _)| meant(name)).map(|(_, settings)| settings)
}

/// Configured confirmations, including the block itself; `None` for the default of the network's kind.
pub(super) fn confirmations(config: &Config, network: &Network) -> Option<u64> {
    settings_of(config, network)?.confirmations.as_ref().map(|setting| setting.value)
}

/// Rules for sending transactions to a chain.
pub(super) fn sender_rules(config: &Config, network: &Network) -> SenderRules {
    let usual = SenderRules::for_network(network.kind, network.block_millis);
    SenderRules { confirmations: confirmations(config, network).unwrap_or(usual.confirmations), ..usual }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bardo_base::config::{ConfigFlags, Environment};
    use golem_chain::network::by_id;

    /// Loads a configuration file with this text, in a temporary folder.
    pub fn config(file: &str) -> (tempfile::TempDir, Config) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), file).unwrap();
        let environment: Environment = [("BARDO_HOME", home.path().to_str().unwrap())].into_iter().collect();
        let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
        (home, config)
    }

    #[test]
    fn a_chains_confirmations_come_from_the_configuration_or_else_its_kind() {
        let (_home, config) = config("[chains.ethereum]\nconfirmations = 12\n");
        let [ethereum, sepolia] = [1, 11_155_111].map(|id| by_id(id).unwrap());
        assert_eq!(confirmations(&config, ethereum), Some(12));
        assert_eq!(sender_rules(&config, ethereum).confirmations, 12);
        // Other chains keep the default of their kind.
        assert_eq!(confirmations(&config, sepolia), None);
        assert_eq!(sender_rules(&config, sepolia).confirmations, 2);
    }
}
