//! Quote source of the tools: the configured one, or Bardo's own router.

use std::sync::Arc;

use bardo_base::config::{Config, QuoteChoice};
use golem_chain::network::NetworkKind;
use golem_chain::service::ServiceUrlError;
use golem_protocols::uniswap::quote::{AbsentSource, LocalRouter, QuoteSource};
use golem_protocols::uniswap::sidecar::Sidecar;
use golem_protocols::uniswap::trading::TradingApi;
use golem_tools::engine::ToolEnvironment;

/// Client of the Trading API, if a key is configured.
///
/// # Errors
/// [`ServiceUrlError`] for an invalid address or key.
pub fn trading_api(config: &Config) -> Result<Option<TradingApi>, ServiceUrlError> {
    let quotes = &config.quotes;
    let Some(key) = &quotes.api_key else { return Ok(None) };
    let base = quotes.api_url.as_ref().map(|url| url.value.as_str());
    TradingApi::new(base, &key.value).map(Some)
}

/// Selected quote source. Uniswap's public API does not serve devnets, so an API key alone does not select it there.
pub(super) fn source(config: &Config, world: &ToolEnvironment) -> Arc<dyn QuoteSource> {
    let quotes = &config.quotes;
    let devnets = world.chains().iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    match quotes.choice() {
        QuoteChoice::Own => Arc::new(LocalRouter),
        QuoteChoice::Sidecar => match &quotes.sidecar_socket {
            Some(socket) => Arc::new(Sidecar::new(socket.value.clone())),
            None => absent(
                "the smart-order-router sidecar",
                "no socket is set: set BARDO_SIDECAR_SOCKET to the sidecar's socket",
            ),
        },
        QuoteChoice::TradingApi if devnets && quotes.api_url.is_none() => match &quotes.source {
            None => Arc::new(LocalRouter),
            Some(_) => absent(
                "the Uniswap Trading API",
                "it does not serve devnets; set BARDO_UNISWAP_API_URL to a devnet's service",
            ),
        },
        QuoteChoice::TradingApi => match trading_api(config) {
            Ok(Some(api)) => Arc::new(api),
            Ok(None) => absent("the Uniswap Trading API", "it needs an API key: set BARDO_UNISWAP_API_KEY"),
            Err(_) => {
                absent("the Uniswap Trading API", "its address or key is invalid; `bardo doctor` reports the error")
            }
        },
    }
}

fn absent(name: &'static str, why: &'static str) -> Arc<dyn QuoteSource> {
    Arc::new(AbsentSource { name, why })
}
