//! Manual writes in two steps: previewed and held, then committed by permit and hash. So exactly what the operator saw
//! is signed: the same bytes within the same bounds, or nothing.

use std::sync::Arc;

use alloy::primitives::B256;
use parking_lot::Mutex;
use serde_json::json;

use super::error::{CommandError, OfferError};
use super::send_news;
use super::state::SessionState;
use crate::questions::{ListedAddresses, RequestContext, view_model};
use bardo_base::fabric::AskReason;
use bardo_base::id::PermitId;
use bardo_base::model::StopLevel;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::approval::{ApprovalNeed, ApprovalQueue, is_blocked, requirement};
use bardo_safety::pipeline::Preview;
use bardo_session::handle::SessionNews;
use bardo_session::market::MoneyKind;
use bardo_session::questions::{AnswerKind, Confirmation, OFFER_NUMBER, OperatorAnswer, Question};
use golem_tools::engine::{CallStatus, Offer, PreviewResult, ToolCall, ToolResponse};

/// Maximum number of held offers; a second one can be previewed while another is held.
const MOST_HELD: usize = 4;

/// Offers that wait for the operator. Dropping them withdraws them.
#[derive(Debug, Default)]
pub(super) struct WaitingOffers {
    waiting: Mutex<Vec<WaitingOffer>>,
}

/// An offer, with the ticket of the command that requested it.
#[derive(Debug)]
struct WaitingOffer {
    ticket: u64,
    offer: Offer,
}

impl WaitingOffers {
    /// Does something with those that are not over.
    fn with<T>(&self, change: impl FnOnce(&mut Vec<WaitingOffer>) -> T) -> T {
        let mut waiting = self.waiting.lock();
        waiting.retain(|waiting| !waiting.offer.is_over());
        change(&mut waiting)
    }

    /// Withdraws all offers.
    pub(super) fn clear(&self) {
        drop(self.with(std::mem::take));
    }

    /// Removes and returns the offers that a stop at `level` does not let through.
    fn blocked(&self, level: StopLevel) -> Vec<WaitingOffer> {
        self.with(|waiting| waiting.extract_if(.., |waiting| is_blocked(waiting.offer.preview(), level)).collect())
    }

    /// Holds an offer. Returns the one that it crowds out.
    fn hold(&self, ticket: u64, offer: Offer) -> Option<WaitingOffer> {
        self.with(|waiting| {
            waiting.push(WaitingOffer { ticket, offer });
            (waiting.len() > MOST_HELD).then(|| waiting.remove(0))
        })
    }

    /// Removes and returns the offer of this permit, if its hash matches.
    fn take(&self, permit_id: PermitId, simulation_hash: B256) -> Result<Offer, OfferError> {
        self.with(|waiting| {
            let at = waiting.iter().position(|waiting| waiting.offer.permit_id() == permit_id);
            let at = at.ok_or(OfferError::Over)?;
            match waiting.get(at).map(|waiting| &waiting.offer) {
                Some(offer) if offer.preview().permit.simulation_hash == simulation_hash => {
                    Ok(waiting.remove(at).offer)
                }
                _ => Err(OfferError::Changed),
            }
        })
    }

    /// Removes and returns the offer of this permit, with its ticket.
    fn answered(&self, permit_id: PermitId) -> Option<WaitingOffer> {
        self.with(|waiting| {
            let at = waiting.iter().position(|waiting| waiting.offer.permit_id() == permit_id)?;
            Some(waiting.remove(at))
        })
    }

    /// Reads from the offer of this permit; `None` if there is none.
    fn with_offer<T>(&self, permit_id: PermitId, of: impl FnOnce(&Offer) -> T) -> Option<T> {
        self.with(|waiting| {
            waiting.iter().map(|waiting| &waiting.offer).find(|offer| offer.permit_id() == permit_id).map(of)
        })
    }

    /// True if an offer is held under this permit.
    pub(super) fn has(&self, permit_id: PermitId) -> bool {
        self.with_offer(permit_id, |_| ()).is_some()
    }
}

