//! Tool engine: definitions, catalog and executor. It contains no tool (the tools are in the other modules) and makes
//! no decision about money (the safety crate does).
//!
//! Every call ends in a [`ToolResponse`]. Invalid input, a blocking rule, a panic in the tool and an unreachable chain
//! all become errors in the envelope.

mod books;
mod catalog;
mod context;
mod environment;
mod executor;
mod export;
mod input;
mod keyring;
mod keys;
mod profiles;
mod rate;
pub mod schema;
mod steps;
#[cfg(test)]
mod tests;
mod tool;
mod wallets;
mod write_access;

pub use bardo_session::envelope::{CallStatus, ToolResponse};
pub use books::{AccountBooks, BooksSums};
pub use catalog::{Catalog, CatalogEntry, CatalogError, SelectionError, ToolFilter, ToolSelection};
pub use context::{CallConditions, CallContext};
pub use environment::{AgentFileReaders, ConnectedChain, TokenHolding, ToolEnvironment, UnavailableChain, address};
pub use executor::{Executor, ExecutorConfig, Hook, HookCall, Offer, PreviewResult, ToolCall};
pub use export::{mcp_list, openai_list};
pub use input::{MAX_INPUT_BYTES, MAX_INPUT_DEPTH, ToolInput, json_fault, unambiguous};
pub use keyring::{Faucet, KeyRevocations, ListedSessionKey, SessionKeyring};
pub use keys::{MIGRATIONS, SignedCall, forget_keys};
pub use profiles::categories_of;
pub use steps::{StepCaller, StepFailure};
pub use tool::{ReadTool, RecordTool, ToolDef, ToolReply, WriteTool};
pub use wallets::{NewWallet, PolicyDraft, ProvisionedWallet, WalletAdministration, WrittenPolicy};
pub use write_access::{ApprovalMode, PaperMode, PaperTrading, UnknownApprovalMode, WriteAccess};
