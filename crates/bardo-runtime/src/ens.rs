//! Names of the Ethereum Name Service (ENS), shown beside whole addresses. Nothing is sent to a name, and no tool takes one.
//!
//! A name counts only if it leads back: the name that an address claims must resolve to that address, both at one block,
//! by what a majority of the endpoints answers. Names that need an answer from outside of the chain (EIP-3668) or a
//! wildcard resolver (ENSIP-10) have none here.
//!
//! Of the names that ENSIP-15 allows, only those of lower-case ASCII letters, digits, hyphens and leading underscores are
//! shown. Normalisation leaves these as they are, and none imitates another script.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::Address;
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use alloy::transports::RpcError;
use alloy_ens::EnsRegistry::resolverCall;
use alloy_ens::EnsResolver::{addrCall, nameCall};
use alloy_ens::{ENS_ADDRESS, namehash};
use futures::stream::{self, StreamExt as _};

use bardo_base::clock::Clock;
use bardo_base::text::{SafeText, reads_like_address};
use golem_chain::network::ChainPlan;
use golem_chain::provider::{ChainClient, ConnectError, ConnectRules, ProviderError};

/// Networks with ENS's own registry: Ethereum and Sepolia.
const NETWORKS: [u64; 2] = [1, 11_155_111];
/// Maximum length of a name that is shown, in characters.
const MOST_CHARS: usize = 60;

/// Number of names that are looked up at once.
const AT_ONCE: usize = 8;

/// Error of reading names.
#[derive(Debug, thiserror::Error)]
pub enum EnsError {
    /// The network cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The network does not answer, or its endpoints contradict each other.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Reader of the names on one network. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EnsReader {
    client: ChainClient,
    registry: Address,
}

impl EnsReader {
    /// Reader of the network's own ENS; `None` if it has none.
    pub fn of(client: &ChainClient) -> Option<Self> {
        NETWORKS.contains(&client.chain_id()).then(|| Self::with_registry(client, ENS_ADDRESS))
    }

    /// Names of these addresses on the first of the planned networks that has ENS; an address without one is left out.
    ///
    /// # Errors
    /// [`EnsError`] if a network that may have ENS cannot be reached, or does not answer.
    pub async fn names_of(
        plans: &[ChainPlan],
        addresses: &BTreeSet<Address>,
        clock: Arc<dyn Clock>,
    ) -> Result<BTreeMap<Address, SafeText>, EnsError> {
        for plan in plans {
            let chain_id = plan.network.as_ref().map(|network| network.chain_id).or(plan.chain_id);
            if chain_id.is_some_and(|id| !NETWORKS.contains(&id)) {
                continue;
            }
            let client = ChainClient::connect(plan, ConnectRules::default(), Arc::clone(&clock)).await?;
            let Some(reader) = Self::of(&client) else { continue };
            let reader = &reader;
            let asked = addresses.iter().map(|address| async move { (*address, reader.name_of(*address).await) });
            let answers: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
            let mut names = BTreeMap::new();
            for (address, name) in answers {
                names.extend(name?.map(|name| (address, name)));
            }
            return Ok(names);
        }
        Ok(BTreeMap::new())
    }

    /// Reader of the names in `registry`.
    pub fn with_registry(client: &ChainClient, registry: Address) -> Self {
        Self { client: client.clone(), registry }
    }

    /// Name of an address that leads back to it; `None` if there is none, or none that can be shown.
    ///
    /// # Errors
    /// [`ProviderError`] if the chain does not answer, or its endpoints contradict each other without a majority.
    pub async fn name_of(&self, address: Address) -> Result<Option<SafeText>, ProviderError> {
        let (provider, newest) = self.client.newest().await?;
        let missing = || ProviderError::Decode { detail: SafeText::clean("there is no newest block", 60) };
        let block = provider.get_block(newest).await.map_err(ProviderError::from)?.ok_or_else(missing)?;
        let at = BlockId::hash(block.header.hash);
        let reverse = namehash(&format!("{address:x}.addr.reverse"));
        let Some(resolver) = self.resolver(provider, reverse, at).await? else { return Ok(None) };
        let Some(claimed) = read(provider, resolver, nameCall { node: reverse }, at).await? else { return Ok(None) };
        if !is_plain(&claimed) {
            return Ok(None);
        }
        let forward = namehash(&claimed);
        let Some(resolver) = self.resolver(provider, forward, at).await? else { return Ok(None) };
        let found = read(provider, resolver, addrCall { node: forward }, at).await?;
        Ok((found == Some(address)).then(|| SafeText::clean(&claimed, MOST_CHARS)))
    }

    async fn resolver(
        &self,
        provider: &DynProvider,
        node: alloy::primitives::B256,
        at: BlockId,
    ) -> Result<Option<Address>, ProviderError> {
        let found = read(provider, self.registry, resolverCall { node }, at).await?;
        Ok(found.filter(|resolver| !resolver.is_zero()))
    }
}

/// Result of a call; `None` if the contract reverts or answers something else.
async fn read<C: SolCall>(
    provider: &DynProvider,
    to: Address,
    call: C,
    at: BlockId,
) -> Result<Option<C::Return>, ProviderError> {
    let request = TransactionRequest::default().with_to(to).with_input(call.abi_encode());
    match provider.call(request).block(at).await {
        Ok(answer) => Ok(C::abi_decode_returns(&answer).ok()),
        // A revert with the request to ask a server (EIP-3668) is none either.
        Err(RpcError::ErrorResp(payload)) if payload.code == 3 || payload.as_revert_data().is_some() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns true for a name that is shown: at least two labels of lower-case ASCII letters, digits, hyphens and leading
/// underscores. ENSIP-15 allows these, except for a third and fourth hyphen, and normalises them to themselves.
fn is_plain(name: &str) -> bool {
    let label = |label: &str| {
        let rest = label.trim_start_matches('_');
        let plain = rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        !label.is_empty() && plain && label.as_bytes().get(2..4) != Some(b"--")
    };
    name.len() <= MOST_CHARS && name.contains('.') && name.split('.').all(label) && !reads_like_address(name)
}

#[cfg(test)]
mod tests;
