//! The seam to an order service: who takes signed UniswapX orders in, has them cosigned, and says what it thinks of them.
//! What it says is hearsay: whoever asks holds it against the chain.
//!
//! Not here: the services themselves (a devnet's in `sandbox`, those over HTTP in `service`), and signing.

use std::fmt;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use futures::future::BoxFuture;

use super::order::Order;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;

/// What a service says of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hearsay {
    /// Where it says the order stands.
    pub status: ServiceStatus,
    /// The order with the cosigner's additions, where it shows them. Not checked.
    pub cosigned: Option<Order>,
    /// The transaction that filled it, as it says.
    pub transaction: Option<B256>,
    /// The best that a filler would take; known on devnets only.
    pub best_bid: Option<BestBid>,
    /// What those who have to do with the order are called; known on devnets only.
    pub names: Vec<(Address, SafeText)>,
}

impl Hearsay {
    /// What `party` is called, if the service says so.
    pub fn name_of(&self, party: Address) -> Option<SafeText> {
        self.names.iter().find(|(address, _)| *address == party).map(|(_, name)| name.clone())
    }
}

/// What a filler of a devnet would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BestBid {
    /// Who.
    pub filler: Address,
    /// Its name.
    pub name: SafeText,
    /// What it would deliver, in raw units of the first output.
    pub output: U256,
}

/// The states an order service knows, by its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceStatus {
    /// It can be filled.
    Open,
    /// It was filled.
    Filled,
    /// Its time is over.
    Expired,
    /// It was made void.
    Cancelled,
    /// The swapper lacks what it offers, or the allowance for it.
    InsufficientFunds,
    /// The service found something wrong with it.
    Error,
    /// The service has it and has not looked yet.
    Unverified,
}

impl ServiceStatus {
    /// All of them, with the word the service uses.
    pub const WORDS: [(Self, &'static str); 7] = [
        (Self::Open, "open"),
        (Self::Filled, "filled"),
        (Self::Expired, "expired"),
        (Self::Cancelled, "cancelled"),
        (Self::InsufficientFunds, "insufficient-funds"),
        (Self::Error, "error"),
        (Self::Unverified, "unverified"),
    ];

    /// The service's word.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(status, _)| *status == self).map_or("error", |(_, word)| word)
    }

    /// What a word means.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(status, _)| *status)
    }
}

/// An order service for one chain.
pub trait OrderGateway: fmt::Debug + Send + Sync {
    /// Its name, as shown beside what it says.
    fn name(&self) -> &str;

    /// Hands in a signed order; answers the hash it keeps it under. Never asks twice by itself.
    fn submit<'a>(&'a self, order: &'a Order, signature: &'a Bytes) -> BoxFuture<'a, Result<B256, ServiceError>>;

    /// How long whoever asks of an order lets pass before asking again: a service may count its callers' questions, and
    /// what it says of an order is only shown.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// What it says of the order with this hash; nothing where it knows none.
    fn look(&self, hash: B256) -> BoxFuture<'_, Result<Option<Hearsay>, ServiceError>>;
}
