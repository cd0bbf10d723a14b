//! Settlement services for signed orders on each chain, and the auction type of each chain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::OpenEnvironment;
use super::data::Ledger;
use super::depth::confirmations;
use super::quotes::trading_api;
use alloy::providers::Provider as _;
use bardo_base::clock::Clock;
use bardo_base::config::Config;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use serde_json::value::RawValue;

use bardo_base::fabric::Fabric;
use bardo_safety::orders::{OrderChain, Orders, OrdersConfig};
use bardo_safety::policy_engine::PolicyEngine;
use bardo_sandbox::order_service::LocalOrders;
use bardo_sandbox::relayers::LocalRelayers;
use golem_chain::network::{DEVNET_BASE, Network, NetworkDescription, NetworkKind, resolve};
use golem_chain::service::{JsonService, ServiceUrlError};
use golem_protocols::across::quote::{FeeGateway, HttpFees};
use golem_protocols::intents::gateway::IntentGateway;
use golem_protocols::intents::service::HttpIntents;
use golem_protocols::uniswap::gateway::OrderGateway;
use golem_protocols::uniswap::order::OrderKind;
use golem_protocols::uniswap::service::HttpOrders;

/// Chain ids of Base: its blocks are ordered by priority fee, and so are auctions.
const BASE: [u64; 3] = [8_453, 84_532, DEVNET_BASE];
/// Chain ids of Arbitrum: its blocks are too fast for auctions by the second.
const ARBITRUM: [u64; 2] = [42_161, 421_614];

/// Addresses of Across's API for public and for test networks.
const ACROSS_API: &str = "https://app.across.to/api";
const ACROSS_TEST_API: &str = "https://testnet.across.to/api";

/// Auction types of the chains of `opened` that offer auctions, for quotes without a ledger.
pub async fn auctions(config: &Config, opened: &OpenEnvironment) -> BTreeMap<u64, OrderKind> {
    let offered = order_chains(config, opened).await.into_iter().filter(|chain| chain.auctions.is_some());
    offered.map(|chain| (chain.client.chain_id(), chain.kind)).collect()
}

/// Services that quote bridge deposits from the chains of `opened`, by chain id, for quotes without a ledger.
pub async fn bridge_fees(config: &Config, opened: &OpenEnvironment) -> BTreeMap<u64, Arc<dyn FeeGateway>> {
    let chains = order_chains(config, opened).await.into_iter();
    chains.filter_map(|chain| Some((chain.client.chain_id(), chain.deposits?))).collect()
}

/// Connects the chains of `opened` with their settlement services and begins to track signed orders. Orders are
/// submitted only while `may_submit` returns true; it is evaluated in each round.
pub async fn orders(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    rules: Arc<dyn PolicyEngine>,
    fabric: &Fabric,
    clock: Arc<dyn Clock>,
    may_submit: impl Fn() -> bool + Send + 'static,
) -> Orders {
    let orders = Orders::new(OrdersConfig {
        chains: order_chains(config, opened).await,
        store: ledger.store.clone(),
        rules,
        clock,
        fabric: fabric.clone(),
    });
    orders.follow(may_submit);
    orders
}

