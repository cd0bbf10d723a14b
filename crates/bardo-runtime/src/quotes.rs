//! Quote source of the tools: the configured one, or Bardo's own router.

use std::sync::Arc;

use bardo_base::config::{Config, QuoteChoice};
use golem_chain::network::NetworkKind;
use golem_chain::service::BadAddress;
use golem_protocols::uniswap::quote::{AbsentSource, OwnRouter, QuoteSource};
use golem_protocols::uniswap::sidecar::Sidecar;
use golem_protocols::uniswap::trading::TradingApi;
use golem_tools::engine::World;

/// Client of the Trading API, if a key is configured.
///
/// # Errors
/// [`BadAddress`] for an invalid address or key.
pub fn trading_api(config: &Config) -> Result<Option<TradingApi>, BadAddress> {
    let quotes = &config.quotes;
    let Some(key) = &quotes.api_key else { return Ok(None) };
    let base = quotes.api_url.as_ref().map(|url| url.value.as_str());
    TradingApi::new(base, &key.value).map(Some)
}

/// Selected quote source. Uniswap's public API does not serve devnets, so an API key alone does not select it there.
pub(super) fn source(config: &Config, world: &World) -> Arc<dyn QuoteSource> {
    let quotes = &config.quotes;
    let devnets = world.chains().iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    match quotes.choice() {
        QuoteChoice::Own => Arc::new(OwnRouter),
        QuoteChoice::Sidecar => match &quotes.sidecar_socket {
            Some(socket) => Arc::new(Sidecar::new(socket.value.clone())),
            None => {
                absent("the smart-order-router sidecar", "no socket is set: BARDO_SIDECAR_SOCKET says where it listens")
            }
        },
        QuoteChoice::TradingApi if devnets && quotes.api_url.is_none() => match &quotes.source {
            None => Arc::new(OwnRouter),
            Some(_) => absent(
                "the Uniswap Trading API",
                "it knows no devnet; BARDO_UNISWAP_API_URL can name the services of one",
            ),
        },
        QuoteChoice::TradingApi => match trading_api(config) {
            Ok(Some(api)) => Arc::new(api),
            Ok(None) => absent("the Uniswap Trading API", "it wants a key in BARDO_UNISWAP_API_KEY, and there is none"),
            Err(_) => absent(
                "the Uniswap Trading API",
                "its address or key cannot be used; `bardo doctor` says what is wrong with them",
            ),
        },
    }
}

fn absent(name: &'static str, why: &'static str) -> Arc<dyn QuoteSource> {
    Arc::new(AbsentSource { name, why })
}
