//! Profit and loss of an account: what each token cost, what selling it brought, and what it would bring now.
//!
//! [`entry`] describes what an account received and gave in one transaction, [`tables`] stores that, [`books`] assigns
//! costs first in, first out, [`report`] sums the results, and [`csv`] writes them for tax programs. Nothing here reads
//! a chain: `bardo-runtime` finds the entries, and hands over only what the endpoints agree on.
//!
//! # Rules
//! - Lots are kept per account, chain and token, and used first in, first out. The native token and its wrapped form are
//!   one asset: wrapping sells nothing, and moves no lot.
//! - Gas is paid from the native token's lots before anything else in its transaction. It is a cost of its own, at the
//!   price witnessed then; the gain or loss on the token that paid it is realised.
//! - A trade is worth what its dollar side is worth; without one, what was received, or else what was given. That value
//!   is the proceeds of what was given and the cost of what was received.
//! - A transfer to another account realises nothing: the lots leave at their cost. If the books of both accounts have
//!   the transaction, the lots move to the other with their times and costs; only tokens with events can be matched.
//! - A bridge order counts as a sale and a purchase at the prices witnessed on both chains, although the asset is the
//!   same: it realises the gain up to then. The difference of both values is its fee, which prices may turn into a gain.
//! - A difference between the chain and everything that is known becomes an entry of its own: what came has the value
//!   witnessed then as its cost, what went leaves at its cost, and nothing is realised.
//! - A price that was not witnessed within 15 minutes is missing, and never estimated; without one, an action has the
//!   price that it was decided by, for a day. A token that only pools price has the lower median of its pools. What has no known cost realises nothing that is
//!   known; its proceeds are listed apart.
//! - Dollars have 12 decimals. A part of a lot takes its share of the cost, rounded down; the rest of the lot keeps the
//!   remainder, so the costs of all parts add up to the whole. Amounts are whole units of the token.
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

pub mod books;
pub mod csv;
pub mod entry;
mod money;
pub mod report;
pub mod tables;