/// Error of an order service that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableService {
    /// Its address cannot be used.
    #[error(transparent)]
    Address(#[from] ServiceUrlError),
    /// It does not answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// A configured service that settles signed orders.
#[derive(Debug, Clone)]
pub struct SettlingService {
    /// Kind of order that it settles, in words.
    pub settles: &'static str,
    /// Address of the service, without credentials.
    pub place: String,
    service: Result<JsonService, ServiceUrlError>,
}

impl SettlingService {
    fn at(settles: &'static str, url: &str) -> Self {
        let service = JsonService::new(url);
        let place = service.as_ref().map_or_else(|_| SafeText::clean(url, 120).to_string(), JsonService::origin);
        Self { settles, place, service }
    }

    /// Checks that the service answers. A rejection counts as an answer.
    ///
    /// # Errors
    /// [`UnusableService`].
    pub async fn check(&self) -> Result<(), UnusableService> {
        match self.service.as_ref().map_err(Clone::clone)?.get("").await {
            Ok(_) | Err(ServiceError::Refused(_) | ServiceError::InvalidResponse(_) | ServiceError::Busy { .. }) => {
                Ok(())
            }
            Err(error @ (ServiceError::Unreachable(_) | ServiceError::Unclear(_))) => Err(error.into()),
        }
    }
}

/// Network services that settle orders of these chains; empty for the embedded devnet, which has its own.
pub async fn settling_services(config: &Config, opened: &OpenEnvironment) -> Vec<SettlingService> {
    let served = served(opened).await;
    let named = served.values().flat_map(|one| [("auctions", &one.order_service), ("bridges", &one.intent_service)]);
    // Two chains of one devnet name the same.
    let named: BTreeSet<_> = named.filter_map(|(settles, url)| Some((settles, url.as_deref()?))).collect();
    let named = named.into_iter().map(|(settles, url)| SettlingService::at(settles, url));
    let real = opened.world.chains().iter().any(|chain| chain.network().kind != NetworkKind::Devnet);
    let api = trading_api(config).ok().flatten().filter(|_| real).map(|api| {
        let service = api.service().clone();
        SettlingService { settles: "auctions", place: service.origin(), service: Ok(service) }
    });
    named.chain(api).collect()
}

async fn order_chains(config: &Config, opened: &OpenEnvironment) -> Vec<OrderChain> {
    let served = served(opened).await;
    // Errors of the API are reported by the quote source and by the doctor.
    let api = trading_api(config).ok().flatten().map(|api| api.service().clone());
    let chains = opened.world.chains().iter().map(|chain| {
        let network = chain.network();
        let served = served.get(&network.chain_id);
        let local = opened.inhabited().iter().find(|chain| chain.deployment.plan.chain_id == network.chain_id);
        let auctions = local.map(|chain| {
            let service: Arc<dyn OrderGateway> =
                Arc::new(LocalOrders::new(chain.devnet.clone(), chain.background_actors.clone()));
            service
        });
        let auctions = auctions.or_else(|| {
            // Uniswap's own service settles orders of public networks; a devnet names its own service.
            let service = match network.kind {
                NetworkKind::Devnet => JsonService::new(served?.order_service.as_deref()?).ok()?,
                NetworkKind::Test | NetworkKind::Real => api.clone()?,
            };
            let service: Arc<dyn OrderGateway> = Arc::new(HttpOrders::new(service, network.chain_id));
            Some(service)
        });
        let bridges = local.and_then(|chain| {
            let relayers = chain.background_actors.relayers()?.clone();
            let network: Arc<dyn IntentGateway> =
                Arc::new(LocalRelayers::new(relayers, chain.devnet.clone(), chain.background_actors.clone()));
            Some(network)
        });
        let bridges = bridges.or_else(|| {
            let service = JsonService::new(served?.intent_service.as_deref()?).ok()?;
            let network: Arc<dyn IntentGateway> = Arc::new(HttpIntents::new(service));
            Some(network)
        });
        let deposits = local.and_then(|chain| {
            let relayers = chain.background_actors.relayers()?.clone();
            let service: Arc<dyn FeeGateway> =
                Arc::new(LocalRelayers::new(relayers, chain.devnet.clone(), chain.background_actors.clone()));
            Some(service)
        });
        let deposits = deposits.or_else(|| {
            // Across's own service quotes for public networks; a devnet names its own service.
            let base = match network.kind {
                NetworkKind::Devnet => served?.intent_service.as_deref()?,
                NetworkKind::Test => ACROSS_TEST_API,
                NetworkKind::Real => ACROSS_API,
            };
            let service: Arc<dyn FeeGateway> = Arc::new(HttpFees::new(JsonService::new(base).ok()?));
            Some(service)
        });
        OrderChain {
            client: chain.client.clone(),
            kind: kind(config, network),
            auctions,
            bridges,
            deposits,
            confirmations: confirmations(config, network),
        }
    });
    chains.collect()
}

/// Auction type of a chain: the configured one, or the one that suits its block production.
fn kind(config: &Config, network: &Network) -> OrderKind {
    let configured = config
        .order_types
        .iter()
        .find(|(name, _)| resolve(name, std::slice::from_ref(network)).is_ok())
        .and_then(|(_, kind)| OrderKind::named(&kind.value));
    configured.unwrap_or(match network.live().0 {
        id if BASE.contains(&id) => OrderKind::Priority,
        id if ARBITRUM.contains(&id) => OrderKind::DutchV3,
        _ => OrderKind::DutchV2,
    })
}

/// Returns the descriptions of devnets in other processes by chain id. They name the services beside each chain. Only
/// descriptions of devnets count, and only from the endpoint of a chain that they contain. Any other endpoint could
/// otherwise choose who receives signed orders.
async fn served(opened: &OpenEnvironment) -> BTreeMap<u64, NetworkDescription> {
    let mut served = BTreeMap::new();
    if opened.sandbox.is_some() {
        return served;
    }
    for chain in opened.world.chains().iter().filter(|chain| chain.network().kind == NetworkKind::Devnet) {
        let answer: Result<Box<RawValue>, _> =
            chain.client.provider().raw_request("bardo_describe".into(), [(); 0]).await;
        let described = answer.ok().and_then(|answer| NetworkDescription::parse(answer.get()).ok());
        let chain_id = chain.network().chain_id;
        let serves = |described: &NetworkDescription| {
            described.trust_as_devnet().is_ok() && described.chains.iter().any(|one| one.chain_id == chain_id)
        };
        if let Some(described) = described.filter(serves) {
            served.insert(chain_id, described);
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depth::tests::config;
    use golem_chain::network::by_id;

    #[test]
    fn the_auction_kind_is_the_chains_unless_the_configuration_names_another() {
        let (_home, plain) = config("");
        let of = |config: &Config, id: u64| kind(config, by_id(id).unwrap());
        for (id, expected) in [
            (1, OrderKind::DutchV2),
            (11_155_111, OrderKind::DutchV2),
            (8_453, OrderKind::Priority),
            (84_532, OrderKind::Priority),
            (42_161, OrderKind::DutchV3),
            (421_614, OrderKind::DutchV3),
        ] {
            if by_id(id).is_some() {
                assert_eq!(of(&plain, id), expected, "{id}");
            }
        }
        let devnet = |id| Network::devnet("somewhere", id, Default::default());
        assert_eq!(kind(&plain, &devnet(DEVNET_BASE)), OrderKind::Priority);
        assert_eq!(kind(&plain, &devnet(DEVNET_BASE - 1)), OrderKind::DutchV2);
        // Configurable, so that a devnet can demonstrate all three.
        for (name, expected) in
            [("DUTCH_V2", OrderKind::DutchV2), ("DUTCH_V3", OrderKind::DutchV3), ("PRIORITY", OrderKind::Priority)]
        {
            let (_home, named) = config(&format!("[order_type]\nethereum = \"{name}\"\n"));
            assert_eq!(of(&named, 1), expected);
            assert_eq!(of(&named, 8_453), OrderKind::Priority, "of another chain nothing was said");
        }
    }
}
