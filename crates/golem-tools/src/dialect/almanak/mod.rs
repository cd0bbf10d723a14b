//! The dialect `almanak`: names, parameters, results and error codes of Almanak's agent tools, package 2.29.2, so that an
//! agent written against them can call Bardo.
//!
//! | file | holds |
//! |---|---|
//! | `table` | the 41 tools |
//! | `reads` | translation of the data tools |
//! | `actions` | translation of the action tools |
//! | `planning` | compiled intents: previewed, simulated, validated, executed |
//! | `intents` | intents and their parameters |
//! | `state` | notes of the agent |
//!
//! The catalog holds where Almanak's executor differs from it. Bardo is stricter in three ways: a parameter that a
//! tool does not have is refused instead of ignored, simulation cannot be left out, and a foreign wallet is refused.

mod actions;
mod intents;
mod planning;
mod reads;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use alloy::primitives::Address;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use self::actions::Action;
use self::planning::Bundle;
use super::{Arguments, DialectResponse, DialectTool, NativeCall, NativeTools, ToolGroup};
use crate::engine::{CallStatus, ConnectedChain, ToolEnvironment, ToolInput, ToolResponse, address};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::PermitId;
use bardo_base::text::{SafeText, nearest};
use golem_chain::network::NetworkKind;

pub use table::TOOLS;

/// Name of the dialect.
pub const NAME: &str = "almanak";

/// Returns the tool with this name.
pub fn tool(name: &str) -> Option<&'static DialectTool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Native tools that a call of this one may need: those behind it, and for a planning tool those of every intent.
pub fn behind(tool: &DialectTool) -> BTreeSet<&'static str> {
    let own = tool.native.iter().copied();
    let planned = matches!(tool.name, "compile_intent" | "simulate_intent" | "validate_risk" | "estimate_gas")
        || tool.name == "execute_compiled_bundle";
    let intents = intents::INTENTS.iter().filter(|_| planned).filter_map(|(_, name)| self::tool(name));
    own.chain(intents.flat_map(|tool| tool.native.iter().copied())).collect()
}

/// True if the tool prepares an action and never signs in a session that ends with the call: nothing that it compiles can be
/// executed there.
pub fn only_prepares(tool: &DialectTool) -> bool {
    tool.category == ToolGroup::Planning || tool.name == "execute_compiled_bundle"
}

/// Translation of a tool's calls and answers.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// Calls of reads, or of the agent's notes, whose answers are put together.
    Query(Query),
    /// Write of one native tool, after another one where it needs that.
    Act(Action),
}

/// Function behind a [`Run::Query`].
pub(super) type Query = for<'a> fn(&'a AlmanakSession, &'a Arguments) -> BoxFuture<'a, Outcome>;

/// End of a call.
pub(super) type Outcome = Result<Answer, Failure>;

/// Answer of a call that succeeded, was simulated or is under way.
pub(super) struct Answer {
    /// Name of the native tool that the answer rests on.
    native: &'static str,
    /// Response of that tool.
    response: ToolResponse,
    /// Result in the dialect's form.
    data: Value,
    /// Hints beside those of the native response.
    hints: Vec<(&'static str, Value)>,
}

impl Answer {
    fn new(native: &'static str, response: ToolResponse, data: Value) -> Self {
        Self { native, response, data, hints: Vec::new() }
    }

    fn hint(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.hints.push((name, value.into()));
        self
    }
}

/// End of a call without a result.
pub(super) enum Failure {
    /// A native call ended this way.
    Native(&'static str, Box<ToolResponse>),
    /// The call was refused before a native one.
    Refused(ToolError),
    /// The session does not have the native tool.
    Lacking(&'static str),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Refused(error)
    }
}

/// Session of a caller who speaks the dialect. It keeps the compiled bundles: they end with it.
pub struct AlmanakSession {
    native: Arc<dyn NativeTools>,
    bundles: Mutex<HashMap<PermitId, Bundle>>,
}

impl fmt::Debug for AlmanakSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlmanakSession").field("bundles", &self.bundles.lock().len()).finish_non_exhaustive()
    }
}

impl AlmanakSession {
    /// Creates a session over these native tools.
    pub fn new(native: Arc<dyn NativeTools>) -> Self {
        Self { native, bundles: Mutex::default() }
    }

