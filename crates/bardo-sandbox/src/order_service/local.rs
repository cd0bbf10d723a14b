//! In-process access to a devnet's order service, as an [`OrderGateway`].

use alloy::primitives::{B256, Bytes};
use futures::future::BoxFuture;

use super::{BookEntry, BookStatus, FILLERS, OrderSubmitError};
use crate::background_actors::BackgroundActors;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::devnet::{Devnet, DevnetStopped};
use golem_protocols::uniswap::gateway::{OrderGateway, ServiceReport, ServiceStatus};
use golem_protocols::uniswap::order::UniswapXOrder;

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
    /// [`DevnetStopped`] if the devnet has stopped.
    pub async fn entry(&self, hash: B256) -> Result<Option<(BookEntry, ServiceReport)>, DevnetStopped> {
        let background_actors = self.background_actors.clone();
        self.devnet
            .run(move |chain| {
                background_actors.order_service().follow(chain);
                let entry = background_actors.order_service().entry(hash)?;
                let best_bid = background_actors.best_bid(chain, hash);
                let (status, transaction) = match &entry.status {
                    BookStatus::Open => (ServiceStatus::Open, None),
                    BookStatus::Filled(fill) => (ServiceStatus::Filled, Some(fill.transaction)),
                    BookStatus::Expired => (ServiceStatus::Expired, None),
                    BookStatus::Cancelled => (ServiceStatus::Cancelled, None),
                    BookStatus::InsufficientFunds => (ServiceStatus::InsufficientFunds, None),
                };
                let names = FILLERS.iter().map(|filler| {
                    let name = SafeText::clean(filler.role.label(), 40);
                    (background_actors.address(filler.role), name)
                });
                let (names, cosigned) = (names.collect(), Some(entry.order.clone()));
                let report = ServiceReport { status, cosigned, transaction, best_bid, names };
                Some((entry, report))
            })
            .await
    }

    /// Submits an order with the swapper's signature.
    ///
    /// # Errors
    /// [`DevnetStopped`] if the devnet has stopped; inside, the service's [`OrderSubmitError`].
    pub async fn submit_order(
        &self,
        order: UniswapXOrder,
        signature: Bytes,
    ) -> Result<Result<B256, OrderSubmitError>, DevnetStopped> {
        let background_actors = self.background_actors.clone();
        self.devnet
            .run(move |chain| {
                background_actors.order_service().submit(chain, order.kind(), &order.encode(), &signature)
            })
            .await
    }
}

fn unreachable(error: DevnetStopped) -> ServiceError {
    ServiceError::Unreachable(SafeText::clean(&error.to_string(), 200))
}

impl OrderGateway for LocalOrders {
    fn name(&self) -> &str {
        "the devnet's order service"
    }

    fn submit<'a>(
        &'a self,
        order: &'a UniswapXOrder,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>> {
        Box::pin(async move {
            let answer = self.submit_order(order.clone(), signature.clone()).await.map_err(unreachable)?;
            answer.map_err(|error| ServiceError::Refused(SafeText::clean(&error.to_string(), 300)))
        })
    }

    fn order_report(&self, hash: B256) -> BoxFuture<'_, Result<Option<ServiceReport>, ServiceError>> {
        Box::pin(async move { Ok(self.entry(hash).await.map_err(unreachable)?.map(|(_, report)| report)) })
    }
}
