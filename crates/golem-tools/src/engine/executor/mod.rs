//! Executor: the only way to call a tool. Every call takes the same steps and ends in an envelope.
//!
//! rate limit → lookup → input → parameters → hooks → idempotency key → run → hooks → envelope. Each call emits one
//! `tool:start`, its progress updates, `tool:error` if it failed, and one `tool:end`. The final events are emitted even
//! if the caller drops the call.
//!
//! | file | holds |
//! |---|---|
//! | `reading` | reads, within their time budget |
//! | `recording` | changes of this machine's records, which sign nothing |
//! | `writing` | writes: prepared by the tool, then run through the safety pipeline |
//! | `offer` | writes in two steps: previewed, and later committed by their permit |
//! | `to_json` | previews and transactions as JSON |
//! | `call_end` | envelopes and final events |

mod call_end;
mod offer;
mod reading;
mod recording;
mod to_json;
mod writing;

pub use self::offer::{Offer, PreviewResult};

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use alloy::primitives::B256;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{Instrument as _, field::Empty, info_span};

use self::call_end::{CallRefusal, millis, panicked};
use self::offer::OfferReceiver;
use self::writing::{CallOptions, CancelEffect, CancelState};
use super::catalog::{Catalog, CatalogEntry};
use super::context::{CallConditions, CallContext};
use super::environment::ToolEnvironment;
use super::input::{AMOUNT, ToolInput};
use super::keys::{self, ActedCall, ClaimResult, KeyClaim, OrphanedKey, SignedCall};
use super::rate::CallRate;
use super::tool::{Handler, ReadJob, WriteJob};
use super::write_access::{ApprovalMode, WriteAccess};
use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, ToolError, Violation};
use bardo_base::fabric::{EventKind, Fabric, RedactedParams, ToolEnd, ToolFacts, ToolStart, params_hash};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{CapabilityTier, Phase, RuleName, ToolMeta};
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use bardo_safety::account::AccountKind;
use bardo_safety::approval::AskedBy;
use bardo_safety::operator_policy::CallRefused;
use bardo_safety::pipeline::SignedOutcome;
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_store::Store;

/// Configuration of an executor.
#[derive(Debug)]
pub struct ExecutorConfig {
    /// Tools that this caller may call.
    pub catalog: Catalog,
    /// Chains, accounts, services and ledgers that calls can use.
    pub world: Arc<ToolEnvironment>,
    /// Event Fabric that receives the calls' events.
    pub fabric: Fabric,
    /// Golem on whose behalf calls run.
    pub golem_id: GolemId,
    /// Limit of calls in any 60 seconds, for this executor alone. If the operator's rules are set, their limit applies
    /// instead, to all calls of the same actor on the same ledger.
    pub calls_per_minute: u32,
    /// Hooks that run before and after each call, in this order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Store for idempotency keys. Without it, a call with a key is refused.
    pub store: Option<Store>,
    /// Means to sign and act. Without it, writes are refused.
    pub acting: Option<WriteAccess>,
}

/// Request for one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    /// Parameters of the tool.
    pub input: ToolInput,
    /// Call id made in advance by [`Executor::new_call_id`], for a caller that wants to cancel.
    pub call_id: Option<CallId>,
    /// Makes retries safe: calls with the same key run at most once; see [`super::MIGRATIONS`].
    pub idempotency_key: Option<String>,
    /// Number of the heartbeat tick that the call belongs to, if any.
    pub tick: Option<u64>,
    /// Rehearses a write without signing.
    pub dry_run: bool,
    /// Approval mode; defaults to the executor's.
    pub approve: Option<ApprovalMode>,
    /// Phase to decide in, if it is stricter than the actor's phase.
    pub phase: Option<Phase>,
    /// Originator of the call, shown to the operator who decides. Calls of the operator's own executor are always
    /// attributed to the operator.
    pub asked_by: AskedBy,
    /// True for a read that nobody asked for, such as the quote of a form that is being filled in: it emits no events. It has
    /// no effect on any other call.
    pub unreported: bool,
}

impl ToolCall {
    /// Creates a call without options.
    pub fn new(tool: impl Into<String>, input: ToolInput) -> Self {
        Self {
            tool: tool.into(),
            input,
            call_id: None,
            idempotency_key: None,
            tick: None,
            dry_run: false,
            approve: None,
            phase: None,
            asked_by: AskedBy::default(),
            unreported: false,
        }
    }
}

