//! Reads: each on a task of its own, within its time budget, cancelled when the caller goes away.

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::call_end::{CallEnd, CallRefusal, ended_badly, failure};
use super::{RunningCall, Shared};
use crate::engine::context::CallContext;
use crate::engine::tool::{ReadJob, ToolReply};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, ToolOverrun};
use bardo_base::model::ToolMeta;

impl Shared {
    /// Runs a read on a task of its own, which isolates the caller from panics and from tools that never yield. An
    /// overrun is reported at the budget; at three times the budget the task is cancelled.
    pub(super) async fn read(
        &self,
        context: &CallContext,
        meta: &ToolMeta,
        started: Instant,
        job: ReadJob,
    ) -> Result<CallEnd, CallRefusal> {
        let mut task = Guard::new(self, context.clone(), started, tokio::spawn(job(context.clone())));
        let budget = meta.tick_budget;
        let joined = match timeout(budget.limit(), &mut task.handle).await {
            Ok(joined) => Some(joined),
            Err(_) => {
                context.emit(EventKind::ToolOverrun(ToolOverrun { budget_ms: budget.limit_millis() }));
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
        let reply = joined.map_err(|error| ended_badly(meta, error))?;
        Ok(CallEnd::success(reply?))
    }
}

/// Running read. Dropping the guard cancels the task and emits its final events.
struct Guard<'a> {
    shared: &'a Shared,
    context: CallContext,
    started: Instant,
    handle: JoinHandle<Result<ToolReply<Value>, ToolError>>,
    over: bool,
}

impl<'a> Guard<'a> {
    fn new(
        shared: &'a Shared,
        context: CallContext,
        started: Instant,
        handle: JoinHandle<Result<ToolReply<Value>, ToolError>>,
    ) -> Self {
        shared.running().insert(context.call_id(), RunningCall::Read(handle.abort_handle()));
        Self { shared, context, started, handle, over: false }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.shared.running().remove(&self.context.call_id());
        if !self.over {
            self.handle.abort();
            let error = ToolError::new(ErrorCode::ToolCancelled, "the caller disconnected");
            self.context.finish(failure(self.started, &error));
        }
    }
}
