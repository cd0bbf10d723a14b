//! Context of a tool call: access to chains and ledgers, and progress reports.

use alloy::primitives::Address;
use bardo_base::text::SafeText;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use super::environment::ToolEnvironment;
use super::executor::{Executor, ToolCall};
use super::input::ToolInput;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, Fabric, ToolUpdate};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Phase, ToolMeta};
use bardo_base::units::BasisPoints;
use bardo_safety::approval::ApprovalQueue;
use bardo_safety::pipeline::Preview;
use bardo_safety::proposal::{Proposal, ProposalIntent};
use bardo_store::Store;
use serde_json::Value;

/// Maximum length of a proposal's expected outcome, in characters.
const LONGEST_OUTCOME: usize = 400;

/// Context of one tool call. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// Chains, accounts, services and ledgers that the call can use.
    pub world: Arc<ToolEnvironment>,
    call: Arc<CallIdentity>,
    executor: Executor,
}

/// Identity of the call in the Event Fabric.
struct CallIdentity {
    fabric: Fabric,
    golem_id: GolemId,
    call_id: CallId,
    meta: ToolMeta,
    conditions: CallConditions,
    /// True once the call has ended. Later reports of a leftover task are dropped.
    over: Mutex<bool>,
}

/// Conditions under which a call runs: phase, approval queue, account type and slippage limit.
#[derive(Debug, Clone)]
pub struct CallConditions {
    /// Phase in which the call is decided.
    pub phase: Phase,
    /// Queue for approval requests; `None` if nobody can be asked.
    pub queue: Option<ApprovalQueue>,
    /// True if the account signs messages itself; also true if no account is set up.
    pub signs_messages: bool,
    /// Maximum slippage that phase and policy allow; `None` if no account is set up.
    pub max_slippage: Option<BasisPoints>,
}

impl CallContext {
    pub(super) fn new(
        executor: Executor,
        (world, fabric): (Arc<ToolEnvironment>, Fabric),
        golem_id: GolemId,
        call_id: CallId,
        meta: ToolMeta,
        conditions: CallConditions,
    ) -> Self {
        let over = Mutex::new(false);
        Self { world, call: Arc::new(CallIdentity { fabric, golem_id, call_id, meta, conditions, over }), executor }
    }

    /// Returns the same call with other chains and ledgers.
    pub(super) fn within(&self, world: Arc<ToolEnvironment>) -> Self {
        Self { world, call: Arc::clone(&self.call), executor: self.executor.clone() }
    }

    /// Runs a write of the same executor as a dry run, and returns its preview. The write is a call of its own, with its
    /// own events and its own share of the rate limit, in this call's phase. Its permit is used up by the dry run.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a tool that reads, `TOOL_UNKNOWN` for one that the caller does not have, and the error of
    /// the write.
    pub async fn dry_run(&self, tool: &str, params: Value) -> Result<Arc<Preview>, ToolError> {
        let call = ToolCall {
            dry_run: true,
            phase: Some(self.call.conditions.phase),
            ..ToolCall::new(tool, ToolInput::Json(params))
        };
        self.executor.rehearsed(call).await
    }

    /// Proposal of this call that moves nothing yet and has the account as its only recipient. A tool adds its calls and
    /// what they may change. `outcome` describes in one sentence what is expected.
    pub fn proposal(&self, chain_id: u64, account: Address, intent: ProposalIntent, outcome: &str) -> Proposal {
        Proposal {
            chain_id,
            tool: *self.meta(),
            call_id: self.call_id(),
            golem_id: self.golem_id().clone(),
            account,
            intent,
            legs: Vec::new(),
            outflows: Vec::new(),
            inflows: Vec::new(),
            allowances: Vec::new(),
            trade: None,
            recipients: vec![account],
            order: None,
            files: Vec::new(),
            replaces: None,
            arrival: None,
            expected_outcome: SafeText::clean(outcome, LONGEST_OUTCOME),
        }
    }

    /// Executor that runs the call.
    pub(super) fn executor(&self) -> Executor {
        self.executor.clone()
    }

    /// True if the call was given one endpoint of a chain that has several, because these contradict each other.
    pub fn rests_on_one_of_several(&self, chain_id: u64) -> bool {
        let several = |world: &ToolEnvironment| {
            world.chain(&chain_id.to_string()).is_ok_and(|chain| chain.client.has_several_endpoints())
        };
        several(self.executor.world()) && !several(&self.world)
    }

    /// True if the caller has a tool of this name.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.executor.catalog().get(tool).is_some()
    }

    /// Database in which the caller's notes are kept: that of the ledger, or of the paper ledger in paper mode.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if no database is open.
    pub fn notes(&self) -> Result<Store, ToolError> {
        let on_paper = self.world.paper().map(|paper| paper.ledger.store());
        // Paper mode without a paper ledger has no place of its own, and nothing of it may reach the real one.
        let store = if self.world.is_on_paper() { on_paper } else { self.executor.store() };
        store.cloned().ok_or_else(|| {
            ToolError::new(ErrorCode::StoreUnavailable, "no database is open in which notes could be kept")
        })
    }

    /// Database of the ledger, whether or not paper mode is on.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if no database is open.
    pub fn ledger(&self) -> Result<Store, ToolError> {
        self.executor.store().cloned().ok_or_else(|| ToolError::new(ErrorCode::StoreUnavailable, "no ledger is open"))
    }

    /// Name of the network that the session is on: see [`ToolEnvironment::network_name`].
    pub fn network_name(&self) -> String {
        self.executor.world().network_name()
    }

    /// Conditions under which the call runs.
    pub fn conditions(&self) -> &CallConditions {
        &self.call.conditions
    }

    /// Id of the call.
    pub fn call_id(&self) -> CallId {
        self.call.call_id
    }

    /// Id of the Golem on whose behalf the call runs.
    pub fn golem_id(&self) -> &GolemId {
        &self.call.golem_id
    }

    /// Static metadata of the tool.
    pub fn meta(&self) -> &ToolMeta {
        &self.call.meta
    }

    /// Reports that a step begins. `name` should be one of the tool's `progress_steps`; other names are reported with
    /// index 0.
    pub fn step(&self, name: &'static str) {
        let steps = self.call.meta.progress_steps;
        let of = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let unlisted = ToolUpdate { step: SafeText::clean(name, 80), index: 0, of };
        self.emit(EventKind::ToolUpdate(ToolUpdate::named(steps, name).unwrap_or(unlisted)));
    }

    /// Emits an event of this call, unless the call has ended.
    pub(super) fn emit(&self, kind: EventKind) {
        let over = self.call.over.lock();
        if !*over {
            self.call.fabric.emit(&self.call.golem_id, Some(self.call.call_id), kind);
        }
    }

    /// Emits the final events of this call and marks it as ended.
    pub(super) fn finish(&self, last: impl IntoIterator<Item = EventKind>) {
        let mut over = self.call.over.lock();
        if !*over {
            for kind in last {
                self.call.fabric.emit(&self.call.golem_id, Some(self.call.call_id), kind);
            }
        }
        *over = true;
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("call_id", &self.call.call_id)
            .field("tool", &self.call.meta.name)
            .finish_non_exhaustive()
    }
}
