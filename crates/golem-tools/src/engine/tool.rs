//! What a tool is: typed inside, uniform outside.
//!
//! A tool is a type with an implementation of [`ReadTool`] or [`WriteTool`]. [`ToolDef::read`] and
//! [`ToolDef::write`] erase the type into one static, which is all that catalog, executor and exports see:
//!
//! ```ignore
//! pub static TOOL_DEF: ToolDef = ToolDef::read::<GetChainStatus>();
//! ```
//!
//! A write never signs: it proposes, and is told what became of the proposal.

use std::fmt;
use std::future::Future;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::CallContext;
use super::{input, schema};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{ActionClass, CapabilityTier, ToolMeta};
use bardo_safety::pipeline::Committed;
use bardo_safety::proposal::Proposal;

/// A tool that changes nothing.
pub trait ReadTool: 'static {
    /// What is fixed about it.
    const META: ToolMeta;
    /// Its parameters; must refuse unknown fields.
    type Params: DeserializeOwned + JsonSchema + Send + 'static;
    /// Its result.
    type Output: Serialize + JsonSchema + Send + 'static;

    /// Parameters that work on the embedded devnet, as a caller would write them.
    fn example() -> Value;

    /// Does it. The future is dropped at any await when the call is cancelled or takes too long.
    fn run(
        context: &CallContext,
        params: Self::Params,
    ) -> impl Future<Output = Result<Reply<Self::Output>, ToolError>> + Send;
}

/// A tool that changes something: it says what it wants, and the executor takes that through the safety pipeline.
pub trait WriteTool: 'static {
    /// What is fixed about it.
    const META: ToolMeta;
    /// Its parameters; must refuse unknown fields. Where the operator may make an action smaller, the amount is
    /// called `amount`.
    type Params: DeserializeOwned + JsonSchema + Send + 'static;
    /// Its result.
    type Output: Serialize + JsonSchema + Send + 'static;
    /// What it remembers of preparing, for its result.
    type Plan: Send + 'static;

    /// Parameters that work on the embedded devnet, as a caller would write them.
    fn example() -> Value;

    /// Says what is to be done. Who asks, for which call and with which tool is filled in by the executor. May run
    /// several times for one call, and is dropped at any await when the call is cancelled or takes too long.
    fn prepare(
        context: &CallContext,
        params: Self::Params,
    ) -> impl Future<Output = Result<(Proposal, Self::Plan), ToolError>> + Send;

    /// Sums up what became of it: rehearsed only, done, reverted, under way, or stopped half-way. By then it has
    /// happened: an error here takes nothing back.
    ///
    /// # Errors
    /// Whatever keeps it from telling.
    fn output(context: &CallContext, plan: Self::Plan, committed: &Committed)
    -> Result<Reply<Self::Output>, ToolError>;
}

/// A tool's result and what it says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply<T> {
    /// The result.
    pub output: T,
    /// Facts that help to decide what to do next, for a machine.
    pub decision_hints: Option<Value>,
    /// The result in a sentence or two, for a person.
    pub explanation: String,
}

impl<T> Reply<T> {
    /// A result and its sentence.
    pub fn new(output: T, explanation: impl Into<String>) -> Self {
        Self { output, decision_hints: None, explanation: explanation.into() }
    }

    /// Adds hints for a machine.
    #[must_use]
    pub fn hint(mut self, hints: Value) -> Self {
        self.decision_hints = Some(hints);
        self
    }
}

/// A tool with its types erased; one static per tool.
pub struct ToolDef {
    /// What is fixed about it.
    pub meta: ToolMeta,
    pub(super) input_schema: fn() -> Value,
    pub(super) output_schema: fn() -> Value,
    pub(super) example: fn() -> Value,
    pub(super) handler: Handler,
}

/// How a tool is run once its parameters are known to fit.
pub(super) enum Handler {
    /// A read: parameters in, a job out that may be dropped at any time.
    Read(fn(&Value, &[String]) -> Result<ReadJob, ToolError>),
    /// A write: parameters in, a job out that prepares and may be dropped at any time.
    Write(fn(&Value, &[String]) -> Result<WriteJob, ToolError>),
}

