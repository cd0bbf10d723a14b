//! Search for the transaction that used a nonce if none of ours has a receipt. Releasing funds needs evidence of
//! another transaction; a missing receipt is not evidence. Several machines may serve one URL, some behind the others,
//! so one reports the nonce as used while the next lacks the block. A node may also report its newest count for the
//! block before.
//!
//! The evidence is therefore the other transaction in its block. If no endpoint has the states of that time any more,
//! the evidence is that the receipts are still missing an hour later by the blocks' timestamps.

use alloy::eips::eip7702::SignedAuthorization;
use alloy::primitives::{Address, B256, U64};
use alloy::providers::{DynProvider, Provider as _};
use serde_json::Value;

use super::record::TxEntry;
use super::{SenderError, TxSender};
use crate::provider::ProviderError;

/// Time for which a nonce must have been used, in seconds, before missing receipts count as evidence.
const LONG_AGO: u64 = 3_600;

/// Result of the search for the transaction that used a nonce.
pub(super) enum NonceUse {
    /// Another transaction used it, and was found in its block.
    ByOther,
    /// No result for now.
    Unknown,
    /// In this block the nonce is used, and states of earlier blocks are not available.
    StatesPruned(u64),
}

impl TxSender {
    /// Searches backwards from block `spent_at`, in which the nonce is used, for the block that used it.
    /// [`NonceUse::ByOther`] requires that the block contains the using transaction and none of `ours`.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if a chain request fails.
    pub(super) async fn spent_by_another(
        &self,
        ours: &[TxEntry],
        account: Address,
        nonce: u64,
        spent_at: u64,
    ) -> Result<NonceUse, SenderError> {
        let provider = self.0.client.provider();
        let (mut spent, mut step) = (spent_at, 1_u64);
        // Step back with doubling distance to a block in which the nonce is unused.
        let mut unspent = loop {
            if spent == 0 {
                break None;
            }
            let at = spent.saturating_sub(step);
            match is_spent(provider, account, nonce, at).await {
                Ok(true) => (spent, step) = (at, step.saturating_mul(2)),
                Ok(false) => break Some(at),
                Err(SenderError::Provider(error)) if error.is_refusal() => return Ok(NonceUse::StatesPruned(spent)),
                // Some nodes report missing states as a temporary error, and endpoints with and without old states
                // contradict each other. Such an error counts as temporary until it has lasted.
                Err(SenderError::Provider(ProviderError::Rpc { .. } | ProviderError::Disagreement { .. })) => {
                    return Ok(NonceUse::StatesPruned(spent_at));
                }
                Err(error) => return Err(error),
            }
        };
        // Bisect until both blocks are adjacent.
        while let Some(low) = unspent.filter(|low| spent.saturating_sub(*low) > 1) {
            let middle = low.midpoint(spent);
            if is_spent(provider, account, nonce, middle).await? {
                spent = middle;
            } else {
                unspent = Some(middle);
            }
        }
        // Read as raw JSON, since rollups have transaction types of their own.
        let params = (format!("{spent:#x}"), true);
        let block: Value =
            provider.raw_request("eth_getBlockByNumber".into(), params).await.map_err(ProviderError::from)?;
        // A missing block is not evidence; it is read again later.
        let Some(transactions) = block["transactions"].as_array() else { return Ok(NonceUse::Unknown) };
        let is_ours = |one: &Value| hash_of(one).is_none_or(|hash| ours.iter().any(|own| own.hash == hash));
        let another = !transactions.iter().any(is_ours) && transactions.iter().any(|one| spends(one, account, nonce));
        Ok(if another { NonceUse::ByOther } else { NonceUse::Unknown })
    }

    /// Returns the chain time in seconds since which `ours` are missing, given that the nonce is used in block `spent`.
    /// The flag is true if that is at least [`LONG_AGO`] before block `latest`.
    ///
    /// # Errors
    /// [`SenderError::Provider`] if a chain request fails.
    pub(super) async fn missing(
        &self,
        ours: &[TxEntry],
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

/// Returns true if the transaction uses the account's nonce: as its sender, or by an authorization that the account
/// signed ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
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
