//! Implementation of the eight tools. Every answer is an envelope. Nothing here signs: actions go through the executor
//! and therefore through the whole pipeline.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy::primitives::B256;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::action_catalog::{ActionKind, QUERIES, QueryKind};
use super::answers::{known_of, lacking, no_kind, permit_id, success, typed};
use super::params::{
    AGENT_TOOLS, CancelAction, CommitAction, EmergencyHalt, PreviewAction, QueryGrimoire, QueryState, SearchContext,
    UpdateDirective,
};
use crate::archetype::{ArchetypeError, Archetypes};
use crate::memory::{self, Documents, Memory, PlaybookDelta, Topic, TunedParameters};
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{
    DirectiveChanged, EventKind, Fabric, GolemThought, MemoryHits, RedactedParams, ToolEnd, ToolFacts, ToolFailed,
    ToolStart, params_hash,
};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::{CapabilityTier, Category, Phase};
use bardo_base::text::{SafeText, nearest};
use bardo_base::units::{BasisPoints, Rounding};
use bardo_safety::approval::AskedBy;
use bardo_safety::stop::{ActiveStop, EmergencyOutcome, Stop, StopFile};
use golem_chain::token;
use golem_tools::engine::{
    CallStatus, Catalog, CatalogEntry, ConnectedChain, Executor, Offer, PreviewResult, ToolCall, ToolInput,
    ToolResponse, categories_of,
};
use golem_tools::vault::holding::to_pause;

/// Query tool whose parameter `tool` names a write, which an agent knows by its kind of action.
const ESTIMATE: &str = "estimate_gas";

/// Number of past writes considered before a new one.
const MAX_CONSIDERED: usize = 20;

/// Configuration of a session.
#[derive(Debug)]
pub struct AgentConfig {
    /// All existing tools.
    pub all: Catalog,
    /// Executor for the tools within the role's reach; see [`Archetypes::reach`].
    pub executor: Executor,
    /// All roles and their delegation edges.
    pub roles: Arc<Archetypes>,
    /// Role of the Golem.
    pub role: String,
    /// Memory of the Golem.
    pub memory: Memory,
    /// Playbook and strategy of the Golem.
    pub documents: Documents,
    /// Goal set by the owner.
    pub goal: Option<SafeText>,
    /// Stop file of the ledger.
    pub stop: StopFile,
    /// Name written into the stop file, which distinguishes this Golem from those of other networks.
    pub halts_as: SafeText,
    /// Current phase of the Golem.
    pub phase: watch::Receiver<Phase>,
    /// Clock for expiries and heartbeats.
    pub clock: Arc<dyn Clock>,
    /// Event Fabric that receives its events.
    pub fabric: Fabric,
    /// Id of the Golem.
    pub golem_id: GolemId,
}

/// Eight tools of one Golem. Cheap to clone; clones share the open offers.
#[derive(Clone)]
pub struct AgentSession {
    inner: Arc<Inner>,
    asker: ToolCaller,
}

/// Maximum length of an agent's reason for an action, in characters.
const WHY: usize = 300;

/// Caller of the eight tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolCaller {
    Golem,
    Operator,
}

struct Inner {
    config: AgentConfig,
    /// True if memory may adjust tunable parameters: the role has tools of the memory category.
    learning: bool,
    /// Birth and heartbeat interval, both in milliseconds; unset without a heartbeat.
    heart: OnceLock<(u64, u64)>,
    /// True if the Golem has stopped itself under the operator's flatten. Reset once no stop is in force.
    has_stopped_itself: AtomicBool,
    held: Mutex<HashMap<PermitId, HeldAction>>,
    /// Actions being committed, which can be cancelled until they are signed.
    committing: Mutex<HashMap<PermitId, (CallId, ToolCaller)>>,
}

/// Previewed action that waits for commit or withdrawal.
struct HeldAction {
    offer: Offer,
    asker: ToolCaller,
    about: WriteDetails,
}

/// Details of a write for its memory entry.
struct WriteDetails {
    topic: Topic,
    params: Value,
    expected: SafeText,
    spent_cents: u64,
}

impl fmt::Debug for AgentSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSession").field("role", &self.inner.config.role).finish_non_exhaustive()
    }
}

