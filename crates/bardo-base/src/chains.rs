//! Names and ids of chains: the two devnet chains, and public networks known by name.

/// Chain id of the first devnet chain, named `ethereum`. No real chain uses it, so a signature made on the devnet is
/// worthless elsewhere.
pub const DEVNET_ETHEREUM: u64 = 31_337;
/// Chain id of the second devnet chain, named `base`.
pub const DEVNET_BASE: u64 = 31_338;

/// A public network that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownChain {
    /// EIP-155 chain id.
    pub id: u64,
    /// Name that users select the network by.
    pub name: &'static str,
    /// Base URL of its block explorer, which shows a transaction at `{explorer}/tx/{hash}`.
    pub explorer: &'static str,
}

/// Public networks that are known by name.
#[rustfmt::skip]
pub const KNOWN: &[KnownChain] = &[
    KnownChain { id: 1, name: "ethereum", explorer: "https://etherscan.io" },
    KnownChain { id: 8_453, name: "base", explorer: "https://basescan.org" },
    KnownChain { id: 42_161, name: "arbitrum", explorer: "https://arbiscan.io" },
    KnownChain { id: 10, name: "optimism", explorer: "https://optimistic.etherscan.io" },
    KnownChain { id: 137, name: "polygon", explorer: "https://polygonscan.com" },
    KnownChain { id: 130, name: "unichain", explorer: "https://uniscan.xyz" },
    KnownChain { id: 11_155_111, name: "sepolia", explorer: "https://sepolia.etherscan.io" },
    KnownChain { id: 84_532, name: "base-sepolia", explorer: "https://sepolia.basescan.org" },
];

/// Name of a chain for display: that of a devnet chain or of a known network, else its id.
pub fn display_name(chain_id: u64) -> String {
    match (chain_id, known(chain_id)) {
        (DEVNET_ETHEREUM, _) => "ethereum".to_owned(),
        (DEVNET_BASE, _) => "base".to_owned(),
        (_, Some(chain)) => chain.name.to_owned(),
        (id, None) => format!("chain {id}"),
    }
}

/// Returns the public network with this id, if it is known by name.
pub fn known(chain_id: u64) -> Option<&'static KnownChain> {
    KNOWN.iter().find(|chain| chain.id == chain_id)
}
