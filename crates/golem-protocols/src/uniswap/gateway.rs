//! Interface to an order service, which accepts signed UniswapX orders, has them cosigned, and reports their state. Its
//! reports are unverified; the caller must check them against the chain.
//!
//! Not here: the implementations (a devnet's in the crate `bardo-sandbox`, HTTP in `service`), and signing.

use std::fmt;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use futures::future::BoxFuture;

use super::order::UniswapXOrder;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;

/// Unverified report of a service about an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReport {
    /// Reported state of the order.
    pub status: ServiceStatus,
    /// Cosigned order, if the service returns it. Not checked.
    pub cosigned: Option<UniswapXOrder>,
    /// Hash of the reported fill transaction.
    pub transaction: Option<B256>,
    /// Best bid of a filler; known only on devnets.
    pub best_bid: Option<BestBid>,
    /// Names of the order's parties; known only on devnets.
    pub names: Vec<(Address, SafeText)>,
}

impl ServiceReport {
    /// Returns the name of `party`, if the service reports one.
    pub fn name_of(&self, party: Address) -> Option<SafeText> {
        self.names.iter().find(|(address, _)| *address == party).map(|(_, name)| name.clone())
    }
}

/// Bid of a devnet's filler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BestBid {
    /// Address of the filler.
    pub filler: Address,
    /// Name of the filler.
    pub name: SafeText,
    /// Offered output, in raw units of the first output.
    pub output: U256,
}

/// Order states of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceStatus {
    /// The order can be filled.
    Open,
    /// The order was filled.
    Filled,
    /// The order's deadline has passed.
    Expired,
    /// The order was cancelled.
    Cancelled,
    /// The swapper lacks the input tokens or the allowance for them.
    InsufficientFunds,
    /// The service found an error in the order.
    Error,
    /// The service has not checked the order yet.
    Unverified,
}

impl ServiceStatus {
    /// All states with their names in the service's answers.
    pub const NAMES: [(Self, &'static str); 7] = [
        (Self::Open, "open"),
        (Self::Filled, "filled"),
        (Self::Expired, "expired"),
        (Self::Cancelled, "cancelled"),
        (Self::InsufficientFunds, "insufficient-funds"),
        (Self::Error, "error"),
        (Self::Unverified, "unverified"),
    ];

    /// Returns the name of the state in the service's answers.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(status, _)| *status == self).map_or("error", |(_, name)| name)
    }

    /// Parses the name of a state; `None` for an unknown name.
    pub fn parse_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(status, _)| *status)
    }
}

/// Order service for one chain.
pub trait OrderGateway: fmt::Debug + Send + Sync {
    /// Name of the service, shown with its reports.
    fn name(&self) -> &str;

    /// Submits a signed order and returns the hash it is stored under. Implementations must not retry.
    ///
    /// # Errors
    /// Returns the service's error; the order may have been accepted all the same.
    fn submit<'a>(
        &'a self,
        order: &'a UniswapXOrder,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>>;

    /// Minimum interval between two requests for the same order's report. Services limit the rate of requests, and the
    /// reports are only displayed.
    fn poll_interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the service's report about the order with this hash; `None` for an unknown order.
    ///
    /// # Errors
    /// Returns the service's error.
    fn order_report(&self, hash: B256) -> BoxFuture<'_, Result<Option<ServiceReport>, ServiceError>>;
}
