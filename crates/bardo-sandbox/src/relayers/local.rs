//! In-process access to a devnet's relayers, as an [`IntentGateway`].

use alloy::primitives::{B256, Bytes};
use futures::future::BoxFuture;

use super::Relayers;
use crate::background_actors::BackgroundActors;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::devnet::Devnet;
use golem_protocols::across::quote::{FeeGateway, FeeQuote, FeeRequest};
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::intents::gateway::{BidRequest, IntentGateway, RelayerBid};

/// Client of the relayers for one origin chain in this process.
#[derive(Debug, Clone)]
pub struct LocalRelayers {
    relayers: Relayers,
    devnet: Devnet,
    background_actors: BackgroundActors,
}

impl LocalRelayers {
    /// Creates a client; `devnet` and `background_actors` belong to the origin chain.
    pub fn new(relayers: Relayers, devnet: Devnet, background_actors: BackgroundActors) -> Self {
        Self { relayers, devnet, background_actors }
    }
}

fn clean(error: &dyn std::fmt::Display) -> SafeText {
    SafeText::clean(&error.to_string(), 300)
}

impl FeeGateway for LocalRelayers {
    fn name(&self) -> &str {
        "the devnet's relayers"
    }

    fn suggested_fees<'a>(&'a self, request: &'a FeeRequest) -> BoxFuture<'a, Result<FeeQuote, ServiceError>> {
        let (relayers, background_actors, request) =
            (self.relayers.clone(), self.background_actors.clone(), request.clone());
        Box::pin(async move {
            let asked =
                self.devnet.run(move |chain| relayers.suggest(chain, &background_actors.prices(chain), &request)).await;
            let quote = asked.map_err(|error| ServiceError::Unreachable(clean(&error)))?;
            quote.map_err(|error| ServiceError::Refused(clean(&error)))
        })
    }
}

impl IntentGateway for LocalRelayers {
    fn name(&self) -> &str {
        "the devnet's relayers"
    }

    fn quote<'a>(&'a self, request: &'a BidRequest) -> BoxFuture<'a, Result<Vec<RelayerBid>, ServiceError>> {
        let (relayers, background_actors, request) =
            (self.relayers.clone(), self.background_actors.clone(), request.clone());
        Box::pin(async move {
            let asked =
                self.devnet.run(move |chain| relayers.quote(chain, &background_actors.prices(chain), &request)).await;
            let bids = asked.map_err(|error| ServiceError::Unreachable(clean(&error)))?;
            bids.map_err(|error| ServiceError::Refused(clean(&error)))
        })
    }

    fn submit<'a>(
        &'a self,
        intent: &'a CrossChainIntent,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>> {
        let (relayers, background_actors) = (self.relayers.clone(), self.background_actors.clone());
        let (intent, signature) = (intent.clone(), signature.clone());
        Box::pin(async move {
            let asked = self
                .devnet
                .run(move |chain| relayers.submit(chain, &background_actors.prices(chain), &intent, &signature))
                .await;
            let taken = asked.map_err(|error| ServiceError::Unreachable(clean(&error)))?;
            taken.map_err(|error| ServiceError::Refused(clean(&error)))
        })
    }

    fn bids(&self, id: B256) -> BoxFuture<'_, Result<Option<Vec<RelayerBid>>, ServiceError>> {
        Box::pin(async move { Ok(self.relayers.bids_for(id)) })
    }
}