    /// Calls a tool of the dialect. Every call returns an envelope.
    pub async fn call(&self, name: &str, input: ToolInput) -> DialectResponse {
        let Some(tool) = tool(name) else { return DialectResponse::refused(None, unknown(name)) };
        let given = match input.into_object() {
            Ok(Value::Object(given)) => given,
            Ok(_) => Map::new(),
            Err(error) => return DialectResponse::refused(Some(tool.name), error),
        };
        let outcome = match Arguments::read(tool, given, self.world()) {
            Ok(arguments) => self.run(tool, &arguments).await,
            Err(error) => Err(Failure::Refused(error)),
        };
        match outcome {
            Ok(Answer { native, response, data, hints }) => {
                let answer = DialectResponse::of(tool.name, native, response, Some(data));
                hints.into_iter().fold(answer, |answer, (name, value)| answer.hint(name, value))
            }
            Err(Failure::Native(native, response)) => DialectResponse::of(tool.name, native, *response, None),
            Err(Failure::Refused(error)) => DialectResponse::refused(Some(tool.name), with_own_advice(error, tool)),
            Err(Failure::Lacking(native)) => DialectResponse::lacking(tool.name, native),
        }
    }

    async fn run(&self, tool: &'static DialectTool, arguments: &Arguments) -> Outcome {
        self.refuse_foreign_network(arguments)?;
        match tool.run {
            Run::Query(query) => query(self, arguments).await,
            Run::Act(action) => self.act(tool, action, arguments).await,
        }
    }

    fn world(&self) -> &ToolEnvironment {
        self.native.executor().world()
    }

    /// The chain of the parameter `name`.
    fn chain(&self, arguments: &Arguments, name: &str) -> Result<&ConnectedChain, ToolError> {
        self.world().chain(arguments.text(name))
    }

    /// Calls a native tool that must succeed.
    async fn ask(
        &self,
        tool: &'static str,
        params: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<ToolResponse, Failure> {
        let call = native(tool, params);
        self.refuse_lacking(call.tool)?;
        let response = self.native.call(call, false).await;
        match response.status {
            CallStatus::Success => Ok(response),
            CallStatus::Simulated
            | CallStatus::Partial
            | CallStatus::Blocked
            | CallStatus::Rejected
            | CallStatus::Error => Err(Failure::Native(tool, Box::new(response))),
        }
    }

    fn refuse_lacking(&self, tool: &'static str) -> Result<(), Failure> {
        match self.native.executor().catalog().get(tool) {
            Some(_) => Ok(()),
            None => Err(Failure::Lacking(tool)),
        }
    }

    /// Refuses a call that names another account than the one that acts.
    ///
    /// # Errors
    /// `SAFETY_NOT_ALLOWED` for another account, and the errors of the account.
    fn refuse_foreign_wallet(&self, arguments: &Arguments, name: &'static str) -> Result<Address, ToolError> {
        let own = self.world().account(None)?;
        let Some(named) = arguments.some_text(name) else { return Ok(own) };
        let named = address(named, name)?;
        if named == own {
            return Ok(own);
        }
        let what = format_args!("parameter `{name}`: {named} is not the account that acts here, which is {own}");
        Err(ToolError::new(ErrorCode::SafetyNotAllowed, what)
            .suggest("Leave the parameter out; the operator chooses the account that acts.")
            .detail("parameter", name))
    }

    /// Refuses the parameter `network` where it names another kind of network than the session's.
    fn refuse_foreign_network(&self, arguments: &Arguments) -> Result<(), ToolError> {
        let Some(named) = arguments.some_text("network") else { return Ok(()) };
        let mut kinds = self.world().chains().iter().map(|chain| chain.network().kind);
        let here = if kinds.all(|kind| kind == NetworkKind::Devnet) { "anvil" } else { "mainnet" };
        if named.eq_ignore_ascii_case(here) {
            return Ok(());
        }
        let named = SafeText::clean(named, 40);
        let what = format_args!("{named}; this session is on `{here}`, and the operator chooses the network");
        Err(invalid("network", &what))
    }
}

/// Advice about parameters names the dialect's own table.
fn with_own_advice(error: ToolError, tool: &DialectTool) -> ToolError {
    let code = ErrorCode::ValidationFailed;
    let general = error.code() == code && error.suggestion() == code.suggestion();
    if !general {
        return error;
    }
    error.suggest(format_args!("Correct the parameter; `bardo tools {} --dialect {NAME}` shows them.", tool.name))
}

fn unknown(name: &str) -> ToolError {
    let shown = SafeText::clean(name, 64);
    let error = ToolError::new(ErrorCode::ToolUnknown, format_args!("the dialect {NAME} has no tool `{shown}`"));
    match nearest(name, TOOLS.iter().map(|tool| tool.name)) {
        Some(near) => error.suggest(format_args!("Did you mean `{near}`?")).detail("nearest", near),
        None => error.suggest(format_args!("`bardo tools --dialect {NAME}` lists them.")),
    }
}

/// Call of a native tool, without the parameters that are null.
fn native(tool: &'static str, params: impl IntoIterator<Item = (&'static str, Value)>) -> NativeCall {
    let params = params.into_iter().filter(|(_, value)| !value.is_null());
    NativeCall { tool, params: params.map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// The text, or null for an empty one.
fn text_or_null(text: Option<&str>) -> Value {
    text.map_or(Value::Null, Value::from)
}
