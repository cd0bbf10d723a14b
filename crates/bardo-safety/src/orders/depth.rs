//! The block by which an order's end is told: as deep as a transaction has to be before its end is final, and read
//! through endpoints that must say the same. An end frees money and lets the same be done again; a block that the chain
//! may still drop, or one endpoint's word, is not enough for that.

use alloy::eips::BlockNumberOrTag;
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::{Filter, Header, Log};

use super::OrderError;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::sender::SenderRules;

/// The latest block, and the one by which ends are told.
pub(super) struct Depth {
    /// What is newest, for what is only shown.
    pub head: Header,
    /// As many blocks lie on it, its own included, as the sender waits for.
    pub deep: Header,
}

impl Depth {
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
        .ok_or_else(|| OrderError::Nonsense(format!("{} does not tell its block {number}", client.network())))
}

/// What is asked for an end: several endpoints, where there are.
pub(super) fn witness(client: &ChainClient) -> &DynProvider {
    client.witnessed().unwrap_or_else(|| client.provider())
}

/// Events that several endpoints tell alike. Where they do not, `None`: nothing was seen, and nothing was seen not to
/// be there either, for one of them may lack what it has pruned, or not have indexed it yet.
pub(super) async fn events(client: &ChainClient, filter: &Filter) -> Result<Option<Vec<Log>>, OrderError> {
    match witness(client).get_logs(filter).await.map_err(ProviderError::from) {
        Ok(logs) => Ok(Some(logs)),
        Err(ProviderError::Disagreement { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
