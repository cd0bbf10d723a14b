//! Confirmed block at which an order's end is read. It has as many confirmations as a final transaction needs, and
//! several endpoints must agree on its state. An end releases the reservation and permits the same action again, so
//! neither a block that may be reorganised nor a single endpoint's answer is enough.

use alloy::eips::BlockNumberOrTag;
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::{Filter, Header, Log};

use super::OrderError;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::sender::SenderRules;

/// Latest block and latest confirmed block of a chain.
pub(crate) struct ConfirmationDepth {
    /// Latest block, for display only.
    pub head: Header,
    /// Block with as many confirmations as the sender requires, counting the block itself.
    pub confirmed: Header,
}

impl ConfirmationDepth {
    /// Reads both blocks. `confirmations` replaces the network's default.
    pub(crate) async fn read(client: &ChainClient, confirmations: Option<u64>) -> Result<Self, OrderError> {
        let network = client.network();
        let default = || SenderRules::for_network(network.kind, network.block_millis).confirmations;
        let blocks_above = confirmations.unwrap_or_else(default).saturating_sub(1);
        let head = block(client, BlockNumberOrTag::Latest).await?;
        let confirmed = match blocks_above {
            0 => head.clone(),
            _ => block(client, head.number.saturating_sub(blocks_above).into()).await?,
        };
        Ok(Self { head, confirmed })
    }
}

async fn block(client: &ChainClient, number: BlockNumberOrTag) -> Result<Header, OrderError> {
    // Confirmations are counted from the latest block, so it must be one that two endpoints have reached.
    let block = client.agreed().get_block_by_number(number).await.map_err(ProviderError::from)?;
    block
        .map(|block| block.header)
        .ok_or_else(|| OrderError::InvalidAnswer(format!("{} does not return its block {number}", client.network())))
}

/// Returns the provider for reads that decide an end. With several endpoints, all must give the same answer.
pub(crate) fn agreeing_provider(client: &ChainClient) -> &DynProvider {
    client.witnessed().unwrap_or_else(|| client.provider())
}

/// Returns the events that match the filter, or `None` if the endpoints disagree. Then neither an event nor its absence
/// is certain: an endpoint may have pruned its logs or not indexed them yet.
pub(crate) async fn events(client: &ChainClient, filter: &Filter) -> Result<Option<Vec<Log>>, OrderError> {
    match agreeing_provider(client).get_logs(filter).await.map_err(ProviderError::from) {
        Ok(logs) => Ok(Some(logs)),
        Err(ProviderError::Disagreement { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
