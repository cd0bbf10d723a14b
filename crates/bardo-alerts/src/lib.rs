//! Alerts: what a session reports to its operator outside the console. Session news go in, messages go out.
//!
//! Nothing comes back: no reply is read, and nothing can be approved through an alert. A channel that fails never holds
//! the session up; its queue is bounded, and its failures are reported.
//!
//! | module | contents |
//! |---|---|
//! | `rules` | conditions over the session's news, as alerts without repetition |
//! | `alert` | an alert and its texts, brief or in full |
//! | `channel` | kinds of channel, and what a delivery can end in |
//! | `secret` | secrets of channels, from the environment or a file of the operator's own |
//! | `http` | bounded HTTP requests without redirects |
//! | `webhook`, `telegram`, `email`, `desktop` | the channels |
//! | `delivery` | one worker for each channel: retries, rate limit, held-back alerts |
//! | `status` | state of the channels on disk, for other processes |
//! | `service` | everything together, beside a running session |

mod alert;
mod channel;
mod delivery;
mod desktop;
mod email;
mod http;
mod rules;
mod secret;
mod service;
mod status;
mod telegram;
mod webhook;

#[cfg(test)]
mod tests;

pub use alert::{Alert, AlertMessage};
pub use channel::{Channel, ChannelError, ChannelName, Delivered, SendError, UnknownChannel, channels};
pub use secret::SecretError;
pub use service::{Alerts, ChannelReport, follow};
pub use status::{ChannelStatus, StatusFile};