impl SessionState {
    /// Withdraws the offers that a stop at `level` does not let through.
    pub(super) fn withdraw_blocked(&self, level: StopLevel) {
        self.withdraw(self.control.offers.blocked(level));
    }

    /// Withdraws offers, and tells those who asked for them that they ended.
    fn withdraw(&self, offers: impl IntoIterator<Item = WaitingOffer>) {
        for WaitingOffer { ticket, offer } in offers {
            let news = self.links.news.clone();
            tokio::spawn(async move {
                let response = Box::new(offer.withdraw().await);
                send_news(&news, SessionNews::Reply { ticket, response }).await;
            });
        }
    }

    /// Previews a write on the operator's behalf and holds it, in the background.
    pub(super) async fn offer(self: &Arc<Self>, ticket: u64, call: ToolCall) {
        // Only one offer is reviewed at a time.
        self.withdraw(self.control.offers.with(std::mem::take));
        let call_id = self.sources.operator.new_call_id();
        send_news(&self.links.news, SessionNews::Began { ticket, call_id }).await;
        let (state, again) = (Arc::clone(self), call.clone());
        let task = state.control.running.begin();
        tokio::spawn(async move {
            let (response, question) =
                match state.sources.operator.offer(ToolCall { call_id: Some(call_id), ..call }).await {
                    PreviewResult::Over(response) => (*response, None),
                    PreviewResult::Held(offer) if offer.preview().second.is_some() => {
                        // A second operator must see the request: it goes into the queue that all consoles show.
                        offer.withdraw().await;
                        let call_id = state.sources.operator.new_call_id();
                        let asked = state.sources.operator.call(ToolCall { call_id: Some(call_id), ..again });
                        (asked.await, None)
                    }
                    PreviewResult::Held(offer) => {
                        let (response, question) = (shown(&offer), state.offer_question(&offer));
                        // A session that is ending holds no offers.
                        let holds = !*state.control.leaving.borrow();
                        if holds {
                            state.withdraw(state.control.offers.hold(ticket, *offer));
                        }
                        (response, holds.then_some(question))
                    }
                };
            drop(task);
            send_news(&state.links.news, SessionNews::Reply { ticket, response: Box::new(response) }).await;
            if let Some(question) = question {
                send_news(&state.links.news, SessionNews::Offered { ticket, question: Box::new(question) }).await;
            }
        });
    }

    /// Commits a held offer in the background.
    ///
    /// # Errors
    /// A message if the offer has ended or the hash does not match.
    pub(super) async fn commit(
        self: &Arc<Self>,
        ticket: u64,
        permit_id: PermitId,
        simulation_hash: B256,
    ) -> Result<(), OfferError> {
        let offer = self.control.offers.take(permit_id, simulation_hash)?;
        send_news(&self.links.news, SessionNews::Began { ticket, call_id: offer.call_id() }).await;
        let state = Arc::clone(self);
        let task = state.control.running.begin();
        tokio::spawn(async move {
            let response = offer.commit().await;
            drop(task);
            send_news(&state.links.news, SessionNews::Reply { ticket, response: Box::new(response) }).await;
        });
        Ok(())
    }
}

