//! Writes in two steps: previewed now, and later committed by their permit or withdrawn. Both steps belong to one call,
//! so their events share one call id. An offer that is not committed before its permit expires lapses.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::call_end::CallRefusal;
use super::{Executor, ToolCall, to_json};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, PermitId};
use bardo_base::text::SafeText;
use bardo_safety::approval::{ApprovalQueue, ApprovalRequest, Confirmation};
use bardo_safety::operator_proof::OperatorProof;
use bardo_safety::pipeline::Preview;
use bardo_session::envelope::{CallStatus, ToolResponse};

/// Result of requesting a preview.
#[derive(Debug)]
pub enum PreviewResult {
    /// Previewed action, waiting for commit or withdrawal.
    Held(Box<Offer>),
    /// The call has ended: refused, failed, or one that signs nothing, which has nothing to commit.
    Over(Box<ToolResponse>),
}

/// Previewed action that waits for commit or withdrawal. Dropping it withdraws it.
#[derive(Debug)]
pub struct Offer {
    call_id: CallId,
    preview: Arc<Preview>,
    decision: oneshot::Sender<OfferDecision>,
    running: JoinHandle<ToolResponse>,
}

/// Decision about an offer.
#[derive(Debug)]
pub(super) enum OfferDecision {
    Commit(Option<ManualAnswer>),
    TakeBack,
}

/// Operator's answer to the request about their own action.
#[derive(Debug)]
pub(super) enum ManualAnswer {
    /// Approval, given together with the commit.
    Approve { confirmation: Confirmation, proof: Option<OperatorProof> },
    /// Rejection. With `halt`, trading stops as well.
    Reject { reason: SafeText, halt: bool },
}

/// Receiving side of an offer, owned by the call.
#[derive(Debug)]
pub(super) struct OfferReceiver {
    shown: oneshot::Sender<Arc<Preview>>,
    decision: oneshot::Receiver<OfferDecision>,
}

impl OfferReceiver {
    /// Publishes the preview and waits for the decision.
    pub(super) async fn wait(self, preview: &Arc<Preview>) -> Result<Option<ManualAnswer>, CallRefusal> {
        let over = |status, code: ErrorCode, why: &str| CallRefusal { status, error: ToolError::new(code, why) };
        let gone = || over(CallStatus::Error, ErrorCode::ToolCancelled, "the offer was withdrawn; nothing was signed");
        self.shown.send(Arc::clone(preview)).map_err(|_| gone())?;
        let ends: Instant = preview.permit.expires;
        tokio::select! {
            decision = self.decision => match decision {
                Ok(OfferDecision::Commit(by_hand)) => Ok(by_hand),
                Ok(OfferDecision::TakeBack) | Err(_) => Err(gone()),
            },
            () = sleep_until(ends) => {
                let why = "the offer was not committed in time and has expired; nothing was signed";
                // Every other commit of an expired permit returns the same code.
                Err(over(CallStatus::Blocked, ErrorCode::PermitExpired, why))
            }
        }
    }
}

impl Executor {
    /// Returns true if an action was started under this permit, in this run or an earlier run on the same ledger.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the ledger cannot be read.
    pub fn permit_was_used(&self, permit_id: PermitId) -> Result<bool, ToolError> {
        let Some(acting) = &self.shared.acting else { return Ok(false) };
        acting.pipeline.was_used(permit_id).map_err(|refusal| refusal.error())
    }

    /// Previews a write and ends it as a dry run, so that neither a permit nor a reservation stays behind.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a tool that reads, and the error of the call.
    pub(in crate::engine) async fn rehearsed(&self, call: ToolCall) -> Result<Arc<Preview>, ToolError> {
        if self.catalog().get(&call.tool).is_some_and(|entry| !entry.def.meta.signs()) {
            let what = format_args!("parameter `tool`: {} signs nothing and costs no gas; name a write", call.tool);
            return Err(ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "tool"));
        }
        let (preview, response) = match self.offer(ToolCall { dry_run: true, ..call }).await {
            PreviewResult::Held(offer) => (Some(Arc::clone(&offer.preview)), offer.commit().await),
            PreviewResult::Over(response) => (None, *response),
        };
        match (preview, response.status, response.error) {
            (Some(preview), CallStatus::Simulated, _) => Ok(preview),
            (_, _, Some(error)) => Err(error),
            (_, status, None) => {
                let what = format_args!("the dry run ended as {} without an error", status.as_str());
                Err(ToolError::new(ErrorCode::ToolPanicked, what))
            }
        }
    }

    /// Runs a write up to its preview and holds it there. Needs a tokio runtime.
    pub async fn offer(&self, mut call: ToolCall) -> PreviewResult {
        let (shown, seen) = oneshot::channel();
        let (decision, received) = oneshot::channel();
        let call_id = *call.call_id.get_or_insert_with(|| self.new_call_id());
        let executor = self.clone();
        let running = tokio::spawn(async move {
            executor.call_holding(call, Some(OfferReceiver { shown, decision: received })).await
        });
        match seen.await {
            Ok(preview) => PreviewResult::Held(Box::new(Offer { call_id, preview, decision, running })),
            Err(_) => PreviewResult::Over(Box::new(ended(call_id, running).await)),
        }
    }
}

impl Offer {
    /// Id of the call that the offer belongs to.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Id of the permit that commits the offer.
    pub fn permit_id(&self) -> PermitId {
        self.preview.permit.permit_id
    }

    /// Preview of the action, with the pipeline's findings.
    pub fn preview(&self) -> &Preview {
        &self.preview
    }

    /// Builds the approval request for the operator, whose own action this is.
    pub fn question(&self) -> ApprovalRequest {
        ApprovalQueue::by_hand(Arc::clone(&self.preview))
    }

    /// Preview as JSON, in the form of an envelope.
    pub fn to_json(&self) -> Value {
        to_json::preview(&self.preview)
    }

    /// True if the offer can no longer be committed.
    pub fn is_over(&self) -> bool {
        self.running.is_finished()
    }

    /// Commits the offer: obtains the operator's approval where needed, then signs.
    pub async fn commit(self) -> ToolResponse {
        self.emit(OfferDecision::Commit(None)).await
    }

    /// Commits the offer with the operator's approval, given after reading the preview, so that the operator is not
    /// asked again. The approval queue validates the approval.
    pub async fn commit_approved(self, confirmation: Confirmation, proof: Option<OperatorProof>) -> ToolResponse {
        self.emit(OfferDecision::Commit(Some(ManualAnswer::Approve { confirmation, proof }))).await
    }

    /// Rejects the offer in the operator's name, with their reason, which the audit log records. With `halt`, trading
    /// stops as well.
    pub async fn reject(self, reason: SafeText, halt: bool) -> ToolResponse {
        self.emit(OfferDecision::Commit(Some(ManualAnswer::Reject { reason, halt }))).await
    }

    /// Withdraws the offer.
    pub async fn withdraw(self) -> ToolResponse {
        self.emit(OfferDecision::TakeBack).await
    }

    async fn emit(self, decision: OfferDecision) -> ToolResponse {
        // If the call has already ended, its response says why.
        let _heard = self.decision.send(decision);
        ended(self.call_id, self.running).await
    }
}

async fn ended(call_id: CallId, running: JoinHandle<ToolResponse>) -> ToolResponse {
    running.await.unwrap_or_else(|error| {
        let error = ToolError::new(ErrorCode::ToolPanicked, format_args!("the call failed: {error}"));
        ToolResponse::failed(call_id, CallStatus::Error, error)
    })
}
