//! Session protocol: messages between a running session and a console, as plain data that can be serialized. This crate
//! contains no chain, tool or agent logic, so that a console can depend on it alone.
//!
//! | file | content |
//! |---|---|
//! | `handle` | commands and news |
//! | `market` | blocks, prices, pools and balances for display |
//! | `questions` | approval requests |
//! | `confirmation` | requirements of an approval: warnings to read, text to type |
//! | `content` | content that would be signed |
//! | `envelope` | response to a tool call |
//! | `audit`, `recovery` | kinds of audit log entries; findings and steps of recovery |
//! | `isolation` | isolation of a brain process |
//! | `replay`, `trades` | playback of a recorded run behind the same handle; recognition of trades in events |
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
pub mod audit_words;
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
