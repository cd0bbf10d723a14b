//! The one way to call a tool: every call takes the same steps and ends in an envelope.
//!
//! rate → known → input → parameters → hooks → idempotency key → run → hooks → envelope. The events
//! of a call are one `tool:start`, what the tool says of its steps, `tool:error` if it failed, and
//! one `tool:end`, also when the caller went away.
//!
//! | file | holds |
//! |---|---|
//! | `reading` | reads, within their budget |
//! | `writing` | writes: prepared by the tool, then through the safety pipeline |
//! | `holding` | writes in two steps: previewed, and committed later by their permit |
//! | `told` | previews and transactions as JSON |
//! | `ending` | envelopes and last events |

mod ending;
mod holding;
mod reading;
mod told;
mod writing;

pub use self::holding::{Offer, Offered};

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy::primitives::B256;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{Instrument as _, field::Empty, info_span};

use self::ending::{Refusal, millis, panicked};
use self::holding::Hold;
use self::writing::{Leave, Wishes};
use super::acting::{Acting, ApprovalMode};
use super::catalog::{Catalog, Entry};
use super::context::{CallContext, Standing};
use super::input::Input;
use super::keys::{Claim, Claimed, Orphan};
use super::rate::CallRate;
use super::tool::{Handler, ReadJob, WriteJob};
use super::world::World;
use bardo_base::error::{ErrorCode, FigureUnit, Figures, ToolError, Violation};
use bardo_base::fabric::{EventKind, Fabric, Redacted, ToolEnd, ToolFacts, ToolStart, params_hash};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{CapabilityTier, Phase, RuleName, ToolMeta};
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use bardo_safety::account::AccountKind;
use bardo_safety::approval::AskedBy;
use bardo_safety::operator::CallRefused;
use bardo_safety::pipeline::Fate;
use bardo_session::envelope::{Status, ToolResponse};
use bardo_store::Store;

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
    /// At most so many calls in any 60 seconds, of this executor alone. Where the world has the operator's rules, their
    /// own figure counts instead, for all calls of the same actor on the same ledger.
    pub calls_per_minute: u32,
    /// Asked before and told after each call, in this order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Where idempotency keys are kept; without it a call with a key is refused.
    pub store: Option<Store>,
    /// With whose hands writes act; without it they are refused.
    pub acting: Option<Acting>,
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
    /// A write is only rehearsed.
    pub dry_run: bool,
    /// How consent is come by; the executor's own way if absent.
    pub approve: Option<ApprovalMode>,
    /// Decide as in this phase, if it is the stricter one.
    pub phase: Option<Phase>,
    /// Who asks for it, for the operator who decides. What the operator's own executor calls is the operator's.
    pub asked_by: AskedBy,
}

impl Call {
    /// A plain call.
    pub fn new(tool: impl Into<String>, input: Input) -> Self {
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
        }
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
    acting: Option<Acting>,
    rate: Mutex<CallRate>,
    running: Mutex<HashMap<CallId, Running>>,
}

/// A call on a task of its own, and how to end it.
#[derive(Debug, Clone)]
enum Running {
    /// At any time.
    Read(AbortHandle),
    /// As long as nothing is being signed.
    Write(AbortHandle, Arc<Leave>),
}

/// A call whose parameters fit, ready to run.
enum Job {
    Read(ReadJob),
    Write(WriteJob),
}

impl Executor {
    /// An executor over a catalog.
    pub fn new(config: ExecutorConfig) -> Self {
        let ExecutorConfig { catalog, world, fabric, golem_id, calls_per_minute, hooks, store, acting } = config;
        let rate = Mutex::new(CallRate::new(calls_per_minute));
        let running = Mutex::new(HashMap::new());
        let shared = Shared { catalog, world, fabric, golem_id, calls_per_minute, hooks, store, acting, rate, running };
        Self { shared: Arc::new(shared) }
    }

    /// The tools that can be called.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// The world they see.
    pub fn world(&self) -> &World {
        &self.shared.world
    }