/// A read whose parameters fit, ready to run.
pub(super) type ReadJob = Box<dyn FnOnce(CallContext) -> BoxFuture<'static, Result<Reply<Value>, ToolError>> + Send>;

/// A write whose parameters fit, ready to prepare.
pub(super) type WriteJob = Box<dyn FnOnce(CallContext) -> BoxFuture<'static, Result<Prepared, ToolError>> + Send>;

/// What a write wants, and what makes its answer of what becomes of that.
pub(super) struct Prepared {
    pub(super) proposal: Proposal,
    pub(super) deliver: Deliver,
}

/// Makes a write's answer.
pub(super) type Deliver = Box<dyn FnOnce(&CallContext, &Committed) -> Result<Reply<Value>, ToolError> + Send>;

impl ToolDef {
    /// Erases a read tool. A tool that claims to do more than read does not compile.
    pub const fn read<T: ReadTool>() -> Self {
        assert!(
            matches!(T::META.capability, CapabilityTier::Read) && matches!(T::META.action_class, ActionClass::ReadOnly),
            "a ReadTool has the capability Read and the class read-only"
        );
        Self {
            meta: T::META,
            input_schema: || schema_of::<T::Params>(SchemaSettings::draft2020_12().for_deserialize()),
            output_schema: output_schema_of::<T::Output>,
            example: T::example,
            handler: Handler::Read(bind_read::<T>),
        }
    }

    /// Erases a write tool. A tool that claims to read only does not compile.
    pub const fn write<T: WriteTool>() -> Self {
        assert!(
            !matches!(T::META.capability, CapabilityTier::Read)
                && !matches!(T::META.action_class, ActionClass::ReadOnly),
            "a WriteTool has the capability Write or Privileged and a class of its own"
        );
        Self {
            meta: T::META,
            input_schema: || schema_of::<T::Params>(SchemaSettings::draft2020_12().for_deserialize()),
            output_schema: output_schema_of::<T::Output>,
            example: T::example,
            handler: Handler::Write(bind_write::<T>),
        }
    }
}

impl fmt::Debug for ToolDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDef").field("name", &self.meta.name).finish_non_exhaustive()
    }
}

/// An output's schema, closed: an output has no field that its schema does not name.
fn output_schema_of<T: JsonSchema>() -> Value {
    let mut schema = schema_of::<T>(SchemaSettings::draft2020_12().for_serialize());
    schema::close(&mut schema);
    schema
}

fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn bind_read<T: ReadTool>(params: &Value, names: &[String]) -> Result<ReadJob, ToolError> {
    let params: T::Params = input::typed(params, names)?;
    Ok(Box::new(move |context| Box::pin(async move { erased(T::run(&context, params).await?) })))
}

fn bind_write<T: WriteTool>(params: &Value, names: &[String]) -> Result<WriteJob, ToolError> {
    let params: T::Params = input::typed(params, names)?;
    Ok(Box::new(move |context| {
        Box::pin(async move {
            let (proposal, plan) = T::prepare(&context, params).await?;
            let deliver: Deliver = Box::new(move |context, committed| erased(T::output(context, plan, committed)?));
            Ok(Prepared { proposal, deliver })
        })
    }))
}

fn erased<T: Serialize + JsonSchema>(reply: Reply<T>) -> Result<Reply<Value>, ToolError> {
    let Reply { output, decision_hints, explanation } = reply;
    let output = serde_json::to_value(output).map_err(|error| {
        ToolError::new(ErrorCode::ToolPanicked, format_args!("the result cannot be written as JSON: {error}"))
    })?;
    // Every test holds the outputs that it meets to their schemas; a release build does not take the time.
    if cfg!(debug_assertions)
        && let Some(fault) = schema::mismatch(&output_schema_of::<T>(), &output)
    {
        let what = format_args!("the result does not fit the tool's output schema: {fault}");
        return Err(ToolError::new(ErrorCode::ToolPanicked, what));
    }
    Ok(Reply { output, decision_hints, explanation })
}
