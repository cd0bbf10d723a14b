//! What the configuration says of one chain, and how deep what happened there must lie before it is final.

use bardo_base::config::{ChainSettings, Config};
use golem_chain::network::{Network, resolve};
use golem_chain::sender::SenderRules;

/// What is set for a chain, under whatever name it was set.
pub(super) fn settings_of<'c>(config: &'c Config, network: &Network) -> Option<&'c ChainSettings> {
    let meant = |name: &str| resolve(name, std::slice::from_ref(network)).is_ok();
    config.chains.iter().find(|(name, _)| meant(name)).map(|(_, settings)| settings)
}

/// How many blocks, its own included, must lie on what is final there; nothing where the chain's kind says it.
pub(super) fn confirmations(config: &Config, network: &Network) -> Option<u64> {
    settings_of(config, network)?.confirmations.as_ref().map(|setting| setting.value)
}

/// How a chain is sent to.
pub(super) fn sender_rules(config: &Config, network: &Network) -> SenderRules {
    let usual = SenderRules::for_network(network.kind, network.block_millis);
    SenderRules { confirmations: confirmations(config, network).unwrap_or(usual.confirmations), ..usual }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bardo_base::config::{Environment, Flags};
    use golem_chain::network::by_id;

    /// What is read from a configuration file of this text, and the folder it stands in.
    pub fn config(file: &str) -> (tempfile::TempDir, Config) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), file).unwrap();
        let environment: Environment = [("BARDO_HOME", home.path().to_str().unwrap())].into_iter().collect();
        let config = Config::load(&environment, &Flags::default()).unwrap();
        (home, config)
    }

    #[test]
    fn a_chains_depth_is_the_configurations_word_and_else_its_kinds() {
        let (_home, config) = config("[chains.ethereum]\nconfirmations = 12\n");
        let [ethereum, sepolia] = [1, 11_155_111].map(|id| by_id(id).unwrap());
        assert_eq!(confirmations(&config, ethereum), Some(12));
        assert_eq!(sender_rules(&config, ethereum).confirmations, 12);
        // Of another chain nothing was said: a public chain's newest block may go.
        assert_eq!(confirmations(&config, sepolia), None);
        assert_eq!(sender_rules(&config, sepolia).confirmations, 2);
    }
}