    /// The most slippage that phase and policy take, where somebody acts.
    pub fn most_slippage(&self, phase: Phase) -> Option<BasisPoints> {
        let acting = self.shared.acting.as_ref()?;
        Some(acting.pipeline.rules().slippage(phase).max_slippage)
    }

    /// An id for a call about to be made.
    pub fn new_call_id(&self) -> CallId {
        CallId::new(self.shared.world.clock.now_millis())
    }

    /// Calls a tool. Needs a tokio runtime with time. Dropping the future cancels a read, and a write as long as
    /// nothing is being signed; what is being signed goes on in the background to its end.
    pub async fn call(&self, call: Call) -> ToolResponse {
        self.call_holding(call, None).await
    }

    /// The same; a write stops at its preview where it is to be held there.
    async fn call_holding(&self, call: Call, hold: Option<Hold>) -> ToolResponse {
        let call_id = call.call_id.unwrap_or_else(|| self.new_call_id());
        // A name that no tool has is the caller's text, and stays out of the span.
        let tool = self.shared.catalog.get(&call.tool).map_or("unknown", |entry| entry.def.meta.name);
        let span = info_span!("call", %call_id, tool, status = Empty);
        let response = self.call_in_span(call_id, call, hold).instrument(span.clone()).await;
        span.record("status", response.status.as_str());
        response
    }

    async fn call_in_span(&self, call_id: CallId, call: Call, hold: Option<Hold>) -> ToolResponse {
        let shared = &*self.shared;
        let started = Instant::now();
        let entry = shared.catalog.get(&call.tool);
        if let Err(refusal) = shared.admit(entry).await {
            shared.say_not_started(call_id, entry, &call.tool, &Value::Null, call.tick);
            return shared.refuse_early(call_id, started, refusal);
        }
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
        // Of a write the pipeline checks the lists, with everything else that stands in its way.
        let world = match &job {
            Job::Read(_) => match shared.readable(&meta) {
                Ok(world) => world,
                Err(error) => return shared.refuse_early(call_id, started, error.into()),
            },
            Job::Write(_) => shared.world.clone(),
        };
        let hook_call = HookCall { call_id, golem_id: &shared.golem_id, meta: &meta, params: &params };
        if let Err(error) = shared.ask_hooks(hook_call) {
            return shared.refuse_early(call_id, started, Refusal { status: Status::Blocked, error });
        }
        let (fabric, golem_id) = (shared.fabric.clone(), shared.golem_id.clone());
        let context = CallContext::new(world, fabric, golem_id, call_id, meta, shared.standing(call.phase));
        let claim = match shared.claim(call.idempotency_key, call_id, entry, &params).await {
            Ok(Some(Claimed::Answered(response))) => return shared.answer_again(&context, started, *response),
            Ok(Some(Claimed::Fresh(claim))) => Some(claim),
            Ok(Some(Claimed::Orphaned(orphan))) => match shared.adopt(orphan).await {
                Ok(Adopted::Fresh(claim)) => Some(claim),
                Ok(Adopted::Answered(response)) => return shared.answer_again(&context, started, *response),
                Err(error) => return shared.refuse_early(call_id, started, error.into()),
            },
            Ok(None) => None,
            Err(error) => return shared.refuse_early(call_id, started, error.into()),
        };
        failpoint::reach(Failpoint::KeyClaimed);
        let response = match job {
            Job::Read(job) => {
                let ended = shared.read(&context, &meta, started, job).await.unwrap_or_else(Into::into);
                let response = shared.answer(&context, &meta, started, ended);
                let keep = response.status == Status::Success;
                settle(claim, response, keep).await
            }
            Job::Write(job) => {
                let asked_by = match shared.golem_id == GolemId::operator() {
                    true => AskedBy::Operator,
                    false => call.asked_by,
                };
                let (dry_run, approve, phase) = (call.dry_run, call.approve, call.phase);
                let wishes = Wishes { dry_run, approve, phase, asked_by };
                self.write(&context, entry, started, (job, params.clone(), wishes), (claim, hold)).await
            }
        };
        for hook in &shared.hooks {
            // The call is over and answered; a hook that panics afterwards changes nothing of it.
            let _told = catch_unwind(AssertUnwindSafe(|| hook.after(hook_call, &response)));
        }
        response
    }

