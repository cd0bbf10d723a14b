//! Who spent a nonce, where none of ours has a receipt: what frees money needs a sign that something else did, and a
//! receipt that is not told is none. Behind one address there may be many machines, some of them behind the others: one
//! tells that the nonce is spent, the next one knows nothing yet of the block that spent it. And a node may tell its newest
//! count as that of the block before. So the sign is the other transaction itself, in its block; where nobody has the states
//! of then any more, an hour by the blocks' own times in which no machine was that far behind.

use alloy::eips::eip7702::SignedAuthorization;
use alloy::primitives::{Address, B256, U64};
use alloy::providers::{DynProvider, Provider as _};
use serde_json::Value;

use super::record::Entry;
use super::{Sender, SenderError};
use crate::provider::ProviderError;

/// So long, in seconds, a nonce has been spent before the receipts that nobody has are the sign.
const LONG_AGO: u64 = 3_600;

/// What is to be found of who spent a nonce.
pub(super) enum Spender {
    /// The transaction of somebody else, in its block.
    Another,
    /// Nothing, for now.
    Untold,
    /// Nobody tells the states before this block any more, and in it the nonce was spent.
    Before(u64),
}

impl Sender {
    /// Looks for the block that spent the account's nonce, which must have none of `ours` and what spent it, from a block
    /// in which it is spent.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if the chain did not tell.
    pub(super) async fn spent_by_another(
        &self,
        ours: &[Entry],
        account: Address,
        nonce: u64,
        spent_at: u64,
    ) -> Result<Spender, SenderError> {
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
                Err(SenderError::Provider(error)) if error.is_refusal() => return Ok(Spender::Before(spent)),
                // Some nodes say so in the words of a passing trouble, and where one endpoint keeps the states of then and
                // another does not, they contradict each other: it is a trouble as long as it has not lasted.
                Err(SenderError::Provider(ProviderError::Rpc { .. } | ProviderError::Disagreement { .. })) => {
                    return Ok(Spender::Before(spent_at));
                }
                Err(error) => return Err(error),
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
        let Some(transactions) = block["transactions"].as_array() else { return Ok(Spender::Untold) };
        let is_ours = |one: &Value| hash_of(one).is_none_or(|hash| ours.iter().any(|own| own.hash == hash));
        let another = !transactions.iter().any(is_ours) && transactions.iter().any(|one| spends(one, account, nonce));
        Ok(if another { Spender::Another } else { Spender::Untold })
    }

    /// Since when, by the chain's time in seconds, `ours` have been missing where their nonce was spent in block `spent` or
    /// earlier, and whether that is long ago in block `latest`.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if the chain did not tell.
    pub(super) async fn missing(
        &self,
        ours: &[Entry],
        spent: u64,
        latest: u64,
    ) -> Result<(Option<u64>, bool), SenderError> {
        let provider = self.0.client.provider();
        let time = async |number: u64| {
            let block = provider.get_block_by_number(number.into()).await.map_err(ProviderError::from)?;
            Ok::<_, SenderError>(block.map(|block| block.header.timestamp))
        };
        let known = ours.iter().filter_map(|one| one.missing_since).min();
        let (Some(spent), Some(latest)) = (time(spent).await?, time(latest).await?) else { return Ok((known, false)) };
        let since = known.map_or(spent, |known| known.min(spent));
        Ok((Some(since), latest.saturating_sub(since) >= LONG_AGO))
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
