//! Context of a tool call: access to chains and ledgers, and progress reports.

use bardo_base::text::SafeText;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use super::environment::ToolEnvironment;
use bardo_base::fabric::{EventKind, Fabric, ToolUpdate};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Phase, ToolMeta};
use bardo_base::units::BasisPoints;
use bardo_safety::approval::ApprovalQueue;

/// Context of one tool call. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// Chains, accounts, services and ledgers that the call can use.
    pub world: Arc<ToolEnvironment>,
    call: Arc<CallIdentity>,
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
        world: Arc<ToolEnvironment>,
        fabric: Fabric,
        golem_id: GolemId,
        call_id: CallId,
        meta: ToolMeta,
        conditions: CallConditions,
    ) -> Self {
        let over = Mutex::new(false);
        Self { world, call: Arc::new(CallIdentity { fabric, golem_id, call_id, meta, conditions, over }) }
    }

    /// Returns the same call with other chains and ledgers.
    pub(super) fn within(&self, world: Arc<ToolEnvironment>) -> Self {
        Self { world, call: Arc::clone(&self.call) }
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
