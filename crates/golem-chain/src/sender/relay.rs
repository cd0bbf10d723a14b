//! Private relay for transactions that others could front-run in the public mempool. The interface is that of Flashbots
//! Protect: a single `eth_sendRawTransaction` request to the relay's URL, and the status by hash from another URL
//! ([documentation](https://docs.flashbots.net/flashbots-protect/additional-documentation/status-api)).
//!
//! Not here: the choice of the transactions that are sent privately, which the policy makes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::B256;
use alloy::providers::{DynProvider, Provider as _, ProviderBuilder};
use alloy::rpc::client::RpcClient;
use alloy::transports::http::reqwest::{Client, redirect};
use serde::Deserialize;

use crate::provider::{Endpoint, EndpointStack, HealthThresholds, HttpLimits, ProviderError, RetryRules};
use bardo_base::clock::Clock;
use bardo_base::config::RpcUrl;
use bardo_base::text::SafeText;

/// Maximum size of a status response, in bytes.
const MAX_STATUS_BYTES: usize = 64 * 1024;

/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Private relay of one chain. Cheap to clone.
#[derive(Clone)]
pub struct PrivateRelay {
    provider: DynProvider,
    status: Option<Arc<StatusEndpoint>>,
}

/// Status service of a relay.
struct StatusEndpoint {
    client: Client,
    base: RpcUrl,
    label: SafeText,
}

/// Status of a transaction at a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RelayStatus {
    /// The transaction is not in a block yet, and the relay still tries to include it.
    Pending,
    /// The transaction is in a block; its receipt shows the outcome.
    Included,
    /// The relay has given up on the transaction.
    Failed,
    /// The transaction was cancelled.
    Cancelled,
    /// The relay does not know the transaction, or returned another status.
    #[serde(other)]
    Unknown,
}

impl RelayStatus {
    /// Returns true if the relay no longer tries to include the transaction.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled)
    }
}

impl PrivateRelay {
    /// Creates a client of the relay at `url`, whose chain id must be `chain_id`. A transaction's status is read from
    /// `status`/HASH; without `status` the relay has no status service.
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
        let endpoint = Endpoint::http(url, chain_id, limits, HealthThresholds::default(), clock)?;
        let stack = EndpointStack::new(chain_id, vec![endpoint], RetryRules::default())?;
        let client = RpcClient::new(stack, local);
        let provider = ProviderBuilder::new().disable_recommended_fillers().connect_client(client);
        let status = status.map(|base| StatusEndpoint::new(base).map(Arc::new)).transpose()?;
        Ok(Self { provider: alloy::providers::Provider::erased(provider), status })
    }

    pub(super) fn provider(&self) -> &DynProvider {
        &self.provider
    }

    /// Checks that the relay answers JSON-RPC, and that its status service answers if there is one. No transaction is
    /// sent.
    ///
    /// # Errors
    /// [`ProviderError`] if one of them does not answer. A JSON-RPC refusal counts as an answer, since many relays
    /// support one method only.
    pub async fn check(&self) -> Result<(), ProviderError> {
        let answer: Result<String, _> = self.provider.raw_request("eth_chainId".into(), [(); 0]).await;
        match answer.map_err(ProviderError::from) {
            Ok(_) | Err(ProviderError::Rpc { .. }) => {}
            Err(error) => return Err(error),
        }
        // No transaction has this hash.
        self.status(B256::ZERO).await.map(drop)
    }

    /// Reads the status of a transaction; `None` if the relay has no status service.
    ///
    /// # Errors
    /// [`ProviderError`] if the service does not answer or returns no status.
    pub async fn status(&self, hash: B256) -> Result<Option<RelayStatus>, ProviderError> {
        match &self.status {
            None => Ok(None),
            Some(status) => status.read(hash).await.map(Some),
        }
    }
}

impl StatusEndpoint {
    fn new(base: RpcUrl) -> Result<Self, ProviderError> {
        let label = SafeText::clean(&base.to_string(), 120);
        if !matches!(base.expose().scheme(), "http" | "https") {
            return Err(ProviderError::BadUrl { endpoint: label });
        }
        let builder = Client::builder().redirect(redirect::Policy::none()).timeout(STATUS_TIMEOUT).referer(false);
        let builder = if base.is_loopback() { builder.no_proxy() } else { builder };
        let client = builder
            .build()
            .map_err(|error| ProviderError::Local { detail: SafeText::clean(&error.without_url().to_string(), 300) })?;
        Ok(Self { client, base, label })
    }

    async fn read(&self, hash: B256) -> Result<RelayStatus, ProviderError> {
        #[derive(Deserialize)]
        struct StatusResponse {
            status: RelayStatus,
        }
        let interrupted = |error: alloy::transports::http::reqwest::Error| ProviderError::Interrupted {
            endpoint: self.label.clone(),
            reason: SafeText::clean(&error.without_url().to_string(), 300),
        };
        let mut url = self.base.expose().clone();
        url.path_segments_mut()
            .map_err(|()| ProviderError::BadUrl { endpoint: self.label.clone() })?
            .pop_if_empty()
            .push(&hash.to_string());
        let mut response = self.client.get(url).send().await.map_err(interrupted)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(interrupted)? {
            if body.len().saturating_add(chunk.len()) > MAX_STATUS_BYTES {
                return Err(ProviderError::TooLarge { endpoint: self.label.clone(), limit: MAX_STATUS_BYTES });
            }
            body.extend_from_slice(&chunk);
        }
        let answer: StatusResponse = serde_json::from_slice(&body).map_err(|error| ProviderError::Decode {
            detail: SafeText::clean(&format!("{}: no status: {error}", self.label), 300),
        })?;
        Ok(answer.status)
    }
}

impl fmt::Debug for PrivateRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateRelay")
            .field("status", &self.status.as_ref().map(|status| &status.label))
            .finish_non_exhaustive()
    }
}
