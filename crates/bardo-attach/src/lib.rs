//! Consoles on a session in another process: the session protocol over a Unix socket.
//!
//! | file | content |
//! |---|---|
//! | `place` | socket, token and lock in the data directory |
//! | `wire` | lines of the protocol: greeting, commands with passwords |
//! | `server` | accepts consoles: owner's user id, token, limits |
//! | `hub` | one session for several consoles: news for all, replies for one |
//! | `catch_up` | state that a console needs to begin with |
//! | `metrics` | health and figures of the session for a monitoring system |
//! | `metrics_server` | HTTP server of these on the loopback interface |
//! | `client` | a console's side: a [`SessionHandle`](bardo_session::handle::SessionHandle) over a connection |
//!
//! Every line is one JSON object. A console sends a [`wire::Hello`] and receives a [`wire::Greeting`]; from then on it
//! sends [`wire::FromConsole`] and receives [`SessionNews`](bardo_session::handle::SessionNews).
#![cfg(unix)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::dbg_macro
    )
)]

mod catch_up;
mod client;
mod hub;
mod metrics;
mod metrics_server;
mod place;
mod server;
#[cfg(test)]
mod tests;
pub mod wire;

pub use client::{AttachError, Connection};
pub use metrics_server::MetricsListener;
pub use place::{Place, PlaceError, Serving};
pub use server::serve;
