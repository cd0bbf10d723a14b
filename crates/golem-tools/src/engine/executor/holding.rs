//! A write in two steps: previewed now, committed later by its permit, or taken back. One call all the while, so that
//! its events tell one story; what is not committed before its permit ends lapses.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::ending::Refusal;
use super::{Call, Executor, told};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, PermitId};
use bardo_safety::approval::{ApprovalDesk, ApprovalRequest, Confirmation};
use bardo_safety::operator_proof::OperatorProof;
use bardo_safety::pipeline::Preview;
use bardo_session::envelope::{Status, ToolResponse};

/// What came of asking for a preview.
#[derive(Debug)]
pub enum Offered {
    /// It was previewed, and waits for a word.
    Held(Box<Offer>),
    /// The call is over: refused, failed, or a read, which has nothing to commit.
    Over(Box<ToolResponse>),
}

/// A previewed action that waits for a word. Dropped, it is taken back.
#[derive(Debug)]
pub struct Offer {
    call_id: CallId,
    preview: Arc<Preview>,
    word: oneshot::Sender<Word>,
    running: JoinHandle<ToolResponse>,
}

/// What is to become of an offer.
#[derive(Debug)]
pub(super) enum Word {
    Commit(Option<ByHand>),
    TakeBack,
}

/// The operator's approval of an action of their own, given with the word to commit it.
#[derive(Debug)]
pub(super) struct ByHand {
    pub confirmation: Confirmation,
    pub proof: Option<OperatorProof>,
}

/// The call's end of an offer.
#[derive(Debug)]
pub(super) struct Hold {
    shown: oneshot::Sender<Arc<Preview>>,
    word: oneshot::Receiver<Word>,
}

impl Hold {
    /// Shows the preview and waits for the word.
    pub(super) async fn wait(self, preview: &Arc<Preview>) -> Result<Option<ByHand>, Refusal> {
        let over = |status, code: ErrorCode, why: &str| Refusal { status, error: ToolError::new(code, why) };
        let gone = || over(Status::Error, ErrorCode::ToolCancelled, "the offer was withdrawn; nothing was signed");
        self.shown.send(Arc::clone(preview)).map_err(|_| gone())?;
        let ends: Instant = preview.permit.expires;
        tokio::select! {
            word = self.word => match word {
                Ok(Word::Commit(by_hand)) => Ok(by_hand),
                Ok(Word::TakeBack) | Err(_) => Err(gone()),
            },
            () = sleep_until(ends) => {
                let why = "the offer was not committed in time and has expired; nothing was signed";
                // As every other commit of a permit whose time is over.
                Err(over(Status::Blocked, ErrorCode::PermitExpired, why))
            }
        }
    }
}

impl Executor {
    /// Whether something was begun under this permit, in this run or an earlier one on the same ledger.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub fn permit_was_used(&self, permit_id: PermitId) -> Result<bool, ToolError> {
        let Some(acting) = &self.shared.acting else { return Ok(false) };
        acting.pipeline.was_used(permit_id).map_err(|refusal| refusal.error())
    }

    /// Calls a write as far as its preview, and holds it there. Needs a tokio runtime.
    pub async fn offer(&self, mut call: Call) -> Offered {
        let (shown, seen) = oneshot::channel();
        let (word, heard) = oneshot::channel();
        let call_id = *call.call_id.get_or_insert_with(|| self.new_call_id());
        let executor = self.clone();
        let running = tokio::spawn(async move { executor.call_holding(call, Some(Hold { shown, word: heard })).await });
        match seen.await {
            Ok(preview) => Offered::Held(Box::new(Offer { call_id, preview, word, running })),
            Err(_) => Offered::Over(Box::new(ended(call_id, running).await)),
        }
    }
}

impl Offer {
    /// The call it belongs to.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// The permit it is committed by.
    pub fn permit_id(&self) -> PermitId {
        self.preview.permit.permit_id
    }

    /// What would be done, and what the pipeline found.
    pub fn preview(&self) -> &Preview {
        &self.preview
    }

    /// The preview as a question to the operator, whose own action it is.
    pub fn question(&self) -> ApprovalRequest {
        ApprovalDesk::by_hand(Arc::clone(&self.preview))
    }

    /// The preview as an envelope tells it.
    pub fn told(&self) -> Value {
        told::preview(&self.preview)
    }

    /// Whether nobody can commit it any more.
    pub fn is_over(&self) -> bool {
        self.running.is_finished()
    }

    /// Goes on: to the operator's consent where that is needed, then to the signature.
    pub async fn commit(self) -> ToolResponse {
        self.say(Word::Commit(None)).await
    }

    /// Goes on with the operator's approval, where one is needed: they have read the preview, and are not asked again.
    /// The approval queue decides whether it counts.
    pub async fn commit_approved(self, confirmation: Confirmation, proof: Option<OperatorProof>) -> ToolResponse {
        self.say(Word::Commit(Some(ByHand { confirmation, proof }))).await
    }

    /// Takes it back.
    pub async fn take_back(self) -> ToolResponse {
        self.say(Word::TakeBack).await
    }

    async fn say(self, word: Word) -> ToolResponse {
        // The call may be over already: its answer says why.
        let _heard = self.word.send(word);
        ended(self.call_id, self.running).await
    }
}

async fn ended(call_id: CallId, running: JoinHandle<ToolResponse>) -> ToolResponse {
    running.await.unwrap_or_else(|error| {
        let error = ToolError::new(ErrorCode::ToolPanicked, format_args!("the call failed: {error}"));
        ToolResponse::failed(call_id, Status::Error, error)
    })
}
