//! Provider stack: several HTTP endpoints of one chain behind one alloy provider, and the health of the chain.
//!
//! Guarantees, and the reasons why alloy's own layers are not used for them (alloy 2.5):
//!
//! | matter | alloy | here |
//! |---|---|---|
//! | failover | `FallbackLayer` asks several endpoints at once; a method missing from its short sequential list (`eth_sendRawTransaction` is missing) goes to all of them | [`EndpointStack`] asks one endpoint at a time; what is not a known read goes to exactly one, once |
//! | retry | `RetryBackoffLayer` replays whole packets, sends included, when an answer looks like a rate limit | reads only, with jitter and bounded in rounds and time; an endpoint that lacks the requested block may be behind, so the others are tried and then it again |
//! | lost answers | a plain transport error, which does not reveal whether the request was sent | [`ProviderError::OutcomeUnknown`], which a sender resolves by receipt and nonce |
//! | size | the HTTP transport reads the whole body first | [`CappedHttp`] stops reading at a limit |
//! | answers | ids are not compared; a missing batch member fails its own call only | ids, duplicates and missing members are checked before the packet is passed on |
//! | nonces | `CachedNonceManager` never reads the chain again; the recommended fillers set nonce, gas and fees on their own | [`ChainClient`] has no fillers: the sender owns nonces and fees |
//!
//! Texts from an endpoint are sanitised on receipt, and messages contain no part of a URL except its host. Filters
//! (`eth_newFilter` and related methods) live in one endpoint, so they do not work with failover; follow a chain by
//! block number as [`EndpointMonitor`] does.
//!
//! Not here: signing, nonces, fees and receipts (see `chain::sender`), and the simulation (see `chain::fork`).

mod agree;
mod answer;
mod client;
mod dispute;
mod endpoint;
mod endpoint_answers;
mod error;
pub mod health;
mod http;
mod method;
mod monitor;
pub mod read_only;
mod retry;
mod stack;
#[cfg(test)]
mod tests;

pub(crate) use agree::reached;
pub use client::{ChainClient, ClientBackend, ConnectError, ConnectRules};
pub use dispute::{Dispute, DisputeMark, DisputesSince};
pub use endpoint::Endpoint;
pub(crate) use endpoint_answers::{Batching, CallAnswer, EndpointAnswers};
pub use error::{MalformedAnswer, ProviderError};
pub use health::{BlockHead, ChainEndpointHealth, EndpointCondition, EndpointHealth, HealthHandle, HealthThresholds};
pub use http::{CappedHttp, HttpLimits};
pub use method::{RepeatRule, repeat_rule_of, repeat_rule_of_method};
pub use monitor::{EndpointMonitor, MonitorGuard, MonitorRules};
pub use retry::{Jitter, RetryRules};
pub use stack::EndpointStack;
