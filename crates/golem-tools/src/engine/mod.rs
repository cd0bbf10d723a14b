//! Tool engine: definitions, catalog and executor. It contains no tool (the tools are in the other modules) and makes
//! no decision about money (the safety crate does).
//!
//! Every call ends in a [`ToolResponse`]. Invalid input, a blocking rule, a panic in the tool and an unreachable chain
//! all become errors in the envelope.

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
pub use context::{CallConditions, CallContext};
pub use executor::{Call, Executor, ExecutorConfig, Hook, HookCall, Offer, Offered};
pub use export::{mcp_list, openai_list};
pub use input::{Input, MAX_INPUT_BYTES, MAX_INPUT_DEPTH, unambiguous};
pub use keys::{MIGRATIONS, forget_keys};
pub use profiles::categories_of;
pub use tool::{ReadTool, Reply, ToolDef, WriteTool};
pub use world::{LostChain, TokenHolding, World, WorldChain, address};
