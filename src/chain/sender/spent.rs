//! Who spent a nonce, where none of ours has a receipt: what frees money needs a sign that something else did, and a
//! receipt that is not told is none. Behind one address there may be many machines, some of them behind the others: one
//! tells that the nonce is spent, the next one knows nothing yet of the block that spent it.

use alloy::primitives::Address;
use alloy::providers::{DynProvider, Provider as _};

use super::record::Entry;
use super::{Sender, SenderError};
use crate::chain::provider::ProviderError;

/// So many blocks back every endpoint tells an account's nonce; older ones it may have let go of.
const STATES_KEPT: u64 = 100;

impl Sender {
    /// Whether the block that spent the account's nonce is there and has none of `ours`, seen from a block in which it
    /// is spent. Where that is too long ago for anybody to say, the receipts that nobody has are the sign.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if the chain did not tell.
    pub(super) async fn spent_by_another(
        &self,
        ours: &[Entry],
        account: Address,
        nonce: u64,
        spent_at: u64,
    ) -> Result<bool, SenderError> {
        let provider = self.0.client.provider();
        let (mut spent, mut step) = (spent_at, 1_u64);
        // Back in ever longer steps to a block in which it is not spent.
        let mut unspent = loop {
            if spent == 0 {
                break None;
            }
            let at = spent.saturating_sub(step);
            match is_spent(provider, account, nonce, at).await {
                Ok(true) => (spent, step) = (at, step.saturating_mul(2)),
                Ok(false) => break Some(at),
                Err(error) if spent_at.saturating_sub(at) <= STATES_KEPT => return Err(error),
                Err(_) => return Ok(true),
            }
        };
        // Then between the two, until they are neighbours.
        while let Some(low) = unspent.filter(|low| spent.saturating_sub(*low) > 1) {
            let middle = low.midpoint(spent);
            if is_spent(provider, account, nonce, middle).await? {
                spent = middle;
            } else {
                unspent = Some(middle);
            }
        }
        let block = provider.get_block_by_number(spent.into()).await.map_err(ProviderError::from)?;
        // A block that is not told says nothing, and is asked for again.
        Ok(block.is_some_and(|block| block.transactions.hashes().all(|hash| ours.iter().all(|one| one.hash != hash))))
    }
}

async fn is_spent(provider: &DynProvider, account: Address, nonce: u64, block: u64) -> Result<bool, SenderError> {
    let count = provider.get_transaction_count(account).number(block).await.map_err(ProviderError::from)?;
    Ok(count > nonce)
}
