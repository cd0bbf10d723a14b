//! Delivery of the operator's answers to the approval queue, which alone decides whether they count. Also connects
//! processes without a session, such as a single call, to the ledger's shared queue.

use std::sync::Arc;
use std::time::Duration;

use super::shared::{RemoteAnswer, SharedQueue};
use super::{RequestContext, view_model};
use crate::labels::AddressNames;
use bardo_base::clock::Clock;
use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_base::units::{AmountError, TokenAmount};
use bardo_safety::approval::{AnswerError, ApprovalQueue, Confirmation, OperatorReply};
use bardo_safety::operator_proof::OperatorProof;
use bardo_session::questions::{AnswerKind, OperatorAnswer, Question};
use golem_chain::network::Network;

/// Maximum lifetime of a standing approval, in milliseconds: one day.
const MOST_GRANT: u64 = 86_400_000;

/// Interval of polling for answers of other processes while a request is open.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Returns the reason that an answer of this kind counts only in the process that asks, while an external brain process
/// leads any session on the ledger. The brain runs as the operator's user and can write to the ledger, so an approval
/// there could be its own. Rejections are accepted from anywhere.
pub fn only_here(led: impl FnOnce() -> bool, kind: AnswerKind) -> Option<&'static str> {
    (kind.lets_through() && led()).then_some("a brain process runs there: approve in the console that asks")
}

