//! The one way to call a tool: every call takes the same steps and ends in an envelope.
//!
//! known → rate → input → parameters → hooks → idempotency key → run within its budget → hooks → envelope. The events
//! of a call are one `tool:start`, what the tool says of its steps, `tool:error` if it failed, and
//! one `tool:end`, also when the caller went away.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio::time::{Instant, timeout};

use super::catalog::{Catalog, Entry};
use super::context::CallContext;
use super::envelope::{Status, ToolResponse};
use super::input::Input;
use super::keys::{Claim, Claimed};
use super::rate::CallRate;
use super::tool::{Handler, ReadJob, Reply};
use super::world::World;
use crate::base::error::{ErrorCategory, ErrorCode, ToolError, Violation};
use crate::base::id::{CallId, GolemId};
use crate::base::model::ToolMeta;
use crate::base::text::SafeText;
use crate::fabric::{Card, EventKind, Fabric, Redacted, ToolEnd, ToolFailed, ToolOverrun, ToolStart, params_hash};
use crate::store::Store;

/// How an executor is made.
#[derive(Debug)]
pub struct ExecutorConfig {
    /// The tools this caller may call.
    pub catalog: Catalog,
    /// The world they see.
    pub world: Arc<World>,
    /// Where their events go.
    pub fabric: Fabric,
    /// On whose behalf they act.
    pub golem_id: GolemId,
    /// At most so many calls in any 60 seconds.
    pub calls_per_minute: u32,
    /// Asked before and told after each call, in this order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Where idempotency keys are kept; without it a call with a key is refused.
    pub store: Option<Store>,
}

/// One call, as its caller wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Which tool.
    pub tool: String,
    /// Its parameters.
    pub input: Input,
    /// An id made beforehand by [`Executor::new_call_id`], for a caller that wants to cancel.
    pub call_id: Option<CallId>,
    /// Runs the call once however often it is made; see [`super::MIGRATIONS`].
    pub idempotency_key: Option<String>,
    /// The heartbeat it belongs to, where one runs.
    pub tick: Option<u64>,
}

impl Call {
    /// A plain call.
    pub fn new(tool: impl Into<String>, input: Input) -> Self {
        Self { tool: tool.into(), input, call_id: None, idempotency_key: None, tick: None }
    }
}

/// What a hook sees of a call.
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// Which call.
    pub call_id: CallId,
    /// On whose behalf.
    pub golem_id: &'a GolemId,
    /// Which tool.
    pub meta: &'a ToolMeta,
    /// Its parameters, which fit its schema.
    pub params: &'a Value,
}

/// Something an embedding program does around each call. Runs on the caller's task: it must not block.
pub trait Hook: Send + Sync + fmt::Debug {
    /// May refuse the call, which is then `blocked` with that error. A hook that panics refuses.
    fn before(&self, _call: HookCall<'_>) -> Result<(), ToolError> {
        Ok(())
    }

    /// Sees how a call ended that [`Self::before`] let pass.
    fn after(&self, _call: HookCall<'_>, _response: &ToolResponse) {}
}

/// Calls tools. Cheap to clone; clones share the rate and the running calls.
#[derive(Debug, Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    catalog: Catalog,
    world: Arc<World>,
    fabric: Fabric,
    golem_id: GolemId,
    calls_per_minute: u32,
    hooks: Vec<Arc<dyn Hook>>,
    store: Option<Store>,
    rate: Mutex<CallRate>,
    running: Mutex<HashMap<CallId, AbortHandle>>,
}

/// Why there is no result.
struct Refusal {
    status: Status,
    error: ToolError,
}

impl From<ToolError> for Refusal {
    /// What a rule stands against is blocked; all else failed.
    fn from(error: ToolError) -> Self {
        let blocked = error.code().category() == ErrorCategory::RiskBlocked;
        Self { status: if blocked { Status::Blocked } else { Status::Error }, error }
    }
}

impl Executor {
    /// An executor over a catalog.
    pub fn new(config: ExecutorConfig) -> Self {
        let ExecutorConfig { catalog, world, fabric, golem_id, calls_per_minute, hooks, store } = config;
        let rate = Mutex::new(CallRate::new(calls_per_minute));
        let running = Mutex::new(HashMap::new());
        let shared = Shared { catalog, world, fabric, golem_id, calls_per_minute, hooks, store, rate, running };
        Self { shared: Arc::new(shared) }
    }

