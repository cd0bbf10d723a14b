//! The provider stack: several HTTP endpoints of one chain behind one alloy provider, and the chain's health.
//!
//! What it promises, and why alloy's own layers are not used for it (alloy 2.5):
//!
//! | matter | alloy | here |
//! |---|---|---|
//! | failover | `FallbackLayer` asks several endpoints at once; a method missing from its short sequential list (`eth_sendRawTransaction` is missing) goes to all of them | [`EndpointStack`] asks one endpoint at a time; what is not a known read goes to exactly one, once |
//! | retry | `RetryBackoffLayer` replays whole packets, sends included, when an answer looks like a rate limit | reads only, jittered, bounded in rounds and in time; an endpoint that lacks the block in question may be behind, so the others are asked, and it again |
//! | lost answers | a plain transport error, indistinguishable from one where nothing left | [`ProviderError::OutcomeUnknown`], which a sender settles by receipt and nonce |
//! | size | the HTTP transport reads a body whole before it looks at it | [`CappedHttp`] stops reading at a limit |
//! | answers | ids are not compared; a missing batch member fails its own call only | ids, doubles and missing members are checked before anyone sees the packet |
//! | nonces | `CachedNonceManager` never looks at the chain again; recommended fillers fill nonce, gas and fees on their own | [`ChainClient`] has no fillers: the sender owns nonces and fees |
//!
//! Texts of an endpoint are cleaned where they enter, and nothing that is printed holds more of an
//! URL than its host. Filters (`eth_newFilter` and its family) live in one endpoint, so they do not
//! mix with failover: follow a chain by block number, as [`Monitor`] does.
//!
//! Not here: signing, nonces, fees, receipts (the sender), and the simulation (`chain::fork`).

mod agree;
mod answer;
mod client;
mod dispute;
mod endpoint;
mod error;
pub mod health;
mod http;
mod method;
mod monitor;
mod retry;
mod stack;
mod testimony;
#[cfg(test)]
mod tests;

pub(crate) use agree::reached;
pub use client::{Backing, ChainClient, ConnectError, ConnectRules};
pub use dispute::{Dispute, DisputeMark, DisputesSince};
pub use endpoint::Endpoint;
pub use error::{Malformed, ProviderError};
pub use health::{ChainHealth, Condition, EndpointHealth, Head, HealthHandle, Thresholds};
pub use http::{CappedHttp, HttpLimits};
pub use method::{Replay, replay_of, replay_of_method};
pub use monitor::{Monitor, MonitorGuard, MonitorRules};
pub use retry::{Jitter, RetryRules};
pub use stack::EndpointStack;
pub(crate) use testimony::{Batching, Said, Testimony};
