//! The engine: what a tool is, which tools there are, and the one way to call one. It knows no tool
//! of its own (those are in `tools`) and decides nothing about money (that is `safety`).
//!
//! A call always ends in a [`ToolResponse`]: input that does not fit, a rule in the way, a fault in
//! the tool, a chain that does not answer, none of them is a panic or a wait without end.

mod acting;
mod catalog;
mod context;
mod executor;
mod export;
mod input;
mod keys;
mod profiles;
mod rate;
pub mod schema;
#[cfg(test)]
mod tests;
mod tool;
mod world;

pub use acting::{Acting, ApprovalMode, Paper, PaperDesk, UnknownMode};
pub use bardo_session::envelope::{Status, ToolResponse};
pub use catalog::{Catalog, CatalogError, Entry, Filter, Selection, SelectionError};
pub use context::{CallContext, Standing};
pub use executor::{Call, Executor, ExecutorConfig, Hook, HookCall, Offer, Offered};
pub use export::{mcp_list, openai_list};
pub use input::{Input, MAX_INPUT_BYTES, MAX_INPUT_DEPTH, unambiguous};
pub use keys::{MIGRATIONS, forget_keys};
pub use profiles::categories_of;
pub use tool::{ReadTool, Reply, ToolDef, WriteTool};
pub use world::{Held, LostChain, World, WorldChain, address};
