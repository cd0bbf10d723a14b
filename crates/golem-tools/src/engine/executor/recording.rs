//! Changes of this machine's records: no preview and no signature, so the pipeline does not see them. What applies of the
//! operator's rules is checked here: the list of tools (see `readable`), stops and paper mode.

use tokio::time::timeout;

use super::Shared;
use super::call_end::{CallEnd, CallRefusal, ended_badly};
use crate::engine::context::CallContext;
use crate::engine::tool::ReadJob;
use bardo_base::error::{ErrorCode, ToolError, Violation};
use bardo_base::fabric::{EventKind, ToolOverrun};
use bardo_base::model::{RuleName, ToolMeta};
use bardo_safety::stop;

impl Shared {
    /// Checks that a tool may change records now. One that only takes authority back, or only keeps an agent's notes, may
    /// whatever stop is in force, and in paper mode.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a dry run, `HALTED` under a stop, `SAFETY_NOT_ALLOWED` in paper mode, and
    /// `STORE_UNAVAILABLE` without rules.
    pub(super) fn may_record(&self, meta: &ToolMeta, always_runs: bool, dry_run: bool) -> Result<(), CallRefusal> {
        if dry_run {
            let what = format_args!("{} signs nothing, so there is nothing to rehearse", meta.name);
            let error = ToolError::new(ErrorCode::ValidationFailed, what);
            return Err(error.suggest("Call it without a dry run.").into());
        }
        if always_runs {
            return Ok(());
        }
        let Some(rules) = self.world.rules_in_force() else {
            let what = format_args!("{} needs the operator's rules, and no ledger is open", meta.name);
            return Err(ToolError::new(ErrorCode::StoreUnavailable, what).into());
        };
        if let Some(level) = rules.stop_in_force().level() {
            let violation = Violation::new(
                RuleName::Stop,
                format_args!("{level}: {}", stop::meaning(level)),
                meta.name.to_owned(),
                "the same after the operator resumes",
            );
            let what = format_args!("{level} is in force: {}", stop::meaning(level));
            return Err(ToolError::new(ErrorCode::Halted, what).violating(&[violation]).into());
        }
        if self.world.is_on_paper() {
            let what = format_args!("paper mode is on, and {} would change something real", meta.name);
            let error = ToolError::new(ErrorCode::SafetyNotAllowed, what);
            return Err(error.suggest("Leave paper mode first.").into());
        }
        Ok(())
    }

    /// Runs a change of records on a task of its own, to its end: a caller that goes away does not leave it half done. An
    /// overrun is reported at the budget.
    pub(super) async fn record(
        &self,
        context: &CallContext,
        meta: &ToolMeta,
        job: ReadJob,
    ) -> Result<CallEnd, CallRefusal> {
        let mut task = tokio::spawn(job(context.clone()));
        let budget = meta.tick_budget;
        let joined = match timeout(budget.limit(), &mut task).await {
            Ok(joined) => joined,
            Err(_) => {
                context.emit(EventKind::ToolOverrun(ToolOverrun { budget_ms: budget.limit_millis() }));
                task.await
            }
        };
        Ok(CallEnd::success(joined.map_err(|error| ended_badly(meta, error))??))
    }
}
