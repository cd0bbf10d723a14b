//! Hooks of V4 pools: what their addresses permit, what their code can do, and what they do in simulations.
//!
//! | module | content |
//! |---|---|
//! | `permission` | permissions in a hook's address |
//! | `code` | what a hook's code can depend on |
//! | `trial` | simulations of a pool with its hook, compared with the pool without |
//! | `report` | findings and verdict |
//! | `template` | hooks of Bardo's own, with their code and their addresses |

pub mod code;
pub mod permission;
pub mod report;
pub mod template;
pub mod trial;

pub use report::{HookFinding, HookReport, HookVerdict};
