//! In-process access to a devnet's order service, as an [`OrderGateway`].

use alloy::primitives::{B256, Bytes};
use futures::future::BoxFuture;

use super::{Entry, FILLERS, Status, SubmitError};
use crate::background_actors::BackgroundActors;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::devnet::{Devnet, DevnetGone};
use golem_protocols::uniswap::gateway::{OrderGateway, ServiceReport, ServiceStatus};
use golem_protocols::uniswap::order::Order;

/// Client of one chain's order service in this process.
#[derive(Debug, Clone)]
pub struct LocalOrders {
    devnet: Devnet,
    background_actors: BackgroundActors,
}

impl LocalOrders {
    /// Creates a client for the service on `devnet`.
    pub fn new(devnet: Devnet, background_actors: BackgroundActors) -> Self {
        Self { devnet, background_actors }
    }

    /// Reads an order's state at the service, as of the chain's latest block; `None` if it is unknown.
    ///
    /// # Errors
    /// [`DevnetGone`] if the devnet has stopped.
    pub async fn entry(&self, hash: B256) -> Result<Option<(Entry, ServiceReport)>, DevnetGone> {
        let background_actors = self.background_actors.clone();
        self.devnet
            .run(move |chain| {
                background_actors.order_service().follow(chain);
                let entry = background_actors.order_service().entry(hash)?;
                let best_bid = background_actors.best_bid(chain, hash);
                let (status, transaction) = match &entry.status {
                    Status::Open => (ServiceStatus::Open, None),
                    Status::Filled(fill) => (ServiceStatus::Filled, Some(fill.transaction)),
                    Status::Expired => (ServiceStatus::Expired, None),
                    Status::Cancelled => (ServiceStatus::Cancelled, None),
                    Status::InsufficientFunds => (ServiceStatus::InsufficientFunds, None),
                };
                let names = FILLERS.iter().map(|filler| {
                    let name = SafeText::clean(filler.role.label(), 40);
                    (background_actors.address(filler.role), name)
                });
                let (names, cosigned) = (names.collect(), Some(entry.order.clone()));
                let hearsay = ServiceReport { status, cosigned, transaction, best_bid, names };
                Some((entry, hearsay))
            })
            .await
    }

    /// Submits an order with the swapper's signature.
    ///
    /// # Errors
    /// [`DevnetGone`] if the devnet has stopped; inside, the service's [`SubmitError`].
    pub async fn submit_order(&self, order: Order, signature: Bytes) -> Result<Result<B256, SubmitError>, DevnetGone> {
        let background_actors = self.background_actors.clone();
        self.devnet
            .run(move |chain| {
                background_actors.order_service().submit(chain, order.kind(), &order.encode(), &signature)
            })
            .await
    }
}

fn gone(error: DevnetGone) -> ServiceError {
    ServiceError::Unreachable(SafeText::clean(&error.to_string(), 200))
}

impl OrderGateway for LocalOrders {
    fn name(&self) -> &str {
        "the devnet's order service"
    }

    fn submit<'a>(&'a self, order: &'a Order, signature: &'a Bytes) -> BoxFuture<'a, Result<B256, ServiceError>> {
        Box::pin(async move {
            let answer = self.submit_order(order.clone(), signature.clone()).await.map_err(gone)?;
            answer.map_err(|error| ServiceError::Refused(SafeText::clean(&error.to_string(), 300)))
        })
    }

    fn look(&self, hash: B256) -> BoxFuture<'_, Result<Option<ServiceReport>, ServiceError>> {
        Box::pin(async move { Ok(self.entry(hash).await.map_err(gone)?.map(|(_, hearsay)| hearsay)) })
    }
}
