//! Who spent a nonce, where none of ours has a receipt: what frees money needs a sign that something else did, and a
//! receipt that is not told is none. Behind one address there may be many machines, some of them behind the others: one
//! tells that the nonce is spent, the next one knows nothing yet of the block that spent it. And a node may tell its newest
//! count as that of the block before. So the sign is the other transaction itself, in its block.

use alloy::eips::eip7702::SignedAuthorization;
use alloy::primitives::{Address, B256, U64};
use alloy::providers::{DynProvider, Provider as _};
use serde_json::Value;

use super::record::Entry;
use super::{Sender, SenderError};
use crate::chain::provider::ProviderError;

/// So many blocks back every endpoint tells an account's nonce; older ones it may have let go of.
const STATES_KEPT: u64 = 100;

impl Sender {
    /// Whether the block that spent the account's nonce is there, has none of `ours`, and has what spent it, seen from a
    /// block in which it is spent. Where that is too long ago for anybody to say, the receipts that nobody has are the sign.
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
        // As it comes: rollups have kinds of transactions of their own.
        let params = (format!("{spent:#x}"), true);
        let block: Value =
            provider.raw_request("eth_getBlockByNumber".into(), params).await.map_err(ProviderError::from)?;
        // A block that is not told says nothing, and is asked for again.
        let Some(transactions) = block["transactions"].as_array() else { return Ok(false) };
        let is_ours = |one: &Value| hash_of(one).is_none_or(|hash| ours.iter().any(|own| own.hash == hash));
        Ok(!transactions.iter().any(is_ours) && transactions.iter().any(|one| spends(one, account, nonce)))
    }
}

fn hash_of(transaction: &Value) -> Option<B256> {
    transaction["hash"].as_str()?.parse().ok()
}

/// Whether a transaction spends the account's nonce: as its sender's, or by an authorization that the account signed
/// ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
fn spends(transaction: &Value, account: Address, nonce: u64) -> bool {
    let sent_by = transaction["from"].as_str().and_then(|from| from.parse::<Address>().ok());
    let counted = transaction["nonce"].as_str().and_then(|nonce| nonce.parse::<U64>().ok());
    let authorized = || {
        let list = serde_json::from_value::<Vec<SignedAuthorization>>(transaction["authorizationList"].clone());
        let by =
            |one: &SignedAuthorization| one.nonce == nonce && one.recover_authority().is_ok_and(|by| by == account);
        list.is_ok_and(|list| list.iter().any(by))
    };
    (sent_by, counted) == (Some(account), Some(U64::from(nonce))) || authorized()
}

async fn is_spent(provider: &DynProvider, account: Address, nonce: u64, block: u64) -> Result<bool, SenderError> {
    let count = provider.get_transaction_count(account).number(block).await.map_err(ProviderError::from)?;
    Ok(count > nonce)
}