/// View of a call for hooks.
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// Id of the call.
    pub call_id: CallId,
    /// Golem on whose behalf the call runs.
    pub golem_id: &'a GolemId,
    /// Static metadata of the tool.
    pub meta: &'a ToolMeta,
    /// Parameters, valid under the tool's schema.
    pub params: &'a Value,
}

/// Extension point for embedding programs around each call. Hooks run on the caller's task and must not block.
pub trait Hook: Send + Sync + fmt::Debug {
    /// Runs before the call.
    ///
    /// # Errors
    /// An error blocks the call and becomes its error. A panic also blocks it.
    fn before(&self, _call: HookCall<'_>) -> Result<(), ToolError> {
        Ok(())
    }

    /// Runs after a call that [`Self::before`] let pass, with its response.
    fn after(&self, _call: HookCall<'_>, _response: &ToolResponse) {}
}

/// Executes tool calls. Cheap to clone; clones share the rate limit and the running calls.
#[derive(Debug, Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    catalog: Catalog,
    world: Arc<ToolEnvironment>,
    fabric: Fabric,
    golem_id: GolemId,
    calls_per_minute: u32,
    hooks: Vec<Arc<dyn Hook>>,
    store: Option<Store>,
    acting: Option<WriteAccess>,
    rate: Mutex<CallRate>,
    running: Mutex<HashMap<CallId, RunningCall>>,
    /// True once no further step of a write may begin.
    steps_end: watch::Sender<bool>,
}

/// Running call on a task of its own, with the means to cancel it.
#[derive(Debug, Clone)]
enum RunningCall {
    /// A read can be cancelled at any time.
    Read(AbortHandle),
    /// A write can be cancelled until signing begins.
    Write(AbortHandle, Arc<CancelState>),
}

/// Call with valid parameters, ready to run.
enum ToolJob {
    Read(ReadJob),
    Write(WriteJob),
    /// Change of records, with true if neither a stop nor paper mode keeps it from running.
    Record(ReadJob, bool),
}

