//! The seam to those who fill intents: relayers bid for a signed intent, one of them opens it on the origin and
//! delivers on the destination. What they say is hearsay; what happened, the chains say.
//!
//! Not here: the relayers themselves (a devnet's in `sandbox`, others over HTTP), and signing.

use std::fmt;

use alloy::primitives::{Address, B256, Bytes, U256};
use futures::future::BoxFuture;

use super::Intent;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;

/// What a relayer would deliver, and how soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayerBid {
    /// Who.
    pub relayer: Address,
    /// Its name.
    pub name: SafeText,
    /// What it would deliver, in raw units.
    pub output: U256,
    /// In how many seconds it thinks so.
    pub seconds: u64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// What is asked before anything is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The chain the tokens leave.
    pub origin_chain_id: u64,
    /// The chain they arrive on.
    pub destination_chain_id: u64,
    /// The token paid.
    pub token_in: Address,
    /// How much of it, in raw units.
    pub amount_in: U256,
    /// The token wanted.
    pub token_out: Address,
}

/// Those who fill intents.
pub trait IntentGateway: fmt::Debug + Send + Sync {
    /// Their name, as shown beside what they say.
    fn name(&self) -> &str;

    /// What relayers would deliver at present, the best first. Binds nobody.
    fn quote<'a>(&'a self, wish: &'a Wish) -> BoxFuture<'a, Result<Vec<RelayerBid>, ServiceError>>;

    /// Hands in a signed intent; answers the id it is kept under. Never asks twice by itself.
    fn submit<'a>(&'a self, intent: &'a Intent, signature: &'a Bytes) -> BoxFuture<'a, Result<B256, ServiceError>>;

    /// The bids for the intent with this id, the best first; nothing where it is not known.
    fn bids(&self, id: B256) -> BoxFuture<'_, Result<Option<Vec<RelayerBid>>, ServiceError>>;
}
