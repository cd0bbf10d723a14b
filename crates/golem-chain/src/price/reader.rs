//! How prices are read off a chain: by one provider, or, where there are several endpoints, by one whose endpoints must
//! say the same.

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::Address;
use alloy::providers::{DynProvider, Provider as _};

use super::NoPrice;
use crate::multicall::{Answers, Calls};
use crate::provider::ProviderError;

/// Reads many answers of one block.
#[derive(Debug, Clone)]
pub struct PriceReader {
    provider: DynProvider,
    /// The same chain's endpoints, which must say the same; where there are several.
    witness: Option<DynProvider>,
    /// The block to read; `None` for the latest.
    block: Option<BlockId>,
}

impl PriceReader {
    /// One that believes `provider` alone.
    pub fn new(provider: DynProvider) -> Self {
        Self { provider, witness: None, block: None }
    }

    /// The same, read through a provider whose endpoints must say the same, where there is one.
    #[must_use]
    pub fn witnessed_by(self, witness: Option<DynProvider>) -> Self {
        Self { witness, ..self }
    }

    /// The same, which reads `block` instead of the latest one.
    #[must_use]
    pub fn at(self, block: Option<BlockId>) -> Self {
        Self { block, ..self }
    }

    /// All answers, of one block: the latest, by its hash where several endpoints are asked about it.
    ///
    /// # Errors
    /// [`NoPrice`] where the chain does not answer, or its endpoints contradict each other.
    pub async fn send(&self, calls: Calls, multicall: Address) -> Result<Answers, NoPrice> {
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