impl Executor {
    /// Creates an executor.
    pub fn new(config: ExecutorConfig) -> Self {
        let ExecutorConfig { catalog, world, fabric, golem_id, calls_per_minute, hooks, store, acting } = config;
        let rate = Mutex::new(CallRate::new(calls_per_minute));
        let running = Mutex::new(HashMap::new());
        let steps_end = watch::Sender::new(false);
        let shared = Shared {
            catalog,
            world,
            fabric,
            golem_id,
            calls_per_minute,
            hooks,
            store,
            acting,
            rate,
            running,
            steps_end,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Lets no running write begin a further step, because the session ends. Steps that are being signed end as they do.
    pub fn end_steps(&self) {
        self.shared.steps_end.send_replace(true);
    }

    /// Tells when no further step may begin.
    pub(super) fn steps_end(&self) -> watch::Receiver<bool> {
        self.shared.steps_end.subscribe()
    }

    /// Catalog of the callable tools.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// Chains, accounts, services and ledgers that calls can use.
    pub fn world(&self) -> &ToolEnvironment {
        &self.shared.world
    }

    /// Database of the ledger; `None` without one.
    pub(super) fn store(&self) -> Option<&Store> {
        self.shared.store.as_ref()
    }

    /// Returns the maximum slippage that phase and policy allow; `None` if no account is set up.
    pub fn most_slippage(&self, phase: Phase) -> Option<BasisPoints> {
        let acting = self.shared.acting.as_ref()?;
        Some(acting.pipeline.rules().slippage(phase).max_slippage)
    }

    /// Creates an id for a future call.
    pub fn new_call_id(&self) -> CallId {
        CallId::new(self.shared.world.clock.now_millis())
    }

    /// Returns the call of this actor that may have signed something under an idempotency key; `None` if none has, so that
    /// the key's call can be made again. A call whose process died between its note in the key and the signature has signed
    /// nothing.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` without a database, or if it or the ledger cannot be read.
    pub fn signed_under(&self, key: &str) -> Result<Option<SignedCall>, ToolError> {
        let Some(store) = self.store() else {
            return Err(ToolError::new(ErrorCode::StoreUnavailable, "no database is open"));
        };
        let found = keys::signed_under(store, &self.shared.golem_id, key)?;
        let Some(ActedCall { call, is_orphaned }) = found else { return Ok(None) };
        if call.is_answered || !is_orphaned {
            return Ok(Some(call));
        }
        let Some(acting) = &self.shared.acting else { return Ok(Some(call)) };
        match acting.pipeline.fate(call.call_id).map_err(|refusal| refusal.error())? {
            SignedOutcome::Nothing => Ok(None),
            SignedOutcome::Open | SignedOutcome::Placed { .. } | SignedOutcome::Ended { .. } => Ok(Some(call)),
        }
    }

    /// Calls a tool. Needs a tokio runtime with time enabled. Dropping the future cancels a read, and cancels a write
    /// until signing begins. A write that is being signed continues in the background.
    pub async fn call(&self, call: ToolCall) -> ToolResponse {
        self.call_holding(call, None).await
    }

    /// Calls a tool; with `hold`, a write stops at its preview.
    async fn call_holding(&self, call: ToolCall, hold: Option<OfferReceiver>) -> ToolResponse {
        let call_id = call.call_id.unwrap_or_else(|| self.new_call_id());
        // An unknown tool name is text from the caller and stays out of the span.
        let tool = self.shared.catalog.get(&call.tool).map_or("unknown", |entry| entry.def.meta.name);
        let span = info_span!("call", %call_id, tool, status = Empty);
        let response = self.call_in_span(call_id, call, hold).instrument(span.clone()).await;
        span.record("status", response.status.as_str());
        response
    }

    async fn call_in_span(&self, call_id: CallId, call: ToolCall, hold: Option<OfferReceiver>) -> ToolResponse {
        let shared = &*self.shared;
        let started = Instant::now();
        let entry = shared.catalog.get(&call.tool);
        // Only a read can be left out of the events.
        let quiet = call.unreported && entry.is_some_and(|entry| matches!(entry.def.handler, Handler::Read(_)));
        let refused = |refusal: CallRefusal| match quiet {
            true => ToolResponse::failed(call_id, refusal.status, refusal.error),
            false => shared.refuse_early(call_id, started, refusal),
        };
        if let Err(refusal) = shared.admit(entry).await {
            if !quiet {
                shared.emit_not_started(call_id, entry, &call.tool, &Value::Null, call.tick);
            }
            return refused(refusal);
        }
        let (entry, params, job) = match shared.prepare(entry, &call.tool, call.input) {
            Ok((entry, params, job)) => {
                if !quiet {
                    shared.emit_start(call_id, entry, &params, call.tick);
                }
                (entry, params, job)
            }
            Err((seen, refusal)) => {
                if !quiet {
                    shared.emit_not_started(call_id, entry, &call.tool, &seen, call.tick);
                }
                return refused(refusal);
            }
        };
        let meta = entry.def.meta;
        // For writes, the pipeline checks the allowlists together with all other rules.
        let world = match &job {
            ToolJob::Read(_) | ToolJob::Record(..) => match shared.readable(&meta) {
                Ok(world) => world,
                Err(error) => return refused(error.into()),
            },
            ToolJob::Write(_) => shared.world.clone(),
        };
        if let ToolJob::Record(_, always_runs) = &job
            && let Err(refusal) = shared.may_record(&meta, *always_runs, call.dry_run)
        {
            return refused(refusal);
        }
        let hook_call = HookCall { call_id, golem_id: &shared.golem_id, meta: &meta, params: &params };
        if let Err(error) = shared.ask_hooks(hook_call) {
            return refused(CallRefusal { status: CallStatus::Blocked, error });
        }
        let fabric = if quiet { Fabric::in_memory(1, shared.world.clock.clone()) } else { shared.fabric.clone() };
        let golem_id = shared.golem_id.clone();
        let conditions = shared.conditions(call.phase);
        let context = CallContext::new(self.clone(), (world, fabric), golem_id, call_id, meta, conditions);
        let claim = match shared.claim(call.idempotency_key, call_id, entry, &params).await {
            Ok(Some(ClaimResult::Answered(response))) => return shared.answer_again(&context, started, *response),
            Ok(Some(ClaimResult::Fresh(claim))) => Some(claim),
            Ok(Some(ClaimResult::Orphaned(orphan))) => match shared.adopt(orphan).await {
                Ok(KeyResolution::Fresh(claim)) => Some(claim),
                Ok(KeyResolution::Answered(response)) => return shared.answer_again(&context, started, *response),
                Err(error) => return refused(error.into()),
            },
            Ok(None) => None,
            Err(error) => return refused(error.into()),
        };
        failpoint::reach(Failpoint::KeyClaimed);
        let response = match job {
            ToolJob::Read(job) => {
                let ended = shared.read(&context, &meta, started, job).await.unwrap_or_else(Into::into);
                let response = shared.answer(&context, &meta, started, ended);
                let keep = response.status == CallStatus::Success;
                settle(claim, response, keep).await
            }
            ToolJob::Record(job, _) => {
                let ended = shared.record(&context, &meta, job).await.unwrap_or_else(Into::into);
                let response = shared.answer(&context, &meta, started, ended);
                let keep = response.status == CallStatus::Success;
                settle(claim, response, keep).await
            }
            ToolJob::Write(job) => {
                // Only the operator's executor sells all holdings.
                let asked_by = call.asked_by.of(shared.golem_id == GolemId::operator());
                let (dry_run, approve, phase) = (call.dry_run, call.approve, call.phase);
                let options = CallOptions { dry_run, approve, phase, asked_by };
                self.write(&context, entry, started, (job, params.clone(), options), (claim, hold)).await
            }
        };
        for hook in &shared.hooks {
            // The response is final; a panic in a hook does not change it.
            let _told = catch_unwind(AssertUnwindSafe(|| hook.after(hook_call, &response)));
        }
        response
    }

    /// Cancels a running call, or its further steps. Returns false if no such call is running or it is being signed.
    pub fn cancel(&self, call_id: CallId) -> bool {
        let running = self.shared.running().get(&call_id).cloned();
        match running {
            Some(RunningCall::Read(handle)) => {
                handle.abort();
                true
            }
            Some(RunningCall::Write(handle, leave)) => {
                let effect = leave.cancel();
                if effect == CancelEffect::Ended {
                    handle.abort();
                }
                effect != CancelEffect::TooLate
            }
            None => false,
        }
    }
}

/// Parameter names for the chain: both spellings mean the same parameter.
const CHAIN_NAMES: [(&str, &str); 2] = [("chain", "chain_id"), ("chain_id", "chain")];

/// Renames the chain parameter to the spelling that the tool uses: `chain` or `chain_id`. A tool that knows both, or a
/// call that gives both, is left unchanged.
fn with_chain_as_spelled(known: &[String], mut params: Value) -> Value {
    let knows = |name: &str| known.iter().any(|one| one == name);
    if let Value::Object(given) = &mut params {
        for (own, other) in CHAIN_NAMES.iter().filter(|(own, other)| knows(own) && !knows(other)) {
            let Some(chain) = given.remove(*own).or_else(|| given.remove(*other)) else { continue };
            // Both accept a name or an id. A numeric id is converted to text for `chain`, which takes only text.
            let chain = if *own == "chain" && chain.is_u64() { Value::from(chain.to_string()) } else { chain };
            given.insert((*own).to_owned(), chain);
        }
    }
    params
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, HashMap<CallId, RunningCall>> {
        self.running.lock()
    }

    /// Collects the conditions of a call: the actor's phase, tightened if the call asks for it, the approval queue, and
    /// the limits.
    fn conditions(&self, asked: Option<Phase>) -> CallConditions {
        let own = self.acting.as_ref().map_or(Phase::Thriving, |acting| *acting.phase.borrow());
        let queue = self.acting.as_ref().map(|acting| acting.pipeline.approval_queue().clone());
        let kind = self.acting.as_ref().map(|acting| acting.account.kind());
        let signs_messages = kind.is_none_or(AccountKind::signs_messages);
        let phase = asked.map_or(own, |asked| asked.max(own));
        let rules = self.acting.as_ref().map(|acting| acting.pipeline.rules());
        let max_slippage = rules.map(|rules| rules.slippage(phase).max_slippage);
        CallConditions { phase, queue, signs_messages, max_slippage }
    }

    fn emit(&self, call_id: CallId, kind: EventKind) {
        self.fabric.emit(&self.golem_id, Some(call_id), kind);
    }

    fn emit_start(&self, call_id: CallId, entry: &CatalogEntry, params: &Value, tick: Option<u64>) {
        let meta = &entry.def.meta;
        self.emit(
            call_id,
            EventKind::ToolStart(ToolStart {
                tool_name: Cow::Borrowed(meta.name),
                params: RedactedParams::selected(params, &entry.secret_fields, meta.event_params),
                params_hash: params_hash(params, &entry.secret_fields),
                tick,
                facts: Some(ToolFacts::of(meta)),
            }),
        );
    }

    /// Emits `tool:start` for a call whose parameters were not parsed. Only parameter names are reported, because any
    /// value may be a secret.
    fn emit_not_started(
        &self,
        call_id: CallId,
        entry: Option<&Arc<CatalogEntry>>,
        name: &str,
        seen: &Value,
        tick: Option<u64>,
    ) {
        let facts = Some(entry.map_or_else(ToolFacts::default, |entry| ToolFacts::of(&entry.def.meta)));
        let tool_name = match entry {
            Some(entry) => Cow::Borrowed(entry.def.meta.name),
            None => Cow::Owned(SafeText::clean(name, 64).to_string()),
        };
        let params = RedactedParams::names(seen);
        let params_hash = params_hash(params.value(), &[]);
        self.emit(call_id, EventKind::ToolStart(ToolStart { tool_name, params, params_hash, tick, facts }));
    }

    /// Takes a slot in the actor's call window, which all processes share. Without rules, uses this executor's own
    /// window.
    async fn admit(&self, entry: Option<&Arc<CatalogEntry>>) -> Result<(), CallRefusal> {
        let now = self.world.clock.now_millis();
        let Some(rules) = self.world.rules_in_force() else {
            let mut rate = self.rate.lock();
            return rate.take(now).map_err(|wait| too_often(self.calls_per_minute, wait));
        };
        match rules.take_call(now, &self.golem_id).await {
            Ok(()) => Ok(()),
            Err(CallRefused::TooMany { limit, wait }) => Err(too_often(limit, wait)),
            // A read changes nothing, so without a ledger the executor's own window applies.
            Err(CallRefused::Uncounted(_)) if entry.is_some_and(|entry| is_read(entry)) => {
                let mut rate = self.rate.lock();
                rate.take(now).map_err(|wait| too_often(self.calls_per_minute, wait))
            }
            Err(CallRefused::Uncounted(error)) => Err(ToolError::new(ErrorCode::StoreUnavailable, error).into()),
        }
    }

    fn unknown(&self, name: &str) -> ToolError {
        let error = ToolError::new(
            ErrorCode::ToolUnknown,
            format_args!("this tool set has no tool `{}`", SafeText::clean(name, 64)),
        );
        match self.catalog.nearest(name) {
            Some(near) => error.suggest(format_args!("Did you mean `{near}`?")).detail("nearest", near),
            None => error,
        }
    }

    /// Resolves the tool and parses the parameters into a job. On a refusal, also returns the input as far as it was
    /// read.
    fn prepare<'e>(
        &self,
        entry: Option<&'e Arc<CatalogEntry>>,
        name: &str,
        input: ToolInput,
    ) -> Result<(&'e Arc<CatalogEntry>, Value, ToolJob), (Value, CallRefusal)> {
        let params = input.into_object();
        let Some(entry) = entry else {
            return Err((params.unwrap_or_default(), self.unknown(name).into()));
        };
        let wrong = |error: ToolError| error.suggest(format_args!("Send parameters such as {}", entry.example)).into();
        let params = params.map_err(|error| (Value::Null, wrong(error)))?;
        let mut params = with_chain_as_spelled(&entry.parameters, params);
        if let Err(error) = exact_amount(entry, &mut params) {
            return Err((params, wrong(error)));
        }
        match bound(entry, &params) {
            Ok(job) => Ok((entry, params, job)),
            Err(error) => Err((params, wrong(error))),
        }
    }

    /// Returns the context for a read, without the chains that the policy forbids.
    ///
    /// # Errors
    /// `SAFETY_NOT_ALLOWED` for a tool that is not on the policy's list.
    fn readable(&self, meta: &ToolMeta) -> Result<Arc<ToolEnvironment>, ToolError> {
        let Some(policy) = self.world.policy() else { return Ok(self.world.clone()) };
        let allowed = &policy.rules().allowed_tools;
        if !allowed.allows_by(false, |listed| listed.iter().any(|word| word.0 == meta.name)) {
            let what = format_args!(
                "the policy allows only these tools: {}; {} is not one of them",
                allowed.describe(),
                meta.name
            );
            return Err(ToolError::new(ErrorCode::SafetyNotAllowed, what)
                .suggest("Use an allowed tool, or ask the operator to add this one to allowed_tools.")
                .violating(&[Violation::new(
                    RuleName::AllowedTools,
                    allowed.describe(),
                    meta.name.to_owned(),
                    "an allowed tool",
                )]));
        }
        Ok(self.world.limited_to(&policy.rules().allowed_chains))
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
        entry: &CatalogEntry,
        params: &Value,
    ) -> Result<Option<ClaimResult>, ToolError> {
        let Some(key) = key else { return Ok(None) };
        // Keys of paper mode are separate: a key used on paper is still unused for real calls.
        let on_paper = self.world.paper().map(|paper| paper.ledger.store());
        let Some(store) = on_paper.or(self.store.as_ref()) else {
            return Err(ToolError::new(
                ErrorCode::StoreUnavailable,
                "no database is open, so idempotency keys cannot be stored",
            ));
        };
        let hash = params_hash(params, &[]);
        let now = self.world.clock.now_millis();
        KeyClaim::take(store, &self.golem_id, key, &entry.def.meta, hash, call_id, now).await.map(Some)
    }

    /// Resolves a key whose process ended. If nothing was signed, the key is claimed for this call. Otherwise the
    /// answer comes from the ledger.
    ///
    /// # Errors
    /// `CALL_IN_PROGRESS` if the outcome is still open.
    async fn adopt(&self, orphan: OrphanedKey) -> Result<KeyResolution, ToolError> {
        let fate = match &self.acting {
            _ if !orphan.acted => SignedOutcome::Nothing,
            Some(acting) => acting.pipeline.fate(orphan.first).map_err(|refusal| refusal.error())?,
            None => SignedOutcome::Open,
        };
        match fate {
            SignedOutcome::Nothing => Ok(KeyResolution::Fresh(orphan.take_over(self.world.clock.now_millis()).await?)),
            SignedOutcome::Open => Err(orphan.in_progress()),
            SignedOutcome::Placed { hash, bridge, status } => {
                let answer = placed_without_answer(orphan.first, hash, bridge, status.as_str());
                Ok(KeyResolution::Answered(Box::new(orphan.answer(answer).await?)))
            }
            SignedOutcome::Ended { succeeded, transactions } => {
                let answer = orphaned_answer(orphan.first, succeeded, &transactions);
                Ok(KeyResolution::Answered(Box::new(orphan.answer(answer).await?)))
            }
        }
    }

    /// Returns the first answer again.
    fn answer_again(&self, context: &CallContext, started: Instant, response: ToolResponse) -> ToolResponse {
        context.finish([EventKind::ToolEnd(ToolEnd {
            success: true,
            state: Some(call_end::end_state(response.status, response.decision_hints.as_ref())),
            duration_ms: millis(started.elapsed()),
            result_summary: serde_json::json!({"answered_as": response.call_id}),
            card: None,
        })]);
        response
    }
}

fn is_read(entry: &CatalogEntry) -> bool {
    entry.def.meta.capability == CapabilityTier::Read
}

/// Builds the refusal for `limit` calls made in the last minute. `wait` is the time until the next free slot, in
/// milliseconds.
fn too_often(limit: u32, wait: u64) -> CallRefusal {
    let seconds = wait.div_ceil(1_000);
    let error = ToolError::new(
        ErrorCode::SafetyRateLimited,
        format_args!("the limit of {limit} tool calls per 60 seconds is reached"),
    )
    .suggest(format_args!("Wait {seconds} s until the next call is allowed."))
    .violating(&[Violation::new(
        RuleName::MaxToolCallsPerMinute,
        limit.to_string(),
        u64::from(limit).saturating_add(1).to_string(),
        format_args!("the same call in {seconds} s"),
    )
    .with(
        RuleFigures::new(FigureUnit::Count, limit, u64::from(limit).saturating_add(1))
            .leaving(0)
            .freeing_in(Some(seconds)),
    )])
    .detail("retry_after_ms", wait);
    CallRefusal { status: CallStatus::Blocked, error }
}

/// Resolution of a key left by an ended process, according to the ledger.
enum KeyResolution {
    Fresh(KeyClaim),
    Answered(Box<ToolResponse>),
}

/// Builds the answer to a call whose process signed an order and ended before it answered. The order is tracked like
/// any other.
fn placed_without_answer(call_id: CallId, hash: B256, bridge: bool, status: &str) -> ToolResponse {
    let name = if bridge { "intent_id" } else { "order_hash" };
    let explanation =
        format!("An earlier run signed order {hash} and ended before it could respond. The order is {status}.");
    ToolResponse {
        call_id,
        status: CallStatus::Partial,
        data: Some(serde_json::json!({ name: hash, "status": status })),
        error: None,
        decision_hints: Some(serde_json::json!({ "answered_by": "ledger" })),
        explanation: Some(explanation),
    }
}

/// Builds the answer to a call whose process signed a transaction and ended before it answered. It contains the
/// ledger's record; the tool's own result is lost.
fn orphaned_answer(call_id: CallId, succeeded: bool, transactions: &[B256]) -> ToolResponse {
    let hints = serde_json::json!({ "answered_by": "ledger", "succeeded": succeeded, "transactions": transactions });
    if !succeeded {
        let error = ToolError::new(
            ErrorCode::ExecutionTxReverted,
            "an earlier run signed this and ended before it could respond; it was not done: a transaction of it reverted, or \
             it stopped before its last one",
        );
        let failed = ToolResponse::failed(call_id, CallStatus::Error, error);
        return ToolResponse { decision_hints: Some(hints), ..failed };
    }
    let explanation = "An earlier run did this and ended before it could respond. Its transactions are in blocks and \
                       succeeded; read the resulting figures from the chain.";
    let (status, explanation) = (CallStatus::Partial, Some(explanation.to_owned()));
    ToolResponse { call_id, status, data: None, error: None, decision_hints: Some(hints), explanation }
}

/// Converts a whole JSON number to the text of an amount. A number that was parsed as a float is rejected, because it
/// may have lost digits: one with an exponent, or one with a fraction that the caller did not send as text.
fn exact_amount(entry: &CatalogEntry, params: &mut Value) -> Result<(), ToolError> {
    let is_text = entry.input_schema.pointer("/properties/amount/type").is_some_and(|kind| kind == "string");
    let Some(Value::Number(number)) = params.get(AMOUNT).filter(|_| is_text) else { return Ok(()) };
    if !number.is_i64() && !number.is_u64() {
        let what = format_args!(
            "parameter `{AMOUNT}`: the number {number} was given with an exponent or as a float, which can lose digits; \
             write its digits, such as \"{AMOUNT}\": \"0.25\""
        );
        return Err(ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", AMOUNT));
    }
    let text = number.to_string();
    if let Some(amount) = params.get_mut(AMOUNT) {
        *amount = Value::String(text);
    }
    Ok(())
}

/// Parses the parameters into the tool's own type and binds them to a job.
fn bound(entry: &CatalogEntry, params: &Value) -> Result<ToolJob, ToolError> {
    Ok(match entry.def.handler {
        Handler::Read(bind) => ToolJob::Read(bind(params, &entry.parameters)?),
        Handler::Write(bind) => ToolJob::Write(bind(params, &entry.parameters)?),
        Handler::Record { bind, always_runs } => ToolJob::Record(bind(params, &entry.parameters)?, always_runs),
    })
}

/// Stores the response under its key, or releases the key. If storing fails, the response is returned with a note. The
/// key is then free again once the call counts as abandoned.
async fn settle(claim: Option<KeyClaim>, mut response: ToolResponse, keep: bool) -> ToolResponse {
    let Some(claim) = claim else { return response };
    let settled = if keep { claim.keep(&response).await } else { claim.release().await };
    failpoint::reach(Failpoint::Kept);
    if let Err(error) = settled {
        let explanation = response.explanation.take().unwrap_or_default();
        response.explanation = Some(format!("{explanation} (The idempotency key was not stored: {})", error.message()));
    }
    response
}