    /// The tools that can be called.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// An id for a call about to be made.
    pub fn new_call_id(&self) -> CallId {
        CallId::new(self.shared.world.clock.now_millis())
    }

    /// Calls a tool. Needs a tokio runtime with time; dropping the future cancels a read.
    pub async fn call(&self, call: Call) -> ToolResponse {
        let shared = &*self.shared;
        let started = Instant::now();
        let call_id = call.call_id.unwrap_or_else(|| self.new_call_id());
        let entry = shared.catalog.get(&call.tool).map(|entry| &**entry);
        let (entry, params, job) = match shared.prepare(entry, &call.tool, call.input) {
            Ok((entry, params, job)) => {
                shared.say_start(call_id, entry, &params, call.tick);
                (entry, params, job)
            }
            Err((seen, refusal)) => {
                shared.say_not_started(call_id, entry, &call.tool, &seen, call.tick);
                return shared.refuse_early(call_id, started, refusal);
            }
        };
        let meta = entry.def.meta;
        let hook_call = HookCall { call_id, golem_id: &shared.golem_id, meta: &meta, params: &params };
        if let Err(error) = shared.ask_hooks(hook_call) {
            return shared.refuse_early(call_id, started, Refusal { status: Status::Blocked, error });
        }
        let context =
            CallContext::new(shared.world.clone(), shared.fabric.clone(), shared.golem_id.clone(), call_id, meta);
        let claim = match shared.claim(call.idempotency_key, call_id, entry, &params).await {
            Ok(Some(Claimed::Answered(response))) => return shared.answer_again(&context, started, *response),
            Ok(Some(Claimed::Fresh(claim))) => Some(claim),
            Ok(None) => None,
            Err(error) => return shared.refuse_early(call_id, started, error.into()),
        };
        let result = shared.run(&context, &meta, started, job).await;
        let response = shared.answer(&context, &meta, started, result);
        let response = shared.settle(claim, response).await;
        for hook in &shared.hooks {
            // The call is over and answered; a hook that panics afterwards changes nothing of it.
            let _told = catch_unwind(AssertUnwindSafe(|| hook.after(hook_call, &response)));
        }
        response
    }

    /// Cancels a running read; false if no such call runs.
    pub fn cancel(&self, call_id: CallId) -> bool {
        let handle = self.shared.running().get(&call_id).cloned();
        handle.is_some_and(|handle| {
            handle.abort();
            true
        })
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, HashMap<CallId, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, call_id: CallId, kind: EventKind) {
        self.fabric.emit(&self.golem_id, Some(call_id), kind);
    }

    fn say_start(&self, call_id: CallId, entry: &Entry, params: &Value, tick: Option<u64>) {
        let meta = &entry.def.meta;
        self.say(
            call_id,
            EventKind::ToolStart(ToolStart {
                tool_name: Cow::Borrowed(meta.name),
                params: Redacted::selected(params, &entry.secret_fields, meta.event_params),
                params_hash: params_hash(params, &entry.secret_fields),
                tick,
            }),
        );
    }

    /// Of parameters that were never understood, only the names are told: any value may be a secret.
    fn say_not_started(&self, call_id: CallId, entry: Option<&Entry>, name: &str, seen: &Value, tick: Option<u64>) {
        let tool_name = match entry {
            Some(entry) => Cow::Borrowed(entry.def.meta.name),
            None => Cow::Owned(SafeText::clean(name, 64).to_string()),
        };
        let params = Redacted::names(seen);
        let params_hash = params_hash(params.value(), &[]);
        self.say(call_id, EventKind::ToolStart(ToolStart { tool_name, params, params_hash, tick }));
    }