impl SessionState {
    /// View model of an offer as an approval request, with the answers that a manual action accepts.
    fn offer_question(&self, offer: &Offer) -> Question {
        let request = offer.question();
        let chain_id = request.preview.payload.proposal().chain_id;
        let network =
            self.sources.world.chains().iter().map(|chain| chain.network()).find(|one| one.chain_id == chain_id);
        let listed = self.sources.keeper.as_ref().map(|keeper| ListedAddresses::of(keeper.current().policy.rules()));
        let names = self.links.names.borrow().clone();
        let context = RequestContext { listed: listed.unwrap_or_default(), names, ..RequestContext::default() };
        let mut question = view_model(&request, network, OFFER_NUMBER, self.money() == MoneyKind::Paper, context);
        question.needs_password = self.offer_needs_proof(&request.preview);
        if question.reasons.is_empty() {
            question.reasons.push(AskReason::ByHand);
        }
        // The commit refuses what really conflicts. What may be filled beside it is the operator's to know.
        let open = self.sources.pipeline.as_ref().map(|pipeline| pipeline.open_orders_of_pair(&request.preview));
        for order in open.into_iter().flatten().flatten() {
            question.reasons.push(AskReason::OrderOpen { order: order.hash, owner: order.golem_id });
        }
        for offered in &mut question.answers {
            offered.why_not = match offered.kind {
                AnswerKind::Similar => Some(SafeText::clean("each manual action needs its own decision", 80)),
                AnswerKind::Smaller => Some(SafeText::clean("change the amount in the form and preview again", 80)),
                AnswerKind::Once | AnswerKind::Refuse | AnswerKind::RefuseAndStop => None,
            };
        }
        question
    }

    /// True if approving this manual action needs the password of the account's key, as for a queued request.
    fn offer_needs_proof(&self, preview: &Preview) -> bool {
        let asked = match &preview.needs {
            ApprovalNeed::Delay { .. } | ApprovalNeed::Approval { .. } => true,
            ApprovalNeed::Instant | ApprovalNeed::Notify => false,
        };
        asked && self.sources.queue.as_ref().is_some_and(ApprovalQueue::needs_proof)
    }

    /// Handles the operator's answer to their offer: commits or withdraws it.
    ///
    /// # Errors
    /// A message if the answer does not count.
    pub(super) async fn answer_offer(
        self: &Arc<Self>,
        permit_id: PermitId,
        answer: &OperatorAnswer,
        confirmation: Confirmation,
        password: Option<Password>,
    ) -> Result<String, CommandError> {
        let rejected = match answer {
            OperatorAnswer::Once => None,
            OperatorAnswer::Refuse { reason } => Some((reason, false)),
            OperatorAnswer::RefuseAndStop { reason } => Some((reason, true)),
            OperatorAnswer::Similar { .. } | OperatorAnswer::Smaller { .. } => {
                return Err(OfferError::OnceOnly.into());
            }
        };
        if let Some((reason, halt)) = rejected {
            let WaitingOffer { offer, .. } = self.control.offers.answered(permit_id).ok_or(OfferError::Over)?;
            offer.reject(reason.clone(), halt).await;
            return Ok("rejected: nothing was signed".to_owned());
        }
        // Before the offer is removed: after an incomplete confirmation or a wrong password it must still be open.
        let (requirement, needs_proof) = self
            .control
            .offers
            .with_offer(permit_id, |offer| (requirement(offer.preview()), self.offer_needs_proof(offer.preview())))
            .ok_or(OfferError::Over)?;
        requirement.check(&confirmation).map_err(OfferError::from)?;
        let proof = match needs_proof {
            true => Some(self.prove(self.approving(permit_id)?, password).await?),
            false => None,
        };
        let WaitingOffer { ticket, offer } = self.control.offers.answered(permit_id).ok_or(OfferError::Over)?;
        send_news(&self.links.news, SessionNews::Began { ticket, call_id: offer.call_id() }).await;
        let state = Arc::clone(self);
        let task = state.control.running.begin();
        tokio::spawn(async move {
            let response = offer.commit_approved(confirmation, proof).await;
            drop(task);
            send_news(&state.links.news, SessionNews::Reply { ticket, response: Box::new(response) }).await;
        });
        Ok("approved once".to_owned())
    }
}

/// Response for an offer, like that of a rehearsed call.
fn shown(offer: &Offer) -> ToolResponse {
    let expected = &offer.preview().permit.expected_outcome;
    ToolResponse {
        call_id: offer.call_id(),
        status: CallStatus::Simulated,
        data: None,
        error: None,
        decision_hints: Some(json!({ "permit": offer.to_json() })),
        explanation: Some(format!("{expected}; valid until its permit expires")),
    }
}
