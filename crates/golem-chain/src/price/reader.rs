//! Batched reads for prices: through one provider, or, with several endpoints, through one whose endpoints must agree.

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::Address;
use alloy::providers::{DynProvider, Provider as _};

use super::NoPrice;
use crate::multicall::{BatchResults, CallBatch};
use crate::provider::ProviderError;

/// Reader that batches many calls at one block.
#[derive(Debug, Clone)]
pub struct PriceReader {
    provider: DynProvider,
    /// Provider of the same chain whose endpoints must agree; `None` with a single endpoint.
    witness: Option<DynProvider>,
    /// Block to read; `None` for the latest.
    block: Option<BlockId>,
}

impl PriceReader {
    /// Creates a reader that trusts `provider` alone.
    pub fn new(provider: DynProvider) -> Self {
        Self { provider, witness: None, block: None }
    }

    /// Reads through `witness` if given, a provider whose endpoints must agree.
    #[must_use]
    pub fn witnessed_by(self, witness: Option<DynProvider>) -> Self {
        Self { witness, ..self }
    }

    /// Reads at `block` instead of the latest block, if given.
    #[must_use]
    pub fn at(self, block: Option<BlockId>) -> Self {
        Self { block, ..self }
    }

    /// Sends all calls at one block. With a witness, the latest block is resolved first and read by its hash.
    ///
    /// # Errors
    /// [`NoPrice`] if the chain does not answer or its endpoints contradict each other.
    pub async fn send(&self, calls: CallBatch, multicall: Address) -> Result<BatchResults, NoPrice> {
        if let Some(block) = self.block {
            return Ok(calls.send(self.witness.as_ref().unwrap_or(&self.provider), multicall, block).await?);
        }
        let Some(witness) = &self.witness else {
            return Ok(calls.send(&self.provider, multicall, BlockId::latest()).await?);
        };
        let head = witness.get_block_by_number(BlockNumberOrTag::Latest).await.map_err(ProviderError::from)?;
        let block = head.map(|head| BlockId::hash(head.header.hash)).ok_or(NoPrice::NoAnswer)?;
        Ok(calls.send(witness, multicall, block).await?)
    }
}
