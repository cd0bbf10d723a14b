//! The confirmed block from which an order's end is read. It has as many confirmations as a final transaction needs,
//! and is read from several endpoints that must agree. An end frees money and permits the same action again, so neither
//! a block that may be reorganised nor a single endpoint's answer is enough.

use alloy::eips::BlockNumberOrTag;
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::{Filter, Header, Log};

use super::OrderError;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::sender::SenderRules;

/// The latest block and the confirmed one.
pub(super) struct ConfirmationDepth {
    /// Latest block, for display only.
    pub head: Header,
    /// Block with as many confirmations, its own included, as the sender requires.
    pub deep: Header,
}

impl ConfirmationDepth {
    pub(super) async fn of(client: &ChainClient, confirmations: Option<u64>) -> Result<Self, OrderError> {
        let network = client.network();
        let usual = || SenderRules::for_network(network.kind, network.block_millis).confirmations;
        let above = confirmations.unwrap_or_else(usual).saturating_sub(1);
        let head = block(client, BlockNumberOrTag::Latest).await?;
        let deep = match above {
            0 => head.clone(),
            above => block(client, head.number.saturating_sub(above).into()).await?,
        };
        Ok(Self { head, deep })
    }
}

async fn block(client: &ChainClient, number: BlockNumberOrTag) -> Result<Header, OrderError> {
    // How deep something lies follows from it: the latest is the one that two endpoints have reached.
    let block = client.agreed().get_block_by_number(number).await.map_err(ProviderError::from)?;
    block
        .map(|block| block.header)
        .ok_or_else(|| OrderError::Nonsense(format!("{} does not return its block {number}", client.network())))
}

/// Returns the provider for reads that decide an end: several endpoints, if there are several.
pub(super) fn witness(client: &ChainClient) -> &DynProvider {
    client.witnessed().unwrap_or_else(|| client.provider())
}

/// Returns events on which several endpoints agree, or `None` if they disagree. Then neither the events nor their
/// absence is certain: an endpoint may have pruned them or not indexed them yet.
pub(super) async fn events(client: &ChainClient, filter: &Filter) -> Result<Option<Vec<Log>>, OrderError> {
    match witness(client).get_logs(filter).await.map_err(ProviderError::from) {
        Ok(logs) => Ok(Some(logs)),
        Err(ProviderError::Disagreement { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
