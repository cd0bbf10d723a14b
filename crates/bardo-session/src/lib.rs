//! The session protocol: what passes between a running session and whoever watches and steers it, as plain data that can
//! be written down and read again. No logic of a chain, a tool or an agent is here, so that a console builds on this alone.
//!
//! | file | holds |
//! |---|---|
//! | `handle` | commands in, news out |
//! | `market` | blocks, prices, pools and balances as they are shown |
//! | `questions` | what the operator is asked |
//! | `confirmation` | what must be read and typed before an approval counts |
//! | `content` | what would be signed |
//! | `envelope` | what a tool call answers with |
//! | `audit`, `recovery` | kinds of audit entries; what recovery finds and does |
//! | `isolation` | how far a brain process is isolated |
//! | `replay`, `trades` | a recorded run behind the same handle; the trades of one as CSV |
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

pub mod audit;
pub mod confirmation;
pub mod content;
pub mod envelope;
pub mod handle;
pub mod isolation;
pub mod market;
pub mod questions;
pub mod recovery;
pub mod replay;
pub mod trades;
