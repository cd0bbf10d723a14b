//! Interface to networks that fill intents. Relayers bid for a signed intent; one of them opens it on the origin chain
//! and delivers on the destination chain. Their statements are unverified; the chains determine what happened.
//!
//! Not here: the relayers themselves (a devnet's in `sandbox`, others over HTTP), and signing.

use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use futures::future::BoxFuture;

use super::CrossChainIntent;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;

/// Bid of a relayer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayerBid {
    /// Address of the relayer.
    pub relayer: Address,
    /// Name of the relayer.
    pub name: SafeText,
    /// Offered output, in raw units.
    pub output: U256,
    /// Relayer's estimate of the delivery time, in seconds.
    pub seconds: u64,
    /// True if this bid was chosen.
    pub chosen: bool,
}

/// Request for bids, before anything is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidRequest {
    /// EIP-155 id of the chain that the tokens leave.
    pub origin_chain_id: u64,
    /// EIP-155 id of the chain that they arrive on.
    pub destination_chain_id: u64,
    /// Token paid on the origin chain.
    pub token_in: Address,
    /// Amount paid, in raw units.
    pub amount_in: U256,
    /// Token received on the destination chain.
    pub token_out: Address,
}

/// Network of relayers that fill intents.
pub trait IntentGateway: fmt::Debug + Send + Sync {
    /// Name of the network, shown with its statements.
    fn name(&self) -> &str;

    /// Requests bids, best first. They are not binding.
    ///
    /// # Errors
    /// Returns the service's error.
    fn quote<'a>(&'a self, request: &'a BidRequest) -> BoxFuture<'a, Result<Vec<RelayerBid>, ServiceError>>;

    /// Submits a signed intent and returns the id it is stored under. Implementations must not retry.
    ///
    /// # Errors
    /// Returns the service's error; the intent may have been accepted all the same.
    fn submit<'a>(
        &'a self,
        intent: &'a CrossChainIntent,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>>;

    /// Returns the bids for the intent with this id, best first; `None` for an unknown intent.
    ///
    /// # Errors
    /// Returns the service's error.
    fn bids(&self, id: B256) -> BoxFuture<'_, Result<Option<Vec<RelayerBid>>, ServiceError>>;
}
