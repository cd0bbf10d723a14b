//! The eight tools a brain has, and nothing beside them.
//!
//! DECLARE: the role says which tools it needs. RESOLVE: the catalog is cut down to them and to those of whoever the
//! role may hand work to. ADAPT: what is left acts behind eight names; a kind of action leads to its concrete tools.
//!
//! | file | holds |
//! |---|---|
//! | `answers` | what they say when they are asked wrongly |
//! | `params` | what the eight take |
//! | `kinds` | kinds of action and of question, and the concrete tools behind each |
//! | `session` | the eight at work over one executor |
//!
//! Everything an answer holds may have come from outside: a brain is given it as data, never as instructions.

mod answers;
mod kinds;
mod params;
mod session;

pub use kinds::{ACTION_KINDS, ActionKind, QUERIES, Query, in_agent_terms};
pub use params::{PI_TOOLS, PiTool};
pub use session::{PiConfig, PiSession};
