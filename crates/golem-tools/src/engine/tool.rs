//! Tool definitions: typed inside, uniform outside.
//!
//! A tool is a type that implements [`ReadTool`], [`WriteTool`] or [`RecordTool`]. [`ToolDef::read`], [`ToolDef::write`]
//! and [`ToolDef::record`] erase the type into one static, the only form that catalog, executor and exports use:
//!
//! ```ignore
//! pub static TOOL_DEF: ToolDef = ToolDef::read::<GetChainStatus>();
//! ```
//!
//! A write never signs: it proposes an action and receives the outcome.

use std::fmt;
use std::future::Future;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::context::CallContext;
use super::steps::{StepCaller, StepFailure};
use super::{input, schema};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{ActionClass, CapabilityTier, ToolMeta};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Tool that changes nothing.
pub trait ReadTool: 'static {
    /// Static metadata of the tool.
    const META: ToolMeta;
    /// Parameter type; must reject unknown fields.
    type Params: DeserializeOwned + JsonSchema + Send + 'static;
    /// Result type; its schema is closed.
    type Output: Serialize + JsonSchema + Send + 'static;

    /// Returns example parameters that work on the embedded devnet, in the form a caller would write.
    fn example() -> Value;

    /// Runs the tool. The future is dropped at any await if the call is cancelled or exceeds its budget.
    ///
    /// # Errors
    /// The error becomes the error of the envelope.
    fn run(
        context: &CallContext,
        params: Self::Params,
    ) -> impl Future<Output = Result<ToolReply<Self::Output>, ToolError>> + Send;
}

/// Tool that changes state: it proposes an action, and the executor runs the proposal through the safety pipeline.
pub trait WriteTool: 'static {
    /// Static metadata of the tool.
    const META: ToolMeta;
    /// Parameter type; must reject unknown fields. If the operator may reduce the action, the amount parameter is named
    /// `amount`.
    type Params: DeserializeOwned + JsonSchema + Send + 'static;
    /// Result type; its schema is closed.
    type Output: Serialize + JsonSchema + Send + 'static;
    /// Values kept from preparation for the result.
    type Plan: Send + 'static;

    /// Returns example parameters that work on the embedded devnet, in the form a caller would write.
    fn example() -> Value;

    /// Prepares the proposal. The executor fills in the Golem, the call id and the tool. May run several times for one
    /// call. The future is dropped at any await if the call is cancelled or exceeds its budget.
    ///
    /// # Errors
    /// The error becomes the error of the envelope; nothing is signed.
    fn prepare(
        context: &CallContext,
        params: Self::Params,
    ) -> impl Future<Output = Result<(Proposal, Self::Plan), ToolError>> + Send;

    /// Completes outside the chain what the operator has allowed and the chain has, before [`Self::output`]. It runs for
    /// every outcome, rehearsals included, and must check which one it is. Does nothing by default.
    fn complete(
        _context: &CallContext,
        _plan: &mut Self::Plan,
        _committed: &CommitOutcome,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Carries on an action of several steps, once its proposal is done: every further write goes through `steps`, is a
    /// call of its own with its own preview, approval and permit, and is noted in the plan for the result. It runs after
    /// something was signed: nobody can cancel it, and a step that fails undoes none before it.
    ///
    /// # Errors
    /// The failure of the step that ends the action early. The result is still summarized.
    fn carry_on(
        _context: &CallContext,
        _steps: &StepCaller,
        _plan: &mut Self::Plan,
        _committed: &CommitOutcome,
    ) -> impl Future<Output = Result<(), StepFailure>> + Send {
        async { Ok(()) }
    }

    /// Summarizes the outcome: rehearsed, done, placed, reverted, pending or stopped half-way. It runs after the fact:
    /// an error here undoes nothing.
    ///
    /// # Errors
    /// The envelope then reports the transactions without the tool's own result.
    fn output(
        context: &CallContext,
        plan: Self::Plan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Self::Output>, ToolError>;
}

/// Tool that changes records of this machine, or asks one of its services. It signs nothing, so it has no preview.
pub trait RecordTool: 'static {
    /// Static metadata of the tool. Its class is read-only, because positions stay as they are.
    const META: ToolMeta;
    /// True if neither a stop nor paper mode keeps the tool from running: it only takes authority back, or only keeps an
    /// agent's own notes.
    const ALWAYS_RUNS: bool;
    /// Parameter type; must reject unknown fields.
    type Params: DeserializeOwned + JsonSchema + Send + 'static;
    /// Result type; its schema is closed.
    type Output: Serialize + JsonSchema + Send + 'static;

    /// Returns example parameters that work on the embedded devnet, in the form a caller would write.
    fn example() -> Value;

    /// Runs the tool. Once begun, it runs to its end even if the caller goes away.
    ///
    /// # Errors
    /// The error becomes the error of the envelope.
    fn run(
        context: &CallContext,
        params: Self::Params,
    ) -> impl Future<Output = Result<ToolReply<Self::Output>, ToolError>> + Send;
}

