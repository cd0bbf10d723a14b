//! The Golem: its role, its vitals, its memory, and its actions through eight tools.
//!
//! Not here: the tools behind the eight (`tools`), and the safety pipeline between a decision and a signature
//! (`safety`). A Golem cannot bypass either.
//!
//! | module | holds |
//! |---|---|
//! | `archetype` | roles, their tools and delegation edges |
//! | `brain` | decision makers: an external program or a model |
//! | `guardian` | the second opinion above the hot lane |
//! | `life` | health monitor, animation and planner |
//! | `memory` | past trades, insights and documents |
//! | `phase` | phases derived from vitals |
//! | `agent_api` | the eight tools of a brain |
//! | `scenario` | scripted scenarios with their timing |
//! | `sprite` | animation state on the screen |
//! | `vitals` | measurements of the Golem's condition |
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

pub mod agent_api;
pub mod archetype;
pub mod brain;
pub mod guardian;
pub mod life;
pub mod memory;
pub mod phase;
pub mod scenario;
pub mod sprite;
pub mod vitals;
