//! The eight tools of a brain.
//!
//! DECLARE: the role states the tools it needs. RESOLVE: the catalog is reduced to them and to those of the roles it
//! may delegate to. ADAPT: the remaining tools act behind eight names; a kind of action maps to its concrete tools.
//!
//! | file | holds |
//! |---|---|
//! | `answers` | errors and answers |
//! | `params` | parameters of the eight tools |
//! | `action_catalog` | action catalog and queries, with the concrete tools behind each |
//! | `session` | implementation of the eight tools over one executor |
//! | `dialect` | another framework's tools over the eight |
//!
//! The content of an answer may come from outside: a brain receives it as data, never as instructions.

mod action_catalog;
mod answers;
mod dialect;
mod params;
mod session;

pub use action_catalog::{ACTION_KINDS, ActionKind, QUERIES, QueryKind, in_agent_terms};
pub use dialect::AgentTools;
pub use params::{AGENT_TOOLS, AgentTool};
pub use session::{AgentConfig, AgentSession};
