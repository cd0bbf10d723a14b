//! The Golem: what it is, how it is doing, what it remembers, and how it acts through eight tools.
//!
//! Not here: the tools it acts through (`tools`), and everything that stands between a wish and a signature
//! (`safety`): a Golem has no way around either.
//!
//! | room | holds |
//! |---|---|
//! | `archetype` | roles, their tools, and who may hand work to whom |
//! | `brain` | who decides: a program of its own, or a model |
//! | `guardian` | the second opinion above the hot lane |
//! | `life` | heart, body and mind |
//! | `memory` | what it remembers: past trades, lessons, its papers |
//! | `phase` | from vitals to a phase |
//! | `pi` | the eight tools a brain has |
//! | `scenario` | what it does at which second of a show |
//! | `sprite` | its body on the screen |
//! | `vitals` | how it is doing |
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

pub mod archetype;
pub mod brain;
pub mod guardian;
pub mod life;
pub mod memory;
pub mod phase;
pub mod pi;
pub mod scenario;
pub mod sprite;
pub mod vitals;