    /// Takes a place in the rate's window.
    fn admit(&self) -> Result<(), Refusal> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(wait) = rate.take(self.world.clock.now_millis()) else { return Ok(()) };
        let limit = self.calls_per_minute;
        let seconds = wait.div_ceil(1_000);
        let error = ToolError::new(
            ErrorCode::SafetyRateLimited,
            format_args!("{limit} tool calls were made in the last 60 seconds, which is the limit"),
        )
        .suggest(format_args!("Wait {seconds} s; then one call is free again."))
        .violating(&[Violation {
            rule: "max_tool_calls_per_minute".to_owned(),
            limit: limit.to_string(),
            value: u64::from(limit).saturating_add(1).to_string(),
            would_pass: format!("the same call in {seconds} s"),
        }])
        .detail("retry_after_ms", wait);
        Err(Refusal { status: Status::Blocked, error })
    }

    fn unknown(&self, name: &str) -> ToolError {
        let error = ToolError::new(
            ErrorCode::ToolUnknown,
            format_args!("no tool called `{}` is in this tool set", SafeText::clean(name, 64)),
        );
        match self.catalog.nearest(name) {
            Some(near) => error.suggest(format_args!("Did you mean `{near}`?")).detail("nearest", near),
            None => error,
        }
    }

    /// From input to a job: the rate, then the tool, then the parameters; on a refusal, with as much of the input
    /// as was read.
    fn prepare<'e>(
        &self,
        entry: Option<&'e Entry>,
        name: &str,
        input: Input,
    ) -> Result<(&'e Entry, Value, ReadJob), (Value, Refusal)> {
        self.admit().map_err(|refusal| (Value::Null, refusal))?;
        let params = input.into_object();
        let Some(entry) = entry else {
            return Err((params.unwrap_or_default(), self.unknown(name).into()));
        };
        let wrong = |error: ToolError| error.suggest(format_args!("Send parameters such as {}", entry.example)).into();
        let params = params.map_err(|error| (Value::Null, wrong(error)))?;
        let Handler::Read(bind) = entry.def.handler;
        match bind(&params, &entry.parameters) {
            Ok(job) => Ok((entry, params, job)),
            Err(error) => Err((params, wrong(error))),
        }
    }

    fn ask_hooks(&self, call: HookCall<'_>) -> Result<(), ToolError> {
        for hook in &self.hooks {
            catch_unwind(AssertUnwindSafe(|| hook.before(call)))
                .unwrap_or_else(|panic| Err(panicked("a hook", &*panic)))?;
        }
        Ok(())
    }

    async fn claim(
        &self,
        key: Option<String>,
        call_id: CallId,
        entry: &Entry,
        params: &Value,
    ) -> Result<Option<Claimed>, ToolError> {
        let Some(key) = key else { return Ok(None) };
        let Some(store) = &self.store else {
            return Err(ToolError::new(ErrorCode::StoreUnavailable, "no database is open, so no key can be kept"));
        };
        let hash = params_hash(params, &[]);
        let now = self.world.clock.now_millis();
        Claim::take(store, &self.golem_id, key, &entry.def.meta, hash, call_id, now).await.map(Some)
    }

    /// Keeps a success under its key and gives the key of a failure back. A success that cannot be
    /// kept is still one: the key is then free again once the call counts as abandoned.
    async fn settle(&self, claim: Option<Claim>, mut response: ToolResponse) -> ToolResponse {
        let Some(claim) = claim else { return response };
        let settled = match response.status {
            Status::Success => claim.keep(&response).await,
            _ => claim.release().await,
        };
        if let Err(error) = settled {
            let said = response.explanation.take().unwrap_or_default();
            response.explanation = Some(format!("{said} (The idempotency key was not kept: {})", error.message()));
        }
        response
    }

    /// Gives the first answer again.
    fn answer_again(&self, context: &CallContext, started: Instant, response: ToolResponse) -> ToolResponse {
        context.finish([EventKind::ToolEnd(ToolEnd {
            success: true,
            duration_ms: millis(started.elapsed()),
            result_summary: serde_json::json!({"answered_as": response.call_id}),
            card: None,
        })]);
        response
    }

    /// Runs a read on a task of its own, so that neither a panic nor a tool that never yields
    /// reaches the caller: past its budget it is said to overrun, at three times it is cancelled.
    async fn run(
        &self,
        context: &CallContext,
        meta: &ToolMeta,
        started: Instant,
        job: ReadJob,
    ) -> Result<Reply<Value>, Refusal> {
        let mut task = Guard::new(self, context.clone(), started, tokio::spawn(job(context.clone())));
        let budget = meta.tick_budget;
        let joined = match timeout(budget.limit(), &mut task.handle).await {
            Ok(joined) => Some(joined),
            Err(_) => {
                context.say(EventKind::ToolOverrun(ToolOverrun { budget_ms: budget.limit_millis() }));
                timeout(budget.cancel_after() - budget.limit(), &mut task.handle).await.ok()
            }
        };
        task.over = true;
        let Some(joined) = joined else {
            task.handle.abort();
            return Err(ToolError::new(
                ErrorCode::ToolTimeout,
                format_args!(
                    "{} was cancelled after {} s, three times its budget",
                    meta.name,
                    budget.cancel_after().as_secs()
                ),
            )
            .detail("budget_ms", budget.limit_millis())
            .into());
        };
        joined.map_err(|error| ended_badly(meta, error))?.map_err(Refusal::from)
    }

    /// Says how a call ended and makes its envelope.
    fn answer(
        &self,
        context: &CallContext,
        meta: &ToolMeta,
        started: Instant,
        result: Result<Reply<Value>, Refusal>,
    ) -> ToolResponse {
        let call_id = context.call_id();
        match result {
            Ok(Reply { output, decision_hints, explanation }) => {
                context.finish([EventKind::ToolEnd(ToolEnd {
                    success: true,
                    duration_ms: millis(started.elapsed()),
                    result_summary: summary(meta, &output),
                    card: meta.card.map(|widget| Card { widget, data: output.clone(), hints: decision_hints.clone() }),
                })]);
                ToolResponse {
                    call_id,
                    status: Status::Success,
                    data: Some(output),
                    error: None,
                    decision_hints,
                    explanation: Some(explanation),
                }
            }
            Err(Refusal { status, error }) => {
                context.finish(failure(started, &error));
                ToolResponse::failed(call_id, status, error)
            }
        }
    }

    /// Answers a call that never ran.
    fn refuse_early(&self, call_id: CallId, started: Instant, refusal: Refusal) -> ToolResponse {
        for kind in failure(started, &refusal.error) {
            self.say(call_id, kind);
        }
        ToolResponse::failed(call_id, refusal.status, refusal.error)
    }
}