/// Result of a tool, with hints and an explanation.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply<T> {
    /// Result of the call.
    pub output: T,
    /// Machine-readable facts that help the caller to decide what to do next.
    pub decision_hints: Option<Value>,
    /// Summary of the result in a sentence or two.
    pub explanation: String,
    /// True if what the call did waits for somebody else before it is complete, such as a request that a vault's manager
    /// settles. The call is reported as partial then.
    pub is_open: bool,
}

impl<T> ToolReply<T> {
    /// Creates a reply without hints.
    pub fn new(output: T, explanation: impl Into<String>) -> Self {
        Self { output, decision_hints: None, explanation: explanation.into(), is_open: false }
    }

    /// Says that what was done waits for somebody else.
    #[must_use]
    pub fn open(mut self, is_open: bool) -> Self {
        self.is_open = is_open;
        self
    }

    /// Adds machine-readable hints.
    #[must_use]
    pub fn hint(mut self, hints: Value) -> Self {
        self.decision_hints = Some(hints);
        self
    }
}

/// Tool definition with its types erased; one static per tool.
pub struct ToolDef {
    /// Static metadata of the tool.
    pub meta: ToolMeta,
    pub(super) input_schema: fn() -> Value,
    pub(super) output_schema: fn() -> Value,
    pub(super) example: fn() -> Value,
    pub(super) handler: Handler,
}

/// Type-erased parser of a tool's parameters.
pub(super) enum Handler {
    /// Parses the parameters of a read into a job that may be dropped at any time.
    Read(fn(&Value, &[String]) -> Result<ReadJob, ToolError>),
    /// Parses the parameters of a write into a job that prepares the proposal and may be dropped at any time.
    Write(fn(&Value, &[String]) -> Result<WriteJob, ToolError>),
    /// Parses the parameters of a change of records into a job that runs to its end.
    Record {
        /// Function that parses the parameters.
        bind: fn(&Value, &[String]) -> Result<ReadJob, ToolError>,
        /// True if neither a stop nor paper mode keeps it from running.
        always_runs: bool,
    },
}

/// Read or change of records with valid parameters, ready to run.
pub(super) type ReadJob =
    Box<dyn FnOnce(CallContext) -> BoxFuture<'static, Result<ToolReply<Value>, ToolError>> + Send>;

/// Write with valid parameters, ready to prepare.
pub(super) type WriteJob = Box<dyn FnOnce(CallContext) -> BoxFuture<'static, Result<PreparedWrite, ToolError>> + Send>;

/// Proposal of a write, with the rest of the tool's work after it.
pub(super) struct PreparedWrite {
    pub(super) proposal: Proposal,
    pub(super) rest: Box<dyn WriteRest>,
}

