//! Settings of agents' files outside the chain, and of indexers of their registries.

use std::collections::BTreeMap;

use super::{RpcUrl, Setting};

/// Gateways to IPFS that are asked unless the operator names others. Each answer is compared with the content's hash, so
/// none of them need be trusted.
pub const GATEWAYS: [&str; 4] =
    ["https://ipfs.io", "https://trustless-gateway.link", "https://gateway.pinata.cloud", "https://dweb.link"];

/// Settings of agents' files and indexers.
#[derive(Debug, Clone, Default)]
pub struct AgentFileSettings {
    /// Gateways to IPFS; `None` for [`GATEWAYS`], and for none on a devnet. An empty list asks none.
    pub gateways: Option<Setting<Vec<RpcUrl>>>,
    /// Permits requests to the https servers that agents name. Such a server learns this machine's address, since they
    /// are reached without a proxy. `None` for true on public networks unless the system names a proxy, and false on a
    /// devnet.
    pub https: Option<Setting<bool>>,
    /// RPC API of the IPFS node that stores the files of own agents; `None` to write them to the chain as data URIs.
    pub upload: Option<Setting<RpcUrl>>,
    /// Subgraphs of the registries by the configured name of their chain.
    pub subgraphs: BTreeMap<String, Setting<RpcUrl>>,
}

impl AgentFileSettings {
    /// Settings as shown: key, value, origin.
    pub fn shown(&self) -> Vec<(&'static str, String, String)> {
        let gateways = self.gateways.as_ref().map(|gateways| {
            let all: Vec<String> = gateways.value.iter().map(ToString::to_string).collect();
            ("gateways", if all.is_empty() { "none".to_owned() } else { all.join(", ") }, gateways.origin.to_string())
        });
        let https = self.https.as_ref().map(|https| ("https", https.value.to_string(), https.origin.to_string()));
        let upload = self.upload.as_ref().map(|node| ("upload", node.value.to_string(), node.origin.to_string()));
        let subgraphs = self
            .subgraphs
            .iter()
            .map(|(chain, graph)| ("subgraphs", format!("{chain} {}", graph.value), graph.origin.to_string()));
        gateways.into_iter().chain(https).chain(upload).chain(subgraphs).collect()
    }
}
