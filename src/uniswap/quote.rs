//! Where quotes come from: a seam with Bardo's own router behind it unless another source is asked for.

use std::fmt;
use std::sync::Arc;

use alloy::eips::BlockId;
use futures::future::BoxFuture;

use super::discovery::{DiscoveryError, PoolReader, PoolSnapshot};
use super::routing::{Route, RouteRequest};

/// Why there is no quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// The source that was asked for is not there.
    #[error("quotes were asked for from {name}, which this program cannot use: {why}")]
    Absent {
        /// The source.
        name: &'static str,
        /// Why it is not there.
        why: &'static str,
    },
    /// The pools could not be read, or give no route.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

/// A source of quotes.
pub trait QuoteSource: fmt::Debug + Send + Sync {
    /// Its name, as shown beside its quotes.
    fn name(&self) -> &'static str;

    /// The best route for `request` at `block`, and the pools it was found on.
    fn route<'a>(
        &'a self,
        pools: &'a PoolReader,
        request: &'a RouteRequest,
        block: BlockId,
    ) -> BoxFuture<'a, Result<(Route, Arc<PoolSnapshot>), QuoteError>>;
}

/// Bardo's own router over the pools' state on chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnRouter;

impl QuoteSource for OwnRouter {
    fn name(&self) -> &'static str {
        "own router over on-chain pools"
    }

    fn route<'a>(
        &'a self,
        pools: &'a PoolReader,
        request: &'a RouteRequest,
        block: BlockId,
    ) -> BoxFuture<'a, Result<(Route, Arc<PoolSnapshot>), QuoteError>> {
        Box::pin(async move { Ok(pools.route(request, block).await?) })
    }
}

/// A source that was asked for and is not there. It refuses rather than let another one answer in
/// its name.
#[derive(Debug, Clone, Copy)]
pub struct AbsentSource {
    /// Its name.
    pub name: &'static str,
    /// Why it is not there.
    pub why: &'static str,
}

impl QuoteSource for AbsentSource {
    fn name(&self) -> &'static str {
        self.name
    }

    fn route<'a>(
        &'a self,
        _: &'a PoolReader,
        _: &'a RouteRequest,
        _: BlockId,
    ) -> BoxFuture<'a, Result<(Route, Arc<PoolSnapshot>), QuoteError>> {
        Box::pin(async move { Err(QuoteError::Absent { name: self.name, why: self.why }) })
    }
}