/// Work of a write tool after the commit of its proposal, with its type erased.
pub(super) trait WriteRest: Send {
    /// Runs [`WriteTool::carry_on`].
    fn carry_on<'a>(
        &'a mut self,
        context: &'a CallContext,
        steps: &'a StepCaller,
        committed: &'a CommitOutcome,
    ) -> BoxFuture<'a, Result<(), StepFailure>>;

    /// Runs [`WriteTool::complete`], then [`WriteTool::output`].
    fn answer<'a>(
        self: Box<Self>,
        context: &'a CallContext,
        committed: &'a CommitOutcome,
    ) -> BoxFuture<'a, Result<ToolReply<Value>, ToolError>>;
}

/// Values that a write tool keeps from preparation.
struct Planned<T: WriteTool>(T::Plan);

impl<T: WriteTool> WriteRest for Planned<T> {
    fn carry_on<'a>(
        &'a mut self,
        context: &'a CallContext,
        steps: &'a StepCaller,
        committed: &'a CommitOutcome,
    ) -> BoxFuture<'a, Result<(), StepFailure>> {
        Box::pin(T::carry_on(context, steps, &mut self.0, committed))
    }

    fn answer<'a>(
        self: Box<Self>,
        context: &'a CallContext,
        committed: &'a CommitOutcome,
    ) -> BoxFuture<'a, Result<ToolReply<Value>, ToolError>> {
        let Self(mut plan) = *self;
        Box::pin(async move {
            T::complete(context, &mut plan, committed).await;
            erased(T::output(context, plan, committed)?)
        })
    }
}

impl ToolDef {
    /// Erases a read tool. A tool whose metadata claims more than reading does not compile.
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

    /// Erases a write tool. A tool whose metadata claims only reading does not compile.
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

    /// Erases a tool that changes records. A tool whose metadata claims only reading, or an effect on positions, does not
    /// compile.
    pub const fn record<T: RecordTool>() -> Self {
        assert!(
            !matches!(T::META.capability, CapabilityTier::Read)
                && matches!(T::META.action_class, ActionClass::ReadOnly),
            "a RecordTool has the capability Write or Privileged and the class read-only"
        );
        Self {
            meta: T::META,
            input_schema: || schema_of::<T::Params>(SchemaSettings::draft2020_12().for_deserialize()),
            output_schema: output_schema_of::<T::Output>,
            example: T::example,
            handler: Handler::Record { bind: bind_record::<T>, always_runs: T::ALWAYS_RUNS },
        }
    }
}

impl fmt::Debug for ToolDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDef").field("name", &self.meta.name).finish_non_exhaustive()
    }
}

/// Generates the schema of an output and closes it.
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

fn bind_record<T: RecordTool>(params: &Value, names: &[String]) -> Result<ReadJob, ToolError> {
    let params: T::Params = input::typed(params, names)?;
    Ok(Box::new(move |context| Box::pin(async move { erased(T::run(&context, params).await?) })))
}

fn bind_write<T: WriteTool>(params: &Value, names: &[String]) -> Result<WriteJob, ToolError> {
    let params: T::Params = input::typed(params, names)?;
    Ok(Box::new(move |context| {
        Box::pin(async move {
            let (proposal, plan) = T::prepare(&context, params).await?;
            Ok(PreparedWrite { proposal, rest: Box::new(Planned::<T>(plan)) })
        })
    }))
}

fn erased<T: Serialize + JsonSchema>(reply: ToolReply<T>) -> Result<ToolReply<Value>, ToolError> {
    let ToolReply { output, decision_hints, explanation, is_open } = reply;
    let output = serde_json::to_value(output).map_err(|error| {
        ToolError::new(ErrorCode::ToolPanicked, format_args!("the result cannot be written as JSON: {error}"))
    })?;
    // Debug builds, and therefore tests, check every output against its schema; release builds skip the cost.
    if cfg!(debug_assertions)
        && let Some(fault) = schema::mismatch(&output_schema_of::<T>(), &output)
    {
        let what = format_args!("the result does not fit the tool's output schema: {fault}");
        return Err(ToolError::new(ErrorCode::ToolPanicked, what));
    }
    Ok(ToolReply { output, decision_hints, explanation, is_open })
}
