//! What a tool gets to work with: the world outside, and a way to say how far it is.

use bardo_base::text::SafeText;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use super::world::World;
use bardo_base::fabric::{EventKind, Fabric, ToolUpdate};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Phase, ToolMeta};
use bardo_base::units::BasisPoints;
use bardo_safety::approval::ApprovalDesk;

/// What one call gets; cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// The world outside.
    pub world: Arc<World>,
    call: Arc<Running>,
}

/// The call as the fabric sees it.
struct Running {
    fabric: Fabric,
    golem_id: GolemId,
    call_id: CallId,
    meta: ToolMeta,
    standing: Standing,
    /// Set when the call has ended: whatever a late task says then is not said.
    over: Mutex<bool>,
}

/// What a call knows of whoever makes it.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The phase it is decided in.
    pub phase: Phase,
    /// Where the operator is asked, where somebody can be asked.
    pub desk: Option<ApprovalDesk>,
    /// Whether the account that acts signs messages for itself. Of one that nobody has named it is taken to.
    pub signs_messages: bool,
    /// The most slippage that phase and policy allow; `None` where no account acts.
    pub max_slippage: Option<BasisPoints>,
}

impl CallContext {
    pub(super) fn new(
        world: Arc<World>,
        fabric: Fabric,
        golem_id: GolemId,
        call_id: CallId,
        meta: ToolMeta,
        standing: Standing,
    ) -> Self {
        let over = Mutex::new(false);
        Self { world, call: Arc::new(Running { fabric, golem_id, call_id, meta, standing, over }) }
    }

    /// The same call in another world.
    pub(super) fn within(&self, world: Arc<World>) -> Self {
        Self { world, call: Arc::clone(&self.call) }
    }

    /// The phase it is decided in, and where the operator is asked.
    pub fn standing(&self) -> &Standing {
        &self.call.standing
    }

    /// The call's id.
    pub fn call_id(&self) -> CallId {
        self.call.call_id
    }

    /// On whose behalf it is made.
    pub fn golem_id(&self) -> &GolemId {
        &self.call.golem_id
    }

    /// What is fixed about the tool.
    pub fn meta(&self) -> &ToolMeta {
        &self.call.meta
    }

    /// Says that a step begins. The name is one of the tool's `progress_steps`; another one is told
    /// with the index 0.
    pub fn step(&self, name: &'static str) {
        let steps = self.call.meta.progress_steps;
        let of = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let unlisted = ToolUpdate { step: SafeText::clean(name, 80), index: 0, of };
        self.say(EventKind::ToolUpdate(ToolUpdate::named(steps, name).unwrap_or(unlisted)));
    }

    /// Says something of this call, unless it is over.
    pub(super) fn say(&self, kind: EventKind) {
        let over = self.call.over.lock();
        if !*over {
            self.call.fabric.emit(&self.call.golem_id, Some(self.call.call_id), kind);
        }
    }

    /// Says the last words of this call.
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
