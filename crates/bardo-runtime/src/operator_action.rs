//! Actions that the operator starts by a command of its own, outside the tools: each is shown as a decision and needs an
//! approval, whatever the policy says.

use std::sync::Arc;

use bardo_base::error::{ErrorCode, ToolError};
use bardo_safety::approval::{Consent, Decision};
use bardo_safety::pipeline::{CommitOutcome, PipelineRefusal, Preview};
use golem_tools::engine::WriteAccess;

/// Previews an action, asks the operator about it, and commits it. A preview that expires meanwhile is repeated.
///
/// # Errors
/// The refusal of the pipeline, or an error if the operator did not approve.
pub async fn carry_out(
    acting: &WriteAccess,
    preview: impl AsyncFn() -> Result<Preview, PipelineRefusal>,
) -> Result<CommitOutcome, ToolError> {
    let pipeline = &acting.pipeline;
    let preview = async || preview().await.map(Arc::new).map_err(|refusal| refusal.error());
    let mut previewed = preview().await?;
    let mut ticket = pipeline.approval_queue().ask(Arc::clone(&previewed));
    let yes = loop {
        let why = match ticket.decision().await {
            Decision::Approved(yes) => break yes,
            Decision::PermitExpired => {
                previewed = preview().await?;
                ticket.replace(Arc::clone(&previewed));
                continue;
            }
            Decision::Lapsed => {
                ToolError::new(ErrorCode::ApprovalLapsed, "nobody answered in time; nothing was signed")
            }
            Decision::NotAsked(why) => ToolError::new(ErrorCode::ApprovalRefused, why),
            Decision::Edit { .. } => {
                ToolError::new(ErrorCode::ApprovalRefused, "this decision has no amount to change")
            }
            Decision::Withdrawn { reason } => ToolError::new(ErrorCode::Halted, reason),
            Decision::Refused { reason } | Decision::RefusedAndHalted { reason } => {
                ToolError::new(ErrorCode::ApprovalRefused, format_args!("the operator refused: {reason}"))
            }
        };
        return Err(why);
    };
    let permit_id = previewed.permit.permit_id;
    pipeline.commit(permit_id, Consent::Approved(yes)).await.map_err(|refusal| refusal.error())
}
