//! In-process access to a devnet's order service, as an [`OrderGateway`].

use alloy::primitives::{B256, Bytes};
use futures::future::BoxFuture;

use super::{Entry, FILLERS, Status, SubmitError};
use crate::residents::Residents;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::devnet::{Devnet, DevnetGone};
use golem_protocols::uniswap::gateway::{Hearsay, OrderGateway, ServiceStatus};
use golem_protocols::uniswap::order::Order;

/// Client of one chain's order service in this process.
#[derive(Debug, Clone)]
pub struct LocalOrders {
    devnet: Devnet,
    residents: Residents,
}

impl LocalOrders {
    /// Creates a client for the service on `devnet`.
    pub fn new(devnet: Devnet, residents: Residents) -> Self {
        Self { devnet, residents }
    }

    /// Reads an order's state at the service, as of the chain's latest block; `None` if it is unknown.
    ///
    /// # Errors
    /// [`DevnetGone`] if the devnet has stopped.
    pub async fn entry(&self, hash: B256) -> Result<Option<(Entry, Hearsay)>, DevnetGone> {
        let residents = self.residents.clone();
        self.devnet
            .run(move |chain| {
                residents.order_service().follow(chain);
                let entry = residents.order_service().entry(hash)?;
                let best_bid = residents.best_bid(chain, hash);
                let (status, transaction) = match &entry.status {
                    Status::Open => (ServiceStatus::Open, None),
                    Status::Filled(fill) => (ServiceStatus::Filled, Some(fill.transaction)),
                    Status::Expired => (ServiceStatus::Expired, None),
                    Status::Cancelled => (ServiceStatus::Cancelled, None),
                    Status::InsufficientFunds => (ServiceStatus::InsufficientFunds, None),
                };
                let names = FILLERS.iter().map(|filler| {
                    let name = SafeText::clean(filler.role.label(), 40);
                    (residents.address(filler.role), name)
                });
                let (names, cosigned) = (names.collect(), Some(entry.order.clone()));
                let hearsay = Hearsay { status, cosigned, transaction, best_bid, names };
                Some((entry, hearsay))
            })
            .await
    }

    /// Submits an order with the swapper's signature.
    ///
    /// # Errors
    /// [`DevnetGone`] if the devnet has stopped; inside, the service's [`SubmitError`].
    pub async fn hand_in(&self, order: Order, signature: Bytes) -> Result<Result<B256, SubmitError>, DevnetGone> {
        let residents = self.residents.clone();
        self.devnet
            .run(move |chain| residents.order_service().submit(chain, order.kind(), &order.encode(), &signature))
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
            let answer = self.hand_in(order.clone(), signature.clone()).await.map_err(gone)?;
            answer.map_err(|error| ServiceError::Refused(SafeText::clean(&error.to_string(), 300)))
        })
    }

    fn look(&self, hash: B256) -> BoxFuture<'_, Result<Option<Hearsay>, ServiceError>> {
        Box::pin(async move { Ok(self.entry(hash).await.map_err(gone)?.map(|(_, hearsay)| hearsay)) })
    }
}