    /// Cancels a running call; false if none of that id runs, or it is being signed already.
    pub fn cancel(&self, call_id: CallId) -> bool {
        let running = self.shared.running().get(&call_id).cloned();
        match running {
            Some(Running::Read(handle)) => {
                handle.abort();
                true
            }
            Some(Running::Write(handle, leave)) => {
                let free = leave.cancel();
                if free {
                    handle.abort();
                }
                free
            }
            None => false,
        }
    }
}

/// The two names under which the documents know the same parameter.
const CHAIN_NAMES: [(&str, &str); 2] = [("chain", "chain_id"), ("chain_id", "chain")];

/// Parameters with the chain under the name that the tool gives it: `chain` or `chain_id`. A tool that knows both, or a
/// call that gives both, is left as it is.
fn with_chain_as_spelled(known: &[String], mut params: Value) -> Value {
    let knows = |name: &str| known.iter().any(|one| one == name);
    if let Value::Object(given) = &mut params {
        for (own, other) in CHAIN_NAMES.iter().filter(|(own, other)| knows(own) && !knows(other)) {
            if given.contains_key(*own) {
                continue;
            }
            if let Some(chain) = given.remove(*other) {
                // Both take a name or an id; an id may be written as a number where it is called one.
                let chain = if *own == "chain" && chain.is_u64() { Value::from(chain.to_string()) } else { chain };
                given.insert((*own).to_owned(), chain);
            }
        }
    }
    params
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, HashMap<CallId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The phase of whoever acts, tightened where the call asks for that, and where the operator is asked.
    fn standing(&self, asked: Option<Phase>) -> Standing {
        let own = self.acting.as_ref().map_or(Phase::Thriving, |acting| *acting.phase.borrow());
        let desk = self.acting.as_ref().map(|acting| acting.pipeline.desk().clone());
        let kind = self.acting.as_ref().map(|acting| acting.account.kind());
        let signs_messages = kind.is_none_or(AccountKind::signs_messages);
        let phase = asked.map_or(own, |asked| asked.max(own));
        let rules = self.acting.as_ref().map(|acting| acting.pipeline.rules());
        let max_slippage = rules.map(|rules| rules.slippage(phase).max_slippage);
        Standing { phase, desk, signs_messages, max_slippage }
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
                facts: Some(ToolFacts::of(meta)),
            }),
        );
    }

    /// Of parameters that were never understood, only the names are told: any value may be a secret.
    fn say_not_started(
        &self,
        call_id: CallId,
        entry: Option<&Arc<Entry>>,
        name: &str,
        seen: &Value,
        tick: Option<u64>,
    ) {
        let facts = Some(entry.map_or_else(ToolFacts::default, |entry| ToolFacts::of(&entry.def.meta)));
        let tool_name = match entry {
            Some(entry) => Cow::Borrowed(entry.def.meta.name),
            None => Cow::Owned(SafeText::clean(name, 64).to_string()),
        };
        let params = Redacted::names(seen);
        let params_hash = params_hash(params.value(), &[]);
        self.say(call_id, EventKind::ToolStart(ToolStart { tool_name, params, params_hash, tick, facts }));
    }

    /// Takes a place in the window of this executor's actor, which all processes share; without rules, in the executor's
    /// own.
    async fn admit(&self, entry: Option<&Arc<Entry>>) -> Result<(), Refusal> {
        let now = self.world.clock.now_millis();
        let Some(rules) = self.world.rules_in_force() else {
            let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
            return rate.take(now).map_err(|wait| too_often(self.calls_per_minute, wait));
        };
        match rules.take_call(now, &self.golem_id).await {
            Ok(()) => Ok(()),
            Err(CallRefused::TooMany { limit, wait }) => Err(too_often(limit, wait)),
            // A read changes nothing; without a ledger it is still counted here.
            Err(CallRefused::Uncounted(_)) if entry.is_some_and(|entry| is_read(entry)) => {
                let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// From input to a job: the tool, then the parameters; on a refusal, with as much of the input as was read.
    fn prepare<'e>(
        &self,
        entry: Option<&'e Arc<Entry>>,
        name: &str,
        input: Input,
    ) -> Result<(&'e Arc<Entry>, Value, Job), (Value, Refusal)> {
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

    /// The world that a read may see: without the chains that the policy does not allow.
    ///
    /// # Errors
    /// `SAFETY_NOT_ALLOWED` for a tool that is not on the policy's list.
    fn readable(&self, meta: &ToolMeta) -> Result<Arc<World>, ToolError> {
        let Some(policy) = self.world.policy() else { return Ok(self.world.clone()) };
        let allowed = &policy.rules().allowed_tools;
        if !allowed.allows_by(false, |listed| listed.iter().any(|word| word.0 == meta.name)) {
            let what = format_args!(
                "the policy allows only these tools: {}; {} is not one of them",
                allowed.words(),
                meta.name
            );
            return Err(ToolError::new(ErrorCode::SafetyNotAllowed, what)
                .suggest("Use an allowed tool, or ask the operator to add this one to allowed_tools.")
                .violating(&[Violation::new(
                    RuleName::AllowedTools,
                    allowed.words(),
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
        entry: &Entry,
        params: &Value,
    ) -> Result<Option<Claimed>, ToolError> {
        let Some(key) = key else { return Ok(None) };
        // A key used on paper is none in earnest.
        let on_paper = self.world.paper().map(|paper| paper.ledger.store());
        let Some(store) = on_paper.or(self.store.as_ref()) else {
            return Err(ToolError::new(
                ErrorCode::StoreUnavailable,
                "no database is open, so idempotency keys cannot be stored",
            ));
        };
        let hash = params_hash(params, &[]);
        let now = self.world.clock.now_millis();
        Claim::take(store, &self.golem_id, key, &entry.def.meta, hash, call_id, now).await.map(Some)
    }

    /// What becomes of a key whose program ended: what was never signed is done now, and of what was signed the ledger
    /// knows the end.
    async fn adopt(&self, orphan: Orphan) -> Result<Adopted, ToolError> {
        let fate = match &self.acting {
            _ if !orphan.acted => Fate::Nothing,
            Some(acting) => acting.pipeline.fate(orphan.first).map_err(|refusal| refusal.error())?,
            None => Fate::Open,
        };
        match fate {
            Fate::Nothing => Ok(Adopted::Fresh(orphan.take_over(self.world.clock.now_millis()).await?)),
            Fate::Open => Err(orphan.in_progress()),
            Fate::Placed { hash, bridge, status } => {
                let answer = placed_without_answer(orphan.first, hash, bridge, status.as_str());
                Ok(Adopted::Answered(Box::new(orphan.answer(answer).await?)))
            }
            Fate::Ended { succeeded, transactions } => {
                let answer = left_without_answer(orphan.first, succeeded, &transactions);
                Ok(Adopted::Answered(Box::new(orphan.answer(answer).await?)))
            }
        }
    }

    /// Gives the first answer again.
    fn answer_again(&self, context: &CallContext, started: Instant, response: ToolResponse) -> ToolResponse {
        context.finish([EventKind::ToolEnd(ToolEnd {
            success: true,
            state: Some(ending::end_state(response.status, response.decision_hints.as_ref())),
            duration_ms: millis(started.elapsed()),
            result_summary: serde_json::json!({"answered_as": response.call_id}),
            card: None,
        })]);
        response
    }
}

fn is_read(entry: &Entry) -> bool {
    entry.def.meta.capability == CapabilityTier::Read
}

/// `limit` calls were made in the last minute; a place is free in `wait` milliseconds.
fn too_often(limit: u32, wait: u64) -> Refusal {
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
        Figures::new(FigureUnit::Count, limit, u64::from(limit).saturating_add(1)).leaving(0).freeing_in(Some(seconds)),
    )])
    .detail("retry_after_ms", wait);
    Refusal { status: Status::Blocked, error }
}

/// A key that an ended program had, after the ledger was asked about its call.
enum Adopted {
    Fresh(Claim),
    Answered(Box<ToolResponse>),
}

/// The answer to a call whose program ended after it had signed an order and before it could answer. The order is
/// followed like any other.
fn placed_without_answer(call_id: CallId, hash: B256, bridge: bool, status: &str) -> ToolResponse {
    let name = if bridge { "intent_id" } else { "order_hash" };
    let explanation =
        format!("An earlier run signed order {hash} and ended before it could respond. The order is {status}.");
    ToolResponse {
        call_id,
        status: Status::Partial,
        data: Some(serde_json::json!({ name: hash, "status": status })),
        error: None,
        decision_hints: Some(serde_json::json!({ "answered_by": "ledger" })),
        explanation: Some(explanation),
    }
}

/// The answer to a call whose program ended after something was signed and before it could answer: what the ledger
/// knows. What the tool would have made of it is lost.
fn left_without_answer(call_id: CallId, succeeded: bool, transactions: &[B256]) -> ToolResponse {
    let hints = serde_json::json!({ "answered_by": "ledger", "succeeded": succeeded, "transactions": transactions });
    if !succeeded {
        let error = ToolError::new(
            ErrorCode::ExecutionTxReverted,
            "an earlier run signed this and ended before it could respond; its transaction is in a block and reverted",
        );
        let failed = ToolResponse::failed(call_id, Status::Error, error);
        return ToolResponse { decision_hints: Some(hints), ..failed };
    }
    let explanation = "An earlier run did this and ended before it could respond. Its transactions are in blocks and \
                       succeeded; read the resulting figures from the chain.";
    let (status, explanation) = (Status::Partial, Some(explanation.to_owned()));
    ToolResponse { call_id, status, data: None, error: None, decision_hints: Some(hints), explanation }
}

/// Parameter that carries an amount of tokens as text.
const AMOUNT: &str = "amount";

/// Reads a whole JSON number as the text of an amount. One with a fraction or an exponent has passed through a float, so
/// that digits may be lost already.
fn exact_amount(entry: &Entry, params: &mut Value) -> Result<(), ToolError> {
    let is_text = entry.input_schema.pointer("/properties/amount/type").is_some_and(|kind| kind == "string");
    let Some(Value::Number(number)) = params.get(AMOUNT).filter(|_| is_text) else { return Ok(()) };
    if !number.is_i64() && !number.is_u64() {
        let what = format_args!(
            "parameter `{AMOUNT}`: {number} is a JSON number, which can lose digits of a fraction; use a string, such \
             as \"{AMOUNT}\": \"0.25\""
        );
        return Err(ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", AMOUNT));
    }
    let text = number.to_string();
    if let Some(amount) = params.get_mut(AMOUNT) {
        *amount = Value::String(text);
    }
    Ok(())
}

/// The parameters as the tool's own type, in a job.
fn bound(entry: &Entry, params: &Value) -> Result<Job, ToolError> {
    Ok(match entry.def.handler {
        Handler::Read(bind) => Job::Read(bind(params, &entry.parameters)?),
        Handler::Write(bind) => Job::Write(bind(params, &entry.parameters)?),
    })
}

/// Keeps an answer under its key, or gives the key back. An answer that cannot be kept is still one: the key is
/// then free again once the call counts as abandoned.
async fn settle(claim: Option<Claim>, mut response: ToolResponse, keep: bool) -> ToolResponse {
    let Some(claim) = claim else { return response };
    let settled = if keep { claim.keep(&response).await } else { claim.release().await };
    failpoint::reach(Failpoint::Kept);
    if let Err(error) = settled {
        let said = response.explanation.take().unwrap_or_default();
        response.explanation = Some(format!("{said} (The idempotency key was not stored: {})", error.message()));
    }
    response
}
