//! A private relay: transactions that everybody could see waiting, and trade ahead of, go here alone. As Flashbots
//! Protect has it: a plain `eth_sendRawTransaction` to the relay's URL, no batches, and the status by hash from another
//! URL ([their documentation](https://docs.flashbots.net/flashbots-protect/additional-documentation/status-api)).
//!
//! Not here: which transactions are to go this way (policy decides).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use alloy::providers::{DynProvider, Provider as _, ProviderBuilder};
use alloy::rpc::client::RpcClient;
use alloy::transports::http::reqwest::{Client, redirect};
use serde::Deserialize;

use crate::provider::{Endpoint, EndpointStack, HttpLimits, ProviderError, RetryRules, Thresholds};
use bardo_base::clock::Clock;
use bardo_base::config::RpcUrl;
use bardo_base::text::SafeText;

/// The longest status that is read, in bytes.
const MAX_STATUS: usize = 64 * 1024;

/// How long the relay may take to tell a status.
const STATUS_PATIENCE: Duration = Duration::from_secs(5);

/// A private relay of one chain.
#[derive(Clone)]
pub struct Relay {
    provider: DynProvider,
    status: Option<Arc<Status>>,
}

struct Status {
    client: Client,
    base: RpcUrl,
    label: SafeText,
}

/// What a relay says became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RelayStatus {
    /// It waits.
    Pending,
    /// A block has it; the receipt says what it did.
    Included,
    /// The relay has given it up.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// The relay has never seen it.
    #[serde(other)]
    Unknown,
}

impl RelayStatus {
    /// Whether the relay no longer tries.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled)
    }
}

impl Relay {
    /// The relay at `url` for chain `chain_id`, which it must answer to. Statuses come from `status`/HASH, where that is
    /// given.
    ///
    /// # Errors
    /// [`ProviderError`] for a URL that is not HTTP.
    pub fn new(
        url: RpcUrl,
        status: Option<RpcUrl>,
        chain_id: u64,
        limits: HttpLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ProviderError> {
        let local = url.is_loopback();
        let endpoint = Endpoint::http(url, chain_id, limits, Thresholds::default(), clock)?;
        let stack = EndpointStack::new(chain_id, vec![endpoint], RetryRules::default())?;
        let client = RpcClient::new(stack, local);
        let provider = ProviderBuilder::new().disable_recommended_fillers().connect_client(client);
        let status = status.map(|base| Status::new(base).map(Arc::new)).transpose()?;
        Ok(Self { provider: alloy::providers::Provider::erased(provider), status })
    }

    pub(super) fn provider(&self) -> &DynProvider {
        &self.provider
    }

    /// Checks that the relay speaks JSON-RPC, and its status service if it has one. Nothing is sent to either.
    ///
    /// # Errors
    /// [`ProviderError`] if one of them does not answer. A refusal is an answer: many relays know one method only.
    pub async fn check(&self) -> Result<(), ProviderError> {
        let asked: Result<String, _> = self.provider.raw_request("eth_chainId".into(), [(); 0]).await;
        match asked.map_err(ProviderError::from) {
            Ok(_) | Err(ProviderError::Rpc { .. }) => {}
            Err(error) => return Err(error),
        }
        // Nobody knows this transaction.
        self.status(B256::ZERO).await.map(drop)
    }

    /// What became of a transaction, or `None` where the relay has no status.
    ///
    /// # Errors
    /// [`ProviderError`] if it does not answer, or not with a status.
    pub async fn status(&self, hash: B256) -> Result<Option<RelayStatus>, ProviderError> {
        match &self.status {
            None => Ok(None),
            Some(status) => status.ask(hash).await.map(Some),
        }
    }
}

impl Status {
    fn new(base: RpcUrl) -> Result<Self, ProviderError> {
        let label = SafeText::clean(&base.to_string(), 120);
        if !matches!(base.expose().scheme(), "http" | "https") {
            return Err(ProviderError::BadUrl { endpoint: label });
        }
        let builder = Client::builder().redirect(redirect::Policy::none()).timeout(STATUS_PATIENCE).referer(false);
        let builder = if base.is_loopback() { builder.no_proxy() } else { builder };
        let client = builder
            .build()
            .map_err(|error| ProviderError::Local { detail: SafeText::clean(&error.without_url().to_string(), 300) })?;
        Ok(Self { client, base, label })
    }

    async fn ask(&self, hash: B256) -> Result<RelayStatus, ProviderError> {
        #[derive(Deserialize)]
        struct Answer {
            status: RelayStatus,
        }
        let broken = |error: alloy::transports::http::reqwest::Error| ProviderError::Interrupted {
            endpoint: self.label.clone(),
            reason: SafeText::clean(&error.without_url().to_string(), 300),
        };
        let mut url = self.base.expose().clone();
        url.path_segments_mut()
            .map_err(|()| ProviderError::BadUrl { endpoint: self.label.clone() })?
            .pop_if_empty()
            .push(&hash.to_string());
        let mut response = self.client.get(url).send().await.map_err(broken)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len().saturating_add(chunk.len()) > MAX_STATUS {
                return Err(ProviderError::TooLarge { endpoint: self.label.clone(), limit: MAX_STATUS });
            }
            body.extend_from_slice(&chunk);
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|error| ProviderError::Decode {
            detail: SafeText::clean(&format!("{}: no status: {error}", self.label), 300),
        })?;
        Ok(answer.status)
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("status", &self.status.as_ref().map(|status| &status.label))
            .finish_non_exhaustive()
    }
}
