//! Writes by hand in two steps: previewed and held, then committed by permit and hash. So what the operator looked at is
//! what is signed: the same bytes within the same bounds, or nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use alloy::primitives::B256;
use serde_json::json;

use super::stage::Stage;
use super::tell;
use crate::base::id::PermitId;
use crate::engine::{Call, Offer, Offered, Status, ToolResponse};
use crate::runtime::handle::News;

/// Offers held at once; one that is asked for while another is still being previewed stands beside it.
const MOST_HELD: usize = 4;

/// The offers that wait for the operator's word. Dropped, they are taken back.
#[derive(Debug, Default)]
pub(super) struct Offers {
    held: Mutex<Vec<Offer>>,
}

impl Offers {
    /// Does something with those that are not over. Nothing panics while it holds this lock.
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Offer>) -> T) -> T {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|offer| !offer.is_over());
        change(&mut held)
    }

    /// Takes all back.
    pub(super) fn clear(&self) {
        drop(self.with(std::mem::take));
    }

    fn hold(&self, offer: Offer) {
        let crowded_out = self.with(|held| {
            held.push(offer);
            (held.len() > MOST_HELD).then(|| held.remove(0))
        });
        drop(crowded_out);
    }

    /// The one of this permit, if that was given with this hash.
    fn take(&self, permit_id: PermitId, simulation_hash: B256) -> Result<Offer, String> {
        self.with(|held| {
            let at = held.iter().position(|offer| offer.permit_id() == permit_id);
            let at = at.ok_or("this offer is over: preview it again")?;
            match held.get(at) {
                Some(offer) if offer.preview().permit.simulation_hash == simulation_hash => Ok(held.remove(at)),
                _ => Err("what was shown is not what this permit was given for: nothing was signed".to_owned()),
            }
        })
    }
}

impl Stage {
    /// Previews a write on the operator's behalf and holds it, beside everything else.
    pub(super) async fn offer(self: &Arc<Self>, ticket: u64, call: Call) {
        // One is looked at at a time.
        self.offers.clear();
        let call_id = self.operator.new_call_id();
        tell(&self.news, News::Began { ticket, call_id }).await;
        let stage = Arc::clone(self);
        stage.running.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let response = match stage.operator.offer(Call { call_id: Some(call_id), ..call }).await {
                Offered::Over(response) => *response,
                Offered::Held(offer) => {
                    let response = shown(&offer);
                    // A session that ends holds nothing any more.
                    if !*stage.leaving.borrow() {
                        stage.offers.hold(*offer);
                    }
                    response
                }
            };
            stage.running.fetch_sub(1, Ordering::SeqCst);
            tell(&stage.news, News::Reply { ticket, response: Box::new(response) }).await;
        });
    }

    /// Commits a held offer, beside everything else.
    pub(super) async fn commit(
        self: &Arc<Self>,
        ticket: u64,
        permit_id: PermitId,
        simulation_hash: B256,
    ) -> Result<(), String> {
        let offer = self.offers.take(permit_id, simulation_hash)?;
        tell(&self.news, News::Began { ticket, call_id: offer.call_id() }).await;
        let stage = Arc::clone(self);
        stage.running.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let response = offer.commit().await;
            stage.running.fetch_sub(1, Ordering::SeqCst);
            tell(&stage.news, News::Reply { ticket, response: Box::new(response) }).await;
        });
        Ok(())
    }
}

/// An offer as an envelope, like that of a rehearsed call.
fn shown(offer: &Offer) -> ToolResponse {
    let expected = &offer.preview().permit.expected_outcome;
    ToolResponse {
        call_id: offer.call_id(),
        status: Status::Simulated,
        data: None,
        error: None,
        decision_hints: Some(json!({ "permit": offer.told() })),
        explanation: Some(format!("{expected}; held until its permit ends")),
    }
}