/// Advice of an error about parameters: an agent has no shell in which it could look the schema up.
const SCHEMA_ADVICE: &str = "Correct the parameter that the message names. The schema of the tool lists its parameters; \
                             those of an action or a query are listed with its kind.";

/// Replaces the general advice about parameters, which is for people with a shell, by one that an agent can follow.
fn with_agents_advice(error: ToolError) -> ToolError {
    let code = ErrorCode::ValidationFailed;
    let general = error.code() == code && error.suggestion() == code.suggestion();
    if general { error.suggest(SCHEMA_ADVICE) } else { error }
}

impl AgentSession {
    /// Creates a session.
    ///
    /// # Errors
    /// [`ArchetypeError`] for an unknown role.
    pub fn new(config: AgentConfig) -> Result<Self, ArchetypeError> {
        let role = config.roles.get(&config.role)?;
        let profile = role.selection.profile.map_or(&[][..], categories_of);
        let learning = profile.iter().chain(&role.selection.categories).any(|one| *one == Category::Memory);
        let (heart, held, committing) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let has_stopped_itself = AtomicBool::new(false);
        let inner = Inner { learning, config, heart, has_stopped_itself, held, committing };
        Ok(Self { inner: Arc::new(inner), asker: ToolCaller::Golem })
    }

    /// Returns the same tools for the operator. Their open offers are not withdrawn together with the Golem's.
    #[must_use]
    pub fn for_operator(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), asker: ToolCaller::Operator }
    }

    /// Executor of the concrete tools.
    pub(super) fn executor(&self) -> &Executor {
        &self.inner.config.executor
    }

    /// Configuration of the session.
    pub(super) fn config(&self) -> &AgentConfig {
        &self.inner.config
    }

    /// Returns the concrete tools behind the eight.
    pub fn catalog(&self) -> &Catalog {
        self.inner.config.executor.catalog()
    }

    /// Returns the id of the Golem.
    pub fn golem_id(&self) -> &GolemId {
        &self.inner.config.golem_id
    }

    /// Returns the name of the Golem's role.
    pub fn role(&self) -> &str {
        &self.inner.config.role
    }

    /// Returns the parameter schema of a concrete tool; `null` if the tool set does not contain it.
    pub fn schema_of(&self, tool: &str) -> Value {
        self.catalog().get(tool).map(|entry| entry.input_schema.clone()).unwrap_or_default()
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        *self.inner.config.phase.borrow()
    }

    /// True if memory may adjust tunable parameters: the role has tools of the memory category.
    pub fn learns(&self) -> bool {
        self.inner.learning
    }

    /// Returns the Golem's memory.
    pub fn memory(&self) -> &Memory {
        &self.inner.config.memory
    }

    /// Returns the Golem's documents.
    pub fn documents(&self) -> &Documents {
        &self.inner.config.documents
    }

    /// Returns the address of the acting account; `null` without one.
    pub fn account(&self) -> Value {
        json!(self.inner.config.executor.world().account)
    }

    /// Returns the connected chains as JSON, each with its listed tokens.
    pub fn chains(&self) -> Vec<Value> {
        let chains = self.inner.config.executor.world().chains().iter().map(ConnectedChain::network);
        let told = chains.map(|network| {
            let tokens = network
                .book
                .tokens()
                .iter()
                .map(|token| json!({"symbol": token.symbol, "address": token.address, "decimals": token.decimals}));
            json!({"name": network.name, "chain_id": network.chain_id, "native": network.native_symbol,
                "tokens": tokens.collect::<Vec<_>>()})
        });
        told.collect()
    }

    /// Returns the policy's caps in dollars, with the used and remaining amounts; empty if no policy is in force.
    pub fn caps(&self) -> Vec<Value> {
        let config = &self.inner.config;
        let world = config.executor.world();
        let (Some(rules), Some(account), Some(chain)) = (world.rules_in_force(), world.account, world.chains().first())
        else {
            return Vec::new();
        };
        let (chain_id, caller) = (chain.network().chain_id, &config.golem_id);
        let status = rules.status(chain_id, account, caller, self.phase(), config.clock.now_millis());
        let told = status.map(|status| {
            let caps = status.caps.iter().map(|cap| {
                json!({"rule": cap.rule, "limit": cap.limit.dollars(), "used": cap.used.dollars(),
                    "left": cap.left.dollars(), "frees_in_seconds": cap.frees_in.map(|millis| millis.div_ceil(1_000))})
            });
            caps.collect()
        });
        told.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the remaining caps of the policy");
            Vec::new()
        })
    }

    /// Returns the owner's goal from the configuration.
    pub fn goal(&self) -> Option<&SafeText> {
        self.inner.config.goal.as_ref()
    }

    /// Adds heartbeat numbers to calls from now on. They count from birth as if no heartbeat had been missed, so the
    /// number follows from the clock alone. A heartbeat that is already set stays unchanged.
    pub fn beats(&self, born_at: u64, every: Duration) {
        let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        let _beats_already = self.inner.heart.set((born_at, every));
    }

    /// Returns the number of the current heartbeat; `None` without a heartbeat.
    fn tick(&self) -> Option<u64> {
        let (born_at, every) = self.inner.heart.get()?;
        self.inner.config.clock.now_millis().saturating_sub(*born_at).checked_div(*every)
    }

    /// Builds the call of a concrete tool within the current heartbeat.
    pub(super) fn call_of(&self, tool: &str, params: Value) -> ToolCall {
        ToolCall { tick: self.tick(), ..ToolCall::new(tool, ToolInput::Json(params)) }
    }

    /// Calls one of the eight tools. Every call returns an envelope; any other tool name is unknown, whatever tools
    /// exist.
    pub async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        let call_id = self.inner.config.executor.new_call_id();
        let seen = RedactedParams::names(&params);
        let hash = params_hash(seen.value(), &[]);
        let mut response = self.dispatch(call_id, tool, params).await.unwrap_or_else(|error| {
            self.emit_refused(call_id, tool, seen, hash, &error);
            let blocked = error.code().is_denial() || error.code() == ErrorCode::Halted;
            ToolResponse::failed(call_id, if blocked { CallStatus::Blocked } else { CallStatus::Error }, error)
        });
        response.error = response.error.map(with_agents_advice);
        response
    }

    /// Emits the events of a call that never reached a concrete tool, so that observers see the request and the reason
    /// of its failure.
    fn emit_refused(&self, call_id: CallId, tool: &str, params: RedactedParams, params_hash: B256, error: &ToolError) {
        let tool_name = Cow::Owned(SafeText::clean(tool, 64).to_string());
        for kind in [
            EventKind::ToolStart(ToolStart {
                tool_name,
                params,
                params_hash,
                tick: self.tick(),
                facts: Some(ToolFacts::default()),
            }),
            EventKind::ToolError(ToolFailed::of(error)),
            EventKind::ToolEnd(ToolEnd {
                success: false,
                state: None,
                duration_ms: 0,
                result_summary: Value::Null,
                card: None,
            }),
        ] {
            self.emit(Some(call_id), kind);
        }
    }

    async fn dispatch(&self, call_id: CallId, tool: &str, params: Value) -> Result<ToolResponse, ToolError> {
        match tool {
            "preview_action" => self.preview(typed(params)?).await,
            "commit_action" => self.commit(&typed(params)?).await,
            "cancel_action" => self.cancel(call_id, &typed(params)?).await,
            "query_state" => self.query_state(typed(params)?).await,
            "search_context" => self.search_context(call_id, &typed(params)?),
            "query_grimoire" => self.query_grimoire(call_id, &typed(params)?).await,
            "update_directive" => self.update_directive(call_id, &typed(params)?).await,
            "emergency_halt" => self.emergency_halt(call_id, &typed(params)?).await,
            other => {
                let known = || AGENT_TOOLS.iter().map(|tool| tool.name);
                let what = format_args!("no tool is named `{}`", SafeText::clean(other, 64)).to_string();
                let error = ToolError::new(ErrorCode::ToolUnknown, what)
                    .suggest(format_args!("The tools are {}.", known().collect::<Vec<_>>().join(", ")));
                Err(match nearest(other, known()) {
                    Some(near) => error.detail("nearest", near),
                    None => error,
                })
            }
        }
    }

    /// Returns the roles that a call of `tool` passes through, starting with the Golem's own.
    pub fn delegation(&self, tool: &str) -> Vec<SafeText> {
        let config = &self.inner.config;
        let chain = config.roles.chain(&config.role, tool, &config.all).unwrap_or_default();
        chain.iter().map(|role| SafeText::clean(role, 40)).collect()
    }

    async fn preview(&self, asked: PreviewAction) -> Result<ToolResponse, ToolError> {
        let kind = ActionKind::named(&asked.kind).ok_or_else(|| no_kind(&asked.kind))?;
        let missing = kind.lacks(self.catalog());
        if !missing.is_empty() {
            return Err(lacking(kind.name, &missing, &self.inner.config));
        }
        self.refuse_if_stopped(kind.only_revokes() || kind.keeps_notes())?;
        let executor = &self.inner.config.executor;
        let topic = self.topic(kind.name, &asked.params);
        let softened = self.soften(kind, asked.params, &topic).await?;
        let mut reads = Map::new();
        for tool in kind.reads {
            let params = known_of(self.entry(tool)?, &softened.params);
            let response = executor.call(self.call_of(tool, params)).await;
            if response.status != CallStatus::Success {
                return Ok(response);
            }
            reads.insert((*tool).to_owned(), response.data.unwrap_or_default());
        }
        let params = Value::Object(softened.params);
        let mut about = WriteDetails { topic, expected: SafeText::clean("it would pass", 60), spent_cents: 0, params };
        let asked_by = match self.asker {
            ToolCaller::Operator => AskedBy::Operator,
            ToolCaller::Golem => AskedBy::Agent { why: asked.why.as_deref().map(|why| SafeText::clean(why, WHY)) },
        };
        let call = ToolCall { asked_by, ..self.call_of(kind.acts, about.params.clone()) };
        let offer = match executor.offer(call).await {
            PreviewResult::Held(offer) => *offer,
            PreviewResult::Over(response) => {
                if !kind.keeps_notes() {
                    self.remember(&about, &response).await;
                }
                return Ok(*response);
            }
        };
        let preview = offer.preview();
        about.expected = preview.permit.expected_outcome.clone();
        let cents = preview.values.spent.scaled(2, Rounding::Up).and_then(|cents| u64::try_from(cents).ok());
        about.spent_cents = cents.unwrap_or(u64::MAX);
        if softened.similar > 0 {
            let hits = MemoryHits { similar: softened.similar, changes: softened.changes.clone() };
            self.emit(Some(offer.call_id()), EventKind::MemoryHits(hits));
        }
        let mut data = offer.to_json();
        if let Value::Object(fields) = &mut data {
            fields.insert("kind".to_owned(), json!(kind.name));
            fields.insert("reads".to_owned(), Value::Object(reads));
            fields.insert("delegation".to_owned(), json!(self.delegation(kind.acts)));
            fields.insert("memory".to_owned(), json!({"similar": softened.similar, "changes": softened.changes}));
            if let Some(why) = &asked.why {
                fields.insert("why".to_owned(), json!(SafeText::clean(why, WHY)));
            }
        }
        let explanation = Some(format!("{}; valid until its permit expires", about.expected));
        let call_id = offer.call_id();
        let mut offers = self.held();
        // Expired offers end by themselves.
        offers.retain(|_, held| !held.offer.is_over());
        offers.insert(offer.permit_id(), HeldAction { offer, asker: self.asker, about });
        drop(offers);
        let (data, error, decision_hints) = (Some(data), None, None);
        Ok(ToolResponse { call_id, status: CallStatus::Simulated, data, error, decision_hints, explanation })
    }

    /// Normalizes the topic of an action. Symbols in any case and addresses of a listed token count as the same, and so
    /// do names and ids of a chain. Unlisted tokens and chains stay as given.
    fn topic(&self, kind: &str, params: &Map<String, Value>) -> Topic {
        let world = self.inner.config.executor.world();
        let network = |name: &str| {
            let asked = params.get(name).and_then(Value::as_str)?;
            world.chain(asked).ok().map(ConnectedChain::network)
        };
        let mut topic = Topic::of(kind, &Value::Object(params.clone()));
        let Some(here) = network("chain").or_else(|| network("source_chain")) else { return topic };
        let there = network("destination_chain").unwrap_or(here);
        topic.chain = SafeText::clean(&here.name, 64).to_string();
        for (token, network) in [(&mut topic.token_in, here), (&mut topic.token_out, there)] {
            if let Some(known) = token::spelled(token, network) {
                *token = known;
            }
        }
        topic
    }

    async fn soften(
        &self,
        kind: &ActionKind,
        params: Map<String, Value>,
        topic: &Topic,
    ) -> Result<TunedParameters, ToolError> {
        // What the operator typed is done as it was typed.
        if !self.inner.learning || self.asker == ToolCaller::Operator {
            return Ok(TunedParameters { params, similar: 0, changes: Vec::new() });
        }
        let Inner { config, .. } = &*self.inner;
        config.memory.record_ends(config.clock.now_millis()).await?;
        let last = config.memory.alike(topic, MAX_CONSIDERED)?;
        let most = config.executor.most_slippage(*config.phase.borrow());
        Ok(memory::soften(kind.name, params, &last, most.map(BasisPoints::get)))
    }

    async fn commit(&self, asked: &CommitAction) -> Result<ToolResponse, ToolError> {
        let permit_id = permit_id(&asked.permit_id)?;
        let hash: B256 = asked.simulation_hash.parse().map_err(|_| {
            let what = "parameter `simulation_hash`: expected 0x and 64 hexadecimal digits";
            ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "simulation_hash")
        })?;
        let HeldAction { offer, about, asker: _ } = {
            let mut offers = self.held();
            match offers.remove(&permit_id) {
                None => return Err(self.no_offer(permit_id)),
                Some(held) if held.offer.preview().permit.simulation_hash != hash => {
                    offers.insert(permit_id, held);
                    let what = "the simulation hash does not match this permit; the offer is still open";
                    let suggestion = "Send the `simulation_hash` that the preview answered with, or preview again.";
                    return Err(ToolError::new(ErrorCode::PermitMismatch, what).suggest(suggestion));
                }
                Some(held) => held,
            }
        };
        // A preview that was running when the Golem stopped itself was not among the open offers yet.
        if let Err(error) = self.refuse_if_stopped(offer.preview().simulated.only_revokes) {
            offer.withdraw().await;
            return Err(error);
        }
        self.committing().insert(permit_id, (offer.call_id(), self.asker));
        let response = offer.commit().await;
        self.committing().remove(&permit_id);
        self.remember(&about, &response).await;
        Ok(response)
    }

    async fn cancel(&self, call_id: CallId, asked: &CancelAction) -> Result<ToolResponse, ToolError> {
        let permit_id = permit_id(&asked.permit_id)?;
        let held = self.held().remove(&permit_id);
        if let Some(held) = held {
            held.offer.withdraw().await;
            return Ok(success(call_id, json!({"cancelled": true}), "The offer was withdrawn; nothing was signed."));
        }
        let running = self.committing().get(&permit_id).copied();
        match running {
            Some((running, _)) if self.inner.config.executor.cancel(running) => {
                Ok(success(call_id, json!({"cancelled": true}), "It was cancelled before anything was signed."))
            }
            Some(_) => Err(ToolError::new(ErrorCode::CallInProgress, "it is being signed and cannot be cancelled")),
            None => Err(self.no_offer(permit_id)),
        }
    }

    async fn query_state(&self, asked: QueryState) -> Result<ToolResponse, ToolError> {
        let catalog = self.catalog();
        let named = QueryKind::named(&asked.query).map(|query| (query.name, query.tool)).or_else(|| {
            let entry = catalog.get(asked.query.trim())?;
            let meta = &entry.def.meta;
            (meta.capability == CapabilityTier::Read).then_some((meta.name, meta.name))
        });
        let Some((name, tool)) = named else {
            let known: Vec<_> =
                QUERIES.iter().filter(|query| catalog.get(query.tool).is_some()).map(|query| query.name).collect();
            let what =
                format!("there is no query `{}`; known: {}", SafeText::clean(&asked.query, 40), known.join(", "));
            let error = ToolError::new(ErrorCode::ValidationFailed, what);
            return Err(error.detail("parameter", "query").detail("known", known));
        };
        if catalog.get(tool).is_none() {
            return Err(lacking(name, &[tool], &self.inner.config));
        }
        let params = if tool == ESTIMATE { with_tool_of_kind(asked.params) } else { asked.params };
        Ok(self.inner.config.executor.call(self.call_of(tool, Value::Object(params))).await)
    }

    fn search_context(&self, call_id: CallId, asked: &SearchContext) -> Result<ToolResponse, ToolError> {
        let passages = self.inner.config.documents.search(&asked.query, asked.limit.clamp(1, 50) as usize)?;
        let offers = self.offers();
        let stop = self.inner.config.stop.read().level();
        let said = format!("{} passages; {} offers are open.", passages.len(), offers.len());
        let state = json!({"phase": *self.inner.config.phase.borrow(), "stop": stop, "open_offers": offers});
        Ok(success(call_id, json!({"passages": passages, "state": state}), &said))
    }

    async fn query_grimoire(&self, call_id: CallId, asked: &QueryGrimoire) -> Result<ToolResponse, ToolError> {
        let Inner { config, .. } = &*self.inner;
        config.memory.record_ends(config.clock.now_millis()).await?;
        let hits = config.memory.search(&asked.query, asked.kind, asked.limit.clamp(1, 50) as usize)?;
        let said = format!("{} memories.", hits.len());
        Ok(success(call_id, json!({"hits": hits}), &said))
    }

    async fn update_directive(&self, call_id: CallId, asked: &UpdateDirective) -> Result<ToolResponse, ToolError> {
        for (parameter, text) in [("text", &asked.text), ("reason", &asked.reason)] {
            if text.trim().is_empty() {
                let error = ToolError::new(ErrorCode::ValidationFailed, format_args!("{parameter} is empty"));
                return Err(error.detail("parameter", parameter).suggest("Write what is to stand there, and why."));
            }
        }
        let config = &self.inner.config;
        let now = config.clock.now_millis();
        let delta = config.documents.update(&config.memory, &asked.section, &asked.text, &asked.reason, now).await?;
        let summary = SafeText::clean(&format!("{}: {}", delta.section, delta.reason), 200);
        let changed = DirectiveChanged { delta: delta.delta, summary, undone: false };
        self.emit(Some(call_id), EventKind::DirectiveChanged(changed));
        Ok(success(call_id, json!(delta), "The playbook was changed; the operator can undo the change."))
    }

    /// Undoes a change of the playbook. This is the operator's action, not one of the eight tools.
    ///
    /// # Errors
    /// An error if the change does not exist or the section has changed since.
    pub async fn undo_directive(&self, delta: u64) -> Result<PlaybookDelta, ToolError> {
        let config = &self.inner.config;
        let undone = config.documents.undo(&config.memory, delta, config.clock.now_millis()).await?;
        let summary = SafeText::clean(&format!("undone: {}: {}", undone.section, undone.reason), 200);
        self.emit(None, EventKind::DirectiveChanged(DirectiveChanged { delta, summary, undone: true }));
        Ok(undone)
    }

    async fn emergency_halt(&self, call_id: CallId, asked: &EmergencyHalt) -> Result<ToolResponse, ToolError> {
        let config = &self.inner.config;
        let reason = SafeText::clean(&asked.reason, 300);
        let now = config.clock.now_millis();
        let raised = config
            .stop
            .raise_emergency(reason.as_str(), config.halts_as.as_str(), now, |flatten| self.is_the_operators(flatten));
        let level = match raised.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))? {
            EmergencyOutcome::Raised(in_force) => in_force.level(),
            EmergencyOutcome::Spared(flatten) => return Ok(self.stop_itself(call_id, &reason, &flatten).await),
        };
        // The session that watches the stop file reports this stop like any other.
        let taken_back = self.withdraw_offers().await;
        let (pauses, unread) = self.propose_pauses().await;
        let mut said = "All signing except revocations, cancellations and refunds has stopped; only the operator can lift the stop."
            .to_owned();
        if !pauses.is_empty() {
            said.push_str(" Its managed vaults still run: commit_action with each permit of vault_pauses pauses one, once the operator approves.");
        }
        if !unread.is_empty() {
            said.push_str(" Managed vaults could not be read on every chain; pause them with vault_pause.");
        }
        let data = json!({
            "level": level,
            "stopped": "everything",
            "offers_taken_back": taken_back,
            "vault_pauses": pauses,
            "vaults_not_read": unread,
        });
        Ok(success(call_id, data, &said))
    }

    /// Previews the pause of every vault that the account manages. Returns the previews, or the error of each, and the chains whose
    /// vaults could not be read.
    async fn propose_pauses(&self) -> (Vec<Value>, Vec<String>) {
        let (mut pauses, mut unread) = (Vec::new(), Vec::new());
        let world = self.inner.config.executor.world();
        let Some(account) = world.account else { return (pauses, unread) };
        let known = self.catalog().get("vault_pause").is_some() && world.paper().is_none();
        for chain in world.chains().iter().filter(|_| known) {
            let name = &chain.network().name;
            let Ok(vaults) = to_pause(world, chain, account).await else {
                unread.push(name.clone());
                continue;
            };
            for vault in vaults {
                let mut params = Map::new();
                params.insert("vault_address".to_owned(), json!(vault.to_string()));
                params.insert("chain".to_owned(), json!(chain.network().chain_id.to_string()));
                let asked =
                    PreviewAction { kind: "vault-pause".to_owned(), params, why: Some("emergency halt".to_owned()) };
                let place = json!({"vault_address": vault.to_string(), "chain": name});
                let found = match Box::pin(self.preview(asked)).await {
                    Ok(response) => json!({"data": response.data, "error": response.error}),
                    Err(error) => json!({"error": error}),
                };
                pauses.push(json!({"vault": place, "preview": found}));
            }
        }
        (pauses, unread)
    }

    /// True if the operator set the flatten, or holdings are being sold under it.
    fn is_the_operators(&self, flatten: &Stop) -> bool {
        let world = self.inner.config.executor.world();
        let sells = || Some(world.rules.as_ref()?.is_liquidating(world.account?));
        flatten.by.as_str() == GolemId::operator().as_str() || sells().unwrap_or(false)
    }

    /// Stops only this Golem. The operator's flatten stays in force, and its sales continue.
    async fn stop_itself(&self, call_id: CallId, reason: &SafeText, flatten: &Stop) -> ToolResponse {
        self.inner.has_stopped_itself.store(true, Ordering::SeqCst);
        let words = format!("I stopped myself: {reason}. The operator's {} continues.", flatten.level);
        let text = SafeText::clean(&words, 400);
        self.emit(
            Some(call_id),
            EventKind::GolemThought(GolemThought { thought: 0, text, more: false, report: false }),
        );
        let taken_back = self.withdraw_offers_of(|asker| asker == ToolCaller::Golem).await;
        let data = json!({"level": flatten.level, "stopped": "this Golem", "offers_taken_back": taken_back});
        let said = "You sign only revocations, cancellations and refunds until the operator lifts the stop. The operator's \
                    flatten stays in force, and its sales continue.";
        success(call_id, data, said)
    }

    /// True if the Golem has stopped itself. The operator ends that by lifting the stop.
    pub fn has_stopped_itself(&self) -> bool {
        if self.inner.has_stopped_itself.load(Ordering::SeqCst) && self.inner.config.stop.read() == ActiveStop::None {
            self.inner.has_stopped_itself.store(false, Ordering::SeqCst);
        }
        self.inner.has_stopped_itself.load(Ordering::SeqCst)
    }

    /// Blocks actions of a Golem that has stopped itself, unless they only cancel or revoke.
    ///
    /// # Errors
    /// `HALTED` for a blocked action.
    pub(super) fn refuse_if_stopped(&self, only_revokes: bool) -> Result<(), ToolError> {
        if only_revokes || self.asker == ToolCaller::Operator || !self.has_stopped_itself() {
            return Ok(());
        }
        let error = ToolError::new(ErrorCode::Halted, "you stopped yourself by emergency_halt; nothing was signed");
        Err(error.suggest(
            "You can still revoke allowances and cancel orders. Everything else has to wait until the operator lifts \
             the stop.",
        ))
    }

    /// Withdraws all open offers, and cancels commits that are not signed yet. Returns the number of open offers.
    pub async fn withdraw_offers(&self) -> usize {
        self.withdraw_offers_of(|_| true).await
    }

    /// Withdraws like [`Self::withdraw_offers`], but only what was requested through this session: by the Golem or by
    /// the operator.
    pub async fn withdraw_own(&self) -> usize {
        self.withdraw_offers_of(|asker| asker == self.asker).await
    }

    async fn withdraw_offers_of(&self, of: impl Fn(ToolCaller) -> bool) -> usize {
        let all: Vec<HeldAction> = self.held().extract_if(|_, held| of(held.asker)).map(|(_, held)| held).collect();
        let committing: Vec<CallId> =
            self.committing().values().filter(|(_, asker)| of(*asker)).map(|(call_id, _)| *call_id).collect();
        for call_id in committing {
            // What is being signed runs to its end.
            let _called_off = self.inner.config.executor.cancel(call_id);
        }
        let open = all.iter().filter(|held| !held.offer.is_over()).count();
        for held in all {
            held.offer.withdraw().await;
        }
        open
    }

    /// Returns this session's open offers as JSON, the earliest expiry first.
    pub fn offers(&self) -> Vec<Value> {
        let held = self.held();
        let mut open: Vec<&HeldAction> =
            held.values().filter(|held| held.asker == self.asker && !held.offer.is_over()).collect();
        open.sort_by_key(|held| held.offer.preview().permit.expires_at);
        let told = open.iter().map(|held| {
            let permit = &held.offer.preview().permit;
            json!({
                "permit_id": permit.permit_id, "simulation_hash": permit.simulation_hash,
                "kind": held.about.topic.kind, "expected_outcome": permit.expected_outcome,
                "expires_at": permit.expires_at,
            })
        });
        told.collect()
    }

    /// Returns the number of open offers of the Golem and the operator.
    pub fn open_offers(&self) -> usize {
        self.held().values().filter(|held| !held.offer.is_over()).count()
    }

    async fn remember(&self, about: &WriteDetails, response: &ToolResponse) {
        let config = &self.inner.config;
        let phase = *config.phase.borrow();
        let now = config.clock.now_millis();
        let WriteDetails { topic, params, expected, spent_cents } = about;
        let episode = memory::reflect(topic.clone(), params, expected, *spent_cents, phase, response, now);
        if let Err(error) = config.memory.record(episode).await {
            // The action has happened; a missing memory entry does not change that.
            tracing::warn!(%error, "cannot store an episode");
        }
    }

    /// Returns the reason why no offer is open under a permit.
    fn no_offer(&self, permit_id: PermitId) -> ToolError {
        match self.inner.config.executor.permit_was_used(permit_id) {
            Ok(true) => ToolError::new(ErrorCode::PermitConsumed, format_args!("permit {permit_id} was already used")),
            Ok(false) => ToolError::new(
                ErrorCode::PermitExpired,
                format_args!("no offer is open under {permit_id}: it was withdrawn, has expired, or never existed"),
            ),
            Err(error) => error,
        }
    }

    fn entry(&self, tool: &str) -> Result<&Arc<CatalogEntry>, ToolError> {
        let unknown = || ToolError::new(ErrorCode::ToolUnknown, format_args!("`{tool}` is not in this tool set"));
        self.catalog().get(tool).ok_or_else(unknown)
    }

    fn emit(&self, call_id: Option<CallId>, kind: EventKind) {
        let config = &self.inner.config;
        config.fabric.emit(&config.golem_id, call_id, kind);
    }

    fn held(&self) -> MutexGuard<'_, HashMap<PermitId, HeldAction>> {
        self.inner.held.lock()
    }

    fn committing(&self) -> MutexGuard<'_, HashMap<PermitId, (CallId, ToolCaller)>> {
        self.inner.committing.lock()
    }
}

/// Replaces a kind of action in the parameter `tool` by the tool that acts. Any other name stays: it is the executor's to
/// refuse.
fn with_tool_of_kind(mut params: Map<String, Value>) -> Map<String, Value> {
    let kind = params.get("tool").and_then(Value::as_str).and_then(ActionKind::named);
    if let Some(kind) = kind {
        params.insert("tool".to_owned(), Value::from(kind.acts));
    }
    params
}