/// A running task: cancelled, and its end said, when its caller goes away.
struct Guard<'a> {
    shared: &'a Shared,
    context: CallContext,
    started: Instant,
    handle: JoinHandle<Result<Reply<Value>, ToolError>>,
    over: bool,
}

impl<'a> Guard<'a> {
    fn new(
        shared: &'a Shared,
        context: CallContext,
        started: Instant,
        handle: JoinHandle<Result<Reply<Value>, ToolError>>,
    ) -> Self {
        shared.running().insert(context.call_id(), handle.abort_handle());
        Self { shared, context, started, handle, over: false }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.shared.running().remove(&self.context.call_id());
        if !self.over {
            self.handle.abort();
            let error = ToolError::new(ErrorCode::ToolCancelled, "the caller went away");
            self.context.finish(failure(self.started, &error));
        }
    }
}

/// The two last events of a call that failed.
fn failure(started: Instant, error: &ToolError) -> [EventKind; 2] {
    [
        EventKind::ToolError(ToolFailed {
            error_code: error.code(),
            error_message: SafeText::clean(error.message(), 400),
        }),
        EventKind::ToolEnd(ToolEnd {
            success: false,
            duration_ms: millis(started.elapsed()),
            result_summary: Value::Null,
            card: None,
        }),
    ]
}

/// The fields of a result that are worth a line.
fn summary(meta: &ToolMeta, output: &Value) -> Value {
    let fields: Map<_, _> = meta
        .summary_fields
        .iter()
        .filter_map(|name| output.get(*name).map(|value| ((*name).to_owned(), value.clone())))
        .collect();
    Value::Object(fields)
}

fn ended_badly(meta: &ToolMeta, error: JoinError) -> Refusal {
    if error.is_cancelled() {
        return ToolError::new(ErrorCode::ToolCancelled, format_args!("{} was cancelled", meta.name)).into();
    }
    match error.try_into_panic() {
        Ok(panic) => panicked(meta.name, &*panic).into(),
        Err(error) => ToolError::new(ErrorCode::ToolPanicked, format_args!("{} ended: {error}", meta.name)).into(),
    }
}

fn panicked(who: &str, panic: &(dyn Any + Send)) -> ToolError {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ToolError::new(
        ErrorCode::ToolPanicked,
        format_args!("{who} panicked: {}", SafeText::clean(said.unwrap_or("without a word"), 300)),
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