/// Error: the operator's answer was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefused {
    /// A standing approval of no time, or of more than a day.
    #[error("a standing approval lasts at most 24 hours")]
    GrantTime,
    /// The action sends no amount that could be smaller.
    #[error("only a fixed amount that is sold, sent or bridged can be made smaller")]
    NoAmount,
    /// The amount cannot be read.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// The amount is zero, or not below the one asked for.
    #[error("the amount must be above zero and below the requested one")]
    NotSmaller,
    /// The approval queue rejected the answer.
    #[error(transparent)]
    Queue(#[from] AnswerError),
    /// It counts only where the question is asked; the reason.
    #[error("{0}")]
    OnlyThere(&'static str),
}

/// Delivers an answer to the approval queue; returns a confirmation message.
///
/// # Errors
/// [`AnswerRefused`].
pub fn answer(
    queue: &ApprovalQueue,
    permit: PermitId,
    answer: OperatorAnswer,
    confirmation: Confirmation,
    proof: Option<OperatorProof>,
) -> Result<String, AnswerRefused> {
    if let OperatorAnswer::Smaller { amount } = &answer {
        is_smaller(queue, permit, amount)?;
    }
    let message = answer_message(&answer);
    if let OperatorAnswer::Similar { millis, .. } = answer
        && !(1..=MOST_GRANT).contains(&millis)
    {
        return Err(AnswerRefused::GrantTime);
    }
    let reply = OperatorReply { answer, confirmation };
    queue.answer_proved(permit, reply, proof)?;
    Ok(message)
}

/// Delivers second approvals that other processes received for requests of this one. Returns whether each counts, with a
/// message.
pub async fn take_second_approvals(queue: &ApprovalQueue, shared: &SharedQueue) -> Vec<(bool, String)> {
    let received = match shared.take_second_approvals().await {
        Ok(received) => received,
        Err(error) => {
            tracing::warn!(%error, "cannot read the second approvals of other processes");
            return Vec::new();
        }
    };
    let mut taken = Vec::with_capacity(received.len());
    for (permit_id, signature) in received {
        taken.push(match queue.approve_second(permit_id, signature).await {
            Ok(by) => (true, format!("second approval by {by}, through another process")),
            Err(why) => (false, format!("a second approval through another process was refused: {why}")),
        });
    }
    taken
}

/// Message for an answer.
pub fn answer_message(answer: &OperatorAnswer) -> String {
    match answer.kind() {
        AnswerKind::Once => "approved once",
        AnswerKind::Similar => "approved, with similar actions for a while",
        AnswerKind::Smaller => "a smaller amount was requested",
        AnswerKind::Refuse => "rejected",
        AnswerKind::RefuseAndStop => "rejected, and everything was stopped",
    }
    .to_owned()
}

/// Checks that an edited amount is smaller: the operator may agree to less, never to more.
fn is_smaller(queue: &ApprovalQueue, permit: PermitId, amount: &str) -> Result<(), AnswerRefused> {
    // The approval queue itself rejects answers to ended requests, and records that the operator wanted less.
    let Some(preview) = queue.asked(permit) else { return Ok(()) };
    let (token, most) = preview.payload.proposal().reducible_amount().ok_or(AnswerRefused::NoAmount)?;
    let wanted = TokenAmount::parse(amount, token.decimals)?;
    if wanted.raw().is_zero() || wanted.raw() >= most {
        return Err(AnswerRefused::NotSmaller);
    }
    Ok(())
}

/// View models of the requests on an approval queue, without positions. `context_of` returns known facts about the
/// requesting agent.
pub fn queued_at(
    queue: &ApprovalQueue,
    networks: &[Network],
    paper: bool,
    context_of: impl Fn(&bardo_base::id::GolemId) -> RequestContext,
) -> Vec<Question> {
    let pending = queue.pending();
    let questions = pending.iter().map(|request| {
        let proposal = request.preview.payload.proposal();
        let network = networks.iter().find(|network| network.chain_id == proposal.chain_id);
        let asked = view_model(request, network, 0, paper, context_of(&proposal.golem_id));
        Question { needs_password: queue.needs_proof(), ..asked }
    });
    questions.collect()
}

/// Connects a process without a session to the ledger's shared queue, until the future is dropped.
///
/// Publishes the requests of its approval queue, with the names that this process shows itself, and delivers answers of
/// other processes to it. `report` is called for
/// each such answer with its success and a message.
pub async fn serve_queue(
    queue: ApprovalQueue,
    shared: SharedQueue,
    networks: Vec<Network>,
    names: AddressNames,
    clock: Arc<dyn Clock>,
    paper: bool,
    report: impl Fn(bool, String) + Send,
) {
    let mut changes = queue.watch();
    let mut published = Vec::new();
    loop {
        let mut asked = queued_at(&queue, &networks, paper, |_| RequestContext {
            names: names.clone(),
            ..RequestContext::default()
        });
        for offered in asked.iter_mut().flat_map(|question| &mut question.answers) {
            if let Some(why) = only_here(|| shared.is_led(), offered.kind) {
                offered.why_not = Some(SafeText::clean(why, 80));
            }
        }
        if asked != published {
            match shared.publish(&asked).await {
                Ok(()) => published = asked,
                // Retried at the next poll; meanwhile it can be answered in this process.
                Err(error) => tracing::warn!(%error, "cannot show this process's decisions to other processes"),
            }
        }
        match shared.report(clock.now_millis()).await {
            Ok(rejected) => {
                for one in rejected {
                    published.clear();
                    report(false, format!("{} (offer {}); `bardo log` has the entry", one.why, one.permit_id));
                }
            }
            Err(error) => tracing::warn!(%error, "cannot report invalid rows of the shared queue"),
        }
        for (done, words) in take_second_approvals(&queue, &shared).await {
            report(done, words);
        }
        match shared.remote_answers() {
            Ok(answers) if answers.is_empty() => {}
            Ok(answers) => {
                let answered = answers.iter().map(|one| one.permit_id).collect();
                for RemoteAnswer { permit_id, answer: given, confirmation, by } in answers {
                    let taken = match only_here(|| shared.is_led(), given.kind()) {
                        Some(why) => Err(AnswerRefused::OnlyThere(why)),
                        None => answer(&queue, permit_id, given, confirmation, None),
                    };
                    match taken {
                        Ok(message) => report(true, format!("{message}, in another process ({by})")),
                        Err(why) => {
                            report(false, format!("an answer from another process ({by}) was rejected: {why}"));
                        }
                    }
                }
                // Only now: until the approval queue has the answers, the ledger must keep them.
                match shared.forget(answered).await {
                    // Requests whose answers were rejected are still open, and other processes must see them again.
                    Ok(()) => published.clear(),
                    Err(error) => {
                        tracing::warn!(%error, "cannot remove handled answers of other processes; they are read again")
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the answers of other processes"),
        }
        let asks = !queue.pending().is_empty();
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(POLL_INTERVAL), if asks || !published.is_empty() => {}
        }
    }
}
